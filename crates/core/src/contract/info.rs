//! Names, features and promises of a scheduler, and errors of its construction.

use alloc::boxed::Box;

use super::class::Feature;
use super::error::BuildError;
use super::hierarchy::Hierarchy;
use super::lender::Members;
use super::packet::ClassId;
use super::promises::{Delay, Promises};
use super::scheduler::Scheduler;
use super::sharing::Sharing;
use crate::parts::memory::{one, pause};

/// True if a scheduler sends whenever there is backlog.
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
    /// Returns the value as text for users.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::UnlessLimited => "unless a ceiling binds",
            Self::Never => "no",
        }
    }
}

/// Makes a scheduler.
pub type Build = fn(&Hierarchy, Members) -> Result<Box<dyn Scheduler>, BuildError>;

/// Description of a scheduler: names, source, features and promises.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerInfo {
    /// Its name in files and commands.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// Key of its paper in `docs/papers.md`; empty if there is no paper.
    pub paper: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Features that it honours. A class that sets any other is refused.
    pub features: &'static [Feature],
    /// True if it sends whenever there is backlog.
    pub work_conserving: WorkConserving,
    /// Cost per packet, in the number of leaves and levels.
    pub cost: &'static str,
    /// The long-run sharing rule.
    pub sharing: Sharing,
    /// Guarantees of the scheduler.
    pub promises: Promises,
    /// Upper bound, in bytes, of the memory that building for a tree uses and keeps. It excludes the box itself and the
    /// transmit queue behind the scheduler. Callers use [`SchedulerInfo::memory_for`].
    pub memory: fn(&Hierarchy) -> u64,
    /// Makes one for a tree whose features it supports, or for any tree under [`Leniency::Ignore`]. Each class of the
    /// members is a child of the root and borrows from its lender. Without [`Feature::Pool`] the members are ignored.
    /// Callers use [`SchedulerInfo::build`], which also adds the transmit queue of the link.
    pub build: Build,
}

impl SchedulerInfo {
    /// Returns true if it honours `feature`.
    #[must_use]
    pub fn supports(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Returns true if it is called `name`.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Returns the settings of the classes of `tree` that this scheduler cannot honour. A leaf's burst is honoured if
    /// the scheduler promises a delay for traffic with a burst: the promise then assumes that burst.
    pub fn unsupported(&self, tree: &Hierarchy) -> impl Iterator<Item = (ClassId, Feature)> {
        let takes_burst = matches!(self.promises.delay, Some(Delay::LatencyRate(_) | Delay::Curves { .. }));
        let all = core::iter::once(ClassId::ROOT).chain(tree.classes()).inspect(|class| pause(class.index()));
        all.flat_map(|class| tree.features(class).map(move |feature| (class, feature))).filter(
            move |&(class, feature)| {
                let describes_traffic = takes_burst && feature == Feature::Burst && tree.is_leaf(class);
                !(self.supports(feature) || describes_traffic)
            },
        )
    }
}

/// The treatment of settings that a scheduler cannot honour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leniency {
    /// Refuse.
    Refuse,
    /// Ignore the setting. A scheduler without hierarchy then shares among the leaves by [`Hierarchy::rate_all_busy`].
    Ignore,
}

/// Boxes a scheduler; fails if there is not enough memory.
pub(crate) fn boxed<S: Scheduler + 'static>(scheduler: S) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(one(scheduler)?)
}
