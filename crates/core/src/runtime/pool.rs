//! A pool of bandwidth shared by classes of several links, by one of two rules.
//!
//! | rule | what it does |
//! | --- | --- |
//! | [`PoolRule::Exact`] | max-min fairness over measured demand, computed anew every millisecond, see `exact` |
//! | [`PoolRule::Ratio`] | the slots of \[htb\]: each member keeps below its base times a common ratio, see `ratio` |
//!
//! A pool is outside the schedulers. It is shared by reference count and consists of atomics only, so that links may
//! run on different threads. It never blocks, and allocates nothing after construction. All links must use the same
//! time origin.
//!
//! A member may send out of its own guarantee without asking. It counts all the same, so that the others borrow less.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::contract::{Lender, Nanos, Rate};

mod exact;
mod ratio;

use exact::Exact;
use ratio::Ratio;

/// The sharing rule of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PoolRule {
    /// Max-min fairness over measured demand: no bandwidth stays idle while there is demand.
    #[default]
    Exact,
    /// The rule of \[htb\], which reacts within seconds and wastes bandwidth that a member does not use.
    Ratio,
    /// No rule: first come, first served, while the pool has credit. \[htb\] has its rule because one device then takes
    /// everything. For comparison.
    Greedy,
}

impl PoolRule {
    /// All.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Ratio, Self::Greedy];

    /// Its name in files and commands.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Ratio => "ratio",
            Self::Greedy => "greedy",
        }
    }
}

/// The reason for which a pool was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// The pool has no members.
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

/// Returns true if a pool of `rate` can keep `bases`.
///
/// # Errors
/// [`PoolError`].
fn check(rate: Rate, bases: &[Rate]) -> Result<(), PoolError> {
    let sum: u128 = bases.iter().map(|base| u128::from(base.bps())).sum();
    if bases.is_empty() {
        return Err(PoolError::NoMembers);
    }
    if sum > u128::from(rate.bps()) {
        let bases_bps = u64::try_from(sum).unwrap_or(u64::MAX);
        return Err(PoolError::BasesExceedRate { bases_bps, rate_bps: rate.bps() });
    }
    Ok(())
}

/// The owner of the bandwidth.
#[derive(Debug)]
pub struct Pool(Kind);

#[derive(Debug)]
enum Kind {
    Exact(Exact),
    Ratio(Ratio),
}

/// A member's handle of a pool, through which its class asks and reports. Clones are the same member.
#[derive(Clone, Debug)]
pub struct Member {
    pool: Arc<Pool>,
    index: usize,
}

impl Pool {
    /// Makes a pool of `rate` with a burst of `burst` bytes, and one member for each of `bases`: the assured rates of
    /// the classes that share it.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn share(rule: PoolRule, rate: Rate, burst: u64, bases: &[Rate]) -> Result<Vec<Member>, PoolError> {
        check(rate, bases)?;
        let pool = Arc::new(Self(match rule {
            PoolRule::Exact => Kind::Exact(Exact::new(rate, burst, bases)),
            PoolRule::Ratio => Kind::Ratio(Ratio::new(rate, burst, bases, true)),
            PoolRule::Greedy => Kind::Ratio(Ratio::new(rate, burst, bases, false)),
        }));
        Ok((0..bases.len()).map(|index| Member { pool: Arc::clone(&pool), index }).collect())
    }

    /// Returns the assured rates of the members.
    #[must_use]
    pub fn bases(&self) -> Vec<Rate> {
        match &self.0 {
            Kind::Exact(exact) => exact.bases(),
            Kind::Ratio(ratio) => ratio.bases(),
        }
    }

    /// Returns true if it can have these values.
    ///
    /// # Errors
    /// [`PoolError`], and [`PoolError::NoMembers`] if the number of `bases` differs from that of members.
    pub fn check(&self, rate: Rate, bases: &[Rate]) -> Result<(), PoolError> {
        let members = match &self.0 {
            Kind::Exact(exact) => exact.members(),
            Kind::Ratio(ratio) => ratio.members(),
        };
        if bases.len() == members { check(rate, bases) } else { Err(PoolError::NoMembers) }
    }

    /// Adopts these values. Credit, debt and measured rates of members stay.
    ///
    /// # Errors
    /// As [`Pool::check`]. On error nothing has changed.
    pub fn retune(&self, rate: Rate, burst: u64, bases: &[Rate]) -> Result<(), PoolError> {
        self.check(rate, bases)?;
        match &self.0 {
            Kind::Exact(exact) => exact.retune(rate, burst, bases),
            Kind::Ratio(ratio) => ratio.retune(rate, burst, bases),
        }
        Ok(())
    }
}

impl Member {
    /// Returns the pool.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

impl Lender for Member {
    fn may_borrow(&mut self, now: Nanos) -> Result<(), Nanos> {
        match &self.pool.0 {
            Kind::Exact(exact) => exact.may_borrow(self.index, now),
            Kind::Ratio(ratio) => ratio.may_borrow(self.index, now),
        }
    }

    fn sent(&mut self, now: Nanos, bytes: u32, more: bool) {
        match &self.pool.0 {
            Kind::Exact(exact) => exact.sent(self.index, now, bytes, more),
            Kind::Ratio(ratio) => ratio.sent(self.index, now, bytes),
        }
    }

    /// Returns the rate meter of \[htb\] under [`PoolRule::Ratio`] and [`PoolRule::Greedy`]. The meter is updated every
    /// 100 ms and averaged over about six seconds.
    fn metered_bps(&self) -> Option<u64> {
        match &self.pool.0 {
            Kind::Exact(_) => None,
            Kind::Ratio(ratio) => Some(ratio.actual_bps(self.index)),
        }
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
        for rule in PoolRule::ALL {
            let too_much = PoolError::BasesExceedRate { bases_bps: 100, rate_bps: 99 };
            assert_eq!(Pool::share(rule, rate(99), 0, &[rate(50), rate(50)]).unwrap_err(), too_much);
            assert_eq!(Pool::share(rule, rate(99), 0, &[]).unwrap_err(), PoolError::NoMembers);
            let ends = Pool::share(rule, rate(100), 0, &[rate(50), rate(50)]).unwrap();
            let pool = ends[1].pool();
            assert_eq!(ends.len(), 2);
            // Nor does it become one.
            assert_eq!(pool.retune(rate(99), 0, &[rate(50), rate(50)]), Err(too_much));
            assert_eq!(pool.retune(rate(100), 0, &[rate(50)]), Err(PoolError::NoMembers));
            assert_eq!(pool.bases(), [rate(50), rate(50)]);
            assert_eq!(pool.retune(rate(99), 0, &[rate(49), rate(50)]), Ok(()));
            assert_eq!(pool.bases(), [rate(49), rate(50)]);
        }
    }
}
