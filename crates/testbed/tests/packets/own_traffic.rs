//! A gateway that shares its own host's frames (`--egress`): killed, stopped, ended, replaced, without interfaces, with
//! numbered frames that the host sends and others that it receives. Assertions hold on any machine: no frame is
//! doubled, none is lost by a start, an end or a take-over, received frames are never touched, and nothing is left
//! behind.
//!
//! `FAIRLINK_FAULTS=N` tries each fault N times instead of twice.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use fairlink_core::Nanos;
use fairlink_net::{
    AfPacket, AfPacketOptions, Backend, FramePool, Gateway, GatewayConfig, GatewayStats, Interface, InterfaceError,
    OpenError, interface, remove_cables,
};
use fairlink_testbed::{PrivateNamespace, lay_cables, packet_counters};

use crate::ends::{Ends, Outcome};
use crate::faulty::{Running, dropped, tell_of, times};
use crate::raw::send_raw;
use crate::{cables, faulty, support, variants};

/// Environment variable that makes a process a gateway of these tests, with its mode of starting.
const ROLE: &str = "FAIRLINK_OWN_TRAFFIC";
/// Starts in the place of another.
const TAKES_OVER: &str = "takes over";
const PLAIN: &str = "plain";
/// Sends by the interface's queueing discipline instead of bypassing it.
const BY_THE_QDISC: &str = "by the queueing discipline";

pub(crate) fn main() -> ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        return gateway_process(&role);
    }
    let tests: &[support::Test] = &[
        ("a_host_that_is_killed_goes_on_sending_unshaped", frames_go_on_after_a_kill),
        ("a_gateway_that_is_stopped_lets_frames_go_on_and_doubles_none", frames_go_on_while_it_is_stopped),
        ("nothing_is_lost_doubled_or_left_by_an_end_and_a_start", nothing_is_lost_by_an_end_and_a_start),
        ("nothing_is_lost_or_doubled_by_a_take_over", nothing_is_lost_by_a_take_over),
        ("an_interface_or_a_cable_that_goes_away_is_used_again", interfaces_that_come_back),
        ("tags_and_long_frames_arrive_as_they_were_sent", tags_and_long_frames),
        ("the_same_by_nftables_where_programs_are_not_allowed", the_same_by_nftables),
        ("what_stands_in_the_way_is_told_and_left_alone", what_stands_in_the_way),
    ];
    let also = variants::on_two_cores(&[
        "a_host_that_is_killed_goes_on_sending_unshaped",
        "a_gateway_that_is_stopped_lets_frames_go_on_and_doubles_none",
        "nothing_is_lost_doubled_or_left_by_an_end_and_a_start",
        "nothing_is_lost_or_doubled_by_a_take_over",
        "an_interface_or_a_cable_that_goes_away_is_used_again",
        "tags_and_long_frames_arrive_as_they_were_sent",
    ]);
    support::main_also(tests, vec![also])
}

/// The host's frames for `out` at up to 1 Gbit/s.
fn config() -> GatewayConfig {
    let mut config = cables::config(1_000_000_000, "hls");
    (config.own_traffic, config.reverse) = (true, false);
    config.input = "fl1-out".to_owned();
    config
}

/// Runs a gateway in this process, started by `role`.
fn gateway_process(role: &str) -> ExitCode {
    let mut config = GatewayConfig { take_over: role == TAKES_OVER, wait_for_interfaces: true, ..config() };
    config.sockets.qdisc_bypass = role != BY_THE_QDISC;
    faulty::be_gateway(config)
}

/// Starts a gateway in a new process, and waits until its data thread runs. Returns `None`, with a message, if this
/// system does not allow it.
fn start(role: &str) -> Option<Running> {
    let started = Running::start_by(Command::new(std::env::current_exe().unwrap()).env(ROLE, role));
    started.inspect_err(|why| println!("SKIPPED: {why}")).ok()
}

/// The host's interface, and the other end of its cable.
fn host() {
    lay_cables(&[("out", "sink")]).unwrap();
}

fn exists(name: &str) -> bool {
    !matches!(Interface::open(name), Err(InterfaceError::Missing { .. }))
}

fn tell(fault: &str, outcomes: &[Outcome; 2]) {
    tell_of(["out", "in"], fault, outcomes);
}

/// Asserts that the number of the host's lost frames equals the number that gateways dropped, and that no received
/// frame was lost. Without the right to large socket buffers, as in a user namespace, the ends of these tests lose some
/// on a crowded machine.
fn all_lost_are_told(outcomes: &[Outcome; 2], ended: &[GatewayStats]) {
    let told: u64 = ended.iter().map(dropped).sum();
    match ended.iter().all(|stats| stats.gateway().fail_open.by.as_deref() == Some("bpf")) {
        true => assert_eq!((outcomes[0].lost, outcomes[1].lost), (told, 0), "{outcomes:?} {ended:?}"),
        false => assert!(outcomes[0].lost >= told, "{outcomes:?} {ended:?}"),
    }
}

fn frames_go_on_after_a_kill(_: &PrivateNamespace) {
    host();
    for _ in 0..times() {
        let Some(gateway) = start(PLAIN) else { return };
        let ends = Ends::start(["out", "sink"]);
        ends.wait_for(500);
        gateway.signal(libc::SIGKILL);
        ends.wait_for(1000);
        let mut gateway = gateway;
        gateway.child.wait().unwrap();
        // The next gateway takes over the cable that was left, and removes it.
        assert!(exists("fl0-out") && exists("fl1-out"));
        let gateway = start(PLAIN).unwrap();
        ends.wait_for(500);
        let stats = gateway.end();
        assert!(stats.counts().received.packets > 0);
        let outcomes = ends.stop();
        tell("kill -9", &outcomes);
        if stats.gateway().fail_open.by.as_deref() == Some("bpf") {
            assert_eq!(outcomes[1].lost, 0, "{outcomes:?}");
        }
        assert!(!exists("fl0-out") && !exists("fl1-out"));
    }
    // Without a successor, the cable is removed on request.
    let gateway = start(PLAIN).unwrap();
    assert!(remove_cables(["out"]).unwrap().is_empty(), "it is in use");
    gateway.signal(libc::SIGKILL);
    { gateway }.child.wait().unwrap();
    assert_eq!(remove_cables(["out"]).unwrap(), ["out"]);
    assert!(!exists("fl0-out") && remove_cables(["out", "nowhere"]).unwrap().is_empty());
}

fn frames_go_on_while_it_is_stopped(_: &PrivateNamespace) {
    host();
    for _ in 0..times() {
        let Some(gateway) = start(PLAIN) else { return };
        let ends = Ends::start(["out", "sink"]);
        ends.wait_for(500);
        gateway.signal(libc::SIGSTOP);
        ends.wait_for(1000);
        gateway.signal(libc::SIGCONT);
        ends.wait_for(1000);
        let outcomes = ends.stop();
        let stats = gateway.end();
        tell("SIGSTOP, SIGCONT", &outcomes);
        assert!(
            stats.gateway().liveness.pauses >= 1 && stats.gateway().liveness.longest_pause_s > 0.3,
            "{:?}",
            stats.gateway().liveness
        );
        // Frames accepted before the pause are too old, and are reported. Nothing else is lost.
        all_lost_are_told(&outcomes, &[stats]);
    }
}

/// Asserts that frames were lost only by data threads that were so late that they had to drop. On an idle machine there
/// are none.
fn only_late_ones_lose(what: &str, outcomes: &[Outcome; 2], ended: &[GatewayStats]) {
    tell(what, outcomes);
    all_lost_are_told(outcomes, ended);
    for stats in ended {
        assert!(
            stats.counts().received.packets > 0
                && stats.gateway().fail_open.by.is_some()
                && stats.gateway().reverse.is_none(),
            "{stats:?}"
        );
        assert_eq!(stats.counts().queued.packets, 0, "{stats}");
    }
}

fn nothing_is_lost_by_an_end_and_a_start(_: &PrivateNamespace) {
    host();
    let ends = Ends::start(["out", "sink"]);
    ends.wait_for(100);
    let mut ended = Vec::new();
    for _ in 0..times() {
        let Some(gateway) = start(PLAIN) else { return };
        ends.wait_for(500);
        ended.push(gateway.end());
        assert!(!exists("fl0-out") && !exists("fl1-out"));
        ends.wait_for(500);
    }
    only_late_ones_lose("end, start", &ends.stop(), &ended);
}

fn nothing_is_lost_by_a_take_over(_: &PrivateNamespace) {
    host();
    let Some(mut gateway) = start(PLAIN) else { return };
    let ends = Ends::start(["out", "sink"]);
    let mut ended = Vec::new();
    for _ in 0..times() {
        ends.wait_for(500);
        let next = start(TAKES_OVER).unwrap();
        ended.push(gateway.ended());
        gateway = next;
        assert!(exists("fl0-out"), "the next one reuses the cable");
    }
    ends.wait_for(500);
    ended.push(gateway.end());
    only_late_ones_lose("take-over", &ends.stop(), &ended);
    assert!(ended.iter().all(|stats| stats.gateway().liveness.interface_losses == 0), "{ended:?}");
    assert!(!exists("fl0-out"));
}

fn ip(arguments: &str) -> bool {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    let done = status.is_ok_and(|status| status.success());
    if !done {
        println!("SKIPPED: no ip here (package iproute2), or it refuses: {arguments}");
    }
    done
}

/// Waits until the gateway's cable exists, as it does while the gateway has its interfaces.
fn wait_for_cable() {
    for _ in 0..2000 {
        if exists("fl0-out") && exists("fl1-out") {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no cable");
}

/// Waits until the gateway takes frames out of its cable. One that has just made its cable may still be opening it.
fn wait_until_taken() {
    let through = || packet_counters("fl1-out").map_or(0, |counters| counters.received);
    wait_for_cable();
    let before = through();
    for _ in 0..2000 {
        if through() > before {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no frames pass the cable: {before} before, {} now", through());
}

fn interfaces_that_come_back(_: &PrivateNamespace) {
    host();
    let Some(gateway) = start(PLAIN) else { return };
    // A gateway that has noticed a loss removes its cable.
    let has_noticed = || {
        for _ in 0..2000 {
            if !exists("fl0-out") {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it has not noticed");
    };
    // Nothing is sent, so that only the kernel's event shows that the interface went down.
    interface::set_down("out").unwrap();
    has_noticed();
    interface::set_up("out").unwrap();
    wait_for_cable();
    let ends = Ends::start(["out", "sink"]);
    wait_until_taken();
    ends.wait_for(500);
    let mut losses = 1;
    if ip("link delete out") {
        losses += 1;
        has_noticed();
        host();
        ends.wait_for(500);
        wait_until_taken();
    }
    if ip("link delete fl0-out") {
        losses += 1;
        ends.wait_for(500);
        wait_until_taken();
    }
    ends.wait_for(500);
    let outcomes = ends.stop();
    let stats = gateway.end();
    tell("interface back", &outcomes);
    println!("{:?}", stats.gateway().liveness);
    assert!(stats.gateway().liveness.interface_losses >= losses, "{losses} losses: {:?}", stats.gateway().liveness);
    assert!(!exists("fl0-out"), "the cable is still there");
}

fn tags_and_long_frames(_: &PrivateNamespace) {
    host();
    // Sends by the queueing discipline, so that only the mark keeps the gateway's frames from being redirected again.
    let Some(gateway) = start(BY_THE_QDISC) else { return };
    let mut sink = AfPacket::open(&Interface::open("sink").unwrap(), &AfPacketOptions::default()).unwrap();
    let mut pool = FramePool::new(256, 2000).unwrap();
    let frame = |head: &[u8], length: usize| {
        let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], head].concat();
        let start = frame.len();
        frame.extend((start..length).map(|at| at as u8));
        frame
    };
    let frames = [
        frame(&[0x88, 0xb5], 60),
        frame(&[0x88, 0xb5], 1514),
        // With a VLAN tag, as frames that the host sends by a VLAN on top of its interface.
        frame(&[0x81, 0, 0, 7, 0x88, 0xb5], 64),
        frame(&[0x81, 0, 0, 7, 0x88, 0xb5], 1518),
        // A broadcast, which the host's own stack would receive again out of the cable.
        [vec![0xff; 6], frame(&[0x08, 0x06], 60)[6..].to_vec()].concat(),
    ];
    for frame in &frames {
        send_raw("out", frame);
    }
    let (mut arrivals, until) = (Vec::new(), Instant::now() + Duration::from_secs(30));
    while arrivals.len() < frames.len() {
        assert!(Instant::now() < until, "{} frames have arrived", arrivals.len());
        sink.receive(&mut pool, Nanos::ZERO, 64, &mut arrivals).unwrap();
    }
    for (arrival, frame) in arrivals.iter().zip(&frames) {
        assert_eq!(pool.packet(arrival.frame), frame);
    }
    let stats = gateway.end();
    assert_eq!((stats.counts().received.packets, stats.counts().sent.packets), (5, 5), "{stats}");
    assert_eq!(stats.counts().received.bytes, 60 + 1514 + 64 + 1518 + 60);
}

fn the_same_by_nftables(_: &PrivateNamespace) {
    support::in_user_namespaces(&[
        "a_host_that_is_killed_goes_on_sending_unshaped",
        "a_gateway_that_is_stopped_lets_frames_go_on_and_doubles_none",
        "nothing_is_lost_doubled_or_left_by_an_end_and_a_start",
        "nothing_is_lost_or_doubled_by_a_take_over",
        "an_interface_or_a_cable_that_goes_away_is_used_again",
        "tags_and_long_frames_arrive_as_they_were_sent",
    ]);
}

fn what_stands_in_the_way(_: &PrivateNamespace) {
    host();
    lay_cables(&[("fl0-out", "other")]).unwrap();
    let Err(error) = Gateway::open(config()) else { panic!("it took a foreign interface") };
    assert!(matches!(&error, OpenError::InTheWay { name, of } if name == "fl0-out" && of == "out"), "{error}");
    assert!(error.to_string().contains("ip link delete fl0-out"), "{error}");
    assert!(exists("fl0-out") && exists("other"));
    if !ip("link delete fl0-out") {
        return;
    }
    let gateway = match Gateway::open(config()) {
        Ok(gateway) => gateway,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let Err(error) = Gateway::open(config()) else { panic!("two at once") };
    assert!(matches!(&error, OpenError::OwnTrafficTaken { name, .. } if name == "out"), "{error}");
    assert!(exists("fl0-out"), "the second one has not removed the cable of the first");
    drop(gateway);
    assert!(!exists("fl0-out"));
    let missing = GatewayConfig { output: "nowhere".to_owned(), ..config() };
    assert!(matches!(Gateway::open(missing), Err(OpenError::Interface(InterfaceError::Missing { .. }))));
}
