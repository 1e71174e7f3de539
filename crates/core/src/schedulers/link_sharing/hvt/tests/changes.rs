//! Classes that come and go while packets are queued.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::*;

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
