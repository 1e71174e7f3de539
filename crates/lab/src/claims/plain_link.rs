//! Schedulers that a claim drives by hand, on a link on which a byte takes 1000 ns.

use fairlink_core::registry::find;
use fairlink_core::{
    ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, Leniency, LinkConfig, Members, Nanos, Packet, QueueLimits,
    Rate, Scheduler, Share,
};

use super::ClaimError;

/// In bit/s.
pub(super) const LINK: u64 = 8_000_000;
/// Time that a byte takes on the link, in nanoseconds.
pub(super) const NS_PER_BYTE: u64 = 1000;
/// The largest packet, in bytes.
pub(super) const LARGEST: u64 = 1500;
/// Packets that a class may have queued: more than any claim here sends.
const QUEUED: u32 = 4096;

/// Makes a class for each share, all below the link.
pub(super) fn flat(shares: &[Share]) -> Result<Hierarchy, ClaimError> {
    let link = LinkConfig::new(Rate::from_bps(LINK).map_err(ClaimError::other)?);
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: LARGEST as u32, ..link });
    for &share in shares {
        let limits = QueueLimits { packets: QUEUED, bytes: u32::MAX };
        tree.add(ClassId::ROOT, ClassConfig { share: Some(share), limits, ..ClassConfig::default() })
            .map_err(ClaimError::other)?;
    }
    tree.build().map_err(ClaimError::other)
}

/// Makes the scheduler of this name.
pub(super) fn build(name: &str, tree: &Hierarchy) -> Result<Box<dyn Scheduler>, ClaimError> {
    let info = find(name).ok_or_else(|| ClaimError::other(format!("no {name}")))?;
    info.build(tree, Leniency::Refuse, Members::new()).map_err(ClaimError::other)
}

/// Removes and returns the next packet, if any.
pub(super) fn next(scheduler: &mut dyn Scheduler, now: u64) -> Option<Packet> {
    match scheduler.dequeue(Nanos(now), &mut |_: Nanos, _: Packet, _: DropReason| {}) {
        Dequeued::Packet(packet) => Some(packet),
        Dequeued::WaitUntil(_) | Dequeued::Idle => None,
    }
}
