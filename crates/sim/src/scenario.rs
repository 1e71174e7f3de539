//! The input of a simulation.

use fairlink_core::{BuildError, ClassId, Hierarchy, Nanos, OutOfMemory, Overhead, PoolError, ReconfigureError, Split};
use fairlink_theory::request::{Demand, Request};
use fairlink_traffic::{Interval, MixError, SourceSpec};

use crate::change::{Change, Stage};
use crate::core_model::CoreModel;
use crate::shares::{EXACT_CELLS, hmm};

/// A link shared among a tree of classes, its traffic, and its duration.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The link and its classes.
    pub tree: Hierarchy,
    /// Names by class, the link's first: those of `tree` by their ids, then those of classes that only a change brings.
    pub names: Vec<String>,
    /// Overhead that the link accounts for each frame of the sources.
    pub overhead: Overhead,
    /// Propagation delay of the link, for packets that continue to another.
    pub propagation: Nanos,
    /// The traffic. A source sends only while its class is a leaf.
    pub sources: Vec<SourceSpec>,
    /// Time for which the sources run; packets queued then stay queued.
    pub duration: Nanos,
    /// Left out of the averages (rates and delays of the whole run, utilisation) from the start; shorter than `duration`.
    /// Counters and phases cover the whole run.
    pub warmup: Nanos,
    /// Seed of everything random.
    pub seed: u64,
    /// Changes of the link during the run, in time order.
    pub changes: Vec<Change>,
    /// The cores that share the link.
    pub cores: CoreModel,
}

/// Options of the measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Length of the windows in which rates, delays, queues and drops are recorded against time. With windows, each
    /// leaf's distribution of delays is kept in the report. None of this is recorded if absent.
    pub window: Option<Nanos>,
    /// Left out at the start of each phase in `settled_bps` of [`Phase::classes`](crate::Phase::classes).
    pub settle: Nanos,
    /// True if the scheduler's promises are measured: [`Run::metrics`](crate::Run::metrics).
    pub metrics: bool,
}

/// Most classes times windows that are recorded in one run; 48 bytes each, and some 60 more in the report.
pub const MAX_WINDOW_RATES: u64 = 1 << 23;

/// Most classes times averages of phases that are recorded in one run; about 100 bytes each in the report.
pub const MAX_PHASE_RATES: u64 = 1 << 23;

/// The reason for which a simulation did not take place or was not trusted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// A run of zero length, or one that is all warmup.
    #[error("nothing is measured: the duration is {duration}, the warmup {warmup}")]
    NoTime {
        /// The duration given.
        duration: Nanos,
        /// The warmup given.
        warmup: Nanos,
    },
    /// A window of no time.
    #[error("a window of 0 ns")]
    EmptyWindow,
    /// The number of names is not that of the classes.
    #[error("{names} names for {classes} classes (the link is one)")]
    Names {
        /// Number of names.
        names: usize,
        /// Number of classes, including the root.
        classes: usize,
    },
    /// A source of a class that does not exist or has children.
    #[error("source {index}: class {} is not a leaf", .class.0)]
    NotALeaf {
        /// The index of the source, from 0.
        index: usize,
        /// The class it names.
        class: ClassId,
    },
    /// A source that sends while its class is not there.
    #[error("source {index}: class {} is not a leaf from {at} on, and the source is active then", .class.0)]
    NotThere {
        /// The index of the source, from 0.
        index: usize,
        /// The class it names.
        class: ClassId,
        /// Start of the link without that leaf.
        at: Nanos,
    },
    /// A change at a time outside the run, or not after the change before it.
    #[error("a change at {at}: it must come after {after} and before the end at {duration}")]
    ChangeTime {
        /// Its time.
        at: Nanos,
        /// The time of the change before it, or the start.
        after: Nanos,
        /// The duration of the run.
        duration: Nanos,
    },
    /// A change whose classes are not those of the scenario, each at most once and the link first.
    #[error(
        "the change at {at}: its classes are not among the scenario's {classes}, each at most once, the link first"
    )]
    ChangeClasses {
        /// Its time.
        at: Nanos,
        /// Number of classes of the scenario, including the link.
        classes: usize,
    },
    /// A packet from outside that cannot be taken.
    #[error("a packet offered at {at}: {what}")]
    Offer {
        /// Time of the refused change.
        at: Nanos,
        /// Reason of the refusal.
        what: String,
    },
    /// A change without a scheduler, of a link whose scheduler was handed over ready-made.
    #[error("the change at {at} names no scheduler, and the one that runs cannot be made again")]
    NoScheduler {
        /// Its time.
        at: Nanos,
    },
    /// A change of a link that borrows from a pool.
    #[error("a change at {at} of a link that shares a pool; only a single link can change")]
    ChangeOfPool {
        /// Its time.
        at: Nanos,
    },
    /// A change of a link on which promises are measured.
    #[error("a change at {at}: promises are measured only on a link without changes; make a scenario of each part")]
    ChangeOfMeasured {
        /// When.
        at: Nanos,
    },
    /// A scheduler's promises could not be computed.
    #[error("promises of {scheduler}: {what}")]
    Promises {
        /// The scheduler's name.
        scheduler: String,
        /// Reason of the refusal.
        what: String,
    },
    /// A change of a link on a route.
    #[error("a change at {at} of a link on a route; only a single link can change")]
    ChangeOfRoute {
        /// When.
        at: Nanos,
    },
    /// A route that cannot be.
    #[error("route {route}: {what}")]
    Route {
        /// Its name.
        route: String,
        /// Reason of the refusal.
        what: String,
    },
    /// Routes that lead in a circle.
    #[error("routes lead from link {link} back to it")]
    Circle {
        /// One of the links, by its number.
        link: usize,
    },
    /// A change that the scheduler refuses.
    #[error("the change at {at}: {scheduler}: {error}")]
    Change {
        /// Its index, from 0.
        index: usize,
        /// Its time.
        at: Nanos,
        /// The name of the scheduler that was to run from then on.
        scheduler: &'static str,
        /// Reason of the refusal.
        #[source]
        error: ReconfigureError,
    },
    /// A source that cannot run.
    #[error(transparent)]
    Source(#[from] MixError),
    /// More to record than [`MAX_WINDOW_RATES`] or [`MAX_PHASE_RATES`].
    #[error("{cells} rates to record ({what}); the limit is {limit}")]
    TooMuchToRecord {
        /// The quantity that is too large.
        what: &'static str,
        /// Number of rates.
        cells: u64,
        /// Allowed number.
        limit: u64,
    },
    /// The scheduler could not be made for the tree.
    #[error("{scheduler}: {error}")]
    Build {
        /// The scheduler's name.
        scheduler: &'static str,
        /// Reason of the failure.
        #[source]
        error: BuildError,
    },
    /// Not enough memory for the scheduler's counters or for a batch of packets.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A pool that cannot be.
    #[error("pool {pool}: {error}")]
    Pool {
        /// The pool's name.
        pool: String,
        /// Reason of the refusal.
        #[source]
        error: PoolError,
    },
    /// A member of a pool on a link that is not there.
    #[error("pool {pool}: a member on link {link}; there are {links}, from 0")]
    NoLink {
        /// The pool's name.
        pool: String,
        /// The link's number.
        link: usize,
        /// Number of links.
        links: usize,
    },
    /// An error on a link after the first.
    #[error("link {link}: {error}")]
    Further {
        /// The link's name.
        link: String,
        /// The error.
        #[source]
        error: Box<SimError>,
    },
    /// The scheduler gave out a packet that it did not hold, or changed one.
    #[error("the scheduler gave out packet {handle} of class {}, which it does not hold", .class.0)]
    ForeignPacket {
        /// The packet's handle.
        handle: u64,
        /// The packet's class.
        class: ClassId,
    },
    /// Cores that cannot share the link.
    #[error("{cores} cores, split {:?}: {what}", .split.name())]
    Cores {
        /// Their number.
        cores: u16,
        /// The way in which they were to share it.
        split: Split,
        /// The reason.
        what: String,
    },
    /// The scheduler asks to be called again at once, forever, and sends nothing.
    #[error("the scheduler made no progress at {at}")]
    Stalled {
        /// When.
        at: Nanos,
    },
    /// Packets were lost or invented: for a class or in total, received packets are not the sum of sent, dropped and
    /// queued ones.
    #[error("packets were lost or invented: {what}")]
    NotConserved {
        /// The class and its numbers.
        what: String,
    },
    /// The observer stopped the run.
    #[error("stopped at {at}")]
    Stopped {
        /// When, in simulated time.
        at: Nanos,
    },
}

impl Scenario {
    /// Checks all but the sources' own parameters.
    pub(crate) fn check(&self, phases: &[Interval], options: &Options) -> Result<(), SimError> {
        if self.warmup >= self.duration {
            return Err(SimError::NoTime { duration: self.duration, warmup: self.warmup });
        }
        if options.window == Some(Nanos::ZERO) {
            return Err(SimError::EmptyWindow);
        }
        self.check_changes()?;
        if let Some(change) = self.changes.first()
            && options.metrics
        {
            return Err(SimError::ChangeOfMeasured { at: change.at });
        }
        self.check_sources()?;
        let classes = self.names.len() as u64;
        let limited = |what, columns: u64, limit| {
            let cells = columns.saturating_mul(classes);
            if cells > limit { Err(SimError::TooMuchToRecord { what, cells, limit }) } else { Ok(()) }
        };
        if let Some(window) = options.window {
            limited(
                "classes times windows",
                self.duration.0.div_ceil(window.0) + self.changes.len() as u64,
                MAX_WINDOW_RATES,
            )?;
        }
        // Each phase may be cut in two by the settling time, and one of them by the warmup.
        limited("classes times phases", 2 * phases.len() as u64 + 1, MAX_PHASE_RATES)
    }

    /// Times and classes of the changes, and that each class has a name.
    fn check_changes(&self) -> Result<(), SimError> {
        let (names, duration) = (self.names.len(), self.duration);
        let mut known = vec![false; names];
        known.iter_mut().take(self.tree.len()).for_each(|known| *known = true);
        let mut after = Nanos::ZERO;
        for Change { at, tree, classes, .. } in &self.changes {
            let at = *at;
            if at <= after || at >= duration {
                return Err(SimError::ChangeTime { at, after, duration });
            }
            after = at;
            let mut seen = vec![false; names];
            let sound = |(id, class): (usize, &ClassId)| {
                let first = seen.get_mut(class.index()).is_some_and(|seen| !std::mem::replace(seen, true));
                first && (id == 0) == (*class == ClassId::ROOT)
            };
            if classes.len() != tree.len() || !classes.iter().enumerate().all(sound) {
                return Err(SimError::ChangeClasses { at, classes: names });
            }
            classes.iter().for_each(|class| known[class.index()] = true);
        }
        let classes = self.tree.len().max(known.iter().filter(|&&known| known).count());
        if classes == names { Ok(()) } else { Err(SimError::Names { names, classes }) }
    }

    /// Checks that the class of each source is a leaf whenever the source is active.
    fn check_sources(&self) -> Result<(), SimError> {
        let stages = self.stages();
        let leaves: Vec<_> = stages.iter().map(|stage| stage.leaf_ids(self.names.len())).collect();
        for (index, source) in self.sources.iter().enumerate() {
            let class = source.class;
            let there = |stage: usize| leaves[stage].get(class.index()).is_some_and(Option::is_some);
            if !(0..stages.len()).any(there) {
                return Err(SimError::NotALeaf { index, class });
            }
            for Interval { start, end } in source.active_until(self.duration) {
                let during = |stage: &Stage<'_>| stage.start < end && start < stage.end;
                let mut active = (0..stages.len()).filter(|&stage| during(&stages[stage]));
                if let Some(stage) = active.find(|&stage| !there(stage)) {
                    return Err(SimError::NotThere { index, class, at: stages[stage].start });
                }
            }
        }
        Ok(())
    }

    /// The states of the link, at first and after each change.
    pub(crate) fn stages(&self) -> Vec<Stage<'_>> {
        let ends = self.changes.iter().skip(1).map(|change| change.at).chain([self.duration]);
        let first_end = self.changes.first().map_or(self.duration, |change| change.at);
        let first = Stage::first(&self.tree, self.overhead, first_end);
        let later = self.changes.iter().zip(ends).map(|(change, end)| Stage::after(change, end));
        std::iter::once(first).chain(later).collect()
    }

    /// Returns the leaves and the inner classes. A class that a change turned from one into the other is in both lists.
    pub(crate) fn roles(&self) -> (Vec<ClassId>, Vec<ClassId>) {
        let mut leaf = vec![false; self.names.len()];
        let mut inner = leaf.clone();
        for stage in self.stages() {
            for (id, class) in stage.tree.classes().zip(stage.classes().into_iter().skip(1)) {
                let role = if stage.tree.is_leaf(id) { &mut leaf } else { &mut inner };
                role[class.index()] = true;
            }
        }
        let those = |role: Vec<bool>| {
            let classes = role.into_iter().enumerate().filter(|&(_, is)| is);
            classes.map(|(class, _)| ClassId(class as u32)).collect()
        };
        (those(leaf), those(inner))
    }

    /// Returns the intervals between consecutive changes of the link or of any source's activity.
    #[must_use]
    pub fn phases(&self) -> Vec<Interval> {
        let mut cuts = vec![Nanos::ZERO, self.duration];
        cuts.extend(self.changes.iter().map(|change| change.at).filter(|&at| at < self.duration));
        for source in &self.sources {
            cuts.extend(source.active_until(self.duration).iter().flat_map(|interval| [interval.start, interval.end]));
        }
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|pair| Interval { start: pair[0], end: pair[1] }).collect()
    }

    /// Returns the demand of the leaves of the tree that is in force at the instant `at`: unlimited if a greedy source
    /// is active, the sum of the mean rates of the active sources otherwise.
    #[must_use]
    pub fn demand(&self, at: Nanos) -> Demand {
        let first = Stage::first(&self.tree, self.overhead, self.duration);
        let change = self.changes.iter().rev().find(|change| change.at <= at);
        self.demand_in(&change.map_or(first, |change| Stage::after(change, self.duration)), at)
    }

    pub(crate) fn demand_in(&self, stage: &Stage<'_>, at: Nanos) -> Demand {
        self.demand_from(self.sources.iter(), stage, at)
    }

    /// Returns the demand of these sources at the instant `at`, for a link that does not change.
    pub(crate) fn demand_of<'a>(&self, sources: impl Iterator<Item = &'a SourceSpec>, at: Nanos) -> Demand {
        self.demand_from(sources, &Stage::first(&self.tree, self.overhead, self.duration), at)
    }

    fn demand_from<'a>(&self, sources: impl Iterator<Item = &'a SourceSpec>, stage: &Stage<'_>, at: Nanos) -> Demand {
        let ids = stage.ids(self.names.len());
        let mut demand = Demand::uniform(stage.tree, Request::Rate(0));
        for source in sources {
            if !source.is_active(at, self.duration) {
                continue;
            }
            let Some(class) = ids.get(source.class.index()).copied().flatten() else { continue };
            let request = match (demand.get(class), source.mean_rate(|len| stage.overhead.accounted(len))) {
                (Some(Request::Rate(rate)), Some(more)) => Request::Rate(rate.saturating_add(more)),
                _ => Request::Unlimited,
            };
            // A class that is not a leaf has no demand; `simulate` refuses such a source.
            let _ = demand.set(stage.tree, class, request);
        }
        demand
    }

    /// Returns the rates of each class by hierarchical max-min fairness in each phase, in bit/s: by phase, then by
    /// class, the link first. A class that does not exist in a phase gets zero. Exact, except for the float, up to
    /// 10,000 classes times phases. Beyond that a rate may be too low, by less than one bit/s for each level of the
    /// tree.
    #[must_use]
    pub fn ideals(&self) -> Vec<Vec<f64>> {
        self.ideals_in(&self.phases())
    }

    /// Like [`Scenario::ideals`], with other phases.
    pub(crate) fn ideals_in(&self, phases: &[Interval]) -> Vec<Vec<f64>> {
        let exact = self.names.len() * phases.len() <= EXACT_CELLS;
        let mut ideals = Vec::with_capacity(phases.len());
        for stage in self.stages() {
            let during = |phase: &&Interval| (stage.start..stage.end).contains(&phase.start);
            let during: Vec<Interval> = phases.iter().filter(during).copied().collect();
            let classes = stage.classes();
            for shares in hmm(stage.tree, &during, exact, &|at| self.demand_in(&stage, at)) {
                let mut by_class = vec![0.0; self.names.len()];
                classes.iter().zip(shares).for_each(|(class, share)| by_class[class.index()] = share);
                ideals.push(by_class);
            }
        }
        ideals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{ClassConfig, LinkConfig, Rate, Share};
    use fairlink_theory::hmm::Allocation;
    use fairlink_theory::to_f64;
    use fairlink_traffic::{Model, PacketSize};

    /// Makes greedy sources at the `leaves` leaves of a tree of two levels. Each starts a millisecond after the one
    /// before.
    fn staggered(leaves: u64) -> Scenario {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000_000_007).unwrap()));
        let weighted = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
        let inner = [1, 3, 9].map(|weight| tree.add(ClassId::ROOT, weighted(weight)).unwrap());
        let end = Nanos::from_millis(leaves + 1);
        let source = |n: u64| SourceSpec {
            class: tree.add(inner[n as usize % 3], weighted(1 + n * n)).unwrap(),
            model: if n.is_multiple_of(5) { Model::cbr(Rate::from_bps(777 + n).unwrap()) } else { Model::Greedy },
            packet: PacketSize::Fixed(1000),
            active: vec![Interval { start: Nanos::from_millis(n), end }],
        };
        let sources = (0..leaves).map(source).collect();
        let tree = tree.build().unwrap();
        let names = vec![String::new(); tree.len()];
        Scenario {
            tree,
            names,
            overhead: Overhead::NONE,
            propagation: Nanos::ZERO,
            sources,
            duration: end,
            warmup: Nanos::ZERO,
            seed: 1,
            changes: Vec::new(),
            cores: CoreModel::ONE,
        }
    }

    #[test]
    fn ideals_of_many_phases_are_less_than_a_bit_per_level_below_the_exact_ones() {
        for leaves in [20, 150] {
            let scenario = staggered(leaves);
            let phases = scenario.phases();
            assert_eq!(phases.len() * scenario.tree.len() > EXACT_CELLS, leaves == 150);
            for (phase, ideals) in phases.iter().zip(scenario.ideals()) {
                let exact = Allocation::solve(&scenario.tree, &scenario.demand(phase.start));
                for (ideal, exact) in ideals.iter().zip(exact.classes()) {
                    let below = to_f64(&exact.allocation) - ideal;
                    assert!((-1e-6..2.0).contains(&below), "{below}");
                    assert!(leaves == 150 || below == 0.0, "{below}");
                }
            }
        }
    }

    #[test]
    fn demand_is_the_sum_of_active_sources_or_unlimited() {
        let mut scenario = staggered(7);
        let class = scenario.sources[5].class;
        assert_eq!(scenario.demand(Nanos::from_millis(5)).get(class), Some(Request::Rate(782)));
        assert_eq!(scenario.demand(Nanos::from_millis(4)).get(class), Some(Request::Rate(0)));
        scenario.sources.push(SourceSpec { class, active: Vec::new(), ..scenario.sources[5].clone() });
        assert_eq!(scenario.demand(Nanos::from_millis(5)).get(class), Some(Request::Rate(2 * 782)));
        scenario.sources[5].model = Model::Greedy;
        assert_eq!(scenario.demand(Nanos::from_millis(5)).get(class), Some(Request::Unlimited));
        assert_eq!(scenario.demand(Nanos::from_millis(4)).get(class), Some(Request::Rate(782)));
    }
}
