//! `fairlink sim`: a scenario under one scheduler or under several on the same arrivals, once or several times, as it
//! is or with other numbers.

mod load;
mod show;
mod trace;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::anyhow;
use fairlink_api::{Judged, Refused, SimDoc, judge};
use fairlink_config::Scenario;
use fairlink_config::names::UnknownClass;
use fairlink_core::{Leniency, Nanos};
use fairlink_figures::figure::Event;
use fairlink_figures::files::{self, FileError, Marks};
use fairlink_figures::measure::{SETTLE, WINDOW};
use fairlink_figures::sweep::Key;
use fairlink_report::Document;
use fairlink_sim::statistics::summary::{Difference, Summary, differences, summaries};
use fairlink_sim::{Job, MAX_WINDOW_RATES, Options, Report, Run, SimError, pilot_window, run_jobs, warmup};

use self::load::{Point, Reading};
use self::trace::Traces;
use crate::cores::{self, CoreArgs};
use crate::rows::RowArgs;
use fairlink_terminal::args::{JobArgs, SweepArgs};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::files::ScenarioArgs;
use fairlink_terminal::out::{Out, make_directory, note};
use fairlink_terminal::program::run_other;
use fairlink_terminal::progress::Progress;
use fairlink_terminal::{args, human};

/// Most runs of a command.
const MAX_RUNS: u64 = 100_000;
/// Most classes times phases of all runs together; some 100 bytes each.
const MAX_RESULTS: u64 = 1 << 23;

/// Scenario, schedulers and output.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scenario: ScenarioArgs,
    #[command(flatten)]
    sweep: SweepArgs,
    /// Runs of each scheduler, with seeds from the scenario's own upwards. Of several, means are printed with 95 %
    /// confidence intervals, and differences of schedulers run by run.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Exclude this much time at the start from averages, instead of the scenario's warmup; `auto` finds it by MSER-5
    /// in pilot runs.
    #[arg(long, value_name = "TIME|auto", value_parser = warmup_of)]
    warmup: Option<Warmup>,
    /// Record rates, delays, queues and drops in windows of this length, for --out and --json.
    #[arg(long, value_name = "TIME", value_parser = window_of)]
    window: Option<Nanos>,
    /// Measure fairness, gaps and delays, and print the worst value of each class beside its bound. Slower.
    #[arg(long)]
    metrics: bool,
    /// Write figures (SVG) and their numbers (CSV) into this directory, which is made if it is missing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A campaign: now `fairlink-lab campaign`.
    #[arg(long, value_name = "I/N", hide = true)]
    shard: Option<String>,
    /// The format of its files.
    #[arg(long, value_name = "FORMAT", hide = true)]
    format: Option<String>,
    /// Width of the figures of --out: a screen (960 pixels), a column of a paper (240 pt), or a page (504 pt).
    #[arg(long, value_name = "WIDTH", requires = "out")]
    width: Option<args::FigureWidth>,
    /// Write every packet to this file: CSV or pcapng, as its name ends. Several runs and links have a file each, with
    /// scheduler, seed and link in its name.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    jobs: JobArgs,
    /// Ignore settings that the scheduler does not support.
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    cores: CoreArgs,
    /// Time until a core sees what others have done, 100ns to 1s [default: 10us].
    #[arg(long, value_name = "TIME", value_parser = cores::lag)]
    lag: Option<Nanos>,
    #[command(flatten)]
    rows: RowArgs,
}

/// Time that averages exclude.
#[derive(Clone, Copy, Debug)]
enum Warmup {
    Auto,
    Time(Nanos),
}

fn warmup_of(text: &str) -> Result<Warmup, String> {
    if text == "auto" { Ok(Warmup::Auto) } else { args::time(text).map(Warmup::Time) }
}

fn window_of(text: &str) -> Result<Nanos, String> {
    let window = args::time(text)?;
    if window == Nanos::ZERO { Err("a window must be longer than 0; write e.g. 100ms".to_owned()) } else { Ok(window) }
}

/// Simulates and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    if args.shard.is_some() {
        // All words as they were typed: what a campaign does not take, it refuses.
        let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
        if let Some(at) = words.iter().position(|word| word == "sim") {
            words.remove(at);
        }
        words.insert(0, "campaign".into());
        return run_other(crate::LABORATORY, &words, "fairlink sim --shard");
    }
    if let Some(format) = &args.format {
        return Err(CliError::wrong(format!(
            "--format {format}: only the files of a campaign have a format; write `fairlink-lab campaign SCENARIO --out DIR --format \
             {format}`, or leave --format out: `fairlink sim --out DIR` writes figures as SVG and their numbers as CSV"
        )));
    }
    let SweepArgs { schedulers, sweeps } = &args.sweep;
    if !sweeps.is_empty() && args.trace.is_some() {
        return Err(CliError::wrong(
            "--trace does not support --sweep; write one value into the scenario and run it without --sweep",
        ));
    }
    let leniency = if args.lenient || schedulers.len() > 1 { Leniency::Ignore } else { Leniency::Refuse };
    let reading = Reading { leniency, schedulers };
    let (keys, points) = match sweeps.is_empty() {
        true => (Vec::new(), vec![reading.alone(&args.scenario)?]),
        false => reading.swept(&args.scenario, sweeps)?,
    };
    let points = load::on_cores(points, &args.cores, args.lag)?;
    let plan = Plan::new(args, &points, leniency)?;
    if let Some(dir) = &args.out {
        // Before the work, not after it.
        make_directory(dir)?;
    }
    let traces = match &args.trace {
        Some(file) => Some(Traces::begin(file, &points[0], plan.repetitions)?),
        None => None,
    };
    let outcome = plan.run(traces.as_ref());
    if let Some(traces) = traces {
        traces.end(outcome.is_ok())?;
    }
    let mut runs = outcome?;
    let judged = judged(&points, &runs, plan.repetitions);
    if let Some(dir) = &args.out {
        let scenario = file_name(&args.scenario.scenario);
        let width = args.width.unwrap_or_default().into();
        write(args, &keys, &runs, &Marks { scenario, width, ..marks(&points[0].file) }, dir)?;
    }
    // One run alone says nothing of others, and may be large.
    let several = args.runs > 1 || !keys.is_empty();
    let mut of_all = if several { summaries(&runs) } else { Vec::new() };
    let mut pairs = if several { differences(&runs) } else { Vec::new() };
    if let Some(name) = args.rows.name() {
        only(name, &points[0].file.names, &mut runs, &mut of_all, &mut pairs)?;
    }
    if out.json {
        let repeated = args.runs > 1;
        let shown = args.window.is_some();
        out.document(&Document::new(SimDoc {
            runs: runs.iter().map(|run| run.document(shown)).collect(),
            summary: repeated.then_some(&of_all),
            differences: (repeated && !pairs.is_empty()).then_some(&pairs),
            expectations: (!points[0].file.expectations.is_empty()).then_some(&judged),
        }))?;
    } else if !keys.is_empty() {
        show::sweep(&keys, &runs, &mut of_all, &args.rows, out)?;
    } else if args.runs > 1 {
        show::summaries(&runs, &mut of_all, &mut pairs, &args.rows, out)?;
    } else {
        show::runs(Report { runs }, &args.rows, out)?;
    }
    show::expectations(&points[0].file, &judged, &args.scenario.scenario, out)
}

/// Judges the expectations of each setting by its runs.
fn judged(points: &[Point], runs: &[Run], repetitions: u64) -> Vec<Judged> {
    let mut rest = runs;
    let mut all = Vec::new();
    for point in points {
        let (own, others) = rest.split_at((point.schedulers.len() * repetitions as usize).min(rest.len()));
        all.extend(judge(&point.file.expectations, own));
        rest = others;
    }
    all
}

fn write(args: &Args, keys: &[Key], runs: &[Run], marks: &Marks, dir: &std::path::Path) -> Result<(), CliError> {
    let refused = |error: FileError| CliError::wrong(error);
    let mut written = Vec::new();
    if !keys.is_empty() {
        let file = file_name(&args.scenario.scenario);
        let title = format!("{file} with other values of {}", keys[0].name);
        written.extend(files::write_sweep(keys, &summaries(runs), &title, dir).map_err(refused)?);
    }
    written.extend(files::write_runs(runs, marks, dir).map_err(refused)?);
    written.iter().for_each(|path| note(format!("written: {}", path.display())));
    Ok(())
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The `R` commands of a scenario's scripts, as the HTB text has them below its x axis: flow and new rate.
fn marks(file: &Scenario) -> Marks {
    let rates = file.scripts.iter().flat_map(|run| &run.script.rates);
    let events = rates.map(|event| Event { x: event.at.0 as f64 / 1e9, text: event.to_string() });
    let flows = file.scripts.iter().flat_map(|run| &run.flows).map(|&(flow, link, class)| {
        let name = match link.checked_sub(1).map(|peer| &file.peers[peer]) {
            None => file.names[class.index()].clone(),
            Some(peer) => format!("{}:{}", peer.name, peer.link.names.name(class)),
        };
        format!("flow {flow} is {name}")
    });
    let flows: Vec<String> = flows.collect();
    let note = if flows.is_empty() {
        String::new()
    } else {
        format!("Below the axis: each R of the script; {}.", flows.join(", "))
    };
    Marks { events: events.collect(), note, ..Marks::default() }
}

/// All runs that are to be made.
struct Plan<'a> {
    points: &'a [Point],
    leniency: Leniency,
    repetitions: u64,
    options: Options,
    warmup: Option<Warmup>,
    threads: usize,
}

impl<'a> Plan<'a> {
    /// Checks that there is not too much to do.
    fn new(args: &Args, points: &'a [Point], leniency: Leniency) -> Result<Self, CliError> {
        let repetitions = u64::from(args.runs);
        let runs = points.iter().map(|point| point.schedulers.len() as u64).sum::<u64>().saturating_mul(repetitions);
        if runs > MAX_RUNS {
            return Err(CliError::wrong(format!(
                "{runs} runs (settings times schedulers times --runs); the limit is {MAX_RUNS}"
            )));
        }
        let mut results = 0u64;
        for point in points {
            let each = classes(point).saturating_mul(point.links.first.phases().len() as u64 + 2);
            results = results.saturating_add(each.saturating_mul(point.schedulers.len() as u64 * repetitions));
        }
        // A single run has its own limit.
        if runs > 1 && results > MAX_RESULTS {
            return Err(CliError::wrong(format!(
                "{results} results (classes times phases of all runs); the limit is {MAX_RESULTS}; make fewer \
                 runs at a time"
            )));
        }
        let window = match (args.window, &args.out) {
            (Some(window), _) => Some(checked_window(window, points, repetitions)?),
            (None, Some(_)) if args.sweep.sweeps.is_empty() => Some(default_window(points, repetitions)),
            _ => None,
        };
        for point in points {
            let duration = point.file.duration;
            if let Some(Warmup::Time(warmup)) = args.warmup
                && warmup >= duration
            {
                return Err(CliError::wrong(format!(
                    "--warmup {}: not shorter than the run of {}; use a shorter warm-up",
                    seconds(warmup),
                    seconds(duration)
                )));
            }
            let phases = point.links.first.phases().len();
            if matches!(args.warmup, Some(Warmup::Auto)) && phases > 1 {
                return Err(CliError::wrong(format!(
                    "--warmup auto: the scenario has {phases} phases, and MSER-5 needs a single steady state; write --warmup TIME"
                )));
            }
        }
        Ok(Self {
            points,
            leniency,
            repetitions,
            options: Options { window, settle: SETTLE, metrics: args.metrics },
            warmup: args.warmup,
            threads: args.jobs.threads(),
        })
    }

    /// Makes all runs, setting by setting, scheduler by scheduler and seed by seed.
    fn run(&self, traces: Option<&Traces>) -> Result<Vec<Run>, CliError> {
        let count = |point: &Point| point.schedulers.len() as u64 * self.repetitions;
        let all: u64 = self.points.iter().map(count).sum();
        let auto = matches!(self.warmup, Some(Warmup::Auto));
        let progress = Progress::new(if auto { 2 * all } else { all })?;
        let mut warmups = Vec::with_capacity(self.points.len());
        for point in self.points {
            warmups.push(match self.warmup {
                None => None,
                Some(Warmup::Time(time)) => Some(time),
                Some(Warmup::Auto) => Some(self.found_warmup(point, &progress)?),
            });
        }
        let mut jobs = Vec::new();
        for (place, point) in self.points.iter().enumerate() {
            for index in 0..point.schedulers.len() {
                jobs.extend(self.jobs(place, index, warmups[place]));
            }
        }
        let observers = traces.map(Traces::observers).unwrap_or_default();
        for ((_, job), observers) in jobs.iter_mut().zip(&observers) {
            job.observers = Some(&**observers);
        }
        let runs = self.make(&jobs, &self.options, &progress)?;
        progress.end();
        Ok(runs)
    }

    /// The runs of a setting under one of its schedulers.
    fn jobs(
        &self,
        place: usize,
        scheduler: usize,
        warmup: Option<Nanos>,
    ) -> impl Iterator<Item = (usize, Job<'a>)> + use<'a> {
        let (point, leniency) = (&self.points[place], self.leniency);
        (0..self.repetitions).map(move |repetition| {
            let scheduler = point.schedulers[scheduler];
            let Point { links, sweep, .. } = point;
            (place, Job { links, scheduler, leniency, repetition, warmup, sweep, observers: None })
        })
    }

    /// Makes these runs, each with the place of its setting.
    fn make(&self, jobs: &[(usize, Job<'_>)], options: &Options, progress: &Progress) -> Result<Vec<Run>, CliError> {
        let watch = progress.watch(jobs.iter().map(|(_, job)| job.links.first.duration).collect());
        let only: Vec<Job<'_>> = jobs.iter().map(|&(_, job)| job).collect();
        run_jobs(&only, options, self.threads, &watch).map_err(|(index, error)| {
            progress.end();
            failure(error, &self.points[jobs[index].0])
        })
    }

    /// The warm-up of a setting, the longest of all schedulers: they are compared over the same time.
    fn found_warmup(&self, point: &Point, progress: &Progress) -> Result<Nanos, CliError> {
        let place = self.points.iter().position(|other| std::ptr::eq(other, point)).unwrap_or(0);
        let window = checked_window(pilot_window(point.file.duration), &self.points[place..=place], 1)?;
        let options = Options { window: Some(window), settle: SETTLE, metrics: false };
        let mut longest = 0.0f64;
        for index in 0..point.schedulers.len() {
            let jobs: Vec<_> = self.jobs(place, index, Some(Nanos::ZERO)).collect();
            let pilots = self.make(&jobs, &options, progress)?;
            let found = warmup(&pilots).map_err(|none| {
                progress.end();
                CliError::Failed(anyhow!(
                    "--warmup auto: under {} the delay of class {} does not become steady in the first half of the run (MSER-5); make the run longer, or write --warmup TIME",
                    none.scheduler,
                    none.class
                ))
            })?;
            longest = longest.max(found);
        }
        let warmup = Nanos((longest * 1e9).round() as u64);
        let found = format!("warm-up by MSER-5: {} excluded from averages{}", human::time(longest), settings(point));
        progress.say(&found);
        Ok(warmup)
    }
}

fn settings(point: &Point) -> String {
    let shown = point.sweep.iter().map(|(key, value)| format!(" with {key}={}", fairlink_figures::sweep::shown(value)));
    shown.collect()
}

fn seconds(time: Nanos) -> String {
    human::time(time.0 as f64 / 1e9)
}

/// Classes of all links of a setting.
fn classes(point: &Point) -> u64 {
    let further: usize = point.links.further.iter().map(|(_, scenario)| scenario.names.len()).sum();
    (point.links.first.names.len() + further) as u64
}

/// Classes times windows of all runs, for windows of this length.
fn window_rates(window: Nanos, points: &[Point], repetitions: u64) -> u64 {
    let rates = points.iter().map(|point| {
        let windows = point.file.duration.0.div_ceil(window.0) + point.file.changes.len() as u64;
        let runs = point.schedulers.len() as u64 * repetitions;
        windows.saturating_mul(classes(point)).saturating_mul(runs)
    });
    rates.fold(0, u64::saturating_add)
}

fn checked_window(window: Nanos, points: &[Point], repetitions: u64) -> Result<Nanos, CliError> {
    let rates = window_rates(window, points, repetitions);
    if rates > MAX_WINDOW_RATES {
        return Err(CliError::wrong(format!(
            "--window {}: {rates} rates (windows times classes of all runs); the limit is {MAX_WINDOW_RATES}; use at least {}",
            seconds(window),
            seconds(fitting_window(window, points, repetitions))
        )));
    }
    Ok(window)
}

/// `window`, or a longer one with a round number that there is room for.
fn fitting_window(window: Nanos, points: &[Point], repetitions: u64) -> Nanos {
    let mut window = window;
    let longest = points.iter().map(|point| point.file.duration).max().unwrap_or(window);
    while window < longest && window_rates(window, points, repetitions) > MAX_WINDOW_RATES {
        // 1, 2, 5, 10 ...
        let power = 10u64.pow(window.0.max(1).ilog10());
        let next = [2 * power, 5 * power].into_iter().find(|&next| next > window.0);
        window = Nanos(next.unwrap_or_else(|| power.saturating_mul(10)));
    }
    window
}

/// Returns the paper's windows, or shorter ones if a run has few of them, or longer ones if they are too many.
fn default_window(points: &[Point], repetitions: u64) -> Nanos {
    let shortest = points.iter().map(|point| point.file.duration.0).min().unwrap_or(0);
    fitting_window(WINDOW.min(Nanos((shortest / 50).max(1))), points, repetitions)
}

/// Converts the error of a run.
fn failure(error: SimError, point: &Point) -> CliError {
    let failure = match error {
        SimError::Stopped { at } => CliError::Failed(anyhow!("interrupted at {} of simulated time", seconds(at))),
        error => Refused::of_run(error, &point.file).into(),
    };
    let settings = settings(point);
    if settings.is_empty() { failure } else { failure.within(settings.trim_start().to_owned()) }
}

/// Leaves one class in the report, and the whole link in its phases.
fn only(
    name: &str,
    names: &[String],
    runs: &mut [Run],
    summaries: &mut [Summary],
    differences: &mut [Difference],
) -> Result<(), CliError> {
    let further = runs.iter().flat_map(|run| &run.classes).any(|class| class.name == name);
    if !further && !names.iter().any(|known| known == name) {
        let why = UnknownClass::among(name, names.iter().skip(1).map(String::as_str));
        return Err(CliError::wrong(format!("--class: {why}")));
    }
    for run in runs {
        let mut kept = run.classes.iter().map(|class| class.name == name);
        run.distributions.retain(|_| kept.next().unwrap_or(false));
        run.classes.retain(|class| class.name == name);
        run.inner_classes.retain(|class| class.name == name);
        run.metrics.retain(|class| class.name == name);
        for phase in &mut run.phases {
            phase.classes.retain(|class| class.name == name);
            phase.inner_classes.retain(|class| class.name == name);
        }
    }
    for summary in summaries {
        summary.classes.retain(|class| class.name == name);
        summary.phases.iter_mut().for_each(|phase| phase.classes.retain(|class| class.name == name));
    }
    differences.iter_mut().for_each(|difference| difference.classes.retain(|class| class.name == name));
    Ok(())
}
