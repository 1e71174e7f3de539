//! The gateway against hostile frames, neighbours and interfaces, with real packets in a private network namespace.
//! Assertions hold on any machine: the gateway continues, and lost frames are counted.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::{ClassId, Cores, Nanos};
use fairlink_net::{
    AfPacket, AfPacketOptions, Backend, BackendChoice, FailOpen, FramePool, FrameTemplate, Gateway, GatewayConfig,
    GatewayStats, Headers, Interface, OffloadPolicy, OpenError, Stamp, interface,
};
use fairlink_report::DropCause;
use fairlink_testbed::{Generator, GeneratorConfig, PrivateNamespace};
use fairlink_traffic::{Model, PacketSize};

use crate::cables::{cables, config, cores, generator, over_af_xdp, parse, rate};
use crate::raw::{send_raw, tap};
use crate::through::{SetAtEnd, through, until};
use crate::{raw, support, variants};

// Of linux/sockios.h; libc does not have them.
const SIOCBRADDBR: libc::c_ulong = 0x89a0;
const SIOCBRADDIF: libc::c_ulong = 0x89a2;

pub(crate) fn main() -> ExitCode {
    let tests: &[support::Test] = &[
        ("a_frame_that_an_interface_never_takes_stops_no_other_in_either_direction", frames_never_taken),
        ("a_frame_that_the_kernel_cannot_describe_is_counted_and_the_next_ones_pass", frames_that_cannot_be_described),
        ("a_full_packet_in_one_or_two_vlan_tags_of_any_kind_passes", full_packets_in_vlan_tags),
        ("ports_that_would_double_frames_or_send_them_round_are_refused", ports_that_would_double_frames),
        ("an_output_without_carrier_is_waited_for_asleep", an_output_without_carrier_is_waited_for_asleep),
        ("the_kernel_drops_a_flood_by_class_and_nothing_of_a_class_within_its_share", a_flood),
    ];
    support::main_also(
        tests,
        variants::over_af_xdp_and_on_two_cores(&[
            "a_frame_that_an_interface_never_takes_stops_no_other_in_either_direction",
            "a_full_packet_in_one_or_two_vlan_tags_of_any_kind_passes",
            "ports_that_would_double_frames_or_send_them_round_are_refused",
            "an_output_without_carrier_is_waited_for_asleep",
            "the_kernel_drops_a_flood_by_class_and_nothing_of_a_class_within_its_share",
        ]),
    )
}

/// Frames that the kernel has dropped before they were copied.
fn early_drops(stats: &GatewayStats) -> u64 {
    stats.counts().dropped_for(DropCause::ShedEarly).packets + stats.gateway().shed_unknown_packets
}

/// A class within its share beside a flood, from one source and from random ones, where the gateway fails open and where it
/// does not, and for the frames of its own host. The ring of packet sockets is short, so that the flood fills it.
fn a_flood(_: &PrivateNamespace) {
    cables();
    let cases = [
        (FailOpen::Never, false, "gen"),
        (FailOpen::Never, true, "gen"),
        (FailOpen::Auto, false, "gen"),
        (FailOpen::Auto, false, "out"),
    ];
    for (fail_open, random, from) in cases {
        let mut config = GatewayConfig { fail_open, ..config(10_000_000, "hls") };
        if from == "out" {
            config.backend = BackendChoice::AfPacket;
            (config.own_traffic, config.reverse, config.input) = (true, false, "fl1-out".to_owned());
            if over_af_xdp() || cores() != Cores::ONE {
                continue;
            }
        }
        config.sockets.receive_buffer = 512 << 10;
        let gateway = Gateway::open(config.clone()).unwrap();
        if let Some(why) = gateway.notes().iter().find(|note| note.contains("all classes alike")) {
            println!("SKIPPED: {why}");
            return;
        }
        drop(gateway);
        let frame = |port, len: usize, sequence| {
            let mut bytes = vec![0; len];
            let stamp = Stamp { run: 0, class: ClassId(1), sequence, monotonic_ns: 0, realtime_us: 0 };
            FrameTemplate::new(&Headers::udp(port)).write(&mut bytes, &stamp);
            bytes
        };
        let (calm, flood) = (raw::sender(from, false), raw::sender(from, false));
        let sink = raw::listener_of("sink", 64);
        let (mut arrived, mut seen) = (0, 0);
        let over = AtomicBool::new(false);
        let mut sent = 0u32;
        let stats = through(config, |remote| {
            let received = |stats: &GatewayStats| stats.classes[0].counts().received.packets;
            let mut send = |count: u32| {
                for _ in 0..count {
                    // While the flood fills the cable's own ring, the cable refuses a frame of anybody: that one is not sent.
                    while let Err(error) = raw::send(&calm, &frame(5001, 200, sent)) {
                        assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS), "{error}");
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    sent += 1;
                    std::thread::sleep(Duration::from_millis(2));
                }
            };
            // A flow is known after two packets. A gateway that fails open leaves the first ones to the kernel.
            let mut before = 0;
            until(remote, |stats| {
                send(1);
                before = received(stats);
                before >= 4
            });
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut packet = [0; 64];
                    while !over.load(Ordering::Relaxed) {
                        arrived += u64::from(raw::receive(&sink, &mut packet, Duration::from_millis(20)));
                    }
                });
                scope.spawn(|| {
                    let mut bytes = frame(5003, 64, 0);
                    for n in 0u32.. {
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        if random {
                            bytes[26..30].copy_from_slice(&n.wrapping_mul(2_654_435_761).to_be_bytes());
                        }
                        let _ = raw::send(&flood, &bytes);
                    }
                });
                // A failure ends the other threads, too.
                let _over = SetAtEnd([&over]);
                send(300);
            });
            // All of the calm class are fetched and sent, those behind the rest of the flood as well.
            until(remote, |stats| received(stats) >= before + 300 && stats.counts().queued.packets == 0);
            seen = early_drops(&remote.stats(Duration::from_secs(10)).unwrap());
        });
        let of = |name: &str| stats.classes.iter().find(|class| class.name == name).unwrap().counts();
        let early = of("c").dropped_for(DropCause::ShedEarly).packets;
        println!(
            "{fail_open:?}, random sources: {random}, from {from}: {} of {sent} of the calm class arrived; {} of the flood were fetched, {early} dropped by class, {} as unknown, {} by chance",
            of("a").received.packets,
            of("c").received.packets - early,
            stats.gateway().shed_unknown_packets,
            stats.gateway().kernel_dropped_packets,
        );
        // Those that arrived before a pause of the data thread, on a crowded machine, are too old.
        assert_eq!(of("a").dropped.packets, of("a").dropped_for(DropCause::Stale).packets, "{stats}");
        assert_eq!(seen, early_drops(&stats), "a running gateway tells of all early drops");
        // What is dropped early does not pass by the kernel either.
        assert!(arrived > 0 && arrived <= of("c").sent.packets, "{arrived}: {stats}");
        let dropped = if random { stats.gateway().shed_unknown_packets } else { early };
        // A gateway that fetches as fast as the flood arrives sheds nothing.
        let shed = of("c").dropped_for(DropCause::Shed).packets;
        assert!(dropped > 0 || shed < 1000, "{stats}");
        if dropped == 0 {
            println!("SKIPPED: the gateway keeps up with this flood");
        }
        assert!(of("c").sent.packets > 100, "the flood has the rest of the link");
    }
}

/// Sends frames of these lengths, at a few hundred per second each, to UDP ports 5001 and 5002.
fn send(from: &str, lengths: &[u32], millis: u64) {
    let source = |(class, &len): (u32, &u32)| {
        let model = Model::cbr(rate(u64::from(len) * 8 * 300));
        (class, model, PacketSize::Fixed(len), Headers::udp(5000 + class as u16))
    };
    let sources: Vec<_> = (1..).zip(lengths).map(source).collect();
    let config = GeneratorConfig { interface: from.to_owned(), ..generator(&sources, millis, 1) };
    Generator::open(config).unwrap().run(&AtomicBool::new(false), |_| ()).unwrap();
}

fn request(name: &str, request: libc::c_ulong, fill: impl FnOnce(&mut libc::ifreq)) {
    // SAFETY: an `ifreq` is integers, for which all zeros is valid; the socket is closed below.
    let (socket, mut message): (i32, libc::ifreq) =
        unsafe { (libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0), std::mem::zeroed()) };
    for (to, from) in message.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    fill(&mut message);
    // SAFETY: `message` is a valid `ifreq` for the call.
    let result = unsafe { libc::ioctl(socket, request as _, &mut message) };
    let error = io::Error::last_os_error();
    // SAFETY: opened above, and used nowhere else.
    unsafe { libc::close(socket) };
    assert_eq!(result, 0, "{name}: {error}");
}

fn set_mtu(name: &str, mtu: i32) {
    request(name, libc::SIOCSIFMTU, |message| message.ifr_ifru.ifru_mtu = mtu);
}

fn frames_never_taken(_: &PrivateNamespace) {
    cables();
    set_mtu("sink", 1400);
    let stats = through(config(20_000_000, "hls"), |remote| {
        send("gen", &[1514, 200], 400);
        until(remote, |stats| stats.counts().queued.packets == 0);
    });
    let (long, short) = (&stats.classes[0], &stats.classes[1]);
    assert!(long.counts().received.packets > 0 && short.counts().received.packets > 0, "{stats:?}");
    assert_eq!(long.counts().dropped_for(DropCause::RefusedByInterface), long.counts().received);
    // Workers drop what comes too fast while the data thread makes no turn.
    let late = [DropCause::Shed, DropCause::Stale].map(|cause| short.counts().dropped_for(cause).packets);
    let gone = short.counts().sent.packets + late[0] + late[1];
    assert_eq!(gone, short.counts().received.packets, "short frames sent, or dropped as late {late:?}: {stats}");
    assert!(short.counts().sent.packets > 0, "no short frame was sent: {stats}");
    assert!(stats.to_string().contains("out permanently refused"), "{stats}");
    set_mtu("sink", 1500);
    set_mtu("gen", 1400);
    let stats = through(config(20_000_000, "hls"), |remote| {
        send("sink", &[1514, 200], 400);
        until(remote, |stats| stats.gateway().reverse.unwrap().waiting.packets == 0);
    });
    let reverse = stats.gateway().reverse.unwrap();
    assert!(reverse.refused.packets > 0 && reverse.sent.packets > 0, "{reverse:?}");
    assert_eq!((reverse.dropped, reverse.received), (reverse.refused, reverse.refused + reverse.sent));
    // Equal numbers of both were offered, and no short one was lost.
    assert!(reverse.sent.packets + 1 >= reverse.refused.packets, "{reverse:?}");
    assert!(stats.to_string().contains("in permanently refused"), "{stats}");
}

/// A UDP datagram of `payload` bytes in one frame, as 10.0.0.1 sends it to port 5001 of 10.0.0.2.
fn datagram(payload: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.udp(5001, 5001).write(&mut frame, &vec![7; payload]).unwrap();
    frame
}

fn frames_that_cannot_be_described(_: &PrivateNamespace) {
    if !std::path::Path::new("/dev/net/tun").exists() {
        println!("SKIPPED: no /dev/net/tun");
        return;
    }
    cables();
    let mut tap = tap("tap");
    // `struct virtio_net_hdr`: a checksum to be finished, joined by UDP fragmentation offload, pieces of 1400 B.
    let mut fragmented = vec![1, 3];
    for number in [42u16, 1400, 34, 6] {
        fragmented.extend(number.to_ne_bytes());
    }
    fragmented.extend(datagram(4000));
    let plain = [vec![0; 10], datagram(500)].concat();
    for (input, output) in [("tap", "out"), ("in", "tap")] {
        let mut config = config(20_000_000, "hls");
        (config.input, config.output) = (input.to_owned(), output.to_owned());
        config.offloads = OffloadPolicy::Ignore;
        let (mut lost, mut came) = (0, 0);
        let passed = |stats: &GatewayStats| stats.counts().sent.packets + stats.gateway().reverse.unwrap().sent.packets;
        let stats = through(config, |remote| {
            // The first may stop the ring, which the gateway finds out in a moment.
            tap.write_all(&fragmented).unwrap();
            until(remote, |stats| {
                tap.write_all(&plain).unwrap();
                passed(stats) > 0
            });
            let mut before = 0;
            until(remote, |stats| passed(stats) == std::mem::replace(&mut before, passed(stats)));
            lost = remote.stats(Duration::from_secs(10)).unwrap().gateway().kernel_dropped_packets;
            came = before;
            for _ in 0..3 {
                for frame in [&plain, &fragmented, &fragmented, &plain] {
                    tap.write_all(frame).unwrap();
                }
            }
            until(remote, |stats| passed(stats) >= came + 6);
        });
        if lost + stats.gateway().unreadable_packets + stats.gateway().super_packets == 0 {
            println!("SKIPPED: this kernel splits such frames itself");
            return;
        }
        // None of the first ones was lost without being counted, and none of the later ones at all.
        assert!(stats.gateway().unreadable_packets >= 6, "{stats:?}");
        assert_eq!(stats.gateway().kernel_dropped_packets, lost, "{stats:?}");
        assert!(stats.to_string().contains("ufo off"), "{stats}");
        assert_eq!((passed(&stats), stats.counts().dropped.packets), (came + 6, 0));
    }
}

fn full_packets_in_vlan_tags(_: &PrivateNamespace) {
    cables();
    let mut sink = AfPacket::open(&Interface::open("sink").unwrap(), &AfPacketOptions::default()).unwrap();
    let mut pool = FramePool::new(128, 2000).unwrap();
    // The other ends carry longer frames, so that only the gateway's own interfaces, with 1500, limit.
    for name in ["gen", "sink"] {
        set_mtu(name, 1508);
    }
    let tagged = |tags: &[u16], len: usize| {
        let mut frame = vec![2; 12];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 7]);
        }
        frame.extend([8, 0]);
        let mut next = 0u8;
        frame.resize_with(frame.len() + len, || {
            next = next.wrapping_add(1);
            next
        });
        frame
    };
    // A full packet with two tags exceeds the receive limit of a veth of 1500, for any sender; so the input has 1508
    // then.
    for (input_mtu, frames) in [
        (1500, vec![tagged(&[0x8100], 1500), tagged(&[0x88a8], 1500), tagged(&[0x88a8, 0x8100], 1496)]),
        (1508, vec![tagged(&[0x88a8, 0x8100], 1500), tagged(&[0x8100, 0x8100], 1500), tagged(&[], 1500)]),
    ] {
        set_mtu("in", input_mtu);
        let stats = through(config(20_000_000, "hls"), |remote| {
            frames.iter().for_each(|frame| send_raw("gen", frame));
            until(remote, |stats| stats.counts().received.packets == 3 && stats.counts().queued.packets == 0);
        });
        assert_eq!((stats.counts().sent.packets, stats.counts().dropped.packets), (3, 0), "{stats:?}");
        let mut arrivals = Vec::new();
        while arrivals.len() < 3 {
            sink.receive(&mut pool, Nanos::ZERO, 64, &mut arrivals).unwrap();
        }
        for (arrival, frame) in arrivals.iter().zip(&frames) {
            assert_eq!(pool.packet(arrival.frame), frame);
        }
    }
    // Longer than with two tags: refused by length, as before.
    set_mtu("gen", 1600);
    let stats = through(config(20_000_000, "hls"), |remote| {
        send_raw("gen", &tagged(&[0x88a8, 0x8100], 1501));
        until(remote, |stats| stats.counts().received.packets == 1 && stats.counts().queued.packets == 0);
    });
    assert_eq!(stats.classes[2].counts().dropped_for(DropCause::TooLong).packets, 1, "{stats:?}");
}

fn ports_that_would_double_frames(_: &PrivateNamespace) {
    cables();
    let config = |input: &str, output: &str| {
        let mut config = config(20_000_000, "hls");
        (config.input, config.output) = (input.to_owned(), output.to_owned());
        config
    };
    let refused = |config: GatewayConfig| {
        let forced = Gateway::open(GatewayConfig { force: true, ..config.clone() }).unwrap();
        let error = Gateway::open(config).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        assert!(forced.notes().iter().any(|note| note.contains("--force")), "{:?}", forced.notes());
        error
    };
    // Both ends of one cable, in either direction.
    assert!(matches!(refused(config("gen", "in")), OpenError::SameCable { .. }));
    assert!(matches!(refused(config("out", "sink")), OpenError::SameCable { .. }));

    // A second one on the same ports, or on one of them, in either direction, as long as the first one lives.
    let first = Gateway::open(config("in", "out")).unwrap();
    for (input, output) in [("in", "out"), ("out", "in")] {
        let error = refused(config(input, output));
        assert!(matches!(&error, OpenError::Taken { name, .. } if name == input), "{error}");
    }
    drop(first);
    // One gateway for each direction doubles nothing.
    let one_way = |input, output| GatewayConfig { reverse: false, ..config(input, output) };
    let forth = Gateway::open(one_way("in", "out")).unwrap();
    let back = Gateway::open(one_way("out", "in")).unwrap();
    assert!(matches!(Gateway::open(one_way("out", "in")), Err(OpenError::Taken { .. })));
    drop((forth, back));

    request("out", libc::SIOCSIFADDR, |message| {
        let mut address = [0; 14];
        address[2..6].copy_from_slice(&[10, 9, 8, 7].map(|byte: u8| byte as libc::c_char));
        message.ifr_ifru.ifru_addr = libc::sockaddr { sa_family: libc::AF_INET as u16, sa_data: address };
    });
    let error = refused(config("in", "out"));
    assert!(error.to_string().contains("out has the address 10.9.8.7"), "{error}");
    // The kernel would answer for it at a port without an address, too.
    let other = Gateway::open(config("in", "sink")).unwrap();
    let answers = |gateway: &Gateway| gateway.notes().iter().filter(|note| note.contains("arp_ignore")).count();
    assert_eq!(answers(&other), 2, "{:?}", other.notes());
    drop(other);
    std::fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1").unwrap();
    assert_eq!(answers(&Gateway::open(config("in", "sink")).unwrap()), 0);

    // SAFETY: no pointers but to a name that ends with a zero; the socket is closed at once.
    let bridged = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let made = libc::ioctl(socket, SIOCBRADDBR as _, c"bridge".as_ptr());
        libc::close(socket);
        made
    };
    if bridged != 0 {
        println!("SKIPPED: no bridges: {}", io::Error::last_os_error());
        return;
    }
    let index = Interface::open("in").unwrap().index;
    request("bridge", SIOCBRADDIF, |message| message.ifr_ifru.ifru_ifindex = index);
    let error = refused(config("in", "sink"));
    assert!(matches!(&error, OpenError::Bridged { name, master } if name == "in" && master == "bridge"), "{error}");
}

fn an_output_without_carrier_is_waited_for_asleep(_: &PrivateNamespace) {
    cables();
    let mut config = config(20_000_000, "hls");
    config.matches.push((ClassId(3), parse("udp")));
    interface::set_down("sink").unwrap();
    let stats = through(config, |remote| {
        send("gen", &[1000, 1000], 1000);
        let stats = remote.stats(Duration::from_secs(10)).unwrap();
        assert_eq!(stats.gateway().waiting_for_carrier, ["out"]);
        assert!(stats.to_string().contains("out has no carrier"), "{stats}");
        assert_eq!((stats.counts().sent.packets, stats.counts().queued.packets > 0), (0, true), "{stats:?}");
        println!("{:?}", stats.gateway().time);
        // Its report of its time agrees with the kernel's. On a crowded machine it gets less of a processor, never
        // more.
        assert!(
            stats.gateway().time.processor < 0.5 && stats.gateway().time.idle + stats.gateway().time.processor < 1.1,
            "{:?}",
            stats.gateway().time
        );
        let sum = stats.gateway().time.idle
            + stats.gateway().time.spinning
            + stats.gateway().time.receive
            + stats.gateway().time.classify;
        let sum = sum + stats.gateway().time.scheduler + stats.gateway().time.send + stats.gateway().time.reverse;
        assert!((sum - 1.0).abs() < 1e-6, "{:?}", stats.gateway().time);
        interface::set_up("sink").unwrap();
        until(remote, |stats| stats.counts().queued.packets == 0 && stats.gateway().waiting_for_carrier.is_empty());
    });
    assert!(stats.counts().sent.packets > 0 && stats.counts().dropped.packets > 0, "{stats:?}");
    assert_eq!(stats.counts().received.packets, stats.counts().sent.packets + stats.counts().dropped.packets);
    assert!(stats.classes.iter().all(|class| class.counts().dropped_for(DropCause::RefusedByInterface).packets == 0));
}
