//! Statistics of a running gateway for other threads, and traces of what passes. The data thread looks once a turn whether it was
//! asked, which takes no lock, and answers between turns.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;

use crate::gateway::stats::GatewayStats;
use crate::gateway::trace::{self, Feed, Tap};

/// Why a [`Remote`] got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RemoteError {
    /// The gateway was dropped without having run.
    #[error("the gateway never ran")]
    NeverRan,
    /// The data thread did not answer in time.
    #[error("the data thread did not answer within {} ms", .waited.as_millis())]
    Timeout {
        /// How long was waited.
        waited: Duration,
    },
    /// Somebody else traces.
    #[error("a trace is under way; one at a time, end it first (Ctrl-C where it runs)")]
    Tracing,
}

/// What a gateway is, as far as a trace has to say it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passage {
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) scheduler: String,
    pub(crate) link_bps: u64,
    /// Names by class, the link's first.
    pub(crate) classes: Vec<String>,
    /// Frames in its packet pool.
    pub(crate) pool_frames: usize,
}

/// A trace on its way to the data thread and back.
#[derive(Debug, Default)]
enum TapSlot {
    /// Nobody traces. A tap that the data thread has given back is freed by whoever traces next.
    #[default]
    Idle,
    Given(#[expect(dead_code, reason = "kept until another thread frees it")] Box<Tap>),
    Ordered(Box<Tap>),
    Running,
}

#[derive(Debug, Default)]
struct Answer {
    number: u64,
    stats: Option<Arc<GatewayStats>>,
    over: bool,
}

impl Answer {
    /// The answer to this question; `None` as long as there may still come one.
    fn to(&self, ticket: Ticket) -> Option<Result<Arc<GatewayStats>, RemoteError>> {
        match &self.stats {
            Some(stats) if self.number >= ticket.0 || self.over => Some(Ok(Arc::clone(stats))),
            None if self.over => Some(Err(RemoteError::NeverRan)),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    asked: AtomicU64,
    answer: Mutex<Answer>,
    told: Condvar,
    passage: Passage,
    /// Whether the slot holds an ordered tap.
    tap_ordered: AtomicBool,
    tap: Mutex<TapSlot>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Answer> {
        // An answer is replaced and never changed, so a thread that died holding the lock left a whole one.
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_tap(&self) -> MutexGuard<'_, TapSlot> {
        self.tap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks a running gateway for statistics, from any thread. An answer costs the data thread some microseconds per class.
#[derive(Clone, Debug)]
pub struct Remote(Arc<Shared>);

/// A question that was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl Remote {
    /// Asks without waiting for the answer.
    pub(crate) fn ask(&self) -> Ticket {
        Ticket(self.0.asked.fetch_add(1, Ordering::Release) + 1)
    }

    /// The answer, or `None` as long as there is none.
    pub(crate) fn answer(&self, ticket: Ticket) -> Option<Result<Arc<GatewayStats>, RemoteError>> {
        self.0.lock().to(ticket)
    }

    /// What the gateway is.
    pub(crate) fn passage(&self) -> &Passage {
        &self.0.passage
    }

    /// Begins a trace, which keeps up to `snap` bytes of each packet, when the data thread next looks. It ends with what is returned.
    ///
    /// # Errors
    /// [`RemoteError::Tracing`], and [`RemoteError::NeverRan`] also of a gateway that has ended.
    pub(crate) fn trace(&self, snap: u32) -> Result<Feed, RemoteError> {
        // Both ends are made, and an old one is freed, without the lock.
        let (tap, feed) = trace::begin(self.0.passage.pool_frames, snap);
        let mut slot = self.0.lock_tap();
        if matches!(*slot, TapSlot::Ordered(_) | TapSlot::Running) {
            return Err(RemoteError::Tracing);
        }
        if self.0.lock().over {
            return Err(RemoteError::NeverRan);
        }
        let old = std::mem::replace(&mut *slot, TapSlot::Ordered(Box::new(tap)));
        self.0.tap_ordered.store(true, Ordering::Release);
        drop(slot);
        drop(old);
        Ok(feed)
    }

    /// Statistics as of now, or as of the end where the gateway has ended.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn stats(&self, timeout: Duration) -> Result<Arc<GatewayStats>, RemoteError> {
        let ticket = self.ask();
        let answer = self.0.lock();
        let waiting = |answer: &mut Answer| answer.to(ticket).is_none();
        let (answer, _) =
            self.0.told.wait_timeout_while(answer, timeout, waiting).unwrap_or_else(PoisonError::into_inner);
        answer.to(ticket).unwrap_or(Err(RemoteError::Timeout { waited: timeout }))
    }
}

/// The data thread's end of a [`Remote`].
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    answered: u64,
}

impl Publisher {
    pub(crate) fn new(passage: Passage) -> Self {
        Self { shared: Arc::new(Shared { passage, ..Shared::default() }), answered: 0 }
    }

    /// Whether somebody wants a trace to begin.
    pub(crate) fn has_tap(&self) -> bool {
        self.shared.tap_ordered.load(Ordering::Acquire)
    }

    /// The tap of the trace that is to begin.
    pub(crate) fn take_tap(&mut self) -> Option<Box<Tap>> {
        self.shared.tap_ordered.store(false, Ordering::Relaxed);
        let mut slot = self.shared.lock_tap();
        match std::mem::replace(&mut *slot, TapSlot::Running) {
            TapSlot::Ordered(tap) => Some(tap),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// The trace has ended. Another thread frees the tap.
    pub(crate) fn give_back(&mut self, tap: Box<Tap>) {
        tap.close();
        *self.shared.lock_tap() = TapSlot::Given(tap);
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote(Arc::clone(&self.shared))
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.shared.asked.load(Ordering::Acquire) != self.answered
    }

    pub(crate) fn publish(&mut self, stats: &GatewayStats) {
        self.answered = self.shared.asked.load(Ordering::Acquire);
        let mut answer = self.shared.lock();
        answer.number = self.answered;
        answer.stats = Some(Arc::new(stats.clone()));
        drop(answer);
        self.shared.told.notify_all();
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        *self.shared.lock_tap() = TapSlot::Idle;
        self.shared.told.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_never_ran_and_one_that_does_not_answer_are_told_apart() {
        let publisher = Publisher::default();
        let remote = publisher.remote();
        let waited = Duration::from_millis(1);
        assert!(!publisher.is_asked());
        assert_eq!(remote.stats(waited), Err(RemoteError::Timeout { waited }));
        assert!(publisher.is_asked());
        drop(publisher);
        assert_eq!(remote.stats(Duration::MAX), Err(RemoteError::NeverRan));
    }
}
