//! The claims of \[drrpp\]: delays of a latency-critical flow under DRR+ and DRR++, simulated as the thesis measured them.

use super::{Claim, Paper};

mod flows;
mod load;
mod mean_delay;
mod quantum;
mod video;
mod waits;

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
    Claim {
        id: "drrpp.fig53",
        place: "Section 5.1.2, Figure 5.3",
        about: "At low utilisation the delay is lower under DRR++ than under DRR+ with every quantum, and depends far less on it.",
        says: "DRR++ below and flatter",
        tests: &[
            "crates/cli/tests/cli/counters.rs::figure_5_4_rounds_are_flat_under_drr_plus_plus_and_fall_with_the_quantum_under_drr_plus",
        ],
        timed: false,
        run: quantum::fig53,
    },
    Claim {
        id: "drrpp.fig54",
        place: "Section 5.1.2, Figures 5.4 and 5.5",
        about: "At low utilisation TotalRounds is flat under DRR++ and falls with the quantum under DRR+; LCService is above it under DRR++ only; LCBacklog under DRR++ is about half of that under DRR+.",
        says: "orderings; LCBacklog 1 : 2",
        tests: &[
            "crates/cli/tests/cli/counters.rs::figure_5_4_rounds_are_flat_under_drr_plus_plus_and_fall_with_the_quantum_under_drr_plus",
        ],
        timed: false,
        run: quantum::fig54,
    },
    Claim {
        id: "drrpp.fig56",
        place: "Section 5.1.3, Figures 5.6 and 5.7",
        about: "At high utilisation the delay under DRR+ is about a hundred times that under DRR++ with small quanta.",
        says: "about 100 times",
        tests: &["crates/cli/tests/cli/counters.rs::figure_5_8_shows_the_same_on_a_busy_link"],
        timed: false,
        run: quantum::fig56,
    },
    Claim {
        id: "drrpp.fig58",
        place: "Section 5.1.3, Figures 5.8 and 5.9",
        about: "At high utilisation LCBacklog is a little smaller under DRR++ with small quanta, and falls to about 100 with 1200 B in one scheme and 2000 B in the other.",
        says: "100 at 1200 B and at 2000 B",
        tests: &["crates/cli/tests/cli/counters.rs::figure_5_8_shows_the_same_on_a_busy_link"],
        timed: false,
        run: quantum::fig58,
    },
    Claim {
        id: "drrpp.fig510",
        place: "Section 5.2.1, Figures 5.10 and 5.11",
        about: "Under DRR++ the delay of MPEG video reaches an asymptote while best-effort delays climb past 13 packets/s; under DRR+ the video is slower than the best-effort flows, over a hundred times as slow as under DRR++.",
        says: "asymptote; over 100 times",
        tests: &[],
        timed: false,
        run: video::fig510,
    },
    Claim {
        id: "drrpp.fig512",
        place: "Section 5.2.2, Figure 5.12",
        about: "At the lower utilisation the delay of MPEG video hardly depends on its quantum, and is lower under DRR++ than under DRR+.",
        says: "DRR++ below, both flat",
        tests: &[],
        timed: false,
        run: video::fig512,
    },
    Claim {
        id: "drrpp.fig513",
        place: "Section 5.2.3, Figure 5.13",
        about: "At the higher utilisation the delay of MPEG video is low and flat from a quantum of 9000 B on under DRR++, and needs about 21000 B under DRR+.",
        says: "9000 B and 21000 B",
        tests: &[],
        timed: false,
        run: video::fig513,
    },
    Claim {
        id: "drrpp.fig514",
        place: "Section 5.2.3, Figure 5.14",
        about: "The best-effort flows beside it: under DRR++ their delay is small with 3000 B and rises steeply towards 9000 B; under DRR+ it falls from 21000 B on.",
        says: "3000 B, 9000 B, 21000 B",
        tests: &[],
        timed: false,
        run: video::fig514,
    },
];
