//! Frames that a packet socket has received and that are not handed over yet, and their conversion to arrivals.
//!
//! `recvmmsg` fills a *slot* for each message: a header that describes the frame, a frame of the pool, and a long
//! buffer for the bytes beyond that. A frame is handed over as it lies in the pool. A super-frame, which an offload has
//! joined from several packets, is handed over with its first bytes; the rest is in the slot's long buffer until frames
//! are received again. Nothing is received before all slots are empty again.
//!
//! [`Received`] reverts changes by the kernel.
//!
//! If the kernel does not describe frames (no `PACKET_VNET_HDR`), super-frames are too long and checksums stay as they
//! are.

use std::os::fd::{AsRawFd, OwnedFd};

use fairlink_config::matching::ethernet;
use fairlink_core::Nanos;

use crate::io::backend::{Arrival, BATCH, BackendCounters};
use crate::io::frame_pool::{FramePool, HEADROOM};
use crate::io::received::{Announced, Received, received_tag};
use crate::wire::segments::{LONGEST, Segments};
use crate::wire::virtio::VirtioHeader;

/// Bytes of a slot's long buffer.
const SLOT: usize = (HEADROOM + LONGEST).next_multiple_of(64);

/// Buffer for one `tpacket_auxdata` control message, aligned as control messages are.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

// SAFETY: CMSG_SPACE only computes.
const _: () =
    assert!(size_of::<Control>() >= unsafe { libc::CMSG_SPACE(size_of::<libc::tpacket_auxdata>() as u32) } as usize);

/// Arguments of one `recvmmsg` besides the frames. On the heap, at a fixed place, because the messages point into it.
struct Arrays {
    messages: [libc::mmsghdr; BATCH],
    vectors: [[libc::iovec; 3]; BATCH],
    headers: [VirtioHeader; BATCH],
    controls: [Control; BATCH],
}

/// See the module.
pub(super) struct Reception {
    arrays: Box<Arrays>,
    /// True if the kernel describes frames.
    described: bool,
    /// The frame that each slot has for the next message.
    armed: [Option<u32>; BATCH],
    /// The messages of the slots before `ready` are set, except those before `used`, which must be set again.
    ready: usize,
    used: usize,
    /// Number of the pool that the messages point into; 0 before the first.
    pool: u64,
    /// The long buffers one after the other; none if frames are not described.
    long: Vec<u8>,
    /// Filled slots, and the first of them that is not handed over.
    filled: [Received; BATCH],
    count: usize,
    next: usize,
    /// Super-frames by their slots.
    announced: Announced<usize>,
    /// Time of filling.
    at: Nanos,
}

// SAFETY: the pointers in the message arrays are used only within `fill`, which has exclusive access. Between calls
// nothing dereferences them, so that the whole may move to another thread.
unsafe impl Send for Reception {}

impl Reception {
    /// Empty slots. `described` says whether each message begins with a [`VirtioHeader`].
    pub(super) fn new(described: bool) -> Self {
        Self {
            // SAFETY: plain data (integers and pointers) for which all zeros is valid.
            arrays: unsafe { Box::<Arrays>::new_zeroed().assume_init() },
            described,
            armed: [None; BATCH],
            ready: 0,
            used: 0,
            pool: 0,
            long: vec![0; if described { BATCH * SLOT } else { 0 }],
            filled: [Received::default(); BATCH],
            count: 0,
            next: 0,
            announced: Announced::new(),
            at: Nanos::ZERO,
        }
    }

    /// Bytes of memory; it never grows.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Arrays>() + self.long.capacity()
    }

    /// Returns true if received frames are not handed over yet.
    pub(super) fn has_more(&self) -> bool {
        self.next < self.count
    }

    /// Number of pool frames owned here.
    pub(super) fn held(&self) -> usize {
        self.armed.iter().flatten().count()
    }

    /// Gives all frames back. Frames that were not handed over are lost.
    pub(super) fn release(&mut self, pool: &mut FramePool) {
        (self.count, self.next) = (0, 0);
        (self.ready, self.used) = (0, 0);
        self.armed.iter_mut().filter_map(Option::take).for_each(|frame| pool.give_back(frame));
    }

    /// Receives up to `max` messages from `socket` without waiting. All earlier frames must have been handed over.
    ///
    /// # Errors
    /// The error of `recvmmsg`; `EAGAIN` if there is no message, or no frame in the pool.
    pub(super) fn fill(
        &mut self,
        socket: &OwnedFd,
        pool: &mut FramePool,
        now: Nanos,
        max: usize,
    ) -> std::io::Result<()> {
        debug_assert!(!self.has_more());
        let count = self.arm(pool, max);
        if count == 0 {
            return Err(std::io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let header = if self.described { VirtioHeader::LEN } else { 0 };
        let arrays = &mut *self.arrays;
        // SAFETY: `arm` has set the first `count` messages to point to a header, a control buffer, a frame and a long
        // buffer each, now or since they were received into last. All of them belong to this value or to this pool:
        // `arm` has compared its number, and a pool neither moves nor loses frames. Nothing borrows them until the call
        // returns. `armed` holds each frame once, so no two overlap.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                arrays.messages.as_mut_ptr(),
                count as _,
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        if received < 0 {
            return Err(std::io::Error::last_os_error());
        }
        for index in 0..received as usize {
            let message = &arrays.messages[index];
            self.filled[index] = Received {
                header: if self.described { arrays.headers[index] } else { VirtioHeader::default() },
                // With MSG_TRUNC the kernel reports the real length of the packet.
                wire: (message.msg_len as usize).saturating_sub(header),
                tag: vlan_tag(&message.msg_hdr),
            };
        }
        (self.count, self.next, self.at) = (received as usize, 0, now);
        // Slots that were not set before still are not.
        self.used = if count >= self.used { self.count } else { self.used.max(self.count) };
        Ok(())
    }

    /// Prepares the first `max` slots for reception, or fewer if the pool has no more frames. Returns the number of
    /// prepared slots.
    fn arm(&mut self, pool: &mut FramePool, max: usize) -> usize {
        let max = max.min(BATCH);
        let (base, frame_bytes) = (pool.as_mut_ptr(), pool.frame_bytes());
        if self.pool != pool.id() {
            (self.pool, self.used, self.ready) = (pool.id(), 0, 0);
            // They belong to an earlier pool; in this one they may not exist or have another owner.
            self.armed = [None; BATCH];
        }
        // Bytes beyond the pool's frame continue at the same offset of the long buffer.
        let overflow = if self.described { SLOT.saturating_sub(frame_bytes) } else { 0 };
        let long = self.long.as_mut_ptr();
        let arrays = &mut *self.arrays;
        for index in (0..self.used.min(max)).chain(self.ready.max(self.used)..max) {
            let slot = &mut self.armed[index];
            let Some(frame) = slot.or_else(|| pool.take()) else { return index };
            *slot = Some(frame);
            assert!((frame as usize) < pool.frames(), "frame {frame} of a pool of {}", pool.frames());
            // SAFETY: the pool has this frame, so the result is inside its memory.
            let at = unsafe { base.add(frame as usize * frame_bytes + HEADROOM) };
            // If `overflow` is not 0, each slot has a buffer of `SLOT` bytes, of which the last `overflow` are used.
            // Else the address is not used.
            let further = long.wrapping_add(index * SLOT + frame_bytes);
            let header = if self.described { VirtioHeader::LEN } else { 0 };
            arrays.vectors[index] = [
                libc::iovec { iov_base: std::ptr::from_mut(&mut arrays.headers[index]).cast(), iov_len: header },
                libc::iovec { iov_base: at.cast(), iov_len: frame_bytes - HEADROOM },
                libc::iovec { iov_base: further.cast(), iov_len: overflow },
            ];
            let message = &mut arrays.messages[index].msg_hdr;
            message.msg_iov = arrays.vectors[index].as_mut_ptr();
            message.msg_iovlen = if overflow > 0 { 3 } else { 2 };
            message.msg_control = arrays.controls[index].0.as_mut_ptr().cast();
            message.msg_controllen = size_of::<Control>() as _;
            message.msg_flags = 0;
        }
        self.ready = self.ready.max(max);
        max
    }

    /// Appends received frames to `out`, oldest first, until `out` has `max` arrivals.
    pub(super) fn hand_over(
        &mut self,
        pool: &mut FramePool,
        max: usize,
        out: &mut Vec<Arrival>,
        counters: &mut BackendCounters,
    ) {
        self.announced.frames.clear();
        while self.has_more() && out.len() < max {
            let slot = self.next;
            self.next += 1;
            let received = self.filled[slot];
            let frame = self.armed[slot].take().expect("a slot that was filled has a frame");
            let held = received.wire.min(pool.frame_bytes() - HEADROOM);
            out.push(match received.header.is_joined() {
                true => self.announced.arrival(received, (pool, frame, held), slot, self.at, counters),
                false => received.arrival(pool, frame, held, self.at, counters),
            });
        }
    }

    /// Returns how to split super-frame `number` of the last call of [`Reception::hand_over`].
    pub(super) fn segments(&self, number: u8) -> &Segments {
        self.announced.segments(number)
    }

    /// Copies super-frame `number`, whose first bytes are in `frame`, to the beginning of `into`.
    pub(super) fn fetch(&self, pool: &FramePool, frame: u32, number: u8, into: &mut [u8]) {
        let slot = self.announced.frames[usize::from(number)].1;
        let first = pool.packet(frame);
        let rest = self.filled[slot].wire.saturating_sub(pool.frame_bytes() - HEADROOM);
        let at = slot * SLOT + pool.frame_bytes();
        into[..first.len()].copy_from_slice(first);
        into[first.len()..first.len() + rest].copy_from_slice(&self.long[at..at + rest]);
    }
}

/// Returns the VLAN tag that the kernel took out of the frame of this message, in its original form.
fn vlan_tag(message: &libc::msghdr) -> Option<[u8; ethernet::VLAN_TAG]> {
    // SAFETY: the kernel has filled `msg_control`, of the length it has set, with whole control messages.
    let control = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    let needed = size_of::<libc::cmsghdr>() + size_of::<libc::tpacket_auxdata>();
    if control.cmsg_level != libc::SOL_PACKET
        || control.cmsg_type != libc::PACKET_AUXDATA
        || (control.cmsg_len as usize) < needed
    {
        return None;
    }
    // SAFETY: the message is of this kind and was checked to be at least this long; it may be unaligned for the type.
    let aux = unsafe { libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>().read_unaligned() };
    received_tag(aux.tp_status, aux.tp_vlan_tci, aux.tp_vlan_tpid)
}

#[cfg(test)]
mod tests;
