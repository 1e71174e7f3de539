//! Privileges of `fairlink gateway` after it has opened its interfaces, and its work with them; access to its control
//! socket.

use std::fs;

use crate::{Scratch, cores, fairlink, in_network, in_private_network, unless_starved};

/// The gateway's threads in the kernel's view; a reload of its file after its replacement; then of a symbolic link to
/// another place.
const SCRIPT: &str = r#"
mkdir "$D/own" "$D/elsewhere"
cp "$D/link.toml" "$D/own/link.toml"
cp "$D/link.toml" "$D/elsewhere/link.toml"
ctl() { "$F" ctl "$@" --control "$D/socket"; }
# All threads have begun, and a short-lived one has ended.
nice_values() { for thread in /proc/$gateway/task/*; do echo "$(sed 's/.*) //' $thread/stat | cut -d ' ' -f 17) $(cat $thread/comm)"; done; }
nice > "$D/own-nice"
until_running() { until_says "$1" "running until"; sleep 0.1; }
"$F" gateway "$D/own/link.toml" --in vb --out vc --ignore-offloads --control "$D/socket" --metrics 127.0.0.1:0 --json \
    > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
until_running "$D/gateway.log"
cat /proc/$gateway/task/*/status > "$D/status"
nice_values > "$D/nice"
sed 's/10mbit/20mbit/' "$D/link.toml" > "$D/own/new"
mv "$D/own/new" "$D/own/link.toml"
ctl reload > "$D/reload.txt"
ctl reload "$D/elsewhere/link.toml" > "$D/sent.txt"
rm "$D/own/link.toml"
ln -s "$D/elsewhere/link.toml" "$D/own/link.toml"
! ctl reload 2> "$D/outside.log"
# An interface goes away and comes back.
ip link set vc down
until_says "$D/gateway.log" "waiting for it"
ip link set vc up
until_says "$D/gateway.log" "interfaces are back"
ctl stats > "$D/stats.txt"
kill -INT $gateway
wait $gateway
"$F" gateway "$D/link.toml" --in vb --out vc --ignore-offloads --keep-privileges --control "$D/all" > /dev/null 2> "$D/all.log" & gateway=$!
until_exists "$D/all"
until_running "$D/all.log"
cat /proc/$gateway/task/*/status > "$D/status-all"
kill -INT $gateway
wait $gateway
"$F" gateway "$D/link.toml" --in vb --out vc --ignore-offloads --no-fail-open --nice 12 --control "$D/closed" > /dev/null 2> "$D/closed.log" & gateway=$!
until_exists "$D/closed"
until_running "$D/closed.log"
cat /proc/$gateway/task/*/status > "$D/status-closed"
nice_values > "$D/nice-closed"
kill -INT $gateway
wait $gateway
"#;

const LINK: &str = "[link]\nrate = \"10mbit\"\n[[class]]\nname = \"all\"\nmatch = [\"any\"]\n";

// Numbers of capabilities (linux/capability.h).
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const BPF: u64 = 1 << 39;

/// The values of `key` in the status of each thread.
fn values(status: &str, key: &str) -> Vec<u64> {
    let lines = status.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    lines.map(|value| u64::from_str_radix(value.trim(), 16).expect("a number")).collect()
}

fn rights(namespaces: Option<&[&str]>) {
    let dir = Scratch::new();
    dir.write("link.toml", LINK);
    let run = match namespaces {
        Some(namespaces) => in_network(namespaces, SCRIPT, &dir, &[]),
        None => in_private_network(SCRIPT, &dir, &[]),
    };
    let Some(run) = run else { return };
    let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
    assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), read("gateway.log"));
    let log = read("gateway.log");
    // An older kernel supports fewer restrictions, with a note.
    if log.contains("system calls are not restricted") || log.contains("file access is not restricted") {
        println!("SKIPPED: this kernel does not take all away: {log}");
        return;
    }
    let status = read("status");
    // The main thread, that of the data, of fail-open, of the control socket and of the metrics; and workers.
    assert_eq!(values(&status, "CapEff").len(), 4 + cores(), "{status}");
    for set in ["CapEff", "CapPrm"] {
        assert!(values(&status, set).iter().all(|&set| set == NET_ADMIN | NET_RAW | BPF), "{status}");
    }
    assert!(values(&status, "CapInh").iter().chain(&values(&status, "CapAmb")).all(|&set| set == 0), "{status}");
    assert!(values(&status, "CapBnd").iter().all(|&set| set == NET_ADMIN | NET_RAW | BPF), "{status}");
    assert!(values(&status, "NoNewPrivs").iter().all(|&value| value == 1), "{status}");
    assert!(values(&status, "Seccomp").iter().all(|&value| value == 2), "{status}");
    assert!(log.contains("sandboxed: capabilities cap_net_admin, cap_net_raw, cap_bpf; no other files"), "{log}");

    // All threads precede those of others, if the user may decide that and has not.
    let own = read("own-nice").trim().to_owned();
    let is_refused = log.contains("priority: threads have nice value 0, not -5: Permission denied");
    let expected = if own == "0" && !is_refused { "-5" } else { &own };
    assert!(!is_refused || own == "0", "{log}");
    let nice = read("nice");
    let (servers, others): (Vec<&str>, Vec<&str>) = nice.lines().partition(|line| line.ends_with(" fairlink-http"));
    assert!(
        others.len() == 3 + cores() && others.iter().all(|line| line.starts_with(&format!("{expected} "))),
        "{nice}\n{log}"
    );
    // Those who look do not precede other programs.
    let server = format!("{} fairlink-http", if expected == "-5" { "0" } else { &own });
    assert_eq!(servers, [server], "{log}");
    assert!(read("nice-closed").lines().count() > 0 && read("nice-closed").lines().all(|line| line.starts_with("12 ")));

    // It reads its own file again after its replacement, and text that is sent to it; it cannot open a file elsewhere.
    assert!(read("reload.txt").contains("10 Mbit/s -> 20 Mbit/s"), "{}", read("reload.txt"));
    assert!(read("sent.txt").contains("20 Mbit/s -> 10 Mbit/s"), "{}", read("sent.txt"));
    assert!(read("outside.log").to_lowercase().contains("permission denied"), "{}", read("outside.log"));
    assert!(log.contains("all interfaces are back") && log.contains("link=vc"), "{log}");
    assert!(read("stats.txt").contains("every packet is accounted for"), "{}", read("stats.txt"));

    let all = read("status-all");
    assert!(values(&all, "CapEff").iter().all(|&set| set & !(NET_ADMIN | NET_RAW | BPF) != 0), "{all}");
    assert!(values(&all, "Seccomp").iter().chain(&values(&all, "NoNewPrivs")).all(|&value| value == 0), "{all}");
    let closed = read("status-closed");
    assert!(values(&closed, "CapEff").iter().all(|&set| set == NET_ADMIN | NET_RAW), "{closed}");
}

/// The control socket, asked by a user in its group, and by one who is not.
const CONTROL: &str = r#"
command -v setpriv > "$D/setpriv" || exit 0
cp "$F" "$D/fairlink"
chmod 755 "$D" "$D/fairlink"
umask 077
"$F" gateway "$D/link.toml" --in vb --out vc --ignore-offloads --control "$D/socket" --control-group 4242 > /dev/null 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
stat -c '%a %g' "$D/socket" > "$D/stat"
as="setpriv --reuid 65534 --regid 65534"
$as --groups 4242 "$D/fairlink" ctl stats --control "$D/socket" > "$D/member.txt"
! $as --clear-groups "$D/fairlink" ctl stats --control "$D/socket" > "$D/other.txt" 2> "$D/other.log"
grep CapEff /proc/$gateway/status > "$D/caps"
# The socket of the one whose place it takes is free only when that has ended, and its rights are gone by then.
"$F" gateway "$D/link.toml" --in vb --out vc --ignore-offloads --take-over --control "$D/socket" --control-group 4242 --control-mode 0666 \
    > /dev/null 2> "$D/next.log" & next=$!
wait $gateway
until_true '"$F" ctl stats --control "$D/socket" > "$D/next.txt" 2> /dev/null'
stat -c '%a %g' "$D/socket" > "$D/stat2"
kill -INT $next
wait $next
! $as --clear-groups "$D/fairlink" gateway "$D/link.toml" --in vb --out vc --control-group 4242 2> "$D/not-member.log"
"#;

#[test]
fn the_control_socket_is_open_to_its_group_and_to_nobody_else() {
    unless_starved(|| {
        let dir = Scratch::new();
        dir.write("link.toml", LINK);
        let Some(run) = in_network(&["--net"], CONTROL, &dir, &[]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        if read("setpriv").is_empty() {
            println!("SKIPPED: no setpriv here, so nobody else asks");
            return;
        }
        let logs = ["gateway", "next", "other"].map(|name| read(&format!("{name}.log")));
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), logs.concat());
        assert_eq!((read("stat").trim(), read("stat2").trim()), ("660 4242", "666 4242"));
        assert!(read("member.txt").contains("vb to vc"), "{}", read("member.txt"));
        assert!(read("other.log").to_lowercase().contains("permission denied"), "{}", read("other.log"));
        assert!(read("not-member.log").contains("--control-group: the control socket cannot be given to group 4242"));
        assert_eq!(values(&read("caps"), "CapEff")[0] & !(NET_ADMIN | NET_RAW | BPF), 0, "{}", read("caps"));
    });
}

#[test]
fn modes_and_groups_that_cannot_be_are_refused_with_2() {
    let dir = Scratch::new();
    let file = dir.write("link.toml", LINK);
    for (flag, value, says) in [
        ("--control-mode", "0800", "--control-mode: \"0800\" is not a mode: write it in octal"),
        ("--control-mode", "0060", "--control-mode: the mode 0060"),
        ("--control-group", "no-such-group-here", "--control-group: there is no group \"no-such-group-here\""),
    ] {
        let run = fairlink(&["gateway", &file, "--in", "nope0", "--out", "nope1", flag, value]);
        assert_eq!(run.code, 2, "{flag} {value}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{flag} {value}: {}", run.stderr);
    }
}

#[test]
fn every_thread_of_a_gateway_keeps_what_it_needs_and_no_more() {
    unless_starved(|| {
        rights(Some(&["--net"]));
    });
}

#[test]
fn and_in_a_user_namespace() {
    unless_starved(|| {
        rights(None);
    });
}
