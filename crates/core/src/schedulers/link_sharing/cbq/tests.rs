//! CBQ against its guidelines, the experiments of [hls], and figures of ns-2 and of the kernel.

use super::*;
use crate::contract::{ClassConfig, HierarchyBuilder, LinkConfig, NANOS_PER_SEC, QueueLimits, Share, Shortfall};
use crate::test_link::{invariants, never};
use alloc::vec::Vec;
use proptest::prelude::*;

const MBIT: u64 = 1_000_000;
const GUIDELINES: [Guideline; 3] = [Guideline::Formal, Guideline::AncestorOnly, Guideline::TopLevel];

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

fn builder(bps: u64) -> HierarchyBuilder {
    Hierarchy::builder(LinkConfig { max_packet: 1000, ..LinkConfig::new(rate(bps)) })
}

fn class(guarantee: u64) -> ClassConfig {
    let limits = QueueLimits { packets: 2, bytes: u32::MAX };
    ClassConfig { share: Some(Share::Guarantee(rate(guarantee))), limits, ..ClassConfig::default() }
}

/// A link on which packets arrive at full queues, in virtual time.
struct Link {
    cbq: Cbq,
    rate: Rate,
    now: Nanos,
    /// Bytes sent of a class and those below it, by class.
    sent: Vec<u64>,
}

impl Link {
    fn new(tree: &Hierarchy, guideline: Guideline) -> Self {
        let cbq = Cbq::new(tree, guideline).unwrap();
        Self { cbq, rate: tree.link().rate, now: Nanos::ZERO, sent: alloc::vec![0; tree.len()] }
    }

    fn take(&mut self, packet: &Packet) {
        self.now += self.rate.time_for(packet.len);
        let mut class = packet.class.0;
        while class != ClassId::ROOT.0 {
            self.sent[class as usize] += u64::from(packet.len);
            class = self.cbq.borrowing.parent(class);
        }
    }

    /// Runs for `span`, in which all of `busy` always have packets, of `lens` in turn, and returns the rates of all classes in bit/s.
    fn run(&mut self, span: Nanos, lens: &[u32], busy: &[ClassId]) -> Vec<u64> {
        let mut lens = lens.iter().cycle();
        self.run_with(span, |_| *lens.next().unwrap(), busy)
    }

    /// Like `run`, with packet lengths from `len`, by class.
    fn run_with(&mut self, span: Nanos, mut len: impl FnMut(ClassId) -> u32, busy: &[ClassId]) -> Vec<u64> {
        let (start, end) = (self.now, self.now + span);
        let before = self.sent.clone();
        while self.now < end {
            for &leaf in busy {
                let mut full = false;
                while !full {
                    let packet = Packet { handle: 0, len: len(leaf), class: leaf };
                    self.cbq.enqueue(self.now, packet, &mut |_: Nanos, _: Packet, reason: DropReason| {
                        assert_eq!(reason, DropReason::QueuePackets);
                        full = true;
                    });
                }
            }
            invariants(&self.cbq).unwrap();
            match self.cbq.dequeue(self.now, &mut never) {
                Dequeued::Packet(packet) => self.take(&packet),
                Dequeued::WaitUntil(at) => {
                    assert!(at > self.now);
                    self.now = at.min(end);
                }
                Dequeued::Idle => self.now = end,
            }
        }
        let span = u128::from((self.now - start).0);
        let rate =
            |(after, before): (&u64, &u64)| (u128::from(after - before) * 8 * u128::from(NANOS_PER_SEC) / span) as u64;
        self.sent.iter().zip(&before).map(rate).collect()
    }
}

/// The tree of Figure 1 of [hls], a tenth of its rates: A, B, C, A1, A2, B1, B2.
fn figure_1(one: u64, two: u64) -> (Hierarchy, [ClassId; 7]) {
    let mut tree = builder(100 * MBIT);
    let class = |tenths| class(tenths * MBIT / 10);
    let [a, b, c] = [300, 300, 400].map(|rate| tree.add(ClassId::ROOT, class(rate)).unwrap());
    let [a1, a2] = [one, two].map(|rate| tree.add(a, class(rate)).unwrap());
    let [b1, b2] = [one, two].map(|rate| tree.add(b, class(rate)).unwrap());
    (tree.build().unwrap(), [a, b, c, a1, a2, b1, b2])
}

fn is_near(value: u64, expected: u64, part: u64) -> bool {
    value.abs_diff(expected) * part <= expected
}

/// The smallest rate of A or B, while it has traffic, in the phases of experiment 1, and the rates of each phase.
fn experiment_1(guideline: Guideline) -> (u64, Vec<Vec<u64>>) {
    let (tree, [a, b, c, a1, a2, b1, b2]) = figure_1(100, 200);
    let mut link = Link::new(&tree, guideline);
    let phases = [&[a1, a2, b1, b2, c][..], &[a2, b1, b2, c], &[a2, b2, c], &[a2, b2], &[b2]];
    let mut smallest = u64::MAX;
    let mut rates = Vec::new();
    for busy in phases {
        link.run(Nanos::from_millis(200), &[1000], busy);
        let phase = link.run(Nanos::from_secs(1), &[1000], busy);
        for &leaf in busy {
            let guarantee = rate_of(&tree, leaf);
            assert!(phase[leaf.index()] >= guarantee - guarantee / 50, "{guideline:?}: {leaf:?} {phase:?}");
        }
        smallest = smallest.min(phase[b.index()]);
        if busy.contains(&a2) {
            smallest = smallest.min(phase[a.index()]);
        }
        rates.push(phase);
    }
    (smallest, rates)
}

fn rate_of(tree: &Hierarchy, class: ClassId) -> u64 {
    tree.weight(class)
}

#[test]
fn experiment_1_keeps_leaf_guarantees_and_lets_a_or_b_fall_below_its_own() {
    for (guideline, at_most) in GUIDELINES.into_iter().zip([298, 230, 298]) {
        let (smallest, phases) = experiment_1(guideline);
        for (class, expected) in [(1, 30), (2, 30), (3, 40)] {
            assert!(is_near(phases[0][class], expected * MBIT, 100), "{guideline:?}: {phases:?}");
        }
        assert!(smallest <= at_most * MBIT / 10, "{guideline:?}: {phases:?}");
    }
}

#[test]
fn top_level_is_nearer_to_the_formal_guidelines_than_ancestor_only() {
    let [formal, ancestor_only, top_level] = GUIDELINES.map(|guideline| experiment_1(guideline).0);
    assert!(ancestor_only < top_level && top_level <= formal, "{ancestor_only}, {top_level}, {formal}");
}

/// Experiment 2 of [hls]: the rates of A1, B2 and C with C, and of A1 and B2 without, in bit/s.
fn experiment_2(guideline: Guideline, one: u64, two: u64) -> ([u64; 3], [u64; 2]) {
    let (tree, [_, _, c, a1, _, _, b2]) = figure_1(one, two);
    let mut link = Link::new(&tree, guideline);
    // Without the bursts at the start.
    link.run(Nanos::from_secs(1), &[1000], &[a1, b2, c]);
    let with = link.run(Nanos::from_secs(1), &[1000], &[a1, b2, c]);
    link.run(Nanos::from_millis(200), &[1000], &[a1, b2]);
    let without = link.run(Nanos::from_secs(1), &[1000], &[a1, b2]);
    ([a1, b2, c].map(|class| with[class.index()]), [a1, b2].map(|class| without[class.index()]))
}

#[test]
fn without_c_the_split_of_a1_and_b2_follows_the_guarantees_of_leaves_as_in_the_kernel() {
    for guideline in GUIDELINES {
        let splits = [(140, 160), (100, 200), (60, 240)].map(|(one, two)| experiment_2(guideline, one, two));
        let a1 = splits.map(|(_, [a1, _])| a1);
        assert!(a1[0] > a1[1] && a1[1] > a1[2] && a1[0] < 48 * MBIT, "{guideline:?}: {splits:?}");
        if guideline != Guideline::AncestorOnly {
            // By the kernel's CBQ: 46.7/53.3, 36.5/63.5, 30.9/69.1.
            for (a1, kernel) in a1.into_iter().zip([46_700, 36_500, 30_900]) {
                assert!(a1.abs_diff(kernel * 1000) < 4 * MBIT, "{guideline:?}: {splits:?}");
            }
        }
        for (with, _) in splits {
            if guideline == Guideline::AncestorOnly {
                // Off even while C sends. (As the kernel's: 25 to 33, 24 to 33, 40 to 48.)
                assert!(with[0] < with[1] && with[2] > 48 * MBIT, "{splits:?}");
            } else {
                for (rate, expected) in with.into_iter().zip([30, 30, 40]) {
                    assert!(is_near(rate, expected * MBIT, 50), "{guideline:?}: {splits:?}");
                }
            }
        }
    }
}

/// Experiment 3 of [hls] with B and C split evenly: the rates of A, B1 and C1 in thousandths of the link.
fn experiment_3(guideline: Guideline, order: [usize; 3]) -> [u64; 3] {
    let mut tree = builder(100 * MBIT);
    let mut leaves = [ClassId::ROOT; 3];
    for branch in order {
        if branch == 0 {
            leaves[0] = tree.add(ClassId::ROOT, class(20 * MBIT)).unwrap();
        } else {
            let above = tree.add(ClassId::ROOT, class(25 * MBIT)).unwrap();
            leaves[branch] = tree.add(above, class(12_500_000)).unwrap();
            tree.add(above, class(12_500_000)).unwrap();
        }
    }
    tree.add(ClassId::ROOT, class(30 * MBIT)).unwrap();
    let mut link = Link::new(&tree.build().unwrap(), guideline);
    link.run(Nanos::from_secs(1), &[1000], &leaves);
    let rates = link.run(Nanos::from_secs(1), &[1000], &leaves);
    leaves.map(|leaf| rates[leaf.index()] * 1000 / (100 * MBIT))
}

#[test]
fn top_level_sends_ahead_of_its_guess_so_that_experiment_3_ends_as_in_ns_2() {
    // ns-2: 342/345/313 or 342/313/345 by the order of classes, and 444/278/278 under formal sharing in every order.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 1, 0]] {
        for (rate, ns) in experiment_3(Guideline::TopLevel, order).into_iter().zip([342, 329, 329]) {
            assert!(rate.abs_diff(ns) <= 14, "{order:?}: {:?}", experiment_3(Guideline::TopLevel, order));
        }
        for (rate, ns) in experiment_3(Guideline::Formal, order).into_iter().zip([444, 278, 278]) {
            assert!(rate.abs_diff(ns) <= 5, "{order:?}: {:?}", experiment_3(Guideline::Formal, order));
        }
    }
}

#[test]
fn below_a_bounded_class_nothing_is_sent_ahead_of_top_level_uncharged() {
    let mut tree = builder(100 * MBIT);
    let top = tree.add(ClassId::ROOT, ClassConfig { bounded: true, ..class(60 * MBIT) }).unwrap();
    let a = tree.add(top, class(20 * MBIT)).unwrap();
    let middle = tree.add(top, class(25 * MBIT)).unwrap();
    let b = tree.add(middle, class(12 * MBIT)).unwrap();
    let tree = tree.build().unwrap();
    let rates = Link::new(&tree, Guideline::TopLevel).run(Nanos::from_secs(2), &[1000], &[a, b]);
    assert!(is_near(rates[top.index()], 60 * MBIT, 50), "{rates:?}");
}

#[test]
fn small_packets_do_not_borrow_more_than_large_ones() {
    // ns-2: 33.2 and 66.7 percent of the link.
    let mut tree = builder(1_500_000);
    let [a, b] = [20, 40].map(|percent| tree.add(ClassId::ROOT, class(15_000 * percent)).unwrap());
    let tree = tree.build().unwrap();
    for guideline in GUIDELINES {
        let mut link = Link::new(&tree, guideline);
        link.run_with(Nanos::from_secs(1), |leaf| if leaf == a { 100 } else { 1000 }, &[a, b]);
        let rates = link.run_with(Nanos::from_secs(20), |leaf| if leaf == a { 100 } else { 1000 }, &[a, b]);
        assert!(
            is_near(rates[a.index()], 500_000, 100) && is_near(rates[b.index()], MBIT, 100),
            "{guideline:?}: {rates:?}"
        );
    }
}

#[test]
fn leaves_share_what_is_lent_to_them_by_weight_also_where_their_classes_lend_in_turn() {
    // A lends to A1 and A2, and B to B1 and B2, now the one and now the other.
    let mut tree = builder(8_192_000);
    let class = |percent: u64| class(81_920 * percent);
    let [a, b] = [70, 30].map(|percent| tree.add(ClassId::ROOT, class(percent)).unwrap());
    let [a1, a2] = [30, 32].map(|percent| tree.add(a, class(percent)).unwrap());
    let [b1, b2] = [10, 17].map(|percent| tree.add(b, class(percent)).unwrap());
    let tree = tree.build().unwrap();
    for guideline in [Guideline::Formal, Guideline::TopLevel] {
        let mut link = Link::new(&tree, guideline);
        link.run(Nanos::from_secs(2), &[1000], &[a1, a2, b1, b2]);
        let rates = link.run(Nanos::from_secs(10), &[1000], &[a1, a2, b1, b2]);
        for (leaf, expected) in [(a1, 70 * 30 * 81_920 / 62), (a2, 70 * 32 * 81_920 / 62)] {
            assert!(is_near(rates[leaf.index()], expected, 25), "{guideline:?}: {rates:?}");
        }
    }
}

#[test]
fn under_ancestor_only_shortfalls_says_who_gets_how_much_less_than_guaranteed() {
    // Of ns-2: 220, 804 and 0 kB/s with these priorities; 341 each with equal quanta.
    let cases: [([u64; 3], [u8; 3], Option<u32>); 3] =
        [([3, 32, 65], [1, 1, 2], None), ([45, 30, 15], [1, 1, 1], Some(1000)), ([3, 32, 65], [1, 1, 1], None)];
    for (percents, priorities, quantum) in cases {
        let mut tree = builder(8_192_000);
        let leaves = [0, 1, 2].map(|n| {
            let config = ClassConfig { priority: Some(priorities[n]), quantum, ..class(81_920 * percents[n]) };
            tree.add(ClassId::ROOT, config).unwrap()
        });
        let tree = tree.build().unwrap();
        let mut link = Link::new(&tree, Guideline::AncestorOnly);
        link.run(Nanos::from_secs(1), &[1000], &leaves);
        let rates = link.run(Nanos::from_secs(4), &[1000], &leaves);
        let said = shortfalls(&tree).unwrap();
        for (leaf, percent) in leaves.into_iter().zip(percents) {
            let (got, guarantee) = (rates[leaf.index()], 81_920 * percent);
            match said.iter().find(|said| said.leaf == leaf) {
                Some(&Shortfall { gets, .. }) => {
                    assert!(is_near(got, gets, 50) && got < guarantee, "{leaf:?}: {got}, {said:?}")
                }
                None => assert!(got >= guarantee / 100 * 98, "{leaf:?}: {got} of {guarantee}, {said:?}"),
            }
        }
    }
}

#[test]
fn two_classes_of_1_and_99_percent_share_so_under_the_formal_guidelines() {
    let mut tree = builder(100 * MBIT);
    let [one, other] = [1, 99].map(|rate| tree.add(ClassId::ROOT, class(rate * MBIT)).unwrap());
    let mut link = Link::new(&tree.build().unwrap(), Guideline::Formal);
    let rates = link.run(Nanos::from_secs(2), &[1000], &[one, other]);
    // ns-2: 0.018 and 0.981 of the link.
    assert!((900_000..3_000_000).contains(&rates[one.index()]), "{rates:?}");
    assert!((97 * MBIT..99_100_000).contains(&rates[other.index()]), "{rates:?}");
}

#[test]
fn leaves_under_a_bounded_class_share_two_to_one_and_no_more_than_its_rate() {
    // The comparison of [htb]: 40 and 20 under 100, in kilobytes per second.
    let mut tree = builder(10 * MBIT);
    let top = tree.add(ClassId::ROOT, ClassConfig { bounded: true, ..class(800_000) }).unwrap();
    let [a, b] = [320_000, 160_000].map(|rate| tree.add(top, class(rate)).unwrap());
    let tree = tree.build().unwrap();
    for guideline in GUIDELINES {
        let mut link = Link::new(&tree, guideline);
        let rates = link.run(Nanos::from_secs(20), &[1000], &[a, b]);
        assert!(is_near(rates[top.index()], 800_000, 50), "{guideline:?}: {rates:?}");
        assert!(is_near(rates[a.index()], 533_000, 20) && is_near(rates[b.index()], 267_000, 10), "{rates:?}");
    }
}

#[test]
fn an_isolated_class_gets_its_rate_and_what_it_leaves_is_nobodys() {
    let mut tree = builder(100 * MBIT);
    let isolated = tree.add(ClassId::ROOT, ClassConfig { isolated: true, ..class(30 * MBIT) }).unwrap();
    let other = tree.add(ClassId::ROOT, class(50 * MBIT)).unwrap();
    let tree = tree.build().unwrap();
    for guideline in GUIDELINES {
        for (busy, expected) in [(&[other][..], [0, 70]), (&[isolated], [30, 0]), (&[isolated, other], [30, 70])] {
            let mut link = Link::new(&tree, guideline);
            let rates = link.run(Nanos::from_secs(1), &[1000], busy);
            assert!(is_near(rates[1], expected[0] * MBIT, 30), "{guideline:?} {busy:?}: {rates:?}");
            assert!(is_near(rates[2], expected[1] * MBIT, 30), "{guideline:?} {busy:?}: {rates:?}");
        }
    }
}

#[test]
fn what_an_isolated_class_leaves_is_nobodys_however_deep_it_is() {
    let mut tree = builder(100 * MBIT);
    let top = tree.add(ClassId::ROOT, class(50 * MBIT)).unwrap();
    let other = tree.add(ClassId::ROOT, class(50 * MBIT)).unwrap();
    let isolated = tree.add(top, ClassConfig { isolated: true, ..class(30 * MBIT) }).unwrap();
    let sibling = tree.add(top, class(20 * MBIT)).unwrap();
    let tree = tree.build().unwrap();
    for guideline in GUIDELINES {
        for (busy, expected) in [(&[other][..], 70), (&[other, sibling], 70), (&[other, sibling, isolated], 100)] {
            let rates = Link::new(&tree, guideline).run(Nanos::from_secs(1), &[1000], busy);
            let all = rates[other.index()] + rates[sibling.index()] + rates[isolated.index()];
            assert!(is_near(all, expected * MBIT, 30), "{guideline:?} {busy:?}: {rates:?}");
        }
    }
}

#[test]
fn a_class_that_isolated_ones_are_entitled_to_all_of_lends_nothing() {
    let mut tree = builder(100 * MBIT);
    let top = tree.add(ClassId::ROOT, class(30 * MBIT)).unwrap();
    let isolated = tree.add(top, ClassConfig { isolated: true, ..class(30 * MBIT) }).unwrap();
    let tree = tree.build().unwrap();
    let mut link = Link::new(&tree, Guideline::Formal);
    assert!(link.cbq.classes[top.index()].estimator.is_none());
    let rates = link.run(Nanos::from_secs(1), &[1000], &[isolated]);
    assert!(is_near(rates[top.index()], 30 * MBIT, 50), "{rates:?}");
}

#[test]
fn what_is_borrowed_goes_to_the_smallest_number_of_priority_first() {
    let mut tree = builder(100 * MBIT);
    let with = |rate, priority| ClassConfig { priority: Some(priority), ..class(rate * MBIT) };
    let leaves = [(20, 1), (30, 1), (30, 0)].map(|(rate, priority)| with(rate, priority));
    let leaves = leaves.map(|leaf| tree.add(ClassId::ROOT, leaf).unwrap());
    let mut link = Link::new(&tree.build().unwrap(), Guideline::Formal);
    let rates = link.run(Nanos::from_secs(1), &[1000], &leaves);
    for (leaf, expected) in leaves.into_iter().zip([20, 30, 50]) {
        assert!(is_near(rates[leaf.index()], expected * MBIT, 40), "{rates:?}");
    }
}

#[test]
fn what_a_leaf_has_borrowed_is_not_held_against_its_guarantee() {
    let mut tree = builder(100 * MBIT);
    let [a, b] = [20, 80].map(|rate| tree.add(ClassId::ROOT, class(rate * MBIT)).unwrap());
    let mut link = Link::new(&tree.build().unwrap(), Guideline::Formal);
    link.run(Nanos::from_secs(1), &[1000], &[a]);
    // B may send its unused bandwidth of a second at once, and A continues with one packet in five.
    let rates = link.run(Nanos::from_millis(10), &[1000], &[a, b]);
    assert!(rates[a.index()] >= 18 * MBIT, "{rates:?}");
}

#[test]
fn what_a_leaf_has_sent_ahead_of_its_turns_is_not_held_against_its_guarantee() {
    for guideline in GUIDELINES {
        let mut tree = builder(100 * MBIT);
        let limits = QueueLimits { packets: 1000, bytes: u32::MAX };
        let a = tree.add(ClassId::ROOT, ClassConfig { limits, ..class(10 * MBIT) }).unwrap();
        let b = tree.add(ClassId::ROOT, class(40 * MBIT)).unwrap();
        let mut link = Link::new(&tree.build().unwrap(), guideline);
        let packet = || Packet { handle: 0, len: 1000, class: a };
        // A packet now and then, half of A's guarantee, each ahead of B's borrowing.
        for _ in 0..200 {
            link.cbq.enqueue(link.now, packet(), &mut never);
            link.run(Nanos::from_micros(1600), &[1000], &[b]);
        }
        // Then there is no arrival while A is within its guarantee.
        (0..500).for_each(|_| link.cbq.enqueue(link.now, packet(), &mut never));
        for window in 0..10 {
            let rates = link.run(Nanos::from_millis(20), &[1000], &[b]);
            assert!(rates[a.index()] >= 9 * MBIT, "{guideline:?}, {window}: {rates:?}");
        }
    }
}

#[test]
fn a_burst_is_what_may_be_sent_back_to_back_after_a_pause() {
    for packets in [1, 4, 40, 1 << 50] {
        let mut tree = builder(100 * MBIT);
        let burst = Some(packets * 1000);
        let limits = QueueLimits { packets: 100, bytes: u32::MAX };
        let config = ClassConfig { bounded: true, burst, limits, ..class(MBIT) };
        let leaf = tree.add(ClassId::ROOT, config).unwrap();
        let mut cbq = Cbq::new(&tree.build().unwrap(), Guideline::Formal).unwrap();
        let now = Nanos::from_secs(10);
        let packets = packets.min(100);
        for handle in 0..100 {
            cbq.enqueue(now, Packet { handle, len: 1000, class: leaf }, &mut never);
        }
        let mut sent = 0;
        while let Dequeued::Packet(_) = cbq.dequeue(now, &mut never) {
            sent += 1;
        }
        assert!((packets..=packets.saturating_add(1)).contains(&sent), "{sent} of {packets}");
    }
}

#[test]
fn top_level_follows_what_arrives_and_leaves() {
    let (tree, [_, _, c, a1, a2, b1, _]) = figure_1(100, 200);
    let mut cbq = Cbq::new(&tree, Guideline::TopLevel).unwrap();
    let mut now = Nanos::ZERO;
    let mut step = |cbq: &mut Cbq, arrivals: &[ClassId]| {
        for &class in arrivals {
            cbq.enqueue(now, Packet { handle: 0, len: 1000, class }, &mut never);
        }
        let arrived = cbq.top_level;
        let sent = match cbq.dequeue(now, &mut never) {
            Dequeued::Packet(packet) => packet.class,
            end => panic!("{end:?}"),
        };
        now += Nanos::from_micros(300);
        (arrived, sent, cbq.top_level)
    };
    assert_eq!(cbq.top_level, NO_LIMIT);
    // Underlimit at first, with more to send, and then empty.
    assert_eq!(step(&mut cbq, &[a1, a1]), (0, a1, 0));
    assert_eq!(step(&mut cbq, &[]), (0, a1, NO_LIMIT));
    // Until A1 is overlimit, and A is not: then its arrivals mean A's level.
    let seen: Vec<_> = (0..40).map(|_| step(&mut cbq, &[a1])).collect();
    assert_eq!((seen[0], seen.last()), ((0, a1, NO_LIMIT), Some(&(1, a1, NO_LIMIT))));
    // C is underlimit, so that A1 has to wait.
    assert_eq!(step(&mut cbq, &[a1, c]), (0, c, NO_LIMIT));
    assert_eq!(step(&mut cbq, &[]).1, a1);
    // An idle leaf of another class is underlimit, too, and that class lends its own rate to it.
    assert_eq!(step(&mut cbq, &[a2, b1, b1, a1]).0, 0);
}

/// A random leaf: weight, bounded, isolated, backlogged.
type Leaf = (u64, bool, bool, bool);

/// Up to four branches of up to four leaves; a branch of one leaf is that leaf. Their guarantees are `percent` of a link of 10 Mbit/s.
fn random_tree(branches: &[Vec<Leaf>], percent: u64, flags: bool) -> (Hierarchy, Vec<(ClassId, u64, bool)>) {
    let mut tree = builder(10 * MBIT);
    let sum: u64 = branches.iter().flatten().map(|leaf| leaf.0).sum();
    let unit = 10 * MBIT * percent / 100 / sum;
    let mut leaves = Vec::new();
    for branch in branches {
        let weight: u64 = branch.iter().map(|leaf| leaf.0).sum();
        let above =
            if branch.len() == 1 { ClassId::ROOT } else { tree.add(ClassId::ROOT, class(weight * unit)).unwrap() };
        for &(weight, bounded, isolated, busy) in branch {
            let config = ClassConfig { bounded: bounded && flags, isolated: isolated && flags, ..class(weight * unit) };
            leaves.push((tree.add(above, config).unwrap(), weight * unit, busy));
        }
    }
    (tree.build().unwrap(), leaves)
}

fn branches() -> impl Strategy<Value = Vec<Vec<Leaf>>> {
    let leaf = (1u64..20, any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.8));
    prop::collection::vec(prop::collection::vec(leaf, 1..4), 1..5)
}

/// Weights and packet lengths of saturated leaves.
fn saturated() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let len = prop_oneof![2 => 50u32..=1000, 1 => Just(50), 2 => Just(1000)];
    prop::collection::vec((1u64..20, len), 2..6)
}

/// Maximum relative deviation of a leaf's rate from its share by weight, over 4 s of a link of 10 Mbit/s, under any
/// guideline. The measurement begins 10 s after all leaves begin with a burst, which those of small weights pay for
/// until then. A deviation of two quanta is allowed. Guarantees are `percent` of the link.
fn farthest_from_its_share(leaves: &[(u64, u32)], percent: u64) -> f64 {
    let shape: Vec<_> = leaves.iter().map(|&(weight, _)| alloc::vec![(weight, false, false, true)]).collect();
    let (tree, classes) = random_tree(&shape, percent, false);
    let busy: Vec<_> = classes.iter().map(|leaf| leaf.0).collect();
    let weights = || leaves.iter().map(|leaf| leaf.0);
    let (all, least) = (weights().sum::<u64>(), weights().min().unwrap());
    let mut farthest = 0f64;
    for guideline in GUIDELINES {
        let mut link = Link::new(&tree, guideline);
        let len = |leaf: ClassId| leaves[leaf.index() - 1].1;
        link.run_with(Nanos::from_secs(10), len, &busy);
        let rates = link.run_with(Nanos::from_secs(4), len, &busy);
        for (leaf, weight) in busy.iter().zip(weights()) {
            let expected = 10 * MBIT * weight / all;
            let quanta = 2 * 1000 * weight / least * 8 / 4;
            let off = rates[leaf.index()].abs_diff(expected).saturating_sub(quanta);
            farthest = farthest.max(off as f64 / expected as f64);
        }
    }
    farthest
}

#[test]
fn leaves_of_like_weights_share_the_little_that_is_left_to_borrow() {
    // The one of the larger weight got everything: packets ahead of their turns counted up to a quantum and a packet,
    // which both had always reached, and its quantum was the first to be more than that.
    for percent in [90, 95] {
        let off = farthest_from_its_share(&[(4, 1000), (5, 1000)], percent);
        assert!(off <= 0.005, "{percent} %: {off}");
    }
    // This once failed with 5.4 % at 100 % of the link, an effect of forgetful averages.
    let leaves = [(4, 133), (10, 266), (13, 328), (6, 50)];
    for (percent, most) in [(97, 0.001), (98, 0.005), (99, 0.015), (100, 0.06)] {
        let off = farthest_from_its_share(&leaves, percent);
        assert!(off <= most, "{percent} %: {off}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_backlogged_leaf_gets_its_guarantee_whoever_else_is_backlogged(
        branches in branches(),
        percent in 50u64..=100,
        lens in prop::collection::vec(500u32..=1000, 1..8),
        flags in any::<bool>(),
    ) {
        let (tree, leaves) = random_tree(&branches, percent, flags);
        let busy: Vec<_> = leaves.iter().filter(|leaf| leaf.2).map(|leaf| leaf.0).collect();
        // Under ancestor-only, others borrow ahead of a leaf that may not, and it does not make up for all that it came late.
        for guideline in GUIDELINES.into_iter().filter(|&guideline| !flags || guideline != Guideline::AncestorOnly) {
            let mut link = Link::new(&tree, guideline);
            let rates = link.run(Nanos::from_secs(2), &lens, &busy);
            for &(leaf, guarantee, _) in leaves.iter().filter(|leaf| leaf.2) {
                // Within 5 % and four packets; 15 % if some may not borrow.
                let least = guarantee * if flags { 85 } else { 95 } / 100;
                let sent = rates[leaf.index()] + 4 * 8_000 / 2;
                prop_assert!(sent >= least, "{:?}: {:?} {} of {}", guideline, leaf, rates[leaf.index()], guarantee);
            }
        }
    }

    #[test]
    fn a_bounded_leaf_gets_about_its_rate_and_no_more_whatever_is_free(
        percent in 1u64..=90,
        lens in prop::collection::vec(50u32..=1000, 1..8),
    ) {
        let (tree, leaves) = random_tree(&[alloc::vec![(1, true, false, true)]], percent, true);
        for guideline in GUIDELINES {
            let mut link = Link::new(&tree, guideline);
            let (leaf, guarantee, _) = leaves[0];
            let rates = link.run(Nanos::from_secs(4), &lens, &[leaf]);
            // Its initial burst, and the error of an average that counts packets, not time, over packets of different
            // lengths. No theorem limits it. In 9,000 random runs of 8 s behind the burst it was 3.1 % more at most, for
            // lengths of 824, 250, 862, 904 and 229 B, and 7.5 % less.
            let most = guarantee * 104 / 100 + (MAX_BURST + 1) * 8_000 / 4;
            let got = rates[leaf.index()];
            prop_assert!(got <= most && got >= guarantee * 90 / 100, "{guideline:?}: {got} of {guarantee}");
        }
    }

    #[test]
    fn everything_is_sent_in_the_end_and_nothing_waits_longer_than_said(
        branches in branches(),
        percent in 20u64..=100,
        arrivals in prop::collection::vec((any::<prop::sample::Index>(), 0u32..=1000, 0u64..2_000_000), 1..150),
    ) {
        let (tree, leaves) = random_tree(&branches, percent, true);
        for guideline in GUIDELINES {
            let mut link = Link::new(&tree, guideline);
            let mut queued = 0;
            for &(leaf, len, pause) in &arrivals {
                let packet = Packet { handle: 0, len, class: leaf.get(&leaves).0 };
                link.now += Nanos(pause / 10);
                queued += 1;
                link.cbq.enqueue(link.now, packet, &mut |_: Nanos, _: Packet, _: DropReason| queued -= 1);
            }
            while queued > 0 {
                invariants(&link.cbq).unwrap();
                match link.cbq.dequeue(link.now, &mut never) {
                    Dequeued::Packet(_) => queued -= 1,
                    Dequeued::WaitUntil(at) => {
                        prop_assert!(at > link.now);
                        let before = Nanos(at.0 - 1).max(link.now);
                        let early = link.cbq.dequeue(before, &mut never);
                        prop_assert_eq!(early, Dequeued::WaitUntil(at));
                        link.now = at;
                    }
                    Dequeued::Idle => prop_assert!(false, "idle with {queued}"),
                }
            }
            prop_assert_eq!(link.cbq.dequeue(link.now, &mut never), Dequeued::Idle);
        }
    }

    #[test]
    fn packets_taken_ahead_of_the_link_leave_in_the_order_of_the_link(
        branches in branches(),
        percent in 20u64..=100,
        arrivals in prop::collection::vec((any::<prop::sample::Index>(), 1u32..=1000), 1..100),
    ) {
        let (tree, leaves) = random_tree(&branches, percent, false);
        for guideline in GUIDELINES {
            let order = |ahead: bool| {
                let mut link = Link::new(&tree, guideline);
                for (handle, (leaf, len)) in arrivals.iter().enumerate() {
                    let packet = Packet { handle: handle as u64, len: *len, class: leaf.get(&leaves).0 };
                    link.cbq.enqueue(link.now, packet, &mut |_: Nanos, _: Packet, _: DropReason| {});
                }
                let mut order = Vec::new();
                while let Dequeued::Packet(packet) =
                    link.cbq.dequeue(if ahead { Nanos::ZERO } else { link.now }, &mut never)
                {
                    link.take(&packet);
                    order.push(packet.handle);
                }
                order
            };
            prop_assert_eq!(order(true), order(false));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn what_saturated_classes_borrow_is_shared_by_weight_in_bytes_whatever_the_packets(
        leaves in saturated(),
        percent in 20u64..=97,
    ) {
        // Exact except for a quantum at each end of the time. Beyond that there is not enough to borrow to compensate
        // for everything.
        prop_assert!(farthest_from_its_share(&leaves, percent) <= 0.01, "{}", farthest_from_its_share(&leaves, percent));
    }

    #[test]
    fn where_guarantees_fill_the_link_a_leaf_of_small_packets_loses_no_more_than_its_average_forgets(
        leaves in saturated(),
        percent in 99u64..=100,
    ) {
        // A leaf that has waited for m of its packets has earned m of them, and may send n at once with 16
        // ((16/15)^n - 1) = m. With packets of a twentieth of the largest, m is about 20 and n about 13. It gets most
        // of the excess when it borrows, and all bandwidth to borrow is what others have forgotten in this way.
        prop_assert!(farthest_from_its_share(&leaves, percent) <= 0.12, "{}", farthest_from_its_share(&leaves, percent));
    }
}
