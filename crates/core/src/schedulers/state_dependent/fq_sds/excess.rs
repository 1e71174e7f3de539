//! Distribution of the bandwidth beyond the guarantees: the state-dependent schedulers of \[sds\] Section II-C.

#[cfg(feature = "invariants")]
use alloc::string::String;

use crate::contract::{Amount, ClassId, Hierarchy, LeakyBuckets, NANOS_PER_SEC, Nanos, OutOfMemory};
use crate::parts::{
    heap::Heap,
    memory::{Stack, bytes_of},
    virtual_time::Pace,
};

use super::TIME_PER_BIT_S;

/// The choice of the class that gets the excess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// LDF: the longest delay, Q_i / g_i.
    LongestDelay,
    /// LTO: the least time to overflow, D_i - Q_i / g_i.
    LeastTimeToOverflow,
    /// LTO.LB: of the classes that may overflow, the one that would do so first.
    LeakyBucket,
}

const BASE: u128 = 1 << 120;
/// Work of a rate of 1 bit/s in 1 ns, in a byte.
const LEVEL_PER_BYTE: u128 = 8 * NANOS_PER_SEC as u128;

/// A class, as far as its state decides on the excess.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    /// Time that a byte takes at the guarantee.
    pub(super) pace: Pace,
    /// D_i, in 2^-16 ns.
    pub(super) max_delay: u128,
    /// Range of the class's buckets among those of all classes.
    buckets: (u32, u32),
    /// Time that a byte takes at the peak rate, the least of all buckets.
    peak: Pace,
}

/// The amount that the class may still send at its peak rate: arrivals empty the bucket, and its level never goes below
/// zero. Delta B_i is the least of the class's buckets.
#[derive(Clone, Copy, Debug)]
struct Burst {
    depth: u128,
    level: u128,
    rate: u128,
    updated: Nanos,
}

impl Burst {
    fn advance(&mut self, now: Nanos) {
        let span = now.saturating_sub(self.updated).0;
        self.level = self.depth.min(self.level + self.rate * u128::from(span));
        self.updated = self.updated.max(now);
    }

    /// Time from which the level is above `bytes`, if ever.
    fn above(&self, bytes: u64) -> Option<u128> {
        let bytes = u128::from(bytes) * LEVEL_PER_BYTE;
        if bytes >= self.depth {
            return None;
        }
        let missing = (bytes + 1).saturating_sub(self.level);
        Some(u128::from(self.updated.0) + missing.div_ceil(self.rate))
    }
}

/// The backlogged classes in the order in which they get the excess.
#[derive(Debug)]
pub(super) struct Excess {
    policy: Policy,
    second: bool,
    order: Heap,
    /// For the leaky-bucket policy: the classes that may overflow, in the same order, and the others by the time from
    /// which they may.
    risky: Heap,
    safe: Heap,
    /// The buckets of all classes, class by class.
    bursts: Stack<Burst>,
}

/// Number of buckets of all classes of `tree`; a class without one counts as one.
fn buckets(tree: &Hierarchy) -> usize {
    (0..tree.len()).map(|index| tree.config(ClassId(index as u32)).leaky_buckets.iter().count().max(1)).sum()
}

impl Excess {
    pub(super) fn new(policy: Policy, second: bool, tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let (more, buckets) = if policy == Policy::LeakyBucket { (tree.len(), buckets(tree)) } else { (0, 0) };
        Ok(Self {
            policy,
            second,
            order: Heap::new(tree.len())?,
            risky: Heap::new(more)?,
            safe: Heap::new(more)?,
            bursts: Stack::with_room(buckets)?,
        })
    }

    /// Memory of an instance, in bytes; of the leaky-bucket policy if `LEAKY_BUCKETS`.
    pub(super) fn memory<const LEAKY_BUCKETS: bool>(tree: &Hierarchy) -> u64 {
        let order = Heap::memory(tree.len());
        if LEAKY_BUCKETS { 3 * order + bytes_of::<Burst>(buckets(tree)) } else { order + 2 * Heap::memory(0) }
    }

    /// Makes the state of a class whose traffic conforms to all of `buckets`, of which there is at least one. To be
    /// called once for each class of the tree.
    pub(super) fn session(&mut self, pace: Pace, max_delay: u128, buckets: LeakyBuckets) -> Session {
        let first = self.bursts.len() as u32;
        let mut peak = u64::MAX;
        for bucket in buckets.iter() {
            peak = peak.min(bucket.peak.bps());
            if self.policy == Policy::LeakyBucket {
                let depth = u128::from(bucket.burst) * LEVEL_PER_BYTE;
                self.bursts.push(Burst { depth, level: depth, rate: bucket.rate.bps().into(), updated: Nanos::ZERO });
            }
        }
        Session { pace, max_delay, buckets: (first, self.bursts.len() as u32), peak: Pace::new(TIME_PER_BIT_S, peak) }
    }

    pub(super) fn arrived(&mut self, session: &Session, now: Nanos, len: u32) {
        let (first, end) = session.buckets;
        for burst in &mut self.bursts[first as usize..end as usize] {
            burst.advance(now);
            burst.level = burst.level.saturating_sub(u128::from(len) * LEVEL_PER_BYTE);
        }
    }

    /// Time from which all buckets of a class allow more than `bytes`, if ever.
    fn above(&self, session: &Session, bytes: u64) -> Option<u128> {
        let (first, end) = session.buckets;
        let mut latest = 0;
        for burst in &self.bursts[first as usize..end as usize] {
            latest = latest.max(burst.above(bytes)?);
        }
        Some(latest)
    }

    /// Records that a class has `backlog` queued and room for `free` more bytes.
    pub(super) fn changed(&mut self, class: u32, session: &Session, backlog: Amount, free: u64) {
        if backlog.packets == 0 {
            self.order.remove(class);
            self.risky.remove(class);
            self.safe.remove(class);
            return;
        }
        let delay = session.pace.distance(backlog.bytes);
        let key = match self.policy {
            Policy::LongestDelay => BASE - delay,
            Policy::LeastTimeToOverflow => BASE + session.max_delay - delay,
            Policy::LeakyBucket => session.peak.distance(free),
        };
        self.order.set(class, key);
        if self.policy == Policy::LeakyBucket {
            self.risky.remove(class);
            match self.above(session, free) {
                Some(at) => self.safe.set(class, at),
                None => {
                    self.safe.remove(class);
                }
            }
        }
    }

    /// Returns the class that gets the excess at `now`: the first in the order, or the second if that is requested and
    /// there are two.
    pub(super) fn choose(&mut self, now: Nanos) -> Option<u32> {
        while let Some((class, at)) = self.safe.first()
            && at <= now.0.into()
        {
            self.safe.remove(class);
            if let Some(key) = self.order.key(class) {
                self.risky.set(class, key);
            }
        }
        let first = self.risky.first().or(self.order.first())?.0;
        if !self.second {
            return Some(first);
        }
        let others = [self.risky.second(), self.order.first(), self.order.second()];
        let second = others.into_iter().flatten().map(|(class, _)| class).find(|&class| class != first);
        Some(second.unwrap_or(first))
    }

    pub(super) fn reset(&mut self) {
        self.order.clear();
        self.risky.clear();
        self.safe.clear();
        for burst in self.bursts.iter_mut() {
            burst.level = burst.depth;
        }
    }

    #[cfg(feature = "invariants")]
    pub(super) fn check(&self) -> Result<(), String> {
        self.order.check()?;
        self.risky.check()?;
        self.safe.check()
    }

    #[cfg(feature = "invariants")]
    pub(super) fn contains(&self, class: u32) -> bool {
        self.order.contains(class)
    }
}
