//! Controls the queueing discipline of the kernel module over netlink: installs a link file, changes it and reads its
//! counters. Needs no other program. The messages are those of rtnetlink(7), `linux/pkt_sched.h`, and
//! `kernel/module/sched.h` for the module's own.

mod filters;
mod labels;
mod messages;
mod state;
#[cfg(test)]
mod tests;

use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use fairlink_config::Classid;
use fairlink_core::Nanos;
use fairlink_schema::qdisc::{LabelError, MAX_ATTRIBUTE, MAX_MINOR, WriteError};
use thiserror::Error;

use crate::io::{netlink, sys};
use filters::Present;
use messages::{Discipline, Handed};

pub use filters::{LeftOut, QdiscFilters, Unspoken, filters};
pub use labels::{QdiscPlan, plan};
pub use state::{QdiscClass, QdiscContent, QdiscExtension, QdiscReport, QdiscState, QdiscTotals};

/// Name of the module's queueing discipline in tc.
pub(crate) const QDISC: &str = "fairlink";
/// Name of the queueing discipline after its scheduler panicked: its packets pass through a FIFO.
pub(crate) const BROKEN: &str = "fairlink-broken";
/// Default catch-up: lateness that the kernel's link makes up for.
pub const QDISC_CATCH_UP: Nanos = Nanos(1_000_000);
/// Default timer slack: permitted lateness of the module's timer.
pub const QDISC_SLACK: Nanos = Nanos(10_000);

/// Attempts to read a consistent set of classes while they change.
const READINGS: usize = 5;

/// Error of an operation on the kernel's queueing discipline. After a failed change the old one stays.
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
    /// The kernel refused, with a reason.
    #[error("the kernel refuses the queueing discipline on {interface}: {said} ({source})")]
    Refused {
        /// The interface.
        interface: String,
        /// The kernel's message.
        said: String,
        /// The error number.
        source: io::Error,
    },
    /// The kernel does not have the module.
    #[error(
        "this kernel has no queueing discipline \"{QDISC}\": load the module with `modprobe sch_{QDISC}` (docs/kernel.md)"
    )]
    NoModule,
    /// The user may not.
    #[error("only root (CAP_NET_ADMIN) can change queueing disciplines of {interface}")]
    Permission {
        /// The interface.
        interface: String,
    },
    /// There is none of ours.
    #[error(
        "{interface} has no queueing discipline \"{QDISC}\" {place}; `tc qdisc show dev {interface}` shows what it has"
    )]
    NotThere {
        /// The interface.
        interface: String,
        /// Parent: root or class.
        place: String,
    },
    /// There is one already.
    #[error(
        "{interface} already has a queueing discipline {place}, or one with the handle {handle}: use `fairlink qdisc change`, delete it with `fairlink qdisc del`, or give another --handle"
    )]
    There {
        /// The interface.
        interface: String,
        /// Parent: root or class.
        place: String,
        /// The handle.
        handle: String,
    },
    /// The handle is that of the parent's queueing discipline.
    #[error(
        "the handle {handle} is that of the queueing discipline of the parent {parent}; give another one with --handle"
    )]
    OwnParent {
        /// The handle.
        handle: String,
        /// The class above.
        parent: Classid,
    },
    /// A filter.
    #[error("the kernel refuses {what} on {interface}: {said} ({source}); --no-filters creates none")]
    Filter {
        /// The interface.
        interface: String,
        /// The refused filter.
        what: String,
        /// The kernel's message.
        said: String,
        /// The error number.
        source: io::Error,
    },
    /// The kernel does not have the classifiers.
    #[error(
        "the kernel on {interface} has no classifier for the file's matches: load it with `modprobe -a cls_flower cls_matchall`, or use --no-filters"
    )]
    NoClassifier {
        /// The interface.
        interface: String,
    },
    /// Filters are left over at both ends of the range.
    #[error(
        "the priorities {} to {} of {interface} are used by filters at both ends; delete them with `tc filter del dev {interface}`",
        filters::FIRST,
        filters::LAST
    )]
    Priorities {
        /// The interface.
        interface: String,
    },
    /// The classes changed during each read.
    #[error("the classes of {interface} changed {READINGS} times while they were read; try again")]
    Changing {
        /// The interface.
        interface: String,
    },
    /// Another failure.
    #[error("netlink request failed: {0}")]
    Io(#[from] io::Error),
    /// The configuration does not fit.
    #[error("{0}; use shorter class names or fewer classes, or use the gateway")]
    Write(#[from] WriteError),
    /// More classes than there are numbers.
    #[error(
        "the link has {classes} classes, and tc has numbers for {MAX_MINOR}: use fewer classes, or use the gateway"
    )]
    Classes {
        /// Number of classes.
        classes: usize,
    },
    /// Numbers of classes.
    #[error("{0}")]
    Label(#[from] LabelError),
}

/// A place for a queueing discipline: the root of an interface, or a class of another queueing discipline there.
#[derive(Debug)]
pub struct QdiscPlace {
    interface: String,
    index: i32,
    parent: Option<Classid>,
    socket: OwnedFd,
}

impl QdiscPlace {
    /// Opens the place below the class `parent` of the interface of this name, or at its root.
    ///
    /// # Errors
    /// No such interface, or no netlink.
    pub fn find(interface: &str, parent: Option<Classid>) -> Result<Self, QdiscError> {
        let index = sys::interface_index(interface)
            .map_err(|source| QdiscError::Interface { interface: interface.to_owned(), source })?;
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        let on: libc::c_int = 1;
        // Errors have a text, and no copy of the request, which may be longer than any buffer.
        sys::set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, &on)?;
        sys::set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, &on)?;
        Ok(Self { interface: interface.to_owned(), index, parent, socket })
    }

    /// The parent as messages have it.
    fn parent(&self) -> u32 {
        self.parent.map_or(messages::TC_ROOT, Classid::priority)
    }

    /// Describes the place, to follow the interface's name.
    fn place(&self) -> String {
        self.parent.map_or_else(|| "at its root".to_owned(), |parent| format!("below the class {parent}"))
    }

    fn not_there(&self) -> QdiscError {
        QdiscError::NotThere { interface: self.interface.clone(), place: self.place() }
    }

    /// Adds the queueing discipline for `plan`, with `filters` if given.
    ///
    /// # Errors
    /// [`QdiscError`]; nothing has changed then.
    pub fn add(&self, plan: &QdiscPlan, filters: Option<&QdiscFilters>) -> Result<(), QdiscError> {
        if let Some(parent) = self.parent.filter(|parent| parent.major() == plan.major) {
            return Err(QdiscError::OwnParent { handle: format!("{:x}:", plan.major), parent });
        }
        self.set(plan, libc::NLM_F_CREATE | libc::NLM_F_EXCL)?;
        let Some(filters) = filters else { return Ok(()) };
        self.install(plan.major, filters::FIRST, filters).inspect_err(|_| {
            // Report the first error, not one of this cleanup.
            let _ = self.ask(messages::delete(self.index, self.parent(), plan.major), plan.major);
        })
    }

    /// Changes the configuration while packets are queued. Classes with the same number keep their packets. `filters`,
    /// if given, replace the present ones: the new ones are added behind the old, then the old are deleted from last to
    /// first. Each packet is thus classified by the complete old set or the complete new set.
    ///
    /// # Errors
    /// [`QdiscError`]; nothing has changed then.
    pub fn change(&self, plan: &QdiscPlan, filters: Option<&QdiscFilters>) -> Result<(), QdiscError> {
        let Some(filters) = filters else { return self.set(plan, 0) };
        let mut old = Vec::new();
        for body in netlink::dump(&filters::dump(self.index, plan.major))? {
            old.extend(filters::present(&body, self.index, plan.major));
        }
        old.sort_by_key(|present| std::cmp::Reverse(present.priority));
        old.dedup();
        let first = filters::place(&old, filters.priorities.len())
            .ok_or_else(|| QdiscError::Priorities { interface: self.interface.clone() })?;
        self.install(plan.major, first, filters)?;
        self.set(plan, 0).inspect_err(|_| self.withdraw(plan.major, first, filters))?;
        for present in &old {
            self.ask_filter(filters::delete(self.index, plan.major, present), "the old filters")?;
        }
        Ok(())
    }

    /// Adds `filters` from priority `first` on: all of them, or none.
    fn install(&self, major: u16, first: u16, filters: &QdiscFilters) -> Result<(), QdiscError> {
        for (priority, group) in (first..).zip(&filters.priorities) {
            for (filter, minor) in group {
                let message = filters::add(self.index, major, priority, filter, *minor);
                self.ask_filter(message, &format!("a filter for class {major:x}:{minor:x}"))
                    .inspect_err(|_| self.withdraw(major, first, filters))?;
            }
        }
        Ok(())
    }

    /// Deletes the filters that were added before another step failed. Ignores errors, because the caller reports the
    /// first one.
    fn withdraw(&self, major: u16, first: u16, filters: &QdiscFilters) {
        for (priority, group) in (first..).zip(&filters.priorities).collect::<Vec<_>>().into_iter().rev() {
            let kind = group.first().map_or("", |(filter, _)| filter.classifier());
            let message = filters::delete(self.index, major, &Present { priority, kind });
            let _ = self.ask_filter(message, "a filter");
        }
    }

    fn ask_filter(&self, message: Vec<u8>, what: &str) -> Result<(), QdiscError> {
        netlink::send(&self.socket, &message)?;
        let answer = netlink::receive(&self.socket)?;
        let Err(source) = netlink::acknowledgement(&answer) else { return Ok(()) };
        let (interface, said) = (self.interface.clone(), messages::said(&answer));
        Err(match said {
            _ if source.raw_os_error() == Some(libc::EPERM) => QdiscError::Permission { interface },
            Some(said) if said.contains("classifier not found") => QdiscError::NoClassifier { interface },
            said => QdiscError::Filter { interface, what: what.to_owned(), said: said.unwrap_or_default(), source },
        })
    }

    fn set(&self, plan: &QdiscPlan, flags: libc::c_int) -> Result<(), QdiscError> {
        if plan.bytes.len() <= MAX_ATTRIBUTE {
            let message = messages::set(self.index, self.parent(), plan.major, Handed::Bytes(&plan.bytes), flags);
            return self.ask(message, plan.major);
        }
        // The kernel reads it before it answers.
        let mut file = sys::memory_file(c"fairlink-qdisc")?;
        file.write_all(&plan.bytes)?;
        let message = messages::set(self.index, self.parent(), plan.major, Handed::File(file.as_raw_fd()), flags);
        self.ask(message, plan.major)
    }

    /// Deletes the queueing discipline; the interface has its default again. Queued packets are dropped.
    ///
    /// # Errors
    /// [`QdiscError`].
    pub fn delete(&self) -> Result<(), QdiscError> {
        let state = self.own()?;
        self.ask(messages::delete(self.index, self.parent(), state.major), state.major)
    }

    /// Reads counters, rates and configuration from the kernel.
    ///
    /// # Errors
    /// [`QdiscError::NotThere`] if the place has another queueing discipline or none; [`QdiscError::Changing`].
    pub fn show(&self) -> Result<QdiscState, QdiscError> {
        for _ in 0..READINGS {
            let link = self.own()?;
            let at = Instant::now();
            let mut classes = Vec::new();
            for body in netlink::dump(&messages::classes(self.index))? {
                classes.extend(messages::class(&body, self.index, link.major));
            }
            if let Some(state) = QdiscState::read(link, classes, at) {
                return Ok(state);
            }
        }
        Err(QdiscError::Changing { interface: self.interface.clone() })
    }

    /// The queueing discipline without its classes.
    fn own(&self) -> Result<Discipline, QdiscError> {
        let all = netlink::dump(&messages::disciplines(self.index))?;
        let mut ours = all.iter().filter_map(|body| messages::discipline(body, self.index, self.parent()));
        ours.next().ok_or_else(|| self.not_there())
    }

    fn ask(&self, message: Vec<u8>, major: u16) -> Result<(), QdiscError> {
        netlink::send(&self.socket, &message)?;
        let answer = netlink::receive(&self.socket)?;
        let Err(source) = netlink::acknowledgement(&answer) else { return Ok(()) };
        let interface = self.interface.clone();
        let said = messages::said(&answer);
        Err(match (said, source.raw_os_error()) {
            (Some(said), _) if said.contains("qdisc kind is unknown") => QdiscError::NoModule,
            (_, Some(libc::EPERM)) => QdiscError::Permission { interface },
            (_, Some(libc::EEXIST)) => {
                QdiscError::There { interface, place: self.place(), handle: format!("{major:x}:") }
            }
            (Some(said), _) => QdiscError::Refused { interface, said, source },
            (None, Some(libc::ENOENT)) => self.not_there(),
            (None, _) => QdiscError::Io(source),
        })
    }
}
