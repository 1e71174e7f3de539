//! Frames as bytes: what is read out of them, what is written into them, and which class they belong to. Nothing here knows
//! an interface.

pub(crate) mod checksum;
pub(crate) mod classify;
pub(crate) mod ethernet;
pub(crate) mod frame;
pub(crate) mod labels;
pub(crate) mod parse;
