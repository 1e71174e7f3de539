//! Scenario files as they are simulated.

use fairlink_config::{LinkFile, PoolSpec, RouteSpec, Scenario};
use fairlink_sim::{Change, CoreModel, Hop, LinkPool, Links, Route};

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
