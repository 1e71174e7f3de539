//! Errors of the start of a gateway.

use std::fmt;

use fairlink_config::units::{memory_key, show_memory};
use fairlink_core::{BuildError, HierarchyError, OutOfMemory, PoolError};
use thiserror::Error;

use crate::io::backend::BackendError;
use crate::io::frame_pool::FramePoolError;
use crate::io::interface::InterfaceError;

/// Holder of the claim on an interface, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimHolder {
    /// The user, in this process's user namespace.
    pub user: u32,
    /// The process. `None` if this process may not see it.
    pub process: Option<u32>,
}

impl fmt::Display for ClaimHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(f, "process {process} of user {}", self.user),
            None => write!(f, "a process of user {}", self.user),
        }
    }
}

/// Formats the holder in brackets.
fn held_by(holder: Option<&ClaimHolder>) -> String {
    holder.map(|holder| format!(" ({holder})")).unwrap_or_default()
}

/// Error of the start of a gateway, which the user can correct.
#[derive(Debug, Error)]
pub enum OpenError {
    /// An interface cannot be used.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// An interface cannot be opened.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A pool that links of this process share cannot honour its members' guarantees.
    #[error("pool \"{pool}\": {error}; lower a guarantee, or raise the pool's rate in the file")]
    Pool {
        /// The pool.
        pool: String,
        /// The fault.
        error: PoolError,
    },
    /// Input and output are the same.
    #[error("input and output are both {name}; a gateway needs two interfaces")]
    SameInterface {
        /// The name given twice.
        name: String,
    },
    /// Another gateway forwards the received frames of this interface.
    #[error(
        "another gateway is already running on interface {name}{}: every frame would be forwarded twice; stop that one, or shape \
         the other direction with --no-reverse at both; --take-over takes its place without a break (--force starts anyway)",
        held_by(.holder.as_ref())
    )]
    Taken {
        /// The interface.
        name: String,
        /// Holder of the claim. `None`: the kernel does not report it.
        holder: Option<ClaimHolder>,
    },
    /// Another gateway shapes the host's own frames for this interface.
    #[error(
        "another gateway already shapes this host's traffic on {name}{}; stop that one, or take its place without a break (--take-over)",
        held_by(.holder.as_ref())
    )]
    OwnTrafficTaken {
        /// The interface.
        name: String,
        /// Holder of the claim. `None`: the kernel does not report it.
        holder: Option<ClaimHolder>,
    },
    /// Another gateway was asked to leave and has not left.
    #[error(
        "the gateway running on interface {name}{} was asked to leave but has not within {} s; it may belong to another user or be an older version: stop it, then start this one",
        held_by(.holder.as_ref()),
        .waited.as_secs()
    )]
    NotLeft {
        /// The interface.
        name: String,
        /// Holder of the claim. `None`: the kernel does not report it.
        holder: Option<ClaimHolder>,
        /// Time waited.
        waited: std::time::Duration,
    },
    /// Fail-open was required but is not possible.
    #[error(
        "cannot fail open, which --fail-open require demands: {why}; with --fail-open auto or never the gateway starts, but no frame passes while it does not run"
    )]
    FailOpen {
        /// The reason.
        why: String,
    },
    /// The host's own frames cannot be redirected.
    #[error("this host's traffic on {name} cannot be redirected: {why}")]
    OwnTraffic {
        /// The interface.
        name: String,
        /// The reason.
        why: String,
    },
    /// The cable for the host's own frames cannot be created, or removed.
    #[error(
        "the cable between {} and {} for this host's traffic cannot be created or removed: {source}{}", .ends[0], .ends[1],
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "; that needs CAP_NET_ADMIN (`setcap cap_net_raw,cap_net_admin,cap_bpf+ep`)",
            Some(libc::EOPNOTSUPP) => "; this kernel is built without veth (CONFIG_VETH)",
            _ => "",
        }
    )]
    Cable {
        /// Names of its two ends.
        ends: [String; 2],
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// A foreign interface has the name that the cable needs.
    #[error(
        "interface {name} is in the way: to shape this host's traffic on {of}, a gateway creates an interface of that name, but this one is foreign; rename it (`ip link set {name} name OTHER`), or remove it (`ip link delete {name}`)"
    )]
    InTheWay {
        /// The interface.
        name: String,
        /// The interface whose frames are to be shaped.
        of: String,
    },
    /// The kernel also forwards the received frames of this interface.
    #[error(
        "interface {name} is a port of {master}, which forwards its frames too: they would be doubled, half of them unshaped; \
         take it out with `ip link set {name} nomaster` (--force starts anyway)"
    )]
    Bridged {
        /// The interface.
        name: String,
        /// The bridge, bond or the like.
        master: String,
    },
    /// The two interfaces are the ends of one cable.
    #[error(
        "interfaces {input} and {output} are the two ends of one cable: frames would loop for ever; a gateway connects two cables (--force starts anyway)"
    )]
    SameCable {
        /// The input.
        input: String,
        /// The output.
        output: String,
    },
    /// The kernel answers for addresses of a port.
    #[error(
        "interface {name} has the address {}: the kernel would also answer frames that the gateway forwards, and send its own \
         past the scheduler; remove it with `ip address flush dev {name}` (--force starts anyway)",
        .addresses.join(", ")
    )]
    Addressed {
        /// The interface.
        name: String,
        /// Its addresses.
        addresses: Vec<String>,
    },
    /// Offloads join packets, and joined packets cannot be split.
    #[error(
        "interface {name} joins packets before the gateway sees them ({}), and the kernel does not report how to split them; turn that off with `ethtool -K {name} {}`, or \
         let the gateway do it while it runs (--fix-offloads)",
        .offloads.join(", "),
        .offloads.iter().map(|name| format!("{name} off")).collect::<Vec<_>>().join(" ")
    )]
    Offloads {
        /// The interface.
        name: String,
        /// Those that are on.
        offloads: Vec<&'static str>,
    },
    /// The scheduler cannot run with these classes.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A class that gets frames is not a leaf.
    #[error("class {name} gets frames but is not a leaf; only classes without children have queues")]
    NotALeaf {
        /// Its name.
        name: String,
    },
    /// The interfaces' frames are longer than any link may carry.
    #[error("the interfaces' frames do not fit: {0}; lower their mtu")]
    Frames(#[from] HierarchyError),
    /// The packet pool is out of range.
    #[error("{0}; lower the queue limits, or the interfaces' mtu")]
    FramePool(#[from] FramePoolError),
    /// The packet pool is smaller than the queues' limits.
    #[error("a packet pool of {frames} frames is too small: queues of up to {queued} packets need {needed}")]
    PoolTooSmall {
        /// Configured number of frames.
        frames: u32,
        /// Most packets that the queues may hold.
        queued: u32,
        /// The least number of frames.
        needed: u32,
    },
    /// The scheduler and the packet pool would exceed the memory limit.
    #[error(
        "{scheduler} and a packet pool of {frames} frames take {}, and {} are allowed; lower buffer in [link], or raise memory \
         in [link] (memory = \"{}\")",
        show_memory(*needed), show_memory(*limit), memory_key(*needed)
    )]
    TooMuchMemory {
        /// The scheduler.
        scheduler: &'static str,
        /// Frames in the pool.
        frames: u32,
        /// Bytes of both.
        needed: u64,
        /// Bytes that are allowed.
        limit: u64,
    },
    /// There is no memory for the scheduler's counters or for a batch of packets.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// More threads than processors.
    #[error(
        "{cores} cores for {link}: this process may use {} ({}); lower cores in [link] or --cores, or allow it more",
        match .processors.len() { 1 => "1 processor".to_owned(), count => format!("{count} processors") },
        .processors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Cores {
        /// The link.
        link: String,
        /// The number asked for.
        cores: u16,
        /// Processors that this process may use.
        processors: Vec<usize>,
    },
    /// Several cores, where a gateway has one.
    #[error("{cores} cores for {link}, with split \"{split}\": {why}")]
    Split {
        /// The link.
        link: String,
        /// The number asked for.
        cores: u16,
        /// The way in which they share the link.
        split: &'static str,
        /// The reason, with the action to take.
        why: &'static str,
    },
    /// The workers cannot be prepared.
    #[error("cannot prepare threads that receive and send: {0}")]
    Workers(std::io::Error),
    /// There is no such processor, or this process may not use it.
    #[error("processor {processor} cannot be used: {source}")]
    Processor {
        /// The number given.
        processor: usize,
        /// The kernel's answer.
        source: std::io::Error,
    },
}
