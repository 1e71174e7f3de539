//! Violated curves of inner classes under H-FSC, and the start of the violation: the situation of \[hfsc\] Figure 4
//! (Section 2.3).
//!
//! The curve of an inner class K is its `link_share`, else a line of its guarantee or of its share when all are busy.
//! Real-time service goes first. In a time y after K gets packets the leaves outside K may take the steepest increase
//! of each curve: S_i(y) for a concave curve whose leaf begins at that instant, m2 y for a convex one whose leaf has
//! had packets for long. The rest for K is at most the rest of the link. So K falls short where f(y) = S_K(y) + sum
//! over leaves outside K of that - R y is above zero, by f(y). Leaf curves are met nevertheless.
//!
//! In the example of the text A = {1, 2} and B = {3, 4}; while 1 is idle, 2 gets its share; when 1 comes with a steep first piece, B pays for it.
//!
//! This is the shortfall if link-sharing alone serves K. If leaves below K have real-time curves, these are met, too,
//! and the shortfall is smaller.
//!
//! **Upper bound.** For any arrivals with link-sharing among them, K is behind its curve by at most the steepest slope
//! of its curve times D + c of [`crate::virtual_time`]. This holds if virtual time passes at least as fast as real
//! time.

use fairlink_core::{ClassId, Hierarchy, Nanos, Rate, ServiceCurve, Share};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use crate::curves::service;
use crate::virtual_time::{Bound, Spread, slopes, spreads};

/// An inner class whose curve is not always met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The class.
    pub class: ClassId,
    /// Time after the arrival of packets at which the shortfall may begin, in seconds.
    pub from: BigRational,
    /// Maximum shortfall in bytes, to within packets; `None` if it grows without bound.
    pub bytes: Option<BigRational>,
    /// Time of the maximum, in seconds after it gets packets; if it grows without bound, the last instant at which its
    /// growth changes.
    pub at: BigRational,
}

/// The curves of inner classes under H-FSC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InnerCurves {
    /// Classes whose curves cannot be met.
    pub short: Vec<Shortfall>,
    /// Bound on the lag of an inner class behind its curve in bytes, by class id, for any arrivals; `None` for leaves
    /// and if there is no bound.
    pub at_most: Vec<Option<BigRational>>,
}

/// Limit of products of inner classes and leaves with curves. Above it nothing is computed.
const WORK: usize = 100_000;

impl InnerCurves {
    /// Computes the shortfalls of `tree`; `None` if it has too many classes to combine each inner one with each leaf
    /// with a curve.
    #[must_use]
    pub fn for_tree(tree: &Hierarchy) -> Option<Self> {
        let curves: Vec<(ClassId, ServiceCurve)> =
            tree.leaves().iter().filter_map(|&leaf| Some((leaf, tree.config(leaf).real_time?))).collect();
        let inner = || tree.classes().filter(|&class| !tree.is_leaf(class));
        if inner().count() * curves.len() > WORK {
            return None;
        }
        let spreads = spreads(tree);
        let mut found = Self { short: Vec::new(), at_most: vec![None; tree.len()] };
        for class in inner() {
            let own = curve_of(tree, class);
            let outside = curves
                .iter()
                .filter(|(leaf, _)| !std::iter::successors(Some(*leaf), |&at| tree.parent(at)).any(|at| at == class));
            let steepest = outside.map(|(_, curve)| steepest(curve));
            let all: Vec<ServiceCurve> = std::iter::once(own).chain(steepest).collect();
            found.short.extend(shortfall(class, &all, tree.link().rate));
            let parent = tree.parent(class).unwrap_or(ClassId::ROOT);
            if let Some(Spread::Bounded(Bound { seconds, behind: Some(behind), pace: Some(pace) })) =
                &spreads[parent.index()]
                && *pace >= whole(1)
            {
                let (first, then) = slopes(&own);
                found.at_most[class.index()] = Some((seconds + behind) * first.max(then) / BigInt::from(8));
            }
        }
        Some(found)
    }
}

/// Returns the recommended curve of an inner class.
#[must_use]
pub fn curve_of(tree: &Hierarchy, class: ClassId) -> ServiceCurve {
    let config = tree.config(class);
    let line = |rate: Option<Rate>| ServiceCurve { m1: rate, d: Nanos::ZERO, m2: rate };
    config.link_share.unwrap_or_else(|| match config.share {
        Some(Share::Guarantee(rate)) => line(Some(rate)),
        _ => line(Rate::from_bps(tree.rate_all_busy(class)).ok()),
    })
}

/// Returns the maximum rise of a curve in any time: the curve itself if it is concave, a line if it is convex.
fn steepest(curve: &ServiceCurve) -> ServiceCurve {
    let (first, then) = slopes(curve);
    if first < then { ServiceCurve { m1: curve.m2, d: Nanos::ZERO, m2: curve.m2 } } else { *curve }
}

/// Returns the shortfall of the first curve beside the others.
fn shortfall(class: ClassId, all: &[ServiceCurve], link: Rate) -> Option<Shortfall> {
    let link = whole(link.bps());
    let excess = |t: &BigRational| all.iter().map(|curve| service(curve, t)).sum::<BigRational>() - &link * t;
    let mut knees: Vec<Nanos> = all.iter().map(|curve| curve.d).filter(|d| d.0 > 0).collect();
    knees.sort_unstable();
    knees.dedup();
    let mut knees: Vec<BigRational> =
        knees.into_iter().map(|d| BigRational::new(d.0.into(), 1_000_000_000.into())).collect();
    let last = knees.last().cloned().unwrap_or_default();
    // One second past the last knee shows the slope in the long run.
    knees.push(&last + whole(1));
    let grows = excess(&knees[knees.len() - 1]) > excess(&last);
    let (mut from, mut before) = (None, (BigRational::zero(), BigRational::zero()));
    let mut worst = before.clone();
    for at in knees {
        let now = excess(&at);
        if now > BigRational::zero() && from.is_none() {
            // Zero crossing of the line from the last knee to this one.
            from = Some(&before.0 + (&at - &before.0) * (-&before.1) / (&now - &before.1));
        }
        if now > worst.1 && at <= last {
            worst = (at.clone(), now.clone());
        }
        before = (at, now);
    }
    let (at, bits) = if grows { (last, None) } else { (worst.0, Some(worst.1)) };
    // It falls short by no more than its curve.
    let own = |bits: BigRational| bits.min(service(&all[0], &at)) / BigInt::from(8);
    Some(Shortfall { class, from: from?, bytes: bits.map(own), at: at.clone() })
}

fn whole(value: u64) -> BigRational {
    BigRational::from_integer(value.into())
}

#[cfg(test)]
mod tests;
