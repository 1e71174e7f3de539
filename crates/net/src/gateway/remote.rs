//! Requests of other threads to a running gateway: statistics, traces and changes. The data thread checks for requests
//! once a turn, which takes no lock. It copies its counters a few classes at a time between turns
//! ([`crate::gateway::account`]).
//!
//! The requesting thread brings the memory for the answer. The data thread never waits for a lock: if another thread
//! holds it, it tries again after the next turn. Two snapshots alternate, so that repeated requests allocate nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use fairlink_config::link::LinkFile;

use crate::gateway::account::{Copying, Generation, Observation, Snapshot};
use crate::gateway::reload::{self, Draft, PendingChange, ReloadError, Reloaded, Request, RunningConfig, Wanted};
use crate::gateway::remote_error::RemoteError;
use crate::gateway::stats::GatewayStats;
use crate::gateway::trace::{self, TraceReader, TraceWriter};

/// Interval at which a waiting thread checks that the data thread has memory for the answer.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Capacity for earlier answers; more than there ever are.
const OLD: usize = 4;

/// A change on its way to the data thread and back.
#[derive(Debug, Default)]
enum ChangeSlot {
    #[default]
    Idle,
    Ordered(Box<PendingChange>),
    /// The data thread has it.
    Taken,
    Done(Box<PendingChange>),
}

/// A trace on its way to the data thread and back.
#[derive(Debug, Default)]
enum TraceSlot {
    /// No trace is recorded. The next trace frees a tap that the data thread has given back.
    #[default]
    Idle,
    Given(#[expect(dead_code, reason = "kept until another thread frees it")] Box<TraceWriter>),
    Ordered(Box<TraceWriter>),
    Running,
}

#[derive(Debug)]
struct Answer {
    /// The present generation.
    generation: Arc<Generation>,
    /// `snapshot` answers requests up to this number.
    number: u64,
    snapshot: Option<Arc<Snapshot>>,
    /// Memory for the next answer, brought by a requesting thread.
    spare: Option<Arc<Snapshot>>,
    /// Earlier answers, to be freed or reused by another thread. Two at most, because each used memory from a
    /// requesting thread, which took these away.
    old: Vec<Arc<Snapshot>>,
    over: bool,
}

impl Answer {
    /// Returns the answer to this request; `None` while one may still come.
    fn to(&self, ticket: Ticket) -> Option<Result<Arc<Snapshot>, RemoteError>> {
        match &self.snapshot {
            Some(snapshot) if self.number >= ticket.0 || self.over => Some(Ok(Arc::clone(snapshot))),
            None if self.over => Some(Err(RemoteError::NeverRan)),
            _ => None,
        }
    }

    /// Returns true if the data thread has, or will have, no memory for an answer.
    fn lacks_memory(&self) -> bool {
        !self.spare.as_ref().is_some_and(|spare| Arc::ptr_eq(&spare.generation, &self.generation))
    }

    /// Brings memory for an answer, if none is there: that of an earlier answer that is no longer read, or `fresh`.
    /// Returns snapshots that have to be freed without the lock.
    fn bring(&mut self, fresh: Option<Arc<Snapshot>>) -> Vec<Arc<Snapshot>> {
        let mut freed = Vec::new();
        if self.lacks_memory() {
            freed.extend(self.spare.take());
            let usable =
                |old: &mut Arc<Snapshot>| Arc::ptr_eq(&old.generation, &self.generation) && Arc::get_mut(old).is_some();
            let at = self.old.iter_mut().position(usable);
            self.spare = at.map(|at| self.old.swap_remove(at));
            freed.append(&mut self.old);
        }
        match fresh {
            Some(fresh) if self.spare.is_none() && Arc::ptr_eq(&fresh.generation, &self.generation) => {
                self.spare = Some(fresh)
            }
            other => freed.extend(other),
        }
        freed
    }
}

#[derive(Debug)]
struct Shared {
    asked: AtomicU64,
    answer: Mutex<Answer>,
    told: Condvar,
    /// The running configuration. A change holds the lock.
    present: Mutex<Option<Box<RunningConfig>>>,
    /// True if the slot holds a change.
    ordered: AtomicBool,
    order: Mutex<ChangeSlot>,
    order_done: Condvar,
    /// True if the slot holds a requested tap.
    tap_ordered: AtomicBool,
    tap: Mutex<TraceSlot>,
    /// Time in ns for which the data thread shall stand still after its next turn; [`PANIC`] if it shall panic.
    #[cfg(any(test, feature = "testing"))]
    disturbance: AtomicU64,
}

/// A disturbance of [`Remote::disturb`] without an end.
#[cfg(any(test, feature = "testing"))]
const PANIC: u64 = u64::MAX;

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Answer> {
        // Parts of an answer are replaced and never changed, so they are complete even if a thread died holding the
        // lock.
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, if it is free.
    fn try_lock(&self) -> Option<MutexGuard<'_, Answer>> {
        match self.answer.try_lock() {
            Ok(answer) => Some(answer),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Provides the data thread with memory for an answer. Memory is allocated and freed without the lock.
    fn bring_memory(&self) {
        let (freed, wanted) = {
            let mut answer = self.lock();
            (answer.bring(None), answer.lacks_memory().then(|| Arc::clone(&answer.generation)))
        };
        drop(freed);
        if let Some(generation) = wanted {
            let fresh = Arc::new(Snapshot::new(generation));
            let freed = self.lock().bring(Some(fresh));
            drop(freed);
        }
    }

    fn lock_order(&self) -> MutexGuard<'_, ChangeSlot> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_tap(&self) -> MutexGuard<'_, TraceSlot> {
        self.tap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests statistics and changes of a running gateway, from any thread. An answer costs the data thread some
/// microseconds after each of several turns.
#[derive(Clone, Debug)]
pub struct Remote(Arc<Shared>);

/// A pending request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

/// A change that can be made.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    remote: &'a Remote,
    present: MutexGuard<'a, Option<Box<RunningConfig>>>,
    draft: Draft,
}

impl Prepared<'_> {
    /// The changes that a commit would make.
    pub(super) fn foreseen(self) -> Reloaded {
        self.draft.reloaded
    }

    /// Hands the prepared change to the data thread and waits for the commit.
    ///
    /// # Errors
    /// [`RemoteError`]: the data thread does not answer, or has ended. Nothing has changed then.
    pub(super) fn commit(mut self) -> Result<Reloaded, RemoteError> {
        let present = self.present.as_mut().ok_or(RemoteError::NeverRan)?;
        present.take(self.draft, |order| self.remote.order(order))
    }
}

impl Remote {
    /// Has the data thread stand still for so long, or panic if no time is given: for tests of what happens then.
    #[cfg(any(test, feature = "testing"))]
    pub fn disturb(&self, time: Option<Duration>) {
        let time = time.map_or(PANIC, |time| time.as_nanos() as u64);
        self.0.disturbance.store(time, Ordering::Relaxed);
    }

    /// Requests a snapshot without waiting for it.
    pub(crate) fn ask(&self) -> Ticket {
        self.0.bring_memory();
        // With the lock, so that the data thread finds the memory of each request that it sees.
        let _answer = self.0.lock();
        Ticket(self.0.asked.fetch_add(1, Ordering::Release) + 1)
    }

    /// Returns the answer, or `None` while there is none.
    pub(crate) fn answer(&self, ticket: Ticket) -> Option<Result<Arc<Snapshot>, RemoteError>> {
        let (answer, lacks_memory) = {
            let answer = self.0.lock();
            (answer.to(ticket), answer.lacks_memory())
        };
        // The memory that came with the request may have been used for another one, or a reload has come in between.
        if answer.is_none() && lacks_memory {
            self.0.bring_memory();
        }
        answer
    }

    /// Returns the present generation.
    pub(crate) fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.0.lock().generation)
    }

    /// Changes the gateway while it runs; a `dry_run` only reports the changes. Most of the time is needed for reading
    /// and building. The data thread is held up only for the last step, in which packets move.
    ///
    /// # Errors
    /// [`ReloadError`]; nothing has changed then.
    pub fn change(&self, wanted: &Wanted, dry_run: bool) -> Result<Reloaded, ReloadError> {
        let prepared = self.prepare(Request::Wanted(wanted))?;
        if dry_run { Ok(prepared.foreseen()) } else { Ok(prepared.commit()?) }
    }

    /// Returns the text of the link file that the gateway was opened with, or that was committed last: with included
    /// files, and with the lines of tables of classes. Changes of the rate or of the scheduler alone are not in it.
    ///
    /// # Errors
    /// [`ReloadError`]: no link file, a change is being made, the gateway never ran.
    pub fn link_text(&self) -> Result<String, ReloadError> {
        self.present()?.as_ref().ok_or(RemoteError::NeverRan)?.text()
    }

    /// Reads the gateway's link from a link file: from `text`, its name and content, or from the gateway's own file if that is absent.
    ///
    /// # Errors
    /// [`ReloadError`].
    pub(super) fn read(&self, text: Option<&(String, String)>) -> Result<Arc<LinkFile>, ReloadError> {
        self.present()?.as_ref().ok_or(RemoteError::NeverRan)?.read(text)
    }

    /// Prepares a change. Until it is committed or dropped, any other change is refused.
    ///
    /// # Errors
    /// [`ReloadError`].
    pub(super) fn prepare(&self, request: Request<'_>) -> Result<Prepared<'_>, ReloadError> {
        let present = self.present()?;
        let draft = present.as_ref().ok_or(RemoteError::NeverRan)?.draft(request)?;
        Ok(Prepared { remote: self, present, draft })
    }

    fn present(&self) -> Result<MutexGuard<'_, Option<Box<RunningConfig>>>, ReloadError> {
        match self.0.present.try_lock() {
            Ok(present) => Ok(present),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(ReloadError::Busy),
        }
    }

    /// Has the data thread commit a change, and returns the replaced parts.
    fn order(&self, order: Box<PendingChange>) -> Result<Box<PendingChange>, RemoteError> {
        let mut slot = self.0.lock_order();
        if self.0.lock().over {
            return Err(RemoteError::Ended);
        }
        *slot = ChangeSlot::Ordered(order);
        self.0.ordered.store(true, Ordering::Release);
        let until = Instant::now() + reload::PATIENCE;
        loop {
            match std::mem::take(&mut *slot) {
                ChangeSlot::Done(order) => return Ok(order),
                ChangeSlot::Idle => return Err(RemoteError::Ended),
                // Once taken, it is finished soon.
                ChangeSlot::Taken => {
                    *slot = ChangeSlot::Taken;
                    slot = self.0.order_done.wait(slot).unwrap_or_else(PoisonError::into_inner);
                }
                ChangeSlot::Ordered(order) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        self.0.ordered.store(false, Ordering::Release);
                        return Err(RemoteError::Timeout { waited: reload::PATIENCE });
                    }
                    *slot = ChangeSlot::Ordered(order);
                    (slot, _) = self.0.order_done.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Starts a trace, which keeps up to `snap` bytes of each packet, from the data thread's next check on. Dropping
    /// the result ends it.
    ///
    /// # Errors
    /// [`RemoteError::Tracing`], and [`RemoteError::NeverRan`] also for a gateway that has ended.
    pub(crate) fn trace(&self, snap: u32) -> Result<TraceReader, RemoteError> {
        // Both ends are created, and an old one is freed, without the lock.
        let generation = self.generation();
        let (tap, feed) = trace::begin(generation.pool_frames, generation.number, snap);
        let mut slot = self.0.lock_tap();
        if matches!(*slot, TraceSlot::Ordered(_) | TraceSlot::Running) {
            return Err(RemoteError::Tracing);
        }
        if self.0.lock().over {
            return Err(RemoteError::NeverRan);
        }
        let old = std::mem::replace(&mut *slot, TraceSlot::Ordered(Box::new(tap)));
        self.0.tap_ordered.store(true, Ordering::Release);
        drop(slot);
        drop(old);
        Ok(feed)
    }

    /// Returns the present statistics, or the final ones if the gateway has ended.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn stats(&self, timeout: Duration) -> Result<Arc<GatewayStats>, RemoteError> {
        self.observe(timeout).map(|observation| Arc::new(observation.stats(None)))
    }

    /// As [`Remote::stats`], for comparison with another observation.
    pub(crate) fn observe(&self, timeout: Duration) -> Result<Observation, RemoteError> {
        let ticket = self.ask();
        let until = Instant::now().checked_add(timeout);
        loop {
            if let Some(answer) = self.answer(ticket) {
                return answer.map(Observation::new);
            }
            let left = until.map_or(LOOK_AGAIN, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(RemoteError::Timeout { waited: timeout });
            }
            let answer = self.0.lock();
            if answer.to(ticket).is_none() {
                let waited = self.0.told.wait_timeout(answer, left.min(LOOK_AGAIN));
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }
}

/// The data thread's end of a [`Remote`].
#[derive(Debug)]
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    /// The present generation.
    generation: Arc<Generation>,
    answered: u64,
    /// The answer that is under way.
    copying: Option<Copying>,
}

impl Publisher {
    pub(crate) fn new(generation: impl Into<Arc<Generation>>) -> Self {
        let generation = generation.into();
        let answer = Answer {
            generation: Arc::clone(&generation),
            number: 0,
            snapshot: None,
            spare: None,
            old: Vec::with_capacity(OLD),
            over: false,
        };
        let shared = Shared {
            asked: AtomicU64::new(0),
            answer: Mutex::new(answer),
            told: Condvar::new(),
            present: Mutex::default(),
            ordered: AtomicBool::new(false),
            order: Mutex::default(),
            order_done: Condvar::new(),
            tap_ordered: AtomicBool::new(false),
            tap: Mutex::default(),
            #[cfg(any(test, feature = "testing"))]
            disturbance: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared), generation, answered: 0, copying: None }
    }

    /// Returns the present generation.
    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Creates the end for a gateway that can be changed.
    pub(super) fn from_config(present: RunningConfig, generation: Arc<Generation>) -> Self {
        let publisher = Self::new(generation);
        *publisher.shared.present.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(present));
        publisher
    }

    /// Stands still, or panics, if a test wants it ([`Remote::disturb`]).
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn be_disturbed(&self) {
        match self.shared.disturbance.swap(0, Ordering::Relaxed) {
            0 => {}
            PANIC => panic!("as a test wants it"),
            time => {
                // Not asleep, as a thread that is stuck.
                let began = Instant::now();
                while began.elapsed() < Duration::from_nanos(time) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }

    /// Returns true if a change is requested.
    pub(crate) fn has_order(&self) -> bool {
        self.shared.ordered.load(Ordering::Acquire)
    }

    /// The change that is wanted.
    pub(super) fn take_order(&mut self) -> Option<Box<PendingChange>> {
        self.shared.ordered.store(false, Ordering::Relaxed);
        let mut slot = self.shared.lock_order();
        match std::mem::replace(&mut *slot, ChangeSlot::Taken) {
            ChangeSlot::Ordered(order) => Some(order),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Reports that the change is committed. Another thread frees the replaced parts.
    pub(super) fn order_done(&mut self, order: Box<PendingChange>) {
        *self.shared.lock_order() = ChangeSlot::Done(order);
        self.shared.order_done.notify_all();
    }

    /// Returns true if a trace is to start.
    pub(crate) fn has_tap(&self) -> bool {
        self.shared.tap_ordered.load(Ordering::Acquire)
    }

    /// Returns the tap of the trace that is to start.
    pub(crate) fn take_tap(&mut self) -> Option<Box<TraceWriter>> {
        self.shared.tap_ordered.store(false, Ordering::Relaxed);
        let mut slot = self.shared.lock_tap();
        match std::mem::replace(&mut *slot, TraceSlot::Running) {
            TraceSlot::Ordered(tap) => Some(tap),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Returns the tap of a trace that has ended. Another thread frees it.
    pub(crate) fn give_back(&mut self, tap: Box<TraceWriter>) {
        tap.close();
        *self.shared.lock_tap() = TraceSlot::Given(tap);
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote(Arc::clone(&self.shared))
    }

    /// Returns true if a snapshot is to be started or continued.
    pub(crate) fn is_asked(&self) -> bool {
        self.copying.is_some() || self.shared.asked.load(Ordering::Acquire) != self.answered
    }

    /// Returns true if an answer is in progress, so that there is no time to sleep.
    pub(crate) fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// Returns the snapshot in progress, or a new one. `None` if another thread holds the lock, or memory is lacking.
    pub(crate) fn take_copying(&mut self) -> Option<Copying> {
        if self.copying.is_some() {
            return self.copying.take();
        }
        let mut answer = self.shared.try_lock()?;
        let number = self.shared.asked.load(Ordering::Acquire);
        let usable = |spare: &mut Arc<Snapshot>| Arc::ptr_eq(&spare.generation, &self.generation);
        Copying::begin(answer.spare.take_if(usable)?, number)
    }

    /// Keeps an incomplete answer.
    pub(crate) fn keep_copying(&mut self, copying: Copying) {
        self.copying = Some(copying);
    }

    /// Publishes a complete snapshot. Gives it back if another thread holds the lock.
    pub(crate) fn publish(&mut self, copying: Copying) -> Result<(), Copying> {
        let Some(mut answer) = self.shared.try_lock() else { return Err(copying) };
        let (number, snapshot) = copying.into_parts();
        self.answered = number;
        answer.number = number;
        let before = answer.snapshot.replace(snapshot);
        answer.old.extend(before);
        drop(answer);
        self.shared.told.notify_all();
        Ok(())
    }

    /// Installs the new generation between two turns, at the end of a reload. A snapshot in progress is restarted.
    /// Returns the old generation, which another thread frees.
    pub(crate) fn change(&mut self, generation: Arc<Generation>) -> Arc<Generation> {
        let mut answer = self.shared.lock();
        answer.old.extend(self.copying.take().map(|copying| copying.into_parts().1));
        let before = std::mem::replace(&mut answer.generation, Arc::clone(&generation));
        drop(answer);
        // Another owner remains, so that nothing is freed here.
        self.generation = generation;
        before
    }

    /// Number of earlier answers that wait for another thread.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.shared.lock().old.len()
    }

    /// Publishes the last answer, which answers all requests. The data thread has ended and may wait.
    pub(crate) fn publish_last(&mut self, snapshot: Arc<Snapshot>) {
        let mut answer = self.shared.lock();
        self.answered = self.shared.asked.load(Ordering::Acquire);
        answer.number = self.answered;
        answer.snapshot = Some(snapshot);
        drop(answer);
        self.shared.told.notify_all();
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        *self.shared.lock_tap() = TraceSlot::Idle;
        self.shared.told.notify_all();
        *self.shared.lock_order() = ChangeSlot::Idle;
        self.shared.order_done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_never_ran_and_one_that_does_not_answer_are_told_apart() {
        let publisher = Publisher::new(Generation::flat(2));
        let remote = publisher.remote();
        let waited = Duration::from_millis(1);
        assert!(!publisher.is_asked());
        assert_eq!(remote.stats(waited).unwrap_err(), RemoteError::Timeout { waited });
        assert!(publisher.is_asked());
        drop(publisher);
        assert_eq!(remote.stats(Duration::MAX).unwrap_err(), RemoteError::NeverRan);
    }
}
