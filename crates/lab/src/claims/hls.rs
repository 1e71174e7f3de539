//! The claims of \[hls\]: bounds, the algorithm's invariants, the experiments, and what the fluid ideal promises.

use super::{Claim, Paper};

mod bounds;
mod cost;
mod experiments;
mod rounds;
mod strategy;
mod strict;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    key: "hls",
    authors: "N. Luangsomboon, J. Liebeherr",
    title: "A Round-Robin Packet Scheduler for Hierarchical Max-Min Fairness",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[
    Claim {
        id: "hls.alpha",
        place: "Theorem 3, Figure 1",
        about: "The fairness bound of HLS on the tree of Figure 1, with rates in Mbit/s as weights.",
        says: "103.5 B",
        sentence: "Computing the bounds we obtain α(HLS) = 103.5 bytes … Here, HLS clearly has a better fairness metric.",
        tests: &["crates/theory/tests/claims/bounds.rs::figure_1_has_an_alpha_of_103_5_bytes_under_hls"],
        timed: false,
        run: bounds::alpha,
    },
    Claim {
        id: "hls.alpha.hdrr",
        place: "Theorem 4, Figure 1",
        about: "The fairness bound of HDRR on the same tree, with a quantum of 1500 B.",
        says: "1522.5 B",
        sentence: "Computing the bounds we obtain … α(HDRR) = 1522.5 bytes.",
        tests: &["crates/theory/tests/claims/bounds.rs::figure_1_has_an_alpha_of_1522_5_bytes_under_hdrr"],
        timed: false,
        run: bounds::alpha_hdrr,
    },
    Claim {
        id: "hls.alpha.flat",
        place: "Corollary 1",
        about: "On a flat tree the general bound of Theorem 3 is that of Corollary 1.",
        says: "the same, exactly",
        sentence: "For a flat hierarchy, i.e., a hierarchy with no internal class, the value of α_ij(HLS) becomes (L_i - 1)/w_i + (L_j - 1)/w_j + 2 + 2 max (L_k - 1)/w_k.",
        tests: &["crates/theory/tests/claims/bounds.rs::corollary_1_is_theorem_3_on_flat_trees"],
        timed: false,
        run: bounds::alpha_flat,
    },
    Claim {
        id: "hls.gap",
        place: "Theorem 5, Figure 1",
        about: "The longest time between two visits of a backlogged leaf under HLS, at 1 Gbit/s.",
        says: "0.146 ms",
        sentence: "For the class hierarchy in Fig. 1, with a maximum packet size L_max = 1500 bytes for all classes, and a link with rate C = 1 Gbps, we obtain γ(HLS) = 0.146 ms …",
        tests: &[
            "crates/theory/tests/claims/bounds.rs::figure_1_has_gaps_of_0_1456_ms_under_hls_and_3600_ms_under_hdrr",
        ],
        timed: false,
        run: bounds::gap,
    },
    Claim {
        id: "hls.gap.hdrr",
        place: "Theorem 6, Figure 1",
        about: "The same under HDRR, with a quantum of 1500 B.",
        says: "3600 ms",
        sentence: "… γ(HDRR) = 3600 ms.",
        tests: &[
            "crates/theory/tests/claims/bounds.rs::figure_1_has_gaps_of_0_1456_ms_under_hls_and_3600_ms_under_hdrr",
        ],
        timed: false,
        run: bounds::gap_hdrr,
    },
    Claim {
        id: "hls.table2",
        place: "Table II",
        about: "Transmission gaps of HLS and HDRR on binary trees of 4 to 11 levels.",
        says: "16 entries",
        sentence: "Table II shows the transmission gaps of HLS and HDRR for the range 4 ≤ l ≤ 11.",
        tests: &[
            "crates/theory/tests/claims/bounds.rs::all_entries_of_table_2_agree_within_a_unit_of_their_last_digit",
        ],
        timed: false,
        run: bounds::table2,
    },
    Claim {
        id: "hls.measured",
        place: "Definitions 1 and 2, Theorems 3 and 5",
        about: "Measured fairness and measured gaps never exceed the bounds, whatever tree, weights, packets and arrivals.",
        says: "never exceeded",
        sentence: "HLS is HMM(α(HLS))-fair with α(HLS) = max α_ij(HLS).",
        tests: &[
            "crates/core/src/schedulers/link_sharing/hls/tests.rs::measured_fairness_never_exceeds_theorem_3",
            "crates/core/src/schedulers/link_sharing/hls/tests.rs::bytes_between_two_visits_never_exceed_theorem_5",
        ],
        timed: false,
        run: rounds::measured,
    },
    Claim {
        id: "hls.invariant",
        place: "Equation (12)",
        about: "Balances and residuals of all classes add up to the size of a round after every event.",
        says: "always",
        sentence: "With the updates of the balance counters in (6)–(11), the sum of balances and residuals of all classes satisfies the invariance ∑ B_i + ∑ R_i ≡ Q*.",
        tests: &[
            "crates/core/src/schedulers/link_sharing/hls/tests.rs::packets_leave_in_the_order_of_the_replenish_then_transmit_form",
        ],
        timed: false,
        run: rounds::invariant,
    },
    Claim {
        id: "hls.theorem2",
        place: "Theorem 2",
        about: "With a round of the least size every main round sends a packet.",
        says: "always",
        sentence: "Setting Q* = … ensures that at least one packet can be transmitted in each main round.",
        tests: &[
            "crates/core/src/schedulers/link_sharing/hls/tests.rs::packets_leave_in_the_order_of_the_replenish_then_transmit_form",
        ],
        timed: false,
        run: rounds::theorem2,
    },
    Claim {
        id: "hls.lemma1",
        place: "Lemma 1, Section V",
        about: "Leaves that replenish themselves send packets in the order of rounds that first replenish all and then transmit.",
        says: "the same order",
        sentence: "The modified operation of HLS with a replenishment phase and transmission phase as described above does not change the order of packet transmissions in HLS.",
        tests: &[
            "crates/core/src/schedulers/link_sharing/hls/tests.rs::packets_leave_in_the_order_of_the_replenish_then_transmit_form",
        ],
        timed: false,
        run: rounds::lemma1,
    },
    Claim {
        id: "hls.exp1",
        place: "Section VIII, Experiment 1",
        about: "Leaves fall silent one after another: HLS and HTB give the HMM fair rates in every phase; CBQ keeps the guarantees of leaves and lets A or B fall below its own.",
        says: "HMM fair; CBQ not",
        sentence: "The measured rates for HLS in Fig. 7(b) show that HLS satisfies HMM fairness for all classes at all times.",
        tests: &[
            "crates/lab/src/experiments/hls.rs::hls_is_within_two_per_cent_of_the_ideal_in_every_phase",
            "crates/core/src/schedulers/link_sharing/cbq/tests.rs::experiment_1_keeps_leaf_guarantees_and_lets_a_or_b_fall_below_its_own",
        ],
        timed: false,
        run: experiments::exp1,
    },
    Claim {
        id: "hls.exp2",
        place: "Section VIII, Experiment 2",
        about: "A1, B2 and C send and C pauses: HLS shares 3:3:4 with C and 1:1 without, whatever the guarantees of leaves; HTB and CBQ split by those.",
        says: "3:3:4 and 1:1; others lopsided",
        sentence: "In all three scenarios, the throughput of active classes corresponds to the HMM fair allocation.",
        tests: &[
            "crates/lab/src/experiments/hls.rs::hls_is_within_two_per_cent_of_the_ideal_in_every_phase",
            "crates/core/src/schedulers/link_sharing/htb/tests.rs::without_c_what_the_root_lends_is_split_by_the_quanta_of_leaves",
            "crates/core/src/schedulers/link_sharing/cbq/tests.rs::without_c_the_split_of_a1_and_b2_follows_the_guarantees_of_leaves_as_in_the_kernel",
        ],
        timed: false,
        run: experiments::exp2,
    },
    Claim {
        id: "hls.exp3",
        place: "Section VIII, Experiment 3",
        about: "A, B1 and C1 send on and off: HLS gives 4:5:5 in every on phase, HTB keeps C1 at its parent's guarantee, CBQ differs between on phases.",
        says: "4:5:5",
        sentence: "The allocation of HLS in Fig. 11(c) is HMM fair in each 'on' phase. Classes A, B1, and C1 share the link capacity in the ratio 4:5:5 …",
        tests: &[],
        timed: false,
        run: experiments::exp3,
    },
    Claim {
        id: "hls.exp4",
        place: "Section VIII, Experiment 4, Figure 12",
        about: "HLS costs no more than HTB and CBQ in a binary tree and in a flat one; what grows with the number of leaves is the \
                classifier.",
        says: "no dearer",
        sentence: "The experiment leads us to conclude that the HLS Qdisc does not incur a performance penalty, compared to HTB and CBQ.",
        tests: &["crates/workload/src/workload_tests.rs::every_scheduler_passes_every_workload_and_loses_nothing"],
        timed: true,
        run: cost::exp4,
    },
    Claim {
        id: "hls.strict",
        place: "Section IX",
        about: "Virtual Clock and service curves may serve a class below its guarantee after they served it above; HLS gives every \
                class its guarantee in every interval in which it is backlogged, up to a constant.",
        says: "a constant; others without bound",
        sentence: "Differently, fair scheduling algorithms realize 'strict service curves' [38], which ensure rate guarantees for every time interval where a class is backlogged.",
        tests: &[
            "crates/theory/tests/promises/main.rs::no_scheduler_breaks_a_promise_whatever_the_tree_and_the_traffic",
        ],
        timed: false,
        run: strict::strict,
    },
    Claim {
        id: "hls.strategyproof",
        place: "Sections I, III and X",
        about: "No class raises its own allocation by misreporting demand or by rearranging guarantees among its own descendants; under \
                HTB one does.",
        says: "no gain; HTB: a counterexample",
        sentence: "This allocation is strategy-proof … in the sense that classes cannot improve their allocation through wrongful representation of their demand or the demand of their sub-classes.",
        tests: &[
            "crates/theory/tests/claims/hmm.rs::no_class_gains_by_misreporting_the_demand_of_its_leaves",
            "crates/theory/tests/claims/hmm.rs::no_class_gains_by_rearranging_guarantees_among_its_descendants",
        ],
        timed: false,
        run: strategy::strategyproof,
    },
];
