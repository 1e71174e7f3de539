//! `drr++`: DRR with latency-critical classes that are visited before each best-effort class, in the modified form of
//! \[drrpp\] Section 3.1.2, Tables 3.1 and 3.2. Flat. [`drr_plus_plus_mw00`](crate::schedulers::drr_plus_plus_mw00) is the form that it
//! modifies.
//!
//! A round visits each latency-critical class with packets and then one best-effort class. A visit adds the class's
//! quantum to its deficit and sends the covered packets, as in [`drr`]. So a latency-critical class may burst without
//! losing its place: the excess over its quantum stays queued for the next round.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | LCList, BestEffortList | `critical`, `best_effort` | |
//! | DC_i | `Deficit::credit` | 2^-16 byte |
//! | quantum(i), Q_LC, Q_BE | `Deficit::quantum` | 2^-16 byte |
//! | round (Definition 4) | `due` visits of latency-critical classes, one of a best-effort class | |
//! | TxQueue, PrioTxQueue | the link's [`TransmitQueue`](crate::contract::TransmitQueue), where it has one | |
//!
//! **Shares.** Q_LC is added once for each visit of a best-effort class. A latency-critical class that sends enough
//! gets Q_LC / (Q_LC + Q_BE) of the link, for any number of best-effort classes. If there are several, that is more
//! than its share by the weights, as in the text. To give the class less, set a smaller quantum.
//!
//! **Cost per packet.** O(1) if every quantum is at least the largest packet. Otherwise at most three walks over the
//! active classes per call. **Invariants.** 0 <= DC_i < L_max between visits, 0 while a class is empty.
//! Latency-critical classes send at most the sum of their Q_LC + L_max between two visits of best-effort classes.
//! **Bounds.** Let all quanta be at least L, the largest packet. Let R = sum of Q_LC + Q_BE with the largest Q_BE. Let
//! there be m latency-critical and n best-effort classes. When class i has been visited k times since it got packets,
//! the link has sent at most (k + 1) (R - Q_i) + (n + m) L of others and of i's packet before, because every class may
//! carry over a deficit. Of i it has sent at least k Q_i - L. So i is served at the rate r Q_i / R with a latency
//! Theta_i = ((R - Q_i) (1 + L / Q_i) + (n + m) L) / r, and a (sigma, rho) flow within that rate is delayed by at most
//! sigma / rho + Theta_i. Best-effort classes share among each other as under DRR.
//!
//! Theorem 2 has (Q_LC + 3 Q_BE) / r for one latency-critical class, for any n. It treats the best-effort classes as
//! one, with one deficit. That holds if they carry none over, as with packets of one length that divides their quanta,
//! or if there is one of them. Otherwise each of them may be a packet late in the same n rounds, and the theorem is
//! exceeded. **Overflow budget.** That of `drr`. **Validation.** The sequence of Table 3.5; a plain transcription of
//! the algorithm as an oracle; Theorem 2 where it holds and the bound above as property tests.
//!
//! DIFFERENCE: Table 3.1 serves the latency-critical list while it is not empty, which would starve the rest. Table
//! 3.5, Definition 4 and Figure 3.2 take turns, as does this implementation. DIFFERENCE: no transmit queues unless the
//! link has them. The tables move packets to `TxQueue` and `PrioTxQueue` and give no size for them. With unlimited
//! queues, all best-effort packets would be moved at once and leave in the order of a FIFO. Here the link takes each
//! packet when it is free, and a visit is over when its last packet has been sent. A queue behind the scheduler adds
//! its contents to every delay. DIFFERENCE: several latency-critical classes; the text has one. DIFFERENCE: rounds in
//! which no class can send are credited at once and not walked one by one. The order is the same. DIFFERENCE: under
//! [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};
use core::ops::Range;

use core::any::Any;

use crate::bases::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, BuildError, ClassId, Delay, Dequeued, DropSink, Feature, Hierarchy, LatencyRate, Nanos, OutOfMemory,
    Packet, Promises, Ratio, Scheduler, SchedulerInfo, Share, Sharing, Shortfall, Visit, WorkConserving, boxed,
    same_kind,
};
use crate::parts::memory::{bytes_of, slice};
use crate::schedulers::drr::{self, Deficit, Tally, Turns, need};
use crate::schedulers::round_robin::visits::Visits;

#[cfg(test)]
pub(crate) mod tests;

/// Registry entry of `drr++`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "drr++",
    aliases: &[],
    paper: "drrpp",
    summary: "DRR that visits latency-critical classes before each best-effort class",
    features: &[Feature::Quantum, Feature::LatencyCritical, Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(1); O(leaves) where a quantum is below the largest packet",
    sharing: Sharing::CriticalVisits(drr::quanta),
    promises: Promises {
        delay: Some(Delay::LatencyRate(delays)),
        delay_in_order: true,
        shortfalls: Some(shortfalls),
        visit: Some(Visit::Bytes(drr::quanta)),
        ..Promises::NONE
    },
    memory: DrrPlusPlus::memory,
    build: |tree, _| boxed(DrrPlusPlus::new(tree)?),
};

/// Marks the latency-critical classes of `tree`, by id.
///
/// # Errors
/// Fails if there is not enough memory.
pub(crate) fn critical(tree: &Hierarchy) -> Result<Box<[bool]>, OutOfMemory> {
    slice(tree.len(), |index| {
        let class = ClassId(index as u32);
        tree.is_leaf(class) && tree.config(class).latency_critical
    })
}

/// sigma / rho + Theta with rho = r Q_i / R and Theta = ((R - Q_i) (1 + L / Q_i) + (n + m) L) / r, for latency-critical
/// classes if all quanta are at least a largest packet.
fn delays(tree: &Hierarchy) -> Vec<Option<LatencyRate>> {
    let none = || alloc::vec![None; tree.len()];
    let Ok(quanta) = drr::quanta(tree) else { return none() };
    let of = |critical: bool| {
        let leaves = tree.leaves().iter().filter(move |&&leaf| tree.config(leaf).latency_critical == critical);
        leaves.map(|leaf| u128::from(quanta[leaf.index()]))
    };
    let largest = u128::from(need(tree.link().max_packet));
    if of(true).chain(of(false)).any(|quantum| quantum < largest) {
        return none();
    }
    // Quanta are below 2^58 in the unit of credits, and so is a packet; the sum of 10^6 of them is below 2^78.
    let round = of(true).sum::<u128>() + of(false).max().unwrap_or(0);
    let carried = tree.leaves().len() as u128 * largest;
    let server = |index: usize| {
        let leaf = ClassId(index as u32);
        if !tree.is_leaf(leaf) || !tree.config(leaf).latency_critical {
            return None;
        }
        let own = u128::from(quanta[index]);
        let share = Ratio { numerator: own, denominator: round };
        // (R - Q_i) (Q_i + L) / Q_i and the carried-over deficits; saturates at impractical values.
        let numerator = (round - own).saturating_mul(own + largest).saturating_add(carried.saturating_mul(own));
        Some(LatencyRate::new(share, Ratio { numerator, denominator: own << drr::FRACTION_BITS }))
    };
    (0..tree.len()).map(server).collect()
}

/// Shares that are below the guarantee by at most this part are not shortfalls: quanta are rounded.
const PART: u128 = 100;

/// Guarantees that visits of latency-critical classes cost others while all classes have packets. A round visits each best-effort class once and all
/// latency-critical classes before each of them, so that a best-effort class gets Q_j / (sum of Q_BE + n sum of Q_LC) of the link.
///
/// # Errors
/// Those of making quanta.
pub(crate) fn shortfalls(tree: &Hierarchy) -> Result<Vec<Shortfall>, BuildError> {
    let quanta = drr::quanta(tree)?;
    let is_critical = |leaf: ClassId| tree.config(leaf).latency_critical;
    let best_effort = tree.leaves().iter().filter(|&&leaf| !is_critical(leaf)).count().max(1) as u128;
    // Below 2^58 each, and 2^20 classes.
    let visits = |leaf: ClassId| u128::from(quanta[leaf.index()]) * if is_critical(leaf) { best_effort } else { 1 };
    let round: u128 = tree.leaves().iter().map(|&leaf| visits(leaf)).sum();
    let link = u128::from(tree.link().rate.bps());
    let short = tree.leaves().iter().filter_map(|&leaf| {
        let Some(Share::Guarantee(guarantee)) = tree.config(leaf).share else { return None };
        // The share of the link in 2^-32, so that nothing overflows.
        let gets = ((visits(leaf) << 32) / round.max(1) * link) >> 32;
        let is_short = gets * PART < u128::from(guarantee.bps()) * (PART - 1);
        is_short.then_some(Shortfall { leaf, guarantee, gets: gets as u64 })
    });
    Ok(short.collect())
}

/// DRR++ in the modified form over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct DrrPlusPlus {
    flows: Flows<Deficit>,
    is_critical: Box<[bool]>,
    critical: Turns,
    best_effort: Turns,
    /// Latency-critical classes that are still to be visited in this round.
    due: u32,
    /// The round ends with the visit that has ended; the visits of the next are not yet determined.
    over: bool,
    visits: Visits,
}

impl DrrPlusPlus {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// As [`drr::quanta`].
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        let (critical_turns, best_effort) = (Turns::new(tree)?, Turns::new(tree)?);
        let (flows, is_critical) = (drr::flows(tree)?, critical(tree)?);
        let visits = Visits::new(tree)?;
        Ok(Self { flows, is_critical, critical: critical_turns, best_effort, due: 0, over: true, visits })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        drr::memory(tree, 2) + bytes_of::<bool>(tree.len()) + Visits::memory(tree)
    }

    /// Continues the rest of the round; returns its first packet.
    #[inline]
    fn round(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        if core::mem::replace(&mut self.over, false) {
            self.due = self.critical.ring.len();
        }
        while self.due > 0 {
            let packet = self.critical.visit(&mut self.flows, now, drops, &mut self.visits);
            if packet.is_some() {
                return packet;
            }
            self.due -= 1;
        }
        let packet = self.best_effort.visit(&mut self.flows, now, drops, &mut self.visits.of_rounds());
        self.over = packet.is_none();
        packet
    }

    /// Ends the transmission, which may end a visit, and with it the round.
    #[inline]
    fn settle(&mut self) {
        self.due -= u32::from(self.critical.settle(&mut self.flows, &mut self.visits));
        self.over |= self.best_effort.settle(&mut self.flows, &mut self.visits);
    }

    /// Completes the rounds in which no class can send. No visit is in progress, and a round begins.
    fn skip_rounds(&mut self) {
        let (critical, best_effort) = (&self.critical.ring, &mut self.best_effort.ring);
        // The number of the round in which the first class can send, counted from 1.
        let mut first = u64::MAX;
        critical.for_each(&mut self.flows, |_, deficit, len| {
            first = first.min((need(len) - deficit.credit).div_ceil(deficit.quantum));
        });
        let classes = u64::from(best_effort.len());
        let mut place = 0;
        best_effort.for_each(&mut self.flows, |_, deficit, len| {
            place += 1;
            // One visit is enough for a packet of no bytes.
            let visits = (need(len) - deficit.credit).div_ceil(deficit.quantum).max(1);
            first = first.min((visits - 1) * classes + place);
        });
        let rounds = first - 1;
        let visits = &mut self.visits;
        let mut count = |flow, times, of_rounds| {
            if of_rounds {
                visits.of_rounds().begins(flow, times, classes as u32);
            } else {
                visits.begins(flow, times, 0);
            }
            visits.exhausts(flow, times);
        };
        critical.for_each(&mut self.flows, |flow, deficit, _| {
            deficit.credit += rounds * deficit.quantum;
            count(flow, rounds, false);
        });
        let Some(all) = rounds.checked_div(classes) else { return };
        let more = rounds - all * classes;
        let mut place = 0;
        best_effort.for_each(&mut self.flows, |flow, deficit, _| {
            let times = all + u64::from(place < more);
            deficit.credit += times * deficit.quantum;
            count(flow, times, true);
            place += 1;
        });
        (0..more).for_each(|_| best_effort.rotate());
    }
}

impl Scheduler for DrrPlusPlus {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let class = packet.class;
        if self.flows.push(now, packet, drops) == Some(true) {
            let turns = if self.is_critical[class.index()] { &mut self.critical } else { &mut self.best_effort };
            turns.push(class.0);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.settle();
        if self.flows.backlog().packets == 0 {
            // After a time without packets a round begins.
            self.over = true;
            return Dequeued::Idle;
        }
        // The rest of one round, another, and one after those in which no class can send.
        for pass in 0..3 {
            if pass == 2 {
                self.skip_rounds();
            }
            if let Some(packet) = self.round(now, drops) {
                return Dequeued::Packet(packet);
            }
        }
        unreachable!("some class can send after the rounds in which none can");
    }

    backlog_of_flows!();

    fn retune(&mut self, _now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        if !self.flows.fits(&with.flows) || self.is_critical != with.is_critical {
            return false;
        }
        drr::retune(&mut self.flows, &mut with.flows);
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        self.flows.states_mut().for_each(|deficit| deficit.credit = 0);
        self.critical.clear();
        self.best_effort.clear();
        (self.due, self.over) = (0, true);
        self.visits.reset();
    }

    fn is_expedited(&self, class: ClassId) -> bool {
        self.is_critical.get(class.index()).copied().unwrap_or(false)
    }

    fn for_each_counter(&self, classes: Range<usize>, visit: &mut dyn FnMut(ClassId, &'static str, u64)) {
        self.visits.report(classes, visit);
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let [critical, best_effort] = [&self.critical, &self.best_effort].map(|turns| turns.visited());
        let visited = critical.or(best_effort);
        self.flows.check_with(self.critical.ring.iter().chain(self.best_effort.ring.iter()), 0, visited)?;
        self.critical.check(&self.flows)?;
        self.best_effort.check(&self.flows)?;
        if self.due > self.critical.ring.len() {
            return Err(format!("{} visits are due to {} classes", self.due, self.critical.ring.len()));
        }
        if critical.is_some() && (best_effort.is_some() || self.due == 0) {
            return Err(format!("two visits at once, or one that is not due ({} are)", self.due));
        }
        for (turns, critical) in [(&self.critical, true), (&self.best_effort, false)] {
            if let Some(flow) = turns.ring.iter().find(|&flow| self.is_critical[flow as usize] != critical) {
                return Err(format!("class {flow} is in the wrong ring"));
            }
        }
        drr::check_idle(&self.flows, visited)
    }
}
