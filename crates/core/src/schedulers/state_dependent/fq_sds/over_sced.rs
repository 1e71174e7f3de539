//! `fq-ldf-sced`, `fq-lto-sced`, `fq-lto-lb-sced`: the redistribution of FQ-SDS on top of service curves, which \[sds\] suggests in
//! Section V and does not build. Flat.
//!
//! Every class has its service curve, as under SCED; what the curves leave goes to the class whose state needs it most. The
//! shaper of FQ-SDS becomes the eligible curve, the server's finish tags become deadlines: a class's head packet waits until its
//! curve demands that it be served, then goes by its deadline. While no packet is eligible, the state-dependent scheduler
//! picks one. That does not count against the curve: the next packet of the class is eligible when that one would have been.
//! This is H-FSC's real-time criterion with the policies of \[sds\] in the place of link-sharing, and it lacks SCED's punishment of
//! classes that got excess.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | D_i, c_i of \[hfsc\] | `Class::deadlines`, `Class::served`: what the class got by its curve | 2^-12 ns, bytes |
//! | e, d of the head packet, \[hfsc\] equations (8) to (10) | keys of `waiting` and `eligible` | 2^-12 ns |
//! | D_i, Q_i / g_i, beta_i, Delta B_i, P_i of \[sds\] | `excess.rs` | |
//!
//! **Cost per packet.** O(log n). A call may make many heads eligible, each once.
//! **Invariants.** A class with packets is in exactly one of `waiting` and `eligible`, under the time of its head.
//! **Bounds.** With curves that fit the link, no deadline is missed by more than L_max / r (\[hfsc\] Theorem 2): every service
//! curve is kept up to one largest packet, under all policies.
//! **Overflow budget and errors.** Those of [`curve`](crate::parts::curve) and of `excess.rs`.
//! **Validation.** The bound as a property test against equation (1) of \[hfsc\]; with nothing but lines, the guarantees; the
//! policies' choices on the examples of `tests.rs`.
//!
//! DIFFERENCE: \[sds\] names neither eligible times nor what a packet sent as excess counts for; both are as in \[hfsc\], so
//! that excess is never paid for later.
//! DIFFERENCE: curves that do not fit the link are refused, as under `sced`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::excess::{Excess, Policy, Session};
use super::{free, info, session};
use crate::contract::{
    Amount, BuildError, ClassId, Dequeued, DropReason, DropSink, Feature, Hierarchy, Nanos, Packet, QueueLimits,
    Scheduler, SchedulerInfo,
};
use crate::parts::{
    curve::{Curve, ticks},
    heap::Heap,
};
use crate::queue::{LeafQueue, PacketSlab};
use crate::schedulers::sced;

/// What `fq-ldf-sced` is and supports.
pub const LDF: SchedulerInfo =
    info("fq-ldf-sced", "service curves; the rest to the longest delay", &[Feature::ServiceCurves], |tree| {
        build(tree, Policy::LongestDelay)
    });
/// What `fq-lto-sced` is and supports.
pub const LTO: SchedulerInfo = info(
    "fq-lto-sced",
    "service curves; the rest to the least time to overflow",
    &[Feature::ServiceCurves, Feature::MaxDelay],
    |tree| build(tree, Policy::LeastTimeToOverflow),
);
/// What `fq-lto-lb-sced` is and supports.
pub const LTO_LB: SchedulerInfo = info(
    "fq-lto-lb-sced",
    "service curves; the rest to who may overflow first",
    &[Feature::ServiceCurves, Feature::LeakyBucket],
    |tree| build(tree, Policy::LeakyBucket),
);

fn build(tree: &Hierarchy, policy: Policy) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(Box::new(FqSdsSced::new(tree, policy)?))
}

#[derive(Debug)]
struct Class {
    queue: LeafQueue,
    limits: QueueLimits,
    deadlines: Curve,
    served: u64,
    session: Session,
    leaf: bool,
}

/// Service curves with state-dependent redistribution over the leaves of a hierarchy.
#[derive(Debug)]
pub struct FqSdsSced {
    classes: Vec<Class>,
    slab: PacketSlab,
    /// Classes whose head is not eligible, by when it will be.
    waiting: Heap,
    /// Classes whose head is, by its deadline.
    eligible: Heap,
    excess: Excess,
    now: Nanos,
    bytes: u64,
    max_packet: u32,
}

impl FqSdsSced {
    /// A scheduler for the leaves of `tree` whose excess goes by `policy`.
    ///
    /// # Errors
    /// [`BuildError::Curve`] and, where classes set curves, [`BuildError::NotAdmitted`].
    pub fn new(tree: &Hierarchy, policy: Policy) -> Result<Self, BuildError> {
        let link = tree.link();
        let shapes = sced::shapes(tree)?;
        let class = |(index, shape)| {
            let class = ClassId(index as u32);
            let leaf = tree.is_leaf(class);
            let limits = if leaf { tree.config(class).limits } else { QueueLimits { packets: 0, bytes: 0 } };
            Class {
                queue: LeafQueue::new(limits),
                limits,
                deadlines: Curve::new(shape),
                served: 0,
                session: session(tree, class, limits),
                leaf,
            }
        };
        Ok(Self {
            classes: shapes.into_iter().enumerate().map(class).collect(),
            slab: PacketSlab::new(link.max_queued),
            waiting: Heap::new(tree.len()),
            eligible: Heap::new(tree.len()),
            excess: Excess::new(policy, false, tree.len()),
            now: Nanos::ZERO,
            bytes: 0,
            max_packet: link.max_packet,
        })
    }

    /// Time goes on, and heads become eligible.
    fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        while let Some((index, at)) = self.waiting.first()
            && at <= ticks(self.now)
        {
            self.list(index);
        }
    }

    /// Lists a class under the eligible time or the deadline of its head, and its state for the excess.
    fn list(&mut self, index: u32) {
        let class = &self.classes[index as usize];
        self.waiting.remove(index);
        self.eligible.remove(index);
        if let Some(len) = class.queue.head_len() {
            let at = class.deadlines.eligible_at(class.served);
            if at <= ticks(self.now) {
                self.eligible.set(index, class.deadlines.time_of(class.served.wrapping_add(len.into())));
            } else {
                self.waiting.set(index, at);
            }
        }
        let free = free(&class.queue, class.limits, self.max_packet);
        self.excess.changed(index, &class.session, class.queue.backlog().bytes, free, class.queue.is_empty());
    }
}

impl Scheduler for FqSdsSced {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.advance(now);
        let index = packet.class.0;
        let Some(class) = self.classes.get_mut(packet.class.index()).filter(|class| class.leaf) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        let len = packet.len;
        // What is dropped has arrived, too.
        self.excess.arrived(&mut class.session, self.now, len);
        let was_empty = class.queue.is_empty();
        match class.queue.push(&mut self.slab, packet) {
            Err((packet, reason)) => drops.dropped(now, packet, reason),
            Ok(()) => {
                self.bytes += u64::from(len);
                if was_empty {
                    class.deadlines.lower_to(ticks(self.now), class.served);
                }
            }
        }
        self.list(index);
    }

    fn dequeue(&mut self, now: Nanos, _drops: &mut dyn DropSink) -> Dequeued {
        self.advance(now);
        let by_curve = self.eligible.first().map(|(index, _)| index);
        let Some(index) = by_curve.or_else(|| self.excess.choose(self.now)) else { return Dequeued::Idle };
        let class = &mut self.classes[index as usize];
        let Some(packet) = class.queue.pop(&mut self.slab, ClassId(index)) else {
            unreachable!("class {index} was chosen without a packet");
        };
        self.bytes -= u64::from(packet.len);
        if by_curve.is_some() {
            class.served = class.served.wrapping_add(packet.len.into());
        }
        self.list(index);
        Dequeued::Packet(packet)
    }

    fn backlog(&self) -> Amount {
        Amount { packets: u64::from(self.slab.queued()), bytes: self.bytes }
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.classes.get(class.index()).map_or(Amount::default(), |class| class.queue.backlog())
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for (index, class) in self.classes.iter_mut().enumerate() {
            while let Some(packet) = class.queue.pop(&mut self.slab, ClassId(index as u32)) {
                drops.dropped(now, packet, DropReason::Purged);
            }
            (class.deadlines, class.served) = (Curve::new(class.deadlines.shape()), 0);
            class.session.reset();
        }
        self.bytes = 0;
        self.waiting.clear();
        self.eligible.clear();
        self.excess.reset();
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.waiting.check()?;
        self.eligible.check()?;
        self.excess.check()?;
        let mut bytes = 0;
        for (index, class) in self.classes.iter().enumerate() {
            let (index, queued) = (index as u32, class.queue.backlog());
            bytes += queued.bytes;
            let deadline = |len: u32| class.deadlines.time_of(class.served.wrapping_add(len.into()));
            let listed = (self.waiting.key(index), self.eligible.key(index));
            let sound = match (class.queue.head_len(), listed) {
                (None, (None, None)) => true,
                (Some(_), (Some(at), None)) => at == class.deadlines.eligible_at(class.served),
                (Some(len), (None, Some(by))) => by == deadline(len),
                _ => false,
            };
            if !sound || class.queue.is_empty() == self.excess.contains(index) {
                return Err(format!("class {index} has {queued:?} and is listed under {listed:?}"));
            }
        }
        if bytes != self.bytes {
            return Err(format!("{bytes} B queued, {} B counted", self.bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
