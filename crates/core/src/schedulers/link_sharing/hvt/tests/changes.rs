//! Classes that come and go while packets are queued.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::*;
use crate::contract::{HostKey, Hosts, QueueKind, QueueLimits, WhenFull, flow_bits};

/// A class with a name, which it keeps.
#[derive(Clone, Debug)]
struct Class {
    name: u32,
    parent: u32,
    weight: u64,
    ceiling: Option<u64>,
}

const LINK_NAME: u32 = 0;

/// The classes of a tree, parents before children.
#[derive(Clone, Debug)]
struct Classes {
    all: Vec<Class>,
    next: u32,
}

impl Classes {
    fn is_leaf(&self, name: u32) -> bool {
        !self.all.iter().any(|class| class.parent == name)
    }

    fn id(&self, name: u32) -> Option<ClassId> {
        self.all.iter().position(|class| class.name == name).map(|at| ClassId(at as u32 + 1))
    }

    fn leaves(&self) -> Vec<u32> {
        self.all.iter().map(|class| class.name).filter(|&name| self.is_leaf(name)).collect()
    }

    fn tree(&self) -> Hierarchy {
        let mut tree = Hierarchy::builder(LinkConfig::new(LINK));
        for class in &self.all {
            let ceiling = class.ceiling.map(|bps| Rate::from_bps(bps).unwrap());
            let parent = self.id(class.parent).unwrap_or(ClassId::ROOT);
            tree.add(parent, ClassConfig { ceiling, ..weighted(class.weight) }).unwrap();
        }
        tree.build().unwrap()
    }

    /// By id here, the leaf of the same name in `after`.
    fn survivors(&self, after: &Self) -> Vec<Option<ClassId>> {
        let heir = |name: u32| after.id(name).filter(|_| self.is_leaf(name) && after.is_leaf(name));
        core::iter::once(None).chain(self.all.iter().map(|class| heir(class.name))).collect()
    }

    fn add(&mut self, at: usize, parent: u32, weight: u64, ceiling: Option<u64>) -> u32 {
        self.next += 1;
        // Behind its parent.
        let first = self.id(parent).map_or(0, ClassId::index);
        let at = first + at % (self.all.len() + 1 - first);
        self.all.insert(at, Class { name: self.next, parent, weight, ceiling });
        self.next
    }

    /// Removes a class and all below it, unless it is the last.
    fn remove(&mut self, name: u32) {
        let mut gone = alloc::vec![name];
        for class in &self.all {
            if gone.contains(&class.parent) {
                gone.push(class.name);
            }
        }
        if gone.len() < self.all.len() {
            self.all.retain(|class| !gone.contains(&class.name));
        }
    }

    /// Makes one random change.
    fn change(&mut self, edit: &Edit) {
        let names: Vec<u32> = self.all.iter().map(|class| class.name).collect();
        let any = |at: usize| names[at % names.len()];
        match *edit {
            Edit::Add { at, parent, weight, ceiling } => {
                let parent = if parent % (names.len() + 1) == 0 { LINK_NAME } else { any(parent) };
                self.add(at, parent, weight, ceiling);
            }
            Edit::Remove(at) => self.remove(any(at)),
            Edit::Weight(at, weight) => self.all[at % names.len()].weight = weight,
            Edit::Ceiling(at, ceiling) => self.all[at % names.len()].ceiling = ceiling,
            Edit::Move(at, parent) => {
                // To a class before it, so that there is no circle.
                let at = at % names.len();
                self.all[at].parent = if at == 0 { LINK_NAME } else { names[parent % at] };
            }
            Edit::Order(from, to) => {
                // Another id for a leaf.
                if self.is_leaf(any(from)) {
                    let class = self.all.remove(from % names.len());
                    let first = self.id(class.parent).map_or(0, ClassId::index);
                    self.all.insert(first + to % (self.all.len() + 1 - first), class);
                }
            }
            Edit::None => {}
        }
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Add { at: usize, parent: usize, weight: u64, ceiling: Option<u64> },
    Remove(usize),
    Weight(usize, u64),
    Ceiling(usize, Option<u64>),
    Move(usize, usize),
    Order(usize, usize),
    None,
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(usize, u32),
    Send,
    Change(Vec<Edit>),
    /// Removes all leaves that are ahead of the clock of their parent.
    RemoveAhead,
    Purge,
}

fn ceiling() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![3 => Just(None), 1 => (1_000_000u64..900_000_000).prop_map(Some)]
}

fn edit() -> impl Strategy<Value = Edit> {
    let number = || 0usize..1 << 20;
    prop_oneof![
        4 => (number(), number(), 1u64..50, ceiling())
            .prop_map(|(at, parent, weight, ceiling)| Edit::Add { at, parent, weight, ceiling }),
        4 => number().prop_map(Edit::Remove),
        1 => (number(), 1u64..50).prop_map(|(at, weight)| Edit::Weight(at, weight)),
        1 => (number(), ceiling()).prop_map(|(at, ceiling)| Edit::Ceiling(at, ceiling)),
        1 => (number(), number()).prop_map(|(at, parent)| Edit::Move(at, parent)),
        1 => (number(), number()).prop_map(|(from, to)| Edit::Order(from, to)),
        1 => Just(Edit::None),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![Just(1500u32), Just(64), 1u32..=1500];
    prop_oneof![
        30 => (0usize..1 << 20, len).prop_map(|(leaf, len)| Step::Arrive(leaf, len)),
        25 => Just(Step::Send),
        3 => prop::collection::vec(edit(), 1..3).prop_map(Step::Change),
        1 => Just(Step::RemoveAhead),
        1 => prop::bool::weighted(0.1).prop_map(|purge| if purge { Step::Purge } else { Step::Send }),
    ]
}

/// A scheduler, and the packets that it should have.
struct Run {
    classes: Classes,
    tree: Hierarchy,
    hvt: Hvt,
    /// By name, the handles in order.
    queued: BTreeMap<u32, VecDeque<u64>>,
    now: Nanos,
}

impl Run {
    fn new(classes: Classes) -> Self {
        let tree = classes.tree();
        Self { hvt: Hvt::new(&tree).unwrap(), tree, classes, queued: BTreeMap::new(), now: Nanos::ZERO }
    }

    /// Starts all clocks at `v`, as after a long time.
    fn begin_at(&mut self, v: u128) {
        for node in &mut *self.hvt.queues.nodes {
            (node.v, node.high) = (v as u64, (v >> 64) as u32);
        }
    }

    fn arrive(&mut self, name: u32, len: u32, handle: u64) -> ClassId {
        let id = self.classes.id(name).unwrap();
        self.hvt.enqueue(self.now, packet(id.0, len, handle), &mut never);
        self.queued.entry(name).or_default().push_back(handle);
        id
    }

    fn is_idle(&self, name: u32) -> bool {
        self.queued.get(&name).is_none_or(VecDeque::is_empty)
    }

    fn sent(&mut self, packet: &Packet) -> u32 {
        let name = self.classes.all[packet.class.index() - 1].name;
        assert_eq!(self.queued.get_mut(&name).unwrap().pop_front(), Some(packet.handle), "order of {name}");
        self.now = self.now.saturating_add(Nanos(u64::from(packet.len) * NS_PER_BYTE));
        name
    }

    /// Changes the classes. Returns the old tree and the heirs.
    fn change(&mut self, after: Classes) -> (Hierarchy, Vec<Option<ClassId>>, Vec<u64>) {
        let (tree, survivors) = (after.tree(), self.classes.survivors(&after));
        let mut dropped = Vec::new();
        let mut drops = |_: Nanos, packet: Packet, reason: DropReason| {
            assert_eq!((reason, survivors[packet.class.index()]), (DropReason::ClassRemoved, None));
            dropped.push(packet.handle);
        };
        let mut with = Hvt::new(&tree).unwrap();
        assert!(self.hvt.adopt(self.now, &mut with, &survivors, &mut drops));
        let mut expected = Vec::new();
        for class in self.classes.all.iter().filter(|class| self.classes.is_leaf(class.name)) {
            let stays = after.id(class.name).is_some() && after.is_leaf(class.name);
            if !stays {
                expected.extend(self.queued.remove(&class.name).unwrap_or_default());
            }
        }
        assert_eq!(dropped, expected);
        self.classes = after;
        (core::mem::replace(&mut self.tree, tree), survivors, dropped)
    }

    /// Returns the leaves whose tag is ahead of the clock of their parent.
    fn ahead(&self) -> Vec<u32> {
        let is_ahead = |name: &u32| lead(&self.hvt, self.classes.id(*name).unwrap()).1 > 0;
        self.classes.leaves().into_iter().filter(is_ahead).collect()
    }

    fn check(&self) {
        invariants(&self.hvt).unwrap();
        for class in self.classes.all.iter().filter(|class| self.classes.is_leaf(class.name)) {
            let queued = self.queued.get(&class.name).map_or(0, VecDeque::len) as u64;
            let id = self.classes.id(class.name).unwrap();
            assert_eq!(self.hvt.class_backlog(id).packets, queued, "packets of {}", class.name);
        }
    }
}

/// Begins of the clocks: a tag wraps soon, and the number of the era.
fn begin() -> impl Strategy<Value = u128> {
    prop_oneof![
        Just(0),
        Just(u128::from(u64::MAX) - (1 << 40)),
        Just((1u128 << 96) - (1 << 40)),
        (0u32..60).prop_map(|bits| u128::from(u64::MAX) - (1 << bits)),
    ]
}

/// Compares with the model, packet by packet.
fn compare_changes(edits: &[Edit], steps: &[Step], begin: u128) {
    let mut classes = Classes { all: Vec::new(), next: LINK_NAME };
    classes.add(0, LINK_NAME, 3, None);
    edits.iter().for_each(|edit| classes.change(edit));
    let mut run = Run::new(classes);
    let mut model = Model::new(&run.tree, &run.hvt);
    run.begin_at(begin);
    model.begin_at(begin);
    for (n, step) in (0..).zip(steps) {
        match step {
            Step::Arrive(leaf, len) => {
                let leaves = run.classes.leaves();
                let id = run.arrive(leaves[leaf % leaves.len()], *len, n);
                model.enqueue(run.now, id, *len, n);
            }
            Step::Send => {
                let next = run.hvt.dequeue(run.now, &mut never);
                model.follow_rates(&run.tree, &run.hvt);
                match (next, model.dequeue(run.now)) {
                    (Dequeued::Packet(packet), Next::Packet(class, handle)) => {
                        assert_eq!((packet.class, packet.handle), (class, handle), "step {n} of {:#?}", run.classes);
                        run.sent(&packet);
                    }
                    (Dequeued::WaitUntil(t), Next::WaitUntil(other)) => {
                        assert_eq!(t, other);
                        run.now = if n % 2 == 0 { t } else { run.now.saturating_add(Nanos(500)) };
                    }
                    (Dequeued::Idle, Next::Idle) => run.now = run.now.saturating_add(Nanos(500)),
                    (sent, expected) => panic!("{sent:?} instead of {expected:?} of {:#?}", run.classes),
                }
            }
            Step::Change(_) | Step::RemoveAhead => {
                let mut after = run.classes.clone();
                if let Step::Change(edits) = step {
                    edits.iter().for_each(|edit| after.change(edit));
                }
                if matches!(step, Step::RemoveAhead) {
                    run.ahead().into_iter().for_each(|name| after.remove(name));
                }
                let (before, survivors, dropped) = run.change(after);
                let expected = model.change(run.now, (&before, &run.tree), &survivors, &run.hvt);
                assert_eq!(dropped, expected);
            }
            Step::Purge => {
                run.hvt.purge(run.now, &mut |_, _, _| {});
                run.queued.clear();
                model.purge(&run.tree, &run.hvt);
            }
        }
        run.check();
    }
}

proptest! {
    #[test]
    fn it_does_what_the_model_does_while_classes_come_and_go(
        edits in prop::collection::vec(edit(), 0..12),
        steps in prop::collection::vec(step(), 1..300),
        begin in begin(),
    ) {
        compare_changes(&edits, &steps, begin);
    }
}

/// Returns a number below `below` that follows from the state.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// A leaf of any kind of queue, or an inner class of weight 5.
fn config_of(name: u32, leaf: bool) -> ClassConfig {
    let limits = |packets| QueueLimits { packets, bytes: 1 << 20 };
    let ceiling = (name % 5 == 1).then(|| Rate::from_bps(20_000_000 * u64::from(name)).unwrap());
    let config = ClassConfig { ceiling, ..weighted(if leaf { 1 + u64::from(name * 7 % 11) } else { 5 }) };
    match name % 4 {
        _ if !leaf => config,
        0 => ClassConfig { queue: QueueKind::CoDel, limits: limits(30), ..config },
        1 => ClassConfig { queue: QueueKind::FqCoDel, limits: limits(4), ..config },
        2 => ClassConfig { hosts: Hosts::new(3, HostKey::SourceIp), limits: limits(12), ..config },
        _ => ClassConfig { limits: limits(20), ..config },
    }
}

/// Two inner classes below the link, `count` leaves below them and the link, with ids in a random order; by id their
/// names.
fn renumbered(count: u32, push_out: bool, seed: &mut u64) -> (Hierarchy, Vec<u32>) {
    let when_full = if push_out { WhenFull::PushOut } else { WhenFull::DropArrival };
    let link = LinkConfig { when_full, max_queued: 200, ..LinkConfig::new(LINK) };
    let mut tree = Hierarchy::builder(link);
    let (mut names, mut left) = (alloc::vec![LINK_NAME], (1..=count).collect::<Vec<u32>>());
    while !left.is_empty() {
        let name = left.remove(random(seed, left.len() as u64) as usize);
        // 1 and 2 are inner classes; leaves that come before theirs are put off.
        let parent = if name <= 2 { 0 } else { name % 3 };
        let Some(at) = names.iter().position(|&other| other == parent) else {
            left.push(name);
            continue;
        };
        tree.add(ClassId(at as u32), config_of(name, name > 2)).unwrap();
        names.push(name);
    }
    (tree.build().unwrap(), names)
}

proptest! {
    #[test]
    fn other_ids_alone_change_nothing(
        (count, push_out, seed) in (6u32..90, any::<bool>(), any::<u64>()),
        steps in prop::collection::vec((any::<u32>(), any::<u8>()), 1..600),
    ) {
        let mut seed = seed;
        let (tree, names) = renumbered(count, push_out, &mut seed);
        let (mut one, mut other) = (Hvt::new(&tree).unwrap(), Hvt::new(&tree).unwrap());
        let (names, mut other_names) = (names.clone(), names);
        let mut now = Nanos::ZERO;
        let id = |names: &[u32], name: u32| ClassId(names.iter().position(|&other| other == name).unwrap() as u32);
        for (n, (value, kind)) in (0u64..).zip(steps) {
            let (mut dropped, mut other_dropped) = (Vec::new(), Vec::new());
            if kind % 16 == 0 {
                let (after, after_names) = renumbered(count, push_out, &mut seed);
                let heir = |name: &u32| (*name > 2).then(|| id(&after_names, *name));
                let survivors: Vec<_> = other_names.iter().map(heir).collect();
                let mut with = Hvt::new(&after).unwrap();
                prop_assert!(other.adopt(now, &mut with, &survivors, &mut never));
                other_names = after_names;
            } else if kind % 16 < 9 {
                let handle = flow_bits(value >> 8 & 7 | (value & 3) << 15) | n;
                // A few names have most packets, so that queues are long.
                let name = 3 + value % (count - 2) % if kind % 3 == 0 { 100 } else { 5 };
                let packet = |names: &[u32]| Packet { handle, len: 64 + value % 1437, class: id(names, name) };
                one.enqueue(now, packet(&names), &mut |_, packet: Packet, reason| {
                    dropped.push((names[packet.class.index()], packet.handle, reason));
                });
                other.enqueue(now, packet(&other_names), &mut |_, packet: Packet, reason| {
                    other_dropped.push((other_names[packet.class.index()], packet.handle, reason));
                });
            } else {
                let sent = one.dequeue(now, &mut |_, packet: Packet, reason| {
                    dropped.push((names[packet.class.index()], packet.handle, reason));
                });
                let other_sent = other.dequeue(now, &mut |_, packet: Packet, reason| {
                    other_dropped.push((other_names[packet.class.index()], packet.handle, reason));
                });
                match (sent, other_sent) {
                    (Dequeued::Packet(one), Dequeued::Packet(other)) => {
                        let name = |names: &[u32], packet: &Packet| (names[packet.class.index()], packet.handle);
                        prop_assert_eq!(name(&names, &one), name(&other_names, &other));
                        // So slow that CoDel drops.
                        now = now.saturating_add(Nanos(u64::from(one.len) * 1000));
                    }
                    (one, other) => {
                        prop_assert_eq!(one, other);
                        now = now.saturating_add(Nanos(u64::from(value) % 10_000_000));
                    }
                }
            }
            prop_assert_eq!(dropped, other_dropped);
            prop_assert_eq!(invariants(&other), Ok(()));
            prop_assert_eq!(one.backlog(), other.backlog());
        }
    }

    #[test]
    fn parents_of_few_and_of_many_children_keep_the_invariants_while_classes_come_and_go(
        (count, spread, begin) in (10usize..60, 0u32..12, begin()),
        steps in prop::collection::vec((step(), any::<u64>()), 1..300),
    ) {
        let mut classes = Classes { all: Vec::new(), next: LINK_NAME };
        let one = classes.add(0, LINK_NAME, 3, None);
        let weight = |value: u64| 1 + value.wrapping_mul(2_654_435_761) % (1 << spread);
        for at in 0..count {
            classes.add(at, if at % 3 == 0 { LINK_NAME } else { one }, weight(at as u64), None);
        }
        let mut run = Run::new(classes);
        run.begin_at(begin);
        for (n, (step, value)) in (0..).zip(steps) {
            let leaves = run.classes.leaves();
            match step {
                Step::Arrive(leaf, len) => {
                    // Several, so that many are backlogged.
                    for at in 0..4 {
                        run.arrive(leaves[(leaf * (at + 1)) % leaves.len()], len, 4 * n + at as u64);
                    }
                }
                Step::Send | Step::Purge => match run.hvt.dequeue(run.now, &mut never) {
                    Dequeued::Packet(packet) => _ = run.sent(&packet),
                    other => run.now = if let Dequeued::WaitUntil(at) = other { at } else { run.now },
                },
                Step::Change(_) => {
                    let mut after = run.classes.clone();
                    for at in 0..value % 30 {
                        let value = value.rotate_left(at as u32);
                        let ceiling = (value % 7 == 0).then_some(5_000_000 + value % 1_000_000_000);
                        let parent = if after.id(one).is_none() || value % 3 == 0 { LINK_NAME } else { one };
                        match value % 5 {
                            0 | 1 => _ = after.add((value >> 8) as usize % 100, parent, weight(value), ceiling),
                            _ => after.change(&Edit::Remove((value >> 8) as usize % 1000)),
                        }
                    }
                    run.change(after);
                }
                Step::RemoveAhead => {
                    let mut after = run.classes.clone();
                    run.ahead().into_iter().for_each(|name| after.remove(name));
                    run.change(after);
                }
            }
            run.check();
        }
    }

    #[test]
    fn siblings_and_delays_stay_within_their_bounds_while_others_come_and_go(
        steps in prop::collection::vec((any::<u64>(), 0u8..40), 200..1500),
    ) {
        // Below one class: two that are compared, one whose delay is, one that keeps the units, and 31 or less of
        // others.
        let mut classes = Classes { all: Vec::new(), next: LINK_NAME };
        let one = classes.add(0, LINK_NAME, 10, None);
        let rival = classes.add(1, LINK_NAME, 10, None);
        let [i, j, smooth, wide] = [2, 5, 3, 23].map(|weight| classes.add(9, one, weight, None));
        let mut run = Run::new(classes);
        let (mut others, mut sent) = (Vec::<(u32, u64)>::new(), BTreeMap::<u32, u64>::new());
        let (mut least, mut most) = (0f64, 0f64);
        let (mut arrivals, mut next_arrival, mut longest) = (VecDeque::new(), Nanos::ZERO, 0f64);
        // The largest sum of weights so far, with those that are gone and count.
        let (bits, mut widest) = (run.hvt.queues.sums[1].bits, 0f64);
        let bound_apart = |widest: f64, run: &Run| {
            let slacks = bounds::slacks(&run.tree).unwrap();
            let x = |name: u32| {
                let x = slacks[run.classes.id(name).unwrap().index()].unwrap();
                x.numerator as f64 / x.denominator as f64
            };
            x(i) / 2.0 + x(j) / 5.0 - 2.0 * 1500.0 / widest
        };
        // Theorem 2 for lists, with the least share that the leaf ever has; in ns, with 8 ns a byte.
        let bound_delay = |widest: f64| 8.0 * (1500.0 / (3.0 / widest / 2.0) + 1500.0 + 2.0 * 1500.0 / 0.5);
        for (n, (value, kind)) in (0..).zip(steps) {
            for name in [i, j, rival, wide] {
                if kind < 36 && run.is_idle(name) && (name != wide || value % 3 > 0) {
                    run.arrive(name, if value % 4 == 0 { 1 + (value >> 8) as u32 % 1500 } else { 1500 }, n);
                }
            }
            if run.now >= next_arrival {
                // A largest packet when the last one has passed at the least share.
                run.arrive(smooth, 1500, n);
                arrivals.push_back(run.now);
                next_arrival = run.now.saturating_add(Nanos(8 * 1500 * 2 * (widest.max(64.0) as u64 + 1) / 3));
            }
            let mut after = run.classes.clone();
            let weight = 1 + (value >> 3) % 6;
            match kind {
                // One that comes has packets at once.
                0..=5 if others.iter().map(|other| other.1).sum::<u64>() + weight <= 31 => {
                    let name = after.add((value >> 9) as usize % 100, one, weight, None);
                    run.change(after);
                    others.push((name, weight));
                    (0..1 + value % 3).for_each(|_| _ = run.arrive(name, 1500, n));
                }
                6..=9 if !others.is_empty() => {
                    let (name, _) = others.swap_remove((value >> 9) as usize % others.len());
                    after.remove(name);
                    run.change(after);
                }
                10 | 11 => {
                    let ahead = run.ahead();
                    others.retain(|other| !ahead.contains(&other.0));
                    let stays = [i, j, smooth, wide, rival];
                    ahead.into_iter().filter(|name| !stays.contains(name)).for_each(|name| after.remove(name));
                    run.change(after);
                }
                12..=19 if !others.is_empty() => {
                    run.arrive(others[(value >> 9) as usize % others.len()].0, 1500, n);
                }
                _ => {
                    if let Dequeued::Packet(packet) = run.hvt.dequeue(run.now, &mut never) {
                        let name = run.sent(&packet);
                        *sent.entry(name).or_default() += u64::from(packet.len);
                        if name == smooth {
                            longest = longest.max(run.now.saturating_sub(arrivals.pop_front().unwrap()).0 as f64);
                        }
                    }
                    // Their backlog goes on: the next packets come before the link is free.
                    for name in [i, j] {
                        if run.is_idle(name) {
                            run.arrive(name, 1500, n);
                        }
                    }
                    let service = |name: u32, weight: f64| sent.get(&name).map_or(0.0, |&bytes| bytes as f64 / weight);
                    let apart = service(i, 2.0) - service(j, 5.0);
                    (least, most) = (least.min(apart), most.max(apart));
                }
            }
            run.check();
            prop_assert_eq!(run.hvt.queues.sums[1].bits, bits, "other units");
            widest = widest.max((1u64 << bits) as f64 / run.hvt.queues.nodes[1].rate as f64);
            let (apart, delay) = (bound_apart(widest, &run), bound_delay(widest));
            prop_assert!(most - least <= apart, "{} of {apart}", most - least);
            prop_assert!(longest <= delay, "{longest} ns of {delay}");
        }
    }
}

/// Makes a leaf that has spent its ceiling, beside another one. Returns the scheduler and the time at which it may
/// send.
fn in_debt() -> (Hvt, Nanos) {
    let limited = ClassConfig { ceiling: Rate::from_bps(1_000_000).ok(), ceiling_burst: Some(0), ..weighted(1) };
    let mut hvt = Hvt::new(&flat([weighted(1), limited])).unwrap();
    (0..2).for_each(|n| hvt.enqueue(Nanos::ZERO, packet(2, 1500, n), &mut never));
    assert!(matches!(hvt.dequeue(Nanos::ZERO, &mut never), Dequeued::Packet(_)));
    let Dequeued::WaitUntil(at) = hvt.dequeue(Nanos::ZERO, &mut never) else { panic!("it is in debt") };
    (hvt, at)
}

#[test]
fn a_leaf_keeps_the_debt_of_its_ceiling_when_another_one_comes() {
    let (mut hvt, at) = in_debt();
    let limited = ClassConfig { ceiling: Rate::from_bps(1_000_000).ok(), ceiling_burst: Some(0), ..weighted(1) };
    let after = flat([weighted(1), weighted(1), limited]);
    let survivors = [None, Some(ClassId(2)), Some(ClassId(3))];
    // Until now packets were moved, and the debt was forgiven.
    let mut moved = Hvt::new(&after).unwrap();
    moved.enqueue(Nanos::ZERO, packet(3, 1500, 1), &mut never);
    assert!(matches!(moved.dequeue(Nanos::ZERO, &mut never), Dequeued::Packet(_)));
    assert!(hvt.adopt(Nanos(100), &mut Hvt::new(&after).unwrap(), &survivors, &mut never));
    invariants(&hvt).unwrap();
    assert_eq!(hvt.dequeue(Nanos(100), &mut never), Dequeued::WaitUntil(at));
    assert_eq!(hvt.dequeue(at, &mut never), Dequeued::Packet(packet(3, 1500, 1)));
}

#[test]
fn a_change_is_refused_unless_each_leaf_has_an_heir_of_its_own_with_a_queue_of_the_same_kind() {
    let (tree, codel) = (flat([weighted(1); 2]), ClassConfig { queue: QueueKind::CoDel, ..weighted(1) });
    let both = [None, Some(ClassId(1)), Some(ClassId(2))];
    let critical = ClassConfig { latency_critical: true, ..weighted(1) };
    for (after, survivors, can) in [
        (flat([weighted(1); 2]), both, true),
        (flat([weighted(1), weighted(3)]), both, true),
        (flat([weighted(1); 3]), [None, Some(ClassId(3)), None], true),
        (flat([weighted(1); 2]), [None, Some(ClassId(1)), Some(ClassId(1))], false),
        (flat([codel, weighted(1)]), both, false),
        (flat([codel, weighted(1)]), [None, Some(ClassId(2)), None], true),
        (flat([critical, weighted(1), weighted(1)]), [None, Some(ClassId(2)), Some(ClassId(3))], false),
        (flat([weighted(1); 2]).with_max_packet(1400).unwrap(), both, false),
    ] {
        let (mut hvt, mut with) = (Hvt::new(&tree).unwrap(), Hvt::new(&after).unwrap());
        hvt.enqueue(Nanos::ZERO, packet(1, 100, 7), &mut never);
        assert_eq!(hvt.adopt(Nanos::ZERO, &mut with, &survivors, &mut never), can, "{survivors:?}");
        let class = if can { survivors[1].unwrap().0 } else { 1 };
        assert_eq!(hvt.dequeue(Nanos::ZERO, &mut never), Dequeued::Packet(packet(class, 100, 7)));
        if !can {
            // What was refused is as it was made.
            with.enqueue(Nanos::ZERO, packet(1, 100, 8), &mut never);
            assert_eq!(with.dequeue(Nanos::ZERO, &mut never), Dequeued::Packet(packet(1, 100, 8)));
        }
    }
}

#[test]
fn a_subscriber_more_among_a_thousand_drops_nothing_and_no_leaf_loses_more_than_a_turn() {
    use crate::contract::{Leniency, Members, Scheduler};
    use crate::runtime::metered::{Metered, MeteredChange};
    use crate::runtime::reconfigure::Change;
    let info = &super::super::INFO;
    // Each tenth one has a ceiling, and is in debt after each packet. The new one is the 500th.
    let config = |n: u64| {
        let ceiling = Rate::from_bps(8_000_000).ok().filter(|_| n.is_multiple_of(10));
        ClassConfig { ceiling, ceiling_burst: ceiling.map(|_| 0), ..weighted(1 + n % 3) }
    };
    let before = flat((1..=1000).map(config));
    let after = flat((1..=500).map(config).chain([weighted(1)]).chain((501..=1000).map(config)));
    let survivors: Vec<_> = (0..=1000).map(|id| (id > 0).then_some(ClassId(id + u32::from(id > 500)))).collect();
    let make = |tree: &Hierarchy| {
        let inner = info.build(tree, Leniency::Refuse, Members::default()).unwrap();
        Metered::new(inner, tree).unwrap()
    };
    let (mut changed, mut other) = (make(&before), make(&before));
    let mut now = Nanos::ZERO;
    // By leaf, the packets that the one has sent less those of the other.
    let mut apart = alloc::vec![0i32; 1001];
    for n in 0..20_000u64 {
        let class = 1 + (n * 7919 % 1000) as u32;
        let is_later = n >= 10_000;
        if n == 10_000 {
            let change = Change { scheduler: info, tree: &after, leniency: Leniency::Refuse, survivors: &survivors };
            let change = MeteredChange::prepare(&change, Members::default()).unwrap();
            let queued = changed.backlog();
            drop(changed.commit(change, now, &mut never));
            assert_eq!(changed.backlog(), queued);
        }
        let id = if is_later { survivors[class as usize].unwrap().0 } else { class };
        changed.enqueue(now, packet(id, 1500, n), &mut never);
        other.enqueue(now, packet(class, 1500, n), &mut never);
        if n % 4 > 0 {
            for (scheduler, more) in [(&mut changed, 1), (&mut other, -1)] {
                let Dequeued::Packet(packet) = scheduler.dequeue(now, &mut never) else { panic!("packets are there") };
                // A handle is that of an arrival at a leaf.
                apart[1 + (packet.handle * 7919 % 1000) as usize] += more;
            }
            assert!(apart.iter().all(|apart| apart.abs() <= 1), "a leaf has lost or won more than a turn");
            now = now.saturating_add(Nanos(1500 * NS_PER_BYTE));
        }
        invariants(changed.inner()).unwrap();
    }
    let received = survivors.iter().flatten().map(|&class| changed.counters(class).received.packets).sum::<u64>();
    assert_eq!((received, changed.total().received.packets), (20_000, 20_000));
}

#[test]
fn a_class_is_restarted_where_deadlines_would_come_earlier_and_only_there() {
    // 9 and 10 are in one half octave of a wheel, whose distance is that of 9, if it is there.
    // 100 keeps the units.
    let leaves = |weights: &[u64]| flat(core::iter::once(&100).chain(weights).map(|&weight| weighted(weight)));
    let (mut with_nine, tens) = (alloc::vec![10; 31], [10; 30]);
    with_nine[30] = 9;
    let few = [10; 20];
    for (before, after, restarts) in [
        (&with_nine[..], &tens[..], true),
        (&tens, &with_nine, false),
        (&tens, &tens[..29], false),
        (&tens, &few, true),
        (&few, &tens, false),
    ] {
        let mut hvt = Hvt::new(&leaves(before)).unwrap();
        for n in 0..2 {
            (1..=before.len() as u32 + 1)
                .for_each(|class| hvt.enqueue(Nanos::ZERO, packet(class, 1500, n), &mut never));
        }
        (0..10).for_each(|_| assert!(matches!(hvt.dequeue(Nanos::ZERO, &mut never), Dequeued::Packet(_))));
        let survivors: Vec<_> = (0..=before.len() + 1)
            .map(|id| (1..=after.len() + 1).contains(&id).then_some(ClassId(id as u32)))
            .collect();
        // The last ones have not sent yet: they are behind the clock.
        let last = ClassId(before.len().min(after.len()) as u32 + 1);
        let (_, behind) = lead(&hvt, last);
        assert!(behind < 0);
        assert!(hvt.adopt(Nanos::ZERO, &mut Hvt::new(&leaves(after)).unwrap(), &survivors, &mut |_, _, _| {}));
        invariants(&hvt).unwrap();
        assert_eq!(lead(&hvt, last).1, if restarts { 0 } else { behind }, "{} to {}", before.len(), after.len());
    }
}
