//! Configuration of a gateway between two reloads.

use std::sync::{Arc, OnceLock};

use fairlink_core::{ClassId, Hierarchy, Rate, SchedulerInfo, Share};
use fairlink_theory::latency::{DelayBound, delay_bounds};

use super::delays::DelayCounts;
use crate::gateway::config::GatewayConfig;
use crate::gateway::stats::MemoryBound;

/// Maximum number of leaves with their own delay histogram: the first ones. Delays of the others count only in the
/// link's.
pub(crate) const MAX_HISTOGRAMS: usize = 1024;

/// See the module. It never changes; a reload makes another.
#[derive(Debug)]
pub(crate) struct Generation {
    /// Name of the link.
    pub(crate) link: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) scheduler: &'static SchedulerInfo,
    pub(crate) tree: Hierarchy,
    /// Names by class, the link's first.
    pub(crate) names: Vec<String>,
    /// Number of changes committed before.
    pub(crate) number: u64,
    pub(crate) memory: MemoryBound,
    /// Frames in its packet pool.
    pub(crate) pool_frames: usize,
    pub(crate) delays: DelayTable,
    /// Delay bounds in seconds by class, computed at first use.
    pub(crate) bounds: OnceLock<Vec<Option<f64>>>,
    /// Its classes that share pools with those of other links.
    pub(crate) pooled: Vec<Pooled>,
    /// The class of frames that match nothing.
    pub(crate) default_class: ClassId,
    /// The other classes that have matches, in their order.
    pub(crate) matched: Vec<ClassId>,
    /// Leaves that no frame can reach, by the link file.
    pub(crate) unreachable: Vec<ClassId>,
}

/// A class that shares a pool.
#[derive(Clone, Debug)]
pub(crate) struct Pooled {
    pub(crate) class: ClassId,
    /// Its guarantee, by which the pool is shared.
    pub(crate) base: Rate,
    pub(crate) pool: PoolId,
    /// Rate of the pool.
    pub(crate) rate: Rate,
}

/// Identity of a pool within a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolId {
    /// The link file.
    pub(crate) file: String,
    pub(crate) name: String,
}

impl Pooled {
    fn for_config(config: &GatewayConfig) -> Vec<Self> {
        let Some(link) = &config.link else { return Vec::new() };
        let seats = link.shared.iter().flat_map(|spec| spec.members.iter().map(move |member| (spec, member)));
        let own = seats.filter(|(_, (place, ..))| *place == link.place).map(|(spec, &(_, class, base))| {
            // Guarantees may have changed since the file was read.
            let base = match config.tree.config(class).share {
                Some(Share::Guarantee(base)) => base,
                _ => base,
            };
            let pool = PoolId { file: link.source().name().to_owned(), name: spec.name.clone() };
            Self { class, base, pool, rate: spec.rate }
        });
        own.collect()
    }
}

/// The classes with matches, each once, without the default class.
fn matched(config: &GatewayConfig) -> Vec<ClassId> {
    let mut matched = vec![false; config.tree.len()];
    config.matches.iter().for_each(|(class, _)| matched[class.index()] = true);
    let leaves = config.tree.leaves().iter().copied();
    leaves.filter(|&leaf| matched[leaf.index()] && leaf != config.default_class).collect()
}

/// Delay histograms of a generation.
#[derive(Clone, Debug)]
pub(crate) struct DelayTable {
    /// Of all packets.
    pub(crate) all: Arc<DelayCounts>,
    /// By class; `None` for inner classes and beyond the first [`MAX_HISTOGRAMS`] leaves.
    pub(crate) of: Vec<Option<Arc<DelayCounts>>>,
}

impl DelayTable {
    /// Creates empty histograms.
    pub(crate) fn new(tree: &Hierarchy) -> Self {
        let mut of = vec![None; tree.len()];
        for leaf in tree.leaves().iter().take(MAX_HISTOGRAMS) {
            of[leaf.index()] = Some(Arc::new(DelayCounts::new()));
        }
        Self { all: Arc::new(DelayCounts::new()), of }
    }

    /// Histograms for `tree` after a change: a leaf that continues keeps its histogram. `before` returns the class that
    /// it was.
    pub(crate) fn after(&self, tree: &Hierarchy, before: impl Fn(ClassId) -> Option<ClassId>) -> Self {
        let mut of = vec![None; tree.len()];
        for &leaf in tree.leaves().iter().take(MAX_HISTOGRAMS) {
            let old = before(leaf).and_then(|old| self.of.get(old.index()).cloned().flatten());
            of[leaf.index()] = Some(old.unwrap_or_else(|| Arc::new(DelayCounts::new())));
        }
        Self { all: Arc::clone(&self.all), of }
    }

    /// Number of leaves of `tree` without their own histogram.
    pub(crate) fn without(tree: &Hierarchy) -> u64 {
        tree.leaves().len().saturating_sub(MAX_HISTOGRAMS) as u64
    }

    /// Memory in bytes; it never grows.
    pub(crate) fn memory_bytes(&self) -> usize {
        let counts = 1 + self.of.iter().flatten().count();
        self.of.capacity() * size_of::<Option<Arc<DelayCounts>>>() + counts * size_of::<DelayCounts>()
    }
}

#[cfg(any(test, feature = "testing"))]
impl Generation {
    /// A generation for a gateway from `in` to `out`, whose classes are named by their numbers.
    pub(crate) fn of_tree(tree: Hierarchy, scheduler: &str) -> Self {
        Self {
            link: "out".to_owned(),
            input: "in".to_owned(),
            output: "out".to_owned(),
            scheduler: fairlink_core::registry::find(scheduler).expect("there is one of that name"),
            names: (0..tree.len()).map(|class| class.to_string()).collect(),
            number: 0,
            memory: MemoryBound::default(),
            pool_frames: 64,
            delays: DelayTable::new(&tree),
            bounds: OnceLock::new(),
            pooled: Vec::new(),
            default_class: tree.leaves()[0],
            matched: Vec::new(),
            unreachable: Vec::new(),
            tree,
        }
    }

    /// A generation for a link of 8 Mbit/s with `leaves` classes below it and the scheduler `fifo`.
    #[cfg(test)]
    pub(crate) fn flat(leaves: usize) -> Self {
        use fairlink_core::{ClassConfig, LinkConfig, Rate};
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(8_000_000).expect("a rate")));
        for _ in 0..leaves {
            tree.add(ClassId::ROOT, ClassConfig::default()).expect("room for a class");
        }
        Self::of_tree(tree.build().expect("a tree"), "fifo")
    }
}

impl Generation {
    /// A generation for a gateway with this configuration, number of earlier changes, and number of frames in the pool.
    pub(crate) fn new(
        config: &GatewayConfig,
        delays: DelayTable,
        memory: MemoryBound,
        frames: u32,
        number: u64,
    ) -> Self {
        Self {
            link: config.link_name().to_owned(),
            input: config.input.clone(),
            output: config.output.clone(),
            scheduler: config.scheduler,
            tree: config.tree.clone(),
            names: (0..config.tree.len()).map(|class| config.name(ClassId(class as u32))).collect(),
            number,
            memory,
            pool_frames: frames as usize,
            delays,
            bounds: OnceLock::new(),
            pooled: Pooled::for_config(config),
            default_class: config.default_class,
            matched: matched(config),
            unreachable: config.link.as_ref().map(|link| link.unreachable().to_vec()).unwrap_or_default(),
        }
    }

    /// Returns true if classes of this link and of another share a pool.
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        self.pooled.iter().any(|own| other.pooled.iter().any(|theirs| own.pool == theirs.pool))
    }

    /// Worst-case delay of a packet of `class` in seconds, if the scheduler guarantees one, as `fairlink check` prints
    /// it.
    pub(crate) fn delay_bound_s(&self, class: ClassId) -> Option<f64> {
        let compute = || {
            let bounds = delay_bounds(self.scheduler, &self.tree);
            bounds.iter().map(|bound| bound.as_ref().map(DelayBound::seconds_in_floats)).collect()
        };
        self.bounds.get_or_init(compute).get(class.index()).copied().flatten()
    }
}
