//! Sections 3.1, 5 and 7: with lines alone, the delay of a leaf by its depth, under H-FSC and under H-PFQ.

use std::fmt::Write as _;

use fairlink_core::registry::find;
use fairlink_theory::promises::promised;
use fairlink_theory::to_f64;

use super::watch::{largest, mean, record};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

/// In bit/s.
const LINK: u64 = 10_000_000;
/// Rate of the leaf at every depth, in bit/s, and length of its packets in bytes.
const RATE: u64 = 100_000;
const LEN: f64 = 250.0;
/// All others send such packets.
const LARGEST: f64 = 1500.0;
const DEEPEST: usize = 6;
const SECONDS: f64 = 30.0;

/// The leaf `x` at this depth: on each level the class above it has half of the rate, and a backlogged leaf beside it
/// the rest.
fn tree(depth: usize) -> Workload {
    let mut text = format!(
        "# A leaf of {RATE} bit/s, {depth} deep, with a line alone.\n\nduration = \"{SECONDS}s\"\nseed = 1\n\n[link]\nrate = \"{LINK}bit\"\nscheduler = \"hfsc\"\nmtu = \"1500B\"\n"
    );
    let mut here = LINK;
    let mut parent = String::new();
    for level in 1..=depth {
        let own = if level == depth { RATE } else { here / 2 };
        let name = if level == depth { "x".to_owned() } else { format!("c{level}") };
        let mut class = |name: &str, bps: u64, leaf: bool| {
            let _ = write!(text, "\n[[class]]\nname = \"{name}\"\n{parent}guarantee = \"{bps}bit\"\n");
            if leaf {
                let _ = writeln!(text, "real_time = {{ rate = \"{bps}bit\" }}");
            }
        };
        class(&name, own, level == depth);
        class(&format!("g{level}"), here - own, true);
        parent = format!("parent = \"{name}\"\n");
        here = own;
    }
    for level in 1..=depth {
        let _ = write!(text, "\n[[source]]\nclass = \"g{level}\"\nmodel = \"greedy\"\npacket = \"{LARGEST}B\"\n");
    }
    // A little slower than its rate, so that packets come at all phases of the others'.
    let _ = write!(
        text,
        "\n[[source]]\nclass = \"x\"\nmodel = \"cbr\"\npacket = \"{LEN}B\"\npackets_per_second = 47.123\n"
    );
    Workload::new(format!("depth-{depth}.toml"), text)
}

/// The bound on the delay of a packet of `len` bytes of `x` in seconds: from the promised delay, or from the promised
/// lag behind its share.
fn bound(workload: &Workload, scheduler: &str, len: f64) -> Result<f64, ClaimError> {
    let file = workload.read(scheduler)?;
    let info = find(scheduler).ok_or_else(|| ClaimError::other(scheduler))?;
    let promised = promised(info, &file.link.tree).map_err(ClaimError::other)?;
    let x = file.names.iter().position(|name| name == "x").ok_or_else(|| ClaimError::other("no x"))?;
    let behind = promised.worst_case.get(x).and_then(Option::as_ref);
    match (scheduler, behind) {
        // A packet of its own at its rate, and the time of a largest packet on the link: Theorem 2.
        ("hfsc", _) => Ok(8.0 * len / RATE as f64 + 8.0 * LARGEST / LINK as f64),
        (_, Some(bytes)) => Ok(8.0 * (len + to_f64(bytes)) / RATE as f64),
        _ => Err(ClaimError::other(format!("{scheduler} promises nothing of x"))),
    }
}

/// Sections 3.1 and 7: delay by depth.
pub(super) fn depth(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let schedulers = ["hfsc", "hpfq"];
    // By scheduler and depth: longest and mean delay, bound, in seconds.
    let mut all: [Vec<[f64; 3]>; 2] = [Vec::new(), Vec::new()];
    let mut looser = 0;
    for depth in 1..=DEEPEST {
        let workload = tree(depth);
        for (scheduler, of) in schedulers.into_iter().zip(&mut all) {
            let delays = record(lab, &workload, scheduler, &workload)?.delays("x", 0.0, SECONDS);
            of.push([largest(&delays), mean(&delays), bound(&workload, scheduler, LEN)?]);
        }
        // Of packets as long as all others, which the bound under H-PFQ counts with.
        let [own, pfq] = schedulers.map(|scheduler| bound(&workload, scheduler, LARGEST));
        looser += usize::from(own? >= pfq?);
    }
    let [fsc, pfq] = &all;
    let most = |of: &[[f64; 3]]| of.iter().map(|of| of[0]).fold(0.0, f64::max);
    let exceeded = all.iter().flatten().filter(|[longest, _, bound]| longest > bound).count();
    let longer = fsc.iter().zip(pfq).filter(|(own, pfq)| own[0] > pfq[0]).count();
    let deepest = pfq.iter().map(|of| of[0]).fold(0.0, f64::max);
    let grows = pfq.windows(2).filter(|pair| pair[1][2] <= pair[0][2]).count();
    let independent = "Therefore, the delay bound is independent of the class hierarchy.";
    let increases = "The net effect is that the delay bound provided to a leaf class increases with the depth of the leaf in the hierarchy [1].";
    let rows = vec![
        Row::never("depths at which the bound of a largest packet under H-FSC is not below that under H-PFQ", looser),
        Row::new(
            "hpfq: longest measured delay at any depth, over the one bound under H-FSC",
            Unit::Times,
            Expected::AtLeast(1.0),
            deepest / fsc[0][2],
        ),
        Row::new(
            "hfsc: longest delay at any depth, over the one bound",
            Unit::Part,
            Expected::AtMost(1.0),
            most(fsc) / fsc[0][2],
        )
        .judging(independent),
        Row::never("hpfq: levels with which the bound does not grow", grows).judging(increases),
        Row::new(
            format!("hpfq: longest delay {DEEPEST} deep over that one deep"),
            Unit::Times,
            Expected::AtLeast(1.2),
            pfq[DEEPEST - 1][0] / pfq[0][0],
        )
        .judging(increases),
        Row::never("delays above their bound", exceeded),
        Row::shown("depths at which the longest measured delay is shorter under H-PFQ", Unit::Count, longer as f64),
    ];
    let mut table = Table::new(
        "Delay of the leaf in ms by its depth",
        &["depth", "hfsc, longest", "mean", "bound", "hpfq, longest", "mean", "bound"],
    );
    for depth in 0..DEEPEST {
        let cells = fsc[depth].iter().chain(&pfq[depth]).map(|seconds| format!("{:.1}", seconds * 1e3));
        table.row(std::iter::once((depth + 1).to_string()).chain(cells));
    }
    let top = pfq.iter().map(|of| of[2]).fold(0.0, f64::max) * 1.1e3;
    let mut panel =
        Panel::new("", Axis::linear("depth", 1.0, DEEPEST as f64), Axis::linear("ms", 0.0, top)).high(260.0);
    for (place, (name, of)) in [("H-FSC", fsc), ("H-WF2Q+", pfq)].into_iter().enumerate() {
        let points =
            |column: usize| of.iter().enumerate().map(move |(n, of)| ((n + 1) as f64, of[column] * 1e3)).collect();
        panel.series.push(Series::line(format!("{name}, longest"), points(0), SeriesStyle::nth(place)));
        panel.series.push(Series::line(format!("{name}, bound"), points(2), SeriesStyle::nth(place).without_marker()));
    }
    let note = "A leaf of 100 kbit/s on a link of 10 Mbit/s sends packets of 250 B a little below its rate. On each level the class above it has half of what is there, and a leaf beside it the rest, \
                with packets of 1500 B always. All curves are lines. The bound under H-FSC is a packet at the leaf's rate and a largest packet on the link (Theorem 2). Under H-WF2Q+ it is by how many bytes \
                the leaf may be behind its share, in the time of its rate, as `check` has it; that counts largest packets, and is not tight in shallow trees. The measured delay is: whatever bound there is for H-WF2Q+ five or six levels deep, it is above that \
                of H-FSC. The text speaks of bounds. A leaf that sends evenly waits less under H-WF2Q+ in a shallow tree, where it is served ahead of its rate.";
    let workload = tree(DEEPEST);
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_figure(Figure::new("Delay of a leaf by its depth, with lines alone", vec![panel]))
        .with_rerun(workload.rerun("--scheduler hfsc --scheduler hpfq")))
}
