//! Four kinds of sources with delays of their own: Figures 4 and 5.

use fairlink_report::ClassReport;
use fairlink_sim::Run;

use super::delays::{BOXES, box_of};
use super::losses::VOICE;
use super::sources::{CELL, Compared, Sources, VIDEO, data_rate, max_delay, mean_delay, of_kind, p99};
use crate::claims::words::{DRAMATICALLY, VERY};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Value, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel};
use fairlink_figures::human;

/// Sources of each kind.
const EACH: u32 = 8;
/// The link in bit/s. On the one of Figure 3 the guarantees of this mixture, twice the mean of video and a 32nd of the link for voice, would be 118 % of it.
const MIXED_LINK: f64 = 80e6;
/// A CBR source's rate, as a part of the link: as voice has. The text does not say.
const CBR: f64 = 1.0 / 32.0;
/// The guarantee of data as a part of its mean rate. The text has "below".
const DATA_GUARANTEE: f64 = 0.75;
/// Buffers in packets, as the text has them.
const BUFFERS: Buffers = Buffers { voice: 1200, video: 12_000, cbr: 5, data: 40_000 };
/// Kinds as the figures have them, from above.
const KINDS: [&str; 4] = ["voice", "video", "CBR", "data"];
const SCHEDULERS: [&str; 2] = ["wfq", "fq-lto"];
const NAMES: [&str; 2] = ["PGPS", "FQ-LTO"];
/// In Figure 5 guarantees of a kind go from this part of those of Figure 4 to two less this part.
const LEAST_GUARANTEE: f64 = 0.5;
/// In Figure 5, D_i of voice, video and CBR, in ms: below the time in which a full buffer is sent at the guarantee. The text has no numbers.
const TARGETS: [f64; 3] = [10.0, 50.0, 0.5];

#[derive(Clone, Copy)]
struct Buffers {
    voice: u32,
    video: u32,
    cbr: u32,
    data: u32,
}

/// The configuration of a mixture.
#[derive(Clone, Copy)]
struct Mixture {
    link: f64,
    data: f64,
    buffers: Buffers,
    /// Guarantees of a kind differ, and D_i is set.
    unequal: bool,
}

const FIGURE_4: Mixture = Mixture { link: MIXED_LINK, data: DATA_GUARANTEE, buffers: BUFFERS, unequal: false };

impl Mixture {
    /// Guarantees of voice, video, CBR and data in bit/s.
    fn guarantees(&self) -> [f64; 4] {
        [self.link / 32.0, 2.0 * VIDEO, CBR * self.link, self.data * data_rate(self.link)]
    }

    /// Returns all guarantees and all mean rates, as parts of the link.
    fn sums(&self) -> (f64, f64) {
        let guarantees = self.guarantees().iter().sum::<f64>();
        let means = self.link / 32.0 + VIDEO + CBR * self.link + data_rate(self.link);
        (f64::from(EACH) * guarantees / self.link, f64::from(EACH) * means / self.link)
    }

    fn workload(&self, name: &str, seconds: f64) -> Workload {
        let mut sources = Sources::new("8 sources each of voice, video, CBR and data", self.link, CELL, seconds);
        let Buffers { voice, video, cbr, data } = self.buffers;
        for (kind, (guarantee, buffer)) in self.guarantees().into_iter().zip([voice, video, cbr, data]).enumerate() {
            for n in 0..EACH {
                let spread = if self.unequal {
                    LEAST_GUARANTEE + (2.0 - 2.0 * LEAST_GUARANTEE) * f64::from(n) / f64::from(EACH - 1)
                } else {
                    1.0
                };
                let mut keys = format!("guarantee = \"{:.0}bit\"\nbuffer = \"{buffer}p\"", guarantee * spread);
                if let Some(target) = TARGETS.get(kind).filter(|_| self.unequal) {
                    keys += &format!("\nmax_delay = \"{:.0}us\"", target * 1e3);
                }
                let name = format!("{} {n}", KINDS[kind]);
                match kind {
                    0 => sources.voice(&name, &keys, self.link / 32.0, VOICE),
                    1 => sources.video(&name, &keys),
                    2 => sources.cbr(&name, &keys, CBR * self.link),
                    _ => sources.data(&name, &keys),
                }
            }
        }
        sources.workload(name)
    }
}

/// Returns the largest of this quantity of the connections of a kind, in seconds.
fn largest(run: &Run, kind: &str, of: OfClass) -> Option<f64> {
    of_kind(run, kind).filter_map(of).reduce(f64::max)
}

type OfClass = fn(&ClassReport) -> Option<f64>;

/// Draws a panel for each kind and quantity, with a box for FQ-LTO and one for PGPS.
fn boxes(title: &str, played: &Compared, right: (&str, OfClass)) -> Figure {
    let mut panels = Vec::new();
    for kind in KINDS {
        for (what, of) in [("mean delay", (|class| class.delay().mean) as OfClass), right] {
            let mut spreads = Vec::new();
            for (place, n) in [(0, 1), (1, 0)] {
                let values = played.of(n).flat_map(|run| of_kind(run, kind)).filter_map(of).collect();
                spreads.extend(
                    box_of(NAMES[n], place, n, values)
                        .map(|spread| fairlink_figures::figure::BoxPlot { x: place as f64 + 0.5, ..spread }),
                );
            }
            let top = spreads.iter().map(|spread| spread.max).fold(1e-3, f64::max) * 1.05;
            let names = vec![NAMES[1].to_owned(), NAMES[0].to_owned()];
            let mut panel = Panel::new(
                format!("{kind}: {what} of a connection"),
                Axis::names("", names),
                Axis::linear("delay in ms", 0.0, top),
            )
            .high(130.0);
            panel.spreads = spreads;
            panels.push(panel);
        }
    }
    let mut figure = Figure::new(title, panels);
    figure.notes.push(BOXES.to_owned());
    figure
}

/// Delays of each kind by a quantity of classes, and the losses of CBR and of the others.
fn delays(title: &str, played: &Compared) -> Result<Table, ClaimError> {
    let mut table = Table::new(
        title,
        &["kind", "mean: PGPS", "FQ-LTO", "99th: PGPS", "FQ-LTO", "longest: PGPS", "FQ-LTO", "lost: PGPS", "FQ-LTO"],
    );
    for kind in KINDS {
        let mut cells = vec![kind.to_owned()];
        for value in [mean_delay, p99, max_delay] {
            for n in 0..2 {
                cells.push(human::time(played.mean(n, |run| value(run, kind))?.mean));
            }
        }
        for n in 0..2 {
            let lost = |run: &Run| {
                let sum = |of: fn(&ClassReport) -> u64| of_kind(run, kind).map(of).sum::<u64>() as f64;
                Some(
                    sum(|class| class.counts().dropped.packets) / sum(|class| class.counts().received.packets).max(1.0),
                )
            };
            cells.push(format!("{:.1e}", played.mean(n, lost)?.mean));
        }
        table.row(cells);
    }
    Ok(table)
}

/// Rows on which the kinds are judged by this quantity: real-time kinds gain at least so many times, data pays.
fn orderings(
    what: &str,
    played: &Compared,
    gain: f64,
    value: fn(&Run, &str) -> Option<f64>,
) -> Result<Vec<Row>, ClaimError> {
    let row = |kind: &str, over: &str, sign: f64, least: f64| -> Result<Row, ClaimError> {
        // A run with one long burst would outweigh all others: ratios are averaged as logarithms.
        let ratio = played.gain(|run| value(run, kind).map(|seconds| sign * seconds.ln()))?;
        let what = format!("{kind}, {what}: {over}, geometric mean of the runs");
        Ok(Row::new(what, Unit::Times, Expected::AtLeast(least), Value::from(ratio).map(f64::exp)).or_weaker(
            1.0,
            least,
            "Lower, and by less than the factor that \"very\" is taken for.",
        ))
    };
    let mut rows = Vec::new();
    for kind in &KINDS[..3] {
        rows.push(row(kind, "PGPS over FQ-LTO", 1.0, gain)?);
    }
    rows.push(row(KINDS[3], "FQ-LTO over PGPS", -1.0, 1.0)?);
    Ok(rows)
}

fn said(mixture: &Mixture) -> String {
    let (guarantees, means) = mixture.sums();
    format!(
        "A link of {:.0} Mbit/s: on that of Figure 3 the guarantees of this mixture would not fit. Voice has a 32nd of the link each, video 1.5 Mbit/s and twice that guaranteed, CBR a 32nd as \
         well (two packets at a time), data Pareto on times of 6 and off times of 200 packet times at the link's rate and {} of its mean guaranteed. Mean rates add up to {:.2} of the \
         link, guarantees to {:.2}. Packets are cells of {CELL} B.",
        mixture.link / 1e6,
        mixture.data,
        means,
        guarantees
    )
}

/// Tests Figure 4.
pub(super) fn fig4(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (seeds, seconds) = lab.by_effort((8, 2.0), (20, 40.0));
    let workload = FIGURE_4.workload("fig4.toml", seconds);
    let played = Compared::play(lab, &workload, &SCHEDULERS, seeds)?;
    let mut rows = orderings("mean delay", &played, 1.0, mean_delay)?;
    for kind in ["voice", "CBR"] {
        // A playout buffer holds what comes between the shortest and the latest delay that it waits for.
        let buffer = |run: &Run| p99(run, kind).map(f64::ln);
        rows.push(
            Row::new(
                format!("{kind}, playout buffer for 99 % of the packets: PGPS over FQ-LTO, geometric mean of the runs"),
                Unit::Times,
                Expected::AtLeast(DRAMATICALLY),
                Value::from(played.gain(buffer)?).map(f64::exp),
            )
            .judging("The lower delay classes have very small tails and hence need drastically lower playout buffers than when using PGPS.")
            .or_weaker(1.0, DRAMATICALLY, "Lower, and by less than the factor of four that \"drastically\" is taken for."),
        );
        rows.push(Row::new(
            format!("{kind}, 99th percentile of the worst connection: FQ-LTO over PGPS"),
            Unit::Part,
            Expected::AtMost(1.0),
            played.ratio(|run| largest(run, kind, |class| class.delay().p99))?,
        ));
    }
    let drained = f64::from(BUFFERS.video * CELL) * 8.0 / (2.0 * VIDEO);
    let video = played.mean(1, |run| largest(run, "video", |class| class.delay().p99))?;
    rows.push(Row::new(
        "video, 99th percentile of the worst connection under FQ-LTO, as a part of its D_i",
        Unit::Part,
        Expected::AtMost(0.01),
        Value::from(video).map(|delay| delay / drained),
    ));
    rows.push(Row::shown(
        "data, 99th percentile, mean of the connections: FQ-LTO over PGPS",
        Unit::Part,
        played.ratio(|run| p99(run, "data"))?,
    ));
    let sensitivity = other_mixtures(lab)?;
    let drain = f64::from(BUFFERS.voice * CELL) * 8.0 / (FIGURE_4.link / 32.0) * 1e3;
    let note = format!(
        "{} Buffers are as in the text: 1200, 12000, 5 and 40000 packets. The text says that 1200 packets of voice are about 10 ms at its guarantee; here they are {drain:.0} ms, and no packet length, \
         link and guarantee of the text give 10 ms: the table has voice with a buffer of 10 ms as well. D_i is the time in which the guarantee empties the full buffer. Video, which is guaranteed twice its mean, hardly waits under either scheduler, and is judged by its D_i. The tail of data is that of a few long bursts, so that its mean is judged. {seeds} runs of {seconds} s on \
         the same arrivals.",
        said(&FIGURE_4)
    );
    let figure = boxes(
        "Figure 4: delays of voice, video, CBR and data",
        &played,
        ("99th percentile", |class| class.delay().p99),
    );
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(delays("Delays, mean of the connections and runs", &played)?)
        .with_table(sensitivity)
        .with_rerun(workload.rerun("--scheduler pgps --scheduler fq-lto --runs 4")))
}

/// Other choices where the text is open.
fn other_mixtures(lab: &Lab<'_>) -> Result<Table, ClaimError> {
    let (seeds, seconds) = lab.by_effort((2, 1.5), (5, 20.0));
    let ten_ms = (0.010 * FIGURE_4.link / 32.0 / f64::from(CELL) / 8.0) as u32;
    let mut table = Table::new(
        "By what the text leaves open: 99th percentile of the delay under PGPS / under FQ-LTO",
        &["", "voice", "video", "CBR", "data"],
    );
    for (words, mixture) in [
        ("as above".to_owned(), FIGURE_4),
        (
            format!("voice buffer of 10 ms ({ten_ms} packets)"),
            Mixture { buffers: Buffers { voice: ten_ms, ..BUFFERS }, ..FIGURE_4 },
        ),
        ("link of 76 Mbit/s".to_owned(), Mixture { link: 76e6, ..FIGURE_4 }),
        ("link of 120 Mbit/s".to_owned(), Mixture { link: 120e6, ..FIGURE_4 }),
        ("data guaranteed half of its mean".to_owned(), Mixture { data: 0.5, ..FIGURE_4 }),
    ] {
        let played = Compared::play(lab, &mixture.workload("fig4.toml", seconds), &SCHEDULERS, seeds)?;
        let mut cells = vec![words];
        for kind in KINDS {
            let [pgps, lto] = [played.mean(0, |run| p99(run, kind))?.mean, played.mean(1, |run| p99(run, kind))?.mean];
            cells.push(format!("{} / {}", human::time(pgps), human::time(lto)));
        }
        table.row(cells);
    }
    Ok(table)
}

/// Tests Figure 5.
pub(super) fn fig5(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (seeds, seconds) = lab.by_effort((8, 2.0), (20, 40.0));
    let mixture = Mixture { unequal: true, ..FIGURE_4 };
    let workload = mixture.workload("fig5.toml", seconds);
    let played = Compared::play(lab, &workload, &SCHEDULERS, seeds)?;
    let equal = Compared::play(lab, &FIGURE_4.workload("fig4.toml", seconds), &SCHEDULERS, seeds)?;
    let mut rows = orderings("mean delay", &played, VERY, mean_delay)?;
    // Ratio of the mean delays of voice under PGPS and here.
    let voice = |run: &Run| mean_delay(run, KINDS[0]);
    let times = |played: &Compared| Ok::<_, ClaimError>(played.mean(0, voice)?.mean / played.mean(1, voice)?.mean);
    rows.push(Row::new(
        "voice: mean delay under PGPS over FQ-LTO, over the same with equal guarantees (Figure 4)",
        Unit::Times,
        Expected::AtLeast(1.0),
        played.estimate(|runs| Ok(times(runs)? / times(&equal.without(runs))?))?,
    ));
    for kind in ["voice", "CBR"] {
        rows.push(Row::new(
            format!("{kind}: longest delay, FQ-LTO over PGPS"),
            Unit::Part,
            Expected::AtMost(1.0),
            played.ratio(|run| max_delay(run, kind))?,
        ));
    }
    let video = played.mean(1, |run| largest(run, "video", |class| class.delay().max))?;
    rows.push(Row::new(
        "video: longest delay of the worst connection under FQ-LTO, as a part of its D_i",
        Unit::Part,
        Expected::AtMost(1.0),
        Value::from(video).map(|delay| delay / (TARGETS[1] / 1e3)),
    ));
    let note = format!(
        "{} Within a kind, guarantees go from {LEAST_GUARANTEE} to {} of those of Figure 4, and the sources stay as they are. D_i is {} ms for voice, {} ms for video and {} ms for CBR, below what their buffers \
         take at the guarantee; data keeps the time of its buffer. The text has numbers of neither. {seeds} runs of {seconds} s on the same arrivals.",
        said(&mixture),
        2.0 - LEAST_GUARANTEE,
        TARGETS[0],
        TARGETS[1],
        TARGETS[2]
    );
    let figure =
        boxes("Figure 5: unequal guarantees within a kind", &played, ("longest delay", |class| class.delay().max));
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(delays("Delays, mean of the connections and runs", &played)?)
        .with_rerun(workload.rerun("--scheduler pgps --scheduler fq-lto --runs 4")))
}
