//! All schedulers by name, with what each supports: the one table behind `fairlink schedulers`, the checks of link files,
//! and construction.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::contract::{BuildError, ClassId, Feature, Hierarchy, Lender, Leniency, Scheduler, SchedulerInfo};
use crate::schedulers::{
    cbq, corr, drr, drr_plus, drr_plus_plus, drr_plus_plus_mw00, fifo, fq_sds, hdrr, hfsc, hls, hpfq, hrr, htb, rcsp,
    sced, scfq, sfq, virtual_clock, wf2q_plus, wfq, wrr,
};

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
