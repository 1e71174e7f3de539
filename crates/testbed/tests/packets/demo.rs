//! Experiment 2 of [hls], scenario H, on real packets, shortened. The fate and order of frames are asserted; rates
//! depend on the machine and are printed.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use fairlink_core::{ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, Rate, Share, registry::find};
use fairlink_testbed::{DemoPlan, DemoRun, PlanPhase, PrivateNamespace, Shaper, Stage};
use fairlink_traffic::{Interval, Model, PacketSize, SourceSpec};

use crate::support;

pub(crate) fn main() -> ExitCode {
    support::main(&[
        ("between_generator_and_receiver_hls_loses_no_packet", between_generator_and_receiver_hls_loses_no_packet),
        ("the_kernels_htb_on_the_same_cable_loses_no_packet", the_kernels_htb_on_the_same_cable_loses_no_packet),
        ("a_demo_that_is_stopped_accounts_for_what_it_sent", a_demo_that_is_stopped_accounts_for_what_it_sent),
    ])
}

const PHASE: Nanos = Nanos::from_millis(600);
const NAMES: [&str; 8] = ["link", "A", "A1", "A2", "B", "B1", "B2", "C"];
const A1: usize = 2;
const B2: usize = 6;
const C: usize = 7;

/// A1, B2 and C send; C pauses in the second of three phases.
fn plan() -> DemoPlan {
    let class = |mbit: u64| {
        let rate = Rate::from_bps(mbit * 1_000_000).unwrap();
        ClassConfig { share: Some(Share::Guarantee(rate)), ..ClassConfig::default() }
    };
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(100_000_000).unwrap()));
    for _ in 0..2 {
        let inner = tree.add(ClassId::ROOT, class(30)).unwrap();
        tree.add(inner, class(6)).unwrap();
        tree.add(inner, class(24)).unwrap();
    }
    tree.add(ClassId::ROOT, class(40)).unwrap();
    let phase = |index: u64, rates: &[(usize, f64)]| {
        let mut ideal_bps = vec![0.0; NAMES.len()];
        rates.iter().for_each(|&(class, bps)| ideal_bps[class] = bps);
        PlanPhase { start: Nanos(PHASE.0 * index), end: Nanos(PHASE.0 * (index + 1)), ideal_bps }
    };
    let with_c = [(A1, 30e6), (B2, 30e6), (C, 40e6)];
    let phases = vec![phase(0, &with_c), phase(1, &[(A1, 50e6), (B2, 50e6)]), phase(2, &with_c)];
    let whole = Interval { start: Nanos::ZERO, end: phases[2].end };
    let interval = |index: usize| Interval { start: phases[index].start, end: phases[index].end };
    let source = |class: usize, active: Vec<Interval>| SourceSpec {
        class: ClassId(class as u32),
        model: Model::Greedy,
        packet: PacketSize::Fixed(1000),
        active,
    };
    DemoPlan {
        experiment: 2,
        scenario: Some("H".to_owned()),
        tree: tree.build().unwrap(),
        names: NAMES.map(String::from).to_vec(),
        sources: vec![source(A1, vec![whole]), source(B2, vec![whole]), source(C, vec![interval(0), interval(2)])],
        phases,
        settle: Nanos::from_millis(200),
    }
}

/// Checks that every frame is counted in one place, in its class, once and in order.
fn check(run: &DemoRun) {
    let accounting = run.accounting.unwrap();
    assert_eq!(accounting.unaccounted(), 0, "{accounting:?}");
    let wrong = (accounting.reordered_packets, accounting.duplicate_packets, accounting.misplaced_packets);
    assert_eq!(wrong, (0, 0, 0), "{accounting:?}");
    for phase in &run.phases {
        for class in phase.classes.iter().filter(|class| class.rates.fair() > 0.0) {
            println!(
                "{} {:.1} s: {} {:.2} Mbit/s, ideal {:.2}",
                run.scheduler,
                phase.start_s,
                class.name,
                class.rates.rate() / 1e6,
                class.rates.fair() / 1e6
            );
        }
    }
}

fn between_generator_and_receiver_hls_loses_no_packet(namespace: &PrivateNamespace) {
    let mut stage = Stage::new(namespace).unwrap();
    let hls = Shaper::Gateway(find("hls").unwrap());
    let mut windows = 0;
    let run = stage
        .play(&plan(), hls, &AtomicBool::new(false), |progress| {
            windows += 1;
            assert_eq!((progress.scheduler, progress.classes.len()), ("hls", 5));
        })
        .unwrap();
    check(&run);
    assert!(windows > 0 && run.accounting.unwrap().received_packets > 0);
    let shape: Vec<_> = run.phases.iter().map(|phase| (phase.start_s, phase.end_s, phase.classes.len())).collect();
    assert_eq!(shape, [(0.0, 0.6, 5), (0.6, 1.2, 5), (1.2, 1.8, 5)]);
    // A class that does not send receives nothing.
    for class in run.phases.iter().flat_map(|phase| &phase.classes) {
        assert!(!["A2", "B1"].contains(&class.name.as_str()) || class.rates.rate() == 0.0, "{class:?}");
    }
    assert_eq!(run.quanta_bytes, None);
}

fn the_kernels_htb_on_the_same_cable_loses_no_packet(namespace: &PrivateNamespace) {
    let mut stage = Stage::new(namespace).unwrap();
    let outcome = stage.play_all(&plan(), &[Shaper::KernelHtb], &AtomicBool::new(false), |_| ()).unwrap();
    if let Some(skipped) = outcome.skipped.first() {
        return println!("SKIPPED: {}: {}", skipped.scheduler, skipped.why);
    }
    let run = &outcome.experiments[0];
    check(run);
    assert_eq!((run.scheduler.as_str(), run.phases.len()), ("kernel-htb", 3));
    assert_eq!(run.quanta_bytes.as_ref().unwrap()["B2"], 6056);
}

fn a_demo_that_is_stopped_accounts_for_what_it_sent(namespace: &PrivateNamespace) {
    let mut stage = Stage::new(namespace).unwrap();
    let hls = Shaper::Gateway(find("hls").unwrap());
    let stop = AtomicBool::new(false);
    let outcome =
        stage.play_all(&plan(), &[hls, Shaper::KernelHtb], &stop, |_| stop.store(true, Ordering::Relaxed)).unwrap();
    assert!(outcome.stopped && outcome.skipped.is_empty());
    // The second scheduler is not started, and unfinished phases are not shown.
    assert_eq!(outcome.experiments.len(), 1);
    assert!(outcome.experiments[0].phases.len() < 3);
    check(&outcome.experiments[0]);
    // The stage can be used again.
    let again = stage.play(&plan(), hls, &AtomicBool::new(false), |_| ()).unwrap();
    check(&again);
}
