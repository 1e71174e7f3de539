#![cfg_attr(target_os = "linux", doc = include_str!("../README.md"))]
//!
//! # Modules
//! | module | contents |
//! | --- | --- |
//! | `gateway` | [`Gateway`]: its configuration, its data path, its statistics, its control socket |
//! | `io` | interfaces, sockets, the pool of frames, clocks, pacing |
//! | `wire` | frames as bytes: parsing, marking, writing |
//! | `qdisc` | [`QdiscPlace`]: the kernel module, configured from a link file over netlink |
//! | `sandbox` | [`Sandbox`] for scripts that are run to collect their commands |
//!
//! Linux only: on other systems the crate has [`Unsupported`] alone. `fairlink-testbed` has a generator, a receiver and
//! private namespaces for tests.
//!
//! # Unsafe code
//! Unsafe code is here, at system calls and at the allocator that requests huge pages (the core has one prefetch
//! instruction). Each block states why it is sound.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

#[cfg(target_os = "linux")]
mod gateway;
#[cfg(target_os = "linux")]
mod io;
#[cfg(target_os = "linux")]
mod qdisc;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod sandbox;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub use sandbox::{SANDBOX_USER, Sandbox, SandboxError, end_process_group};
#[cfg(target_os = "linux")]
pub use {
    fairlink_config::matching::Classifier,
    gateway::control::recording::{Ended, Recorded, Recording, RecordingError, RecordingLimits},
    gateway::control::{self, Control, ControlError, Watch},
    gateway::early::{drops_by_class, frames_in_front},
    gateway::{
        AcceptFailures, BackendChoice, ClaimHolder, ClassChange, ClassFilter, ClassMoment, Committed, Dropped,
        FailOpen, FailOpenStats, Fate, Fleet, FleetError, Gateway, GatewayConfig, GatewayExtension, GatewayState,
        GatewayStats, InterfaceStats, LinkChange, LinkEnd, LinkMoment, Links, LivenessStats, LogEvent, LongFrames,
        MemoryBound, Moment, Observer, OffloadPolicy, OpenError, Planner, Pools, Privileges, Processor, ReloadError,
        ReloadRequest, Reloaded, ReloadedLink, ReloadedLinks, Remote, RemoteError, ReverseStats, RunError, Service,
        Severity, StatsContent, TimeShares, Vitals, Wanted, Watchdog, close_wires, has_room_to_read, remove_cables,
    },
    io::af_packet::{AfPacket, AfPacketOptions},
    io::backend::BackendKind,
    io::backend::{Arrival, Backend, BackendCounters, BackendError, Condition, LONGEST_SUPER_FRAME, Rest, Sent},
    io::clock::{Clock, MonotonicClock, realtime_ns, realtime_offset_ns},
    io::ethtool::{Offload, set_offload},
    io::frame_pool::{FrameInfo, FramePool, FramePoolError},
    io::heap::return_freed_memory,
    io::huge_pages::HugePages,
    io::interface::{self, Interface, InterfaceError, Offloads},
    io::pacing::{Pacing, wake_punctually},
    io::priority::{RAISED_NICE, nice, raise_priority, set_nice},
    qdisc::{
        LeftOut, QDISC_CATCH_UP, QDISC_SLACK, QdiscClass, QdiscContent, QdiscError, QdiscExtension, QdiscFilters,
        QdiscPlace, QdiscPlan, QdiscReport, QdiscState, QdiscTotals, Unspoken, filters as qdisc_filters,
        plan as qdisc_plan,
    },
    wire::checksum::{Unfinished, complete as complete_checksum},
    wire::frame::split::Cut,
    wire::frame::{
        Addresses, DEFAULT_DESTINATION, DEFAULT_SOURCE, FrameTemplate, Headers, MAX_CLASS, MAX_FRAME, MAX_HEADERS,
        PlainFrames, Stamp, Transport,
    },
    wire::labels::{is_ecn_capable, mark_congestion},
    wire::segments::{MOST_SEGMENTS, Origin, Segments, Unsplittable},
    wire::virtio::VirtioHeader,
};

/// Links that move packets in memory, for tests of servers.
#[cfg(all(target_os = "linux", any(test, feature = "testing")))]
pub use gateway::playing;

/// Interfaces, sockets and netlink messages that `fairlink-testbed` uses, too. Thin wrappers of system calls without
/// further checks.
#[cfg(target_os = "linux")]
pub mod system {
    pub use crate::io::ethtool::turn_off;
    pub use crate::io::netlink::{NETLINK_HEADER, acknowledgement, address, push_attribute, request};
    pub use crate::io::packet_socket;
    pub use crate::io::sys::{
        Plain, check, interface_index, interface_mtu, option, pin_thread, set_interface_up, set_option, socket,
        wait_readable,
    };
    pub use crate::io::veth::{Pair, move_to, wait_until_running};
}

/// Real packets need Linux, and this is another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("real packets need Linux; `fairlink sim` runs everywhere")]
pub struct Unsupported;
