//! `fairlink demo`.

#[cfg(target_os = "linux")]
use std::process::{Command, Stdio};
#[cfg(target_os = "linux")]
use std::time::Duration;

use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use crate::{FAIRLINK, run};
use crate::{fairlink, unless_starved};

/// Checks the documented JSON, for any rates.
fn check_shape(outcome: &Value, experiment: u64, phases: usize) {
    let experiments = outcome["experiments"].as_array().expect("a list");
    assert!(!experiments.is_empty(), "{outcome}");
    assert_eq!(outcome["why_simulated"].is_null(), outcome["real"] == true, "{outcome}");
    for run in experiments {
        assert_eq!((&run["experiment"], &run["capacity_bps"]), (&json!(experiment), &json!(1e8)));
        assert!(run["scheduler"].is_string());
        let played = run["spans"].as_array().expect("a list");
        assert_eq!(played.len(), phases, "{run}");
        for phase in played {
            assert!(phase["start_s"].as_f64() < phase["end_s"].as_f64(), "{phase}");
            let classes = phase["classes"].as_array().expect("a list");
            assert_eq!(classes.len(), 5, "{phase}");
            assert!(
                classes.iter().all(|class| class["rates"]["rate_bps"].is_f64() && class["rates"]["fair_bps"].is_f64()),
                "{phase}"
            );
        }
    }
}

#[test]
fn a_simulated_demo_says_so_and_gives_every_class_its_ideal_rate() {
    for (args, experiment, scenario, phases) in [
        (&["demo", "--simulate"][..], 2, json!("H"), 3),
        (&["demo", "--simulate", "--scenario", "l", "--phase", "1s"], 2, json!("L"), 3),
        (&["demo", "--simulate", "--experiment", "1"], 1, json!(null), 5),
    ] {
        let outcome = fairlink(&[args, &["--json"]].concat()).quiet().json();
        check_shape(&outcome, experiment, phases);
        assert_eq!(outcome["real"], false);
        let hls = &outcome["experiments"][0];
        assert_eq!((&hls["scheduler"], &hls["scenario"]), (&json!("hls"), &scenario));
        for phase in hls["spans"].as_array().expect("a list") {
            for class in phase["classes"].as_array().expect("a list") {
                let (rate, ideal) = (class["rates"]["rate_bps"].as_f64(), class["rates"]["fair_bps"].as_f64());
                let (rate, ideal) = (rate.expect("a number"), ideal.expect("a number"));
                assert!((rate - ideal).abs() <= 0.02 * ideal, "{phase}");
            }
        }
        let text = fairlink(args).quiet().stdout;
        assert!(text.contains("Seen: hls gave every class its ideal rate"), "{text}");
        assert!(!text.contains('\u{1b}'), "no colour and no redrawing without a terminal: {text}");
    }
}

#[test]
fn the_demo_plays_the_schedulers_that_are_asked_for() {
    let ours = ["demo", "--simulate", "--phase", "1s", "--scheduler", "drr", "--scheduler", "kernel-htb", "--json"];
    let outcome = fairlink(&ours).quiet().json();
    let played: Vec<_> =
        outcome["experiments"].as_array().expect("a list").iter().map(|run| &run["scheduler"]).collect();
    assert_eq!(played, [&json!("drr")]);
    assert_eq!(outcome["skipped"][0]["scheduler"], "kernel-htb");
    assert!(
        fairlink(&["demo", "--simulate", "--phase", "1s", "--scheduler", "htb"]).quiet().stdout.contains("htb missed")
    );
}

#[test]
fn what_the_demo_does_not_play_is_refused() {
    for (args, says) in [
        (&["demo", "--experiment", "3"][..], "there are: 1, 2"),
        (&["demo", "--scenario", "X"], "there are: L, M, H"),
        (&["demo", "--experiment", "1", "--scenario", "H"], "experiment 1 has no scenario of that letter"),
        (&["demo", "--phase", "0.5s"], "outside 1s .. 600s"),
        (&["demo", "--phase", "2"], "no unit"),
        (&["demo", "--scheduler", "hsl"], "there is no scheduler \"hsl\"; did you mean \"hls\"?"),
        (&["demo", "--ping", "--simulate"], "cannot be used with"),
    ] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

/// Real packets where that is allowed; rates depend on how busy the machine is and are not looked at.
#[test]
fn a_demo_plays_real_packets_or_says_why_it_does_not() {
    unless_starved(|| {
        let run = fairlink(&["demo", "--phase", "1s", "--json"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let outcome = run.json();
        check_shape(&outcome, 2, 3);
        if outcome["real"] == false {
            println!("SKIPPED: no real packets: {}", outcome["why_simulated"]);
            assert!(run.stderr.contains("Simulating, because"), "{}", run.stderr);
            return;
        }
        let hls = &outcome["experiments"][0];
        let frames = |what: &str| hls["accounting"][what].as_u64().unwrap_or_else(|| panic!("{what}: {hls}"));
        let arrived = frames("received_packets") + frames("dropped_packets") + frames("left_packets");
        assert_eq!(frames("sent_packets"), arrived + frames("kernel_dropped_packets"), "{hls}");
        assert_eq!((frames("reordered_packets"), frames("duplicate_packets"), frames("misplaced_packets")), (0, 0, 0));
        for skipped in outcome["skipped"].as_array().expect("a list") {
            println!("SKIPPED: {}: {}", skipped["scheduler"], skipped["why"]);
        }
    });
}

#[test]
fn the_kernel_s_htb_alone_is_not_simulated_in_silence() {
    let run = fairlink(&["demo", "--simulate", "--scheduler", "kernel-htb"]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(run.stderr.contains("the kernel's HTB cannot be simulated; use `htb`"), "{}", run.stderr);
}

/// Why no real packets can be sent here, in words; `None` if a ping was measured or ended otherwise.
#[cfg(target_os = "linux")]
fn why_no_ping(code: Option<i32>, stderr: &str) -> Option<&str> {
    let why = stderr.split("real packets cannot be sent here: ").nth(1)?;
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("sudo fairlink demo --ping") && stderr.contains("fairlink sim ping.toml"), "{stderr}");
    Some(why)
}

/// One queue for all is 100 ms long on every machine. The machine's own delay is in both medians.
#[cfg(target_os = "linux")]
#[test]
fn with_classes_a_ping_beside_an_upload_takes_a_fifth_of_what_it_takes_in_one_queue_or_less() {
    unless_starved(|| {
        let run = fairlink(&["demo", "--ping", "--json"]);
        if let Some(why) = why_no_ping(Some(run.code), &run.stderr) {
            return println!("SKIPPED: a ping beside an upload: {why}");
        }
        assert_eq!(run.code, 0, "{}", run.stderr);
        let outcome = run.json();
        assert_eq!((&outcome["link_bps"], &outcome["stopped"]), (&json!(19_000_000), &json!(false)));
        let runs = outcome["runs"].as_array().expect("a list");
        let played: Vec<_> = runs.iter().map(|run| (run["link"].as_str(), run["scheduler"].as_str())).collect();
        assert_eq!(played, [(Some("one queue"), Some("fifo")), (Some("home"), Some("hls"))]);
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {outcome}"));
        for run in runs {
            for part in ["idle", "loaded"] {
                let order: Vec<f64> = ["min_s", "p50_s", "p99_s", "max_s"].map(|key| number(&run[part][key])).to_vec();
                assert!(order[0] > 0.0 && order.is_sorted() && number(&run[part]["sent"]) > 20.0, "{run}");
            }
            assert!(number(&run["upload_bps"]) > 1e6, "no upload: {run}");
        }
        let [one_queue, home] = [0, 1].map(|place| number(&runs[place]["loaded"]["p50_s"]));
        println!("median beside an upload: {:.2} ms in one queue, {:.2} ms with classes", one_queue * 1e3, home * 1e3);
        assert!(5.0 * home <= one_queue, "{outcome}");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_a_ping_soon_and_leaves_no_interface() {
    unless_starved(|| {
        let (output, took) = FAIRLINK.interrupted_after(Duration::from_millis(500), &["demo", "--ping"]);
        let stderr = String::from_utf8(output.stderr).expect("text");
        if let Some(why) = why_no_ping(output.status.code(), &stderr) {
            return println!("SKIPPED: Ctrl-C of a ping: {why}");
        }
        assert!(output.status.code() == Some(1) && stderr.contains("error: interrupted"), "{stderr}");
        // The plan takes 16 s.
        assert!(took < Duration::from_secs(5), "{:?}", took);
        for name in ["fl-in", "fl-out", "fl-laptop", "fl-server"] {
            assert!(!std::path::Path::new("/sys/class/net").join(name).exists(), "{name} is still there");
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_ping_says_why_there_are_no_real_packets_and_what_does_not_run_in_the_gateway() {
    for (name, says) in [("kernel-htb", "the kernel's HTB does not run"), ("hsl", "did you mean \"hls\"?")] {
        let run = fairlink(&["demo", "--ping", "--scheduler", name]);
        assert!((run.code, run.stdout.as_str()) == (2, "") && run.stderr.contains(says), "{}", run.stderr);
    }
    // A user namespace in which no network namespace may be made.
    let forbidden = "echo 0 >/proc/sys/user/max_net_namespaces && exec \"$0\" demo --ping";
    let inside = ["-r", "sh", "-c", forbidden, env!("CARGO_BIN_EXE_fairlink")];
    if !Command::new("unshare").args(["-r", "true"]).status().is_ok_and(|status| status.success()) {
        return println!("SKIPPED: no network namespace: `unshare -r` makes no user namespace here");
    }
    let run = run(Command::new("unshare").args(inside).stdin(Stdio::null()));
    assert!(why_no_ping(Some(run.code), &run.stderr).is_some() && run.stdout.is_empty(), "{}", run.stderr);
}
