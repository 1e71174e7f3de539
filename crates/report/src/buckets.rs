//! The one formula of histograms, and the histogram of one writer.

use crate::delay::Delay;

/// Nanoseconds in a second.
const NANOS_PER_SEC: f64 = 1e9;

/// A mapping from values to buckets: a bucket for each unit below 2^(`step_bits` + 1) units, then 2^`step_bits` buckets for each
/// doubling. A bucket is at most 2^-`step_bits` as wide as the values in it are large, or one unit wide.
///
/// The storage is the caller's: one writer with readers ([`Buckets`] alone), or [`Histogram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    step_bits: u32,
    unit_bits: u32,
}

impl Buckets {
    /// Makes buckets with 2^`step_bits` steps for each doubling and units of 2^`unit_bits`. The sum of both is below 63.
    #[must_use]
    pub const fn new(step_bits: u32, unit_bits: u32) -> Self {
        assert!(step_bits + unit_bits < 63);
        Self { step_bits, unit_bits }
    }

    /// Returns the bucket of `value`.
    #[must_use]
    #[inline]
    pub const fn index(self, value: u64) -> usize {
        let units = value >> self.unit_bits;
        let single = (2u64 << self.step_bits) - 1;
        let doublings = u64::BITS - (units | single).leading_zeros() - (self.step_bits + 1);
        (((doublings as u64) << self.step_bits) + (units >> doublings)) as usize
    }

    /// Returns the largest value in `bucket`.
    #[must_use]
    pub const fn last(self, bucket: usize) -> u64 {
        let doublings = (bucket as u64 >> self.step_bits).saturating_sub(1);
        let width_bits = doublings + self.unit_bits as u64;
        ((bucket as u64 - (doublings << self.step_bits)) << width_bits) + ((1 << width_bits) - 1)
    }

    /// Returns the number of buckets for values up to `longest`.
    #[must_use]
    pub const fn count(self, longest: u64) -> usize {
        self.index(longest) + 1
    }

    /// Returns the value that `thousandths` of all values do not exceed, rounded up to the end of its bucket. `counts`
    /// are the buckets in ascending order with the number of values in them, and `values` is the sum of these numbers.
    /// 0 if there are none.
    pub fn quantile(self, counts: impl IntoIterator<Item = (usize, u64)>, values: u64, thousandths: u64) -> u64 {
        let rank = (u128::from(values) * u128::from(thousandths)).div_ceil(1000).max(1);
        let mut below = 0u128;
        for (bucket, count) in counts {
            below += u128::from(count);
            if below >= rank {
                return self.last(bucket);
            }
        }
        0
    }
}

/// Totals of recorded values, exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: u128,
    /// The smallest; `None` if it is not recorded.
    pub min: Option<u64>,
    /// The largest.
    pub max: u64,
}

impl Tally {
    /// Records one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
    }

    /// Returns the mean; `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Summarises values in nanoseconds. Without `counts` there are no percentiles.
    pub fn delay(&self, buckets: Buckets, counts: Option<impl Iterator<Item = (usize, u64)> + Clone>) -> Delay {
        if self.count == 0 {
            return Delay::default();
        }
        let seconds = |nanos: u64| nanos as f64 / NANOS_PER_SEC;
        let quantile =
            |thousandths: u64| Some(seconds(buckets.quantile(counts.clone()?, self.count, thousandths).min(self.max)));
        let [p50, p99, p999] = Delay::THOUSANDTHS.map(quantile);
        Delay {
            packets: self.count,
            min: self.min.map(seconds),
            mean: self.mean().map(|nanos| nanos / NANOS_PER_SEC),
            p50,
            p99,
            p999,
            max: Some(seconds(self.max)),
        }
    }
}

/// A histogram with one writer. It grows to the bucket of the largest value; counters of type `C` (u32 or u64) stop at their limit.
#[derive(Clone, Debug)]
pub struct Histogram<C = u64> {
    buckets: Buckets,
    longest: u64,
    counts: Vec<C>,
    tally: Tally,
}

impl<C: Copy + Default + Into<u64> + TryFrom<u64>> Histogram<C> {
    /// Makes an empty histogram. Values above `longest` count in its bucket.
    #[must_use]
    pub fn new(buckets: Buckets, longest: u64) -> Self {
        Self { buckets, longest, counts: Vec::new(), tally: Tally::default() }
    }

    /// Returns the most bytes that the counters take.
    #[must_use]
    pub const fn memory(buckets: Buckets, longest: u64) -> u64 {
        (buckets.count(longest) * size_of::<C>()) as u64
    }

    /// Records one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.tally.record(value);
        let bucket = self.buckets.index(value.min(self.longest));
        if bucket >= self.counts.len() {
            self.grow(bucket);
        }
        let count = &mut self.counts[bucket];
        *count = C::try_from((*count).into() + 1).unwrap_or(*count);
    }

    #[cold]
    fn grow(&mut self, bucket: usize) {
        // To the end of the doubling, so that it grows at most 64 times, and never beyond the size from `memory`.
        let doubling = 1usize << self.buckets.step_bits;
        let wanted = (bucket + 1).next_multiple_of(doubling).min(self.buckets.count(self.longest));
        self.counts.reserve_exact(wanted - self.counts.len());
        self.counts.resize(wanted, C::default());
    }

    /// Returns the bytes that the counters take now.
    #[must_use]
    pub fn memory_now(&self) -> u64 {
        (self.counts.capacity() * size_of::<C>()) as u64
    }

    /// Returns number, sum, smallest and largest value.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Iterates over the buckets that hold values, in ascending order: bucket and number of values.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> + Clone + '_ {
        let counts = self.counts.iter().map(|&count| count.into()).enumerate();
        counts.filter(|&(_, count)| count > 0)
    }

    /// Iterates over the buckets that hold values, in ascending order: largest value of the bucket, no larger than the largest recorded,
    /// and number of values.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts().map(|(bucket, count)| (self.buckets.last(bucket).min(self.tally.max), count))
    }

    /// Returns the value that `thousandths` of the values do not exceed, rounded up to the end of its bucket; `None` without values.
    #[must_use]
    pub fn quantile(&self, thousandths: u64) -> Option<u64> {
        let value = || self.buckets.quantile(self.counts(), self.tally.count, thousandths).min(self.tally.max);
        (self.tally.count > 0).then(value)
    }

    /// Summarises values in nanoseconds.
    #[must_use]
    pub fn delay(&self) -> Delay {
        self.tally.delay(self.buckets, Some(self.counts()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_and_are_as_narrow_as_promised() {
        for (step_bits, unit_bits) in [(6, 3), (7, 0), (10, 0), (10, 10), (0, 0)] {
            let buckets = Buckets::new(step_bits, unit_bits);
            let mut below = None;
            for bucket in 0..buckets.count(u64::MAX) {
                let last = buckets.last(bucket);
                let first = below.map_or(0, |below| below + 1);
                assert_eq!((buckets.index(first), buckets.index(last)), (bucket, bucket), "{buckets:?} {bucket}");
                let width = last - first;
                assert!(width < 1 << unit_bits || width < first >> step_bits, "{buckets:?} {first} .. {last}");
                below = Some(last);
            }
            assert_eq!(below, Some(u64::MAX));
        }
    }

    /// Sorts `values` and returns the exact quantile.
    fn exact(values: &[u64], thousandths: usize) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        sorted[(values.len() * thousandths).div_ceil(1000).max(1) - 1]
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_values_rounded_up_within_a_bucket(
            values in prop::collection::vec((0u32..64, any::<u64>()), 1..300), step_bits in 0u32..11, unit_bits in 0u32..11,
        ) {
            let values: Vec<u64> = values.into_iter().map(|(bits, value)| value & ((1 << bits) - 1)).collect();
            let buckets = Buckets::new(step_bits, unit_bits);
            let mut histogram = Histogram::<u64>::new(buckets, u64::MAX);
            values.iter().for_each(|&value| histogram.record(value));
            let largest = *values.iter().max().unwrap();
            for thousandths in [1, 500, 990, 999, 1000] {
                let exact = exact(&values, thousandths);
                let told = histogram.quantile(thousandths as u64).unwrap();
                prop_assert_eq!(told, buckets.last(buckets.index(exact)).min(largest));
            }
            let delay = histogram.delay();
            prop_assert_eq!((delay.packets, delay.max), (values.len() as u64, Some(largest as f64 / 1e9)));
            prop_assert_eq!(delay.min, Some(*values.iter().min().unwrap() as f64 / 1e9));
            let recorded: u64 = histogram.values().map(|(_, count)| count).sum();
            prop_assert_eq!(recorded, values.len() as u64);
        }
    }

    #[test]
    fn memory_is_bounded_and_counters_do_not_wrap() {
        let buckets = Buckets::new(7, 0);
        let mut histogram = Histogram::<u32>::new(buckets, 1_000_000);
        [0, 5, 1_000_000, u64::MAX].into_iter().for_each(|value| histogram.record(value));
        assert_eq!(histogram.tally().max, u64::MAX);
        assert_eq!(histogram.values().last(), Some((buckets.last(buckets.index(1_000_000)), 2)));
        assert!(histogram.memory_now() <= Histogram::<u32>::memory(buckets, 1_000_000));
        histogram.counts[0] = u32::MAX;
        histogram.record(0);
        assert_eq!(histogram.counts[0], u32::MAX);
    }

    #[test]
    fn without_values_there_is_no_statistic() {
        let histogram = Histogram::<u64>::new(Buckets::new(6, 3), u64::MAX);
        assert_eq!((histogram.quantile(500), histogram.tally().mean()), (None, None));
        assert_eq!(serde_json::to_string(&histogram.delay()).unwrap(), r#"{"packets":0}"#);
    }
}
