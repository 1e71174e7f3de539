//! The loop that the control socket and the metrics share: one thread, many connections, no blocking.
//!
//! The loop polls the listener and all connections, accepts new ones, and gives each connection a turn. When all places
//! are taken, a new connection replaces the one that [`Server::eviction_order`] puts first. A server ends when its
//! [`ServerThread`] is dropped.

mod accept_failures;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::gateway::links::Links;
use crate::io::sys;

use accept_failures::AcceptFailures;

/// A socket that accepts connections.
pub(super) trait Listener: AsRawFd + Send + 'static {
    /// A connection.
    type Stream;

    /// Returns the next connection, in non-blocking mode.
    fn next(&self) -> io::Result<Self::Stream>;
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    fn next(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

/// One connection and its state.
pub(super) trait Connection {
    /// The descriptor and the events that the connection waits for; a descriptor of -1 waits for none.
    fn pollfd(&self) -> libc::pollfd;
}

/// The protocol of a server.
pub(super) trait Server: Send + 'static {
    /// The socket that it listens on.
    type Listener: Listener;
    /// A connection.
    type Client: Connection;
    /// Key of [`Server::eviction_order`].
    type Order: Ord;

    /// Name of its thread.
    const THREAD: &'static str;
    /// Subject of messages about failed connections.
    const SUBJECT: &'static str;
    /// Maximum number of connections.
    const MAX_CLIENTS: usize;

    /// Links that it serves.
    fn links(&self) -> &Links;

    /// Creates the state of a new connection.
    fn connect(&self, stream: <Self::Listener as Listener>::Stream) -> Self::Client;

    /// When all places are taken, the connection with the smallest key is closed.
    fn eviction_order(client: &Self::Client) -> Self::Order;

    /// Longest poll in ms. After it the server checks its data threads and the stop request.
    fn poll_ms(&self, clients: &[Self::Client]) -> i32;

    /// Gives every connection a turn, without blocking, and removes those that have ended or failed.
    fn turn(&mut self, clients: &mut Vec<Self::Client>);

    /// Begins the end: removes connections that need not be served any more. The others get this much time.
    fn end(&mut self, clients: &mut Vec<Self::Client>) -> Duration;
}

/// A server's thread. Dropping it ends the server and waits for the thread.
#[derive(Debug)]
pub(super) struct ServerThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Starts `server` at `listener`, which must be in non-blocking mode.
    ///
    /// # Errors
    /// The system's error if it cannot start a thread.
    pub(super) fn start<S: Server>(listener: S::Listener, server: S) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name(S::THREAD.to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || serve(&listener, server, &stop)
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported where it happened.
            let _ = thread.join();
        }
    }
}

fn serve<S: Server>(listener: &S::Listener, mut server: S, stop: &AtomicBool) {
    let mut clients: Vec<S::Client> = Vec::with_capacity(S::MAX_CLIENTS);
    let (mut until, mut failures) = (None, AcceptFailures::new(S::SUBJECT));
    loop {
        if until.is_none() && stop.load(Ordering::Relaxed) {
            until = Some(Instant::now() + server.end(&mut clients));
        }
        if until.is_some_and(|until| clients.is_empty() || Instant::now() >= until) {
            return;
        }
        let mut polls: Vec<libc::pollfd> = clients.iter().map(Connection::pollfd).collect();
        polls.push(libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        // The only error is a signal; the next turn polls again.
        let _ = sys::poll(&mut polls, server.poll_ms(&clients));
        for _ in 0..if until.is_none() { S::MAX_CLIENTS } else { 0 } {
            let stream = match listener.next() {
                Ok(stream) => stream,
                Err(error) => {
                    failures.record(&error, server.links());
                    break;
                }
            };
            if clients.len() == S::MAX_CLIENTS
                && let Some(first) = (0..clients.len()).min_by_key(|&at| S::eviction_order(&clients[at]))
            {
                clients.swap_remove(first);
            }
            clients.push(server.connect(stream));
        }
        server.turn(&mut clients);
    }
}

/// Returns true if there is merely nothing to read, or no room to write.
pub(super) fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
