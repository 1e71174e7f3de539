//! Long-run rates that depend on packets and not on a formula: the scheduler itself runs on steady traffic until its
//! rates are stable.
//!
//! A run consists of stretches, each as long as all before it, until two stretches agree. It is repeated with other
//! phases of the sources and other lengths of the queues of leaves that always have packets. If lengths of packets are
//! unknown, it is repeated with other lengths, too. Rates are known if all runs agree. Otherwise the pattern of packets
//! decides, and there is no valid number.
//!
//! Cost: up to [`MAX_EVENTS`] packets for each of [`STARTS`].

use fairlink_core::{ClassId, Hierarchy, Leniency, SchedulerInfo};

use crate::floats::{CLOSE, add_up, agree, within};
use crate::play::{Play, Source, Start, with_plain_queues};
use crate::request::{Demand, Request};

/// Packets that come or leave in one run at most; about a tenth of a second.
const MAX_EVENTS: u64 = 2_400_000;
/// Packets of the slowest leaf in the first stretch, at least.
const PACKETS: f64 = 120.0;
/// Packets of the link in the first stretch, at least.
const LEAST_PACKETS: u64 = 2_000;
/// Phases of the sources, one run each: all at once, and spread in three ways.
pub(crate) const STARTS: [Start; 4] = [
    Start { phase: 0.0, queued: 8 },
    Start::APART,
    Start { phase: 0.414_214, queued: 16 },
    Start { phase: 0.302_776, queued: 5 },
];

/// Computes the rates of all classes of `tree` in bit/s by class id, under `info` for `demand`; `None` if runs do not
/// agree, do not settle, or would take too long. `length` returns the length of a leaf's packets in bytes if it is
/// known.
pub(crate) fn rates(
    info: &SchedulerInfo,
    tree: &Hierarchy,
    demand: &Demand,
    length: impl Fn(ClassId) -> Option<f64>,
) -> Option<Vec<f64>> {
    let tree = &with_plain_queues(tree).ok()?;
    let largest = tree.link().max_packet;
    let capacity = tree.link().rate.bps();
    let asking = |leaf: ClassId| demand.get(leaf).is_some_and(|asked| asked != Request::Rate(0));
    let known = tree.leaves().iter().all(|&leaf| !asking(leaf) || length(leaf).is_some());
    // The mean of rates that are so close is close to each.
    let spread = if known { CLOSE } else { 2.0 * CLOSE };
    let mut found: Vec<Vec<f64>> = Vec::with_capacity(STARTS.len());
    for (at, &start) in STARTS.iter().enumerate() {
        let source = |&leaf: &ClassId| {
            let bps = match demand.get(leaf)? {
                Request::Rate(0) => return None,
                // A leaf that asks for the whole link always has packets.
                Request::Rate(bps) if bps < capacity => Some(bps),
                _ => None,
            };
            let unknown = match at {
                0 => largest,
                1 => largest.div_ceil(2),
                _ => {
                    largest
                        - (u64::from(leaf.0) * u64::from(largest) * 2 / 11 % (u64::from(largest) * 2).div_ceil(3))
                            as u32
                }
            };
            let length = if known { length(leaf)?.round() as u32 } else { unknown };
            Some(Source { leaf, length: length.clamp(1, largest), bps })
        };
        let sources: Vec<Source> = tree.leaves().iter().filter_map(source).collect();
        let rates = settled(info, tree, &sources, start)?;
        if !found.iter().all(|other| within(spread, other, &rates, capacity as f64)) {
            return None;
        }
        found.push(rates);
    }
    let mean = |index: usize| found.iter().map(|rates| rates[index]).sum::<f64>() / found.len() as f64;
    let mut rates: Vec<f64> = (0..tree.len()).map(mean).collect();
    let measured = rates.clone();
    // A leaf whose demand is met, except for packets at the edges.
    for &leaf in tree.leaves() {
        let asked = demand.bps(leaf);
        if (rates[leaf.index()] - asked).abs() <= asked * CLOSE / 2.0 {
            rates[leaf.index()] = asked;
        }
    }
    tree.classes().filter(|&class| !tree.is_leaf(class)).for_each(|class| rates[class.index()] = 0.0);
    rates[0] = 0.0;
    add_up(tree, &mut rates);
    Some(if rates[0] <= capacity as f64 { rates } else { measured })
}

/// Returns the rates of one run, once two stretches of it agree.
pub(crate) fn settled(info: &SchedulerInfo, tree: &Hierarchy, sources: &[Source], start: Start) -> Option<Vec<f64>> {
    let capacity = tree.link().rate.bps() as f64;
    // Minimum rate of a leaf, approximately: the lower of its demand and of its share while all are busy.
    let slow = |source: &Source| {
        let share = tree.rate_all_busy(source.leaf) as f64;
        f64::from(source.length) * capacity / source.bps.map_or(share, |bps| share.min(bps as f64)).max(1.0)
    };
    let slowest = sources.iter().map(slow).fold(0.0, f64::max);
    let mut bytes = (PACKETS * slowest) as u64;
    bytes = bytes.max(LEAST_PACKETS * u64::from(tree.link().max_packet));
    let mut scheduler = info.build(tree, Leniency::Ignore, Vec::new()).ok()?;
    let mut play = Play::new(tree, &mut *scheduler, sources, start);
    let mut before: Option<Vec<f64>> = None;
    loop {
        let first = play.events();
        // The next stretch takes twice as many. Without a second one there is no answer, so the first ends early.
        let most = if before.is_none() { (MAX_EVENTS + 2 * first) / 3 } else { u64::MAX };
        let (sent, span) = play.run_within(bytes, most)?;
        let rates: Vec<f64> = sent.iter().map(|&sent| sent as f64 * 8e9 / (span.0 as f64).max(1.0)).collect();
        if before.is_some_and(|before| agree(&before, &rates, capacity)) {
            return Some(rates);
        }
        if play.events() + 2 * (play.events() - first) > MAX_EVENTS {
            return None;
        }
        before = Some(rates);
        bytes *= 2;
    }
}

#[cfg(test)]
mod tests;
