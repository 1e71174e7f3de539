//! Histograms of delays, written by one thread and read by any other at any time.
//!
//! Counting a delay is a plain addition: there is one writer, so that additions cannot conflict, and relaxed atomic
//! loads and stores suffice. A reader sees each count as of some moment during its reading.
//!
//! [`Buckets`] are logarithmic with 64 linear steps for each doubling, so that a bucket is at most 1/64 as wide as the
//! delays in it. A delay is reported as the upper edge of its bucket: at most 1.6 % too long, never too short. Delays
//! below 8 ns and above 137 s count as 8 ns and 137 s.

use std::sync::atomic::{AtomicU64, Ordering};

use fairlink_core::Nanos;
use fairlink_report::{Buckets, Delay, Tally};

/// 64 steps for each doubling, units of 8 ns.
const STEPS: Buckets = Buckets::new(6, 3);
/// Longest delay that is distinguished, in ns.
const LONGEST_NS: u64 = (1 << 37) - 1;
const BUCKETS: usize = STEPS.count(LONGEST_NS);

/// Returns the bucket of a delay.
const fn bucket(nanos: u64) -> usize {
    STEPS.index(if nanos > LONGEST_NS { LONGEST_NS } else { nanos })
}

/// Counts of delays. Only one thread counts.
#[derive(Debug)]
pub(crate) struct DelayCounts {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    longest_ns: AtomicU64,
}

/// Adds to a number that only this thread changes.
#[inline]
fn add(to: &AtomicU64, amount: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

impl DelayCounts {
    pub(crate) fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        }
    }

    /// Counts one delay.
    #[inline]
    pub(crate) fn count(&self, delay: Nanos) {
        add(&self.counts[bucket(delay.0)], 1);
        add(&self.sum_ns, delay.0);
        if delay.0 > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(delay.0, Ordering::Relaxed);
        }
    }

    /// Counts all that `other` has counted.
    pub(crate) fn add(&self, other: &Self) {
        for (to, from) in self.counts.iter().zip(&other.counts) {
            add(to, from.load(Ordering::Relaxed));
        }
        add(&self.sum_ns, other.sum_ns.load(Ordering::Relaxed));
        let longest = self.longest_ns.load(Ordering::Relaxed).max(other.longest_ns.load(Ordering::Relaxed));
        self.longest_ns.store(longest, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub(crate) fn tally(&self) -> DelayTally {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
        DelayTally {
            counts: counts.filter(|&(_, count)| count > 0).map(|(bucket, count)| (bucket as u16, count)).collect(),
            sum_ns: u128::from(self.sum_ns.load(Ordering::Relaxed)),
            longest_ns: self.longest_ns.load(Ordering::Relaxed),
        }
    }
}

/// Counted delays of one class or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DelayTally {
    /// Buckets that are not empty, in ascending order.
    counts: Vec<(u16, u64)>,
    sum_ns: u128,
    longest_ns: u64,
}

impl DelayTally {
    /// Number of delays.
    pub(crate) fn packets(&self) -> u64 {
        self.counts.iter().map(|&(_, count)| count).sum()
    }

    /// Sum of all delays in seconds.
    pub(crate) fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Adds those of another class.
    pub(crate) fn add(&mut self, other: &Self) {
        let mut sum = Vec::with_capacity(self.counts.len() + other.counts.len());
        let (mut own, mut others) = (self.counts.iter().copied().peekable(), other.counts.iter().copied().peekable());
        loop {
            let next = match (own.peek(), others.peek()) {
                (Some(one), Some(other)) if one.0 == other.0 => {
                    let both = (one.0, one.1 + other.1);
                    others.next();
                    own.next();
                    Some(both)
                }
                (Some(one), Some(other)) if one.0 > other.0 => others.next(),
                (None, _) => others.next(),
                _ => own.next(),
            };
            let Some(next) = next else { break };
            sum.push(next);
        }
        self.counts = sum;
        self.sum_ns += other.sum_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Returns the delays counted since `earlier`. The maximum is known to its bucket.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.counts.iter().copied().peekable();
        let mut counts = Vec::new();
        for &(bucket, count) in &self.counts {
            while before.next_if(|&(other, _)| other < bucket).is_some() {}
            let old = before.next_if(|&(other, _)| other == bucket).map_or(0, |(_, count)| count);
            if count > old {
                counts.push((bucket, count - old));
            }
        }
        let longest_ns = counts.last().map_or(0, |&(bucket, _)| STEPS.last(bucket.into()).min(self.longest_ns));
        Self { counts, sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns), longest_ns }
    }

    /// Number of delays below each of `limits_ns`, which ascend. Exact for powers of two from 512 ns on.
    pub(crate) fn shorter_than<L: Iterator<Item = u64>>(&self, limits_ns: L) -> impl Iterator<Item = u64> + use<'_, L> {
        let (mut at, mut sum) = (0, 0);
        limits_ns.map(move |limit| {
            while let Some(&(bucket, count)) = self.counts.get(at)
                && STEPS.last(bucket.into()) < limit
            {
                sum += count;
                at += 1;
            }
            sum
        })
    }

    /// Summarises them.
    pub(crate) fn delay(&self) -> Delay {
        let tally = Tally { count: self.packets(), sum: self.sum_ns, min: None, max: self.longest_ns };
        tally.delay(STEPS, Some(self.counts.iter().map(|&(bucket, count)| (usize::from(bucket), count))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_end_at_the_limits_of_the_exported_histogram() {
        assert_eq!((bucket(0), bucket(u64::MAX), BUCKETS), (0, BUCKETS - 1, 1856));
        for power in 9..=37 {
            assert_eq!(STEPS.last(bucket((1 << power) - 1)), (1 << power) - 1);
        }
    }

    /// By sorting.
    fn exact(delays: &[u64], thousandths: usize) -> f64 {
        let mut sorted = delays.to_vec();
        sorted.sort_unstable();
        sorted[(delays.len() * thousandths).div_ceil(1000).max(1) - 1] as f64 / 1e9
    }

    fn counted(delays: &[u64]) -> DelayTally {
        let counts = DelayCounts::new();
        delays.iter().for_each(|&delay| counts.count(Nanos(delay)));
        counts.tally()
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_delays_to_a_64th(delays in prop::collection::vec((0u32..37, any::<u64>()), 1..200)) {
            let delays: Vec<u64> = delays.into_iter().map(|(power, bits)| bits & ((1 << power) - 1)).collect();
            let stats = counted(&delays).delay();
            for (told, thousandths) in [(stats.p50, 500), (stats.p99, 990), (stats.p999, 999)] {
                let (told, exact) = (told.unwrap(), exact(&delays, thousandths));
                prop_assert!(told >= exact && told <= exact * (1.0 + 1.0 / 64.0) + 8e-9, "{told} for {exact}");
            }
            prop_assert_eq!(stats.max, Some(*delays.iter().max().unwrap() as f64 / 1e9));
            let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64 / 1e9;
            prop_assert!((stats.mean.unwrap() - mean).abs() <= mean * 1e-12);
        }

        #[test]
        fn what_came_since_is_what_was_counted_in_between(
            first in prop::collection::vec(0u64..1 << 30, 0..50),
            then in prop::collection::vec(0u64..1 << 30, 0..50),
        ) {
            let counts = DelayCounts::new();
            first.iter().for_each(|&delay| counts.count(Nanos(delay)));
            let before = counts.tally();
            then.iter().for_each(|&delay| counts.count(Nanos(delay)));
            let between = counts.tally().since(&before);
            let alone = counted(&then);
            prop_assert_eq!(&between.counts, &alone.counts);
            prop_assert_eq!(between.sum_ns, alone.sum_ns);
            let mut both = counted(&first);
            both.add(&alone);
            prop_assert_eq!(both, counts.tally());
        }

        #[test]
        fn cumulative_counts_are_exact_at_powers_of_two(delays in prop::collection::vec(0u64..1 << 30, 0..50)) {
            let tally = counted(&delays);
            let limits = || (9..31).map(|power| 1u64 << power);
            let exact: Vec<u64> = limits().map(|limit| delays.iter().filter(|&&delay| delay < limit).count() as u64).collect();
            prop_assert_eq!(tally.shorter_than(limits()).collect::<Vec<_>>(), exact);
        }
    }
}
