//! A pool of bandwidth shared by several links: the slots of \[htb\], "cross device sharing".
//!
//! Links ask for packets at any time, so that what they borrow from a common owner cannot be shared by taking turns.
//! Instead each member has a meter of its actual rate. It borrows only while that rate is no higher than what the ratio
//! rule allows it:
//!
//! R = sum(actual) / sum(base) over the active members; allowed = base * R; deny when actual > allowed.
//!
//! | text | here | unit |
//! | --- | --- | --- |
//! | slot, its owner's rate | [`Pool`], `Pool::rate` | bit/s |
//! | child of the slot ("pslot") | [`Member`]; `base`: its own assured rate | bit/s |
//! | actual rate, "recalculated every 100ms" | `Meter::actual`, every [`PERIOD`] | bytes per period * 2^16 |
//! | "6 sec averaging interval" | [`AVERAGED`] periods, weighted exponentially | |
//!
//! A member is active while it sent something in the last whole period or in this one.
//!
//! A pool is outside the schedulers. It is shared by reference count and made of atomics only, so that links may run on
//! different threads. Nobody waits. When two links meet, one may decide by figures that are one packet or one period
//! old. In one simulation, on one thread, everything is exact and repeatable.
//!
//! **Total.** The owner has a token bucket, kept as the time at which it is full again, fractions included. Whatever
//! members send is taken from it, out of their own base or borrowed. Nobody borrows while it is in debt. If the bases
//! of the members add up to no more than the rate, the members together send no more than rate (t - s) + burst + their
//! own bursts and one packet of each. Debt is never forgiven.
//!
//! **Drawbacks**, which the text admits. It reacts within seconds, not packets. A member that offers less than its
//! share lowers R for all: the others are kept at the same ratio to their bases, and the rest of the pool stays unused.
//!
//! DIFFERENCE: the owner is an object of its own and not a class of one of the links, so that no link has to outlive the others. What
//! was the owner's child on its own link is a member as all others are.
//! DIFFERENCE: the average is an exponential one with a time constant of six seconds; the text does not say which.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::contract::{Lender, NANOS_PER_SEC, Nanos, Rate};

/// How often actual rates are computed anew.
pub const PERIOD: Nanos = Nanos::from_millis(100);
/// Periods that a mean goes over: six seconds.
pub const AVERAGED: u64 = 60;
/// Fraction of a byte per period in which means are kept.
const FRACTION_BITS: u32 = 16;
/// After this many periods of silence a mean is nothing.
const FORGOTTEN: u64 = 60 * AVERAGED;

/// Why a pool was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// Nobody to share with.
    NoMembers,
    /// The members' base rates add up to more than the pool's rate.
    BasesExceedRate {
        /// The base rates together, in bit/s.
        bases_bps: u64,
        /// The pool's rate, in bit/s.
        rate_bps: u64,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMembers => write!(f, "a pool without members"),
            Self::BasesExceedRate { bases_bps, rate_bps } => {
                write!(
                    f,
                    "the members of a pool are guaranteed {bases_bps} bit/s together, more than its {rate_bps} bit/s"
                )
            }
        }
    }
}

impl core::error::Error for PoolError {}

#[derive(Debug)]
struct Meter {
    base: Rate,
    /// Bytes of the period under way.
    bytes: AtomicU64,
    actual: AtomicU64,
    active: AtomicBool,
}

/// The owner of the bandwidth, and the meters of its members.
#[derive(Debug)]
pub struct Pool {
    rate: Rate,
    /// What may be sent at once, as time at the rate.
    burst: Nanos,
    /// When the bucket is full again, in ns, and the rest in units of (1 / rate) ns.
    full_at: AtomicU64,
    fraction: AtomicU64,
    /// Number of the period under way.
    period: AtomicU64,
    meters: Vec<Meter>,
}

/// A member's end of a pool: what its class asks and reports to.
#[derive(Debug)]
pub struct Member {
    pool: Arc<Pool>,
    index: usize,
}

impl Pool {
    /// A pool of `rate`, of which `burst` bytes may be used at once, and one end of it for each of `bases`: the assured rates of
    /// the classes that are to share it.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn share(rate: Rate, burst: u64, bases: &[Rate]) -> Result<Vec<Member>, PoolError> {
        let sum: u128 = bases.iter().map(|base| u128::from(base.bps())).sum();
        if bases.is_empty() {
            return Err(PoolError::NoMembers);
        }
        if sum > u128::from(rate.bps()) {
            let bases_bps = u64::try_from(sum).unwrap_or(u64::MAX);
            return Err(PoolError::BasesExceedRate { bases_bps, rate_bps: rate.bps() });
        }
        let meter =
            |&base| Meter { base, bytes: AtomicU64::new(0), actual: AtomicU64::new(0), active: AtomicBool::new(false) };
        let pool = Arc::new(Self {
            rate,
            burst: rate.time_for_bytes(burst),
            full_at: AtomicU64::new(0),
            fraction: AtomicU64::new(0),
            period: AtomicU64::new(0),
            meters: bases.iter().map(meter).collect(),
        });
        Ok((0..bases.len()).map(|index| Member { pool: Arc::clone(&pool), index }).collect())
    }

    /// Computes the actual rates anew if a period has ended; whoever comes first does it for all.
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

    /// The ratio rule: whether the actual rate of member `index` is no higher than what it is allowed.
    fn is_within_ratio(&self, index: usize) -> bool {
        let (mut bases, mut actuals) = (0u128, 0u128);
        for (at, meter) in self.meters.iter().enumerate() {
            if at == index || meter.active.load(Relaxed) || meter.bytes.load(Relaxed) > 0 {
                bases += u128::from(meter.base.bps());
                actuals += u128::from(meter.actual.load(Relaxed));
            }
        }
        // actual <= base * sum(actual) / sum(base), with rates below 2^40 and means below 2^64.
        let meter = &self.meters[index];
        u128::from(meter.actual.load(Relaxed)) * bases <= u128::from(meter.base.bps()) * actuals
    }
}

/// The mean after a period in which `sent` was sent, both in fractions of a byte.
fn mean(actual: u64, sent: u64) -> u64 {
    // Towards what was sent by a sixtieth of the difference. Never up to the next when that is less than one fraction.
    (u128::from(actual) * u128::from(AVERAGED - 1) + u128::from(sent)).div_euclid(u128::from(AVERAGED)) as u64
}

impl Member {
    /// The pool's rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.pool.rate
    }

    /// The member's mean rate as the ratio rule sees it, in bit/s, rounded down.
    #[must_use]
    pub fn actual_bps(&self) -> u64 {
        let actual = u128::from(self.pool.meters[self.index].actual.load(Relaxed));
        ((actual * 8 * u128::from(NANOS_PER_SEC) / u128::from(PERIOD.0)) >> FRACTION_BITS) as u64
    }
}

impl Lender for Member {
    fn may_borrow(&mut self, now: Nanos) -> Result<(), Nanos> {
        let pool = &*self.pool;
        pool.measure(now);
        let ready_at = Nanos(pool.full_at.load(Relaxed)).saturating_sub(pool.burst);
        if ready_at > now {
            return Err(ready_at);
        }
        if pool.is_within_ratio(self.index) {
            return Ok(());
        }
        let next = (now.0 / PERIOD.0).saturating_add(1).saturating_mul(PERIOD.0);
        Err(Nanos(next))
    }

    fn sent(&mut self, now: Nanos, bytes: u32) {
        let pool = &*self.pool;
        pool.measure(now);
        pool.meters[self.index].bytes.fetch_add(u64::from(bytes), Relaxed);
        let rate = u128::from(pool.rate.bps());
        let units = u128::from(bytes) * 8 * u128::from(NANOS_PER_SEC);
        // Below 2^65, over a rate of at least 1.
        let carry = |fraction: u64| (units + u128::from(fraction)) % rate;
        let (Ok(fraction) | Err(fraction)) =
            pool.fraction.fetch_update(Relaxed, Relaxed, |fraction| Some(carry(fraction) as u64));
        let span = u64::try_from((units + u128::from(fraction)) / rate).unwrap_or(u64::MAX);
        let later = |full_at: u64| Some(full_at.max(now.0).saturating_add(span));
        let (Ok(_) | Err(_)) = pool.full_at.fetch_update(Relaxed, Relaxed, later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).unwrap()
    }

    #[test]
    fn a_pool_that_could_not_keep_its_members_bases_is_refused_with_both_numbers() {
        let refused = Pool::share(rate(99), 0, &[rate(50), rate(50)]).unwrap_err();
        assert_eq!(refused, PoolError::BasesExceedRate { bases_bps: 100, rate_bps: 99 });
        assert_eq!(Pool::share(rate(99), 0, &[]).unwrap_err(), PoolError::NoMembers);
        assert_eq!(Pool::share(rate(100), 0, &[rate(50), rate(50)]).unwrap().len(), 2);
    }

    #[test]
    fn debt_lasts_until_it_is_paid_and_fractions_of_a_nanosecond_count() {
        let mut ends = Pool::share(rate(3), 0, &[rate(1)]).unwrap();
        ends[0].sent(Nanos::ZERO, 1);
        // 8 bits at 3 bit/s, rounded down here and made up for with the next two packets.
        assert_eq!(ends[0].may_borrow(Nanos(1)), Err(Nanos(2_666_666_666)));
        ends[0].sent(Nanos(1), 1);
        ends[0].sent(Nanos(2), 1);
        assert_eq!(ends[0].may_borrow(Nanos(7_999_999_999)), Err(Nanos::from_secs(8)));
        assert_eq!(ends[0].may_borrow(Nanos::from_secs(8)), Ok(()));
    }

    #[test]
    fn the_meter_settles_in_seconds_and_forgets_after_silence() {
        let mut ends = Pool::share(rate(8_000_000), 0, &[rate(1)]).unwrap();
        let end = &mut ends[0];
        for second in 0..30 {
            for tenth in 0..10 {
                end.sent(Nanos::from_millis(second * 1_000 + tenth * 100), 10_000);
            }
            if second == 5 {
                // 1 - 1/e of 800 kbit/s after about six seconds.
                assert!((470_000..530_000).contains(&end.actual_bps()), "{}", end.actual_bps());
            }
        }
        assert!((790_000..=800_000).contains(&end.actual_bps()), "{}", end.actual_bps());
        let _ = end.may_borrow(Nanos::from_secs(36));
        assert!((270_000..320_000).contains(&end.actual_bps()), "{}", end.actual_bps());
        let _ = end.may_borrow(Nanos::from_secs(1 << 33));
        assert_eq!(end.actual_bps(), 0);
    }
}
