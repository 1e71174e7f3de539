//! `fairlink demo --ping`: round trips of a ping beside a TCP upload, by real packets through the gateway of a home.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use fairlink_config::{LinkFile, ReadOptions};
use fairlink_core::{Leniency, Rate, SchedulerInfo, registry};
use fairlink_net::GatewayConfig;
use fairlink_report::{Content, Document};
use fairlink_testbed::{
    KERNEL_HTB, PingPlan, PingRun, PingStage, PrivateNamespace, RoundTrips, enter_private_namespace,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::init::home_uplink;
use fairlink_terminal::args::scheduler;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::{Out, note};

/// Upstream rate of the line, as in the home tutorial.
const LINE_BPS: u64 = 20_000_000;
/// The scheduler of the home's link, where none is named.
const SCHEDULER: &str = "hls";
/// The link without classes: one queue for all traffic, which drops when full.
const ONE_QUEUE: &str = "one queue";
/// The link with the classes of a home.
const HOME: &str = "home";

/// A run and its link.
#[derive(Debug, JsonSchema, Serialize)]
struct Measured {
    /// [`ONE_QUEUE`] or [`HOME`].
    link: &'static str,
    #[serde(flatten)]
    run: PingRun,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct PingDoc<'a> {
    /// Rate of the shared link in bit/s.
    link_bps: u64,
    /// Time between two echoes in seconds.
    interval_s: f64,
    runs: &'a [Measured],
    /// True if it was interrupted: runs are missing then.
    stopped: bool,
}

impl Content for PingDoc<'_> {
    const KIND: &'static str = "demo_ping";
}

/// Pings with one queue for all, and then on the link of a home under each of these schedulers, or under [`SCHEDULER`].
pub(super) fn run(names: &[String], out: &mut Out) -> Result<(), CliError> {
    let schedulers = schedulers(names)?;
    let rate = Rate::from_bps(LINE_BPS).map_err(CliError::failed)?;
    let home = link("home-up.toml", home_uplink(rate, PingStage::PORTS))?;
    let link_bps = home.tree.link().rate.bps();
    let one_queue = link("before.toml", one_queue(link_bps))?;
    let mut configs = vec![(ONE_QUEUE, config(&one_queue)?)];
    for scheduler in schedulers {
        // Some have no classes.
        let config = GatewayConfig { scheduler, leniency: Leniency::Ignore, ..config(&home)? };
        configs.push((HOME, config));
    }
    // Before any thread is started: without root a namespace can only be entered without.
    let namespace = enter_private_namespace().map_err(refused)?;
    let stop = stop_flag()?;
    let plan = PingPlan::default();
    if !out.json {
        introduce(&plan, link_bps, out)?;
    }
    let runs = play(&namespace, configs, &plan, &stop, out)?;
    let stopped = stop.load(Ordering::Relaxed);
    if out.json {
        out.document(&Document::new(PingDoc {
            link_bps,
            interval_s: plan.interval.as_secs_f64(),
            runs: &runs,
            stopped,
        }))?;
    } else if !runs.is_empty() {
        table(&runs, out)?;
        out.line("")?;
        out.paragraph(&seen(&runs), 2)?;
    }
    out.flush()?;
    if stopped { Err(CliError::Failed(anyhow!("interrupted"))) } else { Ok(()) }
}

fn link(name: &str, text: String) -> Result<LinkFile, CliError> {
    Ok(LinkFile::from_text(name, text, &ReadOptions::default())?)
}

/// The file of a link with one queue for all, as long as queues are by default.
fn one_queue(bps: u64) -> String {
    format!(
        "[link]\nrate = \"{bps}bit\"\nmtu = \"1522B\"\nscheduler = \"fifo\"\ndefault = \"all\"\n\n[[class]]\nname = \"all\"\n"
    )
}

fn config(link: &LinkFile) -> Result<GatewayConfig, CliError> {
    let [input, output] = PingStage::PORTS;
    Ok(GatewayConfig::from_link_file(link, input, output)?)
}

/// Why nothing is measured, and what there is instead.
fn refused(error: impl std::fmt::Display) -> CliError {
    CliError::wrong(format!(
        "--ping: real packets cannot be sent here: {error}; run it as root (sudo fairlink demo --ping), or simulate it as docs/tutorials/home.md \
         has it: fairlink sim ping.toml --scheduler fifo --scheduler hls"
    ))
}

fn schedulers(names: &[String]) -> Result<Vec<&'static SchedulerInfo>, CliError> {
    if names.is_empty() {
        return Ok(registry::find(SCHEDULER).into_iter().collect());
    }
    let known = |name: &String| {
        if name == KERNEL_HTB {
            let why = "--ping measures the gateway, in which the kernel's HTB does not run; name one that `fairlink schedulers` lists";
            return Err(CliError::wrong(format!("--scheduler {KERNEL_HTB}: {why}")));
        }
        scheduler(name).map_err(|error| CliError::wrong(format!("--scheduler: {error}")))
    };
    names.iter().map(known).collect()
}

fn play(
    namespace: &PrivateNamespace,
    configs: Vec<(&'static str, GatewayConfig)>,
    plan: &PingPlan,
    stop: &AtomicBool,
    out: &Out,
) -> Result<Vec<Measured>, CliError> {
    let mut stage = PingStage::new(namespace).map_err(refused)?;
    let mut runs = Vec::new();
    for (link, config) in configs {
        if !out.json {
            let scheduler = config.scheduler.name;
            note(format!("{link}, {scheduler}: pinging for {} s", plan.duration().as_secs()));
        }
        match stage.play(config, plan, stop).map_err(CliError::failed)? {
            Some(run) => runs.push(Measured { link, run }),
            None => break,
        }
    }
    Ok(runs)
}

fn introduce(plan: &PingPlan, link_bps: u64, out: &mut Out) -> Result<(), CliError> {
    let text = format!(
        "A laptop pings a server every {} ms. After {} s it uploads to it by TCP for {} s, marked as what can wait (DSCP CS1); the first {} s of that \
         is left out. The link carries {}: first with one queue of 100 ms for all, as a modem has, then with the file that `fairlink init --kind home` \
         writes for a line of {} up. Real packets, in network namespaces.",
        plan.interval.as_millis(),
        plan.idle.as_secs(),
        (plan.settle + plan.loaded).as_secs(),
        plan.settle.as_secs(),
        human::rate(link_bps as f64),
        human::rate(LINE_BPS as f64),
    );
    out.paragraph(&text, 0)?;
    out.line("")?;
    out.flush()
}

fn table(runs: &[Measured], out: &mut Out) -> Result<(), CliError> {
    let ms = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{:.2}", seconds * 1e3));
    let row = |Measured { link, run }: &Measured, upload: String, trips: &RoundTrips| {
        let mut cells = vec![format!("{link}, {}", run.scheduler), upload];
        cells.extend([trips.min_s, trips.p50_s, trips.p99_s, trips.max_s].map(ms));
        cells.extend([trips.sent.to_string(), trips.lost.to_string()]);
        cells
    };
    let rows = runs.iter().flat_map(|measured| {
        let upload = format!("{:.1} Mbit/s", measured.run.upload_bps / 1e6);
        [row(measured, "none".to_owned(), &measured.run.idle), row(measured, upload, &measured.run.loaded)]
    });
    out.paragraph("Round trips of the ping in ms:", 2)?;
    let head = ["link", "upload", "min", "median", "p99", "max", "pings", "lost"];
    out.table(&head, rows.collect(), 1..head.len())
}

/// The medians beside the upload, in a sentence.
fn seen(runs: &[Measured]) -> String {
    let said = |Measured { link, run }: &Measured| match run.loaded.p50_s {
        Some(seconds) => format!("{:.2} ms ({link}, {})", seconds * 1e3, run.scheduler),
        None => format!("not known ({link}, {}: no ping was answered)", run.scheduler),
    };
    let said: Vec<String> = runs.iter().map(said).collect();
    let by = runs.first().map_or("", |first| &first.run.congestion_control);
    format!("Seen: beside the upload by TCP ({by}) the median round trip is {}.", said.join(", "))
}
