//! One leaf more or less, without a pass over the classes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::*;
use crate::contract::{MAX_DEPTH, QueueKind};

/// An inner class of weight 1 beside a leaf, with leaves of these weights below it, and more: (name, weight, ceiling).
fn tree(fixed: &[u64], more: &[(u32, u64, Option<u64>)]) -> (Hierarchy, BTreeMap<u32, ClassId>) {
    let mut tree = Hierarchy::builder(LinkConfig::new(LINK));
    let mut names = BTreeMap::new();
    let inner = tree.add(ClassId::ROOT, weighted(1)).unwrap();
    names.insert(1, tree.add(ClassId::ROOT, weighted(1)).unwrap());
    for (name, &weight) in (2..).zip(fixed) {
        names.insert(name, tree.add(inner, weighted(weight)).unwrap());
    }
    for &(name, weight, ceiling) in more {
        names.insert(name, tree.add(inner, limited(weight, ceiling)).unwrap());
    }
    (tree.build().unwrap(), names)
}

fn limited(weight: u64, ceiling: Option<u64>) -> ClassConfig {
    ClassConfig { ceiling: ceiling.map(|bps| Rate::from_bps(bps).unwrap()), ..weighted(weight) }
}

const ROOM: usize = 20;

/// The same leaves come and go one by one, and in a change of all classes: both send the same packets.
fn compare_singles(fixed: &[u64], weights: &[u64], steps: &[(u64, u8)]) {
    let mut more: Vec<(u32, u64, Option<u64>)> = Vec::new();
    let (first, mut at_once_ids) = tree(fixed, &more);
    let (mut one_by_one, mut at_once) = (Hvt::with_room(&first, ROOM).unwrap(), Hvt::new(&first).unwrap());
    let (mut ids, mut next, mut now) = (at_once_ids.clone(), 100, Nanos::ZERO);
    for (n, &(value, kind)) in (0u64..).zip(steps) {
        let pick =
            |names: &BTreeMap<u32, ClassId>, value: u64| *names.keys().nth(value as usize % names.len()).unwrap();
        let change = |more: &[(u32, u64, Option<u64>)], ids: &mut BTreeMap<u32, ClassId>, at_once: &mut Hvt| {
            let (after, after_ids) = tree(fixed, more);
            let mut survivors = alloc::vec![None; ids.len() + 2];
            ids.iter().for_each(|(name, id)| survivors[id.index()] = after_ids.get(name).copied());
            let mut dropped = Vec::new();
            let mut drops = |_, packet: Packet, _| dropped.push((packet.handle, packet.len));
            assert!(at_once.adopt(now, &mut Hvt::new(&after).unwrap(), &survivors, &mut drops));
            *ids = after_ids;
            dropped
        };
        match kind % 32 {
            0..=2 => {
                let (weight, ceiling) = (
                    weights[value as usize % weights.len()],
                    (value % 3 == 0).then_some(50_000_000 + value % 100_000_000),
                );
                let added = one_by_one.add_leaf(ClassId(1), &limited(weight, ceiling));
                assert_eq!(added.is_ok(), more.len() < ROOM, "{added:?}");
                if let Ok(id) = added {
                    more.push((next, weight, ceiling));
                    change(&more, &mut at_once_ids, &mut at_once);
                    assert_eq!(ids.insert(next, id), None);
                    next += 1;
                }
            }
            3..=5 if !more.is_empty() => {
                // One that is ahead of the clock, if there is one.
                let ahead = |&(name, ..): &(u32, u64, Option<u64>)| lead(&one_by_one, ids[&name]).1 > 0;
                let at = more.iter().position(ahead).filter(|_| value % 2 == 0).unwrap_or(value as usize % more.len());
                let (name, ..) = more.remove(at);
                let mut dropped = Vec::new();
                let id = ids.remove(&name).unwrap();
                one_by_one
                    .remove(now, id, &mut |_, packet: Packet, reason| {
                        assert_eq!((packet.class, reason), (id, DropReason::ClassRemoved));
                        dropped.push((packet.handle, packet.len));
                    })
                    .unwrap();
                assert_eq!(one_by_one.remove(now, id, &mut never), Err(SingleError::Class(id)));
                assert_eq!(change(&more, &mut at_once_ids, &mut at_once), dropped);
            }
            6..=18 => {
                for at in 0..2 {
                    let name = pick(&ids, value >> (8 * at));
                    let len = if value % 3 == 0 { 1 + (value >> 20) as u32 % 1500 } else { 1500 };
                    one_by_one.enqueue(now, packet(ids[&name].0, len, 2 * n + at), &mut never);
                    at_once.enqueue(now, packet(at_once_ids[&name].0, len, 2 * n + at), &mut never);
                }
            }
            _ => match (one_by_one.dequeue(now, &mut never), at_once.dequeue(now, &mut never)) {
                (Dequeued::Packet(one), Dequeued::Packet(other)) => {
                    assert_eq!((one.handle, one.len), (other.handle, other.len), "step {n}");
                    now = now.saturating_add(Nanos(u64::from(one.len) * NS_PER_BYTE));
                }
                (one, other) => {
                    assert_eq!(one, other);
                    now = now.saturating_add(Nanos(value % 100_000));
                }
            },
        }
        invariants(&one_by_one).unwrap();
        let rates = |hvt: &Hvt| [0, 1].map(|at| hvt.queues.nodes[at].rate);
        assert_eq!(rates(&one_by_one), rates(&at_once));
        assert_eq!(one_by_one.backlog(), at_once.backlog());
    }
}

fn steps() -> impl Strategy<Value = Vec<(u64, u8)>> {
    prop::collection::vec((any::<u64>(), any::<u8>()), 1..600)
}

proptest! {
    #[test]
    fn leaves_of_lists_come_and_go_as_in_a_change_of_all_classes(steps in steps()) {
        // The sum stays between two powers of two, and with the ones that come there are at most 24.
        compare_singles(&[1, 2, 3, 130], &[1, 2, 3, 1], &steps);
    }

    #[test]
    fn leaves_of_a_wheel_come_and_go_as_in_a_change_of_all_classes(steps in steps()) {
        // 10 and 11 are in the same half octave, 100 in another one. The sum stays below 2048.
        let fixed: Vec<u64> = core::iter::repeat_n(10, 20).chain([100; 9]).collect();
        compare_singles(&fixed, &[10, 11], &steps);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let (first, names) = tree(&[1, 2], &[]);
    let mut hvt = Hvt::with_room(&first, 2).unwrap();
    let inner = ClassId(1);
    let add = |hvt: &mut Hvt, parent, config: ClassConfig| hvt.add_leaf(parent, &config);
    assert_eq!(add(&mut hvt, names[&2], weighted(1)), Err(SingleError::Parent(names[&2])));
    assert_eq!(add(&mut hvt, ClassId(9), weighted(1)), Err(SingleError::Parent(ClassId(9))));
    assert_eq!(add(&mut hvt, inner, weighted(3)), Err(SingleError::Group));
    assert_eq!(add(&mut hvt, inner, weighted(1 << 40)), Err(SingleError::Units));
    assert_eq!(add(&mut hvt, inner, ClassConfig { queue: QueueKind::CoDel, ..weighted(1) }), Err(SingleError::Feature));
    assert_eq!(add(&mut hvt, inner, ClassConfig { latency_critical: true, ..weighted(1) }), Err(SingleError::Feature));
    for class in [ClassId::ROOT, inner, ClassId(9)] {
        assert_eq!(hvt.remove(Nanos::ZERO, class, &mut never), Err(SingleError::Class(class)));
    }
    assert_eq!(add(&mut hvt, inner, weighted(1)), Ok(ClassId(5)));
    assert_eq!(add(&mut hvt, ClassId::ROOT, weighted(1)), Ok(ClassId(6)));
    assert_eq!(add(&mut hvt, inner, weighted(1)), Err(SingleError::NoRoom));
    // The id of a removed leaf names nothing until it is given again.
    assert_eq!(hvt.remove(Nanos::ZERO, ClassId(5), &mut never), Ok(()));
    let mut reasons = Vec::new();
    hvt.enqueue(Nanos::ZERO, packet(5, 100, 0), &mut |_, _, reason| reasons.push(reason));
    assert_eq!(reasons, [DropReason::NotALeaf]);
    assert_eq!(add(&mut hvt, inner, weighted(2)), Ok(ClassId(5)));
    // An inner class with nothing below it goes, too.
    for class in [3, 4, 5, 1] {
        hvt.enqueue(Nanos::ZERO, packet(2, 100, 0), &mut never);
        assert_eq!(hvt.remove(Nanos::ZERO, ClassId(class), &mut never), Ok(()));
        invariants(&hvt).unwrap();
    }
    assert_eq!(add(&mut hvt, inner, weighted(1)), Err(SingleError::Parent(inner)));
    assert_eq!(drain(&mut hvt), [2; 4]);
    // A full list, and a class as deep as it may be.
    let mut full = Hvt::with_room(&flat([weighted(1); SCANNED]), 1).unwrap();
    assert_eq!(add(&mut full, ClassId::ROOT, weighted(1)), Err(SingleError::Group));
    let mut deep = Hierarchy::builder(LinkConfig::new(LINK));
    let last = (0..MAX_DEPTH).fold(ClassId::ROOT, |parent, _| deep.add(parent, weighted(1)).unwrap());
    let mut deep = Hvt::with_room(&deep.build().unwrap(), 1).unwrap();
    assert_eq!(add(&mut deep, ClassId(last.0 - 1), weighted(1)), Ok(ClassId(last.0 + 1)));
}
