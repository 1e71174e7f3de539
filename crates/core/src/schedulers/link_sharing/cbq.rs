//! `cbq-formal`, `cbq-ancestor-only`, `cbq-top-level`: Class-Based Queueing as described in \[cbq\] and the appendix of
//! \[hls\].
//!
//! An estimator determines for each class if it has used more than its rate. If so it is *overlimit*, else
//! *underlimit*. A leaf may send while it is *unregulated*: it is underlimit itself, or a class above it that it may
//! borrow from is underlimit and the `Guideline` allows it. Among the leaves that may send, those of the smallest
//! number of priority take turns by weighted round robin.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | allotted bandwidth | `Plan::assured`: the guarantee, or the share of the parent's by weight | bit/s |
//! | avgidle, w = 1/16 | `Estimator::average` | 2^-20 ns |
//! | maxidle, from maxburst | `Estimator::largest`, from `burst`, else `MAX_BURST` largest packets | 2^-20 ns |
//! | undertime; offtime for a minburst of one packet | `Estimator::under` | 2^-20 ns |
//! | minidle | none: no average is below the idle time of a packet that is sent at once | |
//! | level i: 1 for a leaf | `BorrowingTree::level`: 0 for a leaf, else 1 + the children's largest | |
//! | unsatisfied: underlimit, with backlog below | a class that lends and has something to lend to | |
//! | bounded, isolated | `bounded`, `isolated` | |
//! | allot of weighted round robin | `Plan::quanta` | bytes |
//!
//! **Debt.** An overlimit class is underlimit again when its average has come back to zero. A leaf that may borrow need
//! not wait for that. It waits only for the duration of its last packet at its own rate. Otherwise it would pay with
//! its guarantee for bandwidth that no other class wanted. ns-2 and the kernel do so, too: a class that is refused is
//! forgiven.
//!
//! **Turns.** Deficit round robin over the leaves in the order of the tree. A turn lasts until the quantum is used up.
//! It resumes later if the leaf may not send before that.
//!
//! Each limit that a guideline sets to the level of lenders has separate turns, with an allocation per leaf. A leaf
//! that is underlimit goes ahead of those that borrow, under a lower limit than theirs. That neither ends their turn
//! nor begins one of its own: its packets are charged to its allocations under that limit and under all higher ones. So
//! its next turns are shorter by that amount, and borrowed bandwidth is shared by the quanta in bytes, for any packet
//! lengths. The charge for packets ahead of a leaf's turn is limited to `MOST_AHEAD` quanta and packets. Leaves send
//! far less than that between two borrowed packets, unless guarantees fill more than 98 % of the link. With a smaller
//! limit, all leaves would reach it, and the leaf with the largest quantum would get all the rest. Anything beyond the
//! limit is the leaf's guarantee, and causes no debt. A burst after a pause counts, too: the leaf borrows less by that
//! amount afterwards. Under Top-Level, whose limit is a guess, a leaf may be underlimit while others borrow. Then it
//! sends a packet in its turn, regardless of its charges: its guarantee causes no debt.
//!
//! **Which leaves may send** follows from the level of their *lender*. The lender of a leaf is the nearest underlimit
//! class on the way up, the leaf included, if no bounded class was passed before it. A guideline is the highest level
//! that a lender may have. `BorrowingTree` keeps the leaves so that the next one in turn is found under any such
//! limit.
//!
//! **Time.** A packet takes its length at the link's rate. It begins when the last one ended, or now if the link was
//! idle. So a caller that takes packets ahead of the link, as batches do, or that is late, has no effect on the link's
//! times.
//!
//! **Bounded and isolated classes.** A bounded class does not borrow. An isolated class does not borrow either, and its
//! unused bandwidth goes to no other class. All classes above it lend less by that amount, and are not charged for the
//! packets of the isolated class.
//!
//! **Cost per packet.** O(levels^2) steps of O(log n) to the base 64, and O(log n) in a heap for each class that the
//! packet made overlimit. Classes that turn underlimit are processed on the next call: at most one per class made
//! overlimit before. A leaf whose turn is already used up is passed over: for each limit, at most once per packet sent
//! ahead of a turn, of which `MOST_AHEAD` quanta and packets count.
//!
//! **Invariants.** The heap holds exactly the overlimit classes with backlog below them. The standing of a class with
//! backlog below it is that of its estimator. An allocation is between minus `MOST_AHEAD` quanta and packets and plus a quantum.
//!
//! **Bounds.** None is proven, because an average forgets. The tests measure, with packets of at least half the largest
//! length: a leaf keeps its guarantee within 5 %, or within 15 % with bounded or isolated classes. Bounded and isolated
//! classes under ancestor-only are left out, because others borrow ahead of them. A bounded class gets at most 2 % more
//! than its rate, and 10 % less with packets of mixed lengths. A class that is not a leaf does not always get its
//! guarantee (\[hls\] Section VIII-B, experiment 1). Borrowed bandwidth is shared by the quanta of leaves, for any
//! lender (experiment 2). Under ancestor-only even leaves lose their guarantees if priorities differ or quanta are not
//! in proportion to them (`shortfall.rs`).
//!
//! **Overflow budget.** Times are below 2^85, idle times below 2^94 (2^20 B at 1 bit/s), maxidle below 2^101. Quanta are below 2^52, allocations below 2^59.
//!
//! **Validation.** `cbq/tests.rs`: guarantees, bounded and isolated classes as property tests, experiments 1 and 2 of \[hls\] in direction and
//! against figures of the kernel's CBQ, two classes of 1 % and 99 % against a figure of ns-2. `scripts/oracle-ns2` runs ns-2 beside it.
//!
//! DIFFERENCE: a class that is underlimit counts as unsatisfied only when a leaf below it could borrow from it. It does
//! not count when bounded classes cut off all backlogged leaves. Otherwise it would keep others from borrowing without
//! any benefit. **Top-Level** is a guess (`Guideline::TopLevel`), and it can be so low that no leaf may send, although
//! one could borrow. \[cbq\] would leave the link idle. ns-2 sends a packet of the next leaf in its round and charges
//! it to no class. Here such packets have a separate round, by quanta. This service comes on top of that by the
//! guidelines, and is not charged to the guarantee. So experiment 3 of \[hls\] ends at 33 : 33 : 33 (ns-2: 34 : 34 :
//! 31), while the formal guidelines have 44 : 28 : 28.
//!
//! DIFFERENCE: a class on the leaf's path may have to keep to a rate, because it is bounded, isolated or above an
//! isolated class. Then Top-Level is lifted instead, and all classes on the path are charged. ns-2 charges no class in
//! this case either. DIFFERENCE: each limit to the level of lenders has separate turns, and each class above leaves
//! keeps its place in them. With one round for all, a leaf that goes ahead would end the turn of another and begin one
//! of its own, and small packets would borrow more than their weight (50 % for 33). DIFFERENCE: the link is never
//! overlimit, except for the entitlement of isolated classes. Its driver paces it. DIFFERENCE: minidle and minburst
//! cannot be set.

mod estimator;
mod shortfall;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};
use core::ops::Range;

use crate::bases::borrowing::{BorrowingTree, Plan, Standing};
use crate::contract::{
    Amount, BuildError, ClassId, Dequeued, DropReason, DropSink, Feature, Hierarchy, Nanos, Packet, Promises, Rate,
    Scheduler, SchedulerInfo, Sharing, WorkConserving, boxed,
};
use crate::parts::{
    heap::Heap,
    memory::{Stack, bytes_of, filled, slice},
};
use crate::queue::{LeafQueue, PacketSlab};
use shortfall::shortfalls;

use estimator::{Estimator, Fine, MAX_BURST, duration, fine, rounded_up};

/// Registry entry of `cbq-formal`.
pub const FORMAL: SchedulerInfo = SchedulerInfo {
    name: "cbq-formal",
    aliases: &[],
    paper: "cbq",
    summary: "class-based queueing: who has used little goes first, the rest borrow, by the formal guidelines",
    features: &[
        Feature::Hierarchy,
        Feature::Burst,
        Feature::Priority,
        Feature::Borrowing,
        Feature::Quantum,
        Feature::ActiveQueue,
        Feature::PushOut,
    ],
    work_conserving: WorkConserving::UnlessLimited,
    cost: "O(levels * log leaves)",
    sharing: Sharing::Allotted,
    promises: Promises::NONE,
    memory: Cbq::memory,
    build: |tree, _| boxed(Cbq::new(tree, Guideline::Formal)?),
};

/// Registry entry of `cbq-ancestor-only`.
pub const ANCESTOR_ONLY: SchedulerInfo = SchedulerInfo {
    name: "cbq-ancestor-only",
    summary: "class-based queueing: any class may borrow from one above it that has used little",
    promises: Promises { shortfalls: Some(shortfalls), ..Promises::NONE },
    sharing: Sharing::ByPackets("under ancestor-only, who borrows how much follows from the order of packets"),
    build: |tree, _| boxed(Cbq::new(tree, Guideline::AncestorOnly)?),
    ..FORMAL
};

/// Registry entry of `cbq-top-level`.
pub const TOP_LEVEL: SchedulerInfo = SchedulerInfo {
    name: "cbq-top-level",
    summary: "class-based queueing: the formal guidelines, approximated by what arrives and leaves",
    sharing: Sharing::ByPackets("under top-level, who borrows how much follows from the order of arrivals"),
    build: |tree, _| boxed(Cbq::new(tree, Guideline::TopLevel)?),
    ..FORMAL
};

/// The condition under which an overlimit leaf may borrow from an underlimit class above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guideline {
    /// No class at a lower level than the lender's is unsatisfied.
    Formal,
    /// Always.
    AncestorOnly,
    /// When the lender's level is at most Top-Level, a guess at the lowest level of an unsatisfied class. The guess is
    /// lowered when a packet arrives: to 0 if the leaf is underlimit, to [`ABOVE_LEAVES`] if its parent is. When a
    /// packet is sent, the guess stays if it is below the lender's level. Otherwise it becomes the lender's level, or
    /// without limit if the leaf is empty or the lender overlimit then.
    TopLevel,
}

const NIL: u32 = u32::MAX;
/// Maximum charge for packets that a leaf sends ahead of its turn, in quanta and packets.
const MOST_AHEAD: i64 = 64;
/// The Top-Level value when a packet arrives for an overlimit leaf with an underlimit parent, for any level of that
/// parent: \[cbq\] has 2 there, the level of a class whose children are leaves. So a leaf directly below the link
/// forbids borrowing from the link.
const ABOVE_LEAVES: u8 = 1;
/// Above all levels.
const NO_LIMIT: u8 = u8::MAX;

#[derive(Debug)]
struct Class {
    /// `None` if isolated classes are entitled to the whole rate.
    estimator: Option<Estimator>,
    /// Bounded or isolated.
    bounded: bool,
    isolated: bool,
    /// True if the class or a class above it is bounded, isolated, or above an isolated class, and so must not exceed a
    /// rate.
    capped: bool,
    /// Leaves: 1 with backlog. Others: children that are not 0.
    busy: u32,
    /// Index of a leaf in `Cbq::leaves`.
    leaf: u32,
    /// Bytes that a leaf has sent on the account of a class above it; that leaves have sent on the account of another class.
    lent: u64,
}

#[derive(Debug)]
struct Leaf {
    queue: LeafQueue,
    quantum: i64,
}

/// Class-Based Queueing.
#[derive(Debug)]
pub(crate) struct Cbq {
    guideline: Guideline,
    classes: Stack<Class>,
    leaves: Stack<Leaf>,
    borrowing: BorrowingTree,
    /// Limits that a guideline may set to the level of lenders: 0 to the root's level.
    limits: usize,
    /// Rounds of turns: one for each limit, and under [`Guideline::TopLevel`] one more for packets sent ahead of the
    /// guess.
    rounds: usize,
    /// Positions of the turns, by priority, round and class.
    turns: Box<[u32]>,
    /// Remaining allocation of a leaf in its turn, in bytes, by leaf and round.
    allocations: Box<[i64]>,
    /// Under [`Guideline::TopLevel`], the highest level that may lend.
    top_level: u8,
    /// Overlimit classes with backlog below them, by when they are so no longer.
    overlimit: Heap,
    link: Rate,
    /// End of the last packet.
    free: Fine,
    slab: PacketSlab,
    max_packet: u32,
    now: Nanos,
}

impl Cbq {
    /// Makes a scheduler for `tree`.
    ///
    /// # Errors
    /// [`BuildError::Parameter`] as [`Plan::for_tree`] and [`BorrowingTree::new`].
    pub(crate) fn new(tree: &Hierarchy, guideline: Guideline) -> Result<Self, BuildError> {
        let plan = Plan::for_tree(tree)?;
        let link = tree.link();
        let mut rates = slice(tree.len(), |class| plan.assured[class].bps())?;
        let mut lends_less = filled(tree.len(), false)?;
        for class in tree.classes().filter(|&class| tree.config(class).isolated) {
            // Up to the next isolated class, which is kept entirely from those above it.
            let mut above = tree.parent(class);
            while let Some(lender) = above {
                rates[lender.index()] = rates[lender.index()].saturating_sub(plan.assured[class.index()].bps());
                lends_less[lender.index()] = true;
                above = tree.parent(lender).filter(|_| !tree.config(lender).isolated);
            }
        }
        let borrowing = BorrowingTree::new(tree, &plan.priorities)?;
        let limits = usize::from(borrowing.level(ClassId::ROOT.0)) + 1;
        let rounds = limits + usize::from(guideline == Guideline::TopLevel);
        let mut cbq = Self {
            guideline,
            classes: Stack::with_room(tree.len())?,
            leaves: Stack::with_room(tree.leaves().len())?,
            limits,
            rounds,
            turns: filled(usize::from(borrowing.priorities()) * rounds * tree.len(), 0)?,
            allocations: filled(tree.leaves().len() * rounds, 0)?,
            borrowing,
            top_level: NO_LIMIT,
            overlimit: Heap::new(tree.len())?,
            link: link.rate,
            free: 0,
            slab: PacketSlab::for_tree(tree)?,
            max_packet: link.max_packet,
            now: Nanos::ZERO,
        };
        for (index, &rate) in rates.iter().enumerate() {
            let class = ClassId(index as u32);
            let config = tree.config(class);
            let packet = u64::from(link.max_packet);
            let burst = config.burst.map_or(MAX_BURST, |burst| burst.div_ceil(packet));
            // The debt of a leaf for borrowing is forgiven; one that may not borrow owes for packets longer than
            // others.
            let bounded = config.bounded || config.isolated;
            let remembers = bounded || !tree.is_leaf(class);
            let estimator = Rate::from_bps(rate)
                .ok()
                .map(|rate| Estimator::new(rate, link.rate, link.max_packet, burst, remembers));
            let leaf = if tree.is_leaf(class) { cbq.leaves.len() as u32 } else { NIL };
            let isolated = config.isolated;
            // Parents come before their children.
            let above = tree.parent(class).is_some_and(|parent| cbq.classes[parent.index()].capped);
            let capped = above || bounded || lends_less[index];
            cbq.classes.push(Class { estimator, bounded, isolated, capped, busy: 0, leaf, lent: 0 });
            if leaf != NIL {
                let queue = cbq.slab.queue_for(tree, class);
                // Below 2^52.
                cbq.leaves.push(Leaf { queue, quantum: plan.quanta[index] as i64 });
            }
        }
        Ok(cbq)
    }

    /// Memory of an instance for `tree`, in bytes, including construction.
    fn memory(tree: &Hierarchy) -> u64 {
        let rounds = tree.levels() + 2;
        let priorities = usize::from(Plan::priorities(tree));
        PacketSlab::memory(tree)
            + BorrowingTree::memory(tree).0
            + bytes_of::<(Class, u64, bool)>(tree.len())
            + bytes_of::<Leaf>(tree.leaves().len())
            + bytes_of::<i64>(tree.leaves().len() * rounds)
            + bytes_of::<u32>(tree.len() * priorities * rounds)
            + Heap::memory(tree.len())
            + Plan::memory(tree)
    }

    /// Returns the start time of the next packet.
    fn clock(&self) -> Fine {
        self.free.max(fine(self.now))
    }

    /// Returns the standing of `class` by its estimator.
    fn judge(&self, class: u32) -> Standing {
        let known = &self.classes[class as usize];
        let under = known.estimator.as_ref().map(Estimator::under);
        match under {
            Some(under) if under <= self.clock() => Standing::Lends,
            _ if known.bounded || class == ClassId::ROOT.0 => Standing::Stays,
            _ => Standing::Borrows,
        }
    }

    /// Brings the standing of `class`, which has backlog below it, up to now.
    fn update(&mut self, class: u32) {
        let standing = self.judge(class);
        self.borrowing.stand(class, standing);
        match &self.classes[class as usize].estimator {
            Some(estimator) if standing != Standing::Lends => {
                // The clock is not negative, and this is later.
                self.overlimit.set(class, estimator.under().unsigned_abs());
            }
            _ => {
                self.overlimit.remove(class);
            }
        }
    }

    /// Processes the classes that are no longer overlimit.
    fn turn(&mut self) {
        let clock = self.clock().unsigned_abs();
        while let Some((class, due)) = self.overlimit.first()
            && due <= clock
        {
            self.update(class);
        }
    }

    /// Handles the first packet of `leaf`. The leaf, and the classes above it without backlog until now, take part
    /// again.
    fn activate(&mut self, leaf: u32) {
        let mut class = leaf;
        loop {
            let known = &mut self.classes[class as usize];
            known.busy += 1;
            if known.busy > 1 {
                break;
            }
            self.update(class);
            if class == ClassId::ROOT.0 {
                break;
            }
            class = self.borrowing.parent(class);
        }
        self.borrowing.set_backlogged(leaf, true);
    }

    /// Handles the last packet of `leaf`.
    fn deactivate(&mut self, leaf: u32) {
        self.borrowing.set_backlogged(leaf, false);
        let mut class = leaf;
        loop {
            let known = &mut self.classes[class as usize];
            known.busy -= 1;
            if known.busy > 0 {
                break;
            }
            self.overlimit.remove(class);
            if class == ClassId::ROOT.0 {
                break;
            }
            class = self.borrowing.parent(class);
        }
    }

    /// Returns the highest permitted level of a lender, when the lowest level of any leaf's lender is `lowest`.
    fn highest(&self, lowest: u8) -> u8 {
        match self.guideline {
            Guideline::Formal => lowest,
            Guideline::AncestorOnly => NO_LIMIT,
            Guideline::TopLevel => self.top_level,
        }
    }

    /// Lowers the top level after a packet has arrived at `leaf`.
    fn lower_top_level(&mut self, leaf: u32) {
        let parent = self.borrowing.parent(leaf);
        if self.judge(leaf) == Standing::Lends {
            self.top_level = 0;
        } else if !self.classes[leaf as usize].bounded && self.judge(parent) == Standing::Lends {
            self.top_level = self.top_level.min(ABOVE_LEAVES);
        }
    }

    /// Raises the top level after `leaf` has sent a packet on the account of `lender`.
    fn raise_top_level(&mut self, leaf: u32, lender: u32) {
        let level = self.borrowing.level(lender);
        if self.top_level >= level {
            let goes_on = self.classes[leaf as usize].busy > 0 && self.judge(lender) == Standing::Lends;
            self.top_level = if goes_on { level } else { NO_LIMIT };
        }
    }

    /// Returns the number of a limit to the level of lenders.
    fn limit(&self, highest: u8) -> usize {
        usize::from(highest).min(self.limits - 1)
    }

    /// Range of the turns of a priority in a round, in `Cbq::turns`.
    fn turns(&self, priority: u8, round: usize) -> Range<usize> {
        let first = (usize::from(priority) * self.rounds + round) * self.classes.len();
        first..first + self.classes.len()
    }

    /// Returns the next leaf of a round, among those of `priority` with lenders up to level `highest`.
    fn pick(&mut self, priority: u8, highest: u8, round: usize) -> Option<u32> {
        let turns = self.turns(priority, round);
        // Otherwise none is underlimit, or all may send.
        let is_guess = self.guideline == Guideline::TopLevel && round > 0;
        loop {
            let (leaf, begins) = self.borrowing.next_in_turn(priority, highest, &mut self.turns[turns.clone()])?;
            let index = self.classes[leaf as usize].leaf as usize;
            let allocation = &mut self.allocations[index * self.rounds + round];
            if begins && *allocation <= 0 {
                *allocation += self.leaves[index].quantum;
            }
            if *allocation > 0 || is_guess && self.borrowing.standing(leaf) == Standing::Lends {
                return Some(leaf);
            }
            self.borrowing.end_turn(leaf, &mut self.turns[turns.clone()]);
        }
    }

    /// Charges `len` bytes that a leaf sent in its turn in the first of these rounds to its allocations in all of them.
    fn charge(&mut self, leaf: u32, len: u32, priority: u8, rounds: Range<usize>) {
        let index = self.classes[leaf as usize].leaf as usize;
        let Leaf { queue, quantum } = &self.leaves[index];
        let (least, empty) = (-MOST_AHEAD * (*quantum + i64::from(self.max_packet)), queue.is_empty());
        let allocations = &mut self.allocations[index * self.rounds..(index + 1) * self.rounds];
        for allocation in &mut allocations[rounds.clone()] {
            *allocation = (*allocation - i64::from(len)).max(least);
        }
        if empty {
            allocations.iter_mut().for_each(|allocation| *allocation = (*allocation).min(0));
        }
        if allocations[rounds.start] <= 0 {
            // It would be found and passed over.
            let turns = self.turns(priority, rounds.start);
            self.borrowing.end_turn(leaf, &mut self.turns[turns]);
        }
    }

    /// Dequeues the head of `leaf`: the packet, its duration, and true if it was the last one. `None` is unreachable.
    fn take(&mut self, leaf: u32, drops: &mut dyn DropSink) -> Option<(Packet, Fine, bool)> {
        let known = &mut self.leaves[self.classes[leaf as usize].leaf as usize];
        let packet = known.queue.dequeue(&mut self.slab, ClassId(leaf), self.now, drops)?;
        let empty = known.queue.is_empty();
        let on_link = duration(packet.len, self.link);
        self.free = self.clock() + on_link;
        Some((packet, on_link, empty))
    }

    /// Sends a packet although Top-Level lets no leaf send: of the leaf whose turn it is among those of the first
    /// priority that could borrow. No class is charged. If one above the leaf must not exceed a rate, Top-Level is
    /// lifted instead.
    fn send_ahead(&mut self, drops: &mut dyn DropSink) -> Option<Packet> {
        let round = self.limits;
        let mut priorities = 0..self.borrowing.priorities();
        let (leaf, priority) =
            priorities.find_map(|priority| Some((self.pick(priority, NO_LIMIT, round)?, priority)))?;
        if self.classes[leaf as usize].capped {
            self.top_level = NO_LIMIT;
            let leaf = self.pick(priority, NO_LIMIT, self.limit(NO_LIMIT))?;
            return self.send(leaf, (priority, NO_LIMIT), drops);
        }
        let (packet, _, empty) = self.take(leaf, drops)?;
        self.charge(leaf, packet.len, priority, round..round + 1);
        if empty {
            self.deactivate(leaf);
        }
        Some(packet)
    }

    /// Sends the head of `leaf`, whose turn it was for a priority and a limit to the level of lenders. `None` is
    /// unreachable.
    fn send(&mut self, leaf: u32, (priority, highest): (u8, u8), drops: &mut dyn DropSink) -> Option<Packet> {
        let (packet, on_link, empty) = self.take(leaf, drops)?;
        self.charge(leaf, packet.len, priority, self.limit(highest)..self.limits);
        if empty {
            self.deactivate(leaf);
        }
        let (mut class, mut lender, mut borrowed) = (leaf, NIL, 0);
        loop {
            let lends = lender == NIL && self.borrowing.standing(class) == Standing::Lends;
            let known = &mut self.classes[class as usize];
            if lends {
                lender = class;
                if class != leaf {
                    known.lent += u64::from(packet.len);
                    borrowed = u64::from(packet.len);
                }
            }
            if let Some(estimator) = &mut known.estimator {
                estimator.sent(packet.len, on_link, self.free);
            }
            let ends = class == ClassId::ROOT.0 || known.isolated;
            if known.busy > 0 {
                self.update(class);
            }
            if ends {
                break;
            }
            class = self.borrowing.parent(class);
        }
        self.classes[leaf as usize].lent += borrowed;
        self.raise_top_level(leaf, lender);
        Some(packet)
    }
}

impl Scheduler for Cbq {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let class = packet.class.0;
        if self.classes.get(packet.class.index()).is_none_or(|known| known.leaf == NIL) {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        }
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        self.lower_top_level(class);
        let known = &self.classes[class as usize];
        let queue = &mut self.leaves[known.leaf as usize].queue;
        if queue.enqueue(&mut self.slab, now, packet, drops) && known.busy == 0 {
            self.activate(class);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        self.turn();
        let Some((lowest, _)) = self.borrowing.lowest() else {
            return match self.overlimit.first() {
                Some((_, due)) => Dequeued::WaitUntil(rounded_up(due as Fine)),
                None => Dequeued::Idle,
            };
        };
        let highest = self.highest(lowest);
        let mut priorities = 0..self.borrowing.priorities();
        let round = self.limit(highest);
        let picked = priorities.find_map(|priority| Some((self.pick(priority, highest, round)?, priority)));
        let packet = match picked {
            Some((leaf, priority)) => self.send(leaf, (priority, highest), drops),
            None => self.send_ahead(drops),
        };
        Dequeued::Packet(packet.expect("a leaf that is in a set has packets"))
    }

    fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        let leaf = self.classes.get(class.index()).and_then(|known| self.leaves.get(known.leaf as usize));
        leaf.map_or(Amount::default(), |leaf| leaf.queue.backlog(&self.slab))
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        for (id, class) in self.classes.iter_mut().enumerate() {
            if let Some(leaf) = self.leaves.get_mut(class.leaf as usize) {
                leaf.queue.purge(&mut self.slab, ClassId(id as u32), now, drops);
            }
            (class.busy, class.lent) = (0, 0);
            class.estimator.iter_mut().for_each(Estimator::reset);
        }
        self.borrowing.clear();
        self.turns.fill(0);
        self.allocations.fill(0);
        self.top_level = NO_LIMIT;
        self.overlimit.clear();
        self.free = 0;
    }

    fn for_each_counter(&self, classes: Range<usize>, visit: &mut dyn FnMut(ClassId, &'static str, u64)) {
        for (index, class) in self.classes.iter().enumerate().take(classes.end).skip(classes.start) {
            visit(ClassId(index as u32), if class.leaf == NIL { "lent_bytes" } else { "borrowed_bytes" }, class.lent);
        }
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let of = |leaf: bool| self.classes.iter().filter(move |class| (class.leaf != NIL) == leaf);
        let [borrowed, lent] = [true, false].map(|leaf| of(leaf).map(|class| class.lent).sum::<u64>());
        if borrowed != lent {
            return Err(format!("{borrowed} B were borrowed and {lent} B lent"));
        }
        self.overlimit.check()?;
        self.borrowing.check()?;
        for (index, class) in self.classes.iter().enumerate() {
            let id = index as u32;
            let lends = self.borrowing.standing(id) == Standing::Lends;
            let watched = class.busy > 0 && !lends && class.estimator.is_some();
            if watched != self.overlimit.contains(id) {
                return Err(format!("class {id}, backlog below {}, lends {lends}, watched {}", class.busy, !watched));
            }
            // One that is due is processed when the scheduler is asked for a packet.
            if class.busy > 0 && lends && self.judge(id) != Standing::Lends {
                return Err(format!("class {id} lends and is overlimit"));
            }
            if class.estimator.as_ref().is_some_and(|estimator| !estimator.is_sound()) {
                return Err(format!("class {id}: {:?}", class.estimator));
            }
            let Some(leaf) = self.leaves.get(class.leaf as usize) else { continue };
            if leaf.queue.is_empty() != (class.busy == 0) {
                return Err(format!("leaf {id}: busy {} with {:?}", class.busy, leaf.queue.backlog(&self.slab)));
            }
            let (least, most) = (-MOST_AHEAD * (leaf.quantum + i64::from(self.max_packet)), leaf.quantum);
            let allocations = &self.allocations[class.leaf as usize * self.rounds..][..self.rounds];
            if let Some(left) = allocations.iter().find(|&&left| left < least || left > most) {
                return Err(format!("leaf {id}: {left} left of a quantum of {most}"));
            }
        }
        Ok(())
    }
}
