//! The claims of this crate, on random trees; one program, so that it is linked once.
#![forbid(unsafe_code)]

mod bounds;
mod fairness;
mod hdrr;
mod hfsc;
mod hmm;
mod htb;
mod pooled;
mod random;
