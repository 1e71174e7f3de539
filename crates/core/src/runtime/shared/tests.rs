//! Random trees, workers and traffic; the invariants hold after every call.

use std::vec::Vec;

use super::atomics::{AtomicU64, Ordering};
use super::*;
use crate::contract::{Amount, BatchEnd, ClassConfig, DropReason, Packet, QueueKind, Rate, Scheduler, Share};
use crate::runtime::random::Random;

mod threads;

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
    /// Where the shared counts began.
    start: u64,
    /// Bytes sent below each class.
    below: Vec<u64>,
}

impl Run {
    fn new(tree: Hierarchy, config: SharedConfig, workers: usize) -> Self {
        let classes = tree.len();
        let shared = SharedTree::new(tree, config).unwrap();
        let queued = (0..workers).map(|_| (0..classes).map(|_| Default::default()).collect()).collect();
        let workers = (0..workers).map(|_| shared.worker().unwrap()).collect();
        Self { shared, workers, now: Nanos::ZERO, handle: 0, queued, sent: 0, start: 0, below: std::vec![0; classes] }
    }

    /// Starts all counts and virtual times shortly before they wrap.
    fn start_before_the_wrap(&mut self) {
        self.start = u64::MAX - 100_000;
        self.shared.classes.pace.start_at(self.start);
        let time = |at: usize| if at == 0 { u128::from(self.start) << 64 } else { u128::MAX - (1 << 70) };
        for (at, node) in self.shared.classes.nodes.iter().enumerate() {
            let record = record::Record { v: u128::MAX - (1 << 70), parent: time(at), ..record::Record::default() };
            node.store(&record);
        }
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
            let mut class = Some(packet.class);
            while let Some(at) = class {
                self.below[at.index()] += u64::from(packet.len);
                class = self.shared.hierarchy().parent(at);
            }
        }
        assert_eq!(self.shared.sent().wrapping_sub(self.start), self.sent);
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
        if let Err(broken) = self.shared.check_invariants() {
            panic!("{broken} at {}", self.now);
        }
    }
}

/// Bytes given = bytes sent + credit, to the unit, after every call, in 1,000 random trees; and all packets leave. In
/// every second tree all numbers wrap.
#[test]
fn no_credit_is_lost_or_made() {
    let trees = std::env::var("FAIRLINK_TREES").map_or(1000, |trees| trees.parse().unwrap());
    let (mut packets, mut idle) = (0, 0);
    for seed in 0..trees {
        let random = &mut Random::new(seed);
        let tree = random_tree(random);
        let leaves = tree.leaves().to_vec();
        let bytes = |random: &mut Random, most: u64| 1500 + random.below(most);
        let config = SharedConfig {
            mark: bytes(random, 30_000),
            credit: bytes(random, 99_000),
            stored: bytes(random, 50_000),
            ahead: random.below(2) * random.below(20_000),
        };
        let cores = 1 + random.below(8) as usize;
        let mut run = Run::new(tree, config, cores);
        if seed % 2 == 1 {
            run.start_before_the_wrap();
        }
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

/// Lambda of each class, in bytes: the largest packets of the leaves below it, and `ahead` for each inner class from it
/// down.
fn slack(tree: &Hierarchy, config: SharedConfig) -> Vec<i128> {
    let mut slack = std::vec![0; tree.len()];
    for class in (0..tree.len()).rev() {
        let at = ClassId(class as u32);
        slack[class] += if tree.is_leaf(at) { i128::from(tree.link().max_packet) } else { config.ahead.into() };
        if let Some(parent) = tree.parent(at) {
            slack[parent.index()] += slack[class];
        }
    }
    slack
}

/// Siblings that are on together.
#[derive(Clone, Debug)]
struct Pair {
    classes: (ClassId, ClassId),
    /// When each went on, as its parent's virtual time; `None` while one of them is off.
    since: Option<(u128, u128)>,
    /// Least and largest difference of their service, times both weights.
    range: (i128, i128),
}

/// Theorem V of docs/cores.md, on 300 random trees.
#[test]
fn siblings_that_are_on_stay_within_the_theorem() {
    let trees = std::env::var("FAIRLINK_TREES").map_or(300, |trees| trees.parse().unwrap());
    let (mut worst, mut seen) = (0, 0u64);
    for seed in 0..trees {
        let random = &mut Random::new(seed ^ 0xFA1);
        let tree = random_tree(random);
        let leaves = tree.leaves().to_vec();
        let credit = 12_000 + random.below(60_000);
        let ahead = random.below(2) * random.below(9000);
        let config = SharedConfig { mark: 6000 + random.below(20_000), credit, stored: 1 << 40, ahead };
        let slack = slack(&tree, config);
        let mut pairs = Vec::new();
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
            let children = tree.children(class);
            for (at, &a) in children.iter().enumerate() {
                pairs.extend(children[at + 1..].iter().map(|&b| Pair { classes: (a, b), since: None, range: (0, 0) }));
            }
        }
        let cores = 1 + random.below(8) as usize;
        let mut run = Run::new(tree, config, cores);
        let greedy: Vec<bool> = leaves.iter().map(|_| random.one_in(2)).collect();
        let home: Vec<Option<usize>> =
            leaves.iter().map(|_| (!random.one_in(4)).then(|| random.below(cores as u64) as usize)).collect();
        let mut most = 0;
        for _ in 0..1500 {
            run.now = run.now.saturating_add(Nanos(random.below(12_000)));
            for (leaf, &greedy) in greedy.iter().enumerate() {
                let worker = home[leaf].unwrap_or_else(|| random.below(cores as u64) as usize);
                let queued = run.workers[worker].class_backlog(leaves[leaf]).packets;
                let arriving =
                    if greedy { 6u64.saturating_sub(queued) } else { u64::from(random.one_in(8)) * random.below(4) };
                (0..arriving).for_each(|_| run.enqueue(worker, leaves[leaf], 64 + random.below(1437) as u32));
            }
            let worker = random.below(cores as u64) as usize;
            let _ = run.dequeue(worker, 1 + random.below(40) as usize);
            run.check();
            most = most.max(i128::from(run.shared.credit(ClassId::ROOT)));
            for pair in &mut pairs {
                let (a, b) = pair.classes;
                let child = |class: ClassId| &run.shared.classes.children[class.index()];
                if !run.shared.is_on(a) || !run.shared.is_on(b) {
                    pair.since = None;
                    continue;
                }
                let (wa, wb) = (i128::from(child(a).weight), i128::from(child(b).weight));
                let apart = i128::from(run.below[a.index()]) * wb - i128::from(run.below[b.index()]) * wa;
                let since = Some((child(a).base(), child(b).base()));
                if pair.since != since {
                    (pair.since, pair.range) = (since, (apart, apart));
                }
                pair.range = (pair.range.0.min(apart), pair.range.1.max(apart));
                // Lambda_a + E_a, where E_a is at most X + Lambda - Lambda_a.
                let each = most.max(credit.into()) + slack[0];
                let ratio = (pair.range.1 - pair.range.0) * 1000 / (each * (wa + wb));
                assert!(ratio <= 1000, "seed {seed}: {pair:?}: {ratio} of 1000, X up to {most}");
                worst = worst.max(ratio);
                seen += u64::from(ratio > 100);
            }
        }
    }
    std::println!("worst ratio to the bound: {worst} of 1000");
    assert!(seen > trees, "pairs are on together");
}

/// A core stops while its leaf is on. Two others, one of which has only a little to send, use the whole link.
#[test]
fn a_core_that_stops_leaves_the_link_to_the_others() {
    let link = LinkConfig::new(Rate::from_bps(10_000_000_000).unwrap());
    let mut tree = Hierarchy::builder(link);
    let leaves = [(); 3].map(|()| tree.add(ClassId::ROOT, ClassConfig::default()).unwrap());
    let config = SharedConfig::for_link(&link);
    let mut run = Run::new(tree.build().unwrap(), config, 3);
    let mut from = 0;
    // The two look every 5 us and every microsecond.
    for micros in 0..20_000u64 {
        run.now = Nanos::from_micros(micros);
        while run.workers[0].class_backlog(leaves[0]).packets < 100 {
            run.enqueue(0, leaves[0], 1500);
        }
        while run.workers[1].class_backlog(leaves[1]).packets < 100 {
            run.enqueue(1, leaves[1], 1500);
        }
        if micros % 100 == 0 {
            run.enqueue(2, leaves[2], 1500);
        }
        let _ = run.dequeue(2, 64);
        if micros % 5 == 0 {
            let _ = run.dequeue(1, 64);
        }
        if micros < 5_000 {
            let _ = run.dequeue(0, 64);
        }
        run.check();
        if micros == 10_000 {
            from = run.sent;
        }
    }
    let carried = run.sent - from;
    assert!((12_400_000..=12_600_000).contains(&carried), "{carried} B in 10 ms of 12,500,000 B");
    // When it comes back, it has no more than may be stored, and as much as the others from then on.
    let (one, other) = (run.below[leaves[0].index()], run.below[leaves[1].index()]);
    for micros in 20_000..30_000 {
        run.now = Nanos::from_micros(micros);
        for (worker, &leaf) in leaves[..2].iter().enumerate() {
            while run.workers[worker].class_backlog(leaf).packets < 100 {
                run.enqueue(worker, leaf, 1500);
            }
            let _ = run.dequeue(worker, 64);
        }
        run.check();
    }
    let (one, other) = (run.below[leaves[0].index()] - one, run.below[leaves[1].index()] - other);
    let ahead = one as i64 - other as i64;
    assert!((-30_000..=config.stored as i64 + 30_000).contains(&ahead), "{one} and {other} B");
    assert!(run.shared.dropped_credit() > 5_000_000, "{} B of credit dropped", run.shared.dropped_credit());
}

/// Classes with ceilings, at leaves and above them, on one core and on several: none sends more than ceiling, depth and
/// a packet allow in any interval, the first reaches its ceiling, and the rest goes to the others.
#[test]
fn ceilings_are_kept_and_reached_and_the_rest_goes_to_others() {
    let rate = |mbit: u64| Rate::from_bps(mbit * 1_000_000).unwrap();
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(10_000)));
    let limited = |mbit: Option<u64>| ClassConfig { ceiling: mbit.map(rate), ..ClassConfig::default() };
    let class = tree.add(ClassId::ROOT, limited(Some(2000))).unwrap();
    let other = tree.add(ClassId::ROOT, limited(None)).unwrap();
    let below = [tree.add(class, limited(Some(500))).unwrap(), tree.add(class, limited(None)).unwrap()];
    let leaves = [below[0], below[1], other];
    let config = SharedConfig::for_link(&LinkConfig::new(rate(10_000)));
    let mut run = Run::new(tree.build().unwrap(), config, 2);
    // The leaves of the class have packets on both cores.
    let homes: [&[usize]; 3] = [&[0, 1], &[0, 1], &[1]];
    let ceilings = [(below[0], 500u64), (class, 2000)];
    // The least of sent - ceiling t before a call, and the most by which a later one exceeds it.
    let mut least = [i128::MAX; 2];
    let mut burst = [0i128; 2];
    let (mut from, random) = (Vec::new(), &mut Random::new(5));
    for step in 0..200_000u64 {
        run.now = run.now.saturating_add(Nanos(50 + random.below(400)));
        for (&leaf, homes) in leaves.iter().zip(homes) {
            for &worker in homes {
                while run.workers[worker].class_backlog(leaf).packets < 20 {
                    run.enqueue(worker, leaf, 64 + random.below(1437) as u32);
                }
            }
        }
        let ahead = |run: &Run, class: ClassId, mbit: u64| {
            i128::from(run.below[class.index()]) * 8000 - i128::from(mbit) * i128::from(run.now.0)
        };
        for (least, &(class, mbit)) in least.iter_mut().zip(&ceilings) {
            *least = ahead(&run, class, mbit).min(*least);
        }
        let _ = run.dequeue(random.below(2) as usize, 32);
        run.check();
        for (at, &(class, mbit)) in ceilings.iter().enumerate() {
            burst[at] = burst[at].max(ahead(&run, class, mbit) - least[at]);
        }
        if step == 40_000 {
            from = run.below.clone();
            from.push(run.now.0);
        }
    }
    let nanos = run.now.0 - from[from.len() - 1];
    let mbit = |class: ClassId| (run.below[class.index()] - from[class.index()]) * 8000 / nanos;
    let rates = [mbit(below[0]), mbit(class), mbit(other)];
    assert!((495..=500).contains(&rates[0]) && (1980..=2000).contains(&rates[1]), "{rates:?} Mbit/s");
    assert!((7980..=8020).contains(&rates[2]), "{rates:?} Mbit/s");
    let bytes = burst.map(|burst| burst / 8000);
    // Depth: 8 packets, or 50 us of the ceiling; and a packet.
    assert!(bytes[0] <= 12_000 + 1500 && bytes[1] <= 12_500 + 1500, "bursts of {bytes:?} B");
    assert!(bytes.iter().all(|&bytes| bytes > 1500), "bursts of {bytes:?} B");
    std::println!("bursts of {bytes:?} B, {rates:?} Mbit/s");
}

#[test]
fn what_cannot_be_honoured_is_refused_with_the_reason() {
    let refused = |config: ClassConfig| {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000_000).unwrap()));
        tree.add(ClassId::ROOT, config).unwrap();
        let config = SharedConfig::for_link(&LinkConfig::new(Rate::from_bps(1_000_000).unwrap()));
        SharedTree::new(tree.build().unwrap(), config).err()
    };
    assert_eq!(refused(ClassConfig::default()), None);
    let critical = refused(ClassConfig { latency_critical: true, ..ClassConfig::default() });
    let Some(SharedError::Unsupported { class: ClassId(1), feature: Feature::LatencyCritical, reason }) = critical
    else {
        panic!("{critical:?}")
    };
    assert!(reason.contains("no core can recall them"));
    let priority = refused(ClassConfig { priority: Some(1), ..ClassConfig::default() });
    assert!(matches!(priority, Some(SharedError::Unsupported { feature: Feature::Priority, .. })));
}

/// Queues that drop packets by themselves, and hosts that share a leaf: every packet leaves or is dropped, once.
#[test]
fn active_queues_drop_and_nothing_is_lost() {
    let (mut lost, mut gone) = (0u64, 0u64);
    for seed in 0..100 {
        let random = &mut Random::new(seed ^ 0xC0DE1);
        let tree = random_tree(random);
        let kinds = [QueueKind::Fifo, QueueKind::CoDel, QueueKind::FqCoDel];
        let change = |_: ClassId, config: &mut ClassConfig| {
            config.queue = kinds[random.below(3) as usize];
            config.limits.packets = 30;
        };
        let tree = tree.rebuilt(tree.link(), change).unwrap();
        let leaves = tree.leaves().to_vec();
        let shared =
            SharedTree::new(tree, SharedConfig { mark: 9000, credit: 20_000, stored: 9000, ahead: 6000 }).unwrap();
        let mut workers: Vec<Worker> = (0..3).map(|_| shared.worker().unwrap()).collect();
        let (mut came, mut went, mut dropped) = (0u64, 0u64, 0u64);
        let mut out = Vec::with_capacity(64);
        for step in 0..3000u64 {
            let now = Nanos::from_micros(step * 10);
            let worker = &mut workers[random.below(3) as usize];
            let mut drops = |_: Nanos, _: Packet, _: DropReason| dropped += 1;
            for _ in 0..random.below(6) {
                let class = leaves[random.below(leaves.len() as u64) as usize];
                let handle = crate::contract::flow_bits(random.below(40) as u32);
                worker.enqueue(now, Packet { handle, len: 64 + random.below(1437) as u32, class }, &mut drops);
                came += 1;
            }
            let _ = worker.dequeue_batch(now, 1 + random.below(8) as usize, u64::MAX, &mut out, &mut drops);
            if random.one_in(300) {
                worker.purge(now, &mut drops);
                assert_eq!(worker.backlog(), Amount::ZERO);
            }
            went += out.drain(..).count() as u64;
            let queued: u64 = workers.iter().map(|worker| worker.backlog().packets).sum();
            assert_eq!(came, went + dropped + queued, "seed {seed}");
            shared.check_invariants().unwrap();
        }
        drop(workers);
        shared.check_invariants().unwrap();
        assert!(leaves.iter().all(|&leaf| !shared.is_on(leaf)));
        (lost, gone) = (lost + dropped, gone + went);
    }
    assert!(lost > 10_000 && gone > 100_000, "{lost} dropped, {gone} sent");
}
