//! The text form of a [`Match`]: words, in any order, each condition at most once, `and` between them if one likes.

use std::net::IpAddr;
use std::ops::Range;

use thiserror::Error;

use super::ethernet::{IPV4, IPV6, PPPOE_SESSION, is_vlan};
use super::ranges::{MAX_STANDS_FOR, Ranges, prefixes};
use super::{
    ICMP, ICMP6, IpVersion, MAX_DSCP, MAX_VLAN, MIN_ETHERTYPE, Mac, Match, PortRange, Prefix, TCP, UDP, dscp_value,
};

/// Reason for refusing a match, and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind}")]
pub struct MatchError {
    /// The kind of the error.
    pub kind: MatchErrorKind,
    /// The offending part of the text, in bytes.
    pub at: Range<usize>,
}

/// An error of a match.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MatchErrorKind {
    /// Nothing but white space.
    #[error("the match is empty; write \"any\" for every frame")]
    Empty,
    /// A word that begins no condition.
    #[error(
        "\"{word}\" is not a condition; conditions begin with: any, ip, ip6, tcp, udp, icmp, icmp6, proto, src, dst, dscp, vlan, inner vlan, ethertype"
    )]
    UnknownWord {
        /// The word.
        word: String,
    },
    /// `port`, `net`, `host` or `mac` without a direction.
    #[error("\"{word}\" needs a direction: \"src {word}\" or \"dst {word}\"")]
    NoDirection {
        /// The word.
        word: String,
    },
    /// End of the text, or an unexpected word.
    #[error("after \"{after}\" must come {expected}, not {found}")]
    Expected {
        /// The word before.
        after: String,
        /// The expected text.
        expected: &'static str,
        /// The text found, in words.
        found: String,
    },
    /// Not a number, or one outside its limits.
    #[error("the {what} must be a number from {min} to {max}, not \"{value}\"")]
    OutOfRange {
        /// Name of the number.
        what: &'static str,
        /// As written.
        value: String,
        /// Smallest value.
        min: u16,
        /// Largest value.
        max: u16,
    },
    /// A range of ports that runs backwards.
    #[error("the port range {first}-{last} is reversed; write {last}-{first}")]
    Backwards {
        /// As written first.
        first: u16,
        /// As written last.
        last: u16,
    },
    /// A range that runs backwards, of VLAN ids or addresses.
    #[error("the range {written} is reversed; write the smaller end first")]
    BackwardRange {
        /// As written.
        written: String,
    },
    /// A range of addresses of two versions.
    #[error("the ends of {written} are IPv4 and IPv6; write a range for each")]
    MixedRange {
        /// As written.
        written: String,
    },
    /// Ranges that stand for too many matches.
    #[error("its ranges expand to {count} matches; the limit is {MAX_STANDS_FOR}; use smaller ranges, or prefixes")]
    TooMany {
        /// Number of matches.
        count: usize,
    },
    /// A range instead of a single match.
    #[error("its ranges expand to {count} matches, and this needs a single one")]
    NotSingle {
        /// Number of matches.
        count: usize,
    },
    /// A prefix with bits set behind its length.
    #[error("{written} has bits set beyond the first {len}; write {prefix}, or \"host\" for one address")]
    HostBits {
        /// As written.
        written: String,
        /// The length of the prefix.
        len: u8,
        /// With these bits cleared.
        prefix: String,
    },
    /// A tag's EtherType, which is never the one behind all tags.
    #[error(
        "the EtherType {value:#06x} is that of a VLAN tag; matches compare the one after all tags; write \"vlan\" and its id"
    )]
    TagType {
        /// The EtherType.
        value: u16,
    },
    /// The same condition twice.
    #[error("{what} is given twice; all conditions must hold: give it once, or write two matches")]
    Twice {
        /// The condition.
        what: &'static str,
    },
    /// `any` with conditions.
    #[error("\"any\" matches every frame and takes no other condition")]
    AnyNotAlone,
    /// Conditions that no frame meets.
    #[error("no frame {one} and {other}")]
    Contradiction {
        /// One condition.
        one: String,
        /// The other.
        other: String,
    },
}

use MatchErrorKind as Kind;

impl Match {
    /// Reads a match such as `udp dst port 5001`, `src net 10.1.0.0/16 and dscp ef`, `vlan 5`, `any`.
    ///
    /// # Errors
    /// [`MatchError`], which also refuses what no frame can meet, and ranges of VLAN ids or addresses: [`Match::parse_all`]
    /// reads those.
    pub fn parse(text: &str) -> Result<Self, MatchError> {
        let all = Self::parse_all(text)?;
        match all[..] {
            [made] => Ok(made),
            _ => Err(MatchError { kind: Kind::NotSingle { count: all.len() }, at: 0..text.len() }),
        }
    }

    /// Parses a match that may have ranges: `vlan 100-199`, `dst host 10.0.0.10-10.0.0.50`. It expands to one match for
    /// each VLAN id, and for each of the fewest prefixes that make up a range of addresses: a frame meets the text if
    /// it meets any of them, and none of them covers another. There are 1 to [`MAX_STANDS_FOR`].
    ///
    /// # Errors
    /// [`MatchError`], also for a match that no frame can meet.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, MatchError> {
        let mut parser = Parser { text, words: words(text), next: 0, made: Self::ANY, ranges: Ranges::default() };
        parser.run()?;
        let count = parser.ranges.count();
        if count > MAX_STANDS_FOR {
            return Err(MatchError { kind: Kind::TooMany { count }, at: 0..text.len() });
        }
        Ok(parser.ranges.spread(parser.made))
    }
}

impl std::str::FromStr for Match {
    type Err = MatchError;
    fn from_str(text: &str) -> Result<Self, MatchError> {
        Self::parse(text)
    }
}

fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, character) in text.char_indices() {
        if character.is_whitespace() {
            words.extend(start.take().map(|start| start..at));
        } else {
            start = start.or(Some(at));
        }
    }
    words.extend(start.map(|start| start..text.len()));
    words
}

struct Parser<'a> {
    text: &'a str,
    words: Vec<Range<usize>>,
    next: usize,
    /// The match; of a range its first part.
    made: Match,
    ranges: Ranges,
}

impl<'a> Parser<'a> {
    fn run(&mut self) -> Result<(), MatchError> {
        if self.words.is_empty() {
            return Err(MatchError { kind: Kind::Empty, at: 0..self.text.len() });
        }
        if self.word(0) == "any" {
            if self.words.len() > 1 {
                return Err(self.error(Kind::AnyNotAlone, 1));
            }
            return Ok(());
        }
        loop {
            self.condition()?;
            self.check_ethertype()?;
            if self.next == self.words.len() {
                return Ok(());
            }
            if self.word(self.next) == "and" {
                self.next += 1;
            }
        }
    }

    fn condition(&mut self) -> Result<(), MatchError> {
        let at = self.next;
        let word = self.take("a condition")?;
        match word {
            "ip" | "ip4" => self.need_version(IpVersion::V4, at),
            "ip6" => self.need_version(IpVersion::V6, at),
            "tcp" => self.set_proto(TCP, at),
            "udp" => self.set_proto(UDP, at),
            "icmp" => self.set_proto(ICMP, at),
            "icmp6" => self.set_proto(ICMP6, at),
            "proto" => {
                let name = self.take("a protocol: tcp, udp, icmp, icmp6 or a number from 0 to 255")?;
                let proto = match name {
                    "tcp" => TCP,
                    "udp" => UDP,
                    "icmp" => ICMP,
                    "icmp6" => ICMP6,
                    number => self.number("protocol", number, 0, 255)? as u8,
                };
                self.set_proto(proto, at)
            }
            "dscp" => {
                let name = self.take("a code point: a name such as ef, af41, cs1, or a number from 0 to 63")?;
                let dscp = match dscp_value(name) {
                    Some(value) => value,
                    None => self.number("dscp", name, 0, u16::from(MAX_DSCP))? as u8,
                };
                self.set(|made| &mut made.dscp, dscp, "dscp", at)
            }
            "vlan" => {
                let ids = self.vlans()?;
                self.set(|made| &mut made.vlan, ids[0], "vlan", at)?;
                self.ranges.vlans = ids;
                Ok(())
            }
            "inner" => {
                let then = self.take("\"vlan\"")?;
                if then != "vlan" {
                    return Err(self.unexpected("\"vlan\""));
                }
                let ids = self.vlans()?;
                self.set(|made| &mut made.inner_vlan, ids[0], "inner vlan", at)?;
                self.ranges.inner_vlans = ids;
                Ok(())
            }
            "ethertype" => {
                let word = self.take("an EtherType such as 0x88b5")?;
                let ethertype = self.number("EtherType", word, MIN_ETHERTYPE, u16::MAX)?;
                if is_vlan(ethertype) {
                    return Err(self.error(Kind::TagType { value: ethertype }, at));
                }
                self.set(|made| &mut made.ethertype, ethertype, "ethertype", at)
            }
            "src" | "dst" => self.side(word == "src", at),
            "port" | "net" | "host" | "mac" => Err(self.error(Kind::NoDirection { word: word.to_owned() }, at)),
            "any" => Err(self.error(Kind::AnyNotAlone, at)),
            _ => Err(self.error(Kind::UnknownWord { word: word.to_owned() }, at)),
        }
    }

    /// Checks that conditions on the IP packet are possible with this EtherType.
    fn check_ethertype(&self) -> Result<(), MatchError> {
        let Some(ethertype) = self.made.ethertype else { return Ok(()) };
        let fits = match ethertype {
            PPPOE_SESSION => true,
            IPV4 => self.made.version != Some(IpVersion::V6),
            IPV6 => self.made.version != Some(IpVersion::V4),
            _ => !self.made.needs_ip(),
        };
        if fits {
            return Ok(());
        }
        let other = match (ethertype, self.made.version) {
            (IPV4 | IPV6, Some(IpVersion::V4)) => "is IPv4",
            (IPV4 | IPV6, _) => "is IPv6",
            _ => "is IP",
        };
        let one = format!("has the EtherType {ethertype:#06x}");
        Err(self.error(Kind::Contradiction { one, other: other.to_owned() }, self.next - 1))
    }

    fn side(&mut self, src: bool, at: usize) -> Result<(), MatchError> {
        match self.take("\"port\", \"net\", \"host\" or \"mac\"")? {
            "port" => {
                let range = self.ports()?;
                if let Some(proto) = self.made.proto.filter(|&proto| proto != TCP && proto != UDP) {
                    return Err(self.no_ports(proto, at));
                }
                if src {
                    self.set(|made| &mut made.sport, range, "src port", at)
                } else {
                    self.set(|made| &mut made.dport, range, "dst port", at)
                }
            }
            "net" => {
                let prefixes = self.prefixes(false)?;
                self.set_prefixes(src, prefixes, at)
            }
            "host" => {
                let prefixes = self.prefixes(true)?;
                self.set_prefixes(src, prefixes, at)
            }
            "mac" => {
                const EXPECTED: &str = "an address of Ethernet such as 52:54:00:12:34:56";
                let word = self.take(EXPECTED)?;
                let Some(mac) = Mac::parse(word) else { return Err(self.unexpected(EXPECTED)) };
                if src {
                    self.set(|made| &mut made.src_mac, mac, "src mac", at)
                } else {
                    self.set(|made| &mut made.dst_mac, mac, "dst mac", at)
                }
            }
            _ => Err(self.unexpected("\"port\", \"net\", \"host\" or \"mac\"")),
        }
    }

    fn ports(&mut self) -> Result<PortRange, MatchError> {
        let word = self.take("a port such as 5001, or a range such as 1000-2000")?;
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let first = self.number("port", first, 0, u16::MAX)?;
        let last = self.number("port", last, 0, u16::MAX)?;
        if first > last {
            return Err(self.error(Kind::Backwards { first, last }, self.next - 1));
        }
        Ok(PortRange { first, last })
    }

    /// A prefix or an address, or those that a range of addresses is made up of.
    fn prefixes(&mut self, host: bool) -> Result<Vec<Prefix>, MatchError> {
        let expected = if host {
            "an address, or a range such as 10.0.0.1-10.0.0.9"
        } else {
            "a prefix such as 10.1.0.0/16 or 2001:db8::/32, or a range such as 10.0.0.1-10.0.0.9"
        };
        let word = self.take(expected)?;
        let Some((first, last)) = word.split_once('-') else {
            return self.prefix(word, host, expected).map(|prefix| vec![prefix]);
        };
        match (first.parse::<IpAddr>(), last.parse::<IpAddr>()) {
            (Ok(first), Ok(last)) if first.is_ipv4() != last.is_ipv4() => {
                Err(self.error(Kind::MixedRange { written: word.to_owned() }, self.next - 1))
            }
            (Ok(first), Ok(last)) if first > last => {
                Err(self.error(Kind::BackwardRange { written: word.to_owned() }, self.next - 1))
            }
            (Ok(first), Ok(last)) => Ok(prefixes(first, last)),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn prefix(&self, word: &str, host: bool, expected: &'static str) -> Result<Prefix, MatchError> {
        let (address, len) = match word.split_once('/') {
            Some((address, len)) if !host => (address, Some(len)),
            None if host => (word, None),
            _ => return Err(self.unexpected(expected)),
        };
        let Ok(address) = address.parse::<IpAddr>() else { return Err(self.unexpected(expected)) };
        let max = if address.is_ipv4() { 32 } else { 128 };
        let len = match len {
            Some(len) => self.number("prefix length", len, 0, max)? as u8,
            None => max as u8,
        };
        let (prefix, host_bits) = Prefix::cut(address, len);
        if host_bits {
            let kind = Kind::HostBits { written: word.to_owned(), len, prefix: prefix.to_string() };
            return Err(self.error(kind, self.next - 1));
        }
        Ok(prefix)
    }

    /// One id, or all of a range.
    fn vlans(&mut self) -> Result<Vec<u16>, MatchError> {
        let word = self.take("a VLAN id from 0 to 4094, or a range such as 100-199")?;
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let first = self.number("vlan", first, 0, MAX_VLAN)?;
        let last = self.number("vlan", last, 0, MAX_VLAN)?;
        if first > last {
            return Err(self.error(Kind::BackwardRange { written: word.to_owned() }, self.next - 1));
        }
        Ok((first..=last).collect())
    }

    fn set_prefixes(&mut self, src: bool, prefixes: Vec<Prefix>, at: usize) -> Result<(), MatchError> {
        let first = prefixes[0];
        self.need_version(first.version, at)?;
        if src {
            self.set(|made| &mut made.src, first, "the source address", at)?;
            self.ranges.src = prefixes;
        } else {
            self.set(|made| &mut made.dst, first, "the destination address", at)?;
            self.ranges.dst = prefixes;
        }
        Ok(())
    }

    /// A prefix says the version too, so saying it again is no repetition.
    fn need_version(&mut self, version: IpVersion, at: usize) -> Result<(), MatchError> {
        if self.made.version.is_some_and(|known| known != version) {
            let kind = Kind::Contradiction { one: "is IPv4".to_owned(), other: "is IPv6".to_owned() };
            return Err(self.error(kind, at));
        }
        self.made.version = Some(version);
        Ok(())
    }

    fn set_proto(&mut self, proto: u8, at: usize) -> Result<(), MatchError> {
        if (self.made.sport.is_some() || self.made.dport.is_some()) && proto != TCP && proto != UDP {
            return Err(self.no_ports(proto, at));
        }
        self.set(|made| &mut made.proto, proto, "the protocol", at)
    }

    fn no_ports(&self, proto: u8, at: usize) -> MatchError {
        let one = format!("is of protocol {proto}");
        self.error(Kind::Contradiction { one, other: "has a TCP or UDP port".to_owned() }, at)
    }

    fn set<T>(
        &mut self,
        field: fn(&mut Match) -> &mut Option<T>,
        value: T,
        what: &'static str,
        at: usize,
    ) -> Result<(), MatchError> {
        if field(&mut self.made).replace(value).is_some() {
            return Err(self.error(Kind::Twice { what }, at));
        }
        Ok(())
    }

    fn number(&self, what: &'static str, text: &str, min: u16, max: u16) -> Result<u16, MatchError> {
        let value = match text.strip_prefix("0x") {
            Some(hex) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => u16::from_str_radix(hex, 16).ok(),
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        };
        value
            .filter(|value| (min..=max).contains(value))
            .ok_or_else(|| self.error(Kind::OutOfRange { what, value: text.to_owned(), min, max }, self.next - 1))
    }

    fn word(&self, index: usize) -> &'a str {
        &self.text[self.words[index].clone()]
    }

    fn take(&mut self, expected: &'static str) -> Result<&'a str, MatchError> {
        if self.next == self.words.len() {
            let end = self.text.len();
            let after = self.word(self.next - 1).to_owned();
            let kind = Kind::Expected { after, expected, found: "the end".to_owned() };
            return Err(MatchError { kind, at: end..end });
        }
        self.next += 1;
        Ok(self.word(self.next - 1))
    }

    /// The error for the last word.
    fn unexpected(&self, expected: &'static str) -> MatchError {
        let found = format!("\"{}\"", self.word(self.next - 1));
        self.error(Kind::Expected { after: self.word(self.next - 2).to_owned(), expected, found }, self.next - 1)
    }

    fn error(&self, kind: MatchErrorKind, word: usize) -> MatchError {
        let start = self.words[word].start;
        let end = self.words[word.max(self.next.saturating_sub(1)).min(self.words.len() - 1)].end;
        MatchError { kind, at: start..end }
    }
}
