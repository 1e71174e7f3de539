//! Files of stamps: lines of `send_s,receive_s`, each by a separate clock.

use std::io::{self, BufRead, Write};

/// Longest line that is read, in bytes.
const MAX_LINE: usize = 4096;

/// The reference clock. Lines are in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reference {
    /// The sender's.
    #[default]
    Send,
    /// The receiver's.
    Receive,
}

/// A file of stamps that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// It could not be read.
    #[error("line {line}: {source}")]
    Io {
        /// Number of the line, from 1.
        line: u64,
        /// Reason of the failure.
        source: io::Error,
    },
    /// A line is too long.
    #[error("line {line} has more than {MAX_LINE} B; write two numbers a line, such as 12.000001,12.500300")]
    Long {
        /// Number of the line.
        line: u64,
    },
    /// A line has another number of fields.
    #[error("line {line} has {fields} fields; write two: send_s,receive_s")]
    Fields {
        /// Number of the line.
        line: u64,
        /// Actual number of fields.
        fields: usize,
    },
    /// A stamp that is not a time.
    #[error(
        "line {line}: {name} \"{text}\" is not a time in seconds, -9223372036 to 9223372036 with at most nine decimals; write 12.000001"
    )]
    Number {
        /// Number of the line.
        line: u64,
        /// Its column.
        name: &'static str,
        /// The actual text.
        text: String,
    },
    /// The reference clock goes back.
    #[error(
        "line {line}: {name} goes back from {} to {} s; sort the lines by it, or use the other clock for times (--reference {other})",
        shown(*.before), shown(*.at)
    )]
    Backwards {
        /// Number of the line.
        line: u64,
        /// The column.
        name: &'static str,
        /// The other clock.
        other: &'static str,
        /// The stamp before, in ns.
        before: i64,
        /// The stamp, in ns.
        at: i64,
    },
    /// There are no lines.
    #[error("no stamps; write a line for each packet: send_s,receive_s")]
    Empty,
}

fn shown(ns: i64) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Parses a decimal number of seconds as whole nanoseconds. Stamps have more digits than floating point.
fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || decimals.len() > 9 || !is_number(whole) || !is_number(decimals) {
        return None;
    }
    let whole = whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?;
    let decimals = format!("{decimals:0<9}").parse::<i64>().ok()?;
    let value = whole.checked_add(decimals)?;
    Some(if negative { -value } else { value })
}

/// Reads stamps and passes each pair, in ns, to `see`: sending time, and receiving time. Empty lines, lines that start
/// with `#` and the line of names at the start are skipped. Returns the number of pairs.
///
/// # Errors
/// The first [`StampError`].
pub fn read_stamps(
    mut reader: impl BufRead,
    reference: Reference,
    mut see: impl FnMut(i64, i64),
) -> Result<u64, StampError> {
    let mut text = String::new();
    let (mut line, mut count, mut last) = (0, 0, i64::MIN);
    loop {
        line += 1;
        text.clear();
        let mut limited = io::Read::take(&mut reader, MAX_LINE as u64 + 1);
        let read = limited.read_line(&mut text).map_err(|source| StampError::Io { line, source })?;
        if read > MAX_LINE {
            return Err(StampError::Long { line });
        }
        if read == 0 {
            return if count > 0 { Ok(count) } else { Err(StampError::Empty) };
        }
        let row = text.trim();
        if row.is_empty() || row.starts_with('#') || (count == 0 && row.replace(' ', "") == "send_s,receive_s") {
            continue;
        }
        let fields: Vec<&str> = row.split(',').map(str::trim).collect();
        let &[send, receive] = fields.as_slice() else {
            return Err(StampError::Fields { line, fields: fields.len() });
        };
        let number = |name, text: &str| {
            nanoseconds(text).ok_or_else(|| StampError::Number { line, name, text: text.chars().take(40).collect() })
        };
        let (send, receive) = (number("send_s", send)?, number("receive_s", receive)?);
        let (name, other, at) = match reference {
            Reference::Send => ("send_s", "receive", send),
            Reference::Receive => ("receive_s", "send", receive),
        };
        if at < last {
            return Err(StampError::Backwards { line, name, other, before: last, at });
        }
        last = at;
        count += 1;
        see(send, receive);
    }
}

/// Writes stamps as [`read_stamps`] reads them.
///
/// # Errors
/// Those of the writer.
pub fn write_stamps(mut writer: impl Write, stamps: impl Iterator<Item = (i64, i64)>) -> io::Result<()> {
    write_stamps_head(&mut writer)?;
    for (send, receive) in stamps {
        write_stamp(&mut writer, send, receive)?;
    }
    writer.flush()
}

/// Writes the line of names of a file of stamps.
///
/// # Errors
/// Those of the writer.
pub fn write_stamps_head(mut writer: impl Write) -> io::Result<()> {
    writeln!(writer, "send_s,receive_s")
}

/// Writes the line of a packet that was sent and received at these times, in ns.
///
/// # Errors
/// Those of the writer.
pub fn write_stamp(mut writer: impl Write, send: i64, receive: i64) -> io::Result<()> {
    writeln!(writer, "{},{}", shown(send), shown(receive))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, reference: Reference) -> Result<Vec<(i64, i64)>, String> {
        let mut seen = Vec::new();
        let result = read_stamps(text.as_bytes(), reference, |send, receive| seen.push((send, receive)));
        result.map(|_| seen).map_err(|error| error.to_string())
    }

    #[test]
    fn stamps_are_read_exactly_and_written_as_they_are_read() {
        let stamps = [(1_700_000_000_123_456_789, -1), (1_700_000_000_123_456_790, i64::MIN + 9), (i64::MAX, 0)];
        let mut text = Vec::new();
        write_stamps(&mut text, stamps.into_iter()).unwrap();
        assert_eq!(read(&String::from_utf8(text).unwrap(), Reference::Send).unwrap(), stamps);
        let text = "# a comment\n\nsend_s, receive_s\n 1 , 2.5 \r\n1,2";
        assert_eq!(
            read(text, Reference::Send).unwrap(),
            [(1_000_000_000, 2_500_000_000), (1_000_000_000, 2_000_000_000)]
        );
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_line_and_remedy() {
        for (text, expected) in [
            ("", "no stamps; write a line for each packet: send_s,receive_s"),
            ("send_s,receive_s\n", "no stamps"),
            (
                "1,2\n0.5,3\n",
                "line 2: send_s goes back from 1.000000000 to 0.500000000 s; sort the lines by it, or use the other clock for times (--reference receive)",
            ),
            ("1,NaN\n", "line 1: receive_s \"NaN\" is not a time in seconds"),
            ("inf,1\n", "line 1: send_s \"inf\" is not a time"),
            ("1,1.0000000001\n", "line 1: receive_s"),
            ("1,99999999999\n", "line 1: receive_s"),
            ("1\n", "line 1 has 1 fields; write two"),
            ("1,2,3\n", "line 1 has 3 fields"),
            ("1,2\nsend_s,receive_s\n", "line 2: send_s \"send_s\""),
        ] {
            let error = read(text, Reference::Send).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let error = read(&"1".repeat(5000), Reference::Send).unwrap_err();
        assert!(error.starts_with("line 1 has more than 4096 B"), "{error}");
        assert!(read("\u{ff}", Reference::Send).unwrap_err().starts_with("line 1"));
        assert!(read("1,2\n0.5,3\n", Reference::Receive).is_ok());
        assert!(read("1,2\n2,1\n", Reference::Receive).unwrap_err().contains("--reference send"));
    }
}
