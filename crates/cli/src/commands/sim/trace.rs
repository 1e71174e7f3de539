//! `--trace`: every packet of each run, in a file for each link.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairlink_config::LinkFile;
use fairlink_figures::trace::{Format, Trace, TraceError, WriteFrame, observer};
use fairlink_sim::{Observer, Observers};
use fairlink_traffic::recording::RecordingFormat;

use super::load::Point;
use super::seconds;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::note;

/// Most files of a command; all are open at once.
const MAX_FILES: u64 = 256;

/// The traces of all runs, by run.
pub(super) struct Traces {
    of_runs: Vec<Vec<Trace>>,
}

impl Traces {
    /// Opens the files of all runs of a setting: each scheduler `repetitions` times.
    pub(super) fn begin(file: &Path, point: &Point, repetitions: u64) -> Result<Self, CliError> {
        let formats = formats(file, point)?;
        let runs = point.schedulers.len() as u64 * repetitions;
        let files = runs.saturating_mul(formats.len() as u64);
        if files > MAX_FILES {
            return Err(CliError::wrong(format!(
                "--trace: {files} files (one for each run and link); the limit is {MAX_FILES}; make fewer runs at a time"
            )));
        }
        let mut of_runs = Vec::new();
        for scheduler in &point.schedulers {
            for repetition in 0..repetitions {
                let mut parts = Vec::new();
                if point.schedulers.len() > 1 {
                    parts.push(scheduler.name.to_owned());
                }
                if repetitions > 1 {
                    parts.push(format!("seed{}", point.links.first.seed.wrapping_add(repetition)));
                }
                let mut traces = Vec::new();
                for (link, format) in &formats {
                    let further = link.checked_sub(1).map(|n| &point.links.further[n]);
                    let names = further.map_or(&point.links.first.names, |(_, scenario)| &scenario.names);
                    let place = parts.iter().map(String::as_str).chain(further.map(|(name, _)| name.as_str()));
                    let path = named(file, place);
                    traces.push(Trace::begin(&path, names, format).map_err(|error| CliError::wrong(said(&error)))?);
                }
                of_runs.push(traces);
            }
        }
        Ok(Self { of_runs })
    }

    /// Returns constructors of the runs' observers, in the order of the runs.
    pub(super) fn observers(&self) -> Vec<Box<Observers<'_>>> {
        let make = |traces: &'_ Vec<Trace>| -> Box<dyn Observer> { observer(traces) };
        self.of_runs.iter().map(|traces| Box::new(move || make(traces)) as Box<Observers<'_>>).collect()
    }

    /// Closes all files and prints their sizes. If a file could not be written, returns that error, which also ended
    /// the runs.
    pub(super) fn end(self, complete: bool) -> Result<(), CliError> {
        let mut failed = None;
        for trace in self.of_runs.into_iter().flatten() {
            match trace.end() {
                Ok(written) => {
                    let path = written.path.display();
                    let mut text = format!("written: {path}: {}", packets(written.packets));
                    if !complete {
                        text += &format!(", incomplete: arrivals until {} of simulated time", seconds(written.until));
                    }
                    if written.late > 0 {
                        text += &format!(
                            "; {} out of order (sent after later arrivals): replay with accept = [\"unsorted\"]",
                            packets(written.late)
                        );
                    }
                    note(text);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => {
                let said = said(&error);
                Err(CliError::Failed(anyhow::anyhow!(
                    "{said}; the runs were stopped, and the file ends within a packet"
                )))
            }
            None => Ok(()),
        }
    }
}

fn said(error: &TraceError) -> String {
    format!("--trace: {error}")
}

fn packets(count: u64) -> String {
    if count == 1 { "1 packet".to_owned() } else { format!("{count} packets") }
}

/// Returns the format of each link's file, by the ending of the name.
fn formats(file: &Path, point: &Point) -> Result<Vec<(usize, Format)>, CliError> {
    let format = RecordingFormat::from_path(file);
    let format = format.map_err(|why| CliError::wrong(format!("--trace {}: {why}", file.display())))?;
    let links = std::iter::once(&point.file.link).chain(point.file.peers.iter().map(|peer| &peer.link));
    let of_link = |link| match format {
        RecordingFormat::Csv => Format::Csv,
        RecordingFormat::Pcapng => Format::Pcapng(frames(link)),
    };
    Ok(links.map(of_link).enumerate().collect())
}

/// `file` with these between its stem and its ending.
fn named<'a>(file: &Path, parts: impl Iterator<Item = &'a str>) -> PathBuf {
    let mut name = OsString::from(file.file_stem().unwrap_or_default());
    for part in parts {
        name.push("-");
        name.push(part);
    }
    if let Some(ending) = file.extension() {
        name.push(".");
        name.push(ending);
    }
    file.with_file_name(name)
}

/// Frames that the matches of `link` put into the class of a packet; of classes without a match, frames of an EtherType
/// for experiments.
#[cfg(target_os = "linux")]
fn frames(link: &LinkFile) -> WriteFrame {
    use fairlink_net::PlainFrames;
    use fairlink_testbed::headers_for;
    let of_class = |index| {
        let headers = headers_for(fairlink_core::ClassId(index as u32), &link.matches, link.default_class);
        headers.map_or_else(|_| PlainFrames::bare(), |headers| PlainFrames::new(&headers))
    };
    // Inner classes send nothing; their frames would be found as plain ones.
    let of_classes: Vec<PlainFrames> = (0..link.tree.len()).map(of_class).collect();
    let bare = PlainFrames::bare();
    Arc::new(move |class, frame| of_classes.get(class.index()).unwrap_or(&bare).write(frame))
}

/// Returns frames of an EtherType for experiments: frames that meet matches need the gateway's code.
#[cfg(not(target_os = "linux"))]
fn frames(_link: &LinkFile) -> WriteFrame {
    Arc::new(|_, frame| {
        if let Some(ethertype) = frame.get_mut(12..14) {
            ethertype.copy_from_slice(&[0x88, 0xb5]);
        }
    })
}
