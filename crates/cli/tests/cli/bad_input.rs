//! A running gateway with invalid or costly requests: it answers clearly, keeps the old state, and accounts for all
//! packets. The traffic exceeds the link, so that queues are full.

use std::fs;

use serde_json::Value;

use crate::{Scratch, in_private_network, only_link, unless_starved};

const SCRIPT: &str = r#"
ctl() { "$F" ctl "$@" --control "$D/socket"; }
refused() { name=$1; shift; if ctl "$@" > "$D/$name.log" 2>&1; then exit 1; else echo "exit $?" >> "$D/$name.log"; fi; }
until_queued() { until_true "ctl stats | awk '\$1 == \"a\" && \$5 > 100 { found = 1 } END { exit !found }'"; }
"$F" receive --in vd --link "$D/link.toml" --json > "$D/received.json" 2> "$D/receive.log" & receiver=$!
"$F" gateway "$D/link.toml" --in vb --out vc --ignore-offloads --fail-open never --control "$D/socket" --metrics 127.0.0.1:0 --drain 5s --json \
    > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
until_exists "$D/receive.log"
"$F" generate "$D/link.toml" --out va --duration 60s > "$D/sent.json" 2>&1 & generator=$!
until_queued

refused twice reload "$D/twice.toml"
refused unknown reload "$D/unknown.toml"
refused parent reload "$D/parent.toml"
refused curves reload "$D/curves.toml"
refused memory reload "$D/memory.toml"
refused default reload "$D/default.toml"
refused empty reload "$D/empty"
refused heir reload "$D/without.toml" --move b=nobody
refused whose reload "$D/without.toml" --move nobody=a
refused stays reload "$D/without.toml" --move a=c
refused double reload "$D/without.toml" --move b=a --move b=c
refused inner reload "$D/tree.toml" --move b=top
refused rate rate a 5mbit
refused most rate link 0bit
ctl stats --json > "$D/kept.json"

ctl reload "$D/without.toml" --json > "$D/removed.json"
ctl stats --json > "$D/without.json"
ctl reload "$D/link.toml" > /dev/null
until_queued
ctl reload "$D/small.toml" --json > "$D/small.json"
ctl reload "$D/link.toml" > /dev/null
until_queued
ctl reload "$D/small-drr.toml" --json > "$D/small-drr.json"
ctl reload "$D/tree.toml" > /dev/null

# Clients that send requests and read no answer, and more at once than the limit.
stalled=
for number in $(seq 40); do "$F" ctl watch --control "$D/socket" --interval 10ms > /dev/null 2>&1 & stalled="$stalled $!"; done
sleep 0.3
for one in $stalled; do kill -STOP $one 2> /dev/null || true; done
ctl stats --json > "$D/beside.json"
asking=
for number in $(seq 60); do "$F" ctl stats --control "$D/socket" --json > "$D/flood-$number.json" 2>> "$D/flood.log" & asking="$asking $!"; done
for one in $asking; do wait $one || true; done
ctl reload "$D/link.toml" --json > "$D/last.json"
# Scrapers that hang, where there is something to scrape with. The end waits for none of them.
if command -v bash > /dev/null; then
    port=$(sed -n 's,.*http://127.0.0.1:\([0-9]*\)/metrics.*,\1,p' "$D/gateway.log")
    for number in $(seq 20); do bash -c 'exec 3<> /dev/tcp/127.0.0.1/'"$port"'; printf "GET /met" >&3; exec sleep 100' > /dev/null 2>&1 & done
    bash -c 'exec 3<> /dev/tcp/127.0.0.1/'"$port"'; printf "GET /metrics HTTP/1.1\r\n\r\n" >&3; cat <&3' > "$D/scraped.txt"
fi
kill -INT $generator
wait $generator || true
kill -INT $gateway
wait $gateway
for one in $stalled; do kill -KILL $one 2> /dev/null || true; done
kill -INT $receiver
wait $receiver
"#;

const SOURCES: &str = "[[source]]\nclass = \"a\"\nmodel = \"cbr\"\npacket = \"500B\"\nrate = \"3mbit\"\n\
                       [[source]]\nclass = \"b\"\nmodel = \"cbr\"\npacket = \"500B\"\nrate = \"3mbit\"\n\
                       [[source]]\nclass = \"c\"\nmodel = \"cbr\"\npacket = \"500B\"\nrate = \"3mbit\"\n";

fn class(name: &str, port: u16, more: &str) -> String {
    format!("[[class]]\nname = \"{name}\"\nmatch = \"udp dst port {port}\"\n{more}")
}

#[test]
fn what_a_running_gateway_should_not_take_is_answered_clearly_and_changes_and_loses_nothing() {
    unless_starved(|| {
        let dir = Scratch::new();
        let head = "duration = \"60s\"\n[link]\nrate = \"4mbit\"\nscheduler = \"hls\"\ndefault = \"c\"\n";
        let file = |buffer: u32| {
            let buffer = format!("weight = 1\nbuffer = \"{buffer}p\"\n");
            let [a, b, c] = [("a", 5001), ("b", 5002), ("c", 5003)].map(|(name, port)| class(name, port, &buffer));
            (format!("{head}{a}{b}{c}{SOURCES}"), a, b, c)
        };
        let (link, a, b, c) = file(500);
        let (small, ..) = file(20);
        dir.write("link.toml", &link);
        dir.write("twice.toml", &format!("{head}{a}{b}{b}{c}"));
        dir.write("unknown.toml", &link.replace("weight = 1", "wieght = 1"));
        dir.write("parent.toml", &link.replacen("weight = 1", "weight = 1\nparent = \"nobody\"", 1));
        dir.write("curves.toml", &link.replacen("weight = 1", "weight = 1\nreal_time = { rate = \"1mbit\" }", 1));
        dir.write("memory.toml", &link.replacen("[link]", "[link]\nmemory = \"100kB\"", 1));
        dir.write("default.toml", &link.replacen("default = \"c\"", "default = \"nobody\"", 1));
        dir.write("empty", "");
        dir.write("without.toml", &format!("{head}{a}{c}"));
        dir.write("small.toml", &small);
        dir.write("small-drr.toml", &small.replace("\"hls\"", "\"drr\""));
        let inner = "[[class]]\nname = \"top\"\nweight = 2\n";
        dir.write(
            "tree.toml",
            &format!("{head}{inner}{a}{c}").replacen("weight = 1", "weight = 1\nparent = \"top\"", 1),
        );
        let Some(run) = in_private_network(SCRIPT, &dir, &[]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        let logs = ["most", "rate", "inner", "empty", "flood", "gateway"].map(|name| read(&format!("{name}.log")));
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), logs.concat());
        let json =
            |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));

        for (name, says) in [
            ("twice", "twice.toml:17:8: error: there are two classes named \"b\""),
            ("unknown", "wieght"),
            ("parent", "nobody"),
            ("curves", "curves.toml:10:13: error: "),
            ("memory", "are allowed; lower buffer in [link], or raise memory"),
            ("default", "nobody"),
            ("empty", "empty"),
            ("heir", "there is no class nobody after the change; there are"),
            ("whose", "there is no class nobody before the change; there are"),
            ("stays", "a is still there after the change and keeps its packets"),
            ("double", "b is moved twice"),
            ("inner", "top is not a leaf after the change"),
            ("rate", "a has no guarantee but a weight"),
            ("most", "0"),
        ] {
            let said = read(&format!("{name}.log"));
            assert!(said.contains(says) && said.ends_with("exit 2\n"), "{name} does not say {says:?}: {said}");
        }
        let kept = only_link(&json("kept.json"));
        assert_eq!((&kept["gateway"]["generation"], &kept["scheduler"]), (&0.into(), &"hls".into()), "{kept}");

        // Changes that drop packets report the number, and the packets are counted where they were.
        let removed = json("removed.json")["links"][0]["committed"].clone();
        let (dropped, kept) = (removed["removed_packets"].as_u64().unwrap(), removed["kept_packets"].as_u64().unwrap());
        assert!(
            dropped > 0 && kept > 0 && removed["dropped_packets"] == 0,
            "drops with the class, and others: {removed}"
        );
        let without = only_link(&json("without.json"));
        assert_eq!(
            without["gateway"]["removed"]["counts"]["dropped_by"]["class_removed"]["packets"], dropped,
            "{without}"
        );
        // Packets beyond a smaller buffer may still leave, unless the scheduler changes too.
        let small = json("small.json")["links"][0]["committed"].clone();
        assert_eq!((&small["removed_packets"], &small["dropped_packets"]), (&0.into(), &0.into()), "{small}");
        assert!(small["kept_packets"].as_u64() > Some(100), "{small}");
        let drr = json("small-drr.json")["links"][0]["committed"].clone();
        assert!(drr["dropped_packets"].as_u64() > Some(0) && drr["kept_packets"].as_u64() <= Some(60), "{drr}");

        // No request beside the stalled ones was refused.
        assert_eq!(read("flood.log"), "", "requests without an answer");
        for number in 1..=60 {
            assert_eq!(only_link(&json(&format!("flood-{number}.json")))["gateway"]["balanced"], true);
        }
        assert_eq!(only_link(&json("beside.json"))["gateway"]["balanced"], true);
        assert!(json("last.json")["links"][0]["committed"]["generation"].as_u64() >= Some(7));
        if !read("scraped.txt").is_empty() {
            assert!(read("scraped.txt").contains("fairlink_gateway_up"), "{}", read("scraped.txt"));
        }

        let (gateway, received) = (only_link(&json("gateway.json")), json("received.json"));
        assert_eq!(
            (&gateway["gateway"]["balanced"], &gateway["counts"]["queued"]["packets"]),
            (&true.into(), &0.into()),
            "{gateway}"
        );
        let classes = received["classes"].as_array().expect("a list");
        let arrived: u64 = classes.iter().map(|class| class["received_packets"].as_u64().unwrap()).sum();
        assert_eq!(gateway["counts"]["sent"]["packets"], arrived, "{gateway} {received}");
        for class in classes {
            assert_eq!(class["duplicate_packets"], 0, "{class}");
            // Frames of b went to c's queue and back.
            assert!(class["name"] == "b" || class["reordered_packets"] == 0, "{class}");
        }
    });
}
