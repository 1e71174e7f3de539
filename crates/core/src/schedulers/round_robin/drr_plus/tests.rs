//! DRR+ against \[drrpp\] Section 2.5.4.

use super::*;
use crate::contract::ClassConfig;
use crate::schedulers::drr::Drr;
use crate::test_link::{Arrival, L_MAX, NS_PER_BYTE, flat, never, run, traffic, weighted};
use alloc::vec::Vec;
use proptest::prelude::*;

fn contract(bytes: u64, every: u64) -> ClassConfig {
    ClassConfig { contract: Some(Contract { bytes, every: Nanos(every) }), latency_critical: true, ..weighted(1) }
}

fn put(drr: &mut DrrPlus, at: u64, class: u32, len: u32) {
    drr.enqueue(Nanos(at), Packet { handle: 0, len, class: ClassId(class) }, &mut never);
    drr.check_invariants().unwrap();
}

fn take(drr: &mut DrrPlus) -> Option<(u32, u32)> {
    match drr.dequeue(Nanos::ZERO, &mut never) {
        Dequeued::Packet(packet) => Some((packet.class.0, packet.len)),
        Dequeued::Idle => None,
        Dequeued::WaitUntil(_) => panic!("drr+ never waits"),
    }
}

#[test]
fn the_packet_that_exceeds_the_contract_before_the_timer_expires_demotes_for_good() {
    let mut drr = DrrPlus::new(&flat([contract(1_000, 1_000), weighted(1)])).unwrap();
    for (at, len, keeps) in
        [(5, 600, true), (1_004, 400, true), (1_005, 1_000, true), (2_004, 0, true), (2_004, 1, false)]
    {
        put(&mut drr, at, 1, len);
        assert_eq!(drr.is_critical(ClassId(1)), keeps, "{len} B at {at}");
    }
    put(&mut drr, 1 << 60, 1, 1);
    assert!(!drr.is_critical(ClassId(1)), "no way back");
    drr.purge(Nanos::ZERO, &mut |_, _, _| {});
    assert!(drr.is_critical(ClassId(1)), "as if just made");
}

#[test]
fn a_class_that_breaks_its_contract_takes_its_packets_along_and_goes_last() {
    let mut drr = DrrPlus::new(&flat([contract(3_000, 1_000_000), contract(9_000, 1), weighted(1)])).unwrap();
    for class in [1, 2, 3, 1] {
        put(&mut drr, 0, class, 700);
    }
    assert_eq!(take(&mut drr), Some((1, 700)));
    // In the middle of its visit, with credit for another packet.
    put(&mut drr, 0, 1, 1_500);
    put(&mut drr, 0, 1, 101);
    let order: Vec<_> = core::iter::from_fn(|| take(&mut drr)).collect();
    assert_eq!(order, [(2, 700), (3, 700), (1, 700), (1, 1_500), (1, 101)]);
}

#[test]
fn without_a_contract_a_latency_critical_class_may_send_its_quantum_per_round() {
    let critical = |quantum| ClassConfig { latency_critical: true, quantum: Some(quantum), ..weighted(1) };
    let of = |own, other| {
        let tree = flat([critical(own), ClassConfig { latency_critical: false, ..critical(other) }]);
        contracts(&tree, &drr::flows(&tree).unwrap()).unwrap()
    };
    let every = |bytes: u64| Nanos(bytes * NS_PER_BYTE);
    assert_eq!(*of(2_000, 6_000), [None, Some(Contract { bytes: 2_000, every: every(8_000) }), None]);
    assert_eq!(*of(500, 1_000), [None, Some(Contract { bytes: 1_500, every: every(4_500) }), None]);
}

#[test]
fn a_contract_of_no_bytes_or_no_time_is_refused() {
    for (bytes, every) in [(0, 5), (5, 0)] {
        let refused = DrrPlus::new(&flat([weighted(1), contract(bytes, every)])).unwrap_err();
        assert!(matches!(refused, BuildError::Parameter { class: ClassId(2), value: 0, min: 1, .. }), "{refused}");
    }
}

proptest! {
    #[test]
    fn a_class_that_keeps_its_contract_waits_for_one_best_effort_packet_at_most(
        arrivals in traffic(5, 200), quanta in prop::collection::vec(100u32..4_000, 5)
    ) {
        let config = |(class, &quantum): (usize, &u32)| ClassConfig {
            quantum: Some(quantum),
            ..if class < 2 { contract(u64::MAX, 1_000_000) } else { weighted(1) }
        };
        let mut drr = DrrPlus::new(&flat(quanta.iter().enumerate().map(config))).unwrap();
        let served = run(&mut drr, &arrivals);
        for critical in served.iter().filter(|packet| packet.class <= 2) {
            let waited = |other: &&_| {
                let crate::test_link::Served { class, start, .. } = **other;
                class > 2 && start >= critical.arrival && start < critical.start
            };
            prop_assert_eq!(served.iter().find(waited), None, "sent before {:?}", critical);
        }
    }

    #[test]
    fn a_class_that_broke_its_contract_is_served_as_by_drr(
        rest in traffic(5, 200), quanta in prop::collection::vec(100u32..4_000, 5)
    ) {
        let configs = |broken: ClassConfig| {
            let mut configs: Vec<_> = quanta.iter().map(|&quantum| ClassConfig { quantum: Some(quantum), ..weighted(1) }).collect();
            configs[0] = ClassConfig { quantum: configs[0].quantum, ..broken };
            configs[1] = ClassConfig { quantum: configs[1].quantum, ..broken };
            flat(configs)
        };
        let first = [1, 2].map(|class| Arrival { at: 0, class, len: L_MAX });
        let arrivals: Vec<_> = first.into_iter().chain(rest).collect();
        let mut drr_plus = DrrPlus::new(&configs(contract(1, 1))).unwrap();
        let expected = run(&mut Drr::new(&configs(weighted(1))).unwrap(), &arrivals);
        prop_assert_eq!(run(&mut drr_plus, &arrivals), expected);
        prop_assert!(!drr_plus.is_critical(ClassId(1)) && !drr_plus.is_critical(ClassId(2)));
    }
}
