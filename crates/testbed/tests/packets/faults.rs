//! External faults of a gateway: interfaces whose mtu changes, carriers that flap on both sides, deleted interfaces,
//! and memory limits, with numbered frames both ways. Assertions hold on any machine: the gateway continues or refuses,
//! no frame is doubled, and lost frames are counted. Deaths, stalls and take-overs are in `fail_open.rs`, which prints
//! the same lines; `scripts/fault-table` makes a table of both.
//!
//! `FAIRLINK_FAULTS=N` tries each fault N times instead of twice.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use fairlink_net::{ReloadRequest, Wanted, control, interface};
use fairlink_report::DropCause;
use fairlink_testbed::{PrivateNamespace, lay_cables};

use crate::cables::{cables, rate};
use crate::ends::{Ends, Outcome};
use crate::faulty::{ROLE, Running, dropped, tell, times};
use crate::raw::send_raw;
use crate::{faulty, support};

pub(crate) fn main() -> ExitCode {
    if let Some(code) = faulty::as_gateway() {
        return code;
    }
    support::main(&[
        ("another_mtu_at_either_interface_loses_no_frame_that_fits", another_mtu),
        ("carriers_that_flap_on_both_sides_lose_what_is_sent_meanwhile_and_no_more", carriers_that_flap),
        ("each_interface_is_deleted_and_comes_back_and_both_at_once", interfaces_that_are_deleted),
        ("a_start_with_too_little_memory_is_refused_and_what_passed_before_goes_on", a_start_with_too_little_memory),
        ("a_reload_for_which_there_is_no_memory_is_refused_and_nothing_is_lost", a_reload_without_memory),
        ("a_process_that_the_kernel_ends_for_want_of_memory_leaves_the_link_open", killed_for_memory),
    ])
}

/// Runs `ip`. Returns true on success; prints a line if `ip` is missing.
fn ip(arguments: &str) -> bool {
    match Command::new("ip").args(arguments.split(' ')).status() {
        Ok(status) => status.success(),
        Err(why) => {
            println!("SKIPPED: no ip here (package iproute2): {why}");
            false
        }
    }
}

/// If programs in the kernel are not allowed, faults are tested without fail-open.
fn role() -> &'static str {
    match Running::start("require") {
        Some(gateway) => {
            gateway.end();
            "require"
        }
        None => "never",
    }
}

fn another_mtu(_: &PrivateNamespace) {
    cables();
    let gateway = Running::start(role()).unwrap();
    let mut missing = 0;
    for _ in 0..times() {
        let ends = Ends::start(["gen", "sink"]);
        for name in ["in", "out"] {
            for mtu in [1400, 1500, 2000, 1500] {
                ends.wait_for(200);
                if !ip(&format!("link set {name} mtu {mtu}")) {
                    return;
                }
            }
        }
        ends.wait_for(200);
        let outcomes = ends.stop();
        tell("another mtu", &outcomes);
        missing += lost(&outcomes);
    }
    // The gateway's pool was made for 1500.
    for name in ["gen", "in", "out", "sink"] {
        assert!(ip(&format!("link set {name} mtu 3000")));
    }
    let mut long = vec![2; 12];
    long.extend([8, 0]);
    long.resize(2500, 7);
    (0..5).for_each(|_| send_raw("gen", &long));
    let ends = Ends::start(["gen", "sink"]);
    ends.wait_for(200);
    missing += lost(&ends.stop());
    let stats = gateway.end();
    assert_eq!((stats.gateway().liveness.stalls, stats.gateway().liveness.interface_losses), (0, 0), "{stats}");
    let too_long = stats.counts().dropped_for(DropCause::TooLong).packets;
    assert_eq!(too_long, 5, "{stats:?}");
    // Further losses were dropped and counted by a data thread that was late.
    assert_eq!(missing, dropped(&stats) - too_long, "{stats}");
}

fn lost(outcomes: &[Outcome; 2]) -> u64 {
    outcomes.iter().map(|outcome| outcome.lost).sum()
}

fn carriers_that_flap(_: &PrivateNamespace) {
    cables();
    let gateway = Running::start(role()).unwrap();
    for _ in 0..times() {
        let ends = Ends::start(["gen", "sink"]);
        for end in ["sink", "gen"] {
            ends.wait_for(300);
            // The other end of the cable, so that the gateway's end stays up but has no carrier.
            interface::set_down(end).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            interface::set_up(end).unwrap();
        }
        ends.wait_for(300);
        tell("carrier flaps", &ends.stop());
    }
    let stats = gateway.end();
    assert_eq!((stats.gateway().liveness.stalls, stats.gateway().liveness.interface_losses), (0, 0), "{stats}");
}

fn interfaces_that_are_deleted(_: &PrivateNamespace) {
    cables();
    let gateway = Running::start(role()).unwrap();
    let mut losses = 0;
    for _ in 0..times() {
        for (fault, names) in [
            ("input deleted, back", &["in"][..]),
            ("output deleted, back", &["out"]),
            ("both deleted, back", &["out", "in"]),
        ] {
            let ends = Ends::start(["gen", "sink"]);
            ends.wait_for(300);
            for name in names {
                if !ip(&format!("link delete {name}")) {
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(100));
            for name in names {
                let cable = if *name == "in" { ("gen", "in") } else { ("out", "sink") };
                lay_cables(&[cable]).unwrap();
            }
            ends.wait_for(300);
            losses += 1;
            tell(fault, &ends.stop());
        }
    }
    let stats = gateway.end();
    assert!(stats.gateway().liveness.interface_losses >= losses, "{:?}", stats.gateway().liveness);
}

/// Limits the address space of this process in bytes (RLIMIT_AS).
fn limit(process: u32, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is readable during the call; nothing is written.
    let set = unsafe { libc::prlimit(process as libc::pid_t, libc::RLIMIT_AS, &limit, std::ptr::null_mut()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Size of a process's address space in bytes.
fn addresses(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn a_start_with_too_little_memory(_: &PrivateNamespace) {
    cables();
    // The wires of an earlier one pass frames.
    let Some(gateway) = Running::start("require") else { return };
    // With less, the loader and the runtime of the language fail before anything of the gateway runs.
    let least = gateway.addresses_at_begin.div_ceil(1 << 20);
    gateway.end();
    let ends = Ends::start(["gen", "sink"]);
    ends.wait_for(200);
    let mut refused = 0;
    // From too little for the buffers up to enough.
    for more in [0, 2, 4, 6, 8, 10, 12, 14, 34, 194] {
        let megabytes = least + more;
        let script = format!("ulimit -v {}; exec \"$0\"", megabytes * 1024);
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(std::env::current_exe().unwrap()).env(ROLE, "require");
        match Running::start_by(&mut command) {
            Ok(gateway) => {
                ends.wait_for(100);
                gateway.end();
            }
            Err(why) => {
                println!("{megabytes} MB of addresses: {why}");
                assert!(!why.contains("signal"), "a crash: {why}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "none was refused");
    ends.wait_for(200);
    let outcomes = ends.stop();
    tell("no memory at start", &outcomes);
}

/// A link file with this number of classes, as the change of the running gateway.
fn file(classes: usize, more: &str) -> ReloadRequest {
    let mut text = format!("[link]\nrate = \"1gbit\"\nmtu = \"1522B\"\ndefault = \"c\"\nbuffer = \"300p\"\n{more}");
    for name in ["a", "b", "c"] {
        text += &format!("[[class]]\nname = \"{name}\"\nweight = 1\nbuffer = \"100p\"\n");
    }
    for class in 0..classes {
        text += &format!(
            "[[class]]\nname = \"class {class}\"\nweight = 1\nbuffer = \"1p\"\nmatch = \"udp dst port {}\"\n",
            1 + class % 65_535
        );
    }
    ReloadRequest { text: Some(("many.toml".to_owned(), text)), ..ReloadRequest::default() }
}

fn a_reload_without_memory(_: &PrivateNamespace) {
    cables();
    let path = std::env::temp_dir().join(format!("fairlink-faults-{}", std::process::id()));
    let socket = path.to_str().unwrap().to_owned();
    let Some(gateway) = Running::start_with_control("require", &socket) else { return };
    let process = gateway.child.id();
    let ends = Ends::start(["gen", "sink"]);
    ends.wait_for(200);
    // A change that exceeds the file's own memory limit.
    let little = control::reload(&path, &file(0, "memory = \"100kB\"\n")).unwrap_err().to_string();
    assert!(little.contains("are allowed"), "{little}");
    let (mut refused, mut done) = (0, 0);
    for round in 0..times() {
        for headroom in [1, 16, 64, 128, 256, 512, 1024, 2048] {
            limit(process, addresses(process) + (headroom << 20));
            match control::reload(&path, &file(10_000 + round, "")) {
                Ok(_) => done += 1,
                Err(error) => {
                    let error = error.to_string();
                    assert!(
                        error.contains("RLIMIT_AS") || error.contains("memory") || error.contains("thread"),
                        "{error}"
                    );
                    refused += 1;
                }
            }
            limit(process, libc::RLIM_INFINITY);
            control::reload(&path, &file(0, "")).unwrap();
        }
    }
    println!("{refused} reloads refused for want of memory, {done} done");
    assert!(refused > 0 && done > 0, "{refused} refused, {done} done");
    control::change(&path, None, &Wanted::LinkRate { rate: rate(900_000_000) }, false).unwrap();
    ends.wait_for(200);
    let outcomes = ends.stop();
    tell("no memory at reload", &outcomes);
    let stats = gateway.end();
    let removed: u64 = stats.gateway().removed.iter().map(|removed| removed.counts().dropped.packets).sum();
    assert_eq!(lost(&outcomes), dropped(&stats), "{removed} {stats}");
}

/// A control group of this test with a memory limit, removed at the end.
struct Group(std::path::PathBuf);

impl Group {
    /// Returns `None`, with a message, if there are none.
    fn new() -> Option<Self> {
        // Version 1 has a separate tree for memory.
        for (tree, file) in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")] {
            let group = Self(Path::new(tree).join(format!("fairlink-faults-{}", std::process::id())));
            if std::fs::create_dir(&group.0).is_ok() && group.0.join(file).exists() {
                return Some(group);
            }
        }
        println!("SKIPPED: no control groups with a limit of memory here");
        None
    }

    fn limit(&self, bytes: u64) -> std::io::Result<()> {
        let files = ["memory.limit_in_bytes", "memory.max"].map(|file| self.0.join(file));
        let file = files.iter().find(|file| file.exists()).expect("one of them was there");
        std::fs::write(file, bytes.to_string())
    }

    fn take(&self, process: u32) -> std::io::Result<()> {
        std::fs::write(self.0.join("cgroup.procs"), process.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn killed_for_memory(_: &PrivateNamespace) {
    cables();
    let path = std::env::temp_dir().join(format!("fairlink-faults-{}", std::process::id()));
    for _ in 0..times() {
        let Some(group) = Group::new() else { return };
        let Some(mut gateway) = Running::start_with_control("require", path.to_str().unwrap()) else { return };
        let taken = group.take(gateway.child.id()).and_then(|()| group.limit(24 << 20));
        if let Err(why) = taken {
            println!("SKIPPED: no limit of memory here: {why}");
            return;
        }
        let ends = Ends::start(["gen", "sink"]);
        ends.wait_for(300);
        // No answer comes: the kernel ends the process while it reads.
        let answer = control::reload(&path, &file(60_000, ""));
        let is_closed = answer.is_err();
        println!("{}", answer.map_or_else(|error| error.to_string(), |_| "it was enough".to_owned()));
        ends.wait_for(1000);
        let mut ended = gateway.child.try_wait().unwrap();
        // A process that is being ended may take its time.
        for _ in 0..100 {
            if ended.is_some() || !is_closed {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            ended = gateway.child.try_wait().unwrap();
        }
        let outcomes = ends.stop();
        match ended {
            Some(status) => {
                println!("{status}");
                tell("memory of a cgroup", &outcomes);
            }
            None => {
                println!("SKIPPED: this kernel did not end it");
                gateway.end();
            }
        }
        let _ = std::fs::remove_file(&path);
    }
}
