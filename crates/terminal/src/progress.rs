//! A progress bar for runs on several threads, on a terminal, and Ctrl-C.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fairlink_core::Nanos;
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::CliError;
use crate::interrupt;
use crate::out::note;

/// Steps of the bar per run.
const STEPS: u64 = 200;

/// Shows how far all runs are.
pub struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Starts the display for this number of runs.
    pub fn new(runs: u64) -> Result<Self, CliError> {
        let style = ProgressStyle::with_template("simulating {wide_bar} {percent} %").expect("a template");
        let bar = ProgressBar::new(runs.saturating_mul(STEPS)).with_style(style);
        Ok(Self { bar, stop: interrupt::stop_flag()? })
    }

    /// Returns the progress callback for a batch of runs of these durations.
    pub fn watch(&self, durations: Vec<Nanos>) -> impl Fn(usize, Nanos) -> ControlFlow<()> + Sync {
        let done: Vec<AtomicU64> = durations.iter().map(|_| AtomicU64::new(0)).collect();
        move |job, now| {
            let share = u128::from(now.0) * u128::from(STEPS) / u128::from(durations[job].0.max(1));
            let share = (share as u64).min(STEPS);
            let before = done[job].fetch_max(share, Ordering::Relaxed);
            if share > before {
                self.bar.inc(share - before);
            }
            if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    /// Counts runs that are done.
    pub fn add_runs(&self, runs: u64) {
        self.bar.inc(runs.saturating_mul(STEPS));
    }

    /// Returns the progress callback of runs that are counted when they are done.
    pub fn stops(&self) -> impl Fn() -> ControlFlow<()> + Sync {
        || if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Says something while the bar is there.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| note(text));
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
