//! Section IX: a strict guarantee holds in every interval in which a class is backlogged, regardless of earlier
//! service.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::registry::find;
use fairlink_core::schedulers::hls::RunWeights;
use fairlink_core::{ClassId, Hierarchy, Nanos};
use fairlink_sim::{Fate, Observer, Options, PacketSeen};
use fairlink_theory::latency::{DelayBound, delay_bounds};

use crate::claims::random::{SeededRng, classes, scenario};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

/// One class alone, then beside another that was silent. Guarantees are halves of the link; the service curve of a is the line of its
/// guarantee.
const ALONE_THEN_NOT: &str = include_str!("../../../../../scenarios/hls/strict.toml");
/// When the other begins, in seconds.
const BEGINS: f64 = 2.0;
/// The same with curves of two pieces: zero for a second and then the guarantee for a, the link for half a second and
/// then the guarantee for b.
const CURVES: [(&str, &str); 2] = [
    ("real_time = { rate = \"5mbit\" }", "real_time = { m1 = \"0bit\", d = \"1s\", m2 = \"5mbit\" }"),
    ("real_time = { rate = \"5mbit\" }", "real_time = { m1 = \"10mbit\", d = \"500ms\", m2 = \"5mbit\" }"),
];
/// Section IX on Virtual Clock and on H-FSC.
const DRAWBACK: &str = "Rate guarantees of these service curves share a drawback with the VirtualClock scheduler [39], where a class that is served above its \
                        guaranteed rate for some time, may be later served at a rate below its guarantee.";
/// Why rate guarantees of H-FSC do not have that drawback.
const LINES: &str = "Rate guarantees are curves that are lines. With these H-FSC keeps a within the constant of HLS: what its link-sharing criterion gave a is not counted by its real-time criterion. \
                     Curves of two pieces do punish a, and are no rate guarantees: by its own curve a is owed nothing then.";
const SCHEDULERS: [&str; 7] = ["hls", "hfsc", "virtual-clock", "sced", "wfq", "htb", "drr"];

/// Lag of each class behind its guarantee: the largest g (t - s) - W(s, t] over intervals in which it is backlogged. W
/// jumps when a packet has left, so the largest lag is just before.
#[derive(Default)]
struct Behind {
    /// By class: bytes per second.
    guarantees: Vec<f64>,
    queued: BTreeMap<ClassId, u64>,
    /// By class: the start of the backlog or the best moment since, as bytes that the guarantee would have brought less those sent.
    lowest: BTreeMap<ClassId, f64>,
    sent: BTreeMap<ClassId, f64>,
    worst: BTreeMap<ClassId, f64>,
    /// Course of the first class: time and bytes behind, a point for each packet.
    course: Points,
}

/// The results that remain after the run.
type Shared = Arc<Mutex<BTreeMap<ClassId, f64>>>;
type Course = Arc<Mutex<Points>>;
/// Times in seconds and bytes behind.
type Points = Vec<(f64, f64)>;

struct Watch {
    behind: Behind,
    worst: Shared,
    course: Course,
}

impl Behind {
    fn owed(&self, class: ClassId, now: Nanos) -> f64 {
        let rate = self.guarantees.get(class.index()).copied().unwrap_or(0.0);
        rate * now.0 as f64 / 1e9 - self.sent.get(&class).copied().unwrap_or(0.0)
    }

    fn look(&mut self, class: ClassId, now: Nanos) {
        let owed = self.owed(class, now);
        let Some(lowest) = self.lowest.get_mut(&class) else { return };
        *lowest = lowest.min(owed);
        let behind = owed - *lowest;
        let worst = self.worst.entry(class).or_insert(0.0);
        *worst = worst.max(behind);
        if class == ClassId(1) {
            self.course.push((now.0 as f64 / 1e9, behind));
        }
    }
}

impl Observer for Watch {
    fn came(&mut self, packet: &PacketSeen) {
        let queued = self.behind.queued.entry(packet.class).or_insert(0);
        *queued += 1;
        if *queued == 1 {
            let owed = self.behind.owed(packet.class, packet.arrived);
            self.behind.lowest.insert(packet.class, owed);
        }
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        let class = packet.class;
        if let Fate::Sent { done, .. } = fate {
            // Backlogged until its last bit has left.
            self.behind.look(class, done);
            *self.behind.sent.entry(class).or_insert(0.0) += f64::from(packet.len);
            self.behind.look(class, done);
        }
        let queued = self.behind.queued.entry(class).or_insert(1);
        *queued -= 1;
        if *queued == 0 {
            self.behind.lowest.remove(&class);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut worst = self.worst.lock().unwrap_or_else(PoisonError::into_inner);
        for (&class, &behind) in &self.behind.worst {
            let known = worst.entry(class).or_insert(0.0);
            *known = known.max(behind);
        }
        self.course.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.behind.course);
    }
}

/// Bytes behind by class, and the course of the first class.
fn play(lab: &Lab<'_>, workload: &Workload, scheduler: &str) -> Result<(BTreeMap<ClassId, f64>, Points), ClaimError> {
    let tree = workload.read(scheduler)?.link.tree;
    let guarantees = match scheduler {
        "hls" => as_run(&tree)?,
        _ => guarantees(&tree, |class| tree.weight(class) as f64),
    };
    let (worst, course) = (Shared::default(), Course::default());
    let make = || -> Box<dyn Observer> {
        let behind = Behind { guarantees: guarantees.clone(), ..Behind::default() };
        Box::new(Watch { behind, worst: Arc::clone(&worst), course: Arc::clone(&course) })
    };
    lab.watched(workload, &[scheduler], 1, &Options::default(), Some(&make))?;
    let take = |course: Course| std::mem::take(&mut *course.lock().unwrap_or_else(PoisonError::into_inner));
    let worst = std::mem::take(&mut *worst.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((worst, take(course)))
}

/// By class, its guarantee by weight in bytes per second; all of the link's if all are busy.
fn guarantees(tree: &Hierarchy, weight: impl Fn(ClassId) -> f64) -> Vec<f64> {
    let mut guarantees = vec![tree.link().rate.bps() as f64 / 8.0; tree.len()];
    for class in tree.classes() {
        let Some(parent) = tree.parent(class) else { continue };
        let siblings: f64 = tree.children(parent).iter().map(|&child| weight(child)).sum();
        guarantees[class.index()] = guarantees[parent.index()] * weight(class) / siblings;
    }
    guarantees
}

/// Returns the bytes per second by class, by the weights that HLS runs with, which are whole credits.
fn as_run(tree: &Hierarchy) -> Result<Vec<f64>, ClaimError> {
    let run = RunWeights::for_tree(tree).map_err(ClaimError::other)?;
    Ok(guarantees(tree, |class| run.credits(class) as f64))
}

/// By leaf, its maximum lag under HLS, in bytes: L_i + sum over the inner classes a on its path of W_a s_i / s_a + s_i
/// (2 Q + L). Its delay bound for a burst of one packet at its guarantee g is (burst + that) / g.
fn constant(workload: &Workload) -> Result<Vec<f64>, ClaimError> {
    let tree = workload.read("hls")?.link.tree;
    let info = find("hls").ok_or_else(|| ClaimError::other("no hls"))?;
    let guarantees = as_run(&tree)?;
    let bounds = delay_bounds(info, &tree);
    let burst = f64::from(tree.link().max_packet);
    let of = |(bound, guarantee): (&Option<DelayBound>, &f64)| {
        bound.as_ref().map_or(f64::INFINITY, |bound| bound.seconds_in_floats() * guarantee - burst)
    };
    Ok(bounds.iter().zip(&guarantees).map(of).collect())
}

/// Classes behind their guarantees, and their lags.
pub(super) fn strict(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let workload = Workload::new("strict.toml", ALONE_THEN_NOT);
    let a = ClassId(1);
    let mut rows = Vec::new();
    let mut table =
        Table::new("The smallest W(s, t] - g (t - s) of class a", &["scheduler", "bytes", "time at its guarantee"]);
    let mut panel = Panel::new(
        "",
        Axis::linear("time in s", 1.5, 5.0),
        Axis::log("bytes that class a is behind its guarantee", 100.0, 2e6),
    );
    let bound = constant(&workload)?;
    for (n, name) in SCHEDULERS.into_iter().enumerate() {
        let (worst, course) = play(lab, &workload, name)?;
        let behind = worst.get(&a).copied().unwrap_or(0.0);
        table.row([name.to_owned(), format!("{:.0}", -behind), format!("{:.1} ms", -behind / 625e3 * 1e3)]);
        let expected = match name {
            "hls" => Expected::AtLeast(-bound[a.index()]),
            // Half of the link for as long as it had all of it.
            "virtual-clock" | "sced" | "hfsc" => Expected::AtMost(-0.5 * BEGINS * 625e3),
            _ => Expected::Nothing,
        };
        let row = Row::new(format!("{name}: smallest W - g (t - s)"), Unit::Bytes, expected, -behind);
        rows.push(match name {
            "hls" => row,
            "hfsc" => row.judging(DRAWBACK).departing(-bound[a.index()], 0.0, LINES),
            _ => row.judging(DRAWBACK),
        });
        if ["hls", "hfsc", "virtual-clock", "sced", "htb"].contains(&name) {
            // The largest of each ten milliseconds.
            let points = course.chunk_by(|one, other| (one.0 * 100.0).floor() == (other.0 * 100.0).floor());
            let highest = points.filter_map(|chunk| {
                chunk.iter().copied().reduce(|one, other| if other.1 > one.1 { other } else { one })
            });
            panel.series.push(Series::line(name, highest.collect(), SeriesStyle::nth(n)));
        }
    }
    // Service curves that are not lines: the curve owes a nothing for a second, and b may have the whole link for half
    // of one.
    let mut text = ALONE_THEN_NOT.to_owned();
    for (line, curve) in CURVES {
        text = text.replacen(line, curve, 1);
    }
    let curves = Workload::new("strict-curves.toml", text);
    for (name, expected) in [("hfsc", Expected::Nothing), ("hls", Expected::AtLeast(-bound[a.index()]))] {
        let behind = play(lab, &curves, name)?.0.get(&a).copied().unwrap_or(0.0);
        table.row([
            format!("{name}, curves of two pieces"),
            format!("{:.0}", -behind),
            format!("{:.1} ms", -behind / 625e3 * 1e3),
        ]);
        let row =
            Row::new(format!("{name}, curves of two pieces: smallest W - g (t - s)"), Unit::Bytes, expected, -behind);
        rows.push(if name == "hls" { row } else { row.judging(DRAWBACK) });
    }
    let (cases, exceeded, used) = random(lab)?;
    rows.push(Row::never("random trees in which a leaf of hls falls further behind than its constant", exceeded));
    rows.push(Row::new(
        "the largest part of the constant that was used",
        Unit::Part,
        Expected::Between(0.05, 1.0),
        used,
    ));
    let note = format!(
        "Classes a and b are guaranteed half of 10 Mbit/s each. a always has packets, b begins after {BEGINS} s. Under Virtual Clock and SCED a has \
         then used up its guarantee of two seconds more, and gets nothing until b, which has the whole link, has caught up: for a second. With curves of two pieces H-FSC punishes a as well, by the rate of the second piece, which is shown: a, whose curve is flat for a second, was served ahead of it for two, and gets nothing \
         of its 5 Mbit/s while b, whose curve asks for the whole link for half a second, has its deadlines. Both curves together ask for no more than the link. Under HLS \
         no leaf is ever behind by more than a constant: L + sum of W_a s / s_a + s (2 Q + L), also in {cases} random trees."
    );
    let figure = Figure::new("How far class a is behind its guarantee", vec![panel]);
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler virtual-clock --scheduler hls"))
        .with_rerun(curves.rerun("--scheduler hfsc --scheduler hls --window 100ms")))
}

/// Returns the number of cases, the number in which the constant is exceeded, and the largest part of it that was used.
fn random(lab: &Lab<'_>) -> Result<(u64, usize, f64), ClaimError> {
    let cases = lab.by_effort(100, 2_000);
    let (mut exceeded, mut used) = (0, 0.0f64);
    for case in 0..cases {
        let mut dice = SeededRng::new(7, case);
        let tree = classes(&mut dice, 12, 4);
        let workload = scenario(&mut dice, "case.toml".into(), &tree, 0.4);
        let bound = constant(&workload)?;
        let (worst, _) = play(lab, &workload, "hls")?;
        let parts = worst.iter().map(|(class, behind)| behind / bound[class.index()]);
        let largest = parts.fold(0.0, f64::max);
        exceeded += usize::from(largest > 1.0);
        used = used.max(largest);
    }
    Ok((cases, exceeded, used))
}
