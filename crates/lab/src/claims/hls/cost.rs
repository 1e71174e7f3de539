//! Experiment 4: cost of a packet with many leaves, and cost of finding its class. Countable work is judged, which is
//! the same in every run: classes that a scheduler updates for a packet, and comparisons of filters. Nanoseconds are
//! shown beside it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fairlink_config::matching::{FrameKey, IpVersion, Match, PortRange};
use fairlink_config::tc::KERNEL_HTB_LEVELS;
use fairlink_core::registry::find;
use fairlink_core::{Dequeued, DropReason, Hierarchy, Leniency, Members, Nanos, Packet, Scheduler};
use fairlink_workload::Shape;

use crate::bench::{cost, machine};
use crate::claims::words::{DRAMATICALLY, MUCH, VERY};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

const SCHEDULERS: [&str; 4] = ["hls", "htb", "cbq-top-level", "fifo"];
/// Length of every packet: the paper's are short.
const BYTES: u32 = 64;
/// UDP.
const PROTO: u8 = 17;
const FIRST_PORT: u16 = 5001;

/// Numbers of leaves: 2, 4, 8 ... up to the last.
fn leaves(lab: &Lab<'_>) -> Vec<usize> {
    let every = lab.by_effort(2, 1);
    (1..=lab.by_effort(10, 13)).step_by(every).map(|power| 1usize << power).collect()
}

/// Costs by the number of leaves: nanoseconds a packet.
type Costs = Vec<(f64, f64)>;

/// Tests Experiment 4.
pub(super) fn exp4(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let time = Duration::from_millis(lab.by_effort(20, 150));
    let counts = leaves(lab);
    let mut figure = Vec::new();
    let mut rows = Vec::new();
    let mut table = Table::new(
        "Nanoseconds a packet (enqueue and dequeue; classification apart)",
        &["tree, leaves", "hls", "htb", "cbq-top-level", "fifo", "by node", "at the root"],
    );
    let mut counted = Table::new(
        "Work for a packet: classes updated, and filters compared (two at each node, or all at the root)",
        &["tree, leaves", "hls", "htb, cbq", "by node", "at the root"],
    );
    for (shape, flat) in [("binary tree", false), ("flat", true)] {
        let mut costs: Vec<Costs> = vec![Vec::new(); SCHEDULERS.len()];
        let (mut progressive, mut linear) = (Costs::new(), Costs::new());
        for &count in &counts {
            lab.go_on()?;
            let levels = if flat { 1 } else { count.ilog2() as usize };
            let shape_of_tree =
                Shape { leaves: count, levels, weights: 1, len: BYTES, max_packet: BYTES, ..Shape::default() };
            let tree = shape_of_tree.tree().map_err(ClaimError::other)?;
            for (costs, name) in costs.iter_mut().zip(SCHEDULERS) {
                let info = find(name).ok_or_else(|| ClaimError::other(format!("no {name}")))?;
                // FIFO does not support a tree.
                if info.unsupported(&tree).next().is_none() {
                    costs.push((count as f64, cost(info, &tree, time).map_err(ClaimError::other)?));
                }
            }
            let filters = Filters::new(count)?;
            progressive.push((count as f64, filters.by_node(if flat { count } else { 2 }, time / 8)));
            linear.push((count as f64, filters.by_node(count, time / 8)));
            let last = |costs: &Costs| match costs.last() {
                Some(&(leaves, ns)) if leaves == count as f64 => format!("{ns:.1}"),
                _ => "-".to_owned(),
            };
            let cells = costs.iter().chain([&progressive, &linear]).map(last);
            table.row(std::iter::once(format!("{shape}, {count}")).chain(cells));
        }
        // Counts do not take time: all numbers of leaves in a quick run, too, so that its verdict is that of a full one.
        let work: Vec<Work> = (1..=13).map(|power| Work::measure(lab, 1 << power, flat)).collect::<Result<_, _>>()?;
        let most = work.iter().map(|work| work.hls / work.on_path).fold(0.0, f64::max);
        let what =
            format!("{shape}: classes that hls updates for a packet, over those that htb and cbq update, the largest");
        let row = Row::new(what, Unit::Times, Expected::AtMost(1.0), most);
        // In a flat tree, HTB and CBQ also update only the leaf. A visit that finds less balance than a packet sends
        // nothing.
        rows.push(if flat { row.departing(1.0, 1.01, EMPTY_VISITS) } else { row });
        let growth = |of: fn(&Work) -> f64| work.last().map_or(f64::NAN, of) / work.first().map_or(f64::NAN, of);
        let what = format!(
            "{shape}: growth of classes that hls updates for a packet, over the growth of comparisons of its filters"
        );
        let growing = growth(|work| work.hls) / growth(if flat { |work| work.at_root } else { |work| work.by_node });
        rows.push(Row::new(what, Unit::Times, Expected::AtMost(0.5), growing).judging(if flat {
            "A comparison with FIFO points to a performance bottleneck that arises during packet classification, which impacts all classful schedulers in the same way."
        } else {
            "In fact, since the schedulers perform similarly to FIFO, none of the hierarchical schedulers presents a bottleneck."
        }));
        for work in &work {
            let cells = [work.hls, work.on_path, work.by_node, work.at_root].map(|count| format!("{count:.2}"));
            counted.row(std::iter::once(format!("{shape}, {}", work.leaves)).chain(cells));
        }
        for (other, name) in [(1, "htb"), (2, "cbq-top-level")] {
            let ratios: Vec<f64> = costs[0].iter().zip(&costs[other]).map(|(hls, other)| hls.1 / other.1).collect();
            // The geometric mean: a disturbance of the machine at one number of leaves weighs as little as it should.
            let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            let what = format!("{shape}: time of hls over {name} on this machine, the mean of all numbers of leaves");
            rows.push(Row::shown(what, Unit::Times, mean));
            let what = format!("{shape}: time of hls over {name} on this machine, the largest");
            rows.push(Row::shown(what, Unit::Times, ratios.into_iter().fold(0.0, f64::max)));
        }
        let x = Axis::log("leaves", 2.0, *counts.last().unwrap_or(&2) as f64);
        let mut panel = Panel::new(shape, x, Axis::log("ns a packet", 1.0, 10_000.0)).high(280.0);
        for (n, (name, costs)) in SCHEDULERS.into_iter().zip(costs).enumerate() {
            panel.series.push(Series::line(name, costs, SeriesStyle::nth(n)));
        }
        if !flat {
            panel.series.push(Series::line("filters at each node", progressive, SeriesStyle::background(0)));
        }
        panel.series.push(Series::line("filters at the root", linear, SeriesStyle::background(1)));
        figure.push(panel);
    }
    let note = format!(
        "The paper counts transactions of TCP through the kernel, where nothing of a scheduler shows beside the rest. Judged is work that is the same in every run: under HLS each \
         round updates each class once (Section IV), so that rounds times classes over packets is an upper limit of the classes that are updated for a packet; HTB and CBQ update every class from the \
         leaf to the link for each packet. Times in the scheduler itself, every leaf backlogged, are shown, on {}; they differ by 5 times between runs of a machine that does other work. Filters compare destination ports one after the other, two at each node of \
         the binary tree or all of them at the root, as in the paper. Its figure gives no numbers to compare with.",
        machine()
    );
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Cost of a packet by the number of leaves", figure))
        .with_table(counted)
        .with_table(table))
}

/// Reason for which HLS may update a class a little more often than once for each packet in a flat tree.
const EMPTY_VISITS: &str = "short rounds hand out less than a packet to a leaf now and then, and a visit without a packet is an update: up to 0.8 % more than one for each packet";

/// Work for a packet that does not depend on the machine.
struct Work {
    leaves: usize,
    /// Classes that HLS updates.
    hls: f64,
    /// Classes from the leaf up to the link, without it: those that HTB and CBQ update.
    on_path: f64,
    /// Filters that are compared, two at each node of the binary tree, and all at the root: the mean over leaves.
    by_node: f64,
    at_root: f64,
}

impl Work {
    /// Makes a tree with as many leaves, all backlogged, with packets of [`BYTES`].
    fn measure(lab: &Lab<'_>, leaves: usize, flat: bool) -> Result<Self, ClaimError> {
        lab.go_on()?;
        let levels = if flat { 1 } else { leaves.ilog2() as usize };
        let shape = Shape { leaves, levels, weights: 1, len: BYTES, max_packet: BYTES, ..Shape::default() };
        let tree = shape.tree().map_err(ClaimError::other)?;
        let info = find("hls").ok_or_else(|| ClaimError::other("no hls"))?;
        let mut hls = info.build(&tree, Leniency::Refuse, Members::new()).map_err(ClaimError::other)?;
        let mut dropped = 0u64;
        let mut drops = |_: Nanos, _: Packet, _: DropReason| dropped += 1;
        for _ in 0..4 {
            for &class in tree.leaves() {
                hls.enqueue(Nanos::ZERO, Packet { handle: 0, len: BYTES, class }, &mut drops);
            }
        }
        // Each packet that leaves is followed by another of its class, so that all leaves stay backlogged.
        let packets = 50 * leaves.max(20);
        for _ in 0..packets {
            let Dequeued::Packet(packet) = hls.dequeue(Nanos::ZERO, &mut drops) else {
                return Err(ClaimError::other("hls waits although all leaves are backlogged"));
            };
            hls.enqueue(Nanos::ZERO, packet, &mut drops);
        }
        if dropped > 0 {
            return Err(ClaimError::other(format!("{dropped} packets were dropped")));
        }
        let mut rounds = 0;
        hls.for_each_counter(0..1, &mut |_, name, count| {
            rounds += if ["main_rounds", "surplus_rounds"].contains(&name) { count } else { 0 };
        });
        // The filter of leaf n of N is found after n of them; of two, after one or two.
        let at_root = (leaves as f64 + 1.0) / 2.0;
        Ok(Self {
            leaves,
            hls: rounds as f64 * (tree.len() - 1) as f64 / packets as f64,
            on_path: levels as f64,
            by_node: if flat { at_root } else { 1.5 * levels as f64 },
            at_root,
        })
    }
}

/// Tests Section VIII-E: all filters at the root.
pub(super) fn filters(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let mut table =
        Table::new("Filters compared for a packet, binary tree", &["leaves", "two at each node", "all at the root"]);
    let powers = 1..=lab.by_effort(10, 13u32);
    let mut found = Vec::new();
    for power in powers {
        lab.go_on()?;
        let filters = Filters::new(1 << power)?;
        let counts = [2, 1 << power].map(|fanout| filters.compared(fanout));
        table.row(std::iter::once((1u32 << power).to_string()).chain(counts.map(|count| format!("{count:.1}"))));
        found.push((1u32 << power, counts));
    }
    let at = |leaves: u32| {
        let of = found.iter().find(|&&(count, _)| count == leaves);
        of.map(|&(_, counts)| counts).ok_or_else(|| ClaimError::other(format!("no tree of {leaves} leaves")))
    };
    let (hundred, thousand) = (at(128)?, at(1024)?);
    let rows = vec![
        Row::new("comparisons of 1024 leaves over those of 128, all at the root", Unit::Times, Expected::AtLeast(DRAMATICALLY), thousand[1] / hundred[1]),
        Row::new("comparisons of 1024 leaves over those of 128, two at each node", Unit::Times, Expected::AtMost(MUCH), thousand[0] / hundred[0])
            .judging("The number of transactions initially increases linearly with the leaf classes and saturates at around 300K transactions …"),
        Row::new("comparisons of 1024 leaves, at the root over at each node", Unit::Times, Expected::AtLeast(VERY), thousand[1] / thousand[0]),
    ];
    let note = "Counted on the filters that hls.exp4 times: how many are compared until the class of a packet is found, the mean over all leaves. The text's transactions are those of kernels and machines of its laboratory; what a comparison costs there is not known, so that the drop is judged by how many there are. Beyond 128 leaves each doubling doubles what the root compares for every packet, and adds three to what nodes compare.";
    Ok(Finding::new(note, rows).with_table(table))
}

/// Makes a complete binary tree with two to the power of this number of leaves.
pub(in crate::claims) fn binary(power: usize) -> Result<Hierarchy, ClaimError> {
    let shape =
        Shape { leaves: 1 << power, levels: power, weights: 1, len: BYTES, max_packet: BYTES, ..Shape::default() };
    shape.tree().map_err(ClaimError::other)
}

/// Tests Section VIII-E: the depth of a tree.
pub(super) fn depth(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let mut rows = Vec::new();
    let mut table = Table::new(
        "Binary trees, their root a class: classes from the top down to a leaf",
        &["leaves", "levels of classes", "kernel's HTB", "hls", "htb"],
    );
    let mut deepest = 0usize;
    for power in 1..=lab.by_effort(10usize, 13) {
        lab.go_on()?;
        let leaves = 1usize << power;
        let tree = binary(power)?;
        // In tc, the link's own rate is a class above all others.
        let levels = tree.levels() + 1;
        let fits = levels <= KERNEL_HTB_LEVELS;
        if fits {
            deepest = deepest.max(leaves);
        }
        let builds = |name: &str| -> Result<bool, ClaimError> {
            let info = find(name).ok_or_else(|| ClaimError::other(format!("no {name}")))?;
            Ok(info.build(&tree, Leniency::Refuse, Members::new()).is_ok())
        };
        let words = |yes: bool| if yes { "takes it" } else { "too deep" }.to_owned();
        table.row([leaves.to_string(), levels.to_string(), words(fits), words(builds("hls")?), words(builds("htb")?)]);
    }
    rows.push(Row::shown(
        "leaves of the largest binary tree that fits the kernel's levels",
        Unit::Count,
        deepest as f64,
    ));
    if !lab.real.contains_key("hls.depth") {
        rows.push(Row::new("kernels that were given the trees, of one", Unit::Count, Expected::AtLeast(1.0), 0.0).departing(
            0.0,
            0.0,
            "Arithmetic, not tried: 128 leaves follow from the constant of the kernel's header. --real has a kernel build the trees.",
        ));
    }
    let note = format!(
        "The kernel's HTB has {KERNEL_HTB_LEVELS} levels of classes (TC_HTB_MAXDEPTH). The text counts the root of the tree as a class, and its binary trees of N leaves have 2 N - 1. Ours has no such limit: `fairlink check` warns of a tree for `htb` that the kernel's would refuse, and so does `fairlink tc export`."
    );
    Ok(Finding::new(note, rows).with_table(table))
}

/// Filters that find the class of a port as the kernel's do: one after the other.
struct Filters {
    ports: Vec<u16>,
}

impl Filters {
    fn new(leaves: usize) -> Result<Self, ClaimError> {
        let ports = (0..leaves).map(|leaf| u16::try_from(leaf).ok()?.checked_add(FIRST_PORT)).collect::<Option<_>>();
        Ok(Self { ports: ports.ok_or_else(|| ClaimError::other(format!("{leaves} leaves have no ports")))? })
    }

    /// Makes a match of a range of leaves.
    fn filter(&self, from: usize, to: usize) -> Match {
        let ports = PortRange { first: self.ports[from], last: self.ports[to - 1] };
        Match { version: Some(IpVersion::V4), proto: Some(PROTO), dport: Some(ports), ..Match::ANY }
    }

    /// Mean number of compared filters until a class is found, over all leaves, if each node has `fanout` of them.
    fn compared(&self, fanout: usize) -> f64 {
        let mut compared = 0usize;
        for leaf in 0..self.ports.len() {
            let frame = self.frame(leaf);
            let (mut first, mut span) = (0, self.ports.len());
            while span > 1 {
                span /= fanout;
                let found = (0..fanout).position(|child| {
                    compared += 1;
                    self.filter(first + child * span, first + (child + 1) * span).matches(&frame)
                });
                first += found.unwrap_or(0) * span;
            }
        }
        compared as f64 / self.ports.len() as f64
    }

    fn frame(&self, leaf: usize) -> FrameKey {
        FrameKey { version: Some(IpVersion::V4), proto: PROTO, dport: Some(self.ports[leaf]), ..FrameKey::default() }
    }

    /// Nanoseconds to find a class if each node has `fanout` filters for its children, by the median of several times
    /// `time`.
    fn by_node(&self, fanout: usize, time: Duration) -> f64 {
        // The filters of each level, those of a node side by side.
        let mut levels: Vec<(usize, Vec<Match>)> = Vec::new();
        let mut span = self.ports.len();
        while span > 1 {
            let part = span / fanout;
            let count = self.ports.len() / part;
            levels.push((part, (0..count).map(|n| self.filter(n * part, (n + 1) * part)).collect()));
            span = part;
        }
        let find = |leaf: usize| {
            let frame = self.frame(leaf);
            let mut node = 0;
            for (_, filters) in &levels {
                let children = &filters[node * fanout..(node + 1) * fanout];
                node =
                    node * fanout + children.iter().position(|filter| filter.matches(black_box(&frame))).unwrap_or(0);
            }
            node
        };
        let mut figures: Vec<f64> = (0..5)
            .map(|_| {
                let (start, mut found) = (Instant::now(), 0usize);
                while start.elapsed() < time / 5 || found == 0 {
                    // A step that is not a divisor goes through all leaves.
                    for n in 0..64 {
                        black_box(find((found + n) * 101 % self.ports.len()));
                    }
                    found += 64;
                }
                start.elapsed().as_nanos() as f64 / found as f64
            })
            .collect();
        figures.sort_by(f64::total_cmp);
        figures[2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_at_every_node_and_at_the_root_find_classes() {
        let filters = Filters::new(16).unwrap();
        assert!(filters.by_node(2, Duration::ZERO) > 0.0 && filters.by_node(16, Duration::ZERO) > 0.0);
        assert!(
            filters.filter(4, 8).covers(&filters.filter(5, 6)) && !filters.filter(4, 8).covers(&filters.filter(7, 9))
        );
        assert!(Filters::new(70_000).is_err());
    }
}
