//! The checks of the contract. Each drives one scheduler and reports its faults. They are run over every scheduler of
//! the registry, and over faulty ones that they must detect.

use fairlink_core::{
    ClassId, DropReason, Leniency, Members, Nanos, Packet, QueueLimits, Scheduler, SchedulerInfo, WorkConserving,
};
use proptest::prelude::*;

use crate::model::{Broken, Event, Invariants, Model, ensure};
use crate::trees::{ClassSpec, Shape, TreeSpec, classes, trees, weights};

const YEAR: u64 = 365 * 24 * 3600 * 1_000_000_000;

/// Maximum number of packets that `liveness` sends in this suite, on trees in which a round takes longer.
const LIVENESS_STEPS: usize = 10_000;

/// The input of a check besides a tree.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) before: Vec<Op>,
    pub(crate) after: Vec<Op>,
    /// Lengths of packets, and leaves that come and go.
    pub(crate) traffic: Vec<(u32, u32)>,
    /// Packets that `liveness` sends at most.
    pub(crate) liveness_steps: usize,
}

/// One check: returns a scheduler's fault, if any.
pub(crate) type Check = fn(&'static SchedulerInfo, &TreeSpec, &Case) -> Broken;

/// All checks.
pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("operations", operations),
    ("same_twice", same_twice),
    ("batches_are_single_calls", batches_are_single_calls),
    ("purge_forgets", purge_forgets),
    ("a_refused_change_changes_nothing", a_refused_change_changes_nothing),
    ("retuned_to_the_same", retuned_to_the_same),
    ("liveness", liveness),
    ("no_allocation", no_allocation),
];

pub(crate) fn cases(shape: Shape) -> impl Strategy<Value = (TreeSpec, Case)> {
    let traffic = prop::collection::vec((0u32..=1500, any::<u32>()), 20..60);
    (trees(shape), ops(shape, 80), ops(shape, 60), traffic).prop_map(|(spec, before, after, traffic)| {
        (spec, Case { before, after, traffic, liveness_steps: LIVENESS_STEPS })
    })
}

fn make(info: &'static SchedulerInfo, spec: &TreeSpec) -> Box<dyn Scheduler> {
    info.build(&spec.build(), Leniency::Refuse, Members::new()).expect("a tree that it can honour")
}

fn model(info: &'static SchedulerInfo, spec: &TreeSpec) -> Model {
    Model::new(make(info, spec), spec, info.work_conserving)
}

/// One step of a caller. Numbers that choose a class are taken modulo the number of classes.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Enqueue(Vec<(u32, u32)>),
    /// To any id at all: the root, inner classes, ids out of range.
    EnqueueAnywhere(u32, u32),
    Dequeue,
    DequeueBatch(usize, u64),
    WaitOut,
    Advance(u64),
    JumpAYear,
    GoBack(u64),
    Purge,
    Add(usize, ClassSpec),
    Change(usize, u64, u32),
    Remove(usize),
}

fn lens() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..=1500, 2 => 40u32..=64, 1 => Just(0), 1 => Just(1500), 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn ops(shape: Shape, count: usize) -> impl Strategy<Value = Vec<Op>> {
    let packet = || (any::<u32>(), lens());
    let id = prop_oneof![Just(0u32), 0u32..30, Just(u32::MAX), Just(u32::MAX - 1), any::<u32>()];
    let op = prop_oneof![
        20 => prop::collection::vec(packet(), 1..2).prop_map(Op::Enqueue),
        6 => prop::collection::vec(packet(), 0..40).prop_map(Op::Enqueue),
        2 => (id, lens()).prop_map(|(id, len)| Op::EnqueueAnywhere(id, len)),
        14 => Just(Op::Dequeue),
        6 => (0usize..40, prop_oneof![Just(u64::MAX), 0u64..20_000]).prop_map(|(packets, bytes)| Op::DequeueBatch(packets, bytes)),
        3 => Just(Op::WaitOut),
        6 => prop_oneof![5 => 0u64..1_000_000, 2 => 0u64..120_000_000].prop_map(Op::Advance),
        1 => Just(Op::JumpAYear),
        1 => any::<u64>().prop_map(Op::GoBack),
        1 => Just(Op::Purge),
        1 => (any::<usize>(), classes(shape)).prop_map(|(below, class)| Op::Add(below, class)),
        1 => (any::<usize>(), weights(shape.weight_digits), 1u32..20).prop_map(|(at, weight, limit)| Op::Change(at, weight, limit)),
        1 => any::<usize>().prop_map(Op::Remove),
    ];
    prop::collection::vec(op, 1..count)
}

/// Applies one step; `batch` selects batch calls or the equivalent single calls.
fn apply(info: &'static SchedulerInfo, model: &mut Model, op: &Op, batch: bool) -> Broken {
    let now = model.now();
    let mut change = None;
    match op {
        Op::Enqueue(packets) => {
            let leaves = model.leaves();
            let packets: Vec<_> = packets.iter().map(|&(at, len)| (leaves[at as usize % leaves.len()], len)).collect();
            model.enqueue(&packets, batch)?;
        }
        &Op::EnqueueAnywhere(id, len) => model.enqueue(&[(ClassId(id), len)], false)?,
        Op::Dequeue => {
            model.dequeue()?;
        }
        &Op::DequeueBatch(packets, bytes) => model.dequeue_batch(packets, bytes, batch)?,
        Op::WaitOut => model.wait_out()?,
        &Op::Advance(span) => model.set_now(now.saturating_add(Nanos(span))),
        Op::JumpAYear => model.set_now(now.saturating_add(Nanos(YEAR))),
        &Op::GoBack(span) => {
            // One call at an earlier time. The scheduler continues from the latest that it has seen, as does the model.
            model.set_now(now.saturating_sub(Nanos(span)));
            let leaf = model.leaves()[0];
            model.enqueue(&[(leaf, 100)], batch)?;
            model.set_now(now);
        }
        Op::Purge => model.purge()?,
        Op::Add(below, class) => {
            let levels = Shape::of(info, 0).levels;
            change = Some(model.spec().with_class(*below, class.clone(), levels));
        }
        &Op::Change(at, weight, limit) => change = Some(model.spec().with_change(at, weight, limit)),
        &Op::Remove(at) => change = Some(model.spec().without_class(at)),
    }
    if let Some(change) = change {
        model.reconfigure(info, change)?;
    }
    Ok(())
}

/// Conservation, order within a class, work conservation if claimed, right reasons for drops, right backlogs and the
/// scheduler's own invariants, after every call; and every packet comes back in the end.
fn operations(info: &'static SchedulerInfo, spec: &TreeSpec, case: &Case) -> Broken {
    let mut model = model(info, spec);
    for (step, op) in case.before.iter().chain(&case.after).enumerate() {
        apply(info, &mut model, op, true).map_err(|error| format!("step {step}, {op:?}: {error}"))?;
    }
    let queued = model.backlog().packets;
    for _ in 0..queued {
        model.wait_out()?;
    }
    let for_ever = model.events.last() == Some(&Event::WaitUntil(Nanos::MAX));
    if info.work_conserving != WorkConserving::Never && !for_ever {
        ensure!(model.backlog().packets == 0, "{queued} dequeues leave {:?}", model.backlog());
        ensure!(model.dequeue()?.is_none(), "a packet from nowhere");
    }
    model.purge()
}

fn transcript(info: &'static SchedulerInfo, spec: &TreeSpec, ops: &[Op], batch: bool) -> Result<Vec<Event>, String> {
    let mut model = model(info, spec);
    for op in ops {
        apply(info, &mut model, op, batch)?;
    }
    Ok(model.events)
}

fn same(first: &[Event], second: &[Event]) -> Broken {
    let differs = first.iter().zip(second).position(|(a, b)| a != b);
    let place = differs.unwrap_or(first.len().min(second.len()));
    ensure!(first == second, "event {place}: {:?} and {:?}", first.get(place), second.get(place));
    Ok(())
}

/// Two runs do the same.
fn same_twice(info: &'static SchedulerInfo, spec: &TreeSpec, case: &Case) -> Broken {
    same(&transcript(info, spec, &case.before, true)?, &transcript(info, spec, &case.before, true)?)
}

/// Batch calls do the same as the equivalent single calls.
fn batches_are_single_calls(info: &'static SchedulerInfo, spec: &TreeSpec, case: &Case) -> Broken {
    // Sent, dropped and marked packets are reported in different ways, so that their relative order is not known.
    let of = |batch| -> Result<[Vec<Event>; 3], String> {
        let events = transcript(info, spec, &case.before, batch)?;
        let (dropped, rest): (_, Vec<_>) = events.into_iter().partition(|event| matches!(event, Event::Dropped(..)));
        let (marked, rest): (_, Vec<_>) = rest.into_iter().partition(|event| matches!(event, Event::Marked(..)));
        Ok([dropped, marked, rest])
    };
    of(true)?.iter().zip(&of(false)?).try_for_each(|(batches, singles)| same(batches, singles))
}

/// A scheduler behaves after a purge as a fresh one does.
fn purge_forgets(info: &'static SchedulerInfo, spec: &TreeSpec, Case { before, after, .. }: &Case) -> Broken {
    let stays = |op: &&Op| !matches!(op, Op::Add(..) | Op::Change(..) | Op::Remove(..));
    let (mut used, mut fresh) = (model(info, spec), model(info, spec));
    for op in before.iter().filter(stays) {
        apply(info, &mut used, op, true)?;
    }
    used.purge()?;
    fresh.set_now(used.now());
    let packets = before.iter().map(|op| match op {
        Op::Enqueue(packets) => packets.len(),
        Op::EnqueueAnywhere(..) | Op::GoBack(..) => 1,
        _ => 0,
    });
    fresh.skip_handles(packets.sum::<usize>() as u64);
    // So that it has seen the time, too.
    fresh.dequeue()?;
    fresh.events.clear();
    used.events.clear();
    for op in after.iter().filter(stays) {
        apply(info, &mut used, op, true)?;
        apply(info, &mut fresh, op, true)?;
    }
    same(&used.events, &fresh.events)
}

/// A refused change does not affect a scheduler's later behaviour.
fn a_refused_change_changes_nothing(
    info: &'static SchedulerInfo,
    spec: &TreeSpec,
    Case { before, after, .. }: &Case,
) -> Broken {
    let (mut asked, mut other) = (model(info, spec), model(info, spec));
    for op in before {
        apply(info, &mut asked, op, true)?;
        apply(info, &mut other, op, true)?;
    }
    // No scheduler takes a quantum of zero: some have no quanta, and the others refuse it.
    let mut refused = asked.spec().clone();
    let leaf = refused.leaves()[0];
    refused.classes[leaf].quantum = Some(0);
    let survivors = vec![None; refused.classes.len() + 1];
    ensure!(!asked.reconfigure(info, (refused, survivors))?, "a quantum of zero was taken");
    // Nor can the root take over anything.
    let survivors = vec![Some(ClassId::ROOT); 2];
    ensure!(!asked.reconfigure(info, (asked.spec().clone(), survivors))?, "the root became a leaf");
    for op in after {
        apply(info, &mut asked, op, true)?;
        apply(info, &mut other, op, true)?;
    }
    same(&asked.events, &other.events)
}

/// Schedulers that take other parameters without a new start, unless a leaf is latency-critical.
const RETUNED: [&str; 17] = [
    "fifo",
    "wrr",
    "drr",
    "drr+",
    "drr++",
    "hls",
    "hvt",
    "htb",
    "htb-common-deficit",
    "virtual-clock",
    "scfq",
    "sfq",
    "wfq",
    "wf2q+",
    "hpfq",
    "hfsc",
    "hdrr",
];

/// A scheduler that is retuned to its own configuration, again and again, behaves as one that never was.
fn retuned_to_the_same(info: &'static SchedulerInfo, spec: &TreeSpec, Case { before, after, .. }: &Case) -> Broken {
    // A retuned scheduler has seen the time of the call, which makes a difference if the caller's time goes back.
    let stays = |op: &&Op| !matches!(op, Op::Add(..) | Op::Change(..) | Op::Remove(..) | Op::GoBack(..));
    let (mut told, mut other) = (model(info, spec), model(info, spec));
    for op in before.iter().chain(after).filter(stays) {
        if !told.retune(make(info, spec))? {
            let may_refuse = !RETUNED.contains(&info.name) || spec.classes.iter().any(|class| class.latency_critical);
            ensure!(may_refuse, "refused to go on as it was made");
            return Ok(());
        }
        apply(info, &mut told, op, true)?;
        apply(info, &mut other, op, true)?;
    }
    same(&told.events, &other.events)
}

/// Every backlogged leaf is served before the others have sent a certain number of bytes: a small multiple of a round
/// in which the leaf with the smallest share sends one largest packet. Every second leaf is always backlogged; the
/// others have single packets, so that they empty when they are served. Latency-critical leaves may be ahead of their
/// turn, by some rounds if they have nearly all of the link; priorities may make others wait without limit.
fn liveness(info: &'static SchedulerInfo, spec: &TreeSpec, case: &Case) -> Broken {
    if info.promises.starves {
        return Ok(());
    }
    let mut spec = TreeSpec { max_packet: 1500, max_queued: 10_000, ..spec.clone() };
    for class in &mut spec.classes {
        class.weight = 1 + class.weight % 3;
        class.limits = QueueLimits::default();
        class.ceiling = None;
        class.bursts = [None; 2];
        class.priority = None;
        class.quantum = class.quantum.map(|quantum| quantum % 3000 + 100);
    }
    let tree = spec.build();
    let mut model = model(info, &spec);
    // `operations` checks them after every call.
    model.check_invariants(Invariants::WithEverything);
    let ahead = match info.work_conserving {
        // A frame in which the leaf has some tens of slots may pass twice.
        WorkConserving::Never => 128,
        _ if spec.classes.iter().any(|class| class.latency_critical) => 10,
        _ => 1,
    };
    let smallest = tree.leaves().iter().map(|&leaf| tree.share_all_busy(leaf)).min().unwrap_or(1).max(1);
    let parts = (1u128 << 64).div_ceil(smallest) + tree.leaves().len() as u128;
    let quanta = spec.classes.iter().filter_map(|class| class.quantum);
    // A class with a quantum below a packet waits for this many rounds.
    let rounds = quanta.clone().min().map_or(1, |quantum| 1500u128.div_ceil(quantum.into()));
    let behind = u128::from(spec.transmit_queue.map_or(0, |queue| queue.packets));
    let patience = 4 * ahead * ((parts + behind * (behind + 2)) * 1500 + rounds * quanta.map(u128::from).sum::<u128>());
    let (busy, visitors): (Vec<_>, Vec<_>) = tree.leaves().iter().enumerate().partition(|(place, _)| place % 2 == 0);
    for &(_, &leaf) in busy.iter().chain(&busy) {
        model.enqueue(&[(leaf, 1500)], false)?;
    }
    let is_busy: Vec<bool> = (0..tree.len()).map(|class| busy.iter().any(|(_, leaf)| leaf.index() == class)).collect();
    // Bytes sent when a leaf began to wait: when it sent, or became backlogged.
    let mut since = vec![0u128; tree.len()];
    let mut sent = 0;
    let in_time = |leaf: ClassId, waits: u128| {
        ensure!(waits <= patience, "{leaf:?} waited for {waits} B; {patience} B are enough");
        Ok(())
    };
    for &(len, visitor) in case.traffic.iter().cycle().take(case.liveness_steps) {
        if let Some(&(_, &leaf)) = visitors.get(visitor as usize % (visitors.len() + 1))
            && model.queued(leaf) == 0
        {
            model.enqueue(&[(leaf, len)], false)?;
            since[leaf.index()] = sent;
        }
        let Some(packet) = model.send()? else { return Err(format!("nothing sent with {:?}", model.backlog())) };
        // The link takes its time: a guarantee is one of bytes in time.
        model.set_now(model.now().saturating_add(tree.link().rate.time_for(packet.len)));
        in_time(packet.class, sent - since[packet.class.index()])?;
        sent += u128::from(packet.len);
        since[packet.class.index()] = sent;
        if is_busy[packet.class.index()] {
            model.enqueue(&[(packet.class, len)], false)?;
        }
        if sent > 2 * patience {
            break;
        }
    }
    tree.leaves()
        .iter()
        .filter(|&&leaf| model.queued(leaf) > 0)
        .try_for_each(|&leaf| in_time(leaf, sent - since[leaf.index()]))
}

/// Nothing is allocated after construction.
fn no_allocation(info: &'static SchedulerInfo, spec: &TreeSpec, case: &Case) -> Broken {
    let tree = spec.build();
    let mut scheduler = make(info, spec);
    let (mut arrivals, mut sent) = (Vec::with_capacity(64), Vec::with_capacity(64));
    let count = allocation_counter::measure(|| {
        plain_run(&mut scheduler, tree.leaves(), &case.before, &mut arrivals, &mut sent);
        plain_run(&mut scheduler, tree.leaves(), &case.after, &mut arrivals, &mut sent);
    });
    ensure!(count.count_total == 0, "{} allocations of {} B", count.count_total, count.bytes_total);
    Ok(())
}

/// The steps as a caller without any bookkeeping makes them.
fn plain_run(
    scheduler: &mut dyn Scheduler,
    leaves: &[ClassId],
    ops: &[Op],
    arrivals: &mut Vec<Packet>,
    sent: &mut Vec<Packet>,
) {
    let mut now = Nanos::ZERO;
    let mut drops = |_: Nanos, _: Packet, _: DropReason| {};
    for op in ops {
        match op {
            Op::Enqueue(packets) => {
                for &(at, len) in packets {
                    arrivals.push(Packet { handle: 0, len, class: leaves[at as usize % leaves.len()] });
                }
                scheduler.enqueue_batch(now, arrivals, &mut drops);
            }
            &Op::EnqueueAnywhere(id, len) => {
                scheduler.enqueue(now, Packet { handle: 0, len, class: ClassId(id) }, &mut drops);
            }
            &Op::DequeueBatch(packets, bytes) => {
                let _ = scheduler.dequeue_batch(now, packets, bytes, sent, &mut drops);
                sent.clear();
            }
            Op::Dequeue | Op::WaitOut => {
                let _ = scheduler.dequeue(now, &mut drops);
            }
            &Op::Advance(span) | &Op::GoBack(span) => now = now.saturating_add(Nanos(span >> 20)),
            Op::JumpAYear => now = now.saturating_add(Nanos(YEAR)),
            Op::Purge => scheduler.purge(now, &mut drops),
            Op::Add(..) | Op::Change(..) | Op::Remove(..) => {}
        }
    }
}
