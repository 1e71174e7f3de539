use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;
use fairlink_core::{ClassConfig, LinkConfig, Share};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// An event, in time order.
#[derive(Clone, Copy, Debug)]
enum Event {
    Arrived(u64, ClassId, u32),
    Sent(u64, ClassId, u32),
}

/// 1 Gbit/s: a byte takes 8 ns. Every third tree has ceilings.
fn tree(random: &mut ChaCha8Rng, deep: bool, ceilings: bool) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000_000_000).unwrap()));
    let config = |random: &mut ChaCha8Rng| ClassConfig {
        share: Some(Share::Weight(random.random_range(1..20))),
        ceiling: (ceilings && random.random_bool(0.3)).then(|| Rate::from_bps(300_000_000).unwrap()),
        ..ClassConfig::default()
    };
    for _ in 0..random.random_range(2..6) {
        let class = tree.add(ClassId::ROOT, config(random)).unwrap();
        if deep && random.random_bool(0.5) {
            for _ in 0..random.random_range(1..4) {
                tree.add(class, config(random)).unwrap();
            }
        }
    }
    tree.build().unwrap()
}

/// Random packets, sent one after another in random order.
fn play(tree: &Hierarchy, random: &mut ChaCha8Rng) -> Vec<Event> {
    let mut events = Vec::new();
    let mut queued: Vec<(ClassId, u32)> = Vec::new();
    let (mut now, mut free) = (0, 0);
    for _ in 0..60 {
        now += random.random_range(0..12_000);
        while !queued.is_empty() && free <= now {
            let (class, len) = queued.swap_remove(random.random_range(0..queued.len()));
            events.push(Event::Sent(free, class, len));
            free += u64::from(len) * 8;
        }
        for _ in 0..random.random_range(0..3) {
            let class = tree.leaves()[random.random_range(0..tree.leaves().len())];
            let len = random.random_range(40..1500);
            events.push(Event::Arrived(now, class, len));
            queued.push((class, len));
        }
        free = free.max(now);
    }
    events
}

/// The lag by brute force: the ideal in steps that are too short for any event within.
fn by_steps(tree: &Hierarchy, events: &[Event], rates: impl Fn(&[bool]) -> Vec<f64>) -> Vec<f64> {
    const STEP: u64 = 10;
    let mut left = vec![0.0f64; tree.len()];
    let mut queued = vec![0.0f64; tree.len()];
    let mut worst = vec![0.0f64; tree.len()];
    let mut now = 0;
    for event in events {
        let (Event::Arrived(at, ..) | Event::Sent(at, ..)) = *event;
        while now < at {
            let step = STEP.min(at - now);
            let busy: Vec<bool> = left.iter().map(|&left| left > 0.0).collect();
            let rates = rates(&busy);
            for (left, rate) in left.iter_mut().zip(rates) {
                *left = (*left - rate * step as f64 / 1e9).max(0.0);
            }
            now += step;
        }
        match *event {
            Event::Arrived(_, class, len) => {
                left[class.index()] += f64::from(len) * 8.0;
                queued[class.index()] += f64::from(len) * 8.0;
            }
            Event::Sent(_, class, len) => {
                let index = class.index();
                worst[index] = worst[index].max((queued[index] - left[index]) / 8.0);
                queued[index] -= f64::from(len) * 8.0;
            }
        }
    }
    for index in 0..worst.len() {
        worst[index] = worst[index].max((queued[index] - left[index]) / 8.0);
    }
    worst
}

#[test]
fn the_lag_behind_gps_is_that_of_a_fluid_system_in_small_steps() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..40 {
        let tree = tree(&mut random, false, false);
        let events = play(&tree, &mut random);
        let mut meter = GpsMeter::new(&tree);
        let mut end = 0;
        for event in &events {
            match *event {
                Event::Arrived(at, class, len) => meter.arrived(Nanos(at), class, len),
                Event::Sent(at, class, len) => meter.sent(Nanos(at), class, len),
            }
            let (Event::Arrived(at, ..) | Event::Sent(at, ..)) = *event;
            end = at;
        }
        meter.end(Nanos(end));
        let expected = by_steps(&tree, &events, |busy| {
            let weight = |class: ClassId| if busy[class.index()] { tree.weight(class) as f64 } else { 0.0 };
            let all: f64 = tree.leaves().iter().map(|&leaf| weight(leaf)).sum();
            (0..tree.len()).map(|index| 1e9 * weight(ClassId(index as u32)) / all.max(1.0)).collect()
        });
        for &leaf in tree.leaves() {
            let (found, expected) = (meter.worst(leaf), expected[leaf.index()]);
            // A byte takes 8 ns, a step 10 ns; each of 100 changes of the busy set may be a step late.
            assert!((found - expected).abs() < 20.0, "{found} and {expected}");
        }
    }
}

#[test]
fn the_lag_behind_hmm_is_that_of_a_fluid_system_in_small_steps_and_of_inner_classes_the_sum() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    for round in 0..20 {
        let tree = tree(&mut random, true, round % 3 == 0);
        let events = play(&tree, &mut random);
        let mut meter = HmmMeter::new(&tree).unwrap();
        let mut end = 0;
        for event in &events {
            match *event {
                Event::Arrived(at, class, len) => meter.arrived(Nanos(at), class, len),
                Event::Sent(at, class, len) => meter.sent(Nanos(at), class, len),
            }
            let (Event::Arrived(at, ..) | Event::Sent(at, ..)) = *event;
            end = at;
        }
        meter.end(Nanos(end));
        let known = RefCell::new(BTreeMap::new());
        let solve = |busy: &[bool]| {
            let request =
                |&leaf: &ClassId| (leaf, if busy[leaf.index()] { Request::Unlimited } else { Request::Rate(0) });
            let demand = Demand::new(&tree, tree.leaves().iter().map(request)).unwrap();
            // The exact solver, not the one that is used.
            let exact = crate::hmm::Allocation::solve(&tree, &demand);
            (0..tree.len())
                .map(|index| {
                    let class = ClassId(index as u32);
                    if tree.is_leaf(class) { crate::to_f64(&exact.rate(class)) } else { 0.0 }
                })
                .collect::<Vec<f64>>()
        };
        let rates = |busy: &[bool]| known.borrow_mut().entry(busy.to_vec()).or_insert_with(|| solve(busy)).clone();
        let expected = by_steps(&tree, &events, rates);
        for &leaf in tree.leaves() {
            let (found, expected) = (meter.worst(leaf), expected[leaf.index()]);
            assert!((found - expected).abs() < 20.0, "{found} and {expected}");
        }
        for class in tree.classes().filter(|&class| !tree.is_leaf(class)) {
            let below: f64 = tree.children(class).iter().map(|&child| meter.worst(child)).sum();
            assert!(meter.worst(class) <= below + 1e-6);
        }
    }
}

#[test]
fn what_is_refused_leaves_no_trace_and_what_is_dropped_later_is_not_owed() {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(8_000_000_000).unwrap()));
    let (a, b) = (ClassId(1), ClassId(2));
    tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    let tree = tree.build().unwrap();
    let (mut gps, mut hmm) = (GpsMeter::new(&tree), HmmMeter::new(&tree).unwrap());
    // A byte takes 1 ns. Both have 1000 B; a's second packet is refused; b's only one is dropped after 500 ns, in which 250 B of it were served.
    for (at, leaf, len) in [(0, a, 1000), (0, b, 1000), (100, a, 300)] {
        gps.arrived(Nanos(at), leaf, len);
        hmm.arrived(Nanos(at), leaf, len);
    }
    gps.dropped(Nanos(100), a, 300);
    hmm.dropped(Nanos(100), a, 300);
    gps.dropped(Nanos(500), b, 1000);
    hmm.dropped(Nanos(500), b, 1000);
    // a alone then, until 1250 ns: it begins when 1000 B of it are served.
    gps.sent(Nanos(1500), a, 1000);
    hmm.sent(Nanos(1500), a, 1000);
    gps.end(Nanos(3000));
    hmm.end(Nanos(3000));
    for (leaf, lag) in [(a, 1000.0), (b, 0.0)] {
        assert!((gps.worst(leaf) - lag).abs() < 1e-6, "{}", gps.worst(leaf));
        assert!((hmm.worst(leaf) - lag).abs() < 1e-3, "{}", hmm.worst(leaf));
    }
}

#[test]
fn a_refused_packet_takes_nothing_from_a_class_that_the_link_is_ahead_of() {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(8_000_000_000).unwrap()));
    let (a, b) = (ClassId(1), ClassId(2));
    tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    let tree = tree.build().unwrap();
    let (mut gps, mut hmm) = (GpsMeter::new(&tree), HmmMeter::new(&tree).unwrap());
    // A byte takes 1 ns. The link sends a's packet first; the ideal serves both until 2000 ns, regardless of a's
    // refused packets.
    for leaf in [a, b] {
        gps.arrived(Nanos(0), leaf, 1000);
        hmm.arrived(Nanos(0), leaf, 1000);
    }
    gps.sent(Nanos(0), a, 1000);
    hmm.sent(Nanos(0), a, 1000);
    gps.arrived(Nanos(100), a, 300);
    hmm.arrived(Nanos(100), a, 300);
    gps.dropped(Nanos(100), a, 300);
    hmm.dropped(Nanos(100), a, 300);
    gps.sent(Nanos(1000), b, 1000);
    hmm.sent(Nanos(1000), b, 1000);
    assert!((gps.worst(b) - 500.0).abs() < 1e-6, "{}", gps.worst(b));
    assert!((hmm.worst(b) - 500.0).abs() < 1e-3, "{}", hmm.worst(b));
}
