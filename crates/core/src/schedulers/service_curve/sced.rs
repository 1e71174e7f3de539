//! `sced`: Service Curve Earliest Deadline first, as described in \[hfsc\] Section 2.1 and \[drrpp\] Section 2.5.1.
//! Flat.
//!
//! Each class has a service curve. The deadline of its head packet is the time at which its deadline curve reaches the
//! class's service including the packet. Packets leave in the order of their deadlines. If the curves together stay
//! below the capacity of the link, no deadline is missed by more than one largest packet. Service beyond its curve
//! counts against a class: SCED is not fair.
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
//! **Overflow budget and errors.** Those of `parts::curve`: a deadline is less than a picosecond late.
//!
//! **Validation.** Figures 2 and 3 of the paper; with lines, the order of `virtual-clock`; service curves are kept within one
//! packet for random curves that fit the link, by equation (1) as an oracle.
//!
//! DIFFERENCE: curves that do not fit the link are refused. The paper leaves that to the admission of sessions.
//! DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, BuildError, ClassId, Delay, Dequeued, DropSink, Feature, Hierarchy, Nanos, Packet, Promises, Scheduler,
    SchedulerInfo, Sharing, WorkConserving, boxed,
};
use crate::parts::{
    curve::{Curve, Shape, admit, lines, planning_memory, real_time_shapes, ticks},
    heap::Heap,
    memory::slice,
};

/// Registry entry of `sced`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "sced",
    aliases: &[],
    paper: "hfsc",
    summary: "service curve earliest deadline first: flat, keeps service curves, is not fair",
    features: &[Feature::ServiceCurves, Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves)",
    sharing: Sharing::Leaves(slopes),
    promises: Promises { delay: Some(Delay::Curves { lines: true }), ..Promises::NONE },
    memory: Sced::memory,
    build: |tree, _| boxed(Sced::new(tree)?),
};

#[derive(Debug)]
struct Class {
    deadlines: Curve,
    served: u64,
}

/// SCED over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct Sced {
    flows: Flows<Class>,
    /// Leaves with packets by the deadlines of their heads.
    heads: Heap,
    now: Nanos,
}

/// Returns the curve of every class: its own, or the line of its share.
///
/// # Errors
/// [`BuildError::Curve`] and, if classes set curves, [`BuildError::NotAdmitted`]; [`BuildError::OutOfMemory`].
pub(crate) fn shapes(tree: &Hierarchy) -> Result<Box<[Shape]>, BuildError> {
    let (asked, lines) = (real_time_shapes(tree)?, lines(tree)?);
    let shapes = slice(tree.len(), |class| asked[class].unwrap_or(Shape::line(lines[class])))?;
    if asked.iter().any(Option::is_some) {
        admit(tree.leaves().iter().map(|leaf| shapes[leaf.index()]), tree.link().rate)?;
    }
    Ok(shapes)
}

/// Returns the long-term slope of a leaf's curve by class id, in 2^-16 bit/s.
pub(crate) fn slopes(tree: &Hierarchy) -> Result<Box<[u64]>, BuildError> {
    let shapes = shapes(tree)?;
    let slope = |class: usize| if tree.is_leaf(ClassId(class as u32)) { shapes[class].slope() } else { 0 };
    Ok(slice(tree.len(), slope)?)
}

impl Sced {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// As [`shapes`].
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        let shapes = shapes(tree)?;
        let class = |class: ClassId| Class { deadlines: Curve::new(shapes[class.index()]), served: 0 };
        Ok(Self { flows: Flows::new(tree, class)?, heads: Heap::new(tree.len())?, now: Nanos::ZERO })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        Flows::<Class>::memory(tree) + Heap::memory(tree.len()) + planning_memory(tree)
    }

    /// Returns the deadline of the head packet of a leaf, if there is one.
    #[inline(always)]
    fn deadline(&self, index: u32) -> Option<u128> {
        let len = self.flows.head_len(index)?;
        let Class { deadlines, served } = self.flows.state(index);
        Some(deadlines.time_of(served.wrapping_add(u64::from(len))))
    }

    /// Lists a leaf under the deadline of its head.
    #[inline(always)]
    fn list(&mut self, index: u32) {
        match self.deadline(index) {
            Some(deadline) => self.heads.set(index, deadline),
            None => {
                self.heads.remove(index);
            }
        }
    }
}

impl Scheduler for Sced {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let index = packet.class.0;
        if self.flows.push(now, packet, drops) == Some(true) {
            let class = self.flows.state_mut(index);
            class.deadlines.lower_to(ticks(self.now), class.served);
            self.list(index);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        let Some((index, _)) = self.heads.first() else { return Dequeued::Idle };
        let Some(packet) = self.flows.pop(index, self.now, drops) else {
            unreachable!("class {index} has a deadline and no packet");
        };
        let class = self.flows.state_mut(index);
        class.served = class.served.wrapping_add(u64::from(packet.len));
        self.list(index);
        Dequeued::Packet(packet)
    }

    backlog_of_flows!();

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        self.heads.clear();
        self.flows.purge(now, drops);
        for class in self.flows.states_mut() {
            (class.deadlines, class.served) = (Curve::new(class.deadlines.shape()), 0);
        }
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        self.heads.check()?;
        for index in self.flows.classes() {
            let (is, should) = (self.heads.key(index), self.deadline(index));
            if is != should {
                return Err(format!("class {index} is listed under {is:?}, its deadline is {should:?}"));
            }
        }
        self.flows.check([], self.heads.len())
    }
}

#[cfg(test)]
mod tests;
