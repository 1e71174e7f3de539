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
/// the user sets some quanta, those are kept, and the others follow from the first of them, within such a round. If any is then below the
/// largest packet, all are multiplied so that the smallest equals it, because a visit with a smaller quantum could send
/// nothing. Only leaves take turns: the quantum of an inner class has no effect.
///
/// **Own turns.** What leaves send at their own expense has quanta of its own, because buckets have to last until the
/// next turn. With n leaves of one priority and a link of C, less the rates R of leaves of higher priority, they are
/// q = max(L, rate T) with T = k n L / (C - R). k is the smallest of 1, 2 and 4 for which the *small* leaves, those with
/// rate T < L, have together at most a quarter of C - R.
///
/// **Depths.** A leaf's bucket holds the yield of its rate until it has had its turn:
///
/// ```text
/// D = 2 q + rate sum over a of (K + X) / (C_a - R_a - S_a),   K = sum of (D_j + L) of higher priority + (2 n_a + 1) L
/// ```
///
/// where a is the link, or a class with a ceiling C_a above the leaf, and n_a, R_a and S_a count what is below a:
/// leaves of its priority, rates of higher priority, rates of small leaves of its priority. X is the sum of the depths
/// of small leaves. So a depth follows rates, packets and priorities, not quanta; see `Plan::guarantee_lag`. Other
/// buckets lose tokens only while classes take turns by quanta: L + rate sum(Q_j + 2 L) / C, where a round counts at most
/// as the longest that follows from rates. A ceiling's bucket is at least as deep as those of the leaves below it
/// together.
///
/// DIFFERENCE: \[htb\] has one quantum for all levels and does not say how deep a bucket is. With buckets that follow
/// quanta, a quantum of 6,740 B for 4 kbit/s let a class of 2.5 Mbit/s send four times its ceiling for 2 s, and a class
/// of low priority waited 15 s within its guarantee.
///
/// DIFFERENCE: a leaf without a priority has that of the nearest class above it that has one. \[htb\] and \[cbq\] have each
/// class state its own, and only leaves send.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Assured rates.
    pub assured: Box<[Rate]>,
    /// Quanta in bytes; 0 for classes that are not leaves.
    pub quanta: Box<[u64]>,
    /// Quanta in bytes of what leaves send at their own expense; 0 for classes that are not leaves.
    pub(crate) own_quanta: Box<[u64]>,
    /// Priorities: a leaf's own, else that of the nearest class above it that has one, else 0.
    pub priorities: Box<[u8]>,
    /// Depths in bytes of the assured buckets of leaves; for others the sum of those below.
    depths: Box<[u64]>,
    /// Sum over the leaves of their quanta and twice the largest packet, in bytes; at most [`Plan::longest_round`].
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
        let round = round_of(tree, &quanta).min(longest_round(tree));
        let (own_quanta, depths) = own_turns(tree, &assured, &priorities)?;
        let (link, max_packet) = (link.rate, link.max_packet);
        Ok(Self { assured, quanta, own_quanta, priorities, depths, round, link, max_packet })
    }

    /// Returns one more than the largest priority of a leaf of `tree`, up to the largest that can be built.
    pub(crate) fn priorities(tree: &Hierarchy) -> u8 {
        tree.leaves().iter().map(|&leaf| priority(tree, leaf)).max().unwrap_or(0).saturating_add(1)
    }

    /// Memory of an instance for `tree`, in bytes, including construction.
    pub(crate) const fn memory(tree: &Hierarchy) -> u64 {
        bytes_of::<(u128, u64, u64, u64, u64, u8, Below)>(tree.len())
    }

    /// Default depth in bytes of the assured bucket of `class`.
    #[must_use]
    pub fn depth(&self, class: ClassId) -> u64 {
        match self.quanta[class.index()] {
            0 => self.turn_depth(self.assured[class.index()]),
            _ => self.depths[class.index()],
        }
    }

    /// Default depth in bytes of the bucket of the `ceiling` of `class`.
    #[must_use]
    pub fn ceiling_depth(&self, class: ClassId, ceiling: Rate) -> u64 {
        self.turn_depth(ceiling).max(self.depths[class.index()])
    }

    /// Longest time for which leaves of `priority` wait while those of higher priority spend their buckets, with packets of
    /// the largest length, if none of them comes near a ceiling.
    #[must_use]
    pub fn burst_wait(&self, tree: &Hierarchy, priority: u8) -> Nanos {
        let higher = tree.leaves().iter().copied().filter(|leaf| self.priorities[leaf.index()] < priority);
        let (mut bytes, mut left) = (0u128, u128::from(self.link.bps()));
        for leaf in higher {
            let burst = tree.config(leaf).burst.unwrap_or(self.depths[leaf.index()]);
            bytes += u128::from(burst) + u128::from(self.max_packet);
            left = left.saturating_sub(self.assured[leaf.index()].bps().into());
        }
        Nanos(u64::try_from(bytes.saturating_mul(8_000_000_000) / left.max(1)).unwrap_or(u64::MAX))
    }

    /// Returns how many times as long a round of quanta is as the longest that follows from rates, rounded up. Above 1,
    /// default depths of ceilings and of classes that lend are too small for it.
    #[must_use]
    pub fn long_rounds(&self, tree: &Hierarchy) -> u64 {
        u64::try_from(round_of(tree, &self.quanta).div_ceil(longest_round(tree).max(1))).unwrap_or(u64::MAX)
    }

    /// Depth in bytes with which a bucket that fills at `rate` loses nothing in a round of all quanta.
    pub(crate) fn turn_depth(&self, rate: Rate) -> u64 {
        let brought = (self.round * u128::from(rate.bps())).div_ceil(u128::from(self.link.bps()));
        u64::try_from(brought).unwrap_or(u64::MAX).min(DEEPEST) + u64::from(self.max_packet)
    }

    /// Bound for default depths, without ceilings: a leaf that is backlogged over (s, t] sends at least rate (t - s)
    /// minus this many bytes, whatever the quanta.
    ///
    /// A leaf's tokens are between -L and the depth D at both ends, which makes L + D. Tokens are lost only when the
    /// bucket is full. Let leaf i be green for a time x, in which it has m turns and sends at least (m - 1) q_i: the first
    /// may be the rest of one. Then the link sends nothing but packets of green leaves, one packet excepted: at most
    /// D_j + L + rate_j x of each leaf of higher priority, and of each other leaf of its own priority at most
    /// (m + 1) q_j + 2 L, and at most D_j + L + rate_j x. Apply the latter to small leaves with less than i's rate. The q_j
    /// of the others are at most rate_j q_i / rate_i. So C x is at most K + X + (R + S) x + (m + 1) (C - R - S) q_i / rate_i,
    /// and the tokens grow by rate_i x - (m - 1) q_i <= D. None is lost if they start at zero, and at most D if they start at the full depth. All of
    /// this is within one packet of the link's own.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn guarantee_lag(&self, class: ClassId) -> u64 {
        2 * self.depth(class) + 2 * u64::from(self.max_packet)
    }
}

/// Returns the bytes of a round of `quanta`, with two packets for each leaf.
fn round_of(tree: &Hierarchy, quanta: &[u64]) -> u128 {
    let packets = 2 * tree.leaves().len() as u128 * u128::from(tree.link().max_packet);
    quanta.iter().map(|&quantum| u128::from(quantum)).sum::<u128>() + packets
}

/// Returns the bytes of quanta that follow from rates, at most.
fn rated_round(tree: &Hierarchy) -> u128 {
    let packets = tree.leaves().len() as u128 * u128::from(ROUND_PACKETS);
    packets * u128::from(tree.link().max_packet) + u128::from(tree.link().rate.bytes_in(ROUND))
}

/// Returns the bytes of the longest round of quanta that follow from rates. They may be raised to a packet, and a round
/// has two more packets for each leaf.
fn longest_round(tree: &Hierarchy) -> u128 {
    rated_round(tree) + 3 * tree.leaves().len() as u128 * u128::from(tree.link().max_packet)
}

/// The leaves below the link or a class with a ceiling, while those of one priority after the other are looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Below {
    /// Leaves of higher priority: rates in bit/s, and depths and a packet each in bytes.
    higher: u128,
    spent: u128,
    /// Leaves of this priority; the small ones among them, and their rates.
    count: u128,
    small: u128,
    small_rate: u128,
}

impl Below {
    /// Returns bytes and a rate: within their quotient, the link or a ceiling of `limit` comes to each leaf of this
    /// priority.
    fn wait(&self, limit: Rate, packet: u128) -> (u128, u128) {
        let left = u128::from(limit.bps()).saturating_sub(self.higher).max(1);
        let small = self.small_rate.min(left / 4);
        let first = self.spent + (2 * self.count + 1) * packet;
        let depths = (2 * self.small * packet * (left - small) + small * first).div_ceil(left - 2 * small);
        (first + depths, left - small)
    }
}

/// Quanta and depths in bytes, by class id.
type OwnTurns = (Box<[u64]>, Box<[u64]>);

/// Returns quanta and depths of the own turns of leaves, see [`Plan`].
fn own_turns(tree: &Hierarchy, assured: &[Rate], priorities: &[u8]) -> Result<OwnTurns, BuildError> {
    let packet = u128::from(tree.link().max_packet);
    let rate = |leaf: ClassId| u128::from(assured[leaf.index()].bps());
    let limit = |class: ClassId| match class {
        ClassId::ROOT => Some(tree.link().rate),
        _ => tree.config(class).ceiling,
    };
    let limits = |leaf: ClassId| {
        let path = core::iter::successors(Some(leaf), |&at| tree.parent(at));
        path.skip(1).filter_map(|class| Some((class.index(), limit(class)?)))
    };
    let mut below = filled(tree.len(), Below::default())?;
    let (mut quanta, mut depths) = (filled(tree.len(), 0u64)?, filled(tree.len(), 0u64)?);
    for priority in 0..PRIORITIES {
        let equals = || tree.leaves().iter().copied().filter(|leaf| priorities[leaf.index()] == priority);
        let count = equals().count() as u128;
        if count == 0 {
            continue;
        }
        let root = below[ClassId::ROOT.index()];
        let left = u128::from(tree.link().rate.bps()).saturating_sub(root.higher).max(1);
        let is_small = |leaf: ClassId, factor: u128| rate(leaf) * factor * count < left;
        let few = |&factor: &u128| equals().filter(|&leaf| is_small(leaf, factor)).map(rate).sum::<u128>() * 4 <= left;
        let factor = [1, 2].into_iter().find(few).unwrap_or(4);
        for leaf in equals() {
            // A rate is at most 2^40, the leaves 2^20, a packet 2^20.
            let quantum = (rate(leaf) * factor * count * packet).div_ceil(left).max(packet);
            quanta[leaf.index()] = u64::try_from(quantum).unwrap_or(u64::MAX).min(DEEPEST);
            for (class, _) in limits(leaf) {
                let below = &mut below[class];
                below.count += 1;
                if is_small(leaf, factor) {
                    below.small += 1;
                    below.small_rate += rate(leaf);
                }
            }
        }
        for leaf in equals() {
            let waits = limits(leaf).map(|(class, limit)| below[class].wait(limit, packet));
            let brought: u128 = waits.map(|(bytes, per)| (bytes * rate(leaf)).div_ceil(per)).sum();
            let depth = 2 * u128::from(quanta[leaf.index()]) + brought;
            depths[leaf.index()] = u64::try_from(depth).unwrap_or(u64::MAX).min(DEEPEST);
        }
        for leaf in equals() {
            let depth = tree.config(leaf).burst.unwrap_or(depths[leaf.index()]).min(DEEPEST);
            for (class, _) in limits(leaf) {
                let Below { higher, spent, .. } = below[class];
                let (higher, spent) = (higher + rate(leaf), spent + u128::from(depth) + packet);
                below[class] = Below { higher, spent, ..Below::default() };
            }
        }
    }
    for class in tree.classes().rev() {
        let parent = tree.parent(class).unwrap_or(ClassId::ROOT).index();
        depths[parent] = depths[parent].saturating_add(depths[class.index()]).min(DEEPEST);
    }
    Ok((quanta, depths))
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
    let round = rated_round(tree);
    let within = |leaf: ClassId| (rate(leaf) * round).div_ceil(all).max(largest);
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
            (None, None) => within(leaf),
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
    if first_set.is_some() {
        for &leaf in tree.leaves().iter().filter(|&&leaf| set(leaf).is_none()) {
            quanta[leaf.index()] = quanta[leaf.index()].min(within(leaf) as u64);
        }
    }
    Ok(quanta)
}
