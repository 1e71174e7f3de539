//! Invariants of every moment of every run, on random trees: the measured fairness and gap within their bounds,
//! equation (12), Theorem 2 and Lemma 1.

use std::collections::BTreeMap;

use fairlink_core::schedulers::hls::{CREDITS_PER_BYTE, Hls, RunWeights, TwoPhase};
use fairlink_core::{
    ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, LinkConfig, Nanos, Packet, QueueLimits, Rate, Scheduler,
    Share,
};
use fairlink_sim::{Measured, Options};
use fairlink_theory::bounds::HlsBounds;
use fairlink_theory::to_f64;
use fairlink_theory::weights::Weights;

use crate::claims::random::{RandomClass, SeededRng, classes, scenario};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

/// Length of a run of `hls.measured`, in seconds: some hundred packets of each leaf.
const SECONDS: f64 = 0.4;
/// Largest packet of the trees that are driven step by step, in bytes.
const LARGEST: u32 = 1000;
/// Steps of a case: arrivals of a packet, or some packets sent.
const STEPS: u64 = 400;

/// Tests Definition 1 and the transmission gap beside Theorems 3 and 5, on random trees and traffic.
pub(super) fn measured(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let fairness = fairness(lab)?;
    let gaps = gaps(lab)?;
    let rows = vec![
        Row::never("classes whose measured fairness exceeds Theorem 3", fairness.exceeded),
        Row::never("leaves whose measured gap exceeds Theorem 5", gaps.exceeded),
        Row::new("largest fairness over its bound", Unit::Part, Expected::Between(0.05, 1.0), fairness.largest()),
        Row::new("largest gap over its bound", Unit::Part, Expected::Between(0.05, 1.0), gaps.largest()),
    ];
    let note = format!(
        "Fairness by Definition 1, over all intervals in which two siblings are backlogged, simulated: {} random trees of 2 to 14 classes on up to \
         four levels, weights 1 to 2000, packets of 1 to 1500 B, each leaf always backlogged, bursty, at random or silent for a while; {} classes \
         compared. The gap by Definition 2, from one visit to the next: {} trees of 2 to 30 classes, driven packet by packet. A visit may send \
         nothing, so visits are counted in the first form of the algorithm (hls.lemma1).",
        fairness.cases, fairness.compared, gaps.cases
    );
    let figure = shares(&[fairness.used.clone(), gaps.used]);
    let mut finding = Finding::new(note, rows).with_figure(figure);
    finding.reruns.extend(
        fairness
            .worst
            .map(|workload| Workload { name: "worst.toml".into(), ..workload }.rerun("--scheduler hls --metrics")),
    );
    Ok(finding)
}

/// The used part of a bound.
#[derive(Default)]
struct Used {
    cases: u64,
    compared: usize,
    exceeded: usize,
    /// The largest part by tree.
    used: Vec<f64>,
    /// The tree with the largest of all.
    worst: Option<Workload>,
}

impl Used {
    fn largest(&self) -> f64 {
        self.used.iter().copied().fold(0.0, f64::max)
    }
}

fn fairness(lab: &Lab<'_>) -> Result<Used, ClaimError> {
    let mut all = Used { cases: lab.by_effort(120, 3_000), ..Used::default() };
    let options = Options { metrics: true, ..Options::default() };
    for case in 0..all.cases {
        let mut dice = SeededRng::new(2, case);
        let tree = classes(&mut dice, 14, 4);
        let workload = scenario(&mut dice, format!("tree-{case}.toml"), &tree, SECONDS);
        let runs = lab.watched(&workload, &["hls"], 1, &options, None)?;
        let mut largest = None::<f64>;
        for class in runs.iter().flat_map(|run| &run.metrics) {
            let Some(Measured { measured, bound: Some(bound), .. }) = class.fairness_bytes else { continue };
            all.compared += 1;
            all.exceeded += usize::from(measured > bound);
            largest = Some(largest.unwrap_or(0.0).max(measured / bound));
        }
        if largest.is_some_and(|part| part > all.largest()) {
            all.worst = Some(workload);
        }
        all.used.extend(largest);
    }
    Ok(all)
}

fn gaps(lab: &Lab<'_>) -> Result<Used, ClaimError> {
    let mut all = Used { cases: lab.by_effort(200, 5_000), ..Used::default() };
    for case in 0..all.cases {
        let mut watch: Option<Result<Visits, ClaimError>> = None;
        drive(lab, 6, case, |tree, _, event| {
            if let Ok(watch) = watch.get_or_insert_with(|| Visits::new(tree)) {
                watch.record(event);
            }
        })?;
        let Some(watch) = watch.transpose()? else { continue };
        all.compared += watch.longest.iter().filter(|&&bytes| bytes > 0).count();
        all.exceeded += watch.longest.iter().filter(|&&bytes| bytes as f64 > watch.bound).count();
        let longest = watch.longest.iter().max().copied().unwrap_or(0);
        all.used.push(longest as f64 / watch.bound);
    }
    Ok(all)
}

/// Bytes of others between two visits of each leaf, in the first form of the algorithm. The link sends without a pause, so that bytes
/// are time.
struct Visits {
    form: TwoPhase,
    leaves: Vec<ClassId>,
    lens: BTreeMap<u64, u32>,
    queued: Vec<u64>,
    since: Vec<u64>,
    longest: Vec<u64>,
    serving: Option<ClassId>,
    /// Bound of Theorem 5, in bytes.
    bound: f64,
}

impl Visits {
    fn new(tree: &Hierarchy) -> Result<Self, ClaimError> {
        let (weights, credits_per_byte) = run_weights(tree)?;
        let bounds = HlsBounds::new(tree, &weights, credits_per_byte, |_| LARGEST).map_err(ClaimError::other)?;
        let link = tree.link().rate;
        let nothing = || vec![0; tree.len()];
        Ok(Self {
            form: TwoPhase::new(tree).map_err(ClaimError::other)?,
            leaves: tree.leaves().to_vec(),
            lens: BTreeMap::new(),
            queued: nothing(),
            since: nothing(),
            longest: nothing(),
            serving: None,
            bound: to_f64(&bounds.transmission_gap(link)) * link.bps() as f64 / 8.0,
        })
    }

    fn record(&mut self, event: &Event) {
        match *event {
            Event::Queued(class, handle, len) => {
                self.form.enqueue(class, handle, len);
                self.lens.insert(handle, len);
                self.queued[class.index()] += 1;
            }
            Event::Sent(_) => {
                let sent = self.form.dequeue();
                for class in self.form.take_visits() {
                    let since = std::mem::take(&mut self.since[class.index()]);
                    let longest = &mut self.longest[class.index()];
                    *longest = since.max(*longest);
                    self.serving = Some(class);
                }
                let Some((class, handle)) = sent else { return };
                let len = u64::from(self.lens.remove(&handle).unwrap_or(0));
                self.queued[class.index()] -= 1;
                for &leaf in &self.leaves {
                    let waits = self.serving != Some(leaf) && self.queued[leaf.index()] > 0;
                    self.since[leaf.index()] = if waits { self.since[leaf.index()] + len } else { 0 };
                }
            }
        }
    }
}

/// Returns the weights that HLS runs with.
pub(super) fn run_weights(tree: &Hierarchy) -> Result<(Weights, u64), ClaimError> {
    let run = RunWeights::for_tree(tree).map_err(ClaimError::other)?;
    let units = (0..tree.len()).map(|class| run.credits(ClassId(class as u32))).collect();
    Ok((Weights::new(tree, units, CREDITS_PER_BYTE).map_err(ClaimError::other)?, CREDITS_PER_BYTE))
}

/// The part of its bound that the worst class of each tree used, sorted.
fn shares(used: &[Vec<f64>; 2]) -> Figure {
    let mut panel =
        Panel::new("", Axis::linear("share of trees", 0.0, 1.0), Axis::linear("measured / bound", 0.0, 1.05));
    for (place, (name, values)) in ["fairness (Theorem 3)", "gap (Theorem 5)"].into_iter().zip(used).enumerate() {
        let mut values = values.clone();
        values.sort_by(f64::total_cmp);
        let count = values.len().max(1) as f64;
        let points = values.iter().enumerate().map(|(n, &value)| ((n + 1) as f64 / count, value)).collect();
        panel.series.push(Series::line(name, points, SeriesStyle::nth(place)));
    }
    panel.series.push(Series::line("bound", vec![(0.0, 1.0), (1.0, 1.0)], SeriesStyle::reference()));
    Figure::new("What the worst class of each random tree used of its bound", vec![panel])
}

/// Makes a tree to be driven step by step.
fn tree(classes: &[RandomClass]) -> Result<Hierarchy, ClaimError> {
    let link = LinkConfig::new(Rate::from_bps(1_000_000_000).map_err(ClaimError::other)?);
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: LARGEST, ..link });
    let mut ids = Vec::new();
    for class in classes {
        let config = ClassConfig {
            share: Some(Share::Weight(class.weight)),
            limits: QueueLimits { packets: 50, bytes: u32::MAX },
            ..ClassConfig::default()
        };
        let parent = class.parent.map_or(ClassId::ROOT, |parent| ids[parent]);
        ids.push(tree.add(parent, config).map_err(ClaimError::other)?);
    }
    tree.build().map_err(ClaimError::other)
}

/// An event of a step.
enum Event {
    /// A packet that fits: its class, handle and length in bytes.
    Queued(ClassId, u64, u32),
    /// The class and the handle of the sent packet, if any.
    Sent(Option<(ClassId, u64)>),
}

/// Drives HLS on a random tree with random arrivals and asks `each` after every event.
fn drive(
    lab: &Lab<'_>,
    salt: u64,
    case: u64,
    mut each: impl FnMut(&Hierarchy, &Hls, &Event),
) -> Result<(), ClaimError> {
    lab.go_on()?;
    let mut dice = SeededRng::new(salt, case);
    let tree = tree(&classes(&mut dice, 30, 5))?;
    let mut hls = Hls::new(&tree).map_err(ClaimError::other)?;
    let mut dropped = Vec::new();
    let mut sink = |_: Nanos, packet: Packet, _: DropReason| dropped.push(packet.handle);
    for handle in 0..STEPS {
        if !dice.one_in(4) {
            let class = tree.leaves()[dice.below(tree.leaves().len() as u64) as usize];
            let len = if dice.one_in(2) { LARGEST } else { dice.between(1, u64::from(LARGEST)) as u32 };
            let full = hls.class_backlog(class).packets >= 50;
            hls.enqueue(Nanos::ZERO, Packet { handle, len, class }, &mut sink);
            if !full {
                each(&tree, &hls, &Event::Queued(class, handle, len));
            }
        } else {
            for _ in 0..dice.between(1, 11) {
                let sent = match hls.dequeue(Nanos::ZERO, &mut sink) {
                    Dequeued::Packet(packet) => Some((packet.class, packet.handle)),
                    Dequeued::Idle => None,
                    Dequeued::WaitUntil(_) => return Err(ClaimError::other("hls waits without a ceiling")),
                };
                each(&tree, &hls, &Event::Sent(sent));
            }
        }
    }
    Ok(())
}

/// The number of cases, as a sentence.
fn driven(cases: u64, events: u64) -> String {
    format!(
        "{cases} random trees of 2 to 30 classes on up to five levels, weights 1 to 2000, packets of 1 to {LARGEST} B that come and go: {events} \
         events, looked at one by one."
    )
}

/// Tests Equation (12).
pub(super) fn invariant(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(200, 5_000);
    let (mut events, mut broken, mut first) = (0u64, 0usize, None);
    for case in 0..cases {
        drive(lab, 3, case, |_, hls, _| {
            events += 1;
            if let Err(what) = hls.check_invariants() {
                broken += 1;
                first.get_or_insert(what);
            }
        })?;
    }
    let mut note = driven(cases, events);
    note += " After each, the sum of all balances and residuals is compared with Q* of the classes that are active, in whole credits; so are \
             Lemma 4 (balances of leaves) and the signs of all balances.";
    if let Some(first) = first {
        note += &format!(" The first that was broken: {first}.");
    }
    Ok(Finding::new(note, vec![Row::never("events after which equation (12) does not hold", broken)]))
}

/// Tests Theorem 2.
pub(super) fn theorem2(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(200, 5_000);
    let (mut events, mut main, mut without, mut jumps) = (0u64, 0u64, 0u64, 0usize);
    for case in 0..cases {
        let (mut rounds, mut empty) = (0, 0);
        let mut last = 0;
        drive(lab, 4, case, |_, hls, event| {
            events += 1;
            let now = hls.rounds();
            (rounds, empty) = (now.main, now.main_without_packet);
            // Between two packets at most one main round begins, or one went by without a packet. A round that begins
            // when all have gone idle ends there.
            if let Event::Sent(Some(_)) = event {
                jumps += usize::from(now.main > last + 1);
            }
            last = now.main;
        })?;
        main += rounds;
        without += empty;
    }
    let mut note = driven(cases, events);
    note += &format!(" There were {main} main rounds. Q* is the lower bound of the theorem.");
    let rows = vec![
        Row::never("main rounds that sent nothing", without as usize),
        Row::never("packets with two new main rounds before them", jumps),
    ];
    Ok(Finding::new(note, rows))
}

/// Tests Lemma 1.
pub(super) fn lemma1(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(200, 5_000);
    let (mut events, mut sent, mut different, mut trouble) = (0u64, 0u64, 0usize, None);
    for case in 0..cases {
        let mut first_form: Option<TwoPhase> = None;
        drive(lab, 5, case, |tree, _, event| {
            events += 1;
            if first_form.is_none() {
                match TwoPhase::new(tree) {
                    Ok(made) => first_form = Some(made),
                    Err(error) => trouble = Some(ClaimError::other(error)),
                }
            }
            let Some(form) = &mut first_form else { return };
            match event {
                Event::Queued(class, handle, len) => form.enqueue(*class, *handle, *len),
                Event::Sent(packet) => {
                    sent += u64::from(packet.is_some());
                    different += usize::from(form.dequeue() != *packet);
                }
            }
        })?;
    }
    if let Some(trouble) = trouble {
        return Err(trouble);
    }
    let mut note = driven(cases, events);
    note += &format!(
        " The scheduler, whose leaves replenish themselves when they are visited, is held against one that replenishes all classes at the start \
         of each round, written from Section V-A: {sent} packets."
    );
    Ok(Finding::new(note, vec![Row::never("packets that leave in another order", different)]))
}
