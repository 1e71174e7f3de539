//! The claims of the papers, listed, and tried by threads of their own.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairlink_api::json;
use fairlink_lab::claims::run::{Progress, try_claims};
use fairlink_lab::claims::{Claim, Effort, Lab, PAPERS, Paper, ReproduceDoc, select};
use pyo3::prelude::*;
use serde::Serialize;

use crate::error::Failed;

/// Time between two looks at signals.
const LOOK: Duration = Duration::from_millis(20);

/// Longest wait for the threads after a stop. A claim that computes for longer ends later, by itself.
const END: Duration = Duration::from_millis(50);

/// A claim, as it is listed.
#[derive(Serialize)]
struct Listed {
    id: &'static str,
    paper: &'static str,
    place: &'static str,
    about: &'static str,
    says: &'static str,
    sentence: &'static str,
    timed: bool,
}

/// A paper, as it is listed.
#[derive(Serialize)]
struct ListedPaper {
    key: &'static str,
    authors: &'static str,
    title: &'static str,
}

fn selected(ids: &[String]) -> Result<Vec<&'static Claim>, Failed> {
    if ids.is_empty() {
        return Err(Failed::argument("ids", "it is empty; write \"all\" for all claims"));
    }
    select(ids).map_err(|unknown| Failed::argument("ids", unknown))
}

/// The claims that these words name, and all papers, as JSON.
#[pyfunction]
pub(crate) fn claims_json(ids: Vec<String>) -> Result<String, Failed> {
    let listed = |claim: &&Claim| Listed {
        id: claim.id,
        paper: claim.paper(),
        place: claim.place,
        about: claim.about,
        says: claim.says,
        sentence: claim.sentence,
        timed: claim.timed,
    };
    let claims: Vec<Listed> = selected(&ids)?.iter().map(listed).collect();
    let paper = |paper: &Paper| ListedPaper { key: paper.key, authors: paper.authors, title: paper.title };
    let papers: Vec<ListedPaper> = PAPERS.iter().map(paper).collect();
    serde_json::to_string(&(claims, papers)).map_err(Failed::because)
}

/// Claims that are being tried.
#[pyclass(frozen, module = "fairlink._engine")]
pub(crate) struct Trial {
    claims: usize,
    stops: Arc<AtomicBool>,
    work: Mutex<Work>,
}

/// The thread that tries them, and what it reports.
struct Work {
    /// A message for each claim that is done; closed at the end.
    done: Receiver<()>,
    /// Claims that are done.
    count: usize,
    /// Returns the document.
    thread: Option<JoinHandle<String>>,
}

#[pymethods]
impl Trial {
    /// Begins.
    #[new]
    #[pyo3(signature = (ids, *, quick, workers))]
    fn new(ids: Vec<String>, quick: bool, workers: Option<usize>) -> PyResult<Self> {
        let claims = selected(&ids)?;
        if workers == Some(0) {
            return Err(Failed::argument("workers", "0 threads; at least 1 is needed").into());
        }
        let processors = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let workers = workers.unwrap_or_else(processors);
        let stops = Arc::new(AtomicBool::new(false));
        let (sender, done) = channel();
        let (count, asked) = (claims.len(), Arc::clone(&stops));
        let work = move || {
            let stop = || asked.load(Ordering::Relaxed);
            let effort = if quick { Effort::Quick } else { Effort::Full };
            let outcomes = try_claims(&Lab::new(effort, workers, &stop), &claims, |progress| {
                if let Progress::Done(_) = progress {
                    // The receiver may have gone.
                    let _ = sender.send(());
                }
            });
            json(&ReproduceDoc::of_outcomes(claims.len(), &outcomes, effort))
        };
        let thread = thread::Builder::new().name("claims".into()).spawn(work)?;
        let work = Mutex::new(Work { done, count: 0, thread: Some(thread) });
        Ok(Self { claims: count, stops, work })
    }

    /// Number of claims.
    fn __len__(&self) -> usize {
        self.claims
    }

    /// Waits some milliseconds. Returns the number of claims that are done, and true at the end.
    fn wait(&self, py: Python<'_>) -> (usize, bool) {
        py.detach(|| {
            let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
            let ended = match work.done.recv_timeout(LOOK) {
                Ok(()) => {
                    work.count += 1;
                    false
                }
                Err(end) => end == RecvTimeoutError::Disconnected,
            };
            (work.count, ended)
        })
    }

    /// Has all threads end. Waits for them, but not for long.
    fn stop(&self, py: Python<'_>) {
        self.stops.store(true, Ordering::Relaxed);
        py.detach(|| {
            let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
            let begun = Instant::now();
            while work.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && begun.elapsed() < END {
                thread::sleep(Duration::from_millis(1));
            }
        });
    }

    /// The document, once, at the end.
    fn document(&self, py: Python<'_>) -> Result<String, Failed> {
        py.detach(|| {
            let thread = self.work.lock().unwrap_or_else(PoisonError::into_inner).thread.take();
            let thread = thread.ok_or_else(|| Failed::because("the document was taken"))?;
            thread.join().map_err(|_| Failed::because("the thread that tries claims panicked"))
        })
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
    }
}
