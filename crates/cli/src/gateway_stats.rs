//! Statistics of a gateway as people read them.

use std::collections::{BTreeMap, BTreeSet};

use fairlink_net::{GatewayStats, StatsContent};
use fairlink_report::{ClassReport, Document, Measure, Measured, columns};

use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::Out;

/// Maximum number of classes that are all shown, and of leaves shown of more classes.
pub(crate) const MOST: usize = 64;

/// Selection of classes to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classes {
    /// All of them.
    All,
    /// Those that received most, if there are more than [`MOST`].
    Busiest,
}

impl Classes {
    /// These classes of `stats`, in their order.
    fn of(self, stats: &GatewayStats) -> Vec<&ClassReport> {
        if self == Self::All || stats.classes.len() <= MOST {
            return stats.classes.iter().collect();
        }
        let by_name: BTreeMap<&str, usize> =
            stats.classes.iter().enumerate().map(|(at, class)| (class.name.as_str(), at)).collect();
        let mut leaves: Vec<usize> = (0..stats.classes.len()).filter(|&at| stats.classes[at].leaf).collect();
        // Of those that received alike, the first.
        leaves.sort_by_key(|&at| (std::cmp::Reverse(stats.classes[at].counts().received.bytes), at));
        let mut shown = BTreeSet::new();
        for at in leaves.into_iter().take(MOST) {
            let mut next = Some(at);
            while let Some(at) = next.filter(|&at| shown.insert(at)) {
                let parent = stats.classes[at].parent.as_deref();
                next = parent.and_then(|name| by_name.get(name).copied());
            }
        }
        shown.into_iter().map(|at| &stats.classes[at]).collect()
    }
}

/// The document of these links, with all classes.
pub(crate) fn document<'a>(
    links: impl IntoIterator<Item = &'a GatewayStats>,
) -> Document<StatsContent<Vec<&'a GatewayStats>>> {
    Document::new(StatsContent { links: links.into_iter().collect() })
}

/// The statistics of several links: a table each, or the document.
pub(crate) fn show_all<'a>(
    links: impl IntoIterator<Item = &'a GatewayStats>,
    classes: Classes,
    out: &mut Out,
) -> Result<(), CliError> {
    if out.json {
        return out.document(&document(links));
    }
    for (at, stats) in links.into_iter().enumerate() {
        if at > 0 {
            out.line("")?;
        }
        show(stats, classes, out)?;
    }
    Ok(())
}

/// Statistics as a table.
pub(crate) fn show(stats: &GatewayStats, classes: Classes, out: &mut Out) -> Result<(), CliError> {
    let gateway = stats.gateway();
    out.paragraph(
        &format!(
            "{} to {} at {} by {}, up {}",
            gateway.input,
            gateway.output,
            human::rate(stats.capacity_bps.unwrap_or(0) as f64),
            stats.scheduler.as_deref().unwrap_or("-"),
            human::time(gateway.uptime_s)
        ),
        2,
    )?;
    let counts = columns().map(|measure| measure.key);
    let head: Vec<&str> =
        ["class"].into_iter().chain(counts).chain(["sent bytes", "delay p50", "p99", "max"]).collect();
    let mut path: Vec<&str> = Vec::new();
    let shown = classes.of(stats);
    let rows = shown.iter().map(|class| {
        // Parents come before their children.
        while path.last().is_some_and(|&last| Some(last) != class.parent.as_deref()) {
            path.pop();
        }
        let mut row = vec![format!("{}{}", "  ".repeat(path.len()), class.name)];
        path.push(&class.name);
        let counts = class.counts();
        let measured = Measured { counts: Some(&counts), ..Measured::default() };
        let packets = |measure: &Measure| (measure.get)(&measured).map(|value| value.count("packets").to_string());
        row.extend(columns().map(|measure| packets(measure).unwrap_or_else(|| "-".to_owned())));
        row.push(counts.sent.bytes.to_string());
        let delay = class.delay();
        row.extend([delay.p50, delay.p99, delay.max].map(human::known_time));
        row
    });
    out.table(&head, rows.collect(), 1..head.len())?;
    if shown.len() < stats.classes.len() {
        out.paragraph(&format!(
            "{} of {} classes, by bytes received, with their parents; `fairlink ctl stats --all` or --json shows all",
            shown.len(),
            stats.classes.len()
        ), 2)?;
    }
    for class in shown.iter().filter(|class| class.leaf && class.counts().dropped.packets > 0) {
        let causes = class.counts().dropped_by.unwrap_or_default();
        let causes: Vec<_> =
            causes.iter().map(|(cause, amount)| format!("{} {}", cause.key(), amount.packets)).collect();
        out.paragraph(&format!("{} dropped: {}", class.name, causes.join(", ")), 2)?;
    }
    if let Some(delay) = stats.delay_s.filter(|delay| delay.packets > 0) {
        let more = match gateway.leaves_without_delays {
            0 => String::new(),
            leaves => {
                format!(" ({leaves} classes are counted only in this total: the first 1024 have delays of their own)")
            }
        };
        let [p50, p99, max] = [delay.p50, delay.p99, delay.max].map(human::known_time);
        out.paragraph(&format!("delay, all classes: p50 {p50}, p99 {p99}, max {max}{more}"), 2)?;
    }
    if let Some(reverse) = gateway.reverse {
        out.paragraph(
            &format!(
                "other direction: received {} = sent {} + dropped {} + waiting {}",
                reverse.received.packets, reverse.sent.packets, reverse.dropped.packets, reverse.waiting.packets
            ),
            2,
        )?;
    }
    let time = gateway.time;
    let work = 1.0 - time.idle - time.spinning;
    if work > 0.0 && time.sampled_turns > 0 {
        out.paragraph(&format!(
            "data thread: {} of a processor; time: {} busy, {} polling idle, {} asleep; of the busy time: scheduler {}, classifier {}",
            human::percent(time.processor),
            human::percent(work),
            human::percent(time.spinning),
            human::percent(time.idle),
            human::percent(time.scheduler / work),
            human::percent(time.classify / work)
        ), 2)?;
    }
    if !gateway.workers.is_empty() {
        let times: Vec<_> = gateway.workers.iter().map(|&time| human::percent(time)).collect();
        out.paragraph(&format!("workers: {} of a processor", times.join(", ")), 2)?;
    }
    if let Some(profile) = &gateway.profile {
        let stages = profile.stages();
        let all: u64 = stages.iter().map(|&(_, ns, _)| ns).sum();
        let rows = stages.into_iter().map(|(stage, ns, packets)| {
            let each =
                packets.filter(|&packets| packets > 0).map(|packets| format!("{:.0}", ns as f64 / packets as f64));
            let share = human::percent(ns as f64 / all.max(1) as f64);
            vec![stage.to_owned(), share, human::time(ns as f64 / 1e9), each.unwrap_or_else(|| "-".to_owned())]
        });
        out.table(&["stage", "of busy time", "time", "ns per packet"], rows.collect(), 1..4)?;
        out.paragraph(
            &format!(
                "{} packets received and {} sent in {} iterations",
                profile.received_packets, profile.sent_packets, profile.turns
            ),
            2,
        )?;
    }
    stats.to_string().lines().try_for_each(|line| out.paragraph(line, 2))
}
