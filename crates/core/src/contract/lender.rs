//! A source of bandwidth beyond a class's own link: the end of a pool that several links share.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::packet::ClassId;
use super::units::Nanos;

/// A source of bandwidth beyond a class's own link. [`Pool`](crate::pool::Pool) is the one that fairlink has.
///
/// ```
/// use fairlink_core::{
///     ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, Lender, Leniency, LinkConfig, Nanos, Packet, Rate, Share, registry,
/// };
///
/// /// Lends nothing before a time.
/// #[derive(Debug)]
/// struct From(Nanos);
///
/// impl Lender for From {
///     fn may_borrow(&mut self, now: Nanos) -> Result<(), Nanos> {
///         if now < self.0 { Err(self.0) } else { Ok(()) }
///     }
///
///     fn sent(&mut self, _: Nanos, _: u32, _: bool) {}
/// }
///
/// // A class with 8 bit/s of its own, below a link of 8 Mbit/s.
/// let rate = |bps| Rate::from_bps(bps);
/// let mut tree = Hierarchy::builder(LinkConfig::new(rate(8_000_000)?));
/// let share = Some(Share::Guarantee(rate(8)?));
/// let class = tree.add(ClassId::ROOT, ClassConfig { share, ..ClassConfig::default() })?;
/// let later = Nanos::from_secs(1);
/// let htb = registry::find("htb").expect("it is registered");
/// let mut htb = htb.build(&tree.build()?, Leniency::Refuse, vec![(class, Box::new(From(later)))])?;
/// let mut drops = |_: Nanos, packet: Packet, _: DropReason| panic!("{packet:?}");
/// for handle in 0..100 {
///     htb.enqueue(Nanos::ZERO, Packet { handle, len: 1500, class }, &mut drops);
/// }
/// // Its own bucket is empty soon, and then it waits for the lender.
/// let first = std::iter::from_fn(|| match htb.dequeue(Nanos::ZERO, &mut drops) {
///     Dequeued::Packet(packet) => Some(packet),
///     _ => None,
/// });
/// assert!(first.count() < 100);
/// assert_eq!(htb.dequeue(Nanos::ZERO, &mut drops), Dequeued::WaitUntil(later));
/// assert!(matches!(htb.dequeue(later, &mut drops), Dequeued::Packet(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Lender: fmt::Debug + Send {
    /// Returns true if the class may send a packet now that its own assured rate does not cover.
    ///
    /// # Errors
    /// The time from which on asking again can make a difference. It is later than `now`.
    fn may_borrow(&mut self, now: Nanos) -> Result<(), Nanos>;

    /// Called when a packet of `bytes` was sent below the class, borrowed or not. `more` is true if others wait there.
    fn sent(&mut self, now: Nanos, bytes: u32, more: bool);

    /// Returns the reading of the lender's own meter for the class, in bit/s, as of its last call; `None` if it has no
    /// meter.
    fn metered_bps(&self) -> Option<u64> {
        None
    }
}

/// Classes that borrow from a lender other than their link, each with its lender.
pub type Members = Vec<(ClassId, Box<dyn Lender>)>;
