//! Running schedulers: the registry, the loop that drives one, counters around one, changes while packets are queued,
//! pools that several links share, and numbers for hosts that share a leaf.

mod build;
pub(crate) mod driver;
pub(crate) mod hosts;
pub(crate) mod metered;
pub mod pool;
pub(crate) mod reconfigure;
pub mod registry;
pub(crate) mod transmit_queue;
