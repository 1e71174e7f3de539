//! Packet schedulers that share a link among a tree of traffic classes, so that the outcome can be predicted.
//!
//! Start with [`scheduler`], which says what a scheduler is, and [`hierarchy`], which says what it is built from;
//! [`registry`] names them all; [`driver`] is the loop that runs one at the pace of a link.
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

pub mod bits;
pub mod bucket;
pub mod cbq;
pub mod codel;
pub mod corr;
pub mod curve;
pub mod discipline;
pub mod driver;
pub mod drr;
pub mod drr_plus;
pub mod drr_plus_plus;
pub mod drr_plus_plus_mw00;
pub mod fifo;
pub mod flows;
pub mod fq_sds;
pub mod hdrr;
pub mod heap;
pub mod hfsc;
pub mod hierarchy;
pub mod hls;
pub mod hpfq;
pub mod hrr;
pub mod htb;
pub mod lending;
pub mod metered;
pub mod overhead;
pub mod packet;
pub mod pool;
pub mod queue;
pub mod rcsp;
pub mod reconfigure;
pub mod registry;
pub mod rps;
pub mod sced;
pub mod scfq;
pub mod scheduler;
pub mod sfq;
pub mod tags;
pub mod units;
pub mod virtual_clock;
pub mod vtime;
pub mod wf2q_plus;
pub mod wfq;
pub mod wrr;

#[cfg(test)]
mod testlink;
