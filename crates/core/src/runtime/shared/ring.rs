//! The leaves of a worker, and the rings in which it visits those that are not off.

use super::record::units;
use crate::queue::LeafQueue;

pub(super) const NIL: u32 = u32::MAX;

/// The state of a leaf on this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has no packets here, and is in no list.
    Off,
    /// It has packets and is not on, as far as this worker is concerned.
    Pending,
    /// It is on.
    On,
}

/// A leaf as this worker has it, on one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Own {
    pub(super) queue: LeafQueue,
    pub(super) base: [u64; 2],
    pub(super) next: u32,
    pub(super) state: State,
}

const _: () = assert!(size_of::<Own>() == 64);

impl Own {
    pub(super) const fn base(&self) -> u128 {
        self.base[0] as u128 | (self.base[1] as u128) << 64
    }

    pub(super) const fn set_base(&mut self, base: u128) {
        self.base = [base as u64, (base >> 64) as u64];
    }
}

/// The own leaves of an inner class that are not off: a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) len: u32,
    /// Leaves that the current visit has still to look at; 0 between visits.
    pub(super) left: u32,
    /// Virtual time as read last.
    pub(super) v: u128,
    /// The least deficit per weight at `v` of the leaves that had no credit: bytes and weight. No bytes: none.
    pub(super) least: (u64, u64),
    /// True while all leaves that the current visit has seen are on and without credit.
    pub(super) all_lack: bool,
    /// True if that was so at the end of the last visit, and no leaf has come since: none can send before one has credit.
    pub(super) is_quiet: bool,
    /// True if one of them has packets.
    pub(super) lacks: bool,
}

impl Ring {
    pub(super) const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
        len: 0,
        left: 0,
        v: 0,
        least: (0, 0),
        all_lack: false,
        is_quiet: false,
        lacks: false,
    };

    /// Returns the units that the leaf with the least deficit lacks at `v`; 0 if it may have credit.
    pub(super) fn lacking(&self, v: u128) -> i128 {
        let (bytes, weight) = self.least;
        let got = v.wrapping_sub(self.v).checked_mul(u128::from(weight)).and_then(|got| i128::try_from(got).ok());
        (units(bytes) - got.unwrap_or(i128::MAX)).max(0)
    }

    pub(super) fn push_back(&mut self, leaves: &mut [Own], leaf: u32) {
        leaves[leaf as usize].next = NIL;
        match self.tail {
            NIL => self.head = leaf,
            tail => leaves[tail as usize].next = leaf,
        }
        self.tail = leaf;
        self.len += 1;
    }

    pub(super) fn push_front(&mut self, leaves: &mut [Own], leaf: u32) {
        leaves[leaf as usize].next = self.head;
        if self.head == NIL {
            self.tail = leaf;
        }
        self.head = leaf;
        self.len += 1;
    }

    pub(super) fn pop(&mut self, leaves: &[Own]) -> u32 {
        let leaf = self.head;
        self.head = leaves[leaf as usize].next;
        if self.head == NIL {
            self.tail = NIL;
        }
        self.len -= 1;
        leaf
    }
}
