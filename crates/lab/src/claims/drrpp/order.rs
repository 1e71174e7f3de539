//! Chapters 2 and 3: the order in which packets leave. Table 3.5, Figure 2.1, hierarchical round robin.

use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::{ClassId, Nanos};
use fairlink_sim::{Fate, Observer, Options, PacketSeen};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::claims::finding::Rerun;
use crate::claims::laboratory::{estimate, mean_delay};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};
use fairlink_figures::human;

/// A packet that left: its class as the file numbers them from 1, and when its first bit left.
#[derive(Clone, Copy)]
struct Left {
    class: u32,
    start: Nanos,
}

#[derive(Default)]
struct Recorder(Arc<Mutex<Vec<Left>>>);

impl Observer for Recorder {
    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        if let Fate::Sent { start, .. } = fate {
            let ClassId(class) = packet.class;
            let left = Left { class, start };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(left);
        }
    }
}

/// Returns all packets of one run in the order in which they left.
fn record(lab: &Lab<'_>, workload: &Workload, scheduler: &str) -> Result<Vec<Left>, ClaimError> {
    let all = Arc::new(Mutex::new(Vec::new()));
    let observer = || -> Box<dyn Observer> { Box::new(Recorder(Arc::clone(&all))) };
    lab.watched(workload, &[scheduler], 1, &Options::default(), Some(&observer))?;
    let mut sent = all.lock().unwrap_or_else(PoisonError::into_inner).clone();
    sent.sort_by_key(|left| left.start);
    Ok(sent)
}

fn alone(workload: &Workload, arguments: &str) -> Rerun {
    workload.rerun(arguments)
}

/// Table 3.5's situation: `n` best-effort classes and a latency-critical one, all backlogged with packets of one
/// length, of which each quantum covers a whole number.
#[derive(Clone, Copy)]
struct Case {
    n: u32,
    len: u32,
    critical: u32,
    best_effort: u32,
}

impl Case {
    const ROUNDS: u32 = 4;

    fn random(random: &mut ChaCha8Rng) -> Self {
        let len = random.random_range(40..=1500);
        Self {
            n: random.random_range(1..=8),
            len,
            critical: random.random_range(1..=6),
            best_effort: random.random_range(1..=6),
        }
    }

    fn workload(self) -> Workload {
        let Self { n, len, critical, best_effort } = self;
        let mut text = format!(
            "# Table 3.5: all flows are backlogged from the start.\nduration = \"1s\"\n\n[link]\nrate = \"100mbit\"\nscheduler = \"drr++\"\nmtu = \"{len}B\"\n"
        );
        let class = |name: &str, quantum: u32, more: &str, packets: u32| {
            format!(
                "\n[[class]]\nname = \"{name}\"\nquantum = \"{}B\"\n{more}\n[[source]]\nclass = \"{name}\"\nmodel = \"cbr\"\n\
                 packets_per_second = {packets}\nburst = \"{packets}p\"\npacket = \"{len}B\"\n",
                quantum * len
            )
        };
        // The best-effort classes come first, so that a round knows their number. One packet more than the rounds take
        // keeps all classes backlogged to their end.
        let mut classes: Vec<String> = (1..=n)
            .map(|class_n| class(&format!("be{class_n}"), best_effort, "", best_effort * Self::ROUNDS + 1))
            .collect();
        classes.push(class("lc", critical, "latency_critical = true\n", critical * n * Self::ROUNDS + 1));
        text.extend(classes);
        Workload::new("table35.toml", text)
    }

    /// Runs the steps of Table 3.5: packets by class, the latency-critical one last. `whole` credits n Q_LC at once.
    fn steps(self, whole: bool) -> Vec<u32> {
        let lc = self.n + 1;
        let mut sent = Vec::new();
        for _ in 0..Self::ROUNDS {
            let mut credit = if whole { self.n * self.critical } else { 0 };
            for be in 1..=self.n {
                if !whole {
                    credit += self.critical;
                }
                sent.extend((0..std::mem::take(&mut credit)).map(|_| lc));
                sent.extend((0..self.best_effort).map(|_| be));
            }
        }
        sent
    }

    /// Packets at other places than in Table 3.5.
    fn differences(self, lab: &Lab<'_>, scheduler: &str, whole: bool) -> Result<usize, ClaimError> {
        let sent: Vec<u32> = record(lab, &self.workload(), scheduler)?.iter().map(|left| left.class).collect();
        let expected = self.steps(whole);
        let wrong = sent.iter().zip(&expected).filter(|(sent, expected)| sent != expected).count();
        Ok(wrong + expected.len().saturating_sub(sent.len()))
    }
}

/// Tests Table 3.5.
pub(super) fn table35(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let text = Case { n: 3, len: 100, critical: 2, best_effort: 2 };
    let cases = lab.by_effort(300, 3000);
    let mut random = ChaCha8Rng::seed_from_u64(35);
    let mut wrong = [0; 2];
    for _ in 0..cases {
        lab.go_on()?;
        let case = Case::random(&mut random);
        wrong[0] += usize::from(case.differences(lab, "drr++", false)? > 0);
        wrong[1] += usize::from(case.differences(lab, "drr++-mw00", true)? > 0);
    }
    let count = format!("{cases} random cases");
    let rows = vec![
        Row::never(
            "n = 3: modified DRR++, packets at another place than in Table 3.5",
            text.differences(lab, "drr++", false)?,
        ),
        Row::never(
            "n = 3: DRR++ of MW00, packets at another place than in Table 3.5",
            text.differences(lab, "drr++-mw00", true)?,
        ),
        Row::never(format!("modified DRR++: {count} of 1 to 8 flows with another sequence"), wrong[0]),
        Row::never(format!("DRR++ of MW00: {count} of 1 to 8 flows with another sequence"), wrong[1]),
        Row::new(
            "n = 3: longest time between two visits of the latency-critical flow, MW00 over modified, in best-effort visits",
            Unit::Times,
            Expected::Within(3.0, 0.0),
            longest_gap(lab, text, "drr++-mw00")? / longest_gap(lab, text, "drr++")?,
        ).judging("The service intervals for LC packets under the modified DRR++ are much more evenly distributed than those under the DRR++ in [MW00]."),
    ];
    let mut table = Table::new(
        "n = 3, two packets a quantum: who sends (L is the latency-critical flow), the second round",
        &["packets 13 to 24", ""],
    );
    let name = |class: u32| if class == text.n + 1 { "L".to_owned() } else { class.to_string() };
    let mut lines = Vec::new();
    for (n, (scheduler, words)) in [("drr++", "modified"), ("drr++-mw00", "MW00")].into_iter().enumerate() {
        let sent = record(lab, &text.workload(), scheduler)?;
        let second: Vec<u32> = sent.iter().skip(12).take(12).map(|left| left.class).collect();
        table.row([words.to_owned(), second.iter().map(|&class| name(class)).collect::<Vec<_>>().join(" ")]);
        let shown: Vec<(f64, f64)> =
            second.iter().enumerate().map(|(at, &class)| (at as f64 + 13.0, f64::from(class) - 0.5)).collect();
        lines.push(Series::steps(format!("{words} DRR++"), shown, SeriesStyle::nth(n)));
    }
    let who = Axis::names("who sends", ["be1", "be2", "be3", "lc"].map(str::to_owned).to_vec());
    let mut panel = Panel::new("", Axis::linear("packet", 13.0, 24.0), who).high(240.0);
    panel.series = lines;
    let note = "The steps of Table 3.5 are executed as written and compared, packet by packet, with what leaves a simulated link in four rounds. All flows \
                are backlogged with packets of one length, of which quanta hold a whole number.";
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Table 3.5: execution sequences with three best-effort flows", vec![panel]))
        .with_table(table)
        .with_rerun(alone(&text.workload(), "--scheduler drr++ --scheduler drr++-mw00 --trace order.csv")))
}

/// Returns the most packets of best-effort flows between two of the latency-critical one, after the first round.
fn longest_gap(lab: &Lab<'_>, case: Case, scheduler: &str) -> Result<f64, ClaimError> {
    let sent = record(lab, &case.workload(), scheduler)?;
    let round = (case.n * (case.critical + case.best_effort)) as usize;
    let (mut gap, mut longest) = (0u32, 0u32);
    for left in sent.iter().skip(round).take(2 * round) {
        gap = if left.class == case.n + 1 { 0 } else { gap + 1 };
        longest = longest.max(gap);
    }
    Ok(f64::from(longest))
}

/// Makes Figure 2.1: a packet of 1000 B takes a millisecond, which is the second of the text.
fn figure_21(other: &str) -> Workload {
    Workload::new(
        "fig21.toml",
        format!(
            "# Figure 2.1 of the DRR++ thesis: two connections of half of the link each; a millisecond is the text's second.\n\
             duration = \"2s\"\n\n[link]\nrate = \"8mbit\"\nscheduler = \"virtual-clock\"\nmtu = \"1000B\"\n\n\
             [[class]]\nname = \"one\"\nguarantee = \"4mbit\"\n\n[[class]]\nname = \"two\"\nguarantee = \"4mbit\"\n\n\
             # Twice its rate for 900 packets, while it is alone.\n\
             [[source]]\nclass = \"one\"\nmodel = \"cbr\"\npackets_per_second = 1000\npacket = \"1000B\"\nactive = [\"0ms..900ms\"]\n\n\
             [[source]]\nclass = \"two\"\nmodel = \"cbr\"\npackets_per_second = 500\n{other}packet = \"1000B\"\nactive = [\"901ms..1900ms\"]\n\n\
             [[source]]\nclass = \"one\"\nmodel = \"cbr\"\npackets_per_second = 500\npacket = \"1000B\"\nactive = [\"901ms..1900ms\"]\n"
        ),
    )
}

/// Returns the number of packets of connection 2 that leave before packet 901 of connection 1, and the number of times
/// that one connection sends twice in a row from then until `until`.
fn after_900(lab: &Lab<'_>, workload: &Workload, scheduler: &str) -> Result<(usize, usize), ClaimError> {
    let sent = record(lab, workload, scheduler)?;
    let later: Vec<u32> = sent.iter().skip(900).map(|left| left.class).collect();
    let before = later.iter().take_while(|&&class| class == 2).count();
    let twice = later.iter().take(100).zip(later.iter().skip(1)).filter(|(one, next)| one == next).count();
    Ok((before, twice))
}

const SAME_ORDER: &str =
    "So we can get the service order shown in Figure 2.1. We also find that WFQ has the same order as SCFQ.";

/// Figure 2.1: Virtual Clock punishes a flow that used an idle link.
pub(super) fn vc(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let all = figure_21("burst = \"500p\"\n");
    let at_rate = figure_21("");
    let (waits, _) = after_900(lab, &all, "virtual-clock")?;
    let (printed, _) = after_900(lab, &at_rate, "virtual-clock")?;
    let (scfq, scfq_twice) = after_900(lab, &all, "scfq")?;
    let (wfq, wfq_twice) = after_900(lab, &all, "wfq")?;
    let rows = vec![
        Row::new("Virtual Clock: packets of connection 2 before packet 901 of connection 1, all of them there", Unit::Packets, Expected::Within(450.0, 0.0), waits as f64),
        Row::new("Virtual Clock: the same, coming at the text's 0.5 packets/s", Unit::Packets, Expected::Within(450.0, 0.0), printed as f64).departing(
            1.0,
            1.0,
            "At the rate that the text gives connection 2 every second slot is free, and a work-conserving Virtual Clock sends packet 901 in the first \
             of them. The 450 packets are before it if they are there.",
        ),
        Row::new("SCFQ: packets of connection 2 before packet 901", Unit::Packets, Expected::AtMost(1.0), scfq as f64).judging(SAME_ORDER),
        Row::new("WFQ: packets of connection 2 before packet 901", Unit::Packets, Expected::AtMost(1.0), wfq as f64).judging(SAME_ORDER),
        Row::never("SCFQ: a connection sends twice in a row, of 100 packets", scfq_twice).judging(SAME_ORDER),
        Row::never("WFQ: a connection sends twice in a row, of 100 packets", wfq_twice).judging(SAME_ORDER),
    ];
    let mut panel = Panel::new(
        "",
        Axis::linear("slot (time of a packet)", 895.0, 925.0),
        Axis::names("who sends", vec!["one".to_owned(), "two".to_owned()]),
    )
    .high(200.0);
    for (n, scheduler) in ["virtual-clock", "scfq", "wfq"].into_iter().enumerate() {
        let sent = record(lab, &all, scheduler)?;
        let shown: Vec<(f64, f64)> = sent
            .iter()
            .map(|left| (left.start.0 as f64 / 1e6, f64::from(left.class) - 0.5 + 0.08 * (n as f64 - 1.0)))
            .filter(|(at, _)| (895.0..=925.0).contains(at))
            .collect();
        panel.series.push(Series::points(scheduler, shown, SeriesStyle::nth(n)));
    }
    let note = "Two connections with half of the link each; a packet takes one slot. The first sends a packet in each of 900 slots, alone, and from slot 901 \
                on both send at their own rate. Packet 901 of connection 1 comes together with the first of connection 2.";
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Figure 2.1: service order of Virtual Clock, SCFQ and WFQ", vec![panel]))
        .with_rerun(alone(&all, "--scheduler virtual-clock --scheduler scfq --scheduler wfq --trace order.csv")))
}

/// Offered load of the others, as a part of the link, in percent.
const OTHERS: [u32; 6] = [0, 25, 50, 75, 100, 150];
/// The topmost frame of `hrr`: 64 packets of 1500 B at 100 Mbit/s, in seconds.
const FRAME: f64 = 64.0 * 1500.0 * 8.0 / 100e6;
/// A largest packet.
const SLOT: f64 = FRAME / 64.0;

/// Makes a class with half of the link, which `source` feeds, and two others.
fn hrr_scenario(source: &str, others: u32) -> Workload {
    let mut text = format!(
        "# Hierarchical round robin, Section 2.4.2 of the DRR++ thesis: others offer {others} % of the link.\nduration = \"10s\"\n\n\
         [link]\nrate = \"100mbit\"\nscheduler = \"hrr\"\nmtu = \"1500B\"\n\n[[class]]\nname = \"own\"\nguarantee = \"50mbit\"\n\n\
         [[class]]\nname = \"x\"\nguarantee = \"25mbit\"\n\n[[class]]\nname = \"y\"\nguarantee = \"25mbit\"\n\n\
         [[source]]\nclass = \"own\"\npacket = \"1500B\"\n{source}\n"
    );
    if others > 0 {
        for class in ["x", "y"] {
            text.push_str(&format!(
                "\n[[source]]\nclass = \"{class}\"\nmodel = \"poisson\"\nrate = \"{}kbit\"\npacket = \"1500B\"\n",
                others * 500
            ));
        }
    }
    Workload::new("hrr.toml", text)
}

/// Tests Section 2.4.2: hierarchical round robin keeps a class apart from the load of others.
pub(super) fn hrr(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const SCHEDULERS: [&str; 3] = ["hrr", "drr", "fifo"];
    // Always another packet; and traffic within its slots: at most 31 packets in any frame's time.
    let greedy = "model = \"greedy\"";
    let within = "model = \"poisson\"\nrate = \"48mbit\"\nshape = { rate = \"48437500bit\", every = \"7680us\" }";
    let (mut spacing, mut delays, mut longest) = (vec![Vec::new(); 3], vec![Vec::new(); 3], Vec::new());
    for others in OTHERS {
        for (n, scheduler) in SCHEDULERS.into_iter().enumerate() {
            if scheduler != "fifo" {
                let sent: Vec<Left> = record(lab, &hrr_scenario(greedy, others), scheduler)?
                    .into_iter()
                    .filter(|left| left.class == 1)
                    .collect();
                let count = sent.len().saturating_sub(1).max(1) as f64;
                let all = sent.last().map_or(0, |left| left.start.0) - sent.first().map_or(0, |left| left.start.0);
                spacing[n].push(all as f64 / 1e9 / count);
            }
            let played =
                lab.play(&hrr_scenario(within, others), &[scheduler], lab.by_effort(3, 10), &Options::default())?;
            delays[n].push(estimate("the delay", played.iter(), |run| mean_delay(run, "own"))?);
            if scheduler == "hrr" {
                let most = played.iter().filter_map(|run| run.classes.first()?.delay().max).fold(0.0, f64::max);
                longest.push(most / (2.0 * FRAME + SLOT));
            }
        }
    }
    let spread = |values: &[f64]| {
        let (low, high) =
            values.iter().fold((f64::MAX, 0.0f64), |(low, high), &value| (low.min(value), high.max(value)));
        (low, high)
    };
    let ratio = |values: &[f64]| spread(values).1 / spread(values).0;
    let means = |n: usize| delays[n].iter().map(|estimate| estimate.mean).collect::<Vec<_>>();
    let apart = |n: usize| (spread(&means(n)).1 - spread(&means(n)).0) / FRAME;
    let rows = vec![
        Row::new(
            "HRR: spacing of a backlogged class, the largest of all loads over the least",
            Unit::Times,
            Expected::Near(1.0, 0.01),
            ratio(&spacing[0]),
        ),
        Row::shown("DRR: the same", Unit::Times, ratio(&spacing[1])),
        Row::new(
            "HRR: longest delay at any load, over two frames and a slot",
            Unit::Number,
            Expected::AtMost(1.0),
            longest.iter().copied().fold(0.0, f64::max),
        ),
        Row::new(
            "HRR: mean delay, the largest of all loads less the least, in frames",
            Unit::Number,
            Expected::AtMost(1.0),
            apart(0),
        ),
        Row::new("FIFO: the same", Unit::Number, Expected::AtLeast(1.0), apart(2)),
    ];
    let mut table = Table::new(
        "Mean delay of traffic within its slots, and spacing of a backlogged class",
        &["others offer", "delay HRR", "DRR", "FIFO", "spacing HRR", "DRR"],
    );
    for (at, others) in OTHERS.into_iter().enumerate() {
        let mut row = vec![format!("{others} %")];
        row.extend(delays.iter().map(|of| human::time(of[at].mean)));
        row.extend(spacing[..2].iter().map(|of| human::time(of[at])));
        table.row(row);
    }
    let x = || Axis::linear("what the others offer (% of the link)", 0.0, 150.0);
    let points = |values: &[f64]| OTHERS.into_iter().map(f64::from).zip(values.iter().copied()).collect::<Vec<_>>();
    let mut above = Panel::new(
        "mean delay of traffic within its slots",
        x(),
        Axis::log("mean delay", spread(&means(1)).0, spread(&means(2)).1).of_time(),
    )
    .high(260.0);
    above.series = (0..3).map(|n| Series::line(SCHEDULERS[n], points(&means(n)), SeriesStyle::nth(n))).collect();
    above.series.push(Series::line(
        "two frames and a slot",
        vec![(0.0, 2.0 * FRAME + SLOT), (150.0, 2.0 * FRAME + SLOT)],
        SeriesStyle::reference(),
    ));
    let micros = |n: usize| spacing[n].iter().map(|value| value * 1e6).collect::<Vec<_>>();
    let mut below =
        Panel::new("spacing of packets of a backlogged class", x(), Axis::linear("spacing (us)", 0.0, 300.0))
            .high(200.0);
    below.series = (0..2).map(|n| Series::line(SCHEDULERS[n], points(&micros(n)), SeriesStyle::nth(n))).collect();
    let note = "A class with half of a link of 100 Mbit/s, 32 of 64 slots of 1500 B in a frame of 7.68 ms, beside two others whose load grows from nothing \
                to 150 % of the link. Spacing is that of a class that always has packets; the delay is that of traffic within its slots. The text cites \
                simulations that it does not describe; its independence is read as: the same spacing, and delays within two frames and a slot \
                whatever the others do. One link stands for the path.";
    let rerun = alone(&hrr_scenario(within, 100), "--runs 3 --scheduler hrr --scheduler drr --scheduler fifo");
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Hierarchical round robin: a class and the load of others", vec![above, below]))
        .with_table(table)
        .with_rerun(rerun))
}
