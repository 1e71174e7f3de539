//! DRR+ against \[drrpp\] Section 2.5.4.

use super::*;
use crate::contract::ClassConfig;
use crate::schedulers::drr::Drr;
use crate::test_link::{Arrival, L_MAX, NS_PER_BYTE, flat, invariants, never, run, traffic, weighted};
use alloc::vec::Vec;
use proptest::prelude::*;

fn contract(bytes: u64, every: u64) -> ClassConfig {
    ClassConfig { contract: Some(Contract { bytes, every: Nanos(every) }), latency_critical: true, ..weighted(1) }
}

fn put(drr: &mut DrrPlus, at: u64, class: u32, len: u32) {
    drr.enqueue(Nanos(at), Packet { handle: 0, len, class: ClassId(class) }, &mut never);
    invariants(drr).unwrap();
}

fn take(drr: &mut DrrPlus) -> Option<(u32, u32)> {
    match drr.dequeue(Nanos::ZERO, &mut never) {
        Dequeued::Packet(packet) => Some((packet.class.0, packet.len)),
        Dequeued::Idle => None,
        Dequeued::WaitUntil(_) => panic!("drr+ never waits"),
    }
}

#[test]
fn the_packet_that_exceeds_the_contract_in_any_interval_demotes_for_good() {
    let mut drr = DrrPlus::new(&flat([contract(1_000, 1_000), weighted(1)])).unwrap();
    // At 1,005 the 600 bytes of 5 are a thousand ns old. From 1,004 to 2,003 there are 1,000 bytes and one.
    for (at, len, keeps) in
        [(5, 600, true), (900, 400, true), (1_005, 600, true), (1_999, 400, true), (2_004, 0, true), (2_004, 1, false)]
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
fn a_burst_across_the_end_of_a_timer_breaks_the_contract() {
    // A timer of 1,000 ns that the first byte starts would expire between the two halves of the burst.
    let mut drr = DrrPlus::new(&flat([contract(1_000, 1_000), weighted(1)])).unwrap();
    for (at, len, keeps) in [(0, 1, true), (990, 999, true), (1_010, 2, false)] {
        put(&mut drr, at, 1, len);
        assert_eq!(drr.is_critical(ClassId(1)), keeps, "{len} B at {at}");
    }
}

proptest! {
    #[test]
    fn who_keeps_the_contract_in_every_interval_is_never_demoted_and_who_breaks_it_by_a_slot_always_is(
        gaps in prop::collection::vec(prop_oneof![0u64..5, 0u64..300, 0u64..3_000], 1..120),
        lens in prop::collection::vec(1u32..400, 120),
        (bytes, every) in (1u64..3_000, 1u64..3_000),
    ) {
        let mut drr = DrrPlus::new(&flat([contract(bytes, every), weighted(1)])).unwrap();
        let (mut at, mut arrivals) = (0, Vec::new());
        for (&gap, &len) in gaps.iter().zip(&lens) {
            at += gap;
            arrivals.push((at, u64::from(len)));
            put(&mut drr, at, 1, len);
            let within = |span: u64| {
                let since = |&(from, _): &(u64, u64)| arrivals.iter().filter(move |then| then.0 >= from && then.0 - from < span);
                arrivals.iter().map(|first| since(first).map(|then| then.1).sum::<u64>()).max().unwrap()
            };
            if within(every) <= bytes {
                prop_assert!(drr.is_critical(ClassId(1)), "keeps it at {at}");
            }
            if within(every - every.div_ceil(SLOTS as u64)) > bytes {
                prop_assert!(!drr.is_critical(ClassId(1)), "breaks it at {at}");
            }
        }
    }
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
        {
            let quanta = drr::quanta(&tree).unwrap();
            contracts(&tree, |leaf| quanta[leaf.index()]).unwrap()
        }
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
