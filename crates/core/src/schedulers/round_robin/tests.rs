//! Tests of all round robin schedulers: a visit ends when its last packet has been sent.

use crate::contract::{ClassConfig, Leniency, Members};
use crate::registry;
use crate::test_link::{Arrival, L_MAX, flat, newcomer, run, weighted};
use alloc::vec::Vec;

fn order(name: &str, arrivals: &[Arrival]) -> Vec<u32> {
    let tree = flat([1, 1].map(|weight| ClassConfig { quantum: Some(L_MAX), ..weighted(weight) }));
    let mut scheduler = registry::find(name).unwrap().build(&tree, Leniency::Ignore, Members::new()).unwrap();
    run(&mut *scheduler, arrivals).iter().map(|packet| packet.class).collect()
}

const FAMILY: [&str; 8] = ["drr", "drr+", "drr++", "drr++-mw00", "hdrr", "wrr", "hrr", "corr"];

#[test]
fn a_newcomer_does_not_wait_for_another_visit_to_the_class_that_was_sending() {
    for name in FAMILY {
        assert_eq!(order(name, &newcomer()), [1, 2, 1, 2, 1], "{name}");
    }
}

#[test]
fn a_class_that_has_sent_its_last_packet_leaves_the_list_before_the_next_is_chosen() {
    // Class 1 comes back when class 2, which came while its packet was sent, has its turn.
    for name in FAMILY {
        let [one, _, _, two, other] = newcomer()[..] else { unreachable!() };
        let back = Arrival { at: 13_000, ..one };
        assert_eq!(order(name, &[one, two, other, back]), [1, 2, 1, 2], "{name}");
    }
}
