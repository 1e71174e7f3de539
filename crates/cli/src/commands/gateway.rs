//! `fairlink gateway`: shares a real link between two interfaces.

mod life;
mod links;
mod page;
pub(crate) mod unit;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use fairlink_config::ReadOptions;
use fairlink_core::{Leniency, Nanos};
use fairlink_net::{
    BackendChoice, Fleet, FleetError, GatewayConfig, GatewayStats, HugePages, LinkEnd, Links, LogEvent, LongFrames,
    OffloadPolicy, Pacing, Planner, Pools, Privileges, Processor, RAISED_NICE, ReloadRequest, ReloadedLink, RunError,
    Severity, control, nice, raise_priority, return_freed_memory, set_nice,
};
use signal_hook::consts::SIGUSR1;

use crate::commands::ctl;
use crate::cores::CoreArgs;
use crate::gateway_stats::{Classes, show_all};
use crate::log;
use fairlink_terminal::args::{choice, one_of, time};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::interrupt::{Hangup, Meaning, stop_flag_without_hangup};
use fairlink_terminal::out::Out;

/// Time for the data thread to answer a SIGUSR1.
const ANSWER: Duration = Duration::from_secs(2);
/// Interval of polling for signals.
const NAP: Duration = Duration::from_millis(20);

/// Links, interfaces and options.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    links: links::LinkArgs,
    #[command(flatten)]
    life: life::Life,
    /// Use this scheduler instead of the file's own.
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// Ignore settings that the scheduler does not support.
    #[arg(long)]
    lenient: bool,
    /// Backend: af_packet (packet sockets), af_xdp (AF_XDP sockets, or packet sockets with a note where the interfaces
    /// do not support AF_XDP), auto (AF_XDP sockets where the drivers of both offer zero-copy, else packet sockets).
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = one_of(BackendChoice::ALL.map(|choice| (choice.name(), choice))))]
    backend: BackendChoice,
    /// Waiting mode of the data thread: precise (sleep, then spin), busy (never sleep), eco (sleep 50 us at a time).
    #[arg(long, value_name = "MODE", default_value = "precise", value_parser = one_of(Pacing::ALL.map(|pacing| (pacing.name(), pacing))))]
    pacing: Pacing,
    /// Time every turn and print the cost of each stage of the data path per packet, at the end and in `ctl stats`.
    #[arg(long)]
    profile: bool,
    /// Maximum lost time that is caught up, such as 1ms [default: 20ms].
    #[arg(long, value_name = "TIME", value_parser = time)]
    catch_up: Option<Nanos>,
    /// Processor of the data thread: a number, `last`, or `any`.
    #[arg(long, value_name = "CPU", default_value = "last", value_parser = processor)]
    cpu: Processor,
    #[command(flatten)]
    cores: CoreArgs,
    /// Time without a turn of the data thread after which the threads that receive forward by themselves, each class at
    /// its last rate or its guarantee; at least 1ms [default: 1ms with --pacing busy, else that of --catch-up].
    #[arg(long, value_name = "TIME", value_parser = time)]
    worker_patience: Option<Nanos>,
    /// Nice value of the threads, -20 to 19 [default: -5 if it is 0 and the user may].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-20..=19))]
    nice: Option<i32>,
    /// Start even on interfaces that another gateway uses, that belong to a bridge, that have IP addresses, or that are
    /// both ends of one cable: frames may be duplicated or loop. And with more threads of a link than processors.
    #[arg(long)]
    force: bool,
    /// Turn off offloads that join packets (GRO, LRO) while the gateway runs. Needed only for LRO and where the kernel
    /// does not describe joined packets (a note says so); other joined packets are split.
    #[arg(long, conflicts_with = "ignore_offloads")]
    fix_offloads: bool,
    /// Start although offloads join packets that cannot be split; these are dropped as too long.
    #[arg(long)]
    ignore_offloads: bool,
    /// Drop frames longer than the link file's mtu.
    #[arg(long)]
    drop_long_frames: bool,
    /// Frames in the packet pool [default: the capacity of the queues, plus a reserve].
    #[arg(long, value_name = "N")]
    pool_frames: Option<u32>,
    /// Time to send queued packets after Ctrl-C [default: 2s where it fails open, else 0s].
    #[arg(long, value_name = "TIME", value_parser = time)]
    drain: Option<Nanos>,
    /// Path of the control socket [default: fairlink-IF.sock in $XDG_RUNTIME_DIR or /run].
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Keep all privileges. Without it, the process drops capabilities, access to files and system calls that it does
    /// not need, once its interfaces are open.
    #[arg(long)]
    keep_privileges: bool,
    /// Mode of the control socket in octal, such as 0660 [default: 0600, or 0660 with --control-group].
    #[arg(long, value_name = "MODE")]
    control_mode: Option<String>,
    /// The control socket's group, by name or number.
    #[arg(long, value_name = "GROUP")]
    control_group: Option<String>,
    /// Serve OpenMetrics at this address and port, such as 127.0.0.1:9400: GET /metrics.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    page: page::PageArgs,
    #[command(flatten)]
    log: log::LogArgs,
    /// Do not start: print a systemd unit that runs this command line. Without a link file, print the template unit
    /// fairlink-gateway@.service.
    #[arg(long, conflicts_with = "close")]
    print_unit: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port, such as 127.0.0.1:9400 or [::1]:9400".to_owned())
}

fn processor(text: &str) -> Result<Processor, String> {
    match text {
        "last" => Ok(Processor::Last),
        "any" => Ok(Processor::Any),
        number => number.parse().map(Processor::Number).map_err(|_| choice(["a number", "last", "any"])),
    }
}

impl Args {
    /// Access rights of the control socket.
    fn access(&self) -> Result<control::Access, CliError> {
        let wrong = |error: control::AccessError| {
            let flag = match error {
                control::AccessError::NoGroup { .. } => "--control-group",
                _ => "--control-mode",
            };
            CliError::wrong(format!("{flag}: {error}"))
        };
        control::Access::new(self.control_mode.as_deref(), self.control_group.as_deref()).map_err(wrong)
    }

    /// Makes the configurations of the links from their files. They share `pools`.
    fn arrange(&self, read: links::Read, pools: &Pools) -> Result<Vec<GatewayConfig>, links::Wrong> {
        self.links.arrange(read, self.cpu, |config| {
            config.leniency = self.read_options().leniency;
            config.cores = self.cores.only(config.cores).map_err(links::Wrong::Together)?;
            config.cores_asked = self.cores.are_given();
            config.worker_patience = self.worker_patience;
            config.backend = self.backend;
            config.pacing = self.pacing;
            config.profile = self.profile;
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
            config.pools = pools.clone();
            Ok(())
        })
    }

    fn read_options(&self) -> ReadOptions<'_> {
        let leniency = if self.lenient { Leniency::Ignore } else { Leniency::Refuse };
        ReadOptions { leniency, scheduler: self.scheduler.as_deref() }
    }
}

/// Files of a running gateway, from its command line.
struct OwnFiles {
    args: Args,
    files: links::Files,
    pools: Pools,
}

impl Planner for OwnFiles {
    fn plan(&self, text: Option<&(String, String)>) -> Result<Vec<GatewayConfig>, String> {
        let read = self.files.read(text, &self.args.read_options()).map_err(|wrong| wrong.to_string())?;
        let mut configs = self.args.arrange(read, &self.pools).map_err(|wrong| wrong.to_string())?;
        // Only a gateway that starts takes the place of another process's.
        configs.iter_mut().for_each(|config| config.take_over = false);
        Ok(configs)
    }

    fn taken(&mut self, text: Option<&(String, String)>) {
        if let Some((name, _)) = text {
            self.files.taken(name);
        }
    }
}

/// Runs until Ctrl-C, then prints the statistics.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    args.log.start();
    let done = start(args, out);
    // Requests to the command itself are answered like those of every command.
    if args.life.closes() || args.print_unit {
        done
    } else {
        done.map_err(|failure| log::logged(failure, args.log.is_json()))
    }
}

/// Sets the nice value of the threads that are started later. A value that is refused stops nothing.
fn set_priority(asked: Option<i32>) {
    let set = asked.map_or_else(raise_priority, set_nice);
    let Err(error) = set else { return };
    let now = nice().map_or_else(|_| "their own".to_owned(), |nice| nice.to_string());
    let (wanted, remedy) = (asked.unwrap_or(RAISED_NICE), "CAP_SYS_NICE, root or a limit on nice values allows it");
    let text = format!("priority: threads have nice value {now}, not {wanted}: {error}; {remedy}");
    log::write(&if asked.is_some() { LogEvent::warn(text) } else { LogEvent::info(text) });
}

fn start(args: &Args, out: &mut Out) -> Result<(), CliError> {
    if args.life.closes() {
        return args.life.close();
    }
    if args.print_unit {
        // Validate the configuration before printing the unit.
        if !args.links.files.is_empty() {
            args.arrange(args.links.read(&args.read_options())?, &Pools::default())?;
        }
        return unit::print(&args.links.files, out);
    }
    HugePages::ask();
    return_freed_memory();
    // Threads have the nice value of the one that starts them, and dropped privileges do not allow another.
    set_priority(args.nice);
    let access = args.access()?;
    access.join_group().map_err(|error| CliError::wrong(format!("--control-group: {error}")))?;
    let pools = Pools::default();
    let configs = args.arrange(args.links.read(&args.read_options())?, &pools)?;
    let several = configs.len() > 1;
    let (asked, hangup) = (Arc::new(AtomicBool::new(false)), Hangup::new()?);
    let stop = stop_flag_without_hangup()?;
    let path = match (&args.control, configs.first()) {
        (Some(path), _) => path.clone(),
        (None, Some(first)) => control::default_path(&first.output),
        (None, None) => return Err(CliError::wrong("no link in the files; write [link] or [[link]]")),
    };
    let http = args.page.config(args.metrics, &path)?;
    let privileges =
        (!args.keep_privileges).then(|| Privileges::for_gateways(&configs, &path, &page::addresses(&http)));
    let mut gateways = Vec::with_capacity(configs.len());
    for config in configs {
        let name = config.link_name().to_owned();
        let gateway = args.life.open(config.clone(), &stop);
        let gateway = gateway.map_err(|error| if several { error.within(name.clone()) } else { error })?;
        let warnings = gateway.notes().iter().map(LogEvent::warn);
        let states =
            [gateway.memory().to_string(), life::backends(&gateway), life::fail_open(&gateway, config.own_traffic)];
        let events = warnings.chain(states.into_iter().map(LogEvent::info));
        events.for_each(|event| log::write(&event.of_link(name.as_str())));
        log::write(&LogEvent::new(Severity::Debug, life::details(&config)).of_link(name.as_str()));
        gateways.push((config, gateway));
    }
    signal_hook::flag::register(SIGUSR1, Arc::clone(&asked)).map_err(CliError::failed)?;
    let files = OwnFiles { args: args.clone(), files: links::Files::new(&args.links), pools };
    // Threads have the rights of the one that starts them.
    if let Some(privileges) = privileges {
        let dropped = privileges.drop_others();
        dropped.notes.iter().for_each(|text| log::write(&LogEvent::warn(text)));
        log::write(&LogEvent::info(dropped.to_string()));
    }
    // When the socket exists, the gateways accept frames.
    let fleet = Fleet::start(gateways, Box::new(files)).map_err(CliError::failed)?;
    let served = serve(args, &fleet, (&path, access), &http, &asked, &hangup, &stop, out);
    // End each link cleanly after any error.
    let ended = fleet.join();
    fleet.news().iter().for_each(log::write);
    served?;
    account(ended, out)
}

/// Main loop: serves control, metrics, page, watchdog and signals until all links end.
#[expect(clippy::too_many_arguments, reason = "the parts of one process")]
fn serve(
    args: &Args,
    fleet: &Fleet,
    (path, access): (&Path, control::Access),
    http: &page::Config,
    asked: &AtomicBool,
    hangup: &Hangup,
    stop: &AtomicBool,
    out: &mut Out,
) -> Result<(), CliError> {
    let links = fleet.links();
    let (mut generation, vitals) = fleet.vitals();
    let mut watchdog = life::watchdog(vitals);
    let mut control = args.life.control(path, access, links)?;
    let http_server = args.life.patiently(|| page::start(http, links)).map_err(CliError::wrong)?;
    http_server.iter().flat_map(|server| page::said(server, http)).for_each(|event| log::write(&event));
    let mut way = fleet.ways().join("; ");
    let ready = format!("{way}: running until Ctrl-C; control socket for `fairlink ctl`: {}", path.display());
    log::write(&LogEvent::info(ready));
    watchdog.service().ready(&way);
    while !fleet.is_over() {
        let (now, vitals) = fleet.vitals();
        if std::mem::replace(&mut generation, now) != now {
            watchdog.look().iter().for_each(log::write);
            watchdog.set(vitals);
            let before = std::mem::replace(&mut way, fleet.ways().join("; "));
            if way != before {
                log::write(&LogEvent::info(format!("now serving {way}")));
                watchdog.service().ready(&way);
            }
        }
        watchdog.look().iter().chain(&fleet.news()).chain(&links.news()).for_each(log::write);
        control.look(links);
        if asked.swap(false, Ordering::Relaxed)
            && let Err(failure) = tell(links, out)
        {
            // The output is closed: the gateway continues without it.
            let _ = failure;
        }
        match hangup.take() {
            Some(Meaning::Reload) => {
                watchdog.service().reloading();
                reload(fleet);
                watchdog.service().ready(&way);
            }
            Some(Meaning::TerminalClosed) => stop.store(true, Ordering::Relaxed),
            None => {}
        }
        if stop.load(Ordering::Relaxed) {
            fleet.end();
        }
        std::thread::sleep(NAP);
    }
    watchdog.look().iter().for_each(log::write);
    watchdog.service().stopping();
    Ok(())
}

/// The statistics of all links at their ends.
fn account(ended: Vec<LinkEnd>, out: &mut Out) -> Result<(), CliError> {
    let mut failure = None;
    let mut all = Vec::with_capacity(ended.len());
    for LinkEnd { removed, outcome, .. } in ended {
        match outcome {
            Ok(stats) => all.push(stats),
            Err(RunError { source, stats }) => {
                // The outcome of a removed link was reported at its removal.
                if !removed {
                    failure.get_or_insert(CliError::Failed(anyhow!(source)));
                }
                all.push(*stats);
            }
        }
    }
    show_all(&all, Classes::Busiest, out)?;
    out.flush()?;
    match failure {
        Some(failure) => Err(failure),
        None => all.iter().try_for_each(balanced),
    }
}

/// Reads the link files again, of all links or of none. Logs the result to standard error.
fn reload(fleet: &Fleet) {
    let reloaded = match fleet.reload(&ReloadRequest::default()) {
        Ok(reloaded) => reloaded,
        Err(error @ FleetError::Half { .. }) => {
            return log::write(&LogEvent::error(format!("reload: {error}")));
        }
        Err(error) => {
            let text = format!("reload refused, configuration unchanged: {error}");
            return log::write(&LogEvent::error(text));
        }
    };
    let several = reloaded.links.len() > 1;
    for ReloadedLink { link, reloaded, .. } in &reloaded.links {
        reloaded.notes.iter().for_each(|text| log::write(&LogEvent::warn(text).of_link(link.as_str())));
        let done = reloaded.committed.unwrap_or_default();
        let of = if several { format!(" of {link}") } else { String::new() };
        let text = format!(
            "reload{of}: change {}; queued packets: {} kept, {} dropped",
            done.generation,
            done.kept_packets,
            done.removed_packets + done.dropped_packets
        );
        log::write(&LogEvent::info(text).of_link(link.as_str()));
    }
    ctl::change::comings(&reloaded).into_iter().for_each(|text| log::write(&LogEvent::info(text)));
}

fn balanced(stats: &GatewayStats) -> Result<(), CliError> {
    if stats.gateway().balanced { Ok(()) } else { Err(CliError::Failed(anyhow!("packets are unaccounted for"))) }
}

fn tell(links: &Links, out: &mut Out) -> Result<(), CliError> {
    let mut all = Vec::new();
    for (_, remote) in links.list() {
        all.push(remote.stats(ANSWER).map_err(CliError::failed)?);
    }
    show_all(all.iter().map(|stats| &**stats), Classes::Busiest, out)?;
    out.flush()
}
