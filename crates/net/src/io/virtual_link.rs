//! An interface that exists only in memory, so that the gateway's data path can be tested without a network, a clock, or
//! permission.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use fairlink_core::Nanos;

use crate::io::backend::{Arrival, BATCH, Backend, BackendCounters, BackendError, Condition, Sent};
use crate::io::frame_pool::{FrameInfo, FramePool, HEADROOM};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct VirtualLink {
    /// Frames that have arrived and were not fetched yet.
    pub(crate) incoming: VecDeque<Vec<u8>>,
    /// Frames that were sent.
    pub(crate) sent: Vec<Vec<u8>>,
    /// How many frames it takes before it is busy; `None`: it is never busy.
    pub(crate) room: Option<usize>,
    /// Longest frame it sends; `None`: any.
    pub(crate) longest: Option<usize>,
    /// Whether it has been taken away.
    pub(crate) gone: bool,
}

impl VirtualLink {
    fn check(&self) -> Result<(), BackendError> {
        if self.gone {
            let source = io::Error::from(io::ErrorKind::NetworkDown);
            return Err(BackendError::Gone { interface: "virtual".to_owned(), source });
        }
        Ok(())
    }
}

impl Backend for VirtualLink {
    fn receive(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        max: usize,
        out: &mut Vec<Arrival>,
    ) -> Result<(), BackendError> {
        self.check()?;
        for _ in 0..max.min(BATCH) {
            if self.incoming.is_empty() {
                break;
            }
            let Some(frame) = pool.take() else { break };
            let bytes = self.incoming.pop_front().unwrap_or_default();
            let held = bytes.len().min(pool.frame_bytes() - HEADROOM);
            pool.frame_mut(frame)[HEADROOM..HEADROOM + held].copy_from_slice(&bytes[..held]);
            pool.set_info(frame, FrameInfo { start: HEADROOM as u32, len: held as u32, received: now });
            let condition = if held < bytes.len() { Condition::TooLong } else { Condition::Whole };
            out.push(Arrival { frame, len: bytes.len() as u32, condition });
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[u32]) -> Result<Sent, BackendError> {
        self.check()?;
        let mut accepted = 0;
        for &frame in frames {
            if self.room == Some(0) {
                break;
            }
            let packet = pool.packet(frame);
            if self.longest.is_some_and(|longest| packet.len() > longest) {
                return Ok(Sent { accepted, refused: Some(io::Error::from_raw_os_error(libc::EMSGSIZE)) });
            }
            self.sent.push(packet.to_vec());
            self.room = self.room.map(|room| room - 1);
            accepted += 1;
        }
        Ok(Sent { accepted, refused: None })
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn held(&self) -> usize {
        0
    }

    fn release(&mut self, _pool: &mut FramePool) {}

    fn counters(&mut self) -> BackendCounters {
        BackendCounters::default()
    }
}
