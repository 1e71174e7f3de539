#![doc = include_str!("../README.md")]
//!
//! # Modules
//! * [`request`]: what every leaf asks for.
//! * [`maxmin`]: weighted max-min fair sharing among siblings, \[hls\] Algorithm 1.
//! * [`hmm`]: hierarchical max-min (HMM) fair sharing in a tree, \[hls\] Theorem 1 and Algorithm 2, with ceilings; exact.
//! * [`limits`]: fixed limits of a class: ceilings, upper limits, classes that do not borrow or lend.
//! * [`reach`]: what ceilings with a small explicit burst come to under `hls`.
//! * [`fast`]: the same in integers, for use while packets flow.
//! * [`pooled`]: the same for several links, classes of which share pools.
//! * [`ideal`]: what a scheduler gives in the long run by the rule that it states of itself.
//! * [`steady`](mod@steady): what it gives leaves that always have packets, by running it.
//! * [`htb_fluid`]: what HTB gives instead, in the long run; exact.
//! * [`weights`], [`bounds`]: how far HLS and HDRR may stray from the ideal, \[hls\] Theorems 3 to 6.
//! * [`as_printed`]: theorems as the texts print them, where another bound is what holds.
//! * [`curves`]: service curves and whether a link can guarantee them, \[hfsc\] Section 2.1.
//! * [`virtual_time`], [`inner_curves`]: how far virtual times of H-FSC may be apart, and which inner curves it cannot meet, \[hfsc\] Theorem 3 and Figure 4.
//! * [`pieces`], [`required`]: service curves of any number of pieces, and how much real-time service they need, \[hfsc\] equations (7) to (10); exact.
//! * [`latency`]: delay bounds of latency-rate servers and of service curves.
//! * [`promises`]: all bounds of a scheduler for a tree, found by what it says of itself.
//! * [`explain`]: why a class gets what it gets.
//! * [`strategy`]: what a class gains by lying or by rearranging guarantees below it.
//! * [`changes`]: what would get a class more, and what would not.
//! * [`fairness`], [`gap`]: how far a scheduler did stray, \[hls\] Definitions 1 and 2, measured.
//! * [`fluid`], [`worst_case`], [`deadlines`]: how far a link was behind fluid ideals, shares and service curves, measured.
//!
//! Rates are in bit/s. What is exact is a [`BigRational`]; [`to_f64`] and [`floor_bps`] turn it
//! into what is printed.
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
pub mod latency;
mod lenders;
pub mod limits;
pub mod maxmin;
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
mod variant;
pub mod virtual_time;
mod visits;
pub mod weights;
pub mod worst_case;

use num_rational::BigRational;
use num_traits::ToPrimitive;

/// The nearest float, for printing.
#[must_use]
pub fn to_f64(exact: &BigRational) -> f64 {
    exact.to_f64().unwrap_or(f64::NAN)
}

/// A rate in bit/s rounded down; `u64::MAX` where it does not fit, 0 where it is negative.
#[must_use]
pub fn floor_bps(exact: &BigRational) -> u64 {
    let floor = exact.floor().to_integer();
    floor.to_u64().unwrap_or(if floor.sign() == num_bigint::Sign::Minus { 0 } else { u64::MAX })
}
