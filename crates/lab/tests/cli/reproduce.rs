//! `fairlink-lab reproduce`: output, files and errors. The golden tables of the lab test the results of claims.

use std::fs;
#[cfg(target_os = "linux")]
use std::process::{Command, Stdio};

#[cfg(target_os = "linux")]
use crate::PROGRAM;
use crate::{Scratch, lab};
#[cfg(target_os = "linux")]
use fairlink_terminal::testing::catches_ctrl_c;

#[test]
fn a_claim_has_a_row_with_the_papers_value_ours_and_a_verdict() {
    let run = lab(&["reproduce", "hls.alpha", "hls.gap"]).quiet();
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[1].starts_with("agrees    hls.alpha  103.5 B "), "{}", run.stdout);
    assert!(lines[2].starts_with("agrees    hls.gap    146 us"), "{}", run.stdout);
    assert_eq!(*lines.last().expect("lines"), "2 of 2 agree.");
    let alone = lab(&["reproduce", "hls.gap"]).quiet().stdout;
    assert!(alone.contains("longest round, as Table II counts") && alone.contains("alone: fairlink check"), "{alone}");
}

#[test]
fn json_has_every_claim_and_its_checks() {
    let json = lab(&["reproduce", "hls.alpha.hdrr", "hls.alpha", "--quick", "--json"]).quiet().json();
    let claims = json["claims"].as_array().expect("a list");
    // In the order of the paper.
    assert_eq!([&claims[0]["id"], &claims[1]["id"]], ["hls.alpha", "hls.alpha.hdrr"]);
    for (claim, value, says) in [(&claims[0], 103.5, "103.5 B"), (&claims[1], 1522.5, "1522.5 B")] {
        assert_eq!((&claim["paper"], &claim["says"], &claim["unit"]), (&"hls".into(), &says.into(), &"B".into()));
        assert_eq!((&claim["expected"], &claim["measured"]), (&value.into(), &value.into()), "{claim}");
        assert_eq!((&claim["agrees"], &claim["checks"][0]["verdict"]), (&true.into(), &"agrees".into()), "{claim}");
        assert!(claim["note"].as_str().is_some_and(|note| !note.is_empty()), "{claim}");
    }
    assert_eq!((&json["quick"], &json["interrupted"]), (&true.into(), &false.into()));
}

#[test]
fn the_report_is_a_page_with_its_numbers_and_scenarios_beside_it() {
    let dir = Scratch::new();
    let run = lab(&["reproduce", "hls.strict", "--quick", "--out", &dir.path("report")]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("index.html"), "{}", run.stderr);
    let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let page = read("report/index.html");
    assert!(page.contains("<article id=\"hls.strict\">") && page.contains("<svg ") && page.contains("✓ agrees"));
    let json: serde_json::Value = serde_json::from_str(&read("report/claims.json")).expect("JSON");
    assert_eq!(json["claims"][0]["id"], "hls.strict");
    assert!(read("report/reproduced.md").contains("| hls.strict | Section IX |"));
    // The page's command lines work.
    let file = dir.path("report/scenarios/hls.strict/strict.toml");
    assert_eq!(lab(&["traffic", &file]).code, 0);
}

#[test]
fn figures_are_as_wide_as_a_paper_where_that_is_asked_for_and_say_where_they_stand() {
    let dir = Scratch::new();
    for (width, points) in [("column", "240pt"), ("page", "504pt")] {
        let out = dir.path(width);
        let run = lab(&["reproduce", "hls.strict", "--quick", "--out", &out, "--width", width]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let svg = fs::read_to_string(format!("{out}/figures/hls.strict.svg")).expect("a figure");
        assert!(svg.contains(&format!("width=\"{points}\"")), "{svg}");
        assert!(svg.contains("<title>HLS, Section IX: How far class a is behind its guarantee</title>"), "{svg}");
        assert!(fs::read(format!("{out}/figures/hls.strict.pdf")).expect("a figure").starts_with(b"%PDF-"));
    }
}

#[test]
fn what_names_nothing_and_where_nothing_can_be_written_is_said_before_the_work() {
    let dir = Scratch::new();
    let file = dir.write("file", "");
    for (args, says) in [
        (&["reproduce", "hls.alhpa"][..], "did you mean hls.alpha?"),
        (&["reproduce", "hls", "nothing"], "papers are hls, hfsc, htb, drrpp, sds, beyond"),
        (&["reproduce", "hls.alpha", "--out", &file], "this is a file"),
        (&["reproduce", "hls.alpha", "--jobs", "0"], "--jobs"),
        (&["reproduce", "--slow"], "--slow"),
        (&["reproduce", "hls.alpha", "--width", "page"], "--out"),
        (&["reproduce", "hls.alpha", "--out", "report", "--width", "poster"], "screen, column, page"),
    ] {
        let run = lab(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_keeps_what_was_done_and_says_so() {
    let dir = Scratch::new();
    let out = dir.path("report");
    let args = ["reproduce", "drrpp", "--jobs", "1", "--json", "--out", &out];
    let mut child =
        PROGRAM.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    while !catches_ctrl_c(child.id()) {
        assert_eq!(child.try_wait().expect("a child"), None, "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["interrupted"], true);
    let done = json["claims"].as_array().map_or(0, Vec::len);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert!(stderr.contains("error: interrupted: ") && stderr.contains(&format!("{done} claim")), "{stderr}");
    assert!(fs::read_to_string(dir.path("report/index.html")).is_ok_and(|page| page.contains("It was interrupted")));
}
