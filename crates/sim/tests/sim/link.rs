//! The simulator's guarantees under any scheduler: the link's pace, the sums, the same run from the same seed.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use crate::common::{flat, rate, run, scenario, source, weighted};
use fairlink_core::{
    Amount, ClassConfig, ClassId, Dequeued, DropReason, DropSink, Hierarchy, Leniency, LinkConfig, Nanos, Overhead,
    Packet, QueueKind, QueueLimits, Scheduler, WorkConserving,
    registry::{SCHEDULERS, find},
};
use fairlink_report::DropCause;
use fairlink_sim::{Observer, Options, Run, Scenario, SimError, compare, simulate};
use fairlink_traffic::{ArrivalCurve, ArrivalLimit, Excess, Interval, Model, PacketSize, Shaped, SourceSpec};

/// Mean time in the system of M/G/1 by Pollaczek and Khinchine, for a load of `packets_per_s` and these service times.
fn pollaczek_khinchine(packets_per_s: f64, services_s: impl Iterator<Item = f64> + Clone) -> f64 {
    let n = services_s.clone().count() as f64;
    let mean = services_s.clone().sum::<f64>() / n;
    let square = services_s.map(|s| s * s).sum::<f64>() / n;
    mean + packets_per_s * square / (2.0 * (1.0 - packets_per_s * mean))
}

#[test]
fn the_mean_delay_of_fifo_under_poisson_arrivals_is_pollaczek_khinchines() {
    for (min, max) in [(1000, 1000), (40, 700)] {
        let mean_bits = f64::from(min + max) * 4.0;
        let per_1000_s = (0.7 * 100e6 / mean_bits * 1000.0) as u64;
        let packet = PacketSize::Uniform { min, max, header: 0 };
        let poisson = SourceSpec { packet, ..source(1, Model::poisson_packets(per_1000_s), 1, &[]) };
        let seconds = 1_000_000_000 / per_1000_s;
        let mut tree = Hierarchy::builder(LinkConfig::new(rate(100_000_000)));
        let limits = QueueLimits { packets: 10_000, bytes: u32::MAX };
        tree.add(ClassId::ROOT, ClassConfig { limits, ..ClassConfig::default() }).unwrap();
        let run = run(&scenario(tree.build().unwrap(), vec![poisson], Nanos::from_secs(seconds)), "fifo").unwrap();
        assert_eq!(run.classes[0].counts().dropped.packets, 0);
        let expected =
            pollaczek_khinchine(per_1000_s as f64 / 1000.0, (min..=max).map(|len| f64::from(len) * 8.0 / 100e6));
        let measured = run.classes[0].delay().mean.unwrap();
        assert!((measured / expected - 1.0).abs() < 0.03, "{measured} s, expected {expected} s");
        assert!((run.link_utilisation - 0.7).abs() < 0.01, "{}", run.link_utilisation);
    }
}

#[test]
fn a_greedy_source_keeps_the_link_busy_without_a_gap() {
    for len in [64, 997, 1500] {
        for mbps in [1, 7, 100, 1000, 100_000] {
            let duration = Nanos(8_000_000_000 / mbps);
            let scenario = scenario(flat(mbps, &[1, 5]), vec![source(2, Model::Greedy, len, &[])], duration);
            for info in SCHEDULERS.iter().filter(|info| info.work_conserving != WorkConserving::Never) {
                let run = run(&scenario, info.name).unwrap();
                assert_eq!(run.link_utilisation, 1.0, "{} {mbps} {len}", info.name);
                let sent = run.classes[1].counts().sent.bytes as f64 * 8.0 / run.duration_s;
                let packet = f64::from(len) * 8.0 / run.duration_s;
                // The link may be given its last packet up to a nanosecond late.
                let least = run.link_bps * (1.0 - 2e-9 / run.duration_s);
                assert!(sent >= least && sent <= run.link_bps + packet, "{} {mbps} {len} {sent}", info.name);
                assert_eq!(run.classes[0].counts().sent.packets, 0);
            }
        }
    }
}

#[test]
fn delays_are_from_arrival_to_the_last_bit() {
    // 1000 B take 1 ms. Class 1 sends a packet at 0, 10, 20 .. 90 ms, class 2 at the same instants, after class 1.
    let every_10_ms = Model::cbr_packets(100_000);
    let sources = vec![source(1, every_10_ms.clone(), 1000, &[]), source(2, every_10_ms, 500, &[(0, 50)])];
    let run = run(&scenario(flat(8, &[1, 1]), sources, Nanos::from_millis(100)), "fifo").unwrap();
    let delay = |class: usize| {
        let delay = run.classes[class].delay();
        (delay.mean.unwrap(), delay.max.unwrap())
    };
    assert_eq!((delay(0), delay(1)), ((0.001, 0.001), (0.0015, 0.0015)));
    assert_eq!(run.link_utilisation, (10.0 + 2.5) / 100.0);
    assert_eq!(run.classes[0].rates.rate(), 800_000.0);
    let phases: Vec<_> =
        run.phases.iter().map(|p| (p.end_s, p.classes[0].rates.rate(), p.classes[1].rates.rate())).collect();
    assert_eq!(phases, [(0.05, 800_000.0, 400_000.0), (0.1, 800_000.0, 0.0)]);
    let ideals: Vec<_> = run.phases.iter().map(|p| (p.classes[0].rates.fair(), p.classes[1].rates.fair())).collect();
    assert_eq!(ideals, [(800_000.0, 400_000.0), (800_000.0, 0.0)]);
}

#[test]
fn every_packet_counts_with_what_the_link_adds() {
    let every_10_ms = Model::cbr_packets(100_000);
    let sources = vec![source(1, every_10_ms.clone(), 1000, &[]), source(2, Model::Greedy, 64, &[])];
    let mut scenario = scenario(flat(8, &[1, 1]), sources, Nanos::from_millis(100));
    scenario.overhead = Overhead::ETHERNET;
    let run = run(&scenario, "hls").unwrap();
    let counted: Vec<_> =
        run.classes.iter().map(|class| class.counts().sent.bytes / class.counts().sent.packets).collect();
    assert_eq!(counted, [1024, 88]);
    assert_eq!(run.phases[0].classes[0].rates.fair(), 819_200.0);
    assert_eq!((run.classes[0].rates.rate(), run.link_utilisation), (819_200.0, 1.0));
}

#[test]
fn averages_leave_the_warmup_out_and_counters_do_not() {
    let sources = vec![source(1, Model::Greedy, 1000, &[(0, 50)]), source(2, Model::Greedy, 1000, &[(60, 80)])];
    let mut scenario = scenario(flat(8, &[1, 1]), sources, Nanos::from_millis(100));
    scenario.warmup = Nanos::from_millis(60);
    let run = run(&scenario, "fifo").unwrap();
    let counted: Vec<_> = run.classes.iter().map(|class| (class.counts().sent.packets, class.rates.rate())).collect();
    // A greedy source leaves eight packets queued when it stops.
    assert_eq!(counted, [(58, 0.0), (28, 28.0 * 8000.0 / 0.04)]);
    assert_eq!(run.classes[0].delay().mean, None);
    assert_eq!(run.link_utilisation, 28.0 / 40.0);
}

fn mixed() -> Scenario {
    let uniform = PacketSize::Uniform { min: 40, max: 1400, header: 40 };
    let sources = vec![
        source(1, Model::Greedy, 1000, &[(0, 500)]),
        SourceSpec { packet: uniform.clone(), ..source(2, Model::poisson(rate(3_000_000)), 1, &[]) },
        source(3, Model::cbr(rate(4_000_000)), 300, &[(100, 900)]),
        SourceSpec { packet: uniform, ..source(3, Model::Greedy, 1, &[(700, 1000)]) },
    ];
    scenario(flat(10, &[3, 2, 1]), sources, Nanos::from_secs(1))
}

fn json(scenario: &Scenario, runs: u32) -> String {
    let all: Vec<_> = SCHEDULERS.iter().collect();
    let options = Options { window: Some(Nanos::from_millis(70)), settle: Nanos::from_millis(50), metrics: false };
    let report = compare(scenario, &all, Leniency::Refuse, runs, &options, &mut ()).unwrap();
    assert!(report.runs.iter().all(|run| run.windows.as_ref().unwrap().rows.len() == 15));
    serde_json::to_string(&report).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let mut scenario = mixed();
    let first = json(&scenario, 1);
    assert_eq!(first, json(&scenario, 1));
    scenario.seed = 2;
    let second = json(&scenario, 1);
    assert_ne!(first, second);
    scenario.seed = 1;
    let both: serde_json::Value = serde_json::from_str(&json(&scenario, 2)).unwrap();
    let of = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let runs = both["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * SCHEDULERS.len());
    for (n, pair) in runs.chunks(2).enumerate() {
        assert_eq!((&pair[0], &pair[1]), (&of(&first)["runs"][n], &of(&second)["runs"][n]));
    }
}

#[test]
fn the_json_has_the_documented_shape() {
    let json: serde_json::Value = serde_json::from_str(&json(&mixed(), 1)).unwrap();
    let run = &json["runs"][0];
    let link = &run["link"];
    assert_eq!((&link["scheduler"], &run["seed"], &run["duration_s"]), (&"fifo".into(), &1.into(), &1.0.into()));
    assert!(link["utilisation"].is_f64());
    let class = &link["classes"][1];
    for field in ["received", "sent", "dropped", "marked", "queued"] {
        assert!(class["counts"][field]["packets"].is_u64() && class["counts"][field]["bytes"].is_u64(), "{field}");
    }
    assert!(class["name"] == "C2" && class["rates"]["rate_bps"].is_f64());
    for field in ["mean", "p50", "p99", "p999", "max"] {
        assert!(class["delay_s"][field].is_f64(), "{field}");
    }
    let phases = link["spans"].as_array().unwrap();
    let ends: Vec<f64> = phases.iter().map(|phase| phase["end_s"].as_f64().unwrap()).collect();
    assert_eq!(ends, [0.1, 0.5, 0.7, 0.9, 1.0]);
    assert!(phases.iter().all(|phase| phase["kind"] == "phase"));
    let class = &phases[1]["classes"][0];
    assert!(class["name"] == "C1" && class["rates"]["rate_bps"].is_f64() && class["rates"]["fair_bps"].is_f64());
}

#[test]
fn the_windows_add_up_to_what_was_sent() {
    let scenario = mixed();
    let options = Options { window: Some(Nanos::from_millis(70)), settle: Nanos::ZERO, metrics: false };
    let fifo = find("fifo").unwrap();
    let report = compare(&scenario, &[fifo], Leniency::Refuse, 1, &options, &mut ()).unwrap();
    let windows = report.runs[0].windows.as_ref().unwrap();
    assert_eq!(
        (windows.names.as_slice(), windows.rows[14].end_s),
        (["C1", "C2", "C3"].map(String::from).as_slice(), 1.0)
    );
    for (index, class) in report.runs[0].classes.iter().enumerate() {
        let bits: f64 = windows.rows.iter().map(|row| row.rates_bps[index] * (row.end_s - row.start_s)).sum();
        assert!((bits - class.rates.rate()).abs() < 1e-3, "{bits} {}", class.rates.rate());
    }
}

#[test]
fn all_schedulers_are_offered_the_same_packets() {
    #[derive(Default)]
    struct Arrivals(Vec<(Nanos, ClassId, u32)>);
    impl Observer for Arrivals {
        fn arrived(&mut self, now: Nanos, class: ClassId, len: u32) {
            self.0.push((now, class, len));
        }
    }
    let mut scenario = mixed();
    scenario.sources.retain(|source| source.model != Model::Greedy);
    let arrivals = |name| {
        let mut seen = Arrivals::default();
        compare(&scenario, &[find(name).unwrap()], Leniency::Refuse, 1, &Options::default(), &mut seen).unwrap();
        seen.0
    };
    let of_fifo = arrivals("fifo");
    assert!(of_fifo.len() > 1000);
    for info in SCHEDULERS {
        assert_eq!(arrivals(info.name), of_fifo, "{}", info.name);
    }
}

#[test]
fn drops_are_counted_by_reason_and_add_up() {
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1000, ..LinkConfig::new(rate(8_000_000)) });
    for (packets, bytes) in [(3, u32::MAX), (1000, 2500), (5, u32::MAX)] {
        let limits = QueueLimits { packets, bytes };
        tree.add(ClassId::ROOT, ClassConfig { limits, ..weighted(1) }).unwrap();
    }
    let twice = Model::cbr(rate(16_000_000));
    let sources = vec![
        source(1, twice, 1000, &[]),
        source(2, Model::Greedy, 1000, &[]),
        source(2, Model::cbr_packets(10_000), 501, &[]),
        source(3, Model::cbr_packets(20_000), 1001, &[]),
    ];
    let scenario = scenario(tree.build().unwrap(), sources, Nanos::from_secs(1));
    for info in SCHEDULERS {
        let run = run(&scenario, info.name).unwrap();
        for class in &run.classes {
            assert_eq!(
                (class.counts().received.packets, class.counts().received.bytes),
                (
                    class.counts().sent.packets + class.counts().dropped.packets + class.counts().queued.packets,
                    class.counts().sent.bytes + class.counts().dropped.bytes + class.counts().queued.bytes
                )
            );
            assert_eq!(class.counts().dropped_by.unwrap().total(), class.counts().dropped);
        }
        let reasons: Vec<_> = run
            .classes
            .iter()
            .map(|class| class.counts().dropped_by.unwrap().iter().map(|(cause, _)| cause).collect::<Vec<_>>())
            .collect();
        let expected = [DropCause::QueuePackets, DropCause::QueueBytes, DropCause::TooLong].map(|cause| vec![cause]);
        assert_eq!(reasons, expected, "{}", info.name);
        assert_eq!((run.classes[2].counts().received.packets, run.classes[2].counts().sent.packets), (20, 0));
        // A scheduler that starves leaves may serve no queue that is kept short.
        assert!(run.classes[1].counts().sent.packets > 300 || info.promises.starves, "{:?}", run.classes[1]);
    }
}

#[test]
fn a_greedy_source_that_was_refused_comes_back() {
    // Class 1 fills the whole link's queue before class 2 starts.
    let link = LinkConfig { max_queued: 16, ..LinkConfig::new(rate(8_000_000)) };
    let mut tree = Hierarchy::builder(link);
    tree.add(ClassId::ROOT, weighted(1)).unwrap();
    tree.add(ClassId::ROOT, weighted(1)).unwrap();
    let sources =
        vec![source(1, Model::cbr(rate(9_000_000)), 1000, &[]), source(2, Model::Greedy, 1000, &[(500, 1000)])];
    let scenario = scenario(tree.build().unwrap(), sources, Nanos::from_secs(1));
    for info in SCHEDULERS {
        let run = run(&scenario, info.name).unwrap();
        assert!(run.classes[1].counts().dropped_for(DropCause::TotalPackets).packets > 0, "{}", info.name);
        assert!(
            run.classes[1].counts().sent.packets > 25 || info.promises.starves,
            "{} {:?}",
            info.name,
            run.classes[1]
        );
    }
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let good = || scenario(flat(8, &[1, 1]), vec![source(1, Model::Greedy, 1000, &[])], Nanos::from_secs(1));
    let error = |change: &dyn Fn(&mut Scenario), options: Options| {
        let mut scenario = good();
        change(&mut scenario);
        compare(&scenario, &[find("fifo").unwrap()], Leniency::Refuse, 1, &options, &mut ()).unwrap_err()
    };
    let plain = Options::default();
    let refused = |change: &dyn Fn(&mut Scenario)| error(change, plain);
    let second = Nanos::from_secs(1);
    assert_eq!(refused(&|s| s.warmup = second), SimError::NoTime { duration: second, warmup: second });
    assert_eq!(refused(&|s| s.names.truncate(1)), SimError::Names { names: 1, classes: 3 });
    assert_eq!(refused(&|s| s.sources[0].class = ClassId(3)), SimError::NotALeaf { index: 0, class: ClassId(3) });
    let text = refused(&|s| s.sources[0].packet = PacketSize::Fixed(0)).to_string();
    assert_eq!(text, "source 0: a packet of 0 B; the shortest packet has 1 B");
    assert_eq!(error(&|_| (), Options { window: Some(Nanos::ZERO), ..plain }), SimError::EmptyWindow);
    let cells = error(&|_| (), Options { window: Some(Nanos(20)), ..plain }).to_string();
    assert_eq!(cells, "150000000 rates to record (classes times windows); the limit is 8388608");
    let often = |s: &mut Scenario| {
        let switched = |n: u64| Interval { start: Nanos(2 * n), end: Nanos(2 * n + 1) };
        s.sources[0].active = (0..1_000_000).map(switched).collect();
    };
    let cells = refused(&often).to_string();
    assert_eq!(cells, "12000003 rates to record (classes times phases); the limit is 8388608");
}

#[test]
fn an_observer_can_end_the_run() {
    struct Impatient(u32);
    impl Observer for Impatient {
        fn progress(&mut self, _now: Nanos) -> ControlFlow<()> {
            self.0 += 1;
            if self.0 > 100 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let fifo = [find("fifo").unwrap()];
    let mut observer = Impatient(0);
    let error = compare(&mixed(), &fifo, Leniency::Refuse, 1, &Options::default(), &mut observer).unwrap_err();
    let SimError::Stopped { at } = error else { panic!("{error}") };
    assert!(at >= Nanos::from_millis(490) && at <= Nanos::from_millis(510), "{at}");
}

#[test]
fn a_run_can_be_ended_within_an_instant_at_which_packets_come_without_end() {
    struct Leaving;
    impl Observer for Leaving {
        fn progress(&mut self, _now: Nanos) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    let mut endless = mixed();
    // 125 TB conform at once.
    let curve = ArrivalCurve::new(&[ArrivalLimit::rate_in(fairlink_core::Rate::MAX, Nanos::from_secs(1000))]).unwrap();
    let shaped = Shaped { model: Model::Greedy, curve, excess: Excess::Waits(None) };
    endless.sources[0].model = Model::Shaped(Box::new(shaped));
    let fifo = [find("fifo").unwrap()];
    let error = compare(&endless, &fifo, Leniency::Refuse, 1, &Options::default(), &mut Leaving).unwrap_err();
    assert_eq!(error, SimError::Stopped { at: Nanos::ZERO });
}

/// A FIFO with a fault.
struct Faulty {
    queue: VecDeque<Packet>,
    fault: Fault,
    sent: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Loses,
    Shortens,
    MakesUp,
    Stands,
    Miscounts,
    /// No fault: every tenth time, all that is queued is dropped to signal congestion.
    Drops,
}

impl Scheduler for Faulty {
    fn enqueue(&mut self, _now: Nanos, packet: Packet, _drops: &mut dyn DropSink) {
        self.queue.push_back(packet);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        let Some(mut packet) = self.queue.pop_front() else { return Dequeued::Idle };
        self.sent += 1;
        match self.fault {
            Fault::Loses if self.sent == 50 => return self.dequeue(now, drops),
            Fault::Shortens if self.sent == 50 => packet.len -= 1,
            Fault::MakesUp if self.sent == 50 => packet.handle += 1000,
            Fault::Stands if self.sent >= 50 => {
                self.queue.push_front(packet);
                return Dequeued::WaitUntil(now);
            }
            Fault::Drops if self.sent.is_multiple_of(10) => {
                drops.dropped(now, packet, DropReason::Congestion);
                self.queue.drain(..).for_each(|packet| drops.dropped(now, packet, DropReason::Congestion));
                return Dequeued::Idle;
            }
            _ => {}
        }
        Dequeued::Packet(packet)
    }

    fn backlog(&self) -> Amount {
        let bytes = self.queue.iter().map(|packet| u64::from(packet.len)).sum();
        let miscount = u64::from(self.fault == Fault::Miscounts);
        Amount { packets: self.queue.len() as u64 + miscount, bytes }
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        let queue = self.queue.iter().filter(|packet| packet.class == class);
        Amount { packets: queue.clone().count() as u64, bytes: queue.map(|packet| u64::from(packet.len)).sum() }
    }

    fn purge(&mut self, _now: Nanos, _drops: &mut dyn DropSink) {
        unreachable!("the simulator does not purge");
    }
}

#[test]
fn a_faulty_scheduler_is_an_error_and_not_a_result() {
    let scenario = scenario(flat(8, &[1, 1]), vec![source(2, Model::Greedy, 1000, &[])], Nanos::from_secs(1));
    let error = |fault| {
        let faulty = Box::new(Faulty { queue: VecDeque::new(), fault, sent: 0 });
        simulate(&scenario, "faulty", faulty, &Options::default(), &mut ()).unwrap_err().to_string()
    };
    for fault in [Fault::Loses, Fault::Miscounts] {
        let said = error(fault);
        assert!(
            said.starts_with("packets were lost or invented: all classes: received ") && said.contains("1007"),
            "{said}"
        );
    }
    assert_eq!(
        [Fault::Shortens, Fault::MakesUp, Fault::Stands].map(error),
        [
            "the scheduler gave out packet 1 of class 2, which it does not hold",
            "the scheduler gave out packet 1001 of class 2, which it does not hold",
            "the scheduler made no progress at 49000000 ns",
        ]
    );
}

#[test]
fn a_greedy_source_goes_on_when_all_its_packets_are_dropped() {
    let scenario = scenario(flat(8, &[1, 1]), vec![source(2, Model::Greedy, 1000, &[])], Nanos::from_secs(1));
    let scheduler = Box::new(Faulty { queue: VecDeque::new(), fault: Fault::Drops, sent: 0 });
    let run = simulate(&scenario, "drops", scheduler, &Options::default(), &mut ()).unwrap();
    assert_eq!((run.classes[1].counts().sent.packets, run.link_utilisation), (1000, 1.0));
    assert!(run.classes[1].counts().dropped_for(DropCause::Congestion).packets > 100);
}

/// A class with a greedy source's worth of load on a megabit, and a sparse one beside it in the same class.
fn shared_class(queue: QueueKind, ecn: bool) -> Run {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(1_000_000)));
    tree.add(ClassId::ROOT, ClassConfig { queue, ecn, ..ClassConfig::default() }).unwrap();
    let heavy = source(1, Model::cbr(rate(1_050_000)), 1000, &[]);
    let light = source(1, Model::cbr(rate(8_000)), 100, &[]);
    run(&scenario(tree.build().unwrap(), vec![heavy, light], Nanos::from_secs(30)), "hls").unwrap()
}

#[test]
fn codel_ends_the_standing_queue_that_a_fifo_builds() {
    let delay = |queue| shared_class(queue, false).classes[0].delay().p50.unwrap();
    let (fifo, codel, fair) = (delay(QueueKind::Fifo), delay(QueueKind::CoDel), delay(QueueKind::FqCoDel));
    assert!(fifo > 0.5 && codel < 0.1 && fair < 0.1, "{fifo} s, {codel} s, {fair} s");
}

#[test]
fn marks_are_counted_and_a_class_that_marks_does_not_drop_until_it_is_full() {
    let (dropping, marking) = (shared_class(QueueKind::CoDel, false), shared_class(QueueKind::CoDel, true));
    let (dropping, marking) = (&dropping.classes[0], &marking.classes[0]);
    assert!(
        dropping.counts().dropped_for(DropCause::Congestion).packets > 20 && dropping.counts().marked.packets == 0,
        "{dropping:?}"
    );
    assert!(
        marking.counts().marked.packets > 20 && marking.counts().dropped_for(DropCause::Congestion).packets == 0,
        "{marking:?}"
    );
}
