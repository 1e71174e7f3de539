//! Queues that share their room against a plain model, and the effect of pushing out on fairness.

use super::*;
use crate::contract::{
    Amount, ClassConfig, ClassId, DropReason, Hierarchy, Leniency, LinkConfig, Members, Nanos, Packet, QueueLimits,
    WhenFull,
};
use crate::test_link::LINK;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::prelude::*;

fn tree(classes: usize, room: u32, when_full: WhenFull) -> Hierarchy {
    let limits = QueueLimits { packets: 12, bytes: 9_000 };
    let mut tree = Hierarchy::builder(LinkConfig { max_queued: room, when_full, ..LinkConfig::new(LINK) });
    for _ in 0..classes {
        tree.add(ClassId::ROOT, ClassConfig { limits, ..ClassConfig::default() }).unwrap();
    }
    tree.build().unwrap()
}

/// Queues by class; of those of one length, the one that has had it for longest is the first of `since`.
#[derive(Default)]
struct Model {
    queues: [VecDeque<(u64, u32)>; 4],
    since: Vec<usize>,
}

impl Model {
    fn changed(&mut self, class: usize) {
        self.since.retain(|&other| other != class);
        self.since.push(class);
    }

    /// Models an arrival: returns the drop, if any, and true if the packet is queued.
    fn arrive(&mut self, class: usize, packet: (u64, u32), room: usize) -> (Option<(u64, DropReason)>, bool) {
        let own = &self.queues[class];
        if own.len() >= 12 {
            return (Some((packet.0, DropReason::QueuePackets)), false);
        }
        if own.iter().map(|packet| packet.1).sum::<u32>() + packet.1 > 9_000 {
            return (Some((packet.0, DropReason::QueueBytes)), false);
        }
        let mut dropped = None;
        if self.queues.iter().map(VecDeque::len).sum::<usize>() >= room {
            let most = self.queues.iter().map(VecDeque::len).max().unwrap();
            if most <= own.len() || most < 2 {
                return (Some((packet.0, DropReason::TotalPackets)), false);
            }
            let longest = *self.since.iter().find(|&&class| self.queues[class].len() == most).unwrap();
            dropped = self.queues[longest].remove(1).map(|packet| (packet.0, DropReason::PushedOut));
            self.changed(longest);
        }
        self.queues[class].push_back(packet);
        self.changed(class);
        (dropped, true)
    }
}

proptest! {
    #[test]
    fn the_longest_queue_gives_way_and_never_its_head(
        room in 1u32..20,
        steps in prop::collection::vec((1usize..4, 0u8..5, 0u32..1500), 1..300),
    ) {
        let tree = tree(3, room, WhenFull::PushOut);
        let mut slab = PacketSlab::for_tree(&tree).unwrap();
        let mut queues: Vec<_> = (0..4).map(|class| slab.queue_for(&tree, ClassId(class))).collect();
        let mut model = Model::default();
        for (handle, (class, what, len)) in steps.into_iter().enumerate() {
            let handle = handle as u64;
            let heads: Vec<_> = queues.iter().map(LeafQueue::head_handle).collect();
            if what < 3 {
                let mut dropped = Vec::new();
                let packet = Packet { handle, len, class: ClassId(class as u32) };
                let taken = queues[class].enqueue(&mut slab, Nanos(1), packet, &mut |_: Nanos, packet: Packet, reason| {
                    dropped.push((packet.handle, reason));
                });
                let expected = model.arrive(class, (handle, len), room as usize);
                prop_assert_eq!((dropped.first().copied(), taken), expected);
                prop_assert!(dropped.len() <= 1);
                // No head but one of an empty queue has changed.
                for (queue, head) in queues.iter().zip(heads).filter(|(_, head)| head.is_some()) {
                    prop_assert_eq!(queue.head_handle(), head);
                }
            } else {
                let got = queues[class].dequeue(&mut slab, ClassId(class as u32), Nanos(1), &mut crate::test_link::never);
                prop_assert_eq!(got.map(|packet| (packet.handle, packet.len)), model.queues[class].pop_front());
                model.changed(class);
            }
            for (class, queue) in queues.iter().enumerate().skip(1) {
                let of = &model.queues[class];
                let bytes = of.iter().map(|packet| u64::from(packet.1)).sum();
                prop_assert_eq!(queue.backlog(&slab), Amount { packets: of.len() as u64, bytes });
                prop_assert_eq!(queue.head_len(), of.front().map(|packet| packet.1));
            }
            prop_assert_eq!(slab.queued() as usize, model.queues.iter().map(VecDeque::len).sum::<usize>());
        }
    }
}

/// The part of the packets of class 1, which sends half of its share under `drr`, that is lost while class 2 floods a buffer of 32 packets.
fn lost_beside_a_flood(when_full: WhenFull) -> f64 {
    let mut tree = Hierarchy::builder(LinkConfig { max_queued: 32, when_full, ..LinkConfig::new(LINK) });
    for _ in 0..2 {
        tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    }
    let tree = tree.build().unwrap();
    let info = crate::runtime::registry::find("drr").unwrap();
    let mut drr = info.build(&tree, Leniency::Refuse, Members::new()).unwrap();
    let mut lost = 0;
    let mut drops = |_: Nanos, packet: Packet, _: DropReason| lost += u32::from(packet.class == ClassId(1));
    for slot in 0..4_000u64 {
        // Of each four packets that the link sends, one is of class 1, and four of class 2 arrive for each of them.
        for _ in 0..4 {
            drr.enqueue(Nanos(slot), Packet { handle: slot, len: 1500, class: ClassId(2) }, &mut drops);
        }
        if slot % 4 == 0 {
            drr.enqueue(Nanos(slot), Packet { handle: slot, len: 1500, class: ClassId(1) }, &mut drops);
        }
        let _ = drr.dequeue(Nanos(slot), &mut |_: Nanos, packet: Packet, _| panic!("{packet:?}"));
    }
    f64::from(lost) / 1_000.0
}

#[test]
fn a_flood_takes_the_buffer_from_others_under_tail_drop_and_not_under_push_out() {
    let [tail, push] = [WhenFull::DropArrival, WhenFull::PushOut].map(lost_beside_a_flood);
    assert!(tail > 0.9, "tail drop: {tail}");
    assert!(push == 0.0, "push-out: {push}");
}
