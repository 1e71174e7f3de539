//! `scfq`: Self-Clocked Fair Queueing of Golestani: \[scfq\], and as described in \[drrpp\] Section 2.3.3. Flat.
//!
//! The virtual time is the finish tag of the packet that is being sent. No fluid system needs to be simulated. The
//! packet with the smallest finish tag is sent next.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | v^(t), service tag of the packet in service | `Sessions::v` | virtual time |
//! | F^_k^i = L / r_k + max(F^_k^(i-1), v^(a_k^i)) | `Sessions::begin`, `Sessions::next` | virtual time |
//!
//! The tag of a packet behind others is computed when it becomes the head, not when it arrives. Until then its
//! predecessor has a larger tag than any packet that was in service. So the maximum is that tag.
//!
//! **Cost per packet.** O(log n) of the active leaves.
//! **Invariants.** No backlogged class has a finish tag below the virtual time.
//! **Bounds.** For classes backlogged all the time, |W_i / rho_i - W_j / rho_j| <= L_i / rho_i + L_j / rho_j. A latency-rate
//! server with Theta = L_i / rho_i + (V - 1) L_max / r, V being the number of classes.
//! **Overflow budget.** As in `parts::virtual_time`.
//! **Validation.** Both bounds, and the example of \[drrpp\] Figure 2.1, in `bases/composed/tests.rs`.
//!
//! DIFFERENCE: the virtual time is not reset to zero when the link becomes idle. It is then at least as large as any
//! tag, which is equivalent. DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and
//! shares among its leaves.

use crate::bases::{composed::Composed, self_clocked::SelfClocked};
use crate::contract::{
    Delay, Fairness, Feature, Promises, SchedulerInfo, Sharing, WorkConserving, boxed, late_by, leaf_shares,
};

/// Registry entry of `scfq`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "scfq",
    aliases: &[],
    paper: "scfq",
    summary: "self-clocked fair queueing: virtual time is the finish tag in service",
    features: &[Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves)",
    sharing: Sharing::Leaves(leaf_shares),
    promises: Promises {
        fairness: Some(Fairness::PacketEach),
        delay: Some(Delay::LatencyRate(|tree| {
            late_by(tree, u64::from(tree.link().max_packet) * (tree.leaves().len() as u64 - 1))
        })),
        delay_in_order: true,
        ..Promises::NONE
    },
    memory: Composed::<Scfq>::flat_memory,
    build: |tree, _| boxed(Composed::<Scfq>::flat(tree)?),
};

/// Self-clocked fair queueing among the children of a server.
pub(crate) type Scfq = SelfClocked<true>;
