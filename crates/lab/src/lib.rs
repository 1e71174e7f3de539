#![doc = include_str!("../README.md")]
//!
//! # Modules
//! * [`claims`]: every claim of the papers, tried by a command.
//! * [`files`]: figures as files.
//! * [`page`]: the report of the claims.
//! * [`mod@bench`]: cost of a packet under each scheduler on this machine.
//! * `pdf` (feature `pdf`): drawings as PDF, with their letters.
#![forbid(unsafe_code)]

pub mod bench;
pub mod claims;
pub mod files;
pub mod page;
#[cfg(feature = "pdf")]
pub mod pdf;
