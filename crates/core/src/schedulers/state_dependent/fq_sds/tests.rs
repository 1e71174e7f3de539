//! The theorems of \[sds\] over random traffic, and the choices of each policy.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::contract::{ClassConfig, LeakyBuckets, LinkConfig};
use crate::test_link::{
    Arrival, LINK, NS_PER_BYTE, Served, delays_are_bounded, flat, flat_traffic, never, run, weighted,
};

const POLICIES: [Policy; 3] = [Policy::LongestDelay, Policy::LeastTimeToOverflow, Policy::LeakyBucket];

fn forms() -> impl Iterator<Item = (Policy, bool)> {
    POLICIES.into_iter().flat_map(|policy| [(policy, false), (policy, true)])
}

/// Guarantees in these proportions that add up to the link's rate, on which a byte takes 8 ns.
fn guarantees(weights: &[u64]) -> Hierarchy {
    flat(weights.iter().map(|&weight| weighted(weight)))
}

fn link(configs: &[ClassConfig]) -> Hierarchy {
    flat(configs.iter().copied())
}

fn guarantee(part: u64) -> ClassConfig {
    let rate = Rate::from_bps(LINK.bps() / part).unwrap();
    ClassConfig { share: Some(Share::Guarantee(rate)), ..ClassConfig::default() }
}

fn largest(served: &[Served]) -> i128 {
    served.iter().map(|packet| i128::from(packet.len)).max().unwrap_or(0)
}

/// Enqueues packets of 1000 bytes in the classes at time 0 and removes `count` of them. Returns the classes in order.
fn sent(scheduler: &mut FqSds, packets: &[u32], count: usize) -> Vec<u32> {
    for &class in packets {
        scheduler.enqueue(Nanos::ZERO, Packet { handle: 0, len: 1000, class: ClassId(class) }, &mut never);
    }
    let next = |_| match scheduler.dequeue(Nanos::ZERO, &mut never) {
        Dequeued::Packet(packet) => packet.class.0,
        other => panic!("{other:?}"),
    };
    (0..count).map(next).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn delay_never_exceeds_theorem_1((weights, arrivals) in flat_traffic(150)) {
        let all: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
        for (policy, second) in forms() {
            let served = run(&mut FqSds::new(&guarantees(&weights), policy, second).unwrap(), &arrivals);
            let l_max = largest(&served);
            for (class, &weight) in weights.iter().enumerate() {
                let of_class = |packet: &&Served| packet.class as usize == class + 1;
                let own: Vec<Served> = served.iter().filter(of_class).copied().collect();
                let (l_i, phi) = (largest(&own), i128::from(weight));
                for (place, packet) in own.iter().enumerate() {
                    // Backlog on arrival, including the packet and the one of the class in transmission.
                    let queued: i128 = own[..=place].iter().filter(|p| p.end > packet.arrival).map(|p| i128::from(p.len)).sum();
                    // In bytes of the link, times the weight.
                    let bound = queued * all + l_max * phi + l_i * (all - phi);
                    let delay = i128::from(packet.end - packet.arrival) * phi;
                    prop_assert!(delay <= bound * i128::from(NS_PER_BYTE), "{policy:?} {second}: {packet:?}, {queued} B");
                }
            }
        }
    }

    #[test]
    fn service_in_a_session_busy_period_never_lags_corollary_1((weights, arrivals) in flat_traffic(150)) {
        // No packet leaves more than L_max / r after a link of its guarantee would have sent it. Then W_i lags g_i (t - tau) by less
        // than the packet that is next and g_i L_max / r: Corollary 1.
        for (policy, second) in forms() {
            let served = run(&mut FqSds::new(&guarantees(&weights), policy, second).unwrap(), &arrivals);
            let l_max = largest(&served) * i128::from(NS_PER_BYTE);
            delays_are_bounded(&weights, &served, |class, _| l_max * i128::from(weights[class]))?;
        }
    }
}

#[test]
fn with_all_backlogged_the_guarantees_are_what_everyone_gets() {
    let tree = link(&[guarantee(2), guarantee(4), guarantee(4)]);
    let arrivals: Vec<_> = (0..300).map(|k| Arrival { at: 0, class: k % 3 + 1, len: 1000 }).collect();
    for (policy, second) in forms() {
        let served = run(&mut FqSds::new(&tree, policy, second).unwrap(), &arrivals);
        let first = served[..100].iter().filter(|packet| packet.class == 1).count();
        assert!((49..=51).contains(&first), "{policy:?} {second}: {first}");
    }
}

#[test]
fn ldf_gives_the_excess_to_the_longest_delay_and_not_to_the_longest_queue() {
    // Delays at time 0, when one packet of each is released: 5 packets at 1/8, 6 at 1/4.
    let mut fq = FqSds::new(&link(&[guarantee(8), guarantee(4)]), Policy::LongestDelay, false).unwrap();
    let packets = [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2];
    // Released: 2, then 1. Then 4 at 1/8 (32) against 5 at 1/4 (20), and so on.
    assert_eq!(sent(&mut fq, &packets, 11), [2, 1, 1, 1, 2, 1, 2, 2, 1, 2, 2]);
}

#[test]
fn lto_gives_the_excess_to_the_least_slack() {
    let with = |max_delay| ClassConfig { max_delay: Some(Nanos(max_delay)), ..guarantee(4) };
    // Each waiting packet is a delay of 32 us.
    let tree = link(&[with(1_000_000), with(100_000)]);
    let mut fq = FqSds::new(&tree, Policy::LeastTimeToOverflow, false).unwrap();
    assert_eq!(sent(&mut fq, &[1, 1, 1, 1, 2, 2], 6), [1, 2, 2, 1, 1, 1]);
    let mut fq = FqSds::new(&tree, Policy::LongestDelay, false).unwrap();
    assert_eq!(sent(&mut fq, &[1, 1, 1, 1, 2, 2], 6), [1, 2, 1, 1, 2, 1]);
}

#[test]
fn lto_lb_gives_the_excess_to_who_may_overflow_first() {
    let with = |packets, burst, peak| {
        let rate = LINK.bps() / 10;
        let bucket = LeakyBucket { burst, peak: Rate::from_bps(peak).unwrap(), rate: Rate::from_bps(rate).unwrap() };
        let limits = QueueLimits { packets, bytes: u32::MAX };
        ClassConfig { leaky_buckets: bucket.into(), limits, ..guarantee(4) }
    };
    // The first two may overflow, the second at a tenth of the peak rate; the third has sent nearly all that it may.
    let tree = link(&[with(10, 100_000, LINK.bps()), with(10, 100_000, LINK.bps() / 10), with(4, 4_000, LINK.bps())]);
    let packets = [1, 1, 1, 2, 2, 2, 3, 3, 3];
    let mut fq = FqSds::new(&tree, Policy::LeakyBucket, false).unwrap();
    assert_eq!(sent(&mut fq, &packets, 9), [1, 2, 3, 1, 1, 2, 2, 3, 3]);
    // By its slack alone the third would come first: its buffer is the smallest.
    let mut fq = FqSds::new(&tree, Policy::LeastTimeToOverflow, false).unwrap();
    assert_eq!(sent(&mut fq, &packets, 9)[3..5], [3, 3]);
    // In a while its bucket fills again, and it may overflow first.
    let mut fq = FqSds::new(&tree, Policy::LeakyBucket, false).unwrap();
    assert_eq!(sent(&mut fq, &packets, 3), [1, 2, 3]);
    let filled = 4_000 * 8 * 10;
    assert_eq!(fq.excess.choose(Nanos(filled / 100)), Some(1));
    assert_eq!(fq.excess.choose(Nanos(filled * 10)), Some(3));
}

/// A class of a quarter of the link with room for `packets` of 1000 B, and these buckets.
fn with_buckets(packets: u32, buckets: &[(u64, u64, u64)]) -> ClassConfig {
    let rate = |bps| Rate::from_bps(bps).unwrap();
    let bucket = |&(burst, peak, long_run)| LeakyBucket { burst, peak: rate(peak), rate: rate(long_run) };
    let leaky_buckets = LeakyBuckets::new(&buckets.iter().map(bucket).collect::<Vec<_>>()).unwrap();
    ClassConfig { leaky_buckets, limits: QueueLimits { packets, bytes: u32::MAX }, ..guarantee(4) }
}

#[test]
fn of_several_leaky_buckets_the_emptiest_says_whether_a_class_may_overflow_and_the_least_peak_how_soon() {
    let (link_rate, tenth) = (LINK.bps(), LINK.bps() / 10);
    let wide = (100_000, link_rate, tenth);
    let chosen = |third: &[(u64, u64, u64)], at| {
        // The others may overflow, the second at a tenth of the peak rate.
        let others = [with_buckets(10, &[wide]), with_buckets(10, &[(100_000, tenth, tenth)])];
        let tree = link(&[others[0], others[1], with_buckets(4, third)]);
        let mut fq = FqSds::new(&tree, Policy::LeakyBucket, false).unwrap();
        assert_eq!(sent(&mut fq, &[1, 1, 1, 2, 2, 2, 3, 3, 3], 3), [1, 2, 3]);
        fq.excess.choose(Nanos(at))
    };
    // It has sent 3000 of 4000 B, and has room for 2000.
    assert_eq!(chosen(&[wide], 0), Some(3));
    assert_eq!(chosen(&[(4_000, link_rate, tenth)], 0), Some(1));
    assert_eq!(chosen(&[wide, (4_000, link_rate, tenth)], 0), Some(1));
    assert_eq!(chosen(&[(4_000, link_rate, tenth), wide], 0), Some(1));
    // When both are full again it comes first, but not before the slower one is full.
    let full = 4_000 * 8 * 10;
    let (fast, slow) = ((4_000, link_rate, tenth), (4_000, link_rate, tenth / 10));
    assert_eq!(chosen(&[fast, fast], full), Some(3));
    assert_eq!(chosen(&[fast, slow], full / 10), Some(1));
    assert_eq!(chosen(&[fast, slow], full * 10), Some(3));
    // At a peak rate of a hundredth it would take longest.
    assert_eq!(chosen(&[wide, (100_000, tenth / 10, tenth / 10)], 0), Some(1));
}

#[test]
fn a_leaky_bucket_that_another_one_makes_idle_changes_nothing() {
    let (link_rate, tenth) = (LINK.bps(), LINK.bps() / 10);
    let run_with = |buckets: &[(u64, u64, u64)]| {
        let tree = link(&[with_buckets(100, buckets), with_buckets(90, &[(85_000, link_rate, tenth)]), guarantee(4)]);
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut arrivals: Vec<Arrival> =
            (0..3000).map(|_| Arrival { at: random(25_000_000), class: random(3) as u32 + 1, len: 1000 }).collect();
        arrivals.sort_by_key(|arrival| arrival.at);
        let served = run(&mut FqSds::new(&tree, Policy::LeakyBucket, false).unwrap(), &arrivals);
        served.iter().map(|packet| (packet.class, packet.end)).collect::<Vec<_>>()
    };
    let one = (95_000, link_rate, tenth);
    let alone = run_with(&[one]);
    assert_eq!(alone, run_with(&[one, (96_000, link_rate, tenth), (95_000, link_rate, tenth * 2), one]));
    assert_ne!(alone, run_with(&[one, (80_000, tenth, tenth / 50)]));
}

#[test]
fn the_shaper_does_not_notice_what_the_excess_has_sent() {
    // A class of half the link with two packets at 0 is released one at 0 and one at 16 us. The second leaves at 8 us,
    // as excess; a third that comes at 9 us is still released at 16 us, not at 32.
    let tree = link(&[guarantee(2), guarantee(2)]);
    let mut fq = FqSds::new(&tree, Policy::LongestDelay, false).unwrap();
    assert_eq!(sent(&mut fq, &[1, 1], 2), [1, 1]);
    fq.enqueue(Nanos(9_000), Packet { handle: 0, len: 1000, class: ClassId(1) }, &mut never);
    assert_eq!(fq.shaper.first().map(|(class, at)| (class, at >> FRACTION_BITS)), Some((1, 16_000)));
}

#[test]
fn a_source_that_overflows_its_buffer_on_purpose_gains_nothing_from_the_second_candidate() {
    // Three classes of a quarter. The first always has its buffer full, the others come in bursts of eight within their guarantee.
    let greedy = |second| {
        let mut fq = FqSds::new(&link(&[guarantee(4); 3]), Policy::LongestDelay, second).unwrap();
        let mut arrivals: Vec<_> = (0..900).map(|_| Arrival { at: 0, class: 1, len: 1000 }).collect();
        for burst in 0..12 {
            for class in [2, 3] {
                arrivals.extend([Arrival { at: burst * 250_000, class, len: 1000 }; 7]);
            }
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        let served = run(&mut fq, &arrivals);
        let delays = served.iter().filter(|packet| packet.class > 1).map(|packet| packet.end - packet.arrival);
        let until = |packet: &&Served| packet.class == 1 && packet.end % 250_000 < 112_000 && packet.end < 3_000_000;
        (served.iter().filter(until).count(), delays.max().unwrap_or(0))
    };
    let (first, second) = (greedy(false), greedy(true));
    assert!(second.0 < first.0 * 3 / 4, "{} and {} packets while others wait", first.0, second.0);
    assert!(second.1 < first.1 * 3 / 4, "the others wait for {} and {} ns", first.1, second.1);
}

#[test]
fn the_guarantee_counts_even_where_the_link_has_more() {
    let tree = link(&[guarantee(10), guarantee(5)]);
    let fq = FqSds::new(&tree, Policy::LongestDelay, false).unwrap();
    assert_eq!(fq.flows.state(1).session.pace.distance(1), TIME_PER_BIT_S / u128::from(LINK.bps() / 10));
    let mut deep = Hierarchy::builder(LinkConfig::new(LINK));
    let above = deep.add(ClassId::ROOT, weighted(1)).unwrap();
    deep.add(above, weighted(1)).unwrap();
    let fq = FqSds::new(&deep.build().unwrap(), Policy::LongestDelay, false).unwrap();
    assert_eq!(fq.flows.state(2).session.pace.distance(1), TIME_PER_BIT_S / u128::from(LINK.bps()));
}
