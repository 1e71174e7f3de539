//! Compares our HTB with the kernel's on the same cable, with real packets at 100 Mbit/s, in Experiment 2 of \[hls\].
//! The guarantees are 30 each for A and B, and 40 for C. A1 below A, B2 below B and C send; then C pauses, and the root
//! lends its 40 by the quanta of the leaves. `scripts/oracle-htb` runs it. It takes about a minute and a half on an
//! idle machine.
//!
//! The kernel's HTB differs from the texts in one respect. An inner class has one pointer to the child that is next. It
//! uses the pointer for two purposes: while the class lends, and while the root lends through it. When a leaf has used
//! up its quantum of the class's lending, the pointer advances. Behind the last child it is at the end. The root takes
//! that for the end of the class's turn and continues with the class's sibling. So a class loses turns at the root to
//! others. Their number depends on how much the class lends and on the quanta of its leaves. Ours has a pointer for
//! each level of lenders.
//!
//! Therefore there are two comparisons with the same quanta:
//!
//! 1. *Control, asserted.* The rates of A1 and B2 equal those of A and B. So A and B cannot lend, and the pointers
//!    serve one purpose. Both must agree to within [`POINTS`] points of the link.
//! 2. *As in the paper, printed only.* The rates of the leaves are below those of their parents. The difference beyond
//!    the control's is the effect of the single pointer. It is printed and not asserted. Our shares must equal those of
//!    the control to within [`POINTS`] points, because the root's lending does not depend on the level at which a
//!    class's guarantee was used.
//!
//! A row with a ceiling is in both; no class may exceed it. Exits with 1 if any of this fails.
#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, Rate, Share, registry::find};
use fairlink_testbed::{DemoPlan, DemoRun, PlanPhase, Shaper, Stage, enter_private_namespace};
use fairlink_traffic::{Interval, Model, PacketSize, SourceSpec};

const LINK_MBIT: u64 = 100;
const PHASE: Nanos = Nanos::from_millis(2_000);
/// Maximum difference between two shares, in percent of the link.
const POINTS: f64 = 5.0;
/// Tolerance above a ceiling, in percent of the ceiling: the contents of a bucket at the start of a phase.
const ABOVE: f64 = 2.0;
/// Depth of all buckets in rows with a ceiling, in bytes: 1.2 ms of the link. With the default of 1600 B the kernel
/// loses tokens whenever its timer is late, and with them a fifth of the link.
const BURST: u64 = 15_000;
/// The smallest quantum: the largest frame.
const SMALLEST_QUANTUM: u64 = 1_514;
/// In percent. A lower utilisation in any phase means that the machine was too busy, and the row is played again.
const FULL: f64 = 98.0;
/// Maximum number of attempts for a row.
const TRIES: usize = 3;
/// Guarantees: of A and of B, and of C.
const INNER_MBIT: u64 = 30;
const C_MBIT: u64 = 40;
const LEAVES: [&str; 3] = ["A1", "B2", "C"];

/// One row of the comparison.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    /// Rate of the first leaf of A, and of the first of B; the second leaves have the rest.
    first: u64,
    /// A's ceiling.
    ceiling: Option<u64>,
}

const ROWS: [Row; 4] = [
    Row { name: "L", first: 14, ceiling: None },
    Row { name: "M", first: 10, ceiling: None },
    Row { name: "H", first: 6, ceiling: None },
    Row { name: "A at most 40", first: 10, ceiling: Some(40) },
];

impl Row {
    /// Quanta in proportion to the rates of the leaves in the paper.
    fn quantum(self, mbit: u64) -> u32 {
        (SMALLEST_QUANTUM * mbit / self.first) as u32
    }

    /// The rates of A1, B2 and C in the paper.
    fn rates(self) -> [u64; 3] {
        [self.first, INNER_MBIT - self.first, C_MBIT]
    }
}

/// The tree and its names. In the control A1 and B2 have the whole rate of A and B, and no siblings.
fn tree(row: Row, control: bool) -> Result<(Hierarchy, Vec<String>), Box<dyn Error>> {
    let rate = |mbit: u64| Rate::from_bps(mbit * 1_000_000);
    let class = |mbit: u64| -> Result<ClassConfig, Box<dyn Error>> {
        let share = Some(Share::Guarantee(rate(mbit)?));
        let burst = row.ceiling.map(|_| BURST);
        Ok(ClassConfig { share, burst, ceiling_burst: burst, ..ClassConfig::default() })
    };
    let leaf = |mbit: u64, quantum: u64| -> Result<ClassConfig, Box<dyn Error>> {
        Ok(ClassConfig { quantum: Some(row.quantum(quantum)), ..class(mbit)? })
    };
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(LINK_MBIT)?));
    let mut names = vec!["link"];
    let children = [["A1", "A2"], ["B1", "B2"]];
    for ((name, children), ceiling) in ["A", "B"].into_iter().zip(children).zip([row.ceiling, None]) {
        let ceiling = ceiling.map(rate).transpose()?;
        let inner = tree.add(ClassId::ROOT, ClassConfig { ceiling, ..class(INNER_MBIT)? })?;
        names.push(name);
        for (child, mbit) in children.into_iter().zip([row.first, INNER_MBIT - row.first]) {
            if !control || LEAVES.contains(&child) {
                tree.add(inner, leaf(if control { INNER_MBIT } else { mbit }, mbit)?)?;
                names.push(child);
            }
        }
    }
    tree.add(ClassId::ROOT, leaf(C_MBIT, C_MBIT)?)?;
    names.push("C");
    Ok((tree.build()?, names.into_iter().map(String::from).collect()))
}

/// A1 and B2 send all the time, C in the first of two phases.
fn plan(row: Row, control: bool) -> Result<DemoPlan, Box<dyn Error>> {
    let (tree, names) = tree(row, control)?;
    let phase = |index: u64| {
        let (start, end) = (Nanos(PHASE.0 * index), Nanos(PHASE.0 * (index + 1)));
        // The sources offer a multiple of this.
        PlanPhase { start, end, ideal_bps: vec![0.5e6 * LINK_MBIT as f64; names.len()] }
    };
    let phases = vec![phase(0), phase(1)];
    let source = |class: &str| -> Result<SourceSpec, Box<dyn Error>> {
        let id = names.iter().position(|name| name == class).ok_or("no such class")?;
        let end = if class == "C" { phases[0].end } else { phases[1].end };
        Ok(SourceSpec {
            class: ClassId(id as u32),
            model: Model::Greedy,
            packet: PacketSize::Fixed(1000),
            active: vec![Interval { start: Nanos::ZERO, end }],
        })
    };
    let sources = LEAVES.iter().map(|leaf| source(leaf)).collect::<Result<_, _>>()?;
    let settle = Nanos::from_millis(400);
    Ok(DemoPlan { experiment: 2, scenario: Some(row.name.to_owned()), tree, names, sources, phases, settle })
}

/// Shares of A1, B2 and C in both phases, in percent of the link.
type Shares = [[f64; 3]; 2];

fn shares(run: &DemoRun) -> Shares {
    let share = |phase: usize, class: &str| {
        let rates = run.phases.get(phase).map_or(&[][..], |phase| &phase.classes);
        rates.iter().find(|rate| rate.name == class).map_or(0.0, |rate| rate.rates.rate() / (LINK_MBIT as f64 * 1e4))
    };
    [0, 1].map(|phase| LEAVES.map(|leaf| share(phase, leaf)))
}

/// The largest difference between any two shares, in points.
fn apart(left: &Shares, right: &Shares) -> f64 {
    let pairs = left.as_flattened().iter().zip(right.as_flattened());
    pairs.map(|(left, right)| (left - right).abs()).fold(0.0, f64::max)
}

/// The kernel's shares and ours, or the reason why the kernel's HTB is not available.
type Measured = Result<(Shares, Shares), String>;

/// Plays a row, and repeats it if the machine was too busy to keep the link full.
fn measure(stage: &mut Stage, row: Row, control: bool) -> Result<Measured, Box<dyn Error>> {
    let ours = Shaper::Gateway(find("htb").ok_or("there is no scheduler htb")?);
    let stop = AtomicBool::new(false);
    let plan = plan(row, control)?;
    for attempt in 1.. {
        let outcome = stage.play_all(&plan, &[Shaper::KernelHtb, ours], &stop, |_| ())?;
        if let Some(skipped) = outcome.skipped.first() {
            return Ok(Err(format!("{}: {}", skipped.scheduler, skipped.why)));
        }
        let [kernel, ours] = &outcome.experiments[..] else { return Err("not both were played".into()) };
        let (kernel, ours) = (shares(kernel), shares(ours));
        let used = kernel.iter().chain(&ours).map(|phase| phase.iter().sum::<f64>()).fold(f64::MAX, f64::min);
        if used >= FULL || attempt == TRIES {
            return Ok(Ok((kernel, ours)));
        }
        println!("{}: only {used:.1} % of the link was used in a phase; played again", row.name);
    }
    unreachable!("the last try returns")
}

fn show(row: Row, kernel: &Shares, ours: &Shares) {
    for (phase, when) in ["C sends", "C pauses"].into_iter().enumerate() {
        print!("{:<13}{when:<9}", row.name);
        for (theirs, own) in kernel[phase].iter().zip(ours[phase]) {
            print!("   {theirs:>4.1} /{own:>5.1}");
        }
        println!();
    }
}

fn head(text: &str) {
    println!("{text}\n{:<22}{:>14}{:>14}{:>14}", "", "A1", "B2", "C");
}

fn run() -> Result<bool, Box<dyn Error>> {
    let namespace = match enter_private_namespace() {
        Ok(namespace) => namespace,
        Err(error) => {
            println!("SKIPPED: {error}");
            return Ok(true);
        }
    };
    let mut stage = Stage::new(&namespace)?;
    let mut faults = Vec::new();
    println!(
        "Shares of {LINK_MBIT} Mbit/s in percent, the kernel's HTB / ours. Bursts default, {BURST} B with the ceiling."
    );
    println!("Quanta of A1, B2 and C in bytes:");
    for row in ROWS {
        println!("  {:<13}{:?}", row.name, row.rates().map(|mbit| row.quantum(mbit)));
    }
    let mut ceilings = |row: Row, both: [&Shares; 2]| {
        let Some(ceiling) = row.ceiling else { return };
        let most = ceiling as f64 * 100.0 / LINK_MBIT as f64 * (1.0 + ABOVE / 100.0);
        if both.iter().any(|shares| shares.iter().any(|phase| phase[0] > most)) {
            faults.push(format!("{}: the ceiling was exceeded by more than {ABOVE} %", row.name));
        }
    };
    let mut control = Vec::new();
    let mut wrong = Vec::new();
    let mut largest = 0.0f64;
    head("\nControl, asserted: the rates of A1 and B2 are those of A and B, so that A and B lend nothing.");
    for row in ROWS {
        let (kernel, ours) = match measure(&mut stage, row, true)? {
            Ok(both) => both,
            Err(why) => {
                println!("SKIPPED: {why}");
                return Ok(true);
            }
        };
        show(row, &kernel, &ours);
        ceilings(row, [&kernel, &ours]);
        let apart = apart(&kernel, &ours);
        if apart > POINTS {
            wrong.push(format!("control, {}: the kernel's HTB and ours differ by {apart:.1} points", row.name));
        }
        largest = largest.max(apart);
        control.push(ours);
    }
    println!("largest difference: {largest:.1} points; at most {POINTS} are allowed");
    let (mut largest, mut moved) = (0.0f64, 0.0f64);
    head("\nAs in the paper, printed only: A and B lend to A1 and B2. The kernel's shares are not asserted here.");
    for (row, control) in ROWS.into_iter().zip(&control) {
        let (kernel, ours) = measure(&mut stage, row, false)??;
        show(row, &kernel, &ours);
        ceilings(row, [&kernel, &ours]);
        largest = largest.max(apart(&kernel, &ours));
        let from_control = apart(&ours, control);
        if from_control > POINTS {
            wrong.push(format!("{}: ours differs from ours of the control by {from_control:.1} points", row.name));
        }
        moved = moved.max(from_control);
    }
    println!(
        "largest difference: {largest:.1} points. It is the kernel's: while a class lends, the end of its round of children"
    );
    println!("is taken for the end of its turn at the root, and the class is passed over.");
    println!("ours beside ours of the control: {moved:.1} points apart; at most {POINTS} are allowed");
    faults.extend(wrong);
    for fault in &faults {
        println!("WRONG: {fault}");
    }
    Ok(faults.is_empty())
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
