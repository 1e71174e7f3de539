//! Tests of weighted fair queueing against generalized processor sharing with rational numbers.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;

use super::*;
use crate::contract::{ClassId, Packet, Scheduler};
use crate::parts::virtual_time::{HIGH, UNITS_PER_BYTE};
use crate::test_link::{
    Arrival, L_MAX, NS_PER_BYTE, delays_are_bounded, figure_2_1, flat, flat_traffic, never, run, weighted,
};

fn wfq(weights: &[u64]) -> Wfq {
    Wfq::new(&flat(weights.iter().map(|&weight| weighted(weight)))).unwrap()
}

fn rational(value: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(value))
}

/// Computes the time at which each packet leaves the fluid system, in ns: from event to event, without any virtual
/// time.
fn gps(weights: &[u64], arrivals: &[Arrival]) -> Vec<BigRational> {
    let mut left: Vec<VecDeque<(usize, BigRational)>> = alloc::vec![VecDeque::new(); weights.len()];
    let mut done = alloc::vec![rational(0); arrivals.len()];
    let (mut now, mut next) = (rational(0), 0);
    loop {
        let active: u64 = (0..weights.len()).filter(|&class| !left[class].is_empty()).map(|class| weights[class]).sum();
        let coming = arrivals.get(next).map(|arrival| rational(arrival.at));
        // The class's share of each nanosecond of the link.
        let share = |class: usize| rational(weights[class]) / rational(active);
        let ends = (0..weights.len()).filter_map(|class| Some(&now + &left[class].front()?.1 / share(class)));
        let Some(until) = ends.chain(coming.clone()).min() else { return done };
        for (class, queue) in left.iter_mut().enumerate().filter(|(_, queue)| !queue.is_empty()) {
            let head = &mut queue[0];
            head.1 -= (&until - &now) * share(class);
            if head.1 == rational(0) {
                done[head.0] = until.clone();
                queue.pop_front();
            }
        }
        now = until;
        while let Some(arrival) = arrivals.get(next).filter(|arrival| rational(arrival.at) == now) {
            let time = rational(u64::from(arrival.len) * NS_PER_BYTE);
            left[arrival.class as usize - 1].push_back((next, time));
            next += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_leaves_within_a_largest_packet_of_gps((weights, arrivals) in flat_traffic(50)) {
        let fluid = gps(&weights, &arrivals);
        let served = run(&mut wfq(&weights), &arrivals);
        let largest = arrivals.iter().map(|arrival| u64::from(arrival.len)).max().unwrap_or(0) * NS_PER_BYTE;
        for class in 1..=weights.len() as u32 {
            let fluid = fluid.iter().zip(&arrivals).filter(|(_, arrival)| arrival.class == class).map(|(end, _)| end);
            for (packet, fluid) in served.iter().filter(|packet| packet.class == class).zip(fluid) {
                prop_assert!(rational(packet.end) <= fluid + rational(largest), "{packet:?}, in GPS at {fluid}");
            }
        }
    }

    #[test]
    fn the_fluid_system_empties_when_an_exact_one_does_within_two_units_per_event(
        (weights, arrivals) in flat_traffic(300), rate in 1u64..2_000
    ) {
        // At a rate of some bit/s a nanosecond is less than a thousand units.
        let rate = Rate::from_bps(rate).unwrap();
        let tree = flat(weights.iter().map(|&weight| weighted(weight)));
        let mut wfq = Wfq::new(&tree).unwrap();
        wfq.potential.rate = rate;
        let bytes: u64 = arrivals.iter().map(|arrival| u64::from(arrival.len)).sum();
        for &Arrival { at, class, len } in &arrivals {
            wfq.enqueue(Nanos(at), Packet { handle: 0, len, class: ClassId(class) }, &mut never);
        }
        let units = u128::from(bytes) * u128::from(UNITS_PER_BYTE);
        let end = u128::from(arrivals[0].at) + units.div_ceil(rate.bps().into());
        let late = 2 * 2 * arrivals.len() as u128 / u128::from(rate.bps()) + 1;
        let weight = |class: u32| weights[class as usize - 1];
        wfq.potential.advance(Nanos(end as u64 - 2), weight);
        prop_assert!(!wfq.potential.backlogged.is_empty());
        wfq.potential.advance(Nanos((end + late) as u64), weight);
        prop_assert!(wfq.potential.backlogged.is_empty() && wfq.potential.active == 0);
    }

    #[test]
    fn delay_is_within_a_largest_packet_of_a_link_of_its_own((weights, arrivals) in flat_traffic(200)) {
        let served = run(&mut wfq(&weights), &arrivals);
        let largest = served.iter().map(|packet| i128::from(packet.len)).max().unwrap_or(0) * i128::from(NS_PER_BYTE);
        delays_are_bounded(&weights, &served, |class, _| largest * i128::from(weights[class]))?;
    }

    #[test]
    fn a_virtual_time_that_is_lowered_does_not_change_the_order((weights, arrivals) in flat_traffic(100)) {
        let expected = run(&mut wfq(&weights), &arrivals);
        for before in [1u128, 12_000_000_000_000, 120_000_000_000_000] {
            let mut high = wfq(&weights);
            high.potential.v = HIGH - before;
            prop_assert_eq!(&expected, &run(&mut high, &arrivals));
            prop_assert!(high.potential.v < HIGH);
        }
    }
}

#[test]
fn connections_alternate_in_the_example_of_figure_2_1() {
    let sent = figure_2_1(&mut wfq(&[1, 1]));
    let alternates = sent.iter().take(90).zip(sent.iter().skip(1)).all(|(one, next)| one != next);
    assert!(alternates && sent.len() >= 98, "{sent:?}");
}

#[test]
fn a_class_that_was_idle_is_not_paid_back() {
    let mut arrivals: Vec<_> = (0..100).map(|k| Arrival { at: k * 12_000, class: 1, len: L_MAX }).collect();
    for _ in 0..20 {
        arrivals.extend([1, 2].map(|class| Arrival { at: 1_200_000, class, len: L_MAX }));
    }
    let sent = run(&mut wfq(&[1, 1]), &arrivals);
    let second = sent[100..120].iter().filter(|packet| packet.class == 2).count();
    assert_eq!(second, 10);
}

#[test]
fn pgps_is_another_name_of_wfq() {
    assert_eq!(crate::runtime::registry::find("pgps").unwrap().name, "wfq");
}
