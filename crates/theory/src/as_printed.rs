//! Theorems as printed in the texts, where a different bound holds: \[hls\] Theorems 4 and 6 (HDRR), \[drrpp\] Theorems
//! 1 and 2 (DRR++).
//!
//! | text | here | what holds |
//! | --- | --- | --- |
//! | \[hls\] Theorem 4 (1522.5 B for Figure 1) | weights are guarantees in Mbit/s as plain numbers, the quantum is a largest packet | [`crate::promises`]: sibling leaves only, for the visits that are run |
//! | \[hls\] Theorem 6 (3600 ms for Figure 1) | the same | the same theorem for the smallest whole weights in the same proportions, which make shorter rounds |
//! | \[drrpp\] Theorem 2 | sigma / rho + (Q_LC + 3 Q_BE) / r, for the traffic of the bound that holds | a packet more for each class that may carry over a deficit |
//! | \[drrpp\] Theorem 1 | [`MeanDelay`] | an estimate, no bound |
//!
//! DIFFERENCE: \[drrpp\] has one latency-critical flow. With several, Q_LC of Theorem 1 is that of the class, and Q_i has all of them and the largest Q_BE.
//! Theorem 2 is given for one alone.

use fairlink_core::schedulers::{drr, drr_plus_plus, hdrr};
use fairlink_core::{ClassId, Hierarchy, Rate, SchedulerInfo, Share, Sharing};
use fairlink_traffic::ArrivalLimit;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

use crate::bounds::HdrrBounds;
use crate::latency::delay_bounds;
use crate::weights::Weights;

/// A value as a text has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Text and theorem, such as `[hls] Theorem 4`.
    pub theorem: &'static str,
    /// The quantity that is bounded.
    pub quantity: Quantity,
    /// Its class; `None` for the whole link.
    pub class: Option<ClassId>,
    /// The value, in bytes or seconds depending on `quantity`.
    pub value: BigRational,
    /// Difference from the bound that holds.
    pub caution: &'static str,
}

/// The quantity that a printed value bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Definition 1 of \[hls\], in bytes per unit of weight.
    Fairness,
    /// Definition 2 of \[hls\], in seconds.
    TransmissionGap,
    /// Delay of a packet, in seconds.
    Delay,
}

/// Returns the values that the text of the scheduler `info` prints for `tree`; empty if the valid bounds are those of
/// the text.
#[must_use]
pub fn as_printed(info: &SchedulerInfo, tree: &Hierarchy) -> Vec<Printed> {
    match info.name {
        name if name == hdrr::INFO.name => of_hdrr(tree),
        name if name == drr_plus_plus::INFO.name => of_drr_plus_plus(info, tree),
        _ => Vec::new(),
    }
}

fn of_hdrr(tree: &Hierarchy) -> Vec<Printed> {
    const MBIT: u64 = 1_000_000;
    let guaranteed = tree.classes().all(|class| matches!(tree.config(class).share, Some(Share::Guarantee(_))));
    let link = tree.link();
    let Ok(weights) = Weights::as_written(tree, if guaranteed { MBIT } else { 1 }) else { return Vec::new() };
    let Ok(bounds) = HdrrBounds::new(tree, &weights, link.max_packet.into(), |_| link.max_packet) else {
        return Vec::new();
    };
    let fairness = bounds.alpha().map(|pair| Printed {
        theorem: "[hls] Theorem 4",
        quantity: Quantity::Fairness,
        class: None,
        value: pair.value,
        caution: "holds for sibling leaves only, and for visits that are one apart",
    });
    let gap = Printed {
        theorem: "[hls] Theorem 6",
        quantity: Quantity::TransmissionGap,
        class: None,
        value: bounds.transmission_gap(link.rate),
        caution: "counts a visit for each Mbit/s; what runs has the smallest whole numbers of visits in the same proportions",
    };
    fairness.into_iter().chain([gap]).collect()
}

fn of_drr_plus_plus(info: &SchedulerInfo, tree: &Hierarchy) -> Vec<Printed> {
    let Some(round) = Round::for_tree(tree) else { return Vec::new() };
    let critical: Vec<ClassId> = critical(tree).collect();
    let &[class] = &critical[..] else { return Vec::new() };
    let bounds = delay_bounds(info, tree);
    let Some(bound) = &bounds[class.index()] else { return Vec::new() };
    let &[ArrivalLimit::Bucket { burst, .. }] = bound.traffic.limits() else { return Vec::new() };
    let own = &round.quanta[class.index()];
    let link = whole(tree.link().rate.bps());
    let rate = &link * own / &round.all;
    let bits = |bytes: BigRational| bytes * BigInt::from(8);
    let value = bits(whole(burst)) / rate + bits(own + &round.best_effort * BigInt::from(3)) / link;
    let caution =
        "takes the best-effort classes for one: it holds for one of them, and where none carries a deficit over";
    vec![Printed { theorem: "[drrpp] Theorem 2", quantity: Quantity::Delay, class: Some(class), value, caution }]
}

/// A round of DRR++: all latency-critical classes and one best-effort class.
struct Round {
    /// Quanta by class id, in bytes.
    quanta: Vec<BigRational>,
    /// The largest Q_BE.
    best_effort: BigRational,
    /// Q_i.
    all: BigRational,
}

fn critical(tree: &Hierarchy) -> impl Iterator<Item = ClassId> + '_ {
    tree.leaves().iter().copied().filter(|&leaf| tree.config(leaf).latency_critical)
}

impl Round {
    /// The round of `tree`; `None` if DRR++ would refuse it.
    fn for_tree(tree: &Hierarchy) -> Option<Self> {
        let quanta = drr::quanta(tree).ok()?;
        let bytes = |&credits: &u64| BigRational::new(credits.into(), (1u64 << drr::FRACTION_BITS).into());
        let quanta: Vec<BigRational> = quanta.iter().map(bytes).collect();
        let best_effort = tree.leaves().iter().filter(|&&leaf| !tree.config(leaf).latency_critical);
        let best_effort = best_effort.map(|leaf| &quanta[leaf.index()]).max().cloned().unwrap_or_default();
        let all = critical(tree).map(|leaf| &quanta[leaf.index()]).sum::<BigRational>() + &best_effort;
        Some(Self { quanta, best_effort, all })
    }
}

/// The traffic of a latency-critical class, for \[drrpp\] Theorem 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// Its mean rate as the link counts it, in bit/s.
    pub rate_bps: u64,
    /// Mean length of its packets in bytes; at least 1.
    pub mean_packet: u32,
}

/// \[drrpp\] Theorem 1 for one latency-critical class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeanDelay {
    /// Approximate wait of a packet, in seconds, while all classes are backlogged; `None` if the class sends more than
    /// its service rate then.
    pub seconds: Option<BigRational>,
    /// Q_i, in bytes.
    pub round: BigRational,
    /// nu_LC, packets of the class in a round.
    pub packets: u64,
    /// Load of the class, relative to its rate while all classes are backlogged.
    pub load: BigRational,
}

/// Maximum load for which [`MeanDelay::error`] is known: half of the class's rate.
pub const KNOWN_LOAD: (i64, i64) = (1, 2);

impl MeanDelay {
    /// Returns true for a scheduler of the theorem. It visits latency-critical classes before each other class, and
    /// promises their delay.
    #[must_use]
    pub fn is_of(info: &SchedulerInfo) -> bool {
        matches!(info.sharing, Sharing::CriticalVisits(_)) && info.promises.delay.is_some()
    }

    /// Computes the delay for `class` under DRR++. `None` if it is not latency-critical, if DRR++ would refuse the
    /// tree, or if its quantum is less than a packet of mean length.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn for_class(tree: &Hierarchy, class: ClassId, arrivals: Arrivals) -> Option<Self> {
        if !tree.is_leaf(class) || !tree.config(class).latency_critical {
            return None;
        }
        let round = Round::for_tree(tree)?;
        let packets =
            (&round.quanta[class.index()] / BigInt::from(arrivals.mean_packet.max(1))).floor().to_integer().to_u64()?;
        let seconds = mean_delay(&round.all, tree.link().rate, arrivals, packets);
        let rate = whole(tree.link().rate.bps()) * &round.quanta[class.index()] / &round.all;
        let load = whole(arrivals.rate_bps) / rate;
        (packets > 0).then_some(Self { seconds, round: round.all, packets, load })
    }

    /// Minimum and maximum of the theorem's value divided by the measured delay. Measured with Poisson arrivals while
    /// all best-effort classes are backlogged, for quanta of two to four packets (the table of `fairlink-lab reproduce
    /// drrpp.theorem1`, rounded outwards). `None` above half of the class's rate, where the theorem nears its pole and
    /// was 18 times too long, and for other quanta, which have not been measured.
    #[must_use]
    pub fn error(&self) -> Option<(f64, f64)> {
        if self.load > BigRational::new(KNOWN_LOAD.0.into(), KNOWN_LOAD.1.into()) {
            return None;
        }
        match self.packets {
            2 => Some((0.95, 1.25)),
            3 | 4 => Some((0.95, 3.0)),
            _ => None,
        }
    }
}

/// Returns 0.5 Q_i / (BNBW - Q_i lambda_LC / nu_LC) in seconds, for a round of `round` bytes in which the class sends
/// `packets`, at least 1; `None` if the denominator is not above zero.
#[must_use]
pub fn mean_delay(round: &BigRational, link: Rate, arrivals: Arrivals, packets: u64) -> Option<BigRational> {
    // lambda in packets a second, all lengths in bits.
    let per_second = whole(arrivals.rate_bps) / BigInt::from(8 * u64::from(arrivals.mean_packet.max(1)));
    let round = round * BigInt::from(8);
    let left = whole(link.bps()) - &round * per_second / BigInt::from(packets.max(1));
    (left > BigRational::zero()).then(|| round / BigInt::from(2) / left)
}

fn whole(value: u64) -> BigRational {
    BigRational::from_integer(value.into())
}

#[cfg(test)]
mod tests;
