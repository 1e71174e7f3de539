//! One running source.
//!
//! Invariants: arrivals never decrease in time and lie inside an active interval. A source starts anew at each interval; one of
//! constant rate and a saturating one start with a packet at its first instant.

use std::vec::IntoIter;

use fairlink_core::{NANOS_PER_SEC, Nanos};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::spec::{Interval, Model, PacketSize, SourceError, SourceSpec};

/// A packet's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Nanos,
    /// Its length in bytes.
    pub len: u32,
}

/// When the next packet of a source is due.
#[derive(Clone, Debug)]
enum Clock {
    /// Whenever it is asked for.
    Greedy,
    /// Exactly `(len * per_byte + per_packet) / units` nanoseconds after the packet before. What whole nanoseconds leave out is
    /// carried over, so that no packet is ever more than one nanosecond late.
    Even { at: Nanos, fraction: u64, per_byte: u64, per_packet: u64, units: u64 },
    /// `len * per_byte` times a number between a half and one and a half after the packet before. Times are in 2^-32 ns.
    Uneven { at: u128, per_byte: u128 },
    /// An exponentially distributed time after the packet before. Times are in 2^-32 ns, so that rounding does not slow the
    /// source down.
    Poisson { at: u128, mean_gap_ns: f64 },
}

/// Fractional bits of the times of [`Clock::Uneven`] and [`Clock::Poisson`].
const FRACTION_BITS: u32 = 32;

/// A running source. As an iterator it yields the arrivals of a timed source. A greedy source yields none: whenever its class wants
/// another packet, it is asked for a length ([`Source::next_len`]).
#[derive(Clone, Debug)]
pub struct Source {
    clock: Clock,
    packet: PacketSize,
    random: ChaCha8Rng,
    active: Option<Interval>,
    later: IntoIter<Interval>,
}

impl Source {
    /// Starts source number `index` of a run with this `seed` that lasts until `end`.
    ///
    /// # Errors
    /// As [`SourceSpec::validate`].
    pub fn new(spec: &SourceSpec, seed: u64, index: u32, end: Nanos) -> Result<Self, SourceError> {
        spec.validate()?;
        let clock = match spec.model {
            Model::Greedy => Clock::Greedy,
            Model::Saturating(rate) => {
                // Below 2^66, rounded: a part in 2^26 of the rate at most, at 1 Tbit/s.
                let byte = u128::from(8 * NANOS_PER_SEC) << FRACTION_BITS;
                let bps = u128::from(rate.bps());
                Clock::Uneven { at: 0, per_byte: (byte + bps / 2) / bps }
            }
            Model::CbrRate(rate) => Clock::Even {
                at: Nanos::ZERO,
                fraction: 0,
                per_byte: 8 * NANOS_PER_SEC,
                per_packet: 0,
                units: rate.bps(),
            },
            Model::CbrPackets { per_1000_s } => Clock::Even {
                at: Nanos::ZERO,
                fraction: 0,
                per_byte: 0,
                per_packet: 1000 * NANOS_PER_SEC,
                units: per_1000_s,
            },
            Model::PoissonRate(rate) => {
                let (min, max) = spec.packet.range().unwrap_or_default();
                let mean_bits = f64::from(min + max) / 2.0 * 8.0;
                Clock::Poisson { at: 0, mean_gap_ns: mean_bits * NANOS_PER_SEC as f64 / rate.bps() as f64 }
            }
            Model::PoissonPackets { per_1000_s } => {
                Clock::Poisson { at: 0, mean_gap_ns: 1000.0 * NANOS_PER_SEC as f64 / per_1000_s as f64 }
            }
        };
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut random = ChaCha8Rng::from_seed(key);
        random.set_stream(u64::from(index));
        let mut source =
            Self { clock, packet: spec.packet, random, active: None, later: spec.active_until(end).into_iter() };
        source.start_interval();
        Ok(source)
    }

    /// Whether the source is greedy.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        matches!(self.clock, Clock::Greedy)
    }

    /// The interval that the source is in or waits for; `None` when it has ended.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        self.active
    }

    /// The length in bytes of the next packet of a greedy source.
    pub fn next_len(&mut self) -> u32 {
        match self.packet {
            PacketSize::Fixed(len) => len,
            PacketSize::Uniform { min, max, header } => {
                // The bias of the multiplication is below 2^-44 for spans up to 2^20.
                let span = u128::from(max - min) + 1;
                min + ((u128::from(self.random.next_u64()) * span) >> 64) as u32 + header
            }
        }
    }

    /// Leaves the interval that the source is in for the next, if there is one.
    pub fn start_interval(&mut self) {
        self.active = self.later.next();
        let Some(Interval { start, .. }) = self.active else { return };
        match &mut self.clock {
            Clock::Greedy => {}
            Clock::Even { at, fraction, .. } => (*at, *fraction) = (start, 0),
            Clock::Uneven { at, .. } => *at = u128::from(start.0) << FRACTION_BITS,
            Clock::Poisson { at, .. } => {
                *at = u128::from(start.0) << FRACTION_BITS;
                self.step(0);
            }
        }
    }

    /// When the packet that the clock stands at arrives, rounded up.
    fn due(&self) -> Option<Nanos> {
        match self.clock {
            Clock::Greedy => None,
            Clock::Even { at, fraction, .. } => Some(at.saturating_add(Nanos(u64::from(fraction > 0)))),
            Clock::Uneven { at, .. } | Clock::Poisson { at, .. } => {
                Some(Nanos(u64::try_from(at.div_ceil(1 << FRACTION_BITS)).unwrap_or(u64::MAX)))
            }
        }
    }

    /// Moves the clock from a packet of `len` bytes to the packet after it.
    fn step(&mut self, len: u32) {
        match &mut self.clock {
            Clock::Greedy => {}
            Clock::Even { at, fraction, per_byte, per_packet, units } => {
                // At most 2^20 * 8 * 10^9 + 10^12 + 10^12.
                let sum = u64::from(len) * *per_byte + *per_packet + *fraction;
                *at = at.saturating_add(Nanos(sum / *units));
                *fraction = sum % *units;
            }
            Clock::Uneven { at, per_byte } => {
                // At most 2^20 * 2^66 * 2^33; the factor is uniform, and one on average.
                let factor = u128::from(self.random.next_u64() >> 32) + (1 << 31);
                *at = at.saturating_add((u128::from(len) * *per_byte * factor) >> 32);
            }
            Clock::Poisson { at, mean_gap_ns } => {
                // Uniform in (0, 1], in steps of 2^-53.
                let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                let gap = -libm::log(uniform) * *mean_gap_ns;
                *at = at.saturating_add((gap * (1u64 << FRACTION_BITS) as f64) as u128);
            }
        }
    }
}

impl Iterator for Source {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            let interval = self.active?;
            let at = self.due()?;
            if at < interval.end {
                let len = self.next_len();
                self.step(len);
                return Some(Arrival { at, len });
            }
            self.start_interval();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{ClassId, Rate};
    use proptest::prelude::*;

    const FIXED: PacketSize = PacketSize::Fixed(1000);

    fn source(model: Model, packet: PacketSize, seed: u64, index: u32, end: Nanos) -> Source {
        let spec = SourceSpec { class: ClassId(1), model, packet, active: Vec::new() };
        Source::new(&spec, seed, index, end).unwrap()
    }

    #[test]
    fn a_saturating_source_keeps_its_mean_rate_and_no_step_with_another() {
        let rate = Rate::from_bps(3_000_000).unwrap();
        let arrivals = |index| {
            let mut source = source(Model::Saturating(rate), FIXED, 1, index, Nanos::MAX);
            (0..100_000).map(|_| source.next().unwrap().at).collect::<Vec<_>>()
        };
        let (one, other) = (arrivals(0), arrivals(1));
        let gap = 8_000_000_000_000 / 3_000_000;
        assert_eq!((one[0], other[0]), (Nanos::ZERO, Nanos::ZERO));
        assert!(one.windows(2).all(|two| (gap / 2..=gap * 3 / 2 + 1).contains(&(two[1] - two[0]).0)));
        // A hundred thousand gaps, each off by 0.29 of a gap on the root of the mean square.
        assert!(one[99_999].0.abs_diff(99_999 * gap) < 400 * gap, "{}", one[99_999]);
        assert!(one.iter().zip(&other).filter(|(one, other)| one == other).count() < 10);
    }

    #[test]
    fn a_constant_rate_does_not_drift_over_a_billion_packets() {
        // 3 packets per second: a spacing of 333,333,333 and a third nanoseconds.
        let mut three = source(Model::CbrPackets { per_1000_s: 3000 }, FIXED, 1, 0, Nanos::MAX);
        let mut last = Nanos::ZERO;
        for k in 0..10_000_000u64 {
            last = three.next().unwrap().at;
            assert_eq!(last.0, (k * NANOS_PER_SEC).div_ceil(3));
        }
        assert_eq!(last.0, (9_999_999 * NANOS_PER_SEC).div_ceil(3));
        // The state after k packets is a function of the state before; run the last of 10^9 packets from where 10^9 - 10 end.
        let before = 1_000_000_000 - 10;
        let Clock::Even { at, fraction, .. } = &mut three.clock else { unreachable!() };
        (*at, *fraction) = (Nanos((before * NANOS_PER_SEC) / 3), (before * NANOS_PER_SEC) % 3 * 1000);
        let tenth = three.by_ref().take(10).last().unwrap();
        assert_eq!(tenth.at.0, ((before + 9) * NANOS_PER_SEC).div_ceil(3));
    }

    proptest! {
        #[test]
        fn a_constant_rate_of_packets_of_any_size_is_exact(
            bps in 1_000_000u64..1_000_000_000_000, min in 64u32..1500, more in 0u32..9000, seed: u64
        ) {
            let packet = PacketSize::Uniform { min, max: min + more, header: 14 };
            let cbr = source(Model::CbrRate(Rate::from_bps(bps).unwrap()), packet, seed, 3, Nanos::MAX);
            let mut bits = 0u128;
            for arrival in cbr.take(2000) {
                prop_assert_eq!(u128::from(arrival.at.0), (bits * 1_000_000_000).div_ceil(u128::from(bps)));
                bits += u128::from(arrival.len) * 8;
            }
        }
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_variance_of_the_exponential() {
        let mut last = 0;
        let gaps: Vec<f64> = source(Model::PoissonPackets { per_1000_s: 1_000_000 }, FIXED, 7, 0, Nanos::MAX)
            .take(400_000)
            .map(|arrival| {
                let gap = arrival.at.0 - last;
                last = arrival.at.0;
                gap as f64 / 1e6
            })
            .collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / (n - 1.0);
        // Standard errors of the mean and of the variance of exponential gaps: 1 / sqrt(n) and sqrt(8 / n).
        assert!((mean - 1.0).abs() < 4.0 / n.sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 4.0 * (8.0 / n).sqrt(), "{variance}");
        let beyond = gaps.iter().filter(|&&gap| gap > 2.0).count() as f64 / n;
        assert!((beyond - (-2.0f64).exp()).abs() < 4.0 * (beyond / n).sqrt(), "{beyond}");
    }

    #[test]
    fn a_poisson_rate_in_bits_counts_the_mean_packet() {
        let packet = PacketSize::Uniform { min: 40, max: 700, header: 40 };
        let poisson = source(Model::PoissonRate(Rate::from_bps(1_000_000).unwrap()), packet, 3, 0, Nanos::MAX);
        let (mut bytes, mut last) = (0, Nanos::ZERO);
        for arrival in poisson.take(200_000) {
            assert!((80..=740).contains(&arrival.len));
            bytes += u64::from(arrival.len);
            last = arrival.at;
        }
        let bps = bytes as f64 * 8.0 / (last.0 as f64 / 1e9);
        assert!((bps / 1e6 - 1.0).abs() < 0.015, "{bps}");
        assert!((bytes as f64 / 200_000.0 / 410.0 - 1.0).abs() < 0.01, "{bytes}");
    }

    #[test]
    fn a_source_restarts_at_each_interval_and_is_silent_between() {
        let interval = |start, end| Interval { start: Nanos::from_secs(start), end: Nanos::from_secs(end) };
        let active = vec![interval(1, 2), interval(4, 6), interval(9, 20)];
        let spec = |model| SourceSpec { class: ClassId(1), model, packet: FIXED, active: active.clone() };
        let end = Nanos::from_secs(10);
        let cbr = Source::new(&spec(Model::CbrPackets { per_1000_s: 3000 }), 1, 0, end).unwrap();
        let times: Vec<u64> = cbr.map(|arrival| arrival.at.0 / 1_000_000).collect();
        assert_eq!(times, [1000, 1333, 1666, 4000, 4333, 4666, 5000, 5333, 5666, 9000, 9333, 9666]);
        let poisson = Source::new(&spec(Model::PoissonPackets { per_1000_s: 1_000_000 }), 1, 0, end).unwrap();
        let times: Vec<Nanos> = poisson.map(|arrival| arrival.at).collect();
        assert!(times.is_sorted());
        assert!(
            times
                .iter()
                .all(|&at| { active.iter().any(|interval| interval.start <= at && at < interval.end.min(end)) })
        );
        let in_last = times.iter().filter(|&&at| at >= Nanos::from_secs(9)).count() as f64;
        assert!((in_last - 1000.0).abs() < 4.0 * 1000f64.sqrt(), "{in_last}");
    }

    #[test]
    fn packets_depend_on_seed_and_index_and_on_nothing_else() {
        let model = Model::PoissonPackets { per_1000_s: 5_000_000 };
        let packet = PacketSize::Uniform { min: 40, max: 700, header: 40 };
        let run = |seed, index| -> Vec<Arrival> {
            source(model, packet, seed, index, Nanos::from_secs(100)).take(100).collect()
        };
        assert_eq!(run(1, 0), run(1, 0));
        assert_ne!(run(1, 0), run(1, 1));
        assert_ne!(run(1, 0), run(2, 0));
        // The numbers themselves: another machine or a newer library must give the same.
        let first: Vec<(u64, u32)> = run(1, 0).iter().take(3).map(|arrival| (arrival.at.0, arrival.len)).collect();
        assert_eq!(first, [(192_735, 274), (237_801, 685), (268_934, 172)]);
    }

    #[test]
    fn a_greedy_source_has_no_arrivals_of_its_own() {
        let mut greedy = source(Model::Greedy, FIXED, 1, 0, Nanos::from_secs(1));
        assert!(greedy.is_greedy());
        assert_eq!(greedy.next(), None);
        assert_eq!(greedy.next_len(), 1000);
        assert_eq!(greedy.interval(), Some(Interval { start: Nanos::ZERO, end: Nanos::from_secs(1) }));
    }
}
