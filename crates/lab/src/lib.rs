#![doc = include_str!("../README.md")]
//!
//! # Modules
//! * [`experiments`]: what the papers tried, one file for each paper, all in one table.
//! * [`expect`]: whether runs show what their scenario expects.
//! * [`claims`]: every claim of the papers, tried by a command.
//! * [`measure`]: how runs are measured, and how far a rate is from its ideal.
//! * [`report`]: what simulations found, as text; [`table`] lays its tables out, and those of others.
//! * [`human`]: quantities as people read them.
//! * [`figures`]: what was measured, drawn.
//! * [`page`]: the report of the claims.
//! * [`trace`]: every packet of a simulation in a file.
//! * [`mod@bench`]: what a packet costs under each scheduler on this machine.
#![forbid(unsafe_code)]

pub mod bench;
pub mod claims;
pub mod expect;
pub mod experiments;
pub mod figures;
pub use fairlink_config::human;
pub mod measure;
pub mod page;
pub mod rate_unit;
pub mod report;
pub mod table;
pub mod trace;
