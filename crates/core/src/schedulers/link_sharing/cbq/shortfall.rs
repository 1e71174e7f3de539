//! Loss of guarantees under `cbq-ancestor-only`. A busy link is still underlimit, so that every class that may borrow
//! from it may always send. Turns then decide alone: the smallest number of priority has all of them, and its classes
//! share by their quanta. ns-2 does the same, as long as its link is not overlimit by a rounding of times.

use alloc::vec::Vec;

use crate::bases::borrowing::Plan;
use crate::contract::{BuildError, ClassId, Hierarchy, Shortfall};

/// Shares by quanta that are below the guarantee by at most this part are not shortfalls: quanta are whole bytes.
const PART: u128 = 100;

/// Returns all shortfalls in `tree`.
///
/// # Errors
/// As building the scheduler.
pub(super) fn shortfalls(tree: &Hierarchy) -> Result<Vec<Shortfall>, BuildError> {
    let plan = Plan::for_tree(tree)?;
    let may_borrow = |leaf: ClassId| {
        let above = core::iter::successors(Some(leaf), |&class| tree.parent(class));
        above.map(|class| tree.config(class)).all(|config| !config.bounded && !config.isolated)
    };
    let leaves = || tree.leaves().iter().copied();
    let priority = |leaf: ClassId| plan.priorities[leaf.index()];
    let Some(first) = leaves().filter(|&leaf| may_borrow(leaf)).map(priority).min() else { return Ok(Vec::new()) };
    let quantum = |leaf: ClassId| u128::from(plan.quanta[leaf.index()]);
    let taken: u128 = leaves().filter(|&leaf| priority(leaf) <= first).map(quantum).sum();
    let link = u128::from(tree.link().rate.bps());
    let gets = |leaf: ClassId| {
        let by_quantum = quantum(leaf) * link / taken.max(1);
        if priority(leaf) > first { 0 } else { by_quantum }
    };
    let short = leaves().filter_map(|leaf| {
        let (gets, guarantee) = (gets(leaf), plan.assured[leaf.index()]);
        let is_short = gets * PART < u128::from(guarantee.bps()) * (PART - 1);
        // Below the guarantee, which has 64 bits.
        is_short.then_some(Shortfall { leaf, guarantee, gets: gets as u64 })
    });
    Ok(short.collect())
}
