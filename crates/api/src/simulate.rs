//! A scenario that runs step by step.

use std::collections::HashMap;

use fairlink_config::problem::ProblemKind;
use fairlink_config::{LinkFile, Problem, ReadOptions, Scenario, Source};
use fairlink_core::{ClassId, Leniency, NANOS_PER_SEC, Nanos};
use fairlink_report::{Content, Document};
use fairlink_sim::statistics::summary::{Difference, Summary};
use fairlink_sim::{Change, Observer, Options, Run, RunDocument};
use schemars::JsonSchema;
use serde::Serialize;

use crate::check::share_warnings;
use crate::expect::{Judged, judge};
use crate::links::links_of;
use crate::refused::Refused;
use crate::tree::concerns_frames;

/// Left out at the start of each phase when rates are compared with the ideal: old queues drain, new ones fill.
pub const SETTLE: Nanos = Nanos(NANOS_PER_SEC / 2);

/// The document of simulations.
#[derive(Serialize, JsonSchema)]
pub struct SimDoc<'a> {
    /// The runs, scheduler by scheduler and seed by seed.
    pub runs: Vec<RunDocument<'a>>,
    /// Means of several runs of each scheduler, with confidence intervals. Absent if each ran once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<&'a [Summary]>,
    /// Differences of schedulers, run by run. Absent without several runs of several schedulers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differences: Option<&'a [Difference]>,
    /// Absent if the scenario has no expectations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expectations: Option<&'a [Judged]>,
}

impl Content for SimDoc<'_> {
    const KIND: &'static str = "sim";
}

/// Options of a simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimOptions<'a> {
    /// The scheduler, instead of the scenario's own.
    pub scheduler: Option<&'a str>,
    /// The seed of all random numbers, instead of the scenario's own.
    pub seed: Option<u64>,
    /// Ignores unsupported settings.
    pub lenient: bool,
    /// Length of the windows in which rates, delays, queues and drops are recorded against time. Not beside
    /// [`Simulation::change`].
    pub window: Option<Nanos>,
    /// Left out at the start of each phase in rates that have settled.
    pub settle: Nanos,
    /// Measures fairness, gaps and delays beside their bounds. Not beside [`Simulation::change`].
    pub metrics: bool,
}

/// A run of a scenario.
pub struct Simulation {
    run: fairlink_sim::Simulation<'static>,
    file: Scenario,
    leniency: Leniency,
    windows: bool,
}

/// Starts a run of a scenario under one scheduler.
///
/// ```
/// use fairlink_api::{SimOptions, simulate};
/// use fairlink_config::SourceText;
/// use fairlink_core::Nanos;
///
/// let text = "duration = \"1s\"\n[link]\nrate = \"1mbit\"\n[[class]]\nname = \"a\"\n[[source]]\nclass = \"a\"\nmodel = \"greedy\"\npacket = \"500B\"\n";
/// let mut simulation = simulate(&SourceText::new("s.toml", text), &SimOptions::default())?;
/// while !simulation.done() {
///     simulation.step_until(simulation.now() + Nanos::from_millis(100))?;
/// }
/// assert_eq!(simulation.report()?.classes[0].rates.rate_bps, Some(1e6));
/// # Ok::<(), fairlink_api::Refused>(())
/// ```
///
/// # Errors
/// [`Refused`]: errors in the text, and settings that the scheduler refuses.
pub fn simulate(source: &Source, options: &SimOptions<'_>) -> Result<Simulation, Refused> {
    simulate_observed(source, options, |_| Vec::new())
}

/// Like [`simulate`], with observers of the links: `observers` makes them from the classes of each link, which are
/// numbered by their place, the link itself first. Links without an observer are not watched.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_observed(
    source: &Source,
    options: &SimOptions<'_>,
    observers: impl FnOnce(&[&[String]]) -> Vec<Box<dyn Observer>>,
) -> Result<Simulation, Refused> {
    let leniency = if options.lenient { Leniency::Ignore } else { Leniency::Refuse };
    let mut file = Scenario::from_source(source, &ReadOptions { leniency, scheduler: options.scheduler })?;
    file.seed = options.seed.unwrap_or(file.seed);
    let info = file.link.info();
    let peers = file.peers.iter().map(|peer| &peer.link);
    for link in std::iter::once(&file.link).chain(peers).chain(file.changes.iter().map(|change| &change.link)) {
        link.check_memory(info)?;
    }
    let measured = Options { window: options.window, settle: options.settle, metrics: options.metrics };
    let links = links_of(&file);
    let further = links.further.iter().map(|(_, scenario)| &scenario.names[..]);
    let names: Vec<&[String]> = std::iter::once(&links.first.names[..]).chain(further).collect();
    let run = fairlink_sim::Simulation::observed(&links, info, leniency, &measured, observers(&names))
        .map_err(|error| Refused::of_run(error, &file))?;
    Ok(Simulation { run, file, leniency, windows: options.window.is_some() })
}

/// Returns the warnings about a scenario that concern simulations. Those about frames (matches, default class) do not;
/// settings that a scheduler ignores are in the notes of its run.
///
/// # Errors
/// A tree that the scheduler refuses.
pub fn scenario_warnings(file: &Scenario) -> Result<Vec<Problem>, Refused> {
    let concerns = |warning: &&Problem| {
        !concerns_frames(warning.kind()) && !matches!(warning.kind(), ProblemKind::Unsupported { .. })
    };
    let mut warnings = file.warnings.clone();
    let share = share_warnings(&file.link)?;
    warnings.extend(file.link.warnings.iter().filter(concerns).cloned());
    warnings.extend(share);
    let peers = file.peers.iter().map(|peer| &peer.link);
    for link in peers.chain(file.changes.iter().map(|change| &change.link)) {
        warnings.extend(link.warnings.iter().filter(concerns).cloned());
        warnings.extend(share_warnings(link)?);
    }
    Ok(warnings)
}

impl Simulation {
    /// Up to when everything has happened.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.run.now()
    }

    /// Returns true if the run has come to its end.
    #[must_use]
    pub fn done(&self) -> bool {
        self.run.done()
    }

    /// Runs until everything before `end` has happened, or the run has ended.
    ///
    /// # Errors
    /// A fault of the scheduler, or a planned change that it refuses.
    pub fn step_until(&mut self, end: Nanos) -> Result<(), Refused> {
        self.step_for(end, u64::MAX)
    }

    /// Like [`Simulation::step_until`], but ends as soon as `work` calls of the driver and packets were processed, so
    /// that the caller can look after other things. [`Simulation::now`] is before `end` then; the next call continues.
    ///
    /// # Errors
    /// As [`Simulation::step_until`].
    pub fn step_for(&mut self, end: Nanos, work: u64) -> Result<(), Refused> {
        self.run.step_for(end, work).map_err(|error| Refused::of_run(error, &self.file))
    }

    /// The names of the classes of a link, the link itself first: of the scenario's own (0), or of a `[[peer]]` in
    /// their order. A change may add some.
    #[must_use]
    pub fn names(&self, link: usize) -> &[String] {
        self.run.names(link)
    }

    /// The scenario as it was read.
    #[must_use]
    pub fn file(&self) -> &Scenario {
        &self.file
    }

    /// A packet of `frame` bytes comes to the leaf `class` at `at`, beside those of the sources. A class of a
    /// `[[peer]]` is `PEER:CLASS`.
    ///
    /// # Errors
    /// A class that is not there or no leaf then, a time that has passed or is not before the end, no bytes.
    pub fn offer(&mut self, class: &str, frame: u32, at: Nanos) -> Result<(), Refused> {
        let found = (0..)
            .map_while(|link| Some(self.run.names(link)).filter(|names| !names.is_empty()))
            .enumerate()
            .find_map(|(link, names)| Some((link, names.iter().position(|name| name == class)?)));
        let (link, id) = found
            .ok_or_else(|| Refused::argument("class", format!("there is no class \"{class}\" in this scenario")))?;
        self.run.offer(link, ClassId(id as u32), frame, at).map_err(Refused::failed)
    }

    /// Replaces the link by that of another link file now, as a `[[change]]` of the scenario does: classes of the same
    /// name keep their packets. The scheduler is the current one, or `scheduler`.
    ///
    /// # Errors
    /// Errors in the text; a scheduler that refuses the link; sources whose class is gone; a change at the start of the
    /// run or twice at one instant; a scenario of several links; recorded windows. The simulation then continues
    /// unchanged.
    pub fn change(&mut self, source: &Source, scheduler: Option<&str>) -> Result<(), Refused> {
        let runs = scheduler.or(self.run.scheduler().map(|info| info.name));
        let link = LinkFile::from_source(source, &ReadOptions { leniency: self.leniency, scheduler: runs })?;
        link.check_memory(link.info())?;
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let names = self.run.names(0);
        names.iter().enumerate().for_each(|(number, name)| _ = numbers.entry(name).or_insert(number));
        let mut new = Vec::new();
        let mut classes = vec![ClassId::ROOT];
        for name in link.names.iter().skip(1) {
            let number = numbers.get(name).copied().filter(|&number| number > 0).unwrap_or_else(|| {
                new.push(name.to_owned());
                names.len() + new.len() - 1
            });
            classes.push(ClassId(number as u32));
        }
        let change = Change {
            at: self.now(),
            name: link.source().name().to_owned(),
            scheduler: scheduler.map(|_| link.info()),
            tree: link.tree.clone(),
            overhead: link.overhead,
            classes,
        };
        self.run.change(change, &new).map_err(Refused::failed)
    }

    /// Returns the measurements until [`Simulation::now`].
    ///
    /// # Errors
    /// Nothing is measured as long as the warm-up lasts; packets that the scheduler has lost.
    pub fn report(&self) -> Result<Run, Refused> {
        self.run.report().map_err(Refused::failed)
    }

    /// Calls `show` with the document of the measurements, as the command line prints it: also windows, if they were
    /// recorded, and the expectations of the scenario.
    ///
    /// # Errors
    /// As [`Simulation::report`].
    pub fn document<T>(&self, show: impl FnOnce(&Document<SimDoc<'_>>) -> T) -> Result<T, Refused> {
        let runs = [self.report()?];
        let judged = judge(&self.file.expectations, &runs);
        Ok(show(&Document::new(SimDoc {
            runs: runs.iter().map(|run| run.document(self.windows)).collect(),
            summary: None,
            differences: None,
            expectations: (!self.file.expectations.is_empty()).then_some(&judged),
        })))
    }
}
