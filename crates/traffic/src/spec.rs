//! What a source does, as plain data.

use fairlink_core::{ClassId, MAX_PACKET, Nanos, Rate};

/// Most packets per second that a source may send on average: 64-byte packets at 1 Tbit/s.
pub const MAX_PACKETS_PER_SECOND: u64 = 2_000_000_000;

/// A span of time in which a source is active: from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// First active instant.
    pub start: Nanos,
    /// First inactive instant; later than `start`.
    pub end: Nanos,
}

/// How long packets are, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketSize {
    /// Always the same.
    Fixed(u32),
    /// Uniform between `min` and `max`, both included, plus a fixed `header`.
    Uniform {
        /// Shortest payload.
        min: u32,
        /// Longest payload.
        max: u32,
        /// Added to every payload.
        header: u32,
    },
}

impl PacketSize {
    /// Shortest and longest packet, in bytes; `None` where a length does not fit 32 bits.
    #[must_use]
    pub fn range(self) -> Option<(u32, u32)> {
        match self {
            Self::Fixed(len) => Some((len, len)),
            Self::Uniform { min, max, header } => Some((min.checked_add(header)?, max.checked_add(header)?)),
        }
    }
}

/// When packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Always has another packet: the class stays backlogged while the source is active.
    Greedy,
    /// Packets at this mean rate, by a clock of their own, whatever becomes of them: meant to be above what the class gets.
    /// The time after each is between half and one and a half of what it takes at the rate, at random, so that sources of one
    /// rate do not march in step.
    Saturating(Rate),
    /// Evenly spaced packets at this rate; of packets of varying size, each is followed by the time it takes at the rate.
    CbrRate(Rate),
    /// Evenly spaced packets, this many in 1000 s.
    CbrPackets {
        /// Packets per 1000 s.
        per_1000_s: u64,
    },
    /// Poisson arrivals whose mean rate in bit/s is this.
    PoissonRate(Rate),
    /// Poisson arrivals, this many in 1000 s on average.
    PoissonPackets {
        /// Packets per 1000 s.
        per_1000_s: u64,
    },
}

/// One source of traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// The leaf that its packets belong to.
    pub class: ClassId,
    /// When packets arrive.
    pub model: Model,
    /// How long they are.
    pub packet: PacketSize,
    /// When the source is active, in order and disjoint; the whole run when empty.
    pub active: Vec<Interval>,
}

/// Why a source cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A packet of no bytes.
    #[error("a packet of 0 B; the shortest packet has 1 B")]
    EmptyPacket,
    /// A packet longer than any link carries.
    #[error("a packet of {len} B; the longest packet has {limit} B")]
    PacketTooLong {
        /// The longest packet asked for, in bytes.
        len: u64,
        /// The longest packet taken, in bytes.
        limit: u32,
    },
    /// A range whose smallest value is above its largest.
    #[error("packets of {min} B to {max} B: the shortest is longer than the longest")]
    EmptyRange {
        /// The shortest asked for, in bytes.
        min: u32,
        /// The longest asked for, in bytes.
        max: u32,
    },
    /// No packets at all.
    #[error("0 packets per second; leave the source out instead")]
    NoPackets,
    /// More packets than [`MAX_PACKETS_PER_SECOND`].
    #[error("{packets_per_second} packets per second; the limit is {limit}")]
    TooManyPackets {
        /// Asked for, rounded down.
        packets_per_second: u64,
        /// [`MAX_PACKETS_PER_SECOND`].
        limit: u64,
    },
    /// An interval that ends before it starts, or starts before the one before it has ended.
    #[error("active from {} to {}: intervals must be in order, disjoint and not empty", .interval.start, .interval.end)]
    Interval {
        /// The interval.
        interval: Interval,
    },
}

impl SourceSpec {
    /// Checks the source.
    ///
    /// # Errors
    /// The first [`SourceError`] found.
    pub fn validate(&self) -> Result<(), SourceError> {
        if let PacketSize::Uniform { min, max, .. } = self.packet
            && min > max
        {
            return Err(SourceError::EmptyRange { min, max });
        }
        match self.packet.range() {
            None => return Err(SourceError::PacketTooLong { len: u64::from(u32::MAX) + 1, limit: MAX_PACKET }),
            Some((_, max)) if max > MAX_PACKET => {
                return Err(SourceError::PacketTooLong { len: u64::from(max), limit: MAX_PACKET });
            }
            Some((0, _)) => return Err(SourceError::EmptyPacket),
            Some(_) => {}
        }
        if let Some((packets, seconds)) = self.packets_per_seconds() {
            if packets == 0 {
                return Err(SourceError::NoPackets);
            }
            if packets > u128::from(MAX_PACKETS_PER_SECOND) * seconds {
                return Err(SourceError::TooManyPackets {
                    packets_per_second: u64::try_from(packets / seconds).unwrap_or(u64::MAX),
                    limit: MAX_PACKETS_PER_SECOND,
                });
            }
        }
        let mut free = Nanos::ZERO;
        for &interval in &self.active {
            if interval.start < free || interval.end <= interval.start {
                return Err(SourceError::Interval { interval });
            }
            free = interval.end;
        }
        Ok(())
    }

    /// The mean number of packets sent in a number of seconds, both scaled to be whole; `None` for a greedy source.
    fn packets_per_seconds(&self) -> Option<(u128, u128)> {
        match self.model {
            Model::Greedy => None,
            Model::Saturating(rate) | Model::CbrRate(rate) | Model::PoissonRate(rate) => {
                let (bytes, lengths) = self.sum_of_lengths(|len| len);
                Some((u128::from(rate.bps()) * lengths, 8 * bytes))
            }
            Model::CbrPackets { per_1000_s } | Model::PoissonPackets { per_1000_s } => {
                Some((u128::from(per_1000_s), 1000))
            }
        }
    }

    /// The sum of `accounted` over all lengths, and the number of lengths.
    fn sum_of_lengths(&self, accounted: impl Fn(u32) -> u32) -> (u128, u128) {
        let Some((min, max)) = self.packet.range() else { return (0, 1) };
        let sum = (min..=max).map(|len| u128::from(accounted(len))).sum();
        (sum, u128::from(max - min) + 1)
    }

    /// The mean rate that the source asks of a link while it is active, in bit/s rounded to the nearest; `None` is
    /// unlimited. `accounted` is what the link counts for a frame of a length, both in bytes.
    #[must_use]
    pub fn mean_rate(&self, accounted: impl Fn(u32) -> u32) -> Option<u64> {
        let (packets, seconds) = self.packets_per_seconds()?;
        let (bytes, lengths) = self.sum_of_lengths(accounted);
        // At most 10^12 * 2^20 packets of 8 * 2^20 * 2^20 bits for a source that was validated.
        let (bits, parts) = (packets.saturating_mul(8 * bytes), seconds * lengths);
        Some(u64::try_from(bits.saturating_add(parts / 2) / parts.max(1)).unwrap_or(u64::MAX))
    }

    /// The intervals in which the source is active in a run that lasts until `end`: cut there, and the whole run when the
    /// source names none.
    #[must_use]
    pub fn active_until(&self, end: Nanos) -> Vec<Interval> {
        if self.active.is_empty() {
            return if end > Nanos::ZERO { vec![Interval { start: Nanos::ZERO, end }] } else { Vec::new() };
        }
        let cut = |interval: &Interval| Interval { start: interval.start, end: interval.end.min(end) };
        self.active.iter().map(cut).filter(|interval| interval.start < interval.end).collect()
    }

    /// Whether the source is active at the instant `at` in a run that lasts until `end`: whether that is in one of
    /// [`SourceSpec::active_until`], which are in order in a spec that is sound. Takes the logarithm of their number.
    #[must_use]
    pub fn is_active(&self, at: Nanos, end: Nanos) -> bool {
        let behind = self.active.partition_point(|interval| interval.start <= at);
        let last = behind.checked_sub(1).map(|last| self.active[last]);
        at < end && (self.active.is_empty() || last.is_some_and(|interval| at < interval.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).unwrap()
    }

    fn spec(model: Model, packet: PacketSize) -> SourceSpec {
        SourceSpec { class: ClassId(1), model, packet, active: Vec::new() }
    }

    fn uniform(min: u32, max: u32, header: u32) -> PacketSize {
        PacketSize::Uniform { min, max, header }
    }

    #[test]
    fn what_cannot_run_is_refused_with_value_and_limit() {
        let validate = |model, packet| spec(model, packet).validate().unwrap_err();
        assert_eq!(validate(Model::Greedy, PacketSize::Fixed(0)), SourceError::EmptyPacket);
        assert_eq!(validate(Model::Greedy, uniform(0, 9, 0)), SourceError::EmptyPacket);
        assert_eq!(validate(Model::Greedy, uniform(9, 8, 1)), SourceError::EmptyRange { min: 9, max: 8 });
        let too_long = SourceError::PacketTooLong { len: u64::from(MAX_PACKET) + 1, limit: MAX_PACKET };
        assert_eq!(validate(Model::Greedy, uniform(1, MAX_PACKET, 1)), too_long);
        let too_long = SourceError::PacketTooLong { len: 1 << 32, limit: MAX_PACKET };
        assert_eq!(validate(Model::Greedy, uniform(1, u32::MAX, u32::MAX)), too_long);
        let fixed = PacketSize::Fixed(100);
        assert_eq!(validate(Model::CbrPackets { per_1000_s: 0 }, fixed), SourceError::NoPackets);
        let too_many =
            SourceError::TooManyPackets { packets_per_second: 18_446_744_073_709_551, limit: MAX_PACKETS_PER_SECOND };
        assert_eq!(validate(Model::PoissonPackets { per_1000_s: u64::MAX }, fixed), too_many);
        let too_many =
            SourceError::TooManyPackets { packets_per_second: 125_000_000_000, limit: MAX_PACKETS_PER_SECOND };
        assert_eq!(validate(Model::CbrRate(Rate::MAX), PacketSize::Fixed(1)), too_many);
        let interval = |start, end| Interval { start: Nanos(start), end: Nanos(end) };
        for (active, wrong) in [
            (vec![interval(5, 5)], interval(5, 5)),
            (vec![interval(0, 5), interval(4, 6)], interval(4, 6)),
            (vec![interval(7, 9), interval(1, 2)], interval(1, 2)),
        ] {
            let spec = SourceSpec { active, ..spec(Model::Greedy, fixed) };
            assert_eq!(spec.validate(), Err(SourceError::Interval { interval: wrong }));
        }
        let spec = SourceSpec { active: vec![interval(0, 5), interval(5, 6)], ..spec(Model::Greedy, fixed) };
        assert_eq!(spec.validate(), Ok(()));
    }

    #[test]
    fn the_mean_rate_counts_what_the_link_accounts_for_each_packet() {
        let plain = |len| len;
        let cbr = spec(Model::CbrRate(rate(1_000_000)), uniform(40, 700, 40));
        assert_eq!(cbr.mean_rate(plain), Some(1_000_000));
        // A mean packet of 410 B becomes one of 451 B.
        assert_eq!(cbr.mean_rate(|len| len + 41), Some(1_100_000));
        let poisson = spec(Model::PoissonPackets { per_1000_s: 15_000 }, uniform(40, 700, 40));
        assert_eq!(poisson.mean_rate(plain), Some(15 * 410 * 8));
        assert_eq!(spec(Model::Greedy, PacketSize::Fixed(1000)).mean_rate(plain), None);
        // A cell of 53 bytes for each started 48.
        let cells = spec(Model::CbrPackets { per_1000_s: 1000 }, uniform(48, 49, 0));
        assert_eq!(cells.mean_rate(|len| len.div_ceil(48) * 53), Some((53 + 106) * 8 / 2));
    }

    #[test]
    fn intervals_are_cut_at_the_end_of_the_run() {
        let interval = |start, end| Interval { start: Nanos(start), end: Nanos(end) };
        let mut spec = spec(Model::Greedy, PacketSize::Fixed(1));
        assert_eq!(spec.active_until(Nanos(7)), [interval(0, 7)]);
        spec.active = vec![interval(1, 3), interval(5, 9), interval(10, 11)];
        assert_eq!(spec.active_until(Nanos(7)), [interval(1, 3), interval(5, 7)]);
    }

    #[test]
    fn a_source_is_active_at_an_instant_of_its_intervals() {
        let mut spec = spec(Model::Greedy, PacketSize::Fixed(1));
        for active in [vec![], vec![(1, 3), (5, 9), (9, 10)], vec![(0, 2), (12, 14)]] {
            spec.active =
                active.iter().map(|&(start, end)| Interval { start: Nanos(start), end: Nanos(end) }).collect();
            for (at, end) in (0..16).flat_map(|at| (0..16).map(move |end| (Nanos(at), Nanos(end)))) {
                let expected = spec.active_until(end).iter().any(|interval| interval.start <= at && at < interval.end);
                assert_eq!(spec.is_active(at, end), expected, "{active:?} at {at} of {end}");
            }
        }
    }
}
