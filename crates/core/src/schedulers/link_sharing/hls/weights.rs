//! The weights that HLS runs with.

use alloc::boxed::Box;

use crate::contract::{ClassId, Hierarchy, OutOfMemory};
use crate::parts::memory::{bytes_of, filled};

/// Credits in one byte: balances, residuals and weights of HLS are counted in 2^-24 byte.
pub const CREDITS_PER_BYTE: u64 = 1 << 24;

/// The weight of every class as HLS runs with it: bytes, in credits.
///
/// In \[hls\] a weight carries the unit byte: the longest round is the sum of all weights plus the sum of the leaves' largest
/// packets (Theorem 2), and the bounds of Theorems 3 and 5 grow with it. So each group of siblings is divided by the
/// smallest power of ten that brings its sum down to its *share of the round*: the largest packets of the leaves below its
/// parent, divided by the number of levels. All weights together are then at most the sum of the largest packets, whatever
/// unit they were written in, and a weight that is small enough already is used as it stands. Only weights of siblings are
/// ever compared, so groups may be divided by different powers.
///
/// Rounding to whole credits changes the weight of a class by at most half a credit, or up to one credit where it would have
/// been zero.
#[derive(Clone, Debug)]
pub struct RunWeights {
    credits: Box<[u64]>,
    /// By parent: its children were divided by ten to this power.
    powers: Box<[u8]>,
}

impl RunWeights {
    /// The weights for `tree`.
    ///
    /// # Errors
    /// Where there is no memory for them.
    pub fn of(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let mut leaves_below = filled(tree.len(), 0u64)?;
        for class in tree.classes().rev() {
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
            let share = u128::from((leaves_below[parent.index()] * u64::from(tree.link().max_packet) / levels).max(1));
            let sum: u128 = tree.children(parent).iter().map(|&child| u128::from(tree.weight(child))).sum();
            let mut divisor = 1u128;
            while sum > share * divisor {
                divisor *= 10;
                powers[parent.index()] += 1;
            }
            for &child in tree.children(parent) {
                let scaled = u128::from(tree.weight(child)) * u128::from(CREDITS_PER_BYTE);
                credits[child.index()] = ((scaled + divisor / 2) / divisor).max(1) as u64;
            }
        }
        Ok(Self { credits, powers })
    }

    /// Bytes that they take for `tree`, with what it takes to find them.
    pub(super) const fn memory(tree: &Hierarchy) -> u64 {
        2 * bytes_of::<u64>(tree.len()) + bytes_of::<u8>(tree.len())
    }

    /// The weight of `class` in credits; 0 for the root, which has none.
    #[must_use]
    pub fn credits(&self, class: ClassId) -> u64 {
        self.credits[class.index()]
    }

    /// The children of `parent` run with their weight divided by ten to this power.
    #[must_use]
    pub fn power_of_ten(&self, parent: ClassId) -> u8 {
        self.powers[parent.index()]
    }
}
