//! Many runs at once, and their statistics.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlink_core::{Leniency, Nanos, registry::find};
use fairlink_sim::statistics::summary::{differences, summaries};
use fairlink_sim::{Job, LinkPool, Links, Options, Run, Scenario, SimError, compare, run_jobs, warmup};
use fairlink_traffic::Model;

use crate::common::{flat, rate, scenario, source};

/// Poisson traffic at 80 % of a link of 10 Mbit/s, packets of 1250 B (1 ms each), and a greedy class in the second half.
fn poisson() -> Scenario {
    let sources = vec![
        source(1, Model::poisson(rate(5_000_000)), 1250, &[]),
        source(2, Model::poisson(rate(3_000_000)), 1250, &[]),
    ];
    scenario(flat(10, &[1, 1]), sources, Nanos::from_secs(5))
}

fn links(first: Scenario) -> Links {
    Links { first, further: Vec::new(), pools: Vec::<LinkPool>::new(), routes: Vec::new() }
}

fn all(links: &Links, names: &[&str], repetitions: u64, threads: usize, options: &Options) -> Vec<Run> {
    let none = BTreeMap::new();
    let mut jobs = Vec::new();
    for name in names {
        for repetition in 0..repetitions {
            let scheduler = find(name).unwrap();
            let leniency = Leniency::Ignore;
            jobs.push(Job { links, scheduler, leniency, repetition, warmup: None, sweep: &none, observers: None });
        }
    }
    run_jobs(&jobs, options, threads, &|_, _| ControlFlow::Continue(())).unwrap()
}

#[test]
fn runs_are_the_same_for_any_number_of_threads_and_those_of_a_comparison() {
    let (links, names) = (links(poisson()), ["fifo", "drr", "hls"]);
    let options = Options { window: Some(Nanos::from_millis(100)), settle: Nanos::ZERO, metrics: false };
    let one = all(&links, &names, 4, 1, &options);
    for threads in [2, 3, 7, 100] {
        assert_eq!(all(&links, &names, 4, threads, &options), one, "{threads}");
    }
    let infos: Vec<_> = names.iter().map(|name| find(name).unwrap()).collect();
    let compared = compare(&links.first, &infos, Leniency::Ignore, 4, &options, &mut ()).unwrap();
    assert_eq!(compared.runs, one);
}

#[test]
fn the_first_job_that_fails_is_named_whatever_the_number_of_threads() {
    let good = links(poisson());
    let mut bad = good.clone();
    bad.first.warmup = bad.first.duration;
    let none = BTreeMap::new();
    let fifo = find("fifo").unwrap();
    let job = |links| Job {
        links,
        scheduler: fifo,
        leniency: Leniency::Refuse,
        repetition: 0,
        warmup: None,
        sweep: &none,
        observers: None,
    };
    let jobs = [job(&good), job(&good), job(&bad), job(&good), job(&bad)];
    for threads in [1, 2, 5] {
        let watch = |_: usize, _: Nanos| ControlFlow::Continue(());
        let (index, error) = run_jobs(&jobs, &Options::default(), threads, &watch).unwrap_err();
        assert_eq!((index, matches!(error, SimError::NoTime { .. })), (2, true), "{threads}");
    }
}

#[test]
fn a_watcher_ends_all_jobs() {
    let links = links(poisson());
    let none = BTreeMap::new();
    let fifo = find("fifo").unwrap();
    let job = |repetition| Job {
        links: &links,
        scheduler: fifo,
        leniency: Leniency::Refuse,
        repetition,
        warmup: None,
        sweep: &none,
        observers: None,
    };
    let jobs: Vec<_> = (0..50).map(job).collect();
    let calls = AtomicUsize::new(0);
    let watch = |_: usize, _: Nanos| {
        if calls.fetch_add(1, Ordering::Relaxed) < 10 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let (_, error) = run_jobs(&jobs, &Options::default(), 2, &watch).unwrap_err();
    assert!(matches!(error, SimError::Stopped { .. }), "{error}");
    assert!(calls.load(Ordering::Relaxed) < 20);
}

/// Mean time of a packet in an M/D/1 queue of this utilisation, in units of its service: Pollaczek and Khinchine.
fn md1(utilisation: f64) -> f64 {
    1.0 + utilisation / (2.0 * (1.0 - utilisation))
}

#[test]
fn the_interval_of_the_mean_delay_covers_pollaczek_khinchine_about_as_often_as_it_says() {
    let mut first = poisson();
    first.duration = Nanos::from_secs(60);
    first.warmup = Nanos::from_secs(1);
    let links = links(first);
    let runs = all(&links, &["fifo"], 100, 2, &Options::default());
    // Ten intervals of ten runs each, for each of two classes, which see the same queue.
    let expected = md1(0.8) * 1e-3;
    let covered = |chunk: &[Run]| {
        let summary = &summaries(chunk)[0];
        let covers = |class: &fairlink_sim::statistics::summary::ClassSummary| {
            let mean = class.delay_s.mean.unwrap();
            usize::from((mean.mean - expected).abs() <= mean.ci95.unwrap())
        };
        summary.classes.iter().map(covers).sum::<usize>()
    };
    let covered: usize = runs.chunks(10).map(covered).sum();
    assert!(covered >= 17, "{covered} of 20");
    let whole = summaries(&runs)[0].classes[0].delay_s.mean.unwrap();
    assert!((whole.mean - expected).abs() < 1.5 * whole.ci95.unwrap(), "{whole:?} {expected}");
}

#[test]
fn fifo_and_a_round_robin_lose_nothing_and_differ_in_delay_only_where_the_pairs_say_so() {
    let runs = all(&links(poisson()), &["fifo", "drr"], 8, 2, &Options::default());
    let summaries = summaries(&runs);
    assert_eq!(
        summaries.iter().map(|summary| (&summary.scheduler[..], summary.runs)).collect::<Vec<_>>(),
        [("fifo", 8), ("drr", 8)]
    );
    let differences = differences(&runs);
    assert_eq!(differences.len(), 1);
    let difference = &differences[0];
    assert_eq!((&difference.scheduler[..], &difference.against[..], difference.runs), ("drr", "fifo", 8));
    // Class 2 asks for less than its half: a round robin serves it sooner, at the cost of class 1.
    let [one, two] = &difference.classes[..] else { panic!("{difference:?}") };
    let (one, two) = (one.delay_s.mean.unwrap(), two.delay_s.mean.unwrap());
    assert_eq!((one.different, two.different), (Some(true), Some(true)));
    assert!(two.estimate.mean < 0.0 && one.estimate.mean > 0.0, "{one:?} {two:?}");
    // Work is conserved: the gain of 3 parts of the traffic is the loss of 5 parts (Kleinrock's conservation law).
    let gained = 3.0 * two.estimate.mean + 5.0 * one.estimate.mean;
    assert!(gained.abs() < 0.05 * one.estimate.mean, "{gained}");
    assert_eq!(difference.classes[0].lost.unwrap().different, Some(false));
    // Pairs are more precise than two separate intervals.
    let apart = summaries[0].classes[1].delay_s.mean.unwrap().ci95.unwrap();
    assert!(two.estimate.ci95.unwrap() < apart, "{two:?} {apart}");
}

#[test]
fn a_scheduler_is_not_different_from_itself() {
    let runs = all(&links(poisson()), &["fifo"], 5, 1, &Options::default());
    let mut twice = runs.clone();
    twice.extend(runs.into_iter().map(|run| Run { scheduler: "again".into(), ..run }));
    for class in &differences(&twice)[0].classes {
        assert_eq!(class.delay_s.mean.unwrap().estimate.mean, 0.0);
        assert_eq!(class.delay_s.mean.unwrap().different, Some(false));
    }
}

#[test]
fn the_warmup_is_the_time_in_which_a_queue_fills() {
    // A source that sends a little more than its share fills its queue of 1000 packets in about 3.3 s.
    let sources = vec![source(1, Model::Saturating(rate(13_000_000)), 1250, &[])];
    let mut first = scenario(flat(10, &[1]), sources, Nanos::from_secs(40));
    let window = Some(fairlink_sim::pilot_window(first.duration));
    let options = Options { window, settle: Nanos::ZERO, metrics: false };
    let pilots = all(&links(first.clone()), &["fifo"], 3, 1, &options);
    let limit = first.tree.config(first.tree.leaves()[0]).limits.packets;
    let fills = f64::from(limit) * 1250.0 * 8.0 / 3e6;
    // The last packet of the filling queue leaves when all before it have.
    let filled = fills + f64::from(limit) * 1e-3;
    let found = warmup(&pilots).unwrap();
    assert!((0.8 * fills..=1.3 * filled).contains(&found), "{found}: fills in {fills}, filled at {filled}");
    // A run that ends while the queue still grows has none.
    first.duration = Nanos((fills * 0.6e9) as u64);
    let options = Options { window: Some(fairlink_sim::pilot_window(first.duration)), ..options };
    let refused = warmup(&all(&links(first), &["fifo"], 3, 1, &options)).unwrap_err();
    assert_eq!((&refused.scheduler[..], &refused.class[..]), ("fifo", "C1"));
}
