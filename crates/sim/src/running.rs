//! A running link: its traffic and measurements on one side, its scheduler and pace on the other, and its changes.

use std::sync::Arc;

use fairlink_core::{
    ClassId, Counters, Driver, DropReason, Leniency, Members, Metered, MeteredChange, NANOS_PER_SEC, Nanos, Pacer,
    Packet, Scheduler, SchedulerInfo, Wake,
};
use fairlink_traffic::Interval;

use crate::ideals::Ideals;
use crate::port::LinkPort;
use crate::report::{ChangeRun, Run};
use crate::scenario::{Options, Scenario, SimError};
use crate::summary::{self, Counted, summarise};

/// Calls of the driver at one instant without a packet moving, after which the scheduler counts as stalled.
const MAX_IDLE_TURNS: u32 = 1000;

/// The scheduler of a link, if it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The current scheduler; absent if it was passed ready-made.
    pub(crate) info: Option<&'static SchedulerInfo>,
    /// Treatment of settings that a scheduler cannot honour.
    pub(crate) leniency: Leniency,
}

/// A link that runs: its port, and the driver with its scheduler.
pub(crate) struct RunningLink<'a> {
    port: LinkPort<'a>,
    driver: Driver<Metered<Box<dyn Scheduler>>>,
    rules: Rules,
    now: Nanos,
    wake: Wake,
    idle_turns: u32,
    /// By class of the scenario: its counters before it was removed.
    gone: Vec<Counters>,
    /// Counters of schedulers at the time of their replacement.
    counted: Counted,
    changes: Vec<ChangeRun>,
}

impl<'a> RunningLink<'a> {
    /// Makes a link ready to start under `scheduler`.
    pub(crate) fn new(port: LinkPort<'a>, scheduler: Box<dyn Scheduler>, rules: Rules) -> Result<Self, SimError> {
        let scenario = port.scenario();
        if let Some(change) = scenario.changes.first()
            && rules.info.is_none()
            && change.scheduler.is_none()
        {
            return Err(SimError::NoScheduler { at: change.at });
        }
        // The driver wakes at whole nanoseconds. A catch-up of one keeps the remainders, so that the rate is exact.
        let tree = &scenario.tree;
        let driver = Driver::new(Metered::new(scheduler, tree)?, Pacer::new(tree.link().rate, Nanos(1)))?;
        let gone = vec![Counters::default(); scenario.names.len()];
        let (now, wake) = (Nanos::ZERO, Wake::OnArrival);
        Ok(Self {
            port,
            driver,
            rules,
            now,
            wake,
            idle_turns: 0,
            gone,
            counted: Counted::default(),
            changes: Vec::new(),
        })
    }

    /// Returns the time of the next event.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let due = match self.wake {
            Wake::At(at) => Some(at),
            Wake::OnArrival => self.port.wants_to_refill().then_some(self.now),
        };
        let mut next = due.map_or(u64::MAX, |at| at.0);
        next = next.min(self.port.next_event().map_or(u64::MAX, |at| at.0));
        next = next.min(self.next_change().map_or(u64::MAX, |at| at.0));
        // There are no events at the end of time, which is later than any run.
        (next < u64::MAX).then(|| Nanos(next).max(self.now))
    }

    /// Processes the events at `at`: first a due change of the link, then arrivals and departures.
    pub(crate) fn turn(&mut self, at: Nanos) -> Result<(), SimError> {
        while self.next_change().is_some_and(|change| change <= at) {
            self.change()?;
        }
        let moved = self.port.moved();
        self.wake = self.driver.turn(at, &mut self.port);
        self.port.check()?;
        self.idle_turns = if at > self.now || self.port.moved() > moved { 0 } else { self.idle_turns + 1 };
        if self.idle_turns > MAX_IDLE_TURNS {
            return Err(SimError::Stalled { at });
        }
        self.now = at;
        Ok(())
    }

    fn next_change(&self) -> Option<Nanos> {
        self.port.scenario().changes.get(self.changes.len()).map(|change| change.at)
    }

    /// Changes the link between two packets. The packet on the link leaves at the old rate.
    fn change(&mut self) -> Result<(), SimError> {
        let index = self.changes.len();
        let scenario = Arc::clone(self.port.scenario());
        let change = &scenario.changes[index];
        let at = change.at;
        let scheduler = change.scheduler.or(self.rules.info).ok_or(SimError::NoScheduler { at })?;
        let stages = scenario.stages();
        let (before, after) = (&stages[index], &stages[index + 1]);
        let (classes, new_ids) = (before.classes(), after.ids(scenario.names.len()));
        let heir = |old: usize| {
            let new = new_ids[classes[old].index()]?;
            (before.tree.is_leaf(ClassId(old as u32)) && after.tree.is_leaf(new)).then_some(new)
        };
        let survivors: Vec<Option<ClassId>> = (0..before.tree.len()).map(heir).collect();
        let prepared = MeteredChange::prepare(
            &fairlink_core::Change {
                scheduler,
                tree: after.tree,
                leniency: self.rules.leniency,
                survivors: &survivors,
            },
            Members::new(),
        );
        let refused = |error| SimError::Change { index, at, scheduler: scheduler.name, error };
        let prepared = prepared.map_err(refused)?;

        let mut done = ChangeRun {
            at_s: at.0 as f64 / NANOS_PER_SEC as f64,
            name: change.name.clone(),
            scheduler: scheduler.name.to_owned(),
            link_bps: after.tree.link().rate.bps() as f64,
            kept_classes: classes.iter().skip(1).filter(|class| new_ids[class.index()].is_some()).count(),
            ..ChangeRun::default()
        };
        done.removed_classes = before.tree.len() - 1 - done.kept_classes;
        done.new_classes = after.tree.len() - 1 - done.kept_classes;
        for &leaf in before.tree.leaves().iter().filter(|leaf| survivors[leaf.index()].is_none()) {
            let class = classes[leaf.index()];
            let queued = self.leave(leaf, class);
            if new_ids[class.index()].is_some() {
                done.split_classes += 1;
                done.split_packets += queued;
            } else {
                done.removed_packets += queued;
            }
        }

        summary::count(&mut self.counted, self.driver.scheduler(), &classes);
        let mut lost: Vec<(Packet, DropReason)> = Vec::new();
        let mut drops = |_, packet, reason| lost.push((packet, reason));
        drop(self.driver.scheduler_mut().commit(prepared, at, &mut drops));
        done.unfit_packets = lost.len() as u64 - done.removed_packets - done.split_packets;
        if after.tree.link().rate != before.tree.link().rate {
            self.driver.set_rate(after.tree.link().rate);
        }
        self.port.change(at, after, lost);
        self.rules.info = Some(scheduler);
        self.changes.push(done);
        self.port.check()
    }

    /// Keeps the counters of a leaf that is about to be removed, the class `class` of the scenario. Returns the number
    /// of its queued packets, which will be dropped.
    fn leave(&mut self, leaf: ClassId, class: ClassId) -> u64 {
        let metered = self.driver.scheduler();
        let queued = metered.class_backlog(leaf);
        let gone = &mut self.gone[class.index()];
        *gone += metered.counters(leaf);
        gone.dropped[DropReason::ClassRemoved.index()] += queued;
        queued.packets
    }

    /// Replaces the scenario from now on. The new one has one more change, at `at`. Averages cover each of `phases`.
    pub(crate) fn replan(&mut self, at: Nanos, scenario: &Arc<Scenario>, phases: &Arc<[Interval]>, options: &Options) {
        self.gone.resize(scenario.names.len(), Counters::default());
        self.port.replan(at, scenario, phases, options);
    }

    /// Returns the number of changes.
    pub(crate) fn changed(&self) -> usize {
        self.changes.len()
    }

    /// Returns the current scheduler and leniency.
    pub(crate) fn rules(&self) -> Rules {
        self.rules
    }

    /// Returns the link's port, mutable.
    pub(crate) fn port_mut(&mut self) -> &mut LinkPort<'a> {
        &mut self.port
    }

    /// Returns the link's port.
    pub(crate) fn port(&self) -> &LinkPort<'a> {
        &self.port
    }

    /// Reports progress to the observer, which may stop the run.
    pub(crate) fn progress(&mut self, now: Nanos) -> Result<(), SimError> {
        self.port.progress(now)
    }

    /// Returns the results until `end`.
    pub(crate) fn summary(&self, name: &str, options: &Options, ideals: &Ideals, end: Nanos) -> Result<Run, SimError> {
        let metered = self.driver.scheduler();
        #[cfg(feature = "invariants")]
        metered.check_conservation().map_err(|what| SimError::NotConserved { what })?;
        let accounts = summary::accounts(&self.port, metered, &self.gone, self.changes.len());
        let mut sum = Counters::default();
        accounts.iter().for_each(|(counters, _)| sum += *counters);
        if sum != metered.total() {
            let what = format!("the classes of all trees together {sum:?}, the total {:?}", metered.total());
            return Err(SimError::NotConserved { what });
        }
        let mut run = summarise(&self.port, &accounts, name, options, ideals, end);
        let mut counted = self.counted.clone();
        let stages = self.port.scenario().stages();
        summary::count(&mut counted, metered, &stages[self.changes.len()].classes());
        summary::report_counters(counted, self.port.scenario(), &mut run);
        run.changes.clone_from(&self.changes);
        run.notes.extend(self.changes.iter().map(ToString::to_string));
        Ok(run)
    }
}
