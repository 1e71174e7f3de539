//! Every promise of every scheduler, held against random trees with every feature on, and traffic that does its worst.
//!
//! The tests do not use the tested code: the clock, the conforming traffic, and the service of each class are kept
//! here. A short suite by default; `FAIRLINK_TREES=10000` runs that many trees per scheduler, `FAIRLINK_SCHEDULER=hls` one
//! scheduler alone.
#![forbid(unsafe_code)]

mod adversary;
mod trees;
mod watch;

use std::collections::VecDeque;

use fairlink_core::{
    ClassConfig, ClassId, Dequeued, DropReason, Feature, Hierarchy, Leniency, LinkConfig, Members, Nanos, Packet, Rate,
    Scheduler, SchedulerInfo, Share, flow_bits, registry::SCHEDULERS, with_host,
};
use fairlink_theory::promises::{GapBound, promised};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use trees::{LINK, random_tree};
use watch::{Fairness, Kept, NextPacket, WorstCase};

/// A number from 0 to one below `below`.
fn pick(random: &mut ChaCha8Rng, below: u64) -> u64 {
    random.next_u64() % below
}

/// The sending pattern of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Sends as much as its bound allows, as early as possible.
    Keeps,
    /// Its queue never empties.
    Greedy,
    /// Now and then, a few packets at once.
    Bursts,
    /// Never.
    Silent,
}

/// The state of a run on one tree.
struct Run<'a> {
    info: &'a SchedulerInfo,
    tree: &'a Hierarchy,
    seed: u64,
    scheduler: Box<dyn Scheduler>,
    fairness: Fairness<'a>,
    worst_case: WorstCase<'a>,
    next_packet: NextPacket<'a>,
    habits: Vec<Habit>,
    /// By class id: the length of its packets; 0 for any.
    lens: Vec<u32>,
    kept: Vec<Option<Kept>>,
    waiting: Vec<VecDeque<(u64, Nanos)>>,
    /// Number of arrived packets.
    sent: u64,
    /// The closest that delays came to their bounds: of other leaves than latency-critical ones, and of these.
    closest: [f64; 2],
}

/// Packets that are played per tree.
const PACKETS: u64 = 1500;

/// The largest used parts of bounds; 0 if none is promised.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    /// Of latency-critical leaves.
    urgent: f64,
    /// Of other leaves.
    delay: f64,
    fairness: f64,
    /// Of the time to the next packet: of other leaves, and of latency-critical ones.
    next: [f64; 2],
}

impl Used {
    fn max(self, other: Self) -> Self {
        Self {
            urgent: self.urgent.max(other.urgent),
            delay: self.delay.max(other.delay),
            fairness: self.fairness.max(other.fairness),
            next: std::array::from_fn(|kind| self.next[kind].max(other.next[kind])),
        }
    }
}

/// Runs one tree; returns the largest used parts of bounds, and true if a leaf is latency-critical. `None` if the scheduler refuses the
/// tree.
fn play(info: &SchedulerInfo, seed: u64) -> Option<(Used, bool)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let tree = random_tree(info, &mut random);
    let scheduler = info.build(&tree, Leniency::Refuse, Members::new()).ok()?;
    let promised = promised(info, &tree).expect("promises");
    let bounds = &promised.delays;
    // In one tree of four more leaves are greedy, and latency-critical ones send more than their contracts.
    let exceeds = seed % 4 == 3 && promised.transmission_gap.is_some();
    let habits = (0..tree.len())
        .map(|index| match pick(&mut random, 8) {
            0..4 if exceeds => Habit::Greedy,
            0..4 if bounds[index].is_some() => Habit::Keeps,
            0..5 => Habit::Greedy,
            5 | 6 => Habit::Bursts,
            _ => Habit::Silent,
        })
        .collect();
    let mut run = Run {
        info,
        tree: &tree,
        seed,
        scheduler,
        fairness: Fairness::new(info, seed, &tree, &promised),
        worst_case: WorstCase::new(info.name, seed, &tree, &promised),
        next_packet: NextPacket::new(info.name, seed, &tree, &promised),
        habits,
        lens: (0..tree.len()).map(|_| len(&mut random)).collect(),
        kept: bounds.iter().map(|bound| bound.as_ref().map(Kept::new)).collect(),
        waiting: vec![VecDeque::new(); tree.len()],
        sent: 0,
        closest: [0.0; 2],
    };
    // True if packets also arrive while others are on the link, and so just miss their turn.
    let late = pick(&mut random, 2) == 0;
    let mut now = Nanos::ZERO;
    for _ in 0..PACKETS {
        run.arrive(now, &mut random);
        let mut dropped = Vec::new();
        let mut sink = |_: Nanos, packet: Packet, _: DropReason| dropped.push(packet);
        let next = run.scheduler.dequeue(now, &mut sink);
        for packet in dropped {
            // An active queue has dropped it: it has waited, and is not sent.
            run.waiting[packet.class.index()].retain(|&(handle, _)| handle != packet.handle);
            run.fairness.gone(packet.class);
            run.worst_case.gone(packet.class);
            run.next_packet.gone(packet.class);
        }
        match next {
            Dequeued::Packet(packet) => {
                let end = now.saturating_add(LINK.0.time_for(packet.len));
                run.fairness.sent(&packet);
                run.worst_case.sent(&packet);
                run.next_packet.sent(&packet, now, end);
                run.left(&packet, end, bounds);
                if late {
                    // Mostly at its very beginning, which is the worst.
                    let after = if pick(&mut random, 2) == 0 { 1 } else { pick(&mut random, (end - now).0.max(1)) };
                    run.arrive(now.saturating_add(Nanos(after)).min(end), &mut random);
                }
                now = end;
            }
            // Somebody may send before that.
            Dequeued::WaitUntil(wake) => now = wake.min(now.saturating_add(Nanos(1 + pick(&mut random, 2_000_000)))),
            Dequeued::Idle => now = now.saturating_add(Nanos(1 + pick(&mut random, 2_000_000))),
        }
        run.fairness.look();
        run.worst_case.look();
    }
    let is_critical = tree.leaves().iter().any(|&leaf| tree.config(leaf).latency_critical);
    let [delay, urgent] = run.closest;
    let next = run.next_packet.closest;
    Some((Used { urgent, delay, fairness: run.fairness.closest, next }, is_critical))
}

/// The length of a leaf's packets; 0 for any. Conforming leaves send packets that fit their allowance.
fn len(random: &mut ChaCha8Rng) -> u32 {
    match pick(random, 4) {
        0 | 1 => LINK.1,
        2 => 1 + pick(random, LINK.1.into()) as u32,
        _ => 0,
    }
}

impl Run<'_> {
    /// Generates the arrivals of the leaves at `now`.
    fn arrive(&mut self, now: Nanos, random: &mut ChaCha8Rng) {
        for &leaf in self.tree.leaves() {
            let index = leaf.index();
            let queued = self.scheduler.class_backlog(leaf).packets;
            let len = if self.lens[index] > 0 { self.lens[index] } else { 1 + pick(random, LINK.1.into()) as u32 };
            let count = match self.habits[index] {
                Habit::Keeps => 8,
                Habit::Greedy => 3u64.saturating_sub(queued),
                Habit::Bursts => {
                    if pick(random, 40) == 0 {
                        1 + pick(random, 6)
                    } else {
                        0
                    }
                }
                Habit::Silent => 0,
            };
            for _ in 0..count {
                let conforms = self.kept[index].as_mut().is_none_or(|kept| kept.takes(now, len));
                // A conforming leaf sends its savings of some time at once.
                if self.habits[index] == Habit::Keeps && (!conforms || queued > 200) {
                    break;
                }
                // Packets of a class are of several hosts and flows.
                let handle = with_host(self.sent | flow_bits(pick(random, 6) as u32), pick(random, 3) as u16);
                let mut lost = None;
                let mut sink = |_: Nanos, packet: Packet, reason: DropReason| lost = Some((packet.handle, reason));
                self.scheduler.enqueue(now, Packet { handle, len, class: leaf }, &mut sink);
                assert!(lost.is_none(), "{} {}: {lost:?}", self.info.name, self.seed);
                self.waiting[index].push_back((handle, now));
                self.fairness.arrived(leaf);
                self.worst_case.arrived(leaf);
                self.next_packet.arrived(leaf, now);
                self.sent += 1;
            }
        }
    }

    fn left(&mut self, packet: &Packet, end: Nanos, bounds: &[Option<fairlink_theory::latency::DelayBound>]) {
        let index = packet.class.index();
        let place = self.waiting[index].iter().position(|&(handle, _)| handle == packet.handle);
        let (_, arrived) = self.waiting[index].remove(place.expect("a packet that had arrived")).expect("it is there");
        let Some(bound) = bounds[index].as_ref().filter(|_| self.habits[index] == Habit::Keeps) else { return };
        let took = (end - arrived).0 as f64 / 1e9;
        let limit = fairlink_theory::to_f64(&bound.seconds());
        // Times of packets are whole nanoseconds, rounded up.
        let rounding = 2e-9 * (PACKETS as f64);
        assert!(
            took <= limit + rounding,
            "{}, tree {}, class {}: {took} s of {limit} s for {:?}\n{:#?}",
            self.info.name,
            self.seed,
            index,
            bound.traffic,
            self.tree
        );
        let closest = &mut self.closest[usize::from(self.tree.config(packet.class).latency_critical)];
        *closest = closest.max(took / limit);
    }
}

fn trees() -> u64 {
    std::env::var("FAIRLINK_TREES").ok().and_then(|count| count.parse().ok()).unwrap_or(60)
}

#[test]
fn no_scheduler_breaks_a_promise_whatever_the_tree_and_the_traffic() {
    let mut nearest = Vec::new();
    let only = std::env::var("FAIRLINK_SCHEDULER").ok();
    let chosen = |info: &&SchedulerInfo| only.as_ref().is_none_or(|only| info.is_called(only));
    for info in SCHEDULERS.iter().filter(|info| info.promises.names().next().is_some()).filter(chosen) {
        let (mut played, mut used) = (0u64, [Used::default(); 2]);
        for seed in 0..trees() {
            if let Some((of_tree, is_critical)) = play(info, seed) {
                played += 1;
                let used = &mut used[usize::from(is_critical)];
                *used = used.max(of_tree);
            }
        }
        assert!(played * 2 > trees(), "{}: {played} trees of {} were taken", info.name, trees());
        let [plain, critical] = used;
        let all = plain.max(critical);
        nearest.push(format!("{} {:.3} {:.3}", info.name, all.delay, all.fairness));
        if info.promises.delay.is_some() {
            // Some promise a delay to latency-critical leaves only.
            let most = all.delay.max(all.urgent);
            assert!(most > 0.1, "{}: the delay bound is never nearly reached: {all:?}", info.name);
            assert!(all.delay == 0.0 || all.delay > 0.1, "{}: only of latency-critical leaves: {all:?}", info.name);
        }
        if all.next[0] > 0.0 {
            nearest.push(format!("next packet {:.3}, of latency-critical leaves {:.3}", all.next[0], all.next[1]));
            assert!(all.next.iter().all(|&part| part > 0.4), "{}: next packets never nearly reach: {all:?}", info.name);
        }
        if info.supports(Feature::LatencyCritical) {
            let Used { urgent, delay, fairness, .. } = critical;
            nearest.push(format!("with latency-critical leaves {delay:.3} {fairness:.3}, of these {urgent:.3}"));
        }
    }
    println!("largest parts of a delay bound and of a fairness bound that were used: {}", nearest.join(", "));
}

/// 100 kbit/s of 10 Mbit/s, latency-critical and greedy, beside a greedy leaf: it pays 1500 B for each packet, which
/// takes 120 ms at its rate.
#[test]
fn a_latency_critical_leaf_beyond_its_contract_completes_its_next_packet_within_the_bound() {
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: LINK.1, ..LinkConfig::new(LINK.0) });
    let guarantee = |bps| Some(Share::Guarantee(Rate::from_bps(bps).expect("a rate")));
    let voice = ClassConfig { share: guarantee(100_000), latency_critical: true, ..ClassConfig::default() };
    let rest = ClassConfig { share: guarantee(9_900_000), ..ClassConfig::default() };
    let [voice, rest] = [voice, rest].map(|config| tree.add(ClassId::ROOT, config).expect("a class"));
    let tree = tree.build().expect("a tree");
    let info = SCHEDULERS.iter().find(|info| info.is_called("hls")).expect("hls");
    let promised = promised(info, &tree).expect("promises");
    let (bound, worst) = promised.transmission_gap.as_ref().and_then(GapBound::next_packet).expect("a bound");
    assert_eq!(worst, voice);
    // (L / s + 2 Q + 2 L) / C: Q has two largest packets and weights of 1000 B; the leaf's own advance does not count.
    assert!((bound - (150_000.0 + 2.0 * 4000.0 + 3000.0) * 8.0 / 1e7).abs() < 1e-9, "{bound}");
    let mut scheduler = info.build(&tree, Leniency::Refuse, Members::new()).expect("a scheduler");
    let (mut now, mut since, mut longest) = (Nanos::ZERO, Nanos::ZERO, 0u64);
    let mut sink = |_: Nanos, packet: Packet, reason: DropReason| panic!("{packet:?} dropped: {reason:?}");
    while now < Nanos::from_millis(4000) {
        for class in [voice, rest] {
            while scheduler.class_backlog(class).packets < 3 {
                scheduler.enqueue(now, Packet { handle: 0, len: LINK.1, class }, &mut sink);
            }
        }
        let Dequeued::Packet(packet) = scheduler.dequeue(now, &mut sink) else { panic!("both are backlogged") };
        let end = now.saturating_add(LINK.0.time_for(packet.len));
        if packet.class == voice {
            longest = longest.max((end - since).0);
            since = now;
        }
        now = end;
    }
    let longest = longest as f64 / 1e9;
    assert!(longest > 0.12 && longest <= bound, "{longest} s of {bound} s");
}

/// The ids on the way from `class` to the root, the root left out.
fn path(tree: &Hierarchy, class: ClassId) -> impl Iterator<Item = ClassId> + '_ {
    std::iter::successors(Some(class), |&class| tree.parent(class)).take_while(|&class| class != ClassId::ROOT)
}
