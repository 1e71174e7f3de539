//! `fairlink gateway`: shares a real link between two interfaces.

mod life;
mod links;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use fairlink_config::ReadOptions;
use fairlink_core::Amount;
use fairlink_core::{Leniency, Nanos};
use fairlink_net::{
    GatewayConfig, GatewayStats, Links, LongFrames, Metrics, OffloadPolicy, Pacing, Privileges, Processor, RunError,
    Wanted, control,
};
use serde::Serialize;
use signal_hook::consts::SIGUSR1;

use crate::args::{choice, time};
use crate::failure::Failure;
use crate::human;
use crate::interrupt::{Hangup, Meaning, stop_flag_without_hangup};
use crate::out::{Out, note};

/// How long the data thread has for an answer to SIGUSR1.
const ANSWER: Duration = Duration::from_secs(2);
/// How often this thread looks for signals.
const NAP: Duration = Duration::from_millis(50);

/// Which link, between which interfaces, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    links: links::LinkArgs,
    #[command(flatten)]
    life: life::Life,
    /// Use this scheduler instead of the file's own.
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// Go on without what the scheduler cannot honour.
    #[arg(long)]
    lenient: bool,
    /// How the data thread waits: precise (sleep, then spin), busy (never sleep), eco (sleep 50 us at a time).
    #[arg(long, value_name = "MODE", default_value = "precise", value_parser = pacing)]
    pacing: Pacing,
    /// Lost time that is made up for, such as 1ms [default: 20ms].
    #[arg(long, value_name = "TIME", value_parser = time)]
    catch_up: Option<Nanos>,
    /// Processor of the data thread: a number, `last`, or `any`.
    #[arg(long, value_name = "CPU", default_value = "last", value_parser = processor)]
    cpu: Processor,
    /// Start even on interfaces that another gateway uses, that a bridge has, that have IP addresses, or that are both ends of
    /// one cable. Frames may then be doubled, or go round.
    #[arg(long)]
    force: bool,
    /// Turn off offloads that join packets (GRO, LRO) while the gateway runs. It splits such packets again, so that this is only
    /// needed where the kernel does not tell how (a note says so), or for LRO.
    #[arg(long, conflicts_with = "ignore_offloads")]
    fix_offloads: bool,
    /// Start with offloads on that join packets even where what they join cannot be split, and is dropped as too long.
    #[arg(long)]
    ignore_offloads: bool,
    /// Drop frames longer than the link file's mtu, where the interfaces carry such.
    #[arg(long)]
    drop_long_frames: bool,
    /// Frames in the packet pool [default: what the queues may hold, and a few more].
    #[arg(long, value_name = "N")]
    pool_frames: Option<u32>,
    /// How long to go on sending what is queued after Ctrl-C [default: 2s where it fails open, else 0s].
    #[arg(long, value_name = "TIME", value_parser = time)]
    drain: Option<Nanos>,
    /// Path of the control socket [default: fairlink-IF.sock in $XDG_RUNTIME_DIR or /run].
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Keep all rights that the process was started with. Without it, it gives up those that it does not need once its interfaces are open:
    /// capabilities, other files, other system calls.
    #[arg(long)]
    keep_privileges: bool,
    /// Who may open the control socket: a mode in octal, such as 0660 [default: 0600, or 0660 with --control-group].
    #[arg(long, value_name = "MODE")]
    control_mode: Option<String>,
    /// The control socket's group, by name or number.
    #[arg(long, value_name = "GROUP")]
    control_group: Option<String>,
    /// Serve metrics (OpenMetrics, for a scraper) at this address and port, such as 127.0.0.1:9400: GET /metrics.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    metrics: Option<SocketAddr>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port, such as 127.0.0.1:9400 or [::1]:9400".to_owned())
}

fn pacing(name: &str) -> Result<Pacing, String> {
    Pacing::named(name).ok_or_else(|| choice(Pacing::ALL.map(Pacing::name)))
}

fn processor(text: &str) -> Result<Processor, String> {
    match text {
        "last" => Ok(Processor::Last),
        "any" => Ok(Processor::Any),
        number => number.parse().map(Processor::Number).map_err(|_| choice(["a number", "last", "any"])),
    }
}

impl Args {
    /// Who may open the control socket.
    fn access(&self) -> Result<control::Access, Failure> {
        let wrong = |error: control::AccessError| {
            let flag = match error {
                control::AccessError::NoGroup { .. } => "--control-group",
                _ => "--control-mode",
            };
            Failure::wrong(format!("{flag}: {error}"))
        };
        control::Access::new(self.control_mode.as_deref(), self.control_group.as_deref()).map_err(wrong)
    }

    /// What each link is to do.
    fn configs(&self) -> Result<Vec<GatewayConfig>, Failure> {
        let leniency = if self.lenient { Leniency::Ignore } else { Leniency::Refuse };
        let options = ReadOptions { leniency, scheduler: self.scheduler.as_deref() };
        self.links.plan(&options, self.cpu, |config| {
            config.leniency = leniency;
            config.pacing = self.pacing;
            config.catch_up = self.catch_up;
            config.force = self.force;
            config.offloads = match (self.fix_offloads, self.ignore_offloads) {
                (true, _) => OffloadPolicy::Fix,
                (_, true) => OffloadPolicy::Ignore,
                _ => OffloadPolicy::Refuse,
            };
            config.long_frames = if self.drop_long_frames { LongFrames::Drop } else { LongFrames::Accept };
            config.pool_frames = self.pool_frames;
            config.drain = self.drain;
            self.life.apply(config);
            config.scheduler_asked.clone_from(&self.scheduler);
        })
    }
}

/// Runs until Ctrl-C, then prints the statistics.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    if args.life.closes() {
        return args.life.close();
    }
    let access = args.access()?;
    access.join_group().map_err(|error| Failure::wrong(format!("--control-group: {error}")))?;
    let configs = args.configs()?;
    let several = configs.len() > 1;
    let (asked, hangup) = (Arc::new(AtomicBool::new(false)), Hangup::new()?);
    let stop = stop_flag_without_hangup()?;
    let path = args.control.clone().unwrap_or_else(|| control::default_path(&configs[0].output));
    let privileges = (!args.keep_privileges).then(|| Privileges::of(&configs, &path, args.metrics));
    let mut gateways = Vec::with_capacity(configs.len());
    for config in configs {
        let name = config.link_name().to_owned();
        let way = config.way();
        let own_traffic = config.own_traffic;
        let way = if several { format!("{name}: {way}") } else { way };
        let gateway =
            args.life.open(config, &stop).map_err(|error| if several { error.within(name.clone()) } else { error })?;
        let of = |text: String| if several { format!("{name}: {text}") } else { text };
        gateway.notes().iter().for_each(|text| note(format!("note: {}", of(text.clone()))));
        note(of(gateway.memory().to_string()));
        note(of(life::fail_open(&gateway, own_traffic)));
        gateways.push((name, way, gateway));
    }
    signal_hook::flag::register(SIGUSR1, Arc::clone(&asked)).map_err(Failure::failed)?;
    let links = Links::new(gateways.iter().map(|(name, _, gateway)| (name.clone(), gateway.remote())).collect());
    let ways: Vec<String> = gateways.iter().map(|(_, way, _)| way.clone()).collect();
    let way = ways.join("; ");
    let vitals: Vec<_> = gateways.iter().map(|(_, way, gateway)| (way.clone(), gateway.vitals())).collect();
    let mut watchdog = life::watchdog(vitals.clone());
    // Threads have the rights of the one that starts them.
    if let Some(privileges) = privileges {
        let dropped = privileges.drop_others();
        dropped.notes.iter().for_each(|text| note(format!("note: {text}")));
        note(dropped.to_string());
    }
    let stop = &stop;
    let ended = std::thread::scope(|scope| {
        let threads: Vec<_> =
            gateways.into_iter().map(|(_, _, gateway)| scope.spawn(move || gateway.run(stop))).collect();
        let finished = || threads.iter().all(|thread| thread.is_finished());
        // Who finds the socket finds gateways that take frames.
        for ((_, vitals), thread) in vitals.iter().zip(&threads) {
            life::wait_for_turn(vitals, || thread.is_finished());
        }
        let mut control =
            args.life.control(&path, access, &links).inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        let metrics =
            args.life.patiently(|| args.metrics.map(|address| Metrics::start(address, links.clone())).transpose());
        let metrics = metrics.map_err(Failure::wrong).inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        if let Some(metrics) = &metrics {
            note(format!("metrics at http://{}/metrics", metrics.address()));
        }
        note(format!("{way}: running until Ctrl-C; `fairlink ctl stats` asks at {}", path.display()));
        watchdog.service().ready(&way);
        while !finished() {
            watchdog.look().into_iter().for_each(note);
            control.look(&links);
            if asked.swap(false, Ordering::Relaxed)
                && let Err(failure) = tell(&links, out)
            {
                // Nobody reads any more: the gateway has nobody to tell, and goes on.
                let _ = failure;
            }
            match hangup.take() {
                Some(Meaning::Reload) => {
                    watchdog.service().reloading();
                    reload(&links);
                    watchdog.service().ready(&way);
                }
                Some(Meaning::TerminalClosed) => stop.store(true, Ordering::Relaxed),
                None => {}
            }
            std::thread::sleep(NAP);
        }
        watchdog.look().into_iter().for_each(note);
        watchdog.service().stopping();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        Ok::<Vec<_>, Failure>(threads.into_iter().map(join).collect())
    })?;
    account(ended, out)
}

/// The statistics of all links at their ends.
fn account(ended: Vec<Result<GatewayStats, RunError>>, out: &mut Out) -> Result<(), Failure> {
    let mut failure = None;
    let mut all = Vec::with_capacity(ended.len());
    for ended in ended {
        match ended {
            Ok(stats) => all.push(stats),
            Err(RunError { source, stats }) => {
                failure.get_or_insert(Failure::Failed(anyhow!(source)));
                all.push(*stats);
            }
        }
    }
    match all.as_slice() {
        several @ [_, _, ..] if out.json => out.document(&Several { links: several })?,
        all => {
            for (place, stats) in all.iter().enumerate() {
                if place > 0 {
                    out.line("")?;
                }
                show(stats, out)?;
            }
        }
    }
    out.flush()?;
    match failure {
        Some(failure) => Err(failure),
        None => all.iter().try_for_each(balanced),
    }
}

/// What `--json` prints where there are several links.
#[derive(Serialize)]
struct Several<'a> {
    links: &'a [GatewayStats],
}

/// Reads the link files again, of all links or of none. Whoever sent the signal finds on standard error what came of it.
fn reload(links: &Links) {
    let own_file = Wanted::File { text: None, moves: Vec::new() };
    let links = links.list();
    let refused = |error| note(format!("link file read again and refused; everything stays as it was: {error}"));
    for (_, remote) in &links {
        if let Err(error) = remote.change(&own_file, true) {
            return refused(error);
        }
    }
    for (name, remote) in &links {
        match remote.change(&own_file, false) {
            Ok(reloaded) => {
                reloaded.notes.iter().for_each(note);
                let done = reloaded.committed.unwrap_or_default();
                let of = if links.len() > 1 { format!(" of {name}") } else { String::new() };
                note(format!(
                    "link file{of} read again: change {}, {} queued and kept, {} dropped",
                    done.generation,
                    human::count(done.kept_packets as usize, "packet", "packets"),
                    done.removed_packets + done.dropped_packets
                ));
            }
            Err(error) => refused(error),
        }
    }
}

fn balanced(stats: &GatewayStats) -> Result<(), Failure> {
    if stats.balanced { Ok(()) } else { Err(Failure::Failed(anyhow!("packets are unaccounted for"))) }
}

fn tell(links: &Links, out: &mut Out) -> Result<(), Failure> {
    for (_, remote) in links.list() {
        show(&*remote.stats(ANSWER).map_err(Failure::failed)?, out)?;
    }
    out.flush()
}

/// Statistics as a table, or as the JSON that the control socket gives.
pub(crate) fn show(stats: &GatewayStats, out: &mut Out) -> Result<(), Failure> {
    if out.json {
        return out.document(stats);
    }
    out.line(format!(
        "{} to {} at {} by {}, up {}",
        stats.input,
        stats.output,
        human::rate(stats.link_bps as f64),
        stats.scheduler,
        human::time(stats.uptime_s)
    ))?;
    let head = ["class", "received", "sent", "dropped", "queued", "sent bytes", "delay p50", "p99", "max"];
    let mut path: Vec<&str> = Vec::new();
    let rows = stats.classes.iter().map(|class| {
        // Parents come before their children.
        while path.last().is_some_and(|&last| Some(last) != class.parent.as_deref()) {
            path.pop();
        }
        let mut row = vec![format!("{}{}", "  ".repeat(path.len()), class.name)];
        path.push(&class.name);
        row.extend([class.received, class.sent, class.dropped, class.queued].map(|amount| amount.packets.to_string()));
        row.push(class.sent.bytes.to_string());
        let delays = class.delay_s.map(|delay| [delay.p50, delay.p99, delay.max].map(human::time));
        row.extend(delays.unwrap_or_else(|| ["-", "-", "-"].map(str::to_owned)));
        row
    });
    out.table(&head, rows.collect(), 1..head.len())?;
    for class in stats.leaves().filter(|class| !class.dropped_by_reason.is_empty()) {
        let reasons = class.dropped_by_reason.iter();
        let reasons: Vec<_> = reasons.map(|(reason, Amount { packets, .. })| format!("{reason} {packets}")).collect();
        out.line(format!("{} dropped: {}", class.name, reasons.join(", ")))?;
    }
    if let Some(delay) = stats.delay_s {
        let more = match stats.leaves_without_delays {
            0 => String::new(),
            leaves => format!(" ({leaves} of the classes count only here: one by one, the first 1024 are measured)"),
        };
        let [p50, p99, max] = [delay.p50, delay.p99, delay.max].map(human::time);
        out.line(format!("delay of all: p50 {p50}, p99 {p99}, max {max}{more}"))?;
    }
    if let Some(reverse) = stats.reverse {
        out.line(format!(
            "other direction: received {} = sent {} + dropped {} + waiting {}",
            reverse.received.packets, reverse.sent.packets, reverse.dropped.packets, reverse.waiting.packets
        ))?;
    }
    let time = stats.time;
    let work = 1.0 - time.idle - time.spinning;
    if work > 0.0 && time.sampled_turns > 0 {
        out.line(format!(
            "data thread: {} of a processor; {} of its time at work, {} awake with nothing to do, {} asleep; of the work the \
             scheduler {}, classifying {}",
            human::percent(time.processor),
            human::percent(work),
            human::percent(time.spinning),
            human::percent(time.idle),
            human::percent(time.scheduler / work),
            human::percent(time.classify / work)
        ))?;
    }
    out.line(stats.to_string())
}
