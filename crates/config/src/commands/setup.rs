//! The configuration that tc commands set up, before its conversion to a link file.

use std::collections::{HashMap, HashSet};

use crate::classid::Classid;
use crate::matching::Match;
use crate::problem::Span;

/// The guarantee of a class to which a configuration assures nothing, in bit/s: next to nothing, so that priorities
/// decide.
pub(crate) const UNASSURED: u64 = 1000;

/// A device and its root.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) root: Option<Root>,
    pub(super) classes: Classes,
    /// In the order in which the kernel tries them.
    pub(super) filters: Vec<Filter>,
    /// Filters by a mark of the firewall, which become matches when all rules are known.
    pub(super) by_mark: Vec<MarkFilter>,
    /// Filters that police traffic.
    pub(super) policed: Vec<Policed>,
    /// Handle of the queueing discipline for received traffic.
    pub(super) ingress: Option<u16>,
    /// The device whose received frames are redirected here, and whether they have the marks of their connections.
    pub(super) source: Option<(String, bool)>,
    /// Handles of queues below classes, and the classes.
    pub(super) inner: Vec<(u16, Classid)>,
    /// Handle of a queueing discipline without a rate at the root, below which the one with classes may hang.
    pub(super) outer: Option<u16>,
    /// Reason why it does not become a link, from a command.
    pub(super) no_link: Option<String>,
    /// Sum of the rates of the root's classes as written, in bit/s, if rates have been changed since.
    pub(super) needed: Option<u64>,
    /// Guarantee of the class for frames without a filter, in bit/s, if one is added.
    pub(super) others: Option<u64>,
}

impl Device {
    /// Removes the root and everything below it.
    pub(super) fn clear(&mut self) {
        self.root = None;
        self.classes.clear();
        self.filters.clear();
        self.by_mark.clear();
        self.policed.clear();
        self.inner.clear();
        self.outer = None;
        self.no_link = None;
    }

    pub(super) fn class(&self, id: Classid) -> Option<&Class> {
        self.classes.place(id).map(|at| &self.classes.all[at])
    }

    pub(super) fn is_leaf(&self, id: Classid) -> bool {
        !self.classes.children.contains_key(&id)
    }
}

/// The classes of a device in file order, each found by its number: there may be as many as there are numbers.
#[derive(Debug, Default)]
pub(super) struct Classes {
    all: Vec<Class>,
    /// By number, positions.
    places: HashMap<Classid, usize>,
    /// By the number of the parent, positions in file order; no entry is empty.
    children: HashMap<Classid, Vec<usize>>,
}

impl Classes {
    /// Adds a class with a new number.
    pub(super) fn push(&mut self, class: Class) {
        let at = self.all.len();
        self.places.insert(class.id, at);
        if let Some(parent) = class.parent {
            self.children.entry(parent).or_default().push(at);
        }
        self.all.push(class);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Class> {
        self.all.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The position of a class.
    pub(super) fn place(&self, id: Classid) -> Option<usize> {
        self.places.get(&id).copied()
    }

    pub(super) fn children(&self, id: Classid) -> impl Iterator<Item = &Class> {
        self.children.get(&id).into_iter().flatten().map(|&at| &self.all[at])
    }

    /// The class at a position.
    pub(super) fn at(&self, place: usize) -> &Class {
        &self.all[place]
    }

    /// Returns a class for changes other than of its number and parent.
    pub(super) fn get_mut(&mut self, id: Classid) -> Option<&mut Class> {
        self.place(id).map(|at| &mut self.all[at])
    }

    /// Returns all classes for changes other than of their numbers and parents.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Class> {
        self.all.iter_mut()
    }

    /// Moves the children of a class to the root and passes their settings to `change`.
    pub(super) fn move_to_root(&mut self, parent: Classid, mut change: impl FnMut(&mut Settings)) {
        for at in self.children.remove(&parent).unwrap_or_default() {
            self.all[at].parent = None;
            change(&mut self.all[at].set);
        }
    }

    /// Takes out classes with none below them.
    pub(super) fn remove(&mut self, gone: &HashSet<Classid>) {
        let all = std::mem::take(self).all;
        all.into_iter().filter(|class| !gone.contains(&class.id)).for_each(|class| self.push(class));
    }
}

/// The queueing discipline at the root.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) at: Span,
    pub(super) major: u16,
    pub(super) kind: RootKind,
}

/// Kind of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RootKind {
    /// With the minor number of the default class, the divisor for quanta, and the declared depth of all leaves.
    Htb { default: Option<u16>, r2q: u64, depth: Option<u64> },
    /// With the rate of the link in bit/s and the average packet in bytes.
    Cbq { bandwidth: u64, avpkt: u64 },
    /// With the minor number of the class of frames that no filter takes.
    Hfsc { default: Option<u16> },
    /// With the band of each priority that the kernel gives to packets; the class of a band is the next number.
    Prio { bands: u16, map: [u16; 16] },
}

impl RootKind {
    /// Returns the rate of the link in bit/s, if it is given.
    pub(super) fn bandwidth(self) -> Option<u64> {
        match self {
            Self::Htb { .. } | Self::Hfsc { .. } | Self::Prio { .. } => None,
            Self::Cbq { bandwidth, .. } => Some(bandwidth),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Htb { .. } => "htb",
            Self::Cbq { .. } => "cbq",
            Self::Hfsc { .. } => "hfsc",
            Self::Prio { .. } => "prio",
        }
    }

    /// The minor number of the class of frames that no filter takes.
    pub(super) fn default(self) -> Option<u16> {
        match self {
            Self::Htb { default, .. } | Self::Hfsc { default } => default,
            Self::Cbq { .. } => None,
            Self::Prio { map, .. } => Some(map[0] + 1),
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
    /// The last one that was given.
    pub(super) queue: Option<LeafQueue>,
}

/// Settings of a class of HTB or CBQ. Rates are in bit/s, others in bytes.
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
    /// Curves of HFSC.
    pub(super) real_time: Option<Curve>,
    pub(super) link_share: Option<Curve>,
    pub(super) upper_limit: Option<Curve>,
}

/// A service curve: a first slope in bit/s for a time in nanoseconds, and the slope from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Curve {
    pub(super) first: Option<(u64, u64)>,
    pub(super) rate: u64,
}

/// The queue of a leaf.
#[derive(Debug)]
pub(super) struct LeafQueue {
    pub(super) at: Span,
    /// The words of a link file: `fifo`, `codel`, `fq_codel`.
    pub(super) queue: &'static str,
    /// As a link file has it.
    pub(super) buffer: Option<String>,
    pub(super) ecn: bool,
}

/// A filter `fw`: frames with a mark go to a class.
#[derive(Debug)]
pub(super) struct MarkFilter {
    pub(super) at: Span,
    pub(super) preference: u64,
    pub(super) mark: Option<u32>,
    pub(super) mask: u32,
    /// `ip` or `ip6` of a filter that sees only one of them, and another word for one that sees neither.
    pub(super) family: Option<&'static str>,
    pub(super) class: Classid,
}

/// A filter that drops frames above a rate, and sends the others to a class.
#[derive(Debug)]
pub(super) struct Policed {
    pub(super) at: Span,
    pub(super) class: Classid,
    /// In bit/s; `None` for a policer that does something else.
    pub(super) rate: Option<u64>,
}

/// A filter that is expressible as matches.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) at: Span,
    pub(crate) preference: u64,
    pub(crate) class: Classid,
    pub(crate) made: Match,
}
