//! The thread of the control socket: many connections, no blocking.
//!
//! It polls the listener and all connections, accepts new ones, and gives each connection a turn. When all places are
//! taken, a new connection replaces one that does nothing.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use super::server::Client;
use crate::gateway::accept_failures::AcceptFailures;
use crate::gateway::links::Links;
use crate::io::sys;

/// Maximum number of connections.
const MAX_CLIENTS: usize = 32;

/// Serves the control socket until it is dropped, which waits for the thread.
#[derive(Debug)]
pub(super) struct ControlThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlThread {
    /// Serves `links` at `listener`, which must be in non-blocking mode.
    ///
    /// # Errors
    /// The system's error if it cannot start a thread.
    pub(super) fn start(listener: UnixListener, links: Links) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("fairlink-control".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || serve(&listener, &links, &stop)
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported where it happened.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &UnixListener, links: &Links, stop: &AtomicBool) {
    let mut clients: Vec<Client> = Vec::with_capacity(MAX_CLIENTS);
    let (mut until, mut failures) = (None, AcceptFailures::new("the control socket"));
    loop {
        if until.is_none() && stop.load(Ordering::Relaxed) {
            // Traces are written to their end.
            clients.retain_mut(Client::ends_trace);
            until = Some(Instant::now() + super::server::TRACE_END);
        }
        if until.is_some_and(|until| clients.is_empty() || Instant::now() >= until) {
            return;
        }
        let mut polls: Vec<libc::pollfd> = clients.iter().map(Client::pollfd).collect();
        polls.push(libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        // The only error is a signal; the next turn polls again.
        let _ = sys::poll(&mut polls, super::server::poll_ms(&clients));
        for _ in 0..if until.is_none() { MAX_CLIENTS } else { 0 } {
            let accepted = listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok(stream)
            });
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    if let Some(pause) = failures.record(&error, links) {
                        std::thread::sleep(pause);
                    }
                    break;
                }
            };
            if clients.len() == MAX_CLIENTS
                && let Some(first) = (0..clients.len()).min_by_key(|&at| clients[at].eviction_order())
            {
                clients.swap_remove(first);
            }
            clients.push(Client::new(stream));
        }
        // An error ends its own connection alone.
        clients.retain_mut(|client| client.poll(links).unwrap_or(false));
    }
}
