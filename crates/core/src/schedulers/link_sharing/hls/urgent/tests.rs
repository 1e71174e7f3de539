//! Latency-critical leaves: their delay bound, and that they do not cost the others.

use alloc::collections::VecDeque;

use super::*;
use crate::contract::{ClassConfig, Dequeued, Nanos, Scheduler};
use crate::schedulers::hls::{Hls, tests::*};
use crate::test_link::invariants;
use proptest::prelude::*;

/// Some leaves are latency-critical, with and without a burst of their own; settings of inner classes have no effect.
fn some_urgent() -> impl Strategy<Value = ClassConfig> {
    (0u32..3, proptest::option::of(1u64..5000)).prop_map(|(one_in, burst)| ClassConfig {
        latency_critical: one_in == 0,
        burst: burst.filter(|_| one_in == 0),
        ..ClassConfig::default()
    })
}

/// The delay bound of a leaf times the link's rate: its burst, plus the other bytes ahead of its packets.
fn bytes_before(advances: &Advances, tree: &Hierarchy, leaf: ClassId) -> Option<u64> {
    let burst = tree.config(leaf).burst.unwrap_or(u64::from(tree.link().max_packet));
    Some(burst + advances.bytes_late(tree, leaf)?)
}

/// The sum of the advances in the subtree of each class.
fn advances_below(tree: &Hierarchy) -> Vec<u64> {
    let advances = Advances::for_tree(tree, &RunWeights::for_tree(tree).unwrap()).unwrap();
    let mut below: Vec<u64> = (0..tree.len()).map(|class| advances.bytes(ClassId(class as u32))).collect();
    for class in tree.classes().rev() {
        below[tree.parent(class).unwrap().index()] += below[class.index()];
    }
    assert_eq!(below[0], advances.total());
    below
}

/// Traffic that never exceeds a burst and a share of the link, in 2^-32 byte; time is in bytes that the link could have sent.
struct TokenBucket {
    tokens: u128,
    depth: u128,
    share: u128,
    filled: u64,
}

impl TokenBucket {
    /// Takes `len` bytes at `now` if they are there.
    fn take(&mut self, now: u64, len: u32) -> bool {
        self.tokens = (self.tokens + self.share * u128::from(now - self.filled)).min(self.depth);
        self.filled = now;
        let cost = u128::from(len) * WHOLE;
        let enough = self.tokens >= cost;
        self.tokens -= if enough { cost } else { 0 };
        enough
    }
}

/// A leaf's share of the link when all are busy, with the weights as run, rounded down.
fn share(tree: &Hierarchy, run: &RunWeights, leaf: ClassId) -> u128 {
    let (mut share, mut at) = (WHOLE << 32, leaf);
    while let Some(parent) = tree.parent(at) {
        let all: u128 = tree.children(parent).iter().map(|&child| u128::from(run.credits(child))).sum();
        share = share * u128::from(run.credits(at)) / all;
        at = parent;
    }
    share >> 32
}

#[derive(Clone, Debug)]
struct Arrival {
    leaf: usize,
    len: u32,
    /// True if a latency-critical leaf's traffic conforms.
    conforming: bool,
}

fn arrivals() -> impl Strategy<Value = Vec<Vec<Arrival>>> {
    let len = prop_oneof![Just(1000u32), 1u32..=1000];
    let arrival = (0usize..1 << 20, len).prop_map(|(leaf, len)| Arrival { leaf, len, conforming: leaf % 7 != 0 });
    proptest::collection::vec(proptest::collection::vec(arrival, 0..6), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn fairness_grows_by_no_more_than_the_advances(tree in trees_of(40, some_urgent()), steps in steps(600)) {
        let below = advances_below(&tree);
        check_fairness(&tree, &steps, |class| below[class.index()]);
    }

    /// The delay bound of every conforming latency-critical leaf, and that it is always ahead of its turn by less than
    /// its advance, for any traffic of the other leaves: some latency-critical ones send as much as they can.
    #[test]
    fn packets_within_the_share_wait_for_nothing_but_what_is_ahead_of_them(
        tree in trees_of(40, some_urgent()), arrivals in arrivals(), greedy in any::<bool>()
    ) {
        let run = RunWeights::for_tree(&tree).unwrap();
        let advances = Advances::for_tree(&tree, &run).unwrap();
        let mut hls = Hls::new(&tree).unwrap();
        let leaves = tree.leaves();
        let is_urgent = |leaf: ClassId| tree.config(leaf).latency_critical;
        let largest = u64::from(tree.link().max_packet);
        let burst = |leaf: ClassId| tree.config(leaf).burst.unwrap_or(largest);
        let mut buckets: Vec<TokenBucket> = leaves
            .iter()
            .map(|&leaf| {
                let depth = u128::from(burst(leaf)) * WHOLE;
                TokenBucket { tokens: depth, depth, share: share(&tree, &run, leaf), filled: 0 }
            })
            .collect();
        let mut arrived = alloc::vec![VecDeque::new(); tree.len()];
        // The previous packet was being sent from `started` to `now`; all that arrives comes just after its start.
        let (mut started, mut now) = (0u64, 0u64);
        // Every leaf keeps to its rule all the time: one that was greedy once has no bound.
        let keeps = |leaf: usize| !greedy || leaf % 3 != 1;
        for step in arrivals {
            for Arrival { leaf, len, conforming } in step {
                let leaf = leaf % leaves.len();
                let class = leaves[leaf];
                let mut count = if is_urgent(class) { u32::from(conforming || !keeps(leaf)) } else { 1 + len % 3 };
                while count > 0 && hls.class_backlog(class).packets < 50 {
                    if !is_urgent(class) || !keeps(leaf) || buckets[leaf].take(started, len) {
                        hls.enqueue(Nanos::ZERO, packet(class.0, len), &mut no_drops);
                        arrived[class.index()].push_back(started);
                    }
                    count -= 1;
                }
                if is_urgent(class) && keeps(leaf) && bytes_before(&advances, &tree, class).is_some() {
                    let ahead = u64::try_from(hls.urgent.debt(class.0)).unwrap().div_ceil(CREDITS_PER_BYTE);
                    let ahead = ahead + hls.class_backlog(class).bytes;
                    prop_assert!(ahead <= advances.bytes(class), "{class:?}: {ahead} of {}", advances.bytes(class));
                }
            }
            invariants(&hls).unwrap();
            started = now;
            let Some(sent) = next_packet(&mut hls) else {
                now += 300;
                continue;
            };
            invariants(&hls).unwrap();
            now += u64::from(sent.len);
            let delay = now - arrived[sent.class.index()].pop_front().unwrap();
            let leaf = leaves.iter().position(|&leaf| leaf == sent.class).unwrap();
            if let Some(bound) = bytes_before(&advances, &tree, sent.class) && keeps(leaf) {
                prop_assert!(delay <= bound, "{:?}: {delay} > {bound}", sent.class);
            }
        }
    }

    #[test]
    fn rounds_that_only_pay_debt_are_few(tree in trees_of(40, some_urgent()), steps in steps(400)) {
        let mut hls = Hls::new(&tree).unwrap();
        let leaves = tree.leaves();
        let urgent = leaves.iter().filter(|&&leaf| tree.config(leaf).latency_critical).count() as u64;
        let most = advances_below(&tree)[0] / u64::from(tree.link().max_packet);
        for step in &steps {
            match *step {
                Step::Enqueue(leaf, len) => {
                    let class = leaves[leaf % leaves.len()];
                    if hls.class_backlog(class).packets < 50 {
                        hls.enqueue(Nanos::ZERO, packet(class.0, len), &mut no_drops);
                    }
                }
                Step::Dequeue(times) => {
                    for _ in 0..times {
                        let before = hls.rounds().main;
                        next_packet(&mut hls);
                        let rounds = hls.rounds().main - before;
                        prop_assert!(rounds <= 3 + urgent + 2 * most, "{rounds} rounds");
                    }
                }
            }
        }
    }
}

/// Figure 1 with B1 latency-critical.
fn figure_1_with_b1_urgent(burst: Option<u64>) -> Hierarchy {
    let plain = figure_1();
    let mut tree = builder(1500);
    for class in plain.classes() {
        let b1 = class == ClassId(6);
        let config = ClassConfig { latency_critical: b1, burst: burst.filter(|_| b1), ..*plain.config(class) };
        tree.add(plain.parent(class).unwrap(), config).unwrap();
    }
    tree.build().unwrap()
}

#[test]
fn the_advance_of_figure_1_is_what_the_formula_says() {
    let tree = figure_1_with_b1_urgent(None);
    let advances = Advances::for_tree(&tree, &RunWeights::for_tree(&tree).unwrap()).unwrap();
    // Q = 1600 + 5 * 1500 = 9100, L = 1500; s = 1/10, B may keep 300 / 3 bytes of B1's:
    // A = (1500 + 100 + (18,200 + 1500) / 10) / (1 - 1/10) = 3966.67.
    assert!((3967..3972).contains(&advances.bytes(ClassId(6))), "{advances:?}");
    assert_eq!((advances.bytes(ClassId(7)), advances.total()), (0, advances.bytes(ClassId(6))));
    // One packet of another class and its own burst: 3000 B.
    assert_eq!(bytes_before(&advances, &tree, ClassId(6)), Some(3000));
    assert_eq!(bytes_before(&advances, &tree, ClassId(7)), None);
    let longer = figure_1_with_b1_urgent(Some(10_500));
    let advances = Advances::for_tree(&longer, &RunWeights::for_tree(&longer).unwrap()).unwrap();
    assert!((13_967..13_972).contains(&advances.bytes(ClassId(6))), "{advances:?}");
    assert_eq!(bytes_before(&advances, &longer, ClassId(6)), Some(12_000));
}

/// Class 1 of weight 1000, and twenty of weight 1 that state bursts of a byte; all latency-critical.
fn tiny_bursts() -> Hierarchy {
    let mut tree = builder(1500);
    tree.add(ClassId::ROOT, ClassConfig { latency_critical: true, ..weighted(1000) }).unwrap();
    tree.add(ClassId::ROOT, weighted(1000)).unwrap();
    for _ in 0..20 {
        tree.add(ClassId::ROOT, ClassConfig { latency_critical: true, burst: Some(1), ..weighted(1) }).unwrap();
    }
    tree.build().unwrap()
}

#[test]
fn no_leaf_owes_more_than_its_advance_however_small_its_burst() {
    let tree = tiny_bursts();
    let advances = Advances::for_tree(&tree, &RunWeights::for_tree(&tree).unwrap()).unwrap();
    assert!(tree.classes().skip(2).all(|class| advances.bytes(class) == 1500), "{advances:?}");
    let bound = bytes_before(&advances, &tree, ClassId(1)).unwrap();
    assert!((31_500 + 1500..34_000).contains(&bound), "{bound}");
    let mut hls = Hls::new(&tree).unwrap();
    for class in 3..23 {
        for _ in 0..10 {
            hls.enqueue(Nanos::ZERO, packet(class, 1500), &mut no_drops);
        }
    }
    // One of theirs is being sent when class 1 gets a packet.
    assert!(next_packet(&mut hls).unwrap().class.0 > 2);
    hls.enqueue(Nanos::ZERO, packet(1, 1500), &mut no_drops);
    let mut before = 1500;
    loop {
        let packet = next_packet(&mut hls).unwrap();
        before += u64::from(packet.len);
        invariants(&hls).unwrap();
        if packet.class == ClassId(1) {
            break;
        }
    }
    assert!(before <= bound && before > bound - 3 * 1500, "{before} of {bound}");
}

#[test]
fn advances_too_long_for_the_arithmetic_promise_no_delay() {
    let mut tree = builder(1500);
    let burst = Some(u64::MAX);
    tree.add(ClassId::ROOT, ClassConfig { latency_critical: true, burst, ..weighted(1) }).unwrap();
    tree.add(ClassId::ROOT, ClassConfig { latency_critical: true, ..weighted(1) }).unwrap();
    tree.add(ClassId::ROOT, weighted(8)).unwrap();
    let tree = tree.build().unwrap();
    assert_eq!(delays(&tree)[..3], [None, None, None]);
    assert!(Hls::new(&tree).is_ok());
}

#[test]
fn an_urgent_packet_is_the_next_one_sent() {
    let mut hls = Hls::new(&figure_1_with_b1_urgent(None)).unwrap();
    for class in [3, 7, 3, 7, 3, 7, 3, 7] {
        for _ in 0..5 {
            hls.enqueue(Nanos::ZERO, packet(class, 1000), &mut no_drops);
        }
    }
    let mut others = 0;
    for _ in 0..10 {
        hls.enqueue(Nanos::ZERO, packet(6, 200), &mut no_drops);
        assert_eq!(next_packet(&mut hls).unwrap().class, ClassId(6));
        others += u32::from(next_packet(&mut hls).unwrap().class != ClassId(6));
    }
    assert_eq!(others, 10);
}

#[test]
fn an_urgent_leaf_that_always_sends_gets_its_share_and_no_more() {
    let tree = figure_1_with_b1_urgent(None);
    let greedy = [3, 4, 5, 6, 7].map(ClassId);
    let sent = saturate(&tree, &greedy);
    for (class, expected) in greedy.into_iter().zip([400, 100, 200, 100, 200]) {
        assert_mbps(&sent, class, expected);
    }
    // B2 takes the rest of B1; B1 alone takes all of B's.
    let sent = saturate(&tree, &[ClassId(3), ClassId(4), ClassId(6)]);
    for (class, expected) in [(3, 400), (4, 300), (6, 300)] {
        assert_mbps(&sent, ClassId(class), expected);
    }
}

/// A latency-critical leaf, class 1, and one of 10^9 times its weight, class 2.
fn light_and_urgent(burst: u64) -> Hierarchy {
    let mut tree = builder(1500);
    tree.add(ClassId::ROOT, ClassConfig { latency_critical: true, burst: Some(burst), ..weighted(1) }).unwrap();
    tree.add(ClassId::ROOT, weighted(1_000_000_000)).unwrap();
    tree.build().unwrap()
}

#[test]
fn debt_is_gone_when_nothing_is_queued() {
    // It sends increasing amounts on an otherwise idle link, far more than its share, without a penalty.
    for times in 1..20 {
        let mut hls = Hls::new(&light_and_urgent(5000)).unwrap();
        for _ in 0..times {
            hls.enqueue(Nanos::ZERO, packet(1, 1500), &mut no_drops);
            assert_eq!(next_packet(&mut hls).unwrap().class, ClassId(1));
        }
        for _ in 0..10 {
            hls.enqueue(Nanos::ZERO, packet(2, 1500), &mut no_drops);
        }
        hls.enqueue(Nanos::ZERO, packet(1, 1500), &mut no_drops);
        assert_eq!(next_packet(&mut hls).unwrap().class, ClassId(1), "after {times}");
        invariants(&hls).unwrap();
    }
}

#[test]
fn a_packet_longer_than_the_burst_is_sent_all_the_same() {
    let mut hls = Hls::new(&light_and_urgent(1)).unwrap();
    for len in [1500, 0, 1500] {
        hls.enqueue(Nanos::ZERO, packet(1, len), &mut no_drops);
        hls.enqueue(Nanos::ZERO, packet(2, 1500), &mut no_drops);
    }
    let sent: Vec<u32> = core::iter::from_fn(|| next_packet(&mut hls)).map(|packet| packet.class.0).collect();
    assert_eq!(sent.len(), 6);
    assert_eq!(sent[0], 1);
    assert_eq!(hls.dequeue(Nanos::ZERO, &mut no_drops), Dequeued::Idle);
    assert!(!hls.urgent.any_debt());
    invariants(&hls).unwrap();
}

#[test]
fn a_ceiling_holds_for_urgent_leaves_too() {
    let mut tree = builder(1500);
    let a = tree.add(ClassId::ROOT, ceiled(3, 150)).unwrap();
    let b = tree.add(ClassId::ROOT, weighted(3)).unwrap();
    let a1 = tree.add(a, ClassConfig { latency_critical: true, ..weighted(1) }).unwrap();
    let a2 = tree.add(a, weighted(4)).unwrap();
    let a3 = tree.add(a, ClassConfig { latency_critical: true, ..ceiled(5, 50) }).unwrap();
    let tree = tree.build().unwrap();
    let sent = saturate(&tree, &[a1, a2, a3, b]);
    // A3 is held at 50 of A's 150; A1 and A2 share the rest as 1 : 4.
    for (class, expected) in [(a, 150), (a1, 20), (a2, 80), (a3, 50), (b, 850)] {
        assert_mbps(&sent, class, expected);
    }
    // Alone, with the link idle in between.
    let sent = saturate(&tree, &[a3]);
    assert_mbps(&sent, a3, 50);
}
