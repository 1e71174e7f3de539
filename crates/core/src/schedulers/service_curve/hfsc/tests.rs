//! H-FSC against \[hfsc\] Sections 2, 5 and 6.

use super::*;
use crate::contract::{ClassConfig, LinkConfig, QueueLimits, Rate, ServiceCurve};
use crate::parts::curve::{
    BYTE, TIME_BITS,
    tests::{Arrival, Sent, curve, fitting, rate, run, served_by, some_arrivals, some_curve, tree, worst_breach},
};
use crate::schedulers::sced::Sced;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Link on which a byte takes 1000 ns.
const LINK: u64 = 8_000_000;
const MS: u64 = 1_000_000;

fn line(bps: u64) -> ServiceCurve {
    curve(0, Nanos::ZERO, bps)
}

fn guaranteed(bps: u64) -> ClassConfig {
    ClassConfig { share: Some(Share::Guarantee(rate(bps))), ..ClassConfig::default() }
}

fn weighted(weight: u64) -> ClassConfig {
    ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() }
}

/// A guarantee that is also met in time.
fn reserved(bps: u64) -> ClassConfig {
    ClassConfig { real_time: Some(line(bps)), ..guaranteed(bps) }
}

fn both(curve: ServiceCurve) -> ClassConfig {
    ClassConfig { real_time: Some(curve), link_share: Some(curve), ..ClassConfig::default() }
}

fn backlog(at: u64, class: u32, len: u32, packets: usize) -> impl Iterator<Item = Arrival> {
    core::iter::repeat_n((at, class, len), packets)
}

/// Bytes of `class` that left in (from, to].
fn bytes(sent: &[Sent], class: u32, from: u64, to: u64) -> u64 {
    let within = |packet: &&Sent| packet.class == class && packet.end > from && packet.end <= to;
    sent.iter().filter(within).map(|packet| u64::from(packet.len)).sum()
}

/// Returns the longest time from one packet of `class` to the next, in (from, to].
fn longest_gap(sent: &[Sent], class: u32, from: u64, to: u64) -> u64 {
    let (mut last, mut gap) = (from, 0);
    for packet in sent.iter().filter(|packet| packet.class == class && packet.end > from && packet.end <= to) {
        gap = gap.max(packet.start.saturating_sub(last));
        last = packet.end;
    }
    gap.max(to - last)
}

#[test]
fn figure_3_sced_starves_session_1_and_h_fsc_does_not_and_keeps_both_curves() {
    // Equations (5) and (6) with alpha = 0 for session 1 (so that it stays two pieces) and 1/4 for session 2, beta = 5/8,
    // T = 100 ms; session 2 joins after one second.
    let curves = [curve(0, Nanos(100 * MS), 5_000_000), curve(5_000_000, Nanos(100 * MS), 2_000_000)];
    let t0 = 1_000 * MS;
    let arrivals: Vec<Arrival> = backlog(0, 1, 1_000, 2_500).chain(backlog(t0, 2, 1_000, 1_500)).collect();
    let breaches =
        |sent: &[Sent]| [1, 2].map(|class| worst_breach(class, &curves[class as usize - 1], &arrivals, sent, MS));
    let flat = |config: fn(ServiceCurve) -> ClassConfig| tree(LINK, &curves.map(|curve| (0, config(curve))));

    let mut sced = Sced::new(&flat(both)).unwrap();
    let sent = run(&mut sced, 1_000, &arrivals, 2_000 * MS);
    assert_eq!(breaches(&sent), [0, 0]);
    // Its last deadline was S_1^-1(w_1(t_0)) = 1.7 s; session 2 has S_2(0.7 s) = 212 packets to send until then.
    let gap = longest_gap(&sent, 1, t0, t0 + 500 * MS);
    assert!((210 * MS..=215 * MS).contains(&gap), "{gap}");

    // S_2(t - d_0): by virtual time alone. No session starves, and session 2's curve is violated.
    let shared = flat(|curve| ClassConfig { link_share: Some(curve), ..ClassConfig::default() });
    let sent = run(&mut Hfsc::new(&shared).unwrap(), 1_000, &arrivals, 2_000 * MS);
    assert!(longest_gap(&sent, 1, t0, t0 + 500 * MS) <= 2 * MS);
    assert!(breaches(&sent)[1] > 5_000, "{:?}", breaches(&sent));

    // H-FSC: session 1 keeps the rest of session 2's curve, 3/8 of the link.
    let sent = run(&mut Hfsc::new(&flat(both)).unwrap(), 1_000, &arrivals, 2_000 * MS);
    assert_eq!(breaches(&sent), [0, 0]);
    assert!(longest_gap(&sent, 1, t0, t0 + 500 * MS) <= 3 * MS);
    assert!(bytes(&sent, 1, t0, t0 + 100 * MS) >= 35_000);
}

#[test]
fn figure_4_every_leaf_keeps_its_curve_where_the_inner_classes_cannot() {
    // A = {1, 2} and B = {3, 4}; each inner class's curve is the sum of its children's: a line of half of the link.
    let (steep, late) = (curve(4_000_000, Nanos(100 * MS), 800_000), curve(0, Nanos(100 * MS), 3_200_000));
    let half = || ClassConfig { link_share: Some(line(4_000_000)), ..ClassConfig::default() };
    let classes = [(0, half()), (0, half()), (1, both(steep)), (1, both(late)), (2, both(steep)), (2, both(late))];
    let t0 = 1_000 * MS;
    let mut arrivals: Vec<Arrival> = (4..=6).flat_map(|class| backlog(0, class, 500, 4_000)).collect();
    arrivals.extend(backlog(t0, 3, 500, 4_000));
    let sent = run(&mut Hfsc::new(&tree(LINK, &classes)).unwrap(), 1_000, &arrivals, 2_000 * MS);
    for (class, curve) in [(3, steep), (4, late), (5, steep), (6, late)] {
        assert_eq!(worst_breach(class, &curve, &arrivals, &sent, MS / 2), 0, "class {class}");
    }
    // Until then B's curve is met.
    let of = |inner: [u32; 2], from, to| inner.iter().map(|&class| bytes(&sent, class, from, to)).sum::<u64>();
    assert!(of([5, 6], 0, t0) >= 500_000 - 500);
    // Then 1's steep piece is paid by B, which falls behind its curve, 4 Mbit/s, by far more than a packet.
    let behind = 50_000 - of([5, 6], t0, t0 + 100 * MS);
    assert!((2_000..50_000).contains(&behind), "{behind}");
}

#[test]
fn figure_12_an_idle_class_gives_its_share_to_its_siblings() {
    let rates = [1_500_000, 1_500_000, 1_500_000, 1_500_000, 4_000_000];
    let below = [80_000, 480_000, 1_440_000, 2_000_000];
    let mut classes: Vec<_> = rates[..4].iter().map(|&bps| (0, reserved(bps))).collect();
    classes.push((0, guaranteed(rates[4])));
    classes.extend(below.iter().map(|&bps| (5, reserved(bps))));
    // Backlogged except the last, which is off in every second phase of two seconds.
    let phase = 2_000 * MS;
    let mut arrivals: Vec<Arrival> =
        [1, 2, 3, 4, 6, 7, 8].into_iter().flat_map(|class| backlog(0, class, 512, 8_000)).collect();
    let on = |packet: u64| packet * 2_048_000 % (2 * phase) < phase;
    arrivals.extend((0..3_900).filter(|&packet| on(packet)).map(|packet| (packet * 2_048_000, 9, 512)));
    arrivals.sort_by_key(|arrival| arrival.0);
    let sent = run(&mut Hfsc::new(&tree(10_000_000, &classes)).unwrap(), 800, &arrivals, 4 * phase);
    for number in 0..4 {
        let (from, to) = (number * phase + 40 * MS, (number + 1) * phase);
        for (class, &bps) in
            [1, 2, 3, 4, 5, 6, 7, 8, 9].iter().zip(rates.iter().chain(&below)).filter(|(class, _)| **class != 5)
        {
            let expected = match (number % 2, class) {
                (1, 9) => 0,
                // 4 Mbit/s for 2 Mbit/s of guarantees.
                (1, 6..=8) => 2 * bps,
                _ => bps,
            };
            let measured = bytes(&sent, *class, from, to) * 8_000_000_000 / (to - from);
            assert!(
                measured.abs_diff(expected) * 20 <= bps,
                "phase {number}, class {class}: {measured}, not {expected}"
            );
        }
    }
}

#[test]
fn experiment_2_of_hls_is_shared_half_and_half_whatever_the_leaf_guarantees() {
    for [a1, a2, b1, b2] in [[140, 160, 140, 160], [100, 200, 100, 200], [60, 240, 60, 240]] {
        let of = |part: u64| guaranteed(part * LINK / 1_000);
        let classes = [(0, of(300)), (0, of(300)), (0, of(400)), (1, of(a1)), (1, of(a2)), (2, of(b1)), (2, of(b2))];
        let (pause, end) = (1_000 * MS, 2_000 * MS);
        // A1, B2 and C send; C's packets last for a second.
        let arrivals: Vec<Arrival> =
            backlog(0, 4, 1_000, 1_500).chain(backlog(0, 7, 1_000, 1_500)).chain(backlog(0, 3, 1_000, 400)).collect();
        let sent = run(&mut Hfsc::new(&tree(LINK, &classes)).unwrap(), 1_000, &arrivals, end);
        for (class, with, without) in [(4, 300, 500), (7, 300, 500), (3, 400, 0)] {
            assert!(bytes(&sent, class, 0, pause).abs_diff(with * 1_000) <= 2_000);
            let after = bytes(&sent, class, pause + 10 * MS, end);
            assert!(after.abs_diff(without * 990) <= 2_000, "class {class}: {after} B");
        }
    }
}

#[test]
fn a_class_at_its_upper_limit_gets_it_and_does_not_pull_others_back() {
    // Its share is nine tenths and its limit one half; then a third class joins, and no class waits for long.
    let limited = ClassConfig { upper_limit: Some(line(LINK / 2)), ..weighted(9) };
    let classes = [(0, limited), (0, weighted(1)), (0, weighted(1))];
    let join = 1_000 * MS;
    let arrivals: Vec<Arrival> =
        backlog(0, 1, 1_000, 2_000).chain(backlog(0, 2, 1_000, 2_000)).chain(backlog(join, 3, 1_000, 2_000)).collect();
    let sent = run(&mut Hfsc::new(&tree(LINK, &classes)).unwrap(), 1_000, &arrivals, 2_000 * MS);
    for (class, before, after) in [(1, 500, 500), (2, 500, 250), (3, 0, 250)] {
        assert!(bytes(&sent, class, 0, join).abs_diff(before * 1_000) <= 3_000);
        let got = bytes(&sent, class, join, 2_000 * MS);
        assert!(got.abs_diff(after * 1_000) <= 5_000, "class {class}: {got} B");
    }
    assert!(longest_gap(&sent, 2, join, 2_000 * MS) <= 6 * MS);
}

#[test]
fn a_class_gets_to_its_ceiling_however_often_it_waits_behind_others() {
    // A may have its guarantee and no more; its packets are shorter than those of the other.
    let three_tenths = Rate::from_bps(LINK / 10 * 3).unwrap();
    let a = ClassConfig { ceiling: Some(three_tenths), ..guaranteed(LINK / 10 * 3) };
    let arrivals: Vec<Arrival> = backlog(0, 1, 1_000, 1_000).chain(backlog(0, 2, 1_400, 1_000)).collect();
    let sent = run(
        &mut Hfsc::new(&tree(LINK, &[(0, a), (0, guaranteed(LINK / 10 * 7))])).unwrap(),
        1_000,
        &arrivals,
        2_000 * MS,
    );
    for (class, expected) in [(1, 600_000u64), (2, 1_400_000)] {
        let got = bytes(&sent, class, 0, 2_000 * MS);
        assert!(got.abs_diff(expected) <= 4_000, "class {class}: {got} B");
    }
}

#[test]
fn a_class_saves_nothing_for_its_ceiling_while_it_is_idle() {
    // One packet, a pause of a second, then many: they are spaced by the ceiling from the first on.
    let a = ClassConfig { ceiling: Some(Rate::from_bps(LINK / 10).unwrap()), ..weighted(1) };
    let mut arrivals: Vec<Arrival> = backlog(0, 1, 1_000, 1).collect();
    arrivals.extend(backlog(1_000 * MS, 1, 1_000, 20));
    let sent = run(&mut Hfsc::new(&tree(LINK, &[(0, a), (0, weighted(1))])).unwrap(), 1_000, &arrivals, 2_000 * MS);
    let starts: Vec<u64> = sent[1..].iter().map(|packet| packet.start).collect();
    assert_eq!(starts[0], 1_000 * MS);
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 10 * MS), "{starts:?}");
}

#[test]
fn a_class_that_others_kept_from_its_ceiling_for_long_makes_up_for_no_more_than_packets() {
    // For a second it gets a tiny share. Then it has the link alone, and a ceiling of half.
    let half = Rate::from_bps(LINK / 2).unwrap();
    let limited = ClassConfig { ceiling: Some(half), ..weighted(1) };
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1_000, ..LinkConfig::new(rate(LINK)) });
    for (parent, config) in [(0, weighted(1)), (0, weighted(100_000)), (1, limited), (1, weighted(1))] {
        let limits = QueueLimits { packets: 1 << 16, bytes: u32::MAX };
        tree.add(ClassId(parent), ClassConfig { limits, ..config }).unwrap();
    }
    let arrivals: Vec<Arrival> = backlog(0, 2, 1_000, 1_000).chain(backlog(0, 3, 1_000, 2_000)).collect();
    let sent = run(&mut Hfsc::new(&tree.build().unwrap()).unwrap(), 1_000, &arrivals, 2_000 * MS);
    // At most two packets for each of two children on two levels, two more, and the packet on the link.
    let got = bytes(&sent, 3, 1_000 * MS, 2_000 * MS);
    assert!((500_000..=500_000 + 11_000).contains(&got), "{got} B");
}

/// Queues packets of these classes and lengths now.
fn queue(hfsc: &mut Hfsc, now: u64, packets: &[(u32, u32)]) {
    for &(class, len) in packets {
        let packet = Packet { handle: 0, len, class: ClassId(class) };
        hfsc.enqueue(Nanos(now), packet, &mut |_: Nanos, packet: Packet, _: DropReason| panic!("{packet:?}"));
    }
}

fn next_class(hfsc: &mut Hfsc, now: u64) -> Option<u32> {
    match hfsc.dequeue(Nanos(now), &mut |_: Nanos, packet: Packet, _: DropReason| panic!("{packet:?}")) {
        Dequeued::Packet(packet) => Some(packet.class.0),
        Dequeued::WaitUntil(_) | Dequeued::Idle => None,
    }
}

#[test]
fn a_class_that_becomes_active_starts_in_the_middle_between_its_siblings() {
    let mut hfsc = Hfsc::new(&tree(LINK, &[(0, weighted(1)), (0, weighted(1)), (0, weighted(1))])).unwrap();
    queue(&mut hfsc, 0, &[(1, 1000), (1, 1000), (2, 200), (2, 200), (2, 200)]);
    let sent: Vec<_> = (0..3).map(|_| next_class(&mut hfsc, 0)).collect();
    assert_eq!(sent, [Some(1), Some(2), Some(2)]);
    let [first, second] = [1, 2].map(|class: usize| hfsc.classes[class].virtual_time);
    assert_eq!(second * 5, first * 2);
    queue(&mut hfsc, 0, &[(3, 1000)]);
    assert_eq!(hfsc.classes[3].virtual_time, second + (first - second) / 2);
}

#[test]
fn service_by_the_real_time_criterion_is_counted_apart() {
    // Class 1 is due first and gets its packet in time; class 2 has no curve.
    let mut hfsc = Hfsc::new(&tree(LINK, &[(0, reserved(LINK / 2)), (0, guaranteed(LINK / 2))])).unwrap();
    queue(&mut hfsc, 0, &[(1, 1000), (1, 1000), (2, 1000)]);
    assert_eq!((next_class(&mut hfsc, 0), next_class(&mut hfsc, 0)), (Some(1), Some(2)));
    assert_eq!(hfsc.served_in_time(ClassId(1)), Some(1000));
    // Not eligible yet, it is served by link-sharing, which does not count.
    assert_eq!(next_class(&mut hfsc, 0), Some(1));
    assert_eq!((hfsc.served_in_time(ClassId(1)), hfsc.served_in_time(ClassId(2))), (Some(1000), None));
    assert_eq!(hfsc.virtual_times(ClassId::ROOT), None);
    assert_eq!(hfsc.virtual_times(ClassId(99)), None);
}

#[test]
fn after_all_were_idle_a_class_starts_where_the_last_one_stopped() {
    let mut hfsc = Hfsc::new(&tree(LINK, &[(0, weighted(1)), (0, weighted(1))])).unwrap();
    queue(&mut hfsc, 0, &[(1, 1000), (1, 500)]);
    assert_eq!([next_class(&mut hfsc, 0), next_class(&mut hfsc, 0)], [Some(1), Some(1)]);
    queue(&mut hfsc, 0, &[(2, 1000)]);
    let stopped = hfsc.classes[1].virtual_curve.time_of(1500);
    assert_eq!(hfsc.classes[2].virtual_time, stopped);
}

#[test]
fn a_class_that_was_held_does_not_make_up_for_it_when_its_limit_no_longer_binds() {
    // The first is held at a quarter of the link beside one of the same weight. Then a third joins that takes six eighths:
    // an eighth is left to each of the others.
    let limited = ClassConfig { upper_limit: Some(line(LINK / 4)), ..weighted(1) };
    let classes = tree(LINK, &[(0, limited), (0, weighted(1)), (0, weighted(6))]).with_max_packet(1_000).unwrap();
    let join = 1_000 * MS;
    let greedy = [backlog(0, 1, 1_000, 2_000), backlog(0, 2, 1_000, 2_000), backlog(join, 3, 1_000, 2_000)];
    let arrivals: Vec<Arrival> = greedy.into_iter().flatten().collect();
    let sent = run(&mut Hfsc::new(&classes).unwrap(), 1_000, &arrivals, 2_000 * MS);
    for (class, before, after) in [(1, 250, 100), (2, 750, 100), (3, 0, 600)] {
        assert!(bytes(&sent, class, 0, join).abs_diff(before * 1_000) <= 3_000, "class {class}");
        let got = bytes(&sent, class, join, 1_800 * MS);
        assert!(got.abs_diff(after * 1_000) <= 4_000, "class {class}: {got} B");
    }
}

#[test]
fn a_leaf_of_real_time_only_gets_its_curve_and_the_link_idles() {
    let classes = [(0, ClassConfig { real_time: Some(line(LINK / 4)), ..ClassConfig::default() })];
    let arrivals: Vec<Arrival> = backlog(0, 1, 1_000, 1_000).collect();
    let sent = run(&mut Hfsc::new(&tree(LINK, &classes)).unwrap(), 1_000, &arrivals, 1_000 * MS);
    assert!(bytes(&sent, 1, 0, 1_000 * MS).abs_diff(250_000) <= 1_000);
    assert!(sent.iter().skip(1).zip(&sent).all(|(next, packet)| next.start == packet.start + 4 * MS));
}

#[test]
fn curves_that_cannot_be_computed_with_or_kept_are_refused() {
    let refusal = |classes: &[(u32, ClassConfig)]| Hfsc::new(&tree(LINK, classes)).unwrap_err();
    let set = |curve| ClassConfig { real_time: Some(curve), ..ClassConfig::default() };
    assert_eq!(refusal(&[(0, set(line(LINK + 1)))]), BuildError::NotAdmitted { fails_at: Nanos::ZERO });
    let inner = [(0, set(line(1))), (1, weighted(1))];
    assert!(matches!(refusal(&inner), BuildError::Curve { class: ClassId(1), .. }));
    let bent = curve(1_000, Nanos(5), 2_000);
    let flat = curve(2_000, Nanos(5), 0);
    let limit = |curve| ClassConfig { upper_limit: Some(curve), ..weighted(1) };
    for config in [
        ClassConfig { real_time: Some(bent), ..weighted(1) },
        ClassConfig { link_share: Some(bent), ..weighted(1) },
        ClassConfig { link_share: Some(flat), ..weighted(1) },
        limit(bent),
        limit(flat),
        limit(curve(0, Nanos(5), 1_000)),
        ClassConfig { ceiling: Some(rate(5)), ..limit(line(5)) },
    ] {
        assert!(
            matches!(refusal(&[(0, weighted(1)), (0, config)]), BuildError::Curve { class: ClassId(2), .. }),
            "{config:?}"
        );
    }
}

/// Four leaves with the given configurations, each somewhere in a chain of inner classes.
fn deep(leaves: Vec<ClassConfig>, inner: &[(u32, u64, bool)], places: &[u32], ceilings: bool) -> (Hierarchy, u32) {
    let mut classes = Vec::new();
    for (index, &(parent, weight, limited)) in (0u32..).zip(inner) {
        let ceiling = (ceilings && limited).then(|| rate(weight * 1_000));
        classes.push((parent % (index + 1), ClassConfig { ceiling, ..weighted(weight) }));
    }
    let first = inner.len() as u32 + 1;
    for (config, &place) in leaves.into_iter().zip(places) {
        classes.push((place % first, config));
    }
    (tree(LINK, &classes), first)
}

fn some_inner() -> impl Strategy<Value = Vec<(u32, u64, bool)>> {
    prop::collection::vec((any::<u32>(), 1u64..1_000, any::<bool>()), 0..8)
}

fn subtree(tree: &Hierarchy, class: u32, of: ClassId) -> bool {
    core::iter::successors(Some(ClassId(class)), |&class| tree.parent(class)).any(|class| class == of)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_deadline_is_missed_by_more_than_one_packet_whatever_the_depth(
        curves in prop::collection::vec((some_curve(LINK), 1u64..1_000), 4),
        inner in some_inner(),
        places in prop::collection::vec(any::<u32>(), 4),
        arrivals in some_arrivals(0, 4),
        ceilings in any::<bool>(),
    ) {
        // Theorems 1 and 2: the service curves are kept within tau_max, also below ceilings, for any link-sharing.
        let (curves, weights): (Vec<_>, Vec<_>) = curves.into_iter().unzip();
        let curves = fitting(curves, LINK);
        let config = |(&curve, &weight)| ClassConfig { real_time: Some(curve), ..weighted(weight) };
        let (tree, first) = deep(curves.iter().zip(&weights).map(config).collect(), &inner, &places, ceilings);
        let arrivals: Vec<_> = arrivals.into_iter().map(|(time, class, len)| (time, first + class, len)).collect();
        let sent = run(&mut Hfsc::new(&tree).unwrap(), 1_000, &arrivals, 60_000_000_000);
        for (class, curve) in (first..).zip(&curves) {
            prop_assert_eq!(worst_breach(class, curve, &arrivals, &sent, 1_500_000), 0, "class {}", class);
        }
    }

    #[test]
    fn virtual_times_of_active_siblings_differ_by_one_packet_of_the_slowest_at_most(
        curves in prop::collection::vec(some_curve(LINK), 4),
        inner in some_inner(),
        places in prop::collection::vec(any::<u32>(), 4),
        steps in prop::collection::vec((0u32..8, 1u32..=1_500), 1..200),
    ) {
        // Theorem 3 for link-sharing: the smallest is served, so v_max <= v_min + the largest step of any sibling,
        // which is its flat piece and one packet on its lower slope. A class that becomes active starts between the
        // two, or at its last position if v_min was lower still.
        let config = |&curve: &ServiceCurve| ClassConfig { link_share: Some(curve), ..weighted(1) };
        let (tree, first) = deep(curves.iter().map(config).collect(), &inner, &places, false);
        let mut hfsc = Hfsc::new(&tree).unwrap();
        let mut drops = |_: Nanos, packet: Packet, reason: DropReason| panic!("{packet:?}: {reason:?}");
        let step = |class: ClassId| {
            let config = tree.config(class);
            let (flat, slope) = config.link_share.map_or((0, hfsc_rate(&tree, class)), |curve| {
                let slopes = [curve.m1, curve.m2].into_iter().flatten().map(Rate::bps).min();
                (if curve.m1.is_none() { curve.d.0 } else { 0 }, slopes.unwrap_or(1))
            });
            (u128::from(flat) << TIME_BITS) + (1_500 * BYTE).div_ceil(u128::from(slope) << SLOPE_BITS) + 2
        };
        for (class, len) in steps {
            if class < 4 {
                hfsc.enqueue(Nanos::ZERO, Packet { handle: 0, len, class: ClassId(first + class) }, &mut drops);
            } else {
                let _ = hfsc.dequeue(Nanos::ZERO, &mut drops);
            }
            for parent in core::iter::once(ClassId::ROOT).chain(tree.classes()).filter(|&class| !tree.is_leaf(class)) {
                let Some((least, most)) = hfsc.virtual_times(parent) else { continue };
                let bound = tree.children(parent).iter().map(|&child| step(child)).max().unwrap();
                prop_assert!(most - least <= bound, "{} of {bound}", most - least);
            }
        }
    }

    #[test]
    fn virtual_times_stay_together_under_both_criteria(
        weights in prop::collection::vec(1u64..100, 4),
        arrivals in some_arrivals(1, 4),
    ) {
        // Theorem 3 with the same lines for both criteria: of two active siblings, the one ahead gets real-time service at
        // its rate within a packet each way, the one behind no less; two packets each and one on the link.
        let sum: u64 = weights.iter().sum();
        let rates: Vec<u64> = weights.iter().map(|weight| weight * LINK / sum).collect();
        let tree = tree(LINK, &rates.iter().map(|&bps| (0, reserved(bps))).collect::<Vec<_>>());
        let mut hfsc = Hfsc::new(&tree).unwrap();
        let mut drops = |_: Nanos, packet: Packet, reason: DropReason| panic!("{packet:?}: {reason:?}");
        let slowest = rates.iter().min().unwrap();
        let bound = 4 * (1_500 * BYTE).div_ceil(u128::from(*slowest) << SLOPE_BITS) + 1_500 * BYTE / u128::from(LINK << SLOPE_BITS);
        let (mut now, mut arrivals) = (0, arrivals.into_iter().peekable());
        while arrivals.peek().is_some() || hfsc.backlog().packets > 0 {
            while let Some((time, class, len)) = arrivals.next_if(|&(time, ..)| time <= now) {
                hfsc.enqueue(Nanos(time), Packet { handle: 0, len, class: ClassId(class) }, &mut drops);
            }
            now = match hfsc.dequeue(Nanos(now), &mut drops) {
                Dequeued::Packet(packet) => now + u64::from(packet.len) * 1_000,
                _ => arrivals.peek().unwrap().0,
            };
            if let Some((least, most)) = hfsc.virtual_times(ClassId::ROOT) {
                prop_assert!(most - least <= bound, "{} of {bound}", most - least);
            }
        }
    }

    #[test]
    fn with_lines_virtual_time_is_w_over_r_and_the_order_that_of_packet_fair_queueing(
        weights in prop::collection::vec(1u64..1_000, 2..6),
        lens in prop::collection::vec(1u32..=1_500, 200),
    ) {
        let tree = tree(LINK, &weights.iter().map(|&weight| (0, weighted(weight))).collect::<Vec<_>>());
        let mut hfsc = Hfsc::new(&tree).unwrap();
        let mut drops = |_: Nanos, packet: Packet, reason: DropReason| panic!("{packet:?}: {reason:?}");
        for (place, &len) in lens.iter().enumerate() {
            let class = ClassId(1 + (place % weights.len()) as u32);
            hfsc.enqueue(Nanos::ZERO, Packet { handle: 0, len, class }, &mut drops);
        }
        let mut served = alloc::vec![0u64; weights.len()];
        for _ in &lens {
            let backlogged: Vec<usize> = (0..weights.len()).filter(|&at| !hfsc.classes[at + 1].queue.is_empty()).collect();
            let Dequeued::Packet(packet) = hfsc.dequeue(Nanos::ZERO, &mut drops) else { panic!("idle") };
            let chosen = packet.class.index() - 1;
            for other in backlogged {
                prop_assert!(served[chosen] * weights[other] <= served[other] * weights[chosen]);
            }
            served[chosen] += u64::from(packet.len);
            let of = &hfsc.classes[chosen + 1];
            let virtual_time = (u128::from(served[chosen]) * BYTE).div_ceil(u128::from(weights[chosen]) << SLOPE_BITS);
            prop_assert_eq!(of.virtual_time, virtual_time);
        }
    }

    #[test]
    fn an_upper_limit_is_never_exceeded_by_more_than_its_burst_and_a_packet(
        limits in prop::collection::vec((some_curve(LINK), any::<bool>()), 10),
        inner in some_inner(),
        places in prop::collection::vec(any::<u32>(), 4),
        arrivals in some_arrivals(0, 4),
    ) {
        // W(s, t] <= U(t - s) + burst + L_max, over any interval, at any class.
        let limit = |&(curve, limited): &(ServiceCurve, bool)| (limited && curve.m1.is_some()).then_some(curve);
        let burst = |curve: &ServiceCurve| curve.d.0 % 3 * 700;
        let config = |of: &(ServiceCurve, bool)| ClassConfig {
            upper_limit: limit(of),
            ceiling_burst: limit(of).map(|curve| burst(&curve)),
            ..weighted(1)
        };
        let (plain, first) = deep(limits[..4].iter().map(config).collect(), &inner, &places, false);
        let mut classes: Vec<(u32, ClassConfig)> =
            plain.classes().map(|class| (plain.parent(class).unwrap().0, *plain.config(class))).collect();
        for ((_, config), of) in classes.iter_mut().zip(&limits[4..]).take(inner.len()) {
            config.upper_limit = limit(of);
            config.ceiling_burst = limit(of).map(|curve| burst(&curve));
        }
        let tree = tree(LINK, &classes);
        let arrivals: Vec<_> = arrivals.into_iter().map(|(time, class, len)| (time, first + class, len)).collect();
        let sent = run(&mut Hfsc::new(&tree).unwrap(), 1_000, &arrivals, 3_000_000_000);
        for class in tree.classes() {
            let Some(curve) = tree.config(class).upper_limit else { continue };
            let own: Vec<&Sent> = sent.iter().filter(|packet| subtree(&tree, packet.class, class)).collect();
            for (place, from) in own.iter().enumerate() {
                let mut before = 0u128;
                for to in &own[place..] {
                    let beyond = before.saturating_sub(burst(&curve).into());
                    prop_assert!(beyond * 8_000_000_000 <= served_by(&curve, to.start - from.start), "{class:?}: {before} B");
                    before += u128::from(to.len);
                }
            }
        }
    }
}

/// The link-sharing slope of a class without a curve, as documented in the module.
fn hfsc_rate(tree: &Hierarchy, class: ClassId) -> u64 {
    let siblings = tree.children(tree.parent(class).unwrap());
    let curves = siblings.iter().any(|&sibling| tree.config(sibling).link_share.is_some());
    if curves { tree.rate_all_busy(class).max(1) } else { tree.weight(class) }
}

/// Maximum difference of the virtual times of `sessions` siblings, in steps of one packet, if each joins and has a
/// packet served in real time at once.
fn apart_after_joining(sessions: u32, joins: Joins) -> u128 {
    // A packet in a negligible time, and then almost no rate: real time serves each arrival, and never more.
    let rate = LINK / (2 * u64::from(sessions));
    let real_time = ServiceCurve {
        m1: Rate::from_bps(rate).ok(),
        d: Nanos(u64::from(sessions) * 2 * 1_000 * 8),
        m2: Rate::from_bps(1).ok(),
    };
    let config = ClassConfig { real_time: Some(real_time), ..weighted(1) };
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(LINK).unwrap()));
    (0..sessions).for_each(|_| assert!(tree.add(ClassId::ROOT, config).is_ok()));
    let tree = tree.build().unwrap();
    let mut hfsc = Hfsc::new(&tree).unwrap().with_joins(joins);
    let mut now = Nanos::ZERO;
    let mut drops = |_: Nanos, packet: Packet, reason: DropReason| panic!("{packet:?}: {reason:?}");
    for session in 1..=sessions {
        for _ in 0..50 {
            hfsc.enqueue(now, Packet { handle: 0, len: 1_000, class: ClassId(session) }, &mut drops);
        }
        // Only real time is queried: the newcomer's first packet is the only one that is due.
        let Dequeued::Packet(packet) = hfsc.dequeue(now, &mut drops) else { panic!("packets are queued") };
        assert_eq!(packet.class, ClassId(session), "{joins:?}");
        now = now.saturating_add(Nanos(8_000));
    }
    let (least, most) = hfsc.virtual_times(ClassId::ROOT).unwrap();
    // A packet on the slope of the sharing curve, which is the session's share of the link.
    let step = (1_000 * BYTE) / (u128::from(hfsc_rate(&tree, ClassId(1))) << SLOPE_BITS);
    (most - least) / step.max(1)
}

#[test]
fn v_max_alone_makes_virtual_times_differ_by_the_number_of_sessions_and_the_mean_does_not() {
    for sessions in [8, 32, 128] {
        let [between, least, most] =
            [Joins::Between, Joins::Least, Joins::Most].map(|joins| apart_after_joining(sessions, joins));
        assert!(between <= 2, "{sessions}: {between}");
        // The text says the same of v_min: `reproduce hfsc.join` has the arrivals that show it; these do not.
        assert!(least <= 2, "{sessions}: {least}");
        assert!(most >= u128::from(sessions) * 9 / 10, "{sessions}: {most}");
    }
}

#[test]
fn steps_are_counted_and_a_packet_behind_others_takes_none() {
    let tree = tree(
        LINK,
        &[(0, guaranteed(6_000_000)), (1, reserved(2_000_000)), (1, reserved(4_000_000)), (0, reserved(2_000_000))],
    );
    let mut counted = Hfsc::<Counted>::working(&tree).unwrap();
    let mut plain = Hfsc::new(&tree).unwrap();
    let mut drops = |_: Nanos, _: Packet, _: DropReason| {};
    let mut enqueue = |counted: &mut Hfsc<Counted>, plain: &mut Hfsc, class: u32| {
        let packet = || Packet { handle: 0, len: 1_000, class: ClassId(class) };
        let before = counted.steps();
        counted.enqueue(Nanos::ZERO, packet(), &mut drops);
        plain.enqueue(Nanos::ZERO, packet(), &mut drops);
        counted.steps().since(before)
    };
    // The first of a class two levels below the root: both classes, and an entry for each and for the real-time request.
    let first = enqueue(&mut counted, &mut plain, 2);
    assert_eq!((first.classes, first.requests, first.entries() >= 3), (2, 1, true), "{first:?}");
    for _ in 0..20 {
        assert_eq!(enqueue(&mut counted, &mut plain, 2), Steps::default());
    }
    for class in [3, 4, 3, 4] {
        enqueue(&mut counted, &mut plain, class);
    }
    let mut drops = |_: Nanos, _: Packet, _: DropReason| {};
    for at in 0..25 {
        let before = counted.steps().classes;
        let sent = counted.dequeue(Nanos(at * MS), &mut drops);
        assert_eq!(sent, plain.dequeue(Nanos(at * MS), &mut drops));
        let Dequeued::Packet(packet) = sent else { panic!("{sent:?} at {at}") };
        assert_eq!(counted.steps().classes - before, if packet.class == ClassId(4) { 1 } else { 2 });
    }
    assert_eq!(plain.steps(), Steps::default());
}
