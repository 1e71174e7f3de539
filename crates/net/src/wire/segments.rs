//! Splits super-frames into the packets that a wire would have carried. Offloads join them from several packets (GSO,
//! TSO, USO of the sender, GRO of the receiver).
//!
//! A super-frame has the headers of its packets once, followed by the payload of all. The kernel reports the payload
//! bytes per packet. The headers follow the rules of the kernel and of network cards:
//!
//! | field | in packet i of n |
//! | --- | --- |
//! | IPv4 total length, header checksum | of this packet |
//! | IPv4 identification | the super-frame's, plus i |
//! | IPv6 payload length, UDP length | of this packet |
//! | TCP sequence number | the super-frame's, plus the payload in front of this packet |
//! | TCP flags FIN and PSH | only in the last |
//! | TCP flag CWR | only in the first |
//! | checksum of TCP and UDP | left unfinished, with the sum of the pseudo-header for this packet's length |
//!
//! No field is trusted. Headers are parsed here; the header length reported by the kernel and the lengths in the
//! headers are not used. The kind must fit the protocol, and an unfinished checksum must be that of the outermost
//! transport header; otherwise a tunnel's inner packets were joined. The number of packets and their lengths are
//! bounded.
//!
//! DIFFERENCE: the kernel keeps the IPv4 identification of packets that were joined by GRO though all had the same one.
//! The header of a packet socket does not show this. Such packets have the flag DF, with which the identification has
//! no meaning (RFC 6864, Section 4.1).

use std::ops::Range;

use fairlink_config::matching::ethernet::{self, IPV4, IPV6, be16};
use fairlink_config::matching::{TCP, UDP};

use crate::wire::checksum::{self, Unfinished};
use crate::wire::virtio::{JOINED_CWR, JOINED_TCP4, JOINED_TCP6, JOINED_UDP, VirtioHeader};

/// Maximum length of a super-frame in bytes: the longest packet of IPv6, with Ethernet header and two VLAN tags.
pub(crate) const LONGEST: usize = ethernet::HEADER + 2 * ethernet::VLAN_TAG + IPV6_HEADER + u16::MAX as usize;
/// Maximum number of packets in a super-frame. It permits 16 KiB joined from packets of 8 B, the least that TCP sends.
pub const MOST_SEGMENTS: usize = 2048;
/// Most IPv6 extension headers walked over.
const MAX_EXTENSIONS: usize = 8;

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

// Places in headers.
const IPV4_LENGTH: usize = 2;
const IPV4_IDENTIFICATION: usize = 4;
const IPV4_FRAGMENT: usize = 6;
const IPV4_PROTOCOL: usize = 9;
const IPV4_CHECKSUM: usize = 10;
const IPV4_ADDRESSES: usize = 12;
const IPV6_LENGTH: usize = 4;
const IPV6_NEXT: usize = 6;
const IPV6_ADDRESSES: usize = 8;
const TCP_SEQUENCE: usize = 4;
const TCP_DATA_OFFSET: usize = 12;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const UDP_LENGTH: usize = 4;
const UDP_CHECKSUM: usize = 6;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

// Protocols whose packets can contain packets: IPv4, IPv6, GRE, and UDP (VXLAN).
const TUNNELS: [u8; 4] = [4, 41, 47, UDP];
// IPv6 extension headers that may precede the transport header in a joined packet (RFC 8200).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;

/// Reason why a super-frame cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unsplittable {
    /// The packets inside a tunnel were joined.
    Tunnel,
    /// Its kind or protocol is unknown, or the two do not fit.
    Protocol,
    /// Its headers are cut short, or contradict each other or the kernel's description.
    Malformed,
    /// It is longer than an IP packet can be, its packets are longer than the frames of the interfaces, or there are
    /// too many.
    TooLong,
}

impl Unsplittable {
    /// All reasons, in the order of the enum.
    pub const ALL: [Self; 4] = [Self::Tunnel, Self::Protocol, Self::Malformed, Self::TooLong];

    /// Its name in statistics.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tunnel => "tunnel",
            Self::Protocol => "protocol",
            Self::Malformed => "malformed",
            Self::TooLong => "too_long",
        }
    }
}

/// Positions of a frame's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    ip: usize,
    is_v6: bool,
    pub(super) protocol: u8,
    pub(super) transport: usize,
}

impl Layout {
    /// Parses the headers of `frame`, which may have any content but is no fragment.
    pub(super) fn from_frame(frame: &[u8]) -> Result<Self, Unsplittable> {
        let (kind, ip) = ethernet::payload(frame, |_| {}).ok_or(Unsplittable::Malformed)?;
        match kind {
            IPV4 => Self::ipv4(frame, ip),
            IPV6 => Self::ipv6(frame, ip),
            _ => Err(Unsplittable::Protocol),
        }
    }

    fn ipv4(frame: &[u8], ip: usize) -> Result<Self, Unsplittable> {
        let header: &[u8; IPV4_HEADER] =
            frame.get(ip..).and_then(<[u8]>::first_chunk).ok_or(Unsplittable::Malformed)?;
        let length = usize::from(header[0] & 0xf) * 4;
        // More fragments, or an offset.
        let is_fragment = header[IPV4_FRAGMENT] & 0x3f != 0 || header[IPV4_FRAGMENT + 1] != 0;
        if header[0] >> 4 != 4 || length < IPV4_HEADER || is_fragment {
            return Err(Unsplittable::Malformed);
        }
        Ok(Self { ip, is_v6: false, protocol: header[IPV4_PROTOCOL], transport: ip + length })
    }

    fn ipv6(frame: &[u8], ip: usize) -> Result<Self, Unsplittable> {
        let header: &[u8; IPV6_HEADER] =
            frame.get(ip..).and_then(<[u8]>::first_chunk).ok_or(Unsplittable::Malformed)?;
        if header[0] >> 4 != 6 {
            return Err(Unsplittable::Malformed);
        }
        let mut protocol = header[IPV6_NEXT];
        let mut transport = ip + IPV6_HEADER;
        for _ in 0..MAX_EXTENSIONS {
            if !matches!(protocol, HOP_BY_HOP | ROUTING | DESTINATION) {
                break;
            }
            let Some(&[next, units]) = frame.get(transport..).and_then(<[u8]>::first_chunk) else {
                return Err(Unsplittable::Malformed);
            };
            protocol = next;
            transport += 8 * (usize::from(units) + 1);
        }
        Ok(Self { ip, is_v6: true, protocol, transport })
    }

    /// End of the packet by its IP header, in bytes from the beginning of the frame. The frame may be cut off before.
    pub(super) fn end(&self, frame: &[u8]) -> Option<usize> {
        let (place, header) = if self.is_v6 { (IPV6_LENGTH, IPV6_HEADER) } else { (IPV4_LENGTH, 0) };
        Some(self.ip + header + usize::from(be16(frame, self.ip + place)?))
    }

    /// The sum of the pseudo-header without the length.
    pub(super) fn pseudo_header(&self, frame: &[u8]) -> u64 {
        let addresses = match self.is_v6 {
            true => self.ip + IPV6_ADDRESSES..self.ip + IPV6_HEADER,
            false => self.ip + IPV4_ADDRESSES..self.ip + IPV4_HEADER,
        };
        u64::from(checksum::sum(u64::from(self.protocol), &frame[addresses]))
    }
}

/// Returns true if `unfinished` is the checksum of the outermost TCP or UDP header of `frame`, which every kernel can
/// finish.
#[must_use]
pub(crate) fn is_of_transport(frame: &[u8], unfinished: Unfinished) -> bool {
    let offset = usize::from(unfinished.offset);
    Layout::from_frame(frame).is_ok_and(|layout| {
        usize::from(unfinished.start) == layout.transport
            && layout.transport + offset + 2 <= frame.len()
            && match layout.protocol {
                TCP => offset == TCP_CHECKSUM,
                UDP => offset == UDP_CHECKSUM,
                _ => false,
            }
    })
}

/// Parameters for splitting a super-frame; see the module. Small, so that packets can be written one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    layout: Layout,
    /// Beginning of the payload.
    payload: usize,
    /// Bytes of payload: total, and in each packet except the last.
    total: usize,
    size: usize,
    count: usize,
    /// Checksum field of each packet, without the length of the pseudo-header; `None` if the datagrams have no
    /// checksum.
    sum: Option<u64>,
}

impl Segments {
    /// Returns how to split `frame`, whose headers `header` describes, into packets of at most `longest` bytes
    /// including the Ethernet header.
    ///
    /// # Errors
    /// [`Unsplittable`]. Never panics, whatever the bytes are.
    pub fn from_frame(frame: &[u8], header: &VirtioHeader, longest: usize) -> Result<Self, Unsplittable> {
        Self::from_head(frame, frame.len(), header, longest)
    }

    /// As [`Segments::from_frame`], for a frame of `len` bytes whose first bytes are `frame`, all of its headers among
    /// them.
    ///
    /// # Errors
    /// [`Unsplittable`].
    pub(crate) fn from_head(
        frame: &[u8],
        len: usize,
        header: &VirtioHeader,
        longest: usize,
    ) -> Result<Self, Unsplittable> {
        if len > LONGEST {
            return Err(Unsplittable::TooLong);
        }
        let (version, protocol) = match header.kind & !JOINED_CWR {
            JOINED_TCP4 => (Some(false), TCP),
            JOINED_TCP6 => (Some(true), TCP),
            JOINED_UDP => (None, UDP),
            _ => return Err(Unsplittable::Protocol),
        };
        let layout = Layout::from_frame(frame)?;
        if layout.protocol != protocol || version.is_some_and(|is_v6| is_v6 != layout.is_v6) {
            let is_tunnel = TUNNELS.contains(&layout.protocol);
            return Err(if is_tunnel { Unsplittable::Tunnel } else { Unsplittable::Protocol });
        }
        let is_tcp = protocol == TCP;
        let transport = layout.transport;
        let (checksum, least) = if is_tcp { (TCP_CHECKSUM, TCP_HEADER) } else { (UDP_CHECKSUM, UDP_HEADER) };
        if let Some(unfinished) = header.unfinished() {
            if usize::from(unfinished.start) >= transport + least {
                return Err(Unsplittable::Tunnel);
            }
            if usize::from(unfinished.start) != transport || usize::from(unfinished.offset) != checksum {
                return Err(Unsplittable::Malformed);
            }
        }
        let bytes = frame.get(transport..).filter(|bytes| bytes.len() >= least).ok_or(Unsplittable::Malformed)?;
        let length = if is_tcp { usize::from(bytes[TCP_DATA_OFFSET] >> 4) * 4 } else { UDP_HEADER };
        let payload = transport + length;
        let size = usize::from(header.segment);
        if length < least || payload > frame.len().min(len) || size == 0 {
            return Err(Unsplittable::Malformed);
        }
        let total = len - payload;
        let count = total.div_ceil(size).max(1);
        let first = payload + size.min(total);
        let longest_by_ip = layout.ip + usize::from(u16::MAX) + if layout.is_v6 { IPV6_HEADER } else { 0 };
        if first > longest.min(longest_by_ip) || count > MOST_SEGMENTS {
            return Err(Unsplittable::TooLong);
        }
        let field = u64::from(u16::from_be_bytes([bytes[checksum], bytes[checksum + 1]]));
        let sum = match header.unfinished() {
            // The field has the pseudo-header's sum with the total length. Its addresses may differ from those of the
            // header if IPv6 has a routing header.
            Some(_) => {
                let all = if is_tcp { (len - transport) as u16 } else { u16::from_be_bytes([bytes[4], bytes[5]]) };
                Some(field + u64::from(!all))
            }
            None if !is_tcp && field == 0 => None,
            None => Some(layout.pseudo_header(frame)),
        };
        Ok(Self { layout, payload, total, size, count, sum })
    }

    /// Number of packets: 1 to [`MOST_SEGMENTS`].
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the bytes of the super-frame that packet `index` carries behind its headers.
    #[must_use]
    pub fn payload(&self, index: usize) -> Range<usize> {
        let start = (index * self.size).min(self.total);
        let end = (start + self.size).min(self.total);
        self.payload + start..self.payload + end
    }

    /// Returns the length of packet `index` in bytes, Ethernet header included.
    #[must_use]
    pub fn len(&self, index: usize) -> usize {
        self.payload + self.payload(index).len()
    }

    /// The checksum that is left unfinished in every packet.
    #[must_use]
    pub fn unfinished(&self) -> Option<Unfinished> {
        let offset = if self.layout.protocol == TCP { TCP_CHECKSUM } else { UDP_CHECKSUM };
        self.sum.map(|_| Unfinished { start: self.layout.transport as u16, offset: offset as u16 })
    }

    /// Writes packet `index` of `frame`, the super-frame that this was made for, to the beginning of `out`. Returns its
    /// length.
    ///
    /// # Panics
    /// If `index` is not below [`Segments::count`], `out` is shorter than the packet, or `frame` is another one.
    pub fn write(&self, frame: &[u8], index: usize, out: &mut [u8]) -> usize {
        assert!(index < self.count, "packet {index} of {}", self.count);
        let payload = self.payload;
        let own = self.payload(index);
        let len = payload + own.len();
        out[payload..len].copy_from_slice(&frame[own]);
        self.write_headers(frame, index, out);
        len
    }

    /// Writes the headers of packet `index` to the beginning of `out`. The first bytes of the super-frame are `frame`.
    /// Returns their length.
    ///
    /// # Panics
    /// As [`Segments::write`].
    pub(crate) fn write_headers(&self, frame: &[u8], index: usize, out: &mut [u8]) -> usize {
        let Self { layout, payload, count, .. } = *self;
        let (ip, transport) = (layout.ip, layout.transport);
        let len = self.len(index);
        let headers = &mut out[..payload];
        headers.copy_from_slice(&frame[..payload]);

        let put = |headers: &mut [u8], at: usize, value: u16| headers[at..at + 2].copy_from_slice(&value.to_be_bytes());
        // Checked at construction: each of these lengths fits.
        if layout.is_v6 {
            put(headers, ip + IPV6_LENGTH, (len - ip - IPV6_HEADER) as u16);
        } else {
            let at = ip + IPV4_IDENTIFICATION;
            let identification = u16::from_be_bytes([headers[at], headers[at + 1]]).wrapping_add(index as u16);
            put(headers, at, identification);
            put(headers, ip + IPV4_LENGTH, (len - ip) as u16);
            put(headers, ip + IPV4_CHECKSUM, 0);
            let sum = checksum::sum(0, &headers[ip..transport]);
            put(headers, ip + IPV4_CHECKSUM, !sum);
        }
        let length = (len - transport) as u16;
        let checksum = if layout.protocol == TCP {
            let at = transport + TCP_SEQUENCE;
            let before = [headers[at], headers[at + 1], headers[at + 2], headers[at + 3]];
            let sequence = u32::from_be_bytes(before).wrapping_add((index * self.size) as u32);
            headers[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
            let flags = &mut headers[transport + TCP_FLAGS];
            if index + 1 < count {
                *flags &= !(FIN | PSH);
            }
            if index > 0 {
                *flags &= !CWR;
            }
            TCP_CHECKSUM
        } else {
            put(headers, transport + UDP_LENGTH, length);
            UDP_CHECKSUM
        };
        if let Some(sum) = self.sum {
            put(headers, transport + checksum, checksum::fold(sum + u64::from(length)));
        }
        payload
    }
}

mod join;
#[cfg(test)]
mod tests;

pub use join::Origin;
pub(crate) use join::join;
