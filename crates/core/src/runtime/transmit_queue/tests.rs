//! The transmit queue against a loop that moves packets as the text's modules do, and its bound.

use super::*;
use crate::contract::{ClassConfig, LinkConfig};
use crate::schedulers::drr_plus_plus::INFO as DRR_PLUS_PLUS;
use crate::test_link::{Arrival, LINK, NS_PER_BYTE, Served, invariants, never, run, traffic, weighted};
use alloc::{collections::VecDeque, vec::Vec};
use proptest::prelude::*;

/// The first is latency-critical.
fn tree(classes: u32, queue: Option<TransmitQueue>) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig { transmit_queue: queue, ..LinkConfig::new(LINK) });
    for class in 0..classes {
        let config = ClassConfig { latency_critical: class == 0, quantum: Some(1500), ..weighted(1) };
        tree.add(ClassId::ROOT, config).unwrap();
    }
    tree.build().unwrap()
}

fn build(tree: &Hierarchy) -> Box<dyn Scheduler> {
    DRR_PLUS_PLUS.build(tree, crate::contract::Leniency::Refuse, crate::contract::Members::new()).unwrap()
}

/// The dequeuing module and the transmit module of the text as a loop around the bare scheduler, with the limit to overtaking.
struct ByHand {
    scheduler: Box<dyn Scheduler>,
    queue: TransmitQueue,
    prio: VecDeque<(u64, Packet)>,
    plain: VecDeque<(u64, Packet)>,
    entered: u64,
    passed: u32,
}

impl ByHand {
    fn fill(&mut self, now: u64) {
        while self.prio.len() + self.plain.len() < self.queue.packets as usize
            && let Dequeued::Packet(packet) = self.scheduler.dequeue(Nanos(now), &mut never)
        {
            let expedited = self.queue.priority && packet.class == ClassId(1);
            let to = if expedited { &mut self.prio } else { &mut self.plain };
            to.push_back((self.entered, packet));
            self.entered += 1;
        }
    }

    fn take(&mut self) -> Option<Packet> {
        let passes = match (self.prio.front(), self.plain.front()) {
            (Some(prio), Some(plain)) => prio.0 > plain.0,
            _ => false,
        };
        let plain = passes && self.passed == self.queue.packets || self.prio.is_empty();
        self.passed = if plain { 0 } else { self.passed + u32::from(passes) };
        let from = if plain { &mut self.plain } else { &mut self.prio };
        from.pop_front().map(|(_, packet)| packet)
    }
}

fn moved_by_hand(classes: u32, queue: TransmitQueue, arrivals: &[Arrival]) -> Vec<(u32, u64)> {
    let scheduler = build(&tree(classes, None));
    let (prio, plain) = (VecDeque::new(), VecDeque::new());
    let mut hand = ByHand { scheduler, queue, prio, plain, entered: 0, passed: 0 };
    let (mut now, mut next, mut sent) = (0, 0, Vec::new());
    loop {
        while let Some(&Arrival { at, class, len }) = arrivals.get(next).filter(|arrival| arrival.at <= now) {
            hand.scheduler.enqueue(Nanos(at), Packet { handle: next as u64, len, class: ClassId(class) }, &mut never);
            hand.fill(at);
            next += 1;
        }
        if let Some(packet) = hand.take() {
            hand.fill(now);
            now += u64::from(packet.len) * NS_PER_BYTE;
            sent.push((packet.class.0, now));
        } else if let Some(arrival) = arrivals.get(next) {
            now = arrival.at;
        } else {
            return sent;
        }
    }
}

fn queues() -> impl Strategy<Value = TransmitQueue> {
    (1u32..6, any::<bool>()).prop_map(|(packets, priority)| TransmitQueue { packets, priority })
}

/// The largest delay of each class.
fn delays(served: &[Served], classes: u32) -> Vec<u64> {
    let of = |class| served.iter().filter(move |packet| packet.class == class);
    (1..=classes).map(|class| of(class).map(|packet| packet.end - packet.arrival).max().unwrap_or(0)).collect()
}

proptest! {
    #[test]
    fn packets_go_the_way_of_the_modules_of_the_text(queue in queues(), arrivals in traffic(4, 200)) {
        let served = run(&mut build(&tree(4, Some(queue))), &arrivals);
        let sent: Vec<_> = served.iter().map(|packet| (packet.class, packet.end)).collect();
        prop_assert_eq!(sent, moved_by_hand(4, queue, &arrivals));
    }

    #[test]
    fn a_queue_of_n_adds_no_more_than_n_packets_to_the_bound_on_delay(queue in queues(), arrivals in traffic(4, 200)) {
        // The bound of drr++ for its latency-critical class, for the burst that the traffic has at its rate.
        let tree = tree(4, Some(queue));
        let crate::contract::Delay::LatencyRate(servers) = DRR_PLUS_PLUS.promises.delay.unwrap() else { panic!() };
        let server = servers(&tree)[1].unwrap();
        let served = run(&mut build(&tree), &arrivals);
        // Half of the link in bytes: sigma at rho.
        prop_assert_eq!((server.share.numerator * 2, server.share.denominator), (server.share.denominator, server.share.denominator));
        let (mut level, mut sigma, mut last) = (0i128, 0i128, 0);
        for arrival in arrivals.iter().filter(|arrival| arrival.class == 1) {
            level = (level - i128::from(arrival.at - last)).max(0) + 2 * i128::from(NS_PER_BYTE) * i128::from(arrival.len);
            (last, sigma) = (arrival.at, sigma.max(level));
        }
        let late = (server.late.numerator / server.late.denominator + 1) as i128 * i128::from(NS_PER_BYTE);
        let bound = sigma + late + i128::from(queue.packets) * 1500 * i128::from(NS_PER_BYTE);
        prop_assert!(i128::from(delays(&served, 1)[0]) <= bound, "{} of {bound}", delays(&served, 1)[0]);
    }
}

#[test]
fn the_priority_queue_is_sent_first_and_a_plain_one_in_order() {
    // Six best-effort packets, and a latency-critical one when the first is on the link and four are in the queue.
    let mut arrivals: Vec<_> = (0..6).map(|_| Arrival { at: 0, class: 2, len: 1500 }).collect();
    arrivals.push(Arrival { at: 100, class: 1, len: 1500 });
    let order = |priority| {
        let queue = TransmitQueue { packets: 4, priority };
        let served = run(&mut build(&tree(2, Some(queue))), &arrivals);
        served.iter().position(|packet| packet.class == 1).unwrap()
    };
    assert_eq!((order(true), order(false)), (2, 5));
    let bare = run(&mut build(&tree(2, None)), &arrivals);
    assert_eq!(bare.iter().position(|packet| packet.class == 1), Some(1));
}

#[test]
fn a_best_effort_packet_is_overtaken_n_times_at_most_however_much_is_expedited() {
    let queue = TransmitQueue { packets: 3, priority: true };
    let mut arrivals: Vec<_> = (0..100).map(|_| Arrival { at: 0, class: 1, len: 1500 }).collect();
    arrivals.insert(1, Arrival { at: 0, class: 2, len: 1500 });
    let served = run(&mut build(&tree(2, Some(queue))), &arrivals);
    let place = served.iter().position(|packet| packet.class == 2).unwrap();
    assert!((3..=6).contains(&place), "{place}");
}

#[test]
fn what_is_in_the_queue_takes_no_room_in_the_classes_and_is_purged_first() {
    let queue = TransmitQueue { packets: 2, priority: true };
    let mut scheduler = build(&tree(2, Some(queue)));
    for handle in 0..5 {
        scheduler.enqueue(Nanos(1), Packet { handle, len: 100, class: ClassId(2) }, &mut never);
    }
    assert_eq!(scheduler.backlog(), Amount { packets: 5, bytes: 500 });
    assert_eq!(scheduler.class_backlog(ClassId(2)), Amount { packets: 5, bytes: 500 });
    let mut purged = Vec::new();
    scheduler.purge(Nanos(2), &mut |_: Nanos, packet: Packet, reason| {
        assert_eq!(reason, DropReason::Purged);
        purged.push(packet.handle);
    });
    assert_eq!(purged, [0, 1, 2, 3, 4]);
    assert_eq!(scheduler.backlog(), Amount::ZERO);
    invariants(&scheduler).unwrap();
}
