//! Figures of runs as files in a directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fairlink_sim::Run;
use fairlink_sim::statistics::summary::Summary;
use fairlink_traffic::clocks::Clocks;

use super::clocks;
use super::delays::{self, Delays};
use super::figure::{Event, Figure};
use super::over_time;
use super::pdf;
use super::received::{self, Received};
use super::sweep::{self, Key};

/// A file or directory that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .path.display())]
pub struct FileError {
    /// The file or directory.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub error: io::Error,
}

/// Writes files into a directory.
struct Files<'a> {
    dir: &'a Path,
    written: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    /// Makes the directory if it is not there.
    fn new(dir: &'a Path) -> Result<Self, FileError> {
        fs::create_dir_all(dir).map_err(|error| FileError { path: dir.to_owned(), error })?;
        Ok(Self { dir, written: Vec::new() })
    }

    fn write(&mut self, name: &str, text: impl AsRef<[u8]>) -> Result<(), FileError> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(|error| FileError { path: path.clone(), error })?;
        self.written.push(path);
        Ok(())
    }

    /// A drawing as SVG and as PDF.
    fn draw(&mut self, stem: &str, svg: &str) -> Result<(), FileError> {
        self.write(&format!("{stem}.svg"), svg)?;
        let name = format!("{stem}.pdf");
        let pdf =
            pdf::pdf(svg).map_err(|error| FileError { path: self.dir.join(&name), error: io::Error::other(error) })?;
        self.write(&name, pdf)
    }
}

/// What happened during runs, marked in figures against time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// Marked below the x axis of each panel.
    pub events: Vec<Event>,
    /// A sentence below the legend; nothing where empty.
    pub note: String,
}

impl Marks {
    fn on(&self, mut figure: Figure) -> Figure {
        figure.panels.iter_mut().for_each(|panel| panel.events.clone_from(&self.events));
        if !self.note.is_empty() {
            figure.notes.insert(0, self.note.clone());
        }
        figure
    }
}

/// Writes `figures` into `dir`, which is made if it is not there, as SVG and PDF, each with its name without the ending, and returns the paths.
///
/// # Errors
/// [`FileError`]; files written before it stay.
pub fn write_figures<'a>(
    figures: impl IntoIterator<Item = (String, &'a Figure)>,
    dir: &Path,
) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Files::new(dir)?;
    figures.into_iter().try_for_each(|(stem, figure)| files.draw(&stem, &figure.svg()))?;
    Ok(files.written)
}

/// Writes what a receiver saw against time into `dir`, which is made if it is not there, and returns the paths: `received.csv`, and
/// `received` as SVG and PDF.
///
/// # Errors
/// [`FileError`]; files written before it stay.
pub fn write_received(received: &Received, marks: &Marks, dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Files::new(dir)?;
    files.write("received.csv", &received::csv(received))?;
    files.draw("received", &marks.on(received::figure(received, "Received rates and delays")).svg())?;
    Ok(files.written)
}

/// Writes what `runs` of `scenario` show against time and their delays into `dir`, which is made if it is not there, and returns the paths. Runs
/// without [`windows`](fairlink_sim::Options::window) are passed over.
///
/// Files are named after the scheduler, after the seed where there are several, and after the number of the setting, from 1, where there
/// are several. `marks` are in figures against time: `hls.svg` and `hls.csv` have rates, `hls-series.svg` and `hls-series.csv` rates, delays, queues and drops,
/// `hls-delays.svg` the distributions of delays. Of several schedulers, `rates.svg` has the rates under each in a panel of its own, for a column of a
/// paper; of several seeds, those of the first. `delays.svg` compares the schedulers in box plots, `delays.csv` has all distributions. Delays of several seeds are put
/// together. Each figure is written as PDF, too.
///
/// # Errors
/// [`FileError`]; files written before it stay.
pub fn write_runs(runs: &[Run], scenario: &str, marks: &Marks, dir: &Path) -> Result<Vec<PathBuf>, FileError> {
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
            files.write(&format!("{stem}.csv"), &over_time::rates_csv(windows))?;
            let rates = marks.on(over_time::rates(run, windows, &format!("{scenario}: rates under {title}")));
            files.draw(&stem, &rates.svg())?;
            files.write(&format!("{stem}-series.csv"), &over_time::series_csv(windows))?;
            let title = format!("{scenario}: rates, delays, queues and drops under {title}");
            let series = over_time::series(run, windows, &title);
            files.draw(&format!("{stem}-series"), &marks.on(series).svg())?;
        }
        let first = |one: &&Run| one.seed == setting[0].seed && one.windows.is_some();
        let firsts: Vec<&Run> = setting.iter().filter(first).collect();
        if firsts.len() > 1 {
            let rates = marks.on(over_time::schedulers(&firsts, &format!("{scenario}: rates{settings}")));
            files.draw(&format!("rates{suffix}"), &rates.column_svg())?;
        }
        let mut schedulers: Vec<(String, Vec<Delays>)> = Vec::new();
        for runs in setting.chunk_by(|one, other| one.scheduler == other.scheduler) {
            let delays = delays::of_runs(&runs.iter().collect::<Vec<_>>());
            if !delays.is_empty() {
                schedulers.push((runs[0].scheduler.clone(), delays));
            }
        }
        for (scheduler, delays) in &schedulers {
            let title = format!("{scenario}: delays under {scheduler}{settings}");
            files.draw(&format!("{scheduler}{suffix}-delays"), &delays::distributions(delays, &title).svg())?;
        }
        if !schedulers.is_empty() {
            let title = format!("{scenario}: delays by class and scheduler{settings}");
            files.draw(&format!("delays{suffix}"), &delays::boxes(&schedulers, &title).svg())?;
            files.write(&format!("delays{suffix}.csv"), &delays::csv(&schedulers))?;
        }
    }
    Ok(files.written)
}

/// Writes `sweep.csv`, and `sweep` as SVG and PDF, into `dir`, which is made if it is not there, and returns the paths.
///
/// # Errors
/// [`FileError`].
pub fn write_sweep(keys: &[Key], summaries: &[Summary], title: &str, dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Files::new(dir)?;
    files.write("sweep.csv", &sweep::csv(keys, summaries))?;
    files.draw("sweep", &sweep::figure(keys, summaries, title).svg())?;
    Ok(files.written)
}

/// Writes `clock.csv`, and `clock` as SVG and PDF, into `dir`, which is made if it is not there, and returns the paths.
///
/// # Errors
/// [`FileError`].
pub fn write_clocks(found: &Clocks, title: &str, dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Files::new(dir)?;
    files.write("clock.csv", &clocks::csv(found))?;
    files.draw("clock", &clocks::figure(found, title).svg())?;
    Ok(files.written)
}

#[cfg(test)]
mod tests;
