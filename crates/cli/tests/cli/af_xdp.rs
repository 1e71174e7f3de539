//! `fairlink gateway --backend` on real packets, in a network namespace that ends with the test.

use std::fs;

use serde_json::Value;

use crate::{Scratch, fairlink, in_network, only_link, unless_starved};

const LINK: &str = r#"
duration = "1s"
[link]
rate = "50mbit"
default = "b"
buffer = "200p"
[[class]]
name = "a"
guarantee = "20mbit"
match = ["udp dst port 5001"]
[[class]]
name = "b"
guarantee = "30mbit"
[[source]]
class = "a"
model = "cbr"
rate = "10mbit"
packet = "1000B"
"#;

/// A gateway over AF_XDP with frames through it, and two that cannot be.
const SCRIPT: &str = r#"
"$F" receive --in vd --json > "$D/received.json" 2> "$D/receive.log" & receiver=$!
"$F" gateway "$D/link.toml" --in vb --out vc --backend af_xdp --control "$D/one" --drain 5s --json > "$D/one.json" 2> "$D/one.log" & gateway=$!
until_exists "$D/one"
until_exists "$D/receive.log"
"$F" generate "$D/link.toml" --out va --duration 300ms --json > "$D/sent.json"
"$F" ctl reload "$D/small.toml" --control "$D/one" > "$D/small.txt"
"$F" ctl reload "$D/large.toml" --control "$D/one" 2> "$D/large.log" || echo $? > "$D/large.code"
"$F" ctl stats --control "$D/one" --json > "$D/stats.json"
kill -INT $gateway
wait $gateway
kill -INT $receiver
wait $receiver
if command -v setpriv > "$D/setpriv"; then
    setpriv --bounding-set=-ipc_lock sh -c 'ulimit -l 64; exec "$F" gateway "$D/link.toml" --in vb --out vc --backend af_xdp --control "$D/locked"' \
        > /dev/null 2> "$D/locked.log" & gateway=$!
    until_exists "$D/locked"
    kill -INT $gateway
    wait $gateway
fi
for name in va vb vc vd; do ip link set $name mtu 9000; done
"$F" gateway "$D/link.toml" --in vb --out vc --backend af_xdp --control "$D/two" --json > "$D/two.json" 2> "$D/two.log" & gateway=$!
until_exists "$D/two"
kill -INT $gateway
wait $gateway
"#;

#[test]
fn frames_move_by_af_xdp_or_it_is_said_why_not() {
    unless_starved(|| {
        let dir = Scratch::new();
        dir.write("link.toml", LINK);
        dir.write("small.toml", &LINK.replace("20mbit", "10mbit"));
        dir.write("large.toml", &LINK.replace("200p", "100000p"));
        // Programs in the kernel take root, not the root of a user namespace.
        let Some(run) = in_network(&["--net"], SCRIPT, &dir, &[]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        if let Some(why) = read("one.log").lines().find(|line| line.contains("falls back")) {
            println!("SKIPPED: {why}");
            return;
        }
        let logs = ["one.log", "two.log", "locked.log", "large.log", "receive.log"].map(read).join("\n");
        assert!(run.status.success(), "{}{logs}", String::from_utf8_lossy(&run.stderr));
        assert!(read("one.log").contains("backends: vb by af_xdp (copies), vc by af_xdp (copies)"), "{logs}");
        let json =
            |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for name in ["stats.json", "one.json"] {
            let stats = only_link(&json(name));
            let interfaces = stats["gateway"]["interfaces"].as_array().expect("a list");
            let told: Vec<_> =
                interfaces.iter().map(|interface| interface["name"].as_str().unwrap_or_default()).collect();
            assert_eq!(told, ["vb", "vc"]);
            assert!(
                interfaces.iter().all(|at| at["backend"] == "af_xdp" && at["zero_copy"] == false),
                "{interfaces:?}"
            );
        }
        let (stats, sent) = (only_link(&json("one.json")), json("sent.json"));
        let missed = stats["gateway"]["kernel_dropped_packets"].as_u64().expect("a number");
        let received = stats["classes"][0]["counts"]["received"]["packets"].as_u64().expect("a number");
        assert_eq!(Some(received + missed), sent["classes"][0]["sent_packets"].as_u64(), "{stats}");
        assert_eq!(
            (stats["gateway"]["balanced"].as_bool(), stats["gateway"]["generation"].as_u64()),
            (Some(true), Some(1)),
            "{stats}"
        );

        // Memory registered with the kernel cannot grow.
        assert_eq!(read("large.code").trim(), "2", "{logs}");
        for part in ["2000 packets", "cannot grow", "lower buffer in [link]", "--take-over", "--pool-frames"] {
            assert!(read("large.log").contains(part), "{part}: {}", read("large.log"));
        }
        if read("setpriv").is_empty() {
            println!("SKIPPED: no setpriv");
        } else {
            assert!(read("locked.log").contains("falls back to AF_PACKET: vb: registering"), "{logs}");
            assert!(read("locked.log").contains("`ulimit -l`"), "{logs}");
            assert!(read("locked.log").contains("backends: vb by af_packet, vc by af_packet"), "{logs}");
        }
        assert!(
            read("two.log").contains("limits the mtu to 3818, but it is 9000: `ip link set vb mtu 3818`"),
            "{logs}"
        );
        assert_eq!(only_link(&json("two.json"))["gateway"]["interfaces"][1]["backend"], "af_packet");
    });
}

#[test]
fn a_backend_that_there_is_not_is_refused_with_those_that_there_are() {
    let run = fairlink(&["gateway", "no.toml", "--in", "a", "--out", "b", "--backend", "dpdk"]);
    assert_eq!(run.code, 2);
    let said = run.stderr;
    for name in ["auto", "af_packet", "af_xdp"] {
        assert!(said.contains(name), "{said}");
    }
}
