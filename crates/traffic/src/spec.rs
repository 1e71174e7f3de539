//! The specification of a source, as plain data.

use fairlink_core::{ClassId, MAX_PACKET, Nanos};

use crate::error::SourceError;
use crate::interval::Interval;
use crate::length::PacketSize;
use crate::models::{self, Excess, Model, Pace, Running};

/// Most packets per second that a source may send on average: 64-byte packets at 1 Tbit/s.
pub const MAX_PACKETS_PER_SECOND: u64 = 2_000_000_000;

/// One source of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSpec {
    /// The leaf that its packets belong to.
    pub class: ClassId,
    /// Arrival times of packets.
    pub model: Model,
    /// Lengths of packets. Models with frames cut them into packets of the longest length; a trace has its own lengths.
    pub packet: PacketSize,
    /// When the source is active, in order and disjoint; the whole run when empty.
    pub active: Vec<Interval>,
}

impl SourceSpec {
    /// Checks the source.
    ///
    /// # Errors
    /// The first [`SourceError`] found.
    pub fn validate(&self) -> Result<(), SourceError> {
        self.running().map(drop)
    }

    /// Makes the generator of the source, after validation; `None` for a closed one.
    pub(crate) fn running(&self) -> Result<Option<Running>, SourceError> {
        self.packet.validate()?;
        let running = match self.model.sender() {
            Model::RequestResponse(requests) => {
                requests.check()?;
                None
            }
            Model::Tcp(_) => None,
            _ => Some(Running::new(&self.model, &self.packet)?),
        };
        if self.model.is_closed() && matches!(self.model, Model::Shaped(_)) {
            return Err(SourceError::ClosedShaped);
        }
        if let Some(per_second) = self.packets_per_second() {
            if per_second <= 0.0 {
                return Err(SourceError::NoPackets);
            }
            if per_second > MAX_PACKETS_PER_SECOND as f64 {
                return Err(SourceError::TooManyPackets {
                    packets_per_second: per_second as u64,
                    limit: MAX_PACKETS_PER_SECOND,
                });
            }
        }
        if let Some((_, len)) = self.lengths()
            && len > MAX_PACKET
        {
            return Err(SourceError::PacketTooLong { len: len.into(), limit: MAX_PACKET });
        }
        if let Model::Shaped(shaped) = &self.model {
            shaped.curve.check()?;
            match (&shaped.model, shaped.excess) {
                (Model::Shaped(_), _) => return Err(SourceError::ShapedTwice),
                (Model::Greedy, Excess::Drops) => return Err(SourceError::GreedyPoliced),
                _ => {}
            }
            let limit = shaped.curve.longest_packet();
            if let Some((_, len)) = self.lengths() {
                if u64::from(len) > limit {
                    return Err(SourceError::NeverConforms { len, limit });
                }
                if let Excess::Waits(Some(queue)) = shaped.excess
                    && (queue.bytes < len || queue.packets == 0)
                {
                    return Err(SourceError::ShaperQueue {
                        len,
                        bytes: if queue.packets == 0 { 0 } else { queue.bytes },
                    });
                }
            }
        }
        let mut free = Nanos::ZERO;
        for &interval in &self.active {
            if interval.start < free || interval.end <= interval.start {
                return Err(SourceError::Interval { interval });
            }
            free = interval.end;
        }
        Ok(running)
    }

    /// Mean number of packets per second while the source is active, for even packets; while it is on, for sources that
    /// are on and off. `None` if the model has frames, a trace, or no clock.
    fn packets_per_second(&self) -> Option<f64> {
        match self.model.sender() {
            Model::Saturating(rate) => Some(Pace::Rate(*rate).packets_per_second(&self.packet)),
            Model::Cbr { pace, .. } | Model::Poisson(pace) | Model::OnOff { pace, .. } => {
                Some(pace.packets_per_second(&self.packet))
            }
            Model::Mmpp(states) => Some(models::packets_per_second(states)),
            Model::Greedy
            | Model::Mpeg(_)
            | Model::Dar1(_)
            | Model::Trace(_)
            | Model::Tcp(_)
            | Model::RequestResponse(_)
            | Model::Shaped(_) => None,
        }
    }

    /// Returns the mean time from one packet, or one burst, to the next of a source that spaces them evenly; `None` for
    /// other models.
    #[must_use]
    pub fn period(&self) -> Option<Nanos> {
        match self.model.sender() {
            Model::Cbr { pace, burst } => {
                let seconds = f64::from(*burst) / pace.packets_per_second(&self.packet);
                Some(Nanos(libm::round(seconds * 1e9) as u64))
            }
            _ => None,
        }
    }

    /// Shortest and longest packet of the source, in bytes; `None` if a length does not fit 32 bits.
    #[must_use]
    pub fn lengths(&self) -> Option<(u32, u32)> {
        match self.model.sender() {
            Model::Mpeg(mpeg) => mpeg.range(&self.packet),
            Model::Dar1(_) => Some((1, self.packet.range()?.1)),
            Model::Trace(trace) => Some(trace.range()),
            // The last packet of a request has the rest.
            Model::RequestResponse(_) => Some((1, self.packet.range()?.1)),
            _ => self.packet.range(),
        }
    }

    /// Mean rate of the source while it is active, in bit/s rounded to the nearest; `None` is unlimited. `accounted`
    /// maps a frame's length to the link's count, both in bytes.
    #[must_use]
    pub fn mean_rate(&self, accounted: impl Fn(u32) -> u32) -> Option<u64> {
        let offered = self.offered_bytes_per_second(&accounted);
        let bytes = match &self.model {
            Model::Shaped(shaped) => {
                // No more than the curve lets through in the long run, which counts the frames themselves.
                let curve = shaped.curve.long_run_bps(self.lengths().map_or(MAX_PACKET, |(_, longest)| longest)) / 8.0;
                let frames = self.offered_bytes_per_second(&|len| len);
                let per_byte = match (offered, frames) {
                    (Some(offered), Some(frames)) if frames > 0.0 => offered / frames,
                    _ => self.packet.mean_accounted(&accounted) / self.packet.mean_accounted(|len| len),
                };
                let through = frames.map_or(curve, |frames| frames.min(curve));
                if through.is_infinite() { return None } else { through * per_byte }
            }
            _ => offered?,
        };
        Some(libm::round(bytes * 8.0) as u64)
    }

    /// Mean offered bytes per second while the source is active; `None` is unlimited.
    fn offered_bytes_per_second(&self, accounted: &dyn Fn(u32) -> u32) -> Option<f64> {
        let bytes_per_second = match self.model.sender() {
            Model::Greedy | Model::Tcp(_) | Model::Shaped(_) => return None,
            Model::RequestResponse(requests) => {
                requests.bytes_per_second()? * self.packet.mean_accounted(accounted) / self.packet.mean()
            }
            Model::Mpeg(mpeg) => mpeg.bytes_per_second(&self.packet, accounted),
            Model::Dar1(dar1) => dar1.bytes_per_second(&self.packet, accounted),
            Model::Trace(trace) => trace.bytes_per_second(accounted),
            Model::OnOff { on, off, .. } => {
                let (on, off) = (on.mean().0 as f64, off.0 as f64);
                self.packets_per_second()? * on / (on + off) * self.packet.mean_accounted(accounted)
            }
            _ => self.packets_per_second()? * self.packet.mean_accounted(accounted),
        };
        Some(bytes_per_second)
    }

    /// Returns the intervals in which the source is active in a run that lasts until `end`: cut there, or the whole run
    /// if the source names none.
    #[must_use]
    pub fn active_until(&self, end: Nanos) -> Vec<Interval> {
        if self.active.is_empty() {
            return if end > Nanos::ZERO { vec![Interval { start: Nanos::ZERO, end }] } else { Vec::new() };
        }
        let cut = |interval: &Interval| Interval { start: interval.start, end: interval.end.min(end) };
        self.active.iter().map(cut).filter(|interval| interval.start < interval.end).collect()
    }

    /// Returns true if the source is active at the instant `at` in a run that lasts until `end`: if it is in one of
    /// [`SourceSpec::active_until`], which are sorted in a valid spec. Takes time in the logarithm of their number.
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
    use fairlink_core::Rate;

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
        assert_eq!(validate(Model::cbr_packets(0), fixed.clone()), SourceError::NoPackets);
        let too_many =
            SourceError::TooManyPackets { packets_per_second: 18_446_744_073_709_552, limit: MAX_PACKETS_PER_SECOND };
        assert_eq!(validate(Model::poisson_packets(u64::MAX), fixed.clone()), too_many);
        let too_many =
            SourceError::TooManyPackets { packets_per_second: 125_000_000_000, limit: MAX_PACKETS_PER_SECOND };
        assert_eq!(validate(Model::cbr(Rate::MAX), PacketSize::Fixed(1)), too_many);
        let interval = |start, end| Interval { start: Nanos(start), end: Nanos(end) };
        for (active, wrong) in [
            (vec![interval(5, 5)], interval(5, 5)),
            (vec![interval(0, 5), interval(4, 6)], interval(4, 6)),
            (vec![interval(7, 9), interval(1, 2)], interval(1, 2)),
        ] {
            let spec = SourceSpec { active, ..spec(Model::Greedy, fixed.clone()) };
            assert_eq!(spec.validate(), Err(SourceError::Interval { interval: wrong }));
        }
        let spec = SourceSpec { active: vec![interval(0, 5), interval(5, 6)], ..spec(Model::Greedy, fixed) };
        assert_eq!(spec.validate(), Ok(()));
    }

    #[test]
    fn the_mean_rate_counts_what_the_link_accounts_for_each_packet() {
        let plain = |len| len;
        let cbr = spec(Model::cbr(rate(1_000_000)), uniform(40, 700, 40));
        assert_eq!(cbr.mean_rate(plain), Some(1_000_000));
        // A mean packet of 410 B becomes one of 451 B.
        assert_eq!(cbr.mean_rate(|len| len + 41), Some(1_100_000));
        let poisson = spec(Model::poisson_packets(15_000), uniform(40, 700, 40));
        assert_eq!(poisson.mean_rate(plain), Some(15 * 410 * 8));
        assert_eq!(spec(Model::Greedy, PacketSize::Fixed(1000)).mean_rate(plain), None);
        // A cell of 53 bytes for each started 48.
        let cells = spec(Model::cbr_packets(1000), uniform(48, 49, 0));
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
