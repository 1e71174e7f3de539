//! Changes between two snapshots: rates, fluid ideals and delays.
//!
//! | term | meaning |
//! | --- | --- |
//! | demand | backlog at the beginning plus arrivals since, of frames that a link can send at all |
//! | rate | bits sent, per second |
//! | ideal | the scheduler's long-run allocation for the leaves' demands by its own rule ([`fairlink_theory::ideal`]); absent if it is not computed. Links that share siblings by weight have their pools together ([`fairlink_theory::pooled`]), in whole bit/s, at most one for each level below the exact ideal |
//!
//! Each class is measured between its own two times of copying. An inner class has the sums of its leaves.
//!
//! If the generations of the two differ, classes are matched by name. A class that is new, or whose counters were
//! reset, has no interval.

mod limits;

use std::collections::HashMap;

use fairlink_core::{ClassId, Hierarchy, Nanos, Sharing};
use fairlink_report::{ByCause, ClassSpan, Counts, DropCause, Rates, Span, SpanKind};
use fairlink_theory::ideal::{NotComputed, Rule, Traffic};
use fairlink_theory::pooled::{self, PoolMember, SharedPool};
use fairlink_theory::request::{Demand, Request};

use super::delays::DelayTally;
use super::generation::{Generation, PoolId};
use super::observation::{Observation, Totals};

pub(crate) use limits::LimitHistory;
use limits::{Evidence, Limited};

/// See the module.
#[derive(Debug)]
pub(crate) struct Interval {
    pub(crate) seconds: f64,
    /// Its beginning and its end, in time since the data thread started.
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    /// By class, the root included.
    classes: Vec<Option<ClassInterval>>,
    /// Link time that the data thread or the output lost meanwhile.
    pub(crate) forfeited_s: f64,
    /// Pauses of the data thread.
    pub(crate) pauses: u64,
    /// Reason why there are no ideals.
    pub(crate) not_computed: Option<NotComputed>,
}

/// Of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassInterval {
    /// `queued` is the queue at the end.
    pub(crate) counts: Counts,
    pub(crate) demand_bps: f64,
    pub(crate) rate_bps: f64,
    pub(crate) ideal_bps: Option<f64>,
    pub(crate) delays: Option<DelayTally>,
    /// Reason why it got no more, if known.
    pub(crate) limited: Option<Limited>,
}

impl Interval {
    /// Computes the interval of each link from the earlier to the later observation. The result is `None` if no time
    /// has passed, or the later is not later. Links that are not given have no demand in the pools that they share.
    pub(crate) fn of_links(observed: &[Option<(&Observation, &Observation)>]) -> Vec<Option<Self>> {
        let mut intervals: Vec<Option<Self>> =
            observed.iter().map(|times| times.and_then(|(earlier, later)| Self::measured(earlier, later))).collect();
        let measured: Vec<(usize, &Generation, Demand)> = intervals
            .iter()
            .zip(observed)
            .enumerate()
            .filter_map(|(at, (interval, times))| {
                let generation: &Generation = times.as_ref()?.1.generation();
                Some((at, generation, interval.as_ref()?.demand(&generation.tree)?))
            })
            .collect();
        let links: Vec<(&Hierarchy, &Demand)> =
            measured.iter().map(|(_, generation, demand)| (&generation.tree, demand)).collect();
        let mut pools: Vec<(&PoolId, SharedPool)> = Vec::new();
        for (link, (_, generation, _)) in measured.iter().enumerate() {
            for seat in &generation.pooled {
                let known = pools.iter().position(|(pool, _)| **pool == seat.pool).unwrap_or_else(|| {
                    pools.push((&seat.pool, SharedPool { rate: seat.rate, members: Vec::new() }));
                    pools.len() - 1
                });
                pools[known].1.members.push(PoolMember { link, class: seat.class, base: seat.base });
            }
        }
        let pools: Vec<SharedPool> = pools.into_iter().map(|(_, pool)| pool).collect();
        let by_shares = |link: usize| matches!(measured[link].1.scheduler.sharing, Sharing::Siblings);
        let shares = (0..measured.len()).any(by_shares);
        let together = if shares { pooled::solve(&links, &pools) } else { vec![Vec::new(); links.len()] };
        for (link, ((at, generation, demand), shares)) in measured.iter().zip(together).enumerate() {
            let Some(interval) = &mut intervals[*at] else { continue };
            let mut shared = pools.iter().filter(|pool| pool.members.iter().any(|member| member.link == link));
            let own = if generation.pooled.is_empty() && !by_shares(link) {
                interval.own(generation, demand)
            } else if shared.all(|pool| pool.members.iter().all(|member| by_shares(member.link))) {
                Ok(shares.into_iter().map(|bps| bps as f64).collect())
            } else {
                Err(NotComputed::because(
                    "a pool of classes of several links is shared by a scheduler without a rule for it",
                ))
            };
            match own {
                Ok(ideals) => {
                    for (class, ideal) in interval.classes.iter_mut().zip(ideals) {
                        if let Some(class) = class {
                            class.ideal_bps = Some(ideal);
                        }
                    }
                }
                Err(why) => interval.not_computed = Some(why),
            }
        }
        let without_pools = if shares && !pools.is_empty() { pooled::solve(&links, &[]) } else { Vec::new() };
        for (at, (interval, times)) in intervals.iter_mut().zip(observed).enumerate() {
            let (Some(interval), Some((earlier, later))) = (interval, times) else { continue };
            let link = measured.iter().position(|(measured, ..)| *measured == at);
            let dropped = |seen: &Observation| seen.snapshot.gateway.interfaces.kernel_dropped;
            interval.find_limits(&Evidence {
                generation: later.generation(),
                later,
                without_pools: link.and_then(|link| without_pools.get(link)).map_or(&[], Vec::as_slice),
                kernel_dropped: dropped(later).saturating_sub(dropped(earlier)),
            });
        }
        intervals
    }

    /// The scheduler's allocation by its own rule.
    fn own(&self, generation: &Generation, demand: &Demand) -> Result<Vec<f64>, NotComputed> {
        let length = |class: &Option<ClassInterval>| {
            let received = class.as_ref()?.counts.received;
            (received.packets > 0).then(|| received.bytes as f64 / received.packets as f64)
        };
        let traffic = Traffic::new(self.classes.iter().map(length).collect(), false);
        let rates = Rule::for_scheduler(generation.scheduler, &generation.tree, traffic)?.rates(demand);
        rates.map_err(|why| why.named(|class| generation.names[class.index()].clone()))
    }

    /// Demand of the link's leaves.
    pub(super) fn demand(&self, tree: &Hierarchy) -> Option<Demand> {
        let of = |&leaf: &ClassId| Some((leaf, Request::Rate(self.class(leaf)?.demand_bps as u64)));
        Demand::new(tree, tree.leaves().iter().filter_map(of)).ok()
    }

    /// All but the ideals.
    fn measured(earlier: &Observation, later: &Observation) -> Option<Self> {
        let generation = later.generation();
        let tree = &generation.tree;
        let [from, to] = [earlier, later].map(|seen| seen.snapshot.gateway.uptime);
        let seconds = to.0.checked_sub(from.0)? as f64 / 1e9;
        let same = generation.number == earlier.generation().number;
        let by_name: HashMap<&str, usize> = if same {
            HashMap::new()
        } else {
            earlier.generation().names.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect()
        };
        let before = |class: ClassId| {
            let index = class.index();
            let index = if same { Some(index) } else { by_name.get(generation.names[index].as_str()).copied() }?;
            // An inner class that was a leaf, or the other way round, is another class.
            (earlier.generation().tree.is_leaf(ClassId(index as u32)) == tree.is_leaf(class)).then_some(index)
        };
        let mut classes: Vec<Option<ClassInterval>> = vec![None; tree.len()];
        for &leaf in tree.leaves() {
            classes[leaf.index()] = before(leaf).and_then(|index| {
                let times =
                    [&earlier.snapshot.classes[index], &later.snapshot.classes[leaf.index()]].map(|class| class.at);
                ClassInterval::of_leaf(times, &earlier.totals[index], &later.totals[leaf.index()])
            });
        }
        // Children come after their parent.
        for class in tree.classes().rev() {
            let parent = tree.parent(class).unwrap_or(ClassId::ROOT).index();
            if let Some(interval) = classes[class.index()].take() {
                classes[parent].get_or_insert_with(ClassInterval::none).add(&interval);
                classes[class.index()] = Some(interval);
            }
        }
        for class in tree.classes().filter(|&class| !tree.is_leaf(class)).chain([ClassId::ROOT]) {
            let delays = before(class).and_then(|index| {
                let [earlier, later] =
                    [&earlier.totals[index], &later.totals[class.index()]].map(|total| &total.delays);
                Some(later.as_ref()?.since(earlier.as_ref()?))
            });
            if let Some(interval) = &mut classes[class.index()] {
                interval.delays = delays;
            }
        }
        if let Some(link) = &mut classes[ClassId::ROOT.index()] {
            link.delays = Some(later.all_delays.since(&earlier.all_delays));
        }
        let gateways = [&earlier.snapshot.gateway, &later.snapshot.gateway];
        let [forfeited, pauses] = [gateways.map(|each| each.forfeited.0), gateways.map(|each| each.liveness.pauses)];
        (seconds > 0.0).then_some(Self {
            seconds,
            from,
            to,
            classes,
            forfeited_s: forfeited[1].saturating_sub(forfeited[0]) as f64 / 1e9,
            pauses: pauses[1].saturating_sub(pauses[0]),
            not_computed: None,
        })
    }

    /// Explains why there are no ideals.
    pub(crate) fn note(&self) -> Option<String> {
        self.not_computed.as_ref().map(|why| format!("the ideal is {why}"))
    }

    /// Returns the interval of `class`.
    pub(crate) fn class(&self, class: ClassId) -> Option<&ClassInterval> {
        self.classes[class.index()].as_ref()
    }

    pub(super) fn class_mut(&mut self, class: ClassId) -> Option<&mut ClassInterval> {
        self.classes[class.index()].as_mut()
    }

    /// Its end, in time since the data thread started.
    pub(crate) fn end(&self) -> Nanos {
        self.to
    }

    /// Returns it as a span of the report of `generation`, with the classes that `takes` selects. Classes without an
    /// interval are left out.
    pub(crate) fn span(&self, generation: &Generation, takes: impl Fn(ClassId) -> bool) -> Span {
        let link = self.class(ClassId::ROOT);
        let limit = |class: &ClassInterval| class.limited.map(|limited| limited.limit(generation, self.to));
        let class = |class: ClassId| {
            let interval = self.class(class)?;
            Some(ClassSpan {
                name: generation.names[class.index()].clone(),
                counts: Some(interval.counts),
                delay_s: interval.delays.as_ref().map(DelayTally::delay),
                rates: interval.rates(),
                limit: limit(interval),
                dropped_packets: None,
                queue_packets: None,
            })
        };
        Span {
            kind: SpanKind::Interval,
            start_s: self.from.0 as f64 / 1e9,
            end_s: self.to.0 as f64 / 1e9,
            forfeited_s: Some(self.forfeited_s),
            pauses: Some(self.pauses),
            counts: link.map(|link| link.counts),
            delay_s: link.and_then(|link| link.delays.as_ref()).map(DelayTally::delay),
            rates: link.map(ClassInterval::rates).unwrap_or_default(),
            limit: link.and_then(limit),
            classes: generation.tree.classes().filter(|&id| takes(id)).filter_map(class).collect(),
        }
    }
}

impl ClassInterval {
    fn of_leaf([from, to]: [Nanos; 2], earlier: &Totals, later: &Totals) -> Option<Self> {
        let seconds = to.0.checked_sub(from.0).filter(|&nanos| nanos > 0)? as f64 / 1e9;
        let counts = later.counts.since(&earlier.counts)?;
        let unfit = counts.dropped_by.unwrap_or_default().sum_of(DropCause::is_unfit);
        let bps = |bytes: u64| bytes as f64 * 8.0 / seconds;
        let asked = earlier.counts.queued.bytes + counts.received.bytes;
        Some(Self {
            counts,
            demand_bps: bps(asked.saturating_sub(unfit.bytes)),
            rate_bps: bps(counts.sent.bytes),
            ideal_bps: None,
            limited: None,
            delays: earlier.delays.as_ref().zip(later.delays.as_ref()).map(|(earlier, later)| later.since(earlier)),
        })
    }

    /// Returns the sum over no class.
    fn none() -> Self {
        Self { counts: Counts { dropped_by: Some(ByCause::default()), ..Counts::default() }, ..Self::default() }
    }

    /// Returns demand, rate and ideal.
    pub(crate) fn rates(&self) -> Rates {
        Rates {
            demand_bps: Some(self.demand_bps),
            rate_bps: Some(self.rate_bps),
            ideal_bps: self.ideal_bps,
            ..Rates::default()
        }
    }

    /// Adds a child's interval, without its delays.
    fn add(&mut self, child: &Self) {
        self.counts += &child.counts;
        self.demand_bps += child.demand_bps;
        self.rate_bps += child.rate_bps;
    }
}
