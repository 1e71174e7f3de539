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

use crate::bases::{composed::Composed, self_clocked::SelfClocked};
use crate::contract::{
    Delay, Fairness, Feature, Promises, SchedulerInfo, Sharing, WorkConserving, boxed, late_by, leaf_shares,
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
pub(crate) type Sfq = SelfClocked<false>;
