//! Tests of hosts that share a leaf: each gets an equal part, regardless of its flows and packet lengths.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::contract::{
    ClassConfig, ClassId, DropReason, DropSink, Hierarchy, HostKey, Hosts, LinkConfig, Nanos, Packet, QueueKind,
    QueueLimits, Rate, flow_bits, with_host,
};

const L_MAX: u32 = 1500;
const LEAF: ClassId = ClassId(1);

#[derive(Default)]
struct Sink(Vec<(u64, DropReason)>);

impl DropSink for Sink {
    fn dropped(&mut self, _: Nanos, packet: Packet, reason: DropReason) {
        self.0.push((packet.handle, reason));
    }
}

struct Leaf {
    slab: PacketSlab,
    queue: LeafQueue,
    dropped: Sink,
    hosts: u16,
}

fn leaf(queue: QueueKind, hosts: u16, packets: u32) -> Leaf {
    let link = LinkConfig { max_packet: L_MAX, ..LinkConfig::new(Rate::from_bps(1_000_000_000).unwrap()) };
    let mut tree = Hierarchy::builder(link);
    let limits = QueueLimits { packets, ..QueueLimits::default() };
    let config = ClassConfig { queue, limits, hosts: Hosts::new(hosts, HostKey::SourceIp), ..ClassConfig::default() };
    tree.add(ClassId::ROOT, config).unwrap();
    let tree = tree.build().unwrap();
    let mut slab = PacketSlab::for_tree(&tree).unwrap();
    let queue = slab.queue_for(&tree, LEAF);
    Leaf { slab, queue, dropped: Sink::default(), hosts }
}

impl Leaf {
    fn put(&mut self, number: u64, host: u16, flow: u32, len: u32) -> bool {
        let packet = Packet { handle: with_host(number | flow_bits(flow), host), len, class: LEAF };
        self.queue.enqueue(&mut self.slab, Nanos::ZERO, packet, &mut self.dropped)
    }

    /// Number, host and length of the next packet.
    fn take(&mut self) -> Option<(u32, usize, u32)> {
        let packet = self.queue.dequeue(&mut self.slab, LEAF, Nanos::ZERO, &mut self.dropped)?;
        assert_eq!(self.queue.backlog(&self.slab), self.slab.backlog());
        Some((packet.handle as u32, packet.flow() as usize >> 15, packet.len))
    }
}

/// The maximum difference in service of two hosts in any time in which both had packets.
struct Apart {
    queued: Vec<u32>,
    /// By pair of hosts: the current lead of the first over the other, and its minimum since both have packets.
    ahead: Vec<Vec<(i64, i64)>>,
    most: i64,
}

impl Apart {
    fn new(hosts: usize) -> Self {
        Self { queued: vec![0; hosts], ahead: vec![vec![(0, 0); hosts]; hosts], most: 0 }
    }

    fn put(&mut self, host: usize) {
        self.queued[host] += 1;
        if self.queued[host] == 1 {
            for other in 0..self.queued.len() {
                (self.ahead[host][other], self.ahead[other][host]) = ((0, 0), (0, 0));
            }
        }
    }

    fn taken(&mut self, host: usize, len: u32) {
        for other in (0..self.queued.len()).filter(|&other| other != host) {
            if self.queued[other] == 0 {
                continue;
            }
            let (now, least) = &mut self.ahead[host][other];
            *now += i64::from(len);
            self.most = self.most.max(*now - *least);
            let (now, least) = &mut self.ahead[other][host];
            *now -= i64::from(len);
            *least = (*now).min(*least);
        }
        self.queued[host] -= 1;
    }
}

/// The bound is tight: a host that comes when the other has just spent its credit has two turns before it, and one more after a single byte.
#[test]
fn four_packets_apart_is_what_happens_and_not_only_what_is_promised() {
    let (mut leaf, mut apart) = (leaf(QueueKind::Fifo, 2, 1000), Apart::new(2));
    let mut number = 0;
    let mut put = |leaf: &mut Leaf, apart: &mut Apart, host: u16, len: u32| {
        number += 1;
        assert!(leaf.put(number, host, 0, len));
        apart.put(host.into());
    };
    // In its second turn the other host spends its credit and L - 1 more; the last of these is the head when the first host comes.
    for len in [L_MAX, L_MAX - 1, L_MAX, 1, L_MAX, L_MAX] {
        put(&mut leaf, &mut apart, 1, len);
    }
    for _ in 0..2 {
        let (_, host, len) = leaf.take().unwrap();
        apart.taken(host, len);
    }
    for len in [L_MAX - 1, L_MAX, L_MAX, L_MAX, L_MAX] {
        put(&mut leaf, &mut apart, 0, len);
    }
    while let Some((_, host, len)) = leaf.take() {
        apart.taken(host, len);
    }
    assert_eq!(apart.most as u64, Hosts::apart(L_MAX));
}

proptest! {
    /// Hosts that come and go, with packets of any lengths.
    #[test]
    fn hosts_are_never_farther_apart_than_is_printed(
        kind in prop_oneof![Just(QueueKind::Fifo), Just(QueueKind::CoDel), Just(QueueKind::FqCoDel)],
        hosts in 2usize..5,
        steps in proptest::collection::vec((0usize..8, prop_oneof![Just(1u32), Just(L_MAX), Just(L_MAX - 1), 1..=L_MAX], 0u32..5, 0u32..4), 1..600),
    ) {
        let (mut leaf, mut apart) = (leaf(kind, hosts as u16, 1 << 16), Apart::new(hosts));
        let mut number = 0;
        for (host, len, puts, takes) in steps {
            let host = host % hosts;
            for _ in 0..puts {
                number += 1;
                prop_assert!(leaf.put(number, host as u16, 0, len));
                apart.put(host);
            }
            for _ in 0..takes {
                let Some((_, host, len)) = leaf.take() else { break };
                apart.taken(host, len);
            }
        }
        prop_assert!(leaf.dropped.0.is_empty());
        prop_assert!(apart.most as u64 <= Hosts::apart(L_MAX), "{}", apart.most);
    }

    #[test]
    fn hosts_that_have_packets_all_the_time_are_served_alike_to_within_three_packets_whatever_they_send(
        kind in prop_oneof![Just(QueueKind::Fifo), Just(QueueKind::CoDel), Just(QueueKind::FqCoDel)],
        // By host: its flows and the lengths of its packets.
        senders in proptest::collection::vec((1u32..40, 40u32..L_MAX), 2..9),
        spare in 0u16..3,
        mix: u32,
    ) {
        let hosts = senders.len() as u16;
        let mut leaf = leaf(kind, hosts + spare, 1 << 16);
        let mut queued = vec![0u32; senders.len()];
        let mut number = 0;
        let mut fill = |leaf: &mut Leaf, host: usize, queued: &mut [u32]| {
            let (flows, len) = senders[host];
            // Flows of a host are not the other's, though their labels are the same.
            number += 1;
            let len = len + (number as u32).wrapping_mul(mix) % (L_MAX - len + 1);
            assert!(leaf.put(number, host as u16, number as u32 % flows, len));
            queued[host] += 1;
        };
        for _ in 0..50 {
            (0..senders.len()).for_each(|host| fill(&mut leaf, host, &mut queued));
        }
        let mut served = vec![0u64; senders.len()];
        for _ in 0..2000 {
            let (_, host, len) = leaf.take().unwrap();
            served[host] += u64::from(len);
            queued[host] -= 1;
            fill(&mut leaf, host, &mut queued);
            let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
            prop_assert!(most - least <= 3 * u64::from(L_MAX), "{served:?}");
        }
        prop_assert!(leaf.dropped.0.is_empty());
    }

    #[test]
    fn packets_of_a_flow_stay_in_order_and_none_is_lost_or_doubled(
        kind in prop_oneof![Just(QueueKind::Fifo), Just(QueueKind::CoDel), Just(QueueKind::FqCoDel)],
        hosts in 1u16..7, limit in 1u32..60,
        steps in proptest::collection::vec((0u16..9, 0u32..4, 1u32..L_MAX, 0u32..3), 1..400),
    ) {
        let mut leaf = leaf(kind, hosts, limit);
        let (mut put, mut taken) = (Vec::new(), Vec::new());
        for (number, (host, flow, len, takes)) in steps.into_iter().enumerate() {
            put.push((host % leaf.hosts, flow));
            leaf.put(number as u64, host, flow, len);
            taken.extend((0..takes).filter_map(|_| leaf.take()).map(|(number, ..)| number));
            prop_assert!(leaf.slab.backlog().packets <= u64::from(limit));
        }
        taken.extend(core::iter::from_fn(|| leaf.take()).map(|(number, ..)| number));
        for host in 0..leaf.hosts {
            for flow in 0..4 {
                let of_flow: Vec<u32> = taken.iter().copied().filter(|&at| put[at as usize] == (host, flow)).collect();
                prop_assert!(of_flow.is_sorted(), "{of_flow:?}");
            }
        }
        let mut seen: Vec<u32> = leaf.dropped.0.iter().map(|&(handle, _)| handle as u32).chain(taken).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..put.len() as u32).collect::<Vec<_>>());
    }
}

#[test]
fn a_host_that_floods_loses_its_own_packets_and_no_other_does() {
    for kind in [QueueKind::Fifo, QueueKind::CoDel, QueueKind::FqCoDel] {
        let mut leaf = leaf(kind, 8, 100);
        for number in 0..5000u64 {
            // Host 0 uses a new flow for each packet.
            leaf.put(number, 0, number as u32, L_MAX);
            if number % 50 == 0 {
                assert!(leaf.put(1 << 20 | number, 1, 7, L_MAX), "{kind:?}: {number}");
                leaf.take();
                leaf.take();
            }
        }
        assert!(leaf.dropped.0.len() > 4000);
        assert!(leaf.dropped.0.iter().all(|&(handle, _)| handle & 1 << 20 == 0), "{kind:?}: the other host lost");
    }
}

#[test]
fn a_host_that_comes_back_waits_for_no_more_than_what_is_out_already() {
    let mut leaf = leaf(QueueKind::Fifo, 4, 1000);
    for number in 0..300 {
        leaf.put(number, number as u16 % 3, 0, L_MAX);
    }
    for _ in 0..9 {
        leaf.take();
    }
    leaf.put(9999, 3, 0, 100);
    let ahead = (0..9).position(|_| leaf.take().is_some_and(|(number, ..)| number == 9999));
    assert_eq!(ahead, Some(1), "behind the head, which is a promise");
}

#[test]
fn hosts_beyond_the_number_share_with_others() {
    let mut leaf = leaf(QueueKind::Fifo, 2, 1000);
    for number in 0..120 {
        leaf.put(number, number as u16 % 3, 0, L_MAX);
    }
    // Hosts 0 and 2 are one.
    let mut sent = [0; 3];
    for _ in 0..60 {
        sent[leaf.take().unwrap().0 as usize % 3] += 1;
    }
    assert!((29..=31).contains(&sent[1]) && sent[0] + sent[2] == 60 - sent[1], "{sent:?}");
}

#[test]
fn flows_of_one_host_take_turns_within_its_part() {
    let mut leaf = leaf(QueueKind::FqCoDel, 2, 1000);
    // Flows 1 and 2 of host 0, in bulk one after the other; flow 1 of host 1.
    for number in 0..200 {
        leaf.put(number, 0, 1 + (number / 100) as u32, L_MAX);
        leaf.put(1000 + number, 1, 1, L_MAX);
    }
    let mut sent = [0; 3];
    for _ in 0..100 {
        let (number, ..) = leaf.take().unwrap();
        sent[if number >= 1000 { 2 } else { number as usize / 100 }] += 1;
    }
    assert!((24..=26).contains(&sent[0]) && (24..=26).contains(&sent[1]) && (49..=51).contains(&sent[2]), "{sent:?}");
}
