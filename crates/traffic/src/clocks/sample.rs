//! A sample of packets whose delays are corrected when the clocks are known, at the end.

use super::{Clocks, MOST_LEFT_OUT};
use crate::random::Random;

/// Packets in a sample: every packet is in it with the same probability (reservoir sampling, Vitter's algorithm R).
pub const SAMPLE: usize = 8192;

/// A random sample of at most [`SAMPLE`] packets. It takes 16 bytes for each.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time and difference of the stamps, in ns.
    packets: Vec<(u64, i64)>,
    seen: u64,
    random: Random,
}

/// Delays of a sample, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corrected {
    /// Packets in the sample.
    pub packets: u64,
    /// Shortest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

impl Sample {
    /// Makes an empty sample. Samples of other numbers choose otherwise.
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self { packets: Vec::new(), seen: 0, random: Random::new(0x636c_6f63_6b73, number) }
    }

    /// Records a packet, like [`super::OneWay::record`].
    pub fn record(&mut self, at_ns: u64, difference_ns: i64) {
        self.seen += 1;
        if self.packets.len() < SAMPLE {
            self.packets.push((at_ns, difference_ns));
        } else if let Some(packet) = self.packets.get_mut(self.random.below(self.seen) as usize) {
            *packet = (at_ns, difference_ns);
        }
    }

    /// Returns the differences of the stamps unchanged; `None` without packets.
    #[must_use]
    pub fn raw(&self) -> Option<Corrected> {
        corrected(self.packets.iter().map(|&(_, difference)| difference as f64 / 1e9).collect())
    }

    /// Returns the delays beyond the shortest one, by clocks whose first packet was at `first_ns`. Packets close to a
    /// jump, which may be on its other side, are left out, and those where clocks and queues cannot be told apart. `None`
    /// if that is more than a twentieth of the time, or without packets.
    #[must_use]
    pub fn corrected(&self, clocks: &Clocks, first_ns: u64) -> Option<Corrected> {
        if clocks.left_out() > MOST_LEFT_OUT {
            return None;
        }
        let delay = |&(at, difference): &(u64, i64)| {
            let at = at.saturating_sub(first_ns) as f64 / 1e9;
            let doubtful = clocks.jumps().any(|jump| (at - jump.at_s.value).abs() <= jump.at_s.within);
            if doubtful { None } else { Some(difference as f64 / 1e9 - clocks.offset_at(at)?) }
        };
        corrected(self.packets.iter().filter_map(delay).collect())
    }
}

fn corrected(mut delays: Vec<f64>) -> Option<Corrected> {
    delays.sort_unstable_by(f64::total_cmp);
    let last = delays.len().checked_sub(1)?;
    let quantile = |part: f64| delays[((part * delays.len() as f64).ceil() as usize).clamp(1, last + 1) - 1];
    Some(Corrected {
        packets: delays.len() as u64,
        min: delays[0],
        mean: delays.iter().sum::<f64>() / delays.len() as f64,
        p50: quantile(0.5),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: delays[last],
    })
}
