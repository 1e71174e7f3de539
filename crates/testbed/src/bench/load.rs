//! A sender that repeats prepared frames, as fast as the kernel takes them or at a fixed rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::{ClassId, Nanos};
use fairlink_net::{
    AfPacket, AfPacketOptions, Backend, Clock, FrameInfo, FramePool, FrameTemplate, Headers, Interface, MonotonicClock,
    Stamp, wake_punctually,
};

use super::GatewayBenchError;
use super::paths::SOURCE;
use crate::addressing::FIRST_PORT;

/// Frames that the sender repeats.
const PREPARED: u32 = 64;
/// Interval of the bursts in which a load of fixed rate leaves.
pub(super) const BURST: Duration = Duration::from_micros(100);
/// One in so many calls is timed.
const TIMED: u64 = 16;
/// The smallest part of a call's time that the thread's clock must show if the kernel counts softirqs as its work.
const WHOLE: f64 = 0.9;

/// Prepared frames and the socket to send them.
pub(super) struct Load {
    sender: AfPacket,
    pool: FramePool,
    frames: Vec<u32>,
}

/// Result of sending.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// Frames that the kernel accepted.
    pub(super) offered: u64,
    /// Time from the first call to the last.
    pub(super) span: Nanos,
    /// The largest part of a call's time that the thread's clock showed.
    worked: f64,
}

impl Sent {
    /// Returns true if the kernel does not count softirqs, which are a large part of each call, as work of the thread.
    /// A call in which others had the processor shows less, too, but not every call is one.
    pub(super) fn softirqs_apart(&self) -> bool {
        self.worked > 0.0 && self.worked < WHOLE
    }
}

impl Load {
    /// Frames of `length` bytes, spread evenly over so many classes.
    pub(super) fn open(length: u32, classes: u16) -> Result<Self, GatewayBenchError> {
        let sender = AfPacket::open(&Interface::open(SOURCE)?, &AfPacketOptions::default())?;
        let mut pool = FramePool::new(PREPARED, length)?;
        let frames: Vec<u32> = std::iter::from_fn(|| pool.take()).collect();
        for (&frame, index) in frames.iter().zip(0u16..) {
            let template = FrameTemplate::new(&Headers::udp(FIRST_PORT + index % classes));
            let stamp = Stamp { run: 0, class: ClassId(1), sequence: 0, monotonic_ns: 0, realtime_us: 0 };
            template.write(&mut pool.frame_mut(frame)[..length as usize], &stamp);
            pool.set_info(frame, FrameInfo { start: 0, len: length, received: Nanos::ZERO, ..FrameInfo::default() });
        }
        Ok(Self { sender, pool, frames })
    }

    /// Sends as fast as the kernel takes frames, until `span` is over or `stop` is set.
    pub(super) fn flood(&mut self, span: Duration, stop: &AtomicBool) -> Result<Sent, GatewayBenchError> {
        let clock = MonotonicClock::start();
        let mut sent = Sent::default();
        for call in 0.. {
            let now = clock.now();
            if Duration::from_nanos(now.0) >= span || stop.load(Ordering::Relaxed) {
                sent.span = now;
                break;
            }
            let worked = (call % TIMED == 0).then(|| clock.worked());
            let accepted = self.send(PREPARED as usize)?;
            sent.offered += accepted;
            if let Some(before) = worked.filter(|_| accepted > 0) {
                let work = clock.worked().saturating_sub(before).0 as f64;
                sent.worked = sent.worked.max(work / clock.now().saturating_sub(now).0.max(1) as f64);
            }
        }
        Ok(sent)
    }

    /// Sends `pps` frames per second until `stop` is set, in a burst every [`BURST`]. What the kernel does not take at once
    /// is left out.
    pub(super) fn pace(&mut self, pps: f64, stop: &AtomicBool) -> Result<Sent, GatewayBenchError> {
        wake_punctually();
        let clock = MonotonicClock::start();
        let (mut sent, mut due) = (Sent::default(), 0u64);
        while !stop.load(Ordering::Relaxed) {
            sent.span = clock.now();
            let until = (sent.span.0 as f64 / 1e9 * pps) as u64;
            // A sender that was late does not make up for more than one call.
            due = due.max(until.saturating_sub(u64::from(PREPARED)));
            let burst = until - due;
            if burst > 0 {
                sent.offered += self.send(burst as usize)?;
                due = until;
            }
            let next = (clock.now().0 / BURST.as_nanos() as u64 + 1) * BURST.as_nanos() as u64;
            std::thread::sleep(Duration::from_nanos(next.saturating_sub(clock.now().0)));
        }
        Ok(sent)
    }

    /// Offers at most so many frames in one call. Returns how many were accepted.
    fn send(&mut self, most: usize) -> Result<u64, GatewayBenchError> {
        let most = most.min(self.frames.len());
        let sent = self.sender.send(&mut self.pool, &self.frames[..most])?;
        self.frames.drain(..sent.accepted);
        self.sender.reclaim(&mut self.pool);
        // A frame that comes back is unchanged, and is sent again.
        self.frames.extend(std::iter::from_fn(|| self.pool.take()));
        Ok(sent.accepted as u64)
    }
}
