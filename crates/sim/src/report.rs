//! What a simulation found, as it is printed in JSON: SI base units, rates in bit/s of accounted bytes, times in seconds.

use std::collections::BTreeMap;
use std::fmt;

use fairlink_traffic::ClosedReport;
use serde::{Serialize, Serializer};

/// The outcome of a command: one [`Run`] for each scheduler and seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The runs, scheduler by scheduler and seed by seed.
    pub runs: Vec<Run>,
}

/// One simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The scheduler's name.
    pub scheduler: String,
    /// The seed.
    pub seed: u64,
    /// What was set otherwise than in the scenario for this run, by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, Setting>,
    /// How long the sources ran.
    pub duration_s: f64,
    /// How much of it is left out of averages.
    pub warmup_s: f64,
    /// The link's rate; where it changes, the first.
    pub link_bps: f64,
    /// Share of the time after the warmup in which the link was sending.
    pub link_utilisation: f64,
    /// The other links that ran beside it, if any; their classes follow its own everywhere, as `LINK:CLASS`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further_links: Vec<LinkRun>,
    /// The sources that hear of their packets, if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<ClosedRun>,
    /// The sources whose packets go over several links, if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteRun>,
    /// The leaves, in the order of the tree, then those that only changes brought. A class that is a leaf before and after a
    /// change is one here, whatever became of it otherwise.
    pub classes: Vec<ClassRun>,
    /// The classes with children, in the same order.
    pub inner_classes: Vec<InnerRun>,
    /// The intervals between consecutive changes of the link or of any source's activity.
    pub phases: Vec<Phase>,
    /// What became of the link while it ran, if anything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeRun>,
    /// What the scheduler counted of itself, by name, such as rounds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// What was measured of what the scheduler promises, by class, where [`Options::metrics`](crate::Options::metrics) asks for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<ClassMetrics>,
    /// What the scheduler could not honour and ran without, and what changes did, in words.
    pub notes: Vec<String>,
    /// Most bytes that the packets under way and the measurements can take in memory while the simulation runs, the
    /// scheduler's own left out.
    pub memory_bound_bytes: u64,
    /// What happened against time, where [`Options::window`](crate::Options::window) asks for it. Not part of this JSON.
    #[serde(skip)]
    pub windows: Option<Windows>,
}

/// A link that ran beside the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkRun {
    /// Its name.
    pub name: String,
    /// Its rate.
    pub link_bps: f64,
    /// Share of the time after the warmup in which it was sending.
    pub link_utilisation: f64,
    /// What its scheduler counted of itself, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

/// What a source did that hears of its packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum ClosedRun {
    /// A source with a window.
    Tcp {
        /// Its class.
        class: String,
        /// Mean rate of what was heard of, over the whole run, in bit/s of frames.
        goodput_bps: f64,
        /// Packets sent.
        sent_packets: u64,
        /// Packets heard of.
        delivered_packets: u64,
        /// Packets taken for lost.
        lost_packets: u64,
        /// Marks of congestion.
        marks: u64,
        /// How often nothing was heard for a timeout.
        timeouts: u64,
        /// Largest window, in packets.
        largest_window: f64,
        /// Mean time from sending a packet to hearing of it.
        mean_rtt_s: f64,
        /// Longest such time.
        max_rtt_s: f64,
    },
    /// Requests and responses.
    RequestResponse {
        /// Its class.
        class: String,
        /// Requests that were answered.
        answered: u64,
        /// The same in each second of the run.
        answered_per_second: f64,
        /// Requests that were sent again.
        repeated: u64,
        /// Mean time from the first packet of a request to the end of its response.
        mean_s: f64,
        /// Longest such time.
        max_s: f64,
    },
}

impl ClosedRun {
    pub(crate) fn new(class: String, report: ClosedReport, duration_s: f64) -> Self {
        match report {
            ClosedReport::Tcp(flow) => Self::Tcp {
                class,
                goodput_bps: flow.delivered_bytes as f64 * 8.0 / duration_s,
                sent_packets: flow.sent_packets,
                delivered_packets: flow.delivered_packets,
                lost_packets: flow.lost_packets,
                marks: flow.marks,
                timeouts: flow.timeouts,
                largest_window: flow.largest_window,
                mean_rtt_s: flow.mean_rtt_s,
                max_rtt_s: flow.max_rtt_s,
            },
            ClosedReport::RequestResponse(transactions) => Self::RequestResponse {
                class,
                answered: transactions.answered,
                answered_per_second: transactions.answered as f64 / duration_s,
                repeated: transactions.repeated,
                mean_s: transactions.mean_s,
                max_s: transactions.max_s,
            },
        }
    }
}

/// What became of the packets of a source that go over several links.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RouteRun {
    /// What it is called.
    pub name: String,
    /// Packets that the source sent.
    pub offered_packets: u64,
    /// Packets given to the last link.
    pub received_packets: u64,
    /// Packets dropped at any link. The others are queued or between two links at the end.
    pub dropped_packets: u64,
    /// From the arrival at the first link to the end of the last, of packets that got there after the warmup.
    pub delay_s: Delay,
    /// The links in order.
    pub hops: Vec<HopRun>,
}

/// What became of the packets of a source at one of several links.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopRun {
    /// The link.
    pub link: String,
    /// The leaf there.
    pub class: String,
    /// Packets that arrived.
    pub arrived_packets: u64,
    /// Packets given to the link.
    pub sent_packets: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// From the arrival to the last bit leaving, of packets that left after the warmup.
    pub delay_s: Delay,
}

/// What a leaf did in a run. Packets and bytes are those of the whole run and add up: offered = sent + dropped + queued.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassRun {
    /// The leaf.
    pub name: String,
    /// Packets that its sources sent to the link.
    pub offered_packets: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that shapers and policers of its sources have lost, before they were offered. Left out where there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost_at_source_packets: u64,
    /// Packets given to the link, the one on it at the end included.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Packets dropped, by reason; reasons that did not occur are left out.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets marked as having met congestion, where the class has `ecn`. They are also among those sent, dropped or queued.
    pub marked_packets: u64,
    /// Packets queued at the end.
    pub queued_packets: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Mean rate after the warmup.
    pub rate_bps: f64,
    /// From the arrival of a packet to its last bit leaving, of packets that left after the warmup.
    pub delay_s: Delay,
    /// What the scheduler counted of this class, by name, such as bytes borrowed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// How the delays are distributed, where windows were asked for. Not part of the JSON.
    #[serde(skip)]
    pub delays: Option<Distribution>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ClassRun {
    /// The part of the packets offered that was dropped; `None` where none was offered.
    #[must_use]
    pub fn lost(&self) -> Option<f64> {
        (self.offered_packets > 0).then(|| self.dropped_packets as f64 / self.offered_packets as f64)
    }
}

/// A value of a key that a sweep sets: in base units where it is a number with or without a unit, otherwise as written.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Setting {
    /// A whole number, such as a seed.
    Whole(u64),
    /// A number: bit/s, bytes, seconds or without unit.
    Number(f64),
    /// Anything else.
    Text(String),
}

impl Setting {
    /// As a number, where it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

/// How delays are distributed: for a few hundred delays, how many packets took no longer. Enough for a figure, from the median to the
/// last packet: the shares differ by half a percent at most, and in the tail by a tenth of what is left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    points: Vec<(f64, u64)>,
}

impl Distribution {
    /// Of delays in seconds, in order, each with the number of packets that took no longer.
    pub(crate) fn new(points: Vec<(f64, u64)>) -> Self {
        Self { points }
    }

    /// Delays in seconds, in order, each with the number of packets that took no longer.
    #[must_use]
    pub fn points(&self) -> &[(f64, u64)] {
        &self.points
    }

    /// How many packets there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.points.last().map_or(0, |&(_, count)| count)
    }

    /// The delay in seconds that this share of the packets did not exceed; `None` where there is none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = share * self.count() as f64;
        self.points.iter().find(|&&(_, count)| count as f64 >= wanted).map(|&(delay, _)| delay)
    }

    /// Of the packets of all `parts` together.
    #[must_use]
    pub fn of_all<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let parts: Vec<&Self> = parts.into_iter().collect();
        if let [alone] = parts[..] {
            return alone.clone();
        }
        let mut steps: Vec<(f64, u64)> = Vec::new();
        for part in parts {
            let mut before = 0;
            for &(delay, count) in &part.points {
                steps.push((delay, count - before));
                before = count;
            }
        }
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut count = 0;
        let mut points: Vec<(f64, u64)> = Vec::with_capacity(steps.len());
        for (delay, more) in steps {
            count += more;
            match points.last_mut() {
                Some(last) if last.0 == delay => last.1 = count,
                _ => points.push((delay, count)),
            }
        }
        Self { points }
    }
}

/// Delays of a leaf's packets in seconds; `None` where there was no packet. Mean and maximum are exact to a nanosecond;
/// percentiles are rounded up by at most 0.1 % (1 % in trees of more than 512 leaves; not recorded above 16,384 leaves).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Delay {
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 99 % of the packets took no longer.
    pub p99: Option<f64>,
    /// 99.9 % of the packets took no longer.
    pub p999: Option<f64>,
    /// Longest.
    pub max: Option<f64>,
}

/// What the leaves below a class did in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InnerRun {
    /// The class.
    pub name: String,
    /// Mean rate after the warmup.
    pub rate_bps: f64,
    /// What the scheduler counted of this class, by name, such as bytes lent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

/// What was measured beside its bound. Both are about the whole run, the warmup included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The worst that happened.
    pub measured: f64,
    /// What the scheduler promises, where it does and where it is computed.
    pub bound: Option<f64>,
    /// The bound less what was measured: below zero where it was exceeded.
    pub margin: Option<f64>,
}

impl Measured {
    /// This, beside that.
    pub(crate) fn new(measured: f64, bound: Option<f64>) -> Self {
        Self { measured, bound, margin: bound.map(|bound| bound - measured) }
    }

    /// The worse of two runs.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if other.measured > self.measured { other } else { self }
    }

    /// Whether the bound was exceeded by more than rounding.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.bound.is_some_and(|bound| self.measured > bound * (1.0 + 1e-9) + 2e-9)
    }
}

/// What was measured of what a scheduler promises to a class. docs/measuring.md has the definitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassMetrics {
    /// The class.
    pub name: String,
    /// Definition 1 of \[hls\]: how far it was from its part of what a sibling got while both were backlogged. Not of classes with limits.
    pub fairness_bytes: Option<Measured>,
    /// How far it was behind its share of what the link sent while it was backlogged.
    pub worst_case_bytes: Option<Measured>,
    /// Definition 2 of \[hls\], between packets instead of visits: a bound that is exceeded may hold all the same. Of leaves.
    pub transmission_gap_s: Option<Measured>,
    /// How far it was behind fluid GPS of all leaves. Of leaves.
    pub gps_lag_bytes: Option<Measured>,
    /// How far it was behind fluid hierarchical max-min sharing. Not in trees of more than 1,024 classes.
    pub hmm_lag_bytes: Option<Measured>,
    /// By how much a deadline of its service curve was missed. Of leaves with a curve.
    pub deadline_miss_s: Option<Measured>,
    /// The burstiness sigma of what it was sent, beside the burst that its delay bound is for, or its own.
    pub burst_bytes: Option<Measured>,
    /// The rate at which sigma is measured, in bit/s.
    pub burst_rate_bps: Option<u64>,
    /// The longest delay. Without a bound where more came than it is for.
    pub delay_s: Option<Measured>,
    /// Whether what it was sent is what its delay bound is for; `None` where it has none.
    pub conforms: Option<bool>,
}

/// A change of a link while it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChangeRun {
    /// When.
    pub at_s: f64,
    /// What it is called, such as the name of a file.
    pub name: String,
    /// The scheduler from then on.
    pub scheduler: String,
    /// The link's rate from then on.
    pub link_bps: f64,
    /// Classes that were there before and after, those with children included.
    pub kept_classes: usize,
    /// Classes that were there before only.
    pub removed_classes: usize,
    /// Packets that those had queued. They were dropped.
    pub removed_packets: u64,
    /// Leaves that have classes below them since.
    pub split_classes: usize,
    /// Packets that those had queued. They were dropped.
    pub split_packets: u64,
    /// Classes that are there since.
    pub new_classes: usize,
    /// Packets of other classes that were dropped because the new limits have no room for them.
    pub unfit_packets: u64,
}

/// `at 10 s: after.toml: 3 classes kept, 1 removed (12 packets dropped), 2 new`.
impl fmt::Display for ChangeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_s, name, kept_classes, removed_classes, removed_packets, new_classes, .. } = self;
        let classes = if *kept_classes == 1 { "class" } else { "classes" };
        let packets = |count: u64| if count == 1 { "1 packet".to_owned() } else { format!("{count} packets") };
        write!(f, "at {at_s} s: {name}: {kept_classes} {classes} kept, {removed_classes} removed")?;
        if *removed_classes > 0 {
            write!(f, " ({} dropped)", packets(*removed_packets))?;
        }
        write!(f, ", {new_classes} new")?;
        if self.split_classes > 0 {
            let dropped = packets(self.split_packets);
            write!(f, "; {} with classes below since ({dropped} dropped)", self.split_classes)?;
        }
        if self.unfit_packets > 0 {
            write!(f, "; {} dropped for which the new limits have no room", packets(self.unfit_packets))?;
        }
        Ok(())
    }
}

/// An interval in which the link does not change and no source starts or stops.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// Its start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// The leaves, in the order of [`Run::classes`]. One that is not there in this phase gets nothing.
    pub classes: Vec<ClassRate>,
    /// The classes with children, in the order of [`Run::inner_classes`].
    pub inner_classes: Vec<ClassRate>,
}

/// A class's rate in a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassRate {
    /// The class.
    pub name: String,
    /// Mean rate in the phase.
    pub rate_bps: f64,
    /// Mean rate in the phase without the first [`Options::settle`](crate::Options::settle) of it, or in the whole phase where the
    /// phase is no longer than that.
    pub settled_bps: f64,
    /// What hierarchical max-min fairness gives the class when its sources ask for their mean rates. A pool counts as the link of
    /// its members.
    pub fair_bps: f64,
    /// What the scheduler gives it in the long run by its own rule. Absent where that is not computed; [`Run::notes`] say why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal_bps: Option<f64>,
}

/// What happened against time.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    /// Names of all classes but the link, in the order of their ids.
    pub names: Vec<String>,
    /// For each of `names`, whether it is a leaf, be it for a part of the run.
    pub leaf: Vec<bool>,
    /// One row for each window. A window in which the link changes is cut in two there.
    pub rows: Vec<Window>,
}

/// What happened in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Its start in seconds.
    pub start_s: f64,
    /// Its end in seconds; the last window ends with the run.
    pub end_s: f64,
    /// Mean rate in bit/s of each of [`Windows::names`].
    pub rates_bps: Vec<f64>,
    /// More of each of [`Windows::names`]; of a class that is never a leaf, nothing.
    pub leaves: Vec<LeafWindow>,
}

/// What happened to a leaf in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeafWindow {
    /// Packets whose last bit left in the window.
    pub sent_packets: u32,
    /// Packets dropped in the window.
    pub dropped_packets: u32,
    /// Mean delay of the packets that left, in seconds; `None` where none did.
    pub delay_mean_s: Option<f64>,
    /// Longest delay of the packets that left, in seconds.
    pub delay_max_s: Option<f64>,
    /// Mean length of the queue over the time of the window, in packets. The packet on the link is not queued.
    pub queue_mean_packets: f64,
    /// Longest queue in the window.
    pub queue_max_packets: u32,
}

/// As JSON has it: a list of windows, each with its classes. Inner classes have a rate alone.
impl Serialize for Windows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Span {
            mean: Option<f64>,
            max: Option<f64>,
        }
        #[derive(Serialize)]
        struct Class<'a> {
            name: &'a str,
            rate_bps: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            delay_s: Option<Span>,
            #[serde(skip_serializing_if = "Option::is_none")]
            queue_packets: Option<Span>,
            #[serde(skip_serializing_if = "Option::is_none")]
            dropped_packets: Option<u32>,
        }
        #[derive(Serialize)]
        struct Row<'a> {
            start_s: f64,
            end_s: f64,
            classes: Vec<Class<'a>>,
        }
        serializer.collect_seq(self.rows.iter().map(|row| {
            let class = |index: usize| {
                let leaf = row.leaves.get(index).filter(|_| self.leaf[index]);
                Class {
                    name: &self.names[index],
                    rate_bps: row.rates_bps[index],
                    delay_s: leaf.map(|leaf| Span { mean: leaf.delay_mean_s, max: leaf.delay_max_s }),
                    queue_packets: leaf.map(|leaf| Span {
                        mean: Some(leaf.queue_mean_packets),
                        max: Some(f64::from(leaf.queue_max_packets)),
                    }),
                    dropped_packets: leaf.map(|leaf| leaf.dropped_packets),
                }
            };
            Row { start_s: row.start_s, end_s: row.end_s, classes: (0..self.names.len()).map(class).collect() }
        }))
    }
}
