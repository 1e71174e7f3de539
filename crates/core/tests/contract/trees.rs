//! Random hierarchies, as plain data that can be changed and built again.

use fairlink_core::{
    ClassConfig, ClassId, Feature, Hierarchy, HostKey, Hosts, LinkConfig, QueueKind, QueueLimits, Rate, RoundLength,
    SchedulerInfo, Share, TransmitQueue, WhenFull,
};
use proptest::prelude::*;

/// A queue that every scheduler takes.
pub(crate) const FIFO: (QueueKind, bool, Option<Hosts>) = (QueueKind::Fifo, false, None);

/// One class below the root.
#[derive(Clone, Debug)]
pub(crate) struct ClassSpec {
    /// Index of the parent among the classes; the root when absent. Always before the class itself.
    pub(crate) parent: Option<usize>,
    pub(crate) weight: u64,
    pub(crate) limits: QueueLimits,
    pub(crate) ceiling: Option<u64>,
    pub(crate) quantum: Option<u32>,
    /// Behind the guarantee, and behind the ceiling.
    pub(crate) bursts: [Option<u64>; 2],
    pub(crate) priority: Option<u8>,
    pub(crate) latency_critical: bool,
    /// Its queue: the kind, the marking, and its hosts.
    pub(crate) queue: (QueueKind, bool, Option<Hosts>),
}

impl ClassSpec {
    pub(crate) fn weighted(weight: u64) -> Self {
        Self {
            parent: None,
            weight,
            limits: QueueLimits::default(),
            ceiling: None,
            quantum: None,
            bursts: [None; 2],
            priority: None,
            latency_critical: false,
            queue: FIFO,
        }
    }
}

/// A link and its classes. The class at index `i` has id `i + 1`.
#[derive(Clone, Debug)]
pub(crate) struct TreeSpec {
    pub(crate) rate: u64,
    pub(crate) max_packet: u32,
    pub(crate) max_queued: u32,
    /// Queue behind the scheduler. Its packets leave active queues when others arrive, which the model cannot
    /// distinguish from a fault: with one there are FIFOs only.
    pub(crate) transmit_queue: Option<TransmitQueue>,
    /// Without transmit queue, because the model does not know its contents; and with FIFOs only.
    pub(crate) push_out: bool,
    pub(crate) long_rounds: bool,
    pub(crate) classes: Vec<ClassSpec>,
}

/// By old class id, the leaf that takes over.
pub(crate) type Survivors = Vec<Option<ClassId>>;

pub(crate) fn id(index: usize) -> ClassId {
    ClassId(index as u32 + 1)
}

impl TreeSpec {
    pub(crate) fn flat(weights: &[u64]) -> Self {
        let classes = weights.iter().map(|&weight| ClassSpec::weighted(weight)).collect();
        Self {
            rate: 1_000_000_000,
            max_packet: 1500,
            max_queued: 10_000,
            transmit_queue: None,
            push_out: false,
            long_rounds: false,
            classes,
        }
    }

    pub(crate) fn build(&self) -> Hierarchy {
        let rate = |bps| Rate::from_bps(bps).expect("a rate in range");
        let Self { max_packet, max_queued, transmit_queue, .. } = *self;
        let when_full = if self.push_out { WhenFull::PushOut } else { WhenFull::DropArrival };
        let rounds = if self.long_rounds { RoundLength::Long } else { RoundLength::Short };
        let link = LinkConfig { rate: rate(self.rate), max_packet, max_queued, when_full, transmit_queue, rounds };
        let mut tree = Hierarchy::builder(link);
        for class in &self.classes {
            let config = ClassConfig {
                share: Some(Share::Weight(class.weight)),
                limits: class.limits,
                ceiling: class.ceiling.map(rate),
                quantum: class.quantum,
                burst: class.bursts[0],
                ceiling_burst: class.bursts[1],
                priority: class.priority,
                latency_critical: class.latency_critical,
                queue: class.queue.0,
                ecn: class.queue.1,
                hosts: class.queue.2,
                ..ClassConfig::default()
            };
            tree.add(class.parent.map_or(ClassId::ROOT, id), config).expect("a valid class");
        }
        tree.build().expect("a valid tree")
    }

    pub(crate) fn is_leaf(&self, index: usize) -> bool {
        self.classes.iter().all(|class| class.parent != Some(index))
    }

    pub(crate) fn leaves(&self) -> Vec<usize> {
        (0..self.classes.len()).filter(|&index| self.is_leaf(index)).collect()
    }

    pub(crate) fn has_fifos_only(&self) -> bool {
        self.transmit_queue.is_some() || self.push_out
    }

    fn depth(&self, index: usize) -> usize {
        1 + self.classes[index].parent.map_or(0, |parent| self.depth(parent))
    }

    fn identity(&self) -> Survivors {
        let keep = |index| self.is_leaf(index).then(|| id(index));
        std::iter::once(None).chain((0..self.classes.len()).map(keep)).collect()
    }

    /// Adds a class below another, or below the root if `flat` or if the tree is deep enough. A leaf that gets its
    /// first child passes its packets to that child.
    pub(crate) fn with_class(&self, below: usize, mut class: ClassSpec, levels: usize) -> (Self, Survivors) {
        let below = below % self.classes.len();
        class.parent = (self.depth(below) < levels).then_some(below);
        if self.has_fifos_only() {
            class.queue = FIFO;
        }
        let mut new = self.clone();
        let added = new.classes.len();
        let mut survivors = self.identity();
        if class.parent.is_some() && self.is_leaf(below) {
            survivors[below + 1] = Some(id(added));
        }
        new.classes.push(class);
        (new, survivors)
    }

    /// Removes a class with all below it, unless the tree would become empty.
    pub(crate) fn without_class(&self, which: usize) -> (Self, Survivors) {
        let which = which % self.classes.len();
        let mut gone = vec![false; self.classes.len()];
        gone[which] = true;
        for index in which + 1..self.classes.len() {
            gone[index] = self.classes[index].parent.is_some_and(|parent| gone[parent]);
        }
        if gone.iter().all(|&gone| gone) {
            return (self.clone(), self.identity());
        }
        let mut moved = vec![None; self.classes.len()];
        let mut classes = Vec::new();
        for (index, class) in self.classes.iter().enumerate().filter(|&(index, _)| !gone[index]) {
            moved[index] = Some(classes.len());
            classes.push(ClassSpec { parent: class.parent.and_then(|parent| moved[parent]), ..class.clone() });
        }
        let keep = |index: usize| moved[index].filter(|_| self.is_leaf(index)).map(id);
        let survivors = std::iter::once(None).chain((0..self.classes.len()).map(keep)).collect();
        (Self { classes, ..*self }, survivors)
    }

    /// Gives a class another weight and other limits.
    pub(crate) fn with_change(&self, which: usize, weight: u64, packets: u32) -> (Self, Survivors) {
        let mut new = self.clone();
        let class = &mut new.classes[which % self.classes.len()];
        class.weight = weight;
        class.limits.packets = packets;
        (new, self.identity())
    }
}

/// Limits of random trees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) classes: usize,
    pub(crate) levels: usize,
    /// Features that classes set at random.
    pub(crate) features: &'static [Feature],
    /// Weights are drawn from 1 to 9 * 10^this.
    pub(crate) weight_digits: u32,
}

impl Shape {
    /// The widest that `info` can honour.
    pub(crate) fn of(info: &SchedulerInfo, classes: usize) -> Self {
        Self {
            classes,
            levels: if info.supports(Feature::Hierarchy) { 6 } else { 1 },
            features: info.features,
            weight_digits: 9,
        }
    }
}

pub(crate) fn weights(digits: u32) -> impl Strategy<Value = u64> {
    (0..=digits, 1u64..10).prop_map(move |(digits, first)| first * 10u64.pow(digits))
}

pub(crate) fn classes(shape: Shape) -> impl Strategy<Value = ClassSpec> {
    let may = move |feature| shape.features.contains(&feature);
    let limits = (1u32..20, prop_oneof![3 => Just(u32::MAX), 1 => 1u32..20_000]);
    // A quarter of the classes each; never if the scheduler cannot honour them.
    let ceiling = (0u32..4, 0u64..1_000_000_000_000).prop_map(move |(one_in, bps)| {
        (may(Feature::Ceiling) && one_in == 0).then_some(bps / 10u64.pow((bps % 12) as u32) + 1)
    });
    let quantum =
        any::<u32>().prop_map(move |quantum| may(Feature::Quantum).then_some((quantum >> (quantum % 32)).max(1)));
    let burst =
        || (0u32..4, 0u64..1 << 32).prop_map(|(one_in, bytes)| (one_in == 0).then_some((bytes >> (bytes % 32)) + 1));
    let priority = (0u32..4, 0u8..8)
        .prop_map(move |(one_in, priority)| (may(Feature::Priority) && one_in == 0).then_some(priority));
    let latency_critical = (0u32..4).prop_map(move |one_in| may(Feature::LatencyCritical) && one_in == 0);
    let kind = prop_oneof![2 => Just(QueueKind::Fifo), 1 => Just(QueueKind::CoDel), 1 => Just(QueueKind::FqCoDel)];
    let hosts = (0u16..6).prop_map(|most| Hosts::new(most, HostKey::SourceIp));
    let queue = (kind, any::<bool>(), prop_oneof![2 => Just(None), 1 => hosts])
        .prop_map(move |queue| if may(Feature::ActiveQueue) { queue } else { FIFO });
    let extras = (ceiling, quantum, burst(), burst(), priority, latency_critical, queue);
    (weights(shape.weight_digits), limits, extras).prop_map(move |(weight, limits, extras)| {
        let (ceiling, quantum, burst, ceiling_burst, priority, latency_critical, queue) = extras;
        let of_guarantee = if latency_critical { Feature::LatencyBurst } else { Feature::Burst };
        ClassSpec {
            parent: None,
            weight,
            limits: QueueLimits { packets: limits.0, bytes: limits.1 },
            ceiling,
            quantum,
            bursts: [burst.filter(|_| may(of_guarantee)), ceiling_burst.filter(|_| may(Feature::CeilingBurst))],
            priority,
            latency_critical,
            queue,
        }
    })
}

/// Trees of 1 to `shape.classes` classes on links of all rates.
pub(crate) fn trees(shape: Shape) -> impl Strategy<Value = TreeSpec> {
    let class = (any::<prop::sample::Index>(), classes(shape));
    let rate = (0u32..=12).prop_map(|digits| 10u64.pow(digits));
    let queue = (1u32..10, any::<bool>()).prop_map(|(packets, priority)| TransmitQueue { packets, priority });
    let queue = prop_oneof![2 => Just(None), 1 => queue.prop_map(Some)];
    let pushes = shape.features.contains(&Feature::PushOut);
    let push_out = (0u32..4).prop_map(move |one_in| pushes && one_in == 0);
    let long = shape.features.contains(&Feature::LongRounds);
    let long_rounds = any::<bool>().prop_map(move |is_long| is_long && long);
    let link = (rate, prop_oneof![Just(1500u32), 1u32..=1 << 20], 1u32..200, queue, push_out, long_rounds);
    let classes = prop::collection::vec(class, 1..=shape.classes);
    (link, any::<bool>(), classes).prop_map(move |(link, quanta, list)| {
        let (rate, max_packet, max_queued, transmit_queue, push_out, long_rounds) = link;
        let transmit_queue = transmit_queue.filter(|_| !push_out);
        let mut spec =
            TreeSpec { rate, max_packet, max_queued, transmit_queue, push_out, long_rounds, classes: Vec::new() };
        for (below, mut class) in list {
            if spec.has_fifos_only() {
                class.queue = FIFO;
            }
            if spec.classes.is_empty() || below.index(4) == 0 {
                spec.classes.push(class);
            } else {
                spec = spec.with_class(below.index(spec.classes.len()), class, shape.levels).0;
            }
        }
        // All have a quantum or none: one that would push others out of range is refused.
        if !quanta {
            spec.classes.iter_mut().for_each(|class| class.quantum = None);
        }
        spec
    })
}
