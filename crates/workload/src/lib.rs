#![doc = include_str!("../README.md")]
//!
//! # Errors and panics
//! [`WorkloadError`] says what could not be made or measured. Nothing panics.
#![forbid(unsafe_code)]

pub mod calibrate;
mod error;
mod random;
mod rings;
mod shape;
mod subject;
mod workload;

pub use error::WorkloadError;
pub use shape::{BATCH, Calls, Pattern, Shape};
pub use subject::Subject;
pub use workload::Workload;
