//! Sends frames of the pool with `sendmmsg`, where a socket cannot have a transmit ring. Nothing is copied before the
//! kernel copies.
//!
//! The kernel's `packet_snd` allows for one VLAN tag of 802.1Q only: at an mtu of 1500 B, a frame of 1518 B with a tag of
//! 802.1ad, or of 1522 B with two tags, is `EMSGSIZE`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::io::backend::BATCH;
use crate::io::frame_pool::FramePool;
use crate::wire::virtio::VirtioHeader;

/// Arguments of one `sendmmsg` besides the frames.
struct Arrays {
    messages: [libc::mmsghdr; BATCH],
    vectors: [[libc::iovec; 2]; BATCH],
    headers: [VirtioHeader; BATCH],
}

/// See the module.
pub(super) struct MessageSender {
    arrays: Box<Arrays>,
    /// True if each frame has a header that describes it.
    described: bool,
}

// SAFETY: the pointers in the message arrays are written and used only within one call of `send`, which has exclusive
// access. Between calls nothing dereferences them, so that the whole may move to another thread.
unsafe impl Send for MessageSender {}

impl MessageSender {
    pub(super) fn new(described: bool) -> Self {
        // SAFETY: plain data (integers and pointers) for which all zeros is valid.
        Self { arrays: unsafe { Box::<Arrays>::new_zeroed().assume_init() }, described }
    }

    /// Sends at most [`BATCH`] of `frames`. Returns how many were accepted, from the front, and the kernel's answer to
    /// the next one.
    pub(super) fn send(
        &mut self,
        socket: &OwnedFd,
        pool: &mut FramePool,
        frames: &[u32],
    ) -> (usize, Option<io::Error>) {
        let frame_bytes = pool.frame_bytes();
        let header_bytes = if self.described { VirtioHeader::LEN } else { 0 };
        let arrays = &mut *self.arrays;
        let count = frames.len().min(BATCH);
        for (index, &frame) in frames[..count].iter().enumerate() {
            let info = pool.info(frame);
            let offset = frame as usize * frame_bytes + info.start as usize;
            // SAFETY: `frame` is one of this pool's, and the pool has checked that the packet lies within it.
            let at = unsafe { pool.as_mut_ptr().add(offset) };
            arrays.headers[index] = VirtioHeader::to_send(info.len, info.unfinished);
            let header = std::ptr::from_mut(&mut arrays.headers[index]).cast();
            arrays.vectors[index] = [
                libc::iovec { iov_base: header, iov_len: header_bytes },
                libc::iovec { iov_base: at.cast(), iov_len: info.len as usize },
            ];
            let message = &mut arrays.messages[index].msg_hdr;
            message.msg_iov = arrays.vectors[index].as_mut_ptr();
            message.msg_iovlen = 2;
        }
        let mut accepted = 0;
        while accepted < count {
            // SAFETY: the messages up to the number of frames were just set to point to a header and a packet each, all
            // alive until the call returns; the kernel only reads them.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    arrays.messages[accepted..].as_mut_ptr(),
                    (count - accepted) as _,
                    libc::MSG_DONTWAIT as _,
                )
            };
            if sent <= 0 {
                return (accepted, Some(io::Error::last_os_error()));
            }
            accepted += sent as usize;
        }
        (accepted, None)
    }
}
