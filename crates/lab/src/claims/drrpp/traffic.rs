//! Traffic of the sources, and clocks of the measurements: Table 5.1, the burstiness of MPEG video, the study of
//! clocks.

use fairlink_config::Scenario;
use fairlink_sim::statistics::Estimate;
use fairlink_traffic::clocks::synthetic::{Queueing, Synthetic};
use fairlink_traffic::clocks::{Clocks, Known, MAX_SKEW, OneWay};
use fairlink_traffic::{BurstinessCurve, Source};

use super::flows::{LINK_BPS, PACKET};
use crate::claims::finding::Rerun;
use crate::claims::words::ABOUT;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Value, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::clocks::figure as clocks_figure;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};
use fairlink_figures::human;

const EXPONENTIAL: &str = include_str!("../../../../../scenarios/thesis/exponential.toml");
const MPEG: &str = include_str!("../../../../../scenarios/thesis/mpeg.toml");

/// Table 5.1: packets per second, bytes of payload per second, burstiness in bytes.
const TABLE_51: [(u32, f64, f64); 9] = [
    (5, 1850.0, 8983.0),
    (7, 2590.0, 7894.0),
    (10, 3700.0, 12_141.0),
    (11, 4070.0, 10_270.0),
    (13, 4810.0, 5810.0),
    (15, 5550.0, 4179.0),
    (16, 5920.0, 4146.0),
    (18, 6660.0, 3717.0),
    (20, 7400.0, 3576.0),
];
/// Mean payload of a packet in bytes, which the rates of Table 5.1 count.
const PAYLOAD: f64 = 370.0;
/// Further rates at which sigma is taken, in percent of the mean rate. The text takes it at "the service rate allocated to the flow".
const RHOS: [u64; 5] = [100, 105, 110, 135, 200];
/// The text's definition of sigma.
const SIGMA: &str = "The burstiness, σ, is calculated as: σ >= A(τ, t) - ρ(t - τ). where A(τ, t) is the total number of arrivals during (τ, t) and ρ is the service rate allocated to the flow.";
/// Maximum ratio of sigma over 100 s to its [`predicted`] value.
const PREDICTED_WITHIN: f64 = 1.5;
/// The rates for MPEG video. 102 % is the one at which both of the text's numbers come out in runs of 100 s: a fit.
const MPEG_RHOS: [u64; 5] = [100, 101, 102, 105, 135];
/// Its place.
const FITTED: usize = 2;

fn read(name: &str, text: &str) -> Result<Scenario, ClaimError> {
    Workload::new(name, text).read("drr++")
}

/// The traffic of one source in all runs.
struct Sent {
    /// Long-run rate of the model, in bit/s.
    expected: f64,
    /// In bit/s.
    rate: Estimate,
    /// Burstiness packet by packet at each rho, in bytes.
    sigma: Vec<Estimate>,
    /// Group by group, if there are groups.
    of_groups: Vec<Option<Estimate>>,
}

/// Measures a source. `rhos` are percent of the mean rate. Sigma is also measured at the rate `allocated`, in bit/s, as
/// the last one.
fn measure(
    lab: &Lab<'_>,
    scenario: &Scenario,
    index: usize,
    rhos: &[u64],
    allocated: Option<u64>,
    seeds: u64,
) -> Result<Sent, ClaimError> {
    let none = || ClaimError::other("a source sends nothing");
    let spec = scenario.sources.get(index).ok_or_else(none)?;
    let mean = spec.mean_rate(|len| len).ok_or_else(none)?;
    let rates: Vec<u64> = rhos.iter().map(|percent| mean * percent / 100).chain(allocated).collect();
    let (mut bits, mut sigmas, mut groups) = (Vec::new(), vec![Vec::new(); rates.len()], vec![Vec::new(); rates.len()]);
    for run in 0..seeds {
        lab.go_on()?;
        let mut curve = match spec.model.group() {
            Some(every) => BurstinessCurve::in_groups(&rates, every),
            None => BurstinessCurve::at(&rates),
        };
        let source =
            Source::new(spec, scenario.seed + run, index as u32, scenario.duration).map_err(ClaimError::other)?;
        let mut bytes = 0u64;
        for packet in source {
            curve.arrive(packet.at, packet.len);
            bytes += u64::from(packet.len);
        }
        bits.push(bytes as f64 * 8e9 / scenario.duration.0 as f64);
        for (at, (_, sigma, of_groups)) in curve.points().enumerate() {
            sigmas[at].push(sigma as f64);
            groups[at].extend(of_groups.map(|sigma| sigma as f64));
        }
    }
    let sigma = sigmas.iter().map(|values| Estimate::from_values(values).ok_or_else(none)).collect::<Result<_, _>>()?;
    Ok(Sent {
        expected: mean as f64,
        rate: Estimate::from_values(&bits).ok_or_else(none)?,
        sigma,
        of_groups: groups.iter().map(|values| Estimate::from_values(values)).collect(),
    })
}

/// Scales by a factor.
fn times(estimate: Estimate, factor: f64) -> Value {
    Value::from(estimate).map(|value| value * factor)
}

/// Returns the rate in bit/s that quanta allocate to a best-effort flow of `lambda` packets a second: r = Q / (sum of
/// Q) BNBW (Section 3.1.1). The quanta are those of Section 5.1.1 for three such flows and the latency-critical one.
fn allocated(lambda: u32) -> u64 {
    let [lc, be] = [2000.0, 2000.0 * f64::from(lambda) / 15.0];
    (be / (lc + 3.0 * be) * LINK_BPS) as u64
}

/// Theoretical sigma in bytes of a Poisson flow in 100 s at `rho` bit/s: if rho is well above the mean, the level of
/// the busiest of all busy periods, by the exponent of Cramér and Lundberg; near the mean, the largest value of a
/// random walk.
fn predicted(lambda: u32, rho: u64) -> f64 {
    const SECONDS: f64 = 100.0;
    /// Euler's constant: the mean of the largest of many exponential levels.
    const EULER: f64 = 0.5772;
    let (lambda, rate) = (f64::from(lambda), rho as f64 / 8.0);
    // Lengths are 80 to 740 B, each as likely.
    let growth = |theta: f64| ((740.0 * theta).exp() - (80.0 * theta).exp()) / (660.0 * theta) - 1.0;
    let (mut low, mut high) = (1e-7, 1e-7);
    while lambda * growth(high) < rate * high {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if lambda * growth(middle) < rate * middle { low = middle } else { high = middle }
    }
    let periods = (lambda * SECONDS * (1.0 - lambda * PACKET / rate)).max(1.0);
    let square = PACKET * PACKET + 660.0 * 660.0 / 12.0;
    ((periods.ln() + EULER) / low).min(1.25 * (lambda * square * SECONDS).sqrt())
}

/// Tests Table 5.1: the exponential traffic.
pub(super) fn table51(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let scenario = read("exponential.toml", EXPONENTIAL)?;
    let runs = lab.by_effort(100, 500);
    const WHY: &str = "The rate that quanta allocate is 2.5 times the mean rate at 5 packets/s and 1.02 times at 20, so that sigma rises with the load, as queueing theory has it to the half; the \
                       table's falls. No rate that the text's formulas allocate has the table's values, and a part of the mean rate that is the same for all loads would have none that fall.";
    let (mut rows, mut ends) = (Vec::new(), Vec::new());
    let rhos: Vec<String> = RHOS.iter().map(|percent| format!("at {percent} %")).collect();
    let head = ["packets/s", "sigma, thesis"].into_iter().chain(rhos.iter().map(String::as_str));
    let head: Vec<&str> = head.chain(["allocated rate over the mean", "at the allocated rate", "theory"]).collect();
    let mut table = Table::new("Sigma by the rate at which it is taken, as a part of the mean rate", &head);
    let mut by_rho = vec![Vec::new(); RHOS.len() + 1];
    for (index, (lambda, rate, sigma)) in TABLE_51.into_iter().enumerate() {
        let rho = allocated(lambda);
        let (sent, theory) = (measure(lab, &scenario, index, &RHOS, Some(rho), runs)?, predicted(lambda, rho));
        // The payload of the traffic, in bytes per second.
        let payload = times(sent.rate, PAYLOAD / PACKET / 8.0);
        let expected = sent.expected * PAYLOAD / PACKET / 8.0;
        rows.push(Row::new(
            format!("{lambda} packets/s: payload in a second, of the model"),
            Unit::Bytes,
            Expected::Within(rate, 0.0),
            expected,
        ));
        rows.push(Row::new(
            format!("{lambda} packets/s: payload in a second, of the runs"),
            Unit::Bytes,
            Expected::Near(rate, 0.02),
            payload,
        ));
        rows.push(
            Row::new(
                format!("{lambda} packets/s: sigma at the allocated rate"),
                Unit::Bytes,
                Expected::Near(sigma, 0.3),
                sent.sigma[RHOS.len()],
            )
            .judging(SIGMA)
            .departing(theory / PREDICTED_WITHIN, theory * PREDICTED_WITHIN, WHY),
        );
        let at_allocated = sent.sigma[RHOS.len()].mean;
        ends.push((sigma, at_allocated, theory));
        let mut row = vec![lambda.to_string(), human::size(sigma)];
        row.extend(sent.sigma[..RHOS.len()].iter().map(|sigma| human::size(sigma.mean)));
        row.push(format!("{:.2}", rho as f64 / sent.expected));
        row.extend([at_allocated, theory].map(human::size));
        table.row(row);
        for (at, sigma) in sent.sigma.iter().enumerate() {
            by_rho[at].push((f64::from(lambda), sigma.mean));
        }
    }
    let mut series: Vec<Series> = by_rho
        .into_iter()
        .zip(
            RHOS.iter()
                .map(|percent| format!("at {percent} % of the mean rate"))
                .chain(["at the allocated rate".to_owned()]),
        )
        .enumerate()
        .map(|(n, (points, name))| Series::line(name, points, SeriesStyle::nth(n)))
        .collect();
    if let (Some(first), Some(last)) = (ends.first(), ends.last()) {
        let (paper, ours, theory) = (last.0 / first.0, last.1 / first.1, last.2 / first.2);
        rows.push(
            Row::new(
                "sigma at 20 packets/s over that at 5, at the allocated rates",
                Unit::Times,
                Expected::Near(paper, 0.3),
                ours,
            )
            .judging(SIGMA)
            .departing(theory / PREDICTED_WITHIN, theory * PREDICTED_WITHIN, WHY),
        );
    }
    series.push(Series::points(
        "thesis",
        TABLE_51.iter().map(|row| (f64::from(row.0), row.2)).collect(),
        SeriesStyle::nth(6),
    ));
    let (low, high) = super::flows::span(&series);
    let mut panel =
        Panel::new("", Axis::linear("packets per second", 5.0, 20.0), Axis::log("burstiness sigma (B)", low, high));
    panel.series = series;
    let note = format!(
        "{runs} runs of 100 s of each Poisson source. The table's rates count the payload, 370 of 410 B a packet. Sigma is taken at the rate that quanta allocate to a best-effort \
         flow: its quantum's part of all quanta (Section 3.1.1), which are in proportion to the loads, with 2000 B for the latency-critical flow of 15 packets/s (Section 5.1.1). The \
         table has other rates as well."
    );
    let rerun = Rerun {
        file: "exponential.toml".into(),
        text: EXPONENTIAL.into(),
        command: "traffic exponential.toml --runs 20 --rho 100%,135%,200%".into(),
    };
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Table 5.1: burstiness of the exponential traffic", vec![panel]))
        .with_table(table)
        .with_rerun(rerun))
}

/// Tests Section 5.2: the burstiness of the MPEG source.
pub(super) fn mpeg_sigma(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let scenario = read("mpeg.toml", MPEG)?;
    let runs = lab.by_effort(40, 400);
    // What quanta of 9000 B beside three of 2000 B allocate of 1.2 Mbit/s.
    let allocated = 1_200_000 * 9_000 / 15_000;
    let sent = measure(lab, &scenario, 0, &MPEG_RHOS, Some(allocated), runs)?;
    const WHY: &str = "The text does not say at which rate it takes sigma. At the rate that its quanta allocate, 117 % of the mean rate, an I frame and what is queued before it are all that sigma has. \
                       Both of its numbers come out at 102 % of the mean rate, which no formula of the text gives: a fit, shown.";
    let at_allocated = MPEG_RHOS.len();
    let groups = |at: usize| sent.of_groups[at].ok_or_else(|| ClaimError::other("no groups of pictures"));
    let rows = vec![
        Row::new(
            "sigma frame by frame, at the rate that the quanta allocate",
            Unit::Bytes,
            Expected::Near(45_560.0, ABOUT),
            sent.sigma[at_allocated],
        )
        // From the longest I frame to the text's number.
        .departing(17_000.0, (1.0 - ABOUT) * 45_560.0, WHY),
        Row::new(
            "sigma frame by frame at 102 % of the mean rate, to which this rate was fitted",
            Unit::Bytes,
            Expected::Beside(45_560.0),
            sent.sigma[FITTED],
        ),
        Row::new("sigma group by group at that rate", Unit::Bytes, Expected::Beside(31_436.0), groups(FITTED)?),
        Row::new(
            "frames are burstier than groups: sigma of frames less that of groups, at the rate that the quanta allocate",
            Unit::Bytes,
            Expected::AtLeast(0.0),
            sent.sigma[at_allocated].mean - groups(at_allocated)?.mean,
        )
        .judging(
            "The reason for the difference is because of the large variance in length of the different frame types.",
        ),
        Row::new("mean rate", Unit::Rate, Expected::Near(615e3, 0.01), sent.rate)
            .judging("The overall mean rate is 615Kbps"),
    ];
    let mut table = Table::new(
        "Sigma by the rate at which it is taken",
        &["part of the mean rate", "frame by frame", "group by group"],
    );
    let mut lines = [Vec::new(), Vec::new()];
    for (at, percent) in MPEG_RHOS.into_iter().enumerate() {
        table.row([format!("{percent} %"), human::size(sent.sigma[at].mean), human::size(groups(at)?.mean)]);
        lines[0].push((percent as f64, sent.sigma[at].mean / 1e3));
        lines[1].push((percent as f64, groups(at)?.mean / 1e3));
    }
    let [frames, grouped] = lines;
    let high = frames.iter().map(|point| point.1).fold(50.0, f64::max);
    let mut panel = Panel::new(
        "",
        Axis::linear("rate at which sigma is taken (% of the mean rate)", 99.0, 136.0),
        Axis::linear("sigma (kB)", 0.0, high * 1.05),
    );
    panel.series = vec![
        Series::line("frame by frame", frames, SeriesStyle::nth(0)),
        Series::line("group by group", grouped, SeriesStyle::nth(1)),
        Series::line("frame by frame, thesis", vec![(99.0, 45.56), (136.0, 45.56)], SeriesStyle::reference()),
        Series::line("group by group, thesis", vec![(99.0, 31.436), (136.0, 31.436)], SeriesStyle::background(1)),
    ];
    let note = format!(
        "{runs} runs of 100 s. What does not depend on the rate is that frames are burstier than groups. A group counts as what it brings less what drains in its own time."
    );
    let rerun = Rerun {
        file: "mpeg.toml".into(),
        text: MPEG.into(),
        command: "traffic mpeg.toml --runs 20 --rho 100%,102%,135%".into(),
    };
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Burstiness of MPEG video", vec![panel]))
        .with_table(table)
        .with_rerun(rerun))
}

/// Length of each synthetic measurement, in seconds: that of a run in Figures 4.4 and 4.5.
const CLOCK_RUN: f64 = 1500.0;

/// Makes two clocks with the text's values: 130 ms and 160 ms in five runs of 25 minutes, with drift, and jumps at
/// random times.
fn clocks_of_the_text(queueing: Queueing, sign: f64) -> Synthetic {
    Synthetic {
        offset_s: 3.7 * sign,
        skew: sign * 0.145 / (5.0 * CLOCK_RUN),
        drift: 4e-9 * sign,
        jumps: vec![(400.0, 4e-3 * sign), (1100.0, -2.5e-3 * sign)],
        shortest_s: 300e-6,
        queueing,
        packets_per_second: 50.0,
    }
}

/// Returns the clocks estimated from the stamps, and the time of the first packet, in seconds.
fn seen(of: &Synthetic, seed: u64) -> Result<(Clocks, f64), ClaimError> {
    let mut one_way = OneWay::default();
    for (sent, received) in of.stamps(CLOCK_RUN, seed) {
        one_way.record(sent, received.saturating_sub_unsigned(sent));
    }
    let none = || ClaimError::other("the stamps say nothing");
    Ok((one_way.clocks().ok_or_else(none)?, one_way.first_ns().ok_or_else(none)? as f64 / 1e9))
}

/// Tests the same clocks where the packets of Chapter 5 load the link by 98.4 %: what is said must be so, and nothing is
/// said where the queue hides the clocks.
fn loaded_clocks(lab: &Lab<'_>) -> Result<Vec<Row>, ClaimError> {
    const PACKETS_PER_SECOND: f64 = 75.0;
    const LOAD: f64 = 0.984;
    let (mut numbers, mut held, mut invented) = (0u32, 0u32, 0u32);
    let (mut steepest, mut known, mut length) = (0.0f64, 0.0, 0.0);
    for seed in 0..lab.by_effort(20, 100) {
        lab.go_on()?;
        let text = clocks_of_the_text(Queueing::link(PACKETS_PER_SECOND, LOAD), if seed % 2 == 0 { 1.0 } else { -1.0 });
        // One step of NTP, or none.
        let jumps = if seed % 4 < 2 { Vec::new() } else { vec![(600.0, text.offset_s.signum())] };
        let of = Synthetic { jumps, packets_per_second: PACKETS_PER_SECOND, ..text };
        let (found, first) = seen(&of, seed)?;
        let mut count = |known: Known, value: f64| {
            numbers += 1;
            held += u32::from((known.value - value).abs() <= known.within);
        };
        for stretch in &found.stretches {
            let middle = first + (stretch.start_s + stretch.end_s) / 2.0;
            count(stretch.skew, of.skew + of.drift * middle);
            count(stretch.drift, of.drift);
            for (at, offset) in [(stretch.start_s, stretch.offset_s), (stretch.end_s, stretch.end_offset_s)] {
                // An end is not known better than the jump there.
                let near = found.jumps().map(|jump| jump.at_s.within).fold(1e-6, f64::max);
                if of.jumps.iter().all(|&(jump, _)| (first + at - jump).abs() > near) {
                    count(offset, of.offset_at(first + at) + of.shortest_s);
                }
            }
            steepest = steepest.max(stretch.skew.value.abs());
            known += stretch.end_s - stretch.start_s;
        }
        for jump in found.jumps() {
            match of.jumps.first().filter(|(at, _)| (first + jump.at_s.value - at).abs() <= jump.at_s.within) {
                Some(&(_, size)) => count(jump.jump_s, size),
                None => invented += 1,
            }
        }
        length += found.end_s();
    }
    let least = 0.95 - 3.0 * (0.95 * 0.05 / f64::from(numbers.max(1))).sqrt();
    Ok(vec![
        Row::never("at 98.4 % load: jumps that were not there", invented as usize),
        Row::new(
            "at 98.4 % load: numbers whose interval has the true one",
            Unit::Part,
            Expected::AtLeast(least),
            f64::from(held) / f64::from(numbers.max(1)),
        ),
        Row::new(
            "at 98.4 % load: largest skew, over the most that clocks have",
            Unit::Part,
            Expected::AtMost(1.0),
            steepest / MAX_SKEW,
        ),
        Row::shown(
            "at 98.4 % load: part of the time for which clocks are told from queues",
            Unit::Part,
            known / length,
        ),
    ])
}

/// Tests Section 4.5: offset, skew, drift and jumps from one-way delays.
pub(super) fn clock(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let seeds = lab.by_effort(20, 200);
    let (mut found_all, mut tried) = (0u32, 0u32);
    // Offset, skew, drift, sizes of jumps, times of jumps, offset everywhere.
    let mut held = [0u32; 6];
    let mut worst = 0.0f64;
    for queueing in [Queueing::Exponential(1e-3), Queueing::HeavyTailed(1e-3)] {
        for seed in 0..seeds {
            lab.go_on()?;
            let of = clocks_of_the_text(queueing, if seed % 2 == 0 { 1.0 } else { -1.0 });
            let (found, first) = seen(&of, seed)?;
            tried += 1;
            let jumps: Vec<_> = found.jumps().collect();
            if jumps.len() != of.jumps.len() || !found.undecided.is_empty() {
                continue;
            }
            found_all += 1;
            let stretch = found.stretches[0];
            let middle = first + (stretch.start_s + stretch.end_s) / 2.0;
            let within = |known: Known, value: f64| (known.value - value).abs() <= known.within;
            let pairs = || jumps.iter().zip(&of.jumps);
            let results = [
                within(stretch.offset_s, of.offset_at(first) + of.shortest_s),
                within(stretch.skew, of.skew + of.drift * middle),
                within(stretch.drift, of.drift),
                pairs().all(|(found, &(_, size))| within(found.jump_s, size)),
                pairs().all(|(found, &(at, _))| within(found.at_s, at - first)),
                found.stretches.iter().all(|stretch| {
                    let at = (stretch.start_s + stretch.end_s) / 2.0;
                    (stretch.offset_at(at) - of.offset_at(first + at) - of.shortest_s).abs() <= stretch.within()
                }),
            ];
            results.into_iter().zip(&mut held).for_each(|(held, count)| *count += u32::from(held));
            for step in 0..=60 {
                let at = CLOCK_RUN * f64::from(step) / 60.0;
                // Around a jump the side of a packet is unknown.
                if of.jumps.iter().all(|&(jump, _)| (at - jump + first).abs() > 5.0) {
                    let error = found.offset_at(at).map(|found| found - of.offset_at(first + at) - of.shortest_s);
                    worst = worst.max(error.map_or(f64::INFINITY, f64::abs));
                }
            }
        }
    }
    let part = |count: u32, of: u32| f64::from(count) / f64::from(of.max(1));
    let names = ["offset", "skew", "drift", "sizes of jumps", "times of jumps", "offset in the middle of each stretch"];
    let mut rows = vec![Row::new(
        "runs in which both jumps are found, and no others",
        Unit::Part,
        Expected::AtLeast(0.95),
        part(found_all, tried),
    )];
    // Stated for 95 %; this allows for the scatter of this number of runs.
    let least = 0.95 - 3.0 * (0.95 * 0.05 / f64::from(found_all.max(1))).sqrt();
    for (name, count) in names.into_iter().zip(held) {
        rows.push(Row::new(
            format!("of these, runs whose interval has the true {name}"),
            Unit::Part,
            Expected::AtLeast(least),
            part(count, found_all),
        ));
    }
    rows.push(Row::new(
        "largest error of the offset outside of 5 s around jumps",
        Unit::Seconds,
        Expected::AtMost(1e-3),
        worst,
    ));
    rows.extend(loaded_clocks(lab)?);
    let of = clocks_of_the_text(Queueing::Exponential(1e-3), 1.0);
    let (found, first) = seen(&of, 1)?;
    // Figure 4.6: stamps every 200 s against the first, as the text samples them.
    let mut samples: Vec<(f64, f64)> = Vec::new();
    let mut stamps = of.stamps(CLOCK_RUN, 1);
    let mut base = None;
    for n in 0..8 {
        if let Some((sent, received)) = stamps.find(|&(sent, _)| sent as f64 / 1e9 >= first + 200.0 * f64::from(n)) {
            let difference = received.saturating_sub_unsigned(sent) as f64 / 1e9;
            let base = *base.get_or_insert(difference);
            samples.push((sent as f64 / 1e9 - first, (difference - base) * 1e3));
        }
    }
    let mut figure = clocks_figure(&found, "Figures 4.4 to 4.6: two clocks that are not synchronised");
    if let Some(panel) = figure.panels.first_mut() {
        panel.series.push(Series::points("a sample every 200 s, as Figure 4.6", samples, SeriesStyle::nth(6)));
    }
    let note = format!(
        "{tried} made-up pairs of clocks: the text gives no stamps. Skew as in Figures 4.4 and 4.5 (130 to 160 ms in five runs of 25 minutes), a drift, two jumps, and \
         queueing with exponential and with heavy tails. The text gives no method; ours takes the lower envelope of one-way delays. The text's own samples every \
         200 s show the offset with the queueing in it. At 98.4 % load, the packets of Chapter 5 share 250 kbit/s as in Figures 5.1 and 5.2, with a \
         jump of 1 s in half of the runs: clocks are told only where the delays come back to the shortest."
    );
    Ok(Finding::new(note, rows).with_figure(figure))
}
