//! Comparison of two clocks, in seconds.

use fairlink_config::human;
use fairlink_traffic::clocks::{Clocks, Corrected, Known, MOST_LEFT_OUT};
use schemars::JsonSchema;
use serde::Serialize;

/// A value and the half-width of its 95 % confidence interval; `null` if that is unknown.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct KnownValue {
    /// The value.
    pub value: f64,
    /// The half-width of its 95 % interval.
    pub ci95: Option<f64>,
}

impl From<Known> for KnownValue {
    fn from(known: Known) -> Self {
        Self { value: known.value, ci95: known.within.is_finite().then_some(known.within) }
    }
}

/// A part of a run in which the offset moves smoothly. Times are since the first packet.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct StretchReport {
    /// Its start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// Packets in it.
    pub packets: u64,
    /// Offset plus shortest delay at its start.
    pub offset_s: KnownValue,
    /// Offset plus shortest delay at its end.
    pub end_offset_s: KnownValue,
    /// Skew in its middle, in seconds per second.
    pub skew: KnownValue,
    /// Drift, in 1/s.
    pub drift_per_s: KnownValue,
}

/// A jump of the offset.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct JumpReport {
    /// Time since the first packet.
    pub at_s: KnownValue,
    /// Movement of the receiver's clock against the sender's.
    pub size_s: KnownValue,
}

/// A part of a run in which clocks and queues cannot be told apart. Times are since the first packet.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct UndecidedReport {
    /// Its start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// The reason, in words.
    pub because: String,
}

/// The receiver's clock against the sender's, estimated from one-way delays.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ClockReport {
    /// Parts in which the offset moves smoothly.
    pub stretches: Vec<StretchReport>,
    /// Parts in which clocks and queues cannot be told apart.
    pub undecided: Vec<UndecidedReport>,
    /// Jumps between the parts. Between two parts without a jump, only the skew changes.
    pub jumps: Vec<JumpReport>,
    /// The part of the time in which delays cannot be corrected. Above 0.05 there are no corrected delays.
    pub left_out: f64,
    /// Maximum error of corrected delays; `null` without a part in which the offset moves smoothly.
    pub correction_ci95_s: Option<f64>,
    /// Mean distance of the shortest delays of short spans of time from the envelope.
    pub roughness_s: f64,
}

impl ClockReport {
    /// Returns the parts and the jumps as tables of numbers.
    #[must_use]
    pub fn tables(&self) -> Vec<(Vec<&'static str>, Vec<Vec<String>>)> {
        let within = |value: String, known: KnownValue, show: &dyn Fn(f64) -> String| match known.ci95 {
            Some(ci95) => format!("{value} ± {}", show(ci95)),
            None => format!("{value} ± ?"),
        };
        let parts = |scale: f64, known: KnownValue| {
            let show = |value: f64| format!("{:.4}", value * scale);
            within(show(known.value), known, &show)
        };
        // An offset has all digits that its uncertainty leaves.
        let offset = |known: KnownValue| within(format!("{:.6} s", known.value), known, &human::time);
        let stretch = |stretch: &StretchReport| {
            vec![
                format!("{:.1} s", stretch.start_s),
                format!("{:.1} s", stretch.end_s),
                stretch.packets.to_string(),
                offset(stretch.offset_s),
                parts(1e6, stretch.skew),
                parts(1e6, stretch.drift_per_s),
            ]
        };
        let jump = |jump: &JumpReport| {
            let at = within(format!("{:.1} s", jump.at_s.value), jump.at_s, &human::time);
            vec![at, within(human::time(jump.size_s.value), jump.size_s, &human::time)]
        };
        let head = vec!["from", "to", "packets", "offset + shortest delay", "skew (ppm)", "drift (ppm/s)"];
        let mut tables = Vec::new();
        if !self.stretches.is_empty() {
            tables.push((head, self.stretches.iter().map(stretch).collect()));
        }
        let head = match (self.jumps.is_empty(), self.undecided.is_empty()) {
            (false, _) => vec!["jump at", "size (receiver's clock)"],
            (true, true) => vec!["no jumps"],
            (true, false) => vec!["no jumps are known"],
        };
        tables.push((head, self.jumps.iter().map(jump).collect()));
        tables
    }

    /// Returns what cannot be told, as sentences.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let doubt = |part: &UndecidedReport| {
            let UndecidedReport { start_s, end_s, because } = part;
            format!("{start_s:.1} to {end_s:.1} s: cannot tell clock from queue, because {because}")
        };
        let mut doubts: Vec<String> = self.undecided.iter().map(doubt).collect();
        if self.left_out > MOST_LEFT_OUT {
            doubts.push(format!(
                "no corrected delays: the clocks are unknown in {} of the time, and the limit is {}",
                human::percent(self.left_out),
                human::percent(MOST_LEFT_OUT)
            ));
        }
        doubts
    }
}

impl From<&Clocks> for ClockReport {
    fn from(clocks: &Clocks) -> Self {
        let stretch = |stretch: &fairlink_traffic::clocks::Stretch| StretchReport {
            start_s: stretch.start_s,
            end_s: stretch.end_s,
            packets: stretch.packets,
            offset_s: stretch.offset_s.into(),
            end_offset_s: stretch.end_offset_s.into(),
            skew: stretch.skew.into(),
            drift_per_s: stretch.drift.into(),
        };
        let within = clocks.stretches.iter().map(|stretch| stretch.within()).reduce(f64::max);
        let undecided = |part: &fairlink_traffic::clocks::Undecided| UndecidedReport {
            start_s: part.start_s,
            end_s: part.end_s,
            because: part.because.to_string(),
        };
        Self {
            stretches: clocks.stretches.iter().map(stretch).collect(),
            undecided: clocks.undecided.iter().map(undecided).collect(),
            jumps: clocks
                .jumps()
                .map(|jump| JumpReport { at_s: jump.at_s.into(), size_s: jump.jump_s.into() })
                .collect(),
            left_out: clocks.left_out(),
            correction_ci95_s: within.filter(|within| within.is_finite()),
            roughness_s: clocks.roughness_s,
        }
    }
}

/// Delays of a random sample of packets, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SampledDelays {
    /// Packets in the sample.
    pub sampled_packets: u64,
    /// Shortest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

impl From<Corrected> for SampledDelays {
    fn from(of: Corrected) -> Self {
        let Corrected { packets: sampled_packets, min, mean, p50, p99, p999, max } = of;
        Self { sampled_packets, min, mean, p50, p99, p999, max }
    }
}

impl SampledDelays {
    /// Returns the delays, each longer by `time` seconds.
    #[must_use]
    pub fn plus(self, time: f64) -> Self {
        Self {
            min: self.min + time,
            mean: self.mean + time,
            p50: self.p50 + time,
            p99: self.p99 + time,
            p999: self.p999 + time,
            max: self.max + time,
            ..self
        }
    }
}
