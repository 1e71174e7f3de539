//! `corr`: Carry-Over Round Robin, as described in \[drrpp\] Section 2.4.3. Flat.
//!
//! Each class has a number of slots per cycle that need not be whole. A cycle has two parts. In the *major* cycle every
//! class gets the whole slots that it is owed. In the *minor* cycle the remaining slots go to classes that are owed a
//! fraction, the largest fraction first. Excess or deficit is carried over into the next cycle.
//!
//! | text | here | unit |
//! | --- | --- | --- |
//! | R_i, cells per cycle of session i | `Slots::rate`: its share of T | 2^-32 slot |
//! | debits and credits carried over | `Slots::credit` | 2^-32 slot |
//! | T, slots of a cycle | `cycle_slots`: the number of leaves | slots |
//! | major cycle | `due` visits of `listed` | |
//! | minor cycle | `fractions`, by what is missing to a slot | |
//!
//! A slot ends when its packet has been sent, as a visit of [`drr`](crate::schedulers::drr) does. Only then does a
//! class go to the end of the list, behind those that came meanwhile, or leave it.
//!
//! A slot is a packet of any length. According to the text, CORR is for cells of one length. With packets of different
//! lengths it shares packets and not bytes.
//!
//! **Idle slots.** If some classes are idle, the others use fewer slots than a cycle has, and the next begins at once.
//! A class that empties gives up its credit. It keeps its debt, which each cycle lowers by R_i. Otherwise a class with
//! single packets would take a slot in every cycle.
//!
//! **Cost per packet.** O(log n) for a slot of the minor cycle, and three walks over the active classes per cycle,
//! which has n slots when all are active. Cycles in which no class is owed a slot are done at once. **Invariants.**
//! Credits are above -1 slot, and below 1 between cycles. **Bounds.** Over k cycles in which it has packets, a class
//! sends more than k R_i - 2 and less than k R_i + 2 packets. Counted from when it got packets, it sends within 1 of k
//! R_i. So in the long run it gets exactly its share. **Overflow budget.** Rates and credits are below 2^53, a number
//! of cycles times a rate fits 128 bits. **Validation.** The bounds as property tests.
//!
//! DIFFERENCE: a class that gets packets during a cycle waits for the next one, which is at most n packets away.
//! DIFFERENCE: the cycle has as many slots as there are leaves; the text leaves it open.
//! DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::flows::{Flows, Ring, backlog_of_flows};
use crate::contract::{
    Amount, ClassId, Dequeued, DropSink, Feature, Hierarchy, Nanos, OutOfMemory, Packet, Promises, Scheduler,
    SchedulerInfo, Sharing, WorkConserving, boxed, leaf_shares,
};
use crate::parts::heap::Heap;

#[cfg(test)]
mod tests;

/// Registry entry of `corr`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "corr",
    aliases: &[],
    paper: "drrpp",
    summary: "carry-over round robin: flat, fractions of packets per cycle are carried over",
    features: &[Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves); O(leaves) while small shares are alone",
    sharing: Sharing::LeavesByPackets(leaf_shares),
    promises: Promises::NONE,
    memory: Corr::memory,
    build: |tree, _| boxed(Corr::new(tree)?),
};

/// Bits of the fraction of a slot.
const FRACTION_BITS: u32 = 32;
/// One slot.
const SLOT: i64 = 1 << FRACTION_BITS;

#[derive(Clone, Copy, Debug)]
struct Slots {
    /// R_i; not 0 for a leaf.
    rate: i64,
    credit: i64,
    /// The cycle up to which the credit counts, for a class without packets.
    cycle: u64,
}

/// Carry-over round robin over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct Corr {
    flows: Flows<Slots>,
    /// Classes with packets, those first that are still to be visited in this major cycle.
    listed: Ring,
    due: u32,
    /// Classes that have had their whole slots and are owed a fraction of one, by the missing part of a slot.
    fractions: Heap,
    cycle_slots: u64,
    /// Slots of this cycle that are left.
    left: u64,
    cycle: u64,
    sending: Sending,
}

/// The class whose slot is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Nobody,
    /// The first of `listed`, in the major cycle.
    First,
    /// This class, which is in no list, in the minor cycle.
    Minor(u32),
}

impl Corr {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let slots = tree.leaves().len() as u128;
        let rate = |class| (tree.share_all_busy(class) * slots) >> (64 - FRACTION_BITS);
        let flows = Flows::new(tree, |class| Slots {
            rate: if tree.is_leaf(class) { (rate(class) as i64).max(1) } else { 0 },
            credit: 0,
            cycle: 0,
        })?;
        let rates: u64 = tree.leaves().iter().map(|leaf| flows.state(leaf.0).rate as u64).sum();
        Ok(Self {
            flows,
            listed: Ring::new(tree)?,
            due: 0,
            fractions: Heap::new(tree.len())?,
            cycle_slots: rates.div_ceil(SLOT as u64),
            left: 0,
            cycle: 0,
            sending: Sending::Nobody,
        })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        Flows::<Slots>::memory(tree) + Ring::memory(tree) + Heap::memory(tree.len())
    }

    /// Begins the next cycle in which a class has a slot or a fraction of one coming.
    fn begin_cycle(&mut self) {
        while let Some((flow, _)) = self.fractions.pop() {
            self.listed.push(flow);
        }
        let mut cycles = i64::MAX;
        self.listed
            .for_each(&mut self.flows, |_, slots, _| cycles = cycles.min((-slots.credit).max(0) / slots.rate + 1));
        self.listed.for_each(&mut self.flows, |_, slots, _| slots.credit += slots.rate * cycles);
        self.cycle += cycles as u64;
        self.due = self.listed.len();
        self.left = self.cycle_slots;
    }

    /// Gives a slot to a class; its packet.
    fn give_slot(&mut self, flow: u32, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.left -= 1;
        self.flows.state_mut(flow).credit -= SLOT;
        self.flows.pop(flow, now, drops)
    }

    /// Returns the class whose slot is in use.
    fn sending(&self) -> Option<u32> {
        match self.sending {
            Sending::Nobody => None,
            Sending::First => self.listed.first(),
            Sending::Minor(flow) => Some(flow),
        }
    }

    /// Ends the transmission: moves its class to the list where it belongs now.
    fn settle(&mut self) {
        let Some(flow) = self.sending() else { return };
        if self.flows.is_empty(flow) {
            let slots = self.flows.state_mut(flow);
            slots.credit = slots.credit.min(0);
            slots.cycle = self.cycle;
        }
        match core::mem::replace(&mut self.sending, Sending::Nobody) {
            Sending::First => self.pass_first(flow),
            _ if self.flows.is_empty(flow) => {}
            _ => self.listed.push(flow),
        }
    }

    /// Passes over the first class that is due in the major cycle if it is owed no whole slot, or has no packet.
    fn pass_first(&mut self, flow: u32) {
        let credit = self.flows.state(flow).credit;
        if self.flows.is_empty(flow) {
            self.listed.pop();
            self.due -= 1;
        } else if credit < SLOT {
            self.due -= 1;
            if credit > 0 {
                self.listed.pop();
                self.fractions.set(flow, (SLOT - credit) as u128);
            } else {
                self.listed.rotate();
            }
        }
    }

    /// Uses a slot of the major cycle, if one is left.
    fn major(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        while self.due > 0 && self.left > 0 {
            let flow = self.listed.first()?;
            if self.flows.state(flow).credit >= SLOT {
                self.sending = Sending::First;
                return self.give_slot(flow, now, drops);
            }
            self.pass_first(flow);
        }
        None
    }

    /// Uses a slot of the minor cycle, if one is left.
    fn minor(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        if self.left == 0 {
            return None;
        }
        let (flow, _) = self.fractions.pop()?;
        self.sending = Sending::Minor(flow);
        self.give_slot(flow, now, drops)
    }
}

impl Scheduler for Corr {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let flow = packet.class.0;
        if self.flows.push(now, packet, drops) == Some(true) && self.sending() != Some(flow) {
            let cycle = self.cycle;
            let slots = self.flows.state_mut(flow);
            let earned = i128::from(slots.rate) * i128::from(cycle - slots.cycle);
            slots.credit = (i128::from(slots.credit) + earned).min(0) as i64;
            self.listed.push(flow);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.settle();
        for _ in 0..2 {
            if let Some(packet) = self.major(now, drops).or_else(|| self.minor(now, drops)) {
                return Dequeued::Packet(packet);
            }
            if self.flows.backlog().packets == 0 {
                return Dequeued::Idle;
            }
            self.begin_cycle();
        }
        unreachable!("a cycle begins in which somebody has a slot coming")
    }

    backlog_of_flows!();

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        self.flows.states_mut().for_each(|slots| (slots.credit, slots.cycle) = (0, 0));
        self.fractions.clear();
        self.listed.clear();
        (self.due, self.left, self.cycle, self.sending) = (0, 0, 0, Sending::Nobody);
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let sending = self.sending();
        let minor = matches!(self.sending, Sending::Minor(flow) if !self.flows.is_empty(flow));
        self.flows.check_with(self.listed.iter(), self.fractions.len() + usize::from(minor), sending)?;
        self.fractions.check()?;
        if self.due > self.listed.len() {
            return Err(format!("{} visits are due to {} classes", self.due, self.listed.len()));
        }
        for (place, flow) in (0..).zip(self.listed.iter()) {
            let credit = self.flows.state(flow).credit;
            if credit <= -SLOT || place >= self.due && credit > 0 && sending != Some(flow) {
                return Err(format!("class {flow} has been visited and has {credit} coming"));
            }
        }
        for flow in self.flows.leaves() {
            let Slots { credit, .. } = *self.flows.state(flow);
            let empty = self.flows.is_empty(flow);
            if self.fractions.contains(flow) && (empty || credit <= 0 || credit >= SLOT)
                || empty && credit > 0 && sending != Some(flow)
            {
                return Err(format!("class {flow} has {credit} coming; empty: {empty}"));
            }
        }
        Ok(())
    }
}
