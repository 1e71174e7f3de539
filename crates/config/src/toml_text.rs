//! Text of TOML, as far as we write it.

use std::fmt::Write as _;

#[cfg(feature = "tools")]
use crate::units::rate_key;

/// The queue of leaves for which the tool has none of its own: connections do not wait for each other.
#[cfg(feature = "tools")]
pub(crate) const DEFAULT_LEAF: &str = "fq_codel";

/// A string in quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            c if c.is_control() => {
                write!(quoted, "\\u{:04X}", u32::from(c)).expect("writing to a string does not fail")
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// One line of a comment.
#[cfg(feature = "tools")]
pub(crate) fn comment(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("# {text}\n")
}

/// `key = "value"` in a line.
#[cfg(feature = "tools")]
pub(crate) fn line(text: &mut String, key: &str, value: &str) {
    writeln!(text, "{key} = {}", quoted(value)).expect("writing to a string does not fail");
}

/// A service curve: `first` is a first slope in bit/s and how long it lasts, `rate` the slope from then on in bit/s.
#[cfg(feature = "tools")]
pub(crate) fn curve_key(first: Option<(u64, String)>, rate: u64) -> String {
    let shown = |bps: u64| quoted(&rate_key(bps));
    match first {
        Some((m1, time)) => format!("{{ m1 = {}, d = {}, m2 = {} }}", shown(m1), quoted(&time), shown(rate)),
        None => format!("{{ rate = {} }}", shown(rate)),
    }
}
