//! Computed guarantees of a scheduler for a tree of classes: the source of every bound that `fairlink check` prints.
//!
//! A scheduler's [`Promises`](fairlink_core::Promises) name the applicable theorems; this module computes them. It
//! never compares names of schedulers.

use fairlink_core::{
    ClassId, Delay, Fairness, Feature, Hierarchy, OutOfMemory, Ratio, RoundTerms, SchedulerInfo, TransmissionGap,
    registry::SCHEDULERS,
};
use num_rational::BigRational;
use thiserror::Error;

use crate::bounds::{BoundsError, ClassFairness, HdrrBounds, HlsBounds, WorstPair};
use crate::curves::{flat_excess, real_time_excess};
use crate::latency::{DelayBound, delay_bounds, exact};
use crate::to_f64;
use crate::weights::{Weights, WeightsError};

/// The weight of a class as its scheduler runs with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunWeight {
    /// Effective weight in [`RunWeight::unit`].
    pub as_run: f64,
    /// Unit of the weight.
    pub unit: WeightUnit,
    /// Relative deviation of the resulting share among the siblings from the configured one.
    pub error: f64,
}

/// The unit of effective weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightUnit {
    /// Bytes per round.
    Bytes,
    /// Visits per round.
    Visits,
}

/// Maximum difference in service of two siblings that stay backlogged.
#[derive(Clone, Debug)]
pub struct FairnessBound {
    /// Definition 1 of \[hls\], in bytes per unit of weight as run, and the siblings for which it is the largest.
    pub bytes_per_weight: WorstPair,
    /// The same as time at the guarantee, in seconds, free of the unit of weights.
    pub seconds: WorstPair,
    /// Unit of effective weights.
    pub unit: WeightUnit,
    /// True if it holds for siblings that are leaves only.
    pub leaves_only: bool,
    /// By class id, the maximum deviation of a class from its part of a sibling's service; empty if it is not computed.
    pub of_classes: Vec<Option<ClassFairness>>,
}

/// The bound on the transmission gap, in seconds.
#[derive(Clone, Debug)]
pub struct GapBound {
    /// Maximum wait of a backlogged leaf without a ceiling at it or above it for its next visit.
    pub seconds: BigRational,
    /// Maximum wait of leaves with such ceilings, by class id; `None` for all others.
    pub below_ceilings: Vec<Option<f64>>,
    /// One round, half of the gap, in seconds; printed in Table II of \[hls\].
    pub longest_round: Option<BigRational>,
    /// By class id, the maximum time in seconds from any instant at which a leaf is backlogged until its next packet has
    /// left; `None` for inner classes and below ceilings. Empty if it is not computed.
    pub next_packets: Vec<Option<f64>>,
}

impl GapBound {
    /// Returns the leaf with the longest time until its next packet has left, and that time in seconds. `None` if it is
    /// computed for no leaf.
    #[must_use]
    pub fn next_packet(&self) -> Option<(f64, ClassId)> {
        let of_class = |(index, next): (usize, &Option<f64>)| Some(((*next)?, ClassId(index as u32)));
        let leaves = self.next_packets.iter().enumerate().filter_map(of_class);
        leaves.reduce(|longest, leaf| if leaf.0 > longest.0 { leaf } else { longest })
    }
}

/// The guarantees of a scheduler for a tree; those that are promised but not computed are `None` here.
#[derive(Clone, Debug, Default)]
pub struct Promised {
    /// By class id, if the scheduler runs with weights that were changed to fit a round.
    pub weights: Vec<Option<RunWeight>>,
    /// The same weights, exact: those that shares are to be measured with.
    pub run: Option<Weights>,
    /// Fairness between siblings.
    pub fairness: Option<FairnessBound>,
    /// By class id, if a scheduler promises siblings a number of packets of each: the maximum deviation of a class from
    /// its part of the service of any sibling. Empty if that is not promised.
    pub siblings: Vec<Option<ClassFairness>>,
    /// By class id, the worst-case fairness index: maximum lag in bytes of a backlogged class behind its share of the
    /// link's service meanwhile.
    pub worst_case: Vec<Option<BigRational>>,
    /// Transmission gap of all leaves.
    pub transmission_gap: Option<GapBound>,
    /// Delay bounds by class id.
    pub delays: Vec<Option<DelayBound>>,
}

impl Promised {
    /// Returns the maximum time in seconds from the end of a packet of `leaf` to the beginning of its next one while it
    /// stays backlogged, or from when it becomes backlogged; `None` if that is not computed, and for classes that are not
    /// leaves.
    ///
    /// A visit may send nothing. So the bound on visits holds for packets only if each visit sends: of HDRR, and of a
    /// leaf directly below the link with a weight of a largest packet or more. Otherwise, the time until the next packet
    /// has left, without that packet.
    #[must_use]
    pub fn between_packets(&self, tree: &Hierarchy, leaf: ClassId) -> Option<f64> {
        let gap = self.transmission_gap.as_ref().filter(|_| tree.is_leaf(leaf))?;
        let weight = self.weights[leaf.index()]?;
        let largest = f64::from(tree.link().max_packet);
        let whole = weight.unit == WeightUnit::Visits || tree.depth(leaf) == 1 && weight.as_run >= largest;
        // A latency-critical leaf sends between its visits.
        let visits = if whole && !tree.config(leaf).latency_critical {
            let mut path = std::iter::successors(Some(leaf), |&class| tree.parent(class));
            let is_limited = path.any(|class| tree.config(class).ceiling.is_some());
            if is_limited { gap.below_ceilings[leaf.index()] } else { Some(to_f64(&gap.seconds)) }
        } else {
            None
        };
        let packet = largest * 8.0 / tree.link().rate.bps() as f64;
        let next = gap.next_packets.get(leaf.index()).copied().flatten().map(|next| next - packet);
        visits.into_iter().chain(next).reduce(f64::min)
    }
}

/// The reason for which promises could not be computed.
#[derive(Debug, Error)]
pub enum PromiseError {
    /// There was no memory to find out how the scheduler would run.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The weights as run do not fit the tree.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The bounds are not defined for the tree.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
}

/// Computes the guarantees of `info` for `tree`. Behind a transmit queue only those hold that are proven for the
/// packets as the link sends them: bounds on delay that follow from the order of packets.
///
/// # Errors
/// [`PromiseError`].
pub fn promised(info: &SchedulerInfo, tree: &Hierarchy) -> Result<Promised, PromiseError> {
    let none = Promised {
        weights: vec![None; tree.len()],
        worst_case: vec![None; tree.len()],
        delays: delay_bounds(info, tree),
        ..Promised::default()
    };
    let promised = of_order(info, tree, none)?;
    if tree.link().transmit_queue.is_none() {
        return Ok(promised);
    }
    // All packets of a class may already have their turn decided; the class still counts as backlogged for an outside
    // observer.
    let worst_case = vec![None; tree.len()];
    Ok(Promised { fairness: None, siblings: Vec::new(), transmission_gap: None, worst_case, ..promised })
}

/// Computes the guarantees without a queue behind the scheduler.
fn of_order(info: &SchedulerInfo, tree: &Hierarchy, none: Promised) -> Result<Promised, PromiseError> {
    match (info.promises.fairness, info.promises.transmission_gap) {
        (Some(Fairness::Rounds(terms)), gap) => {
            rounds(tree, terms(tree)?, matches!(gap, Some(TransmissionGap::TwoRounds)), none)
        }
        (Some(Fairness::Visits), gap) => visits(tree, matches!(gap, Some(TransmissionGap::LongestRound)), none),
        (Some(Fairness::PacketEach), _) => Ok(Promised { siblings: packet_each(tree), ..none }),
        (Some(Fairness::Clocks(slacks)), _) => Ok(Promised { siblings: clocks(tree, &slacks(tree)?), ..none }),
        (Some(Fairness::WorstCase(index)), _) => {
            Ok(Promised { worst_case: index(tree).into_iter().map(|index| index.map(exact)).collect(), ..none })
        }
        _ => Ok(none),
    }
}

/// Returns the fairness of \[scfq\] and \[sfq\]: |W_i / w_i - W_j / w_j| is at most L / w_i + L / w_j.
fn packet_each(tree: &Hierarchy) -> Vec<Option<ClassFairness>> {
    let share = |class: ClassId| tree.share_all_busy(class) as f64;
    let bound = |index: usize| {
        let class = ClassId(index as u32);
        let siblings = tree.children(tree.parent(class)?).iter().filter(|&&other| other != class);
        let smallest = siblings.map(|&other| share(other)).reduce(f64::min)?;
        let bytes = f64::from(tree.link().max_packet) * (1.0 + share(class) / smallest);
        let rate = tree.link().rate.bps() as f64 * share(class) / (1u128 << 64) as f64;
        Some(ClassFairness { bytes, seconds: bytes * 8.0 / rate })
    };
    (0..tree.len()).map(bound).collect()
}

/// Returns the fairness of `hvt`, for the x of each class: W_i and w_i W_j / w_j differ by at most x_i + w_i x_j / w_j - 2 L
/// w_i / W bytes. Of all siblings j that is the largest where x_j / w_j is.
fn clocks(tree: &Hierarchy, slacks: &[Option<Ratio>]) -> Vec<Option<ClassFairness>> {
    let mut fairness = vec![None; tree.len()];
    let slack = |class: ClassId| slacks[class.index()].map(|x| x.numerator as f64 / x.denominator as f64);
    for parent in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
        let all = tree.children_weight(parent) as f64;
        let late = |&child: &ClassId| Some((child, slack(child)? / tree.weight(child) as f64));
        let mut siblings: Vec<(ClassId, f64)> = tree.children(parent).iter().filter_map(late).collect();
        siblings.sort_by(|one, other| other.1.total_cmp(&one.1));
        for (at, &(child, own)) in siblings.iter().enumerate() {
            let Some(&(_, others)) = siblings.get(usize::from(at == 0)) else { continue };
            let weight = tree.weight(child) as f64;
            let bytes = weight * (own + others - 2.0 * f64::from(tree.link().max_packet) / all);
            let rate = tree.link().rate.bps() as f64 * tree.share_all_busy(child) as f64 / (1u128 << 64) as f64;
            fairness[child.index()] = Some(ClassFairness { bytes, seconds: bytes * 8.0 / rate });
        }
    }
    fairness
}

/// Returns the class whose share among its siblings deviates most from the configured one, and by how much, if `info`
/// runs with weights that were changed to fit a round. `None` if it does not, or if no deviation is measurable.
///
/// # Errors
/// [`OutOfMemory`].
pub fn largest_share_error(info: &SchedulerInfo, tree: &Hierarchy) -> Result<Option<(ClassId, f64)>, OutOfMemory> {
    let Some(Fairness::Rounds(terms)) = info.promises.fairness else { return Ok(None) };
    let weights = run_weights(tree, &terms(tree)?);
    let errors = tree.classes().filter_map(|class| Some((class, weights[class.index()]?.error)));
    Ok(errors.reduce(|worst, error| if error.1.abs() > worst.1.abs() { error } else { worst }))
}

/// Returns \[hls\] Theorems 3 and 5.
fn rounds(tree: &Hierarchy, terms: RoundTerms, gap: bool, none: Promised) -> Result<Promised, PromiseError> {
    let weights = run_weights(tree, &terms);
    let RoundTerms { weights: units, units_per_byte, advances } = terms;
    let units = Weights::new(tree, units.into_vec(), units_per_byte)?;
    let bounds = HlsBounds::new(tree, &units, units_per_byte, |_| tree.link().max_packet)?
        .with_advances(|leaf| advances.get(leaf.index()).copied().unwrap_or(0));
    let rate = tree.link().rate;
    let fairness = bounds.alpha().zip(bounds.fairness_seconds(rate)).map(|(bytes_per_weight, seconds)| FairnessBound {
        bytes_per_weight,
        seconds,
        unit: WeightUnit::Bytes,
        leaves_only: false,
        of_classes: bounds.fairness_of_classes(rate),
    });
    let transmission_gap = gap.then(|| GapBound {
        seconds: bounds.transmission_gap(rate),
        below_ceilings: bounds.transmission_gaps_below_ceilings(rate),
        longest_round: Some(bounds.longest_round(rate)),
        next_packets: bounds.next_packets(rate),
    });
    Ok(Promised { weights, run: Some(units), fairness, transmission_gap, ..none })
}

/// Effective weights, in bytes, and deviation of each share from the configured one.
fn run_weights(tree: &Hierarchy, terms: &RoundTerms) -> Vec<Option<RunWeight>> {
    let (mut weights, credits) = (vec![None; tree.len()], &terms.weights);
    for parent in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
        let children = tree.children(parent);
        let written: u128 = children.iter().map(|&child| u128::from(tree.weight(child))).sum();
        let as_run: u128 = children.iter().map(|&child| u128::from(credits[child.index()])).sum();
        for &child in children {
            let own = credits[child.index()];
            // Subtracted before it becomes a float: the error is a few parts in 10^9 of the share. Weights of a tree add up to less
            // than 2^61, credits to less than 2^62.
            let exact = (u128::from(tree.weight(child)) * as_run) as i128;
            let given = (u128::from(own) * written) as i128;
            let error = (given - exact) as f64 / exact as f64;
            let as_run = own as f64 / terms.units_per_byte as f64;
            weights[child.index()] = Some(RunWeight { as_run, unit: WeightUnit::Bytes, error });
        }
    }
    weights
}

/// Returns \[hls\] Theorems 4 and 6, for the smallest whole weights and a quantum of a largest packet.
fn visits(tree: &Hierarchy, gap: bool, none: Promised) -> Result<Promised, PromiseError> {
    let link = tree.link();
    let visits = Weights::smallest_whole(tree);
    let bounds = HdrrBounds::new(tree, &visits, link.max_packet.into(), |_| link.max_packet)?;
    let weight = |class| RunWeight { as_run: visits.units(class) as f64, unit: WeightUnit::Visits, error: 0.0 };
    let weights = std::iter::once(None).chain(tree.classes().map(|class| Some(weight(class)))).collect();
    let fairness = bounds.alpha_of_leaves(link.rate).map(|(seconds, bytes_per_weight)| FairnessBound {
        bytes_per_weight,
        seconds,
        unit: WeightUnit::Visits,
        leaves_only: true,
        of_classes: Vec::new(),
    });
    let transmission_gap = gap.then(|| GapBound {
        seconds: bounds.transmission_gap(link.rate),
        below_ceilings: vec![None; tree.len()],
        longest_round: None,
        next_packets: Vec::new(),
    });
    Ok(Promised { weights, run: Some(visits), fairness, transmission_gap, ..none })
}

/// A scheduler under which leaves have shorter delay bounds.
#[derive(Clone, Copy, Debug)]
pub struct Shorter {
    /// The scheduler.
    pub scheduler: &'static SchedulerInfo,
    /// Leaves whose bounds exceed [`LONG`] packets at their rates, and are shorter under it.
    pub leaves: usize,
    /// Of these, the leaf that gains most.
    pub leaf: ClassId,
    /// Its bound in seconds, and that under the other scheduler.
    pub seconds: [f64; 2],
}

/// A delay bound of more largest packets than this, at the leaf's rate when all are busy, is long.
pub const LONG: f64 = 3.0;

/// Largest number of classes for which [`shorter_delays`] looks.
const MOST_COMPARED: usize = 1 << 17;

/// Looks for a scheduler that shares `tree` as `info` does and takes it as it is, with virtual times instead of rounds, and
/// shorter delay bounds for leaves whose bounds `delays` are [`LONG`]. `None` if there is none, if `info` has no rounds, and for
/// more than 131,072 classes.
#[must_use]
pub fn shorter_delays(info: &SchedulerInfo, tree: &Hierarchy, delays: &[Option<DelayBound>]) -> Option<Shorter> {
    if !matches!(info.promises.fairness, Some(Fairness::Rounds(_))) || tree.len() > MOST_COMPARED {
        return None;
    }
    let takes = |other: &&SchedulerInfo| {
        matches!(other.promises.fairness, Some(Fairness::Clocks(_))) && other.unsupported(tree).next().is_none()
    };
    let scheduler = SCHEDULERS.iter().find(takes)?;
    let others = delay_bounds(scheduler, tree);
    let compared = |&leaf: &ClassId| {
        let [own, other] =
            [delays, &others[..]].map(|bounds| bounds[leaf.index()].as_ref().map(|bound| to_f64(&bound.seconds())));
        let seconds = [own?, other?];
        let packet = f64::from(tree.link().max_packet) * 8.0 / tree.rate_all_busy(leaf).max(1) as f64;
        (seconds[0] > LONG * packet && seconds[1] < seconds[0]).then_some((leaf, seconds))
    };
    let gains: Vec<(ClassId, [f64; 2])> = tree.leaves().iter().filter_map(compared).collect();
    let gain = |(_, [own, other]): &(ClassId, [f64; 2])| own / other;
    let &(leaf, seconds) = gains.iter().max_by(|one, other| gain(one).total_cmp(&gain(other)))?;
    Some(Shorter { scheduler, leaves: gains.len(), leaf, seconds })
}

/// The admission test of \[hfsc\] Section 2.1, if `info` guarantees curves and a class of `tree` has one. Returns the
/// time in seconds after which all classes together exceed the capacity of the link, if all become backlogged at once.
/// `Some(None)`: never, they are admitted.
#[must_use]
pub fn admission(info: &SchedulerInfo, tree: &Hierarchy) -> Option<Option<BigRational>> {
    let asks = tree.leaves().iter().any(|&leaf| tree.config(leaf).real_time.is_some());
    match info.promises.delay {
        Some(Delay::Curves { lines }) if asks && info.supports(Feature::ServiceCurves) => {
            Some(if lines { flat_excess(tree) } else { real_time_excess(tree) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use fairlink_core::{ClassConfig, LinkConfig, Rate, Share, Sharing, registry};

    use super::*;

    /// Half of 100 Mbit/s beside a hundred small classes; the last one may have another setting.
    fn tree(last: ClassConfig) -> Hierarchy {
        let weighted = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..last };
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(100_000_000).unwrap()));
        let others = std::iter::repeat_n(ClassConfig { share: Some(Share::Weight(1)), ..ClassConfig::default() }, 99);
        let first = ClassConfig { share: Some(Share::Weight(100)), ..ClassConfig::default() };
        for config in std::iter::once(first).chain(others).chain([weighted(1)]) {
            tree.add(ClassId::ROOT, config).unwrap();
        }
        tree.build().unwrap()
    }

    fn shorter(name: &str, tree: &Hierarchy) -> Option<Shorter> {
        let info = registry::find(name).unwrap();
        shorter_delays(info, tree, &delay_bounds(info, tree))
    }

    #[test]
    fn a_round_of_many_classes_is_longer_than_virtual_times_take() {
        let tree = tree(ClassConfig::default());
        let found = shorter("hls", &tree).unwrap();
        let bounds = delay_bounds(found.scheduler, &tree);
        assert_eq!((found.leaf, found.leaves), (ClassId(1), 101));
        assert_eq!(found.seconds[1], to_f64(&bounds[1].as_ref().unwrap().seconds()));
        // Two packets at half of the rate and one on the link, and a sixteenth for the slots of a wheel.
        assert!(found.seconds[0] > 0.01 && found.seconds[1] < 0.001, "{found:?}");
        let sharing = |name| registry::find(name).unwrap().sharing;
        assert!(matches!((sharing("hls"), found.scheduler.sharing), (Sharing::Siblings, Sharing::Siblings)));
    }

    #[test]
    fn only_rounds_are_compared_and_only_with_what_takes_the_tree() {
        let plain = tree(ClassConfig::default());
        for name in ["hvt", "wf2q+", "htb", "drr"] {
            assert!(shorter(name, &plain).is_none(), "{name}");
        }
        // A setting that is no scheduler's with virtual times.
        let quanta = tree(ClassConfig { quantum: Some(3000), ..ClassConfig::default() });
        assert!(shorter("hls", &quanta).is_none());
        // Beside a latency-critical leaf, too.
        let critical = tree(ClassConfig { latency_critical: true, ..ClassConfig::default() });
        assert_eq!(shorter("hls", &critical).map(|found| found.leaf), Some(ClassId(1)));
    }
}
