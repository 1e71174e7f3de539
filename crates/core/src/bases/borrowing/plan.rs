//! Parameters that HTB derives from a link file: assured rates, quanta, and the depths of buckets that the user did not
//! set.

use alloc::boxed::Box;

use crate::contract::{BuildError, ClassId, Hierarchy, Nanos, Rate, Share};
use crate::parts::memory::{bytes_of, filled, slice};

/// Priorities are below this number, as in the kernel's HTB.
pub(crate) const PRIORITIES: u8 = 8;

/// Quanta that follow from rates add up to at most the bytes that the link carries in this time, plus
/// [`ROUND_PACKETS`].
pub(crate) const ROUND: Nanos = Nanos::from_millis(100);

/// This many largest packets per leaf may be in a round on any link, so that slow ones share in proportion, too.
pub(crate) const ROUND_PACKETS: u64 = 16;

/// Rates are divided by weights in this fraction of a bit/s, so that quanta are proportional for small rates, too.
const FINE_BITS: u32 = 24;

/// Maximum default depth of a bucket, in bytes. Quanta as large as 2^52 could exceed it.
const DEEPEST: u64 = 1 << 50;

/// The parameters that the classes of a tree run with, by class id.
///
/// **Assured rates.** The guarantee; for a class without one, its share by weight of its parent's assured rate, at
/// least 1 bit/s. The root's is the link's rate.
///
/// **Quanta** are in proportion to the assured rates of the leaves, because \[htb\] wants borrowed bandwidth to be
/// shared in this proportion. The smallest is the largest packet. If that would make a round longer than `ROUND`,
/// quanta are in proportion to the rates within such a round, and those below the largest packet are raised to it. If
/// the user sets some quanta, those are kept, and the others follow from the first of them. If any is then below the
/// largest packet, all are multiplied so that the smallest equals it, because a visit with a smaller quantum could send
/// nothing. Only leaves take turns: the quantum of an inner class has no effect.
///
/// **Depths.** Before a green leaf has its turn at level 0, every other leaf may have one: a quantum and a packet each.
/// A bucket holds the yield of its rate in that time, with one more packet for each leaf and one of its own: L + rate *
/// sum(Q_j + 2 L) / C. No less would keep the guarantees, see `Plan::guarantee_lag`.
///
/// DIFFERENCE: a leaf without a priority has that of the nearest class above it that has one. \[htb\] and \[cbq\] have each
/// class state its own, and only leaves send.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Assured rates.
    pub assured: Box<[Rate]>,
    /// Quanta in bytes; 0 for classes that are not leaves.
    pub quanta: Box<[u64]>,
    /// Priorities: a leaf's own, else that of the nearest class above it that has one, else 0.
    pub priorities: Box<[u8]>,
    /// Sum over the leaves of their quanta and twice the largest packet, in bytes.
    round: u128,
    link: Rate,
    max_packet: u32,
}

impl Plan {
    /// Makes the parameters for `tree`.
    ///
    /// # Errors
    /// [`BuildError::Parameter`] for a priority of `PRIORITIES` or above and for a leaf's quantum of zero.
    pub fn for_tree(tree: &Hierarchy) -> Result<Self, BuildError> {
        let link = tree.link();
        let mut fine = filled(tree.len(), u128::from(link.rate.bps()) << FINE_BITS)?;
        let mut priorities = filled(tree.len(), 0)?;
        for class in tree.classes() {
            let config = tree.config(class);
            let Some(parent) = tree.parent(class) else { continue };
            fine[class.index()] = match config.share {
                Some(Share::Guarantee(rate)) => u128::from(rate.bps()) << FINE_BITS,
                _ => {
                    let share = fine[parent.index()] * u128::from(tree.weight(class));
                    (share / u128::from(tree.children_weight(parent).max(1))).max(1)
                }
            };
            priorities[class.index()] = config.priority.unwrap_or(priorities[parent.index()]);
            if let Some(priority) = config.priority.filter(|&priority| priority >= PRIORITIES) {
                let (value, max) = (u64::from(priority), u64::from(PRIORITIES - 1));
                return Err(BuildError::Parameter { class, what: "priority", value, min: 0, max });
            }
        }
        // A share of a rate is a rate, unless it is zero.
        let whole = |fine: &u128| Rate::from_bps((fine >> FINE_BITS) as u64).unwrap_or(Rate::MIN);
        let assured = slice(tree.len(), |at| whole(&fine[at]))?;
        let quanta = quanta(tree, &fine)?;
        let leaves = tree.leaves().len() as u128;
        let round =
            quanta.iter().map(|&quantum| u128::from(quantum)).sum::<u128>() + 2 * leaves * u128::from(link.max_packet);
        Ok(Self { assured, quanta, priorities, round, link: link.rate, max_packet: link.max_packet })
    }

    /// Returns one more than the largest priority of a leaf of `tree`, up to the largest that can be built.
    pub(crate) fn priorities(tree: &Hierarchy) -> u8 {
        tree.leaves().iter().map(|&leaf| priority(tree, leaf)).max().unwrap_or(0).saturating_add(1)
    }

    /// Memory of an instance for `tree`, in bytes, including construction.
    pub(crate) const fn memory(tree: &Hierarchy) -> u64 {
        bytes_of::<(u128, u64, u64, u8)>(tree.len())
    }

    /// Default depth in bytes of a bucket that fills at `rate`.
    #[must_use]
    pub fn default_depth(&self, rate: Rate) -> u64 {
        let brought = (self.round * u128::from(rate.bps())).div_ceil(u128::from(self.link.bps()));
        u64::try_from(brought).unwrap_or(u64::MAX).min(DEEPEST) + u64::from(self.max_packet)
    }

    /// Bound for default quanta and depths, without ceilings, if the guarantees of the leaves add up to at most the
    /// link: a leaf that is backlogged over (s, t] sends at least rate (t - s) minus this many bytes.
    ///
    /// A leaf's tokens are between -L and the depth D at both ends, which makes L + D. Tokens are lost only when the
    /// bucket is full. While the leaf is green, m rounds bring it at most rate (m sum Q_j + sum (Q_j + 2 L)) / C, and
    /// it sends at least m Q - L, where Q >= rate sum Q_j / C. So the tokens grow by no more than D. None is lost if
    /// they start at zero, and at most D if they start at the full depth. All of this is within one packet of the
    /// link's own.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn guarantee_lag(&self, rate: Rate) -> u64 {
        2 * self.default_depth(rate) + 2 * u64::from(self.max_packet)
    }
}

/// Returns the priority of a class: its own, else that of the nearest class above it with a priority, else 0.
fn priority(tree: &Hierarchy, class: ClassId) -> u8 {
    let mut at = Some(class);
    while let Some(class) = at {
        if let Some(priority) = tree.config(class).priority {
            return priority;
        }
        at = tree.parent(class);
    }
    0
}

/// Returns the quanta for leaves of these rates, in 2^-[`FINE_BITS`] bit/s.
fn quanta(tree: &Hierarchy, rates: &[u128]) -> Result<Box<[u64]>, BuildError> {
    // At most 2^64, of 10^6 leaves 2^84; a round is below 2^45.
    let rate = |leaf: ClassId| rates[leaf.index()];
    let largest = u128::from(tree.link().max_packet);
    let set = |leaf: ClassId| tree.config(leaf).quantum;
    let first_set = tree.leaves().iter().find_map(|&leaf| Some((u128::from(set(leaf)?), rate(leaf))));
    let smallest = tree.leaves().iter().map(|&leaf| rate(leaf)).min().unwrap_or(1);
    let all: u128 = tree.leaves().iter().map(|&leaf| rate(leaf)).sum();
    let packets = tree.leaves().len() as u128 * u128::from(ROUND_PACKETS);
    let round = packets * largest + u128::from(tree.link().rate.bytes_in(ROUND));
    let mut quanta = filled(tree.len(), 0u64)?;
    for &leaf in tree.leaves() {
        let quantum = match (set(leaf), first_set) {
            (Some(0), _) => {
                let max = u64::from(u32::MAX);
                return Err(BuildError::Parameter { class: leaf, what: "quantum", value: 0, min: 1, max });
            }
            (Some(quantum), _) => u128::from(quantum),
            (None, Some((quantum, of))) => (rate(leaf) * quantum).div_ceil(of).min(u128::from(u32::MAX)),
            (None, None) if largest * all <= round * smallest => (rate(leaf) * largest).div_ceil(smallest),
            (None, None) => (rate(leaf) * round).div_ceil(all).max(largest),
        };
        // Below 2^32 if the user sets it; else at most a round and a packet: 2^24 packets of 2^20 B, 2^34 B of link
        // time.
        quanta[leaf.index()] = quantum as u64;
    }
    let least = tree.leaves().iter().map(|&leaf| u128::from(quanta[leaf.index()])).min().unwrap_or(largest);
    if least < largest {
        // At most 2^32 times 2^20.
        tree.leaves().iter().for_each(|&leaf| {
            let scaled = (u128::from(quanta[leaf.index()]) * largest).div_ceil(least);
            quanta[leaf.index()] = scaled as u64;
        });
    }
    Ok(quanta)
}
