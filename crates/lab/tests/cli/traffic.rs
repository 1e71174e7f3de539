//! `fairlink-lab traffic`: the tables of the thesis by command, and the effect of a source's own shaper.

use std::path::Path;

use fairlink_config::{ReadOptions, Scenario};
use fairlink_core::{Leniency, registry};
use fairlink_sim::{Options, compare};

use crate::{Scratch, lab, scenario};

fn mean(value: &serde_json::Value) -> f64 {
    value["mean"].as_f64().unwrap_or_else(|| panic!("no mean in {value}"))
}

#[test]
fn exponential_traffic_has_the_rates_of_table_5_1_and_sigma_of_its_order() {
    let args = ["traffic", &scenario("thesis/exponential.toml"), "--runs", "20", "--rho", "135%", "--json"];
    let json = lab(&args).quiet().json();
    // Packets per second, bytes of payload per second and sigma, as the table has them.
    let table = [
        (5, 1850, 8983),
        (7, 2590, 7894),
        (10, 3700, 12141),
        (11, 4070, 10270),
        (13, 4810, 5810),
        (15, 5550, 4179),
        (16, 5920, 4146),
        (18, 6660, 3717),
        (20, 7400, 3576),
    ];
    for (source, (lambda, payload, sigma)) in json["sources"].as_array().unwrap().iter().zip(table) {
        // The table counts 370 B of a packet, and the header of 40 B is not among them.
        let expected = f64::from(payload) / 370.0 * 410.0 * 8.0;
        assert_eq!(source["expected_bps"].as_f64(), Some(expected), "{lambda}");
        // Twenty runs of 100 s: the standard error is 1 % at most.
        assert!((mean(&source["rate_bps"]) / expected - 1.0).abs() < 0.04, "{source}");
        assert!((mean(&source["dispersion"]) - 1.0).abs() < 0.05, "{source}");
        let found = mean(&source["sigma"][0]["bytes"]);
        assert!((0.25..4.0).contains(&(found / f64::from(sigma))), "{lambda}: {found} for {sigma}");
    }
}

#[test]
fn mpeg_traffic_has_the_burstiness_of_the_thesis_frame_by_frame_and_group_by_group() {
    let args = ["traffic", &scenario("thesis/mpeg.toml"), "--runs", "40", "--rho", "102%,135%", "--json"];
    let source = &lab(&args).quiet().json()["sources"][0];
    assert!((mean(&source["rate_bps"]) / 614_400.0 - 1.0).abs() < 0.01, "{source}");
    let sigma = &source["sigma"][0];
    let (frames, groups) = (mean(&sigma["bytes"]), mean(&sigma["of_groups_bytes"]));
    assert!((frames / 45_560.0 - 1.0).abs() < 0.3 && (groups / 31_436.0 - 1.0).abs() < 0.3, "{sigma}");
    // At the contract's rate an I picture and little more.
    assert!((16_000.0..30_000.0).contains(&mean(&source["sigma"][1]["bytes"])), "{source}");
}

#[test]
fn a_shaped_source_has_the_sigma_of_its_bucket_and_its_losses_are_counted() {
    let dir = Scratch::new();
    let source = "model = 'poisson'\npacket = '500B'\nrate = '900kbit'";
    let file = dir.write(
        "shaped.toml",
        &format!(
            "duration = '60s'\nlink = {{ rate = '10mbit' }}\nclass = [{{ name = 'a', guarantee = '1mbit' }}]\n\
             [[source]]\nclass = 'a'\n{source}\n\
             [[source]]\nclass = 'a'\n{source}\nshape = {{ burst = '2kB', rate = '1mbit' }}\n\
             [[source]]\nclass = 'a'\n{source}\nshape = {{ burst = '2kB', rate = '1mbit' }}\nshape_queue = '3p'\n\
             [[source]]\nclass = 'a'\n{source}\npolice = [{{ burst = '2kB', rate = '1mbit' }}, {{ line = '5mbit' }}]\n\
             [[source]]\nclass = 'a'\nmodel = 'greedy'\npacket = '500B'\n"
        ),
    );
    let json = lab(&["traffic", &file, "--json"]).quiet().json();
    let sigma = |at: usize| mean(&json["sources"][at]["sigma"][0]["bytes"]);
    let lost = |at: usize| mean(&json["sources"][at]["lost_packets"]);
    // The guarantee is the rate at which sigma is asked for.
    assert_eq!(json["sources"][0]["sigma"][0]["rho_bps"], 1_000_000);
    assert!(sigma(0) > 4000.0 && json["sources"][0].get("lost_packets").is_none(), "{json}");
    assert_eq!((sigma(1), sigma(2), lost(1)), (2000.0, 2000.0, 0.0));
    assert!(sigma(3) <= 2000.0 && lost(2) > 100.0 && lost(3) > lost(2), "{json}");
    assert!(json["sources"][4].get("packets").is_none(), "{json}");
    let text = lab(&["traffic", &file, "--runs", "3"]).quiet().stdout;
    assert!(
        text.contains("poisson, shaped")
            && text.contains('±')
            && text.contains("greedy, tcp and request_response sources"),
        "{text}"
    );
    // The simulator gets the same packets, and the class is as bursty as its sources.
    let read = Scenario::read(Path::new(&file), &ReadOptions::default()).unwrap();
    let hls = registry::find("hls").unwrap();
    let options = Options::default();
    let report = compare(&fairlink_api::links_of(&read).first, &[hls], Leniency::Refuse, 1, &options, &mut ()).unwrap();
    let class = &report.runs[0].classes[0];
    assert!(class.counts().received.packets > 10_000, "{class:?}");
    assert_eq!(class.lost_at_source_packets.unwrap_or(0) as f64, lost(2) + lost(3));
}

#[test]
fn what_cannot_be_measured_is_refused_with_the_limit() {
    let file = scenario("thesis/mpeg.toml");
    for (args, words) in [
        (["--rho", "0%"], "0.01%"),
        (["--rho", "fast"], "fast"),
        (["--window", "0s"], "at least 1ns"),
        (
            ["--window", "1ns"],
            "100000000000 windows of all sources and runs; the limit is 1000000000; use at least --window 100ns",
        ),
        (
            ["--link", "none.tc"],
            "this is a scenario file, which names its own link; remove --link, which is for scripts",
        ),
        (["--group", "0ms"], "at least 1ns"),
        (["--runs", "0"], "1..=10000"),
    ] {
        let run = lab(&["traffic", &file, args[0], args[1]]);
        assert!(run.code == 2 && run.stderr.contains(words), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_source_that_answers_to_the_link_is_named_and_the_others_are_measured() {
    let scratch = Scratch::new();
    let link = "duration = \"1s\"\n[link]\nrate = \"10mbit\"\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n";
    let closed = [
        "[[source]]\nclass = \"a\"\nmodel = \"tcp\"\nrtt = \"10ms\"\npacket = \"1000B\"\n",
        "[[source]]\nclass = \"a\"\nmodel = \"request_response\"\nrtt = \"10ms\"\nrequest = \"1kB\"\nresponse = \"9kB\"\n",
    ];
    let open = "[[source]]\nclass = \"b\"\nmodel = \"cbr\"\nrate = \"1mbit\"\npacket = \"1000B\"\n";
    let file = scratch.write("closed.toml", &format!("{link}{}{}{open}", closed[0], closed[1]));
    let text = lab(&["traffic", &file]).quiet().stdout;
    assert!(text.contains("sources depends on the link"), "{text}");
    let json = lab(&["traffic", &file, "--json"]).quiet().json();
    let sources = json["sources"].as_array().unwrap();
    assert!(sources[0]["packets"].is_null() && sources[1]["packets"].is_null(), "{json}");
    assert_eq!(mean(&sources[2]["packets"]), 125.0);
}

#[test]
fn a_script_is_measured_with_its_link_and_without_one_says_what_it_needs() {
    let script = scenario("htb/one-device.script");
    let alone = lab(&["traffic", &script]);
    assert!(
        alone.code == 2 && alone.stderr.contains("this is a script; name its link with --link FILE"),
        "{}",
        alone.stderr
    );
    let link = scenario("htb/htb.tc");
    let json = lab(&["traffic", &script, "--link", &link, "--link-rate", "10mbit", "--json"]).json();
    // Flow 0 sends 90 packets a second for 9 s.
    assert_eq!(mean(&json["sources"][0]["packets"]), 810.0, "{json}");
}

const HEAD: &str =
    "duration = \"100s\"\nlink = { rate = \"10mbit\" }\n[[class]]\nname = \"a\"\n[[source]]\nclass = \"a\"\n";

#[test]
fn a_slope_that_is_no_hurst_parameter_is_not_printed_as_one() {
    let dir = Scratch::new();
    // On in the first half and off in the second: means of longer windows vary no less, and the fewer there are, the
    // more by n / (n - 1).
    let halves = "model = \"cbr\"\nrate = \"1mbit\"\npacket = \"1250B\"\nactive = [\"0s..50s\"]\n";
    let file = dir.write("s.toml", &format!("{HEAD}{halves}"));
    let run = lab(&["traffic", &file, "--json"]);
    let source = &run.json()["sources"][0];
    let found = source["hurst_found"].as_f64().unwrap_or_else(|| panic!("{source}"));
    assert!(source["hurst"].is_null() && (1.0..1.1).contains(&found), "{source}");
    assert!(
        run.stderr.contains("which is outside 0 to 1") && run.stderr.contains("phases of `active`"),
        "{}",
        run.stderr
    );
    let text = lab(&["traffic", &file]).stdout;
    assert!(!text.contains(&format!("{found:.3}")), "{text}");
    let poisson = dir.write("p.toml", &format!("{HEAD}model = \"poisson\"\nrate = \"1mbit\"\npacket = \"500B\"\n"));
    let source = &lab(&["traffic", &poisson, "--json"]).quiet().json()["sources"][0];
    assert!((mean(&source["hurst"]) - 0.5).abs() < 0.1 && source["hurst_found"].is_null(), "{source}");
}

#[test]
fn a_shaper_that_lets_through_without_end_at_one_instant_is_told_instead_of_waited_for() {
    let dir = Scratch::new();
    let shape = "model = \"greedy\"\npacket = \"1B\"\nshape = { rate = \"1tbit\", every = \"1000s\" }\n";
    let run = lab(&["traffic", &dir.write("s.toml", &format!("{HEAD}{shape}"))]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("more than 10000000 packets at 0 ns; use a smaller burst"), "{}", run.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_a_long_measurement_with_how_far_it_came() {
    let dir = Scratch::new();
    let long = HEAD.replace("100s", "36000000s");
    let file = dir.write("s.toml", &format!("{long}model = \"poisson\"\nrate = \"5mbit\"\npacket = \"500B\"\n"));
    let child = crate::PROGRAM
        .command(&["traffic", &file, "--window", "1s"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It receives the signal after it has set up its handler, which is in the list of caught signals.
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let mask =
            status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim).unwrap_or_default().to_owned();
        u64::from_str_radix(&mask, 16).unwrap_or(0) >> 1 & 1 == 1
    };
    while !caught() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("interrupted in source 0 at "), "{said}");
}
