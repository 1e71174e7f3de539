//! Links that share pools: the rule of weighted max-min fairness, checked by its definition and against one merged tree.

use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Rate, Share};
use fairlink_theory::fast::Solver;
use fairlink_theory::floor_bps;
use fairlink_theory::hmm::Allocation;
use fairlink_theory::pooled::{PoolMember, SharedPool, solve};
use fairlink_theory::request::{Demand, Request};
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::random::{CLAIMED, LIMITED, Plan, Shape, log_uniform, random_demand, rng};

fn bps(rate: u64) -> Rate {
    Rate::from_bps(rate).unwrap()
}

/// Links, their demands, and pools of classes none of which is below another.
struct Case {
    plans: Vec<Plan>,
    demands: Vec<Demand>,
    pools: Vec<SharedPool>,
}

impl Case {
    fn random(rng: &mut ChaCha8Rng, shape: &Shape, pools: usize) -> Self {
        let plans: Vec<Plan> = (0..rng.random_range(1..4)).map(|_| Plan::random(rng, shape)).collect();
        let trees: Vec<Hierarchy> = plans.iter().map(Plan::build).collect();
        let demands = trees.iter().map(|tree| random_demand(rng, tree)).collect();
        let above = |tree: &Hierarchy, mut class: ClassId, other: ClassId| loop {
            match tree.parent(class) {
                Some(parent) if parent == other => return true,
                Some(parent) => class = parent,
                None => return false,
            }
        };
        let mut candidates: Vec<(usize, ClassId)> =
            trees.iter().enumerate().flat_map(|(link, tree)| tree.classes().map(move |class| (link, class))).collect();
        candidates.shuffle(rng);
        let mut chosen: Vec<(usize, ClassId)> = Vec::new();
        for (link, class) in candidates {
            let apart = |&(other, known): &(usize, ClassId)| {
                other != link || !above(&trees[link], class, known) && !above(&trees[link], known, class)
            };
            if chosen.len() < 8 && chosen.iter().all(apart) {
                chosen.push((link, class));
            }
        }
        let most = trees.iter().map(|tree| tree.link().rate.bps()).max().unwrap();
        let mut shared = vec![Vec::new(); pools];
        for (link, class) in chosen {
            let base = bps(log_uniform(rng, most));
            shared[rng.random_range(0..pools)].push(PoolMember { link, class, base });
        }
        let pools = shared
            .into_iter()
            .filter(|members| !members.is_empty())
            .map(|members| SharedPool { rate: bps(log_uniform(rng, most).max(1000)), members })
            .collect();
        Self { plans, demands, pools }
    }

    fn solved(&self, pools: &[SharedPool]) -> Vec<Vec<u64>> {
        let trees: Vec<Hierarchy> = self.plans.iter().map(Plan::build).collect();
        let links: Vec<(&Hierarchy, &Demand)> = trees.iter().zip(&self.demands).collect();
        solve(&links, pools)
    }
}

fn used(pool: &SharedPool, solved: &[Vec<u64>]) -> u64 {
    pool.members.iter().map(|member| solved[member.link][member.class.index()]).sum()
}

/// Maximum error of rates of whole bit/s: levels, and members.
const SLACK: f64 = 40.0;

#[test]
fn without_pools_and_with_large_ones_links_are_as_they_are_alone() {
    for seed in 0..100 {
        let mut case = Case::random(&mut rng(seed), &LIMITED, 2);
        let alone: Vec<Vec<u64>> = case
            .plans
            .iter()
            .zip(&case.demands)
            .map(|(plan, demand)| Solver::new(&plan.build()).solve(plan.link, demand).to_vec())
            .collect();
        assert_eq!(case.solved(&[]), alone);
        case.pools.iter_mut().for_each(|pool| pool.rate = Rate::MAX);
        assert_eq!(case.solved(&case.pools), alone);
    }
}

#[test]
fn a_pool_is_never_exceeded_and_whoever_is_below_the_common_level_could_not_use_more() {
    let (mut filled, mut held) = (0, 0);
    for seed in 0..300 {
        let mut rng = rng(1000 + seed);
        let count = 1 + (seed as usize) % 3;
        let case = Case::random(&mut rng, if seed % 4 == 3 { &LIMITED } else { &CLAIMED }, count);
        let solved = case.solved(&case.pools);
        for (plan, solved) in case.plans.iter().zip(&solved) {
            for (ceiling, got) in plan.ceilings.iter().zip(&solved[1..]) {
                assert!(ceiling.is_none_or(|ceiling| *got <= ceiling.bps()), "seed {seed}: {got} of {ceiling:?}");
            }
        }
        for (at, pool) in case.pools.iter().enumerate() {
            let sum = used(pool, &solved);
            assert!(sum <= pool.rate.bps(), "seed {seed}: {sum} of {}", pool.rate.bps());
            let without: Vec<SharedPool> =
                case.pools.iter().enumerate().filter(|&(other, _)| other != at).map(|(_, pool)| pool.clone()).collect();
            let slack = SLACK + 1e-9 * pool.rate.bps() as f64;
            if (sum as f64) < pool.rate.bps() as f64 - slack {
                // It limits no member.
                assert_eq!(used(pool, &case.solved(&without)), sum, "seed {seed}");
                continue;
            }
            filled += 1;
            let part =
                |member: &PoolMember| solved[member.link][member.class.index()] as f64 / member.base.bps() as f64;
            let level = pool.members.iter().map(part).fold(0.0, f64::max);
            for member in &pool.members {
                let got = solved[member.link][member.class.index()];
                if got as f64 >= level * member.base.bps() as f64 - slack {
                    continue;
                }
                // Let it go, and hold the others at the level: it gets no more.
                held += 1;
                let mut alone = Case { plans: case.plans.clone(), demands: case.demands.clone(), pools: Vec::new() };
                for other in case.pools.iter().flat_map(|pool| &pool.members).filter(|other| *other != member) {
                    let ceiling = &mut alone.plans[other.link].ceilings[other.class.index() - 1];
                    let most = if pool.members.contains(other) {
                        ((level * other.base.bps() as f64) as u64).saturating_add(1)
                    } else {
                        solved[other.link][other.class.index()].max(1)
                    };
                    *ceiling = Some(ceiling.map_or(Rate::MAX, |ceiling| ceiling).min(bps(most.min(Rate::MAX.bps()))));
                }
                let free = alone.solved(&[])[member.link][member.class.index()];
                assert!(free as f64 <= got as f64 + slack, "seed {seed}: {got}, could have {free}");
            }
        }
    }
    assert!(filled > 100 && held > 100, "{filled} filled, {held} held back elsewhere");
}

#[test]
fn links_that_hold_nobody_back_are_as_one_merged_tree() {
    for seed in 0..100 {
        let mut rng = rng(5000 + seed);
        let pool = bps(log_uniform(&mut rng, 1_000_000_000).max(1000));
        let mut merged = Hierarchy::builder(LinkConfig::new(pool));
        let (mut links, mut members, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        let shape = Shape { max_rate: 1_000_000_000, leaves: 2..=40, ..CLAIMED };
        for link in 0..rng.random_range(2..5) {
            let plan = Plan::random(&mut rng, &shape);
            let base = bps(log_uniform(&mut rng, 1_000_000));
            members.push(PoolMember { link, class: ClassId(1), base });
            let config = ClassConfig { share: Some(Share::Weight(base.bps())), ..ClassConfig::default() };
            let top = merged.add(ClassId::ROOT, config).unwrap();
            // The same tree below the member, in both.
            let mut own = Hierarchy::builder(LinkConfig::new(Rate::MAX));
            own.add(ClassId::ROOT, config).unwrap();
            for (index, parent) in plan.parents.iter().enumerate() {
                let config = ClassConfig {
                    share: Some(Share::Weight(plan.weights[index])),
                    ceiling: plan.ceilings[index],
                    ..ClassConfig::default()
                };
                own.add(ClassId(parent.0 + 1), config).unwrap();
                merged.add(ClassId(parent.0 + top.0), config).unwrap();
            }
            let own = own.build().unwrap();
            let demand = random_demand(&mut rng, &own);
            asked.extend(
                own.leaves()
                    .iter()
                    .map(|&leaf| (ClassId(leaf.0 - 1 + top.0), demand.get(leaf).unwrap_or(Request::Rate(0)))),
            );
            links.push((own, demand, top));
        }
        let merged = merged.build().unwrap();
        let exact = Allocation::solve(&merged, &Demand::new(&merged, asked).unwrap());
        let trees: Vec<(&Hierarchy, &Demand)> = links.iter().map(|(tree, demand, _)| (tree, demand)).collect();
        let solved = solve(&trees, &[SharedPool { rate: pool, members }]);
        for ((tree, _, top), solved) in links.iter().zip(&solved) {
            for class in tree.classes() {
                let (got, ideal) = (solved[class.index()], floor_bps(&exact.rate(ClassId(class.0 - 1 + top.0))));
                assert!((got as f64 - ideal as f64).abs() <= SLACK, "seed {seed}: {got} for {ideal}");
            }
        }
    }
}

/// Two links of 1 Gbit/s, of which 60 and 30 Mbit/s are assured, in a pool of 100 Mbit/s.
#[test]
fn sixty_and_thirty_of_a_hundred_get_two_thirds_and_one_third_and_what_the_other_leaves() {
    let tree = |rate| {
        let mut tree = Hierarchy::builder(LinkConfig::new(bps(rate)));
        let share = |bps| ClassConfig { share: Some(Share::Weight(bps)), ..ClassConfig::default() };
        tree.add(ClassId::ROOT, share(1)).unwrap();
        tree.add(ClassId::ROOT, share(1)).unwrap();
        tree.build().unwrap()
    };
    let members = [60_000_000, 30_000_000]
        .iter()
        .enumerate()
        .map(|(link, &base)| PoolMember { link, class: ClassId(1), base: bps(base) })
        .collect();
    let pool = [SharedPool { rate: bps(100_000_000), members }];
    let get = |rates: [u64; 2], requests: [Request; 2]| {
        let trees = rates.map(tree);
        let demands = [0, 1].map(|link| {
            let of = [(ClassId(1), requests[link]), (ClassId(2), Request::Unlimited)];
            Demand::new(&trees[link], of).unwrap()
        });
        let solved = solve(&[(&trees[0], &demands[0]), (&trees[1], &demands[1])], &pool);
        [solved[0][1], solved[1][1], solved[0][2]]
    };
    let all = Request::Unlimited;
    assert_eq!(get([1_000_000_000; 2], [all, all]), [66_666_666, 33_333_333, 933_333_334]);
    assert_eq!(get([1_000_000_000; 2], [Request::Rate(10_000_000), all]), [10_000_000, 90_000_000, 990_000_000]);
    // The link of the first is slow, and shared by halves with the class that has no pool.
    assert_eq!(get([80_000_000, 1_000_000_000], [all, all]), [40_000_000, 60_000_000, 40_000_000]);
}
