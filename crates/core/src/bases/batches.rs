//! Batches of packets whose slots are the budget of the loop that fills them.

use alloc::vec::Vec;
use core::mem;

use crate::contract::{DropSink, Nanos, Packet, room_in};
use crate::parts::prefetch::prefetch;
use crate::queue::{LeafQueue, PacketSlab};

/// Minimum number of classes for prefetching; smaller trees fit in the cache. Unit tests prefetch in small trees, too.
pub(crate) const LOOK_AHEAD_FROM: usize = if cfg!(test) { 4 } else { 1 << 11 };

/// Maximum number of packets served in one run; also the distance of prefetches.
pub(crate) const GO: usize = 32;

/// The result of one run.
pub(crate) struct Served {
    /// Packets, in the first slots.
    pub(crate) packets: usize,
    /// Bytes of these.
    pub(crate) bytes: u64,
    /// True if it stopped because it had sent enough.
    pub(crate) more: bool,
}

/// A scheduler with a separate loop for packets that arrive at plain leaves.
pub(crate) trait PlainIn {
    /// Queues packets of `batch` from the first on until one is not for a plain leaf, or is to be dropped. Returns
    /// their number.
    fn push_plain(&mut self, batch: &[Packet]) -> usize;

    /// Queues any packet.
    fn push_any(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink);
}

/// Queues all packets of `batch`.
#[inline(always)]
pub(crate) fn push_all(to: &mut impl PlainIn, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
    let mut at = 0;
    loop {
        at += to.push_plain(&batch[at..]);
        let Some(packet) = batch.get_mut(at) else { break };
        to.push_any(now, mem::replace(packet, Packet::BLANK), drops);
        at += 1;
    }
    batch.clear();
}

/// After a packet that had to be queued singly, this many more are queued singly before runs are tried again: leaves
/// that were idle often follow each other.
const BY_THEMSELVES: usize = 4;

/// Like [`push_all`], for batches in which many consecutive packets may not suit [`PlainIn::push_plain`].
#[inline(always)]
pub(crate) fn push_runs(to: &mut impl PlainIn, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
    let mut at = 0;
    while at < batch.len() {
        let run = to.push_plain(&batch[at..]);
        at += run;
        if run > 0 {
            continue;
        }
        let end = batch.len().min(at + BY_THEMSELVES);
        for packet in &mut batch[at..end] {
            to.push_any(now, mem::replace(packet, Packet::BLANK), drops);
        }
        at = end;
    }
    batch.clear();
}

/// Queues packets of `batch` from the first on, while each comes behind others in a FIFO and so changes no scheduling
/// state. `leaves` are the classes by id; only leaves have packets. Returns the number of packets.
#[inline(always)]
pub(crate) fn push_behind<L>(
    leaves: &mut [L],
    queue: impl Fn(&mut L) -> &mut LeafQueue,
    slab: &mut PacketSlab,
    max_packet: u32,
    batch: &[Packet],
) -> usize {
    let fits = |queue: &LeafQueue, len| queue.is_fifo() && !queue.is_empty() && len <= max_packet;
    let batch = &batch[..batch.len().min(slab.room() as usize)];
    let Some(first) = batch.first() else { return 0 };
    // If all come to empty queues, the slab need not be opened for each.
    if !leaves.get_mut(first.class.index()).is_some_and(|leaf| fits(queue(leaf), first.len)) {
        return 0;
    }
    let mut slab = slab.open(batch.len() as u32);
    let (mut packets, mut bytes) = (0, 0);
    for packet in batch {
        let Some(leaf) = leaves.get_mut(packet.class.index()) else { break };
        let queue = queue(leaf);
        if !fits(queue, packet.len) || !queue.push_open(&mut slab, packet.handle, packet.len) {
            break;
        }
        packets += 1;
        bytes += u64::from(packet.len);
    }
    slab.enter(packets, bytes);
    packets as usize
}

/// Prefetches the leaves of the packets of `batch`, and then the packets at the tails of their queues. They come into
/// the cache side by side instead of one after the other.
#[inline(always)]
pub(crate) fn look_ahead<L>(leaves: &[L], queue: impl Fn(&L) -> &LeafQueue, slab: &PacketSlab, batch: &[Packet]) {
    for packet in batch {
        prefetch(leaves, packet.class.index());
    }
    for packet in batch {
        if let Some(leaf) = leaves.get(packet.class.index()) {
            slab.prefetch_tail(queue(leaf));
        }
    }
}

/// A round robin with a separate loop for packets of plain leaves.
pub(crate) trait PlainOut {
    /// Fills slots from plain leaves, until one that is not has its turn. Returns the number and the bytes of the packets.
    fn pop_plain(&mut self, slots: &mut [Packet]) -> (usize, u64);

    /// Removes and returns the next packet of any class.
    fn pop_any(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet>;
}

/// Fills `slots` with packets of at most `max_packet` bytes until about `max_bytes` bytes are sent, or all packets.
#[inline(always)]
pub(crate) fn pop_all(
    from: &mut impl PlainOut,
    max_packet: u32,
    (slots, max_bytes): (&mut [Packet], u64),
    now: Nanos,
    drops: &mut dyn DropSink,
) -> Served {
    let mut served = Served { packets: 0, bytes: 0, more: true };
    while served.packets < slots.len() && served.bytes < max_bytes {
        let few = slots_within(max_bytes - served.bytes, max_packet);
        let end = slots.len().min(served.packets.saturating_add(few));
        let (packets, bytes) = from.pop_plain(&mut slots[served.packets..end]);
        served.packets += packets;
        served.bytes += bytes;
        if packets > 0 {
            continue;
        }
        let Some(packet) = from.pop_any(now, drops) else {
            served.more = false;
            break;
        };
        served.bytes += u64::from(packet.len);
        slots[served.packets] = packet;
        served.packets += 1;
    }
    served
}

/// Appends packets to `out` as in [`Scheduler::dequeue_batch`](crate::contract::Scheduler::dequeue_batch), out of
/// `queued`. `serve` fills slots until all are full, its byte limit is reached, or nothing more can be sent. Returns
/// true if there may be more.
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

/// Number of packets of at most `max_packet` bytes of which all but the last add up to less than `bytes`. A loop over
/// as many slots need not count bytes.
#[inline(always)]
pub(crate) fn slots_within(bytes: u64, max_packet: u32) -> usize {
    usize::try_from(bytes.div_ceil(u64::from(max_packet.max(1)))).unwrap_or(usize::MAX)
}
