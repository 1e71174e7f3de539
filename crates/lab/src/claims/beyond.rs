//! Results beyond the papers: schedulers on the workloads of other papers. These claims are our own.

use super::{Claim, Paper};

mod hvt;
mod matrix;
mod others;
mod trees;

/// An entry in the form of a paper, which is not one.
pub(super) const PAPER: Paper = Paper {
    key: "beyond",
    name: "Beyond the papers",
    authors: "fairlink",
    title: "Beyond the papers: every scheduler on every paper's workload",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[
    Claim {
        id: "beyond.matrix",
        place: "every paper's workload",
        about: "Every scheduler on every paper's workload: delay, loss and fairness, with the best of each.",
        says: "what a reader learns from it",
        sentence: "",
        tests: &[],
        timed: false,
        run: matrix::matrix,
    },
    Claim {
        id: "beyond.hvt",
        place: "a long round",
        about: "A large class beside a hundred small ones: virtual times at each class keep the shares of HLS and wait for no round.",
        says: "250 us and not 24 ms",
        sentence: "",
        tests: &[],
        timed: false,
        run: hvt::hvt,
    },
    Claim {
        id: "beyond.figure10",
        place: "[hfsc] Figure 10",
        about: "A latency class does what service curves do: HLS and DRR++ on Figure 10 of H-FSC.",
        says: "within the curves and a packet",
        sentence: "",
        tests: &[],
        timed: false,
        run: others::figure_10,
    },
    Claim {
        id: "beyond.mpeg",
        place: "[drrpp] Section 5.3",
        about: "FQ-LTO on the MPEG tests of DRR++: a slack rule does not favour who has slack.",
        says: "video as under WFQ, others better off",
        sentence: "",
        tests: &[],
        timed: false,
        run: others::mpeg,
    },
    Claim {
        id: "beyond.exp2",
        place: "[hls] Experiment 2",
        about: "H-FSC, H-WF2Q+ and HDRR on Experiment 2 of HLS are HMM fair; HTB and CBQ are not.",
        says: "within 2 %",
        sentence: "",
        tests: &[],
        timed: false,
        run: others::experiment_2,
    },
    Claim {
        id: "beyond.pool",
        place: "[htb] slots",
        about: "An exact pool beside HTB's slots: the ratio rule leaves a part of the pool idle.",
        says: "less than an exact pool",
        sentence: "",
        tests: &[],
        timed: false,
        run: others::pool,
    },
    Claim {
        id: "beyond.surplus",
        place: "[sds] and [hls]",
        about: "Least time to overflow as the rule that spends the surplus of a tree: fewer losses in all; the tree keeps the surplus of a branch in it.",
        says: "fewer losses in all",
        sentence: "",
        tests: &[],
        timed: false,
        run: others::surplus,
    },
];
