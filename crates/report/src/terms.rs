//! Configured terms of a class, promised bounds, and the fluid ideal.

use fairlink_core::{ClassId, Hierarchy, Rate, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The terms that a class is configured with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Terms {
    /// Guaranteed rate in bit/s; `null` if the class has none.
    pub guarantee_bps: Option<u64>,
    /// Configured weight; `null` if the share is a guarantee.
    pub weight: Option<u64>,
    /// Highest rate in bit/s; `null` if the class has no ceiling.
    pub ceiling_bps: Option<u64>,
    /// Rate in bit/s while every leaf is greedy, rounded down. Absent if it is not computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_all_busy_bps: Option<u64>,
}

impl Terms {
    /// Returns the terms of `class` in `tree`.
    #[must_use]
    pub fn new(tree: &Hierarchy, class: ClassId) -> Self {
        let config = tree.config(class);
        let (guarantee_bps, weight) = match config.share {
            Some(Share::Guarantee(rate)) => (Some(rate.bps()), None),
            Some(Share::Weight(weight)) => (None, Some(weight)),
            None => (None, None),
        };
        let ceiling_bps = config.ceiling.map(Rate::bps);
        Self { guarantee_bps, weight, ceiling_bps, share_all_busy_bps: Some(tree.rate_all_busy(class)) }
    }

    /// Returns the class's own rate in bit/s: its guarantee, or else its share while all are busy.
    #[must_use]
    pub fn own_bps(&self) -> u64 {
        self.guarantee_bps.or(self.share_all_busy_bps).unwrap_or(0)
    }
}

/// A limit of traffic that a delay bound holds for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TrafficLimit {
    /// Token bucket: at most `burst_bytes` plus `rate_bps` in any time.
    Bucket {
        /// Burst in bytes.
        burst_bytes: u64,
        /// Rate in bit/s.
        rate_bps: u64,
    },
    /// At most `bytes` in any time of `every_s`.
    Bytes {
        /// Bytes.
        bytes: u64,
        /// Length of the window in seconds.
        every_s: f64,
    },
    /// At most `packets` in any time of `every_s`.
    Packets {
        /// Packets.
        packets: u64,
        /// Length of the window in seconds.
        every_s: f64,
    },
    /// Packets of at most `largest_bytes`, `min_gap_s` apart, and `mean_gap_s` apart on average over any `every_s`.
    Spacing {
        /// Smallest gap in seconds.
        min_gap_s: f64,
        /// Mean gap in seconds.
        mean_gap_s: f64,
        /// Length of the window in seconds.
        every_s: f64,
        /// Largest packet in bytes.
        largest_bytes: u32,
    },
    /// Traffic that comes over a line of this rate.
    Line {
        /// Rate in bit/s.
        line_bps: u64,
    },
}

/// Bounds that a scheduler promises to a class. Bounds that are not promised or not computed are absent, except
/// `delay_bound_s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassBounds {
    /// Weight that the scheduler runs with, in its own unit: bytes for hls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Relative error of the share that this weight gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_error: Option<f64>,
    /// Maximum deviation of the class from its part of a sibling's service while both stay backlogged, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness_bytes: Option<f64>,
    /// The same as time at the class's rate when all are busy, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness_s: Option<f64>,
    /// Maximum lag of a backlogged class behind its share of the link's service, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_case_bytes: Option<f64>,
    /// Longest wait of a backlogged leaf for its next visit, if a ceiling makes it longer than the link's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmission_gap_s: Option<f64>,
    /// Maximum difference in service of two backlogged hosts of the leaf, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts_apart_bytes: Option<u64>,
    /// Longest delay of a packet in seconds, for traffic within `delay_bound_for`; `null` if none is promised.
    pub delay_bound_s: Option<f64>,
    /// Traffic that the delay bound holds for: all of these limits. Absent if it is not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delay_bound_for: Vec<TrafficLimit>,
}

/// Bounds that a scheduler promises for the whole link. Bounds that are not promised are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkBounds {
    /// Definition 1 of \[hls\], with the weights as run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness_bytes: Option<f64>,
    /// The same as time at the guarantee, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness_s: Option<f64>,
    /// The siblings for which `fairness_s` is largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness_between: Option<[String; 2]>,
    /// Longest wait of a backlogged leaf for its next visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmission_gap_s: Option<f64>,
    /// Longest wait of a backlogged leaf until its next packet leaves, from any instant on. Excludes leaves below ceilings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_packet_s: Option<f64>,
    /// The leaf with that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_packet_of: Option<String>,
    /// Longest round, as in Table II of \[hls\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_round_s: Option<f64>,
}

/// The rate of a class in the fluid ideal for a demand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ideal {
    /// Requested rate in bit/s; `null` for unlimited demand.
    pub request_bps: Option<u64>,
    /// Allocated rate in bit/s.
    pub allocation_bps: f64,
    /// The same without rounding, as a fraction of whole numbers. Absent if rates are computed in floating point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_bps: Option<String>,
    /// True if the class's request is met.
    pub satisfied: bool,
    /// The class whose capacity limits it, `link` for the link; `null` if there is none.
    pub limited_by: Option<String>,
}
