//! Several links that run side by side on one clock and share pools of bandwidth.

use std::sync::Arc;

use fairlink_core::{ClassId, Hierarchy, Lender, Pool, PoolRule, Rate};
use fairlink_theory::pooled::{self, PoolMember, SharedPool};
use fairlink_theory::request::Demand;
use fairlink_traffic::Interval;

use crate::change::Stage;
use crate::report::Run;
use crate::routes::Route;
use crate::scenario::{Scenario, SimError};
use fairlink_report::LinkReport;

/// Links that share pools. Packets, times and lengths are each link's own; duration, warmup and seed are those of the first.
#[derive(Clone, Debug)]
pub struct Links {
    /// The first link and its traffic.
    pub first: Scenario,
    /// Further links by name. In a report, their classes are called `LINK:CLASS` and come after those of the first.
    pub further: Vec<(String, Scenario)>,
    /// Shared pools.
    pub pools: Vec<LinkPool>,
    /// Sources whose packets go over several of the links.
    pub routes: Vec<Route>,
}

/// The configuration of a [`Pool`], and its members.
#[derive(Clone, Debug)]
pub struct LinkPool {
    /// Its name.
    pub name: String,
    /// Sharing rule.
    pub rule: PoolRule,
    /// Total rate of its members.
    pub rate: Rate,
    /// Bytes that may be sent at once.
    pub burst: u64,
    /// The members: the link (0 is the first), the class below its root, and the rate that the class is assured of.
    pub members: Vec<(usize, ClassId, Rate)>,
}

/// Lenders of the classes of a link.
pub(crate) type Lenders = Vec<(ClassId, Box<dyn Lender>)>;

impl Links {
    /// Makes one link without pools.
    #[must_use]
    pub fn alone(first: Scenario) -> Self {
        Self { first, further: Vec::new(), pools: Vec::new(), routes: Vec::new() }
    }

    /// Returns the names of the links in routes; the first has the name of its root.
    pub(crate) fn names(&self) -> Vec<String> {
        self.first.names.first().cloned().into_iter().chain(self.further.iter().map(|(name, _)| name.clone())).collect()
    }

    /// Returns all links as they run.
    pub(crate) fn scenarios(&self) -> Vec<Arc<Scenario>> {
        let mut all = vec![Arc::new(self.first.clone())];
        for (n, (name, scenario)) in self.further.iter().enumerate() {
            let Scenario { duration, warmup, seed, .. } = self.first;
            // Another stream of random numbers for each link, far from the seeds of other runs.
            let seed = seed.wrapping_add((n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let names = scenario.names.iter().map(|class| format!("{name}:{class}")).collect();
            all.push(Arc::new(Scenario { names, duration, warmup, seed, ..scenario.clone() }));
        }
        all
    }

    /// Makes the pools, and the members of each link.
    pub(crate) fn members(pools: &[LinkPool], links: usize) -> Result<Vec<Lenders>, SimError> {
        let mut members: Vec<Lenders> = (0..links).map(|_| Vec::new()).collect();
        for pool in pools {
            let bases: Vec<Rate> = pool.members.iter().map(|&(.., base)| base).collect();
            let refused = |error| SimError::Pool { pool: pool.name.clone(), error };
            let ends = Pool::share(pool.rule, pool.rate, pool.burst, &bases).map_err(refused)?;
            for (&(link, class, _), end) in pool.members.iter().zip(ends) {
                let no_link = || SimError::NoLink { pool: pool.name.clone(), link, links };
                members.get_mut(link).ok_or_else(no_link)?.push((class, Box::new(end)));
            }
        }
        Ok(members)
    }
}

/// Returns the intervals in which no link changes and no source of any link starts or stops.
pub(crate) fn phases(scenarios: &[Arc<Scenario>]) -> Vec<Interval> {
    let mut cuts: Vec<_> =
        scenarios.iter().flat_map(|scenario| scenario.phases()).flat_map(|phase| [phase.start, phase.end]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|pair| Interval { start: pair[0], end: pair[1] }).collect()
}

/// Returns the max-min fair rates, by link, phase and class, pools included.
pub(crate) fn ideals(scenarios: &[Arc<Scenario>], pools: &[LinkPool], phases: &[Interval]) -> Vec<Vec<Vec<f64>>> {
    if pools.is_empty() {
        return scenarios.iter().map(|scenario| scenario.ideals_in(phases)).collect();
    }
    let mut ideals: Vec<Vec<Vec<f64>>> = scenarios.iter().map(|_| Vec::with_capacity(phases.len())).collect();
    let stages: Vec<Vec<Stage<'_>>> = scenarios.iter().map(|scenario| scenario.stages()).collect();
    for phase in phases {
        let in_phase = |(scenario, stages): (&Arc<Scenario>, &'_ Vec<Stage<'_>>)| {
            let stage = stages.iter().rposition(|stage| stage.start <= phase.start).unwrap_or(0);
            (stage, scenario.demand_in(&stages[stage], phase.start))
        };
        let asked: Vec<(usize, Demand)> = scenarios.iter().zip(&stages).map(in_phase).collect();
        let links: Vec<(&Hierarchy, &Demand)> =
            asked.iter().zip(&stages).map(|((stage, demand), stages)| (stages[*stage].tree, demand)).collect();
        // By link and class of the scenario, the class in this phase's tree.
        let ids: Vec<Vec<Option<ClassId>>> =
            (0..scenarios.len()).map(|link| stages[link][asked[link].0].ids(scenarios[link].names.len())).collect();
        let shared = |pool: &LinkPool| {
            let member = |&(link, class, base): &(usize, ClassId, Rate)| {
                Some(PoolMember { link, class: (*ids.get(link)?.get(class.index())?)?, base })
            };
            SharedPool { rate: pool.rate, members: pool.members.iter().filter_map(member).collect() }
        };
        let shared: Vec<SharedPool> = pools.iter().map(shared).filter(|pool| !pool.members.is_empty()).collect();
        for (link, shares) in pooled::solve(&links, &shared).into_iter().enumerate() {
            let of = |id: &Option<ClassId>| id.map_or(0.0, |id| shares[id.index()] as f64);
            ideals[link].push(ids[link].iter().map(of).collect());
        }
    }
    ideals
}

impl Run {
    /// Adds the time series of the link `name`.
    pub(crate) fn join(&mut self, name: &str, other: Self) {
        self.names.extend(other.names);
        self.classes.extend(other.classes);
        self.distributions.extend(other.distributions);
        self.inner_classes.extend(other.inner_classes);
        for (phase, other) in self.phases.iter_mut().zip(other.phases) {
            phase.classes.extend(other.classes);
            phase.inner_classes.extend(other.inner_classes);
        }
        self.closed.extend(other.closed);
        self.changes.extend(other.changes);
        self.metrics.extend(other.metrics);
        self.notes.extend(other.notes);
        self.memory_bound_bytes += other.memory_bound_bytes;
        if let (Some(windows), Some(other)) = (&mut self.windows, other.windows) {
            windows.names.extend(other.names);
            windows.leaf.extend(other.leaf);
            for (row, other) in windows.rows.iter_mut().zip(other.rows) {
                row.rates_bps.extend(other.rates_bps);
                row.leaves.extend(other.leaves);
            }
        }
        self.further_links.push(LinkReport {
            name: Some(name.to_owned()),
            scheduler: Some(other.scheduler),
            capacity_bps: Some(other.link_bps as u64),
            utilisation: Some(other.link_utilisation),
            counters: other.counters,
            ..LinkReport::default()
        });
    }
}
