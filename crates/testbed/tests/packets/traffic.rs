//! Generator and receiver, and the kernel's HTB between them, with real packets. Counts and order are asserted; rates
//! and delays depend on the machine and are printed.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::both_ends::run;
use crate::support;
use fairlink_config::tc::{ImportOptions, export, import};
use fairlink_config::{LinkFile, ReadOptions};
use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, Rate, Share};
use fairlink_net::Headers;
use fairlink_testbed::{
    Generator, GeneratorConfig, GeneratorError, KernelHtb, Lanes, PrivateNamespace, Receiver, ReceiverConfig,
    ReceiverError, lay_cables, run_together, script_generators,
};
use fairlink_traffic::{Interval, Model, PacketSize, Script, SourceSpec};

pub(crate) fn main() -> ExitCode {
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
        (
            "the_kernel_takes_exported_commands_and_reads_them_back",
            the_kernel_takes_exported_commands_and_reads_them_back,
        ),
        ("a_script_leaves_by_its_interfaces_and_says_what_would_block", a_script_leaves_by_its_interfaces),
    ])
}

/// Runs `tc`; returns `None` if it is missing.
fn tc(arguments: &[&str], input: &str) -> Option<String> {
    use std::io::Write as _;
    let program = ["/usr/sbin/tc", "/sbin/tc", "/usr/bin/tc", "/bin/tc"]
        .into_iter()
        .find(|path| std::path::Path::new(path).is_file());
    let Some(program) = program else {
        println!("SKIPPED: there is no tc");
        return None;
    };
    let mut command = std::process::Command::new(program);
    let piped = std::process::Stdio::piped;
    let mut child = command.args(arguments).stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "tc: {}\n{input}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The oracle of `tc export`: the kernel's classes and filters from the commands, imported again, give the link file.
fn the_kernel_takes_exported_commands_and_reads_them_back(_: &PrivateNamespace) {
    cable();
    let text = "[link]\nrate = \"100mbit\"\nscheduler = \"htb\"\ndefault = \"c\"\n\
                [[class]]\nname = \"top\"\nclassid = \"1:1\"\nguarantee = \"100mbit\"\nceiling = \"100mbit\"\n\
                [[class]]\nname = \"a\"\nparent = \"top\"\nclassid = \"1:1f\"\nguarantee = \"30mbit\"\nceiling = \"50mbit\"\n\
                burst = \"16kB\"\nceiling_burst = \"16kB\"\npriority = 1\nquantum = \"3000B\"\nbuffer = \"50p\"\n\
                match = [\"udp dst port 5001\", \"ip src net 10.1.0.0/16\", \"ip dscp ef\", \"ethertype 0x88b5\"]\n\
                [[class]]\nname = \"b\"\nparent = \"top\"\nguarantee = \"1.5mbit\"\nceiling = \"100mbit\"\nburst = \"16kB\"\n\
                ceiling_burst = \"16kB\"\npriority = 7\nquantum = \"1514B\"\nmatch = [\"ip6 tcp dst port 1000-1002\"]\n\
                [[class]]\nname = \"c\"\nparent = \"top\"\nguarantee = \"60mbit\"\nceiling = \"60mbit\"\nburst = \"16kB\"\n\
                ceiling_burst = \"16kB\"\npriority = 0\nquantum = \"60kB\"\n";
    let link = LinkFile::parse("l.toml", text, &ReadOptions::default()).unwrap();
    let made = export(&link, "left").unwrap();
    let batch: String =
        made.text.lines().filter_map(|line| line.strip_prefix("tc ")).map(|line| format!("{line}\n")).collect();
    if tc(&["-batch", "-"], &batch).is_none() {
        return;
    }
    let shown = tc(&["class", "show", "dev", "left"], "").unwrap();
    let class = |number: &str| {
        let line = shown
            .lines()
            .find(|line| line.starts_with(&format!("class htb {number} ")))
            .unwrap_or_else(|| panic!("{shown}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |key: &str| words.iter().position(|word| *word == key).map(|at| words[at + 1].to_owned());
        (value("rate"), value("ceil"), value("prio"))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(class("1:1f"), (some("30Mbit"), some("50Mbit"), some("1")));
    // The quantum is in the detailed form.
    let detailed = tc(&["-d", "class", "show", "dev", "left"], "").unwrap();
    for quantum in ["quantum 3000 ", "quantum 1514 ", "quantum 60000 "] {
        assert!(detailed.contains(quantum), "{quantum}: {detailed}");
    }
    // Rewrites the kernel's output as commands: `class htb 1:1f parent 1:1 leaf 8001: prio 1 quantum 3000 rate ...`.
    let mut commands = "tc qdisc add dev left root handle 1: htb default 3\n".to_owned();
    for line in detailed.lines().filter(|line| line.starts_with("class htb ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |key: &str| words.iter().position(|word| *word == key).map(|at| words[at + 1]);
        let parent = value("parent").map_or("1:", |parent| parent);
        let mut command = format!("tc class add dev left parent {parent} classid {} htb", words[2]);
        for key in ["rate", "ceil", "prio", "quantum"] {
            if let Some(value) = value(key) {
                command += &format!(" {key} {value}");
            }
        }
        // Parents first: the kernel's order is arbitrary.
        if parent == "1:" {
            commands.insert_str(commands.find('\n').unwrap() + 1, &(command + "\n"))
        } else {
            commands += &(command + "\n")
        }
    }
    for line in tc(&["filter", "show", "dev", "left"], "").unwrap().replace("\n  match ", " match ").lines() {
        if let Some((head, matches)) = line.split_once(" *flowid ").or_else(|| line.split_once(" flowid ")) {
            let word = |key: &str| head.split_whitespace().skip_while(|word| *word != key).nth(1).unwrap();
            let mut rest = matches.split_whitespace();
            let flow = rest.next().unwrap();
            let matches = rest.filter(|word| *word != "not_in_hw").collect::<Vec<_>>().join(" ");
            // `00060000/00ff0000 at 8` as `match u32 0x00060000 0x00ff0000 at 8`.
            let matches = matches.split("match ").skip(1).map(|one| {
                let (pair, at) = one.trim().split_once(' ').unwrap();
                let (value, mask) = pair.split_once('/').unwrap();
                format!(" match u32 0x{value} 0x{mask} {at}")
            });
            let (protocol, pref) = (word("protocol"), word("pref"));
            // A number that has no name is shown in brackets.
            let protocol = protocol.trim_matches(['[', ']']);
            commands += &format!(
                "tc filter add dev left parent 1: protocol {protocol} pref {pref} u32{} flowid {flow}\n",
                matches.collect::<String>()
            );
        }
    }
    let made = import("the kernel", commands.clone(), &ImportOptions::default())
        .unwrap_or_else(|error| panic!("{}\n{commands}", error.lines()));
    let back = LinkFile::parse("back.toml", made.text, &ReadOptions::default()).unwrap();
    for (class, number) in link.tree.classes().filter_map(|class| Some((class, link.number_of(class)?))) {
        let other = back.class_numbered(number).unwrap();
        let (ours, theirs) = (link.tree.config(class), back.tree.config(other));
        assert_eq!(
            (ours.share, ours.ceiling, ours.priority, ours.quantum),
            (theirs.share, theirs.ceiling, theirs.priority, theirs.quantum)
        );
    }
    // Those of IPv4 and of EtherTypes alone; import does not parse the bytes of IPv6.
    let of = |link: &LinkFile, name: &str| -> Vec<String> {
        let class = link.names.id(name).unwrap();
        link.matches.iter().filter(|(owner, _)| *owner == class).map(|(_, made)| made.to_string()).collect()
    };
    assert_eq!(
        of(&back, "1:1f"),
        ["udp dst port 5001", "src net 10.1.0.0/16", "ip dscp ef", "ethertype 0x88b5"].map(|text| {
            // A port is one of IPv4 if the kernel shows bytes.
            if text.starts_with("udp") { "ip udp dst port 5001".to_owned() } else { text.to_owned() }
        })
    );
}

/// Two interfaces, each with a queue; the second one's traffic exceeds its socket.
fn a_script_leaves_by_its_interfaces(_: &PrivateNamespace) {
    lay_cables(&[("left", "right"), ("up", "down")]).unwrap();
    let script = "0 i 1 up\n0 P 0 0x10002\n0 P 1 0x10002\n0 S 0 200\n0 S 1 1000\n0 R 0 20000\n0 R 1 2000000\n250 R 0 0\n600 X 0 0\n";
    let script = Script::parse(script).unwrap();
    // 10 kB/s behind a queue that exceeds a socket's buffer.
    let slow = "qdisc add dev up root handle 1: htb\nclass add dev up parent 1: classid 1:2 htb rate 10kbps\nqdisc add dev up parent 1:2 pfifo limit 5000\n";
    let has_tc = tc(&["-batch", "-"], slow).is_some();
    let receivers = ["right", "down"].map(|interface| {
        let config = ReceiverConfig { duration: Some(Duration::from_millis(1200)), ..ReceiverConfig::new(interface) };
        Receiver::open(config).unwrap()
    });
    let stop = AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|scope| {
        let stop = &stop;
        let receivers = receivers.map(|receiver| scope.spawn(move || receiver.run(stop, |_| ()).unwrap()));
        let configs = script_generators(&script, Some("left"), 3, None).unwrap();
        let generators: Vec<_> =
            configs.into_iter().map(|config| (config.interface.clone(), Generator::open(config).unwrap())).collect();
        let sent = run_together(generators, stop, |_| ()).unwrap();
        (sent, receivers.map(|thread| thread.join().unwrap()))
    });
    assert_eq!(sent.iter().map(|sent| sent.interface.as_str()).collect::<Vec<_>>(), ["left", "up"]);
    let (left, up) = (&sent[0].report.classes[0], &sent[1].report.classes[0]);
    assert_eq!((left.name.as_str(), up.name.as_str()), ("flow 0", "flow 1"));
    // 250 ms of 100 packets per second.
    assert_eq!((left.offered_packets, left.offered_packets - left.late_packets), (25, left.sent_packets));
    assert_eq!((left.blocked_sends, left.blocked_s), (0, 0.0));
    assert_eq!(received[0].classes[0].received_packets, left.sent_packets);
    assert_eq!(up.offered_packets, up.sent_packets + up.refused_packets + up.late_packets);
    if has_tc {
        assert!(up.blocked_sends >= 1 && up.blocked_s > 0.0 && up.refused_packets > 0, "{up:?}");
    }
    assert_eq!(script_generators(&script, None, 3, None).unwrap_err().flow, 0);
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
        fragment: false,
        kernel_stamps: false,
        cpu: Some(0),
    }
}

fn a_private_namespace_has_nothing_but_loopback(_: &PrivateNamespace) {
    let interfaces = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let names: Vec<&str> = interfaces.lines().skip(2).map(|line| line.split(':').next().unwrap().trim()).collect();
    // Some kernels create interfaces of tunnels in every new namespace.
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
        // The receiver's first window sets the flag, so both were running.
        let received = receiver.run(&stop, |_| stop.store(true, Ordering::Relaxed)).unwrap();
        assert!(sent.join().unwrap().classes[0].sent_packets >= received.classes[0].received_packets);
    });
}

fn sources_beyond_any_machine_end_on_time(_: &PrivateNamespace) {
    cable();
    // 1.95 * 10^9 frames per second: no machine counts them in real time.
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
    // It was stopped, and did not fall behind its own time.
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
