//! The packets behind the head of an active leaf queue: CoDel (RFC 8289) or FQ-CoDel (RFC 8290).
//!
//! Such a leaf is the RFC's queue with room for one packet at its exit: the head. The head is refilled as soon as it is
//! taken, as if the queue fed a device that holds one packet. CoDel is FQ-CoDel with a single flow. They differ when
//! the queue is full: CoDel drops the arrival.
//!
//! | RFC 8290 | here |
//! | --- | --- |
//! | queue (of a flow) | [`Flow`]; the lowest bits of [`Packet::flow`] select it |
//! | number of queues, 1024 | [`FLOWS`], or fewer: see [`MAX_FLOWS`] and [`FLOWS_PER_PACKET`] |
//! | quantum | the link's largest packet |
//! | credits, lists of new and old queues | [`Turn`], [`Rota`] |
//! | packet limit; "the queue with the largest current byte count" | the leaf's limits, and the link's; [`Table::evict`] |
//!
//! A leaf may keep *hosts* apart: [`ClassConfig::hosts`]. Each active host has an equal part of the leaf's rate. The
//! highest bits of [`Packet::flow`] give a packet's host. Hosts take turns by the same rules as flows, with the same
//! quantum, and so do the flows of a host. If the leaf's queue is a FIFO or CoDel, a host has one flow; CoDel judges
//! each flow separately. When the leaf is full, the host with most bytes loses packets, even if flows alone would not
//! require it.
//!
//! **Bound.** While two hosts have packets, one is served at most 4 L_max - 2 bytes more than the other: [`Hosts::apart`](crate::contract::Hosts::apart) has
//! the proof.
//!
//! **Cost per packet.** O(1), plus one step per flow or host that has become empty. When the queue is full, one pass
//! over the active hosts and over the flows of one of them drops up to 64 packets at once.
//!
//! **Invariants.** A flow or host is in a list while it has packets and for a while after. The packets and bytes of the flows and of the
//! head are those of the leaf. A drop by CoDel never takes a flow's last packet, so a leaf never becomes empty by it.
//!
//! DIFFERENCE: a packet is judged when it becomes the head, not when it is dequeued. Its wait as the head is not
//! judged, because schedulers rely on the head that they saw. DIFFERENCE: CoDel uses the byte count of the packet's own
//! flow, as RFC 8289 says of a queue. Widespread code uses that of all flows together. With the flow's own bytes, a
//! flow of single packets is never signalled because of the others. DIFFERENCE: the caller hashes, and salts the hash:
//! the core draws no random numbers.

use super::NIL;
use super::codel::{Codel, Verdict};
use super::rota::{Member, Rota, Turn};
use super::slab::{Node, Slab};
use crate::contract::{
    ClassConfig, ClassId, DropReason, DropSink, Hierarchy, HostKey, Nanos, OutOfMemory, Packet, QueueKind, flow_of,
    host_of,
};
use crate::parts::memory::{Stack, bytes_of};

/// Flows that FQ-CoDel keeps apart in a leaf.
pub(super) const FLOWS: u32 = 1024;
/// Maximum number of FQ-CoDel flows in all leaves without hosts together, and the same for all hosts. With more than
/// 1024 such leaves each has fewer flows, a power of two, and so do hosts. A leaf or a host has at least one flow, so
/// that many hosts may have more together.
pub(super) const MAX_FLOWS: u32 = 1 << 20;
/// Flows per packet of a leaf's limit; enough to keep most flows apart.
const FLOWS_PER_PACKET: u32 = 4;
/// FQ-CoDel flows for each host of a leaf with hosts.
const FLOWS_PER_HOST: u32 = 16;
/// Packets that are dropped at once, at most, from the longest flow of a full queue (RFC 8290, Section 4.1).
const EVICTED: u32 = 64;

#[derive(Clone, Debug)]
struct Flow {
    first: u32,
    last: u32,
    packets: u32,
    bytes: u64,
    turn: Turn,
    codel: Codel,
}

const IDLE: Flow = Flow { first: NIL, last: NIL, packets: 0, bytes: 0, turn: Turn::NONE, codel: Codel::NEW };

impl Member for Flow {
    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn turn_mut(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

/// A group of flows: a host, or a whole leaf that does not keep hosts apart.
#[derive(Clone, Debug)]
struct Host {
    /// Order of its flows.
    rota: Rota,
    turn: Turn,
    packets: u32,
    bytes: u64,
}

const ABSENT: Host = Host { rota: Rota::EMPTY, turn: Turn::NONE, packets: 0, bytes: 0 };

impl Member for Host {
    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn turn_mut(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

/// The queue structure that a leaf needs; no flows for a FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    hosts: u32,
    /// Flows of each host; a power of two.
    flows: u32,
    /// True if CoDel judges packets.
    codel: bool,
    /// True if the longest flow gives way when the queue is full.
    evicts: bool,
    /// Key of its hosts. If it changes, packets have to move.
    by: Option<HostKey>,
}

impl Shape {
    /// The shape for `config`, under `limits` on the number of flows.
    fn for_class(config: &ClassConfig, limits: FlowLimits) -> Self {
        let (hosts, shared) = config.hosts.map_or((1, false), |hosts| (u32::from(hosts.most.get()), true));
        let flows = match config.queue {
            QueueKind::Fifo => u32::from(shared),
            QueueKind::CoDel => 1,
            QueueKind::FqCoDel if shared => limits.of_a_host,
            QueueKind::FqCoDel => {
                config.limits.packets.saturating_mul(FLOWS_PER_PACKET).min(limits.of_a_leaf).next_power_of_two()
            }
        };
        let evicts = shared || config.queue == QueueKind::FqCoDel;
        Self { hosts, flows, codel: config.queue.is_active(), evicts, by: config.hosts.map(|hosts| hosts.by) }
    }
}

/// Most flows that FQ-CoDel keeps apart, powers of two.
#[derive(Clone, Copy, Debug)]
struct FlowLimits {
    /// Maximum in a leaf whose queue is long.
    of_a_leaf: u32,
    /// Maximum of a host.
    of_a_host: u32,
}

#[derive(Debug)]
struct Active {
    shape: Shape,
    /// Its hosts, in `Table::hosts`.
    first_host: u32,
    /// Its flows, host by host, in `Table::flows`.
    first_flow: u32,
    /// Order of its hosts, if it has several.
    rota: Rota,
    ecn: bool,
}

impl Active {
    /// Returns the host of a packet and its flow.
    fn place_of(&self, handle: u64) -> (u32, u32) {
        let host = if self.shape.hosts == 1 { 0 } else { u32::from(host_of(handle)) % self.shape.hosts };
        let flow = flow_of(handle) & (self.shape.flows - 1);
        (self.first_host + host, self.first_flow + host * self.shape.flows + flow)
    }
}

/// The capacity of a table.
struct Size {
    queues: usize,
    hosts: usize,
    flows: usize,
    limits: FlowLimits,
}

impl Size {
    fn for_tree(tree: &Hierarchy) -> Self {
        let configs = || tree.leaves().iter().map(|&leaf| tree.config(leaf));
        let fair = || configs().filter(|config| config.queue == QueueKind::FqCoDel);
        // There are at most 10^6 leaves, and each has fewer than 2^16 hosts.
        let leaves = fair().filter(|config| config.hosts.is_none()).count() as u64;
        let hosts: u64 = fair().filter_map(|config| config.hosts).map(|hosts| u64::from(hosts.most.get())).sum();
        let part = |count: u64, most: u32| {
            let part = (u64::from(MAX_FLOWS) / count.max(1)).clamp(1, u64::from(most));
            1 << part.ilog2()
        };
        let limits = FlowLimits { of_a_leaf: part(leaves, FLOWS), of_a_host: part(hosts, FLOWS_PER_HOST) };
        let mut size = Self { queues: 0, hosts: 0, flows: 0, limits };
        for shape in configs().map(|config| Shape::for_class(config, limits)).filter(|shape| shape.flows > 0) {
            size.queues += 1;
            size.hosts += shape.hosts as usize;
            size.flows += shape.hosts as usize * shape.flows as usize;
        }
        size
    }
}

/// The active queues of one scheduler.
#[derive(Debug)]
pub(super) struct Table {
    queues: Stack<Active>,
    hosts: Stack<Host>,
    flows: Stack<Flow>,
    /// Arrival time of the packet in each node of the slab.
    arrived: Stack<Nanos>,
    limits: FlowLimits,
    max_packet: u32,
    now: Nanos,
}

impl Table {
    /// Returns true if [`Table::retune`] can be done: the same queues with the same flows.
    pub(super) fn fits(&self, with: &Self) -> bool {
        let same = |(mine, theirs): (&Active, &Active)| {
            (mine.first_host, mine.first_flow, mine.shape) == (theirs.first_host, theirs.first_flow, theirs.shape)
        };
        self.queues.len() == with.queues.len()
            && self.queues.iter().zip(with.queues.iter()).all(same)
            && self.max_packet == with.max_packet
    }

    /// Takes the room and the marking of `with`, which was never used.
    pub(super) fn retune(&mut self, with: &mut Self) {
        self.arrived.take_room(&mut with.arrived);
        for (mine, theirs) in self.queues.iter_mut().zip(with.queues.iter()) {
            mine.ecn = theirs.ecn;
        }
    }

    /// Returns true if queue `theirs` of `with` can take over queue `mine`: it has as many hosts and flows, by the same
    /// key.
    pub(super) fn is_alike(&self, mine: u32, with: &Self, theirs: u32) -> bool {
        self.max_packet == with.max_packet && self.queues[mine as usize].shape == with.queues[theirs as usize].shape
    }

    /// Takes the room and the times of arrival of `old`.
    pub(super) fn take_over(&mut self, old: &mut Self) {
        old.arrived.take_room(&mut self.arrived);
        core::mem::swap(&mut self.arrived, &mut old.arrived);
        self.now = old.now;
    }

    /// Takes the packets, the turns and CoDel's state of queue `theirs` of `old` into queue `mine`, which is like it.
    /// Of more than [`FLOWS_PER_HOST`] flows, those that have no turn start anew. Cost: one step for each host and flow
    /// with a turn.
    pub(super) fn take_queue(&mut self, mine: u32, old: &Self, theirs: u32) {
        let (own, from) = (&mut self.queues[mine as usize], &old.queues[theirs as usize]);
        let by_host = own.first_host.wrapping_sub(from.first_host);
        let by_flow = own.first_flow.wrapping_sub(from.first_flow);
        let take_flows = |flows: &mut [Flow], hosts: &mut [Host], host: u32| {
            let order = old.hosts[host as usize].rota.moved(&old.flows, flows, by_flow);
            hosts[host.wrapping_add(by_host) as usize].rota = order;
        };
        if from.shape.hosts == 1 {
            self.hosts[own.first_host as usize] = old.hosts[from.first_host as usize].clone();
            if from.shape.flows <= FLOWS_PER_HOST {
                let (to, at) = (own.first_flow as usize, from.first_flow as usize);
                let flows = from.shape.flows as usize;
                self.flows[to..to + flows].clone_from_slice(&old.flows[at..at + flows]);
            }
            return take_flows(&mut self.flows, &mut self.hosts, from.first_host);
        }
        own.rota = from.rota.moved(&old.hosts, &mut self.hosts, by_host);
        from.rota.members(&old.hosts).for_each(|host| take_flows(&mut self.flows, &mut self.hosts, host));
    }

    /// Makes a table for the leaves of `tree` with an active queue; `None` if there is no such leaf.
    pub(super) fn new(tree: &Hierarchy) -> Result<Option<Self>, OutOfMemory> {
        let size = Size::for_tree(tree);
        if size.queues == 0 {
            return Ok(None);
        }
        let link = tree.link();
        Ok(Some(Self {
            queues: Stack::with_room(size.queues)?,
            hosts: Stack::with_room(size.hosts)?,
            flows: Stack::with_room(size.flows)?,
            arrived: Stack::with_room(link.max_queued as usize)?,
            limits: size.limits,
            max_packet: link.max_packet,
            now: Nanos::ZERO,
        }))
    }

    /// Bytes that one for `tree` takes.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        let size = Size::for_tree(tree);
        if size.queues == 0 {
            return 0;
        }
        let arrived = bytes_of::<Nanos>(tree.link().max_queued as usize);
        let members = bytes_of::<Host>(size.hosts) + bytes_of::<Flow>(size.flows);
        bytes_of::<Self>(1) + bytes_of::<Active>(size.queues) + members + arrived
    }

    /// Adds a leaf; returns its number, or [`NIL`] for a FIFO.
    pub(super) fn add(&mut self, config: &ClassConfig) -> u32 {
        let shape = Shape::for_class(config, self.limits);
        if shape.flows == 0 {
            return NIL;
        }
        let (first_host, first_flow) = (self.hosts.len() as u32, self.flows.len() as u32);
        (0..shape.hosts).for_each(|_| self.hosts.push(ABSENT));
        (0..shape.hosts * shape.flows).for_each(|_| self.flows.push(IDLE));
        self.queues.push(Active { shape, first_host, first_flow, rota: Rota::EMPTY, ecn: config.ecn });
        self.queues.len() as u32 - 1
    }

    /// Flows that queue number `queue` keeps apart.
    #[cfg(test)]
    pub(super) fn flows_of(&self, queue: u32) -> u32 {
        let shape = self.queues[queue as usize].shape;
        shape.hosts * shape.flows
    }

    /// Resets CoDel's state and the order of service of the empty queue number `queue`.
    pub(super) fn reset(&mut self, queue: u32) {
        // As a table that was just made; the schedulers know how late it is.
        self.now = Nanos::ZERO;
        let queue = &mut self.queues[queue as usize];
        queue.rota = Rota::EMPTY;
        let Shape { hosts, flows, .. } = queue.shape;
        let (host, flow) = (queue.first_host as usize, queue.first_flow as usize);
        self.hosts[host..host + hosts as usize].fill(ABSENT);
        self.flows[flow..flow + (hosts * flows) as usize].fill(IDLE);
    }

    /// Advances the time to `now`.
    pub(super) fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// Returns the latest known time.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// Appends a packet to its flow.
    pub(super) fn push(&mut self, slab: &mut Slab, queue: u32, handle: u64, len: u32) {
        let node = slab.insert(handle, len);
        while self.arrived.len() <= node as usize {
            self.arrived.push(Nanos::ZERO);
        }
        self.arrived[node as usize] = self.now;
        let queue = &mut self.queues[queue as usize];
        let (host_at, at) = queue.place_of(handle);
        let flow = &mut self.flows[at as usize];
        if flow.packets == 0 {
            flow.first = node;
        } else {
            slab.nodes[flow.last as usize].next = node;
        }
        flow.last = node;
        flow.packets += 1;
        flow.bytes += u64::from(len);
        let host = &mut self.hosts[host_at as usize];
        host.packets += 1;
        host.bytes += u64::from(len);
        host.rota.join(&mut self.flows, at, self.max_packet);
        if queue.shape.hosts > 1 {
            queue.rota.join(&mut self.hosts, host_at, self.max_packet);
        }
    }

    /// Removes and returns the first packet of a flow of a host. The flow has one.
    fn pop(&mut self, slab: &mut Slab, host: u32, flow: u32) -> (u64, u32) {
        let flow = &mut self.flows[flow as usize];
        let node = flow.first;
        let Node { handle, len, next } = slab.nodes[node as usize];
        flow.first = next;
        flow.packets -= 1;
        flow.bytes -= u64::from(len);
        let host = &mut self.hosts[host as usize];
        host.packets -= 1;
        host.bytes -= u64::from(len);
        slab.release(node);
        (handle, len)
    }

    /// Chooses the next head: the loop of RFC 8290, Section 4.2, among hosts, if there are several, and then among the
    /// flows of the host. One whose deficit is spent is passed over once, because a quantum covers any packet. An empty
    /// one is passed over once or twice, until it is in no list. `judged` is true if CoDel judges the packets.
    pub(super) fn next(&mut self, slab: &mut Slab, leaf: &mut Behind<'_>, judged: bool) -> Option<(u64, u32)> {
        let Active { shape, first_host, .. } = self.queues[leaf.queue as usize];
        let judged = judged && shape.codel;
        if shape.hosts == 1 {
            return self.next_of(first_host, slab, leaf, judged);
        }
        loop {
            let at = self.queues[leaf.queue as usize].rota.first()?;
            if self.hosts[at as usize].turn.is_spent() {
                self.queues[leaf.queue as usize].rota.renew(&mut self.hosts, self.max_packet);
            } else if let Some((handle, len)) = self.next_of(at, slab, leaf, judged) {
                self.hosts[at as usize].turn.sent(len);
                return Some((handle, len));
            } else {
                self.queues[leaf.queue as usize].rota.pass_over(&mut self.hosts);
            }
        }
    }

    /// Returns the next packet of a host. If there is none, all of its flows leave their lists.
    fn next_of(&mut self, host: u32, slab: &mut Slab, leaf: &mut Behind<'_>, judged: bool) -> Option<(u64, u32)> {
        loop {
            let rota = &mut self.hosts[host as usize].rota;
            let at = rota.first()?;
            let flow = &mut self.flows[at as usize];
            if flow.turn.is_spent() {
                rota.renew(&mut self.flows, self.max_packet);
            } else if flow.packets > 0 {
                let passed = self.pass(slab, leaf, (host, at), judged);
                self.flows[at as usize].turn.sent(passed.1);
                return Some(passed);
            } else {
                rota.pass_over(&mut self.flows);
            }
        }
    }

    /// Removes and returns the first packet of a flow that CoDel lets pass, and drops those before it. There is always
    /// one, because CoDel never drops the last.
    fn pass(&mut self, slab: &mut Slab, leaf: &mut Behind<'_>, (host, at): (u32, u32), judged: bool) -> (u64, u32) {
        let now = self.now;
        let mut again = false;
        loop {
            let waited = now.saturating_sub(self.arrived[self.flows[at as usize].first as usize]);
            let (handle, len) = self.pop(slab, host, at);
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

    /// Drops half of the longest flow of the host that has most, at most [`EVICTED`] packets, to make room for
    /// `packet`. Returns false if that packet alone is the longest flow (RFC 8290, Section 4.1).
    pub(super) fn evict(
        &mut self,
        slab: &mut Slab,
        leaf: &mut Behind<'_>,
        packet: &Packet,
        reason: DropReason,
    ) -> bool {
        let queue = &self.queues[leaf.queue as usize];
        if !queue.shape.evicts {
            return false;
        }
        let (own_host, own_flow) = queue.place_of(packet.handle);
        let with = |own: bool, bytes: u64, packets: u32| {
            if own { (bytes + u64::from(packet.len), packets + 1) } else { (bytes, packets) }
        };
        let of_host = |&at: &u32| {
            let host = &self.hosts[at as usize];
            (with(at == own_host, host.bytes, host.packets), core::cmp::Reverse(at))
        };
        let of_flow = |&at: &u32| {
            let flow = &self.flows[at as usize];
            (with(at == own_flow, flow.bytes, flow.packets), core::cmp::Reverse(at))
        };
        let waiting = queue.rota.members(&self.hosts);
        // // A host without queued packets has at least this packet.
        let host = waiting.chain([own_host]).max_by_key(of_host).unwrap_or(own_host);
        let first = queue.first_flow + (host - queue.first_host) * queue.shape.flows;
        let longest = (first..first + queue.shape.flows).max_by_key(of_flow);
        let Some(longest) = longest.filter(|&at| self.flows[at as usize].packets > 0) else { return false };
        for _ in 0..self.flows[longest as usize].packets.div_ceil(2).min(EVICTED) {
            let (handle, len) = self.pop(slab, host, longest);
            leaf.drop(slab, self.now, Packet { handle, len, class: leaf.class }, reason);
        }
        true
    }
}

/// The leaf that a table serves: the packets behind its head.
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
