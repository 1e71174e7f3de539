//! Measurements of a gateway from outside, in private network namespaces. Packets longer than the MTU pass as fragments
//! of IP datagrams through the gateway to a receiver and to a plain socket of the kernel. Recordings before and behind
//! the gateway are compared with the receiver's report. Counts and bytes are asserted, and delays against each other.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlink_core::{ClassId, Nanos};
use fairlink_net::{Addresses, Headers, Transport};
use fairlink_testbed::{
    Generator, GeneratorConfig, GeneratorError, GeneratorReport, PrivateNamespace, Receiver, ReceiverConfig,
    ReceiverReport, lay_cables,
};
use fairlink_traffic::between::{BetweenConfig, BetweenError, Seen, between};
use fairlink_traffic::{Model, Mpeg, PacketSize, Picture};

use crate::both_ends::run;
use crate::cables::{cables, config, generator, rate};
use crate::machines::ip;
use crate::through::through;
use crate::{raw, support};

pub(crate) fn main() -> ExitCode {
    support::main(&[
        ("pictures_pass_the_gateway_as_fragments_and_are_whole_again", pictures_pass_the_gateway_as_fragments),
        ("the_kernel_puts_our_fragments_together_byte_for_byte", the_kernel_puts_our_fragments_together),
        ("one_lost_fragment_loses_the_datagram_and_is_counted", one_lost_fragment_loses_the_datagram),
        ("recordings_before_and_behind_the_gateway_say_what_the_receiver_says", recordings_say_what_the_receiver_says),
        ("what_cannot_be_fragmented_is_refused_with_the_reason", what_cannot_be_fragmented_is_refused),
    ])
}

fn v6() -> Addresses {
    Addresses::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2))
}

fn v4() -> Addresses {
    Addresses::V4(Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2))
}

fn headers(addresses: Addresses, port: u16) -> Headers {
    Headers { addresses, ..Headers::udp(port) }
}

/// The video of the thesis (Section 4.4.3), faster; pictures are cut into 1500 B by the source unless they are
/// fragmented.
fn video() -> Model {
    let exponential = |mean, min| PacketSize::Exponential { mean, min, max: 17_000 };
    use Picture::{B, I, P};
    Model::Mpeg(Mpeg {
        pattern: vec![I, P, B, B, P, B, B, P, B, B],
        groups_per_1000_s: 10_000,
        lengths: [
            PacketSize::Uniform { min: 15_000, max: 17_000, header: 0 },
            exponential(2100, 512),
            exponential(550, 256),
        ],
        whole_frames: false,
    })
}

fn pictures_pass_the_gateway_as_fragments(_: &PrivateNamespace) {
    cables();
    // Class 1 over IPv4, 2 over IPv6, 3 has whole frames between them. All fits into the link.
    let sources = [
        (1, video(), PacketSize::Fixed(1500), headers(v4(), 5001)),
        (2, video(), PacketSize::Fixed(1500), headers(v6(), 5002)),
        (3, Model::cbr(rate(2_000_000)), PacketSize::Fixed(500), headers(v4(), 7)),
    ];
    let config_of = GeneratorConfig { fragment: true, ..generator(&sources, 1000, 1) };
    let mut both: Option<(GeneratorReport, ReceiverReport)> = None;
    let stats = through(config(50_000_000, "drr"), |_| both = Some(run(config_of, ReceiverConfig::new("sink"))));
    let (sent, received) = both.unwrap();
    let lost = stats.gateway().unreceived_packets() + received.socket_drops + stats.counts().dropped.packets;
    let datagrams = received.datagrams.as_ref().expect("fragments");
    println!("{datagrams:?}");
    println!("{:?}", received.classes);
    let frames: u64 = sent.classes.iter().map(|c| c.sent_packets - c.fragmented_packets + c.fragments).sum();
    assert_eq!(frames, stats.counts().received.packets + stats.gateway().unreceived_packets());
    for class in [1, 2] {
        let from = sent.class(ClassId(class)).unwrap();
        // 100 pictures in a second, of which each I picture (10) and many P pictures are longer than the MTU.
        assert!(from.sent_packets + from.late_packets >= 98 && from.fragmented_packets >= 10, "{from:?}");
        assert!(from.sent_packets > from.fragmented_packets);
        if lost == 0 {
            let got = received.class(ClassId(class)).unwrap();
            let (count, bytes) = (got.received_packets, got.received_bytes);
            assert_eq!((count, bytes, got.lost_packets), (from.sent_packets, from.sent_bytes, 0));
            let whole = datagrams.classes.iter().find(|of| of.class == class).unwrap();
            assert_eq!((whole.whole, whole.incomplete), (from.fragmented_packets, 0));
            assert_eq!(whole.fragments, from.fragments);
            // All fragments were in the class of the first, which has the ports.
            let through = stats.classes.iter().find(|of| of.name == ["a", "b"][class as usize - 1]).unwrap();
            assert_eq!(through.counts().received.packets, from.sent_packets - from.fragmented_packets + from.fragments);
            assert_eq!(through.counts().received.bytes, from.sent_bytes);
            assert!(got.delay_s.is_some());
        }
    }
    assert_eq!(datagrams.refused_fragments, 0);
    println!("{lost} frames lost");
}

/// Sends one datagram of `len` bytes, and returns the bytes that a socket of the kernel receives.
fn to_a_socket(addresses: Addresses, port: u16, len: u32) -> Vec<u8> {
    let socket = match addresses {
        Addresses::V4(_, to) => UdpSocket::bind((to, port)),
        Addresses::V6(_, to) => UdpSocket::bind((to, port)),
    };
    let socket = socket.unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mac = mac_of("sink");
    let to = Headers { mac: (mac, [2, 0, 0, 0, 0, 9]), ..headers(addresses, port) };
    let source = (1, Model::cbr(rate(8_000)), PacketSize::Fixed(len), to);
    let config = GeneratorConfig { fragment: true, ..generator(&[source], 1, 1) };
    let sent = Generator::open(config).unwrap().run(&AtomicBool::new(false), |_| ()).unwrap();
    assert_eq!((sent.classes[0].sent_packets, sent.classes[0].fragmented_packets), (1, 1), "{sent:?}");
    let mut bytes = vec![0; 70_000];
    let received = socket.recv_from(&mut bytes);
    let (length, from) =
        received.unwrap_or_else(|why| panic!("no datagram of {len} B came within 30 s: {why}; {sent:?}"));
    assert_eq!(from.port(), 5000);
    bytes.truncate(length);
    bytes
}

/// The address of an interface of this namespace.
fn mac_of(name: &str) -> [u8; 6] {
    let output = Command::new("ip").args(["-o", "link", "show", name]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let address = text.split_whitespace().skip_while(|&word| word != "link/ether").nth(1).unwrap();
    let bytes: Vec<u8> = address.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

/// Reads the kernel's counter `name` of a protocol in this namespace.
fn counted(file: &str, line: &str, name: &str) -> u64 {
    let mut text = String::new();
    File::open(file).unwrap().read_to_string(&mut text).unwrap();
    if line.is_empty() {
        let mut words = text.split_whitespace().skip_while(|&word| word != name);
        return words.nth(1).unwrap().parse().unwrap();
    }
    let mut lines = text.lines().filter(|text| text.starts_with(line)).map(|text| text.split_whitespace());
    let (names, mut values) = (lines.next().unwrap(), lines.next().unwrap());
    values.nth(names.into_iter().position(|word| word == name).unwrap()).unwrap().parse().unwrap()
}

fn the_kernel_puts_our_fragments_together(_: &PrivateNamespace) {
    lay_cables(&[("gen", "sink")]).unwrap();
    if let Err(why) = ip("addr add 10.9.0.2/24 dev sink") {
        println!("SKIPPED: {why}");
        return;
    }
    // A source of another machine is behind this interface.
    let pattern = |bytes: &[u8]| (22..bytes.len()).all(|at| bytes[at] == ((at / 2) as u16).to_be_bytes()[at % 2]);
    for (len, payload) in [(15_042, 15_000), (15_043, 15_001), (65_549, 65_507)] {
        let got = to_a_socket(v4(), 5001, len);
        assert_eq!((got.len(), &got[..2]), (payload, &b"FL"[..]));
        assert!(pattern(&got), "IPv4, {payload} B");
    }
    assert_eq!(counted("/proc/net/snmp", "Ip:", "ReasmOKs"), 3);
    assert_eq!(counted("/proc/net/snmp", "Udp:", "InCsumErrors"), 0);
    let v6_here = std::fs::write("/proc/sys/net/ipv6/conf/sink/disable_ipv6", "0").map_err(|why| why.to_string());
    if let Err(why) = v6_here.and_then(|()| ip("-6 addr add fd00::2/64 dev sink nodad")) {
        println!("SKIPPED: IPv6: {why}");
        return;
    }
    for (len, payload) in [(15_062, 15_000), (15_063, 15_001), (65_589, 65_527)] {
        let got = to_a_socket(v6(), 5002, len);
        assert_eq!((got.len(), &got[..2]), (payload, &b"FL"[..]));
        assert!(pattern(&got), "IPv6, {payload} B");
    }
    assert_eq!(counted("/proc/net/snmp6", "", "Ip6ReasmOKs"), 3);
    assert_eq!(counted("/proc/net/snmp6", "", "Udp6InCsumErrors"), 0);
}

/// Forwards frames from `name` to `to` until `done`, except those for whose number `drops` returns true.
fn pass(name: &str, to: &str, done: &AtomicBool, drops: impl Fn(usize) -> bool) -> usize {
    let (socket, out) = (raw::listener(name), raw::sender(to, false));
    let (mut bytes, mut count) = (vec![0; 2000], 0);
    while !done.load(Ordering::Relaxed) {
        // SAFETY: the bytes are writable for their length.
        let length =
            unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
        if length <= 0 {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        }
        if !drops(count) {
            raw::send(&out, &bytes[..length as usize]).unwrap();
        }
        count += 1;
    }
    count
}

fn one_lost_fragment_loses_the_datagram(_: &PrivateNamespace) {
    cables();
    for addresses in [v4(), v6()] {
        // Datagrams of 11 fragments. Lost: the fifth fragment of datagram 2, the first of datagram 4, the last of
        // datagram 6.
        let lost = |n: usize| [(2, 4), (4, 0), (6, 10)].contains(&(n / 11, n % 11));
        let source = (1, Model::cbr(rate(3_000_000)), PacketSize::Fixed(15_042), headers(addresses, 5001));
        let config = GeneratorConfig { fragment: true, ..generator(&[source], 400, 1) };
        let (done, begin) = (AtomicBool::new(false), Instant::now());
        let receiver = Receiver::open(ReceiverConfig::new("sink")).unwrap();
        let (sent, received, passed) = std::thread::scope(|scope| {
            let passing = scope.spawn(|| pass("in", "out", &done, lost));
            let receiving = scope.spawn(|| receiver.run(&done, |_| ()).unwrap());
            std::thread::sleep(Duration::from_millis(100));
            let sent = Generator::open(config).unwrap().run(&AtomicBool::new(false), |_| ()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            done.store(true, Ordering::Relaxed);
            (sent, receiving.join().unwrap(), passing.join().unwrap())
        });
        let from = &sent.classes[0];
        println!("{:?}: {from:?}", begin.elapsed());
        assert!(
            from.sent_packets >= 8 && from.fragments == 11 * from.sent_packets,
            "too few datagrams for the three that lose a fragment, or other fragments: {from:?}"
        );
        assert_eq!((passed as u64, received.socket_drops), (from.fragments, 0));
        let (got, datagrams) = (&received.classes[0], received.datagrams.as_ref().unwrap());
        assert_eq!((got.received_packets, got.lost_packets), (from.sent_packets - 3, 3));
        let of = &datagrams.classes[0];
        assert_eq!((of.whole, of.incomplete, datagrams.incomplete_of_unknown_class), (from.sent_packets - 3, 2, 1));
        assert_eq!(datagrams.fragments, from.fragments - 3);
        assert_eq!((datagrams.refused_fragments, of.fragments), (0, from.fragments - 3 - 10));
        assert_eq!(got.received_bytes, from.sent_bytes / from.sent_packets * (from.sent_packets - 3));
    }
}

fn what_cannot_be_fragmented_is_refused(_: &PrivateNamespace) {
    lay_cables(&[("gen", "sink")]).unwrap();
    let open = |headers: Headers, len: u32, fragment| {
        let source = (1, Model::cbr(rate(8_000_000)), PacketSize::Fixed(len), headers);
        Generator::open(GeneratorConfig { fragment, ..generator(&[source], 1, 1) }).map(|_| ())
    };
    let tcp = Headers { transport: Transport::Tcp, ..headers(v4(), 5001) };
    for (headers, len, words) in [
        (tcp, 15_000, "packets of 15000 B; only UDP over IP is sent as fragments"),
        (Headers { bare: Some(0x88b5), ..tcp }, 15_000, "only UDP"),
        (
            headers(v4(), 1),
            65_550,
            "packets of 65550 B; with these headers an IP datagram is 65549 B as one frame at most",
        ),
        (headers(v6(), 1), 65_590, "is 65589 B as one frame at most"),
    ] {
        let error = open(headers, len, true).unwrap_err();
        assert!(matches!(error, GeneratorError::Unfragmentable { index: 0, .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(open(tcp, 1500, true).is_ok());
    let error = open(headers(v4(), 1), 15_000, false).unwrap_err().to_string();
    assert!(error.ends_with("64 to 1514 B; with --fragment longer ones are sent as fragments"), "{error}");
    let error = open(headers(v4(), 1), 63, true).unwrap_err().to_string();
    assert!(error.ends_with("64 to 1514 B"), "{error}");
    ip("link set gen mtu 576").unwrap();
    assert!(open(headers(v4(), 1), 65_549, true).is_ok());
}

/// A capture in nanoseconds.
fn pcap(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let header = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1];
    let mut file: Vec<u8> = header.iter().flat_map(|number| number.to_le_bytes()).collect();
    for (at, frame) in frames {
        let len = frame.len() as u32;
        let numbers = [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, len, len];
        file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        file.extend(frame);
    }
    file
}

/// The generator's stamp of a frame, by `CLOCK_MONOTONIC` in ns, and its UDP port.
fn stamped(frame: &[u8]) -> (u64, u32) {
    let at = u64::from_be_bytes(frame[52..60].try_into().unwrap());
    (at, u32::from(u16::from_be_bytes([frame[36], frame[37]])))
}

/// Offset of `CLOCK_REALTIME` from `CLOCK_MONOTONIC` in ns: from the fastest of several readings of both.
fn realtime_ahead() -> u64 {
    let read = |clock| {
        // SAFETY: a `timespec` is integers, for which all zeros is valid.
        let mut time: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: `time` is writable.
        assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let reading = |_| {
        let before = read(libc::CLOCK_MONOTONIC);
        let realtime = read(libc::CLOCK_REALTIME);
        let after = read(libc::CLOCK_MONOTONIC);
        (after - before, realtime - before)
    };
    (0..100).map(reading).min().unwrap().1
}

fn recordings_say_what_the_receiver_says(_: &PrivateNamespace) {
    cables();
    // Class 1 sends twice the link's rate.
    let sizes = || PacketSize::Uniform { min: 64, max: 1400, header: 0 };
    let sources = [
        (1, Model::poisson(rate(6_000_000)), sizes(), headers(v4(), 5001)),
        (2, Model::poisson(rate(500_000)), sizes(), headers(v4(), 5002)),
    ];
    let config_of = generator(&sources, 800, 1);
    let recorders = ["in", "sink"].map(raw::recorder);
    let done = AtomicBool::new(false);
    let mut both = None;
    let (stats, [before, after]) = std::thread::scope(|scope| {
        let recording = recorders.each_ref().map(|socket| scope.spawn(|| raw::record(socket, &done)));
        let stats = through(config(3_000_000, "drr"), |_| {
            both = Some(run(config_of, ReceiverConfig::new("sink")));
            done.store(true, Ordering::Relaxed);
        });
        (stats, recording.map(|thread| thread.join().unwrap()))
    });
    let (_, received) = both.unwrap();
    let ahead = realtime_ahead();
    let class_of = |seen: Seen<'_>| stamped(seen.bytes).1;
    let mut pairs = std::collections::BTreeMap::new();
    let pair = |before: u64, after: u64| -> Result<(), BetweenError> {
        pairs.insert(before, after);
        Ok(())
    };
    let how = BetweenConfig { offset_ns: 0, within: Nanos::from_secs(10), bytes: None };
    let found = between((&pcap(&before)[..], &pcap(&after)[..]), &how, class_of, pair).unwrap();
    println!("{found:?}");
    assert_eq!((found.total.packets, found.after_packets), (before.len() as u64, after.len() as u64));
    assert_eq!((found.only_after, found.total.doubled, found.total.negative, found.total.equal), (0, 0, 0, 0));
    let caught = received.socket_drops + stats.gateway().unreceived_packets() + stats.counts().queued.packets == 0;
    if caught {
        assert_eq!(found.total.packets, stats.counts().received.packets);
        assert_eq!(found.total.lost, stats.counts().dropped.packets);
    }
    assert!(found.total.lost > 0);
    for (port, passage) in &found.classes {
        let got = received.class(ClassId(port - 5000)).unwrap();
        if !caught {
            continue;
        }
        assert_eq!((passage.found, passage.out_of_order), (got.received_packets, 0));
        // The receiver counts from the stamp on, the recordings from the gateway's interfaces.
        let lags: Vec<f64> = (before.iter())
            .filter(|(at, frame)| stamped(frame).1 == *port && pairs.contains_key(at))
            .map(|(at, frame)| (at - ahead) as f64 / 1e9 - stamped(frame).0 as f64 / 1e9)
            .collect();
        let (mean_lag, longest) =
            (lags.iter().sum::<f64>() / lags.len() as f64, lags.iter().copied().fold(0.0, f64::max));
        let (ours, theirs) = (passage.delay.unwrap(), got.delay_s.unwrap());
        let [mean, p50, p99, max] = [theirs.mean, theirs.p50, theirs.p99, theirs.max].map(Option::unwrap);
        println!("{port}: mean {:.6} + {mean_lag:.6} s, the receiver's {mean:.6} s", ours.mean);
        // Within the accuracy of two clocks of one machine, and of histograms of 0.1 %.
        let near = |one: f64, other: f64| (one - other).abs() < 100e-6 + 0.002 * other;
        assert!(near(ours.mean + mean_lag, mean), "{ours:?} {mean_lag} {theirs:?}");
        let (our_p50, our_p99) = ours.p50_p99.unwrap();
        for (ours, theirs) in [(our_p50, p50), (our_p99, p99), (ours.max, max)] {
            assert!(theirs > ours * 0.998 - 100e-6 && theirs < ours * 1.002 + longest + 100e-6, "{ours} {theirs}");
        }
    }
}
