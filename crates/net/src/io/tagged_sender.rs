//! Sends frames with VLAN tags that a packet socket's `sendmsg` refuses as too long.
//!
//! An interface with an mtu of 1500 carries frames of 1514 B, not counting VLAN tags. The kernel's `packet_snd` allows
//! for one tag of 802.1Q only: 1518 B with a tag of 802.1ad, or 1522 B with two tags, are `EMSGSIZE`. Its transmit ring
//! (`PACKET_TX_RING`) leaves that decision to the interface if each frame has a `virtio_net_hdr`. So only such frames
//! go through a ring with room for one. The header declares the whole frame as headers, which makes the kernel copy it
//! before the call returns.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::io::packet_socket;
use crate::io::sys;

/// Version 2 of the ring's layout, whose frames begin with a `tpacket2_hdr`.
const TPACKET_V2: libc::c_int = 1;
/// Offset of a frame's bytes: behind its `tpacket2_hdr`.
const DATA: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// Offsets of `tp_status` and `tp_len`.
const STATUS: usize = 0;
const LENGTH: usize = 4;
/// Length of a `virtio_net_hdr`, and offset of its header length.
const VIRTIO_HEADER: usize = 10;
const VIRTIO_HEADER_LENGTH: usize = 2;

/// A socket with a transmit ring of one frame.
#[derive(Debug)]
pub(crate) struct TaggedSender {
    socket: OwnedFd,
    ring: *mut u8,
    size: usize,
}

// SAFETY: the ring belongs to this value alone, and nothing of it is bound to a thread.
unsafe impl Send for TaggedSender {}

impl TaggedSender {
    /// Opens a sender for frames of up to `longest` bytes out of the interface with this index. Frames get `mark`; 0
    /// for none.
    ///
    /// # Errors
    /// The kernel's answer: no permission (`EPERM`), no such interface (`ENODEV`), no memory (`ENOMEM`).
    pub(crate) fn open(index: i32, longest: usize, qdisc_bypass: bool, mark: u32) -> io::Result<Self> {
        let socket = packet_socket::open()?;
        let on: libc::c_int = 1;
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &on)?;
        if qdisc_bypass {
            sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)?;
        }
        if mark != 0 {
            sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_MARK, &mark)?;
        }
        // A power of two is a multiple of the page size if it is no smaller.
        // SAFETY: takes no pointers.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16);
        let size = (DATA + VIRTIO_HEADER + longest).next_power_of_two().max(page);
        let request = libc::tpacket_req {
            tp_block_size: size as libc::c_uint,
            tp_block_nr: 1,
            tp_frame_size: size as libc::c_uint,
            tp_frame_nr: 1,
        };
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_TX_RING, &request)?;
        packet_socket::bind(&socket, index, 0)?;
        // SAFETY: a new mapping of a descriptor that is open; nothing else is at an address that the kernel picks.
        let ring = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket, ring: ring.cast(), size })
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the ring is mapped as long as this value lives, at the start of a page, and the kernel changes this
        // word only as a whole.
        unsafe { AtomicU32::from_ptr(self.ring.add(STATUS).cast()) }
    }

    /// Sends `frame`, which the kernel has copied when this returns.
    ///
    /// # Errors
    /// The error of `sendmsg`; `EMSGSIZE` if the frame is longer than the ring's.
    pub(crate) fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let total = VIRTIO_HEADER + frame.len();
        if DATA + total > self.size || frame.len() > usize::from(u16::MAX) {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_SENDING != 0 {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let mut header = [0; VIRTIO_HEADER];
        header[VIRTIO_HEADER_LENGTH..VIRTIO_HEADER_LENGTH + 2].copy_from_slice(&(frame.len() as u16).to_ne_bytes());
        // SAFETY: the frame of the ring has `size` bytes, which was checked to be enough. The kernel does not read it
        // before the status says so.
        unsafe {
            self.ring.add(LENGTH).cast::<u32>().write(total as u32);
            self.ring.add(DATA).copy_from_nonoverlapping(header.as_ptr(), VIRTIO_HEADER);
            self.ring.add(DATA + VIRTIO_HEADER).copy_from_nonoverlapping(frame.as_ptr(), frame.len());
        }
        self.status().store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        // SAFETY: no bytes are handed over; the kernel reads the ring.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        let result = match sent {
            ..0 => Err(io::Error::last_os_error()),
            // The kernel found nothing to send, which does not happen: the caller tries again.
            0 => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            1.. => Ok(()),
        };
        if result.is_err() {
            // The kernel leaves a refused frame in the ring, to be tried again; the caller decides that.
            self.status().store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        result
    }
}

impl Drop for TaggedSender {
    fn drop(&mut self) {
        // SAFETY: mapped in `open` with this size, and no pointers to it remain.
        unsafe { libc::munmap(self.ring.cast(), self.size) };
    }
}
