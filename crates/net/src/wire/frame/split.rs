//! Splits a UDP packet longer than an interface's MTU into the fragments of one IP datagram (RFC 791, Section 3.2; RFC
//! 8200, Section 4.5).
//!
//! The payload is the stamp and then numbers: payload offset 2n holds the 16 bits of n, so that the receiver detects a
//! byte in a wrong place. The UDP checksum is over the whole datagram.

use fairlink_config::matching::UDP;

use super::{FrameTemplate, MAX_FRAME, STAMP, Stamp};
use crate::wire::checksum;

/// Length of a UDP header in bytes.
const UDP_HEADER: usize = 8;
/// Length of IPv6's fragment header in bytes.
const FRAGMENT_HEADER: usize = 8;
/// Its number as a next header.
const FRAGMENT: u8 = 44;
/// Longest IPv4 packet, and longest payload of an IPv6 one.
const MAX_IP: usize = u16::MAX as usize;

/// Fragmentation of a class's packets on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of the datagram in each fragment but the last, a multiple of 8.
    unit: usize,
    /// Length in bytes of the longest packet, as a whole frame.
    pub max: usize,
}

impl FrameTemplate {
    /// Returns the fragmentation of packets with these headers for an interface with this MTU. Returns `None` if they
    /// are not UDP, or if the first fragment cannot hold the UDP header and the stamp.
    pub fn cut(&self, mtu: usize) -> Option<Cut> {
        let ip_headers = self.transport - self.ip + if self.is_v6 { FRAGMENT_HEADER } else { 0 };
        let mtu = mtu.min(MAX_FRAME - self.ip);
        let unit = mtu.checked_sub(ip_headers)? / 8 * 8;
        let max = if self.is_v6 { self.transport } else { self.ip } + MAX_IP;
        (!self.bare && !self.is_tcp && unit >= UDP_HEADER + STAMP).then_some(Cut { unit, max })
    }

    /// Number of fragments of a packet whose whole frame would have `len` bytes.
    pub fn fragments(&self, len: usize, cut: Cut) -> usize {
        (len - self.transport).div_ceil(cut.unit)
    }

    /// Writes the fragments of a packet of frame length `len` into the slots of `stride` bytes in `frames`, one each.
    /// `id` distinguishes datagrams between the same addresses; IPv4 carries its low 16 bits. Calls `written` with the
    /// length of each frame.
    ///
    /// # Panics
    /// If `len` is outside [`FrameTemplate::min_len`] to `cut.max`, or the slots are too few or too short.
    pub fn write_fragments(
        &self,
        (len, cut): (usize, Cut),
        id: u32,
        stamp: &Stamp,
        (frames, stride): (&mut [u8], usize),
        mut written: impl FnMut(usize),
    ) {
        assert!((self.min_len()..=cut.max).contains(&len), "packet of {len} B");
        let whole = len - self.transport;
        let head = self.datagram_head(whole, stamp);
        let count = self.fragments(len, cut);
        for (place, frame) in frames.chunks_mut(stride).take(count).enumerate() {
            let from = place * cut.unit;
            let part = from..(from + cut.unit).min(whole);
            let content = self.write_ip_header(frame, &part, part.end < whole, id);
            let end = content + part.len();
            for (byte, at) in frame[content..end].iter_mut().zip(part) {
                *byte = head.get(at).copied().unwrap_or_else(|| payload_byte(at - UDP_HEADER));
            }
            written(end);
        }
    }

    /// UDP header and stamp of a datagram of `whole` bytes, with its checksum.
    fn datagram_head(&self, whole: usize, stamp: &Stamp) -> [u8; UDP_HEADER + STAMP] {
        let mut head = [0; UDP_HEADER + STAMP];
        head[..4].copy_from_slice(&self.headers[self.transport..self.transport + 4]);
        head[4..6].copy_from_slice(&(whole as u16).to_be_bytes());
        head[UDP_HEADER..].copy_from_slice(&stamp.to_bytes());
        let addresses = if self.is_v6 { self.ip + 8 } else { self.ip + 12 };
        let pseudo = u64::from(UDP) + whole as u64;
        let sum = u64::from(checksum::sum(pseudo, &self.headers[addresses..self.transport]));
        let sum = u64::from(checksum::sum(sum, &head));
        // The payload behind the stamp; a single last byte is the first of a pair.
        let (first, end) = (STAMP / 2, whole - UDP_HEADER);
        let words = (first as u64..end as u64 / 2).sum::<u64>();
        let last = if end % 2 == 1 { u64::from(payload_byte(end - 1)) << 8 } else { 0 };
        // A checksum of 0 would mean "none".
        let sum = match !checksum::fold(sum + words + last) {
            0 => 0xffff,
            sum => sum,
        };
        head[6..8].copy_from_slice(&sum.to_be_bytes());
        head
    }

    /// Writes the headers of the fragment that carries `part` of its datagram. Returns the position of its content.
    fn write_ip_header(&self, frame: &mut [u8], part: &std::ops::Range<usize>, more: bool, id: u32) -> usize {
        let (ip, end) = (self.ip, self.transport);
        frame[..end].copy_from_slice(&self.headers[..end]);
        let units = (part.start / 8) as u16;
        if !self.is_v6 {
            let length = (end - ip + part.len()) as u16;
            frame[ip + 2..ip + 4].copy_from_slice(&length.to_be_bytes());
            frame[ip + 4..ip + 6].copy_from_slice(&(id as u16).to_be_bytes());
            let place = units | if more { 0x2000 } else { 0 };
            frame[ip + 6..ip + 8].copy_from_slice(&place.to_be_bytes());
            let sum = !checksum::sum(0, &frame[ip..end]);
            frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            return end;
        }
        let length = (FRAGMENT_HEADER + part.len()) as u16;
        frame[ip + 4..ip + 6].copy_from_slice(&length.to_be_bytes());
        frame[ip + 6] = FRAGMENT;
        frame[end..end + 2].copy_from_slice(&[UDP, 0]);
        frame[end + 2..end + 4].copy_from_slice(&(units << 3 | u16::from(more)).to_be_bytes());
        frame[end + 4..end + 8].copy_from_slice(&id.to_be_bytes());
        end + FRAGMENT_HEADER
    }
}

/// The byte at this offset of the payload, behind the stamp.
fn payload_byte(at: usize) -> u8 {
    ((at / 2) as u16).to_be_bytes()[at % 2]
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use etherparse::defrag::IpDefragPool;
    use etherparse::{Ipv4Header, Ipv6Header, LaxSlicedPacket, UdpHeader};
    use fairlink_core::ClassId;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::frame::{Addresses, Headers, Transport};
    use fairlink_config::matching::frame_headers;

    const STAMPED: Stamp =
        Stamp { run: 7, class: ClassId(3), sequence: 9, monotonic_ns: 0x0123_4567_89ab_cdef, realtime_us: 0xfeed_beef };

    fn headers(v6: bool, vlan: Option<u16>) -> Headers {
        let v6 = v6.then(|| Addresses::V6(Ipv6Addr::from(1u128 << 90 | 5), Ipv6Addr::from(1u128 << 91 | 6)));
        let v4 = Addresses::V4(Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::new(10, 4, 5, 6));
        Headers { vlan, addresses: v6.unwrap_or(v4), dscp: 46, ..Headers::udp(5001) }
    }

    fn fragments(headers: &Headers, len: usize, mtu: usize) -> Vec<Vec<u8>> {
        let template = FrameTemplate::new(headers);
        let cut = template.cut(mtu).unwrap();
        let stride = template.link_header() + mtu;
        let count = template.fragments(len, cut);
        let mut slots = vec![0xee; count * stride];
        let mut lengths = Vec::new();
        template.write_fragments((len, cut), 0x0102_0304, &STAMPED, (&mut slots, stride), |len| lengths.push(len));
        slots.chunks(stride).zip(lengths).map(|(slot, len)| slot[..len].to_vec()).collect()
    }

    proptest! {
        #[test]
        fn another_library_reassembles_the_datagram_and_finds_its_checksum_right(
            v6: bool, vlan in proptest::option::of(0u16..4096), len in 106usize..65_000, mtu in 576usize..9_000
        ) {
            let headers = headers(v6, vlan);
            let frames = fragments(&headers, len, mtu);
            let link = FrameTemplate::new(&headers).link_header();
            prop_assert!(frames.iter().all(|frame| frame.len() <= link + mtu));
            let mut pool = IpDefragPool::<(), ()>::new();
            let mut whole = None;
            for frame in &frames {
                prop_assert!(whole.is_none(), "more after the last");
                let packet = etherparse::SlicedPacket::from_ethernet(frame).unwrap();
                whole = pool.process_sliced_packet(&packet, (), ()).unwrap();
            }
            if frames.len() > 1 {
                let datagram = whole.unwrap().payload;
                let template = FrameTemplate::new(&headers);
                prop_assert_eq!(datagram.len(), len - template.transport);
                let (udp, payload) = UdpHeader::from_slice(&datagram).unwrap();
                prop_assert_eq!((udp.destination_port, usize::from(udp.length)), (5001, datagram.len()));
                prop_assert_eq!(Stamp::from_bytes(payload), Some(STAMPED));
                prop_assert!((STAMP..payload.len()).all(|at| payload[at] == ((at / 2) as u16).to_be_bytes()[at % 2]));
                let expected = match headers.addresses {
                    Addresses::V4(from, to) => {
                        let ip = Ipv4Header::new(0, 64, etherparse::IpNumber::UDP, from.octets(), to.octets()).unwrap();
                        udp.calc_checksum_ipv4(&ip, payload).unwrap()
                    }
                    Addresses::V6(from, to) => {
                        let ip = Ipv6Header { source: from.octets(), destination: to.octets(), ..Ipv6Header::default() };
                        udp.calc_checksum_ipv6(&ip, payload).unwrap()
                    }
                };
                prop_assert_eq!(udp.checksum, expected);
            }
        }
    }

    #[test]
    fn every_fragment_says_its_place_and_ipv4_headers_have_right_checksums() {
        for v6 in [false, true] {
            // 15,000 B of payload and the headers of one frame.
            let len = 15_000 + if v6 { 62 } else { 42 };
            let frames = fragments(&headers(v6, None), len, 1500);
            // 15,008 B in parts of 1480 and 1448 B.
            assert_eq!(frames.len(), 11);
            let unit = if v6 { 1448 } else { 1480 };
            for (n, frame) in frames.iter().enumerate() {
                let read = frame_headers(frame).fragment.unwrap();
                let id = if v6 { 0x0102_0304 } else { 0x0304 };
                assert_eq!((read.id, read.proto, read.more, read.end), (id, UDP, n < 10, frame.len()));
                assert_eq!(usize::from(read.offset) * 8, n * unit);
                assert_eq!(read.end - read.content, if n < 10 { unit } else { 15_008 - 10 * unit });
                if let Some(etherparse::LaxNetSlice::Ipv4(ip)) = LaxSlicedPacket::from_ethernet(frame).unwrap().net {
                    assert!(!ip.header().dont_fragment());
                    assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
                }
            }
        }
    }

    #[test]
    fn what_is_not_udp_or_leaves_no_room_for_the_stamp_is_not_cut() {
        let cut = |headers: &Headers, mtu| FrameTemplate::new(headers).cut(mtu);
        let tcp = Headers { transport: Transport::Tcp, ..headers(false, None) };
        assert_eq!([cut(&tcp, 1500), cut(&Headers { bare: Some(0x88b5), ..tcp }, 1500)], [None; 2]);
        assert_eq!([cut(&headers(false, None), 51), cut(&headers(true, None), 79)], [None; 2]);
        assert_eq!(cut(&headers(false, None), 52), Some(Cut { unit: 32, max: 14 + 65_535 }));
        assert_eq!(cut(&headers(true, Some(5)), 80), Some(Cut { unit: 32, max: 58 + 65_535 }));
    }
}
