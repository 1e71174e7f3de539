//! The results of a simulation, as printed in JSON: SI base units, rates in bit/s of accounted bytes, times in seconds.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use fairlink_report::{ClassReport, ClassSpan, Counts, Delay, LinkReport, QueueLength, Rates, Span, SpanKind};
use fairlink_traffic::ClosedReport;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::misplaced::Misplaced;

/// The runs of a comparison, scheduler by scheduler and seed by seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The runs.
    pub runs: Vec<Run>,
}

/// One simulation. Its JSON is [`Run::document`] without windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The scheduler's name.
    pub scheduler: String,
    /// The seed.
    pub seed: u64,
    /// Settings of this run that differ from the scenario, by key.
    pub sweep: BTreeMap<String, Setting>,
    /// Time for which the sources ran.
    pub duration_s: f64,
    /// The part of it that is left out of averages.
    pub warmup_s: f64,
    /// The link's rate in bit/s; if it changes, the first.
    pub link_bps: f64,
    /// Share of the time after the warmup in which the link was sending.
    pub link_utilisation: f64,
    /// The other links that ran beside it, if any; their classes follow its own everywhere, as `LINK:CLASS`.
    pub further_links: Vec<LinkReport>,
    /// The sources that receive feedback on their packets, if any.
    pub closed: Vec<ClosedRun>,
    /// The sources whose packets go over several links, if any.
    pub routes: Vec<RouteRun>,
    /// The names of all classes, in the order of the link file; then those that only changes brought.
    pub names: Vec<String>,
    /// The leaves, in the order of the tree, then those that only changes added. A class that is a leaf before and
    /// after a change is one here, regardless of other changes. Counts are of the whole run; rates and delays begin
    /// after the warmup, delays end with the last bit of a packet.
    pub classes: Vec<ClassReport>,
    /// The classes with children, in the same order; their counts are the sums of the leaves below them now.
    pub inner_classes: Vec<ClassReport>,
    /// The intervals between consecutive changes of the link or of any source's activity.
    pub phases: Vec<Phase>,
    /// Changes of the link while it ran, if any.
    pub changes: Vec<ChangeRun>,
    /// Counters of the scheduler for the link by name, such as rounds.
    pub counters: BTreeMap<String, u64>,
    /// Measurements of the scheduler's promises, by class, if requested by
    /// [`Options::metrics`](crate::Options::metrics).
    pub metrics: Vec<ClassMetrics>,
    /// Traffic of the wrong leaves, with the metrics and where several cores share the link; not in trees of more than
    /// 1,024 classes.
    pub misplaced: Option<Misplaced>,
    /// Settings that the scheduler could not honour and ignored, and effects of changes, in words.
    pub notes: Vec<String>,
    /// Maximum memory of the packets in flight and the measurements while the simulation runs, in bytes, without the
    /// scheduler's own.
    pub memory_bound_bytes: u64,
    /// Distributions of the delays of [`Run::classes`], if windows were requested and percentiles are recorded. Not
    /// part of the JSON.
    pub distributions: Vec<Distribution>,
    /// A time series, if requested by [`Options::window`](crate::Options::window).
    pub windows: Option<Windows>,
}

/// The document of one run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunDocument<'a> {
    /// The seed.
    pub seed: u64,
    /// Settings of this run that differ from the scenario, by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: &'a BTreeMap<String, Setting>,
    /// Time for which the sources ran, in seconds.
    pub duration_s: f64,
    /// The part of it that is left out of averages, in seconds.
    pub warmup_s: f64,
    /// The link with its classes, those of further links as `LINK:CLASS`; its spans are phases and windows.
    pub link: LinkReport,
    /// The other links that ran beside it, without their classes.
    #[serde(skip_serializing_if = "<[LinkReport]>::is_empty")]
    pub further_links: &'a [LinkReport],
    /// The sources that receive feedback on their packets.
    #[serde(skip_serializing_if = "<[ClosedRun]>::is_empty")]
    pub closed: &'a [ClosedRun],
    /// The sources whose packets go over several links.
    #[serde(skip_serializing_if = "<[RouteRun]>::is_empty")]
    pub routes: &'a [RouteRun],
    /// Changes of the link while it ran.
    #[serde(skip_serializing_if = "<[ChangeRun]>::is_empty")]
    pub changes: &'a [ChangeRun],
    /// Measurements of the scheduler's promises, by class.
    #[serde(skip_serializing_if = "<[ClassMetrics]>::is_empty")]
    pub metrics: &'a [ClassMetrics],
    /// Traffic of the wrong leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misplaced: Option<&'a Misplaced>,
    /// Maximum memory of the packets in flight and the measurements, in bytes.
    pub memory_bound_bytes: u64,
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document(false).serialize(serializer)
    }
}

impl Run {
    /// Iterates over the distributions of the delays of those leaves that `take` accepts and that have one.
    pub fn distributions_of(&self, take: impl Fn(&ClassReport) -> bool) -> impl Iterator<Item = &Distribution> {
        let each = self.classes.iter().zip(&self.distributions);
        each.filter(move |&(class, delays)| take(class) && delays.count() > 0).map(|(_, delays)| delays)
    }

    /// Returns the document, with the time series if `windows` is set and it was recorded.
    #[must_use]
    pub fn document(&self, windows: bool) -> RunDocument<'_> {
        let places: HashMap<&str, usize> =
            self.names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let place = |name: &str| places.get(name).copied().unwrap_or(usize::MAX);
        let mut classes: Vec<ClassReport> = self.classes.iter().chain(&self.inner_classes).cloned().collect();
        classes.sort_by_key(|class| place(&class.name));
        // A class that a change gave children was a leaf before: one entry, with its counts as either.
        classes.dedup_by(|later, class| {
            let same = later.name == class.name;
            if same {
                class.rates.rate_bps = sum(class.rates.rate_bps, later.rates.rate_bps);
                for (name, value) in &later.counters {
                    class.counters.entry(name.clone()).or_insert(*value);
                }
            }
            same
        });
        let mut counts: Option<Counts> = None;
        for leaf in self.classes.iter().filter_map(|class| class.counts.as_ref()) {
            match &mut counts {
                Some(sum) => *sum += leaf,
                None => counts = Some(*leaf),
            }
        }
        let phase = |phase: &Phase| {
            let mut classes: Vec<ClassSpan> = phase.classes.iter().chain(&phase.inner_classes).cloned().collect();
            classes.sort_by_key(|class| place(&class.name));
            classes.dedup_by(|later, class| {
                let same = later.name == class.name;
                if same {
                    class.rates = Rates {
                        rate_bps: sum(class.rates.rate_bps, later.rates.rate_bps),
                        settled_bps: sum(class.rates.settled_bps, later.rates.settled_bps),
                        fair_bps: sum(class.rates.fair_bps, later.rates.fair_bps),
                        ideal_bps: sum(class.rates.ideal_bps, later.rates.ideal_bps),
                        demand_bps: None,
                    };
                }
                same
            });
            Span { classes, ..Span::new(SpanKind::Phase, phase.start_s, phase.end_s) }
        };
        let mut spans: Vec<Span> = self.phases.iter().map(phase).collect();
        spans.extend(self.windows.iter().filter(|_| windows).flat_map(Windows::spans));
        RunDocument {
            seed: self.seed,
            sweep: &self.sweep,
            duration_s: self.duration_s,
            warmup_s: self.warmup_s,
            link: LinkReport {
                scheduler: Some(self.scheduler.clone()),
                capacity_bps: Some(self.link_bps as u64),
                // With further links the classes are those of all.
                counts: counts.filter(|_| self.further_links.is_empty()),
                utilisation: Some(self.link_utilisation),
                counters: self.counters.clone(),
                classes,
                spans,
                notes: self.notes.clone(),
                ..LinkReport::default()
            },
            further_links: &self.further_links,
            closed: &self.closed,
            routes: &self.routes,
            changes: &self.changes,
            metrics: &self.metrics,
            misplaced: self.misplaced.as_ref(),
            memory_bound_bytes: self.memory_bound_bytes,
        }
    }
}

/// Returns the sum; `None` if one is unknown.
fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.zip(other).map(|(one, other)| one + other)
}

/// The results of a source that receives feedback on its packets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum ClosedRun {
    /// A source with a window.
    Tcp {
        /// Its class.
        class: String,
        /// Mean rate of acknowledged packets over the whole run, in bit/s of frames.
        goodput_bps: f64,
        /// Packets sent.
        sent_packets: u64,
        /// Acknowledged packets.
        delivered_packets: u64,
        /// Packets taken for lost.
        lost_packets: u64,
        /// Number of marks of congestion.
        marks: u64,
        /// Number of timeouts.
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
        /// Number of requests that were answered.
        answered: u64,
        /// The same in each second of the run.
        answered_per_second: f64,
        /// Number of requests that were sent again.
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

/// The counts of a source whose packets cross several links.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RouteRun {
    /// Its name.
    pub name: String,
    /// Packets that the source sent.
    pub offered_packets: u64,
    /// Packets given to the last link.
    pub received_packets: u64,
    /// Packets dropped at any link. The others are queued or between two links at the end.
    pub dropped_packets: u64,
    /// Delay from the arrival at the first link to the end of the last, of packets that got there after the warmup.
    pub delay_s: Delay,
    /// The links in order.
    pub hops: Vec<HopRun>,
}

/// The counts of a source at one of several links.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// Delay from the arrival to the departure of the last bit, of packets that left after the warmup.
    pub delay_s: Delay,
}

/// A value of a key that a sweep sets: in base units if it is a number with or without a unit, otherwise as written.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// Returns the value as a number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

/// A cumulative distribution of delays: for a few hundred delays, the number of packets with no longer one. Enough for
/// a figure, from the median to the last packet: the shares differ by at most half a percent, and in the tail by at
/// most a tenth of the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    points: Vec<(f64, u64)>,
}

impl Distribution {
    /// Makes a distribution of delays in seconds, in order. Each has the number of packets that took no longer.
    pub(crate) fn new(points: Vec<(f64, u64)>) -> Self {
        Self { points }
    }

    /// Delays in seconds, in order, each with the number of packets that took no longer.
    #[must_use]
    pub fn points(&self) -> &[(f64, u64)] {
        &self.points
    }

    /// Number of packets.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.points.last().map_or(0, |&(_, count)| count)
    }

    /// The delay in seconds that this share of the packets did not exceed; `None` if there are no packets.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = share * self.count() as f64;
        self.points.iter().find(|&&(_, count)| count as f64 >= wanted).map(|&(delay, _)| delay)
    }

    /// Combines the packets of all `parts`.
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

/// A measurement beside its bound. Both cover the whole run, the warmup included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    /// The worst that happened, in the unit with which its key ends.
    pub measured: f64,
    /// The scheduler's promise in this unit, if there is one and it is computed.
    pub bound: Option<f64>,
    /// The bound minus the measurement, in this unit: below zero if it was exceeded.
    pub margin: Option<f64>,
}

impl Measured {
    /// Makes a measured value with its bound.
    pub(crate) fn new(measured: f64, bound: Option<f64>) -> Self {
        Self { measured, bound, margin: bound.map(|bound| bound - measured) }
    }

    /// Returns the worse of two runs.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if other.measured > self.measured { other } else { self }
    }

    /// Returns true if the bound was exceeded by more than rounding.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.bound.is_some_and(|bound| self.measured > bound * (1.0 + 1e-9) + 2e-9)
    }
}

/// Measurements of a scheduler's promises to a class. docs/measuring.md has the definitions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClassMetrics {
    /// The class.
    pub name: String,
    /// Definition 1 of \[hls\]: deviation from its part of a sibling's service while both were backlogged. Not of
    /// classes with limits.
    pub fairness_bytes: Option<Measured>,
    /// Lag behind its share of the link's service while it was backlogged.
    pub worst_case_bytes: Option<Measured>,
    /// Definition 2 of \[hls\], between packets instead of visits. Of leaves.
    pub transmission_gap_s: Option<Measured>,
    /// Lag behind fluid GPS of all leaves. Of leaves.
    pub gps_lag_bytes: Option<Measured>,
    /// Lag behind fluid hierarchical max-min sharing. Not in trees of more than 1,024 classes.
    pub hmm_lag_bytes: Option<Measured>,
    /// Largest miss of a deadline of its service curve. Of leaves with a curve.
    pub deadline_miss_s: Option<Measured>,
    /// The burstiness sigma of its arrivals, beside the burst of its delay bound, or its own.
    pub burst_bytes: Option<Measured>,
    /// The rate at which sigma is measured, in bit/s.
    pub burst_rate_bps: Option<u64>,
    /// The longest delay. Without a bound if the arrivals exceeded its assumption.
    pub delay_s: Option<Measured>,
    /// True if its traffic conforms to the assumption of its delay bound; `None` if it has none.
    pub conforms: Option<bool>,
}

/// A change of a link while it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ChangeRun {
    /// When.
    pub at_s: f64,
    /// Its name, such as that of a file.
    pub name: String,
    /// The scheduler from then on.
    pub scheduler: String,
    /// The link's rate from then on.
    #[serde(rename = "capacity_bps")]
    pub link_bps: f64,
    /// Number of classes that were there before and after, those with children included.
    pub kept_classes: usize,
    /// Number of classes that were there before only.
    pub removed_classes: usize,
    /// Packets that those had queued. They were dropped.
    pub removed_packets: u64,
    /// Number of leaves that have classes below them since.
    pub split_classes: usize,
    /// Packets that those had queued. They were dropped.
    pub split_packets: u64,
    /// Number of classes that are there since.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// The leaves, in the order of [`Run::classes`], with all rates but the demand. One that does not exist in this
    /// phase gets zero. `settled_bps` leaves out the first [`Options::settle`](crate::Options::settle) of a longer
    /// phase. In `fair_bps`, a pool counts as the link of its members.
    pub classes: Vec<ClassSpan>,
    /// The classes with children, in the order of [`Run::inner_classes`].
    pub inner_classes: Vec<ClassSpan>,
}

/// Measurements against time.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    /// Names of all classes but the link, in the order of their ids.
    pub names: Vec<String>,
    /// True for each of `names` that is a leaf, at least for a part of the run.
    pub leaf: Vec<bool>,
    /// One row for each window. A window in which the link changes is cut in two there.
    pub rows: Vec<Window>,
}

/// Measurements in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Its start in seconds.
    pub start_s: f64,
    /// Its end in seconds; the last window ends with the run.
    pub end_s: f64,
    /// Mean rate in bit/s of each of [`Windows::names`].
    pub rates_bps: Vec<f64>,
    /// Further values of each of [`Windows::names`]; zero for a class that is never a leaf.
    pub leaves: Vec<LeafWindow>,
}

/// Measurements of a leaf in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeafWindow {
    /// Packets whose last bit left in the window.
    pub sent_packets: u32,
    /// Packets dropped in the window.
    pub dropped_packets: u32,
    /// Mean delay of the packets that left, in seconds; `None` if none did.
    pub delay_mean_s: Option<f64>,
    /// Longest delay of the packets that left, in seconds.
    pub delay_max_s: Option<f64>,
    /// Mean length of the queue over the time of the window, in packets. The packet on the link is not queued.
    pub queue_mean_packets: f64,
    /// Longest queue in the window.
    pub queue_max_packets: u32,
}

impl Windows {
    /// Iterates over the windows as spans. Inner classes have a rate alone.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.rows.iter().map(|row| {
            let class = |index: usize| {
                let leaf = row.leaves.get(index).filter(|_| self.leaf[index]);
                ClassSpan {
                    name: self.names[index].clone(),
                    delay_s: leaf.map(|leaf| Delay {
                        packets: leaf.sent_packets.into(),
                        mean: leaf.delay_mean_s,
                        max: leaf.delay_max_s,
                        ..Delay::default()
                    }),
                    rates: Rates { rate_bps: Some(row.rates_bps[index]), ..Rates::default() },
                    dropped_packets: leaf.map(|leaf| leaf.dropped_packets.into()),
                    queue_packets: leaf.map(|leaf| QueueLength {
                        mean: leaf.queue_mean_packets,
                        max: f64::from(leaf.queue_max_packets),
                    }),
                    ..ClassSpan::default()
                }
            };
            let classes = (0..self.names.len()).map(class).collect();
            Span { classes, ..Span::new(SpanKind::Window, row.start_s, row.end_s) }
        })
    }
}
