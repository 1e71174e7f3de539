//! Figures of what was measured, for people and for programs; one file for each kind.

pub mod rates;
