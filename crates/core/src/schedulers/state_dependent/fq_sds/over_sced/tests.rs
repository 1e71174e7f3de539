//! Service curves are kept under every policy, and the policy distributes the rest.

use super::*;
use crate::contract::{ClassConfig, DropReason, LeakyBucket, Rate, ServiceCurve};
use crate::parts::curve::tests::{Arrival, Sent, curve, fitting, run, some_arrivals, some_curve, tree, worst_breach};
use crate::test_link;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Link on which a byte takes 1000 ns.
const LINK: u64 = 8_000_000;
const POLICIES: [Policy; 3] = [Policy::LongestDelay, Policy::LeastTimeToOverflow, Policy::LeakyBucket];

fn of(curves: &[ServiceCurve], policy: Policy) -> FqSdsSced {
    let config = |&curve| (0, ClassConfig { real_time: Some(curve), ..ClassConfig::default() });
    FqSdsSced::new(&tree(LINK, &curves.iter().map(config).collect::<Vec<_>>()), policy).unwrap()
}

fn line(bps: u64) -> ServiceCurve {
    curve(0, Nanos::ZERO, bps)
}

fn bytes(sent: &[Sent], class: u32, until: u64) -> u64 {
    sent.iter().filter(|packet| packet.class == class && packet.end <= until).map(|packet| u64::from(packet.len)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn curves_that_fit_the_link_are_kept_within_one_packet(
        curves in prop::collection::vec(some_curve(LINK), 4),
        arrivals in some_arrivals(1, 4),
    ) {
        let curves = fitting(curves, LINK);
        for policy in POLICIES {
            let sent = run(&mut of(&curves, policy), 1_000, &arrivals, 20_000_000_000);
            prop_assert_eq!(sent.len(), arrivals.len());
            for (class, curve) in (1..).zip(&curves) {
                prop_assert_eq!(worst_breach(class, curve, &arrivals, &sent, 1_500_000), 0, "{:?}: class {}", policy, class);
            }
        }
    }
}

#[test]
fn what_the_curves_leave_goes_by_the_policy() {
    // A quarter of the link each; the second has the longer queue, and the delay of a byte is the same.
    let mut arrivals: Vec<Arrival> = (0..20).map(|_| (0, 1, 1000)).collect();
    arrivals.extend((0..60).map(|_| (0, 2, 1000)));
    let sent = run(&mut of(&[line(LINK / 4); 2], Policy::LongestDelay), 1_000, &arrivals, 200_000_000);
    // By 40 ms each has had its 10 packets; all 20 of the excess went to the second, and it still has the longer queue.
    assert_eq!((bytes(&sent, 1, 40_000_000), bytes(&sent, 2, 40_000_000)), (10_000, 30_000));
    // Once their queues are level they take turns.
    assert_eq!((bytes(&sent, 1, 80_000_000), bytes(&sent, 2, 80_000_000)), (20_000, 60_000));
    let tight =
        ClassConfig { max_delay: Some(Nanos(1_000)), real_time: Some(line(LINK / 4)), ..ClassConfig::default() };
    let loose = ClassConfig { max_delay: Some(Nanos(1 << 40)), ..tight };
    let mut fq = FqSdsSced::new(&tree(LINK, &[(0, tight), (0, loose)]), Policy::LeastTimeToOverflow).unwrap();
    let sent = run(&mut fq, 1_000, &arrivals, 200_000_000);
    // The first has the tighter objective: its 20 packets are out after 26, a quarter of the link of the second's in between.
    let last = sent.iter().filter(|packet| packet.class == 1).map(|packet| packet.end).max();
    assert!((26_000_000..=28_000_000).contains(&last.unwrap()), "{last:?}");
}

#[test]
fn excess_is_not_paid_for_later_as_it_is_under_sced() {
    // Figure 3 of [hfsc] with lines: the first is alone until 100 ms, when the second comes.
    let mut arrivals: Vec<Arrival> = (0..200).map(|_| (0, 1, 1000)).collect();
    arrivals.extend((0..100).map(|_| (100_000_000, 2, 1000)));
    let lines = [line(LINK / 2); 2];
    let fq = run(&mut of(&lines, Policy::LongestDelay), 1_000, &arrivals, 300_000_000);
    let config = |&curve| (0, ClassConfig { real_time: Some(curve), ..ClassConfig::default() });
    let mut sced = sced::Sced::new(&tree(LINK, &lines.iter().map(config).collect::<Vec<_>>())).unwrap();
    let sced = run(&mut sced, 1_000, &arrivals, 300_000_000);
    // SCED starves the first until its deadlines of 200 ms on are reached.
    let then = |sent: &[Sent]| bytes(sent, 1, 149_000_000) - bytes(sent, 1, 101_000_000);
    assert!(then(&fq) >= 23_000, "{}", then(&fq));
    assert_eq!(then(&sced), 0);
}

#[test]
fn a_packet_sent_as_excess_leaves_the_curve_where_it_was() {
    // At an eighth a packet of 1000 bytes is due every 8 ms: the first at once, by the curve; the next two go as excess, and the
    // fourth is eligible when the second would have been.
    let mut fq = of(&[line(LINK / 8)], Policy::LongestDelay);
    let arrivals: Vec<Arrival> = (0..4).map(|_| (0, 1, 1000)).collect();
    let sent = run(&mut fq, 1_000, &arrivals[..3], 3_000_000);
    assert_eq!((sent.len(), fq.flows.state(1).served), (3, 1000));
    let packet = Packet { handle: 0, len: 1000, class: ClassId(1) };
    fq.enqueue(Nanos(3_000_000), packet, &mut |_: Nanos, _: Packet, _: DropReason| panic!("dropped"));
    assert_eq!(fq.waiting.first(), Some((1, ticks(Nanos(8_000_000)))));
}

#[test]
fn a_leaky_bucket_names_who_may_overflow() {
    let link = test_link::LINK;
    let with = |packets, burst| {
        let bucket = LeakyBucket { burst, peak: link, rate: Rate::from_bps(link.bps() / 10).unwrap() };
        let limits = QueueLimits { packets, bytes: u32::MAX };
        let real_time = Some(curve(0, Nanos(1 << 40), link.bps() / 4));
        ClassConfig { leaky_buckets: bucket.into(), limits, real_time, ..ClassConfig::default() }
    };
    let order = |second| {
        let tree = test_link::flat([with(10, 100_000), second]);
        let mut fq = FqSdsSced::new(&tree, Policy::LeakyBucket).unwrap();
        test_link::order(&mut fq, &[(1, 1000), (1, 1000), (1, 1000), (2, 1000), (2, 1000), (2, 1000)])
    };
    // By their curves one packet of each goes at once, and the next later. Of the rest the second has the smaller
    // buffer; but in the first case it has used up its allowance.
    assert_eq!(order(with(4, 3_000)), [1, 2, 1, 1, 2, 2]);
    assert_eq!(order(with(4, 100_000)), [1, 2, 2, 2, 1, 1]);
}

#[test]
fn curves_that_exceed_the_link_are_refused() {
    let config = |bps| (0, ClassConfig { real_time: Some(line(bps)), ..ClassConfig::default() });
    let refusal = FqSdsSced::new(&tree(LINK, &[config(LINK), config(1)]), Policy::LongestDelay).unwrap_err();
    assert_eq!(refusal, BuildError::NotAdmitted { fails_at: Nanos::ZERO });
}
