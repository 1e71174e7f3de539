//! The claims of \[hls\]: bounds, the algorithm's invariants, the experiments, and what the fluid ideal promises.

use super::{Claim, Paper};

mod bounds;

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
];
