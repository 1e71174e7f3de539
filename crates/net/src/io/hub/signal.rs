//! Waking a thread that sleeps until something is in its rings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use crate::io::sys;

/// Wakes one thread, at the cost of a system call only if it sleeps.
///
/// The sleeper calls [`Signal::prepare`], looks at its rings a last time, and then waits until [`Signal::fd`] is
/// readable. The others put something into a ring and call [`Signal::notify`]. Both put a fence between the two steps, so
/// that one of them sees the other's.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    asleep: AtomicBool,
    /// True if the sleeper has to clear the descriptor before it goes on.
    prepared: AtomicBool,
    /// `None` in tests without threads.
    fd: Option<OwnedFd>,
}

impl Signal {
    /// # Errors
    /// The kernel's answer.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { fd: Some(sys::event_fd()?), ..Self::default() })
    }

    /// Announces that the thread is about to sleep.
    pub(crate) fn prepare(&self) {
        self.prepared.store(true, Ordering::Relaxed);
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends the sleep, or the preparation for it. Costs nothing if there was none.
    pub(crate) fn awake(&self) {
        if !self.prepared.load(Ordering::Relaxed) {
            return;
        }
        self.prepared.store(false, Ordering::Relaxed);
        self.asleep.store(false, Ordering::Relaxed);
        if let Some(fd) = &self.fd {
            // One that is set later ends the next sleep at once, and is cleared then.
            sys::clear_event(fd);
        }
    }

    /// Returns true if the thread sleeps or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Wakes the thread if it sleeps.
    #[inline]
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the thread, or has its next sleep end at once.
    pub(crate) fn wake(&self) {
        if let Some(fd) = &self.fd {
            sys::set_event(fd);
        }
    }

    /// The descriptor that becomes readable.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}

#[cfg(test)]
mod tests {
    use fairlink_core::Nanos;

    use super::*;
    use crate::io::pacing::sleep;

    #[test]
    fn a_sleeper_is_woken_once_and_an_awake_one_costs_no_call() {
        let signal = Signal::new().unwrap();
        let is_set = || sleep(Nanos::ZERO, [signal.fd()]).unwrap();
        signal.notify();
        assert!(!is_set(), "it does not sleep");
        signal.prepare();
        signal.notify();
        assert!(is_set() && !signal.is_asleep());
        signal.awake();
        assert!(!is_set());
        // One that comes late ends the next sleep, and no more.
        signal.wake();
        signal.awake();
        assert!(is_set());
        signal.prepare();
        signal.awake();
        assert!(!is_set());
    }
}
