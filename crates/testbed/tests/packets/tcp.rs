//! The kernel's TCP through the gateway with the default offloads of veths and virtual machines, in private network
//! namespaces. Order, content, checksums and the account are asserted; rates depend on the machine and are printed.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::{Amount, QueueKind, registry};
use fairlink_net::{Gateway, GatewayConfig, GatewayStats, Offload, set_offload};
use fairlink_report::DropCause;
use fairlink_testbed::{
    PrivateNamespace, SHARED_PERCENT, SharedTcpError, SharedTcpStage, USER_DATA, packet_counters, shared_config,
    shared_link,
};

use crate::cables::{backend, cables, over_af_xdp};
use crate::machines::{between, default_offloads};
use crate::{support, variants};

pub(crate) fn main() -> ExitCode {
    let tests: &[support::Test] = &[
        ("tcp_with_default_offloads_arrives_as_it_was_sent_in_both_directions", tcp_arrives_as_it_was_sent),
        ("checksums_that_the_interfaces_finish_are_right_in_every_segment", checksums_that_the_interfaces_finish),
        ("tcp_with_default_offloads_shares_by_guarantees", tcp_shares_by_guarantees),
        ("tcp_through_a_bridge_is_classified_by_the_kernels_htb", tcp_is_classified_by_the_kernels_htb),
    ];
    support::main_also(
        tests,
        variants::over_af_xdp_and_on_two_cores(&[
            "tcp_with_default_offloads_arrives_as_it_was_sent_in_both_directions",
            "checksums_that_the_interfaces_finish_are_right_in_every_segment",
            "tcp_with_default_offloads_shares_by_guarantees",
        ]),
    )
}

/// Bytes that each side sends.
const BYTES: usize = 24 << 20;
const PORT: u16 = 5300;

/// Byte `at` of the stream of side `salt`: no two segments are alike.
fn byte(at: usize, salt: u64) -> u8 {
    let number = ((at >> 3) as u64 ^ salt << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (number >> (8 * (at & 7))) as u8
}

/// Sends all bytes of one side, and meanwhile checks all bytes of the other side.
fn exchange(stream: &TcpStream, own: u64, others: u64) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut stream = stream;
            for start in (0..BYTES).step_by(1 << 16) {
                let chunk: Vec<u8> = (start..start + (1 << 16)).map(|at| byte(at, own)).collect();
                stream.write_all(&chunk).unwrap();
            }
        });
        let mut stream = stream;
        let (mut at, mut bytes) = (0, vec![0; 1 << 16]);
        while at < BYTES {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the other side ended at {at}");
            for (index, &got) in bytes[..count].iter().enumerate() {
                assert_eq!(got, byte(at + index, others), "byte {}", at + index);
            }
            at += count;
        }
    });
}

/// Segments and datagrams that this machine's kernel has received with a wrong checksum.
fn checksum_errors() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut errors = 0;
    for protocol in ["Tcp:", "Udp:"] {
        let mut lines = text.lines().filter(|line| line.starts_with(protocol));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let of = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "InCsumErrors").unwrap();
        errors += of.1.parse::<u64>().unwrap();
    }
    errors
}

/// A gateway with the classes of shared TCP, each with FQ-CoDel.
fn config(ports: [&str; 2], bps: u64) -> GatewayConfig {
    let link = shared_link(bps, QueueKind::FqCoDel).unwrap();
    let config = shared_config(ports, link, registry::find("hls").unwrap());
    GatewayConfig { backend: backend(), ..config }
}

/// Checks the invariants of every run.
fn check(stats: &GatewayStats) {
    assert!(stats.gateway().balanced, "{stats:?}");
    assert_eq!((stats.gateway().super_packets, stats.gateway().unreadable_packets), (0, 0), "{stats:?}");
    if over_af_xdp() {
        // The sender into its veth splits, and leaves the checksums.
        assert!(stats.gateway().split_packets == 0 && stats.gateway().checksums_completed > 1000, "{stats:?}");
        assert!(stats.gateway().interfaces.iter().all(|interface| interface.backend == "af_xdp"), "{stats:?}");
    } else {
        assert!(
            stats.gateway().split_packets > 0 && stats.gateway().segments > 2 * stats.gateway().split_packets,
            "nothing came joined: {stats:?}"
        );
    }
    let causes = stats.counts().dropped_by.unwrap();
    assert!(
        causes
            .iter()
            .all(|(cause, _)| { [DropCause::Congestion, DropCause::QueuePackets, DropCause::Shed].contains(&cause) }),
        "dropped for another cause than a full queue: {causes:?}, {stats}"
    );
    println!(
        "{} super-frames, {} segments, {} checksums passed on, {} dropped, processor {:.2}",
        stats.gateway().split_packets,
        stats.gateway().segments,
        stats.gateway().checksums_passed_on,
        stats.counts().dropped.packets,
        stats.gateway().time.processor
    );
}

/// Sends and checks in both directions, and checks for wrong checksums at both machines.
fn both_ways() {
    let gateway = Gateway::open(config(["in", "out"], 1_000_000_000)).unwrap();
    let ran = between(
        gateway,
        || {
            let to = SocketAddr::from((Ipv4Addr::new(10, 9, 0, 2), PORT));
            let connect = |_| {
                let stream = TcpStream::connect_timeout(&to, Duration::from_secs(2));
                stream.inspect_err(|_| std::thread::sleep(Duration::from_millis(50))).ok()
            };
            exchange(&(0..100).find_map(connect).expect("the other side listens"), 1, 2);
            checksum_errors()
        },
        || {
            let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
            exchange(&listener.accept().unwrap().0, 2, 1);
            checksum_errors()
        },
    );
    let (at_gen, at_sink, stats) = match ran {
        Ok(ran) => ran,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    assert_eq!((at_gen, at_sink), (0, 0), "wrong checksums");
    check(&stats);
    let reverse = stats.gateway().reverse.unwrap();
    let [parts @ .., all] = [reverse.sent, reverse.dropped, reverse.waiting, reverse.received];
    assert_eq!(parts.into_iter().sum::<Amount>(), all);
}

fn tcp_arrives_as_it_was_sent(_: &PrivateNamespace) {
    cables();
    default_offloads(&["gen", "in", "out", "sink"]);
    both_ways();
}

fn checksums_that_the_interfaces_finish(_: &PrivateNamespace) {
    cables();
    default_offloads(&["gen", "in", "out", "sink"]);
    // So they do not leave them to their peers, and the machines verify each.
    for name in ["in", "out"] {
        set_offload(name, Offload::TxChecksum, false).unwrap();
    }
    both_ways();
}

fn tcp_shares_by_guarantees(namespace: &PrivateNamespace) {
    let bps = 100_000_000;
    let stage = SharedTcpStage::new(namespace).unwrap();
    let config = config(SharedTcpStage::PORTS, bps);
    let (shared, stats) = stage.over_gateway(config, 4, Duration::from_secs(4), &AtomicBool::new(false)).unwrap();
    check(&stats);
    for (percent, goodput) in SHARED_PERCENT.iter().zip(shared.goodput_bps) {
        let ideal = bps as f64 / 100.0 * *percent as f64 * USER_DATA;
        println!("{percent} %: {:.2} Mbit/s, {:.1} % of the ideal", goodput / 1e6, 100.0 * goodput / ideal);
    }
    println!("echoes: median {:?}, p99 {:?}, {} lost", shared.echo(50), shared.echo(99), shared.unanswered);
    // Loosely: a larger guarantee gets more.
    assert!(shared.goodput_bps.is_sorted_by(|more, less| more > less), "{:?}", shared.goodput_bps);
}

fn tcp_is_classified_by_the_kernels_htb(namespace: &PrivateNamespace) {
    let stage = SharedTcpStage::new(namespace).unwrap();
    let link = shared_link(100_000_000, QueueKind::Fifo).unwrap();
    let stop = AtomicBool::new(false);
    let span = Duration::from_millis(500);
    let (shared, counts) = match stage.over_bridge(Some(&link), 1, span, &stop) {
        Ok(ran) => ran,
        Err(why @ (SharedTcpError::Bridge(_) | SharedTcpError::Htb(_))) => return println!("SKIPPED: {why}"),
        Err(why) => panic!("{why}"),
    };
    assert!(shared.goodput_bps.iter().all(|&goodput| goodput > 0.0) && !shared.echoes.is_empty(), "{shared:?}");
    // More than the handshake in each class, and no frame of data in the default class of another.
    let sent = |class: &_| counts.iter().find(|count| count.class == *class).unwrap().sent_packets;
    let sent: Vec<u64> = link.leaves().iter().map(sent).collect();
    assert!(sent.iter().all(|&packets| packets > 10), "{sent:?}");
    // The same machines again: HTB and its bridge have gone.
    let (_, counts) = stage.over_bridge(None, 1, span, &stop).unwrap();
    assert!(counts.is_empty());
    let packets = packet_counters(SharedTcpStage::PORTS[1]).unwrap();
    stop.store(true, Ordering::Relaxed);
    stage.over_gateway(config(SharedTcpStage::PORTS, 100_000_000), 1, span, &stop).unwrap();
    assert!(packet_counters(SharedTcpStage::PORTS[1]).unwrap().sent > packets.sent, "the gateway took its place");
}
