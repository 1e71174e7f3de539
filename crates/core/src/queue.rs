//! Leaf queues with packet and byte limits whose packets live in one slab of bounded size.
//!
//! A [`LeafQueue`] is 40 bytes, so that a scheduler can keep it on one cache line together with its own state of the
//! leaf. It holds the head packet itself; only the packets behind the head are in the [`PacketSlab`]. So a queue of one
//! packet, which most active classes of a large tree have, never touches the slab.
//!
//! Behind the head there may be an active queue instead of a FIFO: CoDel or FQ-CoDel, or queues of hosts that share the
//! leaf. It chooses the head, which is then fixed as for a FIFO. The rest of an active queue's state is in a table,
//! which exists only if a class needs one. A scheduler that passes time and drops ([`LeafQueue::enqueue`],
//! [`LeafQueue::dequeue`]) works with any kind of queue.

mod aqm;
#[cfg(test)]
mod aqm_tests;
mod codel;
#[cfg(test)]
mod hosts_tests;
mod leaf;
mod push_out;
#[cfg(test)]
mod push_out_tests;
mod rota;
mod slab;
#[cfg(test)]
mod tests;

pub(crate) use leaf::{LeafQueue, PacketSlab};

/// A bit in the number of a queue: it shares the room of the slab, and the rest is its class. [`NIL`] has this bit,
/// too, and is a FIFO.
const SHARES: u32 = 1 << 31;

/// No packet, and no active queue.
const NIL: u32 = u32::MAX;
