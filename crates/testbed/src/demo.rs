//! Input of a demo, a [`DemoPlan`], and its result, a [`DemoOutcome`]. Both are plain data on every system.
//!
//! The plan includes the ideal rates, so that any scenario can be played. The experiments of \[hls\] are such plans, in
//! `fairlink-lab`. The test bed plays a plan with real packets. If real packets are not available, a simulator computes
//! the same outcome.

use std::collections::BTreeMap;

use fairlink_core::{ClassId, Hierarchy, Nanos};
use fairlink_report::{ClassSpan, Content, Rates, Span};
use fairlink_traffic::SourceSpec;
use schemars::JsonSchema;
use serde::Serialize;

/// Name of the kernel's HTB in results. Its shares depend on the quanta of leaves and on how much inner classes lend
/// themselves, see `docs/traffic.md`.
pub const KERNEL_HTB: &str = "kernel-htb";

/// A phase of an experiment: the time between two changes of the senders.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanPhase {
    /// Its start.
    pub start: Nanos,
    /// Its end, later than the start.
    pub end: Nanos,
    /// Ideal rate of every class in bit/s, by class id; classes beyond its end have 0.
    pub ideal_bps: Vec<f64>,
}

/// Plan of a demo.
#[derive(Clone, Debug)]
pub struct DemoPlan {
    /// Number of the experiment in its paper.
    pub experiment: u8,
    /// The scenario within the experiment, such as `H`.
    pub scenario: Option<String>,
    /// The classes; the link's rate is that of the demo.
    pub tree: Hierarchy,
    /// Their names by id, the root's included.
    pub names: Vec<String>,
    /// Traffic sources; packet lengths are those of whole Ethernet frames.
    pub sources: Vec<SourceSpec>,
    /// The phases, in order.
    pub phases: Vec<PlanPhase>,
    /// Excluded from the averages at the start of each phase: old queues drain, new ones fill.
    pub settle: Nanos,
}

impl DemoPlan {
    /// End of the last phase.
    #[must_use]
    pub fn duration(&self) -> Nanos {
        self.phases.last().map_or(Nanos::ZERO, |phase| phase.end)
    }

    /// Returns the index of the phase at `at`; that of the last one after the end.
    #[must_use]
    pub fn phase_at(&self, at: Nanos) -> usize {
        self.phases.iter().position(|phase| at < phase.end).unwrap_or(self.phases.len().saturating_sub(1))
    }

    /// Returns the name of `class`, or its number if it has none.
    #[must_use]
    pub fn name(&self, class: ClassId) -> String {
        self.names.get(class.index()).cloned().unwrap_or_else(|| class.0.to_string())
    }

    /// The ideal rate of `class` in the phase of that index, in bit/s.
    #[must_use]
    pub fn ideal_bps(&self, phase: usize, class: ClassId) -> f64 {
        self.phases.get(phase).and_then(|phase| phase.ideal_bps.get(class.index())).copied().unwrap_or(0.0)
    }

    /// Returns the averaged part of each phase, from `start_ns` on.
    #[must_use]
    pub fn spans(&self, start_ns: u64) -> Vec<(u64, u64)> {
        self.phases
            .iter()
            .map(|phase| {
                let end = start_ns.saturating_add(phase.end.0);
                (start_ns.saturating_add(phase.start.saturating_add(self.settle).0).min(end), end)
            })
            .collect()
    }
}

/// The measured and the fair rate of a leaf in a phase, in bit/s.
#[must_use]
pub fn demo_rate(name: &str, rate_bps: f64, fair_bps: f64) -> ClassSpan {
    let rates = Rates { rate_bps: Some(rate_bps), fair_bps: Some(fair_bps), ..Rates::default() };
    ClassSpan { name: name.to_owned(), rates, ..ClassSpan::default() }
}

/// Counts of a run's frames. Dropped frames are counted; lost frames are missing from the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Accounting {
    /// Frames that the generator sent.
    pub sent_packets: u64,
    /// Frames dropped by the scheduler's queues, as expected in front of an overloaded link.
    pub dropped_packets: u64,
    /// Frames still queued at the end.
    pub left_packets: u64,
    /// Frames received.
    pub received_packets: u64,
    /// Frames that the kernel dropped because gateway or receiver did not fetch them in time.
    pub kernel_dropped_packets: u64,
    /// Frames that arrived after one sent later in the same class.
    pub reordered_packets: u64,
    /// Frames that came twice.
    pub duplicate_packets: u64,
    /// Frames put into another class than the one they were sent for, if that is detectable; else 0.
    pub misplaced_packets: u64,
}

impl Accounting {
    /// Number of unaccounted frames: 0 unless something is wrong. Negative if there are more than were sent.
    #[must_use]
    pub fn unaccounted(&self) -> i64 {
        let known = self.dropped_packets + self.left_packets + self.received_packets + self.kernel_dropped_packets;
        self.sent_packets.wrapping_sub(known) as i64
    }
}

/// One experiment with one scheduler.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct DemoRun {
    /// Number of the experiment in its paper.
    pub experiment: u8,
    /// The scenario within it.
    pub scenario: Option<String>,
    /// Name of the scheduler, or [`KERNEL_HTB`].
    pub scheduler: String,
    /// The link's rate in bit/s.
    #[serde(rename = "capacity_bps")]
    pub link_bps: f64,
    /// The phases that were played to their end.
    #[serde(rename = "spans")]
    pub phases: Vec<Span>,
    /// Quantum of each leaf in bytes, by name, if the outcome depends on it.
    pub quanta_bytes: Option<BTreeMap<String, u64>>,
    /// Counts of frames; absent for a simulated run.
    pub accounting: Option<Accounting>,
    /// Link time that the gateway lost while packets were queued, in seconds; absent without a gateway.
    pub forfeited_s: Option<f64>,
}

/// A scheduler that could not be played.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Skipped {
    /// Its name.
    pub scheduler: String,
    /// The reason.
    pub why: String,
}

/// The document of `fairlink demo --json`.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct DemoOutcome {
    /// True if real packets were sent.
    pub real: bool,
    /// Reason for a simulation, if the runs were simulated.
    pub why_simulated: Option<String>,
    /// Experiments that were played.
    pub experiments: Vec<DemoRun>,
    /// Experiments that were skipped.
    pub skipped: Vec<Skipped>,
    /// True if it was stopped before its end.
    pub stopped: bool,
}

impl Content for DemoOutcome {
    const KIND: &'static str = "demo";
}

/// A class's rate right now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveRate {
    /// The class, a leaf.
    pub class: ClassId,
    /// Its rate at the receiver in the last window, in bit/s.
    pub rate_bps: f64,
    /// Its ideal rate in the current phase, in bit/s.
    pub ideal_bps: f64,
}

/// Progress of a demo, reported five times a second.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoProgress<'a> {
    /// The scheduler that is played.
    pub scheduler: &'a str,
    /// Seconds since its start.
    pub elapsed_s: f64,
    /// Seconds that it will take.
    pub duration_s: f64,
    /// The index of the current phase.
    pub phase: usize,
    /// All leaves, in the order of the tree.
    pub classes: Vec<LiveRate>,
}

#[cfg(test)]
mod tests {
    use fairlink_report::SpanKind;

    use super::*;
    use fairlink_core::{ClassConfig, LinkConfig, Rate};

    fn plan() -> DemoPlan {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(100).unwrap()));
        let a = tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
        tree.add(a, ClassConfig::default()).unwrap();
        let phase = |start, end, ideal_bps| PlanPhase {
            start: Nanos::from_millis(start),
            end: Nanos::from_millis(end),
            ideal_bps,
        };
        DemoPlan {
            experiment: 2,
            scenario: Some("H".to_owned()),
            tree: tree.build().unwrap(),
            names: vec!["link".to_owned(), "A".to_owned()],
            sources: Vec::new(),
            phases: vec![phase(0, 1000, vec![0.0, 5.0, 7.0]), phase(1000, 1300, vec![])],
            settle: Nanos::from_millis(500),
        }
    }

    #[test]
    fn the_start_of_each_phase_is_left_out_of_its_average() {
        // The second phase is shorter than its excluded part, so that nothing remains.
        assert_eq!(plan().spans(10), [(500_000_010, 1_000_000_010), (1_300_000_010, 1_300_000_010)]);
        assert_eq!([0, 999, 1000, 5000].map(|ms| plan().phase_at(Nanos::from_millis(ms))), [0, 0, 1, 1]);
        assert_eq!((plan().ideal_bps(0, ClassId(2)), plan().ideal_bps(1, ClassId(2))), (7.0, 0.0));
        assert_eq!((plan().name(ClassId(1)), plan().name(ClassId(2))), ("A".to_owned(), "2".to_owned()));
    }

    #[test]
    fn the_json_is_what_formats_promises() {
        let class = demo_rate("A1", 3e7, 3e7);
        let idle = demo_rate("C", 4e6, 0.0);
        let run = DemoRun {
            experiment: 2,
            scenario: Some("H".to_owned()),
            scheduler: "hls".to_owned(),
            link_bps: 1e8,
            phases: vec![Span { classes: vec![class, idle], ..Span::new(SpanKind::Phase, 0.0, 5.0) }],
            quanta_bytes: None,
            accounting: None,
            forfeited_s: None,
        };
        let outcome =
            DemoOutcome { real: true, why_simulated: None, experiments: vec![run], skipped: vec![], stopped: false };
        let json = serde_json::to_value(&outcome).unwrap();
        assert_eq!(json["real"], true);
        assert!(json["why_simulated"].is_null());
        let run = &json["experiments"][0];
        assert_eq!((&run["experiment"], &run["scenario"], &run["scheduler"]), (&2.into(), &"H".into(), &"hls".into()));
        assert_eq!(run["capacity_bps"], 1e8);
        let phase = &run["spans"][0];
        assert_eq!((&phase["start_s"], &phase["end_s"]), (&0.0.into(), &5.0.into()));
        assert_eq!(phase["classes"][0], serde_json::json!({"name": "A1", "rates": {"rate_bps": 3e7, "fair_bps": 3e7}}));
    }

    #[test]
    fn every_frame_is_in_one_place() {
        let accounting = Accounting {
            sent_packets: 10,
            dropped_packets: 3,
            left_packets: 1,
            received_packets: 4,
            kernel_dropped_packets: 1,
            ..Accounting::default()
        };
        assert_eq!(accounting.unaccounted(), 1);
        assert_eq!(Accounting { sent_packets: 8, ..accounting }.unaccounted(), -1);
    }
}
