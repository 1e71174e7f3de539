//! The passes of a worker over its leaves that have packets.
//!
//! A *pass* visits each inner class that has own leaves with packets, and reads its virtual time once. Each such leaf
//! that is on sends while it has credit. Those that came or ended are changed together, under one lock of the class.
//! A call that has no room for all ends in the middle of a visit. The next call continues it with the virtual time that
//! it had read: an older one, with which no leaf sends too much. So R need not move for it, and nothing that other
//! cores write is read.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::SharedTree;
use super::ceilings;
use super::node::due;
use super::record::{Record, units, whole_debt};
use super::ring::{NIL, Own, Ring, State};
use super::tree::{Offer, Start, rise_for};
use crate::contract::{Amount, BatchEnd, ClassId, DropReason, DropSink, Nanos, OutOfMemory, Packet};
use crate::parts::memory::{Queue, Stack, filled, slice};
use crate::parts::prefetch::prefetch;
use crate::queue::PacketSlab;

/// Attempts to count a packet of a leaf that other workers send from, too.
const TRIES: u32 = 8;
/// Time until another attempt at a lock.
pub(super) const SHORTLY: Nanos = Nanos(200);

/// The room of a call, and what it has sent.
pub(super) struct Call<'a> {
    pub(super) now: Nanos,
    pub(super) packets: usize,
    pub(super) bytes: u64,
    pub(super) max_bytes: u64,
    pub(super) out: &'a mut Vec<Packet>,
    pub(super) drops: &'a mut dyn DropSink,
    /// Bytes by which R must grow until the first leaf that waits may send.
    pub(super) wait: u64,
    /// Time when the first ceiling that holds a leaf back is out of debt.
    pub(super) at: Nanos,
    /// True if a leaf has packets and no credit.
    pub(super) lacks: bool,
    /// True if a lock was busy.
    pub(super) busy: bool,
    /// Bytes of credit that leaves were not allowed to keep.
    pub(super) dropped: u64,
    /// True if R is as of this call.
    pub(super) looked: bool,
}

impl<'a> Call<'a> {
    /// Makes one with room for so many packets, and for packets until `max_bytes` are reached.
    pub(super) const fn new(
        now: Nanos,
        (packets, max_bytes): (usize, u64),
        out: &'a mut Vec<Packet>,
        drops: &'a mut dyn DropSink,
    ) -> Self {
        Self {
            now,
            packets,
            bytes: 0,
            max_bytes,
            out,
            drops,
            wait: u64::MAX,
            at: Nanos::MAX,
            lacks: false,
            busy: false,
            dropped: 0,
            looked: false,
        }
    }

    const fn is_full(&self) -> bool {
        self.packets == 0 || self.bytes >= self.max_bytes
    }

    fn send(&mut self, packet: Packet) {
        self.packets -= 1;
        self.bytes += u64::from(packet.len);
        self.out.push(packet);
    }
}

/// The leaf queues of a worker, and the order of its next visits.
#[derive(Debug)]
pub(super) struct Passes {
    /// 1 or more.
    number: u32,
    pub(super) slab: PacketSlab,
    pub(super) leaves: Box<[Own]>,
    rings: Box<[Ring]>,
    /// Nodes with a ring that is not empty, in the order of their next visits.
    pub(super) active: Queue<u32>,
    is_active: Box<[bool]>,
    /// Leaves that the current visit found to come or to end. They are in no ring.
    changes: Stack<u32>,
    pub(super) now: Nanos,
    /// True if it had packets without credit at the end of its last pass.
    starves: bool,
    /// True while leaves go off that owe.
    forces: bool,
}

impl Passes {
    pub(super) fn new(tree: &SharedTree) -> Result<Self, OutOfMemory> {
        let hierarchy = &tree.hierarchy;
        let mut slab = PacketSlab::for_tree(hierarchy)?;
        let leaves = slice(hierarchy.len(), |class| Own {
            queue: slab.queue_for(hierarchy, ClassId(class as u32)),
            base: [0; 2],
            next: NIL,
            state: State::Off,
        })?;
        let nodes = tree.classes.nodes.len();
        // A node without leaves has a ring that stays empty.
        let rings = slice(nodes, |at| {
            let children = hierarchy.children(ClassId(tree.classes.nodes[at].class)).iter();
            let leaves = children.filter(|&&child| hierarchy.is_leaf(child));
            let times = leaves.map(|leaf| tree.classes.children[leaf.index()].time_of_byte);
            Ring::new(u128::from(hierarchy.link().max_packet) * u128::from(times.min().unwrap_or(0)))
        })?;
        Ok(Self {
            number: tree.classes.pace.join(),
            slab,
            leaves,
            rings,
            active: Queue::with_room(nodes)?,
            is_active: filled(nodes, false)?,
            changes: Stack::with_room(hierarchy.leaves().len())?,
            now: Nanos::ZERO,
            starves: false,
            forces: false,
        })
    }

    /// Takes a packet to its queue. Returns its leaf if it has been off.
    pub(super) fn take_in(&mut self, tree: &SharedTree, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let hierarchy = &tree.hierarchy;
        let class = packet.class;
        let reason = if !hierarchy.is_leaf(class) {
            DropReason::NotALeaf
        } else if packet.len > hierarchy.link().max_packet {
            DropReason::TooLong
        } else {
            let own = &mut self.leaves[class.index()];
            let queued = own.queue.enqueue(&mut self.slab, self.now, packet, drops);
            if queued && own.state == State::Off {
                own.state = State::Pending;
                self.put_in_ring(tree, class.0);
            } else if queued && own.state == State::Resting && tree.ceilings.first(class.0) == ceilings::NIL {
                own.state = State::Lacking;
                self.rings[tree.classes.children[class.index()].parent as usize].lacking += 1;
            }
            return;
        };
        drops.dropped(self.now, packet, reason);
    }

    /// Returns the number of packets for which there is room.
    #[cfg(feature = "hub")]
    pub(super) fn room(&self) -> u32 {
        self.slab.room()
    }

    /// Removes and returns the first packet of `leaf`.
    #[cfg(feature = "hub")]
    pub(super) fn take_out(&mut self, leaf: ClassId, drops: &mut dyn DropSink) -> Option<Packet> {
        self.leaves.get_mut(leaf.index())?.queue.take_out(&mut self.slab, leaf, drops)
    }

    /// Drops all packets that are queued here.
    pub(super) fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for class in 0..self.leaves.len() {
            let own = &mut self.leaves[class];
            own.queue.purge(&mut self.slab, ClassId(class as u32), self.now, drops);
        }
    }

    /// Puts a leaf at the end of its ring.
    fn put_in_ring(&mut self, tree: &SharedTree, leaf: u32) {
        let at = tree.classes.children[leaf as usize].parent;
        let ring = &mut self.rings[at as usize];
        ring.push_back(&mut self.leaves, leaf);
        if !self.is_active[at as usize] {
            self.is_active[at as usize] = true;
            self.active.push(at);
        }
    }

    /// Takes all leaves off, also those that owe or have packets.
    pub(super) fn leave(&mut self, tree: &SharedTree, drops: &mut dyn DropSink) {
        self.give_up_visit(tree);
        for _ in 0..self.active.len() {
            let Some(at) = self.active.pop() else { break };
            self.leave_ring(tree, at, &|_| true, drops);
            self.is_active[at as usize] = self.rings[at as usize].len > 0;
            if self.is_active[at as usize] {
                self.active.push(at);
            }
        }
    }

    /// Takes `leaves` off, in the order of their numbers, also those that owe or have packets. Their packets stay, and
    /// nothing sends them. Returns false if others keep a class above them busy: then some of them are not off yet.
    #[cfg(feature = "hub")]
    pub(super) fn suspend(&mut self, tree: &SharedTree, leaves: &[ClassId], drops: &mut dyn DropSink) -> bool {
        self.give_up_visit(tree);
        let is_one = |leaf: u32| leaves.binary_search(&ClassId(leaf)).is_ok();
        leaves.iter().all(|&leaf| {
            if self.leaves[leaf.index()].state != State::Off {
                self.leave_ring(tree, tree.classes.children[leaf.index()].parent, &is_one, drops);
            }
            self.leaves[leaf.index()].state == State::Off
        })
    }

    /// Puts the leaves back that a call has left to come or to end.
    fn give_up_visit(&mut self, tree: &SharedTree) {
        for index in 0..self.changes.len() {
            let leaf = self.changes[index];
            let at = tree.classes.children[leaf as usize].parent;
            self.rings[at as usize].push_back(&mut self.leaves, leaf);
        }
        self.changes.clear();
    }

    /// Takes those leaves of the node `at` off for which `is_one` holds.
    fn leave_ring(&mut self, tree: &SharedTree, at: u32, is_one: &dyn Fn(u32) -> bool, drops: &mut dyn DropSink) {
        let ring = &mut self.rings[at as usize];
        ring.make_all_ready(&mut self.leaves);
        for _ in 0..ring.len {
            let leaf = ring.pop(&self.leaves);
            let own = &mut self.leaves[leaf as usize];
            if !is_one(leaf) {
                ring.push_back(&mut self.leaves, leaf);
            } else if own.state == State::On {
                self.changes.push(leaf);
            } else {
                own.state = State::Off;
            }
        }
        let mut out = Vec::new();
        self.forces = true;
        self.settle(tree, at, &mut Call::new(self.now, (0, 0), &mut out, drops));
        self.forces = false;
    }

    pub(super) fn serve(&mut self, tree: &SharedTree, call: &mut Call<'_>) -> BatchEnd {
        self.now = self.now.max(call.now);
        call.now = self.now;
        let mut full = false;
        let is_unfinished = !self.changes.is_empty();
        for _ in 0..self.active.len() + usize::from(is_unfinished) {
            if call.is_full() {
                full = true;
                break;
            }
            let Some(at) = self.active.pop() else { break };
            if !self.visit(tree, at, call) {
                self.active.push_front(at);
            } else if self.rings[at as usize].len > 0 {
                self.active.push(at);
            } else {
                self.is_active[at as usize] = false;
            }
        }
        if call.bytes > 0 {
            tree.classes.pace.sent(self.number, call.bytes);
        }
        if call.dropped > 0 {
            tree.classes.pace.drop_credit(self.number, call.dropped);
        }
        self.starves = !full && !call.is_full() && call.lacks;
        if full || call.is_full() {
            return BatchEnd::Full;
        }
        if self.active.is_empty() {
            return BatchEnd::Idle;
        }
        // A call that has sent packets is soon followed by another, and the times of all classes take long to compute.
        let at =
            if call.bytes > 0 && call.lacks { call.now.saturating_add(SHORTLY) } else { self.next_time(tree, call) };
        BatchEnd::WaitUntil(at)
    }

    /// Returns the time when something may be sent, or a leaf that owes may leave.
    fn next_time(&self, tree: &SharedTree, call: &Call<'_>) -> Nanos {
        let mut wait = call.wait;
        for &at in self.active.iter() {
            if let Some(rise) = self.rings[at as usize].rise_to_next() {
                // A light leaf beside heavy ones may have to wait for ever.
                wait = wait.min(tree.classes.bytes_until(at, rise).min(u64::MAX - 1));
            }
        }
        let soon = call.now.saturating_add(SHORTLY);
        let at = if wait == u64::MAX {
            call.at
        } else {
            tree.classes.pace.time_of(wait, call.now, self.starves).min(call.at)
        };
        let is_unknown = wait == u64::MAX && call.at == Nanos::MAX;
        let at = if call.busy || is_unknown { at.min(soon) } else { at };
        at.max(call.now.saturating_add(Nanos(1)))
    }

    /// Moves R, once in a call, before it reads a virtual time.
    fn look(&self, tree: &SharedTree, call: &mut Call<'_>) {
        if !call.looked {
            call.looked = true;
            tree.classes.pace.advance(call.now, self.starves);
        }
    }

    /// Visits the own leaves of the node `at`. Returns false if there was no room for all: then the next call goes on
    /// with it. The changes are made at the end of a visit, and with room for packets out of turn.
    fn visit(&mut self, tree: &SharedTree, at: u32, call: &mut Call<'_>) -> bool {
        if self.rings[at as usize].left == 0 && !self.changes.is_empty() {
            // The others come first: else it might begin and end with each call, and they had no visit.
            self.look(tree, call);
            self.settle(tree, at, call);
            return true;
        }
        if self.rings[at as usize].left == 0 {
            self.look(tree, call);
        }
        let ring = &mut self.rings[at as usize];
        if ring.left == 0 {
            let time = tree.classes.time(at);
            if tree.classes.node(at).is_off() {
                // Its virtual time stands still. What is above it decides.
                ring.make_all_ready(&mut self.leaves);
            }
            // With the virtual time of the last visit no leaf sends too much.
            call.busy |= time.is_none();
            if !ring.begin(&mut self.leaves, time.unwrap_or(ring.v)) {
                call.lacks |= ring.lacking > 0;
                return true;
            }
        }
        while ring.left > 0 && !call.is_full() {
            let leaf = ring.pop(&self.leaves);
            ring.left -= 1;
            let next = ring.first() as usize;
            prefetch(&self.leaves, next);
            prefetch(&tree.classes.children, next);
            let own = &mut self.leaves[leaf as usize];
            let mut held = is_held(tree, leaf, call);
            if own.state == State::Pending {
                if held {
                    ring.push_back(&mut self.leaves, leaf);
                } else {
                    self.changes.push(leaf);
                }
                continue;
            }
            let credit = send(tree, own, &mut self.slab, leaf, ring.v, call);
            held = held || !own.queue.is_empty() && is_held(tree, leaf, call);
            if (own.queue.is_empty() || held) && credit >= 0 {
                self.changes.push(leaf);
            } else if credit <= 0 {
                let state = if own.queue.is_empty() || held { State::Resting } else { State::Lacking };
                let bytes = u128::from(credit.unsigned_abs()) + 1;
                let rise = bytes * u128::from(tree.classes.children[leaf as usize].time_of_byte);
                ring.wait(&mut self.leaves, leaf, ring.v.wrapping_add(rise), state);
            } else if call.is_full() {
                ring.push_front(&mut self.leaves, leaf);
                ring.left += 1;
            } else {
                // Others send from the same leaf.
                call.busy = true;
                ring.push_back(&mut self.leaves, leaf);
            }
        }
        call.lacks |= ring.lacking > 0;
        if ring.left > 0 || call.is_full() && !self.changes.is_empty() {
            return false;
        }
        if !self.changes.is_empty() {
            self.settle(tree, at, call);
        }
        true
    }

    /// Makes the changes of a visit to the node `at`.
    fn settle(&mut self, tree: &SharedTree, at: u32, call: &mut Call<'_>) {
        let node = tree.classes.node(at);
        if node.lock() {
            if !self.settle_locked(tree, at, call) {
                call.busy = true;
            }
            node.unlock();
        } else {
            call.busy = true;
        }
        // What was not done stays in the ring.
        for index in 0..self.changes.len() {
            let leaf = self.changes[index];
            let (ring, own) = (&mut self.rings[at as usize], &self.leaves[leaf as usize]);
            match own.state {
                State::Off => {}
                State::On if !own.queue.is_empty() => {
                    let byte = u128::from(tree.classes.children[leaf as usize].time_of_byte);
                    let first = own.base().wrapping_add(byte);
                    ring.wait(&mut self.leaves, leaf, first, State::Lacking);
                }
                State::Waiting => {
                    let first = own.base();
                    ring.wait(&mut self.leaves, leaf, first, State::Waiting);
                }
                _ => ring.push_back(&mut self.leaves, leaf),
            }
        }
        self.changes.clear();
    }

    /// Makes the changes under the lock of the node `at`. Returns false if others kept classes above it busy.
    fn settle_locked(&mut self, tree: &SharedTree, at: u32, call: &mut Call<'_>) -> bool {
        let mut first = 0;
        if tree.classes.node(at).load().weight == 0 {
            let Some(top) = tree.classes.lock_to_on(at) else { return false };
            let done = self.start(tree, at, top, &mut first, call);
            tree.classes.unlock_above(at, top);
            if !done {
                return false;
            }
            if tree.classes.node(at).load().weight == 0 {
                return true;
            }
        }
        let Some(mut record) = tree.classes.now(at) else { return false };
        for index in first..self.changes.len() {
            let leaf = self.changes[index];
            if self.leaves[leaf as usize].state != State::On {
                self.come(tree, leaf, &mut record, call);
            }
        }
        let mut done = true;
        for index in first..self.changes.len() {
            let leaf = self.changes[index];
            let own = &self.leaves[leaf as usize];
            let is_ready = || tree.ceilings.are_ready(tree.ceilings.first(leaf));
            if own.state == State::On && (own.queue.is_empty() || self.forces || !is_ready()) {
                done &= self.end(tree, leaf, at, &mut record);
                let own = &mut self.leaves[leaf as usize];
                if own.state == State::Off && !own.queue.is_empty() && !self.forces {
                    own.state = State::Pending;
                }
            }
        }
        record.distribute(0);
        tree.classes.node(at).store(&record);
        done
    }

    /// Serves leaves of the node `at`, which is off, until one is on. `first` is the first change that is not made
    /// then. Returns false if others kept classes above it busy.
    fn start(&mut self, tree: &SharedTree, at: u32, top: u32, first: &mut usize, call: &mut Call<'_>) -> bool {
        while *first < self.changes.len() {
            let leaf = self.changes[*first];
            let own = &mut self.leaves[leaf as usize];
            let offer = offer(tree, own, &self.slab, (self.number, leaf), call);
            let slab = &mut self.slab;
            match tree.classes.start(leaf, (at, top), self.number, offer, || send_all(tree, own, slab, leaf, call)) {
                None => return false,
                Some(Start::Lone) => own.state = State::Off,
                Some(Start::On) => {
                    own.state = State::On;
                    own.set_base(tree.classes.children[leaf as usize].base());
                    *first += 1;
                    return true;
                }
                Some(Start::Wait(bytes)) => {
                    call.wait = call.wait.min(bytes);
                    call.lacks = true;
                }
            }
            *first += 1;
        }
        true
    }

    /// Serves `leaf` out of turn, puts it on, or lets it wait, for the virtual time that is its `base` then. Its
    /// parent is on, this is the record, the lock is held.
    fn come(&mut self, tree: &SharedTree, leaf: u32, record: &mut Record, call: &mut Call<'_>) {
        let own = &mut self.leaves[leaf as usize];
        let child = &tree.classes.children[leaf as usize];
        let holders = child.holders();
        if holders == 0 {
            let credit = child.credit(record.v);
            let offer = offer(tree, own, &self.slab, (self.number, leaf), call);
            let offer = offer.filter(|&offer| tree.classes.is_free(child, offer, true));
            if offer.is_some_and(|offer| tree.classes.may_pass(offer, (credit, record.pending))) {
                let bytes = send_all(tree, own, &mut self.slab, leaf, call);
                record.pending -= units(bytes);
                child.count_lone(record.v, credit, bytes);
                own.state = State::Off;
                return;
            }
            if credit < 0 {
                child.want(self.number);
                call.lacks = true;
                let ahead = offer.map_or(0, |offer| tree.classes.room_for(offer));
                if -credit > ahead {
                    own.set_base(record.v.wrapping_add(rise_for(-credit - ahead, child.weight)));
                    own.state = State::Waiting;
                } else {
                    // Its class owes, whose virtual time stands still.
                    call.wait = call.wait.min(tree.classes.bytes(child.parent, -record.pending - ahead));
                }
                return;
            }
            child.set(record.v, 0);
            record.set_weight(record.weight + child.weight);
        }
        child.hold(holders + 1);
        own.state = State::On;
        own.set_base(child.base());
    }

    /// Takes `leaf` off, which has no packets, unless it owes. The node `at` is on, this is its record, its lock is
    /// held. Returns false if others kept classes above it busy.
    fn end(&mut self, tree: &SharedTree, leaf: u32, at: u32, record: &mut Record) -> bool {
        let own = &mut self.leaves[leaf as usize];
        let child = &tree.classes.children[leaf as usize];
        let holders = child.holders();
        if holders > 1 {
            child.hold(holders - 1);
            own.state = State::Off;
            return true;
        }
        let credit = child.credit(record.v);
        if credit < 0 && !self.forces {
            return true;
        }
        if record.weight == child.weight {
            let done = tree.classes.rest(leaf, at, record);
            if done {
                own.state = State::Off;
            }
            return done;
        }
        record.pending += credit;
        child.set(record.v, whole_debt(credit));
        child.hold(0);
        record.set_weight(record.weight - child.weight);
        own.state = State::Off;
        true
    }
}

/// Sends from a leaf that is on while it has credit at the virtual time `v` and the call has room. Returns the credit
/// that it has left, in whole bytes.
#[inline(always)]
fn send(tree: &SharedTree, own: &mut Own, slab: &mut PacketSlab, leaf: u32, v: u128, call: &mut Call<'_>) -> i64 {
    let child = &tree.classes.children[leaf as usize];
    let due = due(v, own.base(), child.weight);
    let ceiling = tree.ceilings.first(leaf);
    let mut sent = child.sent();
    let excess = (due.wrapping_sub(sent) as i64).saturating_sub(tree.stored);
    if excess > 0 && child.count(sent, excess as u64) {
        call.dropped += excess as u64;
        sent = sent.wrapping_add(excess as u64);
    }
    let mut tries = 0;
    loop {
        let credit = due.wrapping_sub(sent) as i64;
        if credit <= 0 || call.is_full() || tries == TRIES {
            return credit;
        }
        let Some(len) = own.queue.head_len() else { return credit };
        if ceiling != ceilings::NIL && !tree.ceilings.are_ready(ceiling) {
            return credit;
        }
        if !child.count(sent, len.into()) {
            // Another worker has sent from the same leaf.
            sent = child.sent();
            tries += 1;
            continue;
        }
        sent = sent.wrapping_add(len.into());
        if ceiling != ceilings::NIL {
            tree.ceilings.charge(ceiling, len);
        }
        if let Some(packet) = own.queue.dequeue(slab, ClassId(leaf), call.now, call.drops) {
            call.send(packet);
        }
    }
}

/// Returns true if a ceiling holds `leaf` back.
#[inline(always)]
fn is_held(tree: &SharedTree, leaf: u32, call: &mut Call<'_>) -> bool {
    let first = tree.ceilings.first(leaf);
    if first == ceilings::NIL {
        return false;
    }
    let ready = tree.ceilings.wait(first, call.now);
    call.at = call.at.min(ready.unwrap_or(Nanos::MAX));
    ready.is_some()
}

/// Returns the queue of a leaf, if the call has room for all of it. Below a ceiling it is a single packet.
fn offer(
    tree: &SharedTree,
    own: &Own,
    slab: &PacketSlab,
    (worker, leaf): (u32, u32),
    call: &Call<'_>,
) -> Option<Offer> {
    let Amount { packets, bytes } = own.queue.backlog(slab);
    let first = tree.ceilings.first(leaf);
    let may_send = first == ceilings::NIL || packets == 1 && tree.ceilings.are_ready(first);
    // No packet may follow one that uses up the room.
    let has_room = packets == 1 || packets <= call.packets as u64 && call.bytes.saturating_add(bytes) < call.max_bytes;
    let fits = has_room && !call.is_full() && may_send;
    fits.then_some(Offer { bytes, is_single: packets == 1, worker })
}

/// Sends the whole queue of a leaf; returns its bytes. An active queue may drop some of it.
fn send_all(tree: &SharedTree, own: &mut Own, slab: &mut PacketSlab, leaf: u32, call: &mut Call<'_>) -> u64 {
    let before = call.bytes;
    while let Some(packet) = own.queue.dequeue(slab, ClassId(leaf), call.now, call.drops) {
        call.send(packet);
    }
    let bytes = call.bytes - before;
    tree.ceilings.charge(tree.ceilings.first(leaf), bytes as u32);
    bytes
}
