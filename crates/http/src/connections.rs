//! The connections that are served at one time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Most connections at one time.
pub const MAX_CONNECTIONS: usize = 128;
/// Most streams of events among them.
pub const MAX_STREAMS: usize = 32;

/// One connection, as its requests see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// True while it must not be replaced or ended by the limit of time: it is a stream, or makes a change.
    held: Arc<AtomicBool>,
}

impl Connection {
    pub(crate) fn hold(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }
}

/// All connections of the servers of a process, the oldest first.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Mutex<Vec<(u64, Connection, AbortHandle)>>,
    streams: Arc<Semaphore>,
}

impl Default for Connections {
    fn default() -> Self {
        Self { open: Mutex::default(), streams: Arc::new(Semaphore::new(MAX_STREAMS)) }
    }
}

impl Connections {
    /// Adds a connection. When all places are taken, the oldest that is not held ends. Returns false if all are held:
    /// then the new one is not added.
    pub(crate) fn add(&self, number: u64, connection: Connection, task: AbortHandle) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MAX_CONNECTIONS {
            let Some(oldest) = open.iter().position(|(_, connection, _)| !connection.is_held()) else { return false };
            open.remove(oldest).2.abort();
        }
        open.push((number, connection, task));
        true
    }

    pub(crate) fn remove(&self, number: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, ..)| *other != number);
    }

    /// Returns a place for a stream; `None` if there is none.
    pub(crate) fn stream(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.streams).try_acquire_owned().ok()
    }
}
