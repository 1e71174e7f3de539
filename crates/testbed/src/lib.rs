#![cfg_attr(target_os = "linux", doc = include_str!("../README.md"))]
//!
//! On other systems than Linux the crate only has the plan and the outcome of a demo, and the report of two clocks.
//!
//! # Unsafe code
//! Unsafe code is at system calls. Each block states why it is sound.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod clock_report;
mod demo;

#[cfg(target_os = "linux")]
mod addressing;
#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
mod bridge;
#[cfg(target_os = "linux")]
mod counters;
#[cfg(target_os = "linux")]
mod departures;
#[cfg(target_os = "linux")]
mod generator;
#[cfg(target_os = "linux")]
mod kernel_htb;
#[cfg(target_os = "linux")]
mod lost_processor;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod netns;
#[cfg(target_os = "linux")]
mod ping;
#[cfg(target_os = "linux")]
mod reassembly;
#[cfg(target_os = "linux")]
mod receiver;
#[cfg(target_os = "linux")]
mod scripted;
#[cfg(target_os = "linux")]
mod shared_tcp;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod tally;
#[cfg(target_os = "linux")]
mod tcp;
#[cfg(target_os = "linux")]
mod threads;
#[cfg(target_os = "linux")]
mod veth;

pub use clock_report::{ClockReport, JumpReport, KnownValue, SampledDelays, StretchReport, UndecidedReport};
pub use demo::{
    Accounting, DemoOutcome, DemoPlan, DemoProgress, DemoRun, KERNEL_HTB, LiveRate, PlanPhase, Skipped, demo_rate,
};
#[cfg(target_os = "linux")]
pub use {
    addressing::{AddressingError, FrameChoice, MAX_FLOWS, default_matches, flow_headers, headers_for},
    bench::{
        BenchPath, GatewayBench, GatewayBenchConfig, GatewayBenchError, GatewayPart, GatewayThroughput, PathBench,
        PathCounts, PathDelay, SkippedFigure, Spread, TcpBench, gateway_bench, gateway_throughput,
    },
    bridge::Bridge,
    counters::{PacketCounters, packet_counters},
    generator::{ClassSent, Generator, GeneratorConfig, GeneratorError, GeneratorProgress, GeneratorReport, Lanes},
    kernel_htb::{KernelCount, KernelHtb, TcError},
    lost_processor::{LIMIT_FOR_ANSWERS, LIMIT_FOR_FRAMES, LostProcessor},
    netns::{NamespaceError, PrivateNamespace, enter_private_namespace},
    ping::{PingError, PingPlan, PingRun, PingStage, RoundTrips},
    reassembly::{ClassDatagrams, Datagrams},
    receiver::{Receiver, ReceiverConfig, ReceiverError, Window},
    scripted::{InterfaceReport, NoInterface, run_together, script_generators},
    shared_tcp::{SHARED_PERCENT, SharedTcp, SharedTcpError, SharedTcpStage, USER_DATA, shared_config, shared_link},
    stage::{DemoError, Shaper, Stage},
    tally::{DelayClock, Delivered, FlowReport, ReceiverReport, Seen, SenderClock},
    tcp::{TcpClient, TcpClientReport, TcpConfig, TcpError, TcpExchange, TcpServer, TcpServerReport},
    veth::{default_offloads, lay_cables},
};
