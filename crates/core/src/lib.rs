//! Packet schedulers that share a link among a tree of traffic classes, so that the outcome can be predicted.
//!
//! # What this crate does not do
//! It reads no clock, does no I/O, draws no random numbers, uses no floating point and no `unsafe`, and sees no packet
//! contents. Who drives it owns time and packets.
//!
//! # Errors and panics
//! What a caller can get wrong is a `Result`; what a packet can be is handled; a panic is a bug of ours.
//!
//! Keys in brackets, such as \[hls\], are explained in `docs/papers.md`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bases;
mod contract;
mod parts;
mod queue;
mod runtime;
pub mod schedulers;
#[cfg(test)]
mod test_link;

pub use contract::*;
pub use runtime::driver::{Driver, Next, Pacer, Port, Wake};
pub use runtime::metered::{Counters, Metered, MeteredChange, MeteredRetired};
pub use runtime::pool::{Member, Pool, PoolError};
pub use runtime::reconfigure::{Change, Prepared, ReconfigureError, Retired, prepare};
pub use runtime::{pool, registry};
