//! Links of a running gateway that come, go, change their names or their interfaces with a reload, in a network
//! namespace that ends with the test.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::{Scratch, in_network, in_private_network, only_link, unless_starved};

/// Two more cables, vk to vl and vm to vn, and what all scripts use.
const MORE: &str = r#"
ip link add name vk type veth peer name vl
ip link add name vm type veth peer name vn
for name in vk vl vm vn; do
    echo 1 > /proc/sys/net/ipv6/conf/$name/disable_ipv6 || true
    ip link set $name up
done
ctl() { "$F" ctl "$@" --control "$D/socket"; }
refused() { name=$1; shift; if ctl reload "$@" > "$D/$name.log" 2>&1; then exit 1; else echo $? >> "$D/$name.log"; fi; }
"#;

/// The gateway does not fail open: on a busy machine the kernel would forward frames past its account.
/// `one` goes from va to vd all the time. `two` comes, is changed, gets other interfaces, goes and comes back.
const COME_AND_GO: &str = r#"
"$F" receive --in vd --link "$D/class.toml" --json > "$D/one.json" 2> "$D/one.log" & one=$!
"$F" gateway "$D/links.toml" --ignore-offloads --fail-open never --control "$D/socket" --metrics 127.0.0.1:9400 --drain 5s --json \
    > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
until_exists "$D/one.log"
"$F" generate "$D/class.toml" --out va --duration 4s --json > "$D/sent.json" & generator=$!
ctl reload "$D/both.toml" --dry-run > "$D/dry.txt"
refused missing "$D/missing.toml"
refused wrong "$D/wrong.toml"
refused classes "$D/classes.toml"
refused twice "$D/twice.toml"
refused none "$D/none.toml"
"$F" gateway "$D/two.toml" --ignore-offloads --control "$D/other" > /dev/null 2> "$D/other.log" & other=$!
until_exists "$D/other"
refused held "$D/both.toml"
kill -INT $other
wait $other
ctl stats --json > "$D/before.json"

cp "$D/both.toml" "$D/links.toml"
ctl reload > "$D/opened.txt"
"$F" receive --in vn --link "$D/class.toml" --json > "$D/two.json" 2> "$D/two.log" & two=$!
until_exists "$D/two.log"
"$F" generate "$D/class.toml" --out vk --duration 300ms --json > "$D/sent-two.json"
ctl stats --json > "$D/both.json"
ctl rate link 4mbit --link two > /dev/null
"$F" ctl watch --control "$D/socket" --interval 100ms --count 1 > "$D/watch.txt"

# Other interfaces under the same name: from vm to vl.
ctl reload "$D/turned.toml" --json > "$D/turned.json"
ctl reload "$D/renamed.toml" > "$D/renamed.txt"
ctl stats --json --link zwei > "$D/zwei.json"
cp "$D/both.toml" "$D/links.toml"
ctl reload "$D/links.toml" > "$D/back.txt"
kill -INT $two
wait $two

sed '/^# two$/,$d' "$D/both.toml" > "$D/links.toml"
kill -HUP $gateway
until_says "$D/gateway.log" 'link two, vl to vm, is closing'
until_true '[ "$(grep -c "link two has ended: received" "$D/gateway.log")" = 2 ]'
ctl stats > "$D/after.txt"
! ctl stats --link two 2> "$D/gone.log"
"$F" gateway "$D/two.toml" --ignore-offloads --control "$D/other" > /dev/null 2> "$D/free.log" & other=$!
until_exists "$D/other"
kill -INT $other
wait $other
wait $generator
kill -INT $gateway
wait $gateway
kill -INT $one
wait $one
"#;

/// The other direction of a cable gets a link of its own, and loses it again, while frames go both ways.
const OTHER_DIRECTION: &str = r#"
"$F" receive --in vd --link "$D/class.toml" --json > "$D/down.json" 2> "$D/down.log" & down=$!
"$F" receive --in va --link "$D/class.toml" --json > "$D/up.json" 2> "$D/up.log" & up=$!
"$F" gateway "$D/down.toml" --ignore-offloads --fail-open require --control "$D/socket" --drain 5s --json \
    > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
until_exists "$D/down.log"
until_exists "$D/up.log"
"$F" generate "$D/class.toml" --out va --duration 3s --json > "$D/sent-down.json" & one=$!
"$F" generate "$D/class.toml" --out vd --duration 3s --json > "$D/sent-up.json" & other=$!
sleep 0.5
for round in 1 2; do
    ctl reload "$D/both.toml" > "$D/comes.txt"
    ctl stats --json > "$D/both.json"
    sleep 0.2
    ctl reload "$D/down.toml" > "$D/goes.txt"
    sleep 0.2
done
wait $one $other
sleep 0.2
kill -INT $gateway
wait $gateway
kill -INT $down $up
wait $down $up
"#;

/// Many reloads at once, and an end while there are some.
const RACES: &str = r#"
"$F" gateway "$D/one.toml" --ignore-offloads --control "$D/socket" --json > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
for round in 1 2 3 4 5; do
    asking=
    for file in both one both one; do
        ctl reload "$D/$file.toml" > "$D/said" 2>> "$D/refusals" & asking="$asking $!"
    done
    for one in $asking; do if wait $one; then echo done >> "$D/outcomes"; else echo refused >> "$D/outcomes"; fi; done
done
ctl reload "$D/both.toml" > /dev/null
ctl stats --json > "$D/both.json"
asking=
for file in one both one both; do
    ctl reload "$D/$file.toml" > /dev/null 2>> "$D/late" & asking="$asking $!"
done
kill -INT $gateway
wait $gateway
for one in $asking; do wait $one || true; done
"#;

/// A link comes and goes again and again; then the memory that is the process's own and no file's, in kB.
const OFTEN: &str = r#"
"$F" gateway "$D/one.toml" --ignore-offloads --control "$D/socket" --json > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
for round in $(seq $RELOADS); do
    ctl reload "$D/both.toml" > /dev/null
    ctl reload "$D/one.toml" > /dev/null
done
sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$gateway/status > "$D/anonymous"
kill -INT $gateway
wait $gateway
"#;

const CLASS: &str = "name = \"all\"\nmatch = [\"udp dst port 5001\", \"any\"]\n";
const SOURCE: &str = "[[source]]\nclass = \"all\"\nmodel = \"cbr\"\npacket = \"500B\"\nrate = \"2mbit\"\n";

fn link(name: &str, from: &str, to: &str) -> String {
    format!(
        "# {name}\n[[link]]\nname = \"{name}\"\nin = \"{from}\"\nout = \"{to}\"\nrate = \"10mbit\"\n[[link.class]]\n{CLASS}"
    )
}

struct Play {
    dir: Scratch,
    run: Output,
}

impl Play {
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path(name)).unwrap_or_default()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap_or_else(|error| panic!("{name}: {error}: {}", self.read(name)))
    }

    fn went_well(&self) {
        assert!(self.run.status.success(), "{}{}", String::from_utf8_lossy(&self.run.stderr), self.read("gateway.log"));
    }

    fn says(&self, name: &str, what: &[&str]) {
        let text = self.read(name);
        for what in what {
            assert!(text.contains(what), "{name} does not say {what:?}: {text}");
        }
    }
}

/// Plays a script with these files beside it. `None` if there are no namespaces.
fn play(script: &str, as_root: bool, files: &[(&str, String)]) -> Option<Play> {
    let dir = Scratch::new();
    dir.write("class.toml", &format!("duration = \"1s\"\n[link]\nrate = \"10mbit\"\n[[class]]\n{CLASS}{SOURCE}"));
    for (name, text) in files {
        dir.write(name, text);
    }
    let script = format!("{MORE}{script}");
    let run = match as_root {
        true => in_network(&["--net"], &script, &dir, &[])?,
        false => in_private_network(&script, &dir, &[])?,
    };
    Some(Play { dir, run })
}

#[test]
fn a_gateway_stays_within_its_memory_bound_while_links_come_and_go() {
    unless_starved(|| {
        let rounds: u32 =
            std::env::var("FAIRLINK_RELOADS").ok().and_then(|text| text.parse().ok()).map_or(30, |all: u32| all / 2);
        let (one, two) = (link("one", "vb", "vc"), link("two", "vl", "vm"));
        let script = format!("RELOADS={rounds}\n{OFTEN}");
        let Some(play) = play(&script, false, &[("both.toml", format!("{one}{two}")), ("one.toml", one)]) else {
            return;
        };
        play.went_well();
        let gateway = play.json("gateway.json");
        let ends = gateway["links"].as_array().expect("a list");
        let one = ends.iter().find(|end| end["name"] == "one").expect("it has served one");
        assert_eq!(one["gateway"]["generation"], 2 * rounds, "each reload was done: {one}");
        let bound: u64 = ["pool_bytes", "scheduler_bytes", "classifier_bytes", "counters_bytes", "split_bytes"]
            .iter()
            .map(|key| one["gateway"]["memory"][key].as_u64().unwrap_or_else(|| panic!("{key}: {one}")))
            .sum();
        let kilobytes: u64 = play.read("anonymous").trim().parse().expect("a number");
        println!("after {} reloads: {kilobytes} kB, bound {} kB", 2 * rounds, bound / 1024);
        assert!(kilobytes * 1024 <= bound, "{kilobytes} kB, and the bound is {} kB", bound / 1024);
    });
}

fn counts(received: &Value) -> [u64; 3] {
    let class = &received["classes"][0];
    ["received_packets", "reordered_packets", "duplicate_packets"].map(|key| class[key].as_u64().unwrap_or(u64::MAX))
}

#[test]
fn links_come_and_go_with_a_reload_and_the_others_go_on_untouched() {
    unless_starved(|| {
        let one = link("one", "vb", "vc");
        let two = link("two", "vl", "vm");
        let both = format!("{one}{two}");
        let Some(play) = play(
            COME_AND_GO,
            false,
            &[
                ("links.toml", one.clone()),
                ("two.toml", two.clone()),
                ("both.toml", both.clone()),
                ("missing.toml", format!("{one}{}", link("two", "vx", "vm"))),
                ("wrong.toml", format!("{one}{}", two.replace("10mbit", "10mbps"))),
                ("classes.toml", format!("{}{two}", one.replace("\"all\"\n", "\"all\"\nguarantee = \"20mbit\"\n"))),
                ("twice.toml", format!("{one}{}", link("one", "vl", "vm"))),
                ("none.toml", "link = []\n".to_owned()),
                ("turned.toml", format!("{one}{}", link("two", "vm", "vl"))),
                ("renamed.toml", format!("{}{one}", link("zwei", "vm", "vl"))),
            ],
        ) else {
            return;
        };
        play.went_well();
        play.says("dry.txt", &["link one\n", "link two, vl to vm, would be opened", "nothing was changed"]);
        // An error of one link changes none.
        play.says("missing.log", &["missing.toml:", ": error: link two: ", "vx", "2\n"]);
        play.says("wrong.log", &["wrong.toml:15:8: error", "2\n"]);
        play.says("classes.log", &["classes.toml:", "2\n"]);
        play.says("twice.log", &["twice.toml:", "\"one\"", "2\n"]);
        play.says("none.log", &["no link", "2\n"]);
        play.says(
            "held.log",
            &["both.toml:11:1: error: link two: ", "another gateway is already running on interface vl", "2\n"],
        );
        let before = only_link(&play.json("before.json"));
        assert_eq!((&before["name"], &before["gateway"]["generation"]), (&"one".into(), &0.into()), "{before}");

        play.says("opened.txt", &["link one\n", "change 1", "link two, vl to vm, opened"]);
        let both = play.json("both.json");
        let names: Vec<&Value> = both["links"].as_array().expect("a list").iter().map(|link| &link["name"]).collect();
        assert_eq!(names, ["one", "two"]);
        let two = &both["links"][1];
        let of_two = counts(&play.json("two.json"));
        let sent = two["counts"]["sent"]["packets"].as_u64().unwrap();
        assert_eq!(of_two, [sent, 0, 0], "received, reordered and doubled of what link two sent: {both}");
        assert!(of_two[0] > 0, "no packet passed link two: {both}");
        play.says("watch.txt", &["one: vb to vc", "two: vl to vm"]);

        let turned = play.json("turned.json");
        assert_eq!(
            (&turned["opened"][0]["input"], &turned["closed"][0]["input"]),
            (&"vm".into(), &"vl".into()),
            "{turned}"
        );
        assert!(turned["closed"][0]["why"].as_str().unwrap().contains("is now vm to vl"), "{turned}");
        assert_eq!(turned["links"][0]["link"], "one");
        play.says("renamed.txt", &["link zwei\n", "link two renamed to zwei"]);
        assert_eq!(only_link(&play.json("zwei.json"))["name"], "zwei");
        play.says("back.txt", &["link zwei, vm to vl, is closing", "link two, vl to vm, opened"]);

        assert!(!play.read("after.txt").contains("vl to vm"), "{}", play.read("after.txt"));
        play.says("gone.log", &["no link \"two\"", "one"]);
        play.says("free.log", &["running until Ctrl-C"]);

        // The account of each link at its end, those that went first.
        let gateway = play.json("gateway.json");
        let ends: Vec<(&str, bool)> = gateway["links"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|link| (link["name"].as_str().unwrap(), link["gateway"]["balanced"] == true))
            .collect();
        assert_eq!(ends, [("two", true), ("zwei", true), ("two", true), ("one", true)], "{gateway}");
        assert_eq!(
            gateway["links"][0]["counts"]["sent"]["packets"], of_two[0],
            "of link two, which was closed: {gateway}"
        );
        // The link beside them has lost, doubled and reordered nothing.
        let one = &gateway["links"][3];
        let [received, reordered, doubled] = counts(&play.json("one.json"));
        let sent = one["counts"]["sent"]["packets"].as_u64().unwrap();
        assert_eq!(
            (received, reordered, doubled),
            (sent, 0, 0),
            "received, reordered, doubled of what one sent: {one}"
        );
        let sent = play.json("sent.json")["classes"][0]["sent_packets"].as_u64().unwrap();
        let missed: u64 = ["kernel_dropped_packets", "shed_unknown_packets"]
            .iter()
            .map(|key| one["gateway"][key].as_u64().expect("a number"))
            .sum();
        assert!(
            received <= sent && received + missed >= sent && received > 0,
            "{sent} packets sent into link one, {received} received, {missed} missed: {one}"
        );
    });
}

#[test]
fn the_other_direction_begins_and_ceases_to_be_shared_without_a_loss_or_a_double() {
    unless_starved(|| {
        let (down, up) = (link("down", "vb", "vc"), link("up", "vc", "vb"));
        let files = [("down.toml", down.clone()), ("both.toml", format!("{down}{up}"))];
        // Programs in the kernel take root, not the root of a user namespace.
        let Some(play) = play(OTHER_DIRECTION, true, &files) else { return };
        if play.read("gateway.log").contains("cannot fail open") {
            println!("SKIPPED: no programs in this kernel: {}", play.read("gateway.log"));
            return;
        }
        play.went_well();
        play.says(
            "comes.txt",
            &["link down, vb to vc, is closing", "the other direction now has a link", "link up, vc to vb, opened"],
        );
        play.says("goes.txt", &["link up, vc to vb, is closing", "it now forwards the other direction"]);
        let both = play.json("both.json");
        assert_eq!(
            (&both["links"][0]["gateway"]["reverse"], &both["links"][1]["gateway"]["reverse"]),
            (&Value::Null, &Value::Null),
            "{both}"
        );
        let gateway = play.json("gateway.json");
        let links = gateway["links"].as_array().expect("a list");
        assert_eq!(links.len(), 1 + 2 * 3, "{gateway}");
        assert!(
            links.iter().all(|link| link["gateway"]["balanced"] == true && link["counts"]["queued"]["packets"] == 0),
            "{gateway}"
        );
        // Only packets that the gateways dropped for being late may be missing.
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let of = |link: &Value| {
            number(&link["counts"]["dropped"]["packets"])
                + number(&link["gateway"]["kernel_dropped_packets"])
                + number(&link["gateway"]["shed_unknown_packets"])
                + number(&link["gateway"]["reverse"]["dropped"]["packets"])
        };
        let dropped: u64 = links.iter().map(of).sum();
        let mut lost = 0;
        for way in ["down", "up"] {
            let [received, _, doubled] = counts(&play.json(&format!("{way}.json")));
            let sent = play.json(&format!("sent-{way}.json"))["classes"][0]["sent_packets"].as_u64().unwrap();
            assert!(
                doubled == 0 && received <= sent && received > 0,
                "{way}: {sent} sent, {received} received, {doubled} doubled"
            );
            lost += sent - received;
        }
        assert_eq!(lost, dropped, "packets lost, and dropped by the gateways: {gateway}");
    });
}

#[test]
fn of_reloads_at_once_each_is_done_or_refused_and_an_end_waits_for_none() {
    unless_starved(|| {
        let (one, two) = (link("one", "vb", "vc"), link("two", "vl", "vm"));
        let Some(play) = play(RACES, false, &[("both.toml", format!("{one}{two}")), ("one.toml", one)]) else { return };
        play.went_well();
        let outcomes = play.read("outcomes");
        assert_eq!(outcomes.lines().count(), 20, "{outcomes}{}", play.read("gateway.log"));
        assert!(outcomes.contains("done"), "{outcomes}{}", play.read("gateway.log"));
        for refusal in play.read("refusals").lines() {
            assert!(refusal.contains("another reload is in progress; try again"), "{}", play.read("refusals"));
        }
        assert_eq!(outcomes.matches("refused").count(), play.read("refusals").lines().count());
        assert_eq!(play.json("both.json")["links"].as_array().map(Vec::len), Some(2));
        let gateway = play.json("gateway.json");
        let links = gateway["links"].as_array().expect("a list");
        assert!(links.iter().all(|link| link["gateway"]["balanced"] == true), "{gateway}");
        assert!(!play.read("gateway.log").contains("panicked"), "{}", play.read("gateway.log"));
    });
}
