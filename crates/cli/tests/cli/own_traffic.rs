//! `fairlink gateway --egress`: the machine's own traffic, from the command line to the packet. The machine and its
//! peer are network namespaces that end with the test.

use std::fs;

use serde_json::Value;

use crate::{Scratch, class, fairlink, in_network, in_private_network, only_link, scenario, unless_starved};

/// `peer` is the other machine, with the ends `vb` and `vd`; this one has 10.8.0.1 at `va`, and 10.9.0.1 at `vc`.
const MACHINES: &str = r#"
unshare --net sleep 1000 & peer=$!
until_true '[ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/$$/ns/net)" ]'
there() { nsenter --net=/proc/$peer/ns/net "$@"; }
# In the background: its number is that of the program.
stay_there() { exec nsenter --net=/proc/$peer/ns/net "$@"; }
ip link set vb netns $peer
ip link set vd netns $peer
there ip link set lo up
there ip addr add 10.8.0.2/24 dev vb
there ip addr add 10.9.0.2/24 dev vd
there ip link set vb up
there ip link set vd up
ip addr add 10.8.0.1/24 dev va
ip addr add 10.9.0.1/24 dev vc
# Addresses, routes and rules; what is only up or down does not count.
setup() { ip -o addr show dev va; ip -o addr show dev vc; ip route; ip rule; }
"#;

const SCRIPT: &str = r#"
setup > "$D/before"
stay_there "$F" receive --tcp 5201 > /dev/null 2> "$D/a.log" & a=$!
stay_there "$F" receive --tcp 5202 > /dev/null 2> "$D/b.log" & b=$!
until_exists "$D/a.log"
until_exists "$D/b.log"
"$F" gateway "$D/own.toml" --egress va --control "$D/socket" --json > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
ip -o link > "$D/links"
setup > "$D/during"
! "$F" gateway "$D/own.toml" --egress va --control "$D/not" 2> "$D/twice.log"
"$F" generate --tcp 10.8.0.2:5201 --connections 4 --duration 6s --json > "$D/tcp-a.json" & one=$!
"$F" generate --tcp 10.8.0.2:5202 --connections 4 --duration 6s --json > "$D/tcp-b.json" & other=$!
sleep 1.5
"$F" ctl stats --control "$D/socket" --interval 2s --json > "$D/interval.json"
"$F" ctl rate link 10mbit --control "$D/socket" > /dev/null
kill -KILL $gateway
wait $gateway || true
# Both connections go on, past the gateway that is no more.
wait $one $other
ip -o link > "$D/killed"
"$F" gateway --close va 2> "$D/close.log"
ip -o link > "$D/closed"
"$F" gateway "$D/links.toml" --control "$D/socket2" --json > "$D/several.json" 2> "$D/several.log" & gateway=$!
until_exists "$D/socket2"
# Until it has gone by the link: on a crowded machine a gateway that is late lets it go on unshaped.
shared_by() { "$F" ctl stats --link "by $1" --json --control "$D/socket2" | tr -d ' \n' | grep -Eq '"sent":[{][^}]*"packets":[1-9]'; }
send() { n=0; until shared_by $1; do n=$((n + 1)); [ $n -lt 50 ]; "$F" generate --tcp $2 --duration 300ms > /dev/null; done; }
send va 10.8.0.2:5201
stay_there "$F" receive --tcp 5203 > /dev/null 2> "$D/c.log" & c=$!
until_exists "$D/c.log"
send vc 10.9.0.2:5203
"$F" ctl reload --control "$D/socket2" > "$D/reload.txt"
kill -INT $gateway
wait $gateway
ip -o link > "$D/after"
setup > "$D/end"
kill -INT $a $b $c
wait $a $b $c
kill $peer
"#;

const CLASSES: [(&str, &str, u16); 2] = [("a", "14mbit", 5201), ("b", "6mbit", 5202)];

/// Classes of 14 and 6 Mbit/s by port; b also has the rest. `head` is the table that they are below.
fn link(head: &str, class: &str) -> String {
    let classes = CLASSES.map(|(name, rate, port)| {
        let more = if name == "b" { ", \"any\"" } else { "" };
        format!(
            "[[{class}]]\nname = \"{name}\"\nguarantee = \"{rate}\"\nqueue = \"fq_codel\"\nmatch = [\"tcp dst port {port}\"{more}]\n"
        )
    });
    format!("{head}rate = \"20mbit\"\n{}", classes.concat())
}

fn shared(namespaces: Option<&[&str]>, by: &str) {
    let dir = Scratch::new();
    dir.write("own.toml", &link("[link]\n", "class"));
    let several =
        ["va", "vc"].map(|name| link(&format!("[[link]]\nname = \"by {name}\"\negress = \"{name}\"\n"), "link.class"));
    dir.write("links.toml", &several.concat());
    let script = format!("{MACHINES}{SCRIPT}");
    let run = match namespaces {
        Some(namespaces) => in_network(namespaces, &script, &dir, &[]),
        None => in_private_network(&script, &dir, &[]),
    };
    let Some(run) = run else { return };
    let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
    if read("gateway.log").contains("cannot be redirected") {
        println!("SKIPPED: {}", read("gateway.log"));
        return;
    }
    assert!(
        run.status.success(),
        "{}{}{}",
        String::from_utf8_lossy(&run.stderr),
        read("gateway.log"),
        read("several.log")
    );
    let json =
        |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    for says in
        [format!("shapes traffic that this host sends (by {by})"), "this host's traffic on va: running".to_owned()]
    {
        assert!(read("gateway.log").contains(&says), "{}", read("gateway.log"));
    }
    assert!(read("links").contains("fl0-va") && read("links").contains("fl1-va"), "{}", read("links"));
    assert!(read("twice.log").contains("already shapes this host's traffic on va"), "{}", read("twice.log"));

    // The shares are those of the ideal, for any total rate.
    let interval = only_link(&json("interval.json"));
    let span = |name: &str| class(&interval["spans"][0], name);
    let rate = |name: &str| span(name)["rates"]["rate_bps"].as_f64().expect("a rate");
    let (a, b) = (rate("a"), rate("b"));
    println!(
        "{by}: a {:.2}, b {:.2} Mbit/s; delays {} {}",
        a / 1e6,
        b / 1e6,
        span("a")["delay_s"],
        span("b")["delay_s"]
    );
    if a + b < 4e6 {
        println!("SKIPPED: the machine is too crowded to compare shares");
    } else {
        assert!((0.85..1.15).contains(&(a / b * 6.0 / 14.0)), "{interval}");
    }
    assert!(a + b < 21e6, "{interval}");
    assert!(interval["gateway"]["balanced"] == true && interval["gateway"]["fail_open"]["by"] == by, "{interval}");

    // After it was killed, traffic continues, and its remains have no effect until they are removed.
    for tcp in ["tcp-a.json", "tcp-b.json"] {
        assert_eq!(json(tcp)["connections"].as_array().map(Vec::len), Some(4), "{}", read(tcp));
    }
    assert!(read("killed").contains("fl0-va"), "{}", read("killed"));
    assert!(read("close.log").contains("removed the virtual cable for traffic sent on va"), "{}", read("close.log"));
    for ended in ["closed", "after"] {
        assert!(!read(ended).contains("fl0-") && !read(ended).contains("fl1-"), "{}", read(ended));
    }
    assert_eq!(read("before"), read("during"));
    assert_eq!(read("before"), read("end"));

    let several = json("several.json");
    for (place, output) in ["va", "vc"].iter().enumerate() {
        let link = &several["links"][place];
        assert_eq!(
            (&link["name"], &link["gateway"]["output"]),
            (&format!("by {output}").into(), &(*output).into()),
            "{several}"
        );
        assert!(
            link["gateway"]["balanced"] == true && link["counts"]["sent"]["packets"].as_u64() > Some(0),
            "{several}"
        );
        assert_eq!(link["gateway"]["generation"], 1, "{several}");
    }
}

#[test]
fn what_this_machine_sends_is_shared_by_programs_in_the_kernel() {
    unless_starved(|| {
        shared(Some(&["--net"]), "bpf");
    });
}

#[test]
fn and_by_nftables_in_a_user_namespace() {
    unless_starved(|| {
        shared(None, "nftables");
    });
}

#[test]
fn wrong_options_for_what_the_machine_itself_sends_are_refused() {
    let dir = Scratch::new();
    let file = scenario("exp2-H.toml");
    let egress = dir.write("egress.toml", &link("[link]\negress = \"nope0\"\n", "class"));
    let both = dir.write("both.toml", &link("[link]\negress = \"nope0\"\nin = \"a\"\nout = \"b\"\n", "class"));
    let twice =
        ["one", "two"].map(|name| link(&format!("[[link]]\nname = \"{name}\"\negress = \"nope0\"\n"), "link.class"));
    let twice = dir.write("twice.toml", &twice.concat());
    for (args, says) in [
        (&["gateway", file.as_str(), "--egress", "nope0"][..], "interface nope0 does not exist"),
        (&["gateway", &egress], "interface nope0 does not exist"),
        (&["gateway", &file, "--egress", "nope0", "--in", "va", "--out", "vb"], "cannot be used with"),
        (&["gateway", &file, "--egress", "lo"], "interface lo is not Ethernet"),
        (&["gateway", &both], "keep egress, or in and out"),
        (&["gateway", &twice], "two links take this host's traffic on nope0"),
        (&["gateway", &twice, "--egress", "nope0"], "--egress needs a single link, and there are 2"),
        (&["gateway", &file], "--egress IF"),
    ] {
        let run = fairlink(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}
