//! A deterministic simulator: sources, a scheduler and a link on a virtual clock.
//!
//! A [`Scenario`] says what is simulated, [`simulate`] runs it under one scheduler and [`compare`] under several, on the same
//! arrivals, [`compare_shared`] several links that share pools; a [`Run`] says what was measured. The loop around the scheduler is the one that the gateway runs,
//! [`fairlink_core::Driver`]; here its port is a link that always sends at exactly its rate, on a clock of whole
//! nanoseconds that jumps from one event to the next.
//!
//! # Determinism
//! The same scenario and seed give the same run, byte for byte, on every machine: no wall clock, no hash maps, seeded random
//! numbers, integer sums. Floats appear only when a finished sum is divided for the report.
//!
//! # Errors and panics
//! What a scenario can get wrong is a [`SimError`], and so is a scheduler that loses packets or stops: whoever tries one
//! should read a report, not a backtrace.
#![forbid(unsafe_code)]

mod engine;
mod measure;
pub mod observe;
mod port;
pub mod report;
pub mod scenario;
pub mod shared;
mod summary;

pub use engine::{compare, compare_shared, simulate};
pub use observe::Observer;
pub use report::{ClassRate, ClassRun, Delay, InnerRun, LinkRun, Phase, Report, Run, Window, Windows};
pub use scenario::{Options, Scenario, SimError};
pub use shared::{Shared, SharedPool};
