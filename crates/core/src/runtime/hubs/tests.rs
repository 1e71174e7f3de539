//! Hubs in random interleavings on one thread, and on threads of their own.

use std::boxed::Box;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::vec::Vec;

use super::*;
use crate::contract::{ClassConfig, DropReason, LinkConfig, Nanos, QueueKind, QueueLimits, Rate, Share, flow_bits};
use crate::runtime::random::Random;
use crate::runtime::shared::SharedConfig;

mod balance;
mod shares;

/// A random tree of up to three levels, with two to six classes directly below the link, some of which are leaves.
fn random_tree(random: &mut Random, queue: Option<QueueKind>) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000_000_000).unwrap()));
    let mut add = |random: &mut Random, parent| {
        let share = Some(Share::Weight(1 + random.place(9) as u64));
        let limits = QueueLimits { packets: if random.one_in(4) { 5 } else { 1000 }, ..QueueLimits::default() };
        let queue = queue.unwrap_or_default();
        tree.add(parent, ClassConfig { share, limits, queue, ..ClassConfig::default() }).unwrap()
    };
    for _ in 0..2 + random.place(5) {
        let top = add(random, ClassId::ROOT);
        for _ in 0..random.place(4) {
            let class = add(random, top);
            if random.one_in(3) {
                (0..2).for_each(|_| _ = add(random, class));
            }
        }
    }
    tree.build().unwrap()
}

/// Sinks of all hubs in one list: flow and number of each packet dropped.
type Dropped = Arc<Mutex<Vec<(u32, u32, DropReason)>>>;
type Sink = Box<dyn FnMut(Nanos, Packet, DropReason) + Send>;
type Parts = Hubs<fn(&Packet) -> u32, Sink>;

fn number(packet: &Packet) -> (u32, u32) {
    (packet.flow(), packet.handle as u32)
}

fn parts(shared: &Arc<SharedTree>, config: HubsConfig) -> (Parts, Dropped) {
    let dropped = Dropped::default();
    let hubs = Hubs::new(shared, config, Packet::flow as fn(&Packet) -> u32, |_| {
        let dropped = Arc::clone(&dropped);
        Box::new(move |_: Nanos, packet: Packet, why| {
            let (flow, number) = number(&packet);
            dropped.lock().unwrap().push((flow, number, why));
        }) as Sink
    });
    (hubs.unwrap(), dropped)
}

/// Each packet that was pushed leaves once or is dropped once, each flow in its order and under its class.
#[derive(Default)]
struct Model {
    /// By flow: the leaf, packets pushed, and the number of the last one that left.
    flows: Vec<(ClassId, u32, Option<u32>)>,
    left: u64,
}

impl Model {
    fn see(&mut self, packets: &mut Vec<Packet>) {
        for packet in packets.drain(..) {
            let (flow, number) = number(&packet);
            let (class, pushed, last) = &mut self.flows[flow as usize];
            assert_eq!(packet.class, *class);
            assert!(number < *pushed && last.is_none_or(|last| number > last), "flow {flow}: {number} after {last:?}");
            *last = Some(number);
            self.left += 1;
        }
    }

    fn pushed(&self) -> u64 {
        self.flows.iter().map(|flow| u64::from(flow.1)).sum()
    }
}

/// Runs a random tree; returns the packets that left, those that were dropped, and the moves.
fn run(seed: u64, queue: Option<QueueKind>) -> (u64, u64, u64) {
    let random = &mut Random::new(seed);
    let tree = random_tree(random, queue);
    let (leaves, tops) = (tree.leaves().to_vec(), tree.children(ClassId::ROOT).to_vec());
    let shared = SharedTree::new(tree, SharedConfig { mark: 6000, credit: 20_000, stored: 9000, ahead: 3000 }).unwrap();
    let config = HubsConfig {
        hubs: 1 + random.place(4),
        receivers: 1 + random.place(3),
        transmitters: 1 + random.place(3),
        ring: 1 + random.place(40),
        held: if random.one_in(3) { random.place(10) } else { 1 << 15 },
    };
    let (mut parts, dropped) = parts(&shared, config);
    let mut model = Model { flows: leaves.iter().chain(&leaves).map(|&leaf| (leaf, 0, None)).collect(), left: 0 };
    let mut out = Vec::with_capacity(16);
    let (mut now, mut busy) = (Nanos::ZERO, 0);
    let load = 1 + random.place(12);
    let push = |random: &mut Random, parts: &mut Parts, model: &mut Model| {
        let flow = random.place(model.flows.len());
        let (class, pushed, _) = &mut model.flows[flow];
        let receiver = &mut parts.receivers[flow % config.receivers];
        let handle = flow_bits(flow as u32) | u64::from(*pushed);
        match receiver.push(Packet { handle, len: 64 + random.place(1437) as u32, class: *class }) {
            Ok(()) => *pushed += 1,
            Err(back) => assert_eq!(back.handle, handle),
        }
    };
    for _ in 0..4000 {
        now = now.saturating_add(Nanos(random.place(9000) as u64));
        match random.place(8) {
            0..=2 => (0..load).for_each(|_| push(random, &mut parts, &mut model)),
            3..=5 => _ = parts.hubs[random.place(config.hubs)].turn(now),
            6 => {
                parts.transmitters[random.place(config.transmitters)].take(&mut out);
                model.see(&mut out);
            }
            _ if random.one_in(3) => {
                let (class, hub) = (tops[random.place(tops.len())], random.place(config.hubs));
                let was = parts.balancer.is_moving();
                let result = parts.balancer.start(class, hub);
                assert_eq!(result, if was { Err(MoveError::Busy) } else { Ok(()) });
                busy += u64::from(was);
            }
            _ => parts.receivers[random.place(config.receivers)].poll(),
        }
        // A class is at one hub, or on its way.
        for &top in &tops {
            let here = parts.hubs.iter().filter(|hub| hub.has(top)).count();
            assert!(here == 1 || here == 0 && parts.balancer.is_moving());
        }
        shared.check_invariants().unwrap();
    }
    // All leaves in the end, and the last move ends.
    for round in 0.. {
        now = now.saturating_add(Nanos(20_000));
        parts.receivers.iter_mut().for_each(Receiver::poll);
        parts.hubs.iter_mut().for_each(|hub| _ = hub.turn(now));
        for transmitter in &mut parts.transmitters {
            transmitter.take(&mut out);
            model.see(&mut out);
        }
        let lost = dropped.lock().unwrap().len() as u64;
        if model.left + lost == model.pushed() && !parts.balancer.is_moving() {
            break;
        }
        assert!(round < 20_000, "seed {seed}: {} left, {lost} dropped of {}", model.left, model.pushed());
    }
    let dropped = dropped.lock().unwrap();
    let mut once = HashMap::new();
    for &(flow, number, why) in dropped.iter() {
        assert!(once.insert((flow, number), why).is_none(), "seed {seed}: dropped twice");
    }
    if queue.is_none() && config.held > 1000 {
        let other = dropped.iter().find(|drop| drop.2 != DropReason::QueuePackets);
        assert_eq!(other, None, "seed {seed}: {config:?}");
    }
    assert!(parts.hubs.iter().all(|hub| hub.backlog().packets == 0));
    for &top in &tops {
        let hub = parts.balancer.home(top).unwrap();
        assert!(parts.hubs[hub].has(top), "seed {seed}");
    }
    (model.left, dropped.len() as u64, parts.balancer.moves() + busy)
}

#[test]
fn each_packet_leaves_once_and_in_its_order_while_classes_move() {
    let trees = std::env::var("FAIRLINK_TREES").map_or(200, |trees| trees.parse().unwrap());
    let (mut left, mut dropped, mut moves) = (0, 0, 0);
    for seed in 0..trees {
        let kind = [None, None, Some(QueueKind::CoDel)][seed as usize % 3];
        let one = run(seed, kind);
        (left, dropped, moves) = (left + one.0, dropped + one.1, moves + one.2);
    }
    std::println!("{left} packets left, {dropped} dropped, {moves} moves asked");
    assert!(left > trees * 500 && dropped > trees && moves > trees * 10, "{left} {dropped} {moves}");
}

/// Two classes at two hubs, one of which makes no turn from some time on.
#[test]
fn a_hub_that_stands_still_keeps_no_other_from_its_packets() {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10_000_000_000).unwrap()));
    let tops = [(); 3].map(|()| tree.add(ClassId::ROOT, ClassConfig::default()).unwrap());
    let tree = tree.build().unwrap();
    let shared = SharedTree::new(tree.clone(), SharedConfig::for_link(&tree.link())).unwrap();
    let config = HubsConfig { hubs: 2, held: 10, ..HubsConfig::default() };
    let (mut parts, dropped) = parts(&shared, config);
    let hubs = tops.map(|top| parts.balancer.home(top).unwrap());
    assert_eq!(hubs, [0, 1, 0]);
    let mut out = Vec::with_capacity(64);
    let (mut sent, mut refused) = ([0u32; 3], 0);
    for turn in 0..20_000u64 {
        let now = Nanos(turn * 1000);
        for (flow, &class) in tops.iter().enumerate() {
            let packet = Packet { handle: flow_bits(flow as u32) | turn, len: 1000, class };
            if turn % 4 == 0 && parts.receivers[0].push(packet).is_err() {
                refused += 1;
            }
        }
        let _ = parts.hubs[0].turn(now);
        if turn < 5000 {
            let _ = parts.hubs[1].turn(now);
        }
        if turn == 10_000 {
            // The class of the hub that stands still moves, and waits for it.
            parts.balancer.start(tops[1], 0).unwrap();
        }
        parts.transmitters[0].take(&mut out);
        out.drain(..).for_each(|packet| sent[packet.flow() as usize] += 1);
    }
    assert!(parts.balancer.is_moving() && parts.hubs[0].has(tops[0]) && !parts.hubs[0].has(tops[1]));
    assert!(sent[0] >= 4990 && sent[2] >= 4990 && (1240..=1251).contains(&sent[1]), "{sent:?}");
    // Its ring is full, so that the note has no room either.
    assert!(refused > 3000 && dropped.lock().unwrap().is_empty(), "{refused}");
    // It goes on: the class arrives with what was in the ring.
    for turn in 20_000..21_000u64 {
        parts.receivers[0].poll();
        parts.hubs.iter_mut().for_each(|hub| _ = hub.turn(Nanos(turn * 1000)));
        parts.transmitters[0].take(&mut out);
        out.drain(..).for_each(|packet| sent[packet.flow() as usize] += 1);
    }
    assert!(!parts.balancer.is_moving() && parts.hubs[0].has(tops[1]));
    assert_eq!(sent.iter().sum::<u32>() + refused, 15_000);
}

#[test]
fn hubs_on_threads_lose_and_reorder_nothing_while_classes_move() {
    let time = Duration::from_millis(std::env::var("FAIRLINK_HUBS_MS").map_or(400, |ms| ms.parse().unwrap()));
    const FLOWS: usize = 64;
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(100_000_000_000).unwrap()));
    let weight = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
    let tops: Vec<ClassId> = (1..=6).map(|of| tree.add(ClassId::ROOT, weight(of)).unwrap()).collect();
    let leaves: Vec<ClassId> = (0..24).map(|at| tree.add(tops[at % 6], weight(1 + at as u64 % 3)).unwrap()).collect();
    let tree = tree.build().unwrap();
    let shared = SharedTree::new(tree.clone(), SharedConfig::for_link(&tree.link())).unwrap();
    let config = HubsConfig { hubs: 3, receivers: 2, transmitters: 2, ring: 128, held: 4096 };
    let (Hubs { receivers, hubs, transmitters, mut balancer }, dropped) = parts(&shared, config);
    let (stop, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let (pushed, left) = (AtomicU64::new(0), AtomicU64::new(0));
    let (start, random) = (Instant::now(), &mut Random::new(9));
    std::thread::scope(|scope| {
        for (number, mut receiver) in receivers.into_iter().enumerate() {
            let (stop, ended, pushed, leaves) = (&stop, &ended, &pushed, &leaves);
            scope.spawn(move || {
                let mut next = [0u64; FLOWS];
                while !stop.load(Ordering::Relaxed) {
                    for flow in (number..FLOWS).step_by(2) {
                        let handle = flow_bits(flow as u32) | next[flow];
                        let class = leaves[flow % leaves.len()];
                        if receiver.push(Packet { handle, len: 1000, class }).is_ok() {
                            next[flow] += 1;
                        }
                    }
                    std::thread::yield_now();
                }
                pushed.fetch_add(next.iter().sum(), Ordering::Relaxed);
                while !ended.load(Ordering::Relaxed) {
                    receiver.poll();
                    std::thread::yield_now();
                }
            });
        }
        for mut hub in hubs {
            let ended = &ended;
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    for _ in 0..16 {
                        let _ = hub.turn(Nanos(start.elapsed().as_nanos() as u64));
                    }
                    std::thread::yield_now();
                }
            });
        }
        for mut transmitter in transmitters {
            let (ended, left) = (&ended, &left);
            scope.spawn(move || {
                let (mut out, mut last) = (Vec::with_capacity(64), [None; FLOWS]);
                while !ended.load(Ordering::Relaxed) {
                    left.fetch_add(transmitter.take(&mut out) as u64, Ordering::Relaxed);
                    for packet in out.drain(..) {
                        let (flow, number) = number(&packet);
                        let last = last[flow as usize].replace(number);
                        if last.is_some_and(|last| last >= number) {
                            ended.store(true, Ordering::Relaxed);
                            panic!("flow {flow}: {number} after {last:?}");
                        }
                    }
                    std::thread::yield_now();
                }
            });
        }
        // On a slow machine longer.
        let is_enough = |moves| moves > 3 && left.load(Ordering::Relaxed) > 1000;
        while start.elapsed() < time || !is_enough(balancer.moves()) && start.elapsed() < Duration::from_secs(60) {
            let _ = balancer.start(tops[random.place(tops.len())], random.place(3));
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        let until = Instant::now() + Duration::from_secs(60);
        let mut all = u64::MAX;
        while (all != left.load(Ordering::Relaxed) || balancer.is_moving()) && !ended.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            all = pushed.load(Ordering::Relaxed) - dropped.lock().unwrap().len() as u64;
            if Instant::now() > until {
                ended.store(true, Ordering::Relaxed);
                panic!("{all} to leave, {} left", left.load(Ordering::Relaxed));
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    let (left, moves) = (left.load(Ordering::Relaxed), balancer.moves());
    std::println!("{left} packets, {} dropped, {moves} moves", dropped.lock().unwrap().len());
    assert!(left > 1000 && moves > 3, "{left} packets, {moves} moves");
    shared.check_invariants().unwrap();
}

#[test]
fn a_packet_of_no_leaf_is_dropped_and_is_no_note() {
    let tree = random_tree(&mut Random::new(1), None);
    let inner = tree.classes().find(|&class| !tree.is_leaf(class)).unwrap();
    let shared = SharedTree::new(tree.clone(), SharedConfig::for_link(&tree.link())).unwrap();
    let (mut parts, dropped) = parts(&shared, HubsConfig { hubs: 2, ..HubsConfig::default() });
    let classes = [ClassId::ROOT, inner, ClassId(tree.len() as u32), ClassId(u32::MAX - 1), ClassId(u32::MAX)];
    for (number, class) in (0..).zip(classes) {
        parts.receivers[0].push(Packet { handle: 1 << 63 | number, len: 1000, class }).unwrap();
    }
    parts.hubs.iter_mut().for_each(|hub| _ = hub.turn(Nanos(1)));
    let mut dropped: Vec<_> = dropped.lock().unwrap().iter().map(|&(_, number, why)| (number, why)).collect();
    dropped.sort_unstable_by_key(|&(number, _)| number);
    assert_eq!(dropped, [0, 1, 2, 3, 4].map(|number| (number, DropReason::NotALeaf)));
}

#[test]
fn limits_are_refused_with_value_and_limit() {
    let tree = random_tree(&mut Random::new(1), None);
    let shared = SharedTree::new(tree.clone(), SharedConfig::for_link(&tree.link())).unwrap();
    let refused = |config: HubsConfig| {
        let drops = |_: usize| |_: Nanos, _: Packet, _: DropReason| {};
        Hubs::new(&shared, config, Packet::flow as fn(&Packet) -> u32, drops).err()
    };
    let of = HubsConfig::default();
    assert_eq!(refused(of), None);
    assert_eq!(refused(HubsConfig { hubs: 0, ..of }), Some(HubsError::Hubs { count: 0, max: 64 }));
    assert_eq!(refused(HubsConfig { hubs: 65, ..of }), Some(HubsError::Hubs { count: 65, max: 64 }));
    let rings = HubsError::Rings(HubError::Rings { count: 256, max: 255 });
    assert_eq!(refused(HubsConfig { receivers: 256, ..of }), Some(rings));
    assert_eq!(refused(HubsConfig { transmitters: 256, ..of }), Some(rings));
    assert_eq!(refused(HubsConfig { ring: 0, ..of }), Some(HubsError::NoRoom));
    let (mut parts, _) = parts(&shared, HubsConfig { hubs: 2, ..of });
    let leaf = *tree.leaves().iter().find(|&&leaf| tree.parent(leaf) != Some(ClassId::ROOT)).unwrap();
    let top = tree.children(ClassId::ROOT)[0];
    assert_eq!(parts.balancer.start(leaf, 1), Err(MoveError::NotBelowLink { class: leaf }));
    assert_eq!(parts.balancer.start(ClassId::ROOT, 1), Err(MoveError::NotBelowLink { class: ClassId::ROOT }));
    assert_eq!(parts.balancer.start(top, 2), Err(MoveError::NoHub { hub: 2, hubs: 2 }));
}
