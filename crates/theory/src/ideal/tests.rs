use super::*;
use crate::htb_fluid::HtbFluid;
use fairlink_core::{ClassConfig, LinkConfig, Nanos, Rate, ServiceCurve, Share, registry};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const LINK: u64 = 10_000_000;

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

fn line(bps: u64) -> Option<ServiceCurve> {
    Some(ServiceCurve { m1: None, d: Nanos::ZERO, m2: Some(rate(bps)) })
}

fn flat(classes: &[ClassConfig]) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(LINK)));
    classes.iter().for_each(|&config| assert!(tree.add(ClassId::ROOT, config).is_ok()));
    tree.build().unwrap()
}

/// Rates of the leaves of `tree` under `scheduler` for these requests, in kbit/s.
fn kbps(scheduler: &str, tree: &Hierarchy, asked: &[Request]) -> Result<Vec<u64>, NotComputed> {
    let rule = Rule::for_scheduler(registry::find(scheduler).unwrap(), tree, Traffic::unknown())?;
    let demand = Demand::new(tree, tree.leaves().iter().copied().zip(asked.iter().copied())).unwrap();
    let ideal = rule.solve(&demand)?;
    Ok(tree.leaves().iter().map(|&leaf| (ideal.bps(leaf) / 1e3).round() as u64).collect())
}

#[test]
fn link_share_curves_real_time_and_both_decide_under_hfsc() {
    use Request::{Rate, Unlimited};
    let shares = |bps| ClassConfig { link_share: line(bps), ..ClassConfig::default() };
    let two = flat(&[shares(8_000_000), shares(2_000_000)]);
    assert_eq!(kbps("hfsc", &two, &[Unlimited, Unlimited]).unwrap(), [8_000, 2_000]);
    assert_eq!(kbps("hfsc", &two, &[Rate(1_000_000), Unlimited]).unwrap(), [1_000, 9_000]);
    // A leaf of real time only gets its curve and no more.
    let alone = ClassConfig { real_time: line(1_000_000), ..ClassConfig::default() };
    assert_eq!(kbps("hfsc", &flat(&[alone]), &[Unlimited]).unwrap(), [1_000]);
    assert_eq!(kbps("hfsc", &flat(&[alone, shares(1)]), &[Unlimited, Unlimited]).unwrap(), [1_000, 9_000]);
    // More in time than its share.
    let first = ClassConfig { real_time: line(8_000_000), ..shares(1_000_000) };
    let both = flat(&[first, shares(1_000_000)]);
    assert_eq!(kbps("hfsc", &both, &[Unlimited, Unlimited]).unwrap(), [8_000, 2_000]);
    assert_eq!(kbps("hfsc", &both, &[Rate(7_000_000), Unlimited]).unwrap(), [7_000, 3_000]);
    // An upper limit holds back link-sharing only.
    let limited = ClassConfig { upper_limit: line(2_000_000), ..first };
    assert_eq!(kbps("hfsc", &flat(&[limited, shares(1)]), &[Unlimited, Unlimited]).unwrap(), [8_000, 2_000]);
    assert_eq!(kbps("hfsc", &flat(&[limited, shares(1)]), &[Unlimited, Rate(0)]).unwrap(), [8_000, 0]);
}

#[test]
fn real_time_below_a_limited_class_leaves_its_sibling_what_the_limit_has_left() {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(LINK)));
    let share = |bps| ClassConfig { share: Some(Share::Guarantee(rate(bps))), ..ClassConfig::default() };
    let a = tree.add(ClassId::ROOT, ClassConfig { upper_limit: line(2_000_000), ..share(5_000_000) }).unwrap();
    tree.add(ClassId::ROOT, share(5_000_000)).unwrap();
    tree.add(a, ClassConfig { real_time: line(2_500_000), ..share(1_000_000) }).unwrap();
    tree.add(a, share(1_000_000)).unwrap();
    let tree = tree.build().unwrap();
    use Request::{Rate, Unlimited};
    assert_eq!(kbps("hfsc", &tree, &[Unlimited, Unlimited, Unlimited]).unwrap(), [7_500, 2_500, 0]);
    assert_eq!(kbps("hfsc", &tree, &[Unlimited, Rate(1_500_000), Unlimited]).unwrap(), [8_000, 1_500, 500]);
}

#[test]
fn quanta_priorities_and_contracts_decide_where_schedulers_have_them() {
    use Request::{Rate, Unlimited};
    let quantum = |bytes| ClassConfig { quantum: Some(bytes), ..ClassConfig::default() };
    let quanta = flat(&[quantum(8_000), quantum(2_000)]);
    for scheduler in ["drr", "drr+", "drr++", "htb"] {
        // The guarantees of HTB go first: half for each. It borrows nothing then.
        let expected = if scheduler == "htb" { [5_000, 5_000] } else { [8_000, 2_000] };
        assert_eq!(kbps(scheduler, &quanta, &[Unlimited, Unlimited]).unwrap(), expected, "{scheduler}");
    }
    let urgent = |bps, priority| ClassConfig {
        share: Some(Share::Guarantee(rate(bps))),
        priority: Some(priority),
        ..ClassConfig::default()
    };
    let priorities = flat(&[urgent(1_000_000, 1), urgent(1_000_000, 0)]);
    assert_eq!(kbps("htb", &priorities, &[Unlimited, Unlimited]).unwrap(), [1_000, 9_000]);
    assert_eq!(kbps("cbq-formal", &priorities, &[Unlimited, Rate(4_000_000)]).unwrap(), [6_000, 4_000]);
    // A round: the critical class before each of the three others.
    let critical = ClassConfig { latency_critical: true, ..quantum(2_000) };
    let round = flat(&[critical, quantum(2_000), quantum(2_000), quantum(2_000)]);
    assert_eq!(kbps("drr++", &round, &[Unlimited; 4]).unwrap(), [5_000, 1_667, 1_667, 1_667]);
    // The number of visits of the best-effort class depends on unknown lengths, its rate does not.
    let alone = [Unlimited, Rate(1_000_000), Rate(0), Rate(0)];
    assert_eq!(kbps("drr++", &round, &alone).unwrap(), [9_000, 1_000, 0, 0]);
    // A contract of 2 Mbit/s that is kept, and one that is broken.
    let contract = fairlink_core::Contract { bytes: 25_000, every: Nanos::from_millis(100) };
    let kept = flat(&[ClassConfig { contract: Some(contract), ..quantum(2_000) }, quantum(20_000)]);
    assert_eq!(kbps("drr+", &kept, &[Rate(1_800_000), Unlimited]).unwrap(), [1_800, 8_200]);
    assert_eq!(kbps("drr+", &kept, &[Rate(3_000_000), Unlimited]).unwrap(), [909, 9_091]);
    // Bursts with the same average break it now and then.
    let rule = Rule::for_scheduler(registry::find("drr+").unwrap(), &kept, Traffic::unknown().bursty()).unwrap();
    let asked = Demand::new(&kept, kept.leaves().iter().copied().zip([Rate(1_999_000), Unlimited])).unwrap();
    assert!(rule.solve(&asked).unwrap_err().to_string().contains("contract"));
}

#[test]
fn where_the_states_of_queues_decide_there_is_a_reason_in_the_place_of_a_number() {
    use Request::{Rate, Unlimited};
    let share = |bps| ClassConfig { share: Some(Share::Guarantee(rate(bps))), ..ClassConfig::default() };
    let tree = flat(&[share(2_000_000), share(3_000_000)]);
    assert!(kbps("fq-ldf", &tree, &[Unlimited, Unlimited]).is_err());
    assert_eq!(kbps("fq-ldf", &tree, &[Unlimited, Rate(1_000_000)]).unwrap(), [9_000, 1_000]);
    assert_eq!(kbps("fifo", &tree, &[Rate(6_000_000), Rate(1_000_000)]).unwrap(), [6_000, 1_000]);
    assert!(kbps("fifo", &tree, &[Rate(6_000_000), Unlimited]).is_err());
    assert!(kbps("hrr", &tree, &[Rate(1_000), Rate(1_000)]).is_err());
    let ideal = |scheduler| kbps(scheduler, &tree, &[Unlimited, Unlimited]).is_ok();
    for info in registry::SCHEDULERS {
        let has_none = matches!(info.sharing, Sharing::Unknown(_) | Sharing::Never(_) | Sharing::SharesFirst(..));
        // If packets decide, runs may agree or not.
        let may_have = matches!(info.sharing, Sharing::ByPackets(_));
        assert!(may_have || ideal(info.name) != has_none, "{}", info.name);
    }
}

/// A random tree in which each leaf may set features of hfsc, htb and cbq, and a demand.
fn random(rng: &mut ChaCha8Rng) -> (Hierarchy, Demand) {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(LINK)));
    let mut ids = vec![(ClassId::ROOT, 0)];
    let inner = rng.random_range(0..6);
    let leaves = rng.random_range(1..12);
    for at in 0..inner + leaves {
        let parents: Vec<_> = ids.iter().copied().filter(|&(_, depth)| depth < 3).collect();
        let (parent, depth) = parents[rng.random_range(0..parents.len())];
        let is_inner = at < inner;
        let some = |rng: &mut ChaCha8Rng| rng.random_range(0..4) == 0;
        let slope = |rng: &mut ChaCha8Rng| line(rng.random_range(1_000..5_000_000));
        let config = ClassConfig {
            share: Some(Share::Weight(rng.random_range(1..20))),
            ceiling: some(rng).then(|| rate(rng.random_range(1_000..8_000_000))),
            link_share: if some(rng) { slope(rng) } else { None },
            upper_limit: if some(rng) { slope(rng) } else { None },
            real_time: if !is_inner && some(rng) { line(rng.random_range(1_000..800_000)) } else { None },
            priority: some(rng).then(|| rng.random_range(0..3)),
            bounded: some(rng),
            ..ClassConfig::default()
        };
        let id = tree.add(parent, config).unwrap();
        if is_inner {
            ids.push((id, depth + 1));
        }
    }
    // Inner classes without children are leaves; a real-time curve above leaves does not apply to them.
    let tree = tree.build().unwrap();
    let asked = |_| match rng.random_range(0..3) {
        0 => Request::Unlimited,
        1 => Request::Rate(rng.random_range(0..3_000_000)),
        _ => Request::Rate(rng.random_range(0..12_000_000)),
    };
    let requests: Vec<Request> = tree.leaves().iter().map(asked).collect();
    let demand = Demand::new(&tree, tree.leaves().iter().copied().zip(requests)).unwrap();
    (tree, demand)
}

#[test]
fn both_ways_of_computing_shares_agree_and_keep_floors_limits_and_the_rule() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut computed = 0;
    for _ in 0..3_000 {
        let (tree, demand) = random(&mut rng);
        let rule =
            Rule::for_scheduler(registry::find("hfsc").unwrap(), &tree, Traffic::unknown()).unwrap().by_formula_only();
        let Ok(exact) = rule.solve(&demand) else { continue };
        let rates = rule.rates(&demand).unwrap();
        computed += 1;
        for class in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
            let (one, other) = (exact.bps(class), rates[class.index()]);
            assert!((one - other).abs() < 1e-3, "class {}: {one} {other}", class.0);
        }
        // The rule itself: a class with unmet demand gets no less per weight than a sibling above its floor.
        for parent in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
            let children = tree.children(parent);
            let sum: f64 = children.iter().map(|child| rates[child.index()]).sum();
            assert!(children.is_empty() || (sum - rates[parent.index()]).abs() < 1e-3);
            for (&hungry, &other) in children.iter().flat_map(|one| children.iter().map(move |other| (one, other))) {
                let (_, weight, _) = exact.sharing(&tree, hungry).unwrap();
                let (_, other_weight, _) = exact.sharing(&tree, other).unwrap();
                let floor: f64 = below(&tree, other)
                    .map(|leaf| {
                        let curve = tree.config(leaf).real_time.map_or(0, |curve| curve.m2.map_or(0, Rate::bps));
                        demand.bps(leaf).min(curve as f64)
                    })
                    .sum();
                if !exact.class(hungry).satisfied && weight > 0 && rates[other.index()] > floor + 1.0 {
                    let own = rates[hungry.index()] / weight as f64;
                    assert!(own >= rates[other.index()] / other_weight as f64 * (1.0 - 1e-9), "{own}");
                }
            }
        }
    }
    assert!(computed > 2_500, "{computed}");
}

fn below<'a>(tree: &'a Hierarchy, class: ClassId) -> impl Iterator<Item = ClassId> + 'a {
    let is_below =
        move |leaf: &ClassId| std::iter::successors(Some(*leaf), |&at| tree.parent(at)).any(|at| at == class);
    tree.leaves().iter().copied().filter(is_below)
}

#[test]
fn lenders_in_floats_are_those_in_whole_numbers() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut computed = 0;
    for _ in 0..500 {
        let (tree, demand) = random(&mut rng);
        let exact = HtbFluid::solve(&tree, &demand).unwrap();
        let rule =
            Rule::for_scheduler(registry::find("htb").unwrap(), &tree, Traffic::unknown()).unwrap().by_formula_only();
        let Ok(rates) = rule.rates(&demand) else { continue };
        computed += 1;
        for class in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
            let (one, other) = (crate::to_f64(exact.rate(class)), rates[class.index()]);
            assert!((one - other).abs() < 1e-2, "class {}: {one} {other}", class.0);
        }
    }
    assert!(computed > 300, "{computed}");
}

#[test]
fn isolated_classes_of_cbq_lend_nothing_and_bounded_ones_borrow_nothing() {
    use Request::{Rate, Unlimited};
    let share = |bps| ClassConfig { share: Some(Share::Guarantee(rate(bps))), ..ClassConfig::default() };
    let isolated = flat(&[ClassConfig { isolated: true, ..share(3_000_000) }, share(5_000_000)]);
    let near = |asked: &[Request], expected: [u64; 2]| {
        let rates = kbps("cbq-formal", &isolated, asked).unwrap();
        let close = |(rate, expected): (&u64, u64)| (expected..=expected + expected / 30).contains(rate);
        assert!(rates.iter().zip(expected).all(close), "{rates:?}");
    };
    near(&[Rate(0), Unlimited], [0, 7_000]);
    near(&[Unlimited, Rate(0)], [3_000, 0]);
    let bounded = flat(&[ClassConfig { bounded: true, ..share(3_000_000) }, share(5_000_000)]);
    // By the excess of its estimator more.
    let rates = kbps("cbq-formal", &bounded, &[Unlimited, Unlimited]).unwrap();
    assert!((3_000..3_100).contains(&rates[0]) && rates[0] + rates[1] == 10_000, "{rates:?}");
    assert_eq!(kbps("cbq-formal", &bounded, &[Rate(1_000_000), Unlimited]).unwrap(), [1_000, 9_000]);
}

#[test]
fn packets_count_by_their_lengths_where_a_scheduler_counts_packets() {
    let weight = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
    let tree = flat(&[weight(1), weight(1)]);
    let traffic = Traffic::new(vec![None, Some(1_500.0), Some(500.0)], true);
    let rule = Rule::for_scheduler(registry::find("wrr").unwrap(), &tree, traffic).unwrap();
    let ideal = rule.solve(&Demand::uniform(&tree, Request::Unlimited)).unwrap();
    assert_eq!((ideal.floor_bps(ClassId(1)), ideal.floor_bps(ClassId(2))), (7_500_000, 2_500_000));
}
