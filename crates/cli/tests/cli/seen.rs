//! A running gateway seen from outside: `ctl stats --interval`, `ctl watch`, `gateway --metrics`, in a network
//! namespace that ends with the test.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::{Scratch, fairlink, in_private_network, only_link, scenario, unless_starved};

/// Two cables with the gateway between them, and traffic until the end. Waits are bounded and end when their condition
/// holds.
const SCRIPT: &str = r#"
start() {
    "$F" gateway "$LINK" --in vb --out vc --ignore-offloads --control "$D/socket" --metrics 127.0.0.1:0 --json > "$D/$1.json" 2> "$D/$1.log" &
    gateway=$!
    until_exists "$D/socket"
}
start first
"$F" generate "$LINK" --out va --duration 100s > "$D/sent.txt" 2>&1 & generator=$!
ctl() { "$F" ctl "$@" --control "$D/socket"; }
sleep 0.3
ctl stats --interval 400ms --json > "$D/interval.json"
ctl stats --interval 50ms > "$D/interval.txt"
ctl stats > "$D/plain.txt"
ctl stats --json > "$D/plain.json"
ctl stats --interval 0s --json > "$D/now.json"
ctl watch --count 2 --interval 200ms --json > "$D/watch.json"
ctl watch --count 2 --interval 100ms --class B > "$D/watch.txt"
! ctl watch --class nobody 2> "$D/nobody.log"
! ctl stats --link up 2> "$D/up.log"
# A terminal, and Ctrl-C on it.
if command -v script > /dev/null; then
    script -qefc "echo \$\$ > $D/watching; exec $F ctl watch --interval 100ms --control $D/socket" "$D/terminal.txt" < /dev/null > /dev/null & terminal=$!
    until_says "$D/terminal.txt" "of guar."
    kill -INT $(cat "$D/watching")
    wait $terminal || true
fi
# A scraper, twice with more than a second between, where there is something to scrape with.
if command -v bash > /dev/null; then
    port=$(sed -n 's,.*http://127.0.0.1:\([0-9]*\)/metrics.*,\1,p' "$D/first.log")
    scrape() { bash -c 'exec 3<> /dev/tcp/127.0.0.1/'"$port"'; printf "GET /metrics HTTP/1.1\r\n\r\n" >&3; cat <&3'; }
    sleep 1.1
    scrape > "$D/scraped.txt"
fi
# `watch` waits for a gateway that is started again.
ctl watch --count 15 --interval 200ms --json > "$D/again.json" 2> "$D/again.log" & watching=$!
until_exists "$D/again.json"
kill -INT $gateway
wait $gateway
until_says "$D/again.log" "retrying"
start second
wait $watching
kill $generator
kill -INT $gateway
wait $gateway
"#;

#[test]
fn a_running_gateway_is_seen_with_rates_ideals_and_metrics_and_watched_across_a_restart() {
    unless_starved(|| {
        let dir = Scratch::new();
        let link = scenario("exp2-H.toml");
        let Some(run) = in_private_network(SCRIPT, &dir, &[("LINK", &link)]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        let logs = || ["first.log", "second.log", "sent.txt", "again.log", "nobody.log", "up.log"].map(read).join("\n");
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), logs());
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let lines = |name: &str| -> Vec<Value> { read(name).lines().map(|line| only_link(&parsed(line))).collect() };

        let stats = only_link(&parsed(&read("interval.json")));
        assert!(seconds(&stats).unwrap() > 0.0 && stats["gateway"]["balanced"] == true, "{stats}");
        assert_eq!((&stats["name"], &stats["gateway"]["generation"]), (&"vc".into(), &0.into()));
        sums_of_inner_classes_are_those_of_their_leaves(&stats);
        ideals_are_what_fluid_computes(&stats, &link);
        let text = read("interval.txt");
        assert!(text.contains("every packet is accounted for") && text.contains("of guar."), "{text}");

        // Limits of classes are shown without an interval, too.
        let plain = only_link(&parsed(&read("plain.json")));
        assert!(seconds(&plain).is_some_and(|seconds| seconds >= 0.25), "{plain}");
        let leaves = || plain["classes"].as_array().unwrap().iter().filter(|class| class["leaf"] == true);
        for leaf in leaves() {
            let span = span(&plain, leaf);
            let waits = leaf["counts"]["queued"]["packets"] != 0 || span["counts"]["dropped"]["packets"] != 0;
            assert!(waits || span["limit"] == "demand", "{leaf} {span}");
        }
        let held = |cause| leaves().any(|leaf| span(&plain, leaf)["limit"] == cause);
        assert!(held("demand") || held("parent") || held("link"), "{plain}");
        let text = read("plain.txt");
        assert!(text.contains("in the last 2") && !text.contains("of guar."), "{text}");
        let now = only_link(&parsed(&read("now.json")));
        assert!(seconds(&now).is_none() && now["notes"].to_string().contains("omit `--interval 0s`"), "{now}");

        let watched = lines("watch.json");
        assert_eq!(watched.len(), 2);
        for stats in &watched {
            assert!(seconds(stats).unwrap() > 0.0, "{stats}");
            sums_of_inner_classes_are_those_of_their_leaves(stats);
        }
        let tables = read("watch.txt");
        let names = tables.lines().filter_map(|line| line.split_whitespace().next());
        // Lines with ! report delays above their bounds, which depend on the machine.
        let names: Vec<&str> = names.filter(|&name| name != "!").collect();
        assert_eq!(
            names,
            ["vc:", "class", "link", "B", "B1", "B2", "vc:", "class", "link", "B", "B1", "B2"],
            "{tables}"
        );
        assert!(read("nobody.log").contains("the gateway has no class \"nobody\""), "{}", logs());
        assert!(read("up.log").contains("there is no link \"up\"; there are: vc"), "{}", logs());

        let terminal = read("terminal.txt");
        if !terminal.is_empty() {
            // Another screen without a cursor, and back; nothing is drawn before or behind that.
            let begin = terminal.find("\x1b[?1049h\x1b[?25l").unwrap_or_else(|| panic!("{terminal:?}"));
            let end = terminal.rfind("\x1b[?25h\x1b[?1049l").unwrap_or_else(|| panic!("{terminal:?}"));
            assert!(terminal.find("\x1b[H").is_some_and(|first| begin < first), "{terminal:?}");
            assert!(terminal.rfind("\x1b[H").is_some_and(|last| last < end), "{terminal:?}");
            assert!(terminal.contains("of guar.") && terminal.contains("  A1"), "{terminal:?}");
        }
        let scraped = read("scraped.txt");
        if let Some((head, page)) = scraped.split_once("\r\n\r\n") {
            assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
            let value = |name: &str| -> f64 {
                let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {page}"));
                line.rsplit_once(' ').unwrap().1.parse().unwrap()
            };
            assert!(value("fairlink_class_sent_packets_total{link=\"vc\",class=\"A\",leaf=\"false\"}") > 0.0);
            assert!(value("fairlink_class_ideal_bits_per_second{link=\"vc\",class=\"A1\",leaf=\"true\"}") > 0.0);
            assert!(value("fairlink_link_rate_bits_per_second{link=\"vc\"}") > 0.0);
            assert!(page.ends_with("# EOF\n"));
        }
        let again = lines("again.json");
        assert_eq!(again.len(), 15, "{}", logs());
        let uptimes: Vec<f64> = again.iter().map(|stats| stats["gateway"]["uptime_s"].as_f64().unwrap()).collect();
        assert!(uptimes.windows(2).any(|pair| pair[1] < pair[0]), "the second gateway is younger: {uptimes:?}");
        // The final output of the gateway has the sums too.
        sums_of_inner_classes_are_those_of_their_leaves(&only_link(&parsed(&read("first.json"))));
    });
}

/// The length of the interval in seconds.
fn seconds(stats: &Value) -> Option<f64> {
    let span = &stats["spans"][0];
    Some(span["end_s"].as_f64()? - span["start_s"].as_f64()?)
}

/// The class in the interval.
fn span(stats: &Value, class: &Value) -> Value {
    let classes = stats["spans"][0]["classes"].as_array().unwrap();
    classes.iter().find(|of| of["name"] == class["name"]).unwrap_or_else(|| panic!("{class}: {stats}")).clone()
}

fn sums_of_inner_classes_are_those_of_their_leaves(stats: &Value) {
    let classes = stats["classes"].as_array().unwrap();
    let count = |class: &Value, what: &str, unit: &str| class["counts"][what][unit].as_u64().unwrap();
    for (what, unit) in
        ["received", "sent", "dropped", "queued"].iter().flat_map(|what| [(what, "packets"), (what, "bytes")])
    {
        let leaves = || classes.iter().filter(|class| class["leaf"] == true);
        assert_eq!(leaves().map(|class| count(class, what, unit)).sum::<u64>(), count(stats, what, unit), "{what}");
        for inner in classes.iter().filter(|class| class["leaf"] == false) {
            let below = leaves().filter(|leaf| leaf["parent"] == inner["name"]);
            assert_eq!(below.map(|class| count(class, what, unit)).sum::<u64>(), count(inner, what, unit), "{inner}");
        }
    }
    let inner: Vec<_> = classes.iter().filter(|class| class["leaf"] == false).map(|class| &class["name"]).collect();
    assert_eq!(inner, ["A", "B"]);
}

/// The ideal of each class is what `fairlink fluid` computes for the demands that stand beside it.
fn ideals_are_what_fluid_computes(stats: &Value, link: &str) {
    let classes = stats["classes"].as_array().unwrap();
    let bps = |class: &Value, what: &str| {
        span(stats, class)["rates"][what].as_f64().unwrap_or_else(|| panic!("{what}: {class}"))
    };
    let demands = classes.iter().filter(|class| class["leaf"] == true && bps(class, "demand_bps") >= 1.0);
    let demands: Vec<String> = demands
        .map(|class| format!("{}={}bit", class["name"].as_str().unwrap(), bps(class, "demand_bps").floor()))
        .collect();
    let fluid = fairlink(&["fluid", link, "--demand", &demands.join(","), "--json"]).quiet().json();
    let allocations: BTreeMap<&str, f64> = fluid["link"]["classes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|class| (class["name"].as_str().unwrap(), class["ideal"]["allocation_bps"].as_f64().unwrap()))
        .collect();
    for class in classes {
        let (ideal, exact) = (bps(class, "ideal_bps"), allocations[class["name"].as_str().unwrap()]);
        // Whole bit/s at each of two levels.
        assert!((ideal - exact).abs() <= 2.0, "{}: {ideal} for {exact}, demands {demands:?}", class["name"]);
    }
}

#[test]
fn what_cannot_be_watched_or_served_is_refused_with_2() {
    let link = scenario("exp2-H.toml");
    for (args, says) in [
        (&["ctl", "watch", "--control", "/no/such/socket"][..], "/no/such/socket"),
        (&["ctl", "watch", "--interval", "1ms"], "at least 10ms and at most 3600s"),
        (&["ctl", "watch", "--interval", "2h"], "no unit of a time"),
        (&["ctl", "watch", "--count", "0"], "1.."),
        (&["ctl", "stats", "--interval", "4000s"], "at least 10ms and at most 3600s"),
        (&["gateway", &link, "--in", "a", "--out", "b", "--metrics", "9400"], "such as 127.0.0.1:9400"),
        (&["gateway", &link, "--in", "a", "--out", "b", "--metrics", "localhost:9400"], "such as 127.0.0.1:9400"),
    ] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

/// A gateway with 200 classes, of which the last one gets all frames.
const MANY: &str = r#"
"$F" gateway "$D/many.toml" --in vb --out vc --ignore-offloads --control "$D/socket" > "$D/end.txt" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
"$F" generate "$D/one.toml" --out va --duration 200ms > /dev/null
until_true '"$F" ctl stats --control "$D/socket" | grep -q "^ *last  *[1-9]"'
"$F" ctl stats --control "$D/socket" --interval 50ms > "$D/few.txt"
"$F" ctl stats --control "$D/socket" --all > "$D/all.txt"
"$F" ctl stats --control "$D/socket" --json > "$D/all.json"
kill -INT $gateway
wait $gateway
"#;

#[test]
fn of_many_classes_the_busiest_are_shown_with_those_above_them_and_all_where_they_are_asked_for() {
    unless_starved(|| {
        let dir = Scratch::new();
        let mut text = "[link]\nrate = \"100mbit\"\ndefault = \"last\"\n[[class]]\nname = \"top\"\n".to_owned();
        for class in 1..=198 {
            text += &format!("[[class]]\nname = \"c{class}\"\nmatch = \"udp dst port {class}\"\nbuffer = \"10p\"\n");
        }
        dir.write("many.toml", &(text + "[[class]]\nname = \"last\"\nparent = \"top\"\nmatch = \"any\"\n"));
        let source = "[[source]]\nclass = \"all\"\nmodel = \"cbr\"\npacket = \"500B\"\nrate = \"2mbit\"\n";
        let class = "[link]\nrate = \"10mbit\"\n[[class]]\nname = \"all\"\nmatch = [\"udp dst port 5001\", \"any\"]\n";
        dir.write("one.toml", &format!("duration = \"1s\"\n{class}{source}"));
        let Some(run) = in_private_network(MANY, &dir, &[]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), read("gateway.log"));
        let [few, all, end] = ["few.txt", "all.txt", "end.txt"].map(read);
        let rows = |text: &str| {
            text.lines().take_while(|line| !line.contains(" classes:") && !line.starts_with("delay")).count()
        };
        let is_there = |text: &str, name: &str| text.lines().any(|line| line.split_whitespace().next() == Some(name));
        for text in [&few, &end] {
            assert!(text.contains("65 of 200 classes, by bytes received"), "{text}");
            assert!(["top", "last", "c1", "c63"].iter().all(|name| is_there(text, name)), "{text}");
            assert!(!is_there(text, "c64") && !is_there(text, "c198"), "{text}");
        }
        assert!(rows(&few) < 70 && few.lines().count() < 150, "{few}");
        assert!(is_there(&all, "c64") && is_there(&all, "c198") && !all.contains(" classes, by bytes"), "{all}");
        let json: Value = serde_json::from_str(&read("all.json")).unwrap();
        assert_eq!(only_link(&json)["classes"].as_array().map(Vec::len), Some(200));
    });
}
