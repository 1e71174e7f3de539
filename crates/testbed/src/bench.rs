//! Measures the gateway on this machine: packets per second of one processor, the delay that it adds, and the
//! scheduler's share of its work, over packet sockets and over AF_XDP. It sends real packets over two virtual cables in
//! a private network namespace.
//!
//! *Throughput.* A sender repeats 64 prepared frames as fast as the kernel takes them, spread evenly over the classes.
//! The link has 1 Tbit/s, so that only the machine limits.
//!
//! *Delay.* A generator sends 10,000 packets/s, once over a bare cable and once through the gateway on an idle link.
//! Packets are stamped when they are sent, and the kernel times them when they arrive. The gateway adds the difference
//! of the medians, and of the 99th percentiles.
//!
//! On a machine of few processors, sender, gateway and receiver disturb each other. Work of the kernel on behalf of a
//! sender counts as the sender's. Work is measured in the thread's own processor time, so that time of other threads
//! counts for no stage.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, HierarchyError, LinkConfig, NANOS_PER_SEC, Nanos, Rate, SchedulerInfo, Share,
};
use fairlink_report::Delay;
use fairlink_traffic::{Model, PacketSize, SourceSpec};
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use crate::addressing::{AddressingError, FIRST_PORT, default_matches};
use crate::generator::{Generator, GeneratorConfig, GeneratorError, Lanes};
use crate::netns::PrivateNamespace;
use crate::receiver::{Receiver, ReceiverConfig, ReceiverError};
use crate::veth;
use fairlink_net::BackendKind;
use fairlink_net::GatewayStats;
use fairlink_net::Pacing;
use fairlink_net::{AfPacket, AfPacketOptions};
use fairlink_net::{Backend, BackendError};
use fairlink_net::{BackendChoice, Gateway, GatewayConfig, OpenError, Processor, RunError};
use fairlink_net::{Clock, MonotonicClock};
use fairlink_net::{FrameInfo, FramePool, FramePoolError};
use fairlink_net::{FrameTemplate, Headers, Stamp};
use fairlink_net::{Interface, InterfaceError};

/// Packets per second in the measurement of delay.
const DELAY_PPS: u64 = 10_000;
/// Frames that the sender repeats.
const PREPARED: u32 = 64;

/// Configuration of the bench.
#[derive(Clone, Debug)]
pub struct GatewayBenchConfig {
    /// Lengths of frames in bytes, each measured; at least 64.
    pub frame_bytes: Vec<u32>,
    /// The scheduler.
    pub scheduler: &'static SchedulerInfo,
    /// Leaf classes, all below the link, of equal weights; 1 to 1000.
    pub classes: u16,
    /// The backends, each measured at each length.
    pub backends: Vec<BackendKind>,
    /// Waiting mode of the gateway.
    pub pacing: Pacing,
    /// Length of each of the three measurements of a frame length.
    pub span: Duration,
}

impl GatewayBenchConfig {
    /// Frames of 64 B and 1500 B under `scheduler`, 8 classes, both backends, `busy`, 2 s each.
    #[must_use]
    pub fn new(scheduler: &'static SchedulerInfo) -> Self {
        Self {
            frame_bytes: vec![64, 1500],
            scheduler,
            classes: 8,
            backends: BackendKind::ALL.to_vec(),
            pacing: Pacing::Busy,
            span: Duration::from_secs(2),
        }
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
    Cables(std::io::Error),
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
    /// No frame arrived.
    #[error("nothing arrived over the {path}: the machine is too busy to measure on")]
    Nothing {
        /// The path.
        path: &'static str,
    },
}

/// The measurements.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct GatewayBench {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Leaf classes.
    pub classes: u16,
    /// Waiting mode of the gateway.
    pub pacing: String,
    /// One per frame length and backend.
    pub results: Vec<GatewayBenchResult>,
    /// Reasons why a backend was not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// Results for frames of one length.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct GatewayBenchResult {
    /// Length of the frames in bytes.
    pub frame_bytes: u32,
    /// `af_packet` or `af_xdp`.
    pub backend: String,
    /// True if the driver itself reads and writes frames of the packet pool.
    pub zero_copy: bool,
    /// Fraction of the time for which a processor worked for the data thread, by the kernel's count. The kernel's work
    /// of receiving counts as the sender's: all of it with AF_XDP, and less with packet sockets.
    pub processor: f64,
    /// Frames that the sender offered, per second.
    pub offered_pps: f64,
    /// Received frames per second, on one processor.
    pub forwarded_pps: f64,
    /// Frames forwarded per second of work: the rate of a gateway that never has to wait.
    pub forwarded_per_busy_second: f64,
    /// Frames that the kernel dropped because the gateway did not fetch them in time, per second.
    pub kernel_dropped_pps: f64,
    /// Fraction of the time for which a processor worked for the data thread, without waiting.
    pub busy: f64,
    /// The fraction of that work for the scheduler, the pacing and the driving loop.
    pub scheduler_share: f64,
    /// The fraction of that work for classification.
    pub classify_share: f64,
    /// Delay over a bare cable, in seconds.
    pub direct_delay_s: Delay,
    /// Delay through the gateway, in seconds.
    pub gateway_delay_s: Delay,
    /// Median delay that the gateway adds, in seconds.
    pub added_p50_s: f64,
    /// 99th percentile of the delay that the gateway adds, in seconds.
    pub added_p99_s: f64,
    /// True if every packet of both runs was accounted for.
    pub balanced: bool,
}

/// Capacity of a gateway on one processor of this machine, over virtual cables and packet sockets, the default backend.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct GatewayThroughput {
    /// Length of the frames in bytes.
    pub frame_bytes: u32,
    /// Frames forwarded per second of work, in the thread's own processor time. Other load on the machine or a slow
    /// sender does not reduce it.
    pub frames_per_s: f64,
    /// The same in bits of frames per second.
    pub bps: f64,
}

/// Measures the throughput alone, with full Ethernet frames (1514 B), for `span`. The interfaces that it creates
/// (`gen`, `in`, `out`, `sink`) stay in the private namespace, so that it can run only once in each.
///
/// # Errors
/// [`GatewayBenchError`].
pub fn gateway_throughput(
    _: &PrivateNamespace,
    scheduler: &'static SchedulerInfo,
    span: Duration,
) -> Result<GatewayThroughput, GatewayBenchError> {
    let frame_bytes = 1514;
    let config = GatewayBenchConfig { span, ..GatewayBenchConfig::new(scheduler) };
    lay_cables()?;
    let (_, flooded) = flood(&config, BackendKind::AfPacket, frame_bytes)?;
    let frames_per_s = per_busy_second(&flooded);
    if frames_per_s == 0.0 {
        return Err(GatewayBenchError::Nothing { path: "gateway" });
    }
    Ok(GatewayThroughput { frame_bytes, frames_per_s, bps: frames_per_s * 8.0 * f64::from(frame_bytes) })
}

fn lay_cables() -> Result<(), GatewayBenchError> {
    veth::lay_cables(&[("gen", "in"), ("out", "sink")]).map_err(GatewayBenchError::Cables)
}

/// Runs the bench. The interfaces that it creates (`gen`, `in`, `out`, `sink`) stay in the private namespace, so that
/// it can run only once in each.
///
/// # Errors
/// [`GatewayBenchError`].
pub fn gateway_bench(_: &PrivateNamespace, config: &GatewayBenchConfig) -> Result<GatewayBench, GatewayBenchError> {
    let check = |what, value: u64, min, max| {
        if (min..=max).contains(&value) { Ok(()) } else { Err(GatewayBenchError::Range { what, value, min, max }) }
    };
    check("a number of classes", u64::from(config.classes), 1, 1000)?;
    for &length in &config.frame_bytes {
        check("a frame length in bytes", u64::from(length), 64, 1514)?;
    }
    lay_cables()?;
    let (mut results, mut skipped) = (Vec::new(), Vec::new());
    for &backend in &config.backends {
        if let Some(why) = why_not(config, backend)? {
            skipped.push(format!("{}: {why}", backend.name()));
            continue;
        }
        for &length in &config.frame_bytes {
            results.push(measure(config, backend, length)?);
        }
    }
    results.sort_by_key(|result| result.frame_bytes);
    Ok(GatewayBench {
        scheduler: config.scheduler.name.to_owned(),
        classes: config.classes,
        pacing: config.pacing.name().to_owned(),
        results,
        skipped,
    })
}

/// Returns the reason why gateways cannot use `backend` here.
fn why_not(config: &GatewayBenchConfig, backend: BackendKind) -> Result<Option<String>, GatewayBenchError> {
    let gateway = Gateway::open(gateway_config(config, backend)?)?;
    let is_used = gateway.interfaces().iter().all(|interface| interface.backend == backend.name());
    Ok((!is_used).then(|| gateway.notes().join("; ")))
}

fn measure(
    config: &GatewayBenchConfig,
    backend: BackendKind,
    length: u32,
) -> Result<GatewayBenchResult, GatewayBenchError> {
    let (offered, flooded) = flood(config, backend, length)?;
    let direct = delay(config, length, "in", "cable")?;
    let gateway = Gateway::open(gateway_config(config, backend)?)?;
    let stop = AtomicBool::new(false);
    let (through, passed) = std::thread::scope(|scope| {
        let running = scope.spawn(|| gateway.run(&stop));
        let through = delay(config, length, "sink", "gateway");
        stop.store(true, Ordering::Relaxed);
        (through, join(running))
    });
    let (through, passed) = (through?, passed?);
    let awake = awake(&flooded);
    let state = flooded.gateway();
    let added = |of: fn(&Delay) -> Option<f64>| {
        of(&through).zip(of(&direct)).map_or(f64::NAN, |(through, direct)| through - direct)
    };
    let per_second = |packets: u64| packets as f64 / flooded.gateway().uptime_s;
    let part = |share: f64, of: f64| if of > 0.0 { share / of } else { 0.0 };
    Ok(GatewayBenchResult {
        frame_bytes: length,
        backend: backend.name().to_owned(),
        zero_copy: state.interfaces.iter().all(|interface| interface.zero_copy),
        processor: state.time.processor,
        offered_pps: per_second(offered),
        forwarded_pps: per_second(flooded.counts().sent.packets),
        forwarded_per_busy_second: per_busy_second(&flooded),
        kernel_dropped_pps: per_second(state.kernel_dropped_packets),
        busy: busy(&flooded),
        scheduler_share: part(state.time.scheduler, awake),
        classify_share: part(state.time.classify, awake),
        direct_delay_s: direct,
        gateway_delay_s: through,
        added_p50_s: added(|delay| delay.p50),
        added_p99_s: added(|delay| delay.p99),
        balanced: state.balanced && passed.gateway().balanced,
    })
}

/// Fraction of the time in which the data thread neither waited nor slept.
fn awake(stats: &GatewayStats) -> f64 {
    1.0 - stats.gateway().time.idle - stats.gateway().time.spinning
}

/// Fraction of the time in which a processor worked for the data thread. While others have the processor, the thread is
/// awake but does not work.
fn busy(stats: &GatewayStats) -> f64 {
    awake(stats).min(stats.gateway().time.processor)
}

/// Frames forwarded per second of work; 0 if no work was counted.
fn per_busy_second(stats: &GatewayStats) -> f64 {
    let busy = busy(stats);
    if busy > 0.0 { stats.counts().sent.packets as f64 / stats.gateway().uptime_s / busy } else { 0.0 }
}

/// Returns the value of a thread, or continues its panic in this one.
pub(super) fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn gateway_config(config: &GatewayBenchConfig, backend: BackendKind) -> Result<GatewayConfig, GatewayBenchError> {
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1522, ..LinkConfig::new(Rate::MAX) });
    for _ in 0..config.classes {
        let share = Some(Share::Weight(1));
        tree.add(ClassId::ROOT, ClassConfig { share, ..ClassConfig::default() })?;
    }
    let tree = tree.build()?;
    let matches = default_matches(tree.leaves())?;
    let default = tree.leaves()[0];
    Ok(GatewayConfig {
        matches,
        backend: match backend {
            BackendKind::AfPacket => BackendChoice::AfPacket,
            BackendKind::AfXdp => BackendChoice::AfXdp,
        },
        pacing: config.pacing,
        processor: Processor::Last,
        ..GatewayConfig::new("in", "out", config.scheduler, tree, default)
    })
}

/// Sends as fast as possible through a gateway. Returns the number of offered frames, and the gateway's statistics.
fn flood(
    config: &GatewayBenchConfig,
    backend: BackendKind,
    length: u32,
) -> Result<(u64, GatewayStats), GatewayBenchError> {
    let gateway = Gateway::open(gateway_config(config, backend)?)?;
    let mut sender = AfPacket::open(&Interface::open("gen")?, &AfPacketOptions::default())?;
    let mut pool = FramePool::new(PREPARED, length)?;
    let mut frames: Vec<u32> = std::iter::from_fn(|| pool.take()).collect();
    for (&frame, index) in frames.iter().zip(0u16..) {
        let template = FrameTemplate::new(&Headers::udp(FIRST_PORT + index % config.classes));
        let stamp = Stamp { run: 0, class: ClassId(1), sequence: 0, monotonic_ns: 0, realtime_us: 0 };
        template.write(&mut pool.frame_mut(frame)[..length as usize], &stamp);
        pool.set_info(frame, FrameInfo { start: 0, len: length, received: Nanos::ZERO, ..FrameInfo::default() });
    }
    let stop = AtomicBool::new(false);
    let (sent, stats) = std::thread::scope(|scope| {
        let running = scope.spawn(|| gateway.run(&stop));
        let clock = MonotonicClock::start();
        let mut offered = 0;
        let mut failed = None;
        while Duration::from_nanos(clock.now().0) < config.span && failed.is_none() {
            match sender.send(&mut pool, &frames) {
                Ok(sent) => {
                    offered += sent.accepted as u64;
                    frames.drain(..sent.accepted);
                    sender.reclaim(&mut pool);
                    // A frame that comes back is unchanged, and is sent again.
                    frames.extend(std::iter::from_fn(|| pool.take()));
                }
                Err(error) => failed = Some(error),
            }
        }
        stop.store(true, Ordering::Relaxed);
        (failed.map_or(Ok(offered), Err), join(running))
    });
    let stats = stats?;
    if stats.counts().sent.packets == 0 {
        return Err(GatewayBenchError::Nothing { path: "gateway" });
    }
    Ok((sent?, stats))
}

/// Delay of a light load from `gen` to `to`.
fn delay(config: &GatewayBenchConfig, length: u32, to: &str, path: &'static str) -> Result<Delay, GatewayBenchError> {
    let receiver = Receiver::open(ReceiverConfig::new(to))?;
    let source = SourceSpec {
        class: ClassId(1),
        model: Model::cbr_packets(DELAY_PPS * 1000),
        packet: PacketSize::Fixed(length),
        active: Vec::new(),
    };
    let span = u64::try_from(config.span.as_nanos()).unwrap_or(u64::MAX).min(3600 * NANOS_PER_SEC);
    let generator = Generator::open(GeneratorConfig {
        interface: "gen".to_owned(),
        classes: vec![(ClassId(1), Headers::udp(FIRST_PORT))],
        names: Default::default(),
        sources: vec![source],
        seed: 1,
        greedy_rate: Rate::MAX,
        duration: Nanos(span),
        start_ns: None,
        run: 1,
        lanes: Lanes::Shared,
        fragment: false,
        kernel_stamps: false,
        cpu: None,
    })?;
    let stop = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&stop, |_| ()));
        let sent = generator.run(&AtomicBool::new(false), |_| ());
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        let report = join(receiving);
        sent.map(|_| report)
    })??;
    let class = report.class(ClassId(1));
    class.and_then(|class| class.delay_s).ok_or(GatewayBenchError::Nothing { path })
}
