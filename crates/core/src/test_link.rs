//! A link in virtual time for the tests of schedulers with tags, random traffic for it, and the bounds that they share.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::contract::{
    ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, LinkConfig, NANOS_PER_SEC, Nanos, Packet, Rate, Scheduler,
    Share,
};

/// Time per byte of the test links, in ns: 1 Gbit/s. Every packet ends on a whole nanosecond.
pub(crate) const NS_PER_BYTE: u64 = 8;
pub(crate) const LINK: Rate = match Rate::from_bps(8 * NANOS_PER_SEC / NS_PER_BYTE) {
    Ok(rate) => rate,
    Err(_) => panic!(),
};
/// Largest packet of the random traffic.
pub(crate) const L_MAX: u32 = 1500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: u64,
    pub(crate) class: u32,
    pub(crate) len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) class: u32,
    pub(crate) len: u32,
    pub(crate) arrival: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

pub(crate) fn never(_: Nanos, packet: Packet, reason: DropReason) {
    panic!("{packet:?} dropped: {reason:?}");
}

pub(crate) fn weighted(weight: u64) -> ClassConfig {
    ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() }
}

/// Checks the invariants of `scheduler`. Without the feature `invariants` it has no checks, and the result is `Ok`.
pub(crate) fn invariants<S: Scheduler + ?Sized>(scheduler: &S) -> Result<(), String> {
    #[cfg(feature = "invariants")]
    scheduler.check_invariants()?;
    let _ = scheduler;
    Ok(())
}

/// Classes 1, 2, ... below the link.
pub(crate) fn flat(configs: impl IntoIterator<Item = ClassConfig>) -> Hierarchy {
    let mut tree = Hierarchy::builder(LinkConfig::new(LINK));
    for config in configs {
        tree.add(ClassId::ROOT, config).unwrap();
    }
    tree.build().unwrap()
}

/// Runs the link until everything has been sent.
pub(crate) fn run(scheduler: &mut dyn Scheduler, arrivals: &[Arrival]) -> Vec<Served> {
    let mut served = Vec::new();
    let mut next = 0;
    let mut now = 0;
    loop {
        while let Some(arrival) = arrivals.get(next).filter(|arrival| arrival.at <= now) {
            let packet = Packet { handle: next as u64, len: arrival.len, class: ClassId(arrival.class) };
            scheduler.enqueue(Nanos(arrival.at), packet, &mut never);
            next += 1;
        }
        invariants(scheduler).unwrap();
        match scheduler.dequeue(Nanos(now), &mut never) {
            Dequeued::Packet(packet) => {
                let Arrival { at: arrival, class, len } = arrivals[packet.handle as usize];
                assert_eq!((packet.class, packet.len), (ClassId(class), len));
                let end = now + u64::from(len) * NS_PER_BYTE;
                served.push(Served { class, len, arrival, start: now, end });
                now = end;
            }
            Dequeued::Idle => match arrivals.get(next) {
                Some(arrival) => now = arrival.at,
                None => return served,
            },
            Dequeued::WaitUntil(t) => panic!("waits until {t} with {:?}", scheduler.backlog()),
        }
    }
}

/// A link on which sending a packet takes its time, as `Send` does in the loops that papers write down. The oracles of round
/// robin schedulers are such loops.
#[derive(Debug)]
pub(crate) struct Wire<'a> {
    arrivals: &'a [Arrival],
    next: usize,
    now: u64,
    /// By class id.
    pub(crate) queues: Vec<VecDeque<Arrival>>,
    served: Vec<Served>,
}

impl<'a> Wire<'a> {
    /// Makes a link for classes 1 to `classes`.
    pub(crate) fn new(classes: usize, arrivals: &'a [Arrival]) -> Self {
        let queues = alloc::vec![VecDeque::new(); classes + 1];
        Self { arrivals, next: 0, now: 0, queues, served: Vec::new() }
    }

    /// Queues one packet that has arrived by now: returns its class, and true if that was empty.
    pub(crate) fn take_in(&mut self) -> Option<(usize, bool)> {
        let arrival = *self.arrivals.get(self.next).filter(|arrival| arrival.at <= self.now)?;
        self.next += 1;
        let queue = &mut self.queues[arrival.class as usize];
        queue.push_back(arrival);
        Some((arrival.class as usize, queue.len() == 1))
    }

    /// Sends the first packet of a class, to its last bit.
    pub(crate) fn send(&mut self, class: usize) {
        let Arrival { at: arrival, class, len } = self.queues[class].pop_front().unwrap();
        let (start, end) = (self.now, self.now + u64::from(len) * NS_PER_BYTE);
        self.served.push(Served { class, len, arrival, start, end });
        self.now = end;
    }

    /// Waits for the next arrival; returns false if there is none.
    pub(crate) fn wait(&mut self) -> bool {
        self.arrivals.get(self.next).inspect(|arrival| self.now = arrival.at).is_some()
    }

    /// Returns the length of the first packet of a class.
    pub(crate) fn head(&self, class: usize) -> Option<u64> {
        self.queues[class].front().map(|packet| u64::from(packet.len))
    }

    /// Returns true if no class has a packet.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Returns all packets that were sent, in order.
    pub(crate) fn into_served(self) -> Vec<Served> {
        self.served
    }
}

/// An example that depends on the end of a visit: class 1 has three packets at once, class 2 gets two while the first
/// is sent.
pub(crate) fn newcomer() -> Vec<Arrival> {
    let packet = |class, at| Arrival { at, class, len: 1500 };
    alloc::vec![packet(1, 0), packet(1, 0), packet(1, 0), packet(2, 200), packet(2, 200)]
}

/// Makes bursts, pauses and a load of about one, in classes 1 to `classes`.
pub(crate) fn traffic(classes: u32, packets: usize) -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![6 => Just(0u64), 5 => 0u64..15_000, 1 => 0u64..120_000];
    let len = prop_oneof![3 => 1u32..=L_MAX, 1 => Just(L_MAX), 1 => 40u32..100];
    prop::collection::vec((gap, 1..=classes, len), 1..packets).prop_map(|list| {
        let mut at = 0;
        list.into_iter()
            .map(|(gap, class, len)| {
                at += gap;
                Arrival { at, class, len }
            })
            .collect()
    })
}

/// Makes the weights of flat classes and traffic for them.
pub(crate) fn flat_traffic(packets: usize) -> impl Strategy<Value = (Vec<u64>, Vec<Arrival>)> {
    prop::collection::vec(1u64..=9, 1..7)
        .prop_flat_map(move |weights| (traffic(weights.len() as u32, packets), Just(weights)))
        .prop_map(|(traffic, weights)| (weights, traffic))
}

/// Returns the packets of each maximal time in which a class has packets, including the packet on the link.
pub(crate) fn backlogged_periods(served: &[Served], class: u32) -> Vec<Vec<Served>> {
    let mut periods: Vec<Vec<Served>> = Vec::new();
    for &packet in served.iter().filter(|packet| packet.class == class) {
        match periods.last_mut() {
            Some(period) if period.last().is_some_and(|last| packet.arrival <= last.end) => period.push(packet),
            _ => periods.push(alloc::vec![packet]),
        }
    }
    periods
}

fn largest(served: &[Served], class: u32) -> i128 {
    served.iter().filter(|packet| packet.class == class).map(|packet| i128::from(packet.len)).max().unwrap_or(0)
}

/// Checks |W_i / rho_i - W_j / rho_j| <= L_i / rho_i + L_j / rho_j over every interval in which both are backlogged.
pub(crate) fn pairs_are_fair(weights: &[u64], served: &[Served]) -> Result<(), TestCaseError> {
    let phi = |class: u32| i128::from(weights[class as usize - 1]);
    let classes = 1..=weights.len() as u32;
    for (i, j) in classes.clone().flat_map(|i| (1..i).map(move |j| (i, j))) {
        let bound = largest(served, i) * phi(j) + largest(served, j) * phi(i);
        for one in backlogged_periods(served, i) {
            for other in backlogged_periods(served, j) {
                let from = one[0].arrival.max(other[0].arrival);
                let until = one[one.len() - 1].end.min(other[other.len() - 1].end);
                let (mut ahead, mut least, mut most) = (0, 0, 0);
                for packet in served.iter().filter(|packet| packet.end > from && packet.end <= until) {
                    ahead += match packet.class {
                        class if class == i => i128::from(packet.len) * phi(j),
                        class if class == j => -i128::from(packet.len) * phi(i),
                        _ => 0,
                    };
                    least = least.min(ahead);
                    most = most.max(ahead);
                }
                prop_assert!(most - least <= bound, "{i} and {j}: {} in {from}..{until}, bound {bound}", most - least);
            }
        }
    }
    Ok(())
}

/// Returns true if |sent_i / q_i - sent_j / q_j| stays within `bound` / (q_i q_j) over every interval, for two classes and their quanta.
pub(crate) fn pairs_within(served: &[Served], i: (u32, u32), j: (u32, u32), bound: u128) -> bool {
    let (mut ahead, mut least, mut most) = (0i128, 0, 0);
    for packet in served {
        ahead += i128::from(packet.len) * if packet.class == i.0 { i128::from(j.1) } else { 0 };
        ahead -= i128::from(packet.len) * if packet.class == j.0 { i128::from(i.1) } else { 0 };
        (least, most) = (least.min(ahead), most.max(ahead));
    }
    ((most - least) as u128) <= bound
}

/// Checks the delay of every packet. The reference is a link of the class's own rate, its share of the whole. A packet
/// leaves within `latency(class, len)` of its departure there, in units of ns times the weight of the class. For
/// (sigma, rho) arrivals the departure there is at most sigma / rho after the arrival. The delay is then within sigma /
/// rho and the latency.
pub(crate) fn delays_are_bounded(
    weights: &[u64],
    served: &[Served],
    latency: impl Fn(usize, u32) -> i128,
) -> Result<(), TestCaseError> {
    let all: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
    // Times the weight of the class.
    let mut alone: Vec<i128> = alloc::vec![0; weights.len()];
    for packet in served {
        let index = packet.class as usize - 1;
        let weight = i128::from(weights[index]);
        let own_time = i128::from(packet.len) * all * i128::from(NS_PER_BYTE);
        alone[index] = alone[index].max(i128::from(packet.arrival) * weight) + own_time;
        let end = i128::from(packet.end) * weight;
        let bound = alone[index] + latency(index, packet.len);
        prop_assert!(end <= bound, "{packet:?} leaves {} ns / {weight} late", end - bound);
    }
    Ok(())
}

/// One of the nodes between a leaf and the root: its weight, that of it and its siblings together, its largest packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) weight: u64,
    pub(crate) siblings: u64,
    pub(crate) largest: u32,
}

/// W_i(t1, t2) >= share W(t1, t2) - the sum over `path`, from the leaf up, of (L + (L_max - L) s) times the share of
/// the part below, while the class is backlogged, whenever one of its packets has left. For flat classes the path has
/// one step: WF2Q+'s bound.
pub(crate) fn service_is_worst_case_fair(served: &[Served], class: u32, path: &[Step]) -> Result<(), TestCaseError> {
    // Everything times the product of all `siblings`, and times ns per byte.
    let whole: i128 = path.iter().map(|step| i128::from(step.siblings)).product();
    let link_max = served.iter().map(|packet| i128::from(packet.len)).max().unwrap_or(0);
    let (mut bound, mut share) = (0, whole);
    for step in path {
        let (weight, siblings, own) = (i128::from(step.weight), i128::from(step.siblings), i128::from(step.largest));
        // `share` is divisible: it is the product of the weights below and the `siblings` from here on.
        bound += share * own + share / siblings * weight * (link_max - own);
        share = share / siblings * weight;
    }
    bound *= i128::from(NS_PER_BYTE);
    for period in backlogged_periods(served, class) {
        let mut own = 0i128;
        let lag = |at: u64, own: i128| share * i128::from(at) - whole * own * i128::from(NS_PER_BYTE);
        let mut least = lag(period[0].arrival, 0);
        for packet in &period {
            own += i128::from(packet.len);
            let lag = lag(packet.end, own);
            prop_assert!(lag - least <= bound, "{packet:?}: {} behind, bound {bound}", lag - least);
            least = least.min(lag);
        }
    }
    Ok(())
}

/// Queues all of `packets` (class, length) at once and dequeues them; returns the classes in order.
pub(crate) fn order(scheduler: &mut dyn Scheduler, packets: &[(u32, u32)]) -> Vec<u32> {
    let arrivals: Vec<_> = packets.iter().map(|&(class, len)| Arrival { at: 0, class, len }).collect();
    run(scheduler, &arrivals).iter().map(|packet| packet.class).collect()
}

/// The example of \[drrpp\] Figure 2.1: two classes of the same rate. The first is alone for 900 packets; from then on
/// both are backlogged. Returns the classes of the packets sent from then on.
pub(crate) fn figure_2_1(scheduler: &mut dyn Scheduler) -> VecDeque<u32> {
    let packet = 1500 * NS_PER_BYTE;
    let mut arrivals: Vec<_> = (0..900).map(|k| Arrival { at: k * packet, class: 1, len: 1500 }).collect();
    for k in 0..50 {
        arrivals.push(Arrival { at: 900 * packet - 1, class: 1, len: 1500 });
        arrivals.push(Arrival { at: 900 * packet + 2 * k, class: 2, len: 1500 });
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    let served = run(scheduler, &arrivals);
    served.iter().filter(|packet| packet.start >= 901 * packet_time()).map(|packet| packet.class).collect()
}

fn packet_time() -> u64 {
    1500 * NS_PER_BYTE
}
