//! SCED against \[hfsc\] Section 2.

use super::*;
use crate::contract::{ClassConfig, DropReason, Rate, ServiceCurve, Share};
use crate::parts::curve::tests::{
    Arrival, Sent, curve, fitting, rate, run, some_arrivals, some_curve, tree, worst_breach,
};
use crate::schedulers::virtual_clock::VirtualClock;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Link on which a byte takes 1000 ns.
const LINK: u64 = 8_000_000;

fn with_curve(curve: ServiceCurve) -> (u32, ClassConfig) {
    (0, ClassConfig { real_time: Some(curve), ..ClassConfig::default() })
}

fn sced(link: u64, curves: &[ServiceCurve]) -> Sced {
    let classes: Vec<_> = curves.iter().map(|&curve| with_curve(curve)).collect();
    Sced::new(&tree(link, &classes)).unwrap()
}

/// Figure 2: 30 video frames of 8 kB a second beside a backlogged FTP, on 10 Mbit/s.
fn figure_2(video: ServiceCurve, ftp: ServiceCurve) -> Vec<Sent> {
    let mut arrivals: Vec<Arrival> = (0..15).map(|frame| (frame * 1_000_000_000 / 30, 1, 8_192)).collect();
    arrivals.extend((0..100).map(|_| (0, 2, 8_192)));
    arrivals.sort_unstable();
    run(&mut sced(10_000_000, &[video, ftp]), 800, &arrivals, 500_000_000)
}

fn delays_us(sent: &[Sent], class: u32) -> Vec<u64> {
    sent.iter().filter(|packet| packet.class == class).map(|packet| (packet.end - packet.arrived) / 1_000).collect()
}

#[test]
fn figure_2_a_lines_couple_delay_and_rate() {
    let delays = delays_us(&figure_2(curve(0, Nanos::ZERO, 2_000_000), curve(0, Nanos::ZERO, 8_000_000)), 1);
    // Deadlines of 32.8 ms, and 8.2 ms a packet for FTP: three of those go first, 4 * 6.55 ms in all.
    assert_eq!((delays.len(), delays[0]), (15, 26_214));
    assert!(delays.iter().all(|&us| us <= 32_768 + 6_554), "{delays:?}");
    assert!(delays.iter().sum::<u64>() / 15 > 20_000, "{delays:?}");
}

#[test]
fn figure_2_b_a_concave_curve_brings_the_delay_of_video_to_10_ms() {
    // DIFFERENCE: FTP's curve has the second piece of the paper's, 10 - S_video, and starts flat, to stay two pieces.
    let ftp = curve(0, Nanos(5_750_000), 8_000_000);
    let delays = delays_us(&figure_2(curve(6_600_000, Nanos::from_millis(10), 2_000_000), ftp), 1);
    assert_eq!(delays.len(), 15);
    assert!(delays.iter().all(|&us| us <= 10_000 + 6_554), "{delays:?}");
}

#[test]
fn curves_that_exceed_the_link_are_refused_with_the_time() {
    let classes = [with_curve(curve(6_000_000, Nanos(1_000), 4_000_000)), with_curve(curve(0, Nanos(500), 4_000_001))];
    let refusal = Sced::new(&tree(LINK, &classes)).unwrap_err();
    // 2 Mbit/s to spare until 500 ns, 2,000,001 bit/s too much from then on.
    assert_eq!(refusal, BuildError::NotAdmitted { fails_at: Nanos(999) });
    // Together with the line of a class that sets none, and has half of the link.
    let half = |config: ClassConfig| ClassConfig { share: Some(Share::Guarantee(rate(LINK / 2))), ..config };
    let over = with_curve(curve(5_000_000, Nanos(1_000), 1_000)).1;
    let refusal = Sced::new(&tree(LINK, &[(0, half(over)), (0, half(ClassConfig::default()))])).unwrap_err();
    assert_eq!(refusal, BuildError::NotAdmitted { fails_at: Nanos::ZERO });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn curves_that_fit_the_link_are_kept_within_one_packet(
        curves in prop::collection::vec(some_curve(LINK), 4),
        arrivals in some_arrivals(1, 4),
    ) {
        let curves = fitting(curves, LINK);
        let sent = run(&mut sced(LINK, &curves), 1_000, &arrivals, 20_000_000_000);
        prop_assert_eq!(sent.len(), arrivals.len());
        for (class, curve) in (1..).zip(&curves) {
            prop_assert_eq!(worst_breach(class, curve, &arrivals, &sent, 1_500_000), 0, "class {}", class);
        }
    }

    #[test]
    fn with_lines_the_order_is_that_of_virtual_clock(steps in prop::collection::vec((0u32..6, 0u64..2_000_000, 1u32..=1_500), 1..200)) {
        // They differ only if a packet arrives at a class whose last stamp has passed while it still has packets, which
        // a link that keeps its pace allows for at most one largest packet: such arrivals are left out.
        let rates = [LINK / 2, LINK / 4, LINK / 8, LINK / 8];
        let share = |&bps: &u64| (0, ClassConfig { share: Rate::from_bps(bps).ok().map(Share::Guarantee), ..ClassConfig::default() });
        let tree = tree(LINK, &rates.iter().map(share).collect::<Vec<_>>());
        let (mut sced, mut clock) = (Sced::new(&tree).unwrap(), VirtualClock::new(&tree).unwrap());
        let mut drops = |_: Nanos, packet: Packet, reason: DropReason| panic!("{packet:?}: {reason:?}");
        let (mut aux, mut queued, mut now) = ([0u64; 4], vec![0; 4], 0);
        for (class, gap, len) in steps {
            now += gap;
            if let Some(stamp) = aux.get_mut(class as usize) {
                if queued[class as usize] > 0 && *stamp < now {
                    continue;
                }
                *stamp = now.max(*stamp) + u64::from(len) * 8_000_000_000 / rates[class as usize];
                queued[class as usize] += 1;
                sced.enqueue(Nanos(now), Packet { handle: 0, len, class: ClassId(class + 1) }, &mut drops);
                clock.enqueue(Nanos(now), Packet { handle: 0, len, class: ClassId(class + 1) }, &mut drops);
            } else {
                let sent = sced.dequeue(Nanos(now), &mut drops);
                if let Dequeued::Packet(packet) = &sent {
                    queued[packet.class.index() - 1] -= 1;
                }
                prop_assert_eq!(sent, clock.dequeue(Nanos(now), &mut drops));
            }
        }
    }
}
