//! `fairlink-lab clock`: estimates two clocks from one-way delays.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;

use fairlink_core::Nanos;
use fairlink_lab::files::write_clocks;
use fairlink_report::{Content, Document};
use fairlink_testbed::{ClockReport, KnownValue, SampledDelays};
use fairlink_traffic::clocks::synthetic::{Queueing, Synthetic};
use fairlink_traffic::clocks::{MAX_SKEW, OneWay, Reference, Sample, read_stamps, write_stamps};
use schemars::JsonSchema;
use serde::Serialize;

use fairlink_terminal::args::{one_of, time};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::{Out, make_directory, note};

/// Stamps, and their evaluation.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A CSV file with a line for each packet: send_s,receive_s, each by its own machine's clock.
    stamps: PathBuf,
    /// Reference clock. The lines are in its order, and it never runs backwards.
    #[arg(long, value_name = "CLOCK", default_value = "send", value_parser = one_of([("send", Reference::Send), ("receive", Reference::Receive)]))]
    reference: Reference,
    /// The shortest delay, if known. Stamps of one direction cannot separate it from the offset.
    #[arg(long, value_name = "TIME", value_parser = time)]
    shortest_delay: Option<Nanos>,
    /// Write clock.svg and clock.csv, and with the feature `pdf` clock.pdf, into this directory, which is made if it is
    /// missing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// First write stamps of two simulated clocks to the file, which must not exist: 12.5 s apart, with the skew,
    /// drift, jumps and delays below, to test the estimates.
    #[arg(long)]
    make: bool,
    /// Of simulated clocks: skew at the start, in parts per million.
    #[arg(long, value_name = "PPM", default_value = "40", value_parser = ppm, allow_hyphen_values = true, requires = "make")]
    skew: f64,
    /// Of simulated clocks: drift, in parts per million and second.
    #[arg(long, value_name = "PPM", default_value = "0.02", value_parser = ppm, allow_hyphen_values = true, requires = "make")]
    drift: f64,
    /// Of simulated clocks: a jump of the receiver's clock, such as 200s:5ms or 350s:-3ms.
    #[arg(long, value_name = "AT:SIZE", value_parser = jump, allow_hyphen_values = true, requires = "make")]
    jump: Vec<(f64, f64)>,
    /// Of simulated clocks: delays beyond the shortest one of 200 us, with a mean of 1 ms.
    #[arg(long, value_name = "KIND", default_value = "exponential", value_parser = one_of(QUEUEING), requires = "make")]
    queueing: Queueing,
    /// Of simulated clocks: instead, delays of a link with one queue that the packets load by so many percent.
    #[arg(long, value_name = "PERCENT", value_parser = percent, requires = "make", conflicts_with = "queueing")]
    load: Option<f64>,
    /// Of simulated clocks: duration, at 100 packets per second.
    #[arg(long, value_name = "TIME", default_value = "600s", value_parser = length, requires = "make")]
    duration: f64,
    /// Of simulated clocks: seed of their delays.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "make")]
    seed: u64,
}

/// Packets of simulated clocks.
const PACKETS_PER_SECOND: f64 = 100.0;
/// The delays of simulated clocks, by name.
const QUEUEING: [(&str, Queueing); 3] = [
    ("none", Queueing::None),
    ("exponential", Queueing::Exponential(1e-3)),
    ("heavy-tailed", Queueing::HeavyTailed(1e-3)),
];

fn ppm(text: &str) -> Result<f64, String> {
    const MOST: f64 = MAX_SKEW * 1e6;
    match text.parse::<f64>() {
        Ok(ppm) if ppm.abs() * 1e-6 <= MAX_SKEW => Ok(ppm * 1e-6),
        _ => Err(format!("{text} is not a number of parts per million from -{MOST} to {MOST}, as of clocks that work")),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(percent / 100.0),
        _ => Err(format!("{text} is not a load; write percent above 0 and below 100, such as 98.4")),
    }
}

fn jump(text: &str) -> Result<(f64, f64), String> {
    let (at, size) = text.split_once(':').ok_or("write TIME:JUMP, such as 200s:5ms")?;
    let (sign, size) = size.strip_prefix('-').map_or((1.0, size), |size| (-1.0, size));
    let seconds = |text| time(text).map(|time| time.0 as f64 / 1e9);
    let (when, by) = (seconds(at)?, seconds(size)?);
    if by == 0.0 {
        return Err("a jump of 0 has no effect; write its size, such as 5ms, or remove it".to_owned());
    }
    Ok((when, sign * by))
}

fn length(text: &str) -> Result<f64, String> {
    match time(text)?.0 as f64 / 1e9 {
        seconds if (1.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("{text} is not a time from 1s to 86400s")),
    }
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ClockDoc {
    packets: u64,
    /// Offset of the receiver's clock at the first packet, if the shortest delay is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset_s: Option<KnownValue>,
    #[serde(flatten)]
    clock: ClockReport,
    /// Receiving stamps less sending stamps.
    raw_delay_s: Option<SampledDelays>,
    /// The same corrected: beyond the shortest delay, or including it if it is known.
    corrected_delay_s: Option<SampledDelays>,
}

impl Content for ClockDoc {
    const KIND: &'static str = "clock";
}

/// Reads stamps and prints the results.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let path = args.stamps.display();
    if args.make {
        make(args)?;
    }
    let file = File::open(&args.stamps).map_err(|error| CliError::wrong(format!("{path}: {error}")))?;
    let (mut one_way, mut sample) = (OneWay::default(), Sample::new(0));
    let mut origin = None;
    let packets = read_stamps(BufReader::new(file), args.reference, |send, receive| {
        let at = if args.reference == Reference::Send { send } else { receive };
        // Values beyond the limits are clamped.
        let at = i128::from(at) - i128::from(*origin.get_or_insert(at));
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        let difference = receive.saturating_sub(send);
        one_way.record(at, difference);
        sample.record(at, difference);
    })
    .map_err(|error| CliError::wrong(format!("{path}: {error}")))?;
    let Some(clocks) = one_way.clocks() else {
        return Err(CliError::wrong(format!(
            "{path}: {} at too few times to estimate a skew; packets in at least 16 different milliseconds are needed, and better thousands over minutes",
            human::count(packets as usize, "packet", "packets")
        )));
    };
    let shortest = args.shortest_delay.map(|time| time.0 as f64 / 1e9);
    let report = ClockReport::from(&clocks);
    let corrected =
        sample.corrected(&clocks, 0).map(|delays| SampledDelays::from(delays).plus(shortest.unwrap_or(0.0)));
    let document = ClockDoc {
        packets,
        offset_s: shortest.and_then(|shortest| {
            // Of the first packet, where the clocks are known there.
            let first = report.stretches.first().filter(|stretch| stretch.start_s == 0.0)?.offset_s;
            Some(KnownValue { value: first.value - shortest, ..first })
        }),
        clock: report,
        raw_delay_s: sample.raw().map(SampledDelays::from),
        corrected_delay_s: corrected,
    };
    if let Some(dir) = &args.out {
        make_directory(dir)?;
        let name = args.stamps.file_name().unwrap_or(args.stamps.as_os_str()).to_string_lossy();
        let written =
            write_clocks(&clocks, &format!("Two clocks, by the stamps of {name}"), dir).map_err(CliError::failed)?;
        written.iter().for_each(|path| note(format!("written: {}", path.display())));
    }
    if out.json { out.document(&Document::new(document)) } else { text(&document, shortest, out) }
}

fn make(args: &Args) -> Result<(), CliError> {
    let of = Synthetic {
        offset_s: 12.5,
        skew: args.skew,
        drift: args.drift,
        jumps: args.jump.clone(),
        shortest_s: 200e-6,
        queueing: args.load.map_or(args.queueing, |load| Queueing::link(PACKETS_PER_SECOND, load)),
        packets_per_second: PACKETS_PER_SECOND,
    };
    if args.reference == Reference::Receive && of.jumps.iter().any(|&(_, size)| size < 0.0) {
        return Err(CliError::wrong(
            "--jump back: the receiver's clock runs backwards and cannot be the reference; use --reference send",
        ));
    }
    if let Some(&(at, _)) = of.jumps.iter().find(|&&(at, _)| at <= 0.0 || at >= args.duration) {
        return Err(CliError::wrong(format!(
            "--jump at {}: the stamps are from 0 to {} s; use a time within, or a longer --duration",
            human::time(at),
            args.duration
        )));
    }
    let wrong = |error| CliError::wrong(format!("{}: {error}", args.stamps.display()));
    let file = File::create_new(&args.stamps).map_err(wrong)?;
    let stamps = of.stamps(args.duration, args.seed).map(|(send, receive)| (send as i64, receive));
    if args.reference == Reference::Receive {
        let mut sorted: Vec<(i64, i64)> = stamps.collect();
        sorted.sort_by_key(|&(_, receive)| receive);
        return write_stamps(BufWriter::new(file), sorted.into_iter()).map_err(wrong);
    }
    write_stamps(BufWriter::new(file), stamps).map_err(wrong)
}

fn text(document: &ClockDoc, shortest: Option<f64>, out: &mut Out) -> Result<(), CliError> {
    out.paragraph(&format!("{} packets; ±: half-width of the 95 % confidence interval", document.packets), 2)?;
    out.line("")?;
    out.tables(&document.clock.tables())?;
    document.clock.doubts().iter().try_for_each(|doubt| out.paragraph(doubt, 2))?;
    if let Some(offset) = document.offset_s {
        let within = offset.ci95.map_or_else(|| "?".to_owned(), human::time);
        out.paragraph(
            &format!("offset of the receiver's clock at the first packet: {:.6} s ± {within}", offset.value),
            2,
        )?;
    }
    out.line("")?;
    let row = |name: &str, delays: Option<SampledDelays>| {
        let mut row = vec![name.to_owned()];
        let times = delays.map(|of| [of.min, of.mean, of.p50, of.p99, of.max].map(human::time));
        row.extend(times.unwrap_or_else(|| ["-"; 5].map(str::to_owned)));
        row
    };
    let name = if shortest.is_some() { "corrected" } else { "corrected, above the minimum" };
    let rows = vec![row("uncorrected", document.raw_delay_s), row(name, document.corrected_delay_s)];
    out.table(&["delay", "min", "mean", "p50", "p99", "max"], rows, 1..6)?;
    if let Some(within) = document.clock.correction_ci95_s {
        out.paragraph(&format!("uncertainty of corrected delays from the clocks: {}", human::time(within)), 2)?;
    }
    if let Some(delays) = document.corrected_delay_s.filter(|delays| delays.sampled_packets < document.packets) {
        out.paragraph(&format!("delays: random sample of {} packets", delays.sampled_packets), 2)?;
    }
    Ok(())
}
