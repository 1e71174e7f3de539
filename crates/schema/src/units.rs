//! Rates, sizes and times as users write them, read exactly: without floating point. Only shares of the link are
//! rounded.
//!
//! A number without a unit is refused, and so are ambiguous units (`kbps`, `KB`). The `parse_*` functions read the
//! output of the `show_*` functions back as the same value.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use fairlink_core::{Nanos, Rate};
use thiserror::Error;

/// The dimension of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Bits per second.
    Rate,
    /// Bytes.
    Size,
    /// Packets or bytes.
    Queue,
    /// Seconds.
    Time,
}

impl Quantity {
    fn units(self) -> &'static [(&'static str, Factor)] {
        match self {
            Self::Rate => &RATES,
            Self::Size | Self::Queue => &SIZES,
            Self::Time => &TIMES,
        }
    }

    fn unit_list(self) -> String {
        let mut list: Vec<&str> = self.units().iter().map(|&(name, _)| name).collect();
        match self {
            Self::Rate => list.push("% (of the link)"),
            Self::Queue => list.push("p (packets)"),
            Self::Size | Self::Time => {}
        }
        list.join(", ")
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "rate",
            Self::Size => "size",
            Self::Queue => "queue length",
            Self::Time => "time",
        })
    }
}

/// A unit as a power of ten or of two of the base unit.
#[derive(Clone, Copy, Debug)]
enum Factor {
    Ten(u32),
    Two(u32),
}

const RATES: [(&str, Factor); 8] = [
    ("bit", Factor::Ten(0)),
    ("kbit", Factor::Ten(3)),
    ("mbit", Factor::Ten(6)),
    ("gbit", Factor::Ten(9)),
    ("tbit", Factor::Ten(12)),
    ("kibit", Factor::Two(10)),
    ("mibit", Factor::Two(20)),
    ("gibit", Factor::Two(30)),
];
const SIZES: [(&str, Factor); 7] = [
    ("B", Factor::Ten(0)),
    ("kB", Factor::Ten(3)),
    ("MB", Factor::Ten(6)),
    ("GB", Factor::Ten(9)),
    ("KiB", Factor::Two(10)),
    ("MiB", Factor::Two(20)),
    ("GiB", Factor::Two(30)),
];
const TIMES: [(&str, Factor); 4] =
    [("ns", Factor::Ten(0)), ("us", Factor::Ten(3)), ("ms", Factor::Ten(6)), ("s", Factor::Ten(9))];

/// The reason why a quantity was refused. Every message repeats the text and lists the accepted forms.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnitError {
    /// An empty text.
    #[error("the {quantity} is empty")]
    Empty {
        /// The expected quantity.
        quantity: Quantity,
    },
    /// A number alone.
    #[error("the {quantity} {text} has no unit")]
    MissingUnit {
        /// The expected quantity.
        quantity: Quantity,
        /// The text as written.
        text: String,
    },
    /// A unit that is not one of this quantity's.
    #[error("\"{unit}\" is no unit of a {quantity}")]
    UnknownUnit {
        /// The expected quantity.
        quantity: Quantity,
        /// The unit as written.
        unit: String,
    },
    /// A rate in `bps`, `kbps`, ...
    #[error("\"{unit}\" is bits per second to most people and bytes per second in tc")]
    BitsOrBytes {
        /// The unit as written.
        unit: String,
        /// Spelling for bits.
        bits: String,
        /// Spelling for bytes.
        bytes: String,
    },
    /// A size in `KB`.
    #[error("\"{unit}\" is 1000 bytes to some and 1024 bytes to others")]
    ThousandOr1024 {
        /// The unit as written.
        unit: String,
        /// Spelling for a factor of 1000.
        thousand: String,
        /// Spelling for a factor of 1024.
        binary: String,
    },
    /// Not digits with at most one point between them.
    #[error("\"{text}\" does not begin with a number such as 10 or 1.5")]
    NotANumber {
        /// The expected quantity.
        quantity: Quantity,
        /// The text as written.
        text: String,
    },
    /// Below zero.
    #[error("the {quantity} {text} is negative")]
    Negative {
        /// The expected quantity.
        quantity: Quantity,
        /// The text as written.
        text: String,
    },
    /// Zero, if it is not allowed.
    #[error("the {quantity} {text} is zero; the smallest taken is {min}")]
    Zero {
        /// The expected quantity.
        quantity: Quantity,
        /// The text as written.
        text: String,
        /// The smallest value.
        min: String,
    },
    /// Above the limit.
    #[error("the {quantity} {text} is above the limit of {limit}")]
    TooLarge {
        /// The expected quantity.
        quantity: Quantity,
        /// The text as written.
        text: String,
        /// The largest value.
        limit: String,
    },
    /// A fraction of the smallest unit.
    #[error("the {quantity} {text} is not a whole number of {base}")]
    TooFine {
        /// The expected quantity.
        quantity: Quantity,
        /// The text as written.
        text: String,
        /// The smallest unit.
        base: &'static str,
    },
    /// A share of the link without a link.
    #[error("the rate {text} is a share of the link, and here is no link")]
    NoLink {
        /// The text as written.
        text: String,
    },
}

impl UnitError {
    /// Returns advice on how to fix the error.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::MissingUnit { quantity: Quantity::Rate, text } => format!(
                "write \"{text}bit\", \"{text}kbit\", \"{text}mbit\" or \"{text}gbit\", or a share of the link such as \"10%\""
            ),
            Self::MissingUnit { quantity: Quantity::Size, text } => format!("write \"{text}B\" or \"{text}kB\""),
            Self::MissingUnit { quantity: Quantity::Queue, text } => {
                format!("write \"{text}p\" for packets, \"{text}B\" or \"{text}kB\" for bytes")
            }
            Self::MissingUnit { quantity: Quantity::Time, text } => {
                format!("write \"{text}us\", \"{text}ms\" or \"{text}s\"")
            }
            Self::BitsOrBytes { bits, bytes, .. } => format!("write \"{bits}\" for bits, \"{bytes}\" for bytes"),
            Self::ThousandOr1024 { thousand, binary, .. } => format!("write \"{thousand}\" or \"{binary}\""),
            Self::Zero { min, .. } => format!("write at least {min}"),
            Self::TooLarge { limit, .. } => format!("write at most {limit}"),
            Self::TooFine { base, .. } => format!("{base} are counted whole: write more or fewer digits"),
            Self::NoLink { .. } => "write the rate itself, such as \"100mbit\"".to_owned(),
            Self::Empty { quantity }
            | Self::UnknownUnit { quantity, .. }
            | Self::NotANumber { quantity, .. }
            | Self::Negative { quantity, .. } => {
                format!("a {quantity} is a number and a unit; units: {}", quantity.unit_list())
            }
        }
    }
}

/// Reads a rate such as `300mbit`, `1.5 Gbit/s` or `10%` (of `link`, rounded down to whole bit/s).
///
/// Case does not matter, since no two units differ by it.
///
/// # Errors
/// [`UnitError`], also for zero and for more than 1 Tbit/s.
pub fn parse_rate(text: &str, link: Option<Rate>) -> Result<Rate, UnitError> {
    let quantity = Quantity::Rate;
    let written = Written::split(quantity, text)?;
    let lower = written.unit.to_ascii_lowercase();
    let unit = lower.strip_suffix("/s").unwrap_or(&lower);
    let limit = || show_rate(Rate::MAX);
    let bps = if unit == "%" {
        let link = link.ok_or_else(|| UnitError::NoLink { text: written.text.to_owned() })?;
        written.percent_of(link.bps())?
    } else if let Some((bits, bytes)) = bits_or_bytes(unit, &written.number) {
        return Err(UnitError::BitsOrBytes { unit: written.unit.to_owned(), bits, bytes });
    } else {
        written.scaled(quantity, unit, Rate::MAX.bps(), limit)?
    };
    Rate::from_bps(bps).map_err(|_| UnitError::Zero {
        quantity,
        text: written.text.to_owned(),
        min: show_rate(Rate::MIN),
    })
}

/// Returns both readings of an ambiguous unit: `kbps` is kilobytes per second in tc, and usually kilobits per second
/// elsewhere.
fn bits_or_bytes(unit: &str, number: &Number<'_>) -> Option<(String, String)> {
    let prefix = match unit {
        "bps" => "",
        "kbps" => "k",
        "mbps" => "m",
        "gbps" => "g",
        "tbps" => "t",
        _ => return None,
    };
    let bytes = number.times(8).unwrap_or_else(|| format!("8 times {}", number.text));
    Some((format!("{}{prefix}bit", number.text), format!("{bytes}{prefix}bit")))
}

/// Reads a size in bytes such as `1500B`, `2kB`, `64KiB`. Zero is allowed.
///
/// # Errors
/// [`UnitError`], also for more than `max` bytes.
pub fn parse_size(text: &str, max: u64) -> Result<u64, UnitError> {
    let quantity = Quantity::Size;
    let written = Written::split(quantity, text)?;
    written.not_kb()?;
    written.scaled(quantity, written.unit, max, || show_size(max))
}

/// The length of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLength {
    /// Packets.
    Packets(u32),
    /// Bytes.
    Bytes(u32),
    /// Bytes of a rate in this time.
    Time(Nanos),
}

/// Reads the length of a queue: `100p`, `150kB` or `50ms`.
///
/// # Errors
/// [`UnitError`], also for zero and for more than 4,294,967,295 packets or bytes.
pub fn parse_queue(text: &str) -> Result<QueueLength, UnitError> {
    let quantity = Quantity::Queue;
    let written = Written::split(quantity, text)?;
    let max = u64::from(u32::MAX);
    let zero = |min: &str| UnitError::Zero { quantity, text: written.text.to_owned(), min: min.to_owned() };
    if written.unit == "p" {
        let packets = written.in_unit(quantity, Factor::Ten(0), max, || format!("{max}p"))?;
        return if packets == 0 { Err(zero("1p")) } else { Ok(QueueLength::Packets(packets as u32)) };
    }
    if find(&TIMES, written.unit).is_some() {
        let time = parse_time(text)?;
        return if time == Nanos::ZERO { Err(zero("1ns")) } else { Ok(QueueLength::Time(time)) };
    }
    written.not_kb()?;
    let bytes = written.scaled(quantity, written.unit, max, || show_size(max))?;
    if bytes == 0 { Err(zero("1B")) } else { Ok(QueueLength::Bytes(bytes as u32)) }
}

/// Reads a time such as `10ms`, `1.35s`, `200us`. Zero is allowed.
///
/// # Errors
/// [`UnitError`], also for more than 2^64 - 1 ns (584 years).
pub fn parse_time(text: &str) -> Result<Nanos, UnitError> {
    let quantity = Quantity::Time;
    let written = Written::split(quantity, text)?;
    let unit = if written.unit == "µs" || written.unit == "μs" { "us" } else { written.unit };
    written.scaled(quantity, unit, u64::MAX, || show_time(Nanos::MAX)).map(Nanos)
}

/// Reads a number without unit, such as `15` or `0.5`, in thousandths; `None` if it is finer or does not fit.
#[must_use]
pub fn parse_thousandths(text: &str) -> Option<u64> {
    match Number::parse(text)?.scaled(Factor::Ten(3)) {
        Scaled::Exact(value) => u64::try_from(value).ok(),
        Scaled::Fraction | Scaled::TooLarge => None,
    }
}

/// A number and a unit, taken apart.
struct Written<'a> {
    text: &'a str,
    number: Number<'a>,
    unit: &'a str,
}

impl<'a> Written<'a> {
    fn split(quantity: Quantity, text: &'a str) -> Result<Self, UnitError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(UnitError::Empty { quantity });
        }
        if text.starts_with(['-', '\u{2212}']) {
            return Err(UnitError::Negative { quantity, text: text.to_owned() });
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number = Number::parse(number).ok_or_else(|| UnitError::NotANumber { quantity, text: text.to_owned() })?;
        let unit = unit.trim_start();
        if unit.is_empty() {
            return Err(UnitError::MissingUnit { quantity, text: text.to_owned() });
        }
        Ok(Self { text, number, unit })
    }

    fn scaled(&self, quantity: Quantity, unit: &str, max: u64, limit: impl Fn() -> String) -> Result<u64, UnitError> {
        match find(quantity.units(), unit) {
            Some(factor) => self.in_unit(quantity, factor, max, limit),
            None => Err(UnitError::UnknownUnit { quantity, unit: self.unit.to_owned() }),
        }
    }

    fn in_unit(
        &self,
        quantity: Quantity,
        factor: Factor,
        max: u64,
        limit: impl Fn() -> String,
    ) -> Result<u64, UnitError> {
        let base = match (quantity, self.unit) {
            (Quantity::Rate, _) => "bit/s",
            (Quantity::Time, _) => "nanoseconds",
            (Quantity::Queue, "p") => "packets",
            _ => "bytes",
        };
        match self.number.scaled(factor) {
            Scaled::Exact(value) if value <= u128::from(max) => Ok(value as u64),
            Scaled::Fraction => Err(UnitError::TooFine { quantity, text: self.text.to_owned(), base }),
            _ => Err(UnitError::TooLarge { quantity, text: self.text.to_owned(), limit: limit() }),
        }
    }

    fn percent_of(&self, whole: u64) -> Result<u64, UnitError> {
        let quantity = Quantity::Rate;
        // In parts of 10^-12 of a percent; finer shares are useless.
        match self.number.scaled(Factor::Ten(12)) {
            Scaled::Exact(parts) if parts <= 100 * 10u128.pow(12) => {
                Ok((parts * u128::from(whole) / (100 * 10u128.pow(12))) as u64)
            }
            Scaled::Fraction => Err(UnitError::TooFine {
                quantity,
                text: self.text.to_owned(),
                base: "millionths of a millionth of a percent",
            }),
            _ => Err(UnitError::TooLarge { quantity, text: self.text.to_owned(), limit: "100%".to_owned() }),
        }
    }

    fn not_kb(&self) -> Result<(), UnitError> {
        if self.unit != "KB" {
            return Ok(());
        }
        Err(UnitError::ThousandOr1024 {
            unit: self.unit.to_owned(),
            thousand: format!("{}kB", self.number.text),
            binary: format!("{}KiB", self.number.text),
        })
    }
}

fn find(units: &[(&str, Factor)], unit: &str) -> Option<Factor> {
    units.iter().find(|&&(name, _)| name == unit).map(|&(_, factor)| factor)
}

/// A decimal number as written.
struct Number<'a> {
    text: &'a str,
    /// Without leading zeros.
    whole: &'a str,
    /// Without trailing zeros.
    fraction: &'a str,
}

enum Scaled {
    Exact(u128),
    Fraction,
    TooLarge,
}

impl<'a> Number<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) if !whole.is_empty() && !fraction.is_empty() => (whole, fraction),
            Some(_) => return None,
            None => (text, ""),
        };
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        (!whole.is_empty() && digits(whole) && digits(fraction)).then(|| Self {
            text,
            whole: whole.trim_start_matches('0'),
            fraction: fraction.trim_end_matches('0'),
        })
    }

    /// Multiplies the number by `factor`, if the result is whole.
    ///
    /// Take a fraction of n digits whose last is not zero. Times 10^k or 2^k it is whole only if n <= k, because its digits
    /// are not divisible by both 2 and 5. So no intermediate value is larger than the result.
    fn scaled(&self, factor: Factor) -> Scaled {
        // 10^25 exceeds all limits, and 10^25 * 10^12 still fits in 128 bits.
        if self.whole.len() > 25 {
            return Scaled::TooLarge;
        }
        let value = |digits: &str| digits.bytes().fold(0u128, |sum, digit| sum * 10 + u128::from(digit - b'0'));
        let n = self.fraction.len() as u32;
        let (exponent, whole) = match factor {
            Factor::Ten(k) => (k, value(self.whole) * 10u128.pow(k)),
            Factor::Two(k) => (k, value(self.whole) << k),
        };
        if n > exponent {
            return Scaled::Fraction;
        }
        let fraction = value(self.fraction);
        match factor {
            Factor::Ten(k) => Scaled::Exact(whole + fraction * 10u128.pow(k - n)),
            Factor::Two(k) if fraction.is_multiple_of(5u128.pow(n)) => {
                Scaled::Exact(whole + ((fraction / 5u128.pow(n)) << (k - n)))
            }
            Factor::Two(_) => Scaled::Fraction,
        }
    }

    /// Multiplies the number by a small whole number, as text.
    fn times(&self, by: u64) -> Option<String> {
        let n = u32::try_from(self.fraction.len()).ok()?;
        if self.whole.len() > 18 || n > 12 {
            return None;
        }
        let Scaled::Exact(parts) = self.scaled(Factor::Ten(n)) else { return None };
        Some(decimal(parts * u128::from(by), n))
    }
}

/// Formats `parts / 10^places`, without zeros at the end.
fn decimal(parts: u128, places: u32) -> String {
    let one = 10u128.pow(places);
    let fraction = format!("{:0width$}", parts % one, width = places as usize);
    let fraction = if places == 0 { "" } else { fraction.trim_end_matches('0') };
    if fraction.is_empty() { (parts / one).to_string() } else { format!("{}.{fraction}", parts / one) }
}

fn show(value: u64, units: &[(&str, u32)]) -> String {
    let (unit, exponent) =
        units.iter().rev().copied().find(|&(_, exponent)| value >= 10u64.pow(exponent)).unwrap_or(units[0]);
    format!("{} {unit}", decimal(u128::from(value), exponent))
}

/// Formats a rate exactly: `300 Mbit/s`, `1.5 Gbit/s`.
#[must_use]
pub fn show_rate(rate: Rate) -> String {
    show_bps(rate.bps())
}

/// Like [`show_rate`], for a rate that may be zero or above the limit, such as a sum.
#[must_use]
pub fn show_bps(bps: u64) -> String {
    show(bps, &[("bit/s", 0), ("kbit/s", 3), ("Mbit/s", 6), ("Gbit/s", 9), ("Tbit/s", 12)])
}

/// Formats a size exactly: `1.5 kB`.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    show(bytes, &[("B", 0), ("kB", 3), ("MB", 6), ("GB", 9)])
}

/// Formats an amount of memory to a tenth: `68.7 GiB`.
#[must_use]
pub fn show_memory(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|&(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// Formats the next whole number of KiB, MiB or GiB in the form of a link file: `65GiB`.
#[must_use]
pub fn memory_key(bytes: u64) -> String {
    let (unit, shift) =
        [("GiB", 30), ("MiB", 20)].into_iter().find(|&(_, shift)| bytes >> shift > 0).unwrap_or(("KiB", 10));
    format!("{}{unit}", bytes.div_ceil(1 << shift))
}

/// Formats a rate as a value of a link file.
#[must_use]
pub fn rate_key(bps: u64) -> String {
    show_bps(bps).replace(' ', "").replace("/s", "")
}

/// Formats a size as a value of a link file.
#[must_use]
pub fn size_key(bytes: u64) -> String {
    if bytes.is_multiple_of(1000) { show_size(bytes).replace(' ', "") } else { format!("{bytes}B") }
}

/// Formats a time exactly: `8.2 ms`.
#[must_use]
pub fn show_time(time: Nanos) -> String {
    show(time.0, &[("ns", 0), ("us", 3), ("ms", 6), ("s", 9)])
}

#[cfg(test)]
mod tests;
