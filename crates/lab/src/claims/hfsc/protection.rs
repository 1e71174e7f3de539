//! Section 7: the effect of many streams of one agency on the other, under CBQ with priorities and under H-FSC.

use std::fmt::Write as _;

use fairlink_sim::statistics::Estimate;

use super::watch::{Record, largest, mean, record};
use crate::claims::laboratory::mean_of;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

const COMPARED: [&str; 4] = ["hfsc", "cbq-ancestor-only", "cbq-formal", "cbq-top-level"];
/// Number of "Many active CMU video streams". Each is a leaf, as the paper has it for sessions.
const STREAMS: usize = 12;
/// Their total offered load in Mbit/s: more than CMU's 25, so that they take all of it.
const OFFERED: f64 = 30.0;
/// Total offered load of the streams if CMU has data, too, in Mbit/s: within their guarantee of 10.
const USUAL: f64 = 9.0;
/// Delay target of U. Pitt's real-time curve for a packet, in seconds.
const TARGET: f64 = 0.001;
/// Duration of a packet of 1500 B at 45 Mbit/s, in seconds.
const PACKET: f64 = 8.0 * 1500.0 / 45e6;
/// Left out at the start, in seconds.
const WARMUP: f64 = 0.5;

/// Makes the tree of Figure 1. Its streams offer `video` Mbit/s together; CMU's data has packets always, or never.
fn figure_1(name: &str, video: f64, data: bool, seed: u32) -> Workload {
    let mut text = format!(
        "# Section 7 of the H-FSC paper: {STREAMS} streams of video of CMU beside U. Pitt's real-time packets and data. CBQ needs --lenient here: it\n\
         # has no curves.\n\nduration = \"4s\"\nwarmup = \"{WARMUP}s\"\nseed = {seed}\n\n[link]\nrate = \"45mbit\"\nscheduler = \"hfsc\"\nmtu = \"1500B\"\n"
    );
    let mut class = |name: &str, parent: &str, mbit: f64, keys: &str| {
        let _ = write!(text, "\n[[class]]\nname = \"{name}\"\nguarantee = \"{:.0}kbit\"\n{keys}", mbit * 1e3);
        if !parent.is_empty() {
            let _ = writeln!(text, "parent = \"{parent}\"");
        }
    };
    class("cmu", "", 25.0, "");
    class("cmu-audio", "cmu", 1.0, "priority = 1\nreal_time = { rate = \"1mbit\" }\n");
    class("cmu-video", "cmu", 10.0, "");
    let each = 10_000 / STREAMS;
    let keys = format!("priority = 1\nbuffer = \"50p\"\nreal_time = {{ rate = \"{each}kbit\" }}\n");
    for stream in 0..STREAMS {
        class(&format!("video-{stream}"), "cmu-video", each as f64 / 1e3, &keys);
    }
    class("cmu-data", "cmu", 14.0, "priority = 2\n");
    class("pitt", "", 20.0, "");
    let curve = format!(
        "priority = 1\nreal_time = {{ burst = \"1500B\", delay = \"{}ms\", rate = \"8mbit\" }}\n",
        TARGET * 1e3
    );
    class("pitt-video", "pitt", 8.0, &curve);
    class("pitt-data", "pitt", 12.0, "priority = 2\nreal_time = { rate = \"12mbit\" }\n");
    let mut source = |class: &str, model: &str| {
        let _ = write!(text, "\n[[source]]\nclass = \"{class}\"\n{model}packet = \"1500B\"\n");
    };
    let model = format!("model = \"poisson\"\nrate = \"{:.0}kbit\"\n", video * 1e3 / STREAMS as f64);
    for stream in 0..STREAMS {
        source(&format!("video-{stream}"), &model);
    }
    if data {
        source("cmu-data", "model = \"greedy\"\n");
    }
    source("pitt-video", "model = \"cbr\"\nrate = \"7500kbit\"\n");
    source("pitt-data", "model = \"poisson\"\nrate = \"10mbit\"\n");
    Workload::new(name, text).in_any_phase()
}

/// Delays of U. Pitt, in seconds, and the rate of its data in bit/s.
#[derive(Clone, Copy, Debug)]
struct Pitt {
    longest: f64,
    mean: f64,
    data: f64,
    rate: f64,
}

impl Pitt {
    fn from_record(run: &Record) -> Self {
        let real_time = run.delays("pitt-video", WARMUP, 4.0);
        Self {
            longest: largest(&real_time),
            mean: mean(&real_time),
            data: mean(&run.delays("pitt-data", WARMUP, 4.0)),
            rate: 8.0 * run.bytes(&["pitt-data"], WARMUP, 4.0) / (4.0 - WARMUP),
        }
    }
}

/// By seed: with CMU's data, and with many streams.
type Pairs = Vec<[Pitt; 2]>;

fn play(lab: &Lab<'_>, scheduler: &str, offered: f64, seeds: u32) -> Result<Pairs, ClaimError> {
    let one = |workload: Workload| -> Result<Pitt, ClaimError> {
        Ok(Pitt::from_record(&record(lab, &workload, scheduler, &workload)?))
    };
    let pair = |seed| -> Result<[Pitt; 2], ClaimError> {
        Ok([
            one(figure_1("fig1-data.toml", USUAL, true, seed))?,
            one(figure_1("fig1-video.toml", offered, false, seed))?,
        ])
    };
    (1..=seeds).map(pair).collect()
}

fn estimate(of: &Pairs, value: &dyn Fn(&[Pitt; 2]) -> f64) -> Result<Estimate, ClaimError> {
    mean_of("U. Pitt", of.iter().map(value))
}

/// The longest delay of real-time packets with many streams.
fn longest(of: &Pairs) -> f64 {
    of.iter().map(|[_, many]| many.longest).fold(0.0, f64::max)
}

/// Tests Section 7: CBQ with priorities.
pub(super) fn cbqprio(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let seeds: u32 = lab.by_effort(3, 10);
    let found: Vec<Pairs> =
        COMPARED.into_iter().map(|name| play(lab, name, OFFERED, seeds)).collect::<Result<_, _>>()?;
    let data = |[usual, many]: &[Pitt; 2]| many.data / usual.data;
    let usual_longest = found[0].iter().map(|[usual, _]| usual.longest).fold(0.0, f64::max);
    let mut rows = vec![
        Row::new(
            "cbq-ancestor-only: longest delay of U. Pitt's real-time packets, over that of hfsc",
            Unit::Times,
            Expected::AtLeast(1.5),
            longest(&found[1]) / longest(&found[0]),
        ),
        Row::new(
            "cbq-ancestor-only: mean delay of U. Pitt's data, many streams over usual",
            Unit::Times,
            Expected::AtLeast(2.0),
            estimate(&found[1], &data)?,
        ),
        Row::new(
            "hfsc: longest delay of U. Pitt's real-time packets: 1 ms and a packet at most",
            Unit::Seconds,
            Expected::AtMost(TARGET + PACKET),
            longest(&found[0]).max(usual_longest),
        ),
        Row::new(
            "hfsc: mean delay of U. Pitt's data, many streams over usual",
            Unit::Times,
            Expected::Between(0.5, 1.5),
            estimate(&found[0], &data)?,
        ),
        Row::shown(
            "cbq-ancestor-only: what U. Pitt's data gets of the 10 Mbit/s it sends",
            Unit::Rate,
            estimate(&found[1], &|pair| pair[1].rate)?,
        ),
        Row::shown("hfsc: the same", Unit::Rate, estimate(&found[0], &|pair| pair[1].rate)?),
    ];
    let reason = "Formal sharing lets no stream above its own share send while a class below U. Pitt is unsatisfied, and ours takes averages at every \
                  packet: what is regulated then comes evenly spaced, and U. Pitt hardly sees it. The text says that it could be affected.";
    rows.push(
        Row::new(
            "cbq-formal: longest delay of U. Pitt's real-time packets, over that of hfsc",
            Unit::Times,
            Expected::AtLeast(1.5),
            longest(&found[2]) / longest(&found[0]),
        )
        .departing(0.5, 1.5, reason),
    );
    rows.push(
        Row::new(
            "cbq-formal: mean delay of U. Pitt's data, many streams over usual",
            Unit::Times,
            Expected::AtLeast(1.2),
            estimate(&found[2], &data)?,
        )
        .departing(0.0, 1.2, reason),
    );
    let what = "cbq-top-level, which the text says avoids it: longest delay of real-time packets, over that of hfsc";
    rows.push(Row::shown(what, Unit::Times, longest(&found[3]) / longest(&found[0])));
    let mut table = Table::new(
        "Delays of U. Pitt in ms: CMU with data and some video, and with many streams and no data",
        &[
            "scheduler",
            "real-time, mean, usual",
            "many",
            "real-time, longest, usual",
            "many",
            "data, mean, usual",
            "many",
        ],
    );
    for (name, of) in COMPARED.into_iter().zip(&found) {
        let values: [&dyn Fn(&Pitt) -> f64; 3] = [&|pitt| pitt.mean, &|pitt| pitt.longest, &|pitt| pitt.data];
        let mut cells = vec![name.to_owned()];
        for value in values {
            for place in 0..2 {
                let estimate = estimate(of, &|pair| value(&pair[place]))?;
                cells.push(format!("{:.2} ±{:.2}", estimate.mean * 1e3, estimate.ci95.unwrap_or(0.0) * 1e3));
            }
        }
        table.row(cells);
    }
    let mut loads = Table::new(
        "By what the streams offer: longest delay of real-time packets and mean delay of data of U. Pitt in ms",
        &["offered, Mbit/s", "hfsc", "cbq-ancestor-only", "cbq-formal", "cbq-top-level"],
    );
    for offered in [20.0, 24.0, 27.0, 36.0] {
        let mut cells = vec![format!("{offered}")];
        for name in COMPARED {
            let of = play(lab, name, offered, lab.by_effort(1, 5))?;
            let data = estimate(&of, &|pair| pair[1].data)?.mean;
            cells.push(format!("{:.2} / {:.2}", longest(&of) * 1e3, data * 1e3));
        }
        loads.row(cells);
    }
    let many = figure_1("fig1-video.toml", OFFERED, false, 1);
    let usual = figure_1("fig1-data.toml", USUAL, true, 1);
    let note = format!(
        "The tree of Figure 1, of which the text gives the link (45 Mbit/s), CMU (25) and CMU's video (10); U. Pitt has the other 20. Chosen: CMU audio \
         1, data 14; U. Pitt real-time 8, data 12; {STREAMS} streams of video, a leaf each. Streams and real-time are of priority 1, data of priority 2. \
         U. Pitt does the same always: 7.5 Mbit/s of evenly spaced real-time packets and 10 Mbit/s of data at random. CMU sends either \
         {USUAL} Mbit/s of video at random and all the data it can, or {OFFERED} of video and no data. Packets of 1500 B, {seeds} seeds. U. Pitt's \
         real-time curve asks for a packet within 1 ms, and 8 Mbit/s. The text says that real-time sessions could be affected under formal \
         and ancestor-only sharing; ours are under ancestor-only, not under formal sharing with exact averages."
    );
    Ok(Finding::new(note, rows)
        .with_figure(figure(&found))
        .with_table(table)
        .with_table(loads)
        .with_rerun(many.rerun("--lenient --runs 3 --scheduler hfsc --scheduler cbq-ancestor-only"))
        .with_rerun(usual.rerun("--lenient --runs 3 --scheduler hfsc --scheduler cbq-ancestor-only")))
}

/// Delays by scheduler.
fn figure(found: &[Pairs]) -> Figure {
    let names: Vec<String> = COMPARED.map(str::to_owned).to_vec();
    let panels = [("real-time packets: longest delay", 0usize), ("data: mean delay", 1)].map(|(title, which)| {
        let value = |pitt: &Pitt| 1e3 * if which == 0 { pitt.longest } else { pitt.data };
        let mut series = Vec::new();
        let mut extremes = (f64::INFINITY, 0.0f64);
        for (place, name) in ["CMU with data and some video", "CMU with many streams, no data"].into_iter().enumerate()
        {
            let found: Vec<Option<Estimate>> = found
                .iter()
                .map(|of| Estimate::from_values(&of.iter().map(|pair| value(&pair[place])).collect::<Vec<_>>()))
                .collect();
            let mean = |of: &Option<Estimate>| of.as_ref().map_or(f64::NAN, |of| of.mean);
            // On this axis no bar ends at or below zero.
            let error = |of: &Option<Estimate>| of.as_ref().and_then(|of| of.ci95).unwrap_or(0.0).min(0.9 * mean(of));
            let points: Vec<(f64, f64)> = found.iter().enumerate().map(|(n, of)| (n as f64 + 0.5, mean(of))).collect();
            extremes = found
                .iter()
                .fold(extremes, |(low, high), of| (low.min(mean(of) - error(of)), high.max(mean(of) + error(of))));
            series.push(
                Series::points(name, points, SeriesStyle::nth(place)).with_errors(found.iter().map(error).collect()),
            );
        }
        if which == 0 {
            let bound = (TARGET + PACKET) * 1e3;
            series.push(Series::line(
                "hfsc: curve and a packet",
                vec![(0.0, bound), (4.0, bound)],
                SeriesStyle::reference(),
            ));
        }
        let y = Axis::log("delay in ms", extremes.0 * 0.8, extremes.1 * 1.2);
        let mut panel = Panel::new(title, Axis::names("", names.clone()), y).high(220.0);
        panel.series = series;
        panel
    });
    Figure::new("Section 7: delays of U. Pitt, which does the same in both", panels.into())
}
