//! The online measurement of Definition 1 against the definition itself, on random traces.

use fairlink_core::{ClassId, Hierarchy, Rate};
use fairlink_theory::fairness::FairnessMeter;
use fairlink_theory::weights::Weights;
use num_rational::BigRational;
use num_traits::{Signed, Zero};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::random::{CLAIMED, Plan, Shape, figure_1, rng, whole};

#[derive(Clone, Copy, Debug)]
enum Event {
    Backlogged(ClassId),
    Served(ClassId, u64),
    Idle(ClassId),
}

fn random_trace(rng: &mut ChaCha8Rng, tree: &Hierarchy, events: usize) -> Vec<Event> {
    let mut backlogged = vec![false; tree.len()];
    let mut trace = Vec::new();
    while trace.len() < events {
        let leaf = tree.leaves()[rng.random_range(0..tree.leaves().len())];
        match (backlogged[leaf.index()], rng.random_range(0..8)) {
            (false, 0..5) => trace.push(Event::Backlogged(leaf)),
            (true, 0) => trace.push(Event::Idle(leaf)),
            (true, _) => {
                trace.push(Event::Served(leaf, rng.random_range(1..1500)));
                continue;
            }
            _ => continue,
        }
        backlogged[leaf.index()] = !backlogged[leaf.index()];
    }
    trace
}

fn play(meter: &mut FairnessMeter<'_>, trace: &[Event]) {
    for &event in trace {
        match event {
            Event::Backlogged(leaf) => meter.backlogged(leaf),
            Event::Served(leaf, bytes) => meter.served(leaf, bytes),
            Event::Idle(leaf) => meter.idle(leaf),
        }
    }
}

/// Definition 1 literally for classes i and j: every interval between two events in which both are backlogged
/// throughout, with its services summed separately.
fn by_definition(tree: &Hierarchy, weights: &Weights, trace: &[Event], i: ClassId, j: ClassId) -> BigRational {
    let below = |leaf: ClassId, class: ClassId| {
        let mut at = Some(leaf);
        std::iter::from_fn(|| {
            let this = at?;
            at = tree.parent(this);
            Some(this)
        })
        .any(|ancestor| ancestor == class)
    };
    // Backlog of each before each event.
    let mut leaves: Vec<ClassId> = Vec::new();
    let mut both = Vec::new();
    for &event in trace {
        both.push([i, j].iter().all(|&class| leaves.iter().any(|&leaf| below(leaf, class))));
        match event {
            Event::Backlogged(leaf) => leaves.push(leaf),
            Event::Idle(leaf) => leaves.retain(|&other| other != leaf),
            Event::Served(..) => {}
        }
    }
    let mut largest = BigRational::zero();
    for start in 0..trace.len() {
        let mut served = [0u64; 2];
        for end in start..trace.len() {
            if !both[end] {
                break;
            }
            if let Event::Served(leaf, bytes) = trace[end] {
                served[0] += if below(leaf, i) { bytes } else { 0 };
                served[1] += if below(leaf, j) { bytes } else { 0 };
            }
            let difference = whole(served[0]) / weights.bytes(i) - whole(served[1]) / weights.bytes(j);
            largest = largest.max(difference.abs());
        }
    }
    largest
}

#[test]
fn the_meter_measures_definition_1_exactly() {
    let shape = Shape { levels: 1..=4, leaves: 2..=7, ..CLAIMED };
    let mut inner = 0;
    for seed in 0..60 {
        let mut rng = rng(seed);
        let tree = Plan::random(&mut rng, &shape).build();
        let weights = Weights::as_written(&tree, rng.random_range(1..5000)).unwrap();
        let trace = random_trace(&mut rng, &tree, 80);
        let mut meter = FairnessMeter::new(&tree, &weights);
        play(&mut meter, &trace);
        let mut worst: Option<BigRational> = None;
        for i in tree.classes() {
            for j in tree.classes().filter(|&j| j > i && tree.parent(i) == tree.parent(j)) {
                let expected = by_definition(&tree, &weights, &trace, i, j);
                assert_eq!(meter.alpha_between(i, j).as_ref(), Some(&expected), "seed {seed}, {i:?} {j:?}");
                assert_eq!(meter.alpha_between(j, i).as_ref(), Some(&expected));
                inner += usize::from(!tree.is_leaf(i) && !expected.is_zero());
                worst = worst.max(Some(expected));
            }
        }
        assert_eq!(meter.alpha().map(|pair| pair.value), worst, "seed {seed}");
        assert!(meter.is_exact());
    }
    assert!(inner > 10, "{inner} pairs with an inner class");
}

#[test]
fn service_alternating_by_weight_is_as_fair_as_one_turn_and_backlog_alone_counts() {
    let (tree, [a, b, c, a1, a2, b1, _]) = figure_1();
    let weights = Weights::as_written(&tree, 1_000_000).unwrap();
    let mut meter = FairnessMeter::new(&tree, &weights);
    // A1 alone may have any amount.
    meter.backlogged(a1);
    meter.served(a1, 1_000_000);
    assert!(meter.alpha().unwrap().value.is_zero());
    meter.backlogged(a2);
    for _ in 0..100 {
        meter.served(a1, 1000);
        meter.served(a2, 2000);
    }
    // At the worst 1000 B at a weight of 100, and never more.
    let worst = meter.alpha().unwrap();
    assert_eq!((worst.classes, worst.value), ((a1, a2), whole(10)));
    // 10 B per Mbit/s of guarantee are 80 us.
    let gbit = Rate::from_bps(1_000_000_000).unwrap();
    assert_eq!(meter.fairness_seconds(gbit).unwrap().value, whole(80) / whole(1_000_000));
    // B is backlogged as long as B1 is; A was served 3000 B per turn of B1's 300.
    meter.backlogged(b1);
    meter.served(a1, 3000);
    meter.served(b1, 300);
    assert_eq!(meter.alpha_between(a, b), Some(whole(10)));
    assert_eq!(meter.alpha_between(a, c), Some(whole(0)));
    assert_eq!(meter.alpha_between(a1, b1), None);
    meter.idle(b1);
    meter.served(a1, 30_000);
    meter.backlogged(b1);
    assert_eq!(meter.alpha_between(a, b), Some(whole(10)));
    assert_eq!(meter.alpha_between(a1, a2), Some(whole(330)));
}

#[test]
fn among_many_siblings_some_pairs_give_a_lower_bound() {
    let shape = Shape { levels: 1..=1, leaves: 60..=60, ..CLAIMED };
    for seed in 0..10 {
        let mut rng = rng(seed);
        let tree = Plan::random(&mut rng, &shape).build();
        let weights = Weights::as_written(&tree, 1).unwrap();
        let trace = random_trace(&mut rng, &tree, 2000);
        let mut all = FairnessMeter::new(&tree, &weights);
        let mut some = FairnessMeter::with_all_pairs_up_to(&tree, &weights, 59);
        play(&mut all, &trace);
        play(&mut some, &trace);
        assert!(all.is_exact() && !some.is_exact());
        let (all, some) = (all.alpha().unwrap().value, some.alpha().unwrap().value);
        assert!(some <= all && some > BigRational::zero(), "seed {seed}: {some} of {all}");
    }
}

#[test]
#[should_panic(expected = "class 4 is not backlogged")]
fn service_of_an_idle_leaf_is_a_bug_of_the_caller() {
    let (tree, [.., a1, _, _, _]) = figure_1();
    let weights = Weights::as_written(&tree, 1).unwrap();
    FairnessMeter::new(&tree, &weights).served(a1, 1);
}
