//! Several cores that share a link.

use std::collections::BTreeMap;

use fairlink_core::{
    BuildError, ClassId, Cores, Hierarchy, Leniency, LinkConfig, MAX_CORES, Nanos, Split, registry, registry::find,
};
use fairlink_sim::{CoreModel, Fate, Observer, Options, PacketSeen, Run, Scenario, SimError, compare};
use fairlink_traffic::Model;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::common::{flat, rate, scenario, source, weighted};

/// The fate of each packet.
#[derive(Default)]
struct Seen {
    /// In the order of departure: the packet, its source, and when its first bit left.
    sent: Vec<(u64, u32, Nanos)>,
    dropped: u64,
}

impl Observer for Seen {
    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        match fate {
            Fate::Sent { start, .. } => self.sent.push((packet.number, packet.source, start)),
            Fate::Dropped { .. } => self.dropped += 1,
        }
    }
}

fn on(scenario: &Scenario, count: u16, split: Split, lag: Nanos) -> Scenario {
    Scenario { cores: CoreModel { cores: Cores::new(count, split), lag }, ..scenario.clone() }
}

fn seen(scenario: &Scenario, scheduler: &str) -> Result<(Run, Seen), SimError> {
    let (mut seen, info) = (Seen::default(), find(scheduler).unwrap());
    let report = compare(scenario, &[info], Leniency::Ignore, 1, &Options::default(), &mut seen)?;
    Ok((report.runs.into_iter().next().unwrap(), seen))
}

fn rates(run: &Run) -> Vec<f64> {
    run.classes.iter().map(|class| class.rates.rate_bps.unwrap() / 1e6).collect()
}

#[test]
fn a_hub_sends_what_one_core_sends_a_lag_later_under_every_scheduler() {
    let sources = |from: u64| {
        vec![
            source(1, Model::poisson(rate(30_000_000)), 700, &[(from, from + 40)]),
            source(2, Model::poisson(rate(50_000_000)), 1500, &[(from + 3, from + 30)]),
            source(3, Model::cbr(rate(60_000_000)), 200, &[(from + 5, from + 20)]),
        ]
    };
    let mut tested = 0;
    for info in registry::SCHEDULERS {
        let [now, later] = [10, 11].map(|from| scenario(flat(100, &[1, 2, 5]), sources(from), Nanos::from_millis(60)));
        let hub = match seen(&on(&now, 4, Split::Hub, Nanos::from_millis(1)), info.name) {
            Ok((_, hub)) => hub,
            Err(SimError::Build { error: BuildError::Unsupported { .. }, .. }) => continue,
            Err(error) => panic!("{}: {error}", info.name),
        };
        let (_, one) = seen(&later, info.name).unwrap();
        assert!(one.sent.len() > 100, "{}: {}", info.name, one.sent.len());
        assert_eq!((&hub.sent, hub.dropped), (&one.sent, one.dropped), "{}", info.name);
        tested += 1;
    }
    assert!(tested > 25, "{tested} schedulers");
}

/// Two classes of weights 1 and 3, whose sources are on different cores.
fn two(models: [Model; 2], split: Split) -> Run {
    let [first, second] = models;
    let sources = vec![source(1, first, 100, &[(0, 1000)]), source(2, second, 1000, &[(0, 1000)])];
    let both = scenario(flat(100, &[1, 3]), sources, Nanos::from_secs(1));
    let both = Scenario { warmup: Nanos::from_millis(100), ..both };
    seen(&on(&both, 2, split, Nanos::from_micros(100)), "hls").unwrap().0
}

#[test]
fn equal_parts_give_half_to_each_and_a_quarter_of_the_traffic_to_the_wrong_leaf() {
    for split in [Split::Equal, Split::CakeMq] {
        let run = two([Model::Greedy, Model::Greedy], split);
        let rates = rates(&run);
        assert!(rates.iter().all(|rate| (rate - 50.0).abs() < 0.1), "{split:?}: {rates:?}");
        let misplaced = run.misplaced.unwrap();
        assert_eq!(misplaced.windows.len(), 3);
        // 50 Mbit/s where 25 are fair: 25 of 100.
        assert!(misplaced.windows.iter().all(|of| (of.mean - 0.25).abs() < 0.001), "{misplaced:?}");
        assert!((misplaced.windows[2].worst - 0.25).abs() < 0.001, "{misplaced:?}");
        // 25 Mbit/s too much in 0.9 s.
        assert!((misplaced.farthest_bytes / 1e6 - 2.8125).abs() < 0.02, "{misplaced:?}");
    }
}

#[test]
fn what_a_core_leaves_is_lost_unless_the_parts_follow() {
    let little = Model::cbr(rate(10_000_000));
    for (split, greedy) in [(Split::Equal, 50.0), (Split::PerCore, 75.0), (Split::Shared, 90.0), (Split::Hub, 90.0)] {
        let rates = rates(&two([little.clone(), Model::Greedy], split));
        assert!((rates[0] - 10.0).abs() < 0.2 && (rates[1] - greedy).abs() < 0.3, "{split:?}: {rates:?}");
    }
    // A packet each 80 us makes a core of cake_mq active whenever the other looks.
    let rates = rates(&two([little, Model::Greedy], Split::CakeMq));
    assert!((rates[0] - 10.0).abs() < 0.2 && (rates[1] - 50.0).abs() < 0.3, "{rates:?}");
}

#[test]
fn shared_virtual_times_give_fair_shares_and_all_of_the_link() {
    // At 5 Gbit/s, 83 packets of 1500 B are 199 us.
    for lag in [10, 100, 199] {
        // 5 Gbit/s in three classes of 1, 2 and 3, with 4, 4 and 1 leaves.
        let mut tree = Hierarchy::builder(LinkConfig::new(rate(5_000_000_000)));
        let mut sources = Vec::new();
        for (weight, leaves) in [(1, 4), (2, 4), (3, 1)] {
            let above = tree.add(ClassId::ROOT, weighted(weight)).unwrap();
            for leaf in 0..leaves {
                let leaf = tree.add(above, weighted(1 + leaf)).unwrap();
                let times: &[(u64, u64)] = if weight == 2 { &[(0, 20), (40, 60)] } else { &[(0, 100)] };
                sources.push(source(leaf.0, Model::Greedy, 1500, times));
            }
        }
        let all = Scenario {
            warmup: Nanos::from_millis(5),
            ..scenario(tree.build().unwrap(), sources, Nanos::from_millis(100))
        };
        let (run, _) = seen(&on(&all, 4, Split::Shared, Nanos(lag * 1000)), "hls").unwrap();
        assert!(run.link_utilisation > 0.998, "lag {lag} us: {}", run.link_utilisation);
        let misplaced = run.misplaced.unwrap();
        let ten = misplaced.windows[1];
        assert!(ten.mean < 0.01, "lag {lag} us: {misplaced:?}");
        // What a core has sent stands in the interface: up to two lags, and the credit of five.
        let most = 40.0 * 1500.0 + 7.0 * lag.max(10) as f64 * 625.0;
        assert!(misplaced.farthest_bytes < most, "lag {lag} us: {misplaced:?}");
    }
}

/// Classes of weights 30 and 70 on two cores; the first is greedy with packets of `len` bytes.
fn beside_another(len: u32, lag: Nanos) -> Run {
    let other = Model::Saturating(rate(40_000_000));
    let sources = vec![source(1, Model::Greedy, len, &[]), source(2, other, len, &[])];
    let both = scenario(flat(20, &[30, 70]), sources, Nanos::from_secs(2));
    seen(&on(&both, 2, Split::Shared, lag), "hls").unwrap().0
}

#[test]
fn a_greedy_source_of_short_packets_is_backlogged_when_cores_look_seldom() {
    // Of packets of 100 B it keeps as many bytes as of the longest; with as many packets it had 21 of 30 %.
    for len in [100, 1500] {
        let run = beside_another(len, Nanos::from_millis(12));
        let [first, second] = [0, 1].map(|class: usize| run.phases[0].classes[class].rates.ideal_bps.unwrap() / 1e6);
        assert_eq!((first, second), (6.0, 14.0));
        let rates = rates(&run);
        assert!((rates[0] - 6.0).abs() < 0.15 && (rates[1] - 14.0).abs() < 0.4, "{len} B: {rates:?}");
    }
    // A thousand packets of 100 B are less than what comes in four lags.
    let run = beside_another(100, Nanos::from_millis(100));
    assert_eq!(run.phases[0].classes[0].rates.ideal_bps, None);
    let why = "C1: its queue holds 100 kB of its packets, and its core looks at it once in 100 ms; at its rate 301 kB are enough";
    assert!(run.notes.iter().any(|note| note.ends_with(why)), "{:?}", run.notes);
}

/// Wherever there is an ideal, cores that share virtual times give it. `FAIRLINK_TREES` is the number of links.
#[test]
fn cores_that_look_seldom_give_the_ideal_that_is_printed() {
    let links = std::env::var("FAIRLINK_TREES").map_or(12, |trees| trees.parse().unwrap());
    let first = std::env::var("FAIRLINK_SEED").map_or(0, |seed| seed.parse().unwrap());
    let (mut computed, mut worst) = (0, (0.0f64, String::new()));
    for seed in first..first + links {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut pick = |from: u64, to: u64| from + random.next_u64() % (to - from + 1);
        let lag = Nanos(10u64.pow(pick(4, 6) as u32) * pick(1, 30));
        let weights: Vec<u64> = (0..pick(2, 5)).map(|_| pick(1, 20)).collect();
        let mut source = |class: usize| {
            let len = [64, 200, 700, 1500][pick(0, 3) as usize];
            let model = match pick(0, 2) {
                0 => Model::Saturating(rate(40_000_000)),
                1 => Model::cbr(rate(100_000 * pick(1, 60))),
                _ => Model::Greedy,
            };
            source(class as u32 + 1, model, len, &[])
        };
        let sources = (0..weights.len()).map(&mut source).collect();
        let all = scenario(flat(20, &weights), sources, Nanos(lag.0 * 400 + 1_000_000_000));
        let cores = on(&all, 1 + pick(1, 3) as u16, Split::Shared, lag);
        let options = Options { settle: Nanos(lag.0 * 20 + 100_000_000), ..Options::default() };
        let run =
            compare(&cores, &[find("hls").unwrap()], Leniency::Ignore, 1, &options, &mut ()).unwrap().runs.remove(0);
        for class in &run.phases[0].classes {
            let Some(ideal) = class.rates.ideal_bps else { continue };
            computed += 1;
            // Four looks more or less, and a few packets.
            let edge = ideal * 4.0 / 380.0 + 8.0 * 12_000.0;
            let off = ((class.rates.settled() - ideal).abs() - edge).max(0.0) / ideal.max(20_000.0);
            if off > worst.0 {
                let models: Vec<_> = cores.sources.iter().map(|source| (&source.model, &source.packet)).collect();
                let (name, measured) = (&class.name, class.rates.settled());
                worst = (
                    off,
                    format!(
                        "seed {seed}, {:?}, weights {weights:?}, {models:?}: {name} {measured} of {ideal}",
                        cores.cores
                    ),
                );
            }
        }
    }
    println!("{computed} classes with an ideal, {:.2} % off at most: {}", 100.0 * worst.0, worst.1);
    assert!(computed as u64 > links && worst.0 < 0.02, "{computed}: {worst:?}");
}

/// Of three classes with one hub each for two and one, the load of which changes: fair shares, and all of the link.
#[test]
fn several_hubs_give_fair_shares_while_classes_move() {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(5_000_000_000)));
    let mut sources = Vec::new();
    for (weight, times) in [(1, &[(0, 100)][..]), (2, &[(0, 40)]), (3, &[(30, 100)]), (4, &[(60, 100)])] {
        let above = tree.add(ClassId::ROOT, weighted(weight)).unwrap();
        for leaf in 0..3 {
            let leaf = tree.add(above, weighted(1 + leaf)).unwrap();
            sources.push(source(leaf.0, Model::Greedy, 1500, times));
        }
    }
    let all =
        Scenario { warmup: Nanos::from_millis(5), ..scenario(tree.build().unwrap(), sources, Nanos::from_millis(100)) };
    for hubs in [2, 3] {
        let mut model = on(&all, 5, Split::Hub, Nanos::from_micros(20));
        model.cores.cores.hubs = hubs;
        let (run, seen) = seen(&model, "hls").unwrap();
        assert_eq!((run.scheduler.as_str(), seen.dropped), ("hubs", 0));
        assert!(run.link_utilisation > 0.998, "{hubs} hubs: {}", run.link_utilisation);
        let misplaced = run.misplaced.unwrap();
        assert!(misplaced.windows[1].mean < 0.01, "{hubs} hubs: {misplaced:?}");
    }
}

#[test]
fn one_core_is_close_to_the_ideal_and_greedy_sources_do_not_bend_it() {
    let sources = vec![
        source(1, Model::Greedy, 1000, &[(0, 400), (600, 1000)]),
        source(1, Model::Greedy, 1000, &[(300, 700)]),
        source(2, Model::Greedy, 1000, &[(200, 500)]),
        source(3, Model::cbr(rate(5_000_000)), 500, &[(0, 1000)]),
    ];
    let all = scenario(flat(100, &[1, 3, 4]), sources, Nanos::from_secs(1));
    let options = Options { metrics: true, ..Options::default() };
    let report = compare(&all, &[find("hls").unwrap()], Leniency::Refuse, 1, &options, &mut ()).unwrap();
    let misplaced = report.runs[0].misplaced.clone().unwrap();
    assert!(misplaced.windows[2].mean < 0.001, "{misplaced:?}");
    assert!(misplaced.farthest_bytes < 5_000.0, "{misplaced:?}");
}

#[test]
fn what_cores_cannot_share_is_refused() {
    let plain = scenario(flat(100, &[1]), vec![source(1, Model::Greedy, 1000, &[])], Nanos::from_millis(10));
    let refused = |scenario: &Scenario| match seen(scenario, "hls").map(|_| ()) {
        Err(error @ SimError::Cores { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(&on(&plain, 2, Split::Equal, Nanos::ZERO)),
        "2 cores, split \"equal\": a lag of 0 is that of one core"
    );
    let mut limited = Hierarchy::builder(LinkConfig::new(rate(1_000_000)));
    limited.add(ClassId::ROOT, fairlink_core::ClassConfig { latency_critical: true, ..weighted(1) }).unwrap();
    let limited = scenario(limited.build().unwrap(), Vec::new(), Nanos::from_millis(10));
    let text = refused(&on(&limited, 2, Split::Shared, Nanos::from_micros(10)));
    assert!(text.starts_with("2 cores, split \"shared\": class C1 has latency_critical"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn no_packet_is_lost_and_flows_stay_in_order_whatever_the_split(
        count in 1u16..9,
        split in prop::sample::select(Split::ALL.to_vec()),
        hubs in 1u16..5,
        scheduler in prop::sample::select(vec!["hls", "hvt", "htb", "hfsc", "drr", "hpfq", "fifo"]),
        lag in 1u64..300_000,
        weights in prop::collection::vec(1u64..20, 1..6),
        load in prop::collection::vec((1u64..40, 64u32..1500, any::<bool>()), 1..9),
        buffer in 2u32..60,
    ) {
        let mut tree = Hierarchy::builder(LinkConfig { max_queued: 4 * buffer, ..LinkConfig::new(rate(100_000_000)) });
        for &weight in &weights {
            let limits = fairlink_core::QueueLimits { packets: buffer, ..fairlink_core::QueueLimits::default() };
            tree.add(ClassId::ROOT, fairlink_core::ClassConfig { limits, ..weighted(weight) }).unwrap();
        }
        let sources = load.iter().enumerate().map(|(at, &(mbps, len, greedy))| {
            let class = 1 + (at % weights.len()) as u32;
            let model = if greedy { Model::Greedy } else { Model::poisson(rate(mbps * 1_000_000)) };
            source(class, model, len, &[(0, 20), (30, 50)])
        });
        let all = scenario(tree.build().unwrap(), sources.collect(), Nanos::from_millis(60));
        // The run itself checks that received = sent + dropped + queued, by class.
        let mut model = on(&all, count, split, Nanos(lag));
        if split == Split::Hub {
            model.cores.cores.hubs = hubs.min(count - 1).max(1);
        }
        let (run, seen) = seen(&model, scheduler).unwrap();
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        for &(number, source, _) in &seen.sent {
            let before = last.insert(source, number);
            prop_assert!(before.is_none_or(|before| before < number), "source {source}: {number} behind {before:?}");
        }
        let counted: u64 = run.classes.iter().filter_map(|class| class.counts.as_ref()).map(|c| c.sent.packets).sum();
        prop_assert_eq!(counted, seen.sent.len() as u64);
        prop_assert!(run.classes.len() == weights.len() && count <= MAX_CORES);
    }
}
