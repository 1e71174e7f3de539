//! Statistics of a gateway as people read them.

use std::collections::{BTreeMap, BTreeSet};

use fairlink_core::Amount;
use fairlink_net::{ClassStats, GatewayStats};
use serde::Serialize;

use crate::failure::Failure;
use crate::human;
use crate::out::Out;

/// Up to so many classes are all shown. Of more, so many leaves are.
pub(crate) const MOST: usize = 64;

/// Which classes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classes {
    /// All of them.
    All,
    /// Those that received most, where there are more than [`MOST`].
    Busiest,
}

impl Classes {
    /// These classes of `stats`, in their order.
    fn of(self, stats: &GatewayStats) -> Vec<&ClassStats> {
        if self == Self::All || stats.classes.len() <= MOST {
            return stats.classes.iter().collect();
        }
        let by_name: BTreeMap<&str, usize> =
            stats.classes.iter().enumerate().map(|(at, class)| (class.name.as_str(), at)).collect();
        let mut leaves: Vec<usize> = (0..stats.classes.len()).filter(|&at| stats.classes[at].leaf).collect();
        // Of those that received alike, the first.
        leaves.sort_by_key(|&at| (std::cmp::Reverse(stats.classes[at].received.bytes), at));
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

/// The statistics of a gateway as JSON: of each link, however many there are, with all classes.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    document: &'static str,
    version: u32,
    links: Vec<&'a GatewayStats>,
}

impl<'a> Document<'a> {
    /// The document of these links.
    pub(crate) fn new(links: impl IntoIterator<Item = &'a GatewayStats>) -> Self {
        Self { document: "stats", version: 1, links: links.into_iter().collect() }
    }
}

/// The statistics of several links: a table each, or [`Document`].
pub(crate) fn show_all<'a>(
    links: impl IntoIterator<Item = &'a GatewayStats>,
    classes: Classes,
    out: &mut Out,
) -> Result<(), Failure> {
    if out.json {
        return out.document(&Document::new(links));
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
pub(crate) fn show(stats: &GatewayStats, classes: Classes, out: &mut Out) -> Result<(), Failure> {
    out.paragraph(
        &format!(
            "{} to {} at {} by {}, up {}",
            stats.input,
            stats.output,
            human::rate(stats.link_bps as f64),
            stats.scheduler,
            human::time(stats.uptime_s)
        ),
        2,
    )?;
    let head = ["class", "received", "sent", "dropped", "queued", "sent bytes", "delay p50", "p99", "max"];
    let mut path: Vec<&str> = Vec::new();
    let shown = classes.of(stats);
    let rows = shown.iter().map(|class| {
        // Parents come before their children.
        while path.last().is_some_and(|&last| Some(last) != class.parent.as_deref()) {
            path.pop();
        }
        let mut row = vec![format!("{}{}", "  ".repeat(path.len()), class.name)];
        path.push(&class.name);
        row.extend([class.received, class.sent, class.dropped, class.queued].map(|amount| amount.packets.to_string()));
        row.push(class.sent.bytes.to_string());
        let delays = class.delay_s.map(|delay| [delay.p50, delay.p99, delay.max].map(human::time));
        row.extend(delays.unwrap_or_else(|| ["-", "-", "-"].map(str::to_owned)));
        row
    });
    out.table(&head, rows.collect(), 1..head.len())?;
    if shown.len() < stats.classes.len() {
        out.paragraph(&format!(
            "{} of {} classes: those that received most bytes, and those above them; `fairlink ctl stats --all` shows all, --json too",
            shown.len(),
            stats.classes.len()
        ), 2)?;
    }
    for class in shown.iter().filter(|class| class.leaf && !class.dropped_by_reason.is_empty()) {
        let reasons = class.dropped_by_reason.iter();
        let reasons: Vec<_> = reasons.map(|(reason, Amount { packets, .. })| format!("{reason} {packets}")).collect();
        out.paragraph(&format!("{} dropped: {}", class.name, reasons.join(", ")), 2)?;
    }
    if let Some(delay) = stats.delay_s {
        let more = match stats.leaves_without_delays {
            0 => String::new(),
            leaves => format!(" ({leaves} of the classes count only here: one by one, the first 1024 are measured)"),
        };
        let [p50, p99, max] = [delay.p50, delay.p99, delay.max].map(human::time);
        out.paragraph(&format!("delay of all: p50 {p50}, p99 {p99}, max {max}{more}"), 2)?;
    }
    if let Some(reverse) = stats.reverse {
        out.paragraph(
            &format!(
                "other direction: received {} = sent {} + dropped {} + waiting {}",
                reverse.received.packets, reverse.sent.packets, reverse.dropped.packets, reverse.waiting.packets
            ),
            2,
        )?;
    }
    let time = stats.time;
    let work = 1.0 - time.idle - time.spinning;
    if work > 0.0 && time.sampled_turns > 0 {
        out.paragraph(&format!(
            "data thread: {} of a processor; {} of its time at work, {} awake with nothing to do, {} asleep; of the work the \
             scheduler {}, classifying {}",
            human::percent(time.processor),
            human::percent(work),
            human::percent(time.spinning),
            human::percent(time.idle),
            human::percent(time.scheduler / work),
            human::percent(time.classify / work)
        ), 2)?;
    }
    if let Some(profile) = &stats.profile {
        let stages = profile.stages();
        let all: u64 = stages.iter().map(|&(_, ns, _)| ns).sum();
        let rows = stages.into_iter().map(|(stage, ns, packets)| {
            let each =
                packets.filter(|&packets| packets > 0).map(|packets| format!("{:.0}", ns as f64 / packets as f64));
            let share = human::percent(ns as f64 / all.max(1) as f64);
            vec![stage.to_owned(), share, human::time(ns as f64 / 1e9), each.unwrap_or_else(|| "-".to_owned())]
        });
        out.table(&["stage", "of the work", "time", "ns per packet"], rows.collect(), 1..4)?;
        out.paragraph(
            &format!(
                "{} packets came and {} went in {} turns",
                profile.received_packets, profile.sent_packets, profile.turns
            ),
            2,
        )?;
    }
    stats.to_string().lines().try_for_each(|line| out.paragraph(line, 2))
}
