//! `fairlink ctl trace`: records the packets of a running gateway in a file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use fairlink_core::Nanos;
use fairlink_net::{Ended, Recorded, Recording, RecordingError, RecordingLimits};
use fairlink_report::{Content, Document};
use fairlink_traffic::recording::RecordingFormat;
use schemars::JsonSchema;
use serde::Serialize;

use super::unanswered;
use fairlink_terminal::args;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::{Out, note};

/// File, and limits of the recording.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, which is overwritten: a capture (.pcapng) or a table (.csv).
    file: PathBuf,
    /// End after this number of packets.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    packets: Option<u64>,
    /// End after this time, such as 10s.
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Nanos>,
    /// End when the file has this size.
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = file_size)]
    size: u64,
    /// Keep this number of bytes of each packet in a capture [default: all]. Its length is kept in any case; to replay
    /// such a capture, set accept = ["cut"].
    #[arg(long, value_name = "SIZE", value_parser = snap)]
    snap: Option<u32>,
}

impl Args {
    /// Format of the file.
    pub(super) fn format(&self) -> Result<RecordingFormat, CliError> {
        RecordingFormat::from_path(&self.file).map_err(|why| CliError::wrong(format!("{}: {why}", self.file.display())))
    }
}

fn time(text: &str) -> Result<Nanos, String> {
    match args::time(text)? {
        Nanos::ZERO => Err("0 is too short; write at least 1ms".to_owned()),
        time => Ok(time),
    }
}

fn file_size(text: &str) -> Result<u64, String> {
    match args::size(text, u64::MAX)? {
        0 => Err("0 B is too small for a file; write at least 1kB".to_owned()),
        size => Ok(size),
    }
}

fn snap(text: &str) -> Result<u32, String> {
    match args::size(text, 1 << 17)? {
        // A match needs at least the Ethernet header.
        size @ 0..14 => Err(format!("{size} B is shorter than the header of a frame; write at least 14B")),
        size => Ok(size as u32),
    }
}

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub(crate) struct TraceDoc<'a> {
    file: &'a Path,
    packets: u64,
    bytes: u64,
    dropped_packets: u64,
    late_packets: u64,
    missed_packets: u64,
    unfinished_packets: u64,
    ended: Ended,
}

impl Content for TraceDoc<'_> {
    const KIND: &'static str = "trace";
}

/// Records until the end.
pub(super) fn run(args: &Args, format: RecordingFormat, socket: &Path, out: &mut Out) -> Result<(), CliError> {
    let stop = stop_flag()?;
    // A table has no use for the bytes.
    let snap = if format == RecordingFormat::Csv { Some(0) } else { args.snap };
    let recording = Recording::begin(socket, snap).map_err(unanswered)?;
    let place = args.file.display();
    let file = File::create(&args.file).map_err(|error| CliError::wrong(format!("cannot write {place}: {error}")))?;
    let limits = RecordingLimits {
        packets: args.packets.unwrap_or(u64::MAX),
        bytes: args.size,
        duration: args.duration.map_or(Duration::MAX, |time| Duration::from_nanos(time.0)),
    };
    let [from, to] = recording.interfaces().map(str::to_owned);
    let begun = || {
        note(format!("{from} to {to}: recording into {place} until Ctrl-C, or {}", human::size(args.size as f64)));
    };
    let recorded = match recording.write(file, format, limits, &stop, begun) {
        Ok(recorded) => recorded,
        Err(RecordingError::Control(error)) => return Err(unanswered(error)),
        Err(RecordingError::File(error)) => {
            return Err(CliError::Failed(anyhow!(
                "cannot write {place}: {error}; recording stopped, and the file ends within a packet"
            )));
        }
        Err(error @ RecordingError::Cut { .. }) => return Err(CliError::failed(error)),
    };
    tell(&recorded);
    let Recorded { packets, bytes, dropped, late, missed, unfinished, ended } = recorded;
    if out.json {
        return out.document(&Document::new(TraceDoc {
            file: &args.file,
            packets,
            bytes,
            dropped_packets: dropped,
            late_packets: late,
            missed_packets: missed,
            unfinished_packets: unfinished,
            ended,
        }));
    }
    let count = human::count(packets as usize, "packet", "packets");
    out.paragraph(&format!("{place}: {count}, {dropped} of them dropped, {}", human::size(bytes as f64)), 2)
}

/// Prints missing and disordered packets, and an unexpected end.
fn tell(recorded: &Recorded) {
    let Recorded { late, missed, unfinished, .. } = *recorded;
    let packets = |count: u64| human::count(count as usize, "packet", "packets");
    match recorded.ended {
        Ended::Gateway => note("recording ended: the gateway has ended"),
        Ended::Bytes => note("recording ended: the file has reached --size"),
        Ended::Asked | Ended::Packets | Ended::Duration => {}
    }
    if missed > 0 {
        note(format!(
            "{} missing: the writer was too slow; record fewer bytes (--snap 64B) or a .csv",
            packets(missed)
        ));
    }
    if unfinished > 0 {
        note(format!("{} missing: still queued 1 s after the end", packets(unfinished)));
    }
    if late > 0 {
        note(format!(
            "{} out of order (sent after later arrivals): replay with accept = [\"unsorted\"]",
            packets(late)
        ));
    }
}
