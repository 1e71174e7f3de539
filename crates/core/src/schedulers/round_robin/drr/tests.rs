//! DRR against its paper: the order of its packets, and its bounds.

use super::*;
use crate::contract::{ClassConfig, DropReason, LinkConfig, NANOS_PER_SEC, Rate, Share};
use crate::test_link::{Arrival, Served, Wire, invariants, newcomer, run, traffic};
use alloc::collections::VecDeque;
use proptest::prelude::*;

const L_MAX: u32 = 1500;

fn flat(rate: u64, configs: impl IntoIterator<Item = ClassConfig>) -> Hierarchy {
    let link = LinkConfig { max_packet: L_MAX, ..LinkConfig::new(Rate::from_bps(rate).unwrap()) };
    let mut tree = Hierarchy::builder(link);
    for config in configs {
        tree.add(ClassId::ROOT, config).unwrap();
    }
    tree.build().unwrap()
}

fn weighted(weight: u64) -> ClassConfig {
    ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() }
}

fn quantum(quantum: u32) -> ClassConfig {
    ClassConfig { quantum: Some(quantum), ..ClassConfig::default() }
}

fn never(_: Nanos, packet: Packet, reason: DropReason) {
    panic!("{packet:?} dropped: {reason:?}");
}

fn put(drr: &mut Drr, class: usize, len: u32) {
    drr.enqueue(Nanos::ZERO, Packet { handle: 0, len, class: ClassId(class as u32) }, &mut never);
}

fn take(drr: &mut Drr) -> Option<(usize, u32)> {
    let got = match drr.dequeue(Nanos::ZERO, &mut never) {
        Dequeued::Packet(packet) => Some((packet.class.index(), packet.len)),
        Dequeued::Idle => None,
        Dequeued::WaitUntil(_) => panic!("drr never waits"),
    };
    invariants(drr).unwrap();
    got
}

#[test]
fn quanta_follow_the_shares_with_the_smallest_a_largest_packet() {
    let tree = flat(NANOS_PER_SEC, [weighted(3), weighted(2), weighted(5)]);
    let bytes: Vec<u64> = quanta(&tree).unwrap().iter().map(|quantum| quantum >> FRACTION_BITS).collect();
    assert_eq!(bytes, [0, 2250, 1500, 3750]);
}

#[test]
fn quanta_that_are_not_set_follow_the_first_that_is() {
    let with = |weight, quantum| ClassConfig { quantum, ..weighted(weight) };
    let tree = flat(NANOS_PER_SEC, [with(4, None), with(2, Some(100)), with(1, Some(7)), with(1, None)]);
    let bytes: Vec<u64> = quanta(&tree).unwrap().iter().map(|quantum| quantum >> FRACTION_BITS).collect();
    assert_eq!(bytes, [0, 200, 100, 7, 50]);
}

#[test]
fn a_quantum_of_zero_or_beyond_32_bits_is_refused() {
    let tree = flat(NANOS_PER_SEC, [quantum(1), quantum(0)]);
    let zero = BuildError::Parameter { class: ClassId(2), what: "quantum", value: 0, min: 1, max: u32::MAX.into() };
    assert_eq!(Drr::new(&tree).unwrap_err(), zero);
    let set = ClassConfig { quantum: Some(u32::MAX), ..weighted(1) };
    let tree = flat(NANOS_PER_SEC, [set, weighted(1)]);
    assert!(Drr::new(&tree).is_ok());
    let tree = flat(NANOS_PER_SEC, [set, weighted(2)]);
    assert!(matches!(Drr::new(&tree), Err(BuildError::Parameter { class: ClassId(2), value: 8_589_934_590, .. })));
    let set = ClassConfig { quantum: Some(1), ..weighted(1_000_000) };
    assert!(matches!(
        Drr::new(&flat(NANOS_PER_SEC, [set, weighted(1)])),
        Err(BuildError::Parameter { class: ClassId(2), value: 0, .. })
    ));
}

#[test]
fn one_part_in_a_billion_gets_its_share_and_rounds_last_a_second() {
    let tree = flat(NANOS_PER_SEC, [weighted(1_000_000_000), weighted(1)]);
    let quanta = quanta(&tree).unwrap();
    let round = (quanta[1] + quanta[2]) >> FRACTION_BITS;
    assert!(round <= 125_000_000 + 2 * 1500, "{round}");
    let ratio = quanta[1] / quanta[2];
    assert!(ratio.abs_diff(1_000_000_000) < 1_000_000_000 / 1_000, "{ratio}");
}

#[test]
fn a_class_that_comes_back_while_another_is_served_starts_without_credit() {
    let mut drr = Drr::new(&flat(NANOS_PER_SEC, [quantum(1000), quantum(1500)])).unwrap();
    put(&mut drr, 1, 600);
    put(&mut drr, 1, 600);
    put(&mut drr, 2, 100);
    assert_eq!(take(&mut drr), Some((1, 600)));
    assert_eq!(take(&mut drr), Some((2, 100)));
    assert_eq!(take(&mut drr), Some((1, 600)), "400 of credit and another 1000");
    [100, 1200, 1500].iter().for_each(|&len| put(&mut drr, 2, len));
    assert_eq!(take(&mut drr), Some((2, 100)));
    put(&mut drr, 1, 1200);
    assert_eq!(take(&mut drr), Some((2, 1200)));
    assert_eq!(take(&mut drr), Some((2, 1500)), "the credit of 800 was forgotten, 1000 do not cover 1200");
    assert_eq!(take(&mut drr), Some((1, 1200)));
    assert_eq!(take(&mut drr), None);
}

/// The pseudo-code of \[drr\], in bytes.
fn paper(quanta: &[u32], arrivals: &[Arrival]) -> Vec<Served> {
    let mut wire = Wire::new(quanta.len(), arrivals);
    let (mut active, mut deficits) = (VecDeque::new(), alloc::vec![0u64; quanta.len() + 1]);
    let mut visited = None;
    loop {
        while let Some((class, was_empty)) = wire.take_in() {
            if was_empty && visited != Some(class) {
                active.push_back(class);
            }
        }
        let Some(class) = visited.or_else(|| active.pop_front()) else { if wire.wait() { continue } else { break } };
        if visited.is_none() {
            deficits[class] += u64::from(quanta[class - 1]);
        }
        match wire.head(class) {
            Some(len) if len <= deficits[class] => {
                deficits[class] -= len;
                wire.send(class);
                visited = Some(class);
                continue;
            }
            Some(_) => active.push_back(class),
            None => deficits[class] = 0,
        }
        visited = None;
    }
    wire.into_served()
}

#[test]
fn a_newcomer_does_not_wait_for_another_quantum_of_the_class_that_was_sending() {
    let mut drr = Drr::new(&crate::test_link::flat([quantum(1500), quantum(1500)])).unwrap();
    let order: Vec<u32> = run(&mut drr, &newcomer()).iter().map(|packet| packet.class).collect();
    assert_eq!(order, [1, 2, 1, 2, 1]);
}

#[test]
fn a_packet_that_comes_while_the_last_of_its_class_is_sent_belongs_to_that_visit() {
    let mut drr = Drr::new(&crate::test_link::flat([quantum(1500), quantum(1500)])).unwrap();
    let packet = |class, at, len| Arrival { at, class, len };
    let arrivals = [packet(1, 0, 1000), packet(2, 1, 1500), packet(1, 2, 500), packet(1, 3, 1)];
    let order: Vec<_> = run(&mut drr, &arrivals).iter().map(|packet| (packet.class, packet.len)).collect();
    assert_eq!(order, [(1, 1000), (1, 500), (2, 1500), (1, 1)]);
}

fn some_quantum() -> impl Strategy<Value = u32> {
    prop_oneof![1u32..50, 50u32..1500, 1500u32..6000, Just(u32::MAX)]
}

proptest! {
    #[test]
    fn packets_leave_in_the_order_of_the_papers_algorithm(
        (sizes, arrivals) in prop::collection::vec(some_quantum(), 1..8)
            .prop_flat_map(|sizes| (Just(sizes.clone()), traffic(sizes.len() as u32, 300)))
    ) {
        let mut drr = Drr::new(&crate::test_link::flat(sizes.iter().map(|&size| quantum(size)))).unwrap();
        prop_assert_eq!(run(&mut drr, &arrivals), paper(&sizes, &arrivals));
    }

    #[test]
    fn over_m_visits_a_class_sends_m_quanta_within_a_packet_and_pairs_stay_fair(
        sizes in proptest::collection::vec(prop_oneof![1u32..1500, 1500u32..9000], 2..7),
        lens in proptest::collection::vec(1u32..=L_MAX, 400),
        busy in proptest::collection::vec(any::<bool>(), 400),
    ) {
        let mut drr = Drr::new(&flat(NANOS_PER_SEC, sizes.iter().map(|&size| quantum(size)))).unwrap();
        // Classes 1 and 2 stay backlogged; the others come and go.
        for class in (1..=sizes.len()).chain([1, 2]) {
            put(&mut drr, class, L_MAX);
        }
        let mut sent = [0i128; 3];
        let mut unfairness = (0i128, 0i128);
        let q = |class: usize| i128::from(drr.flows.state(class as u32).quantum);
        let (q1, q2) = (q(1), q(2));
        for (&len, &busy) in lens.iter().zip(&busy) {
            let (class, bytes) = take(&mut drr).unwrap();
            if class <= 2 {
                sent[class] += i128::from(bytes);
                put(&mut drr, class, len);
            }
            if busy && sizes.len() > 2 {
                put(&mut drr, 3 + len as usize % (sizes.len() - 2), len);
            }
            let mut visits = [0; 3];
            for class in [1, 2] {
                let Deficit { quantum, credit } = *drr.flows.state(class as u32);
                let credited = ((sent[class] as u64) << FRACTION_BITS) + credit;
                prop_assert_eq!(credited % quantum, 0);
                visits[class] = (credited / quantum) as i64;
                let visited = drr.turns.visited() == Some(class as u32);
                prop_assert!(visited || credit < u64::from(L_MAX) << FRACTION_BITS);
            }
            prop_assert!((visits[1] - visits[2]).abs() <= 1, "{} and {} visits", visits[1], visits[2]);
            let ahead = sent[1] * q2 - sent[2] * q1;
            unfairness = (unfairness.0.min(ahead), unfairness.1.max(ahead));
        }
        // |sent_1 / f_1 - sent_2 / f_2| <= 2 L_max + Q_min over every interval, with f_i = Q_i / Q_min.
        let q_min = q1.min(q2);
        let bound = (2 * (i128::from(L_MAX) << FRACTION_BITS) + q_min) * q1 * q2;
        prop_assert!(((unfairness.1 - unfairness.0) * q_min) << FRACTION_BITS <= bound);
    }

    #[test]
    fn service_never_lags_its_rate_by_more_than_the_latency_of_drr(
        sizes in proptest::collection::vec(L_MAX..9000, 1..7),
        lens in proptest::collection::vec(1u32..=L_MAX, 500),
        start in 0usize..50,
    ) {
        // W >= (Q_1 / F) (B - (3 F - 2 Q_1)) once the link has sent B bytes since class 1 became backlogged: a latency
        // of (3 F - 2 phi) / r at the rate r Q_1 / F. W counts bits as they are sent, so that it lags most when a
        // packet of the class starts.
        let mut drr = Drr::new(&flat(NANOS_PER_SEC, sizes.iter().map(|&size| quantum(size)))).unwrap();
        let round: i128 = sizes.iter().map(|&size| i128::from(size)).sum();
        let own = i128::from(sizes[0]);
        for class in (2..=sizes.len()).chain(2..=sizes.len()) {
            put(&mut drr, class, L_MAX);
        }
        let (mut all, mut served, mut last) = (0, 0, 0);
        for (step, &len) in lens.iter().enumerate() {
            if step == start {
                put(&mut drr, 1, len);
                put(&mut drr, 1, len);
                // The packet that the link is sending when class 1 arrives has yet to end.
                all = last;
            }
            let Some((class, bytes)) = take(&mut drr) else { continue };
            last = i128::from(bytes);
            put(&mut drr, class, len);
            all += i128::from(bytes);
            if step >= start && class != 1 {
                prop_assert!(served * round >= own * (all - (3 * round - 2 * own)), "{served} of {all}");
            }
            served += if class == 1 { i128::from(bytes) } else { 0 };
        }
    }

    #[test]
    fn a_round_is_a_packet_per_leaf_and_a_second_of_the_link_at_most(
        weights in proptest::collection::vec((0u32..=9).prop_map(|digits| 10u64.pow(digits)), 1..50),
        rate in (0u32..=12).prop_map(|digits| 10u64.pow(digits)),
    ) {
        let tree = flat(rate, weights.iter().map(|&weight| weighted(weight)));
        let quanta = quanta(&tree).unwrap();
        let round: u64 = quanta.iter().sum::<u64>() >> FRACTION_BITS;
        prop_assert!(round <= weights.len() as u64 * u64::from(L_MAX) + rate / 8 + 1);
        let smallest = quanta[1..].iter().min().unwrap() >> FRACTION_BITS;
        let least = *weights.iter().min().unwrap();
        let parts = weights.iter().sum::<u64>() / least;
        prop_assert!(smallest >= u64::from(L_MAX) - 1 || parts * u64::from(L_MAX) > rate / 8, "{smallest} B");
    }
}
