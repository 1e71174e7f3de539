//! Long-run sharing rules of schedulers, as values that a planner computes with. `fairlink-theory` computes the fluid
//! ideal of a rule.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::class::Contract;
use super::error::BuildError;
use super::hierarchy::Hierarchy;
use super::packet::ClassId;

/// Weights by class id; 0 for classes that are not leaves.
pub type LeafWeights = fn(&Hierarchy) -> Result<Box<[u64]>, BuildError>;

/// Contracts by class id; `None` for a class without one.
pub type LeafContracts = fn(&Hierarchy) -> Result<Box<[Option<Contract>]>, BuildError>;

/// The rule by which a scheduler shares the link among classes with constant or unlimited demand.
#[derive(Clone, Copy, Debug)]
pub enum Sharing {
    /// Hierarchical max-min fairness: siblings share by [`Hierarchy::weight`] at every class (\[hls\] Theorem 1).
    Siblings,
    /// Max-min fairness among all leaves by these weights, regardless of the classes above them.
    Leaves(LeafWeights),
    /// The same with weights in packets: a leaf shares by its weight times its mean packet.
    LeavesByPackets(LeafWeights),
    /// Each leaf gets its real-time rate first. Siblings share the rest by the long-run slopes of their link-sharing
    /// curves (\[hfsc\]), by class id; `None` for a leaf that gets only its real-time rate.
    Curves(fn(&Hierarchy) -> Result<Vec<Option<u64>>, BuildError>),
    /// Siblings share visits by [`Hierarchy::weight`]. A visit sends up to the link's largest packet, or the packets that are there (\[hdrr\]).
    SiblingVisits,
    /// Rates from the lowest level of lenders up, within a level by priority, among equals by quanta (\[htb\]). Lent
    /// bandwidth counts at the class and above. The numbers are those of [`Plan`](crate::schedulers::htb::Plan).
    Lenders,
    /// Every class first gets its own rate, as far as it has demand. The rest goes to leaves by priority and quanta,
    /// and all traffic counts at every class above (formal sharing of \[cbq\]). The numbers are those of
    /// [`Plan`](crate::schedulers::htb::Plan).
    Allotted,
    /// Latency-critical leaves are visited once for each visit of a best-effort leaf, all by these quanta in 2^-16 bytes (\[drrpp\]
    /// Section 3.1.2).
    CriticalVisits(LeafWeights),
    /// Latency-critical leaves go first while they keep their contracts, and share by their quanta with all others afterwards
    /// (\[drrpp\] Section 2.5.4).
    Contracts {
        /// Quanta.
        quanta: LeafWeights,
        /// The contract of each leaf, by class id.
        contracts: LeafContracts,
        /// A class that sends more than its contract's bytes in this part of the contract's time has broken it for certain: a
        /// numerator and a denominator.
        certain: (u64, u64),
    },
    /// Each leaf gets at most its share of the link when all are busy; unused bandwidth is not redistributed.
    OwnShare,
    /// Each leaf first gets its guarantee, as far as it has demand; the guarantees are in 2^-62 of the link's rate. The
    /// rest depends on the states of queues, so that there is no rule for rates. The text is the reason.
    SharesFirst(LeafWeights, &'static str),
    /// No rule beyond serving every class while the demand fits the link; the text is the reason. The order of packets
    /// decides, and rates are those of the scheduler on steady traffic.
    ByPackets(&'static str),
    /// The same, but rates depend on queue states or arrivals, so that even steady traffic does not determine them. The
    /// value is the reason, in words.
    Unknown(&'static str),
    /// No rule even then: the reason, in words.
    Never(&'static str),
}

/// Returns the weights of leaves that share the whole link: their own if all of them are siblings, else 2^-62 of their
/// share of the link while all are busy, at least 1.
///
/// # Errors
/// None; the type is that of [`LeafWeights`].
pub fn leaf_shares(tree: &Hierarchy) -> Result<Box<[u64]>, BuildError> {
    let flat = tree.levels() == 1;
    let weight =
        |leaf: ClassId| if flat { tree.weight(leaf) } else { ((tree.share_all_busy(leaf) >> 2) as u64).max(1) };
    let of = |index: usize| {
        let class = ClassId(index as u32);
        if tree.is_leaf(class) { weight(class) } else { 0 }
    };
    Ok((0..tree.len()).map(of).collect())
}
