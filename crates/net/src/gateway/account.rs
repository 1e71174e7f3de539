//! Statistics of a gateway, collected without holding up the data thread.
//!
//! ```text
//! data thread: Copying -> Snapshot -> asking thread: Observation -> GatewayStats, with an Interval between two of them
//! ```
//!
//! The data thread copies raw counters of at most [`COPIED`] classes between two turns, until all are copied. It never
//! waits for the asking thread, and allocates nothing: the memory comes with the request. Other threads compute names,
//! sums, quantiles, ideals and bounds.
//!
//! **Consistency.** A class is copied in one piece between two turns. So received = sent + dropped + queued holds for
//! each class of a snapshot, and for sums of classes. Different classes are copied at times up to some milliseconds
//! apart; each has its own time. Delays are counted in memory that any thread can read ([`delays`]), and may be a few
//! packets ahead of the snapshot that they are shown with.
//!
//! **Generations.** Classes, names and the scheduler may change between two snapshots, which then have different
//! [`Generation`]s; the later one has the higher number. A snapshot in progress is restarted.

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
pub(crate) use snapshot::{COPIED, Copying, GatewayCounts, Snapshot, WorkerTimes};

#[cfg(any(test, feature = "testing"))]
pub(crate) mod played;
#[cfg(test)]
pub(crate) mod tests;
