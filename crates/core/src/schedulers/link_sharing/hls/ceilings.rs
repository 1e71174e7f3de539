//! Ceilings: maximum rates of classes under HLS, which its paper names as future work.
//!
//! Each class with a ceiling has a token bucket from which every packet sent below it is taken. A class is *blocked*
//! while its bucket is in debt. This is decided once per round, as the set of active classes is. So within a round a
//! class sends its whole quota or nothing, and its leaves share by their weights also while the ceiling holds them
//! back. A leaf that is visited while a class above it is blocked is *parked*: it leaves the active set as if it had
//! gone idle, and its share of further rounds goes to others at once. It returns at the first round that starts after
//! the bucket is out of debt. It has then the balance that it had, which the root keeps meanwhile. Without that, a leaf
//! whose quota is just below its packet would never send.
//!
//! Bound: W(s, t] <= ceiling (t - s) + depth + A for every interval, where A bounds what a class may send in one round:
//! A-bar of Lemma 7 in \[hls\].
//!
//! Cost: a walk over the ceilings above a leaf per visit and packet, and O(log n) in the number of ceilings each time
//! one blocks and frees its leaves. Leaves without a ceiling above them pay for one test of a bit.

use alloc::boxed::Box;

use super::{CREDITS_PER_BYTE, NIL, RunWeights};
use crate::contract::{ClassId, Hierarchy, LinkConfig, Nanos, OutOfMemory, Rate};
use crate::parts::{
    bucket::Bucket,
    heap::Heap,
    memory::{Stack, bytes_of, filled},
};

#[derive(Debug)]
struct Limiter {
    bucket: Bucket,
    /// The next ceiling on the way to the root.
    above: u32,
    /// The round that `blocked` was decided in.
    round: u64,
    blocked: bool,
    first_parked: u32,
    last_parked: u32,
}

/// All ceilings of a tree, and the leaves that they hold back.
#[derive(Debug)]
pub(super) struct Ceilings {
    limiters: Stack<Limiter>,
    /// By class: the nearest ceiling at it or above it.
    nearest: Box<[u32]>,
    /// By class: the leaf that was parked next, and the balance to return with.
    parked: Box<[(u32, i64)]>,
    /// Ceilings that leaves wait for, by when they are out of debt; equal times by their numbers.
    waits: Heap,
}

/// Classes with a ceiling.
fn ceilings(tree: &Hierarchy) -> usize {
    tree.classes().filter(|&class| tree.config(class).ceiling.is_some()).count()
}

/// What the link sends at most in the longest time that a leaf may wait for its visit (Theorem 5), in bytes. The same for all
/// ceilings of a tree: computed once, not once for each of them.
fn longest_gap(tree: &Hierarchy, weights: &RunWeights) -> u128 {
    let weight: u64 = tree.classes().map(|class| weights.credits(class) / CREDITS_PER_BYTE + 1).sum();
    2 * (u128::from(weight) + u128::from(tree.link().max_packet) * tree.leaves().len() as u128)
}

/// Depth of a ceiling's bucket where the user gives none: the largest packet, and what the ceiling brings while the link sends
/// `gap` bytes, which is [`longest_gap`]. Less would cost rate.
fn default_depth(link: LinkConfig, gap: u128, ceiling: Rate) -> u64 {
    let brought = gap * u128::from(ceiling.bps()) / u128::from(link.rate.bps());
    u64::from(link.max_packet) + u64::try_from(brought).unwrap_or(u64::MAX / 2)
}

impl Ceilings {
    pub(super) fn new(tree: &Hierarchy, weights: &RunWeights) -> Result<Self, OutOfMemory> {
        let count = ceilings(tree);
        let classes = if count > 0 { tree.len() } else { 0 };
        let mut limiters = Stack::with_room(count)?;
        let (mut nearest, parked) = (filled(classes, NIL)?, filled(classes, (NIL, 0))?);
        let waits = Heap::new(count)?;
        if count == 0 {
            return Ok(Self { limiters, nearest, parked, waits });
        }
        let gap = longest_gap(tree, weights);
        for class in tree.classes() {
            let above = tree.parent(class).map_or(NIL, |parent| nearest[parent.index()]);
            let config = tree.config(class);
            nearest[class.index()] = above;
            if let Some(ceiling) = config.ceiling {
                nearest[class.index()] = limiters.len() as u32;
                let depth = config.ceiling_burst.unwrap_or_else(|| default_depth(tree.link(), gap, ceiling));
                limiters.push(Limiter {
                    bucket: Bucket::new(ceiling, depth),
                    above,
                    round: 0,
                    blocked: false,
                    first_parked: NIL,
                    last_parked: NIL,
                });
            }
        }
        Ok(Self { limiters, nearest, parked, waits })
    }

    /// Bytes that those of `tree` take.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        let count = ceilings(tree);
        if count == 0 {
            return 0;
        }
        bytes_of::<Limiter>(count)
            + bytes_of::<u32>(tree.len())
            + bytes_of::<(u32, i64)>(tree.len())
            + Heap::memory(count)
    }

    /// Whether packets of `class` count against a ceiling.
    pub(super) fn is_limited(&self, class: ClassId) -> bool {
        self.nearest.get(class.index()).is_some_and(|&limiter| limiter != NIL)
    }

    /// The nearest ceiling above `leaf` that is blocked in `round`.
    pub(super) fn blocks(&mut self, leaf: u32, round: u64, now: Nanos) -> Option<u32> {
        let mut at = self.nearest[leaf as usize];
        while at != NIL {
            let limiter = &mut self.limiters[at as usize];
            if limiter.round != round {
                limiter.round = round;
                limiter.bucket.refill(now);
                limiter.blocked = !limiter.bucket.is_ready();
            }
            if limiter.blocked {
                return Some(at);
            }
            at = limiter.above;
        }
        None
    }

    /// A packet of `leaf` was sent.
    pub(super) fn sent(&mut self, leaf: u32, bytes: u32, now: Nanos) {
        let mut at = self.nearest[leaf as usize];
        while at != NIL {
            let limiter = &mut self.limiters[at as usize];
            limiter.bucket.refill(now);
            limiter.bucket.take(bytes);
            at = limiter.above;
        }
    }

    /// `leaf` waits until the ceiling `limiter` is out of debt, and will return with `balance`.
    pub(super) fn park(&mut self, leaf: u32, balance: i64, limiter: u32) {
        self.parked[leaf as usize] = (NIL, balance);
        let entry = &mut self.limiters[limiter as usize];
        if entry.last_parked == NIL {
            entry.first_parked = leaf;
        } else {
            self.parked[entry.last_parked as usize].0 = leaf;
        }
        entry.last_parked = leaf;
        if !self.waits.contains(limiter) {
            self.waits.set(limiter, u128::from(entry.bucket.ready_at().0) << u32::BITS | u128::from(limiter));
        }
    }

    /// A ceiling that is out of debt by `now`: its first parked leaf, from which [`Ceilings::next_parked`] leads on.
    pub(super) fn wake(&mut self, now: Nanos) -> Option<u32> {
        if self.next_wake()? > now {
            return None;
        }
        let (limiter, _) = self.waits.pop()?;
        let entry = &mut self.limiters[limiter as usize];
        entry.last_parked = NIL;
        Some(core::mem::replace(&mut entry.first_parked, NIL))
    }

    /// The leaf that was parked after `leaf` at the same ceiling.
    pub(super) fn next_parked(&self, leaf: u32) -> Option<u32> {
        let next = self.parked[leaf as usize].0;
        (next != NIL).then_some(next)
    }

    /// The balance that `leaf` had when it was parked; zero from then on.
    pub(super) fn take_balance(&mut self, leaf: u32) -> i64 {
        self.parked.get_mut(leaf as usize).map_or(0, |(_, balance)| core::mem::take(balance))
    }

    /// When the next ceiling is out of debt, if leaves wait for one.
    pub(super) fn next_wake(&self) -> Option<Nanos> {
        self.waits.first().map(|(_, key)| Nanos((key >> u32::BITS) as u64))
    }

    pub(super) fn reset(&mut self) {
        self.waits.clear();
        self.parked.fill((NIL, 0));
        for limiter in self.limiters.iter_mut() {
            limiter.bucket.reset();
            (limiter.round, limiter.blocked) = (0, false);
            (limiter.first_parked, limiter.last_parked) = (NIL, NIL);
        }
    }
}
