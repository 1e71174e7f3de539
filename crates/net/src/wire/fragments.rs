//! Datagrams in fragments. Only the first fragment of a datagram has ports (RFC 791, RFC 8200), so that the others would fall into other classes and flows than
//! the first. The ports of first fragments are remembered for those that follow.
//!
//! The table has [`SLOTS`] slots of one datagram each, chosen by a salted hash, so that nobody outside can choose datagrams that displace a certain
//! one. A newer datagram of the same slot takes the place of the older. A fragment that comes before the first of its datagram, or after it was displaced, has no
//! ports, as without the table.

use std::hash::{BuildHasher, RandomState};

use fairlink_config::matching::FrameKey;

use crate::wire::ip_header::ip_header;

/// Datagrams that are remembered at a time.
pub(crate) const SLOTS: usize = 1024;
/// Most IPv6 extension headers walked over.
const MAX_EXTENSIONS: usize = 8;

/// What tells a datagram from others (RFC 791, Section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Datagram {
    src: [u8; 16],
    dst: [u8; 16],
    proto: u8,
    id: u32,
}

/// A datagram, and the ports of its first fragment.
type Slot = Option<(Datagram, Option<u16>, Option<u16>)>;

/// The ports of datagrams whose first fragment was seen.
#[derive(Debug)]
pub(crate) struct Fragments {
    slots: Vec<Slot>,
}

impl Fragments {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { slots: vec![None; SLOTS] }
    }

    /// Bytes that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&self.slots[..])
    }

    /// Gives the key of a later fragment the ports of its datagram, where they are known, and remembers those of a first fragment. `bytes` is the frame
    /// whose key it is, of any content.
    #[inline]
    pub(crate) fn complete(&mut self, key: &mut FrameKey, bytes: &[u8], salt: &RandomState) {
        let Some(FragmentHeader { id, offset, .. }) = FragmentHeader::read(bytes) else { return };
        let datagram = Datagram { src: key.src, dst: key.dst, proto: key.proto, id };
        let slot = &mut self.slots[salt.hash_one(datagram) as usize % SLOTS];
        match slot {
            _ if offset == 0 => *slot = Some((datagram, key.sport, key.dport)),
            Some((known, sport, dport)) if *known == datagram => (key.sport, key.dport) = (*sport, *dport),
            _ => {}
        }
    }
}

/// What the headers of a fragment say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentHeader {
    /// Where the IP header begins in the frame.
    pub ip: usize,
    /// 4 or 6.
    pub version: u8,
    /// Identification of the datagram: 16 bits of IPv4, 32 of IPv6.
    pub id: u32,
    /// Protocol of what the fragment carries a part of.
    pub proto: u8,
    /// Place of its content in the datagram, in units of 8 B; 0 for the first fragment.
    pub offset: u16,
    /// Whether more fragments follow this one.
    pub more: bool,
    /// Where its content begins in the frame.
    pub content: usize,
    /// Where its content ends in the frame, as the IP header says: it may be behind the end of what was kept of the frame, and before `content`.
    pub end: usize,
}

impl FragmentHeader {
    /// Reads the headers of the frame in `bytes`, of any content; `None` where it is no fragment, or its headers are cut off.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let be16 = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        let (ip, version) = ip_header(bytes)?;
        if version == 4 {
            let place = be16(ip + 6)?;
            let more = place & 0x2000 != 0;
            if place & 0x3fff == 0 {
                return None;
            }
            let content = ip + 4 * usize::from(*bytes.get(ip)? & 15);
            let (id, proto) = (be16(ip + 4)?.into(), *bytes.get(ip + 9)?);
            let end = ip + usize::from(be16(ip + 2)?);
            return Some(Self { ip, version, id, proto, offset: place & 0x1fff, more, content, end });
        }
        let (mut next, mut at) = (*bytes.get(ip + 6)?, ip + 40);
        for _ in 0..MAX_EXTENSIONS {
            let units = usize::from(*bytes.get(at + 1)?);
            match next {
                // Hop by hop, routing, destination.
                0 | 43 | 60 => (next, at) = (*bytes.get(at)?, at + 8 * (units + 1)),
                // Authentication.
                51 => (next, at) = (*bytes.get(at)?, at + 4 * (units + 2)),
                44 => {
                    let (place, more) = (be16(at + 2)? & 0xfff8, be16(at + 2)? & 1 != 0);
                    if place == 0 && !more {
                        return None;
                    }
                    let id = u32::from(be16(at + 4)?) << 16 | u32::from(be16(at + 6)?);
                    let (proto, end) = (*bytes.get(at)?, ip + 40 + usize::from(be16(ip + 4)?));
                    return Some(Self { ip, version, id, proto, offset: place >> 3, more, content: at + 8, end });
                }
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use fairlink_config::matching::{UDP, frame_key};

    use super::*;

    /// A fragment of an IPv4 datagram of UDP from 10.0.0.`host`: `offset` in units of 8 B.
    fn v4(host: u8, id: u16, offset: u16, more: bool) -> Vec<u8> {
        let mut frame = [[2; 12].as_slice(), &[8, 0]].concat();
        let place = offset | if more { 0x2000 } else { 0 };
        frame.extend([0x45, 0, 0, 36]);
        frame.extend(id.to_be_bytes());
        frame.extend(place.to_be_bytes());
        frame.extend([64, UDP, 0, 0, 10, 0, 0, host, 10, 0, 1, 1]);
        // Ports 5000 and 7000 in the first one, content in the others.
        frame.extend(if offset == 0 { [0x13, 0x88, 0x1b, 0x58] } else { [0xff; 4] });
        frame.extend([0; 12]);
        frame
    }

    /// The same of IPv6, with the fragment behind a header of options.
    fn v6(id: u32, offset: u16, more: bool) -> Vec<u8> {
        let mut frame = [[2; 12].as_slice(), &[0x86, 0xdd]].concat();
        frame.extend([0x60, 0, 0, 0, 0, 28, 60, 64]);
        frame.extend([0x20; 32]);
        frame.extend([44, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend([UDP, 0]);
        frame.extend((offset << 3 | u16::from(more)).to_be_bytes());
        frame.extend(id.to_be_bytes());
        frame.extend(if offset == 0 { [0x13, 0x88, 0x1b, 0x58] } else { [0xff; 4] });
        frame.extend([0; 8]);
        frame
    }

    fn completed(fragments: &mut Fragments, salt: &RandomState, bytes: &[u8]) -> (Option<u16>, Option<u16>) {
        let mut key = frame_key(bytes);
        fragments.complete(&mut key, bytes, salt);
        (key.sport, key.dport)
    }

    #[test]
    fn later_fragments_have_the_ports_of_the_first_of_their_datagram_and_of_no_other() {
        let (mut fragments, salt) = (Fragments::new(), RandomState::new());
        let known = (Some(5000), Some(7000));
        let mut see = |bytes: &[u8]| completed(&mut fragments, &salt, bytes);
        assert_eq!(see(&v4(1, 9, 185, true)), (None, None), "before the first");
        assert_eq!(see(&v4(1, 9, 0, true)), known);
        assert_eq!([see(&v4(1, 9, 185, true)), see(&v4(1, 9, 370, false))], [known; 2]);
        assert_eq!([see(&v4(2, 9, 185, true)), see(&v4(1, 10, 185, false))], [(None, None); 2], "others");
        assert_eq!(see(&v6(70_000, 0, true)), known);
        assert_eq!(see(&v6(70_000, 185, false)), known);
        assert_eq!(see(&v6(70_001, 185, false)), (None, None));
    }

    #[test]
    fn whole_packets_and_frames_that_are_cut_anywhere_are_left_alone() {
        let (mut fragments, salt) = (Fragments::new(), RandomState::new());
        completed(&mut fragments, &salt, &v4(1, 9, 0, false));
        assert!(fragments.slots.iter().all(Option::is_none), "not a fragment");
        for frame in [v4(1, 9, 185, true), v6(7, 185, true), v6(7, 0, true)] {
            for len in 0..frame.len() {
                completed(&mut fragments, &salt, &frame[..len]);
            }
        }
    }
}
