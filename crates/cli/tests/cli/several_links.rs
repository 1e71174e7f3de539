//! `fairlink gateway` with several links in one process, in a network namespace that ends with the test; and its
//! errors.

use std::fs;

use serde_json::Value;

use crate::{Scratch, fairlink, in_private_network, only_link, unless_starved};

const SCRIPT: &str = r#"
ctl() { "$F" ctl "$@" --control "$D/socket"; }
"$F" receive --in vd --link "$D/down.toml" --json > "$D/down.json" 2> "$D/down.log" & down=$!
"$F" receive --in va --link "$D/up.toml" --json > "$D/up.json" 2> "$D/up.log" & up=$!
"$F" gateway "$D/links.toml" --ignore-offloads --fail-open never --control "$D/socket" --drain 5s --json \
    > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
until_exists "$D/down.log"
until_exists "$D/up.log"
"$F" generate "$D/down.toml" --out va --duration 1s > /dev/null & one=$!
"$F" generate "$D/up.toml" --out vd --duration 1s > /dev/null & other=$!
ctl stats > "$D/stats.txt"
ctl stats --link up --json > "$D/stats-up.json"
! ctl rate link 5mbit 2> "$D/which.log"
ctl rate link 5mbit --link up --json > "$D/rate.json"
! ctl stats --link sideways 2> "$D/sideways.log"
ctl reload "$D/half.toml" --dry-run > "$D/half.txt"
! ctl reload "$D/wrong.toml" 2> "$D/wrong.log"
ctl reload > "$D/reload.txt"
ctl reload "$D/faster.toml" --link up --dry-run --json > "$D/foreseen.json"
ctl reload "$D/faster.toml" --link up --json > "$D/faster.json"
ctl stats --json > "$D/rates.json"
! ctl reload "$D/half.toml" --link up 2> "$D/none.log"
! ctl reload --link sideways 2> "$D/no-link.log"
wait $one $other
kill -INT $gateway
wait $gateway
kill -INT $down $up
wait $down $up
"$F" gateway "$D/down.toml" --in vb --out vc --reverse "$D/up.toml" --ignore-offloads --control "$D/both" --json \
    > "$D/both.json" 2> "$D/both.log" & gateway=$!
until_exists "$D/both"
kill -INT $gateway
wait $gateway
"#;

const CLASS: &str = "name = \"all\"\nmatch = [\"udp dst port 5001\", \"any\"]\n";
const SOURCE: &str =
    "duration = \"1s\"\n[[source]]\nclass = \"all\"\nmodel = \"cbr\"\npacket = \"500B\"\nrate = \"2mbit\"\n";

fn links() -> String {
    let link = |name: &str, from: &str, to: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nin = \"{from}\"\nout = \"{to}\"\nrate = \"10mbit\"\n[[link.class]]\n{CLASS}"
        )
    };
    link("down", "vb", "vc") + &link("up", "vc", "vb")
}

#[test]
fn both_directions_are_shared_in_one_process_each_by_a_thread_of_its_own() {
    unless_starved(|| {
        let dir = Scratch::new();
        let one = format!("{SOURCE}[link]\nrate = \"10mbit\"\n[[class]]\n{CLASS}");
        dir.write("down.toml", &one);
        dir.write("up.toml", &one.replace("[link]\n", "[link]\nname = \"back\"\n"));
        dir.write("links.toml", &links());
        dir.write("half.toml", links().rsplit_once("[[link]]").unwrap().0);
        dir.write("faster.toml", &links().replace("10mbit", "20mbit"));
        dir.write("wrong.toml", &links().replacen("10mbit", "10mbps", 1));
        let Some(run) = in_private_network(SCRIPT, &dir, &[]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), read("gateway.log"));
        let json =
            |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            read("stats.txt").contains("vb to vc") && read("stats.txt").contains("vc to vb"),
            "{}",
            read("stats.txt")
        );
        assert_eq!(
            (&only_link(&json("stats-up.json"))["name"], &only_link(&json("stats-up.json"))["gateway"]["input"]),
            (&"up".into(), &"vc".into())
        );
        assert!(read("which.log").contains("several links; name one: down, up"), "{}", read("which.log"));
        assert!(read("sideways.log").contains("no link \"sideways\""), "{}", read("sideways.log"));
        assert_eq!(json("rate.json")["link_bps"], serde_json::json!([10_000_000, 5_000_000]));
        // A dry run of a file with fewer links; an error in one link changes none.
        let half = read("half.txt");
        for says in [
            "link up, vc to vb, would be closed\n",
            "link down, vb to vc, would be closed (closed and reopened: it now forwards the other direction)",
            "link down, vb to vc, would be opened",
            "nothing was changed",
        ] {
            assert!(half.contains(says), "{says}: {half}");
        }
        assert!(read("wrong.log").contains("wrong.toml:5:8"), "{}", read("wrong.log"));
        let reload = read("reload.txt");
        assert!(reload.contains("link down\n") && reload.contains("link: 5 Mbit/s -> 10 Mbit/s"), "{reload}");

        // One of them alone, from a file with both.
        for (file, committed) in [("foreseen.json", false), ("faster.json", true)] {
            assert_eq!(json(file)["links"][0]["link_bps"], serde_json::json!([10_000_000, 20_000_000]), "{file}");
            assert_eq!(
                (&json(file)["links"][0]["link"], &json(file)["committed"]),
                (&"up".into(), &committed.into()),
                "{file}"
            );
        }
        let rates: Vec<Value> =
            json("rates.json")["links"].as_array().unwrap().iter().map(|link| link["capacity_bps"].clone()).collect();
        assert_eq!(rates, [10_000_000, 20_000_000]);
        assert!(read("none.log").contains("the file has no link \"up\"; there are: down"), "{}", read("none.log"));
        assert!(read("no-link.log").contains("no link \"sideways\""), "{}", read("no-link.log"));

        let gateway = json("gateway.json");
        let of = |name: &str| {
            let links = gateway["links"].as_array().expect("a list");
            links.iter().find(|link| link["name"] == name).cloned().unwrap_or_else(|| panic!("{name}: {gateway}"))
        };
        for (name, received) in [("down", json("down.json")), ("up", json("up.json"))] {
            let link = of(name);
            assert_eq!(
                (&link["gateway"]["balanced"], &link["gateway"]["reverse"]),
                (&true.into(), &Value::Null),
                "{link}"
            );
            let class = &received["classes"][0];
            let disorder = (&class["reordered_packets"], &class["duplicate_packets"]);
            assert_eq!(disorder, (&0.into(), &0.into()), "{name}: reordered, doubled: {received}");
            let sent = &link["counts"]["sent"]["packets"];
            assert_eq!(&class["received_packets"], sent, "{name}: received, sent: {received} {link}");
            assert!(class["received_packets"].as_u64() > Some(0), "{name}: nothing received: {received}");
        }
        assert_eq!((&of("down")["gateway"]["generation"], &of("up")["gateway"]["generation"]), (&1.into(), &3.into()));
        let both = json("both.json");
        let names: Vec<&Value> = both["links"].as_array().unwrap().iter().map(|link| &link["name"]).collect();
        assert_eq!(names, ["vc", "back"]);
    });
}

#[test]
fn links_that_cannot_be_together_are_refused_with_2() {
    let dir = Scratch::new();
    let one = dir.write("one.toml", &format!("[link]\nrate = \"10mbit\"\n[[class]]\n{CLASS}"));
    let two = dir.write("two.toml", &links());
    let twice = dir.write("twice.toml", &links().replace("in = \"vc\"\nout = \"vb\"", "in = \"vb\"\nout = \"vd\""));
    for (args, says) in [
        (&["gateway", one.as_str()][..], "no interfaces"),
        (&["gateway", &two, "--in", "va", "--out", "vb"], "--in and --out need a single link"),
        (&["gateway", &one, "--in", "va"], "--out"),
        (&["gateway", &one, "--in", "va", "--out", "vb", "--reverse", &two], "one link"),
        (&["gateway", &one, &two, "--in", "va", "--out", "vb"], "there are 3"),
        (&["gateway", &twice], "two links take frames received on vb"),
        (&["gateway"], "LINK"),
        (&["check", &two], "is given 2 times"),
    ] {
        let run = fairlink(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}
