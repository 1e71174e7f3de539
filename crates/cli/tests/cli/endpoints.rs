//! `generate` and `receive` with flows, clocks and TCP, in a network namespace that ends with the test; and their
//! errors.

use std::fs;

use serde_json::Value;

use crate::{Scratch, fairlink, in_private_network, scenario, unless_starved};

/// A cable, and the loopback interface for TCP. Waits are bounded.
const SCRIPT: &str = r#"
"$F" receive --in vb --flows 3 --clock realtime --json > "$D/received.json" 2> "$D/receive.log" & receiver=$!
until_exists "$D/receive.log"
"$F" generate "$LINK" --out va --duration 400ms --flows 3 --dscp ef --kernel-stamps --json > "$D/sent.json"
kill -INT $receiver
wait $receiver
"$F" receive --in vb --flows 3 --clock realtime --out "$D/plots" --window 50ms --script "$FLOWS" > "$D/received.txt" 2> "$D/receive2.log" & receiver=$!
until_exists "$D/receive2.log"
"$F" generate "$TRACE" --out va --json > "$D/trace.json"
"$F" generate "$LINK" --out va --duration 200ms --flows 3 > "$D/sent.txt"
kill -INT $receiver
wait $receiver
"$F" receive --tcp 5201 --json > "$D/tcp-received.json" 2> "$D/tcp.log" & receiver=$!
until_exists "$D/tcp.log"
"$F" generate --tcp 127.0.0.1:5201 --connections 2 --duration 300ms --congestion-control reno --json > "$D/tcp-sent.json"
"$F" generate --tcp 127.0.0.1:5201 --duration 300ms --request 100B --response 2kB --think 1ms > "$D/tcp-sent.txt"
kill -INT $receiver
wait $receiver
"#;

#[test]
fn flows_clocks_traces_and_tcp_are_measured_from_the_command_line() {
    unless_starved(|| {
        let dir = Scratch::new();
        let link = scenario("exp2-H.toml");
        let rows: String = (0..20).map(|n| format!("{},{}\n", f64::from(n) * 0.005, 40 + 60 * n)).collect();
        dir.write("packets.csv", &format!("arrival_s,bytes\n{rows}"));
        let trace = dir.write(
        "trace.toml",
        "duration = '200ms'\n[link]\nrate = '10mbit'\n[[class]]\nname = 'a'\n[[source]]\nclass = 'a'\nmodel = 'trace'\n\
         file = 'packets.csv'\n",
    );
        let simulated = fairlink(&["sim", &trace, "--json"]);
        assert_eq!(simulated.code, 0, "{}", simulated.stderr);
        let Some(run) = in_private_network(
            SCRIPT,
            &dir,
            &[("LINK", &link), ("TRACE", &trace), ("FLOWS", &scenario("htb/one-device.script"))],
        ) else {
            return;
        };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), read("tcp.log"));
        let windows = read("plots/received.csv");
        assert!(
            windows.starts_with("start_s,end_s,class,rate_bps,delay_mean_s,delay_max_s\n") && windows.contains("flow ")
        );
        let drawn = read("plots/received.svg");
        assert!(drawn.contains("0: 90 kB/s") && drawn.contains("longest delay"), "{drawn}");
        let json =
            |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no count: {value}"));

        let (sent, received) = (json("sent.json"), json("received.json"));
        let classes = received["classes"].as_array().expect("a list");
        assert!(sent["departure_after_due_s"]["p99"].is_f64(), "{sent}");
        for class in classes {
            let flows =
                received["flows"].as_array().expect("a list").iter().filter(|flow| flow["class"] == class["class"]);
            let (packets, disorder) = flows.clone().fold((0, 0), |(packets, disorder), flow| {
                (packets + count(&flow["received_packets"]), disorder + count(&flow["reordered_packets"]))
            });
            assert_eq!((flows.count(), packets, disorder), (3, count(&class["received_packets"]), 0), "{received}");
            assert!(class["corrected_delay_s"]["min"].is_f64(), "{class}");
        }
        // One machine has one clock: any estimated jump or skew is below the delay variation of the machine's queues.
        assert_eq!(received["clocks"].as_array().map(Vec::len), Some(1), "{received}");
        assert!(received["clocks"][0]["stretches"][0]["skew"]["value"].is_f64());
        let text = read("received.txt");
        assert!(text.contains("this machine's clock against") && text.contains("corrected delay"), "{text}");
        assert!(read("sent.txt").contains("lateness of frames: p50"), "{}", read("sent.txt"));

        // The trace: 20 packets, of which one is padded from 40 B to the 64 B that carry a stamp. The simulator pads
        // nothing.
        let (replayed, link) = (json("trace.json"), simulated.json());
        let class = &replayed["classes"][0];
        assert_eq!((count(&class["offered_packets"]), count(&class["offered_bytes"])), (20, 12_200), "{class}");
        let of_sim =
            link["runs"][0]["link"]["classes"].as_array().expect("a list").iter().find(|class| class["name"] == "a");
        assert_eq!(of_sim.map(|class| count(&class["counts"]["sent"]["packets"])), Some(20), "{link}");
        if count(&class["late_packets"]) == 0 {
            assert_eq!((count(&class["padded_packets"]), count(&class["sent_bytes"])), (1, 12_224), "{class}");
        }

        let (sent, received) = (json("tcp-sent.json"), json("tcp-received.json"));
        let connections = sent["connections"].as_array().expect("a list");
        assert!(connections.len() == 2 && connections.iter().all(|one| one["congestion_control"] == "reno"), "{sent}");
        assert!(
            sent["goodput_bps"].as_f64().expect("a rate") > 0.0 && connections[0]["rtt_s"]["p50"].is_f64(),
            "{sent}"
        );
        let received = received["connections"].as_array().expect("a list");
        assert_eq!((received.len(), count(&received[0]["requests"])), (3, 0), "{received:?}");
        assert!(received.iter().any(|one| count(&one["requests"]) > 0), "{received:?}");
        assert!(read("tcp-sent.txt").contains("latency p50"), "{}", read("tcp-sent.txt"));
    });
}

/// Video over a cable, in fragments and without.
const FRAGMENTS: &str = r#"
"$F" receive --in vb --json > "$D/received.json" 2> "$D/receive.log" & receiver=$!
until_exists "$D/receive.log"
"$F" generate "$VIDEO" --out va --duration 1s --fragment --ip 6 --json > "$D/sent.json"
sleep 1
kill -INT $receiver
wait $receiver
"$F" generate "$VIDEO" --out va --receive vb --duration 1s --fragment > "$D/both.txt"
"#;

#[test]
fn pictures_are_sent_as_fragments_and_received_whole() {
    unless_starved(|| {
        let dir = Scratch::new();
        let Some(run) = in_private_network(FRAGMENTS, &dir, &[("VIDEO", &scenario("thesis/mpeg.toml"))]) else {
            return;
        };
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        let json = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
        let (sent, received) = (json("sent.json"), json("received.json"));
        let (from, to) = (&sent["classes"][0], &received["classes"][0]);
        // 30 pictures a second, of which 3 are I pictures of ten fragments or more.
        let count = |of: &Value, key: &str| of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"));
        let [pictures, fragments, late] =
            ["fragmented_packets", "fragments", "late_packets"].map(|key| count(from, key));
        // What comes too late is not sent.
        assert!(late > 0 || pictures >= 3 && fragments >= 33, "{pictures} pictures in {fragments} fragments: {from}");
        if count(&received, "socket_drops") == 0 {
            assert_eq!(count(to, "received_packets"), count(from, "sent_packets"));
            assert_eq!(count(to, "received_bytes"), count(from, "sent_bytes"));
            let datagrams = &received["datagrams"];
            assert_eq!(count(&datagrams["classes"][0], "whole"), count(from, "fragmented_packets"));
            assert_eq!(count(datagrams, "fragments"), count(from, "fragments"));
            assert_eq!((count(datagrams, "refused_fragments"), count(to, "lost_packets")), (0, 0));
        }
        let both = read("both.txt");
        assert!(both.contains("were sent as fragments") && both.contains("datagrams whole"), "{both}");
    });
}

/// A cable, and a queue that is longer than a socket's buffer where `tc` is there.
const BOTH: &str = r#"
"$F" generate "$FLOWS" --out va --duration 2s --receive vb --plots "$D/plots" --json > "$D/both.json" 2> "$D/both.log"
"$F" generate "$LINK" --out va --duration 300ms --receive vb > "$D/both.txt" 2>> "$D/both.log"
command -v tc > /dev/null || exit 0
tc qdisc add dev va root tbf rate 400kbit burst 2kb limit 100mb || exit 0
"$F" generate "$BUSY" --out va --duration 1s --json > "$D/busy.json" 2> "$D/busy.log"
"#;

#[test]
fn one_command_sends_and_receives_and_warns_where_a_send_would_block() {
    unless_starved(|| {
        let dir = Scratch::new();
        let busy = dir.write("busy.script", "0\tS\t0\t1000\n0\tR\t0\t2000000\n1000\tX\t0\t0\n");
        let vars = [("LINK", scenario("exp2-H.toml")), ("FLOWS", scenario("htb/one-device.script")), ("BUSY", busy)];
        let vars = vars.each_ref().map(|(name, value)| (*name, value.as_str()));
        let Some(run) = in_private_network(BOTH, &dir, &vars) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), read("both.log"));
        let both: Value =
            serde_json::from_str(&read("both.json")).unwrap_or_else(|error| panic!("{error}: {}", read("both.log")));
        let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no count: {value}"));
        let sent = &both["sent"][0];
        let flow = sent["classes"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|class| count(&class["class"]) == 0)
            .expect("flow 0");
        let received = &both["received"][0];
        assert_eq!((sent["interface"].as_str(), received["interface"].as_str()), (Some("va"), Some("vb")));
        // Two seconds of flow 0 alone at 90 kB/s: what was sent has come, with its delays.
        let heard = received["classes"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|class| count(&class["class"]) == 0)
            .expect("flow 0");
        assert!(count(&flow["sent_packets"]) > 0, "{sent}");
        assert_eq!(
            count(&heard["received_packets"]) + count(&received["socket_drops"]),
            count(&flow["sent_packets"]),
            "{both}"
        );
        assert!(heard["delay_s"]["mean"].is_f64(), "{heard}");
        assert!(read("plots/received.csv").contains(",flow 0,") && read("plots/received.svg").contains("0: 90 kB/s"));
        let text = read("both.txt");
        assert!(text.contains("sent for") && text.contains("vb:\nreceived for"), "{text}");
        let Ok(busy) = serde_json::from_str::<Value>(&read("busy.json")) else {
            eprintln!("SKIPPED: no tc with tbf, so that no queue is long enough to block a send");
            return;
        };
        let flow = &busy["interfaces"][0]["classes"][0];
        if count(&flow["blocked_sends"]) == 0 {
            eprintln!("SKIPPED: the socket's buffer was not filled on this machine: {flow}");
            return;
        }
        let warning = read("busy.log");
        let expected = format!("WARNING: flow 0: {} send", flow["blocked_sends"]);
        assert!(
            warning.contains(&expected) && warning.contains("Shorten that queue, for example with pfifo limit 5"),
            "{warning}"
        );
    });
}

#[test]
fn orders_that_cannot_be_are_refused_with_2() {
    let link = scenario("exp2-H.toml");
    for (args, says) in [
        (&["generate", "--tcp", "5201"][..], "is not an address and port; write 192.0.2.1:5201"),
        (&["generate", &link, "--out", "x", "--tcp", "127.0.0.1:1"], "cannot be used with"),
        (&["generate"], "<SCENARIO>"),
        (&["generate", &link, "--out", "x", "--connections", "2"], "cannot be used with"),
        (&["generate", "--connections", "2"], "<SCENARIO>"),
        (&["generate", "--tcp", "127.0.0.1:1", "--request", "1B"], "--response"),
        (&["generate", "--tcp", "127.0.0.1:1", "--request", "0B", "--response", "1B"], "must not be empty"),
        (&["generate", "--tcp", "127.0.0.1:1"], "start `fairlink receive --tcp 1` there"),
        (&["generate", &link, "--out", "x", "--dscp", "64"], "is not a DSCP"),
        (&["generate", &link, "--out", "x", "--dscp", "ef udp"], "is not a DSCP"),
        (&["generate", &link, "--out", "x", "--ip", "5"], "[possible values: 4, 6]"),
        (&["generate", &link, "--out", "x", "--flows", "0"], "1..=4096"),
        (&["generate", &link, "--out", "x", "--plots", "d"], "--receive"),
        (&["generate", "--tcp", "127.0.0.1:1", "--receive", "x"], "cannot be used with"),
        (&["receive"], "--in"),
        (&["receive", "--tcp", "0"], "0 is not in 1..=65535"),
        (&["receive", "--tcp", "5201", "--in", "x"], "cannot be used with"),
    ] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}
