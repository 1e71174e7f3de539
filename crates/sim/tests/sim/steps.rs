//! A stepwise simulation gives the same result as one run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlink_core::registry::{SCHEDULERS, find};
use fairlink_core::{ClassId, Feature, Hierarchy, Leniency, LinkConfig, Nanos, Overhead};
use fairlink_sim::{
    Change, Fate, Hop, Links, Observer, Options, PacketSeen, Route, Run, Scenario, SimError, Simulation, compare_links,
};
use fairlink_traffic::{Arrival, Model, Pace, Trace};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{flat, rate, scenario, source, weighted};

const HLS: &str = "hls";

fn at(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Two links in a row with sources of several kinds, random lengths of time and seeds.
fn links(random: &mut ChaCha8Rng) -> Links {
    let duration = at(random.random_range(300..600));
    let mut on = || (random.random_range(0..200), random.random_range(200..600));
    let mut first = scenario(
        flat(5, &[3, 2, 1]),
        vec![
            source(1, Model::Greedy, 1000, &[on()]),
            source(2, Model::Poisson(Pace::Rate(rate(4_000_000))), 700, &[on()]),
            source(3, Model::cbr(rate(2_000_000)), 300, &[on()]),
        ],
        duration,
    );
    let mut second = scenario(flat(3, &[1, 1]), vec![source(1, Model::Greedy, 900, &[on()])], duration);
    (first.propagation, second.propagation) = (at(3), at(1));
    (first.seed, first.warmup) = (random.random(), at(random.random_range(0..100)));
    let hops = vec![Hop { link: 1, class: ClassId(2) }];
    let routes = vec![Route { name: "way".to_owned(), source: (0, 1), hops, regulated: None }];
    Links { first, further: vec![("b".to_owned(), second)], pools: Vec::new(), routes }
}

fn at_once(links: &Links, scheduler: &str, options: &Options) -> Run {
    let info = find(scheduler).unwrap();
    compare_links(links, &[info], Leniency::Ignore, 1, options, &mut ()).unwrap().runs.remove(0)
}

fn steps(links: &Links, scheduler: &str, options: &Options) -> Simulation<'static> {
    Simulation::new(links, find(scheduler).unwrap(), Leniency::Ignore, options).unwrap()
}

#[test]
fn many_steps_are_one_run_under_every_scheduler() {
    let mut random = ChaCha8Rng::seed_from_u64(28);
    for info in SCHEDULERS {
        for round in 0..4 {
            let links = links(&mut random);
            let window = (round % 2 == 1).then(|| at(50));
            let options = Options { window, settle: at(20), metrics: round == 2 };
            let mut simulation = steps(&links, info.name, &options);
            while !simulation.done() {
                let step = [1, 1_000, 1_000_000, 40_000_000][random.random_range(0..4)];
                let until = simulation.now().0 + random.random_range(0..=step) + 100_000;
                // Cut by time, or by work as well.
                let work = [1, 7, 1_000, u64::MAX][random.random_range(0..4)];
                simulation.step_for(Nanos(until), work).unwrap();
                if random.random_range(0..50) == 0 {
                    let _ = simulation.report();
                }
            }
            assert_eq!(simulation.report().unwrap(), at_once(&links, info.name, &options), "{} {round}", info.name);
        }
    }
}

/// Counts packets, and those that left.
struct Counted(Arc<[AtomicU64; 2]>);

impl Observer for Counted {
    fn came(&mut self, _: &PacketSeen) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    fn went(&mut self, _: &PacketSeen, _: Fate) {
        self.0[1].fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_simulation_takes_observers_of_its_own_to_another_thread() {
    let links = links(&mut ChaCha8Rng::seed_from_u64(5));
    let info = find(HLS).unwrap();
    let counted: Vec<Arc<[AtomicU64; 2]>> = (0..2).map(|_| Arc::default()).collect();
    let observers = counted.iter().map(|one| Box::new(Counted(Arc::clone(one))) as Box<dyn Observer>).collect();
    let options = Options::default();
    let mut simulation = Simulation::observed(&links, info, Leniency::Ignore, &options, observers).unwrap();
    let run = std::thread::spawn(move || {
        simulation.step_until(simulation.duration()).unwrap();
        simulation.report().unwrap()
    });
    let run = run.join().unwrap();
    assert_eq!(run, at_once(&links, HLS, &options));
    for (link, counted) in counted.iter().enumerate() {
        let own = run.classes.iter().filter(|class| class.name.starts_with("b:") == (link == 1));
        let sums = own.fold([0, 0], |[came, went], class| {
            let counts = class.counts();
            [came + counts.received.packets, went + counts.sent.packets + counts.dropped.packets]
        });
        assert_eq!([0, 1].map(|at| counted[at].load(Ordering::Relaxed)), sums, "link {link}");
        assert!(sums[0] > 10);
    }
}

#[test]
fn a_report_in_between_is_that_of_a_run_that_ends_there() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..20 {
        let mut links = links(&mut random);
        links.routes.clear();
        let options = Options { window: None, settle: at(20), metrics: true };
        let until = links.first.warmup.0 + random.random_range(1..200_000_000);
        let mut simulation = steps(&links, HLS, &options);
        simulation.step_until(Nanos(until)).unwrap();
        let mut between = simulation.report().unwrap();
        links.first.duration = Nanos(until);
        let ended = at_once(&links, HLS, &options);
        // Memory is the maximum of the whole run.
        between.memory_bound_bytes = ended.memory_bound_bytes;
        assert_eq!(between, ended, "until {until}");
    }
}

#[test]
fn what_is_offered_goes_the_way_of_packets_of_a_source() {
    let tree = || flat(1, &[1, 1]);
    let duration = at(400);
    let packets: Vec<Arrival> =
        (0..90u64).map(|n| Arrival { at: Nanos(n * 3_333_333), len: 100 + 13 * n as u32 }).collect();
    let trace = Model::Trace(Trace::new(packets.clone(), false).unwrap());
    let greedy = source(1, Model::Greedy, 500, &[]);
    let sent = scenario(tree(), vec![greedy.clone(), source(2, trace, 500, &[])], duration);
    let alone = Links::alone(scenario(tree(), vec![greedy], duration));
    for info in SCHEDULERS {
        let options = Options::default();
        let expected = at_once(&Links::alone(sent.clone()), info.name, &options);
        let mut simulation = steps(&alone, info.name, &options);
        let mut waiting = packets.iter();
        while !simulation.done() {
            for packet in waiting.by_ref().take(7) {
                simulation.offer(0, ClassId(2), packet.len, packet.at).unwrap();
            }
            simulation.step_until(waiting.as_slice().first().map_or(duration, |packet| packet.at)).unwrap();
        }
        let found = simulation.report().unwrap();
        assert_eq!(found.classes, expected.classes, "{}", info.name);
        let rates = |run: &Run| -> Vec<(f64, f64)> {
            run.phases[0]
                .classes
                .iter()
                .map(|class| (class.rates.rate_bps.unwrap(), class.rates.fair_bps.unwrap()))
                .collect()
        };
        // Without a model there is no rule; the fair rates follow from the offered amount.
        let (found, expected) = (rates(&found), rates(&expected));
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found.0 == expected.0 && (found.1 / expected.1 - 1.0).abs() < 0.4, "{found:?} {expected:?}");
        }
    }
}

/// A flat tree of two classes of the scenario and, with `third`, of one more.
fn after(third: bool) -> (Hierarchy, Vec<ClassId>) {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(7_000_000)));
    let mut classes = vec![ClassId::ROOT];
    if third {
        tree.add(ClassId::ROOT, weighted(5)).unwrap();
        classes.push(ClassId(3));
    }
    for (class, weight) in [(2, 4), (1, 1)] {
        tree.add(ClassId::ROOT, weighted(weight)).unwrap();
        classes.push(ClassId(class));
    }
    (tree.build().unwrap(), classes)
}

fn changing() -> Scenario {
    let sources = vec![source(1, Model::Greedy, 1000, &[]), source(2, Model::cbr(rate(3_000_000)), 800, &[])];
    scenario(flat(5, &[1, 1]), sources, at(500))
}

fn change(ms: u64, third: bool, scheduler: Option<&str>) -> Change {
    let (tree, classes) = after(third);
    let scheduler = scheduler.map(|name| find(name).unwrap());
    Change { at: at(ms), name: "other".to_owned(), scheduler, tree, overhead: Overhead::NONE, classes }
}

#[test]
fn a_change_by_hand_is_the_change_of_a_scenario() {
    let options = Options { settle: at(30), ..Options::default() };
    for info in SCHEDULERS.iter().filter(|info| info.supports(Feature::Hierarchy) || info.name == "drr") {
        let mut planned = changing();
        planned.changes = vec![change(100, true, None), change(300, false, Some("drr"))];
        planned.names.push("late".to_owned());
        let mut early = planned.clone();
        early.names.truncate(3);
        early.changes.clear();
        let mut simulation = steps(&Links::alone(early), info.name, &options);
        simulation.step_until(at(70)).unwrap();
        simulation.step_until(at(100)).unwrap();
        simulation.change(change(0, true, None), &["late".to_owned()]).unwrap();
        assert_eq!(simulation.names(0), ["link", "C1", "C2", "late"]);
        simulation.step_until(at(300)).unwrap();
        simulation.change(change(0, false, Some("drr")), &[]).unwrap();
        simulation.step_until(at(500)).unwrap();
        let (mut found, expected) =
            (simulation.report().unwrap(), at_once(&Links::alone(planned), info.name, &options));
        assert!(found.changes.len() == 2 && found.phases.len() == 3);
        // Former borders of phases are kept.
        found.memory_bound_bytes = expected.memory_bound_bytes;
        assert_eq!(found, expected, "{}", info.name);
    }
}

#[test]
fn what_cannot_be_is_refused_and_the_simulation_goes_on() {
    let mut simulation = steps(&Links::alone(changing()), HLS, &Options::default());
    assert_eq!(
        simulation.report().unwrap_err().to_string(),
        "nothing is measured: the duration is 0 ns, the warmup 0 ns"
    );
    simulation.step_until(at(50)).unwrap();
    let mut offer =
        |link, class, frame, ms| simulation.offer(link, ClassId(class), frame, at(ms)).unwrap_err().to_string();
    assert_eq!(
        offer(0, 1, 100, 49),
        "a packet offered at 49000000 ns: it must not come before 50000000 ns and must come before the end at 500000000 ns"
    );
    assert!(offer(0, 1, 100, 500).contains("before the end"));
    assert!(offer(0, 3, 100, 60).contains("class 3 is not a leaf then") && offer(0, 0, 100, 60).contains("class 0"));
    assert!(offer(1, 1, 100, 60).contains("there is no link 1") && offer(0, 1, 0, 60).contains("the smallest is 1 B"));
    // A class with a source is removed.
    let (mut gone, mut classes) = (Hierarchy::builder(LinkConfig::new(rate(1_000_000))), vec![ClassId::ROOT]);
    gone.add(ClassId::ROOT, weighted(1)).unwrap();
    classes.push(ClassId(1));
    let gone = Change { tree: gone.build().unwrap(), classes, ..change(0, false, None) };
    assert!(matches!(simulation.change(gone, &[]), Err(SimError::NotThere { index: 1, .. })));
    assert!(matches!(simulation.change(change(0, true, None), &[]), Err(SimError::ChangeClasses { .. })));
    simulation.change(change(0, false, None), &[]).unwrap();
    assert!(matches!(simulation.change(change(0, false, None), &[]), Err(SimError::ChangeTime { .. })));
    let options = Options { window: Some(at(10)), ..Options::default() };
    let mut recorded = steps(&Links::alone(changing()), HLS, &options);
    recorded.step_until(at(50)).unwrap();
    assert!(matches!(recorded.change(change(0, false, None), &[]), Err(SimError::ChangeOfMeasured { .. })));
    simulation.step_until(Nanos::MAX).unwrap();
    assert!(simulation.done() && simulation.report().unwrap().changes.len() == 1);
}
