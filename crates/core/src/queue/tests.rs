//! Leaf queues against plain models.

use super::*;
use crate::contract::{ClassId, DropReason, Nanos, Packet, QueueLimits};
use crate::test_link::never;
use alloc::collections::VecDeque;
use proptest::prelude::*;

fn packet(handle: u64, len: u32) -> Packet {
    Packet { handle, len, class: ClassId(1) }
}

#[test]
fn each_limit_is_named_when_it_is_hit() {
    let mut slab = PacketSlab::new(3).unwrap();
    let mut queue = LeafQueue::new(QueueLimits { packets: 2, bytes: 100 });
    assert_eq!(queue.push(&mut slab, packet(1, 101)).unwrap_err().1, DropReason::QueueBytes);
    queue.push(&mut slab, packet(2, 60)).unwrap();
    assert_eq!(queue.push(&mut slab, packet(3, 41)).unwrap_err().1, DropReason::QueueBytes);
    queue.push(&mut slab, packet(4, 40)).unwrap();
    assert_eq!(queue.push(&mut slab, packet(5, 0)).unwrap_err().1, DropReason::QueuePackets);
    let mut other = LeafQueue::new(QueueLimits::default());
    other.push(&mut slab, packet(6, 1)).unwrap();
    assert_eq!(other.push(&mut slab, packet(7, 1)).unwrap_err().1, DropReason::TotalPackets);
    assert_eq!(
        queue.dequeue_within(&mut slab, ClassId(9), u64::MAX, Nanos::ZERO, &mut never).unwrap(),
        Packet { handle: 2, len: 60, class: ClassId(9) }
    );
    other.push(&mut slab, packet(8, u32::MAX - 1)).unwrap();
    assert_eq!(other.push(&mut slab, packet(9, 1)).unwrap_err().1, DropReason::QueueBytes);
}

proptest! {
    #[test]
    fn queues_over_one_slab_behave_as_separate_fifos(
        steps in proptest::collection::vec((0usize..3, any::<bool>(), 0u32..2000), 1..400)
    ) {
        let limits = QueueLimits { packets: 20, bytes: 15_000 };
        let mut slab = PacketSlab::new(40).unwrap();
        let mut queues = [LeafQueue::new(limits), LeafQueue::new(limits), LeafQueue::new(limits)];
        let mut model: [VecDeque<(u64, u32)>; 3] = Default::default();
        for (handle, (which, push, len)) in steps.into_iter().enumerate() {
            let handle = handle as u64;
            if push {
                let all: usize = model.iter().map(VecDeque::len).sum();
                let bytes: u32 = model[which].iter().map(|p| p.1).sum();
                let fits = model[which].len() < 20 && bytes + len <= 15_000 && all < 40;
                prop_assert_eq!(queues[which].push(&mut slab, packet(handle, len)).is_ok(), fits);
                if fits {
                    model[which].push_back((handle, len));
                }
            } else {
                let got = queues[which].dequeue_within(&mut slab, ClassId(1), u64::MAX, Nanos::ZERO, &mut never).map(|p| (p.handle, p.len));
                prop_assert_eq!(got, model[which].pop_front());
            }
            prop_assert_eq!(queues[which].head_len(), model[which].front().map(|p| p.1));
            prop_assert_eq!(queues[which].backlog(&slab).packets as usize, model[which].len());
            prop_assert_eq!(slab.queued() as usize, model.iter().map(VecDeque::len).sum::<usize>());
        }
    }
}
