//! One suite for all schedulers of the registry: the contract of `fairlink_core::scheduler`, checked on each of them
//! over random trees and sequences of calls; and the suite itself, checked on schedulers with one fault each.
#![forbid(unsafe_code)]

mod broken;
mod change;
mod checks;
#[cfg(feature = "shared")]
#[path = "../../../../fuzz/src/cores.rs"]
mod cores;
mod field;
mod metering;
mod model;
#[path = "../../../../fuzz/src/operations.rs"]
mod operations;
mod trees;
#[cfg(feature = "shared")]
mod workers;

use broken::{FAULTS, PACED, TOYS};
use checks::{CHECKS, Check, cases};
use fairlink_core::{SchedulerInfo, registry::SCHEDULERS};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use trees::Shape;

/// Classes of the trees: small ones, which are the likeliest to show a fault, and large ones.
const SIZES: [(usize, u32); 2] = [(12, 48), (200, 4)];

fn holds(info: &'static SchedulerInfo, name: &str, check: Check) {
    for (classes, cases_of_it) in SIZES {
        let mut runner = TestRunner::new(Config { cases: cases_of_it, failure_persistence: None, ..Config::default() });
        let result = runner.run(&cases(Shape::of(info, classes)), |(spec, case)| {
            check(info, &spec, &case).map_err(|error| TestCaseError::fail(format!("{}: {name}: {error}", info.name)))
        });
        if let Err(error) = result {
            panic!("{error}");
        }
    }
}

fn every_scheduler(name: &str) {
    let check = CHECKS.iter().find(|(known, _)| *known == name).expect("a check").1;
    SCHEDULERS.iter().for_each(|info| holds(info, name, check));
}

#[test]
fn every_call_conserves_packets_keeps_their_order_and_sends_when_it_can() {
    every_scheduler("operations");
}

#[test]
fn two_runs_are_identical() {
    every_scheduler("same_twice");
}

#[test]
fn batch_calls_do_what_single_calls_do() {
    every_scheduler("batches_are_single_calls");
}

#[test]
fn a_purged_scheduler_is_as_good_as_new() {
    every_scheduler("purge_forgets");
}

#[test]
fn a_refused_change_leaves_a_scheduler_as_it_was() {
    every_scheduler("a_refused_change_changes_nothing");
}

#[test]
fn a_scheduler_that_is_told_to_go_on_as_it_was_made_goes_on_as_if_it_was_not() {
    every_scheduler("retuned_to_the_same");
}

#[test]
fn every_backlogged_class_is_served_in_bounded_time_also_while_others_empty() {
    every_scheduler("liveness");
}

#[test]
fn nothing_is_allocated_after_construction() {
    every_scheduler("no_allocation");
}

#[test]
fn the_suite_passes_a_scheduler_without_fault() {
    for info in [&TOYS[0], &TOYS[PACED]] {
        CHECKS.iter().for_each(|(name, check)| holds(info, name, *check));
    }
}

#[test]
fn the_suite_finds_every_fault() {
    for ((fault, name), info) in FAULTS.iter().zip(&TOYS).filter(|((_, name), _)| !name.is_empty()) {
        let check = CHECKS.iter().find(|(known, _)| known == name).expect("a check").1;
        let mut runner = TestRunner::deterministic();
        let strategy = cases(Shape::of(info, 12));
        let found = (0..200).any(|_| {
            let (spec, case) =
                proptest::strategy::Strategy::new_tree(&strategy, &mut runner).expect("a case").current();
            check(info, &spec, &case).is_err()
        });
        assert!(found, "{name} does not find {fault:?}");
    }
}

fn each_seed(target: &str, run: fn(&[u8])) {
    let directory = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/{}"), target);
    let seeds: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!seeds.is_empty(), "there are no seeds in {directory}");
    for seed in seeds {
        println!("{}", seed.display());
        run(&std::fs::read(seed).unwrap());
    }
}

#[test]
fn seeds_of_the_fuzz_target() {
    each_seed("operations", operations::run);
}

#[cfg(feature = "shared")]
#[test]
fn seeds_of_the_fuzz_target_of_several_cores() {
    each_seed("cores", cores::run);
}
