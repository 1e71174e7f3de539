//! `fairlink sim`: a scenario under one scheduler, or under several on the same arrivals.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use fairlink_config::names::UnknownClass;
use fairlink_config::problem::ProblemKind;
use fairlink_config::{LinkFile, PoolSpec, Problem, Problems, ReadOptions, Scenario};
use fairlink_core::{Leniency, Nanos, Rate, ReconfigureError, SchedulerInfo};
use fairlink_lab::figures::rates::{self, PlotError};
use fairlink_lab::measure::{SETTLE, TOLERANCE, WINDOW};
use fairlink_lab::rate_unit::RateUnit;
use fairlink_lab::report::{self, Style};
use fairlink_sim::{Change, LinkPool, Links, Observer, Options, Report, SimError, compare_links};
use fairlink_traffic::Script;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::rate;
use crate::failure::Failure;
use crate::link::{concerns_frames, share_warning, warn};
use crate::out::{Out, make_directory, note};
use crate::rows::{MOST_ROWS, RowArgs};
use crate::{human, interrupt};

/// What to simulate.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario file, or a script of the HTB text's generator together with --link.
    scenario: PathBuf,
    /// The link of a script: a link file, or a file of tc commands that ends with .tc. It runs as long as the script.
    #[arg(long, value_name = "FILE")]
    link: Option<PathBuf>,
    /// Rate of the links of a file of tc commands, which need not say it.
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "link")]
    link_rate: Option<Rate>,
    /// Simulate this scheduler instead of the link file's own. Several of them run on the same arrivals, and what one of them
    /// cannot honour becomes a note.
    #[arg(long = "scheduler", value_name = "NAME")]
    schedulers: Vec<String>,
    /// Runs of each scheduler, with seeds from the scenario's own upwards.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Write rates against time as CSV and SVG into this directory, which is made if it is missing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on without what the scheduler cannot honour.
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    rows: RowArgs,
}

/// Simulates and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    let leniency = if args.lenient || args.schedulers.len() > 1 { Leniency::Ignore } else { Leniency::Refuse };
    let options = ReadOptions { leniency, scheduler: args.schedulers.first().map(String::as_str) };
    let mut file = match &args.link {
        None => Scenario::read(&args.scenario, &options).map_err(|problems| explain_script(args, problems))?,
        Some(link) => {
            let (file, notes) = Scenario::of_script(&args.scenario, link, args.link_rate, &options)?;
            warn(notes);
            file
        }
    };
    warn(std::mem::take(&mut file.warnings));
    warn(std::mem::take(&mut file.link.warnings).into_iter().filter(concerns_a_simulation));
    warn(share_warning(&file.link)?);
    for peer in &mut file.peers {
        warn(std::mem::take(&mut peer.link.warnings).into_iter().filter(concerns_a_simulation));
    }
    for change in &mut file.changes {
        warn(std::mem::take(&mut change.link.warnings).into_iter().filter(concerns_a_simulation));
    }
    let schedulers = schedulers(&args.schedulers, &file, leniency)?;
    let scenario = |link: &LinkFile, sources: &[_]| fairlink_sim::Scenario {
        names: link.names.iter().map(str::to_owned).collect(),
        tree: link.tree.clone(),
        overhead: link.overhead,
        sources: sources.to_vec(),
        duration: file.duration,
        warmup: file.warmup,
        seed: file.seed,
        changes: Vec::new(),
    };
    let change = |change: &fairlink_config::Change| Change {
        at: change.at,
        name: change.name.clone(),
        scheduler: change.scheduler,
        tree: change.link.tree.clone(),
        overhead: change.link.overhead,
        classes: change.classes.clone(),
    };
    let pool = |pool: &PoolSpec| LinkPool {
        name: pool.name.clone(),
        rate: pool.rate,
        burst: pool.burst,
        members: pool.members.clone(),
    };
    let links = Links {
        first: fairlink_sim::Scenario {
            names: file.names.clone(),
            changes: file.changes.iter().map(change).collect(),
            ..scenario(&file.link, &file.sources)
        },
        further: file.peers.iter().map(|peer| (peer.name.clone(), scenario(&peer.link, &peer.sources))).collect(),
        pools: file.pools.iter().map(pool).collect(),
    };
    if let Some(dir) = &args.out {
        // Before the work, not after it.
        make_directory(dir)?;
    }
    let options = Options { window: args.out.is_some().then(|| window(file.duration)), settle: SETTLE };
    let watch = &mut Watch::new(schedulers.len() as u64 * u64::from(args.runs), file.duration)?;
    let report = compare_links(&links, &schedulers, leniency, args.runs, &options, watch);
    watch.bar.finish_and_clear();
    let mut report = report.map_err(|error| match error {
        SimError::Build { error, .. } => file.link.explain(&error).into(),
        SimError::Change { index, error: ReconfigureError::Build(error), .. } => {
            file.changes[index].link.explain(&error).into()
        }
        SimError::Further { link, error } => match (*error, file.peers.iter().find(|peer| peer.name == link)) {
            (SimError::Build { error, .. }, Some(peer)) => peer.link.explain(&error).into(),
            (error, _) => Failure::failed(SimError::Further { link, error: Box::new(error) }),
        },
        SimError::Stopped { at } => {
            Failure::Failed(anyhow!("interrupted at {} of simulated time", human::time(at.0 as f64 / 1e9)))
        }
        error => Failure::failed(error),
    })?;
    if let Some(dir) = &args.out {
        let written = rates::write(&report, dir).map_err(|error| match error {
            PlotError::File { .. } => Failure::wrong(error),
            error => Failure::failed(error),
        })?;
        written.iter().for_each(|path| note(format!("written: {}", path.display())));
    }
    if let Some(name) = args.rows.name() {
        only(name, &file.names, &mut report)?;
    }
    if out.json { out.document(&report) } else { text(report, &args.rows, out) }
}

/// A script alone is not TOML, and needs a link.
fn explain_script(args: &Args, problems: Problems) -> Failure {
    match std::fs::read_to_string(&args.scenario) {
        Ok(text) if Script::is_one(&text) => {
            Failure::wrong(format!("{}: this is a script; name its link: --link FILE", args.scenario.display()))
        }
        _ => problems.into(),
    }
}

/// Leaves one class in the report, and the whole link in its phases.
fn only(name: &str, names: &[String], report: &mut Report) -> Result<(), Failure> {
    let further = report.runs.iter().flat_map(|run| &run.classes).any(|class| class.name == name);
    if !further && !names.iter().any(|known| known == name) {
        let why = UnknownClass::among(name, names.iter().skip(1).map(String::as_str));
        return Err(Failure::wrong(format!("--class: {why}")));
    }
    for run in &mut report.runs {
        run.classes.retain(|class| class.name == name);
        run.inner_classes.retain(|class| class.name == name);
        run.phases.iter_mut().for_each(|phase| phase.classes.retain(|class| class.name == name));
    }
    Ok(())
}

/// Drops what is too much to read, and says how much that is.
fn shorten(report: &mut Report, rows: &RowArgs) -> Vec<String> {
    let mut left_out = Vec::new();
    let leaves = report.runs[0].classes.len();
    if !rows.shows(leaves) {
        let mut shown = 0;
        for run in &mut report.runs {
            run.classes.retain(|class| class.offered_packets > 0);
            run.classes.truncate(MOST_ROWS);
            shown = shown.max(run.classes.len());
        }
        left_out.push(format!(
            "{} not shown, first those to which nothing was sent",
            human::count(leaves - shown, "leaf is", "leaves are")
        ));
    }
    let busy = |phase: &fairlink_sim::Phase| {
        phase.classes.iter().filter(|class| class.ideal_bps > 0.0 || class.settled_bps > 0.0).count()
    };
    let counts: Vec<usize> = report.runs[0].phases.iter().map(busy).collect();
    if !rows.shows(counts.iter().sum()) {
        let mut sum = 0;
        let fits = |count: &&usize| {
            sum += **count;
            sum <= MOST_ROWS
        };
        let shown = counts.iter().take_while(fits).count().max(1);
        for run in &mut report.runs {
            run.phases.truncate(shown);
            if shown == 1
                && let Some(phase) = run.phases.first_mut()
            {
                phase.classes.truncate(MOST_ROWS);
            }
        }
        if shown < counts.len() {
            left_out.push(format!("{} not shown", human::count(counts.len() - shown, "phase is", "phases are")));
        }
    }
    left_out
}

/// Whether a warning belongs here. Warnings about frames (matches, default class) do not; what a scheduler ignores stands in the
/// notes of its run.
fn concerns_a_simulation(warning: &Problem) -> bool {
    !concerns_frames(warning.kind()) && !matches!(warning.kind(), ProblemKind::Unsupported { .. })
}

fn schedulers(names: &[String], file: &Scenario, leniency: Leniency) -> Result<Vec<&'static SchedulerInfo>, Failure> {
    let mut found: Vec<&'static SchedulerInfo> = Vec::new();
    for name in names {
        let (info, _) = file.link.for_scheduler(name, leniency)?;
        for peer in &file.peers {
            peer.link.for_scheduler(name, leniency)?;
        }
        for change in file.changes.iter().take_while(|change| change.scheduler.is_none()) {
            change.link.for_scheduler(name, leniency)?;
        }
        if found.iter().all(|other| other.name != info.name) {
            found.push(info);
        }
    }
    if found.is_empty() {
        found.push(file.link.info());
    }
    for info in &found {
        file.link.check_memory(info)?;
        file.peers.iter().try_for_each(|peer| peer.link.check_memory(info).map(|_| ()))?;
        let mut runs = *info;
        for change in &file.changes {
            runs = change.scheduler.unwrap_or(runs);
            change.link.check_memory(runs)?;
        }
    }
    Ok(found)
}

/// The paper's windows, or shorter ones where a run has few of them.
fn window(duration: Nanos) -> Nanos {
    WINDOW.min(Nanos((duration.0 / 50).max(1)))
}

fn text(mut report: Report, rows: &RowArgs, out: &mut Out) -> Result<(), Failure> {
    // Of all phases.
    let deviations = report::runs(&report);
    let left_out = shorten(&mut report, rows);
    let report = &report;
    let style = Style { colour: out.colour(), tolerance: TOLERANCE };
    for run in &report.runs {
        out.line(format!("{}, seed {}", run.scheduler, run.seed))?;
        run.notes.iter().try_for_each(|note| out.paragraph(&format!("  note: {note}"), 8))?;
        out.line("")?;
        let width = if out.is_terminal() { out.canvas().width } else { usize::MAX };
        out.raw(report::classes(run, width).as_bytes())?;
        out.line("")?;
    }
    let unit = RateUnit::for_link(report.runs[0].link_bps).name;
    let settle = SETTLE.0 as f64 / 1e9;
    out.paragraph(
        &format!("Rates by phase in {unit}, the first {settle} s of a phase left out where it is longer"),
        2,
    )?;
    out.line("")?;
    match &report.runs[..] {
        [run] => out.raw(report::measured_against_ideal(&run.phases, run.link_bps, style).as_bytes())?,
        _ => out.raw(report::side_by_side(report, style).as_bytes())?,
    }
    out.line("")?;
    deviations.lines().try_for_each(|line| out.paragraph(line, 2))?;
    left_out.iter().try_for_each(|text| out.paragraph(&format!("{text}; --all shows all, --class NAME one class"), 2))
}

/// A progress bar, where standard error is a terminal, and Ctrl-C.
struct Watch {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    duration: Nanos,
    done: u64,
    last: Nanos,
}

impl Watch {
    /// Steps of the bar per run.
    const STEPS: u64 = 200;

    fn new(runs: u64, duration: Nanos) -> Result<Self, Failure> {
        let style = ProgressStyle::with_template("simulating {wide_bar} {percent} %").expect("a template");
        let bar = ProgressBar::new(runs * Self::STEPS).with_style(style);
        Ok(Self { bar, stop: interrupt::stop_flag()?, duration, done: 0, last: Nanos::ZERO })
    }
}

impl Observer for Watch {
    fn progress(&mut self, now: Nanos) -> ControlFlow<()> {
        if now < self.last {
            self.done += Self::STEPS;
        }
        self.last = now;
        let share = u128::from(now.0) * u128::from(Self::STEPS) / u128::from(self.duration.0.max(1));
        self.bar.set_position(self.done + share as u64);
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
