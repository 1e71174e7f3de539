//! Whom a class borrows from beyond its own link: the end of a pool of bandwidth that several links share.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::packet::ClassId;
use super::units::Nanos;

/// Whom a class borrows from beyond its own link.
pub trait Lender: fmt::Debug + Send {
    /// Whether the class may send a packet now that its own assured rate does not cover.
    ///
    /// # Errors
    /// The time from which on asking again can make a difference. It is later than `now`.
    fn may_borrow(&mut self, now: Nanos) -> Result<(), Nanos>;

    /// A packet of `bytes` was sent below the class, borrowed or not. `more` says whether others wait there.
    fn sent(&mut self, now: Nanos, bytes: u32, more: bool);

    /// The rate that the lender's own meter has for the class, in bit/s, as of its last call; `None` where it has no meter.
    fn metered_bps(&self) -> Option<u64> {
        None
    }
}

/// Classes that borrow from someone other than their link, each with its lender.
pub type Members = Vec<(ClassId, Box<dyn Lender>)>;
