//! The rule of `docs/hvt.md` once more, with numbers that do not wrap and no queues: at each choice all classes are looked at.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::super::lateness::Lateness;
use super::super::{Hvt, scale};
use crate::contract::{ClassId, Hierarchy, Nanos};

/// Result of a dequeue.
#[derive(Debug)]
pub(super) enum Next {
    Packet(ClassId, u64),
    WaitUntil(Nanos),
    Idle,
}

/// A bucket in billionths of a bit.
#[derive(Clone, Debug)]
struct Tokens {
    rate: i128,
    depth: i128,
    level: i128,
    at: u64,
}

const BYTE: i128 = 8_000_000_000;

impl Tokens {
    fn new(rate: u64, depth: u64) -> Self {
        let depth = i128::from(depth) * BYTE;
        Self { rate: rate.into(), depth, level: depth, at: 0 }
    }

    fn refill(&mut self, now: Nanos) {
        self.level = (self.level + self.rate * i128::from(now.0 - self.at)).min(self.depth);
        self.at = now.0;
    }

    fn ready_at(&self) -> u64 {
        self.at
            + u64::try_from((-self.level).max(0).div_euclid(self.rate)).unwrap()
            + u64::from((-self.level).max(0).rem_euclid(self.rate) != 0)
    }
}

#[derive(Clone, Debug)]
struct Class {
    parent: usize,
    inverse: i128,
    /// Of an inner class: per byte, and how far its clock moves when no child is left.
    rate: i128,
    reach: i128,
    v: i128,
    /// Weights of children that are gone, until the clock is at the second.
    gone: (i128, i128),
    tag: i128,
    owes: i128,
    /// In the queue of its parent, since this count.
    queued: Option<u64>,
    /// Backlogged otherwise; idle with its last packet in transmission.
    waiting: bool,
    held: bool,
    ceiling: Option<Tokens>,
    blocked: bool,
    contract: Option<Tokens>,
    urgent: usize,
    ordinary: bool,
    packets: VecDeque<(u32, u64)>,
}

/// The rule.
#[derive(Debug)]
pub(super) struct Model {
    classes: Vec<Class>,
    leaves: Vec<bool>,
    largest: i128,
    urgent: VecDeque<usize>,
    last: Option<usize>,
    puts: u64,
    /// Inner classes, with their rates, that no longer count what is gone from the next dequeue on.
    let_go: Vec<(usize, i128)>,
}

const ROOT: usize = 0;

impl Model {
    /// Takes the units of tags, the distances of new starts and the rates of contracts from `hvt`, nothing else.
    pub(super) fn new(tree: &Hierarchy, hvt: &Hvt) -> Self {
        let lateness = Lateness::new(tree).unwrap();
        let largest = tree.link().max_packet;
        let class = |index: usize| {
            let (class, child) = (ClassId(index as u32), hvt.queues.child_of(ClassId(index as u32)));
            let levels = tree.depth(class) as u64;
            let node = (!tree.is_leaf(class)).then(|| &hvt.queues.nodes[child as usize]);
            let reach = (!tree.is_leaf(class)).then(|| 1 << hvt.queues.reaches[child as usize]);
            let config = tree.config(class);
            let critical = tree.is_leaf(class) && config.latency_critical;
            Class {
                parent: tree.parent(class).map_or(ROOT, ClassId::index),
                inverse: hvt.queues.member(child).inverse.into(),
                rate: node.map_or(0, |node| node.rate.into()),
                reach: reach.unwrap_or(0),
                v: 0,
                gone: (0, 0),
                tag: 0,
                owes: 0,
                queued: None,
                waiting: false,
                held: false,
                ceiling: config.ceiling.map(|rate| Tokens::new(rate.bps(), u64::from(largest) * (4 * levels + 1))),
                blocked: false,
                contract: critical
                    .then(|| Tokens::new(lateness.contract(class), config.burst.unwrap_or(largest.into()))),
                urgent: 0,
                ordinary: false,
                packets: VecDeque::new(),
            }
        };
        let classes = (0..tree.len()).map(class).collect();
        let leaves = (0..tree.len()).map(|index| tree.is_leaf(ClassId(index as u32))).collect();
        Self {
            classes,
            leaves,
            largest: largest.into(),
            urgent: VecDeque::new(),
            last: None,
            puts: 0,
            let_go: Vec::new(),
        }
    }

    /// Starts all clocks at `v`.
    pub(super) fn begin_at(&mut self, v: u128) {
        self.classes.iter_mut().for_each(|class| class.v = v as i128);
    }

    fn children(&self, class: usize) -> impl Iterator<Item = usize> {
        (1..self.classes.len()).filter(move |&child| self.classes[child].parent == class)
    }

    fn queued(&self, class: usize) -> impl Iterator<Item = usize> {
        self.children(class).filter(|&child| self.classes[child].queued.is_some())
    }

    fn is_any_queued(&self, class: usize) -> bool {
        self.queued(class).next().is_some()
    }

    fn is_any_waiting(&self, class: usize) -> bool {
        self.children(class).any(|child| self.classes[child].waiting)
    }

    fn put(&mut self, child: usize) {
        self.puts += 1;
        self.classes[child].queued = Some(self.puts);
    }

    fn lift(&mut self, child: usize) {
        let v = self.classes[self.classes[child].parent].v;
        self.classes[child].tag = v.max(self.classes[child].tag);
    }

    fn start_anew(&mut self, class: usize) {
        self.classes[class].v += self.classes[class].reach;
    }

    pub(super) fn enqueue(&mut self, now: Nanos, class: ClassId, len: u32, id: u64) {
        let leaf = class.index();
        let own = &mut self.classes[leaf];
        own.packets.push_back((len, id));
        if let Some(tokens) = &mut own.contract {
            tokens.refill(now);
            let cost = i128::from(len) * BYTE;
            if !own.ordinary && tokens.level >= cost {
                tokens.level -= cost;
                own.urgent += 1;
                return self.urgent.push_back(leaf);
            }
            own.ordinary = true;
            if own.urgent > 0 {
                return;
            }
        }
        if self.classes[leaf].queued.is_none() && !self.classes[leaf].waiting {
            self.rise(leaf);
        }
    }

    fn rise(&mut self, child: usize) {
        let parent = self.classes[child].parent;
        if self.classes[child].blocked {
            if !self.classes[child].waiting {
                let was_held = self.classes[child].held;
                (self.classes[child].waiting, self.classes[child].held) = (true, false);
                if !was_held {
                    self.wait(parent);
                }
            }
            return;
        }
        let was_ready = self.is_any_queued(parent);
        if !self.classes[child].held {
            self.lift(child);
        }
        (self.classes[child].waiting, self.classes[child].held) = (false, false);
        self.put(child);
        if parent != ROOT && !was_ready {
            self.rise(parent);
        }
    }

    /// Idle classes above a class that waits wait, too; held ones when they are settled.
    fn wait(&mut self, class: usize) {
        let own = &mut self.classes[class];
        if class == ROOT || own.waiting || own.queued.is_some() {
            return;
        }
        let was_held = own.held;
        (own.waiting, own.held) = (true, false);
        if !was_held {
            self.wait(self.classes[class].parent);
        }
    }

    pub(super) fn dequeue(&mut self, now: Nanos) -> Next {
        if let Some(last) = self.last.take() {
            self.settle(last);
        }
        if !self.is_any_queued(ROOT) {
            self.start_anew(ROOT);
        }
        for (class, rate) in core::mem::take(&mut self.let_go) {
            let own = &mut self.classes[class];
            assert!(own.gone.0 > 0 && own.v >= own.gone.1, "{class} forgets a child too early");
            (own.rate, own.gone) = (rate, (0, 0));
        }
        self.release(now);
        if let Some((leaf, id)) = self.send_urgent(now) {
            return Next::Packet(ClassId(leaf as u32), id);
        }
        let Some(leaf) = self.choose() else {
            let backlog = self.classes.iter().any(|class| !class.packets.is_empty());
            let blocked = self.classes.iter().filter(|class| class.blocked);
            let next = blocked.filter_map(|class| Some(class.ceiling.as_ref()?.ready_at())).min();
            return next.filter(|_| backlog).map_or(Next::Idle, |t| Next::WaitUntil(Nanos(t)));
        };
        let (len, id) = self.classes[leaf].packets.pop_front().expect("a packet");
        self.block(leaf, len, now);
        let mut held = self.classes[leaf].packets.is_empty();
        if held {
            self.last = Some(leaf);
            (self.classes[leaf].urgent, self.classes[leaf].ordinary) = (0, false);
        }
        let (mut child, mut ready) = (leaf, !held);
        while child != ROOT {
            let parent = self.classes[child].parent;
            let inverse = self.classes[child].inverse;
            self.classes[child].tag += i128::from(len) * inverse;
            self.classes[parent].v += i128::from(len) * self.classes[parent].rate;
            self.classes[child].queued = None;
            held &= !ready;
            if ready && !self.classes[child].blocked {
                self.put(child);
            } else if held {
                self.classes[child].held = true;
            } else {
                self.classes[child].waiting = true;
                if !ready {
                    self.start_anew(child);
                }
            }
            (child, ready) = (parent, self.is_any_queued(parent));
        }
        Next::Packet(ClassId(leaf as u32), id)
    }

    fn settle(&mut self, leaf: usize) {
        self.classes[leaf].held = false;
        let mut class = self.classes[leaf].parent;
        while class != ROOT {
            if core::mem::take(&mut self.classes[class].held) {
                self.start_anew(class);
                self.classes[class].waiting = self.is_any_waiting(class);
            }
            class = self.classes[class].parent;
        }
    }

    fn block(&mut self, leaf: usize, len: u32, now: Nanos) {
        let mut class = leaf;
        while class != ROOT {
            let own = &mut self.classes[class];
            if let Some(tokens) = &mut own.ceiling {
                tokens.refill(now);
                tokens.level -= i128::from(len) * BYTE;
                own.blocked |= tokens.level < 0;
            }
            class = own.parent;
        }
    }

    /// In the order in which buckets are out of debt, then of classes.
    fn release(&mut self, now: Nanos) {
        loop {
            let due = |class: &usize| self.classes[*class].blocked;
            let at = |class: usize| self.classes[class].ceiling.as_ref().expect("a ceiling").ready_at();
            let next = (1..self.classes.len()).filter(due).map(|class| (at(class), class)).min();
            let Some((_, class)) = next.filter(|&(at, _)| at <= now.0) else { return };
            self.classes[class].blocked = false;
            let ready = if self.leaves[class] { self.has_turns(class) } else { self.is_any_queued(class) };
            if self.classes[class].waiting && ready {
                self.rise(class);
            }
        }
    }

    fn has_turns(&self, leaf: usize) -> bool {
        !self.classes[leaf].packets.is_empty() && self.classes[leaf].urgent == 0
    }

    fn send_urgent(&mut self, now: Nanos) -> Option<(usize, u64)> {
        while let Some(leaf) = self.urgent.pop_front() {
            if self.classes[leaf].urgent == 0 {
                continue;
            }
            self.classes[leaf].urgent -= 1;
            let mut path = core::iter::successors(Some(leaf), |&class| Some(self.classes[class].parent));
            if path.by_ref().take_while(|&class| class != ROOT).any(|class| self.classes[class].blocked) {
                (self.classes[leaf].urgent, self.classes[leaf].ordinary) = (0, true);
                self.take_turns(leaf);
                continue;
            }
            let (len, id) = self.classes[leaf].packets.pop_front().expect("a packet");
            self.block(leaf, len, now);
            let mut child = leaf;
            while child != ROOT {
                let parent = self.classes[child].parent;
                if self.is_any_queued(parent) {
                    let units = i128::from(len) * self.classes[child].inverse;
                    if self.classes[child].queued.is_some() {
                        self.classes[child].owes += units;
                    } else {
                        self.lift(child);
                        self.classes[child].tag += units;
                    }
                    self.classes[parent].v += i128::from(len) * self.classes[parent].rate;
                }
                child = parent;
            }
            if self.classes[leaf].packets.is_empty() {
                (self.classes[leaf].urgent, self.classes[leaf].ordinary) = (0, false);
            } else if self.classes[leaf].urgent == 0 {
                self.classes[leaf].ordinary = true;
                self.take_turns(leaf);
            }
            return Some((leaf, id));
        }
        None
    }

    fn take_turns(&mut self, leaf: usize) {
        if self.has_turns(leaf) && self.classes[leaf].queued.is_none() && !self.classes[leaf].waiting {
            self.rise(leaf);
        }
    }

    /// Takes the rates that the classes of `hvt` have after a dequeue that is still to come here.
    pub(super) fn follow_rates(&mut self, tree: &Hierarchy, hvt: &Hvt) {
        for class in scale::parents(tree).map(ClassId::index) {
            let rate = i128::from(hvt.queues.nodes[hvt.queues.child_of(ClassId(class as u32)) as usize].rate);
            if rate != self.classes[class].rate {
                self.let_go.push((class, rate));
            }
        }
    }

    /// Forgets everything but the time.
    pub(super) fn purge(&mut self, tree: &Hierarchy, hvt: &Hvt) {
        let tokens: Vec<Option<Tokens>> = self.classes.iter().map(|class| class.ceiling.clone()).collect();
        *self = Self::new(tree, hvt);
        for (class, was) in self.classes.iter_mut().zip(tokens) {
            if let (Some(tokens), Some(was)) = (&mut class.ceiling, was) {
                tokens.at = was.at;
            }
        }
    }

    /// Returns by class of `after` the inner class of `before` that it was: a leaf that stays keeps its parents, the
    /// first one decides.
    fn twins(before: &Hierarchy, after: &Hierarchy, survivors: &[Option<ClassId>]) -> Vec<Option<usize>> {
        let mut twins = alloc::vec![None; after.len()];
        twins[ROOT] = Some(ROOT);
        let mut offers: Vec<(usize, usize)> = Vec::new();
        for old in before.leaves() {
            if let Some(new) = survivors[old.index()] {
                offers.push((before.parent(*old).unwrap().index(), after.parent(new).unwrap().index()));
            }
        }
        let take = |twins: &mut Vec<Option<usize>>, (old, new): (usize, usize)| {
            if old != ROOT && new != ROOT && twins[new].is_none() && !twins.contains(&Some(old)) {
                twins[new] = Some(old);
            }
        };
        offers.into_iter().for_each(|offer| take(&mut twins, offer));
        for new in after.classes().rev().filter(|&class| !after.is_leaf(class)) {
            if let Some(old) = twins[new.index()] {
                let parent = before.parent(ClassId(old as u32)).unwrap().index();
                take(&mut twins, (parent, after.parent(new).unwrap().index()));
            }
        }
        twins
    }

    /// Changes the classes, as docs/hvt.md says. Takes the units from `hvt`, which has changed. Returns the packets
    /// that are dropped.
    pub(super) fn change(
        &mut self,
        now: Nanos,
        (before, after): (&Hierarchy, &Hierarchy),
        survivors: &[Option<ClassId>],
        hvt: &Hvt,
    ) -> Vec<u64> {
        let mut twins = Self::twins(before, after, survivors);
        for (old, new) in survivors.iter().enumerate() {
            if let Some(new) = new {
                twins[new.index()] = Some(old);
            }
        }
        let heir = |old: usize| twins.iter().position(|&twin| twin == Some(old));
        let is_in_place = |new: usize| {
            let parents = twins[new].map(|old| (self.classes[old].parent, after.parent(ClassId(new as u32))));
            parents.is_some_and(|(old, parent)| twins[parent.unwrap().index()] == Some(old))
        };
        if let Some(last) = self.last {
            let path = core::iter::successors(Some(last), |&class| Some(self.classes[class].parent));
            let stays = path.take_while(|&class| class != ROOT).all(|class| heir(class).is_some_and(is_in_place));
            if !stays {
                self.last = None;
                self.settle(last);
                if !self.is_any_queued(ROOT) {
                    self.start_anew(ROOT);
                }
            }
        }
        let scale = |tree: &Hierarchy, class: usize| scale::Scale::new(tree, ClassId(class as u32)).unwrap();
        let mut new = Self::new(after, hvt);
        new.puts = self.puts;
        let mut dropped = Vec::new();
        for old in before.leaves().iter().filter(|old| survivors[old.index()].is_none()) {
            dropped.extend(self.classes[old.index()].packets.drain(..).map(|(_, id)| id));
        }
        let heir = |old: usize| twins.iter().position(|&twin| twin == Some(old));
        let is_in_place = |new: usize| {
            let parents = twins[new].map(|old| (self.classes[old].parent, after.parent(ClassId(new as u32))));
            parents.is_some_and(|(old, parent)| twins[parent.unwrap().index()] == Some(old))
        };
        let mut sums = Vec::new();
        for parent in scale::parents(after).map(ClassId::index) {
            let Some(twin) = twins[parent] else { continue };
            new.classes[parent].v = self.classes[twin].v;
            let (units, was) = (scale(after, parent), scale(before, twin));
            let mut children: Vec<usize> = new.children(parent).filter(|&child| is_in_place(child)).collect();
            let restarts = units.bits != was.bits
                || children
                    .iter()
                    .any(|&child| new.classes[child].inverse != self.classes[twins[child].unwrap()].inverse);
            // Those with equal tags from now on leave in the order that they had.
            children.sort_by_key(|&child| {
                let old = &self.classes[twins[child].unwrap()];
                (old.inverse, old.tag, old.queued)
            });
            for &child in &children {
                let (v, old_rate) = (self.classes[twin].v, self.classes[twin].rate);
                let old = &self.classes[twins[child].unwrap()];
                let own = &mut new.classes[child];
                (own.tag, own.queued, own.waiting, own.held) = (old.tag, old.queued, old.waiting, old.held);
                if restarts {
                    let most = (own.inverse - i128::from(units.rate)) * self.largest;
                    let ahead = (old.tag - v).max(0) * i128::from(units.rate) / old_rate;
                    own.tag = v + ahead.min(most);
                    new.puts += 1;
                    own.queued = old.queued.map(|_| new.puts);
                }
            }
            let mut gone = (0, 0);
            for old in self.children(twin).filter(|&old| !restarts && !heir(old).is_some_and(is_in_place)) {
                let Class { tag, inverse, .. } = self.classes[old];
                if tag > self.classes[twin].v {
                    gone = (gone.0 + ((1i128 << units.bits) + inverse - 1) / inverse, gone.1.max(tag));
                }
            }
            sums.push((parent, units, gone, if restarts { (0, 0) } else { self.classes[twin].gone }));
        }
        for (class, own) in new.classes.iter_mut().enumerate().skip(1) {
            let Some(old) = twins[class].map(|old| &self.classes[old]) else { continue };
            own.packets = old.packets.clone();
            if let (Some(mine), Some(theirs)) = (&mut own.ceiling, &old.ceiling) {
                let mut tokens = theirs.clone();
                tokens.refill(now);
                (tokens.rate, tokens.depth) = (mine.rate, mine.depth);
                tokens.level = tokens.level.min(tokens.depth);
                *mine = tokens;
                own.blocked = old.blocked;
            }
        }
        for class in 1..new.classes.len() {
            let parent = new.classes[class].parent;
            if !is_in_place(class) {
                new.classes[class].tag = new.classes[parent].v;
            }
        }
        new.last = self.last.map(|last| survivors[last].unwrap().index());
        for class in (1..new.classes.len()).rev().filter(|&class| !after.is_leaf(ClassId(class as u32))) {
            let ready = new.is_any_queued(class);
            let held = new.children(class).any(|child| new.classes[child].held);
            let waiting = new.is_any_waiting(class);
            let was = new.classes[class].clone();
            if was.queued.is_some() && !ready && !held {
                new.start_anew(class);
            }
            let own = &mut new.classes[class];
            own.queued = was.queued.filter(|_| ready);
            own.waiting = was.waiting && (ready || waiting);
            own.held = (was.held || was.queued.is_some() || was.waiting) && !ready && held && !own.waiting;
            own.waiting |= was.queued.is_some() && !ready && !held && waiting;
        }
        let leaves = (1..new.classes.len()).filter(|&class| new.leaves[class]);
        let nodes = (1..new.classes.len()).rev().filter(|&class| !new.leaves[class]);
        for class in leaves.chain(nodes).collect::<Vec<_>>() {
            let own = &new.classes[class];
            let ready = if new.leaves[class] { !own.packets.is_empty() } else { new.is_any_queued(class) };
            let is_off = own.queued.is_none() && !own.waiting && !own.held;
            if ready && (is_off || own.waiting && !own.blocked) {
                new.rise(class);
            } else if is_off && new.is_any_waiting(class) {
                new.wait(class);
            }
        }
        if new.last.is_none() && !new.is_any_queued(ROOT) {
            new.start_anew(ROOT);
        }
        for (parent, units, gone, before) in sums {
            // What the clock has reached may count for longer than it has to.
            let all = (gone.0 + before.0, gone.1.max(before.1));
            let own = &mut new.classes[parent];
            let counted = [all, gone, (0, 0)]
                .into_iter()
                .find(|counted| (1i128 << units.bits) / (i128::from(units.weight) + counted.0) == own.rate);
            own.gone = counted.expect("a sum of weights");
            let forgotten = if own.gone == all {
                0
            } else if own.gone == gone {
                before.1
            } else {
                all.1
            };
            assert!(forgotten <= own.v, "class {parent} forgets a child too early");
        }
        *self = new;
        dropped
    }

    fn choose(&mut self) -> Option<usize> {
        let mut class = ROOT;
        while !self.leaves[class] {
            let first = self.queued(class).map(|child| self.classes[child].tag).min();
            let Some(first) = first else {
                // None of its children can be served, so it waits.
                self.start_anew(class);
                if class == ROOT {
                    return None;
                }
                (self.classes[class].queued, self.classes[class].waiting) = (None, true);
                class = self.classes[class].parent;
                continue;
            };
            self.classes[class].v = self.classes[class].v.max(first);
            let v = self.classes[class].v;
            let eligible = self.queued(class).filter(|&child| self.classes[child].tag <= v);
            let deadline = |child: usize| {
                let own = &self.classes[child];
                (own.tag + self.largest * own.inverse, own.inverse, own.queued)
            };
            let child = eligible.min_by_key(|&child| deadline(child))?;
            let own = &mut self.classes[child];
            let owed = core::mem::take(&mut own.owes);
            own.tag += owed;
            if own.blocked {
                (own.queued, own.waiting) = (None, true);
            } else if owed > 0 {
                self.put(child);
            } else {
                class = child;
            }
        }
        Some(class)
    }
}
