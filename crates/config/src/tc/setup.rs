//! What tc commands set up, before it becomes a link file.

use crate::classid::Classid;
use crate::matching::Match;
use crate::problem::Span;

/// A device with HTB or CBQ at its root.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) root: Option<Root>,
    /// In file order.
    pub(super) classes: Vec<Class>,
    /// By the class that they are below; the last one given for a class.
    pub(super) queues: Vec<LeafQueue>,
    /// In the order in which the kernel tries them.
    pub(super) filters: Vec<Filter>,
    /// What the classes of the root may send together as written, in bit/s, where rates are no longer as written.
    pub(super) needed: Option<u64>,
    /// The guarantee of a class for frames that no filter takes, in bit/s, where one is added.
    pub(super) others: Option<u64>,
}

impl Device {
    pub(super) fn class(&self, id: Classid) -> Option<&Class> {
        self.classes.iter().find(|class| class.id == id)
    }

    pub(super) fn is_leaf(&self, id: Classid) -> bool {
        self.classes.iter().all(|class| class.parent != Some(id))
    }
}

/// The queueing discipline at the root.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) at: Span,
    pub(super) major: u16,
    pub(super) kind: RootKind,
}

/// Which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RootKind {
    /// With the minor number of the class of frames that no filter takes, and the divisor that gives quanta.
    Htb { default: Option<u16>, r2q: u64 },
    /// With the rate of the link in bit/s and the average packet in bytes.
    Cbq { bandwidth: u64, avpkt: u64 },
}

impl RootKind {
    /// The rate of the link in bit/s, where it is said.
    pub(super) fn bandwidth(self) -> Option<u64> {
        match self {
            Self::Htb { .. } => None,
            Self::Cbq { bandwidth, .. } => Some(bandwidth),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Htb { .. } => "htb",
            Self::Cbq { .. } => "cbq",
        }
    }
}

/// A class.
#[derive(Debug)]
pub(super) struct Class {
    /// The command.
    pub(super) at: Span,
    pub(super) id: Classid,
    /// `None` for a class directly below the queueing discipline.
    pub(super) parent: Option<Classid>,
    pub(super) set: Settings,
}

/// What a class of HTB or CBQ sets. Rates are in bit/s, the others in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) rate: Option<u64>,
    pub(super) ceil: Option<u64>,
    pub(super) burst: Option<u64>,
    pub(super) cburst: Option<u64>,
    pub(super) priority: Option<u64>,
    pub(super) quantum: Option<u64>,
    pub(super) overhead: u64,
    /// The number of the slot that the class owns, and of the one that it borrows from.
    pub(super) slot: Option<u64>,
    pub(super) pslot: Option<u64>,
    pub(super) bounded: bool,
    pub(super) isolated: bool,
    /// CBQ's share in a round, in any unit.
    pub(super) weight: Option<u64>,
    /// In packets.
    pub(super) maxburst: Option<u64>,
    pub(super) avpkt: Option<u64>,
}

/// The queue of a leaf.
#[derive(Debug)]
pub(super) struct LeafQueue {
    pub(super) at: Span,
    pub(super) parent: Classid,
    /// The words of a link file: `fifo`, `codel`, `fq_codel`.
    pub(super) queue: &'static str,
    /// As a link file has it.
    pub(super) buffer: Option<String>,
    pub(super) ecn: bool,
}

/// A filter whose meaning the match language has.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) at: Span,
    pub(super) preference: u64,
    pub(super) class: Classid,
    pub(super) made: Match,
}
