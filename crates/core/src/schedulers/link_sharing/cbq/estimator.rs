//! CBQ's estimator: compares a class's use with its rate, by an average of the idle time between its packets.

use crate::contract::{NANOS_PER_SEC, Nanos, Rate};

/// Unit of time as a fraction of a nanosecond: a byte at 1 Tbit/s lasts 8 ps.
const FINE_BITS: u32 = 20;

/// The weight of a new idle time in the average is 2^-this: 1/16, as in \[cbq\].
const GAIN_BITS: u32 = 4;

/// Averages up to this, a nanosecond, count as zero: callers' clocks have no finer resolution.
const RESOLUTION: Fine = 1 << FINE_BITS;

/// Default burst in packets: the number that a class may send back to back after a long idle time.
pub(crate) const MAX_BURST: u64 = 16;

/// No maxidle is longer than this, 38 million years: (16/15)^n grows without end, and no class was idle for that long.
const LONGEST: Fine = 1 << 100;

/// A point in time or a span, in 2^-20 ns. A `u64` of nanoseconds takes 84 bits.
pub(super) type Fine = i128;

/// Converts `now` to fine time.
pub(super) fn fine(now: Nanos) -> Fine {
    Fine::from(now.0) << FINE_BITS
}

/// Returns the first whole nanosecond that is not before `at`.
pub(super) fn rounded_up(at: Fine) -> Nanos {
    Nanos(u64::try_from((at + (1 << FINE_BITS) - 1) >> FINE_BITS).unwrap_or(u64::MAX))
}

/// Duration of `len` bytes at `rate`, rounded up.
pub(super) fn duration(len: u32, rate: Rate) -> Fine {
    // At most 2^32 * 2^33 * 2^20.
    let bits = (u128::from(len) * 8 * u128::from(NANOS_PER_SEC)) << FINE_BITS;
    bits.div_ceil(u128::from(rate.bps())) as Fine
}

/// The average idle time of a class and its consequences.
///
/// The idle time of a packet is the time from the end of the class's last packet to its own end, minus its duration at
/// the class's rate. The average is an exponential one, `avgidle += (idle - avgidle) / 16`. A class is overlimit when
/// its average is not above zero. It stays so until the time at which another packet of this length would bring the
/// average back to zero. If it does not remember debt, it stays so until such a packet would be on time at its rate.
///
/// DIFFERENCE: a class is overlimit when its average is not above a nanosecond, instead of zero. A class that waits for
/// its time is woken at a whole nanosecond and so starts a fraction late. Its average would be above zero. It would
/// send a second packet at once, and get up to 3 % more than its rate in this way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimator {
    rate: Rate,
    /// True if debt is waited for.
    remembers: bool,
    average: Fine,
    largest: Fine,
    /// End of the last packet.
    last: Fine,
    /// Time from which the class is not overlimit.
    under: Fine,
}

impl Estimator {
    /// Makes an estimator for a class of `rate` on a link of `link`. The class may send `burst` packets of `packet`
    /// bytes back to back, and `remembers` debt.
    pub(super) fn new(rate: Rate, link: Rate, packet: u32, burst: u64, remembers: bool) -> Self {
        let on_link = duration(packet, link);
        let ahead = duration(packet, rate) - on_link;
        // ((16/15)^n - 1) (t / p - t): n idle times of -(t / p - t) bring it down to zero. At least t / 16.
        let mut largest = 0;
        for _ in 0..burst {
            let next = ((largest << GAIN_BITS) + ahead) / ((1 << GAIN_BITS) - 1);
            // No further gain, or longer than any pause: after at most some 1,100 steps.
            if next == largest || next > LONGEST {
                break;
            }
            largest = next;
        }
        let largest = largest.max(on_link >> GAIN_BITS);
        Self { rate, remembers, average: largest, largest, last: 0, under: 0 }
    }

    /// Records a packet of `len` bytes with the duration `on_link` that ends at `end`.
    pub(super) fn sent(&mut self, len: u32, on_link: Fine, end: Fine) {
        let own = duration(len, self.rate);
        let idle = end - self.last - own;
        // Rounded down: credit.
        self.average = (self.average + ((idle - self.average) >> GAIN_BITS)).min(self.largest);
        self.last = end;
        self.under = end;
        if self.average <= RESOLUTION {
            let counts = if self.remembers { self.average } else { self.average.max(0) };
            self.under += own - on_link - ((1 << GAIN_BITS) - 1) * counts;
        }
    }

    /// Returns the time from which the class is not overlimit.
    pub(super) fn under(&self) -> Fine {
        self.under
    }

    /// Resets to the initial state.
    pub(super) fn reset(&mut self) {
        (self.average, self.last, self.under) = (self.largest, 0, 0);
    }

    /// Returns true if the average is in its range: at most maxidle, and at least the idle time of a packet that is
    /// sent at once.
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn is_sound(&self) -> bool {
        self.average <= self.largest && self.average >= -duration(crate::contract::MAX_PACKET, self.rate) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::MAX_PACKET;

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).unwrap()
    }

    /// Packets sent by a class that always sends when it is not overlimit.
    fn paced(bps: u64, len: impl Fn(usize) -> u32, count: usize) -> (u64, Fine) {
        let link = rate(100_000_000);
        let mut estimator = Estimator::new(rate(bps), link, 1500, MAX_BURST, true);
        let (mut clock, mut bytes) = (0, 0);
        for packet in 0..count {
            clock = clock.max(estimator.under());
            clock += duration(len(packet), link);
            estimator.sent(len(packet), duration(len(packet), link), clock);
            assert!(estimator.is_sound());
            bytes += u64::from(len(packet));
        }
        (bytes, clock)
    }

    #[test]
    fn a_class_that_sends_when_it_may_gets_its_rate() {
        for bps in [1, 999, 1_000_000, 50_000_000, 99_000_000, 100_000_000] {
            let (bytes, clock) = paced(bps, |_| 1000, 20_000);
            let expected = duration(1, rate(bps)) * Fine::from(bytes);
            // The burst at the start, and the rounding.
            assert!(clock <= expected + expected / 1_000_000 && clock >= expected - expected / 200, "{bps}: {clock}");
        }
    }

    #[test]
    fn the_first_burst_is_of_the_packets_allowed_and_then_one_at_a_time() {
        let link = rate(100_000_000);
        for burst in [1, 4, 16, 100] {
            let mut estimator = Estimator::new(rate(1_000_000), link, 1000, burst, true);
            let on_link = duration(1000, link);
            // As if the last packet had ended just now.
            let mut clock = 0;
            let mut packets = 0;
            while estimator.under() <= clock {
                clock += on_link;
                estimator.sent(1000, on_link, clock);
                packets += 1;
            }
            assert!(packets == burst || packets == burst + 1, "{packets} of {burst}");
            assert!(rounded_up(estimator.under()) >= rounded_up(clock) + Nanos(7_900_000));
        }
    }

    #[test]
    fn debt_is_waited_for_only_where_it_is_remembered() {
        let link = rate(100_000_000);
        for (remembers, waits) in [(true, 4 + 15 * 4), (false, 4)] {
            let mut estimator = Estimator::new(rate(20_000_000), link, 1000, MAX_BURST, remembers);
            let on_link = duration(1000, link);
            for packet in 1..=1000 {
                estimator.sent(1000, on_link, packet * on_link);
            }
            let waited = rounded_up(estimator.under() - 1000 * on_link);
            assert!(waited.0.abs_diff(waits * 80_000) < 100, "{waited}");
        }
    }

    #[test]
    fn a_class_of_the_rate_of_the_link_is_never_overlimit() {
        for bps in [1, 7, 1_000_003, 999_999_999_999] {
            let link = rate(bps);
            let mut estimator = Estimator::new(link, link, 1500, MAX_BURST, true);
            let mut clock = 0;
            for len in (0..1500).chain([MAX_PACKET, 1, 0]) {
                clock += duration(len, link);
                estimator.sent(len, duration(len, link), clock);
                assert!(estimator.under() <= clock && estimator.is_sound());
            }
        }
    }
}
