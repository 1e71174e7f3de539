//! A link that becomes another while it runs.

use std::collections::VecDeque;

use fairlink_core::{
    ClassConfig, ClassId, DropReason, Hierarchy, Leniency, LinkConfig, Members, Nanos, QueueLimits, Rate,
    SchedulerInfo, ServiceCurve, Share,
    registry::{SCHEDULERS, find},
};
use fairlink_report::DropCause;
use fairlink_sim::{
    Change, LinkPool, Links, Observer, Options, Report, Run, Scenario, SimError, compare, compare_links, simulate,
};
use fairlink_traffic::{ArrivalCurve, ArrivalLimit, Excess, Interval, Model, PacketSize, Shaped, SourceSpec};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::common::{flat, rate, scenario, source, weighted};

/// A tree on a link of `mbps` Mbit/s: for each class its number in the scenario and that of its parent, parents first.
fn tree(mbps: u64, classes: &[(u32, u32, ClassConfig)]) -> (Hierarchy, Vec<ClassId>) {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(mbps * 1_000_000)));
    let mut numbers = vec![ClassId::ROOT];
    for &(number, parent, config) in classes {
        let parent = numbers.iter().position(|known| known.0 == parent).unwrap();
        tree.add(ClassId(parent as u32), config).unwrap();
        numbers.push(ClassId(number));
    }
    (tree.build().unwrap(), numbers)
}

fn change(at_ms: u64, (tree, classes): (Hierarchy, Vec<ClassId>)) -> Change {
    let (at, name) = (Nanos::from_millis(at_ms), "after".to_owned());
    Change { at, name, scheduler: None, tree, overhead: fairlink_core::Overhead::NONE, classes }
}

fn same(at_ms: u64, tree: &Hierarchy) -> Change {
    change(at_ms, (tree.clone(), (0..tree.len() as u32).map(ClassId).collect()))
}

fn under(name: &str, scenario: &Scenario, watch: &mut dyn Observer) -> Result<Run, SimError> {
    let options = Options { window: Some(Nanos::from_millis(70)), settle: Nanos::from_millis(100), metrics: false };
    let Report { mut runs } = compare(scenario, &[find(name).unwrap()], Leniency::Ignore, 1, &options, watch)?;
    Ok(runs.remove(0))
}

/// Follows the lengths of the packets of each class: the departing one must be the oldest.
#[derive(Default)]
struct Order {
    queues: Vec<VecDeque<u32>>,
    arrived: u64,
    sent: u64,
    removed: u64,
    /// Time and class of each arrival, and the backlog at this instant.
    watched: Option<(Nanos, usize)>,
}

impl Order {
    fn of(scenario: &Scenario) -> Self {
        Self { queues: vec![VecDeque::new(); scenario.names.len()], ..Self::default() }
    }
}

impl Observer for Order {
    fn arrived(&mut self, now: Nanos, class: ClassId, len: u32) {
        if let Some((at, queued)) = &mut self.watched
            && now < *at
        {
            *queued = self.queues.iter().map(VecDeque::len).sum();
        }
        self.queues[class.index()].push_back(len);
        self.arrived += 1;
    }

    fn dropped(&mut self, _: Nanos, class: ClassId, len: u32, reason: DropReason) {
        let queue = &mut self.queues[class.index()];
        let at = match reason {
            DropReason::ClassRemoved => 0,
            _ => queue.iter().rposition(|&other| other == len).unwrap(),
        };
        assert_eq!(queue.remove(at), Some(len), "{class:?} {reason:?}");
        self.removed += u64::from(reason == DropReason::ClassRemoved);
    }

    fn sent(&mut self, _: Nanos, _: Nanos, class: ClassId, len: u32) {
        assert_eq!(self.queues[class.index()].pop_front(), Some(len), "{class:?} out of order");
        self.sent += 1;
    }
}

struct Random(ChaCha8Rng);

impl Random {
    /// Uniform in `from ..= to`.
    fn pick(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }
}

const CLASSES: u32 = 9;

/// A tree of some of the classes 1 to 9, each below the link or one that came before it.
fn random_tree(random: &mut Random, mbps: u64, packets: u64) -> (Hierarchy, Vec<ClassId>) {
    let mut classes: Vec<(u32, u32, ClassConfig)> = Vec::new();
    for number in 1..=CLASSES {
        if random.pick(0, 3) == 0 {
            continue;
        }
        let parent = match random.pick(0, classes.len() as u64) as usize {
            0 => 0,
            at => classes[at - 1].0,
        };
        let limits = QueueLimits { packets: random.pick(packets, 3 * packets) as u32, bytes: u32::MAX };
        classes.push((number, parent, ClassConfig { limits, ..weighted(random.pick(1, 20)) }));
    }
    if classes.is_empty() {
        classes.push((1, 0, weighted(1)));
    }
    tree(mbps, &classes)
}

/// Returns the times at which each class is a leaf, in stages that last `stage_ms` each.
fn leaf_times(trees: &[(Hierarchy, Vec<ClassId>)], stage_ms: u64) -> Vec<Vec<Interval>> {
    let mut times = vec![Vec::new(); CLASSES as usize + 1];
    for (n, (tree, classes)) in trees.iter().enumerate() {
        for leaf in tree.leaves() {
            let [start, end] = [n, n + 1].map(|n| Nanos::from_millis(n as u64 * stage_ms));
            times[classes[leaf.index()].index()].push(Interval { start, end });
        }
    }
    times
}

/// Random trees one after the other, each for `stage_ms`, and sources that send while their classes are there.
fn random_changes(random: &mut Random, stages: usize, stage_ms: u64, model: impl Fn(&mut Random) -> Model) -> Scenario {
    // A class is in the first tree or added by a change; the first tree has all of them, in order.
    let all: Vec<_> = (1..=CLASSES).map(|number| (number, 0, weighted(random.pick(1, 20)))).collect();
    let mut trees = vec![tree(10, &all)];
    for _ in 1..stages {
        let mbps = random.pick(5, 20);
        trees.push(random_tree(random, mbps, 12));
    }
    let times = leaf_times(&trees, stage_ms);
    let mut sources = Vec::new();
    for (class, times) in times.into_iter().enumerate().filter(|(_, times)| !times.is_empty()) {
        if random.pick(0, 4) > 0 {
            let packet = PacketSize::Uniform { min: 64, max: 1500, header: 0 };
            sources.push(SourceSpec { class: ClassId(class as u32), model: model(random), packet, active: times });
        }
    }
    let duration = Nanos::from_millis(stages as u64 * stage_ms);
    let first = trees.remove(0).0;
    let changes = trees.into_iter().enumerate().map(|(n, tree)| change((n as u64 + 1) * stage_ms, tree)).collect();
    Scenario { changes, ..scenario(first, sources, duration) }
}

#[test]
fn nothing_is_lost_and_no_class_is_reordered_whatever_changes() {
    let (mut runs, mut removed, mut unfit, mut sent) = (0, 0, 0, 0);
    for seed in 0..60 {
        let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
        let mut scenario = random_changes(&mut random, 5, 60, |random| match random.pick(0, 2) {
            0 => Model::Greedy,
            1 => Model::cbr(rate(random.pick(500_000, 6_000_000))),
            _ => Model::poisson(rate(random.pick(500_000, 6_000_000))),
        });
        for change in &mut scenario.changes {
            let other = &SCHEDULERS[random.pick(0, SCHEDULERS.len() as u64 - 1) as usize];
            change.scheduler = (random.pick(0, 2) == 0).then_some(other);
        }
        for name in ["hls", "htb", "hfsc", "fifo", SCHEDULERS[seed as usize % SCHEDULERS.len()].name] {
            let mut order = Order::of(&scenario);
            let run = match under(name, &scenario, &mut order) {
                Ok(run) => run,
                // Some schedulers need more than weights.
                Err(SimError::Change { .. } | SimError::Build { .. }) => continue,
                Err(error) => panic!("tree {seed} under {name}: {error}"),
            };
            assert_eq!(run, under(name, &scenario, &mut ()).unwrap(), "tree {seed} under {name}");
            let mut offered = 0;
            for class in &run.classes {
                let out = class.counts().sent.packets + class.counts().dropped.packets + class.counts().queued.packets;
                assert_eq!(class.counts().received.packets, out, "tree {seed} under {name}: {class:?}");
                let number: usize = class.name[1..].parse().unwrap();
                assert_eq!(
                    class.counts().queued.packets,
                    order.queues[number].len() as u64,
                    "tree {seed} under {name}"
                );
                offered += class.counts().received.packets;
            }
            assert_eq!(offered, order.arrived);
            let counted: u64 =
                run.classes.iter().map(|class| class.counts().dropped_for(DropCause::ClassRemoved).packets).sum();
            let said = run.changes.iter().map(|change| change.removed_packets + change.split_packets).sum();
            assert_eq!((counted, order.removed), (said, said), "tree {seed} under {name}");
            runs += 1;
            removed += said;
            unfit += run.changes.iter().map(|change| change.unfit_packets).sum::<u64>();
            sent += order.sent;
        }
    }
    assert!(runs > 150 && removed > 500 && unfit > 500 && sent > 20_000, "{runs} {removed} {unfit} {sent}");
}

#[test]
fn after_a_change_hls_gives_what_the_fluid_ideal_of_the_new_tree_says() {
    let (mut compared, mut worst) = (0, 0.0f64);
    for seed in 0..40 {
        let mut random = Random(ChaCha8Rng::seed_from_u64(7_000 + seed));
        let scenario = random_changes(&mut random, 3, 4_000, |_| Model::Greedy);
        let run = under("hls", &scenario, &mut ()).unwrap();
        let ideals = scenario.ideals();
        for (phase, ideal) in run.phases.iter().zip(&ideals) {
            let link_bps = ideal[0];
            for class in &phase.classes {
                if class.rates.fair() > 0.02 * link_bps {
                    worst = worst.max((class.rates.settled() - class.rates.fair()).abs() / class.rates.fair());
                    compared += 1;
                }
            }
        }
        let rates: Vec<_> = scenario.changes.iter().map(|change| change.tree.link().rate.bps() as f64).collect();
        assert_eq!(run.changes.iter().map(|change| change.link_bps).collect::<Vec<_>>(), rates);
    }
    assert!(worst < 0.02 && compared > 200, "{worst} {compared}");
}

#[test]
fn a_change_to_the_same_link_changes_no_account() {
    let curve = |mbps| Some(ServiceCurve { m1: None, d: Nanos::ZERO, m2: Rate::from_bps(mbps * 1_000_000).ok() });
    let class = |mbps: u64| ClassConfig {
        share: Some(Share::Guarantee(rate(mbps * 1_000_000))),
        link_share: curve(mbps),
        ..ClassConfig::default()
    };
    let (tree, _) = tree(10, &[(1, 0, class(4)), (2, 1, class(1)), (3, 1, class(3)), (4, 0, class(6))]);
    // Together 24 Mbit/s of 10 for 400 ms, all of which is gone before the end.
    let burst = |number| source(number, Model::cbr(rate(8_000_000)), 1000, &[(0, 400)]);
    let plain = scenario(tree.clone(), vec![burst(2), burst(3), burst(4)], Nanos::from_secs(2));
    let changed = Scenario { changes: vec![same(150, &tree), same(300, &tree)], ..plain.clone() };
    let account = |run: &Run| -> Vec<_> {
        let classes = run.classes.iter();
        classes
            .map(|class| {
                (
                    class.counts().received.packets,
                    class.counts().sent.bytes,
                    class.counts().dropped_by,
                    class.counts().queued.packets,
                )
            })
            .collect()
    };
    for name in ["fifo", "hls", "htb", "hfsc"] {
        let mut order = Order { watched: Some((Nanos::from_millis(300), 0)), ..Order::of(&changed) };
        let after = under(name, &changed, &mut order).unwrap();
        assert!(order.watched.unwrap().1 > 400, "{name}");
        let before = under(name, &plain, &mut ()).unwrap();
        assert_eq!(account(&before), account(&after), "{name}");
        assert_eq!(
            after.classes.iter().map(|class| class.counts().sent.packets).collect::<Vec<_>>(),
            [400; 3],
            "{name}"
        );
        for done in &after.changes {
            let lost = [done.removed_packets, done.split_packets, done.unfit_packets];
            assert_eq!((done.kept_classes, done.removed_classes, done.new_classes, lost), (4, 0, 0, [0; 3]));
        }
        assert_eq!((before.link_utilisation, before.changes.len()), (after.link_utilisation, 0), "{name}");
        let note = after.notes.iter().find(|note| note.starts_with("at 0.15 s")).unwrap();
        assert_eq!(note, "at 0.15 s: after: 4 classes kept, 0 removed, 0 new");
    }
}

/// 1 (with 2 and 3 below), 4 and 5 on 10 Mbit/s become 2 (a leaf beside), 1 (now a leaf), 4 (with 6 and 7 below) on 20 Mbit/s.
fn regrouped() -> Scenario {
    let few = QueueLimits { packets: 4, bytes: u32::MAX };
    let config = |weight| weighted(weight);
    let (before, _) =
        tree(10, &[(1, 0, config(1)), (2, 1, config(1)), (3, 1, config(1)), (4, 0, config(1)), (5, 0, config(1))]);
    let after = [
        (2, 0, ClassConfig { limits: few, ..config(1) }),
        (1, 0, config(1)),
        (4, 0, config(2)),
        (6, 4, config(1)),
        (7, 4, config(1)),
    ];
    let greedy = |class, active: &[(u64, u64)]| source(class, Model::Greedy, 1000, active);
    let sources = vec![
        greedy(2, &[]),
        greedy(3, &[(0, 500)]),
        greedy(4, &[(0, 500)]),
        greedy(5, &[(0, 400)]),
        greedy(1, &[(500, 2000)]),
        greedy(6, &[(500, 2000)]),
    ];
    let names = ["link", "1", "2", "3", "4", "5", "6", "7"].map(String::from).to_vec();
    let changes = vec![change(500, tree(20, &after))];
    Scenario { names, changes, ..scenario(before, sources, Nanos::from_secs(2)) }
}

#[test]
fn classes_move_go_come_and_turn_into_leaves_and_back() {
    let scenario = regrouped();
    let run = under("hls", &scenario, &mut ()).unwrap();
    let names: Vec<_> = run.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["1", "2", "3", "4", "5", "6", "7"]);
    let inner: Vec<_> = run.inner_classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(inner, ["1", "4"]);
    let phases: Vec<_> = run.phases.iter().map(|phase| (phase.start_s, phase.end_s)).collect();
    assert_eq!(phases, [(0.0, 0.4), (0.4, 0.5), (0.5, 2.0)]);
    // 20 Mbit/s among 1, 2 and 4 in 1 : 1 : 2, of which 6 has all; 2 moved and stays, 4 is no longer a leaf.
    let last = &run.phases[2];
    let ideals: Vec<_> = last.classes.iter().map(|class| class.rates.fair() / 1e6).collect();
    assert_eq!(ideals, [5.0, 5.0, 0.0, 0.0, 0.0, 10.0, 0.0]);
    for class in last.classes.iter().chain(&last.inner_classes) {
        assert!((class.rates.settled() - class.rates.fair()).abs() <= 0.02 * 20e6, "{class:?}");
    }
    assert_eq!(last.inner_classes.iter().map(|class| class.rates.fair() / 1e6).collect::<Vec<_>>(), [0.0, 10.0]);
    let drops: Vec<_> = run.classes.iter().map(|class| class.counts().dropped.packets).collect();
    // 2 had eight packets, and its new queue holds four; 3 had eight; 4 had eight and has classes below it now; 5 was silent.
    let done = &run.changes[0];
    assert_eq!(
        (done.removed_packets, done.split_packets, done.unfit_packets),
        (drops[2] + drops[4], drops[3], drops[1])
    );
    assert!((7..=8).contains(&drops[2]) && (7..=8).contains(&drops[3]) && (3..=4).contains(&drops[1]), "{drops:?}");
    let expected = format!(
        "at 0.5 s: after: 3 classes kept, 2 removed ({} packets dropped), 2 new; 1 with classes below since ({} packets \
         dropped); {} packets dropped for which the new limits have no room",
        done.removed_packets, done.split_packets, done.unfit_packets
    );
    assert_eq!(run.notes, [expected]);
    assert_eq!((run.link_bps, done.link_bps, done.scheduler.as_str()), (10e6, 20e6, "hls"));
    // All that was sent is in the windows, which are cut at the change.
    let windows = run.windows.unwrap();
    assert!(windows.rows.iter().any(|row| row.start_s == 0.5) && windows.rows.iter().any(|row| row.end_s == 0.5));
    let bits = |name: &str| -> f64 {
        let at = windows.names.iter().position(|other| other == name).unwrap();
        windows.rows.iter().map(|row| row.rates_bps[at] * (row.end_s - row.start_s)).sum()
    };
    let sent = run.classes[5].counts().sent.bytes as f64 * 8.0;
    // The last packet may still be on the link at the end.
    assert!((0.0..=8_000.0).contains(&(sent - bits("6"))), "{sent} {}", bits("6"));
}

#[test]
fn a_class_that_comes_back_is_the_same_class_in_the_report() {
    let both = tree(10, &[(1, 0, weighted(1)), (2, 0, weighted(1))]);
    let one = tree(10, &[(1, 0, weighted(1))]);
    let sources = vec![source(1, Model::Greedy, 1000, &[]), source(2, Model::Greedy, 1000, &[(0, 300), (600, 900)])];
    let changes = vec![change(300, one), change(600, both.clone())];
    let scenario = Scenario { changes, ..scenario(both.0, sources, Nanos::from_millis(900)) };
    let run = under("hls", &scenario, &mut ()).unwrap();
    let rates: Vec<_> = run.phases.iter().map(|phase| (phase.classes[1].rates.rate() / 1e6).round()).collect();
    assert_eq!(rates, [5.0, 0.0, 5.0]);
    let class = &run.classes[1];
    assert_eq!(
        class.counts().received.packets,
        class.counts().sent.packets + class.counts().dropped.packets + class.counts().queued.packets
    );
    assert!(
        class.counts().sent.packets > 360 && class.counts().dropped_for(DropCause::ClassRemoved).packets >= 7,
        "{class:?}"
    );
}

#[test]
fn the_link_runs_at_its_new_rate_from_the_packet_after_the_change_on() {
    let tree_of = |mbps| tree(mbps, &[(1, 0, weighted(1))]);
    let sources = vec![source(1, Model::Greedy, 1000, &[])];
    // A packet takes 800 us at first and 200 us then; the one that is on the link at 2 ms leaves at 2.4 ms.
    let changes = vec![change(2, tree_of(40))];
    let scenario = Scenario { changes, ..scenario(tree_of(10).0, sources, Nanos::from_millis(4)) };
    struct Departures(Vec<u64>);
    impl Observer for Departures {
        fn sent(&mut self, _: Nanos, done: Nanos, _: ClassId, _: u32) {
            self.0.push(done.0 / 1000);
        }
    }
    for name in ["fifo", "hls", "htb"] {
        let mut departures = Departures(Vec::new());
        under(name, &scenario, &mut departures).unwrap();
        assert_eq!(departures.0, [800, 1600, 2400, 2600, 2800, 3000, 3200, 3400, 3600, 3800, 4000], "{name}");
    }
}

#[test]
fn a_change_may_bring_another_scheduler_which_then_goes_on() {
    let two = flat(10, &[1, 3]);
    let sources = vec![source(1, Model::Greedy, 1000, &[]), source(2, Model::Greedy, 1000, &[])];
    let mut to_hls = same(1000, &two);
    to_hls.scheduler = find("hls");
    let scenario = Scenario { changes: vec![to_hls, same(2000, &two)], ..scenario(two, sources, Nanos::from_secs(3)) };
    let run = under("fifo", &scenario, &mut ()).unwrap();
    let first: Vec<_> =
        run.phases.iter().map(|phase| (phase.classes[0].rates.settled() / 1e5).round() / 10.0).collect();
    assert_eq!(first, [5.0, 2.5, 2.5]);
    assert_eq!(run.changes.iter().map(|change| change.scheduler.as_str()).collect::<Vec<_>>(), ["hls", "hls"]);
    // A caller that passes its own scheduler has to pass the one after it.
    let fifo = || find("fifo").unwrap().build(&scenario.tree, Leniency::Refuse, Members::new()).unwrap();
    assert!(simulate(&scenario, "own", fifo(), &Options::default(), &mut ()).is_ok());
    let nameless = Scenario { changes: vec![same(1000, &scenario.tree)], ..scenario.clone() };
    let refused = simulate(&nameless, "own", fifo(), &Options::default(), &mut ());
    assert_eq!(refused.unwrap_err(), SimError::NoScheduler { at: Nanos::from_secs(1) });
}

#[test]
fn beside_another_link_each_changes_alone() {
    let greedy = || vec![source(1, Model::Greedy, 1000, &[]), source(2, Model::Greedy, 1000, &[])];
    let link = |changes| Scenario { changes, ..scenario(flat(10, &[1, 1]), greedy(), Nanos::from_secs(3)) };
    let first = link(vec![same(1000, &flat(10, &[1, 3]))]);
    let further = vec![("far".to_owned(), link(vec![same(2000, &flat(20, &[4, 1]))]))];
    let links = Links { first, further, pools: Vec::new(), routes: Vec::new() };
    let hls = [find("hls").unwrap()];
    let run = compare_links(&links, &hls, Leniency::Refuse, 1, &Options::default(), &mut ()).unwrap().runs.remove(0);
    let rates: Vec<Vec<f64>> = run
        .phases
        .iter()
        .map(|phase| phase.classes.iter().map(|class| (class.rates.rate() / 1e5).round() / 10.0).collect())
        .collect();
    assert_eq!(rates, [[5.0, 5.0, 5.0, 5.0], [2.5, 7.5, 5.0, 5.0], [2.5, 7.5, 16.0, 4.0]]);
    assert_eq!(run.changes.iter().map(|change| change.at_s).collect::<Vec<_>>(), [1.0, 2.0]);
}

#[test]
fn what_the_new_scheduler_ignores_is_a_note_with_its_time() {
    let config = ClassConfig { priority: Some(1), ..weighted(1) };
    let changes = vec![change(500, tree(10, &[(1, 0, config)]))];
    let sources = vec![source(1, Model::Greedy, 1000, &[])];
    let scenario = Scenario { changes, ..scenario(flat(10, &[1]), sources, Nanos::from_secs(1)) };
    let run = under("hls", &scenario, &mut ()).unwrap();
    assert_eq!(run.notes[0], "from 0.5 s on hls ignores that class C1 has a priority");
    let refused = compare(&scenario, &[find("hls").unwrap()], Leniency::Refuse, 1, &Options::default(), &mut ());
    assert!(matches!(refused.unwrap_err(), SimError::Change { index: 0, scheduler: "hls", .. }));
}

#[test]
fn a_change_that_is_refused_fails_before_anything_runs() {
    struct Silent;
    impl Observer for Silent {
        fn arrived(&mut self, now: Nanos, _: ClassId, _: u32) {
            panic!("a packet at {now}");
        }
    }
    let curve = |mbps: u64| ClassConfig {
        real_time: Some(ServiceCurve { m1: None, d: Nanos::ZERO, m2: Rate::from_bps(mbps * 1_000_000).ok() }),
        ..ClassConfig::default()
    };
    let fits = || tree(10, &[(1, 0, curve(4)), (2, 0, curve(5))]);
    let sources = vec![source(1, Model::Greedy, 1000, &[])];
    let base = scenario(fits().0, sources, Nanos::from_secs(1));
    let hfsc: [&'static SchedulerInfo; 2] = [find("fifo").unwrap(), find("hfsc").unwrap()];
    let refused = |changes: Vec<Change>| {
        let scenario = Scenario { changes, ..base.clone() };
        let run = compare(&scenario, &hfsc, Leniency::Ignore, 1, &Options::default(), &mut Silent);
        run.unwrap_err().to_string()
    };
    let too_much = change(500, tree(8, &[(1, 0, curve(4)), (2, 0, curve(5))]));
    let said = refused(vec![too_much]);
    assert!(said.starts_with("the change at 500000000 ns: hfsc: the real-time curves together ask for more"), "{said}");
    for at in [0, 1000, 2000] {
        let said = refused(vec![same(at, &base.tree)]);
        assert!(said.contains("it must come after 0 ns and before the end at 1000000000 ns"), "{said}");
    }
    let said = refused(vec![same(500, &base.tree), same(500, &base.tree)]);
    assert!(said.contains("a change at 500000000 ns: it must come after 500000000 ns"), "{said}");
    let without = change(500, tree(10, &[(2, 0, curve(5))]));
    let said = refused(vec![without]);
    assert_eq!(said, "source 0: class 1 is not a leaf from 500000000 ns on, and the source is active then");
    for classes in [vec![0, 1], vec![0, 1, 1], vec![0, 1, 3], vec![1, 0, 2]] {
        let classes: Vec<ClassId> = classes.into_iter().map(ClassId).collect();
        let said = refused(vec![Change { classes: classes.clone(), ..same(500, &base.tree) }]);
        assert!(said.contains("its classes are not among the scenario's 3"), "{classes:?}: {said}");
    }
    let unnamed = Scenario { names: ["link", "a", "b", "c"].map(String::from).to_vec(), ..base.clone() };
    let said = compare(&unnamed, &hfsc, Leniency::Ignore, 1, &Options::default(), &mut Silent).unwrap_err();
    assert_eq!(said, SimError::Names { names: 4, classes: 3 });
    let pool = LinkPool {
        name: "up".to_owned(),
        rule: fairlink_core::PoolRule::Exact,
        rate: rate(5_000_000),
        burst: 2_000,
        members: Vec::new(),
    };
    let first = Scenario { changes: vec![same(500, &base.tree)], ..base.clone() };
    let shared = Links { first, further: Vec::new(), pools: vec![pool], routes: Vec::new() };
    let said = compare_links(&shared, &hfsc, Leniency::Ignore, 1, &Options::default(), &mut Silent).unwrap_err();
    assert_eq!(said, SimError::ChangeOfPool { at: Nanos::from_millis(500) });
}

#[test]
fn what_a_shaper_holds_until_its_class_is_gone_never_reaches_the_link() {
    let bucket = ArrivalLimit::Bucket { burst: 1000, rate_bps: 100_000 };
    let shaped = Shaped {
        model: Model::poisson(rate(1_000_000)),
        curve: ArrivalCurve::new(&[bucket]).unwrap(),
        excess: Excess::Waits(None),
    };
    let first = [(1, 0, weighted(1)), (2, 0, weighted(1))];
    let (before, _) = tree(10, &first);
    let after = change(500, tree(10, &first[..1]));
    let sources =
        vec![source(1, Model::Greedy, 1000, &[]), source(2, Model::Shaped(Box::new(shaped)), 1000, &[(0, 500)])];
    let mut scenario = scenario(before, sources, Nanos::from_secs(1));
    scenario.changes.push(after);
    let run = under("hls", &scenario, &mut ()).unwrap();
    let gone = &run.classes[1];
    // 100 kbit/s are 12.5 packets a second; ten times as many came to the shaper.
    assert!((6..=8).contains(&gone.counts().received.packets), "{gone:?}");
    assert!(gone.lost_at_source_packets > Some(0), "{gone:?}");
}
