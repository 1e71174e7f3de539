//! The queueing discipline of the kernel module, told by netlink what a link file says and asked what has passed. No other program is
//! needed. The messages are those of rtnetlink(7), `linux/pkt_sched.h`, and `kernel/module/sched.h` for what is ours.

mod labels;
mod messages;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;

use fairlink_core::{Amount, Nanos};
use fairlink_qdisc::{LabelError, WriteError};
use thiserror::Error;

use crate::io::{netlink, sys};

pub use labels::{QdiscPlan, plan};

/// What the module is called in tc.
pub(crate) const QDISC: &str = "fairlink";
/// What a queueing discipline is called whose scheduler panicked: its packets pass through a FIFO.
pub(crate) const BROKEN: &str = "fairlink-broken";
/// Lateness that the kernel's link makes up for where nobody says otherwise.
pub const QDISC_CATCH_UP: Nanos = Nanos(1_000_000);
/// By how much its timer may be late where nobody says otherwise.
pub const QDISC_SLACK: Nanos = Nanos(10_000);

/// Why the kernel has no queueing discipline now, or still the old one.
#[derive(Debug, Error)]
pub enum QdiscError {
    /// The interface.
    #[error("there is no interface {interface:?}: {source}; `ip link` lists them")]
    Interface {
        /// Its name.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused, and said why.
    #[error("the kernel refuses it on {interface}: {said} ({source})")]
    Refused {
        /// The interface.
        interface: String,
        /// What it said.
        said: String,
        /// The error number.
        source: io::Error,
    },
    /// The kernel does not know the module.
    #[error(
        "this kernel has no queueing discipline \"{QDISC}\": load the module with `modprobe sch_{QDISC}` (docs/kernel.md)"
    )]
    NoModule,
    /// The user may not.
    #[error("queueing disciplines of {interface} may be changed by root alone (CAP_NET_ADMIN)")]
    Permission {
        /// The interface.
        interface: String,
    },
    /// There is none of ours.
    #[error(
        "{interface} has no queueing discipline \"{QDISC}\" at its root; `tc qdisc show dev {interface}` shows what it has"
    )]
    NotThere {
        /// The interface.
        interface: String,
    },
    /// There is one already.
    #[error(
        "{interface} has a queueing discipline at its root already: use `fairlink qdisc change`, or `fairlink qdisc del` before"
    )]
    There {
        /// The interface.
        interface: String,
    },
    /// Another failure.
    #[error("cannot ask the kernel: {0}")]
    Io(#[from] io::Error),
    /// The configuration does not fit.
    #[error("{0}; share the link by fewer classes, or with the gateway")]
    Write(#[from] WriteError),
    /// Numbers of classes.
    #[error("{0}")]
    Label(#[from] LabelError),
}

/// What the kernel says of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QdiscClass {
    /// Its minor number.
    pub minor: u16,
    /// That of its parent, 0 for the link.
    pub parent: u16,
    /// As in the link file.
    pub name: String,
    /// Whether it is a leaf.
    pub leaf: bool,
    /// What it has if all classes have something to send, in bit/s.
    pub rate_bps: u64,
    /// What came.
    pub received: Amount,
    /// What was sent.
    pub sent: Amount,
    /// What was dropped.
    pub dropped: Amount,
    /// What was marked as having met congestion.
    pub marked: Amount,
    /// What waits.
    pub queued: Amount,
    /// Bytes borrowed from above (a leaf) or lent to those below, where the scheduler counts them.
    pub lent_bytes: Option<u64>,
}

/// What the kernel says of a queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QdiscState {
    /// Its major number.
    pub major: u16,
    /// The scheduler.
    pub scheduler: String,
    /// Why packets pass through a FIFO instead, if they do.
    pub broken: Option<String>,
    /// The link's rate in bit/s.
    pub rate_bps: u64,
    /// The minor number of the default class.
    pub default: Option<u16>,
    /// What was sent.
    pub sent: Amount,
    /// Packets dropped.
    pub dropped: u64,
    /// What waits.
    pub queued: Amount,
    /// Super-frames that were longer than the link's longest packet and were queued as the packets that they stand for.
    pub super_frames: u64,
    /// The classes, parents before children.
    pub classes: Vec<QdiscClass>,
}

/// The root of an interface.
#[derive(Debug)]
pub struct QdiscRoot {
    interface: String,
    index: i32,
    socket: OwnedFd,
}

impl QdiscRoot {
    /// Of the interface of this name.
    ///
    /// # Errors
    /// No such interface, or no netlink.
    pub fn of(interface: &str) -> Result<Self, QdiscError> {
        let index = sys::interface_index(interface)
            .map_err(|source| QdiscError::Interface { interface: interface.to_owned(), source })?;
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        let on: libc::c_int = 1;
        // Errors come with a text, and without the request, which may be longer than any buffer.
        sys::set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, &on)?;
        sys::set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, &on)?;
        Ok(Self { interface: interface.to_owned(), index, socket })
    }

    /// Puts a link there.
    ///
    /// # Errors
    /// [`QdiscError`]; what was there before stays.
    pub fn add(&self, plan: &QdiscPlan) -> Result<(), QdiscError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.ask(messages::set(self.index, plan.major, Some(&plan.bytes), flags))
    }

    /// Changes the link that is there, while packets are queued. Classes of the same number keep theirs.
    ///
    /// # Errors
    /// [`QdiscError`]; what was there before stays.
    pub fn change(&self, plan: &QdiscPlan) -> Result<(), QdiscError> {
        self.ask(messages::set(self.index, plan.major, Some(&plan.bytes), 0))
    }

    /// Takes the link away; the interface has its default again. What waits is dropped.
    ///
    /// # Errors
    /// [`QdiscError`].
    pub fn delete(&self) -> Result<(), QdiscError> {
        let state = self.own()?;
        self.ask(messages::delete(self.index, state.major))
    }

    /// What the kernel says of it.
    ///
    /// # Errors
    /// [`QdiscError::NotThere`] where there is another queueing discipline or none.
    pub fn show(&self) -> Result<QdiscState, QdiscError> {
        let mut state = self.own()?;
        for body in netlink::dump(&messages::classes(self.index))? {
            state.classes.extend(messages::class(&body, self.index, state.major));
        }
        Ok(state)
    }

    /// The queueing discipline without its classes.
    fn own(&self) -> Result<QdiscState, QdiscError> {
        let all = netlink::dump(&messages::disciplines(self.index))?;
        let mut ours = all.iter().filter_map(|body| messages::discipline(body, self.index));
        ours.next().ok_or_else(|| QdiscError::NotThere { interface: self.interface.clone() })
    }

    fn ask(&self, message: Vec<u8>) -> Result<(), QdiscError> {
        netlink::send(&self.socket, &message)?;
        let answer = netlink::receive(&self.socket)?;
        let Err(source) = netlink::acknowledgement(&answer) else { return Ok(()) };
        let interface = self.interface.clone();
        let said = messages::said(&answer);
        Err(match (said, source.raw_os_error()) {
            (Some(said), _) if said.contains("qdisc kind is unknown") => QdiscError::NoModule,
            (_, Some(libc::EPERM)) => QdiscError::Permission { interface },
            (_, Some(libc::EEXIST)) => QdiscError::There { interface },
            (Some(said), _) => QdiscError::Refused { interface, said, source },
            (None, Some(libc::ENOENT)) => QdiscError::NotThere { interface },
            (None, _) => QdiscError::Io(source),
        })
    }
}
