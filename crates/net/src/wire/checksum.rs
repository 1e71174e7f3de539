//! The Internet checksum (RFC 1071).

/// The one's complement sum of `bytes` and `sum`. Bytes are summed in pairs; a last one alone counts as the first of a pair.
/// There may be up to 2^32 bytes.
pub(crate) fn sum(sum: u64, bytes: &[u8]) -> u16 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let all = pairs.iter().fold(sum, |sum, pair| sum + u64::from(u16::from_be_bytes(*pair)));
    fold(all + rest.first().map_or(0, |&byte| u64::from(byte) << 8))
}

/// `sum` with its carries added in, which 16 bits then hold.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Sums `bytes` from `start` on and puts the checksum at `offset` after `start`, where the sender has left the sum of the
/// pseudo-header. Returns whether those places are inside the packet. If not, nothing is changed.
pub(crate) fn complete(bytes: &mut [u8], start: u16, offset: u16) -> bool {
    let Some(covered) = bytes.get_mut(usize::from(start)..) else { return false };
    let place = usize::from(offset);
    if place + 2 > covered.len() {
        return false;
    }
    // A checksum of zero means "none" to UDP, so that its other form is sent (RFC 768).
    let checksum = match !sum(0, covered) {
        0 => 0xffff,
        checksum => checksum,
    };
    covered[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_checksum_is_completed_from_the_pseudo_header_left_in_its_place() {
        // UDP 10.0.0.1:4660 -> 10.0.0.2:22136, 3 bytes of payload; pseudo-header: addresses, protocol 17, length 11.
        let mut packet = vec![0x12, 0x34, 0x56, 0x78, 0x00, 0x0b, 0, 0, b'a', b'b', b'c'];
        let pseudo: u64 = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 17 + 11;
        packet[6..8].copy_from_slice(&(pseudo as u16).to_be_bytes());
        let mut framed = vec![0xee; 34];
        framed.extend(&packet);
        assert!(complete(&mut framed, 34, 6));
        // A receiver sums everything, pseudo-header included, and must find all ones.
        let mut sum = pseudo;
        for pair in framed[34..].chunks(2) {
            sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u64::from(b));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        assert_eq!(sum, 0xffff);
        assert!(framed[..34].iter().all(|&byte| byte == 0xee));
    }

    #[test]
    fn a_checksum_that_comes_out_as_zero_is_sent_as_all_ones() {
        let mut packet = [0xff, 0xff, 0, 0];
        assert!(complete(&mut packet, 0, 2));
        assert_eq!(packet[2..], [0xff, 0xff]);
    }

    #[test]
    fn a_checksum_outside_the_packet_is_refused() {
        let mut packet = [0u8; 10];
        assert!(!complete(&mut packet, 11, 0));
        assert!(!complete(&mut packet, 4, 5));
        assert!(!complete(&mut packet, u16::MAX, u16::MAX));
        assert!(complete(&mut packet, 4, 4));
    }
}
