//! Random trees with the features that a scheduler supports.

use fairlink_core::{
    ClassConfig, ClassId, Contract, Fairness, Feature, Hierarchy, HostKey, Hosts, LeakyBucket, LeakyBuckets,
    LinkConfig, Nanos, QueueKind, QueueLimits, Rate, RoundLength, SchedulerInfo, ServiceCurve, Share, TransmitQueue,
};
use rand_chacha::ChaCha8Rng;

use crate::pick;

/// The link's rate and its largest packet: a byte takes 800 ns.
pub(crate) const LINK: (Rate, u32) = match Rate::from_bps(10_000_000) {
    Ok(rate) => (rate, 1500),
    Err(_) => panic!(),
};

/// A tree of 2 to 13 classes, rarely 53, that `info` may take.
pub(crate) fn random_tree(info: &SchedulerInfo, random: &mut ChaCha8Rng) -> Hierarchy {
    let may = |feature| info.supports(feature);
    let queue = TransmitQueue { packets: 1 + pick(random, 20) as u32, priority: pick(random, 2) == 0 };
    let transmit_queue = (pick(random, 4) == 0).then_some(queue);
    let long = may(Feature::LongRounds) && pick(random, 2) == 0;
    let rounds = if long { RoundLength::Long } else { RoundLength::Short };
    let link = LinkConfig { max_packet: LINK.1, transmit_queue, rounds, ..LinkConfig::new(LINK.0) };
    let mut tree = Hierarchy::builder(link);
    let mut parents = vec![ClassId::ROOT];
    let mut count = 2 + pick(random, 12);
    // Many siblings, whose virtual times have queues of another kind.
    if matches!(info.promises.fairness, Some(Fairness::Clocks(_))) && pick(random, 8) == 0 {
        count += 40;
    }
    // All siblings alike: weights, or guarantees that fit.
    let kind = pick(random, 3);
    let (quanta, curves, guarantees) = (pick(random, 2) == 0, pick(random, 2) == 0, pick(random, 3) == 0);
    // By class id, the rest of its guarantee without its children's.
    let mut left = vec![LINK.0.bps()];
    for _ in 0..count {
        let deep = may(Feature::Hierarchy) && pick(random, 2) == 0;
        let parent = if deep { parents[pick(random, parents.len() as u64) as usize] } else { ClassId::ROOT };
        let one_in = |random: &mut ChaCha8Rng, n: u64| pick(random, n) == 0;
        let bps = |random: &mut ChaCha8Rng| Rate::from_bps(100_000 + pick(random, 900_000)).expect("a rate");
        let weight = match kind {
            0 => 1 + pick(random, 9),
            1 => 1 + pick(random, 2000),
            _ => 10u64.pow(pick(random, 7) as u32) * (1 + pick(random, 9)),
        };
        let parents_left = &mut left[parent.index()];
        let guarantee = (*parents_left * (1 + pick(random, 9)) / 20).max(1);
        let guarantee = Rate::from_bps(guarantee).ok().filter(|_| guarantees && *parents_left > 1);
        *parents_left -= guarantee.map_or(0, Rate::bps);
        left.push(guarantee.map_or(0, Rate::bps));
        let share = match guarantee {
            Some(guarantee) => Share::Guarantee(guarantee),
            None if guarantees => break,
            None => Share::Weight(weight),
        };
        let critical = may(Feature::LatencyCritical) && one_in(random, 4);
        let mut config = ClassConfig {
            share: Some(share),
            ceiling: (may(Feature::Ceiling) && one_in(random, 6)).then(|| bps(random)),
            ceiling_burst: (may(Feature::CeilingBurst) && one_in(random, 6)).then(|| pick(random, 20_000)),
            burst: match pick(random, 6) {
                0 => Some(1 + pick(random, 1500)),
                1 => Some(1 + pick(random, 20_000)),
                _ => None,
            },
            priority: (may(Feature::Priority) && one_in(random, 3)).then(|| pick(random, 4) as u8),
            quantum: (may(Feature::Quantum) && quanta).then(|| 1500 + pick(random, 20_000) as u32),
            contract: (may(Feature::Contract) && one_in(random, 3)).then(|| Contract {
                bytes: 1500 + pick(random, 5000),
                every: Nanos::from_millis(10 + pick(random, 100)),
            }),
            max_delay: (may(Feature::MaxDelay) && one_in(random, 3)).then(|| Nanos::from_millis(1 + pick(random, 100))),
            leaky_buckets: leaky_buckets(random, may(Feature::LeakyBucket)),
            latency_critical: critical,
            limits: QueueLimits { packets: 4000, bytes: u32::MAX },
            ecn: one_in(random, 2),
            ..ClassConfig::default()
        };
        // Behind a transmit queue, packets become heads and are judged while others arrive, which the player takes for wrong.
        if may(Feature::ActiveQueue) && transmit_queue.is_none() {
            config.queue = match pick(random, 8) {
                0 => QueueKind::CoDel,
                1 => QueueKind::FqCoDel,
                _ => QueueKind::Fifo,
            };
            config.hosts = Hosts::new(pick(random, 5) as u16, HostKey::SourceIp).filter(|_| one_in(random, 6));
        }
        if may(Feature::ServiceCurves) && curves {
            let (one, other, d) = (bps(random), bps(random), Nanos::from_millis(1 + pick(random, 50)));
            // Concave, or flat at first.
            let m1 = (pick(random, 3) > 0).then_some(one.max(other));
            config.real_time = Some(ServiceCurve { m1, d, m2: Some(one.min(other)) });
        }
        if may(Feature::LinkCurves) && one_in(random, 6) {
            config.upper_limit = Some(ServiceCurve { m1: None, d: Nanos::ZERO, m2: Some(bps(random)) });
        }
        let class = tree.add(parent, config).expect("a class");
        if may_have_children(&parents, class) {
            parents.push(class);
        }
    }
    without_refused(info, tree.build().expect("a tree"))
}

/// Returns true if `class` may have classes below it: half of them, by their number.
fn may_have_children(parents: &[ClassId], class: ClassId) -> bool {
    parents.len() < 6 && class.0 % 2 == 1
}

/// The tree without the settings that `info` does not honour in classes of their kind.
fn without_refused(info: &SchedulerInfo, tree: Hierarchy) -> Hierarchy {
    let mut plain = Hierarchy::builder(tree.link());
    for class in tree.classes() {
        let mut config = *tree.config(class);
        for (_, feature) in info.unsupported(&tree).filter(|&(other, _)| other == class) {
            match feature {
                Feature::Burst | Feature::LatencyBurst => config.burst = None,
                Feature::CeilingBurst => config.ceiling_burst = None,
                _ => {}
            }
        }
        if !tree.is_leaf(class) {
            // Curves, contracts and queues are for leaves.
            (config.real_time, config.contract, config.latency_critical) = (None, None, false);
            config.queue = QueueKind::Fifo;
            config.burst = config.burst.filter(|_| info.supports(Feature::Burst));
        }
        plain.add(tree.parent(class).expect("not the root"), config).expect("a class");
    }
    plain.build().expect("a tree")
}

/// One to three leaky buckets, or mostly none; with rates that a class's guarantee may or may not carry.
fn leaky_buckets(random: &mut ChaCha8Rng, honoured: bool) -> LeakyBuckets {
    if !honoured || pick(random, 2) == 0 {
        return LeakyBuckets::default();
    }
    let count = 1 + pick(random, 3);
    let bucket = |_| {
        let rate = Rate::from_bps(20_000 + pick(random, 900_000)).expect("a rate");
        LeakyBucket {
            burst: u64::from(LINK.1) + pick(random, 20_000),
            peak: if pick(random, 2) == 0 { LINK.0 } else { rate },
            rate,
        }
    };
    LeakyBuckets::new(&(0..count).map(bucket).collect::<Vec<_>>()).expect("few buckets")
}
