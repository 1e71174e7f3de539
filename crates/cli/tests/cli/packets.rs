//! `fairlink gateway`, `ctl`, `generate` and `receive` on real packets, in a network namespace that ends with the test;
//! and what they refuse.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::{Scratch, class, fairlink, in_private_network, only_link, run, scenario, unless_starved};

/// Two cables with the gateway between them. Waits are bounded and end when their condition holds. The gateway does not
/// fail open: on a busy machine the kernel would forward frames past its account.
const SCRIPT: &str = r#"
"$F" receive --in vd --link "$LINK" --json > "$D/received.json" 2> "$D/receive.log" & receiver=$!
"$F" gateway "$LINK" --in vb --out vc --ignore-offloads --fail-open never --control "$D/socket" --drain 5s --json \
    > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
until_exists "$D/receive.log"
"$F" generate "$LINK" --out va --duration 400ms --json > "$D/sent.json"
"$F" ctl stats --control "$D/socket" > "$D/stats.txt"
"$F" ctl stats --control "$D/socket" --json > "$D/stats.json"
! "$F" gateway "$LINK" --in vb --out vc --ignore-offloads --control "$D/socket" 2> "$D/second.log"
sed 's/^\[link\]/&\nbuffer = "4294967295p"/' "$LINK" > "$D/large.toml"
"$F" gateway "$D/large.toml" --in vb --out vc --ignore-offloads 2> "$D/large.log" || [ $? -eq 2 ]
kill -INT $gateway
wait $gateway
kill -INT $receiver
wait $receiver
"$F" gateway "$LINK" --in vb --out vc --ignore-offloads --control "$D/hup" --json > "$D/hup.json" 2> "$D/hup.log" & gateway=$!
until_exists "$D/hup"
kill -HUP $gateway
until_says "$D/hup.log" "reload: change"
kill -INT $gateway
wait $gateway
(trap '' HUP; exec "$F" receive --in vd --duration 600ms --json) > "$D/nohup.json" & receiver=$!
sleep 0.1
kill -HUP $receiver
wait $receiver
"#;

fn packets(amount: &Value) -> u64 {
    amount["packets"].as_u64().unwrap_or_else(|| panic!("{amount}"))
}

#[test]
fn the_gateway_accounts_for_every_frame_and_keeps_the_order_of_each_class() {
    unless_starved(|| {
        let dir = Scratch::new();
        let link = scenario("exp2-H.toml");
        let Some(run) = in_private_network(SCRIPT, &dir, &[("LINK", &link)]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        let logs = || ["gateway.log", "receive.log", "second.log", "large.log"].map(read).join("\n");
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), logs());
        let json =
            |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));

        let (sent, gateway, received) = (json("sent.json"), only_link(&json("gateway.json")), json("received.json"));
        assert_eq!(gateway["gateway"]["balanced"], true, "{gateway}");
        assert_eq!(packets(&gateway["counts"]["queued"]), 0, "drained: {gateway}");
        let missed: u64 = ["kernel_dropped_packets", "shed_unknown_packets"]
            .iter()
            .map(|key| gateway["gateway"][key].as_u64().expect("a number"))
            .sum();
        for name in ["A1", "B2", "C"] {
            let offered = class(&sent, name)["sent_packets"].as_u64().expect("a number");
            let through = class(&gateway, name);
            let taken = packets(&through["counts"]["received"]);
            assert!(
                offered > 0 && taken <= offered && taken + missed >= offered,
                "{name}: {offered} sent, {taken} received by the gateway, {missed} missed: {gateway}"
            );
            let arrived = class(&received, name);
            let count = |key: &str| arrived[key].as_u64().unwrap_or_else(|| panic!("{key}: {arrived}"));
            assert!(
                count("received_packets") > 0 && count("received_packets") <= packets(&through["counts"]["sent"]),
                "{name}: received of what the gateway sent: {arrived} {through}"
            );
            assert_eq!(
                (count("reordered_packets"), count("duplicate_packets")),
                (0, 0),
                "{name}: reordered, doubled: {arrived}"
            );
            assert!(arrived["delay_s"]["p99"].is_f64(), "{arrived}");
        }
        // Without a terminal, SIGHUP has the link file read again. Under nohup it does nothing.
        assert_eq!(
            (
                &only_link(&json("hup.json"))["gateway"]["balanced"],
                &only_link(&json("hup.json"))["gateway"]["generation"]
            ),
            (&true.into(), &1.into())
        );
        assert!(json("nohup.json")["duration_s"].as_f64().expect("a number") >= 0.6, "{}", read("nohup.json"));
        let stats = only_link(&json("stats.json"));
        assert_eq!((&stats["scheduler"], &stats["capacity_bps"]), (&"hls".into(), &100_000_000.into()));
        assert!(read("stats.txt").contains("every packet is accounted for"), "{}", read("stats.txt"));
        assert!(read("gateway.log").contains("memory bound"), "{}", logs());
        assert!(read("second.log").contains("already running"), "{}", logs());
        assert!(read("large.log").contains("take 64.0 GiB, and 4.0 GiB are allowed"), "{}", logs());
    });
}

#[test]
fn the_log_is_an_object_a_line_or_text_that_the_journal_stamps() {
    let (dir, link) = (Scratch::new(), scenario("exp2-H.toml"));
    let unknown = dir.write("unknown.toml", "[link]\nrate = \"1mbit\"\nrates = 1\n");
    let refused = ["--in", "nope0", "--out", "nope1"];
    for (file, message) in [(&link, "nope0"), (&unknown, "rates")] {
        let args: Vec<&str> = ["gateway", file, "--log", "json"].into_iter().chain(refused).collect();
        let run = fairlink(&args);
        assert_eq!(run.code, 2, "{}", run.stderr);
        let lines = run.stderr.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
        let lines: Vec<Value> = lines.collect();
        let last = lines.last().expect("a message");
        assert_eq!(last["level"], "ERROR", "{last}");
        assert!(last["message"].as_str().is_some_and(|text| text.contains(message)), "{last}");
        assert!(last["timestamp"].as_str().is_some_and(|text| text.ends_with('Z')), "{last}");
    }
    // The service manager names the stream that standard error is.
    for (stream, begins) in [("$(stat -Lc %d:%i /dev/stderr)", "<3>ERROR "), ("1:1", "20")] {
        let script = format!("JOURNAL_STREAM={stream} exec \"$0\" gateway \"$1\" --in nope0 --out nope1");
        let run = run(Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_fairlink"), &link]));
        assert!(run.code == 2 && run.stderr.starts_with(begins) && run.stderr.contains("ERROR "), "{}", run.stderr);
    }
    let run = fairlink(&["gateway", &link, "--in", "a", "--out", "b", "--log-level", "loud"]);
    assert!(run.code == 2 && run.stderr.contains("--log-level"), "{}", run.stderr);
}

#[test]
fn wrong_interfaces_and_sockets_are_refused_with_2() {
    let (link, nowhere) = (scenario("exp2-H.toml"), "/no/such/socket");
    let dir = Scratch::new();
    let classes = "class = [{ name = 'a', match = ['udp'] }, { name = 'b', match = ['tcp'] }]";
    let no_default = dir.write("link.toml", &format!("link = {{ rate = '1mbit' }}\n{classes}"));
    for (args, says) in [
        (&["gateway", &link, "--in", "nope0", "--out", "nope1"][..], "nope0"),
        (&["gateway", &link, "--in", "nope0", "--out", "nope0"], "both nope0"),
        (&["gateway", &link, "--in", "nope0"], "--out"),
        (&["gateway", &link, "--in", "a", "--out", "b", "--pacing", "fast"], "[possible values: busy, precise, eco]"),
        (&["gateway", "no-such-file.toml", "--in", "a", "--out", "b"], "no-such-file.toml"),
        (&["gateway", &no_default, "--in", "a", "--out", "b"], "there is no default"),
        (&["generate", &link, "--out", "nope0"], "nope0"),
        (&["generate", &no_default, "--out", "nope0"], "source"),
        (&["receive", "--in", "nope0"], "nope0"),
        (&["receive", "--in", "nope0", "--clock", "sun"], "[possible values: monotonic, realtime]"),
        (&["ctl", "stats", "--control", nowhere], nowhere),
        (&["ctl"], "stats"),
        (&["ctl", "trace"], "<FILE>"),
        (&["ctl", "trace", "t.txt"], "t.txt: the ending says what is written; it is .csv or .pcapng"),
        (&["ctl", "trace", "t.csv/"], "t.csv/: a directory"),
        (&["ctl", "trace", "t.csv", "--duration", "0s"], "write at least 1ms"),
        (&["ctl", "trace", "t.csv", "--size", "0B"], "write at least 1kB"),
        (&["ctl", "trace", "t.csv", "--size", "7"], "write \"7B\""),
        (&["ctl", "trace", "t.pcapng", "--snap", "13B"], "write at least 14B"),
        (&["ctl", "trace", "t.pcapng", "--snap", "1MB"], "above the limit"),
        (&["ctl", "trace", "t.csv", "--packets", "0"], "1.."),
        (&["ctl", "trace", "t.csv", "--control", nowhere], nowhere),
    ] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn the_shipped_file_for_a_gateway_is_sound_and_has_a_class_for_every_frame() {
    let file = scenario("gateway-home.toml");
    let check = fairlink(&["check", &file]);
    assert_eq!((check.code, check.stderr.as_str()), (0, ""), "{}", check.stdout);
    assert!(check.stdout.contains("voice") && check.stdout.contains("guests"), "{}", check.stdout);
    // The file is taken; only the interface is missing.
    let gateway = fairlink(&["gateway", &file, "--in", "nope0", "--out", "nope1"]);
    assert_eq!(gateway.code, 2);
    assert!(gateway.stderr.contains("interface nope0 does not exist"), "{}", gateway.stderr);
}
