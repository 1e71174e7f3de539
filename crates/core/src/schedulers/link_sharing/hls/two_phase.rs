//! HLS in its first form, as a reference for the scheduler: by Lemma 1 of [hls] both send packets in the same order. It
//! is neither fast nor bounded in memory, and it is not in this crate's registry.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::weights::{CREDITS_PER_BYTE, RunWeights};
use super::{Rounds, sorting};
use crate::contract::{ClassId, Hierarchy, OutOfMemory};

/// The scheduler of Section V-A, written from the equations, for clarity only. Every round starts with a replenishment
/// phase over all classes, top down, and then visits every active leaf. It shares with `Hls` only the order of visits,
/// which the paper leaves open.
#[derive(Clone, Debug)]
pub struct TwoPhase {
    parent: Vec<usize>,
    weight: Vec<i128>,
    leaf: Vec<bool>,
    largest: i128,
    queues: Vec<VecDeque<(u64, u32)>>,
    balance: Vec<i128>,
    residual: Vec<i128>,
    active: Vec<bool>,
    active_children: Vec<Vec<usize>>,
    list: Vec<usize>,
    pending: Vec<usize>,
    went_idle_below: Vec<usize>,
    visits: VecDeque<usize>,
    may_send: usize,
    main: bool,
    rounds: Rounds,
    /// Leaves by visit, until they are taken.
    visited: Vec<ClassId>,
    serving: bool,
    /// True if the order of visits is sorted as that of a large tree is.
    sorts: bool,
    /// Leaves that are new in `list` since the latest main round began.
    new: usize,
}

impl TwoPhase {
    /// Makes a scheduler for `tree`, without its ceilings and latency-critical leaves.
    ///
    /// # Errors
    /// Fails if there is no memory for the weights.
    pub fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let n = tree.len();
        let weights = RunWeights::for_tree(tree)?;
        let ids = || (0..n).map(|id| ClassId(id as u32));
        Ok(Self {
            parent: ids().map(|id| tree.parent(id).map_or(0, ClassId::index)).collect(),
            weight: ids().map(|id| i128::from(weights.credits(id))).collect(),
            leaf: ids().map(|id| tree.is_leaf(id)).collect(),
            largest: i128::from(tree.link().max_packet) * i128::from(CREDITS_PER_BYTE),
            queues: (0..n).map(|_| VecDeque::new()).collect(),
            balance: vec![0; n],
            residual: vec![0; n],
            active: vec![false; n],
            active_children: vec![Vec::new(); n],
            list: Vec::new(),
            pending: Vec::new(),
            went_idle_below: Vec::new(),
            visits: VecDeque::new(),
            may_send: 0,
            main: false,
            rounds: Rounds::default(),
            visited: Vec::new(),
            serving: false,
            sorts: sorting::sorts(tree),
            new: 0,
        })
    }

    /// Sorts visits in the order of a large tree.
    #[cfg(test)]
    pub(super) fn sorted(self) -> Self {
        Self { sorts: true, ..self }
    }

    /// Returns the sum of balances and residuals: Q* by equation (12).
    #[must_use]
    pub fn credits(&self) -> i128 {
        self.balance.iter().chain(&self.residual).sum()
    }

    /// Returns the number of rounds.
    #[must_use]
    pub fn rounds(&self) -> Rounds {
        self.rounds
    }

    /// Returns the leaves visited since the last call, in order, including those that sent nothing.
    pub fn take_visits(&mut self) -> Vec<ClassId> {
        core::mem::take(&mut self.visited)
    }

    /// Queues a packet of `len` bytes at a leaf.
    ///
    /// # Panics
    /// For a class that does not exist.
    pub fn enqueue(&mut self, class: ClassId, handle: u64, len: u32) {
        let class = class.index();
        self.queues[class].push_back((handle, len));
        if !self.active[class] && !self.pending.contains(&class) {
            self.pending.push(class);
        }
    }

    fn active_weight(&self, class: usize) -> i128 {
        self.active_children[class].iter().map(|&child| self.weight[child]).sum()
    }

    fn set_active(&mut self, class: usize) {
        self.active[class] = true;
        self.residual[0] += self.weight[class] + if self.leaf[class] { self.largest } else { 0 };
        let parent = self.parent[class];
        self.active_children[parent].push(class);
        if parent != 0 && !self.active[parent] {
            self.set_active(parent);
        }
    }

    fn set_idle(&mut self, class: usize) {
        let parent = self.parent[class];
        self.active[class] = false;
        self.residual[parent] += self.balance[class] + self.residual[class];
        (self.balance[class], self.residual[class]) = (0, 0);
        self.residual[0] -= self.weight[class] + if self.leaf[class] { self.largest } else { 0 };
        self.active_children[parent].retain(|&child| child != class);
        let waits = |mut leaf: usize| {
            while leaf != 0 && leaf != parent {
                leaf = self.parent[leaf];
            }
            leaf == parent
        };
        if parent == 0 {
        } else if self.active_children[parent].is_empty() && !self.pending.iter().any(|&leaf| waits(leaf)) {
            self.set_idle(parent);
        } else if !self.went_idle_below.contains(&parent) {
            self.went_idle_below.push(parent);
        }
    }

    fn leaves_below(&self, class: usize, into: &mut VecDeque<usize>) {
        for &child in &self.active_children[class] {
            if self.leaf[child] { into.push_back(child) } else { self.leaves_below(child, into) }
        }
    }

    fn replenish(&mut self, class: usize) {
        let fair = if class == 0 && !self.main {
            0
        } else {
            self.balance[class] += core::mem::take(&mut self.residual[class]);
            self.balance[class].max(0) / self.active_weight(class)
        };
        for child in self.active_children[class].clone() {
            self.balance[class] -= fair * self.weight[child];
            self.balance[child] += fair * self.weight[child];
            if !self.leaf[child] {
                self.replenish(child);
            }
        }
    }

    fn start_round(&mut self) -> bool {
        for class in core::mem::take(&mut self.pending) {
            if !self.list.contains(&class) {
                self.list.push(class);
                self.new += 1;
            }
            self.set_active(class);
        }
        if self.active_children[0].is_empty() {
            self.list.clear();
            self.new = 0;
            self.went_idle_below.clear();
            return false;
        }
        let has_surplus = |class: usize| {
            class != 0
                && self.active[class]
                && !self.leaf[class]
                && self.balance[class] + self.residual[class] >= self.active_weight(class)
        };
        let surplus: Vec<usize> = (0..self.parent.len()).filter(|&class| has_surplus(class)).collect();
        assert!(surplus.iter().all(|class| self.went_idle_below.contains(class)), "a surplus that no child left");
        self.main = surplus.is_empty();
        let mut visits = VecDeque::new();
        if self.main {
            if sorting::is_worth(core::mem::take(&mut self.new), self.list.len()) && self.sorts {
                self.list.sort_unstable();
            }
            // A leaf that went idle in a surplus round keeps its place in the order of visits if it is back by now.
            self.list.retain(|&class| self.active[class]);
            self.rounds.main += 1;
        } else {
            self.rounds.surplus += 1;
            for &class in self.went_idle_below.iter().filter(|class| surplus.contains(class)) {
                let mut above = self.parent[class];
                while above != 0 && !surplus.contains(&above) {
                    above = self.parent[above];
                }
                if above == 0 {
                    self.leaves_below(class, &mut visits);
                }
            }
        }
        self.may_send = if self.main { self.list.len() } else { visits.len() };
        let rest: Vec<usize> =
            self.list.iter().copied().filter(|class| self.active[*class] && !visits.contains(class)).collect();
        visits.extend(rest);
        self.visits = visits;
        self.went_idle_below.clear();
        self.replenish(0);
        true
    }

    /// Removes the next packet and returns its class and its handle.
    ///
    /// # Panics
    /// If a leaf could send that HLS would not visit.
    pub fn dequeue(&mut self) -> Option<(ClassId, u64)> {
        loop {
            let Some(&class) = self.visits.front() else {
                if self.start_round() {
                    continue;
                }
                return None;
            };
            if !core::mem::replace(&mut self.serving, true) {
                self.visited.push(ClassId(class as u32));
            }
            let (handle, len) = self.queues[class][0];
            let cost = i128::from(len) * i128::from(CREDITS_PER_BYTE);
            if cost > self.balance[class] {
                self.visits.pop_front();
                self.serving = false;
                self.may_send = self.may_send.saturating_sub(1);
                continue;
            }
            assert!(self.may_send > 0, "a leaf that Hls does not visit in a surplus round could send");
            self.queues[class].pop_front();
            self.balance[class] -= cost;
            self.balance[0] += cost;
            if self.queues[class].is_empty() {
                self.visits.pop_front();
                self.serving = false;
                self.may_send -= 1;
                if self.main {
                    self.list.retain(|&listed| listed != class);
                }
                self.set_idle(class);
            }
            return Some((ClassId(class as u32), handle));
        }
    }
}
