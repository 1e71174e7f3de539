//! Header with pending offload work of a frame: `struct virtio_net_hdr` of linux/virtio_net.h, in the machine's byte
//! order. A packet socket with `PACKET_VNET_HDR` receives and sends it with each frame.

use crate::wire::checksum::Unfinished;

/// The frame's checksum is unfinished.
pub(crate) const NEEDS_CHECKSUM: u8 = 1;

/// The frame was not joined.
pub(crate) const JOINED_NONE: u8 = 0;
/// It was joined from segments of TCP over IPv4.
pub(crate) const JOINED_TCP4: u8 = 1;
/// It was joined from segments of TCP over IPv6.
pub(crate) const JOINED_TCP6: u8 = 4;
/// It was joined from datagrams of UDP.
pub(crate) const JOINED_UDP: u8 = 5;
/// Added to the kind if TCP's flag CWR is set.
pub(crate) const JOINED_CWR: u8 = 0x80;

/// See the module.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioHeader {
    /// Bit 0: the checksum is unfinished.
    pub flags: u8,
    /// Kind of offload that joined the frame; 0 for none.
    pub kind: u8,
    /// Bytes of all headers: a hint that may be wrong.
    pub header_len: u16,
    /// Maximum payload of each packet that the frame was joined from, in bytes.
    pub segment: u16,
    /// First byte that the checksum covers.
    pub checksum_start: u16,
    /// Position of the checksum, relative to `checksum_start`.
    pub checksum_offset: u16,
}

impl VirtioHeader {
    /// Its length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// The header for sending a frame of `len` bytes whose checksum may be unfinished.
    #[must_use]
    pub(crate) fn to_send(len: u32, unfinished: Option<Unfinished>) -> Self {
        // The whole frame counts as headers, so that the kernel keeps it in one piece.
        let header = Self { header_len: u16::try_from(len).unwrap_or(u16::MAX), ..Self::default() };
        match unfinished {
            None => header,
            Some(Unfinished { start, offset }) => {
                Self { flags: NEEDS_CHECKSUM, checksum_start: start, checksum_offset: offset, ..header }
            }
        }
    }

    /// The unfinished checksum that it describes, if any.
    #[must_use]
    pub(crate) fn unfinished(&self) -> Option<Unfinished> {
        let Self { checksum_start: start, checksum_offset: offset, .. } = *self;
        (self.flags & NEEDS_CHECKSUM != 0).then_some(Unfinished { start, offset })
    }

    /// Returns true if the frame was joined from several packets.
    #[must_use]
    pub(crate) fn is_joined(&self) -> bool {
        self.kind != JOINED_NONE
    }
}
