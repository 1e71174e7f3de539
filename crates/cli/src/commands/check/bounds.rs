//! The bounds of a scheduler as `check` prints them: numbers for programs, sentences for people. They are computed in
//! [`fairlink_theory::promises`].

use fairlink_config::link::LinkFile;
use fairlink_core::{ClassId, Delay, Hierarchy, Hosts, Nanos, PerWindow, SchedulerInfo, TransmitQueue};
use fairlink_theory::latency::DelayBound;
use fairlink_theory::promises::{Promised, RunWeight, WeightUnit, admission, next_packet};
use fairlink_theory::to_f64;
use fairlink_traffic::{ArrivalCurve, ArrivalLimit};
use serde::Serialize;

use crate::human;

/// Promises for the whole link; what the scheduler does not promise is left out.
#[derive(Debug, Default, Serialize)]
pub(super) struct Bounds<'a> {
    /// Definition 1 of \[hls\] with the weights as run.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_bytes: Option<f64>,
    /// The same as time at the guarantee, free of the unit of weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_s: Option<f64>,
    /// The siblings for which it is the largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_between: Option<[&'a str; 2]>,
    /// How long a backlogged leaf waits for its next visit at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    transmission_gap_s: Option<f64>,
    /// Longest wait of a backlogged leaf for its next packet to leave. Excludes latency-critical leaves and leaves below ceilings. More than the
    /// gap: a leaf of small weight collects quotas over many visits.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_packet_s: Option<f64>,
    /// The leaf for which that is longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_packet_of: Option<&'a str>,
    #[serde(skip)]
    next_packet_leaf: Option<ClassId>,
    /// One round, which is what Table II of \[hls\] prints.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_round_s: Option<f64>,
}

impl<'a> Bounds<'a> {
    /// Those of `promised`, with the names of `link`.
    pub(super) fn of(promised: &Promised, link: &'a LinkFile) -> Self {
        let fairness = promised.fairness.as_ref();
        let gap = promised.transmission_gap.as_ref();
        let pair = |(one, other)| [one, other].map(|class| link.names.name(class));
        let next = gap.and_then(|_| next_packet(link.info(), &link.tree));
        Self {
            fairness_bytes: fairness.map(|fairness| to_f64(&fairness.bytes_per_weight.value)),
            fairness_s: fairness.map(|fairness| to_f64(&fairness.seconds.value)),
            fairness_between: fairness.map(|fairness| pair(fairness.seconds.classes)),
            transmission_gap_s: gap.map(|gap| to_f64(&gap.seconds)),
            next_packet_s: next.map(|(seconds, _)| seconds),
            next_packet_leaf: next.map(|(_, leaf)| leaf),
            next_packet_of: next.map(|(_, leaf)| link.names.name(leaf)),
            longest_round_s: gap.and_then(|gap| gap.longest_round.as_ref()).map(to_f64),
        }
    }
}

/// A bound beyond this time is of no use to anybody: 1 minute, in seconds.
pub(super) const USEFUL_S: f64 = 60.0;

/// Why a bound that depends on the rate of `class` is so long.
fn why_useless(link: &Hierarchy, name: &str, class: ClassId) -> String {
    let bps = link.rate_all_busy(class).max(1);
    let packet = f64::from(link.link().max_packet) * 8.0 / bps as f64;
    format!(
        "while all are busy, {name} has {} of the link and needs {} for a largest packet",
        human::rate(bps as f64),
        human::time(packet)
    )
}

/// What a delay bound holds for.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum BoundFor {
    /// One limit.
    One(Limit),
    /// Traffic that keeps all of these.
    All {
        /// The limits.
        all: Vec<Limit>,
    },
}

/// One limit of the traffic.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Limit {
    /// Traffic of at most `burst_bytes` and `rate_bps` in any time.
    Bucket { burst_bytes: u64, rate_bps: u64 },
    /// At most `bytes` in any time of `every_s`.
    Bytes { bytes: u64, every_s: f64 },
    /// At most `packets` in any time of `every_s`.
    Packets { packets: u64, every_s: f64 },
    /// Packets `min_gap_s` apart, `mean_gap_s` on average in any time of `every_s`, of at most `largest_bytes`.
    Spacing { min_gap_s: f64, mean_gap_s: f64, every_s: f64, largest_bytes: u32 },
    /// What a line of this rate brings.
    Line { line_bps: u64 },
}

impl From<&ArrivalCurve> for BoundFor {
    fn from(traffic: &ArrivalCurve) -> Self {
        match traffic.limits() {
            &[limit] => Self::One(limit.into()),
            several => Self::All { all: several.iter().map(|&limit| limit.into()).collect() },
        }
    }
}

impl From<ArrivalLimit> for Limit {
    fn from(limit: ArrivalLimit) -> Self {
        let seconds = |time: Nanos| time.0 as f64 / 1e9;
        match limit {
            ArrivalLimit::Bucket { burst, rate_bps } => Self::Bucket { burst_bytes: burst, rate_bps },
            ArrivalLimit::Window { amount: PerWindow::Bytes(bytes), every } => {
                Self::Bytes { bytes, every_s: seconds(every) }
            }
            ArrivalLimit::Window { amount: PerWindow::Packets(packets), every } => {
                Self::Packets { packets, every_s: seconds(every) }
            }
            ArrivalLimit::Spacing { min_gap, mean_gap, over, largest } => Self::Spacing {
                min_gap_s: seconds(min_gap),
                mean_gap_s: seconds(mean_gap),
                every_s: seconds(over),
                largest_bytes: largest,
            },
            ArrivalLimit::Line { rate } => Self::Line { line_bps: rate.bps() },
        }
    }
}

impl BoundFor {
    fn text(&self) -> String {
        match self {
            Self::One(limit) => limit.text(),
            Self::All { all } => all.iter().map(Limit::text).collect::<Vec<_>>().join(", "),
        }
    }
}

impl Limit {
    fn text(&self) -> String {
        match *self {
            Self::Bucket { burst_bytes, rate_bps } => {
                format!("{} + {}", human::size(burst_bytes as f64), human::rate(rate_bps as f64))
            }
            Self::Bytes { bytes, every_s } => format!("{} in {}", human::size(bytes as f64), human::time(every_s)),
            Self::Packets { packets, every_s } => {
                format!("{} in {}", human::count(packets as usize, "packet", "packets"), human::time(every_s))
            }
            Self::Spacing { min_gap_s, mean_gap_s, every_s, largest_bytes } => format!(
                "{} every {} ({} at least, over {})",
                human::size(largest_bytes.into()),
                human::time(mean_gap_s),
                human::time(min_gap_s),
                human::time(every_s)
            ),
            Self::Line { line_bps } => format!("a line of {}", human::rate(line_bps as f64)),
        }
    }
}

/// What is promised for one class; what is not is left out.
#[derive(Debug, Default, Serialize)]
pub(super) struct ClassBounds {
    /// By how many bytes the class may differ from its part of what a sibling gets while both stay backlogged.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_bound_bytes: Option<f64>,
    /// The same as time at the class's rate when all are busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_bound_s: Option<f64>,
    /// By how many bytes the class may be behind its share of what the link has sent, while it is backlogged.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_case_fairness_bytes: Option<f64>,
    /// How long the leaf waits for its next visit while it is backlogged, where a ceiling at it or above it makes this longer
    /// than it is for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    transmission_gap_s: Option<f64>,
    /// The most bytes that one host of the leaf is served more than another while both have packets queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts_apart_bytes: Option<u64>,
    /// How long a packet takes to leave at most, if the class sends no more than `delay_bound_for`.
    delay_bound_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_bound_for: Option<BoundFor>,
}

impl ClassBounds {
    /// Those of `class`.
    pub(super) fn of(promised: &Promised, tree: &Hierarchy, class: ClassId) -> Self {
        let index = class.index();
        let of_rounds = promised.fairness.as_ref().and_then(|fairness| *fairness.of_classes.get(index)?);
        let fairness = of_rounds.or_else(|| *promised.packet_each.get(index)?);
        let delay = promised.delays[index].as_ref();
        Self {
            fairness_bound_bytes: fairness.map(|fairness| fairness.bytes),
            fairness_bound_s: fairness.map(|fairness| fairness.seconds),
            worst_case_fairness_bytes: promised.worst_case[index].as_ref().map(to_f64),
            transmission_gap_s: promised.transmission_gap.as_ref().and_then(|gap| gap.below_ceilings[index]),
            // Behind a transmit queue a host may have nothing but packets whose turn is decided.
            hosts_apart_bytes: tree
                .config(class)
                .hosts
                .filter(|_| tree.link().transmit_queue.is_none())
                .map(|_| Hosts::apart(tree.link().max_packet)),
            delay_bound_s: delay.map(DelayBound::seconds_in_floats),
            delay_bound_for: delay.map(|bound| (&bound.traffic).into()),
        }
    }
}

fn time_up(seconds: Option<f64>) -> Option<String> {
    seconds.map(|seconds| if seconds > USEFUL_S { "no use".to_owned() } else { human::time(human::up(seconds)) })
}

fn size_up(bytes: Option<f64>) -> Option<String> {
    bytes.map(|bytes| human::size(human::up(bytes)))
}

/// A column of the table of what is promised for each class.
type Column = (&'static str, fn(&ClassBounds) -> Option<String>);

/// The columns of that table which are not empty for all `classes`.
pub(super) fn columns(promised: &Promised, tree: &Hierarchy) -> Vec<Column> {
    let hosts = has_hosts(tree) && tree.link().transmit_queue.is_none();
    let of_rounds = promised.fairness.as_ref().is_some_and(|fairness| !fairness.of_classes.is_empty());
    let fairness = of_rounds || promised.packet_each.iter().any(Option::is_some);
    let worst_case = promised.worst_case.iter().any(Option::is_some);
    let delays = promised.delays.iter().any(Option::is_some);
    let columns: [(bool, Column); 7] = [
        (fairness, ("off its part by", |bounds| size_up(bounds.fairness_bound_bytes))),
        (fairness, ("which is", |bounds| time_up(bounds.fairness_bound_s))),
        (worst_case, ("behind by", |bounds| size_up(bounds.worst_case_fairness_bytes))),
        (has_ceilings(promised), ("next visit", |bounds| time_up(bounds.transmission_gap_s))),
        (hosts, ("hosts apart by", |bounds| size_up(bounds.hosts_apart_bytes.map(|bytes| bytes as f64)))),
        (delays, ("delay", |bounds| time_up(bounds.delay_bound_s))),
        (delays, ("for traffic of", |bounds| bounds.delay_bound_for.as_ref().map(BoundFor::text))),
    ];
    columns.into_iter().filter_map(|(is_used, column)| is_used.then_some(column)).collect()
}

/// Whether the link can guarantee the service curves that its classes ask for, \[hfsc\] Section 2.1.
#[derive(Debug, Serialize)]
pub(super) struct Admission {
    admitted: bool,
    /// After how long all classes together ask for more than the link carries, if all become backlogged at once.
    fails_at_s: Option<f64>,
}

impl Admission {
    /// The admission test, where the link's scheduler guarantees curves and a class has one.
    pub(super) fn of(link: &LinkFile) -> Option<Self> {
        let fails_at = admission(link.info(), &link.tree)?;
        Some(Self { admitted: fails_at.is_none(), fails_at_s: fails_at.as_ref().map(to_f64) })
    }
}

/// A weight with its unit.
pub(super) fn weight(weight: RunWeight) -> String {
    match weight.unit {
        WeightUnit::Bytes => human::size(weight.as_run),
        WeightUnit::Visits => human::count(weight.as_run as usize, "visit", "visits"),
    }
}

/// Whether bounds are promised that differ below ceilings, and there are any.
fn has_ceilings(promised: &Promised) -> bool {
    promised.transmission_gap.iter().any(|gap| gap.below_ceilings.iter().any(Option::is_some))
}

/// Whether hosts share a leaf.
fn has_hosts(tree: &Hierarchy) -> bool {
    tree.classes().any(|class| tree.config(class).hosts.is_some())
}

/// What the scheduler promises by itself and is not proven behind the transmit queue of `tree`, in words; `None` where that is nothing.
pub(super) fn unproven(info: &SchedulerInfo, tree: &Hierarchy, promised: &Promised) -> Option<String> {
    tree.link().transmit_queue?;
    let mut kinds: Vec<&str> = info.promises.names().filter(|&name| name != "delay").collect();
    let with_delay = tree.leaves().iter().filter(|leaf| promised.delays[leaf.index()].is_some()).count();
    let of_some = match with_delay {
        _ if info.promises.delay.is_none() => None,
        0 => Some("delay"),
        all if all == tree.leaves().len() => None,
        _ => Some("delay of some classes"),
    };
    kinds.extend(of_some);
    kinds.extend(has_hosts(tree).then_some("hosts that share a class"));
    if kinds.is_empty() {
        return None;
    }
    Some(format!(
        "what the scheduler promises of {} is not proven behind it and not printed",
        kinds.join(", ").replace('_', " ")
    ))
}

/// The bounds in words, one a line.
/// `says_fairness`: whether other lines say how fair it is.
pub(super) fn lines(
    promised: &Promised,
    bounds: &Bounds<'_>,
    info: &SchedulerInfo,
    tree: &Hierarchy,
    says_fairness: bool,
) -> Vec<String> {
    let mut lines = Vec::new();
    let queue = tree.link().transmit_queue;
    if let (Some(fairness), Some(bytes), Some(seconds)) = (&promised.fairness, bounds.fairness_bytes, bounds.fairness_s)
    {
        let between = bounds.fairness_between.map_or_else(String::new, |[a, b]| format!(" ({a} and {b})"));
        let siblings = if fairness.leaves_only { "sibling leaves" } else { "siblings" };
        let unless = if has_ceilings(promised) { " and no ceiling at them or below them holds them back" } else { "" };
        let useless = (seconds > USEFUL_S).then(|| {
            let [one, other] = [fairness.seconds.classes.0, fairness.seconds.classes.1];
            let slower = if tree.rate_all_busy(one) < tree.rate_all_busy(other) { 0 } else { 1 };
            let name = bounds.fairness_between.map_or("a class", |names| names[slower]);
            why_useless(tree, name, [one, other][slower])
        });
        lines.push(if let Some(why) = useless {
            format!(
                "fairness          no useful bound ({} at the rates of two {siblings}{between}): {why}",
                human::time(human::up(seconds))
            )
        } else {
            format!(
            "fairness          while two {siblings} stay backlogged{unless}, what they get per weight differs by {} per {} at most, \
             {} at their rates{between}",
            human::size(human::up(bytes)),
            if fairness.unit == WeightUnit::Bytes { "byte" } else { "visit" },
            human::time(human::up(seconds))
            )
        });
    }
    let worst_case = promised.worst_case.iter().any(Option::is_some);
    if worst_case {
        lines.push(
            "fairness          while a class is backlogged it is behind its share of what the link sends by so much at most"
                .to_owned(),
        );
    }
    let packet_each = promised.packet_each.iter().any(Option::is_some);
    if packet_each && !says_fairness {
        lines.push(
            "fairness          while two siblings stay backlogged, what they get for their shares differs by a largest packet of each at most"
                .to_owned(),
        );
    }
    if let Some(gap) = bounds.transmission_gap_s {
        let rounds = bounds.longest_round_s.map_or_else(String::new, |one| {
            let more = if gap > one * 2.000_001 { ", and what latency-critical classes may be ahead by" } else { "" };
            format!(" (two rounds of {}{more})", human::time(one))
        });
        let which = if has_ceilings(promised) { " without a ceiling at it or above it" } else { "" };
        lines.push(format!(
            "transmission gap  a backlogged leaf{which} waits at most {} for its next visit{rounds}",
            human::time(human::up(gap))
        ));
    }
    if let (Some(next), Some(name)) = (bounds.next_packet_s, bounds.next_packet_of) {
        lines.push(if next > USEFUL_S {
            format!(
                "next packet       no useful bound ({} until the next packet of {name} has left): {}",
                human::time(human::up(next)),
                why_useless(tree, name, bounds.next_packet_leaf.unwrap_or(ClassId::ROOT))
            )
        } else {
            format!(
                "next packet       of a backlogged leaf has left after {} at most ({name}): a leaf of small weight needs several visits for it",
                human::time(human::up(next))
            )
        });
    }
    let delays = promised.delays.iter().any(Option::is_some);
    if delays {
        lines.push(
            "delay             a packet that its queue has room for has left after so long if its class never sends more than what stands beside it"
                .to_owned(),
        );
    }
    let computed = [
        ("fairness", promised.fairness.is_some() || worst_case || packet_each || says_fairness),
        ("transmission_gap", bounds.transmission_gap_s.is_some()),
    ];
    let mut names = info.promises.names().peekable();
    if names.peek().is_none() {
        lines.push("This scheduler promises no bounds.".to_owned());
    }
    if let Some(TransmitQueue { packets, priority }) = queue {
        let first = if priority { ", those of latency-critical classes first" } else { "" };
        let within = if delays { "; their time is in the delays" } else { "" };
        lines.push(format!(
            "transmit queue    {} behind the scheduler{first}{within}",
            human::count(packets as usize, "packet", "packets")
        ));
    }
    if queue.is_none() && info.promises.delay.is_some() && !delays {
        let why = match info.promises.delay {
            Some(Delay::Curves { .. }) => "only a class with real_time has a bound",
            _ => "no class here has a bound",
        };
        lines.push(format!("delay             {why}"));
    }
    let others: Vec<&str> = names.filter(|&name| name != "delay" && !computed.contains(&(name, true))).collect();
    if queue.is_none() && !others.is_empty() {
        let others = others.join(", ").replace('_', " ");
        lines.push(format!("This scheduler also promises {others}; how much is not computed here."));
    }
    lines
}
