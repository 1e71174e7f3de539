#![doc = include_str!("../README.md")]
//!
//! # Modules
//! * [`request`]: the demand of the leaves.
//! * [`maxmin`]: weighted max-min fair sharing among siblings, \[hls\] Algorithm 1.
//! * [`hmm`]: hierarchical max-min (HMM) fair sharing in a tree, \[hls\] Theorem 1 and Algorithm 2, with ceilings; exact.
//! * [`limits`]: fixed limits of a class: ceilings, upper limits, classes that do not borrow or lend.
//! * [`turns`]: queues that overflow between two turns of their leaf.
//! * [`reach`]: reachable rates of ceilings with a small explicit burst under `hls`.
//! * [`fast`]: the same in integers, for use while packets flow.
//! * [`pooled`]: the same for several links, classes of which share pools.
//! * [`ideal`]: long-run rates of a scheduler by its own sharing rule.
//! * [`steady`](mod@steady): its rates for leaves that always have packets, by running it.
//! * [`htb_fluid`]: long-run rates of HTB; exact.
//! * [`kernel_htb`]: the Linux kernel's HTB, packet by packet.
//! * [`cores`]: bounds of one tree that several cores share.
//! * [`weights`], [`bounds`]: deviation of HLS and HDRR from the ideal, \[hls\] Theorems 3 to 6.
//! * [`as_printed`]: theorems as printed in the texts, where a different bound holds.
//! * [`curves`]: service curves and their admission on a link, \[hfsc\] Section 2.1.
//! * [`virtual_time`], [`inner_curves`]: differences of virtual times of H-FSC, and inner curves that it cannot meet,
//!   \[hfsc\] Theorem 3 and Figure 4.
//! * [`pieces`], [`required`]: service curves of any number of pieces, and the real-time service that they need,
//!   \[hfsc\] equations (7) to (10); exact.
//! * [`latency`]: delay bounds of latency-rate servers and of service curves.
//! * [`network`]: delay bounds over several links, by network calculus.
//! * [`promises`]: all bounds of a scheduler for a tree, from its declared promises.
//! * [`explain`]: reasons for a class's rate.
//! * [`strategy`]: gains of a class from misreporting or from rearranging guarantees below it.
//! * [`changes`]: changes with and without a gain for a class.
//! * [`fairness`], [`gap`]: measured deviation of a scheduler, \[hls\] Definitions 1 and 2.
//! * [`fluid`], [`worst_case`], [`deadlines`]: measured lag of a link behind fluid ideals, shares and service curves.
//!
//! Rates are in bit/s. Exact values are [`BigRational`]; [`to_f64`] and [`floor_bps`] convert them for output.
//!
//! # Errors and panics
//! Mistakes of a user are a `Result`. A demand or weights made for another tree are a bug of the calling program and
//! cause a panic.
//!
//! Keys in brackets, such as \[hls\], are explained in `docs/papers.md`.
#![forbid(unsafe_code)]

mod allotted;
pub mod as_printed;
pub mod bounds;
pub mod bursts;
pub mod changes;
pub mod cores;
pub mod curves;
pub mod deadlines;
pub mod explain;
pub mod fairness;
pub mod fast;
mod floats;
pub mod fluid;
pub mod gap;
pub mod hmm;
pub mod htb_fluid;
pub mod ideal;
pub mod inner_curves;
pub mod kernel_htb;
pub mod latency;
mod lenders;
pub mod limits;
pub mod maxmin;
pub mod network;
pub mod pieces;
mod play;
mod played;
pub mod pooled;
pub mod promises;
pub mod reach;
pub mod request;
pub mod required;
pub mod steady;
pub mod strategy;
mod terms;
pub mod turns;
mod variant;
pub mod virtual_time;
mod visits;
pub mod weights;
pub mod worst_case;

use num_rational::BigRational;
use num_traits::ToPrimitive;

/// Converts to the nearest float, for printing.
#[must_use]
pub fn to_f64(exact: &BigRational) -> f64 {
    exact.to_f64().unwrap_or(f64::NAN)
}

/// Converts a rate to bit/s, rounded down; `u64::MAX` if it does not fit, 0 if it is negative.
#[must_use]
pub fn floor_bps(exact: &BigRational) -> u64 {
    let floor = exact.floor().to_integer();
    floor.to_u64().unwrap_or(if floor.sign() == num_bigint::Sign::Minus { 0 } else { u64::MAX })
}
