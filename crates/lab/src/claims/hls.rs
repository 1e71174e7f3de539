//! The claims of \[hls\]: bounds, the algorithm's invariants, the experiments, and what the fluid ideal promises.

use super::{Claim, Paper};

mod bounds;
mod rounds;

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
        tests: &["crates/theory/tests/claims/bounds.rs::figure_1_has_an_alpha_of_103_5_bytes_under_hls"],
        timed: false,
        run: bounds::alpha,
    },
    Claim {
        id: "hls.alpha.hdrr",
        place: "Theorem 4, Figure 1",
        about: "The fairness bound of HDRR on the same tree, with a quantum of 1500 B.",
        says: "1522.5 B",
        tests: &["crates/theory/tests/claims/bounds.rs::figure_1_has_an_alpha_of_1522_5_bytes_under_hdrr"],
        timed: false,
        run: bounds::alpha_hdrr,
    },
    Claim {
        id: "hls.alpha.flat",
        place: "Corollary 1",
        about: "On a flat tree the general bound of Theorem 3 is that of Corollary 1.",
        says: "the same, exactly",
        tests: &["crates/theory/tests/claims/bounds.rs::corollary_1_is_theorem_3_on_flat_trees"],
        timed: false,
        run: bounds::alpha_flat,
    },
    Claim {
        id: "hls.gap",
        place: "Theorem 5, Figure 1",
        about: "The longest time between two visits of a backlogged leaf under HLS, at 1 Gbit/s.",
        says: "0.146 ms",
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
        tests: &[
            "crates/core/src/schedulers/link_sharing/hls/tests.rs::packets_leave_in_the_order_of_the_replenish_then_transmit_form",
        ],
        timed: false,
        run: rounds::lemma1,
    },
];
