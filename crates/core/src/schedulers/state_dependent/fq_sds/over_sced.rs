//! `fq-ldf-sced`, `fq-lto-sced`, `fq-lto-lb-sced`: the redistribution of FQ-SDS on top of service curves, which \[sds\] suggests in
//! Section V and does not build. Flat.
//!
//! Every class has its service curve, as under SCED. The rest goes to the class whose state needs it most. The shaper
//! of FQ-SDS becomes the eligible curve, and the server's finish tags become deadlines. A class's head packet waits
//! until its curve requires service, and is then ordered by its deadline. While no packet is eligible, the
//! state-dependent scheduler picks one. That does not count against the curve: the next packet of the class becomes
//! eligible at that one's eligible time. This is H-FSC's real-time criterion with the policies of \[sds\] in place of
//! link-sharing. It does not punish classes that got excess, as SCED does.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | D_i, c_i of \[hfsc\] | `Class::deadlines`, `Class::served`: what the class got by its curve | 2^-12 ns, bytes |
//! | e, d of the head packet, \[hfsc\] equations (8) to (10) | keys of `waiting` and `eligible` | 2^-12 ns |
//! | D_i, Q_i / g_i, beta_i, Delta B_i, P_i of \[sds\] | `excess.rs` | |
//!
//! **Cost per packet.** O(log n). A call may make many heads eligible, each once. **Invariants.** A class with packets
//! is in exactly one of `waiting` and `eligible`, under the time of its head. **Bounds.** With curves that fit the
//! link, no deadline is missed by more than L_max / r (\[hfsc\] Theorem 2): every service curve is kept up to one
//! largest packet, under all policies. **Overflow budget and errors.** Those of `parts::curve` and of `excess.rs`.
//! **Validation.** The bound as a property test against equation (1) of \[hfsc\]; with lines only, the guarantees; the
//! policies' choices on the examples of `tests.rs`.
//!
//! DIFFERENCE: \[sds\] names neither eligible times nor the effect of a packet sent as excess. Both are as in \[hfsc\],
//! so that excess is never paid for later. DIFFERENCE: curves that do not fit the link are refused, as under `sced`.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use super::excess::{Excess, Policy, Session};
use super::{free, limits, session};
use crate::bases::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, Build, BuildError, ClassId, Delay, Dequeued, DropSink, Feature, Hierarchy, Nanos, Packet, Promises,
    QueueLimits, Scheduler, SchedulerInfo, Sharing, boxed,
};
use crate::parts::{
    curve::{Curve, planning_memory, ticks},
    heap::Heap,
};
use crate::schedulers::sced;

/// Makes the entry of a scheduler of this family whose guarantees are service curves.
const fn info(name: &'static str, summary: &'static str, features: &'static [Feature], build: Build) -> SchedulerInfo {
    let promises = Promises { delay: Some(Delay::Curves { lines: true }), ..Promises::NONE };
    let sharing = Sharing::Unknown("what the curves leave goes by the states of queues");
    SchedulerInfo {
        sharing,
        promises,
        memory: FqSdsSced::memory::<false>,
        ..super::info(name, summary, features, build)
    }
}

/// Registry entry of `fq-ldf-sced`.
pub const LDF: SchedulerInfo =
    info("fq-ldf-sced", "service curves; the rest to the longest delay", &[Feature::ServiceCurves], |tree, _| {
        build(tree, Policy::LongestDelay)
    });
/// Registry entry of `fq-lto-sced`.
pub const LTO: SchedulerInfo = info(
    "fq-lto-sced",
    "service curves; the rest to the least time to overflow",
    &[Feature::ServiceCurves, Feature::MaxDelay],
    |tree, _| build(tree, Policy::LeastTimeToOverflow),
);
/// Registry entry of `fq-lto-lb-sced`.
pub const LTO_LB: SchedulerInfo = SchedulerInfo {
    memory: FqSdsSced::memory::<true>,
    ..info(
        "fq-lto-lb-sced",
        "service curves; the rest to the class that may overflow first",
        &[Feature::ServiceCurves, Feature::LeakyBucket],
        |tree, _| build(tree, Policy::LeakyBucket),
    )
};

fn build(tree: &Hierarchy, policy: Policy) -> Result<Box<dyn Scheduler>, BuildError> {
    boxed(FqSdsSced::new(tree, policy)?)
}

#[derive(Debug)]
struct Class {
    limits: QueueLimits,
    deadlines: Curve,
    served: u64,
    session: Session,
}

/// Service curves with state-dependent redistribution over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct FqSdsSced {
    flows: Flows<Class>,
    /// Classes whose head is not eligible, by when it will be.
    waiting: Heap,
    /// Classes whose head is, by its deadline.
    eligible: Heap,
    excess: Excess,
    now: Nanos,
}

impl FqSdsSced {
    /// Makes a scheduler for the leaves of `tree` whose excess is given by `policy`.
    ///
    /// # Errors
    /// [`BuildError::Curve`] and, if classes set curves, [`BuildError::NotAdmitted`]; [`BuildError::OutOfMemory`].
    pub(crate) fn new(tree: &Hierarchy, policy: Policy) -> Result<Self, BuildError> {
        let shapes = sced::shapes(tree)?;
        let mut excess = Excess::new(policy, false, tree)?;
        let class = |class: ClassId| {
            let limits = limits(tree, class);
            let deadlines = Curve::new(shapes[class.index()]);
            Class { limits, deadlines, served: 0, session: session(tree, class, limits, &mut excess) }
        };
        Ok(Self {
            flows: Flows::of_fifos(tree, class)?,
            waiting: Heap::new(tree.len())?,
            eligible: Heap::new(tree.len())?,
            excess,
            now: Nanos::ZERO,
        })
    }

    fn memory<const LEAKY_BUCKETS: bool>(tree: &Hierarchy) -> u64 {
        Flows::<Class>::fifo_memory(tree)
            + 2 * Heap::memory(tree.len())
            + Excess::memory::<LEAKY_BUCKETS>(tree)
            + planning_memory(tree)
    }

    /// Advances the time, and makes heads eligible.
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
        let (class, backlog) = (self.flows.state(index), self.flows.backlog_of(index));
        self.waiting.remove(index);
        self.eligible.remove(index);
        if let Some(len) = self.flows.head_len(index) {
            let at = class.deadlines.eligible_at(class.served);
            if at <= ticks(self.now) {
                self.eligible.set(index, class.deadlines.time_of(class.served.wrapping_add(len.into())));
            } else {
                self.waiting.set(index, at);
            }
        }
        let free = free(backlog, class.limits, self.flows.max_packet());
        self.excess.changed(index, &class.session, backlog, free);
    }
}

impl Scheduler for FqSdsSced {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.advance(now);
        let Packet { class: ClassId(index), len, .. } = packet;
        let takes = self.flows.takes(packet.class, len);
        if takes {
            // A packet that is dropped for lack of room has arrived, too.
            self.excess.arrived(&self.flows.state(index).session, self.now, len);
        }
        if self.flows.push(now, packet, drops) == Some(true) {
            let class = self.flows.state_mut(index);
            class.deadlines.lower_to(ticks(self.now), class.served);
        }
        if takes {
            self.list(index);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.advance(now);
        let by_curve = self.eligible.first().map(|(index, _)| index);
        let Some(index) = by_curve.or_else(|| self.excess.choose(self.now)) else { return Dequeued::Idle };
        let Some(packet) = self.flows.pop(index, now, drops) else {
            unreachable!("class {index} was chosen without a packet");
        };
        if by_curve.is_some() {
            let class = self.flows.state_mut(index);
            class.served = class.served.wrapping_add(packet.len.into());
        }
        self.list(index);
        Dequeued::Packet(packet)
    }

    backlog_of_flows!();

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        self.flows.purge(now, drops);
        for class in self.flows.states_mut() {
            (class.deadlines, class.served) = (Curve::new(class.deadlines.shape()), 0);
        }
        self.waiting.clear();
        self.eligible.clear();
        self.excess.reset();
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        self.waiting.check()?;
        self.eligible.check()?;
        self.excess.check()?;
        let mut backlogged = 0;
        for index in self.flows.classes() {
            let (class, queued) = (self.flows.state(index), self.flows.backlog_of(index));
            let deadline = |len: u32| class.deadlines.time_of(class.served.wrapping_add(len.into()));
            let listed = (self.waiting.key(index), self.eligible.key(index));
            let sound = match (self.flows.head_len(index), listed) {
                (None, (None, None)) => true,
                (Some(_), (Some(at), None)) => at == class.deadlines.eligible_at(class.served),
                (Some(len), (None, Some(by))) => by == deadline(len),
                _ => false,
            };
            if !sound || (queued.packets == 0) == self.excess.contains(index) {
                return Err(format!("class {index} has {queued:?} and is listed under {listed:?}"));
            }
            backlogged += usize::from(queued.packets > 0);
        }
        self.flows.check([], backlogged)
    }
}

#[cfg(test)]
mod tests;
