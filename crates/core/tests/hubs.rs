//! Hubs allocate nothing after construction, also while classes move. It is a program of its own, because it counts
//! with the allocator.
#![cfg(all(feature = "hub", feature = "shared"))]

use fairlink_core::{
    ClassConfig, ClassId, DropReason, Hierarchy, Hubs, HubsConfig, LinkConfig, Nanos, Packet, Rate, SharedConfig,
    SharedTree, flow_bits,
};

#[test]
fn nothing_is_allocated_after_construction() {
    let link = LinkConfig::new(Rate::from_bps(10_000_000_000).unwrap());
    let mut tree = Hierarchy::builder(link);
    let mut leaves = Vec::new();
    let mut tops = Vec::new();
    for _ in 0..4 {
        tops.push(tree.add(ClassId::ROOT, ClassConfig::default()).unwrap());
        leaves.extend([(); 3].map(|()| tree.add(tops[tops.len() - 1], ClassConfig::default()).unwrap()));
    }
    let shared = SharedTree::new(tree.build().unwrap(), SharedConfig::for_link(&link)).unwrap();
    let config = HubsConfig { hubs: 3, receivers: 2, transmitters: 2, ring: 64, held: 100 };
    let drops = |_: usize| |_: Nanos, _: Packet, _: DropReason| {};
    let Hubs { mut receivers, mut hubs, mut transmitters, mut balancer } =
        Hubs::new(&shared, config, Packet::flow, drops).unwrap();
    let mut out = Vec::with_capacity(64);
    let (mut pushed, mut left, mut balanced) = (0u64, 0usize, 0);
    let info = allocation_counter::measure(|| {
        let mut random = 7u32;
        for turn in 0..30_000u64 {
            for (number, receiver) in receivers.iter_mut().enumerate() {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let flow = (random >> 16) % 32 * 2 + number as u32;
                let class = leaves[flow as usize % leaves.len()];
                pushed += u64::from(receiver.push(Packet { handle: flow_bits(flow), len: 1000, class }).is_ok());
            }
            hubs.iter_mut().for_each(|hub| _ = hub.turn(Nanos(turn * 1500)));
            // Transmit rings run full.
            if turn % 16 == 0 {
                for transmitter in &mut transmitters {
                    for _ in 0..4 {
                        left += transmitter.take(&mut out);
                        out.clear();
                    }
                }
            }
            if turn % 200 == 0 {
                let _ = balancer.start(tops[(random >> 8) as usize % 4], (random >> 20) as usize % 3);
            } else if turn % 1000 == 501 {
                balanced += usize::from(balancer.balance().is_some());
            }
        }
    });
    assert_eq!(info.count_total, 0);
    assert!(balancer.moves() > 50 && balanced > 0, "{} moves, {balanced} of them for balance", balancer.moves());
    assert!(pushed > 50_000 && left > 40_000, "{pushed} pushed, {left} left");
}
