//! Statistics of a running gateway for other threads. The data thread looks once a turn whether it was asked, which takes no
//! lock, and answers between turns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;

use crate::gateway::stats::GatewayStats;

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
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Answer> {
        // An answer is replaced and never changed, so a thread that died holding the lock left a whole one.
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
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
