//! The claims of \[sds\]: what is gained when excess bandwidth goes where it helps most.

use super::{Claim, Paper};

mod bounds;
mod delays;
mod losses;
mod mixture;
mod redistribution;
mod sources;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    key: "sds",
    authors: "N. G. Duffield, T. V. Lakshman, D. Stiliadis",
    title: "On Adaptive Bandwidth Sharing with Rate Guarantees",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[
    Claim {
        id: "sds.table1",
        place: "Section IV, Table I",
        about: "32 exponential on-off sources lose less under FQ-LDF than under PGPS with every buffer, about half with small ones and nearly nothing \
                with the largest.",
        says: "about half; < 1e-6 at the largest",
        sentence: "At this high load, PGPS typically has twice the losses of FQ-LDF and redistribution of excess bandwidth to the longest delay queue reduces the aggregate loss rate.",
        tests: &[
            "crates/core/src/schedulers/state_dependent/fq_sds/tests.rs::ldf_gives_the_excess_to_the_longest_delay_and_not_to_the_longest_queue",
        ],
        timed: false,
        run: losses::table1,
    },
    Claim {
        id: "sds.videoloss",
        place: "Section IV, below Table I",
        about: "Video sources lose less under FQ-LDF than under PGPS as well.",
        says: "lower loss",
        sentence: "We find similar results of lower loss rates for FQ-LDF with video sources as well.",
        tests: &[],
        timed: false,
        run: losses::videoloss,
    },
    Claim {
        id: "sds.pareto",
        place: "Section IV, below Table I",
        about: "With Pareto sources the losses under FQ-LDF and PGPS are mostly alike: the one very long queue gets what there is under both.",
        says: "mostly similar",
        sentence: "With Pareto sources, the loss rates are mostly similar for FQ-LDF and PGPS.",
        tests: &[],
        timed: false,
        run: losses::pareto,
    },
    Claim {
        id: "sds.fig2",
        place: "Section IV, Figure 2",
        about: "32 voice sources need a significantly smaller playout buffer under FQ-LDF than under PGPS.",
        says: "significantly smaller",
        sentence: "The plots show that FQ-LDF needs significantly smaller playout buffers than PGPS.",
        tests: &[],
        timed: false,
        run: delays::fig2,
    },
    Claim {
        id: "sds.fig3",
        place: "Section IV, Figure 3",
        about: "28 video sources at a utilisation of 0.88: under FQ-LDF the tails of the delays of all connections are shorter than under PGPS.",
        says: "99th percentiles below PGPS's",
        sentence: "The curtailment of the tail of the delay distribution due to the use of FQ-LDF is evident. Thus, for similar loads FQ-LDF has a lower playout buffer requirement than PGPS.",
        tests: &[],
        timed: false,
        run: delays::fig3,
    },
    Claim {
        id: "sds.fig4",
        place: "Section IV, Figure 4",
        about: "Of voice, video, CBR and data together, FQ-LTO makes the delays of the first three compact, and data is worse than under PGPS.",
        says: "compact; data worse",
        sentence: "Consequently, the lower delay classes have very compact delay distributions whereas the very high delay data class … has better tail behavior with PGPS.",
        tests: &["crates/core/src/schedulers/state_dependent/fq_sds/tests.rs::lto_gives_the_excess_to_the_least_slack"],
        timed: false,
        run: mixture::fig4,
    },
    Claim {
        id: "sds.fig5",
        place: "Section IV, Figure 5",
        about: "With unequal guarantees within a kind and smaller targets, the differences are larger, above all for voice.",
        says: "as Figure 4, larger",
        sentence: "We get very low average delays for real-time sources, in comparison to the delays experienced under PGPS, even when their bandwidth allocations are very low.",
        tests: &[],
        timed: false,
        run: mixture::fig5,
    },
    Claim {
        id: "sds.theorem1",
        place: "Theorem 1",
        about: "A packet's delay is at most Q_i / g_i + L_max / r + L_i (1 / g_i - 1 / r), under all policies.",
        says: "never exceeded",
        sentence: "The queueing delay of a session- i packet arriving at time τ in a packet FQ-SDS system is upper-bounded by [Q_i(τ)/g_i + L_max/r + L_i (1/g_i - 1/r)]",
        tests: &["crates/core/src/schedulers/state_dependent/fq_sds/tests.rs::delay_never_exceeds_theorem_1"],
        timed: false,
        run: bounds::theorem1,
    },
    Claim {
        id: "sds.cor1",
        place: "Corollary 1",
        about: "Within a session busy period, W_i is at least g_i (t - tau - L_i / g_i - L_max / r), under all policies.",
        says: "always",
        sentence: "The worst case offered service to the packets of the j -th busy period of connection i that started at time τ is [W_i(τ, t) >= g_i (t - τ - L_i/g_i - L_max/r)].",
        tests: &[
            "crates/core/src/schedulers/state_dependent/fq_sds/tests.rs::service_in_a_session_busy_period_never_lags_corollary_1",
        ],
        timed: false,
        run: bounds::cor1,
    },
    Claim {
        id: "sds.wfi",
        place: "Section III-C, equation (7), and the appendix",
        about: "All policies have the worst-case fairness of WF2Q: a backlogged session gets g_i (t2 - t1) less a constant.",
        says: "that of WF2Q",
        sentence: "Specifically, even for the algorithms that distribute the free bandwidth in a state dependent manner, we can show that they offer the same worst-case fairness as Worst-Case Weighted Fair Queueing",
        tests: &[],
        timed: false,
        run: bounds::wfi,
    },
    Claim {
        id: "sds.pgps",
        place: "Section IV",
        about: "PGPS, with which all is compared, is simulated exactly: packets go in the order of their GPS finish and leave at most L_max / r after it.",
        says: "exactly",
        sentence: "We first compared the performance of FQ-LDF with PGPS (which is simulated exactly) using only one type of source.",
        tests: &[
            "crates/core/src/schedulers/fair_queueing/wfq/tests.rs::every_packet_leaves_within_a_largest_packet_of_gps",
        ],
        timed: false,
        run: bounds::pgps,
    },
    Claim {
        id: "sds.greedy",
        place: "Section II-B",
        about: "Serving the second candidate in place of the first takes away what a source gains that overflows its buffer on purpose.",
        says: "no gain",
        sentence: "In this case, users that consistently overflow the buffers cannot depend on receiving any excess bandwidth; it will not be in their best interests to be excessively bursty.",
        tests: &[
            "crates/core/src/schedulers/state_dependent/fq_sds/tests.rs::a_source_that_overflows_its_buffer_on_purpose_gains_nothing_from_the_second_candidate",
        ],
        timed: false,
        run: redistribution::greedy,
    },
    Claim {
        id: "sds.edf",
        place: "Section V",
        about: "The same redistribution works on top of service curves: their deadlines are kept, and losses are lower.",
        says: "works",
        sentence: "Similar extensions of our scheme can be easily applied to other types of schedulers based either on Earliest Deadline First [8], or on Service Curves [2].",
        tests: &[
            "crates/core/src/schedulers/state_dependent/fq_sds/over_sced/tests.rs::curves_that_fit_the_link_are_kept_within_one_packet",
        ],
        timed: false,
        run: redistribution::edf,
    },
];
