//! Units of tags: the largest in which all tags of an inner class fit.

use alloc::boxed::Box;

use super::SCANNED;
use super::wheel::Groups;
use crate::contract::{ClassId, Hierarchy, OutOfMemory};
use crate::parts::memory::slice;
use crate::parts::virtual_time;

/// A distance is at most 2 to this power.
pub(super) const REACH: u32 = 60;
/// Bits of the virtual time of a byte: at least, and at most.
pub(super) const LEAST_BITS: u32 = 16;
const MOST_BITS: u32 = 24;

/// Returns the classes with children.
pub(super) fn parents(tree: &Hierarchy) -> impl Iterator<Item = ClassId> {
    core::iter::once(ClassId::ROOT).chain(tree.classes()).filter(|&class| !tree.is_leaf(class))
}

/// Returns v, the virtual time of a byte in units of 2^-`bits`, rounded down, for children of `weight` in all.
pub(super) fn rate(bits: u32, weight: u64) -> u64 {
    ((1u128 << bits) / u128::from(weight.max(1))) as u64
}

/// The units of the children of one class.
#[derive(Debug)]
pub(super) struct Scale {
    /// k: 2 to this power units are a byte per weight.
    pub(super) bits: u32,
    /// W: the sum of all weights.
    pub(super) weight: u64,
    /// True if weights are smaller than those of the tree, so that they fit.
    pub(super) is_scaled: bool,
    /// v: virtual time of a byte, rounded down.
    pub(super) rate: u64,
    /// inv: advance of a tag by a byte, rounded up, by child.
    pub(super) inverse: Box<[u64]>,
}

impl Scale {
    /// Computes the units for the children of `class`. 2^k of them are a byte per weight.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(super) fn new(tree: &Hierarchy, class: ClassId) -> Result<Self, OutOfMemory> {
        let mut weights = virtual_time::child_weights(tree, class)?;
        let largest = u128::from(tree.link().max_packet.max(1));
        let whole = |weights: &[u64]| weights.iter().sum::<u64>().next_power_of_two().ilog2();
        // A weight is at least what makes a largest packet 2^60 units in the smallest units. One bit more is for the sum.
        let least = (largest << (whole(&weights) + 1 + LEAST_BITS)).div_ceil(1 << REACH) as u64;
        let mut smallest = u64::MAX;
        for weight in &mut weights {
            *weight = least.max(*weight);
            smallest = smallest.min(*weight);
        }
        let (all, whole) = (weights.iter().sum::<u64>(), whole(&weights));
        let fits = ((1u128 << REACH) / largest * u128::from(smallest)).max(1).ilog2();
        let bits = fits.min(whole + MOST_BITS);
        let units = 1u128 << bits;
        Ok(Self {
            bits,
            weight: all,
            is_scaled: tree.children_weight(class) > 1 << 40,
            rate: rate(bits, all),
            inverse: slice(weights.len(), |at| units.div_ceil(u128::from(weights[at])) as u64)?,
        })
    }

    /// Returns the groups of the children, whose largest packets have `largest` bytes and which are `late` behind their deadlines
    /// at most.
    pub(super) fn groups(&self, largest: u64, late: u64) -> Groups {
        let distances = self.inverse.iter().map(|inverse| inverse * largest);
        if self.inverse.len() > SCANNED { Groups::of_wheel(distances, late) } else { Groups::of_lists(distances) }
    }
}
