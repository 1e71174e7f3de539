use super::*;
use fairlink_core::{ClassConfig, LinkConfig};
use num_traits::ToPrimitive;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

fn class(guarantee: u64) -> ClassConfig {
    ClassConfig { share: Some(Share::Guarantee(rate(guarantee))), ..ClassConfig::default() }
}

const A: ClassId = ClassId(1);

/// Figure 1 of \[hls\] with these guarantees of A1 and A2, in Mbit/s.
fn figure_1(a1: u64, a2: u64) -> Hierarchy {
    let mbit = |mbps| class(mbps * 1_000_000);
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(1_000_000_000)));
    for (parent, mbps) in [(0, 300), (0, 300), (0, 400), (1, a1), (1, a2), (2, 100), (2, 200)] {
        tree.add(ClassId(parent), mbit(mbps)).unwrap();
    }
    tree.build().unwrap()
}

fn busy(tree: &Hierarchy, leaves: &[u32]) -> Demand {
    Demand::new(tree, leaves.iter().map(|&leaf| (ClassId(leaf), Request::Unlimited))).unwrap()
}

fn mbps(rate: &BigRational) -> f64 {
    rate.to_f64().unwrap() / 1e6
}

#[test]
fn bundling_gains_nothing_under_hmm_and_107_mbit_under_htb() {
    let tree = figure_1(100, 200);
    let demand = busy(&tree, &[4, 7]);
    let hmm = Rule::Hmm.rearrangements(&tree, &demand, A).unwrap();
    assert!(hmm.better.is_none() && hmm.tried > 10, "{hmm:?}");
    let htb = Rule::Htb.rearrangements(&tree, &demand, A).unwrap();
    // 300 and a third of 400; with all 300 in A1, which sends, three fifths of 400.
    assert!((mbps(&htb.truthful) - 433.333).abs() < 0.01, "{}", mbps(&htb.truthful));
    let better = htb.better.unwrap();
    assert!((mbps(&better.rate) - 540.0).abs() < 0.1, "{}", mbps(&better.rate));
    let a1 = better.with.iter().find(|(class, _)| *class == ClassId(4)).unwrap().1;
    assert!(a1 > 295_000_000, "{better:?}");
}

#[test]
fn traffic_where_none_is_needed_gains_nothing_under_hmm_and_something_under_htb() {
    let tree = figure_1(100, 200);
    let demand = busy(&tree, &[4, 7]);
    assert_eq!(Rule::Hmm.misreports(&tree, &demand, A).unwrap().better, None);
    // With traffic for A2, too, the quanta of both count.
    let htb = Rule::Htb.misreports(&tree, &demand, A).unwrap().better.unwrap();
    assert!((mbps(&htb.rate) - 540.0).abs() < 0.1, "{}", mbps(&htb.rate));
    assert_eq!(htb.with, [(ClassId(5), Request::Unlimited)]);
}

#[test]
fn a_rule_that_can_be_cheated_is_caught() {
    let tree = figure_1(100, 200);
    let wants = [(4, 200_000_000), (7, 600_000_000), (3, 800_000_000)];
    let demand = Demand::new(&tree, wants.map(|(leaf, bps)| (ClassId(leaf), Request::Rate(bps)))).unwrap();
    // In proportion to the requests, which would be wrong.
    let asked = |demand: &Demand, leaf| match demand.get(ClassId(leaf)) {
        Some(Request::Rate(rate)) => rate,
        Some(Request::Unlimited) => 1_000_000_000,
        None => 0,
    };
    let by_demand = |_: &Hierarchy, demand: &Demand| -> Result<BigRational, StrategyError> {
        let all: u64 = (3..8).map(|leaf| asked(demand, leaf)).sum();
        let own = asked(demand, 4) + asked(demand, 5);
        Ok(BigRational::new((u128::from(own) * 1_000_000_000).into(), all.max(1).into()))
    };
    let found = misreports(&tree, &demand, A, by_demand).unwrap().better.unwrap();
    // Never counted beyond the 200 Mbit/s that it wants.
    assert_eq!(mbps(&found.rate), 200.0);
    // By the largest guarantee of a leaf.
    let by_leaf = |tree: &Hierarchy| -> Result<BigRational, StrategyError> {
        Ok(BigRational::from_integer(tree.weight(ClassId(4)).max(tree.weight(ClassId(5))).into()))
    };
    let found = rearrangements(&tree, A, by_leaf).unwrap().better.unwrap();
    assert!(mbps(&found.rate) > 299.9, "{found:?}");
}

#[test]
fn what_is_not_given_away_is_given_and_weights_are_rearranged_too() {
    let tree = figure_1(100, 100);
    let htb = Rule::Htb.rearrangements(&tree, &busy(&tree, &[4, 7]), A).unwrap().better.unwrap();
    assert!((mbps(&htb.rate) - 540.0).abs() < 0.1, "{}", mbps(&htb.rate));
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(1_000_000)));
    let weight = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
    for (parent, of) in [(0, 3), (0, 3), (0, 4), (1, 1), (1, 2), (2, 1), (2, 2)] {
        tree.add(ClassId(parent), weight(of)).unwrap();
    }
    let tree = tree.build().unwrap();
    let demand = busy(&tree, &[4, 7]);
    let htb = Rule::Htb.rearrangements(&tree, &demand, A).unwrap().better.unwrap();
    assert!((htb.rate.to_f64().unwrap() - 540_000.0).abs() < 500.0, "{}", htb.rate);
    assert_eq!(Rule::Hmm.rearrangements(&tree, &demand, A).unwrap().better, None);
}

#[test]
fn only_a_class_of_a_small_tree_is_searched_for() {
    let tree = figure_1(100, 200);
    let demand = busy(&tree, &[4]);
    for class in [ClassId::ROOT, ClassId(8)] {
        let refused = Rule::Hmm.misreports(&tree, &demand, class).unwrap_err();
        assert_eq!(refused, StrategyError::NoSuchClass { class, classes: 8 });
    }
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(1_000)));
    (0..MOST_CLASSES).for_each(|_| assert!(tree.add(ClassId::ROOT, class(1)).is_ok()));
    let tree = tree.build().unwrap();
    let refused = Rule::Htb.rearrangements(&tree, &busy(&tree, &[1]), A).unwrap_err();
    assert_eq!(refused, StrategyError::TooLarge { classes: MOST_CLASSES + 1 });
}

#[test]
fn nobody_gains_under_hmm_in_random_trees_with_ceilings() {
    let mut random = ChaCha8Rng::seed_from_u64(10);
    let (mut gains_under_htb, mut searched) = (0, 0);
    for _ in 0..150 {
        let mut tree = Hierarchy::builder(LinkConfig::new(rate(1_000_000)));
        // The unassigned part of each class.
        let mut left = vec![1_000_000u64];
        for _ in 0..random.random_range(3..9) {
            let parent = random.random_range(0..left.len());
            let part = left[parent] * random.random_range(1..5) / 8;
            if part > 2 {
                let ceiling =
                    (random.random_range(0..5) == 0).then(|| rate(random.random_range(part..1_000_000.max(part + 1))));
                tree.add(ClassId(parent as u32), ClassConfig { ceiling, ..class(part) }).unwrap();
                left[parent] -= part;
                left.push(part);
            }
        }
        let tree = tree.build().unwrap();
        let request = |random: &mut ChaCha8Rng| match random.random_range(0..4) {
            0 => Request::Rate(0),
            1 => Request::Rate(random.random_range(1..1_000_000)),
            _ => Request::Unlimited,
        };
        let demand = Demand::new(&tree, tree.leaves().iter().map(|&leaf| (leaf, request(&mut random)))).unwrap();
        for class in tree.classes() {
            let told = Rule::Hmm.misreports(&tree, &demand, class).unwrap();
            assert_eq!(told.better, None, "{class:?} of {tree:?} under {demand:?}");
            let arranged = Rule::Hmm.rearrangements(&tree, &demand, class).unwrap();
            assert_eq!(arranged.better, None, "{class:?} of {tree:?} under {demand:?}");
            gains_under_htb += usize::from(Rule::Htb.rearrangements(&tree, &demand, class).unwrap().better.is_some());
            searched += 1;
        }
    }
    assert!(searched > 500 && gains_under_htb > 30, "{gains_under_htb} of {searched}");
}
