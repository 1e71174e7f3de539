//! The bounds of `docs/hvt.md`, in numbers: of the weights and the queues as they are run.

use alloc::vec::Vec;

use super::lateness::{Lateness, PARTS};
use super::scale::{Scale, parents};
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
    fn new(tree: &Hierarchy, class: ClassId, lateness: &Lateness) -> Result<Self, OutOfMemory> {
        let scale = Scale::new(tree, class)?;
        let largest = u64::from(tree.link().max_packet);
        let groups = scale.groups(largest, lateness.room(class));
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

    /// Returns phi E of a child in parts of its bytes, rounded up.
    fn late(&self, slot: usize, late: u128) -> Option<u128> {
        Some(late.checked_mul(self.scale.rate.into())?.div_ceil(self.scale.inverse[slot].max(1).into()))
    }
}

/// Returns by class id the bytes x of [`Fairness::Clocks`](crate::contract::Fairness): phi (D + h + d) + sigma'' + phi E of
/// docs/hvt.md. `None` where E is not known.
pub(super) fn slacks(tree: &Hierarchy) -> Result<Vec<Option<Ratio>>, OutOfMemory> {
    let mut slacks = alloc::vec![None; tree.len()];
    let lateness = Lateness::new(tree)?;
    for class in parents(tree) {
        let Some(late) = lateness.late(class) else { continue };
        let queue = Queue::new(tree, class, &lateness)?;
        for (slot, &child) in tree.children(class).iter().enumerate() {
            let Reach { ahead, behind } = queue.reach(slot);
            let numerator = ahead.numerator + behind.numerator;
            let own = Ratio { numerator, ..ahead };
            slacks[child.index()] = match late {
                0 => Some(own),
                _ => queue.late(slot, late).map(|late| Ratio {
                    numerator: (numerator * PARTS).div_ceil(own.denominator) + lateness.ahead(child) + late,
                    denominator: PARTS,
                }),
            };
        }
    }
    Ok(slacks)
}

/// Returns the bytes of the link, in parts, that take as long as `parts` of a class with `share` of it. `None` if they are too
/// many.
fn parts_on_link(parts: u128, share: Ratio) -> Option<u128> {
    Some(parts.checked_mul(share.denominator)?.div_ceil(share.numerator.max(1)))
}

/// Returns the bytes of the link, in parts, that take as long as `bytes` of a class with `share` of it.
fn on_link(bytes: Ratio, share: Ratio) -> u128 {
    let own = (bytes.numerator * PARTS).div_ceil(bytes.denominator);
    (own * share.denominator).div_ceil(share.numerator.max(1))
}

/// Returns the servers of the leaves without a ceiling at or above them. A latency-critical leaf has the whole link, late by
/// a largest packet and the bursts of the others. Each other leaf has its share, as run, late by Theorem 2 of docs/hvt.md for
/// the shortest packets: phi d / s at the leaf, x / s at each class above it, less L / s at each but the nearest one; L directly
/// below the link. What urgent packets add is E / s at each class above it and the link, and sigma'' / s at each class above it.
pub(super) fn delays(tree: &Hierarchy) -> Vec<Option<LatencyRate>> {
    servers(tree).unwrap_or_else(|_| alloc::vec![None; tree.len()])
}

fn servers(tree: &Hierarchy) -> Result<Vec<Option<LatencyRate>>, OutOfMemory> {
    let mut servers = alloc::vec![None; tree.len()];
    let largest = u128::from(tree.link().max_packet);
    let lateness = Lateness::new(tree)?;
    let bursts: u128 = urgent::leaves(tree).map(|leaf| u128::from(urgent::burst(tree, leaf))).sum();
    // By class without a ceiling at or above it: its share, and the lateness of its children. That is not known if an E is not.
    let mut paths = alloc::vec![None; tree.len()];
    paths[ClassId::ROOT.index()] = Some((Ratio::whole(1), Some(0)));
    for class in parents(tree) {
        let Some((share, late)) = paths[class.index()] else { continue };
        let queue = Queue::new(tree, class, &lateness)?;
        let urgent = lateness.late(class).and_then(|late| parts_on_link(late, share));
        let late = late.zip(urgent).map(|(late, urgent): (u128, u128)| late + urgent);
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
                let late = late.zip(parts_on_link(lateness.ahead(child), own));
                let late = late.map(|(late, more)| late - before + more + on_link(ahead, own) + on_link(behind, own));
                paths[child.index()] = Some((own, late));
            } else if urgent::is_critical(tree, child) {
                let others = bursts - u128::from(urgent::burst(tree, child));
                let traffic = Ratio { numerator: lateness.contract(child).into(), denominator: rate(tree) };
                let late = Ratio::whole(largest + others);
                let server = LatencyRate { share: Ratio::whole(1), late, traffic };
                servers[child.index()] = Some(server).filter(|_| lateness.fits());
            } else if let Some(late) = late.filter(|_| own.numerator > 0) {
                let late = if class == ClassId::ROOT { late + largest * PARTS } else { late };
                let late = Ratio { numerator: late + on_link(behind, own), denominator: PARTS };
                servers[child.index()] = Some(LatencyRate::new(own, late));
            }
        }
    }
    Ok(servers)
}

fn rate(tree: &Hierarchy) -> u128 {
    tree.link().rate.bps().into()
}
