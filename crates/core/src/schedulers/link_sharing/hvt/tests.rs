use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::contract::{ClassConfig, LinkConfig, Rate};
use crate::test_link::{L_MAX, LINK, NS_PER_BYTE, flat, invariants, never, weighted};

mod changes;
mod model;
mod singles;

use model::{Model, Next};

fn packet(class: u32, len: u32, handle: u64) -> Packet {
    Packet { handle, len, class: ClassId(class) }
}

/// Sends everything; the classes in order.
fn drain(hvt: &mut Hvt) -> Vec<u32> {
    let mut order = Vec::new();
    while let Dequeued::Packet(packet) = hvt.dequeue(Nanos::ZERO, &mut never) {
        order.push(packet.class.0);
        invariants(hvt).unwrap();
    }
    order
}

#[test]
fn classes_of_equal_weight_alternate() {
    for leaves in [3, 30] {
        let mut hvt = Hvt::new(&flat((0..leaves).map(|_| weighted(1)))).unwrap();
        for class in (1..=leaves).flat_map(|class| [class; 3]) {
            hvt.enqueue(Nanos::ZERO, packet(class, 1500, 0), &mut never);
        }
        let turns: Vec<u32> = (1..=leaves).collect();
        assert_eq!(drain(&mut hvt), [&turns[..], &turns, &turns].concat());
    }
}

#[test]
fn a_heavy_class_waits_for_no_round_of_light_ones() {
    // Half of the link beside a hundred classes of half a percent: every other packet.
    let mut hvt = Hvt::new(&flat(core::iter::once(100).chain([1; 100]).map(weighted))).unwrap();
    for class in 1..=101 {
        (0..if class == 1 { 100 } else { 1 })
            .for_each(|_| hvt.enqueue(Nanos::ZERO, packet(class, 1500, 0), &mut never));
    }
    let order = drain(&mut hvt);
    let waits = order.split(|&class| class == 1).map(<[u32]>::len);
    assert!(waits.max() <= Some(2), "{order:?}");
}

#[test]
fn bursts_of_latency_critical_leaves_may_have_any_size() {
    let urgent = |burst| ClassConfig { latency_critical: true, burst: Some(burst), ..weighted(1) };
    for bursts in [[u64::MAX, 1], [u64::MAX, u64::MAX], [1 << 40, u64::MAX / 2]] {
        let mut hvt = Hvt::new(&flat(bursts.map(urgent).into_iter().chain([weighted(1)]))).unwrap();
        for class in [3, 2, 1, 3] {
            hvt.enqueue(Nanos::ZERO, packet(class, 1500, 0), &mut never);
        }
        assert_eq!(drain(&mut hvt).len(), 4);
    }
}

#[test]
fn a_class_keeps_its_lag_while_its_last_packet_is_in_transmission() {
    // A class of short packets that always has the next one before the last has left is backlogged all the time.
    let mut hvt = Hvt::new(&flat([weighted(1), weighted(9)])).unwrap();
    let mut sent = [0u64; 3];
    for n in 0..20_000 {
        for (class, len) in [(1, 64), (2, 1500)] {
            if hvt.class_backlog(ClassId(class)).packets == 0 {
                hvt.enqueue(Nanos::ZERO, packet(class, len, n), &mut never);
            }
        }
        let Dequeued::Packet(packet) = hvt.dequeue(Nanos::ZERO, &mut never) else { panic!("a packet is there") };
        sent[packet.class.index()] += u64::from(packet.len);
    }
    // Within the bound of both, in bytes of the first.
    assert!(sent[1].abs_diff(sent[2] / 9) <= 2 * 1500 + 2 * 1500 / 9 + 2 * 1500 / 10, "{sent:?}");
}

#[test]
fn a_class_alone_keeps_its_lag_while_its_packet_is_in_transmission() {
    let mut hvt = Hvt::new(&flat([weighted(1); 4])).unwrap();
    for (class, len) in [(2, 1500), (3, 1500), (1, 64)] {
        hvt.enqueue(Nanos::ZERO, packet(class, len, 0), &mut never);
    }
    let next = |hvt: &mut Hvt| match hvt.dequeue(Nanos::ZERO, &mut never) {
        Dequeued::Packet(packet) => packet.class.0,
        other => panic!("{other:?}"),
    };
    assert_eq!([(); 3].map(|()| next(&mut hvt)), [2, 3, 1]);
    // Its packet of 64 B is in transmission, and its tag is 702 B behind the clock.
    hvt.enqueue(Nanos::ZERO, packet(1, 64, 1), &mut never);
    assert_eq!((hvt.alone, next(&mut hvt)), (1, 1));
    for (class, len) in [(4, 1500), (1, 64)] {
        hvt.enqueue(Nanos::ZERO, packet(class, len, 2), &mut never);
    }
    assert_eq!(drain(&mut hvt), [1, 4]);
}

#[test]
fn the_link_starts_anew_while_all_that_is_queued_waits_for_its_ceiling() {
    let limited = ClassConfig { ceiling: Rate::from_bps(1_000_000).ok(), ceiling_burst: Some(0), ..weighted(1) };
    let mut hvt = Hvt::new(&flat([weighted(1), limited, weighted(98)])).unwrap();
    for class in [1, 2, 2] {
        hvt.enqueue(Nanos::ZERO, packet(class, 1500, 0), &mut never);
    }
    // The first class has sent its packet, the second one has another and is in debt.
    for sent in [Some(1), Some(2), None] {
        let next = hvt.dequeue(Nanos::ZERO, &mut never);
        let class = if let Dequeued::Packet(packet) = &next { Some(packet.class.0) } else { None };
        assert_eq!(class, sent, "{next:?}");
    }
    // The first class was ahead by a hundred packets of the link, which does not count any more.
    hvt.enqueue(Nanos::ZERO, packet(1, 1500, 0), &mut never);
    (0..150).for_each(|_| hvt.enqueue(Nanos::ZERO, packet(3, 1500, 0), &mut never));
    let order = drain(&mut hvt);
    assert!(matches!(order.iter().position(|&class| class == 1), Some(0..=2)), "{order:?}");
}

#[test]
fn a_class_that_was_away_for_long_is_not_taken_for_one_that_is_ahead() {
    for eras in [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17] {
        let mut hvt = Hvt::new(&flat([weighted(1), weighted(1)])).unwrap();
        hvt.enqueue(Nanos::ZERO, packet(1, 1500, 0), &mut never);
        drain(&mut hvt);
        // The clock moves on, as if the other one had been served for a long time.
        let root = &mut hvt.queues.nodes[0];
        (0..eras).for_each(|_| root.advance(1 << ERA));
        for class in [1, 2, 1] {
            hvt.enqueue(Nanos::ZERO, packet(class, 1500, 0), &mut never);
        }
        let (v, member) = (hvt.queues.nodes[0].v, hvt.queues.leaves[1].member);
        assert_eq!(member.tag, v, "{eras} eras");
        assert_eq!(drain(&mut hvt), [1, 2, 1], "{eras} eras");
    }
}

#[test]
fn shares_as_run_add_up_to_one_at_most() {
    for weights in [&[3, 5][..], &[1, 3, 7, 21], &[1, 1_000_000_000], &[7; 30], &[1_000_000, 1, 3, 10, 999, 5]] {
        let tree = flat(weights.iter().map(|&weight| weighted(weight)));
        let scale = scale::Scale::new(&tree, ClassId::ROOT).unwrap();
        let all: u64 = weights.iter().sum();
        for (&weight, &inverse) in weights.iter().zip(&scale.inverse) {
            // 2^k / inverse <= weight, and 2^k / rate >= all.
            assert!(
                u128::from(inverse) * u128::from(weight) >= u128::from(scale.rate) * u128::from(all),
                "{weights:?}"
            );
        }
    }
}

#[test]
fn a_wheel_serves_siblings_of_any_weights_within_the_bound() {
    let weights: Vec<u64> = (0..60).map(|at| 1 + at * at * 7 % 113).collect();
    let tree = flat(weights.iter().map(|&weight| weighted(weight)));
    let slacks = bounds::slacks(&tree).unwrap();
    let mut hvt = Hvt::new(&tree).unwrap();
    let (mut sent, mut random) = (alloc::vec![0u64; 61], 1u64);
    let mut apart = alloc::vec![(0f64, 0f64); 61];
    let all: u64 = weights.iter().sum();
    for n in 0..40_000 {
        for class in 1..=60 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if hvt.class_backlog(ClassId(class)).packets < 2 {
                hvt.enqueue(Nanos::ZERO, packet(class, 1 + (random >> 33) as u32 % 1500, n), &mut never);
            }
        }
        let Dequeued::Packet(packet) = hvt.dequeue(Nanos::ZERO, &mut never) else { panic!("all have packets") };
        sent[packet.class.index()] += u64::from(packet.len);
        let at = |class: usize| sent[class] as f64 / weights[class - 1] as f64;
        for (class, apart) in apart.iter_mut().enumerate().skip(2) {
            let off = at(class) - at(1);
            *apart = (apart.0.min(off), apart.1.max(off));
        }
    }
    for (class, &(least, most)) in apart.iter().enumerate().skip(2) {
        let x = |class: usize| slacks[class].map(|x| x.numerator as f64 / x.denominator as f64).unwrap();
        let bound = x(class) / weights[class - 1] as f64 + x(1) / weights[0] as f64 - 3000.0 / all as f64;
        assert!(most - least <= bound, "{class}: {least} to {most}, of {bound}");
    }
}

/// A class of a random tree.
#[derive(Clone, Debug)]
struct Spec {
    /// An earlier class, modulo their number and one more, which is the root.
    parent: usize,
    weight: u64,
    ceiling: Option<u64>,
    critical: bool,
    burst: Option<u64>,
}

fn spec(features: bool) -> impl Strategy<Value = Spec> {
    let ceiling = prop_oneof![3 => Just(None), 1 => (1_000_000u64..900_000_000).prop_map(Some)];
    let burst = prop::option::of(1u64..20_000);
    (any::<prop::sample::Index>(), 1u64..50, ceiling, prop::bool::weighted(0.3), burst).prop_map(
        move |(parent, weight, ceiling, critical, burst)| Spec {
            parent: parent.index(1 << 20),
            weight,
            ceiling: ceiling.filter(|_| features),
            critical: critical && features,
            burst,
        },
    )
}

#[test]
fn a_new_start_is_beyond_all_tags_however_far_urgent_packets_take_them() {
    for weight in [1, 10, 1000, 100_000] {
        let critical = ClassConfig { latency_critical: true, burst: Some(9000), ..weighted(weight) };
        let tree = flat([critical, weighted(1)]);
        let (hvt, lateness) = (Hvt::new(&tree).unwrap(), Lateness::new(&tree).unwrap());
        assert!(lateness.late(ClassId::ROOT) > Some(9000 * lateness::PARTS), "{weight}");
        assert!(1u64 << hvt.queues.reaches[0] > lateness.reach(ClassId::ROOT), "{weight}");
    }
}

/// Asserts the lemma for each class in a queue, with what urgent packets may add where that is known.
fn assert_lemma(tree: &Hierarchy, hvt: &Hvt, lateness: &Lateness) {
    for class in scale::parents(tree) {
        let Some(late) = lateness.late(class) else { continue };
        let scale = scale::Scale::new(tree, class).unwrap();
        let largest = u64::from(tree.link().max_packet);
        let groups = scale.groups(largest, lateness.room(class));
        for (&child, &inverse) in tree.children(class).iter().zip(&scale.inverse) {
            let at = hvt.queues.child_of(child);
            let member = hvt.queues.member(at);
            if member.place.state() != State::Queued {
                continue;
            }
            let node = &hvt.queues.nodes[member.place.parent() as usize];
            let owed = if at & LEAF == 0 { hvt.urgent.owed(at) } else { 0 };
            let ahead = i128::from(member.tag.wrapping_add(owed).wrapping_sub(node.v) as i64);
            let (width, distance) = groups.of(inverse * largest);
            let units = |parts: u128, rate: u64| (parts * u128::from(rate)).div_ceil(lateness::PARTS) as i128;
            let most =
                i128::from(inverse * largest + width - node.rate * largest) + units(lateness.ahead(child), inverse);
            let least = -i128::from(distance) - units(late, node.rate);
            assert!((least..=most).contains(&ahead), "{child:?}: {ahead} ahead, of {least} to {most}; {tree:#?}");
        }
    }
}

/// Compares the scheduler with the model, packet by packet, on the same arrivals.
fn compare(specs: &[Spec], steps: &[(u32, u32, u8)]) {
    let parents: Vec<usize> = specs.iter().enumerate().map(|(at, spec)| spec.parent % (at + 1)).collect();
    let is_leaf = |class: usize| !parents.contains(&class);
    let mut tree = Hierarchy::builder(LinkConfig::new(LINK));
    for (at, spec) in specs.iter().enumerate() {
        let config = ClassConfig {
            ceiling: spec.ceiling.map(|bps| Rate::from_bps(bps).unwrap()),
            latency_critical: spec.critical && is_leaf(at + 1),
            burst: spec.burst.filter(|_| spec.critical && is_leaf(at + 1)),
            ..weighted(spec.weight)
        };
        tree.add(ClassId(parents[at] as u32), config).unwrap();
    }
    let tree = tree.build().unwrap();
    let mut hvt = Hvt::new(&tree).unwrap();
    let mut model = Model::new(&tree, &hvt);
    let lateness = Lateness::new(&tree).unwrap();
    let leaves = tree.leaves();
    let mut now = Nanos::ZERO;
    for (n, &(leaf, len, kind)) in (0..).zip(steps) {
        if kind % 4 != 0 {
            let class = leaves[leaf as usize % leaves.len()];
            hvt.enqueue(now, packet(class.0, len, n), &mut never);
            model.enqueue(now, class, len, n);
        }
        if kind % 3 == 0 {
            let (sent, expected) = (hvt.dequeue(now, &mut never), model.dequeue(now));
            invariants(&hvt).unwrap();
            assert_lemma(&tree, &hvt, &lateness);
            now = match (sent, expected) {
                (Dequeued::Packet(packet), Next::Packet(class, handle)) => {
                    assert_eq!((packet.class, packet.handle), (class, handle), "packet {n} of {tree:#?}");
                    now.saturating_add(Nanos(u64::from(packet.len) * NS_PER_BYTE))
                }
                (Dequeued::WaitUntil(t), Next::WaitUntil(other)) => {
                    assert_eq!(t, other);
                    if kind % 2 == 0 { t } else { now.saturating_add(Nanos(u64::from(len))) }
                }
                (Dequeued::Idle, Next::Idle) => now.saturating_add(Nanos(u64::from(len))),
                (sent, expected) => panic!("{sent:?} instead of {expected:?} of {tree:#?}"),
            };
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<(u32, u32, u8)>> {
    prop::collection::vec((any::<u32>(), prop_oneof![Just(1500), Just(64), 1u32..=1500], any::<u8>()), 1..400)
}

proptest! {
    #[test]
    fn it_does_what_a_model_with_unbounded_numbers_does(
        specs in prop::collection::vec(spec(false), 1..14), steps in steps()
    ) {
        compare(&specs, &steps);
    }

    #[test]
    fn with_ceilings_and_latency_critical_leaves_too(
        specs in prop::collection::vec(spec(true), 1..14), steps in steps()
    ) {
        compare(&specs, &steps);
    }
}

/// Returns the state of `leaf`, and how far its tag is ahead of the clock of its parent.
fn lead(hvt: &Hvt, leaf: ClassId) -> (State, i64) {
    let member = &hvt.queues.leaves[leaf.index()].member;
    let v = hvt.queues.nodes[member.place.parent() as usize].v;
    (member.place.state(), member.tag.wrapping_sub(v) as i64)
}

/// A step beside many siblings.
#[derive(Clone, Debug)]
enum Step {
    Arrive(u32, u32),
    Send,
    Reweigh(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (any::<u32>(), prop_oneof![Just(1500), 1u32..=1500]).prop_map(|(leaf, len)| Step::Arrive(leaf, len)),
        40 => Just(Step::Send),
        1 => any::<u64>().prop_map(Step::Reweigh),
    ]
}

proptest! {
    #[test]
    fn many_siblings_keep_the_invariants_and_their_order_whatever_comes_and_changes(
        (count, spread, limited, critical) in (25u32..70, 0u32..20, any::<bool>(), any::<bool>()),
        steps in prop::collection::vec(step(), 1..600),
    ) {
        // Two wheels, one below the other.
        let make = |salt: u64| {
            let mut tree = Hierarchy::builder(LinkConfig::new(LINK));
            let weight = |at: u32| 1 + ((u64::from(at) + 1).wrapping_mul(salt | 1).wrapping_mul(2_654_435_761) >> 7) % (1 << spread);
            let one = tree.add(ClassId::ROOT, weighted(weight(0))).unwrap();
            for at in 1..2 * count {
                let ceiling = (limited && at % 5 == 0).then(|| Rate::from_bps(1_000_000 * u64::from(at)).unwrap());
                let latency_critical = critical && at % 7 == 0;
                let parent = if at % 2 == 0 { one } else { ClassId::ROOT };
                // Bursts that take many siblings beyond their deadlines.
                let burst = latency_critical.then(|| u64::from(L_MAX * (1 + at % 40)));
                tree.add(parent, ClassConfig { ceiling, latency_critical, burst, ..weighted(weight(at)) }).unwrap();
            }
            tree.build().unwrap()
        };
        let tree = make(1);
        let mut hvt = Hvt::new(&tree).unwrap();
        let lateness = Lateness::new(&tree).unwrap();
        let (mut now, mut queued) = (Nanos::ZERO, alloc::vec![alloc::collections::VecDeque::new(); tree.len()]);
        let steps = steps.into_iter().chain(core::iter::repeat_n(Step::Send, 2000));
        for (n, step) in (0..).zip(steps) {
            match step {
                Step::Arrive(leaf, len) => {
                    let class = tree.leaves()[leaf as usize % tree.leaves().len()];
                    hvt.enqueue(now, packet(class.0, len, n), &mut never);
                    queued[class.index()].push_back(n);
                }
                Step::Send => match hvt.dequeue(now, &mut never) {
                    Dequeued::Packet(packet) => {
                        prop_assert_eq!(queued[packet.class.index()].pop_front(), Some(packet.handle));
                        now = now.saturating_add(Nanos(u64::from(packet.len) * NS_PER_BYTE));
                    }
                    Dequeued::WaitUntil(t) => {
                        prop_assert!(limited && t > now);
                        now = t;
                    }
                    Dequeued::Idle => prop_assert!(queued.iter().all(alloc::collections::VecDeque::is_empty)),
                },
                Step::Reweigh(salt) => {
                    let before: Vec<(State, i64)> = tree.leaves().iter().map(|&leaf| lead(&hvt, leaf)).collect();
                    let taken = hvt.retune(now, &mut Hvt::new(&make(salt % 1000)).unwrap());
                    prop_assert_eq!(taken, !critical);
                    for (&leaf, (state, ahead)) in tree.leaves().iter().zip(before) {
                        let (after, now_ahead) = lead(&hvt, leaf);
                        prop_assert_eq!(after, state);
                        // A class behind the clock comes up to it, and no farther.
                        prop_assert!(state != State::Queued || ahead > 0 || now_ahead <= 0, "{leaf:?}: {ahead}, {now_ahead}");
                    }
                }
            }
            prop_assert_eq!(invariants(&hvt), Ok(()));
            if critical {
                assert_lemma(&tree, &hvt, &lateness);
            }
        }
        prop_assert!(queued.iter().all(alloc::collections::VecDeque::is_empty), "packets are left");
    }
}
