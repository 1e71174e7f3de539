//! Text of TOML, as far as importing writes it.

use std::fmt::Write as _;

use crate::units::{show_bps, show_size};

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
pub(crate) fn comment(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("# {text}\n")
}

/// `key = "value"` in a line.
pub(crate) fn line(text: &mut String, key: &str, value: &str) {
    writeln!(text, "{key} = {}", quoted(value)).expect("writing to a string does not fail");
}

/// A rate as a value of a link file.
pub(crate) fn rate_key(bps: u64) -> String {
    show_bps(bps).replace(' ', "").replace("/s", "")
}

/// A size as a value of a link file.
pub(crate) fn size_key(bytes: u64) -> String {
    if bytes.is_multiple_of(1000) { show_size(bytes).replace(' ', "") } else { format!("{bytes}B") }
}
