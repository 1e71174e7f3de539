//! The backends for real interfaces, of which each gateway uses one. A port is called a few times for each batch of
//! frames, not for each frame, so that the cost of a branch there is negligible.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use fairlink_core::Nanos;

use crate::io::af_packet::AfPacket;
use crate::io::af_xdp::{AfXdp, Fit};
use crate::io::backend::{Arrival, Backend, BackendCounters, BackendError, BackendInfo, BackendKind, Sent, Settled};
use crate::io::frame_pool::FramePool;
use crate::io::hub::{Crew, CrewPort, OF_WORKER};
use crate::wire::segments::Segments;

/// Needs of two interfaces of the packet pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    pub(crate) backend: BackendKind,
    /// Size of a frame.
    pub(crate) frame_bytes: u32,
    /// Maximum number of frames that the interfaces own, besides those in transit.
    pub(crate) owned: u32,
}

impl Footprint {
    /// With packet sockets, for frames of this size.
    pub(crate) fn of_packet_sockets(frame_bytes: u32) -> Self {
        Self { backend: BackendKind::AfPacket, frame_bytes, owned: 2 * AfPacket::MOST_OWNED }
    }

    /// With this number of workers.
    pub(crate) fn with_workers(self, workers: usize) -> Self {
        Self { owned: self.owned.saturating_add(workers as u32 * OF_WORKER), ..self }
    }

    /// With AF_XDP sockets.
    pub(crate) fn of_af_xdp(fit: &Fit) -> Self {
        Self { backend: BackendKind::AfXdp, frame_bytes: fit.frame_bytes, owned: fit.owned() }
    }
}

/// One real interface.
#[derive(Debug)]
pub(crate) enum RealPort {
    Packet(AfPacket),
    Xdp(AfXdp),
    /// Behind workers.
    Crew(CrewPort),
}

/// Calls the same method of either backend.
macro_rules! either {
    ($port:expr, $backend:ident => $call:expr) => {
        match $port {
            RealPort::Packet($backend) => $call,
            RealPort::Xdp($backend) => $call,
            RealPort::Crew($backend) => $call,
        }
    };
}

impl RealPort {
    pub(crate) fn mover(&self) -> BackendInfo {
        match self {
            Self::Packet(_) => BackendInfo { backend: BackendKind::AfPacket, zero_copy: false },
            Self::Xdp(port) => BackendInfo { backend: BackendKind::AfXdp, zero_copy: port.is_zero_copy() },
            Self::Crew(port) => port.sockets().backend,
        }
    }

    /// Bytes of the kernel's memory for frames not fetched or not sent yet, outside the pool.
    pub(crate) fn kernel_bytes(&self) -> u64 {
        match self {
            Self::Packet(port) => port.kernel_bytes(),
            Self::Xdp(port) => u64::from(port.ring_bytes()),
            Self::Crew(port) => port.sockets().kernel_bytes,
        }
    }

    /// Frames that a receive ring has room for; `None` without one.
    pub(crate) fn ring_slots(&self) -> Option<usize> {
        match self {
            Self::Packet(port) => port.ring_slots(),
            Self::Xdp(port) => port.ring_slots(),
            Self::Crew(port) => port.sockets().slots,
        }
    }

    /// Memory for reception in bytes, besides the pool; it never grows.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Packet(port) => port.memory_bytes(),
            Self::Xdp(_) => 0,
            Self::Crew(port) => port.sockets().memory_bytes,
        }
    }

    /// Returns true if neither the kernel nor this port has frames that were not handed over yet.
    pub(crate) fn is_empty(&mut self) -> bool {
        either!(self, port => port.is_empty())
    }

    /// Ends the workers, if there are any. What they report is still to be settled.
    pub(crate) fn end(&mut self) {
        if let Self::Crew(port) = self {
            port.end();
        }
    }

    /// The workers, if there are any.
    pub(crate) fn crew(&self) -> Option<Arc<Crew>> {
        match self {
            Self::Crew(port) => Some(port.crew()),
            _ => None,
        }
    }

    /// Times that frames had to wait for the interface at a worker.
    pub(crate) fn busy(&self) -> u64 {
        match self {
            Self::Crew(port) => port.busy(),
            _ => 0,
        }
    }

    /// Continues the counters of `before`, the predecessor of this port.
    pub(crate) fn inherit(&mut self, before: &mut Self) {
        let before = before.counters();
        either!(self, port => port.inherit(before));
    }
}

impl Backend for RealPort {
    /// The pool has [`Footprint::owned`] for them.
    const MOST_OWNED: u32 = 0;

    #[inline]
    fn receive(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        max: usize,
        out: &mut Vec<Arrival>,
    ) -> Result<(), BackendError> {
        either!(self, port => port.receive(pool, now, max, out))
    }

    fn segments(&self, number: u8) -> &Segments {
        either!(self, port => port.segments(number))
    }

    fn fetch(&mut self, pool: &FramePool, frame: u32, number: u8, into: &mut [u8]) -> Result<bool, BackendError> {
        either!(self, port => port.fetch(pool, frame, number, into))
    }

    #[inline]
    fn has_more(&self) -> bool {
        either!(self, port => port.has_more())
    }

    #[inline]
    fn failure(&self) -> Option<BackendError> {
        either!(self, port => port.failure())
    }

    #[inline]
    fn is_flooded(&self) -> bool {
        either!(self, port => port.is_flooded())
    }

    #[inline]
    fn send(&mut self, pool: &mut FramePool, frames: &[u32]) -> Result<Sent, BackendError> {
        either!(self, port => port.send(pool, frames))
    }

    #[inline]
    fn reclaim(&mut self, pool: &mut FramePool) {
        either!(self, port => port.reclaim(pool));
    }

    #[inline]
    fn settles_later(&self) -> bool {
        matches!(self, Self::Crew(_))
    }

    #[inline]
    fn settle(&mut self, out: &mut Vec<Settled>) {
        either!(self, port => port.settle(out));
    }

    fn begin_drain(&mut self) {
        either!(self, port => port.begin_drain());
    }

    fn end_drain(&mut self) {
        either!(self, port => port.end_drain());
    }

    fn is_drained(&self) -> bool {
        either!(self, port => port.is_drained())
    }

    fn drained(&mut self, admitted: u64) -> Option<u64> {
        either!(self, port => port.drained(admitted))
    }

    fn take_note(&mut self) -> Option<String> {
        either!(self, port => port.take_note())
    }

    fn has_carrier(&self) -> bool {
        either!(self, port => port.has_carrier())
    }

    #[inline]
    fn owned(&self) -> usize {
        either!(self, port => port.owned())
    }

    #[inline]
    fn readable(&self) -> Option<BorrowedFd<'_>> {
        either!(self, port => port.readable())
    }

    fn held(&self) -> usize {
        either!(self, port => port.held())
    }

    fn release(&mut self, pool: &mut FramePool) {
        either!(self, port => port.release(pool));
    }

    fn counters(&mut self) -> BackendCounters {
        either!(self, port => port.counters())
    }
}
