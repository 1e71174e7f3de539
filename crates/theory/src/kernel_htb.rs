//! The Linux kernel's HTB, packet by packet: its order of packets. Written from a description of its
//! behaviour; nothing of its code is used. The rates before an import are measured with it; `scripts/oracle-htb` compares it with the
//! kernel on real packets. It is no scheduler for links: use `htb`, which follows the texts.
//!
//! Different from `htb` are:
//!
//! - **Small quanta.** A visit sends a packet as soon as a deficit is not negative, and a negative deficit grows by one
//!   quantum. A visit never waits for several quanta. So a leaf whose quantum is below its packets sends one packet per
//!   visit, and a deficit that falls without limit. `htb` scales quanta up until the smallest covers a packet.
//! - **One turn for several lenders.** A class has one cursor over the children that borrow from it, for its own lending
//!   and for that of all classes above. Behind the last child the cursor returns to the first, and the class above
//!   continues with the next class.
//! - **Ceilings of classes above.** A class sends within its own rate even if a class above is at its ceiling.
//! - **Tokens.** A class that borrows keeps its own tokens. While it does, they may exceed the burst. Debt beyond a
//!   minute is forgiven. Deficits of a leaf outlast its backlog.
//! - **Levels.** Classes with others below them have levels by their distance from the link, so that of two lenders the
//!   one further from the link goes first.
//!
//! The link is a class with its rate as rate and ceiling, above all others. It paces packets, and the device below is
//! faster. So leaves within their rates do not wait for others, and lose no tokens of a small burst.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use fairlink_core::schedulers::htb::Plan;
use fairlink_core::{
    Amount, BuildError, ClassId, Dequeued, DropReason, DropSink, Hierarchy, LinkConfig, NANOS_PER_SEC, Nanos, Packet,
    Rate, Scheduler,
};

use crate::steady::{self, Steady};
use crate::variant::variant;

/// Name of the model in reports.
pub const NAME: &str = "kernel-htb";
/// The kernel's default for HTB's `r2q`: a quantum is the rate in bytes per second divided by it.
pub const R2Q: u64 = 10;
/// Smallest quantum that the kernel derives from a rate, in bytes.
pub const MIN_QUANTUM: u64 = 1_000;
/// Largest quantum that the kernel derives from a rate, in bytes.
pub const MAX_QUANTUM: u64 = 200_000;
/// Time after which debt is forgiven, and which an idle class is credited for at most.
const FORGIVEN: u64 = 60 * NANOS_PER_SEC;
/// Tokens of a byte, in billionths of a bit.
const BYTE: i128 = 8 * NANOS_PER_SEC as i128;

/// Returns the quantum that the kernel derives from a rate in bit/s.
#[must_use]
pub fn default_quantum(bps: u64, r2q: u64) -> u64 {
    (bps / 8 / r2q.max(1)).clamp(MIN_QUANTUM, MAX_QUANTUM)
}

/// Returns tc's default burst in bytes: 1600, plus the bytes of the rate in a tick of the kernel's clock, 1 ns.
#[must_use]
pub const fn default_burst(bps: u64) -> u64 {
    1600 + bps / 8 / NANOS_PER_SEC
}

/// Speed of the device below HTB as a multiple of the link's rate, so that HTB alone sets the pace.
const DEVICE: u64 = 16;

/// As [`steady::steady`], for the kernel's HTB on a device that is faster than the link.
///
/// # Errors
/// [`BuildError`] if the tree is none for HTB.
pub fn steady(tree: &Hierarchy, busy: &[ClassId], length: u32, [first, most]: [u64; 2]) -> Result<Steady, BuildError> {
    let mut htb = KernelHtb::new(tree)?;
    let rate = tree.link().rate.bps();
    let device = Rate::from_bps(rate.saturating_mul(DEVICE)).unwrap_or(Rate::MAX);
    let fast = variant(tree, LinkConfig { rate: device, ..tree.link() }, |_, _| {});
    let fast = fast.expect("a valid tree is valid on a faster link");
    let times = (device.bps() / rate).max(1);
    steady::settle(&mut htb, &fast, busy, length, [first.saturating_mul(times), most])
}

/// Number of priorities.
const PRIORITIES: u8 = 8;

/// Permission of a class to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Within its rate.
    Sends,
    /// Within its ceiling only.
    Borrows,
    /// Above its ceiling.
    Waits,
}

/// Tokens in billionths of a bit, as of the last packet.
#[derive(Clone, Copy, Debug)]
struct Tokens {
    bps: i128,
    burst: i128,
    level: i128,
}

impl Tokens {
    fn new(bps: u64, burst: u64) -> Self {
        let burst = i128::from(burst) * BYTE;
        Self { bps: bps.into(), burst, level: burst }
    }

    /// Adds the yield of `elapsed` nanoseconds, and takes `len` bytes.
    fn account(&mut self, elapsed: u64, len: u32) {
        let level = (self.level + self.bps * i128::from(elapsed)).min(self.burst) - i128::from(len) * BYTE;
        self.level = level.max(1 - self.bps * i128::from(FORGIVEN));
    }

    /// Nanoseconds until there is no debt, `elapsed` nanoseconds after the last packet; zero if there is none.
    fn wait(&self, elapsed: u64) -> u64 {
        let level = self.level + self.bps * i128::from(elapsed);
        if level >= 0 { 0 } else { u64::try_from((-level + self.bps - 1) / self.bps).unwrap_or(u64::MAX) }
    }
}

/// Classes of one priority that take turns.
#[derive(Clone, Debug, Default)]
struct Ring {
    members: BTreeSet<u32>,
    /// The next turn is that of the first member from this number on; behind the last member the ring is at its end.
    cursor: Option<u32>,
}

impl Ring {
    fn current(&self) -> Option<u32> {
        self.members.range(self.cursor?..).next().copied()
    }

    fn advance(&mut self) {
        self.cursor =
            self.current().and_then(|at| at.checked_add(1)).filter(|&from| self.members.range(from..).next().is_some());
    }

    fn rewind(&mut self) {
        self.cursor = self.members.first().copied();
    }
}

#[derive(Debug)]
struct Class {
    parent: Option<u32>,
    level: usize,
    rate: Tokens,
    /// None without a ceiling.
    ceiling: Option<Tokens>,
    mode: Mode,
    /// Time of the last packet.
    updated: Nanos,
    /// Time at which the mode is looked at again; none if it sends within its rate.
    due: Option<Nanos>,
    /// Inner classes: the children that borrow from it, by priority.
    borrowers: Vec<Ring>,
    /// Leaves.
    queue: VecDeque<Packet>,
    limit: usize,
    bytes: u64,
    priority: u8,
    quantum: i64,
    /// By level of the lender.
    deficits: Vec<i64>,
}

impl Class {
    /// Returns the mode at `now`, and the time until it may be another.
    fn mode_at(&self, now: Nanos) -> (Mode, u64) {
        let elapsed = (now - self.updated).0.min(FORGIVEN);
        let above = self.ceiling.map_or(0, |ceiling| ceiling.wait(elapsed));
        let wait = self.rate.wait(elapsed);
        match (above, wait) {
            (0, 0) => (Mode::Sends, 0),
            (0, _) => (Mode::Borrows, wait),
            _ => (Mode::Waits, above),
        }
    }

    /// Returns the priorities that it has packets of, as bits.
    fn active(&self) -> u8 {
        if self.level == 0 {
            return u8::from(!self.queue.is_empty()) << self.priority;
        }
        let of = |(priority, ring): (usize, &Ring)| u8::from(!ring.members.is_empty()) << priority;
        self.borrowers.iter().enumerate().map(of).sum()
    }
}

/// The kernel's HTB.
#[derive(Debug)]
struct KernelHtb {
    classes: Vec<Class>,
    /// By level, the rings of classes that send within their rates, by priority.
    rows: Vec<Vec<Ring>>,
    /// By level, the classes that wait for another mode, by time.
    waiting: Vec<BTreeSet<(Nanos, u32)>>,
    max_packet: u32,
    backlog: Amount,
}

impl KernelHtb {
    fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        let plan = Plan::for_tree(tree)?;
        let inner = |class: ClassId| !tree.is_leaf(class);
        let all = || (0..tree.len() as u32).map(ClassId);
        let depth = all().filter(|&class| inner(class)).map(|class| tree.depth(class)).max().unwrap_or(0);
        let levels = depth + 2;
        let rings = || vec![Ring::default(); PRIORITIES.into()];
        let class = |id: ClassId| {
            let (config, rate) = (tree.config(id), plan.assured[id.index()].bps());
            let ceiling = config.ceiling.map(Rate::bps).or((id == ClassId::ROOT).then_some(rate));
            let depth_of = |bps: u64, set: Option<u64>| Tokens::new(bps, set.unwrap_or_else(|| default_burst(bps)));
            let quantum = config.quantum.map_or_else(|| default_quantum(rate, R2Q), u64::from);
            Class {
                parent: tree.parent(id).map(|parent| parent.0),
                level: if inner(id) { depth + 1 - tree.depth(id) } else { 0 },
                rate: depth_of(rate, config.burst),
                ceiling: ceiling.map(|bps| depth_of(bps, config.ceiling_burst)),
                mode: Mode::Sends,
                updated: Nanos::ZERO,
                due: None,
                borrowers: if inner(id) { rings() } else { Vec::new() },
                queue: VecDeque::new(),
                limit: config.limits.packets as usize,
                bytes: 0,
                priority: plan.priorities[id.index()],
                quantum: quantum as i64,
                deficits: vec![0; if inner(id) { 0 } else { levels }],
            }
        };
        Ok(Self {
            classes: all().map(class).collect(),
            rows: vec![rings(); levels],
            waiting: vec![BTreeSet::new(); levels],
            max_packet: tree.link().max_packet,
            backlog: Amount::default(),
        })
    }

    /// Makes `class` take part with the priorities `active`, and the classes above that it brings in.
    fn join(&mut self, class: u32, active: u8) {
        self.pass_up(class, active, |ring, class, _| {
            let first = ring.members.is_empty();
            ring.members.insert(class);
            first
        });
    }

    /// Takes `class` out with the priorities `active`, and the classes above that have nothing else.
    fn leave(&mut self, class: u32, active: u8) {
        self.pass_up(class, active, |ring, class, in_row| {
            if in_row && ring.current() == Some(class) {
                ring.advance();
            }
            ring.members.remove(&class);
            ring.members.is_empty()
        });
    }

    /// Calls `change` with `class` and the ring of each priority of `active`: of its row, or of the class that it
    /// borrows from. There it continues with the priorities for which `change` returned true. The last argument of
    /// `change` is true in a row.
    fn pass_up(&mut self, mut class: u32, mut active: u8, mut change: impl FnMut(&mut Ring, u32, bool) -> bool) {
        while active != 0 {
            let &Class { mode, parent, level, .. } = &self.classes[class as usize];
            let rings = match (mode, parent) {
                (Mode::Sends, _) => &mut self.rows[level],
                (Mode::Borrows, Some(parent)) => &mut self.classes[parent as usize].borrowers,
                _ => return,
            };
            for (priority, ring) in rings.iter_mut().enumerate() {
                let bit = 1 << priority;
                if active & bit != 0 && !change(ring, class, mode == Mode::Sends) {
                    active -= bit;
                }
            }
            let (Mode::Borrows, Some(parent)) = (mode, parent) else { return };
            class = parent;
        }
    }

    /// Brings the mode of `class` up to `now`, and notes when to look again: at a new mode, or if `again`.
    fn update(&mut self, class: u32, now: Nanos, again: bool) {
        let known = &self.classes[class as usize];
        let (before, level, active, due) = (known.mode, known.level, known.active(), known.due);
        let (mode, wait) = known.mode_at(now);
        if mode != before {
            self.leave(class, active);
            self.classes[class as usize].mode = mode;
            self.join(class, active);
        } else if !again {
            return;
        }
        if let Some(due) = due {
            self.waiting[level].remove(&(due, class));
        }
        let due = (mode != Mode::Sends).then(|| now.saturating_add(Nanos(wait.max(1))));
        self.classes[class as usize].due = due;
        if let Some(due) = due {
            self.waiting[level].insert((due, class));
        }
    }

    /// Returns the ring of `priority` below `class`, or of the row of `level`.
    fn ring(&mut self, class: Option<u32>, level: usize, priority: usize) -> &mut Ring {
        let rings = match class {
            Some(class) => &mut self.classes[class as usize].borrowers,
            None => &mut self.rows[level],
        };
        &mut rings[priority]
    }

    /// Returns the leaf whose turn it is in the row of `level` and `priority`.
    fn find(&mut self, level: usize, priority: usize) -> Option<u32> {
        let mut path: Vec<u32> = Vec::new();
        loop {
            let ring = self.ring(path.last().copied(), level, priority);
            if let Some(class) = ring.current() {
                if self.classes[class as usize].level == 0 {
                    return Some(class);
                }
                path.push(class);
            } else if ring.members.is_empty() {
                return None;
            } else {
                ring.rewind();
                if path.pop().is_some() {
                    self.ring(path.last().copied(), level, priority).advance();
                }
            }
        }
    }

    fn send(&mut self, leaf: u32, level: usize, now: Nanos) -> Packet {
        let known = &mut self.classes[leaf as usize];
        let (priority, parent) = (known.priority, known.parent);
        let packet = known.queue.pop_front().expect("a leaf in a ring has packets");
        let len = packet.len;
        known.bytes -= u64::from(len);
        self.backlog = Amount { packets: self.backlog.packets - 1, bytes: self.backlog.bytes - u64::from(len) };
        known.deficits[level] -= i64::from(len);
        let ends = known.deficits[level] < 0;
        if ends {
            known.deficits[level] += known.quantum;
        }
        let empty = known.queue.is_empty();
        if ends {
            self.ring(parent.filter(|_| level > 0), 0, priority.into()).advance();
        }
        if empty {
            self.leave(leaf, 1 << priority);
        }
        let mut next = Some(leaf);
        while let Some(class) = next {
            let known = &mut self.classes[class as usize];
            let elapsed = (now - known.updated).0.min(FORGIVEN);
            if known.level >= level {
                known.rate.account(elapsed, len);
            } else {
                known.rate.level += known.rate.bps * i128::from(elapsed);
            }
            if let Some(ceiling) = &mut known.ceiling {
                ceiling.account(elapsed, len);
            }
            known.updated = now;
            next = known.parent;
            self.update(class, now, false);
        }
        packet
    }
}

impl Scheduler for KernelHtb {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let Some(leaf) = self.classes.get_mut(packet.class.index()).filter(|class| class.level == 0) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        if leaf.queue.len() >= leaf.limit {
            return drops.dropped(now, packet, DropReason::QueuePackets);
        }
        let (class, len) = (packet.class.0, u64::from(packet.len));
        leaf.queue.push_back(packet);
        leaf.bytes += len;
        let (first, priority) = (leaf.queue.len() == 1, leaf.priority);
        self.backlog = Amount { packets: self.backlog.packets + 1, bytes: self.backlog.bytes + len };
        if first {
            self.join(class, 1 << priority);
        }
    }

    fn dequeue(&mut self, now: Nanos, _: &mut dyn DropSink) -> Dequeued {
        for level in 0..self.rows.len() {
            while let Some(&(due, class)) = self.waiting[level].first()
                && due <= now
            {
                self.update(class, now, true);
            }
            for priority in 0..usize::from(PRIORITIES) {
                if let Some(leaf) = self.find(level, priority) {
                    return Dequeued::Packet(self.send(leaf, level, now));
                }
            }
        }
        let due = self.waiting.iter().filter_map(|of| of.first()).map(|&(due, _)| due).min();
        match due {
            Some(due) if self.backlog.packets > 0 => Dequeued::WaitUntil(due),
            _ => Dequeued::Idle,
        }
    }

    fn backlog(&self) -> Amount {
        self.backlog
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        let of = |class: &Class| Amount { packets: class.queue.len() as u64, bytes: class.bytes };
        self.classes.get(class.index()).map_or_else(Amount::default, of)
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        for class in &mut self.classes {
            class.queue.drain(..).for_each(|packet| drops.dropped(now, packet, DropReason::Purged));
            class.borrowers.iter_mut().for_each(|ring| *ring = Ring::default());
            class.deficits.fill(0);
            (class.mode, class.due, class.bytes, class.updated) = (Mode::Sends, None, 0, now);
            class.rate.level = class.rate.burst;
            class.ceiling.iter_mut().for_each(|ceiling| ceiling.level = ceiling.burst);
        }
        self.rows.iter_mut().flatten().for_each(|ring| *ring = Ring::default());
        self.waiting.iter_mut().for_each(BTreeSet::clear);
        self.backlog = Amount::default();
    }
}
