//! `Metered`: it is transparent, its counters are right, they survive a change of classes, and it notices a scheduler that
//! loses or invents packets.

use fairlink_core::{
    Amount, Change, ClassId, Counters, Dequeued, DropReason, Leniency, Members, Metered, MeteredChange, Nanos, Packet,
    ReconfigureError, Scheduler, SchedulerInfo, registry::SCHEDULERS,
};

use crate::broken::{FAULTS, Fault, TOYS};
use crate::checks::CHECKS;
use crate::holds;
use crate::trees::TreeSpec;

const fn metered<const S: usize>() -> SchedulerInfo {
    let inner = SCHEDULERS[S];
    SchedulerInfo {
        build: |tree, members| Ok(Box::new(Metered::new((SCHEDULERS[S].build)(tree, members)?, tree)?)),
        ..inner
    }
}

static METERED: [SchedulerInfo; 1] = [metered::<1>()];

#[test]
fn a_metered_scheduler_keeps_the_contract_and_the_identity_after_every_call() {
    for info in &METERED {
        CHECKS.iter().for_each(|(name, check)| holds(info, name, *check));
    }
}

#[test]
fn the_identity_breaks_when_a_scheduler_loses_invents_or_miscounts() {
    let lossy = [
        Fault::LosesAPacket,
        Fault::InventsAPacket,
        Fault::ChangesALength,
        Fault::MiscountsBytes,
        Fault::MiscountsAClass,
    ];
    for (info, (fault, _)) in TOYS.iter().zip(FAULTS).filter(|(_, (fault, _))| lossy.contains(fault)) {
        let tree = TreeSpec::flat(&[1, 2]).build();
        let mut scheduler = Metered::new((info.build)(&tree, Members::new()).unwrap(), &tree).unwrap();
        let mut noticed = false;
        for handle in 0..20 {
            let class = ClassId(1 + handle as u32 % 2);
            scheduler.enqueue(Nanos::ZERO, Packet { handle, len: 1500, class }, &mut refuse);
            noticed |= scheduler.check_conservation().is_err();
        }
        for _ in 0..25 {
            let _ = scheduler.dequeue(Nanos::ZERO, &mut refuse);
            noticed |= scheduler.check_conservation().is_err();
        }
        assert!(noticed, "{fault:?}");
    }
}

fn refuse(_: Nanos, packet: Packet, reason: DropReason) {
    panic!("{packet:?} dropped: {reason:?}");
}

fn count(packets: u64, bytes: u64) -> Amount {
    Amount { packets, bytes }
}

/// Three classes that got 4 packets each, of 100, 200 and 300 B; the third takes two only. Two packets were sent.
fn running(info: &'static SchedulerInfo) -> (TreeSpec, Metered<Box<dyn Scheduler>>) {
    let mut spec = TreeSpec::flat(&[1, 1, 1]);
    spec.classes[2].limits.packets = 2;
    let tree = spec.build();
    let mut scheduler = Metered::new(info.build(&tree, Leniency::Refuse, Members::new()).unwrap(), &tree).unwrap();
    let mut batch: Vec<Packet> = Vec::new();
    for handle in 0..4 {
        batch.extend((1..=3).map(|class| Packet { handle, len: 100 * class, class: ClassId(class) }));
    }
    batch.push(Packet { handle: 9, len: 50, class: ClassId(99) });
    batch.push(Packet { handle: 9, len: 60, class: ClassId::ROOT });
    batch.push(Packet { handle: 9, len: 1501, class: ClassId(1) });
    scheduler.enqueue_batch(Nanos::ZERO, &mut batch, &mut |_, _: Packet, _| {});
    let mut sent = Vec::with_capacity(2);
    for _ in 0..2 {
        let _ = scheduler.dequeue_batch(Nanos::ZERO, 1, u64::MAX, &mut sent, &mut refuse);
    }
    scheduler.check_invariants().unwrap();
    (spec, scheduler)
}

#[test]
fn packets_and_bytes_are_counted_by_class_and_reason() {
    for info in SCHEDULERS {
        let (_, scheduler) = running(info);
        let third = scheduler.counters(ClassId(3));
        assert_eq!(third.received, count(4, 1200), "{}", info.name);
        assert_eq!(third.dropped_for(DropReason::QueuePackets), count(2, 600));
        assert_eq!(third.outstanding(), Some(count(2 - third.sent.packets, 600 - 300 * third.sent.packets)));
        assert_eq!(scheduler.counters(ClassId(1)).dropped_for(DropReason::TooLong), count(1, 1501));
        assert_eq!(scheduler.counters(ClassId::ROOT).dropped_for(DropReason::NotALeaf), count(1, 60));
        assert_eq!(scheduler.elsewhere().received, count(1, 50));
        assert_eq!(scheduler.elsewhere().dropped_total(), count(1, 50));
        assert_eq!(scheduler.total().received, count(15, 400 + 800 + 1200 + 50 + 60 + 1501));
    }
}

#[test]
fn counters_follow_their_class_through_a_change_and_the_total_goes_on() {
    for info in SCHEDULERS {
        let (spec, mut scheduler) = running(info);
        let before: Vec<Counters> = (0..4).map(|class| scheduler.counters(ClassId(class))).collect();
        let (total, elsewhere) = (scheduler.total(), scheduler.elsewhere());
        // The first is removed; the second and third are now the first and second, and the former sends a single
        // packet.
        let mut next = spec.without_class(0);
        next.0.classes[0].limits.packets = 1;
        let tree = next.0.build();
        let change = Change { scheduler: info, tree: &tree, leniency: Leniency::Refuse, survivors: &next.1 };
        let mut dropped = Vec::new();
        let mut drops = |_: Nanos, packet: Packet, reason: DropReason| dropped.push((packet.class, reason));
        let prepared = MeteredChange::prepare(&change, Members::new()).unwrap();
        assert_eq!(scheduler.total(), total);
        drop(scheduler.commit(prepared, Nanos::ZERO, &mut drops));
        scheduler.check_invariants().unwrap();

        // A scheduler that adopts the change keeps packets beyond a new limit.
        let more = before[2].outstanding().unwrap().packets - 1;
        let (gone, cut) = (before[1].outstanding().unwrap(), if info.name == "hvt" { 0 } else { more });
        let is = |class, reason| dropped.iter().filter(|&&drop| drop == (ClassId(class), reason)).count() as u64;
        assert_eq!(is(1, DropReason::ClassRemoved), gone.packets, "{}", info.name);
        assert_eq!(is(1, DropReason::QueuePackets), cut);
        assert_eq!(dropped.len() as u64, gone.packets + cut);

        let mut second = before[2];
        second.dropped[DropReason::QueuePackets.index()] = count(cut, 200 * cut);
        assert_eq!(scheduler.counters(ClassId(1)), second);
        assert_eq!(scheduler.counters(ClassId(2)), before[3]);
        let mut rest = elsewhere;
        rest += before[0];
        rest += before[1];
        rest.dropped[DropReason::ClassRemoved.index()] = gone;
        assert_eq!(scheduler.elsewhere(), rest);
        assert_eq!((scheduler.total().received, scheduler.total().sent), (total.received, total.sent));

        let survivors = [None, Some(ClassId(3))];
        let wrong = Change { survivors: &survivors, ..change };
        let error = MeteredChange::prepare(&wrong, Members::new()).unwrap_err();
        assert_eq!(error, ReconfigureError::NotALeaf { old: ClassId(1), new: ClassId(3) });
        assert_eq!(scheduler.counters(ClassId(1)), second);
        let backlog = scheduler.backlog().packets;
        // Late enough for those that hold packets back.
        let late = Nanos::from_secs(1_000);
        let sent = (0..backlog).filter(|_| matches!(scheduler.dequeue(late, &mut refuse), Dequeued::Packet(_)));
        assert_eq!(sent.count() as u64, backlog);
        scheduler.check_conservation().unwrap();
    }
}
