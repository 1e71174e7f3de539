//! Sentences on MPEG pictures: what I frames are of the bytes, and how many rounds one needs.

use fairlink_config::Scenario;
use fairlink_sim::Options;
use fairlink_traffic::Source;

use super::flows::{NEW, OLD, at};
use super::load;
use super::video;
use crate::claims::laboratory::{estimate, mean_of};
use crate::claims::words::{ABOUT, VERY};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Value, Workload};

const MPEG: &str = include_str!("../../../../../scenarios/thesis/mpeg.toml");
/// Shortest I frame, in bytes. A P frame is as long once in more than a thousand.
const SHORTEST_I: u64 = 15_000;
/// Longest I frame, in bytes.
const LONGEST_I: u32 = 17_000;

/// Tests what part of the video I frames are.
pub(super) fn frames(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let scenario: Scenario = Workload::new("mpeg.toml", MPEG).read("drr++")?;
    let spec = scenario.sources.first().ok_or_else(|| ClaimError::other("no source"))?;
    let (mut bytes, mut count) = (Vec::new(), Vec::new());
    for run in 0..lab.by_effort(20, 200) {
        lab.go_on()?;
        let source = Source::new(spec, scenario.seed + run, 0, scenario.duration).map_err(ClaimError::other)?;
        let mut sums = [[0u64; 2]; 2];
        // The packets of a picture come at once.
        let packets: Vec<_> = source.collect();
        for picture in packets.chunk_by(|one, other| one.at == other.at) {
            let len: u64 = picture.iter().map(|packet| u64::from(packet.len)).sum();
            let long = usize::from(len >= SHORTEST_I);
            sums[long][0] += len;
            sums[long][1] += 1;
        }
        let part = |of: usize| sums[1][of] as f64 / (sums[0][of] + sums[1][of]) as f64;
        bytes.push(part(0));
        count.push(part(1));
    }
    // 3 I frames of 16000 B, 9 P frames of 2100 B and 18 B frames of 550 B a second.
    let lengths = 3.0 * 16_000.0 / (3.0 * 16_000.0 + 9.0 * 2_100.0 + 18.0 * 550.0);
    let rows = vec![
        Row::new("I frames: part of the bytes", Unit::Part, Expected::Near(0.5, ABOUT), mean_of("bytes", bytes)?).departing(
            0.98 * lengths,
            1.02 * lengths,
            "The text's own lengths and numbers of frames make it 62.5 %: 3 of 16000 B, 9 of 2100 B and 18 of 550 B a second.",
        ),
        Row::new("I frames: part of the frames", Unit::Part, Expected::Near(0.1, 0.02), mean_of("frames", count)?),
    ];
    let note = "The video of Section 5.2. A picture of 15000 B and more counts as an I frame.";
    Ok(Finding::new(note, rows))
}

/// The longest I frame now and then beside best-effort flows that always have packets, with this quantum.
fn longest_frames(quantum: u32) -> Workload {
    let mut text = format!(
        "duration = \"20s\"\n\n[link]\nrate = \"10mbit\"\nscheduler = \"drr++\"\nmtu = \"17000B\"\n\n\
         [[class]]\nname = \"lc\"\nquantum = \"{quantum}B\"\nlatency_critical = true\n\n\
         [[source]]\nclass = \"lc\"\nmodel = \"cbr\"\npackets_per_second = 4\npacket = \"{LONGEST_I}B\"\nactive = \"0s..19s\"\n"
    );
    for n in 1..=3 {
        text += &format!(
            "\n[[class]]\nname = \"be{n}\"\nquantum = \"2000B\"\n\n\
             [[source]]\nclass = \"be{n}\"\nmodel = \"greedy\"\npacket = \"1000B\"\n"
        );
    }
    Workload::new("longest-frames.toml", text).in_any_phase()
}

/// Measures how many visits the longest I frame needs.
pub(super) fn rounds(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let mut table = Table::new("Visits for an I frame of 17000 B by the quantum", &["quantum in B", "visits"]);
    let runs = lab.by_effort(5, 20);
    let visits = |quantum: u32| -> Result<Value, ClaimError> {
        let runs = lab.play(&longest_frames(quantum), &["drr++"], runs, &Options::default())?;
        let of_run = |run: &fairlink_sim::Run| {
            let class = run.classes.iter().find(|class| class.name == "lc")?;
            Some(*class.counters.get("services")? as f64 / class.counts().sent.packets as f64)
        };
        Ok(estimate("services", &*runs, of_run)?.into())
    };
    for quantum in (3000..=27_000).step_by(3000) {
        table.row([quantum.to_string(), format!("{:.2}", visits(quantum)?.mean)]);
    }
    let rows = vec![
        Row::new("9000 B: visits for the longest I frame", Unit::Count, Expected::AtMost(2.0), visits(9000)?),
        Row::new("6000 B: the same, more", Unit::Count, Expected::AtLeast(3.0), visits(6000)?),
        Row::new(
            "6000 B as a part of the longest frame",
            Unit::Part,
            Expected::Near(0.35, 0.02),
            6000.0 / f64::from(LONGEST_I),
        )
        .judging(
            "Although the MPEG LC flow has a large delay in DRR++ when Q_LC is less than 6000 bytes, this value is only about 35% of the maximum packet length of 17000 bytes, which is the maximum packet size of the MPEG traffic.",
        ),
    ];
    let note = format!(
        "Four frames a second on 10 Mbit/s beside three best-effort flows that always have packets, {runs} runs: LCService over the frames that were sent. The modified form visits the flow before each best-effort flow, so that a round has several visits. drrpp.fig513 measures the delay."
    );
    Ok(Finding::new(note, rows).with_table(table).with_rerun(longest_frames(9000).rerun("--json")))
}

/// Tests the factor of the conclusion.
pub(super) fn orders(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let exponential = load::points(lab)?;
    let ratio = |points: &[super::flows::Point], x: f64| -> Result<Value, ClaimError> {
        let ratio = super::flows::jackknife(points, |points| {
            let point = at(points, x)?;
            Ok(point.delay(OLD, "lc")?.mean / point.delay(NEW, "lc")?.mean)
        })?;
        Ok(ratio.into())
    };
    let row = |what: &str, value: Value| {
        Row::new(what, Unit::Times, Expected::AtLeast(VERY * VERY), value).or_weaker(
            1.0,
            VERY * VERY,
            "DRR++ has the lower delay, and by less than a factor of a hundred: how long a demoted flow waits under DRR+ depends on the contract's period and on how close to saturation the link is, \
             which the text does not give (drrpp.fig56).",
        )
    };
    let rows = vec![
        row("exponential traffic at 20 packets/s: DRR+ over DRR++", ratio(&exponential, 20.0)?),
        row("video on 795 kbit/s at 30 packets/s: DRR+ over DRR++", ratio(&video::measured_by_load(lab)?, 30.0)?),
    ];
    let note = "The runs of Figures 5.1 and 5.2, and of 5.10 and 5.11 at the rate that fits the text's own numbers, each at its highest load. Two orders of magnitude are a factor of 100.";
    Ok(Finding::new(note, rows))
}
