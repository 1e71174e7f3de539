//! The validated input of a simulation, with the data that all runs share.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairlink_core::{BuildError, Leniency, NANOS_PER_SEC, Nanos, SchedulerInfo};
use fairlink_theory::ideal::NotComputed;
use fairlink_traffic::Interval;

use crate::ideals::{self, Ideals};
use crate::links::{self, Lenders, LinkPool, Links};
use crate::metrics::{Metrics, MetricsError};
use crate::port::LinkPort;
use crate::routes::Routes;
use crate::running::Rules;
use crate::scenario::{Options, Scenario, SimError};
/// The validated input of a simulation, with the data that all runs share.
#[derive(Clone)]
pub(crate) struct Prepared {
    /// One of each link.
    pub(crate) scenarios: Vec<Arc<Scenario>>,
    /// Names of the links in routes and reports.
    pub(crate) names: Vec<String>,
    pub(crate) pools: Vec<LinkPool>,
    pub(crate) phases: Arc<[Interval]>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) options: Options,
}

impl Prepared {
    /// Checks everything but the schedulers.
    ///
    /// # Errors
    /// The first [`SimError`].
    pub(crate) fn new(links: &Links, options: &Options) -> Result<Self, SimError> {
        let scenarios = links.scenarios();
        let names = links.names();
        let phases = match &scenarios[..] {
            [alone] => alone.phases(),
            several => links::phases(several),
        };
        for (link, scenario) in scenarios.iter().enumerate() {
            scenario.check(&phases, options).map_err(|error| of_link(&names, link, error))?;
        }
        if let Some(change) = scenarios.iter().flat_map(|scenario| &scenario.changes).next()
            && !links.pools.is_empty()
        {
            return Err(SimError::ChangeOfPool { at: change.at });
        }
        let routes = Arc::new(Routes::new(links.routes.clone(), &scenarios)?);
        Ok(Self { scenarios, names, pools: links.pools.clone(), phases: phases.into(), routes, options: *options })
    }

    /// Refuses a change that `info` could not make.
    ///
    /// # Errors
    /// [`SimError::Change`].
    pub(crate) fn check(&self, info: &'static SchedulerInfo, leniency: Leniency) -> Result<(), SimError> {
        for (link, scenario) in self.scenarios.iter().enumerate() {
            let rules = Rules { info: Some(info), leniency };
            check_changes(scenario, rules).map_err(|error| of_link(&self.names, link, error))?;
        }
        Ok(())
    }

    /// Computes the max-min fair rates.
    ///
    /// # Errors
    /// Routes that lead in a circle.
    pub(crate) fn fair(&self) -> Result<ideals::Fair, SimError> {
        ideals::fair(&self.scenarios, &self.pools, &self.routes, &self.phases)
    }

    /// Computes the ideal rates of each link under `info`, by link.
    ///
    /// # Errors
    /// Routes that lead in a circle.
    pub(crate) fn ideals(&self, info: &'static SchedulerInfo, fair: &ideals::Fair) -> Result<Vec<Ideals>, SimError> {
        let own = ideals::own(info, &self.scenarios, &self.pools, &self.routes, &self.phases, fair)?;
        Ok(fair.iter().zip(own).map(|(fair, own)| Ideals { fair: fair.clone(), own }).collect())
    }
}

/// Adds the name of the link to `error` if it is a further one.
pub(crate) fn of_link(names: &[String], link: usize, error: SimError) -> SimError {
    match names.get(link) {
        Some(name) if link > 0 => SimError::Further { link: name.clone(), error: Box::new(error) },
        _ => error,
    }
}

/// Builds the objects that each change of `scenario` will need and discards them, so that a refused change fails before
/// the run.
pub(crate) fn check_changes(scenario: &Scenario, mut rules: Rules) -> Result<(), SimError> {
    for (index, change) in scenario.changes.iter().enumerate() {
        rules.info = change.scheduler.or(rules.info);
        let at = change.at;
        let info = rules.info.ok_or(SimError::NoScheduler { at })?;
        let refused = |error: BuildError| SimError::Change { index, at, scheduler: info.name, error: error.into() };
        info.build(&change.tree, rules.leniency, Lenders::new()).map_err(refused)?;
    }
    Ok(())
}

/// Measures the scheduler's promises, if requested.
pub(crate) fn measure(
    port: &mut LinkPort<'_>,
    scenario: &Scenario,
    options: &Options,
    (info, name): (Option<&'static SchedulerInfo>, &str),
    bounds: bool,
) -> Result<(), SimError> {
    if scenario.changes.is_empty() && (options.metrics || scenario.cores.cores.count > 1) {
        port.measure_misplaced();
    }
    if options.metrics {
        let refused = |error: MetricsError| SimError::Promises { scheduler: name.to_owned(), what: error.to_string() };
        port.measure(Metrics::new(&scenario.tree, info, bounds).map_err(refused)?);
    }
    Ok(())
}

/// Returns notes on the settings that schedulers ignore: `info`, and those that changes bring.
pub(crate) fn notes(mut info: &'static SchedulerInfo, scenario: &Scenario) -> Vec<String> {
    let mut notes = Vec::new();
    let mut said = BTreeSet::new();
    let schedulers = std::iter::once(None).chain(scenario.changes.iter().map(|change| change.scheduler));
    for (stage, changed) in scenario.stages().iter().zip(schedulers) {
        info = changed.unwrap_or(info);
        let classes = stage.classes();
        let since = match stage.start {
            Nanos::ZERO => String::new(),
            start => format!("from {} s on ", start.0 as f64 / NANOS_PER_SEC as f64),
        };
        for (id, feature) in info.unsupported(stage.tree) {
            let class = classes[id.index()];
            // A setting that is ignored before and after a change is noted once.
            if said.insert((info.name, class, feature)) {
                let name = &scenario.names[class.index()];
                notes.push(format!("{since}{} ignores that class {name} has {}", info.name, feature.as_str()));
            }
        }
    }
    notes
}

/// Returns the reasons why the ideal of `info` is unknown in some phases, each once.
pub(crate) fn not_computed(info: &SchedulerInfo, ideals: &Ideals) -> Vec<String> {
    let reasons: BTreeSet<&str> =
        ideals.own.iter().filter_map(|own| own.as_ref().err()).map(NotComputed::why).collect();
    let all = ideals.own.iter().all(Result::is_err);
    let when = if all { "" } else { " in some phases" };
    reasons.into_iter().map(|why| format!("the ideal of {} is not computed{when}: {why}", info.name)).collect()
}
