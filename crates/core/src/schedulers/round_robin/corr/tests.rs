//! Carry-over round robin against \[drrpp\] Section 2.4.3.

use super::*;
use crate::test_link::{L_MAX, flat, invariants, never, order, weighted};
use alloc::vec::Vec;
use proptest::prelude::*;

fn corr(weights: &[u64]) -> Corr {
    Corr::new(&flat(weights.iter().map(|&weight| weighted(weight)))).unwrap()
}

fn put(corr: &mut Corr, class: u32) {
    corr.enqueue(Nanos::ZERO, Packet { handle: 0, len: L_MAX, class: ClassId(class) }, &mut never);
}

fn take(corr: &mut Corr) -> Option<u32> {
    let dequeued = corr.dequeue(Nanos::ZERO, &mut never);
    invariants(corr).unwrap();
    match dequeued {
        Dequeued::Packet(packet) => Some(packet.class.0),
        _ => None,
    }
}

#[test]
fn fractions_are_carried_over_from_cycle_to_cycle() {
    // Of cycles of 2 slots, 1.5 and 0.5: the first class has a whole one, and each in turn has the other.
    let packets: Vec<_> = (0..12).flat_map(|_| [(1, 100), (2, 100)]).collect();
    let sent = order(&mut corr(&[3, 1]), &packets);
    assert_eq!(sent[..12], [[1, 1, 1, 2], [1, 1, 1, 2], [1, 1, 1, 2]].concat());
    // 1.5, 0.9 and 0.6 of 3 slots: the rest of the major cycle goes to the largest fraction.
    let packets: Vec<_> = (0..20).flat_map(|_| [(1, 100), (2, 100), (3, 100)]).collect();
    let sent = order(&mut corr(&[5, 3, 2]), &packets);
    assert_eq!(sent[..12], [[1, 2, 3], [1, 1, 2], [1, 3, 2], [1, 1, 2]].concat());
}

#[test]
fn a_debt_is_paid_while_the_class_is_idle() {
    // Of cycles of 2 slots, 0.2 and 1.8: the first class has to wait for five cycles after each packet.
    let mut corr = corr(&[1, 9]);
    put(&mut corr, 1);
    assert_eq!(take(&mut corr), Some(1));
    let debt = corr.flows.state(1).credit;
    assert!(debt < -SLOT * 7 / 10, "{debt}");
    for _ in 0..4 {
        // Each packet has been sent before the next one comes.
        put(&mut corr, 2);
        assert_eq!((take(&mut corr), take(&mut corr)), (Some(2), None));
    }
    let cycles = corr.cycle as i64 - 1;
    put(&mut corr, 1);
    // Only a rounding of 2^-32 slot is left of it.
    assert_eq!((cycles, corr.flows.state(1).credit), (4, -1));
}

proptest! {
    #[test]
    fn over_k_cycles_a_class_sends_k_times_its_rate_within_a_slot(
        weights in prop::collection::vec(prop_oneof![1u64..9, 1u64..1_000_000], 1..9),
        guests in prop::collection::vec(any::<prop::sample::Index>(), 500),
    ) {
        // Every second class has packets all the time; the others come and go.
        let mut corr = corr(&weights);
        let classes = weights.len() as u32;
        let busy = |class: u32| class % 2 == 1;
        (1..=classes).filter(|&class| busy(class)).for_each(|class| (0..2).for_each(|_| put(&mut corr, class)));
        let mut sent = alloc::vec![0i128; weights.len() + 1];
        for guest in guests {
            let guest = 1 + guest.index(weights.len()) as u32;
            if corr.class_backlog(ClassId(guest)).packets == 0 {
                put(&mut corr, guest);
            }
            let class = take(&mut corr).unwrap();
            sent[class as usize] += 1;
            if busy(class) {
                put(&mut corr, class);
            }
            // Within a cycle the slots of this cycle are to come.
            for class in (1..=classes).filter(|&class| busy(class)) {
                let Slots { rate, credit, .. } = *corr.flows.state(class);
                let (sent, rate) = (sent[class as usize] << FRACTION_BITS, i128::from(rate));
                prop_assert_eq!(sent + i128::from(credit), rate * i128::from(corr.cycle));
                let visited = corr.due == 0;
                prop_assert!(credit > -SLOT && (!visited || credit < SLOT), "{credit} of class {class}");
            }
        }
    }

    #[test]
    fn a_class_that_comes_with_single_packets_gets_its_rate_and_not_a_slot_per_cycle(
        weights in prop::collection::vec(2u64..9, 2..6), own in 1u64..1_000
    ) {
        // The class of the smallest share has a new packet whenever it has none; the others are always backlogged.
        let weights: Vec<u64> = core::iter::once(own).chain(weights.iter().map(|weight| weight * 1_000)).collect();
        let mut corr = corr(&weights);
        (2..=weights.len() as u32).for_each(|class| (0..2).for_each(|_| put(&mut corr, class)));
        let mut sent = 0;
        for _ in 0..2_000 {
            if corr.class_backlog(ClassId(1)).packets == 0 {
                put(&mut corr, 1);
            }
            let class = take(&mut corr).unwrap();
            if class > 1 {
                put(&mut corr, class);
            } else {
                sent += 1;
            }
        }
        let share = corr.flows.state(1).rate as u128 * u128::from(corr.cycle);
        prop_assert!(sent <= (share >> FRACTION_BITS) + 1, "{sent} of {}", share >> FRACTION_BITS);
    }

    #[test]
    fn in_the_long_run_packets_are_shared_exactly(weights in prop::collection::vec(1u64..20, 2..8)) {
        // After as many cycles as the sum of the weights, no class is owed anything.
        let mut corr = corr(&weights);
        (1..=weights.len() as u32).for_each(|class| (0..2).for_each(|_| put(&mut corr, class)));
        let all: u64 = weights.iter().sum();
        let mut sent = alloc::vec![0; weights.len()];
        for _ in 0..all * weights.len() as u64 {
            let class = take(&mut corr).unwrap();
            put(&mut corr, class);
            sent[class as usize - 1] += 1;
        }
        for (&weight, &sent) in weights.iter().zip(&sent) {
            let due = weight * weights.len() as u64;
            prop_assert!(due.abs_diff(sent) <= 1, "{sent} of {due}");
        }
    }
}
