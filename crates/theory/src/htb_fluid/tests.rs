use super::*;
use fairlink_core::{ClassConfig, LinkConfig, Rate, Share};

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

fn class(guarantee: u64, ceiling: Option<u64>) -> ClassConfig {
    let share = Some(Share::Guarantee(rate(guarantee)));
    ClassConfig { share, ceiling: ceiling.map(rate), ..ClassConfig::default() }
}

/// The rates of the classes named under greedy leaves `busy`, rounded down.
fn rates(tree: &Hierarchy, busy: &[(u32, Request)], of: &[u32]) -> Vec<u64> {
    let demand = Demand::new(tree, busy.iter().map(|&(class, request)| (ClassId(class), request))).unwrap();
    let fluid = HtbFluid::solve(tree, &demand).unwrap();
    of.iter().map(|&class| crate::floor_bps(fluid.rate(ClassId(class)))).collect()
}

fn figure_1(a1: u64, a2: u64) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(1_000)));
    for (parent, guarantee) in [(0, 300), (0, 300), (0, 400), (1, a1), (1, a2), (2, a1), (2, a2)] {
        tree.add(ClassId(parent), class(guarantee, None)).unwrap();
    }
    tree.build().unwrap()
}

#[test]
fn without_c_the_link_lends_by_the_quanta_of_leaves_as_in_experiment_2() {
    use Request::Unlimited;
    for (a1, a2) in [(140, 160), (100, 200), (60, 240)] {
        let tree = figure_1(a1, a2);
        // 300 each, and 400 by the guarantees of A1 and B2.
        let a = 300 + 400 * a1 / 300;
        let got = rates(&tree, &[(4, Unlimited), (7, Unlimited)], &[1, 4, 2, 7]);
        assert!(got[0].abs_diff(a) <= 1 && got[0] == got[1], "{got:?}, {a}");
        assert!(got[2].abs_diff(1_000 - a) <= 1 && got[2] == got[3], "{got:?}");
        // With C, every class has its guarantee.
        assert_eq!(rates(&tree, &[(4, Unlimited), (7, Unlimited), (3, Unlimited)], &[1, 2, 3]), [300, 300, 400]);
    }
}

#[test]
fn the_measurement_of_2001_has_67_and_33_and_the_ceiling_of_80() {
    let tree = |priority| {
        let mut tree = Hierarchy::builder(LinkConfig::new(rate(10_000)));
        let top = tree.add(ClassId::ROOT, class(100, Some(100))).unwrap();
        tree.add(top, class(40, Some(80))).unwrap();
        tree.add(top, ClassConfig { priority: Some(priority), ..class(20, Some(80)) }).unwrap();
        tree.build().unwrap()
    };
    let both = [(2, Request::Rate(90)), (3, Request::Rate(50))];
    assert_eq!(rates(&tree(0), &both, &[2, 3, 1]), [66, 33, 100]);
    assert_eq!(rates(&tree(0), &both[..1], &[2, 1]), [80, 80]);
    assert_eq!(rates(&tree(0), &both[1..], &[3]), [50]);
    // Priority 1 behind priority 0 and the other way round: leaf 2 has no priority, which is 0.
    assert_eq!(rates(&tree(1), &both, &[2, 3]), [80, 20]);
}

#[test]
fn a_class_lends_inside_itself_before_the_link_does() {
    // A2 leaves 200, which A lends to A1 alone, for any demand of B2.
    let tree = figure_1(100, 200);
    let got = rates(&tree, &[(4, Request::Unlimited), (7, Request::Unlimited), (3, Request::Rate(350))], &[4, 7, 3]);
    // 300 and 300 inside, then 50 by quanta of 1 to 2.
    assert_eq!(got, [316, 333, 350]);
}

#[test]
fn what_is_refused_by_the_scheduler_is_refused_here() {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(10)));
    tree.add(ClassId::ROOT, ClassConfig { quantum: Some(0), ..class(1, None) }).unwrap();
    let tree = tree.build().unwrap();
    let refused = HtbFluid::solve(&tree, &Demand::uniform(&tree, Request::Unlimited)).unwrap_err();
    assert!(matches!(refused, BuildError::Parameter { what: "quantum", .. }), "{refused}");
}
