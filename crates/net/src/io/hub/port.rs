//! The data thread's end of an interface behind workers.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use fairlink_core::Nanos;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::io::backend::{
    Arrival, Backend, BackendCounters, BackendError, BackendInfo, Condition, Rest, Sent, Settled,
};
use crate::io::frame_pool::FramePool;
use crate::io::hub::{
    ARRIVALS, Arrived, BATCH, Crew, Kind, LENT, Lane, MOST_UNSETTLED, SENDING, SUPERS, Side, SuperBuffer, WorkerState,
    lock,
};
use crate::wire::segments::Segments;

/// The data thread's ends of the rings of one worker, for one interface.
struct Ends {
    arrivals: Consumer<Arrived>,
    supers: Consumer<Box<SuperBuffer>>,
    spare: Producer<Box<SuperBuffer>>,
    sending: Producer<u32>,
    settled: Consumer<Settled>,
    /// Accepted frames whose outcome is not known.
    unsettled: usize,
    /// True if frames were put into `sending` that the worker was not told of.
    untold: bool,
}

/// The rings for frames of one worker.
struct Frames {
    lend: Producer<u32>,
    back: Consumer<u32>,
    /// Frames that it has for reception, at most.
    most: usize,
}

/// The rings for frames of all workers, which both interfaces use: the data thread alone.
#[derive(Default)]
pub(super) struct Stock {
    of_workers: Vec<Frames>,
    /// Frames that came back before their outcome was counted.
    early: Vec<u32>,
}

impl Stock {
    pub(super) fn add(&mut self, lend: Producer<u32>, back: Consumer<u32>, most: usize) {
        self.of_workers.push(Frames { lend, back, most });
        self.early.reserve(2 * MOST_UNSETTLED);
    }
}

/// One interface behind workers; see [`crate::io::hub`].
pub(crate) struct CrewPort {
    side: Side,
    crew: Arc<Crew>,
    lanes: Vec<Ends>,
    stock: Arc<Mutex<Stock>>,
    /// The worker whose frames come first in the next reception.
    first: usize,
    /// Super-frames of the last reception, with the numbers of their workers.
    announced: Vec<(usize, Box<SuperBuffer>)>,
    /// Workers of the accepted frames whose outcome is not known, in order.
    order: VecDeque<u8>,
    /// Number of frames that a kernel's program had let through when it was last asked whether all were fetched.
    mark: Option<u64>,
    /// The epoch that was asked for last.
    asked: u64,
    /// Counters of a port before this one.
    before: BackendCounters,
    ended: bool,
    sockets: Sockets,
}

/// Properties of an interface's sockets of all workers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) backend: BackendInfo,
    /// Bytes of the kernel's memory.
    pub(crate) kernel_bytes: u64,
    /// Frames that the receive ring of a worker has room for.
    pub(crate) slots: Option<usize>,
    /// Memory of this process in bytes.
    pub(crate) memory_bytes: usize,
}

impl CrewPort {
    pub(super) fn new(side: Side, crew: Arc<Crew>, stock: Arc<Mutex<Stock>>) -> Self {
        let workers = crew.workers.len();
        Self {
            side,
            crew,
            lanes: Vec::with_capacity(workers),
            stock,
            first: 0,
            announced: Vec::with_capacity(BATCH),
            order: VecDeque::with_capacity(MOST_UNSETTLED * workers),
            mark: None,
            asked: 0,
            before: BackendCounters::default(),
            ended: false,
            sockets: Sockets::default(),
        }
    }

    pub(super) fn add_lane(&mut self) -> io::Result<Lane> {
        let (arrived, arrivals) = RingBuffer::new(ARRIVALS);
        let (joined, supers) = RingBuffer::new(SUPERS);
        let (mut spare, buffers) = RingBuffer::new(SUPERS);
        for _ in 0..SUPERS {
            let _ = spare.push(SuperBuffer::new()?);
        }
        let (sending, to_send) = RingBuffer::new(SENDING);
        let (outcome, settled) = RingBuffer::new(MOST_UNSETTLED);
        self.lanes.push(Ends { arrivals, supers, spare, sending, settled, unsettled: 0, untold: false });
        Ok(Lane { arrivals: arrived, supers: joined, spare: buffers, sending: to_send, settled: outcome })
    }

    /// Continues the counters of the port before this one.
    pub(crate) fn inherit(&mut self, before: BackendCounters) {
        self.before = before;
    }

    /// Returns true if neither the kernel nor a worker has frames that were not handed over.
    pub(crate) fn is_empty(&mut self) -> bool {
        if self.mark.is_none() {
            self.crew.wake_workers();
        }
        self.drained(0).is_some()
    }

    /// Times that frames had to wait for an interface.
    pub(crate) fn busy(&self) -> u64 {
        self.states().map(|worker| worker.busy.load(Ordering::Relaxed)).sum()
    }

    /// Sets the properties of the workers' sockets.
    pub(crate) fn set_sockets(&mut self, sockets: Sockets) {
        self.sockets = sockets;
    }

    /// Properties of the workers' sockets.
    pub(crate) fn sockets(&self) -> Sockets {
        self.sockets
    }

    /// The workers.
    pub(crate) fn crew(&self) -> Arc<Crew> {
        Arc::clone(&self.crew)
    }

    /// Ends the workers. What they report on the frames that they had is still to be settled.
    pub(crate) fn end(&mut self) {
        self.crew.end();
        self.ended = true;
    }

    /// Has the workers find out in their next turn whether the kernel's buffers are empty.
    fn ask(&mut self) {
        self.asked = self.crew.ask();
    }

    fn states(&self) -> impl Iterator<Item = &Arc<WorkerState>> {
        self.crew.workers.iter()
    }

    fn error(&self) -> Option<BackendError> {
        let failed = self.states().find(|worker| worker.side(self.side).gone.load(Ordering::Acquire))?;
        let gone =
            || BackendError::Gone { interface: String::new(), source: io::Error::from_raw_os_error(libc::ENODEV) };
        Some(lock(&failed.side(self.side).error).take().unwrap_or_else(gone))
    }

    /// Lends empty frames to the workers.
    fn lend(&mut self, pool: &mut FramePool) {
        let Self { crew, stock, .. } = self;
        for (Frames { lend, most, .. }, state) in lock(stock).of_workers.iter_mut().zip(&crew.workers) {
            let has = state.lent.load(Ordering::Relaxed);
            // Several at a time.
            if has > *most - LENT / 2 {
                continue;
            }
            let mut more = 0;
            while has + more < *most
                && lend.slots() > 0
                && let Some(frame) = pool.take()
            {
                pool.lend_to_write(frame);
                let _ = lend.push(frame);
                more += 1;
            }
            if more > 0 {
                state.lent.fetch_add(more, Ordering::Relaxed);
                crew.lent.fetch_add(more, Ordering::Relaxed);
                state.signal.notify();
            }
        }
    }

    /// Takes up to `max` frames of a worker.
    fn take(&mut self, lane: usize, max: usize, pool: &mut FramePool, out: &mut Vec<Arrival>) {
        let Self { lanes, crew, announced, .. } = self;
        let Ends { arrivals, supers, .. } = &mut lanes[lane];
        let count = max.min(arrivals.slots());
        let Ok(chunk) = arrivals.read_chunk(count) else { return };
        for arrived in chunk {
            let (sorted, Arrived { frame, len, kind, .. }) = (arrived.sorted(), arrived);
            // SAFETY: the worker has let go of the frame before it put it into the ring.
            unsafe { pool.end_lending(frame) };
            let condition = match kind {
                Kind::Plain(condition) => condition,
                Kind::Super => {
                    let Ok(buffer) = supers.pop() else { unreachable!("it was put there before the frame") };
                    announced.push((lane, buffer));
                    Condition::Super((announced.len() - 1) as u8)
                }
            };
            out.push(Arrival { frame, len, condition, sorted });
        }
        crew.lent.fetch_sub(count, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for CrewPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CrewPort").field("side", &self.side).field("crew", &self.crew).finish_non_exhaustive()
    }
}

impl Backend for CrewPort {
    /// The pool has [`OF_WORKER`](super::OF_WORKER) for each worker.
    const MOST_OWNED: u32 = 0;

    fn receive(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        max: usize,
        out: &mut Vec<Arrival>,
    ) -> Result<(), BackendError> {
        self.crew.beat(now);
        for (lane, buffer) in self.announced.drain(..) {
            let _ = self.lanes[lane].spare.push(buffer);
        }
        if let Some(error) = self.error() {
            return Err(error);
        }
        let count = self.lanes.len();
        let all = out.len() + max.min(BATCH);
        self.first = (self.first + 1) % count.max(1);
        // Each worker has its part, and then those have the rest that come first.
        for most in [max.min(BATCH).div_ceil(count.max(1)), BATCH] {
            for at in 0..count {
                let lane = (self.first + at) % count;
                self.take(lane, most.min(all - out.len()), pool, out);
            }
        }
        self.lend(pool);
        Ok(())
    }

    fn segments(&self, number: u8) -> &Segments {
        self.announced[number as usize].1.segments.as_ref().expect("it is filled")
    }

    fn fetch(&mut self, _: &FramePool, _: u32, number: u8, into: &mut [u8]) -> Result<bool, BackendError> {
        let (_, buffer) = &self.announced[number as usize];
        buffer.copy_to(into);
        // A super-frame that the kernel has lost is empty.
        Ok(buffer.len > 0)
    }

    fn has_more(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.arrivals.is_empty())
    }

    fn is_flooded(&self) -> bool {
        self.states().any(|worker| worker.side(self.side).flooded.load(Ordering::Relaxed))
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[u32]) -> Result<Sent, BackendError> {
        if self.ended {
            return Ok(Sent::default());
        }
        if let Some(error) = self.error() {
            return Err(error);
        }
        if frames.is_empty() {
            return Ok(Sent::default());
        }
        if self.states().all(|worker| worker.side(self.side).without_carrier.load(Ordering::Relaxed)) {
            return Ok(Sent { accepted: 0, rest: Rest::Unwilling(io::Error::from_raw_os_error(libc::ENOBUFS)) });
        }
        let mut accepted = 0;
        for &frame in frames {
            let lane = pool.info(frame).flow as usize % self.lanes.len();
            let ends = &mut self.lanes[lane];
            // Each frame on its way has a place for its outcome.
            if ends.sending.slots() == 0 || ends.unsettled == MOST_UNSETTLED {
                break;
            }
            pool.lend_to_read(frame);
            let _ = ends.sending.push(frame);
            ends.untold = true;
            ends.unsettled += 1;
            self.order.push_back(lane as u8);
            accepted += 1;
        }
        self.crew.lent.fetch_add(accepted, Ordering::Relaxed);
        self.crew.unsettled.fetch_add(accepted, Ordering::Relaxed);
        for (ends, worker) in self.lanes.iter_mut().zip(&self.crew.workers) {
            if std::mem::take(&mut ends.untold) {
                worker.signal.notify();
            }
        }
        let rest = if accepted > 0 && accepted < frames.len() { Rest::Full } else { Rest::Busy };
        Ok(Sent { accepted, rest })
    }

    fn settles_later(&self) -> bool {
        true
    }

    fn settle(&mut self, out: &mut Vec<Settled>) {
        while let Some(&lane) = self.order.front() {
            let ends = &mut self.lanes[lane as usize];
            let outcome = match ends.settled.pop() {
                Ok(outcome) => outcome,
                // Its worker is no more.
                Err(_) if self.ended => Settled::Refused { too_long: false },
                Err(_) => break,
            };
            ends.unsettled -= 1;
            self.order.pop_front();
            self.crew.unsettled.fetch_sub(1, Ordering::Relaxed);
            out.push(outcome);
        }
    }

    fn reclaim(&mut self, pool: &mut FramePool) {
        let Self { crew, stock, .. } = self;
        let Stock { of_workers, early } = &mut *lock(stock);
        let mut take_back = |frame: u32| {
            if pool.is_read(frame) {
                return false;
            }
            // SAFETY: the worker has let go of the frame before it put it into the ring.
            unsafe { pool.end_lending(frame) };
            pool.give_back(frame);
            crew.lent.fetch_sub(1, Ordering::Relaxed);
            true
        };
        early.retain(|&frame| !take_back(frame));
        for Frames { back, .. } in of_workers {
            let count = back.slots();
            let Ok(chunk) = back.read_chunk(count) else { continue };
            early.extend(chunk.into_iter().filter(|&frame| !take_back(frame)));
        }
    }

    fn failure(&self) -> Option<BackendError> {
        self.error()
    }

    fn has_carrier(&self) -> bool {
        !self.states().any(|worker| worker.side(self.side).without_carrier.load(Ordering::Relaxed))
    }

    fn owned(&self) -> usize {
        self.order.len()
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.crew.hub.prepare();
        if self.has_more() || self.lanes.iter().any(|lane| !lane.settled.is_empty()) {
            self.crew.hub.wake();
        }
        self.crew.hub.fd()
    }

    fn held(&self) -> usize {
        match self.side {
            // The input has the frames of both.
            Side::Input => self.crew.lent.load(Ordering::Relaxed) - self.crew.unsettled.load(Ordering::Relaxed),
            Side::Output => 0,
        }
    }

    fn begin_drain(&mut self) {
        self.crew.drains.store(true, Ordering::Relaxed);
        self.ask();
        self.crew.wake_workers();
    }

    fn end_drain(&mut self) {
        self.crew.drains.store(false, Ordering::Relaxed);
    }

    fn is_drained(&self) -> bool {
        let drained = |worker: &Arc<WorkerState>| worker.side(self.side).drained.load(Ordering::Acquire) >= self.asked;
        // Those of a worker are in its ring before it says so.
        self.ended || self.states().all(drained) && self.lanes.iter().all(|lane| lane.arrivals.is_empty())
    }

    fn drained(&mut self, admitted: u64) -> Option<u64> {
        match self.mark {
            Some(mark) if self.is_drained() => {
                self.mark = None;
                Some(mark)
            }
            Some(_) => None,
            None => {
                self.ask();
                self.mark = Some(admitted);
                None
            }
        }
    }

    fn release(&mut self, pool: &mut FramePool) {
        self.crew.end();
        self.ended = true;
        for ends in &mut self.lanes {
            while ends.arrivals.pop().is_ok() {}
        }
        let Stock { of_workers, early } = &mut *lock(&self.stock);
        early.clear();
        for Frames { back, .. } in of_workers {
            while back.pop().is_ok() {}
        }
        self.crew.lent.store(0, Ordering::Relaxed);
        self.crew.workers.iter().for_each(|worker| worker.lent.store(0, Ordering::Relaxed));
        // SAFETY: the threads have ended, and with them their sockets. The input and the output end together.
        unsafe { pool.end_all_lending() };
    }

    fn take_note(&mut self) -> Option<String> {
        self.states().find_map(|worker| {
            let mut notes = lock(&worker.notes);
            (!notes.is_empty()).then(|| notes.remove(0))
        })
    }

    fn counters(&mut self) -> BackendCounters {
        self.states().fold(self.before, |sum, worker| sum + *lock(&worker.side(self.side).counters))
    }
}
