//! No packet of traffic within its class's rate and burst is delayed beyond the bound, under any scheduler that has one.

use crate::common::{rate, scenario, weighted};
use fairlink_core::{
    ClassConfig, ClassId, Feature, Hierarchy, Leniency, LinkConfig, Members, Nanos, SchedulerInfo, ServiceCurve,
    registry::SCHEDULERS,
};
use fairlink_sim::{Options, simulate};
use fairlink_theory::latency::{DelayBound, delay_bounds};
use fairlink_theory::to_f64;
use fairlink_traffic::{Model, PacketSize, SourceSpec};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

const LINK_BPS: u64 = 10_000_000;

/// A flat tree of 2 to 12 classes with weights of 1 to 9, every second one with a constant rate of its share in packets of
/// `len` bytes and the others greedy; some with a curve for those packets.
fn random_case(seed: u64, info: &SchedulerInfo, curves: bool) -> (Hierarchy, Vec<SourceSpec>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut pick = |from: u64, to: u64| from + random.next_u64() % (to - from + 1);
    let weights: Vec<u64> = (0..pick(2, 12)).map(|_| pick(1, 9)).collect();
    let all: u64 = weights.iter().sum();
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(LINK_BPS)));
    let mut sources = Vec::new();
    for (index, &weight) in weights.iter().enumerate() {
        let (len, share) = (pick(64, 1500) as u32, LINK_BPS * weight / all);
        let constant = index % 2 == 0;
        // One packet at the share, and then a little less.
        let packet_time = Nanos(u64::from(len) * 8_000_000_000 / share + 1);
        let m2 = rate(share * 9 / 10);
        let real_time = if constant && index == 0 {
            ServiceCurve { m1: Some(rate(share)), d: packet_time, m2: Some(m2) }
        } else {
            ServiceCurve { m1: Some(m2), d: Nanos::ZERO, m2: Some(m2) }
        };
        let latency_critical = constant && info.supports(Feature::LatencyCritical);
        let config = ClassConfig { real_time: curves.then_some(real_time), latency_critical, ..weighted(weight) };
        tree.add(ClassId::ROOT, config).unwrap();
        let class = ClassId(index as u32 + 1);
        let (model, packet) = if constant {
            (Model::cbr(rate(share * 9 / 10)), PacketSize::Fixed(len))
        } else {
            (Model::Greedy, PacketSize::Fixed(1500))
        };
        sources.push(SourceSpec { class, model, packet, active: Vec::new() });
    }
    (tree.build().unwrap(), sources)
}

#[test]
fn no_delay_exceeds_its_bound_under_any_scheduler_that_has_one() {
    let mut with_bounds = Vec::new();
    for info in SCHEDULERS.iter().filter(|info| info.promises.delay.is_some()) {
        let (mut bounded, mut tightest) = (0, 0.0f64);
        for seed in 0..12 {
            let curves = info.supports(Feature::ServiceCurves);
            let (tree, sources) = random_case(seed, info, curves);
            let bounds = delay_bounds(info, &tree);
            let scenario = scenario(tree, sources, Nanos::from_secs(2));
            let scheduler = info.build(&scenario.tree, Leniency::Refuse, Members::new()).unwrap();
            let run = simulate(&scenario, info.name, scheduler, &Options::default(), &mut ()).unwrap();
            for (leaf, measured) in scenario.tree.leaves().iter().zip(&run.classes) {
                let source = scenario.sources.iter().find(|source| source.class == *leaf).unwrap();
                // Bounds for a number of packets or bytes in an interval are for other traffic.
                let for_bursts = |bound: &&DelayBound| bound.traffic.as_bucket().is_some();
                let bound = bounds[leaf.index()].as_ref().filter(for_bursts);
                let (Some(bound), false) = (bound, matches!(source.model, Model::Greedy)) else { continue };
                let bound = to_f64(&bound.seconds());
                let longest = measured.delay().max.unwrap();
                assert!(longest <= bound, "{}, tree {seed}, {}: {longest} s of {bound} s", info.name, measured.name);
                tightest = tightest.max(longest / bound);
                bounded += 1;
            }
        }
        if bounded > 0 {
            assert!(tightest > 0.1, "{}: the bound is never nearly reached: {tightest}", info.name);
            with_bounds.push(info.name);
        }
    }
    for name in [
        "hls",
        "drr",
        "drr++",
        "wfq",
        "wf2q+",
        "scfq",
        "sfq",
        "virtual-clock",
        "sced",
        "hfsc",
        "fq-ldf",
        "fq-lto-lb-sced",
    ] {
        assert!(with_bounds.contains(&name), "{name} has no bound");
    }
}
