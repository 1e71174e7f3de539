//! `sfq`: Start-time Fair Queueing of Goyal, Vin and Cheng: \[sfq\]. Flat.
//!
//! The virtual time is the start tag of the packet that is being sent. The packet with the smallest start tag is sent
//! next. This is as cheap as self-clocked fair queueing. Besides, a class of a low rate does not first wait for the
//! duration of its packet at that rate.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | v(t), start tag of the packet in service | `Sessions::v` | virtual time |
//! | S = max(v(A), F of the packet before), F = S + L / r | `Sessions::begin`, `Sessions::next` | virtual time |
//! | v after a busy period: the largest finish tag | `Sessions::last_finish` | virtual time |
//!
//! **Cost per packet.** O(log n) of the active leaves.
//! **Invariants.** No backlogged class has a start tag below the virtual time.
//! **Bounds.** For classes backlogged all the time, |W_i / rho_i - W_j / rho_j| <= L_i / rho_i + L_j / rho_j, on a link of any
//! and varying rate.
//! **Overflow budget.** As in `parts::virtual_time`.
//! **Validation.** The bound is a property test. So is the delay: a link of the class's own rate would have begun the
//! packet at some time, and the packet leaves later than that by at most the sum of the others' largest packets and its
//! own.
//!
//! DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::composed::{Composed, Discipline};
use crate::contract::{
    Delay, Fairness, Feature, OutOfMemory, Promises, SchedulerInfo, Sharing, WorkConserving, boxed, late_by,
    leaf_shares,
};
use crate::parts::{
    heap::{AHEAD, Heap},
    virtual_time::{Sessions, lower_by},
};

/// Registry entry of `sfq`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "sfq",
    aliases: &[],
    paper: "sfq",
    summary: "start-time fair queueing: virtual time is the start tag in service",
    features: &[Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves)",
    sharing: Sharing::Leaves(leaf_shares),
    promises: Promises {
        fairness: Some(Fairness::PacketEach),
        delay: Some(Delay::LatencyRate(|tree| {
            late_by(tree, u64::from(tree.link().max_packet) * tree.leaves().len() as u64)
        })),
        delay_in_order: true,
        ..Promises::NONE
    },
    memory: Composed::<Sfq>::flat_memory,
    build: |tree, _| boxed(Composed::<Sfq>::flat(tree)?),
};

/// Start-time fair queueing among the children of a server.
#[derive(Debug)]
pub(crate) struct Sfq {
    sessions: Sessions,
    /// Backlogged children by start tag.
    active: Heap,
}

impl Discipline for Sfq {
    fn new(weights: &[u64]) -> Result<Self, OutOfMemory> {
        Ok(Self { sessions: Sessions::new(weights)?, active: Heap::knowing(weights.len(), AHEAD)? })
    }

    fn memory(children: usize) -> u64 {
        Sessions::memory(children) + Heap::memory_knowing(children, AHEAD)
    }

    fn activate(&mut self, child: u32, len: u32, _progress: u32) {
        let start = self.sessions.begin(child, len, self.sessions.v).start;
        // Those that start now come in the order of the virtual time.
        self.active.set_by(child, start, start - self.sessions.v);
    }

    fn select(&mut self) -> Option<u32> {
        let Some((child, start)) = self.active.pop() else {
            self.sessions.v = self.sessions.last_finish();
            return None;
        };
        self.sessions.v = start;
        let by = lower_by(start, [self.active.first()]);
        if by > 0 {
            self.active.lower(by);
            self.sessions.lower(by);
        }
        Some(child)
    }

    fn complete(&mut self, child: u32, _len: u32, next: Option<u32>) {
        if let Some(len) = next {
            let start = self.sessions.next(child, len).start;
            self.active.set(child, start);
        }
    }

    #[inline(always)]
    fn ahead(&self, by: u32) -> Option<u32> {
        self.active.ahead(by)
    }

    #[inline(always)]
    fn prefetch(&self, child: u32) {
        self.sessions.prefetch(child);
        self.active.prefetch(child);
    }

    fn retune(&mut self, with: &Self) {
        self.sessions.retune(&with.sessions);
    }

    fn reset(&mut self) {
        self.sessions.reset();
        self.active.clear();
    }

    #[cfg(feature = "invariants")]
    fn check(&self) -> Result<(), String> {
        self.active.check()?;
        match self.active.first() {
            Some((child, start)) if start < self.sessions.v => {
                Err(format!("child {child} starts at {start}, before {}", self.sessions.v))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
impl Sfq {
    pub(crate) fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.sessions
    }
}
