//! The papers' measurements on real systems, repeated on real packets where possible, and the interface to the program
//! that sends them.
//!
//! Rates are scaled to the capability of a small machine with other work, as the report states. The numbers are those
//! of a shared machine: orders and shares are judged, within `TOLERANCE`.

use super::hls::cost::binary;
use super::laboratory::mean_delay;
use super::{Claim, ClaimError, Expected, Lab, Row, Unit, Workload};
use fairlink_core::Hierarchy;
use fairlink_figures::measure::relative;
use fairlink_sim::{Options, Phase};

/// Maximum relative deviation of real rates from the ideal ones.
const TOLERANCE: f64 = 0.05;
/// Spans of the pool's script, in seconds, and tolerances of its rates, as in the simulation.
const EARLY: (f64, f64) = (2.6, 3.6);
const SETTLED: (f64, f64) = (6.0, 9.0);
const LATE: (f64, f64) = (11.0, 14.0);
const TENTH: f64 = 0.1;
/// The kernel's HTB, for real packets.
pub const KERNEL_HTB: &str = "kernel-htb";

/// Plays scenarios on real packets, through the gateway in a private network namespace.
pub trait Testbed {
    /// Rates by phase, the first half second of each left out, under one of our schedulers or [`KERNEL_HTB`]. Sources that always have
    /// packets send more than they get.
    ///
    /// # Errors
    /// It could not be played.
    fn rates(&mut self, workload: &Workload, scheduler: &str) -> Result<Vec<Phase>, ClaimError>;

    /// Builds the classes of a tree in the kernel's HTB and removes them. Returns the kernel's message if it refuses them.
    ///
    /// # Errors
    /// They could not be handed to the kernel.
    fn kernel_refuses(&mut self, tree: &Hierarchy) -> Result<Option<String>, ClaimError>;

    /// Measures the mean delay of each class in seconds, by name. Generator, gateway and receiver are processes of
    /// their own.
    ///
    /// # Errors
    /// It could not be played.
    fn delays(&mut self, workload: &Workload, scheduler: &str) -> Result<Vec<(String, f64)>, ClaimError>;

    /// Returns rates in each of `spans`, in seconds since the traffic began, of each class by name, in bit/s: of all
    /// links of one gateway, whose link file is `links`. The first scenario of `traffic` is sent into its first link,
    /// and so on.
    ///
    /// # Errors
    /// It could not be played.
    fn links(
        &mut self,
        links: &Workload,
        traffic: &[Workload],
        spans: &[(f64, f64)],
    ) -> Result<Vec<Vec<(String, f64)>>, ClaimError>;
}

/// Tries a claim on real packets: further rows for it.
pub type Try = fn(&Lab<'_>, &mut dyn Testbed) -> Result<Vec<Row>, ClaimError>;

/// The claims that real packets can show.
const REAL: [(&str, Try); 11] = [
    ("hls.depth", depth),
    ("hls.exp1", exp1),
    ("hls.exp2", exp2),
    ("hls.exp3", exp3),
    ("hfsc.fig12", fig12),
    ("htb.share", share),
    ("htb.prio", prio),
    ("htb.slots", slots),
    ("drrpp.fig51", fig51),
    ("drrpp.fig52", fig52),
    ("drrpp.fig510", fig510),
];

/// Returns the function that tries a claim on real packets, if there is one.
#[must_use]
pub fn real(claim: &Claim) -> Option<Try> {
    REAL.iter().find(|(id, _)| *id == claim.id).map(|&(_, attempt)| attempt)
}

/// Adds ports for the leaves, by which the gateway classifies, and a class for unmatched frames.
fn with_ports(workload: &Workload) -> Result<Workload, ClaimError> {
    let tree = workload.read("hls")?.link;
    let mut text = String::new();
    let mut last = String::new();
    let mut port = 5001;
    for line in workload.text.lines() {
        if line.starts_with("match") || line.starts_with("default") {
            continue;
        }
        text += line;
        text.push('\n');
        let name = line.strip_prefix("name = \"").and_then(|rest| rest.split_once('"'));
        if let Some((name, _)) = name
            && let Some(class) = tree.names.id(name)
            && tree.tree.is_leaf(class)
        {
            text += &format!("match = [\"udp dst port {port}\"]\n");
            port += 1;
            last = name.to_owned();
        }
    }
    let text = text.replacen("[link]\n", &format!("[link]\ndefault = \"{last}\"\n"), 1);
    Ok(Workload::new(workload.name.clone(), text))
}

/// Largest relative deviation of a class from its ideal.
fn farthest(phases: &[Phase]) -> f64 {
    let link: f64 =
        phases.iter().map(|phase| phase.classes.iter().map(|class| class.rates.fair()).sum()).fold(0.0, f64::max);
    let classes = phases.iter().flat_map(|phase| &phase.classes);
    classes.map(|class| relative(class.rates.settled(), class.rates.fair(), link)).fold(0.0, f64::max)
}

/// Rows of rates: ours judged against the ideal, others shown beside.
fn shares(bed: &mut dyn Testbed, workload: &Workload, judged: &[&str], shown: &[&str]) -> Result<Vec<Row>, ClaimError> {
    let workload = with_ports(workload)?;
    let mut rows = Vec::new();
    for name in judged {
        let far = farthest(&bed.rates(&workload, name)?);
        let what = format!("real packets, {name}: farthest from HMM");
        rows.push(Row::new(what, Unit::Part, Expected::AtMost(TOLERANCE), far));
    }
    for name in shown {
        let far = farthest(&bed.rates(&workload, name)?);
        rows.push(Row::shown(format!("real packets, {name}: farthest from HMM"), Unit::Part, far));
    }
    Ok(rows)
}

const EXP1: &str = include_str!("../../../../scenarios/exp1.toml");
const EXP2: &str = include_str!("../../../../scenarios/exp2-H.toml");
const EXP3: &str = include_str!("../../../../scenarios/hls/exp3.toml");
const FIGURE_12: &str = include_str!("../../../../scenarios/hfsc/fig12-real.toml");
const CEILINGS: &str = include_str!("../../../../scenarios/beyond/ceilings.toml");
const SLOTS: &str = include_str!("../../../../scenarios/htb/slots-gateway.toml");
const THESIS: &str = include_str!("../../../../scenarios/thesis/real.toml");
const VIDEO: &str = include_str!("../../../../scenarios/thesis/real-video.toml");

/// Tests binary trees in the kernel's HTB.
fn depth(_: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    let mut refused = [0, 0];
    for power in 1..=8usize {
        let refuses = bed.kernel_refuses(&binary(power)?)?.is_some();
        refused[usize::from(power == 8)] += usize::from(refuses);
    }
    Ok(vec![
        Row::never("the kernel's HTB: binary trees of 2 to 128 leaves that it refuses", refused[0]),
        Row::new("the same of 256 leaves: refused", Unit::Count, Expected::Within(1.0, 0.0), refused[1] as f64),
    ])
}

fn exp1(_: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    shares(bed, &Workload::new("exp1.toml", EXP1), &["hls", "htb"], &[KERNEL_HTB])
}

fn exp2(_: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    let workload = Workload::new("exp2-H.toml", EXP2);
    let mut rows = shares(bed, &workload, &["hls"], &[])?;
    let workload = with_ports(&workload)?;
    for name in ["htb", KERNEL_HTB] {
        let phases = bed.rates(&workload, name)?;
        let rate = |class: &str| {
            let phase = phases.get(1).map_or(&[][..], |phase| &phase.classes);
            phase.iter().find(|found| found.name == class).map_or(f64::NAN, |class| class.rates.settled())
        };
        let what = format!("real packets, {name}: B2 over A1 without C");
        rows.push(Row::new(what, Unit::Times, Expected::AtLeast(1.1), rate("B2") / rate("A1")));
    }
    Ok(rows)
}

fn exp3(_: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    shares(bed, &Workload::new("exp3.toml", EXP3), &["hls"], &["htb", KERNEL_HTB])
}

fn fig12(_: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    shares(bed, &Workload::new("fig12-real.toml", FIGURE_12), &["hfsc"], &["hls"])
}

fn share(_: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    shares(bed, &Workload::new("ceilings.toml", CEILINGS), &["htb"], &[KERNEL_HTB])
}

/// Returns the mean delay of a class, of those that were played.
fn delay_of(delays: &[(String, f64)], class: &str) -> Result<f64, ClaimError> {
    let found = delays.iter().find(|(name, _)| name == class);
    found.map(|&(_, delay)| delay).ok_or_else(|| ClaimError::other(format!("nothing of {class} was received")))
}

fn prio(lab: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    let raised = CEILINGS.replace("name = \"first\"\n", "name = \"first\"\npriority = 1\n");
    let mut delays = Vec::new();
    for text in [CEILINGS.to_owned(), raised.replace("name = \"second\"\n", "name = \"second\"\npriority = 0\n")] {
        let workload = with_ports(&Workload::new("prio.toml", text))?;
        let real = delay_of(&bed.delays(&workload, "htb")?, "second")?;
        let simulated = lab.play(&workload, &["htb"], 1, &Options::default())?;
        delays.push((real, simulated.first().and_then(|run| mean_delay(run, "second")).unwrap_or(f64::NAN)));
    }
    let (equal, first) = (delays[0], delays[1]);
    Ok(vec![
        Row::new(
            "real packets: delay with its priority raised, over that without",
            Unit::Part,
            Expected::AtMost(0.25),
            first.0 / equal.0,
        ),
        Row::shown("the same, simulated", Unit::Part, first.1 / equal.1),
        Row::shown("real packets: delay with its priority raised", Unit::Seconds, first.0),
    ])
}

/// Tests two links of a gateway that share a pool, under either rule.
fn slots(_: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    // As the script of the text has it: flow, port, kB/s, from, to.
    let source = |(flow, port, kilobytes, from, to): (u8, u16, u32, u32, u32)| {
        let bits = 8 * kilobytes;
        format!(
            "[[class]]\nname = \"flow {flow}\"\nmatch = [\"udp dst port {port}\"]\n\
             [[source]]\nclass = \"flow {flow}\"\nmodel = \"cbr\"\nrate = \"{bits}kbit\"\npacket = \"500B\"\nactive = \"{from}s..{to}s\"\n"
        )
    };
    let device = |flows: &[(u8, u16, u32, u32, u32)]| {
        let sources: String = flows.iter().map(|&flow| source(flow)).collect();
        let text = format!("duration = \"14s\"\n[link]\nrate = \"10mbit\"\n{sources}");
        Workload::new("slots-device.toml", text)
    };
    let traffic = [device(&[(0, 5001, 90, 0, 9), (1, 5002, 50, 4, 14)]), device(&[(2, 5003, 70, 2, 14)])];
    let mut play = |rule: &str| -> Result<[[f64; 3]; 3], ClaimError> {
        let links =
            Workload::new("slots-gateway.toml", SLOTS.replace("rule = \"exact\"", &format!("rule = \"{rule}\"")));
        let rates = bed.links(&links, &traffic, &[EARLY, SETTLED, LATE])?;
        let of = |span: &Vec<(String, f64)>, flow: usize| {
            let name = format!("flow {flow}");
            span.iter().find(|(class, _)| *class == name).map_or(f64::NAN, |&(_, rate)| rate)
        };
        Ok([0, 1, 2].map(|at| [0, 1, 2].map(|flow| rates.get(at).map_or(f64::NAN, |span| of(span, flow)))))
    };
    let (ratio, exact) = (play("ratio")?, play("exact")?);
    let sum = |rates: [f64; 3]| rates.iter().sum::<f64>();
    let near = |what: &str, kilobytes: f64, ours: f64| {
        Row::new(format!("real packets, {what}"), Unit::Rate, Expected::Near(kilobytes * 8e3, TENTH), ours)
    };
    Ok(vec![
        near("ratio, 6 to 9 s: eth0 (62.5 kB/s)", 62.5, ratio[1][0] + ratio[1][1]),
        near("ratio, 6 to 9 s: eth1 (37.5 kB/s)", 37.5, ratio[1][2]),
        Row::new(
            "real packets, ratio, 2.6 to 3.6 s: flow 0 over flow 2",
            Unit::Times,
            Expected::Near(1.0, TENTH),
            ratio[0][0] / ratio[0][2],
        ),
        near("ratio, 11 to 14 s: all of them (80 kB/s)", 80.0, sum(ratio[2])),
        near("exact, 2.6 to 3.6 s: flow 2 (37.5 kB/s at once)", 37.5, exact[0][2]),
        near("exact, 6 to 9 s: eth1 (37.5 kB/s)", 37.5, exact[1][2]),
        near("exact, 11 to 14 s: all of them (100 kB/s)", 100.0, sum(exact[2])),
    ])
}

/// Returns the mean delay of the latency-critical flow and of the first other one, real and simulated.
fn critical(lab: &Lab<'_>, bed: &mut dyn Testbed, text: &str, scheduler: &str) -> Result<[(f64, f64); 2], ClaimError> {
    let seconds = lab.by_effort(12, 60).to_string() + "s";
    let workload = with_ports(&Workload::new("real.toml", text).with(&[("duration", &seconds)])?)?;
    let delays = bed.delays(&workload, scheduler)?;
    let simulated = lab.play(&workload, &[scheduler], 1, &Options::default())?;
    let both = |class: &str| -> Result<(f64, f64), ClaimError> {
        let simulated = simulated.first().and_then(|run| mean_delay(run, class)).unwrap_or(f64::NAN);
        Ok((delay_of(&delays, class)?, simulated))
    };
    Ok([both("lc")?, both("be1")?])
}

fn at(text: &str, packets: u32) -> String {
    text.replace("packets_per_second = 20\n", &format!("packets_per_second = {packets}\n"))
}

fn fig51(lab: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    let [few, _] = critical(lab, bed, &at(THESIS, 1), "drr++")?;
    let [many, others] = critical(lab, bed, THESIS, "drr++")?;
    // One best-effort quantum on the wire.
    const QUANTUM_S: f64 = 2666.0 * 8.0 / 250e3;
    Ok(vec![
        Row::new(
            "real packets: growth of the delay from 1 to 20 packets/s, in best-effort quanta",
            Unit::Number,
            Expected::Between(0.2, 1.1),
            (many.0 - few.0) / QUANTUM_S,
        ),
        Row::shown("the same traffic simulated", Unit::Number, (many.1 - few.1) / QUANTUM_S),
        Row::shown("real packets: delay at 20 packets/s", Unit::Seconds, many.0),
        Row::shown("the same simulated", Unit::Seconds, many.1),
        Row::shown("real packets: a best-effort flow's delay at 20 packets/s", Unit::Seconds, others.0),
    ])
}

fn fig52(lab: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    let [plain, _] = critical(lab, bed, THESIS, "drr++")?;
    let [demoted, others] = critical(lab, bed, THESIS, "drr+")?;
    Ok(vec![
        Row::new(
            "real packets: delay under DRR+ over that under DRR++ at 20 packets/s",
            Unit::Times,
            Expected::AtLeast(1.5),
            demoted.0 / plain.0,
        ),
        Row::shown("the same traffic simulated ", Unit::Times, demoted.1 / plain.1),
        Row::shown("real packets: delay under DRR+ over a best-effort flow's", Unit::Times, demoted.0 / others.0),
    ])
}

fn fig510(lab: &Lab<'_>, bed: &mut dyn Testbed) -> Result<Vec<Row>, ClaimError> {
    let [plain, _] = critical(lab, bed, VIDEO, "drr++")?;
    let [demoted, _] = critical(lab, bed, VIDEO, "drr+")?;
    Ok(vec![
        Row::new(
            "real packets: delay of the video under DRR+ over that under DRR++",
            Unit::Times,
            Expected::AtLeast(1.1),
            demoted.0 / plain.0,
        ),
        Row::shown("the same traffic simulated", Unit::Times, demoted.1 / plain.1),
        Row::shown("real packets: delay of the video under DRR++", Unit::Seconds, plain.0),
        Row::shown("the same simulated", Unit::Seconds, plain.1),
    ])
}
