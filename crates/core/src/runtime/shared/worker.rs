//! A worker: the leaf queues of one core, and its passes over the leaves that have packets.
//!
//! A *pass* visits each inner class that has own leaves with packets, and reads its virtual time once. Each such leaf
//! that is on sends while it has credit. Those that came or ended are changed together, under one lock of the class.
//! A call that has no room for all ends in the middle of a visit. The next call continues it with the virtual time that
//! it had read.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::atomics::spin_loop;
use super::ceilings;
use super::node::due;
use super::record::{Record, units, whole_debt};
use super::tree::{Offer, Start, missing};
use super::{SharedError, SharedTree};
use crate::contract::{
    Amount, BatchEnd, ClassId, Dequeued, DropReason, DropSink, Nanos, OutOfMemory, Packet, Scheduler, room_in,
};
use crate::parts::memory::{Queue, Stack, filled, room, slice};
use crate::queue::{LeafQueue, PacketSlab};

const NIL: u32 = u32::MAX;
/// Attempts to count a packet of a leaf that other workers send from, too.
const TRIES: u32 = 8;
/// Time until another attempt at a lock.
const SHORTLY: Nanos = Nanos(200);

/// The state of a leaf on this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has no packets here, and is in no list.
    Off,
    /// It has packets and is not on, as far as this worker is concerned.
    Pending,
    /// It is on.
    On,
}

/// A leaf as this worker has it, on one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Own {
    queue: LeafQueue,
    base: [u64; 2],
    next: u32,
    state: State,
}

const _: () = assert!(size_of::<Own>() == 64);

impl Own {
    const fn base(&self) -> u128 {
        self.base[0] as u128 | (self.base[1] as u128) << 64
    }

    const fn set_base(&mut self, base: u128) {
        self.base = [base as u64, (base >> 64) as u64];
    }
}

/// The own leaves of an inner class that are not off: a ring.
#[derive(Clone, Copy, Debug)]
struct Ring {
    head: u32,
    tail: u32,
    len: u32,
    /// Leaves that the current visit has still to look at; 0 between visits.
    left: u32,
    /// Virtual time as read last.
    v: u128,
    /// The least deficit per weight at `v` of the leaves that had no credit: bytes and weight. No bytes: none.
    least: (u64, u64),
    /// True while all leaves that the current visit has seen are on and without credit.
    all_lack: bool,
    /// True if that was so at the end of the last visit, and no leaf has come since: none can send before one has credit.
    is_quiet: bool,
    /// True if one of them has packets.
    lacks: bool,
}

impl Ring {
    const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
        len: 0,
        left: 0,
        v: 0,
        least: (0, 0),
        all_lack: false,
        is_quiet: false,
        lacks: false,
    };

    /// Returns the units that the leaf with the least deficit lacks at `v`; 0 if it may have credit.
    fn lacking(&self, v: u128) -> i128 {
        let (bytes, weight) = self.least;
        let got = v.wrapping_sub(self.v).checked_mul(u128::from(weight)).and_then(|got| i128::try_from(got).ok());
        (units(bytes) - got.unwrap_or(i128::MAX)).max(0)
    }

    fn push_back(&mut self, leaves: &mut [Own], leaf: u32) {
        leaves[leaf as usize].next = NIL;
        match self.tail {
            NIL => self.head = leaf,
            tail => leaves[tail as usize].next = leaf,
        }
        self.tail = leaf;
        self.len += 1;
    }

    fn push_front(&mut self, leaves: &mut [Own], leaf: u32) {
        leaves[leaf as usize].next = self.head;
        if self.head == NIL {
            self.tail = leaf;
        }
        self.head = leaf;
        self.len += 1;
    }

    fn pop(&mut self, leaves: &[Own]) -> u32 {
        let leaf = self.head;
        self.head = leaves[leaf as usize].next;
        if self.head == NIL {
            self.tail = NIL;
        }
        self.len -= 1;
        leaf
    }
}

/// The room of a call, and what it has sent.
struct Call<'a> {
    now: Nanos,
    packets: usize,
    bytes: u64,
    max_bytes: u64,
    out: &'a mut Vec<Packet>,
    drops: &'a mut dyn DropSink,
    /// Bytes by which R must grow until the first leaf that waits may send.
    wait: u64,
    /// Time when the first ceiling that holds a leaf back is out of debt.
    at: Nanos,
    /// True if a leaf has packets and no credit.
    lacks: bool,
    /// True if a lock was busy.
    busy: bool,
    /// Bytes of credit that leaves were not allowed to keep.
    dropped: u64,
}

impl Call<'_> {
    const fn is_full(&self) -> bool {
        self.packets == 0 || self.bytes >= self.max_bytes
    }

    fn send(&mut self, packet: Packet) {
        self.packets -= 1;
        self.bytes += u64::from(packet.len);
        self.out.push(packet);
    }
}

/// The end of a [`SharedTree`] that one core has: its leaf queues, and what it sends. It is a [`Scheduler`] of the
/// packets that it was given.
///
/// [`BatchEnd::Idle`] means that no packet is queued here and no leaf is on. [`BatchEnd::WaitUntil`] may also be
/// returned without packets, while a leaf that has sent its last one still owes for it: it leaves in the call at that
/// time.
#[derive(Debug)]
pub struct Worker {
    tree: Arc<SharedTree>,
    /// 1 or more.
    number: u32,
    slab: PacketSlab,
    leaves: Box<[Own]>,
    rings: Box<[Ring]>,
    /// Nodes with a ring that is not empty, in the order of their next visits.
    active: Queue<u32>,
    is_active: Box<[bool]>,
    /// Leaves that the current visit found to come or to end.
    changes: Stack<u32>,
    now: Nanos,
    /// True if it had packets without credit at the end of its last pass.
    starves: bool,
    /// True while leaves go off that owe.
    forces: bool,
    /// Room for one packet.
    single: Vec<Packet>,
}

impl Drop for Worker {
    /// Takes its leaves off, so that they get no share any more. Its packets are lost to the caller: purge first.
    fn drop(&mut self) {
        // Others hold a lock for microseconds, or until they have a processor again.
        for _ in 0..1 << 16 {
            self.leave(&mut |_, _, _| {});
            if self.active.is_empty() {
                break;
            }
            spin_loop();
        }
    }
}

impl Worker {
    pub(super) fn new(tree: &Arc<SharedTree>) -> Result<Self, SharedError> {
        Ok(Self::build(Arc::clone(tree))?)
    }

    fn build(tree: Arc<SharedTree>) -> Result<Self, OutOfMemory> {
        let hierarchy = &tree.hierarchy;
        let mut slab = PacketSlab::for_tree(hierarchy)?;
        let leaves = slice(hierarchy.len(), |class| Own {
            queue: slab.queue_for(hierarchy, ClassId(class as u32)),
            base: [0; 2],
            next: NIL,
            state: State::Off,
        })?;
        let nodes = tree.classes.nodes.len();
        Ok(Self {
            number: tree.next_number(),
            slab,
            leaves,
            rings: filled(nodes, Ring::EMPTY)?,
            active: Queue::with_room(nodes)?,
            is_active: filled(nodes, false)?,
            changes: Stack::with_room(hierarchy.leaves().len())?,
            now: Nanos::ZERO,
            starves: false,
            forces: false,
            single: room(1)?,
            tree,
        })
    }

    /// Returns the tree that it shares.
    #[must_use]
    pub fn tree(&self) -> &Arc<SharedTree> {
        &self.tree
    }

    /// Takes a packet to its queue. Returns its leaf if it has been off.
    fn take_in(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let tree = &self.tree.hierarchy;
        let class = packet.class;
        let reason = if !tree.is_leaf(class) {
            DropReason::NotALeaf
        } else if packet.len > tree.link().max_packet {
            DropReason::TooLong
        } else {
            let own = &mut self.leaves[class.index()];
            let queued = own.queue.enqueue(&mut self.slab, self.now, packet, drops);
            if queued && own.state == State::Off {
                own.state = State::Pending;
                self.put_in_ring(class.0);
            }
            return;
        };
        drops.dropped(self.now, packet, reason);
    }

    /// Puts a leaf at the end of its ring.
    fn put_in_ring(&mut self, leaf: u32) {
        let at = self.tree.classes.children[leaf as usize].parent;
        let ring = &mut self.rings[at as usize];
        ring.push_back(&mut self.leaves, leaf);
        (ring.all_lack, ring.is_quiet) = (false, false);
        if !self.is_active[at as usize] {
            self.is_active[at as usize] = true;
            self.active.push(at);
        }
    }

    /// Takes all leaves off, also those that owe or have packets.
    fn leave(&mut self, drops: &mut dyn DropSink) {
        let tree = Arc::clone(&self.tree);
        let (now, mut out) = (self.now, Vec::new());
        let (wait, busy) = (u64::MAX, false);
        self.forces = true;
        for _ in 0..self.active.len() {
            let Some(at) = self.active.pop() else { break };
            let mut ring = self.rings[at as usize];
            for _ in 0..ring.len {
                let leaf = ring.pop(&self.leaves);
                let own = &mut self.leaves[leaf as usize];
                if own.state == State::On {
                    self.changes.push(leaf);
                } else {
                    own.state = State::Off;
                }
            }
            (ring.left, ring.is_quiet) = (0, false);
            self.rings[at as usize] = ring;
            let mut call = Call {
                now,
                packets: 0,
                bytes: 0,
                max_bytes: 0,
                out: &mut out,
                drops,
                wait,
                at: Nanos::MAX,
                lacks: false,
                busy,
                dropped: 0,
            };
            self.settle(&tree, at, &mut call);
            self.is_active[at as usize] = self.rings[at as usize].len > 0;
            if self.is_active[at as usize] {
                self.active.push(at);
            }
        }
        self.forces = false;
    }

    fn serve(&mut self, call: &mut Call<'_>) -> BatchEnd {
        self.now = self.now.max(call.now);
        call.now = self.now;
        let tree = Arc::clone(&self.tree);
        tree.classes.pace.advance(call.now, self.starves);
        let mut full = false;
        for _ in 0..self.active.len() {
            if call.is_full() {
                full = true;
                break;
            }
            let Some(at) = self.active.pop() else { break };
            let done = self.visit(&tree, at, call);
            let ring = &self.rings[at as usize];
            if ring.len == 0 {
                self.is_active[at as usize] = false;
            } else if done {
                self.active.push(at);
            } else {
                self.active.push_front(at);
            }
        }
        if call.bytes > 0 {
            tree.classes.pace.sent(call.bytes);
        }
        if call.dropped > 0 {
            tree.classes.pace.drop_credit(call.dropped);
        }
        self.starves = !full && !call.is_full() && call.lacks;
        if full || call.is_full() {
            return BatchEnd::Full;
        }
        if self.active.is_empty() {
            return BatchEnd::Idle;
        }
        BatchEnd::WaitUntil(self.next_time(&tree, call))
    }

    /// Returns the time when something may be sent, or a leaf that owes may leave.
    fn next_time(&self, tree: &SharedTree, call: &Call<'_>) -> Nanos {
        let mut wait = call.wait;
        for &at in self.active.iter() {
            let ring = &self.rings[at as usize];
            if ring.least.0 > 0
                && let (Some(record), Some(v)) = (tree.classes.node(at).read(), tree.classes.time(at))
            {
                // Negative pending units were not part of the virtual time that was read.
                let record = Record { pending: 0, ..record };
                wait = wait.min(tree.classes.bytes(at, missing(&record, ring.least.1, ring.lacking(v))));
            }
        }
        let soon = call.now.saturating_add(SHORTLY);
        let at = if wait == u64::MAX { call.at } else { tree.classes.pace.time_of(wait, call.now).min(call.at) };
        let at = if call.busy || at == Nanos::MAX { at.min(soon) } else { at };
        at.max(call.now.saturating_add(Nanos(1)))
    }

    /// Visits the own leaves of the node `at`. Returns false if there was no room for all.
    fn visit(&mut self, tree: &SharedTree, at: u32, call: &mut Call<'_>) -> bool {
        let mut ring = self.rings[at as usize];
        if ring.left == 0 {
            let time = tree.classes.time(at);
            if ring.is_quiet && time.is_none_or(|v| ring.lacking(v) > 0) {
                call.lacks |= ring.lacks;
                call.busy |= time.is_none();
                return true;
            }
            (ring.left, ring.least) = (ring.len, (0, 0));
            (ring.all_lack, ring.is_quiet, ring.lacks) = (true, false, false);
            match time {
                Some(v) => ring.v = v,
                // With the virtual time of the last visit no leaf sends too much.
                None => call.busy = true,
            }
        }
        let mut done = true;
        while ring.left > 0 {
            if call.is_full() {
                done = false;
                break;
            }
            let leaf = ring.pop(&self.leaves);
            ring.left -= 1;
            let own = &mut self.leaves[leaf as usize];
            let mut held = is_held(tree, leaf, call);
            if own.state != State::On {
                ring.all_lack = false;
                if held {
                    ring.push_back(&mut self.leaves, leaf);
                } else {
                    self.changes.push(leaf);
                }
                continue;
            }
            let credit = send(tree, own, &mut self.slab, leaf, ring.v, call);
            held = held || !own.queue.is_empty() && is_held(tree, leaf, call);
            ring.all_lack &= credit <= 0 && !held;
            if (own.queue.is_empty() || held) && credit >= 0 {
                ring.all_lack = false;
                self.changes.push(leaf);
                continue;
            }
            if credit > 0 && call.is_full() {
                ring.push_front(&mut self.leaves, leaf);
                ring.left += 1;
                done = false;
                break;
            }
            call.busy |= credit > 0;
            ring.lacks |= !own.queue.is_empty() && !held;
            let weight = tree.classes.children[leaf as usize].weight;
            let bytes = credit.unsigned_abs() + 1;
            let (best, of) = ring.least;
            if best == 0 || u128::from(bytes) * u128::from(of) < u128::from(best) * u128::from(weight) {
                ring.least = (bytes, weight);
            }
            ring.push_back(&mut self.leaves, leaf);
        }
        call.lacks |= ring.lacks;
        ring.is_quiet = done && ring.all_lack;
        self.rings[at as usize] = ring;
        if !self.changes.is_empty() {
            self.settle(tree, at, call);
        }
        done
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
            if self.leaves[leaf as usize].state != State::Off {
                self.rings[at as usize].push_back(&mut self.leaves, leaf);
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
                self.come(tree, leaf, at, &mut record, call);
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

    /// Serves `leaf` out of turn, puts it on, or lets it wait. The node `at` is on, this is its record, its lock is
    /// held.
    fn come(&mut self, tree: &SharedTree, leaf: u32, at: u32, record: &mut Record, call: &mut Call<'_>) {
        let own = &mut self.leaves[leaf as usize];
        let child = &tree.classes.children[leaf as usize];
        let holders = child.holders();
        if holders == 0 {
            let credit = child.credit(record.v);
            if let Some(offer) = offer(tree, own, &self.slab, (self.number, leaf), call)
                && tree.classes.may_pass(child, offer, (credit, record.pending), true)
            {
                let bytes = send_all(tree, own, &mut self.slab, leaf, call);
                record.pending -= units(bytes);
                child.count_lone(record.v, credit, bytes);
                own.state = State::Off;
                return;
            }
            if credit < 0 {
                child.want(self.number);
                call.lacks = true;
                call.wait = call.wait.min(tree.classes.bytes(at, missing(record, child.weight, -credit)));
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
        if !tree.ceilings.are_ready(ceiling) {
            return credit;
        }
        if !child.count(sent, len.into()) {
            // Another worker has sent from the same leaf.
            sent = child.sent();
            tries += 1;
            continue;
        }
        sent = sent.wrapping_add(len.into());
        tree.ceilings.charge(ceiling, len);
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
    let fits = packets <= call.packets as u64 && !call.is_full() && may_send;
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

impl Scheduler for Worker {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.take_in(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        let mut out = core::mem::take(&mut self.single);
        let end = self.dequeue_batch(now, 1, u64::MAX, &mut out, drops);
        let packet = out.pop();
        self.single = out;
        match (packet, end) {
            (Some(packet), _) => Dequeued::Packet(packet),
            (None, BatchEnd::Idle) => Dequeued::Idle,
            (None, BatchEnd::WaitUntil(at)) => Dequeued::WaitUntil(at),
            (None, BatchEnd::Full) => Dequeued::WaitUntil(now.saturating_add(SHORTLY)),
        }
    }

    fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.leaves.get(class.index()).map_or(Amount::ZERO, |own| own.queue.backlog(&self.slab))
    }

    /// Drops all packets that are queued here. The leaves that only this worker has on go off; what they had or owed is
    /// with their siblings. A leaf whose class is kept busy by others leaves in a later call.
    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for class in 0..self.leaves.len() {
            let own = &mut self.leaves[class];
            own.queue.purge(&mut self.slab, ClassId(class as u32), self.now, drops);
        }
        self.leave(drops);
    }

    fn dequeue_batch(
        &mut self,
        now: Nanos,
        max_packets: usize,
        max_bytes: u64,
        out: &mut Vec<Packet>,
        drops: &mut dyn DropSink,
    ) -> BatchEnd {
        let packets = max_packets.min(room_in(out));
        let (wait, busy, dropped) = (u64::MAX, false, 0);
        self.serve(&mut Call {
            now,
            packets,
            bytes: 0,
            max_bytes,
            out,
            drops,
            wait,
            at: Nanos::MAX,
            lacks: false,
            busy,
            dropped,
        })
    }
}
