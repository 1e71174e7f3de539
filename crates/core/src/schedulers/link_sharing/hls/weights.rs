//! The weights that HLS runs with.

use alloc::boxed::Box;

use crate::contract::{ClassId, Hierarchy, OutOfMemory, RoundLength};
use crate::parts::memory::{bytes_of, filled, pause};

/// Credits in one byte: balances, residuals and weights of HLS are counted in 2^-24 byte.
pub const CREDITS_PER_BYTE: u64 = 1 << 24;

/// The weight of every class as HLS runs with it: bytes, in credits.
///
/// In \[hls\] a weight has the unit byte: the longest round is the sum of all weights plus the sum of the leaves'
/// largest packets (Theorem 2), and the bounds of Theorems 3 and 5 grow with it. So each group of siblings is divided
/// by the smallest power of ten that brings its sum down to its *share of the round*: the largest packets of the leaves
/// below its parent, divided by the number of levels. All weights together are then at most the sum of the largest
/// packets, for any unit in the configuration. A weight that is small enough already is used unchanged. Only weights of
/// siblings are ever compared, so groups may be divided by different powers.
///
/// If the link has [long rounds](RoundLength::Long), each group is scaled up or down so that it adds up to its share of
/// the round. A round then distributes twice the minimum, and nearly every visit sends a packet. The trade-off: with
/// 1,024 backlogged leaves in three levels with weights of a byte, a packet takes 28 % fewer instructions, and 34 %
/// fewer if leaves come and go. The bounds of Theorems 3 and 5, as times, grow in proportion to Q: each is at most
/// twice its limit for small weights. Half of the share would make that one and a half times, for 25 % and 29 % fewer
/// instructions.
///
/// Rounding to whole credits changes the weight of a class by at most half a credit, or up to one credit if it would
/// have been zero.
#[derive(Clone, Debug)]
pub struct RunWeights {
    credits: Box<[u64]>,
    /// By parent: its children were divided by ten to this power. Not in long rounds.
    powers: Box<[u8]>,
}

impl RunWeights {
    /// Makes the weights for `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn for_tree(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let mut leaves_below = filled(tree.len(), 0u64)?;
        for class in tree.classes().rev() {
            pause(class.index());
            if tree.is_leaf(class) {
                leaves_below[class.index()] = 1;
            }
            if let Some(parent) = tree.parent(class) {
                leaves_below[parent.index()] += leaves_below[class.index()];
            }
        }
        let mut credits = filled(tree.len(), 0u64)?;
        let mut powers = filled(tree.len(), 0u8)?;
        let levels = tree.levels() as u64;
        for parent in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
            pause(parent.index());
            let share = u128::from((leaves_below[parent.index()] * u64::from(tree.link().max_packet) / levels).max(1));
            let sum: u128 = tree.children(parent).iter().map(|&child| u128::from(tree.weight(child))).sum();
            let (mut factor, mut divisor) = (1, 1u128);
            if tree.link().rounds == RoundLength::Long {
                (factor, divisor) = (share, sum.max(1));
            } else {
                while sum > share * divisor {
                    divisor *= 10;
                    powers[parent.index()] += 1;
                }
            }
            for &child in tree.children(parent) {
                pause(child.index());
                // Weights of siblings add up to less than 2^64, a share is below 2^38 bytes, and a credit is 2^-24 of one.
                let scaled = u128::from(tree.weight(child)) * u128::from(CREDITS_PER_BYTE) * factor;
                credits[child.index()] = ((scaled + divisor / 2) / divisor).max(1) as u64;
            }
        }
        Ok(Self { credits, powers })
    }

    /// Memory of the weights for `tree`, in bytes, including their computation.
    pub(super) const fn memory(tree: &Hierarchy) -> u64 {
        2 * bytes_of::<u64>(tree.len()) + bytes_of::<u8>(tree.len())
    }

    /// Weight of `class` in credits; 0 for the root, which has none.
    #[must_use]
    pub fn credits(&self, class: ClassId) -> u64 {
        self.credits[class.index()]
    }

    /// Returns the weights in credits, by class id.
    pub(super) fn into_credits(self) -> Box<[u64]> {
        self.credits
    }

    /// Returns a power of ten. In short rounds, the weights of the children of `parent` are divided by ten to this
    /// power.
    #[must_use]
    pub fn power_of_ten(&self, parent: ClassId) -> u8 {
        self.powers[parent.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::LinkConfig;
    use crate::schedulers::hls::tests::trees;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn in_long_rounds_each_group_adds_up_to_its_share_and_siblings_keep_their_ratio(tree in trees()) {
            let link = LinkConfig { rounds: RoundLength::Long, ..tree.link() };
            let tree = tree.rebuilt(link, |_, _| {}).unwrap();
            let run = RunWeights::for_tree(&tree).unwrap();
            let leaves_below = |class| tree.leaves().iter().filter(|&&leaf| {
                core::iter::successors(Some(leaf), |&at| tree.parent(at)).any(|at| at == class)
            }).count() as u64;
            let mut all = 0;
            for parent in core::iter::once(ClassId::ROOT).chain(tree.classes()).filter(|&class| !tree.is_leaf(class)) {
                let share = leaves_below(parent) * u64::from(tree.link().max_packet) / tree.levels() as u64;
                let children = tree.children(parent);
                let sum: u64 = children.iter().map(|&child| run.credits(child)).sum();
                // Each is rounded to a credit, or up to one.
                prop_assert!(sum.abs_diff(share * CREDITS_PER_BYTE) <= children.len() as u64, "{sum} of {share} bytes");
                all += sum;
                let written: u64 = children.iter().map(|&child| tree.weight(child)).sum();
                for &child in children {
                    let exact = tree.weight(child) as f64 / written as f64 * (share * CREDITS_PER_BYTE) as f64;
                    prop_assert!((run.credits(child) as f64 - exact).abs() <= 1.0 + exact * 1e-12);
                }
            }
            let largest = tree.leaves().len() as u64 * u64::from(tree.link().max_packet);
            prop_assert!(all <= largest * CREDITS_PER_BYTE + tree.len() as u64);
        }
    }
}
