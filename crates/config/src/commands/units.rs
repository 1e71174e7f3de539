//! Quantities in tc's syntax, which differs from that of link files: `kbps` are kilobytes per second, a bare rate is in
//! bit/s, a bare size in bytes with `k` = 1024, a bare time in microseconds. Units are case-insensitive. Fractions of a
//! bit, byte or nanosecond are truncated, as in tc.

/// In bit/s.
const RATES: [(&str, u64); 22] = [
    ("bit", 1),
    ("kibit", 1 << 10),
    ("kbit", 1_000),
    ("mibit", 1 << 20),
    ("mbit", 1_000_000),
    ("gibit", 1 << 30),
    ("gbit", 1_000_000_000),
    ("tibit", 1 << 40),
    ("tbit", 1_000_000_000_000),
    ("bps", 8),
    ("kibps", 8 << 10),
    ("kbps", 8_000),
    ("mibps", 8 << 20),
    ("mbps", 8_000_000),
    ("gibps", 8 << 30),
    ("gbps", 8_000_000_000),
    ("tibps", 8 << 40),
    ("tbps", 8_000_000_000_000),
    // tc prints capitals; these are what people write.
    ("kb/s", 8_000),
    ("mb/s", 8_000_000),
    ("kbit/s", 1_000),
    ("mbit/s", 1_000_000),
];
/// In bytes.
const SIZES: [(&str, u64); 10] = [
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("kbit", (1 << 10) / 8),
    ("mbit", (1 << 20) / 8),
    ("gbit", (1 << 30) / 8),
];
/// In nanoseconds.
const TIMES: [(&str, u64); 10] = [
    ("s", 1_000_000_000),
    ("sec", 1_000_000_000),
    ("secs", 1_000_000_000),
    ("ms", 1_000_000),
    ("msec", 1_000_000),
    ("msecs", 1_000_000),
    ("us", 1_000),
    ("usec", 1_000),
    ("usecs", 1_000),
    ("ns", 1),
];

/// A rate in bit/s.
pub(super) fn rate(text: &str) -> Option<u64> {
    quantity(text, &RATES, 1)
}

/// Parses a size in bytes; the part after a slash (cell size) is ignored.
pub(super) fn size(text: &str) -> Option<u64> {
    quantity(text.split('/').next()?, &SIZES, 1)
}

/// A time in ns.
pub(super) fn time(text: &str) -> Option<u64> {
    quantity(text, &TIMES, 1_000)
}

fn quantity(text: &str, units: &[(&str, u64)], bare: u64) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "" => bare,
        unit => units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && decimals.is_empty() || decimals.contains('.') || whole.len() + decimals.len() > 18 {
        return None;
    }
    let digits: u128 = format!("0{whole}{decimals}").parse().ok()?;
    u64::try_from(digits * u128::from(factor) / 10u128.pow(decimals.len() as u32)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_what_tc_takes_them_for() {
        for (text, bps) in [
            ("100kbps", 800_000),
            ("800000", 800_000),
            ("10Mbit", 10_000_000),
            ("1.5mbit", 1_500_000),
            ("1kibit", 1024),
            ("12.5KBps", 100_000),
            ("3bps", 24),
        ] {
            assert_eq!(rate(text), Some(bps), "{text}");
        }
        for (text, bytes) in
            [("2k", 2048), ("1600b", 1600), ("15k/8", 15_360), ("1.5kb", 1536), ("8kbit", 1024), ("7", 7)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for (text, ns) in [("5ms", 5_000_000), ("100", 100_000), ("1.5s", 1_500_000_000), ("3usecs", 3_000)] {
            assert_eq!(time(text), Some(ns), "{text}");
        }
        for wrong in ["", "k", "10zbit", "-5", "1.2.3", ".", "1e6", "10 mbit", "99999999999999999999"] {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
        assert_eq!(rate("10%"), None);
    }
}
