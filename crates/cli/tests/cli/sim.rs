//! `fairlink sim`.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use fairlink_terminal::testing::catches_ctrl_c;

use crate::{Scratch, command, fairlink, in_phase, leaves, scenario};

/// Experiment 2 in small: 3 s on 10 Mbit/s.
const SMALL: &str = r#"
    duration = "3s"
    link = { rate = "10mbit" }
    class = [
        { name = "A", guarantee = "5mbit" }, { name = "a", parent = "A", guarantee = "1mbit" },
        { name = "B", guarantee = "5mbit" }, { name = "b", parent = "B", guarantee = "4mbit" },
    ]
    source = [
        { class = "a", model = "greedy", packet = "1000B" },
        { class = "b", model = "poisson", rate = "8mbit", packet = "500B", active = ["1s..3s"] },
    ]
"#;

fn rates(run: &Value, phase: usize, key: &str) -> Vec<f64> {
    in_phase(run, phase).iter().map(|class| class["rates"][key].as_f64().expect("a number")).collect()
}

#[test]
fn sim_reports_what_formats_and_numbers_promise() {
    let dir = Scratch::new();
    let file = dir.write("small.toml", SMALL);
    let json = fairlink(&["sim", &file, "--json"]).quiet().json();
    let runs = json["runs"].as_array().expect("a list");
    assert_eq!(runs.len(), 1);
    let run = &runs[0];
    assert_eq!((&run["link"]["scheduler"], &run["seed"], &run["duration_s"]), (&json!("hls"), &json!(1), &json!(3.0)));
    assert!(run["link"]["utilisation"].as_f64().is_some_and(|share| share > 0.999));
    let names: Vec<_> = leaves(run).iter().map(|class| class["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
    for class in leaves(run) {
        let counts = &class["counts"];
        let count = |key: &str, unit: &str| counts[key][unit].as_u64().unwrap_or_else(|| panic!("{key}: {class}"));
        for unit in ["packets", "bytes"] {
            let out = count("sent", unit) + count("dropped", unit) + count("queued", unit);
            assert!(count("received", unit) == out && count("sent", unit) > 0, "{class}");
        }
        assert!(class["rates"]["rate_bps"].is_f64());
        for key in ["mean", "p50", "p99", "p999", "max"] {
            assert!(class["delay_s"][key].is_f64(), "{key}: {class}");
        }
    }
    assert_eq!(run["link"]["spans"].as_array().map(Vec::len), Some(2));
    assert_eq!((&run["link"]["spans"][1]["start_s"], &run["link"]["spans"][1]["end_s"]), (&json!(1.0), &json!(3.0)));
    assert_eq!(rates(run, 0, "ideal_bps"), [1e7, 0.0]);
    assert_eq!(rates(run, 1, "ideal_bps"), [5e6, 5e6]);
    let measured = rates(run, 1, "rate_bps");
    assert!(measured.iter().all(|rate| (rate / 5e6 - 1.0).abs() < 0.02), "{measured:?}");
    let text = fairlink(&["sim", &file]).quiet().stdout;
    assert!(text.contains("link 100.00 % busy") && text.contains("1 .. 3 s"), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_runs_count_seeds_upwards() {
    let dir = Scratch::new();
    let file = dir.write("small.toml", SMALL);
    let args = ["sim", &file, "--runs", "2", "--json"];
    let (first, second) = (fairlink(&args).quiet(), fairlink(&args).quiet());
    assert_eq!(first.stdout, second.stdout);
    let json = first.json();
    assert_eq!((&json["runs"][0]["seed"], &json["runs"][1]["seed"]), (&json!(1), &json!(2)));
    assert_ne!(json["runs"][0]["link"]["classes"], json["runs"][1]["link"]["classes"]);
}

#[test]
fn several_schedulers_run_side_by_side_and_say_what_they_ignore() {
    let dir = Scratch::new();
    let file = dir.write("small.toml", SMALL);
    let json = fairlink(&["sim", &file, "--scheduler", "hls", "--scheduler", "fifo", "--json"]).quiet().json();
    assert_eq!(
        (&json["runs"][0]["link"]["scheduler"], &json["runs"][1]["link"]["scheduler"]),
        (&json!("hls"), &json!("fifo"))
    );
    assert_eq!(json["runs"][0]["link"].get("notes"), None);
    assert!(json["runs"][1]["link"]["notes"][0].as_str().is_some_and(|note| note.contains("fifo ignores")), "{json}");
    let text = fairlink(&["sim", &file, "--scheduler", "hls", "--scheduler", "fifo"]).quiet().stdout;
    let head = text.lines().find(|line| line.starts_with("phase")).expect("a table");
    assert!(head.contains("hls") && head.contains("fifo") && head.contains("max-min fair"), "{text}");
    let refused = fairlink(&["sim", &file, "--scheduler", "fifo"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--lenient"), "{}", refused.stderr);
    assert_eq!(fairlink(&["sim", &file, "--scheduler", "fifo", "--lenient"]).code, 0);
}

#[test]
fn out_writes_rates_against_time_as_csv_and_svg() {
    let dir = Scratch::new();
    let file = dir.write("small.toml", SMALL);
    let run = fairlink(&["sim", &file, "--out", &dir.path("plots/new")]);
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("hls.svg"), "{}", run.stderr);
    let csv = fs::read_to_string(dir.path("plots/new/hls.csv")).expect("a file");
    assert!(csv.lines().count() > 10, "{csv}");
    assert!(fs::read_to_string(dir.path("plots/new/hls.svg")).expect("a file").contains("<svg"));
    let paper = dir.path("plots/paper");
    let args = ["sim", &file, "--scheduler", "hls", "--scheduler", "fifo", "--out", &paper, "--width", "column"];
    assert_eq!(fairlink(&args).code, 0);
    let compared = fs::read_to_string(dir.path("plots/paper/schedulers.svg")).expect("a file");
    assert!(compared.contains(" width=\"240pt\""), "{compared}");
    assert!(compared.contains("<title>small.toml: rates by scheduler</title>"), "{compared}");
    assert!(compared.contains(">hls<") && compared.contains(">fifo<"), "{compared}");
    let alone = fairlink(&["sim", &file, "--width", "page"]);
    assert!(alone.code == 2 && alone.stderr.contains("--out"), "{}", alone.stderr);
    let run = fairlink(&["sim", &file, "--out", "/dev/null/plots"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("/dev/null/plots"), "{}", run.stderr);
}

#[test]
fn a_wrong_scenario_exits_with_2_and_names_the_place() {
    let dir = Scratch::new();
    let unknown = dir.write("unknown.toml", &SMALL.replace("class = \"b\"", "class = \"bb\""));
    let duration = dir.write("duration.toml", &SMALL.replace("\"3s\"", "\"3\""));
    for (args, says) in [
        (&["sim", &unknown][..], "no class \"bb\""),
        (&["sim", &duration], "duration.toml:2:16"),
        (&["sim", "no-such-file.toml"], "no-such-file.toml"),
        (&["sim", &scenario("exp1.toml"), "--scheduler", "hsl"], "hls"),
        (&["sim", &scenario("exp1.toml"), "--runs", "0"], "--runs"),
        (&["sim", &scenario("exp1.toml"), "--runs", "many"], "--runs"),
        (&["sim"], "<SCENARIO>"),
    ] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_a_simulation_cleanly() {
    let dir = Scratch::new();
    // Longer than anyone waits.
    let file = dir.write("long.toml", &SMALL.replace("duration = \"3s\"", "duration = \"10000000s\""));
    let mut child =
        command(&["sim", &file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    while !catches_ctrl_c(child.id()) {
        assert_eq!(child.try_wait().expect("a child"), None, "it ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert!(stderr.starts_with("error: interrupted at") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn h_fsc_keeps_the_delays_of_audio_and_video_that_h_wf2q_plus_ties_to_their_rates() {
    let file = scenario("hfsc-fig10.toml");
    let check = fairlink(&["check", &file, "--json"]).quiet().json();
    let run = fairlink(&["sim", &file, "--scheduler", "hfsc", "--scheduler", "hpfq", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json = run.json();
    let delay = |run: usize, name: &str, which: &str| {
        let classes = json["runs"][run]["link"]["classes"].as_array().expect("a list");
        let class = classes.iter().find(|class| class["name"] == name).expect("the class");
        class["delay_s"][which].as_f64().expect("a number")
    };
    let bound = |name: &str| {
        let classes = check["link"]["classes"].as_array().expect("a list");
        let class = classes.iter().find(|class| class["name"] == name).expect("the class");
        class["bounds"]["delay_bound_s"].as_f64().expect("a number")
    };
    // 5 and 10 ms, and a packet of 8192 B on 10 Mbit/s.
    for (name, within, gain) in [("audio", 0.005, 3.0), ("video", 0.010, 1.2)] {
        assert!((bound(name) - within - 8192.0 * 8.0 / 1e7).abs() < 1e-6, "{check}");
        assert!(delay(0, name, "max") <= bound(name), "{name}: {}", delay(0, name, "max"));
        for which in ["mean", "p99"] {
            let (hfsc, hpfq) = (delay(0, name, which), delay(1, name, which));
            assert!(hpfq > gain * hfsc, "{name}, {which}: {hfsc} s and {hpfq} s");
        }
    }
    assert!(delay(1, "audio", "max") > bound("audio"));
}

#[test]
fn two_links_share_a_pool_from_a_scenario_file() {
    let file = scenario("htb-slots.toml");
    let json = fairlink(&["sim", &file, "--json"]).quiet().json();
    let run = &json["runs"][0];
    let names: Vec<_> = leaves(run).iter().map(|class| class["name"].clone()).collect();
    assert_eq!(names, ["flow 0", "flow 1", "eth1:flow 2"]);
    assert_eq!((&run["link"]["scheduler"], &run["further_links"][0]["name"]), (&json!("htb"), &json!("eth1")));
    // 2 .. 4 s: about the same though it should be 50 : 30; 4 .. 9 s: on the way there; always the pool's 800 kbit/s
    // together.
    let ratio = |phase| {
        let rates = rates(run, phase, "rate_bps");
        let sum: f64 = rates.iter().sum();
        assert!((sum / 800e3 - 1.0).abs() < 0.05, "{rates:?}");
        (rates[0] + rates[1]) / rates[2]
    };
    assert!((0.9..1.2).contains(&ratio(1)) && (1.4..1.75).contains(&ratio(2)), "{} {}", ratio(1), ratio(2));
    let refused = fairlink(&["sim", &file, "--scheduler", "hls"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("supported by: htb, htb-common-deficit"), "{}", refused.stderr);
    let both = fairlink(&["sim", &file, "--scheduler", "htb", "--scheduler", "drr"]).stdout;
    assert!(both.contains("note: drr ignores the pool slot 1"), "{both}");
    let refused = fairlink(&["generate", &file, "--out", "none"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("only `fairlink sim` runs several links"), "{}", refused.stderr);
}

#[test]
fn a_scenario_changes_its_link_while_it_runs_and_says_what_became_of_the_classes() {
    let file = scenario("reload.toml");
    let first = fairlink(&["sim", &file, "--scheduler", "hls", "--scheduler", "htb", "--json"]).quiet();
    assert_eq!(first.stdout, fairlink(&["sim", &file, "--scheduler", "hls", "--scheduler", "htb", "--json"]).stdout);
    let json = first.json();
    for run in json["runs"].as_array().expect("a list") {
        let spans: Vec<_> =
            run["link"]["spans"].as_array().expect("a list").iter().map(|phase| phase["end_s"].clone()).collect();
        assert_eq!(spans, [10.0, 15.0, 20.0]);
        let expected = [[1e7, 2e7, 2e7, 0.0], [2e7, 6e7, 0.0, 0.0], [2e7, 3e7, 0.0, 3e7]];
        for (phase, ideals) in expected.iter().enumerate() {
            assert_eq!(rates(run, phase, "ideal_bps"), ideals, "{}", run["link"]["scheduler"]);
            for (measured, ideal) in rates(run, phase, "settled_bps").iter().zip(ideals) {
                assert!((measured - ideal).abs() <= 0.02 * ideal, "{measured} {ideal}");
            }
        }
        let change = &run["changes"][0];
        assert_eq!(
            (&change["at_s"], &change["name"], &change["capacity_bps"]),
            (&json!(10.0), &json!("simple-after.toml"), &json!(8e7))
        );
        assert_eq!(change["scheduler"], run["link"]["scheduler"]);
        let dropped = change["removed_packets"].as_u64().expect("a count");
        assert_eq!(json!(dropped), leaves(run)[2]["counts"]["dropped_by"]["class_removed"]["packets"]);
        let note = format!("at 10 s: simple-after.toml: 3 classes kept, 1 removed ({dropped} packets dropped), 1 new");
        assert_eq!(run["link"]["notes"], json!([note]));
    }
    let dir = Scratch::new();
    let text = fairlink(&["sim", &file, "--out", &dir.path("plots")]);
    assert!(text.stdout.contains("note: at 10 s: simple-after.toml: 3 classes kept, 1 removed ("), "{}", text.stdout);
    let csv = fs::read_to_string(dir.path("plots/hls.csv")).expect("a file");
    assert!(csv.starts_with("start_s,end_s,household_bps,guests_bps,ana_bps,ben_bps,office_bps\n"), "{csv}");
    let refused = fairlink(&["generate", &file, "--out", "none"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("only `fairlink sim` changes a link while it runs"), "{}", refused.stderr);
}

#[test]
fn a_change_that_cannot_be_is_refused_before_the_run() {
    let dir = Scratch::new();
    let changed = |change: &str| format!("{SMALL}\n[[change]]\nat = \"2s\"\nlink = \"after.toml\"\n{change}");
    let class = |keys: &str| format!("[[class]]\nname = \"a\"\n{keys}\n[[class]]\nname = \"b\"\n");
    let link = "[link]\nrate = \"5mbit\"\n";
    let cases = [
        ("memory", format!("{link}memory = \"1kB\"\n{}", class("")), "", &["hls"][..], "the limit is 1000 B"),
        (
            "memory of another",
            format!("{link}memory = \"1kB\"\n{}", class("")),
            "scheduler = \"fifo\"",
            &["hls"],
            "fifo needs",
        ),
        (
            "admission",
            link.to_owned() + &class("real_time = { rate = \"6mbit\" }"),
            "scheduler = \"hfsc\"",
            &["hls"],
            "exceeds the link's 5 Mbit/s",
        ),
        (
            "admission of the second",
            link.to_owned() + &class("real_time = { rate = \"6mbit\" }"),
            "",
            &["fifo", "hfsc"],
            "exceeds the link's 5 Mbit/s",
        ),
        ("unsupported", link.to_owned() + &class("priority = 1"), "", &["hls"], "hls does not support"),
        ("no such file", String::new(), "", &["hls"], "after.toml"),
    ];
    for (title, after, change, schedulers, says) in cases {
        if !after.is_empty() {
            dir.write("after.toml", &after);
        }
        let file = dir.write("changed.toml", &changed(change));
        let mut args = vec!["sim", &file];
        schedulers.iter().for_each(|name| args.extend(["--scheduler", name]));
        if after.is_empty() {
            fs::remove_file(dir.path("after.toml")).expect("a file");
        }
        let run = fairlink(&args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{title}: {}", run.stderr);
        // Messages are broken into lines.
        let words = run.stderr.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert!(words.contains(says) && words.contains("after.toml"), "{title}: {}", run.stderr);
    }
    // Compared schedulers each keep running; unsupported settings are notes.
    dir.write("after.toml", &(link.to_owned() + &class("priority = 1")));
    let file = dir.write("changed.toml", &changed(""));
    let json = fairlink(&["sim", &file, "--scheduler", "hls", "--scheduler", "htb", "--json"]).json();
    let notes: Vec<_> =
        json["runs"].as_array().expect("a list").iter().map(|run| run["link"]["notes"].to_string()).collect();
    assert!(
        notes[0].contains("from 2 s on hls ignores that class a has a priority") && !notes[1].contains("ignores"),
        "{notes:?}"
    );
}

#[test]
fn a_sweep_over_a_script_is_refused_with_what_to_do() {
    let (script, link) = (scenario("htb/one-device.script"), scenario("htb/htb.tc"));
    for args in
        [&["sim", &script, "--sweep", "seed=1,2"][..], &["sim", &script, "--link", &link, "--sweep", "seed=1,2"]]
    {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(
            run.stderr.contains("write a scenario file over its link, with model = \"script\""),
            "{args:?}: {}",
            run.stderr
        );
    }
}

/// One connection over a link of 100 Mbit/s with a round trip of 40 ms, in a class with these keys: goodput in bit/s,
/// longest delay in the queue in s.
fn one_connection(keys: &str) -> (f64, f64) {
    let dir = Scratch::new();
    let text = format!(
        "duration = '40s'\nwarmup = '10s'\n[link]\nrate = '100mbit'\n[[class]]\nname = 'a'\nguarantee = '1mbit'\n{keys}\n\
         [[class]]\nname = 'b'\nguarantee = '99mbit'\n[[source]]\nclass = 'a'\nmodel = 'tcp'\nrtt = '40ms'\npacket = '1500B'\n"
    );
    let json = fairlink(&["sim", &dir.write("tcp.toml", &text), "--json"]).quiet().json();
    let run = &json["runs"][0];
    (run["closed"][0]["goodput_bps"].as_f64().unwrap(), run["link"]["classes"][0]["delay_s"]["max"].as_f64().unwrap())
}

#[test]
fn the_default_queue_is_long_enough_for_a_connection_and_no_longer() {
    let (thousand, _) = one_connection("buffer = '1000p'");
    // A queue of 100 ms at the guarantee has room for eight packets.
    let (by_guarantee, _) = one_connection("buffer = '100ms'");
    assert!(by_guarantee < 0.85 * thousand, "{by_guarantee} {thousand}");
    for keys in ["", "queue = 'fq_codel'"] {
        let (goodput, delay) = one_connection(keys);
        assert!(goodput > 0.94 * thousand && goodput > 94.05e6, "{keys}: {goodput} {thousand}");
        assert!(delay < 0.102, "{keys}: {delay}");
    }
    // A class that never gets more than 1 Mbit/s queues for 0.12 s, ten packets, and not for the 12 s of a thousand.
    let (all, delay) = one_connection("ceiling = '1mbit'");
    assert!(all > 0.99e6 && delay < 0.122, "{all} {delay}");
    assert!(one_connection("ceiling = '1mbit'\nbuffer = '1000p'").1 > 10.0);
}

#[test]
fn a_run_that_does_not_show_what_is_expected_ends_with_1_and_names_it() {
    let file = scenario("expect.toml");
    let met = fairlink(&["sim", &file]).quiet();
    assert!(met.stdout.trim_end().ends_with("all 4 expectations are met"), "{}", met.stdout);
    // HTB gives B2 the share of A1 while C is idle; its other values are as expected.
    let unmet = fairlink(&["sim", &file, "--scheduler", "htb"]);
    assert_eq!(unmet.code, 1, "{}", unmet.stderr);
    assert!(unmet.stdout.contains("htb, seed 1"), "the report comes all the same: {}", unmet.stdout);
    let lines: Vec<&str> = unmet.stderr.lines().filter(|line| line.contains("expect.toml:")).collect();
    assert!(lines.len() == 1 && unmet.stderr.contains("1 of 4 expectations is not met"), "{}", unmet.stderr);
    let place = format!("{file}:27: rate of A1 in 5 s .. 10 s under htb, seed 1, is ");
    assert!(lines[0].trim().starts_with(&place), "{}", unmet.stderr);
    assert!(lines[0].ends_with("expected is from 49 Mbit/s to 51 Mbit/s"), "{}", unmet.stderr);

    let run = fairlink(&["sim", &file, "--json", "--scheduler", "hls", "--scheduler", "htb", "--runs", "2"]);
    assert_eq!(run.code, 1);
    let json = run.json();
    let all = json["expectations"].as_array().expect("a list");
    assert_eq!(all.len(), 16);
    for one in all {
        let (measured, met) = (one["measured"].as_f64().expect("a number"), one["met"] == true);
        let within = one["at_least"].as_f64().is_none_or(|least| measured >= least)
            && one["at_most"].as_f64().is_none_or(|most| measured <= most);
        assert_eq!(met, within, "{one}");
        assert_eq!(met, one["scheduler"] == "hls" || one["line"] != 27, "{one}");
    }
    // The rate is that of the report.
    let settled = |run: &Value| in_phase(run, 1)[0]["rates"]["settled_bps"].clone();
    let runs = json["runs"].as_array().expect("a list");
    let rates: Vec<_> = runs.iter().map(settled).collect();
    let judged: Vec<_> = all.iter().filter(|one| one["line"] == 27).map(|one| one["measured"].clone()).collect();
    assert_eq!(judged, rates);
}

#[test]
fn what_was_not_measured_is_not_as_expected_and_other_schedulers_are_not_judged() {
    let dir = Scratch::new();
    let expect = "[[expect]]\nclass = \"idle\"\nvalue = \"delay_max\"\nat_most = \"1s\"\nscheduler = \"hls\"\n";
    let text = format!(
        "duration = \"1s\"\n[link]\nrate = \"10mbit\"\n[[class]]\nname = \"busy\"\n[[class]]\nname = \"idle\"\n\
         [[source]]\nclass = \"busy\"\nmodel = \"greedy\"\npacket = \"1000B\"\n{expect}"
    );
    let file = dir.write("idle.toml", &text);
    let run = fairlink(&["sim", &file]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("delay_max of idle under hls, seed 1, was not measured"), "{}", run.stderr);
    let other = fairlink(&["sim", &file, "--scheduler", "drr"]).quiet();
    assert!(other.stdout.contains("no expectation of the scenario applies to these schedulers"), "{}", other.stdout);
}

#[test]
fn what_a_sources_own_shaper_loses_is_told() {
    let dir = Scratch::new();
    let source = "{ class = 'b', model = 'poisson', rate = '8mbit', packet = '500B', police = [{ burst = '2kB', rate = '1mbit' }] }";
    let file = dir.write("shaped.toml", &SMALL.replace("source = [", &format!("source = [ {source},")));
    let lost =
        fairlink(&["sim", &file, "--json"]).json()["runs"][0]["link"]["classes"][3]["lost_at_source_packets"].clone();
    assert!(lost.as_u64().is_some_and(|lost| lost > 1000), "{lost}");
    let text = fairlink(&["sim", &file]).stdout;
    assert!(text.contains("packets were lost by the sources' own shapers and policers"), "{text}");
}
