//! What is asked of a running gateway, and what it says of a change.

use fairlink_core::Rate;
use fairlink_report::{Content, Terms};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change of one running link that holds until its next link file. See [`ReloadRequest`] for a link file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The link's rate.
    LinkRate {
        /// In bit/s.
        rate: Rate,
    },
    /// A class's guarantee.
    Guarantee {
        /// Its name.
        class: String,
        /// In bit/s.
        rate: Rate,
    },
    /// A class's ceiling.
    Ceiling {
        /// Its name.
        class: String,
        /// In bit/s.
        rate: Rate,
    },
    /// The scheduler.
    Scheduler {
        /// Its name.
        name: String,
        /// Go on without what it cannot honour.
        lenient: bool,
    },
}

/// A request to run what a link file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadRequest {
    /// Name of the only link to reload; all links of the process are reloaded, and come and go, if it is absent.
    pub link: Option<String>,
    /// Name and text of a file; the process reads its own again where there is none.
    pub text: Option<(String, String)>,
    /// Names of leaves that are there no more, each with that of the leaf of the same link that gets its packets.
    pub moves: Vec<(String, String)>,
    /// True to report the changes without making them.
    pub dry_run: bool,
}

/// What becomes of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It goes on.
    Kept,
    /// It is new.
    Added,
    /// It is there no more; its packets are dropped.
    Removed,
    /// It is there no more; another gets its packets.
    Moved,
}

/// A class before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ClassChange {
    /// Its name.
    pub name: String,
    /// True if it has packets, before or after.
    pub leaf: bool,
    /// What becomes of it.
    pub fate: Fate,
    /// The class that gets its packets, where they are moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// What it was promised; `None` of one that is new.
    pub before: Option<Terms>,
    /// What it is promised now; `None` of one that is there no more.
    pub after: Option<Terms>,
}

/// What the data thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Committed {
    /// Number of this change, counted from 1 since the gateway started.
    pub generation: u64,
    /// Packets that were queued and stay.
    pub kept_packets: u64,
    /// Packets that were dropped because their class is there no more.
    pub removed_packets: u64,
    /// Packets that were dropped because they do not fit into the queues of now.
    pub dropped_packets: u64,
    /// For how long the data thread did nothing else, in seconds.
    pub took_s: f64,
}

/// A change of a running gateway.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Reloaded {
    /// Schedulers before and after.
    pub scheduler: [String; 2],
    /// Rates of the link before and after, in bit/s.
    pub link_bps: [u64; 2],
    /// By what all guarantees are multiplied, because the link has less than they add up to; else 1.
    pub guarantees_scaled_by: f64,
    /// The classes: those of now in their order, then those that are there no more.
    pub classes: Vec<ClassChange>,
    /// What to know of the link file.
    pub notes: Vec<String>,
    /// What has happened; `None` where it was only asked what would.
    pub committed: Option<Committed>,
}

impl Content for Reloaded {
    const KIND: &'static str = "change";
}

/// A link that goes on after a reload of all links of a process.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReloadedLink {
    /// Its name.
    pub link: String,
    /// Its name before, where it had another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// What has changed.
    #[serde(flatten)]
    pub reloaded: Reloaded,
}

/// A link that comes or goes with a reload.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct LinkChange {
    /// Its name.
    pub link: String,
    /// The interface that its packets come from.
    pub input: String,
    /// The interface that they go to.
    pub output: String,
    /// Why, where it is not that it is new in the file, or there no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What to know of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A reload of all links of a process.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReloadedLinks {
    /// Those that go on, in the order of the file.
    pub links: Vec<ReloadedLink>,
    /// Those that come.
    pub opened: Vec<LinkChange>,
    /// Those that go. Each sends what it has queued as at any end; its last statistics stand among those at the end of the process.
    pub closed: Vec<LinkChange>,
    /// True if that has happened, or was only asked.
    pub committed: bool,
}

impl Content for ReloadedLinks {
    const KIND: &'static str = "reload";
}
