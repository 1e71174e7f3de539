//! What is simulated.

use fairlink_core::{BuildError, ClassId, Hierarchy, Nanos, OutOfMemory, Overhead, PoolError};
use fairlink_theory::fast::Solver;
use fairlink_theory::hmm::Allocation;
use fairlink_theory::request::{Demand, Request};
use fairlink_theory::to_f64;
use fairlink_traffic::{Interval, MixError, SourceSpec};

/// A link shared among a tree of classes, its traffic, and for how long.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The link and its classes.
    pub tree: Hierarchy,
    /// Names by class id, the link's first.
    pub names: Vec<String>,
    /// What the link adds to each frame of the sources when it accounts for it.
    pub overhead: Overhead,
    /// The traffic.
    pub sources: Vec<SourceSpec>,
    /// How long the sources run; what is queued then stays queued.
    pub duration: Nanos,
    /// Left out of the averages (rates and delays of the whole run, utilisation) from the start; shorter than `duration`.
    /// Counters and phases cover the whole run.
    pub warmup: Nanos,
    /// Seed of everything random.
    pub seed: u64,
}

/// How a scenario is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Length of the windows in which rates are recorded against time; none are recorded when absent.
    pub window: Option<Nanos>,
    /// Left out at the start of each phase in [`ClassRate::settled_bps`](crate::ClassRate::settled_bps).
    pub settle: Nanos,
}

/// Most classes times phases for which [`Scenario::ideals`] calculates in rational numbers. For more it would take longer than many
/// a simulation.
const EXACT_CELLS: usize = 10_000;

/// Most classes times windows that are recorded in one run; 8 bytes each, and as many again in the report.
pub const MAX_WINDOW_RATES: u64 = 1 << 26;

/// Most classes times averages of phases that are recorded in one run; about 100 bytes each in the report.
pub const MAX_PHASE_RATES: u64 = 1 << 23;

/// Why a simulation did not take place or was not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// A run of no time, or one that is all warmup.
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
    /// Not one name for each class.
    #[error("{names} names for {classes} classes (the link is one)")]
    Names {
        /// How many names there are.
        names: usize,
        /// How many classes there are, the root included.
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
    /// A source that cannot run.
    #[error(transparent)]
    Source(#[from] MixError),
    /// More to record than [`MAX_WINDOW_RATES`] or [`MAX_PHASE_RATES`].
    #[error("{cells} rates to record ({what}); the limit is {limit}")]
    TooMuchToRecord {
        /// What there is too much of.
        what: &'static str,
        /// How many rates.
        cells: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// The scheduler could not be made for the tree.
    #[error("{scheduler}: {error}")]
    Build {
        /// The scheduler's name.
        scheduler: &'static str,
        /// Why.
        #[source]
        error: BuildError,
    },
    /// There is no memory for the scheduler's counters or for a batch of packets.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A pool that cannot be.
    #[error("pool {pool}: {error}")]
    Pool {
        /// The pool's name.
        pool: String,
        /// Why.
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
        /// How many there are.
        links: usize,
    },
    /// What went wrong on a link after the first.
    #[error("link {link}: {error}")]
    Further {
        /// The link's name.
        link: String,
        /// What went wrong.
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
    /// The scheduler asks to be called again at once, for ever, and sends nothing.
    #[error("the scheduler made no progress at {at}")]
    Stalled {
        /// When.
        at: Nanos,
    },
    /// Packets were lost or made up: of a class or of all, what was received is not what was sent, dropped and is still queued.
    #[error("packets were lost or made up: {what}")]
    NotConserved {
        /// The class and its numbers.
        what: String,
    },
    /// The observer asked for the end.
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
        if self.names.len() != self.tree.len() {
            return Err(SimError::Names { names: self.names.len(), classes: self.tree.len() });
        }
        for (index, source) in self.sources.iter().enumerate() {
            if !self.tree.is_leaf(source.class) {
                return Err(SimError::NotALeaf { index, class: source.class });
            }
        }
        let classes = self.tree.len() as u64;
        let limited = |what, columns: u64, limit| {
            let cells = columns.saturating_mul(classes);
            if cells > limit { Err(SimError::TooMuchToRecord { what, cells, limit }) } else { Ok(()) }
        };
        if let Some(window) = options.window {
            limited("classes times windows", self.duration.0.div_ceil(window.0), MAX_WINDOW_RATES)?;
        }
        // Each phase may be cut in two by the settling time, and one of them by the warmup.
        limited("classes times phases", 2 * phases.len() as u64 + 1, MAX_PHASE_RATES)
    }

    /// The intervals between consecutive changes of any source's activity.
    #[must_use]
    pub fn phases(&self) -> Vec<Interval> {
        let mut cuts = vec![Nanos::ZERO, self.duration];
        for source in &self.sources {
            cuts.extend(source.active_until(self.duration).iter().flat_map(|interval| [interval.start, interval.end]));
        }
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|pair| Interval { start: pair[0], end: pair[1] }).collect()
    }

    /// What the leaves ask for at the instant `at`: unlimited where a greedy source is active, the sum of the mean rates of
    /// the active sources elsewhere.
    #[must_use]
    pub fn demand(&self, at: Nanos) -> Demand {
        let mut demand = Demand::uniform(&self.tree, Request::Rate(0));
        for source in &self.sources {
            let active = source.active_until(self.duration);
            if !active.iter().any(|interval| interval.start <= at && at < interval.end) {
                continue;
            }
            let request = match (demand.get(source.class), source.mean_rate(|len| self.overhead.accounted(len))) {
                (Some(Request::Rate(rate)), Some(more)) => Request::Rate(rate.saturating_add(more)),
                _ => Request::Unlimited,
            };
            // A class that is no leaf asks for nothing; `simulate` refuses such a source.
            let _ = demand.set(&self.tree, source.class, request);
        }
        demand
    }

    /// What hierarchical max-min fairness gives each class in each phase, in bit/s: by phase, then by class id, the link first.
    /// Exact, but for the float, up to 10,000 classes times phases. Beyond that a rate may be too low, by less than one bit/s
    /// for each level of the tree.
    #[must_use]
    pub fn ideals(&self) -> Vec<Vec<f64>> {
        self.ideals_in(&self.phases())
    }

    /// As [`Scenario::ideals`], with other phases.
    pub(crate) fn ideals_in(&self, phases: &[Interval]) -> Vec<Vec<f64>> {
        solve(&self.tree, phases, |at| self.demand(at))
    }
}

/// What hierarchical max-min fairness gives each class of `tree` in each phase. The demand of a phase is that at its start.
pub(crate) fn solve(tree: &Hierarchy, phases: &[Interval], demand: impl Fn(Nanos) -> Demand) -> Vec<Vec<f64>> {
    if tree.len() * phases.len() > EXACT_CELLS {
        let mut solver = Solver::new(tree);
        let solve = |phase: &Interval| {
            let allocations = solver.solve(tree.link().rate, &demand(phase.start));
            allocations.iter().map(|&bps| bps as f64).collect()
        };
        return phases.iter().map(solve).collect();
    }
    let solve = |phase: &Interval| {
        let exact = Allocation::solve(tree, &demand(phase.start));
        exact.classes().iter().map(|class| to_f64(&class.allocation)).collect()
    };
    phases.iter().map(solve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{ClassConfig, LinkConfig, Rate, Share};
    use fairlink_traffic::{Model, PacketSize};

    /// Greedy sources at the `leaves` leaves of a tree of two levels, each starting a millisecond after the one before.
    fn staggered(leaves: u64) -> Scenario {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000_000_007).unwrap()));
        let weighted = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
        let inner = [1, 3, 9].map(|weight| tree.add(ClassId::ROOT, weighted(weight)).unwrap());
        let end = Nanos::from_millis(leaves + 1);
        let source = |n: u64| SourceSpec {
            class: tree.add(inner[n as usize % 3], weighted(1 + n * n)).unwrap(),
            model: if n.is_multiple_of(5) { Model::CbrRate(Rate::from_bps(777 + n).unwrap()) } else { Model::Greedy },
            packet: PacketSize::Fixed(1000),
            active: vec![Interval { start: Nanos::from_millis(n), end }],
        };
        let sources = (0..leaves).map(source).collect();
        let tree = tree.build().unwrap();
        let names = vec![String::new(); tree.len()];
        Scenario { tree, names, overhead: Overhead::NONE, sources, duration: end, warmup: Nanos::ZERO, seed: 1 }
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
