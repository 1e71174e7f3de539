//! Changes classes while packets are queued: the new scheduler is built beside the old one, every surviving leaf's queue is
//! moved over in order, and the caller swaps. A change that is refused has changed nothing.
//!
//! Cost: that of building the new scheduler and of one enqueue per queued packet. Credit and debt within a round start anew:
//! they are below a packet or a quantum.

use alloc::boxed::Box;
use core::fmt;

use crate::contract::{
    BuildError, ClassId, DropReason, DropSink, Hierarchy, Leniency, Nanos, Packet, Scheduler, SchedulerInfo,
};
use crate::runtime::registry;

/// What is to be.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The scheduler to run from now on.
    pub scheduler: &'static SchedulerInfo,
    /// The classes from now on.
    pub tree: &'a Hierarchy,
    /// What to do with what the scheduler cannot honour.
    pub leniency: Leniency,
    /// By old class id, the leaf that takes over its packets. Classes without an entry are removed. Several may name the
    /// same leaf: the order within each of them is kept.
    pub survivors: &'a [Option<ClassId>],
}

impl Change<'_> {
    /// The leaf that takes over from `old`, if it survives.
    #[must_use]
    pub fn new_class(&self, old: ClassId) -> Option<ClassId> {
        self.survivors.get(old.index()).copied().flatten()
    }
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigureError {
    /// The new scheduler cannot be made.
    Build(BuildError),
    /// A class is to be taken over by something that is not a leaf of the new tree.
    NotALeaf {
        /// The class as it was.
        old: ClassId,
        /// What was to take over.
        new: ClassId,
    },
}

impl fmt::Display for ReconfigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::NotALeaf { old, new } => {
                write!(f, "class {} was to be taken over by class {}, which is not a leaf", old.0, new.0)
            }
        }
    }
}

impl core::error::Error for ReconfigureError {}

impl From<BuildError> for ReconfigureError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

/// Makes the scheduler of `change` and moves what `old` has queued into it; `old` is left empty, to be thrown away.
///
/// Packets of removed classes go to `drops` as [`DropReason::ClassRemoved`] under their old class. Packets that no longer fit
/// go there with the limit that they hit, under their new class; nothing else is lost.
///
/// # Errors
/// [`ReconfigureError`]; `old` is untouched then.
pub fn reconfigure(
    old: &mut dyn Scheduler,
    now: Nanos,
    change: &Change<'_>,
    drops: &mut dyn DropSink,
) -> Result<Box<dyn Scheduler>, ReconfigureError> {
    for (index, survivor) in change.survivors.iter().enumerate() {
        if let Some(new) = *survivor
            && !change.tree.is_leaf(new)
        {
            return Err(ReconfigureError::NotALeaf { old: ClassId(index as u32), new });
        }
    }
    let mut new = registry::build(change.scheduler, change.tree, change.leniency)?;
    old.purge(now, &mut |now, packet: Packet, _| match change.new_class(packet.class) {
        Some(class) => new.enqueue(now, Packet { class, ..packet }, drops),
        None => drops.dropped(now, packet, DropReason::ClassRemoved),
    });
    Ok(new)
}
