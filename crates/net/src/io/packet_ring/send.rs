//! The transmit ring. Frames are copied into it, so that the pool has them back at once. The kernel copies a frame again
//! while it sends it: the description says that all of it is headers.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::io::frame_pool::FramePool;
use crate::io::packet_ring::Slots;
use crate::wire::virtio::VirtioHeader;

/// Offset of a frame's description in its slot: behind the `tpacket2_hdr`.
const DESCRIPTION: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// Offset of the frame.
const FRAME: usize = DESCRIPTION + VirtioHeader::LEN;
/// Offset of `tp_len`.
const LENGTH: usize = 4;

/// See the module.
#[derive(Debug)]
pub(in crate::io) struct RingSender {
    slots: Slots,
}

impl RingSender {
    /// Makes the ring of `socket`, which has `PACKET_VNET_HDR`, of about `bytes` bytes, for frames of up to `longest`.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(in crate::io) fn new(socket: &OwnedFd, longest: usize, bytes: usize) -> io::Result<Self> {
        super::choose_version(socket)?;
        Ok(Self { slots: Slots::make(socket, libc::PACKET_TX_RING, FRAME + longest, bytes)? })
    }

    /// Bytes of the ring.
    pub(in crate::io) fn ring_bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// Longest frame in bytes.
    pub(in crate::io) fn longest(&self) -> usize {
        self.slots.slot_bytes - FRAME
    }

    /// Sends `frames`, none of them longer than [`RingSender::longest`]. Returns how many were accepted, from the front,
    /// and the kernel's answer to the next one; `EAGAIN` if there is no room for it.
    pub(in crate::io) fn send(
        &mut self,
        socket: &OwnedFd,
        pool: &FramePool,
        frames: &[u32],
    ) -> (usize, Option<io::Error>) {
        let mut count = 0;
        for &frame in frames.iter().take(self.slots.count) {
            // A slot that was sent before is free when its frame has left.
            if self.slots.load(count) & (libc::TP_STATUS_SENDING | libc::TP_STATUS_SEND_REQUEST) != 0 {
                break;
            }
            self.fill(count, pool, frame);
            count += 1;
        }
        if count == 0 {
            return (0, Some(io::Error::from_raw_os_error(libc::EAGAIN)));
        }
        let mut accepted = 0;
        let error = loop {
            // SAFETY: no bytes are handed over; the kernel reads the ring.
            let sent = unsafe { libc::send(socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
            let error = (sent < 0).then(io::Error::last_os_error);
            let before = accepted;
            while accepted < count && !self.is_left(accepted) {
                accepted += 1;
            }
            if accepted == count {
                break None;
            }
            match error {
                Some(error) => break Some(error),
                // It took some and stopped without an error.
                None if accepted > before => {}
                None => break Some(io::Error::from_raw_os_error(libc::EAGAIN)),
            }
        };
        // The kernel looks at the ring only within a call: what it has left is taken back.
        for ahead in accepted..count {
            self.slots.store(ahead, libc::TP_STATUS_AVAILABLE);
        }
        self.slots.advance(accepted);
        let error = error.or_else(|| (count < frames.len()).then(|| io::Error::from_raw_os_error(libc::EAGAIN)));
        (accepted, error)
    }

    /// Returns true if the kernel has not accepted the frame in this slot.
    fn is_left(&self, ahead: usize) -> bool {
        self.slots.load(ahead) & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT) != 0
    }

    fn fill(&mut self, ahead: usize, pool: &FramePool, frame: u32) {
        let packet = pool.packet(frame);
        let info = pool.info(frame);
        assert!(FRAME + packet.len() <= self.slots.slot_bytes, "a frame of {} B for the transmit ring", packet.len());
        let slot = self.slots.slot(ahead);
        // SAFETY: a slot is aligned and has the bytes for the length, the description, and the packet, which was just
        // checked. The kernel does not look at it before its status says so.
        unsafe {
            slot.add(LENGTH).cast().write((VirtioHeader::LEN + packet.len()) as u32);
            slot.add(DESCRIPTION).cast().write_unaligned(VirtioHeader::to_send(info.len, info.unfinished));
            slot.add(FRAME).copy_from_nonoverlapping(std::ptr::NonNull::from(packet).cast(), packet.len());
        }
        self.slots.store(ahead, libc::TP_STATUS_SEND_REQUEST);
    }
}
