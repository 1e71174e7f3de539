#![cfg_attr(target_os = "linux", doc = include_str!("../README.md"))]
//!
//! # Rooms
//! | room | what is in it |
//! | --- | --- |
//! | `gateway` | [`Gateway`]: its configuration, its data path, its statistics, its control socket |
//! | `io` | interfaces, sockets, the pool of frames, clocks, pacing |
//! | `wire` | frames as bytes: read, marked, written |
//! | `qdisc` | [`QdiscPlace`]: the kernel module, told by netlink what a link file says |
//! | `sandbox` | [`Sandbox`] of scripts that are run to see their commands |
//! | `testbed` | [`Generator`], [`Receiver`], namespaces, virtual cables, [`PingStage`], the kernel's HTB, the [`Stage`] of a demo, the bench |
//! | `demo` | [`DemoPlan`] and [`DemoOutcome`], which need no packets |
//!
//! Linux only: on other systems the crate has `demo` and [`Unsupported`].
//!
//! # Unsafe code
//! Unsafe code lives here, at system calls and at the allocator that asks for huge pages (the core has one prefetch instruction). Each block says why it is sound.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod clock_report;
mod demo;
#[cfg(target_os = "linux")]
mod gateway;
#[cfg(target_os = "linux")]
mod io;
#[cfg(target_os = "linux")]
mod qdisc;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod sandbox;
#[cfg(target_os = "linux")]
mod testbed;
#[cfg(target_os = "linux")]
mod wire;

pub use clock_report::{ClockReport, JumpReport, KnownValue, SampledDelays, StretchReport};
pub use demo::{
    Accounting, DemoOutcome, DemoPhase, DemoPlan, DemoProgress, DemoRate, DemoRun, KERNEL_HTB, LiveRate, PlanPhase,
    Skipped,
};
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub use sandbox::{SANDBOX_USER, Sandbox, SandboxError, end_process_group};
#[cfg(target_os = "linux")]
pub use {
    fairlink_config::matching::Classifier,
    gateway::control::recording::{Ended, Recorded, Recording, RecordingError, RecordingLimits},
    gateway::control::{self, Control, ControlError, Watch},
    gateway::{
        BackendChoice, ClaimHolder, ClassChange, Committed, Dropped, FailOpen, FailOpenStats, Fate, Fleet, FleetError,
        Gateway, GatewayConfig, GatewayExtension, GatewayState, GatewayStats, InterfaceStats, LinkChange, LinkEnd,
        Links, LivenessStats, LogEvent, LongFrames, MemoryBound, Metrics, MetricsError, OffloadPolicy, OpenError,
        Planner, Pools, Privileges, Processor, ReloadError, ReloadRequest, Reloaded, ReloadedLink, ReloadedLinks,
        Remote, RemoteError, ReverseStats, RunError, Service, Severity, StatsContent, TimeShares, Vitals, Wanted,
        Watchdog, close_wires, has_room_to_read, remove_cables,
    },
    io::af_packet::{AfPacket, AfPacketOptions},
    io::backend::{Arrival, Backend, BackendCounters, BackendError, Condition, Sent},
    io::ethtool::{Offload, set_offload},
    io::frame_pool::{FrameInfo, FramePool, FramePoolError},
    io::heap::return_freed_memory,
    io::huge_pages::HugePages,
    io::interface::{self, Interface, InterfaceError, Offloads},
    io::pacing::Pacing,
    io::port::BackendKind,
    qdisc::{
        LeftOut, QDISC_CATCH_UP, QDISC_SLACK, QdiscClass, QdiscContent, QdiscError, QdiscExtension, QdiscFilters,
        QdiscPlace, QdiscPlan, QdiscReport, QdiscState, QdiscTotals, Unspoken, filters as qdisc_filters,
        plan as qdisc_plan,
    },
    testbed::addressing::{AddressingError, FrameChoice, MAX_FLOWS, default_matches, flow_headers, headers_for},
    testbed::bench::{
        GatewayBench, GatewayBenchConfig, GatewayBenchError, GatewayBenchResult, GatewayThroughput, gateway_bench,
        gateway_throughput,
    },
    testbed::generator::{
        ClassSent, Generator, GeneratorConfig, GeneratorError, GeneratorProgress, GeneratorReport, Lanes,
    },
    testbed::kernel_htb::{KernelCount, KernelHtb, TcError},
    testbed::netns::{NamespaceError, PrivateNamespace, enter_private_namespace},
    testbed::ping::{PingError, PingPlan, PingRun, PingStage, RoundTrips},
    testbed::reassembly::{ClassDatagrams, Datagrams},
    testbed::receiver::{Receiver, ReceiverConfig, ReceiverError, Window},
    testbed::scripted::{InterfaceReport, NoInterface, run_together, script_generators},
    testbed::stage::{DemoError, Sharer, Stage},
    testbed::tally::{DelayClock, Delivered, FlowReport, ReceiverReport, Seen, SenderClock},
    testbed::tcp::{TcpClient, TcpClientReport, TcpConfig, TcpError, TcpExchange, TcpServer, TcpServerReport},
    testbed::veth::lay_cables,
    wire::checksum::{Unfinished, complete as complete_checksum},
    wire::frame::{Addresses, Headers, PlainFrames, Transport},
    wire::labels::{is_ecn_capable, mark_congestion},
    wire::segments::{MOST_SEGMENTS, Segments, Unsplittable},
    wire::virtio::VirtioHeader,
};

/// Real packets need Linux, and this is another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("real packets need Linux; `fairlink sim` runs everywhere")]
pub struct Unsupported;
