//! Scenarios made in a few words.

use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, Leniency, LinkConfig, Members, Nanos, Overhead, Rate, Share, registry::find,
};
use fairlink_sim::{CoreModel, Options, Run, Scenario, SimError, simulate};
use fairlink_traffic::{Interval, Model, PacketSize, SourceSpec};

pub(crate) fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

pub(crate) fn weighted(weight: u64) -> ClassConfig {
    ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() }
}

/// A flat tree of classes C1, C2, ... with these weights, on a link of `mbps` Mbit/s.
pub(crate) fn flat(mbps: u64, weights: &[u64]) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(mbps * 1_000_000)));
    for &weight in weights {
        tree.add(ClassId::ROOT, weighted(weight)).unwrap();
    }
    tree.build().unwrap()
}

pub(crate) fn source(class: u32, model: Model, len: u32, active: &[(u64, u64)]) -> SourceSpec {
    let interval = |&(start, end)| Interval { start: Nanos::from_millis(start), end: Nanos::from_millis(end) };
    SourceSpec {
        class: ClassId(class),
        model,
        packet: PacketSize::Fixed(len),
        active: active.iter().map(interval).collect(),
    }
}

pub(crate) fn scenario(tree: Hierarchy, sources: Vec<SourceSpec>, duration: Nanos) -> Scenario {
    let names = (0..tree.len()).map(|id| if id == 0 { "link".into() } else { format!("C{id}") }).collect();
    Scenario {
        tree,
        names,
        overhead: Overhead::NONE,
        propagation: Nanos::ZERO,
        sources,
        duration,
        warmup: Nanos::ZERO,
        seed: 1,
        changes: Vec::new(),
        cores: CoreModel::ONE,
    }
}

pub(crate) fn run(scenario: &Scenario, scheduler: &str) -> Result<Run, SimError> {
    let scheduler = find(scheduler).unwrap().build(&scenario.tree, Leniency::Refuse, Members::new()).unwrap();
    simulate(scenario, "tested", scheduler, &Options::default(), &mut ())
}
