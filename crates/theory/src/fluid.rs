//! Lag of a link behind a fluid ideal, measured online: the maximum of the ideal's service of a class minus the link's.
//!
//! * [`GpsMeter`]: generalized processor sharing, \[pgps\]: all backlogged leaves are served simultaneously, in
//!   proportion to their shares of the link. Flat: unused bandwidth of a leaf goes to all. Virtual time as in \[pgps\];
//!   O(log leaves) per packet.
//! * [`HmmMeter`]: hierarchical max-min sharing, \[hls\] Theorem 1, solved again whenever a leaf becomes backlogged or idle in it; with the limits of the
//!   tree. O(classes log classes) per such change, O(busy leaves) per packet.
//!
//! Both are given the same packets. A packet that is dropped is taken from the ideal too, as far as that has not served it yet.
//!
//! **Time of the largest lag.** The ideal serves no class faster than the link sends one of its packets. So the lag of
//! a class grows until one of its packets begins, and is evaluated then, and at the end.
//!
//! **Accuracy.** The lag is the backlog of the link minus that of the ideal, whole bits minus a float. Floats are reset
//! whenever a class of the ideal becomes idle, so that the error is below a byte if that happens once in 10^9 packets.
//! HMM shares are the integers of [`Solver`], at least 10^-12 of the link short for each level.

use std::collections::BTreeSet;

use fairlink_core::{ClassId, Hierarchy, NANOS_PER_SEC, Nanos, Rate};

use crate::fast::Solver;
use crate::request::{Demand, Request};

/// A leaf of the link and of fluid GPS.
#[derive(Clone, Copy, Debug, Default)]
struct GpsLeaf {
    /// Part of the link when all are busy.
    share: f64,
    /// The same in 2^-64 of the link, with exact sums.
    units: u128,
    /// Bits that the link has queued.
    queued: u64,
    /// Virtual time at which the ideal has served everything; `None` while it is idle.
    finish: Option<f64>,
    worst: f64,
}

/// Measures the lag behind fluid GPS.
#[derive(Clone, Debug)]
pub struct GpsMeter {
    /// By class; entries of inner classes are unused.
    leaves: Vec<GpsLeaf>,
    link_bps: f64,
    /// Virtual time in bits per unit of share, and its rounding error.
    virtual_time: f64,
    lost: f64,
    now: Nanos,
    /// Shares of the leaves that the ideal serves.
    busy: u128,
    /// When they finish, as bits of a float that is not negative: in the same order as the floats.
    finishes: BTreeSet<(u64, u32)>,
}

/// Possible rounding residue of adding and subtracting a packet, in bits.
const ROUNDING: f64 = 1e-3;

const SHARE: f64 = (1u128 << 64) as f64;

impl GpsMeter {
    /// Makes a meter of an empty link.
    #[must_use]
    pub fn new(tree: &Hierarchy) -> Self {
        let mut leaves = vec![GpsLeaf::default(); tree.len()];
        for &leaf in tree.leaves() {
            let units = tree.share_all_busy(leaf).max(1);
            leaves[leaf.index()] = GpsLeaf { share: units as f64 / SHARE, units, ..GpsLeaf::default() };
        }
        let link_bps = tree.link().rate.bps() as f64;
        let finishes = BTreeSet::new();
        Self { leaves, link_bps, virtual_time: 0.0, lost: 0.0, now: Nanos::ZERO, busy: 0, finishes }
    }

    /// Records a packet of `len` bytes that arrives. Times never go back.
    ///
    /// # Panics
    /// When there is no such class, as in the other methods.
    pub fn arrived(&mut self, now: Nanos, leaf: ClassId, len: u32) {
        self.advance(now);
        let bits = u64::from(len) * 8;
        let at = &mut self.leaves[leaf.index()];
        at.queued += bits;
        let from = match at.finish {
            Some(finish) => {
                self.finishes.remove(&(finish.to_bits(), leaf.0));
                finish
            }
            None => {
                self.busy += at.units;
                self.virtual_time
            }
        };
        let finish = from + bits as f64 / at.share;
        at.finish = Some(finish);
        self.finishes.insert((finish.to_bits(), leaf.0));
    }

    /// Records the drop of a packet that had arrived.
    pub fn dropped(&mut self, now: Nanos, leaf: ClassId, len: u32) {
        self.advance(now);
        let bits = u64::from(len) * 8;
        let at = &mut self.leaves[leaf.index()];
        at.queued = at.queued.saturating_sub(bits);
        let Some(finish) = at.finish else { return };
        self.finishes.remove(&(finish.to_bits(), leaf.0));
        let earlier = finish - bits as f64 / at.share;
        // A packet that was refused leaves a rounding error behind. The ideal may have work left that the link has done.
        at.finish = ((earlier - self.virtual_time) * at.share > ROUNDING).then_some(earlier);
        match at.finish {
            Some(finish) => _ = self.finishes.insert((finish.to_bits(), leaf.0)),
            None => self.busy -= at.units,
        }
    }

    /// Records the first bit of a packet that leaves.
    pub fn sent(&mut self, start: Nanos, leaf: ClassId, len: u32) {
        self.advance(start);
        self.look(leaf);
        let at = &mut self.leaves[leaf.index()];
        at.queued = at.queued.saturating_sub(u64::from(len) * 8);
    }

    /// Ends the run.
    pub fn end(&mut self, now: Nanos) {
        self.advance(now);
        (0..self.leaves.len()).for_each(|class| self.look(ClassId(class as u32)));
    }

    /// Returns the largest lag of a leaf so far, in bytes.
    #[must_use]
    pub fn worst(&self, leaf: ClassId) -> f64 {
        self.leaves[leaf.index()].worst / 8.0
    }

    fn look(&mut self, leaf: ClassId) {
        let at = &mut self.leaves[leaf.index()];
        let left = at.finish.map_or(0.0, |finish| (finish - self.virtual_time) * at.share);
        at.worst = at.worst.max(at.queued as f64 - left);
    }

    fn advance(&mut self, now: Nanos) {
        let mut left = now.saturating_sub(self.now).0 as f64 / NANOS_PER_SEC as f64;
        self.now = self.now.max(now);
        while left > 0.0 {
            let Some(&(finish, leaf)) = self.finishes.first() else {
                (self.virtual_time, self.lost) = (0.0, 0.0);
                return;
            };
            // Bits that all busy leaves together are served per unit of virtual time.
            let busy = self.busy as f64 / SHARE;
            let finish = f64::from_bits(finish);
            let takes = (finish - self.virtual_time) * busy / self.link_bps;
            if takes > left {
                self.add(left * self.link_bps / busy);
                return;
            }
            left -= takes.max(0.0);
            (self.virtual_time, self.lost) = (self.virtual_time.max(finish), 0.0);
            self.finishes.pop_first();
            let at = &mut self.leaves[leaf as usize];
            at.finish = None;
            self.busy -= at.units;
        }
    }

    /// Adds to the virtual time without losing small increments (Kahan).
    fn add(&mut self, step: f64) {
        let step = step - self.lost;
        let sum = self.virtual_time + step;
        self.lost = (sum - self.virtual_time) - step;
        self.virtual_time = sum;
    }
}

/// Measures the lag behind hierarchical max-min sharing.
#[derive(Clone, Debug)]
pub struct HmmMeter {
    parents: Vec<Option<ClassId>>,
    solver: Solver,
    demand: Demand,
    tree: Hierarchy,
    capacity: Rate,
    /// Unit of the solver's rates, in bit/s.
    unit: f64,
    /// By class: bits that the link has queued in it and below.
    queued: Vec<u64>,
    /// By class: bits that the ideal has left in it and below.
    left: Vec<f64>,
    /// By class: rate in the ideal in bit/s.
    rates: Vec<f64>,
    worst: Vec<f64>,
    /// By class: bits that the ideal got of an endless backlog and the link did not, less what it has lost again.
    endless: Vec<f64>,
    /// Leaves that the ideal has something left of.
    busy: Vec<ClassId>,
    stale: bool,
    now: Nanos,
}

/// Backlog of a class that counts as a rounding residue of the ideal, in bits.
const NOTHING: f64 = 1e-6;

impl HmmMeter {
    /// Trees of more classes are not measured: too much is solved for each packet.
    pub const MOST_CLASSES: usize = 1024;

    /// Makes a meter of an empty link; `None` for a tree of more than [`HmmMeter::MOST_CLASSES`].
    #[must_use]
    pub fn new(tree: &Hierarchy) -> Option<Self> {
        if tree.len() > Self::MOST_CLASSES {
            return None;
        }
        let (solver, capacity, factor) = Solver::scaled(tree);
        let class = |index: usize| ClassId(index as u32);
        let zeros = vec![0.0; tree.len()];
        Some(Self {
            parents: (0..tree.len()).map(|index| tree.parent(class(index))).collect(),
            solver,
            demand: Demand::uniform(tree, Request::Rate(0)),
            tree: tree.clone(),
            capacity,
            unit: 1.0 / factor as f64,
            queued: vec![0; tree.len()],
            left: zeros.clone(),
            rates: zeros.clone(),
            endless: zeros.clone(),
            worst: zeros,
            busy: Vec::new(),
            stale: false,
            now: Nanos::ZERO,
        })
    }

    fn path(&self, leaf: ClassId) -> impl Iterator<Item = ClassId> + use<'_> {
        std::iter::successors(Some(leaf), |&class| self.parents[class.index()])
    }

    fn add(&mut self, leaf: ClassId, bits: f64) {
        let mut at = Some(leaf);
        while let Some(class) = at {
            self.left[class.index()] = (self.left[class.index()] + bits).max(0.0);
            at = self.parents[class.index()];
        }
    }

    fn request(&mut self, leaf: ClassId, request: Request) {
        let set = self.demand.set(&self.tree, leaf, request);
        debug_assert!(set.is_ok(), "a leaf of the tree");
        self.stale = true;
    }

    /// Records a packet of `len` bytes that arrives. Times never go back.
    ///
    /// # Panics
    /// When there is no such class, as in the other methods.
    pub fn arrived(&mut self, now: Nanos, leaf: ClassId, len: u32) {
        self.advance(now);
        let bits = u64::from(len) * 8;
        if self.left[leaf.index()] == 0.0 {
            self.busy.push(leaf);
            self.request(leaf, Request::Unlimited);
        }
        self.add(leaf, bits as f64);
        let path: Vec<ClassId> = self.path(leaf).collect();
        path.into_iter().for_each(|class| self.queued[class.index()] += bits);
    }

    /// Records the drop of a packet that had arrived.
    pub fn dropped(&mut self, now: Nanos, leaf: ClassId, len: u32) {
        self.advance(now);
        self.take(leaf, len);
        let left = self.left[leaf.index()];
        let taken = (f64::from(len) * 8.0).min(left);
        if left > 0.0 {
            self.add(leaf, -taken);
            // The ideal may have work left that the link has done.
            if self.left[leaf.index()] <= ROUNDING {
                self.idle(leaf);
                self.busy.retain(|&other| other != leaf);
            }
        }
    }

    /// Records the first bit of a packet that leaves.
    pub fn sent(&mut self, start: Nanos, leaf: ClassId, len: u32) {
        self.advance(start);
        let mut at = Some(leaf);
        while let Some(class) = at {
            self.look(class);
            at = self.parents[class.index()];
        }
        self.take(leaf, len);
    }

    /// Gives a leaf a backlog in the ideal that does not end, of `bits`: more than the link sends until it ends. So that
    /// the ideal of a source that keeps a few packets in its queue does not depend on when the link sends these.
    pub fn begin_endless(&mut self, now: Nanos, leaf: ClassId, bits: f64) {
        self.advance(now);
        if self.left[leaf.index()] == 0.0 {
            self.busy.push(leaf);
            self.request(leaf, Request::Unlimited);
        }
        self.add(leaf, bits);
        self.endless[leaf.index()] += bits;
    }

    /// Ends the endless backlog of a leaf: the ideal has left what the link has queued.
    pub fn end_endless(&mut self, now: Nanos, leaf: ClassId) {
        self.advance(now);
        let index = leaf.index();
        let rest = self.left[index] - self.queued[index] as f64;
        self.add(leaf, -rest);
        self.endless[index] -= rest;
        if self.left[index] <= ROUNDING && self.busy.contains(&leaf) {
            self.idle(leaf);
            self.busy.retain(|&other| other != leaf);
        }
    }

    /// Moves the ideal to `now`.
    pub fn advance_to(&mut self, now: Nanos) {
        self.advance(now);
    }

    /// Returns the bits that the link has sent of a leaf beyond the ideal, negative if it is behind. A packet counts when
    /// its first bit leaves.
    #[must_use]
    pub fn ahead(&self, leaf: ClassId) -> f64 {
        let index = leaf.index();
        self.left[index] - self.queued[index] as f64 - self.endless[index]
    }

    /// Ends the run.
    pub fn end(&mut self, now: Nanos) {
        self.advance(now);
        (0..self.worst.len()).for_each(|class| self.look(ClassId(class as u32)));
    }

    /// Returns the largest lag of a class so far, in bytes.
    #[must_use]
    pub fn worst(&self, class: ClassId) -> f64 {
        self.worst[class.index()] / 8.0
    }

    fn look(&mut self, class: ClassId) {
        let index = class.index();
        self.worst[index] = self.worst[index].max(self.queued[index] as f64 - self.left[index]);
    }

    fn take(&mut self, leaf: ClassId, len: u32) {
        let bits = u64::from(len) * 8;
        let mut at = Some(leaf);
        while let Some(class) = at {
            self.queued[class.index()] = self.queued[class.index()].saturating_sub(bits);
            at = self.parents[class.index()];
        }
    }

    fn idle(&mut self, leaf: ClassId) {
        let rest = self.left[leaf.index()];
        self.add(leaf, -rest);
        self.left[leaf.index()] = 0.0;
        self.request(leaf, Request::Rate(0));
    }

    fn advance(&mut self, now: Nanos) {
        let mut left = now.saturating_sub(self.now).0 as f64 / NANOS_PER_SEC as f64;
        self.now = self.now.max(now);
        while left > 0.0 {
            if self.busy.is_empty() {
                // Rounding residue of inner classes.
                self.left.fill(0.0);
                return;
            }
            if std::mem::take(&mut self.stale) {
                let solved = self.solver.solve(self.capacity, &self.demand);
                self.rates.iter_mut().zip(solved).for_each(|(rate, &units)| *rate = units as f64 * self.unit);
            }
            let until_idle = |leaf: &ClassId| self.left[leaf.index()] / self.rates[leaf.index()];
            let first = self.busy.iter().map(until_idle).fold(f64::INFINITY, f64::min);
            let step = first.min(left);
            left -= step;
            let mut place = 0;
            while let Some(&leaf) = self.busy.get(place) {
                self.add(leaf, -self.rates[leaf.index()] * step);
                if self.left[leaf.index()] <= NOTHING {
                    self.idle(leaf);
                    self.busy.swap_remove(place);
                } else {
                    place += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
