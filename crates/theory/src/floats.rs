//! Common parts of rules that are computed in `f64`.

use fairlink_core::{ClassId, Hierarchy};

/// Rates that differ by less than this part, of themselves or of the link, are the same in the errors of `f64`.
pub(crate) const SAME: f64 = 1e-9;
/// Maximum relative difference of a leaf's rate, or of [`LEAST`] of the link, for two computations that agree.
pub(crate) const CLOSE: f64 = 0.01;
/// Smaller rates count as this part of the link in comparisons.
const LEAST: f64 = 1e-3;

/// Adds the rate of each class to that of its parent, the deepest first. Rates are by class id; those of classes with children begin at zero.
pub(crate) fn add_up(tree: &Hierarchy, rates: &mut [f64]) {
    for class in tree.classes().rev() {
        let rate = rates[class.index()];
        rates[tree.parent(class).unwrap_or(ClassId::ROOT).index()] += rate;
    }
}

/// Returns true if two ways of computing the rates of a link of `capacity` agree.
pub(crate) fn agree(one: &[f64], other: &[f64], capacity: f64) -> bool {
    within(CLOSE, one, other, capacity)
}

/// Returns true if rates of a link of `capacity` differ by no more than `part` of themselves, or of [`LEAST`] of the link.
pub(crate) fn within(part: f64, one: &[f64], other: &[f64], capacity: f64) -> bool {
    one.iter().zip(other).all(|(one, other)| (one - other).abs() <= part * one.max(*other).max(LEAST * capacity))
}
