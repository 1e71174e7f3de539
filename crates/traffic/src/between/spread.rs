//! Summation of delays: exact sums and ends, and percentiles from histograms of both signs.

use hdrhistogram::Histogram;

use super::DelaySpread;

/// Delays of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    count: u64,
    sum_ns: i128,
    min_ns: i64,
    max_ns: i64,
    /// Delays from 0 on, and those below 0 without their sign.
    histograms: Option<[Option<Histogram<u64>>; 2]>,
    /// The last delay, and the sum of the changes.
    last_ns: i64,
    changes_ns: u128,
}

impl Spread {
    /// Makes an empty collection.
    pub(super) fn new(with_percentiles: bool) -> Self {
        Self { histograms: with_percentiles.then_some([None, None]), ..Self::default() }
    }

    pub(super) fn record(&mut self, delay_ns: i64) {
        if self.count == 0 {
            (self.min_ns, self.max_ns) = (delay_ns, delay_ns);
        } else {
            self.changes_ns += u128::from(delay_ns.abs_diff(self.last_ns));
        }
        (self.count, self.last_ns) = (self.count + 1, delay_ns);
        self.sum_ns += i128::from(delay_ns);
        (self.min_ns, self.max_ns) = (self.min_ns.min(delay_ns), self.max_ns.max(delay_ns));
        if let Some(histograms) = &mut self.histograms {
            // It grows with the longest delay.
            let new = || Histogram::new(3).expect("three digits are valid");
            let histogram = histograms[usize::from(delay_ns < 0)].get_or_insert_with(new);
            // It takes any number of 64 bits.
            let recorded = histogram.record(delay_ns.unsigned_abs());
            debug_assert!(recorded.is_ok(), "{delay_ns} ns");
        }
    }

    /// Returns the delay that `part` of all delays do not exceed, in ns.
    fn quantile(&self, part: f64) -> Option<f64> {
        let [positive, negative] = self.histograms.as_ref()?;
        let below = negative.as_ref().map_or(0, Histogram::len);
        // The place of that delay in their order, from 1.
        let place = ((part * self.count as f64).ceil() as u64).clamp(1, self.count);
        // Half a place less, so that no rounding exceeds it.
        let value = |of: &Option<Histogram<u64>>, place: u64| {
            of.as_ref().map(|of| of.value_at_quantile((place as f64 - 0.5) / of.len() as f64) as f64)
        };
        if place <= below {
            value(negative, below - place + 1).map(|value| -value)
        } else {
            value(positive, place - below)
        }
    }

    pub(super) fn report(&self) -> Option<DelaySpread> {
        let seconds = |ns: f64| ns / 1e9;
        (self.count > 0).then(|| DelaySpread {
            min: seconds(self.min_ns as f64),
            mean: seconds(self.sum_ns as f64 / self.count as f64),
            p50_p99: self.quantile(0.5).zip(self.quantile(0.99)).map(|(p50, p99)| (seconds(p50), seconds(p99))),
            max: seconds(self.max_ns as f64),
            jitter: (self.count > 1).then(|| seconds(self.changes_ns as f64 / (self.count - 1) as f64)),
        })
    }
}
