//! The exact pool: max-min fairness over measured demand, recomputed every [`PERIOD`].
//!
//! The pool gains credit at its rate. Every period, the first caller distributes all available credit by weighted
//! max-min fairness. Each member gets its demand, or its part by assured rate of the credit left by members that demand
//! less. This is hierarchical max-min fairness on the tree of all devices, because each link shares its member's credit
//! among the classes below.
//!
//! A member may send while it has credit. Everything that it sends is subtracted, including traffic within its own
//! assured rate, which needs no permission. So its credit may be negative. Its *demand* is estimated from the last
//! period:
//!
//! * it was refused, or sent and more packets waited behind: unlimited;
//! * it sent its whole backlog: the same amount again, and a packet;
//! * neither: zero; and in each case its debt in addition.
//!
//! A member that waits, but has neither sent nor asked since, may be late: its thread has no processor, or its
//! scheduler has others to visit first, on a slow link for many periods. It is given its part nevertheless for as long
//! as [`PATIENCE`] allows: twice the longest recent time that it was silent while it waited. And it keeps as much
//! credit as it gets in such a time.
//!
//! Unused credit beyond that is taken back and redistributed. So credit that a member cannot use, because its link or a
//! ceiling limits it, goes to the others. Credit without demand is *spare*: the first member that needs it takes it at
//! once.
//!
//! **Total.** Outstanding credit never exceeds C = burst + 2 P R, for a period P and the rate R, beside the credit of
//! waiting members. That is at most D R, for the longest patience D, which is 8 ms unless a member was silent for more
//! than 4 ms. Let the assured rates add up to no more than R. A member owes at most the amount that its own bucket
//! passes in a period, and a packet: each period gives it at least its assured rate. So W(s, t] <= R (t - s) + burst +
//! 4 P R + the members' own bursts + one packet of each, and D R if members were late, for all of them together and
//! every interval. In the long run it is R to the byte: there is no rounding, and no debt is forgiven.
//!
//! **Idle.** Credit is lost only while all of C is spare, which is when the members demand less than R. A member whose
//! queue was emptied while it waited, such as by drops, keeps its part unused for D.
//!
//! **Reaction.** A member that becomes active is refused at most once, and has its share from the next period on. A
//! member that stops releases its share at the second one.
//!
//! Cost: two atomic additions per packet; per period O(members) if none or all demand more than their part,
//! O(members^2) at worst.

use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::contract::{NANOS_PER_SEC, Nanos, Rate};

#[cfg(test)]
mod tests;

/// Interval between distributions of credit.
const PERIOD: Nanos = Nanos::from_millis(1);
/// Minimum and maximum time for which a silent, waiting member still gets its part.
const PATIENCE: [Nanos; 2] = [Nanos::from_millis(8), Nanos::from_millis(500)];
/// Minimum time for which the longest silence of a waiting member is remembered; the maximum is twice as long.
const MEMORY: Nanos = Nanos::from_secs(1);
/// Wait until the next attempt while another thread distributes credit.
const SHORTLY: Nanos = Nanos::from_micros(20);
/// Billionths of a bit in a byte.
const PER_BYTE: u128 = 8 * NANOS_PER_SEC as u128;
/// Unlimited demand. Sums of a few of these do not overflow.
const ALL: i64 = i64::MAX / 4;

/// The state of a member.
#[derive(Debug)]
struct Seat {
    base_bps: AtomicU64,
    /// Bytes that it may send; negative when it owes.
    credit: AtomicI64,
    /// Bytes sent since the last distribution of credit.
    sent: AtomicI64,
    /// Time of its last call, in ns. `waits` is true if it could have sent more then: it was refused, or others waited
    /// behind the packet.
    heard: AtomicU64,
    waits: AtomicBool,
    /// Longest time in ns between two of its calls while it waited: of the current span of [`MEMORY`], and of the one
    /// before.
    gap: AtomicU64,
    gap_before: AtomicU64,
    /// The largest packet that it has sent.
    largest: AtomicU32,
    /// During a distribution of credit: the credit that was taken back, the demand, and the allotment.
    taken: AtomicI64,
    wants: AtomicI64,
    gets: AtomicI64,
}

/// The owner of the bandwidth, and its members.
#[derive(Debug)]
pub(super) struct Exact {
    rate_bps: AtomicU64,
    burst: AtomicI64,
    /// Credit that belongs to no member.
    spare: AtomicI64,
    /// Time of the last distribution of credit, in ns.
    last: AtomicU64,
    /// Length of the period of that distribution, in ns.
    span: AtomicU64,
    /// Yield of the rate beyond whole bytes until then, in billionths of a bit.
    fraction: AtomicU64,
    /// True while a thread distributes credit.
    at_work: AtomicBool,
    seats: Vec<Seat>,
}

impl Seat {
    fn new(base: Rate) -> Self {
        Self {
            base_bps: AtomicU64::new(base.bps()),
            credit: AtomicI64::new(0),
            sent: AtomicI64::new(0),
            heard: AtomicU64::new(0),
            waits: AtomicBool::new(false),
            gap: AtomicU64::new(0),
            gap_before: AtomicU64::new(0),
            largest: AtomicU32::new(0),
            taken: AtomicI64::new(0),
            wants: AtomicI64::new(0),
            gets: AtomicI64::new(0),
        }
    }

    fn base(&self) -> i128 {
        i128::from(self.base_bps.load(Relaxed))
    }

    /// Records that it sent or asked; `waits` is true if it waits for more.
    fn record(&self, now: Nanos, waits: bool) {
        // Only the member's own thread writes these two.
        let silent = now.0.saturating_sub(self.heard.load(Relaxed));
        if self.waits.load(Relaxed) && silent > self.gap.load(Relaxed) {
            self.gap.fetch_max(silent, Relaxed);
        }
        self.heard.store(now.0, Relaxed);
        self.waits.store(waits, Relaxed);
    }

    /// Takes its credit back, unless it is late, and records its demand. The last allotment was for `span` ns. Returns
    /// the credit taken back, and its patience in ns if it waits.
    fn begin(&self, now: Nanos, span: u64) -> (i64, u64) {
        let credit = self.credit.load(Relaxed);
        let sent = self.sent.swap(0, Relaxed);
        let again = if sent > 0 { sent.saturating_add(i64::from(self.largest.load(Relaxed))) } else { 0 };
        let owes = credit.min(0).saturating_neg();
        let silent = now.0.saturating_sub(self.heard.load(Relaxed));
        let gap = self.gap.load(Relaxed).max(self.gap_before.load(Relaxed));
        let [least, most] = PATIENCE.map(|patience| patience.0);
        let patience = gap.saturating_mul(2).clamp(least, most);
        let waits = self.waits.load(Relaxed) && silent <= patience;
        self.wants.store(if waits { ALL } else { owes.saturating_add(again).min(ALL) }, Relaxed);
        // The credit for the time of its silence.
        let keeps = i128::from(self.gets.load(Relaxed)) * i128::from(gap.max(silent).min(most) / PERIOD.0 * PERIOD.0);
        let keeps = if waits { (keeps / i128::from(span.max(PERIOD.0))).min(ALL.into()) as i64 } else { 0 };
        self.gets.store(0, Relaxed);
        let taken = credit.saturating_sub(keeps).max(0);
        self.taken.store(taken, Relaxed);
        (taken, if waits { patience } else { 0 })
    }

    /// Returns true if it has demand and its allotment is not yet determined.
    fn is_open(&self) -> bool {
        self.gets.load(Relaxed) == 0 && self.wants.load(Relaxed) > 0
    }
}

impl Exact {
    pub(super) fn new(rate: Rate, burst: u64, bases: &[Rate]) -> Self {
        let burst = i64::try_from(burst).unwrap_or(ALL).min(ALL);
        Self {
            rate_bps: AtomicU64::new(rate.bps()),
            burst: AtomicI64::new(burst),
            spare: AtomicI64::new(burst),
            last: AtomicU64::new(0),
            span: AtomicU64::new(PERIOD.0),
            fraction: AtomicU64::new(0),
            at_work: AtomicBool::new(false),
            seats: bases.iter().map(|&base| Seat::new(base)).collect(),
        }
    }

    /// Adopts these values; there are as many bases as members.
    pub(super) fn retune(&self, rate: Rate, burst: u64, bases: &[Rate]) {
        self.rate_bps.store(rate.bps(), Relaxed);
        self.burst.store(i64::try_from(burst).unwrap_or(ALL).min(ALL), Relaxed);
        for (seat, base) in self.seats.iter().zip(bases) {
            seat.base_bps.store(base.bps(), Relaxed);
        }
    }

    pub(super) fn members(&self) -> usize {
        self.seats.len()
    }

    pub(super) fn bases(&self) -> Vec<Rate> {
        // They were rates when they were stored.
        self.seats.iter().filter_map(|seat| Rate::from_bps(seat.base_bps.load(Relaxed)).ok()).collect()
    }

    pub(super) fn may_borrow(&self, index: usize, now: Nanos) -> Result<(), Nanos> {
        self.tend(now);
        let seat = &self.seats[index];
        seat.record(now, true);
        // Spare credit first pays the debt, so that no member owes more than a packet by it.
        if seat.credit.load(Relaxed).saturating_add(self.spare.load(Relaxed).max(0)) > 0 {
            return Ok(());
        }
        let next = Nanos(self.last.load(Relaxed)).saturating_add(PERIOD);
        Err(if next > now { next } else { now.saturating_add(SHORTLY) })
    }

    pub(super) fn sent(&self, index: usize, now: Nanos, bytes: u32, more: bool) {
        self.tend(now);
        let seat = &self.seats[index];
        seat.record(now, more);
        seat.largest.fetch_max(bytes, Relaxed);
        seat.sent.fetch_add(i64::from(bytes), Relaxed);
        let owes = i64::from(bytes) - seat.credit.fetch_sub(i64::from(bytes), Relaxed);
        if owes > 0 && self.spare.load(Relaxed) > 0 {
            let less = |spare: i64| (spare > 0).then(|| spare - spare.min(owes));
            if let Ok(spare) = self.spare.fetch_update(Relaxed, Relaxed, less) {
                seat.credit.fetch_add(spare.min(owes), Relaxed);
            }
        }
    }

    /// Distributes credit if it is time, unless another thread already does.
    fn tend(&self, now: Nanos) {
        let is_due = || now >= Nanos(self.last.load(Relaxed)).saturating_add(PERIOD);
        if !is_due() || self.at_work.swap(true, Acquire) {
            return;
        }
        // The other thread may have done it just now.
        if is_due() {
            self.hand_out(now);
            self.last.store(now.0, Relaxed);
        }
        self.at_work.store(false, Release);
    }

    /// Takes back all credit, adds the yield of the rate, and distributes it. Concurrent sending counts: all credit is
    /// changed by differences.
    fn hand_out(&self, now: Nanos) {
        let spare = self.spare.load(Relaxed);
        let last = self.last.load(Relaxed);
        let forgets = now.0 / MEMORY.0 != last / MEMORY.0;
        let span = self.span.load(Relaxed);
        let (mut left, mut longest) = (spare, 0);
        for seat in &self.seats {
            let (taken, patience) = seat.begin(now, span);
            left = left.saturating_add(taken);
            longest = longest.max(patience);
            if forgets {
                seat.gap_before.store(seat.gap.swap(0, Relaxed), Relaxed);
            }
        }
        left = left.saturating_add(self.brought(now, left, longest));
        left = self.fill(left).min(self.most(2 * PERIOD.0));
        for seat in &self.seats {
            seat.credit.fetch_add(seat.gets.load(Relaxed) - seat.taken.load(Relaxed), Relaxed);
        }
        self.spare.fetch_add(left - spare, Relaxed);
        self.span.store(now.0.saturating_sub(last), Relaxed);
    }

    /// Returns the yield of the rate in bytes since the last distribution, as far as there is room. Spare credit has
    /// room for the burst and two periods. While members wait there is room for the longest of their patiences as well,
    /// because all of them may be visited later than in two periods.
    fn brought(&self, now: Nanos, left: i64, patience: u64) -> i64 {
        let rate = u128::from(self.rate_bps.load(Relaxed));
        let elapsed = now.0.saturating_sub(self.last.load(Relaxed));
        let units = rate * u128::from(elapsed) + u128::from(self.fraction.load(Relaxed));
        self.fraction.store((units % PER_BYTE) as u64, Relaxed);
        i64::try_from(units / PER_BYTE)
            .unwrap_or(ALL)
            .min(self.most(2 * PERIOD.0 + patience).saturating_sub(left))
            .max(0)
    }

    /// The burst plus the yield of the rate in `nanos`.
    fn most(&self, nanos: u64) -> i64 {
        let brought = u128::from(self.rate_bps.load(Relaxed)) * u128::from(nanos) / PER_BYTE;
        self.burst.load(Relaxed).saturating_add(brought as i64)
    }

    /// Determines each member's allotment of `left` by weighted max-min fairness; returns the rest.
    fn fill(&self, mut left: i64) -> i64 {
        // Each pass settles a member at least, or all.
        while left > 0 {
            let (all, bases) =
                (i128::from(left), self.seats.iter().filter(|seat| seat.is_open()).map(Seat::base).sum::<i128>());
            let part = |seat: &Seat| (all * seat.base() / bases.max(1)) as i64;
            let mut modest = false;
            for seat in self.seats.iter().filter(|seat| seat.is_open()) {
                let wants = seat.wants.load(Relaxed);
                if wants <= part(seat) {
                    seat.gets.store(wants, Relaxed);
                    left -= wants;
                    modest = true;
                }
            }
            if !modest {
                for seat in self.seats.iter().filter(|seat| seat.is_open()) {
                    let part = part(seat);
                    seat.gets.store(part, Relaxed);
                    left -= part;
                }
                break;
            }
        }
        left
    }
}
