//! Reasons why a class got no more than it did, in an interval.
//!
//! | limit | the class got no more because | limited by |
//! | --- | --- | --- |
//! | `demand` | its demand was no higher | none |
//! | `ceiling` | its own limit holds it: a ceiling, an upper limit, a rate beyond which it may not borrow | itself |
//! | `parent` | the class above has no more to share | that class |
//! | `link` | the link has no more to share | the link |
//! | `pool` | the pool that it shares with classes of other links has no more | itself |
//! | `processor` | link time was lost, because the data thread or the output was late | none |
//!
//! Classes and limits are those of the scheduler's own ideal, as `fluid --json` prints them for the same demands. A
//! class that got clearly less than its ideal has no such reason. The reason is the processor if link time was lost
//! meanwhile and the class was affected. It is affected if it still has packets queued, or lost some because they were
//! late. Otherwise the reason is unknown. After drops in a short burst a class is below its ideal, too, because the
//! ideal spreads the demand over the whole interval. If no ideal is computed, three cases are known: a class that got
//! its demand, a class at its own limit, a link at its rate. If siblings share without limits (`hdrr`), a fourth is
//! known: a backlogged class while the link is at its rate.

use std::collections::HashMap;
use std::sync::Arc;

use fairlink_core::{ClassId, Hierarchy, Nanos, Sharing};
use fairlink_report::{DropCause, Limit, LimitCause};
use fairlink_theory::limits::Limits;

use super::Interval;
use crate::gateway::account::generation::Generation;
use crate::gateway::account::observation::Observation;

/// Fraction of its ideal from which a class counts as having reached it: queues grow and shrink within an interval.
const ENOUGH: f64 = 0.9;
/// Fraction of its own limit from which a class without an ideal counts as limited by it.
const AT_LIMIT: f64 = 0.97;
/// Fraction of lost link time in the interval from which the processor is a reason.
const LOST: f64 = 0.01;

/// Reason why one class got no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limited {
    pub(crate) cause: LimitCause,
    /// The class, or the link, with this limit.
    pub(crate) by: Option<ClassId>,
    /// Since when, in time since the data thread started.
    pub(crate) since: Nanos,
}

/// Facts besides the intervals that determine the reason.
pub(super) struct Evidence<'a> {
    pub(super) generation: &'a Generation,
    /// The later of the two observations.
    pub(super) later: &'a Observation,
    /// Ideal of each class without pools; empty if there are none.
    pub(super) without_pools: &'a [u64],
    /// Frames that the kernel dropped meanwhile, because they were not fetched in time.
    pub(super) kernel_dropped: u64,
}

impl Interval {
    /// Finds the limit of each class, from the beginning of the interval on.
    pub(super) fn find_limits(&mut self, evidence: &Evidence<'_>) {
        let Evidence { generation, later, kernel_dropped, .. } = *evidence;
        let tree = &generation.tree;
        let limits = Limits::honoured_by(generation.scheduler, tree);
        let wanted = self.wanted(tree, &limits);
        let late = self.pauses > 0 || self.forfeited_s > LOST * self.seconds || kernel_dropped > 0;
        // Rates are rounded down to whole bit/s at each level.
        let capacity = tree.link().rate.bps() as f64;
        let error = 64.0 + 1e-6 * capacity;
        let link_is_full = self.class(ClassId::ROOT).is_some_and(|link| link.rate_bps >= AT_LIMIT * capacity);
        let shares_alone =
            matches!(generation.scheduler.sharing, Sharing::SiblingVisits) && generation.pooled.is_empty();
        let found: Vec<Option<Limited>> = (0..tree.len())
            .map(|index| {
                let class = ClassId(index as u32);
                let interval = self.class(class)?;
                let limit = limits.get(class).map(|limit| limit.bps as f64);
                let waits = later.totals[index].counts.queued.packets > 0;
                let got_all = interval.counts.dropped.packets == 0 && !waits;
                let because = |cause, by| Some(Limited { cause, by, since: self.from });
                let shared = |class| match shares_in(generation, class) {
                    ClassId::ROOT => because(LimitCause::Link, Some(ClassId::ROOT)),
                    parent => because(LimitCause::Parent, Some(parent)),
                };
                let Some(ideal) = interval.ideal_bps else {
                    return match limit {
                        _ if got_all => because(LimitCause::Demand, None),
                        Some(limit) if interval.rate_bps >= AT_LIMIT * limit => {
                            because(LimitCause::Ceiling, Some(class))
                        }
                        _ if class == ClassId::ROOT && link_is_full => because(LimitCause::Link, Some(class)),
                        // The link is busy all the time, and only the shares of siblings decide.
                        None if shares_alone && link_is_full && waits => shared(class),
                        _ => None,
                    };
                };
                if got_all {
                    return because(LimitCause::Demand, None);
                }
                if interval.rate_bps < ENOUGH * ideal {
                    let late_drops = interval.counts.dropped_by.unwrap_or_default().sum_of(DropCause::is_late);
                    return (late && (waits || late_drops.packets > 0))
                        .then_some(LimitCause::Processor)
                        .and_then(|cause| because(cause, None));
                }
                if ideal + error >= wanted[index] {
                    return because(LimitCause::Demand, None);
                }
                if class == ClassId::ROOT {
                    return because(LimitCause::Link, Some(class));
                }
                if limit.is_some_and(|limit| ideal + error >= limit) {
                    return because(LimitCause::Ceiling, Some(class));
                }
                let pooled = generation.pooled.iter().any(|seat| seat.class == class);
                if pooled && evidence.without_pools.get(index).is_some_and(|&alone| alone as f64 > ideal + error) {
                    return because(LimitCause::Pool, Some(class));
                }
                shared(class)
            })
            .collect();
        for (index, found) in found.into_iter().enumerate() {
            if let Some(interval) = self.class_mut(ClassId(index as u32)) {
                interval.limited = found;
            }
        }
    }

    /// Demand of each class in bit/s without a limit of its own.
    fn wanted(&self, tree: &Hierarchy, limits: &Limits) -> Vec<f64> {
        let mut wanted = vec![0.0; tree.len()];
        for index in (0..tree.len()).rev() {
            let class = ClassId(index as u32);
            if tree.is_leaf(class) {
                wanted[index] = self.class(class).map_or(0.0, |interval| interval.demand_bps);
            }
            if let Some(parent) = tree.parent(class) {
                let limit = limits.get(class).map_or(f64::INFINITY, |limit| limit.bps as f64);
                wanted[parent.index()] += wanted[index].min(limit);
            }
        }
        wanted
    }
}

/// The class whose rate `class` shares: its parent, or the link if all leaves share with each other.
fn shares_in(generation: &Generation, class: ClassId) -> ClassId {
    match generation.scheduler.sharing {
        Sharing::Leaves(_) | Sharing::LeavesByPackets(_) => ClassId::ROOT,
        _ => generation.tree.parent(class).unwrap_or(ClassId::ROOT),
    }
}

/// The limits of one link's classes in the interval before.
#[derive(Debug, Default)]
pub(crate) struct LimitHistory {
    /// Names of those classes.
    generation: Option<Arc<Generation>>,
    /// By class.
    limits: Vec<Option<Limited>>,
}

impl LimitHistory {
    /// For each limit of `interval` that existed before, sets its beginning to the earlier one. `interval` begins no
    /// later than the previous one has ended.
    pub(crate) fn extend(&mut self, interval: &mut Interval, generation: &Arc<Generation>) {
        let (from, to) = (interval.from, interval.to);
        // After a reload, classes are known by their names.
        if let Some(before) = &self.generation
            && !Arc::ptr_eq(before, generation)
        {
            let now: HashMap<&str, usize> =
                generation.names.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect();
            let find = |class: ClassId| now.get(before.names[class.index()].as_str()).map(|&at| ClassId(at as u32));
            let mut limits = vec![None; generation.names.len()];
            for (index, limited) in self.limits.iter().enumerate() {
                let Some((class, limited)) = find(ClassId(index as u32)).zip(*limited) else { continue };
                let by = limited.by.map(find);
                if by != Some(None) {
                    limits[class.index()] = Some(Limited { by: by.flatten(), ..limited });
                }
            }
            self.limits = limits;
        }
        self.generation = Some(Arc::clone(generation));
        self.limits.resize(generation.names.len(), None);
        for (index, before) in self.limits.iter_mut().enumerate() {
            let now = interval.class_mut(ClassId(index as u32)).and_then(|class| class.limited.as_mut());
            *before = now.map(|now| {
                if let Some(before) = *before
                    && (before.cause, before.by) == (now.cause, now.by)
                    // A restarted data thread counts from zero.
                    && before.since <= to
                {
                    now.since = before.since.min(from);
                }
                *now
            });
        }
    }
}

impl Limited {
    /// Returns the limit for a report of an interval that ends at `to`.
    pub(super) fn limit(&self, generation: &Generation, to: Nanos) -> Limit {
        let name = |class: ClassId| match class {
            ClassId::ROOT => "link".to_owned(),
            class => generation.names[class.index()].clone(),
        };
        Limit {
            cause: self.cause,
            limited_by: self.by.map(name),
            limited_for_s: to.saturating_sub(self.since).0 as f64 / 1e9,
        }
    }
}

#[cfg(test)]
mod tests;
