#![doc = include_str!("../README.md")]
//!
//! # Modules
//! * [`experiments`]: what the papers tried, one file for each paper, all in one table.
//! * [`measure`]: how runs are measured, and how far a rate is from its ideal.
//! * [`report`]: what simulations found, as text; [`table`] lays its tables out, and those of others.
//! * [`figures`]: what was measured, drawn.
//! * [`trace`]: every packet of a simulation in a file.
//! * [`mod@bench`]: what a packet costs under each scheduler on this machine.

pub mod bench;
pub mod experiments;
pub mod figures;
pub mod measure;
pub mod rate_unit;
pub mod report;
pub mod table;
pub mod trace;
