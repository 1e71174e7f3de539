//! The ideal rates of a link's classes in each phase: by hierarchical max-min fairness, and by the rule of the
//! scheduler itself.

use std::sync::Arc;

use fairlink_core::{ClassId, Feature, Hierarchy, NANOS_PER_SEC, Nanos, Overhead, PoolRule, SchedulerInfo, Sharing};
use fairlink_theory::ideal::{NotComputed, Rule, Traffic};
use fairlink_theory::request::{Demand, Request};
use fairlink_theory::turns::{enough_in_words, in_words};
use fairlink_traffic::{Interval, Model, SourceSpec};

use crate::change::Stage;
use crate::links::{self, LinkPool};
use crate::routes::Routes;
use crate::scenario::{Scenario, SimError};
use crate::shares::{EXACT_CELLS, Rates, hmm};

/// The ideal rates of one link, by phase and class.
#[derive(Clone, Debug)]
pub(crate) struct Ideals {
    /// By hierarchical max-min fairness.
    pub(crate) fair: Vec<Vec<f64>>,
    /// By the rule of the scheduler.
    pub(crate) own: Vec<Rates>,
}

/// The same by link, for max-min fairness.
pub(crate) type Fair = Vec<Vec<Vec<f64>>>;

/// Returns the max-min fair rates, by link, phase and class.
pub(crate) fn fair(
    scenarios: &[Arc<Scenario>],
    pools: &[LinkPool],
    routes: &Routes,
    phases: &[Interval],
) -> Result<Fair, SimError> {
    if routes.is_empty() {
        return Ok(links::ideals(scenarios, pools, phases));
    }
    let by_phase = routes.ideals(scenarios, phases, &|_, tree, phases, exact, demand| {
        hmm(tree, phases, exact, demand).into_iter().map(Ok).collect()
    })?;
    let whole = |link: Vec<Rates>| link.into_iter().map(Result::unwrap_or_default).collect();
    Ok(by_phase.into_iter().map(whole).collect())
}

/// Returns the rates by the own rule of `info`, by link, phase and class. `fair` are the max-min fair rates.
pub(crate) fn own(
    info: &'static SchedulerInfo,
    scenarios: &[Arc<Scenario>],
    pools: &[LinkPool],
    routes: &Routes,
    phases: &[Interval],
    fair: &Fair,
) -> Result<Vec<Vec<Rates>>, SimError> {
    if !pools.is_empty() && info.supports(Feature::Pool) {
        // The rule of siblings is max-min fairness, for which pools are solved, and so is the rule `exact`. With
        // `ratio` unused shares are lost, and `greedy` promises nothing.
        let rule = pools.iter().map(|pool| pool.rule).find(|&rule| rule != PoolRule::Exact).unwrap_or_default();
        let by = if matches!(info.sharing, Sharing::Siblings) {
            format!(" by \"{}\"", rule.as_str())
        } else {
            String::new()
        };
        let why = || NotComputed::because(format!("{} has no rule for rates in a pool among links{by}", info.name));
        let shares = rule == PoolRule::Exact && matches!(info.sharing, Sharing::Siblings);
        let own = |rates: &Vec<f64>| if shares { Ok(rates.clone()) } else { Err(why()) };
        return Ok(fair.iter().map(|link| link.iter().map(own).collect()).collect());
    }
    if routes.is_empty() {
        return Ok(scenarios.iter().map(|scenario| of_link(info, scenario, phases)).collect());
    }
    routes.ideals(scenarios, phases, &|link, tree, phases, exact, demand| {
        let scenario = &scenarios[link];
        let visitors = routes.visitors(link, scenarios);
        let by_phase = |phase: &Interval| {
            let own = scenario.sources.iter().map(|source| (source.class, source));
            let all = own.chain(visitors.iter().copied());
            let active = all.filter(|(_, source)| source.is_active(phase.start, scenario.duration));
            let mut traffic = traffic(info, active, scenario.overhead, tree)?;
            if !visitors.is_empty() {
                traffic = traffic.bursty();
            }
            let name = |class: ClassId| scenario.names[class.index()].clone();
            let solved = rates(info, tree, traffic, &demand(phase.start), exact);
            solved.map_err(|why| why.named(name))
        };
        phases.iter().map(by_phase).collect()
    })
}

/// Returns the rates of each class of a link by the own rule of `info`, and of the schedulers that replace it.
fn of_link(mut info: &'static SchedulerInfo, scenario: &Scenario, phases: &[Interval]) -> Vec<Rates> {
    let exact = scenario.names.len() * phases.len() <= EXACT_CELLS;
    let schedulers = std::iter::once(None).chain(scenario.changes.iter().map(|change| change.scheduler));
    let mut ideals = Vec::with_capacity(phases.len());
    for (stage, changed) in scenario.stages().iter().zip(schedulers) {
        info = changed.unwrap_or(info);
        let classes = stage.classes();
        for phase in phases.iter().filter(|phase| (stage.start..stage.end).contains(&phase.start)) {
            let demand = scenario.demand_in(stage, phase.start);
            let traffic = traffic_in(info, scenario, stage, phase.start);
            let solved = traffic.and_then(|traffic| {
                let solved = rates(info, stage.tree, traffic.clone(), &demand, exact)?;
                check_passes(scenario, stage, &traffic, &demand, &solved)?;
                Ok(solved)
            });
            let name = |class: ClassId| scenario.names[classes[class.index()].index()].clone();
            let solved = solved.map_err(|why| why.named(name));
            ideals.push(solved.map(|rates| {
                let mut by_class = vec![0.0; scenario.names.len()];
                classes.iter().zip(rates).for_each(|(class, rate)| by_class[class.index()] = rate);
                by_class
            }));
        }
    }
    ideals
}

/// Checks that queues hold what their leaves send between two passes of their cores. `rates` are by class id.
fn check_passes(
    scenario: &Scenario,
    stage: &Stage<'_>,
    traffic: &Traffic,
    demand: &Demand,
    rates: &[f64],
) -> Result<(), NotComputed> {
    if scenario.cores.cores.is_one() {
        return Ok(());
    }
    let link = stage.tree.link();
    for &leaf in stage.tree.leaves() {
        let pass = scenario.cores.pass(demand.get(leaf) == Some(Request::Unlimited));
        let bytes = rates[leaf.index()] / 8.0 * pass.0 as f64 / NANOS_PER_SEC as f64;
        let limits = stage.tree.config(leaf).limits;
        let length = traffic.packet(leaf).unwrap_or_else(|| f64::from(link.max_packet));
        let holds = (f64::from(limits.packets) * length).min(f64::from(limits.bytes));
        if pass > Nanos::ZERO && bytes + 2.0 * length > holds {
            let why = format!(
                "its queue holds {} of its packets, and its core looks at it once in {} ms; at its rate {} are enough",
                in_words(holds as u64),
                scenario.cores.lag.0 as f64 / 1e6,
                enough_in_words((bytes + 2.0 * length).ceil() as u64),
            );
            return Err(NotComputed::because_of(leaf, why));
        }
    }
    Ok(())
}

fn rates(info: &SchedulerInfo, tree: &Hierarchy, traffic: Traffic, demand: &Demand, exact: bool) -> Rates {
    let rule = Rule::for_scheduler(info, tree, traffic)?;
    if !exact {
        return rule.rates(demand);
    }
    let ideal = rule.solve(demand)?;
    Ok((0..tree.len()).map(|class| ideal.bps(ClassId(class as u32))).collect())
}

/// Returns the known traffic of the sources of `stage` that are active at the instant `at`.
fn traffic_in(info: &SchedulerInfo, scenario: &Scenario, stage: &Stage<'_>, at: Nanos) -> Result<Traffic, NotComputed> {
    let ids = stage.ids(scenario.names.len());
    let active = scenario.sources.iter().filter(|source| source.is_active(at, scenario.duration));
    let here = active.filter_map(|source| Some((ids.get(source.class.index()).copied().flatten()?, source)));
    traffic(info, here, stage.overhead, stage.tree)
}

/// Mean lengths of packets by class, as the link counts them, and true if all sources send evenly.
///
/// # Errors
/// If `info` shares by lengths, a class has sources of different lengths, and the demand exceeds the link: the class's
/// numbers of packets of each then depend on its rate and its queue's drops.
fn traffic<'a>(
    info: &SchedulerInfo,
    sources: impl Iterator<Item = (ClassId, &'a SourceSpec)>,
    overhead: Overhead,
    tree: &Hierarchy,
) -> Result<Traffic, NotComputed> {
    let classes = tree.len();
    // By class: bit/s and packets per second; of classes with greedy sources, the packets of those.
    let mut sums = vec![(0.0, 0.0, false); classes];
    let mut lengths: Vec<Option<f64>> = vec![None; classes];
    let (mut steady, mut mixed, mut several, mut asked) = (true, false, false, 0.0);
    for (class, source) in sources {
        let Some((bytes, packets, greedy)) = sums.get_mut(class.index()) else { continue };
        steady &= matches!(source.model, Model::Greedy | Model::Cbr { burst: 1, .. });
        let length = source.packet.mean_accounted(|len| overhead.accounted(len)).max(1.0);
        several |= lengths[class.index()].is_some();
        let first = *lengths[class.index()].get_or_insert(length);
        mixed |= (length - first).abs() > 1e-9 * first;
        let rate = source.mean_rate(|len| overhead.accounted(len));
        asked += rate.map_or(f64::INFINITY, |rate| rate as f64);
        match rate {
            None if *greedy => (*bytes, *packets) = (*bytes + length, *packets + 1.0),
            None => (*bytes, *packets, *greedy) = (length, 1.0, true),
            Some(rate) if !*greedy => (*bytes, *packets) = (*bytes + rate as f64, *packets + rate as f64 / length),
            Some(_) => {}
        }
    }
    let by_length = matches!(info.sharing, Sharing::LeavesByPackets(_) | Sharing::CriticalVisits(_));
    if by_length && mixed && asked > tree.link().rate.bps() as f64 {
        let why =
            "a class has sources with packets of different lengths; shares depend on the number of packets of each";
        return Err(NotComputed::because(why));
    }
    let mean = |(bytes, packets, _): (f64, f64, bool)| (packets > 0.0).then(|| bytes / packets);
    // Mixed lengths are not steady traffic. If the order of packets decides, several sources of a class are not either.
    let steady = steady && !mixed && !(several && matches!(info.sharing, Sharing::ByPackets(_)));
    Ok(Traffic::new(sums.into_iter().map(mean).collect(), steady))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{ClassConfig, LinkConfig, Rate, registry::find};
    use fairlink_traffic::PacketSize;

    #[test]
    fn lengths_that_are_mixed_in_a_class_are_no_rule_for_schedulers_that_share_by_packets() {
        let rate = |mbps: u64| Rate::from_bps(mbps * 1_000_000).unwrap();
        let mut tree = Hierarchy::builder(LinkConfig::new(rate(9)));
        let [one, other] = [1, 2].map(|_| tree.add(ClassId::ROOT, ClassConfig::default()).unwrap());
        let tree = tree.build().unwrap();
        let source = |class, model, len| {
            (class, SourceSpec { class, model, packet: PacketSize::Fixed(len), active: Vec::new() })
        };
        let of = |name: &str, sources: &[(ClassId, SourceSpec)]| {
            let sources = sources.iter().map(|(class, source)| (*class, source));
            traffic(find(name).unwrap(), sources, Overhead::NONE, &tree)
        };
        let greedy = source(one, Model::Greedy, 1000);
        let mixed = [greedy.clone(), source(one, Model::cbr(rate(2)), 500)];
        assert!(of("wrr", &mixed).is_err() && of("corr", &mixed).is_err() && of("drr++", &mixed).is_err());
        assert!(of("drr", &mixed).is_ok() && of("hls", &mixed).is_ok());
        assert!(of("wrr", &[greedy.clone(), source(one, Model::cbr(rate(2)), 1000)]).is_ok());
        assert!(of("wrr", &[greedy, source(other, Model::cbr(rate(2)), 500)]).is_ok());
        // If the demand fits the link, each class has its demand.
        let timed = |mbps| [source(one, Model::cbr(rate(mbps)), 1000), source(one, Model::cbr(rate(2)), 500)];
        assert!(of("wrr", &timed(7)).is_ok() && of("wrr", &timed(8)).is_err());
    }
}
