//! An interface that exists only in memory, so that the gateway's data path can be tested without a network, a clock,
//! or permission.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use fairlink_core::Nanos;

use crate::io::backend::{Arrival, BATCH, Backend, BackendCounters, BackendError, Condition, Rest, Sent};
use crate::io::frame_pool::{FrameInfo, FramePool, HEADROOM};
use crate::wire::checksum::Unfinished;
use crate::wire::segments::Segments;
use crate::wire::virtio::VirtioHeader;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct VirtualLink {
    /// Arrived frames that were not fetched yet.
    pub(crate) incoming: VecDeque<Vec<u8>>,
    /// Descriptions of the frames in `incoming` that are super-frames; none for the others, and for those behind the last.
    pub(crate) described: VecDeque<Option<VirtioHeader>>,
    /// True if all super-frames get lost when they are copied.
    pub(crate) loses: bool,
    /// Super-frames that were copied.
    pub(crate) copied: u64,
    announced: Vec<(Option<Segments>, Vec<u8>)>,
    /// Maximum number of frames in `incoming`; `None` for any number. [`VirtualLink::arrive`] drops the others.
    pub(crate) buffer: Option<usize>,
    /// Frames dropped for that.
    pub(crate) overflow: u64,
    /// True if it fetches all frames with the first, and hands them over later.
    pub(crate) fetches_all: bool,
    /// The checksum of the frames in `incoming`, if it was left to hardware.
    pub(crate) unfinished: Option<Unfinished>,
    /// Frames that were sent.
    pub(crate) sent: Vec<Vec<u8>>,
    /// Number of further frames that it accepts before it is busy; `None` if it is never busy.
    pub(crate) room: Option<usize>,
    /// Number of frames that it accepts at once; `None` for any number.
    pub(crate) at_once: Option<usize>,
    /// Longest frame it sends, in bytes; `None` if any.
    pub(crate) longest: Option<usize>,
    /// Frames that begin with one of these bytes are always refused, with the error of a full driver.
    pub(crate) unwilling: Vec<u8>,
    /// True if its other end is unplugged; it accepts nothing then, with the same error.
    pub(crate) unplugged: bool,
    /// Number of calls of `send`.
    pub(crate) tries: u64,
    /// True if it has been removed.
    pub(crate) gone: bool,
    /// True if it panics when something is received.
    pub(crate) panics: bool,
    /// Turns for which it owns an accepted frame. With 0 it gives a frame back at the next call.
    pub(crate) lag: u64,
    /// Number of the present turn, counted by the test.
    pub(crate) turn: u64,
    accepted: VecDeque<Accepted>,
}

/// A frame on its way out.
#[derive(Debug)]
struct Accepted {
    frame: u32,
    /// The turn from which on it is given back.
    leaves: u64,
    bytes: Vec<u8>,
}

impl VirtualLink {
    /// Adds an arriving frame. It is dropped if there is no room, as in a kernel.
    pub(crate) fn arrive(&mut self, frame: Vec<u8>) {
        if self.buffer.is_some_and(|buffer| self.incoming.len() >= buffer) {
            self.overflow += 1;
        } else {
            self.incoming.push_back(frame);
        }
    }

    /// Adds an arriving super-frame that `header` describes.
    pub(crate) fn arrive_joined(&mut self, frame: Vec<u8>, header: VirtioHeader) {
        self.described.resize(self.incoming.len(), None);
        self.described.push_back(Some(header));
        self.incoming.push_back(frame);
    }

    fn check(&self) -> Result<(), BackendError> {
        if self.gone {
            let source = io::Error::from(io::ErrorKind::NetworkDown);
            return Err(BackendError::Gone { interface: "virtual".to_owned(), source });
        }
        Ok(())
    }

    /// Returns the accepted frames that it owns. Panics if one of them was changed since.
    pub(crate) fn accepted(&self, pool: &FramePool) -> Vec<u32> {
        let unchanged = |accepted: &Accepted| {
            assert_eq!(pool.packet(accepted.frame), accepted.bytes, "frame {} was changed", accepted.frame);
            accepted.frame
        };
        self.accepted.iter().map(unchanged).collect()
    }
}

impl Backend for VirtualLink {
    /// It is busy then.
    const MOST_OWNED: u32 = 300;

    fn receive(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        max: usize,
        out: &mut Vec<Arrival>,
    ) -> Result<(), BackendError> {
        assert!(!self.panics, "as a test wants it");
        self.check()?;
        self.announced.clear();
        for _ in 0..max.min(BATCH) {
            if self.incoming.is_empty() {
                break;
            }
            let Some(frame) = pool.take() else { break };
            let bytes = self.incoming.pop_front().unwrap_or_default();
            let held = bytes.len().min(pool.frame_bytes() - HEADROOM);
            pool.frame_mut(frame)[HEADROOM..HEADROOM + held].copy_from_slice(&bytes[..held]);
            pool.set_info(
                frame,
                FrameInfo {
                    start: HEADROOM as u32,
                    len: held as u32,
                    received: now,
                    unfinished: self.unfinished,
                    ..FrameInfo::default()
                },
            );
            let len = bytes.len() as u32;
            let condition = match self.described.pop_front().flatten() {
                Some(header) => {
                    let longest = pool.frame_bytes() - HEADROOM;
                    let segments = Segments::from_head(pool.packet(frame), bytes.len(), &header, longest).ok();
                    self.announced.push((segments, bytes));
                    if segments.is_some() {
                        Condition::Super(self.announced.len() as u8 - 1)
                    } else {
                        Condition::Joined
                    }
                }
                None if held < bytes.len() => Condition::TooLong,
                None => Condition::Whole,
            };
            out.push(Arrival { frame, len, condition, sorted: None });
        }
        Ok(())
    }

    fn segments(&self, number: u8) -> &Segments {
        self.announced[usize::from(number)].0.as_ref().expect("a super-frame")
    }

    fn fetch(&mut self, _: &FramePool, _: u32, number: u8, into: &mut [u8]) -> Result<bool, BackendError> {
        let bytes = &self.announced[usize::from(number)].1;
        into[..bytes.len()].copy_from_slice(bytes);
        self.copied += 1;
        Ok(!self.loses)
    }

    fn has_more(&self) -> bool {
        self.fetches_all && !self.incoming.is_empty()
    }

    fn is_flooded(&self) -> bool {
        self.buffer.is_some_and(|buffer| self.incoming.len() > buffer / 4)
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[u32]) -> Result<Sent, BackendError> {
        self.check()?;
        self.tries += 1;
        let mut accepted = 0;
        for &frame in frames {
            if self.room == Some(0) || self.accepted.len() == Self::MOST_OWNED as usize {
                break;
            }
            if self.at_once == Some(accepted) {
                return Ok(Sent { accepted, rest: Rest::Full });
            }
            let packet = pool.packet(frame);
            if self.longest.is_some_and(|longest| packet.len() > longest) {
                return Ok(Sent { accepted, rest: Rest::Refused(io::Error::from_raw_os_error(libc::EMSGSIZE)) });
            }
            if self.unplugged || packet.first().is_some_and(|first| self.unwilling.contains(first)) {
                return Ok(Sent { accepted, rest: Rest::Unwilling(io::Error::from_raw_os_error(libc::ENOBUFS)) });
            }
            self.sent.push(packet.to_vec());
            self.accepted.push_back(Accepted { frame, leaves: self.turn + self.lag, bytes: packet.to_vec() });
            self.room = self.room.map(|room| room - 1);
            accepted += 1;
        }
        Ok(Sent { accepted, rest: Rest::Busy })
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        self.accepted(pool);
        while let Some(accepted) = self.accepted.pop_front_if(|accepted| accepted.leaves <= self.turn) {
            pool.give_back(accepted.frame);
        }
    }

    fn has_carrier(&self) -> bool {
        !self.unplugged
    }

    fn owned(&self) -> usize {
        self.accepted.len()
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn held(&self) -> usize {
        0
    }

    fn release(&mut self, pool: &mut FramePool) {
        self.accepted.drain(..).for_each(|accepted| pool.give_back(accepted.frame));
    }

    fn counters(&mut self) -> BackendCounters {
        BackendCounters::default()
    }
}
