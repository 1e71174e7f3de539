//! Maximum difference of the virtual times of siblings under H-FSC: \[hfsc\] Theorem 3, with the constant that the text
//! leaves open.
//!
//! Virtual time is service on the scale of the link-sharing curve. Link-sharing serves the child that is behind;
//! real-time service is independent of virtual times and may put any child ahead. All of it in bits and seconds, for a
//! class P that gets at least R_P y - b_P in any time y in which it has packets (the link: its rate, and a packet). For
//! its children j: m_j is the long-run slope of the link-sharing curve, s_j the lead of a steeper first piece over that
//! slope, f_j the length of a flat first piece; rho_j and beta_j bound the real-time service below j over any time y by
//! rho_j y + beta_j; L is a largest packet.
//!
//! **Without real-time curves below P**, the child that is served was the least. So the difference is at most one step of any child: f_j + L / m_j.
//!
//! **With them**, let theta = R_P / sum m_j and rho_j <= theta m_j for all j. Otherwise real-time service alone may
//! keep a child permanently ahead of its share, and there is no bound.
//!
//! 1. v_min grows by at least theta y - c in any time y. Take the last instant at which it had grown by theta y, and
//!    let y be counted from there. Since then link-sharing has served j only while it was at v_min, so all of j is at
//!    most s_j + L + theta m_j y + beta_j; and the child K that is at v_min in the end got at most s_K + L + m_K times
//!    the growth of v_min. Together they got R_P y - b_P. So c = max over K of (b_P + sum over all of (s_j + L) + sum
//!    over the others of beta_j) / m_K.
//! 2. A child J ahead of all others was last served by link-sharing as the least, or began half way between the least and the most. Since then it
//!    got real-time service alone, at most theta m_J y + beta_J + L. So D <= D / 2 + f_J + c + (beta_J + 2 L) / m_J, and
//!    D = 2 (c + max over J of (f_J + (beta_J + 2 L) / m_J)).
//! 3. A child j so gets at least theta m_j y - m_j (D + c + f_j) itself, which is R and b one level down.
//!
//! A leaf with the real-time curve (m1, d, m2) is served by that criterion between its eligible curve and its deadlines, which are missed by no more
//! than a packet (Theorem 2): rho = m2; beta = (m1 - m2) d for a concave curve, m2 d for a convex one, and m2 L / C + 2 L.
//!
//! DIFFERENCE: \[hfsc\] has the proof in a separate report, without upper limits or leaves of real-time only. With
//! these no bound is given here.

use fairlink_core::{ClassId, Hierarchy, NANOS_PER_SEC, Rate, ServiceCurve, Share};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

/// Bound on the virtual times of the children of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Maximum difference between children that are active at the same time.
    Bounded(Bound),
    /// The real-time curves below this child ask for more than its share: it may get ahead without bound.
    Unbounded(ClassId),
    /// Unknown, because this class has an upper limit or is a leaf of real-time only, or because the rate of the class
    /// above it has no bound.
    Unknown(ClassId),
}

/// A bound on virtual times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Difference in seconds of virtual time, D of [the module](self).
    pub seconds: BigRational,
    /// Maximum lag of the least virtual time behind the pace theta, in seconds, c there. `None` without real-time
    /// curves below and without a known rate.
    pub behind: Option<BigRational>,
    /// Minimum speed of virtual time relative to real time while all children have packets, theta; `None` with
    /// `behind`.
    pub pace: Option<BigRational>,
}

/// The curve that a class shares by, in bit/s and seconds.
struct Sharing {
    slope: BigRational,
    /// Lead in bits.
    ahead: BigRational,
    flat: BigRational,
}

/// Limits of the real-time service below a class, in bit/s and bits.
#[derive(Clone, Default)]
struct RealTime {
    rate: BigRational,
    burst: BigRational,
}

/// Returns the bound for the children of each class with at least two, by class id; `None` for all others.
#[must_use]
pub fn spreads(tree: &Hierarchy) -> Vec<Option<Spread>> {
    let classes = || std::iter::once(ClassId::ROOT).chain(tree.classes());
    let obstacle = tree.classes().find(|&class| {
        let config = tree.config(class);
        let real_time_only = config.real_time.is_some() && config.link_share.is_none() && config.share.is_none();
        config.upper_limit.is_some() || config.ceiling.is_some() || real_time_only
    });
    let packet = whole(tree.link().max_packet) * BigInt::from(8);
    let real_time = real_time_below(tree, &packet);
    // Rate and lag by class id; the link may be in the middle of a packet.
    let mut served: Vec<Option<(BigRational, BigRational)>> = vec![None; tree.len()];
    served[0] = Some((whole(tree.link().rate.bps()), packet.clone()));
    let mut spreads = vec![None; tree.len()];
    for parent in classes().filter(|&class| !tree.is_leaf(class)) {
        let children = tree.children(parent);
        if let Some(obstacle) = obstacle {
            spreads[parent.index()] = (children.len() > 1).then_some(Spread::Unknown(obstacle));
            continue;
        }
        if let ([child], Some(own)) = (children, &served[parent.index()]) {
            // For any rate of the class.
            served[child.index()] = Some(own.clone());
            continue;
        }
        let spread = spread(tree, parent, served[parent.index()].as_ref(), &real_time, &packet);
        if let Spread::Bounded(Bound { seconds, behind: Some(behind), pace: Some(pace) }) = &spread {
            for &child in children {
                let Sharing { slope, flat, .. } = sharing(tree, child);
                let lag = &slope * (seconds + behind + flat);
                served[child.index()] = Some((slope * pace, lag));
            }
        }
        spreads[parent.index()] = (children.len() > 1).then_some(spread);
    }
    spreads
}

/// Computes the bound for the children of `parent`, with the service `served`.
fn spread(
    tree: &Hierarchy,
    parent: ClassId,
    served: Option<&(BigRational, BigRational)>,
    real_time: &[RealTime],
    packet: &BigRational,
) -> Spread {
    let children: Vec<(ClassId, Sharing)> =
        tree.children(parent).iter().map(|&child| (child, sharing(tree, child))).collect();
    let longest = |of: &dyn Fn(&(ClassId, Sharing)) -> BigRational| children.iter().map(of).max().unwrap_or_default();
    let burst = |child: ClassId| &real_time[child.index()].burst;
    let none_below = children.iter().all(|(child, _)| burst(*child).is_zero());
    let step = || longest(&|(_, sharing)| &sharing.flat + packet / &sharing.slope);
    let Some((rate, lag)) = served else {
        return match none_below {
            true => Spread::Bounded(Bound { seconds: step(), behind: None, pace: None }),
            false => Spread::Unknown(parent),
        };
    };
    let pace = rate / children.iter().map(|(_, sharing)| &sharing.slope).sum::<BigRational>();
    if let Some((child, _)) = children.iter().find(|(child, of)| real_time[child.index()].rate > &pace * &of.slope) {
        return Spread::Unbounded(*child);
    }
    let all: BigRational = children.iter().map(|(child, of)| &of.ahead + packet + burst(*child)).sum();
    let behind = longest(&|(child, of)| (lag + &all - burst(*child)) / &of.slope);
    let seconds = match none_below {
        true => step(),
        false => {
            let ahead = longest(&|(child, of)| &of.flat + (burst(*child) + packet * BigInt::from(2)) / &of.slope);
            (&behind + ahead) * BigInt::from(2)
        }
    };
    Spread::Bounded(Bound { seconds, behind: Some(behind), pace: Some(pace) })
}

/// Returns the sharing of `hfsc`.
fn sharing(tree: &Hierarchy, class: ClassId) -> Sharing {
    let config = tree.config(class);
    let line = |bps: u64| Sharing { slope: whole(bps.max(1)), ahead: BigRational::zero(), flat: BigRational::zero() };
    let siblings = tree.children(tree.parent(class).unwrap_or(ClassId::ROOT));
    match (config.link_share, config.share) {
        (Some(curve), _) => {
            let (first, then) = slopes(&curve);
            let d = seconds(&curve);
            let ahead = (&first - &then).max(BigRational::zero()) * &d;
            let flat = if first < then { d } else { BigRational::zero() };
            Sharing { slope: then, ahead, flat }
        }
        (None, Some(Share::Guarantee(rate))) => line(rate.bps()),
        _ if siblings.iter().any(|&sibling| tree.config(sibling).link_share.is_some()) => {
            line(tree.rate_all_busy(class))
        }
        _ => line(tree.weight(class)),
    }
}

fn real_time_below(tree: &Hierarchy, packet: &BigRational) -> Vec<RealTime> {
    let mut below = vec![RealTime::default(); tree.len()];
    for class in tree.classes().rev() {
        if let Some(curve) = tree.config(class).real_time {
            let (first, then) = slopes(&curve);
            let early = if first < then { then.clone() } else { &first - &then };
            let late = &then * packet / BigInt::from(tree.link().rate.bps());
            let burst = early * seconds(&curve) + late + packet * BigInt::from(2);
            below[class.index()] = RealTime { rate: then, burst };
        }
        let own = below[class.index()].clone();
        let above = &mut below[tree.parent(class).unwrap_or(ClassId::ROOT).index()];
        above.rate += own.rate;
        above.burst += own.burst;
    }
    below
}

pub(crate) fn slopes(curve: &ServiceCurve) -> (BigRational, BigRational) {
    let slope = |rate: Option<Rate>| whole(rate.map_or(0, Rate::bps));
    // Without a first piece, it is the second.
    if curve.d.0 == 0 { (slope(curve.m2), slope(curve.m2)) } else { (slope(curve.m1), slope(curve.m2)) }
}

fn seconds(curve: &ServiceCurve) -> BigRational {
    BigRational::new(curve.d.0.into(), NANOS_PER_SEC.into())
}

fn whole(value: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(value.into())
}
