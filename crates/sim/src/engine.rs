//! The run itself: a clock that jumps from event to event.

use std::collections::BTreeSet;

use fairlink_core::{BuildError, Feature, Leniency, NANOS_PER_SEC, Nanos, Scheduler, SchedulerInfo};
use fairlink_theory::ideal::NotComputed;
use fairlink_traffic::Interval;

use crate::ideals::{self, Ideals};
use crate::links::{self, Lenders, LinkPool, Links};
use crate::metrics::{Metrics, MetricsError};
use crate::observe::Observer;
use crate::port::{Heard, LinkPort};
use crate::report::{Report, Run};
use crate::routes::{self, Coming, Routes};
use crate::running::{Rules, RunningLink};
use crate::scenario::{Options, Scenario, SimError};

/// How often an observer is asked whether to go on, evenly over the simulated time.
const PROGRESS_CALLS: u64 = 200;

/// Calls of the driver and packets after which an observer is asked in any case: a 200th of a long run is longer than anyone waits
/// after Ctrl-C.
const PROGRESS_WORK: u64 = 1 << 17;

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
    let phases = scenario.phases();
    let rules = Rules { info: None, leniency: Leniency::Refuse };
    check_changes(scenario, rules)?;
    let routes = Routes::default();
    let mut port = LinkPort::new(scenario, &phases, options, (&routes, 0), observer)?;
    measure(&mut port, scenario, options, (None, name), false)?;
    let mut link = [RunningLink::new(port, scheduler, rules)?];
    run(&mut link, scenario.duration).map_err(|(_, error)| error)?;
    let fair = scenario.ideals();
    let unknown = NotComputed("the scheduler is none of the registry's".to_owned());
    let own = vec![Err(unknown); fair.len()];
    link[0].summary(name, options, &Ideals { fair, own })
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

/// As [`compare`], for several links that share pools. All links run under the same scheduler. The observer is told of the packets of
/// the first link, those that it brings for [`further`](Observer::further) links of theirs, and it alone of the progress of all.
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
    let mut scenarios = links.scenarios();
    let phases = match &scenarios[..] {
        [alone] => alone.phases(),
        several => links::phases(several),
    };
    for (link, scenario) in scenarios.iter().enumerate() {
        scenario.check(&phases, options).map_err(|error| links.of_link(link, error))?;
    }
    if let Some(change) = scenarios.iter().flat_map(|scenario| &scenario.changes).next()
        && !links.pools.is_empty()
    {
        return Err(SimError::ChangeOfPool { at: change.at });
    }
    for &info in schedulers {
        for (link, scenario) in scenarios.iter().enumerate() {
            let rules = Rules { info: Some(info), leniency };
            check_changes(scenario, rules).map_err(|error| links.of_link(link, error))?;
        }
    }
    let routes = Routes::new(&links.routes, &scenarios)?;
    let fair = ideals::fair(&scenarios, &links.pools, &routes, &phases)?;
    let comparison = Comparison { links, leniency, options, phases, routes };
    let mut report = Report { runs: Vec::new() };
    let seeds: Vec<u64> = scenarios.iter().map(|scenario| scenario.seed).collect();
    for info in schedulers {
        let (pools, phases) = (&links.pools, &comparison.phases);
        let own = ideals::own(info, &scenarios, pools, &comparison.routes, phases, &fair)?;
        let both = fair.iter().zip(own).map(|(fair, own)| Ideals { fair: fair.clone(), own });
        let ideals: Vec<Ideals> = both.collect();
        for more in 0..u64::from(runs) {
            for (scenario, seed) in scenarios.iter_mut().zip(&seeds) {
                scenario.seed = seed.wrapping_add(more);
            }
            report.runs.push(comparison.run(info, &scenarios, &ideals, observer)?);
        }
    }
    Ok(report)
}

/// Builds what each change of `scenario` will need and throws it away, so that a change that is refused fails before anything runs.
fn check_changes(scenario: &Scenario, mut rules: Rules) -> Result<(), SimError> {
    for (index, change) in scenario.changes.iter().enumerate() {
        rules.info = change.scheduler.or(rules.info);
        let at = change.at;
        let info = rules.info.ok_or(SimError::NoScheduler { at })?;
        let refused = |error: BuildError| SimError::Change { index, at, scheduler: info.name, error: error.into() };
        info.build(&change.tree, rules.leniency, Lenders::new()).map_err(refused)?;
    }
    Ok(())
}

/// What all runs of a comparison have in common.
struct Comparison<'a> {
    links: &'a Links,
    leniency: Leniency,
    options: &'a Options,
    phases: Vec<Interval>,
    routes: Routes<'a>,
}

impl Comparison<'_> {
    /// Runs `scenarios`, one of each link, under `info`.
    fn run(
        &self,
        info: &'static SchedulerInfo,
        scenarios: &[Scenario],
        ideals: &[Ideals],
        observer: &mut dyn Observer,
    ) -> Result<Run, SimError> {
        let members = self.links.members(scenarios)?;
        let mut further = observer.further();
        further.resize_with(scenarios.len() - 1, || Box::new(()));
        let others = further.iter_mut().map(|further| &mut **further);
        let observers = std::iter::once(observer).chain(others);
        let mut running = Vec::with_capacity(scenarios.len());
        for (link, ((scenario, members), observer)) in scenarios.iter().zip(members).zip(observers).enumerate() {
            let started = self.start(info, (scenario, link), members, observer);
            running.push(started.map_err(|error| self.links.of_link(link, error))?);
        }
        run(&mut running, scenarios[0].duration).map_err(|(link, error)| self.links.of_link(link, error))?;
        let mut merged: Option<Run> = None;
        for (link, (running, ideals)) in running.iter().zip(ideals).enumerate() {
            let summary = running.summary(info.name, self.options, ideals);
            let mut one = summary.map_err(|error| self.links.of_link(link, error))?;
            one.notes.splice(0..0, notes(info, &scenarios[link]));
            one.notes.extend(not_computed(info, ideals));
            match &mut merged {
                None => merged = Some(one),
                Some(run) => run.join(&self.links.further[link - 1].0, one),
            }
        }
        let mut run = merged.expect("there is a first link");
        let visits: Vec<_> = running.iter().map(|running| running.port().visits()).collect();
        run.routes = routes::runs(&self.routes, scenarios, &self.links.names(), &visits);
        if !info.supports(Feature::Pool) {
            let ignored = |pool: &LinkPool| format!("{} ignores the pool {}", info.name, pool.name);
            run.notes.extend(self.links.pools.iter().map(ignored));
        }
        Ok(run)
    }

    fn start<'r>(
        &'r self,
        info: &'static SchedulerInfo,
        (scenario, link): (&'r Scenario, usize),
        members: Lenders,
        observer: &'r mut dyn Observer,
    ) -> Result<RunningLink<'r>, SimError> {
        let scheduler = info
            .build(&scenario.tree, self.leniency, members)
            .map_err(|error| SimError::Build { scheduler: info.name, error })?;
        let mut port = LinkPort::new(scenario, &self.phases, self.options, (&self.routes, link), observer)?;
        // What is borrowed from a pool is no part of any bound.
        let bounds = self.links.pools.is_empty();
        measure(&mut port, scenario, self.options, (Some(info), info.name), bounds)?;
        RunningLink::new(port, scheduler, Rules { info: Some(info), leniency: self.leniency })
    }
}

/// Measures what the scheduler promises, where that is asked for.
fn measure<'a>(
    port: &mut LinkPort<'a>,
    scenario: &'a Scenario,
    options: &Options,
    (info, name): (Option<&'static SchedulerInfo>, &str),
    bounds: bool,
) -> Result<(), SimError> {
    if options.metrics {
        let refused = |error: MetricsError| SimError::Promises { scheduler: name.to_owned(), what: error.to_string() };
        port.measure(Metrics::new(&scenario.tree, info, bounds).map_err(refused)?);
    }
    Ok(())
}

/// What schedulers go on without: `info`, and those that changes bring.
fn notes(mut info: &'static SchedulerInfo, scenario: &Scenario) -> Vec<String> {
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
            // What was ignored before a change and is ignored after it is said once.
            if said.insert((info.name, class, feature)) {
                let name = &scenario.names[class.index()];
                notes.push(format!("{since}{} ignores that class {name} has {}", info.name, feature.as_str()));
            }
        }
    }
    notes
}

/// Why the ideal of `info` is not known in some phases, each reason once.
fn not_computed(info: &SchedulerInfo, ideals: &Ideals) -> Vec<String> {
    let reasons: BTreeSet<&str> = ideals.own.iter().filter_map(|own| own.as_ref().err()).map(|why| &*why.0).collect();
    let all = ideals.own.iter().all(Result::is_err);
    let when = if all { "" } else { " in some phases" };
    reasons.into_iter().map(|why| format!("the ideal of {} is not computed{when}: {why}", info.name)).collect()
}

/// Runs all to the end on one clock: what happens first comes first, and at one instant the links in their order.
///
/// # Errors
/// What went wrong, and at which link.
fn run(links: &mut [RunningLink<'_>], duration: Nanos) -> Result<(), (usize, SimError)> {
    let progress_step = Nanos((duration.0 / PROGRESS_CALLS).max(1));
    let mut progress_at = progress_step;
    let mut work = 0u64;
    loop {
        let next = match links {
            [alone] => alone.next().map(|at| (at, 0)),
            _ => links.iter().enumerate().filter_map(|(number, link)| Some((link.next()?, number))).min(),
        };
        let Some((now, number)) = next.filter(|&(at, _)| at < duration) else { return Ok(()) };
        let moved = links[number].port().moved();
        links[number].turn(now).map_err(|error| (number, error))?;
        if links[number].port().has_messages() {
            exchange(links, number);
        }
        // A turn may take in very many packets.
        work += 1 + links[number].port().moved() - moved;
        if now >= progress_at || work >= PROGRESS_WORK {
            work = 0;
            links[0].progress(now).map_err(|error| (0, error))?;
            progress_at = Nanos((now.0 / progress_step.0).saturating_add(1).saturating_mul(progress_step.0));
        }
    }
}

/// What has left link `number` goes on to other links, where it comes later than now, and sources hear of what has arrived.
fn exchange(links: &mut [RunningLink<'_>], number: usize) {
    let going: Vec<Coming> = links[number].port_mut().going().collect();
    for coming in going {
        links[coming.link].port_mut().expect(coming);
    }
    let heard: Vec<Heard> = links[number].port_mut().heard().collect();
    for heard in heard {
        links[heard.link].port_mut().hear(heard);
    }
}
