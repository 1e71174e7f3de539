//! `hls`, `hpfq` and `hvt` on random trees: delays of a leaf within its share, lags behind the fluid ideal, fairness.
//!
//! The link and the traffic are here, and use nothing of the schedulers. The ideal is hierarchical max-min sharing of a fluid.

use std::collections::VecDeque;

use fairlink_core::{
    ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, Leniency, LinkConfig, Members, Nanos, Packet, Rate,
    Scheduler, SchedulerInfo, Share,
};
use fairlink_theory::fluid::HmmMeter;
use fairlink_theory::latency::delay_bounds;

use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Lab};

/// Largest packet, in bytes.
const LARGEST: u32 = 1500;
/// 100 Mbit/s: a byte takes 80 ns.
const LINK_BPS: u64 = 100_000_000;
const NS_PER_BYTE: u64 = 80;
/// Packets of a run.
const PACKETS: usize = 3000;
/// More bits than the link sends in a run.
const MORE_BITS: f64 = 16.0 * LARGEST as f64 * PACKETS as f64;

/// A kind of random trees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    levels: u64,
    fan: u64,
    /// Largest weight.
    weights: u64,
}

pub(super) const KINDS: [Kind; 2] = [
    Kind { name: "three levels", levels: 3, fan: 4, weights: 20 },
    Kind { name: "four levels", levels: 4, fan: 3, weights: 1000 },
];

/// The measurements on a tree, or the worst of many.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Longest delay of the leaf within its share, over a largest packet at its rate; sorted, by tree.
    pub(super) delays: Vec<f64>,
    /// The same over its bound; 0 if it has none.
    pub(super) of_bound: f64,
    /// Farthest that a leaf was behind the ideal, in largest packets.
    pub(super) lag: f64,
    /// Farthest that siblings were apart, over 2 L / w_i + 2 L / w_j - 2 L / W.
    pub(super) fairness: f64,
}

/// Measures the scheduler `info` on `count` trees.
pub(super) fn measure(lab: &Lab<'_>, info: &SchedulerInfo, kind: Kind, count: u64) -> Result<Measured, ClaimError> {
    let mut worst = Measured::default();
    for case in 0..count {
        lab.go_on()?;
        let one = play(info, kind, case)?;
        worst.delays.extend(one.delays);
        worst.of_bound = worst.of_bound.max(one.of_bound);
        worst.lag = worst.lag.max(one.lag);
        worst.fairness = worst.fairness.max(one.fairness);
    }
    worst.delays.sort_by(f64::total_cmp);
    Ok(worst)
}

/// The sending pattern of a leaf.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Largest packets at just less than its share: the leaf whose delay is measured.
    Within,
    /// It always has packets.
    Greedy,
    /// As many packets at once, then a pause.
    Bursts(u64),
}

/// Makes a tree: below each class of the last level but one, and the first child of any other, leaves.
fn tree(rng: &mut SeededRng, kind: Kind) -> Result<Hierarchy, ClaimError> {
    let link = LinkConfig::new(Rate::from_bps(LINK_BPS).map_err(ClaimError::other)?);
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: LARGEST, ..link });
    let mut parents = vec![ClassId::ROOT];
    for level in 1..=kind.levels {
        let mut next = Vec::new();
        for parent in parents {
            for at in 0..rng.between(2, kind.fan) {
                // From 1 to the largest, of every order of magnitude alike.
                let magnitude = rng.below(u64::from(kind.weights.ilog2()) + 1);
                let weight = 1 + rng.below(1 << magnitude);
                let config = ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
                let class = tree.add(parent, config).map_err(ClaimError::other)?;
                if level < kind.levels && (at == 0 || rng.one_in(3)) {
                    next.push(class);
                }
            }
        }
        parents = next;
    }
    tree.build().map_err(ClaimError::other)
}

/// Siblings, and how far they came apart while both are backlogged.
struct Pair {
    classes: [ClassId; 2],
    range: Option<(f64, f64)>,
    bound: f64,
}

struct Run<'a> {
    tree: &'a Hierarchy,
    scheduler: Box<dyn Scheduler>,
    fluid: HmmMeter,
    habits: Vec<Habit>,
    rng: SeededRng,
    /// By class: the next arrival, in nanoseconds; bytes sent; packets that wait; arrivals of those of a leaf.
    next: Vec<u64>,
    sent: Vec<f64>,
    waiting: Vec<u64>,
    arrivals: Vec<VecDeque<u64>>,
    pairs: Vec<Pair>,
    handles: u64,
}

fn path(tree: &Hierarchy, leaf: ClassId) -> impl Iterator<Item = ClassId> {
    std::iter::successors(Some(leaf), |&class| tree.parent(class)).take_while(|&class| class != ClassId::ROOT)
}

impl Run<'_> {
    fn len(&mut self) -> u32 {
        match self.rng.below(3) {
            0 => LARGEST,
            1 => 64,
            _ => 64 + self.rng.below(u64::from(LARGEST) - 63) as u32,
        }
    }

    fn enqueue(&mut self, now: u64, leaf: ClassId, len: u32) {
        let packet = Packet { handle: self.handles, len, class: leaf };
        self.handles += 1;
        let mut sink = |_: Nanos, packet: Packet, reason: DropReason| unreachable!("{packet:?} dropped: {reason:?}");
        self.scheduler.enqueue(Nanos(now), packet, &mut sink);
        self.fluid.arrived(Nanos(now), leaf, len);
        self.arrivals[leaf.index()].push_back(now);
        path(self.tree, leaf).for_each(|class| self.waiting[class.index()] += 1);
    }

    /// All that arrives until `until`, in the order of time.
    fn arrive(&mut self, until: u64) {
        loop {
            let leaves = self.tree.leaves().iter().copied();
            let Some(leaf) = leaves.min_by_key(|leaf| self.next[leaf.index()]) else { return };
            let at = self.next[leaf.index()];
            if at > until {
                return;
            }
            let share = self.tree.share_all_busy(leaf) as f64 / (1u128 << 64) as f64;
            let time_of = |bytes: f64| (bytes * NS_PER_BYTE as f64 / share) as u64;
            let (count, fixed) = match self.habits[leaf.index()] {
                Habit::Within => (1, Some(LARGEST)),
                Habit::Bursts(count) => (1 + self.rng.below(count), None),
                Habit::Greedy => {
                    self.fluid.begin_endless(Nanos(at), leaf, MORE_BITS);
                    self.next[leaf.index()] = u64::MAX;
                    continue;
                }
            };
            let mut bytes = 0.0;
            for _ in 0..count {
                let len = fixed.unwrap_or_else(|| self.len());
                bytes += f64::from(len);
                self.enqueue(at, leaf, len);
            }
            let pause = match fixed {
                Some(_) => time_of(bytes * 1.01),
                None => time_of(bytes * self.rng.between(2, 30) as f64 / 10.0),
            };
            self.next[leaf.index()] = at + pause.max(1);
        }
    }

    fn fill(&mut self, now: u64) {
        for &leaf in self.tree.leaves() {
            while matches!(self.habits[leaf.index()], Habit::Greedy) && self.arrivals[leaf.index()].len() < 3 {
                let len = self.len();
                self.enqueue(now, leaf, len);
            }
        }
    }

    /// Looks how far siblings are apart that both wait.
    fn look(&mut self) {
        for pair in &mut self.pairs {
            let [one, other] = pair.classes;
            if self.waiting[one.index()] == 0 || self.waiting[other.index()] == 0 {
                pair.range = None;
                continue;
            }
            let of = |class: ClassId| self.sent[class.index()] / self.tree.weight(class) as f64;
            let apart = of(one) - of(other);
            let (low, high) = pair.range.unwrap_or((apart, apart));
            pair.range = Some((low.min(apart), high.max(apart)));
        }
    }
}

fn pairs(tree: &Hierarchy) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for parent in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
        let (children, largest) = (tree.children(parent), 2.0 * f64::from(LARGEST));
        for (at, &one) in children.iter().enumerate() {
            for &other in &children[at + 1..] {
                let part = |weight: u64| largest / weight as f64;
                let bound = part(tree.weight(one)) + part(tree.weight(other)) - part(tree.children_weight(parent));
                pairs.push(Pair { classes: [one, other], range: None, bound });
            }
        }
    }
    pairs
}

/// Returns one of the leaves that send enough packets: with at least this part of the link, or the largest share.
fn watched(rng: &mut SeededRng, tree: &Hierarchy) -> ClassId {
    const LEAST: u128 = 1 << 64 >> 6;
    let fits = |leaf: &&ClassId| tree.share_all_busy(**leaf) >= LEAST;
    let large: Vec<ClassId> = tree.leaves().iter().filter(fits).copied().collect();
    let largest = tree.leaves().iter().copied().max_by_key(|&leaf| tree.share_all_busy(leaf));
    let drawn = rng.below(large.len().max(1) as u64) as usize;
    large.get(drawn).copied().or(largest).unwrap_or(ClassId::ROOT)
}

/// Plays one tree.
fn play(info: &SchedulerInfo, kind: Kind, case: u64) -> Result<Measured, ClaimError> {
    let mut rng = SeededRng::new(kind.levels, case);
    let tree = tree(&mut rng, kind)?;
    let scheduler = info.build(&tree, Leniency::Refuse, Members::new()).map_err(ClaimError::other)?;
    let watched = watched(&mut rng, &tree);
    let mut habits = vec![Habit::Greedy; tree.len()];
    for leaf in tree.leaves() {
        if rng.one_in(2) {
            habits[leaf.index()] = Habit::Bursts(rng.between(1, 12));
        }
    }
    habits[watched.index()] = Habit::Within;
    let next = (0..tree.len()).map(|_| if rng.one_in(2) { 0 } else { rng.below(2_000_000) }).collect();
    let mut run = Run {
        tree: &tree,
        scheduler,
        fluid: HmmMeter::new(&tree).ok_or_else(|| ClaimError::other("the tree has too many classes for the ideal"))?,
        habits,
        rng,
        next,
        sent: vec![0.0; tree.len()],
        waiting: vec![0; tree.len()],
        arrivals: vec![VecDeque::new(); tree.len()],
        pairs: pairs(&tree),
        handles: 0,
    };
    // Greedy leaves have packets from the beginning.
    for leaf in tree.leaves() {
        if matches!(run.habits[leaf.index()], Habit::Greedy) {
            run.next[leaf.index()] = 0;
        }
    }
    let share = tree.share_all_busy(watched) as f64 / (1u128 << 64) as f64;
    let packet_ns = f64::from(LARGEST) * NS_PER_BYTE as f64 / share;
    let bound = delay_bounds(info, &tree)[watched.index()].as_ref().map(|bound| bound.seconds_in_floats() * 1e9);
    let (mut now, mut longest, mut measured) = (0u64, 0u64, Measured::default());
    for _ in 0..PACKETS {
        run.arrive(now);
        run.fill(now);
        run.look();
        let mut sink = |_: Nanos, packet: Packet, reason: DropReason| unreachable!("{packet:?} dropped: {reason:?}");
        let Dequeued::Packet(packet) = run.scheduler.dequeue(Nanos(now), &mut sink) else {
            now = tree.leaves().iter().map(|leaf| run.next[leaf.index()]).min().unwrap_or(now).max(now + 1);
            continue;
        };
        let end = now + u64::from(packet.len) * NS_PER_BYTE;
        run.fluid.sent(Nanos(now), packet.class, packet.len);
        for class in path(&tree, packet.class) {
            run.sent[class.index()] += f64::from(packet.len);
        }
        run.look();
        for pair in &run.pairs {
            let (low, high) = pair.range.unwrap_or((0.0, 0.0));
            measured.fairness = measured.fairness.max((high - low) / pair.bound);
        }
        let arrived = run.arrivals[packet.class.index()].pop_front().unwrap_or(now);
        path(&tree, packet.class).for_each(|class| run.waiting[class.index()] -= 1);
        if packet.class == watched {
            longest = longest.max(end - arrived);
        }
        run.look();
        run.arrive(end);
        run.fluid.advance_to(Nanos(end));
        for &leaf in tree.leaves() {
            let behind = -run.fluid.ahead(leaf) / 8.0;
            measured.lag = measured.lag.max(behind / f64::from(LARGEST));
        }
        now = end;
    }
    measured.delays.push(longest as f64 / packet_ns);
    measured.of_bound = bound.map_or(0.0, |bound| longest as f64 / bound);
    Ok(measured)
}
