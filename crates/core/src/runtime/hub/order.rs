//! The rule that keeps flows in order when they move from one receive ring to another.

use alloc::boxed::Box;

use crate::contract::OutOfMemory;
use crate::parts::memory::filled;

/// Keeps the packets of a flow in order when the receive hashing moves the flow from one ring to another.
///
/// It has one byte for each of 4,096 groups of flows: the ring of the last packet that was taken. A flow is in the
/// group of the lowest 12 bits of its hash. Before the first packet of ring B, if the last one of its group came from
/// ring A, all that is in ring A *now* is taken.
///
/// # Guarantee
/// Let p and q be packets of one group, let p be pushed before q, and q be the first of them that the user looks at in
/// ring B. Then p is taken before q, on these conditions:
///
/// 1. *Before* is that of the memory model: the thread that pushes q knows that p was pushed.
/// 2. A group has one ring at a time: its packets have an order in which they were pushed, and are not pushed to two
///    rings at once.
/// 3. A group leaves a ring only after the user has taken at least one packet that it had there since it came.
///
/// *Proof.* Call the packets of a group between two changes of its ring a run. Suppose that all runs before A's have
/// been taken when the first packet of the run of ring B is pushed; there is nothing to show for the first run. By
/// condition 3, one packet of A's run has been taken then, so that the byte says A, until a packet of the next run is
/// taken. A ring is first in, first out, so A's run is in order and the next run starts with its first packet q. The
/// group has no third ring meanwhile: it does not leave B before q is taken. When the user sees q, it sees by condition
/// 1 all of A's run that was not taken, in ring A. It is taken before q. So all runs before B's have been taken when q
/// is, and thus when the group leaves B. ∎
///
/// # Limits
/// * Packets that wait in the network interface are not seen. If the interface gives q to one thread while p waits for
///   another, q is pushed first, and leaves first.
/// * Condition 2 holds if the lowest 12 bits of the hash select the ring, as in a table of at most 4,096 entries that
///   an interface has for its receive hash. With another hash, flows of several rings share a group. Flows that do not
///   move are in order even so, but a flow that moves may be reordered, and rings are emptied in vain.
/// * Condition 3 fails if a group moves twice while its packets stand in rings. No rule that sees only the rings can do
///   better: with p in ring A and q in ring B, nothing says which was first.
///
/// # Example
/// ```
/// use std::collections::VecDeque;
///
/// use fairlink_core::FlowOrder;
///
/// let mut order = FlowOrder::new()?;
/// // Two rings of packets (flow, number). Flow 7 moved from ring 0 to ring 1 after its second packet.
/// let mut rings = [VecDeque::from([(7, 2)]), VecDeque::from([(7, 3)])];
/// assert_eq!(order.came(7, 0), None); // Its first packet.
/// let mut taken = Vec::new();
/// for ring in [1, 0] {
///     while let Some(packet) = rings[ring].pop_front() {
///         if let Some(first) = order.came(packet.0, ring) {
///             // Several moves at once would need the same care here: see `HubPort`.
///             taken.extend(rings[first].drain(..));
///             order.moved(packet.0, ring);
///         }
///         taken.push(packet);
///     }
/// }
/// assert_eq!(taken, [(7, 2), (7, 3)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FlowOrder {
    /// By group: the ring of its last packet, or [`NONE`].
    last: Box<[u8]>,
}

/// No packet was taken.
const NONE: u8 = u8::MAX;

impl FlowOrder {
    /// Number of groups of flows, a power of two.
    pub const GROUPS: usize = 4096;
    /// Most rings.
    pub const MAX_RINGS: usize = NONE as usize;

    /// Makes a table that has seen no packet: 4,096 B.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new() -> Result<Self, OutOfMemory> {
        Ok(Self { last: filled(Self::GROUPS, NONE)? })
    }

    /// Returns the group of a flow with this hash.
    #[must_use]
    pub const fn group(flow: u32) -> usize {
        flow as usize % Self::GROUPS
    }

    /// Returns `None` if the packet at the head of `ring` may be taken, and records that it is. Otherwise returns the
    /// ring that must be emptied first, and records nothing: call [`FlowOrder::moved`] afterwards. `ring` is below
    /// [`FlowOrder::MAX_RINGS`].
    #[inline]
    pub fn came(&mut self, flow: u32, ring: usize) -> Option<usize> {
        let last = &mut self.last[Self::group(flow)];
        if usize::from(*last) == ring {
            return None;
        }
        if *last == NONE {
            *last = ring as u8;
            return None;
        }
        Some(usize::from(*last))
    }

    /// Records that the packet at the head of `ring` is taken, now that the ring before it has been emptied.
    #[inline]
    pub fn moved(&mut self, flow: u32, ring: usize) {
        debug_assert!(ring < Self::MAX_RINGS);
        self.last[Self::group(flow)] = ring as u8;
    }
}
