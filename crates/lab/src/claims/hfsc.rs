//! The claims of \[hfsc\]: delays under service curves, guarantees, admission, and cost.

use super::{Claim, Paper};

mod classifier;
mod cost;
mod delay;
mod depth;
mod eligible;
mod examples;
mod joins;
mod lines;
mod planning;
mod priority;
mod protection;
mod reference;
mod region;
mod requests;
mod sharing;
mod steep;
mod steps;
mod structures;
mod theorems;
mod utilisation;
mod watch;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    key: "hfsc",
    name: "H-FSC",
    authors: "I. Stoica, H. Zhang, T. S. E. Ng",
    title: "A Hierarchical Fair Service Curve Algorithm for Link-Sharing, Real-Time and Priority Services",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[
    Claim {
        id: "hfsc.fig1",
        place: "Section 1, Figure 1",
        about: "What CMU's data leaves, CMU's audio and video have, and not U. Pitt.",
        says: "25 Mbit/s",
        sentence: "In the case when there are only audio and video streams from CMU, the audio and video traffic should receive all the bandwidth that is allocated to CMU (25 Mbps) if the demand is high enough.",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::figure_12_an_idle_class_gives_its_share_to_its_siblings",
        ],
        timed: false,
        run: examples::fig1,
    },
    Claim {
        id: "hfsc.fig2",
        place: "Section 2.1, Figure 2",
        about: "A line couples the delay of a video to its rate; a curve of two pieces gives it 10 ms with the same rate.",
        says: "about 26 ms, and at most 10 ms and a packet",
        sentence: "This results in a delay of approximately 26 ms for a video packet. … As can be seen, the delay of any video packet is no more than 10 ms in this case.",
        tests: &[
            "crates/core/src/schedulers/service_curve/sced/tests.rs::figure_2_a_lines_couple_delay_and_rate",
            "crates/core/src/schedulers/service_curve/sced/tests.rs::figure_2_b_a_concave_curve_brings_the_delay_of_video_to_10_ms",
        ],
        timed: false,
        run: examples::fig2,
    },
    Claim {
        id: "hfsc.fig3",
        place: "Section 2.2, Figure 3, equations (5), (6)",
        about: "SCED starves a session that was served more before; fair virtual times alone break a curve; H-FSC does neither.",
        says: "session 1 starves until t1 under SCED alone; H-FSC keeps both curves",
        sentence: "Thus, session 1 does not receive any service during the time interval (t_0, t_1] … (b) a session using excess service will not be penalized later.",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::figure_3_sced_starves_session_1_and_h_fsc_does_not_and_keeps_both_curves",
        ],
        timed: false,
        run: examples::fig3,
    },
    Claim {
        id: "hfsc.average",
        place: "Sections 1, 2.1",
        about: "The mean delay is a goal of priority: audio of a small rate waits less than data of a large one.",
        says: "lower for audio than for data; lower with a concave curve than with others",
        sentence: "For example, one may want to provide a lower average delay for packets in CMU's audio traffic class than those in CMU's data traffic class.",
        tests: &[
            "crates/theory/src/latency/tests.rs::the_curves_of_figure_10_of_hfsc_have_the_delays_that_they_are_made_for",
        ],
        timed: false,
        run: priority::average,
    },
    Claim {
        id: "hfsc.own",
        place: "Sections 2.1, 2.2, Figures 2(b) and 3, equations (5), (6)",
        about: "Figures 2(b) and 3 with the text's own convex curves, which rise from the start, by an exact reference.",
        says: "session 1 gets nothing until t1 under SCED; S_2 is violated by virtual times alone",
        sentence: "Thus, session 1 does not receive any service during the time interval (t_0, t_1], where t_1 is the smallest time such that S_2^-1(w_2(t_1)) + t_0 >= S_1^-1(t_0).",
        tests: &["crates/theory/src/pieces/tests.rs::the_minimum_is_that_of_all_starts_point_by_point"],
        timed: false,
        run: steep::own,
    },
    Claim {
        id: "hfsc.fig4",
        place: "Section 2.3, Figure 4",
        about: "Curves of inner classes cannot all be met; H-FSC meets every leaf's.",
        says: "no leaf misses a deadline by more than a packet; an inner class lacks",
        sentence: "it is impossible to satisfy all the service curves simultaneously during this period. … a scheduler should guarantee the service curves of the leaf classes all the time",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::figure_4_every_leaf_keeps_its_curve_where_the_inner_classes_cannot",
            "crates/theory/tests/claims/hfsc.rs::in_figure_4_the_inner_class_falls_short_by_what_was_computed",
        ],
        timed: false,
        run: examples::fig4,
    },
    Claim {
        id: "hfsc.map",
        place: "Section 4, Figure 8",
        about: "A burst, a delay and a rate become a curve of two pieces: concave where the burst in the delay is above the rate, else flat at first.",
        says: "exact",
        sentence: "If u_i^max/d_i^max > r_i, the service curve is concave (a); otherwise, it is convex (b).",
        tests: &[
            "crates/config/src/class.rs::a_burst_faster_than_the_rate_gives_a_concave_curve_and_a_slower_one_a_convex_curve",
        ],
        timed: false,
        run: planning::map,
    },
    Claim {
        id: "hfsc.admission",
        place: "Sections 2.1, 6.1",
        about: "The curves of Figure 10 fit the link; with a shorter delay of FTP they do not.",
        says: "admitted with 16.25 ms",
        sentence: "Also, in order to pass the admission control test, we assign to the FTP session the service curve S_FTP = (u_FTP^max = 4 KB, d_FTP^max = 16.25 ms, r_FTP = 5 Mbps).",
        tests: &[
            "crates/theory/src/curves.rs::figure_10_is_admitted_and_a_shorter_delay_names_when_it_fails",
            "crates/theory/src/curves.rs::the_schedulers_refuse_exactly_what_exceeds_the_link_and_name_the_same_time",
        ],
        timed: false,
        run: planning::admission_of_figure_10,
    },
    Claim {
        id: "hfsc.pieces",
        place: "Section 4",
        about: "Which curves stay two pieces when they are updated, and what becomes of a file with another.",
        says: "only those that are concave or flat at first",
        sentence: "In fact, it can be shown that only the two-piece linear convex service curve which have their first segment parallel with the x-coordinate have this propriety",
        tests: &[
            "crates/theory/src/pieces/tests.rs::concave_curves_and_those_that_start_flat_stay_two_pieces_and_no_other_convex_curve",
        ],
        timed: false,
        run: steep::pieces,
    },
    Claim {
        id: "hfsc.eligible",
        place: "Section 3.2, equations (8) to (10)",
        about: "How much must be served by deadlines, exact, beside the estimate that H-FSC uses; and a schedule that serves exactly that.",
        says: "the estimate is never too low; SCED keeps all curves with exactly E(t)",
        sentence: "the SCED algorithm is optimal in the sense that it can guarantee the service curves of all sessions by allocating exactly E(t) service by time t.",
        tests: &[
            "crates/theory/src/required/tests.rs::equation_8_is_the_largest_of_what_is_asked_at_every_instant",
            "crates/theory/src/required/tests.rs::the_sum_of_e_i_is_never_below_e_and_equal_for_concave_curves",
        ],
        timed: false,
        run: eligible::eligible,
    },
    Claim {
        id: "hfsc.join",
        place: "Section 3.3",
        about: "Where a class starts that becomes active: at v_min or v_max alone, virtual times part by the number of sessions.",
        says: "proportional to the number of sessions; bounded with the mean",
        sentence: "It is interesting to note that by taking v_i^s to be either v_i,min or v_i,max results in a discrepancy proportional to the number of sessions.",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::v_max_alone_makes_virtual_times_differ_by_the_number_of_sessions_and_the_mean_does_not",
        ],
        timed: false,
        run: joins::join,
    },
    Claim {
        id: "hfsc.theorem1",
        place: "Section 5, Theorem 1",
        about: "A session whose packets all leave by their deadlines has its service curve, whatever link-sharing sends of it.",
        says: "guaranteed",
        sentence: "With H-FSC, the service curve of a session is guaranteed, if each of its packets is transmitted before its deadline.",
        tests: &["crates/theory/src/pieces/tests.rs::the_minimum_is_that_of_all_starts_point_by_point"],
        timed: false,
        run: steep::theorem1,
    },
    Claim {
        id: "hfsc.theorem2",
        place: "Section 5, Theorem 2",
        about: "No deadline is missed by more than a largest packet, however deep the tree.",
        says: "never",
        sentence: "The H-FSC algorithm guarantees that the deadline of any packet is not missed by more than τ_max, where τ_max represents the time to transmit a packet of maximum length.",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::no_deadline_is_missed_by_more_than_one_packet_whatever_the_depth",
            "crates/core/src/schedulers/service_curve/sced/tests.rs::curves_that_fit_the_link_are_kept_within_one_packet",
        ],
        timed: false,
        run: theorems::theorem2,
    },
    Claim {
        id: "hfsc.theorem3",
        place: "Section 5, Theorem 3",
        about: "Virtual times of siblings that are active together differ by no more than a constant.",
        says: "bounded",
        sentence: "In H-FSC, the difference between the virtual times of any two sibling sessions that are simultaneously active is bounded by a constant.",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::virtual_times_of_active_siblings_differ_by_one_packet_of_the_slowest_at_most",
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::virtual_times_stay_together_under_both_criteria",
            "crates/theory/tests/claims/hfsc.rs::siblings_stay_within_theorem_3_and_inner_classes_within_what_is_said_of_their_curves",
        ],
        timed: false,
        run: theorems::theorem3,
    },
    Claim {
        id: "hfsc.fig11",
        place: "Section 6.1, Figures 10 and 11",
        about: "Delays of audio and video under H-FSC lie below those under H-WF2Q+, and hardly rise with an on-off source.",
        says: "well below, most of all audio; less than 20 % more competing packets",
        sentence: "Clearly, H-FSC achieves much lower delays for both audio and video sessions. The reduction in delay with H-FSC is especially significant for the audio session.",
        tests: &[
            "crates/theory/src/latency/tests.rs::the_curves_of_figure_10_of_hfsc_have_the_delays_that_they_are_made_for",
        ],
        timed: false,
        run: delay::fig11,
    },
    Claim {
        id: "hfsc.footnote3",
        place: "Section 6.1, footnote 3",
        about: "How many packets compete with audio and video when the on-off session becomes active.",
        says: "about 40 % more deadlines in class A; twice the wait under H-WF2Q+, less than 20 % more under H-FSC",
        sentence: "when the ON-OFF session becomes active, the number of packets of class A that have deadlines during a time interval also increases by approximately 40 %.",
        tests: &[
            "crates/theory/src/latency/tests.rs::the_curves_of_figure_10_of_hfsc_have_the_delays_that_they_are_made_for",
        ],
        timed: false,
        run: priority::footnote,
    },
    Claim {
        id: "hfsc.fig12",
        place: "Section 6.2, Figure 12",
        about: "While an on-off session is off its share goes to its siblings in proportion; while it is on all get what they reserved.",
        says: "reserved rates, and twice them",
        sentence: "when the 2 Mbps ON-OFF session is idle, its bandwidth is fairly distributed to the other three competing sessions, while when all sessions are active, they all received their guaranteed rates.",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::figure_12_an_idle_class_gives_its_share_to_its_siblings",
        ],
        timed: false,
        run: sharing::fig12,
    },
    Claim {
        id: "hfsc.fig13",
        place: "Section 6.3, Figure 13",
        about: "What a packet costs grows about logarithmically with the sessions and linearly with the levels.",
        says: "8.79 us flat, 11.54 us in three levels, in 1997",
        sentence: "the enqueue and dequeue times as well as the average per packet queueing overhead increase linearly with the number of levels.",
        tests: &[
            "crates/lab/src/claims/hfsc/cost.rs::sources_of_two_states_offer_their_part_of_the_link_and_both_criteria_choose",
        ],
        timed: true,
        run: |lab| cost::fig13(lab, structures::times()),
    },
    Claim {
        id: "hfsc.steps",
        place: "Sections 4 and 6.3, Figure 13(a)",
        about: "The work for a packet grows with the logarithm of the number of sessions: counted steps, the same in every run.",
        says: "O(log n)",
        sentence: "enqueue and dequeue times increase little between as the number of sessions increase from 100 to 1000 sessions. This is expected as H-FSC has a logarithmic time complexity.",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::steps_are_counted_and_a_packet_behind_others_takes_none",
        ],
        timed: false,
        run: steps::logarithmic,
    },
    Claim {
        id: "hfsc.levels",
        place: "Section 6.3, Figure 13(b)",
        about: "Each level of the hierarchy adds the same to what is updated for a packet.",
        says: "linear in the levels",
        sentence: "the enqueue and dequeue times as well as the average per packet queueing overhead increase linearly with the number of levels. Again, this is expected since each additional level adds a fixed overhead for updating the virtual times in the hierarchy",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::steps_are_counted_and_a_packet_behind_others_takes_none",
        ],
        timed: false,
        run: steps::levels,
    },
    Claim {
        id: "hfsc.backlogged",
        place: "Section 6.3",
        about: "A packet that arrives behind others costs nothing but its place in the queue; what it saves, the dequeue takes.",
        says: "no other processing at enqueue; dequeue times increase; the total changes little",
        sentence: "The average enqueue time in this case is very small (less than 0.3 μs) as a packet arriving at a nonempty queue is just added at the end of the queue without invoking any other processing by the algorithm.",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::steps_are_counted_and_a_packet_behind_others_takes_none",
        ],
        timed: false,
        run: steps::backlogged,
    },
    Claim {
        id: "hfsc.requests",
        place: "Section 4",
        about: "Two structures for real-time requests choose the same: an augmented tree in O(log n), and a calendar queue with a heap, which is faster in the mean.",
        says: "O(log n), and slightly faster",
        sentence: "While the former method makes possible to perform insertion and deletion … in O(log n), where n is the number of active sessions, the latter method is slightly faster in the average case.",
        tests: &[
            "crates/lab/src/claims/hfsc/requests.rs::all_structures_choose_what_looking_at_all_requests_chooses",
            "crates/lab/src/claims/hfsc/structures.rs::structures_choose_as_the_scheduler_does_with_equal_and_with_unequal_sessions",
        ],
        timed: false,
        run: structures::structures_of_section_4,
    },
    Claim {
        id: "hfsc.classifier",
        place: "Section 6.3",
        about: "The first packet of a class is classified in full and all others by hashing, at a cost that does not depend on how many classes there are: counted steps, the same in every run.",
        says: "hashing; the worst case increases with the classes",
        sentence: "While the worst-case overhead in our implementation increases with the number of classes in the hierarchy, the average time to classify a packet based on hashing is about 3 μs.",
        tests: &[
            "crates/matching/src/classify/tests.rs::many_rules_in_every_form_answer_as_a_list_does",
            "crates/matching/src/classify/tests.rs::steps_of_an_answer_are_counted_and_a_flow_that_was_seen_before_takes_one_entry",
            "crates/lab/src/claims/hfsc/classifier.rs::matches_that_no_table_takes_are_tried_up_to_the_one_that_is_met",
        ],
        timed: false,
        run: classifier::classifier,
    },
    Claim {
        id: "hfsc.forecast",
        place: "Section 6.3",
        about: "What can be forwarded, of the times that queueing and classification take.",
        says: "over 83,000 packets per second",
        sentence: "since the average per packet queueing overhead is approximately 9 μs, adding the 3 μs steady-state packet classification overhead, we expect our implementation to be able to forward over 83,000 packets per second.",
        tests: &[
            "crates/lab/src/claims/hfsc/cost.rs::sources_of_two_states_offer_their_part_of_the_link_and_both_criteria_choose",
        ],
        timed: true,
        run: structures::forecast,
    },
    Claim {
        id: "hfsc.cbqprio",
        place: "Section 7, Figure 1",
        about: "Many streams of one agency harm the other under CBQ with priorities, and not under H-FSC.",
        says: "delays of U. Pitt suffer under CBQ; under H-FSC they keep to the curves",
        sentence: "This will negatively affect not only the delay bound provided to U. Pitt's real-time traffic, but also the average delay of U. Pitt's data traffic",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::no_deadline_is_missed_by_more_than_one_packet_whatever_the_depth",
        ],
        timed: false,
        run: protection::cbqprio,
    },
    Claim {
        id: "hfsc.linear",
        place: "Sections 2.2, 3.3",
        about: "With lines the virtual time is w / r and H-FSC shares as packet fair queueing does; SCED is Virtual Clock.",
        says: "the same order",
        sentence: "Then, the virtual time v_i is simply V^-1(w_i) = w_i/r_i, which is exactly the virtual time of session i in the PFQ algorithms.",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::with_lines_virtual_time_is_w_over_r_and_the_order_that_of_packet_fair_queueing",
            "crates/core/src/schedulers/service_curve/sced/tests.rs::with_lines_the_order_is_that_of_virtual_clock",
        ],
        timed: false,
        run: lines::linear,
    },
    Claim {
        id: "hfsc.depth",
        place: "Sections 3.1, 5, 7",
        about: "With lines alone, the delay of a leaf by its depth under H-FSC and under H-PFQ.",
        says: "tighter under H-FSC, and the same at every depth",
        sentence: "H-FSC provides tighter delay bounds than H-PFQ even for class hierarchies with only linear service curves.",
        tests: &[
            "crates/core/src/schedulers/service_curve/hfsc/tests.rs::no_deadline_is_missed_by_more_than_one_packet_whatever_the_depth",
        ],
        timed: false,
        run: depth::depth,
    },
    Claim {
        id: "hfsc.region",
        place: "Section 7",
        about: "Which sets of bursts, delays and rates service curves serve, and which GPS does with any weights.",
        says: "a larger region",
        sentence: "even for real-time services that do not allow link-sharing, service-curve based schedulers will achieve a larger schedulability region than GPS with general resource assignments.",
        tests: &[
            "crates/lab/src/claims/hfsc/region.rs::delays_under_gps_are_those_of_a_fluid_in_small_steps",
            "crates/lab/src/claims/hfsc/region.rs::a_session_that_may_be_late_and_has_most_of_the_rate_is_served_by_curves_and_by_no_weights",
        ],
        timed: false,
        run: region::region,
    },
    Claim {
        id: "hfsc.utilisation",
        place: "Section 2.1",
        about: "Sessions whose curves are all concave cannot reserve a high part of the link, because priority is relative.",
        says: "impossible",
        sentence: "However, it is impossible to have concave service curves for all sessions and still reach high average utilization.",
        tests: &[],
        timed: false,
        run: utilisation::utilisation,
    },
    Claim {
        id: "hfsc.starves",
        place: "Section 2.2",
        about: "Virtual Clock, which SCED is with lines, starves a session for a time that grows with what it was served ahead.",
        says: "unfair",
        sentence: "While Virtual Clock is unfair [10, 17], there exists algorithms (such as the various PFQ algorithms) that not only provide the same service curve guarantees as Virtual Clock but also achieve fairness.",
        tests: &[],
        timed: false,
        run: utilisation::starves,
    },
];
