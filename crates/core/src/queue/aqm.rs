//! What is behind the head of an active leaf queue: CoDel (RFC 8289) or FQ-CoDel (RFC 8290).
//!
//! Such a leaf is the RFC's queue with room for one packet at its exit: the head. The head is filled again as soon as
//! it is taken, as if the queue fed a device that holds one packet. CoDel is FQ-CoDel with a single flow. They differ
//! when the queue is full: CoDel drops what arrives.
//!
//! | RFC 8290 | here |
//! | --- | --- |
//! | queue (of a flow) | [`Flow`]; a packet's is told by the lowest bits of [`Packet::flow`] |
//! | number of queues, 1024 | [`FLOWS`], or fewer: see [`MAX_FLOWS`] and [`FLOWS_PER_PACKET`] |
//! | quantum | the link's largest packet |
//! | credits | `deficit`, bytes |
//! | lists of new and old queues | `new`, `old` |
//! | packet limit; "the queue with the largest current byte count" | the leaf's limits, and the link's; [`Table::evict`] |
//!
//! **Cost per packet.** O(1), and one step per flow that has become empty. When the queue is full, its flows are walked
//! over once, and up to 64 packets are then dropped at once.
//!
//! **Invariants.** A flow is in a list while it has packets and for a while after. The packets and bytes of the flows and of the
//! head are those of the leaf. A drop by CoDel never takes a flow's last packet, so a leaf never becomes empty by it.
//!
//! DIFFERENCE: a packet is judged when it becomes the head, not when it is taken. What it waits as the head is not
//! judged. Schedulers build on the head that they saw.
//! DIFFERENCE: CoDel looks at the bytes of the packet's own flow, as RFC 8289 says of a queue. Widespread code looks at
//! those of all flows together. With the flow's own bytes, a flow of single packets is never signalled because of the
//! others.
//! DIFFERENCE: the caller hashes, and salts the hash: the core draws no random numbers.

use super::NIL;
use super::codel::{Codel, Verdict};
use super::slab::{Node, Slab};
use crate::contract::{
    ClassConfig, ClassId, DropReason, DropSink, Hierarchy, Nanos, OutOfMemory, Packet, QueueKind, flow_of,
};
use crate::parts::memory::{Stack, bytes_of};

/// Flows that FQ-CoDel keeps apart in a leaf.
pub(super) const FLOWS: u32 = 1024;
/// Flows in all leaves together: where there are more than 1024 leaves with FQ-CoDel, each keeps fewer apart, a power of two.
pub(super) const MAX_FLOWS: u32 = 1 << 20;
/// So many flows for each packet that fits into a leaf are enough to keep most of them apart.
const FLOWS_PER_PACKET: u32 = 4;
/// Packets that are dropped at once, at most, from the longest flow of a full queue (RFC 8290, Section 4.1).
const EVICTED: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    New,
    Old,
}

#[derive(Clone, Debug)]
struct Flow {
    first: u32,
    last: u32,
    packets: u32,
    bytes: u64,
    deficit: i64,
    /// The next in the same list.
    next: u32,
    place: Place,
    codel: Codel,
}

const IDLE: Flow = Flow {
    first: NIL,
    last: NIL,
    packets: 0,
    bytes: 0,
    deficit: 0,
    next: NIL,
    place: Place::Nowhere,
    codel: Codel::NEW,
};

/// A list of flows.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NIL, last: NIL };

impl List {
    fn push(&mut self, flows: &mut [Flow], flow: u32) {
        flows[flow as usize].next = NIL;
        if self.first == NIL {
            self.first = flow;
        } else {
            flows[self.last as usize].next = flow;
        }
        self.last = flow;
    }

    fn pop(&mut self, flows: &[Flow]) {
        self.first = flows[self.first as usize].next;
    }
}

#[derive(Debug)]
struct Active {
    /// Its flows, in `Table::flows`; a power of two of them.
    first_flow: u32,
    flows: u32,
    new: List,
    old: List,
    ecn: bool,
    /// Whether the longest flow gives way when the queue is full.
    evicts: bool,
}

/// How much a table has to hold.
struct Size {
    queues: usize,
    flows: usize,
    /// Flows that FQ-CoDel keeps apart in a leaf whose queue is long.
    most_flows: u32,
}

impl Size {
    fn of(tree: &Hierarchy) -> Self {
        let asking = |kind| tree.leaves().iter().filter(|&&leaf| tree.config(leaf).queue == kind).count();
        let fair = asking(QueueKind::FqCoDel);
        // There are at most 10^6 leaves.
        let most = (MAX_FLOWS / (fair as u32).max(1)).clamp(1, FLOWS);
        let most_flows = 1 << most.ilog2();
        let flows = tree.leaves().iter().map(|&leaf| flows_for(tree.config(leaf), most_flows) as usize).sum();
        Self { queues: asking(QueueKind::CoDel) + fair, flows, most_flows }
    }
}

/// Flows that a leaf's queue keeps apart, a power of two; 0 for a FIFO.
fn flows_for(config: &ClassConfig, most: u32) -> u32 {
    match config.queue {
        QueueKind::Fifo => 0,
        QueueKind::CoDel => 1,
        QueueKind::FqCoDel => config.limits.packets.saturating_mul(FLOWS_PER_PACKET).min(most).next_power_of_two(),
    }
}

/// The active queues of one scheduler.
#[derive(Debug)]
pub(super) struct Table {
    queues: Stack<Active>,
    flows: Stack<Flow>,
    /// When the packet in each node of the slab arrived.
    arrived: Stack<Nanos>,
    /// Flows that FQ-CoDel keeps apart in a leaf whose queue is long.
    most_flows: u32,
    max_packet: u32,
    now: Nanos,
}

impl Table {
    /// Whether [`Table::retune`] can be done: the same queues with the same flows.
    pub(super) fn fits(&self, with: &Self) -> bool {
        let same = |(mine, theirs): (&Active, &Active)| {
            (mine.first_flow, mine.flows, mine.evicts) == (theirs.first_flow, theirs.flows, theirs.evicts)
        };
        self.queues.len() == with.queues.len()
            && self.queues.iter().zip(with.queues.iter()).all(same)
            && self.max_packet == with.max_packet
    }

    /// Has the room of `with`, in which nothing was ever queued, and marks as it would.
    pub(super) fn retune(&mut self, with: &mut Self) {
        self.arrived.take_room(&mut with.arrived);
        for (mine, theirs) in self.queues.iter_mut().zip(with.queues.iter()) {
            mine.ecn = theirs.ecn;
        }
    }

    /// A table for the leaves of `tree` that ask for an active queue; none where none does.
    pub(super) fn new(tree: &Hierarchy) -> Result<Option<Self>, OutOfMemory> {
        let size = Size::of(tree);
        if size.queues == 0 {
            return Ok(None);
        }
        let link = tree.link();
        Ok(Some(Self {
            queues: Stack::with_room(size.queues)?,
            flows: Stack::with_room(size.flows)?,
            arrived: Stack::with_room(link.max_queued as usize)?,
            most_flows: size.most_flows,
            max_packet: link.max_packet,
            now: Nanos::ZERO,
        }))
    }

    /// Bytes that one for `tree` takes.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        let size = Size::of(tree);
        if size.queues == 0 {
            return 0;
        }
        let arrived = bytes_of::<Nanos>(tree.link().max_queued as usize);
        bytes_of::<Self>(1) + bytes_of::<Active>(size.queues) + bytes_of::<Flow>(size.flows) + arrived
    }

    /// Adds a leaf; its number, or [`NIL`] where it asks for a FIFO.
    pub(super) fn add(&mut self, config: &ClassConfig) -> u32 {
        let flows = flows_for(config, self.most_flows);
        if flows == 0 {
            return NIL;
        }
        let first_flow = self.flows.len() as u32;
        (0..flows).for_each(|_| self.flows.push(IDLE));
        let evicts = config.queue == QueueKind::FqCoDel;
        self.queues.push(Active { first_flow, flows, new: EMPTY, old: EMPTY, ecn: config.ecn, evicts });
        self.queues.len() as u32 - 1
    }

    /// Flows that queue number `queue` keeps apart.
    #[cfg(test)]
    pub(super) fn flows_of(&self, queue: u32) -> u32 {
        self.queues[queue as usize].flows
    }

    /// Forgets what CoDel has seen, and who was served last; queue number `queue` is empty.
    pub(super) fn reset(&mut self, queue: u32) {
        // As a table that was just made; the schedulers know how late it is.
        self.now = Nanos::ZERO;
        let queue = &mut self.queues[queue as usize];
        (queue.new, queue.old) = (EMPTY, EMPTY);
        let flows = queue.first_flow as usize..(queue.first_flow + queue.flows) as usize;
        self.flows[flows].fill(IDLE);
    }

    /// Time goes on.
    pub(super) fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// The latest time it knows of.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    fn flow_of(&self, queue: u32, handle: u64) -> u32 {
        let queue = &self.queues[queue as usize];
        queue.first_flow + (flow_of(handle) & (queue.flows - 1))
    }

    /// Appends a packet to its flow.
    pub(super) fn push(&mut self, slab: &mut Slab, queue: u32, handle: u64, len: u32) {
        let at = self.flow_of(queue, handle);
        let node = slab.insert(handle, len);
        while self.arrived.len() <= node as usize {
            self.arrived.push(Nanos::ZERO);
        }
        self.arrived[node as usize] = self.now;
        let flow = &mut self.flows[at as usize];
        if flow.packets == 0 {
            flow.first = node;
        } else {
            slab.nodes[flow.last as usize].next = node;
        }
        flow.last = node;
        flow.packets += 1;
        flow.bytes += u64::from(len);
        if flow.place == Place::Nowhere {
            flow.place = Place::New;
            flow.deficit = i64::from(self.max_packet);
            self.queues[queue as usize].new.push(&mut self.flows, at);
        }
    }

    /// Takes the first packet of a flow, which has one.
    fn pop(&mut self, slab: &mut Slab, flow: u32) -> (u64, u32) {
        let flow = &mut self.flows[flow as usize];
        let node = flow.first;
        let Node { handle, len, next } = slab.nodes[node as usize];
        flow.first = next;
        flow.packets -= 1;
        flow.bytes -= u64::from(len);
        slab.release(node);
        (handle, len)
    }

    /// Chooses the next head: the loop of RFC 8290, Section 4.2. A flow whose deficit is spent is passed over once,
    /// because a quantum covers any packet. An empty flow is passed over once or twice, until it is in no list.
    /// `judged` says whether CoDel has a say.
    pub(super) fn next(&mut self, slab: &mut Slab, leaf: &mut Behind<'_>, judged: bool) -> Option<(u64, u32)> {
        loop {
            let queue = &mut self.queues[leaf.queue as usize];
            let (list, place) =
                if queue.new.first == NIL { (&mut queue.old, Place::Old) } else { (&mut queue.new, Place::New) };
            let at = list.first;
            let flow = self.flows.get_mut(at as usize)?;
            let spent = flow.deficit <= 0;
            if spent {
                flow.deficit += i64::from(self.max_packet);
            } else if flow.packets > 0 {
                let passed = self.pass(slab, leaf, at, judged);
                self.flows[at as usize].deficit -= i64::from(passed.1);
                return Some(passed);
            }
            list.pop(&self.flows);
            if spent || place == Place::New {
                self.flows[at as usize].place = Place::Old;
                queue.old.push(&mut self.flows, at);
            } else {
                self.flows[at as usize].place = Place::Nowhere;
            }
        }
    }

    /// Takes the first packet of a flow that CoDel lets pass, and drops those before it. There is always one, because
    /// CoDel never drops the last.
    fn pass(&mut self, slab: &mut Slab, leaf: &mut Behind<'_>, at: u32, judged: bool) -> (u64, u32) {
        let now = self.now;
        let mut again = false;
        loop {
            let waited = now.saturating_sub(self.arrived[self.flows[at as usize].first as usize]);
            let (handle, len) = self.pop(slab, at);
            let flow = &mut self.flows[at as usize];
            if !judged || flow.codel.judge(now, waited, flow.bytes, self.max_packet, again) == Verdict::Send {
                return (handle, len);
            }
            let packet = Packet { handle, len, class: leaf.class };
            if self.queues[leaf.queue as usize].ecn && packet.is_ecn_capable() {
                flow.codel.marked();
                leaf.drops.marked(now, &packet);
                return (handle, len);
            }
            leaf.drop(slab, now, packet, DropReason::Congestion);
            again = true;
        }
    }

    /// Drops half of the longest flow, at most [`EVICTED`] packets, to make room for `packet`; false where that is the longest flow
    /// all by itself (RFC 8290, Section 4.1).
    pub(super) fn evict(
        &mut self,
        slab: &mut Slab,
        leaf: &mut Behind<'_>,
        packet: &Packet,
        reason: DropReason,
    ) -> bool {
        let Active { first_flow, flows, evicts, .. } = self.queues[leaf.queue as usize];
        let own = self.flow_of(leaf.queue, packet.handle);
        let size = |&at: &u32| {
            let flow = &self.flows[at as usize];
            let (packets, bytes) = if at == own { (1, u64::from(packet.len)) } else { (0, 0) };
            (flow.bytes + bytes, flow.packets + packets, core::cmp::Reverse(at))
        };
        let longest = (first_flow..first_flow + flows).max_by_key(size).filter(|_| evicts);
        let Some(longest) = longest.filter(|&at| self.flows[at as usize].packets > 0) else { return false };
        for _ in 0..self.flows[longest as usize].packets.div_ceil(2).min(EVICTED) {
            let (handle, len) = self.pop(slab, longest);
            leaf.drop(slab, self.now, Packet { handle, len, class: leaf.class }, reason);
        }
        true
    }
}

/// The leaf that a table works for: what is behind its head.
pub(super) struct Behind<'a> {
    pub(super) queue: u32,
    pub(super) class: ClassId,
    pub(super) packets: &'a mut u32,
    pub(super) bytes: &'a mut u32,
    pub(super) drops: &'a mut dyn DropSink,
}

impl Behind<'_> {
    fn drop(&mut self, slab: &mut Slab, now: Nanos, packet: Packet, reason: DropReason) {
        *self.packets -= 1;
        *self.bytes -= packet.len;
        slab.leave(packet.len);
        self.drops.dropped(now, packet, reason);
    }
}
