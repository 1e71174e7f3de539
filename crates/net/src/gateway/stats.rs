//! What the gateway counts, and the form in which it reports: one JSON object that programs can rely on.
//!
//! After every turn, received = sent + dropped + queued, in packets and in bytes, for each class and in all. Bytes are accounted
//! bytes: the frame without its check sequence, plus the link's configured overhead.
//!
//! The core's [`Metered`] counts what happens in the scheduler, [`EdgeCounters`] what happens before and behind it. The identity
//! holds only if both agree.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use fairlink_core::{Amount, ClassId, Counters, DropReason, Metered, Nanos, Scheduler};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::gateway::fail_open::FailOpenStats;
use crate::gateway::liveness::LivenessStats;

/// So many leaves, the first ones, have a delay histogram of their own. Delays of the others only count in the link's.
pub(crate) const MAX_HISTOGRAMS: usize = 1024;

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
const REMOVED: &str = "(removed)";
const TOO_LONG: &str = "too_long";
const SHED: &str = "shed";
const STALE: &str = "stale";
const REFUSED: &str = "refused_by_interface";

/// Less lost time than this is not worth a word in text.
const FORFEITED_TO_TELL_S: f64 = 0.001;

/// Why a frame was not given to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It has no whole Ethernet header.
    Runt,
    /// Its checksum was left to hardware and cannot be computed here.
    Checksum,
    /// It does not fit into the pool's frames, or an offload has joined it.
    TooLong,
    /// Frames came faster than they could be fetched, and its class had a long queue.
    Shed,
    /// It came before the data thread paused, and later ones have passed by it.
    Stale,
}

impl Unfit {
    /// Names in JSON, in the order of the enum.
    const KEYS: [&str; 5] = ["runt", "checksum", TOO_LONG, SHED, STALE];
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
#[derive(Clone, Debug, Default)]
struct ClassEdges {
    unfit: [Amount; Unfit::KEYS.len()],
    refused: [Amount; Refusal::KEYS.len()],
    sent: Amount,
}

impl AddAssign<&Self> for ClassEdges {
    fn add_assign(&mut self, other: &Self) {
        let pairs = self.unfit.iter_mut().zip(&other.unfit).chain(self.refused.iter_mut().zip(&other.refused));
        pairs.for_each(|(count, &other)| *count += other);
        self.sent += other.sent;
    }
}

/// Counts, by class, what happens to frames at both edges of the scheduler. [`Metered`] counts what happens inside. Only the
/// data thread writes here. Nothing is allocated after construction. The link's own row is that of classes that were removed.
#[derive(Debug)]
pub(crate) struct EdgeCounters {
    classes: Vec<ClassEdges>,
    /// By class; `NO_HISTOGRAM` for those without.
    histogram: Vec<u32>,
    histograms: Vec<Histogram<u64>>,
    all: Histogram<u64>,
}

const NO_HISTOGRAM: u32 = u32::MAX;
/// Histograms tell delays from 1 us to 100 s apart, to two digits. Shorter and longer delays count as those.
const SHORTEST_DELAY: u64 = 1_000;
const LONGEST_DELAY: u64 = 100_000_000_000;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(SHORTEST_DELAY, LONGEST_DELAY, 2).expect("constant bounds that the histogram takes")
}

impl EdgeCounters {
    /// Counters for `classes` classes, the root included, of which `leaves` can have packets.
    pub(crate) fn new(classes: usize, leaves: &[ClassId]) -> Self {
        let mut index = vec![NO_HISTOGRAM; classes];
        for (at, leaf) in leaves.iter().take(MAX_HISTOGRAMS).enumerate() {
            index[leaf.index()] = at as u32;
        }
        Self {
            classes: vec![ClassEdges::default(); classes],
            histogram: index,
            histograms: (0..leaves.len().min(MAX_HISTOGRAMS)).map(|_| histogram()).collect(),
            all: histogram(),
        }
    }

    /// The output accepted a packet of `len` accounted bytes that stayed in the gateway for `delay`.
    #[inline]
    pub(crate) fn sent(&mut self, class: ClassId, len: u32, delay: Nanos) {
        self.classes[class.index()].sent.count(len);
        self.all.saturating_record(delay.0);
        if let Some(histogram) = self.histograms.get_mut(self.histogram[class.index()] as usize) {
            histogram.saturating_record(delay.0);
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
    /// as of removed classes.
    pub(crate) fn inherit(&mut self, old: &mut Self, heirs: &[Option<ClassId>]) {
        for (class, edges) in old.classes.iter().enumerate() {
            let heir = heirs.get(class).copied().flatten();
            self.classes[heir.unwrap_or(ClassId::ROOT).index()] += edges;
            let Some(heir) = heir else { continue };
            let (from, to) = (old.histogram[class] as usize, self.histogram[heir.index()] as usize);
            if let (Some(from), Some(to)) = (old.histograms.get_mut(from), self.histograms.get_mut(to)) {
                if to.is_empty() {
                    std::mem::swap(from, to);
                } else {
                    // Both have the same bounds, so that nothing is refused.
                    let _ = to.add(&*from);
                }
            }
        }
        std::mem::swap(&mut self.all, &mut old.all);
    }

    /// Leaves that have no histogram.
    pub(crate) fn without_histogram(leaves: usize) -> u64 {
        leaves.saturating_sub(MAX_HISTOGRAMS) as u64
    }

    /// Memory in bytes; it never grows.
    pub(crate) fn memory_bytes(&self) -> usize {
        let histogram = self.all.distinct_values() * size_of::<u64>();
        self.classes.capacity() * size_of::<ClassEdges>()
            + self.histogram.capacity() * size_of::<u32>()
            + (self.histograms.len() + 1) * histogram
    }

    /// The account of `leaves`, named by `name`. It joins what was counted here, what `scheduler` has counted, and the packets
    /// that have left the scheduler and wait for the output, which `waiting` tells.
    pub(crate) fn report<S: Scheduler>(
        &self,
        scheduler: &Metered<S>,
        leaves: &[ClassId],
        name: impl Fn(ClassId) -> String,
        waiting: impl Fn(ClassId) -> Amount,
    ) -> Vec<ClassStats> {
        let mut counted = own_counters(scheduler);
        let class = |&class: &ClassId| {
            let histogram = self.histograms.get(self.histogram[class.index()] as usize);
            let queued = scheduler.class_backlog(class) + waiting(class);
            ClassStats {
                delay_s: histogram.and_then(DelayStats::of),
                counters: counted.remove(&class).unwrap_or_default(),
                ..self.account(class, scheduler.counters(class), name(class), queued)
            }
        };
        leaves.iter().map(class).collect()
    }

    /// The account of all classes that were removed; `None` where there was never anything in them. `waiting` of their packets wait for
    /// the output.
    pub(crate) fn removed<S: Scheduler>(&self, scheduler: &Metered<S>, waiting: Amount) -> Option<ClassStats> {
        let removed = self.account(ClassId::ROOT, scheduler.elsewhere(), REMOVED.to_owned(), waiting);
        (removed.received.packets > 0).then_some(removed)
    }

    /// What was counted of a class here, and `inside` the scheduler.
    fn account(&self, class: ClassId, inside: Counters, name: String, queued: Amount) -> ClassStats {
        let edges = &self.classes[class.index()];
        let dropped = (DROP_KEYS.iter().zip(inside.dropped))
            .chain(Unfit::KEYS.iter().zip(edges.unfit))
            .chain(Refusal::KEYS.iter().zip(edges.refused));
        let mut by_reason: BTreeMap<String, Amount> = BTreeMap::new();
        for (&key, amount) in dropped.filter(|(_, amount)| amount.packets > 0) {
            *by_reason.entry(key.to_owned()).or_default() += amount;
        }
        ClassStats {
            name,
            received: inside.received + edges.unfit.iter().copied().sum(),
            sent: edges.sent,
            dropped: by_reason.values().copied().sum(),
            queued,
            dropped_by_reason: by_reason,
            marked: inside.marked,
            delay_s: None,
            counters: BTreeMap::new(),
        }
    }

    /// The delay of all packets.
    pub(crate) fn delay(&self) -> Option<DelayStats> {
        DelayStats::of(&self.all)
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

impl DelayStats {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e9;
        Some(Self {
            mean: histogram.mean() / 1e9,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e9,
        })
    }
}

/// One leaf class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStats {
    /// Its name.
    pub name: String,
    /// What came in for it.
    pub received: Amount,
    /// What went out.
    pub sent: Amount,
    /// What was dropped, for all reasons.
    pub dropped: Amount,
    /// What is still there.
    pub queued: Amount,
    /// Reasons that have occurred: `queue_packets`, `queue_bytes`, `total_packets`, `pushed_out`, `too_long`, `not_a_leaf`, `congestion`,
    /// `purged`, `class_removed` (all of the scheduler), `runt`, `checksum`, `shed`, `stale`,
    /// `refused_by_interface`.
    pub dropped_by_reason: BTreeMap<String, Amount>,
    /// What was marked as having met congestion (CE) instead of being dropped. It is also counted as sent, dropped or queued.
    #[serde(default)]
    pub marked: Amount,
    /// `None` where nothing was sent, and beyond the first 1024 leaves.
    pub delay_s: Option<DelayStats>,
    /// What the scheduler counts of this class, by name, such as bytes borrowed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

/// By class, the root being the link: what `scheduler` counts of itself, by name.
pub(crate) fn own_counters(scheduler: &impl Scheduler) -> BTreeMap<ClassId, BTreeMap<String, u64>> {
    let mut counted: BTreeMap<ClassId, BTreeMap<String, u64>> = BTreeMap::new();
    scheduler.for_each_counter(&mut |class, name, value| {
        counted.entry(class).or_default().insert(name.to_owned(), value);
    });
    counted
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

/// The most memory the gateway takes, fixed at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The kernel's socket buffers in bytes, as the kernel accounts for them.
    pub kernel_bytes: u64,
}

impl std::fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "memory bound: {} frames of {} B ({:.1} MiB, touched as they are used), queues of at most {} packets \
             with the scheduler {:.1} MiB, classifier {:.1} MiB, counters {:.1} MiB, kernel buffers {:.1} MiB",
            self.pool_frames,
            self.frame_bytes,
            mib(self.pool_bytes),
            self.queue_packets,
            mib(self.scheduler_bytes),
            mib(self.classifier_bytes),
            mib(self.counters_bytes),
            mib(self.kernel_bytes)
        )
    }
}

/// Everything the gateway tells about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatewayStats {
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
    /// Frames that an offload had joined, which were dropped as `too_long`. Turn GRO, LRO and the sender's TSO off.
    pub super_packets: u64,
    /// Frames that the kernel threw away instead of handing them over, because an offload had joined them in a way that it
    /// cannot describe (UDP fragmentation offload, of a guest behind a tap for example); not among the received.
    #[serde(default)]
    pub unreadable_packets: u64,
    /// Checksums that the sender had left to hardware and the gateway computed.
    pub checksums_completed: u64,
    /// VLAN tags that the kernel had taken out and the gateway put back.
    pub vlan_tags_restored: u64,
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
    /// Changes that were committed since the gateway started.
    #[serde(default)]
    pub generation: u64,
    /// Leaf classes, in the order of the link file.
    pub classes: Vec<ClassStats>,
    /// Classes that changes have removed, together; absent where there is nothing to tell of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<ClassStats>,
}

impl GatewayStats {
    /// Sums `classes` up into the totals and says whether every class balances.
    pub(crate) fn total<'a>(classes: impl IntoIterator<Item = &'a ClassStats>) -> ([Amount; 4], bool) {
        let mut totals = [Amount::default(); 4];
        let mut balanced = true;
        for class in classes {
            let parts = [class.received, class.sent, class.dropped, class.queued];
            for (total, part) in totals.iter_mut().zip(parts) {
                *total += part;
            }
            balanced &= class.received == class.sent + class.dropped + class.queued;
        }
        (totals, balanced)
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
            self.classes
                .iter()
                .chain(&self.removed)
                .filter_map(|class| class.dropped_by_reason.get(reason))
                .copied()
                .sum()
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
        if self.super_packets > 0 {
            write!(
                f,
                "; {} were several packets joined by an offload: turn gro and lro off on {} and {}, and on a veth also \
                 tso and gso of its other end (`ethtool -K IF gro off lro off tso off gso off`)",
                self.super_packets, self.input, self.output
            )?;
        }
        Ok(())
    }
}
