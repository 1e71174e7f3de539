//! `hvt`: hierarchical virtual time, a scheduler of our own: the shares of [`hls`](crate::schedulers::hls) with the delay of
//! WF2Q+.
//!
//! Each inner class has a virtual clock of the bytes that it sends. A child is eligible when its start tag is not ahead of
//! the clock of its parent. At each dequeue, from the root down, every class chooses the eligible child with the earliest
//! deadline. No choice is made before the link is free. The leaf that is reached sends its packet, whose length is charged
//! to all classes above it. `docs/hvt.md` has the proofs.
//!
//! # Names
//!
//! | docs/hvt.md | here | unit |
//! | --- | --- | --- |
//! | w_c, W_p | `virtual_time::child_weights`, and their sum | |
//! | k_p | chosen by `Scale::new` | |
//! | inv_c = ceil(2^k / w_c) | `Member::inverse` | 2^-k byte per weight, for each byte |
//! | v_p = floor(2^k / W_p) | `Node::rate` | the same |
//! | S_c, start tag | `Member::tag` | 2^-k byte per weight |
//! | V_p, virtual time | `Node::v` | the same |
//! | D_c = L inv_c | `Member::distance` | the same |
//! | D_g, h_g of a wheel | `Group::distance`, `Group::width` | the same |
//!
//! # The queue of a class
//!
//! Children of one weight are a list in the order of their tags, which is that of their deadlines. Of up to 24
//! children the first ones of all lists are compared: the choice is exact. More are in the groups of a wheel
//! (`hvt/wheel.rs`), which are compared in the same way. Of equal deadlines that of the larger weight is first, of one weight
//! the one that came first.
//!
//! # A packet in transmission
//!
//! A leaf whose last packet was dequeued counts as backlogged until the next dequeue, and with it the classes above it that
//! have nothing else: they are *held*. A packet that arrives meanwhile continues their backlog, so that their tags stay.
//! A class of which no child is left in the queue starts anew: its clock moves beyond the tags of all its children.
//!
//! # A packet alone
//!
//! A packet that comes while nothing else is queued is not put into the queues of a tree with lists only and without ceilings
//! and latency-critical leaves. If it is still alone when it leaves, tags and clocks move as if it had been there.
//!
//! # Classes that come and go
//!
//! A change of the classes keeps the state of those that stay, in one pass over the classes (`hvt/adopt.rs`). A single
//! leaf is added or removed without it: [`Hvt::add_leaf`].
//!
//! # Cost per packet
//!
//! At each level, as many comparisons as siblings have different weights; in a wheel, half octaves of them, 63 at most. A
//! child with a tag in the middle of its list, of 24 at most, finds its place from the front.
//!
//! # Invariants
//!
//! The tag of a child in the queue is at most D_c less L v_p (in a wheel: and h_g) ahead of V_p, and at most D_c (D_g) behind
//! it. Urgent packets of latency-critical leaves add to both (`hvt/lateness.rs`). An inner class is in the queue of its
//! parent exactly if one of its children is in its own and it is not blocked.
//!
//! # Overflow budget
//!
//! D_c is at most 2^60 (`hvt/scale.rs`), so that tags of 64 bits may wrap: the tag of a backlogged class is within 2^62 of
//! the clock. A class that is not in the queue has the count of 2^60 units (`era`) in which it left; if two have begun since,
//! its tag is in the past. The count itself wraps after 2^92 units;
//! a tag from just then may count as ahead, by twice D_c.
//!
//! # Differences
//!
//! `DIFFERENCE`: weights are as run, w' = 2^k / inv and W' = 2^k / v, so that shares of siblings add up to 1 at most.
//! They differ from the weights of the tree by less than 2^-16, mostly by 2^-24. A weight that is too small beside those of
//! its siblings for tags of 64 bits runs as the least that fits: L 2^-43 of all, which is 2^-32 for packets of 1500 B.

use alloc::vec::Vec;
use core::any::Any;

use crate::bases::batches::{PlainIn, Served, fill, look_ahead, push_behind, push_runs, slots_within};
use crate::contract::{
    Amount, BatchEnd, ClassId, Delay, Dequeued, DropReason, DropSink, Fairness, Feature, Hierarchy, Nanos, OutOfMemory,
    Packet, Promises, Scheduler, SchedulerInfo, Sharing, WorkConserving, boxed, same_kind,
};
use crate::queue::{LeafQueue, PacketSlab};

mod adopt;
mod bounds;
mod ceilings;
#[cfg(feature = "invariants")]
mod check;
mod lateness;
mod leaving;
mod list;
mod place;
mod queues;
mod reweigh;
mod scale;
mod single;
#[cfg(test)]
mod tests;
mod urgent;
mod wheel;

use ceilings::Ceilings;
use lateness::Lateness;
use list::Entry;
use place::{LEAF, Place, State};
use queues::Queues;
pub use single::SingleError;
use urgent::Urgent;

/// Registry entry of `hvt`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "hvt",
    aliases: &[],
    paper: "hvt",
    summary: "hierarchical virtual time: max-min fair, each packet by virtual deadlines",
    features: &[
        Feature::Hierarchy,
        Feature::Ceiling,
        Feature::CeilingBurst,
        Feature::LatencyCritical,
        Feature::LatencyBurst,
        Feature::ActiveQueue,
        Feature::PushOut,
    ],
    work_conserving: WorkConserving::UnlessLimited,
    cost: "O(levels)",
    sharing: Sharing::Siblings,
    promises: Promises {
        fairness: Some(Fairness::Clocks(bounds::slacks)),
        delay: Some(Delay::LatencyRate(bounds::delays)),
        delay_in_order: true,
        ..Promises::NONE
    },
    memory: Hvt::memory,
    build: |tree, _| boxed(Hvt::new(tree)?),
};

/// Largest number of children that are scanned.
const SCANNED: usize = 24;
const ROOT: u32 = 0;
const NIL: u32 = u32::MAX;
/// A count of these many units of virtual time, 2 to this power, is an era.
const ERA: u32 = 60;

/// A class as a child of its parent.
#[derive(Clone, Copy, Debug)]
struct Member {
    tag: u64,
    inverse: u64,
    place: Place,
    /// In a slot of a wheel: the next child there. While the class is not in the queue: the era in which it left.
    link: u32,
}

impl Member {
    const NONE: Self = Self { tag: 0, inverse: 0, place: Place::new(0, 0, 0), link: 0 };

    /// As it was made.
    const fn reset(&mut self) {
        (self.tag, self.link) = (0, 0);
        self.place.reset();
    }

    /// Returns the distance of a deadline from a start tag.
    #[cfg(feature = "invariants")]
    #[inline(always)]
    const fn distance(&self, max_packet: u64) -> u64 {
        self.inverse * max_packet
    }

    /// Returns its tag if it comes into the queue of `node` now: in no case behind its clock. A class is `most` ahead of it
    /// at most; what seems to be more is a tag of long ago.
    #[inline(always)]
    const fn lifted(&self, node: &Node, most: u64) -> u64 {
        let ahead = self.tag.wrapping_sub(node.v);
        let is_past = node.era().wrapping_sub(self.link) >= 2 || ahead > most;
        if is_past { node.v } else { self.tag }
    }
}

/// A class, on one cache line. Of an inner class only the place is used, which says so.
#[derive(Debug)]
#[repr(align(64))]
struct Leaf {
    queue: LeafQueue,
    member: Member,
}

const _: () = assert!(size_of::<Leaf>() == 64);

/// An inner class, on two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Node {
    v: u64,
    rate: u64,
    /// The groups that are not empty. Those of a wheel count from 1, so that 1 is one list.
    on: u64,
    /// The upper bits of the clock.
    high: u32,
    /// Children that are backlogged and not in the queue.
    waiting: u32,
    /// The entry of its group 1.
    entries: u32,
    /// True if it has more than [`SCANNED`] children.
    is_wheel: bool,
    member: Member,
    /// The first list.
    list: Entry,
}

const _: () = assert!(size_of::<Node>() == 128);

impl Node {
    const EMPTY: Self = Self {
        v: 0,
        rate: 0,
        on: 0,
        high: 0,
        waiting: 0,
        entries: 0,
        is_wheel: false,
        member: Member { place: Place::LINK, ..Member::NONE },
        list: Entry::of_wheel(0, 0),
    };

    /// Moves the clock by `units`.
    #[inline(always)]
    const fn advance(&mut self, units: u64) {
        let (v, wraps) = self.v.overflowing_add(units);
        self.v = v;
        self.high = self.high.wrapping_add(wraps as u32);
    }

    /// Moves the clock to a start that is `ahead` of it, if it is.
    #[inline(always)]
    const fn reach(&mut self, ahead: i64) {
        if ahead > 0 {
            self.advance(ahead as u64);
        }
    }

    /// Moves the clock to the start of the first list, if that is ahead, and on as its first child sends `bytes`.
    #[inline(always)]
    const fn serve_first(&mut self, bytes: u64) {
        let (start, was) = (self.list.start, self.v);
        let from = if (start.wrapping_sub(was) as i64) < 0 { was } else { start };
        self.v = from.wrapping_add(bytes * self.rate);
        // It moves by less than half of the numbers.
        self.high = self.high.wrapping_add((self.v < was) as u32);
    }

    /// Counts `bytes` in its tag as a child. Returns the tag.
    #[inline(always)]
    const fn charge(&mut self, bytes: u64) -> u64 {
        self.member.tag = self.member.tag.wrapping_add(bytes * self.member.inverse);
        self.member.tag
    }

    /// Returns the number of the era.
    #[inline(always)]
    const fn era(&self) -> u32 {
        self.high << (u64::BITS - ERA) | (self.v >> ERA) as u32
    }

    /// Returns the clock with its upper bits.
    const fn clock(&self) -> u128 {
        (self.high as u128) << u64::BITS | self.v as u128
    }
}

/// The scheduler.
#[derive(Debug)]
pub struct Hvt {
    queues: Queues,
    slab: PacketSlab,
    /// The leaf of the packet in transmission, if that was its last; [`NIL`] if not.
    last: u32,
    /// The first id of a leaf that was removed; [`NIL`] if none. The next one is in its tag.
    spare: u32,
    /// The leaf of the only packet, which is not in the queues of the classes above it; [`NIL`] if none.
    alone: u32,
    /// True if the tree has no wheels, and is plain: a packet may be alone.
    has_lists: bool,
    /// True if the tree also has a FIFO: batches may have runs.
    has_runs: bool,
    /// True if a leaf is a FIFO.
    has_fifos: bool,
    ceilings: Ceilings,
    urgent: Urgent,
    now: Nanos,
    /// True if no class has a ceiling, no leaf is latency-critical, and no child that is gone counts.
    is_plain: bool,
    /// True if the link has started anew, and no class was in its queue since.
    is_anew: bool,
}

impl Hvt {
    /// Makes a scheduler for `tree`. The tree should have the features of [`INFO`] only. Others are ignored.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        Self::build(tree, 0)
    }

    /// Makes a scheduler for `tree`, with room for as many more leaves as `room`.
    fn build(tree: &Hierarchy, room: usize) -> Result<Self, OutOfMemory> {
        let mut slab = PacketSlab::for_classes(tree, room)?;
        let lateness = Lateness::new(tree)?;
        let queues = Queues::new(tree, &mut slab, &lateness, room)?;
        let ceilings = Ceilings::new(tree, room, |class| queues.child_of(class))?;
        let urgent = Urgent::new(tree, |leaf| lateness.contract(leaf))?;
        let has_fifos = tree.leaves().iter().any(|leaf| queues.leaves[leaf.index()].queue.is_fifo());
        let mut hvt = Self {
            queues,
            slab,
            last: NIL,
            spare: NIL,
            alone: NIL,
            has_lists: false,
            has_runs: false,
            has_fifos,
            ceilings,
            urgent,
            now: Nanos::ZERO,
            is_plain: false,
            is_anew: true,
        };
        hvt.choose_path();
        Ok(hvt)
    }

    /// Decides which of the shorter paths packets may take.
    fn choose_path(&mut self) {
        self.is_plain = self.ceilings.is_empty() && !self.urgent.is_for_any() && self.queues.leaving.is_empty();
        self.has_lists = self.is_plain && self.queues.groups.is_empty();
        self.has_runs = self.has_lists && self.has_fifos;
    }

    /// No longer counts children that are gone, where that is due.
    #[cold]
    fn let_go(&mut self) {
        self.queues.let_go();
        if self.queues.leaving.is_empty() {
            self.choose_path();
        }
    }

    fn memory(tree: &Hierarchy) -> u64 {
        Queues::memory(tree)
            + PacketSlab::memory(tree)
            + Ceilings::memory(tree)
            + Urgent::memory(tree)
            + Lateness::memory(tree)
    }
}

/// Packets that leave.
impl Hvt {
    /// Fills slots until all have a packet, `max_bytes` bytes are sent, or nothing more can be sent now.
    fn serve(&mut self, slots: &mut [Packet], max_bytes: u64, drops: &mut dyn DropSink) -> Served {
        if !self.is_plain {
            return self.serve_special(slots, max_bytes, drops);
        }
        let (mut packets, mut bytes, mut more) = (0, 0, true);
        loop {
            if self.has_runs && self.last == NIL {
                let run = self.run(&mut slots[packets..], max_bytes.saturating_sub(bytes));
                packets += run.0;
                bytes += run.1;
            }
            if bytes >= max_bytes {
                break;
            }
            let Some(slot) = slots.get_mut(packets) else { break };
            let Dequeued::Packet(packet) = self.next_plain(drops) else {
                more = false;
                break;
            };
            packets += 1;
            bytes += u64::from(packet.len);
            *slot = packet;
        }
        Served { packets, bytes, more }
    }

    /// As [`Hvt::serve`], where a class has a ceiling or a leaf is latency-critical.
    #[inline(never)]
    fn serve_special(&mut self, slots: &mut [Packet], max_bytes: u64, drops: &mut dyn DropSink) -> Served {
        let mut served = Served { packets: 0, bytes: 0, more: true };
        for slot in slots {
            if served.bytes >= max_bytes {
                break;
            }
            let Some(packet) = self.next_special(drops) else {
                served.more = false;
                break;
            };
            served.packets += 1;
            served.bytes += u64::from(packet.len);
            *slot = packet;
        }
        served
    }

    /// Fills slots in a plain tree of lists until about `max_bytes` bytes are sent, or a leaf has its turn that is not
    /// a FIFO or has no second packet. No last packet of a leaf is in transmission. Returns the number and the bytes of
    /// the packets.
    ///
    /// [`Hvt::next_plain`] does the same. Here the slab is open, and the cases are few, so that most is in registers.
    #[inline(never)]
    fn run(&mut self, slots: &mut [Packet], max_bytes: u64) -> (usize, u64) {
        let few = slots_within(max_bytes, self.queues.max_packet as u32).min(slots.len());
        let Queues { leaves, nodes, entries, items, .. } = &mut self.queues;
        let (leaves, nodes, entries, items) = (&mut leaves[..], &mut nodes[..], &mut entries[..], &mut items[..]);
        let mut slab = self.slab.open(0);
        let mut slots = slots[..few].iter_mut();
        let mut bytes = 0;
        let unused = loop {
            let Some(slot) = slots.next() else { break 0 };
            let (child, _) = Queues::descend(nodes, entries, ROOT);
            let id = child & !LEAF;
            if child == id {
                break slots.len() + 1;
            }
            let Leaf { queue, member } = &mut leaves[id as usize];
            if !queue.is_fifo() || !queue.has_second() {
                break slots.len() + 1;
            }
            let len = u64::from(queue.len_of_head());
            queue.pop_open(&mut slab, ClassId(id), slot);
            member.tag = member.tag.wrapping_add(len * member.inverse);
            bytes += len;
            Queues::charge_lists(nodes, entries, items, (child, member.tag, member.place), len);
        };
        let packets = few - unused;
        slab.leave(packets as u32, bytes);
        (packets, bytes)
    }

    /// Removes and returns the next packet, where no class has a ceiling and no leaf is latency-critical.
    #[inline(never)]
    fn next_plain(&mut self, drops: &mut dyn DropSink) -> Dequeued {
        if self.last != NIL {
            if self.alone != NIL {
                return Dequeued::Packet(self.send_alone(drops));
            }
            let last = core::mem::replace(&mut self.last, NIL);
            self.queues.settle(last | LEAF, true);
        }
        let Some(id) = self.queues.next_leaf() else {
            return if self.alone == NIL { Dequeued::Idle } else { Dequeued::Packet(self.send_alone(drops)) };
        };
        let (packet, standing, ready) = self.take(id, drops);
        if !ready {
            self.last = id;
        }
        self.queues.charge_plain(id, standing, packet.len.into(), ready);
        Dequeued::Packet(packet)
    }

    /// Removes and returns the only packet. All is as if it had come into the queues and had been chosen there.
    #[inline(never)]
    fn send_alone(&mut self, drops: &mut dyn DropSink) -> Packet {
        let id = core::mem::replace(&mut self.alone, NIL);
        let last = core::mem::replace(&mut self.last, id);
        let queues = &mut self.queues;
        queues.lift(id | LEAF);
        if last != NIL && last != id {
            queues.settle_beside(last | LEAF);
        }
        let Leaf { queue, .. } = &mut queues.leaves[id as usize];
        let Some(packet) = queue.dequeue(&mut self.slab, ClassId(id), self.now, drops) else {
            unreachable!("leaf {id} is alone and has no packet");
        };
        queues.charge_alone(id | LEAF, packet.len.into());
        packet
    }

    /// Puts the leaf of the only packet into the queues, because it is not alone any more.
    #[cold]
    fn join(&mut self) {
        let id = core::mem::replace(&mut self.alone, NIL);
        self.queues.rise(id | LEAF);
    }

    /// Removes and returns the next packet. Returns nothing if no packet can be sent now.
    #[inline(never)]
    fn next_special(&mut self, drops: &mut dyn DropSink) -> Option<Packet> {
        let last = core::mem::replace(&mut self.last, NIL);
        if last != NIL {
            self.queues.settle(last | LEAF, false);
        }
        self.begin_anew(last != NIL);
        if !self.queues.leaving.is_empty() {
            self.let_go();
        }
        if self.ceilings.next().is_some_and(|at| at <= self.now) {
            self.release();
        }
        if self.urgent.any()
            && let Some(packet) = self.send_ahead(drops)
        {
            return Some(packet);
        }
        self.is_anew &= self.queues.nodes[ROOT as usize].on == 0;
        let id = self.descend()?;
        let (packet, (tag, _), ready) = self.take(id, drops);
        self.charge_ceilings(id, packet.len);
        let place = self.queues.leaves[id as usize].member.place;
        if !ready {
            self.last = id;
            if place.is_any(Place::CRITICAL) {
                self.urgent.emptied(id);
            }
        }
        self.queues.charge(id, (tag, place), packet.len.into(), ready);
        Some(packet)
    }

    /// Removes and returns the first packet of the leaf `id`, whose turn it is, with the leaf's tag, in which it is counted, and
    /// its place. True: it has another packet.
    #[inline(always)]
    fn take(&mut self, id: u32, drops: &mut dyn DropSink) -> (Packet, (u64, Place), bool) {
        let Leaf { queue, member } = &mut self.queues.leaves[id as usize];
        let (packet, ready) = queue.dequeue_first(&mut self.slab, ClassId(id), self.now, drops);
        member.tag = member.tag.wrapping_add(u64::from(packet.len) * member.inverse);
        (packet, (member.tag, member.place), ready)
    }

    /// Starts the link anew if no class is in its queue: all are blocked, or all packets are urgent. `settled`: it has just been
    /// done if so.
    fn begin_anew(&mut self, settled: bool) {
        let is_empty = self.queues.nodes[ROOT as usize].on == 0;
        if is_empty && !settled && !self.is_anew {
            self.queues.start_anew(ROOT);
        }
        self.is_anew = is_empty;
    }

    /// Returns the leaf whose turn it is.
    fn descend(&mut self) -> Option<u32> {
        let mut at = ROOT;
        loop {
            let Some(child) = self.queues.pick(at) else {
                if at == ROOT {
                    self.begin_anew(false);
                    return None;
                }
                self.queues.retreat(at);
                at = ROOT;
                continue;
            };
            if self.detour(child) {
                continue;
            }
            if child & LEAF != 0 {
                return Some(child & !LEAF);
            }
            at = child;
        }
    }

    /// Handles a picked child that owes, or has been blocked since it was put into the queue. Returns false for any other.
    fn detour(&mut self, child: u32) -> bool {
        let place = self.queues.member(child).place;
        let owes = child & LEAF == 0 && place.is_any(Place::OWES);
        if owes {
            let owed = self.urgent.settle(child);
            let queues = &mut self.queues;
            queues.take_out(place);
            let member = queues.member_mut(child);
            member.place.clear(Place::OWES);
            member.tag = member.tag.wrapping_add(owed);
        }
        match (place.is_any(Place::BLOCKED), owes) {
            (true, true) => self.queues.leave_waiting(child),
            (true, false) => self.queues.withdraw(child),
            (false, true) => self.queues.put(child),
            (false, false) => return false,
        }
        true
    }
}

/// Classes with ceilings.
impl Hvt {
    /// Returns true if a packet of it waits for its turn, or a child does.
    fn is_ready(&self, child: u32) -> bool {
        if child & LEAF == 0 {
            return self.queues.nodes[child as usize].on != 0;
        }
        let id = child & !LEAF;
        let leaf = &self.queues.leaves[id as usize];
        !leaf.queue.is_empty()
            && id != self.alone
            && (!leaf.member.place.is_any(Place::CRITICAL) || self.urgent.are_all_sent(id))
    }

    /// Lets classes return whose ceilings are out of debt.
    #[cold]
    fn release(&mut self) {
        while let Some(child) = self.ceilings.release(self.now) {
            let place = &mut self.queues.member_mut(child).place;
            place.clear(Place::BLOCKED);
            if place.state() == State::Waiting && self.is_ready(child) {
                self.queues.rise(child);
            }
        }
    }

    /// Charges a packet of `len` bytes to the ceilings at and above the leaf `id`.
    fn charge_ceilings(&mut self, id: u32, len: u32) {
        let Self { ceilings, queues, now, .. } = self;
        ceilings.charge(id, len, *now, |child| queues.member_mut(child).place.set(Place::BLOCKED));
    }

    /// Time at which the next ceiling is out of debt, if packets are queued.
    fn next_release(&self) -> Option<Nanos> {
        self.ceilings.next().filter(|_| self.slab.queued() > 0)
    }
}

/// Latency-critical leaves.
impl Hvt {
    /// Sends the first urgent packet that no ceiling holds back.
    #[cold]
    #[inline(never)]
    fn send_ahead(&mut self, drops: &mut dyn DropSink) -> Option<Packet> {
        while let Some(id) = self.urgent.next() {
            let child = id | LEAF;
            if self.ceilings.above(id).any(|above| self.queues.member(above).place.is_any(Place::BLOCKED)) {
                self.urgent.defer(id);
                self.return_to_turns(child);
                continue;
            }
            let Some(packet) =
                self.queues.leaves[id as usize].queue.dequeue(&mut self.slab, ClassId(id), self.now, drops)
            else {
                self.urgent.emptied(id);
                continue;
            };
            self.charge_ahead(id, packet.len);
            if self.queues.leaves[id as usize].queue.is_empty() {
                self.urgent.emptied(id);
            } else if self.urgent.are_all_sent(id) {
                self.urgent.defer(id);
                self.return_to_turns(child);
            }
            return Some(packet);
        }
        None
    }

    /// Puts a leaf with packets that are not urgent into its queue, unless it is there or waits.
    fn return_to_turns(&mut self, child: u32) {
        if self.is_ready(child) && matches!(self.queues.member(child).place.state(), State::Off | State::Held) {
            self.queues.rise(child);
        }
    }

    /// Charges an urgent packet of the leaf `id` to every class above it that has others to serve.
    fn charge_ahead(&mut self, id: u32, len: u32) {
        self.charge_ceilings(id, len);
        let bytes = u64::from(len);
        let mut child = id | LEAF;
        loop {
            let member = *self.queues.member(child);
            let parent = member.place.parent();
            let node = &mut self.queues.nodes[parent as usize];
            if node.on != 0 {
                let units = bytes * member.inverse;
                if member.place.state() == State::Queued {
                    self.urgent.owe(child, units);
                    self.queues.member_mut(child).place.set(Place::OWES);
                } else {
                    let (v, era) = (node.v, node.era());
                    let ahead = member.lifted(node, 1 << ERA).wrapping_sub(v) + units;
                    let ahead = ahead.min(1 << ERA);
                    let member = self.queues.member_mut(child);
                    (member.tag, member.link) = (v.wrapping_add(ahead), era);
                }
                let node = &mut self.queues.nodes[parent as usize];
                node.advance(bytes * node.rate);
            }
            if parent == ROOT {
                return;
            }
            child = parent;
        }
    }
}

impl PlainIn for Hvt {
    #[inline(never)]
    fn push_plain(&mut self, batch: &[Packet]) -> usize {
        if self.urgent.is_for_any() {
            return 0;
        }
        if self.alone != NIL {
            self.join();
        }
        let Queues { leaves, max_packet, .. } = &mut self.queues;
        push_behind(leaves, |leaf| &mut leaf.queue, &mut self.slab, *max_packet as u32, batch)
    }

    #[inline(always)]
    fn push_any(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue(now, packet, drops);
    }
}

impl Scheduler for Hvt {
    #[inline]
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let (id, len) = (packet.class.0, packet.len);
        let leaf = self.queues.leaves.get_mut(id as usize).filter(|leaf| !leaf.member.place.is_any(Place::INNER));
        let Some(leaf) = leaf else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if u64::from(len) > self.queues.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        if !leaf.queue.enqueue(&mut self.slab, now, packet, drops) {
            return;
        }
        let place = leaf.member.place;
        if place.is_any(Place::CRITICAL) {
            let packets = leaf.queue.backlog(&self.slab).packets;
            if !self.urgent.arrived(id, (len, packets), self.now) {
                self.return_to_turns(id | LEAF);
            }
        } else if matches!(place.state(), State::Off | State::Held) {
            if self.alone != NIL {
                let alone = self.alone;
                self.join();
                if alone == id {
                    return;
                }
            } else if self.slab.queued() == 1 && self.has_lists {
                self.alone = id;
                return;
            }
            self.queues.rise(id | LEAF);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        if self.is_plain {
            return self.next_plain(drops);
        }
        match self.next_special(drops) {
            Some(packet) => Dequeued::Packet(packet),
            None => self.next_release().map_or(Dequeued::Idle, Dequeued::WaitUntil),
        }
    }

    fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.queues.leaves.get(class.index()).map_or(Amount::default(), |leaf| leaf.queue.backlog(&self.slab))
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for (id, leaf) in self.queues.leaves.iter_mut().enumerate() {
            leaf.queue.purge(&mut self.slab, ClassId(id as u32), now, drops);
        }
        self.queues.reset();
        (self.last, self.alone, self.is_anew) = (NIL, NIL, true);
        self.ceilings.reset();
        self.urgent.reset();
        self.choose_path();
    }

    fn enqueue_batch(&mut self, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
        if self.queues.looks_ahead {
            look_ahead(&self.queues.leaves, |leaf| &leaf.queue, &self.slab, batch);
        }
        push_runs(self, now, batch, drops);
    }

    fn dequeue_batch(
        &mut self,
        now: Nanos,
        max_packets: usize,
        max_bytes: u64,
        out: &mut Vec<Packet>,
        drops: &mut dyn DropSink,
    ) -> BatchEnd {
        self.now = self.now.max(now);
        let queued = self.slab.queued();
        let more = fill(out, (max_packets, max_bytes), queued, |slots, bytes| self.serve(slots, bytes, drops));
        if more { BatchEnd::Full } else { self.next_release().map_or(BatchEnd::Idle, BatchEnd::WaitUntil) }
    }

    fn retune(&mut self, now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        if !self.queues.fits(&with.queues)
            || !self.slab.fits(&with.slab)
            || !self.ceilings.fits(&with.ceilings)
            || self.urgent.is_for_any()
            || with.urgent.is_for_any()
        {
            return false;
        }
        self.now = self.now.max(now);
        if self.alone != NIL {
            self.join();
        }
        self.slab.retune(&mut with.slab);
        self.ceilings.retune(&with.ceilings, self.now);
        self.queues.reweigh(&mut with.queues);
        true
    }

    fn adopt(
        &mut self,
        now: Nanos,
        with: &mut dyn Any,
        survivors: &[Option<ClassId>],
        drops: &mut dyn DropSink,
    ) -> bool {
        same_kind::<Self>(with).is_some_and(|with| self.change(now, with, survivors, drops))
    }

    fn is_expedited(&self, class: ClassId) -> bool {
        self.queues.leaves.get(class.index()).is_some_and(|leaf| leaf.member.place.is_any(Place::CRITICAL))
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), alloc::string::String> {
        check::all(self)
    }
}
