//! Separate loops for plain leaves, which are not latency-critical, below no ceiling, and FIFOs: nearly every packet
//! passes one.
//!
//! These loops add no rules. Each does the same as `hls.rs` does for one leaf at a time, and stops at a leaf that is
//! not plain. Kept apart, with the slab open and its state in registers, the loops take half the instructions. In a
//! large tree they prefetch one batch ahead.

use core::mem;

use super::rounds::replenish;
use super::{CREDIT_SHIFT, Flags, Hls, ROOT};
use crate::bases::batches::{GO, PlainIn};
use crate::contract::{ClassId, DropSink, Nanos, Packet};
use crate::parts::prefetch::prefetch;

/// Prefetch distance for leaves in a large tree, in visits ...
const LEAVES_AHEAD: usize = 64;
/// ... and the packets behind their heads half as far ahead, when the leaves are there.
const PACKETS_AHEAD: usize = 32;

/// Work that is done for all leaves of a batch together, when they have sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later {
    charges: [Charge; GO],
    /// Leaves that have become empty.
    pub(super) idle: [u32; GO],
}

impl Later {
    pub(super) const NOTHING: Self = Self { charges: [Charge { leaf: 0, ceiling: 0, bytes: 0 }; GO], idle: [0; GO] };
}

/// A charge of a visit to the buckets of ceilings.
#[derive(Clone, Copy, Debug)]
struct Charge {
    leaf: u32,
    /// The nearest one.
    ceiling: u32,
    bytes: u64,
}

/// The reason for which the loop leaves a leaf.
enum End {
    /// The balance does not pay for the next packet.
    Exhausted,
    /// There is no slot for it.
    Full,
    /// No leaf.
    Idle,
}

impl Hls {
    /// Prefetches for the next visits of the round.
    #[inline]
    fn look_ahead(&mut self) {
        let Self { order, leaves, slab, asked, cursor, .. } = self;
        let end = order.len().min(*cursor + LEAVES_AHEAD);
        let start = asked.leaves.max(*cursor).min(end);
        for &id in &order[start..end] {
            prefetch(leaves, id as usize);
        }
        asked.leaves = end;
        let end = order.len().min(*cursor + PACKETS_AHEAD);
        let start = asked.packets.max(*cursor).min(end);
        for &id in &order[start..end] {
            slab.prefetch_second(&leaves[id as usize].queue);
        }
        asked.packets = end;
    }

    /// Returns the flags of which at least one marks a leaf as not plain.
    pub(super) fn special(&self) -> Flags {
        if self.also_limited() { Flags::URGENT.union(Flags::MANAGED) } else { Flags::NOT_PLAIN }
    }

    /// Returns true if leaves below ceilings are plain, too.
    #[inline(always)]
    fn also_limited(&self) -> bool {
        self.has_ceilings && self.ceilings.are_buckets()
    }

    /// Serves plain leaves from the cursor on, until every slot has a packet, the round is over, or the leaf at the cursor is not
    /// plain. Returns the number and the bytes of the packets.
    #[inline]
    pub(super) fn serve_plain(&mut self, slots: &mut [Packet]) -> (usize, u64) {
        if self.looks_ahead {
            self.look_ahead();
        }
        let also_limited = self.also_limited();
        if mem::take(&mut self.serving) && !self.resume(also_limited) {
            return (0, 0);
        }
        match (also_limited, self.looks_ahead) {
            (false, _) => self.visit_all::<false, false>(slots),
            (true, false) => self.visit_all::<true, false>(slots),
            (true, true) => self.visit_all::<true, true>(slots),
        }
    }

    /// The loop of [`Hls::serve_plain`]. `LIMITED`: also serves leaves below ceilings, as long as none of these is
    /// blocked. `LATER`: charges their ceilings at the end, when they have come into the cache.
    #[inline(never)]
    fn visit_all<const LIMITED: bool, const LATER: bool>(&mut self, slots: &mut [Packet]) -> (usize, u64) {
        let special = const { if LIMITED { Flags::URGENT.union(Flags::MANAGED) } else { Flags::NOT_PLAIN } };
        let (cycle, now) = (self.rounds.main, self.now);
        let Self { leaves, inners, inner_classes, order, ceilings, later, .. } = self;
        let (leaves, inners, order) = (&mut leaves[..], &mut inners[..], &mut order[..]);
        let (round, in_main_round) = (self.round, self.in_main_round);
        // `gap`: number of leaves before the cursor that are no longer in the round. The list of a surplus round is not
        // needed again.
        let (mut cursor, mut gap) = (self.cursor, self.cursor - self.kept);
        let (mut charges, mut idle) = (later.charges.iter_mut(), later.idle.iter_mut());
        let mut slab = self.slab.open(0);
        let room = slots.len().min(GO);
        let (mut slots, mut bytes) = (slots[..room].iter_mut(), 0u64);
        while let Some(&id) = order.get(cursor) {
            let leaf = &mut leaves[id as usize];
            if leaf.flags.intersects(special.union(Flags::IDLE).union(Flags::IN_DEBT)) {
                if leaf.flags.intersects(special) {
                    break;
                }
                if leaf.flags.intersects(Flags::IDLE) {
                    // It has become idle since it was listed.
                    leaf.flags.clear(Flags::LISTED);
                    (cursor, gap) = (cursor + 1, gap + 1);
                    continue;
                }
                let (is_open, in_debt) = ceilings.is_open(id, cycle, now);
                if !is_open {
                    // It is to be parked.
                    break;
                }
                leaf.flags.clear(Flags::IN_DEBT.if_so(!in_debt));
            }
            let mut inner = &mut inners[leaf.parent as usize];
            if inner.round != round {
                // If a round has reached a leaf, no ceiling above blocks it in this round.
                if LIMITED
                    && leaf.flags.intersects(Flags::LIMITED)
                    && !ceilings.are_open(inner_classes[leaf.parent as usize], cycle, now)
                {
                    break;
                }
                replenish(inners, leaf.parent, round, in_main_round);
                inner = &mut inners[leaf.parent as usize];
            }
            leaf.visit(inner);
            #[cfg(test)]
            self.visits.push(ClassId(id));
            if leaf.cost_of_head() <= leaf.balance {
                let before = bytes;
                let end = loop {
                    let Some(slot) = slots.next() else { break End::Full };
                    // Equation (9); the root's part is below.
                    leaf.balance -= leaf.cost_of_head();
                    bytes += u64::from(leaf.queue.len_of_head());
                    if leaf.queue.pop_open(&mut slab, ClassId(id), slot) {
                        break End::Idle;
                    }
                    if leaf.cost_of_head() > leaf.balance {
                        break End::Exhausted;
                    }
                };
                if LIMITED && leaf.flags.intersects(Flags::LIMITED) && bytes > before {
                    let nearest = ceilings.nearest(id);
                    if LATER && let Some(charge) = charges.next() {
                        ceilings.prefetch(nearest);
                        *charge = Charge { leaf: id, ceiling: nearest, bytes: bytes - before };
                    } else if ceilings.take(nearest, bytes - before, cycle, now) {
                        leaf.flags.set(Flags::IN_DEBT.if_so(leaf.flags.intersects(Flags::CAPPED)));
                    }
                }
                match end {
                    End::Exhausted => {}
                    End::Full => {
                        self.serving = true;
                        break;
                    }
                    End::Idle => {
                        leaf.flags.idle();
                        leaf.flags.clear(Flags::LISTED.if_so(in_main_round));
                        if let Some(idle) = idle.next() {
                            *idle = id;
                        }
                        gap += usize::from(in_main_round);
                        cursor += 1;
                        continue;
                    }
                }
            }
            if gap > 0 {
                order[cursor - gap] = id;
            }
            cursor += 1;
        }
        let packets = room - slots.len();
        slab.leave(packets as u32, bytes);
        // The root distributes only at the start of a round, and the loop ends with the round.
        inners[ROOT as usize].balance += (bytes as i64) << CREDIT_SHIFT;
        (self.cursor, self.kept) = (cursor, cursor - gap);
        self.sent_in_round |= packets > 0;
        let (charges, idle) = (GO - charges.len(), GO - idle.len());
        if LATER {
            self.charge(charges);
        }
        if idle > 0 {
            self.deactivate_all(idle);
        }
        (packets, bytes)
    }

    /// Charges the buckets for the first `charges` visits. A ceiling is checked once per cycle, and before anything is
    /// sent below it, so that all visits of a batch may be charged together.
    fn charge(&mut self, charges: usize) {
        let (cycle, now) = (self.rounds.main, self.now);
        for &Charge { leaf, ceiling, bytes } in &self.later.charges[..charges] {
            if self.ceilings.take(ceiling, bytes, cycle, now) {
                let flags = &mut self.leaves[leaf as usize].flags;
                flags.set(Flags::IN_DEBT.if_so(flags.intersects(Flags::CAPPED)));
            }
        }
    }

    /// Resumes a visit that was interrupted because the slots were full. It begins again, so that the loop need not
    /// distinguish the cases: the leaf's quota is taken back first. Returns false if the leaf is not plain.
    #[cold]
    fn resume(&mut self, also_limited: bool) -> bool {
        let leaf = &mut self.leaves[self.order[self.cursor] as usize];
        if leaf.flags.intersects(Flags::URGENT.union(Flags::MANAGED))
            || leaf.flags.intersects(Flags::LIMITED) && !also_limited
        {
            self.serving = true;
            return false;
        }
        let inner = &mut self.inners[leaf.parent as usize];
        let quota = leaf.weight * inner.fair_quota;
        leaf.balance -= quota;
        inner.balance += quota;
        #[cfg(test)]
        self.visits.pop();
        true
    }
}

impl PlainIn for Hls {
    #[inline(never)]
    fn push_plain(&mut self, batch: &[Packet]) -> usize {
        if self.urgent.any_debt() && self.slab.queued() == 0 {
            return 0;
        }
        let batch = &batch[..batch.len().min(self.slab.room() as usize)];
        let max_packet = self.max_packet;
        let Self { leaves, inners, pending, .. } = self;
        let leaves = &mut leaves[..];
        let mut slab = self.slab.open(batch.len() as u32);
        let (mut packets, mut bytes) = (0, 0);
        for packet in batch {
            let id = packet.class.0;
            let Some(leaf) = leaves.get_mut(id as usize) else { break };
            if leaf.flags.intersects(Flags::NOT_FIFO)
                || packet.len > max_packet
                || !leaf.queue.push_open(&mut slab, packet.handle, packet.len)
            {
                break;
            }
            packets += 1;
            bytes += u64::from(packet.len);
            if !leaf.flags.intersects(Flags::BACKLOGGED) {
                leaf.flags.set(Flags::PENDING);
                let parent = leaf.parent;
                super::rounds::wait_for_next_round(inners, pending, id, parent);
            }
        }
        slab.enter(packets, bytes);
        packets as usize
    }

    #[inline(always)]
    fn push_any(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue_one(now, packet, drops);
    }
}
