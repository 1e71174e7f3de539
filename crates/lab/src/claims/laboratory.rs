//! The laboratory: effort, scenarios with other numbers, and runs on all processors, each made once and shared by all
//! claims.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fairlink_config::sweep::{Sweep, SweepError, Template};
use fairlink_config::{Memory, Problems, ReadOptions, Scenario, SourceText};
use fairlink_core::registry::find;
use fairlink_core::{Leniency, Nanos, SchedulerInfo};
use fairlink_sim::statistics::Estimate;
use fairlink_sim::{Job, Links, Observers, Options, Run, SimError, run_jobs};

use super::finding::{Rerun, Row};
use super::random::SeededRng;
use fairlink_api::links_of;

/// The amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Fewer and shorter runs, so that all claims take 150 s on two processors; intervals are wider.
    Quick,
    /// At least as many runs as the papers made.
    Full,
}

/// The reason for which a claim could not be tried to its end.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The user stopped the run.
    #[error("interrupted")]
    Stopped,
    /// An invalid scenario of ours.
    #[error("{0}")]
    Scenario(String),
    /// A simulation failed.
    #[error("{0}")]
    Simulation(SimError),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

impl From<SimError> for ClaimError {
    fn from(error: SimError) -> Self {
        if matches!(error, SimError::Stopped { .. }) { Self::Stopped } else { Self::Simulation(error) }
    }
}

impl From<SweepError> for ClaimError {
    fn from(error: SweepError) -> Self {
        Self::Scenario(error.to_string())
    }
}

impl From<Problems> for ClaimError {
    fn from(problems: Problems) -> Self {
        Self::Scenario(problems.lines())
    }
}

impl ClaimError {
    /// Makes an error with this text.
    pub fn other(what: impl std::fmt::Display) -> Self {
        Self::Other(what.to_string())
    }
}

/// A scenario file of a claim, as text: a reader of a report can run it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The file's name, such as `fig51.toml`.
    pub name: String,
    /// Its text.
    pub text: String,
    /// A file that it names, such as a recording, and the text of that.
    pub beside: Option<(String, Arc<str>)>,
    /// The drawing of the instants at which periodic sources begin in the first run: [`Workload::in_phase`]. `None` for
    /// those of the file.
    pub phase: Option<u64>,
}

impl Workload {
    /// Makes a scenario file. The texts assume long queues if they give no length: leaves without a `buffer` hold 1000
    /// packets.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: with_long_queues(&text.into()), beside: None, phase: None }
    }

    /// Adds the text of a file that the workload names.
    #[must_use]
    pub fn beside(self, name: &str, text: &Arc<str>) -> Self {
        Self { beside: Some((name.to_owned(), Arc::clone(text))), ..self }
    }

    /// Begins each evenly spaced source, in each run of the laboratory, at a random instant within its first period: a
    /// verdict must not depend on which of two periodic sources is a moment ahead of the other. `fairlink sim` plays the
    /// file as it is written.
    #[must_use]
    pub fn in_any_phase(self) -> Self {
        self.in_phase(0)
    }

    /// The same, with the drawing of this number in the first run, and the following ones in the others.
    #[must_use]
    pub fn in_phase(self, phase: u64) -> Self {
        Self { phase: Some(phase), ..self }
    }

    /// Begins each source as the file says.
    #[must_use]
    pub fn as_written(self) -> Self {
        Self { phase: None, ..self }
    }

    /// Replaces numbers, as `--sweep` would: `[("source.lc.packets_per_second", "15")]`.
    ///
    /// # Errors
    /// A key that is not there.
    pub fn with(&self, settings: &[(&str, &str)]) -> Result<Self, ClaimError> {
        let template = Template::parse(&self.name, self.text.clone())?;
        let sweep = |&(key, value): &(&str, &str)| Sweep { key: key.to_owned(), values: vec![value.to_owned()] };
        template.check(&settings.iter().map(sweep).collect::<Vec<_>>())?;
        Ok(Self { text: template.with(settings), ..self.clone() })
    }

    /// Returns the command to repeat it: `arguments` follow the file's name.
    #[must_use]
    pub fn rerun(&self, arguments: &str) -> Rerun {
        let space = if arguments.is_empty() { "" } else { " " };
        let command = format!("sim {}{space}{arguments}", self.name);
        Rerun { file: self.name.clone(), text: self.text.clone(), command }
    }

    /// Reads the file for this scheduler, and ignores settings that the scheduler cannot honour.
    ///
    /// # Errors
    /// The error in the file.
    pub fn read(&self, scheduler: &str) -> Result<Scenario, ClaimError> {
        let options = ReadOptions { leniency: Leniency::Ignore, scheduler: Some(scheduler) };
        let beside = self.beside.iter().map(|(name, text)| (name, text.as_bytes()));
        let source = SourceText::among(&self.name, &self.text, Arc::new(Memory::new(beside)));
        Ok(Scenario::from_source(&source, &options)?)
    }
}

/// Cached runs; the key identifies them.
type Played = BTreeMap<String, Arc<OnceLock<Result<Arc<Vec<Run>>, String>>>>;

/// The laboratory that tries claims.
pub struct Lab<'a> {
    /// Amount of work.
    pub effort: Effort,
    /// Rows that real packets brought, by claim.
    pub real: BTreeMap<&'static str, Vec<Row>>,
    threads: usize,
    stop: &'a (dyn Fn() -> bool + Sync),
    busy: AtomicUsize,
    played: Mutex<Played>,
}

impl<'a> Lab<'a> {
    /// Makes a laboratory with at most `threads` threads; `stop` is called often and returns true to end.
    pub fn new(effort: Effort, threads: usize, stop: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self {
            effort,
            real: BTreeMap::new(),
            threads: threads.max(1),
            stop,
            busy: AtomicUsize::new(0),
            played: Mutex::default(),
        }
    }

    /// Returns one of two numbers by the effort.
    #[must_use]
    pub fn by_effort<T>(&self, quick: T, full: T) -> T {
        match self.effort {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }

    /// Checks for a stop; to be called in long computations.
    ///
    /// # Errors
    /// [`ClaimError::Stopped`] if the run should end.
    pub fn go_on(&self) -> Result<(), ClaimError> {
        if (self.stop)() { Err(ClaimError::Stopped) } else { Ok(()) }
    }

    /// Maximum number of threads.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Counts those that work at a time: each has its part of the threads.
    pub(super) fn while_busy<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Busy<'b>(&'b AtomicUsize);
        impl Drop for Busy<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.busy.fetch_add(1, Ordering::Relaxed);
        let _busy = Busy(&self.busy);
        work()
    }

    /// Runs a scenario under each of these schedulers, `runs` times, with seeds from its own upwards: scheduler by
    /// scheduler, seed by seed. Earlier runs are reused.
    ///
    /// # Errors
    /// The error in the scenario or its simulation; [`ClaimError::Stopped`].
    pub fn play(
        &self,
        workload: &Workload,
        schedulers: &[&str],
        runs: u64,
        options: &Options,
    ) -> Result<Arc<Vec<Run>>, ClaimError> {
        let key = format!("{}\n{schedulers:?} {runs} {options:?} {:?}", workload.text, workload.phase);
        let cell = Arc::clone(self.played.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
        let made = cell.get_or_init(|| {
            let runs = self.watched(workload, schedulers, runs, options, None);
            runs.map(Arc::new).map_err(|trouble| trouble.to_string())
        });
        match made {
            Ok(runs) => Ok(Arc::clone(runs)),
            Err(_) if (self.stop)() => Err(ClaimError::Stopped),
            Err(what) => Err(ClaimError::Other(what.clone())),
        }
    }

    /// Like [`Lab::play`], with an observer that is made for each run, in any order. The runs are not cached.
    ///
    /// # Errors
    /// As [`Lab::play`].
    pub fn watched(
        &self,
        workload: &Workload,
        schedulers: &[&str],
        runs: u64,
        options: &Options,
        observers: Option<&Observers<'_>>,
    ) -> Result<Vec<Run>, ClaimError> {
        self.go_on()?;
        let setting = BTreeMap::new();
        let mut played: Vec<(Links, &'static SchedulerInfo, u64)> = Vec::new();
        for name in schedulers {
            let (links, info) = self.links(workload, name)?;
            let shifted = |run| workload.phase.map_or_else(|| links.clone(), |phase| in_phase(&links, phase + run));
            played.extend((0..runs).map(|run| (shifted(run), info, run)));
        }
        let mut jobs: Vec<Job<'_>> = Vec::with_capacity(played.len());
        for (links, scheduler, repetition) in &played {
            let repetition = *repetition;
            let (leniency, warmup) = (Leniency::Ignore, None);
            jobs.push(Job { links, scheduler, leniency, repetition, warmup, sweep: &setting, observers });
        }
        let busy = self.busy.load(Ordering::Relaxed).max(1);
        let watch = |_: usize, _| if (self.stop)() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        run_jobs(&jobs, options, (self.threads / busy).max(1), &watch).map_err(|(_, error)| error.into())
    }

    fn links(&self, workload: &Workload, scheduler: &str) -> Result<(Links, &'static SchedulerInfo), ClaimError> {
        let info = find(scheduler).ok_or_else(|| ClaimError::other(format!("there is no scheduler {scheduler}")))?;
        Ok((links_of(&workload.read(scheduler)?), info))
    }
}

/// Salt of the phases of a run: they are the same for all schedulers.
const PHASES: u64 = 53;

/// Returns these links with each evenly spaced source shifted by a part of its period, in the drawing of this number.
fn in_phase(links: &Links, phase: u64) -> Links {
    let mut links = links.clone();
    let (duration, mut rng) = (links.first.duration, SeededRng::new(PHASES, links.first.seed.wrapping_add(phase)));
    let further = links.further.iter_mut().map(|(_, scenario)| scenario);
    for source in std::iter::once(&mut links.first).chain(further).flat_map(|scenario| &mut scenario.sources) {
        let Some(period) = source.period() else { continue };
        source.active = source.active_until(duration);
        for interval in &mut source.active {
            let start = interval.start.saturating_add(Nanos(rng.below(period.0.max(1))));
            if start < interval.end {
                interval.start = start;
            }
        }
    }
    links
}

/// Returns the estimate of `value` over these runs.
///
/// # Errors
/// None of them has it.
pub fn estimate<'r>(
    what: &str,
    runs: impl IntoIterator<Item = &'r Run>,
    value: impl Fn(&Run) -> Option<f64>,
) -> Result<Estimate, ClaimError> {
    mean_of(what, runs.into_iter().filter_map(value))
}

/// Returns the estimate of the mean of these values, one of each run.
///
/// # Errors
/// There are none.
pub fn mean_of(what: &str, values: impl IntoIterator<Item = f64>) -> Result<Estimate, ClaimError> {
    let values: Vec<f64> = values.into_iter().collect();
    Estimate::from_values(&values).ok_or_else(|| ClaimError::other(format!("no run has a value for {what}")))
}

/// Returns the mean delay of a class in a run, in seconds.
#[must_use]
pub fn mean_delay(run: &Run, class: &str) -> Option<f64> {
    run.classes.iter().find(|found| found.name == class)?.delay().mean
}

/// Returns the longest delay of a class in a run, in seconds.
#[must_use]
pub fn longest_delay(run: &Run, class: &str) -> Option<f64> {
    run.classes.iter().find(|found| found.name == class)?.delay().max
}

/// Estimates the difference of `value` between the runs of scheduler `one` and those of `other`, run by run on the same
/// arrivals.
///
/// # Errors
/// No pair of runs has it.
pub fn difference(
    runs: &[Run],
    one: &str,
    other: &str,
    value: impl Fn(&Run) -> Option<f64>,
) -> Result<Estimate, ClaimError> {
    let values =
        |name: &str| -> Vec<Option<f64>> { runs.iter().filter(|run| run.scheduler == name).map(&value).collect() };
    let difference = Estimate::of_differences(&values(one), &values(other));
    difference.ok_or_else(|| ClaimError::other(format!("no runs of {one} and {other} to compare")))
}

/// Returns the text with `buffer = "1000p"` added to each leaf without a buffer.
fn with_long_queues(text: &str) -> String {
    const BUFFER: &str = "buffer = \"1000p\"";
    let is_parent = |name: &str| text.contains(&format!("parent = {name}"));
    // The quoted text at the begin of `rest`, quotes included.
    let quoted = |rest: &str| {
        let quote = rest.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
        let end = rest[1..].find(quote)? + 2;
        Some(rest[..end].to_owned())
    };
    let mut made = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if line.trim_end().split('#').next().is_some_and(|head| head.trim().ends_with("class]]")) {
            // One TOML table: all lines up to the next table.
            let mut block = vec![line];
            while let Some(line) = lines.next_if(|line| !line.trim_start().starts_with('[')) {
                block.push(line);
            }
            let has = |key: &str| block.iter().any(|line| line.trim_start().starts_with(key));
            let long = !has("buffer");
            for line in &block {
                made += line;
                if let Some(name) = line.trim_start().strip_prefix("name = ").and_then(quoted)
                    && long
                    && !is_parent(&name)
                {
                    if !line.ends_with('\n') {
                        made.push('\n');
                    }
                    made += BUFFER;
                    made.push('\n');
                }
            }
            continue;
        }
        // Tables in a line.
        let mut rest = line;
        while let Some(at) = rest.find("{ name = ") {
            let (before, table) = rest.split_at(at);
            made += before;
            let mut depth = 0;
            let end = table.find(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                depth == 0
            });
            let (table, behind) = table.split_at(end.unwrap_or(table.len()));
            made += table.trim_end();
            let name = quoted(&table["{ name = ".len()..]);
            if end.is_some() && !table.contains("buffer = ") && name.is_some_and(|name| !is_parent(&name)) {
                made += ", ";
                made += BUFFER;
            }
            made += &table[table.trim_end().len()..];
            rest = behind;
        }
        made += rest;
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "duration = \"1s\"\n[link]\nrate = \"1mbit\"\n[[class]]\nname = \"a\"\nguarantee = \"600kbit\"\n\
                       [[class]]\nname = \"b\"\nguarantee = \"400kbit\"\n[[source]]\nclass = \"a\"\nmodel = \"poisson\"\n\
                       packets_per_second = 50\npacket = \"1000B\"\n[[source]]\nclass = \"b\"\nmodel = \"greedy\"\n\
                       packet = \"1000B\"\n";

    #[test]
    fn what_was_run_is_not_run_again_and_other_numbers_are_another_scenario() {
        let never = || false;
        let lab = Lab::new(Effort::Quick, 2, &never);
        let workload = Workload::new("two.toml", TWO);
        let first = lab.play(&workload, &["hls", "drr"], 2, &Options::default()).unwrap();
        let again = lab.play(&workload, &["hls", "drr"], 2, &Options::default()).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let names: Vec<(&str, u64)> = first.iter().map(|run| (run.scheduler.as_str(), run.seed)).collect();
        assert_eq!(names, [("hls", 1), ("hls", 2), ("drr", 1), ("drr", 2)]);
        let faster = workload.with(&[("link.rate", "2mbit"), ("source.a.packets_per_second", "100")]).unwrap();
        let other = lab.play(&faster, &["hls"], 2, &Options::default()).unwrap();
        let delay = |runs: &[Run]| estimate("delay", &runs[..2], |run| mean_delay(run, "a")).unwrap().mean;
        assert!(delay(&other) < delay(&first));
    }

    #[test]
    fn periodic_sources_begin_anywhere_in_their_period_and_alike_for_all_schedulers() {
        let never = || false;
        let lab = Lab::new(Effort::Quick, 2, &never);
        let text = TWO.replace("model = \"poisson\"", "model = \"cbr\"");
        let delays = |workload: &Workload| -> Vec<f64> {
            let runs = lab.play(workload, &["hls", "fifo"], 20, &Options::default()).unwrap();
            runs.iter().map(|run| mean_delay(run, "a").unwrap()).collect()
        };
        // Each packet of a finds the link at a packet of b, at the same place of it in a run.
        let written = delays(&Workload::new("two.toml", text.clone()));
        assert!(written[..20].iter().all(|delay| *delay == written[0]), "{written:?}");
        let shifted = delays(&Workload::new("two.toml", text).in_any_phase());
        let (least, most) = shifted[..20].iter().fold((f64::MAX, 0.0f64), |(l, m), &d| (l.min(d), m.max(d)));
        // A packet of b takes 8 ms.
        assert!(most - least > 5e-3 && most - least < 9e-3, "{shifted:?}");
    }

    #[test]
    fn unknown_keys_and_schedulers_and_an_end_are_said() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let asked = || stop.load(Ordering::Relaxed);
        let lab = Lab::new(Effort::Quick, 1, &asked);
        let workload = Workload::new("two.toml", TWO);
        assert!(matches!(workload.with(&[("class.c.guarantee", "1mbit")]), Err(ClaimError::Scenario(_))));
        assert!(matches!(lab.play(&workload, &["hsl"], 1, &Options::default()), Err(ClaimError::Other(_))));
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(lab.play(&workload, &["hls"], 1, &Options::default()), Err(ClaimError::Stopped)));
    }
}

#[cfg(test)]
mod queue_tests {
    use super::*;

    #[test]
    fn leaves_without_a_buffer_get_one_and_others_stay() {
        let text = "[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\nparent = \"a\"\n[[class]]\nname = \"c\"\nbuffer = \"5p\"\n[[source]]\nclass = \"b\"\n";
        let long = "buffer = \"1000p\"\n";
        assert_eq!(with_long_queues(text), text.replace("name = \"b\"\n", &format!("name = \"b\"\n{long}")));
        let inline = "class = [{ name = \"a\", real_time = { rate = \"1mbit\" } }, { name = 'b', buffer = \"5p\" }]";
        let made = "class = [{ name = \"a\", real_time = { rate = \"1mbit\" }, buffer = \"1000p\" }, { name = 'b', buffer = \"5p\" }]";
        assert_eq!(with_long_queues(inline), made);
    }
}
