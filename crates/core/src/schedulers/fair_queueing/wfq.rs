//! `wfq` (also `pgps`): Weighted Fair Queueing of Demers, Keshav and Shenker, Packet-by-packet Generalized Processor
//! Sharing of Parekh and Gallager: \[pgps\], and \[drrpp\] Section 2.3.2. The baseline of \[sds\]. Flat.
//!
//! A fluid system, GPS, is simulated beside the packets. In it all backlogged classes are served simultaneously, in
//! proportion to the weights. Packets are sent in the order in which the fluid system finishes them, as far as that is
//! known at the time of the choice.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | V(t), dV/dt = 1 / sum of phi_i over the classes backlogged in GPS | `Gps::v`, scaled by the sum over all classes | virtual time |
//! | phi_i | `Pace::divisor` | |
//! | S = max(F, V(a)), F = S + L / phi_i | stamps of `Rps` | virtual time |
//! | B(t), the classes backlogged in GPS | `Gps::backlogged`, sorted by the F of their newest packet | |
//!
//! **Accuracy of the fluid system.** Its clock is the caller's. The work of a link of r bit/s in t ns is r t units of
//! an eight-billionth of a byte, an integer. Finish tags are exact (`parts::virtual_time`). V is rounded when the set
//! of backlogged classes changes. An arrival at an idle class drops a fraction of a unit of work, and a class that
//! empties drops up to two units. Each time the fluid system is late by that amount. Lost work puts no class further
//! behind than that work. So after n such events within a busy period of the fluid system, no class in it lags behind
//! the exact one by more than 2 n units. That is a quarter of a byte after 10^9 events, and zero once the fluid system
//! has been idle. `v` itself has no further error.
//!
//! **Cost per packet.** O(log n) of the active leaves. A call may let many classes leave the fluid system, each once for each
//! time that it entered.
//! **Invariants.** A class with packets is in `heads` under the F of its first one. The weight of the classes in `backlogged`
//! is `Gps::active`.
//! **Bounds.** A packet leaves at most L_max / r after it does in GPS. A latency-rate server with Theta = L_i / rho_i + L_max / r.
//! **Overflow budget.** As in `parts::virtual_time`. Work that waits in GPS is below 2^32 packets of 2^20
//! bytes: 2^85 units, times weights of 2^41. Products saturate beyond that. Only a caller that takes 2^32 packets out
//! in no time can get there.
//! **Validation.** GPS with rational numbers as an oracle; the bounds as property tests.
//!
//! DIFFERENCE: if a caller takes packets out faster than the link's rate, their order is that of a fluid system that
//! lags behind. No stronger statement is possible. DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it
//! takes a tree and shares among its leaves.

#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::rate_proportional::{Potential, Rps};
use crate::contract::{
    Delay, Nanos, OutOfMemory, Promises, Rate, SchedulerInfo, Sharing, WorkConserving, boxed, late_by, leaf_shares,
};
use crate::parts::{heap::Heap, virtual_time::Tag};

#[cfg(test)]
mod tests;

/// Registry entry of `wfq`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "wfq",
    aliases: &["pgps"],
    paper: "pgps",
    summary: "weighted fair queueing (pgps): the order in which an exact fluid system finishes",
    features: &[],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves)",
    sharing: Sharing::Leaves(leaf_shares),
    promises: Promises {
        delay: Some(Delay::LatencyRate(|tree| late_by(tree, tree.link().max_packet.into()))),
        follows_gps: true,
        delay_in_order: true,
        ..Promises::NONE
    },
    memory: Wfq::memory,
    build: |tree, _| boxed(Wfq::new(tree)?),
};

/// Generalized processor sharing: a fluid system with its own clock and queues. Its only input is arrivals.
#[derive(Debug)]
pub(crate) struct Gps {
    v: u128,
    /// Remainder below `v`, in units / `active`.
    remainder: u128,
    /// Weights of the classes backlogged in it, and of all classes.
    active: u64,
    all: u64,
    rate: Rate,
    now: Nanos,
    backlogged: Heap,
}

impl Potential for Gps {
    fn new(rate: Rate, all: u64, classes: usize) -> Result<Self, OutOfMemory> {
        let backlogged = Heap::new(classes)?;
        Ok(Self { v: 0, remainder: 0, active: 0, all, rate, now: Nanos::ZERO, backlogged })
    }

    fn memory(classes: usize) -> u64 {
        Heap::memory(classes)
    }

    /// Serves until `now`.
    fn advance(&mut self, now: Nanos, weight: impl Fn(u32) -> u64) {
        let mut work = u128::from(self.rate.bps()) * u128::from((now - self.now).0);
        self.now = now;
        let all = u128::from(self.all);
        while work > 0
            && let Some((class, finish)) = self.backlogged.first()
        {
            let active = u128::from(self.active);
            let parts = work.saturating_mul(all).saturating_add(self.remainder);
            let left = finish - self.v;
            if parts / active < left {
                self.v += parts / active;
                self.remainder = parts % active;
                return;
            }
            // `left * active` is at most `parts`.
            work -= (left * active).saturating_sub(self.remainder).div_ceil(all);
            self.v = finish;
            self.remainder = 0;
            self.active -= weight(class);
            self.backlogged.remove(class);
        }
    }

    /// Has another packet of a class of this weight, which it finishes by `finish`.
    fn arrive(&mut self, class: u32, weight: u64, finish: Tag) {
        if !self.backlogged.contains(class) {
            self.active += weight;
            self.remainder = 0;
        }
        self.backlogged.set(class, finish.whole + u128::from(finish.fraction > 0));
    }

    fn value(&self) -> u128 {
        self.v
    }

    fn first(&self) -> Option<(u32, u128)> {
        self.backlogged.first()
    }

    fn lower(&mut self, by: u128) {
        self.v -= by;
        self.backlogged.lower(by);
    }

    fn retune(&mut self, with: &Self, weight: impl Fn(u32) -> u64) {
        (self.all, self.rate) = (with.all, with.rate);
        let backlogged = (0..self.backlogged.ids()).filter(|&class| self.backlogged.contains(class));
        let active = backlogged.map(weight).sum();
        if active != self.active {
            (self.active, self.remainder) = (active, 0);
        }
    }

    fn reset(&mut self, now: Nanos) {
        (self.v, self.remainder, self.active, self.now) = (0, 0, 0, now);
        self.backlogged.clear();
    }

    #[cfg(feature = "invariants")]
    fn check(&self, weight: impl Fn(u32) -> u64) -> Result<(), String> {
        self.backlogged.check()?;
        if let Some((class, finish)) = self.backlogged.first().filter(|&(_, finish)| finish < self.v) {
            return Err(format!("class {class} left the fluid system at {finish}, before {}", self.v));
        }
        let active: u64 = (0..self.backlogged.ids()).filter(|&class| self.backlogged.contains(class)).map(weight).sum();
        if active != self.active {
            return Err(format!("a weight of {active}, counted {}", self.active));
        }
        Ok(())
    }
}

/// Weighted fair queueing over the leaves of a hierarchy.
pub(crate) type Wfq = Rps<Gps>;
