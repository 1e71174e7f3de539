//! The configuration of classes and of the link: shares, limits and curves. A [`Feature`] is a setting that only some
//! schedulers honour.

use core::num::NonZeroU16;

use super::units::{Nanos, Rate};

/// The share of a class among its siblings. Siblings with a share all use the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A minimum rate, which also serves as the weight.
    Guarantee(Rate),
    /// A weight relative to the siblings, 1 to [`MAX_WEIGHT`](super::hierarchy::MAX_WEIGHT).
    Weight(u64),
}

/// Limits of a leaf's queue; a packet that would exceed either is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Packets; at least 1.
    pub packets: u32,
    /// Accounted bytes; at least 1.
    pub bytes: u32,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { packets: 1000, bytes: u32::MAX }
    }
}

/// The queue discipline of a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// First in, first out, tail drop.
    #[default]
    Fifo,
    /// CoDel (RFC 8289).
    CoDel,
    /// FQ-CoDel (RFC 8290).
    FqCoDel,
}

impl QueueKind {
    /// Returns true if the queue itself decides which packets to drop.
    #[must_use]
    pub const fn is_active(self) -> bool {
        !matches!(self, Self::Fifo)
    }
}

/// A two-piece linear service curve: slope `m1` for the first `d`, then slope `m2` (\[hfsc\] Section 4). A slope of `None`
/// is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCurve {
    /// Slope of the first piece.
    pub m1: Option<Rate>,
    /// Length of the first piece.
    pub d: Nanos,
    /// Slope of the second piece.
    pub m2: Option<Rate>,
}

/// DRR+'s contract: at most `bytes` in every `every` (\[drrpp\]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Bytes.
    pub bytes: u64,
    /// Length of the interval; not zero.
    pub every: Nanos,
}

/// A leaky bucket with a peak rate (\[sds\]: FQ-LTO.LB).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    /// Depth in bytes.
    pub burst: u64,
    /// Largest rate while the bucket is not empty.
    pub peak: Rate,
    /// Rate in the long run.
    pub rate: Rate,
}

/// Most leaky buckets of a class.
pub const MAX_LEAKY_BUCKETS: usize = 4;

/// The leaky buckets that a class's traffic conforms to, all at once: at most [`MAX_LEAKY_BUCKETS`], or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeakyBuckets([Option<LeakyBucket>; MAX_LEAKY_BUCKETS]);

impl LeakyBuckets {
    /// Collects the buckets; returns `None` if there are more than [`MAX_LEAKY_BUCKETS`].
    #[must_use]
    pub fn new(buckets: &[LeakyBucket]) -> Option<Self> {
        let mut all = Self::default();
        for (at, &bucket) in buckets.iter().enumerate() {
            *all.0.get_mut(at)? = Some(bucket);
        }
        Some(all)
    }

    /// Returns the buckets in their order.
    pub fn iter(&self) -> impl Iterator<Item = LeakyBucket> + use<> {
        self.0.into_iter().flatten()
    }

    /// Returns true if there is no bucket.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }
}

impl From<LeakyBucket> for LeakyBuckets {
    fn from(bucket: LeakyBucket) -> Self {
        Self([Some(bucket), None, None, None])
    }
}

/// The part of a packet that identifies its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKey {
    /// The source address of the IP packet.
    SourceIp,
    /// The destination address of the IP packet.
    DestinationIp,
    /// The source address of the Ethernet frame.
    SourceMac,
    /// The destination address of the Ethernet frame.
    DestinationMac,
    /// Addresses, protocol and ports: each flow is a separate host.
    Flow,
}

/// Hosts that share a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Maximum number of hosts that are kept apart at once.
    pub most: NonZeroU16,
    /// Key that distinguishes hosts. No scheduler uses it; packet classifiers number hosts by it, see
    /// [`HostTables`](crate::HostTables).
    pub by: HostKey,
}

impl Hosts {
    /// At most `most` hosts, distinguished by `by`; `None` if `most` is zero.
    #[must_use]
    pub fn new(most: u16, by: HostKey) -> Option<Self> {
        NonZeroU16::new(most).map(|most| Self { most, by })
    }

    /// Returns the fairness bound between two hosts, 4 L - 2 bytes, where L is `max_packet`. While both hosts have
    /// packets queued, their service differs by no more. A packet in transmission is no longer queued. The bound holds
    /// while each host has its own slot.
    ///
    /// *Proof.* A turn begins with a credit of 1 to L bytes and lasts until the credit is spent. It sends at least the
    /// credit, and less than L more. The next turn's credit is L more. So k turns of host i, the last one complete or
    /// not, send at most k L + (L - 1). And m complete turns of host j send at least 1 + (m - 1) L. Both hosts are in a
    /// list all the time, and the end of a turn puts a host behind the other. So they alternate, and k <= m + 1, with
    /// one exception. Host i may return when j has just spent its credit and is not yet behind the others. Host i is
    /// new and goes first; it is put behind the others; j is put behind it without a turn; i has another. A host is new
    /// only if it had no packets, which is only possible at the start of the interval. So k <= m + 2, and the
    /// difference is at most (m + 2) L + (L - 1) - 1 - (m - 1) L = 4 L - 2. Without a complete turn of j, k <= 2, and
    /// the difference is at most 3 L - 1. The head of a leaf has left its list already, which shifts all packets alike.
    #[must_use]
    pub const fn apart(max_packet: u32) -> u64 {
        (4 * max_packet as u64).saturating_sub(2)
    }
}

/// The configuration of one class. Each scheduler honours part of it and refuses the rest ([`Feature`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassConfig {
    /// Guarantee or weight. If no sibling has one, each counts as weight 1.
    pub share: Option<Share>,
    /// Maximum rate.
    pub ceiling: Option<Rate>,
    /// Token depth in bytes behind the guarantee; derived if absent. Of a latency-critical class, and of a leaf under a
    /// scheduler without token buckets that promises a delay: the burst of its traffic.
    pub burst: Option<u64>,
    /// Token depth in bytes behind the ceiling; derived if absent.
    pub ceiling_burst: Option<u64>,
    /// 0 is served first.
    pub priority: Option<u8>,
    /// CBQ: does not borrow from the classes above it.
    pub bounded: bool,
    /// CBQ: does not borrow, and lends only to classes below it.
    pub isolated: bool,
    /// Latency class of DRR+, DRR++, HLS.
    pub latency_critical: bool,
    /// Quantum in bytes; in proportion to the share if absent.
    pub quantum: Option<u32>,
    /// DRR+'s contract.
    pub contract: Option<Contract>,
    /// H-FSC's real-time curve.
    pub real_time: Option<ServiceCurve>,
    /// H-FSC's link-sharing curve.
    pub link_share: Option<ServiceCurve>,
    /// H-FSC's upper limit.
    pub upper_limit: Option<ServiceCurve>,
    /// FQ-LTO's delay objective.
    pub max_delay: Option<Nanos>,
    /// FQ-LTO.LB's leaky buckets.
    pub leaky_buckets: LeakyBuckets,
    /// Limits of a leaf's queue; ignored at inner classes.
    pub limits: QueueLimits,
    /// Discipline of a leaf's queue; ignored at inner classes.
    pub queue: QueueKind,
    /// Hosts that the leaf's queue keeps apart: active hosts share the leaf's rate equally.
    /// [`with_host`](super::packet::with_host) assigns a packet to a host. `None` if hosts are not kept apart.
    pub hosts: Option<Hosts>,
    /// True if an active queue marks ECN-capable packets instead of dropping them. Without effect on a FIFO.
    pub ecn: bool,
}

impl ClassConfig {
    /// Returns true if a leaf's queue is more than a FIFO, so that the schedulers that honour [`Feature::ActiveQueue`] can have it.
    #[must_use]
    pub const fn has_active_queue(&self) -> bool {
        self.queue.is_active() || self.hosts.is_some()
    }
}

/// Something a class may set that only some schedulers can honour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Classes below classes.
    Hierarchy,
    /// A maximum rate.
    Ceiling,
    /// A token depth behind the guarantee.
    Burst,
    /// A token depth behind the ceiling.
    CeilingBurst,
    /// Priorities.
    Priority,
    /// Classes that do not borrow or do not lend.
    Borrowing,
    /// Latency-critical leaves.
    LatencyCritical,
    /// The burst of a latency-critical leaf's traffic. It is not a [`Feature::Burst`] then.
    LatencyBurst,
    /// Quanta.
    Quantum,
    /// DRR+'s contract.
    Contract,
    /// Service curves that are guaranteed.
    ServiceCurves,
    /// Curves to share the link by, and upper limits.
    LinkCurves,
    /// FQ-LTO's delay objective.
    MaxDelay,
    /// FQ-LTO.LB's leaky buckets.
    LeakyBucket,
    /// CoDel or FQ-CoDel at a leaf, or hosts that share it.
    ActiveQueue,
    /// Packets of the longest queue that give way when the link's buffer is full. It is the link that asks for it.
    PushOut,
    /// Rounds as long as the largest packets allow. It is the link that asks for it.
    LongRounds,
    /// Borrowing from a [pool](crate::runtime::pool) of several links. It is not part of a class's configuration: the
    /// caller that builds the scheduler passes the lenders, see
    /// [`SchedulerInfo::build`](super::info::SchedulerInfo::build).
    Pool,
}

impl Feature {
    /// Returns the feature as text for users.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hierarchy => "classes below classes",
            Self::Ceiling => "a ceiling",
            Self::Burst => "a burst",
            Self::CeilingBurst => "a ceiling_burst",
            Self::Priority => "a priority",
            Self::Borrowing => "bounded or isolated",
            Self::LatencyCritical => "latency_critical",
            Self::LatencyBurst => "a burst of a latency_critical class",
            Self::Quantum => "a quantum",
            Self::Contract => "a contract",
            Self::ServiceCurves => "a service curve",
            Self::LinkCurves => "a link-sharing curve or an upper limit",
            Self::MaxDelay => "a max_delay",
            Self::LeakyBucket => "a leaky_bucket",
            Self::ActiveQueue => "an active queue discipline",
            Self::PushOut => "when_full = \"push_out\"",
            Self::LongRounds => "rounds = \"long\"",
            Self::Pool => "a pool",
        }
    }
}

/// The configuration of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// The link's rate.
    pub rate: Rate,
    /// Largest packet accepted, in accounted bytes, 1 to [`MAX_PACKET`](super::hierarchy::MAX_PACKET).
    pub max_packet: u32,
    /// Most packets queued in all classes together; at least 1.
    pub max_queued: u32,
    /// Packet to drop when `max_queued` packets are queued.
    pub when_full: WhenFull,
    /// Queue between the scheduler and the link, if any.
    pub transmit_queue: Option<TransmitQueue>,
    /// Length of rounds, for schedulers with rounds.
    pub rounds: RoundLength,
}

/// The length of the rounds of `hls`. Its weights have the unit byte, and each round allots their sum plus the largest
/// packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RoundLength {
    /// As short as the weights allow. Weights are used unchanged, or divided if they are too large for a round.
    #[default]
    Short,
    /// The weights are also scaled up, until they allot as much as the largest packets. So a leaf sends a packet in
    /// nearly every visit, which costs less, and the bounds are up to twice those of the smallest weights.
    Long,
}

/// The packet to drop when all queues of a link together are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The one that arrives.
    #[default]
    DropArrival,
    /// The second packet of the queue with most packets (\[drrpp\] Table 3.3: `FreeBuffer`), unless the arriving packet's own queue is
    /// as long; then the one that arrives. Only FIFOs take part.
    PushOut,
}

/// Most packets of a [`TransmitQueue`].
pub const MAX_TRANSMIT_QUEUE: u32 = 65_536;

/// A queue between a scheduler and its link, as a network interface has one: the scheduler decides a packet's turn when the packet
/// enters it, and not when the link takes it (\[drrpp\] Tables 3.1 to 3.4: `TxQueue`, `PrioTxQueue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitQueue {
    /// Room for packets, 1 to [`MAX_TRANSMIT_QUEUE`], besides the one that is being sent and those in the scheduler.
    pub packets: u32,
    /// True if packets of latency-critical classes wait in a queue of their own, which is sent first. Both queues share the room.
    pub priority: bool,
}

impl LinkConfig {
    /// Makes a link of `rate` with packets up to 1500 bytes and room for 65,536 of them.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            max_packet: 1500,
            max_queued: 65_536,
            when_full: WhenFull::DropArrival,
            transmit_queue: None,
            rounds: RoundLength::Short,
        }
    }
}
