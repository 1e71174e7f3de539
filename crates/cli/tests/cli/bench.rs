//! `fairlink bench`.

use crate::fairlink;

#[test]
fn bench_has_a_figure_for_every_scheduler_and_tree_it_takes() {
    let args = ["bench", "--leaves", "8,27", "--time", "1ms"];
    let json = fairlink(&[&args[..], &["--json"]].concat()).quiet().json();
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
    let text = fairlink(&[&args[..], &["--scheduler", "hls"]].concat()).quiet().stdout;
    let rows = text.lines().filter(|line| line.starts_with("hls")).count();
    assert_eq!((rows, text.contains("fifo"), text.contains("27 leaves")), (4, false, true), "{text}");
}

#[test]
fn bench_refuses_what_it_cannot_measure() {
    for (args, says) in [
        (["--scheduler", "best"], "there is no scheduler \"best\"; `fairlink schedulers` lists them"),
        (["--leaves", "0"], "0 is outside 1 .. 1000000"),
        (["--leaves", "1000001"], "outside 1 .. 1000000"),
        (["--leaves", "many"], "invalid digit"),
    ] {
        let run = fairlink(&["bench", args[0], args[1]]);
        assert_eq!(run.code, 2);
        assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}
