//! An AF_XDP socket: the pool's memory registered with the kernel, four rings, one receive queue of one interface.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::io::af_xdp::custody::{Rings, SENDING};
use crate::io::af_xdp::ring::{Places, Ring};
use crate::io::frame_pool::FramePool;
use crate::io::sys;

/// Capacity of the completion ring. Frames of the other rings cannot be more.
const COMPLETIONS: u32 = 2 * SENDING;
/// Option for the number of frames that the kernel sends in one call, if it copies (Linux 6.17). Older kernels send 32.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
const SENT_AT_ONCE: u32 = 256;

/// An operation that the kernel refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) what: &'static str,
    pub(super) source: io::Error,
}

fn refused(what: &'static str) -> impl FnOnce(io::Error) -> Refused {
    move |source| Refused { what, source }
}

/// Copying between the kernel's memory and the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The driver copies only if it cannot use the pool.
    Best,
    /// It copies.
    Copy,
    /// It uses the pool, or the socket is refused.
    ZeroCopy,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    /// True if the driver itself reads and writes frames of the pool.
    pub(super) zero_copy: bool,
}

// SAFETY: any bytes are integers.
unsafe impl sys::Plain for Statistics {}
// SAFETY: any bytes are integers.
unsafe impl sys::Plain for Offsets {}

/// `struct xdp_statistics` of linux/if_xdp.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Statistics {
    /// Received frames that were dropped: there was no frame of the pool to receive into, or it was too short.
    pub(super) dropped: u64,
    _invalid: [u64; 2],
    /// Frames received while the receive ring was full.
    pub(super) ring_full: u64,
    _empty: [u64; 2],
}

/// `struct xdp_mmap_offsets`: producer counter, consumer counter, entries and flags of the receive, transmit, fill and
/// completion rings.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Offsets([[u64; 4]; 4]);

impl Offsets {
    fn of(&self, ring: usize) -> Places {
        let [producer, consumer, entries, flags] = self.0[ring];
        Places { producer, consumer, flags, entries }
    }
}

impl Socket {
    /// Opens a socket for receive queue `queue` of the interface `index`, whose frames lie in `pool`, with rings for
    /// `receiving` frames, a power of two. The pool is registered by `owner`, if there is one, else by this socket. Once
    /// the socket is closed and its rings are dropped, the kernel no longer shares the memory.
    ///
    /// # Errors
    /// [`Refused`]: another socket has the queue (`EBUSY`), no permission (`EPERM`), too much locked memory
    /// (`ENOBUFS`).
    pub(super) fn open(
        (index, queue): (i32, u32),
        receiving: u32,
        pool: &mut FramePool,
        owner: Option<BorrowedFd<'_>>,
        mode: Mode,
    ) -> Result<(Self, Rings), Refused> {
        let fd = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(refused("opening an AF_XDP socket"))?;
        if owner.is_none() {
            let region = libc::xdp_umem_reg {
                addr: pool.as_mut_ptr().expose_provenance() as u64,
                len: pool.frames() as u64 * pool.frame_bytes() as u64,
                chunk_size: pool.frame_bytes() as u32,
                headroom: 0,
                flags: 0,
                tx_metadata_len: 0,
            };
            sys::set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &region)
                .map_err(refused("registering the packet pool with the kernel"))?;
        }
        for (option, length, what) in [
            (libc::XDP_UMEM_FILL_RING, receiving, "creating the fill ring"),
            (libc::XDP_UMEM_COMPLETION_RING, COMPLETIONS, "creating the completion ring"),
            (libc::XDP_RX_RING, receiving, "creating the ring of received frames"),
            (libc::XDP_TX_RING, SENDING, "creating the ring of frames to send"),
        ] {
            sys::set_option(&fd, libc::SOL_XDP, option, &length).map_err(refused(what))?;
        }
        // If it is refused, each call sends fewer.
        let _ = sys::set_option(&fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &SENT_AT_ONCE);
        let offsets: Offsets =
            sys::option(&fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS).map_err(refused("querying the layout of rings"))?;
        let mapping = "mapping a ring into memory";
        let rings = Rings {
            reception: Ring::map(&fd, libc::XDP_PGOFF_RX_RING as u64, offsets.of(0), receiving)
                .map_err(refused(mapping))?,
            transmission: Ring::map(&fd, libc::XDP_PGOFF_TX_RING as u64, offsets.of(1), SENDING)
                .map_err(refused(mapping))?,
            fill: Ring::map(&fd, libc::XDP_UMEM_PGOFF_FILL_RING, offsets.of(2), receiving).map_err(refused(mapping))?,
            completion: Ring::map(&fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, offsets.of(3), COMPLETIONS)
                .map_err(refused(mapping))?,
        };
        let flags = match (owner, mode) {
            // The mode is that of the registering socket.
            (Some(_), _) => libc::XDP_SHARED_UMEM,
            (None, Mode::Best) => libc::XDP_USE_NEED_WAKEUP,
            (None, Mode::Copy) => libc::XDP_USE_NEED_WAKEUP | libc::XDP_COPY,
            (None, Mode::ZeroCopy) => libc::XDP_USE_NEED_WAKEUP | libc::XDP_ZEROCOPY,
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: index as u32,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: owner.map_or(0, |owner| owner.as_raw_fd() as u32),
        };
        let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: `address` is readable for `length` bytes during the call.
        sys::check(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) })
            .map_err(refused("binding an AF_XDP socket to a receive queue"))?;
        let options: libc::c_int =
            sys::option(&fd, libc::SOL_XDP, libc::XDP_OPTIONS).map_err(refused("querying the copy mode"))?;
        Ok((Self { fd, zero_copy: options as u32 & libc::XDP_OPTIONS_ZEROCOPY != 0 }, rings))
    }

    /// Has the kernel send the submitted frames, without waiting.
    ///
    /// # Errors
    /// The kernel's answer. Without zero-copy: `EAGAIN` if it sends no more now, `EBUSY` if the driver has dropped the
    /// last frame.
    pub(super) fn kick(&self) -> io::Result<()> {
        // SAFETY: nothing is read: the message is empty, and the address is that of the bound interface.
        let sent =
            unsafe { libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Wakes the driver to read the fill ring.
    pub(super) fn wake_reception(&self) {
        // SAFETY: nothing is written: the buffer is empty.
        unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Returns the kernel's counters, or zeros if the query fails.
    pub(super) fn statistics(&self) -> Statistics {
        sys::option(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS).unwrap_or_default()
    }
}
