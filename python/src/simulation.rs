//! A run of a scenario, step by step.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairlink_api::{ProblemReport, SETTLE, SimOptions, json, scenario_warnings, simulate_observed};
use fairlink_core::{NANOS_PER_SEC, Nanos};
use fairlink_sim::Observer;
use pyo3::prelude::*;

use crate::error::{Failed, problems_json};
use crate::input::{Source, time};
use crate::trace::{Recorder, Recording, Trace};

/// Calls of the driver and packets between two looks at signals: some milliseconds, as a call takes about 100 ns.
const WORK: u64 = 1 << 16;

/// A run.
#[pyclass(frozen, module = "fairlink._engine")]
pub(crate) struct Simulation {
    run: Mutex<fairlink_api::Simulation>,
    /// By link; empty if packets are not recorded.
    recordings: Vec<Arc<Mutex<Recording>>>,
    /// Names of the further links.
    further: Vec<String>,
    duration: Nanos,
}

impl Simulation {
    /// The lock is never held by a thread that waits for the interpreter.
    fn run(&self) -> MutexGuard<'_, fairlink_api::Simulation> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (source, *, scheduler, seed, window, lenient, metrics, trace))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        py: Python<'_>,
        source: &Source,
        scheduler: Option<&str>,
        seed: Option<u64>,
        window: Option<&Bound<'_, PyAny>>,
        lenient: bool,
        metrics: bool,
        trace: Option<u64>,
    ) -> PyResult<Self> {
        let window = window.map(|window| time("window", window)).transpose()?;
        if window == Some(Nanos::ZERO) {
            return Err(Failed::argument("window", "it must be longer than 0; write e.g. \"100ms\"").into());
        }
        let options = SimOptions { scheduler, seed, lenient, window, settle: SETTLE, metrics };
        let mut recordings = Vec::new();
        let made: Result<_, Failed> = py.detach(|| {
            Ok(simulate_observed(&source.0, &options, |links| {
                let Some(limit) = trace else { return Vec::new() };
                recordings = links.iter().map(|_| Arc::new(Mutex::new(Recording::new(limit)))).collect();
                recordings.iter().map(|one| Box::new(Recorder(Arc::clone(one))) as Box<dyn Observer>).collect()
            })?)
        });
        let run = made?;
        let further = run.file().peers.iter().map(|peer| peer.name.clone()).collect();
        let duration = run.file().duration;
        Ok(Self { run: Mutex::new(run), recordings, further, duration })
    }

    /// Runs until `end` in seconds, or for some milliseconds. Returns the time in seconds.
    fn advance(&self, py: Python<'_>, end: &Bound<'_, PyAny>) -> PyResult<f64> {
        let end = time("end", end)?;
        let stepped: Result<f64, Failed> = py.detach(|| {
            let mut run = self.run();
            let stepped = run.step_for(end, WORK);
            self.check_room()?;
            stepped?;
            Ok(seconds(run.now()))
        });
        Ok(stepped?)
    }

    #[getter]
    fn now_s(&self, py: Python<'_>) -> f64 {
        seconds(py.detach(|| self.run().now()))
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        seconds(self.duration)
    }

    #[getter]
    fn done(&self, py: Python<'_>) -> bool {
        py.detach(|| self.run().done())
    }

    /// True if a run until `end` has nothing left to do.
    fn reached(&self, py: Python<'_>, end: &Bound<'_, PyAny>) -> PyResult<bool> {
        let end = time("end", end)?.min(self.duration);
        Ok(py.detach(|| self.run().now() >= end))
    }

    fn offer(&self, py: Python<'_>, class: &str, bytes: u32, at: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let at = at.map(|at| time("at", at)).transpose()?;
        let offered: Result<(), Failed> = py.detach(|| {
            let mut run = self.run();
            let at = at.unwrap_or(run.now());
            Ok(run.offer(class, bytes, at)?)
        });
        Ok(offered?)
    }

    fn change(&self, py: Python<'_>, link: &Source, scheduler: Option<&str>) -> Result<(), Failed> {
        py.detach(|| Ok(self.run().change(&link.0, scheduler)?))
    }

    /// The links that `trace` takes: the first, which is `None`, and the peers.
    fn links(&self) -> Vec<Option<&str>> {
        std::iter::once(None).chain(self.further.iter().map(|name| Some(name.as_str()))).collect()
    }

    /// Warnings about the scenario as JSON.
    fn warnings(&self, py: Python<'_>) -> Result<String, Failed> {
        py.detach(|| {
            let warnings = scenario_warnings(self.run().file())?;
            Ok(problems_json(&warnings.iter().map(ProblemReport::from).collect::<Vec<_>>()))
        })
    }

    /// The document of the measurements until now.
    fn document(&self, py: Python<'_>) -> Result<String, Failed> {
        py.detach(|| Ok(self.run().document(|document| json(document))?))
    }

    /// The packets of a link so far: of the first, or of a peer.
    fn trace(&self, py: Python<'_>, link: Option<&str>) -> PyResult<Trace> {
        if self.recordings.is_empty() {
            return Err(Failed::argument("trace", "no packets were recorded; start the run with trace=True").into());
        }
        let place = match link {
            None => 0,
            Some(name) => {
                self.further.iter().position(|further| further == name).map(|at| at + 1).ok_or_else(|| {
                    let known = if self.further.is_empty() { "none".to_owned() } else { self.further.join(", ") };
                    Failed::argument("link", format!("{name:?} is not a [[peer]] of the scenario; there are: {known}"))
                })?
            }
        };
        let made: Result<Trace, Failed> = py.detach(|| {
            let run = self.run();
            let mut recording = self.recordings[place].lock().unwrap_or_else(PoisonError::into_inner);
            // As in a file of its own: `CLASS`, and not `PEER:CLASS`.
            let peer = link.map(|peer| format!("{peer}:")).unwrap_or_default();
            let own = |name: &String| name.strip_prefix(peer.as_str()).unwrap_or(name).to_owned();
            let names: Vec<String> = run.names(place).iter().map(own).collect();
            recording.trace(&names).map_err(Failed::because)
        });
        Ok(made?)
    }
}

impl Simulation {
    /// Refuses to continue when packets no longer fit.
    fn check_room(&self) -> Result<(), Failed> {
        let full = self.recordings.iter().find_map(|one| one.lock().unwrap_or_else(PoisonError::into_inner).full());
        full.map_or(Ok(()), |limit| {
            Err(Failed::argument(
                "trace",
                format!(
                    "the run has more than {limit} packets, the limit; simulate a shorter time, set another limit \
                     (trace=PACKETS), or write a file with the command: fairlink sim --trace"
                ),
            ))
        })
    }
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / NANOS_PER_SEC as f64
}
