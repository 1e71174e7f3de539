//! `pifo-tree`: hierarchical packet fair queueing by a tree of PIFOs (push-in, first-out queues), which \[hls\] footnote 1 calls wrong for
//! packets of different lengths: it is here to show how.
//!
//! Every class with children has a queue in the order of ranks. When a packet arrives, each class on its path pushes an
//! entry for its child into that queue, with a rank, by start-time fair queueing: S = max(V, F), F = S + L / phi, where
//! L is the length of the packet that *arrives*. V is the rank that was popped last. To send, the root pops its first
//! entry, the child of that entry pops its own, and so on down to the leaf, whose first packet is sent.
//!
//! **Fault of the algorithm.** An entry stands for a child and not for a packet. The packet that is sent for it differs
//! from the one that it was ranked with, if a child below has ranked another leaf first. So a class is charged for
//! lengths in another order than it sends them. With packets of 1500 B that wait behind ones of 64 B it is ahead or
//! behind by the whole backlog below it. `hpfq` gives a class the tag of the packet that it would send next, and has a
//! bound. With packets of one length both send the same.
//!
//! | text | here | unit |
//! | --- | --- | --- |
//! | PIFO of a class | `Server::heads`, the first rank of each child, and `Server::ranks`, those behind | |
//! | rank | start tag | 1 / `UNITS_PER_BYTE` virtual byte |
//! | V | `Sessions::v` | the same |
//!
//! A child's ranks grow, so that a queue for each child and a heap of their first ranks are the PIFO.
//!
//! **Cost per packet.** O(log n) of the children at each level, on arrival and on departure. **Invariants.** Each class
//! has as many ranks queued as there are packets below it. A child is in the heap exactly while it has any. **Bounds.**
//! None. **Overflow budget.** As in `parts::virtual_time`. **Validation.** With packets of one length it sends as a
//! tree of `sfq` would; a pair of classes with different lengths.
//!
//! DIFFERENCE: the text names no discipline of a PIFO; start-time fair queueing is the one that PIFO trees are published with.
//! DIFFERENCE: queues are FIFOs. Active queues and push-out take packets out that have been ranked, which a PIFO cannot.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, ClassId, Dequeued, DropSink, Feature, Hierarchy, Nanos, OutOfMemory, Packet, Promises, Scheduler,
    SchedulerInfo, Sharing, WorkConserving, boxed,
};
use crate::parts::{
    heap::Heap,
    memory::{Stack, bytes_of, slice},
    tags::{TagQueue, TagSlab},
    virtual_time::{Sessions, child_weights, lower_by, memory_of_weights},
};

#[cfg(test)]
mod tests;

/// Registry entry of `pifo-tree`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "pifo-tree",
    aliases: &[],
    paper: "hls",
    summary: "fair queueing by a tree of PIFOs: right for packets of one length only",
    features: &[Feature::Hierarchy],
    work_conserving: WorkConserving::Always,
    cost: "O(levels * log children)",
    sharing: Sharing::Unknown("ranks count the lengths of packets that arrive and not of those that are sent"),
    promises: Promises::NONE,
    memory: PifoTree::memory,
    build: |tree, _| boxed(PifoTree::new(tree)?),
};

const NONE: u32 = u32::MAX;

/// The PIFO of a class with children.
#[derive(Debug)]
struct Server {
    sessions: Sessions,
    /// Children with packets below them, by their first rank.
    heads: Heap,
    ranks: Box<[TagQueue]>,
    /// The classes of the children.
    children: Box<[u32]>,
}

/// The position of a class in the tree.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Parent class; none for the link.
    parent: u32,
    /// Among the children of the class above.
    slot: u32,
    /// Index into `PifoTree::servers`; none for a leaf.
    server: u32,
}

/// A tree of PIFOs.
#[derive(Debug)]
pub(crate) struct PifoTree {
    flows: Flows<()>,
    places: Box<[Place]>,
    servers: Stack<Server>,
    tags: TagSlab,
}

/// Maximum number of queued ranks: one for each packet and level.
fn ranks(tree: &Hierarchy) -> u32 {
    u32::try_from(u64::from(tree.link().max_queued) * tree.levels() as u64).unwrap_or(u32::MAX)
}

impl PifoTree {
    /// Makes a scheduler for `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let inner = tree.len() - tree.leaves().len();
        let mut servers = Stack::with_room(inner)?;
        let mut places = slice(tree.len(), |index| {
            let parent = tree.parent(ClassId(index as u32)).map_or(NONE, |parent| parent.0);
            Place { parent, slot: 0, server: NONE }
        })?;
        for index in 0..tree.len() {
            let children = tree.children(ClassId(index as u32));
            if children.is_empty() {
                continue;
            }
            places[index].server = servers.len() as u32;
            for (slot, child) in children.iter().enumerate() {
                places[child.index()].slot = slot as u32;
            }
            servers.push(Server {
                sessions: Sessions::new(&child_weights(tree, ClassId(index as u32))?)?,
                heads: Heap::new(children.len())?,
                ranks: slice(children.len(), |_| TagQueue::default())?,
                children: slice(children.len(), |slot| children[slot].0)?,
            });
        }
        Ok(Self { flows: Flows::of_fifos(tree, |_| ())?, places, servers, tags: TagSlab::new(ranks(tree))? })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        let all = core::iter::once(ClassId::ROOT).chain(tree.classes()).map(|class| tree.children(class).len());
        let server = |children: usize| {
            bytes_of::<Server>(1)
                + Sessions::memory(children)
                + memory_of_weights(children)
                + Heap::memory(children)
                + bytes_of::<TagQueue>(children)
                + bytes_of::<u32>(children)
        };
        let servers: u64 = all.filter(|&children| children > 0).map(server).sum();
        Flows::<()>::fifo_memory(tree) + bytes_of::<Place>(tree.len()) + servers + TagSlab::memory(ranks(tree))
    }
}

impl Scheduler for PifoTree {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let (mut class, len) = (packet.class.0, packet.len);
        if self.flows.push(now, packet, drops).is_none() {
            return;
        }
        loop {
            let Place { parent, slot, .. } = self.places[class as usize];
            if parent == NONE {
                return;
            }
            let Server { sessions, heads, ranks, .. } = &mut self.servers[self.places[parent as usize].server as usize];
            let rank = sessions.begin(slot, len, sessions.v).start;
            let queue = &mut ranks[slot as usize];
            if queue.first(&self.tags).is_none() {
                heads.set(slot, rank);
            }
            queue.push(&mut self.tags, rank);
            class = parent;
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        let mut class = ClassId::ROOT.0;
        loop {
            let server = self.places[class as usize].server;
            if server == NONE {
                break;
            }
            let Server { sessions, heads, ranks, children } = &mut self.servers[server as usize];
            let Some((slot, rank)) = heads.first() else { return Dequeued::Idle };
            sessions.v = rank;
            let queue = &mut ranks[slot as usize];
            queue.pop(&mut self.tags);
            match queue.first(&self.tags) {
                Some(next) => heads.set(slot, next),
                None => {
                    heads.remove(slot);
                }
            }
            let by = lower_by(rank, [heads.first()]);
            if by > 0 {
                heads.lower(by);
                sessions.lower(by);
                ranks.iter().for_each(|queue| queue.lower(&mut self.tags, by));
            }
            class = children[slot as usize];
        }
        match self.flows.pop(class, now, drops) {
            Some(packet) => Dequeued::Packet(packet),
            None => unreachable!("class {class} was ranked and has no packet"),
        }
    }

    backlog_of_flows!();

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        for server in self.servers.iter_mut() {
            server.sessions.reset();
            server.heads.clear();
            server.ranks.iter_mut().for_each(|queue| queue.clear(&mut self.tags));
        }
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        for server in self.servers.iter() {
            server.heads.check()?;
            for (slot, queue) in (0u32..).zip(server.ranks.iter()) {
                let (is, should) = (server.heads.key(slot), queue.first(&self.tags));
                if is != should {
                    return Err(format!("child {slot} is listed under {is:?}, its first rank is {should:?}"));
                }
            }
        }
        Ok(())
    }
}
