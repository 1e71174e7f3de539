//! Workers of a shared tree (feature `shared`) in the suite: one on a tree of its own, and two driven in turn.
//!
//! Three checks of the suite do not apply. Batches are not equal to single calls, because a queue that leaves out of
//! turn needs room for all of it. A purge empties the queues of a worker, and not the network interface or the
//! virtual times, which others use. No worker takes other parameters.

use std::sync::Arc;

use fairlink_core::{
    Amount, BatchEnd, BuildError, ClassConfig, ClassId, Dequeued, DropReason, DropSink, Feature, Hierarchy, Leniency,
    LinkConfig, Members, Nanos, Packet, Promises, Rate, Scheduler, SchedulerInfo, Share, SharedConfig, SharedError,
    SharedTree, Sharing, TransmitQueue, WorkConserving, Worker,
};

use crate::checks::CHECKS;
use crate::holds;

/// The checks that apply.
const APPLY: [&str; 5] = ["operations", "same_twice", "a_refused_change_changes_nothing", "liveness", "no_allocation"];

type Build = fn(&Hierarchy, Members) -> Result<Box<dyn Scheduler>, BuildError>;

const fn info(name: &'static str, build: Build) -> SchedulerInfo {
    SchedulerInfo {
        name,
        aliases: &[],
        paper: "",
        summary: "workers of a shared tree",
        features: &[Feature::Hierarchy, Feature::ActiveQueue, Feature::Ceiling, Feature::CeilingBurst],
        // It may wait for the network interface.
        work_conserving: WorkConserving::Never,
        cost: "O(1)",
        sharing: Sharing::Unknown("workers"),
        promises: Promises::NONE,
        memory: |tree| SharedTree::memory_for(tree) + Worker::memory_for(tree),
        build,
    }
}

static ONE: SchedulerInfo = info("a worker", |tree, _| Ok(Box::new(InTurn::new(tree, 1)?)));
static TWO: SchedulerInfo = info("two workers", |tree, _| Ok(Box::new(InTurn::new(tree, 2)?)));

/// Workers of one tree as one scheduler. Each leaf has packets on one of them; each call is that of the next worker.
struct InTurn {
    shared: Arc<SharedTree>,
    workers: Vec<Worker>,
    turn: usize,
    /// Its caller waits until then, as it was told. A worker that is asked before may have packets, because others may
    /// have moved the virtual times or sent less than they could.
    until: Nanos,
    now: Nanos,
    /// Room for one packet.
    single: Vec<Packet>,
}

impl InTurn {
    fn new(tree: &Hierarchy, workers: usize) -> Result<Self, BuildError> {
        let refused = |error| match error {
            SharedError::OutOfMemory { bytes } => BuildError::OutOfMemory { bytes },
            other => panic!("{other}"),
        };
        // In packets, as the patience of `liveness` is, whatever the rate.
        let packets = |count| count * u64::from(tree.link().max_packet);
        let config = SharedConfig { mark: packets(8), credit: packets(8), stored: packets(8), ahead: packets(4) };
        let shared = SharedTree::new(tree.clone(), config).map_err(refused)?;
        let workers = (0..workers).map(|_| shared.worker()).collect::<Result<_, _>>().map_err(refused)?;
        Ok(Self { shared, workers, turn: 0, until: Nanos::ZERO, now: Nanos::ZERO, single: Vec::with_capacity(1) })
    }

    fn worker_of(&mut self, class: ClassId) -> &mut Worker {
        let at = class.index() % self.workers.len();
        &mut self.workers[at]
    }
}

impl Scheduler for InTurn {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.until = Nanos::ZERO;
        let tree = self.shared.hierarchy();
        // The limit of the link is one of each worker. The suite expects one limit.
        let is_full = self.backlog().packets >= u64::from(tree.link().max_queued);
        if is_full && tree.is_leaf(packet.class) && packet.len <= tree.link().max_packet {
            drops.dropped(now, packet, DropReason::TotalPackets);
        } else {
            self.worker_of(packet.class).enqueue(now, packet, drops);
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        let mut out = std::mem::take(&mut self.single);
        let end = self.dequeue_batch(now, 1, u64::MAX, &mut out, drops);
        let packet = out.pop();
        self.single = out;
        match (packet, end) {
            (Some(packet), _) => Dequeued::Packet(packet),
            (None, BatchEnd::WaitUntil(at)) => Dequeued::WaitUntil(at),
            (None, BatchEnd::Idle) => Dequeued::Idle,
            (None, BatchEnd::Full) => panic!("a call that was full without a packet"),
        }
    }

    fn backlog(&self) -> Amount {
        let of = |count: fn(Amount) -> u64| self.workers.iter().map(|worker| count(worker.backlog())).sum();
        Amount { packets: of(|amount| amount.packets), bytes: of(|amount| amount.bytes) }
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.workers[class.index() % self.workers.len()].class_backlog(class)
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.until = Nanos::ZERO;
        self.workers.iter_mut().for_each(|worker| worker.purge(now, drops));
    }

    fn dequeue_batch(
        &mut self,
        now: Nanos,
        max_packets: usize,
        max_bytes: u64,
        out: &mut Vec<Packet>,
        drops: &mut dyn DropSink,
    ) -> BatchEnd {
        self.now = self.now.max(now);
        if max_packets == 0 || max_bytes == 0 {
            return BatchEnd::Full;
        }
        let (mut bytes, before) = (0, out.len());
        let mut until = self.until;
        if self.now >= self.until {
            until = Nanos::MAX;
            let count = self.workers.len();
            for _ in 0..count {
                let (left, from) = (max_packets - (out.len() - before), out.len());
                let worker = &mut self.workers[self.turn];
                self.turn = (self.turn + 1) % count;
                let end = worker.dequeue_batch(now, left, max_bytes - bytes, out, drops);
                bytes += out[from..].iter().map(|packet| u64::from(packet.len)).sum::<u64>();
                match end {
                    BatchEnd::Full => return BatchEnd::Full,
                    BatchEnd::WaitUntil(at) => until = until.min(at),
                    BatchEnd::Idle => {}
                }
            }
        }
        // A worker also waits for leaves without packets that owe.
        if self.backlog().packets == 0 {
            return BatchEnd::Idle;
        }
        self.until = until;
        BatchEnd::WaitUntil(until)
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.shared.check_invariants()
    }
}

#[test]
fn one_worker_and_two_in_turn_keep_the_contract() {
    for name in APPLY {
        let check = CHECKS.iter().find(|(known, _)| *known == name).expect("a check").1;
        for info in [&ONE, &TWO] {
            holds(info, name, check);
        }
    }
}

/// A worker has packets and no credit, and less than half of `mark` stands in the interface. It sends in one of its next
/// calls, of which each may move R again after the time in which the link carries a 128th of `mark`. But for 0.2 % of the
/// time it does so before the link has carried what stands there: no packet waits beside a link that stands still.
#[test]
fn a_worker_with_packets_sends_while_the_interface_has_little() {
    let link = LinkConfig::new(Rate::from_bps(1_000_000_000).unwrap());
    let mut tree = Hierarchy::builder(link);
    let mut add = |parent, weight| {
        tree.add(parent, ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() }).unwrap()
    };
    let class = add(ClassId::ROOT, 1);
    let leaves = [add(ClassId::ROOT, 1), add(class, 1), add(class, 5)];
    let config = SharedConfig { mark: 40_000, credit: 40_000, stored: 40_000, ahead: 3000 };
    let shared = SharedTree::new(tree.build().unwrap(), config).unwrap();
    let mut workers = [shared.worker().unwrap(), shared.worker().unwrap()];
    // A little more comes than the link carries.
    let mut drops = |_: Nanos, _: Packet, _: DropReason| {};
    let (step, mut idle) = (link.rate.time_for_bytes(config.mark / 128), Nanos::ZERO);
    let (mut now, mut random, mut starved) = (Nanos(1), 1u64, 0);
    let mut out = Vec::with_capacity(64);
    for handle in 0..200_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let of = |shift: u64, limit: u64| ((random >> shift & 0xff) * limit) >> 8;
        now = now.saturating_add(Nanos(of(32, 30_000)));
        // The second core is late.
        let worker = &mut workers[usize::from(of(40, 16) == 0)];
        for _ in 0..of(52, 6) {
            let len = 64 + of(24, 1400) as u32;
            worker.enqueue(now, Packet { handle, len, class: leaves[of(48, 3) as usize] }, &mut drops);
        }
        let mut sends = |now: Nanos| {
            let _ = worker.dequeue_batch(now, 64, u64::MAX, &mut out, &mut drops);
            (out.drain(..).count(), worker.backlog().packets)
        };
        let (mut sent, left) = sends(now);
        if left > 0 && sent < 64 && shared.unsent() < config.mark / 2 {
            starved += 1;
            let (began, stands) = (now, link.rate.time_for_bytes(shared.unsent()));
            // Each moves R by more than half of `mark`, of which the least leaf gets a twelfth.
            for _ in 1..20 {
                now = now.saturating_add(step);
                sent = sends(now).0;
                if sent > 0 {
                    break;
                }
            }
            assert!(sent > 0, "{left} packets wait from {began} to {now}");
            idle += now.saturating_sub(began).saturating_sub(stands);
        }
    }
    assert!(starved > 50, "{starved} times");
    println!("{starved} times, idle for {idle} of {now}");
    assert!(idle.0 * 1000 <= now.0 * 2, "the link stood still for {idle} of {now}");
}

/// A leaf that comes and goes, in a class of its own, beside one whose packets are the whole room of each call. It
/// waits for no more than Theorem V allows (`docs/cores.md`).
#[test]
fn a_class_is_visited_beside_one_that_fills_each_call() {
    let queue = TransmitQueue { packets: 1, priority: false };
    let link = LinkConfig { transmit_queue: Some(queue), ..LinkConfig::new(Rate::from_bps(1_000_000).unwrap()) };
    let mut tree = Hierarchy::builder(link);
    let mut add = |parent, weight| {
        tree.add(parent, ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() }).unwrap()
    };
    let above = add(ClassId::ROOT, 1);
    let (class, busy) = (add(above, 2), add(above, 3));
    let visitor = add(class, 1);
    let mut scheduler = ONE.build(&tree.build().unwrap(), Leniency::Refuse, Members::new()).unwrap();
    let mut drops = |_: Nanos, packet: Packet, why: DropReason| panic!("{packet:?}: {why:?}");
    // (credit + Lambda) (1 / 2 + 1 / 3), times the weight of the busy leaf: 8 packets of credit, 14 of debt.
    let most = (8 + 14) * 1500 * 5 / 2;
    let (mut now, mut waits) = (Nanos(1), 0u64);
    for handle in 0..20_000u64 {
        for (class, len, count) in [(busy, 1500 - handle * 7 % 1400, 2), (visitor, handle * 13 % 1500, 1)] {
            if scheduler.class_backlog(class).packets < count {
                scheduler.enqueue(now, Packet { handle, len: len as u32, class }, &mut drops);
            }
        }
        let packet = loop {
            match scheduler.dequeue(now, &mut drops) {
                Dequeued::Packet(packet) => break packet,
                Dequeued::WaitUntil(at) => now = at,
                Dequeued::Idle => panic!("idle"),
            }
        };
        now = now.saturating_add(link.rate.time_for(packet.len));
        waits = if packet.class == visitor { 0 } else { waits + u64::from(packet.len) };
        assert!(waits <= most, "{waits} B of the busy leaf in a row");
    }
}
