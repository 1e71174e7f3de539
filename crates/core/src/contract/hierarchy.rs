//! The tree of classes that a link is shared among: validated once, then read by every scheduler, planner and report.
//!
//! Source of the notation: \[hls\] Section II (parent, children, leaf, guarantee, weight).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::class::{ClassConfig, Feature, LinkConfig, MAX_TRANSMIT_QUEUE, RoundLength, Share, WhenFull};
use super::memory::OutOfMemory;
use super::packet::ClassId;
use crate::parts::memory::{bytes_of, filled, pause, slice};

/// Largest number of leaves in a hierarchy.
pub const MAX_LEAVES: usize = 1_000_000;
/// Largest number of classes, the root not counted: a leaf needs at most [`MAX_DEPTH`] inner classes above it, but a tree of more
/// inner classes than leaves is a mistake.
pub const MAX_CLASSES: usize = 2 * MAX_LEAVES;
/// Largest number of classes below the root on a path from the root to a leaf.
pub const MAX_DEPTH: usize = 64;
/// Largest weight of a class.
pub const MAX_WEIGHT: u64 = 1_000_000_000_000;
/// Largest packet that any link may be configured to carry, in accounted bytes.
pub const MAX_PACKET: u32 = 1 << 20;

/// The reason why a hierarchy was refused. Classes are named by id; the caller knows their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HierarchyError {
    /// A parent that was not added before.
    UnknownParent {
        /// The parent named.
        parent: ClassId,
    },
    /// More than [`MAX_LEAVES`] leaves.
    TooManyLeaves {
        /// Number of leaves.
        leaves: usize,
    },
    /// More than [`MAX_CLASSES`] classes, leaves and others.
    TooManyClasses {
        /// Number of classes, including the refused one.
        classes: usize,
    },
    /// A class deeper than [`MAX_DEPTH`].
    TooDeep {
        /// Its parent.
        parent: ClassId,
    },
    /// A weight of zero or above [`MAX_WEIGHT`].
    Weight {
        /// The class.
        class: ClassId,
        /// The weight given.
        weight: u64,
    },
    /// Some siblings have a guarantee, others a weight or no share.
    MixedShares {
        /// The class that differs.
        class: ClassId,
        /// The sibling it differs from.
        sibling: ClassId,
    },
    /// The guarantees of a class's children add up to more than its own.
    GuaranteesExceedParent {
        /// The parent ([`ClassId::ROOT`] is the link).
        parent: ClassId,
        /// The children's guarantees together, in bit/s.
        children_bps: u64,
        /// The parent's own, in bit/s.
        parent_bps: u64,
    },
    /// A queue with a limit of zero.
    EmptyQueue {
        /// The class.
        class: ClassId,
    },
    /// A largest packet of zero or above [`MAX_PACKET`].
    MaxPacket {
        /// The value given.
        bytes: u32,
    },
    /// A link with a queue limit of zero.
    NoQueueSpace,
    /// A transmit queue of zero or above [`MAX_TRANSMIT_QUEUE`](super::class::MAX_TRANSMIT_QUEUE) packets.
    TransmitQueue {
        /// The value given.
        packets: u32,
    },
    /// No class at all.
    NoClasses,
    /// Not enough memory for the classes.
    OutOfMemory {
        /// Size of the refused allocation, in bytes.
        bytes: u64,
    },
}

impl From<OutOfMemory> for HierarchyError {
    fn from(OutOfMemory { bytes }: OutOfMemory) -> Self {
        Self::OutOfMemory { bytes }
    }
}

impl fmt::Display for HierarchyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownParent { parent } => write!(f, "parent {} does not exist", parent.0),
            Self::TooManyLeaves { leaves } => write!(f, "{leaves} leaves; the limit is {MAX_LEAVES}"),
            Self::TooManyClasses { classes } => write!(f, "{classes} classes; the limit is {MAX_CLASSES}"),
            Self::TooDeep { parent } => {
                write!(f, "a child of class {} would be deeper than {MAX_DEPTH} levels", parent.0)
            }
            Self::Weight { class, weight } => {
                write!(f, "class {}: a weight of {weight} is outside 1 .. {MAX_WEIGHT}", class.0)
            }
            Self::MixedShares { class, sibling } => write!(
                f,
                "class {} and its sibling {} must both have a guarantee, both a weight, or both neither",
                class.0, sibling.0
            ),
            Self::GuaranteesExceedParent { parent, children_bps, parent_bps } => write!(
                f,
                "the children of class {} are guaranteed {children_bps} bit/s together, more than its own {parent_bps} bit/s",
                parent.0
            ),
            Self::EmptyQueue { class } => {
                write!(f, "class {}: a queue must hold at least one packet and byte", class.0)
            }
            Self::MaxPacket { bytes } => write!(f, "a largest packet of {bytes} B is outside 1 .. {MAX_PACKET} B"),
            Self::NoQueueSpace => write!(f, "the link must be able to queue at least one packet"),
            Self::TransmitQueue { packets } => {
                write!(f, "a transmit queue of {packets} packets is outside 1 .. {MAX_TRANSMIT_QUEUE}")
            }
            Self::NoClasses => write!(f, "there is no class"),
            Self::OutOfMemory { bytes } => OutOfMemory { bytes }.fmt(f),
        }
    }
}

impl core::error::Error for HierarchyError {}

#[derive(Clone, Debug)]
struct Node {
    parent: ClassId,
    depth: u8,
    config: ClassConfig,
    weight: u64,
    /// Range of this node's children in `Hierarchy::children`.
    children: (u32, u32),
    /// The children's weights together.
    children_weight: u64,
}

impl Node {
    /// Returns the root.
    fn of_link(link: &LinkConfig) -> Self {
        Self {
            parent: ClassId::ROOT,
            depth: 0,
            config: ClassConfig { share: Some(Share::Guarantee(link.rate)), ..ClassConfig::default() },
            weight: link.rate.bps(),
            children: (0, 0),
            children_weight: 0,
        }
    }
}

/// A validated tree of classes. Class 0 is the root: the link.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    link: LinkConfig,
    nodes: Vec<Node>,
    children: Box<[ClassId]>,
    leaves: Box<[ClassId]>,
    levels: usize,
}

/// Collects classes, parents before children; see [`Hierarchy::builder`].
#[derive(Debug)]
pub struct HierarchyBuilder {
    link: LinkConfig,
    nodes: Vec<Node>,
}

impl HierarchyBuilder {
    /// Adds a class below `parent` and returns its id.
    ///
    /// # Errors
    /// [`HierarchyError::UnknownParent`], [`HierarchyError::TooDeep`], [`HierarchyError::Weight`],
    /// [`HierarchyError::EmptyQueue`], [`HierarchyError::TooManyClasses`]. On error the tree is unchanged.
    pub fn add(&mut self, parent: ClassId, config: ClassConfig) -> Result<ClassId, HierarchyError> {
        let class = ClassId(self.nodes.len() as u32);
        let depth = match self.nodes.get(parent.index()) {
            None => return Err(HierarchyError::UnknownParent { parent }),
            Some(node) if usize::from(node.depth) >= MAX_DEPTH => return Err(HierarchyError::TooDeep { parent }),
            Some(node) => node.depth + 1,
        };
        let weight = match config.share {
            None => 1,
            Some(Share::Guarantee(rate)) => rate.bps(),
            Some(Share::Weight(weight)) if (1..=MAX_WEIGHT).contains(&weight) => weight,
            Some(Share::Weight(weight)) => return Err(HierarchyError::Weight { class, weight }),
        };
        if config.limits.packets == 0 || config.limits.bytes == 0 {
            return Err(HierarchyError::EmptyQueue { class });
        }
        check_count(self.nodes.len())?;
        self.nodes.try_reserve(1).map_err(|_| OutOfMemory { bytes: (size_of::<Node>() * self.nodes.len()) as u64 })?;
        self.nodes.push(Node { parent, depth, config, weight, children: (0, 0), children_weight: 0 });
        Ok(class)
    }

    /// Validates the whole tree.
    ///
    /// # Errors
    /// The first [`HierarchyError`] found.
    pub fn build(mut self) -> Result<Hierarchy, HierarchyError> {
        if self.link.max_packet == 0 || self.link.max_packet > MAX_PACKET {
            return Err(HierarchyError::MaxPacket { bytes: self.link.max_packet });
        }
        if self.link.max_queued == 0 {
            return Err(HierarchyError::NoQueueSpace);
        }
        if let Some(queue) = self.link.transmit_queue
            && !(1..=MAX_TRANSMIT_QUEUE).contains(&queue.packets)
        {
            return Err(HierarchyError::TransmitQueue { packets: queue.packets });
        }
        if self.nodes.len() == 1 {
            return Err(HierarchyError::NoClasses);
        }
        let children = self.group_children()?;
        let mut levels = 0;
        let mut count = 0;
        for node in self.nodes.iter().skip(1) {
            levels = levels.max(usize::from(node.depth));
            count += usize::from(node.children.0 == node.children.1);
        }
        if count > MAX_LEAVES {
            return Err(HierarchyError::TooManyLeaves { leaves: count });
        }
        let is_leaf = |&class: &usize| self.nodes[class].children.0 == self.nodes[class].children.1;
        let mut ids = (1..self.nodes.len()).filter(is_leaf).map(|class| ClassId(class as u32));
        let leaves = slice(count, |_| ids.next().unwrap_or(ClassId::ROOT))?;
        let hierarchy = Hierarchy { link: self.link, nodes: self.nodes, children, leaves, levels };
        for index in 0..hierarchy.nodes.len() {
            pause(index);
            hierarchy.check_siblings(ClassId(index as u32))?;
        }
        Ok(hierarchy)
    }

    /// Lays the children of each class side by side, in the order in which they were added.
    fn group_children(&mut self) -> Result<Box<[ClassId]>, OutOfMemory> {
        let mut counts = filled(self.nodes.len(), 0u32)?;
        for index in 1..self.nodes.len() {
            pause(index);
            let Node { parent, weight, .. } = self.nodes[index];
            counts[parent.index()] += 1;
            // At most 2 * 10^6 classes of at most 10^12 each.
            self.nodes[parent.index()].children_weight += weight;
        }
        let mut start = 0;
        for (node, count) in self.nodes.iter_mut().zip(counts.iter()) {
            node.children = (start, start);
            start += count;
        }
        let mut children = filled(start as usize, ClassId::ROOT)?;
        for index in 1..self.nodes.len() {
            pause(index);
            let parent = self.nodes[index].parent.index();
            let end = &mut self.nodes[parent].children.1;
            children[*end as usize] = ClassId(index as u32);
            *end += 1;
        }
        Ok(children)
    }
}

impl Hierarchy {
    /// Starts a tree that contains only the link.
    #[must_use]
    pub fn builder(link: LinkConfig) -> HierarchyBuilder {
        HierarchyBuilder { nodes: alloc::vec![Node::of_link(&link)], link }
    }

    /// Like [`Hierarchy::builder`], with room for `classes` classes beside the link. For callers that must handle lack
    /// of memory.
    ///
    /// # Errors
    /// [`HierarchyError::OutOfMemory`], and [`HierarchyError::TooManyClasses`] above [`MAX_CLASSES`].
    pub fn builder_with_room(link: LinkConfig, classes: usize) -> Result<HierarchyBuilder, HierarchyError> {
        check_count(classes)?;
        let mut nodes = Vec::new();
        nodes.try_reserve_exact(classes + 1).map_err(|_| OutOfMemory { bytes: bytes_of::<Node>(classes + 1) })?;
        nodes.push(Node::of_link(&link));
        Ok(HierarchyBuilder { link, nodes })
    }

    fn check_siblings(&self, parent: ClassId) -> Result<(), HierarchyError> {
        let children = self.children(parent);
        let Some(&first) = children.first() else { return Ok(()) };
        let kind = |class: ClassId| self.config(class).share.map(|share| matches!(share, Share::Guarantee(_)));
        for &class in children {
            pause(class.index());
            if kind(class) != kind(first) {
                return Err(HierarchyError::MixedShares { class, sibling: first });
            }
        }
        let sum = self.children_weight(parent);
        if let (Some(Share::Guarantee(_)), Some(Share::Guarantee(own))) =
            (self.config(first).share, self.config(parent).share)
            && sum > own.bps()
        {
            return Err(HierarchyError::GuaranteesExceedParent { parent, children_bps: sum, parent_bps: own.bps() });
        }
        Ok(())
    }

    /// Returns the link.
    #[must_use]
    pub fn link(&self) -> LinkConfig {
        self.link
    }

    /// Returns the same tree on a link whose largest packet is `bytes` accounted bytes.
    ///
    /// # Errors
    /// [`HierarchyError::MaxPacket`] outside 1 to [`MAX_PACKET`].
    pub fn with_max_packet(mut self, bytes: u32) -> Result<Self, HierarchyError> {
        if bytes == 0 || bytes > MAX_PACKET {
            return Err(HierarchyError::MaxPacket { bytes });
        }
        self.link.max_packet = bytes;
        Ok(self)
    }

    /// Makes a tree with the same classes below `link`, each with its configuration as modified by `change`. Ids stay
    /// the same.
    ///
    /// # Errors
    /// As [`HierarchyBuilder::add`] and [`HierarchyBuilder::build`].
    pub fn rebuilt(
        &self,
        link: LinkConfig,
        mut change: impl FnMut(ClassId, &mut ClassConfig),
    ) -> Result<Self, HierarchyError> {
        let mut builder = Self::builder(link);
        for class in self.classes() {
            let mut config = *self.config(class);
            change(class, &mut config);
            builder.add(self.nodes[class.index()].parent, config)?;
        }
        builder.build()
    }

    /// Returns the number of classes, including the root. Ids run from 0 to one below it.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true if there is no class, which never holds for a built hierarchy.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.len() <= 1
    }

    /// Returns all classes but the root, parents before children.
    pub fn classes(&self) -> impl DoubleEndedIterator<Item = ClassId> + ExactSizeIterator + Clone + use<> {
        (1..self.nodes.len()).map(|index| ClassId(index as u32))
    }

    /// Returns all leaves, in the order of their addition.
    #[must_use]
    pub fn leaves(&self) -> &[ClassId] {
        &self.leaves
    }

    /// Returns the parent, or `None` for the root.
    #[must_use]
    pub fn parent(&self, class: ClassId) -> Option<ClassId> {
        (class != ClassId::ROOT).then(|| self.nodes[class.index()].parent)
    }

    /// Returns the children, in the order of their addition.
    #[must_use]
    pub fn children(&self, class: ClassId) -> &[ClassId] {
        let (start, end) = self.nodes[class.index()].children;
        &self.children[start as usize..end as usize]
    }

    /// Returns true if `class` exists, is not the root, and has no children.
    #[must_use]
    pub fn is_leaf(&self, class: ClassId) -> bool {
        class != ClassId::ROOT && self.nodes.get(class.index()).is_some_and(|node| node.children.0 == node.children.1)
    }

    /// Classes on the path from the root, the class included and the root not: 0 for the root.
    #[must_use]
    pub fn depth(&self, class: ClassId) -> usize {
        usize::from(self.nodes[class.index()].depth)
    }

    /// Returns the largest depth: 1 for a flat hierarchy.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Returns the configuration of the class.
    #[must_use]
    pub fn config(&self, class: ClassId) -> &ClassConfig {
        &self.nodes[class.index()].config
    }

    /// Returns the weight relative to the siblings: the guarantee in bit/s if the class has one.
    #[must_use]
    pub fn weight(&self, class: ClassId) -> u64 {
        self.nodes[class.index()].weight
    }

    /// Returns the sum of the children's weights: 0 for a leaf.
    #[must_use]
    pub fn children_weight(&self, class: ClassId) -> u64 {
        self.nodes[class.index()].children_weight
    }

    /// Returns the class's rate in bit/s when every leaf is backlogged, rounded down. It is the guarantee if the class
    /// and all its ancestors have guarantees that add up to their parent's. Otherwise it is the weighted share of the
    /// parent's rate.
    #[must_use]
    pub fn rate_all_busy(&self, class: ClassId) -> u64 {
        self.divide_down_to(class, u128::from(self.link.rate.bps())) as u64
    }

    /// Returns the class's share of the link when every leaf is backlogged, in units of 2^-64 of the link, rounded
    /// down. It is [`Hierarchy::rate_all_busy`] without the rounding to whole bit/s. The root has 2^64.
    #[must_use]
    pub fn share_all_busy(&self, class: ClassId) -> u128 {
        self.divide_down_to(class, 1 << 64)
    }

    /// Divides `amount`, at most 2^64, from the root down to `class` by the weights, rounding down at each level.
    fn divide_down_to(&self, class: ClassId, mut amount: u128) -> u128 {
        let mut path = [ClassId::ROOT; MAX_DEPTH];
        let depth = self.depth(class);
        let mut at = class;
        for slot in path[..depth].iter_mut().rev() {
            *slot = at;
            at = self.nodes[at.index()].parent;
        }
        for &at in &path[..depth] {
            let parent = self.nodes[at.index()].parent;
            amount = amount * u128::from(self.weight(at)) / u128::from(self.children_weight(parent));
        }
        amount
    }

    /// Returns the features that `class` needs from a scheduler.
    pub fn features(&self, class: ClassId) -> impl Iterator<Item = Feature> + use<> {
        let config = self.nodes[class.index()].config;
        let inner = class != ClassId::ROOT && !self.is_leaf(class);
        [
            (Feature::Hierarchy, inner),
            (Feature::Ceiling, config.ceiling.is_some()),
            (Feature::Burst, config.burst.is_some() && !config.latency_critical),
            (Feature::LatencyBurst, config.burst.is_some() && config.latency_critical),
            (Feature::CeilingBurst, config.ceiling_burst.is_some()),
            (Feature::Priority, config.priority.is_some()),
            (Feature::Borrowing, config.bounded || config.isolated),
            (Feature::LatencyCritical, config.latency_critical),
            (Feature::Quantum, config.quantum.is_some()),
            (Feature::Contract, config.contract.is_some()),
            (Feature::ServiceCurves, config.real_time.is_some()),
            (Feature::LinkCurves, config.link_share.is_some() || config.upper_limit.is_some()),
            (Feature::MaxDelay, config.max_delay.is_some()),
            (Feature::LeakyBucket, !config.leaky_buckets.is_empty()),
            (Feature::ActiveQueue, !inner && config.has_active_queue()),
            (Feature::PushOut, class == ClassId::ROOT && self.link.when_full == WhenFull::PushOut),
            (Feature::LongRounds, class == ClassId::ROOT && self.link.rounds == RoundLength::Long),
        ]
        .into_iter()
        .filter_map(|(feature, asked)| asked.then_some(feature))
    }
}

/// Checks the number of classes, without the root, against [`MAX_CLASSES`].
fn check_count(classes: usize) -> Result<(), HierarchyError> {
    if classes > MAX_CLASSES { Err(HierarchyError::TooManyClasses { classes }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Rate, TransmitQueue};
    use alloc::string::ToString;

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).unwrap()
    }

    fn guaranteed(bps: u64) -> ClassConfig {
        ClassConfig { share: Some(Share::Guarantee(rate(bps))), ..ClassConfig::default() }
    }

    fn weighted(weight: u64) -> ClassConfig {
        ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() }
    }

    #[test]
    fn figure_1_is_a_tree_of_two_levels() {
        let mut tree = Hierarchy::builder(LinkConfig::new(rate(1_000_000_000)));
        let a = tree.add(ClassId::ROOT, guaranteed(300_000_000)).unwrap();
        let b = tree.add(ClassId::ROOT, guaranteed(300_000_000)).unwrap();
        let c = tree.add(ClassId::ROOT, guaranteed(400_000_000)).unwrap();
        let b2 = tree.add(b, guaranteed(200_000_000)).unwrap();
        let a1 = tree.add(a, guaranteed(100_000_000)).unwrap();
        let b1 = tree.add(b, guaranteed(100_000_000)).unwrap();
        let tree = tree.build().unwrap();
        assert_eq!(tree.children(ClassId::ROOT), [a, b, c]);
        assert_eq!(tree.children(b), [b2, b1]);
        assert_eq!(tree.children(a), [a1]);
        assert_eq!(tree.leaves(), [c, b2, a1, b1]);
        assert_eq!((tree.levels(), tree.depth(b1), tree.parent(b1)), (2, 2, Some(b)));
        assert_eq!(tree.rate_all_busy(b1), 100_000_000);
        assert_eq!(tree.rate_all_busy(a1), 300_000_000);
        assert_eq!((tree.children_weight(b), tree.children_weight(c)), (300_000_000, 0));
        assert_eq!(tree.share_all_busy(ClassId::ROOT), 1 << 64);
        assert_eq!(tree.share_all_busy(b1), (1 << 64) * 3 / 10 / 3);
        assert!(tree.is_leaf(c) && !tree.is_leaf(b) && !tree.is_leaf(ClassId::ROOT) && !tree.is_leaf(ClassId(99)));
    }

    #[test]
    fn guarantees_above_the_parents_are_refused_with_both_numbers() {
        let mut tree = Hierarchy::builder(LinkConfig::new(rate(10)));
        let a = tree.add(ClassId::ROOT, guaranteed(5)).unwrap();
        tree.add(a, guaranteed(4)).unwrap();
        tree.add(a, guaranteed(2)).unwrap();
        let error = tree.build().unwrap_err();
        assert_eq!(error, HierarchyError::GuaranteesExceedParent { parent: a, children_bps: 6, parent_bps: 5 });
    }

    #[test]
    fn siblings_share_in_one_way() {
        let mut tree = Hierarchy::builder(LinkConfig::new(rate(10)));
        let a = tree.add(ClassId::ROOT, guaranteed(5)).unwrap();
        let b = tree.add(ClassId::ROOT, weighted(4)).unwrap();
        assert_eq!(tree.build().unwrap_err(), HierarchyError::MixedShares { class: b, sibling: a });
    }

    #[test]
    fn limits_are_enforced() {
        let mut tree = Hierarchy::builder(LinkConfig::new(rate(10)));
        assert!(matches!(tree.add(ClassId::ROOT, weighted(0)), Err(HierarchyError::Weight { .. })));
        assert!(matches!(tree.add(ClassId::ROOT, weighted(MAX_WEIGHT + 1)), Err(HierarchyError::Weight { .. })));
        assert!(matches!(tree.add(ClassId(7), weighted(1)), Err(HierarchyError::UnknownParent { .. })));
        let mut parent = ClassId::ROOT;
        for _ in 0..MAX_DEPTH {
            parent = tree.add(parent, weighted(1)).unwrap();
        }
        assert_eq!(tree.add(parent, weighted(1)), Err(HierarchyError::TooDeep { parent }));
        assert_eq!(tree.build().unwrap().levels(), MAX_DEPTH);
        assert_eq!(check_count(MAX_CLASSES), Ok(()));
        let error = check_count(MAX_CLASSES + 1).unwrap_err();
        assert_eq!(error, HierarchyError::TooManyClasses { classes: 2_000_001 });
        assert_eq!(error.to_string(), "2000001 classes; the limit is 2000000");
        for packets in [0, MAX_TRANSMIT_QUEUE + 1] {
            let queue = TransmitQueue { packets, priority: false };
            let mut tree = Hierarchy::builder(LinkConfig { transmit_queue: Some(queue), ..LinkConfig::new(rate(10)) });
            tree.add(ClassId::ROOT, weighted(1)).unwrap();
            assert_eq!(tree.build().unwrap_err(), HierarchyError::TransmitQueue { packets });
        }
        let empty = Hierarchy::builder(LinkConfig::new(rate(10))).build();
        assert_eq!(empty.unwrap_err(), HierarchyError::NoClasses);
    }
}
