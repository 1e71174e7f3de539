//! Figures of measurements, as SVG and CSV.
//!
//! [`figure`] and [`axis`] are the pieces that every figure is made of. The other files make figures of runs. Feature
//! `files`, which is on by default, writes them, also as PDF.

pub mod axis;
pub mod beside;
pub mod clocks;
pub mod delays;
pub mod figure;
#[cfg(feature = "files")]
pub mod files;
pub mod misplaced;
pub mod over_time;
#[cfg(feature = "files")]
pub mod pdf;
pub mod received;
mod svg;
pub mod sweep;
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
