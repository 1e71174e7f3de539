//! Schedulers on the workloads of papers that are not theirs, one question at a time.

use fairlink_sim::statistics::Estimate;
use fairlink_sim::{Options, Run};

use super::super::laboratory::{difference, estimate, longest_delay, mean_delay};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};
use fairlink_figures::measure::{SETTLE, TOLERANCE, deviations, worst};

const FIGURE_10: &str = include_str!("../../../../../scenarios/beyond/figure10.toml");
const MPEG: &str = include_str!("../../../../../scenarios/beyond/mpeg.toml");
const EXPERIMENT_2: &str = include_str!("../../../../../scenarios/exp2-H.toml");
const SLOTS: &str = include_str!("../../../../../scenarios/htb-slots.toml");
const SURPLUS: &str = include_str!("../../../../../scenarios/beyond/surplus.toml");
/// A packet of Figure 10 on its link, in seconds: 8192 B at 10 Mbit/s.
const PACKET: f64 = 8192.0 * 8.0 / 10e6;

/// Returns the runs of one of several schedulers.
fn of<'r>(runs: &'r [Run], scheduler: &'r str) -> impl Iterator<Item = &'r Run> + Clone {
    runs.iter().filter(move |run| run.scheduler == scheduler)
}

/// The tail of the delays of a class: the part of packets with a longer one.
fn tail(run: &Run, class: &str) -> Vec<(f64, f64)> {
    let Some(delays) = run.distributions_of(|found| found.name == class).next() else { return Vec::new() };
    let all = delays.count() as f64;
    let mut left = all;
    let mut points = Vec::new();
    for &(delay, count) in delays.points() {
        points.push((delay, left / all));
        left -= count as f64;
    }
    points
}

/// Tests Figure 10 of H-FSC under DRR++ and HLS.
pub(in crate::claims) fn figure_10(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let schedulers = ["hfsc", "hls", "drr++", "fq-lto", "hpfq"];
    let workload = Workload::new("figure10.toml", FIGURE_10);
    let options = Options { window: Some(fairlink_core::Nanos::from_millis(100)), ..Options::default() };
    let runs = lab.play(&workload, &schedulers, 1, &options)?;
    let mut rows = Vec::new();
    let mut table = Table::new("Longest delays in ms", &["scheduler", "audio", "video", "ftp", "other-a", "other-b"]);
    let mut panels = Vec::new();
    for (class, promised) in [("audio", 5e-3), ("video", 10e-3)] {
        let mut panel = Panel::new(
            class,
            Axis::log(format!("delay of {class}"), 5e-4, 0.05).of_time(),
            Axis::log("packets that wait longer", 1e-3, 1.0),
        )
        .high(240.0);
        for (n, name) in schedulers.into_iter().enumerate() {
            let Some(run) = of(&runs, name).next() else { continue };
            panel.series.push(Series::steps(name, tail(run, class), SeriesStyle::nth(n)));
            let delay = longest_delay(run, class).unwrap_or(f64::NAN);
            let expected = match name {
                "hfsc" | "hls" | "drr++" => Expected::AtMost(promised + PACKET),
                _ => Expected::Nothing,
            };
            rows.push(Row::new(format!("{name}: longest delay of {class}"), Unit::Seconds, expected, delay));
        }
        let bound = vec![(promised + PACKET, 1e-3), (promised + PACKET, 1.0)];
        panel.series.push(Series::line("its curve and one packet", bound, SeriesStyle::reference()));
        panels.push(panel);
    }
    for name in schedulers {
        let Some(run) = of(&runs, name).next() else { continue };
        let cell =
            |class| longest_delay(run, class).map_or_else(|| "-".to_owned(), |delay| format!("{:.1}", 1e3 * delay));
        table.row(std::iter::once(name.to_owned()).chain(["audio", "video", "ftp", "other-a", "other-b"].map(cell)));
    }
    let note = "The tree and traffic of Figure 10 of the H-FSC paper, where every class says what it needs in each scheduler's way. A latency class is \
                enough: HLS and DRR++ keep audio and video within H-FSC's curves and a packet, and the tree stays fair under HLS. The price: \
                the others wait longer, because what is sent ahead of its turn is not planned with them as curves are.";
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Figure 10 of H-FSC: who waits how long", panels))
        .with_table(table)
        .with_rerun(
            workload.rerun("--scheduler hfsc --scheduler hls --scheduler drr++ --scheduler fq-lto --scheduler hpfq"),
        ))
}

/// Tests the MPEG experiment of DRR++ under FQ-LTO.
pub(in crate::claims) fn mpeg(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let schedulers = ["drr++", "hls", "fq-lto", "fq-lto-lb", "fq-ldf", "wfq", "hfsc"];
    let workload = Workload::new("mpeg.toml", MPEG);
    let count = lab.by_effort(3, 20);
    let runs = lab.play(&workload, &schedulers, count, &Options::default())?;
    let mut table = Table::new("Mean delays in ms", &["scheduler", "video", "best effort"]);
    let best_effort =
        |run: &Run| Some(["be1", "be2", "be3"].iter().filter_map(|class| mean_delay(run, class)).sum::<f64>() / 3.0);
    for name in schedulers {
        let show = |estimate: Estimate, unit: f64| {
            format!("{:.1} ±{:.1}", unit * estimate.mean, unit * estimate.ci95.unwrap_or(0.0))
        };
        table.row([
            name.to_owned(),
            show(estimate("video", of(&runs, name), |run| mean_delay(run, "video"))?, 1e3),
            show(estimate("best effort", of(&runs, name), best_effort)?, 1e3),
        ]);
    }
    let paired =
        |what: &str, one: &str, other: &str, of_run: &dyn Fn(&Run) -> Option<f64>| -> Result<Row, ClaimError> {
            let difference = difference(&runs, one, other, of_run)?;
            Ok(Row::new(what, Unit::Seconds, Expected::AtLeast(0.0), difference))
        };
    let video = |run: &Run| mean_delay(run, "video");
    let rows = vec![
        paired("video waits longer under fq-lto than under drr++ by", "fq-lto", "drr++", &video)?,
        paired("video waits longer under drr++ than under hls by", "drr++", "hls", &video)?,
        paired("best effort waits longer under drr++ than under fq-lto by", "drr++", "fq-lto", &best_effort)?,
        paired("video waits longer under fq-lto-lb than under fq-lto by", "fq-lto-lb", "fq-lto", &video)?,
    ];
    let note = "The MPEG video of the DRR++ thesis beside three flows on 1.2 Mbit/s, 82 % of it; differences are paired, run by run on the same arrivals. FQ-LTO \
                helps who is closest to its limit, and with a limit of 170 ms the video rarely is: it waits as under WFQ, and the best-effort \
                flows are better off. A latency class favours the video whether it is in need or not.";
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(workload.rerun(&format!("--runs {count} --scheduler drr++ --scheduler fq-lto --scheduler hls"))))
}

/// Tests Experiment 2 of HLS under H-FSC.
pub(in crate::claims) fn experiment_2(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let workload = Workload::new("exp2-H.toml", EXPERIMENT_2);
    let schedulers = ["hls", "hfsc", "hpfq", "htb", "cbq-formal", "hdrr"];
    let runs = lab.play(&workload, &schedulers, 1, &Options { settle: SETTLE, ..Options::default() })?;
    let mut table =
        Table::new("Rates of A1 / B2 / C in Mbit/s", &["scheduler", "0 to 10 s", "10 to 20 s", "20 to 30 s"]);
    let mut rows = Vec::new();
    for name in schedulers {
        let Some(run) = of(&runs, name).next() else { continue };
        let cell = |phase: &fairlink_sim::Phase| {
            let rate = |class: &str| {
                phase.classes.iter().find(|found| found.name == class).map_or(0.0, |class| class.rates.settled() / 1e6)
            };
            format!("{:.1} / {:.1} / {:.1}", rate("A1"), rate("B2"), rate("C"))
        };
        table.row(std::iter::once(name.to_owned()).chain(run.phases.iter().map(cell)));
        let far = worst(deviations(&run.phases, run.link_bps)).map_or(f64::NAN, |worst| worst.relative);
        let expected = match name {
            "hls" | "hfsc" | "hpfq" | "hdrr" => Expected::AtMost(TOLERANCE),
            _ => Expected::AtLeast(0.1),
        };
        rows.push(Row::new(format!("{name}: farthest from HMM"), Unit::Part, expected, far));
    }
    let note = "Experiment 2 H of the HLS paper with sources that always have packets. What divides schedulers is not whether they have rounds or virtual \
                times: who shares at every class of the tree is HMM fair, and who lends to leaves by their own guarantees is not.";
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler hls --scheduler hfsc --scheduler htb")))
}

/// Tests HTB's slots beside an exact pool.
pub(in crate::claims) fn pool(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let workload = Workload::new("htb-slots.toml", SLOTS);
    let runs = lab.play(&workload, &["htb"], 1, &Options::default())?;
    let run = runs.first().ok_or_else(|| ClaimError::other("no run"))?;
    let mut table = Table::new(
        "Rates in kB/s: the ratio rule of the HTB text, as simulated, beside an exact pool",
        &["phase", "flow", "slots", "exact pool"],
    );
    let mut least = f64::INFINITY;
    let mut totals = Vec::new();
    for phase in &run.phases {
        let name = format!("{} to {} s", phase.start_s, phase.end_s);
        for class in phase.classes.iter().filter(|class| class.rates.fair() > 0.0) {
            let kilobytes = |bps: f64| format!("{:.1}", bps / 8e3);
            table.row([
                name.clone(),
                class.name.clone(),
                kilobytes(class.rates.settled()),
                kilobytes(class.rates.fair()),
            ]);
        }
        let total: f64 = phase.classes.iter().map(|class| class.rates.settled()).sum();
        let ideal: f64 = phase.classes.iter().map(|class| class.rates.fair()).sum();
        least = least.min(total / ideal);
        totals.push((phase.start_s, phase.end_s, total, ideal));
    }
    let steps = |of: fn(&(f64, f64, f64, f64)) -> f64| {
        totals.iter().flat_map(move |phase| [(phase.0, of(phase) / 8e3), (phase.1, of(phase) / 8e3)]).collect()
    };
    let mut panel =
        Panel::new("", Axis::linear("time in s", 0.0, run.duration_s), Axis::linear("total in kB/s", 0.0, 110.0));
    panel.series.push(Series::line("slots", steps(|phase| phase.2), SeriesStyle::nth(0)));
    panel.series.push(Series::line("exact pool", steps(|phase| phase.3), SeriesStyle::reference()));
    let last = totals.last().copied().ok_or_else(|| ClaimError::other("no phase"))?;
    let rows = vec![
        Row::new(
            "slots: total over that of an exact pool, the least of all phases",
            Unit::Part,
            Expected::AtMost(0.95),
            least,
        ),
        Row::shown("slots: total of the last phase", Unit::Rate, last.2),
        Row::shown("exact pool: total of the last phase", Unit::Rate, last.3),
    ];
    let note = "Two links with a pool of 100 kB/s, the slots of the HTB text. By its rule each device's share follows the rates that were measured, and what \
                one leaves the others do not get. An exact pool solves the HMM fair shares of all members for their demand: it is computed \
                here from what the sources offer, as a limit, and not run; no scheduler of ours does it yet.";
    let figure = Figure::new("What a pool of two links carries", vec![panel]);
    Ok(Finding::new(note, rows).with_figure(figure).with_table(table).with_rerun(workload.rerun("")))
}

/// Tests LTO as the rule that spends the surplus.
pub(in crate::claims) fn surplus(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let workload = Workload::new("surplus.toml", SURPLUS);
    let count = lab.by_effort(3, 20);
    let schedulers = ["hls", "fq-lto", "fq-ldf", "wfq"];
    let runs = lab.play(&workload, &schedulers, count, &Options::default())?;
    let mut table =
        Table::new("Losses and where they fall", &["scheduler", "lost of all", "lost of A's", "lost of B's"]);
    let lost = |run: &Run, prefix: &str| {
        let classes = || run.classes.iter().filter(|class| class.name.starts_with(prefix));
        let offered: u64 = classes().map(|class| class.counts().received.packets).sum();
        (offered > 0)
            .then(|| classes().map(|class| class.counts().dropped.packets).sum::<u64>() as f64 / offered as f64)
    };
    for name in schedulers {
        let cell = |prefix| -> Result<String, ClaimError> {
            let lost = estimate("losses", of(&runs, name), |run| lost(run, prefix))?;
            Ok(format!("{:.2} ±{:.2} %", 100.0 * lost.mean, 100.0 * lost.ci95.unwrap_or(0.0)))
        };
        table.row([name.to_owned(), cell("")?, cell("A")?, cell("B")?]);
    }
    let paired = |what: &str, one: &str, other: &str, prefix: &str| -> Result<Row, ClaimError> {
        let difference = difference(&runs, one, other, |run| lost(run, prefix))?;
        Ok(Row::new(what, Unit::Part, Expected::AtLeast(0.0), difference))
    };
    let still = difference(&runs, "fq-lto", "hls", |run| lost(run, "A"))?;
    let rows = vec![
        paired("hls loses more of all packets than fq-lto by", "hls", "fq-lto", "")?,
        paired("wfq loses more of A's packets than hls by", "wfq", "hls", "A")?,
        paired("hls loses more of B's packets than fq-lto by", "hls", "fq-lto", "B")?,
        Row::shown("fq-lto loses more of A's packets than hls by", Unit::Part, still),
    ];
    let note = "Two branches with the same guarantee: A's sources keep below it, B's are above, and all leaves have small buffers. FQ-LTO, with the \
                leaves' HLS shares as guarantees, spends what is left over where a buffer is about to overflow, whoever it belongs to: it \
                loses fewer packets in all, and B gains. HLS gives what A's leaves leave to A's other leaves first: A loses fewer packets than \
                under WFQ, which knows no tree. The rule of LTO stands here beside HLS, as a scheduler of its own, not inside its rounds.";
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(workload.rerun(&format!("--runs {count} --scheduler hls --scheduler fq-lto"))))
}
