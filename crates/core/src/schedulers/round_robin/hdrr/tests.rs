//! HDRR against \[hls\] Lemmas 8 and 9.

use super::*;
use crate::contract::LinkConfig;
use crate::parts::virtual_time::HIGH;
use crate::test_link::{L_MAX, LINK, invariants, never, weighted};
use alloc::vec::Vec;
use proptest::prelude::*;

/// Inner classes and leaves; the parent of each is one of those before it.
fn tree(classes: &[(prop::sample::Index, u64)]) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: L_MAX, ..LinkConfig::new(LINK) });
    for (index, &(parent, weight)) in classes.iter().enumerate() {
        tree.add(ClassId(parent.index(index + 1) as u32), weighted(weight)).unwrap();
    }
    tree.build().unwrap()
}

fn put(hdrr: &mut Hdrr, class: u32, len: u32) {
    hdrr.enqueue(Nanos::ZERO, Packet { handle: 0, len, class: ClassId(class) }, &mut never);
}

/// Returns the next packet, and true if a visit begins with it.
fn take(hdrr: &mut Hdrr) -> Option<(u32, u32, bool)> {
    let begins = hdrr.visited == NIL;
    let dequeued = hdrr.dequeue(Nanos::ZERO, &mut never);
    invariants(hdrr).unwrap();
    match dequeued {
        Dequeued::Packet(packet) => Some((packet.class.0, packet.len, begins)),
        _ => None,
    }
}

#[test]
fn visits_are_interleaved_by_weight_at_each_level() {
    // A (weight 2) with a1 and a2 (1 and 2), B (weight 1): A's every third visit goes to a1.
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 100, ..LinkConfig::new(LINK) });
    let a = tree.add(ClassId::ROOT, weighted(2)).unwrap();
    let b = tree.add(ClassId::ROOT, weighted(1)).unwrap();
    let (a1, a2) = (tree.add(a, weighted(1)).unwrap(), tree.add(a, weighted(2)).unwrap());
    let mut hdrr = Hdrr::new(&tree.build().unwrap()).unwrap();
    for _ in 0..20 {
        [a1, a2, b].iter().for_each(|leaf| put(&mut hdrr, leaf.0, 100));
    }
    let order: Vec<u32> = (0..18).map(|_| take(&mut hdrr).unwrap().0).collect();
    let (a1, a2, b) = (a1.0, a2.0, b.0);
    assert_eq!(order, [[a2, b, a1], [a2, b, a2], [a1, b, a2], [a2, b, a1], [a2, b, a2], [a1, b, a2]].concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn k_visits_send_k_quanta_within_a_packet_and_a_leaf_is_visited_once_in_beta_visits(
        classes in prop::collection::vec((any::<prop::sample::Index>(), 1u64..=4), 1..12),
        steps in prop::collection::vec((any::<prop::sample::Index>(), 1u32..=L_MAX, any::<bool>()), 600),
    ) {
        let tree = tree(&classes);
        let mut hdrr = Hdrr::new(&tree).unwrap();
        // Every second leaf is backlogged all the time; the others come and go.
        let leaves = tree.leaves();
        for leaf in leaves.iter().step_by(2) {
            (0..2).for_each(|_| put(&mut hdrr, leaf.0, L_MAX));
        }
        // Lemma 9.
        let beta = |mut class: ClassId| {
            let mut product = 1;
            while let Some(parent) = tree.parent(class) {
                product *= tree.children_weight(parent);
                class = parent;
            }
            product
        };
        let (mut sent, mut visits) = (alloc::vec![0i64; tree.len()], alloc::vec![0i64; tree.len()]);
        let mut since = alloc::vec![0; tree.len()];
        for (which, len, comes) in steps {
            let guest = leaves[which.index(leaves.len())];
            if comes && hdrr.class_backlog(guest).packets == 0 {
                put(&mut hdrr, guest.0, len);
                since[guest.index()] = 0;
            }
            let (class, bytes, begins) = take(&mut hdrr).unwrap();
            let index = class as usize;
            sent[index] += i64::from(bytes);
            let busy = leaves.iter().step_by(2).any(|leaf| leaf.0 == class);
            if busy {
                put(&mut hdrr, class, len);
            }
            if !begins {
                continue;
            }
            visits[index] += 1;
            since.iter_mut().for_each(|visits| *visits += 1);
            since[index] = 0;
            for leaf in leaves.iter().filter(|&&leaf| hdrr.class_backlog(leaf).packets > 0) {
                prop_assert!(since[leaf.index()] < beta(*leaf), "{leaf:?} after {} visits", since[leaf.index()]);
            }
            for leaf in leaves.iter().step_by(2).filter(|leaf| leaf.0 != class) {
                // Lemma 8, since the start.
                let ahead = sent[leaf.index()] - visits[leaf.index()] * i64::from(L_MAX);
                prop_assert!(ahead.abs() <= i64::from(L_MAX), "{leaf:?} is {ahead} B ahead");
            }
        }
    }

    #[test]
    fn siblings_that_stay_backlogged_are_visited_by_their_weights_within_one(
        weights in prop::collection::vec(1u64..9, 2..6), guests in prop::collection::vec(any::<prop::sample::Index>(), 300)
    ) {
        let classes: Vec<_> = weights.iter().map(|&weight| weighted(weight)).collect();
        let mut hdrr = Hdrr::new(&crate::test_link::flat(classes)).unwrap();
        (0..4).for_each(|packet| put(&mut hdrr, 1 + packet % 2, L_MAX));
        let (mut ahead, mut least, mut most) = (0, 0, 0);
        let (own, other) = (weights[0] as i64, weights[1] as i64);
        for guest in guests {
            let guest = 1 + guest.index(weights.len()) as u32;
            if hdrr.class_backlog(ClassId(guest)).packets == 0 {
                put(&mut hdrr, guest, L_MAX);
            }
            let (class, ..) = take(&mut hdrr).unwrap();
            if class <= 2 {
                put(&mut hdrr, class, L_MAX);
                ahead += if class == 1 { other } else { -own };
            }
            (least, most) = (i64::min(least, ahead), i64::max(most, ahead));
        }
        prop_assert!(most - least <= own * other, "{} of {}", most - least, own * other);
    }

    #[test]
    fn tags_that_are_lowered_do_not_change_the_order(
        classes in prop::collection::vec((any::<prop::sample::Index>(), 1u64..=9), 1..12), lens in prop::collection::vec(1u32..=L_MAX, 200)
    ) {
        let tree = tree(&classes);
        let run = |start: u128| {
            let mut hdrr = Hdrr::new(&tree).unwrap();
            hdrr.inners.iter_mut().for_each(|inner| inner.tags.skip_to(start));
            for (index, &len) in lens.iter().enumerate() {
                put(&mut hdrr, tree.leaves()[index % tree.leaves().len()].0, len);
            }
            let order: Vec<_> = core::iter::from_fn(|| take(&mut hdrr)).collect();
            prop_assert!(hdrr.inners.iter().all(|inner| inner.tags.v < HIGH));
            Ok(order)
        };
        prop_assert_eq!(run(0)?, run(HIGH - 1)?);
    }
}
