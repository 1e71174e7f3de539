//! Templates and tables of classes, from the command line to a gateway.

use std::fs;

use serde_json::Value;

use crate::{Scratch, fairlink, in_private_network, only_link, scenario, unless_starved};

const LINK: &str = r#"
[link]
rate = "100mbit"
default = "rest"
[template.sold]
guarantee = "10mbit"
[[classes]]
from = "sold.csv"
template = "sold"
[[class]]
name = "rest"
template = "sold"
"#;

/// The gateway reads its table again at SIGHUP, and accepts another file whose table it cannot read itself.
const SCRIPT: &str = r#"
"$F" gateway "$D/link.toml" --in vb --out vc --ignore-offloads --control "$D/socket" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
"$F" ctl stats --json --control "$D/socket" > "$D/before.json"
printf 'name,match\nada,udp dst port 1\nben,udp dst port 2\n' > "$D/sold.csv"
kill -HUP $gateway
until_says "$D/gateway.log" "reload: change"
"$F" ctl stats --json --control "$D/socket" > "$D/after.json"
printf 'name,match\nada,udp dst port 1\nben,udp dst prt 2\n' > "$D/sold.csv"
kill -HUP $gateway
until_says "$D/gateway.log" "reload refused"
"$F" ctl reload "$D/elsewhere/link.toml" --control "$D/socket" > "$D/elsewhere.txt"
"$F" ctl stats --json --control "$D/socket" > "$D/last.json"
kill -INT $gateway
wait $gateway
"#;

#[test]
fn a_gateway_reads_tables_again_and_takes_a_file_whose_table_only_the_client_can_read() {
    unless_starved(|| {
        let dir = Scratch::new();
        dir.write("link.toml", LINK);
        dir.write("sold.csv", "name,match\nada,udp dst port 1\n");
        fs::create_dir(dir.path("elsewhere")).unwrap();
        dir.write("elsewhere/link.toml", LINK);
        dir.write("elsewhere/sold.csv", "name,match\nben,udp dst port 2\ncid,udp dst port 3\n");
        let Some(run) = in_private_network(SCRIPT, &dir, &[]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), read("gateway.log"));
        let classes = |name: &str| -> Vec<String> {
            let stats: Value = serde_json::from_str(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let stats = only_link(&stats);
            let classes = stats["classes"].as_array().unwrap();
            classes.iter().map(|class| class["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(classes("before.json"), ["ada", "rest"]);
        assert_eq!(classes("after.json"), ["ada", "ben", "rest"]);
        assert!(read("gateway.log").contains("sold.csv:3:1: error: "), "{}", read("gateway.log"));
        assert_eq!(classes("last.json"), ["ben", "cid", "rest"], "{}", read("elsewhere.txt"));
    });
}

#[test]
fn what_expand_prints_is_what_the_file_says() {
    let dir = Scratch::new();
    let written = fairlink(&["expand", &scenario("provider.toml")]).stdout;
    let is_gone = |line: &str| !["template", "[template", "[[classes]]"].iter().any(|word| line.starts_with(word));
    assert!(written.lines().all(is_gone), "{written}");
    dir.write("written.toml", &written);
    let check = |path: &str| fairlink(&["check", path, "--json"]).stdout;
    assert_eq!(check(&dir.path("written.toml")), check(&scenario("provider.toml")));
    let again = fairlink(&["expand", &dir.path("written.toml")]);
    assert_eq!(again.stdout, written);
    let json: Value =
        serde_json::from_str(&fairlink(&["expand", &scenario("provider.toml"), "--json"]).stdout).unwrap();
    assert_eq!(json["text"], written);
    assert!(json["tables"][0].as_str().unwrap().ends_with("scenarios/subscribers.csv"), "{json}");
}

#[test]
fn what_is_wrong_with_a_table_is_said_of_its_row_and_nothing_is_printed() {
    let dir = Scratch::new();
    dir.write("link.toml", LINK);
    for (table, says) in [
        ("name,guarantee\nada,1mbit\nben,1mbit,x\n", "sold.csv:3:1"),
        ("name,guarantee\nada,1 mbps\n", "sold.csv:2:1"),
        ("name,guarantee\nada,1mbit\nada,2mbit\n", "sold.csv:3:1"),
        ("name,parent\nada,nobody\n", "sold.csv:2:1"),
    ] {
        dir.write("sold.csv", table);
        let run = fairlink(&["check", &dir.path("link.toml")]);
        assert!(run.code == 2 && run.stderr.contains(says), "{table:?}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{}", run.stdout);
    }
    fs::remove_file(dir.path("sold.csv")).unwrap();
    let run = fairlink(&["expand", &dir.path("link.toml")]);
    assert!(run.code == 2 && run.stderr.contains("sold.csv") && run.stdout.is_empty(), "{}", run.stderr);
}
