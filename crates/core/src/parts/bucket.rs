//! A token bucket in exact integer arithmetic.
//!
//! Tokens are counted in billionths of a bit: the yield of a rate of 1 bit/s in 1 ns. Nothing is ever rounded. So a
//! ceiling of 8 bit/s is exact over years, and debt is never forgiven.
//!
//! Bound: if packets are only started while [`Bucket::is_ready`], W(s, t] <= rate (t - s) + depth + L_max for every
//! interval.
//!
//! Overflow budget: a rate is at most 10^12 bit/s and a span below 2^64 ns, so a refill is below 2^104. A depth and a
//! packet are below 2^97. An `i128` holds their sum.

use crate::contract::{NANOS_PER_SEC, Nanos, Rate};

const TOKENS_PER_BYTE: i128 = 8 * NANOS_PER_SEC as i128;

/// A token bucket that may go into debt by the packet that empties it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    depth: i128,
    level: i128,
    updated: Nanos,
}

impl Bucket {
    /// Makes a full bucket of `depth` bytes that fills at `rate`.
    #[must_use]
    pub(crate) const fn new(rate: Rate, depth: u64) -> Self {
        let depth = depth as i128 * TOKENS_PER_BYTE;
        Self { rate, depth, level: depth, updated: Nanos::ZERO }
    }

    /// Refills the bucket up to `now`; a `now` before the latest one changes nothing.
    // Without a branch: the first packet of a batch below a class is unpredictable.
    #[inline]
    pub(crate) fn refill(&mut self, now: Nanos) {
        let brought = i128::from(self.rate.bps()) * i128::from(now.0.saturating_sub(self.updated.0));
        self.level = (self.level + brought).min(self.depth);
        self.updated = self.updated.max(now);
    }

    /// Returns true if a packet of any length may be started: the bucket is not in debt.
    #[must_use]
    #[inline]
    pub(crate) const fn is_ready(&self) -> bool {
        self.level >= 0
    }

    /// Returns [`Bucket::is_ready`] after a refill at `now`. A bucket without debt is ready as it is, and may be
    /// refilled later.
    #[must_use]
    #[inline(always)]
    pub(crate) fn is_ready_by(&mut self, now: Nanos) -> bool {
        if !self.is_ready() {
            self.refill(now);
        }
        self.is_ready()
    }

    /// Removes `bytes`.
    #[inline]
    pub(crate) fn take(&mut self, bytes: impl Into<u64>) {
        self.level -= i128::from(bytes.into()) * TOKENS_PER_BYTE;
    }

    /// Removes `len` bytes if the bucket holds them at `now`. Returns true if it did.
    #[must_use]
    pub(crate) fn take_within(&mut self, len: u32, now: Nanos) -> bool {
        self.refill(now);
        let fits = self.level >= i128::from(len) * TOKENS_PER_BYTE;
        if fits {
            self.take(len);
        }
        fits
    }

    /// Time at which the bucket becomes ready if nothing is taken out before, rounded up.
    #[must_use]
    pub(crate) fn ready_at(&self) -> Nanos {
        if self.level >= 0 {
            return self.updated;
        }
        let rate = u128::from(self.rate.bps());
        let wait = self.level.unsigned_abs().div_ceil(rate);
        self.updated.saturating_add(Nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// Tokens in whole bytes, rounded down; negative when in debt.
    #[must_use]
    #[cfg(any(test, feature = "invariants"))]
    pub(crate) fn level_bytes(&self) -> i64 {
        self.level.div_euclid(TOKENS_PER_BYTE) as i64
    }

    /// Adopts the rate of `with` from `now` on, and its depth. Credit or debt stays, up to the depth.
    pub(crate) fn retune(&mut self, now: Nanos, with: &Self) {
        self.refill(now);
        (self.rate, self.depth) = (with.rate, with.depth);
        self.level = self.level.min(self.depth);
    }

    /// Fills the bucket, as if just made.
    pub(crate) fn reset(&mut self) {
        self.level = self.depth;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn debt_is_never_forgiven() {
        let mut bucket = Bucket::new(Rate::from_bps(8).unwrap(), 0);
        bucket.take(1500u32);
        assert_eq!(bucket.ready_at(), Nanos::from_secs(1500));
        bucket.refill(Nanos::from_secs(1499));
        assert!(!bucket.is_ready());
        bucket.refill(Nanos::from_secs(1500));
        assert!(bucket.is_ready());
        bucket.refill(Nanos::MAX);
        assert_eq!(bucket.level_bytes(), 0);
    }

    proptest! {
        #[test]
        fn what_leaves_never_exceeds_rate_depth_and_one_packet(
            bps in 1u64..=1_000_000_000_000,
            depth in 0u64..1 << 32,
            steps in proptest::collection::vec((0u64..1 << 40, 0u32..=1500), 1..60),
        ) {
            let rate = Rate::from_bps(bps).unwrap();
            let mut bucket = Bucket::new(rate, depth);
            let mut now = Nanos::ZERO;
            let mut sent: std::vec::Vec<(Nanos, u64)> = std::vec::Vec::new();
            for (gap, len) in steps {
                now = now.saturating_add(Nanos(gap));
                let mut refilled = bucket;
                refilled.refill(now);
                let ready = bucket.is_ready_by(now);
                prop_assert_eq!(ready, refilled.is_ready());
                if ready {
                    prop_assert!(bucket.ready_at() <= now);
                    bucket.refill(now);
                    prop_assert_eq!(bucket.level_bytes(), refilled.level_bytes());
                    bucket.take(len);
                    sent.push((now, u64::from(len)));
                } else {
                    prop_assert!(bucket.ready_at() > now);
                }
            }
            for from in 0..sent.len() {
                let mut bytes = 0;
                for &(at, len) in &sent[from..] {
                    bytes += len;
                    let span = at - sent[from].0;
                    let brought = u128::from(bps) * u128::from(span.0) / (8 * u128::from(NANOS_PER_SEC));
                    prop_assert!(u128::from(bytes) <= brought + u128::from(depth) + 1501);
                }
            }
        }
    }
}
