//! What the gateway tells about itself, and how it tells it without holding the data thread up.
//!
//! ```text
//! data thread: Copying -> Snapshot -> whoever asked: Observation -> GatewayStats, with an Interval between two of them
//! ```
//!
//! The data thread copies raw counters of a few classes between two turns, [`COPIED`] at most, until all are copied. It never waits for
//! whoever asked, and allocates nothing: the memory comes with the question. Names, sums, quantiles, ideals and bounds are other threads'
//! work.
//!
//! **What is consistent.** A class is copied in one piece between two turns, so that received = sent + dropped + queued holds for each class
//! of a snapshot, and for the sums of classes. Different classes are copied at moments up to some milliseconds apart; each says when.
//! Delays are counted where any thread can read them ([`delays`]), and may be a few packets ahead of the snapshot that they are
//! shown with.
//!
//! **Generations.** Classes, names and the scheduler may change between two snapshots, which then have another [`Generation`] with a higher
//! generation. A snapshot that is under way is begun anew.

mod delays;
mod document;
mod generation;
mod interval;
mod observation;
mod snapshot;

pub(crate) use delays::{DelayCounts, DelayTally};
pub(crate) use generation::{DelayTable, Generation, MAX_HISTOGRAMS};
#[cfg(test)]
pub(crate) use generation::{PoolId, Pooled};
pub(crate) use interval::{ClassInterval, Interval, LimitHistory};
pub(crate) use observation::{Observation, Totals};
pub(crate) use snapshot::{COPIED, Copying, GatewayCounts, Snapshot};

#[cfg(test)]
pub(crate) mod played;
#[cfg(test)]
pub(crate) mod tests;
