//! `wf2q+`: Worst-case Fair Weighted Fair Queueing plus of Bennett and Zhang, \[hpfq\] Section 3.4. Flat; [`crate::schedulers::hpfq`] is the
//! same at every class of a tree.
//!
//! Of the packets that have started in the virtual fluid system, the one that finishes there first is sent. So a class
//! cannot run ahead of its share by more than a packet. The virtual time needs no fluid system to be simulated:
//!
//! > V(t + tau) = max(V(t) + W(t, t + tau), min S_i(t) over the backlogged classes)
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | V(t) | `Sessions::v`, as of the last packet that was sent | virtual time |
//! | W(t, t + tau), work of the server | the packet sent, or `progress` of it | bytes |
//! | S_i = max(F_i, V) at an idle class, F_i behind a packet; F_i = S_i + L / r_i | `Sessions` | virtual time |
//! | eligible: S_i <= V | `eligible`, sorted by F_i; the others in `waiting`, sorted by S_i | |
//!
//! **Cost per packet.** O(log n) of the active leaves. A call may move many leaves from `waiting` to `eligible`, each packet
//! once.
//! **Invariants.** Each backlogged child that is not sending is in exactly one of the heaps.
//! **Bounds.** W_i(t1, t2) >= (rho_i / r) W(t1, t2) - (L_i + (L_max - L_i) rho_i / r) while a class is backlogged, whenever a packet
//! of it has left. At other times it may be behind by (1 - rho_i / r) L_i more: it waits for its next packet. A
//! latency-rate server with Theta = L_i / rho_i + L_max / r.
//! **Overflow budget.** As in `parts::virtual_time`.
//! **Validation.** Both bounds are property tests. The first is read whenever a packet of the class has left. The
//! example with which the WF2Q papers begin is a test, too.
//!
//! DIFFERENCE: when the server becomes idle, V becomes the largest finish tag. The paper sets everything to zero, which
//! is equivalent. DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among
//! its leaves.

use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::composed::{Composed, Discipline};
use crate::contract::{
    Delay, Fairness, Feature, Hierarchy, OutOfMemory, Promises, Ratio, SchedulerInfo, Sharing, WorkConserving, boxed,
    late_by, leaf_shares,
};
use crate::parts::{
    heap::{AHEAD, Heap},
    virtual_time::{HIGH, Sessions, Tags, UNITS_PER_BYTE, lower_by},
};

/// Registry entry of `wf2q+`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "wf2q+",
    aliases: &[],
    paper: "hpfq",
    summary: "worst-case fair weighted fair queueing: smallest eligible finish tag first",
    features: &[Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves)",
    sharing: Sharing::Leaves(leaf_shares),
    promises: Promises {
        fairness: Some(Fairness::WorstCase(worst_case_fairness)),
        delay: Some(Delay::LatencyRate(|tree| late_by(tree, tree.link().max_packet.into()))),
        ..Promises::NONE
    },
    memory: Composed::<Wf2qPlus>::flat_memory,
    build: |tree, _| boxed(Composed::<Wf2qPlus>::flat(tree)?),
};

/// L_i + (L - L_i) rho_i / r, and (1 - rho_i / r) L_i just before a packet of the class, with the maximum L for L_i.
fn worst_case_fairness(tree: &Hierarchy) -> Vec<Option<Ratio>> {
    let largest = u128::from(tree.link().max_packet);
    let index = |class| {
        let numerator = largest * ((2 << 64) - tree.share_all_busy(class));
        tree.is_leaf(class).then_some(Ratio { numerator, denominator: 1 << 64 })
    };
    core::iter::once(None).chain(tree.classes().map(index)).collect()
}

/// Prefetch distance in children that start at once.
const STARTS_AHEAD: u32 = 12;

/// WF2Q+ among the children of a server.
#[derive(Debug)]
pub(crate) struct Wf2qPlus {
    sessions: Sessions,
    /// Backlogged children that have not started in the fluid system, by start tag.
    waiting: Heap,
    /// Eligible classes, by finish tag.
    eligible: Heap,
}

fn work(bytes: u32) -> u128 {
    u128::from(bytes) * u128::from(UNITS_PER_BYTE)
}

impl Wf2qPlus {
    fn add(&mut self, child: u32, Tags { start, finish }: Tags) {
        // Children whose packets take as long come in the order of their tags, or nearly so.
        if start > self.sessions.v {
            self.waiting.set_by(child, start, finish - start);
        } else {
            self.eligible.set_by(child, finish, finish - start);
        }
    }

    /// Moves those that have started from `waiting` to `eligible`.
    #[inline(always)]
    fn start_due(&mut self) {
        while let Some((child, start)) = self.waiting.pop_by(self.sessions.v) {
            // Many may have started at once.
            if let Some(next) = self.waiting.ahead(STARTS_AHEAD) {
                self.prefetch(next);
            }
            let finish = self.sessions.finish(child);
            self.eligible.set_by(child, finish, finish - start);
        }
    }

    #[cold]
    fn lower(&mut self, by: u128) {
        self.waiting.lower(by);
        self.eligible.lower(by);
        self.sessions.lower(by);
    }
}

impl Discipline for Wf2qPlus {
    fn new(weights: &[u64]) -> Result<Self, OutOfMemory> {
        let heap = || Heap::knowing(weights.len(), AHEAD);
        Ok(Self { sessions: Sessions::new(weights)?, waiting: heap()?, eligible: heap()? })
    }

    fn memory(children: usize) -> u64 {
        Sessions::memory(children) + 2 * Heap::memory_knowing(children, AHEAD)
    }

    fn activate(&mut self, child: u32, len: u32, progress: u32) {
        let tags = self.sessions.begin(child, len, self.sessions.v + work(progress));
        self.add(child, tags);
    }

    fn select(&mut self) -> Option<u32> {
        if self.eligible.is_empty() {
            let Some((_, start)) = self.waiting.first() else {
                self.sessions.v = self.sessions.v.max(self.sessions.last_finish());
                return None;
            };
            self.sessions.v = self.sessions.v.max(start);
        }
        self.start_due();
        let (child, _) = self.eligible.pop()?;
        if self.sessions.v >= HIGH {
            self.lower(lower_by(self.sessions.v, [self.waiting.first(), self.eligible.first()]));
        }
        Some(child)
    }

    fn complete(&mut self, child: u32, len: u32, next: Option<u32>) {
        self.sessions.v += work(len);
        if let Some(len) = next {
            let tags = self.sessions.next(child, len);
            self.add(child, tags);
        }
    }

    #[inline(always)]
    fn ahead(&self, by: u32) -> Option<u32> {
        self.eligible.ahead(by).or_else(|| self.waiting.ahead(by))
    }

    #[inline(always)]
    fn prefetch(&self, child: u32) {
        self.sessions.prefetch(child);
        self.waiting.prefetch(child);
        self.eligible.prefetch(child);
    }

    fn retune(&mut self, with: &Self) {
        self.sessions.retune(&with.sessions);
    }

    fn reset(&mut self) {
        self.sessions.reset();
        self.waiting.clear();
        self.eligible.clear();
    }

    #[cfg(feature = "invariants")]
    fn check(&self) -> Result<(), String> {
        self.waiting.check()?;
        self.eligible.check()?;
        match self.eligible.first() {
            Some((child, finish)) if self.waiting.contains(child) || finish != self.sessions.finish(child) => {
                Err(format!("child {child} is eligible until {finish} and waits until {:?}", self.waiting.key(child)))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
impl Wf2qPlus {
    pub(crate) fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.sessions
    }
}
