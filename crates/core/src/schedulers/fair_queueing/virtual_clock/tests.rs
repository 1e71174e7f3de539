//! Virtual Clock against \[drrpp\] Section 2.3.2.

use super::*;
use crate::contract::{ClassConfig, DropReason, Share};
use crate::parts::curve::tests::{Arrival, curve, rate, run, some_arrivals, tree, worst_breach};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Link on which a byte takes 1000 ns.
const LINK: u64 = 8_000_000;

fn guaranteed(bps: u64) -> (u32, ClassConfig) {
    (0, ClassConfig { share: Some(Share::Guarantee(rate(bps))), ..ClassConfig::default() })
}

fn clock(rates: &[u64]) -> VirtualClock {
    let classes: Vec<_> = rates.iter().map(|&bps| guaranteed(bps)).collect();
    VirtualClock::new(&tree(LINK, &classes)).unwrap()
}

/// A packet of 1000 bytes takes this long on the link: the second of Figure 2.1.
const SLOT: u64 = 1_000_000;

#[test]
fn figure_2_1_packet_901_waits_for_450_packets_of_the_other_connection() {
    let mut arrivals: Vec<Arrival> = (0..900).map(|slot| (slot * SLOT, 1, 1_000)).collect();
    arrivals.push((901 * SLOT, 1, 1_000));
    // DIFFERENCE: all of the other's packets are there. At the rate that the text names, every second slot is free, and
    // packet 901 is sent in the first of them: Virtual Clock does not idle.
    arrivals.extend((0..500).map(|_| (901 * SLOT, 2, 1_000)));
    let sent = run(&mut clock(&[LINK / 2, LINK / 2]), 1_000, &arrivals, 1_500 * SLOT);
    let after: Vec<u32> = sent[900..].iter().map(|packet| packet.class).collect();
    assert_eq!(after[..450], [2; 450]);
    assert_eq!(after[450], 1);

    arrivals.truncate(901);
    arrivals.extend((0..50).map(|k| ((901 + 2 * k) * SLOT, 2, 1_000)));
    let sent = run(&mut clock(&[LINK / 2, LINK / 2]), 1_000, &arrivals, 1_100 * SLOT);
    assert_eq!((sent[900].class, sent[901].class, sent[902].class), (2, 1, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn packets_leave_by_the_stamps_of_equation_2_1(steps in prop::collection::vec((0u32..5, 0u64..2_000_000, 0u32..=1_500), 1..200)) {
        let rates = [LINK / 2, LINK / 4, LINK / 8, LINK / 8];
        let mut scheduler = clock(&rates);
        let mut drops = |_: Nanos, packet: Packet, reason: DropReason| panic!("{packet:?}: {reason:?}");
        let (mut aux, mut now) = ([0u64; 4], 0);
        let mut queued: Vec<(u64, u64)> = vec![];
        for (handle, (class, gap, len)) in steps.into_iter().enumerate() {
            let handle = handle as u64;
            now += gap;
            if class < 4 {
                let index = class as usize;
                // auxVC = max(AT, auxVC) + Vtick, in whole nanoseconds: these rates divide.
                aux[index] = now.max(aux[index]) + u64::from(len) * 8_000_000_000 / rates[index];
                queued.push((aux[index], handle));
                scheduler.enqueue(Nanos(now), Packet { handle, len, class: ClassId(class + 1) }, &mut drops);
            } else if let Some(&(least, _)) = queued.iter().min() {
                let Dequeued::Packet(packet) = scheduler.dequeue(Nanos(now), &mut drops) else { panic!("idle") };
                let place = queued.iter().position(|&(_, handle)| handle == packet.handle).unwrap();
                prop_assert_eq!(queued.remove(place).0, least);
            }
        }
    }

    #[test]
    fn service_never_lags_the_rate_by_more_than_the_latency_of_virtual_clock(arrivals in some_arrivals(1, 4)) {
        // Theta = L_i / rho_i + L_max / r: a packet leaves L_max / r after its stamp at the latest.
        let rates = [3_000_000, 2_500_000, 1_500_000, 1_000_000];
        let sent = run(&mut clock(&rates), 1_000, &arrivals, 20_000_000_000);
        prop_assert_eq!(sent.len(), arrivals.len());
        for (class, &bps) in (1..).zip(&rates) {
            let line = curve(0, Nanos::ZERO, bps);
            prop_assert_eq!(worst_breach(class, &line, &arrivals, &sent, 1_500_000), 0);
        }
    }
}
