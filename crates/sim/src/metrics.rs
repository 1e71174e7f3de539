//! Measurements of a scheduler's promises, taken during the run and printed beside the bounds. Memory does not grow
//! with the run.
//!
//! Memory: some hundred bytes per class, 128 B for each pair of siblings that is compared (16 MB at most), a kilobyte for each class whose convex
//! curve has many starts.

use fairlink_core::{ClassId, Fairness, Hierarchy, NANOS_PER_SEC, Nanos, SchedulerInfo};
use fairlink_theory::deadlines::DeadlineMeter;
use fairlink_theory::fairness::FairnessMeter;
use fairlink_theory::fluid::{GpsMeter, HmmMeter};
use fairlink_theory::gap::GapMeter;
use fairlink_theory::latency::DelayBound;
use fairlink_theory::promises::{PromiseError, Promised, admission, promised};
use fairlink_theory::to_f64;
use fairlink_theory::weights::{Weights, WeightsError};
use fairlink_theory::worst_case::WorstCaseMeter;
use fairlink_traffic::{ArrivalLimit, Burstiness};

use crate::report::{ClassMetrics, Measured};

/// All instruments of a link.
pub(crate) struct Metrics {
    info: Option<&'static SchedulerInfo>,
    promised: Promised,
    /// By class, packets queued.
    queued: Vec<u64>,
    fairness: FairnessMeter<'static>,
    /// By class, true for leaves whose packets are sent ahead of others and do not count as backlog in the fairness that is promised.
    ahead: Vec<bool>,
    gaps: GapMeter,
    worst_case: WorstCaseMeter,
    gps: GpsMeter,
    hmm: Option<HmmMeter>,
    deadlines: DeadlineMeter,
    /// By class: at the rates of its buckets, and the bursts that those allow.
    bursts: Vec<Vec<(Burstiness, u64, Option<u64>)>>,
    /// By class: the longest delay of a packet.
    delays: Vec<Option<Nanos>>,
}

/// The reason why there are no measurements.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetricsError {
    #[error(transparent)]
    Promise(#[from] PromiseError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

impl Metrics {
    /// Makes the metrics of an empty link. Without `info`, or with `bounds` unset, there are no bounds.
    pub(crate) fn new(
        tree: &Hierarchy,
        info: Option<&'static SchedulerInfo>,
        bounds: bool,
    ) -> Result<Self, MetricsError> {
        let nothing = || Promised {
            weights: vec![None; tree.len()],
            worst_case: vec![None; tree.len()],
            delays: vec![None; tree.len()],
            ..Promised::default()
        };
        let mut found = info.map_or_else(|| Ok(nothing()), |info| promised(info, tree))?;
        let weights = match found.run.take() {
            Some(run) => run,
            None => Weights::as_written(tree, 1)?,
        };
        let limited = held_back(tree);
        let leaves_only = found.fairness.as_ref().is_some_and(|fairness| fairness.leaves_only);
        let compared = |class: ClassId| !limited[class.index()] && (!leaves_only || tree.is_leaf(class));
        let delay = info.and_then(|info| info.promises.delay);
        let lines = matches!(delay, Some(fairlink_core::Delay::Curves { lines: true }));
        let bursts = (0..tree.len()).map(|index| bursts(tree, ClassId(index as u32), found.delays[index].as_ref()));
        let bursts = bursts.collect();
        let by_clocks = info.is_some_and(|info| matches!(info.promises.fairness, Some(Fairness::Clocks(_))));
        let is_ahead = |index: usize| by_clocks && tree.config(ClassId(index as u32)).latency_critical;
        Ok(Self {
            ahead: (0..tree.len()).map(is_ahead).collect(),
            info: info.filter(|_| bounds),
            promised: if bounds { found } else { nothing() },
            queued: vec![0; tree.len()],
            fairness: FairnessMeter::within_memory(tree.clone(), weights, compared),
            gaps: GapMeter::new(tree),
            worst_case: WorstCaseMeter::new(tree),
            gps: GpsMeter::new(tree),
            hmm: HmmMeter::new(tree),
            deadlines: DeadlineMeter::new(tree, lines),
            bursts,
            delays: vec![None; tree.len()],
        })
    }

    /// Records a packet handed to the scheduler.
    pub(crate) fn arrived(&mut self, now: Nanos, leaf: ClassId, len: u32) {
        let queued = &mut self.queued[leaf.index()];
        *queued += 1;
        if *queued == 1 {
            if !self.ahead[leaf.index()] {
                self.fairness.backlogged(leaf);
            }
            self.gaps.backlogged(now, leaf);
        }
        self.worst_case.arrived(leaf);
        self.gps.arrived(now, leaf, len);
        if let Some(hmm) = &mut self.hmm {
            hmm.arrived(now, leaf, len);
        }
        self.deadlines.arrived(now, leaf);
        self.bursts[leaf.index()].iter_mut().for_each(|(burst, ..)| burst.arrive(now, len));
    }

    /// Records a dropped packet.
    pub(crate) fn dropped(&mut self, now: Nanos, leaf: ClassId, len: u32) {
        self.worst_case.dropped(leaf);
        self.gps.dropped(now, leaf, len);
        if let Some(hmm) = &mut self.hmm {
            hmm.dropped(now, leaf, len);
        }
        self.deadlines.dropped(leaf);
        self.gone(leaf);
    }

    /// Records a packet that arrived at `arrived` and leaves from `start` to `done`.
    pub(crate) fn sent(&mut self, arrived: Nanos, start: Nanos, done: Nanos, leaf: ClassId, len: u32) {
        if self.ahead[leaf.index()] {
            self.fairness.served_ahead(leaf, len.into());
        } else {
            self.fairness.served(leaf, len.into());
        }
        self.gaps.visited(leaf, start, done);
        self.worst_case.sent(leaf, len);
        self.gps.sent(start, leaf, len);
        if let Some(hmm) = &mut self.hmm {
            hmm.sent(start, leaf, len);
        }
        self.deadlines.sent(done, leaf, len);
        let delay = done.saturating_sub(arrived);
        let longest = &mut self.delays[leaf.index()];
        *longest = Some(longest.map_or(delay, |longest| longest.max(delay)));
        self.gone(leaf);
    }

    fn gone(&mut self, leaf: ClassId) {
        let queued = &mut self.queued[leaf.index()];
        *queued = queued.saturating_sub(1);
        if *queued == 0 {
            self.fairness.idle(leaf);
            self.gaps.idle(leaf);
        }
    }

    /// Returns the measurements until `end`, by class, without the link.
    pub(crate) fn report(&self, end: Nanos, names: &[String]) -> Vec<ClassMetrics> {
        let (mut worst_case, mut gps, mut hmm) = (self.worst_case.clone(), self.gps.clone(), self.hmm.clone());
        worst_case.end();
        gps.end(end);
        if let Some(hmm) = &mut hmm {
            hmm.end(end);
        }
        let fairness = self.fairness.bytes_of_classes();
        let curves = self.deadline_bound();
        let class = |class: ClassId| {
            let index = class.index();
            let leaf = self.fairness.tree().is_leaf(class);
            let has_delay = self.delays[index].is_some();
            let of_leaf =
                |measured: f64, bound: Option<f64>| (leaf && has_delay).then(|| Measured::new(measured, bound));
            let burst = self.bursts[index]
                .iter()
                .max_by_key(|(burst, _, allowed)| i128::from(burst.sigma()) - allowed.map_or(0, i128::from));
            // Conformance to windows is not measured.
            let buckets = |bound: &DelayBound| {
                bound.traffic.limits().iter().all(|limit| matches!(limit, ArrivalLimit::Bucket { .. }))
            };
            let known = self.promised.delays[index].as_ref().filter(|bound| buckets(bound));
            let conforms =
                self.bursts[index].iter().all(|(burst, _, allowed)| allowed.is_none_or(|most| burst.sigma() <= most));
            let bound = known.map(DelayBound::seconds_in_floats);
            let index_bound = self.promised.worst_case[index].as_ref().map(to_f64);
            ClassMetrics {
                name: names[index].clone(),
                fairness_bytes: fairness[index].map(|bytes| Measured::new(bytes, self.fairness_bound(class))),
                worst_case_bytes: Some(Measured::new(worst_case.worst(class), index_bound)),
                transmission_gap_s: of_leaf(
                    seconds(self.gaps.of(class)),
                    self.promised.between_packets(self.fairness.tree(), class),
                ),
                gps_lag_bytes: of_leaf(gps.worst(class), self.gps_bound()),
                hmm_lag_bytes: hmm.as_ref().map(|hmm| Measured::new(hmm.worst(class), None)),
                deadline_miss_s: self.deadlines.worst(class).map(|miss| Measured::new(seconds(miss), curves)),
                burst_bytes: burst.filter(|_| has_delay).map(|(burst, _, allowed)| {
                    Measured::new(burst.sigma() as f64, allowed.map(|allowed| allowed as f64))
                }),
                burst_rate_bps: burst.filter(|_| has_delay).map(|&(_, rate, _)| rate),
                delay_s: self.delays[index].map(|delay| Measured::new(seconds(delay), bound.filter(|_| conforms))),
                conforms: bound.map(|_| conforms),
            }
        };
        self.fairness.tree().classes().map(class).collect()
    }

    /// Returns Definition 1 of the class in bytes, for its worst sibling.
    fn fairness_bound(&self, class: ClassId) -> Option<f64> {
        if let Some(fairness) = &self.promised.fairness {
            return match fairness.of_classes.get(class.index()) {
                Some(of_class) => of_class.map(|of_class| of_class.bytes),
                None => Some(to_f64(&fairness.bytes_per_weight.value) * self.promised.weights[class.index()]?.as_run),
            };
        }
        Some((*self.promised.siblings.get(class.index())?)?.bytes)
    }

    /// \[pgps\] Theorem 2. It does not cover the wait behind the scheduler.
    fn gps_bound(&self) -> Option<f64> {
        if self.fairness.tree().link().transmit_queue.is_some() {
            return None;
        }
        self.info.filter(|info| info.promises.follows_gps).map(|_| self.fairness.tree().link().max_packet.into())
    }

    /// \[hfsc\] Theorem 2: if all curves are admitted, no deadline is missed by more than the duration of a largest
    /// packet.
    fn deadline_bound(&self) -> Option<f64> {
        let info = self.info.filter(|_| self.fairness.tree().link().transmit_queue.is_none())?;
        let Some(fairlink_core::Delay::Curves { .. }) = info.promises.delay else { return None };
        let refused = matches!(admission(info, self.fairness.tree()), Some(Some(_)));
        let link = self.fairness.tree().link();
        (!refused).then(|| f64::from(link.max_packet) * 8.0 / link.rate.bps() as f64)
    }
}

/// True by class id if it or a class below it has a limit of its own, so that it may get less than its siblings.
fn held_back(tree: &Hierarchy) -> Vec<bool> {
    let limited = |index: usize| {
        let config = tree.config(ClassId(index as u32));
        config.ceiling.is_some() || config.upper_limit.is_some() || config.bounded || config.isolated
    };
    let mut held_back: Vec<bool> = (0..tree.len()).map(limited).collect();
    for class in tree.classes().rev() {
        if let Some(parent) = tree.parent(class) {
            held_back[parent.index()] |= held_back[class.index()];
        }
    }
    held_back
}

/// Rates and bursts at which the burstiness of a leaf is measured: the buckets of its delay bound, else its own, else
/// its rate when all are busy.
fn bursts(tree: &Hierarchy, class: ClassId, bound: Option<&DelayBound>) -> Vec<(Burstiness, u64, Option<u64>)> {
    if !tree.is_leaf(class) {
        return Vec::new();
    }
    let meter = |rate, burst| (Burstiness::at(rate), rate, burst);
    let mut found = Vec::new();
    if let Some(bound) = bound {
        found.extend(bound.traffic.limits().iter().filter_map(|limit| match *limit {
            ArrivalLimit::Bucket { burst, rate_bps } => Some(meter(rate_bps, Some(burst))),
            _ => None,
        }));
    }
    let config = tree.config(class);
    if found.is_empty() {
        found.extend(config.leaky_buckets.iter().map(|bucket| meter(bucket.rate.bps(), Some(bucket.burst))));
    }
    if found.is_empty() {
        found.push(meter(tree.rate_all_busy(class), config.burst));
    }
    found
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / NANOS_PER_SEC as f64
}
