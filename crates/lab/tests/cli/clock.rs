//! `fairlink-lab clock`: two clocks from a file of stamps.

use std::fs;

use crate::{Scratch, lab};

#[test]
fn made_up_clocks_are_found_again_with_their_uncertainty() {
    let scratch = Scratch::new();
    let (stamps, plots) = (scratch.path("stamps.csv"), scratch.path("plots"));
    let args = ["clock", &stamps, "--make", "--jump", "200s:5ms", "--jump", "350s:-3ms", "--queueing", "heavy-tailed"];
    let json = lab(&[&args[..], &["--shortest-delay", "200us", "--out", &plots, "--json"]].concat()).json();
    let holds = |known: &serde_json::Value, expected: f64, part: f64| {
        let (value, ci95) = (known["value"].as_f64().unwrap(), known["ci95"].as_f64().unwrap());
        assert!((value - expected).abs() <= 2.0 * ci95 && ci95 < part, "{known} for {expected}");
    };
    holds(&json["offset_s"], 12.5, 20e-6);
    let stretches = json["stretches"].as_array().unwrap();
    assert_eq!(stretches.len(), 3);
    for stretch in stretches {
        let middle = (stretch["start_s"].as_f64().unwrap() + stretch["end_s"].as_f64().unwrap()) / 2.0;
        holds(&stretch["skew"], 40e-6 + middle * 2e-8, 1e-6);
        holds(&stretch["drift_per_s"], 2e-8, 1e-8);
    }
    for (jump, (at, size)) in json["jumps"].as_array().unwrap().iter().zip([(200.0, 5e-3), (350.0, -3e-3)]) {
        holds(&jump["at_s"], at, 2.0);
        holds(&jump["size_s"], size, 50e-6);
    }
    assert!(json["raw_delay_s"]["mean"].as_f64().unwrap() > 12.5);
    assert!((json["corrected_delay_s"]["min"].as_f64().unwrap() - 200e-6).abs() < 50e-6);
    // The figure has a description.
    let svg = fs::read_to_string(format!("{plots}/clock.svg")).unwrap();
    assert!(svg.contains("relative offset of the receiver") && svg.contains("skew (ppm)") && svg.contains("+5.0"));
    let csv = fs::read_to_string(format!("{plots}/clock.csv")).unwrap();
    assert!(csv.starts_with("time_s,relative_offset_s,fitted_relative_offset_s,skew\n") && csv.lines().count() > 500);
    // A file that is there is not written over.
    let again = lab(&args);
    assert!(again.code == 2 && again.stderr.contains("stamps.csv"), "{}", again.stderr);
    let text = lab(&["clock", &stamps]).quiet().stdout;
    assert!(text.contains("jump at") && text.contains("corrected, above the minimum"), "{text}");
}

#[test]
fn clocks_behind_a_queue_that_is_seldom_empty_are_not_made_up() {
    let scratch = Scratch::new();
    let stamps = scratch.path("stamps.csv");
    let args = ["clock", &stamps, "--make", "--load", "99.5", "--duration", "60s", "--drift", "0", "--seed", "4"];
    let json = lab(&[&args[..], &["--out", &scratch.path("plots"), "--json"]].concat()).json();
    assert_eq!(json["jumps"], serde_json::json!([]));
    let undecided = json["undecided"].as_array().unwrap();
    let length: f64 =
        undecided.iter().map(|part| part["end_s"].as_f64().unwrap() - part["start_s"].as_f64().unwrap()).sum();
    assert!(length > 3.0 && json["left_out"].as_f64().unwrap() > 0.05, "{json}");
    assert_eq!(json["corrected_delay_s"], serde_json::Value::Null);
    let text = lab(&["clock", &stamps]).quiet().stdout;
    assert!(text.contains("cannot tell clock from queue, because") && text.contains("no jumps are known"), "{text}");
    assert!(text.contains("no corrected delays: the clocks are unknown in"), "{text}");
    // No envelope is drawn there.
    let csv = fs::read_to_string(scratch.path("plots/clock.csv")).unwrap();
    assert!(csv.lines().any(|line| line.ends_with(",,")) && !csv.contains("NaN"), "{csv}");
}

#[test]
fn what_is_wrong_with_stamps_is_said_with_file_line_and_remedy() {
    let scratch = Scratch::new();
    for (name, text, expected) in [
        ("empty.csv", "", "empty.csv: no stamps; write a line for each packet"),
        ("nan.csv", "send_s,receive_s\n1,NaN\n", "line 2: receive_s \"NaN\" is not a time"),
        ("back.csv", "2,3\n1,4\n", "line 2: send_s goes back from 2.000000000 to 1.000000000 s"),
        (
            "one.csv",
            "1,2\n",
            "1 packet at too few times to estimate a skew; packets in at least 16 different milliseconds",
        ),
        ("few.csv", "1,2\n2,3\n", "2 packets at too few times to estimate a skew"),
        ("minus.csv", "-5,2\n-6,3\n", "line 2: send_s goes back from -5.000000000 to -6.000000000 s"),
    ] {
        let path = scratch.path(name);
        fs::write(&path, text).unwrap();
        let run = lab(&["clock", &path]);
        assert!(run.code == 2 && run.stderr.contains(expected), "{}", run.stderr);
    }
    let made = scratch.path("made.csv");
    let run = lab(&["clock", &made, "--make", "--jump", "1s:-1s", "--reference", "receive"]);
    assert!(run.code == 2 && run.stderr.contains("use --reference send"), "{}", run.stderr);
    assert!(fs::metadata(&made).is_err());
    for (jump, expected) in [
        ("20s:5ms", "--jump at 20 s: the stamps are from 0 to 10 s"),
        ("10s:-5ms", "longer --duration"),
        ("0s:5ms", "use a time within"),
        ("5s:0s", "a jump of 0 has no effect"),
        ("5s:-0ns", "a jump of 0 has no effect"),
    ] {
        let run = lab(&["clock", &made, "--make", "--duration", "10s", "--jump", jump]);
        assert!(run.code == 2 && run.stderr.contains(expected), "{jump}: {}", run.stderr);
    }
    assert!(fs::metadata(&made).is_err());
    for (option, value, expected) in [
        ("--skew", "600", "600 is not a number of parts per million from -500 to 500"),
        ("--drift", "NaN", "NaN is not a number of parts per million"),
        ("--load", "100", "100 is not a load; write percent above 0 and below 100"),
        ("--load", "NaN", "NaN is not a load"),
    ] {
        let run = lab(&["clock", &made, "--make", option, value]);
        assert!(run.code == 2 && run.stderr.contains(expected), "{option} {value}: {}", run.stderr);
    }
    let made = scratch.path("ten.csv");
    let run = lab(&["clock", &made, "--make", "--duration", "10s", "--out", &made]);
    assert!(run.code == 2 && run.stderr.contains("this is a file; name a directory"), "{}", run.stderr);
    let run = lab(&["clock", "nowhere.csv"]);
    assert!(run.code == 2 && run.stderr.contains("nowhere.csv: "), "{}", run.stderr);
}
