use std::boxed::Box;
use std::collections::VecDeque;
use std::println;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::contract::{
    Amount, ClassConfig, ClassId, Dequeued, Hierarchy, Leniency, LinkConfig, Members, QueueLimits, Rate, Share,
    flow_bits,
};
use crate::runtime::driver::Pacer;
use crate::runtime::registry;
use crate::test_link::never;

type Never = fn(Nanos, Packet, DropReason);
type Hash = fn(&Packet) -> u32;

/// The upper half of the handle; the lower half numbers the packets of a flow.
fn flow(packet: &Packet) -> u32 {
    (packet.handle >> 32) as u32
}

fn packet(flow: u32, number: u32) -> Packet {
    Packet { handle: flow_bits(flow) | u64::from(number), len: 1000, class: ClassId(1) }
}

/// Producers of receive rings, a port of all rings, and consumers of transmit rings.
type Rings = (Vec<Producer<Packet>>, HubPort<Hash, Never>, Vec<Consumer<Packet>>);

/// A port with so many rings of each kind, and their other ends.
fn port(receive: usize, transmit: usize, slots: usize) -> Rings {
    let (producers, from): (Vec<_>, Vec<_>) = (0..receive).map(|_| ring(slots)).unzip();
    let (to, consumers): (Vec<_>, Vec<_>) = (0..transmit).map(|_| ring(slots)).unzip();
    (producers, HubPort::new(from, to, flow as Hash, never as Never).unwrap(), consumers)
}

/// Everything that the intake takes, with batches of `room`.
fn take_all(port: &mut HubPort<Hash, Never>, room: usize) -> Vec<(u32, u32)> {
    let (mut all, mut batch) = (Vec::new(), Vec::with_capacity(room));
    loop {
        port.receive(Nanos::ZERO, &mut batch);
        assert!(batch.capacity() == room, "the batch has grown");
        if batch.is_empty() {
            return all;
        }
        all.extend(batch.drain(..).map(|packet| (flow(&packet), packet.handle as u32)));
    }
}

fn push(ring: &mut Producer<Packet>, packets: &[(u32, u32)]) {
    packets.iter().for_each(|&(flow, number)| ring.push(packet(flow, number)).unwrap());
}

#[test]
fn rings_have_their_turns_and_a_part_is_not_divided() {
    let (mut producers, mut port, _consumers) = port(3, 1, 256);
    let numbers = |flow: u32, count: u32| (0..count).map(|number| (flow, number)).collect::<Vec<_>>();
    for (ring, count) in [(0, 40), (1, 5), (2, 40)] {
        push(&mut producers[ring as usize], &numbers(ring, count));
    }
    let mut batch = Vec::with_capacity(64);
    let mut counts = |port: &mut HubPort<Hash, Never>| {
        port.receive(Nanos::ZERO, &mut batch);
        let mut counts = [0; 3];
        batch.drain(..).for_each(|packet| counts[flow(&packet) as usize] += 1);
        counts
    };
    assert_eq!(counts(&mut port), [32, 5, 0]);
    assert_eq!(counts(&mut port), [8, 0, 32]);
    assert_eq!(counts(&mut port), [0, 0, 8]);
}

#[test]
fn a_packet_is_taken_within_the_turns_that_its_bound_counts() {
    for rings in 1..=20 {
        let (mut producers, mut port, _consumers) = port(rings, 1, 256);
        let mut batch = Vec::with_capacity(BATCH);
        // All rings are full to their parts at all times. Ring 0 has just been looked at when its packet comes.
        let fill = |producers: &mut [Producer<Packet>], first: usize| {
            for (ring, producer) in producers.iter_mut().enumerate().skip(first) {
                while producer.slots() > 256 - PART {
                    producer.push(packet(ring as u32 + 1000, 0)).unwrap();
                }
            }
        };
        fill(&mut producers, 0);
        port.receive(Nanos::ZERO, &mut batch);
        push(&mut producers[0], &[(7, 0)]);
        let mut turns = 0;
        while !batch.iter().any(|packet| flow(packet) == 7) {
            batch.clear();
            fill(&mut producers, 1);
            port.receive(Nanos::ZERO, &mut batch);
            turns += 1;
        }
        // The last turn of the bound is the one that sends it.
        assert!(turns * BATCH as u64 <= turnaround(rings) - BATCH as u64, "{rings} rings: {turns} turns");
    }
}

#[test]
fn a_flow_that_moves_is_taken_from_its_old_ring_first() {
    let (mut producers, mut port, _consumers) = port(3, 1, 256);
    push(&mut producers[2], &[(9, 0)]);
    assert_eq!(take_all(&mut port, 64), [(9, 0)]);
    push(&mut producers[2], &[(1, 0), (9, 1), (1, 1), (9, 2)]);
    push(&mut producers[0], &[(9, 3), (9, 4)]);
    let all = take_all(&mut port, 64);
    assert_eq!(all, [(1, 0), (9, 1), (1, 1), (9, 2), (9, 3), (9, 4)]);
    assert_eq!(port.unordered(), 0);
}

#[test]
fn moves_in_a_circle_are_in_order() {
    // Group 1 moves from ring 0 to ring 1, 2 from 1 to 2, 3 from 2 to 0. Each ring has the new group first, so that
    // each waits for the next one to be empty.
    let (mut producers, mut port, _consumers) = port(3, 1, 256);
    (0..3).for_each(|at| push(&mut producers[at as usize], &[(at + 1, 0)]));
    take_all(&mut port, 64);
    push(&mut producers[0], &[(1, 1)]);
    push(&mut producers[1], &[(1, 2), (2, 1)]);
    push(&mut producers[2], &[(2, 2), (3, 1)]);
    push(&mut producers[0], &[(3, 2), (7, 0)]);
    // The packet that was first leaves, and what is left waits in a circle.
    let all = take_all(&mut port, 64);
    for group in 1..4 {
        let numbers: Vec<u32> = all.iter().filter(|&&(of, _)| of == group).map(|&(_, number)| number).collect();
        assert_eq!(numbers, [1, 2], "{group}: {all:?}");
    }
    assert_eq!((all.len(), port.unordered()), (7, 0));
}

#[test]
fn stale_waits_in_a_circle_end() {
    // Each ring has a packet of a group that was in the other one, where nothing of it is left.
    let (mut producers, mut port, _consumers) = port(2, 1, 256);
    push(&mut producers[0], &[(1, 0)]);
    push(&mut producers[1], &[(2, 0)]);
    take_all(&mut port, 64);
    push(&mut producers[0], &[(2, 1)]);
    push(&mut producers[1], &[(1, 1)]);
    assert_eq!(take_all(&mut port, 64).len(), 2);
    assert_eq!(port.unordered(), 0);
}

#[test]
fn two_moves_without_a_packet_taken_between_them_are_beyond_the_guarantee() {
    let (mut producers, mut port, _consumers) = port(2, 1, 256);
    push(&mut producers[1], &[(5, 0)]);
    take_all(&mut port, 64);
    // To ring 0 and back: nothing says that 1 was before 2.
    push(&mut producers[0], &[(5, 1)]);
    push(&mut producers[1], &[(5, 2)]);
    assert_eq!(take_all(&mut port, 64), [(5, 2), (5, 1)]);
    // Both rings at once, against condition 2: all packets are taken even so.
    push(&mut producers[0], &[(6, 0), (7, 0)]);
    push(&mut producers[1], &[(7, 1), (6, 1)]);
    take_all(&mut port, 1);
    push(&mut producers[0], &[(7, 2), (6, 2)]);
    push(&mut producers[1], &[(6, 3), (7, 3)]);
    assert_eq!(take_all(&mut port, 64).len(), 4);
}

/// A run of an interface that moves groups of flows between rings, under the conditions of [`FlowOrder`].
fn moving(rings: usize, steps: &[(u8, u8, u8)], slots: usize, batch_room: usize) {
    const GROUPS: usize = 12;
    let (mut producers, mut port, _consumers) = port(rings, 1, slots);
    let mut homes = [0; GROUPS];
    let (mut pushed, mut run, mut taken) = ([0u32; GROUPS], [0u32; GROUPS], [0u32; GROUPS]);
    let mut batch = Vec::with_capacity(batch_room);
    let mut check = |port: &mut HubPort<Hash, Never>, taken: &mut [u32; GROUPS]| {
        port.receive(Nanos::ZERO, &mut batch);
        let count = batch.len();
        for packet in batch.drain(..) {
            let group = flow(&packet) as usize;
            assert_eq!(packet.handle as u32, taken[group], "group {group}");
            taken[group] += 1;
        }
        count
    };
    for &(what, group, to) in steps {
        let (group, to) = (usize::from(group) % GROUPS, usize::from(to) % rings);
        match what % 8 {
            0 => {
                check(&mut port, &mut taken);
            }
            1 if taken[group] > run[group] => {
                (homes[group], run[group]) = (to, pushed[group]);
            }
            _ => {
                if producers[homes[group]].push(packet(group as u32, pushed[group])).is_ok() {
                    pushed[group] += 1;
                }
            }
        }
    }
    while check(&mut port, &mut taken) > 0 {}
    assert_eq!((taken, port.unordered()), (pushed, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn flows_are_in_order_when_groups_move(
        rings in 1usize..6,
        steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..600),
        slots in 1usize..64,
        room in 1usize..65,
    ) {
        moving(rings, &steps, slots, room);
    }
}

/// Eight leaves in three classes, with room for all packets of a test.
fn tree(rate: Rate) -> Hierarchy {
    let limits = QueueLimits { packets: 1 << 20, bytes: u32::MAX };
    let weight = |weight| ClassConfig { share: Some(Share::Weight(weight)), limits, ..ClassConfig::default() };
    let mut tree = Hierarchy::builder(LinkConfig { max_queued: 1 << 20, ..LinkConfig::new(rate) });
    let inner = [1, 2, 4].map(|of| tree.add(ClassId::ROOT, weight(of)).unwrap());
    for leaf in 0..8 {
        tree.add(inner[leaf % 3], weight(1 + leaf as u64 % 4)).unwrap();
    }
    tree.build().unwrap()
}

/// The leaf of a flow.
fn leaf(tree: &Hierarchy, flow: u32) -> ClassId {
    tree.leaves()[flow as usize % tree.leaves().len()]
}

/// Arrivals at once, and what left.
#[derive(Default)]
struct Plain {
    arrivals: VecDeque<Packet>,
    left: Vec<(u64, Nanos)>,
}

impl DropSink for Plain {
    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason) {
        never(now, packet, reason);
    }
}

impl Port for Plain {
    fn receive(&mut self, _: Nanos, batch: &mut Vec<Packet>) {
        batch.extend(self.arrivals.drain(..));
    }

    fn transmit(&mut self, now: Nanos, packet: Packet, _: Nanos) {
        self.left.push((packet.handle, now));
    }

    fn flush(&mut self, _: Nanos) {}
}

#[test]
fn packets_leave_in_the_order_of_a_driver_without_rings() {
    let mut tried = 0;
    for info in registry::SCHEDULERS {
        let rate = Rate::from_bps(1_000_000_000).unwrap();
        // The tree with classes, or a flat one for schedulers of flows.
        let flat = crate::test_link::flat((0..8).map(|leaf| crate::test_link::weighted(1 + leaf % 4)));
        let Some(tree) = [tree(rate), flat].into_iter().find(|tree| info.unsupported(tree).next().is_none()) else {
            continue;
        };
        tried += 1;
        let driver = || {
            let scheduler = info.build(&tree, Leniency::Refuse, Members::new()).unwrap();
            Driver::new(scheduler, Pacer::new(rate, Nanos(20_000))).unwrap()
        };
        let (mut hub, mut plain) = (driver(), driver());
        let (mut producers, mut port, mut consumers) = port(4, 1, 4096);
        let (mut reference, mut left) = (Plain::default(), Vec::new());
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        let (mut now, mut number) = (Nanos::ZERO, 0);
        for turn in 0..6_000u32 {
            // A burst is in one ring, so that its order is that in which it came.
            let ring = below(4) as usize;
            // 12 us a packet, so that queues grow, and none come at the end.
            for _ in 0..if turn < 4_000 { below(3) } else { 0 } {
                let of = ring as u32 + 4 * below(64) as u32;
                let len = 64 + below(1_437) as u32;
                let make = || Packet { len, class: leaf(&tree, of / 4), ..packet(of, number) };
                producers[ring].push(make()).unwrap();
                reference.arrivals.push_back(make());
                number += 1;
            }
            let wake = port.turn(now, &mut hub);
            assert_eq!(wake, plain.turn(now, &mut reference), "{}", info.name);
            while let Ok(packet) = consumers[0].pop() {
                left.push((packet.handle, now));
            }
            now = now.saturating_add(Nanos(below(12_000)));
        }
        assert!(!left.is_empty() && left == reference.left, "{}", info.name);
        assert_eq!(hub.scheduler().backlog(), plain.scheduler().backlog());
    }
    assert!(tried >= 10, "{tried} schedulers");
}

#[test]
fn a_full_transmit_ring_stops_dequeuing_and_loses_nothing() {
    let flat = crate::test_link::flat([crate::test_link::weighted(1)]);
    let drr = registry::find("drr").unwrap().build(&flat, Leniency::Refuse, Members::new()).unwrap();
    let mut driver = Driver::new(drr, Pacer::new(Rate::MAX, Nanos(1_000_000))).unwrap();
    let (mut producers, mut port, mut consumers) = port(1, 2, 16);
    let (mut pushed, mut got, mut now) = (0, Vec::new(), Nanos(1_000_000));
    let mut stopped = 0;
    while got.len() < 1_000 {
        while pushed < 1_000 && producers[0].push(packet(pushed % 7, pushed)).is_ok() {
            pushed += 1;
        }
        let (queued, taken, stood) = (driver.scheduler().backlog().packets, port.taken(), port.waiting());
        let _ = port.turn(now, &mut driver);
        now = now.saturating_add(Nanos(1_000));
        let dequeued = queued + port.taken() - taken - driver.scheduler().backlog().packets;
        // What was dequeued came when none waited, so that all that waits now is part of it.
        assert!(port.waiting() <= BATCH && (dequeued == 0 || port.waiting() as u64 <= dequeued));
        stopped += u32::from(stood > 0 && dequeued == 0);
        // One at a time, from both rings.
        got.extend(consumers.iter_mut().filter_map(|ring| ring.pop().ok()));
    }
    assert!(stopped > 100, "{stopped}");
    let mut numbers: Vec<u32> = got.iter().map(|packet| packet.handle as u32).collect();
    for of in 0..7 {
        let flow: Vec<u32> = numbers.iter().copied().filter(|number| number % 7 == of).collect();
        assert!(flow.is_sorted(), "flow {of}");
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..1_000));
}

#[test]
fn a_port_without_rings_or_with_too_many_is_refused() {
    let make = |receive: usize, transmit: usize| {
        let from = (0..receive).map(|_| ring(1).1).collect();
        let to = (0..transmit).map(|_| ring(1).0).collect();
        HubPort::new(from, to, flow as Hash, never as Never).map(|_| ()).map_err(|error| std::format!("{error}"))
    };
    for (receive, transmit, count) in [(0, 1, 0), (1, 0, 0), (256, 1, 256), (1, 300, 300)] {
        assert_eq!(make(receive, transmit), Err(std::format!("{count} rings; a hub has 1 to 255 of each kind")));
    }
    assert_eq!(make(255, 255), Ok(()));
}

/// Number of groups of flows in the run with threads.
const GROUPS: usize = 240;
/// Packets between producers and consumer in that run.
const WINDOW: u64 = 65_536;

/// A group of flows, whose packets are pushed by the thread of its ring.
struct Group {
    /// Its receive ring. Handed over with release and acquire, and with it `pushed` and `run`.
    ring: AtomicU32,
    pushed: AtomicU32,
    /// Number of its first packet in this ring.
    run: AtomicU32,
    /// Packets that the hub has taken.
    taken: AtomicU32,
}

/// A scheduler that checks the numbers of what comes.
struct Watched {
    inner: Box<dyn Scheduler>,
    groups: Arc<[Group]>,
}

impl Scheduler for Watched {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let group = &self.groups[flow(&packet) as usize];
        let next = group.taken.load(Ordering::Relaxed);
        assert_eq!(packet.handle as u32, next, "flow {} at the intake", flow(&packet));
        group.taken.store(next + 1, Ordering::Relaxed);
        self.inner.enqueue(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.inner.dequeue(now, drops)
    }

    fn backlog(&self) -> Amount {
        self.inner.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.inner.class_backlog(class)
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.inner.purge(now, drops);
    }
}

/// Pushes its groups' packets into its rings, and moves groups to other rings, until `packets` were pushed by all.
fn produce(
    mut rings: Vec<(u32, Producer<Packet>)>,
    all_rings: u32,
    groups: &[Group],
    leaves: &[ClassId],
    packets: u64,
    [pushed, sent]: [&AtomicU64; 2],
) -> u64 {
    let mut random = 0x9e37_79b9u32 ^ rings[0].0.wrapping_mul(0x85eb_ca6b);
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        random
    };
    let mut moves = 0;
    loop {
        let total = pushed.load(Ordering::Relaxed);
        if total >= packets {
            return moves;
        }
        if total >= sent.load(Ordering::Relaxed) + WINDOW {
            thread::yield_now();
            continue;
        }
        let mut count = 0;
        // In some rounds most groups move, as when an interface gets another number of rings.
        let one_in = if next() % 256 == 0 { 2 } else { 512 };
        for (number, group) in groups.iter().enumerate() {
            let at = group.ring.load(Ordering::Acquire);
            let Some((_, ring)) = rings.iter_mut().find(|(ring, _)| *ring == at) else { continue };
            let of = group.pushed.load(Ordering::Relaxed);
            let run = group.run.load(Ordering::Relaxed);
            if next() % one_in == 0 && group.taken.load(Ordering::Relaxed) > run {
                group.run.store(of, Ordering::Relaxed);
                group.ring.store(next() % all_rings, Ordering::Release);
                moves += 1;
                continue;
            }
            let class = leaves[number % leaves.len()];
            if ring.push(Packet { class, ..packet(number as u32, of) }).is_ok() {
                group.pushed.store(of + 1, Ordering::Relaxed);
                count += 1;
            }
        }
        pushed.fetch_add(count, Ordering::Relaxed);
        if count == 0 {
            thread::yield_now();
        }
    }
}

/// At least a number of packets through a hub with 16 receive rings of several threads, while groups of flows move.
/// Checks the order of each flow at the intake and at the consumer. `FAIRLINK_HUB_PACKETS` sets the number.
#[test]
fn no_packet_is_lost_doubled_or_out_of_order_on_threads() {
    let packets = std::env::var("FAIRLINK_HUB_PACKETS")
        .map_or(3_000_000, |packets| packets.parse().expect("a number of packets"));
    const RINGS: u32 = 16;
    let tree = tree(Rate::MAX);
    // Not `hls`, which records its visits in unit tests.
    let hvt = registry::find("hvt").unwrap().build(&tree, Leniency::Refuse, Members::new()).unwrap();
    let groups: Arc<[Group]> = (0..GROUPS)
        .map(|group| Group {
            ring: AtomicU32::new(group as u32 % RINGS),
            pushed: AtomicU32::new(0),
            run: AtomicU32::new(0),
            taken: AtomicU32::new(0),
        })
        .collect();
    let (mut producers, mut port, mut consumers) = port(RINGS as usize, 3, 4096);
    let (pushed, sent) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut driver =
        Driver::new(Watched { inner: hvt, groups: Arc::clone(&groups) }, Pacer::new(Rate::MAX, Nanos(1_000_000)))
            .unwrap();
    let mut moves = 0;
    thread::scope(|scope| {
        let numbered: Vec<_> = (0..RINGS).zip(producers.drain(..)).collect();
        let mut parts: Vec<Vec<_>> = (0..3).map(|_| Vec::new()).collect();
        numbered.into_iter().for_each(|(number, ring)| parts[number as usize % 3].push((number, ring)));
        let (groups, pushed, sent, leaves) = (&groups, &pushed, &sent, tree.leaves());
        let producers: Vec<_> = parts
            .into_iter()
            .map(|rings| scope.spawn(move || produce(rings, RINGS, groups, leaves, packets, [pushed, sent])))
            .collect();
        let consumer = scope.spawn(move || {
            let (mut next, mut all) = (vec![0u32; GROUPS], 0u64);
            while all < packets || all < pushed.load(Ordering::Relaxed) {
                let before = all;
                for ring in &mut consumers {
                    let slots = ring.slots();
                    for packet in ring.read_chunk(slots).unwrap() {
                        let group = flow(&packet) as usize;
                        assert_eq!(packet.handle as u32, next[group], "flow {group} at the consumer");
                        next[group] += 1;
                        all += 1;
                    }
                }
                sent.store(all, Ordering::Relaxed);
                if all == before {
                    thread::yield_now();
                }
            }
            (all, next)
        });
        let start = std::time::Instant::now();
        let mut idle = 0;
        while !consumer.is_finished() {
            let before = driver.scheduler().backlog().packets;
            let _ = port.turn(Nanos(start.elapsed().as_nanos() as u64), &mut driver);
            idle = if before + driver.scheduler().backlog().packets == 0 { idle + 1 } else { 0 };
            if idle > 8 || port.waiting() > 0 {
                thread::yield_now();
            }
        }
        moves = producers.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
        let (all, next) = consumer.join().unwrap();
        assert_eq!(all, pushed.load(Ordering::Relaxed));
        assert_eq!((port.taken(), port.published()), (all, all));
        for (group, next) in groups.iter().zip(next) {
            assert_eq!((group.pushed.load(Ordering::Relaxed), group.taken.load(Ordering::Relaxed)), (next, next));
        }
    });
    let all = pushed.load(Ordering::Relaxed);
    println!("{all} packets, {moves} moves of a group");
    assert!(moves > 100 && port.unordered() == 0, "{moves} moves, {} unordered", port.unordered());
}
