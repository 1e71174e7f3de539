use fairlink_core::registry::SCHEDULERS;

use super::*;
use crate::shape::Pattern;

/// The workload of each subject on every kind of shape with `leaves` leaves.
fn every(leaves: usize, mut check: impl FnMut(Subject, Shape)) {
    let schedulers = SCHEDULERS.iter().map(Subject::Scheduler);
    for subject in schedulers.chain([Subject::Harness, Subject::Rings]) {
        for pattern in Pattern::ALL {
            for calls in [Calls::Batches, Calls::Single] {
                for (levels, ceilings) in [(1, false), (3, false), (3, true), (6, false)] {
                    let record = ceilings;
                    check(subject, Shape { leaves, levels, pattern, calls, ceilings, record, ..Shape::default() });
                }
            }
        }
    }
}

#[test]
fn every_scheduler_passes_every_workload_and_loses_nothing() {
    for leaves in [1, 8, 130] {
        every(leaves, |subject, shape| {
            let mut workload = Workload::new(subject, shape).unwrap();
            let queued = |workload: &Workload| match &workload.driven {
                Driven::Scheduler(scheduler) => scheduler.backlog().packets,
                Driven::Nothing { .. } => 0,
            };
            let before = queued(&workload);
            let done = workload.run(500).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
            assert!(done >= 500);
            assert_eq!(queued(&workload), before, "{} {shape:?}", subject.name());
        });
    }
}

#[test]
fn leaves_are_as_busy_as_their_pattern_says() {
    for name in ["rings", "hls", "htb", "wf2q+"] {
        for (pattern, least, most) in
            [(Pattern::Backlogged, 0.99, 1.0), (Pattern::Sparse, 0.99, 1.0), (Pattern::Churn, 0.499, 0.501)]
        {
            let shape = Shape { leaves: 1000, pattern, ..Shape::default() };
            let mut workload = Workload::new(Subject::named(name).unwrap(), shape).unwrap();
            for _ in 0..20 {
                workload.run(1000).unwrap();
                let busy = workload.busy();
                assert!((least..=most).contains(&busy), "{name} {pattern:?}: {busy}");
            }
            let senders = if pattern == Pattern::Sparse { 10 } else { 1000 };
            assert_eq!(workload.leaves.len(), senders);
        }
    }
}

#[test]
fn under_churn_no_leaf_ever_has_two_packets() {
    let shape = Shape { leaves: 200, levels: 3, pattern: Pattern::Churn, ..Shape::default() };
    let mut workload = Workload::new(Subject::named("hls").unwrap(), shape).unwrap();
    for _ in 0..200 {
        workload.run(1).unwrap();
        let Driven::Scheduler(scheduler) = &workload.driven else { panic!("hls is a scheduler") };
        assert!(workload.leaves.iter().all(|&class| scheduler.class_backlog(class).packets <= 1));
        assert_eq!(scheduler.backlog().packets, 100);
    }
}

#[test]
fn arrivals_come_in_a_fresh_order() {
    // Two rounds of the leaves in the same order would be a permutation that is replayed.
    let shape = Shape { leaves: 64, ..Shape::default() };
    let mut workload = Workload::new(Subject::Rings, shape).unwrap();
    let mut round = || {
        let mut classes = Vec::new();
        while classes.len() < 64 {
            let Driven::Scheduler(scheduler) = &mut workload.driven else { panic!("rings are driven") };
            let mut batch = Vec::with_capacity(BATCH);
            let _ = scheduler.dequeue_batch(Nanos::ZERO, BATCH, u64::MAX, &mut batch, &mut workload.drops);
            for packet in &mut batch {
                turn_around(&mut workload.away, &mut workload.random, packet);
                classes.push(packet.class);
            }
            scheduler.enqueue_batch(Nanos::ZERO, &mut batch, &mut workload.drops);
        }
        classes
    };
    let rounds: Vec<_> = (0..8).map(|_| round()).collect();
    for (n, one) in rounds.iter().enumerate() {
        assert!(rounds[n + 1..].iter().all(|other| other != one));
    }
}

#[test]
fn each_packet_has_a_record_of_its_own() {
    for (subject, pattern) in [(Subject::Harness, Pattern::Backlogged), (Subject::Rings, Pattern::Churn)] {
        let shape = Shape { leaves: 100, pattern, record: true, ..Shape::default() };
        let mut workload = Workload::new(subject, shape).unwrap();
        workload.run(50_000).unwrap();
        assert!(workload.records.iter().all(|record| record.times > 0), "{}", subject.name());
        assert_eq!(size_of::<Record>(), 64);
    }
}

#[test]
fn a_scheduler_that_holds_everything_back_for_ever_is_an_error() {
    /// A scheduler that accepts packets and never returns one.
    struct Sink(u64);
    impl Scheduler for Sink {
        fn enqueue(&mut self, _: Nanos, _: Packet, _: &mut dyn DropSink) {
            self.0 += 1;
        }
        fn dequeue(&mut self, now: Nanos, _: &mut dyn DropSink) -> Dequeued {
            Dequeued::WaitUntil(now)
        }
        fn backlog(&self) -> fairlink_core::Amount {
            fairlink_core::Amount { packets: self.0, bytes: 0 }
        }
        fn class_backlog(&self, _: ClassId) -> fairlink_core::Amount {
            fairlink_core::Amount::default()
        }
        fn purge(&mut self, _: Nanos, _: &mut dyn DropSink) {}
    }
    for calls in [Calls::Batches, Calls::Single] {
        let mut workload = Workload::new(Subject::Rings, Shape { calls, ..Shape::default() }).unwrap();
        workload.driven = Driven::Scheduler(Box::new(Sink(0)));
        let error = workload.run(1).unwrap_err();
        assert_eq!(error.to_string(), "rings with 1024 leaves sent nothing while packets were queued");
    }
}

#[test]
fn names_are_schedulers_or_the_two_that_measure_the_workload() {
    assert!(SCHEDULERS.iter().all(|info| Subject::named(info.name).unwrap().name() == info.name));
    assert_eq!(
        (Subject::named("harness").unwrap().name(), Subject::named("rings").unwrap().name()),
        ("harness", "rings")
    );
    let error = Subject::named("best").unwrap_err().to_string();
    assert!(error.contains("\"best\"") && error.contains("harness"), "{error}");
}
