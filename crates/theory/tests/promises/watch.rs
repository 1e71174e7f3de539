//! Checks during a run: conforming traffic, fairness, gaps.

use std::collections::VecDeque;

use fairlink_core::{ClassId, Fairness as Kind, Hierarchy, Nanos, Packet, PerWindow, SchedulerInfo};
use fairlink_theory::latency::DelayBound;
use fairlink_theory::promises::Promised;
use fairlink_theory::to_f64;
use fairlink_traffic::ArrivalLimit;

use crate::path;
use crate::trees::LINK;

/// Holds a class to the traffic that its delay bound is for.
pub(crate) struct Kept(Vec<Limit>);

enum Limit {
    /// Tokens in bits times 10^9; the burst; bit/s; when they were counted.
    Bucket { tokens: u128, burst: u128, rate: u64, counted: Nanos },
    /// Bytes or packets sent in the last interval.
    Window { amount: PerWindow, every: Nanos, sent: VecDeque<(Nanos, u64)> },
}

impl Kept {
    pub(crate) fn new(bound: &DelayBound) -> Self {
        let limit = |limit: &ArrivalLimit| match *limit {
            ArrivalLimit::Bucket { burst, rate_bps } => {
                let burst = u128::from(burst) * 8_000_000_000;
                Limit::Bucket { tokens: burst, burst, rate: rate_bps, counted: Nanos::ZERO }
            }
            ArrivalLimit::Window { amount, every } => Limit::Window { amount, every, sent: VecDeque::new() },
            other => panic!("no bound is for {other:?}"),
        };
        Self(bound.traffic.limits().iter().map(limit).collect())
    }

    /// Returns true if a packet of `len` bytes may be sent at `now`; it counts as sent then.
    pub(crate) fn takes(&mut self, now: Nanos, len: u32) -> bool {
        let fits = self.0.iter_mut().all(|limit| limit.fits(now, len));
        if fits {
            self.0.iter_mut().for_each(|limit| limit.count(now, len));
        }
        fits
    }
}

impl Limit {
    fn own(&self, len: u32) -> u128 {
        match self {
            Self::Bucket { .. } => u128::from(len) * 8_000_000_000,
            Self::Window { amount: PerWindow::Packets(_), .. } => 1,
            Self::Window { amount: PerWindow::Bytes(_), .. } => len.into(),
        }
    }

    fn fits(&mut self, now: Nanos, len: u32) -> bool {
        let own = self.own(len);
        match self {
            Self::Bucket { tokens, burst, rate, counted } => {
                *tokens = (*tokens + u128::from(*rate) * u128::from((now - *counted).0)).min(*burst);
                *counted = now;
                own <= *tokens
            }
            Self::Window { amount, every, sent } => {
                while sent.front().is_some_and(|&(at, _)| at.saturating_add(*every) <= now) {
                    sent.pop_front();
                }
                let (PerWindow::Packets(most) | PerWindow::Bytes(most)) = *amount;
                sent.iter().map(|&(_, amount)| u128::from(amount)).sum::<u128>() + own <= most.into()
            }
        }
    }

    fn count(&mut self, now: Nanos, len: u32) {
        let own = self.own(len);
        match self {
            Self::Bucket { tokens, .. } => *tokens -= own,
            Self::Window { sent, .. } => sent.push_back((now, own as u64)),
        }
    }
}

/// Two siblings, and their distance since both are backlogged.
struct Pair {
    siblings: (ClassId, ClassId),
    range: Option<(f64, f64)>,
}

/// Watches siblings that are backlogged.
pub(crate) struct Fairness<'a> {
    info: &'a SchedulerInfo,
    seed: u64,
    tree: &'a Hierarchy,
    promised: &'a Promised,
    pairs: Vec<Pair>,
    served: Vec<f64>,
    backlog: Vec<u64>,
    /// Of [`Kind::Clocks`], by class id, in bytes.
    slacks: Vec<Option<f64>>,
    /// By class id, true for leaves whose packets do not make the classes above them backlogged: under [`Kind::Clocks`] latency-critical
    /// ones, whose packets precede others.
    ahead: Vec<bool>,
    /// The largest part of a bound that was used.
    pub(crate) closest: f64,
}

impl<'a> Fairness<'a> {
    pub(crate) fn new(info: &'a SchedulerInfo, seed: u64, tree: &'a Hierarchy, promised: &'a Promised) -> Self {
        let mut held_back: Vec<bool> =
            (0..tree.len()).map(|at| tree.config(ClassId(at as u32)).ceiling.is_some()).collect();
        for class in tree.classes().rev() {
            let parent = tree.parent(class).expect("not the root");
            held_back[parent.index()] |= held_back[class.index()];
        }
        let leaves_only = promised.fairness.as_ref().is_some_and(|fairness| fairness.leaves_only);
        let watched = |class: ClassId| !held_back[class.index()] && (!leaves_only || tree.is_leaf(class));
        let mut pairs = Vec::new();
        for parent in std::iter::once(ClassId::ROOT).chain(tree.classes()) {
            let children: Vec<ClassId> =
                tree.children(parent).iter().copied().filter(|&child| watched(child)).collect();
            for (at, &one) in children.iter().enumerate() {
                pairs.extend(children[at + 1..].iter().map(|&other| Pair { siblings: (one, other), range: None }));
            }
        }
        let (served, backlog) = (vec![0.0; tree.len()], vec![0; tree.len()]);
        let slacks = match info.promises.fairness {
            Some(Kind::Clocks(slacks)) => slacks(tree).expect("memory"),
            _ => Vec::new(),
        };
        let slacks = slacks.iter().map(|x| x.map(|x| x.numerator as f64 / x.denominator as f64)).collect();
        let by_clocks = matches!(info.promises.fairness, Some(Kind::Clocks(_)));
        let is_ahead = |at: usize| by_clocks && tree.config(ClassId(at as u32)).latency_critical;
        let ahead = (0..tree.len()).map(is_ahead).collect();
        Self { info, seed, tree, promised, pairs, served, backlog, slacks, ahead, closest: 0.0 }
    }

    pub(crate) fn arrived(&mut self, leaf: ClassId) {
        if !self.ahead[leaf.index()] {
            path(self.tree, leaf).for_each(|class| self.backlog[class.index()] += 1);
        }
    }

    /// A packet of `leaf` was dropped from its queue.
    pub(crate) fn gone(&mut self, leaf: ClassId) {
        self.left(leaf);
    }

    fn left(&mut self, leaf: ClassId) {
        if self.ahead[leaf.index()] {
            return;
        }
        for class in path(self.tree, leaf) {
            self.backlog[class.index()] -= 1;
            if self.backlog[class.index()] == 0 {
                self.forget(class);
            }
        }
    }

    fn forget(&mut self, class: ClassId) {
        for pair in &mut self.pairs {
            if pair.siblings.0 == class || pair.siblings.1 == class {
                pair.range = None;
            }
        }
    }

    pub(crate) fn sent(&mut self, packet: &Packet) {
        for class in path(self.tree, packet.class) {
            self.served[class.index()] += f64::from(packet.len);
        }
        self.look();
        self.left(packet.class);
    }

    /// Looks at all pairs.
    pub(crate) fn look(&mut self) {
        // Of classes with tiny shares of the link only the weights are exact.
        let by_clocks = matches!(self.info.promises.fairness, Some(Kind::Clocks(_)));
        let share = |class: ClassId| match by_clocks {
            true => self.tree.weight(class) as f64,
            false => self.tree.share_all_busy(class) as f64,
        };
        for Pair { siblings, range } in &mut self.pairs {
            let (one, other) = *siblings;
            if self.backlog[one.index()] == 0 || self.backlog[other.index()] == 0 {
                continue;
            }
            // Per effective weight, and by the guarantee if weights are used unchanged.
            let weight = |class: ClassId| match self.promised.weights[class.index()] {
                Some(weight) => weight.as_run,
                None => share(class),
            };
            let apart = self.served[one.index()] / weight(one) - self.served[other.index()] / weight(other);
            let (low, high) = range.get_or_insert((apart, apart));
            (*low, *high) = (low.min(apart), high.max(apart));
            let limit = match (self.info.promises.fairness, &self.promised.fairness) {
                (_, Some(fairness)) => {
                    for class in [one, other] {
                        let of_class = fairness.of_classes.get(class.index()).copied().flatten();
                        let most = of_class.map_or(f64::INFINITY, |of_class| of_class.bytes);
                        let bytes = (*high - *low) * weight(class);
                        assert!(
                            bytes <= most * (1.0 + 1e-9),
                            "{}, tree {}: {class:?} {bytes} of {most} B",
                            self.info.name,
                            self.seed
                        );
                    }
                    to_f64(&fairness.bytes_per_weight.value)
                }
                // Behind a transmit queue only delays are promised.
                _ if self.tree.link().transmit_queue.is_some() => continue,
                (Some(Kind::Clocks(_)), None) => {
                    let [Some(of_one), Some(of_other)] = [one, other].map(|class| self.slacks[class.index()]) else {
                        continue;
                    };
                    let parent = self.tree.parent(one).expect("a sibling");
                    let all = self.tree.children_weight(parent) as f64;
                    of_one / share(one) + of_other / share(other) - 2.0 * f64::from(LINK.1) / all
                }
                (Some(Kind::PacketEach), None) => f64::from(LINK.1) / share(one) + f64::from(LINK.1) / share(other),
                _ => continue,
            };
            self.closest = self.closest.max((*high - *low) / limit);
            assert!(
                *high - *low <= limit * (1.0 + 1e-9),
                "{}, tree {}: {one:?} and {other:?} are {} of {limit} apart\n{:#?}",
                self.info.name,
                self.seed,
                *high - *low,
                self.tree
            );
        }
    }
}

/// Watches W_i(t1, t2) >= (rho_i / r) W(t1, t2) - index.
pub(crate) struct WorstCase<'a> {
    name: &'a str,
    seed: u64,
    tree: &'a Hierarchy,
    /// By class: the index; the lead of the class over its share, and its maximum since it is backlogged.
    classes: Vec<Option<(f64, f64, Option<f64>)>>,
    backlog: Vec<u64>,
}

impl<'a> WorstCase<'a> {
    pub(crate) fn new(name: &'a str, seed: u64, tree: &'a Hierarchy, promised: &Promised) -> Self {
        let index = |index: &Option<num_rational::BigRational>| Some((to_f64(index.as_ref()?), 0.0, None));
        Self {
            name,
            seed,
            tree,
            classes: promised.worst_case.iter().map(index).collect(),
            backlog: vec![0; tree.len()],
        }
    }

    pub(crate) fn arrived(&mut self, leaf: ClassId) {
        for class in path(self.tree, leaf) {
            self.backlog[class.index()] += 1;
        }
    }

    pub(crate) fn gone(&mut self, leaf: ClassId) {
        for class in path(self.tree, leaf) {
            self.backlog[class.index()] -= 1;
        }
    }

    pub(crate) fn sent(&mut self, packet: &Packet) {
        for class in self.tree.classes() {
            let share = self.tree.share_all_busy(class) as f64 / (1u128 << 64) as f64;
            if let Some((_, ahead, _)) = &mut self.classes[class.index()] {
                *ahead -= share * f64::from(packet.len);
            }
        }
        for class in path(self.tree, packet.class) {
            if let Some((_, ahead, _)) = &mut self.classes[class.index()] {
                *ahead += f64::from(packet.len);
            }
        }
        self.look();
        for class in path(self.tree, packet.class) {
            self.backlog[class.index()] -= 1;
        }
    }

    pub(crate) fn look(&mut self) {
        for class in self.tree.classes() {
            let Some((index, ahead, most)) = &mut self.classes[class.index()] else { continue };
            if self.backlog[class.index()] == 0 {
                *most = None;
                continue;
            }
            let highest = most.map_or(*ahead, |most: f64| most.max(*ahead));
            *most = Some(highest);
            assert!(
                highest - *ahead <= *index * (1.0 + 1e-9) + 1e-3,
                "{}, tree {}: {class:?} is {} of {index} B behind\n{:#?}",
                self.name,
                self.seed,
                highest - *ahead,
                self.tree
            );
        }
    }
}

/// Watches the time from any instant at which a leaf is backlogged until its next packet has left. It is longest from
/// the instant at which the packet before left the queue, or at which the leaf became backlogged.
pub(crate) struct NextPacket<'a> {
    name: &'a str,
    seed: u64,
    tree: &'a Hierarchy,
    /// By class, the bound in seconds.
    bounds: Vec<Option<f64>>,
    backlog: Vec<u64>,
    since: Vec<Nanos>,
    /// The largest part of a bound that was used: of other leaves than latency-critical ones, and of these.
    pub(crate) closest: [f64; 2],
}

impl<'a> NextPacket<'a> {
    pub(crate) fn new(name: &'a str, seed: u64, tree: &'a Hierarchy, promised: &Promised) -> Self {
        let bounds = promised.transmission_gap.as_ref().map(|gap| gap.next_packets.clone()).unwrap_or_default();
        let (backlog, since) = (vec![0; tree.len()], vec![Nanos::ZERO; tree.len()]);
        Self { name, seed, tree, bounds, backlog, since, closest: [0.0; 2] }
    }

    pub(crate) fn arrived(&mut self, leaf: ClassId, now: Nanos) {
        let index = leaf.index();
        if self.backlog[index] == 0 {
            self.since[index] = now;
        }
        self.backlog[index] += 1;
    }

    /// A packet of `leaf` was dropped from its queue.
    pub(crate) fn gone(&mut self, leaf: ClassId) {
        self.backlog[leaf.index()] -= 1;
    }

    /// `packet` has left the queue at `now`, and the link at `end`.
    pub(crate) fn sent(&mut self, packet: &Packet, now: Nanos, end: Nanos) {
        let index = packet.class.index();
        self.backlog[index] -= 1;
        let took = (end - self.since[index]).0 as f64 / 1e9;
        self.since[index] = now;
        let Some(bound) = self.bounds.get(index).copied().flatten() else { return };
        // A link sends a packet in whole nanoseconds, rounded up.
        assert!(
            took <= bound * (1.0 + 1e-6),
            "{}, tree {}: {:?} waited {took} s of {bound} s for a packet\n{:#?}",
            self.name,
            self.seed,
            packet.class,
            self.tree
        );
        let closest = &mut self.closest[usize::from(self.tree.config(packet.class).latency_critical)];
        *closest = closest.max(took / bound);
    }
}
