//! Prefetching, if there are many classes.
//!
//! The classes below the root are in the order of their virtual times, and the first below each of them is known. So
//! the next leaves can be predicted. A useless prefetch costs little, and this module decides nothing.

use super::{Hfsc, LEAF, NONE, Work};
use crate::contract::Packet;
use crate::parts::prefetch::prefetch_all;

/// Prefetch distance for a leaf, in packets ...
const LEAF_AHEAD: u32 = 16;
/// ... and the number of packets after that for the packet behind its head.
const THEN_PACKET: usize = 8;
/// Prefetch distance, in packets, for the children's data of a class two levels below the root ...
const INNER_AHEAD: u32 = 24;
/// ... and the number of packets after that for that class.
const THEN_CLASS: usize = 4;

/// Prefetches with a second step pending; [`NONE`] if there is none.
#[derive(Debug)]
pub(super) struct Asked {
    leaves: [u32; THEN_PACKET],
    inner: [u32; THEN_CLASS],
    packets: usize,
}

impl Asked {
    pub(super) const NOBODY: Self = Self { leaves: [NONE; THEN_PACKET], inner: [NONE; THEN_CLASS], packets: 0 };
}

impl<W: Work> Hfsc<W> {
    /// Returns the likely next class on the path of link-sharing after `by` others: a leaf, with [`LEAF`] set, or the
    /// index of the children of a class `levels` below the root. Reads neither of these.
    #[inline(always)]
    fn ahead(&self, by: u32, levels: u32) -> Option<u32> {
        let mut children = &self.children[0];
        let mut place = children.ready.ahead(by)?;
        let mut level = 1;
        loop {
            let child = children.below[place as usize];
            if child & LEAF != 0 || level == levels {
                return Some(child);
            }
            children = &self.children[child as usize];
            (place, _) = children.ready.first()?;
            level += 1;
        }
    }

    /// Prefetches for the next packets. To be called for each packet.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        let turn = self.asked.packets;
        self.asked.packets = turn.wrapping_add(1);
        let inner = self.ahead(INNER_AHEAD, 2).filter(|child| child & LEAF == 0).unwrap_or(NONE);
        if inner != NONE {
            prefetch_all(&self.children, inner as usize);
        }
        let inner = core::mem::replace(&mut self.asked.inner[turn % THEN_CLASS], inner);
        if let Some(of) = self.children.get(inner as usize) {
            prefetch_all(&self.classes, of.parent as usize);
        }
        let leaf = self.ahead(LEAF_AHEAD, u32::MAX).map_or(NONE, |leaf| leaf & !LEAF);
        if leaf != NONE {
            prefetch_all(&self.classes, leaf as usize);
        }
        let leaf = core::mem::replace(&mut self.asked.leaves[turn % THEN_PACKET], leaf);
        if let Some(of) = self.classes.get(leaf as usize) {
            self.slab.prefetch_second(&of.queue);
            self.children[of.siblings as usize].ready.prefetch(of.place);
        }
    }

    /// Prefetches for arriving packets: their leaves, then the tails of their queues, or the places of empty ones.
    pub(super) fn look_ahead_of(&self, batch: &[Packet]) {
        for packet in batch {
            prefetch_all(&self.classes, packet.class.index());
        }
        for packet in batch {
            let Some(of) = self.classes.get(packet.class.index()).filter(|of| of.children == NONE) else { continue };
            if of.queue.is_empty() {
                self.children[of.siblings as usize].ready.prefetch(of.place);
            } else {
                self.slab.prefetch_tail(&of.queue);
            }
        }
    }
}
