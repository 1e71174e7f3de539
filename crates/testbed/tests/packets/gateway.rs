//! The gateway with real packets between two cables, in a private network namespace. Assertions hold on any machine:
//! every packet is accounted for, classes get their own frames in order, memory stays within its bound. Rates and
//! delays depend on the machine and are printed.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::{ClassId, Nanos, registry};
use fairlink_net::{
    AfPacket, AfPacketOptions, Backend, Control, FramePool, Gateway, GatewayConfig, GatewayStats, Headers, Interface,
    InterfaceError, Offload, OffloadPolicy, OpenError, Pacing, Processor, RunError, Transport, VirtioHeader, Watch,
    control, interface, set_offload,
};
use fairlink_report::DropCause;
use fairlink_testbed::{
    BenchPath, Bridge, GatewayBenchConfig, GatewayBenchError, Generator, GeneratorConfig, GeneratorReport, PathCounts,
    PrivateNamespace, Receiver, ReceiverConfig, ReceiverReport, SkippedFigure, gateway_bench, gateway_throughput,
    packet_counters,
};
use fairlink_traffic::{Model, PacketSize};

use crate::cables::{cables, config, cores, generator, over_af_xdp, parse, rate};
use crate::raw::send_described;
use crate::sink::Sink;
use crate::through::SetAtEnd;
use crate::{support, variants};

pub(crate) fn main() -> ExitCode {
    let tests: &[support::Test] = &[
        (
            "every_packet_is_accounted_for_classified_and_in_order",
            every_packet_is_accounted_for_classified_and_in_order,
        ),
        (
            "memory_stays_within_its_bound_under_ten_times_the_load",
            memory_stays_within_its_bound_under_ten_times_the_load,
        ),
        ("vlan_tags_macs_and_ipv6_pass_and_are_classified", vlan_tags_macs_and_ipv6_pass_and_are_classified),
        ("the_other_direction_passes_unshaped", the_other_direction_passes_unshaped),
        ("what_a_gateway_does_not_forward_is_not_counted_as_lost", what_a_gateway_does_not_forward),
        ("a_removed_interface_ends_the_run_with_everything_counted", a_removed_interface_ends_the_run),
        (
            "a_stopped_gateway_has_counted_what_it_kept_and_closes_its_sockets",
            a_stopped_gateway_has_counted_what_it_kept_and_closes_its_sockets,
        ),
        ("the_bench_measures_what_it_says", the_bench_measures_what_it_says),
        ("the_bench_ends_when_it_is_stopped", the_bench_ends_when_it_is_stopped),
        ("a_bridge_alone_passes_frames_between_the_cables", a_bridge_alone_passes_frames_between_the_cables),
        ("the_quick_bench_measures_throughput_alone", the_quick_bench_measures_throughput_alone),
        ("the_control_socket_tells_of_a_running_gateway", the_control_socket_tells_of_a_running_gateway),
        (
            "unfinished_checksums_are_left_to_the_output_and_joined_packets_split",
            unfinished_checksums_and_joined_packets,
        ),
        (
            "a_kernel_that_does_not_describe_frames_is_told_and_joined_packets_are_counted",
            a_kernel_that_does_not_describe_frames,
        ),
        ("an_unfinished_sctp_checksum_is_completed_as_crc32c", an_unfinished_sctp_checksum),
        ("what_cannot_work_is_refused_with_what_to_do", what_cannot_work_is_refused_with_what_to_do),
    ];
    let mut also = variants::over_af_xdp_and_on_two_cores(&[
        "every_packet_is_accounted_for_classified_and_in_order",
        "memory_stays_within_its_bound_under_ten_times_the_load",
        "vlan_tags_macs_and_ipv6_pass_and_are_classified",
        "the_other_direction_passes_unshaped",
        "a_removed_interface_ends_the_run_with_everything_counted",
        "a_stopped_gateway_has_counted_what_it_kept_and_closes_its_sockets",
        "the_control_socket_tells_of_a_running_gateway",
        "unfinished_checksums_are_left_to_the_output_and_joined_packets_split",
        "an_unfinished_sctp_checksum_is_completed_as_crc32c",
    ]);
    also.push(variants::over_af_xdp_on_two_cores(&[
        "every_packet_is_accounted_for_classified_and_in_order",
        "memory_stays_within_its_bound_under_ten_times_the_load",
        "the_other_direction_passes_unshaped",
        "a_removed_interface_ends_the_run_with_everything_counted",
        "a_stopped_gateway_has_counted_what_it_kept_and_closes_its_sockets",
        "an_unfinished_sctp_checksum_is_completed_as_crc32c",
    ]));
    also.push(variants::on_three_cores(&[
        "every_packet_is_accounted_for_classified_and_in_order",
        "the_other_direction_passes_unshaped",
        "a_stopped_gateway_has_counted_what_it_kept_and_closes_its_sockets",
    ]));
    support::main_also(tests, also)
}

/// Results of a run.
struct Passed {
    sent: GeneratorReport,
    stats: GatewayStats,
    received: ReceiverReport,
    /// True if workers forwarded frames while the data thread made no turn. Those overtake frames in its queues.
    past_scheduler: bool,
}

/// Runs `generator` through a gateway to a receiver. Stops the gateway first, then the receiver, once no more frames
/// arrive.
fn run(config: GatewayConfig, generator: GeneratorConfig) -> Passed {
    let gateway = Gateway::open(config).unwrap();
    println!("{}", gateway.memory());
    let receiver = Receiver::open(ReceiverConfig::new("sink")).unwrap();
    let generator = Generator::open(generator).unwrap();
    let (stop_gateway, stop_receiver) = (AtomicBool::new(false), AtomicBool::new(false));
    let (remote, vitals) = (gateway.remote(), gateway.vitals());
    std::thread::scope(|scope| {
        let _at_end = SetAtEnd([&stop_gateway, &stop_receiver]);
        let forwarded = scope.spawn(|| gateway.run(&stop_gateway).unwrap());
        let received = scope.spawn(|| receiver.run(&stop_receiver, |_| ()).unwrap());
        let sent = generator.run(&AtomicBool::new(false), |_| ()).unwrap();
        let during = remote.stats(Duration::from_secs(10)).unwrap();
        assert!(during.gateway().balanced, "{during:?}");
        std::thread::sleep(Duration::from_millis(100));
        stop_gateway.store(true, Ordering::Relaxed);
        let stats = forwarded.join().unwrap();
        assert_eq!(stats.gateway().interfaces[0].backend == "af_xdp", over_af_xdp(), "{stats:?}");
        assert_eq!(stats.gateway().workers.len(), usize::from(cores().count) - 1);
        assert_eq!(*remote.stats(Duration::from_secs(10)).unwrap(), stats);
        std::thread::sleep(Duration::from_millis(200));
        stop_receiver.store(true, Ordering::Relaxed);
        println!("{stats}");
        let said: Vec<_> = vitals.messages().into_iter().map(|event| event.message).collect();
        said.iter().for_each(|message| println!("{message}"));
        let past_scheduler = said.iter().any(|message| message.contains("past the scheduler"));
        Passed { sent, stats, received: received.join().unwrap(), past_scheduler }
    })
}

/// Checks the invariants of every run: no frame is made up, lost without a count, put into the wrong class, or out of
/// order.
fn check(passed: &Passed) {
    let Passed { sent, stats, received, past_scheduler } = passed;
    assert!(stats.gateway().balanced, "{stats:?}");
    assert_eq!(received.foreign_packets, 0, "frames that nobody sent");
    let from_generator: u64 = sent.classes.iter().map(|class| class.sent_packets).sum();
    // Frames that the gateway had not fetched at its stop are in neither.
    assert!(stats.counts().received.packets + stats.gateway().unreceived_packets() <= from_generator);
    let at_receiver: u64 = received.classes.iter().map(|class| class.received_packets).sum();
    let arrived = at_receiver + received.socket_drops;
    assert_eq!(arrived, stats.counts().sent.packets, "packets at the receiver, and sent by the gateway: {stats}");
    for (class, stats) in stats.classes.iter().enumerate() {
        let id = ClassId(class as u32 + 1);
        let offered = sent.class(id).map_or(0, |class| class.sent_packets);
        assert!(
            stats.counts().received.packets <= offered,
            "{}: {} of {offered}",
            stats.name,
            stats.counts().received.packets
        );
        let Some(arrived) = received.class(id) else { continue };
        assert!(arrived.received_packets <= stats.counts().sent.packets, "{}", stats.name);
        assert_eq!(arrived.duplicate_packets, 0, "{}: doubled", stats.name);
        assert!(
            *past_scheduler || arrived.reordered_packets == 0,
            "{}: {} packets out of order, and no worker forwarded past the scheduler",
            stats.name,
            arrived.reordered_packets
        );
        println!(
            "{}: {:.2} Mbit/s, delay in the gateway {:?}, end to end {:?}",
            stats.name,
            arrived.rate_bps / 1e6,
            stats.delay_s,
            arrived.delay_s
        );
    }
}

fn every_packet_is_accounted_for_classified_and_in_order(_: &PrivateNamespace) {
    cables();
    for (scheduler, pacing) in [("hls", Pacing::Precise), ("drr", Pacing::Eco), ("fifo", Pacing::Busy)] {
        println!("{scheduler}, {}", pacing.name());
        let mut config = config(20_000_000, scheduler);
        config.pacing = pacing;
        let size = PacketSize::Uniform { min: 100, max: 1400, header: 42 };
        let sources = [
            (1, Model::poisson(rate(8_000_000)), size.clone(), Headers::udp(5001)),
            (2, Model::poisson(rate(8_000_000)), size.clone(), Headers::udp(5002)),
            (3, Model::poisson(rate(8_000_000)), size, Headers::udp(7)),
        ];
        let passed = run(config, generator(&sources, 700, 1));
        check(&passed);
        let Passed { sent, stats, .. } = passed;
        println!("{:?}", stats.gateway().time);
        assert!(stats.counts().sent.packets > 0);
        if stats.gateway().unreceived_packets() == 0 {
            for class in &sent.classes {
                assert_eq!(stats.classes[class.class as usize - 1].counts().received.bytes, class.sent_bytes);
            }
        }
    }
}

fn memory_stays_within_its_bound_under_ten_times_the_load(_: &PrivateNamespace) {
    cables();
    let config = config(10_000_000, "hls");
    let fixed = PacketSize::Fixed(1000);
    // 10 Mbit/s of link, 102 Mbit/s offered.
    let sources = [1, 2, 3].map(|class| (class, Model::Greedy, fixed.clone(), Headers::udp(5000 + class as u16)));
    let passed = run(config, generator(&sources, 1000, 34_000_000));
    check(&passed);
    let stats = passed.stats;
    assert!(stats.counts().dropped.packets > 0, "no drops: {stats}");
    assert!(stats.gateway().pool_most_used <= stats.gateway().memory.pool_frames);
    assert!(stats.counts().queued.packets <= stats.gateway().memory.queue_packets + 64);
    assert!(stats.classes.iter().all(|class| class.counts().dropped_for(DropCause::QueuePackets).packets > 0));
    println!(
        "{:?} of {} frames used; {:?}",
        stats.gateway().pool_most_used,
        stats.gateway().memory.pool_frames,
        stats.gateway().time
    );
}

fn vlan_tags_macs_and_ipv6_pass_and_are_classified(_: &PrivateNamespace) {
    cables();
    let mut config = config(100_000_000, "hls");
    config.matches = vec![
        (ClassId(1), parse("vlan 5 inner vlan 6 udp dst port 9")),
        (ClassId(2), parse("src mac 2:66:6c:0:0:9 ip6")),
    ];
    let base = Headers::udp(9);
    let mac = (base.mac.0, [2, 0x66, 0x6c, 0, 0, 9]);
    let v6 = fairlink_net::Addresses::V6("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let sources = [
        (1, Headers { vlan: Some(5), inner_vlan: Some(6), ..base }),
        (2, Headers { mac, vlan: Some(7), dscp: 46, addresses: v6, transport: Transport::Tcp, ..base }),
        (3, Headers { vlan: Some(6), inner_vlan: Some(5), ..base }),
    ]
    .map(|(class, headers)| (class, Model::cbr(rate(2_000_000)), PacketSize::Fixed(1000), headers));
    let mut sink = AfPacket::open(&Interface::open("sink").unwrap(), &AfPacketOptions::default()).unwrap();
    let passed = run(config, generator(&sources, 500, 1));
    check(&passed);
    let stats = passed.stats;
    let mut pool = FramePool::new(64, 2000).unwrap();
    let mut arrivals = Vec::new();
    sink.receive(&mut pool, Nanos::ZERO, 64, &mut arrivals).unwrap();
    assert!(!arrivals.is_empty());
    for arrival in arrivals {
        let frame = pool.packet(arrival.frame);
        assert_eq!((frame.len(), &frame[..6]), (1000, &base.mac.0[..]));
        assert!([base.mac.1, mac.1].iter().any(|source| frame[6..12] == source[..]), "{frame:?}");
        assert!(matches!(frame[12..16], [0x88, 0xa8, 0, 5] | [0x81, 0, 0, 7] | [0x88, 0xa8, 0, 6]), "{frame:?}");
    }
    // A packet socket gets the tag beside the frame, AF_XDP gets the frame as it was sent.
    assert_eq!(stats.gateway().vlan_tags_restored, if over_af_xdp() { 0 } else { stats.counts().received.packets });
    assert!(stats.classes.iter().all(|class| class.counts().sent.packets > 0));
}

fn what_a_gateway_does_not_forward(_: &PrivateNamespace) {
    cables();
    let mut config = config(100_000_000, "hls");
    config.reverse = false;
    // A buffer that the frames would overflow at once.
    config.sockets.receive_buffer = 64 << 10;
    let gateway = Gateway::open(config).unwrap();
    let sources = [(1, Model::cbr(rate(20_000_000)), PacketSize::Fixed(500), Headers::udp(5001))];
    let back = GeneratorConfig { interface: "sink".to_owned(), ..generator(&sources, 400, 1) };
    let stop = AtomicBool::new(false);
    let stats = std::thread::scope(|scope| {
        let running = scope.spawn(|| gateway.run(&stop).unwrap());
        let sent = Generator::open(back).unwrap().run(&AtomicBool::new(false), |_| ()).unwrap();
        assert!(sent.class(ClassId(1)).unwrap().sent_packets > 0);
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert_eq!(
        (stats.gateway().unreceived_packets(), stats.counts().received.packets, stats.gateway().reverse),
        (0, 0, None),
        "{stats}"
    );
}

fn the_other_direction_passes_unshaped(_: &PrivateNamespace) {
    cables();
    // 1 Mbit/s forward; 40 times as much backward.
    let gateway = Gateway::open(config(1_000_000, "hls")).unwrap();
    let receiver = Receiver::open(ReceiverConfig::new("gen")).unwrap();
    let source = (1, Model::cbr(rate(40_000_000)), PacketSize::Fixed(1000), Headers::udp(5001));
    let generator = GeneratorConfig { interface: "sink".to_owned(), ..generator(&[source], 300, 1) };
    let generator = Generator::open(generator).unwrap();
    let (stop_gateway, stop_receiver) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _at_end = SetAtEnd([&stop_gateway, &stop_receiver]);
        let forwarded = scope.spawn(|| gateway.run(&stop_gateway).unwrap());
        let received = scope.spawn(|| receiver.run(&stop_receiver, |_| ()).unwrap());
        let sent = generator.run(&AtomicBool::new(false), |_| ()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        stop_gateway.store(true, Ordering::Relaxed);
        stop_receiver.store(true, Ordering::Relaxed);
        let (stats, received) = (forwarded.join().unwrap(), received.join().unwrap());
        let reverse = stats.gateway().reverse.unwrap();
        assert!(stats.gateway().balanced && stats.counts().received.packets == 0);
        assert_eq!(reverse.received.packets, reverse.sent.packets + reverse.dropped.packets + reverse.waiting.packets);
        assert_eq!(reverse.received.packets + stats.gateway().unreceived_packets(), sent.classes[0].sent_packets);
        let arrived = &received.classes[0];
        assert_eq!(arrived.received_packets + received.socket_drops, reverse.sent.packets);
        assert_eq!((arrived.reordered_packets, arrived.duplicate_packets), (0, 0), "reordered, doubled: {stats}");
        println!("{:.1} Mbit/s backwards", arrived.rate_bps / 1e6);
    });
}

fn a_removed_interface_ends_the_run(_: &PrivateNamespace) {
    cables();
    let gateway = Gateway::open(config(10_000_000, "hls")).unwrap();
    let source = (1, Model::cbr(rate(5_000_000)), PacketSize::Fixed(1000), Headers::udp(5001));
    let generator = Generator::open(generator(&[source], 400, 1)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let forwarded = scope.spawn(|| gateway.run(&stop));
        generator.run(&AtomicBool::new(false), |_| ()).unwrap();
        interface::set_down("out").unwrap();
        let error: RunError = forwarded.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("out went down or disappeared"), "{error}");
        assert!(error.stats.gateway().balanced && error.stats.counts().received.packets > 0, "{:?}", error.stats);
    });
}

fn a_stopped_gateway_has_counted_what_it_kept_and_closes_its_sockets(_: &PrivateNamespace) {
    cables();
    let open = || {
        let packet_sockets = std::fs::read_to_string("/proc/self/net/packet").unwrap().lines().count() - 1;
        (packet_sockets, std::fs::read_dir("/proc/self/fd").unwrap().count())
    };
    let before = open();
    // First it is stopped, then it loses an interface; the second run starts where the first has ended.
    for dies in [false, true] {
        let gateway = Gateway::open(config(20_000, "hls")).unwrap();
        assert!(open().0 > before.0);
        let source = (1, Model::cbr(rate(20_000_000)), PacketSize::Fixed(1000), Headers::udp(5001));
        let generator = Generator::open(generator(&[source], 300, 1)).unwrap();
        let stop = AtomicBool::new(false);
        let stats = std::thread::scope(|scope| {
            let forwarded = scope.spawn(|| gateway.run(&stop));
            generator.run(&AtomicBool::new(false), |_| ()).unwrap();
            if dies {
                interface::set_down("out").unwrap();
                *forwarded.join().unwrap().unwrap_err().stats
            } else {
                stop.store(true, Ordering::Relaxed);
                forwarded.join().unwrap().unwrap()
            }
        });
        // The link sends a frame or two in that time, and takes 40 s for the 100 that the queue holds: to set an interface down
        // takes seconds where other namespaces end at the same time.
        assert!(
            stats.gateway().balanced && stats.counts().queued.packets > 0 && stats.counts().sent.packets > 0,
            "no packet sent, or none queued: {stats}"
        );
        let parts = [stats.counts().sent, stats.counts().dropped, stats.counts().queued];
        assert_eq!(stats.counts().received.packets, parts.iter().map(|part| part.packets).sum::<u64>());
        assert_eq!(stats.counts().received.bytes, parts.iter().map(|part| part.bytes).sum::<u64>());
        assert_eq!(open(), before, "sockets and files, {dies}");
    }
}

fn what_cannot_work_is_refused_with_what_to_do(_: &PrivateNamespace) {
    cables();
    let open = |change: fn(&mut GatewayConfig)| {
        let mut config = config(10_000_000, "hls");
        change(&mut config);
        Gateway::open(config).unwrap_err()
    };
    let error = open(|config| config.input = "nowhere".to_owned());
    assert!(matches!(error, OpenError::Interface(InterfaceError::Missing { .. })), "{error}");
    let error = open(|config| config.output = "lo".to_owned());
    assert!(matches!(error, OpenError::Interface(InterfaceError::NotEthernet { .. })), "{error}");
    let error = open(|config| config.output = "in".to_owned());
    assert!(matches!(error, OpenError::SameInterface { .. }), "{error}");
    let error = open(|config| config.default_class = ClassId::ROOT);
    assert_eq!(
        error.to_string(),
        "class link gets frames but is not a leaf; only classes without children have queues"
    );
    let error = open(|config| config.pool_frames = Some(300));
    assert!(matches!(error, OpenError::PoolTooSmall { frames: 300, queued: 300, .. }), "{error}");
    let error = open(|config| config.processor = Processor::Number(4000));
    assert!(matches!(error, OpenError::Processor { processor: 4000, .. }), "{error}");
    interface::set_down("out").unwrap();
    let error = open(|_| ());
    assert!(error.to_string().contains("ip link set out up"), "{error}");
    interface::set_up("out").unwrap();

    // Offloads that join packets: refused if they cannot be split, or turned off during the run.
    set_offload("in", Offload::Gro, true).unwrap();
    let error = open(|config| config.sockets.split = false);
    assert!(matches!(&error, OpenError::Offloads { offloads, .. } if *offloads == ["gro"]), "{error}");
    let mut fixing = config(10_000_000, "hls");
    fixing.offloads = OffloadPolicy::Fix;
    let gateway = Gateway::open(fixing).unwrap();
    let offloads = || Interface::open("in").unwrap().offloads;
    assert!(!offloads().gro, "{:?}", gateway.notes());
    gateway.run(&AtomicBool::new(true)).unwrap();
    assert!(offloads().gro);
}

fn the_bench_measures_what_it_says(namespace: &PrivateNamespace) {
    let mut config = GatewayBenchConfig::new(registry::find("hls").unwrap());
    (config.span, config.rounds, config.tcp_connections) = (Duration::from_millis(200), 2, vec![2]);
    let (never, mut told) = (AtomicBool::new(false), Vec::new());
    let bench = gateway_bench(namespace, &config, &never, |what| told.push(what.to_owned())).unwrap();
    for SkippedFigure { what, why } in &bench.skipped {
        println!("SKIPPED: {what}: {why}");
        assert!(!why.is_empty(), "{what}");
    }
    // Each length over each path that is available here: what is not measured has a reason, and no figures.
    let is_skipped = |what: &str| bench.skipped.iter().any(|skipped| skipped.what == what);
    let measured: Vec<_> = bench.paths.iter().map(|path| (path.frame_bytes, &*path.path)).collect();
    let names = || BenchPath::ALL.into_iter().map(BenchPath::name).filter(|name| !is_skipped(name));
    let expected: Vec<_> = [64, 1500].into_iter().flat_map(|length| names().map(move |name| (length, name))).collect();
    assert_eq!(measured, expected);
    assert!(expected.contains(&(64, "cable")) && expected.contains(&(1500, "af_packet")));
    for path in &bench.paths {
        println!("{path:?}");
        let PathCounts { offered_packets, left_packets, arrived_packets, htb_class_packets } = &path.counts;
        assert!(path.balanced && 0 < *arrived_packets && arrived_packets <= offered_packets);
        // What arrived has passed the output of the bridge or gateway, and nothing else did.
        assert_eq!(*left_packets, (path.path != "cable").then_some(*arrived_packets));
        assert_eq!(path.machine_s.is_some(), !is_skipped("processor time of the machine"));
        assert_eq!(path.added_machine_s.is_some(), path.path != "cable" && path.machine_s.is_some());
        assert_eq!(path.gateway.is_some(), path.path.starts_with("af_"));
        if let Some(gateway) = &path.gateway {
            assert!((0.0..=1.0).contains(&gateway.scheduler_share.median) && gateway.data_thread_s.min > 0.0);
        }
        // HTB has found the class of each frame.
        assert_eq!(htb_class_packets.len(), if path.path == "kernel-htb" { 8 } else { 0 });
        assert!(htb_class_packets.iter().all(|&packets| packets > 0), "{htb_class_packets:?}");
        for delay in [path.delay_light.unwrap(), path.delay_half.unwrap()] {
            assert!(delay.probes_arrived <= delay.probes_sent && delay.p50_s.min > 0.0, "{delay:?}");
            assert_eq!(delay.added_p50_s.is_some(), path.path != "cable");
            let has_bridge = !["cable", "bridge"].contains(&&*path.path) && !is_skipped("bridge");
            assert_eq!(delay.over_bridge_p99_s.is_some(), has_bridge);
        }
    }
    let tcp: Vec<_> = bench.tcp.iter().map(|tcp| (&*tcp.path, tcp.gso.as_deref())).collect();
    let all = [("kernel-htb", None), ("af_packet", Some("auto")), ("af_packet", Some("split"))];
    assert_eq!(tcp, if is_skipped("TCP through kernel-htb") { &all[1..] } else { &all[..] });
    for tcp in &bench.tcp {
        println!("{tcp:?}");
        assert!(tcp.balanced && tcp.connections == 2 && tcp.goodput_bps.min > 0.0);
        assert_eq!(tcp.of_kernel_htb.is_some(), !is_skipped("TCP through kernel-htb"));
    }
    assert!(told.iter().any(|what| what.contains("round 2 of 2: delay at half load, 1500 B")), "{told:?}");
    config.frame_bytes = vec![20];
    let refused = gateway_bench(namespace, &config, &never, |_| ());
    assert!(matches!(refused, Err(GatewayBenchError::Range { value: 20, .. })));
}

fn the_bench_ends_when_it_is_stopped(namespace: &PrivateNamespace) {
    let config = GatewayBenchConfig::new(registry::find("hls").unwrap());
    let stop = AtomicBool::new(false);
    let mut told = 0;
    let bench = gateway_bench(namespace, &config, &stop, |_| {
        told += 1;
        stop.store(told == 3, Ordering::Relaxed);
    });
    assert!(matches!(bench, Err(GatewayBenchError::Stopped)) && told == 3, "{bench:?}");
}

fn a_bridge_alone_passes_frames_between_the_cables(_: &PrivateNamespace) {
    cables();
    let arrived = || {
        let before = packet_counters("in").unwrap().received;
        let source = (1, Model::cbr_packets(1_000_000), PacketSize::Fixed(100), Headers::udp(5001));
        let sent = Generator::open(generator(&[source], 100, 1)).unwrap().run(&AtomicBool::new(false), |_| ()).unwrap();
        let sent = sent.classes[0].sent_packets;
        assert_eq!(packet_counters("in").unwrap().received - before, sent);
        (sent, packet_counters("sink").unwrap().received)
    };
    let (sent, none) = arrived();
    assert!(sent > 0 && none == 0, "{none} of {sent} frames passed without a bridge");
    let bridge = match Bridge::create("bridge", ["in", "out"]) {
        Ok(bridge) => bridge,
        Err(why) => return println!("SKIPPED: no bridge: {why}"),
    };
    let (sent, passed) = arrived();
    assert_eq!(sent, passed, "frames that crossed the bridge");
    // It goes when it is dropped, and its ports stay.
    drop(bridge);
    assert_eq!(arrived().1, passed);
    assert!(packet_counters("bridge").is_err());
}

fn the_quick_bench_measures_throughput_alone(namespace: &PrivateNamespace) {
    let measured = gateway_throughput(namespace, registry::find("drr").unwrap(), Duration::from_millis(200)).unwrap();
    assert_eq!(measured.frame_bytes, 1514);
    assert!(measured.frames_per_s > 1_000.0 && measured.frames_per_s < 1e9, "{measured:?}");
    assert_eq!(measured.bps, measured.frames_per_s * 1514.0 * 8.0);
}

fn the_control_socket_tells_of_a_running_gateway(_: &PrivateNamespace) {
    cables();
    let gateway = Gateway::open(config(10_000_000, "hls")).unwrap();
    let path = std::env::temp_dir().join(format!("fairlink-test-{}.sock", std::process::id()));
    let control = Control::start(&path, gateway.remote()).unwrap();
    let source = (1, Model::cbr(rate(5_000_000)), PacketSize::Fixed(1000), Headers::udp(5001));
    let generator = Generator::open(generator(&[source], 200, 1)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let forwarded = scope.spawn(|| gateway.run(&stop).unwrap());
        let mut watch = Watch::connect(&path).unwrap();
        assert_eq!(watch.links().unwrap(), ["out"]);
        let mut told = || watch.stats(None, Some(Duration::from_secs(60))).unwrap();
        let first = told();
        assert_eq!(first.interval(), None, "there is nothing to compare with");
        let sent = generator.run(&AtomicBool::new(false), |_| ()).unwrap();
        // The last frames are in transit; they do not stay there.
        let arrived = || {
            let stats = control::stats(&path).unwrap();
            assert!(stats.gateway().balanced && stats.classes[0].name == "a");
            stats.counts().received.packets + stats.gateway().unreceived_packets()
        };
        while arrived() < sent.classes[0].sent_packets {
            std::thread::sleep(Duration::from_millis(10));
        }
        // The changes between two answers on one connection.
        let second = told();
        let interval = second.interval().unwrap();
        let (counts, rates) = (interval.counts.unwrap(), interval.rates);
        assert_eq!(counts.received, second.counts().received.checked_sub(first.counts().received).unwrap());
        assert!(counts.received.packets > 0 && rates.rate_bps <= rates.demand_bps, "{interval:?}");
        assert!(interval.seconds() > 0.0, "{interval:?}");
        let error = watch.stats(Some("up"), None).unwrap_err();
        assert!(error.to_string().contains("there is no link \"up\"; there are: out"), "{error}");
        stop.store(true, Ordering::Relaxed);
        let last = forwarded.join().unwrap();
        // The final report equals the result of the run.
        let told = control::stats(&path).unwrap();
        assert_eq!(
            (told.counts().received, told.counts().sent, told.counts().dropped, told.counts().queued),
            (last.counts().received, last.counts().sent, last.counts().dropped, last.counts().queued)
        );
        assert_eq!(told.gateway().memory, last.gateway().memory);
    });
    drop(control);
    assert!(!path.exists());
}

/// A UDP frame from 10.0.0.1 to 10.0.0.2 whose checksum field holds the sum of the pseudo-header alone, and the header
/// that describes it. With a `segment`, it was joined from datagrams of that many bytes.
fn unfinished_udp(len: u16, segment: u16) -> (Vec<u8>, VirtioHeader) {
    let mut frame = vec![2; 12];
    let total = (20 + len).to_be_bytes();
    frame.extend([8, 0, 0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x13, 0x88, 0x13, 0x89]);
    frame.extend(len.to_be_bytes());
    frame.extend((0x0a00 + 1 + 0x0a00 + 2 + 17 + len).to_be_bytes());
    frame.extend((8..len).map(|n| (n * 7) as u8));
    // VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_UDP_L4.
    let kind = if segment > 0 { 5 } else { 0 };
    let header = VirtioHeader { flags: 1, kind, header_len: 42, segment, checksum_start: 34, checksum_offset: 6 };
    (frame, header)
}

/// Runs `config` until `received` packets have arrived.
fn until_received(config: GatewayConfig, received: u64) -> GatewayStats {
    let gateway = Gateway::open(config).unwrap();
    println!("{:?}", gateway.notes());
    let (frame, header) = unfinished_udp(100, 0);
    send_described("gen", header, &frame).unwrap();
    let (frame, header) = unfinished_udp(4000, 1000);
    send_described("gen", header, &frame).unwrap();
    let stop = AtomicBool::new(false);
    let remote = gateway.remote();
    let stats = std::thread::scope(|scope| {
        let forwarded = scope.spawn(|| gateway.run(&stop).unwrap());
        while remote.stats(Duration::from_secs(10)).unwrap().counts().received.packets < received {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(20));
        stop.store(true, Ordering::Relaxed);
        forwarded.join().unwrap()
    });
    assert!(stats.gateway().balanced);
    stats
}

fn unfinished_checksums_and_joined_packets(_: &PrivateNamespace) {
    cables();
    for offload in [Offload::TxChecksum, Offload::ScatterGather, Offload::Tso, Offload::Gso] {
        set_offload("gen", offload, true).unwrap();
    }
    let mut sink = Sink::open("sink");
    // The output computes checksums itself, or leaves them to its peer.
    for on in [false, true] {
        set_offload("out", Offload::TxChecksum, on).unwrap();
        let stats = until_received(config(10_000_000, "hls"), 5);
        assert_eq!((stats.counts().received.packets, stats.counts().sent.packets), (5, 5));
        // AF_XDP gets no report of unfinished checksums, and finishes those that it finds.
        assert_eq!(
            (stats.gateway().checksums_completed, stats.gateway().super_packets),
            (if over_af_xdp() { 5 } else { 0 }, 0)
        );
        if stats.gateway().split_packets == 0 {
            println!("this kernel splits joined packets before a veth");
        } else {
            assert_eq!(
                (stats.gateway().split_packets, stats.gateway().segments, stats.gateway().checksums_passed_on),
                (1, 4, 1)
            );
        }
        let packets = sink.next(5);
        let left = std::mem::take(&mut sink.unfinished);
        assert_eq!(left, [on && !over_af_xdp(); 5], "the output has the checksum left to it");
        let mut payload: Vec<u8> = Vec::new();
        for (index, frame) in packets.iter().enumerate() {
            let packet = etherparse::SlicedPacket::from_ethernet(frame).unwrap();
            let (Some(etherparse::NetSlice::Ipv4(ip)), Some(etherparse::TransportSlice::Udp(udp))) =
                (packet.net, packet.transport)
            else {
                panic!("{frame:?}")
            };
            let right = udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap();
            assert_eq!(udp.checksum(), right);
            if index > 0 {
                payload.extend(udp.payload());
            }
        }
        assert_eq!(payload, unfinished_udp(4000, 1000).0[42..]);
    }
}

fn a_kernel_that_does_not_describe_frames(_: &PrivateNamespace) {
    cables();
    for offload in [Offload::TxChecksum, Offload::ScatterGather, Offload::Tso, Offload::Gso] {
        set_offload("gen", offload, true).unwrap();
    }
    let mut config = config(10_000_000, "hls");
    config.sockets.split = false;
    let gateway = Gateway::open(config.clone()).unwrap();
    assert_eq!(gateway.notes().iter().filter(|note| note.contains("tso off gso off tx off")).count(), 2);
    drop(gateway);
    let stats = until_received(config, 2);
    if stats.counts().received.packets > 2 {
        println!("SKIPPED: this kernel splits joined packets before a veth");
        return;
    }
    assert_eq!(stats.classes[0].counts().dropped_for(DropCause::TooLong).packets, 1);
    assert_eq!(
        (stats.counts().sent.packets, stats.gateway().split_packets, stats.gateway().checksums_passed_on),
        (1, 0, 0)
    );
}

fn an_unfinished_sctp_checksum(_: &PrivateNamespace) {
    cables();
    for offload in [Offload::TxChecksum, Offload::ScatterGather] {
        set_offload("gen", offload, true).unwrap();
    }
    let gateway = Gateway::open(config(10_000_000, "hls")).unwrap();
    let mut sink = AfPacket::open(&Interface::open("sink").unwrap(), &AfPacketOptions::default()).unwrap();
    // An SCTP packet of 40 B from 10.0.0.1 to 10.0.0.2, with any value in its checksum field.
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x13, 0x88, 0x13, 0x89, 1, 2, 3, 4]);
    // Without a description from the kernel, the zeros that its own SCTP leaves indicate it.
    frame.extend(if over_af_xdp() { [0; 4] } else { [0xde, 0xad, 0xbe, 0xef] });
    frame.extend((0..28).map(|n| n * 9));
    // VIRTIO_NET_HDR_F_NEEDS_CSUM
    let header = VirtioHeader { flags: 1, checksum_start: 34, checksum_offset: 8, ..VirtioHeader::default() };
    send_described("gen", header, &frame).unwrap();
    let stop = AtomicBool::new(false);
    let remote = gateway.remote();
    let stats = std::thread::scope(|scope| {
        let forwarded = scope.spawn(|| gateway.run(&stop).unwrap());
        while remote.stats(Duration::from_secs(10)).unwrap().counts().sent.packets < 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        forwarded.join().unwrap()
    });
    assert_eq!((stats.gateway().balanced, stats.gateway().checksums_completed), (true, 1));
    let mut pool = FramePool::new(64, 2000).unwrap();
    let mut arrivals = Vec::new();
    while arrivals.is_empty() {
        sink.receive(&mut pool, Nanos::ZERO, 64, &mut arrivals).unwrap();
    }
    // CRC32c, bit by bit, over the packet with zeros in the checksum's place (RFC 9260, Appendix A).
    frame[42..46].fill(0);
    let step = |crc: u32, _| crc >> 1 ^ (if crc & 1 == 1 { 0x82f6_3b78 } else { 0 });
    let crc = !frame[34..].iter().fold(!0u32, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step));
    frame[42..46].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(pool.packet(arrivals[0].frame), frame);
}
