use super::*;
use crate::hmm::Allocation;
use fairlink_core::{ClassConfig, LinkConfig, registry};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const MBIT: u64 = 1_000_000;

fn hls() -> &'static SchedulerInfo {
    registry::find("hls").unwrap()
}

fn guaranteed(mbps: u64, ceiling: Option<u64>) -> ClassConfig {
    let rate = |mbps: u64| Rate::from_bps(mbps * MBIT).unwrap();
    ClassConfig { share: Some(Share::Guarantee(rate(mbps))), ceiling: ceiling.map(rate), ..ClassConfig::default() }
}

/// Figure 1 of \[hls\], with 100 less for A2 and for C, so that there is room in A and on the link.
fn figure_1(ceiling_of_a: Option<u64>) -> Hierarchy {
    let link = LinkConfig::new(Rate::from_bps(1_000 * MBIT).unwrap());
    let mut tree = Hierarchy::builder(link);
    for (parent, mbps, ceiling) in [
        (0, 300, ceiling_of_a),
        (0, 300, None),
        (0, 300, None),
        (1, 100, None),
        (1, 100, None),
        (2, 100, None),
        (2, 200, None),
    ] {
        tree.add(ClassId(parent), guaranteed(mbps, ceiling)).unwrap();
    }
    tree.build().unwrap()
}

fn of(tree: &Hierarchy, busy: &[(u32, Option<u64>)], class: u32) -> Changes {
    let request = |mbps: Option<u64>| mbps.map_or(Request::Unlimited, |mbps| Request::Rate(mbps * MBIT));
    let demand = Demand::new(tree, busy.iter().map(|&(leaf, mbps)| (ClassId(leaf), request(mbps)))).unwrap();
    Changes::find(hls(), tree, &demand, ClassId(class), 100 * MBIT).unwrap()
}

/// Lever, class, gain in Mbit/s and per bit/s, and true if it fits.
fn short(changes: &[Change]) -> Vec<(Lever, u32, f64, Option<f64>, bool)> {
    let round = |value: f64| (value * 1e6).round() / 1e6;
    let per_bps = |change: &Change| change.per_bps.as_ref().map(|slope| round(crate::to_f64(slope)));
    let short = |change: &Change| {
        let gain = round(crate::to_f64(&change.gain) / MBIT as f64);
        (change.lever, change.class.0, gain, per_bps(change), change.fits)
    };
    changes.iter().map(short).collect()
}

#[test]
fn a_class_at_its_share_gains_from_the_guarantee_that_binds_and_from_who_asks_for_less() {
    // A1 alone below A, B2, and C, which wants 200: A and B have 400 each.
    let changes = of(&figure_1(None), &[(4, None), (7, None), (3, Some(200))], 4);
    let expected = [
        (Lever::AsksLess, 2, 100.0, Some(1.0), true),
        // 400 to 300 of 800, and there is room for it.
        (Lever::Guarantee, 1, 57.142857, Some(0.000_000_667 * MBIT as f64), true),
        (Lever::Link, 0, 50.0, Some(0.5), true),
        (Lever::AsksLess, 3, 50.0, Some(0.5), true),
    ];
    let found = short(&changes.helpful);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!((found.0, found.1, found.2, found.4), (expected.0, expected.1, expected.2, expected.4));
        assert!((found.3.unwrap() - expected.3.unwrap()).abs() < 1e-3, "{found:?}, {expected:?}");
    }
    // Its own guarantee inside A, where it is alone, and a larger demand, which is already sufficient.
    let useless = short(&changes.useless);
    assert_eq!(useless, [(Lever::AsksMore, 4, 0.0, None, true), (Lever::Guarantee, 4, 0.0, Some(0.0), true)]);
}

#[test]
fn a_class_below_a_ceiling_gains_from_lifting_it_and_from_its_sibling_alone() {
    let changes = of(&figure_1(Some(300)), &[(4, None), (5, None), (7, None), (3, Some(200))], 4);
    let found = short(&changes.helpful);
    assert_eq!(found.len(), 3, "{found:?}");
    // 150 now; A2 gives up 100; 200 to 100 of 300, for which A has room; half of 400 without the ceiling.
    assert_eq!((found[0].0, found[0].2), (Lever::AsksLess, 100.0));
    assert_eq!((found[1].0, found[1].1, found[1].2, found[1].4), (Lever::Guarantee, 4, 50.0, true));
    assert_eq!((found[2].0, found[2].1, found[2].2), (Lever::Lift(LimitKind::Ceiling), 1, 50.0));
    let useless: Vec<Lever> = changes.useless.iter().map(|change| change.lever).collect();
    assert!(useless.contains(&Lever::Link) && useless.iter().filter(|&&lever| lever == Lever::AsksLess).count() == 2);
}

#[test]
fn a_satisfied_class_gains_from_asking_for_more_alone() {
    let changes = of(&figure_1(None), &[(4, Some(50)), (7, Some(50))], 4);
    assert_eq!(short(&changes.helpful), [(Lever::AsksMore, 4, 900.0, None, true)]);
}

#[test]
fn a_guarantee_beyond_what_is_left_is_given_up_by_siblings_and_said_not_to_fit() {
    // The classes below the link have 900 of 1000: for 200 more for A, B and C give up 50 each.
    let tree = figure_1(None);
    let demand = Demand::uniform(&tree, Request::Unlimited);
    let changes = Changes::find(hls(), &tree, &demand, ClassId(1), 200 * MBIT).unwrap();
    let guarantee = changes.helpful.iter().find(|change| change.lever == Lever::Guarantee).unwrap();
    assert!(!guarantee.fits);
    assert_eq!((guarantee.to, crate::floor_bps(&guarantee.gain)), (Some(500 * MBIT), 166_666_666));
    // No more than half of theirs, so that A has 300 + 100 + 300.
    let changes = Changes::find(hls(), &tree, &demand, ClassId(1), 900 * MBIT).unwrap();
    let guarantee = changes.helpful.iter().find(|change| change.lever == Lever::Guarantee).unwrap();
    assert_eq!((guarantee.to, crate::floor_bps(&guarantee.gain)), (Some(700 * MBIT), 366_666_666));
    assert_eq!(
        Changes::find(hls(), &tree, &demand, ClassId(9), 1).unwrap_err(),
        UnknownClass { class: ClassId(9), classes: 8 }.into()
    );
    // The link itself: it is used up, and only its rate helps.
    let link = Changes::find(hls(), &tree, &demand, ClassId::ROOT, MBIT).unwrap();
    assert_eq!(short(&link.helpful), [(Lever::Link, 0, 1.0, Some(1.0), true)]);
}

#[test]
fn no_single_demand_of_another_leaf_gains_more_than_its_class_on_the_path() {
    // Brute force: every other leaf requests less, one at a time. The gain equals that of the reduced request of a
    // sibling of the path.
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut gained = 0;
    for _ in 0..200 {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000).unwrap()));
        for index in 0..random.random_range(3..9u32) {
            let ceiling =
                (random.random_range(0..5) == 0).then(|| Rate::from_bps(random.random_range(100..900)).unwrap());
            let share = Some(Share::Weight(random.random_range(1..6)));
            tree.add(ClassId(random.random_range(0..=index)), ClassConfig { share, ceiling, ..ClassConfig::default() })
                .unwrap();
        }
        let tree = tree.build().unwrap();
        let requests: Vec<(ClassId, Request)> =
            tree.leaves().iter().map(|&leaf| (leaf, Request::Rate(random.random_range(0..800)))).collect();
        let demand = Demand::new(&tree, requests.clone()).unwrap();
        let class = ClassId(random.random_range(1..tree.len() as u32));
        let changes = Changes::find(hls(), &tree, &demand, class, 1_000).unwrap();
        let best =
            changes.helpful.iter().filter(|change| change.lever == Lever::AsksLess).map(|change| &change.gain).max();
        let path: Vec<ClassId> = std::iter::successors(Some(class), |&at| tree.parent(at)).collect();
        let below = |leaf: ClassId| std::iter::successors(Some(leaf), |&at| tree.parent(at)).any(|at| at == class);
        let before = Allocation::solve(&tree, &demand).rate(class);
        for &(leaf, _) in requests.iter().filter(|(leaf, _)| !below(*leaf)) {
            let mut less = demand.clone();
            less.set(&tree, leaf, Request::Rate(0)).unwrap();
            let gain = Allocation::solve(&tree, &less).rate(class) - &before;
            assert!(gain <= best.cloned().unwrap_or_default(), "{leaf:?} for {class:?} of {path:?}");
            gained += usize::from(gain > BigRational::zero());
        }
    }
    assert!(gained > 50, "{gained}");
}
