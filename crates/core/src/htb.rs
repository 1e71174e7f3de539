//! `htb` and `htb-common-deficit`: Hierarchical Token Bucket as \[htb\] and the appendix of \[hls\] tell it.
//!
//! Every class has an assured bucket, and a ceiling bucket where it has a ceiling. A class is *green* while its assured bucket
//! has tokens, *yellow* when only its ceiling lets it send, *red* when its ceiling does not. A leaf sends at the expense of
//! its *lender*: itself when it is green, else its nearest green ancestor, if no class on the way is red. The lowest level of
//! lenders goes first, within it the smallest number of priority, within that Deficit Round Robin over the leaves.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | AR_i, assured rate ("rate") | [`Plan::assured`], `Class::assured` | bit/s; tokens of 10^-9 bit |
//! | CR_i, ceiling rate ("ceil") | `Class::ceiling`, none where the user gives none | bit/s |
//! | burst, cburst | `burst`, `ceiling_burst`, else [`Plan::default_depth`] | bytes |
//! | level(i): 0 for a leaf, else 1 + the children's largest | `Class::level` | |
//! | prio | [`Plan::priorities`] | 0 is served first |
//! | quantum | [`Plan::quanta`] | bytes |
//! | "separate deficits" | `deficits`, one per leaf and lender | bytes |
//!
//! **Rings.** A leaf can be found from the root through sets of children. The set of (class, level, priority) holds, for a
//! level below the class's own, the children through which a lender of that level can be reached; for its own level, its yellow
//! children, to which it lends. A class that changes colour moves itself between two sets of its parent, and takes all leaves
//! below it along. A class whose set became empty leaves its parent's sets. Each set has a cursor; a visit that ends moves the
//! cursor on, at the end of a set also that of the set above: together the cursors walk over the leaves of a level and
//! priority as one round robin does. A class that turns green and comes back before its set was looked at finds its turn kept.
//!
//! **Cost per packet.** O(levels) walks with O(log n) to the base 64 at each, and O(log n) in a heap for each class whose
//! bucket ran empty. Changes of colour that are due are worked off on the next call: at most one per class that a packet
//! turned yellow or red before. Memory: a set of children per class, level below it, and priority in use.
//!
//! **Invariants.** A set has a child exactly when the child's colour and its own sets say so. 0 <= deficit <= quantum. Only
//! classes with backlog below them are in the heaps, and all of these that are not green are. A ceiling bucket is in debt by at
//! most one packet.
//!
//! **Bounds.** At every class with a ceiling W(s, t] <= ceiling (t - s) + ceiling_burst + L_max. A leaf keeps its guarantee up to
//! [`Plan::guarantee_lag`]. What is borrowed is shared by the quanta of leaves, so that a class gets the more the fewer leaves it
//! bundles its guarantee in: no isolation between branches (\[hls\] Section VIII-B, experiment 2).
//!
//! **Overflow budget.** Buckets: see [`bucket`](crate::bucket). Quanta are below 2^52, deficits between minus a packet and a quantum.
//!
//! **Validation.** The measurements of \[htb\], the direction of experiment 2 of \[hls\] against figures of the kernel's HTB, and the
//! bounds above as property tests: `htb/tests.rs`.
//!
//! DIFFERENCE: a red ancestor stops green leaves, too. The texts let a green class always send; a ceiling would then not be one
//! where bursts or guarantees below it add up to more.
//! DIFFERENCE: tokens are taken from the assured buckets of the lender and of all classes above it, whatever their colour. The
//! appendix of \[hls\] leaves yellow ancestors out, which would let a class borrow what its children were already guaranteed.
//! DIFFERENCE: a class has tokens while it is not in debt, so that a packet of any length can be sent; a bucket may owe one
//! packet. The appendix wants tokens for the whole packet.
//! DIFFERENCE: the tree need not be complete. \[htb\] mandates leaves of equal depth.
//! DIFFERENCE: the root is always green, as \[hls\] has it for a work-conserving scheduler; the driver paces the link.
//! DIFFERENCE: a visit of DRR begins with what the last one left and ends with the quantum: the packet that exhausts the deficit is
//! still sent. With quanta of at least the largest packet every visit sends, and a leaf gets the same over several rounds.

mod plan;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use plan::{PRIORITIES, Plan, ROUND, ROUND_PACKETS};

use crate::bits;
use crate::bucket::Bucket;
use crate::heap::Heap;
use crate::hierarchy::{Feature, Hierarchy, MAX_DEPTH};
use crate::packet::{ClassId, Packet};
use crate::pool::Lender;
use crate::queue::{LeafQueue, PacketSlab};
use crate::registry::{BuildError, SchedulerInfo, WorkConserving};
use crate::scheduler::{Backlog, Dequeued, DropReason, DropSink, Scheduler};
use crate::units::Nanos;

/// What `htb` is and supports.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "htb",
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
    ],
    work_conserving: WorkConserving::UnlessLimited,
    cost: "O(levels * log leaves)",
    bounds: &[],
    build: |tree| Ok(Box::new(Htb::new(tree, Deficits::PerLevel, Vec::new())?)),
};

/// What `htb-common-deficit` is and supports.
pub const COMMON_DEFICIT: SchedulerInfo = SchedulerInfo {
    name: "htb-common-deficit",
    summary: "HTB before 9.9.2001: one deficit per leaf for all levels, which shares less exactly",
    build: |tree| Ok(Box::new(Htb::new(tree, Deficits::Common, Vec::new())?)),
    ..INFO
};

/// How many deficits a leaf has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deficits {
    /// One for each class that it may borrow from: `htb`.
    PerLevel,
    /// One: `htb-common-deficit`, whose sharing \[htb\] found to be off by 10 to 20 %.
    Common,
}

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    Green,
    Yellow,
    /// Yellow, and the pool that it borrows from has said no.
    Denied,
    Red,
}

#[derive(Debug)]
struct Class {
    assured: Bucket,
    ceiling: Option<Bucket>,
    parent: u32,
    /// Among the parent's children.
    position: u32,
    /// The children, in `Htb::children`.
    first_child: u32,
    children: u32,
    /// Index of the first of its sets among all sets, in `Htb::cursors`; for a leaf, in `Htb::leaves`.
    first_set: u32,
    /// Where its first set lies in `Htb::words`, and the words of each.
    first_word: usize,
    words: u32,
    /// Leaves: 1 with backlog. Others: children that are not 0.
    busy: u32,
    /// Index of its lender in `Htb::lenders`.
    pool: u32,
    level: u8,
    priority: u8,
    colour: Colour,
}

#[derive(Debug)]
struct Leaf {
    queue: LeafQueue,
    quantum: u64,
    /// The first of its deficits, in `Htb::deficits`.
    deficits: usize,
}

/// One step down from a class, through its set for lenders of `level`, to the child at `position`.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    class: u32,
    position: u32,
    level: u8,
}

/// The way from the root to a leaf of a given priority.
struct Path {
    steps: [Step; MAX_DEPTH],
    len: usize,
    leaf: u32,
    /// Level of the lender.
    level: u8,
    priority: u8,
    /// Steps from the lender down to the leaf.
    distance: usize,
}

/// Hierarchical Token Bucket.
#[derive(Debug)]
pub struct Htb {
    classes: Vec<Class>,
    children: Vec<u32>,
    leaves: Vec<Leaf>,
    deficits: Vec<i64>,
    common: bool,
    words: Vec<u64>,
    cursors: Vec<u32>,
    /// Priorities in use: one more than the largest number.
    priorities: u8,
    /// The root's sets that are not empty, by level and priority.
    ready: Vec<u64>,
    /// By class: when its assured bucket may be out of debt.
    yellow: Heap,
    /// By class: when its ceiling is out of debt, or its pool can be asked again.
    blocked: Heap,
    lenders: Vec<Box<dyn Lender>>,
    slab: PacketSlab,
    max_packet: u32,
    now: Nanos,
}

impl Htb {
    /// A scheduler for `tree`. Each class of `members`, a child of the root, borrows from its lender instead of the link.
    ///
    /// # Errors
    /// [`BuildError::Parameter`] as [`Plan::of`], for a member that is not a child of the root or named twice, and for a tree whose
    /// sets are too many to count in 32 bits.
    pub fn new(
        tree: &Hierarchy,
        deficits: Deficits,
        members: Vec<(ClassId, Box<dyn Lender>)>,
    ) -> Result<Self, BuildError> {
        let plan = Plan::of(tree)?;
        let priorities = tree.leaves().iter().map(|leaf| plan.priorities[leaf.index()]).max().unwrap_or(0) + 1;
        let link = tree.link();
        let mut levels = alloc::vec![0u8; tree.len()];
        for class in tree.classes().rev() {
            if let Some(parent) = tree.parent(class) {
                levels[parent.index()] = levels[parent.index()].max(levels[class.index()] + 1);
            }
        }
        let common = deficits == Deficits::Common;
        let mut htb = Self {
            classes: Vec::with_capacity(tree.len()),
            children: Vec::with_capacity(tree.len()),
            leaves: Vec::with_capacity(tree.leaves().len()),
            deficits: Vec::new(),
            common,
            words: Vec::new(),
            cursors: Vec::new(),
            priorities,
            ready: alloc::vec![0; bits::words(READY)],
            yellow: Heap::new(tree.len()),
            blocked: Heap::new(tree.len()),
            lenders: Vec::with_capacity(members.len()),
            slab: PacketSlab::for_tree(tree),
            max_packet: link.max_packet,
            now: Nanos::ZERO,
        };
        let (mut sets, mut words, mut counters) = (0u64, 0usize, 0usize);
        for (index, &level) in levels.iter().enumerate() {
            let class = ClassId(index as u32);
            let config = tree.config(class);
            let rate = plan.assured[index];
            let depth = config.burst.unwrap_or_else(|| plan.default_depth(rate));
            let ceiling = config.ceiling.map(|ceiling| {
                Bucket::new(ceiling, config.ceiling_burst.unwrap_or_else(|| plan.default_depth(ceiling)))
            });
            let children = tree.children(class);
            let own_words = if level == 0 { 0 } else { bits::words(children.len()) };
            let own_sets = if level == 0 { 0 } else { (usize::from(level) + 1) * usize::from(priorities) };
            htb.classes.push(Class {
                assured: Bucket::new(rate, depth),
                ceiling,
                parent: tree.parent(class).map_or(NIL, |parent| parent.0),
                position: 0,
                first_child: htb.children.len() as u32,
                children: children.len() as u32,
                first_set: if level == 0 { htb.leaves.len() as u32 } else { sets as u32 },
                first_word: words,
                words: own_words as u32,
                busy: 0,
                pool: NIL,
                level,
                priority: plan.priorities[index],
                colour: Colour::Green,
            });
            htb.children.extend(children.iter().map(|child| child.0));
            if level == 0 {
                let queue = htb.slab.queue_for(tree, class);
                htb.leaves.push(Leaf { queue, quantum: plan.quanta[index], deficits: counters });
                counters += if common { 1 } else { tree.depth(class) + 1 };
            }
            sets += own_sets as u64;
            words += own_sets * own_words;
            if sets > u64::from(u32::MAX) {
                let max = u64::from(u32::MAX);
                return Err(BuildError::Parameter { class, what: "number of sets", value: sets, min: 0, max });
            }
        }
        for parent in 0..htb.classes.len() {
            let Class { first_child, children, .. } = htb.classes[parent];
            for position in 0..children {
                let child = htb.children[(first_child + position) as usize];
                htb.classes[child as usize].position = position;
            }
        }
        htb.deficits = alloc::vec![0; counters];
        htb.words = alloc::vec![0; words];
        htb.cursors = alloc::vec![0; sets as usize];
        for (class, lender) in members {
            let known = htb.classes.get_mut(class.index()).filter(|known| known.parent == 0 && known.pool == NIL);
            let Some(known) = known else {
                let (value, max) = (u64::from(class.0), tree.len() as u64);
                return Err(BuildError::Parameter { class, what: "member of a pool", value, min: 1, max });
            };
            known.pool = htb.lenders.len() as u32;
            htb.lenders.push(lender);
        }
        Ok(htb)
    }

    /// The set of `class` for lenders of `level` and for `priority`: its number, and where its words are.
    fn set(&self, class: u32, level: u8, priority: u8) -> (u32, core::ops::Range<usize>) {
        let class = &self.classes[class as usize];
        let number = u32::from(level) * u32::from(self.priorities) + u32::from(priority);
        let start = class.first_word + number as usize * class.words as usize;
        (class.first_set + number, start..start + class.words as usize)
    }

    /// The level of the parent's set that `class` belongs in with what it offers at `level`; `None` when in none.
    fn place(&self, class: u32, level: u8) -> Option<u8> {
        let class = &self.classes[class as usize];
        match class.colour {
            Colour::Red => None,
            _ if level < class.level => Some(level),
            Colour::Green => Some(level),
            Colour::Yellow => Some(self.classes[class.parent as usize].level),
            Colour::Denied => None,
        }
    }

    /// `class` has something to send at `level` and `priority`: puts it into its parent's set, and so on upwards.
    fn link(&mut self, mut class: u32, mut level: u8, priority: u8) {
        while let Some(above) = self.place(class, level) {
            let Class { parent, position, .. } = self.classes[class as usize];
            let size = self.classes[parent as usize].children as usize;
            let words = self.set(parent, above, priority).1;
            if !bits::insert(&mut self.words[words], size, position as usize) {
                return;
            }
            if parent == 0 {
                bits::insert(&mut self.ready, READY, ready(above, priority));
                return;
            }
            (class, level) = (parent, above);
        }
    }

    /// The reverse of [`Htb::link`].
    fn unlink(&mut self, mut class: u32, mut level: u8, priority: u8) {
        while let Some(above) = self.place(class, level) {
            let Class { parent, position, .. } = self.classes[class as usize];
            let size = self.classes[parent as usize].children as usize;
            let words = self.set(parent, above, priority).1;
            if !bits::remove(&mut self.words[words], size, position as usize) {
                return;
            }
            if parent == 0 {
                bits::remove(&mut self.ready, READY, ready(above, priority));
                return;
            }
            (class, level) = (parent, above);
        }
    }

    /// Whether `class` has something to send at `level` and `priority`.
    fn offers(&self, class: u32, level: u8, priority: u8) -> bool {
        let known = &self.classes[class as usize];
        if known.level == 0 {
            return known.busy > 0 && known.priority == priority;
        }
        !bits::is_empty(&self.words[self.set(class, level, priority).1])
    }

    /// Gives `class` another colour, moving it with all below it.
    fn paint(&mut self, class: u32, colour: Colour) {
        let Class { colour: old, level, .. } = self.classes[class as usize];
        // What lies below its own level passes through it unless it is red.
        let lowest = if old == Colour::Red || colour == Colour::Red { 0 } else { level };
        for turn in [Self::unlink, Self::link] {
            for at in lowest..=level {
                for priority in 0..self.priorities {
                    if self.offers(class, at, priority) {
                        turn(self, class, at, priority);
                    }
                }
            }
            self.classes[class as usize].colour = colour;
        }
    }

    /// The colour of `class` by its buckets, brought up to now.
    fn colour(&mut self, class: u32) -> Colour {
        let known = &mut self.classes[class as usize];
        known.assured.refill(self.now);
        let red = known.ceiling.as_mut().is_some_and(|ceiling| {
            ceiling.refill(self.now);
            !ceiling.is_ready()
        });
        match known.colour {
            _ if red => Colour::Red,
            _ if known.assured.is_ready() => Colour::Green,
            Colour::Denied => Colour::Denied,
            _ => Colour::Yellow,
        }
    }

    /// Notes when `class`, which has backlog below it, may change its colour without sending.
    fn watch(&mut self, class: u32) {
        let known = &self.classes[class as usize];
        let assured = u128::from(known.assured.ready_at().0);
        match (known.colour, &known.ceiling) {
            (Colour::Green, _) => {
                self.yellow.remove(class);
                self.blocked.remove(class);
            }
            (Colour::Red, Some(ceiling)) => {
                self.yellow.remove(class);
                self.blocked.set(class, u128::from(ceiling.ready_at().0));
            }
            // A pool's answer is good until a time that is already noted.
            (Colour::Denied, _) => {}
            _ => {
                self.blocked.remove(class);
                self.yellow.set(class, assured);
            }
        }
    }

    /// Brings the colour of `class`, which has backlog below it, up to now.
    fn update(&mut self, class: u32) {
        let colour = self.colour(class);
        if colour != self.classes[class as usize].colour {
            self.paint(class, colour);
            self.watch(class);
        }
    }

    /// Works off the changes of colour that are due.
    fn turn_colours(&mut self) {
        let now = u128::from(self.now.0);
        while let Some((class, due)) = self.blocked.first()
            && due <= now
        {
            self.blocked.remove(class);
            if self.classes[class as usize].colour == Colour::Denied {
                // Asked again when it is its turn.
                self.paint(class, Colour::Yellow);
                self.watch(class);
            }
            self.update(class);
        }
        while let Some((class, due)) = self.yellow.first()
            && due <= now
        {
            self.yellow.remove(class);
            self.update(class);
            if self.classes[class as usize].colour == Colour::Yellow && !self.assured_never(class) {
                // It owes more than it did when this was noted.
                self.watch(class);
            }
        }
    }

    /// Whether the assured bucket of `class` is in debt until the end of time.
    fn assured_never(&self, class: u32) -> bool {
        self.classes[class as usize].assured.ready_at() <= self.now
    }

    /// `leaf` has got its first packet: it, and classes above it without backlog until now, take part again.
    fn activate(&mut self, leaf: u32) {
        let mut class = leaf;
        while class != 0 {
            let known = &mut self.classes[class as usize];
            known.busy += 1;
            if known.busy > 1 {
                break;
            }
            // None of its sets has anything in it, so that there is nothing to move.
            known.colour = Colour::Yellow;
            let colour = self.colour(class);
            self.classes[class as usize].colour = colour;
            self.watch(class);
            class = self.classes[class as usize].parent;
        }
        let priority = self.classes[leaf as usize].priority;
        self.link(leaf, 0, priority);
    }

    /// `leaf` has sent its last packet.
    fn deactivate(&mut self, leaf: u32) {
        let priority = self.classes[leaf as usize].priority;
        self.unlink(leaf, 0, priority);
        let mut class = leaf;
        while class != 0 {
            let known = &mut self.classes[class as usize];
            known.busy -= 1;
            if known.busy > 0 {
                break;
            }
            self.yellow.remove(class);
            self.blocked.remove(class);
            class = self.classes[class as usize].parent;
        }
        let first = self.leaves[self.classes[leaf as usize].first_set as usize].deficits;
        let count = self.deficit_count(leaf);
        self.deficits[first..first + count].fill(0);
    }

    fn deficit_count(&self, leaf: u32) -> usize {
        let index = self.classes[leaf as usize].first_set as usize;
        let end = self.leaves.get(index + 1).map_or(self.deficits.len(), |next| next.deficits);
        end - self.leaves[index].deficits
    }

    /// The way to the leaf whose turn it is among those whose lender is at `level` and that have `priority`; `None` when a class
    /// was found on it that its pool denies.
    fn descend(&mut self, level: u8, priority: u8) -> Option<Path> {
        let mut path = Path { steps: [Step::default(); MAX_DEPTH], len: 0, leaf: 0, level, priority, distance: 0 };
        let (mut class, mut at) = (0, level);
        loop {
            let Class { first_child, children, level: own, .. } = self.classes[class as usize];
            let (set, words) = self.set(class, at, priority);
            let cursor = self.cursors[set as usize] as usize;
            let Some(position) = bits::next(&self.words[words], children as usize, cursor) else {
                // The last of this round has left the set: those above move on, too, and we start again.
                self.cursors[set as usize] = 0;
                self.move_on(&path);
                (path.len, path.distance) = (0, 0);
                (class, at) = (0, level);
                continue;
            };
            path.steps[path.len] = Step { class, position: position as u32, level: at };
            path.len += 1;
            let child = self.children[first_child as usize + position];
            let Class { pool, level: below, .. } = self.classes[child as usize];
            if at == own {
                // From the lender down, what is below borrows.
                if class == 0 && pool != NIL && !self.ask(child) {
                    return None;
                }
                path.distance += 1;
                at = below;
            }
            if below == 0 {
                path.leaf = child;
                return Some(path);
            }
            class = child;
        }
    }

    /// Moves the cursor beyond the last step of `path`, at the end of a set also that of the set above.
    fn move_on(&mut self, path: &Path) {
        for &Step { class, position, level } in path.steps[..path.len].iter().rev() {
            let (set, words) = self.set(class, level, path.priority);
            let size = self.classes[class as usize].children as usize;
            if bits::next(&self.words[words], size, position as usize + 1).is_some() {
                self.cursors[set as usize] = position + 1;
                return;
            }
            self.cursors[set as usize] = 0;
        }
    }

    /// Whether the pool of `class`, a child of the root that borrows, lends to it now. If not, it is taken out until it may be
    /// asked again.
    fn ask(&mut self, class: u32) -> bool {
        let known = &self.classes[class as usize];
        let assured = known.assured.ready_at();
        match self.lenders[known.pool as usize].may_borrow(self.now) {
            Ok(()) => true,
            Err(again) => {
                self.paint(class, Colour::Denied);
                self.yellow.remove(class);
                let next = self.now.saturating_add(Nanos(1));
                self.blocked.set(class, u128::from(again.min(assured).max(next).0));
                false
            }
        }
    }

    /// Sends the head of the leaf at the end of `path`; nothing if it has none, which is never so.
    fn send(&mut self, path: &Path, drops: &mut dyn DropSink) -> Option<Packet> {
        let leaf = &mut self.leaves[self.classes[path.leaf as usize].first_set as usize];
        let packet = leaf.queue.dequeue(&mut self.slab, ClassId(path.leaf), self.now, drops)?;
        let emptied = leaf.queue.is_empty();
        let deficit = &mut self.deficits[leaf.deficits + if self.common { 0 } else { path.distance }];
        *deficit -= i64::from(packet.len);
        if *deficit < 0 {
            *deficit += leaf.quantum as i64;
            self.move_on(path);
        }
        if emptied {
            self.deactivate(path.leaf);
        }
        let mut class = path.leaf;
        while class != 0 {
            let known = &mut self.classes[class as usize];
            if known.level >= path.level {
                known.assured.refill(self.now);
                known.assured.take(packet.len);
            }
            if let Some(ceiling) = &mut known.ceiling {
                ceiling.refill(self.now);
                ceiling.take(packet.len);
            }
            if known.pool != NIL {
                self.lenders[known.pool as usize].sent(self.now, packet.len);
            }
            let Class { busy, parent, .. } = self.classes[class as usize];
            if busy > 0 {
                self.update(class);
            }
            class = parent;
        }
        Some(packet)
    }
}

/// Numbers of sets in `Htb::ready`.
const READY: usize = (MAX_DEPTH + 1) * PRIORITIES as usize;

fn ready(level: u8, priority: u8) -> usize {
    usize::from(level) * usize::from(PRIORITIES) + usize::from(priority)
}

impl Scheduler for Htb {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let class = packet.class.0;
        let Some(known) = self.classes.get(packet.class.index()).filter(|known| known.level == 0) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        let queue = &mut self.leaves[known.first_set as usize].queue;
        if queue.enqueue(&mut self.slab, now, packet, drops) && self.classes[class as usize].busy == 0 {
            self.activate(class);
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        self.turn_colours();
        // Each time round, a class is denied by its pool and taken out.
        while let Some(first) = bits::next(&self.ready, READY, 0) {
            let (level, priority) = ((first / usize::from(PRIORITIES)) as u8, (first % usize::from(PRIORITIES)) as u8);
            if let Some(path) = self.descend(level, priority) {
                let packet = self.send(&path, drops);
                return Dequeued::Packet(packet.expect("a leaf that is in a set has packets"));
            }
        }
        match self.blocked.first() {
            Some((_, due)) if self.slab.queued() > 0 => Dequeued::WaitUntil(Nanos(due as u64)),
            _ => Dequeued::Idle,
        }
    }

    fn backlog(&self) -> Backlog {
        self.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Backlog {
        let known = self.classes.get(class.index()).filter(|known| known.level == 0);
        known.map_or(Backlog::default(), |known| self.leaves[known.first_set as usize].queue.backlog())
    }

    /// What a pool knows of this link's classes is the pool's, and stays.
    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for (id, class) in self.classes.iter_mut().enumerate() {
            if class.level == 0 {
                let queue = &mut self.leaves[class.first_set as usize].queue;
                queue.purge(&mut self.slab, ClassId(id as u32), now, drops);
            }
            class.busy = 0;
            class.assured.reset();
            class.ceiling.iter_mut().for_each(Bucket::reset);
        }
        self.deficits.fill(0);
        self.words.fill(0);
        self.cursors.fill(0);
        self.ready.fill(0);
        self.yellow.clear();
        self.blocked.clear();
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.yellow.check()?;
        self.blocked.check()?;
        for (index, class) in self.classes.iter().enumerate().skip(1) {
            let id = index as u32;
            let watched = (self.yellow.contains(id), self.blocked.contains(id));
            let right = match class.colour {
                _ if class.busy == 0 => watched == (false, false),
                Colour::Green => watched == (false, false),
                Colour::Yellow => watched == (true, false) || self.assured_never(id),
                Colour::Denied | Colour::Red => watched == (false, true),
            };
            if !right {
                return Err(format!(
                    "class {id} is {:?}, backlog below {}, watched {watched:?}",
                    class.colour, class.busy
                ));
            }
            self.check_sets(id)?;
            if class.level == 0 {
                let leaf = &self.leaves[class.first_set as usize];
                if leaf.queue.is_empty() != (class.busy == 0) {
                    return Err(format!("leaf {id}: busy {} with {:?}", class.busy, leaf.queue.backlog()));
                }
                let counters = &self.deficits[leaf.deficits..leaf.deficits + self.deficit_count(id)];
                if counters.iter().any(|&deficit| deficit < 0 || deficit as u64 > leaf.quantum) {
                    return Err(format!("leaf {id}: deficits {counters:?} of a quantum of {}", leaf.quantum));
                }
            }
        }
        Ok(())
    }
}

impl Htb {
    /// Checks that `class` is in its parent's sets exactly where it should be.
    fn check_sets(&self, class: u32) -> Result<(), String> {
        let Class { parent, position, level, ref ceiling, .. } = self.classes[class as usize];
        for priority in 0..self.priorities {
            for above in 0..=self.classes[parent as usize].level {
                let is = bits::contains(&self.words[self.set(parent, above, priority).1], position as usize);
                let offers = |at: u8| self.place(class, at) == Some(above) && self.offers(class, at, priority);
                let should = (0..=level).any(offers);
                if is != should {
                    return Err(format!("class {class} in the set of level {above}, priority {priority}: {is}"));
                }
            }
        }
        match ceiling {
            Some(ceiling) if !ceiling.is_ready() && ceiling.level_bytes() < -i64::from(self.max_packet) => {
                Err(format!("class {class} owes its ceiling {} B", -ceiling.level_bytes()))
            }
            _ => Ok(()),
        }
    }
}
