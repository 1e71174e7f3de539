//! Rate-controlled static priority against \[drrpp\] Section 2.3.5.

use super::*;
use crate::contract::ClassConfig;
use crate::test_link::{Arrival, L_MAX, NS_PER_BYTE, Served, flat, invariants, never, traffic, weighted};
use alloc::vec::Vec;
use proptest::prelude::*;

fn rcsp(classes: &[(u64, u8)], regulator: Regulator) -> Rcsp {
    let config = |&(weight, priority): &(u64, u8)| ClassConfig { priority: Some(priority), ..weighted(weight) };
    Rcsp::new(&flat(classes.iter().map(config)), regulator).unwrap()
}

/// Runs the link until everything has been sent; each packet comes with how early it is.
fn run(rcsp: &mut Rcsp, arrivals: &[(Arrival, u64)]) -> Vec<Served> {
    let (mut served, mut next, mut now) = (Vec::new(), 0, 0);
    loop {
        while let Some(&(Arrival { at, class, len }, early)) =
            arrivals.get(next).filter(|(arrival, _)| arrival.at <= now)
        {
            rcsp.enqueue_early(
                Nanos(at),
                Packet { handle: next as u64, len, class: ClassId(class) },
                Nanos(early),
                &mut never,
            );
            next += 1;
        }
        invariants(rcsp).unwrap();
        let coming = arrivals.get(next).map(|(arrival, _)| arrival.at);
        match rcsp.dequeue(Nanos(now), &mut never) {
            Dequeued::Packet(packet) => {
                let Arrival { at: arrival, class, len } = arrivals[packet.handle as usize].0;
                let end = now + u64::from(len) * NS_PER_BYTE;
                served.push(Served { class, len, arrival, start: now, end });
                now = end;
            }
            Dequeued::WaitUntil(Nanos(t)) => now = coming.map_or(t, |at| t.min(at)),
            Dequeued::Idle => match coming {
                Some(at) => now = at,
                None => return served,
            },
        }
    }
}

fn on_time(arrivals: &[Arrival]) -> Vec<(Arrival, u64)> {
    arrivals.iter().map(|&arrival| (arrival, 0)).collect()
}

#[test]
fn a_burst_is_spaced_by_the_rate_also_on_an_idle_link() {
    // A quarter of the link: 1000 bytes take 32 us at that rate, and 8 us on the link.
    let burst: Vec<_> = (0..4).map(|k| Arrival { at: 0, class: 1, len: 1_000 - k }).collect();
    let served = run(&mut rcsp(&[(1, 0), (3, 0)], Regulator::RateJitter), &on_time(&burst));
    let starts: Vec<u64> = served.iter().map(|packet| packet.start).collect();
    assert_eq!(starts, [0, 32_000, 32_000 + 31_968, 32_000 + 31_968 + 31_936]);
}

#[test]
fn eligible_packets_leave_by_priority_and_then_in_the_order_in_which_they_became_eligible() {
    let mut rcsp = rcsp(&[(1, 2), (1, 0), (1, 1), (1, 1)], Regulator::DelayJitter);
    let packets = [(1, 0), (4, 30), (3, 20), (2, 40), (3, 50)];
    for (class, early) in packets {
        rcsp.enqueue_early(
            Nanos(100),
            Packet { handle: early, len: 10, class: ClassId(class) },
            Nanos(early),
            &mut never,
        );
    }
    assert_eq!(rcsp.dequeue(Nanos(99), &mut never), Dequeued::Packet(Packet { handle: 0, len: 10, class: ClassId(1) }));
    assert_eq!(rcsp.dequeue(Nanos(119), &mut never), Dequeued::WaitUntil(Nanos(120)));
    let order: Vec<u64> = core::iter::from_fn(|| match rcsp.dequeue(Nanos(150), &mut never) {
        Dequeued::Packet(packet) => Some(packet.handle),
        _ => None,
    })
    .collect();
    assert_eq!(order, [40, 20, 30, 50]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn waiting_never_exceeds_the_bound_of_static_priority_behind_regulators(
        (arrivals, classes) in prop::collection::vec((1u64..=9, 0u8..4), 1..7)
            .prop_flat_map(|classes| (traffic(classes.len() as u32, 250), Just(classes)))
    ) {
        let served = run(&mut rcsp(&classes, Regulator::RateJitter), &on_time(&arrivals));
        prop_assert_eq!(served.len(), arrivals.len());
        let all: u64 = classes.iter().map(|class| class.0).sum();
        for (index, &(weight, priority)) in classes.iter().enumerate() {
            // In units of ns / weight, as a regulator of rational numbers has it.
            let mut earliest = 0u128;
            let before: u64 = classes.iter().filter(|class| class.1 < priority).map(|class| class.0).sum();
            let up_to = classes.iter().filter(|class| class.1 <= priority).count() as u64;
            // (up_to + 1) L_max / (r - sum of rho before): a priority with classes leaves something of the link.
            let bound = u128::from((up_to + 1) * u64::from(L_MAX) * NS_PER_BYTE * all).div_ceil(u128::from(all - before));
            for packet in served.iter().filter(|packet| packet.class as usize == index + 1) {
                let eligible = earliest.max(u128::from(packet.arrival) * u128::from(weight));
                let start = u128::from(packet.start) * u128::from(weight);
                prop_assert!(start >= eligible, "{packet:?} is eligible at {eligible} / {weight}");
                let waited = (u128::from(packet.end) * u128::from(weight) - eligible).div_ceil(u128::from(weight));
                prop_assert!(waited <= bound + 2, "{packet:?} waited for {waited} of {bound} ns");
                earliest = eligible + u128::from(packet.len) * u128::from(NS_PER_BYTE * all);
            }
        }
    }

    #[test]
    fn a_delay_jitter_regulator_restores_the_pattern_in_which_packets_arrived(
        arrivals in traffic(4, 200), rival in traffic(4, 200), bound in 2_000_000u64..5_000_000, link in 0u64..1_000_000
    ) {
        // Two switches with other traffic in each; class 1 is followed. A packet that left the first with time to spare of its
        // bound is held that long by the second, so that all are eligible there the same time after they arrived at the first.
        let first = run(&mut rcsp(&[(1, 1); 4], Regulator::DelayJitter), &on_time(&arrivals));
        let mut second: Vec<_> = first
            .iter()
            .filter(|packet| packet.class == 1 && packet.end - packet.arrival <= bound)
            .map(|packet| (Arrival { at: packet.end + link, class: 1, len: packet.len }, bound - (packet.end - packet.arrival)))
            .collect();
        prop_assume!(!second.is_empty());
        second.extend(rival.iter().filter(|arrival| arrival.class > 1).map(|&arrival| (arrival, 0)));
        second.sort_by_key(|(arrival, _)| arrival.at);
        let mut rcsp = rcsp(&[(1, 0), (1, 1), (1, 1), (1, 1)], Regulator::DelayJitter);
        let served = run(&mut rcsp, &second);
        let followed = first.iter().filter(|packet| packet.class == 1 && packet.end - packet.arrival <= bound);
        for (before, after) in followed.zip(served.iter().filter(|packet| packet.class == 1)) {
            let eligible = before.arrival + bound + link;
            prop_assert!(after.start >= eligible, "{before:?} is sent {} ns too early", eligible - after.start);
            // It is first in priority: a packet in transmission, and those of its own that were eligible with it.
            let own: u64 = served
                .iter()
                .filter(|packet| packet.class == 1 && packet.end <= after.start && packet.start + 2_000_000 >= eligible)
                .map(|packet| u64::from(packet.len))
                .sum();
            prop_assert!(after.start <= eligible + (u64::from(L_MAX) + own) * NS_PER_BYTE, "{after:?}, eligible at {eligible}");
        }
    }
}
