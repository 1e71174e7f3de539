//! The claims of \[drrpp\]: delays of a latency-critical flow under DRR+ and DRR++, simulated as the thesis measured them.

use super::{Claim, Paper};

mod flows;
mod load;
mod mean_delay;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    key: "drrpp",
    authors: "C. Zhang",
    title: "A Measurement Study on Scheduling Latency-Critical Traffic",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[
    Claim {
        id: "drrpp.fig51",
        place: "Section 5.1.1, Figure 5.1",
        about: "Under DRR++ the mean delay of a latency-critical flow grows to an asymptote as the best-effort load grows, by about a \
                best-effort quantum on the wire; theirs rises sharply near saturation.",
        says: "15.5 ms alone, 106 ms at 20 packets/s",
        tests: &[
            "crates/cli/tests/cli/counters.rs::figure_5_1_the_delay_grows_by_about_half_a_quantum_and_with_transmit_queues_by_no_more_than_1_1",
        ],
        timed: false,
        run: load::fig51,
    },
    Claim {
        id: "drrpp.fig52",
        place: "Section 5.1.1, Figure 5.2",
        about: "Under DRR+ the latency-critical flow's delay rises as the best-effort flows' does, once it has broken its contract.",
        says: "as the best-effort flows",
        tests: &[
            "crates/core/src/schedulers/round_robin/drr_plus/tests.rs::a_class_that_breaks_its_contract_takes_its_packets_along_and_goes_last",
        ],
        timed: false,
        run: load::fig52,
    },
    Claim {
        id: "drrpp.table52",
        place: "Table 5.2",
        about: "The delay's 95 % confidence interval over five seeds is small and flat under DRR++, and grows by orders of magnitude under DRR+.",
        says: "DRR+ 0.67 ms to 1744 ms, DRR++ 0.77 ms to 4.4 ms",
        tests: &[],
        timed: false,
        run: load::table52,
    },
    Claim {
        id: "drrpp.fair",
        place: "Section 5.1.1, Figures 5.1 and 5.2",
        about: "The three best-effort flows see the same delay under both schedulers, at all loads.",
        says: "very similar delays",
        tests: &[
            "crates/core/src/schedulers/round_robin/drr_plus_plus/tests.rs::latency_critical_classes_send_a_quantum_each_between_best_effort_visits_and_pairs_of_those_stay_fair",
        ],
        timed: false,
        run: load::fair,
    },
];
