//! Shapers and policers, which hold a source to an arrival curve, and meters, which check conformance.
//!
//! * A [`Shaper`] delays packets until they conform. It is a queue, first in, first out.
//! * A [`Policer`] drops excess packets.
//! * A [`Meter`] passes everything and counts excess packets.
//!
//! All three are exact: they count in whole bytes and nanoseconds, and carry remainders over. Packets that a policer
//! drops, and excess packets of a meter, use up no allowance.
//!
//! **Cost per packet.** A few steps for each limit of the curve. A window remembers the times of the packets in its
//! last interval; each is inserted once and removed once. **Memory.** Constant for buckets, gaps and lines. A window
//! remembers at most [`MAX_REMEMBERED`] times; one packet more does not conform before the oldest has left the window.
//! A shaper with a limited queue remembers the packets in it.

mod gate;
mod meter;
mod shaper;

pub use gate::MAX_REMEMBERED;
pub use meter::{Meter, Policer};
pub use shaper::{Lost, Shaper};

#[cfg(test)]
mod tests;
