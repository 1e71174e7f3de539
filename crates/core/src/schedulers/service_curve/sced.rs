//! `sced`: Service Curve Earliest Deadline first, as \[hfsc\] Section 2.1 and \[drrpp\] Section 2.5.1 tell it. Flat.
//!
//! Each class has a service curve. The deadline of its head packet is when its deadline curve reaches the service that it will
//! have had then; packets leave in the order of their deadlines. If the curves together stay below what the link carries, no
//! deadline is missed by more than one largest packet. What a class gets beyond its curve counts against it: SCED is not fair.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | S_i | `real_time` of the class, or the line of its share | |
//! | D_i, equations (2) and (3) | `Leaf::deadlines` | |
//! | w_i | `Leaf::served` | bytes |
//! | d_i, equation (4) | key of `heads` | 2^-12 ns |
//!
//! **Cost per packet.** O(log n) in the leaves with packets.
//!
//! **Invariants.** The heap holds exactly the leaves with packets, under the deadlines of their heads.
//!
//! **Overflow budget and errors.** Those of [`curve`](crate::parts::curve): a deadline is less than a picosecond late.
//!
//! **Validation.** Figures 2 and 3 of the paper; with lines, the order of `virtual-clock`; service curves are kept within one
//! packet for random curves that fit the link, by equation (1) as an oracle.
//!
//! DIFFERENCE: curves that do not fit the link are refused; the paper leaves that to who admits sessions.
//! DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::contract::{
    Amount, BuildError, ClassId, Dequeued, DropReason, DropSink, Feature, Hierarchy, Nanos, Packet, Scheduler,
    SchedulerInfo, WorkConserving,
};
use crate::parts::{
    curve::{Curve, Shape, admit, lines, real_time_shapes, ticks},
    heap::Heap,
};
use crate::queue::{LeafQueue, PacketSlab};

/// What `sced` is and supports.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "sced",
    paper: "hfsc",
    summary: "service curve earliest deadline first: flat, keeps service curves, is not fair",
    features: &[Feature::ServiceCurves, Feature::ActiveQueue],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves)",
    bounds: &["delay"],
    build: |tree| Ok(Box::new(Sced::new(tree)?)),
};

#[derive(Debug)]
struct Leaf {
    queue: LeafQueue,
    deadlines: Curve,
    served: u64,
    is_leaf: bool,
}

impl Leaf {
    /// Deadline of the head packet, if there is one.
    fn deadline(&self) -> Option<u128> {
        let len = self.queue.head_len()?;
        Some(self.deadlines.time_of(self.served.wrapping_add(u64::from(len))))
    }
}

/// SCED over the leaves of a hierarchy.
#[derive(Debug)]
pub struct Sced {
    leaves: Vec<Leaf>,
    slab: PacketSlab,
    /// Leaves with packets by the deadlines of their heads.
    heads: Heap,
    max_packet: u32,
    now: Nanos,
}

/// The curve of every class: the one it sets, or the line of its share.
///
/// # Errors
/// [`BuildError::Curve`] and, where classes set curves, [`BuildError::NotAdmitted`].
pub(crate) fn shapes(tree: &Hierarchy) -> Result<Vec<Shape>, BuildError> {
    let asked = real_time_shapes(tree)?;
    let set = asked.iter().any(Option::is_some);
    let shape = |(curve, line): (Option<Shape>, u64)| curve.unwrap_or(Shape::line(line));
    let shapes: Vec<Shape> = asked.into_iter().zip(lines(tree)).map(shape).collect();
    if set {
        admit(tree.leaves().iter().map(|leaf| shapes[leaf.index()]), tree.link().rate)?;
    }
    Ok(shapes)
}

impl Sced {
    /// A scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// [`BuildError::Curve`] and, where classes set curves, [`BuildError::NotAdmitted`].
    pub fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        let shapes = shapes(tree)?;
        let mut slab = PacketSlab::for_tree(tree);
        let leaf = |(index, shape)| {
            let class = ClassId(index as u32);
            let queue = slab.queue_for(tree, class);
            Leaf { queue, deadlines: Curve::new(shape), served: 0, is_leaf: tree.is_leaf(class) }
        };
        Ok(Self {
            leaves: shapes.into_iter().enumerate().map(leaf).collect(),
            slab,
            heads: Heap::new(tree.len()),
            max_packet: tree.link().max_packet,
            now: Nanos::ZERO,
        })
    }

    /// Takes the head of a leaf that has packets out of its queue.
    fn pop(&mut self, index: u32, drops: &mut dyn DropSink) -> Option<Packet> {
        let leaf = &mut self.leaves[index as usize];
        let packet = leaf.queue.dequeue(&mut self.slab, ClassId(index), self.now, drops)?;
        leaf.served = leaf.served.wrapping_add(u64::from(packet.len));
        match leaf.deadline() {
            Some(deadline) => self.heads.set(index, deadline),
            None => {
                self.heads.remove(index);
            }
        }
        Some(packet)
    }
}

impl Scheduler for Sced {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let index = packet.class.0;
        let Some(leaf) = self.leaves.get_mut(packet.class.index()).filter(|leaf| leaf.is_leaf) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        let was_empty = leaf.queue.is_empty();
        if leaf.queue.enqueue(&mut self.slab, now, packet, drops) && was_empty {
            leaf.deadlines.lower_to(ticks(self.now), leaf.served);
            if let Some(deadline) = leaf.deadline() {
                self.heads.set(index, deadline);
            }
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        let first = self.heads.first();
        first.and_then(|(index, _)| self.pop(index, drops)).map_or(Dequeued::Idle, Dequeued::Packet)
    }

    fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.leaves.get(class.index()).map_or(Amount::default(), |leaf| leaf.queue.backlog())
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        self.heads.clear();
        for (index, leaf) in self.leaves.iter_mut().enumerate() {
            leaf.queue.purge(&mut self.slab, ClassId(index as u32), now, drops);
            (leaf.deadlines, leaf.served) = (Curve::new(leaf.deadlines.shape()), 0);
        }
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.heads.check()?;
        let mut bytes = 0;
        for (index, leaf) in self.leaves.iter().enumerate() {
            let (is, should) = (self.heads.key(index as u32), leaf.deadline());
            if is != should {
                return Err(format!("class {index} is listed under {is:?}, its deadline is {should:?}"));
            }
            bytes += leaf.queue.backlog().bytes;
        }
        if bytes != self.slab.bytes() {
            return Err(format!("{bytes} B are queued, {} B are counted", self.slab.bytes()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
