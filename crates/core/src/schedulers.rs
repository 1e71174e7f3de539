//! The schedulers, a file or folder each, by family.
//!
//! | family | schedulers |
//! | --- | --- |
//! | a whole tree of classes | [`hls`], [`hvt`], [`htb`], [`cbq`] |
//! | service curves | [`hfsc`] for a tree, [`sced`] |
//! | fair queueing | [`hpfq`] and [`pifo_tree`] for a tree, [`wfq`], [`wf2q_plus`], [`qfq`], [`scfq`], [`sfq`], [`virtual_clock`] |
//! | round robins | [`hdrr`] for a tree, [`drr`], [`drr_plus`], [`drr_plus_plus`], [`drr_plus_plus_mw00`], [`wrr`], [`corr`], [`hrr`] |
//! | what is left goes to whose state needs it most | [`fq_sds`], [`lqf`] |
//! | others | [`rcsp`], [`fifo`] |
//!
//! A scheduler that is not for a tree is *flat*: it shares the link among the leaves.
//!
//! Each page describes a scheduler, with its paper's symbols, cost, invariants, bounds and departures. These symbols
//! are the same on all pages:
//!
//! | symbol | meaning |
//! | --- | --- |
//! | r, C | rate of the link |
//! | L, L_max | largest packet of the link |
//! | L_i | largest packet of class i |
//! | rho_i | rate of class i |
//! | W_i(s, t] | bytes of class i that are sent from s to t |
//!
//! Names of types that the manual does not show are helpers inside the crate, in the rooms `parts`, `queue` and `bases` or beside the
//! scheduler. `DIFFERENCE` marks a departure from the paper.

mod fair_queueing;
pub mod fifo;
mod link_sharing;
pub mod rcsp;
mod round_robin;
mod service_curve;
mod state_dependent;

pub use fair_queueing::{hpfq, pifo_tree, qfq, scfq, sfq, virtual_clock, wf2q_plus, wfq};
pub use link_sharing::{cbq, hls, htb, hvt};
pub use round_robin::{corr, drr, drr_plus, drr_plus_plus, drr_plus_plus_mw00, hdrr, hrr, wrr};
pub use service_curve::{hfsc, sced};
pub use state_dependent::{fq_sds, lqf};
