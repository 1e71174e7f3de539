//! Delays in summary.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Delays in seconds. Statistics that were not recorded are absent; without packets all are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delay {
    /// Number of packets measured.
    pub packets: u64,
    /// Shortest, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Mean, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Median, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 99th percentile, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// 99.9th percentile, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
    /// Longest, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl Delay {
    /// Quantiles that are reported, in thousandths: those of `p50`, `p99` and `p999`.
    pub const THOUSANDTHS: [u64; 3] = [500, 990, 999];
}
