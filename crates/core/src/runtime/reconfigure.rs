//! Changes of classes and scheduler while packets are queued, in three steps: what may fail, what may not, and what may wait.
//!
//! [`prepare`] builds the new scheduler beside the running one. It allocates, it may fail, and it touches nothing.
//! [`Prepared::commit`] moves every surviving leaf's packets over, in order, and the lenders of classes that stay members of
//! pools. It does not allocate and cannot fail. What is left of the old scheduler is [`Retired`], to be freed when there is time.
//!
//! Where the classes are the same ones in the same places, and the scheduler is of the same kind, it goes on with what it has and takes
//! only the new parameters ([`Scheduler::retune`]): queues, tokens, deficits, places in the round, tags and curves stay. A change to what
//! was there before changes nothing at all. Otherwise packets move, and credit and debt within a round start anew: they are
//! below a packet or a quantum.
//!
//! **Cost of a commit.** A step per class, and one enqueue per queued packet where packets move.

use alloc::boxed::Box;
use core::fmt;

use crate::contract::{
    BuildError, ClassId, DropReason, DropSink, Hierarchy, Lender, Leniency, Members, Nanos, OutOfMemory, Packet,
    Scheduler, SchedulerInfo,
};
use crate::parts::memory::slice;

/// A change: what is to run from now on.
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
    /// Old and new id of each class that goes on borrowing from its pool.
    pub pooled: &'a [(ClassId, ClassId)],
}

impl Change<'_> {
    /// The leaf that takes over from `old`, if it survives.
    #[must_use]
    pub fn new_class(&self, old: ClassId) -> Option<ClassId> {
        survivor(self.survivors, old)
    }
}

fn survivor(survivors: &[Option<ClassId>], old: ClassId) -> Option<ClassId> {
    survivors.get(old.index()).copied().flatten()
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
    /// A class that is to go on borrowing from its pool borrows from none.
    NotPooled {
        /// The class as it was.
        old: ClassId,
    },
}

impl fmt::Display for ReconfigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::NotALeaf { old, new } => {
                write!(f, "class {} was to be taken over by class {}, which is not a leaf", old.0, new.0)
            }
            Self::NotPooled { old } => {
                write!(f, "class {} was to go on borrowing from its pool, and borrows from none", old.0)
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
    heirs: Heirs,
    /// Every leaf takes over from the leaf of the same number.
    in_place: bool,
}

/// Which class takes over what from which.
#[derive(Debug)]
struct Heirs {
    survivors: Box<[Option<ClassId>]>,
    pooled: Box<[(ClassId, ClassId)]>,
}

impl fmt::Debug for dyn Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scheduler")
    }
}

/// What a change left over. Dropping it frees memory, which takes time that a data path may not have.
#[derive(Debug)]
#[must_use]
pub struct Retired {
    _scheduler: Box<dyn Scheduler>,
    _heirs: Heirs,
}

/// Stands for a lender until the real one is handed over. It lends nothing, and its box takes no memory.
#[derive(Debug)]
struct Nobody;

impl Lender for Nobody {
    fn may_borrow(&mut self, _now: Nanos) -> Result<(), Nanos> {
        Err(Nanos::MAX)
    }

    fn sent(&mut self, _now: Nanos, _bytes: u32) {}
}

/// Makes the scheduler of `change`. `has_lender` says whether a class of the running scheduler borrows from a pool, as
/// [`Scheduler::has_lender`] does. Nothing else is asked of the running scheduler. So another thread may prepare a change
/// while packets pass.
///
/// # Errors
/// [`ReconfigureError`]. The running scheduler is untouched in any case.
pub fn prepare(change: &Change<'_>, has_lender: impl Fn(ClassId) -> bool) -> Result<Prepared, ReconfigureError> {
    for (index, survivor) in change.survivors.iter().enumerate() {
        if let Some(new) = *survivor
            && !change.tree.is_leaf(new)
        {
            return Err(ReconfigureError::NotALeaf { old: ClassId(index as u32), new });
        }
    }
    if let Some(&(old, _)) = change.pooled.iter().find(|&&(old, _)| !has_lender(old)) {
        return Err(ReconfigureError::NotPooled { old });
    }
    let mut members = Members::new();
    let wanted = change.pooled.len();
    members
        .try_reserve_exact(wanted)
        .map_err(|_| OutOfMemory { bytes: (wanted * size_of::<(ClassId, Nobody)>()) as u64 })?;
    members.extend(change.pooled.iter().map(|&(_, new)| (new, Box::new(Nobody) as Box<dyn Lender>)));
    let survivor_of = |class: usize| survivor(change.survivors, ClassId(class as u32));
    let stays = |class: usize| {
        survivor_of(class) == change.tree.is_leaf(ClassId(class as u32)).then_some(ClassId(class as u32))
    };
    let in_place = change.survivors.len() == change.tree.len() && (0..change.tree.len()).all(stays);
    Ok(Prepared {
        in_place,
        scheduler: change.scheduler.build(change.tree, change.leniency, members)?,
        heirs: Heirs {
            survivors: slice(change.survivors.len(), |old| change.survivors[old])?,
            pooled: slice(change.pooled.len(), |at| change.pooled[at])?,
        },
    })
}

impl Prepared {
    /// Moves what `running` has queued into the new scheduler, which takes its place; or has `running` go on with the new parameters, where
    /// classes and kind of scheduler are the same. Nothing is dropped then, also where a limit is lower now than what is queued.
    ///
    /// Packets of removed classes go to `drops` as [`DropReason::ClassRemoved`] under their old class. Packets that no longer
    /// fit go there with the limit that they hit, under their new class. Nothing else is lost.
    pub fn commit(self, running: &mut Box<dyn Scheduler>, now: Nanos, drops: &mut dyn DropSink) -> Retired {
        let Self { mut scheduler, heirs, in_place } = self;
        let members = (0..heirs.survivors.len()).filter(|&class| running.has_lender(ClassId(class as u32))).count();
        let same_members = members == heirs.pooled.len() && heirs.pooled.iter().all(|(old, new)| old == new);
        if in_place && same_members && running.retune(now, &mut *scheduler) {
            return Retired { _scheduler: scheduler, _heirs: heirs };
        }
        for &(old, new) in &heirs.pooled {
            // Both were looked at when the change was prepared.
            if let Ok(lender) = running.exchange_lender(old, Box::new(Nobody)) {
                let nobody = scheduler.exchange_lender(new, lender);
                debug_assert!(nobody.is_ok(), "class {new:?} was built as a member");
            }
        }
        running.purge(now, &mut |now, packet: Packet, _| match survivor(&heirs.survivors, packet.class) {
            Some(class) => {
                let mut packet = Packet { class, ..packet };
                drops.moved(&mut packet);
                scheduler.enqueue(now, packet, drops);
            }
            None => drops.dropped(now, packet, DropReason::ClassRemoved),
        });
        Retired { _scheduler: core::mem::replace(running, scheduler), _heirs: heirs }
    }

    /// The leaf that takes over from `old`, if it survives.
    pub(crate) fn new_class(&self, old: ClassId) -> Option<ClassId> {
        survivor(&self.heirs.survivors, old)
    }
}
