//! From the sums of a run to its report. Only here do integers become floats.

use std::collections::{BTreeMap, HashMap};

use fairlink_core::{Amount, ClassId, Counters, Metered, NANOS_PER_SEC, Nanos, Scheduler};
use fairlink_report::{ClassReport, ClassSpan, Counts, Rates, Terms};
use fairlink_traffic::Interval;

use crate::change::Stage;
use crate::ideals::Ideals;
use crate::measure::{Delays, Spans};
use crate::port::{LinkPort, settled};
use crate::report::{ClosedRun, LeafWindow, Phase, Run, Window, Windows};
use crate::scenario::{Options, Scenario};
use crate::series::{Cell, Series};
use crate::shares;

/// Most leaves whose distributions of delays are kept in a report; some 5 kB each.
const MAX_DISTRIBUTIONS: usize = 512;

/// By leaf, in the order of [`Scenario::roles`]: its counters, and its backlog. `gone` has, by class of the scenario,
/// the counters before classes were removed. `stage` is the number of the stage in force.
pub(crate) fn accounts(
    port: &LinkPort<'_>,
    scheduler: &Metered<impl Scheduler>,
    gone: &[Counters],
    stage: usize,
) -> Vec<(Counters, Amount)> {
    let scenario = port.scenario();
    let stages = scenario.stages();
    let ids = stages[stage].leaf_ids(scenario.names.len());
    let account = |class: &ClassId| {
        let mut counters = gone[class.index()];
        match ids[class.index()] {
            None => (counters, Amount::ZERO),
            Some(id) => {
                counters += scheduler.counters(id);
                (counters, scheduler.class_backlog(id))
            }
        }
    };
    scenario.roles().0.iter().map(account).collect()
}

/// Counters of schedulers by class of the scenario, the root being the link, and by name.
pub(crate) type Counted = BTreeMap<ClassId, BTreeMap<&'static str, u64>>;

/// Adds the counters of `scheduler`. `classes` maps ids to classes of the scenario.
pub(crate) fn count(counted: &mut Counted, scheduler: &impl Scheduler, classes: &[ClassId]) {
    scheduler.for_each_counter(0..classes.len(), &mut |id, name, value| {
        *counted.entry(classes[id.index()]).or_default().entry(name).or_default() += value;
    });
}

/// Adds the counters to the report.
pub(crate) fn report_counters(mut counted: Counted, scenario: &Scenario, run: &mut Run) {
    let named =
        |counters: BTreeMap<&str, u64>| counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    run.counters = named(counted.remove(&ClassId::ROOT).unwrap_or_default());
    let (leaves, inner) = scenario.roles();
    for (class, leaf) in run.classes.iter_mut().zip(&leaves) {
        class.counters = named(counted.get(leaf).cloned().unwrap_or_default());
    }
    for (class, id) in run.inner_classes.iter_mut().zip(&inner) {
        class.counters = named(counted.get(id).cloned().unwrap_or_default());
    }
}

/// Makes the report of a run until `end` with these accounts of its leaves.
pub(crate) fn summarise(
    port: &LinkPort<'_>,
    accounts: &[(Counters, Amount)],
    name: &str,
    options: &Options,
    ideals: &Ideals,
    end: Nanos,
) -> Run {
    let scenario = port.scenario();
    let trees = Trees::new(port);
    let (warmup, spans) = (scenario.warmup, port.spans(end));
    let rates = trees.sent(&spans, warmup, end);
    let inner_run = |class: &ClassId| ClassReport {
        rates: Rates { rate_bps: Some(rates.inner[class.index()]), ..Rates::default() },
        ..trees.class(scenario, *class, false)
    };
    // While the link changes there are counters for two trees.
    let counters = trees.stages.iter().map(|stage| Counters::memory(stage.tree)).max().unwrap_or(0);
    let counters = counters * if scenario.changes.is_empty() { 1 } else { 2 } + 2 * size_of::<Counters>() as u64;
    let classes = leaf_runs(port, &trees, accounts, &rates);
    let mut inner_classes: Vec<ClassReport> = trees.inner.iter().map(inner_run).collect();
    add_up(&classes, &mut inner_classes);
    let lost: u64 = classes.iter().filter_map(|class| class.lost_at_source_packets).sum();
    let recorded = port.windows().is_some() && classes.len() <= MAX_DISTRIBUTIONS;
    let distributions = |delays: &Delays| delays.distribution().unwrap_or_default();
    let note =
        || format!("{lost} packets were lost by the sources' own shapers and policers, before they were offered");
    Run {
        scheduler: name.to_owned(),
        seed: scenario.seed,
        sweep: BTreeMap::new(),
        duration_s: seconds(end),
        warmup_s: seconds(warmup),
        link_bps: scenario.tree.link().rate.bps() as f64,
        link_utilisation: port.busy(end).0 as f64 / (end - warmup).0 as f64,
        further_links: Vec::new(),
        closed: closed(port, end),
        routes: Vec::new(),
        names: scenario.names[1..].to_vec(),
        distributions: if recorded { port.delays().iter().map(distributions).collect() } else { Vec::new() },
        classes,
        inner_classes,
        phases: phases(port, &trees, options, ideals, (&spans, end)),
        changes: Vec::new(),
        counters: BTreeMap::new(),
        misplaced: port.misplaced().map(|meter| meter.report(&scenario.names)),
        metrics: port.metrics().map_or_else(Vec::new, |metrics| metrics.report(end, &scenario.names)),
        notes: (lost > 0).then(note).into_iter().collect(),
        memory_bound_bytes: port.memory_bound() + counters,
        windows: port.windows().map(|series| windows(scenario, &trees, series, end)),
    }
}

fn leaf_runs(
    port: &LinkPort<'_>,
    trees: &Trees<'_>,
    accounts: &[(Counters, Amount)],
    rates: &Sent,
) -> Vec<ClassReport> {
    let lost = port.lost_at_sources();
    let leaf_run = |((&class, (counters, queued)), delays): ((&ClassId, &(Counters, Amount)), &Delays)| ClassReport {
        counts: Some(Counts::of_scheduler(counters, *queued)),
        lost_at_source_packets: Some(lost[class.index()]).filter(|&lost| lost > 0),
        delay_s: Some(delays.summary()),
        rates: Rates { rate_bps: Some(rates.leaves[class.index()]), ..Rates::default() },
        ..trees.class(port.scenario(), class, true)
    };
    trees.leaves.iter().zip(accounts).zip(port.delays()).map(leaf_run).collect()
}

/// Gives inner classes the sums of the leaves below them.
fn add_up(leaves: &[ClassReport], inner: &mut [ClassReport]) {
    let places: HashMap<String, usize> =
        inner.iter().enumerate().map(|(place, class)| (class.name.clone(), place)).collect();
    for leaf in leaves {
        let (Some(counts), mut parent) = (&leaf.counts, leaf.parent.as_ref()) else { continue };
        let mut above = Vec::new();
        while let Some(place) = parent.and_then(|parent| places.get(parent)).filter(|place| !above.contains(*place)) {
            above.push(*place);
            parent = inner[*place].parent.as_ref();
        }
        for place in above {
            match &mut inner[place].counts {
                Some(sum) => *sum += counts,
                none => *none = Some(*counts),
            }
        }
    }
}

/// Returns the results of the link's sources that receive feedback.
fn closed(port: &LinkPort<'_>, end: Nanos) -> Vec<ClosedRun> {
    let scenario = port.scenario();
    let closed = scenario.sources.iter().enumerate().filter_map(|(index, source)| {
        let report = port.closed(index as u32)?;
        Some(ClosedRun::new(scenario.names[source.class.index()].clone(), report, seconds(end)))
    });
    closed.collect()
}

fn phases(
    port: &LinkPort<'_>,
    trees: &Trees<'_>,
    options: &Options,
    ideals: &Ideals,
    (spans, until): (&Spans, Nanos),
) -> Vec<Phase> {
    let names = &port.scenario().names;
    let phase = |((phase, fair), own): ((&Interval, &Vec<f64>), &shares::Rates)| {
        let (start, end) = (phase.start, phase.end.min(until));
        let from = settled(start, end, options);
        let whole = trees.sent(spans, start, end);
        let settled = trees.sent(spans, from, end);
        let leaf_now = trees.leaves_at(start);
        let rates = |class: &ClassId, whole: &[f64], settled: &[f64], there: bool| {
            let if_there = |rates: &[f64]| if there { rates[class.index()] } else { 0.0 };
            ClassSpan {
                name: names[class.index()].clone(),
                rates: Rates {
                    demand_bps: None,
                    rate_bps: Some(whole[class.index()]),
                    settled_bps: Some(settled[class.index()]),
                    fair_bps: Some(if_there(fair)),
                    ideal_bps: own.as_ref().ok().map(|own| if_there(own)),
                },
                ..ClassSpan::default()
            }
        };
        let leaf = |class: &ClassId| rates(class, &whole.leaves, &settled.leaves, leaf_now[class.index()]);
        let inner = |class: &ClassId| rates(class, &whole.inner, &settled.inner, !leaf_now[class.index()]);
        Phase {
            start_s: seconds(start),
            end_s: seconds(end),
            classes: trees.leaves.iter().map(leaf).collect(),
            inner_classes: trees.inner.iter().map(inner).collect(),
        }
    };
    let begun = port.phases().iter().take_while(|phase| phase.start < until);
    begun.zip(&ideals.fair).zip(&ideals.own).map(phase).collect()
}

fn windows(scenario: &Scenario, trees: &Trees<'_>, series: &Series, until: Nanos) -> Windows {
    let mut leaf = vec![false; scenario.names.len()];
    trees.leaves.iter().for_each(|class| leaf[class.index()] = true);
    let row = |(start, end, bytes, cells): (Nanos, Nanos, &[u64], Vec<Cell>)| {
        let Sent { leaves: rates, inner } = trees.sent_in(&[(start, bytes)], end - start);
        let mut leaves = vec![LeafWindow::default(); scenario.names.len()];
        for (class, cell) in trees.leaves.iter().zip(&cells) {
            leaves[class.index()] = leaf_window(cell, end - start);
        }
        Window {
            start_s: seconds(start),
            end_s: seconds(end),
            rates_bps: rates.into_iter().zip(inner).skip(1).map(|(leaf, inner)| leaf + inner).collect(),
            leaves: leaves.split_off(1),
        }
    };
    let ended = series.rows().filter(|&(_, end, ..)| end <= until);
    Windows { names: scenario.names[1..].to_vec(), leaf: leaf.split_off(1), rows: ended.map(row).collect() }
}

fn leaf_window(cell: &Cell, window: Nanos) -> LeafWindow {
    LeafWindow {
        sent_packets: cell.left,
        dropped_packets: cell.dropped,
        delay_mean_s: cell.delay_mean().map(|ns| ns / NANOS_PER_SEC as f64),
        delay_max_s: (cell.left > 0).then(|| seconds(Nanos(cell.delay_max))),
        queue_mean_packets: cell.queue_mean(window),
        queue_max_packets: cell.queue_max,
    }
}

/// The trees of a run, and the positions of the scenario's classes in them.
struct Trees<'a> {
    stages: Vec<Stage<'a>>,
    /// By stage and id in its tree: the scenario's class.
    classes: Vec<Vec<ClassId>>,
    /// By class of the scenario: the last stage that has it, and its id there.
    homes: Vec<Option<(usize, ClassId)>>,
    /// By class of the scenario: its place among the leaves.
    place: &'a [usize],
    /// The classes that are leaves at some time.
    leaves: Vec<ClassId>,
    /// The classes that have others below them at some time.
    inner: Vec<ClassId>,
}

/// Rates in bit/s by class of the scenario: as a leaf, and as the sum of the leaves below it.
struct Sent {
    leaves: Vec<f64>,
    inner: Vec<f64>,
}

impl<'a> Trees<'a> {
    fn new(port: &'a LinkPort<'_>) -> Self {
        let stages = port.scenario().stages();
        let classes: Vec<Vec<ClassId>> = stages.iter().map(Stage::classes).collect();
        let mut homes = vec![None; port.scenario().names.len()];
        for (stage, classes) in classes.iter().enumerate() {
            for (id, class) in classes.iter().enumerate() {
                homes[class.index()] = Some((stage, ClassId(id as u32)));
            }
        }
        let (leaves, inner) = port.scenario().roles();
        Self { stages, classes, homes, place: port.place(), leaves, inner }
    }

    /// Returns name, parent and terms of a class of the scenario from the last tree that has it.
    fn class(&self, scenario: &Scenario, class: ClassId, leaf: bool) -> ClassReport {
        let place = self.homes[class.index()].map(|(stage, id)| (self.stages[stage].tree, &self.classes[stage], id));
        let parent = place.and_then(|(tree, classes, id)| Some(classes[tree.parent(id)?.index()]));
        ClassReport {
            name: scenario.names[class.index()].clone(),
            parent: parent
                .filter(|&parent| parent != ClassId::ROOT)
                .map(|parent| scenario.names[parent.index()].clone()),
            leaf,
            terms: place.map(|(tree, _, id)| Terms::new(tree, id)),
            ..ClassReport::default()
        }
    }

    fn stage_at(&self, at: Nanos) -> usize {
        self.stages.iter().rposition(|stage| stage.start <= at).unwrap_or(0)
    }

    /// By class of the scenario: true if it is a leaf at `at`.
    fn leaves_at(&self, at: Nanos) -> Vec<bool> {
        self.stages[self.stage_at(at)].leaf_ids(self.place.len()).iter().map(Option::is_some).collect()
    }

    /// Rates between `start` and `end`, which are cuts of `spans`, as the changes in between are.
    fn sent(&self, spans: &Spans, start: Nanos, end: Nanos) -> Sent {
        let parts = self.stages.iter().filter(|stage| stage.start < end && start < stage.end);
        let parts: Vec<_> = parts
            .map(|stage| {
                let from = start.max(stage.start);
                (from, spans.between(from, end.min(stage.end)))
            })
            .collect();
        let parts: Vec<_> = parts.iter().map(|(from, bytes)| (*from, &bytes[..])).collect();
        self.sent_in(&parts, end - start)
    }

    /// Rates over `time`, from the bytes that each leaf sent from some instants on, up to a change at most.
    fn sent_in(&self, parts: &[(Nanos, &[u64])], time: Nanos) -> Sent {
        let mut leaves = vec![0u64; self.place.len()];
        let mut inner = leaves.clone();
        for &(from, sent) in parts {
            let stage = self.stage_at(from);
            let (tree, classes) = (self.stages[stage].tree, &self.classes[stage]);
            for class in &self.leaves {
                leaves[class.index()] += sent[self.place[class.index()]];
            }
            let mut below = vec![0u64; tree.len()];
            for class in tree.classes().rev() {
                if tree.is_leaf(class) {
                    below[class.index()] = sent[self.place[classes[class.index()].index()]];
                } else {
                    inner[classes[class.index()].index()] += below[class.index()];
                }
                if let Some(parent) = tree.parent(class) {
                    below[parent.index()] += below[class.index()];
                }
            }
        }
        let time = seconds(time);
        let rates = |bytes: Vec<u64>| bytes.into_iter().map(|bytes| bytes as f64 * 8.0 / time).collect();
        Sent { leaves: rates(leaves), inner: rates(inner) }
    }
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / NANOS_PER_SEC as f64
}
