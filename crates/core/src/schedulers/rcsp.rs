//! `rcsp`: Rate-Controlled Static Priority, as described in \[drrpp\] Section 2.3.5. Flat. Not work-conserving.
//!
//! A *regulator* for each class holds a packet until it is eligible. A *scheduler* sends eligible packets by priority,
//! first come first served within a priority. So a class's effect on the traffic of others depends on its contract and
//! not on the pattern of its arrivals, even after several switches have distorted it.
//!
//! | text | here | unit |
//! | --- | --- | --- |
//! | AT^k, arrival time | `now` of [`Scheduler::enqueue`] | ns |
//! | ET^k, eligibility time | `Class::tags` | 2^-30 ns |
//! | h^k, holding time | ET^k - AT^k | |
//! | d^k, waiting time | from ET^k until it is sent | |
//!
//! **Regulators.** The *rate-jitter* regulator spaces packets by the class's rate: ET^k = max(AT^k, ET^(k-1) + L^(k-1)
//! / rho). The rate is the class's share of the link when all are busy. The *delay-jitter* regulator holds a packet for
//! as long as it was early at the previous switch: ET_j^k = ET_(j-1)^k + d_(j-1) + p_(j-1), where d is that switch's
//! delay bound and p the link's delay. So the pattern of the traffic is the same at every switch. It needs data on each
//! packet from the previous switch: [`Rcsp::enqueue_early`]. At the first switch ET_0^k = AT_0^k. The registry's `rcsp`
//! has rate-jitter regulators.
//!
//! **Cost per packet.** O(log n) in the classes with packets. A call may make many packets eligible, each once.
//! **Invariants.** A class with packets is in `held` under the ET of its first one, or in `eligible` if that is past. ET of a class never
//! decreases.
//! **Bounds.** With rate-jitter regulators class i has at most rho_i t + L_i bytes eligible in any time t. So a packet of priority p
//! waits at most (sum of L_i over priorities up to p + L_max) / (r - sum of rho_i over priorities before p) until it has left. Traffic
//! of at most sigma + rho_i t is held for sigma / rho_i at most before.
//! **Overflow budget.** Times in 2^-30 ns are below 2^94, the cost of a byte below 2^127 and saturating.
//! **Validation.** The bound, the spacing, and the pattern that a delay-jitter regulator restores are property tests.
//!
//! DIFFERENCE: the regulator is the queue of the class and one entry in a heap, while the text has a calendar queue.
//! DIFFERENCE: the original's contract (x_min, x_ave, I) is a rate here. DIFFERENCE: under
//! [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use alloc::vec;
use alloc::vec::Vec;

use crate::bases::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, ClassId, Delay, Dequeued, DropSink, Feature, Hierarchy, LatencyRate, NANOS_PER_SEC, Nanos, OutOfMemory,
    Packet, Promises, Ratio, Scheduler, SchedulerInfo, Sharing, WorkConserving, boxed,
};
use crate::parts::{
    heap::Heap,
    tags::{TagQueue, TagSlab},
};

#[cfg(test)]
mod tests;

/// Registry entry of `rcsp`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "rcsp",
    aliases: &[],
    paper: "drrpp",
    summary: "rate-controlled static priority: flat, packets held back to their rate",
    features: &[Feature::Priority],
    work_conserving: WorkConserving::Never,
    cost: "O(log leaves)",
    sharing: Sharing::OwnShare,
    promises: Promises { delay: Some(Delay::LatencyRate(delays)), ..Promises::NONE },
    memory: Rcsp::memory,
    build: |tree, _| boxed(Rcsp::new(tree, Regulator::RateJitter)?),
};

/// The condition that makes a packet eligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regulator {
    /// The rate of its class since the packet before.
    RateJitter,
    /// The end of the time by which it was early at the previous switch.
    DelayJitter,
}

/// Bits of the fraction of a nanosecond.
const FRACTION_BITS: u32 = 30;
/// Position of the priority in a key of `eligible`.
const PRIORITY_SHIFT: u32 = 120;

#[derive(Debug)]
struct Class {
    /// Time of a byte at its rate, in 2^-30 ns, rounded up.
    per_byte: u128,
    /// The least ET that its next packet may have.
    earliest: u128,
    tags: TagQueue,
    priority: u8,
}

/// Returns the time of a byte at the class's rate, in 2^-30 ns, rounded up.
fn time_per_byte(tree: &Hierarchy, class: ClassId) -> u128 {
    // r phi, in 2^-64 bit/s: below 2^104.
    let rate = u128::from(tree.link().rate.bps()) * tree.share_all_busy(class).max(1);
    (u128::from(8 * NANOS_PER_SEC) << (64 + FRACTION_BITS)).div_ceil(rate)
}

/// The bound of the module's documentation, for the rates of the regulators. None for a class of less than 2^-64 of the
/// link.
fn delays(tree: &Hierarchy) -> Vec<Option<LatencyRate>> {
    let priority = |class: ClassId| tree.config(class).priority.unwrap_or(0);
    // Not on the stack, of which a kernel has only 16 KiB.
    let mut of_priority = vec![(0u128, 0u128); 256];
    for &leaf in tree.leaves() {
        let (leaves, share) = &mut of_priority[usize::from(priority(leaf))];
        (*leaves, *share) = (*leaves + 1, *share + tree.share_all_busy(leaf));
    }
    let server = |index: usize| {
        let class = ClassId(index as u32);
        let level = usize::from(priority(class));
        let before: u128 = of_priority[..level].iter().map(|&(_, share)| share).sum();
        let leaves: u128 = of_priority[..=level].iter().map(|&(leaves, _)| leaves).sum();
        let left = (1u128 << 64).checked_sub(before).filter(|&left| left > 0)?;
        // At most 10^6 packets of 2^20 bytes.
        let packets = (leaves + 1) * u128::from(tree.link().max_packet);
        let late = Ratio { numerator: packets << 64, denominator: left };
        let per_second = u128::from(8 * NANOS_PER_SEC) << FRACTION_BITS;
        let denominator = time_per_byte(tree, class).checked_mul(tree.link().rate.bps().into())?;
        let is_served = tree.is_leaf(class) && tree.share_all_busy(class) > 0;
        is_served.then_some(LatencyRate::new(Ratio { numerator: per_second, denominator }, late))
    };
    (0..tree.len()).map(server).collect()
}

/// Rate-controlled static priority over the leaves of a hierarchy.
#[derive(Debug)]
pub struct Rcsp {
    flows: Flows<Class>,
    regulator: Regulator,
    tags: TagSlab,
    /// Classes whose first packet is not eligible yet, by its ET.
    held: Heap,
    /// Classes whose first packet is eligible, by priority and ET.
    eligible: Heap,
    now: Nanos,
}

fn fine(time: Nanos) -> u128 {
    u128::from(time.0) << FRACTION_BITS
}

impl Rcsp {
    /// Makes a scheduler for the leaves of `tree`. A class without priority has the first, 0.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn new(tree: &Hierarchy, regulator: Regulator) -> Result<Self, OutOfMemory> {
        let link = tree.link();
        let flows = Flows::of_fifos(tree, |class| {
            let priority = tree.config(class).priority.unwrap_or(0);
            Class { per_byte: time_per_byte(tree, class), earliest: 0, tags: TagQueue::default(), priority }
        })?;
        let heap = || Heap::new(tree.len());
        let tags = TagSlab::new(link.max_queued)?;
        Ok(Self { flows, regulator, tags, held: heap()?, eligible: heap()?, now: Nanos::ZERO })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        Flows::<Class>::fifo_memory(tree) + TagSlab::memory(tree.link().max_queued) + 2 * Heap::memory(tree.len())
    }

    /// Like [`Scheduler::enqueue`], for a packet that left the previous switch early. `early` is how much earlier that
    /// was than its ET there plus the delay bound of that switch. So `early` is d_(j-1) less the packet's wait there.
    /// Only a delay-jitter regulator uses it.
    pub fn enqueue_early(&mut self, now: Nanos, packet: Packet, early: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let (flow, len) = (packet.class.0, packet.len);
        let Some(was_empty) = self.flows.push(now, packet, drops) else { return };
        let class = self.flows.state_mut(flow);
        let arrival = fine(self.now);
        let eligible = match self.regulator {
            Regulator::RateJitter => arrival.max(class.earliest),
            Regulator::DelayJitter => (arrival + fine(early)).max(class.earliest),
        };
        class.earliest = match self.regulator {
            Regulator::RateJitter => eligible.saturating_add(class.per_byte.saturating_mul(u128::from(len))),
            Regulator::DelayJitter => eligible,
        };
        class.tags.push(&mut self.tags, eligible);
        if was_empty {
            self.held.set(flow, eligible);
        }
    }

    /// Makes the packets eligible whose time has come.
    fn release(&mut self) {
        let now = fine(self.now);
        while let Some((flow, time)) = self.held.first().filter(|&(_, time)| time <= now) {
            self.held.remove(flow);
            let priority = u128::from(self.flows.state(flow).priority) << PRIORITY_SHIFT;
            self.eligible.set(flow, priority | time);
        }
    }
}

impl Scheduler for Rcsp {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue_early(now, packet, Nanos::ZERO, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        self.release();
        let Some((flow, _)) = self.eligible.pop() else {
            return self.held.first().map_or(Dequeued::Idle, |(_, time)| {
                let time = time.div_ceil(1 << FRACTION_BITS);
                Dequeued::WaitUntil(Nanos(u64::try_from(time).unwrap_or(u64::MAX)))
            });
        };
        let Some(packet) = self.flows.pop(flow, now, drops) else { unreachable!("class {flow} is eligible and empty") };
        let class = self.flows.state_mut(flow);
        class.tags.pop(&mut self.tags);
        if let Some(time) = class.tags.first(&self.tags) {
            self.held.set(flow, time);
        }
        Dequeued::Packet(packet)
    }

    backlog_of_flows!();

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        self.flows.purge(now, drops);
        self.flows.states_mut().for_each(|class| {
            class.tags.clear(&mut self.tags);
            class.earliest = 0;
        });
        self.held.clear();
        self.eligible.clear();
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        self.held.check()?;
        self.eligible.check()?;
        self.flows.check([], self.held.len() + self.eligible.len())?;
        for flow in self.flows.leaves() {
            let class = self.flows.state(flow);
            let first = class.tags.first(&self.tags);
            let time = self.eligible.key(flow).map(|key| key & ((1 << PRIORITY_SHIFT) - 1));
            if first != self.held.key(flow).xor(time) || first.is_none() != self.flows.is_empty(flow) {
                return Err(format!("class {flow}: its first packet is eligible at {first:?}, listed as {time:?}"));
            }
            if time.is_some_and(|time| time > fine(self.now)) {
                return Err(format!("class {flow} is eligible at {time:?}, which is after {}", self.now));
            }
        }
        Ok(())
    }
}
