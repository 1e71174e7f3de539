//! Ownership of the pool's frames at an AF_XDP socket, and the rings that exchange them with the kernel.
//!
//! | ring | entries | direction |
//! | --- | --- | --- |
//! | fill | frames to receive into | to the kernel |
//! | reception | frames that were received into | back |
//! | transmission | frames to send | to the kernel |
//! | completion | frames that were sent | back |
//!
//! The ledger records for each frame whether the kernel has it for reception or for transmission. A frame that the
//! kernel gives back counts only if it is recorded. So, whatever the rings contain, no frame gets two owners. None is
//! lost for good, because [`Custody::release`] takes back all recorded frames.

use fairlink_core::Nanos;

use crate::io::af_xdp::ring::Ring;
use crate::io::backend::{Arrival, BATCH, BackendCounters, Condition};
use crate::io::frame_pool::{FrameInfo, FramePool};
use crate::wire::checksum;
use crate::wire::unfinished::{self, Finishing};

/// Number of frames that an interface with one receive queue has for reception. At 400,000 frames/s they last for 10 ms.
const RECEIVING: u32 = 4096;

/// Number of frames for reception that each of `queues` receive queues has.
pub(super) const fn receiving(queues: u32) -> u32 {
    if queues > 1 { RECEIVING / 2 } else { RECEIVING }
}

/// Maximum number of frames that an interface is sending.
pub(super) const SENDING: u32 = 512;

/// A descriptor that the kernel skips: zero bytes, in no frame.
const NOTHING: libc::xdp_desc = libc::xdp_desc { addr: u64::MAX, len: 0, options: 0 };

/// Location of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Elsewhere,
    Receiving,
    Sending,
}

/// The four rings of a socket.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) fill: Ring<u64>,
    pub(super) reception: Ring<libc::xdp_desc>,
    pub(super) transmission: Ring<libc::xdp_desc>,
    pub(super) completion: Ring<u64>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Custody {
    pub(super) rings: Rings,
    frame_bytes: u64,
    /// Frames that it has for reception once they are refilled.
    wanted: usize,
    places: Vec<Place>,
    receiving: usize,
    sending: usize,
}

impl Custody {
    /// Creates a ledger without frames, for `wanted` frames for reception.
    pub(super) fn new(rings: Rings, pool: &FramePool, wanted: u32) -> Self {
        Self {
            rings,
            frame_bytes: pool.frame_bytes() as u64,
            wanted: wanted as usize,
            places: vec![Place::Elsewhere; pool.frames()],
            receiving: 0,
            sending: 0,
        }
    }

    /// Number of frames held for reception.
    pub(super) fn receiving(&self) -> usize {
        self.receiving
    }

    /// Number of frames held for sending.
    pub(super) fn sending(&self) -> usize {
        self.sending
    }

    /// Gives the kernel frames of `pool` for reception, until it has those that it is for.
    pub(super) fn refill(&mut self, pool: &mut FramePool) {
        let wanted = self.wanted.saturating_sub(self.receiving).min(self.rings.fill.room() as usize);
        // In batches: the kernel need not check so often, and has many.
        if wanted < BATCH {
            return;
        }
        for _ in 0..wanted {
            let Some(frame) = pool.take() else { break };
            pool.lend_to_write(frame);
            self.places[frame as usize] = Place::Receiving;
            self.receiving += 1;
            self.rings.fill.put(u64::from(frame) * self.frame_bytes);
        }
        self.rings.fill.publish();
    }

    /// Appends up to `max` received frames to `out`, oldest first. The caller owns them then.
    pub(super) fn take_in(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        max: usize,
        out: &mut Vec<Arrival>,
        counters: &mut BackendCounters,
    ) {
        let Self { rings, frame_bytes, places, receiving, .. } = self;
        rings.reception.take(max as u32, |libc::xdp_desc { addr, len, .. }| {
            let (frame, start) = (addr / *frame_bytes, addr % *frame_bytes);
            let place = usize::try_from(frame).ok().and_then(|frame| places.get_mut(frame));
            let Some(place) = place.filter(|place| **place == Place::Receiving) else { return };
            *place = Place::Elsewhere;
            *receiving -= 1;
            let frame = frame as u32;
            // SAFETY: the kernel was given the frame to receive into and has put it into the ring of received ones,
            // once: it writes it no more until it is in the fill ring again.
            unsafe { pool.end_lending(frame) };
            if start + u64::from(len) > *frame_bytes {
                pool.give_back(frame);
                return;
            }
            let mut info = FrameInfo { start: start as u32, len, received: now, ..FrameInfo::default() };
            pool.set_info(frame, info);
            match unfinished::find(pool.packet(frame)) {
                None => {}
                Some(Finishing { place, end }) if end == len as usize => {
                    info.unfinished = Some(place);
                    pool.set_info(frame, info);
                }
                // The bytes behind the packet do not belong to it.
                Some(Finishing { place, end }) => {
                    let done = checksum::complete(&mut pool.packet_mut(frame)[..end], place.start, place.offset);
                    counters.checksums_completed += u64::from(done);
                }
            }
            out.push(Arrival { frame, len, condition: Condition::Whole, sorted: None });
        });
    }

    /// Submits as many of `frames` to the kernel as it has room for. Returns their number; they are owned here from
    /// then on.
    pub(super) fn submit(&mut self, pool: &mut FramePool, frames: &[u32], counters: &mut BackendCounters) -> usize {
        let room = (SENDING as usize).saturating_sub(self.sending).min(self.rings.transmission.room() as usize);
        let count = frames.len().min(room);
        for &frame in &frames[..count] {
            counters.checksums_completed += u64::from(pool.info(frame).unfinished.is_some());
            pool.finish_checksum(frame);
            let FrameInfo { start, len, .. } = pool.info(frame);
            let addr = u64::from(frame) * self.frame_bytes + u64::from(start);
            self.rings.transmission.put(libc::xdp_desc { addr, len, options: 0 });
            pool.lend_to_read(frame);
            self.places[frame as usize] = Place::Sending;
        }
        self.sending += count;
        self.rings.transmission.publish();
        count
    }

    /// Takes back `frames`, the last ones submitted, which the kernel has not taken. Only for a kernel that reads the
    /// ring in this thread's own calls. The kernel skips the entries left in their place.
    pub(super) fn withdraw(&mut self, pool: &mut FramePool, frames: &[u32]) {
        self.rings.transmission.overwrite(frames.len() as u32, NOTHING);
        for &frame in frames {
            // SAFETY: the kernel looks at the ring in this thread's own calls alone, and no longer finds the frame
            // there.
            unsafe { pool.end_lending(frame) };
            self.places[frame as usize] = Place::Elsewhere;
        }
        self.sending -= frames.len();
    }

    /// Takes back the frames that the kernel has sent.
    pub(super) fn complete(&mut self, pool: &mut FramePool) {
        self.completed(pool, FramePool::give_back);
    }

    /// As [`Custody::complete`], except for `refused`, which the kernel has given up: the caller owns it again. Returns
    /// true if the kernel has given it back.
    pub(super) fn complete_but(&mut self, pool: &mut FramePool, refused: u32) -> bool {
        let mut found = false;
        self.completed(pool, |pool, frame| match frame == refused {
            true => found = true,
            false => pool.give_back(frame),
        });
        found
    }

    fn completed(&mut self, pool: &mut FramePool, mut back: impl FnMut(&mut FramePool, u32)) {
        let Self { rings, frame_bytes, places, sending, .. } = self;
        rings.completion.take(u32::MAX, |address| {
            let frame = address / *frame_bytes;
            let place = usize::try_from(frame).ok().and_then(|frame| places.get_mut(frame));
            if let Some(place) = place.filter(|place| **place == Place::Sending) {
                *place = Place::Elsewhere;
                *sending -= 1;
                // SAFETY: the kernel was given the frame to send and has put it into the completion ring: it is done
                // with it.
                unsafe { pool.end_lending(frame as u32) };
                back(pool, frame as u32);
            }
        });
    }

    /// Unmaps the rings and returns all frames owned here to `pool`.
    ///
    /// # Safety
    /// The socket's descriptor must be closed, so that only the mapped rings keep the socket in the kernel.
    pub(super) unsafe fn release(self, pool: &mut FramePool) {
        let Self { rings, places, .. } = self;
        drop(rings);
        for (frame, place) in (0..).zip(places) {
            if place != Place::Elsewhere {
                // SAFETY: the socket is gone: the kernel has taken it from the interface and waited for all that used
                // it.
                unsafe { pool.end_lending(frame) };
                pool.give_back(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests;
