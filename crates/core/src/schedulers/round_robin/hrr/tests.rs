//! Hierarchical round robin against \[drrpp\] Section 2.4.2.

use super::*;
use crate::test_link::{L_MAX, NS_PER_BYTE, flat, invariants, never, weighted};
use alloc::vec::Vec;
use proptest::prelude::*;

const SLOT: u64 = L_MAX as u64 * NS_PER_BYTE;

fn hrr(weights: &[u64]) -> Hrr {
    Hrr::new(&flat(weights.iter().map(|&weight| weighted(weight)))).unwrap()
}

#[test]
fn a_class_is_in_the_topmost_list_that_serves_its_share_within_one_in_32() {
    let whole = 1u128 << 64;
    assert_eq!(slots(whole), (0, 64));
    assert_eq!(slots(whole / 2), (0, 32));
    assert_eq!(slots(whole / 2 - 1), (1, 255));
    assert_eq!(slots(whole / 1_000), (3, 32));
    assert_eq!(slots(1), (13, 1));
    for share in (0..64).map(|bits| whole >> bits).flat_map(|share| [share, share / 5 * 4]) {
        let (level, per_frame) = slots(share);
        let frame = u128::from(TOP * RATIO.pow(level.into()));
        assert!(u128::from(per_frame) * whole <= share * frame || per_frame == 1);
        assert!(level == 13 || u128::from(per_frame + 1) * whole > share * frame && per_frame >= FEWEST);
    }
}

/// Sends for `frames` frames of the topmost list with packets of `len` in all classes at all times; returns the packets
/// and their end times.
fn busy(hrr: &mut Hrr, classes: u32, frames: u64, lens: &[u32]) -> Vec<(u32, u64)> {
    let put = |hrr: &mut Hrr, class: u32, now: u64, number: usize| {
        let packet = Packet { handle: 0, len: lens[number % lens.len()], class: ClassId(class) };
        hrr.enqueue(Nanos(now), packet, &mut never);
    };
    (1..=classes).for_each(|class| (0..2).for_each(|packet| put(hrr, class, 0, packet)));
    let (mut now, mut sent) = (0, Vec::new());
    while now < frames * TOP * SLOT {
        match hrr.dequeue(Nanos(now), &mut never) {
            Dequeued::Packet(packet) => {
                now += u64::from(packet.len) * NS_PER_BYTE;
                put(hrr, packet.class.0, now, sent.len());
                sent.push((packet.class.0, now));
            }
            Dequeued::WaitUntil(Nanos(t)) => now = t,
            Dequeued::Idle => panic!("idle with packets"),
        }
        invariants(hrr).unwrap();
    }
    sent
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_class_sends_its_slots_in_each_frame_and_never_more(
        weights in prop::collection::vec(1u64..40, 1..8), lens in prop::collection::vec(prop_oneof![Just(L_MAX), 40u32..=L_MAX], 1..60)
    ) {
        let mut hrr = hrr(&weights);
        let sent = busy(&mut hrr, weights.len() as u32, 3 * RATIO * RATIO, &lens);
        for class in 1..=weights.len() as u32 {
            let Slots { per_frame, level, .. } = *hrr.flows.state(class);
            let frame = TOP * RATIO.pow(level.into()) * SLOT;
            // A packet counts in the frame that its time on the link begins in, or the one before if it ends a slot later at most.
            for number in 0..3 * RATIO * RATIO * TOP * SLOT / frame {
                let (from, to) = (number * frame, (number + 1) * frame);
                let of = |from, to| sent.iter().filter(|&&(of, end)| of == class && end > from && end <= to).count() as u64;
                prop_assert!(of(from, to + SLOT) >= per_frame, "class {class}, frame {number}: {} of {per_frame}", of(from, to + SLOT));
                prop_assert!(of(0, to) <= (number + 1) * per_frame, "class {class}, frame {number}: {}", of(0, to));
            }
        }
    }

    #[test]
    fn delay_is_within_two_frames_and_a_slot_whatever_the_others_do(
        weights in prop::collection::vec(1u64..40, 2..8), starts in prop::collection::vec(0u64..100_000_000, 1..10)
    ) {
        // Class 1 sends a single packet now and then; the others always have packets.
        let mut hrr = hrr(&weights);
        let slots = hrr.flows.state(1);
        let bound = 2 * TOP * RATIO.pow(slots.level.into()) * SLOT + SLOT;
        let mut starts = starts;
        starts.sort_unstable();
        (2..=weights.len() as u32).for_each(|class| {
            (0..2).for_each(|_| hrr.enqueue(Nanos::ZERO, Packet { handle: 0, len: L_MAX, class: ClassId(class) }, &mut never));
        });
        let (mut now, mut next, mut since) = (0, 0, None);
        while next < starts.len() || since.is_some() {
            while since.is_none() && next < starts.len() && starts[next] <= now {
                hrr.enqueue(Nanos(now), Packet { handle: 0, len: L_MAX, class: ClassId(1) }, &mut never);
                since = Some(now);
                next += 1;
            }
            match hrr.dequeue(Nanos(now), &mut never) {
                Dequeued::Packet(packet) if packet.class == ClassId(1) => {
                    now += SLOT;
                    let since = since.take().unwrap();
                    prop_assert!(now - since <= bound, "{} of {bound} ns", now - since);
                }
                Dequeued::Packet(packet) => {
                    now += SLOT;
                    hrr.enqueue(Nanos(now), Packet { handle: 0, ..packet }, &mut never);
                }
                Dequeued::WaitUntil(Nanos(t)) => now = t.min(starts.get(next).copied().unwrap_or(t)).max(now + 1),
                Dequeued::Idle => panic!("idle with packets"),
            }
        }
    }
}

#[test]
fn an_idle_link_does_not_let_a_class_send_more() {
    let mut hrr = hrr(&[1, 1]);
    (0..100).for_each(|_| hrr.enqueue(Nanos(5), Packet { handle: 0, len: 40, class: ClassId(1) }, &mut never));
    let mut burst =
        |now| (0..).take_while(|_| matches!(hrr.dequeue(Nanos(now), &mut never), Dequeued::Packet(_))).count();
    assert_eq!(burst(5), 32);
    assert_eq!(burst(TOP * SLOT - 1), 0);
    assert_eq!(burst(TOP * SLOT), 32);
    assert_eq!(burst(TOP * SLOT * 1_000), 32);
    assert_eq!(hrr.dequeue(Nanos(TOP * SLOT * 1_000), &mut never), Dequeued::WaitUntil(Nanos(TOP * SLOT * 1_001)));
}
