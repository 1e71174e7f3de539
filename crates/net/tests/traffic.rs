//! Generator and receiver, and the kernel's HTB between them, with real packets. Counts and order are asserted; rates and
//! delays depend on the machine and are printed.

mod support;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, Rate, Share};
use fairlink_net::{
    Generator, GeneratorConfig, GeneratorError, GeneratorReport, Headers, KernelHtb, Lanes, PrivateNamespace, Receiver,
    ReceiverConfig, ReceiverError, ReceiverReport, lay_cables,
};
use fairlink_traffic::{Interval, Model, PacketSize, SourceSpec};

fn main() -> ExitCode {
    support::main(&[
        ("a_private_namespace_has_nothing_but_loopback", a_private_namespace_has_nothing_but_loopback),
        ("what_is_sent_over_a_cable_arrives_once_and_in_order", what_is_sent_over_a_cable_arrives_once_and_in_order),
        ("both_ends_stop_when_told_to", both_ends_stop_when_told_to),
        ("sources_beyond_any_machine_end_on_time_and_when_told_to", sources_beyond_any_machine_end_on_time),
        ("impossible_orders_are_refused_with_the_reason", impossible_orders_are_refused_with_the_reason),
        (
            "what_the_kernels_htb_sends_arrives_and_is_what_it_counts",
            what_the_kernels_htb_sends_arrives_and_is_what_it_counts,
        ),
    ])
}

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

fn cable() {
    lay_cables(&[("left", "right")]).unwrap();
}

fn source(class: u32, model: Model, packet: PacketSize) -> SourceSpec {
    SourceSpec { class: ClassId(class), model, packet, active: Vec::new() }
}

fn generator(sources: Vec<SourceSpec>, millis: u64) -> GeneratorConfig {
    let mut classes: Vec<_> = sources.iter().map(|source| source.class).collect();
    classes.dedup();
    GeneratorConfig {
        interface: "left".to_owned(),
        classes: classes.iter().map(|&class| (class, Headers::udp(5000 + class.0 as u16))).collect(),
        names: [(ClassId(3), "A1".to_owned())].into(),
        sources,
        seed: 1,
        greedy_rate: rate(50_000_000),
        duration: Nanos::from_millis(millis),
        start_ns: None,
        run: 1,
        lanes: Lanes::Shared,
        cpu: Some(0),
    }
}

/// Runs a generator, and a receiver beside it that stays until all is quiet.
fn run(generator: GeneratorConfig, receiver: ReceiverConfig) -> (GeneratorReport, ReceiverReport) {
    let receiver = Receiver::open(receiver).unwrap();
    let generator = Generator::open(generator).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let received = scope.spawn(|| receiver.run(&stop, |_| ()).unwrap());
        let sent = generator.run(&AtomicBool::new(false), |_| ()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        (sent, received.join().unwrap())
    })
}

fn a_private_namespace_has_nothing_but_loopback(_: &PrivateNamespace) {
    let interfaces = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let names: Vec<&str> = interfaces.lines().skip(2).map(|line| line.split(':').next().unwrap().trim()).collect();
    // Some kernels put down interfaces of tunnels into every new namespace.
    assert!(names.contains(&"lo") && !names.iter().any(|name| name.starts_with("eth")), "{names:?}");
}

fn what_is_sent_over_a_cable_arrives_once_and_in_order(_: &PrivateNamespace) {
    cable();
    let mut interval = source(7, Model::Greedy, PacketSize::Fixed(1000));
    interval.active = vec![Interval { start: Nanos::from_millis(200), end: Nanos::from_millis(400) }];
    let sources = vec![
        source(3, Model::cbr(rate(8_000_000)), PacketSize::Fixed(64)),
        source(5, Model::poisson(rate(20_000_000)), PacketSize::Uniform { min: 100, max: 1400, header: 42 }),
        interval,
    ];
    let (sent, received) = run(generator(sources, 1000), ReceiverConfig::new("right"));
    assert_eq!(received.foreign_packets, 0);
    assert_eq!(sent.classes.iter().map(|class| class.class).collect::<Vec<_>>(), [3, 5, 7]);
    let mut missing = 0;
    for sent in &sent.classes {
        let received = received.class(ClassId(sent.class)).unwrap();
        assert_eq!(sent.sent_packets + sent.refused_packets + sent.late_packets, sent.offered_packets);
        assert!(sent.sent_packets > 0);
        assert_eq!((received.reordered_packets, received.duplicate_packets, received.negative_delays), (0, 0, 0));
        missing += sent.sent_packets - received.received_packets;
        if sent.sent_packets == received.received_packets {
            assert_eq!(sent.sent_bytes, received.received_bytes);
            assert_eq!(received.lost_packets, 0);
        }
        println!("class {}: {sent:?} {:?}", sent.class, received.delay_s);
    }
    assert_eq!(missing, received.socket_drops);
}

fn both_ends_stop_when_told_to(_: &PrivateNamespace) {
    cable();
    let sources = vec![source(3, Model::Greedy, PacketSize::Fixed(1000))];
    let generator = Generator::open(generator(sources, 3_600_000)).unwrap();
    let receiver = Receiver::open(ReceiverConfig::new("right")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| generator.run(&stop, |_| ()).unwrap());
        // The flag is set by the receiver's first window, so both were at work.
        let received = receiver.run(&stop, |_| stop.store(true, Ordering::Relaxed)).unwrap();
        assert!(sent.join().unwrap().classes[0].sent_packets >= received.classes[0].received_packets);
    });
}

fn sources_beyond_any_machine_end_on_time(_: &PrivateNamespace) {
    cable();
    // 1.95 * 10^9 frames per second: no machine counts them as fast as they come.
    let config = |millis| {
        let sources = vec![source(3, Model::Greedy, PacketSize::Fixed(64))];
        GeneratorConfig { greedy_rate: rate(1_000_000_000_000), ..generator(sources, millis) }
    };
    let report = Generator::open(config(200)).unwrap().run(&AtomicBool::new(false), |_| ()).unwrap();
    println!("{report:?}");
    let class = &report.classes[0];
    assert_eq!(class.sent_packets + class.refused_packets + class.late_packets, class.offered_packets);
    let missed = 0.2 - class.offered_bytes as f64 * 8.0 / 1e12;
    assert!(report.unreached_s > 0.0 && (report.unreached_s - missed).abs() < 1e-6, "{missed}: {report:?}");
    let generator = Generator::open(config(3_600_000)).unwrap();
    let stop = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let sent = scope.spawn(|| generator.run(&stop, |_| ()).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        sent.join().unwrap()
    });
    // It was told to end, and did not fall behind its own time.
    assert_eq!(report.unreached_s, 0.0);
}

fn impossible_orders_are_refused_with_the_reason(_: &PrivateNamespace) {
    let no_device = |source: &std::io::Error| source.raw_os_error() == Some(19);
    let greedy = |packet| vec![source(3, Model::Greedy, packet)];
    let error = Generator::open(generator(greedy(PacketSize::Fixed(1000)), 1)).unwrap_err();
    assert!(matches!(&error, GeneratorError::Interface { source, .. } if no_device(source)), "{error}");
    let error = Receiver::open(ReceiverConfig::new("nowhere")).unwrap_err();
    assert!(matches!(&error, ReceiverError::Interface { source, .. } if no_device(source)), "{error}");
    assert!(Receiver::open(ReceiverConfig::new("a name that is far too long")).is_err());
    cable();
    assert_eq!(lay_cables(&[("left", "other")]).unwrap_err().raw_os_error(), Some(17));
    for (packet, wrong) in [
        (PacketSize::Fixed(63), 63),
        (PacketSize::Fixed(1515), 1515),
        (PacketSize::Uniform { min: 60, max: 1500, header: 20 }, 1520),
    ] {
        let error = Generator::open(generator(greedy(packet), 1)).unwrap_err();
        assert!(
            matches!(error, GeneratorError::Length { index: 0, len, min: 64, max: 1514 } if len == wrong),
            "{error}"
        );
    }
    let mut nameless = generator(greedy(PacketSize::Fixed(1000)), 1);
    nameless.classes.clear();
    let error = Generator::open(nameless).unwrap_err();
    assert_eq!(error.to_string(), "source 0: class 3 has no headers");
}

fn what_the_kernels_htb_sends_arrives_and_is_what_it_counts(_: &PrivateNamespace) {
    let class =
        |mbit: u64| ClassConfig { share: Some(Share::Guarantee(rate(mbit * 1_000_000))), ..ClassConfig::default() };
    let mut tree = Hierarchy::builder(LinkConfig::new(rate(50_000_000)));
    let a = tree.add(ClassId::ROOT, class(25)).unwrap();
    tree.add(ClassId::ROOT, class(25)).unwrap();
    tree.add(a, class(7)).unwrap();
    tree.add(a, class(18)).unwrap();
    let tree = tree.build().unwrap();
    cable();
    let htb = match KernelHtb::install("left", &tree) {
        Ok(htb) => htb,
        Err(why) => return println!("SKIPPED: kernel HTB: {why}"),
    };
    let sources = tree.leaves().iter().map(|leaf| source(leaf.0, Model::Greedy, PacketSize::Fixed(1000))).collect();
    let mut config = generator(sources, 1000);
    config.lanes = Lanes::ByPriority(htb.priorities());
    let (sent, received) = run(config, ReceiverConfig::new("right"));
    let kernel = htb.counters().unwrap();
    let mut missing = 0;
    for &leaf in tree.leaves() {
        let (sent, received) = (sent.class(leaf).unwrap(), received.class(leaf).unwrap());
        let kernel = kernel.iter().find(|count| count.class == leaf).unwrap();
        assert_eq!(kernel.sent_packets, sent.sent_packets);
        assert_eq!(kernel.sent_bytes, kernel.sent_packets * 1000);
        assert!(sent.refused_packets > 0, "a greedy class stays backlogged");
        missing += kernel.sent_packets - received.received_packets;
        println!("class {}: kernel HTB {:.2} Mbit/s", leaf.0, received.rate_bps / 1e6);
    }
    assert_eq!(missing, received.socket_drops);
    assert!(htb.quanta().iter().all(|&(_, quantum)| quantum >= 1514));
    drop(htb);
    let again = KernelHtb::install("left", &tree).unwrap();
    assert_eq!(again.counters().unwrap().iter().map(|count| count.sent_packets).sum::<u64>(), 0);
}
