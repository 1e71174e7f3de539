//! Numbers of classes as the kernel's queueing disciplines have them: `MAJOR:MINOR`, both hexadecimal.

use std::fmt;

/// The number of a class in tc: neither part is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Classid {
    major: u16,
    minor: u16,
}

impl Classid {
    /// Returns `None` if a part is zero: major 0 is unused, and minor 0 is the queueing discipline itself.
    #[must_use]
    pub fn new(major: u16, minor: u16) -> Option<Self> {
        (major != 0 && minor != 0).then_some(Self { major, minor })
    }

    /// Reads `1:2` or `1:1f`; hexadecimal without `0x`, as tc does.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        Self::new(hex(major)?, hex(minor)?)
    }

    /// The number of the queueing discipline that the class belongs to.
    #[must_use]
    pub fn major(self) -> u16 {
        self.major
    }

    /// Its number there.
    #[must_use]
    pub fn minor(self) -> u16 {
        self.minor
    }

    /// The `SO_PRIORITY` by which the kernel's HTB and CBQ find the class: 1:2 is 0x10002.
    #[must_use]
    pub fn priority(self) -> u32 {
        u32::from(self.major) << 16 | u32::from(self.minor)
    }
}

/// One to four hexadecimal digits.
pub(crate) fn hex(text: &str) -> Option<u16> {
    let sound = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if sound { u16::from_str_radix(text, 16).ok() } else { None }
}

impl fmt::Display for Classid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}:{:x}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_numbers_are_hexadecimal_and_neither_part_is_zero() {
        assert_eq!(Classid::parse("1:1f"), Classid::new(1, 31));
        assert_eq!(Classid::parse("1:1f").map(Classid::priority), Some(0x1_001f));
        assert_eq!(Classid::new(0xa, 0x10).map(|id| id.to_string()), Some("a:10".to_owned()));
        for wrong in ["", "1", "1:", ":1", "0:1", "1:0", "1:10000", "1:0x2", "1:2:3", "1: 2", "g:1", "1:+2"] {
            assert_eq!(Classid::parse(wrong), None, "{wrong}");
        }
    }
}
