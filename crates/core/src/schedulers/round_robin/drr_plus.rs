//! `drr+`: DRR with latency-critical classes that are held to a contract, as described in \[drrpp\] Section 2.5.4 after
//! \[drr\]. Flat.
//!
//! A latency-critical class promises to send at most x bytes in any time T. While it conforms, its packets are sent
//! before those of the best-effort classes. A class that has broken its contract is a best-effort class for good.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | x bytes of data in some period T, the contract C_LC | `Police::contract` | bytes, ns |
//! | N_LC, what has arrived in (t, t + T) | `Police::arrived` | bytes |
//! | the timer that starts when a packet arrives | the time of a `Slot`, and T | ns |
//! | Q_i, D_i | `Deficit` | 2^-16 byte |
//! | F | sum of all quanta | |
//!
//! **Contract.** A class keeps its contract as long as no more than x bytes arrive in any interval of length T, as in
//! \[drrpp\] Section 4.4.4: N <= C for all t. Arrivals are remembered for a time T in `SLOTS` slots of T / `SLOTS`.
//! Arrivals within a slot count as if they came at the start of the slot. So a class that keeps its contract is never
//! demoted, and one that sends more than x bytes within T - T / `SLOTS` always is. Packets that are dropped for lack of
//! room count. A latency-critical class without a contract gets one from its share: its quantum (or a largest packet,
//! if that is more) in the time of the round of which this is its part. A class with a contract is latency-critical
//! even if it is not marked so. It is not checked that the contracts together fit the link: conforming classes come
//! first.
//!
//! **Order.** Classes that keep their contract take turns as in [`drr`], and so do the best-effort classes. After each
//! packet the former come first. A visit of a best-effort class resumes where it was interrupted.
//!
//! **Cost per packet.** That of `drr`, and one slot that expires for each that begins. Each demotion walks over the
//! latency-critical classes. **Invariants.** Those of `drr` in both rings; a class with packets is in the ring of its
//! kind. **Bounds.** A packet of a class that keeps its contract waits for at most one packet of a best-effort class,
//! besides those of its own kind. Of each of these at most x_j + rho_j t bytes arrive in any time t before it is
//! demoted, with rho_j = x_j / (T_j - T_j / `SLOTS`). So the link has sent all of them, and the packet, after
//!
//! > (sum of x_j + L) / (r - sum of rho_j)
//!
//! if the contracts leave any part of the link. A demoted class has the latency (3 F - 2 Q_LC) / r of DRR, which grows
//! with the number of classes. **Overflow budget.** That of `drr`; the bytes of an interval saturate. **Validation.**
//! `drr` is the oracle for demoted classes; the rest is tested as stated here.
//!
//! DIFFERENCE: \[drrpp\] Section 2.5.4 has a timer that a second packet must not beat, which is a contract of one
//! packet. Ours counts bytes in every interval, as in Section 4.4.4, to within a slot. DIFFERENCE: "for good" is until
//! the classes are reconfigured or the queues are purged. DIFFERENCE: under
//! [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};
use core::ops::Range;

use core::any::Any;

use crate::bases::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, BuildError, ClassId, Contract, Delay, Dequeued, DropSink, Feature, Hierarchy, NANOS_PER_SEC, Nanos, Packet,
    PerWindow, Promises, Scheduler, SchedulerInfo, Sharing, Visit, Windowed, WorkConserving, boxed, same_kind,
};
use crate::parts::memory::{bytes_of, filled, slice};
use crate::schedulers::drr::{self, Deficit, FRACTION_BITS, Turns};
use crate::schedulers::round_robin::visits::Visits;

#[cfg(test)]
mod tests;

/// Registry entry of `drr+`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "drr+",
    aliases: &[],
    paper: "drrpp",
    summary: "DRR with latency-critical classes first while they keep a contract",
    features: &[Feature::Quantum, Feature::LatencyCritical, Feature::Contract, Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(1); O(leaves) where a quantum is below the largest packet",
    sharing: Sharing::Contracts {
        quanta: drr::quanta,
        contracts: |tree| {
            let quanta = drr::quanta(tree)?;
            contracts(tree, |leaf| quanta[leaf.index()])
        },
        certain: (SLOTS as u64 - 1, SLOTS as u64),
    },
    promises: Promises {
        delay: Some(Delay::Windows(delays)),
        visit: Some(Visit::Bytes(drr::quanta)),
        ..Promises::NONE
    },
    memory: DrrPlus::memory,
    build: |tree, _| boxed(DrrPlus::new(tree)?),
};

/// Number of slots in which a class's traffic is remembered for its contract's time.
const SLOTS: usize = 32;

/// Bytes that arrived from `start` until the next slot began.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    start: u64,
    bytes: u64,
}

/// Holds one class to its contract.
#[derive(Clone, Copy, Debug)]
struct Police {
    contract: Contract,
    /// Its number among the classes with a contract, whose slots it has.
    number: u32,
    /// The oldest slot in use, and the number in use.
    oldest: u8,
    used: u8,
    /// Bytes in all of them.
    arrived: u64,
    broken: bool,
}

impl Police {
    fn new(contract: Contract, number: u32) -> Self {
        Self { contract, number, oldest: 0, used: 0, arrived: 0, broken: false }
    }

    /// Records an arrival of `len` bytes in this class's `slots`; returns true when the contract is broken, which
    /// happens once.
    fn breaks(&mut self, slots: &mut [Slot; SLOTS], now: Nanos, len: u32) -> bool {
        if self.broken {
            return false;
        }
        let every = self.contract.every.0;
        // Slots begin at least a part of the time apart, so that no more than `SLOTS` begin within it.
        while self.used > 0 && now.0 - slots[usize::from(self.oldest)].start >= every {
            self.arrived -= slots[usize::from(self.oldest)].bytes;
            self.oldest = (self.oldest + 1) % SLOTS as u8;
            self.used -= 1;
        }
        let newest = (usize::from(self.oldest + self.used) + SLOTS - 1) % SLOTS;
        let len = u64::from(len);
        if self.used > 0 && now.0 - slots[newest].start < every.div_ceil(SLOTS as u64) {
            slots[newest].bytes += len;
        } else {
            slots[usize::from(self.oldest + self.used) % SLOTS] = Slot { start: now.0, bytes: len };
            self.used += 1;
        }
        // As long as the contract is kept the sum is below it.
        self.arrived = self.arrived.saturating_add(len);
        self.broken = self.arrived > self.contract.bytes;
        self.broken
    }
}

/// The bound of the module's documentation, for traffic within a class's contract.
fn delays(tree: &Hierarchy) -> Vec<Option<Windowed>> {
    let none = || alloc::vec![None; tree.len()];
    let Ok(quanta) = drr::quanta(tree) else { return none() };
    let Ok(contracts) = contracts(tree, |leaf| quanta[leaf.index()]) else { return none() };
    let kept = || contracts.iter().flatten();
    let most: u128 = kept().map(|contract| u128::from(contract.bytes)).sum();
    // Bits per second, rounded up: below 2^64 * 2^33 * 2^5 each.
    let rate = |contract: &Contract| {
        let bits = u128::from(contract.bytes) * u128::from(8 * NANOS_PER_SEC) * SLOTS as u128;
        bits.div_ceil((SLOTS - 1) as u128 * u128::from(contract.every.0))
    };
    let left = u128::from(tree.link().rate.bps()).checked_sub(kept().map(rate).sum()).filter(|&left| left > 0);
    let Some(left) = left else { return none() };
    let bits = (most + u128::from(tree.link().max_packet)) * u128::from(8 * NANOS_PER_SEC);
    let Ok(delay) = u64::try_from(bits.div_ceil(left)) else { return none() };
    let windowed = |contract: &Contract| Windowed {
        amount: PerWindow::Bytes(contract.bytes),
        every: contract.every,
        delay: Nanos(delay),
    };
    contracts.iter().map(|contract| contract.as_ref().map(windowed)).collect()
}

/// The contract of each class, by id; `None` for best-effort classes. `quantum` is that of a leaf, in the unit of
/// deficits.
fn contracts(tree: &Hierarchy, quantum: impl Fn(ClassId) -> u64) -> Result<Box<[Option<Contract>]>, BuildError> {
    let mut contracts = filled(tree.len(), None)?;
    let round: u128 = tree.leaves().iter().map(|&leaf| u128::from(quantum(leaf))).sum();
    let link = tree.link();
    for &class in tree.leaves() {
        let config = tree.config(class);
        let outside = |what| BuildError::Parameter { class, what, value: 0, min: 1, max: u64::MAX };
        contracts[class.index()] = match config.contract {
            Some(Contract { bytes: 0, .. }) => return Err(outside("a contract's number of bytes")),
            Some(Contract { every: Nanos::ZERO, .. }) => return Err(outside("a contract's time in ns")),
            None if config.latency_critical => {
                let quantum = quantum(class);
                let bytes = (quantum >> FRACTION_BITS).max(u64::from(link.max_packet));
                // Bytes of the link in the time of which this is the class's part: below 2^41 * 2^20 * 2^41.
                let part = (u128::from(bytes) * round).div_ceil(u128::from(quantum));
                let every = link.rate.time_for_bytes(u64::try_from(part).unwrap_or(u64::MAX));
                Some(Contract { bytes, every })
            }
            contract => contract,
        };
    }
    Ok(contracts)
}

/// DRR+ over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct DrrPlus {
    flows: Flows<Deficit>,
    police: Box<[Option<Police>]>,
    /// By number of the class with a contract.
    slots: Box<[[Slot; SLOTS]]>,
    /// Latency-critical classes that keep their contract.
    critical: Turns,
    best_effort: Turns,
    visits: Visits,
    now: Nanos,
}

impl DrrPlus {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// As [`drr::quanta`]; [`BuildError::Parameter`] for a contract of no bytes or no time.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        let flows = drr::flows(tree)?;
        let contracts = contracts(tree, |leaf| flows.state(leaf.0).quantum)?;
        let mut numbers = 0..;
        let police = slice(tree.len(), |class| Some(Police::new(contracts[class]?, numbers.next()?)))?;
        let slots = filled(contracts.iter().flatten().count(), [Slot::default(); SLOTS])?;
        let (critical, best_effort) = (Turns::new(tree)?, Turns::new(tree)?);
        Ok(Self { flows, police, slots, critical, best_effort, visits: Visits::new(tree)?, now: Nanos::ZERO })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        let held = |leaf: &&ClassId| {
            let config = tree.config(**leaf);
            config.contract.is_some() || config.latency_critical
        };
        let slots = bytes_of::<[Slot; SLOTS]>(tree.leaves().iter().filter(held).count());
        let visits = Visits::memory(tree);
        drr::memory(tree, 2) + bytes_of::<(Option<Contract>, Option<Police>)>(tree.len()) + slots + visits
    }

    /// Returns true if a class is latency-critical and has kept its contract so far.
    #[must_use]
    pub(crate) fn is_critical(&self, class: ClassId) -> bool {
        self.police.get(class.index()).is_some_and(|police| police.is_some_and(|police| !police.broken))
    }
}

impl Scheduler for DrrPlus {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let Packet { class, len, .. } = packet;
        // One that is listed only because its last packet is being sent is listed again when it gets the next.
        if let Some(Some(police)) = self.police.get_mut(class.index())
            && self.flows.takes(class, len)
            && police.breaks(&mut self.slots[police.number as usize], self.now, len)
            && self.critical.remove(&mut self.flows, class.0)
            && !self.flows.is_empty(class.0)
        {
            self.best_effort.push(class.0);
        }
        if self.flows.push(now, packet, drops) == Some(true) {
            let turns = if self.is_critical(class) { &mut self.critical } else { &mut self.best_effort };
            turns.push(class.0);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        self.best_effort.settle(&mut self.flows, &mut self.visits);
        let packet = self.critical.next(&mut self.flows, now, drops, &mut self.visits);
        let packet =
            packet.or_else(|| self.best_effort.next(&mut self.flows, now, drops, &mut self.visits.of_rounds()));
        packet.map_or(Dequeued::Idle, Dequeued::Packet)
    }

    backlog_of_flows!();

    fn retune(&mut self, _now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        if !self.flows.fits(&with.flows)
            || !self.police.iter().zip(&with.police).all(|(mine, theirs)| mine.is_some() == theirs.is_some())
        {
            return false;
        }
        drr::retune(&mut self.flows, &mut with.flows);
        for (mine, theirs) in self.police.iter_mut().zip(&with.police) {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.contract = theirs.contract;
            }
        }
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        self.flows.states_mut().for_each(|deficit| deficit.credit = 0);
        self.critical.clear();
        self.best_effort.clear();
        for police in self.police.iter_mut().flatten() {
            *police = Police::new(police.contract, police.number);
        }
        self.visits.reset();
    }

    fn is_expedited(&self, class: ClassId) -> bool {
        self.is_critical(class)
    }

    fn for_each_counter(&self, classes: Range<usize>, visit: &mut dyn FnMut(ClassId, &'static str, u64)) {
        self.visits.report(classes, visit);
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        // After each packet both have settled, and one has sent.
        let [critical, best_effort] = [&self.critical, &self.best_effort].map(|turns| turns.visited());
        let visited = critical.or(best_effort);
        self.flows.check_with(self.critical.ring.iter().chain(self.best_effort.ring.iter()), 0, visited)?;
        self.critical.check(&self.flows)?;
        self.best_effort.check(&self.flows)?;
        for (turns, critical) in [(&self.critical, true), (&self.best_effort, false)] {
            if let Some(flow) = turns.ring.iter().find(|&flow| self.is_critical(ClassId(flow)) != critical) {
                return Err(format!("class {flow} is in the wrong ring"));
            }
        }
        drr::check_idle(&self.flows, visited)
    }
}
