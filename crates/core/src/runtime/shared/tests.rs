//! Random trees, workers and traffic; the invariants hold after every call.

use std::vec::Vec;

use super::*;
use crate::contract::{Amount, BatchEnd, ClassConfig, DropReason, Packet, Rate, Scheduler, Share};

/// xorshift64*.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD134_2543_DE82_EF95);
        (0..8).for_each(|_| _ = random.below(2));
        random
    }

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

/// A random tree of up to four levels, on a link of 1 Gbit/s.
fn random_tree(random: &mut Random) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000_000_000).unwrap()));
    let most = [1, 10, 3000, 1_000_000_000][random.below(4) as usize];
    let mut open = std::vec![(ClassId::ROOT, 1)];
    while let Some((parent, level)) = open.pop() {
        for _ in 0..2 + random.below(3) {
            let share = Some(Share::Weight(1 + random.below(most)));
            let class = tree.add(parent, ClassConfig { share, ..ClassConfig::default() }).unwrap();
            if level < 4 && random.one_in(3) {
                open.push((class, level + 1));
            }
        }
    }
    tree.build().unwrap()
}

fn no_drops(_: Nanos, packet: Packet, why: DropReason) {
    panic!("{packet:?} {}", why.as_str());
}

/// Workers of a tree, and what they got and gave.
struct Run {
    shared: Arc<SharedTree>,
    workers: Vec<Worker>,
    now: Nanos,
    handle: u64,
    /// By worker and leaf: handles in their order.
    queued: Vec<Vec<std::collections::VecDeque<(u64, u32)>>>,
    sent: u64,
}

impl Run {
    fn new(tree: Hierarchy, config: SharedConfig, workers: usize) -> Self {
        let classes = tree.len();
        let shared = SharedTree::new(tree, config).unwrap();
        let queued = (0..workers).map(|_| (0..classes).map(|_| Default::default()).collect()).collect();
        let workers = (0..workers).map(|_| shared.worker().unwrap()).collect();
        Self { shared, workers, now: Nanos::ZERO, handle: 0, queued, sent: 0 }
    }

    fn enqueue(&mut self, worker: usize, class: ClassId, len: u32) {
        let packet = Packet { handle: self.handle, len, class };
        self.queued[worker][class.index()].push_back((self.handle, len));
        self.handle += 1;
        self.workers[worker].enqueue(self.now, packet, &mut no_drops);
    }

    fn dequeue(&mut self, worker: usize, most: usize) -> BatchEnd {
        let mut out = Vec::with_capacity(64);
        let end = self.workers[worker].dequeue_batch(self.now, most, u64::MAX, &mut out, &mut no_drops);
        for packet in out {
            let expected = self.queued[worker][packet.class.index()].pop_front();
            assert_eq!(expected, Some((packet.handle, packet.len)), "each packet leaves once, in its order");
            self.sent += u64::from(packet.len);
        }
        assert_eq!(self.shared.sent(), self.sent);
        let mut backlog = Amount::ZERO;
        self.queued[worker].iter().flatten().for_each(|&(_, len)| backlog.count(len));
        assert_eq!(self.workers[worker].backlog(), backlog);
        assert!(end != BatchEnd::Idle || backlog == Amount::ZERO);
        if let BatchEnd::WaitUntil(at) = end {
            assert!(at > self.now);
        }
        end
    }

    fn check(&self) {
        if let Err(broken) = self.shared.check_invariants(1) {
            panic!("{broken} at {}", self.now);
        }
    }
}

/// Bytes given = bytes sent + credit, to the unit, after every call, in 1,000 random trees; and all packets leave.
#[test]
fn no_credit_is_lost_or_made() {
    let trees = std::env::var("FAIRLINK_TREES").map_or(1000, |trees| trees.parse().unwrap());
    let (mut packets, mut idle) = (0, 0);
    for seed in 0..trees {
        let random = &mut Random::new(seed);
        let tree = random_tree(random);
        let leaves = tree.leaves().to_vec();
        let bytes = |random: &mut Random, most: u64| 1500 + random.below(most);
        let config =
            SharedConfig { mark: bytes(random, 30_000), credit: bytes(random, 99_000), stored: bytes(random, 50_000) };
        let cores = 1 + random.below(8) as usize;
        let mut run = Run::new(tree, config, cores);
        // Leaves with one core, and those with any.
        let home: Vec<Option<usize>> =
            leaves.iter().map(|_| (!random.one_in(3)).then(|| random.below(cores as u64) as usize)).collect();
        let dense = 1 + random.below(8);
        for _ in 0..400 {
            let most = if random.one_in(20) { 400_000 } else { 20_000 };
            run.now = run.now.saturating_add(Nanos(random.below(most)));
            for _ in 0..random.below(dense) {
                let leaf = random.below(leaves.len() as u64) as usize;
                let worker = home[leaf].unwrap_or_else(|| random.below(cores as u64) as usize);
                run.enqueue(worker, leaves[leaf], 64 + random.below(1437) as u32);
            }
            let worker = random.below(cores as u64) as usize;
            let _ = run.dequeue(worker, 1 + random.below(40) as usize);
            run.check();
        }
        // All is sent in the end, and all leaves go off.
        let mut left = 10_000;
        loop {
            run.now = run.now.saturating_add(Nanos(5_000));
            if (0..cores).filter(|&worker| run.dequeue(worker, 64) != BatchEnd::Idle).count() == 0 {
                break;
            }
            left -= 1;
            assert!(left > 0, "packets or leaves stay: seed {seed}");
        }
        run.check();
        packets += run.handle;
        idle += u64::from(run.shared.classes.nodes[0].load().weight == 0);
    }
    assert!(packets > trees * 100 && idle == trees, "{packets} packets, {idle} trees");
}
