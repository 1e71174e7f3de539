//! Classes are guaranteed service curves: delay apart from rate.

pub mod hfsc;
pub mod sced;
