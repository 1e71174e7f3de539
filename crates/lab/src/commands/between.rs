//! `fairlink-lab between`: delays of a device from a recording before it and one behind it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use fairlink_config::LinkFile;
use fairlink_config::matching::{FrameKey, Match, frame_key, packet_key};
use fairlink_core::{ClassId, Nanos};
use fairlink_report::{Content, Document};
use fairlink_traffic::between::{Between, BetweenConfig, BetweenError, DelaySpread, Passage, Seen, Side, between};
use fairlink_traffic::clocks::{write_stamp, write_stamps_head};
use schemars::JsonSchema;
use serde::Serialize;

use fairlink_terminal::args::time;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::files::read_tree;
use fairlink_terminal::human;
use fairlink_terminal::out::{Out, make_directory, note, note_paragraph};

/// Recordings to compare, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording made before the device: pcap or pcapng, in microseconds or nanoseconds.
    before: PathBuf,
    /// The recording made after the device; both clocks must agree.
    after: PathBuf,
    /// The link file that the classes are in; a packet belongs to the class that its form before the device matches.
    /// Without it, all packets are one class.
    #[arg(long, value_name = "LINK")]
    link: Option<PathBuf>,
    /// Offset of the clock of AFTER against that of BEFORE, negative if it is behind; subtracted from every delay.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = offset, allow_hyphen_values = true)]
    offset: i64,
    /// Longest delay: a packet that is not found within it is lost.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = within)]
    within: Nanos,
    /// Number of bytes of each packet to compare, from the IP header on, for recordings that kept only the start of
    /// packets [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..))]
    bytes: Option<u32>,
    /// Write stamps.csv into this directory: the times of each packet in both recordings, for `fairlink-lab clock`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn offset(text: &str) -> Result<i64, String> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let ns = i64::try_from(time(digits)?.0).ok().filter(|&ns| ns <= 1 << 62);
    ns.map(|ns| sign * ns).ok_or_else(|| format!("{text} is not a time from -146 to 146 years"))
}

fn within(text: &str) -> Result<Nanos, String> {
    match time(text)? {
        time if (Nanos::from_millis(1)..=Nanos::from_secs(3600)).contains(&time) => Ok(time),
        _ => Err(format!("{text} is not a time from 1ms to 3600s")),
    }
}

/// The document that `--json` prints.
#[derive(JsonSchema, Serialize)]
pub(crate) struct BetweenDoc {
    offset_s: f64,
    within_s: f64,
    /// Packets of the second recording.
    after_packets: u64,
    only_after_packets: u64,
    only_after_before_the_start_packets: u64,
    before_cut_off: bool,
    after_cut_off: bool,
    total: Row,
    /// By class of the link file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes: Vec<Row>,
}

impl Content for BetweenDoc {
    const KIND: &'static str = "between";
}

/// The counts and delays of the packets of one class.
#[derive(JsonSchema, Serialize)]
struct Row {
    name: String,
    packets: u64,
    found_packets: u64,
    lost_packets: u64,
    lost_after_the_end_packets: u64,
    doubled_packets: u64,
    out_of_order_packets: u64,
    negative_delays: u64,
    equal_packets: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_s: Option<Delay>,
}

/// Delays in seconds.
#[derive(Clone, Copy, JsonSchema, Serialize)]
struct Delay {
    min: f64,
    mean: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<f64>,
    max: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<f64>,
}

impl From<DelaySpread> for Delay {
    fn from(of: DelaySpread) -> Self {
        let (p50, p99) = of.p50_p99.unzip();
        Self { min: of.min, mean: of.mean, p50, p99, max: of.max, jitter: of.jitter }
    }
}

impl Row {
    fn new(name: &str, of: &Passage) -> Self {
        Self {
            name: name.to_owned(),
            packets: of.packets,
            found_packets: of.found,
            lost_packets: of.lost,
            lost_after_the_end_packets: of.lost_after_the_end,
            doubled_packets: of.doubled,
            out_of_order_packets: of.out_of_order,
            negative_delays: of.negative,
            equal_packets: of.equal,
            delay_s: of.delay.map(Delay::from),
        }
    }
}

/// Classes of packets.
struct Classes {
    matches: Vec<(ClassId, Match)>,
    default: ClassId,
    link: LinkFile,
}

impl Classes {
    fn read(path: &Path) -> Result<Self, CliError> {
        let link = read_tree(path)?;
        let default = link.require_default()?;
        Ok(Self { matches: link.matches.clone(), default, link })
    }

    fn of(&self, seen: Seen<'_>) -> u32 {
        let key: FrameKey = if seen.bare_ip { packet_key(seen.bytes) } else { frame_key(seen.bytes) };
        self.matches.iter().find(|(_, made)| made.matches(&key)).map_or(self.default, |&(class, _)| class).0
    }
}

/// Compares both recordings and prints the results.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let open = |path: &Path| File::open(path).map_err(|error| CliError::wrong(format!("{}: {error}", path.display())));
    let files = (open(&args.before)?, open(&args.after)?);
    let classes = args.link.as_deref().map(Classes::read).transpose()?;
    let stamps = args.out.as_deref().map(Stamps::create).transpose()?;
    let config = BetweenConfig { offset_ns: args.offset, within: args.within, bytes: args.bytes };
    let report = compare(files, &config, classes.as_ref(), stamps, args)?;
    let named = |&(class, ref passage): &(u32, Passage)| {
        classes.as_ref().map(|of| Row::new(of.link.names.name(ClassId(class)), passage))
    };
    let document = BetweenDoc {
        offset_s: args.offset as f64 / 1e9,
        within_s: args.within.0 as f64 / 1e9,
        after_packets: report.after_packets,
        only_after_packets: report.only_after,
        only_after_before_the_start_packets: report.only_after_from_before_the_start,
        before_cut_off: report.cut_off[0],
        after_cut_off: report.cut_off[1],
        total: Row::new("all", &report.total),
        classes: report.classes.iter().filter_map(named).collect(),
    };
    warn(&document, args);
    if out.json { out.document(&Document::new(document)) } else { text(&document, out) }
}

/// Stamps that are being written.
struct Stamps {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Stamps {
    fn create(dir: &Path) -> Result<Self, CliError> {
        // Before the work, not after it.
        make_directory(dir)?;
        let path = dir.join("stamps.csv");
        let failed = |error: std::io::Error| unwritten(&path, &error);
        let mut file = BufWriter::new(File::create(&path).map_err(failed)?);
        write_stamps_head(&mut file).map_err(failed)?;
        Ok(Self { path, file })
    }
}

/// A file that could not be written.
fn unwritten(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(anyhow!("{}: {error}", path.display()))
}

/// An end of the work.
enum Ended {
    Recording(BetweenError),
    Stamps(std::io::Error),
}

impl From<BetweenError> for Ended {
    fn from(error: BetweenError) -> Self {
        Self::Recording(error)
    }
}

fn compare(
    files: (File, File),
    config: &BetweenConfig,
    classes: Option<&Classes>,
    mut stamps: Option<Stamps>,
    args: &Args,
) -> Result<Between, CliError> {
    let pair = |before: u64, after: u64| match &mut stamps {
        // Times are below 2^63 ns.
        Some(stamps) => write_stamp(&mut stamps.file, before as i64, after as i64).map_err(Ended::Stamps),
        None => Ok(()),
    };
    let class_of = |seen: Seen<'_>| classes.map_or(0, |classes| classes.of(seen));
    let report = between(files, config, class_of, pair);
    let place = stamps.as_ref().map(|stamps| stamps.path.clone());
    let report = report.map_err(|ended| match ended {
        Ended::Recording(error) => {
            let path = if error.side == Side::Before { &args.before } else { &args.after };
            CliError::wrong(format!("{}: {error}", path.display()))
        }
        Ended::Stamps(error) => unwritten(place.as_deref().unwrap_or(Path::new("stamps.csv")), &error),
    })?;
    if let Some(stamps) = &mut stamps {
        stamps.file.flush().map_err(|error| unwritten(&stamps.path, &error))?;
        note(format!("written: {}", stamps.path.display()));
    }
    Ok(report)
}

/// Prints reasons to doubt the numbers to standard error.
fn warn(document: &BetweenDoc, args: &Args) {
    let count = |number: u64| human::count(number as usize, "packet", "packets");
    for (cut_off, path) in [(document.before_cut_off, &args.before), (document.after_cut_off, &args.after)] {
        if cut_off {
            let path = path.display();
            note_paragraph(
                &format!("WARNING: {path}: truncated in the middle of a packet; the packets before it are used"),
                2,
            );
        }
    }
    let total = &document.total;
    if total.found_packets == 0 && total.packets > 0 {
        note_paragraph(
            "WARNING: no packet of BEFORE is in AFTER. Clocks must agree within --within (see --offset), and checksums must be complete when a packet is recorded (no checksum offload)",
            2,
        );
    }
    if total.negative_delays > 0 {
        note_paragraph(
            &format!(
                "WARNING: {} of {} have a negative delay, up to {}: the clocks disagree. Pass the offset with --offset, or write the stamps with --out and estimate offset, skew and jumps with `fairlink-lab clock`",
                total.negative_delays,
                count(total.found_packets),
                total.delay_s.map_or_else(|| "?".to_owned(), |delay| human::time(-delay.min))
            ),
            2,
        );
    }
    if total.equal_packets > 0 {
        let (equal, within) = (count(total.equal_packets), human::time(document.within_s));
        note_paragraph(
            &format!("NOTE: {equal} repeat an earlier one within {within}; such packets are paired in order"),
            2,
        );
    }
}

fn text(document: &BetweenDoc, out: &mut Out) -> Result<(), CliError> {
    let rows: Vec<&Row> = document.classes.iter().chain([&document.total]).collect();
    let counts = |row: &&Row| {
        let counts = [row.packets, row.lost_packets, row.doubled_packets, row.out_of_order_packets];
        std::iter::once(row.name.clone()).chain(counts.map(|count| count.to_string())).collect()
    };
    let head = ["class", "packets", "lost", "doubled", "out of order"];
    out.table(&head, rows.iter().map(counts).collect(), 1..head.len())?;
    out.line("")?;
    let signed =
        |seconds: f64| if seconds < 0.0 { format!("-{}", human::time(-seconds)) } else { human::time(seconds) };
    let shown = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), signed);
    let delays = |row: &&Row| {
        let of = row.delay_s;
        let times = [
            of.map(|of| of.min),
            of.map(|of| of.mean),
            of.and_then(|of| of.p50),
            of.and_then(|of| of.p99),
            of.map(|of| of.max),
            of.and_then(|of| of.jitter),
        ];
        std::iter::once(row.name.clone()).chain(times.map(shown)).collect()
    };
    let head = ["class", "delay min", "mean", "p50", "p99", "max", "jitter"];
    out.table(&head, rows.iter().map(delays).collect(), 1..head.len())?;
    let total = &document.total;
    if total.lost_after_the_end_packets > 0 {
        let lost = total.lost_after_the_end_packets;
        out.paragraph(&format!("{lost} of the lost entered after the second recording ended"), 2)?;
    }
    if document.only_after_packets > 0 {
        let (only, early) = (document.only_after_packets, document.only_after_before_the_start_packets);
        let packets = human::count(only as usize, "packet", "packets");
        let early =
            if early > 0 { format!(", {early} of them before the first recording began") } else { String::new() };
        out.paragraph(&format!("{packets} only in AFTER{early}"), 2)?;
    }
    Ok(())
}
