//! Ceilings: maximum rates of classes.
//!
//! Each class with a ceiling has a token bucket, which is charged for every packet sent below it. A class is *blocked*
//! as soon as its bucket is in debt, and until it is out of debt. It is not in the queue of its parent then. Tags and
//! queues below it stay as they are. It returns like a class that gets a packet.
//!
//! Bound: W(s, t] <= ceiling (t - s) + depth + L for every interval, because a class sends only without debt.
//!
//! Cost: a walk over the ceilings above a leaf per packet, and O(log n) in the number of ceilings for each that blocks.

use alloc::boxed::Box;

use super::NIL;
use super::place::LEAF;
use crate::contract::{ClassConfig, ClassId, Hierarchy, Nanos, OutOfMemory};
use crate::parts::{
    bucket::Bucket,
    heap::Heap,
    memory::{Stack, bytes_of, filled},
};

/// A ceiling.
#[derive(Debug)]
struct Limiter {
    bucket: Bucket,
    /// The class, as its parent knows it.
    child: u32,
    /// The next ceiling on the way to the root.
    above: u32,
}

/// All ceilings of a tree.
#[derive(Debug)]
pub(super) struct Ceilings {
    limiters: Stack<Limiter>,
    /// Classes with a ceiling.
    count: usize,
    /// By class: the nearest ceiling at it or above it. Empty if there are none.
    nearest: Box<[u32]>,
    /// The first limiter of a class that was removed; [`NIL`] if none. The next one is above it.
    spare: u32,
    /// Ceilings in debt, by when they are out of it; equal times by their numbers.
    waits: Heap,
}

fn count(tree: &Hierarchy) -> usize {
    tree.classes().filter(|&class| tree.config(class).ceiling.is_some()).count()
}

/// The depth of the bucket of `class` in bytes, where the tree sets none: that of a class that loses none of its ceiling.
///
/// A bucket loses tokens only while it is full. A class with a ceiling of at most its guarantee is served late by less than
/// L (2.6 k + 1) bytes on level k (docs/hvt.md), and its tokens reach no more. The rest is for ceilings above it, which take
/// less than another packet's time each.
fn depth(tree: &Hierarchy, class: ClassId) -> u64 {
    u64::from(tree.link().max_packet) * Ceilings::packets_of(tree.depth(class))
}

impl Ceilings {
    /// Makes those of `tree`, and room for those of `room` more leaves. `child` names a class as its parent knows it.
    pub(super) fn new(tree: &Hierarchy, room: usize, child: impl Fn(ClassId) -> u32) -> Result<Self, OutOfMemory> {
        let count = count(tree);
        let mut limiters = Stack::with_room(count + room)?;
        let mut nearest = filled(if count + room > 0 { tree.len() + room } else { 0 }, NIL)?;
        let waits = Heap::new(count + room)?;
        for class in tree.classes().filter(|_| count > 0) {
            let above = nearest[tree.parent(class).unwrap_or(ClassId::ROOT).index()];
            let config = tree.config(class);
            nearest[class.index()] = above;
            if let Some(ceiling) = config.ceiling {
                nearest[class.index()] = limiters.len() as u32;
                let depth = config.ceiling_burst.unwrap_or_else(|| depth(tree, class));
                limiters.push(Limiter { bucket: Bucket::new(ceiling, depth), child: child(class), above });
            }
        }
        Ok(Self { limiters, count, nearest, spare: NIL, waits })
    }

    /// Largest packets in the bucket of a class on level `depth`, where the tree sets none; see [`depth`].
    pub(super) const fn packets_of(depth: usize) -> u64 {
        4 * depth as u64 + 1
    }

    /// Returns true if there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.spare != NIL || !self.limiters.is_full()
    }

    /// Adds a leaf of `parent`, and its ceiling if it has one. `depth` is that of its bucket, where `config` sets none.
    pub(super) fn add(&mut self, (leaf, parent): (u32, ClassId), config: &ClassConfig, depth: u64) {
        let Some(&above) = self.nearest.get(parent.index()) else { return };
        self.nearest[leaf as usize] = above;
        let Some(ceiling) = config.ceiling else { return };
        let bucket = Bucket::new(ceiling, config.ceiling_burst.unwrap_or(depth));
        let limiter = Limiter { bucket, child: leaf | LEAF, above };
        self.nearest[leaf as usize] = if self.spare == NIL {
            self.limiters.push(limiter);
            self.limiters.len() as u32 - 1
        } else {
            let place = &mut self.limiters[self.spare as usize];
            let id = self.spare;
            self.spare = core::mem::replace(place, limiter).above;
            id
        };
        self.count += 1;
    }

    /// Removes a class, and its ceiling if it has one.
    pub(super) fn remove(&mut self, class: ClassId, child: u32) {
        let Some(nearest) = self.nearest.get_mut(class.index()) else { return };
        let id = core::mem::replace(nearest, NIL);
        let Some(limiter) = self.limiters.get_mut(id as usize).filter(|limiter| limiter.child == child) else { return };
        (limiter.child, limiter.above) = (NIL, self.spare);
        self.spare = id;
        self.waits.remove(id);
        self.count -= 1;
    }

    /// Bytes that those of `tree` take.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        match count(tree) {
            0 => 0,
            count => bytes_of::<Limiter>(count) + bytes_of::<u32>(tree.len()) + Heap::memory(count),
        }
    }

    /// Returns true if there are none.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Charges the ceilings at and above `leaf` for a packet of `len` bytes, and calls `blocked` with each class whose bucket
    /// is now in debt.
    #[inline]
    pub(super) fn charge(&mut self, leaf: u32, len: u32, now: Nanos, mut blocked: impl FnMut(u32)) {
        let mut at = self.nearest.get(leaf as usize).copied().unwrap_or(NIL);
        while at != NIL {
            let limiter = &mut self.limiters[at as usize];
            limiter.bucket.refill(now);
            limiter.bucket.take(len);
            if !limiter.bucket.is_ready() {
                let key = u128::from(limiter.bucket.ready_at().0) << u32::BITS | u128::from(at);
                self.waits.set(at, key);
                blocked(limiter.child);
            }
            at = limiter.above;
        }
    }

    /// Returns a class whose bucket is out of debt by `now`, each once.
    #[inline]
    pub(super) fn release(&mut self, now: Nanos) -> Option<u32> {
        if self.next()? > now {
            return None;
        }
        let (limiter, _) = self.waits.pop()?;
        Some(self.limiters[limiter as usize].child)
    }

    /// Returns the time at which the next bucket is out of debt.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<Nanos> {
        self.waits.first().map(|(_, key)| Nanos((key >> u32::BITS) as u64))
    }

    /// Returns the classes with a ceiling at or above `leaf`, as their parents know them.
    pub(super) fn above(&self, leaf: u32) -> impl Iterator<Item = u32> {
        let limiter = |&at: &u32| self.limiters.get(at as usize);
        let nearest = self.nearest.get(leaf as usize).and_then(limiter);
        core::iter::successors(nearest, move |at| limiter(&at.above)).map(|limiter| limiter.child)
    }

    /// Returns true if [`Ceilings::retune`] can be done: the same classes have ceilings.
    pub(super) fn fits(&self, with: &Self) -> bool {
        self.nearest == with.nearest
    }

    /// Adopts the rates and depths of `with` from `now` on. Debts stay.
    pub(super) fn retune(&mut self, with: &Self, now: Nanos) {
        for (id, theirs) in (0u32..).zip(with.limiters.iter()) {
            let mine = &mut self.limiters[id as usize];
            mine.bucket.retune(now, &theirs.bucket);
            // A class that is due keeps its turn.
            if self.waits.key(id).is_some_and(|key| key >> u32::BITS > u128::from(now.0)) {
                let at = mine.bucket.ready_at();
                self.waits.set(id, u128::from(at.0) << u32::BITS | u128::from(id));
            }
        }
    }

    /// Takes the debts and the credits of `old`, with the rates and depths of these from `now` on. `heir` returns the
    /// class that a child is, as its parent knows it and as the tree does.
    pub(super) fn take_over(&mut self, old: &Self, now: Nanos, heir: impl Fn(u32) -> Option<(u32, ClassId)>) {
        for (id, limiter) in (0u32..).zip(old.limiters.iter()) {
            let Some((child, class)) = heir(limiter.child) else { continue };
            let at = self.nearest.get(class.index()).copied().unwrap_or(NIL);
            let Some(own) = self.limiters.get_mut(at as usize).filter(|own| own.child == child) else { continue };
            let mut bucket = limiter.bucket;
            bucket.retune(now, &own.bucket);
            own.bucket = bucket;
            if let Some(key) = old.waits.key(id) {
                // A class that is due keeps its turn.
                let was = (key >> u32::BITS) as u64;
                let ready = if was > now.0 { bucket.ready_at().0 } else { was };
                self.waits.set(at, u128::from(ready) << u32::BITS | u128::from(at));
            }
        }
    }

    /// Calls `visit` with each class whose bucket is in debt, as its parent knows it.
    pub(super) fn for_each_waiting(&self, mut visit: impl FnMut(u32)) {
        let waiting = (0u32..).zip(self.limiters.iter()).filter(|&(id, _)| self.waits.contains(id));
        waiting.for_each(|(_, limiter)| visit(limiter.child));
    }

    pub(super) fn reset(&mut self) {
        self.waits.clear();
        self.limiters.iter_mut().for_each(|limiter| limiter.bucket.reset());
    }

    /// Returns true if the ceiling of `child` waits for its bucket.
    #[cfg(feature = "invariants")]
    pub(super) fn waits_for(&self, child: u32) -> bool {
        (0u32..).zip(self.limiters.iter()).any(|(id, limiter)| limiter.child == child && self.waits.contains(id))
    }
}
