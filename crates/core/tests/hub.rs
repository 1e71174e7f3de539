//! A hub allocates nothing after construction. It is a program of its own, because it counts with the allocator.
#![cfg(feature = "hub")]

use fairlink_core::{
    ClassConfig, ClassId, Driver, DropReason, Hierarchy, HubPort, Leniency, LinkConfig, Members, Nanos, Pacer, Packet,
    Rate, flow_bits, hub, registry,
};

#[test]
fn nothing_is_allocated_after_construction() {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::MAX));
    let leaves: Vec<ClassId> = (0..8).map(|_| tree.add(ClassId::ROOT, ClassConfig::default()).unwrap()).collect();
    let tree = tree.build().unwrap();
    let hls = registry::find("hls").unwrap().build(&tree, Leniency::Refuse, Members::new()).unwrap();
    let mut driver = Driver::new(hls, Pacer::new(Rate::MAX, Nanos(1_000))).unwrap();
    let (mut producers, receive): (Vec<_>, Vec<_>) = (0..4).map(|_| hub::ring(64)).unzip();
    let (transmit, mut consumers): (Vec<_>, Vec<_>) = (0..2).map(|_| hub::ring(64)).unzip();
    let (mut dropped, mut stood) = (0u64, 0u64);
    let drops = |_: Nanos, _: Packet, _: DropReason| dropped += 1;
    let mut port = HubPort::new(receive, transmit, Packet::flow, drops).unwrap();
    let info = allocation_counter::measure(|| {
        let mut random = 7u32;
        for turn in 0..20_000u64 {
            for producer in &mut producers {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Flows are in several rings at once, and transmit rings run full.
                let flow = (random >> 16) % 64;
                let class = leaves[flow as usize % leaves.len()];
                let _ = producer.push(Packet { handle: flow_bits(flow), len: 1000, class });
            }
            let _ = port.turn(Nanos(turn * 20), &mut driver);
            stood += u64::from(port.waiting() > 0);
            if turn % 64 == 0 {
                consumers.iter_mut().for_each(|ring| while ring.pop().is_ok() {});
            }
        }
    });
    assert_eq!(info.count_total, 0);
    assert!(stood > 0 && dropped > 0, "{stood} turns with packets that wait, {dropped} dropped");
}
