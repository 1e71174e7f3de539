//! Joins consecutive packets of one super-frame again, for an output that takes super-frames.

use std::num::NonZeroU32;

use fairlink_config::matching::ethernet::be16;
use fairlink_config::matching::{TCP, UDP};

use super::{
    CWR, FIN, IPV4_CHECKSUM, IPV4_LENGTH, IPV6_HEADER, IPV6_LENGTH, Layout, PSH, TCP_CHECKSUM, TCP_DATA_OFFSET,
    TCP_FLAGS, UDP_CHECKSUM, UDP_HEADER, UDP_LENGTH,
};
use crate::wire::checksum;
use crate::wire::virtio::{JOINED_CWR, JOINED_TCP4, JOINED_TCP6, JOINED_UDP, NEEDS_CHECKSUM, VirtioHeader};

/// Position of a packet in the super-frame that it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Number of the super-frame. It is used again only after four thousand million others.
    frame: NonZeroU32,
    index: u16,
}

impl Origin {
    /// The packet `index` of super-frame `frame`.
    pub(crate) fn new(frame: NonZeroU32, index: u16) -> Self {
        Self { frame, index }
    }

    /// Returns true if this packet comes directly before `next` in the same super-frame.
    #[inline]
    pub(crate) fn precedes(self, next: Self) -> bool {
        self.frame == next.frame && self.index.checked_add(1) == Some(next.index)
    }
}

/// Writes the headers of the super-frame that consists of `count` packets from `first` to `last` to the beginning of `out`.
/// Returns their length and the description. The packets are consecutive ones of one super-frame, so that all but the
/// last are as long as the first, and their checksums are unfinished.
///
/// Returns `None` if they are not packets of TCP or UDP, are too long together, or `out` is too short.
pub(crate) fn join(first: &[u8], last: &[u8], count: usize, out: &mut [u8]) -> Option<(usize, VirtioHeader)> {
    let layout = Layout::from_frame(first).ok()?;
    let Layout { ip, is_v6, protocol, transport } = layout;
    let (payload, checksum, kind) = match (protocol, is_v6) {
        (TCP, _) => {
            let length = usize::from(first.get(transport + TCP_DATA_OFFSET)? >> 4) * 4;
            (transport + length, TCP_CHECKSUM, if is_v6 { JOINED_TCP6 } else { JOINED_TCP4 })
        }
        (UDP, _) => (transport + UDP_HEADER, UDP_CHECKSUM, JOINED_UDP),
        _ => return None,
    };
    let size = first.len().checked_sub(payload)?;
    let len = payload + count.checked_sub(1)? * size + last.len().checked_sub(payload)?;
    let headers = out.get_mut(..payload)?;
    headers.copy_from_slice(first.get(..payload)?);
    let put = |headers: &mut [u8], at: usize, value: u16| headers[at..at + 2].copy_from_slice(&value.to_be_bytes());
    if is_v6 {
        put(headers, ip + IPV6_LENGTH, u16::try_from(len.checked_sub(ip + IPV6_HEADER)?).ok()?);
    } else {
        put(headers, ip + IPV4_LENGTH, u16::try_from(len.checked_sub(ip)?).ok()?);
        put(headers, ip + IPV4_CHECKSUM, 0);
        let sum = checksum::sum(0, &headers[ip..transport]);
        put(headers, ip + IPV4_CHECKSUM, !sum);
    }
    let length = u16::try_from(len.checked_sub(transport)?).ok()?;
    // The field has the sum of the pseudo-header with the length of this packet.
    let field = be16(first, transport + checksum)?;
    let before = (first.len() - transport) as u16;
    put(headers, transport + checksum, checksum::fold(u64::from(field) + u64::from(!before) + u64::from(length)));
    let mut description = VirtioHeader {
        flags: NEEDS_CHECKSUM,
        kind,
        header_len: payload as u16,
        segment: u16::try_from(size).ok()?,
        checksum_start: transport as u16,
        checksum_offset: checksum as u16,
    };
    if protocol == TCP {
        headers[transport + TCP_FLAGS] |= last.get(transport + TCP_FLAGS)? & (FIN | PSH);
        if headers[transport + TCP_FLAGS] & CWR != 0 {
            description.kind |= JOINED_CWR;
        }
    } else {
        put(headers, transport + UDP_LENGTH, length);
    }
    Some((payload, description))
}
