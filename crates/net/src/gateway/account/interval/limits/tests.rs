//! Limits of known cases under several schedulers, compared with those that `fluid` prints for the same demands.

use std::sync::Arc;

use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, QueueLimits, Rate, Share};
use fairlink_report::{DropCause, Limit, LimitCause};
use fairlink_theory::ideal::{Rule, Traffic};

use super::Evidence;
use crate::gateway::account::generation::{PoolId, Pooled};
use crate::gateway::account::played::{Played, two_levels};
use crate::gateway::account::{Generation, Interval, LimitHistory, Observation};
use crate::gateway::stats::GatewayStats;

/// Classes by number: A with A1 and A2, B, which may have a ceiling, and C. The link has 80 Mbit/s, ten frames of 1000
/// B in a millisecond.
const A: usize = 1;
const A1: usize = 2;
const A2: usize = 3;
const B: usize = 4;
const C: usize = 5;

fn tree(ceiling: Option<u64>) -> Hierarchy {
    let bps = |bps| Rate::from_bps(bps).unwrap();
    let config = |mega: u64| ClassConfig {
        share: Some(Share::Guarantee(bps(mega * 1_000_000))),
        limits: QueueLimits { packets: 20, ..QueueLimits::default() },
        ..ClassConfig::default()
    };
    let mut tree = Hierarchy::builder(LinkConfig::new(bps(80_000_000)));
    let a = tree.add(ClassId::ROOT, ClassConfig { limits: QueueLimits::default(), ..config(40) }).unwrap();
    tree.add(a, config(20)).unwrap();
    tree.add(a, config(20)).unwrap();
    tree.add(ClassId::ROOT, ClassConfig { ceiling: ceiling.map(bps), ..config(10) }).unwrap();
    tree.add(ClassId::ROOT, config(20)).unwrap();
    tree.build().unwrap()
}

/// Four leaves below the link, without guarantees.
fn flat() -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(80_000_000).unwrap()));
    let limits = QueueLimits { packets: 20, ..QueueLimits::default() };
    (0..4).for_each(|_| {
        tree.add(ClassId::ROOT, ClassConfig { limits, ..ClassConfig::default() }).unwrap();
    });
    tree.build().unwrap()
}

/// Plays `millis` ms from `from` on; in each, every leaf gets its number of frames.
fn play(played: &mut Played, from: u64, millis: u64, frames: [usize; 4]) {
    for milli in from..from + millis {
        for (leaf, &frames) in frames.iter().enumerate() {
            (0..frames).for_each(|_| played.arrive(leaf, 1000));
        }
        (0..20).for_each(|part| played.turn(milli * 1_000_000 + part * 50_000));
    }
}

fn between(earlier: &Observation, later: &Observation) -> Interval {
    Interval::of_links(&[Some((earlier, later))]).swap_remove(0).unwrap()
}

fn told(stats: &GatewayStats, class: usize) -> Option<(LimitCause, Option<&str>)> {
    let limit = stats.interval()?.class(&stats.classes[class - 1].name)?.limit.as_ref()?;
    Some((limit.cause, limit.limited_by.as_deref()))
}

/// Warms up, measures 200 ms, and returns the limits of the classes, compared with `fluid`'s for the same demands.
fn measured(scheduler: &str, tree: Hierarchy, frames: [usize; 4]) -> GatewayStats {
    let mut played = Played::new(tree, scheduler);
    play(&mut played, 0, 100, frames);
    let earlier = played.observe();
    play(&mut played, 100, 200, frames);
    let later = played.observe();
    let interval = between(&earlier, &later);
    let stats = later.stats(Some(&interval));
    let tree = &played.generation.tree;
    let same = Traffic::new(vec![Some(1000.0); tree.len()], false);
    let demand = interval.demand(tree).unwrap();
    if let Ok(ideal) = Rule::for_scheduler(played.generation.scheduler, tree, same).and_then(|rule| rule.solve(&demand))
    {
        for class in tree.classes() {
            // A class that got its whole demand may be a packet short of it in the ideal.
            let by = interval.class(class).unwrap().limited.and_then(|limited| limited.by);
            if by.is_some() {
                assert_eq!(by, ideal.limited_by(class), "{scheduler}: {class:?}");
            }
        }
    }
    stats
}

#[test]
fn known_cases_have_the_limits_that_they_are_made_for_under_all_schedulers_with_classes_in_classes() {
    for scheduler in ["hls", "hvt", "hpfq", "htb", "cbq-formal", "hfsc"] {
        let ceiling = ["hls", "hvt", "htb"].contains(&scheduler).then_some(12_000_000);
        let stats = measured(scheduler, tree(ceiling), [10, 1, 5, 1]);
        let link = stats.interval().unwrap().limit.as_ref().map(|limit| limit.cause);
        assert_eq!(link, Some(LimitCause::Link), "{scheduler}");
        let b = if ceiling.is_some() { (LimitCause::Ceiling, Some("4")) } else { (LimitCause::Link, Some("link")) };
        for (class, expected) in [
            (A, (LimitCause::Link, Some("link"))),
            (A1, (LimitCause::Parent, Some("1"))),
            (A2, (LimitCause::Demand, None)),
            (B, b),
            (C, (LimitCause::Demand, None)),
        ] {
            assert_eq!(told(&stats, class), Some(expected), "{scheduler}: {class}");
        }
    }
}

#[test]
fn without_classes_in_classes_the_link_limits_whoever_asks_for_more_than_its_share() {
    for scheduler in ["wf2q+", "scfq", "drr", "wrr"] {
        let stats = measured(scheduler, flat(), [10, 1, 5, 0]);
        let link = (LimitCause::Link, Some("link"));
        for (class, expected) in
            [(1, link), (2, (LimitCause::Demand, None)), (3, link), (4, (LimitCause::Demand, None))]
        {
            assert_eq!(told(&stats, class), Some(expected), "{scheduler}: {class}");
        }
    }
}

#[test]
fn without_an_ideal_only_what_is_measured_is_said() {
    // `fifo` has no rule for sharing an overloaded link.
    let stats = measured("fifo", flat(), [10, 1, 5, 0]);
    assert!(!stats.notes.is_empty(), "it has no ideal");
    assert_eq!([1, 3].map(|class| told(&stats, class)), [None, None]);
    assert_eq!(told(&stats, 4), Some((LimitCause::Demand, None)), "it asked for nothing");
    let link = stats.interval().unwrap().limit.as_ref().map(|limit| limit.cause);
    assert_eq!(link, Some(LimitCause::Link), "it sent what a link of this rate can");
    let text = serde_json::to_value(&stats.interval().unwrap().classes[0]).unwrap();
    assert!(text.get("limit").is_none() && text.get("limited_by").is_none(), "{text}");
}

#[test]
fn lost_link_time_is_a_reason_for_a_class_below_its_ideal_and_nothing_is_without_it() {
    let mut played = Played::new(tree(None), "hls");
    play(&mut played, 0, 10, [10, 0, 0, 0]);
    let earlier = played.observe();
    // Half of the time no turn is run, though frames wait.
    for part in 0..10 {
        play(&mut played, 10 + 20 * part, 10, [20, 0, 0, 0]);
        (0..20).for_each(|_| played.arrive(0, 1000));
    }
    played.turn(210_000_000);
    let mut later = played.observe();
    assert_eq!(told(&later.stats(Some(&between(&earlier, &later))), A1), None, "nothing says why");
    Arc::get_mut(&mut later.snapshot).unwrap().gateway.forfeited = Nanos(90_000_000);
    let stats = later.stats(Some(&between(&earlier, &later)));
    assert_eq!(told(&stats, A1), Some((LimitCause::Processor, None)));
    let text = serde_json::to_value(&stats.interval().unwrap().classes[A1 - 1]).unwrap();
    assert_eq!((&text["limit"], &text["limited_by"]), (&"processor".into(), &().into()));
    let again: GatewayStats = serde_json::from_value(serde_json::to_value(&stats).unwrap()).unwrap();
    assert_eq!(again, stats);
}

#[test]
fn lost_link_time_is_no_reason_for_a_class_whose_traffic_has_ended() {
    let mut played = Played::new(tree(None), "hls");
    play(&mut played, 0, 10, [1, 1, 1, 1]);
    let earlier = played.observe();
    // A burst that exceeds A1's queue, and nothing afterwards: the ideal spreads the demand over 200 ms.
    play(&mut played, 10, 20, [30, 0, 0, 1]);
    play(&mut played, 30, 180, [0, 0, 0, 1]);
    let mut later = played.observe();
    let burst = |later: &Observation| later.stats(Some(&between(&earlier, later)));
    let stats = burst(&later);
    let interval = stats.interval().unwrap().class(&stats.classes[A1 - 1].name).unwrap();
    let counts = interval.counts.unwrap();
    assert!(counts.dropped.packets > 0 && counts.queued.packets == 0, "{interval:?}");
    assert!(interval.rates.rate() < 0.9 * interval.rates.ideal_bps.unwrap(), "{interval:?}");
    Arc::get_mut(&mut later.snapshot).unwrap().gateway.forfeited = Nanos(90_000_000);
    let stats = later.stats(Some(&between(&earlier, &later)));
    assert_eq!(told(&stats, A1), None, "the burst has ended, and lost nothing because of the processor");
    assert_eq!(told(&stats, C), Some((LimitCause::Demand, None)));
    // Frames were dropped because they were late: the limit is the processor.
    let a1 = later.totals.get_mut(A1).unwrap();
    let causes = a1.counts.dropped_by.as_mut().unwrap();
    causes[DropCause::Shed] = std::mem::take(&mut causes[DropCause::QueuePackets]);
    let stats = later.stats(Some(&between(&earlier, &later)));
    assert_eq!(told(&stats, A1), Some((LimitCause::Processor, None)));
}

#[test]
fn siblings_that_wait_while_the_link_is_full_are_limited_by_the_class_above_them_also_without_an_ideal() {
    let mut played = Played::new(tree(None), "hdrr");
    play(&mut played, 0, 100, [10, 1, 5, 1]);
    let earlier = played.observe();
    play(&mut played, 100, 200, [10, 1, 5, 1]);
    let later = played.observe();
    let mut interval = between(&earlier, &later);
    let generation = &*played.generation;
    let expected = [
        (A, (LimitCause::Link, Some("link"))),
        (A1, (LimitCause::Parent, Some("1"))),
        (A2, (LimitCause::Demand, None)),
        (B, (LimitCause::Link, Some("link"))),
        (C, (LimitCause::Demand, None)),
    ];
    let check = |interval: &Interval| {
        let stats = later.stats(Some(interval));
        expected.iter().for_each(|&(class, limit)| assert_eq!(told(&stats, class), Some(limit), "{class}"));
    };
    check(&interval);
    for class in generation.tree.classes().chain([ClassId::ROOT]) {
        interval.class_mut(class).unwrap().ideal_bps = None;
    }
    interval.find_limits(&Evidence { generation, later: &later, without_pools: &[], kernel_dropped: 0 });
    check(&interval);
}

#[test]
fn a_pool_limits_its_members_and_what_is_below_them_is_limited_by_them() {
    // The first inner class of two links of 80 Mbit/s in a pool of 30.
    let mut links: Vec<Played> = (0..2)
        .map(|_| {
            let mut played = Played::new(two_levels(2, 1), "hls");
            let pool = PoolId { file: "l".to_owned(), name: "p".to_owned() };
            let bps = |bps| Rate::from_bps(bps).unwrap();
            let pooled = vec![Pooled { class: ClassId(1), base: bps(10_000_000), pool, rate: bps(30_000_000) }];
            played.generation = Arc::new(Generation { pooled, ..Generation::of_tree(two_levels(2, 1), "hls") });
            played
        })
        .collect();
    let before: Vec<Observation> = links.iter().map(Played::observe).collect();
    links.iter_mut().for_each(|link| play(link, 0, 50, [10, 1, 0, 0]));
    let after: Vec<Observation> = links.iter().map(Played::observe).collect();
    let pairs: Vec<_> = before.iter().zip(&after).map(Some).collect();
    let intervals = Interval::of_links(&pairs);
    let stats = after[0].stats(intervals[0].as_ref());
    assert_eq!(told(&stats, 1), Some((LimitCause::Pool, Some("1"))));
    assert_eq!(told(&stats, 2), Some((LimitCause::Parent, Some("1"))));
    assert_eq!(told(&stats, 4), Some((LimitCause::Demand, None)));
}

#[test]
fn a_limit_that_stays_is_told_with_its_age_across_a_reload_and_another_one_begins_anew() {
    let mut played = Played::new(tree(None), "hls");
    let mut history = LimitHistory::default();
    let mut earlier = played.observe();
    let mut step = |played: &mut Played, from: u64, frames| {
        play(played, from, 100, frames);
        let later = played.observe();
        let mut interval = between(&earlier, &later);
        history.extend(&mut interval, &played.generation);
        let stats = later.stats(Some(&interval));
        earlier = later;
        stats.interval().unwrap().class(&stats.classes[B - 1].name).unwrap().limit.clone().unwrap()
    };
    let ages: Vec<Limit> = [[10, 1, 10, 1], [10, 1, 10, 1], [10, 1, 10, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
        .into_iter()
        .enumerate()
        .map(|(at, frames)| {
            if at == 2 {
                // A reload to the same classes.
                let delays = played.generation.delays.clone();
                let again = Generation { number: 1, delays, ..Generation::of_tree(tree(None), "hls") };
                played.generation = Arc::new(again);
            }
            step(&mut played, 100 * at as u64, frames)
        })
        .collect();
    let causes: Vec<LimitCause> = ages.iter().map(|age| age.cause).collect();
    use LimitCause::{Demand, Link};
    assert_eq!(causes, [Link, Link, Link, Demand, Demand]);
    for (age, expected) in ages.iter().zip([0.1, 0.2, 0.3, 0.1, 0.2]) {
        assert!((age.limited_for_s - expected).abs() < 0.001, "{ages:?}");
    }
}
