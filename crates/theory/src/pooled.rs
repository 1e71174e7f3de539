//! Hierarchical max-min fair sharing of several links whose classes share pools of bandwidth.
//!
//! Each link is shared as in [`crate::hmm`]. A pool limits each of its members to one multiple of the member's base
//! rate, the same for all: the largest one with which the members fit the pool. So a member gets less than that only if
//! its own link, a ceiling or its demand limits it. That is weighted max-min fairness over the members' possible use.
//!
//! **Existence of the multiple.** Let the ceilings of members rise together. Then no other class of their links gets
//! more, and no link carries less in total. So the total rate of the members neither falls nor jumps. If links have
//! members of several pools, lowering one pool's multiple does not reduce the rates of the others' members. So
//! multiples that are lowered in turn, from above, converge to the largest ones.
//!
//! Allocations are whole numbers of bit/s, as those of [`crate::fast`]. A pool is less than one bit/s for each member and level of its
//! tree below the exact allocation. A link that shares no pool has its own allocation.
//!
//! Cost: about ten solutions of a link for each exhausted pool with a member on it.

use fairlink_core::{ClassId, Hierarchy, Rate};

use crate::fast::Solver;
use crate::request::Demand;

/// Maximum number of passes over the pools. Each reduces the remaining error by a factor.
const ROUNDS: u32 = 64;

/// A class that shares a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolMember {
    /// Index of the link.
    pub link: usize,
    /// The class there.
    pub class: ClassId,
    /// Assured rate, by which the pool is shared.
    pub base: Rate,
}

/// A pool of bandwidth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPool {
    /// Upper limit of its members' total rate.
    pub rate: Rate,
    /// Members; none is below another.
    pub members: Vec<PoolMember>,
}

/// Computes the rate of every class of `links`, in bit/s, by link and class id, the root first.
///
/// # Panics
/// If a demand was made for another tree, or a member is not on any of the links.
#[must_use]
pub fn solve(links: &[(&Hierarchy, &Demand)], pools: &[SharedPool]) -> Vec<Vec<u64>> {
    let solvers: Vec<Solver> = links.iter().map(|(tree, _)| Solver::new(tree)).collect();
    let mut solving = Solving { links, solvers, allocations: vec![Vec::new(); links.len()] };
    (0..links.len()).for_each(|link| solving.solve(link));
    let mut fills: Vec<Fill> = pools.iter().map(|pool| Fill::new(pool, &solving)).collect();
    for _ in 0..ROUNDS {
        let mut lowered = false;
        for fill in &mut fills {
            lowered |= fill.lower(&mut solving);
        }
        if !lowered {
            break;
        }
    }
    solving.allocations
}

struct Solving<'a> {
    links: &'a [(&'a Hierarchy, &'a Demand)],
    solvers: Vec<Solver>,
    allocations: Vec<Vec<u64>>,
}

impl Solving<'_> {
    fn solve(&mut self, link: usize) {
        let (tree, demand) = self.links[link];
        self.allocations[link].clear();
        self.allocations[link].extend_from_slice(self.solvers[link].solve(tree.link().rate, demand));
    }
}

/// A pool, and the limits of its members.
struct Fill<'a> {
    pool: &'a SharedPool,
    /// Each member's own limit.
    limits: Vec<u64>,
    /// The links of its members, each once.
    links: Vec<usize>,
    bases: u128,
    /// Total rate of the members if none were limited elsewhere, in bit/s: the common multiple, times their bases.
    level: u128,
}

impl<'a> Fill<'a> {
    fn new(pool: &'a SharedPool, solving: &Solving<'_>) -> Self {
        let limits = pool.members.iter().map(|member| solving.solvers[member.link].limit(member.class)).collect();
        let mut links: Vec<usize> = pool.members.iter().map(|member| member.link).collect();
        links.sort_unstable();
        links.dedup();
        let bases = pool.members.iter().map(|member| u128::from(member.base.bps())).sum();
        // Here every member may have its whole link. Below 2^82, for rates below 2^41.
        let of = |member: &PoolMember| {
            u128::from(solving.links[member.link].0.link().rate.bps()) * bases / u128::from(member.base.bps()) + 1
        };
        let level = pool.members.iter().map(of).max().unwrap_or(0);
        Self { pool, limits, links, bases, level }
    }

    /// Returns the current total rate of its members.
    fn used(&self, solving: &Solving<'_>) -> u128 {
        self.pool.members.iter().map(|member| u128::from(solving.allocations[member.link][member.class.index()])).sum()
    }

    /// Sets the members' limits to this level; returns their total rate.
    fn set(&mut self, level: u128, solving: &mut Solving<'_>) -> u128 {
        self.level = level;
        for (member, &limit) in self.pool.members.iter().zip(&self.limits) {
            let part = level * u128::from(member.base.bps()) / self.bases;
            let part = u64::try_from(part).unwrap_or(u64::MAX);
            solving.solvers[member.link].set_limit(member.class, limit.min(part));
        }
        for &link in &self.links {
            solving.solve(link);
        }
        self.used(solving)
    }

    /// Lowers the level to the largest at which the members fit the pool's rate. Returns true if it changed.
    fn lower(&mut self, solving: &mut Solving<'_>) -> bool {
        let rate = u128::from(self.pool.rate.bps());
        let mut above = (self.level, self.used(solving));
        if above.1 <= rate {
            return false;
        }
        // At this level the members' parts are the whole pool, so they cannot get more. If a member uses less, the
        // level is higher.
        let mut below = (rate, self.set(rate, solving));
        let mut guess = rate;
        while guess < above.0 / 2 && below.1 + (self.limits.len() as u128) < rate {
            guess *= 2;
            match (guess, self.set(guess, solving)) {
                at if at.1 <= rate => below = at,
                at => above = at,
            }
            if above.0 == guess {
                break;
            }
        }
        // Between two levels the used rate is piecewise linear.
        let mut straight = false;
        while above.0 - below.0 > 1 && below.1 + (self.limits.len() as u128) < rate {
            straight = !straight;
            let between = above.0 - below.0;
            let step = if straight { between * (rate - below.1) / (above.1 - below.1) } else { between / 2 };
            let guess = below.0 + step.clamp(1, between - 1);
            match (guess, self.set(guess, solving)) {
                at if at.1 <= rate => below = at,
                at => above = at,
            }
        }
        self.set(below.0, solving);
        true
    }
}
