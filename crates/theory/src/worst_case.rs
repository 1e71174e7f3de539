//! The worst-case fairness index of \[hpfq\], measured online: the lag in bytes of a backlogged class behind its share
//! of the link's service meanwhile.
//!
//! The lead of a class over its share, own_i - share_i W, falls while others send and rises when it sends itself. So
//! the largest fall within a backlogged period ends just before one of its own packets, or with the period: it is
//! evaluated then. Exact: shares are whole numbers of 2^-64 of the link. O(depth) per packet.

use fairlink_core::{ClassId, Hierarchy};

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    share: i128,
    /// Bytes sent, and packets queued.
    own: u64,
    queued: u64,
    /// Its maximum lead since it is backlogged, in 2^-64 bytes.
    highest: i128,
    worst: i128,
}

impl Class {
    fn ahead(&self, all: u64) -> i128 {
        (i128::from(self.own) << 64) - self.share * i128::from(all)
    }

    fn look(&mut self, all: u64) {
        self.worst = self.worst.max(self.highest - self.ahead(all));
    }
}

/// Measures the worst-case fairness index of each class.
#[derive(Clone, Debug)]
pub struct WorstCaseMeter {
    classes: Vec<Class>,
    parents: Vec<Option<ClassId>>,
    /// Bytes sent by all.
    all: u64,
}

impl WorstCaseMeter {
    /// Makes a meter of an empty link.
    #[must_use]
    pub fn new(tree: &Hierarchy) -> Self {
        let ids = || (0..tree.len()).map(|index| ClassId(index as u32));
        let class = |id| Class { share: tree.share_all_busy(id) as i128, ..Class::default() };
        Self { classes: ids().map(class).collect(), parents: ids().map(|id| tree.parent(id)).collect(), all: 0 }
    }

    fn each(&mut self, leaf: ClassId, mut change: impl FnMut(&mut Class, u64)) {
        let mut at = Some(leaf);
        while let Some(id) = at {
            change(&mut self.classes[id.index()], self.all);
            at = self.parents[id.index()];
        }
    }

    /// Records the arrival of a packet at a leaf.
    ///
    /// # Panics
    /// When there is no such class, as in the other methods.
    pub fn arrived(&mut self, leaf: ClassId) {
        self.each(leaf, |class, all| {
            if class.queued == 0 {
                class.highest = class.ahead(all);
            }
            class.queued += 1;
        });
    }

    /// Records a packet dropped from its queue.
    pub fn dropped(&mut self, leaf: ClassId) {
        self.each(leaf, |class, all| {
            class.look(all);
            class.queued = class.queued.saturating_sub(1);
        });
    }

    /// Records a packet of `len` bytes given to the link.
    pub fn sent(&mut self, leaf: ClassId, len: u32) {
        self.each(leaf, |class, all| class.look(all));
        self.all += u64::from(len);
        self.each(leaf, |class, all| {
            class.own += u64::from(len);
            class.highest = class.highest.max(class.ahead(all));
            class.queued = class.queued.saturating_sub(1);
        });
    }

    /// Ends the run.
    pub fn end(&mut self) {
        let all = self.all;
        self.classes.iter_mut().filter(|class| class.queued > 0).for_each(|class| class.look(all));
    }

    /// Returns the largest fall of a class so far, in bytes.
    #[must_use]
    pub fn worst(&self, class: ClassId) -> f64 {
        self.classes[class.index()].worst as f64 / (1u128 << 64) as f64
    }
}

#[cfg(test)]
mod tests;
