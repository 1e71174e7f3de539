//! Leaves that are FIFOs, in loops of their own: round robins serve and fill them with the slab open and its state in registers.
//!
//! These loops add no rules. Each does the same as the calls for single packets, and stops at a leaf that is not a
//! FIFO.

use super::{Flows, NIL, Ring};
use crate::bases::batches::{LOOK_AHEAD_FROM, look_ahead};
use crate::contract::{ClassId, Packet};

/// The state of a leaf of a round robin, which limits a visit.
pub(crate) trait Turn {
    /// Begins a visit if it can send the first packet, of `len` bytes. Otherwise nothing changes.
    fn begin(&mut self, len: u32) -> bool;
    /// Returns true if a packet of `len` bytes can be sent in the current visit.
    fn covers(&self, len: u32) -> bool;
    /// Charges a sent packet.
    fn pay(&mut self, len: u32);
    /// Ends the visit; `empty` is true if the leaf is.
    fn end(&mut self, empty: bool);
}

impl<S: Turn> Flows<S> {
    /// Serves the leaves of `ring` in order; the visit of the first may be `under_way`. Stops when every slot has a
    /// packet, the ring is empty, the first is not a FIFO, or its visit would send nothing. Returns the number and the
    /// bytes of the packets. The visit of the last packet stays under way.
    #[inline(always)]
    pub(crate) fn serve_plain(&mut self, ring: &mut Ring, under_way: &mut bool, slots: &mut [Packet]) -> (usize, u64) {
        if self.flows.len() >= LOOK_AHEAD_FROM {
            ring.look_ahead(&self.flows, &self.slab);
        }
        let mut slab = self.slab.open(0);
        let flows = &mut self.flows[..];
        let room = slots.len();
        let (mut slots, mut bytes) = (slots.iter_mut(), 0u64);
        let mut resumes = core::mem::take(under_way);
        let mut ring = ring.open();
        while let Some(first) = ring.first() {
            let flow = &mut flows[first as usize];
            if !flow.fifo {
                *under_way = resumes;
                break;
            }
            let mut empty = flow.queue.is_empty();
            let sends = if core::mem::take(&mut resumes) {
                !empty && flow.state.covers(flow.queue.len_of_head())
            } else if flow.state.begin(flow.queue.len_of_head()) {
                true
            } else {
                break;
            };
            if sends {
                loop {
                    let head = flow.queue.len_of_head();
                    let Some(slot) = slots.next() else { break };
                    flow.state.pay(head);
                    bytes += u64::from(head);
                    empty = flow.queue.pop_open(&mut slab, ClassId(first), slot);
                    if slots.as_slice().is_empty() || empty || !flow.state.covers(flow.queue.len_of_head()) {
                        break;
                    }
                }
                if slots.as_slice().is_empty() {
                    // A packet that comes before the next call still belongs to this visit.
                    *under_way = true;
                    break;
                }
            }
            flow.state.end(empty);
            if empty {
                ring.pop();
            } else {
                ring.rotate(first);
            }
        }
        let packets = room - slots.len();
        slab.leave(packets as u32, bytes);
        ring.close();
        (packets, bytes)
    }
}

impl<S> Flows<S> {
    /// Queues packets of `batch` from the first on until one is not for a FIFO, or is to be dropped. Leaves that were
    /// empty go to the end of `ring`, except `visited`, which is in it. Returns the number of packets.
    #[inline(always)]
    pub(crate) fn push_plain(&mut self, ring: &mut Ring, visited: Option<u32>, batch: &[Packet]) -> usize {
        let visited = visited.unwrap_or(NIL);
        let batch = &batch[..batch.len().min(self.slab.room() as usize)];
        let max_packet = self.max_packet;
        let mut slab = self.slab.open(batch.len() as u32);
        let flows = &mut self.flows[..];
        let (mut packets, mut bytes) = (0, 0);
        for packet in batch {
            let id = packet.class.0;
            let Some(flow) = flows.get_mut(id as usize) else { break };
            let was_empty = flow.queue.is_empty();
            if !flow.fifo || packet.len > max_packet || !flow.queue.push_open(&mut slab, packet.handle, packet.len) {
                break;
            }
            packets += 1;
            bytes += u64::from(packet.len);
            if was_empty && id != visited {
                ring.push(id);
            }
        }
        slab.enter(packets, bytes);
        packets as usize
    }

    /// Like [`look_ahead`], if there are many leaves.
    #[inline(always)]
    pub(crate) fn look_ahead(&self, batch: &[Packet]) {
        if self.flows.len() >= LOOK_AHEAD_FROM {
            look_ahead(&self.flows, |flow| &flow.queue, &self.slab, batch);
        }
    }
}
