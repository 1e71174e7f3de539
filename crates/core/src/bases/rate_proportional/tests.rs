//! The conditions of \[drrpp\] Section 2.3.4 over the potentials that run.

use super::*;
use crate::schedulers::{virtual_clock::VirtualClock, wfq::Gps};
use crate::test_link::{Arrival, LINK, delays_are_bounded, flat, flat_traffic, invariants, never, run, weighted};
use proptest::prelude::*;

/// Real time as a potential: P(t) = r t. That is Virtual Clock.
#[derive(Debug)]
struct RealTime {
    rate: Rate,
    v: u128,
}

impl Potential for RealTime {
    fn new(rate: Rate, _all: u64, _classes: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { rate, v: 0 })
    }

    fn memory(_classes: usize) -> u64 {
        0
    }

    fn advance(&mut self, now: Nanos, _weight: impl Fn(u32) -> u64) {
        // Below 2^104: it is never lowered.
        self.v = u128::from(self.rate.bps()) * u128::from(now.0);
    }

    fn value(&self) -> u128 {
        self.v
    }

    fn arrive(&mut self, _class: u32, _weight: u64, _stamp: Tag) {}

    fn first(&self) -> Option<(u32, u128)> {
        None
    }

    fn lower(&mut self, by: u128) {
        self.v -= by;
    }

    fn retune(&mut self, _: &Self, _: impl Fn(u32) -> u64) {}

    fn reset(&mut self, now: Nanos) {
        self.advance(now, |_| 1);
    }

    #[cfg(feature = "invariants")]
    fn check(&self, _weight: impl Fn(u32) -> u64) -> Result<(), String> {
        Ok(())
    }
}

fn tree(weights: &[u64]) -> Hierarchy {
    flat(weights.iter().map(|&weight| weighted(weight)))
}

/// Returns true if the potential grows at least at rate 1 while its classes have something to send, and no packet is stamped as if its
/// class had started behind it. `units` are lost per event at most.
fn is_a_potential<P: Potential>(weights: &[u64], arrivals: &[Arrival], units: u128) -> Result<(), TestCaseError> {
    let mut server = Rps::<P>::new(&tree(weights)).unwrap();
    // The time at which a work-conserving server has sent everything that has arrived so far.
    let (mut before, mut busy_until) = (0, 0);
    for &Arrival { at, class, len } in arrivals {
        let value = server.potential.value();
        server.enqueue(Nanos(at), Packet { handle: 0, len, class: ClassId(class) }, &mut never);
        let (now, busy) = (server.potential.value(), at.min(busy_until) - before.min(busy_until));
        let grown = u128::from(LINK.bps()) * u128::from(busy);
        prop_assert!(now + units * (1 + weights.len() as u128) >= value + grown, "{value} to {now} in {busy} ns");
        let class = &server.flows.state(class);
        prop_assert!(class.last.whole >= now + class.pace.distance(u64::from(len)));
        busy_until = busy_until.max(at) + u64::from(len) * crate::test_link::NS_PER_BYTE;
        before = at;
        invariants(&server).unwrap();
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_virtual_time_of_gps_is_a_potential((weights, arrivals) in flat_traffic(150)) {
        is_a_potential::<Gps>(&weights, &arrivals, 2)?;
    }

    #[test]
    fn real_time_is_a_potential((weights, arrivals) in flat_traffic(150)) {
        is_a_potential::<RealTime>(&weights, &arrivals, 0)?;
    }

    #[test]
    fn a_server_of_either_potential_delays_by_the_latency_of_rate_proportional_servers((weights, arrivals) in flat_traffic(150)) {
        for served in [
            run(&mut Rps::<RealTime>::new(&tree(&weights)).unwrap(), &arrivals),
            run(&mut Rps::<Gps>::new(&tree(&weights)).unwrap(), &arrivals),
        ] {
            let largest = served.iter().map(|packet| i128::from(packet.len)).max().unwrap_or(0);
            let largest = largest * i128::from(crate::test_link::NS_PER_BYTE);
            delays_are_bounded(&weights, &served, |class, _| largest * i128::from(weights[class]))?;
        }
    }

    #[test]
    fn with_real_time_as_its_potential_the_server_is_virtual_clock((_, mut arrivals) in flat_traffic(200)) {
        // Rates in which a byte takes whole units of Virtual Clock's time.
        let weights = [1, 1, 2, 4, 8];
        arrivals.iter_mut().for_each(|arrival| arrival.class = 1 + arrival.len % 5);
        let expected = run(&mut VirtualClock::new(&tree(&weights)).unwrap(), &arrivals);
        prop_assert_eq!(run(&mut Rps::<RealTime>::new(&tree(&weights)).unwrap(), &arrivals), expected);
    }
}
