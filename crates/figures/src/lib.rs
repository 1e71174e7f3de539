#![doc = include_str!("../README.md")]
//!
//! # Modules
//! * [`experiments`]: the papers' experiments, one file for each paper, all in one table.
//! * [`measure`]: measurement of runs, and deviation of rates from their ideal.
//! * [`report`]: results of simulations, as text; [`table`] lays out tables, [`rate_unit`] chooses the unit of a column.
//! * [`trace`]: every packet of a simulation in a file.
//! * [`figure`] and [`axis`]: the pieces that every figure is made of. The other modules make figures of runs; [`files`]
//!   writes them.
#![forbid(unsafe_code)]

pub mod axis;
pub mod beside;
pub mod clocks;
pub mod delays;
pub mod experiments;
pub mod figure;
pub mod files;
pub use fairlink_config::human;
pub mod measure;
pub mod misplaced;
pub mod over_time;
pub mod rate_unit;
pub mod received;
pub mod report;
mod svg;
pub mod sweep;
pub mod table;
pub mod trace;
pub mod tree;

/// Most series drawn in one plot. The CSV has all.
pub const MAX_DRAWN: usize = 12;

/// Formats a field of a CSV file (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Formats a field of an optional number.
fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Note of a figure on series without room.
fn left_out(count: usize) -> Option<String> {
    (count > 0).then(|| format!("{count} more in the CSV"))
}
