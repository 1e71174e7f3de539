//! Active queues against the RFCs: CoDel against its pseudo-code, FQ-CoDel against its goals.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::contract::{
    Amount, ClassConfig, ClassId, DropReason, DropSink, ECN_CAPABLE, Hierarchy, LinkConfig, Nanos, Packet, QueueKind,
    QueueLimits, Rate, flow_bits,
};
use crate::queue::codel::{INTERVAL, TARGET};

const L_MAX: u32 = 1500;
const LEAF: ClassId = ClassId(1);
const MS: u64 = 1_000_000;

#[derive(Debug, Default)]
struct Sink {
    dropped: Vec<(u64, DropReason)>,
    marked: Vec<u64>,
}

impl DropSink for Sink {
    fn dropped(&mut self, _: Nanos, packet: Packet, reason: DropReason) {
        self.dropped.push((packet.handle, reason));
    }

    fn marked(&mut self, _: Nanos, packet: &Packet) {
        self.marked.push(packet.handle);
    }
}

/// One leaf with its slab, and its drops and marks.
struct Leaf {
    slab: PacketSlab,
    queue: LeafQueue,
    sink: Sink,
}

fn tree(leaves: u32, queue: QueueKind, ecn: bool, packets: u32) -> Hierarchy {
    let link = LinkConfig { max_packet: L_MAX, ..LinkConfig::new(Rate::from_bps(1_000_000_000).unwrap()) };
    let mut tree = Hierarchy::builder(link);
    let limits = QueueLimits { packets, ..QueueLimits::default() };
    for _ in 0..leaves {
        tree.add(ClassId::ROOT, ClassConfig { queue, ecn, limits, ..ClassConfig::default() }).unwrap();
    }
    tree.build().unwrap()
}

impl Leaf {
    fn new(queue: QueueKind, ecn: bool, packets: u32) -> Self {
        let tree = tree(1, queue, ecn, packets);
        let mut slab = PacketSlab::for_tree(&tree).unwrap();
        let queue = slab.queue_for(&tree, LEAF);
        Self { slab, queue, sink: Sink::default() }
    }

    fn put(&mut self, now: u64, handle: u64, len: u32) -> bool {
        self.queue.enqueue(&mut self.slab, Nanos(now), Packet { handle, len, class: LEAF }, &mut self.sink)
    }

    fn take(&mut self, now: u64) -> Option<u64> {
        let promised = self.queue.head_handle();
        let taken = self.queue.dequeue(&mut self.slab, LEAF, Nanos(now), &mut self.sink).map(|packet| packet.handle);
        assert_eq!(taken, promised);
        assert_eq!(self.queue.backlog(&self.slab), self.slab.backlog());
        taken
    }
}

/// The queue of RFC 8289, Section 5, in the RFC's terms and with its square root, behind a device that holds one
/// packet. The RFC does not specify marks; here a mark is a drop that the packet survives.
#[derive(Default)]
struct Rfc {
    device: Option<u64>,
    packets: VecDeque<(u64, u32, u64)>,
    bytes: u64,
    first_above_time: u64,
    drop_next: u64,
    count: u32,
    lastcount: u32,
    dropping: bool,
    ecn: bool,
    sink: Sink,
}

impl Rfc {
    fn control_law(&self, t: u64) -> u64 {
        t + (INTERVAL.0 as f64 / f64::from(self.count).sqrt()).ceil() as u64
    }

    fn dodequeue(&mut self, now: u64) -> (Option<u64>, bool) {
        let Some((handle, len, tstamp)) = self.packets.pop_front() else {
            self.first_above_time = 0;
            return (None, false);
        };
        self.bytes -= u64::from(len);
        let mut ok_to_drop = false;
        if now - tstamp < TARGET.0 || self.bytes <= u64::from(L_MAX) {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + INTERVAL.0;
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (Some(handle), ok_to_drop)
    }

    /// Drops the packet, or marks it: then it is the one to send.
    fn signal(&mut self, handle: u64) -> bool {
        if self.ecn && handle & ECN_CAPABLE != 0 {
            self.sink.marked.push(handle);
            return true;
        }
        self.sink.dropped.push((handle, DropReason::Congestion));
        false
    }

    fn dequeue(&mut self, now: u64) -> Option<u64> {
        let (mut p, mut ok_to_drop) = self.dodequeue(now);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                let marked = self.signal(p.unwrap());
                self.count += 1;
                if marked {
                    self.drop_next = self.control_law(self.drop_next);
                    break;
                }
                (p, ok_to_drop) = self.dodequeue(now);
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            if !self.signal(p.unwrap()) {
                p = self.dodequeue(now).0;
            }
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && (now as i64 - self.drop_next as i64) < 16 * INTERVAL.0 as i64 {
                self.count = delta;
            }
            self.drop_next = self.control_law(now);
            self.lastcount = self.count;
        }
        p
    }

    fn put(&mut self, now: u64, handle: u64, len: u32) {
        self.packets.push_back((handle, len, now));
        self.bytes += u64::from(len);
        if self.device.is_none() {
            self.device = self.dequeue(now);
        }
    }

    fn take(&mut self, now: u64) -> Option<u64> {
        let taken = self.device.take()?;
        self.device = self.dequeue(now);
        Some(taken)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn codel_sends_drops_and_marks_what_the_rfcs_pseudo_code_does(
        ecn in any::<bool>(),
        phases in proptest::collection::vec((0u64..4, 1u32..30, 50usize..600), 1..12),
        random in proptest::collection::vec((any::<u32>(), prop_oneof![0u32..=L_MAX, (0u32..=3).prop_map(|n| n * 500)]), 100),
    ) {
        let mut leaf = Leaf::new(QueueKind::CoDel, ecn, 60_000);
        let mut rfc = Rfc { ecn, ..Rfc::default() };
        let mut now = 1;
        let mut random = random.iter().cycle();
        for (number, (pause, load, steps)) in phases.into_iter().enumerate() {
            // Time steps of four sizes, down to zero; arrivals are up to three times the departures.
            let step = [0, 10_000, MS, 20 * MS][pause as usize];
            for at in 0..steps {
                let &(word, len) = random.next().unwrap();
                if word % 10 < load {
                    let more = 1 + u64::from(load > 20);
                    for copy in 0..more {
                        let capable = if word & 0x1_0000 == 0 { ECN_CAPABLE } else { 0 };
                        let handle = (number as u64) << 20 | (at as u64) << 2 | copy | capable;
                        prop_assert!(leaf.put(now, handle, len));
                        rfc.put(now, handle, len);
                    }
                }
                if word % 3 > 0 {
                    prop_assert_eq!(leaf.take(now), rfc.take(now));
                }
                now += step * u64::from(word >> 16 & 3) / 2;
            }
            prop_assert_eq!(&leaf.sink.dropped, &rfc.sink.dropped);
            prop_assert_eq!(&leaf.sink.marked, &rfc.sink.marked);
        }
        while let Some(sent) = leaf.take(now) {
            prop_assert_eq!(Some(sent), rfc.take(now));
        }
        prop_assert_eq!(rfc.device, None);
        prop_assert_eq!(&leaf.sink.dropped, &rfc.sink.dropped);
    }
}

/// Overloads a link of one packet per millisecond for `seconds`. Packets arrive faster than they leave by `ahead` per
/// thousand, regardless of drops. Returns the mean and largest time in the queue in the second half.
fn overload(leaf: &mut Leaf, capable: u64, ahead: u64, seconds: u64) -> (u64, u64) {
    let (mut offered, mut sum, mut largest, mut sent) = (0, 0, 0, 0);
    for tick in 0..seconds * 1000 {
        let now = tick * MS;
        while offered <= tick * (1000 + ahead) / 1000 {
            leaf.put(now, tick | (offered & 0x7fff) << 16 | capable, L_MAX);
            offered += 1;
        }
        if let Some(handle) = leaf.take(now)
            && tick >= seconds * 500
        {
            let waited = tick - (handle & 0xffff);
            (sum, largest, sent) = (sum + waited, largest.max(waited), sent + 1);
        }
    }
    assert!(sent > seconds * 490, "the link was idle: {sent}");
    (sum / sent, largest)
}

#[test]
fn codel_keeps_the_delay_near_the_target_under_a_flow_that_does_not_yield() {
    let (mean, largest) = overload(&mut Leaf::new(QueueKind::Fifo, false, 1000), 0, 50, 60);
    assert!(mean > 900 && largest >= 999, "a fifo's {mean} ms, {largest} ms");
    for (kind, ecn) in [(QueueKind::CoDel, false), (QueueKind::FqCoDel, false), (QueueKind::CoDel, true)] {
        let mut leaf = Leaf::new(kind, ecn, 1000);
        let (mean, largest) = overload(&mut leaf, 0, 50, 60);
        assert!(mean <= 4 * TARGET.0 / MS && largest <= 100, "{kind:?}: {mean} ms, {largest} ms");
        assert!(
            leaf.sink.dropped.iter().all(|&(_, reason)| reason == DropReason::Congestion)
                && leaf.sink.marked.is_empty()
        );
    }
}

#[test]
fn packets_that_allow_it_are_marked_and_none_of_them_is_dropped_before_the_queue_is_full() {
    let mut leaf = Leaf::new(QueueKind::CoDel, true, 100_000);
    overload(&mut leaf, ECN_CAPABLE, 50, 20);
    assert!(leaf.sink.dropped.is_empty() && leaf.sink.marked.len() > 100, "{}", leaf.sink.marked.len());
    let mut once = leaf.sink.marked.clone();
    once.dedup();
    assert!(once == leaf.sink.marked);
    // Without ecn at the class, they are dropped.
    let mut leaf = Leaf::new(QueueKind::CoDel, false, 100_000);
    overload(&mut leaf, ECN_CAPABLE, 50, 20);
    assert!(leaf.sink.marked.is_empty() && leaf.sink.dropped.len() > 100);
}

#[test]
fn what_is_as_short_as_a_largest_packet_is_never_dropped_however_long_it_takes() {
    for kind in [QueueKind::CoDel, QueueKind::FqCoDel] {
        let mut leaf = Leaf::new(kind, false, 1000);
        for at in 0..1000 {
            // A second per packet, and a largest packet's worth behind each.
            for _ in 0..3 {
                if leaf.queue.backlog(&leaf.slab).bytes <= 1000 {
                    leaf.put(at * 1000 * MS, at, 500);
                }
            }
            leaf.take(at * 1000 * MS);
        }
        assert_eq!(leaf.sink.dropped, []);
    }
}

#[test]
fn a_sparse_flow_jumps_the_queue() {
    let mut leaf = Leaf::new(QueueKind::FqCoDel, false, 1000);
    for number in 0..900 {
        leaf.put(0, number | flow_bits(number as u32 % 5), L_MAX);
    }
    // In their first round the others are as new as the sparse one.
    for _ in 0..10 {
        leaf.take(0);
    }
    let mut ahead = Vec::new();
    for round in 0..60u64 {
        let now = round * 20 * MS;
        leaf.put(now, round | flow_bits(8), 100);
        // The head is a promise; the sparse packet is next after it.
        ahead.push((0..8).position(|_| leaf.take(now) == Some(round | flow_bits(8))).expect("one of eight"));
        // It is sparse if every other has its turn before it comes back.
        for _ in 0..6 {
            leaf.take(now);
        }
    }
    assert!(ahead.iter().all(|&ahead| ahead <= 1), "{ahead:?}");
    assert!(leaf.sink.dropped.iter().all(|&(handle, _)| handle >> 32 < 8));
}

#[test]
fn a_flow_that_comes_back_as_soon_as_it_was_served_starves_nobody() {
    let mut leaf = Leaf::new(QueueKind::FqCoDel, false, 1000);
    for number in 0..600 {
        leaf.put(0, number | flow_bits(1), 1000);
    }
    leaf.put(0, flow_bits(2), 1000);
    leaf.put(0, flow_bits(3), 1000);
    let mut others = 0;
    for number in 0..400 {
        match leaf.take(0).unwrap() >> 32 {
            1 => others += 1,
            flow => {
                leaf.put(0, number | flow_bits(flow as u32), 1000);
            }
        }
    }
    assert!((120..=180).contains(&others), "{others} of 400");
}

#[test]
fn flows_share_by_bytes_and_not_by_packets() {
    let mut leaf = Leaf::new(QueueKind::FqCoDel, false, 3000);
    let mut sent = [0u64; 2];
    for number in 0..1000 {
        leaf.put(0, number | flow_bits(0), 1500);
        leaf.put(0, number | flow_bits(1), 300);
        leaf.put(0, number | flow_bits(1), 300);
    }
    for _ in 0..1200 {
        let handle = leaf.take(0).unwrap();
        let flow = (handle >> 32) as usize;
        sent[flow] += [1500, 300][flow];
    }
    assert!(sent[0].abs_diff(sent[1]) <= 2 * u64::from(L_MAX), "{sent:?}");
}

#[test]
fn when_the_queue_is_full_the_longest_flow_gives_way_from_its_front() {
    let mut leaf = Leaf::new(QueueKind::FqCoDel, false, 100);
    for number in 0..1000 {
        assert!(leaf.put(0, number | flow_bits(1), L_MAX));
        if number % 50 == 49 {
            leaf.put(0, number | flow_bits(2 + number as u32 / 50), 100);
        }
    }
    assert!(leaf.queue.backlog(&leaf.slab).packets <= 100);
    let fat = |handle: u64| handle >> 32 == 1;
    assert!(leaf.sink.dropped.iter().all(|&(handle, reason)| fat(handle) && reason == DropReason::QueuePackets));
    assert!(leaf.sink.dropped.iter().map(|&(handle, _)| handle).is_sorted());
    let sent: Vec<u64> = core::iter::from_fn(|| leaf.take(0)).collect();
    assert_eq!(sent.iter().filter(|&&handle| !fat(handle)).count(), 20, "all of the sparse flows");
    assert!(sent.contains(&(999 | flow_bits(1))), "the newest of the fat flow stayed");
    // The arriving packet counts: it makes its own flow the longest.
    let mut leaf = Leaf::new(QueueKind::FqCoDel, false, 3);
    for (number, len, flow) in [(0, 9, 0), (1, 100, 1), (2, 90, 2), (3, 90, 2)] {
        assert!(leaf.put(0, number | flow_bits(flow), len));
    }
    assert_eq!(leaf.sink.dropped, [(2 | flow_bits(2), DropReason::QueuePackets)]);
    // CoDel has one flow, and drops the arrival.
    let mut leaf = Leaf::new(QueueKind::CoDel, false, 100);
    let taken: Vec<bool> = (0..200).map(|number| leaf.put(0, number | flow_bits(number as u32), L_MAX)).collect();
    assert!(taken == [[true; 100], [false; 100]].concat());
}

#[test]
fn a_packet_that_can_never_fit_makes_nobody_give_way() {
    let mut leaf = Leaf::new(QueueKind::FqCoDel, false, 10);
    leaf.queue.limit_bytes_to(1000);
    for number in 0..4 {
        leaf.put(0, number | flow_bits(1), 200);
    }
    assert!(!leaf.put(0, 9 | flow_bits(2), 1001));
    assert_eq!(leaf.sink.dropped, [(9 | flow_bits(2), DropReason::QueueBytes)]);
    assert!(leaf.put(0, 10 | flow_bits(2), 400), "half of the three behind the head, rounded up, made room");
    assert_eq!(leaf.sink.dropped[1..].iter().map(|drop| drop.0 as u32).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn time_that_jumps_or_goes_back_drops_nothing_before_an_interval_has_passed() {
    for kind in [QueueKind::CoDel, QueueKind::FqCoDel] {
        let mut leaf = Leaf::new(kind, false, 1000);
        for number in 0..200 {
            leaf.put(0, number, L_MAX);
        }
        // The first is forgiven after any wait: the wait is only known now.
        let year = 365 * 24 * 3600 * 1000 * MS;
        for now in [year, year, 5, 0, year + INTERVAL.0 - 1] {
            leaf.take(now).unwrap();
        }
        assert_eq!(leaf.sink.dropped, []);
        leaf.take(year + INTERVAL.0).unwrap();
        assert_eq!(leaf.sink.dropped.len(), 1);
        // Another year: the drops that were due are made up for, down to a largest packet and the one that is sent.
        leaf.take(2 * year).unwrap();
        assert!(leaf.queue.backlog(&leaf.slab).packets <= 3, "{:?}", leaf.queue.backlog(&leaf.slab));
        while leaf.take(u64::MAX).is_some() {}
        assert!(leaf.put(u64::MAX, 1, L_MAX) && leaf.take(0) == Some(1));
        // Packets that arrive before the latest time seen arrive at that time: the second one dequeued is the first
        // above the target.
        let mut leaf = Leaf::new(kind, false, 1000);
        leaf.put(1000 * MS, 0, L_MAX);
        for number in 1..200 {
            leaf.put(0, number, L_MAX);
        }
        for now in [1000, 1006, 1105] {
            leaf.take(now * MS).unwrap();
        }
        assert_eq!(leaf.sink.dropped, []);
        leaf.take(1106 * MS).unwrap();
        assert_eq!(leaf.sink.dropped.len(), 1);
    }
}

#[test]
fn a_purge_gives_packets_back_in_the_order_in_which_they_would_have_left_and_forgets_them() {
    let fill = |leaf: &mut Leaf| {
        for number in 0..60 {
            leaf.put(0, number | flow_bits(number as u32 * number as u32 % 7), 100 + number as u32 * 20);
        }
    };
    let mut sent = Leaf::new(QueueKind::FqCoDel, false, 1000);
    fill(&mut sent);
    let order: Vec<u64> = core::iter::from_fn(|| sent.take(0)).collect();
    let mut purged = Leaf::new(QueueKind::FqCoDel, false, 1000);
    fill(&mut purged);
    let late = Nanos::from_secs(10);
    purged.queue.purge(&mut purged.slab, LEAF, late, &mut purged.sink);
    assert_eq!(purged.sink.dropped, order.iter().map(|&handle| (handle, DropReason::Purged)).collect::<Vec<_>>());
    assert_eq!(purged.slab.backlog(), Amount::default());
    fill(&mut purged);
    assert!(core::iter::from_fn(|| purged.take(late.0)).eq(order));
    // Also CoDel's pending actions.
    let mut used = Leaf::new(QueueKind::CoDel, false, 1000);
    overload(&mut used, 0, 50, 3);
    let late = Nanos(3_100 * MS);
    used.queue.purge(&mut used.slab, LEAF, late, &mut used.sink);
    used.sink.dropped.clear();
    let mut fresh = Leaf::new(QueueKind::CoDel, false, 1000);
    for leaf in [&mut used, &mut fresh] {
        for number in 0..300 {
            leaf.put(late.0, number, L_MAX);
        }
        for tick in 0..200 {
            leaf.take(late.0 + tick * MS);
        }
    }
    assert_eq!(used.sink.dropped, fresh.sink.dropped);
    assert!(!fresh.sink.dropped.is_empty());
}

#[test]
fn many_leaves_keep_fewer_flows_apart_and_memory_stays_bounded() {
    for (leaves, packets, flows) in
        [(1, 1000, 1024), (1024, 256, 1024), (1025, 1000, 512), (3000, u32::MAX, 256), (1, 1, 4), (3000, 20, 128)]
    {
        let tree = tree(leaves, QueueKind::FqCoDel, false, packets);
        let mut slab = PacketSlab::for_tree(&tree).unwrap();
        for &leaf in tree.leaves() {
            let queue = slab.queue_for(&tree, leaf);
            assert_eq!(slab.flows_of(&queue), flows);
        }
    }
    assert!(
        PacketSlab::for_tree(&tree(10, QueueKind::Fifo, true, 10))
            .unwrap()
            .flows_of(&LeafQueue::new(QueueLimits::default()))
            == 0
    );
}
