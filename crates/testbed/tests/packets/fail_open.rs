//! A gateway that is killed, stopped, stalled, ended, replaced, or loses an interface, with numbered frames both ways.
//! Assertions hold on any machine: no frame is doubled, none is lost by a start, an end or a take-over, and frames pass
//! while it does not run. The time without frames is printed.
//!
//! `FAIRLINK_FAULTS=N` tries each fault N times instead of twice.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use fairlink_core::{Cores, Nanos};
use fairlink_net::{GatewayStats, Interface, OpenError, close_wires, interface};
use fairlink_testbed::{PrivateNamespace, lay_cables};

use crate::cables::cables;
use crate::ends::{Ends, Outcome};
use crate::faulty::{Running, dropped, tell, times};
use crate::{cables, faulty, support, variants};

pub(crate) fn main() -> ExitCode {
    if let Some(code) = faulty::as_gateway() {
        return code;
    }
    let tests: &[support::Test] = &[
        ("frames_pass_after_a_kill", frames_pass_after_a_kill),
        ("frames_pass_while_the_process_is_stopped_and_none_is_doubled", frames_pass_while_it_is_stopped),
        ("frames_pass_while_the_data_thread_stalls_and_none_is_doubled", frames_pass_while_the_data_thread_stalls),
        ("nothing_is_lost_or_doubled_by_an_end_and_a_start", nothing_is_lost_by_an_end_and_a_start),
        ("nothing_is_lost_or_doubled_by_a_take_over", nothing_is_lost_by_a_take_over),
        ("nothing_is_lost_or_doubled_by_a_take_over_with_another_backend", nothing_is_lost_by_a_change_of_the_backend),
        ("an_interface_that_is_deleted_and_comes_back_is_used_again", an_interface_that_comes_back),
        ("a_carrier_that_flaps_and_another_mtu_end_nothing", a_carrier_that_flaps),
        ("the_same_by_nftables_where_programs_are_not_allowed", the_same_by_nftables),
        ("what_a_gateway_leaves_is_taken_away_by_one_that_does_not_fail_open", what_is_left_is_taken_away),
    ];
    let mut also = variants::over_af_xdp_and_on_two_cores(&[
        "frames_pass_after_a_kill",
        "frames_pass_while_the_process_is_stopped_and_none_is_doubled",
        "frames_pass_while_the_data_thread_stalls_and_none_is_doubled",
        "nothing_is_lost_or_doubled_by_an_end_and_a_start",
        "nothing_is_lost_or_doubled_by_a_take_over",
        "an_interface_that_is_deleted_and_comes_back_is_used_again",
        "a_carrier_that_flaps_and_another_mtu_end_nothing",
        "what_a_gateway_leaves_is_taken_away_by_one_that_does_not_fail_open",
    ]);
    also.push(variants::over_af_xdp_on_two_cores(&[
        "frames_pass_after_a_kill",
        "frames_pass_while_the_process_is_stopped_and_none_is_doubled",
        "nothing_is_lost_or_doubled_by_a_take_over",
        "an_interface_that_is_deleted_and_comes_back_is_used_again",
    ]));
    support::main_also(tests, also)
}

fn frames_pass_after_a_kill(_: &PrivateNamespace) {
    cables();
    for _ in 0..times() {
        let Some(gateway) = Running::start("require") else { return };
        let ends = Ends::start(["gen", "sink"]);
        ends.wait_for(500);
        gateway.signal(libc::SIGKILL);
        ends.wait_for(1000);
        let mut gateway = gateway;
        gateway.child.wait().unwrap();
        // Its remains do not disturb the next one.
        let gateway = Running::start("require").unwrap();
        ends.wait_for(500);
        let stats = gateway.end();
        assert!(stats.counts().received.packets > 0);
        tell("kill -9", &ends.stop());
    }
}

fn frames_pass_while_it_is_stopped(_: &PrivateNamespace) {
    cables();
    for _ in 0..times() {
        let Some(gateway) = Running::start("require") else { return };
        let ends = Ends::start(["gen", "sink"]);
        ends.wait_for(500);
        gateway.signal(libc::SIGSTOP);
        let before = ends.arrived();
        ends.wait_for(1000);
        assert!(ends.arrived().iter().zip(before).all(|(now, before)| now - before >= 1000));
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
        what_was_taken_is_dropped(&outcomes, &stats);
    }
}

/// After a pause, frames accepted before are dropped and reported. Nothing else is lost, and at most one batch in each
/// direction arrives late.
fn what_was_taken_is_dropped(outcomes: &[Outcome; 2], stats: &GatewayStats) {
    let lost: u64 = outcomes.iter().map(|outcome| outcome.lost).sum();
    match stats.gateway().fail_open.by.as_deref() {
        Some("bpf") => assert_eq!(lost, dropped(stats), "{stats}"),
        // Frames that the kernel passed at the edges are among those dropped.
        _ => assert!(lost > 0 && dropped(stats) > 0, "{stats}"),
    }
    for outcome in outcomes {
        assert!(outcome.out_of_order <= 2 * 64, "{outcome:?}");
    }
}

fn frames_pass_while_the_data_thread_stalls(_: &PrivateNamespace) {
    cables();
    for _ in 0..times() {
        let Some(gateway) = Running::start("require") else { return };
        let ends = Ends::start(["gen", "sink"]);
        ends.wait_for(500);
        // A debugger stops one thread of a process.
        let thread = gateway.thread;
        // SAFETY: takes no pointers that are dereferenced.
        unsafe {
            let none = std::ptr::null_mut::<libc::c_void>();
            assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, thread, none, none), 0, "{}", std::io::Error::last_os_error());
            assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, thread, none, none), 0);
            assert_eq!(libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL), thread);
        }
        // A worker forwards before the kernel does.
        ends.wait_for(if cables::cores() == Cores::ONE { 1000 } else { 3000 });
        // SAFETY: as above.
        unsafe {
            let none = std::ptr::null_mut::<libc::c_void>();
            assert_eq!(libc::ptrace(libc::PTRACE_DETACH, thread, none, none), 0);
        }
        ends.wait_for(1000);
        let outcomes = ends.stop();
        let stats = gateway.end();
        tell("stalled data thread", &outcomes);
        assert!(stats.gateway().liveness.pauses >= 1, "{:?}", stats.gateway().liveness);
        what_was_taken_is_dropped(&outcomes, &stats);
    }
}

fn nothing_is_lost_by_an_end_and_a_start(_: &PrivateNamespace) {
    cables();
    // The first start creates the kernel's own path; before it nothing passes.
    let Some(gateway) = Running::start("require") else { return };
    let ends = Ends::start(["gen", "sink"]);
    ends.wait_for(100);
    let mut ended = vec![gateway.end()];
    for _ in 0..times() {
        ends.wait_for(500);
        let gateway = Running::start("require").unwrap();
        ends.wait_for(500);
        ended.push(gateway.end());
    }
    ends.wait_for(100);
    only_late_ones_lose("end, start", &ends.stop(), &ended);
}

fn nothing_is_lost_by_a_take_over(_: &PrivateNamespace) {
    cables();
    let Some(mut gateway) = Running::start("require") else { return };
    let ends = Ends::start(["gen", "sink"]);
    let mut ended = Vec::new();
    for _ in 0..times() {
        ends.wait_for(500);
        let next = Running::start("require+").unwrap();
        ended.push(gateway.ended());
        gateway = next;
    }
    ends.wait_for(500);
    ended.push(gateway.end());
    only_late_ones_lose("take-over", &ends.stop(), &ended);
}

fn nothing_is_lost_by_a_change_of_the_backend(namespace: &PrivateNamespace) {
    if let Some(why) = cables::why_no_af_xdp(namespace) {
        println!("SKIPPED: {why}");
        return;
    }
    let Some(mut gateway) = Running::start_over("require", "af_packet") else { return };
    let ends = Ends::start(["gen", "sink"]);
    let mut ended = Vec::new();
    for backend in ["af_xdp", "af_packet"].into_iter().cycle().take(2 * times()) {
        ends.wait_for(500);
        let next = Running::start_over("require+", backend).unwrap();
        ended.push(gateway.ended());
        gateway = next;
    }
    ends.wait_for(500);
    ended.push(gateway.end());
    only_late_ones_lose("another backend", &ends.stop(), &ended);
}

/// Asserts that frames were lost only by a data thread that was without a processor for a long time. Its queues were
/// full then, or the kernel passed frames meanwhile. On an idle machine there are none.
fn only_late_ones_lose(what: &str, outcomes: &[Outcome; 2], ended: &[GatewayStats]) {
    tell(what, outcomes);
    let lost: u64 = outcomes.iter().map(|outcome| outcome.lost).sum();
    let late: u64 = ended.iter().map(dropped).sum();
    if late > 0 {
        println!(
            "{late} frames dropped by data threads that came late: {:?}",
            ended.iter().map(|stats| stats.gateway().liveness).collect::<Vec<_>>()
        );
    }
    let exact = ended.iter().all(|stats| stats.gateway().fail_open.by.as_deref() == Some("bpf"));
    assert!(if exact { lost == late } else { lost >= late }, "{lost} lost, {late} dropped");
    for stats in ended {
        assert!(stats.counts().received.packets > 0 && stats.gateway().fail_open.by.is_some(), "{stats:?}");
        assert_eq!(stats.counts().queued.packets, 0, "{stats}");
    }
}

fn an_interface_that_comes_back(_: &PrivateNamespace) {
    cables();
    for role in ["require", "never"] {
        let Some(gateway) = Running::start(role) else { continue };
        let ends = Ends::start(["gen", "sink"]);
        ends.wait_for(500);
        interface::set_down("out").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        interface::set_up("out").unwrap();
        ends.wait_for(500);
        let status = Command::new("ip").args(["link", "delete", "out"]).status();
        if !status.is_ok_and(|status| status.success()) {
            println!("SKIPPED: no ip here (package iproute2), so no interface is deleted");
        } else {
            std::thread::sleep(Duration::from_millis(100));
            lay_cables(&[("out", "sink")]).unwrap();
            ends.wait_for(500);
        }
        let outcomes = ends.stop();
        let stats = gateway.end();
        tell(&format!("interface back, {role}"), &outcomes);
        println!("{:?}", stats.gateway().liveness);
        assert!(stats.gateway().liveness.interface_losses >= 1 && stats.gateway().liveness.without_interface_s > 0.0);
    }
}

fn a_carrier_that_flaps(_: &PrivateNamespace) {
    cables();
    let role = match Running::start("require") {
        Some(gateway) => {
            gateway.end();
            "require"
        }
        None => "never",
    };
    let gateway = Running::start(role).unwrap();
    let ends = Ends::start(["gen", "sink"]);
    for round in 0..times() {
        ends.wait_for(200);
        // The other end of the cable, so that the gateway's end stays up but has no carrier.
        interface::set_down("sink").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        interface::set_up("sink").unwrap();
        ends.wait_for(200);
        let mtu = if round % 2 == 0 { "1400" } else { "1500" };
        if Command::new("ip").args(["link", "set", "out", "mtu", mtu]).status().is_err() {
            println!("SKIPPED: no ip here (package iproute2), so no mtu is changed");
        }
        ends.wait_for(200);
    }
    let outcomes = ends.stop();
    let stats = gateway.end();
    tell("carrier flaps, mtu", &outcomes);
    assert_eq!(stats.gateway().liveness.stalls, 0, "{stats}");
}

fn the_same_by_nftables(_: &PrivateNamespace) {
    support::in_user_namespaces(&[
        "frames_pass_after_a_kill",
        "frames_pass_while_the_process_is_stopped_and_none_is_doubled",
        "nothing_is_lost_or_doubled_by_an_end_and_a_start",
        "nothing_is_lost_or_doubled_by_a_take_over",
        "an_interface_that_is_deleted_and_comes_back_is_used_again",
    ]);
}

fn what_is_left_is_taken_away(_: &PrivateNamespace) {
    cables();
    let promiscuous = |name: &str| {
        let flags = std::fs::read_to_string(format!("/sys/class/net/{name}/flags")).ok();
        // In a private namespace /sys may show another one's interfaces.
        flags.and_then(|flags| u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).ok())
    };
    let Some(gateway) = Running::start("require") else { return };
    gateway.end();
    let _ = promiscuous("in");
    // No gateway runs, and frames pass.
    let ends = Ends::start(["gen", "sink"]);
    ends.wait_for(200);
    // A gateway without fail-open removes the kernel's path before it begins: nothing is doubled.
    let gateway = Running::start("never").unwrap();
    ends.wait_for(200);
    let stats = gateway.end();
    assert!(stats.gateway().fail_open.by.is_none(), "{stats:?}");
    tell("without failing open", &ends.stop());
    let outcomes = still();
    assert!(outcomes.iter().all(|outcome| outcome.lost == outcome.sent), "{outcomes:?}");

    // Removed by hand, as `--close` does.
    Running::start("require").unwrap().end();
    assert!(still().iter().all(|outcome| outcome.lost == 0));
    assert_eq!(close_wires(["in", "out"]).unwrap(), ["in", "out"]);
    assert!(close_wires(["in", "out"]).unwrap().is_empty());
    assert!(still().iter().all(|outcome| outcome.lost == outcome.sent));
    assert!(matches!(close_wires(["nowhere"]), Err(OpenError::Interface(_))));
    let _ = Interface::open("in").unwrap();
}

/// Returns the results for frames of 100 ms.
fn still() -> [Outcome; 2] {
    let ends = Ends::start(["gen", "sink"]);
    let until = Instant::now() + Duration::from_nanos(Nanos::from_millis(100).0);
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    ends.stop()
}
