//! HLS against a second form of itself and against the theorems of [hls].

use super::two_phase::TwoPhase;
use super::*;
use crate::contract::{ClassConfig, HierarchyBuilder, LinkConfig, QueueLimits, Rate, RoundLength, Share};
use crate::test_link::invariants;
use alloc::vec::Vec;
use proptest::prelude::*;

pub(super) fn builder(max_packet: u32) -> HierarchyBuilder {
    builder_of(max_packet, RoundLength::Short)
}

fn builder_of(max_packet: u32, rounds: RoundLength) -> HierarchyBuilder {
    let link = LinkConfig::new(Rate::from_bps(1_000_000_000).unwrap());
    Hierarchy::builder(LinkConfig { max_packet, rounds, ..link })
}

pub(super) fn weighted(weight: u64) -> ClassConfig {
    let limits = QueueLimits { packets: 50, bytes: u32::MAX };
    ClassConfig { share: Some(Share::Weight(weight)), limits, ..ClassConfig::default() }
}

/// Figure 1, the weights as the paper writes them.
pub(super) fn figure_1() -> Hierarchy {
    let mut tree = builder(1500);
    let a = tree.add(ClassId::ROOT, weighted(300)).unwrap();
    let b = tree.add(ClassId::ROOT, weighted(300)).unwrap();
    tree.add(ClassId::ROOT, weighted(400)).unwrap();
    tree.add(a, weighted(100)).unwrap();
    tree.add(a, weighted(200)).unwrap();
    tree.add(b, weighted(100)).unwrap();
    tree.add(b, weighted(200)).unwrap();
    tree.build().unwrap()
}

pub(super) fn no_drops(_: Nanos, packet: Packet, reason: DropReason) {
    panic!("{packet:?} dropped: {reason:?}");
}

pub(super) fn packet(class: u32, len: u32) -> Packet {
    Packet { handle: 0, len, class: ClassId(class) }
}

pub(super) fn next_packet(hls: &mut Hls) -> Option<Packet> {
    match hls.dequeue(Nanos::ZERO, &mut no_drops) {
        Dequeued::Packet(packet) => Some(packet),
        Dequeued::Idle => None,
        Dequeued::WaitUntil(t) => panic!("HLS has nothing to wait for until {t}"),
    }
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Enqueue(usize, u32),
    Dequeue(usize),
}

pub(super) fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (any::<prop::sample::Index>(), prop_oneof![Just(1000u32), 1u32..=1000]).prop_map(|(leaf, len)| {
            Step::Enqueue(leaf.index(1 << 20), len)
        }),
        1 => (1usize..12).prop_map(Step::Dequeue),
    ];
    proptest::collection::vec(step, 1..count)
}

/// Trees of up to 40 classes and 6 levels, weights 1 to 10^9, short rounds and long ones.
pub(super) fn trees() -> impl Strategy<Value = Hierarchy> {
    trees_of(40, Just(ClassConfig::default()))
}

/// The same with less than `count` classes, and with `config` for all that is not the weight and the limits of the queue.
pub(super) fn trees_of(count: usize, config: impl Strategy<Value = ClassConfig>) -> impl Strategy<Value = Hierarchy> {
    let weight = prop_oneof![1u64..20, 100u64..1000, 1u64..=1_000_000_000];
    let classes = proptest::collection::vec((any::<prop::sample::Index>(), weight, config), 1..count);
    (classes, prop_oneof![Just(RoundLength::Short), Just(RoundLength::Long)]).prop_map(|(classes, rounds)| {
        let mut tree = builder_of(1000, rounds);
        let mut shallow = alloc::vec![(ClassId::ROOT, 0)];
        for (parent, weight, config) in classes {
            let (parent, depth) = shallow[parent.index(shallow.len())];
            let ClassConfig { share, limits, .. } = weighted(weight);
            let class = tree.add(parent, ClassConfig { share, limits, ..config }).unwrap();
            if depth < 5 {
                shallow.push((class, depth + 1));
            }
        }
        tree.build().unwrap()
    })
}

enum Event<'a> {
    Queued { class: ClassId, len: u32, handle: u64 },
    Dequeued(Option<&'a Packet>),
}

/// Runs `steps` on HLS and hands every event to `each`.
fn run(tree: &Hierarchy, steps: &[Step], each: impl FnMut(&mut Hls, Event)) {
    run_sorted(tree, false, steps, each);
}

/// [`run`] with visits as in a large tree if `sorted`.
fn run_sorted(tree: &Hierarchy, sorted: bool, steps: &[Step], mut each: impl FnMut(&mut Hls, Event)) {
    let mut hls = Hls::new(tree).unwrap();
    if sorted {
        hls.sorting = Sorting::always(tree.len());
    }
    let leaves = tree.leaves();
    let mut handle = 0;
    for step in steps {
        match *step {
            Step::Enqueue(leaf, len) => {
                let class = leaves[leaf % leaves.len()];
                let full = hls.class_backlog(class).packets >= 50;
                let mut sink = |_: Nanos, _: Packet, reason: DropReason| {
                    assert!(full && reason == DropReason::QueuePackets, "{reason:?}");
                };
                hls.enqueue(Nanos::ZERO, Packet { handle, len, class }, &mut sink);
                if !full {
                    each(&mut hls, Event::Queued { class, len, handle });
                }
                handle += 1;
            }
            Step::Dequeue(times) => {
                for _ in 0..times {
                    let packet = next_packet(&mut hls);
                    each(&mut hls, Event::Dequeued(packet.as_ref()));
                }
            }
        }
    }
}

/// A-bar of Lemma 7 in credits, rounded up; its own derivation.
pub(super) fn a_bar(tree: &Hierarchy, weights: &RunWeights, class: ClassId) -> i128 {
    let w = |class: ClassId| i128::from(weights.credits(class));
    let largest = i128::from(tree.link().max_packet) * i128::from(CREDITS_PER_BYTE);
    fn below(tree: &Hierarchy, class: ClassId, w: &dyn Fn(ClassId) -> i128, largest: i128) -> i128 {
        if tree.is_leaf(class) {
            return largest;
        }
        tree.children(class)
            .iter()
            .map(|&child| w(child) + if tree.is_leaf(child) { largest } else { below(tree, child, w, largest) })
            .sum()
    }
    let a_tilde = |class: ClassId| below(tree, class, &w, largest) - i128::from(tree.is_leaf(class));
    let mut rc = class;
    while tree.parent(rc) != Some(ClassId::ROOT) {
        rc = tree.parent(rc).unwrap();
    }
    let top = tree.children(ClassId::ROOT).iter();
    a_tilde(rc) + top.map(|&j| (w(rc) * (w(j) + a_tilde(j))).div_euclid(w(j)) + 1).max().unwrap()
}

/// Bound of Theorem 3 on |D_i/w_i - D_j/w_j|, times w_i w_j, in credits^3 rounded up.
fn theorem_3(tree: &Hierarchy, weights: &RunWeights, i: ClassId, j: ClassId) -> i128 {
    let w = |class: ClassId| i128::from(weights.credits(class));
    a_bar(tree, weights, i) * w(j) + a_bar(tree, weights, j) * w(i)
}

/// Watches the bound of Theorem 3 over every interval in which two siblings are backlogged.
pub(super) struct FairnessWatch<'a> {
    tree: &'a Hierarchy,
    weights: RunWeights,
    pairs: Vec<Pair>,
    served: Vec<i128>,
    backlog: Vec<u64>,
}

struct Pair {
    siblings: (ClassId, ClassId),
    bound: i128,
    /// The minimum and maximum lead of the first over the other since both are backlogged.
    range: Option<(i128, i128)>,
}

impl<'a> FairnessWatch<'a> {
    /// Of all siblings among the `watched` classes; a class may be ahead of the bound by `ahead` bytes.
    pub(super) fn new(tree: &'a Hierarchy, watched: impl Fn(ClassId) -> bool, ahead: impl Fn(ClassId) -> u64) -> Self {
        let weights = RunWeights::for_tree(tree).unwrap();
        let w = |class: ClassId| i128::from(weights.credits(class));
        let mut pairs = Vec::new();
        for parent in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
            let children: Vec<ClassId> =
                tree.children(parent).iter().copied().filter(|&child| watched(child)).collect();
            for (at, &i) in children.iter().enumerate() {
                for &j in &children[at + 1..] {
                    let more =
                        i128::from(CREDITS_PER_BYTE) * (i128::from(ahead(i)) * w(j) + i128::from(ahead(j)) * w(i));
                    let bound = theorem_3(tree, &weights, i, j) + more;
                    pairs.push(Pair { siblings: (i, j), bound, range: None });
                }
            }
        }
        Self { tree, weights, pairs, served: alloc::vec![0; tree.len()], backlog: alloc::vec![0; tree.len()] }
    }

    fn path(&self, class: ClassId) -> impl Iterator<Item = usize> + use<'a> {
        let tree = self.tree;
        core::iter::successors(Some(class), |&class| tree.parent(class)).map(ClassId::index)
    }

    pub(super) fn arrived(&mut self, class: ClassId) {
        self.path(class).for_each(|at| self.backlog[at] += 1);
        self.look(&[]);
    }

    pub(super) fn sent(&mut self, packet: &Packet) {
        let mut emptied = Vec::new();
        for at in self.path(packet.class) {
            self.served[at] += i128::from(packet.len) * i128::from(CREDITS_PER_BYTE);
            self.backlog[at] -= 1;
            if self.backlog[at] == 0 {
                emptied.push(at);
            }
        }
        self.look(&emptied);
    }

    fn look(&mut self, emptied: &[usize]) {
        let w = |class: ClassId| i128::from(self.weights.credits(class));
        for Pair { siblings: (i, j), bound, range } in &mut self.pairs {
            let difference = self.served[i.index()] * w(*j) - self.served[j.index()] * w(*i);
            let was = |class: &ClassId| self.backlog[class.index()] > 0 || emptied.contains(&class.index());
            if !was(i) || !was(j) {
                *range = None;
                continue;
            }
            let (low, high) = range.get_or_insert((difference, difference));
            (*low, *high) = ((*low).min(difference), (*high).max(difference));
            assert!(*high - *low <= *bound, "{i:?} {j:?}: {} > {bound}", *high - *low);
            if emptied.contains(&i.index()) || emptied.contains(&j.index()) {
                *range = None;
            }
        }
    }
}

/// Runs `steps` and checks the bound of Theorem 3 over every interval in which two siblings are backlogged; a class may be
/// ahead of it by `ahead` bytes.
pub(super) fn check_fairness(tree: &Hierarchy, steps: &[Step], ahead: impl Fn(ClassId) -> u64) {
    let mut watch = FairnessWatch::new(tree, |_| true, ahead);
    run(tree, steps, |_, event| match event {
        Event::Queued { class, .. } => watch.arrived(class),
        Event::Dequeued(Some(packet)) => watch.sent(packet),
        Event::Dequeued(None) => {}
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Lemma 1, and that visiting only the leaves below a surplus gives the same result.
    #[test]
    fn packets_leave_in_the_order_of_the_replenish_then_transmit_form(
        tree in trees(),
        sorted in any::<bool>(),
        steps in steps(400),
    ) {
        let mut oracle = TwoPhase::new(&tree).unwrap();
        if sorted {
            oracle = oracle.sorted();
        }
        let mut sent = 0;
        run_sorted(&tree, sorted, &steps, |hls, event| {
            match event {
                Event::Queued { class, len, handle } => oracle.enqueue(class, handle, len),
                Event::Dequeued(packet) => {
                    sent += 1;
                    let packet = packet.map(|packet| (packet.class, packet.handle));
                    assert_eq!(packet, oracle.dequeue(), "packet {sent}");
                }
            }
            invariants(hls).unwrap();
            // Equation (12) of the second form as well.
            #[cfg(feature = "invariants")]
            assert_eq!(oracle.credits(), check::round_size(hls));
            let rounds = oracle.rounds();
            assert_eq!((rounds.main, rounds.surplus), (hls.rounds.main, hls.rounds.surplus));
        });
    }

    #[test]
    fn measured_fairness_never_exceeds_theorem_3(tree in trees(), steps in steps(600)) {
        check_fairness(&tree, &steps, |_| 0);
    }

    #[test]
    fn bytes_between_two_visits_never_exceed_theorem_5(
        tree in trees(),
        sorted in any::<bool>(),
        steps in steps(400),
    ) {
        let weights = RunWeights::for_tree(&tree).unwrap();
        let largest = u128::from(tree.link().max_packet) * u128::from(CREDITS_PER_BYTE);
        let bound = 2 * (tree.classes().map(|class| u128::from(weights.credits(class))).sum::<u128>()
            + largest * tree.leaves().len() as u128);
        let mut since = alloc::vec![0u128; tree.len()];
        let mut serving = None;
        run_sorted(&tree, sorted, &steps, |hls, event| {
            for class in hls.visits.drain(..) {
                assert!(since[class.index()] <= bound, "{class:?}: {} > {bound}", since[class.index()]);
                since[class.index()] = 0;
                serving = Some(class);
            }
            let Event::Dequeued(Some(packet)) = event else { return };
            for &leaf in tree.leaves() {
                if serving == Some(leaf) || hls.class_backlog(leaf).packets == 0 {
                    since[leaf.index()] = 0;
                } else {
                    since[leaf.index()] += u128::from(packet.len) * u128::from(CREDITS_PER_BYTE);
                }
            }
        });
    }
}

#[test]
fn the_first_round_of_figure_1_hands_out_what_equations_4_to_8_say() {
    let mut hls = Hls::new(&figure_1()).unwrap();
    for class in [7, 6, 4] {
        // B2, B1, A1 as in Figure 5.
        for _ in 0..20 {
            hls.enqueue(Nanos::ZERO, packet(class, 100), &mut no_drops);
        }
    }
    // Q* = weights of A, B, A1, B1, B2 and three largest packets: 1000 + 4500 B. F_root = floor(5500 / 600) = 9, so that B gets
    // 2700 B and hands 9 B per weight on: B2 1800, B1 900; A gets 2700 B, F_A = 27, A1 2700. The root keeps 100 B.
    let sent: Vec<u32> = (0..18 + 9 + 20).map(|_| next_packet(&mut hls).unwrap().class.0).collect();
    let runs: Vec<(u32, usize)> = sent.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    assert_eq!(runs, [(7, 18), (6, 9), (4, 20)]);
    assert_eq!(hls.rounds(), Rounds { main: 1, surplus: 0, main_without_packet: 0 });
    // A1 emptied after 2000 of its 2700 B, and with it A: their 700 B went to the root, no surplus round followed.
    let byte = CREDITS_PER_BYTE as i64;
    let q_star = (300 + 100 + 200 + 3000) * byte;
    #[cfg(feature = "invariants")]
    assert_eq!(check::round_size(&hls), i128::from(q_star));
    assert_eq!(hls.inners[0].balance + hls.inners[0].residual, q_star);
    invariants(&hls).unwrap();
}

#[test]
fn what_a_leaf_leaves_unused_goes_to_its_sibling_in_a_surplus_round() {
    let mut hls = Hls::new(&figure_1()).unwrap();
    // A1 has one small packet; A2, B1 and C are backlogged.
    hls.enqueue(Nanos::ZERO, packet(4, 100), &mut no_drops);
    for class in [5, 6, 3] {
        for _ in 0..50 {
            hls.enqueue(Nanos::ZERO, packet(class, 100), &mut no_drops);
        }
    }
    // Q* = 1400 + 4 * 1500; F_root = floor(7400 / 1000) = 7: A 2100, B 2100, C 2800. F_A = 7: A1 700, A2 1400; B1 2100.
    // A1 sends 100 B and returns 600 B, which only A2 can use: a surplus round before the next main round.
    let sent: Vec<u32> = (0..1 + 14 + 21 + 28 + 6).map(|_| next_packet(&mut hls).unwrap().class.0).collect();
    let runs: Vec<(u32, usize)> = sent.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    assert_eq!(runs, [(4, 1), (5, 14), (6, 21), (3, 28), (5, 6)]);
    assert_eq!((hls.rounds().main, hls.rounds().surplus), (1, 1));
}

#[test]
fn a_leaf_that_empties_stays_idle_until_the_next_round() {
    let mut hls = Hls::new(&figure_1()).unwrap();
    hls.enqueue(Nanos::ZERO, packet(6, 1000), &mut no_drops);
    hls.enqueue(Nanos::ZERO, packet(3, 1000), &mut no_drops);
    hls.enqueue(Nanos::ZERO, packet(3, 1000), &mut no_drops);
    assert_eq!(next_packet(&mut hls).unwrap().class, ClassId(6));
    // B1 has quota left, but it went idle in this round.
    hls.enqueue(Nanos::ZERO, packet(6, 10), &mut no_drops);
    assert_eq!(next_packet(&mut hls).unwrap().class, ClassId(3));
    assert_eq!(next_packet(&mut hls).unwrap().class, ClassId(3));
    assert_eq!(next_packet(&mut hls).unwrap().class, ClassId(6));
    assert_eq!(next_packet(&mut hls), None);
}

#[test]
fn leaves_that_take_turns_do_not_cost_their_parent_its_share() {
    let tree = figure_1();
    let mut hls = Hls::new(&tree).unwrap();
    // B1 and B2 take turns: a packet comes to one just before the other's only packet leaves, so that B is always
    // backlogged, as is C. They are to share 3 : 4.
    let (mut sent_b, mut sent_c, mut turn) = (0u64, 0u64, 6);
    hls.enqueue(Nanos::ZERO, packet(turn, 100), &mut no_drops);
    for _ in 0..40 {
        hls.enqueue(Nanos::ZERO, packet(3, 100), &mut no_drops);
    }
    for _ in 0..20_000 {
        if hls.class_backlog(ClassId(6)).packets + hls.class_backlog(ClassId(7)).packets < 2 {
            turn = 13 - turn;
            hls.enqueue(Nanos::ZERO, packet(turn, 100), &mut no_drops);
        }
        match next_packet(&mut hls).unwrap().class {
            ClassId(3) => {
                sent_c += 100;
                hls.enqueue(Nanos::ZERO, packet(3, 100), &mut no_drops);
            }
            _ => sent_b += 100,
        }
        invariants(&hls).unwrap();
    }
    // Theorem 3 for B and C: 103.5 B is the largest over all pairs.
    let apart = (sent_b * 400).abs_diff(sent_c * 300);
    assert!(apart * 10 <= 1035 * 300 * 400, "B {sent_b} B, C {sent_c} B");
}

/// Runs greedy leaves on a link of 1 Gbit/s for 200 ms in packets of 200 to 1500 bytes. Returns bytes by class, inner classes
/// included, and checks the bound of each ceiling over every interval that ends with a packet.
pub(super) fn saturate(tree: &Hierarchy, greedy: &[ClassId]) -> Vec<u64> {
    use crate::runtime::driver::Pacer;
    let mut hls = Hls::new(tree).unwrap();
    let mut pacer = Pacer::new(tree.link().rate, Nanos(1));
    let mut sent = alloc::vec![0u64; tree.len()];
    let weights = RunWeights::for_tree(tree).unwrap();
    let round = tree.classes().map(|class| weights.credits(class) / CREDITS_PER_BYTE + 1).sum::<u64>()
        + 1500 * tree.leaves().len() as u64;
    // Largest excess over ceiling * t so far from any earlier start: max over s of (W(s) - c s), then W(t) - c t minus
    // it.
    let mut lowest = alloc::vec![0i128; tree.len()];
    let mut now = Nanos::ZERO;
    let mut seed = 1u32;
    while now < Nanos::from_millis(200) {
        for &leaf in greedy {
            while hls.class_backlog(leaf).packets < 40 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                hls.enqueue(now, packet(leaf.0, 200 + (seed >> 16) % 1301), &mut no_drops);
            }
        }
        match hls.dequeue(now, &mut no_drops) {
            Dequeued::Packet(packet) => {
                let mut at = packet.class;
                while at != ClassId::ROOT {
                    sent[at.index()] += u64::from(packet.len);
                    if let Some(ceiling) = tree.config(at).ceiling {
                        let brought = i128::from(ceiling.bps()) * i128::from(now.0) / 8_000_000_000;
                        let excess = i128::from(sent[at.index()]) - brought;
                        let depth = i128::from(tree.config(at).ceiling_burst.unwrap());
                        let before = lowest[at.index()].min(excess - i128::from(packet.len));
                        lowest[at.index()] = before;
                        // One round may carry all of Q* to one class; Lemma 7 does not exclude it.
                        assert!(excess - before <= depth + 2 * i128::from(round), "{at:?} {excess} {before}");
                    }
                    at = tree.parent(at).unwrap();
                }
                now = pacer.charge(now, packet.len);
            }
            Dequeued::WaitUntil(t) => {
                assert!(t > now, "waits for the past");
                now = t;
                pacer.idle(now);
            }
            Dequeued::Idle => panic!("idle with backlog"),
        }
        invariants(&hls).unwrap();
    }
    sent
}

fn mbps(n: u64) -> Rate {
    Rate::from_bps(n * 1_000_000).unwrap()
}

pub(super) fn ceiled(weight: u64, ceiling: u64) -> ClassConfig {
    ClassConfig { ceiling: Some(mbps(ceiling)), ceiling_burst: Some(20_000), ..weighted(weight) }
}

#[track_caller]
pub(super) fn assert_mbps(sent: &[u64], class: ClassId, expected: u64) {
    let measured = sent[class.index()] * 8 / 200_000;
    assert!(measured.abs_diff(expected) * 50 <= expected, "class {}: {measured} Mbit/s, not {expected}", class.0);
}

#[test]
fn a_ceiling_at_an_inner_class_holds_and_its_leaves_still_share_by_weight() {
    let mut tree = builder(1500);
    let a = tree.add(ClassId::ROOT, ceiled(3, 150)).unwrap();
    let b = tree.add(ClassId::ROOT, weighted(3)).unwrap();
    let c = tree.add(ClassId::ROOT, weighted(4)).unwrap();
    let a1 = tree.add(a, weighted(1)).unwrap();
    let a2 = tree.add(a, weighted(4)).unwrap();
    let tree = tree.build().unwrap();
    let sent = saturate(&tree, &[a1, a2, b, c]);
    // The fluid ideal: A is held at 150, B and C share 850 as 3 : 4; A1 and A2 share 150 as 1 : 4.
    for (class, expected) in [(a, 150), (a1, 30), (a2, 120), (b, 364), (c, 486)] {
        assert_mbps(&sent, class, expected);
    }
}

#[test]
fn with_all_at_their_ceilings_the_link_waits() {
    let mut tree = builder(1500);
    let a = tree.add(ClassId::ROOT, ceiled(1, 400)).unwrap();
    let a1 = tree.add(a, ceiled(1, 50)).unwrap();
    let a2 = tree.add(a, ceiled(1, 100)).unwrap();
    let b = tree.add(ClassId::ROOT, ceiled(1, 200)).unwrap();
    let tree = tree.build().unwrap();
    let sent = saturate(&tree, &[a1, a2, b]);
    for (class, expected) in [(a, 150), (a1, 50), (a2, 100), (b, 200)] {
        assert_mbps(&sent, class, expected);
    }
}

#[test]
fn nested_ceilings_bind_where_the_ideal_says() {
    let mut tree = builder(1500);
    let a = tree.add(ClassId::ROOT, ceiled(1, 300)).unwrap();
    let a1 = tree.add(a, ceiled(5, 100)).unwrap();
    let a2 = tree.add(a, weighted(1)).unwrap();
    let b = tree.add(ClassId::ROOT, weighted(1)).unwrap();
    let tree = tree.build().unwrap();
    let sent = saturate(&tree, &[a1, a2, b]);
    for (class, expected) in [(a, 300), (a1, 100), (a2, 200), (b, 700)] {
        assert_mbps(&sent, class, expected);
    }
}

#[test]
fn small_weights_are_used_as_they_stand_and_rates_are_scaled_by_a_power_of_ten() {
    let weights = RunWeights::for_tree(&figure_1()).unwrap();
    let bytes = |credits: u64| credits / CREDITS_PER_BYTE;
    let as_run: Vec<u64> = (1..8).map(|class| bytes(weights.credits(ClassId(class)))).collect();
    assert_eq!(as_run, [300, 300, 400, 100, 200, 100, 200]);
    let mut tree = builder(1500);
    let a = tree.add(ClassId::ROOT, weighted(300_000_000)).unwrap();
    tree.add(ClassId::ROOT, weighted(700_000_000)).unwrap();
    tree.add(a, weighted(1)).unwrap();
    tree.add(a, weighted(1_000_000_000)).unwrap();
    let weights = RunWeights::for_tree(&tree.build().unwrap()).unwrap();
    assert_eq!((bytes(weights.credits(ClassId(1))), weights.power_of_ten(ClassId::ROOT)), (300, 6));
    // 10^9 + 1 against 1500 B: divided by 10^6; the small one is 16.78 credits.
    assert_eq!((weights.credits(ClassId(3)), weights.power_of_ten(a)), (17, 6));
    assert_eq!(bytes(weights.credits(ClassId(4))), 1000);
}

#[test]
fn a_round_too_long_for_the_arithmetic_is_refused() {
    let mut tree = builder(crate::contract::MAX_PACKET);
    for _ in 0..200_000 {
        tree.add(ClassId::ROOT, weighted(1)).unwrap();
    }
    let error = Hls::new(&tree.build().unwrap()).unwrap_err();
    assert!(matches!(error, BuildError::Parameter { class: ClassId::ROOT, max: 687_194, .. }), "{error}");
}

#[test]
fn a_ceiling_at_every_class_costs_the_same_for_each_of_them() {
    // Each ceiling's depth follows from a sum over all classes. Taken again for each, this test would need 10^10 steps.
    let mut tree = builder(1500);
    let parent = tree.add(ClassId::ROOT, weighted(1)).unwrap();
    let ceiling = Some(Rate::from_bps(1_000_000).unwrap());
    for _ in 0..100_000 {
        tree.add(parent, ClassConfig { ceiling, ..weighted(1) }).unwrap();
    }
    let hls = Hls::new(&tree.build().unwrap()).unwrap();
    assert!(hls.ceilings.is_limited(ClassId(100_001)) && !hls.ceilings.is_limited(parent));
}
