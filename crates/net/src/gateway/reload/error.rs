//! Errors of a change of a running gateway.

use fairlink_config::units::{show_bps, show_memory};
use fairlink_core::{HierarchyError, ReconfigureError};
use thiserror::Error;

use crate::gateway::open_error::OpenError;
use crate::gateway::remote_error::RemoteError;

/// The reason why a running gateway was not changed. It continues as before.
#[derive(Debug, Error)]
pub enum ReloadError {
    /// The link file is invalid; one problem per line.
    #[error("{0}")]
    File(String),
    /// The gateway cannot run with it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The scheduler cannot be built, or cannot take over.
    #[error(transparent)]
    Build(#[from] ReconfigureError),
    /// The number of cores differs.
    #[error(
        "cores of [link] is {wanted}, and the gateway was started with {running}; start it anew (--take-over, nothing is lost where it fails open)"
    )]
    Cores {
        /// The number in the file.
        wanted: u16,
        /// The number of cores that share the link now.
        running: u16,
    },
    /// There is no file to read again.
    #[error("this gateway was not started from a link file; name one")]
    NoFile,
    /// The file has several links, but not this one.
    #[error("the file has no link {name:?}; there are: {}", .links.join(", "))]
    NoLink {
        /// The name of this link.
        name: String,
        /// Those of the file.
        links: Vec<String>,
    },
    /// The process may lack the memory for preparing the change.
    #[error(
        "reading and preparing it takes up to {}, and this process may not have so much: its limit is too low (RLIMIT_AS, `ulimit -v`); \
         raise that, or ask for fewer classes",
        show_memory(*needed)
    )]
    NoRoom {
        /// Upper bound on the memory in bytes.
        needed: u64,
    },
    /// The queues need more frames than there is room for.
    #[error(
        "queues of up to {queued} packets need a packet pool of {needed} frames, and there is room for {room}, which was reserved when the \
         gateway started; lower buffer in [link], or start the gateway anew"
    )]
    PoolRoom {
        /// Most packets that the queues may hold.
        queued: u32,
        /// Frames that they need.
        needed: u32,
        /// Frames that the pool has room for.
        room: u32,
    },
    /// The queues need more frames than were registered with the kernel.
    #[error(
        "queues of up to {queued} packets need a packet pool of {needed} frames; with AF_XDP it has {frames}, which the kernel was told when \
         the gateway started, and cannot grow; lower buffer in [link], or start the gateway anew (--take-over, nothing is lost \
         where it fails open), with --pool-frames {needed} or --backend af_packet to have room"
    )]
    PoolFixed {
        /// Most packets that the queues may hold.
        queued: u32,
        /// Frames that they need.
        needed: u32,
        /// Frames of the pool.
        frames: u32,
    },
    /// A class whose packets are to move, or that is to get them, does not exist.
    #[error("there is no class {name} {when} the change; {}", known(.classes))]
    NoClass {
        /// The name given.
        name: String,
        /// Before or after the change.
        when: &'static str,
        /// The existing names.
        classes: Vec<String>,
    },
    /// A class with children has no packets.
    #[error("{name} is not a leaf {when} the change; only classes without children have packets")]
    NotALeaf {
        /// The name given.
        name: String,
        /// Before or after the change.
        when: &'static str,
    },
    /// The packets of a class that stays cannot move.
    #[error("{name} is still there after the change and keeps its packets; leave it out of what is moved")]
    Stays {
        /// The name given.
        name: String,
    },
    /// The packets of a class can move to one class only.
    #[error("{name} is moved twice; its packets can go to one class only")]
    MovedTwice {
        /// The name given.
        name: String,
    },
    /// The class has no such rate.
    #[error("{name} has no guarantee but a weight, or shares equally; give it a guarantee in the link file")]
    NoGuarantee {
        /// The class.
        name: String,
    },
    /// The guarantees exceed the link's rate or that of the parent.
    #[error("{parent} has {}, and its children are guaranteed {} together: raise {parent} first, or lower one of them", show_bps(*parent_bps), show_bps(*children_bps))]
    Guarantees {
        /// The class whose children have too much.
        parent: String,
        /// Its own guarantee in bit/s.
        parent_bps: u64,
        /// Sum of its children's guarantees in bit/s.
        children_bps: u64,
    },
    /// A guarantee above the ceiling.
    #[error("{name} cannot have a guarantee of {} below a ceiling of {}", show_bps(*guarantee_bps), show_bps(*ceiling_bps))]
    Ceiling {
        /// The class.
        name: String,
        /// Its guarantee in bit/s.
        guarantee_bps: u64,
        /// Its ceiling in bit/s.
        ceiling_bps: u64,
    },
    /// The classes are no valid tree.
    #[error(transparent)]
    Tree(HierarchyError),
    /// Another change is being prepared.
    #[error("another change of this gateway is under way; try again")]
    Busy,
    /// The data thread did not begin with it, or has ended.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

fn known(classes: &[String]) -> String {
    const MOST: usize = 20;
    let more = if classes.len() > MOST { ", ..." } else { "" };
    format!("there are {}{more}", classes[..classes.len().min(MOST)].join(", "))
}
