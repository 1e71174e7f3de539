//! The data path behind workers, over interfaces that exist only in memory. The threads' steps are made in an order that
//! the test chooses.

use super::*;
use crate::gateway::workers::{Common, Desk, DeskEnd, PATIENCE, Sortings, Staff, Worker, hire, make};
use crate::io::clock::MonotonicClock;
use crate::io::hub::{Crew, CrewPort, MOST_UNSETTLED, OF_WORKER};
use crate::io::pacing::Pacing;
use std::collections::BTreeMap;

/// The classes of the bench, whose ports are these.
fn sortings(workers: usize, tree: &Hierarchy, ports: [u16; 2], generation: u32) -> Sortings {
    let port = |port| Match { proto: Some(UDP), dport: Some(PortRange { first: port, last: port }), ..Match::ANY };
    let [a, b] = [ClassId(1), ClassId(2)];
    let matches = [(a, port(ports[0])), (b, port(ports[1]))];
    Sortings::new(workers, tree, (&matches, b), (Overhead::NONE, 1522), generation)
}

struct Hub {
    bench: Bench<CrewPort, CrewPort>,
    workers: Vec<Worker<VirtualLink, Hands>>,
    now: u64,
}

impl Hub {
    fn new(count: usize, scheduler: &str, reverse: bool) -> Self {
        Self::patient(count, scheduler, reverse, PATIENCE)
    }

    /// As [`Hub::new`], with workers that wait so long for the data thread.
    fn patient(count: usize, scheduler: &str, reverse: bool, patience: Nanos) -> Self {
        let mut workers = Vec::new();
        let config = ClassConfig::default();
        let desk = Desk::new(count, patience);
        let more = count as u32 * OF_WORKER;
        let mut bench = bench_with((LIMIT, more), scheduler, reverse, config, |pool, hands| {
            let crew = Crew::new(count).unwrap();
            let staff = |_| Staff {
                view: pool.view(OF_WORKER as usize),
                backends: [VirtualLink::default(), VirtualLink::default()],
            };
            let common = Common { clock: hands.clone(), pacing: Pacing::Busy, reverse, desk: Arc::clone(&desk) };
            let (ports, made) = make(&crew, (0..count).map(staff).collect(), &common).unwrap();
            workers = made;
            ports
        });
        bench.data_path.expect_under_way(count * MOST_UNSETTLED);
        bench.data_path.desk = Some(DeskEnd::new(desk, &mut sortings(count, &bench.generation.tree, [5001, 5002], 0)));
        // The first turn lends frames for reception.
        let mut hub = Self { bench, workers, now: 0 };
        hub.schedule();
        hub
    }

    fn schedule(&mut self) {
        self.bench.hands.0.set(self.now);
        let _ = self.bench.data_path.turn(Nanos(self.now), &mut self.bench.driver).unwrap();
        self.bench.classes();
    }

    fn work(&mut self, worker: usize) {
        self.bench.hands.0.set(self.now);
        let worker = &mut self.workers[worker];
        worker.interfaces().into_iter().for_each(|link| link.turn += 1);
        worker.turn(Nanos(self.now));
        self.bench.classes();
    }

    fn work_all(&mut self) {
        (0..self.workers.len()).for_each(|worker| self.work(worker));
    }

    fn link(&mut self, worker: usize, side: usize) -> &mut VirtualLink {
        let [input, output] = self.workers[worker].interfaces();
        if side == 0 { input } else { output }
    }

    /// Lets all frames leave.
    fn finish(&mut self) {
        for _ in 0..400 {
            self.now += 1_000_000;
            self.work_all();
            self.schedule();
        }
        self.bench.data_path.collect_alone();
    }

    /// Sent frames of all workers, by the port of their flow.
    fn sent(&mut self) -> BTreeMap<u32, Vec<u32>> {
        let mut flows = BTreeMap::<u32, Vec<u32>>::new();
        for worker in 0..self.workers.len() {
            let sent: Vec<_> = self.link(worker, 1).sent.iter().map(|frame| Stamp::read(frame).unwrap()).collect();
            for stamp in sent {
                flows.entry(stamp.class.0).or_default().push(stamp.sequence);
            }
        }
        flows
    }
}

#[test]
fn packets_leave_in_the_order_of_one_thread_under_every_scheduler() {
    let mut tested = 0;
    for info in registry::SCHEDULERS {
        let link = LinkConfig::new(Rate::from_bps(8_000_000).unwrap());
        let mut tree = Hierarchy::builder(link);
        tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
        if info.build(&tree.build().unwrap(), Leniency::Refuse, Members::new()).is_err() {
            // It takes classes with service curves.
            continue;
        }
        tested += 1;
        let mut alone = bench(info.name, false);
        let mut hub = Hub::new(3, info.name, false);
        for step in 0..120u32 {
            hub.now = u64::from(step) * 500_000;
            // More than the link carries; of each flow at the same worker.
            for n in 0..2 {
                let number = 2 * step + n;
                let port = if number % 3 == 0 { 5001 } else { 5002 };
                let arriving = frame(port, number, 400 + (number as usize * 97) % 1000);
                alone.data_path.input.incoming.push_back(arriving.clone());
                let worker = usize::from(port == 5001);
                hub.link(worker, 0).incoming.push_back(arriving);
                // One arrival at a time, so that both see the same order.
                alone.turn(hub.now);
                hub.work(worker);
                hub.schedule();
                hub.work_all();
                hub.schedule();
            }
        }
        for step in 0..200 {
            hub.now = 60_000_000 + step * 1_000_000;
            alone.turn(hub.now);
            hub.schedule();
            hub.work_all();
            hub.schedule();
        }
        assert_eq!(alone.totals(), hub.bench.totals(), "{}", info.name);
        let mut expected = BTreeMap::<u32, Vec<u32>>::new();
        alone.sent().iter().for_each(|stamp| expected.entry(stamp.class.0).or_default().push(stamp.sequence));
        assert_eq!(expected, hub.sent(), "{}", info.name);
        assert_eq!(
            alone.generation.delays.all.tally().delay().max,
            hub.bench.generation.delays.all.tally().delay().max,
            "{}",
            info.name
        );
    }
    assert!(tested > 5, "{tested}");
}

#[test]
fn what_a_workers_interface_never_takes_is_dropped_and_named_and_what_it_takes_later_is_not() {
    let mut hub = Hub::new(2, "fifo", false);
    for worker in 0..2 {
        hub.link(worker, 1).longest = Some(500);
        hub.link(worker, 1).room = Some(0);
    }
    hub.link(0, 0).incoming.extend([frame(5001, 0, 100), frame(5001, 1, 900), frame(5001, 2, 100)]);
    for _ in 0..6 {
        hub.now += 1_000_000;
        hub.work_all();
        hub.schedule();
    }
    assert_eq!(hub.bench.totals(), [3, 0, 0, 3], "they wait at a worker, and count as queued");
    for worker in 0..2 {
        hub.link(worker, 1).room = None;
    }
    hub.finish();
    assert_eq!(hub.bench.totals(), [3, 2, 1, 0]);
    let (classes, _) = hub.bench.classes();
    assert_eq!(classes[0].counts().dropped_for(DropCause::TooLong).packets, 1);
}

#[test]
fn super_frames_of_workers_are_split_and_those_that_the_kernel_loses_are_not_counted() {
    let mut hub = Hub::new(2, "drr", true);
    let (bytes, header) = super_frames::joined(5001, 5);
    hub.link(1, 0).arrive_joined(bytes.clone(), header);
    hub.link(0, 1).arrive_joined(bytes.clone(), header);
    hub.finish();
    assert_eq!(hub.bench.totals(), [5, 5, 0, 0]);
    let back = hub.bench.data_path.reverse_stats().unwrap();
    assert_eq!((back.received.packets, back.sent.packets, back.waiting.packets), (5, 5, 0));
    let sent: usize = (0..2).map(|worker| hub.link(worker, 1).sent.len()).sum();
    assert_eq!(sent, 5);
    hub.link(1, 0).loses = true;
    hub.link(1, 0).arrive_joined(bytes, header);
    hub.finish();
    assert_eq!(hub.bench.totals(), [5, 5, 0, 0]);
}

#[test]
fn frames_at_workers_that_end_are_counted_and_come_back() {
    let mut hub = Hub::new(2, "fifo", true);
    hub.link(0, 0).incoming.extend((0..10).map(|n| frame(5001, n, 100)));
    hub.link(0, 1).room = Some(0);
    hub.link(1, 1).room = Some(0);
    for _ in 0..20 {
        hub.now += 100_000;
        hub.work_all();
        hub.schedule();
    }
    let [received, sent, _, queued] = hub.bench.totals();
    assert_eq!((received, sent, queued), (10, 0, 10));
    hub.workers.drain(..).for_each(Worker::leave);
    assert!(hub.bench.data_path.release(), "each frame is free");
    let [received, sent, dropped, queued] = {
        let (_, totals) = hub.bench.classes();
        totals
    };
    assert_eq!((received, sent, dropped + queued), (10, 0, 10));
}

#[test]
fn frames_of_the_other_direction_that_wait_leave_frames_for_the_shared_one() {
    let mut hub = Hub::new(2, "fifo", true);
    for worker in 0..2 {
        hub.link(worker, 0).room = Some(0);
        hub.link(worker, 1).incoming.extend((0..3000).map(|_| frame(1, 0, 300)));
    }
    for number in 0..200 {
        hub.link(0, 0).incoming.push_back(frame(5001, number, 100));
        hub.now += 1_000_000;
        hub.work_all();
        hub.schedule();
        hub.work_all();
        hub.schedule();
    }
    let [received, sent, ..] = hub.bench.totals();
    assert!(received == 200 && sent >= 198, "{received} {sent}");
    for worker in 0..2 {
        hub.link(worker, 0).room = None;
    }
    hub.finish();
    let stats = hub.bench.data_path.reverse_stats().unwrap();
    assert_eq!((stats.received.packets, stats.sent.packets), (6000, 6000));
}

#[test]
fn workers_do_not_forward_what_is_about_to_be_dropped_or_what_the_kernel_forwards() {
    let mut hub = Hub::new(1, "fifo", true);
    let crew = hub.bench.data_path.input.crew();
    crew.set_window(Nanos::from_millis(250));
    let pass = |hub: &mut Hub, now: u64| {
        hub.link(0, 0).incoming.push_back(frame(5001, 0, 100));
        hub.now = now;
        hub.work(0);
        hub.bench.data_path.told_alone().is_some()
    };
    hub.now = 10_000_000;
    hub.schedule();
    assert!(!pass(&mut hub, 10_900_000), "the data thread is not late");
    assert!(pass(&mut hub, 12_000_000));
    assert!(!pass(&mut hub, 261_000_000), "the kernel forwards");
    hub.schedule();
    hub.bench.data_path.input.begin_drain();
    assert!(!pass(&mut hub, 264_000_000), "it is about to be dropped");
    hub.bench.data_path.input.end_drain();
    assert!(pass(&mut hub, 265_000_000));
    // As after a pause of the whole process.
    hub.schedule();
    assert!(!pass(&mut hub, 400_000_000), "the worker has paused, too");
    crew.leave_alone();
    assert!(pass(&mut hub, 900_000_000), "the data thread has ended");
    hub.finish();
    assert_eq!(hub.bench.totals()[3], 0);
}

#[test]
fn a_worker_that_panics_ends_its_interfaces_with_the_reason() {
    let mut pool = FramePool::new(OF_WORKER, 1600).unwrap();
    let common =
        Common { clock: MonotonicClock::start(), pacing: Pacing::Precise, reverse: true, desk: Desk::new(1, PATIENCE) };
    let mut broken = VirtualLink::default();
    broken.panics = true;
    let staff = Staff { view: pool.view(OF_WORKER as usize), backends: [broken, VirtualLink::default()] };
    let mut ports = hire(vec![staff], &common, Vec::new()).unwrap();
    ports[0].crew().start();
    for port in &mut ports {
        let failure = (0..10_000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            port.receive(&mut pool, Nanos(1), BATCH, &mut Vec::new()).err()
        });
        let text = failure.expect("it fails").to_string();
        assert_eq!(text, "interface of worker 1: running its thread: the thread has panicked");
    }
    ports.iter_mut().for_each(|port| port.release(&mut pool));
    assert_eq!(pool.free(), pool.frames());
}

#[test]
fn a_drain_ends_when_the_kernel_and_all_rings_are_empty() {
    let mut hub = Hub::new(2, "fifo", false);
    hub.link(1, 0).incoming.extend((0..100).map(|n| frame(5001, n, 100)));
    hub.bench.data_path.input.begin_drain();
    assert!(!hub.bench.data_path.input.is_drained());
    hub.work(0);
    for _ in 0..2 {
        hub.work(1);
        assert!(!hub.bench.data_path.input.is_drained(), "frames are in the kernel or in a ring");
        hub.schedule();
    }
    for _ in 0..20 {
        hub.work(1);
        hub.schedule();
    }
    assert!(hub.bench.data_path.input.is_drained());
    assert_eq!(hub.bench.totals()[0], 100);
}

#[test]
fn workers_find_the_class_and_the_data_thread_does_where_they_know_another_generation() {
    let mut hub = Hub::new(1, "fifo", false);
    let arrive = |hub: &mut Hub, number: u32| {
        hub.link(0, 0).incoming.push_back(frame(5001, number, 100));
        hub.work(0);
        hub.schedule();
        let (classes, _) = hub.bench.classes();
        [0, 1].map(|class| classes[class].counts().received.packets)
    };
    // A classifier that the data thread alone has shows who has found the class.
    hub.bench.data_path.classifier = Classifier::new(&[], ClassId(2));
    assert_eq!(arrive(&mut hub, 0), [1, 0]);
    assert_eq!(arrive(&mut hub, 1), [2, 0]);
    let mut other = sortings(1, &hub.bench.generation.tree, [1, 2], 7);
    hub.link(0, 0).incoming.push_back(frame(5001, 2, 100));
    hub.work(0);
    hub.bench.data_path.desk.as_mut().unwrap().post(&mut other);
    hub.schedule();
    let (classes, _) = hub.bench.classes();
    assert_eq!([0, 1].map(|class| classes[class].counts().received.packets), [2, 1], "by the data thread");
    hub.bench.data_path.classifier = Classifier::new(&[], ClassId(1));
    assert_eq!(arrive(&mut hub, 3), [2, 2], "by the new matches of the worker");
}

#[test]
fn workers_forward_each_class_at_its_last_rate_or_its_guarantee_while_the_data_thread_stands_still() {
    const MS: u64 = 1_000_000;
    let mut hub = Hub::new(2, "hls", true);
    // 8 Mbit/s, 1000 B each ms: one class alone for 30 ms, at the rate of the link.
    let mut sequence = 0;
    hub.now = MS;
    while hub.now < 40 * MS {
        hub.link(0, 0).incoming.push_back(frame(5001, sequence, 1000));
        sequence += 1;
        for _ in 0..10 {
            hub.work_all();
            hub.schedule();
            hub.work_all();
            hub.now += MS / 10;
        }
    }
    let before = hub.sent();
    // Twice the link's rate of both, while the data thread makes no turn.
    let (began, mut back) = (hub.now, 0);
    let mut first = [None; 2];
    while hub.now < began + 100 * MS {
        for (worker, port) in [5001, 5002].into_iter().enumerate() {
            hub.link(worker, 0).incoming.extend((0..2).map(|n| frame(port, sequence + n, 1000)));
        }
        sequence += 2;
        hub.link(0, 1).incoming.push_back(frame(1, 0, 300));
        back += 1;
        for _ in 0..10 {
            hub.work_all();
            hub.now += MS / 10;
            for (place, port) in [5001, 5002].into_iter().enumerate() {
                let now = hub.sent().get(&port).map_or(0, Vec::len);
                if first[place].is_none() && now > before.get(&port).map_or(0, Vec::len) {
                    first[place] = Some(hub.now - began);
                }
            }
        }
    }
    let sent = hub.sent();
    let more = |port| sent.get(&port).map_or(0, Vec::len) - before.get(&port).map_or(0, Vec::len);
    assert!(first.into_iter().all(|first| first.is_some_and(|first| first <= 2 * MS)), "{first:?}");
    // The rate of its last window of 8.4 ms, which is the link's, and a guarantee of half the link.
    assert!((94..=104).contains(&more(5001)), "{}", more(5001));
    assert!((47..=54).contains(&more(5002)), "{}", more(5002));
    hub.finish();
    let text = hub.bench.data_path.told_alone().expect("it is told");
    assert!(text.contains("workers forwarded"), "{text}");
    let [received, sent, dropped, queued] = hub.bench.totals();
    assert_eq!((received, queued), (sent + dropped, 0));
    assert!(received >= 40 + 2 * 2 * 97, "{received}");
    let stats = hub.bench.data_path.reverse_stats().unwrap();
    assert_eq!((stats.received.packets, stats.sent.packets), (back, back));
    assert!(hub.bench.data_path.told_alone().is_none());
    // All goes through the scheduler again.
    hub.link(0, 0).incoming.push_back(frame(5001, sequence, 1000));
    let passed = hub.bench.data_path.counters.edges(ClassId(1)).passed;
    hub.finish();
    assert_eq!(hub.bench.data_path.counters.edges(ClassId(1)).passed, passed);
}

#[test]
fn super_frames_are_split_by_workers_while_the_data_thread_stands_still() {
    let mut hub = Hub::new(1, "hls", true);
    hub.now = 1_000_000;
    hub.work(0);
    hub.schedule();
    hub.now += 3_000_000;
    let (bytes, header) = super_frames::joined(5001, 5);
    hub.link(0, 0).arrive_joined(bytes.clone(), header);
    hub.link(0, 1).arrive_joined(bytes, header);
    for _ in 0..10 {
        hub.work(0);
        hub.now += 100_000;
    }
    assert_eq!(hub.link(0, 0).sent.len(), 5);
    let onward = hub.link(0, 1).sent.len() as u64;
    assert!(onward > 0, "at least what 2 ms allow");
    hub.finish();
    let [received, sent, dropped, _] = hub.bench.totals();
    assert_eq!((received, sent, dropped), (5, onward, 5 - onward));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Frames of a flow arrive at a worker; true: of the other direction.
    Arrive(u16, usize, bool),
    Work(usize),
    Schedule,
    Pass(u64),
    /// The output of a worker has room for so many frames.
    Room(usize, Option<usize>),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(super::cases()))]
    #[test]
    fn in_any_order_of_steps_each_packet_is_accounted_for_and_flows_stay_in_order(
        steps in proptest::collection::vec(
            prop_oneof![
                (0..6u16, 1..20usize, any::<bool>()).prop_map(|(flow, count, back)| Step::Arrive(flow, count, back)),
                (0..3usize).prop_map(Step::Work),
                Just(Step::Schedule),
                (0..3_000_000u64).prop_map(Step::Pass),
                (0..3usize, proptest::option::of(0..4usize)).prop_map(|(worker, room)| Step::Room(worker, room)),
            ],
            1..200,
        ),
        scheduler in proptest::sample::select(vec!["hls", "drr", "hvt", "htb", "fifo"]),
        // With the default, workers forward past the data thread, so that packets change their order.
        in_order in any::<bool>(),
    ) {
        let mut hub = Hub::patient(3, scheduler, true, if in_order { Nanos(u64::MAX / 2) } else { PATIENCE });
        let mut sequence = 0;
        let mut back = 0;
        for step in steps {
            match step {
                Step::Arrive(flow, count, false) => {
                    // A flow arrives at one worker.
                    let worker = usize::from(flow) % 3;
                    for _ in 0..count {
                        hub.link(worker, 0).incoming.push_back(frame(5001 + flow, sequence, 200));
                        sequence += 1;
                    }
                }
                Step::Arrive(flow, count, true) => {
                    back += count as u64;
                    hub.link(usize::from(flow) % 3, 1).incoming.extend((0..count).map(|_| frame(1, 0, 300)));
                }
                Step::Work(worker) => hub.work(worker),
                Step::Schedule => hub.schedule(),
                Step::Pass(time) => hub.now += time,
                Step::Room(worker, room) => hub.link(worker, 1).room = room,
            }
        }
        for worker in 0..3 {
            hub.link(worker, 1).room = None;
        }
        hub.finish();
        let [received, sent, dropped, queued] = hub.bench.totals();
        prop_assert_eq!((received, sent + dropped, queued), (u64::from(sequence), received, 0));
        let flows = hub.sent();
        prop_assert_eq!(flows.values().map(Vec::len).sum::<usize>() as u64, sent);
        for (flow, numbers) in flows {
            prop_assert!(!in_order || numbers.is_sorted(), "{}: {:?}", flow, numbers);
        }
        let stats = hub.bench.data_path.reverse_stats().unwrap();
        prop_assert_eq!((stats.received.packets, stats.sent.packets, stats.waiting.packets), (back, back, 0));
    }
}
