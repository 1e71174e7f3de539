//! CoDel (RFC 8289): which packets to give up so that those behind them do not wait long. The queue is elsewhere
//! ([`queue`](crate::queue)); this is the estimator and the control law.
//!
//! | RFC 8289, Section 5 | here | unit |
//! | --- | --- | --- |
//! | TARGET | [`TARGET`] | 5 ms |
//! | INTERVAL | [`INTERVAL`] | 100 ms |
//! | first_above_time_ | `first_above`, `None` for 0 | ns |
//! | drop_next_, count_, lastcount_, dropping_ | `drop_next`, `count`, `last_count`, `dropping` | ns, packets |
//! | control_law | [`spacing`] | ns, rounded up |
//! | dodequeue, dequeue | [`Codel::judge`], one packet at a time | |
//!
//! While every packet of an interval has waited for at least the target, one is signalled: dropped, or marked. The next
//! is due an interval / sqrt(count) later, until a packet has waited for less. A packet is never signalled if at most
//! one largest packet remains behind it: a link that is busy with one packet is not congested. So CoDel needs no notice
//! that a queue ran empty: the last packet of the queue has ended the series.
//!
//! **Cost.** A few comparisons per packet; an integer square root per signal.
//! **Overflow budget.** The interval in ns squared is below 2^54; counts stop at 2^32 - 1; times saturate.
//! **Validation.** Against the RFC's pseudo-code, written down with floats, in `queue/aqm_tests.rs`; the square root here.
//!
//! DIFFERENCE: intervals are rounded up to whole nanoseconds. The RFC leaves the precision open.
//! DIFFERENCE: a packet that is marked counts as a signal and is sent; the RFC's pseudo-code only drops. At most one packet is
//! marked per dequeue, as every dequeue sends one.

use crate::contract::Nanos;

/// Acceptable standing delay of packets.
pub(super) const TARGET: Nanos = Nanos::from_millis(5);
/// Time above [`TARGET`] before the first signal: about the longest round trip.
pub(super) const INTERVAL: Nanos = Nanos::from_millis(100);

/// Returns the time between a signal, the `count`-th in a row, and the next one: INTERVAL / sqrt(count), rounded up.
#[must_use]
pub(super) fn spacing(count: u32) -> Nanos {
    // The smallest x with x^2 * count >= INTERVAL^2.
    let square = (INTERVAL.0 * INTERVAL.0).div_ceil(u64::from(count.max(1)));
    let root = square.isqrt();
    Nanos(root + u64::from(root * root < square))
}

/// The verdict on a packet.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send it.
    Send,
    /// Drop it and judge the next one, or mark it, say so with [`Codel::marked`], and send it.
    Signal,
}

/// The state of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Codel {
    first_above: Option<Nanos>,
    drop_next: Nanos,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// The packet signalled last was the first of its row.
    entered: bool,
}

impl Codel {
    /// The initial state.
    pub(super) const NEW: Self =
        Self { first_above: None, drop_next: Nanos::ZERO, count: 0, last_count: 0, dropping: false, entered: false };

    /// Judges the packet at the head of the queue when another is wanted at `now`: it has waited for `sojourn`, and `behind` bytes
    /// are queued behind it. `again`: it is wanted because [`Codel::judge`] had the one before it dropped.
    pub(super) fn judge(&mut self, now: Nanos, sojourn: Nanos, behind: u64, max_packet: u32, again: bool) -> Verdict {
        let above = self.stays_above(now, sojourn, behind, max_packet);
        if again {
            if core::mem::take(&mut self.entered) {
                return Verdict::Send;
            }
            if above {
                self.drop_next = self.drop_next.saturating_add(spacing(self.count));
            }
        }
        if self.dropping {
            self.dropping = above;
            if above && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                return Verdict::Signal;
            }
        } else if above {
            self.enter(now);
            return Verdict::Signal;
        }
        Verdict::Send
    }

    /// Records that the packet to signal was marked and will be sent.
    pub(super) fn marked(&mut self) {
        if !core::mem::take(&mut self.entered) {
            self.drop_next = self.drop_next.saturating_add(spacing(self.count));
        }
    }

    /// Returns true if packets have waited for more than the target for an interval.
    fn stays_above(&mut self, now: Nanos, sojourn: Nanos, behind: u64, max_packet: u32) -> bool {
        if sojourn < TARGET || behind <= u64::from(max_packet) {
            self.first_above = None;
            return false;
        }
        now >= *self.first_above.get_or_insert(now.saturating_add(INTERVAL))
    }

    /// Begins a series of signals, at the last count if the previous series ended recently.
    fn enter(&mut self, now: Nanos) {
        let recently = now < self.drop_next.saturating_add(Nanos(16 * INTERVAL.0));
        let before = self.count.saturating_sub(self.last_count);
        self.count = if before > 1 && recently { before } else { 1 };
        self.last_count = self.count;
        self.drop_next = now.saturating_add(spacing(self.count));
        (self.dropping, self.entered) = (true, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spacing_is_the_interval_over_the_root_of_the_count_rounded_up() {
        assert_eq!([1, 2, 3, 4].map(spacing), [100_000_000, 70_710_679, 57_735_027, 50_000_000].map(Nanos));
        assert_eq!(spacing(0), INTERVAL);
    }

    proptest! {
        #[test]
        fn spacing_agrees_with_floats_and_is_the_least_that_is_long_enough(count in 1u32.., shift in 0u32..32) {
            let count = (count >> shift).max(1);
            let Nanos(spacing) = spacing(count);
            prop_assert_eq!(spacing, (1e8 / f64::from(count).sqrt()).ceil() as u64);
            let enough = |x: u64| u128::from(x * x) * u128::from(count) >= 10u128.pow(16);
            prop_assert!(enough(spacing) && !enough(spacing - 1));
        }
    }
}
