//! A campaign in its directory, of which any thread, process or machine may write parts.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fairlink_campaign::{CampaignError, Directory, Format, Kind, Shard, Whole};
use fairlink_config::sweep::{Sweep, Template};
use pyo3::exceptions::{PyFileNotFoundError, PyOSError};
use pyo3::prelude::*;

use crate::error::Failed;
use crate::input::Source;

/// Time between two looks at signals.
const LOOK: Duration = Duration::from_millis(20);

/// A campaign.
#[pyclass(frozen, module = "fairlink._engine")]
pub(crate) struct Campaign {
    directory: Directory,
    stops: AtomicBool,
}

/// Errors of files are `OSError` with the number of the system, where it gave one.
fn raised(error: CampaignError) -> PyErr {
    let text = error.to_string();
    match error {
        CampaignError::Refused(refused) => Failed::from(refused).into(),
        CampaignError::File { path, source, .. } => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, text, path.display().to_string())),
            None => PyOSError::new_err(text),
        },
        CampaignError::Damaged { .. } => PyOSError::new_err(text),
        CampaignError::None { .. } => PyFileNotFoundError::new_err(text),
        CampaignError::Other { .. } | CampaignError::Manifest { .. } | CampaignError::Stopped => {
            Failed::from(fairlink_api::Refused::Failed(text)).into()
        }
    }
}

fn format_of(name: &str) -> Result<Format, Failed> {
    let known = || Format::ALL.map(Format::name).join(", ");
    Format::named(name).ok_or_else(|| Failed::argument("format", format!("{name:?} is not one of {}", known())))
}

#[pymethods]
impl Campaign {
    /// Begins a campaign in a directory, or goes on with it.
    #[staticmethod]
    fn begin(
        py: Python<'_>,
        dir: PathBuf,
        source: &Source,
        over: Vec<(String, Vec<String>)>,
        schedulers: Vec<String>,
        runs: u32,
        format: &str,
    ) -> PyResult<Self> {
        let format = format_of(format)?;
        let sweeps = over.into_iter().map(|(key, values)| Sweep { key, values }).collect();
        let made = py.detach(|| {
            let template = Template::read(&source.0).map_err(fairlink_api::Refused::from)?;
            let campaign = fairlink_campaign::Campaign::new(template, sweeps, schedulers, runs)?;
            Directory::begin(&dir, campaign, format)
        });
        Ok(Self { directory: made.map_err(raised)?, stops: AtomicBool::new(false) })
    }

    /// Opens a campaign that was begun.
    #[staticmethod]
    fn open(py: Python<'_>, dir: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| Directory::open(&dir));
        Ok(Self { directory: opened.map_err(raised)?, stops: AtomicBool::new(false) })
    }

    /// The directory.
    #[getter]
    fn dir(&self) -> PathBuf {
        self.directory.dir().to_owned()
    }

    /// `csv` or `parquet`.
    #[getter]
    fn format(&self) -> &'static str {
        self.directory.format().name()
    }

    /// Simulations.
    #[getter]
    fn jobs(&self) -> u64 {
        self.directory.campaign().jobs()
    }

    /// Files.
    #[getter]
    fn parts(&self) -> u64 {
        self.directory.parts()
    }

    /// The first job of a part, and the first of the next one.
    fn jobs_of(&self, part: u64) -> (u64, u64) {
        let jobs = self.directory.jobs_of(part);
        (jobs.start, jobs.end)
    }

    /// The file of a part.
    fn file_of(&self, part: u64) -> PathBuf {
        self.directory.file_of(part)
    }

    /// Parts that are not there.
    fn missing(&self) -> Vec<u64> {
        self.directory.missing(Shard::ALL)
    }

    /// Names of the columns with their types: `whole`, `number`, `flag`, `text`.
    fn columns(&self) -> Vec<(String, &'static str)> {
        let kind = |kind| match kind {
            Kind::Whole => "whole",
            Kind::Number => "number",
            Kind::Flag => "flag",
            Kind::Text => "text",
        };
        let columns = self.directory.campaign().columns();
        columns.iter().map(|column| (column.name.clone(), kind(column.kind))).collect()
    }

    /// Makes the runs of a part and writes its file. Returns the number of runs that failed.
    fn write(&self, py: Python<'_>, part: u64) -> PyResult<u64> {
        let (looked, raised_here) = (Mutex::new(Instant::now()), Mutex::new(None));
        let watch = |_, _| {
            let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.elapsed() >= LOOK {
                *looked = Instant::now();
                if let Err(signal) = Python::attach(|py| py.check_signals()) {
                    *raised_here.lock().unwrap_or_else(PoisonError::into_inner) = Some(signal);
                    return ControlFlow::Break(());
                }
            }
            if self.stops.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let written = py.detach(|| self.directory.write(part, &watch));
        match raised_here.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(signal) => Err(signal),
            None => written.map_err(raised),
        }
    }

    /// Has all calls of `write` end, in all threads, or allows them again.
    fn stop(&self, stops: bool) {
        self.stops.store(stops, Ordering::Relaxed);
    }

    /// The digest, the number of rows, and that of failed runs; `None` while parts are missing.
    fn whole(&self, py: Python<'_>) -> PyResult<Option<(String, u64, u64)>> {
        let whole = py.detach(|| self.directory.whole()).map_err(raised)?;
        Ok(whole.map(|Whole { digest, rows, failed, .. }| (digest, rows, failed)))
    }
}
