//! What the gateway counts, and the form in which it reports: one JSON object that programs can rely on.
//!
//! After every turn, received = sent + dropped + queued, in packets and in bytes, for each class and in all. Bytes are accounted
//! bytes: the frame without its check sequence, plus the link's configured overhead.
//!
//! The core's [`Metered`](fairlink_core::Metered) counts what happens in the scheduler, [`EdgeCounters`] what happens before and behind
//! it. The identity holds only if both agree. How they come together is in [`crate::gateway::account`].

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use fairlink_core::{Amount, ClassId, DropReason, Nanos};
use serde::{Deserialize, Serialize};

use crate::gateway::account::DelayTable;
use crate::gateway::fail_open::FailOpenStats;
use crate::gateway::liveness::LivenessStats;
use crate::io::backend::BackendCounters;
use crate::io::port::Mover;
use crate::wire::segments::Unsplittable;

/// Names in JSON of the scheduler's reasons to drop, in the order of [`DropReason::index`].
const DROP_KEYS: [&str; DropReason::ALL.len()] = [
    "queue_packets",
    "queue_bytes",
    "total_packets",
    "pushed_out",
    TOO_LONG,
    "not_a_leaf",
    "congestion",
    "purged",
    "class_removed",
];
/// What the account of removed classes is called; no class can have this name in a link file.
pub(crate) const REMOVED: &str = "(removed)";
const TOO_LONG: &str = "too_long";
const RUNT: &str = "runt";
const CHECKSUM: &str = "checksum";
const JOINED: &str = "joined";
const SHED: &str = "shed";
const STALE: &str = "stale";
const REFUSED: &str = "refused_by_interface";

/// All names in JSON of reasons to drop: the scheduler's by [`DropReason::index`], then those that only the edges have.
pub(crate) const REASONS: [&str; 15] = {
    let mut reasons = [""; 15];
    let mut index = 0;
    while index < DROP_KEYS.len() {
        reasons[index] = DROP_KEYS[index];
        index += 1;
    }
    [reasons[9], reasons[10], reasons[11], reasons[12]] = [RUNT, CHECKSUM, SHED, REFUSED];
    [reasons[13], reasons[14]] = [STALE, JOINED];
    reasons
};

/// The place in [`REASONS`] of one of [`ClassEdges::dropped`].
pub(crate) fn reason_of_edge(edge: usize) -> usize {
    const TOO_LONG_AT: usize = DropReason::TooLong.index();
    [9, 10, TOO_LONG_AT, 11, 13, 14, TOO_LONG_AT, 12, 13][edge]
}

/// Whether packets are dropped for this reason because the data thread came late.
pub(crate) fn is_late(reason: &str) -> bool {
    [SHED, STALE].contains(&reason)
}

/// Whether frames that are dropped for this reason could not have been sent by any scheduler.
pub(crate) fn is_unfit(reason: &str) -> bool {
    [TOO_LONG, RUNT, CHECKSUM, JOINED, REFUSED].contains(&reason)
}

/// Less lost time than this is not worth a word in text.
const FORFEITED_TO_TELL_S: f64 = 0.001;

/// Why a frame was not given to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It has no whole Ethernet header.
    Runt,
    /// Its checksum was left to hardware and cannot be computed here.
    Checksum,
    /// It does not fit into the pool's frames.
    TooLong,
    /// Frames came faster than they could be fetched, and its class had a long queue.
    Shed,
    /// It came before the data thread paused, and later ones have passed by it.
    Stale,
    /// An offload has joined it from packets that it cannot be split into here.
    Joined,
}

impl Unfit {
    /// Names in JSON, in the order of the enum.
    const KEYS: [&str; 6] = [RUNT, CHECKSUM, TOO_LONG, SHED, STALE, JOINED];
}

/// Why the output did not take a frame that the scheduler had given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is longer than the output's frames.
    TooLong,
    /// The kernel refused it for another reason.
    Other,
    /// It waited for the output when the data thread paused, and later ones have passed by it.
    Stale,
}

impl Refusal {
    /// Names in JSON, in the order of the enum.
    const KEYS: [&str; 3] = [TOO_LONG, REFUSED, STALE];
}

/// Why a frame was dropped, wherever that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It was not given to the scheduler.
    Unfit(Unfit),
    /// The scheduler dropped it.
    Scheduler(DropReason),
    /// The output did not take it.
    Refused(Refusal),
}

impl Why {
    /// A number for it, which [`drop_key`] understands.
    pub(crate) fn code(self) -> u8 {
        let (before, place) = match self {
            Self::Scheduler(reason) => (0, reason.index()),
            Self::Unfit(unfit) => (DROP_KEYS.len(), unfit as usize),
            Self::Refused(refusal) => (DROP_KEYS.len() + Unfit::KEYS.len(), refusal as usize),
        };
        (before + place) as u8
    }
}

/// The name of a [`Why::code`] in JSON.
pub(crate) fn drop_key(code: u8) -> &'static str {
    let mut keys = DROP_KEYS.iter().chain(&Unfit::KEYS).chain(&Refusal::KEYS);
    keys.nth(code.into()).copied().unwrap_or("unknown")
}

/// What one class's frames met before the scheduler got them and after it gave them away.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassEdges {
    unfit: [Amount; Unfit::KEYS.len()],
    refused: [Amount; Refusal::KEYS.len()],
    /// What the output has accepted.
    pub(crate) sent: Amount,
}

impl ClassEdges {
    /// What was dropped before the scheduler got it.
    pub(crate) fn unfit(&self) -> Amount {
        self.unfit.iter().copied().sum()
    }

    /// What was dropped here, by reason; see [`reason_of_edge`].
    pub(crate) fn dropped(&self) -> impl Iterator<Item = Amount> + use<'_> {
        self.unfit.iter().chain(&self.refused).copied()
    }
}

impl AddAssign<&Self> for ClassEdges {
    fn add_assign(&mut self, other: &Self) {
        let pairs = self.unfit.iter_mut().zip(&other.unfit).chain(self.refused.iter_mut().zip(&other.refused));
        pairs.for_each(|(count, &other)| *count += other);
        self.sent += other.sent;
    }
}

/// Counts, by class, what happens to frames at both edges of the scheduler. [`Metered`](fairlink_core::Metered) counts what happens
/// inside. Only the data thread writes here. Nothing is allocated after construction. The link's own row is that of classes that were
/// removed.
#[derive(Debug)]
pub(crate) struct EdgeCounters {
    classes: Vec<ClassEdges>,
    delays: DelayTable,
}

impl EdgeCounters {
    /// Counters for the classes that `delays` is made for.
    pub(crate) fn new(delays: DelayTable) -> Self {
        Self { classes: vec![ClassEdges::default(); delays.of.len()], delays }
    }

    /// The output accepted a packet of `len` accounted bytes that stayed in the gateway for `delay`.
    #[inline]
    pub(crate) fn sent(&mut self, class: ClassId, len: u32, delay: Nanos) {
        self.classes[class.index()].sent.count(len);
        self.delays.all.count(delay);
        if let Some(delays) = &self.delays.of[class.index()] {
            delays.count(delay);
        }
    }

    /// A frame of `len` accounted bytes was dropped before the scheduler.
    pub(crate) fn unfit(&mut self, class: ClassId, len: u32, why: Unfit) {
        self.classes[class.index()].unfit[why as usize].count(len);
    }

    /// A packet of `len` accounted bytes was dropped behind the scheduler.
    pub(crate) fn refused(&mut self, class: ClassId, len: u32, why: Refusal) {
        self.classes[class.index()].refused[why as usize].count(len);
    }

    /// Takes over what `old` has counted: `heirs` has the class that takes over from each of its classes. What nobody takes over counts
    /// as of removed classes. Delays stay where they are counted for a class that goes on ([`DelayTable::after`]); those of a class
    /// that is moved are added to its heir's.
    pub(crate) fn inherit(&mut self, old: &Self, heirs: &[Option<ClassId>]) {
        for (class, edges) in old.classes.iter().enumerate() {
            let heir = heirs.get(class).copied().flatten();
            self.classes[heir.unwrap_or(ClassId::ROOT).index()] += edges;
            let Some(heir) = heir else { continue };
            if let (Some(from), Some(to)) = (&old.delays.of[class], &self.delays.of[heir.index()])
                && !Arc::ptr_eq(from, to)
            {
                to.add(from);
            }
        }
    }

    /// What was counted of `class`; of the link: of classes that were removed.
    pub(crate) fn edges(&self, class: ClassId) -> ClassEdges {
        self.classes[class.index()]
    }

    /// Memory in bytes; it never grows.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.classes.capacity() * size_of::<ClassEdges>() + self.delays.memory_bytes()
    }
}

/// How long packets stayed in the gateway, in seconds: from when they were fetched until the output accepted them. The time that
/// they wait in the kernel before that is not seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelayStats {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

/// One class. An inner class has the sums of its leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStats {
    /// Its name.
    pub name: String,
    /// The name of the class that it is below; `None` directly below the link.
    #[serde(default)]
    pub parent: Option<String>,
    /// Whether it has packets of its own. Sums over leaves count each packet once.
    #[serde(default = "yes")]
    pub leaf: bool,
    /// Its guarantee in bit/s, or what it gets while all are busy where it has none.
    #[serde(default)]
    pub guarantee_bps: u64,
    /// How long its packets take at most, in seconds, as `fairlink check` computes it; `None` where nothing is promised. It holds for
    /// the traffic that `check` prints beside it, on a link that is asked for packets in time.
    #[serde(default)]
    pub delay_bound_s: Option<f64>,
    /// What came in for it.
    pub received: Amount,
    /// What went out.
    pub sent: Amount,
    /// What was dropped, for all reasons.
    pub dropped: Amount,
    /// What is still there.
    pub queued: Amount,
    /// Reasons that have occurred: `queue_packets`, `queue_bytes`, `total_packets`, `pushed_out`, `too_long`, `not_a_leaf`, `congestion`,
    /// `purged`, `class_removed` (all of the scheduler), `runt`, `checksum`, `shed`, `stale`, `joined`,
    /// `refused_by_interface`.
    pub dropped_by_reason: BTreeMap<String, Amount>,
    /// What was marked as having met congestion (CE) instead of being dropped. It is also counted as sent, dropped or queued.
    #[serde(default)]
    pub marked: Amount,
    /// `None` where nothing was sent, and beyond the first 1024 leaves. An inner class has one if all its leaves have.
    pub delay_s: Option<DelayStats>,
    /// What the scheduler counts of this class, by name, such as bytes borrowed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// Since the last answer on the same connection, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<IntervalStats>,
}

fn yes() -> bool {
    true
}

/// Why a class got no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitCause {
    /// It asked for no more.
    Demand,
    /// Its own limit: a ceiling, an upper limit, a rate beyond which it may not borrow.
    Ceiling,
    /// The class above it has no more to share.
    Parent,
    /// The link has no more to share.
    Link,
    /// The pool that it shares with classes of other links has no more.
    Pool,
    /// The data thread or the output came late, so that link time was lost.
    Processor,
}

impl LimitCause {
    /// Its name in JSON and in metrics.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Demand => "demand",
            Self::Ceiling => "ceiling",
            Self::Parent => "parent",
            Self::Link => "link",
            Self::Pool => "pool",
            Self::Processor => "processor",
        }
    }
}

/// The limit of a class in an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitStats {
    /// The reason.
    pub limit: LimitCause,
    /// The class whose limit it is, `link` for the link; `None` where no class limits it.
    pub limited_by: Option<String>,
    /// For how long it has been so, in seconds, as far as whoever asks has asked before.
    pub limited_for_s: f64,
}

/// What happened between two statistics, to one class or to the whole link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalStats {
    /// What came in.
    pub received: Amount,
    /// What went out.
    pub sent: Amount,
    /// What was dropped, for all reasons.
    pub dropped: Amount,
    /// What waited at the beginning and what came in, less what no link could send, in bit/s.
    pub demand_bps: f64,
    /// What went out, in bit/s.
    pub rate_bps: f64,
    /// What would have gone out by the scheduler's own rule for the demands, in bit/s. Absent where that is not computed;
    /// [`GatewayStats::notes`] say why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_bps: Option<f64>,
    /// The rate as a part of the class's guarantee, of the link's rate for the link.
    pub of_guarantee: f64,
    /// Why it got no more; absent where that is not known.
    #[serde(default, flatten)]
    pub limited: Option<LimitStats>,
    /// Delays of what went out; `None` where nothing did, or they are not counted. The longest is known to 1.6 %.
    pub delay_s: Option<DelayStats>,
}

/// Whether the processor was late, in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LateStats {
    /// Link time lost beyond what `--catch-up` makes up for, in seconds: the data thread came back late, or the output took nothing.
    pub forfeited_s: f64,
    /// Times that the data thread did not turn for more than 300 ms.
    pub pauses: u64,
}

/// The unshaped direction, from the output back to the input. Bytes are bytes of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReverseStats {
    /// What came in.
    pub received: Amount,
    /// What went out.
    pub sent: Amount,
    /// What was dropped: too long, unfit, or refused by the interface.
    pub dropped: Amount,
    /// The part of `dropped` that the interface refused.
    #[serde(default)]
    pub refused: Amount,
    /// What is still there.
    pub waiting: Amount,
}

/// What the data thread did with its time, as parts of 1. All but `processor` add up to 1. The first three are measured. The
/// rest is estimated from one working turn in 61, which is timed in detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeShares {
    /// Asleep.
    pub idle: f64,
    /// Awake with nothing to do: waiting for the next moment to send, or looking for frames where there were none.
    #[serde(default)]
    pub spinning: f64,
    /// Part of the time for which a processor worked for the data thread, as the kernel counts it. The rest it slept, or waited
    /// for a processor.
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

/// What the stages of the data path took, in nanoseconds, and what passed meanwhile: of a gateway that takes the time of every turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Taking packets from the scheduler; pacing and the driving loop are part of it.
    pub dequeue_ns: u64,
    /// Handing frames to the kernel.
    pub send_ns: u64,
    /// The unshaped direction.
    pub reverse_ns: u64,
}

impl Profile {
    /// By stage: its name, what it took in nanoseconds, and of how many packets.
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

/// The most memory the gateway takes, fixed at start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBound {
    /// Frames in the packet pool.
    pub pool_frames: u64,
    /// Size of each in bytes.
    pub frame_bytes: u64,
    /// The packet pool in bytes, bookkeeping included.
    pub pool_bytes: u64,
    /// Most packets that all queues may hold.
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

/// Everything the gateway tells about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatewayStats {
    /// Name of the link.
    #[serde(default)]
    pub link: String,
    /// Changes that were committed since the gateway started. Classes and their order may differ between two statistics whose generations do.
    #[serde(default)]
    pub generation: u64,
    /// Interface that the shared direction comes from.
    pub input: String,
    /// Interface that it goes to.
    pub output: String,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Rate of the link in bit/s.
    pub link_bps: u64,
    /// Time since the data thread started, in seconds.
    pub uptime_s: f64,
    /// Length in seconds of the interval that `interval` is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<f64>,
    /// Whether the processor was late in that interval; `None` as [`GatewayStats::interval_s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_late: Option<LateStats>,
    /// What the whole link did since the last answer on the same connection, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<IntervalStats>,
    /// What is to be known of the numbers: why an ideal is not computed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Leaves that no frame can reach: those without a match that are not the default class, and those whose frames earlier matches take.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable: Vec<String>,
    /// What came in, all classes.
    pub received: Amount,
    /// What went out, all classes.
    pub sent: Amount,
    /// What was dropped, all classes and reasons.
    pub dropped: Amount,
    /// What is still there, all classes.
    pub queued: Amount,
    /// What passes frames while the gateway does not run.
    #[serde(default)]
    pub fail_open: FailOpenStats,
    /// Times at which the gateway did not do its work.
    #[serde(default)]
    pub liveness: LivenessStats,
    /// Whether received = sent + dropped + queued holds for every class, in packets and bytes, and the packet pool agrees.
    pub balanced: bool,
    /// Frames that the kernel dropped before the gateway could fetch them; not among the received.
    pub kernel_dropped_packets: u64,
    /// Frames that an offload had joined, which could not be split and were dropped as `joined`.
    pub super_packets: u64,
    /// The same by reason, those that have occurred: `tunnel`, `protocol`, `malformed`, `too_long`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub super_packets_by_reason: BTreeMap<String, u64>,
    /// Frames that an offload had joined, which were split into the packets they were joined from, in both directions.
    #[serde(default)]
    pub split_packets: u64,
    /// Those packets. Each is received, sent, dropped or queued like any other.
    #[serde(default)]
    pub segments: u64,
    /// Frames that the kernel threw away instead of handing them over, because an offload had joined them in a way that it
    /// cannot describe (UDP fragmentation offload, of a guest behind a tap for example); not among the received.
    #[serde(default)]
    pub unreadable_packets: u64,
    /// Checksums that the sender had left to hardware and the gateway computed.
    pub checksums_completed: u64,
    /// Checksums that the sender had left to hardware and the gateway left to the output: to its hardware, or to the kernel
    /// where that cannot.
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
    /// Delay of all packets; `None` where nothing was sent.
    pub delay_s: Option<DelayStats>,
    /// Leaves without a `delay_s` of their own, because only the first 1024 have one. Their delays count in the link's.
    #[serde(default)]
    pub leaves_without_delays: u64,
    /// The other direction; `None` where it is not forwarded.
    pub reverse: Option<ReverseStats>,
    /// What the data thread did with its time.
    pub time: TimeShares,
    /// What each stage took, where every turn is timed (`--profile`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The memory bound.
    pub memory: MemoryBound,
    /// Link time lost while there was something to send, in seconds: beyond what `--catch-up` makes up for, because the data
    /// thread came back late or the output took nothing.
    #[serde(default)]
    pub forfeited_s: f64,
    /// The most frames of the pool that were in use at once.
    pub pool_most_used: u64,
    /// What the scheduler counts of the link, by name, such as rounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// All classes, parents before their children, in the order of the link file.
    pub classes: Vec<ClassStats>,
    /// Classes that changes have removed, together; absent where there is nothing to tell of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<ClassStats>,
}

/// What moves frames at an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceStats {
    /// The interface.
    pub name: String,
    /// `af_packet` or `af_xdp`.
    pub backend: String,
    /// Whether the driver itself reads and writes frames of the packet pool. With `af_packet` it never does.
    pub zero_copy: bool,
}

impl InterfaceStats {
    pub(crate) fn new(name: &str, mover: Mover) -> Self {
        Self { name: name.to_owned(), backend: mover.backend.name().to_owned(), zero_copy: mover.zero_copy }
    }
}

impl GatewayStats {
    /// The classes that have packets of their own.
    pub fn leaves(&self) -> impl Iterator<Item = &ClassStats> {
        self.classes.iter().filter(|class| class.leaf)
    }
}

/// By reason: frames that an offload had joined and that could not be split.
pub(crate) fn unsplittable(counters: &BackendCounters) -> BTreeMap<String, u64> {
    let named = Unsplittable::ALL.into_iter().map(|why| (why.key().to_owned(), counters.unsplittable[why as usize]));
    named.filter(|&(_, packets)| packets > 0).collect()
}

/// What is wrong with a frame that cannot be split, and what to do about it.
fn remedy(why: Unsplittable) -> &'static str {
    match why {
        Unsplittable::Tunnel => {
            "they are of a tunnel, whose inner packets were joined; where the tunnel begins, turn that off (`ethtool -K IF \
             tx-udp_tnl-segmentation off tx-udp_tnl-csum-segmentation off tx-gre-segmentation off tx-ipxip4-segmentation off`)"
        }
        Unsplittable::Protocol => {
            "they are neither TCP nor UDP over IPv4 or IPv6; turn gso off where they come from (`ethtool -K IF gso off`)"
        }
        Unsplittable::Malformed => {
            "their headers are cut short or contradict themselves; whoever sends them is broken or means harm"
        }
        Unsplittable::TooLong => {
            "they, or the packets in them, are too long; where they come from, keep gso_max_size and gro_max_size at 65536 \
             (`ip link set IF gso_max_size 65536 gro_max_size 65536`) and the mtu no larger than here"
        }
    }
}

/// The identity in words, as it is printed when the gateway stops.
impl std::fmt::Display for GatewayStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "received {} = sent {} + dropped {} + left in queue {}: {}",
            self.received.packets,
            self.sent.packets,
            self.dropped.packets,
            self.queued.packets,
            if self.balanced { "every packet is accounted for" } else { "PACKETS ARE UNACCOUNTED FOR" }
        )?;
        if self.kernel_dropped_packets > 0 {
            write!(
                f,
                "; the kernel dropped {} before the gateway could fetch them: it got too little of a processor \
                 (--cpu puts it on one that nobody else uses)",
                self.kernel_dropped_packets
            )?;
        }
        let dropped = |reason| -> Amount {
            self.leaves().chain(&self.removed).filter_map(|class| class.dropped_by_reason.get(reason)).copied().sum()
        };
        let shed = dropped(SHED);
        if shed.packets > 0 {
            write!(
                f,
                "; frames came faster than this processor handles them: {} were shed early, of classes that had long queues",
                shed.packets
            )?;
        }
        let refused = dropped(REFUSED);
        for (name, packets) in
            [(&self.output, refused.packets), (&self.input, self.reverse.unwrap_or_default().refused.packets)]
        {
            if packets > 0 {
                write!(f, "; {name} refused {packets} for good: is the mtu at its other end smaller?")?;
            }
        }
        if self.unreadable_packets > 0 {
            write!(
                f,
                "; the kernel threw away {} that an offload had joined in a way it cannot describe: turn ufo off where they \
                 come from (a virtual machine's network device: `ethtool -K IF ufo off`, or guest_ufo=off)",
                self.unreadable_packets
            )?;
        }
        if self.forfeited_s >= FORFEITED_TO_TELL_S {
            write!(
                f,
                "; {:.3} s of the link's time were lost beyond what is made up for: the data thread came back late, or {} took \
                 nothing (a longer --catch-up makes up for more, --cpu gives the thread a processor of its own)",
                self.forfeited_s, self.output
            )?;
        }
        for name in &self.waiting_for_carrier {
            write!(f, "; {name} has no carrier: frames wait for it (is its cable plugged in, and its other end up?)")?;
        }
        let LivenessStats { stalls, longest_stall_s, pauses, longest_pause_s, .. } = self.liveness;
        if stalls > 0 {
            write!(
                f,
                "; a direction stood still {stalls} times though frames might have gone, for up to {longest_stall_s:.1} s"
            )?;
        }
        if pauses > 0 {
            write!(f, "; the data thread did not run {pauses} times, for up to {longest_pause_s:.1} s")?;
        }
        if self.fail_open.repairs > 0 {
            write!(
                f,
                "; fail-open was repaired {} times: somebody takes away what the kernel needs to pass frames without the gateway",
                self.fail_open.repairs
            )?;
        }
        if self.fail_open.whole == Some(false) {
            write!(
                f,
                "; WARNING: fail-open is broken and cannot be repaired (the log says why): frames may not pass when the gateway ends"
            )?;
        }
        if let Some(first) = self.unreachable.first() {
            let more = match self.unreachable.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            write!(f, "; WARNING: no frame can reach the class {first:?}{more}: see `fairlink check FILE --gateway`")?;
        }
        for why in Unsplittable::ALL {
            let Some(packets) = self.super_packets_by_reason.get(why.key()) else { continue };
            write!(f, "; {packets} were several packets joined by an offload and could not be split: {}", remedy(why))?;
        }
        Ok(())
    }
}
