//! A fuzzer of all features at once, with independent meters. Random cases of all schedulers, trees, queues, links and
//! traffic are run as scenario files, and only the arrivals, departures and drops of packets are judged.
//! CONTRIBUTING.md has the commands.
//!
//! | meter | what it judges |
//! | --- | --- |
//! | account | what came was sent, dropped or is queued, once; reports say the same; no queue exceeds its limits |
//! | order | a class, or a flow where flows are kept apart, is first in, first out |
//! | link | packets follow each other at the link's rate; it is not idle while a packet waits that need not |
//! | shares, ceiling | guarantees are got, ceilings and their bursts are not exceeded |
//! | delay, gap, next packet, fairness, worst case, hosts | what `check` prints of them |
//! | ideal, model | rates are those that `sim` prints, and those of progressive filling |
//!
//! Wall time decides the number of cases, never their success: `FAIRLINK_SECONDS` (8), from `FAIRLINK_SEED` (1) on, of
//! `FAIRLINK_SCHEDULER` alone if it is set. `FAIRLINK_VERBOSE` prints the file of each case before it is run.
#![forbid(unsafe_code)]

mod account;
mod bounds;
mod case;
mod faults;
mod fluid;
mod generate;
mod judge;
mod rates;
mod trace;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlink_core::{SchedulerInfo, registry::SCHEDULERS};

use case::{Case, Kind};
use judge::Judge;
use trace::{NotRun, Seen};

/// Cases of each scheduler that are run however long they take.
const AT_LEAST: u64 = 3;

/// Known deviations: scheduler, meter, a required key of the file (empty: none), and the reason. Counted, but not
/// failures.
const KNOWN: [(&str, &str, &str, &str); 1] = [(
    "cbq-formal",
    "shares",
    "",
    "estimators let a class exceed its own rate by up to 2.7 %, more for each level, and others lose that",
)];

/// Collects the verdicts of all meters.
fn judge_links(kind: Kind, edges: f64, links: &[Seen]) -> Judge {
    let mut judge = Judge::default();
    for seen in links {
        account::account(seen, &mut judge);
        account::serial(seen, &mut judge);
        // The following checks rely on the account.
        if judge.found.is_empty() {
            bounds::bounds(seen, &mut judge);
            rates::ceilings(seen, &mut judge);
            if kind == Kind::Steady {
                rates::steady(seen, edges, &mut judge);
            }
        }
    }
    judge
}

/// Meters of rates in the long run.
const LONG_RUN: [&str; 3] = ["ideal", "model", "shares"];
/// The part of the effect of packets at the edges beyond which a rate is measured for longer.
const SUSPICIOUS: f64 = 0.25;

/// Factors by which the run is extended to confirm a deviating rate.
const LONGER: [u64; 2] = [8, 64];

/// Runs and judges a case; `Err` if it is refused. A rate must deviate in longer runs, too: full buckets and debts of
/// the start may last as long as the run, and many times as long if quanta far apart make buckets deep.
fn judge_case(case: &Case) -> Result<Judge, String> {
    let mut judge = judge_once(case, SUSPICIOUS)?;
    for times in LONGER {
        if judge.found.keys().any(|meter| LONG_RUN.contains(meter)) {
            let long = judge_once(&case.longer(times), 1.0)?;
            judge.found.retain(|meter, _| !LONG_RUN.contains(meter) || long.found.contains_key(meter));
        }
    }
    Ok(judge)
}

fn judge_once(case: &Case, edges: f64) -> Result<Judge, String> {
    match catch_unwind(AssertUnwindSafe(|| trace::run(case).map(|links| judge_links(case.kind, edges, &links)))) {
        Ok(Ok(judge)) => Ok(judge),
        Ok(Err(NotRun::Refused(why))) => Err(why),
        Ok(Err(NotRun::Failed(why))) => {
            let mut judge = Judge::default();
            judge.broken("run", why);
            Ok(judge)
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            let mut judge = Judge::default();
            judge.broken("run", format!("panicked: {}", text.unwrap_or("?")));
            Ok(judge)
        }
    }
}

/// Coverage counts.
#[derive(Default)]
struct Met {
    cases: u64,
    refused: BTreeMap<String, u64>,
    schedulers: BTreeMap<&'static str, u64>,
    features: BTreeMap<String, u64>,
    judged: BTreeMap<&'static str, u64>,
    known: BTreeMap<&'static str, u64>,
    failures: Vec<String>,
}

/// The smallest case that the meter still complains of, as text to reproduce it.
fn explained(seed: u64, case: &Case, meter: &'static str) -> String {
    let says = |case: &Case| judge_case(case).ok()?.found.remove(meter);
    let small = case.clone().shrunk(says);
    format!(
        "seed {seed}, {}, {:?}, meter {meter}: {}\nfairlink sim case.toml --scheduler {} with case.toml:\n{}\n(as found: {})\n",
        case.scheduler,
        case.kind,
        says(&small).unwrap_or_default(),
        case.scheduler,
        small.text(),
        says(case).unwrap_or_default()
    )
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn number(name: &str, default: u64) -> u64 {
    setting(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value}: not a number")))
}

#[test]
fn everything_at_once_is_as_the_meters_have_it() {
    let only = setting("FAIRLINK_SCHEDULER");
    let schedulers: Vec<&'static SchedulerInfo> =
        SCHEDULERS.iter().filter(|info| only.as_ref().is_none_or(|only| info.is_called(only))).collect();
    assert!(!schedulers.is_empty(), "there is no scheduler {only:?}");
    let first = number("FAIRLINK_SEED", 1);
    let verbose = setting("FAIRLINK_VERBOSE").is_some();
    let most = number("FAIRLINK_CASES", u64::MAX);
    let end = Instant::now() + Duration::from_secs(number("FAIRLINK_SECONDS", 8));
    let (next, met) = (AtomicU64::new(0), Mutex::new(Met::default()));
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let least = AT_LEAST * schedulers.len() as u64;
            if place >= most || place >= least && Instant::now() >= end {
                break;
            }
            let seed = first + place;
            // Each scheduler in turn, with a separate seed.
            let case = generate::case(seed, schedulers[(seed % schedulers.len() as u64) as usize]);
            if verbose {
                println!("seed {seed}, {}, {:?}\n{}", case.scheduler, case.kind, case.text());
            }
            let mut judged = judge_case(&case);
            let text = case.text();
            let is_known = |meter: &str| {
                let mut known = KNOWN.iter().filter(|known| (known.0, known.1) == (case.scheduler, meter));
                known.any(|known| text.contains(known.2))
            };
            let known = judged.as_mut().map_or_else(
                |_| BTreeMap::new(),
                |judge| {
                    let found = std::mem::take(&mut judge.found);
                    let (known, found) = found.into_iter().partition(|(meter, _)| is_known(meter));
                    judge.found = found;
                    known
                },
            );
            let failures: Vec<String> = match &judged {
                Ok(judge) => judge.found.keys().map(|meter| explained(seed, &case, meter)).collect(),
                Err(_) => Vec::new(),
            };
            let mut met = met.lock().unwrap();
            met.cases += 1;
            known.into_keys().for_each(|meter| *met.known.entry(meter).or_default() += 1);
            match judged {
                Err(why) => {
                    let line = why.lines().find(|line| line.contains("error: ")).or(why.lines().next());
                    let line = line.map_or("?", |line| line.split("error: ").last().unwrap_or(line));
                    *met.refused.entry(format!("{}: {line}", case.scheduler)).or_default() += 1;
                }
                Ok(judge) => {
                    *met.schedulers.entry(case.scheduler).or_default() += 1;
                    case.features().into_iter().for_each(|feature| *met.features.entry(feature).or_default() += 1);
                    judge.judged.iter().for_each(|(meter, count)| *met.judged.entry(meter).or_default() += count);
                    failures.iter().for_each(|failure| println!("{failure}"));
                    met.failures.extend(failures);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let met = met.into_inner().unwrap();
    let list = |of: Vec<String>| of.join(", ");
    let counts =
        |of: &BTreeMap<&'static str, u64>| list(of.iter().map(|(name, count)| format!("{name} {count}")).collect());
    println!("{} cases, {} refused", met.cases, met.refused.values().sum::<u64>());
    println!("schedulers: {}", counts(&met.schedulers));
    println!("features: {}", list(met.features.iter().map(|(name, count)| format!("{name} {count}")).collect()));
    println!("judged: {}", counts(&met.judged));
    println!("known and no failure: {} (of {KNOWN:?})", counts(&met.known));
    met.refused.iter().for_each(|(why, count)| println!("refused {count}: {why}"));
    assert!(met.failures.is_empty(), "{} failures:\n{}", met.failures.len(), met.failures.join("\n"));
}
