//! Common parts of flat schedulers: the leaves of a hierarchy ([`Flows`]), each with a queue and the scheduler's state;
//! rings of leaves to visit in turn ([`Ring`]); and lists that are linked through the leaves ([`Chain`]). A leaf is in
//! at most one of these.
//!
//! **Cost.** O(1) for all operations except [`Ring::remove`] and those that visit all leaves. Nothing is allocated
//! after construction.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::contract::{Amount, ClassId, DropReason, DropSink, Hierarchy, Nanos, OutOfMemory, Packet};
use crate::parts::memory::{bytes_of, slice};
use crate::queue::{LeafQueue, PacketSlab};

mod chain;
mod plain;
mod ring;

pub(crate) use chain::Chain;
pub(crate) use plain::Turn;
pub(crate) use ring::Ring;

/// Implements the backlogs of a `Scheduler` that are those of its `flows`.
macro_rules! backlog_of_flows {
    () => {
        fn backlog(&self) -> Amount {
            self.flows.backlog()
        }

        fn class_backlog(&self, class: ClassId) -> Amount {
            self.flows.class_backlog(class)
        }
    };
}

/// Implements the batches of a `Scheduler` with `flows` that is never idle while a packet waits.
macro_rules! batches_of_flows {
    () => {
        fn enqueue_batch(&mut self, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
            self.flows.look_ahead(batch);
            push_all(self, now, batch, drops);
        }

        fn dequeue_batch(
            &mut self,
            now: Nanos,
            max_packets: usize,
            max_bytes: u64,
            out: &mut Vec<Packet>,
            drops: &mut dyn DropSink,
        ) -> BatchEnd {
            let (queued, longest) = (self.flows.queued(), self.flows.max_packet());
            let serve = |slots: &mut [Packet], bytes| pop_all(self, longest, (slots, bytes), now, drops);
            let more = fill(out, (max_packets, max_bytes), queued, serve);
            if more { BatchEnd::Full } else { BatchEnd::Idle }
        }
    };
}

pub(crate) use {backlog_of_flows, batches_of_flows};

const NIL: u32 = u32::MAX;

#[derive(Debug)]
#[repr(align(64))]
struct Flow<S> {
    queue: LeafQueue,
    state: S,
    /// The next in its chain.
    next: u32,
    leaf: bool,
    /// A leaf whose queue is a plain FIFO.
    fifo: bool,
}

// On one cache line if a scheduler needs at most 16 bytes.
const _: () = assert!(size_of::<Flow<[u64; 2]>>() == 64);

/// The leaves of a hierarchy by class id, each with its queue and a state `S` of the scheduler's.
#[derive(Debug)]
pub(crate) struct Flows<S> {
    flows: Box<[Flow<S>]>,
    slab: PacketSlab,
    max_packet: u32,
}

impl<S> Flows<S> {
    /// Makes the leaves of `tree`. `state` is called for every class id, including those that are not leaves.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy, state: impl FnMut(ClassId) -> S) -> Result<Self, OutOfMemory> {
        Self::over(PacketSlab::for_tree(tree)?, tree, state)
    }

    /// Like `new`, with FIFOs, regardless of the leaves' configuration. For schedulers that tag packets on arrival.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn of_fifos(tree: &Hierarchy, state: impl FnMut(ClassId) -> S) -> Result<Self, OutOfMemory> {
        Self::over(PacketSlab::new(tree.link().max_queued)?, tree, state)
    }

    fn over(mut slab: PacketSlab, tree: &Hierarchy, mut state: impl FnMut(ClassId) -> S) -> Result<Self, OutOfMemory> {
        let flow = |index| {
            let class = ClassId(index as u32);
            let queue = slab.queue_for(tree, class);
            let leaf = tree.is_leaf(class);
            let fifo = leaf && queue.is_fifo();
            Flow { queue, state: state(class), next: NIL, leaf, fifo }
        };
        let flows = slice(tree.len(), flow)?;
        Ok(Self { flows, slab, max_packet: tree.link().max_packet })
    }

    /// Bytes that the leaves of `tree` take, with queues as they ask for them.
    pub(crate) fn memory(tree: &Hierarchy) -> u64 {
        bytes_of::<Flow<S>>(tree.len()) + PacketSlab::memory(tree)
    }

    /// Bytes that the leaves of `tree` take with FIFOs.
    pub(crate) fn fifo_memory(tree: &Hierarchy) -> u64 {
        bytes_of::<Flow<S>>(tree.len()) + PacketSlab::fifo_memory(tree)
    }

    /// Queues a packet, or drops it. `Some` if it was queued: true if it is now the only one of its leaf.
    #[inline]
    pub(crate) fn push(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) -> Option<bool> {
        let Some(flow) = self.flows.get_mut(packet.class.index()).filter(|flow| flow.leaf) else {
            drops.dropped(now, packet, DropReason::NotALeaf);
            return None;
        };
        if packet.len > self.max_packet {
            drops.dropped(now, packet, DropReason::TooLong);
            return None;
        }
        let was_empty = flow.queue.is_empty();
        flow.queue.enqueue(&mut self.slab, now, packet, drops).then_some(was_empty)
    }

    /// Removes and returns the head packet of a leaf. An active queue may drop others on the way to its next.
    #[inline]
    pub(crate) fn pop(&mut self, flow: u32, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.flows[flow as usize].queue.dequeue(&mut self.slab, ClassId(flow), now, drops)
    }

    /// Returns the length of the head packet of a leaf in bytes, or `None` while the leaf is empty.
    #[must_use]
    #[inline]
    pub(crate) fn head_len(&self, flow: u32) -> Option<u32> {
        self.flows[flow as usize].queue.head_len()
    }

    /// Returns true if a class exists, is a leaf, and may be sent packets of `len` bytes.
    #[must_use]
    pub(crate) fn takes(&self, class: ClassId, len: u32) -> bool {
        len <= self.max_packet && self.flows.get(class.index()).is_some_and(|flow| flow.leaf)
    }

    /// Returns true if the queue of a leaf is empty.
    #[must_use]
    #[inline]
    pub(crate) fn is_empty(&self, flow: u32) -> bool {
        self.flows[flow as usize].queue.is_empty()
    }

    /// Number of classes, including the link.
    pub(crate) fn len(&self) -> u32 {
        self.flows.len() as u32
    }

    /// Returns the scheduler's own state of a class.
    #[must_use]
    #[inline]
    pub(crate) fn state(&self, flow: u32) -> &S {
        &self.flows[flow as usize].state
    }

    /// Returns the scheduler's own state of a class, mutable.
    #[must_use]
    #[inline]
    pub(crate) fn state_mut(&mut self, flow: u32) -> &mut S {
        &mut self.flows[flow as usize].state
    }

    /// Returns the states of all classes, by id.
    pub(crate) fn states_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.flows.iter_mut().map(|flow| &mut flow.state)
    }

    /// All classes by id, including those that are not leaves and never have packets.
    #[cfg(feature = "invariants")]
    pub(crate) fn classes(&self) -> impl Iterator<Item = u32> + use<S> {
        0..self.flows.len() as u32
    }

    /// Returns the leaves, by id.
    #[cfg(feature = "invariants")]
    pub(crate) fn leaves(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(self.flows.iter()).filter_map(|(index, flow)| flow.leaf.then_some(index))
    }

    /// Returns the largest accepted packet, in bytes.
    #[must_use]
    pub(crate) fn max_packet(&self) -> u32 {
        self.max_packet
    }

    /// Packets in all leaves.
    #[must_use]
    pub(crate) fn queued(&self) -> u32 {
        self.slab.queued()
    }

    /// Returns the amount queued in all leaves.
    #[must_use]
    pub(crate) fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    /// Returns the amount queued at one class; zero if it is not a leaf.
    #[must_use]
    pub(crate) fn class_backlog(&self, class: ClassId) -> Amount {
        self.flows.get(class.index()).map_or(Amount::default(), |flow| flow.queue.backlog(&self.slab))
    }

    /// Empties all queues into `drops` and takes all leaves out of their chains, which have to be made new.
    pub(crate) fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            flow.queue.purge(&mut self.slab, ClassId(index as u32), now, drops);
            flow.next = NIL;
        }
    }

    /// Returns true if [`Flows::retune`] can be done.
    pub(crate) fn fits(&self, with: &Self) -> bool {
        let same = |(mine, theirs): (&Flow<S>, &Flow<S>)| mine.leaf == theirs.leaf && mine.queue.fits(&theirs.queue);
        self.flows.len() == with.flows.len()
            && self.max_packet == with.max_packet
            && self.flows.iter().zip(&with.flows).all(same)
            && self.slab.fits(&with.slab)
    }

    /// Adopts the limits of `with`, which was never used. `state` transfers the scheduler's state.
    pub(crate) fn retune(&mut self, with: &mut Self, mut state: impl FnMut(&mut S, &S)) {
        self.slab.retune(&mut with.slab);
        for (mine, theirs) in self.flows.iter_mut().zip(&with.flows) {
            mine.queue.retune(&theirs.queue);
            state(&mut mine.state, &theirs.state);
        }
    }

    /// Returns the amount queued at a leaf.
    pub(crate) fn backlog_of(&self, flow: u32) -> Amount {
        self.flows[flow as usize].queue.backlog(&self.slab)
    }

    /// Checks that `listed` are exactly the leaves with packets, each once, except those that the scheduler keeps
    /// elsewhere, and that the bytes add up.
    ///
    /// # Errors
    /// The broken invariant, in words.
    #[cfg(feature = "invariants")]
    pub(crate) fn check(&self, listed: impl IntoIterator<Item = u32>, elsewhere: usize) -> Result<(), String> {
        self.check_with(listed, elsewhere, None)
    }

    /// Like `check`, except that the class `sending`, whose packet may be in transmission, may be listed without
    /// another.
    ///
    /// # Errors
    /// The broken invariant, in words.
    #[cfg(feature = "invariants")]
    pub(crate) fn check_with(
        &self,
        listed: impl IntoIterator<Item = u32>,
        elsewhere: usize,
        sending: Option<u32>,
    ) -> Result<(), String> {
        let mut seen = alloc::vec![false; self.flows.len()];
        let mut backlogged = elsewhere;
        for flow in listed {
            let empty = self.flows.get(flow as usize).is_none_or(|flow| flow.queue.is_empty());
            if empty && sending != Some(flow) {
                return Err(format!("class {flow} is listed and has nothing to send"));
            }
            if core::mem::replace(&mut seen[flow as usize], true) {
                return Err(format!("class {flow} is listed twice"));
            }
            backlogged += usize::from(!empty);
        }
        let all = self.flows.iter().filter(|flow| !flow.queue.is_empty()).count();
        let bytes: u64 = self.flows.iter().map(|flow| flow.queue.backlog(&self.slab).bytes).sum();
        let counted = self.slab.backlog().bytes;
        if (all, bytes) != (backlogged, counted) {
            return Err(format!("{all} classes with {bytes} B; {backlogged} are listed, {counted} B counted"));
        }
        let idle =
            |(index, flow): &(u32, &Flow<S>)| flow.queue.is_empty() && sending != Some(*index) && flow.next != NIL;
        match (0u32..).zip(self.flows.iter()).find(idle) {
            Some((idle, _)) => Err(format!("class {idle} is empty and listed")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_link::{flat, never, weighted};

    /// Makes `leaves` leaves with a packet of one byte each.
    pub(super) fn flows(leaves: u32) -> Flows<()> {
        let mut flows = Flows::new(&flat((0..leaves).map(|_| weighted(1))), |_| ()).unwrap();
        for class in 1..=leaves {
            flows.push(Nanos::ZERO, Packet { handle: 0, len: 1, class: ClassId(class) }, &mut never);
        }
        flows
    }
}
