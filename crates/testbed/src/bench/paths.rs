//! The paths between the two cables, each set up for one measurement and removed after it.

use std::io;
use std::sync::atomic::AtomicBool;

use fairlink_core::{ClassConfig, ClassId, Cores, Hierarchy, HierarchyError, LinkConfig, Rate, Share, Split};
use fairlink_net::{BackendChoice, BackendKind, Gateway, GatewayConfig, GatewayStats, Processor};

use super::{GatewayBenchConfig, GatewayBenchError};
use crate::addressing::{FIRST_PORT, default_matches};
use crate::bridge::Bridge;
use crate::counters::{PacketCounters, packet_counters};
use crate::demo::KERNEL_HTB;
use crate::kernel_htb::{KernelCount, KernelHtb};
use crate::shared_tcp::run_as_the_command_does;
use crate::threads::{SetAtEnd, join};
use crate::veth;

/// The sender's interface.
pub(super) const SOURCE: &str = "gen";
/// The input of the path, at the other end of the sender's cable.
const INPUT: &str = "in";
/// The output of the path.
const OUTPUT: &str = "out";
/// The other end of the output's cable.
const SINK: &str = "sink";
const BRIDGE: &str = "bridge";

/// Connection of the first cable to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchPath {
    /// Nothing: frames end at the first cable. It shows what sending costs.
    Cable,
    /// A bridge of the kernel.
    Bridge,
    /// A bridge of the kernel, with the kernel's HTB at its output.
    KernelHtb,
    /// The gateway.
    Gateway(BackendKind),
}

impl BenchPath {
    /// All, in the order of the report.
    pub const ALL: [Self; 5] = [
        Self::Cable,
        Self::Bridge,
        Self::KernelHtb,
        Self::Gateway(BackendKind::AfPacket),
        Self::Gateway(BackendKind::AfXdp),
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cable => "cable",
            Self::Bridge => "bridge",
            Self::KernelHtb => KERNEL_HTB,
            Self::Gateway(backend) => backend.name(),
        }
    }

    /// The interface at which frames arrive that have passed.
    pub(super) const fn end(self) -> &'static str {
        match self {
            Self::Cable => INPUT,
            _ => SINK,
        }
    }

    /// Frames that have arrived at the end of the path so far, and left its output.
    pub(super) fn passed(self) -> io::Result<Passed> {
        let arrived = packet_counters(self.end())?.received;
        let left = match self {
            Self::Cable => None,
            _ => Some(packet_counters(OUTPUT).map(|PacketCounters { sent, .. }| sent)?),
        };
        Ok(Passed { arrived, left })
    }
}

/// Frames that have passed a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) arrived: u64,
    pub(super) left: Option<u64>,
}

/// The account of what a path consists of.
#[derive(Debug, Default)]
pub(super) struct PathAccount {
    pub(super) gateway: Option<GatewayStats>,
    /// The kernel's counters of HTB's leaf classes.
    pub(super) htb: Vec<KernelCount>,
}

/// Creates the two cables.
pub(super) fn lay_cables() -> Result<(), GatewayBenchError> {
    veth::lay_cables(&[(SOURCE, INPUT), (OUTPUT, SINK)]).map_err(GatewayBenchError::Cables)
}

/// A link of 1 Tbit/s, so that only the machine limits.
fn link(config: &GatewayBenchConfig) -> Result<Hierarchy, HierarchyError> {
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1522, ..LinkConfig::new(Rate::MAX) });
    for _ in 0..config.classes {
        let share = Some(Share::Weight(1));
        tree.add(ClassId::ROOT, ClassConfig { share, ..ClassConfig::default() })?;
    }
    tree.build()
}

fn gateway_config(config: &GatewayBenchConfig, backend: BackendKind) -> Result<GatewayConfig, GatewayBenchError> {
    let tree = link(config)?;
    let matches = default_matches(tree.leaves())?;
    let default = tree.leaves()[0];
    Ok(GatewayConfig {
        matches,
        backend: match backend {
            BackendKind::AfPacket => BackendChoice::AfPacket,
            BackendKind::AfXdp => BackendChoice::AfXdp,
        },
        pacing: config.pacing,
        cores: Cores::new(config.cores, Split::Hub),
        processor: Processor::Last,
        ..GatewayConfig::new(INPUT, OUTPUT, config.scheduler, tree, default)
    })
}

/// Returns the reason why `path` is not available here.
pub(super) fn why_not(config: &GatewayBenchConfig, path: BenchPath) -> Result<Option<String>, GatewayBenchError> {
    let tried = match path {
        BenchPath::Gateway(backend) => {
            let gateway = Gateway::open(gateway_config(config, backend)?)?;
            let is_used = gateway.interfaces().iter().all(|interface| interface.backend == backend.name());
            let reasons = || {
                let all: Vec<String> =
                    gateway.notes().iter().filter(|note| note.contains("AF_PACKET")).cloned().collect();
                format!("the gateway {}", all.join("; "))
            };
            return Ok((!is_used).then(reasons));
        }
        _ => through(config, path, || Ok(())),
    };
    match tried {
        Ok(_) => Ok(None),
        Err(error @ (GatewayBenchError::Bridge(_) | GatewayBenchError::Htb(_))) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Does `work` while the path passes frames. Returns its result and the account of the path.
pub(super) fn through<T>(
    config: &GatewayBenchConfig,
    path: BenchPath,
    work: impl FnOnce() -> Result<T, GatewayBenchError>,
) -> Result<(T, PathAccount), GatewayBenchError> {
    let bridge = || Bridge::create(BRIDGE, [INPUT, OUTPUT]).map_err(GatewayBenchError::Bridge);
    match path {
        BenchPath::Cable => Ok((work()?, PathAccount::default())),
        BenchPath::Bridge => {
            let _bridge = bridge()?;
            Ok((work()?, PathAccount::default()))
        }
        BenchPath::KernelHtb => {
            let _bridge = bridge()?;
            let tree = link(config)?;
            let ports: Vec<_> = tree.leaves().iter().copied().zip(FIRST_PORT..).collect();
            let htb = KernelHtb::install_by_port(OUTPUT, &tree, &ports)?;
            let worked = work()?;
            let mut counts = htb.counters()?;
            counts.retain(|count| tree.is_leaf(count.class));
            Ok((worked, PathAccount { htb: counts, ..PathAccount::default() }))
        }
        BenchPath::Gateway(backend) => {
            let gateway = Gateway::open(gateway_config(config, backend)?)?;
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let running = scope.spawn(|| run_as_the_command_does(gateway, &stop));
                let worked = {
                    let _guard = SetAtEnd(&stop);
                    work()
                };
                let stats = join(running)?;
                Ok((worked?, PathAccount { gateway: Some(stats), ..PathAccount::default() }))
            })
        }
    }
}
