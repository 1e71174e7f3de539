//! The shape of a workload, and its tree.

use std::str::FromStr;

use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, HierarchyError, LinkConfig, QueueLimits, Rate, RoundLength, Share,
};

use crate::error::WorkloadError;
use crate::random::Random;

/// Packets per call in batches.
pub const BATCH: usize = 32;
/// Rate of the link. The scheduler is called without pauses; by its clock, packets leave at this rate.
pub(crate) const RATE: Rate = match Rate::from_bps(10_000_000_000) {
    Ok(rate) => rate,
    Err(_) => Rate::MAX,
};

/// The pattern of senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Every leaf has packets all the time.
    #[default]
    Backlogged,
    /// One leaf in a hundred, at least one, always has packets; they are scattered over the tree. The others have none.
    Sparse,
    /// Every leaf has one packet, and half of the packets are queued: each arrival is at an idle leaf, each departure empties one.
    Churn,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 3] = [Self::Backlogged, Self::Sparse, Self::Churn];

    /// Its name in arguments and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Backlogged => "backlogged",
            Self::Sparse => "sparse",
            Self::Churn => "churn",
        }
    }

    /// Number of senders among `leaves` leaves.
    pub(crate) fn senders(self, leaves: usize) -> usize {
        match self {
            Self::Backlogged | Self::Churn => leaves,
            Self::Sparse => (leaves / 100).max(1),
        }
    }

    /// Packets of each sending leaf. With fewer than 4, a leaf would run empty when its turn comes early and its next
    /// arrival late. If there are few leaves, there are more packets, so that none runs empty within a batch.
    pub(crate) fn packets_each(self, leaves: usize) -> usize {
        let senders = self.senders(leaves).max(1);
        match self {
            Self::Backlogged | Self::Sparse => (16 * BATCH).div_ceil(senders).max(4),
            // A tree of one leaf has two, because one is on its way.
            Self::Churn => 2usize.div_ceil(senders),
        }
    }

    /// One packet in this many is in flight.
    pub(crate) const fn away_one_in(self) -> usize {
        match self {
            Self::Backlogged | Self::Sparse => 16,
            Self::Churn => 2,
        }
    }
}

impl FromStr for Pattern {
    type Err = WorkloadError;

    fn from_str(word: &str) -> Result<Self, WorkloadError> {
        let found = Self::ALL.into_iter().find(|pattern| pattern.name() == word);
        found.ok_or_else(|| WorkloadError::Word { word: word.to_owned() })
    }
}

/// The kind of calls of the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Calls {
    /// [`BATCH`] packets a call, or as many as there are.
    #[default]
    Batches,
    /// One packet a call.
    Single,
}

impl Calls {
    /// Its name in arguments and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batches => "batches",
            Self::Single => "single",
        }
    }
}

/// The shape of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Leaves of the tree, 1 or more.
    pub leaves: usize,
    /// Its levels, 1 or more; inner classes have about as many children at each.
    pub levels: usize,
    /// Pattern of senders.
    pub pattern: Pattern,
    /// Kind of calls of the scheduler.
    pub calls: Calls,
    /// True if each class has a ceiling: twice its average rate while it has packets, and at most the link's rate. So
    /// each packet is accounted for, and few are blocked.
    pub ceilings: bool,
    /// True if a record of 64 B is read and written for each packet, as in a gateway when it sends and receives frames.
    pub record: bool,
    /// Length of the rounds of `hls`.
    pub rounds: RoundLength,
    /// Weights are drawn from 1 to this.
    pub weights: u64,
    /// Length of each packet in bytes.
    pub len: u32,
    /// The link's largest packet in bytes. A quantum is at least this, so shorter packets share a visit of a round
    /// robin, which is most expensive if `len` is as large.
    pub max_packet: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            leaves: 1024,
            levels: 1,
            pattern: Pattern::Backlogged,
            calls: Calls::Batches,
            ceilings: false,
            record: false,
            rounds: RoundLength::Short,
            weights: 1,
            len: 1500,
            max_packet: 1500,
        }
    }
}

impl Shape {
    /// Adds one word of a command line, such as `churn` or `leaves=8`.
    ///
    /// # Errors
    /// [`WorkloadError::Word`].
    pub fn set(&mut self, word: &str) -> Result<(), WorkloadError> {
        let unknown = || WorkloadError::Word { word: word.to_owned() };
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "batches" => self.calls = Calls::Batches,
            "single" => self.calls = Calls::Single,
            "ceilings" => self.ceilings = true,
            "record" => self.record = true,
            "long" => self.rounds = RoundLength::Long,
            "leaves" => self.leaves = value.parse().map_err(|_| unknown())?,
            "levels" => self.levels = value.parse().map_err(|_| unknown())?,
            "weights" => self.weights = value.parse().map_err(|_| unknown())?,
            "len" => self.len = value.parse().map_err(|_| unknown())?,
            "max" => self.max_packet = value.parse().map_err(|_| unknown())?,
            _ => self.pattern = word.parse()?,
        }
        Ok(())
    }

    /// Makes the tree: as even as the number of leaves allows.
    ///
    /// # Errors
    /// [`WorkloadError::Tree`].
    pub fn tree(&self) -> Result<Hierarchy, WorkloadError> {
        self.tree_holding(self.packets())
    }

    /// Makes the same tree below a link whose buffer holds `packets` packets, instead of the workload's number.
    ///
    /// # Errors
    /// [`WorkloadError::Tree`].
    pub fn tree_holding(&self, packets: usize) -> Result<Hierarchy, WorkloadError> {
        let max_queued = u32::try_from(packets).unwrap_or(u32::MAX);
        let link = LinkConfig { max_packet: self.max_packet, max_queued, rounds: self.rounds, ..LinkConfig::new(RATE) };
        self.build(link).map_err(|source| WorkloadError::Tree { leaves: self.leaves, levels: self.levels, source })
    }

    fn build(&self, link: LinkConfig) -> Result<Hierarchy, HierarchyError> {
        let levels = u32::try_from(self.levels).unwrap_or(u32::MAX);
        let reaches = |fan_out: usize| fan_out.checked_pow(levels).is_none_or(|leaves| leaves >= self.leaves);
        // Without any level there is no leaf either, and the tree is refused.
        let fan_out = if levels == 0 { 1 } else { (1..).find(|&fan_out| reaches(fan_out)).unwrap_or(1) };
        let mut random = Random::new();
        let mut tree = Hierarchy::builder(link);
        let mut parents = vec![ClassId::ROOT];
        for level in 1..=levels {
            // Each level has the classes needed by the leaves below it, spread evenly over the level above.
            let leaves_each = fan_out.saturating_pow(levels - level);
            let wanted = self.leaves.div_ceil(leaves_each);
            let ceiling = self.ceilings.then(|| self.ceiling(leaves_each));
            let mut classes = Vec::with_capacity(wanted);
            for index in 0..wanted {
                let config = ClassConfig {
                    share: Some(Share::Weight(1 + random.below(self.weights as usize) as u64)),
                    ceiling,
                    limits: QueueLimits { packets: u32::MAX, bytes: u32::MAX },
                    ..ClassConfig::default()
                };
                classes.push(tree.add(parents[index * parents.len() / wanted], config)?);
            }
            parents = classes;
        }
        tree.build()
    }

    /// Returns the number of all packets, queued or on their way.
    pub(crate) fn packets(&self) -> usize {
        self.pattern.senders(self.leaves) * self.pattern.packets_each(self.leaves)
    }

    /// Twice the average rate of a class with `leaves` leaves.
    fn ceiling(&self, leaves: usize) -> Rate {
        let senders = self.pattern.senders(self.leaves).max(1);
        let factor = 2 * leaves as u128 * u128::from(self.weights.max(1));
        let bps = (u128::from(RATE.bps()) * factor / senders as u128).min(u128::from(RATE.bps()));
        Rate::from_bps(bps as u64).unwrap_or(RATE)
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
