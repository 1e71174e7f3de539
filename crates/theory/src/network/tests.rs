//! Bounds beside closed forms, and beside packets in servers that are as slow as they may be.

use super::*;
use crate::latency::services;
use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, QueueKind, Rate, ServiceCurve, Share, TransmitQueue, registry,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn server(bps: f64, latency_s: f64) -> Server {
    Server { service: Some(Service::Rate { bps, latency_s }), propagation_s: 0.0 }
}

fn flow(burst: f64, bps: f64, largest: f64, path: &[usize]) -> Flow {
    let hop = |&server: &usize| Hop { server, ratio: 1.0, largest };
    Flow { bucket: Some(Bucket { burst, bps }), path: path.iter().map(hop).collect() }
}

#[track_caller]
fn equal(one: f64, other: f64) {
    assert!((one - other).abs() <= 1e-9 * other.abs(), "{one} and {other}");
}

#[test]
fn a_flow_alone_pays_its_burst_once() {
    let mut servers = vec![server(8e6, 0.002), server(4e6, 0.001), server(6e6, 0.003)];
    servers[0].propagation_s = 0.01;
    servers[1].propagation_s = 0.02;
    servers[2].propagation_s = 0.03;
    let network = Network { servers, flows: vec![flow(10_000.0, 3e6, 1000.0, &[0, 1, 2])] };
    let bound = network.bounds().flows[0].clone().unwrap();
    // 80 kbit at 4 Mbit/s, the latencies, a packet at the first two, and the propagation.
    equal(bound.seconds, 0.02 + 0.006 + 8e3 / 8e6 + 8e3 / 4e6 + 0.06);
    assert_eq!(bound.method, Method::BurstsOnce);
    // 10 kB, and 3 Mbit/s for the latency and a packet, at 8 and at 4 Mbit/s.
    let [first, second, third] = bound.bursts[..] else { panic!() };
    equal(first, 10_000.0);
    equal(second, 10_000.0 + 3e6 * 0.003 / 8.0);
    equal(third, second + 3e6 * 0.003 / 8.0);
}

#[test]
fn flows_of_one_path_count_as_one_and_others_leave_less() {
    let servers = vec![server(10e6, 0.001), server(10e6, 0.001), server(10e6, 0.001)];
    let mut flows = vec![flow(2_000.0, 1e6, 500.0, &[0, 1, 2]), flow(3_000.0, 1e6, 1500.0, &[0, 1, 2])];
    let network = Network { servers: servers.clone(), flows: flows.clone() };
    for bound in network.bounds().flows {
        equal(bound.unwrap().seconds, 0.004 + 0.003 + 2.0 * 12e3 / 10e6);
    }
    flows.push(flow(4_000.0, 8e6, 1000.0, &[1]));
    let bounds = Network { servers, flows }.bounds();
    // The path has 2 Mbit/s at the second server, where 4 kB of others may be in front.
    let once = 40e3 / 2e6 + 0.003 + 32e3 / 10e6 + 2.0 * 12e3 / 10e6;
    let first = 40e3 / 10e6 + 0.001;
    // Bursts grow beside the other flow of the path: a packet at the 9 Mbit/s that it leaves, or a largest one at all.
    let one = 16e3 + 1e6 * (0.001 + 24e3 / 10e6 + 4e3 / 9e6);
    let other = 24e3 + 1e6 * (0.001 + 16e3 / 10e6 + 12e3 / 10e6);
    let second = (one + other + 32e3) / 10e6 + 0.001;
    let held = 2.0 * (0.001 + 32e3 / 10e6 + 12e3 / 10e6) + (one + other) / 10e6;
    let third = (one + other + 1e6 * held) / 10e6 + 0.001;
    assert!(once > first + second + third, "{once}");
    let bound = bounds.flows[0].clone().unwrap();
    equal(bound.seconds, first + second + third);
    assert_eq!(bound.method, Method::EachLink);
    equal(bounds.flows[2].clone().unwrap().seconds, second);
    equal(bounds.servers[2].unwrap(), third);
}

#[test]
fn lengths_count_as_each_server_counts_them() {
    let mut own = flow(1_000.0, 1e6, 100.0, &[0, 1]);
    own.path[0] = Hop { server: 0, ratio: 1.5, largest: 150.0 };
    own.path[1] = Hop { server: 1, ratio: 2.0, largest: 200.0 };
    let network = Network { servers: vec![server(3e6, 0.0), server(5e6, 0.0)], flows: vec![own] };
    // A byte of the flow takes 1.5 bytes of 3 Mbit/s, and 2 of 5 Mbit/s.
    let bound = network.bounds().flows[0].clone().unwrap();
    equal(bound.seconds, 8e3 / 2e6 + 150.0 * 8.0 / 3e6);
    equal(bound.bursts[1], 2.0 * (1_000.0 + 1e6 * (150.0 * 8.0 / 3e6) / 8.0));
}

#[test]
fn a_flow_without_a_bound_has_the_first_reason_on_its_way() {
    let servers = vec![server(2e6, 0.0), Server { service: None, propagation_s: 0.0 }, server(2e6, 0.0)];
    let unlimited = Flow { bucket: None, ..flow(0.0, 0.0, 100.0, &[2]) };
    let flows = vec![
        flow(100.0, 1e6, 100.0, &[0]),
        flow(100.0, 1.5e6, 100.0, &[0]),
        flow(100.0, 1e6, 100.0, &[1, 2]),
        unlimited,
    ];
    let bounds = Network { servers: servers.clone(), flows: flows.clone() }.bounds();
    let overload = Unbounded::Overload { server: 0, asked_bps: 2.5e6, bps: 2e6 };
    assert_eq!(bounds.flows[0], Err(overload));
    assert_eq!(bounds.flows[2], Err(Unbounded::NoService { server: 1 }));
    assert!(matches!(bounds.flows[3], Err(Unbounded::NoLimit { flow: 3 } | Unbounded::NoService { server: 1 })));
    let alone = Network { servers: servers.clone(), flows: flows[3..].to_vec() };
    assert_eq!(alone.bounds().flows, [Err(Unbounded::NoLimit { flow: 0 })]);
    let round = vec![flow(1.0, 1.0, 1.0, &[0, 2]), flow(1.0, 1.0, 1.0, &[2, 0])];
    assert_eq!(Network { servers, flows: round }.bounds().flows[0], Err(Unbounded::Circle));
}

#[test]
fn a_promise_for_conforming_traffic_is_a_delay_as_long_as_bursts_fit() {
    let conforming = |burst| Some(Service::Conforming { bps: 10e6, latency_s: 0.001, burst, rate_bps: 1e6 });
    let bounds = |burst, bps| {
        let last = Server { service: conforming(burst), propagation_s: 0.0 };
        let network = Network {
            servers: vec![server(2e6, 0.004), last, server(2e6, 0.004)],
            flows: vec![flow(1_000.0, bps, 500.0, &[0, 1, 2])],
        };
        network.bounds().flows[0].clone()
    };
    // 1 kB, and 1 Mbit/s for the latency and a packet.
    let arriving = 1_000.0 + 1e6 * 0.006 / 8.0;
    let bound = bounds(arriving, 1e6).unwrap();
    equal(bound.seconds, 8e3 / 2e6 + 0.008 + 500.0 * 8.0 / 2e6 + arriving * 8.0 / 10e6 + 0.001);
    assert_eq!(bounds(1_700.0, 1e6), Err(Unbounded::Burst { server: 1, arriving, burst: 1_700.0 }));
    let overload = Unbounded::Overload { server: 1, asked_bps: 1.1e6, bps: 1e6 };
    assert_eq!(bounds(9_000.0, 1.1e6), Err(overload));
}

/// A packet: its time, its length in bytes, its flow, and when it began its way.
type Packet = (f64, f64, usize, f64);

/// Sends packets through servers that let each one leave as late as they may, and returns the longest delay by flow.
/// Servers are in the order of all paths.
fn slowest(network: &Network, sources: Vec<Packet>) -> Vec<f64> {
    let mut worst = vec![0.0f64; network.flows.len()];
    let mut waiting: Vec<Vec<Packet>> = vec![Vec::new(); network.servers.len()];
    for packet in sources {
        waiting[network.flows[packet.2].path[0].server].push(packet);
    }
    for (number, server) in network.servers.iter().enumerate() {
        let Some(Service::Rate { bps, latency_s }) = server.service else { panic!() };
        let mut packets = std::mem::take(&mut waiting[number]);
        packets.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut finished = 0.0f64;
        for (at, len, flow, born) in packets {
            finished = finished.max(at) + 8.0 * len / bps;
            let leaves = finished + latency_s;
            let path = &network.flows[flow].path;
            let place = path.iter().position(|hop| hop.server == number).unwrap();
            match path.get(place + 1) {
                Some(next) => waiting[next.server].push((leaves + server.propagation_s, len, flow, born)),
                None => worst[flow] = worst[flow].max(leaves + server.propagation_s - born),
            }
        }
    }
    worst
}

#[test]
fn the_slowest_servers_reach_the_bound_of_a_flow_alone() {
    let servers = vec![server(8e6, 0.002), server(6e6, 0.001), server(4e6, 0.003)];
    let network = Network { servers, flows: vec![flow(10_000.0, 3e6, 1000.0, &[0, 1, 2])] };
    let burst: Vec<Packet> = (0..10).map(|_| (0.0, 1000.0, 0, 0.0)).collect();
    equal(slowest(&network, burst)[0], network.bounds().flows[0].clone().unwrap().seconds);
}

/// Packets of a flow that conform to its bucket: the whole burst, random pauses, lengths up to the largest.
fn packets(random: &mut ChaCha8Rng, flow: usize, spec: &Flow, start: f64) -> Vec<Packet> {
    let Bucket { burst, bps } = spec.bucket.unwrap();
    let (mut at, mut tokens, mut packets) = (start, burst, Vec::new());
    for _ in 0..random.random_range(20..120) {
        let len = if random.random_bool(0.7) { 1.0 } else { random.random_range(0.1..1.0) } * spec.path[0].largest;
        let pause = if random.random_bool(0.9) { 0.0 } else { random.random_range(0.0..4.0) * burst * 8.0 / bps };
        let wait = ((len - tokens) * 8.0 / bps).max(0.0).max(pause);
        at += wait;
        tokens = (tokens + wait * bps / 8.0).min(burst) - len;
        packets.push((at, len, flow, at));
    }
    packets
}

#[test]
fn no_packet_of_a_random_network_is_later_than_its_bound() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let (mut methods, mut closest) = ([0, 0], 0.0f64);
    for _ in 0..400 {
        let count = random.random_range(1..6);
        let mut flows = Vec::new();
        let mut rates = vec![0.0; count];
        for _ in 0..random.random_range(1..7) {
            let mut path: Vec<usize> = (0..count).filter(|_| random.random_bool(0.6)).collect();
            if path.is_empty() {
                path.push(random.random_range(0..count));
            }
            let (largest, bps) = (random.random_range(100.0..1500.0), random.random_range(1e5..1e6));
            path.iter().for_each(|&server| rates[server] += bps);
            flows.push(flow(largest * random.random_range(1.0..8.0), bps, largest, &path));
        }
        let servers = rates.iter().map(|rate| Server {
            propagation_s: random.random_range(0.0..0.01),
            ..server(rate.max(1e5) * random.random_range(1.0..2.0), random.random_range(0.0..0.01))
        });
        let network = Network { servers: servers.collect(), flows };
        let bounds = network.bounds();
        for _ in 0..5 {
            let mut sources = Vec::new();
            for (number, flow) in network.flows.iter().enumerate() {
                let start = random.random_range(0.0..0.05);
                sources.extend(packets(&mut random, number, flow, start));
            }
            for (flow, worst) in slowest(&network, sources).into_iter().enumerate() {
                let bound = bounds.flows[flow].clone().unwrap();
                assert!(worst <= bound.seconds * (1.0 + 1e-9), "{worst} of {bound:?} in {network:?}");
                closest = closest.max(worst / bound.seconds);
                methods[usize::from(bound.method == Method::BurstsOnce)] += 1;
            }
        }
    }
    assert!(methods.iter().all(|&count| count > 500), "{methods:?}");
    assert!(closest > 0.95, "{closest}");
}

#[test]
fn services_are_those_of_the_delay_bounds() {
    let mbit = |mbit: u64| Rate::from_bps(mbit * 1_000_000).unwrap();
    let tree = |config: ClassConfig, queue: Option<TransmitQueue>| {
        let link = LinkConfig { max_packet: 1000, transmit_queue: queue, ..LinkConfig::new(mbit(8)) };
        let mut tree = Hierarchy::builder(link);
        tree.add(ClassId::ROOT, ClassConfig { share: Some(Share::Guarantee(mbit(2))), ..config }).unwrap();
        let rest = Some(Share::Guarantee(mbit(6)));
        tree.add(ClassId::ROOT, ClassConfig { share: rest, ..ClassConfig::default() }).unwrap();
        tree.build().unwrap()
    };
    let of = |name: &str, tree: &Hierarchy| services(registry::find(name).unwrap(), tree)[1];
    let plain = tree(ClassConfig::default(), None);
    let rate = |service: Option<Service>| match service {
        Some(Service::Rate { bps, latency_s }) => (bps, latency_s),
        other => panic!("{other:?}"),
    };
    // A byte takes 1 us.
    for name in ["wfq", "wf2q+", "virtual-clock", "sced", "fq-ldf"] {
        let (bps, latency) = rate(of(name, &plain));
        equal(bps, 2e6);
        equal(latency, 1e-3);
    }
    // Quanta of 1000 and 3000 B: 3 * 4000 - 2 * 1000.
    equal(rate(of("drr", &plain)).1, 10e-3);
    for name in ["htb", "fifo", "hrr", "hfsc"] {
        assert_eq!(of(name, &plain), None, "{name}");
    }
    let queue = Some(TransmitQueue { packets: 4, priority: false });
    equal(rate(of("wfq", &tree(ClassConfig::default(), queue))).1, 5e-3);
    let reordered = ClassConfig { queue: QueueKind::FqCoDel, ..ClassConfig::default() };
    assert_eq!(of("wfq", &tree(reordered, None)), None);
    let curve = |m1: u64, m2: u64| {
        let curve = ServiceCurve { m1: Rate::from_bps(m1).ok(), d: Nanos::from_millis(10), m2: Some(mbit(m2)) };
        rate(of("hfsc", &tree(ClassConfig { real_time: Some(curve), ..ClassConfig::default() }, None)))
    };
    let (convex, concave) = (curve(0, 1), curve(4_000_000, 1));
    equal(convex.1, 11e-3);
    equal(concave.1, 1e-3);
    equal(concave.0, 1e6);
    let critical = ClassConfig { latency_critical: true, burst: Some(3000), ..ClassConfig::default() };
    for name in ["hls", "hvt"] {
        let tree = tree(critical, None);
        let Some(Service::Conforming { bps, latency_s, burst, rate_bps }) = of(name, &tree) else { panic!("{name}") };
        equal(bps, 8e6);
        equal(burst, 3000.0);
        assert!(rate_bps <= 2e6 && latency_s >= 1e-3, "{name}");
    }
}
