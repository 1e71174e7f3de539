//! The bounds of a scheduler as `check` prints them for people.

use fairlink_api::ShorterDelays;
use fairlink_api::USEFUL_S;
use fairlink_config::link::LinkFile;
use fairlink_core::{ClassId, Delay, Fairness, Hierarchy, TransmitQueue};
use fairlink_report::{ClassBounds, LinkBounds, TrafficLimit};
use fairlink_theory::promises::{Promised, RunWeight, WeightUnit};

use fairlink_terminal::human;

/// Why a bound that depends on the rate of `class` is so long.
fn why_useless(link: &Hierarchy, name: &str, class: ClassId) -> String {
    let bps = link.rate_all_busy(class).max(1);
    let packet = f64::from(link.link().max_packet) * 8.0 / bps as f64;
    format!(
        "while all are busy, {name} gets {} and needs {} for one packet of maximum length",
        human::rate(bps as f64),
        human::time(packet)
    )
}

/// Formats the traffic of a delay bound; `None` without one.
fn limits(limits: &[TrafficLimit]) -> Option<String> {
    let text = |limit: &TrafficLimit| match *limit {
        TrafficLimit::Bucket { burst_bytes, rate_bps } => {
            format!("{} + {}", human::size(burst_bytes as f64), human::rate(rate_bps as f64))
        }
        TrafficLimit::Bytes { bytes, every_s } => format!("{} in {}", human::size(bytes as f64), human::time(every_s)),
        TrafficLimit::Packets { packets, every_s } => {
            format!("{} in {}", human::count(packets as usize, "packet", "packets"), human::time(every_s))
        }
        TrafficLimit::Spacing { min_gap_s, mean_gap_s, every_s, largest_bytes } => format!(
            "{} every {} ({} at least, over {})",
            human::size(largest_bytes.into()),
            human::time(mean_gap_s),
            human::time(min_gap_s),
            human::time(every_s)
        ),
        TrafficLimit::Line { line_bps } => format!("a line of {}", human::rate(line_bps as f64)),
    };
    (!limits.is_empty()).then(|| limits.iter().map(text).collect::<Vec<_>>().join(", "))
}

fn time_up(seconds: Option<f64>) -> Option<String> {
    seconds.map(|seconds| {
        if seconds > USEFUL_S { format!("over {}", human::time(USEFUL_S)) } else { human::time(human::up(seconds)) }
    })
}

fn size_up(bytes: Option<f64>) -> Option<String> {
    bytes.map(|bytes| human::size(human::up(bytes)))
}

/// A column of the table of bounds.
type Column = (&'static str, fn(&ClassBounds) -> Option<String>);

/// The columns of that table which are not empty for all `classes`.
pub(super) fn columns(promised: &Promised, tree: &Hierarchy) -> Vec<Column> {
    let hosts = has_hosts(tree) && tree.link().transmit_queue.is_none();
    let of_rounds = promised.fairness.as_ref().is_some_and(|fairness| !fairness.of_classes.is_empty());
    let fairness = of_rounds || promised.siblings.iter().any(Option::is_some);
    let worst_case = promised.worst_case.iter().any(Option::is_some);
    let delays = promised.delays.iter().any(Option::is_some);
    let columns: [(bool, Column); 7] = [
        (fairness, ("deviation (bytes)", |bounds| size_up(bounds.fairness_bytes))),
        (fairness, ("as time", |bounds| time_up(bounds.fairness_s))),
        (worst_case, ("lag (bytes)", |bounds| size_up(bounds.worst_case_bytes))),
        (has_ceilings(promised), ("transmission gap", |bounds| time_up(bounds.transmission_gap_s))),
        (hosts, ("host deviation", |bounds| size_up(bounds.hosts_apart_bytes.map(|bytes| bytes as f64)))),
        (delays, ("delay bound", |bounds| time_up(bounds.delay_bound_s))),
        (delays, ("valid for burst + rate", |bounds| limits(&bounds.delay_bound_for))),
    ];
    columns.into_iter().filter_map(|(is_used, column)| is_used.then_some(column)).collect()
}

/// A line about a scheduler with shorter delay bounds.
pub(super) fn shorter_delays(shorter: &ShorterDelays) -> String {
    let leaves = match shorter.leaves {
        1 => "1 leaf has a delay bound of more than 3 packets at its rate".to_owned(),
        leaves => format!(
            "{} have delay bounds of more than 3 packets at their rates",
            human::count(leaves, "leaf", "leaves")
        ),
    };
    format!(
        "shorter delays    {leaves}; with `scheduler = \"{}\"` that of {} is {} instead of {}, and the shares are the same",
        shorter.scheduler,
        shorter.class,
        human::time(human::up(shorter.shorter_s)),
        human::time(human::up(shorter.delay_bound_s))
    )
}

/// A weight with its unit.
pub(super) fn weight(weight: RunWeight) -> String {
    match weight.unit {
        WeightUnit::Bytes => human::size(weight.as_run),
        WeightUnit::Visits => human::count(weight.as_run as usize, "visit", "visits"),
    }
}

/// Returns true if bounds are promised that differ below ceilings, and there are any.
fn has_ceilings(promised: &Promised) -> bool {
    promised.transmission_gap.iter().any(|gap| gap.below_ceilings.iter().any(Option::is_some))
}

/// Returns true if a class with siblings has no bound on fairness.
fn lacks_fairness(tree: &Hierarchy, promised: &Promised) -> bool {
    let lacks = |class: ClassId| promised.siblings.get(class.index()).is_none_or(Option::is_none);
    let parents = std::iter::once(ClassId::ROOT).chain(tree.classes());
    parents
        .map(|parent| tree.children(parent))
        .any(|children| children.len() > 1 && children.iter().any(|&class| lacks(class)))
}

/// Returns true if hosts share a leaf.
fn has_hosts(tree: &Hierarchy) -> bool {
    tree.classes().any(|class| tree.config(class).hosts.is_some())
}

/// The bounds in words, one a line.
/// `says_fairness`: whether other lines say how fair it is.
pub(super) fn lines(link: &LinkFile, promised: &Promised, bounds: &LinkBounds, says_fairness: bool) -> Vec<String> {
    let (info, tree) = (link.info(), &link.tree);
    let mut lines = Vec::new();
    let queue = tree.link().transmit_queue;
    if let (Some(fairness), Some(bytes), Some(seconds)) = (&promised.fairness, bounds.fairness_bytes, bounds.fairness_s)
    {
        let between = bounds.fairness_between.as_ref().map_or_else(String::new, |[a, b]| format!(" ({a} and {b})"));
        let siblings = if fairness.leaves_only { "sibling leaves" } else { "siblings" };
        let unless = if has_ceilings(promised) { " and no ceiling at or below them limits them" } else { "" };
        let useless = (seconds > USEFUL_S).then(|| {
            let [one, other] = [fairness.seconds.classes.0, fairness.seconds.classes.1];
            let slower = if tree.rate_all_busy(one) < tree.rate_all_busy(other) { 0 } else { 1 };
            let name = bounds.fairness_between.as_ref().map_or("a class", |names| &names[slower]);
            why_useless(tree, name, [one, other][slower])
        });
        lines.push(if let Some(why) = useless {
            format!(
                "fairness          no useful bound ({} between two {siblings}{between}): {why}",
                human::time(human::up(seconds))
            )
        } else {
            format!(
            "fairness          while two {siblings} stay backlogged{unless}, their service differs by at most {} per {} of weight, {} at their rates{between}",
            human::size(human::up(bytes)),
            if fairness.unit == WeightUnit::Bytes { "byte" } else { "visit" },
            human::time(human::up(seconds))
            )
        });
    }
    let worst_case = promised.worst_case.iter().any(Option::is_some);
    if worst_case {
        lines.push(
            "fairness          a backlogged class lags its share of the link's output by at most the bytes in column \"lag (bytes)\""
                .to_owned(),
        );
    }
    let packet_each = promised.siblings.iter().any(Option::is_some);
    let by_clocks = matches!(info.promises.fairness, Some(Fairness::Clocks(_)));
    let is_unproved = by_clocks && queue.is_none() && lacks_fairness(tree, promised);
    if packet_each && !says_fairness && by_clocks {
        let is_urgent = tree.leaves().iter().any(|&leaf| tree.config(leaf).latency_critical);
        let backlogged =
            if is_urgent { "backlogged with packets that are not sent ahead of others" } else { "backlogged" };
        lines.push(format!(
            "fairness          while two siblings stay {backlogged} and no ceiling limits them, the service of each is off its part of the other's by at most the bytes in column \"deviation (bytes)\""
        ));
    }
    if is_unproved {
        let what = if packet_each { "not computed for all siblings" } else { "not computed" };
        lines.push(format!(
            "fairness          {what}, because with latency-critical classes it is not proved below a ceiling, nor where no other leaves are, nor are the delays of other leaves there"
        ));
    } else if packet_each && !says_fairness && !by_clocks {
        lines.push(
            "fairness          while two siblings stay backlogged, their service in proportion to their shares differs by at most one maximum-length packet of each"
                .to_owned(),
        );
    }
    if let Some(gap) = bounds.transmission_gap_s {
        let rounds = bounds.longest_round_s.map_or_else(String::new, |one| {
            let more = if gap > one * 2.000_001 { ", plus the lead of latency-critical classes" } else { "" };
            format!(" (two rounds of {}{more})", human::time(one))
        });
        let which = if has_ceilings(promised) { " without a ceiling at or above it" } else { "" };
        lines.push(format!(
            "transmission gap  a backlogged leaf{which} is visited again within {}{rounds}",
            human::time(human::up(gap))
        ));
    }
    if let (Some(next), Some(name)) = (bounds.next_packet_s, &bounds.next_packet_of) {
        let worst = link.names.find(name).unwrap_or(ClassId::ROOT);
        let which = if has_ceilings(promised) { " without a ceiling at or above it" } else { "" };
        let why = if tree.config(worst).latency_critical {
            "a latency-critical leaf that sends more than its burst and rate first pays for what it sent ahead"
        } else {
            "a leaf of small weight needs several visits for one packet"
        };
        lines.push(if next > USEFUL_S {
            format!(
                "next packet       no useful bound ({} for {name}): {}",
                human::time(human::up(next)),
                why_useless(tree, name, worst)
            )
        } else {
            format!(
                "next packet       a backlogged leaf{which} completes its next packet within {} (worst: {name}); {why}",
                human::time(human::up(next))
            )
        });
    } else if promised.transmission_gap.as_ref().is_some_and(|gap| !gap.next_packets.is_empty()) {
        lines.push("next packet       not computed, because all leaves have a ceiling at or above them".to_owned());
    }
    let delays = promised.delays.iter().any(Option::is_some);
    if delays {
        lines.push(
            "delay bound       a packet that is not dropped leaves within this time, while its class keeps to the burst and rate in the last column"
                .to_owned(),
        );
    }
    let computed = [
        ("fairness", promised.fairness.is_some() || worst_case || packet_each || says_fairness || is_unproved),
        ("transmission_gap", bounds.transmission_gap_s.is_some()),
    ];
    let mut names = info.promises.names().peekable();
    if names.peek().is_none() {
        lines.push("This scheduler promises no bounds.".to_owned());
    }
    if let Some(TransmitQueue { packets, priority }) = queue {
        let first = if priority { ", latency-critical classes first" } else { "" };
        let within = if delays { "; included in the delay bounds" } else { "" };
        lines.push(format!(
            "transmit queue    {} behind the scheduler{first}{within}",
            human::count(packets as usize, "packet", "packets")
        ));
    }
    if queue.is_none() && info.promises.delay.is_some() && !delays {
        let why = match info.promises.delay {
            Some(Delay::Curves { .. }) => "only classes with real_time have one",
            _ => "no class of this link has one",
        };
        lines.push(format!("delay bound       {why}"));
    }
    let others: Vec<&str> = names.filter(|&name| name != "delay" && !computed.contains(&(name, true))).collect();
    if queue.is_none() && !others.is_empty() {
        let others = others.join(", ").replace('_', " ");
        lines.push(format!("Also promised, but not computed here: {others}."));
    }
    lines
}
