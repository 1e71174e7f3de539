//! Changes while packets are queued: prepare changes nothing, commit allocates nothing, and lenders move with their
//! classes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fairlink_core::{
    Change, ClassId, Dequeued, DropReason, DropSink, Lender, Leniency, Members, Nanos, Packet, ReconfigureError,
    Scheduler, SchedulerInfo, Sharing, prepare,
    registry::{SCHEDULERS, find},
};

use crate::trees::{TreeSpec, id};

/// Counts drops without remembering them.
#[derive(Default)]
struct Count(u64);

impl DropSink for Count {
    fn dropped(&mut self, _: Nanos, _: Packet, _: DropReason) {
        self.0 += 1;
    }
}

fn full(info: &SchedulerInfo, spec: &TreeSpec, members: Members) -> Box<dyn Scheduler> {
    let mut scheduler = info.build(&spec.build(), Leniency::Refuse, members).unwrap();
    for handle in 0..300 {
        let class = id(handle as usize % spec.classes.len());
        scheduler.enqueue(Nanos::ZERO, Packet { handle, len: 1000, class }, &mut Count::default());
    }
    scheduler
}

#[test]
fn a_commit_allocates_nothing_and_what_it_leaves_over_is_freed_later() {
    let mut old = TreeSpec::flat(&[1, 2, 3]);
    old.classes[2].limits.packets = 50;
    let mut new = TreeSpec::flat(&[5, 1, 7, 2]);
    new.classes[0].limits.packets = 30;
    let survivors = [None, None, Some(ClassId(1)), Some(ClassId(4))];
    let tree = new.build();
    for before in SCHEDULERS {
        for after in SCHEDULERS {
            let mut running = full(before, &old, Members::new());
            let change = Change { scheduler: after, tree: &tree, leniency: Leniency::Refuse, survivors: &survivors };
            // On another thread, as a gateway does while packets pass.
            let prepared =
                thread::scope(|scope| scope.spawn(|| prepare(&change, Members::new())).join().unwrap().unwrap());
            let (mut drops, mut retired) = (Count::default(), None);
            let seen = allocation_counter::measure(|| {
                retired = Some(prepared.commit(&mut running, Nanos(1), &mut drops));
            });
            let names = (before.name, after.name);
            assert_eq!((seen.count_total, seen.bytes_current), (0, 0), "{names:?}");
            // The first class is gone with 100 packets, and the second had 100 with room for 30 now. A scheduler that adopts
            // the change keeps them.
            let cut = if names == ("hvt", "hvt") { 0 } else { 70 };
            assert_eq!((drops.0, running.backlog().packets), (100 + cut, 100 - cut + 50), "{names:?}");
            assert!(allocation_counter::measure(|| drop(retired)).bytes_current < 0, "{names:?}");
            running.check_invariants().unwrap();
        }
    }
}

/// Lends always, and counts the bytes sent.
#[derive(Debug)]
struct Generous(Arc<AtomicU64>);

impl Lender for Generous {
    fn may_borrow(&mut self, _: Nanos) -> Result<(), Nanos> {
        Ok(())
    }

    fn sent(&mut self, _: Nanos, bytes: u32, _: bool) {
        self.0.fetch_add(u64::from(bytes), Ordering::Relaxed);
    }
}

#[test]
fn a_class_borrows_from_the_lender_that_the_change_gives_it() {
    for name in ["htb", "htb-common-deficit", "hls"] {
        let info = find(name).unwrap();
        let pooled = |classes: &[u64]| {
            let mut spec = TreeSpec::flat(classes);
            spec.classes.iter_mut().for_each(|class| class.ceiling = Some(spec.rate));
            spec
        };
        let [before, after] = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
        let lend = |class: u32, lent: &Arc<AtomicU64>| -> Members {
            vec![(ClassId(class), Box::new(Generous(Arc::clone(lent))) as Box<dyn Lender>)]
        };
        let mut running = full(info, &pooled(&[1, 1]), lend(2, &before));
        // The same classes: the state stays, with another lender.
        let tree = pooled(&[1, 1]).build();
        let survivors = [None, Some(ClassId(1)), Some(ClassId(2))];
        let change = Change { scheduler: info, tree: &tree, leniency: Leniency::Refuse, survivors: &survivors };
        drop(prepare(&change, lend(2, &after)).unwrap().commit(&mut running, Nanos(1), &mut Count::default()));
        // The second class becomes the first of three.
        let tree = pooled(&[1, 1, 1]).build();
        let survivors = [None, None, Some(ClassId(1))];
        let change = Change { scheduler: info, tree: &tree, leniency: Leniency::Refuse, survivors: &survivors };
        let last = Arc::new(AtomicU64::new(0));
        let mut now = Nanos(1);
        let mut send = |running: &mut Box<dyn Scheduler>, packets| {
            for _ in 0..packets {
                // Time for a packet at the ceiling, which is the link's rate.
                now = now + tree.link().rate.time_for_bytes(1_000) + Nanos(1);
                assert!(matches!(running.dequeue(now, &mut Count::default()), Dequeued::Packet(_)), "{name}");
            }
        };
        send(&mut running, 100);
        let sent = after.load(Ordering::Relaxed);
        assert!(before.load(Ordering::Relaxed) == 0 && sent > 10_000, "{name}: {sent}");
        drop(prepare(&change, lend(1, &last)).unwrap().commit(&mut running, Nanos(1), &mut Count::default()));
        let left = running.backlog().packets;
        send(&mut running, left);
        assert_eq!(sent + last.load(Ordering::Relaxed), 150 * 1000, "{name}");
        assert_eq!(after.load(Ordering::Relaxed), sent, "{name}");
        // A scheduler without pools cannot take the member over.
        let drr = Change { scheduler: find("drr").unwrap(), leniency: Leniency::Refuse, ..change };
        assert!(matches!(prepare(&drr, lend(1, &last)), Err(ReconfigureError::Build(_))));
    }
}

/// Two leaves with these weights, the second with an optional ceiling.
fn two(weights: [u64; 2], ceiling: Option<u64>) -> TreeSpec {
    let mut spec = TreeSpec::flat(&weights);
    spec.rate = 10_000_000;
    spec.classes[1].ceiling = ceiling;
    spec.classes[1].bursts[1] = ceiling.map(|_| 3_000);
    spec
}

fn change_to(running: &mut Box<dyn Scheduler>, info: &'static SchedulerInfo, spec: &TreeSpec, now: Nanos) {
    let tree = spec.build();
    let survivors: Vec<Option<ClassId>> =
        (0..tree.len()).map(|class| (class > 0).then_some(ClassId(class as u32))).collect();
    let change = Change { scheduler: info, tree: &tree, leniency: Leniency::Refuse, survivors: &survivors };
    let prepared = prepare(&change, Members::new()).unwrap();
    drop(prepared.commit(running, now, &mut Count::default()));
    running.check_invariants().unwrap();
}

/// Sends `packets` packets with both leaves backlogged. Returns the bytes sent of each.
fn send(running: &mut Box<dyn Scheduler>, from: Nanos, packets: u64) -> ([u64; 2], Nanos) {
    let (mut sent, mut now) = ([0; 2], from);
    let mut handle = 1_000_000;
    for _ in 0..packets {
        for class in [1, 2] {
            while running.class_backlog(ClassId(class)).packets < 5 {
                handle += 1;
                running.enqueue(now, Packet { handle, len: 1000, class: ClassId(class) }, &mut Count::default());
            }
        }
        if let fairlink_core::Dequeued::Packet(packet) = running.dequeue(now, &mut Count::default()) {
            sent[packet.class.index() - 1] += 1000;
        }
        // 1000 B at 10 Mbit/s.
        now = now.saturating_add(Nanos(800_000));
    }
    (sent, now)
}

/// Returns true for a rule by which two leaves with equal packets share by their weights.
fn shares_by_weight(info: &SchedulerInfo) -> bool {
    matches!(
        info.sharing,
        Sharing::Siblings
            | Sharing::Leaves(_)
            | Sharing::LeavesByPackets(_)
            | Sharing::Curves(_)
            | Sharing::SiblingVisits
            | Sharing::Lenders
            | Sharing::Allotted
            | Sharing::CriticalVisits(_)
            | Sharing::Contracts { .. }
    )
}

#[test]
fn after_a_change_of_weights_shares_are_those_of_now() {
    for info in SCHEDULERS.iter().filter(|info| shares_by_weight(info)) {
        let name = info.name;
        let mut running =
            info.build(&two([1_000_000, 9_000_000], None).build(), Leniency::Refuse, Members::new()).unwrap();
        let (_, now) = send(&mut running, Nanos::ZERO, 500);
        change_to(&mut running, info, &two([6_000_000, 4_000_000], None), now);
        // The classes' credit counts for a while.
        let (_, now) = send(&mut running, now, 200);
        let ([first, second], _) = send(&mut running, now, 5_000);
        let part = first as f64 / (first + second) as f64;
        assert!((part - 0.6).abs() < 0.005, "{name}: {part}");
    }
}

#[test]
fn a_ceiling_holds_through_a_thousand_changes() {
    for name in ["hls", "htb"] {
        let info = find(name).unwrap();
        let limited = |weight| two([weight, 5_000_000], Some(1_000_000));
        let mut running = info.build(&limited(1_000_000).build(), Leniency::Refuse, Members::new()).unwrap();
        let (mut now, mut sent) = (Nanos::ZERO, 0);
        for change in 0..1_000 {
            change_to(&mut running, info, &limited(1_000_000 + change), now);
            let ([_, of_limited], end) = send(&mut running, now, 5);
            (now, sent) = (end, sent + of_limited);
        }
        // The ceiling, its burst, and a packet; in HLS also the bytes of one of its rounds.
        let most = 1_000_000 * now.0 / 8_000_000_000 + 3_000 + 1_500 + 20_000;
        assert!(sent <= most && sent > most - 30_000, "{name}: {sent} B in {now}, at most {most}");
    }
}
