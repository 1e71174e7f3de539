//! Delay, gaps and fairness beside the numbers that `check` prints. The printed values come from
//! `fairlink_theory::promises`; the measurements come from the events alone, by the definitions.

use std::collections::{HashMap, VecDeque};

use fairlink_core::{ClassId, Fairness, Hosts, Nanos, PerWindow};
use fairlink_theory::promises::{Promised, promised};
use fairlink_theory::to_f64;
use fairlink_traffic::ArrivalLimit;

use crate::judge::{Judge, ensure};
use crate::trace::{Event, Seen, Stage, What, host, path};

/// Returns true if a measurement exceeds the printed value by more than rounding.
fn beyond(measured: f64, printed: f64) -> bool {
    measured > printed * (1.0 + 1e-9) + 3e-9
}

/// Judges all bounds of a link that does not change.
pub(crate) fn bounds(seen: &Seen, judge: &mut Judge) {
    let Some(stage) = seen.alone() else { return };
    let printed = match promised(stage.info, &stage.tree) {
        Ok(printed) => printed,
        Err(error) => return judge.broken("bounds", format!("what is promised cannot be computed: {error}")),
    };
    delays(seen, stage, &printed, judge);
    gaps(seen, stage, &printed, judge);
    pairs(seen, stage, &printed, judge);
    worst_case(seen, stage, &printed, judge);
    hosts(seen, stage, judge);
}

/// One limit of a bound's traffic, and the recent arrivals.
struct Conforming {
    limit: ArrivalLimit,
    /// For a bucket: its content in 2^-3 10^-9 bytes, and the time of that.
    held: u128,
    last: Nanos,
    /// For a window: the arrivals in it.
    recent: VecDeque<(Nanos, u64)>,
}

impl Conforming {
    /// Returns true if the traffic still keeps to the limit with another packet.
    fn takes(&mut self, at: Nanos, len: u32) -> bool {
        const UNIT: u128 = 8_000_000_000;
        match self.limit {
            ArrivalLimit::Bucket { burst, rate_bps } => {
                let drained = u128::from((at - self.last).0) * u128::from(rate_bps);
                self.held = self.held.saturating_sub(drained) + u128::from(len) * UNIT;
                self.last = at;
                self.held <= u128::from(burst) * UNIT
            }
            ArrivalLimit::Window { amount, every } => {
                let (most, own) = match amount {
                    PerWindow::Packets(packets) => (packets, 1),
                    PerWindow::Bytes(bytes) => (bytes, u64::from(len)),
                };
                self.recent.push_back((at, own));
                while self.recent.front().is_some_and(|&(came, _)| (at - came).0 > every.0) {
                    self.recent.pop_front();
                }
                self.recent.iter().map(|&(_, own)| own).sum::<u64>() <= most
            }
            ArrivalLimit::Spacing { .. } | ArrivalLimit::Line { .. } => false,
        }
    }
}

/// "A packet that is not dropped leaves within this time, while its class keeps to the burst and rate in the last column": packets that left
/// before their class sent more.
fn delays(seen: &Seen, stage: &Stage, printed: &Promised, judge: &mut Judge) {
    for &leaf in stage.tree.leaves() {
        let Some(bound) = &printed.delays[leaf.index()] else { continue };
        let seconds = to_f64(&bound.seconds());
        let limits = bound.traffic.limits().iter();
        let mut limits: Vec<Conforming> =
            limits.map(|&limit| Conforming { limit, held: 0, last: Nanos::ZERO, recent: VecDeque::new() }).collect();
        let mut came: HashMap<u64, Nanos> = HashMap::new();
        for event in seen.events.iter().filter(|event| event.class == leaf.index()) {
            match event.what {
                What::Came => {
                    came.insert(event.number, event.at);
                    // Every limit has to see the packet.
                    let broken =
                        limits.iter_mut().filter_map(|limit| (!limit.takes(event.at, event.len)).then_some(()));
                    if broken.count() > 0 {
                        break;
                    }
                }
                What::Sent { done } => {
                    judge.count("delay");
                    let Some(came) = came.remove(&event.number) else { continue };
                    let took = (done - came).0 as f64 / 1e9;
                    ensure!(
                        judge,
                        "delay",
                        !beyond(took, seconds),
                        "{}: packet {} took {took} s; printed is {seconds} s for {:?}",
                        seen.names[leaf.index()],
                        event.number,
                        bound.traffic.limits()
                    );
                }
                What::Dropped(_) => drop(came.remove(&event.number)),
            }
        }
    }
}

/// The time from one packet of a backlogged leaf to the next, to its beginning and to its end.
fn gaps(seen: &Seen, stage: &Stage, printed: &Promised, judge: &mut Judge) {
    let Some(gap) = &printed.transmission_gap else { return };
    for &leaf in stage.tree.leaves() {
        let between = printed.between_packets(&stage.tree, leaf);
        let next = gap.next_packets.get(leaf.index()).copied().flatten();
        let (mut queued, mut since) = (0u64, Nanos::ZERO);
        for event in seen.events.iter().filter(|event| event.class == leaf.index()) {
            match event.what {
                What::Came => {
                    if queued == 0 {
                        since = since.max(event.at);
                    }
                    queued += 1;
                }
                What::Sent { done } => {
                    let waited = (event.at.0.saturating_sub(since.0)) as f64 / 1e9;
                    if let Some(between) = between {
                        judge.count("gap");
                        ensure!(
                            judge,
                            "gap",
                            !beyond(waited, between),
                            "{}: packet {} waited {waited} s after the one before; printed is {between} s",
                            seen.names[leaf.index()],
                            event.number
                        );
                    }
                    if let Some(next) = next {
                        judge.count("next packet");
                        let waited = (done.0 - since.0) as f64 / 1e9;
                        ensure!(
                            judge,
                            "next packet",
                            !beyond(waited, next),
                            "{}: packet {} left {waited} s after the one ahead; printed is {next} s",
                            seen.names[leaf.index()],
                            event.number
                        );
                    }
                    queued = queued.saturating_sub(1);
                    since = done;
                }
                What::Dropped(_) => queued = queued.saturating_sub(1),
            }
        }
    }
}

/// The largest difference of two sums over any interval in which both sides have packets.
#[derive(Clone, Copy, Default)]
struct Apart {
    lowest: f64,
    highest: f64,
    worst: f64,
}

impl Apart {
    fn begin(&mut self, now: f64) {
        (self.lowest, self.highest) = (now, now);
    }

    fn see(&mut self, now: f64) {
        (self.lowest, self.highest) = (self.lowest.min(now), self.highest.max(now));
        self.worst = self.worst.max(self.highest - self.lowest);
    }
}

/// Follows the sent bytes of classes, including inner ones, and their backlog.
struct Sums {
    queued: Vec<u64>,
    sent: Vec<f64>,
}

/// Calls `began` when a class gets its first packet, and `sent` for each packet, while it still counts as queued. Packets of leaves
/// that are `ahead` do not count as queued.
fn follow(
    seen: &Seen,
    stage: &Stage,
    ahead: impl Fn(ClassId) -> bool,
    mut began: impl FnMut(&Sums, ClassId),
    mut sent: impl FnMut(&Sums, &Event, ClassId),
) {
    let mut sums = Sums { queued: vec![0; stage.tree.len()], sent: vec![0.0; stage.tree.len()] };
    for event in &seen.events {
        let leaf = ClassId(event.class as u32);
        let path = || path(&stage.tree, leaf);
        match event.what {
            What::Came => {
                for class in path().filter(|_| !ahead(leaf)) {
                    sums.queued[class.index()] += 1;
                    if sums.queued[class.index()] == 1 {
                        began(&sums, class);
                    }
                }
                continue;
            }
            What::Sent { .. } => {
                sums.sent[0] += f64::from(event.len);
                path().for_each(|class| sums.sent[class.index()] += f64::from(event.len));
                sent(&sums, event, leaf);
            }
            What::Dropped(_) => {}
        }
        path()
            .filter(|_| !ahead(leaf))
            .for_each(|class| sums.queued[class.index()] = sums.queued[class.index()].saturating_sub(1));
    }
}

/// \[hls\] Definition 1, and the promise of SCFQ and SFQ: service of siblings relative to their weights while both have
/// packets.
fn pairs(seen: &Seen, stage: &Stage, printed: &Promised, judge: &mut Judge) {
    let tree = &stage.tree;
    let each = printed.siblings.iter().any(Option::is_some);
    if printed.fairness.is_none() && !each {
        return;
    }
    let weight = |class: ClassId| match printed.weights[class.index()] {
        Some(weight) => weight.as_run,
        None => tree.share_all_busy(class) as f64,
    };
    // "and no ceiling at or below them limits them"
    let held = |class: ClassId| {
        let limited = |class: ClassId| tree.config(class).ceiling.is_some() || tree.config(class).upper_limit.is_some();
        tree.classes().any(|below| limited(below) && path(tree, below).any(|above| above == class))
    };
    let leaves_only = printed.fairness.as_ref().is_some_and(|fairness| fairness.leaves_only);
    // Pairs, and by class those that it is one of.
    let (mut pairs, mut of_class) = (Vec::new(), vec![Vec::new(); tree.len()]);
    for parent in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
        let compared = |class: &ClassId| !held(*class) && (!leaves_only || tree.is_leaf(*class));
        let children: Vec<ClassId> = tree.children(parent).iter().copied().filter(compared).collect();
        for (place, &one) in children.iter().enumerate() {
            for &other in &children[place + 1..] {
                of_class[one.index()].push(pairs.len());
                of_class[other.index()].push(pairs.len());
                pairs.push((one, other));
            }
        }
    }
    let apart = std::cell::RefCell::new(vec![Apart::default(); pairs.len()]);
    let difference = |sums: &Sums, (one, other): (ClassId, ClassId)| {
        sums.sent[one.index()] / weight(one) - sums.sent[other.index()] / weight(other)
    };
    let busy = |sums: &Sums, class: ClassId| -> Vec<usize> {
        let both = |pair: &&usize| {
            let (one, other) = pairs[**pair];
            sums.queued[one.index()] > 0 && sums.queued[other.index()] > 0
        };
        of_class[class.index()].iter().filter(both).copied().collect()
    };
    let began = |sums: &Sums, class: ClassId| {
        busy(sums, class).into_iter().for_each(|pair| apart.borrow_mut()[pair].begin(difference(sums, pairs[pair])));
    };
    let sent = |sums: &Sums, _: &Event, leaf: ClassId| {
        for class in path(tree, leaf) {
            busy(sums, class).into_iter().for_each(|pair| apart.borrow_mut()[pair].see(difference(sums, pairs[pair])));
        }
    };
    // docs/hvt.md: "while both siblings have packets that are not urgent".
    let by_clocks = matches!(stage.info.promises.fairness, Some(Fairness::Clocks(_)));
    let ahead = |leaf: ClassId| by_clocks && tree.config(leaf).latency_critical;
    follow(seen, stage, ahead, began, sent);
    for (&(one, other), Apart { worst, .. }) in pairs.iter().zip(apart.into_inner()) {
        judge.count("fairness");
        let names = [&seen.names[one.index()], &seen.names[other.index()]];
        if let Some(fairness) = &printed.fairness {
            let most = to_f64(&fairness.bytes_per_weight.value);
            ensure!(
                judge,
                "fairness",
                !beyond(worst, most),
                "{names:?} are {worst} B apart for each unit of weight; printed is {most} B"
            );
        }
        for class in [one, other] {
            let of_rounds = printed.fairness.as_ref().and_then(|fairness| *fairness.of_classes.get(class.index())?);
            let of_class = of_rounds.or_else(|| *printed.siblings.get(class.index())?);
            let Some(of_class) = of_class else { continue };
            let off = worst * weight(class);
            ensure!(
                judge,
                "fairness",
                !beyond(off, of_class.bytes),
                "{} of {names:?} is {off} B off its part; printed are {} B",
                seen.names[class.index()],
                of_class.bytes
            );
        }
    }
}

/// Lag of a class behind its share of the link's service while it has packets.
fn worst_case(seen: &Seen, stage: &Stage, printed: &Promised, judge: &mut Judge) {
    let tree = &stage.tree;
    let share = |class: ClassId| tree.share_all_busy(class) as f64 / (1u128 << 64) as f64;
    let behind = |sums: &Sums, class: ClassId| share(class) * sums.sent[0] - sums.sent[class.index()];
    let state = std::cell::RefCell::new(vec![Apart::default(); tree.len()]);
    let began = |sums: &Sums, class: ClassId| state.borrow_mut()[class.index()].begin(behind(sums, class));
    let sent = |sums: &Sums, _: &Event, _: ClassId| {
        for class in tree.classes().filter(|class| sums.queued[class.index()] > 0) {
            let (now, own) = (behind(sums, class), &mut state.borrow_mut()[class.index()]);
            own.lowest = own.lowest.min(now);
            own.worst = own.worst.max(now - own.lowest);
        }
    };
    if printed.worst_case.iter().all(Option::is_none) {
        return;
    }
    follow(seen, stage, |_| false, began, sent);
    for (class, own) in tree.classes().zip(state.into_inner().into_iter().skip(1)) {
        let Some(most) = printed.worst_case[class.index()].as_ref().map(to_f64) else { continue };
        judge.count("worst case");
        ensure!(
            judge,
            "worst case",
            !beyond(own.worst, most),
            "{} is {} B behind its share; printed are {most} B",
            seen.names[class.index()],
            own.worst
        );
    }
}

/// "The most bytes that one host is served more than another while both have packets queued."
fn hosts(seen: &Seen, stage: &Stage, judge: &mut Judge) {
    // Not printed behind a transmit queue.
    if stage.behind() > 0 {
        return;
    }
    for &leaf in stage.tree.leaves().iter().filter(|leaf| stage.tree.config(**leaf).hosts.is_some()) {
        let printed = Hosts::apart(stage.tree.link().max_packet) as f64;
        let mut sums: HashMap<u32, (u64, f64)> = HashMap::new();
        let mut apart: HashMap<(u32, u32), Apart> = HashMap::new();
        for event in seen.events.iter().filter(|event| event.class == leaf.index()) {
            let own = host(stage, leaf, event.source);
            let known: Vec<u32> = sums.keys().copied().filter(|&other| other != own).collect();
            let (queued, sent) = sums.entry(own).or_default();
            match event.what {
                What::Came => *queued += 1,
                What::Sent { .. } => {
                    *queued = queued.saturating_sub(1);
                    *sent += f64::from(event.len);
                }
                What::Dropped(_) => *queued = queued.saturating_sub(1),
            }
            let (queued, sent) = (*queued, *sent);
            for other in known {
                let (theirs, other_sent) = sums[&other];
                let now = if own < other { sent - other_sent } else { other_sent - sent };
                let pair = apart.entry((own.min(other), own.max(other))).or_default();
                match event.what {
                    What::Came if queued == 1 && theirs > 0 => pair.begin(now),
                    // "A packet that is being sent is no longer queued."
                    What::Sent { .. } if theirs > 0 && queued > 0 => pair.see(now),
                    _ => {}
                }
            }
        }
        for ((one, other), Apart { worst, .. }) in apart {
            judge.count("hosts");
            ensure!(
                judge,
                "hosts",
                !beyond(worst, printed),
                "{}: hosts {one} and {other} are {worst} B apart; printed are {printed} B",
                seen.names[leaf.index()]
            );
        }
    }
}
