//! Section 5.1.1: the mean delay while the load of the best-effort flows grows. Figures 5.1 and 5.2, Table 5.2.

use fairlink_sim::Options;
use fairlink_sim::statistics::Estimate;

use super::flows::{
    FLOWS, LINK_BPS, NAMES, NEW, OLD, PACKET, Point, SCHEDULERS, at, delay_panel, difference, estimate, jackknife,
    line, runs, theorem_1,
};
use crate::claims::laboratory::mean_delay;
use crate::claims::words::{DRAMATICALLY, MUCH};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Value, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};
use fairlink_figures::human;

/// Packets per second of each best-effort flow.
const LAMBDAS: [u32; 10] = [0, 5, 7, 10, 11, 13, 15, 16, 18, 20];
/// Beyond the text: more than the link carries, with the quanta of the right end.
const BEYOND: [u32; 3] = [25, 30, 40];
/// Packets per second and quantum of the latency-critical flow.
pub(super) const LAMBDA_LC: u32 = 15;
const QUANTUM_LC: u32 = 2000;
/// The period of the contract of DRR+ in the scenario files, which the thesis does not give; [`fig52`] sweeps it.
const PERIOD: &str = "1 s";
/// The transmit queues of the thesis' gateway, without a given size: one packet, latency-critical ones first. [`fig51`]
/// sweeps them.
const GATEWAY: &str = "1p";

const FLOWS_ALONE: &str = include_str!("../../../../../scenarios/thesis/fig51-alone.toml");
const WITH_GATEWAY: &str = include_str!("../../../../../scenarios/thesis/fig51.toml");
const BARE: &str = include_str!("../../../../../scenarios/thesis/fig54.toml");

/// Returns the quantum of a best-effort flow: Q_BE / lambda_BE = Q_LC / lambda_LC.
fn quantum(lambda: u32) -> u32 {
    QUANTUM_LC * lambda.min(20) / LAMBDA_LC
}

/// Returns the scenario without a queue between scheduler and link, at one load.
pub(super) fn bare(lambda: u32) -> Result<Workload, ClaimError> {
    if lambda == 0 {
        return Ok(Workload::new("fig51-alone.toml", FLOWS_ALONE));
    }
    let (rate, quantum) = (lambda.to_string(), format!("{}B", quantum(lambda)));
    let keys = FLOWS[1..].iter().flat_map(|flow| {
        [(format!("source.{flow}.packets_per_second"), &rate), (format!("class.{flow}.quantum"), &quantum)]
    });
    let settings: Vec<(String, &String)> = keys.collect();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Workload::new(format!("fig51-{lambda}.toml"), BARE).with(&settings)
}

/// Returns the whole sweep; a second call gets the same runs.
fn sweep(lab: &Lab<'_>, lambdas: &[u32]) -> Result<Vec<Point>, ClaimError> {
    lambdas.iter().map(|&lambda| Point::play(lab, lambda.into(), &bare(lambda)?)).collect()
}

/// Returns the loads of the text.
pub(super) fn points(lab: &Lab<'_>) -> Result<Vec<Point>, ClaimError> {
    sweep(lab, &LAMBDAS)
}

/// Returns the mean delays of the latency-critical flow by seed, through a gateway with transmit queues, at the right
/// end.
fn through_gateway(lab: &Lab<'_>, packets: &str, priority: bool) -> Result<Vec<Option<f64>>, ClaimError> {
    let text = if priority {
        WITH_GATEWAY.to_owned()
    } else {
        WITH_GATEWAY.replace("transmit_priority = true", "transmit_priority = false")
    };
    let workload = Workload::new("fig51.toml", text).with(&[("link.transmit_queue", packets)])?;
    let played = lab.play(&workload, &SCHEDULERS[..1], runs(lab), &Options::default())?;
    Ok(played.iter().map(|run| mean_delay(run, FLOWS[0])).collect())
}

/// Computes the mean delay of the latency-critical flow alone in seconds: M/G/1 by Pollaczek and Khinchine. Lengths are
/// 40 B and 40 to 700 B, each as likely.
fn alone() -> f64 {
    let variance = (661.0f64.powi(2) - 1.0) / 12.0;
    let service = PACKET * 8.0 / LINK_BPS;
    let square = (PACKET * PACKET + variance) * (8.0 / LINK_BPS).powi(2);
    let lambda = f64::from(LAMBDA_LC);
    service + lambda * square / (2.0 * (1.0 - lambda * service))
}

/// Returns the mean delay of the latency-critical flow behind vacations of a best-effort quantum each, in seconds. This
/// is the text's own model. A packet that finds the flow's queue empty waits for the rest of a vacation, half of it on
/// average.
pub(super) fn behind_vacations() -> f64 {
    alone() + f64::from(quantum(20)) * 8.0 / LINK_BPS / 2.0
}

/// Reason for which the text's numbers at 20 packets/s are larger than those of the scheduler alone.
pub(super) const MEASURED_MORE: &str = "The text measured through a gateway and two routers with queues of their own, of which it gives no size. Its own model, M/G/1 with vacations of a best-effort quantum (85.3 ms), has \
                             15 ms and half of a vacation: 57.7 ms. Its number is reached with four or five packets in transmit queues that leave in order of arrival (table).";
/// Its sentence.
pub(super) const GROWTH: &str = "In our experiment, D_LC increases by 106 - 15.5 = 90.5 millisec.";

fn loads(to: f64) -> Axis {
    Axis::linear("packets per second of each best-effort flow", 0.0, to)
}

/// Tests Figure 5.1: DRR++.
pub(super) fn fig51(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let points = points(lab)?;
    let beyond = sweep(lab, &BEYOND)?;
    let (first, last) = (at(&points, 0.0)?, at(&points, 20.0)?);
    let lone = first.delays(NEW, "lc");
    let one_quantum = f64::from(quantum(20)) * 8.0 / LINK_BPS;
    let in_quanta = |delays: &[Option<f64>]| -> Result<Estimate, ClaimError> {
        let scaled = |values: &[Option<f64>]| values.iter().map(|v| v.map(|v| v / one_quantum)).collect::<Vec<_>>();
        difference(&scaled(delays), &scaled(&lone))
    };
    let gateway = through_gateway(lab, GATEWAY, true)?;
    let mean = |points: &[Point], x: f64, flow: &str| Ok::<_, ClaimError>(at(points, x)?.delay(NEW, flow)?.mean);
    let sharp = jackknife(&points, |points| {
        let grows = |flow| Ok::<_, ClaimError>(mean(points, 20.0, flow)? - mean(points, 15.0, flow)?);
        Ok(grows("be1")? / grows("lc")?)
    })?;
    let flat = jackknife(&beyond, |points| Ok(mean(points, 40.0, "lc")? / mean(points, 25.0, "lc")?))?;
    let saturated = in_quanta(&at(&beyond, 40.0)?.delays(NEW, "lc"))?;
    let model = behind_vacations();
    let (alone_s, last_s) = (first.delay(NEW, "lc")?, estimate(&last.delays(NEW, "lc"))?);
    let rows = vec![
        Row::new("delay with nobody else", Unit::Seconds, Expected::Near(0.0155, 0.1), alone_s).judging(GROWTH),
        Row::new("delay at 20 packets/s: the scheduler alone", Unit::Seconds, Expected::Near(0.106, 0.1), last_s)
            .judging(GROWTH)
            .departing(0.9 * model, 1.05 * model, MEASURED_MORE),
        Row::new(
            "growth of the delay from 0 to 20 packets/s: the scheduler alone",
            Unit::Seconds,
            Expected::Near(0.0905, 0.1),
            difference(&last.delays(NEW, "lc"), &lone)?,
        )
        .judging(GROWTH)
        .departing(0.9 * model - alone_s.mean, 1.05 * model - alone_s.mean, MEASURED_MORE),
        Row::new(
            "the same in best-effort quanta on the wire (85.3 ms)",
            Unit::Number,
            Expected::AtMost(1.0),
            in_quanta(&last.delays(NEW, "lc"))?,
        )
        .judging("In DRR++, V_LC <= Q_BE/BNBW because the LC flow is served only after one BE traffic has been forwarded."),
        Row::new(
            "delay at 20 packets/s: gateway with transmit queues of one packet, latency-critical first",
            Unit::Seconds,
            Expected::Beside(0.106),
            estimate(&gateway)?,
        )
        .judging(GROWTH),
        Row::new(
            "delay at 20 packets/s: gateway with transmit queues of five packets in order of arrival",
            Unit::Seconds,
            Expected::Beside(0.106),
            estimate(&through_gateway(lab, "5p", false)?)?,
        )
        .judging(GROWTH),
        Row::new(
            "delay with nobody else, over Pollaczek and Khinchine's",
            Unit::Number,
            Expected::Near(1.0, 0.02),
            Value::from(first.delay(NEW, "lc")?).map(|delay| delay / alone()),
        )
        .judging("The algorithms we are studying, DRR+ and DRR++, can be modeled as an M/G/1 queue with vacations if we want to examine only the performance of the LC flow."),
        Row::new(
            "growth from 15 to 20 packets/s: a best-effort flow's over the latency-critical one's",
            Unit::Times,
            Expected::AtLeast(DRAMATICALLY),
            sharp,
        ),
        Row::new(
            "asymptote: delay at 40 packets/s over that at 25, more than the link carries",
            Unit::Number,
            Expected::Near(1.0, 0.05),
            flat,
        ),
        Row::new("growth from 0 to that asymptote, in quanta", Unit::Number, Expected::AtMost(1.0), saturated)
            .judging("The asymptote occurs where the vacation time of the LC flow is bounded by the quantum value of one BE flow."),
    ];
    let mut sizes = Table::new(
        "Growth of the delay from 0 to 20 packets/s by transmit queue, in best-effort quanta (the thesis measured 1.06)",
        &["packets in the transmit queues", "latency-critical first", "in order of arrival"],
    );
    sizes.row(["none".to_owned(), human::digits(in_quanta(&last.delays(NEW, "lc"))?.mean), String::new()]);
    for packets in ["1p", "2p", "4p", "8p"] {
        let cell =
            |priority| Ok::<_, ClaimError>(human::digits(in_quanta(&through_gateway(lab, packets, priority)?)?.mean));
        sizes.row([packets.trim_end_matches('p').to_owned(), cell(true)?, cell(false)?]);
    }
    let note = "One latency-critical flow of 15 packets/s with a quantum of 2000 B and three best-effort flows on 250 kbit/s, 100 s a run; \
                all have contracts and quanta in proportion to their load. The text's 125 kbit/s contradicts its own utilisations. \
                The thesis measured through a gateway with transmit queues of a size that it does not give: the scheduler alone grows by \
                about half a quantum, the mean residual of a best-effort visit; one packet in transmit queues is chosen for the gateway, \
                and the table has others: the text's 1.06 is reached with four or five packets that leave in order of arrival. Beyond the text, quanta stay as they are at 20 packets/s while the load grows to twice that: \
                the delay of the latency-critical flow no longer moves.";
    let (bare, ring) = (bare(20)?, Workload::new("fig51.toml", WITH_GATEWAY));
    Ok(Finding::new(note, rows)
        .with_figure(figure_51(&points, &beyond, &gateway)?)
        .with_table(sizes)
        .with_rerun(bare.rerun("--runs 10 --lenient"))
        .with_rerun(ring.rerun("--runs 10 --sweep link.transmit_queue=1p,2p,4p,8p"))
        .with_rerun(Workload::new("fig51-alone.toml", FLOWS_ALONE).rerun("--runs 10")))
}

fn figure_51(points: &[Point], beyond: &[Point], gateway: &[Option<f64>]) -> Result<Figure, ClaimError> {
    let flows = |scheduler: usize, points: &[Point]| {
        FLOWS
            .iter()
            .enumerate()
            .map(move |(n, flow)| line(NAMES[n], points, SeriesStyle::nth(n), |p| p.delay(scheduler, flow)))
            .collect::<Result<Vec<Series>, ClaimError>>()
    };
    let mut series = flows(NEW, points)?;
    let gateway = estimate(gateway)?;
    series.push(
        Series::points("latency-critical, gateway", vec![(20.0, gateway.mean)], SeriesStyle::nth(4))
            .with_errors(vec![gateway.ci95.unwrap_or(0.0)]),
    );
    series.push(Series::points("latency-critical, thesis", vec![(0.0, 0.0155), (20.0, 0.106)], SeriesStyle::nth(6)));
    let mut theorem = Vec::new();
    for lambda in &LAMBDAS[1..] {
        theorem.push((f64::from(*lambda), theorem_1(&bare(*lambda)?, LAMBDA_LC)?.unwrap_or(f64::NAN)));
    }
    series.push(Series::line("Theorem 1", theorem, SeriesStyle::reference()));
    let text = delay_panel("the text's loads", loads(20.0), series);
    let above: Vec<Series> = flows(NEW, beyond)?;
    let after = delay_panel(
        "beyond the text: more than the link carries",
        Axis::linear("packets per second of each best-effort flow", 20.0, 40.0),
        above,
    )
    .high(220.0);
    Ok(Figure::new("Figure 5.1: DRR++, varying background load", vec![text, after]))
}

const LARGER: &str =
    "The delay of latency critical traffic has small increases in DRR++ but large increases in DRR+. [Section 6.1]";

/// Tests Figure 5.2: DRR+.
pub(super) fn fig52(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let points = points(lab)?;
    let last = at(&points, 20.0)?;
    let mean = |points: &[Point], scheduler, x: f64, flow: &str| {
        Ok::<_, ClaimError>(at(points, x)?.delay(scheduler, flow)?.mean)
    };
    let rise = |points: &[Point], flow: &str| {
        Ok::<_, ClaimError>(mean(points, OLD, 20.0, flow)? / mean(points, OLD, 5.0, flow)?)
    };
    let rows = vec![
        Row::new(
            "at 20 packets/s: delay of the latency-critical flow over a best-effort flow's",
            Unit::Times,
            Expected::Between(0.5, 2.0),
            jackknife(&points, |points| Ok(mean(points, OLD, 20.0, "lc")? / mean(points, OLD, 20.0, "be1")?))?,
        ),
        Row::new(
            "rise from 5 to 20 packets/s: the latency-critical flow's over a best-effort flow's",
            Unit::Times,
            Expected::Between(0.5, 2.0),
            jackknife(&points, |points| Ok(rise(points, "lc")? / rise(points, "be1")?))?,
        ),
        Row::new(
            "at 20 packets/s: delay above that under DRR++",
            Unit::Seconds,
            Expected::AtLeast(0.0),
            last.gain("lc")?,
        )
        .judging(LARGER),
        Row::new(
            "at 20 packets/s: delay over that under DRR++",
            Unit::Times,
            Expected::AtLeast(MUCH),
            jackknife(&points, |points| Ok(mean(points, OLD, 20.0, "lc")? / mean(points, NEW, 20.0, "lc")?))?,
        )
        .judging(LARGER),
    ];
    let mut periods = Table::new(
        "Mean delay of the latency-critical flow under DRR+ by the period of its contract (135 % of the mean rate)",
        &["period", "at 10 packets/s", "at 16 packets/s", "at 20 packets/s"],
    );
    for (period, millis) in
        [("100 ms", 100u32), ("500 ms", 500), ("1 s", 1000), ("2 s", 2000), ("5 s", 5000), ("10 s", 10_000)]
    {
        let bytes = format!("{}B", contract(LAMBDA_LC, millis));
        let mut row = vec![period.to_owned()];
        for lambda in [10, 16, 20] {
            let every = format!("{millis}ms");
            let workload =
                bare(lambda)?.with(&[("class.lc.contract.bytes", &bytes), ("class.lc.contract.every", &every)])?;
            let played = lab.play(&workload, &SCHEDULERS[OLD..], runs(lab), &Options::default())?;
            let values: Vec<_> = played.iter().map(|run| mean_delay(run, "lc")).collect();
            row.push(human::time(estimate(&values)?.mean));
        }
        periods.row(row);
    }
    let note = format!(
        "The runs of Figure 5.1 under DRR+, with a contract of 135 % of the flow's mean rate. The thesis does not give the contract's \
         period; {PERIOD} was chosen. Up to about that long the flow breaks its contract soon, becomes a best-effort flow and waits as \
         they do; with 5 s or more it keeps the contract in most runs, and DRR+ serves it first, ahead of all."
    );
    let series =
        FLOWS.iter().enumerate().map(|(n, flow)| line(NAMES[n], &points, SeriesStyle::nth(n), |p| p.delay(OLD, flow)));
    let mut series: Vec<Series> = series.collect::<Result<_, _>>()?;
    series.push(line("latency-critical under DRR++", &points, SeriesStyle::background(1), |p| p.delay(NEW, "lc"))?);
    let figure = Figure::new("Figure 5.2: DRR+, varying background load", vec![delay_panel("", loads(20.0), series)]);
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(periods)
        .with_rerun(bare(20)?.rerun("--runs 10 --scheduler drr+")))
}

/// The contract of the latency-critical flow: 135 % of its mean rate, in bytes per `millis`.
pub(super) fn contract(lambda: u32, millis: u32) -> u64 {
    (1.35 * PACKET * f64::from(lambda) * f64::from(millis) / 1e3).round() as u64
}

/// Table 5.2 of the thesis: packets per second of a best-effort flow, and half widths of the intervals under DRR+ and DRR++, in seconds.
const TABLE_52: [(u32, f64, f64); 8] = [
    (5, 0.668e-3, 0.910e-3),
    (7, 0.782e-3, 0.772e-3),
    (10, 2.172e-3, 1.152e-3),
    (11, 4.176e-3, 2.053e-3),
    (13, 7.359e-3, 2.402e-3),
    (16, 193.893e-3, 4.386e-3),
    (18, 970.229e-3, 2.942e-3),
    (20, 1743.618e-3, 2.689e-3),
];

/// Title of the table, in the text's words.
const TABLE: &str = "LC delay in DRR+ and DRR++. [Table 5.2]";
/// Reason for the smaller factor.
const LESS: &str = "The interval under DRR+ grows by orders of magnitude, as in the text, and by fewer of them. When a seed breaks the contract depends on the contract's period, which the text does not \
                    give; 1 s was chosen.";

/// Returns the thesis' 1.96 s / sqrt(5), as the mean over groups of five seeds.
fn of_five(values: &[Option<f64>]) -> Result<f64, ClaimError> {
    let widths = values.chunks_exact(5).map(|five| Ok(estimate(five)?.ci95_normal.unwrap_or(f64::NAN)));
    Ok(estimate(&widths.map(|width| width.map(Some)).collect::<Result<Vec<_>, ClaimError>>()?)?.mean)
}

/// Table 5.2: variation of the delay from seed to seed.
pub(super) fn table52(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let points = points(lab)?;
    let count = runs(lab);
    let width = |scheduler: usize, lambda: u32| of_five(&at(&points, lambda.into())?.delays(scheduler, "lc"));
    let both = format!("all {count} by t");
    let mut table = Table::new(
        "Half of the 95 % confidence interval of the latency-critical flow's mean delay",
        &[
            "packets/s",
            "DRR+: thesis",
            "ours, five by 1.96 s/√5",
            &both,
            "DRR++: thesis",
            "ours, five by 1.96 s/√5",
            &both,
        ],
    );
    let show = human::time;
    for (lambda, old, new) in TABLE_52 {
        let by_t = |scheduler| {
            Ok::<_, ClaimError>(show(at(&points, lambda.into())?.delay(scheduler, "lc")?.ci95.unwrap_or(f64::NAN)))
        };
        table.row([
            lambda.to_string(),
            show(old),
            show(width(OLD, lambda)?),
            by_t(OLD)?,
            show(new),
            show(width(NEW, lambda)?),
            by_t(NEW)?,
        ]);
    }
    let rows = vec![
        Row::new(
            "at 20 packets/s: interval under DRR+ over that under DRR++",
            Unit::Times,
            Expected::AtLeast(1743.618 / 2.689),
            width(OLD, 20)? / width(NEW, 20)?,
        )
        .or_weaker(10.0, 1743.618 / 2.689, LESS),
        Row::new(
            "interval under DRR+ at 20 packets/s over that at 5",
            Unit::Times,
            Expected::AtLeast(1743.618 / 0.668),
            width(OLD, 20)? / width(OLD, 5)?,
        )
        .judging(TABLE)
        .or_weaker(100.0, 1743.618 / 0.668, LESS),
        Row::new(
            "interval under DRR+ at 20 packets/s over that at 16",
            Unit::Times,
            Expected::AtLeast(1743.618 / 193.893),
            width(OLD, 20)? / width(OLD, 16)?,
        )
        .judging(TABLE),
        Row::new("at 5 packets/s: interval under DRR++", Unit::Seconds, Expected::Beside(0.910e-3), width(NEW, 5)?)
            .judging(TABLE),
        Row::new(
            "largest interval under DRR++",
            Unit::Seconds,
            Expected::AtMost(4.386e-3),
            LAMBDAS.iter().map(|&l| width(NEW, l)).collect::<Result<Vec<_>, _>>()?.into_iter().fold(0.0, f64::max),
        )
        .judging(TABLE),
    ];
    let thesis = |pick: fn(&(u32, f64, f64)) -> f64| {
        TABLE_52.iter().map(|row| (f64::from(row.0), pick(row))).collect::<Vec<_>>()
    };
    let ours = |scheduler| {
        TABLE_52
            .iter()
            .map(|row| Ok((f64::from(row.0), width(scheduler, row.0)?)))
            .collect::<Result<Vec<_>, ClaimError>>()
    };
    let series = vec![
        Series::line("DRR+, thesis", thesis(|row| row.1), SeriesStyle::background(0)),
        Series::line("DRR+", ours(OLD)?, SeriesStyle::nth(0)),
        Series::line("DRR++, thesis", thesis(|row| row.2), SeriesStyle::background(1)),
        Series::line("DRR++", ours(NEW)?, SeriesStyle::nth(1)),
    ];
    let (low, high) = super::flows::span(&series);
    let mut panel = Panel::new(
        "",
        Axis::linear("packets per second of each best-effort flow", 5.0, 20.0),
        Axis::log("95 % interval of the mean delay", low, high).of_time(),
    );
    panel.series = series;
    let note = format!(
        "The runs of Figures 5.1 and 5.2. The thesis takes 1.96 s / sqrt(5) of five seeds; ours is the mean of that over {} groups of five, \
         and beside it the interval of all {count} seeds by Student's t.",
        count / 5
    );
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Table 5.2: 95 % intervals of the latency-critical flow's delay", vec![panel]))
        .with_table(table)
        .with_rerun(bare(20)?.rerun("--runs 5 --lenient --scheduler drr++ --scheduler drr+")))
}

/// The best-effort flows, two by two.
const PAIRS: [(&str, &str); 3] = [("be1", "be2"), ("be1", "be3"), ("be2", "be3")];

/// Tests the three best-effort flows beside each other.
pub(super) fn fair(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let points = &points(lab)?[1..];
    let mut rows = Vec::new();
    let mut table =
        Table::new("Mean delays of the three best-effort flows", &["scheduler, packets/s", "be1", "be2", "be3"]);
    for (scheduler, name) in SCHEDULERS.iter().enumerate() {
        // Maximum distance of two flows' means, as a part of their two half intervals.
        let mut overlap = 0.0f64;
        for (one, other) in PAIRS {
            for point in points {
                let (one, other) = (point.delay(scheduler, one)?, point.delay(scheduler, other)?);
                let widths = one.ci95.unwrap_or(0.0) + other.ci95.unwrap_or(0.0);
                overlap = overlap.max((one.mean - other.mean).abs() / widths);
            }
        }
        rows.push(Row::new(
            format!("{name}: largest distance of two flows' delays, all loads, in half 95 % intervals of both"),
            Unit::Number,
            Expected::AtMost(1.0),
            overlap,
        ));
        for (one, other) in PAIRS {
            // Seed by seed: the mean over all loads of the difference as a part of the delay.
            let each: Vec<Vec<Option<f64>>> = points.iter().map(|point| parts(point, scheduler, one, other)).collect();
            let seeds = each.first().map_or(0, Vec::len);
            let mean = |seed: usize| Some(each.iter().filter_map(|p| p[seed]).sum::<f64>() / each.len() as f64);
            rows.push(Row::new(
                format!("{name}: {one} less {other}, as a part of the delay"),
                Unit::Part,
                Expected::Between(-0.05, 0.05),
                estimate(&(0..seeds).map(mean).collect::<Vec<_>>())?,
            ));
        }
        for point in points {
            let cell =
                |flow| Ok::<_, ClaimError>(Row::shown("", Unit::Seconds, point.delay(scheduler, flow)?).show_ours());
            table.row([format!("{name}, {}", point.x), cell("be1")?, cell("be2")?, cell("be3")?]);
        }
    }
    let panels = SCHEDULERS.iter().enumerate().map(|(scheduler, name)| {
        let series = FLOWS[1..].iter().enumerate();
        let series = series.map(|(n, flow)| {
            line(NAMES[n + 1], points, SeriesStyle::nth(n).layered(n, 3), |p| p.delay(scheduler, flow))
        });
        Ok(delay_panel(
            name,
            Axis::linear("packets per second of each best-effort flow", 5.0, 20.0),
            series.collect::<Result<_, ClaimError>>()?,
        )
        .high(240.0))
    });
    let figure =
        Figure::new("The three best-effort flows of Figures 5.1 and 5.2", panels.collect::<Result<_, ClaimError>>()?);
    let note = "The runs of Figures 5.1 and 5.2. The three flows have equal quanta and loads and arrivals of their own. Their 95 % intervals overlap at each \
                load. Differences are taken seed by seed, as a part of the mean delay of the two, and averaged over all loads.";
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(table)
        .with_rerun(bare(18)?.rerun("--runs 10 --lenient --scheduler drr++ --scheduler drr+")))
}

/// Differences of two flows' delays in each run, as a part of their mean.
fn parts(point: &Point, scheduler: usize, one: &str, other: &str) -> Vec<Option<f64>> {
    let (one, other) = (point.delays(scheduler, one), point.delays(scheduler, other));
    one.iter().zip(&other).map(|(&one, &other)| Some((one? - other?) / ((one? + other?) / 2.0))).collect()
}
