//! What flat schedulers share: the leaves of a hierarchy ([`Flows`]), each with a queue and a scheduler's own state,
//! and rings of leaves to visit in turn ([`Ring`]).
//!
//! **Cost.** O(1) for everything but [`Ring::remove`], [`Ring::iter`], and what visits all leaves. Nothing is allocated after
//! construction: a ring is a list through the leaves themselves, so a leaf is in one ring at most.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::contract::{Amount, ClassId, DropReason, DropSink, Hierarchy, Nanos, OutOfMemory, Packet};
use crate::parts::memory::{bytes_of, slice};
use crate::queue::{LeafQueue, PacketSlab};

mod plain;

pub(crate) use plain::Turn;

const NIL: u32 = u32::MAX;

#[derive(Debug)]
#[repr(align(64))]
struct Flow<S> {
    queue: LeafQueue,
    state: S,
    /// The next in its ring.
    next: u32,
    leaf: bool,
    /// A leaf whose queue is a plain FIFO.
    fifo: bool,
}

// On one cache line where a scheduler needs no more than 16 bytes.
const _: () = assert!(size_of::<Flow<[u64; 2]>>() == 64);

/// The leaves of a hierarchy by class id, each with its queue and a state `S` of the scheduler's.
#[derive(Debug)]
pub(crate) struct Flows<S> {
    flows: Box<[Flow<S>]>,
    slab: PacketSlab,
    max_packet: u32,
}

impl<S> Flows<S> {
    /// The leaves of `tree`. `state` is asked for every class id, also of those that are not leaves.
    ///
    /// # Errors
    /// Where there is no memory for them.
    pub(crate) fn new(tree: &Hierarchy, state: impl FnMut(ClassId) -> S) -> Result<Self, OutOfMemory> {
        Self::over(PacketSlab::for_tree(tree)?, tree, state)
    }

    /// The same with FIFOs whatever the leaves ask for, for schedulers that tag packets when they arrive.
    ///
    /// # Errors
    /// Where there is no memory for them.
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

    /// Queues a packet, or drops it. `Some` if it was queued: whether it is now the only one of its leaf.
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

    /// Takes the head packet of a leaf out; an active queue may drop others on the way to its next.
    #[inline]
    pub(crate) fn pop(&mut self, flow: u32, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.flows[flow as usize].queue.dequeue(&mut self.slab, ClassId(flow), now, drops)
    }

    /// Length of the head packet of a leaf, in bytes; `None` while it is empty.
    #[must_use]
    #[inline]
    pub(crate) fn head_len(&self, flow: u32) -> Option<u32> {
        self.flows[flow as usize].queue.head_len()
    }

    /// Whether a class exists, is a leaf, and may be sent packets of `len` bytes.
    #[must_use]
    pub(crate) fn takes(&self, class: ClassId, len: u32) -> bool {
        len <= self.max_packet && self.flows.get(class.index()).is_some_and(|flow| flow.leaf)
    }

    /// Whether a leaf has nothing queued.
    #[must_use]
    #[inline]
    pub(crate) fn is_empty(&self, flow: u32) -> bool {
        self.flows[flow as usize].queue.is_empty()
    }

    /// How many classes there are, the link included.
    pub(crate) fn len(&self) -> u32 {
        self.flows.len() as u32
    }

    /// The scheduler's own state of a class.
    #[must_use]
    #[inline]
    pub(crate) fn state(&self, flow: u32) -> &S {
        &self.flows[flow as usize].state
    }

    /// The same, to be changed.
    #[must_use]
    #[inline]
    pub(crate) fn state_mut(&mut self, flow: u32) -> &mut S {
        &mut self.flows[flow as usize].state
    }

    /// The states of all classes, by id.
    pub(crate) fn states_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.flows.iter_mut().map(|flow| &mut flow.state)
    }

    /// All classes by id, also those that are no leaves and never have packets.
    #[cfg(feature = "invariants")]
    pub(crate) fn classes(&self) -> impl Iterator<Item = u32> + use<S> {
        0..self.flows.len() as u32
    }

    /// The leaves, by id.
    #[cfg(feature = "invariants")]
    pub(crate) fn leaves(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(self.flows.iter()).filter_map(|(index, flow)| flow.leaf.then_some(index))
    }

    /// Largest packet taken, in bytes.
    #[must_use]
    pub(crate) fn max_packet(&self) -> u32 {
        self.max_packet
    }

    /// Packets in all leaves.
    #[must_use]
    pub(crate) fn queued(&self) -> u32 {
        self.slab.queued()
    }

    /// What is queued in all leaves.
    #[must_use]
    pub(crate) fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    /// What is queued at one class; nothing where it is no leaf.
    #[must_use]
    pub(crate) fn class_backlog(&self, class: ClassId) -> Amount {
        self.flows.get(class.index()).map_or(Amount::default(), |flow| flow.queue.backlog(&self.slab))
    }

    /// Empties all queues into `drops` and takes all leaves out of their rings, which have to be made new.
    pub(crate) fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            flow.queue.purge(&mut self.slab, ClassId(index as u32), now, drops);
            flow.next = NIL;
        }
    }

    /// Whether [`Flows::retune`] can be done.
    pub(crate) fn fits(&self, with: &Self) -> bool {
        let same = |(mine, theirs): (&Flow<S>, &Flow<S>)| mine.leaf == theirs.leaf && mine.queue.fits(&theirs.queue);
        self.flows.len() == with.flows.len()
            && self.max_packet == with.max_packet
            && self.flows.iter().zip(&with.flows).all(same)
            && self.slab.fits(&with.slab)
    }

    /// Has the limits of `with`, in which nothing was ever queued. `state` brings over the rest.
    pub(crate) fn retune(&mut self, with: &mut Self, mut state: impl FnMut(&mut S, &S)) {
        self.slab.retune(&mut with.slab);
        for (mine, theirs) in self.flows.iter_mut().zip(&with.flows) {
            mine.queue.retune(&theirs.queue);
            state(&mut mine.state, &theirs.state);
        }
    }

    /// What is queued at a leaf.
    pub(crate) fn backlog_of(&self, flow: u32) -> Amount {
        self.flows[flow as usize].queue.backlog(&self.slab)
    }

    /// Checks that `rings` together hold exactly the leaves with packets, each once, but for those that the scheduler keeps
    /// elsewhere, and that the bytes add up.
    ///
    /// # Errors
    /// The broken invariant, in words.
    #[cfg(feature = "invariants")]
    pub(crate) fn check(&self, rings: &[&Ring], elsewhere: usize) -> Result<(), String> {
        self.check_with(rings, elsewhere, None)
    }

    /// The same where the class `sending`, the packet of which may be on its way, may be listed without another.
    ///
    /// # Errors
    /// The broken invariant, in words.
    #[cfg(feature = "invariants")]
    pub(crate) fn check_with(&self, rings: &[&Ring], elsewhere: usize, sending: Option<u32>) -> Result<(), String> {
        let mut listed = elsewhere;
        for ring in rings {
            let mut last = NIL;
            for flow in ring.iter(self) {
                let empty = self.flows.get(flow as usize).is_none_or(|flow| flow.queue.is_empty());
                if empty && sending != Some(flow) {
                    return Err(format!("class {flow} is listed and has nothing to send"));
                }
                (listed, last) = (listed + usize::from(!empty), flow);
            }
            if last != ring.tail {
                return Err(format!("a ring of {} classes ends with {last}, not with {}", ring.len, ring.tail));
            }
        }
        let backlogged = self.flows.iter().filter(|flow| !flow.queue.is_empty()).count();
        let bytes: u64 = self.flows.iter().map(|flow| flow.queue.backlog(&self.slab).bytes).sum();
        let counted = self.slab.backlog().bytes;
        if (backlogged, bytes) != (listed, counted) {
            return Err(format!("{backlogged} classes with {bytes} B; {listed} are listed, {counted} B counted"));
        }
        let idle =
            |(index, flow): &(u32, &Flow<S>)| flow.queue.is_empty() && sending != Some(*index) && flow.next != NIL;
        match (0u32..).zip(self.flows.iter()).find(idle) {
            Some((idle, _)) => Err(format!("class {idle} is empty and listed")),
            None => Ok(()),
        }
    }
}

/// Leaves in the order in which they are visited: the first is visited next. The leaves are linked through a [`Flows`], the
/// same one in every call.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The last; the first is the one after it.
    tail: u32,
    len: u32,
}

impl Default for Ring {
    fn default() -> Self {
        Self { tail: NIL, len: 0 }
    }
}

impl Ring {
    /// Leaves in it.
    #[must_use]
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Whether no leaf is in it.
    #[must_use]
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The leaf that is visited next.
    #[must_use]
    #[inline]
    pub(crate) fn first<S>(&self, flows: &Flows<S>) -> Option<u32> {
        if self.len == 0 { None } else { Some(flows.flows[self.tail as usize].next) }
    }

    /// Puts a leaf that is in no ring at the end.
    #[inline]
    pub(crate) fn push<S>(&mut self, flows: &mut Flows<S>, flow: u32) {
        self.push_in(&mut flows.flows, flow);
    }

    #[inline(always)]
    fn push_in<S>(&mut self, flows: &mut [Flow<S>], flow: u32) {
        debug_assert_eq!(flows[flow as usize].next, NIL, "class {flow} is in a ring already");
        let first = if self.len == 0 { flow } else { flows[self.tail as usize].next };
        flows[flow as usize].next = first;
        if self.len > 0 {
            flows[self.tail as usize].next = flow;
        }
        self.tail = flow;
        self.len += 1;
    }

    /// Makes the first the last.
    #[inline]
    pub(crate) fn rotate<S>(&mut self, flows: &Flows<S>) {
        if let Some(first) = self.first(flows) {
            self.tail = first;
        }
    }

    /// Takes the first out.
    #[inline]
    pub(crate) fn pop<S>(&mut self, flows: &mut Flows<S>) -> Option<u32> {
        let first = self.first(flows)?;
        let next = core::mem::replace(&mut flows.flows[first as usize].next, NIL);
        self.len -= 1;
        if self.len == 0 {
            self.tail = NIL;
        } else {
            flows.flows[self.tail as usize].next = next;
        }
        Some(first)
    }

    /// Takes a leaf out, wherever it is. Returns whether it was in. O(n).
    pub(crate) fn remove<S>(&mut self, flows: &mut Flows<S>, flow: u32) -> bool {
        let mut before = self.tail;
        for _ in 0..self.len {
            let at = flows.flows[before as usize].next;
            if at == flow {
                if at == self.tail {
                    self.tail = if self.len == 1 { NIL } else { before };
                }
                let next = core::mem::replace(&mut flows.flows[at as usize].next, NIL);
                if self.len > 1 {
                    flows.flows[before as usize].next = next;
                }
                self.len -= 1;
                return true;
            }
            before = at;
        }
        false
    }

    /// Moves all of `other` to the end, in their order.
    pub(crate) fn append<S>(&mut self, flows: &mut Flows<S>, other: &mut Self) {
        let other = core::mem::take(other);
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            let first = flows.flows[other.tail as usize].next;
            flows.flows[other.tail as usize].next = flows.flows[self.tail as usize].next;
            flows.flows[self.tail as usize].next = first;
            self.tail = other.tail;
            self.len += other.len;
        }
    }

    /// The leaves in it, from the first on.
    #[cfg(feature = "invariants")]
    pub(crate) fn iter<S>(&self, flows: &Flows<S>) -> impl Iterator<Item = u32> {
        let next = |&flow: &u32| flows.flows.get(flow as usize).map(|flow| flow.next);
        core::iter::successors(self.first(flows), next).take(self.len as usize)
    }

    /// Calls `visit` with each leaf in it, its state and its head packet's length, from the first on.
    #[inline]
    pub(crate) fn for_each<S>(&self, flows: &mut Flows<S>, mut visit: impl FnMut(u32, &mut S, u32)) {
        let Some(mut at) = self.first(flows) else { return };
        for _ in 0..self.len {
            let flow = &mut flows.flows[at as usize];
            visit(at, &mut flow.state, flow.queue.head_len().unwrap_or(0));
            at = flow.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_link::{flat, never, weighted};
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    fn flows(leaves: usize) -> Flows<()> {
        Flows::new(&flat((0..leaves).map(|_| weighted(1))), |_| ()).unwrap()
    }

    proptest! {
        #[test]
        fn rings_are_lists_that_each_leaf_is_in_once(steps in prop::collection::vec((0u8..6, 0usize..2, 1u32..=6), 1..200)) {
            let mut flows = flows(6);
            for class in 1..=6 {
                flows.push(Nanos::ZERO, Packet { handle: 0, len: 1, class: ClassId(class) }, &mut never);
            }
            let mut rings = [Ring::default(), Ring::default()];
            let mut model = [VecDeque::new(), VecDeque::new()];
            for (what, which, flow) in steps {
                let free = model.iter().all(|list| !list.contains(&flow));
                let (ring, list) = (&mut rings[which], &mut model[which]);
                match what {
                    0 | 1 if free => {
                        ring.push(&mut flows, flow);
                        list.push_back(flow);
                    }
                    0..=2 => prop_assert_eq!(ring.pop(&mut flows), list.pop_front()),
                    3 => {
                        ring.rotate(&flows);
                        if !list.is_empty() {
                            list.rotate_left(1);
                        }
                    }
                    4 => {
                        let place = list.iter().position(|&listed| listed == flow);
                        prop_assert_eq!(ring.remove(&mut flows, flow), place.is_some());
                        place.and_then(|place| list.remove(place));
                    }
                    _ => {
                        let [one, other] = &mut rings;
                        one.append(&mut flows, other);
                        let [one, other] = &mut model;
                        one.append(other);
                    }
                }
                for (ring, list) in rings.iter().zip(&model) {
                    prop_assert!(ring.iter(&flows).eq(list.iter().copied()), "{:?}, {:?}", ring, list);
                    prop_assert_eq!((ring.len() as usize, ring.is_empty()), (list.len(), list.is_empty()));
                    prop_assert_eq!(ring.first(&flows), list.front().copied());
                }
                let complete = model.iter().map(VecDeque::len).sum::<usize>() == 6;
                let [one, other] = &rings;
                prop_assert_eq!(flows.check(&[one, other], 0).is_ok(), complete);
            }
        }
    }
}
