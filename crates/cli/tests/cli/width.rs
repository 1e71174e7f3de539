//! Text output at 80 columns: no line is wider, and no part of a table is left out.

use std::fs;
use std::path::Path;

use crate::{Run, Scratch, command, fairlink, run, scenario};

/// In characters; all that is printed here is one column each.
fn too_wide(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.chars().count() > 80).collect()
}

fn at_80(args: &[&str]) -> Run {
    let run = run(command(args).env("COLUMNS", "80").env("NO_COLOR", "1"));
    assert!(run.code == 0 && !run.stdout.is_empty(), "{args:?}: {}", run.stderr);
    assert!(too_wide(&run.stdout).is_empty(), "{args:?}: {:#?}", too_wide(&run.stdout));
    run
}

/// The files below a folder that have one link and are no scenarios.
fn link_files(folder: &Path, found: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let is_link = |text: String| text.lines().any(|line| line == "[link]") && !text.contains("\nduration =");
        if path.is_dir() {
            link_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "toml") && fs::read_to_string(&path).is_ok_and(is_link) {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn every_link_file_that_ships_is_told_in_80_columns() {
    let mut files = Vec::new();
    link_files(Path::new(&scenario("")), &mut files);
    assert!(files.len() >= 7, "{files:?}");
    for file in &files {
        at_80(&["check", file]);
        at_80(&["fluid", file]);
    }
    at_80(&["explain", &scenario("fig1.toml"), "--demand", "A1=inf,A2=inf", "--class", "A1"]);
}

#[test]
fn names_that_leave_no_room_for_numbers_are_told_whole() {
    let dir = Scratch::new();
    let name = "a-subscriber-with-a-name-of-more-letters-than-anybody-reads-in-the-northern-town";
    let class = format!("[[class]]\nname = \"{name}\"\nguarantee = \"10mbit\"\nceiling = \"20mbit\"\n");
    let file = dir.write("long.toml", &format!("[link]\nrate = \"100mbit\"\n{class}"));
    let told = at_80(&["check", &file]).stdout;
    // The name is the first column, in lines that belong together.
    let column = |line: &str| line.chars().take_while(|c| *c != ' ').collect::<String>();
    let whole: String = told.lines().skip_while(|line| !line.starts_with("a-sub")).map(column).collect();
    assert!(whole.starts_with(name), "{told}");
    let cells: Vec<&str> = told.split_whitespace().collect();
    assert!(["guarantee", "ceiling", "10", "20"].iter().all(|cell| cells.contains(cell)), "{told}");
}

#[test]
fn what_is_simulated_and_measured_is_told_in_80_columns() {
    let file = scenario("exp2-H.toml");
    at_80(&["sim", &file]);
    let several = ["hls", "htb", "hfsc", "drr", "fifo", "wf2q+", "cbq-ancestor-only"];
    let schedulers: Vec<&str> = several.iter().flat_map(|name| ["--scheduler", *name]).collect();
    let told = at_80(&[&["sim", &file, "--lenient"], &schedulers[..]].concat()).stdout;
    assert!(
        several.iter().all(|name| told.lines().any(|line| line.starts_with("phase ") && line.contains(name))),
        "{told}"
    );
    at_80(&[&["sim", &file, "--lenient", "--runs", "2"], &schedulers[..8]].concat());
    at_80(&["sim", &file, "--sweep", "link.rate=100mbit,200mbit"]);
    for file in ["network/tcp.toml", "network/parking-lot.toml"] {
        at_80(&["sim", &scenario(file)]);
    }
    at_80(&["demo", "--simulate", "--phase", "1s"]);
}

#[test]
fn schedulers_are_told_in_80_columns() {
    at_80(&["schedulers"]);
    let told = at_80(&["schedulers", "--for", "latency"]).stdout;
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut wide = words(&fairlink(&["schedulers", "--for", "latency"]).stdout);
    let mut narrow = words(&told);
    wide.sort();
    narrow.sort();
    assert_eq!(narrow, wide, "words are parted over lines and none is lost");
}

#[test]
fn the_report_of_an_import_is_told_in_80_columns() {
    let file = |name: &str| scenario(&format!("import/{name}"));
    for args in [
        &["libreqos", &file("ShapedDevices.csv"), "--network", &file("network.json")][..],
        &["tc", &file("eth0.show")],
        &["mikrotik", &file("export.rsc")],
        &["libvirt", &file("machine.xml"), &file("network.xml")],
    ] {
        let run = run(command(&[&["import"], args].concat()).env("COLUMNS", "80"));
        assert!(run.code == 0 && run.stderr.contains("What classes get"), "{args:?}: {}", run.stderr);
        // A path is one word, however long it is.
        let wide: Vec<_> = too_wide(&run.stderr).into_iter().filter(|line| !line.contains("/scenarios/")).collect();
        assert!(wide.is_empty(), "{args:?}: {wide:#?}");
    }
}

/// A gateway with a long class name, real frames, and all of its output.
#[cfg(target_os = "linux")]
const SCRIPT: &str = r#"
export COLUMNS=80 NO_COLOR=1
"$F" gateway "$LINK" --in vb --out vc --ignore-offloads --control "$D/socket" > "$D/end.txt" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
"$F" receive --in vd --link "$LINK" --duration 2s > "$D/received.txt" 2> "$D/receive.log" & receiver=$!
sleep 0.2
"$F" generate "$LINK" --out va --duration 1s > "$D/sent.txt" 2> "$D/generate.log"
"$F" ctl stats --control "$D/socket" --interval 100ms > "$D/stats.txt"
"$F" ctl watch --control "$D/socket" --count 1 --interval 100ms > "$D/watch.txt"
"$F" ctl rate link 50mbit --control "$D/socket" > "$D/rate.txt"
"$F" ctl reload "$LINK" --dry-run --control "$D/socket" > "$D/reload.txt"
wait $receiver
kill -INT $gateway
wait $gateway
"#;

#[test]
#[cfg(target_os = "linux")]
fn what_runs_on_real_packets_is_told_in_80_columns() {
    crate::unless_starved(|| {
        let dir = Scratch::new();
        let link = scenario("exp2-H.toml");
        let Some(run) = crate::in_private_network(SCRIPT, &dir, &[("LINK", &link)]) else { return };
        let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), read("gateway.log"));
        for name in ["end", "received", "sent", "stats", "watch", "rate", "reload"] {
            let told = read(&format!("{name}.txt"));
            assert!(!told.is_empty(), "{name}");
            assert!(too_wide(&told).is_empty(), "{name}: {:#?}", too_wide(&told));
        }
    });
}
