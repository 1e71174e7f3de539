//! `drr++-mw00`: DRR++ as MacGregor and Shi wrote it, \[drrpp\] Section 3.1.2, Tables 3.3 and 3.4. Flat. The thesis
//! continues with another form: [`drr_plus_plus`](crate::schedulers::drr_plus_plus).
//!
//! A round visits every best-effort class with packets once, n of them. When it begins, each latency-critical class
//! gets n times its quantum. As long as that lasts, its packets are sent before any other packet, even in the middle of
//! a visit. Excess packets stay queued for the next round.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | PrioTxQueue | `ready`, `waiting`: latency-critical classes whose credit covers their first packet, and the others | |
//! | ActiveList | `best_effort` | |
//! | DC_i; for the latency-critical ones n Q_LC per round | `Deficit::credit` | 2^-16 byte |
//! | n | `classes` | |
//!
//! **Shares.** As in [`drr_plus_plus`](crate::schedulers::drr_plus_plus): Q_LC / (Q_LC + Q_BE) of the link for a class
//! that sends enough, for any number of best-effort classes.
//!
//! **Cost per packet.** O(1) if every quantum is at least the largest packet, except that a new round walks the
//! latency-critical classes that wait for it. Otherwise at most three walks over the active classes per call.
//! **Invariants.** The credit of a class in `ready` covers its first packet, that of one in `waiting` does not; the one
//! that is sending is checked when its packet has been sent. A latency-critical class sends at most n Q_LC + L_max in a
//! round. **Bounds.** None is stated for this form: after n Q_LC a latency-critical class waits for all n best-effort
//! classes. **Overflow budget.** That of `drr`; n Q_LC saturates at 2^48 bytes. **Validation.** The sequence of Table
//! 3.5; a plain transcription of the algorithm as an oracle; the credit per round.
//!
//! DIFFERENCE: n is the number of best-effort classes with packets when the round begins, at least 1. The tables have a
//! constant. The text counts all flows and assumes all of them backlogged. DIFFERENCE: a class that was idle and comes
//! back after the round's last visit has ended has no credit left of that round. The tables would give it that credit
//! and the next round's at once. DIFFERENCE: a packet is sent when the credit covers it. Table 3.4 requires more credit
//! than that (DC_i > Size(p)). The other tables do not. DIFFERENCE: no transmit queue of best-effort packets, as in
//! [`drr_plus_plus`](crate::schedulers::drr_plus_plus), and work-conserving. In Table 3.4 a latency-critical packet
//! whose credit does not cover it stays at the head of `PrioTxQueue` and keeps the packets in `TxQueue` from being
//! sent; \[drrpp\] Section 2.5.4 calls DRR++ non-work-conserving. Rounds of the tables take no time on the link, so
//! that the wait ends with the next round. Here the link paces the rounds: it would stay idle until a packet is sent,
//! forever. So packets with credit go first, and best-effort packets go while there are none. DIFFERENCE: `FreeBuffer`
//! only if the link has [`WhenFull::PushOut`](crate::contract::WhenFull). Table 3.3 calls it if no buffer is free and
//! does not say which packet it drops. Otherwise each class has a queue with a limit of its own, and packets that do
//! not fit are dropped on arrival. DIFFERENCE: several latency-critical classes, in turn packet by packet, so that none
//! waits behind another without credit. DIFFERENCE: rounds in which no class can send are credited at once and not
//! walked one by one. The order is the same. DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes
//! a tree and shares among its leaves.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::flows::{Flows, Ring, backlog_of_flows};
use crate::contract::{
    Amount, BuildError, ClassId, Dequeued, DropSink, Feature, Hierarchy, Nanos, Packet, Promises, Scheduler,
    SchedulerInfo, Sharing, Visit, WorkConserving, boxed,
};
use crate::parts::memory::{bytes_of, slice};
use crate::schedulers::{
    drr::{self, Deficit, Turns, need},
    drr_plus_plus::critical,
};

#[cfg(test)]
mod tests;

/// Registry entry of `drr++-mw00`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "drr++-mw00",
    aliases: &[],
    paper: "drrpp",
    summary: "DRR++ in its first form: latency-critical credit once per round",
    features: &[Feature::Quantum, Feature::LatencyCritical, Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(1); O(leaves) where a quantum is below the largest packet",
    sharing: Sharing::CriticalVisits(drr::quanta),
    promises: Promises {
        shortfalls: Some(crate::schedulers::drr_plus_plus::shortfalls),
        visit: Some(Visit::Bytes(drr::quanta)),
        ..Promises::NONE
    },
    memory: Mw00::memory,
    build: |tree, _| boxed(Mw00::new(tree)?),
};

/// DRR++ in its first form over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct Mw00 {
    flows: Flows<Deficit>,
    /// By class id: the round of a latency-critical class's credit; `None` for best-effort classes.
    credited: Box<[Option<u64>]>,
    /// The first may be sending: see `sending`.
    ready: Ring,
    waiting: Ring,
    /// True if the packet in transmission is of the first of `ready`, which is listed again afterwards.
    sending: bool,
    best_effort: Turns,
    /// Best-effort classes that are still to be visited in this round.
    left: u32,
    /// n, of this round.
    classes: u64,
    round: u64,
}

impl Mw00 {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// As [`drr::quanta`].
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        let critical = critical(tree)?;
        let credited = slice(tree.len(), |class| critical[class].then_some(0))?;
        let (flows, best_effort) = (drr::flows(tree)?, Turns::new(tree)?);
        let (ready, waiting) = (Ring::new(tree)?, Ring::new(tree)?);
        Ok(Self { flows, credited, ready, waiting, sending: false, best_effort, left: 0, classes: 1, round: 1 })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        drr::memory(tree, 3) + bytes_of::<(bool, Option<u64>)>(tree.len())
    }

    /// Removes and returns the next packet of the latency-critical classes that have credit for one.
    #[inline]
    fn take_critical(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let flow = self.ready.first()?;
        let packet = self.flows.pop(flow, now, drops)?;
        self.flows.state_mut(flow).credit -= need(packet.len);
        self.sending = true;
        Some(packet)
    }

    /// Ends the transmission: moves its class to the list where it belongs now.
    #[inline]
    fn settle(&mut self) {
        if core::mem::replace(&mut self.sending, false)
            && let Some(flow) = self.ready.pop()
        {
            self.list(flow);
        }
        self.left -= u32::from(self.best_effort.settle(&mut self.flows, &mut ()));
    }

    /// Returns the latency-critical class whose packet is in transmission.
    fn sending(&self) -> Option<u32> {
        if self.sending { self.ready.first() } else { None }
    }

    /// Inserts a latency-critical class that is in no ring into the right one.
    fn list(&mut self, flow: u32) {
        let Some(len) = self.flows.head_len(flow) else { return };
        let ring = if need(len) <= self.flows.state(flow).credit { &mut self.ready } else { &mut self.waiting };
        ring.push(flow);
    }

    /// Begins `rounds` rounds; in all but the last no class can send.
    fn begin_rounds(&mut self, rounds: u64) {
        self.round += rounds;
        self.left = self.best_effort.ring.len();
        self.classes = u64::from(self.left).max(1);
        for _ in 0..self.waiting.len() {
            let Some(flow) = self.waiting.pop() else { break };
            let deficit = self.flows.state_mut(flow);
            let credit = deficit.quantum.saturating_mul(self.classes).saturating_mul(rounds);
            deficit.credit = deficit.credit.saturating_add(credit);
            self.credited[flow as usize] = Some(self.round);
            self.list(flow);
        }
        self.best_effort
            .ring
            .for_each(&mut self.flows, |_, deficit, _| deficit.credit += (rounds - 1) * deficit.quantum);
    }

    /// Number of rounds until a class can send. No visit is in progress, and no class is ready.
    fn rounds_until_one_sends(&mut self) -> u64 {
        let mut rounds = u64::MAX;
        let classes = u64::from(self.best_effort.ring.len()).max(1);
        self.waiting.for_each(&mut self.flows, |_, deficit, len| {
            rounds = rounds.min((need(len) - deficit.credit).div_ceil(deficit.quantum.saturating_mul(classes)));
        });
        self.best_effort.ring.for_each(&mut self.flows, |_, deficit, len| {
            rounds = rounds.min((need(len) - deficit.credit).div_ceil(deficit.quantum));
        });
        rounds
    }
}

impl Scheduler for Mw00 {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let class = packet.class;
        // The one that is sending is still listed, with its credit of this round.
        if self.flows.push(now, packet, drops) != Some(true) || self.sending() == Some(class.0) {
            return;
        }
        let Some(credited) = &mut self.credited[class.index()] else {
            return self.best_effort.push(class.0);
        };
        let deficit = self.flows.state_mut(class.0);
        if self.left == 0 {
            // The round is over. The next begins before anything else is sent, and brings its credit.
            deficit.credit = 0;
        } else if *credited != self.round {
            // It had no backlog when the round began: a new credit, not the rest of an older one.
            deficit.credit = deficit.quantum.saturating_mul(self.classes);
        }
        *credited = self.round;
        self.list(class.0);
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.settle();
        if self.flows.backlog().packets == 0 {
            return Dequeued::Idle;
        }
        // The rest of one round, another, and one after those in which no class can send.
        for pass in 0..3 {
            if let Some(packet) = self.take_critical(now, drops) {
                return Dequeued::Packet(packet);
            }
            while self.left > 0 {
                if let Some(packet) = self.best_effort.visit(&mut self.flows, now, drops, &mut ()) {
                    return Dequeued::Packet(packet);
                }
                self.left -= 1;
            }
            let rounds = if pass == 1 { self.rounds_until_one_sends() } else { 1 };
            self.begin_rounds(rounds);
        }
        unreachable!("some class can send after the rounds in which none can");
    }

    backlog_of_flows!();

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        self.flows.states_mut().for_each(|deficit| deficit.credit = 0);
        self.credited.iter_mut().flatten().for_each(|round| *round = 0);
        [&mut self.ready, &mut self.waiting].into_iter().for_each(Ring::clear);
        self.best_effort.clear();
        (self.sending, self.left, self.classes, self.round) = (false, 0, 1, 1);
    }

    fn is_expedited(&self, class: ClassId) -> bool {
        self.credited.get(class.index()).is_some_and(Option::is_some)
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let visited = self.best_effort.visited();
        let sending = self.sending();
        let listed = [&self.ready, &self.waiting, &self.best_effort.ring];
        self.flows.check_with(listed.into_iter().flat_map(Ring::iter), 0, sending.or(visited))?;
        self.best_effort.check(&self.flows)?;
        if self.left > self.best_effort.ring.len() || visited.is_some() && self.left == 0 {
            return Err(format!("{} visits are due to {} classes", self.left, self.best_effort.ring.len()));
        }
        for (ring, ready) in [(&self.ready, true), (&self.waiting, false)] {
            for flow in ring.iter().filter(|&flow| sending != Some(flow)) {
                let (credit, len) = (self.flows.state(flow).credit, self.flows.head_len(flow).unwrap_or(0));
                if (need(len) <= credit) != ready || self.credited[flow as usize] != Some(self.round) {
                    return Err(format!("class {flow} has a credit of {credit} of {:?}", self.credited[flow as usize]));
                }
            }
        }
        Ok(())
    }
}
