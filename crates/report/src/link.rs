//! A link and its classes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::delay::Delay;
use crate::span::{Rates, Span};
use crate::terms::{ClassBounds, Ideal, LinkBounds, Terms};

/// A class: its position in the tree, its terms, and its measurements. An inner class has the sums of its leaves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// The class above it; `null` directly below the link.
    pub parent: Option<String>,
    /// True for a class with packets of its own. Sums over leaves count each packet once.
    pub leaf: bool,
    /// Its handle in the kernel, such as `1:2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classid: Option<String>,
    /// Its configured terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
    /// Bounds that the scheduler promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<ClassBounds>,
    /// The fluid ideal for a demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal: Option<Ideal>,
    /// Packets and bytes since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Packets that shapers and policers dropped before they were offered. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_at_source_packets: Option<u64>,
    /// Delays of sent packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<Delay>,
    /// Rates over the whole measurement.
    #[serde(default, skip_serializing_if = "Rates::is_empty")]
    pub rates: Rates,
    /// Counters of the scheduler for this class by name, such as `borrowed_bytes`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

impl ClassReport {
    /// Returns packets and bytes; zero if they were not counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.unwrap_or_default()
    }

    /// Returns the delays; without packets and statistics if they were not measured.
    #[must_use]
    pub fn delay(&self) -> Delay {
        self.delay_s.unwrap_or_default()
    }
}

/// The empty extension of a [`LinkReport`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoExtension {}

/// A link. `C` is the list of its classes: a vector, or a list that is written one by one. `X` is an object with
/// additional keys of one producer, beside the link's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkReport<C = Vec<ClassReport>, X = NoExtension> {
    /// Its name. Absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its scheduler. Absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Its rate in bit/s; if it changes, the first. Absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<u64>,
    /// Most bytes that the scheduler takes with its queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Bounds that the scheduler promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<LinkBounds>,
    /// Packets and bytes of all classes since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Delays of all sent packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<Delay>,
    /// Rates over the whole measurement.
    #[serde(default, skip_serializing_if = "Rates::is_empty")]
    pub rates: Rates,
    /// Share of the measured time in which the link was sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Counters of the scheduler for the link by name, such as rounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// The classes, parents before their children.
    pub classes: C,
    /// Spans of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
    /// Reasons for absent numbers, and other remarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Additional keys of this producer.
    #[serde(flatten)]
    pub extension: X,
}

impl<C> LinkReport<C> {
    /// Makes a link of which only the classes are known.
    pub fn of_classes(classes: C) -> Self {
        Self {
            name: None,
            scheduler: None,
            capacity_bps: None,
            memory_bytes: None,
            bounds: None,
            counts: None,
            delay_s: None,
            rates: Rates::default(),
            utilisation: None,
            counters: BTreeMap::new(),
            classes,
            spans: Vec::new(),
            notes: Vec::new(),
            extension: NoExtension {},
        }
    }
}

impl<X> LinkReport<Vec<ClassReport>, X> {
    /// Returns packets and bytes; zero if they were not counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.unwrap_or_default()
    }

    /// Iterates over the classes with packets of their own.
    pub fn leaves(&self) -> impl Iterator<Item = &ClassReport> {
        self.classes.iter().filter(|class| class.leaf)
    }

    /// Returns the class with this name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&ClassReport> {
        self.classes.iter().find(|class| class.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::{ClassSpan, Limit, LimitCause, SpanKind};
    use crate::terms::TrafficLimit;
    use serde_json::json;

    fn link() -> LinkReport {
        let class = ClassReport {
            name: "voice".into(),
            leaf: true,
            terms: Some(Terms { guarantee_bps: Some(2_000_000), ..Terms::default() }),
            bounds: Some(ClassBounds {
                delay_bound_s: Some(0.5),
                delay_bound_for: vec![TrafficLimit::Bucket { burst_bytes: 3000, rate_bps: 2_000_000 }],
                ..ClassBounds::default()
            }),
            counts: Some(Counts::default()),
            delay_s: Some(Delay::default()),
            ..ClassReport::default()
        };
        let limit =
            |cause, by: Option<&str>| Some(Limit { cause, limited_by: by.map(str::to_owned), limited_for_s: 2.5 });
        let span = Span {
            kind: SpanKind::Interval,
            start_s: 1.0,
            end_s: 3.5,
            forfeited_s: Some(0.0),
            pauses: None,
            counts: None,
            delay_s: None,
            rates: Rates { rate_bps: Some(1.5), ..Rates::default() },
            limit: None,
            classes: vec![ClassSpan {
                name: "voice".into(),
                limit: limit(LimitCause::Link, Some("link")),
                ..ClassSpan::default()
            }],
        };
        LinkReport {
            name: Some("wan0".into()),
            scheduler: Some("hls".into()),
            capacity_bps: Some(38_000_000),
            classes: vec![class],
            spans: vec![span],
            ..LinkReport::default()
        }
    }

    #[test]
    fn absent_means_not_measured_and_null_means_none() {
        let amount = json!({"packets": 0, "bytes": 0});
        let expected = json!({
            "name": "wan0", "scheduler": "hls", "capacity_bps": 38_000_000u64,
            "classes": [{
                "name": "voice", "parent": null, "leaf": true,
                "terms": {"guarantee_bps": 2_000_000u64, "weight": null, "ceiling_bps": null},
                "bounds": {"delay_bound_s": 0.5, "delay_bound_for": [{"burst_bytes": 3000, "rate_bps": 2_000_000u64}]},
                "counts": {"received": amount, "sent": amount, "dropped": amount, "marked": amount, "queued": amount},
                "delay_s": {"packets": 0},
            }],
            "spans": [{
                "kind": "interval", "start_s": 1.0, "end_s": 3.5, "forfeited_s": 0.0, "rates": {"rate_bps": 1.5},
                "classes": [{"name": "voice", "rates": {}, "limit": "link", "limited_by": "link", "limited_for_s": 2.5}],
            }],
        });
        assert_eq!(serde_json::to_value(link()).unwrap(), expected);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = serde_json::to_string(&link()).unwrap();
        assert_eq!(serde_json::from_str::<LinkReport>(&text).unwrap(), link());
        assert_eq!((link().spans[0].seconds(), link().leaves().count()), (2.5, 1));
        assert!(link().class("voice").is_some() && link().spans[0].class("data").is_none());
    }
}
