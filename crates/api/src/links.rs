//! Scenario files as they are simulated.

use fairlink_config::{LinkFile, PoolSpec, RouteSpec, Scenario};
use fairlink_core::{Leniency, SchedulerInfo};
use fairlink_sim::{Change, CoreModel, Hop, LinkPool, Links, Route};

use crate::refused::Refused;

/// Returns the links of a scenario file for the simulator.
#[must_use]
pub fn links_of(file: &Scenario) -> Links {
    let scenario = |link: &LinkFile, sources: &[_], propagation| fairlink_sim::Scenario {
        names: link.names.iter().map(str::to_owned).collect(),
        tree: link.tree.clone(),
        overhead: link.overhead,
        propagation,
        sources: sources.to_vec(),
        duration: file.duration,
        warmup: file.warmup,
        seed: file.seed,
        changes: Vec::new(),
        cores: CoreModel { cores: link.cores, lag: file.lag.unwrap_or(CoreModel::LAG) },
    };
    let change = |change: &fairlink_config::Change| Change {
        at: change.at,
        name: change.name.clone(),
        scheduler: change.scheduler,
        tree: change.link.tree.clone(),
        overhead: change.link.overhead,
        classes: change.classes.clone(),
    };
    let pool = |pool: &PoolSpec| LinkPool {
        name: pool.name.clone(),
        rule: pool.rule,
        rate: pool.rate,
        burst: pool.burst,
        members: pool.members.clone(),
    };
    let route = |route: &RouteSpec| Route {
        name: route.name.clone(),
        source: route.source,
        hops: route.hops.iter().map(|&(link, class)| Hop { link, class }).collect(),
        regulated: route.regulated.clone(),
    };
    Links {
        first: fairlink_sim::Scenario {
            names: file.names.clone(),
            changes: file.changes.iter().map(change).collect(),
            ..scenario(&file.link, &file.sources, file.propagation)
        },
        further: file
            .peers
            .iter()
            .map(|peer| (peer.name.clone(), scenario(&peer.link, &peer.sources, peer.propagation)))
            .collect(),
        pools: file.pools.iter().map(pool).collect(),
        routes: file.routes.iter().map(route).collect(),
    }
}

/// Returns the schedulers of these names for a scenario, each once, or that of the scenario itself.
///
/// # Errors
/// [`Refused::Text`]: an unknown name, a setting that one of them does not support, too much memory.
pub fn schedulers_of(
    file: &Scenario,
    names: &[String],
    leniency: Leniency,
) -> Result<Vec<&'static SchedulerInfo>, Refused> {
    let mut found: Vec<&'static SchedulerInfo> = Vec::new();
    for name in names {
        let (info, _) = file.link.for_scheduler(name, leniency)?;
        for peer in &file.peers {
            peer.link.for_scheduler(name, leniency)?;
        }
        for change in file.changes.iter().take_while(|change| change.scheduler.is_none()) {
            change.link.for_scheduler(name, leniency)?;
        }
        if found.iter().all(|other| other.name != info.name) {
            found.push(info);
        }
    }
    if found.is_empty() {
        found.push(file.link.info());
    }
    for info in &found {
        file.link.check_memory(info)?;
        file.peers.iter().try_for_each(|peer| peer.link.check_memory(info).map(|_| ()))?;
        let mut runs = *info;
        for change in &file.changes {
            runs = change.scheduler.unwrap_or(runs);
            change.link.check_memory(runs)?;
        }
    }
    Ok(found)
}
