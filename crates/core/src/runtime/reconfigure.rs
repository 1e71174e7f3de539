//! Changes of classes and scheduler while packets are queued, in three steps: fallible, infallible and deferred.
//!
//! [`prepare`] builds the new scheduler beside the running one. It allocates, may fail, and changes nothing.
//! [`Prepared::commit`] moves the packets of every surviving leaf, in order. It does not allocate and cannot fail. The
//! remains of the old scheduler are [`Retired`], to be freed later.
//!
//! If the classes are the same in the same places, and the scheduler is of the same kind, it keeps its state and adopts
//! only the new parameters ([`Scheduler::retune`]): queues, tokens, deficits, places in the round, tags and curves
//! stay. A change to the current configuration has no effect. If classes come, go or have other ids, a scheduler may
//! keep the state of those that stay ([`Scheduler::adopt`]). Otherwise packets move, and credit and debt within a round
//! start anew: they are below a packet or a quantum. The tokens of ceilings start anew as well.
//!
//! **Cost of a commit.** One step per class, and one enqueue per queued packet if packets move.

use alloc::boxed::Box;
use core::fmt;

use crate::contract::{
    BuildError, ClassId, DropReason, DropSink, Hierarchy, Leniency, Members, Nanos, OutOfMemory, Packet, Scheduler,
    SchedulerInfo,
};
use crate::parts::memory::slice;

/// A change: the configuration to run from now on.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The scheduler to run from now on.
    pub scheduler: &'static SchedulerInfo,
    /// The classes from now on.
    pub tree: &'a Hierarchy,
    /// Treatment of settings that the scheduler cannot honour.
    pub leniency: Leniency,
    /// By old class id, the leaf that takes over its packets. Classes without an entry are removed. Several may name the
    /// same leaf: the order within each of them is kept.
    pub survivors: &'a [Option<ClassId>],
}

impl Change<'_> {
    /// Returns the leaf that takes over from `old`, if `old` survives.
    #[must_use]
    pub fn new_class(&self, old: ClassId) -> Option<ClassId> {
        survivor(self.survivors, old)
    }
}

fn survivor(survivors: &[Option<ClassId>], old: ClassId) -> Option<ClassId> {
    survivors.get(old.index()).copied().flatten()
}

/// The reason for which a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigureError {
    /// The new scheduler cannot be made.
    Build(BuildError),
    /// A class is to be taken over by something that is not a leaf of the new tree.
    NotALeaf {
        /// The class as it was.
        old: ClassId,
        /// The class that was to succeed it.
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

impl From<OutOfMemory> for ReconfigureError {
    fn from(error: OutOfMemory) -> Self {
        Self::Build(error.into())
    }
}

/// A change that is ready to be committed.
#[derive(Debug)]
#[must_use]
pub struct Prepared {
    scheduler: Box<dyn Scheduler>,
    survivors: Box<[Option<ClassId>]>,
    /// Every leaf takes over from the leaf of the same number.
    in_place: bool,
}

impl fmt::Debug for dyn Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scheduler")
    }
}

/// The remains of a change. Dropping them frees memory, which may take too long for a data path.
#[derive(Debug)]
#[must_use]
pub struct Retired {
    _scheduler: Box<dyn Scheduler>,
    _survivors: Box<[Option<ClassId>]>,
}

/// Builds the scheduler of `change`, in which each class of `members` borrows from its lender
/// ([`SchedulerInfo::build`]), including those that borrowed from the same pool before. The running scheduler is not
/// accessed. So another thread may prepare a change while packets pass.
///
/// # Errors
/// [`ReconfigureError`].
pub fn prepare(change: &Change<'_>, members: Members) -> Result<Prepared, ReconfigureError> {
    for (index, survivor) in change.survivors.iter().enumerate() {
        if let Some(new) = *survivor
            && !change.tree.is_leaf(new)
        {
            return Err(ReconfigureError::NotALeaf { old: ClassId(index as u32), new });
        }
    }
    let survivor_of = |class: usize| survivor(change.survivors, ClassId(class as u32));
    let stays = |class: usize| {
        survivor_of(class) == change.tree.is_leaf(ClassId(class as u32)).then_some(ClassId(class as u32))
    };
    let in_place = change.survivors.len() == change.tree.len() && (0..change.tree.len()).all(stays);
    Ok(Prepared {
        in_place,
        scheduler: change.scheduler.build(change.tree, change.leniency, members)?,
        survivors: slice(change.survivors.len(), |old| change.survivors[old])?,
    })
}

impl Prepared {
    /// Moves the packets of `running` into the new scheduler, which takes its place. If classes and kind of scheduler
    /// are the same, `running` adopts the new parameters instead; and the new classes, if it can. Then no packet of a
    /// class that stays is dropped, even if a limit is now lower than the backlog, and the sink hears of no packet that
    /// [moves](DropSink::moved).
    ///
    /// Packets of removed classes go to `drops` as [`DropReason::ClassRemoved`] under their old class. Packets that no
    /// longer fit go there with the limit that they hit, under their new class. No other packet is lost.
    pub fn commit(self, running: &mut Box<dyn Scheduler>, now: Nanos, drops: &mut dyn DropSink) -> Retired {
        let Self { mut scheduler, survivors, in_place } = self;
        if in_place && running.retune(now, &mut *scheduler) || running.adopt(now, &mut *scheduler, &survivors, drops) {
            return Retired { _scheduler: scheduler, _survivors: survivors };
        }
        running.purge(now, &mut |now, packet: Packet, _| match survivor(&survivors, packet.class) {
            Some(class) => {
                let mut packet = Packet { class, ..packet };
                drops.moved(&mut packet);
                scheduler.enqueue(now, packet, drops);
            }
            None => drops.dropped(now, packet, DropReason::ClassRemoved),
        });
        Retired { _scheduler: core::mem::replace(running, scheduler), _survivors: survivors }
    }

    /// Returns the leaf that takes over from `old`, if `old` survives.
    pub(crate) fn new_class(&self, old: ClassId) -> Option<ClassId> {
        survivor(&self.survivors, old)
    }
}
