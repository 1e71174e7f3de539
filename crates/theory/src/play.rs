//! A scheduler run in virtual time on steady traffic, for rates that no formula gives.
//!
//! A leaf sends packets of one length, at a constant rate or so that it always has some queued. The link takes packets one after another
//! and carries fractions of a nanosecond, so that no rate drifts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairlink_core::{
    ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, HierarchyError, Nanos, Packet, QueueKind, Scheduler,
};

use crate::variant::variant;

/// The traffic of one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) leaf: ClassId,
    /// Length of its packets in bytes, as the link counts them; at most the link's largest packet.
    pub(crate) length: u32,
    /// Its rate in bit/s; `None` for a leaf that always has packets.
    pub(crate) bps: Option<u64>,
}

/// Phase of the sources, and backlog of leaves that always have packets. Rates that differ between two of these depend
/// on the pattern of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The first packet of source `i` comes after the fractional part of `i` times this, of the time between two packets.
    pub(crate) phase: f64,
    /// Packets that a leaf which always has some keeps queued; at least 1.
    pub(crate) queued: u32,
}

impl Start {
    /// Phases apart, so that packets do not come all at once, and as few packets queued as keep a class busy.
    pub(crate) const APART: Self = Self { phase: 0.618_034, queued: 3 };
}

/// Copies `tree` with plain queues of the same length in place of active ones and of those with hosts: runs have
/// neither flows nor hosts.
///
/// # Errors
/// [`HierarchyError`] if there can be no such tree.
pub(crate) fn with_plain_queues(tree: &Hierarchy) -> Result<Hierarchy, HierarchyError> {
    let plain = |_: ClassId, config: &mut ClassConfig| {
        (config.queue, config.hosts, config.ecn) = (QueueKind::Fifo, None, false);
    };
    variant(tree, tree.link(), plain)
}

/// A run that can be continued.
pub(crate) struct Play<'a> {
    tree: &'a Hierarchy,
    scheduler: &'a mut dyn Scheduler,
    /// By class id, the length of the packets of a leaf that always has some.
    greedy: Vec<Option<u32>>,
    /// Next arrivals: time in nanoseconds, leaf, time to the one after it, and length.
    arrivals: BinaryHeap<Reverse<(u64, u32, u64, u32)>>,
    now: Nanos,
    /// Nanoseconds times the link's rate that are left of the packets sent.
    carry: u128,
    /// Packets that came or left.
    events: u64,
    /// By class id, bytes that did not fit into the queue.
    dropped: Vec<u64>,
}

impl<'a> Play<'a> {
    /// Starts a run of `scheduler`, made for `tree` or one with the same classes, from its first packet on. Ignores
    /// sources without a rate above zero.
    pub(crate) fn new(tree: &'a Hierarchy, scheduler: &'a mut dyn Scheduler, sources: &[Source], start: Start) -> Self {
        let mut play = Self {
            tree,
            scheduler,
            greedy: vec![None; tree.len()],
            arrivals: BinaryHeap::new(),
            now: Nanos::ZERO,
            carry: 0,
            events: 0,
            dropped: vec![0; tree.len()],
        };
        for (at, &Source { leaf, length, bps }) in sources.iter().enumerate() {
            match bps {
                None => {
                    play.greedy[leaf.index()] = Some(length);
                    (0..start.queued).for_each(|_| play.arrive(Nanos::ZERO, leaf, length));
                }
                Some(0) => {}
                Some(bps) => {
                    let every = (u128::from(length) * 8_000_000_000 / u128::from(bps)).max(1) as u64;
                    let first = (every as f64 * (at as f64 * start.phase).fract()) as u64;
                    play.arrivals.push(Reverse((first, leaf.0, every, length)));
                }
            }
        }
        play
    }

    /// Packets that came or left up to now.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    fn arrive(&mut self, at: Nanos, class: ClassId, len: u32) {
        self.events += 1;
        let dropped = &mut self.dropped;
        let mut drops = |_: Nanos, packet: Packet, reason: DropReason| {
            if matches!(reason, DropReason::QueuePackets | DropReason::QueueBytes) {
                dropped[packet.class.index()] += u64::from(packet.len);
            }
        };
        self.scheduler.enqueue(at, Packet { handle: 0, len, class }, &mut drops);
    }

    /// Bytes by class id that did not fit into the queue of the class up to now.
    pub(crate) fn dropped(&self) -> &[u64] {
        &self.dropped
    }

    /// Continues until the link could have sent another `bytes`. Returns the bytes that each class sent in that time by
    /// class id, and the time.
    pub(crate) fn run(&mut self, bytes: u64) -> (Vec<u64>, Nanos) {
        self.run_within(bytes, u64::MAX).expect("no run has so many packets")
    }

    /// As [`Play::run`]. Ends with `None` as soon as more than `most` packets have come or left since the start of the
    /// run.
    pub(crate) fn run_within(&mut self, bytes: u64, most: u64) -> Option<(Vec<u64>, Nanos)> {
        let link = u128::from(self.tree.link().rate.bps());
        let mut sent = vec![0u64; self.tree.len()];
        let (since, mut passed) = (self.now, 0u64);
        while passed < bytes {
            if self.events > most {
                return None;
            }
            while let Some(&Reverse((at, leaf, every, length))) = self.arrivals.peek() {
                if at > self.now.0 {
                    break;
                }
                self.arrivals.pop();
                self.arrive(Nanos(at), ClassId(leaf), length);
                self.arrivals.push(Reverse((at.saturating_add(every), leaf, every, length)));
            }
            let next = self.arrivals.peek().map(|&Reverse((at, ..))| Nanos(at));
            let wake = match self.scheduler.dequeue(self.now, &mut |_: Nanos, _: Packet, _: DropReason| {}) {
                Dequeued::Packet(Packet { class, len, .. }) => {
                    self.events += 1;
                    sent[class.index()] += u64::from(len);
                    passed += u64::from(len);
                    let bits = u128::from(len) * 8_000_000_000 + self.carry;
                    self.carry = bits % link;
                    self.now = self.now.saturating_add(Nanos((bits / link) as u64));
                    if let Some(length) = self.greedy[class.index()] {
                        self.arrive(self.now, class, length);
                    }
                    continue;
                }
                Dequeued::WaitUntil(wake) => next.map_or(wake, |next| next.min(wake)),
                Dequeued::Idle => match next {
                    Some(next) => next,
                    None => break,
                },
            };
            let wake = wake.max(self.now.saturating_add(Nanos(1)));
            passed += (u128::from((wake - self.now).0) * link / 8_000_000_000) as u64 + 1;
            (self.now, self.carry) = (wake, 0);
        }
        for class in self.tree.classes().rev() {
            let bytes = sent[class.index()];
            sent[self.tree.parent(class).unwrap_or(ClassId::ROOT).index()] += bytes;
        }
        Some((sent, self.now - since))
    }
}
