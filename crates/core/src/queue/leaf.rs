//! The queue of one leaf: its head packet, its limits, and the location of the packets behind the head.

use alloc::boxed::Box;

use super::aqm::{Behind, Table};
use super::push_out::Shared;
use super::slab::{Node, OpenSlab, Slab};
use super::{NIL, SHARES};
use crate::contract::{Amount, ClassId, DropReason, DropSink, Hierarchy, Nanos, OutOfMemory, Packet, QueueLimits};
use crate::parts::memory::one;
use crate::parts::prefetch::prefetch;

/// The packets of all leaf queues of one scheduler.
#[derive(Debug)]
pub(crate) struct PacketSlab {
    store: Slab,
    /// Packets behind the heads of active queues; `None` if no class has an active queue.
    active: Option<Box<[Table; 1]>>,
    /// Packets behind the heads of the other queues, if they share the room.
    shared: Option<Box<[Shared; 1]>>,
}

impl PacketSlab {
    /// Makes room for `limit` packets in all queues together. The queues are FIFOs.
    pub(crate) fn new(limit: u32) -> Result<Self, OutOfMemory> {
        Ok(Self { store: Slab::new(limit)?, active: None, shared: None })
    }

    /// Makes room for the queues of a scheduler for `tree`. The leaves set the kind of their queues; see
    /// [`PacketSlab::queue_for`].
    pub(crate) fn for_tree(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        Self::for_classes(tree, 0)
    }

    /// Like [`PacketSlab::for_tree`], with room for as many more FIFOs as `room`.
    pub(crate) fn for_classes(tree: &Hierarchy, room: usize) -> Result<Self, OutOfMemory> {
        let active = match Table::new(tree)? {
            Some(table) => Some(one(table)?),
            None => None,
        };
        let shared = match Shared::new(tree, room)? {
            Some(shared) => Some(one(shared)?),
            None => None,
        };
        Ok(Self { active, shared, ..Self::new(tree.link().max_queued)? })
    }

    /// Bytes that one takes whose queues are FIFOs, for `tree`.
    pub(crate) fn fifo_memory(tree: &Hierarchy) -> u64 {
        Slab::memory(tree.link().max_queued)
    }

    /// Bytes that one takes whose queues are as the leaves of `tree` ask for them.
    pub(crate) fn memory(tree: &Hierarchy) -> u64 {
        Self::fifo_memory(tree) + Table::memory(tree) + Shared::memory(tree)
    }

    /// Returns the queue of `class` of `tree`, for which the slab was made. The queue of a class that is not a leaf
    /// holds nothing.
    pub(crate) fn queue_for(&mut self, tree: &Hierarchy, class: ClassId) -> LeafQueue {
        if !tree.is_leaf(class) {
            return LeafQueue::new(QueueLimits { packets: 0, bytes: 0 });
        }
        let config = tree.config(class);
        let mut active = self.active.as_mut().map_or(NIL, |table| table[0].add(config));
        if active == NIL && self.shared.is_some() {
            active = SHARES | class.0;
        }
        LeafQueue { active, ..LeafQueue::new(config.limits) }
    }

    /// Returns the queue of one more leaf, `class`: a FIFO.
    pub(crate) fn queue_of(&self, class: ClassId, limits: QueueLimits) -> LeafQueue {
        let active = if self.shared.is_some() { SHARES | class.0 } else { NIL };
        LeafQueue { active, ..LeafQueue::new(limits) }
    }

    /// Returns true if [`PacketSlab::retune`] can be done.
    pub(crate) fn fits(&self, with: &Self) -> bool {
        let active = match (&self.active, &with.active) {
            (Some(mine), Some(theirs)) => mine[0].fits(&theirs[0]),
            (None, None) => true,
            _ => false,
        };
        active && self.shared.is_some() == with.shared.is_some()
    }

    /// Takes the room of `with`, which was made for the same classes and never used.
    pub(crate) fn retune(&mut self, with: &mut Self) {
        self.store.retune(&mut with.store);
        if let (Some(mine), Some(theirs)) = (&mut self.active, &mut with.active) {
            mine[0].retune(&mut theirs[0]);
        }
    }

    /// Returns true if `theirs`, of `with`, can take over the packets of `mine`: both are FIFOs, or active queues of
    /// the same hosts and flows.
    pub(crate) fn is_alike(&self, mine: &LeafQueue, with: &Self, theirs: &LeafQueue) -> bool {
        match (mine.table(), theirs.table()) {
            (None, None) => mine.shares().is_some() == theirs.shares().is_some(),
            (Some(one), Some(other)) => match (&self.active, &with.active) {
                (Some(table), Some(with)) => table[0].is_alike(one, &with[0], other),
                _ => false,
            },
            _ => false,
        }
    }

    /// Takes all packets of `old`, whose leaves `survivor` maps; the others are empty. It was never used. The queues
    /// follow one by one ([`PacketSlab::take_queue`]). The remains in `old` are to be dropped.
    pub(crate) fn take_over(&mut self, old: &mut Self, survivor: impl Fn(ClassId) -> Option<ClassId>) {
        self.store.take_over(&mut old.store);
        if let (Some(mine), Some(theirs)) = (&mut self.active, &mut old.active) {
            mine[0].take_over(&mut theirs[0]);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.shared, &mut old.shared) {
            mine[0].take_over(&mut theirs[0], survivor);
        }
    }

    /// Moves the packets of `theirs`, a queue of `old`, into the empty queue `mine`, which is alike. It keeps its
    /// limits, even if it now holds more.
    pub(crate) fn take_queue(&mut self, mine: &mut LeafQueue, old: &Self, theirs: &mut LeafQueue) {
        let LeafQueue { limit_packets, limit_bytes, active, .. } = *mine;
        let empty = LeafQueue::new(QueueLimits { packets: 0, bytes: 0 });
        if let (Some(table), Some(from)) = (&mut self.active, &old.active)
            && let (Some(own), Some(other)) = (mine.table(), theirs.table())
        {
            table[0].take_queue(own, &from[0], other);
        }
        *mine = LeafQueue { limit_packets, limit_bytes, active, ..core::mem::replace(theirs, empty) };
    }

    /// Flows that an active queue keeps apart; 0 for a FIFO.
    #[cfg(test)]
    pub(super) fn flows_of(&self, queue: &LeafQueue) -> u32 {
        self.active.as_ref().map_or(0, |table| table[0].flows_of(queue.active))
    }

    /// Number of packets that still fit.
    #[inline(always)]
    pub(crate) fn room(&self) -> u32 {
        self.store.room()
    }

    /// Opens it for a run of packets of FIFOs, of which `arriving` are queued: at most its room.
    #[inline(always)]
    pub(crate) fn open(&mut self, arriving: u32) -> OpenSlab<'_> {
        self.store.open(arriving)
    }

    /// Prefetches the packet that becomes the head of `queue` when the head leaves.
    #[inline(always)]
    pub(crate) fn prefetch_second(&self, queue: &LeafQueue) {
        prefetch(&self.store.nodes, queue.head.next as usize);
    }

    /// Prefetches the last packet of `queue`. The next one is appended to it.
    #[inline(always)]
    pub(crate) fn prefetch_tail(&self, queue: &LeafQueue) {
        prefetch(&self.store.nodes, queue.tail as usize);
    }

    /// Packets in all queues together, heads included.
    #[inline(always)]
    pub(crate) fn queued(&self) -> u32 {
        self.store.queued
    }

    /// Returns the amount queued in all queues together.
    pub(crate) fn backlog(&self) -> Amount {
        self.store.backlog()
    }
}

/// One leaf's queue. Belongs to exactly one [`PacketSlab`], which every call is handed.
#[derive(Debug)]
pub(crate) struct LeafQueue {
    /// The head, and the location of the packet behind it: as in the slab, so that one copy makes a packet the head.
    head: Node,
    /// Packets; in a queue that shares its room, 1 unless it is empty. The rest of this is in the slab then.
    packets: u32,
    bytes: u32,
    tail: u32,
    limit_packets: u32,
    limit_bytes: u32,
    /// Its number in the slab's table of active queues, or [`SHARES`] and its class; [`NIL`] for a plain FIFO.
    active: u32,
}

impl LeafQueue {
    /// Makes an empty FIFO.
    #[must_use]
    pub(crate) const fn new(limits: QueueLimits) -> Self {
        Self {
            head: Node { handle: 0, len: 0, next: NIL },
            packets: 0,
            bytes: 0,
            tail: NIL,
            limit_packets: limits.packets,
            limit_bytes: limits.bytes,
            active: NIL,
        }
    }

    /// Returns true if [`LeafQueue::retune`] can be done.
    pub(crate) const fn fits(&self, with: &Self) -> bool {
        self.active == with.active
    }

    /// Adopts the limits of `with`. Queued packets stay, even beyond the limits.
    pub(crate) const fn retune(&mut self, with: &Self) {
        (self.limit_packets, self.limit_bytes) = (with.limit_packets, with.limit_bytes);
    }

    /// Sets the limit of bytes.
    #[cfg(test)]
    pub(super) fn limit_bytes_to(&mut self, bytes: u32) {
        self.limit_bytes = bytes;
    }

    /// Returns true for a plain FIFO: not an active queue, and with room of its own.
    #[must_use]
    #[inline]
    pub(crate) const fn is_fifo(&self) -> bool {
        self.active == NIL
    }

    /// Returns true if no packet is queued.
    #[must_use]
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Returns true if two packets or more are queued, for a plain FIFO.
    #[must_use]
    #[inline]
    pub(crate) const fn has_second(&self) -> bool {
        self.packets > 1
    }

    /// Returns the amount queued.
    #[must_use]
    pub(crate) fn backlog(&self, slab: &PacketSlab) -> Amount {
        if let (Some(class), Some(shared)) = (self.shares(), &slab.shared) {
            return shared[0].backlog(class);
        }
        Amount { packets: u64::from(self.packets), bytes: u64::from(self.bytes) }
    }

    /// Length of the packet that the next [`LeafQueue::dequeue`] returns, in bytes; later arrivals do not change it.
    #[must_use]
    #[inline]
    pub(crate) const fn head_len(&self) -> Option<u32> {
        if self.packets == 0 { None } else { Some(self.head.len) }
    }

    /// Handle of the packet that the next [`LeafQueue::dequeue`] returns; later arrivals do not change it.
    #[cfg(test)]
    pub(super) const fn head_handle(&self) -> Option<u64> {
        if self.packets == 0 { None } else { Some(self.head.handle) }
    }

    /// Queues a packet, or drops it. An active queue may drop others to make room. Returns true if the packet was
    /// queued: only then can an empty queue have become nonempty.
    #[inline(always)]
    pub(crate) fn enqueue(
        &mut self,
        slab: &mut PacketSlab,
        now: Nanos,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> bool {
        if self.active != NIL {
            return self.enqueue_active(slab, now, packet, drops);
        }
        match self.push(slab, packet) {
            Ok(()) => true,
            Err((packet, reason)) => {
                drops.dropped(now, packet, reason);
                false
            }
        }
    }

    /// Removes and returns the head packet, which belongs to `class`. An active queue may then drop others on its way
    /// to the next head. That never empties it.
    #[inline(always)]
    pub(crate) fn dequeue(
        &mut self,
        slab: &mut PacketSlab,
        class: ClassId,
        now: Nanos,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        self.dequeue_within(slab, class, u64::MAX, now, drops)
    }

    /// Like [`LeafQueue::dequeue`], but returns nothing if the head is longer than `max_len` bytes.
    #[inline(always)]
    pub(crate) fn dequeue_within(
        &mut self,
        slab: &mut PacketSlab,
        class: ClassId,
        max_len: u64,
        now: Nanos,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        if self.packets == 0 || u64::from(self.head.len) > max_len {
            return None;
        }
        Some(self.dequeue_first(slab, class, now, drops).0)
    }

    /// Like [`LeafQueue::dequeue`], for a queue that is not empty. Returns true if it has another packet.
    #[inline(always)]
    pub(crate) fn dequeue_first(
        &mut self,
        slab: &mut PacketSlab,
        class: ClassId,
        now: Nanos,
        drops: &mut dyn DropSink,
    ) -> (Packet, bool) {
        if self.active != NIL {
            let packet = self.dequeue_active(slab, class, Some(now), drops);
            return (packet, self.packets > 0);
        }
        self.take_head(slab, class)
    }

    /// Removes and returns the head packet, which belongs to `class`, without a verdict of an active queue. The last
    /// one resets such a queue.
    pub(crate) fn take_out(
        &mut self,
        slab: &mut PacketSlab,
        class: ClassId,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        if self.packets == 0 {
            return None;
        }
        if self.active == NIL {
            return Some(self.take_head(slab, class).0);
        }
        let packet = self.dequeue_active(slab, class, None, drops);
        if self.packets == 0 {
            self.reset_active(slab);
        }
        Some(packet)
    }

    /// Drops all packets, which belong to `class`, in the order in which they would have left.
    pub(crate) fn purge(&mut self, slab: &mut PacketSlab, class: ClassId, now: Nanos, drops: &mut dyn DropSink) {
        if self.packets == 0 && self.active != NIL {
            self.reset_active(slab);
        }
        while let Some(packet) = self.take_out(slab, class, drops) {
            drops.dropped(now, packet, DropReason::Purged);
        }
    }

    /// Appends a packet to a FIFO.
    ///
    /// # Errors
    /// The packet itself and the limit that it would exceed; the queue is unchanged then.
    #[inline(always)]
    pub(crate) fn push(&mut self, slab: &mut PacketSlab, packet: Packet) -> Result<(), (Packet, DropReason)> {
        let bytes = u64::from(self.bytes) + u64::from(packet.len);
        let slab = &mut slab.store;
        if self.is_over(slab, bytes) {
            let reason = self.refusal(slab, bytes);
            return Err((packet, reason));
        }
        slab.enter(packet.len);
        self.packets += 1;
        // Not above the limit.
        self.bytes = bytes as u32;
        if self.packets == 1 {
            self.head.handle = packet.handle;
            self.head.len = packet.len;
            return Ok(());
        }
        let node = slab.insert(packet.handle, packet.len);
        if self.packets == 2 {
            self.head.next = node;
        } else {
            slab.nodes[self.tail as usize].next = node;
        }
        self.tail = node;
        Ok(())
    }

    /// Like [`LeafQueue::push`] into an open slab with room. Returns false, without a change, if a limit of the queue
    /// would be exceeded.
    #[inline(always)]
    pub(crate) fn push_open(&mut self, slab: &mut OpenSlab<'_>, handle: u64, len: u32) -> bool {
        let bytes = u64::from(self.bytes) + u64::from(len);
        if self.packets >= self.limit_packets || bytes > u64::from(self.limit_bytes) {
            return false;
        }
        self.bytes = bytes as u32;
        let before = self.packets;
        self.packets = before + 1;
        if before == 0 {
            (self.head.handle, self.head.len) = (handle, len);
            return true;
        }
        let node = slab.insert(handle, len);
        if before == 1 {
            self.head.next = node;
        } else {
            slab.nodes[self.tail as usize].next = node;
        }
        self.tail = node;
        true
    }

    /// Returns the length of the head of a queue that is not empty.
    #[inline(always)]
    pub(crate) const fn len_of_head(&self) -> u32 {
        self.head.len
    }

    /// Dequeues the head packet of a nonempty FIFO of `class`, with the slab open. Returns true if the queue is now
    /// empty.
    #[inline(always)]
    pub(crate) fn pop_open(&mut self, slab: &mut OpenSlab<'_>, class: ClassId, slot: &mut Packet) -> bool {
        *slot = Packet { handle: self.head.handle, len: self.head.len, class };
        self.bytes -= self.head.len;
        self.packets -= 1;
        if self.packets == 0 {
            return true;
        }
        slab.remove(self.head.next, &mut self.head);
        false
    }

    /// Returns true if one more packet, with which there are `bytes`, would exceed a limit.
    #[inline(always)]
    fn is_over(&self, slab: &Slab, bytes: u64) -> bool {
        self.packets >= self.limit_packets || bytes > u64::from(self.limit_bytes) || slab.is_full()
    }

    #[cold]
    fn refusal(&self, slab: &Slab, bytes: u64) -> DropReason {
        if self.packets >= self.limit_packets {
            DropReason::QueuePackets
        } else if bytes > u64::from(self.limit_bytes) {
            DropReason::QueueBytes
        } else {
            debug_assert!(slab.is_full());
            DropReason::TotalPackets
        }
    }

    /// Removes and returns the head of a FIFO that is not empty. Returns true if it has another packet.
    #[inline(always)]
    fn take_head(&mut self, slab: &mut PacketSlab, class: ClassId) -> (Packet, bool) {
        let slab = &mut slab.store;
        let packet = Packet { handle: self.head.handle, len: self.head.len, class };
        self.packets -= 1;
        self.bytes -= packet.len;
        slab.leave(packet.len);
        if self.packets == 0 {
            return (packet, false);
        }
        let index = self.head.next;
        let node = &slab.nodes[index as usize];
        self.head = *node;
        slab.release(index);
        (packet, true)
    }
}

/// Operations of a queue that shares the room of its slab.
impl LeafQueue {
    /// Returns its class, if it shares the room of the slab.
    fn shares(&self) -> Option<u32> {
        (self.active != NIL && self.active & SHARES != 0).then_some(self.active & !SHARES)
    }

    /// Returns its number in the slab's table of active queues, if it is there.
    pub(crate) fn table(&self) -> Option<u32> {
        (self.active != NIL && self.active & SHARES == 0).then_some(self.active)
    }

    fn enqueue_shared(
        &mut self,
        (slab, class): (&mut PacketSlab, u32),
        now: Nanos,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> bool {
        let PacketSlab { store, shared: Some(shared), .. } = slab else { unreachable!("the slab shares its room") };
        let shared = &mut shared[0];
        let Amount { packets, bytes } = shared.backlog(class);
        let reason = if packets >= u64::from(self.limit_packets) {
            Some(DropReason::QueuePackets)
        } else if bytes + u64::from(packet.len) > u64::from(self.limit_bytes) {
            Some(DropReason::QueueBytes)
        } else if store.is_full() && !shared.make_room(store, class, now, drops) {
            Some(DropReason::TotalPackets)
        } else {
            None
        };
        if let Some(reason) = reason {
            drops.dropped(now, packet, reason);
            return false;
        }
        if shared.push(store, class, packet.handle, packet.len) {
            (self.head.handle, self.head.len, self.packets) = (packet.handle, packet.len, 1);
        }
        true
    }

    fn dequeue_shared(&mut self, slab: &mut PacketSlab, class: u32) -> Packet {
        let PacketSlab { store, shared: Some(shared), .. } = slab else { unreachable!("the slab shares its room") };
        let packet = Packet { handle: self.head.handle, len: self.head.len, class: ClassId(class) };
        match shared[0].pop(store, class, packet.len) {
            Some((handle, len)) => (self.head.handle, self.head.len) = (handle, len),
            None => self.packets = 0,
        }
        packet
    }
}

/// Operations of an active queue.
impl LeafQueue {
    fn behind<'a>(&'a mut self, class: ClassId, drops: &'a mut dyn DropSink) -> Behind<'a> {
        Behind { queue: self.active, class, packets: &mut self.packets, bytes: &mut self.bytes, drops }
    }

    #[cold]
    fn enqueue_active(&mut self, slab: &mut PacketSlab, now: Nanos, packet: Packet, drops: &mut dyn DropSink) -> bool {
        if let Some(class) = self.shares() {
            return self.enqueue_shared((slab, class), now, packet, drops);
        }
        let Some(mut table) = slab.active.take() else { unreachable!("an active queue is in its slab's table") };
        table[0].advance(now);
        let taken = self.enter(&mut table[0], &mut slab.store, packet, drops);
        slab.active = Some(table);
        taken
    }

    fn enter(&mut self, table: &mut Table, slab: &mut Slab, packet: Packet, drops: &mut dyn DropSink) -> bool {
        // Each time round, at least one packet is dropped.
        while let Some(reason) = self.why_full(slab, packet.len) {
            let hopeless = packet.len > self.limit_bytes;
            if hopeless || !table.evict(slab, &mut self.behind(packet.class, drops), &packet, reason) {
                drops.dropped(table.now(), packet, reason);
                return false;
            }
        }
        let Packet { handle, len, class } = packet;
        table.push(slab, self.active, handle, len);
        slab.enter(len);
        self.packets += 1;
        self.bytes += len;
        if self.packets == 1 {
            self.fill_head(table, slab, class, true, drops);
        }
        true
    }

    fn why_full(&self, slab: &Slab, len: u32) -> Option<DropReason> {
        let bytes = u64::from(self.bytes) + u64::from(len);
        self.is_over(slab, bytes).then(|| self.refusal(slab, bytes))
    }

    /// Dequeues the head. `now` is given if CoDel is to judge the following packets.
    #[cold]
    fn dequeue_active(
        &mut self,
        slab: &mut PacketSlab,
        class: ClassId,
        now: Option<Nanos>,
        drops: &mut dyn DropSink,
    ) -> Packet {
        if let Some(class) = self.shares() {
            return self.dequeue_shared(slab, class);
        }
        let Some(mut table) = slab.active.take() else { unreachable!("an active queue is in its slab's table") };
        table[0].advance(now.unwrap_or(Nanos::ZERO));
        let packet = Packet { handle: self.head.handle, len: self.head.len, class };
        self.packets -= 1;
        self.bytes -= packet.len;
        slab.store.leave(packet.len);
        self.fill_head(&mut table[0], &mut slab.store, class, now.is_some(), drops);
        slab.active = Some(table);
        packet
    }

    /// Moves the next packet, if any, to the head. If there is none, all flows leave their lists.
    fn fill_head(
        &mut self,
        table: &mut Table,
        slab: &mut Slab,
        class: ClassId,
        judged: bool,
        drops: &mut dyn DropSink,
    ) {
        if let Some((handle, len)) = table.next(slab, &mut self.behind(class, drops), judged) {
            (self.head.handle, self.head.len) = (handle, len);
        }
    }

    /// Resets CoDel's state and the order of service; the queue must be empty.
    #[cold]
    fn reset_active(&mut self, slab: &mut PacketSlab) {
        if let Some(table) = &mut slab.active
            && self.shares().is_none()
        {
            table[0].reset(self.active);
        }
    }
}

const _: () = assert!(size_of::<LeafQueue>() == 40);
