//! `fairlink-lab bench`.

#[cfg(target_os = "linux")]
use std::process::{Command, Stdio};
#[cfg(target_os = "linux")]
use std::time::Duration;

#[cfg(target_os = "linux")]
use crate::PROGRAM;
#[cfg(target_os = "linux")]
use crate::{Run, Scratch, lab};

/// Runs it to its end. It says nothing on standard error but that the machine is busy, as one is on which other tests
/// run.
fn bench(args: &[&str]) -> Run {
    let run = lab(args);
    let said: Vec<&str> =
        run.stderr.lines().filter(|line| !line.starts_with("WARNING: this machine is busy: ")).collect();
    assert_eq!((run.code, said), (0, Vec::new()), "{}", run.stdout);
    run
}

#[test]
fn bench_has_a_figure_for_every_scheduler_and_tree_it_takes() {
    let args = ["bench", "--leaves", "8,27", "--time", "1ms"];
    let json = bench(&[&args[..], &["--json"]].concat()).json();
    assert!(json["machine"].as_str().is_some_and(|machine| machine.contains("processors")), "{json}");
    let results = json["results"].as_array().expect("a list");
    for (scheduler, levels) in [("fifo", 1), ("hls", 1), ("hls", 3)] {
        for leaves in [8, 27] {
            for packet_bytes in [64, 1500] {
                let found = results.iter().find(|result| {
                    result["scheduler"] == scheduler
                        && result["levels"] == levels
                        && result["leaves"] == leaves
                        && result["packet_bytes"] == packet_bytes
                });
                let result = found.unwrap_or_else(|| panic!("{scheduler} {levels} {leaves} {packet_bytes}: {json}"));
                assert!(result["ns_per_packet"].as_f64().is_some_and(|ns| ns > 0.0), "{result}");
                assert!(result["instructions_per_packet"].is_null(), "{result}");
            }
        }
    }
    for result in results {
        let [gross, net] = ["ns_per_packet", "net_ns_per_packet"].map(|key| result[key].as_f64().expect("a number"));
        assert!(0.0 <= net && net <= gross, "{result}");
    }
    for key in ["harness", "rings"] {
        let baselines = json["baselines"].as_array().expect("a list");
        assert!(baselines.iter().any(|baseline| baseline["scheduler"] == key), "{key}: {json}");
    }
    assert!(json["calibration"]["clock_ghz"].as_f64().is_some_and(|ghz| ghz > 0.0), "{json}");
    let memory = json["memory"].as_array().expect("a list").iter().find(|memory| memory["scheduler"] == "hls");
    assert!(memory.is_some_and(|memory| memory["bytes_per_idle_leaf"].as_f64().is_some_and(|bytes| bytes > 0.0)));
}

#[test]
fn bench_prints_a_table_for_each_pattern_and_length_that_reads_at_80_columns() {
    let args = ["bench", "--leaves", "8,27,100", "--time", "1ms", "--scheduler", "hls", "--scheduler", "wf2q+"];
    let text = bench(&args).stdout;
    let rows = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    // Three patterns, two lengths, one or two numbers of levels, and the rows of memory.
    assert_eq!((rows("hls"), rows("wf2q+"), rows("rings"), rows("fifo")), (14, 7, 12, 0), "{text}");
    assert!(text.contains("100 leaves") && text.contains("Leaves that come and go"), "{text}");
    let widest = text.lines().filter(|line| !line.starts_with("Machine:")).map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 80), "{widest:?}: {text}");
}

#[test]
fn bench_measures_the_workload_that_it_is_told() {
    let args = ["bench", "--leaves", "8", "--levels", "6", "--pattern", "churn", "--packet", "100", "--time", "1ms"];
    let more = ["--single", "--ceilings", "--record", "--scheduler", "htb", "--json"];
    let json = bench(&[&args[..], &more].concat()).json();
    let results = json["results"].as_array().expect("a list");
    assert_eq!(results.len(), 1, "{json}");
    let wanted = [
        ("pattern", "churn".into()),
        ("levels", 6.into()),
        ("packet_bytes", 100.into()),
        ("calls", "single".into()),
        ("ceilings", true.into()),
        ("record", true.into()),
    ];
    for (key, value) in wanted {
        let value: serde_json::Value = value;
        assert_eq!(results[0][key], value, "{json}");
    }
}

#[test]
fn bench_writes_tables_and_a_plot_with_the_figures_of_an_earlier_run_before_them() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path(name);
    let args = ["bench", "--leaves", "8,64", "--packet", "64", "--scheduler", "hls", "--time", "1ms", "--out"];
    bench(&[&args[..], &[&path("first")]].concat());
    bench(&[&args[..], &[&path("second"), "--before", &path("first/cost.json")]].concat());
    let read = |name: &str| std::fs::read_to_string(path(name)).expect(name);
    assert!(!read("first/cost.md").contains('→'));
    let rows =
        read("second/cost.md").lines().filter(|line| line.starts_with("| `hls`") && line.contains(" → ")).count();
    assert_eq!(rows, 3, "{}", read("second/cost.md"));
    assert!(read("second/cost.svg").starts_with("<svg"));
    let run = lab(&[&args[..], &[&path("third"), "--before", &path("second/cost.md")]].concat());
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("cost.md") && run.stderr.contains("`fairlink-lab bench --json` is wanted"),
        "{}",
        run.stderr
    );
    let run = lab(&[&args[..], &[&path("third"), "--before", &path("none.json")]].concat());
    assert!(run.code == 2 && run.stderr.contains("none.json"), "{}", run.stderr);
    let renamed = read("first/cost.json").replace("\"hls\"", "\"another\"");
    std::fs::write(path("another.json"), renamed).expect("a file");
    bench(&[&args[..], &[&path("fourth"), "--beside", &path("another.json")]].concat());
    assert!(read("fourth/cost.md").contains("| `another` |") && read("fourth/cost.svg").contains("another, flat"));
    let run = lab(&[&args[..], &[&path("fifth"), "--beside", &path("second/cost.md")]].concat());
    assert!(run.code == 2 && run.stderr.contains("`fairlink-lab bench --json` is wanted"), "{}", run.stderr);
}

#[test]
fn bench_refuses_what_it_cannot_measure() {
    for (args, says) in [
        (
            ["--scheduler", "best"],
            "there is no scheduler \"best\"; \"hls\" suits most links; `fairlink schedulers` lists all",
        ),
        (["--leaves", "0"], "0 is outside 1 .. 1000000"),
        (["--leaves", "1000001"], "outside 1 .. 1000000"),
        (["--leaves", "many"], "invalid digit"),
        (["--levels", "65"], "65 is outside 1 .. 64"),
        (["--pattern", "bursts"], "[possible values: backlogged, sparse, churn]"),
        (["--packet", "0"], "0 is outside 1 .. 1048576"),
    ] {
        let run = lab(&["bench", args[0], args[1]]);
        assert_eq!(run.code, 2);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn bench_cores_measures_the_hub_beside_the_scheduler_alone_and_shared_virtual_times() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let json = bench(&["bench", "--cores", "--time", "5ms", "--json"]).json();
    let results = json["results"].as_array().expect("a list");
    for result in results {
        assert!(result["mpps"].as_f64().is_some_and(|mpps| mpps > 0.0), "{result}");
    }
    for (split, scheduler) in [("one", "hls".into()), ("hub", "hls".into()), ("shared", serde_json::Value::Null)] {
        let of = |result: &&serde_json::Value| result["split"] == split && result["scheduler"] == scheduler;
        let most = results.iter().filter(of).filter_map(|result| result["threads"].as_u64()).max();
        let expected = if split == "one" { Some(1) } else { Some(processors as u64) };
        assert_eq!(most, expected.filter(|&most| split != "hub" || most > 1), "{split}: {json}");
    }
    let text = bench(&["bench", "--cores", "1", "--time", "5ms", "--scheduler", "drr"]).stdout;
    assert!(text.contains("drr alone") && text.contains("shared") && !text.contains("drr, hub"), "{text}");
    let run = lab(&["bench", "--cores", "1000"]);
    let says = format!("--cores 1000: more threads than processors; this program may use {processors} processor");
    assert!(run.code == 2 && run.stderr.contains(&says), "{}", run.stderr);
    let run = lab(&["bench", "--cores", "--leaves", "8"]);
    assert!(run.code == 2 && run.stderr.contains("cannot be used with"), "{}", run.stderr);
}

/// Returns the reason why real packets cannot be sent here; `None` if the bench ran.
#[cfg(target_os = "linux")]
fn why_no_packets(code: i32, stderr: &str) -> Option<&str> {
    let why = stderr.split("no private network namespace: ").nth(1)?;
    assert_eq!(code, 2, "{stderr}");
    Some(why)
}

/// Times depend on the machine and are not looked at; `run` compares the document with its schema.
#[cfg(target_os = "linux")]
#[test]
fn bench_gateway_has_figures_or_a_reason_for_every_path() {
    let run = lab(&["bench", "--gateway", "--time", "60ms", "--json"]);
    if let Some(why) = why_no_packets(run.code, &run.stderr) {
        return println!("SKIPPED: bench --gateway: {why}");
    }
    assert_eq!(run.code, 0, "{}", run.stderr);
    let bench = run.json();
    assert_eq!((&bench["document"], &bench["version"]), (&"bench_gateway".into(), &2.into()));
    let list = |key: &str| bench[key].as_array().cloned().unwrap_or_default();
    let skipped: Vec<String> = list("skipped")
        .iter()
        .map(|skipped| {
            println!("SKIPPED: {}: {}", skipped["what"], skipped["why"]);
            assert!(skipped["why"].as_str().is_some_and(|why| !why.is_empty()), "{skipped}");
            skipped["what"].as_str().expect("a name").to_owned()
        })
        .collect();
    for path in ["cable", "bridge", "kernel-htb", "af_packet", "af_xdp"] {
        let is_skipped = skipped.iter().any(|what| what == path);
        for bytes in [64, 1500] {
            let is = |result: &&serde_json::Value| result["path"] == path && result["frame_bytes"] == bytes;
            assert_eq!(list("paths").iter().find(is).is_some(), !is_skipped, "{path}, {bytes} B: {bench}");
        }
    }
    for tcp in list("tcp") {
        assert!(tcp["goodput_bps"]["median"].as_f64().is_some_and(|bps| bps > 0.0), "{tcp}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn bench_gateway_reads_at_80_columns() {
    // Half a minute, like the test above, which has the same measurements.
    if std::env::var_os("FAIRLINK_LONG").is_none() {
        return;
    }
    let args = ["bench", "--gateway", "--time", "60ms", "--scheduler", "drr"];
    let run = PROGRAM.run(PROGRAM.command(&args).env("COLUMNS", "80").env("NO_COLOR", "1"));
    if let Some(why) = why_no_packets(run.code, &run.stderr) {
        return println!("SKIPPED: bench --gateway: {why}");
    }
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    let words = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["drr with 8 classes", "Processor time per frame", "at half of the path's own rate", "TCP over a link"]
    {
        assert!(words.contains(part), "{part}: {}", run.stdout);
    }
    // A table for work and two for delays.
    let rows = |path: &str| run.stdout.lines().filter(|line| line.starts_with("64 B ") && line.contains(path)).count();
    assert!(rows("af_packet") == 3 && rows(" cable ") == 1, "{}", run.stdout);
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_the_bench_of_the_gateway_and_leaves_no_interface() {
    let (output, took) = PROGRAM.interrupted_after(Duration::from_millis(700), &["bench", "--gateway"]);
    let stderr = String::from_utf8(output.stderr).expect("text");
    if let Some(why) = why_no_packets(output.status.code().unwrap_or(2), &stderr) {
        return println!("SKIPPED: Ctrl-C of bench --gateway: {why}");
    }
    assert!(output.status.code() == Some(1) && stderr.contains("error: interrupted"), "{stderr}");
    assert!(output.stdout.is_empty(), "no figure of a part of a run");
    // The bench takes more than a minute.
    assert!(took < Duration::from_secs(10), "{:?}", took);
    assert!(!std::path::Path::new("/sys/class/net/sink").exists(), "an interface is left");
}

#[cfg(target_os = "linux")]
#[test]
fn bench_gateway_without_a_namespace_says_why() {
    let forbidden = "echo 0 >/proc/sys/user/max_net_namespaces && exec \"$0\" bench --gateway";
    if !Command::new("unshare").args(["-r", "true"]).status().is_ok_and(|status| status.success()) {
        return println!("SKIPPED: no network namespace: `unshare -r` makes no user namespace here");
    }
    let inside = ["-r", "sh", "-c", forbidden, env!("CARGO_BIN_EXE_fairlink-lab")];
    let run = PROGRAM.run(Command::new("unshare").args(inside).stdin(Stdio::null()));
    assert!(run.stdout.is_empty() && why_no_packets(run.code, &run.stderr).is_some(), "{}", run.stderr);
}
