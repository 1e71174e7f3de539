//! Random trees and demands, and an HMM solver that shares no idea with the one under test.

use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, Rate, ServiceCurve, Share};
use fairlink_theory::request::{Demand, Request};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Limits within which a random tree is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) levels: std::ops::RangeInclusive<usize>,
    pub(crate) leaves: std::ops::RangeInclusive<usize>,
    pub(crate) max_weight: u64,
    pub(crate) max_rate: u64,
    pub(crate) ceilings: bool,
    /// True for upper limits, and classes that are bounded or isolated.
    pub(crate) limits: bool,
}

/// The trees of the project's claims: 2 to 6 levels, 2 to 200 leaves, weights 1 to 10^9, ceilings on some.
pub(crate) const CLAIMED: Shape = Shape {
    levels: 2..=6,
    leaves: 2..=200,
    max_weight: 1_000_000_000,
    max_rate: 1_000_000_000_000,
    ceilings: true,
    limits: false,
};

/// The same with every other limit of the ideal.
pub(crate) const LIMITED: Shape = Shape { limits: true, ..CLAIMED };

pub(crate) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// A number from 1 to `max`, its order of magnitude uniform.
pub(crate) fn log_uniform(rng: &mut ChaCha8Rng, max: u64) -> u64 {
    let exponent = rng.random_range(0.0..=(max as f64).ln());
    (exponent.exp() as u64).clamp(1, max)
}

/// Parent and share, weight or guarantee, of each class but the root.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) link: Rate,
    pub(crate) parents: Vec<ClassId>,
    pub(crate) weights: Vec<u64>,
    pub(crate) ceilings: Vec<Option<Rate>>,
    /// Upper limit, bounded, isolated.
    pub(crate) limits: Vec<(Option<Rate>, bool, bool)>,
}

impl Plan {
    pub(crate) fn random(rng: &mut ChaCha8Rng, shape: &Shape) -> Self {
        let leaves = log_uniform(rng, *shape.leaves.end() as u64).max(*shape.leaves.start() as u64) as usize;
        let levels = rng.random_range(shape.levels.clone());
        let link = Rate::from_bps(log_uniform(rng, shape.max_rate)).unwrap();
        let mut plan = Self { link, parents: vec![], weights: vec![], ceilings: vec![], limits: vec![] };
        // A chain down to the deepest level, then leaves (with the inner classes they need) below existing classes.
        let mut depths = vec![0];
        let mut inner = vec![0];
        for level in 1..levels {
            plan.add(rng, shape, level - 1);
            depths.push(level);
            inner.push(level);
        }
        plan.add(rng, shape, levels - 1);
        depths.push(levels);
        for _ in 1..leaves {
            let mut parent = inner[rng.random_range(0..inner.len())];
            while depths[parent] + 1 < levels && rng.random_range(0..3) == 0 {
                plan.add(rng, shape, parent);
                depths.push(depths[parent] + 1);
                parent = depths.len() - 1;
                inner.push(parent);
            }
            plan.add(rng, shape, parent);
            depths.push(depths[parent] + 1);
        }
        plan
    }

    fn add(&mut self, rng: &mut ChaCha8Rng, shape: &Shape, parent: usize) {
        self.parents.push(ClassId(parent as u32));
        self.weights.push(log_uniform(rng, shape.max_weight));
        let ceiling = shape.ceilings && rng.random_range(0..4) == 0;
        self.ceilings.push(ceiling.then(|| Rate::from_bps(log_uniform(rng, self.link.bps())).unwrap()));
        let kind = if shape.limits { rng.random_range(0..8) } else { 8 };
        let upper = (kind == 0).then(|| Rate::from_bps(log_uniform(rng, self.link.bps())).unwrap());
        self.limits.push((upper, kind == 1, kind == 2));
    }

    pub(crate) fn build(&self) -> Hierarchy {
        let mut tree = Hierarchy::builder(LinkConfig::new(self.link));
        for (index, &parent) in self.parents.iter().enumerate() {
            let (upper, bounded, isolated) = self.limits[index];
            let config = ClassConfig {
                share: Some(Share::Weight(self.weights[index])),
                ceiling: self.ceilings[index],
                upper_limit: upper.map(|rate| ServiceCurve { m1: None, d: Nanos::ZERO, m2: Some(rate) }),
                bounded,
                isolated,
                ..ClassConfig::default()
            };
            tree.add(parent, config).unwrap();
        }
        tree.build().unwrap()
    }
}

/// Idle, unlimited, or a rate of any magnitude up to twice the link's.
pub(crate) fn random_request(rng: &mut ChaCha8Rng, link: Rate) -> Request {
    match rng.random_range(0..6) {
        0 => Request::Rate(0),
        1 | 2 => Request::Unlimited,
        _ => Request::Rate(log_uniform(rng, 2 * link.bps())),
    }
}

pub(crate) fn random_demand(rng: &mut ChaCha8Rng, tree: &Hierarchy) -> Demand {
    let link = tree.link().rate;
    Demand::new(tree, tree.leaves().iter().map(|&leaf| (leaf, random_request(rng, link)))).unwrap()
}

pub(crate) fn whole(value: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(value.into())
}

/// The rate of each class without borrowing: its part by weight of its parent's, to 2^-24 bit/s at each level.
fn own_rates(tree: &Hierarchy) -> Vec<BigRational> {
    let fine = whole(1u64 << 24);
    let mut own = vec![whole(tree.link().rate.bps())];
    for class in tree.classes() {
        let parent = tree.parent(class).unwrap();
        let siblings: u128 = tree.children(parent).iter().map(|&child| u128::from(tree.weight(child))).sum();
        let share = &own[parent.index()] * BigRational::new(tree.weight(class).into(), siblings.into());
        own.push((share * &fine).floor() / &fine);
    }
    own.iter().map(|rate| rate.floor().max(whole(1))).collect()
}

/// HMM by filling. Hierarchical GPS runs with every leaf's request as its backlog and every limit as a cap on a class's
/// total, and stops when the link has distributed one second's worth. Event by event, the next leaf whose request is
/// met, or class whose cap is reached, leaves; the others then share the inflow in proportion to their weights at each
/// level. Inflow of an isolated class is lost while no class below it wants it, up to its own rate. The algorithm has
/// no fair share, no request of an inner class and no satisfied set.
pub(crate) fn fill(tree: &Hierarchy, demand: &Demand) -> Vec<BigRational> {
    let classes = tree.len();
    let own = own_rates(tree);
    let isolated = |index: usize| tree.config(ClassId(index as u32)).isolated;
    let request = |index: usize| match demand.get(ClassId(index as u32)) {
        Some(Request::Rate(rate)) => Some(whole(rate)),
        _ => None,
    };
    let limit: Vec<Option<BigRational>> = (0..classes)
        .map(|index| {
            let config = tree.config(ClassId(index as u32));
            let upper = config.upper_limit.and_then(|curve| curve.m2);
            let own = (config.bounded || config.isolated).then(|| own[index].clone());
            // An isolated leaf is given its rate regardless of its demand.
            let request = request(index).filter(|_| !config.isolated);
            let rates =
                [config.ceiling.map(|rate| whole(rate.bps())), upper.map(|rate| whole(rate.bps())), own, request];
            rates.into_iter().flatten().min()
        })
        .collect();
    let mut amount = vec![BigRational::zero(); classes];
    let mut full: Vec<bool> = limit.iter().map(|limit| limit.as_ref().is_some_and(Zero::is_zero)).collect();
    let mut left = whole(tree.link().rate.bps());
    loop {
        // A class takes part if it is not full and, if it has children, one of them takes part.
        let mut active: Vec<bool> = full.iter().map(|full| !full).collect();
        for index in (0..classes).rev() {
            let children = tree.children(ClassId(index as u32));
            if !children.is_empty() && !isolated(index) {
                active[index] &= children.iter().any(|child| active[child.index()]);
            }
        }
        if !active[0] || left.is_zero() {
            break;
        }
        let mut speed = vec![BigRational::zero(); classes];
        speed[0] = whole(1);
        let mut span = left.clone();
        for index in 0..classes {
            let class = ClassId(index as u32);
            if !active[index] || speed[index].is_zero() {
                continue;
            }
            if let Some(limit) = &limit[index] {
                span = span.min((limit - &amount[index]) / &speed[index]);
            }
            let flowing = tree.children(class).iter().filter(|child| active[child.index()]);
            let weights: u128 = flowing.clone().map(|&child| u128::from(tree.weight(child))).sum();
            for &child in flowing {
                speed[child.index()] =
                    &speed[index] * BigRational::new(tree.weight(child).into(), BigInt::from(weights));
            }
        }
        for index in 0..classes {
            if !speed[index].is_zero() {
                amount[index] += &span * &speed[index];
                full[index] = limit[index].as_ref() == Some(&amount[index]);
            }
        }
        left -= span;
    }
    // An isolated leaf's allocation and its used part may differ.
    for index in (0..classes).rev() {
        let children = tree.children(ClassId(index as u32));
        amount[index] = match request(index) {
            _ if !children.is_empty() => children.iter().map(|child| &amount[child.index()]).sum(),
            Some(request) => request.min(amount[index].clone()),
            None => amount[index].clone(),
        };
    }
    amount
}

/// Figure 1 of [hls] in Mbit/s; returns A, B, C, A1, A2, B1, B2.
pub(crate) fn figure_1() -> (Hierarchy, [ClassId; 7]) {
    let mut tree = Hierarchy::builder(LinkConfig::new(mbit(1000)));
    let mut add = |parent, mbps| {
        let share = Some(Share::Guarantee(mbit(mbps)));
        tree.add(parent, ClassConfig { share, ..ClassConfig::default() }).unwrap()
    };
    let (a, b, c) = (add(ClassId::ROOT, 300), add(ClassId::ROOT, 300), add(ClassId::ROOT, 400));
    let leaves = [add(a, 100), add(a, 200), add(b, 100), add(b, 200)];
    (tree.build().unwrap(), [a, b, c, leaves[0], leaves[1], leaves[2], leaves[3]])
}

pub(crate) fn mbit(n: u64) -> Rate {
    Rate::from_bps(n * 1_000_000).unwrap()
}
