//! The program in this machine's kernel, and the table.

use super::*;
use crate::gateway::account::DelayTable;
use crate::io::bpf::tests::{allowed, run};
use fairlink_core::{ClassConfig, Hierarchy, LinkConfig, QueueLimits, Rate};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

/// The program in one of its places.
struct Kernel {
    early: Early,
    driver: Option<Program>,
}

/// The kernel runs a socket's filter on the bytes behind an Ethernet header: another frame comes first.
fn is_dropped(kernel: &Kernel, frame: &[u8]) -> bool {
    match &kernel.driver {
        Some(driver) => run(driver, frame).unwrap() != PASS as u32,
        None => run(kernel.early.filter(), &[&[0; 14], frame].concat()).unwrap() == 0,
    }
}

fn v4(protocol: u8, host: u32, port: u16) -> Vec<u8> {
    let mut frame =
        vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 1, 2, 0x40, 0, 64, protocol, 9, 9, 10];
    frame.extend([0, 0, 1]);
    frame.extend(host.to_be_bytes());
    frame.extend([0x13, 0x88]);
    frame.extend(port.to_be_bytes());
    frame.resize(60, 7);
    frame
}

fn v6(protocol: u8, host: u32, port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0x0a, 0xbb, 0xcc, 0, 26, protocol, 64];
    frame.extend([0xfd; 28]);
    frame.extend(host.to_be_bytes());
    frame.extend([0x13, 0x88]);
    frame.extend(port.to_be_bytes());
    frame.resize(80, 7);
    frame
}

fn queues(packets: u32) -> QueueLengths {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000_000).unwrap()));
    for _ in 0..3 {
        let limits = QueueLimits { packets, ..QueueLimits::default() };
        tree.add(ClassId::ROOT, ClassConfig { limits, ..ClassConfig::default() }).unwrap();
    }
    QueueLengths::new(&tree.build().unwrap(), 1500)
}

fn counters() -> EdgeCounters {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(1_000_000).unwrap()));
    for _ in 0..3 {
        tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
    }
    EdgeCounters::new(DelayTable::new(&tree.build().unwrap()))
}

fn kernel(place: Place) -> Option<Kernel> {
    let early = allowed(Early::load())?;
    let driver = match place {
        Place::Socket => None,
        Place::Driver => Some(allowed(early.try_in_driver())?),
    };
    Some(Kernel { early, driver })
}

fn loaded(place: Place) -> Option<(Kernel, EarlyDrops)> {
    let kernel = kernel(place)?;
    let drops = kernel.early.drops(4, &Overhead::fixed(24), 1 << 20).unwrap();
    Some((kernel, drops))
}

const PLACES: [Place; 2] = [Place::Socket, Place::Driver];

#[test]
fn the_kernel_drops_flows_of_flagged_classes_and_no_others_and_counts_accounted_bytes() {
    for place in PLACES {
        let Some((early, mut drops)) = loaded(place) else { return };
        let now = Nanos(5 * SECOND);
        let frames = [v4(17, 1, 5001), v6(6, 1, 5002), v4(1, 2, 0)];
        for (class, frame) in (1..).zip(&frames) {
            assert!(!drops.saw(now, frame, ClassId(class)));
            assert!(drops.saw(now, frame, ClassId(class)), "the second of its flow");
        }
        assert!(frames.iter().all(|frame| !is_dropped(&early, frame)));
        drops.drop_class(ClassId(2));
        assert_eq!([0, 1, 2].map(|at| is_dropped(&early, &frames[at])), [false, true, false]);
        drops.drop_class(ClassId(1));
        assert_eq!([0, 1, 2].map(|at| is_dropped(&early, &frames[at])), [true, true, false]);
        // What is not the same in all packets of a flow does not matter.
        let mut other = frames[0].clone();
        for at in [17, 18, 19, 22, 24, 25, 50] {
            other[at] ^= 0x55;
        }
        other[15] ^= 3;
        assert!(is_dropped(&early, &other), "the same flow, with another length, identification, hop limit and ECN");
        other[15] ^= 4;
        assert!(!is_dropped(&early, &other), "another code point");
        // Nothing queued: the flags end.
        let (queues, mut counters) = (queues(100), counters());
        drops.relax(now, &queues);
        drops.count_all(&mut counters);
        assert!(!drops.is_dropping() && frames.iter().all(|frame| !is_dropped(&early, frame)));
        let dropped = [1, 2, 3].map(|class| counters.edges(ClassId(class)).dropped_before);
        let amount = |packets, bytes| Amount { packets, bytes };
        assert_eq!(dropped, [amount(2, 2 * 84), amount(2, 2 * 104), Amount::ZERO]);
    }
}

#[test]
fn unknown_flows_are_dropped_in_slices_and_known_ones_pass() {
    for place in PLACES {
        let Some((early, mut drops)) = loaded(place) else { return };
        let (queues, mut counters) = (queues(100), counters());
        let (known, unknown) = (v4(17, 1, 5001), v4(17, 2, 5001));
        drops.saw(Nanos(0), &known, ClassId(1));
        drops.drop_unknown(Nanos(0));
        let odd = vec![5; 60];
        assert_eq!([&known, &unknown, &odd].map(|frame| is_dropped(&early, frame)), [false, true, true]);
        drops.relax(Nanos(1_000_000), &queues);
        assert!(is_dropped(&early, &unknown), "too early");
        drops.relax(SLICE, &queues);
        assert!(!is_dropped(&early, &unknown) && !drops.is_dropping());
        drops.count_all(&mut counters);
        assert_eq!(drops.unknown().packets, 3);
        assert_eq!(counters.edges(ClassId(1)).dropped_before, Amount::ZERO);
    }
}

#[test]
fn a_flood_leaves_room_for_other_classes_while_the_data_thread_is_stopped() {
    for place in PLACES {
        let Some(early) = kernel(place) else { return };
        let mut drops = early.early.drops(4, &Overhead::NONE, 400).unwrap();
        let frames = [v4(17, 1, 5001), v6(6, 1, 5002), v4(17, 9, 9)];
        for class in [1, 2] {
            drops.saw(Nanos(0), &frames[class - 1], ClassId(class as u32));
        }
        let admitted = |frame: &[u8]| (0..1000).filter(|_| !is_dropped(&early, frame)).count();
        // One more than half; then as many as there is room for at that time: a < 400 - 201 - a.
        assert_eq!(admitted(&frames[0]), 201 + 100);
        // 99 are left: b < 99 - b; and of 49 for unknown flows.
        assert_eq!([1, 2].map(|at| admitted(&frames[at])), [50, 25]);
        // A fetched batch makes room for all, for the class that floods as soon as it has less than the rest.
        drops.fetched(64, None);
        assert_eq!(admitted(&frames[2]), 32);
        assert_eq!(admitted(&frames[0]), 0);
        // Less than half waits: they begin anew.
        drops.fetched(300, None);
        assert!(admitted(&frames[0]) > 200);
        drops.fetched(1, Some(drops.admitted()));
        assert_eq!(admitted(&frames[0]), 201 + 100);
        // More was fetched than the program has seen, as at the start.
        drops.fetched(1000, None);
        assert_eq!(admitted(&frames[1]), 201 + 100);
        let mut counters = counters();
        drops.count_all(&mut counters);
        assert!(counters.edges(ClassId(1)).dropped_before.packets > 2000 && drops.unknown().packets > 900);
    }
}

#[test]
fn workers_end_drops_and_empty_the_buffer_while_the_data_thread_is_stopped() {
    let (calm, flood) = (v4(17, 1, 5001), v4(17, 2, 5002));
    for place in PLACES {
        let Some(kernel) = kernel(place) else { return };
        let mut drops = kernel.early.drops(4, &Overhead::NONE, 1000).unwrap();
        let relief = kernel.early.relief().unwrap();
        for (class, frame) in [(1, &calm), (2, &flood)] {
            drops.saw(Nanos(1), frame, ClassId(class));
            drops.saw(Nanos(1), frame, ClassId(class));
        }
        drops.drop_class(ClassId(2));
        assert!(is_dropped(&kernel, &flood) && !is_dropped(&kernel, &calm));
        // The buffer has room for 1000 frames: many times as many pass as workers fetch them.
        relief.fetched(0);
        for _ in 0..100 {
            assert!((0..64).all(|_| !is_dropped(&kernel, &flood) && !is_dropped(&kernel, &calm)));
            relief.fetched(128);
        }
        // More than half of it is filled by one class, and less again.
        while !is_dropped(&kernel, &flood) {}
        assert!(!is_dropped(&kernel, &calm));
        relief.fetched(700);
        assert!((0..64).all(|_| !is_dropped(&kernel, &flood) && !is_dropped(&kernel, &calm)));
        drops.fetched(1, None);
        assert!(is_dropped(&kernel, &flood) && !is_dropped(&kernel, &calm), "the data thread goes on");
    }
}

#[test]
fn a_class_is_dropped_until_its_queue_is_half_as_long() {
    let Some((_early, mut drops)) = loaded(Place::Socket) else { return };
    let mut queues = queues(100);
    queues.entered(ClassId(1), 50);
    assert!(queues.is_long(ClassId(1)));
    drops.drop_class(ClassId(1));
    for left in (26..=50).rev() {
        drops.relax(Nanos(0), &queues);
        assert!(drops.is_dropping(), "{left}");
        queues.left(ClassId(1), 1);
    }
    drops.relax(Nanos(0), &queues);
    assert!(!drops.is_dropping());
}

#[test]
fn flows_of_single_packets_evict_no_known_flow_and_silent_flows_give_way() {
    let Some((_early, mut drops)) = loaded(Place::Socket) else { return };
    let known: Vec<_> = (0..1000).map(|n| v4(6, 0x0a00_0000 + n, 80)).collect();
    for _ in 0..2 {
        for frame in &known {
            drops.saw(Nanos(0), frame, ClassId(1));
        }
    }
    // Many times as many as there are places, of which each is seen once.
    for n in 0..1_000_000 {
        drops.saw(Nanos(SECOND), &v4(17, 0x3000_0000 + n, 9), ClassId(2));
    }
    let still = known.iter().filter(|frame| drops.saw(Nanos(2 * SECOND), frame, ClassId(1))).count();
    assert_eq!(still, 1000);
    // Flows that are all seen twice, long after.
    let later = Nanos((3 + u64::from(KEPT)) * SECOND);
    let fresh: Vec<_> = (0..200_000).map(|n| v4(17, 0x3000_0000 + n, 9)).collect();
    for frame in &fresh {
        drops.saw(later, frame, ClassId(2));
        drops.saw(later, frame, ClassId(2));
    }
    let still = known.iter().filter(|frame| drops.saw(later, frame, ClassId(1))).count();
    assert!(still < 100, "{still}");
}

#[test]
fn flows_that_differ_in_any_single_bit_have_places_of_their_own_whatever_the_secret() {
    use super::table::{key, place};
    let flow = v4(17, 7, 5001);
    let known = key(&flow).unwrap();
    // The hash of an earlier version lost upper bits: ports that differ by 128 had one place under half of the secrets.
    for secret in std::iter::repeat_with(Secret::new).take(2000) {
        let own = place(&known, &secret);
        for bit in 0..64 * known.len() {
            let mut other = known;
            other[bit / 64] ^= 1 << (bit % 64);
            assert_ne!(place(&other, &secret), own, "bit {bit}, {secret:?}");
        }
    }
}

#[test]
fn after_a_change_flows_belong_to_the_successors_of_their_classes() {
    for place in PLACES {
        let Some((early, mut drops)) = loaded(place) else { return };
        let frames = [v4(17, 1, 5001), v4(17, 1, 5002), v4(17, 1, 5003)];
        for (class, frame) in (1..).zip(&frames) {
            drops.saw(Nanos(0), frame, ClassId(class));
            drops.drop_class(ClassId(class));
        }
        assert_eq!([0, 1, 2].map(|at| is_dropped(&early, &frames[at])), [true; 3]);
        let mut counters = counters();
        drops.count_all(&mut counters);
        let map = [Some(ClassId(0)), Some(ClassId(2)), None, Some(ClassId(1))];
        drops.exchange(&map, &Overhead::NONE, &mut Counted::for_classes(4));
        assert!(frames.iter().all(|frame| !is_dropped(&early, frame)), "its flags end");
        drops.drop_class(ClassId(2));
        assert_eq!([0, 1, 2].map(|at| is_dropped(&early, &frames[at])), [true, false, false]);
        drops.count_all(&mut counters);
        let of = |class| counters.edges(ClassId(class)).dropped_before;
        assert_eq!([of(1), of(2), of(3)].map(|amount| amount.packets), [1, 2, 1]);
        assert_eq!(of(2).bytes, 84 + 60, "without the overhead after the change");
    }
}

/// Drops that the program counts while classes change are not lost: they are those of the successors, or of unknown flows.
#[test]
fn drops_during_a_change_are_counted_for_the_successor() {
    let Some((_kernel, mut drops)) = loaded(Place::Socket) else { return };
    let mut counters = counters();
    // As a program on another processor does that has looked its class up before.
    let late = |drops: &EarlyDrops, half: usize, class: usize, packets: u64| {
        let at = HEAD + (half * CLASSES + class) * WORDS;
        drops.control.words()[at + PACKETS].fetch_add(packets, Relaxed);
        drops.control.words()[at + BYTES].fetch_add(100 * packets, Relaxed);
    };
    let map = [Some(ClassId(0)), Some(ClassId(2)), None, Some(ClassId(1))];
    let of = |counters: &EdgeCounters, class| counters.edges(ClassId(class)).dropped_before;
    let mut expected = [0; 4];
    for change in 0..4 {
        let half = change % 2;
        late(&drops, half, 1, 5);
        drops.count_all(&mut counters);
        expected[1] += 5;
        drops.exchange(&map, &Overhead::NONE, &mut Counted::for_classes(4));
        for (class, heir) in [(1, 2), (2, 0), (3, 1)] {
            late(&drops, half, class, 10 + class as u64);
            expected[heir] += 10 + class as u64;
        }
        drops.count_all(&mut counters);
        let counted = [drops.unknown(), of(&counters, 1), of(&counters, 2), of(&counters, 3)];
        assert_eq!(counted.map(|amount| amount.packets), expected, "change {change}");
        assert_eq!(counted.map(|amount| amount.bytes), expected.map(|packets| 100 * packets), "change {change}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// For any frame: the kernel finds the flow where this process has put it, or both say that it has none. In a driver the
    /// frame may have a VLAN tag.
    #[test]
    fn the_kernel_and_this_process_agree_on_every_flow(
        kind in 0..4u8,
        protocol in prop_oneof![Just(6u8), Just(17), Just(1), Just(58), any::<u8>()],
        host in any::<u32>(),
        port in any::<u16>(),
        changes in proptest::collection::vec((0usize..80, any::<u8>()), 0..6),
        length in 14usize..90,
        in_driver in any::<bool>(),
        tag in proptest::option::of((any::<bool>(), any::<[u8; 2]>())),
    ) {
        let place = if in_driver { Place::Driver } else { Place::Socket };
        let Some((early, mut drops)) = loaded(place) else { return Ok(()) };
        let mut frame = match kind {
            0 | 1 => v4(protocol, host, port),
            2 => v6(protocol, host, port),
            _ => vec![port as u8; 60],
        };
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        if let (true, Some((service, [high, low]))) = (in_driver, tag) {
            let kind = if service { [0x88, 0xa8] } else { [0x81, 0x00] };
            frame.splice(12..12, [kind[0], kind[1], high, low]);
        }
        frame.truncate(length);
        // The kernel has taken a tag out of the frame that a socket receives; here it would find one.
        prop_assume!(in_driver || !matches!(frame[12..14], [0x81, 0x00] | [0x88, 0xa8]));
        drops.saw(Nanos(0), &frame, ClassId(1));
        drops.drop_class(ClassId(1));
        prop_assert_eq!(is_dropped(&early, &frame), table::key(&frame).is_some());
        drops.drop_unknown(Nanos(0));
        prop_assert!(is_dropped(&early, &frame), "it is of the class, or unknown");
    }
}

#[test]
fn a_filter_for_marked_frames_accepts_no_others() {
    let Some((kernel, _)) = loaded(Place::Socket) else { return };
    let frame = v4(17, 1, 5001);
    // The kernel runs a program by hand with the mark zero.
    assert!(!is_dropped(&kernel, &frame));
    kernel.early.take_only(7).unwrap();
    assert!(is_dropped(&kernel, &frame));
    kernel.early.take_only(0).unwrap();
    assert!(!is_dropped(&kernel, &frame));
}
