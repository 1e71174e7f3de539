//! Builds the report of a snapshot: names, sums, quantiles, and the interval since an earlier one.

use std::collections::BTreeMap;

use fairlink_core::ClassId;
use fairlink_report::{ClassBounds, ClassReport, LinkReport, Rates, Terms};

use super::delays::DelayTally;
use super::generation::DelayTable;
use super::interval::Interval;
use super::observation::{Observation, Totals};
use super::snapshot::Snapshot;
use crate::gateway::stats::{GatewayExtension, GatewayState, GatewayStats, InterfaceStats, REMOVED, unsplittable};

impl Observation {
    /// Returns the statistics, with `interval` as a span if there is one.
    pub(crate) fn stats(&self, interval: Option<&Interval>) -> GatewayStats {
        self.stats_of(interval, |_| true)
    }

    /// Same as [`Observation::stats`], with the classes that `takes` selects.
    pub(crate) fn stats_of(&self, interval: Option<&Interval>, takes: impl Fn(ClassId) -> bool) -> GatewayStats {
        let Snapshot { generation, counted, .. } = &*self.snapshot;
        let mut counters: BTreeMap<ClassId, BTreeMap<String, u64>> = BTreeMap::new();
        for &(class, name, value) in counted {
            counters.entry(class).or_default().insert(name.to_owned(), value);
        }
        let of_link = counters.remove(&ClassId::ROOT).unwrap_or_default();
        let classes = generation
            .tree
            .classes()
            .filter(|&class| takes(class))
            .map(|class| ClassReport { counters: counters.remove(&class).unwrap_or_default(), ..self.class(class) });
        GatewayStats(LinkReport {
            name: Some(generation.link.clone()),
            scheduler: Some(generation.scheduler.name.to_owned()),
            capacity_bps: Some(generation.tree.link().rate.bps()),
            memory_bytes: None,
            bounds: None,
            counts: Some(self.totals[ClassId::ROOT.index()].counts),
            delay_s: Some(self.all_delays.delay()),
            rates: Rates::default(),
            utilisation: None,
            counters: of_link,
            classes: classes.collect(),
            spans: interval.map(|interval| interval.span(generation, &takes)).into_iter().collect(),
            notes: interval.and_then(Interval::note).into_iter().collect(),
            extension: GatewayExtension { gateway: self.state() },
        })
    }

    /// Returns the state of the gateway without its classes.
    fn state(&self) -> GatewayState {
        let Snapshot { generation, gateway, .. } = &*self.snapshot;
        let [output, input] = gateway.waits_for_carrier;
        let waiting =
            [(output, &generation.output), (input, &generation.input)].into_iter().filter(|(waits, _)| *waits);
        let removed = || class_report(REMOVED.to_owned(), &self.removed);
        GatewayState {
            generation: generation.number,
            input: generation.input.clone(),
            output: generation.output.clone(),
            uptime_s: gateway.uptime.0 as f64 / 1e9,
            balanced: self.is_balanced(),
            unreachable: generation.unreachable.iter().map(|class| generation.names[class.index()].clone()).collect(),
            kernel_dropped_packets: gateway.interfaces.kernel_dropped,
            shed_unknown_packets: gateway.shed_unknown,
            super_packets: gateway.interfaces.super_packets(),
            super_packets_by_reason: unsplittable(&gateway.interfaces),
            split_packets: gateway.splits.frames,
            segments: gateway.splits.packets,
            unreadable_packets: gateway.interfaces.unreadable,
            checksums_completed: gateway.interfaces.checksums_completed,
            checksums_passed_on: gateway.interfaces.checksums_passed_on,
            vlan_tags_restored: gateway.interfaces.vlan_tags_restored,
            interfaces: std::iter::zip([&generation.input, &generation.output], gateway.movers)
                .map(|(name, mover)| InterfaceStats::new(name, mover))
                .collect(),
            output_busy: gateway.output_busy,
            waiting_for_carrier: waiting.map(|(_, name)| name.clone()).collect(),
            leaves_without_delays: DelayTable::without(&generation.tree),
            reverse: gateway.reverse,
            time: gateway.time,
            workers: gateway.workers.all().to_vec(),
            profile: gateway.profile,
            memory: generation.memory,
            forfeited_s: gateway.forfeited.0 as f64 / 1e9,
            fail_open: gateway.fail_open.as_deref().map(|stats| stats.kept(gateway.upkeep)).unwrap_or_default(),
            liveness: gateway.liveness,
            pool_most_used: gateway.pool_most_used,
            removed: (self.removed.counts.received.packets > 0).then(removed),
        }
    }

    /// Returns the report of a class, without the scheduler's own counters.
    fn class(&self, class: ClassId) -> ClassReport {
        let generation = self.generation();
        let parent = generation.tree.parent(class).filter(|&parent| parent != ClassId::ROOT);
        ClassReport {
            parent: parent.map(|parent| generation.names[parent.index()].clone()),
            leaf: generation.tree.is_leaf(class),
            terms: Some(Terms::new(&generation.tree, class)),
            bounds: Some(ClassBounds { delay_bound_s: generation.delay_bound_s(class), ..ClassBounds::default() }),
            ..class_report(generation.names[class.index()].clone(), &self.totals[class.index()])
        }
    }
}

/// Returns the report of a leaf with this name.
fn class_report(name: String, total: &Totals) -> ClassReport {
    ClassReport {
        name,
        leaf: true,
        counts: Some(total.counts),
        delay_s: total.delays.as_ref().map(DelayTally::delay),
        ..ClassReport::default()
    }
}
