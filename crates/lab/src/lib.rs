//! The laboratory: experiments of the papers, plots and tables of what was measured, and benchmarks.

pub mod bench;
pub mod hls;
pub mod ideal;
pub mod plot;
pub mod table;
