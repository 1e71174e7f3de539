//! Frames as a packet socket hands them over, and their conversion to arrivals.
//!
//! Changes by the kernel are reverted. A VLAN tag that it took out is put in again. A checksum that the sender left to
//! hardware, as is usual on veth, is left to the output if it is that of TCP or UDP, and computed otherwise.

use fairlink_config::matching::ethernet;
use fairlink_core::Nanos;

use crate::io::backend::{Arrival, BATCH, BackendCounters, Condition};
use crate::io::frame_pool::{FrameInfo, FramePool, HEADROOM};
use crate::wire::checksum;
use crate::wire::segments::{self, Segments};
use crate::wire::virtio::VirtioHeader;

/// A frame as it was received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// The kernel's description of the frame.
    pub(super) header: VirtioHeader,
    /// Original length of the frame, which may exceed the available room.
    pub(super) wire: usize,
    /// The VLAN tag that the kernel took out, in its original form.
    pub(super) tag: Option<[u8; ethernet::VLAN_TAG]>,
}

/// The super-frames of one reception, which are not copied before the gateway wants them.
#[derive(Debug)]
pub(super) struct Announced<T> {
    /// How to split each, and where it is. `None`: it cannot be split.
    pub(super) frames: Vec<(Option<Segments>, T)>,
}

impl<T> Announced<T> {
    pub(super) fn new() -> Self {
        Self { frames: Vec::with_capacity(BATCH) }
    }

    /// Returns how to split super-frame `number`.
    ///
    /// # Panics
    /// If it was not announced.
    pub(super) fn segments(&self, number: u8) -> &Segments {
        self.frames[usize::from(number)].0.as_ref().expect("a super-frame that was announced")
    }

    /// Announces the super-frame `received`, whose first bytes are in `frame`, at `place`.
    pub(super) fn arrival(
        &mut self,
        mut received: Received,
        (pool, frame, held): (&mut FramePool, u32, usize),
        place: T,
        at: Nanos,
        counters: &mut BackendCounters,
    ) -> Arrival {
        let (info, len) = received.put(pool, frame, held, at, counters);
        pool.set_info(frame, info);
        let tag = len - received.wire;
        received.header.checksum_start = received.header.checksum_start.saturating_add(tag as u16);
        let longest = pool.frame_bytes() - HEADROOM;
        let segments = Segments::from_head(pool.packet(frame), len, &received.header, longest);
        let condition = match &segments {
            Ok(_) => Condition::Super(self.frames.len() as u8),
            Err(why) => {
                counters.unsplittable[*why as usize] += 1;
                Condition::Joined
            }
        };
        self.frames.push((segments.ok(), place));
        Arrival { frame, len: u32::try_from(len).unwrap_or(u32::MAX), condition, sorted: None }
    }
}

impl Received {
    /// Returns the arrival of the frame whose first `held` bytes are in `frame`, behind the headroom.
    pub(super) fn arrival(
        self,
        pool: &mut FramePool,
        frame: u32,
        held: usize,
        at: Nanos,
        counters: &mut BackendCounters,
    ) -> Arrival {
        let (mut info, len) = self.put(pool, frame, held, at, counters);
        let mut condition = Condition::Whole;
        if (info.len as usize) < len {
            condition = Condition::TooLong;
        } else if let Some(mut place) = self.header.unfinished() {
            place.start = place.start.saturating_add((len - self.wire) as u16);
            let start = info.start as usize;
            let bytes = &mut pool.frame_mut(frame)[start..start + info.len as usize];
            if segments::is_of_transport(bytes, place) {
                info.unfinished = Some(place);
                counters.checksums_passed_on += 1;
            } else if checksum::complete(bytes, place.start, place.offset) {
                counters.checksums_completed += 1;
            } else {
                condition = Condition::Checksum;
            }
        }
        pool.set_info(frame, info);
        Arrival { frame, len: u32::try_from(len).unwrap_or(u32::MAX), condition, sorted: None }
    }

    /// Puts the tag into the frame. Returns where its bytes are, and its length on the wire.
    fn put(
        &self,
        pool: &mut FramePool,
        frame: u32,
        held: usize,
        received: Nanos,
        counters: &mut BackendCounters,
    ) -> (FrameInfo, usize) {
        let (mut start, mut held, mut len) = (HEADROOM, held, self.wire);
        if let Some(tag) = self.tag
            && held >= ADDRESSES
        {
            start -= tag.len();
            put_tag(&mut pool.frame_mut(frame)[start..], tag);
            held += tag.len();
            len += tag.len();
            counters.vlan_tags_restored += 1;
        }
        (FrameInfo { start: start as u32, len: held as u32, received, ..FrameInfo::default() }, len)
    }
}

/// Bytes of a frame in front of its VLAN tag.
const ADDRESSES: usize = 12;

/// Moves the addresses at the beginning of a frame forward by the length of a tag, and inserts the tag behind them. The
/// frame begins 4 bytes into `bytes`.
pub(super) fn put_tag(bytes: &mut [u8], tag: [u8; ethernet::VLAN_TAG]) {
    bytes.copy_within(tag.len()..tag.len() + ADDRESSES, 0);
    bytes[ADDRESSES..ADDRESSES + tag.len()].copy_from_slice(&tag);
}

/// Returns the VLAN tag that the kernel took out of a frame, by what it says of it (`tpacket_auxdata`, `tpacket2_hdr`),
/// in its original form.
pub(super) fn received_tag(status: u32, tci: u16, tpid: u16) -> Option<[u8; ethernet::VLAN_TAG]> {
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { tpid } else { ethernet::VLAN };
    let [a, b] = tpid.to_be_bytes();
    let [c, d] = tci.to_be_bytes();
    Some([a, b, c, d])
}

#[cfg(test)]
pub(super) mod samples {
    //! Frames and descriptions of them.

    use crate::wire::checksum;
    use crate::wire::virtio::{JOINED_UDP, NEEDS_CHECKSUM, VirtioHeader};

    /// UDP over IPv4 of `payload` bytes, its checksum unfinished, its payload `seed`, `seed` + 1 and so on.
    pub(crate) fn datagram(payload: usize, seed: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        let total = ((28 + payload) as u16).to_be_bytes();
        frame.extend([8, 0, 0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x13, 0x88, 0x13, 0x89]);
        frame.extend(((8 + payload) as u16).to_be_bytes());
        frame.extend(checksum::fold(0x0a00 + 1 + 0x0a00 + 2 + 17 + 8 + payload as u64).to_be_bytes());
        frame.extend((0..payload).map(|n| (n as u8).wrapping_add(seed)));
        frame
    }

    /// A description: joined from pieces of `size`, or not joined for 0.
    pub(crate) fn described(size: u16) -> VirtioHeader {
        VirtioHeader {
            flags: NEEDS_CHECKSUM,
            kind: if size > 0 { JOINED_UDP } else { 0 },
            header_len: 42,
            segment: size,
            checksum_start: 34,
            checksum_offset: 6,
        }
    }
}
