//! Cost of changes under `hvt`, as Markdown tables: one leaf more and one less, alone and by a reload, with packets
//! queued.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Instant;

use fairlink_core::schedulers::hvt::Hvt;
use fairlink_core::{
    Change, ClassConfig, ClassId, DropReason, Hierarchy, Leniency, LinkConfig, Members, Nanos, Packet, Rate, Scheduler,
    SchedulerInfo, Share, prepare, registry,
};

type Failure = Box<dyn Error>;

/// Times that each change is made; the median counts.
const TIMES: usize = 21;
const QUEUED: u32 = 50_000;

/// Makes a tree of about `leaves` leaves of weight 1 on `levels` levels, with `more` leaves beside the first one,
/// before the others. Returns it and the parent of the first leaf.
fn tree(leaves: usize, levels: u32, more: usize) -> Result<(Hierarchy, ClassId), Failure> {
    let link = LinkConfig { max_queued: 2 * QUEUED, ..LinkConfig::new(Rate::from_bps(10_000_000_000)?) };
    let mut tree = Hierarchy::builder(link);
    let config = ClassConfig { share: Some(Share::Weight(1)), ..ClassConfig::default() };
    let fan = (leaves as f64).powf(1.0 / f64::from(levels)).round() as usize;
    let mut parents = vec![ClassId::ROOT];
    for _ in 1..levels {
        let mut below = Vec::new();
        for &parent in &parents {
            for _ in 0..fan {
                below.push(tree.add(parent, config)?);
            }
        }
        parents = below;
    }
    let each = leaves / parents.len();
    for (at, &parent) in parents.iter().enumerate() {
        for _ in 0..each + if at == 0 { more } else { 0 } {
            tree.add(parent, config)?;
        }
    }
    Ok((tree.build()?, parents[0]))
}

fn fill(scheduler: &mut dyn Scheduler, tree: &Hierarchy) {
    for handle in 0..QUEUED {
        let class = tree.leaves()[handle as usize % tree.leaves().len()];
        let packet = Packet { handle: handle.into(), len: 1500, class };
        scheduler.enqueue(Nanos(0), packet, &mut |_, packet: Packet, _| panic!("{packet:?} dropped"));
    }
    // Tags and clocks are anywhere then.
    for _ in 0..QUEUED / 10 {
        let _ = scheduler.dequeue(Nanos(0), &mut |_, packet: Packet, _| panic!("{packet:?} dropped"));
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the ns of an addition and of a removal of a leaf.
fn singles(leaves: usize, levels: u32) -> Result<[f64; 2], Failure> {
    const MANY: usize = 1000;
    let (tree, parent) = tree(leaves, levels, 0)?;
    let mut hvt = Hvt::with_room(&tree, MANY)?;
    fill(&mut hvt, &tree);
    let config = ClassConfig { share: Some(Share::Weight(1)), ..ClassConfig::default() };
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        // In lists, as many as fit.
        let few = if tree.children(parent).len() <= 24 { 24 - tree.children(parent).len() } else { MANY };
        let began = Instant::now();
        let ids = (0..few).map(|_| hvt.add_leaf(parent, &config)).collect::<Result<Vec<_>, _>>()?;
        added.push(began.elapsed().as_nanos() as f64 / few as f64);
        // They are in the queue when they go.
        for &class in &ids {
            let packet = Packet { handle: 0, len: 1500, class };
            hvt.enqueue(Nanos(0), packet, &mut |_, packet: Packet, _| panic!("{packet:?} dropped"));
        }
        let began = Instant::now();
        for id in ids {
            hvt.remove(Nanos(0), id, &mut |_, _, reason| assert_eq!(reason, DropReason::ClassRemoved))?;
        }
        removed.push(began.elapsed().as_nanos() as f64 / few as f64);
    }
    Ok([median(added), median(removed)])
}

/// Returns the ms of the commit of a change with one leaf more, with packets that stay and with packets that move.
fn commits(leaves: usize, levels: u32) -> Result<[f64; 2], Failure> {
    let hvt: &'static SchedulerInfo = registry::find("hvt").ok_or("no hvt")?;
    let (mut stay, mut moved) = (Vec::new(), Vec::new());
    let ((before, parent), (after, _)) = (tree(leaves, levels, 0)?, tree(leaves, levels, 1)?);
    // The new leaf has the first id behind those of its siblings.
    let new = after.children(parent)[after.children(parent).len() - 1];
    let mut survivors = vec![None; before.len()];
    for &leaf in before.leaves() {
        survivors[leaf.index()] = Some(if leaf < new { leaf } else { ClassId(leaf.0 + 1) });
    }
    for _ in 0..TIMES {
        let mut running = hvt.build(&before, Leniency::Refuse, Members::default())?;
        fill(&mut *running, &before);
        let change = Change { scheduler: hvt, tree: &after, leniency: Leniency::Refuse, survivors: &survivors };
        let prepared = prepare(&change, Members::default())?;
        let began = Instant::now();
        let retired = prepared.commit(&mut running, Nanos(0), &mut |_, packet: Packet, _| panic!("{packet:?} dropped"));
        stay.push(began.elapsed().as_secs_f64() * 1e3);
        drop(retired);

        let mut running = hvt.build(&before, Leniency::Refuse, Members::default())?;
        fill(&mut *running, &before);
        let mut next = hvt.build(&after, Leniency::Refuse, Members::default())?;
        let mut no_drops = |_, packet: Packet, _| panic!("{packet:?} dropped");
        let began = Instant::now();
        running.purge(Nanos(0), &mut |now, packet: Packet, _| {
            if let Some(class) = survivors[packet.class.index()] {
                next.enqueue(now, Packet { class, ..packet }, &mut no_drops);
            }
        });
        moved.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok([median(stay), median(moved)])
}

fn main() -> Result<(), Failure> {
    println!("| leaves | levels | one more, ns | one less, ns |\n| --- | --- | --- | --- |");
    for (leaves, levels) in [(1000, 1), (10_000, 1), (65_536, 1), (1000, 3), (10_000, 3), (65_536, 3)] {
        let [more, less] = singles(leaves, levels)?;
        println!("| {leaves} | {levels} | {more:.0} | {less:.0} |");
    }
    println!("\n| leaves | levels | state stays, ms | packets move, ms |\n| --- | --- | --- | --- |");
    for (leaves, levels) in [(1000, 1), (10_000, 1), (1000, 3), (10_000, 3)] {
        let [stay, moved] = commits(leaves, levels)?;
        println!("| {leaves} | {levels} | {stay:.2} | {moved:.2} |");
    }
    Ok(())
}
