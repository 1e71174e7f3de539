use super::lanes::rank;
use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Makes a queue with all queries enabled: the storage for `ids`, or lanes.
fn of_kind(kind: usize, ids: usize) -> Heap {
    let also = Also { last: true, ahead: true };
    if kind == 0 { Heap::knowing(ids, also).unwrap() } else { Heap::Lanes(Lanes::new(ids, also).unwrap()) }
}

proptest! {
    #[test]
    fn ids_leave_by_key_and_equal_keys_in_the_order_in_which_they_came(
        kind in 0usize..2, steps in proptest::collection::vec((0u32..40, 0u8..6, 0u128..8), 1..300)
    ) {
        let mut heap = of_kind(kind, 40);
        // The same as a sorted list of (key, number of the change, id).
        let mut model: Vec<(u128, usize, u32)> = Vec::new();
        for (number, (id, what, key)) in steps.into_iter().enumerate() {
            let known = model.iter().position(|entry| entry.2 == id);
            prop_assert_eq!(heap.key(id), known.map(|at| model[at].0));
            prop_assert_eq!(heap.contains(id), known.is_some());
            if what < 4 {
                heap.set(id, key);
                if let Some(at) = known {
                    model.remove(at);
                }
                model.push((key, number, id));
                model.sort_unstable();
            } else if what == 4 {
                prop_assert_eq!(heap.remove(id), known.map(|at| model.remove(at).0));
            } else {
                let popped = if model.is_empty() { None } else { Some(model.remove(0)) };
                prop_assert_eq!(heap.pop(), popped.map(|entry| (entry.2, entry.0)));
            }
            prop_assert_eq!(heap.len(), model.len());
            prop_assert_eq!(heap.first(), model.first().map(|entry| (entry.2, entry.0)));
            prop_assert_eq!(heap.second(), model.get(1).map(|entry| (entry.2, entry.0)));
            #[cfg(feature = "invariants")]
            prop_assert_eq!(heap.check(), Ok(()));
        }
    }
}

#[test]
fn lowered_keys_keep_their_order_and_a_cleared_heap_is_empty() {
    for kind in 0..2 {
        let mut heap = of_kind(kind, 3);
        heap.set(2, 12);
        heap.set(0, 10);
        heap.set(1, 12);
        assert_eq!(heap.lower(99), 10);
        assert_eq!((heap.first(), heap.key(1)), (Some((0, 0)), Some(2)));
        assert_eq!((heap.pop(), heap.pop()), (Some((0, 0)), Some((2, 2))));
        heap.clear();
        assert!(heap.is_empty() && !heap.contains(1) && heap.second().is_none());
        assert_eq!((heap.remove(1), heap.remove(99), heap.key(99)), (None, None, None));
    }
}

#[test]
fn ranks_never_contradict_keys() {
    let near = |at: u128| (0..4).flat_map(move |by| [at.saturating_sub(by), at.saturating_add(by)]);
    let mut keys: Vec<u128> = (0..128).flat_map(|bit| near(1 << bit)).chain(near(u128::MAX)).collect();
    keys.extend(keys.clone().into_iter().map(|key| u128::MAX - key));
    keys.sort_unstable();
    assert!(keys.windows(2).all(|pair| rank(pair[0]) <= rank(pair[1])));
    assert!([0, 1, (1 << 57) - 1].map(rank) == [0, 1, (1 << 57) - 1] && rank(u128::MAX) == u64::MAX);
}

#[test]
fn while_all_ids_are_in_one_lane_it_is_known_who_comes_later() {
    let mut heap = Heap::Lanes(Lanes::<()>::new(100, AHEAD).unwrap());
    (0..100).for_each(|id| heap.set_by(id, u128::from(id) * 10, 7));
    assert!((0..100).all(|by| heap.ahead(by) == Some(by)));
    assert_eq!(heap.ahead(100), None);
    for turn in 0..1000u32 {
        let (id, key) = heap.pop().unwrap();
        heap.set_by(id, key + 1000, 7);
        assert_eq!((id, heap.ahead(24)), (turn % 100, Some((turn + 25) % 100)));
    }
    // An id in its own lane has no known last key.
    heap.set_by(50, 0, 1);
    assert_eq!((heap.first(), heap.ahead(1)), (Some((50, 0)), None));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Returns the first under its key and one of a few steps, as schedulers do.
    Again(u8),
    Set(u32, u128),
    Remove(u32),
    Pop,
    Lower(u128),
    /// Removes all, one after the other.
    Drain,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let key = prop_oneof![0u128..50, 0u128..1 << 70, Just(u128::MAX), (0u128..50).prop_map(|key| u128::MAX - key)];
    prop_oneof![
        30 => (0u8..3).prop_map(Step::Again),
        20 => (any::<u32>(), key).prop_map(|(id, key)| Step::Set(id, key)),
        8 => any::<u32>().prop_map(Step::Remove),
        8 => Just(Step::Pop),
        1 => (0u128..1 << 70).prop_map(Step::Lower),
        2 => Just(Step::Drain),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #[test]
    fn however_ids_are_stored_they_leave_as_from_an_ordered_map(
        kind in 0usize..2,
        ids in prop_oneof![3 => 1u32..20, 1 => 30u32..100, 1 => 64u32..66],
        steps in proptest::collection::vec(step(), 1..600),
    ) {
        let mut heap = of_kind(kind, ids as usize);
        let mut model = std::collections::BTreeMap::new();
        let mut keys: Vec<Option<(u128, usize)>> = alloc::vec![None; ids as usize];
        for (number, step) in steps.into_iter().enumerate() {
            let first = model.first_key_value().map(|(&(key, _), &id)| (id, key));
            let (change, taken) = match step {
                Step::Again(which) => {
                    let (id, key) = first.unwrap_or((ids / 2, 0u128));
                    (Some((id, key.saturating_add([1 << 9, 1 << 12, 5 << 66][usize::from(which)]))), None)
                }
                Step::Set(id, key) => (Some((id % ids, key)), None),
                Step::Remove(id) => (None, Some(id % ids)),
                Step::Pop => (None, first.map(|(id, _)| id)),
                Step::Lower(by) => {
                    let by = first.map_or(by, |(_, key)| key.min(by));
                    prop_assert_eq!(heap.lower(by), by);
                    model = model.into_iter().map(|((key, number), id)| ((key - by, number), id)).collect();
                    keys.iter_mut().flatten().for_each(|key| key.0 -= by);
                    (None, None)
                }
                Step::Drain => {
                    let order: Vec<_> = core::iter::from_fn(|| heap.pop()).collect();
                    prop_assert_eq!(order, model.iter().map(|(&(key, _), &id)| (id, key)).collect::<Vec<_>>());
                    model.clear();
                    keys.fill(None);
                    (None, None)
                }
                Step::Clear => {
                    heap.clear();
                    model.clear();
                    keys.fill(None);
                    (None, None)
                }
            };
            if let Some((id, key)) = change {
                heap.set(id, key);
                keys[id as usize].replace((key, number)).map(|key| model.remove(&key));
                model.insert((key, number), id);
            }
            if let Some(id) = taken {
                let key = keys[id as usize].take().inspect(|key| assert!(model.remove(key).is_some())).map(|key| key.0);
                let popped = matches!(step, Step::Pop).then(|| heap.pop().map(|(_, key)| key));
                prop_assert_eq!(popped.unwrap_or_else(|| heap.remove(id)), key);
            }
            #[cfg(feature = "invariants")]
            prop_assert_eq!(heap.check(), Ok(()));
            prop_assert_eq!(heap.is_empty(), model.is_empty());
            let mut order = model.iter().map(|(&(key, _), &id)| (id, key));
            prop_assert_eq!(heap.first(), order.next());
            prop_assert_eq!(heap.second(), order.next());
            prop_assert_eq!(heap.last_key(), model.last_key_value().map(|(&(key, _), _)| key));
            for id in 0..ids {
                prop_assert_eq!(heap.key(id), keys[id as usize].map(|key| key.0));
            }
        }
    }
}
