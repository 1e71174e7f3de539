//! Building a scheduler uses the declared amount of memory, and every allocation is fallible: with an allocator that
//! refuses, at every point, construction ends with an error and never ends the process.
#![forbid(unsafe_code)]

use std::alloc::System;

use cap::Cap;
use fairlink_core::registry::SCHEDULERS;
use fairlink_core::{
    BuildError, ClassConfig, ClassId, Contract, Feature, Hierarchy, HierarchyError, HostKey, Hosts, LeakyBucket,
    LeakyBuckets, Leniency, LinkConfig, Members, Nanos, QueueKind, QueueLimits, Rate, SchedulerInfo, ServiceCurve,
    Share, TransmitQueue, WhenFull,
};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * u128::from(limit)) >> 64) as u64
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

const RATE: u64 = 1_000_000_000;

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

/// A random class configuration with features that `info` honours.
fn config(info: &SchedulerInfo, random: &mut Random, classes: u64) -> ClassConfig {
    let mut asks = |feature| info.supports(feature) && random.one_in(3);
    let small = rate(RATE / (20 * classes));
    let curve = ServiceCurve { m1: None, d: Nanos::from_millis(10), m2: Some(small) };
    let mut config = ClassConfig {
        share: Some(Share::Weight(1)),
        ceiling: asks(Feature::Ceiling).then(|| rate(RATE / 2)),
        burst: asks(Feature::Burst).then_some(3000),
        priority: asks(Feature::Priority).then_some(3),
        latency_critical: asks(Feature::LatencyCritical),
        quantum: asks(Feature::Quantum).then_some(2000),
        contract: asks(Feature::Contract).then_some(Contract { bytes: 3000, every: Nanos::from_millis(9) }),
        real_time: asks(Feature::ServiceCurves).then_some(curve),
        link_share: asks(Feature::LinkCurves).then_some(curve),
        max_delay: asks(Feature::MaxDelay).then(|| Nanos::from_millis(5)),
        leaky_buckets: if asks(Feature::LeakyBucket) {
            let bucket = |burst, rate| LeakyBucket { burst, peak: Rate::MAX, rate };
            LeakyBuckets::new(&[bucket(9000, small), bucket(99_000, Rate::MIN)]).unwrap()
        } else {
            LeakyBuckets::default()
        },
        ..ClassConfig::default()
    };
    if info.supports(Feature::ActiveQueue) && random.one_in(4) {
        config.queue = if random.one_in(2) { QueueKind::CoDel } else { QueueKind::FqCoDel };
        config.hosts = Hosts::new(random.below(40) as u16, HostKey::SourceIp).filter(|_| random.one_in(2));
        config.limits = QueueLimits { packets: 1 + random.below(200) as u32, ..QueueLimits::default() };
    }
    config
}

/// A random tree of up to `most` classes, flat if `info` is.
fn tree(info: &SchedulerInfo, random: &mut Random, most: u64) -> Hierarchy {
    let classes = 1 + random.below(most);
    let max_queued = 1 + random.below(3000) as u32;
    let queue = TransmitQueue { packets: 1 + random.below(500) as u32, priority: random.one_in(2) };
    let transmit_queue = random.one_in(3).then_some(queue);
    let pushes = info.supports(Feature::PushOut) && random.one_in(3);
    let when_full = if pushes { WhenFull::PushOut } else { WhenFull::DropArrival };
    let link = LinkConfig { max_queued, when_full, transmit_queue, ..LinkConfig::new(rate(RATE)) };
    let mut tree = Hierarchy::builder(link);
    let deep = info.supports(Feature::Hierarchy);
    let mut parents = vec![ClassId::ROOT];
    for _ in 0..classes {
        let parent = parents[if deep { random.below(parents.len() as u64) as usize } else { 0 }];
        let config = config(info, random, classes);
        match tree.add(parent, config) {
            Ok(class) => parents.push(class),
            Err(HierarchyError::TooDeep { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    // Settings that only leaves may have are removed from inner classes.
    let built = tree.build().unwrap();
    let mut tree = Hierarchy::builder(built.link());
    for class in built.classes() {
        let mut config = *built.config(class);
        if !built.is_leaf(class) {
            (config.real_time, config.latency_critical, config.burst) = (None, false, None);
        }
        tree.add(built.parent(class).unwrap(), config).unwrap();
    }
    tree.build().unwrap()
}

/// Builds with at most `bytes` more memory than is in use.
fn build_within(info: &SchedulerInfo, tree: &Hierarchy, bytes: u64) -> Result<(), BuildError> {
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + bytes as usize).unwrap();
    let built = info.build(tree, Leniency::Ignore, Members::new()).map(drop);
    ALLOCATOR.set_limit(usize::MAX).unwrap();
    built
}

/// The box itself, which is not counted: the scheduler's own fields.
const BOX: u64 = 2048;

// One test, because the allocator's limit is that of the whole process.
#[test]
fn memory_is_known_before_and_its_refusal_at_any_point_is_an_error() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for info in SCHEDULERS {
        for case in 0..40 {
            let tree = tree(info, &mut random, [12, 60, 400][case % 3]);
            let says = info.memory_for(&tree);
            let name = info.name;
            match build_within(info, &tree, says + BOX) {
                Ok(()) => {}
                // A tree that the scheduler cannot run with is refused for any amount of memory.
                Err(BuildError::OutOfMemory { bytes }) => {
                    panic!("{name}: {says} B do not suffice, {bytes} B were missing")
                }
                Err(_) => continue,
            }
            // The declared amount is close to the used one. Memory used only during construction is free again when the
            // transmit queue is made.
            let most = says * 3 / 4;
            if says > 20_000 && tree.link().transmit_queue.is_none() {
                let scarce = build_within(info, &tree, most);
                assert!(matches!(scarce, Err(BuildError::OutOfMemory { .. })), "{name}: {most} B of {says} B suffice");
            }
            for part in 0..48 {
                match build_within(info, &tree, says * part / 48) {
                    Ok(()) | Err(BuildError::OutOfMemory { .. }) => {}
                    Err(other) => panic!("{name}: {other}"),
                }
            }
        }
    }
    huge_queues_and_trees_are_refused_by_numbers();
    #[cfg(feature = "shared")]
    shared::trees_and_workers_take_what_they_say(&mut random);
    #[cfg(all(feature = "hub", feature = "shared"))]
    hubs::they_take_no_more_than_they_say(&mut random);
}

/// Several hubs with their rings.
#[cfg(all(feature = "hub", feature = "shared"))]
mod hubs {
    use fairlink_core::{DropReason, Hubs, HubsConfig, Nanos, Packet, SharedConfig, SharedTree, registry};

    use super::*;

    pub(super) fn they_take_no_more_than_they_say(random: &mut Random) {
        let hvt = registry::find("hvt").unwrap();
        for case in 0..40 {
            let mut tree = super::tree(hvt, random, [12, 60, 400][case % 3]);
            let link = LinkConfig { transmit_queue: None, when_full: WhenFull::DropArrival, ..tree.link() };
            let change = |_, config: &mut ClassConfig| (config.latency_critical, config.burst) = (false, None);
            tree = tree.rebuilt(link, change).unwrap();
            let config = HubsConfig {
                hubs: 1 + case % 7,
                receivers: 1 + case % 5 * 6,
                transmitters: 1 + case % 3 * 4,
                ring: [1, 64, 1000][case % 3],
                held: [0, 4096][case % 2],
            };
            let (hash, drops) = (Packet::flow, |_: usize| |_: Nanos, _: Packet, _: DropReason| {});
            let shared = SharedTree::new(tree.clone(), SharedConfig::for_link(&link)).unwrap();
            let says = Hubs::<fn(&Packet) -> u32, fn(Nanos, Packet, DropReason)>::memory_for(&tree, config);
            ALLOCATOR.set_limit(ALLOCATOR.allocated() + says as usize).unwrap();
            let built = Hubs::new(&shared, config, hash, drops).map(drop);
            ALLOCATOR.set_limit(usize::MAX).unwrap();
            built.unwrap();
        }
    }
}

/// A tree that several cores share, and a worker of it.
#[cfg(feature = "shared")]
mod shared {
    use fairlink_core::{SharedConfig, SharedError, SharedTree, Worker, registry};

    use super::*;

    /// Makes a shared tree within `bytes` more memory than is in use, and a worker within as many as `worker` more.
    fn build_within(tree: &Hierarchy, bytes: u64, worker: u64) -> Result<(), SharedError> {
        let limit = |more: u64| ALLOCATOR.set_limit(ALLOCATOR.allocated() + more as usize).unwrap();
        let (own, config) = (tree.clone(), SharedConfig::for_link(&tree.link()));
        limit(bytes);
        let built = SharedTree::new(own, config).and_then(|shared| {
            limit(worker);
            shared.worker().map(drop)
        });
        ALLOCATOR.set_limit(usize::MAX).unwrap();
        built
    }

    pub(super) fn trees_and_workers_take_what_they_say(random: &mut Random) {
        // Trees that it takes: with the features of hvt, but for leaves that are latency-critical.
        let hvt = registry::find("hvt").unwrap();
        for case in 0..60 {
            let mut built = super::tree(hvt, random, [12, 60, 400][case % 3]);
            let link = LinkConfig { transmit_queue: None, when_full: WhenFull::DropArrival, ..built.link() };
            let change = |_, config: &mut ClassConfig| (config.latency_critical, config.burst) = (false, None);
            built = built.rebuilt(link, change).unwrap();
            let (says, worker) = (SharedTree::memory_for(&built), Worker::memory_for(&built));
            match build_within(&built, says, worker) {
                Ok(()) => {}
                Err(error) => panic!("{says} and {worker} B do not suffice: {error}"),
            }
            let is_refused = |result| matches!(result, Err(SharedError::OutOfMemory { .. }));
            assert!(is_refused(build_within(&built, says * 3 / 4, worker)), "3/4 of {says} B suffice");
            assert!(is_refused(build_within(&built, says, worker * 3 / 4)), "3/4 of {worker} B suffice");
            for part in 0..48 {
                for result in
                    [build_within(&built, says * part / 48, worker), build_within(&built, says, worker * part / 48)]
                {
                    assert!(result.is_ok() || is_refused(result), "{result:?}");
                }
            }
        }
    }
}

/// Memory for 2^32 packets, which would have aborted the process.
fn huge_queues_and_trees_are_refused_by_numbers() {
    let mut tree = Hierarchy::builder(LinkConfig { max_queued: u32::MAX, ..LinkConfig::new(rate(RATE)) });
    tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    let tree = tree.build().unwrap();
    for info in SCHEDULERS {
        let says = info.memory_for(&tree);
        assert!(says >= u64::from(u32::MAX) * 16, "{}: {says}", info.name);
        let refused = build_within(info, &tree, 1 << 30);
        let Err(BuildError::OutOfMemory { bytes }) = refused else { panic!("{}: {refused:?}", info.name) };
        assert!(bytes >= u64::from(u32::MAX) * 16, "{}: {bytes}", info.name);
    }
    let mut builder = Hierarchy::builder(LinkConfig::new(rate(RATE)));
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + 10_000).unwrap();
    let refused = loop {
        if let Err(error) = builder.add(ClassId::ROOT, ClassConfig::default()) {
            break error;
        }
    };
    let built = builder.build();
    ALLOCATOR.set_limit(usize::MAX).unwrap();
    assert!(matches!(refused, HierarchyError::OutOfMemory { .. }), "{refused}");
    assert!(built.is_ok() || matches!(built, Err(HierarchyError::OutOfMemory { .. })));
}
