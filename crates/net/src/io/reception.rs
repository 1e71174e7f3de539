//! Frames that a packet socket has received and that are not handed over yet, and their conversion to arrivals.
//!
//! `recvmmsg` fills a *slot* for each message: a header that describes the frame, a frame of the pool, and a long
//! buffer for the bytes beyond that. A frame is handed over as it lies in the pool. A super-frame, which an offload has
//! joined from several packets, is moved to the slot's long buffer. Its packets are written into frames of the pool one
//! by one, as many as the caller wants and the pool has. The rest waits here until the next call. Nothing is received
//! before all slots are empty again.
//!
//! Changes by the kernel are reverted. A VLAN tag that it took out is put in again. A checksum that the sender left to
//! hardware, as is usual on veth, is left to the output if it is that of TCP or UDP, and computed otherwise.
//!
//! If the kernel does not describe frames (no `PACKET_VNET_HDR`), super-frames are too long and checksums stay as they
//! are.

use std::os::fd::{AsRawFd, OwnedFd};

use fairlink_config::matching::ethernet;
use fairlink_core::Nanos;

use crate::io::backend::{Arrival, BATCH, BackendCounters, Condition};
use crate::io::frame_pool::{FrameInfo, FramePool, HEADROOM};
use crate::wire::checksum;
use crate::wire::segments::{self, LONGEST, Segments, Unsplittable};
use crate::wire::virtio::VirtioHeader;

/// Bytes of a slot's long buffer. A super-frame is in it behind the headroom.
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

/// A message as it was received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// The kernel's description of the frame.
    pub(super) header: VirtioHeader,
    /// Original length of the frame, which may exceed the available room.
    pub(super) wire: usize,
    /// The VLAN tag that the kernel took out, in its original form.
    pub(super) tag: Option<[u8; 4]>,
}

/// A super-frame that is being split, in the long buffer of slot `next`.
#[derive(Clone, Copy, Debug)]
struct Splitting {
    segments: Segments,
    start: usize,
    len: usize,
    /// The next packet.
    index: usize,
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
    splitting: Option<Splitting>,
    /// Time of filling.
    at: Nanos,
}

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
            splitting: None,
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
        (self.count, self.next, self.splitting) = (0, 0, None);
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

    /// Appends received frames to `out`, oldest first, until `out` has `max` arrivals or the pool has no more frames.
    pub(super) fn hand_over(
        &mut self,
        pool: &mut FramePool,
        max: usize,
        out: &mut Vec<Arrival>,
        counters: &mut BackendCounters,
    ) {
        while self.has_more() && out.len() < max {
            if self.splitting.is_none() {
                if let Some(arrival) = self.look_at(pool, counters) {
                    out.push(arrival);
                    self.next += 1;
                }
                continue;
            }
            let Some(arrival) = self.split(pool) else { return };
            counters.segments += 1;
            out.push(arrival);
        }
    }

    /// Returns the arrival in slot `next`; `None` if a super-frame is to be split.
    fn look_at(&mut self, pool: &mut FramePool, counters: &mut BackendCounters) -> Option<Arrival> {
        let slot = self.next;
        let Received { header, wire, tag } = self.filled[slot];
        let frame = self.armed[slot].expect("a slot that was filled has a frame");
        let mut condition = Condition::Whole;
        if header.is_joined() {
            match self.begin(pool, slot, frame) {
                Ok(splitting) => {
                    self.splitting = Some(splitting);
                    counters.split += 1;
                    counters.vlan_tags_restored += u64::from(splitting.start < HEADROOM);
                    return None;
                }
                Err(why) => {
                    counters.unsplittable[why as usize] += 1;
                    condition = Condition::Joined;
                }
            }
        }
        self.armed[slot] = None;
        let mut held = wire.min(pool.frame_bytes() - HEADROOM);
        let mut start = HEADROOM;
        let mut len = wire;
        let bytes = pool.frame_mut(frame);
        if let Some(tag) = tag
            && held >= 12
        {
            start -= tag.len();
            put_tag(&mut bytes[start..], tag);
            held += tag.len();
            len += tag.len();
            counters.vlan_tags_restored += 1;
        }
        let mut unfinished = None;
        if condition == Condition::Whole && held < len {
            condition = Condition::TooLong;
        } else if condition == Condition::Whole
            && let Some(mut place) = header.unfinished()
        {
            place.start = place.start.saturating_add((len - wire) as u16);
            let bytes = &mut bytes[start..start + held];
            if segments::is_of_transport(bytes, place) {
                unfinished = Some(place);
                counters.checksums_passed_on += 1;
            } else if checksum::complete(bytes, place.start, place.offset) {
                counters.checksums_completed += 1;
            } else {
                condition = Condition::Checksum;
            }
        }
        pool.set_info(frame, FrameInfo { start: start as u32, len: held as u32, received: self.at, unfinished });
        Some(Arrival { frame, len: len as u32, condition })
    }

    /// Assembles the super-frame of `slot` in the long buffer, restores its tag, and determines how to split it.
    fn begin(&mut self, pool: &mut FramePool, slot: usize, frame: u32) -> Result<Splitting, Unsplittable> {
        let Received { mut header, wire, tag } = self.filled[slot];
        let first = pool.frame_bytes() - HEADROOM;
        // It was truncated, or may have been.
        if wire > SLOT - HEADROOM {
            return Err(Unsplittable::TooLong);
        }
        let buffer = &mut self.long[slot * SLOT..(slot + 1) * SLOT];
        let (mut start, mut len) = (HEADROOM, wire);
        let held = wire.min(first);
        buffer[HEADROOM..HEADROOM + held].copy_from_slice(&pool.frame(frame)[HEADROOM..HEADROOM + held]);
        if let Some(tag) = tag
            && held >= 12
        {
            start -= tag.len();
            put_tag(&mut buffer[start..], tag);
            len += tag.len();
            header.checksum_start = header.checksum_start.saturating_add(tag.len() as u16);
        }
        let segments = Segments::from_frame(&buffer[start..start + len], &header, first)?;
        Ok(Splitting { segments, start, len, index: 0 })
    }

    /// Returns the next packet of the super-frame in slot `next`, or `None` if the pool has no frame for it.
    fn split(&mut self, pool: &mut FramePool) -> Option<Arrival> {
        let Splitting { segments, start, len, index } = self.splitting.as_mut()?;
        let frame = pool.take()?;
        let from = self.next * SLOT + *start;
        let bytes = segments.write(&self.long[from..from + *len], *index, &mut pool.frame_mut(frame)[HEADROOM..]);
        let unfinished = segments.unfinished();
        pool.set_info(frame, FrameInfo { start: HEADROOM as u32, len: bytes as u32, received: self.at, unfinished });
        *index += 1;
        if *index == segments.count() {
            self.splitting = None;
            self.next += 1;
        }
        Some(Arrival { frame, len: bytes as u32, condition: Condition::Whole })
    }
}

/// Moves the addresses at the beginning of a frame forward by the length of a tag, and inserts the tag behind them. The
/// frame begins 4 bytes into `bytes`.
fn put_tag(bytes: &mut [u8], tag: [u8; ethernet::VLAN_TAG]) {
    bytes.copy_within(tag.len()..tag.len() + 12, 0);
    bytes[12..12 + tag.len()].copy_from_slice(&tag);
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
    if aux.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { aux.tp_vlan_tpid } else { ethernet::VLAN };
    let [a, b] = tpid.to_be_bytes();
    let [c, d] = aux.tp_vlan_tci.to_be_bytes();
    Some([a, b, c, d])
}

#[cfg(test)]
mod tests;
