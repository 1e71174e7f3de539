//! The receive ring. Its frames are copied into the pool. A super-frame, which is longer than a slot, is there with its
//! first bytes, and as a whole in the socket's queue (`PACKET_COPY_THRESH`), if there was room.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use fairlink_core::Nanos;

use crate::io::backend::{Arrival, BackendCounters};
use crate::io::frame_pool::{FramePool, HEADROOM};
use crate::io::packet_ring::Slots;
use crate::io::received::{Announced, Received, put_tag, received_tag};
use crate::io::sys;
use crate::wire::segments::Segments;
use crate::wire::virtio::VirtioHeader;

/// Bytes in front of an Ethernet frame that is described, in its slot: `tpacket2_hdr`, address, alignment, description.
pub(super) const IN_FRONT: usize = 76;

/// Slots that are looked at for one behind a slot that is being filled.
const SIDE_BY_SIDE: usize = 8;

/// Place of a frame of which the ring has the first bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    received: Received,
    /// True if the whole is in the socket's queue.
    queued: bool,
}

/// See the module.
pub(in crate::io) struct RingReception {
    pub(super) slots: Slots,
    /// True if the kernel describes frames.
    described: bool,
    /// Super-frames of the last reception. The first `taken` of them are no longer in the socket's queue.
    announced: Announced<Place>,
    taken: usize,
}

/// A slot with a frame.
struct Filled {
    place: Place,
    /// Offset of the frame, and its bytes that are there.
    start: usize,
    held: usize,
}

impl RingReception {
    /// Makes the ring of `socket`, of about `bytes` bytes, for frames of up to `longest`. `described`: the socket has
    /// `PACKET_VNET_HDR`.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(in crate::io) fn new(socket: &OwnedFd, described: bool, longest: usize, bytes: usize) -> io::Result<Self> {
        super::choose_version(socket)?;
        if described {
            let on: libc::c_int = 1;
            sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &on)?;
        }
        Ok(Self::over(Slots::make(socket, libc::PACKET_RX_RING, IN_FRONT + longest, bytes)?, described))
    }

    /// Receives from these slots.
    pub(super) fn over(slots: Slots, described: bool) -> Self {
        Self { slots, described, announced: Announced::new(), taken: 0 }
    }

    /// Bytes of the ring.
    pub(in crate::io) fn ring_bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// Frames that it has room for.
    pub(in crate::io) fn slots(&self) -> usize {
        self.slots.count
    }

    /// Returns true if frames are in the ring. The next slot may still be empty then: processors that receive at the same
    /// time fill their slots in any order.
    pub(in crate::io) fn has_more(&self) -> bool {
        (0..SIDE_BY_SIDE).any(|ahead| self.is_filled(ahead))
    }

    /// Returns true if more than a quarter of the ring is filled.
    pub(in crate::io) fn is_flooded(&self) -> bool {
        self.is_filled(self.slots.count / 4)
    }

    fn is_filled(&self, ahead: usize) -> bool {
        self.slots.load(ahead) & libc::TP_STATUS_USER != 0
    }

    /// Appends arrivals to `out`, oldest first, until it has `end`, the ring is empty, or the pool has no more frames.
    ///
    /// # Errors
    /// The error of the socket, such as an interface that went down.
    pub(in crate::io) fn receive(
        &mut self,
        socket: &OwnedFd,
        pool: &mut FramePool,
        now: Nanos,
        end: usize,
        out: &mut Vec<Arrival>,
        counters: &mut BackendCounters,
    ) -> io::Result<()> {
        self.skip(socket, self.announced.frames.len())?;
        self.announced.frames.clear();
        self.taken = 0;
        // Each slot counts, so that slots without a frame bound the number of entries, too.
        for _ in out.len()..end {
            if pool.free() == 0 || !self.is_filled(0) {
                break;
            }
            match self.filled() {
                Some(filled) => out.extend(self.look_at(filled, pool, now, counters)),
                None => {
                    counters.unreadable += 1;
                    let queued = self.slots.load(0) & libc::TP_STATUS_COPY != 0;
                    self.announced.frames.push((None, Place { received: Received::default(), queued }));
                }
            }
            self.slots.store(0, libc::TP_STATUS_KERNEL);
            self.slots.advance(1);
        }
        Ok(())
    }

    /// Reads what the kernel says of the frame in the next slot; `None` if that does not fit into the slot.
    fn filled(&self) -> Option<Filled> {
        let slot = self.slots.slot(0);
        // SAFETY: the slot is aligned to 16 bytes and longer than this header. The kernel does not write to it: its
        // status was seen to be the user's.
        let header: libc::tpacket2_hdr = unsafe { slot.cast().read_volatile() };
        let (start, held) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let before = if self.described { VirtioHeader::LEN } else { 0 };
        if start < size_of::<libc::tpacket2_hdr>() + before || start + held > self.slots.slot_bytes {
            return None;
        }
        let description = match self.described {
            // SAFETY: the place lies within the slot, and any bytes are a header.
            true => unsafe { slot.add(start - before).cast::<VirtioHeader>().read_unaligned() },
            false => VirtioHeader::default(),
        };
        let received = Received {
            header: description,
            wire: header.tp_len as usize,
            tag: received_tag(header.tp_status, header.tp_vlan_tci, header.tp_vlan_tpid),
        };
        let queued = header.tp_status & libc::TP_STATUS_COPY != 0;
        (held <= received.wire).then_some(Filled { place: Place { received, queued }, start, held })
    }

    /// Returns the arrival of the frame in the next slot; `None` if the kernel had no room for all of it.
    fn look_at(
        &mut self,
        filled: Filled,
        pool: &mut FramePool,
        now: Nanos,
        counters: &mut BackendCounters,
    ) -> Option<Arrival> {
        let Filled { place: place @ Place { received, queued }, start, held } = filled;
        let is_joined = received.header.is_joined();
        let usable = held.min(pool.frame_bytes() - HEADROOM);
        // A frame that was not joined and is not whole is too long, and its first bytes are enough.
        if is_joined && !queued && usable < received.wire {
            counters.kernel_dropped += 1;
            return None;
        }
        let frame = pool.take()?;
        // SAFETY: the slot is the user's.
        let from = unsafe { self.slots.bytes_of_next(start, usable) };
        pool.frame_mut(frame)[HEADROOM..HEADROOM + usable].copy_from_slice(from);
        if is_joined {
            return Some(self.announced.arrival(received, (pool, frame, usable), place, now, counters));
        }
        if queued {
            self.announced.frames.push((None, place));
        }
        Some(received.arrival(pool, frame, usable, now, counters))
    }

    /// Returns how to split super-frame `number` of the last reception.
    pub(in crate::io) fn segments(&self, number: u8) -> &Segments {
        self.announced.segments(number)
    }

    /// Copies super-frame `number`, whose first bytes are in `frame`, to the beginning of `into`. Returns false if it is
    /// not there.
    ///
    /// # Errors
    /// The socket's error, such as an interface that went down.
    pub(in crate::io) fn fetch(
        &mut self,
        socket: &OwnedFd,
        pool: &FramePool,
        frame: u32,
        number: u8,
        into: &mut [u8],
    ) -> io::Result<bool> {
        let number = usize::from(number);
        let Place { received, queued } = self.announced.frames[number].1;
        if !queued {
            let all = pool.packet(frame);
            into[..all.len()].copy_from_slice(all);
            return Ok(true);
        }
        self.skip(socket, number)?;
        self.taken = number + 1;
        let tag = received.tag.map_or(0, |tag| tag.len());
        if fetch(socket, &mut into[tag..])? != received.wire {
            return Ok(false);
        }
        if let Some(tag) = received.tag {
            put_tag(into, tag);
        }
        Ok(true)
    }

    /// Takes the announced frames before `end` out of the socket's queue.
    fn skip(&mut self, socket: &OwnedFd, end: usize) -> io::Result<()> {
        while self.taken < end {
            self.taken += 1;
            if self.announced.frames[self.taken - 1].1.queued {
                fetch(socket, &mut [])?;
            }
        }
        Ok(())
    }
}

/// Takes the first frame out of the socket's queue, as many bytes as `into` holds. Returns its length; 0 if there was
/// none that can be read.
///
/// # Errors
/// The socket's error, such as an interface that went down.
pub(super) fn fetch(socket: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    let mut header = [0; VirtioHeader::LEN];
    let mut vectors =
        [&mut header[..], into].map(|bytes| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() });
    // SAFETY: a message is plain integers and pointers, for which all zeros is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = vectors.len() as _;
    // SAFETY: the message points to two buffers that are writable for their lengths until the call returns.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
    if received >= 0 {
        return Ok((received as usize).saturating_sub(header.len()));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR | libc::EINVAL | libc::ENOBUFS | libc::ENOMEM) => Ok(0),
        _ => Err(error),
    }
}
