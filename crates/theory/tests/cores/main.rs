//! One class tree that several workers share (`docs/cores.md`), under a virtual clock, beside the fluid ideal.
#![forbid(unsafe_code)]

mod intervals;
mod scenarios;
