//! Sends consecutive packets of one super-frame as one frame again, which the output or the network card splits. A call
//! costs little more than that for one packet. The kernel copies the packets out of the pool.
//!
//! It has a socket of its own: a socket with a transmit ring sends no messages.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::io::frame_pool::FramePool;
use crate::wire::segments::join;
use crate::wire::virtio::VirtioHeader;

/// Maximum number of packets in a frame.
pub(super) const MOST: usize = 64;
/// Maximum bytes of headers.
const HEADERS: usize = 512;

struct Arrays {
    vectors: [libc::iovec; MOST + 2],
    headers: [u8; HEADERS],
    description: VirtioHeader,
}

/// See the module.
pub(super) struct JoinedSender {
    socket: OwnedFd,
    arrays: Box<Arrays>,
}

// SAFETY: the pointers in the vectors are written and used only within one call of `send`, which has exclusive access.
// Between calls nothing dereferences them, so that the whole may move to another thread.
unsafe impl Send for JoinedSender {}

impl JoinedSender {
    /// Sends with `socket`, which has `PACKET_VNET_HDR`.
    pub(super) fn new(socket: OwnedFd) -> Self {
        // SAFETY: plain data (integers and pointers) for which all zeros is valid.
        Self { socket, arrays: unsafe { Box::<Arrays>::new_zeroed().assume_init() } }
    }

    /// Sends `frames`, at most [`MOST`] consecutive packets of one super-frame with unfinished checksums, all or none.
    ///
    /// # Errors
    /// The kernel's answer; `EOPNOTSUPP` if they cannot be joined.
    pub(super) fn send(&mut self, pool: &FramePool, frames: &[u32]) -> io::Result<()> {
        let unfit = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let (Some(&first), Some(&last)) = (frames.first(), frames.last()) else { return Err(unfit()) };
        let Arrays { vectors, headers, description } = &mut *self.arrays;
        if frames.len() > MOST {
            return Err(unfit());
        }
        let header_len;
        (header_len, *description) =
            join(pool.packet(first), pool.packet(last), frames.len(), headers).ok_or_else(unfit)?;
        vectors[0] = libc::iovec { iov_base: std::ptr::from_mut(description).cast(), iov_len: VirtioHeader::LEN };
        vectors[1] = libc::iovec { iov_base: headers.as_mut_ptr().cast(), iov_len: header_len };
        for (vector, &frame) in vectors[2..].iter_mut().zip(frames) {
            let packet = &pool.packet(frame)[header_len..];
            *vector = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
        }
        // SAFETY: a message is plain integers and pointers, for which all zeros is valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = (frames.len() + 2) as _;
        // SAFETY: the vectors point to the description, the headers and packets of the pool, which is borrowed until the call
        // returns. The kernel only reads them.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &message, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
