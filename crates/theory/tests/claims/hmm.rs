//! The HMM solver against an independent one, against the rules that it must satisfy, and against misreports.

use crate::random::{
    CLAIMED, LIMITED, Plan, Shape, figure_1, fill, log_uniform, mbit, random_demand, random_request, rng, whole,
};
use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, MAX_DEPTH, Rate, Share};
use fairlink_theory::fast::Solver;
use fairlink_theory::floor_bps;
use fairlink_theory::hmm::Allocation;
use fairlink_theory::request::{Demand, Request};
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};
use rand::Rng;

const TREES: u64 = 200;

#[test]
fn hmm_agrees_exactly_with_filling_event_by_event() {
    let (mut bounded, mut lost) = (0, 0);
    for seed in 0..2 * TREES {
        let mut rng = rng(seed);
        let shape = if seed < TREES { &CLAIMED } else { &LIMITED };
        let tree = Plan::random(&mut rng, shape).build();
        let demand = random_demand(&mut rng, &tree);
        let solved = Allocation::solve(&tree, &demand);
        let filled = fill(&tree, &demand);
        let held = |class: &ClassId| solved.limited_by(*class) == Some(*class) && tree.config(*class).bounded;
        bounded += tree.classes().filter(held).count();
        let root = solved.class(ClassId::ROOT);
        let full = root.request.is_none_or(|request| request >= tree.link().rate.bps().into());
        lost += usize::from(full && root.allocation < whole(tree.link().rate.bps()));
        for (index, filled) in filled.iter().enumerate() {
            let class = ClassId(index as u32);
            assert_eq!(&solved.rate(class), filled, "seed {seed}, class {index}");
            assert_eq!(solved.floor_bps(class), floor_bps(filled), "seed {seed}, class {index}");
        }
    }
    assert!(bounded > 20 && lost > 20, "{bounded} classes held by what they may borrow, {lost} links not full");
}

/// (R1), (R2), the observation (O1) and the meaning of the flags, on every class.
fn check_rules(tree: &Hierarchy, demand: &Demand) {
    let solved = Allocation::solve(tree, demand);
    let link = whole(tree.link().rate.bps());
    let root = solved.class(ClassId::ROOT);
    let of = |class: ClassId| solved.rate(class);
    assert_eq!(root.allocation, root.request.map_or(link.clone(), |request| whole(request).min(link)));
    let is = |rate: Option<u128>, allocation: &BigRational| rate.is_some_and(|rate| whole(rate) == *allocation);
    for index in 0..tree.len() {
        let class = ClassId(index as u32);
        let this = solved.class(class);
        let children = tree.children(class);
        if !children.is_empty() {
            assert_eq!(children.iter().map(|&child| of(child)).sum::<BigRational>(), this.allocation, "(R2)");
        }
        for &i in children {
            let child = solved.class(i);
            assert!(child.request.is_none_or(|request| child.allocation <= whole(request)));
            assert_eq!(child.satisfied, is(child.request, &child.allocation));
            if child.satisfied {
                continue;
            }
            assert!(!is(this.wanted, &this.allocation), "(O1)");
            for &j in children {
                assert!(of(i) * whole(tree.weight(j)) >= of(j) * whole(tree.weight(i)), "(R1)");
            }
            let share = this.fair_share.as_ref().expect("a fair share where a child is not satisfied");
            assert_eq!(of(i), share * whole(tree.weight(i)));
        }
        assert_eq!(this.limited_by.is_none(), is(this.wanted, &this.allocation));
        match this.limited_by {
            Some(by) if by == class && class != ClassId::ROOT => {
                let ceiling = tree.config(class).ceiling.expect("held by a ceiling it has");
                assert_eq!(this.allocation, whole(ceiling.bps()));
                assert!(this.satisfied);
            }
            Some(by) if by != class => assert_eq!(tree.parent(class), Some(by)),
            _ => {}
        }
        let chain = solved.limiting_chain(class);
        assert_eq!(chain.first(), this.limited_by.as_ref());
        if let Some(&last) = chain.last() {
            assert_eq!(solved.class(last).limited_by, Some(last));
        }
    }
}

#[test]
fn hmm_satisfies_rules_r1_and_r2_at_every_class() {
    for seed in 1000..1000 + TREES {
        let mut rng = rng(seed);
        let tree = Plan::random(&mut rng, &CLAIMED).build();
        check_rules(&tree, &random_demand(&mut rng, &tree));
    }
}

/// Allocations in Mbit/s.
fn mbps<const N: usize>(solved: &Allocation, classes: [ClassId; N]) -> [f64; N] {
    classes.map(|class| fairlink_theory::to_f64(&solved.class(class).allocation) / 1e6)
}

#[test]
fn experiments_1_and_2_of_the_hls_paper_have_the_ideals_the_paper_gives() {
    let (tree, [a, b, c, a1, a2, b1, b2]) = figure_1();
    let of = |busy: &[ClassId]| {
        let demand = Demand::new(&tree, busy.iter().map(|&class| (class, Request::Unlimited))).unwrap();
        mbps(&Allocation::solve(&tree, &demand), [a1, a2, b1, b2, c])
    };
    assert_eq!(of(&[a1, a2, b1, b2, c]), [100.0, 200.0, 100.0, 200.0, 400.0]);
    assert_eq!(of(&[a2, b1, b2, c]), [0.0, 300.0, 100.0, 200.0, 400.0]);
    assert_eq!(of(&[a2, b2]), [0.0, 500.0, 0.0, 500.0, 0.0]);
    // Experiment 2: 3:3:4 while C sends, 1:1 without.
    assert_eq!(of(&[a1, b2, c]), [300.0, 0.0, 0.0, 300.0, 400.0]);
    assert_eq!(of(&[a1, b2]), [500.0, 0.0, 0.0, 500.0, 0.0]);
    let demand = Demand::new(&tree, [(a1, Request::Unlimited), (b2, Request::Unlimited), (c, Request::Unlimited)]);
    let solved = Allocation::solve(&tree, &demand.unwrap());
    assert_eq!(solved.class(a1).limited_by, Some(a));
    assert_eq!(solved.limiting_chain(a1), [a, ClassId::ROOT]);
    assert_eq!(solved.limiting_chain(b), [ClassId::ROOT]);
    assert!(solved.limiting_chain(b1).is_empty());
}

#[test]
fn a_ceiling_limits_and_says_so() {
    let mut tree = Hierarchy::builder(LinkConfig::new(mbit(100)));
    let weighted = |ceiling: Option<u64>| ClassConfig { ceiling: ceiling.map(mbit), ..ClassConfig::default() };
    let a = tree.add(ClassId::ROOT, weighted(Some(30))).unwrap();
    let b = tree.add(ClassId::ROOT, weighted(None)).unwrap();
    let a1 = tree.add(a, weighted(None)).unwrap();
    let a2 = tree.add(a, weighted(Some(5))).unwrap();
    let tree = tree.build().unwrap();
    let solved = Allocation::solve(&tree, &Demand::uniform(&tree, Request::Unlimited));
    assert_eq!(mbps(&solved, [a, b, a1, a2]), [30.0, 70.0, 25.0, 5.0]);
    assert_eq!(solved.limiting_chain(a1), [a]);
    assert_eq!(solved.limiting_chain(a), [a]);
    assert_eq!(solved.limiting_chain(a2), [a2]);
    assert_eq!(solved.limiting_chain(b), [ClassId::ROOT]);
    let satisfied = [a, b, a1, a2].map(|class| solved.class(class).satisfied);
    assert_eq!(satisfied, [true, false, false, true]);
}

/// The part of the rate of `class` that the leaves below it could truly use.
fn useful(class: &fairlink_theory::hmm::ClassAllocation, truth: Option<u128>) -> BigRational {
    truth.map_or(class.allocation.clone(), |truth| class.allocation.clone().min(whole(truth)))
}

#[test]
fn no_class_gains_by_misreporting_the_demand_of_its_leaves() {
    for seed in 2000..2000 + TREES {
        let mut rng = rng(seed);
        let tree = Plan::random(&mut rng, &CLAIMED).build();
        let demand = random_demand(&mut rng, &tree);
        let honest = Allocation::solve(&tree, &demand);
        for _ in 0..4 {
            let liar = ClassId(rng.random_range(1..tree.len()) as u32);
            let mut lie = demand.clone();
            for &leaf in tree.leaves().iter().filter(|&&leaf| below(&tree, leaf, liar)) {
                lie.set(&tree, leaf, random_request(&mut rng, tree.link().rate)).unwrap();
            }
            let told = Allocation::solve(&tree, &lie);
            let truth = honest.class(liar).wanted;
            assert!(useful(&told.class(liar), truth) <= honest.class(liar).allocation, "seed {seed}, {liar:?}");
        }
    }
}

#[test]
fn no_class_gains_by_rearranging_guarantees_among_its_descendants() {
    for seed in 3000..3000 + TREES {
        let mut rng = rng(seed);
        let mut plan = Plan::random(&mut rng, &CLAIMED);
        let tree = plan.build();
        let demand = random_demand(&mut rng, &tree);
        let honest = Allocation::solve(&tree, &demand);
        let cheat = ClassId(rng.random_range(1..tree.len()) as u32);
        let mut changed = 0;
        for class in tree.classes().filter(|&class| class != cheat && below(&tree, class, cheat)) {
            plan.weights[class.index() - 1] = log_uniform(&mut rng, CLAIMED.max_weight);
            changed += 1;
        }
        let rearranged = Allocation::solve(&plan.build(), &demand);
        for class in tree.classes().filter(|&class| class == cheat || !below(&tree, class, cheat)) {
            let mut expected = honest.class(class);
            if class == cheat {
                // Its internal sharing may change; its own rate and all others may not.
                expected.fair_share = rearranged.class(class).fair_share;
            }
            assert_eq!(rearranged.class(class), expected, "seed {seed}, {class:?}");
        }
        assert!(changed > 0 || tree.is_leaf(cheat));
    }
}

/// Returns true if `class` is `ancestor` or below it.
fn below(tree: &Hierarchy, mut class: ClassId, ancestor: ClassId) -> bool {
    loop {
        if class == ancestor {
            return true;
        }
        match tree.parent(class) {
            Some(parent) => class = parent,
            None => return false,
        }
    }
}

#[test]
fn the_integer_solver_is_less_than_one_bit_per_second_and_level_below_the_exact_one() {
    let extreme = Shape { levels: 1..=MAX_DEPTH, leaves: 1..=200, max_weight: 1_000_000_000_000, ..CLAIMED };
    let mut inexact = 0;
    for seed in 4000..4000 + TREES {
        let mut rng = rng(seed);
        let tree = Plan::random(&mut rng, [&CLAIMED, &LIMITED, &extreme][seed as usize % 3]).build();
        let mut solver = Solver::new(&tree);
        for _ in 0..2 {
            let demand = random_demand(&mut rng, &tree);
            let exact = Allocation::solve(&tree, &demand);
            let fast = solver.solve(tree.link().rate, &demand);
            for (index, &fast) in fast.iter().enumerate() {
                let short = exact.rate(ClassId(index as u32)) - whole(fast);
                let depth = tree.depth(ClassId(index as u32));
                assert!(!short.is_negative(), "seed {seed}, class {index}: {short} too much");
                // Only if nothing is reserved; else a class has the shortages of all leaves below it.
                let kept = tree.classes().any(|class| tree.config(class).isolated);
                let most = if kept { tree.levels() * tree.leaves().len() } else { depth.max(1) };
                assert!(short < whole(most), "seed {seed}, class {index}: {short} at depth {depth}");
                assert!(depth > 0 || kept || short.is_zero());
                inexact += usize::from(short > BigRational::one());
            }
        }
    }
    assert!(inexact > 0, "no case in which errors of several levels add up");
}

#[test]
fn a_million_leaves_of_the_largest_rates_and_weights_do_not_overflow() {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::MAX));
    let heavy = ClassConfig { share: Some(Share::Weight(1_000_000_000_000)), ..ClassConfig::default() };
    for _ in 0..1_000_000 {
        tree.add(ClassId::ROOT, heavy).unwrap();
    }
    let tree = tree.build().unwrap();
    let mut solver = Solver::new(&tree);
    let all = solver.solve(Rate::MAX, &Demand::uniform(&tree, Request::Rate(u64::MAX)));
    assert!(all[1..].iter().all(|&rate| rate == 1_000_000));
    let mut rng = rng(1);
    let demand = tree.leaves().iter().map(|&leaf| (leaf, Request::Rate(rng.random_range(0..4_000_000))));
    let demand = Demand::new(&tree, demand).unwrap();
    let sum: u64 = solver.solve(Rate::MAX, &demand)[1..].iter().sum();
    assert!(sum <= Rate::MAX.bps() && sum > Rate::MAX.bps() - 1_000_000, "{sum}");
}
