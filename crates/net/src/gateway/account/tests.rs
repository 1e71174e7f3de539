//! Snapshots of a data path over interfaces in memory, in which packets move between the pieces.

use std::sync::Arc;
use std::time::Duration;

use fairlink_core::{
    Amount, ClassConfig, ClassId, Hierarchy, Leniency, LinkConfig, Members, Rate, Scheduler, Share, registry,
};
use fairlink_report::{ByCause, ClassReport, Counts, Delay, DropCause};
use fairlink_theory::hmm::Allocation;
use fairlink_theory::request::{Demand, Request};
use fairlink_theory::to_f64;

use super::played::{LINK_BPS, Played, two_levels};
use super::*;
use crate::gateway::remote::Publisher;
use crate::gateway::remote_error::RemoteError;
use crate::gateway::stats::GatewayStats;

/// Checks the invariants of any statistics.
fn check(stats: &GatewayStats) {
    assert!(stats.gateway().balanced, "{stats:?}");
    let sum = |of: fn(&Counts) -> Amount| -> Amount { stats.leaves().map(|leaf| of(&leaf.counts())).sum() };
    assert_eq!(stats.counts().received, sum(|class| class.received));
    assert_eq!(stats.counts().sent, sum(|class| class.sent));
    assert_eq!(stats.counts().dropped, sum(|class| class.dropped));
    assert_eq!(stats.counts().queued, sum(|class| class.queued));
    assert_eq!(stats.counts().received, stats.counts().sent + stats.counts().dropped + stats.counts().queued);
    for class in stats.classes.iter().filter(|class| !class.leaf) {
        let below: Vec<_> = stats.leaves().filter(|leaf| leaf.parent.as_ref() == Some(&class.name)).collect();
        let sum = |of: fn(&Counts) -> Amount| -> Amount { below.iter().map(|leaf| of(&leaf.counts())).sum() };
        assert_eq!(class.counts().received, sum(|leaf| leaf.received), "{}", class.name);
        assert_eq!(class.counts().sent, sum(|leaf| leaf.sent), "{}", class.name);
        assert_eq!(class.counts().queued, sum(|leaf| leaf.queued), "{}", class.name);
        let mut causes = ByCause::default();
        below.iter().for_each(|leaf| causes += &leaf.counts().dropped_by.unwrap());
        assert_eq!(class.counts().dropped_by, Some(causes), "{}", class.name);
        assert_eq!(class.counts().dropped, causes.total(), "{}", class.name);
        let longest = below.iter().filter_map(|leaf| leaf.delay().max).fold(0.0, f64::max);
        assert_eq!(class.delay().max.unwrap_or(0.0), longest, "{}", class.name);
    }
}

/// The delays of a class in the interval.
fn delay_of(stats: &GatewayStats, class: usize) -> Delay {
    stats.interval().unwrap().class(&stats.classes[class].name).unwrap().delay_s.unwrap()
}

/// Statistics with the interval since `earlier`, of a link that shares no pool.
fn since(earlier: &Observation, later: &Observation) -> GatewayStats {
    later.stats(Interval::of_links(&[Some((earlier, later))])[0].as_ref())
}

#[test]
fn a_snapshot_copied_in_pieces_while_packets_move_balances_and_takes_the_same_pieces_each_time() {
    for scheduler in ["hls", "htb", "cbq-formal"] {
        let mut played = Played::new(two_levels(7, 21), scheduler);
        let classes = played.generation.tree.len();
        assert_eq!(classes, 155);
        let (mut memory, mut now, mut before) = (Arc::new(Snapshot::new(Arc::clone(&played.generation))), 0, 0);
        for number in 0..30 {
            let mut copying = Copying::begin(memory, number).unwrap();
            let mut pieces = 0;
            loop {
                played.busy_turn(now);
                now += 200_000;
                pieces += 1;
                if played.go_on(&mut copying, COPIED) {
                    break;
                }
            }
            assert_eq!(pieces, classes.div_ceil(COPIED), "64 of 155 classes at a time");
            let observation = played.completed(copying);
            let stats = observation.stats(None);
            check(&stats);
            assert!(stats.counts().received.packets > before && stats.counts().dropped.packets > 0 || number == 0);
            before = stats.counts().received.packets;
            // The scheduler's own counters are reported once for every class.
            let told = stats.classes.iter().filter(|class| !class.counters.is_empty()).count();
            assert_eq!(told, if scheduler == "hls" { 0 } else { classes - 1 });
            assert_eq!(stats.counters.contains_key("main_rounds"), scheduler == "hls");
            memory = observation.snapshot;
        }
    }
}

#[test]
fn nothing_is_copied_into_a_snapshot_that_somebody_reads() {
    let played = Played::new(two_levels(1, 2), "hls");
    let observation = played.observe();
    assert!(Copying::begin(Arc::clone(&observation.snapshot), 2).is_none());
}

#[test]
fn an_interval_has_what_was_sent_in_it_and_the_exact_ideal_for_what_was_demanded() {
    let mut played = Played::new(two_levels(3, 4), "hls");
    let mut now = 0;
    let mut earlier = played.observe();
    for round in 0..20 {
        for _ in 0..50 {
            played.busy_turn(now);
            now += 100_000;
        }
        played.hands.0.set(now);
        let later = played.observe();
        let stats = since(&earlier, &later);
        let span = stats.interval().unwrap();
        let (sent, rates) = (span.counts.unwrap().sent, span.rates);
        assert!((span.seconds() - 0.005).abs() < 1e-12);
        assert_eq!(sent, later.stats(None).counts().sent.checked_sub(earlier.stats(None).counts().sent).unwrap());
        assert!((rates.rate() - sent.bytes as f64 * 8.0 / 0.005).abs() < 1e-3, "round {round}");
        assert!(rates.rate_bps <= rates.demand_bps);
        // The ideal by exact fractions, from numbers of the statistics.
        let (tree, before) = (&played.generation.tree, earlier.stats(None));
        let demands = tree.leaves().iter().map(|&leaf| {
            let [class, old] = [&stats, &before].map(|stats| &stats.classes[leaf.index() - 1]);
            let interval = span.class(&class.name).unwrap();
            let too_long = |class: &ClassReport| class.counts().dropped_by.unwrap()[DropCause::TooLong].bytes;
            let received = interval.counts.unwrap().received.bytes;
            let bytes = old.counts().queued.bytes + received + too_long(old) - too_long(class);
            assert!((interval.rates.demand_bps.unwrap() - bytes as f64 * 8.0 / 0.005).abs() < 1e-3);
            (leaf, Request::Rate((bytes as f64 * 8.0 / 0.005).round() as u64))
        });
        let ideal = Allocation::solve(tree, &Demand::new(tree, demands).unwrap());
        for class in tree.classes() {
            let told = span.class(&stats.classes[class.index() - 1].name).unwrap().rates;
            let exact = to_f64(&ideal.class(class).allocation);
            // A demand is cut to whole bit/s, and so is each level.
            assert!((told.ideal_bps.unwrap() - exact).abs() <= 16.0, "{class:?}: {:?} for {exact}", told.ideal_bps);
        }
        earlier = later;
    }
}

#[test]
fn links_that_share_a_pool_have_their_ideals_together_and_others_have_not() {
    // The first inner class of two links of 80 Mbit/s in a pool of 30; the third link has a pool of that name in
    // another file.
    let mut links: Vec<Played> = [("l", 10_000_000), ("l", 5_000_000), ("m", 10_000_000)]
        .into_iter()
        .map(|(file, base)| {
            let mut played = Played::new(two_levels(2, 3), "hls");
            let bps = |bps| Rate::from_bps(bps).unwrap();
            let pool = PoolId { file: file.to_owned(), name: "p".to_owned() };
            let pooled = vec![Pooled { class: ClassId(1), base: bps(base), pool, rate: bps(30_000_000) }];
            played.generation = Arc::new(Generation { pooled, ..Generation::of_tree(two_levels(2, 3), "hls") });
            played
        })
        .collect();
    let observe = |links: &[Played]| -> Vec<Observation> { links.iter().map(Played::observe).collect() };
    let before = observe(&links);
    for (link, frames) in [(0, [40, 40]), (1, [40, 5]), (2, [40, 40])] {
        for (leaf, frames) in [(0, frames[0]), (5, frames[1])] {
            (0..frames).for_each(|_| links[link].arrive(leaf, 1000));
        }
        (1..6).for_each(|turn| links[link].turn(turn * 1_000_000));
    }
    let after = observe(&links);
    let pairs: Vec<Option<(&Observation, &Observation)>> = before.iter().zip(&after).map(Some).collect();
    let ideals = |pairs: &[Option<(&Observation, &Observation)>]| -> Vec<[f64; 2]> {
        let intervals = Interval::of_links(pairs);
        let of = |interval: &Option<Interval>| {
            [1, 5].map(|at| interval.as_ref().unwrap().class(ClassId(at)).unwrap().ideal_bps.unwrap())
        };
        intervals.iter().map(of).collect()
    };
    // 40 frames in 5 ms are 64 Mbit/s, 5 are 8.
    assert_eq!(ideals(&pairs), [[20e6, 60e6], [10e6, 8e6], [30e6, 50e6]]);
    // A link that is not requested has no demand.
    assert_eq!(ideals(&pairs[1..2]), [[30e6, 8e6]]);
    assert_eq!(ideals(&[pairs[2], pairs[1], pairs[0]]), [[30e6, 50e6], [10e6, 8e6], [20e6, 60e6]]);
    assert!(
        after[0].generation().shares_with(after[1].generation())
            && !after[0].generation().shares_with(after[2].generation())
    );
}

#[test]
fn delays_of_an_interval_are_those_of_its_packets_alone() {
    let mut played = Played::new(two_levels(1, 2), "hls");
    let first = played.observe();
    // A burst that waits, and then single frames that do not.
    (0..20).for_each(|_| played.arrive(0, 1000));
    (0..30).for_each(|turn| played.turn(turn * 100_000));
    let second = played.observe();
    let waited = delay_of(&since(&first, &second), 1);
    assert!((0.001_9..0.002).contains(&waited.max.unwrap()), "{waited:?}");
    for turn in 30..40 {
        played.arrive(0, 1000);
        played.turn(turn * 100_000);
    }
    let stats = since(&second, &played.observe());
    let delay = delay_of(&stats, 1);
    assert_eq!((delay.max, delay.p99), (Some(7e-9), Some(7e-9)), "the shortest bucket: {delay:?}");
    assert!(stats.classes[1].delay().max.unwrap() >= 0.001_9);
    assert_eq!(delay_of(&stats, 2), Delay::default(), "nothing was sent");
    // The class above and the link have these delays, too.
    assert_eq!(delay_of(&stats, 0), delay);
    assert_eq!(stats.interval().unwrap().delay_s, Some(delay));
}

#[test]
fn after_a_reload_intervals_go_by_names_and_a_new_class_has_none() {
    let mut played = Played::new(two_levels(1, 3), "hls");
    (0..3).for_each(|leaf| played.arrive(leaf, 1000));
    (0..10).for_each(|turn| played.turn(turn * 100_000));
    let mut earlier = played.observe();
    // As if classes 3 and 2 had changed places, and class 4 were new.
    let old = Arc::get_mut(&mut earlier.snapshot).unwrap();
    let names = ["0", "1", "3", "2", "x"].map(str::to_owned).to_vec();
    let tree = played.generation.tree.clone();
    old.generation = Arc::new(Generation { names, number: 7, ..Generation::of_tree(tree, "hls") });
    let marks = [100, 200, 300].map(|bytes| Amount { packets: 0, bytes });
    earlier.totals[2].counts.sent = marks[0];
    earlier.totals[3].counts.sent = marks[1];
    played.hands.0.set(2_000_000);
    let stats = since(&earlier, &played.observe());
    let sent = |class: usize| {
        let class = stats.interval().unwrap().class(&stats.classes[class - 1].name)?;
        Some(class.counts.unwrap().sent.bytes)
    };
    assert_eq!([sent(2), sent(3), sent(4)], [Some(800), Some(900), None]);
    // A counter that was reset gives no interval rather than a wrong one.
    earlier.totals[2].counts.sent.bytes = 5000;
    let stats = since(&earlier, &played.observe());
    assert_eq!(stats.interval().unwrap().class("3"), None);
}

#[test]
fn guarantees_bounds_and_parents_stand_beside_each_class() {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(LINK_BPS).unwrap()));
    let half =
        ClassConfig { share: Some(Share::Guarantee(Rate::from_bps(LINK_BPS / 2).unwrap())), ..ClassConfig::default() };
    (0..2).for_each(|_| {
        tree.add(ClassId::ROOT, half).unwrap();
    });
    let played = Played::new(tree.build().unwrap(), "wf2q+");
    let stats = played.observe().stats(None);
    // A packet of 1514 B at half of the link, and one in its way: sigma / rho + L / r.
    let packet = f64::from(played.generation.tree.link().max_packet) * 8.0;
    let expected = packet / (LINK_BPS as f64 / 2.0) + packet / LINK_BPS as f64;
    let bound = stats.classes[0].bounds.clone().unwrap().delay_bound_s.unwrap();
    assert!((bound - expected).abs() < 1e-9, "{bound} for {expected}");
    assert_eq!(stats.classes[0].terms.unwrap().guarantee_bps, Some(LINK_BPS / 2));
    assert_eq!((stats.classes[0].leaf, stats.classes[0].parent.as_deref()), (true, None));
    let tree = Played::new(two_levels(2, 2), "htb").observe().stats(None);
    let parents: Vec<_> = tree.classes.iter().map(|class| (class.leaf, class.parent.as_deref())).collect();
    let one = Some("1");
    let four = Some("4");
    assert_eq!(parents, [(false, None), (true, one), (true, one), (false, None), (true, four), (true, four)]);
    assert_eq!(tree.classes[1].bounds.clone().unwrap().delay_bound_s, None);
}

#[test]
fn a_reload_during_a_copy_begins_it_anew_with_what_the_gateway_is_then() {
    let played = Played::new(two_levels(3, 40), "hls");
    let mut publisher = Publisher::new(Generation::of_tree(played.generation.tree.clone(), "hls"));
    let remote = publisher.remote();
    let asking = std::thread::spawn(move || remote.stats(Duration::from_secs(20)));
    let (mut pieces, mut reloaded) = (0, false);
    let mut freed = Vec::new();
    while !asking.is_finished() {
        let Some(mut copying) = publisher.take_copying() else {
            std::thread::yield_now();
            continue;
        };
        pieces += 1;
        if played.go_on(&mut copying, COPIED) {
            copying.complete(GatewayCounts { pool_agrees: true, ..GatewayCounts::default() });
            if let Err(later) = publisher.publish(copying) {
                publisher.keep_copying(later);
            }
            continue;
        }
        publisher.keep_copying(copying);
        if !std::mem::replace(&mut reloaded, true) {
            let generation = Generation { number: 1, ..Generation::of_tree(played.generation.tree.clone(), "hls") };
            freed.push(publisher.change(Arc::new(generation)));
        }
    }
    let stats = asking.join().unwrap().unwrap();
    assert_eq!(stats.gateway().generation, 1);
    assert!(pieces >= 3, "one piece was in vain");
}

#[test]
fn many_who_ask_at_once_all_get_answers_and_the_same_memory_goes_to_and_fro() {
    let played = Played::new(two_levels(2, 50), "hls");
    let mut publisher = Publisher::new(Generation::of_tree(played.generation.tree.clone(), "hls"));
    let remote = publisher.remote();
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let remote = remote.clone();
            std::thread::spawn(move || (0..50).all(|_| remote.stats(Duration::from_secs(20)).is_ok()))
        })
        .collect();
    while asking.iter().any(|asking| !asking.is_finished()) {
        let Some(mut copying) = publisher.take_copying() else {
            std::thread::yield_now();
            continue;
        };
        if played.go_on(&mut copying, COPIED) {
            match publisher.publish(copying) {
                Ok(()) => continue,
                Err(later) => copying = later,
            }
        }
        publisher.keep_copying(copying);
    }
    assert!(asking.into_iter().all(|asking| asking.join().unwrap()));
    assert!(publisher.kept() <= 2, "{} snapshots are kept", publisher.kept());
    drop(publisher);
    assert!(remote.stats(Duration::ZERO).is_ok(), "the last answer stays");
}

#[test]
fn a_question_to_a_data_thread_that_is_held_up_ends_in_time() {
    let publisher = Publisher::new(Generation::flat(3));
    let waited = Duration::from_millis(30);
    assert_eq!(publisher.remote().stats(waited).unwrap_err(), RemoteError::Timeout { waited });
}

#[test]
fn all_counters_of_a_scheduler_have_room() {
    let tree = two_levels(2, 3);
    for info in registry::SCHEDULERS {
        let Ok(scheduler) = info.build(&tree, Leniency::Ignore, Members::new()) else { continue };
        let told = |classes: std::ops::Range<usize>| {
            let mut told = Vec::new();
            scheduler.for_each_counter(classes, &mut |class, name, _| told.push((class, name)));
            told
        };
        let mut all = told(0..tree.len());
        assert!(all.len() <= tree.len() * fairlink_core::MAX_COUNTERS, "{}: {all:?}", info.name);
        let mut each: Vec<_> = (0..tree.len()).flat_map(|class| told(class..class + 1)).collect();
        all.sort_unstable();
        each.sort_unstable();
        assert_eq!(each, all, "{}", info.name);
    }
}

/// A gateway with a class above two leaves, before and after 5 ms of traffic with drops. The same each time.
pub(crate) fn watched() -> (Observation, Observation) {
    let mut played = Played::new(two_levels(1, 2), "hls");
    let turns =
        |played: &mut Played, turns: std::ops::Range<u64>| turns.for_each(|turn| played.busy_turn(turn * 100_000));
    turns(&mut played, 0..50);
    let earlier = played.observe();
    turns(&mut played, 50..100);
    (earlier, played.observe())
}

#[test]
fn the_statistics_are_as_they_were_reviewed() {
    let (earlier, later) = watched();
    insta::assert_snapshot!(serde_json::to_string_pretty(&since(&earlier, &later)).unwrap());
}
