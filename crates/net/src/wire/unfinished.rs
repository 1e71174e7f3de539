//! Detects checksums left to hardware if the kernel does not report them.
//!
//! A frame sent over a veth by another system on the same machine carries the sum of the pseudo-header in its checksum
//! field. A packet socket reports this with each frame; XDP does not. So the field is compared with that sum. If they
//! are equal, the checksum is taken for unfinished.
//!
//! A finished checksum has that value once in 65,536. Finishing it again is harmless. Let P be the sum of the
//! pseudo-header, and S that of the packet with P in the field. The packet is right if P + S = 0 in one's complement,
//! and finishing it writes -S, which is then P: the bytes stay as they are.
//!
//! DIFFERENCE: the packet ends where its IP header says. The kernel's own offload also sums the padding behind it, but
//! a frame from a wire may have any bytes there.

use fairlink_config::matching::{TCP, UDP, ethernet::be16};

use crate::wire::checksum::{self, Unfinished};
use crate::wire::segments::Layout;

/// SCTP, whose checksum is a CRC over the packet. A sender that leaves it to hardware stores zero.
const SCTP: u8 = 132;

const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
const SCTP_CHECKSUM: u16 = 8;

/// A checksum to be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finishing {
    /// Position of the checksum.
    pub(crate) place: Unfinished,
    /// End of the covered packet, in bytes from the beginning of the frame.
    pub(crate) end: usize,
}

/// Finds the unfinished checksum of `frame`, if there is one: of TCP, UDP or SCTP over IPv4 or IPv6, in any VLAN tags.
pub(crate) fn find(frame: &[u8]) -> Option<Finishing> {
    let layout = Layout::from_frame(frame).ok()?;
    let offset = match layout.protocol {
        TCP => TCP_CHECKSUM,
        UDP => UDP_CHECKSUM,
        SCTP => SCTP_CHECKSUM,
        _ => return None,
    };
    let field = be16(frame, layout.transport + usize::from(offset))?;
    let end = layout.end(frame)?;
    let length = end.checked_sub(layout.transport)?;
    let needed = match layout.protocol {
        SCTP => frame.get(layout.transport + 8..layout.transport + 12)? == [0; 4],
        // Zero means "none" (RFC 768). No pseudo-header sums to zero.
        _ => field == checksum::fold(layout.pseudo_header(frame) + length as u64),
    };
    let place = Unfinished { start: u16::try_from(layout.transport).ok()?, offset };
    let whole = end <= frame.len() && length >= usize::from(offset) + if layout.protocol == SCTP { 4 } else { 2 };
    (needed && whole).then_some(Finishing { place, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    /// Frames of TCP and UDP over IPv4 and IPv6, with no, one and two tags and `payload`, finished; and the positions
    /// of the checksums.
    fn finished(payload: &[u8]) -> Vec<(Vec<u8>, Unfinished)> {
        let mut frames = Vec::new();
        for (v6, tcp, tags) in (0..12).map(|n| (n & 1 == 1, n & 2 == 2, n / 4)) {
            let mut frame = Vec::new();
            let builder = PacketBuilder::ethernet2([2; 6], [4; 6]);
            let (a, b) = ([10, 1, 2, 3], [192, 168, 250, 7]);
            let ip = if v6 { builder.ipv6([7; 16], [9; 16], 3) } else { builder.ipv4(a, b, 9) };
            match tcp {
                true => ip.tcp(5000, 443, 77, 99).write(&mut frame, payload).unwrap(),
                false => ip.udp(5000, 443).write(&mut frame, payload).unwrap(),
            }
            for _ in 0..tags {
                frame.splice(12..12, [0x81, 0, 0, 5]);
            }
            let start = 14 + 4 * tags + if v6 { 40 } else { 20 };
            frames.push((frame, Unfinished { start: start as u16, offset: if tcp { 16 } else { 6 } }));
        }
        frames
    }

    /// `frame` as a sender with checksum hardware leaves it.
    fn unfinished(frame: &[u8], place: Unfinished) -> Vec<u8> {
        let mut left = frame.to_vec();
        let layout = Layout::from_frame(frame).unwrap();
        let sum = checksum::fold(layout.pseudo_header(frame) + (frame.len() - layout.transport) as u64);
        let at = usize::from(place.start + place.offset);
        left[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        left
    }

    #[test]
    fn a_field_with_the_sum_of_the_pseudo_header_is_found_and_finishing_it_gives_the_checksum() {
        for length in [0, 1, 2, 17, 100, 1400] {
            let payload: Vec<u8> = (0..length).map(|n| (n * 31 + 7) as u8).collect();
            for (frame, place) in finished(&payload) {
                assert_eq!(find(&frame), None, "it is finished");
                let mut left = unfinished(&frame, place);
                assert_eq!(find(&left), Some(Finishing { place, end: frame.len() }));
                // Padding of a frame is not part of the packet.
                let mut padded = left.clone();
                padded.extend([0xaa; 5]);
                assert_eq!(find(&padded), Some(Finishing { place, end: frame.len() }));
                assert!(checksum::complete(&mut left, place.start, place.offset));
                assert_eq!(left, frame);
            }
        }
    }

    #[test]
    fn finishing_a_packet_that_is_right_and_happens_to_have_that_value_leaves_it_as_it_is() {
        // Tries two bytes of the payload until the checksum equals the sum of the pseudo-header.
        let mut found = 0;
        for value in 0..=u16::MAX {
            let payload = [value.to_be_bytes().as_slice(), &[1, 2, 3, 4]].concat();
            let mut frame = Vec::new();
            let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 1, 2, 3], [10, 0, 0, 9], 9);
            builder.udp(5000, 443).write(&mut frame, &payload).unwrap();
            if let Some(Finishing { place, end }) = find(&frame) {
                let before = frame.clone();
                assert!(checksum::complete(&mut frame[..end], place.start, place.offset));
                assert_eq!(frame, before);
                found += 1;
            }
        }
        assert_eq!(found, 1);
    }

    #[test]
    fn sctp_is_unfinished_where_its_checksum_is_zero() {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, SCTP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x13, 0x88, 0x13, 0x89, 1, 2, 3, 4, 0, 0, 0, 0, 2, 0, 0, 8, 7, 7, 7, 7]);
        let place = Unfinished { start: 34, offset: 8 };
        assert_eq!(find(&frame), Some(Finishing { place, end: 54 }));
        assert!(checksum::complete(&mut frame, 34, 8));
        assert_eq!(find(&frame), None);
    }

    #[test]
    fn datagrams_without_a_checksum_fragments_and_anything_else_are_left_alone() {
        let (frame, place) = finished(&[5; 30]).remove(0);
        let mut none = frame.clone();
        let at = usize::from(place.start + place.offset);
        none[at..at + 2].fill(0);
        assert_eq!(find(&none), None);
        let left = unfinished(&frame, place);
        let mut fragment = left.clone();
        fragment[20] = 0x20;
        assert_eq!(find(&fragment), None);
        for length in 0..left.len() {
            assert_eq!(find(&left[..length]), None, "cut off after {length}");
        }
        let mut numbers = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..100_000 {
            let mut frame = left.clone();
            for _ in 0..3 {
                numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (numbers >> 33) as usize % frame.len();
                frame[at] = (numbers >> 20) as u8;
            }
            if let Some(Finishing { place, end }) = find(&frame) {
                assert!(end <= frame.len());
                assert!(checksum::complete(&mut frame[..end], place.start, place.offset));
            }
        }
    }
}
