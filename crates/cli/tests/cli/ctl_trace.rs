//! `fairlink ctl trace`: what passes a running gateway in a file, in a network namespace that ends with the test.

use std::fs;

use serde_json::Value;

use crate::{Scratch, fairlink, in_private_network, scenario, unless_starved};

/// Two cables with the gateway between them. Waits are bounded and end when their condition holds.
const SCRIPT: &str = r#"
"$F" gateway "$LINK" --in vb --out vc --ignore-offloads --fail-open never --control "$D/socket" --drain 5s --json \
    > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
# What passes, in both formats; the first one ends at a limit, the second with Ctrl-C.
"$F" ctl trace "$D/t.pcapng" --control "$D/socket" --duration 2s --json > "$D/trace.json" 2> "$D/trace.log" & tracer=$!
until_says "$D/trace.log" recording
! "$F" ctl trace "$D/no.csv" --control "$D/socket" 2> "$D/busy.log"
"$F" generate "$LINK" --out va --duration 200ms --json > "$D/traced.json"
wait $tracer
"$F" ctl trace "$D/t.csv" --control "$D/socket" --json > "$D/table.json" 2> "$D/table.log" & tracer=$!
until_says "$D/table.log" recording
"$F" generate "$LINK" --out va --duration 200ms > /dev/null
kill -INT $tracer
wait $tracer
"$F" ctl trace "$D/some.csv" --control "$D/socket" --packets 5 --json > "$D/some.json" 2> "$D/some.log" & tracer=$!
until_says "$D/some.log" recording
"$F" generate "$LINK" --out va --duration 100ms > /dev/null
wait $tracer
ln -s /dev/full "$D/full.csv"
! "$F" ctl trace "$D/full.csv" --control "$D/socket" 2> "$D/full.log"
! "$F" ctl trace "$D/nowhere/t.csv" --control "$D/socket" 2> "$D/nowhere.log"
# The recording client is killed: the gateway continues, and another client may record. That one ends with the gateway.
"$F" ctl trace "$D/killed.pcapng" --control "$D/socket" 2> "$D/killed.log" & tracer=$!
until_says "$D/killed.log" recording
kill -KILL $tracer
wait $tracer || true
n=0; until "$F" ctl trace "$D/last.csv" --control "$D/socket" --packets 1000000 --json > "$D/last.json" 2> "$D/last.log"; do
    n=$((n + 1)); [ $n -lt 50 ]; sleep 0.1; done & tracer=$!
until_says "$D/last.log" recording
kill -INT $gateway
wait $gateway
wait $tracer
# A gateway that is killed while it is traced.
"$F" gateway "$LINK" --in vb --out vc --ignore-offloads --control "$D/kill" > /dev/null 2>&1 & gateway=$!
until_exists "$D/kill"
(! "$F" ctl trace "$D/cut.pcapng" --control "$D/kill" 2> "$D/cut.log") & tracer=$!
until_says "$D/cut.log" recording
"$F" generate "$LINK" --out va --duration 100ms > /dev/null
kill -KILL $gateway
wait $gateway || true
wait $tracer
"#;

#[test]
fn what_passes_a_gateway_is_recorded_with_its_classes_and_replays_as_it_was() {
    unless_starved(|| {
        let dir = Scratch::new();
        let link = scenario("exp2-H.toml");
        let Some(run) = in_private_network(SCRIPT, &dir, &[("LINK", &link)]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        let names = ["gateway", "trace", "busy", "table", "some", "full", "nowhere", "killed", "last", "cut"];
        let logs = || names.map(|name| format!("{name}: {}", read(&format!("{name}.log")))).concat();
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), logs());
        let json =
            |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (trace, sent) = (json("trace.json"), json("traced.json"));
        let count = |document: &Value, key: &str| document[key].as_u64().unwrap_or_else(|| panic!("{key}: {document}"));
        assert_eq!((&trace["ended"], count(&trace, "missed_packets")), (&"duration".into(), 0), "{trace}");
        assert!(read("trace.log").contains("vb to vc: recording into"), "{}", read("trace.log"));
        assert!(read("busy.log").contains("one at a time"), "{}", read("busy.log"));
        // Each class is replayed by the frames of a match, and by its name in the table.
        let offered: u64 = sent["classes"].as_array().unwrap().iter().map(|class| count(class, "sent_packets")).sum();
        // The number of kernel drops before the gateway depends on speed.
        assert!((1..=offered).contains(&count(&trace, "packets")), "{trace} {sent}");
        let text = fs::read_to_string(&link).unwrap();
        let (head, _) = text.split_at(text.find("[[source]]").unwrap());
        let source = |class: &str, more: &str| format!("[[source]]\nclass = \"{class}\"\nmodel = \"trace\"\n{more}\n");
        let all = source("C", "file = \"t.pcapng\"");
        let replay = dir.write("replay.toml", &format!("{head}{all}"));
        let sim = fairlink(&["sim", &replay, "--trace", &dir.path("again.csv"), "--json"]);
        assert_eq!(sim.code, 0, "{}", sim.stderr);
        let sim = sim.json();
        let classes = sim["runs"][0]["link"]["classes"].as_array().unwrap();
        let replayed = classes.iter().find(|class| class["name"] == "C").unwrap();
        assert_eq!(replayed["counts"]["received"]["packets"], trace["packets"]);
        // The table's own times and lengths, class by class, to the nanosecond.
        let rows = |name: &str| -> Vec<Vec<String>> {
            let text = read(name);
            text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
        };
        let table = rows("t.csv");
        assert_eq!(table.len() as u64, count(&json("table.json"), "packets"));
        assert_eq!(json("table.json")["ended"], "asked");
        let of_class =
            ["A1", "B2", "C"].map(|class| source(class, &format!("file = \"t.csv\"\nof_class = \"{class}\"")));
        let replay = dir.write("table.toml", &format!("{head}{}", of_class.concat()));
        let sim = fairlink(&["sim", &replay, "--trace", &dir.path("table-again.csv"), "--json"]);
        assert_eq!(sim.code, 0, "{}", sim.stderr);
        let again = rows("table-again.csv");
        assert_eq!(table.len(), again.len());
        let nanos = |text: &str| text.replace('.', "").parse::<u64>().unwrap();
        let key = |row: &Vec<String>, begin: u64| (nanos(&row[2]) - begin, row[1].clone(), row[5].clone());
        let begin = nanos(&table[0][2]);
        let sorted = |rows: &[Vec<String>], begin| {
            let mut keys: Vec<_> = rows.iter().map(|row| key(row, begin)).collect();
            keys.sort();
            keys
        };
        assert_eq!(sorted(&table, begin), sorted(&again, 0));
        assert!(table.iter().all(|row| row[7].is_empty() != row[9].is_empty()), "a delay, or why it was dropped");
        // Limits, full disks, invalid paths, and unexpected ends.
        assert_eq!((rows("some.csv").len(), &json("some.json")["ended"]), (5, &"packets".into()));
        assert!(read("full.log").contains("full.csv: No space left"), "{}", read("full.log"));
        assert!(read("nowhere.log").contains("nowhere/t.csv: No such file"), "{}", read("nowhere.log"));
        assert_eq!(json("last.json")["ended"], "gateway", "{}", read("last.log"));
        assert!(read("last.log").contains("the gateway has ended"), "{}", read("last.log"));
        assert!(read("cut.log").contains("the gateway was killed"), "{}", read("cut.log"));
        let cut = dir.write("cut.toml", &format!("{head}{}", source("C", "file = \"cut.pcapng\"")));
        let run = fairlink(&["sim", &cut, "--json"]);
        assert_eq!(run.code, 0, "it is closed properly: {}", run.stderr);
    });
}
