//! Forwarding while `fairlink gateway` is not running, and notifications of a service manager.

use std::fs;
use std::os::unix::net::UnixDatagram;

use crate::{Scratch, fairlink, in_network, in_private_network, only_link, scenario, unless_starved};

/// `passes` says how many of some frames sent into `va` arrive at `vd`.
const COUNTS: &str = r#"
count() { ip -s link show vd | awk '/RX:/ { getline; print $2 }'; }
passes() {
    before=$(count)
    "$F" generate "$LINK" --out va --duration 50ms > /dev/null
    sleep 0.1
    echo $(($(count) - before))
}
"#;

/// A gateway killed, another one in its place, a third that takes that one's place.
const KILLED: &str = r#"
"$F" gateway "$LINK" --in vb --out vc --ignore-offloads --fail-open require --control "$D/one" > /dev/null 2> "$D/one.log" & gateway=$!
until_exists "$D/one"
passes > "$D/alive"
kill -KILL $gateway
wait $gateway || true
passes > "$D/killed"
"$F" gateway "$LINK" --in vb --out vc --ignore-offloads --control "$D/two" > /dev/null 2> "$D/two.log" & gateway=$!
until_exists "$D/two"
! "$F" gateway "$LINK" --in vb --out vc --ignore-offloads --control "$D/not" 2> "$D/taken.log"
NOTIFY_SOCKET= "$F" gateway "$LINK" --in vb --out vc --ignore-offloads --take-over --control "$D/two" > /dev/null 2> "$D/three.log" & next=$!
wait $gateway
until_exists "$D/two"
until_true '"$F" ctl stats --control "$D/two" --json > "$D/stats.json" 2> /dev/null'
kill -INT $next
wait $next
passes > "$D/ended"
"$F" gateway --close vb vc 2> "$D/close.log"
passes > "$D/closed"
"$F" gateway --close vb vc 2> "$D/again.log"
"#;

/// Removes parts of a running gateway's configuration: all of the wire, with `tc` if it is installed, then only
/// promiscuous mode.
const TAKEN_AWAY: &str = r#"
"$F" gateway "$LINK" --in vb --out vc --ignore-offloads --fail-open require --control "$D/one" > /dev/null 2> "$D/one.log" & gateway=$!
until_exists "$D/one"
asks() { "$F" ctl stats --control "$D/one" --json > "$D/$1.json"; }
asks whole
if [ $TC = yes ]; then tc qdisc del dev vb clsact; else "$F" gateway --close vb 2> /dev/null; fi
until_says "$D/one.log" "fail-open repaired"
until_says "$D/one.log" "from vb to vc"
ip link set vc promisc off
until_says "$D/one.log" "vc was no longer promiscuous"
asks repaired
"$F" ctl stats --control "$D/one" > "$D/text"
passes > "$D/alive"
kill -KILL $gateway
wait $gateway || true
passes > "$D/killed"
"#;

/// In a user namespace there are no programs in the kernel, but tables; without the right to administer networks there
/// is neither.
const LESS_ALLOWED: &str = r#"
"$F" gateway "$LINK" --in vb --out vc --ignore-offloads --fail-open require --control "$D/one" > /dev/null 2> "$D/table.log" & gateway=$!
until_exists "$D/one"
passes > "$D/alive"
kill -KILL $gateway
wait $gateway || true
passes > "$D/killed"
"$F" gateway --close vb vc 2> "$D/close.log"
passes > "$D/closed"
command -v setpriv > "$D/setpriv" || exit 0
poor="setpriv --bounding-set=-net_admin"
$poor "$F" gateway "$LINK" --in vb --out vc --ignore-offloads --fail-open require --control "$D/two" 2> "$D/require.log" && exit 1
echo $? > "$D/code"
$poor "$F" gateway "$LINK" --in vb --out vc --ignore-offloads --control "$D/three" > /dev/null 2> "$D/auto.log" & gateway=$!
until_exists "$D/three"
kill -INT $gateway
wait $gateway
"#;

#[test]
fn frames_pass_after_a_kill_and_an_end_until_they_are_told_not_to() {
    unless_starved(|| {
        let dir = Scratch::new();
        let manager = UnixDatagram::bind(dir.path("notify")).unwrap();
        manager.set_nonblocking(true).unwrap();
        let (link, notify) = (scenario("exp2-H.toml"), dir.path("notify"));
        // Programs in the kernel take root, not the root of a user namespace.
        let more = [("LINK", link.as_str()), ("NOTIFY_SOCKET", notify.as_str())];
        let Some(run) = in_network(&["--net"], &format!("{COUNTS}{KILLED}"), &dir, &more) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        if read("one.log").contains("cannot fail open") {
            println!("SKIPPED: no programs in this kernel: {}", read("one.log"));
            return;
        }
        let logs =
            ["one", "two", "three", "taken", "close"].map(|name| format!("{name}: {}", read(&format!("{name}.log"))));
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), logs.concat());
        let number = |name: &str| read(name).trim().parse::<u64>().unwrap_or_else(|_| panic!("{name}: {}", read(name)));
        for name in ["alive", "killed", "ended"] {
            assert!(number(name) > 0, "{name}: {}", logs.concat());
        }
        assert_eq!(number("closed"), 0);
        assert!(read("one.log").contains("fail-open (by bpf)"), "{}", read("one.log"));
        assert!(read("taken.log").contains("--take-over takes its place"), "{}", read("taken.log"));
        assert!(read("two.log").contains("another gateway takes the place of this one"), "{}", read("two.log"));
        assert!(read("three.log").contains("took over vb and vc"), "{}", read("three.log"));
        assert!(
            read("stats.json").contains("\"by\": \"bpf\"") || read("stats.json").contains("\"by\":\"bpf\""),
            "{}",
            read("stats.json")
        );
        assert!(
            read("close.log").contains("the kernel no longer forwards frames received on vb or vc"),
            "{}",
            read("close.log")
        );
        assert!(
            read("again.log").contains("nothing to remove: no gateway left anything on these interfaces"),
            "{}",
            read("again.log")
        );
        // The service manager heard of the first two: ready, ready, and the end of the second.
        let mut heard = Vec::new();
        let mut text = [0; 512];
        while let Ok(length) = manager.recv(&mut text) {
            heard.push(String::from_utf8_lossy(&text[..length]).into_owned());
        }
        let of = |what: &str| heard.iter().filter(|text| text.starts_with(what)).count();
        assert_eq!((of("READY=1\nSTATUS=vb to vc"), of("STOPPING=1")), (2, 1), "{heard:?}");
    });
}

/// `namespaces` are those of `unshare`; `by` is the mechanism that they allow.
fn what_is_taken_away_is_installed_again(namespaces: &[&str], by: &str) {
    let dir = Scratch::new();
    let has_tc = std::process::Command::new("tc").arg("-V").output().is_ok();
    let more = [("LINK", &*scenario("exp2-H.toml")), ("TC", if has_tc && by == "bpf" { "yes" } else { "no" })];
    let Some(run) = in_network(namespaces, &format!("{COUNTS}{TAKEN_AWAY}"), &dir, &more) else { return };
    let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
    let log = read("one.log");
    if log.contains("cannot fail open") || !log.contains(&format!("fail-open (by {by})")) {
        println!("SKIPPED: this kernel or user does not fail open by {by}: {log}");
        return;
    }
    assert!(run.status.success(), "{}{log}", String::from_utf8_lossy(&run.stderr));
    let part = |name: &str| -> serde_json::Value {
        let stats: serde_json::Value = serde_json::from_str(&read(name)).unwrap();
        only_link(&stats)["gateway"]["fail_open"].clone()
    };
    let whole = part("whole.json");
    assert_eq!((&whole["by"], &whole["whole"], &whole["repairs"]), (&by.into(), &true.into(), &0.into()), "{log}");
    let repaired = part("repaired.json");
    assert_eq!((&repaired["whole"], &repaired["repairs"]), (&true.into(), &2.into()), "{log}");
    assert!(read("text").contains("fail-open was repaired 2 times"), "{}", read("text"));
    for name in ["alive", "killed"] {
        assert!(read(name).trim().parse::<u64>().unwrap() > 0, "{name}: {log}");
    }
}

#[test]
fn a_filter_that_is_taken_from_a_running_gateway_is_installed_again_and_frames_pass_after_a_kill() {
    unless_starved(|| {
        what_is_taken_away_is_installed_again(&["--net"], "bpf");
    });
}

#[test]
fn a_table_that_is_taken_from_a_running_gateway_is_installed_again_and_frames_pass_after_a_kill() {
    unless_starved(|| {
        what_is_taken_away_is_installed_again(&["--map-root-user", "--net"], "nftables");
    });
}

#[test]
fn where_programs_are_not_allowed_tables_do_it_and_where_nothing_is_the_gateway_says_what_is_missing() {
    unless_starved(|| {
        let dir = Scratch::new();
        let script = format!("{COUNTS}{LESS_ALLOWED}");
        let Some(run) = in_private_network(&script, &dir, &[("LINK", &scenario("exp2-H.toml"))]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        if read("table.log").contains("cannot fail open") {
            println!("SKIPPED: no nf_tables here: {}", read("table.log"));
            return;
        }
        let logs =
            ["table", "close", "require", "auto"].map(|name| format!("{name}: {}", read(&format!("{name}.log"))));
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), logs.concat());
        let number = |name: &str| read(name).trim().parse::<u64>().unwrap_or_else(|_| panic!("{name}: {}", read(name)));
        assert!(number("alive") > 0 && number("killed") > 0, "{}", logs.concat());
        assert_eq!(number("closed"), 0);
        for says in ["fail-open (by nftables)", "CAP_BPF"] {
            assert!(read("table.log").contains(says), "{}", read("table.log"));
        }
        if read("setpriv").is_empty() {
            println!("SKIPPED: no setpriv here, so no rights are taken away");
            return;
        }
        assert_eq!(read("code").trim(), "2");
        for (log, says) in [
            ("require.log", "cannot fail open, which --fail-open require demands"),
            ("require.log", "; nftables: "),
            ("auto.log", "not fail-open"),
            ("auto.log", "CAP_BPF"),
        ] {
            assert!(read(log).contains(says), "{log}: {}", read(log));
        }
    });
}

#[test]
fn wrong_options_of_a_gateways_life_are_refused() {
    let link = scenario("exp2-H.toml");
    let run = fairlink(&["gateway", &link, "--in", "nope0", "--out", "nope1", "--fail-open", "maybe"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("auto, require, never"), "{}", run.stderr);
    let run = fairlink(&["gateway", "--close", "nope0"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("nope0"), "{}", run.stderr);
    let run = fairlink(&["gateway", &link, "--in", "nope0"]);
    assert!(run.code == 2 && run.stderr.contains("--out"), "{}", run.stderr);
}
