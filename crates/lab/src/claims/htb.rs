//! The claims of \[htb\]: the page's own measurements, with its tc lines and scripts unchanged.

use super::{Claim, Paper};

mod measured;
mod meter;
mod setups;
mod share;
mod slots;
mod speed;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    key: "htb",
    name: "HTB",
    authors: "M. Devera",
    title: "What is HTB (the HTB page of September 2001)",
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[
    Claim {
        id: "htb.depth",
        place: "Principle",
        about: "All leaves of the text's set-ups have one depth, which HTB mandates; ours takes any tree.",
        says: "mandated",
        sentence: "We will assume (and HTB mandates it) that tree is complete - each leaf has the same depth.",
        tests: &[],
        timed: false,
        run: setups::depth,
    },
    Claim {
        id: "htb.share",
        place: "HTB results, first plot",
        about: "Two classes at 40 and 20 kB/s with ceils of 80 below one of 100 share 67 : 33 by their rates; alone the first gets its ceil \
                and the second what it sends.",
        says: "67, 33 and 80, 50 kB/s",
        sentence: "At 4 B starts transmit and again as with CBQ the bandwidth is divided correctly but the 100 kBps limit is more precise.",
        tests: &[
            "crates/core/src/schedulers/link_sharing/htb/tests.rs::the_measurement_of_2001_shares_67_to_33_and_keeps_the_ceiling_of_80",
        ],
        timed: false,
        run: share::share,
    },
    Claim {
        id: "htb.share.cbq",
        place: "CBQ results, first plot",
        about: "Under CBQ the shares are near 67 : 33 as well, and the total is slightly above 100 kB/s.",
        says: "67 : 33, more than 100 kB/s",
        sentence: "First notice that total rate is higher than 100 kBps. It is ewma-idle error. The shared rate is ok.",
        tests: &[],
        timed: false,
        run: share::share_cbq,
    },
    Claim {
        id: "htb.cbq.syntax",
        place: "CBQ results",
        about: "The text's CBQ set-ups are taken as they are, and each word becomes what it says.",
        says: "the lines as they are",
        sentence: "Here is code to setup CBQ for first simulation …",
        tests: &["crates/cli/tests/cli/tc.rs::tc_commands_become_a_link_file_that_check_takes_and_go_back"],
        timed: false,
        run: setups::syntax,
    },
    Claim {
        id: "htb.precise",
        place: "Principle",
        about: "CBQ's top-level algorithm shares less precisely than HTB.",
        says: "less precise",
        sentence: "Top-level is … less precise way.",
        tests: &[],
        timed: false,
        run: setups::precise,
    },
    Claim {
        id: "htb.faster",
        place: "Principle",
        about: "CBQ's top-level algorithm is faster than HTB, which cycles over leaves more times.",
        says: "faster; HTB slower",
        sentence: "Top-level is faster but less precise way.",
        tests: &[],
        timed: true,
        run: speed::faster,
    },
    Claim {
        id: "htb.delay",
        place: "HTB results",
        about: "The delay of the second flow at 5 s is a bit worse under HTB than under CBQ.",
        says: "about 15 %",
        sentence: "The delay of B at 5 is a bit worse than with CBQ but it is about 15%.",
        tests: &[],
        timed: false,
        run: setups::delays,
    },
    Claim {
        id: "htb.prio",
        place: "HTB results, second plot",
        about: "Raised in priority, the second class is served first, the first keeps its rate, and the delay of the second drops to near zero, lower than under \
                CBQ, where it is reasonably small.",
        says: "near zero",
        sentence: "Nothing interesting only as you can see the B's delay is impressive :-)",
        tests: &[
            "crates/core/src/schedulers/link_sharing/htb/tests.rs::a_raised_priority_is_served_first_and_waits_for_nothing_but_the_ceiling",
        ],
        timed: false,
        run: share::prio,
    },
    Claim {
        id: "htb.burst",
        place: "HTB results",
        about: "The spike at a start is the burst of 2 kB, and there is nothing beyond it.",
        says: "2 kB",
        sentence: "The spike at 2 is due to \"burst 2k\" parameter. Then the flow is limited to 80 kBps mandated by ceil.",
        tests: &[
            "crates/core/src/schedulers/link_sharing/htb/tests.rs::the_spike_at_a_start_is_the_burst_and_nothing_beyond_it",
        ],
        timed: false,
        run: share::burst,
    },
    Claim {
        id: "htb.levels",
        place: "9.9.2001, first paragraph",
        about: "With a deficit for each level of lenders the sharing error is below 5 %; with one for all it is 10 to 20 %.",
        says: "below 5 %; 10 to 20 %",
        sentence: "They use common DRR independly of level they borrow from. This leads to sharing error about 10-20%.",
        tests: &[
            "crates/core/src/schedulers/link_sharing/htb/tests.rs::separate_deficits_share_within_5_percent_and_a_common_one_is_off_by_10_to_20",
        ],
        timed: false,
        run: share::levels,
    },
    Claim {
        id: "htb.ceilrate",
        place: "Principle",
        about: "A class whose ceil is its rate behaves as one that is `bounded` under CBQ.",
        says: "equal rates",
        sentence: "Note that when ceil is tha same as base rate it is the same as bounded keyword in CBQ.",
        tests: &[],
        timed: false,
        run: share::ceilrate,
    },
    Claim {
        id: "htb.slots",
        place: "9.9.2001, second plot",
        about: "Two devices share a pool by a slot: right after a change they do not share by their rates, and once the meter of six seconds has \
                settled ratio and total are held.",
        says: "50 : 30 of 100 kB/s, settled",
        sentence: "As you see the ratios and total bandwidth is maintained very well now.",
        tests: &[
            "crates/core/src/schedulers/link_sharing/htb/tests.rs::a_pool_of_two_links_holds_ratio_and_total_once_its_meters_have_settled",
        ],
        timed: false,
        run: slots::slots,
    },
    Claim {
        id: "htb.stolen",
        place: "Cross device sharing",
        about: "Without coordination one of two devices with permanent demand steals the bandwidth of the slot.",
        says: "stolen by one of it",
        sentence: "When both (or more) devices have permanent demand the result is that shared bandwidth is stolen by one of it.",
        tests: &[],
        timed: false,
        run: slots::stolen,
    },
    Claim {
        id: "htb.meter",
        place: "Cross device sharing; 9.9.2001, second paragraph",
        about: "Each member of a slot has a meter of its rate, recomputed each 100 ms and averaged over six seconds, which a user can see.",
        says: "each 100 ms, over 6 s",
        sentence: "I decided to maintain actual rate for each class (recalculated every 100ms).",
        tests: &[
            "crates/core/src/schedulers/link_sharing/htb/tests.rs::the_meter_of_a_slot_is_told_and_an_exact_pool_has_none",
        ],
        timed: false,
        run: meter::meter,
    },
    Claim {
        id: "htb.guard",
        place: "Cross device sharing",
        about: "The guard stands between a device and the slot alone: each device keeps its base, its classes share by their own rates, and a class below another has no slot.",
        says: "at the owner alone",
        sentence: "The rate guard is applied only to slot owner not to ancestors so that slot owner should be root class.",
        tests: &[
            "crates/core/src/schedulers/link_sharing/htb/tests.rs::a_pool_of_two_links_holds_ratio_and_total_once_its_meters_have_settled",
        ],
        timed: false,
        run: meter::guard,
    },
    Claim {
        id: "htb.generator",
        place: "How I measured",
        about: "The scripts of the text's generator run as they are, and the plots have rate and delay of each flow with R events below the x axis.",
        says: "runs",
        sentence: "The generator is controled by simple \"script\".",
        tests: &["crates/config/src/scenario/script/tests.rs::a_script_may_stand_in_the_scenario_itself"],
        timed: false,
        run: share::generator,
    },
];
