//! Rings of a packet socket (`PACKET_RX_RING`, `PACKET_TX_RING`, version 2): frames in memory shared with the kernel, one
//! in each slot. Frames are received without a system call, and one call sends a batch. Version 3 is not used: it hands
//! over frames in blocks, which adds half a millisecond.
//!
//! A slot belongs to one side at a time, by its status. A slot begins with a `tpacket2_hdr`. The kernel's numbers in it
//! are not trusted: a slot whose numbers do not fit is skipped and counted.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::io::sys::{self, Mapping};

mod receive;
mod send;

pub(super) use receive::RingReception;
pub(super) use send::RingSender;

/// Version 2 of the ring's layout, whose frames begin with a `tpacket2_hdr`.
const TPACKET_V2: libc::c_int = 1;
/// Alignment of slots in bytes.
pub(crate) const SLOT_ALIGNMENT: usize = libc::TPACKET_ALIGNMENT;
/// Bytes of the pieces that the kernel allocates a ring in, unless a slot is larger.
const BLOCK: usize = 1 << 16;

/// Requests the layout of the rings of `socket`, before the first of them.
///
/// # Errors
/// The kernel's answer.
pub(super) fn choose_version(socket: &OwnedFd) -> io::Result<()> {
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)
}

/// Has the kernel free the receive ring of `socket`, which is not mapped. The socket receives into its queue then.
///
/// # Errors
/// The kernel's answer.
pub(super) fn free_receive_ring(socket: &OwnedFd) -> io::Result<()> {
    free(socket, libc::PACKET_RX_RING)
}

fn free(socket: &OwnedFd, kind: libc::c_int) -> io::Result<()> {
    let none = libc::tpacket_req { tp_block_size: 0, tp_block_nr: 0, tp_frame_size: 0, tp_frame_nr: 0 };
    sys::set_option(socket, libc::SOL_PACKET, kind, &none)
}

/// Slots of a receive ring of about `bytes` bytes for frames of up to `longest`.
pub(crate) fn receive_slots(longest: usize, bytes: usize) -> usize {
    let Shape { blocks, of_block, .. } = Shape::new(receive::IN_FRONT + longest, bytes);
    blocks * of_block
}

/// Sizes of a ring.
struct Shape {
    slot_bytes: usize,
    block_bytes: usize,
    blocks: usize,
    of_block: usize,
}

impl Shape {
    /// A ring with slots of at least `slot_bytes`, of about `bytes` bytes.
    fn new(slot_bytes: usize, bytes: usize) -> Self {
        let slot_bytes = slot_bytes.next_multiple_of(SLOT_ALIGNMENT);
        let block_bytes = slot_bytes.next_power_of_two().max(BLOCK);
        let blocks = bytes.div_ceil(block_bytes).max(1);
        Self { slot_bytes, block_bytes, blocks, of_block: block_bytes / slot_bytes }
    }
}

/// The slots of one ring.
#[derive(Debug)]
struct Slots {
    mapping: Mapping,
    block_bytes: usize,
    slot_bytes: usize,
    /// Slots of a block: some bytes of it may be left over.
    of_block: usize,
    count: usize,
    /// The slot that is used next.
    next: usize,
}

impl Slots {
    /// Has the kernel make the ring `kind` of `socket` with slots of at least `slot_bytes`, of about `bytes` bytes, and
    /// maps it.
    ///
    /// # Errors
    /// The kernel's answer: no memory (`ENOMEM`), no rings (`ENOPROTOOPT`).
    fn make(socket: &OwnedFd, kind: libc::c_int, slot_bytes: usize, bytes: usize) -> io::Result<Self> {
        let Shape { slot_bytes, block_bytes, blocks, of_block } = Shape::new(slot_bytes, bytes);
        let count = blocks * of_block;
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: slot_bytes as libc::c_uint,
            tp_frame_nr: count as libc::c_uint,
        };
        sys::set_option(socket, libc::SOL_PACKET, kind, &request)?;
        // With a ring that is not used, the socket would neither receive nor send messages.
        let mapping = Mapping::shared(socket, 0, blocks * block_bytes).or_else(|error| {
            free(socket, kind)?;
            Err(error)
        })?;
        Ok(Self { mapping, block_bytes, slot_bytes, of_block, count, next: 0 })
    }

    fn bytes(&self) -> usize {
        self.count / self.of_block * self.block_bytes
    }

    /// The first byte of the slot that is `ahead` behind the next one.
    fn slot(&self, ahead: usize) -> NonNull<u8> {
        debug_assert!(ahead < self.count);
        let mut number = self.next + ahead;
        if number >= self.count {
            number -= self.count;
        }
        let offset = number / self.of_block * self.block_bytes + number % self.of_block * self.slot_bytes;
        // SAFETY: the number is below the count, so that the slot lies within the mapping.
        unsafe { self.mapping.start().add(offset) }
    }

    /// Bytes of the next slot, from `start` on.
    ///
    /// # Panics
    /// If they are not all within the slot.
    ///
    /// # Safety
    /// The slot must be the user's as long as the bytes are borrowed.
    unsafe fn bytes_of_next(&self, start: usize, count: usize) -> &[u8] {
        assert!(start.checked_add(count).is_some_and(|end| end <= self.slot_bytes));
        // SAFETY: the bytes lie within the slot, which is mapped. The kernel does not write to a slot of the user's.
        unsafe { std::slice::from_raw_parts(self.slot(0).add(start).as_ptr(), count) }
    }

    fn status(&self, ahead: usize) -> &AtomicU32 {
        // SAFETY: the status is the first word of a slot, which is aligned to 16 bytes and mapped as long as this value
        // lives. It is only used as an atomic, and the kernel changes it only as a whole.
        unsafe { AtomicU32::from_ptr(self.slot(ahead).as_ptr().cast()) }
    }

    fn load(&self, ahead: usize) -> u32 {
        self.status(ahead).load(Ordering::Acquire)
    }

    fn store(&mut self, ahead: usize, status: u32) {
        self.status(ahead).store(status, Ordering::Release);
    }

    /// Continues `by` slots further.
    fn advance(&mut self, by: usize) {
        self.next += by;
        if self.next >= self.count {
            self.next -= self.count;
        }
    }
}

#[cfg(test)]
mod tests;
