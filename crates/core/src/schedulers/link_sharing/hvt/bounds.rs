//! The bounds of `docs/hvt.md`, in numbers: of the weights and the queues as they are run.

use alloc::vec::Vec;

use super::queues::parents;
use super::scale::Scale;
use super::urgent;
use super::wheel::Groups;
use crate::contract::{ClassId, Hierarchy, LatencyRate, OutOfMemory, Ratio, SiblingShares};

/// The queue of the children of one class.
struct Queue {
    scale: Scale,
    groups: Groups,
    largest: u64,
}

/// Maximum lead and lag of a child's tag against the clock of its parent, in bytes of the child.
struct Reach {
    ahead: Ratio,
    behind: Ratio,
}

impl Queue {
    fn new(tree: &Hierarchy, class: ClassId) -> Result<Self, OutOfMemory> {
        let scale = Scale::new(tree, class)?;
        let largest = u64::from(tree.link().max_packet);
        let groups = scale.groups(largest);
        Ok(Self { scale, groups, largest })
    }

    /// Returns D_c + h and d, in bytes of the child. Ahead, the virtual time of a largest packet is not taken off.
    fn reach(&self, slot: usize) -> Reach {
        let inverse = self.scale.inverse[slot];
        let distance = inverse * self.largest;
        let (width, of_group) = self.groups.of(distance);
        let over = |units: u64| Ratio { numerator: units.into(), denominator: inverse.max(1).into() };
        Reach { ahead: over(distance + width), behind: over(of_group) }
    }
}

/// Returns by class id the bytes x of [`Fairness::Clocks`](crate::contract::Fairness): phi (D + h + d) of docs/hvt.md. `None` for
/// all if a leaf is latency-critical.
pub(super) fn slacks(tree: &Hierarchy) -> Result<Vec<Option<Ratio>>, OutOfMemory> {
    let mut slacks = alloc::vec![None; tree.len()];
    if urgent::leaves(tree).next().is_some() {
        return Ok(slacks);
    }
    for class in parents(tree) {
        let queue = Queue::new(tree, class)?;
        for (slot, &child) in tree.children(class).iter().enumerate() {
            let Reach { ahead, behind } = queue.reach(slot);
            let numerator = ahead.numerator + behind.numerator;
            slacks[child.index()] = Some(Ratio { numerator, ..ahead });
        }
    }
    Ok(slacks)
}

/// Latencies are counted in this part of a byte of the link, and rounded up.
const PARTS: u128 = 1 << 24;

/// Returns the bytes of the link, in parts, that take as long as `bytes` of a class with `share` of it.
fn on_link(bytes: Ratio, share: Ratio) -> u128 {
    let own = (bytes.numerator * PARTS).div_ceil(bytes.denominator);
    (own * share.denominator).div_ceil(share.numerator.max(1))
}

/// Returns the servers of the leaves without a ceiling at or above them. A latency-critical leaf has the whole link, late by
/// a largest packet and the bursts of the others. Without any, each other leaf has its share, as run, late by Theorem 2 of
/// docs/hvt.md for the shortest packets: phi d / s at the leaf, x / s at each class above it, less L / s at each but the
/// nearest one; L directly below the link.
pub(super) fn delays(tree: &Hierarchy) -> Vec<Option<LatencyRate>> {
    let mut servers = alloc::vec![None; tree.len()];
    let largest = u128::from(tree.link().max_packet);
    let bursts: u128 = urgent::leaves(tree).map(|leaf| u128::from(urgent::burst(tree, leaf))).sum();
    let mut paths = alloc::vec![None; tree.len()];
    paths[ClassId::ROOT.index()] = Some((Ratio::whole(1), 0));
    for class in parents(tree) {
        let Some((share, late)) = paths[class.index()] else { continue };
        let Ok(queue) = Queue::new(tree, class) else { return alloc::vec![None; tree.len()] };
        // This is subtracted for classes that are not directly below it; rounded down.
        let packet = on_link(Ratio::whole(largest), share) - 1;
        for (slot, &child) in tree.children(class).iter().enumerate() {
            if tree.config(child).ceiling.is_some() {
                continue;
            }
            let own = SiblingShares::new(share, queue.scale.inverse[slot]).of(queue.scale.rate);
            let Reach { ahead, behind } = queue.reach(slot);
            if !tree.is_leaf(child) {
                let before = if class == ClassId::ROOT { 0 } else { packet };
                paths[child.index()] = Some((own, late - before + on_link(ahead, own) + on_link(behind, own)));
            } else if urgent::is_critical(tree, child) {
                let others = bursts - u128::from(urgent::burst(tree, child));
                let traffic = Ratio { numerator: tree.rate_all_busy(child).into(), denominator: rate(tree) };
                let late = Ratio::whole(largest + others);
                servers[child.index()] = Some(LatencyRate { share: Ratio::whole(1), late, traffic });
            } else if bursts == 0 && own.numerator > 0 {
                let late = if class == ClassId::ROOT { largest * PARTS } else { late };
                let late = Ratio { numerator: late + on_link(behind, own), denominator: PARTS };
                servers[child.index()] = Some(LatencyRate::new(own, late));
            }
        }
    }
    servers
}

fn rate(tree: &Hierarchy) -> u128 {
    tree.link().rate.bps().into()
}
