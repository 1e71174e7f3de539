//! What other threads ask of a running gateway: statistics, traces of what passes, and changes. The data thread looks once a turn
//! whether it was asked, which takes no lock, and answers between turns.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use fairlink_core::ClassId;
use thiserror::Error;

use crate::gateway::config::GatewayConfig;
use crate::gateway::reload::{self, Order, Present, ReloadError, Reloaded, Wanted};
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
    /// The gateway has ended.
    #[error("the gateway has ended")]
    Ended,
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
    /// Changes that were committed before.
    pub(crate) generation: u64,
}

impl Passage {
    /// Of a gateway that works as `config` says.
    pub(crate) fn of(config: &GatewayConfig, pool_frames: usize, generation: u64) -> Self {
        Self {
            input: config.input.clone(),
            output: config.output.clone(),
            scheduler: config.scheduler.name.to_owned(),
            link_bps: config.tree.link().rate.bps(),
            classes: (0..config.tree.len()).map(|class| config.name(ClassId(class as u32))).collect(),
            pool_frames,
            generation,
        }
    }
}

/// A change on its way to the data thread and back.
#[derive(Debug, Default)]
enum OrderSlot {
    #[default]
    Idle,
    Ordered(Box<Order>),
    /// The data thread has it.
    Taken,
    Done(Box<Order>),
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
    /// What a trace would say of the gateway as it is.
    passage: Mutex<Arc<Passage>>,
    /// The gateway as it runs. Whoever changes it holds the lock.
    present: Mutex<Option<Box<Present>>>,
    /// Whether the slot holds an order.
    ordered: AtomicBool,
    order: Mutex<OrderSlot>,
    order_done: Condvar,
    /// Whether the slot holds an ordered tap.
    tap_ordered: AtomicBool,
    tap: Mutex<TapSlot>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Answer> {
        // An answer is replaced and never changed, so a thread that died holding the lock left a whole one.
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_order(&self) -> MutexGuard<'_, OrderSlot> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) fn passage(&self) -> Arc<Passage> {
        Arc::clone(&self.0.passage.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the gateway while it runs, or says what would change where it is a `dry_run`. It takes as long as it takes to read and to
    /// build what is wanted; the data thread is held up for the last step only, in which packets move.
    ///
    /// # Errors
    /// [`ReloadError`]; nothing has changed then.
    pub fn change(&self, wanted: &Wanted, dry_run: bool) -> Result<Reloaded, ReloadError> {
        let mut present = match self.0.present.try_lock() {
            Ok(present) => present,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(ReloadError::Busy),
        };
        let Some(present) = present.as_mut() else { return Err(RemoteError::NeverRan.into()) };
        let changed = present.change(wanted, dry_run, |order| self.order(order))?;
        if changed.committed.is_some() {
            *self.0.passage.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(present.passage());
        }
        Ok(changed)
    }

    /// Has the data thread commit a change, and returns what it left over.
    fn order(&self, order: Box<Order>) -> Result<Box<Order>, RemoteError> {
        let mut slot = self.0.lock_order();
        if self.0.lock().over {
            return Err(RemoteError::Ended);
        }
        *slot = OrderSlot::Ordered(order);
        self.0.ordered.store(true, Ordering::Release);
        let until = Instant::now() + reload::PATIENCE;
        loop {
            match std::mem::take(&mut *slot) {
                OrderSlot::Done(order) => return Ok(order),
                OrderSlot::Idle => return Err(RemoteError::Ended),
                // Once it was taken it is soon done.
                OrderSlot::Taken => {
                    *slot = OrderSlot::Taken;
                    slot = self.0.order_done.wait(slot).unwrap_or_else(PoisonError::into_inner);
                }
                OrderSlot::Ordered(order) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        self.0.ordered.store(false, Ordering::Release);
                        return Err(RemoteError::Timeout { waited: reload::PATIENCE });
                    }
                    *slot = OrderSlot::Ordered(order);
                    (slot, _) = self.0.order_done.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Begins a trace, which keeps up to `snap` bytes of each packet, when the data thread next looks. It ends with what is returned.
    ///
    /// # Errors
    /// [`RemoteError::Tracing`], and [`RemoteError::NeverRan`] also of a gateway that has ended.
    pub(crate) fn trace(&self, snap: u32) -> Result<Feed, RemoteError> {
        // Both ends are made, and an old one is freed, without the lock.
        let passage = self.passage();
        let (tap, feed) = trace::begin(passage.pool_frames, passage.generation, snap);
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
        let passage = Mutex::new(Arc::new(passage));
        Self { shared: Arc::new(Shared { passage, ..Shared::default() }), answered: 0 }
    }

    /// Of a gateway that can be changed.
    pub(super) fn of(present: Present) -> Self {
        let publisher = Self::new(present.passage());
        *publisher.shared.present.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(present));
        publisher
    }

    /// Whether somebody wants the gateway changed.
    pub(crate) fn has_order(&self) -> bool {
        self.shared.ordered.load(Ordering::Acquire)
    }

    /// The change that is wanted.
    pub(super) fn take_order(&mut self) -> Option<Box<Order>> {
        self.shared.ordered.store(false, Ordering::Relaxed);
        let mut slot = self.shared.lock_order();
        match std::mem::replace(&mut *slot, OrderSlot::Taken) {
            OrderSlot::Ordered(order) => Some(order),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// The change is committed. Another thread frees what it left over.
    pub(super) fn order_done(&mut self, order: Box<Order>) {
        *self.shared.lock_order() = OrderSlot::Done(order);
        self.shared.order_done.notify_all();
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
        *self.shared.lock_order() = OrderSlot::Idle;
        self.shared.order_done.notify_all();
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
