//! `fairlink-lab campaign`: results as files that several processes write together.

use std::fs;

use fairlink_config::{ReadOptions, Scenario};
use fairlink_core::Leniency;
use fairlink_core::registry::find;
use fairlink_sim::{Options, compare};
use fairlink_terminal::testing::POISSON;

use crate::{Scratch, lab};

/// Returns the packets that three runs of a scenario send under each of two schedulers.
fn packets(text: &str) -> u64 {
    let file = Scenario::parse("poisson.toml", text.to_owned(), &ReadOptions::default()).unwrap();
    let scenario = fairlink_api::links_of(&file).first;
    let schedulers = ["hls", "drr"].map(|name| find(name).unwrap());
    let report = compare(&scenario, &schedulers, Leniency::Ignore, 3, &Options::default(), &mut ()).unwrap();
    report.runs.iter().flat_map(|run| &run.classes).map(|class| class.counts().sent.packets).sum()
}

#[test]
fn shares_of_a_campaign_make_the_files_of_one_command_and_go_on_after_an_end() {
    let dir = Scratch::new();
    let file = dir.write("poisson.toml", POISSON);
    let begin = [
        "campaign",
        &file,
        "--sweep",
        "link.rate=10mbit,20mbit",
        "--scheduler",
        "hls",
        "--scheduler",
        "drr",
        "--runs",
        "3",
    ];
    let campaign = |out: &str, more: &[&str]| lab(&[&begin[..], &["--out", &dir.path(out)], more].concat());
    let one = campaign("one", &["--shard", "1/1", "--json"]).quiet().json();
    assert_eq!((&one["document"], &one["jobs"], &one["rows"]), (&"campaign".into(), &12.into(), &24.into()), "{one}");
    let first = campaign("two", &["--shard", "2/2", "--format", "parquet", "--json"]).quiet().json();
    assert!(first.get("digest").is_none() && first["present_parts"] == 6, "{first}");
    // A file is lost; the rest makes it again.
    fs::remove_file(dir.path("two/part-0000003.parquet")).expect("a file");
    let text = campaign("two", &["--shard", "1/1", "--format", "parquet"]).quiet().stdout;
    assert!(text.contains("12 runs in 12 files of up to 1; 7 written now, 12 there"), "{text}");
    assert!(text.contains(&format!("complete: 24 rows, digest {}", one["digest"].as_str().expect("one"))), "{text}");
    // The numbers are those of the same sweep without files.
    let (mut rows, mut sent) = (0, 0);
    for number in 0..12 {
        let text = fs::read_to_string(dir.path(&format!("one/part-{number:07}.csv"))).expect("a file");
        let column = text.split(',').position(|name| name == "sent_packets").expect("a column");
        for line in text.lines().skip(1) {
            rows += 1;
            sent += line.split(',').nth(column).and_then(|field| field.parse::<u64>().ok()).expect("a number");
        }
    }
    let expected: u64 =
        [10, 20].into_iter().map(|mbit| packets(&POISSON.replace("10mbit", &format!("{mbit}mbit")))).sum();
    assert_eq!((rows, sent), (24, expected));
    let other = campaign("one", &["--shard", "1/1", "--format", "parquet"]);
    assert!(other.code == 2 && other.stderr.contains("another campaign, with another format"), "{}", other.stderr);
    let wrong = lab(&["campaign", &file, "--sweep", "sed=1,2", "--out", &dir.path("x"), "--shard", "1/1"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("did you mean seed?"), "{}", wrong.stderr);
    let fails = lab(&[
        "campaign",
        &file,
        "--sweep",
        "class.b.guarantee=5mbit,50mbit",
        "--out",
        &dir.path("y"),
        "--shard",
        "1/1",
    ]);
    assert!(fails.code == 1 && fails.stderr.contains("1 run of 2 failed: the column `error`"), "{}", fails.stderr);
    assert!(fails.stdout.contains("2 runs in 2 files"), "{}", fails.stdout);
    let one =
        lab(&["campaign", &file, "--out", &dir.path("z"), "--scheduler", "hls", "--scheduler", "hls"]).quiet().stdout;
    assert!(one.contains(": 1 run in 1 file of up to 1; 1 written now, 1 there\ncomplete: 2 rows"), "{one}");
}
