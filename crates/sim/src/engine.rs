//! Runs from the start to the end, under one scheduler or several.

use std::sync::Arc;

use fairlink_core::{Leniency, Scheduler, SchedulerInfo};

use crate::links::Links;
use crate::observe::{Observer, Watching};
use crate::prepared::Prepared;
use crate::report::{Report, Run};
use crate::scenario::{Options, Scenario, SimError};
use crate::simulation::Simulation;

/// Runs `scenario` under `scheduler`, which was made for its tree and is called `name` in the report.
///
/// # Errors
/// [`SimError`]: of the scenario, or because packets were lost. The first change of the scenario has to name its scheduler.
pub fn simulate(
    scenario: &Scenario,
    name: &str,
    scheduler: Box<dyn Scheduler>,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Run, SimError> {
    let prepared = Prepared::new(&Links::alone(scenario.clone()), options)?;
    let mut simulation = Simulation::under(prepared, name, scheduler, observer)?;
    simulation.step_until(scenario.duration)?;
    simulation.report()
}

/// Runs `scenario` under each of `schedulers`, each `runs` times with seeds from the scenario's own upwards. All schedulers
/// are offered the same packets at the same times by timed sources, and packets of the same lengths in the same order by
/// greedy ones.
///
/// # Errors
/// The first [`SimError`].
pub fn compare(
    scenario: &Scenario,
    schedulers: &[&'static SchedulerInfo],
    leniency: Leniency,
    runs: u32,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, SimError> {
    compare_links(&Links::alone(scenario.clone()), schedulers, leniency, runs, options, observer)
}

/// Like [`compare`], for several links that share pools. All links run under the same scheduler. The observer sees the
/// packets of the first link; those that it provides for [`further`](Observer::further) links see theirs. Only the
/// first is called with the progress of all.
///
/// # Errors
/// The first [`SimError`]; of a further link as [`SimError::Further`].
pub fn compare_links(
    links: &Links,
    schedulers: &[&'static SchedulerInfo],
    leniency: Leniency,
    runs: u32,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, SimError> {
    let mut prepared = Prepared::new(links, options)?;
    for &info in schedulers {
        prepared.check(info, leniency)?;
    }
    let fair = prepared.fair()?;
    let mut report = Report { runs: Vec::new() };
    let seeds: Vec<u64> = prepared.scenarios.iter().map(|scenario| scenario.seed).collect();
    for info in schedulers {
        let ideals = prepared.ideals(info, &fair)?;
        for more in 0..u64::from(runs) {
            for (scenario, seed) in prepared.scenarios.iter_mut().zip(&seeds) {
                Arc::make_mut(scenario).seed = seed.wrapping_add(more);
            }
            let mut further = observer.further();
            further.resize_with(prepared.scenarios.len() - 1, || Box::new(()));
            let others = further.into_iter().map(Watching::Owned);
            let observers = std::iter::once(Watching::Borrowed(&mut *observer)).chain(others).collect();
            let mut simulation = Simulation::start(prepared.clone(), info, leniency, observers)?;
            simulation.step_until(simulation.duration())?;
            report.runs.push(simulation.report_beside(&ideals)?);
        }
    }
    Ok(report)
}
