//! Many runs on several processors, with the outcome of one.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use fairlink_core::{ClassId, DropReason, Leniency, Nanos, SchedulerInfo};

use crate::engine::compare_links;
use crate::links::Links;
use crate::observe::{Fate, Observer, PacketSeen};
use crate::report::{Run, Setting};
use crate::scenario::{Options, SimError};
use crate::statistics::{MSER_BATCH, mser5};

/// One run to be made.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The simulated links.
    pub links: &'a Links,
    /// Under which scheduler.
    pub scheduler: &'static SchedulerInfo,
    /// Treatment of settings that the scheduler cannot honour.
    pub leniency: Leniency,
    /// Number of the repetition, from 0: added to the scenario's seed.
    pub repetition: u64,
    /// Warm-up left out of the averages; overrides the scenario's.
    pub warmup: Option<Nanos>,
    /// Values changed from the scenario's file, for the report.
    pub sweep: &'a BTreeMap<String, Setting>,
    /// Additional observers of its packets.
    pub observers: Option<&'a Observers<'a>>,
}

/// Makes the observer of a run.
pub type Observers<'a> = dyn Fn() -> Box<dyn Observer> + Sync + 'a;

/// Called from several threads with the index of a job and its simulated time; returns whether to continue.
pub type Watch<'a> = dyn Fn(usize, Nanos) -> ControlFlow<()> + Sync + 'a;

/// Makes all runs, on at most `threads` threads, and returns them in the order of `jobs`. The results do not depend on
/// `threads`. Only the reports are kept.
///
/// # Errors
/// The index of the first job that failed, and the error. It does not depend on `threads` either, except after
/// [`ControlFlow::Break`].
pub fn run_jobs(
    jobs: &[Job<'_>],
    options: &Options,
    threads: usize,
    watch: &Watch<'_>,
) -> Result<Vec<Run>, (usize, SimError)> {
    let next = AtomicUsize::new(0);
    // Jobs beyond the first that failed are not begun. Those before it are, so that the first one is always found.
    let failed = AtomicUsize::new(usize::MAX);
    let done: Mutex<Vec<Option<Result<Run, SimError>>>> = Mutex::new((0..jobs.len()).map(|_| None).collect());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= jobs.len() || index > failed.load(Ordering::Relaxed) {
                return;
            }
            let outcome = jobs[index].run(index, options, watch);
            if outcome.is_err() {
                failed.fetch_min(index, Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(outcome);
        }
    };
    let threads = threads.min(jobs.len());
    if threads <= 1 {
        work();
    } else {
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    }
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut runs = Vec::with_capacity(jobs.len());
    for (index, outcome) in done.into_iter().enumerate() {
        match outcome {
            Some(Ok(run)) => runs.push(run),
            Some(Err(error)) => return Err((index, error)),
            // Only jobs after a failure, which has been returned, are left out.
            None => break,
        }
    }
    Ok(runs)
}

impl Job<'_> {
    fn run(&self, index: usize, options: &Options, watch: &Watch<'_>) -> Result<Run, SimError> {
        let mut links = self.links.clone();
        links.first.seed = links.first.seed.wrapping_add(self.repetition);
        links.first.warmup = self.warmup.unwrap_or(links.first.warmup);
        let packets = self.observers.map_or_else(|| Box::new(()) as Box<dyn Observer>, |make| make());
        let observer = &mut Told { index, watch, packets };
        let report = compare_links(&links, &[self.scheduler], self.leniency, 1, options, observer)?;
        let at = self.links.first.duration;
        if watch(index, at).is_break() {
            return Err(SimError::Stopped { at });
        }
        let mut run = report.runs.into_iter().next().ok_or(SimError::Stopped { at })?;
        run.sweep.clone_from(self.sweep);
        Ok(run)
    }
}

/// Hands progress on to one, and all to another.
struct Told<'a> {
    index: usize,
    watch: &'a Watch<'a>,
    packets: Box<dyn Observer>,
}

impl Observer for Told<'_> {
    fn arrived(&mut self, now: Nanos, class: ClassId, len: u32) {
        self.packets.arrived(now, class, len);
    }

    fn dropped(&mut self, now: Nanos, class: ClassId, len: u32, reason: DropReason) {
        self.packets.dropped(now, class, len, reason);
    }

    fn sent(&mut self, now: Nanos, done: Nanos, class: ClassId, len: u32) {
        self.packets.sent(now, done, class, len);
    }

    fn came(&mut self, packet: &PacketSeen) {
        self.packets.came(packet);
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        self.packets.went(packet, fate);
    }

    fn further(&mut self) -> Vec<Box<dyn Observer>> {
        self.packets.further()
    }

    fn progress(&mut self, now: Nanos) -> ControlFlow<()> {
        match self.packets.progress(now) {
            ControlFlow::Continue(()) => (self.watch)(self.index, now),
            stop => stop,
        }
    }
}

/// Windows of the pilot runs that look for the warm-up.
const PILOT_WINDOWS: u64 = 500;

/// The class and scheduler without a warm-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoWarmup {
    /// The scheduler under which it was looked for.
    pub scheduler: String,
    /// The class whose delay is not steady in the second half of the run.
    pub class: String,
}

/// Returns the window of the pilot runs of a scenario of this length.
#[must_use]
pub fn pilot_window(duration: Nanos) -> Nanos {
    Nanos((duration.0 / PILOT_WINDOWS).max(1))
}

/// Computes the warm-up of pilot runs by MSER-5. The runs are repetitions of one scenario under one scheduler, with
/// windows of [`pilot_window`].
///
/// The input is the mean delay in each window, averaged over the repetitions, class by class; the longest warm-up of
/// all classes is taken. Windows in which no packet of a class left are skipped. Classes that left packets in fewer
/// than a tenth of the windows are ignored.
///
/// # Errors
/// A class whose delay is steady at no time of the first half.
pub fn warmup(pilots: &[Run]) -> Result<f64, NoWarmup> {
    let Some(first) = pilots.first() else { return Ok(0.0) };
    let windows: Vec<_> = pilots.iter().filter_map(|run| run.windows.as_ref()).collect();
    let mut longest = 0.0f64;
    let Some(shape) = windows.first() else { return Ok(0.0) };
    for (column, name) in shape.names.iter().enumerate().filter(|&(column, _)| shape.leaf[column]) {
        let mut ends = Vec::new();
        let mut delays = Vec::new();
        for (number, row) in shape.rows.iter().enumerate() {
            let of = |run: &&crate::report::Windows| run.rows.get(number)?.leaves.get(column)?.delay_mean_s;
            let known: Vec<f64> = windows.iter().filter_map(of).collect();
            if !known.is_empty() {
                ends.push(row.start_s);
                delays.push(known.iter().sum::<f64>() / known.len() as f64);
            }
        }
        if delays.len() < (PILOT_WINDOWS as usize / 10).max(10 * MSER_BATCH) {
            continue;
        }
        let refused = || NoWarmup { scheduler: first.scheduler.clone(), class: name.clone() };
        let cut = mser5(&delays).ok_or_else(refused)?;
        longest = longest.max(if cut == 0 { 0.0 } else { ends[cut] });
    }
    Ok(longest)
}
