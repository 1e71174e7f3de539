//! Measurements during a simulation: bytes by span of time, and delays. Memory is bounded by the number of leaves, not
//! by the number of packets.

use fairlink_core::{NANOS_PER_SEC, Nanos};
use fairlink_report::{Buckets, Delay, Histogram, Tally};

use crate::report::Distribution;

/// Bytes sent by each leaf in each of a series of spans of time. The bytes of a packet that is on the link when a span
/// ends are divided in proportion, so that the spans add up to the sent bytes.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    /// The spans' borders, the first one being the start of the run.
    cuts: Vec<Nanos>,
    leaves: usize,
    /// One row of `leaves` for each span.
    bytes: Vec<u64>,
    current: usize,
}

impl Spans {
    /// Spans between `cuts`, which are in order, distinct and at least two.
    pub(crate) fn new(cuts: Vec<Nanos>, leaves: usize) -> Self {
        let bytes = vec![0; (cuts.len() - 1) * leaves];
        Self { cuts, leaves, bytes, current: 0 }
    }

    /// Returns the memory of the spans, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        (self.bytes.len() * size_of::<u64>() + self.cuts.len() * size_of::<Nanos>()) as u64
    }

    /// Adds `len` bytes of `leaf` that are on the link from `start` to `done`; `start` never decreases. Parts beyond
    /// the last span are not counted.
    pub(crate) fn add(&mut self, leaf: usize, start: Nanos, done: Nanos, len: u32) {
        while self.current + 1 < self.cuts.len() && self.cuts[self.current + 1] <= start {
            self.current += 1;
        }
        let (mut span, mut counted) = (self.current, 0);
        while span + 1 < self.cuts.len() {
            let end = self.cuts[span + 1];
            if done <= end {
                self.bytes[span * self.leaves + leaf] += u64::from(len) - counted;
                return;
            }
            // Below `len`, as `end` lies between `start` and `done`.
            let by_end = (u128::from(len) * u128::from((end - start).0) / u128::from((done - start).0)) as u64;
            self.bytes[span * self.leaves + leaf] += by_end - counted;
            counted = by_end;
            span += 1;
        }
    }

    /// Makes `at` a border, which is no earlier than the last packet's start. That packet, `last`, may be on the link
    /// then: leaf, start, end and bytes.
    pub(crate) fn cut(&mut self, at: Nanos, last: Option<(usize, Nanos, Nanos, u32)>) {
        let span = self.cuts.partition_point(|&cut| cut < at);
        if span == 0 || self.cuts.get(span).is_none_or(|&cut| cut == at) {
            return;
        }
        let place = span * self.leaves;
        self.bytes.splice(place..place, std::iter::repeat_n(0, self.leaves));
        let end = self.cuts[span];
        self.cuts.insert(span, at);
        let Some((leaf, start, done, len)) = last.filter(|&(_, _, done, _)| done > at) else { return };
        let by = |border: Nanos| match border {
            border if border >= done => u64::from(len),
            border => (u128::from(len) * u128::from((border - start).0) / u128::from((done - start).0)) as u64,
        };
        let beyond = by(end) - by(at);
        self.bytes[place - self.leaves + leaf] -= beyond;
        self.bytes[place + leaf] += beyond;
    }

    /// Reorders leaves: `from` has the old place by new place, if there is one.
    pub(crate) fn arrange(&mut self, from: &[Option<usize>]) {
        let row = |bytes: &[u64]| from.iter().map(|place| place.map_or(0, |place| bytes[place])).collect::<Vec<_>>();
        self.bytes = self.bytes.chunks(self.leaves).flat_map(row).collect();
        self.leaves = from.len();
    }

    /// Returns the spans: start, end, and bytes by leaf.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Nanos, Nanos, &[u64])> {
        self.cuts.windows(2).zip(self.bytes.chunks(self.leaves)).map(|(cut, bytes)| (cut[0], cut[1], bytes))
    }

    /// Bytes by leaf in all spans in `start .. end`, both of which are cuts. Only these spans are read.
    pub(crate) fn between(&self, start: Nanos, end: Nanos) -> Vec<u64> {
        let mut sum = vec![0; self.leaves];
        let [first, last] = [start, end].map(|cut| self.cuts.partition_point(|&other| other < cut));
        let within = first * self.leaves..last.min(self.cuts.len() - 1).max(first) * self.leaves;
        for bytes in self.bytes[within].chunks(self.leaves) {
            for (sum, bytes) in sum.iter_mut().zip(bytes) {
                *sum += bytes;
            }
        }
        sum
    }
}

/// Most leaves whose delays are recorded to three significant digits.
const THREE_DIGITS: usize = 512;
/// Most leaves whose delays are recorded in histograms at all.
pub(crate) const MAX_HISTOGRAMS: usize = 16_384;

/// Delays of the packets of one leaf: mean and maximum are exact, percentiles are those of a histogram whose buckets are at
/// most 0.1 % wide (1 % with more than 512 leaves), rounded up to the end of the bucket.
#[derive(Debug)]
pub(crate) enum Delays {
    /// With percentiles.
    Buckets(Histogram<u32>),
    /// Without.
    Totals(Tally),
}

impl Delays {
    /// Makes an empty collection of delays for `leaves` leaves.
    pub(crate) fn new(leaves: usize) -> Self {
        if leaves <= MAX_HISTOGRAMS {
            Self::Buckets(Histogram::new(buckets(leaves), u64::MAX))
        } else {
            Self::Totals(Tally::default())
        }
    }

    /// Returns the maximum memory of one leaf's delays, in bytes.
    pub(crate) fn memory(leaves: usize) -> u64 {
        let counters = if leaves <= MAX_HISTOGRAMS { Histogram::<u32>::memory(buckets(leaves), u64::MAX) } else { 0 };
        size_of::<Self>() as u64 + counters
    }

    /// Records a packet with this `delay`.
    pub(crate) fn record(&mut self, delay: Nanos) {
        match self {
            Self::Buckets(histogram) => histogram.record(delay.0),
            Self::Totals(tally) => tally.record(delay.0),
        }
    }

    /// Returns the mean, quantiles and maximum in seconds.
    pub(crate) fn summary(&self) -> Delay {
        let delay = match self {
            Self::Buckets(histogram) => histogram.delay(),
            Self::Totals(tally) => tally.delay(buckets(0), None::<std::iter::Empty<_>>),
        };
        // Of no interest in a simulation: a packet that finds the link idle.
        Delay { min: None, ..delay }
    }

    /// Returns the distribution of the delays; `None` if there are none or percentiles are not recorded.
    pub(crate) fn distribution(&self) -> Option<Distribution> {
        let Self::Buckets(histogram) = self else { return None };
        let all = histogram.tally().count;
        let mut points: Vec<(f64, u64)> = Vec::new();
        let (mut below, mut wanted) = (0u64, 0.0);
        for (value, count) in histogram.values() {
            below += count;
            // The first value at or above each wanted share, and the last.
            let share = below as f64 / all as f64;
            if share >= wanted || below == all {
                points.push((value as f64 / NANOS_PER_SEC as f64, below));
                // Half a percent further, and in the tail a tenth of the rest.
                wanted = share + (0.1 * (1.0 - share)).min(0.005);
            }
        }
        (all > 0).then(|| Distribution::new(points))
    }
}

/// Returns three significant digits, or two with many leaves.
fn buckets(leaves: usize) -> Buckets {
    Buckets::new(if leaves <= THREE_DIGITS { 10 } else { 7 }, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_on_a_border_is_divided_in_proportion() {
        let mut spans = Spans::new([0, 10, 20, 100].map(Nanos).to_vec(), 2);
        spans.add(1, Nanos(0), Nanos(10), 7);
        spans.add(0, Nanos(8), Nanos(28), 100);
        spans.add(0, Nanos(90), Nanos(110), 100);
        spans.add(1, Nanos(110), Nanos(111), 100);
        let rows: Vec<_> = spans.rows().map(|(start, end, bytes)| (start.0, end.0, bytes.to_vec())).collect();
        assert_eq!(rows, [(0, 10, vec![10, 7]), (10, 20, vec![50, 0]), (20, 100, vec![90, 0])]);
        assert_eq!(spans.between(Nanos(10), Nanos(100)), [140, 0]);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_or_counted_twice(
            cuts in proptest::collection::btree_set(1u64..2_000, 1..20),
            packets in proptest::collection::vec((0u64..30, 0u64..200, 1u32..2000), 0..100),
        ) {
            let end = cuts.last().unwrap() + 20_000;
            let mut cuts: Vec<Nanos> = cuts.into_iter().map(Nanos).collect();
            cuts.insert(0, Nanos(0));
            cuts.push(Nanos(end));
            let mut spans = Spans::new(cuts, 1);
            let (mut now, mut sum) = (0, 0);
            for (gap, time, len) in packets {
                spans.add(0, Nanos(now + gap), Nanos(now + gap + time), len);
                now += gap + time / 2;
                sum += u64::from(len);
            }
            prop_assert_eq!(spans.between(Nanos(0), Nanos(end)), [sum]);
            for (from, to) in (0..spans.cuts.len()).flat_map(|to| (0..=to).map(move |from| (from, to))) {
                let (from, to) = (spans.cuts[from], spans.cuts[to]);
                let inside = spans.rows().filter(|&(start, end, _)| from <= start && end <= to);
                prop_assert_eq!(spans.between(from, to), [inside.map(|(.., bytes)| bytes[0]).sum::<u64>()]);
            }
        }
    }

    #[test]
    fn a_distribution_has_few_points_and_its_quantiles_are_those_of_the_histogram() {
        let mut delays = Delays::new(1);
        assert_eq!(delays.distribution(), None);
        // Squares: dense where short, with a long tail.
        (1..=1_000_000u64).for_each(|n| delays.record(Nanos(n * n / 1_000)));
        let distribution = delays.distribution().unwrap();
        assert!(distribution.points().len() < 350, "{}", distribution.points().len());
        assert_eq!((distribution.count(), distribution.quantile(1.0)), (1_000_000, Some(1.0)));
        for share in [0.01f64, 0.25, 0.5, 0.75, 0.99, 0.999, 0.9999] {
            let (kept, exact) = (distribution.quantile(share).unwrap(), share * share);
            // Resolution: half a percent of the packets, or a tenth of the tail.
            let later = (share + (0.1 * (1.0 - share)).min(0.005)).powi(2) * 1.001;
            assert!((exact * 0.999..=later).contains(&kept), "{share}: {kept} {exact}");
        }
    }

    #[test]
    fn percentiles_are_rounded_up_by_less_than_their_digits() {
        for (leaves, width) in [(1, 0.001), (600, 0.01)] {
            let mut delays = Delays::new(leaves);
            assert_eq!(delays.summary(), Delay::default());
            (1..=100_000).for_each(|n| delays.record(Nanos(n * 1_234_567)));
            let delay = delays.summary();
            assert_eq!((delay.mean, delay.max), (Some(50_000.5 * 1_234_567.0 / 1e9), Some(123.456_7)));
            for (told, quantile) in [(delay.p50, 0.5), (delay.p99, 0.99), (delay.p999, 0.999)] {
                let (exact, measured) = (quantile * 123.456_7, told.unwrap());
                assert!(measured >= exact && measured <= exact * (1.0 + width), "{measured} {exact}");
            }
            delays.record(Nanos::MAX);
            let Delays::Buckets(histogram) = &delays else { panic!("{leaves} leaves have percentiles") };
            assert!(histogram.memory_now() <= Delays::memory(leaves));
        }
        let mut many = Delays::new(MAX_HISTOGRAMS + 1);
        many.record(Nanos(7));
        assert_eq!((many.summary().p50, many.summary().max), (None, Some(7e-9)));
    }
}
