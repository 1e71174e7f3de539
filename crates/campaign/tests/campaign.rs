//! Campaigns: rows do not depend on the process that writes them, nor on interruptions.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlink_api::{SimOptions, simulate};
use fairlink_campaign::{Campaign, CampaignError, Cell, Directory, Format, Shard, Whole};
use fairlink_config::SourceText;
use fairlink_config::sweep::{Sweep, Template};
use fairlink_core::Nanos;

const SCENARIO: &str = "\
duration = \"50ms\"
[link]
rate = \"10mbit\"
[[class]]
name = \"a\"
weight = 2
[[class]]
name = \"b\"
weight = 1
[[source]]
class = \"a\"
model = \"poisson\"
rate = \"6mbit\"
packet = \"500B\"
[[source]]
class = \"b\"
model = \"greedy\"
packet = \"1000B\"
";

fn campaign_of(text: &str, sweeps: &[&str], schedulers: &[&str], runs: u32) -> Campaign {
    let template = Template::parse("s.toml", text.to_owned()).unwrap();
    let sweeps = sweeps.iter().map(|text| Sweep::parse(text).unwrap()).collect();
    Campaign::new(template, sweeps, schedulers.iter().map(|&name| name.to_owned()).collect(), runs).unwrap()
}

/// 2 rates, 2 schedulers, 5 seeds.
fn campaign() -> Campaign {
    campaign_of(SCENARIO, &["link.rate=5mbit,10mbit"], &["hls", "drr"], 5)
}

fn on(_: u64, _: Nanos) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Has `jobs` jobs make a part from now on; the campaign has no part yet.
fn resize(dir: &Path, jobs: u64) {
    let path = dir.join("campaign.json");
    let text = fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_once("\"jobs_per_part\": ").unwrap();
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    fs::write(path, format!("{before}\"jobs_per_part\": {jobs}{rest}")).unwrap();
}

fn begin(dir: &Path, format: Format, jobs: u64) -> Directory {
    Directory::begin(dir, campaign(), format).unwrap();
    resize(dir, jobs);
    Directory::begin(dir, campaign(), format).unwrap()
}

fn whole(dir: &Path) -> Whole {
    Directory::open(dir).unwrap().whole().unwrap().expect("all parts are there")
}

#[test]
fn the_digest_depends_neither_on_shares_nor_on_threads_nor_on_the_format() {
    let root = tempfile::tempdir().unwrap();
    let mut digests = Vec::new();
    for (number, (format, jobs, shares, threads)) in [
        (Format::Csv, 20, 1, 1),
        (Format::Csv, 1, 3, 2),
        (Format::Parquet, 3, 1, 4),
        (Format::Parquet, 7, 2, 1),
        (Format::Csv, 6, 4, 2),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = root.path().join(number.to_string());
        begin(&dir, format, jobs);
        // Each share has a process of its own, of which all begin at once.
        std::thread::scope(|scope| {
            for share in 1..=shares {
                let dir = &dir;
                scope.spawn(move || {
                    let mine = Directory::begin(dir, campaign(), format).unwrap();
                    mine.work(Shard { number: share, of: shares }, threads, &on, &|_| ()).unwrap();
                });
            }
        });
        let whole = whole(&dir);
        assert_eq!((whole.rows, whole.failed), (2 * 20, 0));
        digests.push(whole.digest);
        let left: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len() as u64, 1 + 20u64.div_ceil(jobs), "{left:?}");
    }
    assert!(digests.windows(2).all(|two| two[0] == two[1]), "{digests:?}");
    let other = root.path().join("other");
    let others =
        Directory::begin(&other, campaign_of(SCENARIO, &["link.rate=5mbit,11mbit"], &["hls", "drr"], 5), Format::Csv);
    others.unwrap().work(Shard::ALL, 2, &on, &|_| ()).unwrap();
    assert_ne!(self::whole(&other).digest, digests[0]);
}

#[test]
fn a_campaign_goes_on_where_it_stopped_and_has_no_part_twice() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    let unbroken = root.path().join("unbroken");
    begin(&unbroken, Format::Csv, 4).work(Shard::ALL, 1, &on, &|_| ()).unwrap();
    let campaign = begin(&dir, Format::Csv, 4);
    // It stops in the middle of job 9, in the third of five parts.
    let stop = |job, now: Nanos| {
        if job == 9 && now.0 > 10_000_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = campaign.work(Shard::ALL, 1, &stop, &|_| ()).unwrap_err();
    assert!(matches!(error, CampaignError::Stopped), "{error}");
    assert_eq!((campaign.missing(Shard::ALL), campaign.whole().unwrap()), (vec![2, 3, 4], None));
    // One part is lost, and a draft was left by a process that was killed.
    fs::remove_file(campaign.file_of(0)).unwrap();
    fs::write(dir.join("part-0000002.77.0"), "job,sched").unwrap();
    let done = AtomicU64::new(0);
    let outcome = campaign.work(Shard::ALL, 2, &on, &|_| _ = done.fetch_add(1, Ordering::Relaxed)).unwrap();
    assert_eq!((outcome.written, done.into_inner()), (4, 4));
    assert_eq!(whole(&dir), whole(&unbroken));
    assert_eq!(campaign.work(Shard::ALL, 2, &on, &|_| ()).unwrap().written, 0);
}

#[test]
fn rows_have_the_numbers_of_a_run_of_the_same_scenario() {
    let campaign = campaign();
    let column = |name: &str| campaign.columns().iter().position(|column| column.name == name).expect(name);
    let mut doer = campaign.doer();
    // 10 Mbit/s under drr with the third seed: setting 1, scheduler 1, repetition 2.
    let rows = doer.run((2 + 1) * 5 + 2, &|_| ControlFlow::Continue(())).unwrap();
    let options = SimOptions { scheduler: Some("drr"), seed: Some(1 + 2), ..SimOptions::default() };
    let mut run = simulate(&SourceText::new("s.toml", SCENARIO), &options).unwrap();
    run.step_until(Nanos(u64::MAX)).unwrap();
    let report = run.report().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, class) in rows.iter().zip(&report.classes) {
        let counts = class.counts();
        let expected = [
            ("job", Cell::Whole(17)),
            ("scheduler", Cell::Text("drr".to_owned())),
            ("seed", Cell::Whole(3)),
            ("set.link.rate_bps", Cell::Number(1e7)),
            ("class", Cell::Text(class.name.clone())),
            ("leaf", Cell::Flag(true)),
            ("sent_packets", Cell::Whole(counts.sent.packets)),
            ("sent_bytes", Cell::Whole(counts.sent.bytes)),
            ("queued_packets", Cell::Whole(counts.queued.packets)),
            ("rate_bps", Cell::Number(class.rates.rate_bps.unwrap())),
            ("delay_packets", Cell::Whole(class.delay().packets)),
            ("delay_p99_s", Cell::Number(class.delay().p99.unwrap())),
            ("delay_max_s", Cell::Number(class.delay().max.unwrap())),
            ("error", Cell::Empty),
        ];
        for (name, cell) in expected {
            assert_eq!(row[column(name)], cell, "{name} of {}", class.name);
        }
        assert!(counts.sent.packets > 10);
    }
}

#[test]
fn a_job_that_fails_has_the_reason_and_the_others_go_on() {
    let root = tempfile::tempdir().unwrap();
    for (name, format) in [("csv", Format::Csv), ("parquet", Format::Parquet)] {
        let dir = root.path().join(name);
        let campaign = campaign_of(SCENARIO, &["class.a.weight=1,0,3"], &[], 2);
        let campaign = Directory::begin(&dir, campaign, format).unwrap();
        assert_eq!(campaign.work(Shard::ALL, 1, &on, &|_| ()).unwrap().failed, 2);
        let Whole { rows, failed, failure, .. } = whole(&dir);
        assert_eq!((rows, failed), (2 * 4 + 2, 2));
        let failure = failure.unwrap();
        assert!(failure.starts_with("2,") && failure.contains("s.toml:6") && failure.contains("weight"), "{failure}");
    }
}

#[test]
fn what_is_wrong_with_all_jobs_is_refused_before_the_first() {
    let refused = |sweeps: &[&str], schedulers: &[&str], runs| {
        let template = Template::parse("s.toml", SCENARIO.to_owned()).unwrap();
        let sweeps = sweeps.iter().map(|text| Sweep::parse(text).unwrap()).collect();
        let schedulers = schedulers.iter().map(|&name| name.to_owned()).collect();
        Campaign::new(template, sweeps, schedulers, runs).unwrap_err().to_string()
    };
    let key = refused(&["class.a.wieght=1,2"], &[], 1);
    assert!(key.contains("did you mean class.a.weight?"), "{key}");
    let scheduler = refused(&["seed=1,2"], &["hls", "hlss"], 1);
    assert!(scheduler.contains("hlss"), "{scheduler}");
    let value = refused(&["link.rate=fast,5mbit"], &[], 1);
    assert!(value.contains("\"rate\": \"fast\" does not begin with a number"), "{value}");
    let many = refused(&["seed=1..10000..1", "link.rate=1mbit..10mbit..1mbit"], &[], 1000);
    assert!(many.contains("100000000 jobs") && many.contains("10000000"), "{many}");
}

#[test]
fn a_scheduler_that_is_named_twice_runs_once() {
    let twice = campaign_of(SCENARIO, &["link.rate=5mbit,10mbit"], &["hls", "drr", "hls"], 5);
    assert_eq!((twice.jobs(), twice.schedulers()), (20, campaign().schedulers()));
    let info = fairlink_core::registry::SCHEDULERS.iter().find(|info| !info.aliases.is_empty()).expect("an alias");
    assert_eq!(campaign_of(SCENARIO, &[], &[info.name, info.aliases[0]], 1).jobs(), 1);
}

#[test]
fn shares_are_counted_from_1_to_their_number() {
    assert_eq!(Shard::parse("2/3"), Ok(Shard { number: 2, of: 3 }));
    for (text, says) in [
        ("1/0", "there is at least 1 share, not 0; write e.g. 1/4 for the first of four"),
        ("0/3", "share 0 of 3: shares are counted from 1 to 3"),
        ("4/3", "share 4 of 3: shares are counted from 1 to 3"),
        ("half", "\"half\" is not NUMBER/OF; write e.g. 1/4 for the first of four shares"),
    ] {
        assert_eq!(Shard::parse(text), Err(says.to_owned()));
    }
}

#[test]
fn a_directory_keeps_its_campaign() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    assert!(matches!(Directory::open(&dir), Err(CampaignError::None { .. })));
    Directory::begin(&dir, campaign(), Format::Csv).unwrap();
    let begin = |campaign, format| Directory::begin(&dir, campaign, format).unwrap_err().to_string();
    for (campaign, format, says) in [
        (campaign(), Format::Parquet, "with another format"),
        (campaign_of(SCENARIO, &["link.rate=5mbit,10mbit"], &["hls"], 5), Format::Csv, "with other schedulers"),
        (campaign_of(SCENARIO, &["link.rate=5mbit,10mbit"], &["hls", "drr"], 6), Format::Csv, "another number of runs"),
        (campaign_of(SCENARIO, &["link.rate=5mbit"], &["hls", "drr"], 5), Format::Csv, "other values"),
        (campaign_of(&SCENARIO.replace("50ms", "60ms"), &[], &["hls", "drr"], 5), Format::Csv, "another scenario"),
    ] {
        let error = begin(campaign, format);
        assert!(error.contains(says) && error.contains("use another directory"), "{error}");
    }
    fs::write(dir.join("campaign.json"), "{}").unwrap();
    let error = begin(campaign(), Format::Csv);
    assert!(error.contains("campaign.json") && error.contains("missing field"), "{error}");
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Directory::begin(&file, campaign(), Format::Csv).unwrap_err().to_string();
    assert!(error.contains("creating the directory"), "{error}");
}

#[test]
fn a_part_that_was_cut_off_is_no_campaign_until_it_is_removed_and_made_anew() {
    let root = tempfile::tempdir().unwrap();
    // In the head, within a row, before the rows of the last job.
    for (number, (format, cut)) in
        [(Format::Csv, Some(10)), (Format::Csv, Some(1_500)), (Format::Csv, None), (Format::Parquet, Some(40))]
            .into_iter()
            .enumerate()
    {
        let dir = root.path().join(number.to_string());
        let campaign = begin(&dir, format, 10);
        campaign.work(Shard::ALL, 1, &on, &|_| ()).unwrap();
        let unbroken = whole(&dir);
        let bytes = fs::read(campaign.file_of(1)).unwrap();
        let last_job = || String::from_utf8_lossy(&bytes).find("\n19,").expect("job 19") + 1;
        fs::write(campaign.file_of(1), &bytes[..cut.unwrap_or_else(last_job)]).unwrap();
        let error = campaign.whole().unwrap_err().to_string();
        assert!(error.contains("part-0000001") && error.contains(": the file is damaged: "), "{error}");
        assert!(error.ends_with("; remove it and run the same command again, which makes this file anew"), "{error}");
        fs::remove_file(campaign.file_of(1)).unwrap();
        assert_eq!(campaign.work(Shard::ALL, 1, &on, &|_| ()).unwrap().written, 1);
        assert_eq!(whole(&dir), unbroken);
    }
}
