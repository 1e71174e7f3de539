//! The burstiness sigma of an arrival process at a rate rho: the least sigma with A(tau, t) <= sigma + rho (t - tau) for all times
//! (\[drrpp\] Section 5.1, after Stiliadis and Varma).
//!
//! One pass; its only state is the content of a queue that is drained at rho, and its maximum. Exact: in bits times
//! 10^9, which is the amount that a rate of 1 bit/s drains in a nanosecond.
//!
//! **Packet by packet** (the thesis: frame by frame, where a frame is a packet or comes at once) an interval is closed:
//! arrivals at both of its ends count. DIFFERENCE: **group by group** the thesis gives less for the same video, 31436 B
//! instead of 45560 B. So a group counts as spread over its own time: its bytes, minus the bytes that rho drains from
//! its beginning to that of the next. Taken as a batch at its beginning it would never give less.

use fairlink_core::{NANOS_PER_SEC, Nanos};

/// A bit in the unit of the backlog.
const BIT: u128 = NANOS_PER_SEC as u128;

/// The content of a queue drained at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Backlog {
    rate_bps: u64,
    held: u128,
    most: u128,
}

impl Backlog {
    fn drain(&mut self, span: Nanos) {
        self.held = self.held.saturating_sub(u128::from(self.rate_bps).saturating_mul(span.0.into()));
    }

    fn add(&mut self, bytes: u64) {
        self.held = self.held.saturating_add(u128::from(bytes) * 8 * BIT);
    }

    fn note(&mut self) {
        self.most = self.most.max(self.held);
    }

    fn sigma(&self) -> u64 {
        u64::try_from(self.most.div_ceil(8 * BIT)).unwrap_or(u64::MAX)
    }
}

/// The burstiness of one arrival process at one rate.
#[derive(Clone, Copy, Debug)]
pub struct Burstiness {
    packets: Backlog,
    groups: Backlog,
    last: Option<Nanos>,
    /// Length of a group; the start of the current one, and its bytes.
    group: Option<(Nanos, Nanos, u64)>,
}

impl Burstiness {
    /// Makes an empty meter of sigma at `rate_bps`.
    #[must_use]
    pub fn at(rate_bps: u64) -> Self {
        let backlog = Backlog { rate_bps, held: 0, most: 0 };
        Self { packets: backlog, groups: backlog, last: None, group: None }
    }

    /// Like [`Burstiness::at`], with groups: the arrivals in each `every` from the first packet on.
    ///
    /// # Panics
    /// When `every` is zero.
    #[must_use]
    pub fn in_groups(rate_bps: u64, every: Nanos) -> Self {
        assert!(every > Nanos::ZERO, "a group lasts some time");
        Self { group: Some((every, Nanos::ZERO, 0)), ..Self::at(rate_bps) }
    }

    /// Records `bytes` that arrive at `at`. Times that go back count as the last one.
    pub fn arrive(&mut self, at: Nanos, bytes: u32) {
        let last = self.last.unwrap_or(at);
        let at = at.max(last);
        self.packets.drain(at - last);
        self.packets.add(bytes.into());
        self.packets.note();
        if let Some((every, begin, brought)) = &mut self.group {
            if self.last.is_none() {
                *begin = at;
            }
            let passed = (at - *begin).0 / every.0;
            if passed > 0 {
                self.groups.add(*brought);
                self.groups.drain(*every);
                self.groups.note();
                // Groups without packets.
                self.groups.drain(Nanos((passed - 1) * every.0));
                (*begin, *brought) = (Nanos(begin.0 + passed * every.0), 0);
            }
            *brought += u64::from(bytes);
        }
        self.last = Some(at);
    }

    /// Sigma in bytes, rounded up, packet by packet; 0 before the first arrival.
    #[must_use]
    pub fn sigma(&self) -> u64 {
        self.packets.sigma()
    }

    /// Sigma in bytes, rounded up, over the completed groups; `None` without groups.
    #[must_use]
    pub fn sigma_of_groups(&self) -> Option<u64> {
        self.group.is_some().then(|| self.groups.sigma())
    }
}

/// The burstiness at many rates at once: sigma as a function of rho, which never rises.
#[derive(Clone, Debug)]
pub struct BurstinessCurve(Vec<Burstiness>);

impl BurstinessCurve {
    /// Makes an empty meter of sigma at each of `rates_bps`.
    #[must_use]
    pub fn at(rates_bps: &[u64]) -> Self {
        Self(rates_bps.iter().map(|&rate| Burstiness::at(rate)).collect())
    }

    /// Like `at`, with groups: the arrivals in each `every` from the first packet on.
    ///
    /// # Panics
    /// When `every` is zero.
    #[must_use]
    pub fn in_groups(rates_bps: &[u64], every: Nanos) -> Self {
        Self(rates_bps.iter().map(|&rate| Burstiness::in_groups(rate, every)).collect())
    }

    /// Records `bytes` that arrive at `at`. Times that go back count as the last one.
    pub fn arrive(&mut self, at: Nanos, bytes: u32) {
        self.0.iter_mut().for_each(|one| one.arrive(at, bytes));
    }

    /// Each rate in bit/s with sigma in bytes, rounded up: packet by packet, and group by group if there are groups.
    pub fn points(&self) -> impl Iterator<Item = (u64, u64, Option<u64>)> {
        self.0.iter().map(|one| (one.packets.rate_bps, one.sigma(), one.sigma_of_groups()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the definition: every interval from one packet to another.
    fn by_definition(arrivals: &[(u64, u32)], rate_bps: u64) -> u64 {
        let mut most = 0i128;
        for first in 0..arrivals.len() {
            let mut bytes = 0i128;
            for &(at, len) in &arrivals[first..] {
                bytes += i128::from(len);
                most = most.max(bytes * 8_000_000_000 - i128::from(rate_bps) * i128::from(at - arrivals[first].0));
            }
        }
        most.unsigned_abs().div_ceil(8_000_000_000) as u64
    }

    proptest! {
        #[test]
        fn sigma_is_the_most_that_any_interval_brings_beyond_rho(
            steps in prop::collection::vec((0u64..3_000_000, 1u32..2000), 1..80),
            rate in 0u64..20_000_000,
        ) {
            let mut at = 0;
            let arrivals: Vec<(u64, u32)> = steps.iter().map(|&(gap, len)| { at += gap; (at, len) }).collect();
            let mut curve = BurstinessCurve::at(&[rate, rate / 2, rate * 3]);
            arrivals.iter().for_each(|&(at, len)| curve.arrive(Nanos(at), len));
            for (rate, sigma, _) in curve.points() {
                prop_assert_eq!(sigma, by_definition(&arrivals, rate));
            }
        }
    }

    #[test]
    fn of_groups_sigma_is_the_most_that_whole_groups_bring_beyond_rho() {
        // 8 kbit/s are 1000 B in a second. Groups of 1 s: 900, 1500, 0, 3000, 1200 and 100 B.
        let mut sigma = Burstiness::in_groups(8_000, Nanos::from_secs(1));
        let ms = |ms: u64| Nanos::from_millis(5_000 + ms);
        for (at, bytes) in [(0, 900), (1000, 1000), (1999, 500), (3000, 3000), (4500, 1200), (5000, 100)] {
            sigma.arrive(ms(at), bytes);
        }
        // The last has not ended: 2000 and 200 of the two before it.
        assert_eq!(sigma.sigma_of_groups(), Some(2200));
        sigma.arrive(ms(6000), 1);
        assert_eq!(sigma.sigma_of_groups(), Some(2200));
        // Packet by packet: 3000 at once, and 1200 less the 1500 of one and a half seconds.
        assert_eq!(sigma.sigma(), 3000);
        assert_eq!(Burstiness::at(1).sigma_of_groups(), None);
    }
}
