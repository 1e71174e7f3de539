//! Hierarchical max-min fair sharing in integers, for use while packets flow: the same rules as [`crate::hmm`], solved again
//! and again on one tree without allocating.
//!
//! Every allocation is a whole number of bit/s, rounded down. A class at depth d (1 below the root) gets at most the exact
//! allocation and less than d bit/s below it: its parent's allocation is at most d - 1 bit/s short, a shortage at the
//! parent shrinks each child by at most the shortage, and rounding takes less than one more.
//!
//! Overflow: requests above the capacity C count as C + 1, which changes no allocation, so that they stay below 2^41; a
//! product of a request (or C) and a weight (at most 10^12) stays below 2^81, and a sum of weights (at most 2 * 10^6 of
//! them) below 2^61.
//!
//! Cost: O(n log n) integer operations.

use fairlink_core::{ClassId, Hierarchy, Rate};

use crate::request::{Demand, Request};

const NO_CEILING: u64 = u64::MAX;

/// What is read of one class when solving, side by side in memory.
#[derive(Clone, Copy, Debug)]
struct Node {
    weight: u64,
    ceiling: u64,
    parent: u32,
    /// Range of its children in `Solver::children`.
    children: (u32, u32),
}

/// Solves for one tree as often as needed; holds all the memory that takes.
#[derive(Clone, Debug)]
pub struct Solver {
    nodes: Vec<Node>,
    children: Vec<u32>,
    /// What a class wants and what it asks for, capped at one above the capacity.
    wanted: Vec<u64>,
    request: Vec<u64>,
    allocation: Vec<u64>,
    /// Children of the class at hand, in the order in which they become satisfied.
    order: Vec<u32>,
}

impl Solver {
    /// A solver for `tree`.
    #[must_use]
    pub fn new(tree: &Hierarchy) -> Self {
        let mut nodes = Vec::with_capacity(tree.len());
        let mut children = Vec::with_capacity(tree.len());
        let mut widest = 0;
        for index in 0..tree.len() {
            let class = ClassId(index as u32);
            let start = children.len() as u32;
            children.extend(tree.children(class).iter().map(|child| child.0));
            widest = widest.max(tree.children(class).len());
            nodes.push(Node {
                weight: tree.weight(class),
                ceiling: tree.config(class).ceiling.map_or(NO_CEILING, Rate::bps),
                parent: tree.parent(class).unwrap_or(ClassId::ROOT).0,
                children: (start, children.len() as u32),
            });
        }
        let zeros = vec![0; nodes.len()];
        let order = Vec::with_capacity(widest);
        Self { nodes, children, wanted: zeros.clone(), request: zeros.clone(), allocation: zeros, order }
    }

    /// Gives a class another ceiling from the next call on; `None` for none.
    ///
    /// # Panics
    /// When there is no such class.
    pub fn set_ceiling(&mut self, class: ClassId, ceiling: Option<Rate>) {
        self.nodes[class.index()].ceiling = ceiling.map_or(NO_CEILING, Rate::bps);
    }

    /// What every class gets of a link of rate `capacity`, in bit/s, by class id, the root first.
    ///
    /// # Panics
    /// When `demand` was made for a tree of another size.
    pub fn solve(&mut self, capacity: Rate, demand: &Demand) -> &[u64] {
        demand.assert_for(self.nodes.len());
        self.collect(capacity.bps() + 1, demand);
        self.allocation[0] = self.wanted[0].min(capacity.bps());
        for class in 0..self.nodes.len() {
            let (start, end) = self.nodes[class].children;
            if start < end {
                self.share(class, start as usize..end as usize);
            }
        }
        &self.allocation
    }

    /// Requests from the leaves up; children come after their parent.
    fn collect(&mut self, cap: u64, demand: &Demand) {
        self.wanted.fill(0);
        for class in (1..self.nodes.len()).rev() {
            match demand.get(ClassId(class as u32)) {
                Some(Request::Rate(rate)) => self.wanted[class] = rate.min(cap),
                Some(Request::Unlimited) => self.wanted[class] = cap,
                None => {}
            }
            let node = &self.nodes[class];
            self.request[class] = self.wanted[class].min(node.ceiling);
            let sum = &mut self.wanted[node.parent as usize];
            *sum = (*sum + self.request[class]).min(cap);
        }
    }

    /// Shares a class's allocation among its children.
    fn share(&mut self, class: usize, children: std::ops::Range<usize>) {
        let children = &self.children[children];
        let mut left = self.allocation[class];
        if self.wanted[class] <= left {
            for &child in children {
                self.allocation[child as usize] = self.request[child as usize];
            }
            return;
        }
        let (nodes, request) = (&self.nodes, &self.request);
        let product = |rate: u64, weight: u64| u128::from(rate) * u128::from(weight);
        self.order.clear();
        self.order.extend_from_slice(children);
        // Ties may fall in any order: they are satisfied together or not at all.
        self.order.sort_unstable_by(|&a, &b| {
            let (a, b) = (a as usize, b as usize);
            product(request[a], nodes[b].weight).cmp(&product(request[b], nodes[a].weight))
        });
        let mut weights: u64 = children.iter().map(|&child| nodes[child as usize].weight).sum();
        let mut at = 0;
        for &child in &self.order {
            let child = child as usize;
            if product(request[child], weights) > product(left, nodes[child].weight) {
                break;
            }
            self.allocation[child] = request[child];
            left -= request[child];
            weights -= nodes[child].weight;
            at += 1;
        }
        for &child in &self.order[at..] {
            let child = child as usize;
            self.allocation[child] = (product(left, nodes[child].weight) / u128::from(weights)) as u64;
        }
    }
}
