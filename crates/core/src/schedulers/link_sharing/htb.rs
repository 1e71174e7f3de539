//! `htb` and `htb-common-deficit`: Hierarchical Token Bucket as described in \[htb\] and the appendix of \[hls\].
//!
//! Every class has an assured bucket; a class with a ceiling also has a ceiling bucket. A class is *green* while its
//! assured bucket has tokens, *yellow* if only its ceiling lets it send, *red* if its ceiling does not. A leaf sends at
//! the expense of its *lender*: itself if it is green, else its nearest green ancestor. A leaf has no lender if a class
//! on the way is red. The leaves of the lowest level of lenders go first. Among these, those of the smallest number of
//! priority go first. Among these there is Deficit Round Robin.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | AR_i, assured rate ("rate") | `Plan::assured`, `Class::assured` | bit/s; tokens of 10^-9 bit |
//! | CR_i, ceiling rate ("ceil") | `Class::ceiling`, none where the user gives none | bit/s |
//! | burst, cburst | `burst`, `ceiling_burst`, else `Plan::depth`, `Plan::ceiling_depth` | bytes |
//! | level(i): 0 for a leaf, else 1 + the children's largest | `BorrowingTree::level` | |
//! | green, yellow, red | `Standing::Lends`, `Standing::Borrows`, `Standing::Stops` | |
//! | prio | `Plan::priorities` | 0 is served first |
//! | quantum | `Plan::quanta`; at a leaf's own expense `Plan::own_quanta` | bytes |
//! | "separate deficits" | `deficits`, one per leaf and lender | bytes |
//!
//! A yellow class that borrows from a pool and was refused is `Standing::Stays` until it may ask again.
//!
//! **Rings.** `BorrowingTree` finds leaves from the root through sets of children. Each set has a cursor for each level
//! of lenders. A visit that ends moves the cursor on. At the end of a set it also moves that of the set above. So the
//! cursors together walk over the leaves of a level and priority as one round robin does. A class that turns green and
//! comes back before its set was visited keeps its turn. The kernel's HTB has one cursor both for a class's own lending
//! and for the lending of classes above through it. If the former takes the cursor past the last child, those above
//! skip the class.
//!
//! **Cost per packet.** O(levels) walks with O(log n) to the base 64 at each, and O(log n) in a heap for each class whose
//! bucket ran empty. Changes of colour that are due are worked off on the next call: at most one per class that a packet
//! turned yellow or red before. Memory: that of `BorrowingTree`, and a cursor for each class with children, level and priority.
//!
//! **Invariants.** Those of `BorrowingTree`. 0 <= deficit <= quantum. The heaps hold only classes with backlog below
//! them, and among these all that are not green. A ceiling bucket is in debt by at most one packet.
//!
//! **Bounds.** At every class with a ceiling W(s, t] <= ceiling (t - s) + ceiling_burst + L_max. A leaf keeps its
//! guarantee up to twice its default depth and two largest packets, whatever the quanta, see `Plan::guarantee_lag`; a
//! leaf of lower priority also waits for the bursts of those above it. Borrowed bandwidth is
//! shared by the quanta of leaves. So a class gets more if it bundles its guarantee in fewer leaves. There is no
//! isolation between branches (\[hls\] Section VIII-B, experiment 2).
//!
//! **Overflow budget.** Buckets: see `parts::bucket`. Quanta are below 2^52, deficits between minus a packet and a quantum.
//!
//! **Validation.** The measurements of \[htb\], experiment 2 of \[hls\], and the bounds above as property tests:
//! `htb/tests.rs`. The kernel's HTB on real packets, which agrees if inner classes lend nothing: `scripts/oracle-htb`.
//!
//! DIFFERENCE: a red ancestor stops green leaves, too. The texts let a green class always send. A ceiling would then
//! fail if bursts or guarantees below it add up to more. DIFFERENCE: tokens are taken from the assured buckets of the
//! lender and of all classes above it, whatever their colour. The appendix of \[hls\] leaves yellow ancestors out,
//! which would let a class borrow bandwidth that was already guaranteed to its children. DIFFERENCE: a class has tokens
//! while it is not in debt, so that a packet of any length can be sent. So a bucket may owe one packet. The appendix
//! requires tokens for the whole packet. DIFFERENCE: the tree need not be complete. \[htb\] mandates leaves of equal
//! depth. DIFFERENCE: the root is always green, as in \[hls\] for a work-conserving scheduler. The driver paces the
//! link. DIFFERENCE: a visit of DRR begins with the rest of the last one and ends with the quantum: the packet that
//! exhausts the deficit is still sent. With quanta of at least the largest packet every visit sends, and a leaf gets
//! the same over several rounds.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};
use core::any::Any;
use core::ops::Range;

use crate::bases::batches::{LOOK_AHEAD_FROM, PlainIn, push_behind, push_runs};
pub use crate::bases::borrowing::Plan;
use crate::bases::borrowing::{BorrowingTree, Standing};
use crate::contract::{
    Amount, BuildError, ClassId, Dequeued, DropReason, DropSink, Feature, Hierarchy, Lender, MAX_DEPTH, Members, Nanos,
    Packet, Promises, Scheduler, SchedulerInfo, Sharing, WorkConserving, boxed, same_kind,
};
use crate::parts::{
    bucket::Bucket,
    heap::Heap,
    memory::{Stack, bytes_of, filled},
    prefetch::prefetch_all,
};
use crate::queue::{LeafQueue, PacketSlab};

/// Registry entry of `htb`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "htb",
    aliases: &[],
    paper: "htb",
    summary: "hierarchical token bucket: guarantees, ceilings, borrowing level by level",
    features: &[
        Feature::Hierarchy,
        Feature::Ceiling,
        Feature::Burst,
        Feature::CeilingBurst,
        Feature::Priority,
        Feature::Quantum,
        Feature::ActiveQueue,
        Feature::PushOut,
        Feature::Pool,
    ],
    work_conserving: WorkConserving::UnlessLimited,
    cost: "O(levels * log leaves)",
    sharing: Sharing::Lenders,
    promises: Promises::NONE,
    memory: Htb::memory,
    build: |tree, members| boxed(Htb::new(tree, Deficits::PerLevel, members)?),
};

/// Registry entry of `htb-common-deficit`.
pub const COMMON_DEFICIT: SchedulerInfo = SchedulerInfo {
    name: "htb-common-deficit",
    summary: "HTB before 9.9.2001: one deficit per leaf for all levels, which shares less exactly",
    sharing: Sharing::ByPackets("with one deficit for all levels, borrowed bandwidth is not shared by quanta"),
    build: |tree, members| boxed(Htb::new(tree, Deficits::Common, members)?),
    ..INFO
};

/// The number of deficits of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deficits {
    /// One deficit for each class that it may borrow from: `htb`.
    PerLevel,
    /// One deficit: `htb-common-deficit`, with a sharing error of 10 to 20 % according to \[htb\].
    Common,
}

const NIL: u32 = u32::MAX;
/// Prefetch distance in leaves: the leaf, and the packet behind its head.
const LEAVES_AHEAD: usize = 6;
const PACKETS_AHEAD: usize = 3;

#[derive(Debug)]
#[repr(align(64))]
struct Class {
    assured: Bucket,
    ceiling: Option<Bucket>,
    /// Leaves: 1 with backlog. Others: children that are not 0.
    busy: u32,
    leaf: bool,
    /// For a leaf: the number of its deficits, and the first of them, in `Htb::deficits`.
    deficit_count: u8,
    deficits: u32,
    queue: LeafQueue,
    /// Quantum of a leaf, and that of what it sends at its own expense.
    quantum: u64,
    own_quantum: u64,
    /// Index of its lender in `Htb::lenders`.
    pool: u32,
    /// Bytes that a leaf has sent on the account of a class above it; that leaves have sent on the account of another class.
    lent: u64,
}

/// Returns true if a ceiling can stop a class.
fn limited(tree: &Hierarchy) -> bool {
    tree.classes().any(|class| tree.config(class).ceiling.is_some())
}

impl Class {
    /// Its colour, which was `before`, by its buckets, brought up to now.
    #[inline(always)]
    fn colour(&mut self, now: Nanos, before: Standing) -> Standing {
        self.assured.refill(now);
        let red = self.ceiling.as_mut().is_some_and(|ceiling| {
            ceiling.refill(now);
            !ceiling.is_ready()
        });
        match before {
            _ if red => Standing::Stops,
            _ if self.assured.is_ready() => Standing::Lends,
            Standing::Stays => Standing::Stays,
            _ => Standing::Borrows,
        }
    }

    /// Quantum of a leaf for its deficit at this distance from the lender.
    const fn quantum(&self, distance: usize) -> u64 {
        if distance == 0 { self.own_quantum } else { self.quantum }
    }

    /// Range of its deficits.
    fn deficits(&self) -> Range<usize> {
        let first = self.deficits as usize;
        first..first + usize::from(self.deficit_count)
    }
}

/// One step down from a class, through one of its sets, to the child at `position`.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    class: u32,
    set: u32,
    position: u32,
    /// The level of the set, and the number of previous steps below the lender.
    at: u8,
    distance: u8,
    /// True if the set has a child behind that one. Looked up together, because nothing changes before [`Htb::move_on`]
    /// needs it.
    goes_on: bool,
}

/// A leaf whose turn it is. The way to it is in `Htb::path`.
#[derive(Clone, Copy)]
struct Turn {
    leaf: u32,
    /// Level of the lender.
    level: u8,
    /// Steps from the lender down to the leaf.
    distance: usize,
}

/// Hierarchical Token Bucket.
#[derive(Debug)]
pub(crate) struct Htb {
    classes: Stack<Class>,
    borrowing: BorrowingTree,
    deficits: Box<[i64]>,
    common: bool,
    /// By class with children, level of the lender and priority, the position of the child whose turn it is.
    cursors: Box<[u32]>,
    /// The path from the root to the leaf that was found last, and its length. Stored here to avoid a copy.
    path: [Step; MAX_DEPTH],
    steps: usize,
    /// Number of steps of the path that the next search reuses, if [`Htb::found_among`] still holds: no set has changed
    /// since.
    kept: usize,
    found_among: u64,
    /// The priority of the leaf that was found.
    priority: u8,
    /// True if there are enough classes for prefetching.
    looks_ahead: bool,
    /// By class: when its assured bucket may be out of debt.
    yellow: Heap,
    /// By class: the time at which its ceiling is out of debt, or its pool can be asked again.
    blocked: Heap,
    lenders: Stack<Box<dyn Lender>>,
    slab: PacketSlab,
    max_packet: u32,
    now: Nanos,
}

impl Htb {
    /// Makes a scheduler for `tree`. Each class of `members`, a child of the root, borrows from its lender instead of
    /// the link.
    ///
    /// # Errors
    /// [`BuildError::Parameter`] as [`Plan::for_tree`] and [`BorrowingTree::new`], and for a member that is not a child of the root or named
    /// twice.
    pub(crate) fn new(tree: &Hierarchy, deficits: Deficits, members: Members) -> Result<Self, BuildError> {
        let plan = Plan::for_tree(tree)?;
        let link = tree.link();
        let borrowing = BorrowingTree::new(tree, &plan.priorities)?;
        let common = deficits == Deficits::Common;
        let mut htb = Self {
            classes: Stack::with_room(tree.len())?,
            cursors: filled(borrowing.turns(), 0)?,
            path: [Step::default(); MAX_DEPTH],
            steps: 0,
            kept: 0,
            found_among: 0,
            priority: 0,
            looks_ahead: tree.len() >= LOOK_AHEAD_FROM,
            borrowing,
            deficits: Box::default(),
            common,
            yellow: Heap::new(tree.len())?,
            blocked: Heap::new(if limited(tree) || !members.is_empty() { tree.len() } else { 0 })?,
            lenders: Stack::with_room(members.len())?,
            slab: PacketSlab::for_tree(tree)?,
            max_packet: link.max_packet,
            now: Nanos::ZERO,
        };
        let mut counters = 0;
        for (index, &rate) in plan.assured.iter().enumerate() {
            let class = ClassId(index as u32);
            let config = tree.config(class);
            // With one deficit there is one quantum, and a turn is one of all.
            let (quantum, own_quantum, depth) = match (plan.quanta[index], common) {
                (quantum, true) => (quantum, quantum, plan.turn_depth(rate)),
                (quantum, false) => (quantum, plan.own_quanta[index], plan.depth(class)),
            };
            let depth = config.burst.unwrap_or(depth);
            let ceiling = config.ceiling.map(|ceiling| {
                Bucket::new(ceiling, config.ceiling_burst.unwrap_or_else(|| plan.ceiling_depth(class, ceiling)))
            });
            let leaf = tree.is_leaf(class);
            // A depth is at most MAX_DEPTH.
            let deficit_count = if !leaf {
                0
            } else if common {
                1
            } else {
                tree.depth(class) as u8 + 1
            };
            htb.classes.push(Class {
                assured: Bucket::new(rate, depth),
                ceiling,
                busy: 0,
                leaf,
                deficit_count,
                deficits: counters as u32,
                queue: htb.slab.queue_for(tree, class),
                quantum,
                own_quantum,
                pool: NIL,
                lent: 0,
            });
            counters += usize::from(deficit_count);
        }
        htb.deficits = filled(counters, 0)?;
        for (class, lender) in members {
            let Some(known) = htb
                .classes
                .get_mut(class.index())
                .filter(|known| tree.parent(class) == Some(ClassId::ROOT) && known.pool == NIL)
            else {
                let (value, max) = (u64::from(class.0), tree.len() as u64);
                return Err(BuildError::Parameter { class, what: "member of a pool", value, min: 1, max });
            };
            known.pool = htb.lenders.len() as u32;
            htb.lenders.push(lender);
        }
        Ok(htb)
    }

    /// Memory of an instance for `tree`, in bytes, including construction, if no class is a member of a pool.
    fn memory(tree: &Hierarchy) -> u64 {
        let (borrowing, turns) = BorrowingTree::memory(tree);
        let deficits: usize = tree.leaves().iter().map(|&leaf| tree.depth(leaf) + 1).sum();
        PacketSlab::memory(tree)
            + borrowing
            + turns * size_of::<u32>() as u64
            + bytes_of::<Class>(tree.len())
            + bytes_of::<i64>(deficits)
            + Heap::memory(tree.len())
            + Heap::memory(if limited(tree) { tree.len() } else { 0 })
            + Plan::memory(tree)
    }

    /// Notes when `class`, which has backlog below it, may change its colour without sending.
    fn watch(&mut self, class: u32) {
        let known = &self.classes[class as usize];
        let assured = u128::from(known.assured.ready_at().0);
        match (self.borrowing.standing(class), &known.ceiling) {
            (Standing::Lends, _) => {
                self.yellow.remove(class);
                self.blocked.remove(class);
            }
            (Standing::Stops, Some(ceiling)) => {
                self.yellow.remove(class);
                self.blocked.set(class, u128::from(ceiling.ready_at().0));
            }
            // A pool's answer is good until a time that is already noted.
            (Standing::Stays, _) => {}
            _ => {
                self.blocked.remove(class);
                // Classes of one rate become green in the order in which they are noted, or nearly so; their quanta
                // distinguish rates.
                self.yellow.set_by(class, assured, known.quantum.into());
            }
        }
    }

    /// Brings the colour of `class`, which has backlog below it, up to now.
    #[inline(always)]
    fn update(&mut self, class: u32) {
        let before = self.borrowing.standing(class);
        let colour = self.classes[class as usize].colour(self.now, before);
        if colour != before {
            self.change(class, colour);
        }
    }

    #[inline(never)]
    fn change(&mut self, class: u32, colour: Standing) {
        self.borrowing.stand(class, colour);
        self.watch(class);
    }

    /// Works off the changes of colour that are due.
    #[inline(always)]
    fn turn_colours(&mut self) {
        let now = u128::from(self.now.0);
        let due = |of: &Heap| of.first().is_some_and(|(_, due)| due <= now);
        if due(&self.blocked) || due(&self.yellow) {
            self.turn_colours_due(now);
        }
    }

    #[inline(never)]
    fn turn_colours_due(&mut self, now: u128) {
        while let Some((class, due)) = self.blocked.first()
            && due <= now
        {
            self.blocked.remove(class);
            if self.borrowing.standing(class) == Standing::Stays {
                // Asked again when it is its turn.
                self.borrowing.stand(class, Standing::Borrows);
                self.watch(class);
            }
            self.update(class);
        }
        while let Some((class, due)) = self.yellow.first()
            && due <= now
        {
            self.yellow.remove(class);
            self.update(class);
            if self.borrowing.standing(class) == Standing::Borrows && !self.assured_never(class) {
                // It owes more than it did when this was noted.
                self.watch(class);
            }
        }
    }

    /// Returns true if the assured bucket of `class` is in debt until the end of time.
    fn assured_never(&self, class: u32) -> bool {
        self.classes[class as usize].assured.ready_at() <= self.now
    }

    /// Handles the first packet of `leaf`. The leaf, and the classes above it without backlog until now, take part
    /// again.
    #[inline(never)]
    fn activate(&mut self, leaf: u32) {
        let mut class = leaf;
        while class != 0 {
            let known = &mut self.classes[class as usize];
            known.busy += 1;
            if known.busy > 1 {
                break;
            }
            // Discards the previous answer of its pool.
            let colour = known.colour(self.now, Standing::Borrows);
            self.borrowing.stand(class, colour);
            // Without backlog, it was not noted.
            if colour != Standing::Lends {
                self.watch(class);
            }
            class = self.borrowing.parent(class);
        }
        self.borrowing.set_backlogged(leaf, true);
    }

    /// Handles the last packet of `leaf`.
    #[inline(never)]
    fn deactivate(&mut self, leaf: u32) {
        self.borrowing.set_backlogged(leaf, false);
        let mut class = leaf;
        while class != 0 {
            let known = &mut self.classes[class as usize];
            known.busy -= 1;
            if known.busy > 0 {
                break;
            }
            let (parent, _, standing) = self.borrowing.place_of(class);
            if standing != Standing::Lends {
                self.yellow.remove(class);
                self.blocked.remove(class);
            }
            class = parent;
        }
        // What is left of its own turn stays: a leaf that is empty for a moment has no more in it than another.
        let deficits = self.classes[leaf as usize].deficits();
        self.deficits[deficits].iter_mut().skip(usize::from(!self.common)).for_each(|deficit| *deficit = 0);
    }

    /// Finds the path to the leaf whose turn it is, among those of `priority` with a lender at `level`. `None` if a
    /// class on it was denied by its pool.
    #[inline(always)]
    fn descend(&mut self, level: u8, priority: u8) -> Option<Turn> {
        let (mut class, mut at, mut distance) = (0, level, 0);
        // Level and priority are other ones only when a set has changed.
        let among = self.borrowing.changes();
        self.steps = if self.found_among == among { self.kept } else { 0 };
        if self.steps > 0 {
            let step = &self.path[self.steps];
            (class, at, distance) = (step.class, step.at, step.distance);
        }
        (self.found_among, self.priority) = (among, priority);
        loop {
            let set = self.borrowing.children(class, at, priority, level);
            let cursor = &mut self.cursors[set.number as usize];
            let Some(position) = set.next(*cursor as usize) else {
                // The last of this round has left the set: those above move on, too, and we start again.
                *cursor = 0;
                self.move_on();
                (class, at, distance) = (0, level, 0);
                self.steps = 0;
                continue;
            };
            let child = set.child(position);
            let goes_on = set.next(position + 1).is_some();
            let (set, is_own) = (set.number, set.is_own);
            self.path[self.steps] = Step { class, set, position: position as u32, at, distance, goes_on };
            self.steps += 1;
            let below = self.borrowing.level(child);
            if is_own {
                // From the lender down, the classes below borrow.
                if class == 0 && self.classes[child as usize].pool != NIL && !self.ask(child) {
                    return None;
                }
                distance += 1;
                at = below;
            }
            if below == 0 {
                // A pool has to be asked for each packet.
                self.kept = if self.lenders.is_empty() { self.steps - 1 } else { 0 };
                return Some(Turn { leaf: child, level, distance: usize::from(distance) });
            }
            class = child;
        }
    }

    /// Moves the cursor beyond the last step of the path, at the end of a set also that of the set above. The steps before that stay.
    #[inline(always)]
    fn move_on(&mut self) {
        for (at, step) in self.path[..self.steps].iter().enumerate().rev() {
            self.cursors[step.set as usize] = if step.goes_on { step.position + 1 } else { 0 };
            self.kept = self.kept.min(at);
            if step.goes_on {
                return;
            }
        }
    }

    /// Prefetches for the next packets of the set at the end of the path: a leaf, and for an earlier one the packet
    /// behind its head.
    #[inline]
    fn look_ahead(&self) {
        let step = &self.path[self.steps - 1];
        let set = self.borrowing.children(step.class, step.at, self.priority, step.at);
        let mut near = set.near(step.position as usize);
        if let Some(position) = near.nth(PACKETS_AHEAD - 1) {
            self.slab.prefetch_second(&self.classes[set.child(position) as usize].queue);
        }
        if let Some(position) = near.nth(LEAVES_AHEAD - PACKETS_AHEAD - 1) {
            let leaf = set.child(position);
            prefetch_all(&self.classes, leaf as usize);
            self.borrowing.prefetch(leaf);
        }
    }

    /// Prefetches for arriving packets: their leaves, and then the tails of their queues.
    fn look_ahead_of(&self, batch: &[Packet]) {
        for packet in batch {
            prefetch_all(&self.classes, packet.class.index());
        }
        for packet in batch {
            let Some(known) = self.classes.get(packet.class.index()) else { continue };
            if known.queue.is_empty() {
                self.borrowing.prefetch(packet.class.0);
            } else {
                self.slab.prefetch_tail(&known.queue);
            }
        }
    }

    /// Returns true if the pool of `class`, a child of the root that borrows, lends to it now. If not, it is removed
    /// until it may ask again.
    #[inline(never)]
    fn ask(&mut self, class: u32) -> bool {
        let known = &self.classes[class as usize];
        let assured = known.assured.ready_at();
        match self.lenders[known.pool as usize].may_borrow(self.now) {
            Ok(()) => true,
            Err(again) => {
                self.borrowing.stand(class, Standing::Stays);
                self.yellow.remove(class);
                let next = self.now.saturating_add(Nanos(1));
                self.blocked.set(class, u128::from(again.min(assured).max(next).0));
                false
            }
        }
    }

    /// Sends the head of the leaf whose turn it is. `None` is unreachable.
    #[inline(always)]
    fn send(&mut self, turn: Turn, drops: &mut dyn DropSink) -> Option<Packet> {
        if self.looks_ahead {
            self.look_ahead();
        }
        let leaf = &mut self.classes[turn.leaf as usize];
        let packet = leaf.queue.dequeue(&mut self.slab, ClassId(turn.leaf), self.now, drops)?;
        let emptied = leaf.queue.is_empty();
        let deficit = &mut self.deficits[leaf.deficits as usize + if self.common { 0 } else { turn.distance }];
        *deficit -= i64::from(packet.len);
        if *deficit < 0 {
            *deficit += leaf.quantum(turn.distance) as i64;
            self.move_on();
        }
        if emptied {
            self.deactivate(turn.leaf);
        }
        if turn.distance > 0 {
            let lender = self.path[self.steps - turn.distance].class;
            self.classes[lender as usize].lent += u64::from(packet.len);
            self.classes[turn.leaf as usize].lent += u64::from(packet.len);
        }
        let mut class = turn.leaf;
        let now = self.now;
        while class != 0 {
            let known = &mut self.classes[class as usize];
            let (parent, level, before) = self.borrowing.place_of(class);
            if level >= turn.level {
                known.assured.refill(now);
                known.assured.take(packet.len);
            }
            if let Some(ceiling) = &mut known.ceiling {
                ceiling.refill(now);
                ceiling.take(packet.len);
            }
            if known.pool != NIL {
                self.lenders[known.pool as usize].sent(now, packet.len, known.busy > 0);
            }
            if known.busy > 0 {
                let colour = known.colour(now, before);
                if colour != before {
                    self.change(class, colour);
                }
            }
            class = parent;
        }
        Some(packet)
    }
}

impl PlainIn for Htb {
    #[inline(always)]
    fn push_plain(&mut self, batch: &[Packet]) -> usize {
        push_behind(&mut self.classes, |class| &mut class.queue, &mut self.slab, self.max_packet, batch)
    }

    #[inline(always)]
    fn push_any(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue(now, packet, drops);
    }
}

impl Scheduler for Htb {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let class = packet.class.0;
        let Some(known) = self.classes.get_mut(packet.class.index()).filter(|known| known.leaf) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        let was_empty = known.queue.is_empty();
        if known.queue.enqueue(&mut self.slab, now, packet, drops) && was_empty {
            self.activate(class);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        self.turn_colours();
        // Each time round, a class is denied by its pool and taken out.
        while let Some((level, priority)) = self.borrowing.lowest() {
            if let Some(turn) = self.descend(level, priority) {
                let packet = self.send(turn, drops);
                return Dequeued::Packet(packet.expect("a leaf that is in a set has packets"));
            }
        }
        match self.blocked.first() {
            Some((_, due)) if self.slab.queued() > 0 => Dequeued::WaitUntil(Nanos(due as u64)),
            _ => Dequeued::Idle,
        }
    }

    fn enqueue_batch(&mut self, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
        if self.looks_ahead {
            self.look_ahead_of(batch);
        }
        self.now = self.now.max(now);
        push_runs(self, now, batch, drops);
    }

    fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.classes.get(class.index()).map_or(Amount::default(), |known| known.queue.backlog(&self.slab))
    }

    fn retune(&mut self, now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        if !self.borrowing.fits(&with.borrowing)
            || (self.common, self.max_packet) != (with.common, with.max_packet)
            || !self.slab.fits(&with.slab)
            || !self
                .classes
                .iter()
                .zip(with.classes.iter())
                .all(|(mine, theirs)| mine.queue.fits(&theirs.queue) && (mine.pool == NIL) == (theirs.pool == NIL))
        {
            return false;
        }
        self.now = self.now.max(now);
        self.turn_colours();
        self.slab.retune(&mut with.slab);
        if self.blocked.ids() < with.blocked.ids() {
            // There was no ceiling, so it is empty.
            core::mem::swap(&mut self.blocked, &mut with.blocked);
        }
        for (mine, theirs) in self.classes.iter_mut().zip(with.classes.iter()) {
            mine.queue.retune(&theirs.queue);
            (mine.quantum, mine.own_quantum) = (theirs.quantum, theirs.own_quantum);
            for (distance, deficit) in self.deficits[mine.deficits()].iter_mut().enumerate() {
                *deficit = (*deficit).min(mine.quantum(distance) as i64);
            }
        }
        for (class, theirs) in (0u32..).zip(with.classes.iter()) {
            let mine = &mut self.classes[class as usize];
            if mine.pool != NIL {
                core::mem::swap(&mut self.lenders[mine.pool as usize], &mut with.lenders[theirs.pool as usize]);
            }
            mine.assured.retune(self.now, &theirs.assured);
            mine.ceiling = match (mine.ceiling.take(), &theirs.ceiling) {
                (Some(mut ceiling), Some(theirs)) => {
                    ceiling.retune(self.now, theirs);
                    Some(ceiling)
                }
                (_, theirs) => *theirs,
            };
            if class == 0 || mine.busy == 0 {
                continue;
            }
            // Pools are asked again, and the noted times are those of the previous rates.
            let colour = mine.colour(self.now, Standing::Borrows);
            self.borrowing.stand(class, colour);
            self.watch(class);
        }
        true
    }

    /// The pool's state of this link's classes belongs to the pool, and stays.
    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for (id, class) in self.classes.iter_mut().enumerate() {
            class.queue.purge(&mut self.slab, ClassId(id as u32), now, drops);
            (class.busy, class.lent) = (0, 0);
            class.assured.reset();
            class.ceiling.iter_mut().for_each(Bucket::reset);
        }
        self.deficits.fill(0);
        self.borrowing.clear();
        self.cursors.fill(0);
        self.yellow.clear();
        self.blocked.clear();
    }

    fn class_state(&self, class: ClassId) -> Option<&'static str> {
        let known = self.classes.get(class.index())?;
        let owes = |bucket: &Bucket| bucket.ready_at() > self.now;
        Some(match known {
            _ if class == ClassId::ROOT => "green",
            Class { ceiling: Some(ceiling), .. } if owes(ceiling) => "red",
            Class { assured, .. } if owes(assured) => "yellow",
            _ => "green",
        })
    }

    fn for_each_counter(&self, classes: Range<usize>, visit: &mut dyn FnMut(ClassId, &'static str, u64)) {
        for (index, class) in self.classes.iter().enumerate().take(classes.end).skip(classes.start) {
            visit(ClassId(index as u32), if class.leaf { "borrowed_bytes" } else { "lent_bytes" }, class.lent);
            if let Some(bps) = self.lenders.get(class.pool as usize).and_then(|lender| lender.metered_bps()) {
                visit(ClassId(index as u32), "slot_rate_bps", bps);
            }
        }
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let of = |leaf: bool| self.classes.iter().filter(move |class| class.leaf == leaf);
        let [borrowed, lent] = [true, false].map(|leaf| of(leaf).map(|class| class.lent).sum::<u64>());
        if borrowed != lent {
            return Err(format!("{borrowed} B were borrowed and {lent} B lent"));
        }
        self.borrowing.check()?;
        self.yellow.check()?;
        self.blocked.check()?;
        for (index, class) in self.classes.iter().enumerate().skip(1) {
            let id = index as u32;
            let (busy, colour) = (class.busy, self.borrowing.standing(id));
            let watched = (self.yellow.contains(id), self.blocked.contains(id));
            let right = match colour {
                _ if busy == 0 => watched == (false, false),
                Standing::Lends => watched == (false, false),
                Standing::Borrows => watched == (true, false) || self.assured_never(id),
                Standing::Stays | Standing::Stops => watched == (false, true),
            };
            if !right {
                return Err(format!("class {id}: {colour:?}, backlog below {busy}, watched {watched:?}"));
            }
            if let Some(ceiling) = &class.ceiling
                && !ceiling.is_ready()
                && ceiling.level_bytes() < -i64::from(self.max_packet)
            {
                return Err(format!("class {id} owes its ceiling {} B", -ceiling.level_bytes()));
            }
            if class.leaf {
                if class.queue.is_empty() != (busy == 0) {
                    return Err(format!("leaf {id}: busy {busy} with {:?}", class.queue.backlog(&self.slab)));
                }
                let counters = &self.deficits[class.deficits()];
                let wrong =
                    |(distance, &deficit): (usize, &i64)| deficit < 0 || deficit as u64 > class.quantum(distance);
                if counters.iter().enumerate().any(wrong) {
                    let quanta = [class.own_quantum, class.quantum];
                    return Err(format!("leaf {id}: deficits {counters:?} of quanta of {quanta:?}"));
                }
            }
        }
        Ok(())
    }
}
