#![doc = include_str!("../README.md")]
//!
//! # Errors and panics
//! [`WorkloadError`] reports workloads that cannot be made or measured. There are no panics.
#![forbid(unsafe_code)]

pub mod calibrate;
#[cfg(target_os = "linux")]
pub mod cores;
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
