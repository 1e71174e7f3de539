//! Section 5.2: MPEG video as the latency-critical flow. Figures 5.10 to 5.14.
//!
//! DIFFERENCE: at the text's 1.2 Mbit/s and its traffic the link is loaded by 61 to 76 %, with which no work-conserving
//! scheduler has delays of seconds. The text's measurements fit a link of 791 to 820 kbit/s, by its own thresholds (see
//! [`MEASURED`]). Every figure is run at both rates: the first has the departures, with their reason, and the second
//! reproduces the text.

use fairlink_sim::Options;
use fairlink_sim::statistics::Estimate;

use super::flows::{
    FLOWS, NAMES, NEW, OLD, Point, SCHEDULERS, at, delay_panel, estimate, jackknife, largest, least, line, runs, span,
};
use super::waits::{Waits, waits};
use crate::claims::laboratory::mean_delay;
use crate::claims::words::{A_LITTLE, DRAMATICALLY, MUCH};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Value, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, SeriesStyle};
use fairlink_figures::human;

const VIDEO: &str = include_str!("../../../../../scenarios/thesis/fig510.toml");
/// The rate of the link as the text gives it.
const STATED: Link = Link { rate: "1.2mbit", words: "1.2 Mbit/s" };
/// The rate at which the text's own thresholds hold. The video needs 614 kbit/s. Under DRR++ a quantum of 6000 B (6/8
/// of the link if all send) is not enough and 9000 B (9/11) are: 751 to 819 kbit/s. Under DRR+ 21000 B (21/27) are
/// enough and 18000 B (18/24) are not: 790 to 819 kbit/s. Near the lower end, where text and figures agree best;
/// [`fig513`] has other rates.
const MEASURED: Link = Link { rate: "795kbit", words: "795 kbit/s" };
/// Packets per second of each best-effort flow in Figures 5.10 and 5.11.
const LAMBDAS: [u32; 10] = [2, 5, 8, 10, 13, 15, 18, 20, 24, 30];
/// Quanta of the video in Figures 5.12 to 5.14: 9000 B are 60 % of all, 27000 B are 82 %, so that the three others have 2000 B each.
const QUANTA: [u32; 9] = [3000, 6000, 9000, 12_000, 15_000, 18_000, 21_000, 24_000, 27_000];
/// The quantum in Figures 5.10 and 5.11, which the text does not give: the least with which the text finds the delay low.
const QUANTUM: u32 = 9000;
/// Best-effort packets per second of Figure 5.12 and of Figures 5.13 and 5.14.
const LOW: u32 = 12;
const HIGH: u32 = 18;
const COMPARED: &str = "--runs 10 --lenient --scheduler drr++ --scheduler drr+";

/// Sentences of the text beside those of the claims.
const CLIMB: &str = "At the same time, the delay of the BE flows increases dramatically once their arrival rates are larger than 13 packets per second.";
const SLOWER: &str = "Figure 5.11 shows the results for DRR+, where the MPEG LC flow has a larger delay than the BE flows because it has been demoted to best-effort service, and is being served once in every round.";
const HUNDRED: &str = "The delay for all flows reaches more than one hundred times the delay under DRR++.";
const PREDICTABLE: &str = "DRR++ provides better performance on the buffer storage requirement for the MPEG traffic because of the bounded delay value.";
const CHANCES: &str =
    "The reason that DRR++ has lower delay than DRR+ is that the MPEG LC packets have more chances to be served.";
const LARGE: &str = "Although the MPEG LC flow has a large delay in DRR++ when Q_LC is less than 6000 bytes, this value is only about 35% of the maximum packet length of 17000 bytes";
const OLD_FALLS: &str = "In DRR+, the delay of the MPEG LC flow decreases from a very large value until Q_LC equals 21000 bytes, which is 78% of total quantum.";
const STILL: &str =
    "When Q_LC is 27000 bytes (82% of the total quantum), the delay is still much larger than in DRR++.";
const OTHERS_FALL: &str = "In DRR+, the delay of the BE flows decreases when Q_LC >= 21000 bytes.";
const OTHERS_WAIT: &str = "Only when Q_LC is large enough can the MPEG flow be served quickly. This results in the long waiting time of the BE flows.";

/// A link's rate, as scenarios and people write it.
#[derive(Clone, Copy)]
struct Link {
    rate: &'static str,
    words: &'static str,
}

fn scenario(rate: &str, lambda: u32, quantum: u32) -> Result<Workload, ClaimError> {
    let (lambda, quantum) = (lambda.to_string(), format!("{quantum}B"));
    let keys = ["be1", "be2", "be3"].map(|flow| format!("source.{flow}.packets_per_second"));
    let mut settings: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), lambda.as_str())).collect();
    settings.extend([("link.rate", rate), ("class.lc.quantum", &quantum)]);
    Workload::new("fig510.toml", VIDEO).with(&settings)
}

fn by_load(lab: &Lab<'_>, link: Link) -> Result<Vec<Point>, ClaimError> {
    LAMBDAS.iter().map(|&lambda| Point::play(lab, lambda.into(), &scenario(link.rate, lambda, QUANTUM)?)).collect()
}

/// The measurements of Figures 5.10 and 5.11 at the rate that fits them.
pub(super) fn measured_by_load(lab: &Lab<'_>) -> Result<Vec<Point>, ClaimError> {
    by_load(lab, MEASURED)
}

fn by_quantum(lab: &Lab<'_>, rate: &str, lambda: u32) -> Result<Vec<Point>, ClaimError> {
    QUANTA.iter().map(|&quantum| Point::play(lab, quantum.into(), &scenario(rate, lambda, quantum)?)).collect()
}

fn mean(points: &[Point], x: u32, scheduler: usize, flow: &str) -> Result<f64, ClaimError> {
    Ok(at(points, x.into())?.delay(scheduler, flow)?.mean)
}

/// Returns the least difference of the video's mean delays under both schedulers, of all points.
fn least_gain(points: &[Point]) -> Result<Estimate, ClaimError> {
    jackknife(points, |points| least(points, |point| Ok(point.gain("lc")?.mean)))
}

/// Both schedulers keep the link busy on the same arrivals, so that total bytes times wait is equal, for any owners.
fn conserved(new: Waits, old: Waits, link: Link) -> Row {
    Row::new(
        format!("{}: bytes times their wait, all flows together, DRR+ over DRR++", link.words),
        Unit::Number,
        Expected::Near(1.0, 0.01),
        old.all() / new.all(),
    )
}

fn loads() -> Axis {
    Axis::linear("packets per second of each best-effort flow", 0.0, 30.0)
}

fn quanta() -> Axis {
    Axis::linear("quantum of the video (B)", 3000.0, 27_000.0)
}

/// Makes a panel of both schedulers and some flows.
fn panel(title: String, x: Axis, points: &[Point], flows: &[usize]) -> Result<Panel, ClaimError> {
    let mut series = Vec::new();
    for &flow in flows {
        for (scheduler, name) in SCHEDULERS.iter().enumerate() {
            let name = format!("{name}: {}", if flow == 0 { "video" } else { NAMES[flow] });
            series.push(line(&name, points, SeriesStyle::nth(2 * usize::from(flow != 0) + scheduler), |p| {
                p.delay(scheduler, FLOWS[flow])
            })?);
        }
    }
    // If no value grows by an order of magnitude, from zero on.
    let (least, most) = span(&series);
    if most > 5.0 * least {
        return Ok(delay_panel(&title, x, series).high(270.0));
    }
    for series in &mut series {
        series.points.iter_mut().for_each(|point| point.1 *= 1e3);
        series.errors.iter_mut().for_each(|error| *error *= 1e3);
    }
    let mut panel = Panel::new(title, x, Axis::linear("mean delay (ms)", 0.0, most * 1.1e3)).high(210.0);
    panel.series = series;
    Ok(panel)
}

/// Figures 5.10 and 5.11: the load of the best-effort flows grows.
pub(super) fn fig510(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (stated, measured) = (by_load(lab, STATED)?, by_load(lab, MEASURED)?);
    let mut rows = Vec::new();
    for (points, link) in [(&stated, STATED), (&measured, MEASURED)] {
        let slower = least_gain(points)?;
        let words = link.words;
        rows.push(Row::new(
            format!("{words}: DRR++, delay of the video at 30 packets/s over that at 24"),
            Unit::Times,
            Expected::Near(1.0, 0.05),
            jackknife(points, |points| Ok(mean(points, 30, NEW, "lc")? / mean(points, 24, NEW, "lc")?))?,
        ));
        rows.push(
            Row::new(
                format!("{words}: video slower under DRR+ than under DRR++, least of all loads"),
                Unit::Seconds,
                Expected::AtLeast(0.0),
                slower,
            )
            .judging(PREDICTABLE),
        );
        rows.push(
            Row::new(
                format!("{words}: DRR+ at 30 packets/s, video over a best-effort flow"),
                Unit::Times,
                Expected::AtLeast(1.0),
                jackknife(points, |points| Ok(mean(points, 30, OLD, "lc")? / mean(points, 30, OLD, "be1")?))?,
            )
            .judging(SLOWER),
        );
    }
    let busy = scenario(STATED.rate, 30, QUANTUM)?;
    let (new, old) = (waits(lab, &busy, NEW)?, waits(lab, &busy, OLD)?);
    let limit = new.all() / new.first;
    // Load of the link at `lambda` packets per second, as a part of 1.2 Mbit/s.
    let load = |lambda: f64| (614_400.0 + 3.0 * lambda * 410.0 * 8.0) / 1.2e6;
    let climb = |points: &[Point]| -> Result<f64, ClaimError> {
        Ok(mean(points, 30, NEW, "be1")? / mean(points, 13, NEW, "be1")?)
    };
    let times = |points: &[Point]| -> Result<f64, ClaimError> {
        Ok(mean(points, 30, OLD, "lc")? / mean(points, 30, NEW, "lc")?)
    };
    rows.push(Row::new("1.2 Mbit/s: DRR++, a best-effort flow's delay at 30 packets/s over that at 13", Unit::Times, Expected::AtLeast(DRAMATICALLY), jackknife(&stated, climb)?).judging(CLIMB).departing(
        1.0,
        (1.0 - load(13.0)) / (1.0 - load(30.0)),
        "At the stated 1.2 Mbit/s the load is 62 % at 13 packets/s and 76 % at 30, so that delays rise by (1 - 0.62) / (1 - 0.76) at most and \
         nothing climbs dramatically.",
    ));
    rows.push(Row::new("1.2 Mbit/s: delay of the video at 30 packets/s, DRR+ over DRR++", Unit::Times, Expected::AtLeast(100.0), jackknife(&stated, times)?).departing(
        1.0,
        new.all() / new.first,
        format!(
                "Bytes times their wait add up to the same under every work-conserving scheduler. If the video took all of the others' waiting upon \
                 itself, it would wait about {} times as long.",
                human::digits(limit)
            ),
    ).judging(HUNDRED));
    rows.push(conserved(new, old, STATED));
    rows.push(
        Row::new(
            "795 kbit/s: DRR++, a best-effort flow's delay at 30 packets/s over that at 13",
            Unit::Times,
            Expected::AtLeast(DRAMATICALLY),
            jackknife(&measured, climb)?,
        )
        .judging(CLIMB),
    );
    rows.push(
        Row::new(
            "795 kbit/s: delay of the video at 30 packets/s, DRR+ over DRR++",
            Unit::Times,
            Expected::AtLeast(100.0),
            jackknife(&measured, times)?,
        )
        .judging(HUNDRED)
        .or_weaker(
            10.0,
            100.0,
            "The link of 795 kbit/s is overloaded at 30 packets/s, and the video's queue under DRR+ grows while the run lasts: to less than a hundred times in 100 s, the \
             text's length of a run.",
        ),
    );
    let saturated = scenario(MEASURED.rate, 30, QUANTUM)?;
    let (new_be, old_be) = (waits(lab, &saturated, NEW)?, waits(lab, &saturated, OLD)?);
    rows.push(
        Row::new(
            "795 kbit/s: delay of a best-effort flow at 30 packets/s, DRR+ over DRR++",
            Unit::Times,
            Expected::AtLeast(100.0),
            jackknife(&measured, |points| Ok(mean(points, 30, OLD, "be1")? / mean(points, 30, NEW, "be1")?))?,
        )
        .judging(HUNDRED)
        .departing(
            0.0,
            1.0,
            format!(
                "\"All flows\" cannot be: bytes times their wait add up to the same under both ({} of DRR++'s under DRR+), so that what the video waits more the others \
                 wait less.",
                human::percent(old_be.all() / new_be.all())
            ),
        ),
    );
    let mut periods = Table::new(
        "Delay of the video under DRR+ at 18 packets/s by the period of the contract, 135 % of the mean rate",
        &["period", "bytes", "1.2 Mbit/s", "795 kbit/s"],
    );
    for (words, bytes, every) in [
        ("1/30 s, a picture", "3456B", "33333333ns"),
        ("1/3 s, a group", "34560B", "333333333ns"),
        ("1 s", "103680B", "1s"),
        ("3 s", "311040B", "3s"),
    ] {
        let mut row = vec![words.to_owned(), bytes.trim_end_matches('B').to_owned()];
        for link in [STATED, MEASURED] {
            let workload = scenario(link.rate, HIGH, QUANTUM)?
                .with(&[("class.lc.contract.bytes", bytes), ("class.lc.contract.every", every)])?;
            let played = lab.play(&workload, &SCHEDULERS[OLD..], runs(lab), &Options::default())?;
            row.push(human::time(estimate(&played.iter().map(|run| mean_delay(run, "lc")).collect::<Vec<_>>())?.mean));
        }
        periods.row(row);
    }
    let note = "MPEG video of 614 kbit/s, a picture as one packet, beside three best-effort flows. The text does not give the video's quantum in these \
                figures: 9000 B, beside 2000 B for each other flow. Its contract is 135 % of (I + 3P + 6B)/10, which is 2560 B where the text prints \
                25600 B: taken as a picture's in the time of a picture, so that DRR+ demotes the flow with its first I picture, as the text says it \
                was (table: other periods). The text's utilisations of 56 % and 60 % do not follow from its 1.2 Mbit/s (61 % and 66 %), and its \
                delays do not either: they follow from about 0.8 Mbit/s, which its own thresholds of quanta imply. Both rates are shown.";
    let mut panels = Vec::new();
    for (points, link) in [(&stated, STATED), (&measured, MEASURED)] {
        panels.push(panel(format!("link of {}", link.words), loads(), points, &[0, 1])?);
    }
    let figure = Figure::new("Figures 5.10 and 5.11: MPEG video, varying background load", panels);
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(periods)
        .with_rerun(busy.rerun(&format!("{COMPARED} --sweep link.rate=795kbit,1.2mbit"))))
}

const QUANTUM_NOTE: &str = "The best-effort quanta are 2000 B each: 9000 B are 60 % of all quanta in the text and 27000 B are 82 %. \
                            A picture is one packet; the contract of DRR+ is that of Figure 5.10. The text's 1.2 Mbit/s cannot give what it measured \
                            (see Figure 5.10), so both rates are shown.";

/// Tests Figure 5.12: quanta at the lower load.
pub(super) fn fig512(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (stated, measured) = (by_quantum(lab, STATED.rate, LOW)?, by_quantum(lab, MEASURED.rate, LOW)?);
    let mut rows = Vec::new();
    for (points, link) in [(&stated, STATED), (&measured, MEASURED)] {
        for (scheduler, name) in SCHEDULERS.iter().enumerate() {
            let spread = |points: &[Point]| {
                let delay = |point: &Point| Ok(point.delay(scheduler, "lc")?.mean);
                Ok(largest(points, delay)? / least(points, delay)?)
            };
            rows.push(Row::new(
                format!("{}: {name}, largest delay of the video of all quanta over the least", link.words),
                Unit::Times,
                Expected::AtMost(A_LITTLE),
                jackknife(points, spread)?,
            ));
        }
        let gain = least_gain(points)?;
        rows.push(
            Row::new(
                format!("{}: delay under DRR+ less that under DRR++, least of all quanta", link.words),
                Unit::Seconds,
                Expected::AtLeast(0.0),
                gain,
            )
            .judging(CHANCES),
        );
    }
    let note = format!(
        "12 packets/s of each best-effort flow: 61 % of 1.2 Mbit/s (the text: 56 %) and 92 % of 795 kbit/s. {QUANTUM_NOTE}"
    );
    let panels = [(&stated, STATED), (&measured, MEASURED)]
        .map(|(points, link)| panel(format!("link of {}", link.words), quanta(), points, &[0]));
    let figure = Figure::new(
        "Figure 5.12: MPEG video, lower utilisation, varying its quantum",
        panels.into_iter().collect::<Result<_, _>>()?,
    );
    let rerun = scenario(STATED.rate, LOW, QUANTUM)?
        .rerun(&format!("{COMPARED} --sweep class.lc.quantum=3000B..27000B..3000B --sweep link.rate=795kbit,1.2mbit"));
    Ok(Finding::new(note, rows).with_figure(figure).with_rerun(rerun))
}

/// The part of the fall of the video's delay from 3000 to 27000 B that is reached at this quantum.
fn done(points: &[Point], quantum: u32, scheduler: usize) -> Result<Estimate, ClaimError> {
    jackknife(points, |points| done_of(points, quantum, scheduler))
}

fn done_of(points: &[Point], quantum: u32, scheduler: usize) -> Result<f64, ClaimError> {
    let [first, here, last] = [3000, quantum, 27_000].map(|quantum| mean(points, quantum, scheduler, "lc"));
    let (first, here, last) = (first?, here?, last?);
    Ok((first - here) / (first - last))
}

/// Tests Figure 5.13: quanta at the higher load.
pub(super) fn fig513(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (stated, measured) = (by_quantum(lab, STATED.rate, HIGH)?, by_quantum(lab, MEASURED.rate, HIGH)?);
    let fall = |points: &[Point], scheduler| {
        jackknife(points, |points| {
            Ok(1.0 - mean(points, 27_000, scheduler, "lc")? / mean(points, 3000, scheduler, "lc")?)
        })
    };
    // The video alone: the least that any scheduler can do.
    let lone = lab.play(&alone()?, &SCHEDULERS[..1], runs(lab), &Options::default())?;
    let lone = estimate(&lone.iter().map(|run| mean_delay(run, "lc")).collect::<Vec<_>>())?.mean;
    let mut rows = vec![
        Row::new(
            "795 kbit/s: DRR++, part of the fall from 3000 to 27000 B that is done at 9000 B",
            Unit::Part,
            Expected::AtLeast(0.75),
            done(&measured, 9000, NEW)?,
        ),
        Row::new(
            "795 kbit/s: DRR++, part of it that is done at 6000 B",
            Unit::Part,
            Expected::AtMost(0.5),
            done(&measured, 6000, NEW)?,
        )
        .judging(LARGE),
        Row::new(
            "795 kbit/s: DRR+, part of the fall that is done at 9000 B",
            Unit::Part,
            Expected::AtMost(0.25),
            done(&measured, 9000, OLD)?,
        )
        .judging(OLD_FALLS),
        Row::new(
            "795 kbit/s: DRR+, part of the fall that is done at 21000 B",
            Unit::Part,
            Expected::AtLeast(0.5),
            done(&measured, 21_000, OLD)?,
        )
        .judging(OLD_FALLS),
        Row::new(
            "795 kbit/s: delay with 27000 B, DRR+ over DRR++",
            Unit::Times,
            Expected::AtLeast(MUCH),
            jackknife(&measured, |points| Ok(mean(points, 27_000, OLD, "lc")? / mean(points, 27_000, NEW, "lc")?))?,
        )
        .judging(STILL)
        .or_weaker(1.0, MUCH, "Larger, and not by the factor of two that \"much\" is taken for."),
        Row::new(
            "1.2 Mbit/s: delay under DRR+ less that under DRR++, least of all quanta",
            Unit::Seconds,
            Expected::AtLeast(0.0),
            least_gain(&stated)?,
        )
        .judging(CHANCES),
    ];
    for (scheduler, name) in SCHEDULERS.iter().enumerate() {
        let most = 1.0 - lone / mean(&stated, 3000, scheduler, "lc")?;
        rows.push(Row::new(format!("1.2 Mbit/s: {name}, fall of the delay from 3000 to 27000 B, as a part of it"), Unit::Part, Expected::AtLeast(0.5), fall(&stated, scheduler)?).departing(
            0.0,
            most,
            "At the stated 1.2 Mbit/s the link is loaded by 66 % and the video needs half of it, so that it gets what it needs with any quantum. \
             Its delay cannot fall below what it has alone on the link.",
        ));
        rows.push(Row::new(
            format!("795 kbit/s: {name}, fall of the delay from 3000 to 27000 B, as a part of it"),
            Unit::Part,
            Expected::AtLeast(0.5),
            fall(&measured, scheduler)?,
        ));
    }
    let mut rates = Table::new(
        "Part of the fall from 3000 to 27000 B that is done, by the rate of the link, and the fall",
        &["rate", "DRR++ at 6000 B", "at 9000 B", "fall", "DRR+ at 18000 B", "at 21000 B", "fall"],
    );
    for rate in ["780kbit", "795kbit", "810kbit", "830kbit", "1.2mbit"] {
        let points = by_quantum(lab, rate, HIGH)?;
        let mut row = vec![rate.replace("kbit", " kbit/s").replace("mbit", " Mbit/s")];
        for (scheduler, before, after) in [(NEW, 6000, 9000), (OLD, 18_000, 21_000)] {
            for part in [done(&points, before, scheduler)?, done(&points, after, scheduler)?, fall(&points, scheduler)?]
            {
                row.push(format!("{:.0} %", part.mean * 100.0));
            }
        }
        rates.row(row);
    }
    let note = format!(
        "18 packets/s of each best-effort flow: 66 % of 1.2 Mbit/s (the text: 60 %) and 99.5 % of 795 kbit/s. {QUANTUM_NOTE}"
    );
    let panels = [(&stated, STATED), (&measured, MEASURED)]
        .map(|(points, link)| panel(format!("link of {}", link.words), quanta(), points, &[0]));
    let figure = Figure::new(
        "Figure 5.13: MPEG video, higher utilisation, varying its quantum",
        panels.into_iter().collect::<Result<_, _>>()?,
    );
    let rerun = scenario(MEASURED.rate, HIGH, QUANTUM)?
        .rerun(&format!("{COMPARED} --sweep class.lc.quantum=3000B..27000B..3000B --sweep link.rate=795kbit,1.2mbit"));
    Ok(Finding::new(note, rows).with_figure(figure).with_table(rates).with_rerun(rerun))
}

/// Makes the video without the others, on the stated link.
fn alone() -> Result<Workload, ClaimError> {
    let workload = scenario(STATED.rate, HIGH, QUANTUM)?;
    let end = workload.text.find("[[source]]\nclass = \"be1\"").ok_or_else(|| ClaimError::other("no source of be1"))?;
    Ok(Workload::new("fig513-alone.toml", &workload.text[..end]))
}

/// Tests Figure 5.14: the best-effort flows beside Figure 5.13.
pub(super) fn fig514(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (stated, measured) = (by_quantum(lab, STATED.rate, HIGH)?, by_quantum(lab, MEASURED.rate, HIGH)?);
    let rise = |points: &[Point]| -> Result<f64, ClaimError> {
        Ok(mean(points, 9000, NEW, "be1")? / mean(points, 3000, NEW, "be1")?)
    };
    let late = |points: &[Point]| -> Result<f64, ClaimError> {
        Ok(mean(points, 27_000, OLD, "be1")? / mean(points, 21_000, OLD, "be1")?)
    };
    let near = waits(lab, &scenario(MEASURED.rate, HIGH, 21_000)?, OLD)?;
    let far = waits(lab, &scenario(MEASURED.rate, HIGH, 27_000)?, OLD)?;
    let start = waits(lab, &scenario(STATED.rate, HIGH, 3000)?, NEW)?;
    let rows = vec![
        Row::new("795 kbit/s: DRR++, a best-effort flow's delay with 9000 B over that with 3000 B", Unit::Times, Expected::AtLeast(DRAMATICALLY), jackknife(&measured, rise)?),
        Row::new("1.2 Mbit/s: DRR++, a best-effort flow's delay with 9000 B over that with 3000 B", Unit::Times, Expected::AtLeast(DRAMATICALLY), jackknife(&stated, rise)?).departing(
            1.0,
            start.all() / start.others,
            "At the stated 1.2 Mbit/s quanta hardly matter, and what the best-effort flows wait cannot grow by more than the video's own waiting.",
        ),
        Row::new("795 kbit/s: DRR+, a best-effort flow's delay with 27000 B over that with 21000 B", Unit::Times, Expected::AtMost(1.0), jackknife(&measured, late)?).judging(OTHERS_FALL).departing(
            1.0,
            mean(&measured, 27_000, NEW, "be1")? / mean(&measured, 21_000, OLD, "be1")?,
            "The text says that the best-effort flows' delay falls from 21000 B on, and, two sentences later, that they wait long then. The latter is right: \
             as many bytes wait as long under every work-conserving scheduler, so that what the video gains the others lose, and \
             the more so the closer DRR+ comes to DRR++.",
        ),
        Row::new("795 kbit/s: DRR+ from 21000 to 27000 B, bytes times wait that the others gain over what the video loses", Unit::Number, Expected::Near(1.0, 0.05), (far.others - near.others) / (near.first - far.first)).judging(OTHERS_WAIT),
        Row::new("795 kbit/s: DRR+, a best-effort flow's delay with 15000 B below that under DRR++", Unit::Seconds, Expected::AtLeast(0.0), Value::from(at(&measured, 15_000.0)?.gain("be1")?).map(|gain| -gain)).judging(OTHERS_WAIT),
    ];
    let note = format!("The best-effort flows of the runs of Figure 5.13. {QUANTUM_NOTE}");
    let panels = [(&stated, STATED), (&measured, MEASURED)]
        .map(|(points, link)| panel(format!("link of {}", link.words), quanta(), points, &[1]));
    let figure = Figure::new(
        "Figure 5.14: best-effort flows beside MPEG video, higher utilisation",
        panels.into_iter().collect::<Result<_, _>>()?,
    );
    let rerun = scenario(MEASURED.rate, HIGH, QUANTUM)?
        .rerun(&format!("{COMPARED} --sweep class.lc.quantum=3000B..27000B..3000B"));
    Ok(Finding::new(note, rows).with_figure(figure).with_rerun(rerun))
}
