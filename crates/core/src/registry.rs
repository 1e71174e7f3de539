//! All schedulers by name, with what each supports: the one table behind `fairlink schedulers`, the checks of link files,
//! and construction.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::hierarchy::{Feature, Hierarchy};
use crate::packet::ClassId;
use crate::pool::Lender;
use crate::scheduler::Scheduler;
use crate::units::Nanos;
use crate::{
    cbq, corr, drr, drr_plus, drr_plus_plus, drr_plus_plus_mw00, fifo, fq_sds, hdrr, hfsc, hls, hpfq, hrr, htb, rcsp,
    sced, scfq, sfq, virtual_clock, wf2q_plus, wfq, wrr,
};

/// Whether a scheduler sends whenever there is backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkConserving {
    /// Always.
    Always,
    /// Unless a ceiling or another upper limit binds.
    UnlessLimited,
    /// No.
    Never,
}

impl WorkConserving {
    /// In words, as users read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::UnlessLimited => "unless a ceiling binds",
            Self::Never => "no",
        }
    }
}

/// What a scheduler is called, where it comes from, and what it supports and promises.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerInfo {
    /// Its name in files and commands.
    pub name: &'static str,
    /// Key of its paper in `docs/papers.md`; empty where there is none.
    pub paper: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What it honours; anything else that a class sets is refused.
    pub features: &'static [Feature],
    /// Whether it sends whenever there is backlog.
    pub work_conserving: WorkConserving,
    /// Cost per packet, in the number of leaves and levels.
    pub cost: &'static str,
    /// Names of the bounds it promises: `fairness`, `transmission_gap`, `delay`.
    pub bounds: &'static [&'static str],
    /// Makes one for a tree whose features it supports, or for a tree reduced by [`Leniency::Ignore`].
    pub build: fn(&Hierarchy) -> Result<Box<dyn Scheduler>, BuildError>,
}

impl SchedulerInfo {
    /// Whether it honours `feature`.
    #[must_use]
    pub fn supports(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// What the classes of `tree` set that this scheduler cannot honour.
    #[must_use]
    pub fn unsupported(&self, tree: &Hierarchy) -> Vec<(ClassId, Feature)> {
        tree.classes()
            .flat_map(|class| tree.features(class).map(move |feature| (class, feature)))
            .filter(|&(_, feature)| !self.supports(feature))
            .collect()
    }
}

/// Every scheduler, in the order in which they are listed.
pub const SCHEDULERS: &[SchedulerInfo] = &[
    fifo::INFO,
    wrr::INFO,
    corr::INFO,
    hrr::INFO,
    drr::INFO,
    drr_plus::INFO,
    drr_plus_plus::INFO,
    drr_plus_plus_mw00::INFO,
    hdrr::INFO,
    hls::INFO,
    htb::INFO,
    htb::COMMON_DEFICIT,
    cbq::FORMAL,
    cbq::ANCESTOR_ONLY,
    cbq::TOP_LEVEL,
    virtual_clock::INFO,
    scfq::INFO,
    sfq::INFO,
    wfq::INFO,
    wf2q_plus::INFO,
    hpfq::INFO,
    rcsp::INFO,
    sced::INFO,
    hfsc::INFO,
    fq_sds::LDF,
    fq_sds::LDF_SECOND,
    fq_sds::LTO,
    fq_sds::LTO_SECOND,
    fq_sds::LTO_LB,
    fq_sds::LTO_LB_SECOND,
    fq_sds::over_sced::LDF,
    fq_sds::over_sced::LTO,
    fq_sds::over_sced::LTO_LB,
];

/// Other names of schedulers, and the names that they are listed under.
pub const ALIASES: &[(&str, &str)] = &[("pgps", "wfq")];

/// The scheduler of that name, or of which it is another name.
#[must_use]
pub fn find(name: &str) -> Option<&'static SchedulerInfo> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |&(_, name)| name);
    SCHEDULERS.iter().find(|info| info.name == name)
}

/// What to do with what a scheduler cannot honour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leniency {
    /// Refuse.
    Refuse,
    /// Go on without it. A scheduler without hierarchy then shares among the leaves by [`Hierarchy::rate_all_busy`].
    Ignore,
}

/// Why a scheduler could not be made for a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// A class sets something the scheduler cannot honour.
    Unsupported {
        /// The scheduler.
        scheduler: &'static str,
        /// The class.
        class: ClassId,
        /// What it sets.
        feature: Feature,
    },
    /// A class's parameter has a value the scheduler cannot run with.
    Parameter {
        /// The class.
        class: ClassId,
        /// The parameter.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The smallest value taken.
        min: u64,
        /// The largest value taken.
        max: u64,
    },
    /// A class has a service curve that the scheduler cannot compute with.
    Curve {
        /// The class.
        class: ClassId,
        /// What it has, in words.
        what: &'static str,
    },
    /// The curves that are to be guaranteed ask together for more than the link carries.
    NotAdmitted {
        /// The time after which they do, from when all classes become backlogged at once; rounded down.
        fails_at: Nanos,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unsupported { scheduler, class, feature } => {
                write!(f, "class {} sets {}, which {scheduler} cannot honour; ", class.0, feature.as_str())?;
                let mut able = SCHEDULERS.iter().filter(|info| info.supports(feature)).map(|info| info.name).peekable();
                if able.peek().is_none() {
                    return write!(f, "no scheduler here can");
                }
                write!(f, "these can:")?;
                able.try_for_each(|name| write!(f, " {name}"))
            }
            Self::Parameter { class, what, value, min, max } => {
                write!(f, "class {}: {what} of {value} is outside {min} .. {max}", class.0)
            }
            Self::Curve { class, what } => write!(f, "class {} has {what}", class.0),
            Self::NotAdmitted { fails_at } => {
                write!(
                    f,
                    "the real-time curves together ask for more than the link carries, from {fails_at} after all start on"
                )
            }
        }
    }
}

impl core::error::Error for BuildError {}

/// Makes the scheduler `info` for `tree`.
///
/// # Errors
/// [`BuildError::Unsupported`] for the first thing it cannot honour, under [`Leniency::Refuse`]; [`BuildError::Parameter`].
pub fn build(
    info: &'static SchedulerInfo,
    tree: &Hierarchy,
    leniency: Leniency,
) -> Result<Box<dyn Scheduler>, BuildError> {
    refuse(info, tree, leniency)?;
    (info.build)(tree)
}

/// Refuses the first thing in `tree` that `info` cannot honour, unless that is to be ignored.
fn refuse(info: &'static SchedulerInfo, tree: &Hierarchy, leniency: Leniency) -> Result<(), BuildError> {
    let unsupported = || info.unsupported(tree).first().copied();
    match leniency {
        Leniency::Ignore => Ok(()),
        Leniency::Refuse => unsupported()
            .map_or(Ok(()), |(class, feature)| Err(BuildError::Unsupported { scheduler: info.name, class, feature })),
    }
}

/// Makes the scheduler `info` for `tree`, of which each class of `members`, a child of the root, borrows from its lender.
///
/// # Errors
/// As [`build`]. Where there are members and `info` does not honour [`Feature::Pool`]: [`BuildError::Unsupported`] under
/// [`Leniency::Refuse`]; under [`Leniency::Ignore`] it is built without them.
pub fn build_member(
    info: &'static SchedulerInfo,
    tree: &Hierarchy,
    leniency: Leniency,
    members: Vec<(ClassId, Box<dyn Lender>)>,
) -> Result<Box<dyn Scheduler>, BuildError> {
    let Some(&(class, _)) = members.first() else { return build(info, tree, leniency) };
    let feature = Feature::Pool;
    match (info.supports(feature), leniency) {
        (false, Leniency::Ignore) => build(info, tree, leniency),
        (false, Leniency::Refuse) => Err(BuildError::Unsupported { scheduler: info.name, class, feature }),
        (true, _) => {
            refuse(info, tree, leniency)?;
            let common = info.name == htb::COMMON_DEFICIT.name;
            let deficits = if common { htb::Deficits::Common } else { htb::Deficits::PerLevel };
            Ok(Box::new(htb::Htb::new(tree, deficits, members)?))
        }
    }
}
