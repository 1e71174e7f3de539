//! A worker: the end of a shared tree that one core has.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::atomics::spin_loop;
use super::passes::{Call, Passes, SHORTLY};
use super::ring::{Own, Ring};
use super::{SharedError, SharedTree};
use crate::contract::{
    Amount, BatchEnd, ClassId, Dequeued, DropSink, Hierarchy, Nanos, OutOfMemory, Packet, Scheduler, room_in,
};
use crate::parts::memory::{bytes_of, room};
use crate::queue::PacketSlab;

/// The end of a [`SharedTree`] that one core has: its leaf queues, and what it sends. It is a [`Scheduler`] of the
/// packets that it was given.
///
/// [`BatchEnd::Idle`] means that no packet is queued here and no leaf is on. [`BatchEnd::WaitUntil`] may also be
/// returned without packets, while a leaf that has sent its last one still owes for it: it leaves in the call at that
/// time.
#[derive(Debug)]
#[repr(align(128))] // Workers that lie side by side in memory share no cache line: each writes its own with each packet.
pub struct Worker {
    tree: Arc<SharedTree>,
    passes: Passes,
    /// Room for one packet.
    single: Vec<Packet>,
}

impl Drop for Worker {
    /// Takes its leaves off, so that they get no share any more. Its packets are lost to the caller: purge first.
    fn drop(&mut self) {
        // Others hold a lock for microseconds, or until they have a processor again.
        for _ in 0..1 << 16 {
            self.passes.leave(&self.tree, &mut |_, _, _| {});
            if self.passes.active.is_empty() {
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
        Ok(Self { passes: Passes::new(&tree)?, single: room(1)?, tree })
    }

    /// Upper bound, in bytes, of the memory that a worker of a shared `tree` uses and keeps.
    #[must_use]
    pub fn memory_for(tree: &Hierarchy) -> u64 {
        let nodes = tree.len() - tree.leaves().len();
        let by_node = bytes_of::<Ring>(nodes) + bytes_of::<u32>(nodes) + bytes_of::<bool>(nodes);
        let by_leaf = bytes_of::<Own>(tree.len()) + bytes_of::<u32>(tree.leaves().len());
        PacketSlab::memory(tree) + by_node + by_leaf + bytes_of::<Packet>(1)
    }

    /// Takes `leaves` off, which are in the order of their numbers. Their packets stay, and are not sent until others
    /// arrive. Returns false if it must be called again, because other workers kept a class above them busy.
    #[cfg(feature = "hub")]
    pub(crate) fn suspend(&mut self, leaves: &[ClassId], drops: &mut dyn DropSink) -> bool {
        self.passes.suspend(&self.tree, leaves, drops)
    }

    /// Removes and returns the first packet of a leaf that was suspended.
    #[cfg(feature = "hub")]
    pub(crate) fn take_out(&mut self, leaf: ClassId, drops: &mut dyn DropSink) -> Option<Packet> {
        self.passes.take_out(leaf, drops)
    }

    /// Returns the number of packets for which it has room.
    #[cfg(feature = "hub")]
    pub(crate) fn room(&self) -> u32 {
        self.passes.room()
    }

    /// Returns the tree that it shares.
    #[must_use]
    pub fn tree(&self) -> &Arc<SharedTree> {
        &self.tree
    }
}

impl Scheduler for Worker {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.passes.take_in(&self.tree, now, packet, drops);
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
        self.passes.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        let Passes { leaves, slab, .. } = &self.passes;
        leaves.get(class.index()).map_or(Amount::ZERO, |own| own.queue.backlog(slab))
    }

    /// Drops all packets that are queued here. The leaves that only this worker has on go off; what they had or owed is
    /// with their siblings. A leaf whose class is kept busy by others leaves in a later call.
    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.passes.purge(now, drops);
        self.passes.leave(&self.tree, drops);
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
        self.passes.serve(&self.tree, &mut Call::new(now, (packets, max_bytes), out, drops))
    }
}
