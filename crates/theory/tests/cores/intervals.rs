//! The guarantee, the delay and the interface of a shared tree, attacked in every interval: also in those that begin
//! amid a backlog, when a leaf is ahead of its turn by what it has sent out of it.
//!
//! Random trees, cores, passes, limits and traffic. The link is a queue of packets, which carries them one by one. A
//! worker has room for all in each pass. A short suite by default; `FAIRLINK_TREES=20000` runs that many trees.

use std::collections::VecDeque;

use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, LinkConfig, Nanos, Packet, Rate, Scheduler, Share, SharedConfig, SharedTree,
};
use fairlink_theory::cores::{CoresBounds, SharedLimits};
use fairlink_theory::to_f64;

use crate::scenarios::{LEN, Random, none};

/// The largest parts of bounds that were used.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    guarantee: f64,
    /// The same in intervals in which a class above the leaf may go off. There is no bound: it may be more than 1.
    although_off: f64,
    delay: f64,
    interface: f64,
}

impl Used {
    fn max(self, other: Self) -> Self {
        Self {
            guarantee: self.guarantee.max(other.guarantee),
            although_off: self.although_off.max(other.although_off),
            delay: self.delay.max(other.delay),
            interface: self.interface.max(other.interface),
        }
    }
}

/// The largest growth of a leaf's lag over any interval in which a condition holds.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    least: Option<f64>,
    most: f64,
}

impl Growth {
    /// Looks at the lag of now.
    fn look(&mut self, lag: f64) {
        if let Some(least) = &mut self.least {
            *least = least.min(lag);
            self.most = self.most.max(lag - *least);
        }
    }

    /// Sets if the condition holds from now on.
    fn holds(&mut self, holds: bool, lag: f64) {
        self.look(lag);
        self.least = self.least.filter(|_| holds).or(holds.then_some(lag));
    }
}

/// Service, queue and delay of a leaf so far.
#[derive(Clone, Debug, Default)]
struct Seen {
    share: f64,
    got: f64,
    /// While it has packets and the classes above it are on, and while it has packets.
    growths: [Growth; 2],
    /// Arrivals of the packets in its queue, and on the wire, and true if the classes above it have been on since.
    queued: VecDeque<(u64, bool)>,
    /// True if the classes above it have been on since its queue was empty.
    is_clean: bool,
    /// Longest delay.
    delay: u64,
}

/// Tree, cores and passes of a run.
struct Setup {
    tree: Hierarchy,
    config: SharedConfig,
    ns_per_byte: u64,
    /// By leaf, its worker.
    home: Vec<usize>,
    /// By worker, its first pass.
    first: Vec<u64>,
    /// The longest time between two passes, in ns.
    pass: u64,
    /// Number of passes of all workers.
    passes: usize,
}

/// Packets on the wire, and what the link has carried.
#[derive(Default)]
struct Wire {
    /// Leaf, bytes, arrival if its delay counts, time at which it was sent.
    packets: VecDeque<(usize, u32, Option<u64>, u64)>,
    free: u64,
    /// Bytes of the first one that were carried.
    part: f64,
    carried: f64,
}

impl Wire {
    /// Carries packets up to `to`.
    fn advance(&mut self, to: u64, ns_per_byte: u64, leaves: &mut [Seen]) {
        while let Some(&(leaf, len, arrived, sent)) = self.packets.front() {
            self.free = self.free.max(sent);
            if self.free >= to {
                return;
            }
            let lag = |seen: &Seen, carried: f64| seen.share * carried - seen.got;
            let seen = &mut leaves[leaf];
            // Before its packet, a lag is largest.
            let now = lag(seen, self.carried);
            seen.growths.iter_mut().for_each(|growth| growth.look(now));
            let left = f64::from(len) - self.part;
            let bytes = left.min((to - self.free) as f64 / ns_per_byte as f64);
            (self.carried, seen.got, self.part) = (self.carried + bytes, seen.got + bytes, self.part + bytes);
            let now = lag(seen, self.carried);
            seen.growths.iter_mut().for_each(|growth| growth.look(now));
            if bytes < left {
                self.free = to;
                return;
            }
            self.free += (left * ns_per_byte as f64).round() as u64;
            self.part = 0.0;
            self.packets.pop_front();
            if let Some(arrived) = arrived {
                seen.delay = seen.delay.max(self.free - arrived);
            }
        }
    }

    fn bytes(&self) -> f64 {
        self.packets.iter().map(|&(_, len, ..)| f64::from(len)).sum::<f64>() - self.part
    }
}

/// Returns true if a child of the link and all classes above `leaf` are on.
fn are_on_above(shared: &SharedTree, tree: &Hierarchy, leaf: ClassId) -> bool {
    let above = std::iter::successors(tree.parent(leaf), |&class| tree.parent(class));
    above.clone().all(|class| shared.is_on(class))
        && tree.children(ClassId::ROOT).iter().any(|&child| shared.is_on(child))
}

/// Number and length of the packets that come, for a leaf's number, the time, and the packets in its queue.
type Arrivals<'a> = &'a mut dyn FnMut(&mut Random, usize, u64, u64) -> (u64, u32);

/// Plays `setup`. Each time before a worker's pass, `arrive` says for each leaf what comes. `bursts`: by leaf, the bytes
/// beyond its guarantee that its arrivals keep to, if they do.
fn play(setup: &Setup, random: &mut Random, bursts: &[Option<u64>], arrive: Arrivals<'_>) -> Used {
    let Setup { tree, config, ns_per_byte, home, first, pass, passes } = setup;
    let leaves = tree.leaves();
    let shared = SharedTree::new(tree.clone(), *config).unwrap();
    let mut workers: Vec<_> = first.iter().map(|_| shared.worker().unwrap()).collect();
    let mut next = first.clone();
    let is_regular = random.below(2) == 0;
    let whole = 2f64.powi(64);
    let share = |leaf: &ClassId| tree.share_all_busy(*leaf) as f64 / whole;
    let mut seen: Vec<Seen> = leaves.iter().map(|leaf| Seen { share: share(leaf), ..Seen::default() }).collect();
    let mut wire = Wire::default();
    let mut out: Vec<Packet> = Vec::with_capacity(1 << 14);
    let (mut most_credit, mut most_unsent) = (0i64, 0.0f64);
    for _ in 0..*passes {
        let core = (0..next.len()).min_by_key(|&core| next[core]).unwrap();
        let now = next[core];
        wire.advance(now, *ns_per_byte, &mut seen);
        for leaf in 0..leaves.len() {
            let worker = &mut workers[home[leaf]];
            let queued = worker.class_backlog(leaves[leaf]).packets;
            let (count, len) = arrive(random, leaf, now, queued);
            for _ in 0..count {
                worker.enqueue(Nanos(now), Packet { handle: leaf as u64, len, class: leaves[leaf] }, &mut none);
                let clean = are_on_above(&shared, tree, leaves[leaf]);
                let seen = &mut seen[leaf];
                seen.is_clean = clean && (seen.is_clean || seen.queued.is_empty());
                seen.queued.push_back((now, seen.is_clean));
            }
        }
        let holds = |seen: &mut [Seen], workers: &[fairlink_core::Worker], carried: f64| {
            for (leaf, seen) in seen.iter_mut().enumerate() {
                let has_packets = workers[home[leaf]].class_backlog(leaves[leaf]).packets > 0;
                let are_on = are_on_above(&shared, tree, leaves[leaf]);
                seen.is_clean &= are_on;
                let lag = seen.share * carried - seen.got;
                seen.growths[0].holds(has_packets && are_on, lag);
                seen.growths[1].holds(has_packets, lag);
            }
        };
        holds(&mut seen, &workers, wire.carried);
        let _ = workers[core].dequeue_batch(Nanos(now), 1 << 14, u64::MAX, &mut out, &mut none);
        let sent: u64 = out.iter().map(|packet| u64::from(packet.len)).sum();
        most_credit = most_credit.max(shared.credit(ClassId::ROOT) + sent as i64);
        for packet in out.drain(..) {
            let leaf = packet.handle as usize;
            let (arrived, was_clean) = seen[leaf].queued.pop_front().unwrap();
            let counts = was_clean && seen[leaf].is_clean && bursts[leaf].is_some();
            wire.packets.push_back((leaf, packet.len, counts.then_some(arrived), now));
        }
        holds(&mut seen, &workers, wire.carried);
        most_unsent = most_unsent.max(wire.bytes());
        let later = if is_regular { *pass } else { 1 + random.below(*pass as usize) as u64 };
        next[core] = now + later;
    }
    let limits = SharedLimits {
        workers: first.len() as u32,
        pass: Nanos(*pass),
        // A call counts what it has sent at its end, and R moves in no other meanwhile.
        batch: 0,
        mark: config.mark,
        credit: config.credit,
        ahead: config.ahead,
        late: u64::try_from(most_credit).unwrap_or(0).saturating_sub(config.credit),
    };
    let bounds = CoresBounds::new(tree, limits);
    let mut used = Used { interface: most_unsent / bounds.interface() as f64, ..Used::default() };
    for (leaf, seen) in seen.iter().enumerate() {
        let bound = to_f64(&bounds.guarantee_lag(leaves[leaf]));
        used.guarantee = used.guarantee.max(seen.growths[0].most / bound);
        used.although_off = used.although_off.max(seen.growths[1].most / bound);
        if let Some(burst) = bursts[leaf] {
            used.delay = used.delay.max(seen.delay as f64 / 1e9 / to_f64(&bounds.delay(leaves[leaf], burst)));
        }
    }
    used
}

/// How a leaf sends.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Its queue never empties.
    Greedy,
    /// Idle, then what may leave out of turn, then more than it may send, and again.
    Ahead { until: u64, step: u8 },
    /// It sends up to `most` packets at once, at random times.
    Bursts { most: u64 },
    /// No more than a burst beyond its guarantee, as early as possible: tokens in bytes, and when they were counted.
    Keeps { tokens: f64, at: u64 },
    /// Greedy and idle in turn.
    Turns { until: u64, is_on: bool },
    /// It sends as much as may leave out of turn, whenever its queue is empty.
    Again,
    /// Two small packets at once, as soon as they have left: on and off in turn.
    Pairs,
}

/// A random tree of up to four levels, on a link of 1 Gbit/s, of which a byte takes 8 ns.
fn random_tree(random: &mut Random) -> Hierarchy {
    let rate = Rate::from_bps(1_000_000_000).unwrap();
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: LEN, ..LinkConfig::new(rate) });
    let most = [1, 10, 300, 100_000][random.below(4)];
    let (deepest, widest) = (1 + random.below(4), 1 + random.below(12));
    let mut open = vec![(ClassId::ROOT, 1)];
    let mut count = 0;
    while let Some((parent, level)) = open.pop() {
        for _ in 0..2 + random.below(widest) {
            let share = Some(Share::Weight(1 + random.below(most) as u64));
            let class = tree.add(parent, ClassConfig { share, ..ClassConfig::default() }).unwrap();
            count += 1;
            if level < deepest && count < 30 && random.below(3) == 0 {
                open.push((class, level + 1));
            }
        }
    }
    tree.build().unwrap()
}

/// Plays one random tree with random traffic.
fn one(seed: u64) -> Used {
    let mut random = Random::new(0x1D1E ^ seed);
    let tree = random_tree(&mut random);
    let leaves = tree.leaves().len();
    let cores = 1 + random.below(5);
    let pass = 500 + random.below(40_000) as u64;
    let bytes = pass / 8;
    let packets = |random: &mut Random, most: usize| (1 + random.below(most)) as u64 * u64::from(LEN);
    let config = SharedConfig {
        mark: 2 * bytes + packets(&mut random, 8),
        credit: 2 * bytes + packets(&mut random, 16),
        stored: 1 << 40,
        ahead: [0, 4 * u64::from(LEN), packets(&mut random, 30)][random.below(3)],
    };
    let busy = random.below(8);
    let mut habits: Vec<Habit> = (0..leaves)
        .map(|_| match random.below(6 + busy) {
            0 => Habit::Ahead { until: 0, step: 0 },
            1 => Habit::Bursts { most: 1 + random.below(2 + (config.ahead / u64::from(LEN)) as usize) as u64 },
            2 => Habit::Keeps { tokens: 0.0, at: 0 },
            3 => Habit::Turns { until: 0, is_on: false },
            4 => Habit::Again,
            5 => Habit::Pairs,
            _ => Habit::Greedy,
        })
        .collect();
    let burst = packets(&mut random, 4);
    // True if packets have any length.
    let lens = random.below(3) == 0;
    let bursts: Vec<Option<u64>> =
        habits.iter().map(|habit| matches!(habit, Habit::Keeps { .. }).then_some(burst)).collect();
    let guarantees: Vec<f64> = tree.leaves().iter().map(|&leaf| tree.rate_all_busy(leaf) as f64 / 8e9).collect();
    let setup = Setup {
        config,
        ns_per_byte: 8,
        home: (0..leaves).map(|_| random.below(cores)).collect(),
        first: (0..cores).map(|_| random.below(pass as usize) as u64).collect(),
        pass,
        passes: 4000,
        tree,
    };
    // Times to the next change: about what the leaf needs to pay what it has sent out of turn.
    let ahead = config.ahead.max(LEN.into()) as f64;
    let wait = |random: &mut Random, leaf: usize| {
        let ns = (ahead / guarantees[leaf]).min(setup.pass as f64 * 300.0) as usize;
        1 + random.below(2 * ns + 2) as u64
    };
    let keep = 8 + (config.ahead + config.credit) / u64::from(LEN);
    play(&setup, &mut random, &bursts, &mut |random, leaf, now, queued| {
        let fill = keep.saturating_sub(queued);
        let count = match &mut habits[leaf] {
            Habit::Greedy => fill,
            Habit::Ahead { until, step } => match *step {
                // Idle, with what comes once.
                0 if now >= *until => {
                    *step = 1;
                    (config.ahead / u64::from(LEN)).max(1)
                }
                1 if queued == 0 => {
                    (*step, *until) = (2, now + wait(random, leaf));
                    keep
                }
                2 if now < *until => fill,
                2 if queued == 0 => {
                    (*step, *until) = (0, now + wait(random, leaf));
                    0
                }
                _ => 0,
            },
            Habit::Bursts { most } => {
                // Its queue has room for 1,000.
                if random.below(60) == 0 && queued < 400 { 1 + random.below(*most as usize) as u64 } else { 0 }
            }
            Habit::Keeps { tokens, at } => {
                *tokens = (*tokens + guarantees[leaf] * (now - *at) as f64).min(burst as f64);
                *at = now;
                let saves = random.below(20) > 0 && *tokens < burst as f64;
                let count = if saves { 0 } else { (*tokens / f64::from(LEN)) as u64 };
                *tokens -= (count * u64::from(LEN)) as f64;
                count
            }
            Habit::Turns { until, is_on } => {
                if now >= *until {
                    (*until, *is_on) = (now + wait(random, leaf), !*is_on);
                }
                if *is_on { fill } else { 0 }
            }
            Habit::Again if queued == 0 => (config.ahead / u64::from(LEN)).max(1),
            Habit::Pairs if queued == 0 => 2,
            Habit::Again | Habit::Pairs => 0,
        };
        let len = match habits[leaf] {
            Habit::Pairs => 64,
            Habit::Keeps { .. } | Habit::Ahead { .. } => LEN,
            _ if lens => 64 + random.below(1437) as u32,
            _ => LEN,
        };
        (count, len)
    })
}

fn trees(default: u64) -> u64 {
    std::env::var("FAIRLINK_TREES").ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

#[test]
fn a_guarantee_holds_in_every_interval_also_in_one_that_begins_amid_a_backlog() {
    let mut used = Used::default();
    for seed in 0..trees(100) {
        let one = one(seed);
        assert!(one.guarantee <= 1.0 && one.delay <= 1.0 && one.interface <= 1.0, "tree {seed}: {one:?}");
        used = used.max(one);
    }
    println!("largest parts of bounds that were used in {} trees: {used:?}", trees(100));
    assert!(used.guarantee > 0.3 && used.delay > 0.1 && used.interface > 0.3, "{used:?}");
}

/// A leaf with half of 1 Gbit/s, on one core. 24 others each send 45,000 B out of turn, when what the one before has sent
/// has just been paid: virtual time stands still most of the time. The leaf, which is on all the time, is 497 kB below
/// its guarantee in the end.
#[test]
fn siblings_may_send_out_of_turn_one_after_the_other() {
    const OTHERS: u64 = 24;
    let rate = Rate::from_bps(1_000_000_000).unwrap();
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: LEN, ..LinkConfig::new(rate) });
    for leaf in 0..=OTHERS {
        let share = Some(Share::Weight(if leaf == 0 { OTHERS } else { 1 }));
        tree.add(ClassId::ROOT, ClassConfig { share, ..ClassConfig::default() }).unwrap();
    }
    let len = u64::from(LEN);
    let setup = Setup {
        tree: tree.build().unwrap(),
        config: SharedConfig { mark: 2 * len, credit: 2 * len, stored: 1 << 40, ahead: 30 * len },
        ns_per_byte: 8,
        home: vec![0; OTHERS as usize + 1],
        first: vec![0],
        pass: 2_000,
        passes: 12_000,
    };
    let mut has_sent = [false; OTHERS as usize + 1];
    let used = play(&setup, &mut Random::new(2), &[None; OTHERS as usize + 1], &mut |_, leaf, now, queued| {
        if leaf == 0 {
            return (100u64.saturating_sub(queued), LEN);
        }
        // 360 us are on the link, and time passes by up to an eighth slower meanwhile.
        let is_time = now >= 1_000_000 + leaf as u64 * 390_000;
        let count = if is_time && !has_sent[leaf] { 30 } else { 0 };
        has_sent[leaf] |= is_time;
        (count, LEN)
    });
    println!("{used:?}");
    assert!((0.3..=1.0).contains(&used.guarantee), "{used:?}");
}

/// 1 and 99 of 100 Mbit/s on two cores. The small leaf sends four packets out of turn. Then it has packets for as long
/// as that is more than its guarantee, and gets none.
#[test]
fn a_small_leaf_pays_for_what_it_has_sent_out_of_turn() {
    let link = LinkConfig::new(Rate::from_bps(100_000_000).unwrap());
    let mut tree = Hierarchy::builder(link);
    for weight in [1, 99] {
        let share = Some(Share::Weight(weight));
        tree.add(ClassId::ROOT, ClassConfig { share, ..ClassConfig::default() }).unwrap();
    }
    let pass = Nanos::from_micros(10);
    let setup = Setup {
        tree: tree.build().unwrap(),
        config: SharedConfig::for_passes(&link, pass),
        ns_per_byte: 80,
        home: vec![0, 1],
        first: vec![0, 5_000],
        pass: pass.0,
        passes: 200_000,
    };
    let mut came = [0u64; 2];
    // Packets of 1500 B at 20 and at 200 Mbit/s; the small leaf's come four at a time.
    let used = play(&setup, &mut Random::new(1), &[None, None], &mut |_, leaf, now, queued| {
        let due = [now / 2_400_000 * 4, now / 60_000][leaf];
        let count = due.saturating_sub(came[leaf]);
        came[leaf] = due;
        (count.min(1000u64.saturating_sub(queued)), LEN)
    });
    println!("{used:?}");
    assert!((0.5..=1.0).contains(&used.guarantee), "{used:?}");
}
