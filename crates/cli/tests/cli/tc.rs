//! tc commands to link files and back, and scripts of the HTB text's generator over them.

use serde_json::Value;

use crate::{Scratch, fairlink, in_phase, scenario};

#[test]
fn tc_commands_become_a_link_file_that_check_takes_and_go_back() {
    let scratch = Scratch::new();
    let made = fairlink(&["tc", "import", &scenario("htb/htb.tc"), "--rate", "10mbit"]).quiet();
    let link = scratch.write("htb.toml", &made.stdout);
    let checked = fairlink(&["check", &link, "--json"]).quiet().json();
    assert_eq!(checked["link"]["classes"][1]["terms"]["ceiling_bps"], 640_000);
    let back = fairlink(&["tc", "export", &link, "--dev", "v0", "--json"]).json();
    let text = back["text"].as_str().unwrap();
    assert!(text.contains("tc class add dev v0 parent 1:1 classid 1:2 htb rate 320000bit ceil 640000bit"), "{text}");
    // A note says that the device determines the link's rate.
    assert!(back["notes"][0]["message"].as_str().unwrap().contains("10 Mbit/s is left to the device"), "{back}");
    // And the file serves as a link itself.
    assert_eq!(fairlink(&["check", &scenario("htb/cbq.tc"), "--json"]).quiet().json()["valid"], true);
}

#[test]
fn what_tc_text_loses_is_named_and_what_it_has_wrong_ends_with_2() {
    let scratch = Scratch::new();
    let file = scratch.write("a.tc", "tc qdisc add dev eth0 root handle 1: htb\ntc class add dev eth0 parent 1: classid 1:2 htb rate 1mbit mtu 9000\n");
    let run = fairlink(&["tc", "import", &file, "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let notes = run.json()["notes"].clone();
    let lines: Vec<_> = notes.as_array().unwrap().iter().map(|note| note["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [1, 2], "{notes}");
    let file = scratch.write(
        "b.tc",
        "tc qdisc add dev eth0 root htb\ntc class add dev eth0 parent 1: classid 1:2 htb rate 1mbit colour 3\n",
    );
    let run = fairlink(&["tc", "import", &file]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("b.tc:2:") && run.stderr.contains("colour"), "{}", run.stderr);
}

/// Settled rates in kilobytes per second by phase and class.
fn settled(document: &Value) -> Vec<(f64, String, f64)> {
    let run = &document["runs"][0];
    let phases = run["link"]["spans"].as_array().unwrap();
    let of = |(number, phase): (usize, &Value)| {
        let start = phase["start_s"].as_f64().unwrap();
        in_phase(run, number).into_iter().map(move |class| {
            let rate = class["rates"]["settled_bps"].as_f64().unwrap();
            (start, class["name"].as_str().unwrap().to_owned(), rate / 8000.0)
        })
    };
    phases.iter().enumerate().flat_map(of).filter(|&(_, _, rate)| rate > 0.0).collect()
}

/// htb.share and htb.generator: the text's script over the text's tc lines.
#[test]
fn the_texts_script_shares_the_texts_htb_as_the_text_says() {
    let run = fairlink(&["sim", &scenario("htb/share.toml"), "--json"]).quiet().json();
    let expected = [(0.0, "1:2", 80.0), (4.0, "1:2", 66.7), (4.0, "1:3", 33.3), (9.0, "1:3", 50.0)];
    let measured = settled(&run);
    assert_eq!(measured.len(), expected.len(), "{measured:?}");
    for ((start, class, rate), expected) in measured.iter().zip(expected) {
        assert_eq!((*start, class.as_str()), (expected.0, expected.1));
        assert!((rate - expected.2).abs() <= 0.05 * expected.2, "{class} from {start} s: {rate} kB/s, {expected:?}");
    }
    // The same without a scenario file, letter by letter.
    let script = scenario("htb/one-device.script");
    let args = ["sim", &script, "--link", &scenario("htb/htb.tc"), "--link-rate", "10mbit", "--json"];
    assert_eq!(fairlink(&args).quiet().json()["runs"], run["runs"]);
}

/// htb.burst: the spike of `burst 2k` when a class starts, and nothing beyond it.
#[test]
fn a_class_that_starts_sends_its_burst_beyond_its_ceiling_and_no_more() {
    let run = fairlink(&["sim", &scenario("htb/share.toml"), "--window", "50ms", "--json"]).quiet().json();
    let spans = run["runs"][0]["link"]["spans"].as_array().unwrap();
    let windows: Vec<_> = spans.iter().filter(|span| span["kind"] == "window").collect();
    let sent = |class: &str| -> Vec<f64> {
        let rate = |window: &Value| {
            let classes = window["classes"].as_array().unwrap();
            classes.iter().find(|found| found["name"] == class).unwrap()["rates"]["rate_bps"].as_f64().unwrap()
        };
        windows.iter().map(|window| rate(window) / 8.0 * 0.05).collect()
    };
    let (a, ceiling, burst, packet) = (sent("1:2"), 80_000.0, 2048.0, 1000.0);
    // While it is alone: more than the ceiling in the first 0.2 s, by the burst in whole packets, and the ceiling from
    // then on.
    let first: f64 = a[..4].iter().sum();
    assert!(first > ceiling * 0.2 + packet && first <= ceiling * 0.2 + burst, "{first} B in the first 200 ms");
    for (n, &bytes) in a[..80].iter().enumerate().skip(4) {
        assert!((bytes - ceiling * 0.05).abs() < 1e-6, "{bytes} B in window {n}");
    }
    // And over no span of time more than ceiling and bucket allow.
    for class in ["1:2", "1:3"] {
        let sent = sent(class);
        for start in 0..sent.len() {
            let mut sum = 0.0;
            for (span, bytes) in sent[start..].iter().enumerate() {
                sum += bytes;
                let most = ceiling * 0.05 * (span + 1) as f64 + burst + packet;
                assert!(sum <= most, "{class}: {sum} B in {} windows from {start}", span + 1);
            }
        }
    }
}

#[test]
fn a_script_over_two_devices_uses_the_slot_that_they_share() {
    let script = scenario("htb/two-devices.script");
    let args = ["sim", &script, "--link", &scenario("htb/slots.tc"), "--link-rate", "10mbit", "--json"];
    let measured = settled(&fairlink(&args).quiet().json());
    let total = |start: f64| measured.iter().filter(|phase| phase.0 == start).map(|phase| phase.2).sum::<f64>();
    // The slot's 100 kB/s while both devices want more than that.
    assert!((total(4.0) - 100.0).abs() < 5.0, "{measured:?}");
    assert!(measured.iter().any(|phase| phase.1 == "eth1:1:2"), "{measured:?}");
}

#[test]
fn scripts_that_do_not_fit_are_refused_at_their_line() {
    let scratch = Scratch::new();
    let link = scratch.write("l.toml", "[link]\nrate = \"1mbit\"\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\nparent = \"a\"\nclassid = \"1:2\"\n");
    let refused = |name: &str, text: &str| {
        let file = scratch.write(name, text);
        let run = fairlink(&["sim", &file, "--link", &link]);
        assert_eq!(run.code, 2, "{}", run.stdout);
        run.stderr.split_whitespace().filter(|word| !["│", "×"].contains(word)).collect::<Vec<_>>().join(" ")
    };
    for (text, said) in [
        ("0 S 0 100\n0 R 0 900\n9 X\n", "flow 0 has no class; write \"0 P 0 0x10002\""),
        ("0 P 0 7\n0 S 0 100\n0 R 0 900\n9 X\n", "the priority 0x7 of flow 0 names no class"),
        ("0 P 0 0x10003\n0 S 0 100\n0 R 0 900\n9 X\n", "flow 0 is for 1:3, and no class of"),
        ("0 P 0 0x10002\n0 S 0 1501\n0 R 0 900\n9 X\n", "a packet of 1501 B is longer than the link's mtu of 1500 B"),
        (
            "0 P 0 0x10002\n0 S 0 100\n5 R 0 900\n4 R 0 0\n9 X\n",
            "the time of 4 ms is before the 5 ms of an earlier line",
        ),
        (
            "0 i 0 eth0\n0 i 1 eth1\n0 P 0 0x10002\n0 P 1 0x10002\n0 S 0 100\n0 S 1 100\n0 R 0 9\n0 R 1 9\n9 X\n",
            "flow 1 leaves on eth1, and the scenario's own link is eth0; add a [[peer]]",
        ),
    ] {
        let error = refused("a.script", text);
        assert!(error.contains(said) && error.contains("a.script:"), "{text}: {error}");
    }
    let alone = fairlink(&["sim", &scenario("htb/one-device.script")]);
    assert!(
        alone.code == 2 && alone.stderr.contains("this is a script; name its link with --link FILE"),
        "{}",
        alone.stderr
    );
}

#[test]
fn nothing_is_quoted_of_a_file_that_is_neither_script_nor_tc_commands() {
    let scratch = Scratch::new();
    scratch.write("secret", "root:x:0:0:swordfish\n");
    for text in [
        "[link]\nrate = \"1mbit\"\n[[class]]\nname = \"a\"\n[[source]]\nmodel = \"script\"\nfile = \"secret\"\n",
        "duration = \"1s\"\nlink = { tc = \"secret\" }\n[[source]]\nclass = \"a\"\nmodel = \"greedy\"\npacket = \"1000B\"\n",
    ] {
        let run = fairlink(&["sim", &scratch.write("s.toml", text)]);
        assert!(run.code == 2 && run.stderr.contains("names this file"), "{}", run.stderr);
        assert!(!run.stderr.contains("swordfish") && !run.stderr.contains("root:"), "{}", run.stderr);
    }
}

#[test]
fn export_writes_no_device_that_a_shell_would_read_as_something_else() {
    for device in ["eth0; true", "$(id)", "", "-f", "sixteen-letters.", "a\nb"] {
        let run = fairlink(&["tc", "export", &scenario("simple.toml"), &format!("--dev={device}")]);
        assert!(run.code == 2 && run.stdout.is_empty(), "{device:?}: {}", run.stderr);
        assert!(run.stderr.contains("is not the name of a device"), "{device:?}: {}", run.stderr);
    }
}
