//! `fairlink-lab traffic`: the traffic of a scenario's sources, without a link: rate, variation and burstiness.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use fairlink_config::{ReadOptions, Scenario};
use fairlink_core::{Leniency, Nanos};
use fairlink_report::{Content, Document};
use fairlink_sim::statistics::Estimate;
use fairlink_traffic::measure::{Arrivals, Seen};
use fairlink_traffic::{BurstinessCurve, Model, Source, SourceSpec};
use schemars::JsonSchema;
use serde::Serialize;

use fairlink_terminal::failure::CliError;
use fairlink_terminal::files::ScenarioArgs;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::{Out, note};
use fairlink_terminal::style::warn;
use fairlink_terminal::{args, human};

/// Maximum number of windows of all sources and runs together. Each takes some ten nanoseconds, even without packets.
const MAX_WINDOWS: u64 = 1_000_000_000;

/// Most packets of all sources and runs together: some minutes.
const MAX_PACKETS: u64 = 10_000_000_000;
/// Most packets of a source at one instant. A shaper with a window of hours may let through more than anyone waits for.
const MAX_AT_ONCE: u64 = 10_000_000;

/// Sources and measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Runs, with seeds from the scenario's own upwards. Numbers are means, with 95 % confidence intervals.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Rates at which burstiness is measured: a rate, or a part of the source's mean rate such as 135% [default: the
    /// guarantee of its class, else its share, all busy].
    #[arg(long, value_name = "RATES", value_delimiter = ',', value_parser = rho)]
    rho: Vec<Rho>,
    /// Window for rates, dispersion and correlation.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = some_time)]
    window: Nanos,
    /// Group length for burstiness, which is also measured packet by packet [default for MPEG: a group of pictures].
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    group: Option<Nanos>,
}

/// A rate at which burstiness is measured.
#[derive(Clone, Copy, Debug)]
enum Rho {
    Rate(u64),
    /// Of the source's mean rate, in millionths.
    OfMean(u64),
}

fn some_time(text: &str) -> Result<Nanos, String> {
    match args::time(text)? {
        Nanos::ZERO => Err("the time 0 is too short; write at least 1ns".to_owned()),
        time => Ok(time),
    }
}

fn rho(text: &str) -> Result<Rho, String> {
    let Some(percent) = text.strip_suffix('%') else { return args::rate(text).map(|rate| Rho::Rate(rate.bps())) };
    match percent.trim().parse::<f64>() {
        Ok(percent) if (0.01..=1e6).contains(&percent) => Ok(Rho::OfMean((percent * 1e4).round() as u64)),
        _ => Err(format!(
            "{text} is not a part of a mean rate from 0.01% to 1000000%; write 135%, or a rate such as 1mbit"
        )),
    }
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct TrafficDoc<'a> {
    runs: u32,
    seed: u64,
    duration_s: f64,
    window_s: f64,
    sources: Vec<Entry<'a>>,
}

impl Content for TrafficDoc<'_> {
    const KIND: &'static str = "traffic";
}

/// Traffic of one source. Unknown and unlimited values are absent.
#[derive(JsonSchema, Serialize)]
struct Entry<'a> {
    /// Its place in the file, from 0.
    source: usize,
    class: &'a str,
    model: &'static str,
    shaped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<Estimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_bps: Option<Estimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deviation_bps: Option<Estimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispersion: Option<Estimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    autocorrelation: Option<Estimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hurst: Option<Estimate>,
    /// Value from the variances if it is not a Hurst parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    hurst_found: Option<f64>,
    /// Of its own shaper or policer.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_packets: Option<Estimate>,
    sigma: Vec<Sigma>,
}

#[derive(JsonSchema, Serialize)]
struct Sigma {
    rho_bps: u64,
    bytes: Estimate,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of_groups_bytes: Option<Estimate>,
}

/// Runs the sources and prints.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    // Unsupported settings do not change the traffic.
    let options = ReadOptions { leniency: Leniency::Ignore, scheduler: None };
    let mut file = args.scenario.read(&options)?;
    warn(std::mem::take(&mut file.warnings));
    enough_window(args, &file)?;
    if !file.peers.is_empty() {
        note("only the sources of the scenario's own link are measured, not those of its peers");
    }
    let mut watch = Watch { stop: stop_flag()?, packets: 0, at: Nanos::ZERO, at_once: 0 };
    let sources: Vec<Entry<'_>> =
        (0..file.sources.len()).map(|index| entry(&file, index, args, &mut watch)).collect::<Result<_, _>>()?;
    for Entry { source, class, hurst_found, .. } in &sources {
        if let Some(found) = hurst_found {
            note(format!(
                "source {source} of {class}: the variances give a Hurst parameter of {found:.3}, which is outside 0 to 1. The traffic is not stationary (phases of `active`, a trend); measure a stationary part"
            ));
        }
    }
    if out.json {
        return out.document(&Document::new(TrafficDoc {
            runs: args.runs,
            seed: file.seed,
            duration_s: seconds(file.duration),
            window_s: seconds(args.window),
            sources,
        }));
    }
    text(&file, args, &sources, out)
}

/// Refuses windows so short that counting the empty ones takes longer than anyone waits.
fn enough_window(args: &Args, file: &Scenario) -> Result<(), CliError> {
    let passes = u64::from(args.runs).saturating_mul(file.sources.len() as u64).max(1);
    let windows = (file.duration.0 / args.window.0).saturating_mul(passes);
    if windows <= MAX_WINDOWS {
        return Ok(());
    }
    let enough = file.duration.0.div_ceil((MAX_WINDOWS / passes).max(1));
    Err(CliError::wrong(format!(
        "--window {}: {windows} windows of all sources and runs; the limit is {MAX_WINDOWS}; use at least --window {enough}ns",
        human::time(seconds(args.window))
    )))
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// Looks after how long it takes.
struct Watch {
    stop: Arc<AtomicBool>,
    packets: u64,
    /// When the last packet came, and how many came then.
    at: Nanos,
    at_once: u64,
}

impl Watch {
    /// A packet of source number `index` comes at `at`.
    fn record(&mut self, index: usize, at: Nanos) -> Result<(), CliError> {
        self.packets += 1;
        self.at_once = if at == self.at { self.at_once + 1 } else { 1 };
        self.at = at;
        let when = || human::time(seconds(at));
        if self.at_once > MAX_AT_ONCE {
            return Err(CliError::failed(anyhow!(
                "source {index}: more than {MAX_AT_ONCE} packets at {}; use a smaller burst or a shorter window in its shape, or longer packets",
                when()
            )));
        }
        if self.packets > MAX_PACKETS {
            return Err(CliError::failed(anyhow!(
                "source {index}: more than {MAX_PACKETS} packets of all sources and runs at {}; shorten the duration, or use fewer runs",
                when()
            )));
        }
        if self.packets.is_multiple_of(1 << 12) && self.stop.load(Ordering::Relaxed) {
            return Err(CliError::failed(anyhow!("interrupted in source {index} at {} of its time", when())));
        }
        Ok(())
    }
}

/// Measures one source in all runs. Each is as it would be among the others.
fn entry<'a>(file: &'a Scenario, index: usize, args: &Args, watch: &mut Watch) -> Result<Entry<'a>, CliError> {
    let spec = &file.sources[index];
    let group = args.group.or_else(|| spec.model.group());
    // The link determines the traffic of a greedy or closed-loop source.
    let by_link = spec.model == Model::Greedy || spec.model.is_closed();
    let rates = if by_link { Vec::new() } else { rates(file, spec, &args.rho) };
    let (mut seen, mut lost, mut sigmas) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..if by_link { 0 } else { args.runs } {
        let seed = file.seed.wrapping_add(run.into());
        let mut source = Source::new(spec, seed, index as u32, file.duration).map_err(CliError::failed)?;
        let mut arrivals = Arrivals::new(args.window);
        let mut curve = match group {
            Some(every) => BurstinessCurve::in_groups(&rates, every),
            None => BurstinessCurve::at(&rates),
        };
        watch.at_once = 0;
        for packet in source.by_ref() {
            watch.record(index, packet.at)?;
            arrivals.arrive(packet.at, packet.len);
            curve.arrive(packet.at, packet.len);
        }
        seen.push(arrivals.finish(file.duration));
        lost.push(source.lost().packets as f64);
        sigmas.push(curve.points().collect::<Vec<_>>());
    }
    let of = |value: &dyn Fn(&Seen) -> Option<f64>| {
        Estimate::from_values(&seen.iter().filter_map(value).collect::<Vec<f64>>())
    };
    let sigma = |(at, &rho_bps): (usize, &u64)| {
        let groups: Vec<f64> = sigmas.iter().filter_map(|run| run[at].2).map(|bytes| bytes as f64).collect();
        let bytes: Vec<f64> = sigmas.iter().map(|run| run[at].1 as f64).collect();
        let of_groups_bytes = Estimate::from_values(&groups);
        Some(Sigma { rho_bps, bytes: Estimate::from_values(&bytes)?, group_s: group.map(seconds), of_groups_bytes })
    };
    let shaped = matches!(spec.model, Model::Shaped(_));
    let hurst = of(&|seen| seen.hurst);
    let is_one = |hurst: &Estimate| hurst.mean > 0.0 && hurst.mean < 1.0;
    Ok(Entry {
        source: index,
        class: &file.names[spec.class.index()],
        model: spec.model.name(),
        shaped,
        expected_bps: spec.mean_rate(|len| len),
        packets: of(&|seen| Some(seen.packets as f64)),
        rate_bps: of(&|seen| Some(seen.rate_bps)),
        deviation_bps: of(&|seen| seen.deviation_bps),
        dispersion: of(&|seen| seen.dispersion),
        autocorrelation: of(&|seen| seen.autocorrelation),
        hurst: hurst.filter(is_one),
        hurst_found: hurst.filter(|hurst| !is_one(hurst)).map(|hurst| hurst.mean),
        lost_packets: Estimate::from_values(&lost).filter(|_| shaped),
        sigma: rates.iter().enumerate().filter_map(sigma).collect(),
    })
}

/// The rates at which the burstiness of a source is asked for, in bit/s.
fn rates(file: &Scenario, spec: &SourceSpec, asked: &[Rho]) -> Vec<u64> {
    let mean = spec.mean_rate(|len| len).unwrap_or(0);
    let rate = |rho: &Rho| match *rho {
        Rho::Rate(bps) => bps,
        Rho::OfMean(millionths) => {
            u64::try_from(u128::from(mean) * u128::from(millionths) / 1_000_000).unwrap_or(u64::MAX)
        }
    };
    if asked.is_empty() {
        let tree = &file.link.tree;
        let share = |class: fairlink_core::ClassId| match tree.config(class).share {
            Some(fairlink_core::Share::Guarantee(guarantee)) => guarantee.bps(),
            _ => tree.rate_all_busy(class),
        };
        // A class that only a change brings has no share before it.
        return vec![if spec.class.index() < tree.len() { share(spec.class) } else { mean }];
    }
    asked.iter().map(rate).collect()
}

fn text(file: &Scenario, args: &Args, sources: &[Entry<'_>], out: &mut Out) -> Result<(), CliError> {
    let runs = human::count(args.runs as usize, "run", "runs");
    let time = |time: Nanos| human::time(seconds(time));
    out.paragraph(
        &format!("{runs} of {}, seeds from {}; windows of {}", time(file.duration), file.seed, time(args.window)),
        2,
    )?;
    out.line("")?;
    let name = |entry: &Entry<'_>| vec![entry.source.to_string(), entry.class.to_owned()];
    let number = |value: Option<Estimate>, show: &dyn Fn(f64) -> String| match value {
        None => "-".to_owned(),
        Some(Estimate { mean, ci95: Some(ci95), .. }) => format!("{} ± {}", show(mean), show(ci95)),
        Some(Estimate { mean, .. }) => show(mean),
    };
    let plain = |value: f64| format!("{value:.3}");
    let row = |entry: &Entry<'_>| {
        let mut row = name(entry);
        row.extend([
            format!("{}{}", entry.model, if entry.shaped { ", shaped" } else { "" }),
            number(entry.packets, &|packets| format!("{packets:.0}")),
            number(entry.rate_bps, &human::rate),
            number(entry.deviation_bps, &human::rate),
            number(entry.dispersion, &plain),
            number(entry.autocorrelation, &plain),
            number(entry.hurst, &plain),
            number(entry.lost_packets, &|packets| format!("{packets:.0}")),
        ]);
        row
    };
    let head = ["", "class", "model", "packets", "rate", "deviation", "dispersion", "lag 1", "Hurst", "lost"];
    out.table(&head, sources.iter().map(row).collect(), 3..head.len())?;
    out.line("")?;
    let mut rows = Vec::new();
    for entry in sources {
        for sigma in &entry.sigma {
            let mut row = name(entry);
            row.push(human::rate(sigma.rho_bps as f64));
            row.push(number(Some(sigma.bytes), &human::size));
            row.push(number(sigma.of_groups_bytes, &human::size));
            row.push(sigma.group_s.map_or_else(|| "-".to_owned(), human::time));
            rows.push(row);
        }
    }
    let head = ["", "class", "drain rate", "sigma", "sigma by groups", "group length"];
    out.table(&head, rows, 2..head.len())?;
    out.line("")?;
    for line in [
        "deviation: standard deviation of the rate in a window. dispersion: variance over mean of the packets in a window, 1 for Poisson arrivals.",
        "lag 1: correlation of a window's bytes with the next one's. Hurst: 0.5 without long-range dependence.",
        "lost: dropped by the source's own shaper or policer. sigma: maximum excess over the rate in any interval.",
    ] {
        out.paragraph(line, 2)?;
    }
    if sources.iter().any(|entry| entry.packets.is_none()) {
        let left_out = "Traffic of greedy, tcp and request_response sources depends on the link; use `fairlink sim`.";
        out.paragraph(left_out, 2)?;
    }
    Ok(())
}
