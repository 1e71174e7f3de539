//! `fairlink ctl reload`, `ctl rate`, `ctl scheduler` and SIGHUP on a gateway with traffic, in a network namespace that
//! ends with the test.

use std::fs;

use serde_json::Value;

use crate::{Scratch, class, fairlink, in_private_network, only_link, scenario, unless_starved};

/// Two cables with the gateway between them, changed while frames pass. Waits are bounded. The gateway does not fail open:
/// on a busy machine the kernel would forward frames past its account.
const SCRIPT: &str = r#"
ctl() { "$F" ctl "$@" --control "$D/socket"; }
"$F" receive --in vd --link "$D/link.toml" --json > "$D/received.json" 2> "$D/receive.log" & receiver=$!
"$F" gateway "$D/link.toml" --in vb --out vc --ignore-offloads --fail-open never --control "$D/socket" --drain 5s --json \
    > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
until_exists "$D/receive.log"
"$F" generate "$LINK" --out va --duration 2s --json > "$D/sent.json" & generator=$!
ctl reload --dry-run > "$D/same.txt"
ctl reload "$D/other.toml" --dry-run > "$D/dry.txt"
! ctl reload "$D/wrong.toml" 2> "$D/wrong.log"
! ctl reload "$D/nowhere.toml" 2> "$D/nowhere.log"
ctl stats --json > "$D/before.json"
for scheduler in drr htb wf2q+ hls; do
    ctl scheduler $scheduler --lenient > "$D/scheduler.txt"
    ctl reload "$D/other.toml" --move A2=A3 --json > "$D/other.json"
    ctl rate C 20mbit --json > "$D/rate.json"
    ctl rate link 50mbit > "$D/link.txt"
    ctl reload "$D/link.toml" > "$D/back.txt"
done
printf '80mbit\n\nmuch\n60mbit\n' > "$D/rates"
! ctl rate link - < "$D/rates" > "$D/rates.txt" 2> "$D/rates.log"
! ctl rate link 10mbit --ceiling 2> "$D/ceiling.log"
! ctl rate nobody 10mbit 2> "$D/nobody.log"
! ctl scheduler nothing 2> "$D/nothing.log"
! ctl scheduler nothing 2> "$D/nothing.log"
sed 's/^rate = "100mbit"/rate = "120mbit"/' "$LINK" > "$D/link.toml"
kill -HUP $gateway
until_says "$D/gateway.log" "reload: change"
ctl stats --json > "$D/after.json"
echo '[link' > "$D/link.toml"
kill -HUP $gateway
until_says "$D/gateway.log" "reload refused"
wait $generator
kill -INT $gateway
wait $gateway
kill -INT $receiver
wait $receiver
"#;

#[test]
fn a_gateway_is_changed_while_frames_pass_and_loses_doubles_and_reorders_none() {
    unless_starved(|| {
        let dir = Scratch::new();
        let link = scenario("exp2-H.toml");
        let text = fs::read_to_string(&link).unwrap();
        dir.write("link.toml", &text);
        dir.write("other.toml", &text.replace("name = \"A2\"", "name = \"A3\"").replace("\"40mbit\"", "\"35mbit\""));
        dir.write("wrong.toml", &text.replace("guarantee = \"24mbit\"", "guarantee = \"240mbit\""));
        let Some(run) = in_private_network(SCRIPT, &dir, &[("LINK", &link)]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), read("gateway.log"));
        let json =
            |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));

        // The output of changes.
        assert!(read("same.txt").contains("7 classes unchanged\ndry run: nothing was changed"), "{}", read("same.txt"));
        let dry = read("dry.txt");
        for says in ["A2     removed", "A3     new", "40 Mbit/s -> 35 Mbit/s", "nothing was changed"] {
            assert!(dry.contains(says), "{says}: {dry}");
        }
        assert!(read("wrong.log").contains("wrong.toml:"), "{}", read("wrong.log"));
        assert!(read("nowhere.log").contains("cannot be read"), "{}", read("nowhere.log"));
        assert_eq!(only_link(&json("before.json"))["gateway"]["generation"], 0);
        let other = json("other.json")["links"][0].clone();
        assert_eq!(other["committed"]["removed_packets"], 0, "{other}");
        let moved = class(&other, "A2");
        assert_eq!((&moved["fate"], &moved["moved_to"]), (&"moved".into(), &"A3".into()));
        let rate = json("rate.json");
        let of_c = class(&rate, "C");
        assert_eq!(
            (&of_c["before"]["guarantee_bps"], &of_c["after"]["guarantee_bps"]),
            (&35_000_000.into(), &20_000_000.into())
        );
        let half = read("link.txt");
        assert!(half.contains("link: 100 Mbit/s -> 50 Mbit/s") && half.contains("multiplied by 0.6250"), "{half}");
        assert!(read("back.txt").contains("link: 50 Mbit/s -> 100 Mbit/s"), "{}", read("back.txt"));
        assert!(read("rates.txt").contains("80 Mbit/s -> 60 Mbit/s") && read("rates.log").contains("much"));
        assert!(read("rates.log").contains("1 rate was refused"), "{}", read("rates.log"));
        assert!(read("ceiling.log").contains("no ceiling"), "{}", read("ceiling.log"));
        assert!(read("nobody.log").contains("no class nobody"), "{}", read("nobody.log"));
        assert!(read("nothing.log").contains("fairlink schedulers"), "{}", read("nothing.log"));
        assert_eq!(only_link(&json("after.json"))["capacity_bps"], 120_000_000);
        assert!(read("gateway.log").contains("reload refused, configuration unchanged"), "{}", read("gateway.log"));

        // The account of the frames.
        let (sent, gateway, received) = (json("sent.json"), only_link(&json("gateway.json")), json("received.json"));
        assert_eq!(
            (&gateway["gateway"]["balanced"], &gateway["counts"]["queued"]["packets"]),
            (&true.into(), &0.into()),
            "{gateway}"
        );
        assert_eq!(gateway["gateway"]["generation"], 4 * 5 + 2 + 1, "{gateway}");
        let missed: u64 = ["kernel_dropped_packets", "shed_unknown_packets"]
            .iter()
            .map(|key| gateway["gateway"][key].as_u64().expect("a number"))
            .sum();
        for name in ["A1", "B2", "C"] {
            let offered = class(&sent, name)["sent_packets"].as_u64().expect("a number");
            let count = |key: &str| class(&gateway, name)["counts"][key]["packets"].as_u64().expect("a number");
            assert!(
                count("received") <= offered && count("received") + missed >= offered,
                "{name}: {offered} sent, {} received by the gateway, {missed} missed: {gateway}",
                count("received")
            );
            assert_eq!(count("received"), count("sent") + count("dropped"), "{name}: {gateway}");
            let arrived = class(&received, name);
            assert_eq!(arrived["received_packets"], count("sent"), "{name}: received, sent: {arrived} {gateway}");
            let disorder = (&arrived["reordered_packets"], &arrived["duplicate_packets"]);
            assert_eq!(disorder, (&0.into(), &0.into()), "{name}: reordered, doubled: {arrived}");
        }
    });
}

#[test]
fn what_cannot_be_asked_of_a_gateway_is_refused_with_2() {
    for (args, says) in [
        (&["ctl", "rate", "A", "5mbps"][..], "bits"),
        (&["ctl", "rate", "A"], "required"),
        (&["ctl", "reload", "--move", "A"], "OLD=NEW"),
        (&["ctl", "scheduler", "hls", "--control", "/no/such/socket"], "/no/such/socket"),
    ] {
        let run = fairlink(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}
