//! HTB against the measurements of [htb], experiment 2 of [hls], and its bounds.

use super::*;
use crate::contract::{ClassConfig, HierarchyBuilder, LinkConfig, QueueLimits, Rate, Share};
use crate::runtime::{
    driver::{Driver, Pacer, Port, Wake},
    pool::{Pool, PoolRule},
};
use crate::test_link::invariants;
use alloc::{format, string::String, vec::Vec};
use proptest::prelude::*;

/// Bytes per second, the unit of [htb].
const fn kbps(kilobytes: u64) -> u64 {
    kilobytes * 8_000
}

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

fn builder(bps: u64, max_packet: u32) -> HierarchyBuilder {
    Hierarchy::builder(LinkConfig { max_packet, ..LinkConfig::new(rate(bps)) })
}

fn class(guarantee: u64, ceiling: Option<u64>) -> ClassConfig {
    let limits = QueueLimits { packets: 5, bytes: u32::MAX };
    let share = Some(Share::Guarantee(rate(guarantee)));
    ClassConfig { share, ceiling: ceiling.map(rate), limits, ..ClassConfig::default() }
}

fn bytes_in(bps: u64, span: Nanos) -> u128 {
    u128::from(bps) * u128::from(span.0) / 8_000_000_000
}

/// A source of packets of one length at changing rates.
struct Flow {
    class: ClassId,
    len: u32,
    /// Rate in bit/s from each time on.
    script: Vec<(Nanos, u64)>,
    next: Nanos,
}

impl Flow {
    fn new(class: ClassId, len: u32, script: &[(u64, u64)]) -> Self {
        let script: Vec<_> = script.iter().map(|&(ms, bps)| (Nanos::from_millis(ms), bps)).collect();
        Self { class, len, next: script[0].0, script }
    }

    fn advance(&mut self) {
        let at = |now: Nanos| self.script.iter().rev().find(|step| step.0 <= now).map_or(0, |step| step.1);
        self.next = match Rate::from_bps(at(self.next)) {
            Ok(bps) => self.next + bps.time_for(self.len),
            // Silent until the next change of rate.
            Err(_) => self.script.iter().map(|step| step.0).find(|&time| time > self.next).unwrap_or(Nanos::MAX),
        };
    }

    fn is_silent(&self) -> bool {
        self.script.iter().rev().find(|step| step.0 <= self.next).is_none_or(|step| step.1 == 0)
    }
}

/// A sent packet: start of transmission, class, length, and queueing delay.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Nanos,
    class: ClassId,
    len: u32,
    delay: Nanos,
}

/// A link with its sources, all in virtual time.
struct Link {
    flows: Vec<Flow>,
    sent: Vec<Sent>,
}

impl DropSink for Link {
    fn dropped(&mut self, _: Nanos, packet: Packet, reason: DropReason) {
        assert_eq!(reason, DropReason::QueuePackets, "{packet:?}");
    }
}

impl Port for Link {
    fn receive(&mut self, now: Nanos, batch: &mut Vec<Packet>) {
        while let Some(flow) = self.flows.iter_mut().filter(|flow| flow.next <= now).min_by_key(|flow| flow.next) {
            if !flow.is_silent() {
                batch.push(Packet { handle: flow.next.0, len: flow.len, class: flow.class });
            }
            flow.advance();
        }
    }

    fn transmit(&mut self, now: Nanos, packet: Packet, _: Nanos) {
        let delay = now - Nanos(packet.handle);
        self.sent.push(Sent { at: now, class: packet.class, len: packet.len, delay });
    }

    fn flush(&mut self, _: Nanos) {}
}

impl Link {
    fn next_arrival(&self) -> Nanos {
        self.flows.iter().map(|flow| flow.next).min().unwrap_or(Nanos::MAX)
    }

    /// Mean rate of `class` in bit/s between two times in ms.
    fn rate(&self, class: ClassId, from: u64, to: u64) -> f64 {
        let (start, end) = (Nanos::from_millis(from), Nanos::from_millis(to));
        let within = self.sent.iter().filter(|sent| sent.class == class && sent.at >= start && sent.at < end);
        within.map(|sent| f64::from(sent.len)).sum::<f64>() * 8_000.0 / (to - from) as f64
    }

    fn delays(&self, class: ClassId, from: u64, to: u64) -> Vec<Nanos> {
        let (start, end) = (Nanos::from_millis(from), Nanos::from_millis(to));
        let within = self.sent.iter().filter(|sent| sent.class == class && sent.at >= start && sent.at < end);
        within.map(|sent| sent.delay).collect()
    }
}

/// Runs links side by side, each at its own pace, until `end`.
fn run_links(links: Vec<(Htb, u64, Vec<Flow>)>, end: Nanos) -> Vec<Link> {
    let mut running: Vec<_> = links
        .into_iter()
        .map(|(htb, bps, flows)| {
            let driver = Driver::new(htb, Pacer::new(rate(bps), Nanos::ZERO)).unwrap();
            (driver, Link { flows, sent: Vec::new() }, Nanos::ZERO)
        })
        .collect();
    while let Some((driver, link, wake)) = running.iter_mut().min_by_key(|(_, _, wake)| *wake) {
        let now = *wake;
        if now >= end {
            break;
        }
        let at = match driver.turn(now, link) {
            Wake::At(at) => at.min(link.next_arrival()),
            Wake::OnArrival => link.next_arrival(),
        };
        invariants(driver.scheduler()).unwrap();
        assert!(at > now || driver.pacer().free_at() <= now, "a busy loop at {now}");
        *wake = at;
    }
    running.into_iter().map(|(_, link, _)| link).collect()
}

fn run(tree: &Hierarchy, deficits: Deficits, flows: Vec<Flow>, seconds: u64) -> Link {
    let htb = Htb::new(tree, deficits, Vec::new()).unwrap();
    let links = run_links(alloc::vec![(htb, tree.link().rate.bps(), flows)], Nanos::from_secs(seconds));
    links.into_iter().next().unwrap()
}

/// The set-up of [htb]: 1:1 at 100, below it 1:2 at 40 and 1:3 at 20, both with a ceiling of 80; on a link of 10 Mbit/s.
fn setup_of_2001(priorities: [u8; 2]) -> (Hierarchy, [ClassId; 2]) {
    let mut tree = builder(10_000_000, 1000);
    let burst = Some(2_000);
    let top = ClassConfig { burst, ceiling_burst: burst, ..class(kbps(100), Some(kbps(100))) };
    let top = tree.add(ClassId::ROOT, top).unwrap();
    let leaf = |guarantee, priority| ClassConfig {
        burst,
        ceiling_burst: burst,
        priority: Some(priority),
        ..class(kbps(guarantee), Some(kbps(80)))
    };
    let a = tree.add(top, leaf(40, priorities[0])).unwrap();
    let b = tree.add(top, leaf(20, priorities[1])).unwrap();
    (tree.build().unwrap(), [a, b])
}

/// The script of [htb]: flow 0 sends 90 from 0 s to 9 s, flow 1 sends 50 from 4 s to 14 s.
fn script_of_2001([a, b]: [ClassId; 2]) -> Vec<Flow> {
    let first = Flow::new(a, 1000, &[(0, kbps(90)), (9_000, 0)]);
    alloc::vec![first, Flow::new(b, 1000, &[(4_000, kbps(50)), (14_000, 0)])]
}

fn within(value: f64, expected: f64, part: f64) -> bool {
    (value - expected).abs() <= expected * part
}

/// Deviation of the shares from 67 : 33 while both send, as a part of the whole.
fn sharing_error(deficits: Deficits) -> f64 {
    let (tree, classes) = setup_of_2001([1, 1]);
    let link = run(&tree, deficits, script_of_2001(classes), 14);
    let b = link.rate(classes[1], 4_500, 9_000) / kbps(100) as f64;
    (b - 1.0 / 3.0).abs()
}

#[test]
fn the_measurement_of_2001_shares_67_to_33_and_keeps_the_ceiling_of_80() {
    let (tree, classes) = setup_of_2001([1, 1]);
    let link = run(&tree, Deficits::PerLevel, script_of_2001(classes), 15);
    let [a, b] = classes;
    let kbps = |class, from, to| link.rate(class, from, to) / 8_000.0;
    assert!(within(kbps(a, 500, 4_000), 80.0, 0.02), "{}", kbps(a, 500, 4_000));
    assert!(within(kbps(a, 4_500, 9_000), 66.7, 0.05), "{}", kbps(a, 4_500, 9_000));
    assert!(within(kbps(b, 4_500, 9_000), 33.3, 0.05), "{}", kbps(b, 4_500, 9_000));
    assert!(within(kbps(b, 9_500, 14_000), 50.0, 0.02), "{}", kbps(b, 9_500, 14_000));
    assert!(kbps(a, 4_500, 9_000) + kbps(b, 4_500, 9_000) <= 101.0);
}

#[test]
fn a_raised_priority_is_served_first_and_waits_for_nothing_but_the_ceiling() {
    let (tree, classes) = setup_of_2001([1, 0]);
    let link = run(&tree, Deficits::PerLevel, script_of_2001(classes), 15);
    let [a, b] = classes;
    let (rate_a, rate_b) = (link.rate(a, 4_500, 9_000) / 8_000.0, link.rate(b, 4_500, 9_000) / 8_000.0);
    assert!(within(rate_b, 50.0, 0.02) && within(rate_a, 50.0, 0.03), "{rate_a} and {rate_b}");
    let raised = link.delays(b, 4_500, 9_000).into_iter().max().unwrap();
    let (tree, classes) = setup_of_2001([1, 1]);
    let link = run(&tree, Deficits::PerLevel, script_of_2001(classes), 15);
    let equal = link.delays(b, 4_500, 9_000).into_iter().min().unwrap();
    // A packet of 1000 B lasts 10 ms at 100; with equal priorities the queue of five fills.
    assert!(raised < Nanos::from_millis(25) && equal > Nanos::from_millis(60), "{raised}, {equal}");
}

#[test]
fn the_spike_at_a_start_is_the_burst_and_nothing_beyond_it() {
    let (tree, [a, _]) = setup_of_2001([1, 1]);
    let flow = Flow::new(a, 1000, &[(0, kbps(1_000)), (4_000, 0)]);
    let link = run(&tree, Deficits::PerLevel, alloc::vec![flow], 4);
    let mut sent = 0;
    let mut largest = 0i128;
    for packet in &link.sent {
        sent += u128::from(packet.len);
        largest = largest.max(sent as i128 - bytes_in(kbps(80), packet.at) as i128);
    }
    // The burst of 2 kB and the packet that causes debt.
    assert!((2_000..=3_000).contains(&largest), "{largest}");
}

#[test]
fn separate_deficits_share_within_5_percent_and_a_common_one_is_off_by_10_to_20() {
    let (separate, common) = (sharing_error(Deficits::PerLevel), sharing_error(Deficits::Common));
    assert!(separate < 0.05 && (0.1..0.2).contains(&common), "separate {separate}, common {common}");
}

/// Experiment 2 of [hls] at 100 Mbit/s while C pauses: rates of A1 and B2 in Mbit/s.
fn experiment_2(a1: u64, a2: u64, equal_quanta: Option<u32>) -> (f64, f64) {
    let mbit = 100_000;
    let mut tree = builder(100_000_000, 1000);
    let with = |guarantee: u64| ClassConfig {
        quantum: equal_quanta.or(Some((guarantee * 100) as u32)),
        ..class(guarantee * mbit, None)
    };
    let a = tree.add(ClassId::ROOT, with(300)).unwrap();
    let b = tree.add(ClassId::ROOT, with(300)).unwrap();
    tree.add(ClassId::ROOT, with(400)).unwrap();
    let leaf_a1 = tree.add(a, with(a1)).unwrap();
    tree.add(a, with(a2)).unwrap();
    tree.add(b, with(a1)).unwrap();
    let leaf_b2 = tree.add(b, with(a2)).unwrap();
    let tree = tree.build().unwrap();
    let flows = [leaf_a1, leaf_b2].map(|leaf| Flow::new(leaf, 1000, &[(0, 150_000_000)]));
    let link = run(&tree, Deficits::PerLevel, flows.into(), 2);
    (link.rate(leaf_a1, 500, 2_000) / 1e6, link.rate(leaf_b2, 500, 2_000) / 1e6)
}

#[test]
fn without_c_what_the_root_lends_is_split_by_the_quanta_of_leaves() {
    // 30 each, and 40 by the quanta. The kernel's HTB gives the same if A and B lend nothing: 48.6, 43.1, 37.8. If they
    // lend, it skips them at times: 47.0, 38.0, 32.9 (`scripts/oracle-htb`).
    for (a1, a2) in [(140, 160), (100, 200), (60, 240)] {
        let split = experiment_2(a1, a2, None);
        let by_quanta = 30.0 + 40.0 * a1 as f64 / (a1 + a2) as f64;
        assert!((split.0 - by_quanta).abs() <= 1.0, "{split:?}, {by_quanta}");
        assert!(within(split.0 + split.1, 100.0, 0.01), "{split:?}");
    }
}

#[test]
fn with_equal_quanta_the_split_is_close_to_even() {
    // By the kernel's HTB: 48.1/51.9, 45.0/55.0, 54.1/45.9.
    let split = [(140, 160), (100, 200), (60, 240)].map(|(a1, a2)| experiment_2(a1, a2, Some(20_000)));
    assert!(split.iter().all(|(a1, _)| (a1 - 50.0).abs() <= 5.0), "{split:?}");
}

/// The set-up and script of 9.9.2001: eth0's 1:1 at 50 with children at 30 and 10, eth1's 1:2 at 30, a pool of 100. Flows 0 and 1
/// on eth0, flow 2 on eth1.
fn slots_of_2001() -> ([ClassId; 3], Vec<Link>) {
    let burst = Some(2_000);
    let with = |guarantee| ClassConfig { burst, ceiling_burst: burst, ..class(kbps(guarantee), Some(kbps(100))) };
    let mut ends =
        Pool::share(PoolRule::Ratio, rate(kbps(100)), 2_000, &[rate(kbps(50)), rate(kbps(30))]).unwrap().into_iter();
    let mut member = |class| -> Vec<(ClassId, Box<dyn Lender>)> {
        let end: Box<dyn Lender> = Box::new(ends.next().unwrap());
        alloc::vec![(class, end)]
    };
    let mut eth0 = builder(10_000_000, 1000);
    let top = eth0.add(ClassId::ROOT, with(50)).unwrap();
    let flow_0 = eth0.add(top, with(30)).unwrap();
    let flow_1 = eth0.add(top, with(10)).unwrap();
    let mut eth1 = builder(10_000_000, 1000);
    let flow_2 = eth1.add(ClassId::ROOT, with(30)).unwrap();
    let first = Htb::new(&eth0.build().unwrap(), Deficits::PerLevel, member(top)).unwrap();
    let second = Htb::new(&eth1.build().unwrap(), Deficits::PerLevel, member(flow_2)).unwrap();
    let flows = alloc::vec![
        Flow::new(flow_0, 500, &[(0, kbps(90)), (9_000, 0)]),
        Flow::new(flow_1, 500, &[(4_000, kbps(50)), (14_000, 0)]),
    ];
    let flow = Flow::new(flow_2, 500, &[(2_000, kbps(70)), (14_000, 0)]);
    let links = alloc::vec![(first, 10_000_000, flows), (second, 10_000_000, alloc::vec![flow])];
    ([flow_0, flow_1, flow_2], run_links(links, Nanos::from_secs(14)))
}

#[test]
fn a_pool_of_two_links_holds_ratio_and_total_once_its_meters_have_settled() {
    let ([flow_0, flow_1, flow_2], links) = slots_of_2001();
    let kbps = |from, to| {
        let eth0 = [flow_0, flow_1].map(|flow| links[0].rate(flow, from, to) / 8_000.0);
        (eth0[0], eth0[1], links[1].rate(flow_2, from, to) / 8_000.0)
    };
    // Alone, flow 0 gets all that it offers.
    assert!(within(kbps(500, 2_000).0, 90.0, 0.03), "{:?}", kbps(500, 2_000));
    // Right after flow 2 has started, both get about the same, as the text saw it.
    let (first, _, third) = kbps(2_500, 3_500);
    assert!(within(first, third, 0.1) && within(first + third, 100.0, 0.03), "{first}, {third}");
    // Settled: 50 to 30 between the links, 30 to 10 within the first.
    let (first, second, third) = kbps(6_500, 9_000);
    assert!(within(first + second, 62.5, 0.1) && within(third, 37.5, 0.1), "{first} + {second}, {third}");
    assert!(within(first, 46.9, 0.1) && within(second, 15.6, 0.1), "{first}, {second}");
    assert!(within(first + second + third, 100.0, 0.02), "{first} + {second} + {third}");
    // Bandwidth that flow 1 leaves is not used: flow 2 is kept at the same ratio to its base.
    let (_, second, third) = kbps(11_000, 14_000);
    assert!(within(second, 50.0, 0.02) && within(third, 30.0, 0.1), "{second}, {third}");
    // Never more than the pool and its burst, and of each member a burst and a packet.
    let mut all: Vec<Sent> = links.iter().flat_map(|link| link.sent.iter().copied()).collect();
    all.sort_by_key(|sent| sent.at);
    assert_bucket(&all, self::kbps(100), 2_000 + 2 * (2_000 + 500)).unwrap();
}

/// Meter reading in the counters of the root's only child, when it has sent 100 packets of 500 B, one every 10 ms.
fn metered(rule: Option<PoolRule>) -> Option<u64> {
    let mut links = builder(10_000_000, 1000);
    let leaf = links.add(ClassId::ROOT, class(kbps(50), None)).unwrap();
    let end = rule.map(|rule| Pool::share(rule, rate(kbps(100)), 2_000, &[rate(kbps(50))]).unwrap().remove(0));
    let members: Members = end.into_iter().map(|end| (leaf, Box::new(end) as Box<dyn Lender>)).collect();
    let mut htb = Htb::new(&links.build().unwrap(), Deficits::PerLevel, members).unwrap();
    let mut drops = |_: Nanos, _: Packet, _: DropReason| {};
    for packet in 0..100 {
        let now = Nanos::from_millis(10 * packet);
        htb.enqueue(now, Packet { handle: 0, len: 500, class: leaf }, &mut drops);
        assert!(matches!(htb.dequeue(now, &mut drops), Dequeued::Packet(_)));
    }
    let mut found = None;
    htb.for_each_counter(0..2, &mut |class, name, value| {
        if name == "slot_rate_bps" {
            assert_eq!((class, found.replace(value)), (leaf, None));
        }
    });
    found
}

#[test]
fn the_meter_of_a_slot_is_told_and_an_exact_pool_has_none() {
    assert_eq!(metered(None), None);
    assert_eq!(metered(Some(PoolRule::Exact)), None);
    // Nine whole periods of 5 kB each, of a mean that approaches 50 kB/s by a sixtieth of the rest each time.
    let expected = 400_000.0 * (1.0 - (59.0f64 / 60.0).powi(9));
    for rule in [PoolRule::Ratio, PoolRule::Greedy] {
        let read = metered(Some(rule)).unwrap() as f64;
        assert!((read - expected).abs() <= 2.0, "{read}, {expected}");
    }
}

/// Returns true if W(s, t] <= rate (t - s) + slack for every interval, for packets in order of time.
fn assert_bucket(sent: &[Sent], bps: u64, slack: u64) -> Result<(), String> {
    // The least of W(0, s) - rate * s before each packet, in billionths of a bit.
    let scale = 8_000_000_000i128;
    let (mut bytes, mut least) = (0i128, i128::MAX);
    for packet in sent {
        let brought = i128::from(bps) * i128::from(packet.at.0);
        least = least.min(bytes * scale - brought);
        bytes += i128::from(packet.len);
        let excess = bytes * scale - brought - least;
        if excess > i128::from(slack) * scale {
            return Err(format!("{} B above {bps} bit/s at {}, {slack} B are allowed", excess / scale, packet.at));
        }
    }
    Ok(())
}

/// A random tree: parents, guarantees that add up, ceilings, bursts, priorities, quanta.
#[derive(Clone, Debug)]
struct RandomTree {
    classes: Vec<(usize, u64, Option<u64>, u64, u8, u32)>,
}

const LINK: u64 = 100_000_000;

fn random_trees() -> impl Strategy<Value = RandomTree> {
    let class = (any::<usize>(), 1u64..100, prop::option::of(1u64..100), 0u64..20_000, 0u8..3, 1u32..30_000);
    prop::collection::vec(class, 1..10).prop_map(|classes| RandomTree { classes })
}

impl RandomTree {
    /// Guarantees divide the parent's; `limits` is true if ceilings, bursts, priorities and quanta are set.
    fn build(&self, limits: bool) -> Hierarchy {
        // Without limits, shares are closer together, so that the allowed lag is small beside the bytes of a run.
        let weight = |weight: u64| weight % if limits { 16 } else { 8 } + 1;
        let parents: Vec<usize> = self
            .classes
            .iter()
            .enumerate()
            .map(|(index, class)| if index == 0 { 0 } else { class.0 % (index + 1) })
            .collect();
        let mut sums = alloc::vec![0u64; parents.len() + 1];
        for (&parent, class) in parents.iter().zip(&self.classes) {
            sums[parent] += weight(class.1);
        }
        let mut rates = alloc::vec![LINK; parents.len() + 1];
        let mut tree = builder(LINK, 1500);
        for (index, &(_, part, ceiling, burst, priority, quantum)) in self.classes.iter().enumerate() {
            let parent = parents[index];
            let guarantee = rates[parent] / sums[parent] * weight(part);
            rates[index + 1] = guarantee;
            let mut config = class(guarantee, None);
            config.limits = QueueLimits { packets: 40, bytes: u32::MAX };
            if limits {
                config.ceiling = ceiling.map(|part| rate((LINK / 100 * part).max(guarantee)));
                config.burst = Some(burst);
                config.ceiling_burst = ceiling.map(|part| part * burst / 100);
                config.priority = Some(priority);
                config.quantum = Some(quantum);
            }
            tree.add(ClassId(parent as u32), config).unwrap();
        }
        tree.build().unwrap()
    }
}

#[test]
fn a_ceiling_that_comes_with_a_reload_stops_a_class_of_a_tree_that_had_none() {
    let tree = |ceiling: Option<u64>| {
        let mut tree = builder(kbps(100), 1000);
        // More classes than are kept in one sorted list.
        (0..100).for_each(|_| {
            let config = ClassConfig { ceiling_burst: ceiling.map(|_| 0), ..class(kbps(1), ceiling) };
            tree.add(ClassId::ROOT, config).unwrap();
        });
        tree.build().unwrap()
    };
    let make = |ceiling| Htb::new(&tree(ceiling), Deficits::PerLevel, Members::new()).unwrap();
    let (mut htb, mut with) = (make(None), make(Some(kbps(1))));
    let mut never = crate::test_link::never;
    for handle in 0..3 {
        htb.enqueue(Nanos::ZERO, Packet { handle, len: 1000, class: ClassId(70) }, &mut never);
    }
    assert!(htb.retune(Nanos::ZERO, &mut with));
    let mut sent = 0;
    let wait = loop {
        match htb.dequeue(Nanos::ZERO, &mut never) {
            Dequeued::Packet(_) => sent += 1,
            end => break end,
        }
        invariants(&htb).unwrap();
    };
    // It has to pay its debt first.
    assert!(sent < 3 && matches!(wait, Dequeued::WaitUntil(time) if time > Nanos::ZERO), "{sent} {wait:?}");
}

/// Runs a random tree at the pace of its link for `steps` steps. At each step some leaves get packets; before packets
/// are dequeued, `look` is called with the scheduler and the time.
fn run_random(
    tree: &Hierarchy,
    (arrivals, steps): (&[(u8, u32, u32)], usize),
    mut look: impl FnMut(&Htb, Nanos, &[Sent]) -> Result<(), String>,
) -> Result<Vec<Sent>, String> {
    let mut htb = Htb::new(tree, Deficits::PerLevel, Vec::new()).map_err(|error| format!("{error}"))?;
    let mut drops = |_: Nanos, _: Packet, _: DropReason| {};
    let (mut now, mut sent) = (Nanos(1), Vec::new());
    for &(which, len, gap) in arrivals.iter().cycle().take(steps) {
        for _ in 0..which % 8 {
            let leaf = tree.leaves()[usize::from(which / 8) % tree.leaves().len()];
            htb.enqueue(now, Packet { handle: 0, len, class: leaf }, &mut drops);
        }
        look(&htb, now, &sent)?;
        match htb.dequeue(now, &mut drops) {
            Dequeued::Packet(packet) => {
                sent.push(Sent { at: now, class: packet.class, len: packet.len, delay: Nanos::ZERO });
                now += tree.link().rate.time_for(packet.len);
            }
            Dequeued::WaitUntil(at) if at <= now => return Err(format!("waits at {now} until {at}")),
            Dequeued::WaitUntil(at) => now = at.min(now + Nanos(gap.into())),
            Dequeued::Idle => now += Nanos(gap.into()),
        }
        invariants(&htb)?;
    }
    Ok(sent)
}

fn arrivals() -> impl Strategy<Value = Vec<(u8, u32, u32)>> {
    prop::collection::vec((any::<u8>(), 1u32..=1500, 0u32..2_000_000), 20..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_class_ever_exceeds_its_ceiling_its_burst_and_one_packet(spec in random_trees(), arrivals in arrivals()) {
        let tree = spec.build(true);
        let sent = run_random(&tree, (&arrivals, 400), |_, _, _| Ok(())).map_err(TestCaseError::fail)?;
        for class in tree.classes() {
            let config = tree.config(class);
            let (Some(ceiling), Some(burst)) = (config.ceiling, config.ceiling_burst) else { continue };
            let below = |leaf: ClassId| core::iter::successors(Some(leaf), |&at| tree.parent(at)).any(|at| at == class);
            let own: Vec<Sent> = sent.iter().copied().filter(|sent| below(sent.class)).collect();
            assert_bucket(&own, ceiling.bps(), burst + 1500).map_err(|error| TestCaseError::fail(format!("{class:?}: {error}")))?;
        }
    }

    #[test]
    fn a_backlogged_leaf_keeps_its_guarantee_where_guarantees_add_up(spec in random_trees(), arrivals in arrivals()) {
        let tree = spec.build(false);
        let plan = Plan::for_tree(&tree).unwrap();
        // By leaf: W(0, t] - rate * t at its largest since it became backlogged, in billionths of a bit.
        let mut best: Vec<Option<i128>> = alloc::vec![None; tree.len()];
        let (mut bytes, mut seen) = (alloc::vec![0i128; tree.len()], 0);
        run_random(&tree, (&arrivals, 2_000), |htb, now, sent| {
            for packet in &sent[seen..] {
                bytes[packet.class.index()] += i128::from(packet.len);
            }
            seen = sent.len();
            for &leaf in tree.leaves() {
                if htb.class_backlog(leaf).packets == 0 {
                    best[leaf.index()] = None;
                    continue;
                }
                let rate = plan.assured[leaf.index()];
                let ahead = bytes[leaf.index()] * 8_000_000_000 - i128::from(rate.bps()) * i128::from(now.0);
                let most = best[leaf.index()].map_or(ahead, |best| best.max(ahead));
                best[leaf.index()] = Some(most);
                let lag = (most - ahead) / 8_000_000_000;
                let allowed = i128::from(plan.guarantee_lag(leaf));
                if lag > allowed {
                    return Err(format!("{leaf:?} is {lag} B behind its guarantee at {now}, {allowed} B are allowed"));
                }
            }
            Ok(())
        })
        .map_err(TestCaseError::fail)?;
    }
}

/// A random tree with default buckets: quanta from far below a packet to far above, priorities, and ceilings if
/// `ceilings`. Guarantees divide those of the parent, all of it; `None` if one is below 1 bit/s.
fn random_defaults(random: &mut impl FnMut(u64) -> u64, ceilings: bool) -> Option<Hierarchy> {
    let link = [1_000_000, 10_000_000, 1_000_000_000][random(3) as usize];
    let count = 2 + random(7) as usize;
    let parents: Vec<usize> =
        (0..count).map(|index| if random(2) == 0 { 0 } else { random(index as u64 + 1) as usize }).collect();
    let weights: Vec<u64> = (0..count).map(|_| [1, 10, 100, 1000][random(4) as usize] * (1 + random(9))).collect();
    let mut sums = alloc::vec![0u64; count + 1];
    parents.iter().zip(&weights).for_each(|(&parent, weight)| sums[parent] += weight);
    let (priorities, quanta) = (1 + random(3), random(3));
    let mut rates = alloc::vec![link; count + 1];
    let mut tree = builder(link, 1500);
    for (index, (&parent, weight)) in parents.iter().zip(weights).enumerate() {
        let guarantee = rates[parent] * weight / sums[parent];
        rates[index + 1] = guarantee;
        let ceiling = (ceilings && random(2) == 0).then(|| guarantee + random(3) * random(guarantee));
        let quantum =
            (quanta > random(2)).then(|| [50, 1500, 20_000, 2_000_000][random(4) as usize] + random(50) as u32);
        let config = ClassConfig {
            limits: QueueLimits { packets: 20, bytes: u32::MAX },
            priority: Some(random(priorities) as u8),
            quantum,
            ..class(if guarantee == 0 { return None } else { guarantee }, ceiling)
        };
        tree.add(ClassId(parent as u32), config).unwrap();
    }
    tree.build().ok()
}

/// By class, how far bytes are above or below a line of its rate, at most over all intervals.
#[derive(Clone, Copy, Default)]
struct Line {
    bytes: i128,
    /// The least or the largest of bytes - line since the beginning, in billionths of a bit.
    edge: Option<i128>,
}

impl Line {
    fn ahead(&self, bps: u64, now: Nanos) -> i128 {
        self.bytes * 8_000_000_000 - i128::from(bps) * i128::from(now.0)
    }
}

/// Runs a tree with default buckets on sources that pause, flood, and keep their guarantees, all of them at random.
/// Returns the largest part of the bounds that was used: of the ceilings, and of the guarantees.
fn used_of_bounds(tree: &Hierarchy, random: &mut impl FnMut(u64) -> u64, packets: usize) -> Result<[f64; 2], String> {
    let plan = Plan::for_tree(tree).unwrap();
    let mut htb = Htb::new(tree, Deficits::PerLevel, Vec::new()).unwrap();
    let link = tree.link().rate;
    let largest = u64::from(tree.link().max_packet);
    let mut drops = |_: Nanos, _: Packet, _: DropReason| {};
    let (mut above, mut below) = (alloc::vec![Line::default(); tree.len()], alloc::vec![Line::default(); tree.len()]);
    let mut floods = alloc::vec![true; tree.len()];
    let (mut now, mut used) = (Nanos(1), [0.0f64; 2]);
    let mut sizes = alloc::vec![1500u32; tree.len()];
    for step in 0..packets {
        if step % (packets / 8) == 0 {
            for &leaf in tree.leaves() {
                floods[leaf.index()] = random(3) > 0;
                sizes[leaf.index()] = [64, 700, 1500][random(3) as usize];
            }
        }
        for &leaf in tree.leaves() {
            // A leaf that pauses sends now and then.
            while floods[leaf.index()] && htb.class_backlog(leaf).packets < 2
                || !floods[leaf.index()] && random(40) == 0 && htb.class_backlog(leaf).packets < 2
            {
                htb.enqueue(now, Packet { handle: 0, len: sizes[leaf.index()], class: leaf }, &mut drops);
            }
        }
        for &leaf in tree.leaves() {
            let (line, rate) = (&mut below[leaf.index()], plan.assured[leaf.index()].bps());
            if htb.class_backlog(leaf).packets == 0 {
                line.edge = None;
                continue;
            }
            let ahead = line.ahead(rate, now);
            let edge = *line.edge.insert(line.edge.map_or(ahead, |edge| edge.max(ahead)));
            let (lag, allowed) = ((edge - ahead) / 8_000_000_000, i128::from(plan.guarantee_lag(leaf)));
            used[1] = used[1].max(lag as f64 / allowed as f64);
            if lag > allowed {
                return Err(format!("{leaf:?} is {lag} B behind its guarantee at {now}, {allowed} B are allowed"));
            }
        }
        match htb.dequeue(now, &mut drops) {
            Dequeued::Packet(packet) => {
                below[packet.class.index()].bytes += i128::from(packet.len);
                for class in core::iter::successors(Some(packet.class), |&at| tree.parent(at)) {
                    let Some(ceiling) = tree.config(class).ceiling else { continue };
                    let line = &mut above[class.index()];
                    let before = line.ahead(ceiling.bps(), now);
                    let edge = *line.edge.insert(line.edge.map_or(before, |edge| edge.min(before)));
                    line.bytes += i128::from(packet.len);
                    let excess = (line.ahead(ceiling.bps(), now) - edge) / 8_000_000_000;
                    let allowed = i128::from(plan.ceiling_depth(class, ceiling) + largest);
                    used[0] = used[0].max(excess as f64 / allowed as f64);
                    if excess > allowed {
                        return Err(format!(
                            "{class:?} is {excess} B above its ceiling at {now}, {allowed} B are allowed"
                        ));
                    }
                }
                now += link.time_for(packet.len);
            }
            Dequeued::WaitUntil(at) => now = at.min(now + link.time_for(1500)),
            Dequeued::Idle => now += link.time_for(1500),
        }
    }
    Ok(used)
}

/// Runs random trees with default buckets, and returns the parts of the bounds that were used, at most.
fn most_used(ceilings: bool, trees: u64) -> [f64; 2] {
    let mut most = [0.0f64; 2];
    for seed in 0..trees {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below.max(1)
        };
        let Some(tree) = random_defaults(&mut random, ceilings) else { continue };
        let packets = 400 << random(4);
        let used = used_of_bounds(&tree, &mut random, packets).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        most = [0, 1].map(|at| most[at].max(used[at]));
    }
    most
}

/// Runs sources of these classes, lengths and rates in bit/s.
fn greedy(tree: &Hierarchy, sources: &[(u32, u32, u64)], seconds: u64) -> Link {
    let flow = |&(class, len, bps): &(u32, u32, u64)| Flow::new(ClassId(class), len, &[(0, bps)]);
    run(tree, Deficits::PerLevel, sources.iter().map(flow).collect(), seconds)
}

#[test]
fn a_quantum_does_not_deepen_the_bucket_of_another_class() {
    // With buckets that followed quanta, the second class sent 10 Mbit/s for 2 s.
    let mut tree = builder(10_000_000, 1500);
    let other = ClassConfig { quantum: Some(6740), ..class(4_000, None) };
    tree.add(ClassId::ROOT, other).unwrap();
    let limited = tree.add(ClassId::ROOT, class(2_500_000, Some(2_500_000))).unwrap();
    tree.add(ClassId::ROOT, class(2_000_000, None)).unwrap();
    let tree = tree.build().unwrap();
    let link = greedy(&tree, &[(1, 502, 10_000_000), (2, 1200, 20_000_000), (3, 200, 100_000)], 4);
    let first = link.rate(limited, 0, 2_000) / 1e6;
    assert!((2.5..2.8).contains(&first), "{first} Mbit/s in the first 2 s");
    assert!(within(link.rate(limited, 1_000, 4_000), 2.5e6, 0.01));
}

#[test]
fn a_class_of_low_priority_waits_for_small_buckets_only() {
    // 15.5 s with buckets that followed quanta: the classes above it leave 94 kbit/s while they spend their bursts.
    let mut tree = builder(10_000_000, 1500);
    tree.add(ClassId::ROOT, class(5_000_000, None)).unwrap();
    tree.add(ClassId::ROOT, class(4_900_000, None)).unwrap();
    let low = ClassConfig { priority: Some(1), ..class(94_000, None) };
    let late = tree.add(ClassId::ROOT, low).unwrap();
    tree.add(ClassId::ROOT, class(6_000, None)).unwrap();
    let tree = tree.build().unwrap();
    let sources = [(1, 500, 20_000_000), (2, 500, 20_000_000), (3, 500, 50_000), (4, 500, 20_000_000)];
    let link = greedy(&tree, &sources, 20);
    let longest = link.delays(late, 0, 20_000).into_iter().max().unwrap();
    let bound = Plan::for_tree(&tree).unwrap().burst_wait(&tree, 1);
    std::println!("{longest}, at most {bound}");
    assert!(longest < Nanos::from_millis(4_000) && bound < Nanos::from_millis(4_500), "{longest} {bound}");
    assert!(longest <= bound + Nanos::from_millis(300));
}

#[test]
fn with_default_buckets_no_class_is_above_its_ceiling_or_below_its_guarantee_in_any_interval() {
    let trees = std::env::var("FAIRLINK_TREES").map_or(150, |trees| trees.parse().unwrap());
    let (without, with) = (most_used(false, trees), most_used(true, trees));
    std::println!(
        "used of the bounds: guarantees {:.3}, with ceilings {:.3}; ceilings {:.3}",
        without[1],
        with[1],
        with[0]
    );
    assert!(without[1] > 0.2 && with[0] > 0.5, "{without:?} {with:?}");
}

#[test]
fn a_ceiling_of_8_bits_per_second_is_honoured() {
    // The kernel forgives debt that is older than a minute.
    let mut tree = builder(1_000_000_000, 1500);
    let slow = ClassConfig { ceiling_burst: Some(0), ..class(8, Some(8)) };
    let slow = tree.add(ClassId::ROOT, slow).unwrap();
    let mut htb = Htb::new(&tree.build().unwrap(), Deficits::PerLevel, Vec::new()).unwrap();
    let mut drops = |_: Nanos, packet: Packet, reason: DropReason| panic!("{packet:?}: {reason:?}");
    for handle in 0..2 {
        htb.enqueue(Nanos::ZERO, Packet { handle, len: 1500, class: slow }, &mut drops);
    }
    assert!(matches!(htb.dequeue(Nanos::ZERO, &mut drops), Dequeued::Packet(_)));
    assert_eq!(htb.dequeue(Nanos::from_secs(61), &mut drops), Dequeued::WaitUntil(Nanos::from_secs(1500)));
    assert!(matches!(htb.dequeue(Nanos::from_secs(1500), &mut drops), Dequeued::Packet(_)));
}

#[test]
fn a_priority_of_8_and_a_quantum_of_zero_are_refused() {
    let with = |config| {
        let mut tree = builder(LINK, 1500);
        tree.add(ClassId::ROOT, config).unwrap();
        Htb::new(&tree.build().unwrap(), Deficits::PerLevel, Vec::new()).err()
    };
    let id = ClassId(1);
    assert_eq!(with(ClassConfig { priority: Some(7), ..class(1, None) }), None);
    let refused = BuildError::Parameter { class: id, what: "priority", value: 8, min: 0, max: 7 };
    assert_eq!(with(ClassConfig { priority: Some(8), ..class(1, None) }), Some(refused));
    let refused = BuildError::Parameter { class: id, what: "quantum", value: 0, min: 1, max: u32::MAX.into() };
    assert_eq!(with(ClassConfig { quantum: Some(0), ..class(1, None) }), Some(refused));
}

#[test]
fn only_a_child_of_the_root_borrows_from_a_pool_and_from_one_only() {
    let mut tree = builder(LINK, 1500);
    let top = tree.add(ClassId::ROOT, class(LINK, None)).unwrap();
    let leaf = tree.add(top, class(LINK, None)).unwrap();
    let tree = tree.build().unwrap();
    let with = |classes: &[ClassId]| {
        let ends = Pool::share(PoolRule::Ratio, rate(LINK), 0, &alloc::vec![rate(1); classes.len()]).unwrap();
        let lend = |(&class, end)| (class, Box::new(end) as Box<dyn Lender>);
        Htb::new(&tree, Deficits::PerLevel, classes.iter().zip(ends).map(lend).collect()).err()
    };
    assert_eq!(with(&[top]), None);
    for refused in [[top, leaf], [top, ClassId::ROOT], [top, ClassId(9)], [top, top]] {
        let is = with(&refused);
        assert!(
            matches!(is, Some(BuildError::Parameter { class, what: "member of a pool", .. }) if class == refused[1]),
            "{is:?}"
        );
    }
}

#[test]
fn figure_14_has_its_colours() {
    let mut tree = builder(100_000_000, 1500);
    let config = |mbit: u64, ceiling: Option<u64>| ClassConfig {
        burst: Some(1500),
        ceiling_burst: ceiling.map(|_| 1500),
        ..class(mbit * 1_000_000, ceiling.map(|mbit| mbit * 1_000_000))
    };
    let parent = tree.add(ClassId::ROOT, config(10, None)).unwrap();
    let [first, second, third] =
        [(2, None), (2, None), (2, Some(3))].map(|(rate, ceiling)| tree.add(parent, config(rate, ceiling)).unwrap());
    let capped = tree.add(ClassId::ROOT, config(5, Some(6))).unwrap();
    let fifth = tree.add(capped, config(2, None)).unwrap();
    let mut htb = Htb::new(&tree.build().unwrap(), Deficits::PerLevel, Members::new()).unwrap();
    let states = |htb: &Htb| [parent, first, second, third, capped, fifth].map(|class| htb.class_state(class).unwrap());
    assert_eq!(states(&htb), ["green"; 6]);
    let mut never = |_: Nanos, packet: Packet, _: DropReason| panic!("{packet:?}");
    for leaf in [second, third, fifth] {
        for _ in 0..2 {
            htb.enqueue(Nanos::ZERO, Packet { handle: 0, len: 1500, class: leaf }, &mut never);
            assert!(matches!(htb.dequeue(Nanos::ZERO, &mut never), Dequeued::Packet(_)));
        }
    }
    assert_eq!(states(&htb), ["yellow", "green", "yellow", "red", "red", "yellow"]);
    assert_eq!((htb.class_state(ClassId::ROOT), htb.class_state(ClassId(99))), (Some("green"), None));
    // Out of debt with time, without a packet.
    assert_eq!(htb.dequeue(Nanos::from_secs(1), &mut never), Dequeued::Idle);
    assert_eq!(states(&htb), ["green"; 6]);
}
