//! Super-frames and their pieces.

use super::*;

/// UDP to `port`, joined from `count` packets of 100 B of payload.
pub(super) fn joined(port: u16, count: usize) -> (Vec<u8>, VirtioHeader) {
    let header = VirtioHeader { kind: JOINED_UDP, segment: 100, ..VirtioHeader::default() };
    let mut bytes = frame(port, 0, 142);
    bytes.extend((0..100 * (count - 1)).map(|n| (n / 7) as u8));
    (bytes, header)
}

/// The schedulers that can share the link of [`bench`].
fn for_this_tree() -> Vec<&'static str> {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(8_000_000).unwrap()));
    for _ in 0..2 {
        tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    }
    let tree = tree.build().unwrap();
    let named = registry::SCHEDULERS.iter();
    let builds = named.filter(|info| info.build(&tree, Leniency::Refuse, Members::new()).is_ok());
    let names: Vec<_> = builds.map(|info| info.name).collect();
    assert!(names.len() > 10, "{names:?}");
    names
}

#[test]
fn a_turn_takes_few_packets_of_a_super_frame_and_the_frames_of_another_class_as_they_come() {
    // The number that docs/gateway.md names.
    const FEW: u64 = 64;
    for scheduler in for_this_tree() {
        let mut bench = bench_holding(1000, scheduler, false, ClassConfig::default());
        let (bytes, header) = joined(5001, 600);
        bench.data_path.input.arrive_joined(bytes, header);
        bench.turn(0);
        for turn in 1..=600_u64.div_ceil(FEW) {
            bench.data_path.input.incoming.push_back(frame(5002, turn as u32, 200));
            bench.turn(turn);
            let (classes, _) = bench.classes();
            let received = [&classes[0], &classes[1]].map(|class| class.counts().received.packets);
            assert_eq!(received, [(turn * FEW).min(600), turn], "{scheduler}, turn {turn}");
        }
        assert!(bench.data_path.splitter.is_empty(), "{scheduler}");
    }
}

#[test]
fn a_super_frame_of_one_class_does_not_hold_up_another_and_ends_where_its_queue_is_full() {
    for scheduler in for_this_tree() {
        let mut bench = bench(scheduler, false);
        let (bytes, header) = joined(5001, 600);
        bench.data_path.input.arrive_joined(bytes, header);
        bench.data_path.input.incoming.push_back(frame(5002, 1, 1000));
        bench.turn(0);
        let (classes, _) = bench.classes();
        assert_eq!(classes[0].counts().received.packets, 0, "{scheduler}");
        assert_eq!(classes[1].counts().received.packets, 1, "{scheduler}: it did not wait");
        bench.turn(1);
        bench.turn(2);
        let (classes, _) = bench.classes();
        let counts = classes[0].counts();
        assert_eq!((counts.received.packets, counts.received.bytes), (600, 600 * 142), "{scheduler}");
        assert!(counts.dropped_for(DropCause::QueuePackets).packets >= 600 - u64::from(LIMIT) - 64, "{scheduler}");
        assert!(bench.data_path.splitter.is_empty());
        // The next one is not even copied.
        let (bytes, header) = joined(5001, 600);
        bench.data_path.input.arrive_joined(bytes, header);
        bench.turn(3);
        assert_eq!((bench.data_path.input.copied, bench.classes().0[0].counts().received.packets), (1, 1200));
    }
}

#[test]
fn packets_of_a_super_frame_and_frames_behind_it_leave_in_order() {
    let mut bench = bench("drr", true);
    let mut expected = Vec::new();
    let mut now = 0;
    for round in 0..40u32 {
        let (bytes, header) = joined(5001, 5);
        let pieces = (0..5).map(|index| bytes[42 + 100 * index..142 + 100 * index].to_vec());
        expected.extend(pieces);
        bench.data_path.input.arrive_joined(bytes, header);
        let mut single = frame(5001, round, 142);
        single[142 - 4..].copy_from_slice(&round.to_be_bytes());
        expected.push(single[42..].to_vec());
        bench.data_path.input.incoming.push_back(single);
        for _ in 0..10 {
            bench.turn(now);
            now += 200_000;
            bench.classes();
        }
    }
    let sent: Vec<_> = bench.data_path.output.sent.iter().map(|frame| frame[42..].to_vec()).collect();
    assert!(sent == expected);
    // The other direction.
    let (bytes, header) = joined(5001, 200);
    bench.data_path.output.arrive_joined(bytes, header);
    bench.data_path.output.incoming.push_back(frame(5001, 7, 500));
    for _ in 0..10 {
        bench.turn(now);
        bench.classes();
    }
    let lengths: Vec<_> = bench.data_path.input.sent.iter().map(Vec::len).collect();
    assert_eq!(lengths, [vec![142; 200], vec![500]].concat());
    assert_eq!(bench.data_path.reverse_stats().unwrap().received, Amount { packets: 201, bytes: 200 * 142 + 500 });
}

#[test]
fn super_frames_of_the_other_direction_that_find_no_buffer_are_counted_and_a_busy_input_is_waited_for_asleep() {
    let mut bench = bench("hls", true);
    for _ in 0..60 {
        let (bytes, header) = joined(5001, 10);
        bench.data_path.output.arrive_joined(bytes, header);
    }
    bench.data_path.input.room = Some(0);
    for now in 0..5 {
        bench.turn(now);
        bench.classes();
    }
    assert!(bench.data_path.waits_backward() && !bench.data_path.has_more());
    bench.data_path.input.room = None;
    for now in (1..40).map(|turn| turn * 50_000_000) {
        bench.turn(now);
        bench.classes();
    }
    let reverse = bench.data_path.reverse_stats().unwrap();
    assert_eq!((reverse.received.packets, reverse.waiting.packets), (600, 0));
    assert_eq!((reverse.dropped.packets, reverse.sent.packets), (280, 320), "half of 64 buffers were given");
}

#[test]
fn super_frames_that_wait_are_counted_when_they_are_stale_and_given_back_at_the_end() {
    for scheduler in ["hls", "sfq"] {
        let mut bench = bench(scheduler, true);
        for port in [5001, 5002] {
            let (bytes, header) = joined(port, 400);
            bench.data_path.input.arrive_joined(bytes.clone(), header);
            bench.data_path.input.incoming.push_back(frame(port, 1, 200));
            bench.data_path.output.arrive_joined(bytes, header);
            bench.data_path.output.incoming.push_back(frame(port, 1, 200));
        }
        bench.turn(0);
        let Bench { data_path, driver, .. } = &mut bench;
        data_path.discard(Nanos(1), driver);
        let (classes, [received, sent, dropped, queued]) = bench.classes();
        assert_eq!((received, sent, queued, dropped), (802, 0, 0, 802), "{classes:?}");
        let reverse = bench.data_path.reverse_stats().unwrap();
        assert_eq!((reverse.received.packets, reverse.sent.packets + reverse.dropped.packets), (802, 802));
        let (bytes, header) = joined(5001, 400);
        bench.data_path.input.arrive_joined(bytes, header);
        bench.data_path.input.incoming.push_back(frame(5001, 1, 200));
        bench.turn(2);
        assert!(bench.data_path.release(), "{scheduler}");
    }
}

/// Lengths of the pieces that [`LinkConfig::new`] has room for: ten packets of [`joined`].
const PIECE: u32 = 1420;

/// Packets of `port` that were sent, without headers, in order.
fn payloads(bench: &Bench, port: u16) -> Vec<Vec<u8>> {
    let is_of = |frame: &&Vec<u8>| frame[36..38] == port.to_be_bytes();
    bench.data_path.output.sent.iter().filter(is_of).map(|frame| frame[42..].to_vec()).collect()
}

#[test]
fn pieces_are_sent_and_counted_as_the_packets_that_they_consist_of() {
    for scheduler in for_this_tree() {
        let [split, whole] = [0, PIECE].map(|piece| {
            let mut bench = bench_holding(1000, scheduler, false, ClassConfig::default());
            bench.data_path.lengths.piece = piece;
            let mut now = 0;
            for round in 0..4u32 {
                for (port, count) in [(5001, 64), (5002, 25)] {
                    let (bytes, header) = joined(port, count);
                    bench.data_path.input.arrive_joined(bytes, header);
                    bench.data_path.input.incoming.push_back(frame(port, round, 200));
                }
                for _ in 0..200 {
                    bench.turn(now);
                    bench.classes();
                    now += 500_000;
                }
            }
            // Schedulers with slots take long for small packets.
            while bench.totals()[3] > 0 {
                bench.turn(now);
                now += 500_000;
            }
            (
                bench.classes(),
                [5001, 5002].map(|port| payloads(&bench, port)),
                bench.driver.scheduler().total().received,
            )
        });
        let ((classes, totals), sent, scheduled) = whole;
        assert_eq!(totals, [4 * (64 + 25 + 2), 4 * (64 + 25 + 2), 0, 0], "{scheduler}");
        assert_eq!(totals, split.0.1, "{scheduler}");
        assert!(sent == split.1, "{scheduler}: other packets, or in another order");
        for (class, other) in classes.iter().zip(&split.0.0) {
            assert_eq!(class.counts(), other.counts(), "{scheduler}");
        }
        // 64 packets in seven pieces, 25 in three.
        assert_eq!((scheduled.packets, scheduled.bytes), (4 * (7 + 3 + 2), split.2.bytes), "{scheduler}");
    }
}

#[test]
fn pieces_fill_a_queue_to_its_limit_of_packets_and_not_beyond() {
    for scheduler in for_this_tree() {
        let mut bench = bench(scheduler, false);
        bench.data_path.lengths.piece = PIECE;
        bench.data_path.output.room = Some(0);
        let mut most = 0;
        for now in 0..20 {
            let (bytes, header) = joined(5001, 13);
            bench.data_path.input.arrive_joined(bytes, header);
            bench.turn(now);
            let (_, [.., queued]) = bench.classes();
            most = most.max(queued);
        }
        let (classes, [received, ..]) = bench.classes();
        let dropped = classes[0].counts().dropped_for(DropCause::QueuePackets).packets;
        // The first piece waits for the output.
        assert!((10 + u64::from(LIMIT) - 1..=10 + u64::from(LIMIT)).contains(&most), "{scheduler}: {most}");
        assert_eq!(received - dropped, most, "{scheduler}");
    }
}

#[test]
fn packets_beyond_what_a_backend_takes_at_once_leave_in_the_next_turns_without_a_pause_while_others_are_fetched() {
    let mut bench = bench("hls", false);
    bench.data_path.lengths.piece = PIECE;
    bench.data_path.output.at_once = Some(4);
    let (bytes, header) = joined(5001, 10);
    bench.data_path.input.arrive_joined(bytes, header);
    bench.turn(0);
    // The second turn splits and sends. All turns are at the same time.
    for (turn, sent) in [(1, 4), (2, 8), (3, 10)] {
        bench.data_path.input.incoming.push_back(frame(5002, turn, 142));
        bench.turn(0);
        let (classes, totals) = bench.classes();
        assert_eq!((totals[1], classes[1].counts().received.packets), (sent, u64::from(turn)));
        assert_eq!(bench.data_path.has_more(), sent < 10);
    }
    assert_eq!(bench.data_path.onward.busy, 0);
}

#[test]
fn a_super_frame_of_packets_longer_than_the_links_frames_is_dropped_though_pieces_are_longer() {
    for piece in [0, 6000] {
        let mut bench = bench("hls", false);
        bench.data_path.lengths = Lengths { frame: 141, piece };
        let (bytes, header) = joined(5001, 10);
        bench.data_path.input.arrive_joined(bytes, header);
        bench.data_path.input.incoming.extend([frame(5001, 0, 142), frame(5001, 0, 141)]);
        bench.turn(0);
        let (classes, totals) = bench.classes();
        assert_eq!(totals, [12, 1, 11, 0]);
        assert_eq!(classes[0].counts().dropped_for(DropCause::TooLong).packets, 11);
    }
}

#[test]
fn a_mark_is_on_every_packet_of_a_piece_and_a_trace_has_each_of_them() {
    let mut bench = bench("hls", false);
    bench.data_path.lengths.piece = PIECE;
    let (tap, mut feed) = trace::begin(bench.data_path.pool.frames(), 0, u32::MAX);
    bench.data_path.tap = Some(Box::new(tap));
    let (mut bytes, header) = joined(5001, 15);
    bytes[15] |= 2; // ECT(0)
    bench.data_path.input.arrive_joined(bytes, header);
    bench.data_path.output.room = Some(0);
    bench.turn(0);
    bench.turn(1);
    // The first piece waits for the output. The scheduler marks the second and drops it later.
    let mut packets = Vec::new();
    let keep = &mut |_: Nanos, packet: Packet, _: DropReason| packets.push(packet);
    bench.driver.scheduler_mut().purge(Nanos(2), keep);
    assert_eq!(packets.len(), 1);
    let [packet] = <[Packet; 1]>::try_from(packets).unwrap();
    assert_eq!((packet.len, bench.data_path.pool.chained(packet.handle as u32).count()), (5 * 142, 5));
    bench.data_path.marked(Nanos(2), &packet);
    let frames: Vec<u32> = bench.data_path.pool.chained(packet.handle as u32).collect();
    assert!(frames.iter().all(|&frame| bench.data_path.pool.packet(frame)[15] & 3 == 3), "congestion experienced");
    bench.data_path.dropped(Nanos(3), packet, DropReason::Purged);
    let (classes, totals) = bench.classes();
    assert_eq!((totals, classes[0].counts().dropped_for(DropCause::Purged).packets), ([15, 0, 5, 10], 5));
    bench.data_path.output.room = None;
    bench.turn(100_000_000);
    let mut read = Vec::new();
    while feed.read(&mut read, 1 << 20) {}
    let (mut at, mut fates) = (0, Vec::new());
    while let Some((trace::Item::Packet(packet), length)) = trace::decode(&read[at..]).unwrap() {
        at += length;
        assert_eq!((packet.len, packet.accounted, packet.bytes.len()), (142, 142, 142));
        fates.push(matches!(packet.fate, trace::Fate::Sent { .. }));
    }
    assert_eq!(fates, [[false; 5].as_slice(), &[true; 10]].concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(super::cases()))]
    /// For any scheduler, any arrivals and any length of pieces, with active queues and without, over a change of the
    /// length: all packets are accounted for after every turn, and each class's packets leave in order.
    #[test]
    fn pieces_and_frames_of_any_kind_are_accounted_for_after_every_turn(
        scheduler in proptest::sample::select(for_this_tree()),
        active in any::<bool>(),
        pieces in (0u32..1500, 0u32..1500),
        steps in proptest::collection::vec(
            (0u64..3_000_000, 5001u16..5003, 0usize..200, 0usize..40, proptest::option::of(0usize..70)), 1..60),
    ) {
        let info = registry::find(scheduler).unwrap();
        let config = match active && info.supports(Feature::ActiveQueue) {
            true => ClassConfig { queue: QueueKind::CoDel, ..ClassConfig::default() },
            false => ClassConfig::default(),
        };
        let mut bench = bench_holding(100, scheduler, false, config);
        let (mut now, mut arrived) = (0, 0);
        let count = steps.len();
        for (step, (pause, port, joined_from, single, room)) in steps.into_iter().enumerate() {
            now += pause;
            bench.data_path.lengths.piece = if step < count / 2 { pieces.0 } else { pieces.1 };
            if joined_from > 0 {
                let (bytes, header) = joined(port, joined_from);
                bench.data_path.input.arrive_joined(bytes, header);
                arrived += joined_from;
            }
            for n in 0..single {
                bench.data_path.input.incoming.push_back(frame(port, n as u32, 142));
                arrived += 1;
            }
            bench.data_path.output.room = room;
            bench.turn(now);
            let [_, sent, ..] = bench.totals();
            prop_assert_eq!(sent as usize, bench.data_path.output.sent.len());
            bench.check_owners();
        }
        bench.data_path.output.room = None;
        for _ in 0..2000 {
            now += 1_000_000;
            bench.turn(now);
        }
        let [received, sent, dropped, queued] = bench.totals();
        prop_assert_eq!((received as usize, queued), (arrived, 0));
        prop_assert_eq!(received, sent + dropped);
        bench.turn(now);
        prop_assert!(bench.data_path.release());
    }
}
