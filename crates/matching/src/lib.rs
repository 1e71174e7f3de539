#![doc = include_str!("../README.md")]
//!
//! A [`Match`] is plain data: conditions on a frame's headers, all of which must hold. [`Match::matches`] defines its
//! meaning, and a [`Classifier`] gives the same results fast. `docs/link-files.md` is the users' reference of the text
//! form.
//!
//! Sources: IEEE 802.1Q (VLAN ids), RFC 791, RFC 8200, RFC 2474 and the RFCs named in [`dscp_name`].
//!
//! # Errors and panics
//! Any bytes are a frame, and any text gives a match or an error; a panic is a bug.
#![forbid(unsafe_code)]

mod classify;
pub mod ethernet;
mod frame;
mod parse;
mod ranges;
mod reach;
mod witness;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use classify::{Classifier, ClassifierSteps};
pub use frame::{Fragment, FrameHeaders, frame_headers, frame_key, packet_key};
pub use parse::{MatchError, MatchErrorKind};
pub use ranges::MAX_STANDS_FOR;
pub use reach::Reach;
pub use witness::{Budget, Witness};

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub const ICMP6: u8 = 58;
/// Largest VLAN id that may be matched; 4095 is reserved.
pub const MAX_VLAN: u16 = 4094;
/// Smallest EtherType; smaller numbers in its place are lengths (IEEE 802.3 Section 3.2.6).
pub const MIN_ETHERTYPE: u16 = 0x0600;
/// EtherType of the HTB text's generator: the first that IEEE 802 sets apart for local experiments. The text calls its
/// own `ETH_P_CUST` and gives no number.
pub const SCRIPT_TYPE: u16 = 0x88b5;
/// Largest DSCP value.
pub const MAX_DSCP: u8 = 63;

/// Version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// An address of Ethernet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl Mac {
    /// Reads six numbers of one or two hexadecimal digits with colons or hyphens between them; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 6];
        let mut parts = text.split(if text.contains('-') { '-' } else { ':' });
        for byte in &mut bytes {
            let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
            *byte =
                part.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(part, 16).ok())??;
        }
        parts.next().is_none().then_some(Self(bytes))
    }
}

/// The fields of a frame that classification compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameKey {
    /// Source of the Ethernet header; `None` if the frame ends before it, or is a raw IP packet.
    pub src_mac: Option<Mac>,
    /// Destination of the Ethernet header; as `src_mac`.
    pub dst_mac: Option<Mac>,
    /// VLAN id of the outer (or only) tag.
    pub vlan: Option<u16>,
    /// VLAN id of the second tag.
    pub inner_vlan: Option<u16>,
    /// The EtherType after all tags; `None` if the frame ends before it, or has too many tags.
    pub ethertype: Option<u16>,
    /// `None` for a frame that carries no IP packet, or a malformed one; the fields below then match nothing.
    pub version: Option<IpVersion>,
    /// Protocol of the IP payload, after any IPv6 extension headers.
    pub proto: u8,
    /// Source address; of IPv4 in the form of [`v4_mapped`].
    pub src: [u8; 16],
    /// Destination address; of IPv4 in the form of [`v4_mapped`].
    pub dst: [u8; 16],
    /// Source port; `None` if the frame has none (not TCP or UDP, a later fragment, truncated).
    pub sport: Option<u16>,
    /// Destination port; as `sport`.
    pub dport: Option<u16>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
}

/// An IPv4 address in sixteen bytes: `::ffff:a.b.c.d`.
#[must_use]
pub const fn v4_mapped(address: [u8; 4]) -> [u8; 16] {
    let [a, b, c, d] = address;
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// An address prefix. Host bits are zero. In order, IPv4 comes before IPv6, and a prefix before those within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    version: IpVersion,
    bits: u128,
    /// Prefix length, 0 to 128, in the sixteen-byte form: for IPv4 the written length plus 96.
    len: u8,
}

impl Prefix {
    /// The first `len` bits of an IPv4 address; `len` above 32 counts as 32. Host bits are cleared.
    #[must_use]
    pub fn v4(address: Ipv4Addr, len: u8) -> Self {
        Self::new(IpVersion::V4, u128::from_be_bytes(v4_mapped(address.octets())), 96 + len.min(32))
    }

    /// The first `len` bits of an IPv6 address; `len` above 128 counts as 128. Host bits are cleared.
    #[must_use]
    pub fn v6(address: Ipv6Addr, len: u8) -> Self {
        Self::new(IpVersion::V6, u128::from(address), len.min(128))
    }

    /// The first `len` bits of an address, at most all of them, and whether there was a one among those behind.
    #[must_use]
    pub fn cut(address: IpAddr, len: u8) -> (Self, bool) {
        let (prefix, whole) = match address {
            IpAddr::V4(address) => (Self::v4(address, len), Self::v4(address, 32)),
            IpAddr::V6(address) => (Self::v6(address, len), Self::v6(address, 128)),
        };
        (prefix, prefix.bits != whole.bits)
    }

    /// All addresses of a version.
    #[must_use]
    pub fn all(version: IpVersion) -> Self {
        match version {
            IpVersion::V4 => Self::v4(Ipv4Addr::UNSPECIFIED, 0),
            IpVersion::V6 => Self::v6(Ipv6Addr::UNSPECIFIED, 0),
        }
    }

    fn new(version: IpVersion, bits: u128, len: u8) -> Self {
        Self { version, bits: bits & mask(len), len }
    }

    /// The version of the addresses in it.
    #[must_use]
    pub fn version(&self) -> IpVersion {
        self.version
    }

    /// The first address, in the form of [`FrameKey::src`].
    #[must_use]
    pub fn address(&self) -> [u8; 16] {
        self.bits.to_be_bytes()
    }

    /// Number of leading bits that count in the sixteen-byte form: 96 to 128 for IPv4, 0 to 128 for IPv6.
    #[must_use]
    pub fn mapped_len(&self) -> u8 {
        self.len
    }

    /// Returns true if every address of its version lies in it.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.len == if self.version == IpVersion::V4 { 96 } else { 0 }
    }

    /// Returns the prefix of the same length with address zero.
    #[must_use]
    pub fn without_address(&self) -> Self {
        Self { bits: 0, ..*self }
    }

    /// Returns true if `address` of `version` lies in it.
    #[must_use]
    pub fn contains(&self, version: IpVersion, address: [u8; 16]) -> bool {
        version == self.version && u128::from_be_bytes(address) & mask(self.len) == self.bits
    }

    /// Returns true if every address of `other` lies in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.version == other.version && self.len <= other.len && other.bits & mask(self.len) == self.bits
    }

    fn shortened(&self, len: u8) -> Self {
        Self::new(self.version, self.bits, len)
    }

    /// The prefixes that, with this one, are the prefix of a shorter length around it.
    fn siblings(self, len: u8) -> impl Iterator<Item = Self> {
        let least = if self.version == IpVersion::V4 { 96 } else { 0 };
        (len.max(least) + 1..=self.len)
            .map(move |len| Self::new(self.version, self.bits ^ (1 << (128 - u32::from(len))), len))
    }
}

const fn mask(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len) }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            IpVersion::V4 => write!(f, "{}/{}", Ipv4Addr::from(self.bits as u32), self.len - 96),
            IpVersion::V6 => write!(f, "{}/{}", Ipv6Addr::from(self.bits), self.len),
        }
    }
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    /// First port.
    pub first: u16,
    /// Last port; not below `first`.
    pub last: u16,
}

impl PortRange {
    /// Returns true if `port` lies in it.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Returns true if every port of `other` lies in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// The parts of `outer` (all ports without it) below and above this range.
    fn around(self, outer: Option<Self>) -> impl Iterator<Item = Self> {
        let outer = outer.unwrap_or(Self { first: 0, last: u16::MAX });
        let below = self.first.checked_sub(1).map(|last| Self { first: outer.first, last });
        let above = self.last.checked_add(1).map(|first| Self { first, last: outer.last });
        below.into_iter().chain(above).filter(|range| range.first <= range.last)
    }

    /// Returns true if it is one port.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.first == self.last
    }

    /// The same as ports under masks, at most thirty, in their order: for those who compare bits.
    #[must_use]
    pub fn blocks(&self) -> Vec<(u16, u16)> {
        let mut blocks = Vec::new();
        let (mut at, end) = (u32::from(self.first), u32::from(self.last));
        while at <= end {
            // The largest block that begins here and does not go beyond the end.
            let mut size = if at == 0 { 1 << 16 } else { 1 << at.trailing_zeros().min(16) };
            while at + size - 1 > end {
                size >>= 1;
            }
            blocks.push((at as u16, !((size - 1) as u16)));
            at += size;
        }
        blocks
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

/// Conditions that a frame meets all of; the default has none and matches every frame (`any`).
///
/// Made by [`Match::parse`] and [`Match::parse_all`], which refuse what no frame can meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// Source of the Ethernet header.
    pub src_mac: Option<Mac>,
    /// Destination of the Ethernet header.
    pub dst_mac: Option<Mac>,
    /// VLAN id of the outer (or only) tag.
    pub vlan: Option<u16>,
    /// VLAN id of the second tag.
    pub inner_vlan: Option<u16>,
    /// EtherType behind all VLAN tags.
    pub ethertype: Option<u16>,
    /// IP version; set wherever a prefix is.
    pub version: Option<IpVersion>,
    /// Protocol of the IP payload.
    pub proto: Option<u8>,
    /// Source address.
    pub src: Option<Prefix>,
    /// Destination address.
    pub dst: Option<Prefix>,
    /// Source port, of TCP or UDP.
    pub sport: Option<PortRange>,
    /// Destination port, of TCP or UDP.
    pub dport: Option<PortRange>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
}

impl Match {
    /// The match that every frame meets, IP or not.
    pub const ANY: Self = Self {
        src_mac: None,
        dst_mac: None,
        vlan: None,
        inner_vlan: None,
        ethertype: None,
        version: None,
        proto: None,
        src: None,
        dst: None,
        sport: None,
        dport: None,
        dscp: None,
    };

    /// Returns true if it is [`Match::ANY`].
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self == Self::ANY
    }

    /// Returns true if a frame meets all conditions: the reference that a faster classifier is tested against.
    #[must_use]
    pub fn matches(&self, frame: &FrameKey) -> bool {
        if self.src_mac.is_some_and(|mac| frame.src_mac != Some(mac))
            || self.dst_mac.is_some_and(|mac| frame.dst_mac != Some(mac))
            || self.vlan.is_some_and(|vlan| frame.vlan != Some(vlan))
            || self.inner_vlan.is_some_and(|vlan| frame.inner_vlan != Some(vlan))
            || self.ethertype.is_some_and(|ethertype| frame.ethertype != Some(ethertype))
        {
            return false;
        }
        if !self.needs_ip() {
            return true;
        }
        let Some(version) = frame.version else { return false };
        self.version.is_none_or(|wanted| version == wanted)
            && self.proto.is_none_or(|proto| frame.proto == proto)
            && self.src.is_none_or(|prefix| prefix.contains(version, frame.src))
            && self.dst.is_none_or(|prefix| prefix.contains(version, frame.dst))
            && self.sport.is_none_or(|range| frame.sport.is_some_and(|port| range.contains(port)))
            && self.dport.is_none_or(|range| frame.dport.is_some_and(|port| range.contains(port)))
            && self.dscp.is_none_or(|dscp| frame.dscp == dscp)
    }

    /// Returns true if every frame that `other` matches is matched by this too. Conditions are compared one by one: a
    /// consequence of several together is not found.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(own: Option<T>, other: Option<T>) -> bool {
            own.is_none() || own == other
        }
        fn wider<T>(own: Option<T>, other: Option<T>, covers: fn(&T, &T) -> bool) -> bool {
            match (own, other) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(own), Some(other)) => covers(&own, &other),
            }
        }
        same(self.src_mac, other.src_mac)
            && same(self.dst_mac, other.dst_mac)
            && same(self.vlan, other.vlan)
            && same(self.inner_vlan, other.inner_vlan)
            && same(self.ethertype, other.ethertype)
            && same(self.version, other.version)
            && same(self.proto, other.proto)
            && same(self.dscp, other.dscp)
            && wider(self.src, other.src, Prefix::covers)
            && wider(self.dst, other.dst, Prefix::covers)
            && wider(self.sport, other.sport, PortRange::covers)
            && wider(self.dport, other.dport, PortRange::covers)
    }

    /// Returns the match of exactly the frames that both match; `None` if there is no such frame.
    #[must_use]
    pub fn both(&self, other: &Self) -> Option<Self> {
        fn same<T: PartialEq + Copy>(one: Option<T>, other: Option<T>) -> Option<Option<T>> {
            match (one, other) {
                (Some(one), Some(other)) => (one == other).then_some(Some(one)),
                _ => Some(one.or(other)),
            }
        }
        let prefix = |one: Option<Prefix>, other: Option<Prefix>| match (one, other) {
            (Some(one), Some(other)) if one.covers(&other) => Some(Some(other)),
            (Some(one), Some(other)) => other.covers(&one).then_some(Some(one)),
            _ => Some(one.or(other)),
        };
        let ports = |one: Option<PortRange>, other: Option<PortRange>| match (one, other) {
            (Some(one), Some(other)) => {
                let (first, last) = (one.first.max(other.first), one.last.min(other.last));
                (first <= last).then_some(Some(PortRange { first, last }))
            }
            _ => Some(one.or(other)),
        };
        let made = Self {
            src_mac: same(self.src_mac, other.src_mac)?,
            dst_mac: same(self.dst_mac, other.dst_mac)?,
            vlan: same(self.vlan, other.vlan)?,
            inner_vlan: same(self.inner_vlan, other.inner_vlan)?,
            ethertype: same(self.ethertype, other.ethertype)?,
            version: same(self.version, other.version)?,
            proto: same(self.proto, other.proto)?,
            src: prefix(self.src, other.src)?,
            dst: prefix(self.dst, other.dst)?,
            sport: ports(self.sport, other.sport)?,
            dport: ports(self.dport, other.dport)?,
            dscp: same(self.dscp, other.dscp)?,
        };
        let has_ports = made.sport.is_some() || made.dport.is_some();
        let no_ports = made.proto.is_some_and(|proto| ![6, 17].contains(&proto));
        (!(has_ports && no_ports)).then_some(made)
    }

    /// Returns matches of the frames that this matches and `other` does not; `None` if matches cannot express it.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Option<Vec<Self>> {
        let Some(both) = self.both(other) else { return Some(vec![*self]) };
        // Addresses and ports can be split; all other conditions must be equal.
        let parted = Self { src: None, dst: None, sport: None, dport: None, ..*self };
        let alike = parted == Self { src: None, dst: None, sport: None, dport: None, ..both };
        let narrows_ports = (self.sport, self.dport) != (both.sport, both.dport);
        if !alike || narrows_ports && !matches!(self.proto, Some(6 | 17)) {
            return None;
        }
        let (mut made, mut rest) = (Vec::new(), *self);
        if let (true, Some(inner)) = (self.src != both.src, both.src) {
            made.extend(inner.siblings(self.src.map_or(0, |src| src.len)).map(|src| Self { src: Some(src), ..rest }));
            rest.src = both.src;
        }
        if let (true, Some(inner)) = (self.dst != both.dst, both.dst) {
            made.extend(inner.siblings(self.dst.map_or(0, |dst| dst.len)).map(|dst| Self { dst: Some(dst), ..rest }));
            rest.dst = both.dst;
        }
        if let (true, Some(inner)) = (self.sport != both.sport, both.sport) {
            made.extend(inner.around(self.sport).map(|sport| Self { sport: Some(sport), ..rest }));
            rest.sport = both.sport;
        }
        if let (true, Some(inner)) = (self.dport != both.dport, both.dport) {
            made.extend(inner.around(self.dport).map(|dport| Self { dport: Some(dport), ..rest }));
        }
        Some(made)
    }

    /// The match of packets of the other way: source and destination are exchanged.
    #[must_use]
    pub fn turned(&self) -> Self {
        Self { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport, ..*self }
    }

    fn needs_ip(&self) -> bool {
        self.version.is_some()
            || self.proto.is_some()
            || self.src.is_some()
            || self.dst.is_some()
            || self.sport.is_some()
            || self.dport.is_some()
            || self.dscp.is_some()
    }
}

/// The text form that [`Match::parse`] reads back as the same match.
impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("any");
        }
        let mut words = Vec::new();
        words.extend(self.src_mac.map(|mac| format!("src mac {mac}")));
        words.extend(self.dst_mac.map(|mac| format!("dst mac {mac}")));
        words.extend(self.vlan.map(|vlan| format!("vlan {vlan}")));
        words.extend(self.inner_vlan.map(|vlan| format!("inner vlan {vlan}")));
        words.extend(self.ethertype.map(|ethertype| format!("ethertype {ethertype:#06x}")));
        if self.src.is_none() && self.dst.is_none() {
            words.extend(self.version.map(|version| match version {
                IpVersion::V4 => "ip".to_owned(),
                IpVersion::V6 => "ip6".to_owned(),
            }));
        }
        words.extend(self.proto.map(|proto| match proto {
            TCP => "tcp".to_owned(),
            UDP => "udp".to_owned(),
            ICMP => "icmp".to_owned(),
            ICMP6 => "icmp6".to_owned(),
            number => format!("proto {number}"),
        }));
        words.extend(self.src.map(|prefix| format!("src net {prefix}")));
        words.extend(self.dst.map(|prefix| format!("dst net {prefix}")));
        words.extend(self.sport.map(|range| format!("src port {range}")));
        words.extend(self.dport.map(|range| format!("dst port {range}")));
        words.extend(self.dscp.map(|dscp| match dscp_name(dscp) {
            Some(name) => format!("dscp {name}"),
            None => format!("dscp {dscp}"),
        }));
        f.write_str(&words.join(" "))
    }
}

/// Names of code points: RFC 2474 (class selectors, default), RFC 2597 (assured forwarding), RFC 3246 (expedited
/// forwarding), RFC 5865 (voice admit), RFC 8622 (lower effort).
const DSCP_NAMES: [(&str, u8); 24] = [
    ("cs0", 0),
    ("df", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// The name of a code point, if it has one.
#[must_use]
pub fn dscp_name(dscp: u8) -> Option<&'static str> {
    DSCP_NAMES.iter().find(|&&(_, value)| value == dscp).map(|&(name, _)| name)
}

fn dscp_value(name: &str) -> Option<u8> {
    DSCP_NAMES.iter().find(|&&(known, _)| known == name).map(|&(_, value)| value)
}

#[cfg(test)]
mod tests;
