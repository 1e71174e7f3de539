//! Text of TOML, as far as importing writes it.

use std::fmt::Write as _;

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
pub(super) fn comment(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("# {text}\n")
}

/// `key = "value"` in a line.
pub(super) fn line(text: &mut String, key: &str, value: &str) {
    writeln!(text, "{key} = {}", quoted(value)).expect("writing to a string does not fail");
}
