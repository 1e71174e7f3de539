//! `fairlink demo`.

use serde_json::{Value, json};

use crate::fairlink;

/// The JSON that is promised, whatever the rates.
fn check_shape(outcome: &Value, experiment: u64, phases: usize) {
    let experiments = outcome["experiments"].as_array().expect("a list");
    assert!(!experiments.is_empty(), "{outcome}");
    assert_eq!(outcome["why_simulated"].is_null(), outcome["real"] == true, "{outcome}");
    for run in experiments {
        assert_eq!((&run["experiment"], &run["link_bps"]), (&json!(experiment), &json!(1e8)));
        assert!(run["scheduler"].is_string());
        let played = run["phases"].as_array().expect("a list");
        assert_eq!(played.len(), phases, "{run}");
        for phase in played {
            assert!(phase["start_s"].as_f64() < phase["end_s"].as_f64(), "{phase}");
            let classes = phase["classes"].as_array().expect("a list");
            assert_eq!(classes.len(), 5, "{phase}");
            assert!(classes.iter().all(|class| class["rate_bps"].is_f64() && class["ideal_bps"].is_f64()), "{phase}");
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
        for phase in hls["phases"].as_array().expect("a list") {
            for class in phase["classes"].as_array().expect("a list") {
                let (rate, ideal) = (class["rate_bps"].as_f64(), class["ideal_bps"].as_f64());
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
    ] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

/// Real packets where that is allowed; rates depend on how busy the machine is and are not looked at.
#[test]
fn a_demo_plays_real_packets_or_says_why_it_does_not() {
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
}

#[test]
fn the_kernel_s_htb_alone_is_not_simulated_in_silence() {
    let run = fairlink(&["demo", "--simulate", "--scheduler", "kernel-htb"]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(run.stderr.contains("the kernel's HTB cannot be simulated; `htb` is ours"), "{}", run.stderr);
}
