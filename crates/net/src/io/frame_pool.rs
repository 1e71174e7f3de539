//! The packet pool: one contiguous piece of memory for all frames, from reception to departure.
//!
//! A frame's index in the pool is the handle of its packet. Nothing is allocated after construction, unless another
//! thread brings more frames ([`FramePool::growth`]). Their address space is reserved from the start, so that no frame
//! ever moves. When no frame is free, nothing more is received; the interface's own queue fills up and drops frames,
//! which the kernel counts.
//!
//! Invariant: each frame is either free or has exactly one owner: a backend, the scheduler, or the batch in transit
//! between them. The pool records the owner of each frame, so that a frame given back twice is detected at once.
//!
//! A backend may share the memory with the kernel. Then the pool also records which frames the kernel may write or
//! read. It gives no reference to bytes that the kernel may write, and no mutable reference to bytes that the kernel
//! may read.
//!
//! Other threads share the memory in the same way. Each has a [`FramePool::view`], with the frames that were lent to
//! it, and lends none itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlink_core::Nanos;
use thiserror::Error;

use crate::io::sys::Region;
use crate::wire::checksum::{self, Unfinished};
use crate::wire::segments::Origin;

/// Most frames a pool may have.
pub(crate) const MAX_FRAMES: u32 = 1 << 24;
/// Largest frame a pool may be made for, in bytes.
pub(crate) const MAX_FRAME_BYTES: u32 = 1 << 17;

/// Bytes kept free in front of a received frame. A VLAN tag that the kernel took out fits there, so that the rest of
/// the frame need not move.
pub(crate) const HEADROOM: usize = 16;

/// Position of a packet in its frame, and its arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameInfo {
    /// Offset of its first byte.
    pub start: u32,
    /// Its length in bytes; `start + len` is within the frame.
    pub len: u32,
    /// Time of reception.
    pub received: Nanos,
    /// Its checksum, if the sending side shall compute it.
    pub unfinished: Option<Unfinished>,
    /// The super-frame that it came in, if the sending side may join it with its neighbors again.
    pub origin: Option<Origin>,
    /// Hash of its flow, for interfaces behind several threads.
    pub flow: u32,
}

/// Reason why a pool was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FramePoolError {
    /// No frame, or more than 2^24.
    #[error("a packet pool of {frames} frames is outside 1 .. {MAX_FRAMES}")]
    Frames {
        /// The number given.
        frames: u32,
    },
    /// Frames of no byte, or of more than 131,072 B.
    #[error("frames of {bytes} B are outside 1 .. {MAX_FRAME_BYTES} B")]
    FrameBytes {
        /// The size given.
        bytes: u32,
    },
    /// There is no memory.
    #[error("there is no memory for a packet pool of {bytes} B")]
    NoMemory {
        /// The size of all frames in bytes.
        bytes: u64,
    },
}

/// Owners of frames. They are numbers, so that memory for many frames that no view has needs no writing.
mod holder {
    /// The kernel or another thread, for writing at any time.
    pub(super) const WRITER: u8 = 0;
    /// No owner.
    pub(super) const FREE: u8 = 1;
    /// A part of this process, on this thread.
    pub(super) const PROCESS: u8 = 2;
    /// The kernel or another thread, which only reads it.
    pub(super) const READER: u8 = 3;

    /// Their names.
    pub(super) const NAMES: [&str; 4] = ["Writer", "Free", "Process", "Reader"];
}

/// Memory that all views of a pool share.
#[derive(Debug)]
struct Shared {
    frames: Region,
    /// The [`FrameInfo`] of each frame, written once the pool has the frame. Only the owner of a frame reads and writes it.
    infos: Region,
}

impl Shared {
    /// # Panics
    /// If there is no such frame.
    #[inline]
    fn info(&self, frame: u32) -> *mut FrameInfo {
        self.infos.place(frame as usize * size_of::<FrameInfo>(), size_of::<FrameInfo>()).cast()
    }
}

/// Number of the next pool.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// Frames of equal size; see the module.
#[derive(Debug)]
pub struct FramePool {
    /// Unique among all pools of this process, including earlier ones at the same address.
    id: u64,
    memory: Arc<Shared>,
    frame_bytes: usize,
    /// Frames that there is room for.
    room: u32,
    free: Vec<u32>,
    view: Option<View>,
    holders: Vec<u8>,
    /// By frame: the next packet of those that are scheduled as one.
    next: Vec<u32>,
    least_free: usize,
}

/// The additional parts of a view.
#[derive(Debug)]
struct View {
    /// By frame: true if it goes back to the thread that lent it, once it was given back here.
    is_due: Vec<bool>,
    /// Such frames.
    returned: Vec<u32>,
}

/// What a view gets a frame for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// To be filled by reception, as often as it is free.
    Fill,
    /// To be sent once. The caller owns it.
    Send,
}

/// Additional memory for a pool, prepared on another thread than the pool's.
#[derive(Debug)]
pub(crate) struct Growth {
    free: Vec<u32>,
    holders: Vec<u8>,
    next: Vec<u32>,
}

impl Growth {
    /// Prepares a growth to `to` frames.
    pub(crate) fn new(from: u32, to: u32) -> Self {
        let mut free = Vec::with_capacity(to as usize);
        free.extend((from..to).rev());
        let to = to as usize;
        Self { free, holders: vec![holder::FREE; to], next: vec![NONE; to] }
    }
}

impl FramePool {
    /// Creates a pool of `frames` frames of at least `frame_bytes` each, rounded up to whole cache lines.
    ///
    /// # Errors
    /// [`FramePoolError`] if either is out of range, or there is no memory.
    pub fn new(frames: u32, frame_bytes: u32) -> Result<Self, FramePoolError> {
        Self::with_room(frames, frames, frame_bytes)
    }

    /// As [`FramePool::new`], with address space reserved for up to `room` frames if the system allows it. The
    /// additional frames take memory only after [`FramePool::grow`], once they are used.
    pub(crate) fn with_room(frames: u32, room: u32, frame_bytes: u32) -> Result<Self, FramePoolError> {
        if frames == 0 || frames > MAX_FRAMES {
            return Err(FramePoolError::Frames { frames });
        }
        if frame_bytes == 0 || frame_bytes > MAX_FRAME_BYTES {
            return Err(FramePoolError::FrameBytes { bytes: frame_bytes });
        }
        let frame_bytes = (frame_bytes as usize).next_multiple_of(64);
        let reserve = |frames: u32| {
            let bytes = u64::from(frames) * frame_bytes as u64;
            let region = |bytes| {
                let fits = usize::try_from(bytes).ok().filter(|&bytes| bytes <= isize::MAX as usize);
                fits.and_then(|bytes| Region::reserve(bytes).ok()).ok_or(FramePoolError::NoMemory { bytes })
            };
            let infos = region(u64::from(frames) * size_of::<FrameInfo>() as u64)?;
            Ok(Arc::new(Shared { frames: region(bytes)?, infos }))
        };
        let room = room.clamp(frames, MAX_FRAMES);
        let (room, memory) = match reserve(room) {
            Ok(memory) => (room, memory),
            Err(_) => (frames, reserve(frames)?),
        };
        let mut pool = Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            memory,
            frame_bytes,
            room,
            // The frame given back last is taken first: it is the one most likely still in the cache.
            free: (0..frames).rev().collect(),
            view: None,
            holders: vec![holder::FREE; frames as usize],
            next: vec![NONE; frames as usize],
            least_free: frames as usize,
        };
        (0..frames).for_each(|frame| pool.set_info(frame, FrameInfo::default()));
        Ok(pool)
    }

    /// Makes a pool without frames for another thread, which shares the memory. It gets frames by [`FramePool::adopt`],
    /// at most `most` at the same time.
    pub(crate) fn view(&self, most: usize) -> Self {
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            memory: Arc::clone(&self.memory),
            frame_bytes: self.frame_bytes,
            room: self.room,
            free: Vec::with_capacity(most),
            view: Some(View { is_due: vec![false; self.room as usize], returned: Vec::with_capacity(most) }),
            // A writer elsewhere has all frames.
            holders: vec![holder::WRITER; self.room as usize],
            // Chains are for the owner of all frames.
            next: Vec::new(),
            least_free: 0,
        }
    }

    /// Memory of a view in bytes, the frames not counted.
    pub(crate) fn view_bytes(&self) -> usize {
        let lists = self.free.capacity() + self.view.as_ref().map_or(0, |view| view.returned.capacity());
        2 * self.holders.len() + lists * size_of::<u32>()
    }

    /// Adds `frame` to a view, for this use.
    ///
    /// # Safety
    /// The owner of `frame` must have lent it to the thread of this view, for writing.
    ///
    /// # Panics
    /// If the view has it already, or this is no view.
    #[inline]
    pub(crate) unsafe fn adopt(&mut self, frame: u32, purpose: Use) {
        let to = if purpose == Use::Fill { holder::FREE } else { holder::PROCESS };
        self.pass(frame, holder::WRITER, to, "was lent twice");
        let Some(view) = &mut self.view else { unreachable!("only a view adopts frames") };
        view.is_due[frame as usize] = purpose == Use::Send;
        if purpose == Use::Fill {
            self.free.push(frame);
        }
    }

    /// Takes `frame`, which the caller owns, out of a view, so that it can be given to the thread that lent it.
    #[inline]
    pub(crate) fn let_go(&mut self, frame: u32) {
        self.pass(frame, holder::PROCESS, holder::WRITER, "is let go and not the caller's");
    }

    /// Takes a frame that was lent for sending and given back out of a view.
    #[inline]
    pub(crate) fn take_returned(&mut self) -> Option<u32> {
        let frame = self.view.as_mut()?.returned.pop()?;
        self.pass(frame, holder::FREE, holder::WRITER, "was given back and is not free");
        Some(frame)
    }

    /// Takes back all frames that were lent and not returned.
    ///
    /// # Safety
    /// The kernel and other threads must be unable to reach them.
    pub(crate) unsafe fn end_all_lending(&mut self) {
        for frame in 0..self.holders.len() as u32 {
            if matches!(self.holders[frame as usize], holder::READER | holder::WRITER) {
                self.holders[frame as usize] = holder::FREE;
                self.free.push(frame);
            }
        }
    }

    /// Frames that it may grow to.
    pub(crate) fn room(&self) -> u32 {
        self.room
    }

    /// Grows to the number of frames that `growth` was made for, at most [`FramePool::room`]; a smaller number changes
    /// nothing. The caller frees what is left in `growth`.
    pub(crate) fn grow(&mut self, growth: &mut Growth) {
        let (before, after) = (self.holders.len(), growth.holders.len());
        if after <= before || after > self.room as usize {
            return;
        }
        growth.holders[..before].copy_from_slice(&self.holders);
        growth.next[..before].copy_from_slice(&self.next);
        // Frames given back last are on top.
        growth.free.extend_from_slice(&self.free);
        std::mem::swap(&mut self.holders, &mut growth.holders);
        std::mem::swap(&mut self.next, &mut growth.next);
        std::mem::swap(&mut self.free, &mut growth.free);
        self.least_free += after - before;
        (before as u32..after as u32).for_each(|frame| self.set_info(frame, FrameInfo::default()));
    }

    /// Bytes of a pool of `frames` frames of at least `frame_bytes`, bookkeeping included.
    pub(crate) const fn memory(frames: u32, frame_bytes: u32) -> u64 {
        let each = (frame_bytes as u64).next_multiple_of(64)
            + (2 * size_of::<u32>() + size_of::<u8>() + size_of::<FrameInfo>()) as u64;
        frames as u64 * each
    }

    /// Takes a free frame, which the caller owns until it gives it back; `None` if all are taken.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        let frame = self.free.pop()?;
        self.holders[frame as usize] = holder::PROCESS;
        self.least_free = self.least_free.min(self.free.len());
        Some(frame)
    }

    /// Gives `frame` back.
    ///
    /// # Panics
    /// If `frame` is not taken, or the kernel has it: two owners would be a bug of ours that corrupts packets.
    #[inline]
    pub fn give_back(&mut self, frame: u32) {
        self.pass(frame, holder::PROCESS, holder::FREE, "was given back twice");
        match &mut self.view {
            Some(view) if view.is_due[frame as usize] => view.returned.push(frame),
            _ => self.free.push(frame),
        }
    }

    /// Puts `next` behind `frame`, the last frame of a chain: packets that are scheduled as one. The owner of the first
    /// owns all.
    pub(crate) fn chain(&mut self, frame: u32, next: u32) {
        debug_assert_eq!(self.next[frame as usize], NONE);
        self.next[frame as usize] = next;
    }

    /// Returns the frame behind `frame` in its chain.
    #[inline]
    pub(crate) fn next(&self, frame: u32) -> Option<u32> {
        let next = self.next[frame as usize];
        (next != NONE).then_some(next)
    }

    /// Returns `frame` and those behind it in its chain.
    pub(crate) fn chained(&self, frame: u32) -> impl Iterator<Item = u32> + use<'_> {
        std::iter::successors(Some(frame), |&frame| self.next(frame))
    }

    /// Takes `frame`, the first of its chain, out of it. Returns the one behind it.
    #[inline]
    pub(crate) fn unchain(&mut self, frame: u32) -> Option<u32> {
        let next = self.next(frame);
        self.next[frame as usize] = NONE;
        next
    }

    /// Sets the hash of the flow of the packet in `frame`.
    pub(crate) fn set_flow(&mut self, frame: u32, flow: u32) {
        self.set_info(frame, FrameInfo { flow, ..self.info(frame) });
    }

    /// Has the packet in `frame` leave apart from its neighbors in the super-frame that it came in.
    pub(crate) fn set_apart(&mut self, frame: u32) {
        self.set_info(frame, FrameInfo { origin: None, ..self.info(frame) });
    }

    /// Lends `frame`, which the caller owns, to the kernel for writing. There is no reference to its bytes until
    /// [`FramePool::end_lending`].
    ///
    /// # Panics
    /// If the caller cannot own `frame`: a bug of ours.
    #[inline]
    pub(crate) fn lend_to_write(&mut self, frame: u32) {
        self.pass(frame, holder::PROCESS, holder::WRITER, "is lent and not the caller's");
    }

    /// Lends `frame`, which the caller owns, to the kernel for reading. The caller may read the bytes but not change
    /// them until [`FramePool::end_lending`].
    ///
    /// # Panics
    /// As [`FramePool::lend_to_write`].
    #[inline]
    pub(crate) fn lend_to_read(&mut self, frame: u32) {
        self.pass(frame, holder::PROCESS, holder::READER, "is lent and not the caller's");
    }

    /// Returns `frame`, which was lent to the kernel, to the caller.
    ///
    /// # Panics
    /// If it was not lent: a bug of ours.
    ///
    /// # Safety
    /// The kernel, or the thread that it was lent to, must have given the frame back, or be unable to reach it, and must not access it until it is lent
    /// again.
    #[inline]
    pub(crate) unsafe fn end_lending(&mut self, frame: u32) {
        let owner = &mut self.holders[frame as usize];
        let name = holder::NAMES[*owner as usize];
        assert!(matches!(*owner, holder::READER | holder::WRITER), "frame {frame} was not lent: {name}");
        *owner = holder::PROCESS;
    }

    /// Notes that the outcome of `frame`, which is lent for reading, is known: nothing here reads it any more.
    pub(crate) fn end_reading(&mut self, frame: u32) {
        let owner = &mut self.holders[frame as usize];
        if *owner == holder::READER {
            *owner = holder::WRITER;
        }
    }

    /// Returns true if `frame` is lent for reading, so that it may still be read here.
    pub(crate) fn is_read(&self, frame: u32) -> bool {
        self.holders[frame as usize] == holder::READER
    }

    #[inline]
    fn pass(&mut self, frame: u32, from: u8, to: u8, else_it: &str) {
        let owner = &mut self.holders[frame as usize];
        assert!(*owner == from, "frame {frame} {else_it}: {}", holder::NAMES[*owner as usize]);
        *owner = to;
    }

    /// Returns all bytes of `frame`, used or not.
    ///
    /// # Panics
    /// If the kernel may write the frame: a bug of ours.
    #[inline]
    #[must_use]
    pub(crate) fn frame(&self, frame: u32) -> &[u8] {
        assert!(self.holders[frame as usize] != holder::WRITER, "the kernel may write frame {frame}");
        // SAFETY: frames do not overlap. The kernel writes only the frames that were lent for writing, and this one was
        // not; lending takes `&mut self`, which the slice borrows. This process writes frames through `&mut self`
        // alone.
        unsafe { self.memory.frames.bytes(frame as usize * self.frame_bytes, self.frame_bytes) }
    }

    /// Returns the bytes of `frame`, mutable.
    ///
    /// # Panics
    /// If the kernel may read or write the frame: a bug of ours.
    #[inline]
    pub fn frame_mut(&mut self, frame: u32) -> &mut [u8] {
        let owner = self.holders[frame as usize];
        assert!(
            matches!(owner, holder::FREE | holder::PROCESS),
            "the kernel has frame {frame}: {}",
            holder::NAMES[owner as usize]
        );
        // SAFETY: frames do not overlap, the kernel does not have this one, and lending it takes `&mut self`, which the
        // slice borrows.
        unsafe { self.memory.frames.bytes_mut(frame as usize * self.frame_bytes, self.frame_bytes) }
    }

    /// Position of the packet in `frame`.
    #[inline]
    #[must_use]
    pub fn info(&self, frame: u32) -> FrameInfo {
        assert!(self.holders[frame as usize] != holder::WRITER, "another may write frame {frame}");
        // SAFETY: it was written when the pool got the frame; only its owner writes it, and that is no other thread.
        unsafe { *self.memory.info(frame) }
    }

    /// Sets the position of the packet in `frame`.
    ///
    /// # Panics
    /// If it is not within the frame, which would be a bug of the backend.
    #[inline]
    pub fn set_info(&mut self, frame: u32, info: FrameInfo) {
        let end = info.start as usize + info.len as usize;
        assert!(end <= self.frame_bytes, "a packet that ends at byte {end} in a frame of {}", self.frame_bytes);
        assert!(self.holders[frame as usize] != holder::WRITER, "another may write frame {frame}");
        // SAFETY: only the owner of the frame reads and writes it, and that is no other thread.
        unsafe { *self.memory.info(frame) = info };
    }

    /// Returns the packet in `frame`, at the position set by its backend.
    #[inline]
    #[must_use]
    pub fn packet(&self, frame: u32) -> &[u8] {
        let info = self.info(frame);
        &self.frame(frame)[info.start as usize..info.start as usize + info.len as usize]
    }

    /// Returns the packet in `frame`, mutable.
    #[inline]
    pub(crate) fn packet_mut(&mut self, frame: u32) -> &mut [u8] {
        let info = self.info(frame);
        &mut self.frame_mut(frame)[info.start as usize..info.start as usize + info.len as usize]
    }

    /// Computes the checksum of the packet in `frame`, if it is unfinished.
    pub fn finish_checksum(&mut self, frame: u32) {
        let info = self.info(frame);
        if let Some(Unfinished { start, offset }) = info.unfinished {
            self.set_info(frame, FrameInfo { unfinished: None, ..info });
            // A checksum whose position is outside the packet is never recorded.
            let _ = checksum::complete(self.packet_mut(frame), start, offset);
        }
    }

    /// Number unique among all pools of this process, past and present.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The first byte of frame 0; frame `n` starts `n * frame_bytes` further. For system calls that fill several
    /// frames.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.frames.as_mut_ptr()
    }

    /// Frames in the pool.
    #[must_use]
    pub(crate) fn frames(&self) -> usize {
        self.holders.len()
    }

    /// Frames that may be taken.
    #[must_use]
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Maximum number of frames that were taken at the same time.
    #[must_use]
    pub(crate) fn most_used(&self) -> usize {
        self.frames() - self.least_free
    }

    /// Size of a frame in bytes.
    #[must_use]
    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// All memory of the pool, bookkeeping included, in bytes.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.frames() * self.frame_bytes
            + (self.free.capacity() + self.next.capacity()) * size_of::<u32>()
            + self.holders.capacity() * size_of::<u8>()
            + self.frames() * size_of::<FrameInfo>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_hands_out_each_frame_once_and_never_grows() {
        let mut pool = FramePool::new(3, 100).unwrap();
        let bytes = pool.memory_bytes();
        let mut taken: Vec<u32> = std::iter::from_fn(|| pool.take()).collect();
        for (value, &frame) in taken.iter().enumerate() {
            pool.frame_mut(frame).fill(value as u8 + 1);
        }
        for (value, &frame) in taken.iter().enumerate() {
            assert_eq!(pool.frame(frame).len(), 128);
            assert!(pool.frame(frame).iter().all(|&byte| byte == value as u8 + 1));
        }
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2]);
        assert_eq!((pool.take(), pool.free()), (None, 0));
        // A frame keeps its packet while it is free, for a sender that repeats it.
        pool.set_info(2, FrameInfo { len: 7, ..FrameInfo::default() });
        pool.give_back(2);
        assert_eq!((pool.take(), pool.info(2).len), (Some(2), 7));
        for frame in taken {
            pool.give_back(frame);
        }
        assert_eq!((pool.free(), pool.most_used(), pool.memory_bytes()), (3, 3, bytes));
        assert_eq!(bytes as u64, FramePool::memory(3, 100), "what is promised beforehand");
    }

    #[test]
    fn a_pool_that_grows_keeps_what_is_in_its_frames() {
        let mut pool = FramePool::with_room(2, 5, 64).unwrap();
        let kept = pool.take().unwrap();
        pool.set_info(kept, FrameInfo { start: 3, len: 4, received: Nanos(5), ..FrameInfo::default() });
        pool.packet_mut(kept).copy_from_slice(b"kept");
        pool.grow(&mut Growth::new(2, 6));
        assert_eq!(pool.frames(), 2, "beyond its room");
        pool.grow(&mut Growth::new(2, 5));
        assert_eq!((pool.frames(), pool.free(), pool.most_used()), (5, 4, 1));
        assert_eq!((pool.packet(kept), pool.info(kept).received), (&b"kept"[..], Nanos(5)));
        let mut all: Vec<u32> = std::iter::from_fn(|| pool.take()).chain([kept]).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        pool.frame_mut(4).fill(1);
        pool.grow(&mut Growth::new(2, 3));
        assert_eq!(pool.frames(), 5, "a pool does not shrink");
        all.into_iter().for_each(|frame| pool.give_back(frame));
        assert_eq!(pool.free(), 5);
    }

    #[test]
    fn a_view_keeps_frames_for_reception_and_returns_those_that_it_was_to_send() {
        let mut pool = FramePool::new(2, 100).unwrap();
        let (fill, send) = (pool.take().unwrap(), pool.take().unwrap());
        pool.lend_to_write(fill);
        pool.lend_to_read(send);
        let mut view = pool.view(2);
        for (frame, purpose) in [(fill, Use::Fill), (send, Use::Send)] {
            // SAFETY: it is lent, and nothing else has it.
            unsafe { view.adopt(frame, purpose) };
        }
        for _ in 0..3 {
            assert_eq!((view.take(), view.take()), (Some(fill), None));
            view.give_back(fill);
            assert_eq!(view.take_returned(), None);
        }
        view.give_back(send);
        assert_eq!((view.free(), view.take_returned(), view.take_returned()), (1, Some(send), None));
        // The same frame, for the other use.
        // SAFETY: as above.
        unsafe { view.adopt(send, Use::Fill) };
        assert_eq!(view.take(), Some(send));
        view.give_back(send);
        assert_eq!((view.free(), view.take_returned()), (2, None));
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn a_frame_given_back_twice_is_found() {
        let mut pool = FramePool::new(2, 64).unwrap();
        let frame = pool.take().unwrap();
        pool.give_back(frame);
        pool.give_back(frame);
    }

    #[test]
    fn bytes_that_the_kernel_may_write_are_not_looked_at_and_those_that_it_may_read_not_changed() {
        let mut pool = FramePool::new(2, 64).unwrap();
        let frame = pool.take().unwrap();
        pool.set_info(frame, FrameInfo { len: 4, ..FrameInfo::default() });
        let panics = |act: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err();
        pool.lend_to_write(frame);
        assert!(panics(&mut || assert_eq!(pool.packet(frame).len(), 4)));
        assert!(panics(&mut || pool.packet_mut(frame).fill(1)));
        assert!(panics(&mut || pool.lend_to_read(frame)) && panics(&mut || pool.give_back(frame)));
        // SAFETY: no kernel has it.
        unsafe { pool.end_lending(frame) };
        pool.packet_mut(frame).fill(2);
        pool.lend_to_read(frame);
        assert_eq!(pool.packet(frame), [2; 4]);
        assert!(panics(&mut || pool.packet_mut(frame).fill(3)) && panics(&mut || pool.give_back(frame)));
        // SAFETY: as above.
        unsafe { pool.end_lending(frame) };
        // SAFETY: as above.
        assert!(panics(&mut || unsafe { pool.end_lending(frame) }));
        pool.give_back(frame);
        assert_eq!((pool.free(), pool.frame(frame)[..4].to_vec()), (2, vec![2; 4]));
        assert!(panics(&mut || pool.lend_to_write(frame)), "it has no owner");
    }

    #[test]
    fn sizes_out_of_range_are_refused_with_the_value() {
        assert_eq!(FramePool::new(0, 64).unwrap_err(), FramePoolError::Frames { frames: 0 });
        assert_eq!(FramePool::new(MAX_FRAMES + 1, 64).unwrap_err(), FramePoolError::Frames { frames: MAX_FRAMES + 1 });
        assert_eq!(FramePool::new(1, 0).unwrap_err(), FramePoolError::FrameBytes { bytes: 0 });
        assert_eq!(
            FramePool::new(1, MAX_FRAME_BYTES + 1).unwrap_err(),
            FramePoolError::FrameBytes { bytes: MAX_FRAME_BYTES + 1 }
        );
    }
}
