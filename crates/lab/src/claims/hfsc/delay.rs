//! Section 6.1: delays of audio and video beside an on-off source. Figure 11.

use fairlink_sim::statistics::Estimate;

use super::watch::{Record, largest, mean, record};
use crate::claims::laboratory::mean_of;
use crate::claims::words::{MUCH, SIGNIFICANTLY};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

const FIG10: &str = include_str!("../../../../../scenarios/hfsc-fig10.toml");
/// Duration of the longest packet on the link, in seconds.
const PACKET: f64 = 8.0 * 8192.0 / 10e6;
/// On periods of the on-off source in the scenario, in seconds; it is off between. The text does not give their length
/// either.
const ON: [(f64, f64); 3] = [(2.0, 4.0), (6.0, 8.0), (10.0, 12.0)];
const OFF: [(f64, f64); 3] = [(0.0, 2.0), (4.0, 6.0), (8.0, 10.0)];
/// Left out after each change, in seconds.
const SETTLE: f64 = 0.2;

/// Delays of one session under one scheduler, in seconds.
#[derive(Clone, Copy, Debug)]
struct Delays {
    mean: f64,
    most: f64,
    /// Mean while the on-off source is off, and on.
    off: f64,
    on: f64,
}

impl Delays {
    fn from_record(run: &Record, session: &str) -> Self {
        let within = |times: &[(f64, f64)]| -> Vec<(f64, f64)> {
            times.iter().flat_map(|&(from, to)| run.delays(session, from + SETTLE, to)).collect()
        };
        let all = run.delays(session, SETTLE, 12.0);
        Self { mean: mean(&all), most: largest(&all), off: mean(&within(&OFF)), on: mean(&within(&ON)) }
    }

    fn rise(self) -> f64 {
        self.on / self.off - 1.0
    }
}

/// Returns a quantity of two values of the same phase, of each.
fn paired<'v, T>(a: &'v [T], b: &'v [T], value: impl Fn(&T, &T) -> f64 + 'v) -> impl Iterator<Item = f64> + 'v {
    a.iter().zip(b).map(move |(a, b)| value(a, b))
}

/// Tests Figure 11.
pub(super) fn fig11(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let phases: u64 = lab.by_effort(5, 20);
    let schedulers = ["hfsc", "hpfq"];
    let as_shipped = Workload::new("hfsc-fig10.toml", FIG10);
    let mut first = Vec::new();
    for scheduler in schedulers {
        first.push(record(lab, &as_shipped, scheduler, &as_shipped)?);
    }
    // By scheduler, session and phase.
    let mut all = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for phase in 0..phases {
        let workload = as_shipped.clone().in_phase(phase);
        for (scheduler, of) in schedulers.into_iter().zip(&mut all) {
            let run = record(lab, &workload, scheduler, &workload)?;
            for (session, delays) in ["audio", "video"].into_iter().zip(of) {
                delays.push(Delays::from_record(&run, session));
            }
        }
    }
    let [[audio, video], [audio_pfq, video_pfq]] = &all;
    let estimate = |of: &[Delays], value: &dyn Fn(&Delays) -> f64| mean_of("delays", of.iter().map(value));
    let over = |pfq, own| paired(pfq, own, |pfq: &Delays, own| pfq.mean / own.mean).collect::<Vec<f64>>();
    let (audio_gain, video_gain) = (over(audio_pfq, audio), over(video_pfq, video));
    let most = |of: &[Delays]| of.iter().map(|delays| delays.most).fold(0.0, f64::max);
    let gains = [mean_of("audio", audio_gain.iter().copied())?, mean_of("video", video_gain.iter().copied())?];
    let mut rows =
        vec![
            Row::new("audio: mean delay, H-WF2Q+ over H-FSC", Unit::Times, Expected::AtLeast(MUCH), gains[0]),
            Row::new("video: mean delay, H-WF2Q+ over H-FSC", Unit::Times, Expected::AtLeast(MUCH), gains[1])
                .or_weaker(1.0, MUCH, "Lower, and by less than the factor of two that \"much\" is taken for."),
            Row::new(
                "gain of audio over gain of video",
                Unit::Times,
                Expected::AtLeast(SIGNIFICANTLY),
                mean_of("both", paired(&audio_gain, &video_gain, |audio, video| audio / video))?,
            ),
            Row::new(
                "hfsc: longest delay of audio, 5 ms and a packet",
                Unit::Seconds,
                Expected::AtMost(0.005 + PACKET),
                most(audio),
            ),
            Row::new(
                "hfsc: longest delay of video, 10 ms and a packet",
                Unit::Seconds,
                Expected::AtMost(0.010 + PACKET),
                most(video),
            ),
        ];
    for (session, own, pfq) in [("audio", audio, audio_pfq), ("video", video, video_pfq)] {
        rows.push(Row::new(
            format!("{session}: rise of the mean delay when the on-off source is on, H-FSC"),
            Unit::Part,
            Expected::AtMost(0.2),
            estimate(own, &|delays| delays.rise())?,
        ));
        rows.push(Row::new(
            format!("{session}: the same, H-WF2Q+ less H-FSC"),
            Unit::Part,
            Expected::AtLeast(0.05),
            mean_of("delays", paired(pfq, own, |pfq, own| pfq.rise() - own.rise()))?,
        ));
    }
    let mut table = Table::new(
        "Delays in ms, means over the times at which audio and video begin",
        &["scheduler, session", "mean", "on-off source off", "on", "longest"],
    );
    for (scheduler, of) in schedulers.into_iter().zip(&all) {
        for (session, delays) in ["audio", "video"].into_iter().zip(of) {
            let ms = |value: &dyn Fn(&Delays) -> f64| -> Result<String, ClaimError> {
                let Estimate { mean, ci95, .. } = estimate(delays, value)?;
                Ok(format!("{:.2} ±{:.2}", mean * 1e3, ci95.unwrap_or(0.0) * 1e3))
            };
            let head = format!("{scheduler}, {session}");
            let longest = format!("{:.2}", most(delays) * 1e3);
            table.row([head, ms(&|d| d.mean)?, ms(&|d| d.off)?, ms(&|d| d.on)?, longest]);
        }
    }
    let panels = [("audio", 0.005), ("video", 0.010)].map(|(session, target)| {
        let delays: Vec<Vec<(f64, f64)>> = first.iter().map(|run| run.delays(session, 0.0, 12.0)).collect();
        let top = delays.iter().map(|points| largest(points)).fold(target, f64::max) * 1.1e3;
        let mut panel =
            Panel::new(session, Axis::linear("time in s", 0.0, 12.0), Axis::linear("delay in ms", 0.0, top))
                .high(240.0);
        // A point for each packet; of audio, the longest of each tenth of a second.
        for (place, (name, points)) in ["H-FSC", "H-WF2Q+"].into_iter().zip(delays).enumerate() {
            let mut windows = std::collections::BTreeMap::<u64, f64>::new();
            for (at, delay) in points {
                let longest = windows.entry((at * 10.0) as u64).or_insert(0.0);
                *longest = longest.max(delay);
            }
            let points =
                windows.into_iter().map(|(window, delay)| ((window as f64 + 0.5) / 10.0, delay * 1e3)).collect();
            panel.series.push(Series::line(name, points, SeriesStyle::nth(place).without_marker()));
        }
        let line = vec![(0.0, target * 1e3), (12.0, target * 1e3)];
        panel.series.push(Series::line("asked for", line, SeriesStyle::reference()));
        panel.borders = ON.iter().flat_map(|&(from, to)| [from, to]).filter(|&at| at < 12.0).collect();
        panel
    });
    let note = format!(
        "Figure 10 is missing from the text; its prose gives audio, video and FTP, and that the on-off source has 18 % of the link and 40 % of class A. \
         A 4.5 Mbit/s {{audio 64 k, video 2 M, on-off 1.8 M, another 636 k}}, B 5.5 Mbit/s {{FTP 5 M, another 500 k}} fit it. The on-off source \
         always has packets for two seconds, then none for two. The two others send at their rates. When audio and video begin is not given either: \
         {phases} runs, whose sources begin at random instants of their periods, which the text does not give. The figure shows the longest delay in each tenth of a second, of the \
         scenario as it is. KB is 1024 B."
    );
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Figure 11: delays of audio and video", panels.into()))
        .with_table(table)
        .with_rerun(as_shipped.rerun("--scheduler hfsc --scheduler hpfq")))
}
