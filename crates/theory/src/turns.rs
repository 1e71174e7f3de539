//! Queues that hold what comes for their leaf between two of its turns.
//!
//! A leaf that asks for less than its share has a queue only because other leaves have their turns first. If the round
//! is long, more comes meanwhile than the queue holds: packets are lost though the leaf is within its share. A leaf that
//! asks for more than its share has a queue to send from in its own turn. If the queue holds less, the turn ends early.
//! In both cases the ideal does not hold.
//!
//! | symbol | meaning |
//! | --- | --- |
//! | C, L, n | rate of the link, its largest packet, number of leaves that send |
//! | S, G | leaves that get what they ask for, d_i, and those that ask for more than they get |
//! | D | sum of d_i over S |
//! | q_j | what a visit to leaf j of G sends, on average |
//! | Z | the longest time between the starts of two visits to a leaf |
//!
//! **One round.** Between the starts of two visits to leaf i of S a round robin visits each other leaf once at most. A
//! visit to j of G sends q_j, and a packet more or less. A visit to j of S sends what came since the last one: d_j Z
//! and a packet. So C Z <= sum of (q_j + 2 L) over G + sum of (d_j Z + 2 L) over S, or
//!
//! > Z <= (sum of q_j over G + 2 n L) / (C - D)
//!
//! but no more than sum of (q_j + 2 L) over all leaves, over C, because a visit to a leaf of S sends no more than its q_j.
//! While leaf i has its own visit, the link sends its packets faster than they come. So its queue holds at most
//!
//! > d_i Z (1 - d_i / C) + 2 L.
//!
//! **One turn.** While a leaf of G that asks for d_j sends q_j at the rate C, q_j d_j / C come. It needs q_j (1 - d_j /
//! C) and two packets before its turn. A greedy source has another packet whenever one leaves, and needs no queue.
//!
//! **Other schedulers.** Here q_j is what j sends while others wait: its part of two rounds under \[hls\], whose Q
//! contains the weights and a packet of each; twice its quantum under \[htb\] and \[cbq\], as others send what their
//! buckets hold and then have their turns; and a packet where virtual times decide.
//!
//! This is enough for packets of any length and position; the test plays random trees with just these queues. A shorter
//! queue may do. Then the scheduler itself is run on evenly spaced packets (`too_short`): a queue is too short if its
//! leaf, one of S, loses more than a thousandth of its packets, or, one of G, gets less than its ideal. Where a run would
//! be too long, what is enough decides for round robins, and half of it for others, whose rounds are seldom that long. If
//! packets do not come evenly, no run tells, and what comes in a mean round decides for round robins: the above, without
//! the terms in L.

use std::fmt;

use fairlink_core::schedulers::htb::Plan;
use fairlink_core::{ClassId, Fairness, Hierarchy, Leniency, SchedulerInfo, Sharing, Visit};

use crate::floats::CLOSE;
use crate::play::{Play, Source, with_plain_queues};
use crate::played::STARTS;
use crate::request::Demand;

/// Packets that come or leave in one run at most.
const MAX_EVENTS: u64 = 1_200_000;
/// Rounds in a run that do not count, and those that count.
const ROUNDS: [f64; 2] = [3.0, 100.0];
/// Packets of the link in a run that do not count, and those that count, at least.
const LEAST_PACKETS: [u64; 2] = [1_000, 10_000];
/// A smaller part of a leaf's packets counts as none lost.
const LOST: f64 = 0.001;
/// Part of its share that a leaf sends in [`short_queues`].
pub const PART: f64 = 31.0 / 32.0;
/// Leaves that [`short_queues`] tries.
pub const MAX_RUN: usize = 8;

/// A queue that is too short for the turns of its leaf.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShortQueue {
    /// The leaf.
    pub leaf: ClassId,
    /// Bytes of its packets that its queue holds.
    pub holds: u64,
    /// Demand of the leaf, in bit/s.
    pub asked_bps: f64,
    /// True if it asks for less than its share, so that its queue overflows while others have their turns. Otherwise its
    /// queue runs empty in its turn.
    pub within_share: bool,
    /// Bytes with which its queue loses nothing, with packets of any length.
    pub enough: u64,
}

impl fmt::Display for ShortQueue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { holds, enough, .. } = self;
        let why = if self.within_share {
            "overflows while other classes have their turns, though it asks for less than its share"
        } else {
            "is empty before its turn is over, though it asks for more than its share"
        };
        write!(
            out,
            "its queue holds {} of its packets and {why}; {} are enough",
            in_words(*holds),
            enough_in_words(*enough)
        )
    }
}

/// Returns an amount of bytes in whole bytes or kB, rounded down.
#[must_use]
pub fn in_words(bytes: u64) -> String {
    if bytes < 10_000 { format!("{bytes} B") } else { format!("{} kB", bytes / 1000) }
}

/// Returns an amount of bytes that is enough for something, in whole bytes or kB.
#[must_use]
pub fn enough_in_words(bytes: u64) -> String {
    in_words(if bytes < 10_000 { bytes } else { bytes.next_multiple_of(1000) })
}

impl ShortQueue {
    /// Returns what the queue holds as a part of what is enough.
    fn part(&self) -> f64 {
        self.holds as f64 / self.enough as f64
    }
}

/// The service of leaves in their turns.
#[derive(Clone, Debug)]
struct Turns {
    /// By class id, q_j in bytes, or in packets.
    each: Vec<f64>,
    of_packets: bool,
    /// Bytes of two rounds of which each leaf has a part as of the link.
    shared: f64,
    /// True if latency-critical leaves have a turn for each of a best-effort leaf.
    critical: bool,
    /// True if each other leaf has at most one turn between two turns of a leaf.
    round_robin: bool,
}

impl Turns {
    /// Returns the turns of `info`; `None` if it cannot be built for the tree.
    fn new(info: &SchedulerInfo, tree: &Hierarchy) -> Option<Self> {
        let largest = f64::from(tree.link().max_packet);
        let (round_robin, of_packets) = match info.promises.visit {
            Some(Visit::Packets(_)) => (true, true),
            Some(Visit::Bytes(_)) => (true, false),
            None => (false, false),
        };
        let mut shared = 0.0;
        let each = match (info.promises.visit, info.promises.fairness, info.sharing) {
            (Some(Visit::Packets(weights)), ..) => weights(tree).ok()?.iter().map(|&packets| packets as f64).collect(),
            (Some(Visit::Bytes(quanta)), ..) => {
                quanta(tree).ok()?.iter().map(|&quantum| quantum as f64 / 65_536.0).collect()
            }
            (None, Some(Fairness::Rounds(terms)), _) => {
                let terms = terms(tree).ok()?;
                let weights: f64 = terms.weights.iter().map(|&weight| weight as f64).sum();
                let round = weights / terms.units_per_byte as f64 + largest * tree.len() as f64;
                shared = 2.0 * round;
                (0..tree.len()).map(|index| terms.advances.get(index).copied().unwrap_or(0) as f64).collect()
            }
            // While a leaf that borrows waits, others send what their buckets hold, and then have turns of their own.
            (None, _, Sharing::Lenders | Sharing::Allotted | Sharing::ByPackets(_)) => {
                let quanta = Plan::for_tree(tree).ok()?.quanta;
                let burst = |index: usize| tree.config(ClassId(index as u32)).burst.unwrap_or(0) as f64;
                let of = |(index, &quantum): (usize, &u64)| 2.0 * (quantum as f64 + 2.0 * largest) + burst(index);
                quanta.iter().enumerate().map(of).collect()
            }
            _ => vec![largest; tree.len()],
        };
        let critical = matches!(info.sharing, Sharing::CriticalVisits(_));
        Some(Self { each, of_packets, shared, critical, round_robin })
    }
}

/// A demand: the leaves that get what they ask for, and those that do not.
struct Load<'a> {
    tree: &'a Hierarchy,
    turns: &'a Turns,
    /// By class id, the length of its packets in bytes.
    lengths: Vec<f64>,
    /// By class id, q_j in bytes.
    sends: Vec<f64>,
    /// Leaves of S with d_i in bit/s.
    satisfied: Vec<(ClassId, f64)>,
    /// Leaves of G with what they ask for in bit/s, infinite if they always have packets.
    others: Vec<(ClassId, f64)>,
    /// Time between two visits in seconds: Z, and the mean.
    round_s: [f64; 2],
}

impl<'a> Load<'a> {
    fn new(
        (tree, turns): (&'a Hierarchy, &'a Turns),
        rate: impl Fn(ClassId) -> f64,
        satisfied: Vec<(ClassId, f64)>,
        others: Vec<(ClassId, f64)>,
        length: impl Fn(ClassId) -> Option<f64>,
    ) -> Self {
        let link = tree.link();
        let (capacity, largest) = (link.rate.bps() as f64 / 8.0, f64::from(link.max_packet));
        let length = |index: usize| length(ClassId(index as u32)).unwrap_or(largest).clamp(1.0, largest);
        let lengths: Vec<f64> = (0..tree.len()).map(length).collect();
        let mut sends = vec![0.0; tree.len()];
        for &(leaf, _) in satisfied.iter().chain(&others) {
            let length = if turns.of_packets { lengths[leaf.index()] } else { 1.0 };
            sends[leaf.index()] = turns.each[leaf.index()] * length + turns.shared * rate(leaf) / (8.0 * capacity);
        }
        let all = || satisfied.iter().chain(&others).map(|(leaf, _)| leaf);
        let best_effort = all().filter(|leaf| !tree.config(**leaf).latency_critical).count().max(1);
        let in_round = |leaf: &ClassId| {
            let visits = if turns.critical && tree.config(*leaf).latency_critical { best_effort } else { 1 };
            sends[leaf.index()] * visits as f64
        };
        let greedy: f64 = others.iter().map(|(leaf, _)| in_round(leaf)).sum();
        let whole: f64 = all().map(in_round).sum();
        let packets = 2.0 * largest * all().count() as f64;
        let rest = (capacity - satisfied.iter().map(|(_, bps)| bps / 8.0).sum::<f64>()).max(0.0);
        let round_s = [packets, 0.0].map(|packets| ((greedy + packets) / rest).min((whole + packets) / capacity));
        Self { tree, turns, lengths, sends, satisfied, others, round_s }
    }

    /// Returns the bytes that come for a leaf of S in a round of `seconds`, without its own visit.
    fn comes(&self, bps: f64, seconds: f64) -> f64 {
        bps / 8.0 * seconds * (1.0 - bps / self.tree.link().rate.bps() as f64).max(0.0)
    }

    /// Returns what the queue of `leaf` holds of its packets, in bytes.
    fn holds(&self, leaf: ClassId) -> f64 {
        let limits = self.tree.config(leaf).limits;
        (f64::from(limits.packets) * self.lengths[leaf.index()]).min(f64::from(limits.bytes))
    }

    /// The queue of a leaf of S.
    fn beside(&self, &(leaf, asked_bps): &(ClassId, f64)) -> ShortQueue {
        let enough = self.comes(asked_bps, self.round_s[0]) + 2.0 * f64::from(self.tree.link().max_packet);
        let (holds, enough) = (self.holds(leaf) as u64, enough.ceil() as u64);
        ShortQueue { leaf, holds, asked_bps, within_share: true, enough }
    }

    /// The queue of a leaf of G, from which a turn takes more than comes meanwhile.
    fn in_turn(&self, &(leaf, asked_bps): &(ClassId, f64)) -> ShortQueue {
        let comes = (asked_bps / self.tree.link().rate.bps() as f64).min(1.0);
        let enough = self.sends[leaf.index()] * (1.0 - comes) + 2.0 * f64::from(self.tree.link().max_packet);
        let (holds, enough) = (self.holds(leaf) as u64, enough.ceil() as u64);
        ShortQueue { leaf, holds, asked_bps, within_share: false, enough }
    }

    /// Returns the queues that are shorter than what is enough.
    fn suspects(&self) -> Vec<ShortQueue> {
        let beside = self.satisfied.iter().map(|one| self.beside(one));
        // A leaf that always has packets has another when one leaves.
        let limited = self.others.iter().filter(|(_, bps)| bps.is_finite());
        beside.chain(limited.map(|one| self.in_turn(one))).filter(|short| short.holds < short.enough).collect()
    }

    /// Returns true if the queue is too short for a mean round: of other schedulers, half of the longest.
    fn fails_on_average(&self, short: &ShortQueue) -> bool {
        let part = if self.turns.round_robin { 1.0 } else { 0.5 };
        let needs = match short.within_share {
            true => self.comes(short.asked_bps, part * self.round_s[1]),
            false => part * short.enough as f64,
        };
        needs > short.holds as f64
    }

    /// Runs the scheduler, and returns by class id true for a leaf of S that loses packets at its queue, and for a leaf of
    /// G that gets less than `ideal`, in one of [`STARTS`]; for all if a leaf of G gets more. NaN is no ideal. `None` if a
    /// run would be too long.
    fn fail(&self, info: &SchedulerInfo, ideal: impl Fn(ClassId) -> f64) -> Option<Vec<bool>> {
        let tree = &with_plain_queues(self.tree).ok()?;
        let capacity = tree.link().rate.bps();
        let source = |&(leaf, bps): &(ClassId, f64)| {
            let length = self.lengths[leaf.index()].round() as u32;
            // A leaf that asks for the whole link always has packets.
            Source { leaf, length, bps: (bps < capacity as f64).then_some((bps as u64).max(1)) }
        };
        let mut sources: Vec<Source> = self.satisfied.iter().chain(&self.others).map(source).collect();
        sources.sort_by_key(|source| source.leaf);
        let round = self.round_s[0] * capacity as f64 / 8.0;
        let bytes =
            |at: usize| (ROUNDS[at] * round).max(LEAST_PACKETS[at] as f64 * f64::from(tree.link().max_packet)) as u64;
        // A packet comes and leaves.
        if bytes(0) + bytes(1) > MAX_EVENTS / 2 * u64::from(tree.link().max_packet) {
            return None;
        }
        let (mut fail, mut off) = (vec![false; tree.len()], false);
        for start in STARTS {
            let mut scheduler = info.build(tree, Leniency::Ignore, Vec::new()).ok()?;
            let mut play = Play::new(tree, &mut *scheduler, &sources, start);
            play.run_within(bytes(0), MAX_EVENTS)?;
            let lost_before = play.dropped().to_vec();
            let (sent, span) = play.run_within(bytes(1), MAX_EVENTS)?;
            for &(leaf, _) in &self.satisfied {
                let lost = (play.dropped()[leaf.index()] - lost_before[leaf.index()]) as f64;
                fail[leaf.index()] |= lost > LOST * (lost + sent[leaf.index()] as f64);
            }
            for &(leaf, _) in &self.others {
                let bps = sent[leaf.index()] as f64 * 8e9 / (span.0 as f64).max(1.0);
                fail[leaf.index()] |= bps < ideal(leaf) * (1.0 - 2.0 * CLOSE);
                // A visit more or less.
                let edge = self.sends[leaf.index()] * 8e9 / (span.0 as f64).max(1.0);
                off |= (bps - ideal(leaf)).abs() > 2.0 * CLOSE * ideal(leaf) + edge;
            }
        }
        // What a large leaf lacks may be much for a small one.
        if off {
            fail.fill(true);
        }
        Some(fail)
    }
}

/// Returns the queue that is too short for the turns of its leaf, in proportion to what it should hold the shortest, while
/// each leaf gets `rate` of `demand` under `info`; `None` if there is none. `length` returns the mean length of a leaf's
/// packets in bytes, if it is known. With `may_run` the scheduler is run where that decides.
pub(crate) fn too_short(
    info: &SchedulerInfo,
    tree: &Hierarchy,
    demand: &Demand,
    rate: impl Fn(ClassId) -> f64,
    length: impl Fn(ClassId) -> Option<f64>,
    may_run: bool,
) -> Option<ShortQueue> {
    if !may_run && info.promises.visit.is_none() {
        return None;
    }
    let asks = |leaf: &ClassId| demand.bps(*leaf) > 0.0;
    let gets = |&leaf: &ClassId| rate(leaf) >= demand.bps(leaf) * (1.0 - 1e-6);
    let (satisfied, others): (Vec<ClassId>, Vec<ClassId>) = tree.leaves().iter().copied().filter(asks).partition(gets);
    if satisfied.len() + others.len() < 2 {
        return None;
    }
    let turns = Turns::new(info, tree)?;
    let asked = |leaves: Vec<ClassId>| leaves.into_iter().map(|leaf| (leaf, demand.bps(leaf))).collect();
    let load = Load::new((tree, &turns), &rate, asked(satisfied), asked(others), length);
    let suspects = load.suspects();
    if suspects.is_empty() {
        return None;
    }
    let failing = if may_run { load.fail(info, rate) } else { None };
    let fails = |short: &ShortQueue| match &failing {
        Some(fail) => fail[short.leaf.index()],
        // A little below what is enough for a round robin, only a run could tell.
        None => may_run && turns.round_robin || load.fails_on_average(short),
    };
    suspects.into_iter().filter(fails).min_by(|one, other| one.part().total_cmp(&other.part()))
}

/// Returns the leaves of `tree` whose queues lose packets under `info` while each sends largest packets at [`PART`] of
/// what `rate` returns for it, its rate while all leaves are busy, and all others always have packets. Only the
/// [`MAX_RUN`] shortest queues are tried, by runs; where a run would be too long, more must come in a mean round of a
/// round robin than the queue holds.
#[must_use]
pub fn short_queues(info: &SchedulerInfo, tree: &Hierarchy, rate: impl Fn(ClassId) -> f64) -> Vec<ShortQueue> {
    let Some(turns) = Turns::new(info, tree) else { return Vec::new() };
    let busy: Vec<ClassId> = tree.leaves().iter().copied().filter(|&leaf| rate(leaf) > 0.0).collect();
    let load = |satisfied: Option<ClassId>| {
        let others = busy.iter().copied().filter(|&leaf| Some(leaf) != satisfied);
        let others = others.map(|leaf| (leaf, f64::INFINITY)).collect();
        let satisfied = satisfied.into_iter().map(|leaf| (leaf, PART * rate(leaf))).collect();
        Load::new((tree, &turns), &rate, satisfied, others, |_| None)
    };
    // With the round of all no leaf takes a walk over the others.
    let all = load(None);
    let short = busy.iter().map(|&leaf| all.beside(&(leaf, PART * rate(leaf))));
    let mut suspects: Vec<ShortQueue> = short.filter(|short| short.holds < short.enough).collect();
    suspects.sort_by(|one, other| one.part().total_cmp(&other.part()));
    let loses = |one: ShortQueue| {
        let load = load(Some(one.leaf));
        let short = load.suspects().pop()?;
        let fails = load.fail(info, |_| f64::NAN).map(|fail| fail[short.leaf.index()]);
        fails.unwrap_or_else(|| load.fails_on_average(&short)).then_some(short)
    };
    let mut short: Vec<ShortQueue> = suspects.into_iter().take(MAX_RUN).filter_map(loses).collect();
    short.sort_by_key(|short| short.leaf.0);
    short
}

#[cfg(test)]
mod tests;
