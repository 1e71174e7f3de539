//! `fairlink sim` as an instrument: several runs, sweeps, warm-up, windows, figures.

use std::fs;

use serde_json::{Value, json};

use fairlink_terminal::testing::POISSON;

use crate::{Scratch, fairlink, scenario};

fn numbers<'a>(list: impl IntoIterator<Item = &'a Value>) -> Vec<f64> {
    list.into_iter().map(|value| value.as_f64().expect("a number")).collect()
}

#[test]
fn several_runs_are_summed_up_as_the_formats_say_and_by_the_formula_that_is_named() {
    let dir = Scratch::new();
    let file = dir.write("poisson.toml", POISSON);
    let json = fairlink(&["sim", &file, "--runs", "5", "--json"]).quiet().json();
    let summary = &json["summary"][0];
    assert_eq!((&summary["scheduler"], &summary["runs"]), (&json!("drr"), &json!(5)));
    let class = &summary["classes"][0];
    assert_eq!(class["name"], "a");
    let runs = json["runs"].as_array().expect("a list");
    let delays = numbers(runs.iter().map(|run| &run["link"]["classes"][0]["delay_s"]["mean"]));
    let mean = delays.iter().sum::<f64>() / 5.0;
    let deviation = (delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / 4.0).sqrt();
    // t of 4 degrees of freedom from the printed table, and the thesis' 1.96.
    for (key, expected) in [("ci95", 2.776 * deviation / 5f64.sqrt()), ("ci95_normal", 1.96 * deviation / 5f64.sqrt())]
    {
        let found = class["delay_s"]["mean"][key].as_f64().expect("a number");
        assert!((found / expected - 1.0).abs() < 3e-4, "{key}: {found} {expected}");
    }
    for place in [&class["rate_bps"], &class["delay_s"]["p99"], &class["lost"], &summary["phases"][0]["jain_index"]] {
        assert!(place["mean"].is_f64() && place["ci95"].is_f64(), "{place}");
    }
    assert!(json.get("differences").is_none());
    let one = fairlink(&["sim", &file, "--json"]).quiet().json();
    assert!(one.get("summary").is_none());
    let text = fairlink(&["sim", &file, "--runs", "5"]).quiet().stdout;
    assert!(
        text.contains("drr, mean of 5 runs, seeds 1 and up") && text.contains(" ± ") && text.contains("Student's t")
    );
}

#[test]
fn schedulers_are_compared_run_by_run() {
    let dir = Scratch::new();
    let file = dir.write("poisson.toml", POISSON);
    let args = ["sim", &file, "--runs", "6", "--scheduler", "fifo", "--scheduler", "drr"];
    let json = fairlink(&[&args[..], &["--json"]].concat()).quiet().json();
    let difference = &json["differences"][0];
    assert_eq!((&difference["scheduler"], &difference["against"]), (&json!("drr"), &json!("fifo")));
    let runs = json["runs"].as_array().expect("a list");
    let delays = |half: &[Value]| numbers(half.iter().map(|run| &run["link"]["classes"][1]["delay_s"]["mean"]));
    let pairs: Vec<f64> = delays(&runs[6..]).iter().zip(delays(&runs[..6])).map(|(drr, fifo)| drr - fifo).collect();
    let mean = difference["classes"][1]["delay_s"]["mean"]["mean"].as_f64().expect("a number");
    assert!((mean - pairs.iter().sum::<f64>() / 6.0).abs() < 1e-12);
    assert_eq!(difference["classes"][1]["delay_s"]["mean"]["different"], json!(true));
    let text = fairlink(&args).quiet().stdout;
    assert!(text.contains("drr minus fifo, paired by run on the same arrivals") && text.contains(" ms *"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 86), "{text}");
}

#[test]
fn output_is_the_same_for_any_number_of_jobs() {
    let dir = Scratch::new();
    let file = dir.write("poisson.toml", POISSON);
    let with = |jobs: &str, out: &str| {
        let sweep = ["--sweep", "link.rate=10mbit..14mbit..2mbit", "--sweep", "seed=1,9", "--scheduler", "drr"];
        let more = ["--scheduler", "hls", "--runs", "2", "--window", "100ms", "--json", "--jobs", jobs, "--out", out];
        let run = fairlink(&[&["sim", &file][..], &sweep, &more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let mut files: Vec<_> =
            fs::read_dir(out).expect("a directory").map(|file| file.expect("a file").path()).collect();
        files.sort();
        let texts: Vec<_> = files
            .iter()
            .map(|file| (file.file_name().map(ToOwned::to_owned), fs::read(file).expect("bytes")))
            .collect();
        (run.stdout, texts)
    };
    let one = with("1", &dir.path("one"));
    assert!(one == with("2", &dir.path("two")) && one == with("7", &dir.path("seven")));
    assert!(one.1.len() > 40, "{}", one.1.len());
}

#[test]
fn a_sweep_runs_the_grid_and_names_the_settings_of_each_run() {
    let dir = Scratch::new();
    let file = dir.write("poisson.toml", POISSON);
    let sweep =
        ["sim", &file, "--sweep", "link.rate=10mbit,20mbit", "--sweep", "source.b.packets_per_second=100..300..100"];
    let out = dir.path("plots");
    let run = fairlink(&[&sweep[..], &["--json", "--out", &out]].concat());
    let json = run.json();
    let settings: Vec<_> = json["runs"].as_array().expect("a list").iter().map(|run| run["sweep"].clone()).collect();
    let expected: Vec<_> = [1e7, 2e7]
        .into_iter()
        .flat_map(|rate| [100, 200, 300].map(|n| json!({"link.rate": rate, "source.b.packets_per_second": n})))
        .collect();
    assert_eq!(settings, expected);
    assert!(json.get("summary").is_none(), "one run each has no interval");
    let rates: Vec<f64> = json["runs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| run["link"]["capacity_bps"].as_f64().expect("one"))
        .collect();
    assert_eq!(rates, [1e7, 1e7, 1e7, 2e7, 2e7, 2e7]);
    let csv = fs::read_to_string(dir.path("plots/sweep.csv")).expect("a file");
    assert_eq!(csv.lines().count(), 1 + 6 * 2);
    assert!(csv.starts_with("link.rate_bps,source.b.packets_per_second,scheduler,runs,class,rate_bps,"), "{csv}");
    assert!(fs::read_to_string(dir.path("plots/sweep.svg")).expect("a file").contains("link.rate (Mbit/s)"));
    // Without --window there are no files of single runs.
    let mut names: Vec<_> =
        fs::read_dir(&out).expect("a directory").map(|file| file.expect("a file").file_name()).collect();
    names.sort();
    assert_eq!(names, ["sweep.csv", "sweep.svg"]);
    // A run of a sweep is the run of a file with that number.
    let alone = dir.write("alone.toml", &POISSON.replace("10mbit\"", "20mbit\"").replace("300", "200"));
    let alone = fairlink(&["sim", &alone, "--json"]).quiet().json();
    assert_eq!(alone["runs"][0]["link"]["classes"], json["runs"][4]["link"]["classes"]);
    let text = fairlink(&sweep).quiet().stdout;
    assert_eq!(text.lines().filter(|line| line.contains("drr") || line.contains(" b ")).count(), 12, "{text}");
    assert!(text.starts_with("link.rate  source.b.packets_per_second  scheduler  class"), "{text}");
}

#[test]
fn the_link_file_that_a_scenario_names_is_swept_too() {
    let run = fairlink(&["sim", &scenario("fig1-busy.toml"), "--sweep", "link.rate=1gbit,2gbit", "--json"]);
    let json = run.json();
    let rates = numbers(json["runs"].as_array().expect("a list").iter().map(|run| &run["link"]["capacity_bps"]));
    assert_eq!(rates, [1e9, 2e9], "{}", run.stderr);
}

#[test]
fn what_cannot_be_measured_is_refused_with_its_limit() {
    let dir = Scratch::new();
    let file = dir.write("poisson.toml", POISSON);
    let phases =
        dir.write("phases.toml", &POISSON.replace("rate = \"5mbit\",", "rate = \"5mbit\", active = [\"0s..1s\"],"));
    for (args, says) in [
        (&["sim", &file, "--sweep", "link.rat=1mbit"][..], "did you mean link.rate?"),
        (
            &["sim", &file, "--sweep", "link.scheduler=drr"],
            "these can be swept: duration, link.rate, class.a.guarantee",
        ),
        (&["sim", &file, "--sweep", "seed=5..1..1"], "ends before it starts"),
        (&["sim", &file, "--sweep", "seed="], "a value is missing"),
        (
            &["sim", &file, "--sweep", "seed=1..200..1", "--sweep", "link.rate=1mbit..100mbit..1mbit"],
            "the limit is 10000",
        ),
        (&["sim", &file, "--sweep", "seed=1,2", "--sweep", "seed=3"], "seed is swept twice"),
        (&["sim", &file, "--sweep", "link.rate=10mbit,10000kbit"], "the value 10000kbit is given twice"),
        (&["sim", &file, "--sweep", "link.rate=10"], "with link.rate=10"),
        (&["sim", &file, "--sweep", "link.rate=20mbit,8mbit"], "with link.rate=8mbit"),
        (
            &["sim", &file, "--runs", "4000000000"],
            "4000000000 runs (settings times schedulers times --runs); the limit is 100000",
        ),
        (&["sim", &file, "--window", "0s"], "a window must be longer than 0"),
        (&["sim", &file, "--window", "100"], "no unit"),
        (
            &["sim", &file, "--window", "100ns"],
            "60000000 rates (windows times classes of all runs); the limit is 8388608; use at least 1 us",
        ),
        (&["sim", &file, "--jobs", "0"], "--jobs"),
        (&["sim", &file, "--warmup", "2s"], "not shorter than the run of 2 s"),
        (&["sim", &file, "--warmup", "soon"], "--warmup"),
        (&["sim", &phases, "--warmup", "auto"], "the scenario has 2 phases, and MSER-5 needs a single steady state"),
    ] {
        let run = fairlink(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
        let text = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(says), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn the_warmup_is_found_and_left_out_of_all_schedulers_alike() {
    let dir = Scratch::new();
    // A queue of 200 packets fills in about a second.
    let text = POISSON.replace("\"2s\"", "\"30s\"").replace("buffer = \"20p\"", "buffer = \"200p\"");
    let text = text.replace("\"poisson\", rate = \"5mbit\"", "\"saturating\", rate = \"9mbit\"");
    let file = dir.write("fills.toml", &text);
    let args = ["sim", &file, "--warmup", "auto", "--runs", "3", "--scheduler", "drr", "--scheduler", "hls", "--json"];
    let run = fairlink(&args);
    let json = run.json();
    let warmups = numbers(json["summary"].as_array().expect("a list").iter().map(|summary| &summary["warmup_s"]));
    assert!(warmups[0] == warmups[1] && (0.3..4.0).contains(&warmups[0]), "{warmups:?}");
    assert!(run.stderr.contains("warm-up by MSER-5: "), "{}", run.stderr);
    let given = fairlink(&["sim", &file, "--warmup", "7s", "--json"]).quiet().json();
    assert_eq!(given["runs"][0]["warmup_s"], json!(7.0));
}

#[test]
fn windows_have_rate_delay_queue_and_drops_of_each_leaf() {
    let dir = Scratch::new();
    let file = dir.write("poisson.toml", &POISSON.replace("\"5mbit\", packet", "\"9mbit\", packet"));
    let out = dir.path("plots");
    let run = fairlink(&["sim", &file, "--window", "100ms", "--json", "--out", &out]);
    let json = run.json();
    let spans = json["runs"][0]["link"]["spans"].as_array().expect("a list");
    let windows: Vec<_> = spans.iter().filter(|span| span["kind"] == "window").collect();
    assert_eq!(windows.len(), 20);
    let class = |index: usize| windows.iter().map(move |window| &window["classes"][index]);
    let dropped: f64 = numbers(class(0).map(|class| &class["dropped_packets"])).iter().sum();
    assert_eq!(json!(dropped as u64), json["runs"][0]["link"]["classes"][0]["counts"]["dropped"]["packets"]);
    let longest = numbers(class(0).map(|class| &class["queue_packets"]["max"])).into_iter().fold(0.0, f64::max);
    // The queue of 20 packets was full.
    assert_eq!((longest, dropped > 0.0), (20.0, true));
    assert!(class(0).all(|class| class["delay_s"]["mean"].as_f64() <= class["delay_s"]["max"].as_f64()));
    for name in ["drr.svg", "drr.csv", "drr-series.svg", "drr-series.csv", "drr-delays.svg", "delays.svg", "delays.csv"]
    {
        assert!(fs::metadata(dir.path(&format!("plots/{name}"))).expect(name).len() > 200);
    }
    let plain = fairlink(&["sim", &file, "--json", "--out", &out]).json();
    let spans = plain["runs"][0]["link"]["spans"].as_array().expect("a list");
    assert!(spans.iter().all(|span| span["kind"] == "phase"), "{spans:?}");
}

#[test]
fn one_class_is_shown_of_all_that_several_runs_say() {
    let dir = Scratch::new();
    let file = dir.write("poisson.toml", POISSON);
    for more in [&["--runs", "3"][..], &["--sweep", "seed=1,2"]] {
        let args = [&["sim", &file, "--class", "b"][..], more].concat();
        let text = fairlink(&args).quiet().stdout;
        let row = |name: &str| text.lines().any(|line| format!("  {line}").contains(&format!("  {name}  ")));
        assert!(!row("a") && row("b"), "{text}");
        let json = fairlink(&[&args[..], &["--json"]].concat()).quiet().json();
        assert_eq!(json["runs"][0]["link"]["classes"].as_array().map(Vec::len), Some(1));
    }
}
