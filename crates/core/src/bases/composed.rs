//! Disciplines, and [`Composed`], a scheduler with one discipline at every class of a tree. A discipline chooses among
//! the children of one class. Its only inputs are their indices and the lengths at their heads. Only leaves hold
//! packets.
//!
//! In this way a flat discipline becomes a hierarchical one (\[hpfq\] Section 3). Each class offers its parent one
//! packet, the *head*, chosen among the heads of its children. An offered head is not taken back when a better one
//! arrives. When its last bit has left, every class on its path chooses again, from the leaf up.
//!
//! A packet is in transmission from the `dequeue` that returned it to the next `dequeue`, which is when the driver of a
//! link has sent it. Until then its leaf and the classes above count as backlogged, because a server that is sending is
//! not idle. A packet that arrives meanwhile continues the same busy period. The clock and the link's rate determine
//! the part of a packet that is already sent.
//!
//! **Cost per packet.** Two steps of the discipline at each level. **Invariants.** A child is known to its parent's
//! discipline exactly while it has a head, waiting or in transmission.

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};
use core::any::Any;
use core::fmt::Debug;

use super::batches::{LOOK_AHEAD_FROM, PlainIn, push_behind, push_runs};
use crate::contract::{
    Amount, ClassId, Dequeued, DropReason, DropSink, Hierarchy, Nanos, OutOfMemory, Packet, Rate, Scheduler, same_kind,
};
use crate::parts::{
    memory::{Stack, bytes_of, filled, slice},
    prefetch::prefetch,
    virtual_time,
};
use crate::queue::{LeafQueue, PacketSlab};

/// Chooses which child of a server sends next. Children are numbered from 0; lengths are in bytes.
pub(crate) trait Discipline: Debug + Send + 'static {
    /// Makes a server whose children have these weights, in the form of [`virtual_time::weights`].
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    fn new(weights: &[u64]) -> Result<Self, OutOfMemory>
    where
        Self: Sized;

    /// Bytes that one for `children` children takes.
    fn memory(children: usize) -> u64;

    /// Called when `child`, which was idle, has a packet of `len` bytes at its head. `progress` is the number of bytes
    /// already sent of the packet in transmission; 0 if there is none.
    fn activate(&mut self, child: u32, len: u32, progress: u32);

    /// Removes and returns the child that sends next. `None`: no child has a packet, and the server is idle.
    fn select(&mut self) -> Option<u32>;

    /// Records that `child`, the last one selected, has sent its packet of `len` bytes. `next` is the length of its
    /// next packet, if there is one.
    fn complete(&mut self, child: u32, len: u32, next: Option<u32>);

    /// Returns the child that is probably selected after `by` others, if it is known.
    fn ahead(&self, by: u32) -> Option<u32>;

    /// Prefetches the cache lines of `child`.
    fn prefetch(&self, child: u32);

    /// Forgets everything, as if just made.
    fn reset(&mut self);

    /// Adopts the weights of `with`, which was made for as many children.
    fn retune(&mut self, with: &Self)
    where
        Self: Sized;

    /// Checks the discipline's invariants.
    ///
    /// # Errors
    /// The broken one, in words.
    #[cfg(feature = "invariants")]
    fn check(&self) -> Result<(), String>;
}

#[cfg(test)]
mod tests;

/// Prefetch distance in packets: the discipline's data of a child, the leaf, and the packet behind its head.
const CHILD_AHEAD: u32 = 24;
const LEAF_AHEAD: u32 = 16;
const PACKET_AHEAD: u32 = 8;

const ROOT: u32 = 0;
const NIL: u32 = u32::MAX;

#[derive(Debug)]
#[repr(align(64))]
struct Class {
    queue: LeafQueue,
    /// Index of the parent among the inner classes; of the class itself if `slot` is [`NIL`]: then it is an inner
    /// class.
    inner: u32,
    /// Index among the children of its parent.
    slot: u32,
}

#[derive(Debug)]
struct Inner<D> {
    discipline: D,
    parent: u32,
    slot: u32,
    /// Start of its children in `Composed::children`.
    children: u32,
    /// The leaf whose packet it offers or sends; [`NIL`] if none.
    head: u32,
    /// The child that `head` is below.
    head_slot: u32,
    /// True if it is on the path of the packet in transmission.
    sending: bool,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    leaf: u32,
    len: u32,
    since: Nanos,
}

/// A scheduler with a discipline at each inner class.
#[derive(Debug)]
pub(crate) struct Composed<D> {
    classes: Box<[Class]>,
    inners: Stack<Inner<D>>,
    /// Children of the inner classes: the index of an inner class, or of a leaf with [`LEAF`] set.
    children: Stack<u32>,
    slab: PacketSlab,
    max_packet: u32,
    rate: Rate,
    now: Nanos,
    under_way: Option<UnderWay>,
    /// True if there are enough leaves for prefetching.
    looks_ahead: bool,
}

const LEAF: u32 = 1 << 31;

impl<D: Discipline> Composed<D> {
    /// One discipline over all leaves of `tree`, regardless of the classes between them and the root.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn flat(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let mut composed = Self::without_disciplines(tree, 1)?;
        composed.add_inner(D::new(&virtual_time::leaf_weights(tree)?)?, NIL, 0);
        for (slot, &leaf) in tree.leaves().iter().enumerate() {
            composed.children.push(leaf.0 | LEAF);
            let class = &mut composed.classes[leaf.index()];
            (class.inner, class.slot) = (ROOT, slot as u32);
        }
        Ok(composed)
    }

    /// Memory of a flat instance for `tree`, in bytes, including construction.
    pub(crate) fn flat_memory(tree: &Hierarchy) -> u64 {
        let leaves = tree.leaves().len();
        Self::memory(tree, 1) + D::memory(leaves) + virtual_time::memory_of_weights(leaves)
    }

    /// Memory of a hierarchical instance for `tree`, in bytes, including construction.
    pub(crate) fn hierarchical_memory(tree: &Hierarchy) -> u64 {
        let inner = core::iter::once(ClassId::ROOT).chain(tree.classes()).map(|class| tree.children(class).len());
        let most = inner.clone().max().unwrap_or(0);
        let disciplines: u64 = inner.filter(|&children| children > 0).map(D::memory).sum();
        let inners = tree.len() - tree.leaves().len();
        Self::memory(tree, inners) + disciplines + bytes_of::<u32>(tree.len()) + virtual_time::memory_of_weights(most)
    }

    fn memory(tree: &Hierarchy, inners: usize) -> u64 {
        let classes = tree.len();
        PacketSlab::memory(tree) + bytes_of::<Class>(classes) + bytes_of::<u32>(classes) + bytes_of::<Inner<D>>(inners)
    }

    /// Makes a discipline over the children of each class of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn hierarchical(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let mut composed = Self::without_disciplines(tree, tree.len() - tree.leaves().len())?;
        let mut slots = filled(tree.len(), 0u32)?;
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
            for (slot, &child) in tree.children(class).iter().enumerate() {
                slots[child.index()] = slot as u32;
            }
            let parent = tree.parent(class).map_or(NIL, |parent| composed.classes[parent.index()].inner);
            if tree.is_leaf(class) {
                let leaf = &mut composed.classes[class.index()];
                (leaf.inner, leaf.slot) = (parent, slots[class.index()]);
                continue;
            }
            composed.classes[class.index()].inner = composed.inners.len() as u32;
            composed.add_inner(D::new(&virtual_time::child_weights(tree, class)?)?, parent, slots[class.index()]);
        }
        // Children are grouped by parent, as the inner classes are in the order of their ids.
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()).filter(|&class| !tree.is_leaf(class)) {
            let inner = composed.classes[class.index()].inner;
            composed.inners[inner as usize].children = composed.children.len() as u32;
            for &child in tree.children(class) {
                let index = composed.classes[child.index()].inner;
                composed.children.push(if tree.is_leaf(child) { child.0 | LEAF } else { index });
            }
        }
        Ok(composed)
    }

    fn without_disciplines(tree: &Hierarchy, inners: usize) -> Result<Self, OutOfMemory> {
        let mut slab = PacketSlab::for_tree(tree)?;
        let class = |index| Class { queue: slab.queue_for(tree, ClassId(index as u32)), inner: ROOT, slot: NIL };
        let link = tree.link();
        Ok(Self {
            classes: slice(tree.len(), class)?,
            inners: Stack::with_room(inners)?,
            children: Stack::with_room(tree.len())?,
            slab,
            max_packet: link.max_packet,
            rate: link.rate,
            now: Nanos::ZERO,
            under_way: None,
            looks_ahead: tree.len() >= LOOK_AHEAD_FROM,
        })
    }

    fn add_inner(&mut self, discipline: D, parent: u32, slot: u32) {
        self.inners.push(Inner { discipline, parent, slot, children: 0, head: NIL, head_slot: 0, sending: false });
    }

    /// Called when an empty leaf gets a packet of `len` bytes. Every idle class above the leaf then offers it.
    fn activate(&mut self, leaf: u32, len: u32) {
        let progress = self.under_way.map_or(0, |packet| {
            let sent = self.rate.bytes_in(self.now.saturating_sub(packet.since));
            sent.min(u64::from(packet.len)) as u32
        });
        let class = &self.classes[leaf as usize];
        let (mut at, mut slot) = (class.inner, class.slot);
        loop {
            let inner = &mut self.inners[at as usize];
            inner.discipline.activate(slot, len, if inner.sending { progress } else { 0 });
            if at == ROOT || inner.head != NIL {
                break;
            }
            self.choose_head(at);
            let inner = &self.inners[at as usize];
            (at, slot) = (inner.parent, inner.slot);
        }
    }

    /// Makes an inner class choose its offer. Returns the offer's length.
    fn choose_head(&mut self, at: u32) -> Option<u32> {
        let inner = &mut self.inners[at as usize];
        let Some(slot) = inner.discipline.select() else {
            inner.head = NIL;
            return None;
        };
        inner.head_slot = slot;
        let child = self.children[(inner.children + slot) as usize];
        let head = if child & LEAF == 0 { self.inners[child as usize].head } else { child & !LEAF };
        self.inners[at as usize].head = head;
        self.classes[head as usize].queue.head_len()
    }

    /// Ends the transmission: every class on its path chooses again, except the root, which chooses when it is asked.
    fn finish(&mut self) {
        let Some(UnderWay { leaf, len, .. }) = self.under_way.take() else { return };
        let class = &self.classes[leaf as usize];
        let (mut at, mut slot) = (class.inner, class.slot);
        let mut next = class.queue.head_len();
        loop {
            let inner = &mut self.inners[at as usize];
            inner.sending = false;
            inner.discipline.complete(slot, len, next);
            if at == ROOT {
                inner.head = NIL;
                return;
            }
            (at, slot, next) = (inner.parent, inner.slot, self.choose_head(at));
        }
    }
}

/// Asking for cache lines before they are needed.
impl<D: Discipline> Composed<D> {
    /// Returns the leaf that is probably sent after `by` others, if the discipline of the root knows it.
    #[inline(always)]
    fn ahead(&self, by: u32) -> Option<u32> {
        let root = &self.inners[ROOT as usize];
        let child = self.children[(root.children + root.discipline.ahead(by)?) as usize];
        if child & LEAF != 0 {
            return Some(child & !LEAF);
        }
        // The offer of an inner class is not taken back.
        Some(self.inners[child as usize].head).filter(|&leaf| leaf != NIL)
    }

    /// Prefetches for the next packets: far ahead the discipline's data of a leaf, then the leaf, then the packet
    /// behind its head.
    #[inline]
    fn look_ahead(&self) {
        let root = &self.inners[ROOT as usize];
        if let Some(child) = root.discipline.ahead(CHILD_AHEAD) {
            root.discipline.prefetch(child);
            prefetch(&self.children, (root.children + child) as usize);
        }
        if let Some(leaf) = self.ahead(LEAF_AHEAD) {
            prefetch(&self.classes, leaf as usize);
        }
        if let Some(leaf) = self.ahead(PACKET_AHEAD) {
            let class = &self.classes[leaf as usize];
            self.slab.prefetch_second(&class.queue);
            if class.inner != ROOT {
                self.inners[class.inner as usize].discipline.prefetch(class.slot);
            }
        }
    }

    /// Prefetches for arriving packets: their leaves, then the tails of their queues, or the discipline's data of an
    /// empty leaf.
    fn look_ahead_of(&self, batch: &[Packet]) {
        for packet in batch {
            prefetch(&self.classes, packet.class.index());
        }
        for packet in batch {
            let Some(class) = self.classes.get(packet.class.index()).filter(|class| class.slot != NIL) else {
                continue;
            };
            if class.queue.is_empty() {
                self.inners[class.inner as usize].discipline.prefetch(class.slot);
            } else {
                self.slab.prefetch_tail(&class.queue);
            }
        }
    }
}

impl<D: Discipline> PlainIn for Composed<D> {
    #[inline(always)]
    fn push_plain(&mut self, batch: &[Packet]) -> usize {
        push_behind(&mut self.classes, |class| &mut class.queue, &mut self.slab, self.max_packet, batch)
    }

    #[inline(always)]
    fn push_any(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue(now, packet, drops);
    }
}

impl<D: Discipline> Scheduler for Composed<D> {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let leaf = packet.class.0;
        let Some(class) = self.classes.get_mut(packet.class.index()).filter(|class| class.slot != NIL) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        let len = packet.len;
        let was_empty = class.queue.is_empty();
        if class.queue.enqueue(&mut self.slab, now, packet, drops)
            && was_empty
            && self.under_way.is_none_or(|packet| packet.leaf != leaf)
        {
            self.activate(leaf, len);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        if self.looks_ahead {
            self.look_ahead();
        }
        self.finish();
        if self.choose_head(ROOT).is_none() {
            return Dequeued::Idle;
        }
        let leaf = self.inners[ROOT as usize].head;
        let mut at = ROOT;
        loop {
            let inner = &mut self.inners[at as usize];
            inner.sending = true;
            let child = self.children[(inner.children + inner.head_slot) as usize];
            if child & LEAF != 0 {
                break;
            }
            at = child;
        }
        let queue = &mut self.classes[leaf as usize].queue;
        let Some(packet) = queue.dequeue(&mut self.slab, ClassId(leaf), self.now, drops) else {
            unreachable!("class {leaf} offers a packet that it does not have");
        };
        self.under_way = Some(UnderWay { leaf, len: packet.len, since: self.now });
        Dequeued::Packet(packet)
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
        self.classes.get(class.index()).map_or(Amount::default(), |class| class.queue.backlog(&self.slab))
    }

    fn retune(&mut self, now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        let place = |class: &Class| (class.inner, class.slot);
        let same = |(mine, theirs): (&Class, &Class)| place(mine) == place(theirs) && mine.queue.fits(&theirs.queue);
        let above = |inner: &Inner<D>| (inner.parent, inner.slot, inner.children);
        if self.classes.len() != with.classes.len()
            || self.max_packet != with.max_packet
            || !self.slab.fits(&with.slab)
            || !self.classes.iter().zip(&with.classes).all(same)
            || !self.inners.iter().map(above).eq(with.inners.iter().map(above))
            || *self.children != *with.children
        {
            return false;
        }
        self.now = self.now.max(now);
        self.slab.retune(&mut with.slab);
        self.rate = with.rate;
        for (mine, theirs) in self.classes.iter_mut().zip(&with.classes) {
            mine.queue.retune(&theirs.queue);
        }
        for (mine, theirs) in self.inners.iter_mut().zip(with.inners.iter()) {
            mine.discipline.retune(&theirs.discipline);
        }
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for (index, class) in self.classes.iter_mut().enumerate() {
            class.queue.purge(&mut self.slab, ClassId(index as u32), now, drops);
        }
        self.under_way = None;
        for inner in self.inners.iter_mut() {
            inner.discipline.reset();
            (inner.head, inner.sending) = (NIL, false);
        }
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let mut bytes = 0;
        for (index, class) in self.classes.iter().enumerate().filter(|(_, class)| class.slot != NIL) {
            let backlog = class.queue.backlog(&self.slab);
            bytes += backlog.bytes;
            let parent = &self.inners[class.inner as usize];
            if backlog.packets > 0 && class.inner != ROOT && parent.head == NIL {
                return Err(format!("leaf {index} has {backlog:?}, and its parent offers nothing"));
            }
        }
        let counted = self.slab.backlog().bytes;
        if bytes != counted {
            return Err(format!("{bytes} B queued, {counted} B counted"));
        }
        for (index, inner) in self.inners.iter().enumerate() {
            inner.discipline.check().map_err(|error| format!("inner class {index}: {error}"))?;
            if inner.head != NIL && !inner.sending && self.classes[inner.head as usize].queue.is_empty() {
                return Err(format!("inner class {index} offers leaf {}, which is empty", inner.head));
            }
            if inner.sending && self.under_way.is_none_or(|packet| packet.leaf != inner.head) {
                return Err(format!("inner class {index} sends of {}, under way is {:?}", inner.head, self.under_way));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl<D> Composed<D> {
    /// Returns the discipline of the root.
    pub(crate) fn root_mut(&mut self) -> &mut D {
        &mut self.inners[ROOT as usize].discipline
    }
}
