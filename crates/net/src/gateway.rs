//! The gateway: one link between two interfaces, shared by a scheduler on one data thread.
//!
//! [`Gateway::open`] checks everything that can be checked before a frame moves. [`Gateway::run`] moves frames on the
//! calling thread until a stop is requested. A [`Remote`] gives other threads statistics and control. `docs/gateway.md`
//! is the users' page.

mod accept_failures;
mod account;
mod breaks;
mod cable;
mod choice;
mod claim;
pub(crate) mod config;
pub mod control;
mod data_path;
pub(crate) mod early;
pub(crate) mod fail_open;
mod fleet;
mod links;
pub(crate) mod liveness;
mod log;
mod metrics;
mod needs;
mod open;
mod open_error;
mod outlet;
#[cfg(any(test, feature = "testing"))]
pub mod playing;
mod pools;
mod ports;
mod privileges;
mod queue_lengths;
mod reload;
mod remote;
mod remote_error;
mod run;
mod service;
mod splitter;
pub(crate) mod stats;
mod strays;
mod trace;
mod watchdog;
mod workers;

pub use accept_failures::AcceptFailures;
pub use cable::remove_cables;
pub use config::{BackendChoice, GatewayConfig, LongFrames, OffloadPolicy, Processor};
pub use fail_open::{FailOpen, FailOpenStats, close_wires};
pub use fleet::{Fleet, FleetError, LinkEnd, Planner};
pub use links::Links;
pub use liveness::{LivenessStats, Vitals};
pub use log::{LogEvent, Severity};
pub use metrics::{ClassFilter, ClassMoment, LinkMoment, Moment, Observer};
pub use open_error::{ClaimHolder, OpenError};
pub use pools::Pools;
pub use privileges::{Dropped, Privileges};
pub use reload::{
    ClassChange, Committed, Fate, LinkChange, ReloadError, ReloadRequest, Reloaded, ReloadedLink, ReloadedLinks,
    Wanted, has_room_to_read,
};
pub use remote::Remote;
pub use remote_error::RemoteError;
pub use run::{Gateway, RunError};
pub use service::Service;
pub use stats::{
    GatewayExtension, GatewayState, GatewayStats, InterfaceStats, MemoryBound, ReverseStats, StatsContent, TimeShares,
};
pub use watchdog::Watchdog;
