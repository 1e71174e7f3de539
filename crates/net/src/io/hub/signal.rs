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
    /// True if the descriptor is readable.
    is_set: AtomicBool,
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
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends the sleep, or the preparation for it.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        if self.is_set.swap(false, Ordering::Relaxed)
            && let Some(fd) = &self.fd
        {
            sys::clear_event(fd);
        }
    }

    /// Returns true if [`Signal::awake`] is due.
    pub(crate) fn is_pending(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) || self.is_set.load(Ordering::Relaxed)
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
            self.is_set.store(true, Ordering::Relaxed);
            sys::set_event(fd);
        }
    }

    /// The descriptor that becomes readable.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}
