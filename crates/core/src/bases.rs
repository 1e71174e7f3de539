//! Common bases of schedulers: leaves with queues for flat ones, one discipline at every class for composed ones,
//! rate-proportional and self-clocked servers, and the borrowing tree of HTB and CBQ.

pub(crate) mod batches;
pub(crate) mod borrowing;
pub(crate) mod composed;
pub(crate) mod flows;
pub(crate) mod rate_proportional;
pub(crate) mod self_clocked;
