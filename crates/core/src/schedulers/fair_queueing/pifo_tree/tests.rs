use alloc::vec::Vec;

use super::*;
use crate::contract::{ClassConfig, DropReason, LinkConfig, Rate, Share};
use crate::schedulers::hpfq;

struct NoDrops;

impl DropSink for NoDrops {
    fn dropped(&mut self, _now: Nanos, packet: Packet, reason: DropReason) {
        panic!("{packet:?}: {reason:?}");
    }
}

/// A with A1 and A2, and B, all of weight 1.
fn tree() -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(8_000_000).unwrap()));
    let class = ClassConfig { share: Some(Share::Weight(1)), ..ClassConfig::default() };
    let a = tree.add(ClassId::ROOT, class).unwrap();
    tree.add(ClassId::ROOT, class).unwrap();
    tree.add(a, class).unwrap();
    tree.add(a, class).unwrap();
    tree.build().unwrap()
}

fn served(scheduler: &mut dyn Scheduler, arrivals: &[(u32, u32)]) -> Vec<(u32, u32)> {
    for (handle, &(class, len)) in arrivals.iter().enumerate() {
        let packet = Packet { class: ClassId(class), len, handle: handle as u64 };
        scheduler.enqueue(Nanos::ZERO, packet, &mut NoDrops);
    }
    let next = || match scheduler.dequeue(Nanos::ZERO, &mut NoDrops) {
        Dequeued::Packet(packet) => Some((packet.class.0, packet.len)),
        _ => None,
    };
    core::iter::from_fn(next).collect()
}

/// Returns the maximum distance of class 1, whose leaves are 3 and 4, from class 2 while both have packets, in bytes.
fn apart(order: &[(u32, u32)], arrivals: &[(u32, u32)]) -> i64 {
    let of = |class: u32| u32::from(class == 2);
    let mut left = [0u32, 0];
    arrivals.iter().for_each(|&(class, _)| left[of(class) as usize] += 1);
    let (mut ahead, mut low, mut high) = (0i64, 0, 0);
    for &(class, len) in order {
        ahead += if class == 2 { -i64::from(len) } else { i64::from(len) };
        left[of(class) as usize] -= 1;
        (low, high) = (low.min(ahead), high.max(ahead));
        if left.contains(&0) {
            break;
        }
    }
    high - low
}

#[test]
fn with_packets_of_one_length_siblings_are_never_more_than_a_packet_of_each_apart() {
    let arrivals: Vec<(u32, u32)> = (0..60).map(|n| ([3, 4, 2, 2][n % 4], 1000)).collect();
    let order = served(&mut PifoTree::new(&tree()).unwrap(), &arrivals);
    assert_eq!(order.len(), arrivals.len());
    assert!(apart(&order, &arrivals) <= 2000);
}

#[test]
fn where_lengths_differ_a_class_is_as_far_off_as_all_that_waits_below_it() {
    // A2's short packets come behind A1's long ones, and share with them inside A: for the ranks of long ones A sends
    // short packets.
    let long = (0..20).map(|_| (3, 1500));
    let short = (0..20).map(|_| (4, 100));
    let others = (0..60).map(|_| (2, 500));
    let arrivals: Vec<(u32, u32)> = long.chain(short).chain(others).collect();
    let pifo = apart(&served(&mut PifoTree::new(&tree()).unwrap(), &arrivals), &arrivals);
    let hpfq = apart(&served(&mut *(hpfq::INFO.build)(&tree(), Default::default()).unwrap(), &arrivals), &arrivals);
    assert!(hpfq <= 2 * 1500, "{hpfq}");
    assert!(pifo > 5 * hpfq, "{pifo} B where hpfq is {hpfq} B apart");
}
