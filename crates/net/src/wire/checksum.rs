//! The Internet checksum (RFC 1071), and SCTP's CRC32c (RFC 9260, Appendix A).

/// A checksum left to hardware. It covers the packet from `start` on, and its field is `offset` bytes behind that.
/// Until the checksum is computed, the field holds the sum of the pseudo-header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// First byte that it covers.
    pub start: u16,
    /// Position of the field, relative to `start`.
    pub offset: u16,
}

/// One's complement sum of `bytes` and `sum`. Bytes are summed in pairs; a single last one counts as the first of a
/// pair. There may be up to 2^32 bytes.
pub(crate) fn sum(sum: u64, bytes: &[u8]) -> u16 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let all = pairs.iter().fold(sum, |sum, pair| sum + u64::from(u16::from_be_bytes(*pair)));
    fold(all + rest.first().map_or(0, |&byte| u64::from(byte) << 8))
}

/// Folds the carries of `sum` into 16 bits.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Position of the checksum in SCTP's header. No other protocol has a checksum at this position, so that it identifies
/// the algorithm.
const SCTP_OFFSET: u16 = 8;

/// Computes the checksum of `bytes` from `start` on and stores it at `offset` behind `start`. The sender has left the
/// sum of the pseudo-header there, or any value for SCTP, which has none. Returns false, and changes nothing, if the
/// positions are outside the packet.
#[must_use]
pub fn complete(bytes: &mut [u8], start: u16, offset: u16) -> bool {
    let Some(covered) = bytes.get_mut(usize::from(start)..) else { return false };
    let place = usize::from(offset);
    if offset == SCTP_OFFSET {
        let Some(field) = covered.get_mut(place..place + 4) else { return false };
        field.fill(0);
        let crc = crc32c(covered);
        covered[place..place + 4].copy_from_slice(&crc.to_le_bytes());
        return true;
    }
    if place + 2 > covered.len() {
        return false;
    }
    // In UDP a checksum of zero means "none", so that its other form is sent (RFC 768).
    let checksum = match !sum(0, covered) {
        0 => 0xffff,
        checksum => checksum,
    };
    covered[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// The CRC of `bytes` that SCTP and iSCSI use: Castagnoli's polynomial, the lowest bit first.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut crc = byte as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
                bit += 1;
            }
            table[byte] = crc;
            byte += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, &byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sctp_gets_its_own_checksum_over_the_whole_packet() {
        // The check value of CRC-32C, and those of RFC 3720, Appendix B.4.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(crc32c(&[0xff; 32]).to_le_bytes(), [0x43, 0xab, 0xa8, 0x62]);
        // Ports, tag, any value in the checksum field, and the beginning of an INIT ACK.
        let mut packet = vec![0xee; 34];
        packet.extend([0x13, 0x88, 0x13, 0x89, 1, 2, 3, 4, 9, 9, 9, 9, 2, 0, 0, 20, 7, 7, 7, 7]);
        let before = packet.clone();
        assert!(complete(&mut packet, 34, 8));
        let mut zeroed = before[34..].to_vec();
        zeroed[8..12].fill(0);
        assert_eq!(packet[42..46], crc32c(&zeroed).to_le_bytes());
        assert_eq!((&packet[..42], &packet[46..]), (&before[..42], &before[46..]));
        // Three of the four bytes are not enough.
        let mut short = before[..45].to_vec();
        assert!(!complete(&mut short, 34, 8));
        assert_eq!(short, before[..45]);
    }

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
