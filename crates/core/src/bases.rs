//! What several schedulers stand on: leaves with queues for flat ones, one discipline at every class for composed ones,
//! rate-proportional servers, and the tree in which the classes of HTB and CBQ borrow.

pub(crate) mod batches;
pub(crate) mod borrowing;
pub(crate) mod composed;
pub(crate) mod flows;
pub(crate) mod rate_proportional;
