//! `hpfq`: Hierarchical Packet Fair Queueing of Bennett and Zhang with WF2Q+ at every class, H-WF2Q+: \[hpfq\] Section
//! 4, and the baseline of \[hfsc\].
//!
//! Each inner class is a separate WF2Q+ server ([`crate::schedulers::wf2q_plus`]), fed by the heads of its children.
//! Its virtual time counts the bytes that it has sent itself. See `bases::composed` for the composition of the servers.
//!
//! | paper | here |
//! | --- | --- |
//! | ARRIVE | `Composed::activate` |
//! | RESTART-NODE, Q_n, ActiveChild_n | `Composed::choose_head`, `Inner::head`, `Inner::head_slot` |
//! | RESET-PATH | `Composed::finish` |
//! | T_n, reference time of node n | `Sessions::v` of its server |
//!
//! **Cost per packet.** O(log n) of the active children at each level. **Invariants.** Those of the discipline and of
//! its composition. **Bounds.** W_i(t1, t2) >= share_i W(t1, t2) - the sum over the path of (L_i + (L_max - L_i) s_h)
//! times the share of the part below, whenever a packet of the class has left. s_h is the share of the class on the
//! path in its parent. At other times it may lag by (1 - share_i) L_i more. **Validation.** The bound over the path is
//! a property test in random trees; a tree of one level equals `wf2q+`.
//!
//! DIFFERENCE: an inner class that becomes idle starts a new busy period with all its children level, as the link does.
//! The paper leaves its tags unchanged. The tags of the class itself at its parent stay. DIFFERENCE: the root chooses
//! when it is asked for a packet, the other classes when one of theirs has left.

use crate::bases::composed::Composed;
use crate::contract::{
    ClassId, Fairness, Feature, Hierarchy, MAX_DEPTH, Promises, Ratio, SchedulerInfo, Sharing, WorkConserving, boxed,
};
use crate::schedulers::wf2q_plus::Wf2qPlus;
use alloc::vec::Vec;

/// Registry entry of `hpfq`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "hpfq",
    aliases: &[],
    paper: "hpfq",
    summary: "hierarchical packet fair queueing: WF2Q+ at every class",
    features: &[Feature::Hierarchy, Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(levels log children)",
    sharing: Sharing::Siblings,
    promises: Promises { fairness: Some(Fairness::WorstCase(worst_case_fairness)), ..Promises::NONE },
    memory: Composed::<Wf2qPlus>::hierarchical_memory,
    build: |tree, _| boxed(Composed::<Wf2qPlus>::hierarchical(tree)?),
};

/// Bound: the sum over the path, from the leaf up, of a largest packet times the share of the class below in the class
/// on the path, plus the additional lag just before a packet of the leaf. That is a packet, and a part of one for each
/// level.
fn worst_case_fairness(tree: &Hierarchy) -> Vec<Option<Ratio>> {
    let largest = u128::from(tree.link().max_packet);
    // The leaf's lag through the classes above it, and its share of the link, both rounded up.
    let index = |leaf: ClassId| {
        let (mut behind, mut share, mut at) = (0, ONE, leaf);
        while let Some(parent) = tree.parent(at) {
            behind += largest * share;
            share = (share * u128::from(tree.weight(at))).div_ceil(u128::from(tree.children_weight(parent)));
            at = parent;
        }
        // A packet of the leaf may be about to start; a share is rounded up by at most 64 parts.
        Ratio { numerator: behind + largest * (ONE - share + MAX_DEPTH as u128), denominator: ONE }
    };
    core::iter::once(None).chain(tree.classes().map(|class| tree.is_leaf(class).then(|| index(class)))).collect()
}

/// Shares are counted in this fraction of the whole.
const ONE: u128 = 1 << 32;
