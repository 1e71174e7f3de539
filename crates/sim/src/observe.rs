//! Watching a simulation while it runs.

use std::ops::ControlFlow;

use fairlink_core::{ClassId, DropReason, Nanos};

/// Is told of everything that happens, in the order in which it happens. Lengths are in bytes as the link accounts for them.
/// Classes are those of the scenario: a [`Change`](crate::Change) leaves their numbers as they are.
pub trait Observer {
    /// A packet of `len` bytes is handed to the scheduler; it may yet be dropped.
    fn arrived(&mut self, now: Nanos, class: ClassId, len: u32) {
        let _ = (now, class, len);
    }

    /// A packet was dropped.
    fn dropped(&mut self, now: Nanos, class: ClassId, len: u32, reason: DropReason) {
        let _ = (now, class, len, reason);
    }

    /// A packet was given to the link at `now`; its last bit leaves at `done`.
    fn sent(&mut self, now: Nanos, done: Nanos, class: ClassId, len: u32) {
        let _ = (now, done, class, len);
    }

    /// Called about two hundred times in a run, evenly over its simulated time, and more often in long runs, for progress
    /// bars. [`ControlFlow::Break`] ends the run with [`SimError::Stopped`](crate::SimError::Stopped).
    fn progress(&mut self, now: Nanos) -> ControlFlow<()> {
        let _ = now;
        ControlFlow::Continue(())
    }
}

/// Nobody watches.
impl Observer for () {}
