//! Batches of packets whose slots are the budget of the loop that fills them.

use alloc::vec::Vec;

use crate::contract::{Packet, room_in};

/// Most packets of a batch that are served in one go: cache lines are asked for so far ahead.
const GO: usize = 32;

/// What a scheduler has sent in one go.
pub(crate) struct Served {
    /// Packets, in the first slots.
    pub(crate) packets: usize,
    /// Bytes of these.
    pub(crate) bytes: u64,
    /// Whether it stopped because it had sent enough.
    pub(crate) more: bool,
}

/// Appends packets to `out` as [`Scheduler::dequeue_batch`](crate::contract::Scheduler::dequeue_batch) says, of the `queued` there are.
/// `serve` fills slots until all are full, or the bytes that it is told are reached, or nothing more can be sent. Returns whether there may be more.
#[inline(always)]
pub(crate) fn fill(
    out: &mut Vec<Packet>,
    (max_packets, max_bytes): (usize, u64),
    queued: u32,
    mut serve: impl FnMut(&mut [Packet], u64) -> Served,
) -> bool {
    let (mut packets, mut bytes) = (max_packets.min(room_in(out)), max_bytes);
    let mut queued = queued as usize;
    while packets > 0 && bytes > 0 {
        let (start, slots) = (out.len(), packets.min(GO).min(queued.max(1)));
        out.resize_with(start + slots, || Packet::BLANK);
        let served = serve(&mut out[start..], bytes);
        out.truncate(start + served.packets);
        packets -= served.packets;
        queued -= served.packets;
        bytes = bytes.saturating_sub(served.bytes);
        if !served.more {
            return false;
        }
    }
    true
}

/// So many packets of at most `max_packet` bytes that all but the last are surely fewer than `bytes`: a loop over as many slots need not
/// count bytes.
#[inline(always)]
pub(crate) fn slots_within(bytes: u64, max_packet: u32) -> usize {
    usize::try_from(bytes.div_ceil(u64::from(max_packet.max(1)))).unwrap_or(usize::MAX)
}
