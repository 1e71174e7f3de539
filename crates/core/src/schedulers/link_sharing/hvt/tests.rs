use alloc::vec::Vec;

use super::*;
use crate::contract::{ClassConfig, LinkConfig, Share};
use crate::test_link::{LINK, flat, never, weighted};

fn packet(class: ClassId, len: u32, handle: u64) -> Packet {
    Packet { handle, len, class }
}

/// Sends everything; the classes in order.
fn drain(hvt: &mut Hvt) -> Vec<u32> {
    let mut order = Vec::new();
    while let Dequeued::Packet(packet) = hvt.dequeue(Nanos::ZERO, &mut never) {
        order.push(packet.class.0);
        crate::test_link::invariants(hvt).unwrap();
    }
    order
}

#[test]
fn classes_of_equal_weight_alternate() {
    let mut hvt = Hvt::new(&flat((0..3).map(|_| weighted(1)))).unwrap();
    for n in 0..9 {
        hvt.enqueue(Nanos::ZERO, packet(ClassId(n / 3 + 1), 1500, 0), &mut never);
    }
    assert_eq!(drain(&mut hvt), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
}
