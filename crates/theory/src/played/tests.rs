use super::*;
use crate::ideal::{Rule, Traffic};
use fairlink_core::{ClassConfig, LinkConfig, Rate, Share, registry};

const LINK: u64 = 10_000_000;

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

fn guarantee(bps: u64) -> ClassConfig {
    ClassConfig { share: Some(Share::Guarantee(rate(bps))), ..ClassConfig::default() }
}

/// Guarantees of 1 : 2 : 3 below a class of 6 Mbit/s, and one of 4.
fn two_levels() -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(LINK)));
    let above = tree.add(ClassId::ROOT, guarantee(6_000_000)).unwrap();
    for part in 1..4 {
        tree.add(above, guarantee(part * 1_000_000)).unwrap();
    }
    tree.add(ClassId::ROOT, guarantee(4_000_000)).unwrap();
    tree.build().unwrap()
}

#[test]
fn a_run_gives_what_the_formula_gives_where_there_is_one() {
    use Request::{Rate, Unlimited};
    let tree = two_levels();
    let demands = [
        [Unlimited, Unlimited, Unlimited, Unlimited],
        [Unlimited, Rate(500_000), Unlimited, Rate(1_000_000)],
        [Rate(100_000), Rate(0), Unlimited, Unlimited],
        [Rate(900_000), Rate(1_900_000), Rate(9_999_999), Rate(1_000_000)],
    ];
    let mut compared = 0;
    for scheduler in ["hls", "hpfq", "drr", "wf2q+", "sfq", "hfsc", "htb"] {
        let info = registry::find(scheduler).unwrap();
        for asked in demands {
            let demand = Demand::new(&tree, tree.leaves().iter().copied().zip(asked)).unwrap();
            let Ok(formula) =
                Rule::for_scheduler(info, &tree, Traffic::unknown()).unwrap().by_formula_only().rates(&demand)
            else {
                continue;
            };
            let played = rates(info, &tree, &demand, |_| None).unwrap();
            assert!(within(0.01, &formula, &played, LINK as f64), "{scheduler} {asked:?}: {formula:?} {played:?}");
            compared += 1;
        }
    }
    assert!(compared >= 26, "{compared}");
}

#[test]
fn rates_that_no_formula_has_are_those_of_a_run_and_say_so() {
    let tree = two_levels();
    let demand = Demand::uniform(&tree, Request::Unlimited);
    let solve =
        |traffic| Rule::for_scheduler(registry::find("cbq-formal").unwrap(), &tree, traffic).unwrap().solve(&demand);
    let ideal = solve(Traffic::unknown()).unwrap();
    assert!(ideal.run_because().unwrap().contains("estimators"));
    let of = |class: u32| ideal.bps(ClassId(class)) / 1e6;
    // Each its own rate, up to the excess of estimators.
    for (class, own) in [(2, 1.0), (3, 2.0), (4, 3.0), (5, 4.0)] {
        assert!((of(class) / own - 1.0).abs() < 0.04, "{class}: {}", of(class));
    }
    assert!((of(1) - of(2) - of(3) - of(4)).abs() < 1e-6 && (of(0) - of(1) - of(5)).abs() < 1e-6);
    // Without steady traffic a run proves nothing.
    let why = solve(Traffic::unknown().bursty()).unwrap_err().to_string();
    assert!(why.contains("estimators"), "{why}");
}

#[test]
fn there_is_no_number_where_runs_do_not_agree() {
    // Three classes whose lengths decide: packets share, not bytes.
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(LINK)));
    (0..3).for_each(|_| assert!(tree.add(ClassId::ROOT, guarantee(1_000_000)).is_ok()));
    let tree = tree.build().unwrap();
    let demand = Demand::uniform(&tree, Request::Unlimited);
    let wrr = registry::find("wrr").unwrap();
    assert_eq!(rates(wrr, &tree, &demand, |_| None), None);
    let known = rates(wrr, &tree, &demand, |leaf| Some(f64::from(leaf.0) * 250.0)).unwrap();
    let expected = [LINK as f64, LINK as f64 / 6.0, LINK as f64 / 3.0, LINK as f64 / 2.0];
    assert!(within(0.005, &known, &expected, LINK as f64), "{known:?}");
}

#[test]
fn a_tree_that_would_take_too_long_is_left_out() {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(LINK)));
    tree.add(ClassId::ROOT, guarantee(1)).unwrap();
    tree.add(ClassId::ROOT, guarantee(9_000_000)).unwrap();
    let tree = tree.build().unwrap();
    let demand = Demand::uniform(&tree, Request::Unlimited);
    assert_eq!(rates(registry::find("drr").unwrap(), &tree, &demand, |_| None), None);
}

#[test]
fn a_shared_buffer_that_fills_leaves_no_rule() {
    let link = LinkConfig { max_queued: 100, ..LinkConfig::new(rate(LINK)) };
    let mut tree = Hierarchy::builder(link);
    (0..2).for_each(|_| assert!(tree.add(ClassId::ROOT, guarantee(5_000_000)).is_ok()));
    let tree = tree.build().unwrap();
    let solve = |asked: [Request; 2]| {
        let demand = Demand::new(&tree, tree.leaves().iter().copied().zip(asked)).unwrap();
        Rule::for_scheduler(registry::find("hls").unwrap(), &tree, Traffic::unknown()).unwrap().solve(&demand)
    };
    let why = solve([Request::Rate(1_000_000), Request::Rate(20_000_000)]).unwrap_err().to_string();
    assert!(why.contains("buffer of 100 packets"), "{why}");
    // A class that waits for room fills nothing, and a satisfied one has no backlog.
    assert!(solve([Request::Rate(1_000_000), Request::Unlimited]).is_ok());
    assert!(solve([Request::Rate(1_000_000), Request::Rate(2_000_000)]).is_ok());
}

fn flat(classes: impl IntoIterator<Item = ClassConfig>) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(LINK)));
    for class in classes {
        tree.add(ClassId::ROOT, class).unwrap();
    }
    tree.build().unwrap()
}

#[test]
fn a_burst_below_the_default_takes_its_class_out_of_the_formula_of_htb() {
    let htb = registry::find("htb").unwrap();
    let with = |burst| {
        let first = ClassConfig { burst, ..guarantee(6_000_000) };
        flat([first, guarantee(1_000_000), guarantee(1_000_000), guarantee(1_000_000)])
    };
    let (small, default) = (with(Some(100)), with(None));
    let greedy = |tree: &Hierarchy| Demand::uniform(tree, Request::Unlimited);
    assert!(
        Rule::for_scheduler(htb, &default, Traffic::unknown())
            .unwrap()
            .by_formula_only()
            .rates(&greedy(&default))
            .is_ok()
    );
    assert!(
        Rule::for_scheduler(htb, &small, Traffic::unknown()).unwrap().by_formula_only().rates(&greedy(&small)).is_err()
    );
    let of_length = || Traffic::new(vec![Some(1500.0); 5], true);
    let rates = |tree: &Hierarchy| Rule::for_scheduler(htb, tree, of_length()).unwrap().rates(&greedy(tree)).unwrap();
    assert!(rates(&small)[1] < 0.99 * rates(&default)[1], "{:?}", rates(&small));
}

#[test]
fn a_common_deficit_has_rates_of_a_run_and_none_beside_a_ceiling() {
    let info = registry::find("htb-common-deficit").unwrap();
    let with = |ceiling| flat([ClassConfig { ceiling, ..guarantee(4_000_000) }, guarantee(4_000_000)]);
    let solve = |tree: &Hierarchy| {
        let rule = Rule::for_scheduler(info, tree, Traffic::unknown()).unwrap();
        rule.rates(&Demand::uniform(tree, Request::Unlimited))
    };
    assert!(solve(&with(None)).is_ok());
    assert!(solve(&with(Some(rate(9_000_000)))).unwrap_err().to_string().contains("one deficit"));
}
