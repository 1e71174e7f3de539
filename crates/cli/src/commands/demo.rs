//! `fairlink demo`: an experiment of the HLS paper on real packets, beside the fluid ideal and kernel HTB, without any
//! set-up. `docs/traffic.md` explains the results of kernel HTB.

mod picture;
#[cfg(target_os = "linux")]
pub(crate) mod ping;
mod show;
mod verdict;

use std::path::PathBuf;

use anyhow::anyhow;
use fairlink_core::{Leniency, NANOS_PER_SEC, Nanos, Rate, SchedulerInfo, registry};
use fairlink_figures::experiments::{EXPERIMENTS, Experiment, Script, find};
use fairlink_figures::measure::{OPTIONS, SETTLE};
use fairlink_report::{ClassSpan, Document, Span, SpanKind};
use fairlink_sim::{Scenario, compare};
use fairlink_testbed::{DemoOutcome, DemoPlan, DemoRun, KERNEL_HTB, PlanPhase, Skipped, demo_rate};

use fairlink_terminal::args::{choice, scheduler, time};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::{Out, note, write_file};

/// Prefix of the ids of the demo's experiments; their number in the HLS paper follows.
const NUMBERED: &str = "hls.exp";
/// The link of the demo: what any machine can do.
const LINK_BPS: u64 = 100_000_000;
/// Shortest phase: half a second of it is left out of the averages.
const SHORTEST_PHASE: Nanos = Nanos(NANOS_PER_SEC);
const LONGEST_PHASE: Nanos = Nanos(600 * NANOS_PER_SEC);

/// Experiment and schedulers to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Experiment of the HLS paper: 1 (leaves go idle one after another) or 2 (three leaves send, one of them pauses).
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number)]
    experiment: u8,
    /// Scenario of experiment 2, by the difference between the guarantees of the two leaves of a class: low, medium or
    /// high.
    #[arg(long, value_name = "L|M|H", value_parser = letter)]
    scenario: Option<String>,
    /// Length of a phase, 1s to 600s [default: 2.5s in experiment 2, 2s in experiment 1].
    #[arg(long, value_name = "TIME", value_parser = phase)]
    phase: Option<Nanos>,
    /// Scheduler to run; several run one after the other. `kernel-htb` is the kernel's HTB. A scheduler ignores
    /// settings that it does not support. [default: hls and kernel-htb, or htb where it is simulated]
    #[arg(long = "scheduler", value_name = "NAME")]
    schedulers: Vec<String>,
    /// Simulate, even where real packets could be sent.
    #[arg(long)]
    simulate: bool,
    /// Ping during an upload instead: round trips on an idle link and during a TCP upload, with one queue for all, and
    /// then with the link file of a home under `hls` or the schedulers of --scheduler. About 9 s for each. Real packets
    /// only.
    #[arg(long, conflicts_with_all = ["experiment", "scenario", "phase", "simulate", "svg"])]
    ping: bool,
    /// Draw rate and ideal of each class into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The demo of `fairlink` without a command.
impl Default for Args {
    fn default() -> Self {
        Self {
            experiment: 2,
            scenario: None,
            phase: None,
            schedulers: Vec::new(),
            simulate: false,
            ping: false,
            svg: None,
        }
    }
}

fn number(text: &str) -> Result<u8, String> {
    let known = || EXPERIMENTS.iter().filter_map(|experiment| experiment.id.strip_prefix(NUMBERED));
    let number = known().find(|&number| number == text).and_then(|number| number.parse().ok());
    number.ok_or_else(|| choice(known()))
}

fn letter(text: &str) -> Result<String, String> {
    let numbered = EXPERIMENTS.iter().filter(|experiment| experiment.id.starts_with(NUMBERED));
    let letters = numbered.flat_map(|experiment| experiment.scripts).filter_map(|script| script.letter);
    let known = letters.clone().any(|letter| letter.eq_ignore_ascii_case(text));
    if known { Ok(text.to_owned()) } else { Err(choice(letters)) }
}

fn phase(text: &str) -> Result<Nanos, String> {
    let phase = time(text)?;
    if (SHORTEST_PHASE..=LONGEST_PHASE).contains(&phase) {
        Ok(phase)
    } else {
        Err(format!("{text} is outside 1s .. 600s"))
    }
}

/// Plays and shows.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    if args.ping {
        return ping(args, out);
    }
    let piece = Piece::chosen(args)?;
    let players = players(&args.schedulers)?;
    let rate = Rate::from_bps(LINK_BPS).map_err(CliError::failed)?;
    let phase = args.phase.unwrap_or(piece.experiment.short_phase);
    let scenario = piece.script.scenario(rate, Some(phase)).map_err(CliError::failed)?;
    let overloaded = piece.script.overloaded(rate, Some(phase)).map_err(CliError::failed)?;
    if !out.json {
        introduce(&piece, &scenario, out)?;
    }
    let outcome = if args.simulate {
        simulate(&piece, &overloaded, &players, "--simulate was given", out)?
    } else {
        match real::stage() {
            Ok(stage) => real::play(stage, &plan(&piece, &scenario), &players, out)?,
            Err(why) => {
                note(format!("Simulating, because real packets cannot be sent here: {why}"));
                simulate(&piece, &overloaded, &players, &why, out)?
            }
        }
    };
    let document = Document::new(outcome);
    let outcome = &document.content;
    if out.json {
        out.document(&document)?;
    } else {
        show::outcome(outcome, SETTLE.0 as f64 / NANOS_PER_SEC as f64, out)?;
    }
    if let Some(file) = &args.svg {
        write_file(file, show::drawing(outcome).as_bytes())?;
    }
    if outcome.stopped {
        out.flush()?;
        return Err(CliError::Failed(anyhow!("interrupted")));
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn ping(args: &Args, out: &mut Out) -> Result<(), CliError> {
    ping::run(&args.schedulers, out)
}

/// Real packets need Linux.
#[cfg(not(target_os = "linux"))]
fn ping(_: &Args, _: &mut Out) -> Result<(), CliError> {
    Err(CliError::wrong(format!("--ping: {}", fairlink_net::Unsupported)))
}

/// A part of the demo.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Its number in the paper.
    number: u8,
    experiment: &'static Experiment,
    script: &'static Script,
}

impl Piece {
    fn chosen(args: &Args) -> Result<Self, CliError> {
        let number = args.experiment;
        let experiment = find(&format!("{NUMBERED}{number}"))
            .ok_or_else(|| CliError::wrong(format!("--experiment: there is no experiment {number}")))?;
        let script = match &args.scenario {
            Some(letter) => experiment.script(letter),
            None => experiment.scripts.last(),
        };
        let script = script.ok_or_else(|| {
            CliError::wrong(format!("--scenario: experiment {number} has no scenario of that letter"))
        })?;
        Ok(Self { number, experiment, script })
    }

    fn letter(&self) -> Option<String> {
        self.script.letter.map(str::to_owned)
    }
}

/// The player as requested.
#[derive(Clone, Copy, Debug)]
enum Player {
    /// One of ours.
    Ours(&'static SchedulerInfo),
    /// The kernel's HTB where packets are real. Where they are not, our own, unless it was asked for by name.
    KernelHtb {
        /// True if it was.
        by_name: bool,
    },
}

fn players(names: &[String]) -> Result<Vec<Player>, CliError> {
    if names.is_empty() {
        let hls = registry::find("hls").map(Player::Ours);
        return Ok(hls.into_iter().chain([Player::KernelHtb { by_name: false }]).collect());
    }
    let player = |name: &String| {
        if name == KERNEL_HTB {
            return Ok(Player::KernelHtb { by_name: true });
        }
        let found = scheduler(name).map(Player::Ours);
        found.map_err(|error| CliError::wrong(format!("--scheduler: {error}")))
    };
    names.iter().map(player).collect()
}

fn introduce(piece: &Piece, scenario: &Scenario, out: &mut Out) -> Result<(), CliError> {
    let letter = piece.script.letter.map_or_else(String::new, |letter| format!(", scenario {letter}"));
    out.paragraph(&format!("Experiment {} of the HLS paper{letter}: {}.", piece.number, piece.experiment.plays), 2)?;
    let tree = &scenario.tree;
    let guarantees: Vec<_> = tree
        .classes()
        .map(|class| format!("{} {}", scenario.names[class.index()], tree.rate_all_busy(class) / 1_000_000))
        .collect();
    let guarantees = guarantees.join(", ");
    out.paragraph(&format!("A link of {} Mbit/s; guarantees in Mbit/s: {guarantees}.", LINK_BPS / 1_000_000), 2)?;
    out.line("")?;
    out.flush()
}

/// The experiment as the players of real packets want it.
fn plan(piece: &Piece, scenario: &Scenario) -> DemoPlan {
    let phases = scenario.phases().into_iter().zip(scenario.ideals());
    DemoPlan {
        experiment: piece.number,
        scenario: piece.letter(),
        tree: scenario.tree.clone(),
        names: scenario.names.clone(),
        sources: scenario.sources.clone(),
        phases: phases.map(|(phase, ideal_bps)| PlanPhase { start: phase.start, end: phase.end, ideal_bps }).collect(),
        settle: SETTLE,
    }
}

/// Runs the same in the simulator, with simulated time.
fn simulate(
    piece: &Piece,
    scenario: &Scenario,
    players: &[Player],
    why: &str,
    out: &mut Out,
) -> Result<DemoOutcome, CliError> {
    let mut skipped = Vec::new();
    let mut schedulers = Vec::new();
    for player in players {
        match player {
            Player::Ours(info) => schedulers.push(*info),
            Player::KernelHtb { by_name: false } => schedulers.extend(registry::find("htb")),
            Player::KernelHtb { by_name: true } => {
                let why = "the kernel's HTB cannot be simulated; use `htb`".to_owned();
                skipped.push(Skipped { scheduler: KERNEL_HTB.to_owned(), why });
            }
        }
    }
    if schedulers.is_empty() {
        return Err(CliError::wrong(format!(
            "--scheduler {KERNEL_HTB}: the kernel's HTB cannot be simulated; use `htb`; without --simulate real packets \
             are sent where that is possible ({why})"
        )));
    }
    let report = compare(scenario, &schedulers, Leniency::Ignore, 1, &OPTIONS, &mut ()).map_err(CliError::failed)?;
    let mut experiments = Vec::new();
    for run in report.runs {
        let phases = run.phases.into_iter().map(|phase| {
            let rate = |class: &ClassSpan| demo_rate(&class.name, class.rates.settled(), class.rates.fair());
            Span {
                classes: phase.classes.iter().map(rate).collect(),
                ..Span::new(SpanKind::Phase, phase.start_s, phase.end_s)
            }
        });
        let run = DemoRun {
            experiment: piece.number,
            scenario: piece.letter(),
            scheduler: run.scheduler,
            link_bps: run.link_bps,
            phases: phases.collect(),
            quanta_bytes: None,
            accounting: None,
            forfeited_s: None,
        };
        if !out.json {
            show::run(&run, out)?;
        }
        experiments.push(run);
    }
    Ok(DemoOutcome { real: false, why_simulated: Some(why.to_owned()), experiments, skipped, stopped: false })
}

/// Real packets.
#[cfg(target_os = "linux")]
mod real {
    use anyhow::anyhow;
    use fairlink_testbed::{DemoError, DemoOutcome, DemoPlan, Shaper, Stage, enter_private_namespace};

    use super::{Player, show};
    use fairlink_terminal::failure::CliError;
    use fairlink_terminal::interrupt::stop_flag;
    use fairlink_terminal::out::Out;

    /// A private network namespace with two cables; or why there is none.
    pub(super) fn stage() -> Result<Stage, String> {
        let namespace = enter_private_namespace().map_err(|error| error.to_string())?;
        Stage::new(&namespace).map_err(|error| error.to_string())
    }

    /// Ours in the gateway, the kernel's in its place.
    pub(super) fn play(
        mut stage: Stage,
        plan: &DemoPlan,
        players: &[Player],
        out: &mut Out,
    ) -> Result<DemoOutcome, CliError> {
        let stop = stop_flag()?;
        let sharers = players.iter().map(|player| match player {
            Player::Ours(info) => Shaper::Gateway(info),
            Player::KernelHtb { .. } => Shaper::KernelHtb,
        });
        let mut outcome: Option<DemoOutcome> = None;
        for sharer in sharers {
            // An output error (a closed pipe) ends the run.
            let mut shown = Ok(());
            let played = stage.play_all(plan, &[sharer], &stop, |progress| {
                if !out.json && out.is_terminal() && shown.is_ok() {
                    shown = show::live(plan, progress, out);
                }
            });
            let played = played.map_err(|error: DemoError| CliError::failed(error))?;
            shown?;
            if !out.json {
                out.redraw(&[])?;
                played.experiments.iter().try_for_each(|run| show::run(run, out))?;
            }
            let stopped = played.stopped;
            match &mut outcome {
                None => outcome = Some(played),
                Some(outcome) => {
                    outcome.experiments.extend(played.experiments);
                    outcome.skipped.extend(played.skipped);
                    outcome.stopped |= stopped;
                }
            }
            if stopped {
                break;
            }
        }
        outcome.ok_or_else(|| CliError::Failed(anyhow!("there is nothing to play")))
    }
}

/// Real packets need Linux.
#[cfg(not(target_os = "linux"))]
mod real {
    use fairlink_net::Unsupported;
    use fairlink_testbed::{DemoOutcome, DemoPlan};

    use super::Player;
    use fairlink_terminal::failure::CliError;
    use fairlink_terminal::out::Out;

    pub(super) fn stage() -> Result<(), String> {
        Err(Unsupported.to_string())
    }

    pub(super) fn play((): (), _: &DemoPlan, _: &[Player], _: &mut Out) -> Result<DemoOutcome, CliError> {
        Err(CliError::failed(Unsupported))
    }
}
