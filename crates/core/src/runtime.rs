//! Running schedulers: the registry, the loop that drives one, counters around one, changes while packets are queued,
//! pools that several links share, numbers for hosts that share a leaf, one tree of classes on several cores, and rings
//! from and to a core that schedules alone.

mod build;
pub(crate) mod driver;
pub(crate) mod hosts;
#[cfg(feature = "hub")]
pub mod hub;
#[cfg(all(feature = "hub", feature = "shared"))]
pub mod hubs;
pub(crate) mod metered;
pub mod pool;
#[cfg(all(test, feature = "shared", any(feature = "hub", not(any(loom, shuttle)))))]
mod random;
pub(crate) mod reconfigure;
pub mod registry;
#[cfg(feature = "shared")]
pub mod shared;
pub(crate) mod split;
pub(crate) mod transmit_queue;
