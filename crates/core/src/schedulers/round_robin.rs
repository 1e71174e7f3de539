//! Classes take turns: by packets, by bytes, by frames.

pub mod corr;
pub mod drr;
pub mod drr_plus;
pub mod drr_plus_plus;
pub mod drr_plus_plus_mw00;
pub mod hdrr;
pub mod hrr;
pub mod wrr;

mod visits;

#[cfg(test)]
mod tests;
