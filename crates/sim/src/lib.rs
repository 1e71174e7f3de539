#![doc = include_str!("../README.md")]
//!
//! # Where to start
//! A [`Scenario`] is the input. [`simulate`] runs it under one scheduler, [`compare`] under several on the same
//! arrivals; [`compare_links`] runs several links that share pools. A [`Simulation`] runs step by step and takes
//! packets and changes from outside. A [`Change`] replaces a link's configuration while it runs. A [`Run`] has the
//! measurements. [`run_jobs`] makes many runs on several processors; [`statistics`] evaluates them together.
//!
//! The loop around the scheduler, [`fairlink_core::Driver`], is the one that the gateway runs. Here its port is a link that
//! always sends at exactly its rate, on a clock of whole nanoseconds that jumps from one event to the next.
//!
//! # Determinism
//! The same scenario and seed give the same run, byte for byte, on every machine: no wall clock, no hash maps, seeded random
//! numbers, integer sums. Floats appear only when a finished sum is divided for the report.
//!
//! # Errors and panics
//! Any fault of a scenario is a [`SimError`]. So is a scheduler that loses packets or stops: a user who tries a new one
//! should read a report, not a backtrace.
#![forbid(unsafe_code)]

mod batch;
mod change;
mod core_model;
mod cores;
mod engine;
mod ideals;
mod links;
mod measure;
mod metrics;
mod misplaced;
mod observe;
mod port;
mod prepared;
mod report;
mod routes;
mod running;
mod scenario;
mod series;
mod shares;
mod simulation;
pub mod statistics;
mod summary;

pub use batch::{Job, NoWarmup, Observers, Watch, pilot_window, run_jobs, warmup};
pub use change::Change;
pub use core_model::CoreModel;
pub use engine::{compare, compare_links, simulate};
pub use links::{LinkPool, Links};
pub use misplaced::{Misplaced, MisplacedIn};
pub use observe::{Fate, Observer, PacketSeen};
pub use report::{
    ChangeRun, ClassMetrics, ClosedRun, Distribution, HopRun, LeafWindow, Measured, Phase, Report, RouteRun, Run,
    RunDocument, Setting, Window, Windows,
};
pub use routes::{Hop, MAX_HOPS, Route};
pub use scenario::{MAX_PHASE_RATES, MAX_WINDOW_RATES, Options, Scenario, SimError};
pub use simulation::Simulation;
