//! Counters of the gateway, and its report: one JSON object with a stable format.
//!
//! After every turn, received = sent + dropped + queued, in packets and in bytes, for each class and in all. Bytes are
//! accounted bytes: the frame without its check sequence, plus the link's configured overhead.
//!
//! The core's [`Metered`](fairlink_core::Metered) counts events in the scheduler, [`EdgeCounters`] those before and
//! behind it. The identity holds only if both agree. [`crate::gateway::account`] combines them.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Deref};
use std::sync::Arc;

use fairlink_core::{Amount, ClassId, Counters, DropReason, Nanos};
use fairlink_report::{ByCause, ClassReport, Content, DropCause, LinkReport, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::account::DelayTable;
use crate::gateway::fail_open::FailOpenStats;
use crate::gateway::liveness::LivenessStats;
use crate::io::backend::{BackendCounters, BackendInfo, Settled};
use crate::wire::segments::Unsplittable;

/// Name of the account of removed classes; no class of a link file can have it.
pub(crate) const REMOVED: &str = "(removed)";
/// Minimum lost time for the text report.
const FORFEITED_TO_TELL_S: f64 = 0.001;

/// Frames of one class that were dropped before or behind the scheduler, or sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassEdges {
    /// Dropped on either side, by the position of the cause in [`EDGE_CAUSES`].
    dropped: [Amount; EDGE_CAUSES.len()],
    /// Frames among them that were dropped before the scheduler.
    pub(crate) dropped_before: Amount,
    /// Received frames that did not come to the scheduler, because a worker forwarded them.
    pub(crate) passed: Amount,
    /// Accepted by the output.
    pub(crate) sent: Amount,
    /// Packets in the scheduler that its own counters do not have.
    further: Further,
}

/// Packets of pieces, without the first of each. The scheduler counts a piece as one packet, with the bytes of all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Further {
    pub(crate) received: u64,
    pub(crate) marked: u64,
    /// By [`DropReason::index`].
    pub(crate) dropped: [u64; DropReason::ALL.len()],
}

impl Further {
    /// Adds them to the counters of the scheduler.
    fn add_to(&self, counters: &mut Counters) {
        counters.received.packets += self.received;
        counters.marked.packets += self.marked;
        counters.dropped.iter_mut().zip(self.dropped).for_each(|(count, further)| count.packets += further);
    }
}

/// Causes of drops at the edges of the scheduler. [`DropCause::TooLong`] and [`DropCause::Stale`] occur on both sides, and
/// [`DropCause::QueuePackets`] and [`DropCause::TotalPackets`] in the scheduler, too.
const EDGE_CAUSES: [DropCause; 10] = [
    DropCause::QueuePackets,
    DropCause::TotalPackets,
    DropCause::TooLong,
    DropCause::Runt,
    DropCause::Checksum,
    DropCause::Joined,
    DropCause::Shed,
    DropCause::ShedEarly,
    DropCause::Stale,
    DropCause::RefusedByInterface,
];

impl ClassEdges {
    /// Adds the packets that the scheduler's counters do not have.
    pub(crate) fn add_further(&self, counters: &mut Counters) {
        self.further.add_to(counters);
    }

    fn drop(&mut self, packets: u64, len: u32, cause: DropCause) {
        let place = EDGE_CAUSES.iter().position(|&edge| edge == cause);
        debug_assert!(place.is_some(), "{cause:?} is a cause of the scheduler");
        if let Some(place) = place {
            self.dropped[place] += Amount { packets, bytes: packets * u64::from(len) };
        }
    }

    /// Adds the drops at both edges to `causes`.
    pub(crate) fn add_to(&self, causes: &mut ByCause) {
        for (cause, &amount) in EDGE_CAUSES.into_iter().zip(&self.dropped) {
            causes[cause] += amount;
        }
    }
}

impl AddAssign<&Self> for ClassEdges {
    fn add_assign(&mut self, other: &Self) {
        self.dropped.iter_mut().zip(&other.dropped).for_each(|(count, &other)| *count += other);
        self.dropped_before += other.dropped_before;
        self.passed += other.passed;
        self.sent += other.sent;
        self.further.received += other.further.received;
        self.further.marked += other.further.marked;
        self.further.dropped.iter_mut().zip(other.further.dropped).for_each(|(count, other)| *count += other);
    }
}

/// Counts, by class, frames at both edges of the scheduler. [`Metered`](fairlink_core::Metered) counts inside. Only the
/// data thread writes here. Nothing is allocated after construction. The link's own row holds the counters of removed
/// classes.
#[derive(Debug)]
pub(crate) struct EdgeCounters {
    classes: Vec<ClassEdges>,
    delays: DelayTable,
}

impl EdgeCounters {
    /// Creates counters for the classes of `delays`.
    pub(crate) fn new(delays: DelayTable) -> Self {
        Self { classes: vec![ClassEdges::default(); delays.of.len()], delays }
    }

    /// Counts a packet of `len` accounted bytes that the output accepted after `delay` in the gateway.
    #[inline]
    pub(crate) fn sent(&mut self, class: ClassId, len: u32, delay: Nanos) {
        self.classes[class.index()].sent.count(len);
        self.delays.all.count(delay);
        if let Some(delays) = &self.delays.of[class.index()] {
            delays.count(delay);
        }
    }

    /// Counts a frame of `len` accounted bytes that was dropped before the scheduler.
    pub(crate) fn dropped_before(&mut self, class: ClassId, len: u32, cause: DropCause) {
        self.dropped_before_each(class, 1, len, cause);
    }

    /// As [`EdgeCounters::dropped_before`], for `packets` frames of the same length.
    pub(crate) fn dropped_before_each(&mut self, class: ClassId, packets: u64, len: u32, cause: DropCause) {
        let edges = &mut self.classes[class.index()];
        edges.drop(packets, len, cause);
        edges.dropped_before += Amount { packets, bytes: packets * u64::from(len) };
    }

    /// Counts frames that the kernel dropped before they were fetched.
    pub(crate) fn dropped_early(&mut self, class: ClassId, amount: Amount) {
        let edges = &mut self.classes[class.index()];
        edges.dropped_before += amount;
        if let Some(place) = EDGE_CAUSES.iter().position(|&edge| edge == DropCause::ShedEarly) {
            edges.dropped[place] += amount;
        }
    }

    /// Counts frames of `class` that workers have forwarded, and dropped, by themselves.
    pub(crate) fn passed(&mut self, class: ClassId, sent: Amount, dropped: Amount) {
        let edges = &mut self.classes[class.index()];
        edges.passed += sent;
        edges.sent += sent;
        edges.dropped_before += dropped;
        if let Some(place) = EDGE_CAUSES.iter().position(|&edge| edge == DropCause::Shed) {
            edges.dropped[place] += dropped;
        }
    }

    /// Counts a packet of `len` accounted bytes that was dropped behind the scheduler.
    pub(crate) fn dropped_behind(&mut self, class: ClassId, len: u32, cause: DropCause) {
        self.classes[class.index()].drop(1, len, cause);
    }

    /// The packets of `class` that the scheduler does not count, to be counted.
    pub(crate) fn further(&mut self, class: ClassId) -> &mut Further {
        &mut self.classes[class.index()].further
    }

    /// Takes over the counters of `old`; `class_map` maps old classes to their successors. Counters of classes without
    /// a successor are added to those of removed classes. Delays of a class that continues stay in their histogram
    /// ([`DelayTable::after`]). Those of a class that is moved are added to its successor's.
    pub(crate) fn inherit(&mut self, old: &Self, class_map: &[Option<ClassId>]) {
        for (class, edges) in old.classes.iter().enumerate() {
            let heir = class_map.get(class).copied().flatten();
            self.classes[heir.unwrap_or(ClassId::ROOT).index()] += edges;
            let Some(heir) = heir else { continue };
            if let (Some(from), Some(to)) = (&old.delays.of[class], &self.delays.of[heir.index()])
                && !Arc::ptr_eq(from, to)
            {
                to.add(from);
            }
        }
    }

    /// Returns the counters of `class`; for the link those of removed classes.
    pub(crate) fn edges(&self, class: ClassId) -> ClassEdges {
        self.classes[class.index()]
    }

    /// Memory in bytes; it never grows.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.classes.capacity() * size_of::<ClassEdges>() + self.delays.memory_bytes()
    }
}

/// The unshaped direction, from the output back to the input. Bytes are bytes of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReverseStats {
    /// Received frames.
    pub received: Amount,
    /// Sent frames.
    pub sent: Amount,
    /// Dropped frames: too long, unfit, or refused by the interface.
    pub dropped: Amount,
    /// The part of `dropped` that the interface refused.
    #[serde(default)]
    pub refused: Amount,
    /// Frames that are still queued.
    pub waiting: Amount,
}

impl ReverseStats {
    /// Counts the outcome of a frame of `len` bytes that was offered to the interface.
    pub(crate) fn settle(&mut self, len: u32, outcome: Settled) {
        match outcome {
            Settled::Accepted(_) => self.sent.count(len),
            Settled::Refused { .. } => {
                self.dropped.count(len);
                self.refused.count(len);
            }
        }
    }
}

/// Time of the data thread by activity, as fractions of 1. All but `processor` add up to 1. The first three are
/// measured. The rest is estimated from one busy turn in 61, which is timed in detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeShares {
    /// Asleep.
    pub idle: f64,
    /// Awake without work: waiting for the next time to send, or polling for frames.
    #[serde(default)]
    pub spinning: f64,
    /// Fraction of the time for which a processor worked for the data thread, by the kernel's count. In the rest it
    /// slept, or waited for a processor.
    #[serde(default)]
    pub processor: f64,
    /// Fetching frames from the kernel.
    pub receive: f64,
    /// Reading headers and finding the class.
    pub classify: f64,
    /// The scheduler, the pacing and the driving loop.
    pub scheduler: f64,
    /// Handing frames to the kernel.
    pub send: f64,
    /// The unshaped direction.
    pub reverse: f64,
    /// Turns that were timed in detail.
    pub sampled_turns: u64,
}

/// Time of each stage of the data path in ns, and the packets that passed meanwhile: of a gateway that times every
/// turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Turns in which something moved.
    pub turns: u64,
    /// Packets that were fetched in them.
    pub received_packets: u64,
    /// Packets that were handed to the output.
    pub sent_packets: u64,
    /// Fetching frames from the kernel.
    pub receive_ns: u64,
    /// Reading headers and finding the class.
    pub classify_ns: u64,
    /// Giving packets to the scheduler.
    pub enqueue_ns: u64,
    /// Taking packets from the scheduler, with pacing and the driving loop.
    pub dequeue_ns: u64,
    /// Handing frames to the kernel.
    pub send_ns: u64,
    /// The unshaped direction.
    pub reverse_ns: u64,
}

impl Profile {
    /// Returns name, time in ns and number of packets of each stage.
    #[must_use]
    pub fn stages(&self) -> [(&'static str, u64, Option<u64>); 6] {
        let (received, sent) = (Some(self.received_packets), Some(self.sent_packets));
        [
            ("receive", self.receive_ns, received),
            ("classify", self.classify_ns, received),
            ("enqueue", self.enqueue_ns, received),
            ("dequeue", self.dequeue_ns, sent),
            ("send", self.send_ns, sent),
            ("other direction", self.reverse_ns, None),
        ]
    }
}

/// Upper bound of the gateway's memory, fixed at start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryBound {
    /// Frames in the packet pool.
    pub pool_frames: u64,
    /// Size of each in bytes.
    pub frame_bytes: u64,
    /// The packet pool in bytes, bookkeeping included.
    pub pool_bytes: u64,
    /// Maximum number of packets that all queues may hold.
    pub queue_packets: u64,
    /// The scheduler with its queues in bytes.
    #[serde(default)]
    pub scheduler_bytes: u64,
    /// Tables of the classifier in bytes.
    pub classifier_bytes: u64,
    /// Counters and histograms in bytes.
    pub counters_bytes: u64,
    /// Buffers for frames that an offload has joined, in bytes.
    #[serde(default)]
    pub split_bytes: u64,
    /// The kernel's socket buffers in bytes, as the kernel accounts for them.
    pub kernel_bytes: u64,
}

impl std::fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "memory bound: {} frames of {} B ({:.1} MiB, touched as they are used), queues of at most {} packets \
             with the scheduler {:.1} MiB, classifier {:.1} MiB, counters {:.1} MiB, buffers for joined \
             frames {:.1} MiB, kernel buffers {:.1} MiB",
            self.pool_frames,
            self.frame_bytes,
            mib(self.pool_bytes),
            self.queue_packets,
            mib(self.scheduler_bytes),
            mib(self.classifier_bytes),
            mib(self.counters_bytes),
            mib(self.split_bytes),
            mib(self.kernel_bytes)
        )
    }
}

/// The statistics of one link, with the keys that every link report has. Delays are those from fetching a packet until
/// the output accepted it. The first 1,024 leaves have delays; an inner class has them if all its leaves do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct GatewayStats(pub LinkReport<Vec<ClassReport>, GatewayExtension>);

/// The additional key of a gateway's link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayExtension {
    /// State of the gateway without its classes.
    pub gateway: GatewayState,
}

/// State of a gateway without its classes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayState {
    /// Number of changes committed since the gateway started. Classes and their order may differ between statistics of
    /// different generations.
    #[serde(default)]
    pub generation: u64,
    /// Input of the shared direction.
    pub input: String,
    /// Output of the shared direction.
    pub output: String,
    /// Time since the data thread started, in seconds.
    pub uptime_s: f64,
    /// True if received = sent + dropped + queued for every class, in packets and bytes, and the packet pool agrees.
    pub balanced: bool,
    /// Leaves that no frame can reach: those without a match that are not the default class, and those whose frames all
    /// match earlier lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable: Vec<String>,
    /// State of fail-open forwarding.
    #[serde(default)]
    pub fail_open: FailOpenStats,
    /// Times during which the gateway did not work.
    #[serde(default)]
    pub liveness: LivenessStats,
    /// Frames that the kernel dropped before the gateway fetched them; not among the received.
    pub kernel_dropped_packets: u64,
    /// Frames of flows that the gateway did not know, which the kernel dropped while load was shed; not among the
    /// received.
    #[serde(default)]
    pub shed_unknown_packets: u64,
    /// Super-frames that could not be split and were dropped as `joined`.
    pub super_packets: u64,
    /// The same by reason, for reasons that have occurred: `tunnel`, `protocol`, `malformed`, `too_long`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub super_packets_by_reason: BTreeMap<String, u64>,
    /// Super-frames that were split into their packets, in both directions.
    #[serde(default)]
    pub split_packets: u64,
    /// Those packets. Each is received, sent, dropped or queued like any other.
    #[serde(default)]
    pub segments: u64,
    /// Frames that the kernel discarded because an offload had joined them in a way that it cannot describe; not among
    /// the received. An example is UDP fragmentation offload of a guest behind a tap.
    #[serde(default)]
    pub unreadable_packets: u64,
    /// Checksums that the sender had left to hardware and the gateway computed.
    pub checksums_completed: u64,
    /// Checksums that the sender had left to hardware and the gateway left to the output: to its hardware, or to the
    /// kernel if that cannot.
    #[serde(default)]
    pub checksums_passed_on: u64,
    /// VLAN tags that the kernel had taken out and the gateway put back.
    pub vlan_tags_restored: u64,
    /// The input and the output.
    #[serde(default)]
    pub interfaces: Vec<InterfaceStats>,
    /// Times that the output was busy and frames had to wait for it.
    pub output_busy: u64,
    /// Interfaces without carrier that frames wait for.
    #[serde(default)]
    pub waiting_for_carrier: Vec<String>,
    /// Leaves without their own `delay_s`, because only the first 1024 have one. Their delays count in the link's.
    #[serde(default)]
    pub leaves_without_delays: u64,
    /// The other direction; `None` if it is not forwarded.
    pub reverse: Option<ReverseStats>,
    /// Time of the data thread by activity.
    pub time: TimeShares,
    /// Fraction of the time for which a processor worked for each worker, by the kernel's count: a link on several cores
    /// has workers that receive and send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<f64>,
    /// Time of each stage, if every turn is timed (`--profile`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The memory bound.
    pub memory: MemoryBound,
    /// Link time lost while packets were queued, in seconds, beyond the limit of `--catch-up`: the data thread was late
    /// or the output accepted nothing.
    #[serde(default)]
    pub forfeited_s: f64,
    /// Maximum number of pool frames in use at once.
    pub pool_most_used: u64,
    /// Classes that changes have removed, together; absent if they had no packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<ClassReport>,
}

/// Backend of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceStats {
    /// The interface.
    pub name: String,
    /// `af_packet` or `af_xdp`.
    pub backend: String,
    /// True if the driver itself reads and writes frames of the packet pool. With `af_packet` it never does.
    pub zero_copy: bool,
}

impl InterfaceStats {
    pub(crate) fn new(name: &str, mover: BackendInfo) -> Self {
        Self { name: name.to_owned(), backend: mover.backend.name().to_owned(), zero_copy: mover.zero_copy }
    }
}

impl GatewayState {
    /// Frames that the kernel dropped before they were received: those that were not fetched in time, and those of unknown
    /// flows while load was shed.
    #[must_use]
    pub fn unreceived_packets(&self) -> u64 {
        self.kernel_dropped_packets + self.shed_unknown_packets
    }
}

impl Deref for GatewayStats {
    type Target = LinkReport<Vec<ClassReport>, GatewayExtension>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl GatewayStats {
    /// Returns the state of the gateway without its classes.
    #[must_use]
    pub fn gateway(&self) -> &GatewayState {
        &self.extension.gateway
    }

    /// Returns the span since the last answer on the same connection, if requested.
    #[must_use]
    pub fn interval(&self) -> Option<&Span> {
        self.spans.first()
    }
}

/// The content of the document `stats`: the links of a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsContent<L = Vec<GatewayStats>> {
    /// The links.
    pub links: L,
}

impl<L> Content for StatsContent<L> {
    const KIND: &'static str = "stats";
}

/// Number of super-frames that could not be split, by reason.
pub(crate) fn unsplittable(counters: &BackendCounters) -> BTreeMap<String, u64> {
    let named = Unsplittable::ALL.into_iter().map(|why| (why.key().to_owned(), counters.unsplittable[why as usize]));
    named.filter(|&(_, packets)| packets > 0).collect()
}

/// The fault of a frame that cannot be split, and the action to take.
fn remedy(why: Unsplittable) -> &'static str {
    match why {
        Unsplittable::Tunnel => {
            "they belong to a tunnel whose inner packets were joined; turn that off where the tunnel begins (`ethtool -K IF \
             tx-udp_tnl-segmentation off tx-udp_tnl-csum-segmentation off tx-gre-segmentation off tx-ipxip4-segmentation off`)"
        }
        Unsplittable::Protocol => {
            "they are neither TCP nor UDP over IPv4 or IPv6; turn gso off at the sender (`ethtool -K IF gso off`)"
        }
        Unsplittable::Malformed => "their headers are truncated or inconsistent; the sender is faulty or hostile",
        Unsplittable::TooLong => {
            "they, or the packets in them, are too long; at the sender, keep gso_max_size and gro_max_size at 65536 \
             (`ip link set IF gso_max_size 65536 gro_max_size 65536`) and the mtu no larger than here"
        }
    }
}

/// The text report, printed when the gateway stops.
impl std::fmt::Display for GatewayStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (counts, gateway) = (self.counts(), self.gateway());
        write!(
            f,
            "received {} = sent {} + dropped {} + left in queue {}: {}",
            counts.received.packets,
            counts.sent.packets,
            counts.dropped.packets,
            counts.queued.packets,
            if gateway.balanced { "every packet is accounted for" } else { "PACKETS ARE UNACCOUNTED FOR" }
        )?;
        if gateway.kernel_dropped_packets > 0 {
            write!(
                f,
                "; the kernel dropped {} before the gateway fetched them: it got too little processor time (--cpu gives it a processor of its own)",
                gateway.kernel_dropped_packets
            )?;
        }
        let causes = counts.dropped_by.unwrap_or_default();
        let [shed, early] = [DropCause::Shed, DropCause::ShedEarly].map(|cause| causes[cause].packets);
        if shed + early > 0 {
            write!(
                f,
                "; frames arrived faster than this processor handles them: {} of classes with long queues were shed, {early} of them by the kernel",
                shed + early
            )?;
        }
        if gateway.shed_unknown_packets > 0 {
            write!(f, "; the kernel dropped {} of flows that were not known meanwhile", gateway.shed_unknown_packets)?;
        }
        let refused = causes[DropCause::RefusedByInterface];
        for (name, packets) in
            [(&gateway.output, refused.packets), (&gateway.input, gateway.reverse.unwrap_or_default().refused.packets)]
        {
            if packets > 0 {
                write!(f, "; {name} permanently refused {packets}: check for a smaller mtu at its other end")?;
            }
        }
        if gateway.unreadable_packets > 0 {
            write!(
                f,
                "; the kernel discarded {} that an offload had joined in a way that it cannot describe: turn ufo off at the sender (a virtual machine's network device: `ethtool -K IF ufo off`, or guest_ufo=off)",
                gateway.unreadable_packets
            )?;
        }
        if gateway.forfeited_s >= FORFEITED_TO_TELL_S {
            write!(
                f,
                "; {:.3} s of link time were lost beyond the --catch-up limit: the data thread was late, or {} accepted nothing (raise --catch-up, or give the thread a processor of its own with --cpu)",
                gateway.forfeited_s, gateway.output
            )?;
        }
        for name in &gateway.waiting_for_carrier {
            write!(f, "; {name} has no carrier, and frames wait for it: check its cable and its other end")?;
        }
        let LivenessStats { stalls, longest_stall_s, pauses, longest_pause_s, .. } = gateway.liveness;
        if stalls > 0 {
            write!(
                f,
                "; a direction stalled {stalls} times although frames could be sent, for up to {longest_stall_s:.1} s"
            )?;
        }
        if pauses > 0 {
            write!(f, "; the data thread did not run {pauses} times, for up to {longest_pause_s:.1} s")?;
        }
        if gateway.fail_open.repairs > 0 {
            write!(
                f,
                "; fail-open was repaired {} times: another program removes parts that pass frames without the gateway",
                gateway.fail_open.repairs
            )?;
        }
        if gateway.fail_open.whole == Some(false) {
            write!(
                f,
                "; WARNING: fail-open is broken and cannot be repaired (the log says why): frames may not pass when the gateway ends"
            )?;
        }
        if let Some(first) = gateway.unreachable.first() {
            let more = match gateway.unreachable.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            write!(f, "; WARNING: no frame can reach the class {first:?}{more}: see `fairlink check FILE --gateway`")?;
        }
        for why in Unsplittable::ALL {
            let Some(packets) = gateway.super_packets_by_reason.get(why.key()) else { continue };
            write!(f, "; {packets} joined by an offload could not be split: {}", remedy(why))?;
        }
        Ok(())
    }
}
