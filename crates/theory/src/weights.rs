//! The effective weights of a round-robin scheduler, in which its bounds and its measured fairness are stated.

use fairlink_core::{ClassId, Hierarchy, Rate};
use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;

/// A weight for every class but the root, in bytes: a whole number of units, of which `units_per_byte` make a byte.
///
/// In \[hls\] a weight carries the unit byte (Section V-B: it is the remainder of a division of bytes), and Figure 1 uses the
/// guarantees in Mbit/s as plain numbers. A scheduler may count in fractions of a byte instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Weights by class id; the root's is not used.
    units: Vec<u64>,
    units_per_byte: u64,
}

/// The reason for which weights were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// The number of weights is not that of the classes.
    #[error("{given} weights for {classes} classes (the link included)")]
    Count {
        /// Number of given weights.
        given: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A class other than the root has the weight zero.
    #[error("class {} has the weight 0; the smallest is 1", class.0)]
    Zero {
        /// The class.
        class: ClassId,
    },
    /// A byte has no units.
    #[error("a byte of 0 units; the smallest number is 1")]
    NoUnits,
}

impl Weights {
    /// Makes the weights `units[i] / units_per_byte` bytes, by class id. The root's weight is not used.
    ///
    /// # Errors
    /// [`WeightsError`] for the first fault.
    pub fn new(tree: &Hierarchy, units: Vec<u64>, units_per_byte: u64) -> Result<Self, WeightsError> {
        if units.len() != tree.len() {
            return Err(WeightsError::Count { given: units.len(), classes: tree.len() });
        }
        if units_per_byte == 0 {
            return Err(WeightsError::NoUnits);
        }
        match tree.classes().find(|class| units[class.index()] == 0) {
            Some(class) => Err(WeightsError::Zero { class }),
            None => Ok(Self { units, units_per_byte }),
        }
    }

    /// Makes the weights as the user wrote them, divided by `divisor`. A guarantee counts in bit/s.
    ///
    /// # Errors
    /// [`WeightsError::NoUnits`] for a divisor of zero.
    pub fn as_written(tree: &Hierarchy, divisor: u64) -> Result<Self, WeightsError> {
        let units = (0..tree.len()).map(|index| tree.weight(ClassId(index as u32))).collect();
        Self::new(tree, units, divisor)
    }

    /// Makes the smallest whole weights in the user's proportions, within each group of siblings: visits of a round.
    #[must_use]
    pub fn smallest_whole(tree: &Hierarchy) -> Self {
        let mut units = vec![0; tree.len()];
        for parent in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
            let children = tree.children(parent);
            let divisor = children.iter().map(|&child| tree.weight(child)).fold(0, |a, b| a.gcd(&b)).max(1);
            children.iter().for_each(|&child| units[child.index()] = tree.weight(child) / divisor);
        }
        Self { units, units_per_byte: 1 }
    }

    /// Returns the weight of a class in units.
    #[must_use]
    pub fn units(&self, class: ClassId) -> u64 {
        self.units[class.index()]
    }

    /// Number of units per byte.
    #[must_use]
    pub fn units_per_byte(&self) -> u64 {
        self.units_per_byte
    }

    /// Returns the weight of a class in bytes.
    #[must_use]
    pub fn bytes(&self, class: ClassId) -> BigRational {
        self.in_bytes(u128::from(self.units(class)))
    }

    /// Converts units to bytes.
    pub(crate) fn in_bytes(&self, units: u128) -> BigRational {
        BigRational::new(units.into(), self.units_per_byte.into())
    }

    /// Returns the sum of the weights of the children of `parent`, in units.
    pub(crate) fn of_children(&self, tree: &Hierarchy, parent: ClassId) -> u128 {
        tree.children(parent).iter().map(|&child| u128::from(self.units(child))).sum()
    }

    /// Factors from service per weight (bytes per byte of weight) of the children of each class to seconds at their
    /// all-busy rates, by the parent's id. The factor is 8 w_i / g_i, which is the same for all siblings i; g is the
    /// weighted share of the link when every class is busy (\[hls\] Section II). Zero at leaves.
    pub(crate) fn seconds_per_weight(&self, tree: &Hierarchy, link: Rate) -> Vec<BigRational> {
        let mut seconds = vec![BigRational::default(); tree.len()];
        seconds[0] = self.in_bytes(8 * self.of_children(tree, ClassId::ROOT)) / BigInt::from(link.bps());
        for class in tree.classes().filter(|&class| !tree.is_leaf(class)) {
            let Some(parent) = tree.parent(class) else { continue };
            let children = BigInt::from(self.of_children(tree, class));
            // g_child = g_class w_child / (sum of children), so 1 / g grows by that sum over the class's own weight.
            seconds[class.index()] = &seconds[parent.index()] * BigRational::new(children, self.units(class).into());
        }
        seconds
    }

    /// Returns [`Weights::seconds_per_weight`] in floating point.
    pub(crate) fn seconds_per_weight_in_floats(&self, tree: &Hierarchy, link: Rate) -> Vec<f64> {
        let of_children = |class| self.of_children(tree, class) as f64;
        let mut seconds = vec![0.0; tree.len()];
        seconds[0] = 8.0 * of_children(ClassId::ROOT) / self.units_per_byte as f64 / link.bps() as f64;
        for class in tree.classes().filter(|&class| !tree.is_leaf(class)) {
            let Some(parent) = tree.parent(class) else { continue };
            seconds[class.index()] = seconds[parent.index()] * of_children(class) / self.units(class) as f64;
        }
        seconds
    }

    /// Panics unless the weights were made for a tree of `classes` classes.
    pub(crate) fn assert_for(&self, tree: &Hierarchy) {
        assert_eq!(self.units.len(), tree.len(), "weights made for another tree");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{ClassConfig, LinkConfig, Share};

    #[test]
    fn the_smallest_whole_weights_keep_the_proportions_of_siblings() {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10).unwrap()));
        let weighted = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
        let a = tree.add(ClassId::ROOT, weighted(300)).unwrap();
        tree.add(ClassId::ROOT, weighted(450)).unwrap();
        tree.add(a, weighted(7)).unwrap();
        let weights = Weights::smallest_whole(&tree.build().unwrap());
        assert_eq!([1, 2, 3].map(|class| weights.units(ClassId(class))), [2, 3, 1]);
    }

    #[test]
    fn weights_of_zero_or_for_another_tree_are_refused() {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10).unwrap()));
        let a = tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
        let tree = tree.build().unwrap();
        assert_eq!(Weights::new(&tree, vec![0, 0], 1).unwrap_err(), WeightsError::Zero { class: a });
        assert_eq!(Weights::new(&tree, vec![1], 1).unwrap_err(), WeightsError::Count { given: 1, classes: 2 });
        assert_eq!(Weights::new(&tree, vec![0, 1], 0).unwrap_err(), WeightsError::NoUnits);
        let weights = Weights::new(&tree, vec![0, 3], 4).unwrap();
        assert_eq!(weights.bytes(a), BigRational::new(3.into(), 4.into()));
    }
}
