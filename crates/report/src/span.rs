//! A span of time: an interval of a gateway, a phase or a window of a simulation.

use fairlink_core::Amount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::delay::Delay;

/// Rates in bit/s of accounted bytes. A rate that was not measured or computed is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Demand: the backlog at the beginning and the arrivals, without packets that no scheduler could have sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_bps: Option<f64>,
    /// Sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<f64>,
    /// Sent after the settling time of a phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_bps: Option<f64>,
    /// Long-run rate for the demand by the scheduler's own rule. If it is absent, the notes of the link give the
    /// reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_bps: Option<f64>,
    /// Hierarchical max-min fair rate for the demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_bps: Option<f64>,
}

impl Rates {
    /// Returns true if no rate was measured or computed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the sent rate in bit/s; NaN if it was not measured.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate_bps.unwrap_or(f64::NAN)
    }

    /// Returns the settled rate in bit/s; NaN if it was not measured.
    #[must_use]
    pub fn settled(&self) -> f64 {
        self.settled_bps.unwrap_or(f64::NAN)
    }

    /// Returns the max-min fair rate in bit/s; NaN if it was not computed.
    #[must_use]
    pub fn fair(&self) -> f64 {
        self.fair_bps.unwrap_or(f64::NAN)
    }

    /// Returns the rate of `sent` over `seconds` in bit/s.
    #[must_use]
    pub fn bps(sent: Amount, seconds: f64) -> f64 {
        if seconds > 0.0 { sent.bytes as f64 * 8.0 / seconds } else { 0.0 }
    }
}

/// The reason why a class got no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitCause {
    /// The class requested no more.
    Demand,
    /// A limit of the class itself: a ceiling, an upper limit, a rate beyond which it may not borrow.
    Ceiling,
    /// The class above it has no more to share.
    Parent,
    /// The link has no more to share.
    Link,
    /// The pool that it shares with classes of other links has no more.
    Pool,
    /// The data thread or the output was late, so that link time was lost.
    Processor,
}

impl LimitCause {
    /// Returns the name in JSON and in metrics.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Demand => "demand",
            Self::Ceiling => "ceiling",
            Self::Parent => "parent",
            Self::Link => "link",
            Self::Pool => "pool",
            Self::Processor => "processor",
        }
    }
}

/// The limit of a class in a span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// The reason.
    #[serde(rename = "limit")]
    pub cause: LimitCause,
    /// The class whose limit it is, `link` for the link; `null` if no class limits it.
    pub limited_by: Option<String>,
    /// Time for which the limit has lasted, in seconds, as far as it was observed.
    pub limited_for_s: f64,
}

/// Length of a queue over a window, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueLength {
    /// Mean over time, in packets.
    pub mean: f64,
    /// Longest, in packets.
    pub max: f64,
}

/// A class in a span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassSpan {
    /// Its name.
    pub name: String,
    /// Packets and bytes of the span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Delays of packets that left in the span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<Delay>,
    /// Rates of the span.
    pub rates: Rates,
    /// The reason why the class got no more; its keys are absent if it is unknown.
    #[serde(default, flatten)]
    pub limit: Option<Limit>,
    /// Packets dropped, if their bytes are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_packets: Option<u64>,
    /// Length of its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<QueueLength>,
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// The time between two observations of a running link.
    Interval,
    /// The time between two changes of the link or of a source's activity in a simulation.
    Phase,
    /// A part of a time series.
    Window,
}

/// A span of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// Its kind.
    pub kind: SpanKind,
    /// Its start in seconds since the link began to work.
    pub start_s: f64,
    /// Its end in seconds since the link began to work.
    pub end_s: f64,
    /// Lost link time in seconds beyond the part that is made up for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forfeited_s: Option<f64>,
    /// Number of times that the data thread did not run for more than 300 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pauses: Option<u64>,
    /// Packets and bytes of the whole link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Delays of all packets that left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<Delay>,
    /// Rates of the whole link.
    #[serde(default, skip_serializing_if = "Rates::is_empty")]
    pub rates: Rates,
    /// The reason why the link sent no more; its keys are absent if it is unknown.
    #[serde(default, flatten)]
    pub limit: Option<Limit>,
    /// The classes, in the order of the link's. A class without a measurement in the span is absent.
    #[serde(default)]
    pub classes: Vec<ClassSpan>,
}

impl Span {
    /// Makes a span without measurements.
    #[must_use]
    pub fn new(kind: SpanKind, start_s: f64, end_s: f64) -> Self {
        Self {
            kind,
            start_s,
            end_s,
            forfeited_s: None,
            pauses: None,
            counts: None,
            delay_s: None,
            rates: Rates::default(),
            limit: None,
            classes: Vec::new(),
        }
    }

    /// Returns its length in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.end_s - self.start_s
    }

    /// Returns the class with this name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&ClassSpan> {
        self.classes.iter().find(|class| class.name == name)
    }
}
