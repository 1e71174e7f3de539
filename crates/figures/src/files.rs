//! Figures of runs as files in a directory.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fairlink_sim::Run;
use fairlink_sim::statistics::summary::Summary;

use super::delays::{self, Delays};
use super::figure::{Event, Figure, Width};
use super::misplaced;
use super::over_time;
use super::received::{self, Received};
use super::sweep::{self, Key};

/// A file or directory that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .path.display())]
pub struct FileError {
    /// The file or directory.
    pub path: PathBuf,
    /// Reason of the failure.
    #[source]
    pub error: io::Error,
}

/// Writes files into a directory, and knows what was written.
#[derive(Debug)]
pub struct Files<'a> {
    dir: &'a Path,
    written: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    /// Makes the directory if it is not there.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn new(dir: &'a Path) -> Result<Self, FileError> {
        fs::create_dir_all(dir).map_err(|error| FileError { path: dir.to_owned(), error })?;
        Ok(Self { dir, written: Vec::new() })
    }

    /// Writes a file of this name.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn write(&mut self, name: &str, text: impl AsRef<[u8]>) -> Result<(), FileError> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(|error| FileError { path: path.clone(), error })?;
        self.written.push(path);
        Ok(())
    }

    /// Draws a figure of this width as `stem.svg`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn draw(&mut self, stem: &str, figure: &Figure, width: Width) -> Result<(), FileError> {
        self.write(&format!("{stem}.svg"), figure.svg_for(width))
    }

    /// Returns the paths of the written files, in order.
    #[must_use]
    pub fn written(self) -> Vec<PathBuf> {
        self.written
    }
}

/// Events of runs, marked in figures against time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// Marked below the x axis of each panel.
    pub events: Vec<Event>,
    /// A sentence below the legend; none if empty.
    pub note: String,
    /// The input, such as the scenario's file; titles begin with it. None if empty.
    pub scenario: String,
    /// The width of figures.
    pub width: Width,
}

impl Marks {
    fn on(&self, mut figure: Figure) -> Figure {
        figure.panels.iter_mut().for_each(|panel| panel.events.clone_from(&self.events));
        if !self.note.is_empty() {
            figure.notes.insert(0, self.note.clone());
        }
        figure
    }

    /// Makes a title that begins with the scenario.
    fn title(&self, of: &str) -> String {
        if self.scenario.is_empty() { of.to_owned() } else { format!("{}: {of}", self.scenario) }
    }
}

/// Writes a receiver's measurements against time into `dir`, which is created if needed, and returns the paths:
/// `received.csv` and `received.svg`.
///
/// # Errors
/// [`FileError`]; files written before it stay.
pub fn write_received(received: &Received, marks: &Marks, dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Files::new(dir)?;
    files.write("received.csv", received::csv(received))?;
    files.draw("received", &marks.on(received::figure(received, "Received rates and delays")), Width::Screen)?;
    Ok(files.written())
}

/// Writes the measurements of `runs` against time and their delays into `dir`, which is created if needed, and returns
/// the paths. Runs without [`windows`](fairlink_sim::Options::window) are skipped.
///
/// Files are named after the scheduler, after the seed if there are several, and after the number of the setting, from
/// 1, if there are several. `marks` are in figures against time: `hls.svg` and `hls.csv` have rates, `hls-series.svg`
/// and `hls-series.csv` rates, delays, queues and drops, `hls-delays.svg` the distributions of delays. `schedulers.svg`
/// and `schedulers-delays.svg` have rates and longest delays under all schedulers, if there are several. `delays.svg`
/// compares the schedulers in box plots, `delays.csv` has all distributions. Delays of several seeds are combined.
///
/// # Errors
/// [`FileError`]; files written before it stay.
pub fn write_runs(runs: &[Run], marks: &Marks, dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Files::new(dir)?;
    let several_seeds = runs.iter().any(|run| run.seed != runs[0].seed && run.sweep == runs[0].sweep);
    let several_settings = runs.iter().any(|run| run.sweep != runs[0].sweep);
    for (number, setting) in runs.chunk_by(|one, other| one.sweep == other.sweep).enumerate() {
        let suffix = if several_settings { format!("-setting{}", number + 1) } else { String::new() };
        let settings: Vec<String> =
            setting[0].sweep.iter().map(|(key, value)| format!(", {key} = {}", sweep::shown(value))).collect();
        let settings = settings.concat();
        for run in setting {
            let Some(windows) = &run.windows else { continue };
            let (stem, title) = match several_seeds {
                true => (
                    format!("{}{suffix}-seed{}", run.scheduler, run.seed),
                    format!("{}, seed {}{settings}", run.scheduler, run.seed),
                ),
                false => (format!("{}{suffix}", run.scheduler), format!("{}{settings}", run.scheduler)),
            };
            files.write(&format!("{stem}.csv"), over_time::rates_csv(windows))?;
            let rates = marks.on(over_time::rates(run, windows, &marks.title(&format!("rates under {title}"))));
            files.draw(&stem, &rates, marks.width)?;
            files.write(&format!("{stem}-series.csv"), over_time::series_csv(windows))?;
            let title = marks.title(&format!("rates, delays, queues and drops under {title}"));
            let series = marks.on(over_time::series(run, windows, &title));
            files.draw(&format!("{stem}-series"), &series, marks.width)?;
        }
        write_compared(setting, marks, (&suffix, &settings), several_seeds, &mut files)?;
        // Of the first seed.
        let first = setting.iter().filter(|run| run.seed == setting[0].seed);
        let found: Vec<_> = first.filter_map(|run| Some((run, run.misplaced.as_ref()?))).collect();
        if found.iter().any(|(_, found)| !found.windows.is_empty()) {
            let title = marks.title(&format!("traffic of the wrong leaves{settings}"));
            files.draw(&format!("misplaced{suffix}"), &misplaced::figure(&found, &title), marks.width)?;
            files.write(&format!("misplaced{suffix}.csv"), misplaced::csv(&found))?;
        }
        let mut schedulers: Vec<(String, Vec<Delays>)> = Vec::new();
        for runs in setting.chunk_by(|one, other| one.scheduler == other.scheduler) {
            let delays = delays::of_runs(&runs.iter().collect::<Vec<_>>());
            if !delays.is_empty() {
                schedulers.push((runs[0].scheduler.clone(), delays));
            }
        }
        for (scheduler, delays) in &schedulers {
            let title = marks.title(&format!("delays under {scheduler}{settings}"));
            let figure = delays::distributions(delays, &title);
            files.draw(&format!("{scheduler}{suffix}-delays"), &figure, marks.width)?;
        }
        if !schedulers.is_empty() {
            let title = marks.title(&format!("delays by class and scheduler{settings}"));
            files.draw(&format!("delays{suffix}"), &delays::boxes(&schedulers, &title), marks.width)?;
            files.write(&format!("delays{suffix}.csv"), delays::csv(&schedulers))?;
        }
    }
    Ok(files.written())
}

/// Writes the rates and the delays under several schedulers in a figure each, for each seed.
fn write_compared(
    setting: &[Run],
    marks: &Marks,
    (suffix, settings): (&str, &str),
    several_seeds: bool,
    files: &mut Files<'_>,
) -> Result<(), FileError> {
    let seeds: BTreeSet<u64> = setting.iter().map(|run| run.seed).collect();
    for seed in seeds {
        let runs = setting.iter().filter(|run| run.seed == seed);
        let runs: Vec<_> = runs.filter_map(|run| Some((run, run.windows.as_ref()?))).collect();
        if runs.len() < 2 {
            continue;
        }
        let (stem, of) = match several_seeds {
            true => (format!("-seed{seed}"), format!(", seed {seed}")),
            false => (String::new(), String::new()),
        };
        let figure = over_time::compared(&runs, &marks.title(&format!("rates by scheduler{of}{settings}")));
        files.draw(&format!("schedulers{suffix}{stem}"), &marks.on(figure), marks.width)?;
        let title = marks.title(&format!("longest delays by scheduler{of}{settings}"));
        let figure = marks.on(over_time::compared_delays(&runs, &title));
        files.draw(&format!("schedulers{suffix}{stem}-delays"), &figure, marks.width)?;
    }
    Ok(())
}

/// Writes `sweep.csv` and `sweep.svg` into `dir`, which is made if it is not there, and returns the paths.
///
/// # Errors
/// [`FileError`].
pub fn write_sweep(keys: &[Key], summaries: &[Summary], title: &str, dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Files::new(dir)?;
    files.write("sweep.csv", sweep::csv(keys, summaries))?;
    files.draw("sweep", &sweep::figure(keys, summaries, title), Width::Screen)?;
    Ok(files.written())
}

#[cfg(test)]
mod tests;
