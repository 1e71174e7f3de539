//! `fairlink sim --metrics`: what schedulers promise, beside what `check` prints.

use crate::{Scratch, fairlink, scenario};

const SCENARIO: &str = r#"
duration = "2s"
[link]
rate = "10mbit"
scheduler = "hls"
[[class]]
name = "voice"
weight = 1
burst = "3kB"
[[class]]
name = "web"
weight = 3
[[class]]
name = "a"
parent = "web"
[[class]]
name = "b"
parent = "web"
[[source]]
class = "voice"
model = "cbr"
rate = "1mbit"
packet = "500B"
[[source]]
class = "a"
model = "greedy"
packet = "1500B"
[[source]]
class = "b"
model = "poisson"
rate = "4mbit"
packet = "700B"
"#;

#[test]
fn what_is_measured_stands_beside_the_bounds_that_check_prints() {
    let dir = Scratch::new();
    let file = dir.write("s.toml", SCENARIO);
    let run = fairlink(&["sim", &file, "--metrics", "--json"]).quiet().json();
    let check = fairlink(&["check", &file, "--json"]).json();
    let classes = run["runs"][0]["metrics"].as_array().unwrap();
    assert_eq!(classes.len(), 4);
    let mut delays = 0;
    for class in classes {
        let own = |known: &&serde_json::Value| known["name"] == class["name"];
        let checked = check["link"]["classes"].as_array().unwrap().iter().find(own).unwrap();
        let near = |one: &serde_json::Value, other: &serde_json::Value| {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            assert!((one - other).abs() <= 1e-6 * other, "{one} and {other}");
        };
        near(&class["fairness_bytes"]["bound"], &checked["bounds"]["fairness_bytes"]);
        if !class["delay_s"]["bound"].is_null() {
            near(&class["delay_s"]["bound"], &checked["bounds"]["delay_bound_s"]);
            delays += 1;
        }
        let margin = class["fairness_bytes"]["margin"].as_f64().unwrap();
        assert!(margin > 0.0, "{class}");
    }
    assert!(delays >= 1, "voice keeps to its burst");
    assert!(fairlink(&["sim", &file, "--json"]).json()["runs"][0]["metrics"].is_null(), "only where asked for");
}

#[test]
fn the_table_names_class_and_promise_and_several_runs_give_the_worst() {
    let dir = Scratch::new();
    let file = dir.write("s.toml", SCENARIO);
    let run = fairlink(&["sim", &file, "--metrics"]).quiet().stdout;
    for word in ["not used", "fairness", "gap", "lag behind GPS", "lag behind HMM", "burst at 2.50 Mbit/s", "delay"] {
        assert!(run.contains(word), "{word}: {run}");
    }
    assert!(!run.contains("exceeded") && run.contains("No delay bound for "), "{run}");
    let runs = fairlink(&["sim", &file, "--metrics", "--runs", "3"]).quiet().stdout;
    assert!(runs.contains("Worst case of all runs:") && runs.contains("lag behind HMM"), "{runs}");
    let one = fairlink(&["sim", &file, "--metrics", "--class", "voice", "--json"]).quiet().json();
    assert_eq!(one["runs"][0]["metrics"].as_array().unwrap().len(), 1);
}

#[test]
fn a_link_that_changes_is_refused_with_what_to_do() {
    let dir = Scratch::new();
    let (links, sources) = SCENARIO.split_once("[[source]]").unwrap();
    let after = links.split_once("[link]").unwrap().1;
    dir.write("after.toml", &format!("[link]{after}"));
    let text = format!("{links}[[source]]{sources}[[change]]\nat = \"1s\"\nlink = \"after.toml\"\n");
    let run = fairlink(&["sim", &dir.write("s.toml", &text), "--metrics"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stderr.contains("make a scenario of each part"), "{}", run.stderr);
}

#[test]
fn the_shipped_scenarios_keep_their_promises() {
    for name in ["office.toml", "exp2-H.toml"] {
        let run = fairlink(&["sim", &scenario(name), "--metrics", "--scheduler", "hls", "--scheduler", "wfq"]).stdout;
        assert!(run.contains("lag behind HMM") && !run.contains("exceeded"), "{name}: {run}");
    }
}
