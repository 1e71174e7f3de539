//! The schedulers, one file or folder each, by family. Each page says what the scheduler does, with its paper's symbols, cost,
//! invariants, bounds and departures.

mod fair_queueing;
pub mod fifo;
mod link_sharing;
pub mod rcsp;
mod round_robin;
mod service_curve;
mod state_dependent;

pub use fair_queueing::{hpfq, qfq, scfq, sfq, virtual_clock, wf2q_plus, wfq};
pub use link_sharing::{cbq, hls, htb};
pub use round_robin::{corr, drr, drr_plus, drr_plus_plus, drr_plus_plus_mw00, hdrr, hrr, wrr};
pub use service_curve::{hfsc, sced};
pub use state_dependent::fq_sds;
