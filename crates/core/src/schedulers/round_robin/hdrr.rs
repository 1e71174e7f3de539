//! `hdrr`: Hierarchical Deficit Round Robin of Back et al., \[hdrr\], as \[hls\] Sections I, VI and VII describe it.
//!
//! The tree is mapped to one round over the leaves, in which the leaves of a class are interleaved with those of its
//! siblings by their weights. A leaf's deficit grows by a fixed quantum at each visit. The visit sends the packets that
//! the deficit covers. The rest is kept while the leaf has packets. A visit ends when its last packet has been sent, as
//! in [`drr`](crate::schedulers::drr). The leaf is then put into the round again, or leaves it, behind those that came
//! meanwhile.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | Q, the quantum | `quantum`: the link's largest packet | bytes |
//! | d_i, deficit counter | the state in `flows` | bytes |
//! | w_i | weights among siblings, `virtual_time::weights` | |
//! | beta_i, visits to all leaves in which i is visited at least once (Lemma 9) | none: see below | |
//!
//! **Interleaving.** Written out, the round would have as many visits as the product of the sums of all weights on a
//! path: 10^27 for three levels of guarantees in bit/s. So it is not written out. Each class keeps a tag per child, the
//! position of the child in the class's part of the round. A visit to a child of weight w advances it by 1 / w. The
//! child with the smallest next position is visited (`Sessions`, with visits in place of bytes). That is self-clocked
//! fair queueing of visits. Among children with equal next positions, the one of the smallest weight always comes
//! first, because its tag is the oldest.
//!
//! **Cost per packet.** O(log n) of the children at each level per visit; a visit sends at least one packet.
//! **Invariants.** A child has a tag in its parent's heap exactly while a leaf below it has packets or is being
//! visited. 0 <= d_i < L_max between visits, 0 while a leaf is empty. **Bounds.** For whole weights, without a common
//! divisor among siblings: between two visits of a child there are at most ceil(w_j / w_i) of each sibling j, and |n_i
//! / w_i - n_j / w_j| <= 1 / w_i + 1 / w_j for the numbers of visits while both have packets. From that follow Lemma 9,
//! Theorem 4 for siblings that are leaves, and Theorem 6. For inner classes Theorem 4 does not hold: their leaves'
//! deficits add up, and a leaf that empties forgets the rest of its quantum. **Overflow budget.** As in
//! `parts::virtual_time`. Deficits are below 2^21 bytes. **Validation.** Lemma 8 and Lemma 9 in the tests below;
//! Theorems 4 and 6 in `fairlink-theory`, with its formulas.
//!
//! DIFFERENCE: tags replace the layout of the round. So it does not start anew when a class becomes active. DIFFERENCE:
//! Q is the largest packet of the link. The paper leaves it open. With less, visits would send nothing.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use core::any::Any;

use crate::bases::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, ClassId, Dequeued, DropSink, Fairness, Feature, Hierarchy, Nanos, OutOfMemory, Packet, Promises, Scheduler,
    SchedulerInfo, Sharing, TransmissionGap, WorkConserving, boxed, same_kind,
};
use crate::parts::{
    heap::Heap,
    memory::{Stack, bytes_of, filled, slice},
    virtual_time::{self, Sessions, lower_by},
};

#[cfg(test)]
mod tests;

/// Registry entry of `hdrr`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "hdrr",
    aliases: &[],
    paper: "hdrr",
    summary: "hierarchical DRR: leaves interleaved by weight in one long round",
    features: &[Feature::Hierarchy, Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(levels log children)",
    sharing: Sharing::SiblingVisits,
    promises: Promises {
        fairness: Some(Fairness::Visits),
        transmission_gap: Some(TransmissionGap::LongestRound),
        ..Promises::NONE
    },
    memory: Hdrr::memory,
    build: |tree, _| boxed(Hdrr::new(tree)?),
};

const NIL: u32 = u32::MAX;

/// The position of a class among the children of its parent.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Class id of the parent; [`NIL`] for the root.
    parent: u32,
    slot: u32,
    /// Index of the class among the inner ones; [`NIL`] for a leaf.
    inner: u32,
}

/// Interleaves the visits to the children of one class.
#[derive(Debug)]
struct Inner {
    tags: Sessions,
    /// Children with packets below them, by their tags.
    active: Heap,
    /// Class ids of the children.
    children: Box<[u32]>,
}

/// HDRR over a hierarchy.
#[derive(Debug)]
pub(crate) struct Hdrr {
    flows: Flows<u32>,
    places: Box<[Place]>,
    inners: Stack<Inner>,
    quantum: u32,
    /// The leaf that is being visited, which may have no packet except the one in transmission; [`NIL`] between visits.
    visited: u32,
}

impl Hdrr {
    /// Makes a scheduler for `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let mut places = filled(tree.len(), Place { parent: NIL, slot: 0, inner: NIL })?;
        let mut inners = Stack::with_room(tree.len() - tree.leaves().len())?;
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()).filter(|&class| !tree.is_leaf(class)) {
            places[class.index()].inner = inners.len() as u32;
            let children = slice(tree.children(class).len(), |slot| tree.children(class)[slot].0)?;
            for (slot, &child) in children.iter().enumerate() {
                let place = &mut places[child as usize];
                (place.parent, place.slot) = (class.0, slot as u32);
            }
            let tags = Sessions::new(&virtual_time::child_weights(tree, class)?)?;
            inners.push(Inner { tags, active: Heap::new(children.len())?, children });
        }
        let flows = Flows::new(tree, |_| 0)?;
        Ok(Self { flows, places, inners, quantum: tree.link().max_packet, visited: NIL })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        let families = core::iter::once(ClassId::ROOT).chain(tree.classes()).map(|class| tree.children(class).len());
        let families = families.filter(|&children| children > 0);
        let most = families.clone().max().unwrap_or(0);
        let inners = tree.len() - tree.leaves().len();
        let below: u64 = families.map(|n| Sessions::memory(n) + Heap::memory(n) + bytes_of::<u32>(n)).sum();
        Flows::<u32>::memory(tree)
            + bytes_of::<Place>(tree.len())
            + bytes_of::<Inner>(inners)
            + below
            + virtual_time::memory_of_weights(most)
    }

    /// Handles the first packet of a leaf. The leaf and the classes above it take part in the round.
    fn activate(&mut self, leaf: u32) {
        let Place { mut parent, mut slot, .. } = self.places[leaf as usize];
        while parent != NIL {
            let place = self.places[parent as usize];
            let inner = &mut self.inners[place.inner as usize];
            if inner.active.contains(slot) {
                break;
            }
            inner.tags.begin(slot, 1, inner.tags.v);
            inner.active.set(slot, inner.tags.finish(slot));
            (parent, slot) = (place.parent, place.slot);
        }
    }

    /// Returns the leaf that is visited next; `None` if no leaf has packets.
    fn choose(&mut self) -> Option<u32> {
        let mut class = ClassId::ROOT.0;
        loop {
            let place = self.places[class as usize];
            if place.inner == NIL {
                return Some(class);
            }
            let Inner { tags, active, children } = &mut self.inners[place.inner as usize];
            let (slot, tag) = active.first()?;
            tags.v = tag;
            let by = lower_by(tag, [active.first()]);
            if by > 0 {
                active.lower(by);
                tags.lower(by);
            }
            class = children[slot as usize];
        }
    }

    /// Ends the transmission. The visit in progress is over if its leaf has no packet that the deficit covers.
    #[inline]
    fn settle(&mut self) {
        let leaf = self.visited;
        if leaf == NIL {
            return;
        }
        let deficit = *self.flows.state(leaf);
        match self.flows.head_len(leaf) {
            Some(len) if len <= deficit => return,
            Some(_) => {}
            None => *self.flows.state_mut(leaf) = 0,
        }
        self.visited = NIL;
        self.advance(leaf);
    }

    /// Ends the visit of a leaf. The leaf and the classes above it move one visit further in the round, or leave it.
    fn advance(&mut self, leaf: u32) {
        let mut stays = !self.flows.is_empty(leaf);
        let Place { mut parent, mut slot, .. } = self.places[leaf as usize];
        while parent != NIL {
            let place = self.places[parent as usize];
            let Inner { tags, active, .. } = &mut self.inners[place.inner as usize];
            if stays {
                tags.next(slot, 1);
                active.set(slot, tags.finish(slot));
            } else {
                active.remove(slot);
            }
            stays = !active.is_empty();
            (parent, slot) = (place.parent, place.slot);
        }
    }
}

impl Scheduler for Hdrr {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let leaf = packet.class.0;
        if self.flows.push(now, packet, drops) == Some(true) && leaf != self.visited {
            self.activate(leaf);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.settle();
        if self.visited == NIL {
            let Some(leaf) = self.choose() else { return Dequeued::Idle };
            *self.flows.state_mut(leaf) += self.quantum;
            self.visited = leaf;
        }
        let leaf = self.visited;
        let Some(packet) = self.flows.pop(leaf, now, drops) else {
            unreachable!("leaf {leaf} is visited and has no packet")
        };
        *self.flows.state_mut(leaf) -= packet.len;
        Dequeued::Packet(packet)
    }

    backlog_of_flows!();

    fn retune(&mut self, _now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        let place = |place: &Place| (place.parent, place.slot, place.inner);
        if !self.flows.fits(&with.flows) || !self.places.iter().map(place).eq(with.places.iter().map(place)) {
            return false;
        }
        // The quantum is the largest packet, which is the same.
        self.flows.retune(&mut with.flows, |_, _| ());
        for (mine, theirs) in self.inners.iter_mut().zip(with.inners.iter()) {
            mine.tags.retune(&theirs.tags);
        }
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        self.flows.states_mut().for_each(|deficit| *deficit = 0);
        for inner in self.inners.iter_mut() {
            inner.tags.reset();
            inner.active.clear();
        }
        self.visited = NIL;
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let mut active = alloc::vec![false; self.places.len()];
        for leaf in self.flows.leaves().filter(|&leaf| !self.flows.is_empty(leaf) || leaf == self.visited) {
            let mut class = leaf;
            while class != NIL && !core::mem::replace(&mut active[class as usize], true) {
                class = self.places[class as usize].parent;
            }
        }
        for inner in self.inners.iter() {
            inner.active.check()?;
            for (slot, &child) in (0..).zip(inner.children.iter()) {
                if inner.active.contains(slot) != active[child as usize] {
                    return Err(format!("class {child}: packets {}, in the round or not", active[child as usize]));
                }
            }
            if inner.active.first().is_some_and(|(_, tag)| tag < inner.tags.v) {
                return Err(format!("a tag lies before {}", inner.tags.v));
            }
        }
        for leaf in self.flows.leaves() {
            let (deficit, head) = (*self.flows.state(leaf), self.flows.head_len(leaf));
            let holds = match head {
                _ if leaf == self.visited => deficit < 2 * self.quantum,
                None => deficit == 0,
                Some(len) => deficit < len || deficit == 0,
            };
            if !holds {
                return Err(format!("leaf {leaf}: a deficit of {deficit} B for {head:?}"));
            }
        }
        Ok(())
    }
}
