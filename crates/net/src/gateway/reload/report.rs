//! Requests for changes of a running gateway, and reports of changes.

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
        /// True to ignore what it cannot honour.
        lenient: bool,
    },
}

/// A request to apply a link file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadRequest {
    /// Name of the only link to reload. If it is absent, all links of the process are reloaded, and links open and close.
    pub link: Option<String>,
    /// Name and text of a file; the process reads its own files again if it is absent.
    pub text: Option<(String, String)>,
    /// Names of removed leaves, each with that of the leaf of the same link that gets its packets.
    pub moves: Vec<(String, String)>,
    /// True to report the changes without making them.
    pub dry_run: bool,
}

/// The effect of a change on a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It stays.
    Kept,
    /// It is new.
    Added,
    /// It is removed; its packets are dropped.
    Removed,
    /// It is removed; another class gets its packets.
    Moved,
}

/// A class before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ClassChange {
    /// Its name.
    pub name: String,
    /// True if it has packets, before or after.
    pub leaf: bool,
    /// The effect on it.
    pub fate: Fate,
    /// The class that gets its packets, if they move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// Its terms before; `None` for a new class.
    pub before: Option<Terms>,
    /// Its terms after; `None` for a removed class.
    pub after: Option<Terms>,
}

/// Measurements of the commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Committed {
    /// Number of this change, counted from 1 since the gateway started.
    pub generation: u64,
    /// Packets that were queued and stay.
    pub kept_packets: u64,
    /// Packets that were dropped because their class was removed.
    pub removed_packets: u64,
    /// Packets that were dropped because they no longer fit into their queue.
    pub dropped_packets: u64,
    /// Time in seconds for which the data thread was held up.
    pub took_s: f64,
}

/// A change of a running gateway.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Reloaded {
    /// Schedulers before and after.
    pub scheduler: [String; 2],
    /// Rates of the link before and after, in bit/s.
    pub link_bps: [u64; 2],
    /// The factor of all guarantees, if they exceed the rate of the link; else 1.
    pub guarantees_scaled_by: f64,
    /// The classes: the new ones in their order, then the removed ones.
    pub classes: Vec<ClassChange>,
    /// Notes and warnings.
    pub notes: Vec<String>,
    /// The commit; `None` for a dry run.
    pub committed: Option<Committed>,
}

impl Content for Reloaded {
    const KIND: &'static str = "change";
}

/// A link that stays in a reload of all links of a process.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReloadedLink {
    /// Its name.
    pub link: String,
    /// Its previous name, if it had another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// The changes.
    #[serde(flatten)]
    pub reloaded: Reloaded,
}

/// A link that is opened or closed by a reload.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct LinkChange {
    /// Its name.
    pub link: String,
    /// The interface from which it receives.
    pub input: String,
    /// The interface to which it sends.
    pub output: String,
    /// The reason, if it is not simply new in the file or removed from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Notes and warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A reload of all links of a process.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReloadedLinks {
    /// Links that stay, in the order of the file.
    pub links: Vec<ReloadedLink>,
    /// Links that are opened.
    pub opened: Vec<LinkChange>,
    /// Links that are closed. Each sends its queued packets first; its last statistics stand among those at the end of the process.
    pub closed: Vec<LinkChange>,
    /// True if the changes were made; false for a dry run.
    pub committed: bool,
}

impl Content for ReloadedLinks {
    const KIND: &'static str = "reload";
}
