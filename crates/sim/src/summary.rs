//! From the sums of a run to its report. Only here do integers become floats.

use fairlink_core::{ClassId, Counters, DropReason, Hierarchy, Metered, NANOS_PER_SEC, Nanos, Scheduler};
use fairlink_traffic::Interval;

use crate::measure::{Delays, Spans};
use crate::port::{LinkPort, settled};
use crate::report::{ClassRate, ClassRun, Delay, InnerRun, Phase, Run, Window, Windows};
use crate::scenario::{Options, Scenario};

/// The report of a run in which what passed `scheduler` was counted.
pub(crate) fn summarise(
    port: &LinkPort<'_>,
    scheduler: &Metered<impl Scheduler>,
    name: &str,
    options: &Options,
    ideals: &[Vec<f64>],
) -> Run {
    let scenario = port.scenario();
    let (tree, warmup, end) = (&scenario.tree, scenario.warmup, scenario.duration);
    let rates = rates(tree, &port.spans().between(warmup, end), warmup, end);
    Run {
        scheduler: name.to_owned(),
        seed: scenario.seed,
        duration_s: seconds(end),
        warmup_s: seconds(warmup),
        link_bps: tree.link().rate.bps() as f64,
        link_utilisation: port.busy().0 as f64 / (end - warmup).0 as f64,
        further_links: Vec::new(),
        classes: leaf_runs(port, scheduler, &rates),
        inner_classes: inner(tree)
            .map(|class| InnerRun { name: scenario.names[class.index()].clone(), rate_bps: rates[class.index()] })
            .collect(),
        phases: phases(scenario, port.phases(), port.spans(), options, ideals),
        notes: Vec::new(),
        memory_bound_bytes: port.memory_bound() + counters_memory(tree),
        windows: port.windows().map(|spans| windows(scenario, spans)),
    }
}

fn leaf_runs(port: &LinkPort<'_>, scheduler: &Metered<impl Scheduler>, rates: &[f64]) -> Vec<ClassRun> {
    let leaf_run = |(&class, delays): (&ClassId, &Delays)| {
        let (counters, queued) = (scheduler.counters(class), scheduler.class_backlog(class));
        let dropped = counters.dropped_total();
        let quantile = |quantile| delays.quantile(quantile).map(|ns| seconds(Nanos(ns)));
        let drops = DropReason::ALL.iter().map(|&reason| (reason.as_str(), counters.dropped_for(reason).packets));
        ClassRun {
            name: port.scenario().names[class.index()].clone(),
            offered_packets: counters.received.packets,
            offered_bytes: counters.received.bytes,
            sent_packets: counters.sent.packets,
            sent_bytes: counters.sent.bytes,
            dropped_packets: dropped.packets,
            dropped_bytes: dropped.bytes,
            drops: drops.filter(|&(_, packets)| packets > 0).collect(),
            marked_packets: counters.marked.packets,
            queued_packets: queued.packets,
            queued_bytes: queued.bytes,
            rate_bps: rates[class.index()],
            delay_s: Delay {
                mean: delays.mean().map(|ns| ns / NANOS_PER_SEC as f64),
                p50: quantile(0.5),
                p99: quantile(0.99),
                p999: quantile(0.999),
                max: delays.max().map(|ns| seconds(Nanos(ns))),
            },
        }
    };
    port.scenario().tree.leaves().iter().zip(port.delays()).map(leaf_run).collect()
}

/// Bytes that the counters of all classes take, those of no class and of all together included.
fn counters_memory(tree: &Hierarchy) -> u64 {
    Counters::memory(tree) + 2 * size_of::<Counters>() as u64
}

fn phases(
    scenario: &Scenario,
    phases: &[Interval],
    spans: &Spans,
    options: &Options,
    ideals: &[Vec<f64>],
) -> Vec<Phase> {
    let tree = &scenario.tree;
    let phase = |(phase, ideal): (&Interval, &Vec<f64>)| {
        let (start, end) = (phase.start, phase.end);
        let from = settled(start, end, options);
        let whole = rates(tree, &spans.between(start, end), start, end);
        let settled = rates(tree, &spans.between(from, end), from, end);
        let rate = |class: ClassId| ClassRate {
            name: scenario.names[class.index()].clone(),
            rate_bps: whole[class.index()],
            settled_bps: settled[class.index()],
            ideal_bps: ideal[class.index()],
        };
        Phase {
            start_s: seconds(start),
            end_s: seconds(end),
            classes: tree.leaves().iter().copied().map(rate).collect(),
            inner_classes: inner(tree).map(rate).collect(),
        }
    };
    phases.iter().zip(ideals).map(phase).collect()
}

fn windows(scenario: &Scenario, spans: &Spans) -> Windows {
    let tree = &scenario.tree;
    let row = |(start, end, bytes): (Nanos, Nanos, &[u64])| Window {
        start_s: seconds(start),
        end_s: seconds(end),
        rates_bps: rates(tree, bytes, start, end).split_off(1),
    };
    Windows {
        names: scenario.names[1..].to_vec(),
        leaf: tree.classes().map(|class| tree.is_leaf(class)).collect(),
        rows: spans.rows().map(row).collect(),
    }
}

fn inner(tree: &Hierarchy) -> impl Iterator<Item = ClassId> {
    tree.classes().filter(|&class| !tree.is_leaf(class))
}

/// Rates in bit/s of all classes by id, from the bytes that the leaves sent between `start` and `end`.
fn rates(tree: &Hierarchy, leaf_bytes: &[u64], start: Nanos, end: Nanos) -> Vec<f64> {
    let mut bytes = vec![0u64; tree.len()];
    for (leaf, sent) in tree.leaves().iter().zip(leaf_bytes) {
        bytes[leaf.index()] = *sent;
    }
    for class in tree.classes().rev() {
        if let Some(parent) = tree.parent(class) {
            bytes[parent.index()] += bytes[class.index()];
        }
    }
    let time = seconds(end - start);
    bytes.iter().map(|&bytes| bytes as f64 * 8.0 / time).collect()
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / NANOS_PER_SEC as f64
}
