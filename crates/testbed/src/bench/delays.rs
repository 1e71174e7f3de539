//! Delay of a path while little or half of what it can passes.
//!
//! Probes are frames of one class that a [`Generator`] sends at [`PROBES`] per second. For the load, another thread sends
//! the other frames in bursts, spread over all classes. The receiver gets the probes alone: the kernel discards the load
//! before it is copied.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::{ClassId, NANOS_PER_SEC, Nanos, Rate};
use fairlink_net::Headers;
use fairlink_report::Delay;
use fairlink_traffic::{Model, PacketSize, SourceSpec};

use super::load::Load;
use super::paths::{BenchPath, SOURCE, through};
use super::{GatewayBenchConfig, GatewayBenchError};
use crate::addressing::FIRST_PORT;
use crate::generator::{Generator, GeneratorConfig, Lanes};
use crate::receiver::{Receiver, ReceiverConfig};
use crate::threads::{SetAtEnd, join};

/// Probes per second.
pub(super) const PROBES: u64 = 5_000;
/// Source port of the probes, which that of the load is not.
const PROBE_PORT: u16 = 4_999;
/// Time for the last frames to arrive.
const DRAIN: Duration = Duration::from_millis(50);
/// Time for which the load runs before the first probe.
const SETTLE: Duration = Duration::from_millis(20);

/// Result of one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delayed {
    pub(super) delay: Delay,
    /// Load that was sent, in frames per second, probes included.
    pub(super) load_pps: f64,
    pub(super) sent: u64,
    pub(super) balanced: bool,
}

/// Measures the delay of `path` for frames of `length` bytes, while `load_pps` of them pass, the probes included. Returns
/// `None` if no probe arrived.
pub(super) fn delay(
    config: &GatewayBenchConfig,
    path: BenchPath,
    length: u32,
    load_pps: f64,
    stop: &AtomicBool,
) -> Result<Option<Delayed>, GatewayBenchError> {
    let others = load_pps - PROBES as f64;
    let ((delay, sent, load_pps), account) = through(config, path, || {
        let mut receiving = ReceiverConfig::new(path.end());
        receiving.from_port = Some(PROBE_PORT);
        let receiver = Receiver::open(receiving)?;
        let generator = Generator::open(probes(length, config.round()))?;
        let mut load = (others > 0.0).then(|| Load::open(length, config.classes)).transpose()?;
        let (received, loaded) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| receiver.run(&received, |_| ()));
            let loading = load.as_mut().map(|load| scope.spawn(|| load.pace(others, &loaded)));
            let probed = {
                let _guards = [SetAtEnd(&received), SetAtEnd(&loaded)];
                std::thread::sleep(SETTLE);
                let probed = generator.run(stop, |_| ());
                loaded.store(true, Ordering::Relaxed);
                std::thread::sleep(DRAIN);
                probed
            };
            let load = loading.map(join).transpose()?;
            let received = join(receiving)?;
            let probed = probed?;
            let sent = probed.class(ClassId(1)).map_or(0, |class| class.sent_packets);
            let load_pps = load.map_or(0.0, |load| load.offered as f64 / (load.span.0.max(1) as f64 / 1e9));
            let delay = received.class(ClassId(1)).and_then(|class| class.delay_s);
            Ok((delay, sent, load_pps + sent as f64 / probed.duration_s))
        })
    })?;
    let balanced = account.gateway.is_none_or(|stats| stats.gateway().balanced);
    Ok(delay.map(|delay| Delayed { delay, load_pps, sent, balanced }))
}

fn probes(length: u32, span: Duration) -> GeneratorConfig {
    let mut headers = Headers::udp(FIRST_PORT);
    headers.ports.0 = PROBE_PORT;
    let source = SourceSpec {
        class: ClassId(1),
        model: Model::cbr_packets(PROBES * 1000),
        packet: PacketSize::Fixed(length),
        active: Vec::new(),
    };
    GeneratorConfig {
        interface: SOURCE.to_owned(),
        classes: vec![(ClassId(1), headers)],
        names: Default::default(),
        sources: vec![source],
        seed: 1,
        greedy_rate: Rate::MAX,
        duration: Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).min(3600 * NANOS_PER_SEC)),
        start_ns: None,
        run: 1,
        lanes: Lanes::Shared,
        fragment: false,
        kernel_stamps: false,
        cpu: None,
    }
}
