//! Quantities as people read them: four significant digits and a unit. JSON has the figures in full. [`units`](crate::units) has exact ones.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// A rate in bit/s.
#[must_use]
pub fn rate(bps: f64) -> String {
    scaled(bps, &[(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")])
}

/// Formats a time in seconds; a dash if it is unknown.
#[must_use]
pub fn known_time(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), time)
}

/// A time in seconds.
#[must_use]
pub fn time(seconds: f64) -> String {
    scaled(seconds, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])
}

/// A size in bytes, of which there may be fractions.
#[must_use]
pub fn size(bytes: f64) -> String {
    scaled(bytes, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])
}

/// A size as papers write it: `1522.5 B`, with one digit after the point where four are before it.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    match bytes.abs() {
        ..1e3 => format!("{} B", digits(bytes)),
        1e3..1e5 => format!("{} B", format!("{bytes:.1}").trim_end_matches(".0")),
        _ => size(bytes),
    }
}

/// A relative error, of which a few parts in a thousand million count.
#[must_use]
pub fn tiny(error: f64) -> String {
    if error == 0.0 { "none".to_owned() } else { format!("{error:+.1e}") }
}

/// Rounds up to four significant digits, so that a printed bound holds. A value within a part in 10^9 of such a number
/// is not rounded.
#[must_use]
pub fn up(bound: f64) -> f64 {
    if !bound.is_normal() {
        return bound;
    }
    let unit = 10f64.powi(bound.abs().log10().floor() as i32 - 3);
    (bound / unit - 1e-6).ceil() * unit
}

/// Formats a count with its noun: `1 level`, `2 levels`.
#[must_use]
pub fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// A share of something.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    // A value that rounds to 1000 of one unit is printed as 1 of the next.
    let fits = |&&(size, _): &&(f64, &str)| value.abs() >= size * 0.999_95;
    let &(size, unit) = units.iter().find(fits).unwrap_or(&units[units.len() - 1]);
    format!("{} {unit}", digits(value / size))
}

/// Formats four significant digits, without trailing zeros; whole numbers in full. Infinity is `infinity`.
#[must_use]
pub fn digits(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "infinity" } else { "-infinity" }.to_owned();
    }
    let before_the_point = if value.abs() < 1.0 { 1 } else { value.abs().log10().floor() as usize + 1 };
    let text = format!("{value:.*}", 4usize.saturating_sub(before_the_point));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_rounded_up_and_never_down() {
        assert_eq!(
            [405.6e-6, 405.61e-6, 1234.5, 0.0, 9.9999].map(|bound| time(up(bound))),
            ["405.6 us", "405.7 us", "1235 s", "0 ns", "10 s"]
        );
    }

    #[test]
    fn quantities_have_four_significant_digits_and_the_largest_unit_that_fits() {
        let rates = [0.0, 1.0, 999.0, 999.99, 1e6, 333_333_333.3, 1e9, 2.5e12, 1e15].map(rate);
        let read =
            ["0 bit/s", "1 bit/s", "999 bit/s", "1 kbit/s", "1 Mbit/s", "333.3 Mbit/s", "1 Gbit/s", "2.5 Tbit/s"];
        assert_eq!(rates[..8], read);
        assert_eq!(rates[8], "1000 Tbit/s");
        assert_eq!([3600.0, 0.000_145_6, 0.0, 1e-9].map(time), ["3600 s", "145.6 us", "0 ns", "1 ns"]);
        assert_eq!([103.5, 1_522.5, 12.0].map(size), ["103.5 B", "1.522 kB", "12 B"]);
        assert_eq!(
            [103.5, 1_522.5, 3_375.0, 2_214.285_714_285_714, 123_456.0].map(bytes),
            ["103.5 B", "1522.5 B", "3375 B", "2214.3 B", "123.5 kB"]
        );
        assert_eq!([0.0, -2.5e-9].map(tiny), ["none", "-2.5e-9"]);
        assert_eq!([1.0, 0.333_333, 0.0, 0.000_05].map(percent), ["100 %", "33.33 %", "0 %", "0.005 %"]);
    }
}
