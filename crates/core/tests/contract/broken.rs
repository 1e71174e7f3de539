//! A small round robin that keeps the contract, and the same with one fault each. The checks must find every fault.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlink_core::{
    Amount, BatchEnd, ClassId, Dequeued, DropReason, DropSink, Feature, Hierarchy, Nanos, Packet, Promises,
    QueueLimits, Rate, Scheduler, SchedulerInfo, Sharing, WorkConserving,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    LosesAPacket,
    LosesAPacketAndLies,
    InventsAPacket,
    ChangesALength,
    ChangesAClass,
    Reorders,
    IdlesWithBacklog,
    WaitsForNothing,
    WaitsForThePast,
    Starves,
    ForgetsWhoEmptied,
    MiscountsBytes,
    MiscountsAClass,
    KnowsEveryClass,
    DropsForNoReason,
    NamesTheWrongReason,
    TakesMoreThanTheLimit,
    TakesForAnInnerClass,
    BatchInAnotherOrder,
    BatchBeyondTheBudget,
    BatchEndsEarly,
    PurgeKeepsOne,
    PurgeInReverse,
    PurgeRemembers,
    TellsRunsApart,
    Allocates,
    TakesAQuantumOfZero,
    BreaksItsInvariant,
    /// First of the toys that support ceilings; this one has no fault.
    NonePaced,
    WaitsTooLong,
    WaitsInSmallSteps,
    WaitsWhileAnotherMaySend,
    KeepsItsDebtThroughAPurge,
}

/// Index of the first toy that honours ceilings.
pub(crate) const PACED: usize = 29;

/// Each fault, and the check that must find it.
pub(crate) const FAULTS: [(Fault, &str); 34] = [
    (Fault::None, ""),
    (Fault::LosesAPacket, "operations"),
    (Fault::LosesAPacketAndLies, "operations"),
    (Fault::InventsAPacket, "operations"),
    (Fault::ChangesALength, "operations"),
    (Fault::ChangesAClass, "operations"),
    (Fault::Reorders, "operations"),
    (Fault::IdlesWithBacklog, "operations"),
    (Fault::WaitsForNothing, "operations"),
    (Fault::WaitsForThePast, "operations"),
    (Fault::Starves, "liveness"),
    (Fault::ForgetsWhoEmptied, "liveness"),
    (Fault::MiscountsBytes, "operations"),
    (Fault::MiscountsAClass, "operations"),
    (Fault::KnowsEveryClass, "operations"),
    (Fault::DropsForNoReason, "operations"),
    (Fault::NamesTheWrongReason, "operations"),
    (Fault::TakesMoreThanTheLimit, "operations"),
    (Fault::TakesForAnInnerClass, "operations"),
    (Fault::BatchInAnotherOrder, "batches_are_single_calls"),
    (Fault::BatchBeyondTheBudget, "operations"),
    (Fault::BatchEndsEarly, "operations"),
    (Fault::PurgeKeepsOne, "operations"),
    (Fault::PurgeInReverse, "operations"),
    (Fault::PurgeRemembers, "purge_forgets"),
    (Fault::TellsRunsApart, "same_twice"),
    (Fault::Allocates, "no_allocation"),
    (Fault::TakesAQuantumOfZero, "a_refused_change_changes_nothing"),
    (Fault::BreaksItsInvariant, "operations"),
    (Fault::NonePaced, ""),
    (Fault::WaitsTooLong, "operations"),
    (Fault::WaitsInSmallSteps, "operations"),
    (Fault::WaitsWhileAnotherMaySend, "operations"),
    (Fault::KeepsItsDebtThroughAPurge, "purge_forgets"),
];

const fn toy<const F: usize>() -> SchedulerInfo {
    SchedulerInfo {
        name: "toy",
        aliases: &[],
        paper: "",
        summary: "round robin, possibly at fault",
        features: match F {
            27 => &[Feature::Hierarchy, Feature::Quantum],
            PACED.. => &[Feature::Hierarchy, Feature::Ceiling],
            _ => &[Feature::Hierarchy],
        },
        work_conserving: if F < PACED { WorkConserving::Always } else { WorkConserving::UnlessLimited },
        cost: "O(classes)",
        sharing: Sharing::Unknown("a toy"),
        promises: Promises::NONE,
        memory: |_| 0,
        build: |tree, _| Ok(Box::new(Toy::new(tree, FAULTS[F].0))),
    }
}

/// One for each of [`FAULTS`].
pub(crate) static TOYS: [SchedulerInfo; 34] = [
    toy::<0>(),
    toy::<1>(),
    toy::<2>(),
    toy::<3>(),
    toy::<4>(),
    toy::<5>(),
    toy::<6>(),
    toy::<7>(),
    toy::<8>(),
    toy::<9>(),
    toy::<10>(),
    toy::<11>(),
    toy::<12>(),
    toy::<13>(),
    toy::<14>(),
    toy::<15>(),
    toy::<16>(),
    toy::<17>(),
    toy::<18>(),
    toy::<19>(),
    toy::<20>(),
    toy::<21>(),
    toy::<22>(),
    toy::<23>(),
    toy::<24>(),
    toy::<25>(),
    toy::<26>(),
    toy::<27>(),
    toy::<28>(),
    toy::<29>(),
    toy::<30>(),
    toy::<31>(),
    toy::<32>(),
    toy::<33>(),
];

/// Counts all toys ever made: global state, which no scheduler may use.
static MADE: AtomicU64 = AtomicU64::new(0);

struct Toy {
    fault: Fault,
    leaf: Vec<bool>,
    limits: Vec<QueueLimits>,
    queues: Vec<VecDeque<Packet>>,
    max_packet: u32,
    max_queued: usize,
    turn: usize,
    dequeues: u64,
    lost: Amount,
    number: u64,
    /// A class sends no faster than its own ceiling, those above it are left alone.
    ceilings: Vec<Option<Rate>>,
    free_at: Vec<Nanos>,
    now: Nanos,
}

impl Toy {
    fn new(tree: &Hierarchy, fault: Fault) -> Self {
        let ids = || (0..tree.len()).map(|id| ClassId(id as u32));
        let link = tree.link();
        Self {
            fault,
            leaf: ids().map(|id| tree.is_leaf(id)).collect(),
            limits: ids().map(|id| tree.config(id).limits).collect(),
            queues: ids().map(|_| VecDeque::with_capacity(link.max_queued as usize)).collect(),
            max_packet: link.max_packet,
            max_queued: link.max_queued as usize,
            turn: 0,
            dequeues: 0,
            lost: Amount::default(),
            number: MADE.fetch_add(1, Ordering::Relaxed),
            ceilings: ids().map(|id| tree.config(id).ceiling).collect(),
            free_at: vec![Nanos::ZERO; tree.len()],
            now: Nanos::ZERO,
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// Returns true if it is time for a fault that shows now and then.
    fn now_and_then(&self, fault: Fault) -> bool {
        self.is(fault) && self.dequeues % 5 == 4
    }

    fn refusal(&self, packet: &Packet) -> Option<DropReason> {
        let class = packet.class.index();
        let bytes: u64 = self.queues.get(class)?.iter().map(|queued| u64::from(queued.len)).sum();
        if packet.len > self.max_packet {
            Some(DropReason::TooLong)
        } else if self.queues[class].len() >= self.limits[class].packets as usize {
            Some(DropReason::QueuePackets)
        } else if bytes + u64::from(packet.len) > u64::from(self.limits[class].bytes) {
            Some(DropReason::QueueBytes)
        } else if self.queues.iter().map(VecDeque::len).sum::<usize>() >= self.max_queued {
            Some(DropReason::TotalPackets)
        } else {
            None
        }
    }

    fn next(&mut self) -> Option<Packet> {
        let classes = self.queues.len();
        let first = if self.is(Fault::Starves) { 0 } else { self.turn };
        let ready = |class: &usize| !self.queues[*class].is_empty() && self.free_at[*class] <= self.now;
        let class = (0..classes).map(|step| (first + step) % classes).find(ready)?;
        let packet = self.queues[class].pop_front();
        if let (Some(rate), Some(packet)) = (self.ceilings[class], &packet) {
            self.free_at[class] = self.now.saturating_add(rate.time_for(packet.len));
        }
        self.turn = class + 1;
        if self.is(Fault::ForgetsWhoEmptied) && self.queues[class].is_empty() {
            // The class before it, which is backlogged forever, takes its place in the list.
            self.turn = class.saturating_sub(2);
        }
        packet
    }
}

impl Scheduler for Toy {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let class = packet.class.index();
        let takes = self.leaf.get(class).is_some_and(|&leaf| leaf || self.is(Fault::TakesForAnInnerClass));
        let refusal = if takes { self.refusal(&packet) } else { Some(DropReason::NotALeaf) };
        match refusal {
            Some(DropReason::QueuePackets) if self.is(Fault::TakesMoreThanTheLimit) => {
                self.queues[class].push_back(packet)
            }
            Some(DropReason::TooLong) if self.is(Fault::NamesTheWrongReason) => {
                drops.dropped(now, packet, DropReason::QueueBytes);
            }
            Some(reason) => drops.dropped(now, packet, reason),
            None if self.now_and_then(Fault::DropsForNoReason) => drops.dropped(now, packet, DropReason::Congestion),
            None if self.is(Fault::Reorders) && self.dequeues % 5 == 4 => self.queues[class].push_front(packet),
            None => self.queues[class].push_back(packet),
        }
    }

    fn dequeue(&mut self, now: Nanos, _drops: &mut dyn DropSink) -> Dequeued {
        self.dequeues += 1;
        self.now = self.now.max(now);
        let waiting = (0..self.queues.len()).filter(|&class| !self.queues[class].is_empty());
        let ready_at = waiting.map(|class| self.free_at[class]);
        let ready_at = if self.is(Fault::WaitsWhileAnotherMaySend) { ready_at.max() } else { ready_at.min() };
        if let Some(t) = ready_at.filter(|&t| t > self.now) {
            return Dequeued::WaitUntil(match self.fault {
                Fault::WaitsTooLong => t.saturating_add(Nanos(5)),
                Fault::WaitsInSmallSteps => self.now.saturating_add(Nanos(1)),
                _ => t,
            });
        }
        let backlogged = self.queues.iter().any(|queue| !queue.is_empty());
        if backlogged && self.now_and_then(Fault::IdlesWithBacklog) {
            return Dequeued::Idle;
        }
        if backlogged && self.now_and_then(Fault::WaitsForNothing) {
            return Dequeued::WaitUntil(Nanos(now.0 + 1));
        }
        if backlogged && self.now_and_then(Fault::WaitsForThePast) {
            return Dequeued::WaitUntil(now);
        }
        if (self.now_and_then(Fault::LosesAPacket) || self.now_and_then(Fault::LosesAPacketAndLies))
            && let Some(packet) = self.next()
        {
            self.lost.packets += 1;
            self.lost.bytes += u64::from(packet.len);
        }
        if self.is(Fault::TellsRunsApart) && self.number % 2 == 1 {
            self.turn += 1;
        }
        if self.is(Fault::Allocates) {
            drop(std::hint::black_box(Box::new(now)));
        }
        match self.next() {
            Some(Packet { handle, len, class }) if self.is(Fault::ChangesALength) && len > 1400 => {
                Dequeued::Packet(Packet { handle, len: 1400, class })
            }
            Some(Packet { handle, len, class }) if self.now_and_then(Fault::ChangesAClass) => {
                Dequeued::Packet(Packet { handle, len, class: ClassId(class.0 ^ 1) })
            }
            Some(packet) => Dequeued::Packet(packet),
            None if self.now_and_then(Fault::InventsAPacket) => {
                Dequeued::Packet(Packet { handle: 1 << 40, len: 100, class: ClassId(1) })
            }
            None => Dequeued::Idle,
        }
    }

    fn backlog(&self) -> Amount {
        let mut all = if self.is(Fault::LosesAPacketAndLies) { self.lost } else { Amount::default() };
        for packet in self.queues.iter().flatten() {
            all.packets += 1;
            all.bytes += u64::from(packet.len);
        }
        if self.is(Fault::MiscountsBytes) {
            all.bytes = all.bytes.min(9_000);
        }
        all
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        let Some(queue) = self.queues.get(class.index()) else {
            let one = u64::from(self.is(Fault::KnowsEveryClass));
            return Amount { packets: one, bytes: one };
        };
        let packets = queue.len() as u64;
        let packets = if self.is(Fault::MiscountsAClass) { packets.min(3) } else { packets };
        Amount { packets, bytes: queue.iter().map(|packet| u64::from(packet.len)).sum() }
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        let keep = usize::from(self.is(Fault::PurgeKeepsOne));
        for queue in &mut self.queues {
            while queue.len() > keep {
                let packet = if self.fault == Fault::PurgeInReverse { queue.pop_back() } else { queue.pop_front() };
                packet.into_iter().for_each(|packet| drops.dropped(now, packet, DropReason::Purged));
            }
        }
        if !self.is(Fault::KeepsItsDebtThroughAPurge) {
            self.free_at.fill(Nanos::ZERO);
        }
        if !self.is(Fault::PurgeRemembers) {
            self.turn = 0;
            self.dequeues = 0;
        }
    }

    fn dequeue_batch(
        &mut self,
        now: Nanos,
        max_packets: usize,
        max_bytes: u64,
        out: &mut Vec<Packet>,
        drops: &mut dyn DropSink,
    ) -> BatchEnd {
        if self.is(Fault::BatchInAnotherOrder) {
            self.turn = 0;
        }
        let max_packets = max_packets + usize::from(self.is(Fault::BatchBeyondTheBudget));
        let mut bytes = 0;
        for count in 0..max_packets {
            if bytes >= max_bytes || (count == 7 && self.is(Fault::BatchEndsEarly)) {
                break;
            }
            match self.dequeue(now, drops) {
                Dequeued::Packet(packet) => {
                    bytes += u64::from(packet.len);
                    out.push(packet);
                }
                Dequeued::WaitUntil(t) => return BatchEnd::WaitUntil(t),
                Dequeued::Idle => return BatchEnd::Idle,
            }
        }
        BatchEnd::Full
    }

    fn check_invariants(&self) -> Result<(), String> {
        if self.is(Fault::BreaksItsInvariant) && self.dequeues > 3 {
            return Err(format!("more than 3 calls: {}", self.dequeues));
        }
        Ok(())
    }
}
