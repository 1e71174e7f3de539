//! Frames that the generator sends and the receiver recognizes. They have an Ethernet header, up to two VLAN tags, IPv4
//! or IPv6, UDP or TCP, and a stamp of [`STAMP`] bytes. Instead of IP they may have a separate EtherType. The stamp
//! holds the frame's class, its number in that class and the time of sending.
//!
//! The length of a frame, wherever traffic is generated, is that of the whole Ethernet frame without the frame check
//! sequence. A packet socket shows this length, and the kernel's queueing disciplines count it.
//!
//! The stamp is in network byte order: `"FL"` (2 bytes), number of the run (1), class (3), sequence number (4),
//! `CLOCK_MONOTONIC` in ns (8), `CLOCK_REALTIME` in us modulo 2^32 (4). It fits into the smallest Ethernet frames.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{LaxSlicedPacket, TransportSlice};
use fairlink_config::matching::{TCP, UDP, ethernet};
use fairlink_core::ClassId;

use crate::wire::checksum;

pub(crate) mod split;

/// Length of the stamp in bytes.
pub(crate) const STAMP: usize = 22;
/// Longest headers and stamp in bytes: enough of a frame to read the stamp.
pub const MAX_HEADERS: usize = ethernet::HEADER + 2 * ethernet::VLAN_TAG + 40 + 20 + STAMP;
/// Largest class that a stamp can carry.
pub const MAX_CLASS: u32 = (1 << 24) - 1;
/// Longest frame of the generator in bytes, VLAN tags included.
pub const MAX_FRAME: usize = 9_022;

const MAGIC: [u8; 2] = *b"FL";

/// Source and destination of a frame's IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4.
    V4(Ipv4Addr, Ipv4Addr),
    /// IPv6.
    V6(Ipv6Addr, Ipv6Addr),
}

/// The transport of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP: bare segments with the ACK flag, outside any connection.
    Tcp,
}

/// The headers that all frames of one class share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Destination, then source, of the Ethernet header.
    pub mac: ([u8; 6], [u8; 6]),
    /// Outer VLAN number, 0 to 4095; 802.1ad if there is an inner one, too, else 802.1Q.
    pub vlan: Option<u16>,
    /// Inner VLAN number, 0 to 4095; ignored without an outer one.
    pub inner_vlan: Option<u16>,
    /// EtherType of frames without IP: the stamp follows the Ethernet header. The fields below are used only if it is
    /// absent.
    pub bare: Option<u16>,
    /// Source and destination of the IP header.
    pub addresses: Addresses,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// UDP or TCP.
    pub transport: Transport,
    /// Source, then destination port.
    pub ports: (u16, u16),
}

/// Default destination of frames. It is locally administered, so that it belongs to no real interface.
pub const DEFAULT_DESTINATION: [u8; 6] = [0x02, 0x66, 0x6c, 0, 0, 2];
/// Default source of frames.
pub const DEFAULT_SOURCE: [u8; 6] = [0x02, 0x66, 0x6c, 0, 0, 1];

impl Headers {
    /// UDP over IPv4 to `port`, between addresses of the block reserved for benchmarks (RFC 2544, 198.18.0.0/15).
    #[must_use]
    pub fn udp(port: u16) -> Self {
        Self {
            mac: (DEFAULT_DESTINATION, DEFAULT_SOURCE),
            vlan: None,
            inner_vlan: None,
            bare: None,
            addresses: Addresses::V4(Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)),
            dscp: 0,
            transport: Transport::Udp,
            ports: (5000, port),
        }
    }
}

/// Contents of a frame's stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the generator's run, so that a new run does not look like reordering.
    pub run: u8,
    /// The class, at most [`MAX_CLASS`].
    pub class: ClassId,
    /// Number of the frame in its class and run, from 0, modulo 2^32.
    pub sequence: u32,
    /// Time of sending by the sender's `CLOCK_MONOTONIC`, in ns.
    pub monotonic_ns: u64,
    /// Time of sending by the sender's `CLOCK_REALTIME`, in us modulo 2^32.
    pub realtime_us: u32,
}

impl Stamp {
    fn to_bytes(self) -> [u8; STAMP] {
        let mut bytes = [0; STAMP];
        bytes[0..2].copy_from_slice(&MAGIC);
        bytes[2] = self.run;
        bytes[3..6].copy_from_slice(&self.class.0.to_be_bytes()[1..]);
        bytes[6..10].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.monotonic_ns.to_be_bytes());
        bytes[18..22].copy_from_slice(&self.realtime_us.to_be_bytes());
        bytes
    }

    /// Reads the stamp at the start of a payload; `None` if there is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; STAMP] = bytes.first_chunk()?;
        let (magic, rest) = bytes.split_first_chunk::<2>()?;
        if *magic != MAGIC {
            return None;
        }
        let (&[run, c0, c1, c2], rest) = rest.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (monotonic, rest) = rest.split_first_chunk()?;
        let (realtime, _) = rest.split_first_chunk()?;
        Some(Self {
            run,
            class: ClassId(u32::from_be_bytes([0, c0, c1, c2])),
            sequence: u32::from_be_bytes(*sequence),
            monotonic_ns: u64::from_be_bytes(*monotonic),
            realtime_us: u32::from_be_bytes(*realtime),
        })
    }

    /// Reads the stamp of a generator's frame; `None` for any other. The frame may be cut off behind the stamp.
    #[must_use]
    pub fn read(frame: &[u8]) -> Option<Self> {
        let packet = LaxSlicedPacket::from_ethernet(frame).ok()?;
        match (&packet.transport, &packet.net) {
            (Some(TransportSlice::Udp(udp)), _) => Self::from_bytes(udp.payload()),
            (Some(TransportSlice::Tcp(tcp)), _) => Self::from_bytes(tcp.payload()),
            (None, None) => Self::from_bytes(packet.ether_payload()?.payload),
            _ => None,
        }
    }
}

/// Makes the frames of one class.
#[derive(Clone, Debug)]
pub struct FrameTemplate {
    /// All headers, lengths and checksums zero.
    headers: Vec<u8>,
    /// True if the stamp follows the Ethernet header; the fields below are unused then.
    bare: bool,
    ip: usize,
    transport: usize,
    is_tcp: bool,
    is_v6: bool,
}

impl FrameTemplate {
    /// Creates a template with these headers.
    #[must_use]
    pub fn new(headers: &Headers) -> Self {
        let mut bytes = Vec::with_capacity(MAX_HEADERS);
        bytes.extend(headers.mac.0);
        bytes.extend(headers.mac.1);
        if let Some(outer) = headers.vlan {
            let kind = if headers.inner_vlan.is_some() { ethernet::PROVIDER_VLAN } else { ethernet::VLAN };
            bytes.extend(kind.to_be_bytes());
            bytes.extend((outer & 0xfff).to_be_bytes());
            if let Some(inner) = headers.inner_vlan {
                bytes.extend(ethernet::VLAN.to_be_bytes());
                bytes.extend((inner & 0xfff).to_be_bytes());
            }
        }
        if let Some(ethertype) = headers.bare {
            bytes.extend(ethertype.to_be_bytes());
            let ip = bytes.len();
            return Self { headers: bytes, bare: true, ip, transport: ip, is_tcp: false, is_v6: false };
        }
        let protocol = if headers.transport == Transport::Tcp { TCP } else { UDP };
        let traffic_class = headers.dscp << 2;
        let is_v6 = matches!(headers.addresses, Addresses::V6(..));
        bytes.extend(if is_v6 { ethernet::IPV6 } else { ethernet::IPV4 }.to_be_bytes());
        let ip = bytes.len();
        match headers.addresses {
            Addresses::V4(source, destination) => {
                // Version and header length; lengths and checksum follow per frame; not to be fragmented; 64 hops.
                bytes.extend([0x45, traffic_class, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
            }
            Addresses::V6(source, destination) => {
                bytes.extend([0x60 | traffic_class >> 4, traffic_class << 4, 0, 0, 0, 0, protocol, 64]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
            }
        }
        let transport = bytes.len();
        bytes.extend(headers.ports.0.to_be_bytes());
        bytes.extend(headers.ports.1.to_be_bytes());
        match headers.transport {
            Transport::Udp => bytes.extend([0; 4]),
            // Sequence and acknowledgement 0; header length and the ACK flag; window; checksum and urgent pointer.
            Transport::Tcp => bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]),
        }
        Self { headers: bytes, bare: false, ip, transport, is_tcp: headers.transport == Transport::Tcp, is_v6 }
    }

    /// Length in bytes of the shortest frame that can carry the stamp: 36 for an EtherType alone, 64 for UDP over IPv4,
    /// without VLAN tags.
    #[must_use]
    pub fn min_len(&self) -> usize {
        self.headers.len() + STAMP
    }

    /// Bytes in front of the IP header.
    #[must_use]
    pub fn link_header(&self) -> usize {
        self.ip
    }

    /// Writes a frame with this stamp over `frame`, at its full length, with zeros behind the stamp. Bytes from
    /// [`MAX_HEADERS`] on are not written, so they must be zeros already.
    ///
    /// # Panics
    /// If `frame` is shorter than [`FrameTemplate::min_len`] or longer than [`MAX_FRAME`].
    pub fn write(&self, frame: &mut [u8], stamp: &Stamp) {
        assert!((self.min_len()..=MAX_FRAME).contains(&frame.len()), "frame of {} B", frame.len());
        let (start, payload) = (frame.len().min(MAX_HEADERS), self.headers.len());
        frame[..start].fill(0);
        frame[..payload].copy_from_slice(&self.headers);
        frame[payload..payload + STAMP].copy_from_slice(&stamp.to_bytes());
        self.seal(frame, payload + STAMP);
    }

    /// Writes lengths and checksums of a frame that has zeros from `end` on.
    fn seal(&self, frame: &mut [u8], end: usize) {
        if self.bare {
            return;
        }
        let whole = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
        let ip_len = whole(frame.len() - self.ip);
        let segment_len = whole(frame.len() - self.transport);
        if self.is_v6 {
            frame[self.ip + 4..self.ip + 6].copy_from_slice(&segment_len.to_be_bytes());
        } else {
            frame[self.ip + 2..self.ip + 4].copy_from_slice(&ip_len.to_be_bytes());
            let sum = checksum::sum(0, &frame[self.ip..self.transport]);
            frame[self.ip + 10..self.ip + 12].copy_from_slice(&(!sum).to_be_bytes());
        }
        let at = if self.is_tcp {
            self.transport + 16
        } else {
            frame[self.transport + 4..self.transport + 6].copy_from_slice(&segment_len.to_be_bytes());
            self.transport + 6
        };
        // The pseudo header: addresses, protocol, length (RFC 768, RFC 8200 Section 8.1). Zeros behind the end add
        // nothing.
        let addresses = if self.is_v6 { self.ip + 8 } else { self.ip + 12 };
        let protocol = u64::from(if self.is_tcp { TCP } else { UDP });
        let pseudo = checksum::sum(protocol + u64::from(segment_len), &frame[addresses..self.transport]);
        let sum = !checksum::sum(u64::from(pseudo), &frame[self.transport..end]);
        // A UDP checksum of 0 would mean "none".
        let sum = if sum == 0 && !self.is_tcp { 0xffff } else { sum };
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Template for frames that represent packets of a simulation: headers and zeros.
#[derive(Clone, Debug)]
pub struct PlainFrames(FrameTemplate);

impl PlainFrames {
    /// Frames with these headers.
    #[must_use]
    pub fn new(headers: &Headers) -> Self {
        Self(FrameTemplate::new(headers))
    }

    /// Frames of an EtherType for experiments (IEEE 802, 0x88b5), without IP.
    #[must_use]
    pub fn bare() -> Self {
        Self::new(&Headers { bare: Some(0x88b5), ..Headers::udp(0) })
    }

    /// Writes a frame over `frame`, which holds zeros. A frame shorter than its headers gets their first bytes. The
    /// length fields of IP and UDP saturate at 65,535 B.
    pub fn write(&self, frame: &mut [u8]) {
        let Self(template) = self;
        let headers = template.headers.len();
        if frame.len() >= headers {
            frame[..headers].copy_from_slice(&template.headers);
            template.seal(frame, headers);
        } else {
            let mut whole = template.headers.clone();
            template.seal(&mut whole, headers);
            frame.copy_from_slice(&whole[..frame.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, SlicedPacket};
    use proptest::prelude::*;

    fn stamp(class: u32, sequence: u32) -> Stamp {
        Stamp { run: 7, class: ClassId(class), sequence, monotonic_ns: 0x0123_4567_89ab_cdef, realtime_us: 0xfeed_beef }
    }

    #[test]
    fn the_smallest_frame_of_64_bytes_carries_the_stamp() {
        let template = FrameTemplate::new(&Headers::udp(5001));
        assert_eq!(template.min_len(), 64);
        let mut frame = [0; 64];
        template.write(&mut frame, &stamp(MAX_CLASS, u32::MAX));
        assert_eq!(Stamp::read(&frame), Some(stamp(MAX_CLASS, u32::MAX)));
        // A frame cut off behind the stamp is still recognized.
        let mut frame = [0; 1514];
        template.write(&mut frame, &stamp(3, 9));
        assert_eq!(Stamp::read(&frame[..MAX_HEADERS]), Some(stamp(3, 9)));
    }

    fn headers() -> impl Strategy<Value = Headers> {
        let addresses = prop_oneof![
            any::<(u32, u32)>().prop_map(|(a, b)| Addresses::V4(Ipv4Addr::from(a), Ipv4Addr::from(b))),
            any::<(u128, u128)>().prop_map(|(a, b)| Addresses::V6(Ipv6Addr::from(a), Ipv6Addr::from(b))),
        ];
        let vlan = proptest::option::of(0u16..4096);
        (any::<([u8; 6], [u8; 6])>(), vlan.clone(), vlan, addresses, 0u8..64, any::<bool>(), any::<(u16, u16)>())
            .prop_map(|(mac, vlan, inner_vlan, addresses, dscp, tcp, ports)| Headers {
                mac,
                vlan,
                inner_vlan: vlan.and(inner_vlan),
                bare: None,
                addresses,
                dscp,
                transport: if tcp { Transport::Tcp } else { Transport::Udp },
                ports,
            })
    }

    #[test]
    fn a_frame_of_a_simulated_packet_has_any_length() {
        let plain = PlainFrames::new(&Headers::udp(5001));
        for len in [0usize, 13, 14, 41, 42, 60, 1514, 70_000] {
            let mut frame = vec![0; len];
            plain.write(&mut frame);
            if (42..65_000).contains(&len) {
                let packet = SlicedPacket::from_ethernet(&frame).unwrap();
                let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("no UDP") };
                assert_eq!((udp.destination_port(), udp.payload().len()), (5001, len - 42));
            }
        }
        let mut frame = [0; 60];
        PlainFrames::bare().write(&mut frame);
        assert_eq!(frame[12..16], [0x88, 0xb5, 0, 0]);
    }

    proptest! {
        #[test]
        fn frames_are_what_they_say_and_their_checksums_hold(
            headers in headers(), longer in 0usize..1500, class in 0..=MAX_CLASS, sequence: u32, dirt: u8
        ) {
            let template = FrameTemplate::new(&headers);
            let mut frame = vec![0; template.min_len() + longer];
            let kept = frame.len().min(MAX_HEADERS);
            frame[..kept].fill(dirt);
            template.write(&mut frame, &stamp(class, sequence));
            prop_assert_eq!(Stamp::read(&frame), Some(stamp(class, sequence)));
            let packet = SlicedPacket::from_ethernet(&frame).unwrap();
            let vlans: Vec<u16> = packet.vlan_ids().iter().map(|id| id.value()).collect();
            prop_assert_eq!(vlans, headers.vlan.into_iter().chain(headers.inner_vlan).collect::<Vec<_>>());
            let transport = packet.transport.unwrap();
            let (ports, sum) = match (&transport, headers.transport) {
                (TransportSlice::Udp(udp), Transport::Udp) => ((udp.source_port(), udp.destination_port()), udp.checksum()),
                (TransportSlice::Tcp(tcp), Transport::Tcp) => ((tcp.source_port(), tcp.destination_port()), tcp.checksum()),
                _ => panic!("another transport"),
            };
            prop_assert_eq!(ports, headers.ports);
            let expected = match packet.net.unwrap() {
                NetSlice::Ipv4(ip) => {
                    let header = ip.header();
                    prop_assert_eq!(Addresses::V4(header.source_addr(), header.destination_addr()), headers.addresses);
                    prop_assert_eq!(header.dcp().value(), headers.dscp);
                    prop_assert_eq!(usize::from(header.total_len()), frame.len() - template.link_header());
                    prop_assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
                    match &transport {
                        TransportSlice::Udp(udp) => {
                            udp.to_header().calc_checksum_ipv4(&header.to_header(), udp.payload()).unwrap()
                        }
                        TransportSlice::Tcp(tcp) => tcp.calc_checksum_ipv4(header.source(), header.destination()).unwrap(),
                        _ => panic!("another transport"),
                    }
                }
                NetSlice::Ipv6(ip) => {
                    let header = ip.header();
                    prop_assert_eq!(Addresses::V6(header.source_addr(), header.destination_addr()), headers.addresses);
                    prop_assert_eq!(header.traffic_class() >> 2, headers.dscp);
                    match &transport {
                        TransportSlice::Udp(udp) => {
                            udp.to_header().calc_checksum_ipv6(&header.to_header(), udp.payload()).unwrap()
                        }
                        TransportSlice::Tcp(tcp) => tcp.calc_checksum_ipv6(header.source(), header.destination()).unwrap(),
                        _ => panic!("another transport"),
                    }
                }
                NetSlice::Arp(_) => panic!("another protocol"),
            };
            prop_assert_eq!(sum, expected);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Stamp::read(&bytes);
        }

        #[test]
        fn a_damaged_frame_never_makes_the_reader_panic(
            headers in headers(), at in 0usize..MAX_HEADERS, with: u8, length in 0usize..200
        ) {
            let template = FrameTemplate::new(&headers);
            let mut frame = vec![0; 200];
            template.write(&mut frame, &stamp(1, 2));
            frame[at] = with;
            let _ = Stamp::read(&frame[..length]);
        }
    }

    #[test]
    fn a_frame_of_an_ethertype_of_its_own_carries_the_stamp_behind_its_header() {
        for (vlan, min) in [(None, 36), (Some(5), 40)] {
            let template = FrameTemplate::new(&Headers { bare: Some(0x88b5), vlan, ..Headers::udp(1) });
            assert_eq!((template.min_len(), template.link_header()), (min, min - STAMP));
            let mut frame = vec![7; 1000];
            template.write(&mut frame, &stamp(4, 5));
            assert_eq!(frame[min - STAMP - 2..min - STAMP], [0x88, 0xb5]);
            assert_eq!(Stamp::read(&frame), Some(stamp(4, 5)));
            assert_eq!(Stamp::read(&frame[..min]), Some(stamp(4, 5)));
            assert_eq!(Stamp::read(&frame[..min - 1]), None);
        }
    }

    #[test]
    fn foreign_frames_have_no_stamp() {
        let mut frame = [0; 100];
        FrameTemplate::new(&Headers::udp(5001)).write(&mut frame, &stamp(1, 2));
        frame[42] = b'G';
        assert_eq!(Stamp::read(&frame), None);
        assert_eq!(Stamp::read(&[0xff; 60]), None);
    }
}
