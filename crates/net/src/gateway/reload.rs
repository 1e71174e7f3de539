//! Changes of a running gateway: another link file, another rate, another scheduler.
//!
//! A change is prepared beside the data thread, on the thread that asks for it, and committed by the data thread between two turns:
//!
//! ```text
//! asking thread: read a link file (RunningConfig::read, or the plan of all links), if one is asked for
//!                check, build (RunningConfig::draft) -> PendingChange -> mailbox
//! data thread:   exchange what belongs to the classes, move the packets (PendingChange::commit) -> mailbox
//! asking thread: free the replaced parts, report the changes
//! ```
//!
//! A change that is refused changes nothing. A class is identified by its name: a leaf that stays a leaf keeps its packets in their order, its
//! counters, its delays, and the state of its queue discipline and its scheduler. The packets of other leaves go to the class that the caller
//! names, or are dropped and counted as `class_removed`.
//!
//! A link file gives the *nominal* rates. [`Wanted`] deviates from them until the next file. If the link has less than the guarantees of its
//! classes, all guarantees shrink in the same proportion, and grow back with the link.

use std::collections::BTreeMap;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use fairlink_config::link::LinkFile;
use fairlink_config::matching::Classifier;
use fairlink_core::{
    Change, ClassConfig, ClassId, Driver, DropReason, DropSink, HierarchyError, Leniency, LinkConfig, MeteredChange,
    MeteredRetired, Nanos, Packet, Rate, ReconfigureError, Scheduler, ServiceCurve, Share,
};
use fairlink_report::Terms;

mod error;
mod report;
mod source;

pub use error::ReloadError;
pub use report::{
    ClassChange, Committed, Fate, LinkChange, ReloadRequest, Reloaded, ReloadedLink, ReloadedLinks, Wanted,
};
pub use source::has_room_to_read;

use crate::gateway::account::Generation;
use crate::gateway::config::GatewayConfig;
use crate::gateway::data_path::{AnyScheduler, DataPath, Parts};
use crate::gateway::early::Counted;
use crate::gateway::needs::{Needs, check_classes, fit_largest_packet, has_room};
use crate::gateway::open_error::OpenError;
use crate::gateway::pools::Tuned;
use crate::gateway::queue_lengths::QueueLengths;
use crate::gateway::remote_error::RemoteError;
use crate::gateway::splitter::Splitter;
use crate::gateway::stats::{EdgeCounters, MemoryBound};
use crate::gateway::workers::Sortings;
use crate::io::backend::{Backend, BackendKind};
use crate::io::clock::{Clock, MonotonicClock};
use crate::io::frame_pool::{FramePool, Growth};
use crate::io::interface::Interface;
use crate::io::port::Footprint;
use crate::wire::labels::Labels;

/// Time limit for the data thread to begin with a change.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Rates that deviate from the link file.
#[derive(Clone, Debug, Default)]
struct Deviations {
    link: Option<Rate>,
    guarantees: BTreeMap<ClassId, Rate>,
    ceilings: BTreeMap<ClassId, Rate>,
}

impl Deviations {
    fn is_empty(&self) -> bool {
        self.link.is_none() && self.guarantees.is_empty() && self.ceilings.is_empty()
    }
}

/// The length of queues without a length in the link file, while rates deviate from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queues {
    /// From the highest rates of their classes now.
    AsRates,
    /// From the highest rates of their classes by the file.
    AsFile,
}

/// Note that queues could not grow with their rates.
const KEPT_QUEUES: &str = "queues without a buffer in the link file keep the length that they have at the file's rates: there is no room for \
                           longer ones; a larger memory in [link] has room when the gateway starts again";

/// The configuration of a running gateway, from which changes are prepared.
#[derive(Debug)]
pub(super) struct RunningConfig {
    /// The configuration by the link file.
    nominal: GatewayConfig,
    deviations: Deviations,
    /// Strictness for link files, as at the start of the gateway.
    leniency: Leniency,
    /// The configuration that runs.
    config: GatewayConfig,
    input: Interface,
    footprint: Footprint,
    /// Frames of the packet pool, and the largest number that it can grow to.
    frames: u32,
    room: u32,
    /// Salt of the labels of frames.
    salt: RandomState,
    generation: Arc<Generation>,
    /// The clock of the data thread.
    clock: MonotonicClock,
}

/// A change on its way to the data thread and back.
#[derive(Debug)]
pub(super) struct PendingChange {
    change: Option<MeteredChange>,
    /// New parameters of pools.
    tuned: Vec<Tuned>,
    retired: Option<MeteredRetired>,
    parts: Parts,
    /// By old class, the leaf that takes over its packets.
    class_map: Box<[Option<ClassId>]>,
    pub(super) config: GatewayConfig,
    /// The new generation; after the commit, the old one.
    pub(super) generation: Arc<Generation>,
    /// True if classes and frames keep their numbers, so that a trace can continue.
    pub(super) keeps_numbers: bool,
    pub(super) committed: Committed,
}

/// A change of a gateway.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request<'a> {
    /// A deviation from the link file.
    Wanted(&'a Wanted),
    /// A link file that has been read.
    Link {
        /// The new link, with its name.
        link: &'a Arc<LinkFile>,
        /// Names of leaves that `link` no longer has, each with that of the leaf that gets its packets.
        moves: &'a [(String, String)],
    },
}

/// A prepared change.
#[derive(Debug)]
pub(super) struct Draft {
    nominal: GatewayConfig,
    deviations: Deviations,
    config: GatewayConfig,
    order: Box<PendingChange>,
    pub(super) reloaded: Reloaded,
    frames: u32,
}

impl RunningConfig {
    pub(super) fn new(
        config: &GatewayConfig,
        input: Interface,
        footprint: Footprint,
        pool: &FramePool,
        generation: Arc<Generation>,
        labels: &Labels,
        clock: MonotonicClock,
    ) -> Self {
        Self {
            nominal: config.clone(),
            deviations: Deviations::default(),
            leniency: config.leniency,
            config: config.clone(),
            input,
            footprint: Footprint { frame_bytes: pool.frame_bytes() as u32, ..footprint },
            frames: pool.frames() as u32,
            room: pool.room(),
            salt: labels.salt(),
            generation,
            clock,
        }
    }

    /// Makes the change that was drafted last. `commit` returns it when the data thread has committed it.
    ///
    /// # Errors
    /// [`RemoteError`]; nothing has changed then.
    pub(super) fn take(
        &mut self,
        draft: Draft,
        commit: impl FnOnce(Box<PendingChange>) -> Result<Box<PendingChange>, RemoteError>,
    ) -> Result<Reloaded, RemoteError> {
        let Draft { nominal, deviations, config, order, mut reloaded, frames } = draft;
        let generation = Arc::clone(&order.generation);
        let order = commit(order)?;
        reloaded.committed = Some(order.committed);
        self.generation = generation;
        (self.nominal, self.deviations, self.config, self.frames) = (nominal, deviations, config, frames);
        Ok(reloaded)
    }

    /// Prepares the change.
    ///
    /// # Errors
    /// [`ReloadError`].
    pub(super) fn draft(&self, request: Request<'_>) -> Result<Draft, ReloadError> {
        let (mut nominal, mut deviations) = (self.nominal.clone(), self.deviations.clone());
        let mut notes = Vec::new();
        let mut moves: &[(String, String)] = &[];
        match request {
            Request::Link { link, moves: named } => {
                moves = named;
                let unreachable = link.unreachable_warning(link.unreachable());
                notes.extend(link.warnings.iter().chain(&unreachable).map(|warning| warning.line()));
                nominal.link_name.clone_from(&link.name);
                nominal.take_link(link).map_err(|problems| ReloadError::File(problems.lines()))?;
                if nominal.workers() != self.nominal.workers() {
                    let cores = |config: &GatewayConfig| config.workers() as u16 + 1;
                    return Err(ReloadError::Cores { wanted: cores(&nominal), running: cores(&self.nominal) });
                }
                nominal.leniency = self.leniency;
                deviations = Deviations::default();
            }
            Request::Wanted(&Wanted::LinkRate { rate }) => deviations.link = Some(rate),
            Request::Wanted(Wanted::Guarantee { class, rate }) => {
                let class = self.named(class)?;
                if !matches!(nominal.tree.config(class).share, Some(Share::Guarantee(_))) {
                    return Err(ReloadError::NoGuarantee { name: nominal.name(class) });
                }
                deviations.guarantees.insert(class, *rate);
            }
            Request::Wanted(Wanted::Ceiling { class, rate }) => {
                deviations.ceilings.insert(self.named(class)?, *rate);
            }
            Request::Wanted(Wanted::Scheduler { name, lenient }) => {
                nominal.leniency = if *lenient { Leniency::Ignore } else { Leniency::Refuse };
                nominal.scheduler = match &nominal.link {
                    Some(link) => {
                        let (info, warnings) = link
                            .for_scheduler(name, nominal.leniency)
                            .map_err(|problems| ReloadError::File(problems.lines()))?;
                        notes.extend(warnings.iter().map(|warning| warning.line()));
                        info
                    }
                    None => fairlink_config::link::scheduler_named(name)
                        .map_err(|kind| ReloadError::File(kind.to_string()))?,
                };
            }
        }
        let (config, scaled, needs) = match self.fitted(&nominal, &deviations, Queues::AsRates, &mut notes) {
            // Higher rates are not refused because longer queues do not fit.
            Err(ReloadError::PoolRoom { .. } | ReloadError::PoolFixed { .. }) if !deviations.is_empty() => {
                notes.push(KEPT_QUEUES.to_owned());
                self.fitted(&nominal, &deviations, Queues::AsFile, &mut notes)?
            }
            fitted => fitted?,
        };
        let needed = needs.to_prepare(&config.tree);
        has_room(needed).map_err(|_| ReloadError::NoRoom { needed })?;
        let class_map = self.class_map(&config, moves)?;
        let change = Change {
            scheduler: config.scheduler,
            tree: &config.tree,
            leniency: config.leniency,
            survivors: &class_map,
        };
        let (members, tuned) = config.pools.members(
            config.link.as_deref(),
            &config.tree,
            &self.clock,
            matches!(request, Request::Link { .. }),
        )?;
        let change = MeteredChange::prepare(&change, members).map_err(|error| explain(error, &config))?;
        let frames = needs.frames.max(self.frames);
        // A class is identified by its name, and keeps its delays.
        let before =
            |leaf: ClassId| find(&self.config, &config.name(leaf)).filter(|&old| class_map[old.index()] == Some(leaf));
        let delays = self.generation.delays.after(&config.tree, before);
        let parts = Parts {
            classifier: Classifier::new(&config.matches, config.default_class),
            labels: Labels::salted(&config.tree, self.salt.clone()).map_err(OpenError::from)?,
            overhead: config.overhead,
            lengths: config.lengths(),
            counters: EdgeCounters::new(delays.clone()),
            queues: QueueLengths::new(&config.tree, config.longest_frame),
            splitter: Splitter::to_inherit(config.tree.len()),
            early: Counted::for_classes(config.tree.len()),
            sortings: config.sortings(self.generation.number as u32 + 1),
            growth: (frames > self.frames).then(|| Growth::new(self.frames, frames)),
        };
        let counted = parts.counters.memory_bytes() + parts.queues.memory_bytes();
        let memory = MemoryBound {
            classifier_bytes: (parts.classifier.memory_bytes()
                + parts.labels.memory_bytes()
                + parts.sortings.as_ref().map_or(0, Sortings::memory_bytes)) as u64,
            split_bytes: self.generation.memory.split_bytes,
            kernel_bytes: self.generation.memory.kernel_bytes,
            ..Needs { frames, ..needs }.bound(&config.tree, self.footprint.frame_bytes, counted)
        };
        let reloaded = Reloaded {
            scheduler: [&self.config, &config].map(|config| config.scheduler.name.to_owned()),
            link_bps: [&self.config, &config].map(|config| config.tree.link().rate.bps()),
            guarantees_scaled_by: scaled,
            classes: self.classes(&config, &class_map),
            notes,
            committed: None,
        };
        let keeps_numbers = parts.growth.is_none() && config.names == self.config.names;
        let generation = Arc::new(Generation::new(&config, delays, memory, frames, self.generation.number + 1));
        let order = Box::new(PendingChange {
            change: Some(change),
            tuned,
            retired: None,
            parts,
            class_map,
            config: config.clone(),
            generation,
            keeps_numbers,
            committed: Committed::default(),
        });
        Ok(Draft { nominal, deviations, config, order, reloaded, frames })
    }

    /// Returns the configuration with the deviating rates and the largest frames of the interfaces, the factor of the guarantees, and the memory
    /// that is needed.
    fn fitted(
        &self,
        nominal: &GatewayConfig,
        deviations: &Deviations,
        queues: Queues,
        notes: &mut Vec<String>,
    ) -> Result<(GatewayConfig, f64, Needs), ReloadError> {
        let (mut config, scaled) = self.effective(nominal, deviations, queues)?;
        check_classes(&config)?;
        let mut of_interfaces = Vec::new();
        fit_largest_packet(&mut config, &self.input, &mut of_interfaces)?;
        // Pieces that are queued stay whole, though the new configuration makes shorter ones.
        let queued = self.config.lengths().piece;
        if config.tree.link().max_packet < queued {
            config.tree = config.tree.clone().with_max_packet(queued).map_err(ReloadError::Tree)?;
        }
        let needs = self.needs(&config)?;
        if config.tree.link().max_packet != self.config.tree.link().max_packet {
            notes.append(&mut of_interfaces);
        }
        Ok((config, scaled, needs))
    }

    /// Returns the class with this name in the current configuration.
    fn named(&self, name: &str) -> Result<ClassId, ReloadError> {
        find(&self.nominal, name).ok_or_else(|| no_class(&self.nominal, name, "before"))
    }

    /// Returns `nominal` with `deviations`, and the factor of its guarantees.
    fn effective(
        &self,
        nominal: &GatewayConfig,
        deviations: &Deviations,
        queues: Queues,
    ) -> Result<(GatewayConfig, f64), ReloadError> {
        let tree = &nominal.tree;
        let before = tree.link().rate.bps();
        let rate = deviations.link.unwrap_or(tree.link().rate);
        let guaranteed = |class: ClassId| match (deviations.guarantees.get(&class).copied(), tree.config(class).share) {
            (Some(rate), _) | (None, Some(Share::Guarantee(rate))) => rate.bps(),
            _ => 0,
        };
        let sum: u64 = tree.children(ClassId::ROOT).iter().map(|&class| guaranteed(class)).sum();
        // Only a link with a reduced rate reduces the guarantees.
        let scale = (rate.bps() < before && sum > rate.bps()).then_some((rate.bps(), sum));
        let scaled = |rate: Rate, (part, of): (u64, u64)| {
            let scaled = u128::from(rate.bps()) * u128::from(part) / u128::from(of);
            // Not above the rate, and not zero.
            Rate::from_bps((scaled as u64).max(1)).unwrap_or(rate)
        };
        // Curves fit the nominal link, not the guarantees.
        let curve_scale = (rate.bps() < before).then_some((rate.bps(), before));
        let scaled_curve = |curve: ServiceCurve, scale: (u64, u64)| ServiceCurve {
            m1: curve.m1.map(|rate| scaled(rate, scale)),
            m2: curve.m2.map(|rate| scaled(rate, scale)),
            ..curve
        };
        let rebuilt = tree.rebuilt(LinkConfig { rate, ..tree.link() }, |class, config| {
            if let Some(&rate) = deviations.guarantees.get(&class) {
                config.share = Some(Share::Guarantee(rate));
            }
            if let Some(&rate) = deviations.ceilings.get(&class) {
                config.ceiling = Some(rate);
            }
            if let (Some(scale), Some(Share::Guarantee(rate))) = (scale, config.share) {
                config.share = Some(Share::Guarantee(scaled(rate, scale)));
            }
            if let (Some(scale), Some(curve)) = (curve_scale, config.real_time) {
                config.real_time = Some(scaled_curve(curve, scale));
            }
        });
        let mut tree = rebuilt.map_err(|error| match error {
            HierarchyError::GuaranteesExceedParent { parent, children_bps, parent_bps } => {
                let parent = if parent == ClassId::ROOT { "the link".to_owned() } else { nominal.name(parent) };
                ReloadError::Guarantees { parent, parent_bps, children_bps }
            }
            other => ReloadError::Tree(other),
        })?;
        if let (Some(link), Queues::AsRates, false) = (&nominal.link, queues, deviations.is_empty()) {
            let limits = link.default_queues(&tree);
            let refit = |class: ClassId, config: &mut ClassConfig| {
                config.limits = limits[class.index()].unwrap_or(config.limits);
            };
            tree = tree.rebuilt(tree.link(), refit).map_err(ReloadError::Tree)?;
        }
        for class in tree.classes() {
            let Terms { guarantee_bps, ceiling_bps, .. } = Terms::new(&tree, class);
            let deviates = deviations.guarantees.contains_key(&class) || deviations.ceilings.contains_key(&class);
            if let (true, Some(guarantee_bps), Some(ceiling_bps)) = (deviates, guarantee_bps, ceiling_bps)
                && guarantee_bps > ceiling_bps
            {
                return Err(ReloadError::Ceiling { name: nominal.name(class), guarantee_bps, ceiling_bps });
            }
        }
        let by = scale.map_or(1.0, |(part, of)| part as f64 / of as f64);
        Ok((GatewayConfig { tree, ..nominal.clone() }, by))
    }

    fn needs(&self, config: &GatewayConfig) -> Result<Needs, ReloadError> {
        let asked = GatewayConfig { pool_frames: None, ..config.clone() };
        let needs = Needs::for_config(&asked, self.footprint)?;
        if needs.frames > self.room && self.footprint.backend == BackendKind::AfXdp {
            return Err(ReloadError::PoolFixed { queued: needs.queued, needed: needs.frames, frames: self.room });
        }
        if needs.frames > self.room {
            return Err(ReloadError::PoolRoom { queued: needs.queued, needed: needs.frames, room: self.room });
        }
        Ok(needs)
    }

    /// Returns by old class the leaf of `config` that takes over its packets.
    fn class_map(
        &self,
        config: &GatewayConfig,
        moves: &[(String, String)],
    ) -> Result<Box<[Option<ClassId>]>, ReloadError> {
        let now = &self.config;
        let new: BTreeMap<String, ClassId> =
            config.tree.leaves().iter().map(|&leaf| (config.name(leaf), leaf)).collect();
        let mut class_map: Box<[Option<ClassId>]> = vec![None; now.tree.len()].into();
        for &leaf in now.tree.leaves() {
            class_map[leaf.index()] = new.get(&now.name(leaf)).copied();
        }
        for (from, to) in moves {
            let old = find(now, from).ok_or_else(|| no_class(now, from, "before"))?;
            if !now.tree.is_leaf(old) {
                return Err(ReloadError::NotALeaf { name: from.clone(), when: "before" });
            }
            if class_map[old.index()].is_some() {
                let name = from.clone();
                let stays = new.contains_key(from);
                return Err(if stays { ReloadError::Stays { name } } else { ReloadError::MovedTwice { name } });
            }
            let heir = find(config, to).ok_or_else(|| no_class(config, to, "after"))?;
            if !config.tree.is_leaf(heir) {
                return Err(ReloadError::NotALeaf { name: to.clone(), when: "after" });
            }
            class_map[old.index()] = Some(heir);
        }
        Ok(class_map)
    }

    fn classes(&self, config: &GatewayConfig, class_map: &[Option<ClassId>]) -> Vec<ClassChange> {
        let now = &self.config;
        let before: BTreeMap<String, ClassId> = now.tree.classes().map(|class| (now.name(class), class)).collect();
        let after: BTreeMap<String, ClassId> = config.tree.classes().map(|class| (config.name(class), class)).collect();
        let there = config.tree.classes().map(|class| {
            let name = config.name(class);
            let old = before.get(&name).copied();
            ClassChange {
                leaf: config.tree.is_leaf(class),
                fate: if old.is_some() { Fate::Kept } else { Fate::Added },
                moved_to: None,
                before: old.map(|old| Terms::new(&now.tree, old)),
                after: Some(Terms::new(&config.tree, class)),
                name,
            }
        });
        let gone = now.tree.classes().filter(|&class| !after.contains_key(&now.name(class)));
        let gone = gone.map(|class| {
            let heir = class_map[class.index()];
            ClassChange {
                name: now.name(class),
                leaf: now.tree.is_leaf(class),
                fate: if heir.is_some() { Fate::Moved } else { Fate::Removed },
                moved_to: heir.map(|heir| config.name(heir)),
                before: Some(Terms::new(&now.tree, class)),
                after: None,
            }
        });
        there.chain(gone).collect()
    }
}

fn find(config: &GatewayConfig, name: &str) -> Option<ClassId> {
    config.tree.classes().find(|&class| config.name(class) == name)
}

fn no_class(config: &GatewayConfig, name: &str, when: &'static str) -> ReloadError {
    let classes = config.tree.classes().map(|class| config.name(class)).collect();
    ReloadError::NoClass { name: name.to_owned(), when, classes }
}

/// Returns the scheduler's refusal with its place in the file.
fn explain(error: ReconfigureError, config: &GatewayConfig) -> ReloadError {
    match (&error, &config.link) {
        (ReconfigureError::Build(build), Some(link)) => ReloadError::File(link.explain(build).lines()),
        _ => ReloadError::Build(error),
    }
}

/// Passes drops on and counts them.
struct Counting<'a, I, O, C> {
    sink: &'a mut DataPath<I, O, C>,
    committed: &'a mut Committed,
}

impl<I: Backend, O: Backend, C: Clock> DropSink for Counting<'_, I, O, C> {
    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason) {
        let count = self.sink.pool.chained(packet.handle as u32).count() as u64;
        match reason {
            DropReason::ClassRemoved => self.committed.removed_packets += count,
            _ => self.committed.dropped_packets += count,
        }
        self.sink.dropped(now, packet, reason);
    }

    fn marked(&mut self, now: Nanos, packet: &Packet) {
        self.sink.marked(now, packet);
    }

    fn moved(&mut self, packet: &mut Packet) {
        self.sink.moved(packet);
    }
}

impl PendingChange {
    /// Commits the change between two turns. It cannot fail, and allocates nothing.
    pub(super) fn commit<I: Backend, O: Backend, C: Clock>(
        &mut self,
        now: Nanos,
        driver: &mut Driver<AnyScheduler>,
        data_path: &mut DataPath<I, O, C>,
    ) {
        let Some(change) = self.change.take() else { return };
        data_path.exchange(&mut self.parts, &self.class_map);
        self.tuned.iter().for_each(Tuned::take_effect);
        let mut sink = Counting { sink: data_path, committed: &mut self.committed };
        self.retired = Some(driver.scheduler_mut().commit(change, now, &mut sink));
        driver.set_rate(self.config.tree.link().rate);
        self.committed.generation = self.generation.number;
        self.committed.kept_packets = driver.scheduler().backlog().packets + u64::from(data_path.queues.all_further());
        self.committed.took_s = data_path.clock.now().saturating_sub(now).0 as f64 / 1e9;
    }
}

#[cfg(test)]
mod tests;
