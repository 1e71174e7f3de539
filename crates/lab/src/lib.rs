#![doc = include_str!("../README.md")]
//!
//! # Modules
//! * [`experiments`]: the papers' experiments, one file for each paper, all in one table.
//! * [`claims`]: every claim of the papers, tried by a command.
//! * [`measure`]: measurement of runs, and deviation of rates from their ideal.
//! * [`report`]: results of simulations, as text; [`table`] lays out tables.
//! * [`human`]: quantities as people read them.
//! * [`figures`]: plots of measurements.
//! * [`page`]: the report of the claims.
//! * [`trace`]: every packet of a simulation in a file.
//! * [`mod@bench`]: cost of a packet under each scheduler on this machine.
#![forbid(unsafe_code)]

pub mod bench;
pub mod claims;
pub mod experiments;
pub mod figures;
pub use fairlink_config::human;
pub mod measure;
pub mod page;
pub mod rate_unit;
pub mod report;
pub mod table;
pub mod trace;
