//! Hierarchical max-min fair sharing in integers, for use while packets flow: the same rules as [`crate::hmm`], solved again
//! and again on one tree without allocating.
//!
//! Every allocation is a whole number of bit/s, rounded down. A class at depth d (1 below the root) gets at most the
//! exact allocation, and less than d bit/s below it: its parent's allocation is at most d - 1 bit/s short, a shortage
//! at the parent shrinks each child by at most the shortage, and rounding takes less than one more. With isolated
//! classes, a class with children gets the sum of theirs, with all their shortages.
//!
//! Overflow: requests above the capacity C count as C + 1, which changes no allocation, so that they stay below 2^41; a
//! product of a request (or C) and a weight (at most 10^12) stays below 2^81, and a sum of weights (at most 2 * 10^6 of
//! them) below 2^61.
//!
//! Cost: O(n log n) integer operations.

use fairlink_core::{ClassId, Hierarchy, Rate};

use crate::limits::Limits;
use crate::request::{Demand, Request};

const NO_LIMIT: u64 = u64::MAX;

/// The rate that [`Solver::scaled`] brings links to: requests stay below 2^41.
const SCALED_BPS: u64 = 1_000_000_000_000;

/// The solver's data of one class, contiguous in memory.
#[derive(Clone, Copy, Debug)]
struct Node {
    weight: u64,
    limit: u64,
    /// True if its limit is kept for it, used or not.
    kept: bool,
    parent: u32,
    /// Range of its children in `Solver::children`.
    children: (u32, u32),
}

/// Solves for one tree as often as needed; holds all the memory that takes.
#[derive(Clone, Debug)]
pub struct Solver {
    nodes: Vec<Node>,
    children: Vec<u32>,
    /// Demand of a class including reservations below it, and the claim that its parent shares by; capped at one above
    /// the capacity.
    wanted: Vec<u64>,
    claim: Vec<u64>,
    /// Maximum request of a leaf, if a rate is reserved for some class; otherwise empty.
    uses: Vec<u64>,
    allocation: Vec<u64>,
    /// Children of the class at hand, in the order in which they become satisfied.
    order: Vec<u32>,
}

impl Solver {
    /// Makes a solver for `tree`.
    #[must_use]
    pub fn new(tree: &Hierarchy) -> Self {
        let limits = Limits::for_tree(tree);
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
                limit: limits.get(class).map_or(NO_LIMIT, |limit| limit.bps),
                kept: limits.kept(class).is_some(),
                parent: tree.parent(class).unwrap_or(ClassId::ROOT).0,
                children: (start, children.len() as u32),
            });
        }
        let zeros = vec![0; nodes.len()];
        let order = Vec::with_capacity(widest);
        let uses = if limits.keeps() { zeros.clone() } else { Vec::new() };
        Self { nodes, children, wanted: zeros.clone(), claim: zeros.clone(), uses, allocation: zeros, order }
    }

    /// Makes a solver for a link that is faster than that of `tree` by a factor, including the limits. Rounding to
    /// whole bit/s then costs less. Returns the rate and the factor too.
    pub(crate) fn scaled(tree: &Hierarchy) -> (Self, Rate, u64) {
        let rate = tree.link().rate;
        let factor = (SCALED_BPS / rate.bps()).max(1);
        let capacity = Rate::from_bps(rate.bps() * factor).unwrap_or(rate);
        let factor = capacity.bps() / rate.bps();
        let mut solver = Self::new(tree);
        let limits = solver.nodes.iter_mut().map(|node| &mut node.limit).filter(|limit| **limit != NO_LIMIT);
        limits.for_each(|limit| *limit = limit.saturating_mul(factor));
        (solver, capacity, factor)
    }

    /// Limit of `class`, in bit/s; more than any rate if it has none.
    pub(crate) fn limit(&self, class: ClassId) -> u64 {
        self.nodes[class.index()].limit
    }

    /// Sets the limit of `class` to `bps`.
    pub(crate) fn set_limit(&mut self, class: ClassId, bps: u64) {
        self.nodes[class.index()].limit = bps;
    }

    /// Computes the rate of every class on a link of rate `capacity`, in bit/s, by class id, the root first.
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
        if !self.uses.is_empty() {
            self.use_parts();
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
            let asked = self.wanted[class].min(node.limit);
            if let Some(uses) = self.uses.get_mut(class) {
                *uses = asked;
            }
            self.claim[class] = if node.kept { node.limit.min(cap) } else { asked };
            let sum = &mut self.wanted[node.parent as usize];
            *sum = (*sum + self.claim[class]).min(cap);
        }
    }

    /// Reduces the parts of classes to their used rates, from the leaves up.
    fn use_parts(&mut self) {
        for class in (0..self.nodes.len()).rev() {
            let (start, end) = self.nodes[class].children;
            self.allocation[class] = if start < end {
                self.children[start as usize..end as usize].iter().map(|&child| self.allocation[child as usize]).sum()
            } else {
                self.allocation[class].min(self.uses[class])
            };
        }
    }

    /// Shares a class's allocation among its children.
    fn share(&mut self, class: usize, children: std::ops::Range<usize>) {
        let children = &self.children[children];
        let mut left = self.allocation[class];
        if self.wanted[class] <= left {
            for &child in children {
                self.allocation[child as usize] = self.claim[child as usize];
            }
            return;
        }
        let (nodes, request) = (&self.nodes, &self.claim);
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
