//! Parses the headers of a frame in one pass. Its bytes may have any content.
//!
//! Supported are Ethernet, VLAN tags (802.1Q, 802.1ad, the older 0x9100), PPPoE sessions (RFC 2516), IPv4 (RFC 791)
//! with options and fragments, IPv6 (RFC 8200) with extension headers, and the ports of TCP and UDP. The key has the
//! first two VLAN tags.
//!
//! Every read is checked and every loop is bounded. Headers that do not parse are left out of the key. So a truncated
//! frame can still be matched by its VLAN; if no match suffices, it belongs to the default class. A length field that
//! exceeds the frame is ignored and does not hide the headers that are present.
//!
//! Only the first fragment of a datagram has ports. The others can match on addresses, protocol and code point.

use super::{FrameKey, IpVersion, Mac, TCP, UDP, v4_mapped};

use super::ethernet::{self, IPV4, IPV6, PPP_IPV4, PPP_IPV6, PPPOE_SESSION, be16};

/// Most IPv6 extension headers walked over. If there are more, the protocol is the next one's number and there are no
/// ports.
const MAX_EXTENSIONS: usize = 8;

// IPv6 extension headers that another header follows (RFC 8200, RFC 4302).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// The headers of a frame, read in one walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameHeaders {
    /// Fields that matches compare.
    pub key: FrameKey,
    /// Offset of the IP header in bytes; `None` if the key has no IP version.
    pub ip: Option<usize>,
    /// Code point of explicit congestion notification (RFC 3168), 0 to 3; 0 without an IP header.
    pub ecn: u8,
    /// `None` for a whole packet, and if the headers are truncated before the fragment fields.
    pub fragment: Option<Fragment>,
}

/// The part of a datagram that a fragment carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Identification of the datagram: 16 bits of IPv4, 32 of IPv6.
    pub id: u32,
    /// Protocol of the datagram, as the fragment's header names it.
    pub proto: u8,
    /// Place of the content in the datagram, in units of 8 B; 0 for the first fragment.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// Offset of the content in the frame, in bytes.
    pub content: usize,
    /// Offset of the end of the content by the IP header, in bytes. It may lie behind the end of a frame that was cut,
    /// and before `content`.
    pub end: usize,
}

/// Returns the fields that matches compare of the Ethernet frame in `bytes`, of any content and length.
#[must_use]
#[inline]
pub fn frame_key(bytes: &[u8]) -> FrameKey {
    frame_headers(bytes).key
}

/// Reads the headers of the Ethernet frame in `bytes`, of any content and length.
#[must_use]
#[inline]
pub fn frame_headers(bytes: &[u8]) -> FrameHeaders {
    let mut headers = FrameHeaders::default();
    let key = &mut headers.key;
    let Some(&[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5]) = bytes.first_chunk::<12>() else { return headers };
    (key.dst_mac, key.src_mac) = (Some(Mac([d0, d1, d2, d3, d4, d5])), Some(Mac([s0, s1, s2, s3, s4, s5])));
    let mut tags = 0;
    let payload = ethernet::payload(bytes, |vlan| {
        match tags {
            0 => key.vlan = Some(vlan),
            1 => key.inner_vlan = Some(vlan),
            _ => {}
        }
        tags += 1;
    });
    let Some((kind, at)) = payload else { return headers };
    key.ethertype = Some(kind);
    match kind {
        IPV4 => ipv4(bytes, at, &mut headers),
        IPV6 => ipv6(bytes, at, &mut headers),
        PPPOE_SESSION => pppoe(bytes, at, &mut headers),
        _ => {}
    }
    headers
}

/// Returns the fields that matches compare of the bare IP packet in `bytes`, of any content and length.
#[must_use]
pub fn packet_key(bytes: &[u8]) -> FrameKey {
    let mut headers = FrameHeaders::default();
    match bytes.first().map(|first| first >> 4) {
        Some(4) => ipv4(bytes, 0, &mut headers),
        Some(6) => ipv6(bytes, 0, &mut headers),
        _ => {}
    }
    headers.key
}

fn pppoe(bytes: &[u8], at: usize, headers: &mut FrameHeaders) {
    // Version 1, type 1, code 0 (session data).
    if be16(bytes, at) != Some(0x1100) {
        return;
    }
    match be16(bytes, at + 6) {
        Some(PPP_IPV4) => ipv4(bytes, at + 8, headers),
        Some(PPP_IPV6) => ipv6(bytes, at + 8, headers),
        _ => {}
    }
}

#[inline]
fn ipv4(frame: &[u8], at: usize, headers: &mut FrameHeaders) {
    let bytes = frame.get(at..).unwrap_or_default();
    let Some(header) = bytes.first_chunk::<20>() else { return };
    let header_len = usize::from(header[0] & 0xf) * 4;
    if header[0] >> 4 != 4 || header_len < 20 || bytes.len() < header_len {
        return;
    }
    headers.ip = Some(at);
    headers.ecn = header[1] & 3;
    let key = &mut headers.key;
    key.version = Some(IpVersion::V4);
    key.dscp = header[1] >> 2;
    key.proto = header[9];
    key.src = v4_mapped([header[12], header[13], header[14], header[15]]);
    key.dst = v4_mapped([header[16], header[17], header[18], header[19]]);
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let place = u16::from_be_bytes([header[6], header[7]]);
    let (more, offset) = (place & 0x2000 != 0, place & 0x1fff);
    if more || offset != 0 {
        let id = u16::from_be_bytes([header[4], header[5]]).into();
        let (content, end) = (at + header_len, at + total);
        headers.fragment = Some(Fragment { id, proto: key.proto, offset, more, content, end });
    }
    if offset != 0 {
        return;
    }
    // Padding behind a short packet is not its payload. A total of 0 is what segmentation offload leaves.
    let end = if total == 0 { bytes.len() } else { total.min(bytes.len()) };
    ports(bytes.get(header_len..end).unwrap_or_default(), key);
}

#[inline]
fn ipv6(frame: &[u8], at: usize, headers: &mut FrameHeaders) {
    let bytes = frame.get(at..).unwrap_or_default();
    let Some(header) = bytes.first_chunk::<40>() else { return };
    if header[0] >> 4 != 6 {
        return;
    }
    headers.ip = Some(at);
    headers.ecn = header[1] >> 4 & 3;
    let key = &mut headers.key;
    key.version = Some(IpVersion::V6);
    key.dscp = (header[0] & 0xf) << 2 | header[1] >> 6;
    key.src.copy_from_slice(&header[8..24]);
    key.dst.copy_from_slice(&header[24..40]);
    key.proto = header[6];
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    // A length of 0 is a jumbogram's, or what segmentation offload leaves.
    let end = if length == 0 { bytes.len() } else { bytes.len().min(40 + length) };
    let mut rest = &bytes[40..end];
    for _ in 0..MAX_EXTENSIONS {
        let length = match (key.proto, rest) {
            (HOP_BY_HOP | ROUTING | DESTINATION, [_, units, ..]) => 8 * (usize::from(*units) + 1),
            (AUTHENTICATION, [_, units, ..]) => 4 * (usize::from(*units) + 2),
            (FRAGMENT, _) => 8,
            _ => break,
        };
        if rest.len() < length {
            return;
        }
        let fragment = (key.proto == FRAGMENT).then_some(rest);
        key.proto = rest[0];
        rest = &rest[length..];
        let Some(&[_, _, p0, p1, i0, i1, i2, i3, ..]) = fragment else { continue };
        let place = u16::from_be_bytes([p0, p1]);
        let (more, offset) = (place & 1 != 0, place >> 3);
        if more || offset != 0 {
            let (content, end) =
                (at + end - rest.len(), at + 40 + usize::from(u16::from_be_bytes([header[4], header[5]])));
            let id = u32::from_be_bytes([i0, i1, i2, i3]);
            headers.fragment.get_or_insert(Fragment { id, proto: key.proto, offset, more, content, end });
        }
        if offset != 0 {
            return;
        }
    }
    ports(rest, key);
}

#[inline]
fn ports(payload: &[u8], key: &mut FrameKey) {
    if matches!(key.proto, TCP | UDP)
        && let Some(&[a, b, c, d]) = payload.first_chunk::<4>()
    {
        key.sport = Some(u16::from_be_bytes([a, b]));
        key.dport = Some(u16::from_be_bytes([c, d]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::{PROVIDER_VLAN, VLAN};
    use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    /// Parses the key with an independent library; `None` if it stops at an error.
    fn by_library(bytes: &[u8]) -> Option<FrameKey> {
        let packet = SlicedPacket::from_ethernet(bytes).ok()?;
        let link = packet.link.as_ref()?;
        let etherparse::LinkSlice::Ethernet2(ethernet) = link else { return None };
        let mut key = FrameKey {
            src_mac: Some(Mac(ethernet.source())),
            dst_mac: Some(Mac(ethernet.destination())),
            ..FrameKey::default()
        };
        let mut ids = packet.vlan_ids().into_iter();
        key.vlan = ids.next().map(|id| id.value());
        key.inner_vlan = ids.next().map(|id| id.value());
        key.ethertype = Some(packet.ether_payload()?.ether_type.0);
        match packet.net? {
            NetSlice::Ipv4(ip) => {
                let header = ip.header();
                key.version = Some(IpVersion::V4);
                key.proto = header.protocol().0;
                key.dscp = header.dcp().value();
                key.src = v4_mapped(header.source());
                key.dst = v4_mapped(header.destination());
            }
            NetSlice::Ipv6(ip) => {
                key.version = Some(IpVersion::V6);
                key.proto = ip.payload().ip_number.0;
                key.dscp = ip.header().dscp().value();
                key.src = ip.header().source();
                key.dst = ip.header().destination();
            }
            NetSlice::Arp(_) => {}
        }
        match packet.transport {
            Some(TransportSlice::Udp(udp)) => {
                (key.sport, key.dport) = (Some(udp.source_port()), Some(udp.destination_port()));
            }
            Some(TransportSlice::Tcp(tcp)) => {
                (key.sport, key.dport) = (Some(tcp.source_port()), Some(tcp.destination_port()));
            }
            _ => {}
        }
        Some(key)
    }

    prop_compose! {
        fn frame()(
            tags in proptest::collection::vec((0u16..4096, any::<bool>()), 0..3),
            v6 in any::<bool>(), tcp in any::<bool>(),
            macs in any::<[u8; 12]>(),
            src in any::<[u8; 16]>(), dst in any::<[u8; 16]>(), sport: u16, dport: u16, dscp in 0u8..64,
            payload in proptest::collection::vec(any::<u8>(), 0..100),
            options in 0usize..4, extensions in proptest::collection::vec((0usize..3, 0u8..3), 0..4),
        ) -> Vec<u8> {
            let transport = |mut bytes: Vec<u8>| {
                bytes.extend(sport.to_be_bytes());
                bytes.extend(dport.to_be_bytes());
                if tcp {
                    bytes.extend([0; 8]);
                    bytes.extend([0x50, 0, 0, 0, 0, 0, 0, 0]);
                } else {
                    bytes.extend((8 + payload.len() as u16).to_be_bytes());
                    bytes.extend([0, 0]);
                }
                bytes.extend(&payload);
                bytes
            };
            let proto = if tcp { TCP } else { UDP };
            let mut frame = macs.to_vec();
            for &(id, provider) in &tags {
                frame.extend(if provider { PROVIDER_VLAN } else { VLAN }.to_be_bytes());
                frame.extend(id.to_be_bytes());
            }
            if v6 {
                frame.extend(IPV6.to_be_bytes());
                let kinds = [DESTINATION, ROUTING, DESTINATION];
                let mut body = Vec::new();
                let mut first = proto;
                for (index, &(kind, units)) in extensions.iter().enumerate() {
                    if index == 0 { first = kinds[kind]; }
                    let next = extensions.get(index + 1).map_or(proto, |&(kind, _)| kinds[kind]);
                    body.extend([next, units]);
                    body.resize(body.len() + 8 * (usize::from(units) + 1) - 2, 0);
                }
                let body = transport(body);
                frame.extend([0x60 | dscp >> 2, dscp << 6, 0, 0]);
                frame.extend((body.len() as u16).to_be_bytes());
                frame.extend([first, 64]);
                frame.extend(src);
                frame.extend(dst);
                frame.extend(body);
            } else {
                frame.extend(IPV4.to_be_bytes());
                let body = transport(Vec::new());
                let header_len = 20 + 4 * options;
                frame.extend([0x45 + options as u8, dscp << 2]);
                frame.extend(((header_len + body.len()) as u16).to_be_bytes());
                frame.extend([0, 0, 0, 0, 64, proto, 0, 0]);
                frame.extend(&src[..4]);
                frame.extend(&dst[..4]);
                frame.resize(frame.len() + 4 * options, 1);
                frame.extend(body);
            }
            frame
        }
    }

    proptest! {
        #[test]
        fn well_formed_frames_are_read_as_etherparse_reads_them(frame in frame()) {
            let key = frame_key(&frame);
            prop_assert!(key.version.is_some() && key.dport.is_some(), "{key:?}");
            prop_assert_eq!(Some(key), by_library(&frame));
        }

        #[test]
        fn damaged_frames_never_panic_and_agree_with_etherparse_where_it_sees_no_error(
            frame in frame(), changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            keep in any::<prop::sample::Index>(), cut in any::<bool>(),
        ) {
            let mut frame = frame;
            for (index, value) in changes {
                let index = index.index(frame.len());
                frame[index] = value;
            }
            if cut {
                frame.truncate(keep.index(frame.len() + 1));
            }
            let key = frame_key(&frame);
            if let Some(other) = by_library(&frame)
                && key.version.is_some()
            {
                prop_assert_eq!((key.vlan, key.inner_vlan), (other.vlan, other.inner_vlan));
                prop_assert_eq!((key.src_mac, key.dst_mac), (other.src_mac, other.dst_mac));
                prop_assert_eq!((key.version, key.src, key.dst, key.dscp), (other.version, other.src, other.dst, other.dscp));
                if other.dport.is_some() {
                    prop_assert_eq!((key.proto, key.sport, key.dport), (other.proto, other.sport, other.dport));
                }
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0usize..6) {
            let mut bytes = bytes;
            if let Some(place) = bytes.get_mut(12..14) {
                place.copy_from_slice(&[IPV4, IPV6, VLAN, PROVIDER_VLAN, PPPOE_SESSION, 0][kind].to_be_bytes());
            }
            let key = frame_key(&bytes);
            prop_assert!(key.dscp < 64 && key.vlan.is_none_or(|vlan| vlan < 4096));
            prop_assert!(key.dport.is_none() || key.version.is_some());
        }
    }

    #[test]
    fn later_fragments_show_no_ports() {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(1, 2)
            .write(&mut frame, &[0; 9])
            .unwrap();
        assert_eq!(frame_key(&frame).dport, Some(2));
        frame[20] |= 0x20;
        assert_eq!(frame_key(&frame).dport, Some(2), "the first fragment of several has the ports");
        frame[21] = 1;
        let key = frame_key(&frame);
        assert_eq!((key.proto, key.sport, key.dport), (UDP, None, None));

        let mut frame = vec![2; 12];
        frame.extend(IPV6.to_be_bytes());
        frame.extend([0x60, 0, 0, 0, 0, 16, FRAGMENT, 64]);
        frame.extend([7; 32]);
        frame.extend([UDP, 0, 0, 1, 0, 0, 0, 9]);
        frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        assert_eq!(frame_key(&frame).dport, Some(2));
        frame[57] = 8;
        let key = frame_key(&frame);
        assert_eq!((key.proto, key.sport, key.dport), (UDP, None, None));
    }

    #[test]
    fn padding_is_not_taken_for_ports() {
        let mut frame = vec![2; 12];
        frame.extend(IPV4.to_be_bytes());
        frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, UDP, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        frame.resize(60, 9);
        let key = frame_key(&frame);
        assert_eq!((key.proto, key.sport, key.dport), (UDP, None, None));
    }

    #[test]
    fn ip_inside_a_pppoe_session_is_seen() {
        let mut inner = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(1, 2)
            .write(&mut inner, &[0; 9])
            .unwrap();
        let mut frame = inner[..12].to_vec();
        frame.extend(PPPOE_SESSION.to_be_bytes());
        frame.extend([0x11, 0, 0, 7, 0, 40, 0, 0x21]);
        frame.extend(&inner[14..]);
        let ethertype = Some(PPPOE_SESSION);
        assert_eq!(frame_key(&frame), FrameKey { ethertype, ..frame_key(&inner) });
        frame[15] = 0xa7;
        assert_eq!(frame_key(&frame).version, None);
    }

    #[test]
    fn headers_without_end_are_given_up_on() {
        let mut inner = Vec::new();
        let addresses = ([10, 0, 0, 1], [10, 0, 0, 2]);
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4(addresses.0, addresses.1, 64)
            .udp(1, 2)
            .write(&mut inner, &[0; 9])
            .unwrap();
        for tags in 0..300 {
            let mut frame = inner[..12].to_vec();
            for _ in 0..tags {
                frame.extend([0x81, 0x00, 0, 5]);
            }
            frame.extend(&inner[12..]);
            let key = frame_key(&frame);
            assert_eq!(key.vlan, (tags >= 1).then_some(5));
            assert_eq!(key.inner_vlan, (tags >= 2).then_some(5));
            assert_eq!(key.dport, (tags <= 4).then_some(2), "{tags} tags");
            assert_eq!(key.ethertype, (tags <= 4).then_some(IPV4), "{tags} tags");
        }
        for extensions in 0..300 {
            let mut frame = vec![2; 12];
            frame.extend(IPV6.to_be_bytes());
            let length = 8 * extensions as u16 + 8;
            let first = if extensions == 0 { UDP } else { DESTINATION };
            frame.extend([0x60, 0, 0, 0, (length >> 8) as u8, length as u8, first, 64]);
            frame.extend([7; 32]);
            for left in (0..extensions).rev() {
                frame.extend([if left == 0 { UDP } else { DESTINATION }, 0, 0, 0, 0, 0, 0, 0]);
            }
            frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
            let key = frame_key(&frame);
            assert_eq!(key.dport, (extensions <= 8).then_some(2), "{extensions} extensions");
        }
    }
}
