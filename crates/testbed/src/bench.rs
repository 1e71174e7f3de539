//! Measures the gateway on this machine beside what it replaces: a bridge of the kernel, and a bridge with the kernel's
//! HTB. Real packets pass between two virtual cables in a private network namespace. Every figure is measured in rounds,
//! all paths in turn, so that other load of the machine meets them alike.
//!
//! *Throughput and processor time.* A sender repeats 64 prepared frames as fast as the kernel takes them, spread evenly
//! over the classes. The link has 1 Tbit/s, so that only the machine limits. The same over the bare cable shows the cost
//! of sending. `bench/work.rs` says what is counted as work.
//!
//! *Delay.* Probes are stamped when they are sent, 5,000 per second, and the kernel times them when they arrive. They pass
//! alone, and while half of the path's own rate passes. A path adds the difference to the bare cable.
//!
//! *TCP.* Three classes are guaranteed 60, 30 and 10 % of a link, which the gateway or HTB shares. The machines at both
//! ends are network namespaces.
//!
//! On a machine of few processors, sender, gateway and receiver disturb each other.

mod delays;
mod load;
mod paths;
mod results;
mod tcp;
mod work;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::{HierarchyError, SchedulerInfo};
use fairlink_report::Delay;
use thiserror::Error;

use self::delays::{Delayed, PROBES};
use self::paths::{lay_cables, why_not};
use self::work::{Flooded, SoftirqThreads};
use crate::addressing::AddressingError;
use crate::generator::GeneratorError;
use crate::kernel_htb::TcError;
use crate::netns::PrivateNamespace;
use crate::receiver::ReceiverError;
use crate::shared_tcp::SharedTcpError;
use fairlink_net::{BackendError, BackendKind, FramePoolError, InterfaceError, OpenError, Pacing, RunError};

pub use self::paths::BenchPath;
pub use self::results::{
    GatewayBench, GatewayPart, GatewayThroughput, PathBench, PathCounts, PathDelay, SkippedFigure, Spread, TcpBench,
};

/// Configuration of the bench.
#[derive(Clone, Debug)]
pub struct GatewayBenchConfig {
    /// Lengths of frames in bytes, each measured; 64 to 1514.
    pub frame_bytes: Vec<u32>,
    /// The scheduler.
    pub scheduler: &'static SchedulerInfo,
    /// Leaf classes, all below the link, of equal weights; 1 to 1000.
    pub classes: u16,
    /// The paths, each measured at each length. Without the cable, no path has a figure for what it adds.
    pub paths: Vec<BenchPath>,
    /// Waiting mode of the gateway.
    pub pacing: Pacing,
    /// Cores that share the gateway's link by a hub, 1 to 64.
    pub cores: u16,
    /// Rounds, 1 to 100.
    pub rounds: u32,
    /// Time of each figure in all rounds; each round of TCP takes as long.
    pub span: Duration,
    /// Rate of the link that TCP shares, in bit/s.
    pub tcp_bps: u64,
    /// Numbers of connections in each class, 1 to 64; none for no TCP.
    pub tcp_connections: Vec<u32>,
}

impl GatewayBenchConfig {
    /// Frames of 64 B and 1500 B under `scheduler`, 8 classes, all paths, `busy`, 3 rounds, 1.5 s for each figure; TCP at 5
    /// Gbit/s with 1 and 10 connections.
    #[must_use]
    pub fn new(scheduler: &'static SchedulerInfo) -> Self {
        Self {
            frame_bytes: vec![64, 1500],
            scheduler,
            classes: 8,
            paths: BenchPath::ALL.to_vec(),
            pacing: Pacing::Busy,
            cores: 1,
            rounds: 3,
            span: Duration::from_millis(1500),
            tcp_bps: 5_000_000_000,
            tcp_connections: vec![1, 10],
        }
    }

    /// Returns about how long the bench takes.
    #[must_use]
    pub fn duration(&self) -> Duration {
        // A flood and two delays of each path and length, and what it takes to begin and end them.
        let figures = 3 * (self.paths.len() * self.frame_bytes.len()) as u32;
        let tcp = self.rounds * self.tcp_connections.len() as u32 * 3;
        let overhead = Duration::from_millis(150);
        figures * (self.span + self.rounds * overhead) + tcp * (self.span + 2 * overhead)
    }

    /// Time of a measurement in one round.
    fn round(&self) -> Duration {
        self.span / self.rounds
    }

    fn check(&self, stop: &AtomicBool) -> Result<(), GatewayBenchError> {
        if stop.load(Ordering::Relaxed) { Err(GatewayBenchError::Stopped) } else { Ok(()) }
    }
}

/// Reason why the bench could not run.
#[derive(Debug, Error)]
pub enum GatewayBenchError {
    /// A number outside its range.
    #[error("{what} of {value} is outside {min} .. {max}")]
    Range {
        /// The quantity.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// The cables could not be laid.
    #[error("virtual cables: {0}")]
    Cables(#[source] io::Error),
    /// The kernel has no bridge.
    #[error("a bridge of the kernel: {0}")]
    Bridge(#[source] io::Error),
    /// The kernel's HTB could not be set up or read.
    #[error("the kernel's HTB: {0}")]
    Htb(#[from] TcError),
    /// The kernel's counters could not be read.
    #[error("counters of the interfaces: {0}")]
    Counters(#[source] io::Error),
    /// The class tree.
    #[error(transparent)]
    Hierarchy(#[from] HierarchyError),
    /// The classes' frames.
    #[error(transparent)]
    Addressing(#[from] AddressingError),
    /// The sender's interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The sender's frames.
    #[error(transparent)]
    FramePool(#[from] FramePoolError),
    /// The sender.
    #[error(transparent)]
    Sender(#[from] BackendError),
    /// The gateway could not start.
    #[error("gateway: {0}")]
    Open(#[from] OpenError),
    /// The gateway failed.
    #[error("gateway: {0}")]
    Run(#[from] RunError),
    /// The generator.
    #[error("generator: {0}")]
    Generator(#[from] GeneratorError),
    /// The receiver.
    #[error("receiver: {0}")]
    Receiver(#[from] ReceiverError),
    /// TCP.
    #[error("TCP: {0}")]
    Tcp(#[from] SharedTcpError),
    /// No frame arrived.
    #[error("nothing arrived over the path \"{path}\": the machine is too busy to measure on")]
    Nothing {
        /// The path.
        path: &'static str,
    },
    /// It was stopped.
    #[error("interrupted")]
    Stopped,
}

/// Measures the throughput alone, with full Ethernet frames (1514 B) over packet sockets, for `span`. The interfaces that
/// it creates (`gen`, `in`, `out`, `sink`) stay in the private namespace, so that it can run only once in each.
///
/// # Errors
/// [`GatewayBenchError`].
pub fn gateway_throughput(
    _: &PrivateNamespace,
    scheduler: &'static SchedulerInfo,
    span: Duration,
) -> Result<GatewayThroughput, GatewayBenchError> {
    let frame_bytes = 1514;
    let config = GatewayBenchConfig { span, rounds: 1, ..GatewayBenchConfig::new(scheduler) };
    lay_cables()?;
    let path = BenchPath::Gateway(BackendKind::AfPacket);
    let flooded = work::flood(&config, path, frame_bytes, None, &AtomicBool::new(false))?;
    let seconds = flooded.gateway.as_ref().and_then(work::data_thread_s).filter(|&seconds| seconds > 0.0);
    let frames_per_s = 1.0 / seconds.ok_or(GatewayBenchError::Nothing { path: path.name() })?;
    Ok(GatewayThroughput { frame_bytes, frames_per_s, bps: frames_per_s * 8.0 * f64::from(frame_bytes) })
}

/// Runs the bench until `stop` is set. Calls `progress` with what is measured next. The interfaces that it creates (`gen`,
/// `in`, `out`, `sink`, and those of [`SharedTcpStage`](crate::SharedTcpStage)) stay in the private namespace, so that it
/// can run only once in each.
///
/// # Errors
/// [`GatewayBenchError`]; [`GatewayBenchError::Stopped`] within 0.3 s after `stop` is set.
pub fn gateway_bench(
    namespace: &PrivateNamespace,
    config: &GatewayBenchConfig,
    stop: &AtomicBool,
    mut progress: impl FnMut(&str),
) -> Result<GatewayBench, GatewayBenchError> {
    let check = |what, value: u64, min, max| {
        if (min..=max).contains(&value) { Ok(()) } else { Err(GatewayBenchError::Range { what, value, min, max }) }
    };
    check("a number of classes", u64::from(config.classes), 1, 1000)?;
    check("a number of rounds", u64::from(config.rounds), 1, 100)?;
    for &length in &config.frame_bytes {
        check("a frame length in bytes", u64::from(length), 64, 1514)?;
    }
    lay_cables()?;
    let mut skipped = Vec::new();
    let mut skip = |what: &str, why: String| skipped.push(SkippedFigure { what: what.to_owned(), why });
    let mut places = Vec::new();
    for &path in &config.paths {
        match why_not(config, path)? {
            Some(why) => skip(path.name(), why),
            None => places.extend(config.frame_bytes.iter().map(|&length| Place::new(path, length))),
        }
    }
    places.sort_by_key(|place| place.length);
    let softirqs = SoftirqThreads::find().map_err(|why| skip("processor time of the machine", why)).ok();
    for round in 1..=config.rounds {
        for place in &mut places {
            progress(&place.describes(round, config, "throughput"));
            let flooded = work::flood(config, place.path, place.length, softirqs.as_ref(), stop)?;
            config.check(stop)?;
            if flooded.in_time == 0 {
                return Err(GatewayBenchError::Nothing { path: place.path.name() });
            }
            place.floods.push(flooded);
        }
    }
    for round in 1..=config.rounds {
        for place in &mut places {
            for (half, what) in [(false, "delay"), (true, "delay at half load")] {
                progress(&place.describes(round, config, what));
                let load = if half { place.half_pps() } else { PROBES as f64 };
                let delayed = delays::delay(config, place.path, place.length, load, stop)?;
                config.check(stop)?;
                let delayed = delayed.ok_or(GatewayBenchError::Nothing { path: place.path.name() })?;
                if half { &mut place.half } else { &mut place.light }.push(delayed);
            }
        }
    }
    let tcp = tcp::tcp(namespace, config, stop, &mut skipped, &mut progress)?;
    let softirqs_apart = softirqs.is_some() && is_apart(&places);
    Ok(GatewayBench {
        scheduler: config.scheduler.name.to_owned(),
        classes: config.classes,
        pacing: config.pacing.name().to_owned(),
        cores: config.cores,
        rounds: config.rounds,
        span_s: config.round().as_secs_f64(),
        softirqs_apart,
        paths: places.iter().filter_map(|place| place.summary(&places, softirqs_apart)).collect(),
        tcp,
        skipped,
    })
}

/// Returns true if the kernel counts softirqs apart, by the sender's clock in all floods over the cable.
fn is_apart(places: &[Place]) -> bool {
    let mut floods = places.iter().filter(|place| place.path == BenchPath::Cable).flat_map(|place| &place.floods);
    let any = places.iter().any(|place| place.path == BenchPath::Cable);
    any && floods.all(|flooded| flooded.sent.softirqs_apart())
}

/// A path and a length, and its measurements in each round.
struct Place {
    path: BenchPath,
    length: u32,
    floods: Vec<Flooded>,
    light: Vec<Delayed>,
    half: Vec<Delayed>,
}

impl Place {
    fn new(path: BenchPath, length: u32) -> Self {
        Self { path, length, floods: Vec::new(), light: Vec::new(), half: Vec::new() }
    }

    fn describes(&self, round: u32, config: &GatewayBenchConfig, what: &str) -> String {
        format!("round {round} of {}: {what}, {} B, {}", config.rounds, self.length, self.path.name())
    }

    fn spread(&self, of: impl Fn(&Flooded) -> f64) -> Option<Spread> {
        Spread::from_rounds(self.floods.iter().map(of))
    }

    /// Half of the rate that arrived.
    fn half_pps(&self) -> f64 {
        self.spread(Flooded::arrived_pps).map_or(0.0, |pps| pps.median / 2.0)
    }

    /// Summarises the rounds. `None` before the first.
    fn summary(&self, places: &[Self], softirqs_apart: bool) -> Option<PathBench> {
        let of_path = |path| places.iter().find(|place| place.path == path && place.length == self.length);
        let (cable, bridge) = (of_path(BenchPath::Cable), of_path(BenchPath::Bridge));
        let machine = |flooded: &Flooded| Some(flooded.machine_s(softirqs_apart)? / flooded.arrived.max(1) as f64);
        // What was offered, at the cost of the same round over the cable, is the sender's.
        let added = |(flooded, cable): (&Flooded, &Flooded)| {
            let sending = cable.machine_s(softirqs_apart)? / cable.sent.offered.max(1) as f64;
            let all = flooded.machine_s(softirqs_apart)?;
            Some((all - sending * flooded.sent.offered as f64) / flooded.arrived.max(1) as f64)
        };
        let cable_floods = cable.filter(|_| self.path != BenchPath::Cable).map_or(&[][..], |cable| &cable.floods);
        let counts = |of: fn(&Flooded) -> u64| self.floods.iter().map(of).sum::<u64>();
        let delay = |own: fn(&Self) -> &Vec<Delayed>| {
            let beside = |place: Option<&Self>, without: &[BenchPath]| {
                place.filter(|_| !without.contains(&self.path)).map(own).cloned().unwrap_or_default()
            };
            let cable = beside(cable, &[BenchPath::Cable]);
            summary(own(self), &cable, &beside(bridge, &[BenchPath::Cable, BenchPath::Bridge]))
        };
        let delayed = self.light.iter().chain(&self.half);
        Some(PathBench {
            frame_bytes: self.length,
            path: self.path.name().to_owned(),
            offered_pps: self.spread(Flooded::offered_pps)?,
            arrived_pps: self.spread(Flooded::arrived_pps)?,
            machine_s: Spread::from_rounds(self.floods.iter().filter_map(machine)),
            added_machine_s: Spread::from_rounds(self.floods.iter().zip(cable_floods).filter_map(added)),
            gateway: self.gateway(),
            counts: PathCounts {
                offered_packets: counts(|flooded| flooded.sent.offered),
                left_packets: self.floods.iter().map(|flooded| flooded.left).sum(),
                arrived_packets: counts(|flooded| flooded.arrived),
                htb_class_packets: self.floods.iter().fold(Vec::new(), |mut sum, flooded| {
                    sum.resize(flooded.htb.len(), 0);
                    sum.iter_mut().zip(&flooded.htb).for_each(|(sum, packets)| *sum += packets);
                    sum
                }),
            },
            delay_light: delay(|place| &place.light),
            delay_half: delay(|place| &place.half),
            balanced: self.floods.iter().all(Flooded::is_balanced) && delayed.clone().all(|delayed| delayed.balanced),
        })
    }

    fn gateway(&self) -> Option<GatewayPart> {
        let gateways = || self.floods.iter().filter_map(|flooded| flooded.gateway.as_ref());
        let spread = |of: &dyn Fn(&fairlink_net::GatewayStats) -> f64| Spread::from_rounds(gateways().map(of));
        let part = |share: f64, of: f64| if of > 0.0 { share / of } else { 0.0 };
        Some(GatewayPart {
            zero_copy: gateways().all(|stats| stats.gateway().interfaces.iter().all(|interface| interface.zero_copy)),
            data_thread_s: Spread::from_rounds(gateways().filter_map(work::data_thread_s))?,
            busy: spread(&work::busy)?,
            processor: spread(&|stats| stats.gateway().time.processor)?,
            scheduler_share: spread(&|stats| part(stats.gateway().time.scheduler, work::awake(stats)))?,
            classify_share: spread(&|stats| part(stats.gateway().time.classify, work::awake(stats)))?,
            send_share: spread(&|stats| part(stats.gateway().time.send, work::awake(stats)))?,
            kernel_dropped_pps: spread(&|stats| {
                stats.gateway().kernel_dropped_packets as f64 / stats.gateway().uptime_s
            })?,
        })
    }
}

/// Summarises the delays of the rounds, beside those of the cable and of the bridge in the same rounds.
fn summary(rounds: &[Delayed], cable: &[Delayed], bridge: &[Delayed]) -> Option<PathDelay> {
    type Of = fn(&Delay) -> Option<f64>;
    let (p50, p99): (Of, Of) = (|delay| delay.p50, |delay| delay.p99);
    let spread = |of: Of| Spread::from_rounds(rounds.iter().filter_map(|round| of(&round.delay)));
    let over = |other: &[Delayed], of: Of| {
        let differences = rounds.iter().zip(other).filter_map(|(own, other)| Some(of(&own.delay)? - of(&other.delay)?));
        Spread::from_rounds(differences)
    };
    Some(PathDelay {
        load_pps: Spread::from_rounds(rounds.iter().map(|round| round.load_pps))?.median,
        probes_sent: rounds.iter().map(|round| round.sent).sum(),
        probes_arrived: rounds.iter().map(|round| round.delay.packets).sum(),
        p50_s: spread(p50)?,
        p99_s: spread(p99)?,
        added_p50_s: over(cable, p50),
        added_p99_s: over(cable, p99),
        over_bridge_p50_s: over(bridge, p50),
        over_bridge_p99_s: over(bridge, p99),
    })
}
