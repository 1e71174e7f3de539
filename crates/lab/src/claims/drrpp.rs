//! The claims of \[drrpp\]: delays of a latency-critical flow under DRR+ and DRR++, simulated as the thesis measured them.

use super::{Claim, Paper};

mod delay_bound;
mod flows;
mod load;
mod mean_delay;
mod order;
mod quantum;
mod traffic;
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
        id: "drrpp.table35",
        place: "Section 3.1.2, Table 3.5",
        about: "DRR++ of MW00 credits n Q_LC once for n best-effort flows, the modified form Q_LC before each of them.",
        says: "the sequences of Table 3.5",
        sentence: "the DRR++ algorithm in [MW00] increases the quantum value, n · Q_LC, of the LC (Latency Critical) flow before serving it and all the other BE flows. In the modified DRR++, the quantum value, Q_LC, is increased before serving it and one of the other BE flows.",
        tests: &[
            "crates/core/src/schedulers/round_robin/drr_plus_plus/tests.rs::table_3_5_credits_q_lc_before_each_best_effort_class",
            "crates/core/src/schedulers/round_robin/drr_plus_plus_mw00/tests.rs::table_3_5_credits_n_q_lc_once_per_n_best_effort_classes",
        ],
        timed: false,
        run: order::table35,
    },
    Claim {
        id: "drrpp.table51",
        place: "Section 5.1, Table 5.1",
        about: "Rates and burstiness of the exponential traffic.",
        says: "1850 to 7400 B/s; sigma 3576 to 12141 B",
        sentence: "Table 5.1 gives the arrival rate and the burstiness of the exponential traffic.",
        tests: &[
            "crates/cli/tests/cli/traffic.rs::exponential_traffic_has_the_rates_of_table_5_1_and_sigma_of_its_order",
        ],
        timed: false,
        run: traffic::table51,
    },
    Claim {
        id: "drrpp.fig51",
        place: "Section 5.1.1, Figure 5.1",
        about: "Under DRR++ the mean delay of a latency-critical flow grows to an asymptote as the best-effort load grows, by about a \
                best-effort quantum on the wire; theirs rises sharply near saturation.",
        says: "15.5 ms alone, 106 ms at 20 packets/s",
        sentence: "Under DRR++, D_LC increases up to an asymptote, while D_BE increases dramatically when the link nears saturation at a utilization of 98.4% for λ_BE=20 packets/sec",
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
        sentence: "When using DRR+, D_LC increases quickly in the same manner as D_BE",
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
        sentence: "The result is that the 95% CI of D_LC is much larger under DRR+ than when using DRR++ (Table 5.2).",
        tests: &[],
        timed: false,
        run: load::table52,
    },
    Claim {
        id: "drrpp.fair",
        place: "Section 5.1.1, Figures 5.1 and 5.2",
        about: "The three best-effort flows see the same delay under both schedulers, at all loads.",
        says: "very similar delays",
        sentence: "Figures 5.1 and 5.2 show that the three BE flows have very similar delay values under different utilizations, which demonstrates that both DRR+ and DRR++ are fair to the BE flows.",
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
        sentence: "Figure 5.3 shows that DRR++ has a much lower D_LC than DRR+, and it changes much more smoothly.",
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
        sentence: "The total number of rounds is virtually constant in DRR++, which means that a change in Q_LC does not affect the TotalRounds under low utilization.",
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
        sentence: "Note that these two figures use very different scales for the LC delay: the values in the scale of Figure 5.7 for DRR+ are 100 times those in Figure 5.6 for DRR++.",
        tests: &["crates/cli/tests/cli/counters.rs::figure_5_8_shows_the_same_on_a_busy_link"],
        timed: false,
        run: quantum::fig56,
    },
    Claim {
        id: "drrpp.fig58",
        place: "Section 5.1.3, Figures 5.8 and 5.9",
        about: "At high utilisation LCBacklog is a little smaller under DRR++ with small quanta, and falls to about 100 with 1200 B in one scheme and 2000 B in the other.",
        says: "100 at 1200 B and at 2000 B",
        sentence: "Although when the Q_LC is small the backlog number in DRR++ is a little smaller than that in DRR+, it decreases more quickly in DRR+: it drops to about 100 when Q_LC = 1200 in DRR++ while it reaches 100 when Q_LC = 2000 in DRR+.",
        tests: &["crates/cli/tests/cli/counters.rs::figure_5_8_shows_the_same_on_a_busy_link"],
        timed: false,
        run: quantum::fig58,
    },
    Claim {
        id: "drrpp.fig510",
        place: "Section 5.2.1, Figures 5.10 and 5.11",
        about: "Under DRR++ the delay of MPEG video reaches an asymptote while best-effort delays climb past 13 packets/s; under DRR+ the video is slower than the best-effort flows, over a hundred times as slow as under DRR++.",
        says: "asymptote; over 100 times",
        sentence: "Figure 5.10 shows that under DRR++ the delay of the MPEG LC flow approaches an asymptote, as it did with exponential traffic.",
        tests: &[],
        timed: false,
        run: video::fig510,
    },
    Claim {
        id: "drrpp.fig512",
        place: "Section 5.2.2, Figure 5.12",
        about: "At the lower utilisation the delay of MPEG video hardly depends on its quantum, and is lower under DRR++ than under DRR+.",
        says: "DRR++ below, both flat",
        sentence: "Neither values changed much when the Q_LC changed because at low utilization not many BE packets arrive during one round.",
        tests: &[],
        timed: false,
        run: video::fig512,
    },
    Claim {
        id: "drrpp.fig513",
        place: "Section 5.2.3, Figure 5.13",
        about: "At the higher utilisation the delay of MPEG video is low and flat from a quantum of 9000 B on under DRR++, and needs about 21000 B under DRR+.",
        says: "9000 B and 21000 B",
        sentence: "In DRR++, the MPEG LC flow reaches very low delay when Q_LC equals 9000 bytes, which is 60% of the total quantum.",
        tests: &[],
        timed: false,
        run: video::fig513,
    },
    Claim {
        id: "drrpp.fig514",
        place: "Section 5.2.3, Figure 5.14",
        about: "The best-effort flows beside it: under DRR++ their delay is small with 3000 B and rises steeply towards 9000 B; under DRR+ it falls from 21000 B on.",
        says: "3000 B, 9000 B, 21000 B",
        sentence: "In DRR++, the BE flows exhibit small delays when Q_LC=3000 bytes. Their delay increases dramatically approaching Q_LC=9000 bytes.",
        tests: &[],
        timed: false,
        run: video::fig514,
    },
    Claim {
        id: "drrpp.hrr",
        place: "Section 2.4.2",
        about: "Under hierarchical round robin the spacing of a class's packets and their delay do not depend on the load of others.",
        says: "independent of load",
        sentence: "Simulation results show that both the inter-packet spacing and end-to-end delay are independent of load, which means that HRR provides good delay and jitter bounds.",
        tests: &[
            "crates/core/src/schedulers/round_robin/hrr/tests.rs::delay_is_within_two_frames_and_a_slot_whatever_the_others_do",
            "crates/core/src/schedulers/round_robin/hrr/tests.rs::a_class_sends_its_slots_in_each_frame_and_never_more",
        ],
        timed: false,
        run: order::hrr,
    },
    Claim {
        id: "drrpp.theorem1",
        place: "Section 3.3, Theorem 1",
        about: "The mean delay 0.5 Q / (BNBW - Q lambda / nu) is a good estimate where both classes stay backlogged, and an over-estimate at low load.",
        says: "over-estimate at low load",
        sentence: "This analysis approximates the high utilization condition.",
        tests: &[],
        timed: false,
        run: mean_delay::theorem1,
    },
    Claim {
        id: "drrpp.theorem2",
        place: "Section 3.4, Theorem 2",
        about: "A (sigma, rho) flow's delay is at most sigma/rho + (Q_LC + 3 Q_BE)/BNBW under DRR++, whatever the number of best-effort flows; under DRR+ it grows with their number.",
        says: "never exceeded",
        sentence: "we can bound delay of any packet belonging to the LC flow … as [D_LC <= σ_LC/ρ_LC + (Q_LC + 3 Q_BE)/BNBW].",
        tests: &[
            "crates/core/src/schedulers/round_robin/drr_plus_plus/tests.rs::delay_never_exceeds_theorem_2_where_best_effort_classes_carry_nothing_over",
            "crates/core/src/schedulers/round_robin/drr_plus_plus/tests.rs::several_best_effort_classes_that_carry_deficits_exceed_theorem_2",
            "crates/core/src/schedulers/round_robin/drr_plus_plus/tests.rs::service_of_a_latency_critical_class_lags_its_rate_by_theta_at_most",
        ],
        timed: false,
        run: delay_bound::theorem2,
    },
    Claim {
        id: "drrpp.mpeg.sigma",
        place: "Section 5.2",
        about: "The burstiness of the MPEG source, frame by frame and group by group.",
        says: "45560 B and 31436 B",
        sentence: "the burstiness, σ, of the MPEG traffic is 45560 bytes if we calculate the frame-burstiness by checking the burstiness frame by frame, and 31436 bytes if we calculate the group-burstiness by checking the burstiness group by group.",
        tests: &[
            "crates/cli/tests/cli/traffic.rs::mpeg_traffic_has_the_burstiness_of_the_thesis_frame_by_frame_and_group_by_group",
        ],
        timed: false,
        run: traffic::mpeg_sigma,
    },
    Claim {
        id: "drrpp.vc",
        place: "Section 2.3.3, Figure 2.1",
        about: "Virtual Clock makes packet 901 of a connection that used an idle link wait for some 450 packets of the other; SCFQ and WFQ alternate.",
        says: "450 packets",
        sentence: "So the 901st packet of connection 1 will be served after 450 packets of connection 2 are serviced.",
        tests: &[
            "crates/core/src/schedulers/fair_queueing/virtual_clock/tests.rs::figure_2_1_packet_901_waits_for_450_packets_of_the_other_connection",
            "crates/core/src/schedulers/fair_queueing/wfq/tests.rs::connections_alternate_in_the_example_of_figure_2_1",
        ],
        timed: false,
        run: order::vc,
    },
    Claim {
        id: "drrpp.clock",
        place: "Section 4.5, Figures 4.4 to 4.6",
        about: "Offset, skew, drift and jumps of two clocks that are not synchronised are found from one-way delays.",
        says: "all four occur",
        sentence: "But Figure 4.6 shows increasing clock offset, as well as offset jumps at some random times.",
        tests: &[
            "crates/traffic/src/clocks/tests.rs::offset_and_skew_are_recovered_within_the_stated_uncertainty",
            "crates/traffic/src/clocks/tests.rs::jumps_are_recovered_in_size_and_time_beside_skew_and_drift",
        ],
        timed: false,
        run: traffic::clock,
    },
];
