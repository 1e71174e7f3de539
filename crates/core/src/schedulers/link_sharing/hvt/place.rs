//! The place of a class at its parent: one word.

use core::fmt;

use crate::contract::MAX_CLASSES;

/// Identifies a class: the index of an inner class, or the id of a leaf with this bit.
pub(super) const LEAF: u32 = 1 << 31;

/// The standing of a class at its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is queued below it.
    Off = 0,
    /// In its parent's queue.
    Queued = 1,
    /// Backlogged and not in the queue: it is blocked, or all below it that is backlogged is.
    Waiting = 2,
    /// Nothing is queued below it, and its last packet is in transmission.
    Held = 3,
}

/// Parent, slot, flags and state of a class.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u32);

const _: () = assert!(MAX_CLASSES < 1 << (u32::BITS - Place::PARENT));

impl Place {
    /// Its ceiling is in debt.
    pub(super) const BLOCKED: u32 = 1 << 2;
    /// Of an inner class: packets below it were sent ahead and are not in its tag.
    pub(super) const OWES: u32 = 1 << 3;
    /// Of a leaf: it is latency-critical.
    pub(super) const CRITICAL: u32 = 1 << 3;
    /// An inner class, in the list of leaves.
    pub(super) const INNER: u32 = 1 << 4;
    const GROUP: u32 = 5;
    const PARENT: u32 = 11;
    /// The link, which has no parent: not in group 0.
    pub(super) const LINK: Self = Self::new(0, 1, 0);
    /// A class in `group`, below 64, of the children of the inner class `parent`, with constant `flags`.
    pub(super) const fn new(parent: u32, group: u32, flags: u32) -> Self {
        Self(parent << Self::PARENT | group << Self::GROUP | flags)
    }

    #[inline(always)]
    pub(super) const fn parent(self) -> u32 {
        self.0 >> Self::PARENT
    }

    #[inline(always)]
    pub(super) const fn group(self) -> u32 {
        self.0 >> Self::GROUP & 63
    }

    /// Moves it into the group of `other`.
    pub(super) const fn set_group(&mut self, other: Self) {
        let mask = 63 << Self::GROUP;
        self.0 = self.0 & !mask | other.0 & mask;
    }

    #[inline(always)]
    pub(super) const fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Off,
            1 => State::Queued,
            2 => State::Waiting,
            _ => State::Held,
        }
    }

    #[inline(always)]
    pub(super) const fn set_state(&mut self, state: State) {
        self.0 = self.0 & !3 | state as u32;
    }

    /// Returns true if one of `flags` is set.
    #[inline(always)]
    pub(super) const fn is_any(self, flags: u32) -> bool {
        self.0 & flags != 0
    }

    #[inline(always)]
    pub(super) const fn set(&mut self, flag: u32) {
        self.0 |= flag;
    }

    #[inline(always)]
    pub(super) const fn clear(&mut self, flag: u32) {
        self.0 &= !flag;
    }

    /// As it was made, except the mark of a leaf that is latency-critical and of an inner class that owes.
    pub(super) const fn reset(&mut self) {
        self.0 &= !(3 | Self::BLOCKED);
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = self.0 >> 2 & 7;
        write!(f, "{:?} in group {} of {}, flags {flags:03b}", self.state(), self.group(), self.parent())
    }
}
