//! The ratio rule of \[htb\], "cross device sharing": the slots of HTB's first version.
//!
//! Links ask for packets at any time, so that bandwidth borrowed from a common owner cannot be shared by taking turns.
//! Instead each member has a meter of its actual rate. It borrows only while that rate is at most its allowed rate:
//!
//! R = sum(actual) / sum(base) over the active members; allowed = base * R; deny when actual > allowed.
//!
//! | text | here | unit |
//! | --- | --- | --- |
//! | slot, its owner's rate | [`Ratio`], `Ratio::rate` | bit/s |
//! | child of the slot ("pslot") | `Meter`; `base`: its own assured rate | bit/s |
//! | actual rate, "recalculated every 100ms" | `Meter::actual`, every [`PERIOD`] | bytes per period * 2^16 |
//! | "6 sec averaging interval" | [`AVERAGED`] periods, weighted exponentially | |
//!
//! A member is active while it sent something in the last whole period or in this one.
//!
//! When two links meet, one may decide by figures that are one packet or one period old. In one simulation, on one thread,
//! everything is exact and repeatable.
//!
//! **Total.** The owner has a token bucket, stored as the time at which it is full again, fractions included. All
//! traffic of members is charged to it, out of their own base or borrowed. No member borrows while it is in debt. If
//! the bases of the members add up to no more than the rate, the members together send no more than rate (t - s) +
//! burst + their own bursts and one packet of each. Debt is never forgiven.
//!
//! **Drawbacks**, which the text admits. It reacts within seconds, not packets. A member that offers less than its
//! share lowers R for all: the others are kept at the same ratio to their bases, and the rest of the pool stays unused.
//!
//! DIFFERENCE: the owner is a separate object and not a class of one of the links, so that no link has to outlive the
//! others. The text's child of the owner on its own link is an ordinary member here. DIFFERENCE: the average is an
//! exponential one with a time constant of six seconds; the text does not say which.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::contract::{NANOS_PER_SEC, Nanos, Rate};

/// Interval between computations of actual rates.
const PERIOD: Nanos = Nanos::from_millis(100);
/// Length of the average in periods: six seconds.
const AVERAGED: u64 = 60;
/// Fraction of a byte per period in which means are kept.
const FRACTION_BITS: u32 = 16;
/// Number of silent periods after which a mean counts as zero.
const FORGOTTEN: u64 = 60 * AVERAGED;

#[derive(Debug)]
struct Meter {
    base_bps: AtomicU64,
    /// Bytes of the current period.
    bytes: AtomicU64,
    actual: AtomicU64,
    active: AtomicBool,
}

/// The owner of the bandwidth, and the meters of its members.
#[derive(Debug)]
pub(super) struct Ratio {
    rate_bps: AtomicU64,
    /// Burst, as time at the rate, in ns.
    burst: AtomicU64,
    /// When the bucket is full again, in ns, and the rest in units of (1 / rate) ns.
    full_at: AtomicU64,
    fraction: AtomicU64,
    /// Number of the current period.
    period: AtomicU64,
    meters: Vec<Meter>,
    /// True if members keep to the ratio. Otherwise credit is first come, first served.
    guarded: bool,
}

impl Ratio {
    pub(super) fn new(rate: Rate, burst: u64, bases: &[Rate], guarded: bool) -> Self {
        let meter = |base: &Rate| Meter {
            base_bps: AtomicU64::new(base.bps()),
            bytes: AtomicU64::new(0),
            actual: AtomicU64::new(0),
            active: AtomicBool::new(false),
        };
        Self {
            rate_bps: AtomicU64::new(rate.bps()),
            burst: AtomicU64::new(rate.time_for_bytes(burst).0),
            full_at: AtomicU64::new(0),
            fraction: AtomicU64::new(0),
            period: AtomicU64::new(0),
            meters: bases.iter().map(meter).collect(),
            guarded,
        }
    }

    pub(super) fn members(&self) -> usize {
        self.meters.len()
    }

    pub(super) fn bases(&self) -> Vec<Rate> {
        // They were rates when they were stored.
        self.meters.iter().filter_map(|meter| Rate::from_bps(meter.base_bps.load(Relaxed)).ok()).collect()
    }

    /// Adopts these values; there are as many bases as members. Debt stays, as the time that it takes to pay.
    pub(super) fn retune(&self, rate: Rate, burst: u64, bases: &[Rate]) {
        self.rate_bps.store(rate.bps(), Relaxed);
        self.burst.store(rate.time_for_bytes(burst).0, Relaxed);
        for (meter, base) in self.meters.iter().zip(bases) {
            meter.base_bps.store(base.bps(), Relaxed);
        }
    }

    /// Recomputes the actual rates if a period has ended; the first caller does it for all.
    fn measure(&self, now: Nanos) {
        let period = now.0 / PERIOD.0;
        let before = self.period.load(Relaxed);
        if period <= before || self.period.compare_exchange(before, period, Relaxed, Relaxed).is_err() {
            return;
        }
        let silent = period - before - 1;
        for meter in &self.meters {
            let bytes = meter.bytes.swap(0, Relaxed);
            meter.active.store(bytes > 0 && silent == 0, Relaxed);
            let sent = bytes.min(u64::MAX >> (FRACTION_BITS + 1)) << FRACTION_BITS;
            let mut actual = mean(meter.actual.load(Relaxed), sent);
            for _ in 0..silent.min(FORGOTTEN) {
                actual = mean(actual, 0);
            }
            meter.actual.store(if silent > FORGOTTEN { 0 } else { actual }, Relaxed);
        }
    }

    /// Returns true if the actual rate of member `index` is at most its allowed rate.
    fn is_within_ratio(&self, index: usize) -> bool {
        let (mut bases, mut actuals) = (0u128, 0u128);
        for (at, meter) in self.meters.iter().enumerate() {
            if at == index || meter.active.load(Relaxed) || meter.bytes.load(Relaxed) > 0 {
                bases += u128::from(meter.base_bps.load(Relaxed));
                actuals += u128::from(meter.actual.load(Relaxed));
            }
        }
        // actual <= base * sum(actual) / sum(base), with rates below 2^40 and means below 2^64.
        let meter = &self.meters[index];
        u128::from(meter.actual.load(Relaxed)) * bases <= u128::from(meter.base_bps.load(Relaxed)) * actuals
    }

    /// Returns the mean rate of member `index`, in bit/s, rounded down.
    pub(super) fn actual_bps(&self, index: usize) -> u64 {
        let actual = u128::from(self.meters[index].actual.load(Relaxed));
        ((actual * 8 * u128::from(NANOS_PER_SEC) / u128::from(PERIOD.0)) >> FRACTION_BITS) as u64
    }

    pub(super) fn may_borrow(&self, index: usize, now: Nanos) -> Result<(), Nanos> {
        self.measure(now);
        let ready_at = Nanos(self.full_at.load(Relaxed).saturating_sub(self.burst.load(Relaxed)));
        if ready_at > now {
            return Err(ready_at);
        }
        if !self.guarded || self.is_within_ratio(index) {
            return Ok(());
        }
        let next = (now.0 / PERIOD.0).saturating_add(1).saturating_mul(PERIOD.0);
        Err(Nanos(next))
    }

    pub(super) fn sent(&self, index: usize, now: Nanos, bytes: u32) {
        self.measure(now);
        self.meters[index].bytes.fetch_add(u64::from(bytes), Relaxed);
        let rate = u128::from(self.rate_bps.load(Relaxed));
        let units = u128::from(bytes) * 8 * u128::from(NANOS_PER_SEC);
        // Below 2^65, over a rate of at least 1.
        let carry = |fraction: u64| (units + u128::from(fraction)) % rate;
        let (Ok(fraction) | Err(fraction)) =
            self.fraction.fetch_update(Relaxed, Relaxed, |fraction| Some(carry(fraction) as u64));
        let span = u64::try_from((units + u128::from(fraction)) / rate).unwrap_or(u64::MAX);
        let later = |full_at: u64| Some(full_at.max(now.0).saturating_add(span));
        let (Ok(_) | Err(_)) = self.full_at.fetch_update(Relaxed, Relaxed, later);
    }
}

/// Returns the mean after a period with `sent` sent, both in fractions of a byte.
fn mean(actual: u64, sent: u64) -> u64 {
    // Moves towards the sent bytes by a sixtieth of the difference. Never up to the next value if that is less than one
    // fraction.
    (u128::from(actual) * u128::from(AVERAGED - 1) + u128::from(sent)).div_euclid(u128::from(AVERAGED)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).unwrap()
    }

    #[test]
    fn debt_lasts_until_it_is_paid_and_fractions_of_a_nanosecond_count() {
        let pool = Ratio::new(rate(3), 0, &[rate(1)], true);
        pool.sent(0, Nanos::ZERO, 1);
        // 8 bits at 3 bit/s, rounded down here and made up for with the next two packets.
        assert_eq!(pool.may_borrow(0, Nanos(1)), Err(Nanos(2_666_666_666)));
        pool.sent(0, Nanos(1), 1);
        pool.sent(0, Nanos(2), 1);
        assert_eq!(pool.may_borrow(0, Nanos(7_999_999_999)), Err(Nanos::from_secs(8)));
        assert_eq!(pool.may_borrow(0, Nanos::from_secs(8)), Ok(()));
    }

    #[test]
    fn the_meter_settles_in_seconds_and_forgets_after_silence() {
        let pool = Ratio::new(rate(8_000_000), 0, &[rate(1)], true);
        for second in 0..30 {
            for tenth in 0..10 {
                pool.sent(0, Nanos::from_millis(second * 1_000 + tenth * 100), 10_000);
            }
            if second == 5 {
                // 1 - 1/e of 800 kbit/s after about six seconds.
                assert!((470_000..530_000).contains(&pool.actual_bps(0)), "{}", pool.actual_bps(0));
            }
        }
        assert!((790_000..=800_000).contains(&pool.actual_bps(0)), "{}", pool.actual_bps(0));
        let _ = pool.may_borrow(0, Nanos::from_secs(36));
        assert!((270_000..320_000).contains(&pool.actual_bps(0)), "{}", pool.actual_bps(0));
        let _ = pool.may_borrow(0, Nanos::from_secs(1 << 33));
        assert_eq!(pool.actual_bps(0), 0);
    }
}
