//! Who gets what the guarantees leave: the state-dependent schedulers of \[sds\] Section II-C.

#[cfg(feature = "invariants")]
use alloc::string::String;

use crate::contract::{Amount, LeakyBucket, NANOS_PER_SEC, Nanos, OutOfMemory};
use crate::parts::{heap::Heap, virtual_time::Pace};

use super::TIME_PER_BIT_S;

/// How the class that gets the excess is chosen.
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
    burst: Burst,
    /// Time that a byte takes at the peak rate.
    peak: Pace,
}

/// Delta B_i: what the class may still send at its peak rate, a bucket that arrivals empty and that never goes below zero.
#[derive(Clone, Copy, Debug)]
struct Burst {
    depth: u128,
    level: u128,
    rate: u128,
    updated: Nanos,
}

impl Session {
    pub(super) fn new(pace: Pace, max_delay: u128, bucket: LeakyBucket) -> Self {
        let depth = u128::from(bucket.burst) * LEVEL_PER_BYTE;
        let burst = Burst { depth, level: depth, rate: bucket.rate.bps().into(), updated: Nanos::ZERO };
        Self { pace, max_delay, burst, peak: Pace::new(TIME_PER_BIT_S, bucket.peak.bps()) }
    }

    /// As just made.
    pub(super) fn reset(&mut self) {
        self.burst.level = self.burst.depth;
    }
}

impl Burst {
    fn advance(&mut self, now: Nanos) {
        let span = now.saturating_sub(self.updated).0;
        self.level = self.depth.min(self.level + self.rate * u128::from(span));
        self.updated = self.updated.max(now);
    }

    /// From when on it is above `bytes`, if ever.
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
    /// Of the leaky-bucket policy: the classes that may overflow, in the same order, and the others by when they may.
    risky: Heap,
    safe: Heap,
}

impl Excess {
    pub(super) fn new(policy: Policy, second: bool, classes: usize) -> Result<Self, OutOfMemory> {
        let more = if policy == Policy::LeakyBucket { classes } else { 0 };
        Ok(Self { policy, second, order: Heap::new(classes)?, risky: Heap::new(more)?, safe: Heap::new(more)? })
    }

    /// Bytes that one takes at most.
    pub(super) const fn memory(classes: usize) -> u64 {
        3 * Heap::memory(classes)
    }

    pub(super) fn arrived(&self, session: &mut Session, now: Nanos, len: u32) {
        if self.policy == Policy::LeakyBucket {
            session.burst.advance(now);
            session.burst.level = session.burst.level.saturating_sub(u128::from(len) * LEVEL_PER_BYTE);
        }
    }

    /// A class has `backlog` queued and room for `free` more bytes.
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
            match session.burst.above(free) {
                Some(at) => self.safe.set(class, at),
                None => {
                    self.safe.remove(class);
                }
            }
        }
    }

    /// The class that gets the excess at `now`: the first in the order, or the second where there are two and that is asked for.
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
