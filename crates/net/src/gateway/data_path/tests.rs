//! The data path over interfaces that exist only in memory.

use super::*;
use crate::gateway::account::{Generation, Observation, Snapshot};
use crate::gateway::early::Early;
use crate::gateway::trace;
use crate::io::bpf::tests::{allowed, run};
use crate::io::virtual_link::VirtualLink;
use crate::wire::checksum::{self, Unfinished};
use crate::wire::frame::{FrameTemplate, Headers, Stamp};
use crate::wire::virtio::{JOINED_UDP, VirtioHeader};
use fairlink_config::matching::{Match, PortRange, UDP};
use fairlink_core::{
    Amount, ClassConfig, ClassId, Feature, Hierarchy, HostKey, Hosts, Leniency, LinkConfig, Members, Metered, Pacer,
    QueueKind, QueueLimits, Rate, registry,
};
use fairlink_report::{ClassReport, DropCause};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// The time, and the cost of each reading.
#[derive(Clone, Debug, Default)]
struct Hands(Rc<Cell<u64>>, Rc<Cell<u64>>);

impl Clock for Hands {
    fn now(&self) -> Nanos {
        Nanos(self.0.replace(self.0.get() + self.1.get()))
    }
}

type TestPath = DataPath<VirtualLink, VirtualLink, Hands>;

struct Bench<I = VirtualLink, O = VirtualLink> {
    data_path: DataPath<I, O, Hands>,
    driver: Driver<Metered<Box<dyn Scheduler>>>,
    generation: Arc<Generation>,
    hands: Hands,
}

const LIMIT: u32 = 20;

/// Number of cases of the two property tests that take longest: half of them in a short run.
fn cases() -> u32 {
    if std::env::var_os("FAIRLINK_LONG").is_some() { 64 } else { 32 }
}

fn bench(scheduler: &str, reverse: bool) -> Bench {
    bench_of(scheduler, reverse, ClassConfig::default())
}

/// Two classes by port 5001 and 5002, the second also the default, on 8 Mbit/s: 1000 B take 1 ms.
fn bench_of(scheduler: &str, reverse: bool, config: ClassConfig) -> Bench {
    bench_holding(LIMIT, scheduler, reverse, config)
}

/// As [`bench_of`], with queues of up to this number of packets.
fn bench_holding(packets: u32, scheduler: &str, reverse: bool, config: ClassConfig) -> Bench {
    bench_with((packets, 0), scheduler, reverse, config, |_, _| [VirtualLink::default(), VirtualLink::default()])
}

/// As [`bench_holding`], with this number of further frames, and interfaces for a pool and a clock.
fn bench_with<B: Backend>(
    (packets, more): (u32, u32),
    scheduler: &str,
    reverse: bool,
    config: ClassConfig,
    interfaces: impl FnOnce(&FramePool, &Hands) -> [B; 2],
) -> Bench<B, B> {
    let link = LinkConfig::new(Rate::from_bps(8_000_000).unwrap());
    let mut tree = Hierarchy::builder(link);
    let limits = QueueLimits { packets, ..QueueLimits::default() };
    let class =
        |tree: &mut fairlink_core::HierarchyBuilder| tree.add(ClassId::ROOT, ClassConfig { limits, ..config }).unwrap();
    let (a, b) = (class(&mut tree), class(&mut tree));
    let tree = tree.build().unwrap();
    let port = |port| Match { proto: Some(UDP), dport: Some(PortRange { first: port, last: port }), ..Match::ANY };
    let info = registry::find(scheduler).unwrap();
    let scheduler = info.build(&tree, Leniency::Refuse, Members::new()).unwrap();
    let hands = Hands::default();
    let generation = Arc::new(Generation::of_tree(tree.clone(), info.name));
    let pool = FramePool::new(2 * packets + TestPath::RESERVE + more, 1600).unwrap();
    let [input, output] = interfaces(&pool, &hands);
    let data_path = DataPath::new(
        pool,
        input,
        output,
        hands.clone(),
        Classifier::new(&[(a, port(5001)), (b, port(5002))], b),
        Labels::new(&tree).unwrap(),
        Overhead::NONE,
        Lengths { frame: link.max_packet, piece: 0 },
        EdgeCounters::new(generation.delays.clone()),
        QueueLengths::new(&tree, link.max_packet),
        Splitter::new(tree.len()),
        reverse,
    );
    Bench {
        data_path,
        driver: Driver::new(Metered::new(scheduler, &tree).unwrap(), Pacer::new(link.rate, Nanos::ZERO)).unwrap(),
        generation,
        hands,
    }
}

fn frame(port: u16, sequence: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    let stamp = Stamp { run: 0, class: ClassId(u32::from(port)), sequence, monotonic_ns: 0, realtime_us: 0 };
    FrameTemplate::new(&Headers::udp(port)).write(&mut frame, &stamp);
    frame
}

impl<I: Backend, O: Backend> Bench<I, O> {
    /// Returns the account of all classes; panics if a class or the pool is not balanced.
    fn classes(&self) -> (Vec<ClassReport>, [u64; 4]) {
        let Self { data_path, driver, generation, .. } = self;
        let scheduler = driver.scheduler();
        let mut snapshot = Snapshot::new(Arc::clone(generation));
        snapshot.copy(0..generation.tree.len(), self.hands.now(), data_path, scheduler);
        snapshot.gateway.pool_agrees = data_path.pool_agrees(scheduler.backlog().packets);
        let stats = Observation::new(Arc::new(snapshot)).stats(None);
        assert!(stats.gateway().balanced, "{stats:?}");
        let totals = [stats.counts().received, stats.counts().sent, stats.counts().dropped, stats.counts().queued];
        for &leaf in generation.tree.leaves() {
            let first = data_path.queues.packets(leaf) - u64::from(data_path.queues.further(leaf));
            assert_eq!(first, scheduler.class_backlog(leaf).packets);
        }
        assert_eq!(scheduler.check_invariants(), Ok(()));
        (stats.0.classes, totals.map(|amount| amount.packets))
    }

    /// Received, sent, dropped and queued packets of all classes.
    fn totals(&self) -> [u64; 4] {
        self.classes().1
    }
}

impl Bench {
    fn turn(&mut self, now: u64) {
        let _ = self.wake(now);
    }

    fn wake(&mut self, now: u64) -> Wake {
        self.hands.0.set(now);
        self.data_path.input.turn += 1;
        self.data_path.output.turn += 1;
        self.data_path.turn(Nanos(now), &mut self.driver).unwrap().1
    }

    /// Checks that no frame has two owners, and that frames owned by interfaces are unchanged. Returns the number that
    /// interfaces own.
    fn check_owners(&self) -> usize {
        let DataPath { pool, input, output, outgoing, back, .. } = &self.data_path;
        let accepted = [input.accepted(pool), output.accepted(pool)].concat();
        let waiting = outgoing.iter().map(|packet| packet.handle as u32).chain(back.iter().copied());
        let mut frames: Vec<u32> = accepted.iter().copied().chain(waiting).collect();
        let owners = frames.len();
        frames.sort_unstable();
        frames.dedup();
        assert_eq!(frames.len(), owners, "a frame has two owners");
        accepted.len()
    }

    fn sent(&self) -> Vec<Stamp> {
        self.data_path.output.sent.iter().map(|frame| Stamp::read(frame).unwrap()).collect()
    }
}

#[test]
fn frames_leave_unchanged_at_the_pace_of_the_link_and_in_order_within_a_class() {
    let mut bench = bench("hls", false);
    let frames: Vec<_> = (0..10).map(|n| frame(if n % 2 == 0 { 5001 } else { 5002 }, n, 1000)).collect();
    bench.data_path.input.incoming.extend(frames.clone());
    for millis in 0..10 {
        let wake = bench.wake(millis * 1_000_000);
        assert_eq!(bench.data_path.output.sent.len() as u64, millis + 1);
        assert_eq!(wake, Wake::At(Nanos((millis + 1) * 1_000_000)));
    }
    assert_eq!(bench.wake(10_000_000), Wake::OnArrival);
    assert_eq!(bench.totals(), [10, 10, 0, 0]);
    let mut sent = bench.data_path.output.sent.clone();
    sent.sort();
    let mut sorted = frames;
    sorted.sort();
    assert_eq!(sent, sorted);
    for port in [5001, 5002] {
        let order: Vec<u32> =
            bench.sent().iter().filter(|stamp| stamp.class == ClassId(port)).map(|stamp| stamp.sequence).collect();
        assert!(order.is_sorted(), "{order:?}");
    }
    // The last frame has waited for the nine before it.
    assert_eq!(bench.generation.delays.all.tally().delay().max, Some(0.009));
}

#[test]
fn a_profile_has_every_turn_in_which_something_moved_and_each_of_its_stages_once() {
    let mut bench = bench("hls", true);
    bench.data_path.sample_every = 1;
    bench.hands.1.set(10);
    bench.data_path.input.incoming.extend((0..5).map(|n| frame(5001, n, 1000)));
    for millis in 0..5 {
        bench.turn(millis * 1_000_000);
    }
    // No frame moves in these turns.
    (5..9).for_each(|millis| bench.turn(millis * 1_000_000));
    let sampled = bench.data_path.sampled;
    assert_eq!((sampled.turns, sampled.received, sampled.sent), (5, 5, 5));
    // From one look at the clock to the next. Packets came in the first turn only.
    assert_eq!((sampled.receive, sampled.classify, sampled.enqueue), (50, 50, 10));
    // One reading more if the output accepts frames.
    assert_eq!((sampled.send, sampled.reverse), (100, 50));
    assert_eq!(sampled.total, sampled.dequeue() + 260);
    assert!(sampled.dequeue() > 0);
}

#[test]
fn a_busy_output_holds_frames_back_and_loses_none() {
    let mut bench = bench("fifo", false);
    bench.data_path.input.incoming.extend((0..12).map(|n| frame(5001, n, 100)));
    bench.data_path.output.room = Some(3);
    let mut now = 0;
    for _ in 0..40 {
        bench.turn(now);
        now += 1_000_000;
        // Frames that the link may not send yet stay in their queue, where the scheduler decides.
        assert!(bench.data_path.outgoing_packets() <= 1);
    }
    assert_eq!(bench.totals(), [12, 3, 0, 9]);
    assert!(bench.data_path.onward.busy > 0 && !bench.data_path.is_flushed());
    bench.data_path.output.room = None;
    for _ in 0..20 {
        bench.turn(now);
        now += 1_000_000;
    }
    assert_eq!(bench.totals(), [12, 12, 0, 0]);
    assert!(bench.sent().iter().map(|stamp| stamp.sequence).eq(0..12));
}

#[test]
fn what_the_output_never_takes_is_dropped_and_named() {
    let mut bench = bench("fifo", false);
    bench.data_path.input.incoming.extend([frame(5001, 0, 100), frame(5001, 1, 900), frame(5001, 2, 100)]);
    bench.data_path.output.longest = Some(500);
    for millis in 0..5 {
        bench.turn(millis * 1_000_000);
    }
    assert_eq!(bench.totals(), [3, 2, 1, 0]);
    let (classes, _) = bench.classes();
    assert_eq!(classes[0].counts().dropped_for(DropCause::TooLong), Amount { packets: 1, bytes: 900 });
}

#[test]
fn too_long_and_cut_short_frames_are_counted_drops() {
    let mut bench = bench("hls", false);
    // Longer than the link's largest, than the pool's frames, shorter than a header, and not IP at all.
    bench.data_path.input.incoming.extend([frame(5001, 0, 1501), vec![9; 5000], vec![1; 13], vec![], vec![7; 60]]);
    for millis in 0..3 {
        bench.turn(millis * 1_000_000);
    }
    assert_eq!(bench.totals(), [5, 1, 4, 0]);
    let (classes, _) = bench.classes();
    assert_eq!(classes[0].counts().dropped_for(DropCause::TooLong).packets, 1);
    assert_eq!(classes[1].counts().dropped_for(DropCause::TooLong).packets, 1);
    assert_eq!(classes[1].counts().dropped_for(DropCause::Runt).packets, 2);
    assert_eq!(classes[1].counts().sent.packets, 1);
}

#[test]
fn the_other_direction_passes_unshaped_and_waits_for_a_busy_input() {
    let mut bench = bench("hls", true);
    let frames: Vec<_> = (0..200).map(|n| frame(9, n, 1400)).collect();
    bench.data_path.output.incoming.extend(frames.clone());
    bench.data_path.input.room = Some(100);
    for millis in 0..10 {
        bench.turn(millis * 1_000_000);
    }
    let stats = bench.data_path.reverse_stats().unwrap();
    assert_eq!((stats.sent.packets, stats.dropped.packets), (100, 0));
    assert_eq!(stats.received.packets, 100 + stats.waiting.packets);
    assert!(stats.waiting.packets <= BATCH as u64, "{stats:?}");
    assert_eq!(bench.data_path.output.incoming.len() as u64, 100 - stats.waiting.packets);
    bench.data_path.input.room = None;
    for millis in 10..20 {
        bench.turn(millis * 1_000_000);
    }
    assert_eq!(bench.data_path.input.sent, frames);
    assert_eq!(bench.totals(), [0; 4]);
}

#[test]
fn an_active_queue_marks_frames_that_allow_it_and_drops_the_others() {
    let config = ClassConfig { queue: QueueKind::CoDel, ecn: true, ..ClassConfig::default() };
    let mut bench = bench_of("hls", false, config);
    for millis in 0..900u32 {
        // A class whose frames have ECT, another whose frames do not; together slightly above the link's rate.
        for port in [5001, 5002] {
            if millis % 9 < 5 {
                let mut bytes = frame(port, millis, 1000);
                if port == 5001 {
                    // Changes the header's checksum as expected: by two.
                    bytes[15] |= 2;
                    let sum = u16::from_be_bytes([bytes[24], bytes[25]]);
                    bytes[24..26].copy_from_slice(&(sum - 2).to_be_bytes());
                }
                bench.data_path.input.incoming.push_back(bytes);
            }
        }
        bench.turn(u64::from(millis) * 1_000_000);
    }
    bench.totals();
    let (classes, _) = bench.classes();
    let (capable, other) = (&classes[0], &classes[1]);
    assert!(
        capable.counts().marked.packets > 0 && capable.counts().dropped_for(DropCause::Congestion) == Amount::ZERO,
        "{capable:?}"
    );
    assert!(
        other.counts().marked.packets == 0 && other.counts().dropped_for(DropCause::Congestion).packets > 0,
        "{other:?}"
    );
    let header = |frame: &Vec<u8>| etherparse::Ipv4Header::from_slice(&frame[14..]).unwrap().0;
    let sent: Vec<_> = bench.data_path.output.sent.iter().map(header).collect();
    assert!(sent.iter().all(|header| header.header_checksum == header.calc_header_checksum()));
    let marked = sent.iter().filter(|header| header.ecn.value() == 3).count() as u64;
    // The last one may still be the next to leave.
    assert!(marked == capable.counts().marked.packets || marked + 1 == capable.counts().marked.packets, "{marked}");
}

#[test]
fn hosts_of_a_class_share_it_equally_whatever_they_send() {
    for (scheduler, queue) in [("hls", QueueKind::Fifo), ("htb", QueueKind::FqCoDel), ("drr", QueueKind::CoDel)] {
        let config = ClassConfig { queue, hosts: Hosts::new(10, HostKey::SourceIp), ..ClassConfig::default() };
        let mut bench = bench_of(scheduler, false, config);
        let from = |host: u8, sequence| {
            let mut bytes = frame(5001, sequence, 1000);
            // The last byte of the source address, and for each frame another source port.
            bytes[29] = host;
            bytes[35] = sequence as u8;
            bytes
        };
        // The link sends one frame per turn. One host sends eight per turn, one sends one, one sends one in six turns.
        for millis in 0..600u32 {
            let mut frames: Vec<_> = (0..8).map(|n| from(1, 8 * millis + n)).collect();
            frames.push(from(2, millis));
            frames.extend((millis % 6 == 0).then(|| from(3, millis / 6)));
            bench.data_path.input.incoming.extend(frames);
            bench.turn(u64::from(millis) * 1_000_000);
        }
        let sent = |host: u8| bench.data_path.output.sent.iter().filter(|frame| frame[29] == host).count();
        let (flood, busy, sparse) = (sent(1), sent(2), sent(3));
        assert!((98..=100).contains(&sparse), "{scheduler}: {sparse}");
        assert!(flood.abs_diff(busy) <= 3 && flood + busy + sparse >= 598, "{scheduler}: {flood} {busy} {sparse}");
        bench.totals();
    }
}

#[test]
fn a_class_within_its_share_loses_nothing_while_another_floods_the_kernels_buffer() {
    for scheduler in ["hls", "drr", "htb"] {
        let mut bench = bench(scheduler, false);
        bench.data_path.input.buffer = Some(2000);
        // The link sends one frame per turn. One class sends a frame in every fifth turn. The other sends 400 short
        // ones in every turn, more than six batches.
        for millis in 0..500u32 {
            for n in 0..400 {
                if n == 200 && millis % 5 == 0 {
                    bench.data_path.input.arrive(frame(5001, millis / 5, 100));
                }
                bench.data_path.input.arrive(frame(5002, 400 * millis + n, 64));
            }
            bench.turn(u64::from(millis) * 1_000_000);
        }
        let waiting = bench.data_path.input.incoming.len();
        bench.totals();
        let (classes, _) = bench.classes();
        let (calm, flood) = (&classes[0], &classes[1]);
        assert_eq!(bench.data_path.input.overflow, 0, "{scheduler}");
        assert!(waiting < 2000, "{scheduler}: {waiting}");
        assert_eq!(calm.counts().dropped.packets, 0, "{scheduler}: {calm:?}");
        assert!(calm.counts().sent.packets >= 90, "{scheduler}: {calm:?}");
        assert!(flood.counts().dropped_for(DropCause::Shed).packets > 100_000, "{scheduler}: {flood:?}");
        // It still gets the rest of the link.
        assert!(flood.counts().sent.packets >= 399, "{scheduler}: {flood:?}");
    }
}

#[test]
fn the_kernel_drops_a_flood_that_is_more_than_is_fetched_and_nothing_of_a_class_within_its_share() {
    // From one source, and each frame from another.
    for random in [false, true] {
        let Some(early) = allowed(Early::load()) else { return };
        let [with, without] = [true, false].map(|drops| {
            let mut bench = bench("hls", false);
            bench.data_path.input.buffer = Some(4000);
            bench.data_path.early = drops.then(|| early.drops(3, &Overhead::NONE, 4000).unwrap());
            let mut seed = 7u32;
            for millis in 0..200u32 {
                // More than 17 batches in each turn, once the calm class is known.
                for n in 0..if millis < 20 { 10 } else { 1500 } {
                    let place = if millis < 20 { 5 } else { 1200 };
                    let mut bytes = match n == place && millis % 5 == 0 {
                        true => frame(5001, millis / 5, 100),
                        false => frame(5002, 1500 * millis + n, 64),
                    };
                    if random && bytes.len() == 64 {
                        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        bytes[26..30].copy_from_slice(&seed.to_be_bytes());
                    }
                    // The kernel's own program decides, on the bytes behind an Ethernet header.
                    if !drops || run(early.filter(), &[&[0; 14], &bytes[..]].concat()).unwrap() != 0 {
                        bench.data_path.input.arrive(bytes);
                    }
                }
                bench.turn(u64::from(millis) * 1_000_000);
                bench.classes();
            }
            // The rest of the kernel's buffer.
            for millis in 200..500 {
                bench.turn(millis * 1_000_000);
            }
            if let Some(early) = &mut bench.data_path.early {
                early.count_all(&mut bench.data_path.counters);
                assert!(!random || early.unknown().packets > 50_000, "{:?}", early.unknown());
            }
            let (classes, _) = bench.classes();
            let calm = &classes[0];
            assert_eq!(calm.counts().dropped.packets, 0, "{calm:?}");
            let early = classes[1].counts().dropped_for(DropCause::ShedEarly).packets;
            (bench.data_path.input.overflow, calm.counts().sent.packets, early, classes[1].counts().sent.packets)
        });
        let (overflow, calm, early, flood) = with;
        assert_eq!((overflow, calm), (0, 40), "random: {random}");
        assert!(random || early > 200_000, "{early}");
        assert!(flood >= 150, "it still gets the rest of the link: {flood}");
        assert!(without.0 > 50_000 && without.1 < 40, "without the program frames of both are lost: {without:?}");
    }
}

#[test]
fn nothing_is_shed_while_the_kernel_has_room() {
    let mut bench = bench("hls", false);
    bench.data_path.input.buffer = Some(2000);
    // Bursts that fill the queue, but no more than a quarter of the kernel's buffer at once.
    for millis in 0..50u32 {
        if millis % 10 == 0 {
            (0..400).for_each(|n| bench.data_path.input.arrive(frame(5002, 400 * millis + n, 64)));
        }
        bench.turn(u64::from(millis) * 1_000_000);
    }
    let (classes, _) = bench.classes();
    assert!(classes[1].counts().dropped_for(DropCause::QueuePackets) != Amount::ZERO, "{classes:?}");
    assert!(classes[1].counts().dropped_for(DropCause::Shed) == Amount::ZERO, "{classes:?}");
}

#[test]
fn an_interface_that_goes_away_ends_the_turn_with_everything_accounted_for() {
    let mut bench = bench("hls", true);
    bench.data_path.input.incoming.extend((0..8).map(|n| frame(5002, n, 1000)));
    bench.turn(0);
    bench.data_path.output.gone = true;
    assert!(matches!(bench.data_path.turn(Nanos(1_000_000), &mut bench.driver), Err(BackendError::Gone { .. })));
    assert_eq!(bench.totals(), [8, 1, 0, 7]);
}

#[test]
fn a_frame_is_sent_when_it_is_accepted_and_free_when_it_is_given_back() {
    let mut bench = bench("fifo", true);
    bench.data_path.output.lag = 3;
    bench.data_path.input.lag = 2;
    bench.data_path.input.incoming.push_back(frame(5001, 0, 1000));
    bench.data_path.output.incoming.push_back(frame(9, 0, 1000));
    let mut owned = Vec::new();
    for millis in 0..5 {
        bench.turn(millis * 1_000_000);
        assert_eq!(bench.totals(), [1, 1, 0, 0]);
        assert_eq!(bench.data_path.is_sending(), bench.check_owners() > 0);
        owned.push(bench.check_owners());
    }
    assert_eq!(owned, [2, 2, 1, 0, 0]);
    assert_eq!(bench.data_path.pool.free(), bench.data_path.pool.frames());
}

#[test]
fn an_interface_that_owns_all_it_may_is_busy_until_it_gives_back() {
    let mut bench = bench("fifo", true);
    let frames: Vec<_> = (0..700).map(|n| frame(9, n, 100)).collect();
    bench.data_path.input.lag = 10;
    bench.data_path.output.incoming.extend(frames.clone());
    let most = VirtualLink::MOST_OWNED as usize;
    let mut owned = Vec::new();
    for millis in 0..60 {
        bench.turn(millis * 1_000_000);
        bench.totals();
        owned.push(bench.check_owners());
    }
    assert_eq!(owned[..6], [BATCH, 2 * BATCH, 3 * BATCH, 4 * BATCH, most, most]);
    assert!(owned.iter().all(|&owned| owned <= most) && owned.last() == Some(&0), "{owned:?}");
    assert_eq!(bench.data_path.input.sent, frames);
}

#[test]
fn an_end_takes_back_what_interfaces_own_and_what_waits_for_them() {
    let mut bench = bench("fifo", true);
    for link in [&mut bench.data_path.input, &mut bench.data_path.output] {
        link.incoming.extend((0..40).map(|n| frame(5001, n, 100)));
        link.lag = u64::MAX / 2;
        link.room = Some(5);
    }
    for millis in 0..20 {
        bench.turn(millis * 1_000_000);
    }
    assert!(
        bench.data_path.is_sending()
            && bench.data_path.retry_at(Nanos::ZERO).is_some()
            && !bench.data_path.is_flushed()
    );
    let pool = &mut bench.data_path.pool;
    bench.driver.scheduler_mut().purge(Nanos::MAX, &mut |_, packet: Packet, _| pool.give_back(packet.handle as u32));
    assert!(bench.data_path.release());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_packet_is_accounted_for_after_every_turn(
        scheduler in prop_oneof![Just("fifo"), Just("drr"), Just("hls")],
        steps in proptest::collection::vec(
            (0u64..3_000_000, 0usize..150, 5000u16..5004, 0usize..1700, proptest::option::of(0usize..30)), 1..60),
        lags in prop_oneof![Just((0, 0)), (0u64..10, 0u64..10)],
    ) {
        let mut bench = bench(scheduler, true);
        (bench.data_path.input.lag, bench.data_path.output.lag) = lags;
        let memory = bench.data_path.pool.memory_bytes();
        let (mut now, mut arrived) = (0, 0);
        for (pause, count, port, len, room) in steps {
            now += pause;
            for _ in 0..count {
                let bytes = if len < 64 { vec![3; len] } else { frame(port, arrived as u32, len) };
                bench.data_path.output.incoming.push_back(bytes.clone());
                bench.data_path.input.incoming.push_back(bytes);
                arrived += 1;
            }
            bench.data_path.output.room = room;
            bench.data_path.input.room = room;
            let there = bench.data_path.input.incoming.len();
            bench.turn(now);
            let [received, sent, _, queued] = bench.totals();
            prop_assert_eq!(received as usize, arrived - bench.data_path.input.incoming.len());
            // The pool has room for a batch in any case.
            prop_assert_eq!(there - bench.data_path.input.incoming.len(), there.min(BATCH));
            bench.check_owners();
            prop_assert_eq!(sent as usize, bench.data_path.output.sent.len());
            prop_assert!(queued <= u64::from(2 * LIMIT) + 64);
        }
        prop_assert_eq!(bench.data_path.pool.memory_bytes(), memory);
        let stats = bench.data_path.reverse_stats().unwrap();
        prop_assert_eq!(
            stats.received.packets, stats.sent.packets + stats.dropped.packets + stats.waiting.packets);
        let pool = &mut bench.data_path.pool;
        bench.driver.scheduler_mut().purge(Nanos::MAX, &mut |_, packet: Packet, _| pool.give_back(packet.handle as u32));
        prop_assert!(bench.data_path.release());
    }
}

#[test]
fn a_trace_says_of_every_frame_what_the_statistics_count() {
    let mut bench = bench("hls", false);
    let (tap, mut feed) = trace::begin(bench.data_path.pool.frames(), 0, u32::MAX);
    let frame_of = |n: u32| frame(if n.is_multiple_of(3) { 5001 } else { 5002 }, n, 100 + n as usize);
    // Fetched before the trace begins.
    bench.data_path.input.incoming.push_back(frame_of(0));
    bench.turn(0);
    bench.data_path.tap = Some(Box::new(tap));
    // More than the queues hold, too long for the link, for the pool and for the output, cut short, not IP.
    bench.data_path.input.incoming.extend((1..60).map(frame_of));
    bench.data_path.input.incoming.extend([frame(5001, 0, 1501), vec![9; 5000], vec![1; 13], vec![7; 60]]);
    bench.data_path.output.longest = Some(140);
    for millis in 0..30 {
        bench.turn(millis * 500_000);
    }
    let mut read = Vec::new();
    while feed.read(&mut read, 1 << 20) {}
    let (classes, [received, ..]) = bench.classes();
    let queued: u64 = classes.iter().map(|class| class.counts().queued.packets).sum();
    let (mut at, mut seen) = (0, BTreeMap::<(u32, String), Amount>::new());
    let mut sent = Vec::new();
    while let Some((item, length)) = trace::decode(&read[at..]).unwrap() {
        at += length;
        let trace::Item::Packet(packet) = item else { panic!("{item:?}") };
        let what = match packet.fate {
            trace::Fate::Sent { start, done } => {
                assert!(packet.arrived <= start && start <= done);
                assert_eq!(packet.bytes.len(), packet.len as usize);
                sent.push(packet.bytes.clone());
                "sent"
            }
            trace::Fate::Dropped { reason, .. } => reason,
            trace::Fate::Queued => panic!("{packet:?}"),
        };
        seen.entry((packet.class.0, what.to_owned())).or_default().count(packet.accounted);
    }
    assert_eq!(sent, bench.data_path.output.sent[1..], "the frames themselves, in the order in which they left");
    let mut reasons = 0;
    for class in &classes {
        let number: u32 = class.name.parse().unwrap();
        let mut in_trace = |what: &str| seen.remove(&(number, what.to_owned())).unwrap_or_default();
        let before = if number == 1 { Amount { packets: 1, bytes: 100 } } else { Amount::default() };
        let of_trace = in_trace("sent");
        assert_eq!(of_trace + before, class.counts().sent);
        for (cause, amount) in class.counts().dropped_by.unwrap().iter() {
            assert_eq!(in_trace(cause.key()), amount, "{cause:?}");
            reasons += 1;
        }
    }
    assert!(seen.is_empty() && reasons >= 4, "{seen:?} {reasons}");
    // Queued frames come back when the gateway ends.
    let Bench { data_path, driver, .. } = &mut bench;
    driver.scheduler_mut().purge(Nanos::MAX, &mut |_, packet: Packet, _| {
        data_path.take_back(packet);
    });
    assert!(data_path.release());
    data_path.tap = None;
    let mut rest = Vec::new();
    while feed.read(&mut rest, 1 << 20) {}
    let (mut at, mut left) = (0, 0);
    while let Some((item, length)) = trace::decode(&rest[at..]).unwrap() {
        at += length;
        match item {
            trace::Item::Packet(packet) => {
                assert_eq!(packet.fate, trace::Fate::Queued);
                left += 1;
            }
            trace::Item::End { missed, unfinished } => assert_eq!((missed, unfinished), (0, 0)),
            other => panic!("{other:?}"),
        }
    }
    assert!(queued > 0 && received == 64, "{queued} {received}");
    assert_eq!(left, queued);
}

#[test]
fn a_trace_shows_checksums_finished_and_without_one_they_are_left_to_the_output() {
    let whole = frame(5001, 1, 100);
    // UDP over IPv4: the sum of the pseudo-header in the checksum's place.
    let unfinished = Unfinished { start: 34, offset: 6 };
    let mut left = whole.clone();
    let pseudo = checksum::sum(u64::from(UDP) + (whole.len() - 34) as u64, &whole[26..34]);
    left[40..42].copy_from_slice(&pseudo.to_be_bytes());
    assert_ne!(whole, left);
    for traced in [false, true] {
        let mut bench = bench("hls", false);
        let (tap, mut feed) = trace::begin(bench.data_path.pool.frames(), 0, u32::MAX);
        bench.data_path.tap = traced.then(|| Box::new(tap));
        bench.data_path.input.unfinished = Some(unfinished);
        bench.data_path.input.incoming.push_back(left.clone());
        bench.turn(0);
        assert_eq!(bench.data_path.output.sent, [if traced { whole.clone() } else { left.clone() }]);
        let mut read = Vec::new();
        while feed.read(&mut read, 1 << 20) {}
        let seen = trace::decode(&read).unwrap();
        let shown = matches!(&seen, Some((trace::Item::Packet(packet), _)) if packet.bytes == whole);
        assert_eq!(shown, traced, "{seen:?}");
    }
}

#[test]
fn what_a_backend_has_fetched_is_not_slept_upon_unless_nobody_can_take_it() {
    let mut bench = bench("hls", true);
    let DataPath { input, output, .. } = &mut bench.data_path;
    (input.fetches_all, output.fetches_all) = (true, true);
    input.incoming.extend((0..BATCH as u32 + 1).map(|n| frame(5001, n, 1000)));
    assert!(bench.data_path.has_more());
    bench.turn(0);
    assert!(bench.data_path.has_more(), "one is left");
    bench.turn(0);
    assert!(!bench.data_path.has_more());
    // Of the other direction too, but not while its frames wait for the input.
    bench.data_path.input.room = Some(0);
    bench.data_path.output.incoming.extend((0..BATCH as u32 + 1).map(|n| frame(5001, n, 1000)));
    assert!(bench.data_path.has_more());
    bench.turn(0);
    assert!(!bench.data_path.has_more(), "the input takes nothing");
    bench.data_path.input.room = None;
    bench.turn(10_000_000);
    assert!(bench.data_path.has_more());
    // At the end nothing more is fetched. Without a free frame nothing can be handed over.
    bench.data_path.input.incoming.push_back(frame(5001, 0, 1000));
    let taken: Vec<u32> = std::iter::from_fn(|| bench.data_path.pool.take()).collect();
    assert!(!bench.data_path.has_more());
    taken.into_iter().for_each(|frame| bench.data_path.pool.give_back(frame));
    assert!(bench.data_path.has_more());
    bench.data_path.receiving = false;
    assert!(!bench.data_path.has_more());
}

mod super_frames;
mod workers;
