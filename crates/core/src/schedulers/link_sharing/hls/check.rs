//! The invariants of HLS, written down apart from the code that keeps them.

use alloc::{format, string::String};

use super::{Flags, Hls};

/// Returns Q* of Theorem 2 for the active classes, in credits.
pub(super) fn round_size(hls: &Hls) -> i128 {
    let active = |flags: Flags| flags.intersects(Flags::ACTIVE) && !flags.intersects(Flags::INNER);
    let leaves = hls.leaves.iter().filter(|leaf| active(leaf.flags));
    let leaf_part: i128 = leaves.map(|leaf| i128::from(leaf.weight + hls.max_packet_credits())).sum();
    let inners = hls.inners.iter().skip(1).filter(|inner| inner.active);
    leaf_part + inners.map(|inner| i128::from(inner.weight)).sum::<i128>()
}

/// Checks everything.
pub(super) fn all(hls: &Hls) -> Result<(), String> {
    let balances: i128 = hls.leaves.iter().map(|leaf| i128::from(leaf.balance)).sum();
    let inner: i128 = hls.inners.iter().map(|inner| i128::from(inner.balance) + i128::from(inner.residual)).sum();
    if balances + inner != round_size(hls) {
        return Err(format!("equation (12): {} credits, Q* is {}", balances + inner, round_size(hls)));
    }
    if hls.rounds.main_without_packet > 0 {
        return Err(format!("Theorem 2: {} main rounds sent nothing", hls.rounds.main_without_packet));
    }
    leaves(hls)?;
    hls.urgent.check(hls.max_packet_credits()).map_err(String::from)?;
    for (inner, class) in hls.inners.iter().zip(&hls.inner_classes[..]).skip(1) {
        if inner.balance < 0 || inner.residual < 0 {
            return Err(format!("class {class}: balance {}, residual {}", inner.balance, inner.residual));
        }
        if inner.active_children > inner.backlogged_children || (inner.active && inner.backlogged_children == 0) {
            return Err(format!(
                "class {class}: {} active, {} backlogged children",
                inner.active_children, inner.backlogged_children
            ));
        }
        if !inner.active && (inner.balance, inner.residual, inner.active_weight) != (0, 0, 0) {
            return Err(format!("idle class {class} holds credit"));
        }
    }
    Ok(())
}

fn leaves(hls: &Hls) -> Result<(), String> {
    let served = if hls.serving { hls.order.get(hls.cursor).copied() } else { None };
    for (id, leaf) in hls.leaves.iter().enumerate().filter(|(_, leaf)| !leaf.flags.intersects(Flags::INNER)) {
        let owes = hls.urgent.debt(id as u32) > 0;
        if (leaf.queue.is_empty() && !owes) == leaf.flags.intersects(Flags::BACKLOGGED) {
            return Err(format!("leaf {id}: {:?} with backlog {:?}", leaf.flags, leaf.queue.backlog(&hls.slab)));
        }
        if leaf.balance < 0 || (served != Some(id as u32) && leaf.balance >= hls.max_packet_credits()) {
            return Err(format!("Lemma 4: leaf {id} has a balance of {} credits", leaf.balance));
        }
        if !leaf.flags.intersects(Flags::ACTIVE) && leaf.balance != 0 {
            return Err(format!("idle leaf {id} has a balance of {} credits", leaf.balance));
        }
    }
    Ok(())
}
