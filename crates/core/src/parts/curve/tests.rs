//! Curves against their definitions, and the admission test; and the link that the schedulers of service curves are tested on.

use super::*;
use crate::contract::{ClassConfig, ClassId, Dequeued, DropReason, LinkConfig, Packet, QueueLimits, Scheduler};
use crate::test_link::invariants;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

pub(crate) fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

pub(crate) fn curve(m1: u64, d: Nanos, m2: u64) -> ServiceCurve {
    ServiceCurve { m1: Rate::from_bps(m1).ok(), d, m2: Rate::from_bps(m2).ok() }
}

/// A tree on a link of `link` bit/s of classes with the given parents (0 is the root).
pub(crate) fn tree(link: u64, classes: &[(u32, ClassConfig)]) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1 << 20, ..LinkConfig::new(rate(link)) });
    for &(parent, config) in classes {
        let limits = QueueLimits { packets: 1 << 16, bytes: u32::MAX };
        tree.add(ClassId(parent), ClassConfig { limits, ..config }).unwrap();
    }
    tree.build().unwrap()
}

/// One packet that left: its class, its length, and when its first and its last bit left, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) class: u32,
    pub(crate) len: u32,
    pub(crate) arrived: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// An arrival: time in nanoseconds, class, bytes.
pub(crate) type Arrival = (u64, u32, u32);

/// Runs `scheduler` on a link on which a byte takes `byte_ns` nanoseconds. Arrivals come oldest first.
pub(crate) fn run(scheduler: &mut dyn Scheduler, byte_ns: u64, arrivals: &[Arrival], until: u64) -> Vec<Sent> {
    let mut drops = |_: Nanos, packet: Packet, reason: DropReason| panic!("{packet:?}: {reason:?}");
    let mut arrivals = arrivals.iter().copied().peekable();
    let (mut now, mut sent) = (0, Vec::new());
    while now < until {
        while let Some((time, class, len)) = arrivals.next_if(|&(time, ..)| time <= now) {
            scheduler.enqueue(Nanos(time), Packet { handle: time, len, class: ClassId(class) }, &mut drops);
        }
        let next = arrivals.peek().map_or(until, |&(time, ..)| time);
        match scheduler.dequeue(Nanos(now), &mut drops) {
            Dequeued::Packet(Packet { handle, len, class }) => {
                let end = now + u64::from(len) * byte_ns;
                sent.push(Sent { class: class.0, len, arrived: handle, start: now, end });
                // Arrivals while the link is busy come at their own time.
                while let Some((time, class, len)) = arrivals.next_if(|&(time, ..)| time <= end) {
                    scheduler.enqueue(Nanos(time), Packet { handle: time, len, class: ClassId(class) }, &mut drops);
                }
                now = end;
            }
            Dequeued::WaitUntil(t) => {
                assert!(t.0 > now);
                now = next.min(t.0);
            }
            Dequeued::Idle => now = next.max(now + 1),
        }
        assert_eq!(invariants(scheduler), Ok(()));
    }
    sent
}

/// Service of a two-piece curve in `time` nanoseconds, in bit/s times ns; whole and exact.
pub(crate) fn served_by(curve: &ServiceCurve, time: u64) -> u128 {
    let slope = |rate: Option<Rate>| u128::from(rate.map_or(0, Rate::bps));
    let first = time.min(curve.d.0);
    slope(curve.m1) * u128::from(first) + slope(curve.m2) * u128::from(time - first)
}

/// Returns the maximum violation of a class's service curve, in bytes. It is taken over all moments at which a packet
/// left the link: the lag of the class, if it had packets then, behind S_i(t - `slack` - t_1) + w_i(t_1) at the best
/// beginning t_1 of a backlogged period, \[hfsc\] equations (1) and (2). Its head packet is granted. As in Figure 5, a
/// packet counts from its first bit on.
pub(crate) fn worst_breach(class: u32, curve: &ServiceCurve, arrivals: &[Arrival], sent: &[Sent], slack: u64) -> u64 {
    const BYTE_OF: u128 = 8 * NANOS_PER_SEC as u128;
    let own: Vec<(u64, u32)> =
        arrivals.iter().filter(|arrival| arrival.1 == class).map(|&(time, _, len)| (time, len)).collect();
    let (mut next, mut left, mut served, mut worst) = (0, 0, 0u128, 0);
    let mut beginnings: Vec<(u64, u128)> = Vec::new();
    for packet in sent {
        for (until, sends) in [(packet.start, packet.class == class), (packet.end, false)] {
            while next < own.len() && own[next].0 <= until {
                if next == left {
                    beginnings.push((own[next].0, served));
                }
                next += 1;
            }
            if sends {
                served += u128::from(packet.len);
                left += 1;
            }
        }
        if left < next {
            let due = |&(start, before): &(u64, u128)| {
                let time = packet.end.saturating_sub(slack).saturating_sub(start);
                served_by(curve, time) + before * BYTE_OF
            };
            let due = beginnings.iter().map(due).min().unwrap_or(0);
            let breach = due.saturating_sub((served + u128::from(own[left].1)) * BYTE_OF) / BYTE_OF;
            worst = worst.max(u64::try_from(breach).unwrap());
        }
    }
    worst
}

/// Curves whose slopes are cut until they fit a link of `link` bit/s together.
pub(crate) fn fitting(mut curves: Vec<ServiceCurve>, link: u64) -> Vec<ServiceCurve> {
    while admit(curves.iter().map(|curve| Shape::from_curve(curve).unwrap()), rate(link)).is_err() {
        let cut = |slope: Option<Rate>| slope.map(|slope| rate(slope.bps() - slope.bps() / 8));
        curves.iter_mut().for_each(|curve| (curve.m1, curve.m2) = (cut(curve.m1), cut(curve.m2)));
    }
    curves
}

/// Random arrivals for `classes` classes, whose ids begin at `first`: from light load to several times an 8 Mbit/s link.
pub(crate) fn some_arrivals(first: u32, classes: u32) -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![3 => Just(0), 3 => 0u64..1_500_000, 1 => 0u64..30_000_000];
    prop::collection::vec((gap, 0..classes, 1u32..=1_500), 20..150).prop_map(move |list| {
        let mut now = 0;
        let at = |(gap, class, len)| {
            now += gap / 1_000 * 1_000;
            (now, first + class, len)
        };
        list.into_iter().map(at).collect()
    })
}

/// One of the kinds of curve that can be computed with, its slopes below `most` bit/s.
pub(crate) fn some_curve(most: u64) -> impl Strategy<Value = ServiceCurve> {
    let (slope, d) = (1_000..most, 1u64..50_000_000);
    prop_oneof![
        slope.clone().prop_map(|m2| curve(0, Nanos::ZERO, m2)),
        (slope.clone(), d.clone()).prop_map(|(m2, d)| curve(0, Nanos(d), m2)),
        (slope.clone(), slope, d).prop_map(|(a, b, d)| curve(a.max(b) + 1, Nanos(d), a.min(b))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn update_is_the_minimum_of_both_curves(
        curve in some_curve(20_000_000),
        steps in prop::collection::vec((0u64..40_000_000, 0u64..60_000), 1..8),
    ) {
        let mut updated = Curve::new(Shape::from_curve(&curve).unwrap());
        // All that the curve is the minimum of.
        let mut starts = vec![(0u64, 0u64)];
        let (mut now, mut bytes) = (0, 0);
        for (gap, served) in steps {
            now += gap;
            updated.lower_to(ticks(Nanos(now)), bytes);
            starts.push((now, bytes));
            for more in [1, 2, 100, 1_000, 10_000, 100_000] {
                let y = bytes + more;
                // The earliest time at which all of them have reached y.
                let at = updated.time_of(y);
                let reached = |ns: u128| starts.iter().all(|&(start, before)| {
                    let time = u64::try_from(ns).unwrap().saturating_sub(start);
                    served_by(&curve, time) >= u128::from(y - before) * 8_000_000_000 && ns >= u128::from(start)
                });
                let unit = 1u128 << TIME_BITS;
                prop_assert!(reached(at.div_ceil(unit)), "{y} B at {at}: {starts:?}");
                prop_assert!(at < 2 * unit || !reached((at - unit) / unit), "{y} B at {at}, too late: {starts:?}");
            }
            bytes += served;
        }
    }

    #[test]
    fn eligible_curve_is_equation_10(curve in some_curve(20_000_000), bytes in 1u64..100_000, start in 0u64..1_000_000) {
        // E(t) = D(t) + max over t' of (D(t') - D(t) - S(t' - t)), for D = S(t - start) the maximum at t' = t + d at most.
        let mut own = Curve::new(Shape::from_curve(&curve).unwrap());
        own.start(ticks(Nanos(start)), 0);
        let eligible = |t: u64| {
            let now = served_by(&curve, t);
            let ahead = |to: u64| served_by(&curve, t + to).saturating_sub(now).saturating_sub(served_by(&curve, to));
            now + ahead(curve.d.0).max(ahead(curve.d.0.saturating_sub(t)))
        };
        let at = own.eligible_at(bytes);
        let after = u64::try_from(at.div_ceil(1 << TIME_BITS)).unwrap() - start;
        let due = u128::from(bytes) * 8_000_000_000;
        prop_assert!(eligible(after) >= due, "{} of {due}", eligible(after));
        prop_assert!(after < 2 || eligible(after - 2) < due, "{} of {due}", eligible(after - 2));
    }
}

#[test]
fn the_second_piece_does_not_drift_over_a_million_updates() {
    // Updates that leave the class on its second piece: its knee is recomputed each time.
    let shape = Shape::from_curve(&curve(999_999_937, Nanos(1_000_003), 3_000_001)).unwrap();
    let mut updated = Curve::new(shape);
    updated.start(0, 0);
    let (mut bytes, mut now) = (20_000_000, 0);
    let line = updated.time_of(bytes);
    for _ in 0..1_000_000 {
        // It has sent a little less than it may by now, so that the curves cross.
        now += 1_000;
        let served = (served_by(&curve(999_999_937, Nanos(1_000_003), 3_000_001), now) / 8_000_000_000) as u64;
        updated.lower_to(ticks(Nanos(now)), served.saturating_sub(1));
    }
    assert!(updated.x > 0 && updated.dx > 0, "the curve was never updated");
    assert!(updated.time_of(bytes).abs_diff(line) <= 1, "{} and {line}", updated.time_of(bytes));
    bytes += 1;
    assert!(updated.time_of(bytes) > line);
}

#[test]
fn extremes_saturate_and_do_not_wrap() {
    let fast = Curve::new(Shape::from_curve(&curve(0, Nanos::MAX, Rate::MAX.bps())).unwrap());
    assert_eq!(fast.time_of(1), (1 << 70) + BYTE.div_ceil(u128::from(Rate::MAX.bps()) << SLOPE_BITS));
    let mut slow = Curve::new(Shape::line(1));
    assert_eq!(slow.time_of(1 << 40), BYTE << 40);
    assert_eq!(nanos_up(slow.time_of(1 << 40)), Nanos::MAX);
    slow.start(u128::MAX - 5, 0);
    assert_eq!(slow.time_of(1), u128::MAX);
    let steep = Shape::from_curve(&curve(Rate::MAX.bps(), Nanos::MAX, 1)).unwrap();
    let mut steep = Curve::new(steep);
    for now in [0, 1, 1 << 40, u64::MAX - 1, u64::MAX] {
        steep.lower_to(ticks(Nanos(now)), now);
        assert!(steep.time_of(now.wrapping_add(1)) > ticks(Nanos(now)));
    }
    let flat = Curve::new(Shape::from_curve(&curve(1000, Nanos(8_000_000_000), 0)).unwrap());
    assert_eq!((nanos_up(flat.time_of(1000)), flat.time_of(1001)), (Nanos(8_000_000_000), u128::MAX));
}

#[test]
fn curves_that_do_not_stay_two_pieces_are_refused() {
    for wrong in [curve(1, Nanos(5), 2), curve(0, Nanos(5), 0), curve(7, Nanos::ZERO, 0)] {
        assert!(Shape::from_curve(&wrong).is_err(), "{wrong:?}");
    }
    assert_eq!(Shape::from_curve(&curve(1, Nanos::ZERO, 2)), Shape::from_curve(&curve(2, Nanos(9), 2)));
}

fn admitted(curves: &[ServiceCurve], link: u64) -> Result<(), BuildError> {
    admit(curves.iter().map(|curve| Shape::from_curve(curve).unwrap()), rate(link))
}

#[test]
fn figure_10_is_admitted_and_a_shorter_delay_for_ftp_is_not() {
    // Audio, video, FTP, and the other leaves as one line: the rest of 10 Mbit/s.
    let set = |ftp_delay: u64, rest: u64| {
        let ftp = ftp_delay - 4096 * 8 * 1_000 / 5;
        let (audio, video) =
            (curve(256_000, Nanos::from_millis(5), 64_000), curve(6_553_600, Nanos::from_millis(10), 2_000_000));
        [audio, video, curve(0, Nanos(ftp), 5_000_000), curve(0, Nanos::ZERO, rest)]
    };
    assert_eq!(admitted(&set(16_250_000, 2_936_000), 10_000_000), Ok(()));
    let Err(BuildError::NotAdmitted { fails_at }) = admitted(&set(14_000_000, 2_936_000), 10_000_000) else {
        panic!("a shorter delay was admitted");
    };
    assert!(Nanos(7_400_000) < fails_at && fails_at < Nanos::from_millis(10), "{fails_at}");
    let long_run = admitted(&set(16_250_000, 2_936_001), 10_000_000).unwrap_err();
    assert!(
        matches!(long_run, BuildError::NotAdmitted { fails_at } if fails_at > Nanos::from_millis(10)),
        "{long_run}"
    );
    assert_eq!(admitted(&[curve(11, Nanos(1), 1)], 10), Err(BuildError::NotAdmitted { fails_at: Nanos::ZERO }));
}
