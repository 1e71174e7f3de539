//! Delays without loss: Figures 2 and 3.

use fairlink_sim::{Distribution, Run};

use super::losses::{VOICE, videos, voices};
use super::sources::{CELL, Compared, FRAMES, PAIR, VIDEO_PACKET, mean_delay, of_kind, p99};
use crate::claims::words::SIGNIFICANTLY;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{BoxPlot, Figure, Panel, Series, SeriesStyle};
use fairlink_figures::human;

/// Names of the two in figures.
const NAMES: [&str; 2] = ["PGPS", "FQ-LDF"];
/// Large enough for no losses.
const LARGE: &str = "1000000p";

/// Delays that were exceeded by each part of the packets.
fn tail(delays: &Distribution) -> Vec<(f64, f64)> {
    let count = delays.count() as f64;
    let point = |&(delay, at_most): &(f64, u64)| (delay * 1e3, 1.0 - at_most as f64 / count);
    delays.points().iter().map(point).filter(|point| point.1 > 0.0).collect()
}

/// Returns the delay that this part of the packets of a run exceeded.
fn exceeded(run: &Run, part: f64) -> Option<f64> {
    Distribution::of_all(run.distributions_of(|_| true)).quantile(1.0 - part)
}

/// Tests Figure 2.
pub(super) fn fig2(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (seeds, seconds) = lab.by_effort((5, 8.0), (10, 120.0));
    let workload = voices(VOICE, LARGE, seconds);
    let played = Compared::play(lab, &workload, &PAIR, seeds)?;
    let parts: &[f64] = lab.by_effort(&[1e-2, 1e-3, 1e-4], &[1e-2, 1e-3, 1e-4, 1e-5, 1e-6]);
    let mut rows = Vec::new();
    let mut table = Table::new("Delay that is exceeded by a part of the packets", &["part", "PGPS", "FQ-LDF", "ratio"]);
    for &part in parts {
        let delay = |run: &Run| exceeded(run, part);
        let means = [played.mean(0, delay)?.mean, played.mean(1, delay)?.mean];
        let ratio = means[1] / means[0];
        rows.push(Row::new(
            format!("delay exceeded by {part:e} of the packets: PGPS less FQ-LDF"),
            Unit::Seconds,
            Expected::AtLeast(0.0),
            played.gain(delay)?,
        ));
        let words = format!("the same: FQ-LDF over PGPS at {part:e}");
        rows.push(Row::new(words, Unit::Part, Expected::AtMost(1.0 / SIGNIFICANTLY), played.ratio(delay)?));
        table.row([format!("{part:e}"), human::time(means[0]), human::time(means[1]), format!("{ratio:.2}")]);
    }
    let dropped: u64 = (0..2)
        .flat_map(|n| played.of(n))
        .flat_map(|run| &run.classes)
        .map(|class| class.counts().dropped.packets)
        .sum();
    rows.push(Row::never("packets lost", dropped as usize));
    let mut longest = 0.0f64;
    let mut series = Vec::new();
    for (n, name) in NAMES.into_iter().enumerate() {
        let points = tail(&played.delays(n, ""));
        longest = points.iter().map(|point| point.0).fold(longest, f64::max);
        series.push(Series::steps(name, points, SeriesStyle::nth(n)));
    }
    let mut panel = Panel::new(
        "",
        Axis::linear("delay in ms", 0.0, longest),
        Axis::log("part of the packets with a longer delay", lab.by_effort(1e-5, 1e-7), 1.0),
    );
    panel.series = series;
    let note = format!(
        "The sources of Table I with buffers that lose nothing: 32 exponential on-off sources at twice their mean rate while on, bursts of 118 packets of {CELL} B, utilisation 0.98, {seeds} \
         runs of {seconds} s on the same arrivals. Delays are of all packets of all sources together. {}",
        lab.by_effort(
            "A quick run has too few packets for 1e-5 and 1e-6, which the full one has.",
            "The last of these parts rests on a few bursts."
        )
    );
    let figure = Figure::new("Figure 2: log tail of the delay of 32 voice sources", vec![panel]);
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler pgps --scheduler fq-ldf --runs 5 --window 5s --out plots")))
}

/// Makes a box of values in milliseconds: ends, quartiles and the middle.
pub(super) fn box_of(name: &str, place: usize, slot: usize, mut values: Vec<f64>) -> Option<BoxPlot> {
    values.iter_mut().for_each(|value| *value *= 1e3);
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values.get(((values.len() - 1) as f64 * part).round() as usize).copied();
    let (first, last) = (*values.first()?, *values.last()?);
    Some(BoxPlot {
        name: name.to_owned(),
        x: place as f64 + if slot == 0 { 0.3 } else { 0.7 },
        width: 0.25,
        whiskers: (first, last),
        quartiles: (at(0.25)?, at(0.75)?),
        median: at(0.5)?,
        mean: values.iter().sum::<f64>() / values.len() as f64,
        max: last,
        look: SeriesStyle::nth(slot),
    })
}

/// Legend of the boxes.
pub(super) const BOXES: &str =
    "Box: quartiles and median over connections of all runs; whiskers: least and largest; marker: mean.";

/// The spread of `value` over classes, largest minus least, mean over runs.
fn width(run: &Run) -> Option<f64> {
    let values: Vec<f64> = of_kind(run, "").filter_map(|class| class.delay().p99).collect();
    let (low, high) = values.iter().fold((f64::MAX, 0.0f64), |(low, high), &value| (low.min(value), high.max(value)));
    (!values.is_empty()).then_some(high - low)
}

/// A quantity of a run.
type OfRun<'a> = &'a dyn Fn(&Run) -> Option<f64>;

/// The effect of Figure 2, which the text also claims for video.
const SAME: &str = "We see the same effect for video sources from the boxplots in Figure 3. [FQ-LDF needs significantly smaller playout buffers than PGPS.]";

/// Returns a quantity of each connection of these runs, in order.
fn each<'r>(runs: impl Iterator<Item = &'r Run>, of: fn(&fairlink_report::ClassReport) -> Option<f64>) -> Vec<f64> {
    let mut values: Vec<f64> = runs.flat_map(|run| &run.classes).filter_map(of).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Quantile of sorted values.
fn part_of(values: &[f64], part: f64) -> f64 {
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Returns the part of the connections whose 99th percentile is lower under FQ-LDF.
fn lower_part(played: &Compared) -> f64 {
    let of = |n: usize| played.of(n).flat_map(|run| &run.classes).map(|class| class.delay().p99);
    of(0).zip(of(1)).filter(|(pgps, ldf)| ldf < pgps).count() as f64 / of(0).count().max(1) as f64
}

fn by_length(table: &mut Table, seconds: f64, played: &Compared) {
    let median = |n: usize| part_of(&each(played.of(n), |class| class.delay().p99), 0.5);
    table.row([
        format!("{seconds} s"),
        human::time(median(0)),
        human::time(median(1)),
        format!("{:.2}", median(1) / median(0)),
        human::percent(lower_part(played)),
    ]);
}

/// Tests Figure 3.
pub(super) fn fig3(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (seeds, seconds) = lab.by_effort((4, 900.0), (10, 3600.0));
    let workload = videos(0.88, &format!("buffer = \"{LARGE}\""), seconds);
    let played = Compared::play(lab, &workload, &PAIR, seeds)?;
    let longest = |run: &Run| of_kind(run, "").filter_map(|class| class.delay().p99).reduce(f64::max);
    let all = |run: &Run| p99(run, "");
    let mut table = Table::new("Of 28 connections, mean of the runs", &["", "PGPS", "FQ-LDF", "FQ-LDF over PGPS"]);
    let quantities: [(&str, OfRun<'_>); 6] = [
        ("mean of the mean delays", &|run| mean_delay(run, "")),
        ("mean of the 99th percentiles", &all),
        ("largest of the 99th percentiles", &longest),
        ("largest less least of the 99th percentiles", &width),
        ("delay exceeded by 1e-2 of all packets", &|run| exceeded(run, 1e-2)),
        ("delay exceeded by 1e-3 of all packets", &|run| exceeded(run, 1e-3)),
    ];
    for (words, value) in quantities {
        let means = [played.mean(0, value)?.mean, played.mean(1, value)?.mean];
        let mut cells = vec![words.to_owned()];
        cells.extend(means.map(human::time));
        cells.push(format!("{:.2}", means[1] / means[0]));
        table.row(cells);
    }
    let p99s = [each(played.of(0), |class| class.delay().p99), each(played.of(1), |class| class.delay().p99)];
    let mut quartiles = Table::new(
        "99th percentile of the delay, over connections of all runs",
        &["", "PGPS", "FQ-LDF", "FQ-LDF over PGPS"],
    );
    for (words, part) in
        [("least", 0.0), ("first quartile", 0.25), ("median", 0.5), ("third quartile", 0.75), ("largest", 1.0)]
    {
        let of = [&p99s[0], &p99s[1]].map(|values| part_of(values, part));
        let mut cells = vec![words.to_owned()];
        cells.extend(of.map(human::time));
        cells.push(format!("{:.2}", of[1] / of[0]));
        quartiles.row(cells);
    }
    // Over the connections of all runs.
    let over = |part: f64| {
        played.estimate(|runs| {
            let [pgps, ldf] = [0, 1].map(|n| part_of(&each(runs.of(n), |class| class.delay().p99), part));
            Ok(ldf / pgps)
        })
    };
    let dropped: u64 = (0..2)
        .flat_map(|n| played.of(n))
        .flat_map(|run| &run.classes)
        .map(|class| class.counts().dropped.packets)
        .sum();
    let mut rows = vec![
        Row::new(
            "99th percentile, largest of the connections: PGPS less FQ-LDF",
            Unit::Seconds,
            Expected::AtLeast(0.0),
            played.gain(longest)?,
        ),
        Row::new(
            "99th percentile, largest less least of the connections: FQ-LDF over PGPS",
            Unit::Part,
            Expected::AtMost(1.0),
            played.ratio(width)?,
        ),
        Row::new(
            "delay exceeded by 1e-3 of the packets of all connections: PGPS less FQ-LDF",
            Unit::Seconds,
            Expected::AtLeast(0.0),
            played.gain(|run| exceeded(run, 1e-3))?,
        ),
    ];
    for (words, part) in [("median", 0.5), ("third quartile", 0.75)] {
        rows.push(
            Row::new(
                format!("99th percentile, {words} of the connections: FQ-LDF over PGPS"),
                Unit::Part,
                Expected::AtMost(1.0 / SIGNIFICANTLY),
                over(part)?,
            )
            .judging(SAME)
            .or_weaker(
                1.0 / SIGNIFICANTLY,
                1.0,
                "Smaller, and by less than the fifth that \"significantly\" is taken for.",
            ),
        );
    }
    // The same in runs of a third of the length.
    let shorter = Compared::play(lab, &videos(0.88, &format!("buffer = \"{LARGE}\""), seconds / 3.0), &PAIR, seeds)?;
    let first = |played: &Compared| {
        let of = |n: usize| part_of(&each(played.of(n), |class| class.delay().p99), 0.25);
        of(1) / of(0)
    };
    rows.push(
        Row::new(
            "99th percentile, first quartile of the connections: FQ-LDF over PGPS",
            Unit::Part,
            Expected::AtMost(1.0),
            over(0.25)?,
        )
        .judging(SAME)
        .departing(
            1.0,
            first(&shorter),
            "A quarter of the connections has had no long scene in the run, and waits for the others under FQ-LDF. How many there are depends on the length of a run, which the text \
             does not give: in a third of the time the ratio is larger.",
        ),
    );
    rows.push(
        Row::new(
            "connections whose 99th percentile is lower under FQ-LDF",
            Unit::Part,
            Expected::AtLeast(0.5),
            played.estimate(|runs| Ok(lower_part(runs)))?,
        )
        .judging(SAME),
    );
    rows.extend([
        Row::shown("mean delay: FQ-LDF over PGPS", Unit::Part, played.ratio(|run| mean_delay(run, ""))?),
        Row::never("packets lost", dropped as usize)
            .judging("The utilization is .88 and the buffers are large enough so that there are no losses."),
    ]);
    let mut lengths = Table::new(
        "By the length of a run, which the text does not give: 99th percentile, median of the connections",
        &["length of a run", "PGPS", "FQ-LDF", "FQ-LDF over PGPS", "connections with a lower one under FQ-LDF"],
    );
    for length in [60.0, seconds / 3.0] {
        let workload = videos(0.88, &format!("buffer = \"{LARGE}\""), length);
        by_length(&mut lengths, length, &Compared::play(lab, &workload, &PAIR, seeds)?);
    }
    by_length(&mut lengths, seconds, &played);
    let mut panels = Vec::new();
    for (title, of) in [
        (
            "mean delay of a connection",
            (|class| class.delay().mean) as fn(&fairlink_report::ClassReport) -> Option<f64>,
        ),
        ("99th percentile of the delay of a connection", |class| class.delay().p99),
    ] {
        let names = ["FQ-LDF", "PGPS"].map(str::to_owned).to_vec();
        let mut spreads = Vec::new();
        for (place, n) in [(0, 1), (1, 0)] {
            let values = played.of(n).flat_map(|run| &run.classes).filter_map(of).collect();
            spreads
                .extend(box_of(NAMES[n], place, n, values).map(|spread| BoxPlot { x: place as f64 + 0.5, ..spread }));
        }
        let top = spreads.iter().map(|spread| spread.max).fold(1.0, f64::max) * 1.05;
        let mut panel = Panel::new(title, Axis::names("", names), Axis::linear("delay in ms", 0.0, top)).high(240.0);
        panel.spreads = spreads;
        panels.push(panel);
    }
    let mut figure = Figure::new("Figure 3: delays of 28 video sources", panels);
    figure.notes.push(BOXES.to_owned());
    let note = format!(
        "28 DAR(1) sources of 1.5 Mbit/s, peak to mean 5, rho 0.98, at a utilisation of 0.88, which makes the link 47.7 Mbit/s; equal weights, nothing is lost, {seeds} runs of {seconds} s on \
         the same arrivals. Frames per second ({FRAMES}), the variance of frames (0.57 of the mean, squared) and the length of packets ({VIDEO_PACKET} B) are not in the text. Frames are \
         correlated over seconds, so that intervals are wide. The text takes from its boxes that playout buffers are smaller, which is judged over connections: their quartiles, and how many have a \
         lower 99th percentile. It does not say how long its runs are. In a minute most connections have no long scene at all: they hardly wait under PGPS and wait for the others under \
         FQ-LDF. The longer a run, the more connections gain (table)."
    );
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(table)
        .with_table(quartiles)
        .with_table(lengths)
        .with_rerun(workload.rerun("--scheduler pgps --scheduler fq-ldf --runs 5")))
}
