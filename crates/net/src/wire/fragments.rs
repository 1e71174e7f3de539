//! Ports of fragmented datagrams. Only the first fragment of a datagram has ports (RFC 791, RFC 8200), so that the
//! others would go to other classes and flows. The ports of first fragments are remembered for the following ones.
//!
//! The table has [`SLOTS`] slots of one datagram each, chosen by a salted hash, so that a sender cannot choose
//! datagrams that displace a certain one. A newer datagram in the same slot replaces the older. A fragment that arrives
//! before the first of its datagram, or after its datagram was displaced, has no ports.

use std::hash::{BuildHasher, RandomState};

use fairlink_config::matching::{Fragment, FrameHeaders};

/// Number of datagrams that are remembered.
pub(crate) const SLOTS: usize = 1024;

/// Identity of a datagram (RFC 791, Section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Datagram {
    src: [u8; 16],
    dst: [u8; 16],
    proto: u8,
    id: u32,
}

/// A datagram, and the ports of its first fragment.
type Slot = Option<(Datagram, Option<u16>, Option<u16>)>;

/// Ports of datagrams whose first fragment has arrived.
#[derive(Debug)]
pub(crate) struct Fragments {
    slots: Vec<Slot>,
}

impl Fragments {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { slots: vec![None; SLOTS] }
    }

    /// Memory in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&self.slots[..])
    }

    /// Sets the ports of a later fragment to those of its datagram, if known, and stores those of a first fragment.
    #[inline]
    pub(crate) fn complete(&mut self, headers: &mut FrameHeaders, salt: &RandomState) {
        let Some(Fragment { id, offset, .. }) = headers.fragment else { return };
        let key = &mut headers.key;
        let datagram = Datagram { src: key.src, dst: key.dst, proto: key.proto, id };
        let slot = &mut self.slots[salt.hash_one(datagram) as usize % SLOTS];
        match slot {
            _ if offset == 0 => *slot = Some((datagram, key.sport, key.dport)),
            Some((known, sport, dport)) if *known == datagram => (key.sport, key.dport) = (*sport, *dport),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use fairlink_config::matching::{UDP, frame_headers};

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
        let mut headers = frame_headers(bytes);
        fragments.complete(&mut headers, salt);
        (headers.key.sport, headers.key.dport)
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
