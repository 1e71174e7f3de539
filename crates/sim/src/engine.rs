//! The run itself: a clock that jumps from event to event.

use fairlink_core::{
    ClassId, Driver, Feature, Leniency, Metered, Nanos, Pacer, Scheduler, SchedulerInfo, Wake, registry::build_member,
};

use crate::observe::Observer;
use crate::port::LinkPort;
use crate::report::{Report, Run};
use crate::scenario::{Options, Scenario, SimError};
use crate::shared::{self, Shared, SharedPool, Sharing};
use crate::summary::summarise;

/// Calls of the driver at one instant without a packet moving, after which the scheduler counts as stalled.
const MAX_IDLE_TURNS: u32 = 1000;

/// How often an observer is asked whether to go on, evenly over the simulated time.
const PROGRESS_CALLS: u64 = 200;

/// Calls of the driver after which an observer is asked in any case: of a long run, a 200th is longer than anyone waits after
/// Ctrl-C.
const PROGRESS_TURNS: u64 = 1 << 17;

/// Runs `scenario` under `scheduler`, which was made for its tree and is called `name` in the report.
///
/// # Errors
/// [`SimError`]: of the scenario, or because packets were lost.
pub fn simulate(
    scenario: &Scenario,
    name: &str,
    scheduler: Box<dyn Scheduler>,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Run, SimError> {
    let phases = scenario.phases();
    let mut lines = [Line::new(LinkPort::new(scenario, &phases, options, observer)?, scheduler)];
    run(&mut lines, scenario.duration).map_err(|(_, error)| error)?;
    lines[0].summary(name, options, &scenario.ideals())
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
    compare_links(vec![scenario.clone()], &Sharing::default(), schedulers, leniency, runs, options, observer)
}

/// As [`compare`], for several links that share pools. All links run under the same scheduler. The observer is told of the packets of
/// the first link, and of the progress of all.
///
/// # Errors
/// The first [`SimError`]; of a further link as [`SimError::Further`].
pub fn compare_shared(
    shared: &Shared,
    schedulers: &[&'static SchedulerInfo],
    leniency: Leniency,
    runs: u32,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, SimError> {
    compare_links(shared.scenarios(), &shared.sharing(), schedulers, leniency, runs, options, observer)
}

fn compare_links(
    mut scenarios: Vec<Scenario>,
    sharing: &Sharing<'_>,
    schedulers: &[&'static SchedulerInfo],
    leniency: Leniency,
    runs: u32,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, SimError> {
    let phases = match &scenarios[..] {
        [alone] => alone.phases(),
        several => shared::phases(several),
    };
    for (link, scenario) in scenarios.iter().enumerate() {
        scenario.check(&phases, options).map_err(|error| sharing.of_link(link, error))?;
    }
    let ideals = shared::ideals(&scenarios, sharing.pools, &phases);
    let mut report = Report { runs: Vec::new() };
    let seeds: Vec<u64> = scenarios.iter().map(|scenario| scenario.seed).collect();
    for info in schedulers {
        for more in 0..u64::from(runs) {
            for (scenario, seed) in scenarios.iter_mut().zip(&seeds) {
                scenario.seed = seed.wrapping_add(more);
            }
            let mut members = sharing.members(&scenarios)?;
            let mut silent = vec![(); scenarios.len()];
            let others = silent.iter_mut().map(|silent| silent as &mut dyn Observer);
            let mut lines = Vec::with_capacity(scenarios.len());
            for (link, (scenario, observer)) in
                scenarios.iter().zip(std::iter::once(&mut *observer).chain(others)).enumerate()
            {
                let of_link = |error| sharing.of_link(link, error);
                let scheduler = build_member(info, &scenario.tree, leniency, std::mem::take(&mut members[link]))
                    .map_err(|error| of_link(SimError::Build { scheduler: info.name, error }))?;
                let port = LinkPort::new(scenario, &phases, options, observer).map_err(of_link)?;
                lines.push(Line::new(port, scheduler));
            }
            run(&mut lines, scenarios[0].duration).map_err(|(link, error)| sharing.of_link(link, error))?;
            let mut merged: Option<Run> = None;
            for (link, line) in lines.iter().enumerate() {
                let of_link = |error| sharing.of_link(link, error);
                let mut one = line.summary(info.name, options, &ideals[link]).map_err(of_link)?;
                one.notes = notes(info, &scenarios[link]);
                match &mut merged {
                    None => merged = Some(one),
                    Some(run) => run.join(&sharing.names[link - 1].0, one),
                }
            }
            let mut run = merged.expect("there is a first link");
            if !info.supports(Feature::Pool) {
                let ignored = |pool: &SharedPool| format!("{} ignores the pool {}", info.name, pool.name);
                run.notes.extend(sharing.pools.iter().map(ignored));
            }
            report.runs.push(run);
        }
    }
    Ok(report)
}

/// What `info` goes on without.
fn notes(info: &SchedulerInfo, scenario: &Scenario) -> Vec<String> {
    let name = |class: ClassId| &scenario.names[class.index()];
    let unsupported = info.unsupported(&scenario.tree).into_iter();
    unsupported
        .map(|(class, feature)| format!("{} ignores that class {} has {}", info.name, name(class), feature.as_str()))
        .collect()
}

/// A link that runs: its port, and the driver with its scheduler.
struct Line<'a> {
    port: LinkPort<'a>,
    driver: Driver<Metered<Box<dyn Scheduler>>>,
    now: Nanos,
    wake: Wake,
    idle_turns: u32,
}

impl<'a> Line<'a> {
    fn new(port: LinkPort<'a>, scheduler: Box<dyn Scheduler>) -> Self {
        // Waking at whole nanoseconds, a catch-up of one keeps the fractions, and with them the rate, exact.
        let tree = &port.scenario().tree;
        let driver = Driver::new(Metered::new(scheduler, tree), Pacer::new(tree.link().rate, Nanos(1)));
        Self { port, driver, now: Nanos::ZERO, wake: Wake::OnArrival, idle_turns: 0 }
    }

    /// When something happens next.
    fn next(&self) -> Option<Nanos> {
        let due = match self.wake {
            Wake::At(at) => Some(at),
            Wake::OnArrival => self.port.wants_to_refill().then_some(self.now),
        };
        [due, self.port.next_event()].into_iter().flatten().min().map(|at| at.max(self.now))
    }

    fn turn(&mut self, at: Nanos) -> Result<(), SimError> {
        let moved = self.port.moved();
        self.wake = self.driver.turn(at, &mut self.port);
        self.port.check()?;
        self.idle_turns = if at > self.now || self.port.moved() > moved { 0 } else { self.idle_turns + 1 };
        if self.idle_turns > MAX_IDLE_TURNS {
            return Err(SimError::Stalled { at });
        }
        self.now = at;
        Ok(())
    }

    fn summary(&self, name: &str, options: &Options, ideals: &[Vec<f64>]) -> Result<Run, SimError> {
        let metered = self.driver.scheduler();
        metered.check_conservation().map_err(|what| SimError::NotConserved { what })?;
        Ok(summarise(&self.port, metered, name, options, ideals))
    }
}

/// Runs all to the end on one clock: what happens first comes first, and at one instant the links in their order.
///
/// # Errors
/// What went wrong, and at which link.
fn run(lines: &mut [Line<'_>], duration: Nanos) -> Result<(), (usize, SimError)> {
    let progress_step = Nanos((duration.0 / PROGRESS_CALLS).max(1));
    let mut progress_at = progress_step;
    let mut turns = 0u64;
    loop {
        let next = lines.iter().enumerate().filter_map(|(link, line)| Some((line.next()?, link))).min();
        let Some((now, link)) = next.filter(|&(at, _)| at < duration) else { return Ok(()) };
        lines[link].turn(now).map_err(|error| (link, error))?;
        turns += 1;
        if now >= progress_at || turns.is_multiple_of(PROGRESS_TURNS) {
            lines[0].port.progress(now).map_err(|error| (0, error))?;
            progress_at = Nanos((now.0 / progress_step.0).saturating_add(1).saturating_mul(progress_step.0));
        }
    }
}
