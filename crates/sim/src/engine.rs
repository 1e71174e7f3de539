//! The run itself: a clock that jumps from event to event.

use fairlink_core::driver::{Driver, Pacer, Wake};
use fairlink_core::packet::ClassId;
use fairlink_core::registry::{Leniency, SchedulerInfo, build};
use fairlink_core::scheduler::{Backlog, Scheduler};
use fairlink_core::units::Nanos;

use crate::observe::Observer;
use crate::port::LinkPort;
use crate::report::{Report, Run};
use crate::scenario::{Options, Scenario, SimError};
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
    let (port, queued) = run(scenario, scheduler, options, observer)?;
    Ok(summarise(&port, &queued, name, options, &scenario.ideals()))
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
    scenario.check(options)?;
    let ideals = scenario.ideals();
    let mut report = Report { runs: Vec::new() };
    let mut scenario = scenario.clone();
    let first_seed = scenario.seed;
    for info in schedulers {
        for more in 0..u64::from(runs) {
            scenario.seed = first_seed.wrapping_add(more);
            let scheduler = build(info, &scenario.tree, leniency)
                .map_err(|error| SimError::Build { scheduler: info.name, error })?;
            let (port, queued) = run(&scenario, scheduler, options, observer)?;
            let mut run = summarise(&port, &queued, info.name, options, &ideals);
            run.notes = notes(info, &scenario);
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

/// Runs to the end; returns the port with its measurements and what each leaf has queued.
fn run<'a>(
    scenario: &'a Scenario,
    scheduler: Box<dyn Scheduler>,
    options: &Options,
    observer: &'a mut dyn Observer,
) -> Result<(LinkPort<'a>, Vec<Backlog>), SimError> {
    let mut port = LinkPort::new(scenario, options, observer)?;
    // Waking at whole nanoseconds, a catch-up of one keeps the fractions, and with them the rate, exact.
    let mut driver = Driver::new(scheduler, Pacer::new(scenario.tree.link().rate, Nanos(1)));
    let mut now = Nanos::ZERO;
    let mut wake = Wake::OnArrival;
    let mut idle_turns = 0;
    let progress_step = Nanos((scenario.duration.0 / PROGRESS_CALLS).max(1));
    let mut progress_at = progress_step;
    let mut turns = 0u64;
    loop {
        let due = match wake {
            Wake::At(at) => Some(at),
            Wake::OnArrival => port.wants_to_refill().then_some(now),
        };
        let next = [due, port.next_event()].into_iter().flatten().min().map(|at| at.max(now));
        let Some(at) = next.filter(|&at| at < scenario.duration) else { break };
        let moved = port.moved();
        wake = driver.turn(at, &mut port);
        port.check()?;
        idle_turns = if at > now || port.moved() > moved { 0 } else { idle_turns + 1 };
        if idle_turns > MAX_IDLE_TURNS {
            return Err(SimError::Stalled { at });
        }
        now = at;
        turns += 1;
        if now >= progress_at || turns.is_multiple_of(PROGRESS_TURNS) {
            port.progress(now)?;
            progress_at = Nanos((now.0 / progress_step.0).saturating_add(1).saturating_mul(progress_step.0));
        }
    }
    let queued = conserved(&port, driver.scheduler())?;
    Ok((port, queued))
}

/// What each leaf has queued, if nothing was lost and nothing made up.
fn conserved(port: &LinkPort<'_>, scheduler: &dyn Scheduler) -> Result<Vec<Backlog>, SimError> {
    let mut all = Backlog::default();
    let mut queued_by_leaf = Vec::with_capacity(port.leaves().len());
    for leaf in port.leaves() {
        let queued = scheduler.class_backlog(leaf.class);
        let (offered, sent, dropped) = (leaf.offered, leaf.sent, leaf.dropped);
        if offered.packets != sent.packets + dropped.packets + queued.packets
            || offered.bytes != sent.bytes + dropped.bytes + queued.bytes
        {
            return Err(SimError::NotConserved { class: leaf.class, offered, sent, dropped, queued });
        }
        all.packets += queued.packets;
        all.bytes += queued.bytes;
        queued_by_leaf.push(queued);
    }
    let reported = scheduler.backlog();
    if reported != all {
        return Err(SimError::Backlog { reported, counted: all });
    }
    Ok(queued_by_leaf)
}
