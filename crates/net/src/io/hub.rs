//! Interfaces behind other threads. Workers receive and send; the data thread has the scheduler. They pass frames through
//! rings with one writer and one reader each:
//!
//! ```text
//!              lent: empty frames                        sending: frames, by the hash of their flow
//!   data thread ---------------------> worker   data thread ----------------------> worker
//!   data thread <--------------------- worker   data thread <---------------------- worker
//!              arrivals: received frames                 settled: accepted or refused, in order
//!                                                        returned: frames that have left
//! ```
//!
//! [`CrewPort`] is the data thread's end of one interface, a [`Backend`] like any other. [`WorkerEnd`] and [`Lane`] are
//! a worker's ends. Each frame has one owner: [`FramePool`] of the data thread knows which frames it has lent, and the
//! worker has a [`FramePool::view`] with these.
//!
//! A side that finds nothing to do sleeps, and says so before it looks a last time ([`Signal`]). The other side wakes
//! it after it has put something into a ring.

mod port;
mod signal;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use fairlink_core::{ClassId, Nanos};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::io::backend::{
    Arrival, BATCH, BackendCounters, BackendError, Condition, LONGEST_SUPER_FRAME, Settled, Sorted,
};
use crate::io::hub::port::Stock;
pub(crate) use crate::io::hub::port::{CrewPort, Sockets};
pub(crate) use crate::io::hub::signal::Signal;
use crate::io::sys::Region;
use crate::wire::segments::Segments;

/// Empty frames that a worker has for reception, at most, besides those that its interfaces hold from the start.
const LENT: usize = 4 * BATCH;
/// Received frames on the way from a worker, at most.
const ARRIVALS: usize = 8 * BATCH;
/// Super-frames on the way from a worker, at most.
const SUPERS: usize = BATCH / 2;
/// Frames on the way to a worker for sending, at most; it holds as many more.
pub(crate) const SENDING: usize = BATCH;

/// Frames that a worker has accepted for one interface and whose outcome is not known, at most.
pub(crate) const MOST_UNSETTLED: usize = 4 * SENDING;

/// Frames of the pool that workers may have beyond those in transit on one thread, for each of them.
pub(crate) const OF_WORKER: u32 = (LENT + 2 * ARRIVALS + 2 * MOST_UNSETTLED) as u32;

/// The two interfaces of a link, as places in arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

/// A received frame, in 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    frame: u32,
    len: u32,
    /// [`NO_CLASS`] if it is not known.
    class: u32,
    generation: u16,
    kind: Kind,
}

const NO_CLASS: u32 = u32::MAX;
const _: () = assert!(size_of::<Arrived>() == 16);

impl Arrived {
    fn new(Arrival { frame, len, sorted, .. }: Arrival, kind: Kind) -> Self {
        let (class, generation) = sorted.map_or((NO_CLASS, 0), |sorted| (sorted.class.0, sorted.generation));
        Self { frame, len, class, generation, kind }
    }

    fn sorted(&self) -> Option<Sorted> {
        let Self { class, generation, .. } = *self;
        (class != NO_CLASS).then_some(Sorted { class: ClassId(class), generation })
    }
}

/// [`Condition`] of a frame in a ring.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain(Condition),
    /// The next super-frame in its ring.
    Super,
}

/// A super-frame on its way from a worker.
pub(crate) struct SuperBuffer {
    /// Takes memory once it is used.
    bytes: Region,
    /// Always there when it is filled.
    pub(crate) segments: Option<Segments>,
    /// 0 if the kernel has lost it.
    pub(crate) len: usize,
}

impl SuperBuffer {
    /// Memory of one.
    const BYTES: usize = LONGEST_SUPER_FRAME + size_of::<Self>();

    /// # Errors
    /// There is no memory.
    pub(crate) fn new() -> io::Result<Box<Self>> {
        Ok(Box::new(Self { bytes: Region::reserve(LONGEST_SUPER_FRAME)?, segments: None, len: 0 }))
    }

    /// Its bytes, used or not.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the region belongs to this buffer alone, which is borrowed as long as the slice is.
        unsafe { self.bytes.bytes_mut(0, LONGEST_SUPER_FRAME) }
    }

    /// Copies the super-frame to the beginning of `into`.
    fn copy_to(&self, into: &mut [u8]) {
        // SAFETY: as in `bytes`; nothing writes while this is borrowed.
        into[..self.len].copy_from_slice(unsafe { self.bytes.bytes(0, self.len) });
    }
}

/// State of a worker that other threads read.
#[derive(Debug, Default)]
pub(crate) struct WorkerState {
    /// Wakes the worker.
    pub(crate) signal: Signal,
    sides: [SideState; 2],
    /// Times that frames had to wait for an interface.
    busy: AtomicU64,
    /// Processor time of the thread in ns.
    worked: AtomicU64,
    /// Frames for reception that it has.
    lent: AtomicUsize,
    notes: Mutex<Vec<String>>,
}

/// State of one interface of a worker.
#[derive(Debug, Default)]
struct SideState {
    flooded: AtomicBool,
    without_carrier: AtomicBool,
    /// The last [`Crew::epoch`] since which the kernel's buffer was seen empty.
    drained: AtomicU64,
    gone: AtomicBool,
    error: Mutex<Option<BackendError>>,
    counters: Mutex<BackendCounters>,
}

/// Locks `mutex`; a thread that panicked has left nothing half done in it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WorkerState {
    fn side(&self, side: Side) -> &SideState {
        &self.sides[side as usize]
    }

    /// Reports that the kernel's buffer is about to overflow, or that it is not.
    pub(crate) fn set_flooded(&self, side: Side, flooded: bool) {
        self.side(side).flooded.store(flooded, Ordering::Relaxed);
    }

    /// Reports whether frames wait because the interface has no carrier.
    pub(crate) fn set_without_carrier(&self, side: Side, without: bool) {
        self.side(side).without_carrier.store(without, Ordering::Relaxed);
    }

    /// Reports that the kernel's buffer was empty at some time after `epoch` began, and that all of it is in the ring.
    pub(crate) fn set_drained(&self, side: Side, epoch: u64) {
        self.side(side).drained.store(epoch, Ordering::Release);
    }

    /// Reports that `count` frames for reception were filled and handed over.
    pub(crate) fn took(&self, count: usize) {
        self.lent.fetch_sub(count, Ordering::Relaxed);
    }

    /// Reports a failure of the interface.
    pub(crate) fn fail(&self, side: Side, error: BackendError) {
        let state = self.side(side);
        lock(&state.error).get_or_insert(error);
        state.gone.store(true, Ordering::Release);
    }

    /// Returns true if the interface has failed.
    pub(crate) fn has_failed(&self, side: Side) -> bool {
        self.side(side).gone.load(Ordering::Relaxed)
    }

    /// Returns true if the data thread waits for [`WorkerState::set_drained`] with this epoch.
    pub(crate) fn is_asked(&self, side: Side, epoch: u64) -> bool {
        self.side(side).drained.load(Ordering::Relaxed) < epoch
    }

    /// Counts times that frames had to wait for an interface.
    pub(crate) fn add_busy(&self, times: u64) {
        self.busy.fetch_add(times, Ordering::Relaxed);
    }

    /// Publishes the processor time of the thread.
    pub(crate) fn set_worked(&self, time: Nanos) {
        self.worked.store(time.0, Ordering::Relaxed);
    }

    /// Processor time of the thread.
    pub(crate) fn worked(&self) -> Nanos {
        Nanos(self.worked.load(Ordering::Relaxed))
    }

    /// Publishes counters.
    pub(crate) fn count(&self, side: Side, counters: BackendCounters) {
        *lock(&self.side(side).counters) = counters;
    }

    /// Has the data thread tell the user.
    pub(crate) fn note(&self, text: String) {
        lock(&self.notes).push(text);
    }
}

/// The workers of a link.
pub(crate) struct Crew {
    /// Wakes the data thread.
    pub(crate) hub: Signal,
    stop: AtomicBool,
    /// Time of the data thread's last turn in ns; 0 before the first.
    beat: AtomicU64,
    /// Time in ns at which it was woken last.
    called: AtomicU64,
    /// True if the data thread makes no turn any more.
    alone: AtomicBool,
    /// True while the data thread drops all that workers have, so that they must not forward it.
    drains: AtomicBool,
    /// Time in ns from the last turn of the data thread for which workers may forward by themselves.
    window: AtomicU64,
    /// Number of the last request to look whether the kernel's buffers are empty.
    epoch: AtomicU64,
    pub(crate) workers: Vec<Arc<WorkerState>>,
    /// Frames of the pool that workers have.
    lent: AtomicUsize,
    /// Those among them whose outcome is not known.
    unsettled: AtomicUsize,
    /// Starts the threads.
    starter: Mutex<Option<Starter>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Starts the threads of the workers.
pub(crate) type Starter = Box<dyn FnOnce() -> Vec<JoinHandle<()>> + Send>;

impl Crew {
    /// A crew of `count` workers that are not there yet.
    ///
    /// # Errors
    /// The kernel gives no descriptor for a wakeup.
    pub(crate) fn new(count: usize) -> io::Result<Arc<Self>> {
        let workers = (0..count)
            .map(|_| Ok(Arc::new(WorkerState { signal: Signal::new()?, ..WorkerState::default() })))
            .collect::<io::Result<_>>()?;
        Ok(Arc::new(Self {
            hub: Signal::new()?,
            stop: AtomicBool::new(false),
            beat: AtomicU64::new(0),
            called: AtomicU64::new(0),
            alone: AtomicBool::new(false),
            drains: AtomicBool::new(false),
            window: AtomicU64::new(u64::MAX),
            epoch: AtomicU64::new(0),
            workers,
            lent: AtomicUsize::new(0),
            unsettled: AtomicUsize::new(0),
            starter: Mutex::new(None),
            threads: Mutex::new(Vec::new()),
        }))
    }

    /// Sets how the threads are started.
    pub(crate) fn set_starter(&self, starter: Starter) {
        *lock(&self.starter) = Some(starter);
    }

    /// Starts the threads, once.
    pub(crate) fn start(&self) {
        let starter = lock(&self.starter).take();
        if let Some(starter) = starter {
            lock(&self.threads).extend(starter());
        }
    }

    /// True if the workers shall end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Records a turn of the data thread.
    pub(crate) fn beat(&self, now: Nanos) {
        self.beat.store(now.0, Ordering::Relaxed);
        self.hub.awake();
    }

    /// Reports that the data thread makes no turn any more: the workers forward by themselves.
    pub(crate) fn leave_alone(&self) {
        self.alone.store(true, Ordering::Relaxed);
        self.workers.iter().for_each(|worker| worker.signal.wake());
    }

    /// Limits the time from the last turn of the data thread for which workers may forward by themselves. After that the
    /// kernel forwards the same frames.
    pub(crate) fn set_window(&self, window: Nanos) {
        self.window.store(window.0, Ordering::Relaxed);
    }

    /// Returns the time of the data thread's last turn if workers have to forward by themselves: it has made none for
    /// `patience` and since `awake_since`, though it does not sleep.
    pub(crate) fn stopped(&self, now: Nanos, awake_since: Nanos, patience: Nanos) -> Option<Nanos> {
        let beat = Nanos(self.beat.load(Ordering::Relaxed));
        let called = Nanos(self.called.load(Ordering::Relaxed));
        let is_late = !self.hub.is_asleep()
            && now.saturating_sub(beat.max(called).max(awake_since)) > patience
            && now.saturating_sub(beat).0 < self.window.load(Ordering::Relaxed)
            && !self.drains.load(Ordering::Relaxed);
        (beat > Nanos::ZERO && (is_late || self.alone.load(Ordering::Relaxed))).then_some(beat)
    }

    /// Has the data thread make a turn, from `now` on.
    pub(crate) fn call(&self, now: Nanos) {
        if self.hub.is_asleep() {
            // The time that it has slept does not count.
            self.called.fetch_max(now.0, Ordering::Relaxed);
        }
        self.hub.notify();
    }

    /// Number of the last request to look whether the kernel's buffers are empty.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Ends the threads. They report what has become of the frames that they had to send.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.workers.iter().for_each(|worker| worker.signal.wake());
        *lock(&self.starter) = None;
        for thread in lock(&self.threads).drain(..) {
            // A worker that panicked has told why on standard error.
            let _ = thread.join();
        }
    }

    /// Has the workers find out in their next turn whether the kernel's buffers are empty. Returns the new epoch.
    fn ask(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::Release) + 1
    }

    /// Has workers that sleep make a turn.
    fn wake_workers(&self) {
        self.workers.iter().for_each(|worker| worker.signal.notify());
    }
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.end();
    }
}

/// A worker's end of the rings for one interface.
pub(crate) struct Lane {
    arrivals: Producer<Arrived>,
    supers: Producer<Box<SuperBuffer>>,
    spare: Consumer<Box<SuperBuffer>>,
    sending: Consumer<u32>,
    settled: Producer<Settled>,
}

impl Lane {
    /// Number of frames that may be received now: as many as there is room for, if all were super-frames.
    pub(crate) fn room(&self) -> usize {
        self.arrivals.slots().min(self.spare.slots()).min(BATCH)
    }

    /// Passes a received frame on.
    ///
    /// # Panics
    /// If there was no [`Lane::room`] for it.
    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        let arrived = Arrived::new(arrival, Kind::Plain(arrival.condition));
        self.arrivals.push(arrived).expect("there was room for it");
    }

    /// A buffer for a super-frame.
    ///
    /// # Panics
    /// As [`Lane::arrived`].
    pub(crate) fn buffer(&mut self) -> Box<SuperBuffer> {
        self.spare.pop().expect("there was room for it")
    }

    /// Passes a super-frame on, whose first bytes are in the frame.
    pub(crate) fn arrived_joined(&mut self, arrival: Arrival, buffer: Box<SuperBuffer>) {
        // There are as many places as buffers.
        let _ = self.supers.push(buffer);
        self.arrivals.push(Arrived::new(arrival, Kind::Super)).expect("there was room for it");
    }

    /// The next frame to send.
    pub(crate) fn next_to_send(&mut self) -> Option<u32> {
        self.sending.pop().ok()
    }

    /// Returns true if frames wait to be sent.
    pub(crate) fn has_to_send(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Reports what became of the next frame.
    pub(crate) fn settle(&mut self, outcome: Settled) {
        // There are as many places as frames that can be on their way.
        let _ = self.settled.push(outcome);
    }
}

/// A worker's end of all rings.
pub(crate) struct WorkerEnd {
    /// For the input and the output.
    pub(crate) lanes: [Lane; 2],
    lent: Consumer<u32>,
    returned: Producer<u32>,
    pub(crate) state: Arc<WorkerState>,
    pub(crate) crew: Arc<Crew>,
}

impl WorkerEnd {
    /// The next empty frame for reception.
    pub(crate) fn next_lent(&mut self) -> Option<u32> {
        self.lent.pop().ok()
    }

    /// Returns true if there are empty frames to fetch.
    pub(crate) fn has_lent(&self) -> bool {
        !self.lent.is_empty()
    }

    /// Returns a frame. There is room for all.
    pub(crate) fn give_back(&mut self, frame: u32) {
        let _ = self.returned.push(frame);
    }
}

/// Bytes of the rings and buffers of `workers` workers.
pub(crate) fn memory_bytes(workers: usize) -> usize {
    let side = ARRIVALS * size_of::<Arrived>()
        + SUPERS * SuperBuffer::BYTES
        + SENDING * size_of::<u32>()
        + MOST_UNSETTLED * size_of::<Settled>();
    workers * (2 * side + (LENT + OF_WORKER as usize) * size_of::<u32>())
}

/// Makes the rings between the data thread and the workers of `crew`, which have these numbers of frames for reception
/// already.
///
/// # Errors
/// There is no memory for buffers.
pub(crate) fn rings(
    crew: &Arc<Crew>,
    have: impl Iterator<Item = usize>,
) -> io::Result<([CrewPort; 2], Vec<WorkerEnd>)> {
    let stock = Arc::new(Mutex::new(Stock::default()));
    let mut ports = [Side::Input, Side::Output].map(|side| CrewPort::new(side, Arc::clone(crew), Arc::clone(&stock)));
    let ends = crew.workers.iter().zip(have).map(|(state, has)| {
        let (lend, lent) = RingBuffer::new(LENT);
        let (returned, back) = RingBuffer::new(OF_WORKER as usize);
        let [input, output] = &mut ports;
        let lanes = [input.add_lane()?, output.add_lane()?];
        lock(&stock).add(lend, back, has + LENT);
        state.lent.store(has, Ordering::Relaxed);
        crew.lent.fetch_add(has, Ordering::Relaxed);
        Ok(WorkerEnd { lanes, lent, returned, state: Arc::clone(state), crew: Arc::clone(crew) })
    });
    let ends = ends.collect::<io::Result<_>>()?;
    Ok((ports, ends))
}
