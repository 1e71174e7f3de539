//! TCP through the gateway and through the kernel's HTB on a bridge.

use std::sync::atomic::AtomicBool;

use fairlink_config::link::Gso;
use fairlink_core::QueueKind;
use fairlink_net::{BackendChoice, GatewayConfig};

use super::results::{SkippedFigure, Spread, TcpBench};
use super::{GatewayBenchConfig, GatewayBenchError};
use crate::demo::KERNEL_HTB;
use crate::netns::PrivateNamespace;
use crate::shared_tcp::{SharedTcp, SharedTcpError, SharedTcpStage, shared_config, shared_link};

/// What shares the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharer {
    KernelHtb,
    /// The gateway over packet sockets, with this value of `gso`.
    Gateway(Gso),
}

/// HTB is first, because the others are compared with it.
const SHARERS: [Sharer; 3] = [Sharer::KernelHtb, Sharer::Gateway(Gso::Whole(Gso::AUTO)), Sharer::Gateway(Gso::Split)];

impl Sharer {
    const fn name(self) -> &'static str {
        match self {
            Self::KernelHtb => KERNEL_HTB,
            Self::Gateway(_) => "af_packet",
        }
    }

    fn gso(self) -> Option<String> {
        match self {
            Self::KernelHtb => None,
            Self::Gateway(Gso::Split) => Some("split".to_owned()),
            Self::Gateway(_) => Some("auto".to_owned()),
        }
    }
}

/// Runs of one sharer with one number of connections.
#[derive(Debug, Default)]
struct Runs {
    goodputs: Vec<[f64; 3]>,
    of_htb: Vec<f64>,
    unbalanced: bool,
}

/// Measures, in rounds. What is not available is added to `skipped`.
pub(super) fn tcp(
    namespace: &PrivateNamespace,
    config: &GatewayBenchConfig,
    stop: &AtomicBool,
    skipped: &mut Vec<SkippedFigure>,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<TcpBench>, GatewayBenchError> {
    let mut skip = |what: &str, why: SharedTcpError| {
        skipped.push(SkippedFigure { what: format!("TCP {what}"), why: why.to_string() });
    };
    let stage = match SharedTcpStage::new(namespace) {
        Ok(stage) => stage,
        Err(why) => {
            skip("through all paths", why);
            return Ok(Vec::new());
        }
    };
    let places: Vec<(u32, Sharer)> =
        (config.tcp_connections.iter()).flat_map(|&connections| SHARERS.map(|sharer| (connections, sharer))).collect();
    let mut runs: Vec<Runs> = places.iter().map(|_| Runs::default()).collect();
    let mut has_htb = true;
    for round in 1..=config.rounds {
        let mut htb = None;
        for (&(connections, sharer), runs) in places.iter().zip(&mut runs) {
            if sharer == Sharer::KernelHtb {
                htb = None;
                if !has_htb {
                    continue;
                }
            }
            progress(&format!(
                "round {round} of {}: TCP, {connections} connections in each class, {}",
                config.rounds,
                sharer.name()
            ));
            let ran = run(&stage, config, sharer, connections, stop);
            config.check(stop)?;
            let (shared, balanced) = match ran {
                Ok(ran) => ran,
                Err(why @ (SharedTcpError::Bridge(_) | SharedTcpError::Htb(_))) => {
                    has_htb = false;
                    skip(&format!("through {}", sharer.name()), why);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let all: f64 = shared.goodput_bps.iter().sum();
            if sharer == Sharer::KernelHtb {
                htb = Some(all).filter(|&all| all > 0.0);
            }
            runs.of_htb.extend(htb.map(|htb| all / htb));
            runs.goodputs.push(shared.goodput_bps);
            runs.unbalanced |= !balanced;
        }
    }
    Ok(places.iter().zip(runs).filter_map(|(&place, runs)| runs.summary(config, place)).collect())
}

/// One run, and whether its account is exact.
fn run(
    stage: &SharedTcpStage,
    config: &GatewayBenchConfig,
    sharer: Sharer,
    connections: u32,
    stop: &AtomicBool,
) -> Result<(SharedTcp, bool), SharedTcpError> {
    let link = shared_link(config.tcp_bps, QueueKind::Fifo)?;
    match sharer {
        Sharer::KernelHtb => {
            let (shared, counts) = stage.over_bridge(Some(&link), connections, config.span, stop)?;
            let sent = |leaf: &_| counts.iter().any(|count| count.class == *leaf && count.sent_packets > 0);
            Ok((shared, link.leaves().iter().all(sent)))
        }
        Sharer::Gateway(gso) => {
            let backend = BackendChoice::AfPacket;
            let shared = shared_config(SharedTcpStage::PORTS, link, config.scheduler);
            let gateway = GatewayConfig { gso, backend, ..shared };
            let (shared, stats) = stage.over_gateway(gateway, connections, config.span, stop)?;
            Ok((shared, stats.gateway().balanced))
        }
    }
}

impl Runs {
    fn summary(self, config: &GatewayBenchConfig, (connections, sharer): (u32, Sharer)) -> Option<TcpBench> {
        let class = |class: usize| Spread::from_rounds(self.goodputs.iter().map(|goodput| goodput[class]));
        Some(TcpBench {
            link_bps: config.tcp_bps,
            connections,
            path: sharer.name().to_owned(),
            gso: sharer.gso(),
            goodput_bps: Spread::from_rounds(self.goodputs.iter().map(|goodput| goodput.iter().sum()))?,
            class_goodput_bps: [class(0)?, class(1)?, class(2)?],
            of_kernel_htb: Spread::from_rounds(self.of_htb),
            balanced: !self.unbalanced,
        })
    }
}
