//! What is told of a snapshot: names, sums, quantiles, and what happened since an earlier one.

use std::collections::BTreeMap;

use fairlink_core::{Amount, ClassId};

use super::delays::DelayTally;
use super::interval::Interval;
use super::observation::{Observation, Totals};
use super::passage::DelayTable;
use super::snapshot::Snapshot;
use crate::gateway::stats::{ClassStats, GatewayStats, InterfaceStats, REASONS, REMOVED, unsplittable};

impl Observation {
    /// The statistics, with what happened in `interval` where there is such.
    pub(crate) fn stats(&self, interval: Option<&Interval>) -> GatewayStats {
        let Snapshot { passage, counted, gateway, .. } = &*self.snapshot;
        let mut counters: BTreeMap<ClassId, BTreeMap<String, u64>> = BTreeMap::new();
        for &(class, name, value) in counted {
            counters.entry(class).or_default().insert(name.to_owned(), value);
        }
        let of_link = counters.remove(&ClassId::ROOT).unwrap_or_default();
        let classes = passage.tree.classes().map(|class| {
            let counted = counters.remove(&class).unwrap_or_default();
            let of_interval = interval.and_then(|interval| interval.stats(class, passage));
            ClassStats { counters: counted, interval: of_interval, ..self.class(class) }
        });
        let classes = classes.collect();
        let total = &self.totals[ClassId::ROOT.index()];
        let [output, input] = gateway.waits_for_carrier;
        let waiting = [(output, &passage.output), (input, &passage.input)].into_iter().filter(|(waits, _)| *waits);
        GatewayStats {
            link: passage.link.clone(),
            generation: passage.generation,
            input: passage.input.clone(),
            output: passage.output.clone(),
            scheduler: passage.scheduler.name.to_owned(),
            link_bps: passage.tree.link().rate.bps(),
            uptime_s: gateway.uptime.0 as f64 / 1e9,
            interval_s: interval.map(|interval| interval.seconds),
            interval_late: interval.map(|interval| interval.late),
            interval: interval.and_then(|interval| interval.stats(ClassId::ROOT, passage)),
            notes: interval.and_then(Interval::note).into_iter().collect(),
            unreachable: passage.unreachable.iter().map(|class| passage.names[class.index()].clone()).collect(),
            received: total.received,
            sent: total.sent,
            dropped: total.dropped(),
            queued: total.queued,
            balanced: self.is_balanced(),
            kernel_dropped_packets: gateway.interfaces.kernel_dropped,
            super_packets: gateway.interfaces.super_packets(),
            super_packets_by_reason: unsplittable(&gateway.interfaces),
            split_packets: gateway.interfaces.split,
            segments: gateway.interfaces.segments,
            unreadable_packets: gateway.interfaces.unreadable,
            checksums_completed: gateway.interfaces.checksums_completed,
            checksums_passed_on: gateway.interfaces.checksums_passed_on,
            vlan_tags_restored: gateway.interfaces.vlan_tags_restored,
            interfaces: std::iter::zip([&passage.input, &passage.output], gateway.movers)
                .map(|(name, mover)| InterfaceStats::new(name, mover))
                .collect(),
            output_busy: gateway.output_busy,
            waiting_for_carrier: waiting.map(|(_, name)| name.clone()).collect(),
            delay_s: self.all_delays.stats(),
            leaves_without_delays: DelayTable::without(&passage.tree),
            reverse: gateway.reverse,
            time: gateway.time,
            profile: gateway.profile,
            memory: passage.memory,
            forfeited_s: gateway.forfeited.0 as f64 / 1e9,
            fail_open: gateway.fail_open.as_deref().map(|stats| stats.kept(gateway.upkeep)).unwrap_or_default(),
            liveness: gateway.liveness,
            pool_most_used: gateway.pool_most_used,
            counters: of_link,
            classes,
            removed: (self.removed.received.packets > 0).then(|| self.account(REMOVED.to_owned(), &self.removed)),
        }
    }

    /// One class, without what the scheduler counts of it and without an interval.
    fn class(&self, class: ClassId) -> ClassStats {
        let passage = self.passage();
        let parent = passage.tree.parent(class).filter(|&parent| parent != ClassId::ROOT);
        ClassStats {
            parent: parent.map(|parent| passage.names[parent.index()].clone()),
            leaf: passage.tree.is_leaf(class),
            guarantee_bps: passage.guarantee_bps(class),
            delay_bound_s: passage.delay_bound_s(class),
            ..self.account(passage.names[class.index()].clone(), &self.totals[class.index()])
        }
    }

    /// What was counted, under this name.
    fn account(&self, name: String, total: &Totals) -> ClassStats {
        let mut dropped_by_reason: BTreeMap<String, Amount> = BTreeMap::new();
        for (&reason, &dropped) in REASONS.iter().zip(&total.dropped).filter(|(_, dropped)| dropped.packets > 0) {
            dropped_by_reason.insert(reason.to_owned(), dropped);
        }
        ClassStats {
            name,
            parent: None,
            leaf: true,
            guarantee_bps: 0,
            delay_bound_s: None,
            received: total.received,
            sent: total.sent,
            dropped: total.dropped(),
            queued: total.queued,
            dropped_by_reason,
            marked: total.marked,
            delay_s: total.delays.as_ref().and_then(DelayTally::stats),
            counters: BTreeMap::new(),
            interval: None,
        }
    }
}
