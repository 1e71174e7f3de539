//! Properties specific to AF_XDP: several receive queues, frames whose VLAN tags a driver delivers beside them, and
//! interfaces, privileges and changes that it does not support. The suites of the gateway test the common properties over both backends.

use std::process::{Command, ExitCode};

use fairlink_core::{ClassId, Cores, Nanos, Split};
use fairlink_net::{
    AfPacket, AfPacketOptions, Backend, BackendChoice, FramePool, FrameTemplate, Gateway, GatewayConfig, Headers,
    Interface, Stamp,
};
use fairlink_testbed::{PrivateNamespace, lay_cables};

use crate::cables::{cables, config};
use crate::machines::ip;
use crate::raw::send_raw;
use crate::through::{through, until};
use crate::{raw, support};

pub(crate) fn main() -> ExitCode {
    support::main(&[
        ("tags_that_come_beside_their_frames_are_put_back_in_both_directions", tags_beside_frames),
        ("all_receive_queues_are_fetched_from_and_no_flow_is_reordered", all_receive_queues),
        ("workers_have_queues_of_their_own_and_no_flow_is_reordered", queues_of_workers),
        ("interfaces_that_are_not_fit_fall_back_with_what_to_do", interfaces_that_are_not_fit),
        ("without_zero_copy_packet_sockets_are_chosen_and_the_reason_is_told", the_automatic_choice),
        ("whoever_has_the_interface_already_keeps_it", whoever_has_the_interface),
        ("frames_of_the_longest_mtu_pass_and_longer_ones_fall_back", frames_of_the_longest_mtu),
        ("without_the_right_to_load_programs_it_falls_back", without_rights),
    ])
}

fn over_af_xdp() -> GatewayConfig {
    GatewayConfig { backend: BackendChoice::AfXdp, ..config(100_000_000, "hls") }
}

/// Returns the reason why the gateway uses packet sockets; `None` if it uses AF_XDP.
fn why_not(gateway: &Gateway) -> Option<String> {
    let is_used = gateway.interfaces().iter().all(|interface| interface.backend == "af_xdp");
    let why = gateway.notes().iter().find(|note| note.starts_with("falls back to AF_PACKET: ")).cloned();
    assert_eq!(is_used, why.is_none(), "{:?}, {:?}", gateway.interfaces(), gateway.notes());
    why
}

/// Returns true, and prints it, if AF_XDP is not available here at all.
fn is_missing() -> bool {
    cables();
    let why = why_not(&Gateway::open(over_af_xdp()).unwrap());
    why.inspect(|why| println!("SKIPPED: {why}")).is_some()
}

fn tags_beside_frames(_: &PrivateNamespace) {
    if is_missing() {
        return;
    }
    // A kernel that forwards a frame has taken its outer tag out on receive, and leaves putting it back to hardware.
    lay_cables(&[("far", "feed")]).unwrap();
    let made = tc("qdisc add dev feed clsact");
    if let Err(why) = made {
        println!("SKIPPED: no forwarding here: {why}");
        return;
    }
    for [end, other] in [["gen", "sink"], ["sink", "gen"]] {
        let filter = "pref 1 protocol all u32 match u32 0 0 action mirred egress redirect dev";
        tc("filter del dev feed ingress").unwrap();
        tc(&format!("filter add dev feed ingress {filter} {end}")).unwrap();
        let mut frame = vec![2; 12];
        frame.extend([0x88, 0xb5]);
        frame.extend(0..100);
        let tagged = |tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
        let frames = [
            frame.clone(),
            tagged(&[0x81, 0, 0, 7]),
            tagged(&[0x81, 0, 0xf0, 1]),
            tagged(&[0x88, 0xa8, 0x60, 8]),
            tagged(&[0x88, 0xa8, 0, 8, 0x81, 0, 0x20, 9]),
        ];
        let mut receiver = AfPacket::open(&Interface::open(other).unwrap(), &AfPacketOptions::default()).unwrap();
        let mut pool = FramePool::new(256, 2000).unwrap();
        let (mut arrivals, mut arrived) = (Vec::new(), Vec::new());
        through(over_af_xdp(), |remote| {
            for from in ["far", end] {
                frames.iter().for_each(|frame| send_raw(from, frame));
            }
            until(remote, |_| {
                receiver.receive(&mut pool, Nanos::ZERO, 64, &mut arrivals).unwrap();
                for arrival in arrivals.drain(..) {
                    // The kernel itself also sends at interfaces that have come up.
                    if pool.packet(arrival.frame).ends_with(&frame[14..]) {
                        arrived.push(pool.packet(arrival.frame).to_vec());
                    }
                }
                arrived.len() >= 2 * frames.len()
            });
        });
        assert!(arrived.iter().eq(frames.iter().chain(&frames)), "{arrived:x?}");
    }
}

/// Runs `tc` in the namespace of this thread.
fn tc(arguments: &str) -> Result<(), String> {
    let output = Command::new("tc").args(arguments.split(' ')).output().map_err(|why| format!("tc: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("tc {arguments}: {said}")) }
}

/// Creates a cable whose ends have this number of queues each way. Returns false, and prints the reason, if that is not
/// possible here.
fn queues((name, other): (&str, &str), count: u32) -> bool {
    let of = format!("numrxqueues {count} numtxqueues {count}");
    let made = ip(&format!("link add {name} {of} type veth peer name {other} {of}"));
    match made.and_then(|()| [name, other].iter().try_for_each(|name| ip(&format!("link set {name} up")))) {
        Ok(()) => true,
        Err(why) => {
            println!("SKIPPED: {why}");
            false
        }
    }
}

/// Frames of many flows, which the sender spreads over four queues, and frames back.
fn all_receive_queues(_: &PrivateNamespace) {
    if is_missing() || !queues(("many", "other"), 4) {
        return;
    }
    no_flow_is_reordered(GatewayConfig { input: "many".to_owned(), ..over_af_xdp() }, ["other", "sink"]);
}

/// Two workers, and a third thread with the scheduler.
fn on_three_cores() -> GatewayConfig {
    let cores = Cores::new(3, Split::Hub);
    GatewayConfig { cores, cores_asked: true, force: true, ..over_af_xdp() }
}

fn queues_of_workers(_: &PrivateNamespace) {
    if is_missing() {
        return;
    }
    // Each interface of `cables` has one queue.
    let why = why_not(&Gateway::open(on_three_cores()).unwrap()).expect("packet sockets");
    assert!(why.contains("in has 1 receive queue, and with AF_XDP each of 2 workers needs its own"), "{why}");
    assert!(why.contains("`ethtool -L in rx 2`, or fewer cores"), "{why}");
    // Three queues each way: the first worker has two.
    if !queues(("many", "other"), 3) || !queues(("more", "rest"), 2) {
        return;
    }
    let between = |input: &str, output: &str| GatewayConfig {
        input: input.to_owned(),
        output: output.to_owned(),
        ..on_three_cores()
    };
    no_flow_is_reordered(between("many", "more"), ["other", "rest"]);
    // One that only sends has a queue for each worker, too.
    let one_way = GatewayConfig { reverse: false, ..between("more", "out") };
    let why = why_not(&Gateway::open(one_way).unwrap()).expect("packet sockets");
    assert!(why.contains("out has 1 transmit queue, and with AF_XDP each of 2 workers needs its own"), "{why}");
    let one_way = GatewayConfig { reverse: false, ..between("many", "more") };
    assert_eq!(why_not(&Gateway::open(one_way).unwrap()), None);
}

/// Frames of many flows from the first of `outer` to the second, and frames back.
fn no_flow_is_reordered(mut config: GatewayConfig, outer: [&str; 2]) {
    const FLOWS: u16 = 16;
    // Together they are fewer than a queue has room for.
    const AT_ONCE: u32 = 5;
    config.matches.clear();
    let listen = |name: &str| AfPacket::open(&Interface::open(name).unwrap(), &AfPacketOptions::default()).unwrap();
    let mut ends = [listen(outer[1]), listen(outer[0])];
    let senders = outer.map(|name| raw::sender(name, false));
    let mut pool = FramePool::new(512, 2000).unwrap();
    // By end and flow: the number of the next frame.
    let mut next = [[0u32; FLOWS as usize]; 2];
    let mut arrivals = Vec::new();
    let stats = through(config, |remote| {
        for number in 0..50 * AT_ONCE {
            for flow in 0..FLOWS {
                let template = FrameTemplate::new(&Headers::udp(6000 + flow));
                let stamp = Stamp { run: 1, class: ClassId(3), sequence: number, monotonic_ns: 0, realtime_us: 0 };
                let mut bytes = vec![0; 100];
                template.write(&mut bytes, &stamp);
                senders.iter().for_each(|sender| raw::send(sender, &bytes).unwrap());
            }
            if (number + 1) % AT_ONCE != 0 {
                continue;
            }
            until(remote, |_| {
                for (end, next) in ends.iter_mut().zip(&mut next) {
                    end.receive(&mut pool, Nanos::ZERO, 64, &mut arrivals).unwrap();
                    for arrival in arrivals.drain(..) {
                        let bytes = pool.packet(arrival.frame);
                        if let Some(Stamp { run: 1, sequence, .. }) = Stamp::read(bytes) {
                            let flow = usize::from(u16::from_be_bytes([bytes[36], bytes[37]]) - 6000);
                            assert_eq!(sequence, next[flow], "flow {flow}");
                            next[flow] += 1;
                        }
                        pool.give_back(arrival.frame);
                    }
                }
                next == [[number + 1; FLOWS as usize]; 2]
            });
        }
    });
    assert_eq!(stats.counts().dropped.packets, 0, "{stats:?}");
    assert!(stats.gateway().interfaces.iter().all(|interface| interface.backend == "af_xdp"), "{stats:?}");
}

fn the_automatic_choice(_: &PrivateNamespace) {
    cables();
    let gateway = Gateway::open(GatewayConfig { backend: BackendChoice::Auto, ..over_af_xdp() }).unwrap();
    assert!(gateway.interfaces().iter().all(|interface| interface.backend == "af_packet"));
    let why = gateway.backend_reason().expect("a reason");
    assert!(why == "the driver \"veth\" of in offers no zero-copy" || why.contains("does not tell"), "{why}");
    drop(gateway);
    let gateway = Gateway::open(GatewayConfig { backend: BackendChoice::AfPacket, ..over_af_xdp() }).unwrap();
    assert_eq!(gateway.backend_reason(), None);
}

fn interfaces_that_are_not_fit(_: &PrivateNamespace) {
    if is_missing() {
        return;
    }
    if !queues(("many", "other"), 17) {
        return;
    }
    let open = |input: &str, output: &str| {
        let config = GatewayConfig { input: input.to_owned(), output: output.to_owned(), ..over_af_xdp() };
        why_not(&Gateway::open(config).unwrap()).unwrap_or_else(|| panic!("{input} to {output} was fit"))
    };
    for (input, output) in [("many", "out"), ("in", "many")] {
        let why = open(input, output);
        assert!(why.contains("many has 17 receive queues") && why.contains("`ethtool -L many rx 16`"), "{why}");
    }
    if std::path::Path::new("/dev/net/tun").exists() {
        let _tap = raw::tap("tap");
        let why = open("tap", "out");
        assert!(why.contains("tap is a tap"), "{why}");
    }
    // A driver without native XDP.
    match ip("link add dull type bridge").and_then(|()| ip("link set dull up")) {
        Ok(()) => {
            let why = open("in", "dull");
            assert!(why.contains("dull"), "{why}");
        }
        Err(why) => println!("SKIPPED: {why}"),
    }
}

fn whoever_has_the_interface(_: &PrivateNamespace) {
    if is_missing() {
        return;
    }
    let one_way = |input: &str, output: &str| GatewayConfig {
        input: input.to_owned(),
        output: output.to_owned(),
        reverse: false,
        ..over_af_xdp()
    };
    // One socket has the queue of an interface, even if it only sends.
    let first = Gateway::open(one_way("in", "out")).unwrap();
    assert_eq!(why_not(&first), None);
    let second = Gateway::open(one_way("out", "in")).unwrap();
    let why = why_not(&second).expect("the other direction");
    assert!(why.contains("another AF_XDP socket has this interface"), "{why}");
    drop((first, second));
    assert_eq!(why_not(&Gateway::open(one_way("out", "in")).unwrap()), None, "it is free again");
    // Only one program can be attached, even if a second gateway is forced.
    let both = || GatewayConfig { force: true, ..over_af_xdp() };
    let first = Gateway::open(both()).unwrap();
    assert_eq!(why_not(&first), None);
    let why = why_not(&Gateway::open(both()).unwrap()).expect("a second one");
    assert!(why.contains("`ip link set dev in xdp off`"), "{why}");
}

fn frames_of_the_longest_mtu(_: &PrivateNamespace) {
    if is_missing() {
        return;
    }
    let all = ["gen", "in", "out", "sink"];
    let set_mtu = |mtu: u32| all.iter().try_for_each(|name| ip(&format!("link set {name} mtu {mtu}")));
    if let Err(why) = set_mtu(3498) {
        println!("SKIPPED: {why}");
        return;
    }
    let mut far = AfPacket::open(&Interface::open("sink").unwrap(), &AfPacketOptions::default()).unwrap();
    let mut pool = FramePool::new(256, 4096).unwrap();
    let mut frame = vec![2; 12];
    frame.extend([0x88, 0xb5]);
    frame.extend((0..3498).map(|n| (n * 7) as u8));
    let mut arrivals = Vec::new();
    let stats = through(over_af_xdp(), |remote| {
        send_raw("gen", &frame);
        until(remote, |_| {
            far.receive(&mut pool, Nanos::ZERO, 64, &mut arrivals).unwrap();
            arrivals.iter().any(|arrival| pool.packet(arrival.frame) == frame)
        });
    });
    assert_eq!((stats.gateway().memory.frame_bytes, stats.counts().dropped.packets), (4096, 0), "{stats:?}");
    set_mtu(9000).unwrap();
    let why = why_not(&Gateway::open(over_af_xdp()).unwrap()).expect("frames across pages");
    assert!(
        why.contains("in: a frame of AF_XDP lies within one page, which limits the mtu to 3818, but it is 9000"),
        "{why}"
    );
    assert!(why.contains("`ip link set in mtu 3818`"), "{why}");
}

fn without_rights(_: &PrivateNamespace) {
    // The root of a new user namespace, with all rights over its networks and none over the kernel.
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net"])
        .arg(std::env::current_exe().unwrap())
        .env("FAIRLINK_NAMESPACE_TEST", "interfaces_that_are_not_fit_fall_back_with_what_to_do")
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let right = said.contains("falls back to AF_PACKET") && said.contains("CAP_BPF");
            assert!(right || said.contains("SKIPPED: interfaces"), "{said}");
        }
        Err(why) => println!("SKIPPED: no user namespace here: {why}"),
    }
}
