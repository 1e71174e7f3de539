//! `fairlink sim --trace`: every packet in a file.

use std::fs;
use std::process::Stdio;

use crate::{Scratch, command, fairlink, scenario};

const LINK: &str = r#"
duration = "2s"
seed = 3
[link]
rate = "10mbit"
scheduler = "hls"
overhead = "24B"
[[class]]
name = "voice"
weight = 3
match = ["udp dst port 5060"]
[[class]]
name = "web"
weight = 5
buffer = "20p"
match = ["tcp dst port 443 vlan 7"]
[[class]]
name = "rest"
weight = 2
"#;

const SOURCES: &str = r#"
[[source]]
class = "voice"
model = "poisson"
rate = "2mbit"
packet = "200B"
[[source]]
class = "web"
model = "on_off"
rate = "20mbit"
on = "50ms"
off = "70ms"
packet = { uniform = ["60B", "1400B"] }
[[source]]
class = "rest"
model = "poisson"
rate = "3mbit"
packet = "1000B"
"#;

fn replayed(class: &str) -> String {
    format!("[[source]]\nclass = \"{class}\"\nmodel = \"trace\"\nfile = \"t.csv\"\nof_class = \"{class}\"\n")
}

/// The lines of a trace, the first line and the numbers of the packets left out.
fn rows(path: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|line| line.split(',').skip(1).map(str::to_owned).collect()).collect()
}

fn nanos(text: &str) -> u64 {
    text.replace('.', "").parse().unwrap()
}

#[test]
fn a_trace_replays_with_the_same_arrivals_lengths_and_delays() {
    let dir = Scratch::new();
    let first = dir.write("first.toml", &format!("{LINK}{SOURCES}"));
    let run = fairlink(&["sim", &first, "--trace", &dir.path("t.csv"), "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let sources: String = ["voice", "web", "rest"].map(replayed).concat();
    let again = dir.write("again.toml", &format!("{LINK}{sources}"));
    let replay = fairlink(&["sim", &again, "--trace", &dir.path("u.csv"), "--json"]);
    assert_eq!(replay.code, 0, "{}", replay.stderr);
    let (rows, again) = (rows(&dir.path("t.csv")), rows(&dir.path("u.csv")));
    assert!(rows.len() > 2000 && rows.iter().any(|row| !row[8].is_empty()), "{} rows with drops", rows.len());
    assert_eq!(rows.len(), again.len());
    // A recording begins with its first packet.
    let begin = nanos(&rows[0][1]);
    for (one, other) in rows.iter().zip(&again) {
        assert_eq!((&one[0], &one[4..6]), (&other[0], &other[4..6]), "class and lengths");
        assert_eq!(nanos(&one[1]) - begin, nanos(&other[1]));
        // The last packets differ, because the second run has more time left.
        if nanos(&one[1]) < 1_900_000_000 {
            assert_eq!((&one[6], &one[8]), (&other[6], &other[8]), "queueing delay, or why it was dropped");
        }
    }
}

#[test]
fn the_trace_has_what_the_report_counts() {
    let dir = Scratch::new();
    let file = dir.write("s.toml", &format!("{LINK}{SOURCES}"));
    let run = fairlink(&["sim", &file, "--trace", &dir.path("t.csv"), "--json"]);
    assert!(run.stderr.starts_with("written: "), "{}", run.stderr);
    let rows = rows(&dir.path("t.csv"));
    for class in run.json()["runs"][0]["link"]["classes"].as_array().unwrap() {
        let own = || rows.iter().filter(|row| class["name"] == *row[0]);
        assert_eq!(class["counts"]["received"]["packets"], own().count());
        assert_eq!(class["counts"]["received"]["bytes"], own().map(|row| row[5].parse::<u64>().unwrap()).sum::<u64>());
        assert_eq!(class["counts"]["dropped"]["packets"], own().filter(|row| !row[8].is_empty()).count());
        let delays = own().filter(|row| !row[3].is_empty()).map(|row| nanos(&row[3]) - nanos(&row[1]));
        let max = class["delay_s"]["max"].as_f64().unwrap();
        assert_eq!((max * 1e9).round() as u64, delays.max().unwrap());
    }
}

#[test]
fn frames_of_a_capture_belong_to_their_classes_and_replay() {
    let dir = Scratch::new();
    let file = dir.write("s.toml", &format!("{LINK}{SOURCES}"));
    let run = fairlink(&["sim", &file, "--trace", &dir.path("t.pcapng"), "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let source = |class: &str, found: &str| {
        format!("[[source]]\nclass = \"{class}\"\nmodel = \"trace\"\nfile = \"t.pcapng\"\nmatch = [\"{found}\"]\n")
    };
    let sources = [source("voice", "udp dst port 5060"), source("web", "tcp dst port 443 vlan 7")].concat();
    let replay = fairlink(&["sim", &dir.write("again.toml", &format!("{LINK}{sources}")), "--json"]);
    assert_eq!(replay.code, 0, "{}", replay.stderr);
    for class in 0..2 {
        let offered =
            |run: &serde_json::Value| run["runs"][0]["link"]["classes"][class]["counts"]["received"]["bytes"].clone();
        assert_eq!(offered(&run.json()), offered(&replay.json()));
    }
}

#[test]
fn each_run_has_a_trace_of_its_own_named_after_it() {
    let dir = Scratch::new();
    let file = dir.write("s.toml", &format!("{LINK}{SOURCES}"));
    let trace = dir.path("t.csv");
    let run = fairlink(&[
        "sim",
        &file,
        "--trace",
        &trace,
        "--scheduler",
        "hls",
        "--scheduler",
        "drr",
        "--runs",
        "2",
        "--json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for name in ["t-hls-seed3.csv", "t-hls-seed4.csv", "t-drr-seed3.csv", "t-drr-seed4.csv"] {
        assert!(rows(&dir.path(name)).len() > 1000, "{name}");
    }
    let arrivals =
        |name: &str| -> Vec<String> { rows(&dir.path(name)).into_iter().map(|row| row[1].clone()).collect() };
    assert_eq!(arrivals("t-hls-seed4.csv"), arrivals("t-drr-seed4.csv"));
}

#[test]
fn places_and_endings_that_cannot_be_are_refused_before_the_run() {
    let dir = Scratch::new();
    let refused = |trace: &str, more: &[&str]| {
        let file = scenario("office.toml");
        let run = fairlink(&[&["sim", file.as_str(), "--trace", trace], more].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
        run.stderr
    };
    assert!(refused(&dir.path("t.txt"), &[]).contains("it is .csv or .pcapng"));
    assert!(refused(&dir.path("one.csv/"), &[]).contains("one.csv/: a directory"));
    assert!(!fs::exists(dir.path("one.csv")).unwrap());
    let nowhere = dir.path("nowhere/t.csv");
    assert!(refused(&nowhere, &[]).contains(&format!("--trace: cannot write {nowhere}: No such file")));
    assert!(refused(&dir.path("t.csv"), &["--sweep", "seed=1,2"]).contains("write one value into the scenario"));
    assert!(refused(&dir.path("t.csv"), &["--runs", "300"]).contains("the limit is 256; make fewer runs"));
    assert!(!fs::exists(dir.path("t-seed1.csv")).unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_and_a_closed_pipe_end_the_run_and_are_named() {
    let dir = Scratch::new();
    let full = dir.path("full.csv");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let run = fairlink(&["sim", &scenario("office.toml"), "--trace", &full]);
    assert_eq!(run.code, 2, "the first line does not fit: {}", run.stderr);
    assert!(run.stderr.contains("No space left"), "{}", run.stderr);
    let pipe = dir.path("pipe.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::process::Command::new("head").args(["-n", "1", &pipe]).stdout(Stdio::null()).spawn();
    let run = fairlink(&["sim", &scenario("office.toml"), "--trace", &pipe]);
    assert!(reader.unwrap().wait().unwrap().success());
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(
        run.stderr.contains("pipe.csv: Broken pipe") && run.stderr.contains("the runs were stopped"),
        "{}",
        run.stderr
    );
}

/// Interrupts a run that writes to `name` after it has written some; returns the path.
#[cfg(target_os = "linux")]
fn interrupted(dir: &Scratch, name: &str) -> String {
    let long = format!("{LINK}{SOURCES}").replace("duration = \"2s\"", "duration = \"36000s\"");
    let file = dir.write("s.toml", &long);
    let trace = dir.path(name);
    let mut child = command(&["sim", &file, "--trace", &trace]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Written to: the signal comes while the run is under way.
    while fs::metadata(&trace).map_or(0, |file| file.len()) < 1 << 17 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("incomplete") && said.contains("interrupted at"), "{said}");
    trace
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_is_interrupted_leaves_a_readable_part_and_says_so() {
    let dir = Scratch::new();
    let text = fs::read_to_string(interrupted(&dir, "t.csv")).unwrap();
    assert!(text.ends_with('\n') && text.lines().all(|line| line.split(',').count() == 10));
}

#[cfg(target_os = "linux")]
#[test]
fn a_capture_of_an_interrupted_run_ends_after_a_whole_packet_and_replays() {
    let dir = Scratch::new();
    let bytes = fs::read(interrupted(&dir, "t.pcapng")).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut packets) = (0, 0);
    while at < bytes.len() {
        packets += usize::from(number(at) == 6);
        at += number(at + 4);
    }
    assert_eq!(at, bytes.len(), "whole blocks");
    let source = "[[source]]\nclass = \"rest\"\nmodel = \"trace\"\nfile = \"t.pcapng\"\n";
    let long = LINK.replace("duration = \"2s\"", "duration = \"36000s\"");
    let run = fairlink(&["sim", &dir.write("again.toml", &format!("{long}{source}")), "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.json()["runs"][0]["link"]["classes"][2]["counts"]["received"]["packets"], packets);
}
