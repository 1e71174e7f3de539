//! The control socket: requests of other programs to a running gateway.
//!
//! The socket is a Unix stream socket. Its owner may open it, and those whom its [`Access`] admits. A request is one line of JSON, and so is
//! its answer. A connection carries any number of them:
//!
//! ```text
//! {"cmd": "links"}
//! {"ok": true, "links": ["eth0", ...]}    (names of the links that this process serves)
//! {"cmd": "stats", "link": NAME, "interval_ms": N}
//! {"ok": true, "stats": {...}}            (the object of [`crate::gateway::stats::GatewayStats`])
//! {"cmd": "trace", "snap_bytes": N}
//! {"ok": true, "trace": {...}}            (a description of the gateway; records of packets follow, until either side ends the trace)
//! {"cmd": "reload", "file": "NAME", "text": "...", "moves": [["old", "new"]], "dry_run": true}
//! {"cmd": "rate", "class": "A", "bps": 5000000, "ceiling": true}
//! {"cmd": "scheduler", "name": "hfsc", "lenient": true}
//! {"ok": true, "reloaded_links": {...}}   (of `reload`: the object of [`crate::gateway::reload::ReloadedLinks`])
//! {"ok": true, "reloaded": {...}}         (of `rate` and `scheduler`: the object of [`crate::gateway::reload::Reloaded`])
//! {"ok": false, "error": "..."}           (anything not understood or refused)
//! ```
//!
//! `link` is optional if there is one link. With `interval_ms`, the statistics cover the interval since the last such answer for the link on
//! the same connection, and the connection may be silent for that time before the next request.
//!
//! `reload` without a text makes the gateway read its own files again. Without `link` it applies to all links and opens and closes links.
//! `rate` without a class sets the rate of the link.
//!
//! Records of a trace are binary, for a client of the same version. A client ends a trace by closing its writing end; the packets under way
//! and the end of the trace follow.
//!
//! Unknown members of a request are ignored. Waiting times are bounded:
//!
//! * A connection has [`PATIENCE`] for each request, from its first byte to its last, and the same time to read the answer. A slower one is
//!   closed, whatever it sends meanwhile.
//! * A request has at most 16 MiB.
//! * 32 connections are served at once, independently of each other. A further one replaces a connection that is silent between two requests,
//!   or the one whose time runs out first; one with a change in flight only if there is no other. A client that was replaced asks again, unless
//!   that might repeat a change.
//! * A gateway closes all connections at once when it ends.
//! * A client that traces and reads nothing for [`TRACE_PATIENCE`] is closed. A gateway that ends sends the rest of a trace first.
//! * A client without an answer gives up after 4 s, also if the gateway is stopped (SIGSTOP).

mod access;
pub mod recording;
mod server;
mod thread;
mod watch;

pub use access::{Access, AccessError};
pub use watch::Watch;

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fairlink_core::Rate;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::thread::ControlThread;
use crate::gateway::links::Links;
use crate::gateway::reload::{ReloadRequest, Reloaded, ReloadedLinks, Wanted};
use crate::gateway::stats::GatewayStats;
use crate::io::sys;

/// Time limit for the other side of a connection to send a request, and to read an answer.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Longest time in which a tracing client may read nothing of what is due.
pub const TRACE_PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for the answer of the data thread.
const ANSWER: Duration = Duration::from_secs(2);
/// Longest time that a client waits for an answer.
const LONGEST_WAIT: Duration = ANSWER.saturating_add(PATIENCE);
/// Time limit of a change, which includes reading and building a large file.
const CHANGE: Duration = Duration::from_secs(30);
/// Time between the creation of a socket and the first `listen`. A client that waits for the file may connect in between.
const STARTING: Duration = Duration::from_millis(100);
/// Time between two attempts of a client to connect to a gateway with a full queue of connections.
const NAP: Duration = Duration::from_millis(20);
/// Longest answer in bytes: some 500,000 classes.
const LONGEST_ANSWER: usize = 512 << 20;
/// Connections that the kernel keeps until the server takes them.
const BACKLOG: libc::c_int = 64;

/// Errors of serving or using the control socket.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Another gateway serves this socket.
    #[error("another gateway is already running at {path}; give this one a path of its own (--control PATH)")]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The socket did not get its mode and group.
    #[error(
        "control socket {path} would have the mode {:04o} and the group {}, and not {:04o} and {} as asked: does the file system there \
         know them? Name another place (--control PATH)", got.0, got.1, wanted.0, wanted.1
    )]
    Access {
        /// The socket.
        path: PathBuf,
        /// Its actual mode and group.
        got: (u32, u32),
        /// The required mode and group.
        wanted: (u32, u32),
    },
    /// A file that is not a socket is there.
    #[error("{path} exists and is not a socket")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The path does not fit into a socket address.
    #[error("the path of a control socket has at most {limit} bytes; {path} has more")]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// The longest.
        limit: usize,
    },
    /// No gateway was found.
    #[error("no running gateway was found in {}; name its socket (--control PATH)", .looked.join(", "))]
    NoneFound {
        /// Directories looked into.
        looked: Vec<String>,
    },
    /// More than one gateway was found.
    #[error("several gateways are running; name one's socket (--control PATH): {}", .paths.join(", "))]
    SeveralFound {
        /// Their sockets.
        paths: Vec<String>,
    },
    /// The gateway understood and refused.
    #[error("the gateway answers: {message}")]
    Refused {
        /// The gateway's message.
        message: String,
    },
    /// A process listens at the socket and does not answer.
    #[error(
        "{path}: no answer within {} s; is the gateway stopped? (`ps` shows T; `kill -CONT PID` lets it go on)",
        .waited.as_secs()
    )]
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// The time waited.
        waited: Duration,
    },
    /// The gateway closed the connection before it answered.
    #[error(
        "{path}: the gateway has closed the connection without an answer, because it ends or too many ask at once; what was asked for may \
         have been done: look (`fairlink ctl stats`), then try again"
    )]
    Cut {
        /// The socket.
        path: PathBuf,
    },
    /// The answer cannot be parsed.
    #[error("{path} does not answer as a gateway does: {source}")]
    NotAnAnswer {
        /// The socket.
        path: PathBuf,
        /// The parse error.
        source: serde_json::Error,
    },
    /// The kernel refused.
    #[error("control socket {path}: {source}")]
    System {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Request {
    cmd: String,
    /// Name of the link; the only link if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    /// For statistics: the answer covers the interval since the last one, and the next request follows within this time in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ms: Option<u64>,
    /// For a trace: most bytes of a packet; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    snap_bytes: Option<u32>,
    /// For a change: only report what would change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    /// For `reload`: name and text of the link file. The gateway reads its own file again if they are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// For `reload`: names of removed leaves, each with that of the leaf that gets its packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    moves: Vec<(String, String)>,
    /// For `rate`: the class; the link if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    /// For `rate`: the rate in bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    bps: Option<u64>,
    /// For `rate`: true to set the ceiling.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ceiling: bool,
    /// For `scheduler`: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// For `scheduler`: ignore what it cannot honour.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lenient: bool,
}

impl Request {
    /// Returns the change of one link that is requested; `None` if the request is of another kind.
    fn wanted(&self) -> Option<Result<Wanted, String>> {
        let wanted = match self.cmd.as_str() {
            "rate" => match self.bps.map(Rate::from_bps) {
                None => Err("\"rate\" needs \"bps\", in bit/s".to_owned()),
                Some(Err(out_of_range)) => Err(out_of_range.to_string()),
                Some(Ok(rate)) => match (self.class.clone(), self.ceiling) {
                    (None, false) => Ok(Wanted::LinkRate { rate }),
                    (None, true) => Err("the link has a rate, and no ceiling".to_owned()),
                    (Some(class), false) => Ok(Wanted::Guarantee { class, rate }),
                    (Some(class), true) => Ok(Wanted::Ceiling { class, rate }),
                },
            },
            "scheduler" => match self.name.clone() {
                None => Err("\"scheduler\" needs \"name\"".to_owned()),
                Some(name) => Ok(Wanted::Scheduler { name, lenient: self.lenient }),
            },
            _ => return None,
        };
        Some(wanted)
    }

    /// Makes the request for a change.
    fn for_change(link: Option<&str>, wanted: &Wanted, dry_run: bool) -> Self {
        let request = Self { link: link.map(str::to_owned), dry_run, ..Self::default() };
        match wanted.clone() {
            Wanted::LinkRate { rate } => Self { cmd: "rate".to_owned(), bps: Some(rate.bps()), ..request },
            Wanted::Guarantee { class, rate } => {
                Self { cmd: "rate".to_owned(), class: Some(class), bps: Some(rate.bps()), ..request }
            }
            Wanted::Ceiling { class, rate } => {
                Self { cmd: "rate".to_owned(), class: Some(class), bps: Some(rate.bps()), ceiling: true, ..request }
            }
            Wanted::Scheduler { name, lenient } => {
                Self { cmd: "scheduler".to_owned(), name: Some(name), lenient, ..request }
            }
        }
    }
}

/// Description of a gateway whose packets are traced.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Traced {
    input: String,
    output: String,
    scheduler: String,
    link_bps: u64,
    /// Names by class, the link's first.
    classes: Vec<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct Reply {
    ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stats: Option<GatewayStats>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    links: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<Traced>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reloaded: Option<Reloaded>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reloaded_links: Option<ReloadedLinks>,
}

impl Reply {
    fn refusal(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }
}

/// Returns the default path of the socket of a gateway into `output`: `fairlink-OUTPUT.sock` in the runtime directory of its service
/// (`$RUNTIME_DIRECTORY`), in `$XDG_RUNTIME_DIR`, or in `/run` if neither is set.
#[must_use]
pub fn default_path(output: &str) -> PathBuf {
    let of_service = std::env::var_os("RUNTIME_DIRECTORY").and_then(|list| first_path(&list));
    of_service.unwrap_or_else(|| directories().remove(0)).join(format!("fairlink-{output}.sock"))
}

/// Returns the first of several paths separated by colons, if it is absolute.
fn first_path(list: &std::ffi::OsStr) -> Option<PathBuf> {
    std::env::split_paths(list).next().filter(|path| path.is_absolute())
}

/// Returns the socket of the one running gateway, of this user or of root.
///
/// # Errors
/// [`ControlError::NoneFound`], [`ControlError::SeveralFound`].
pub fn find() -> Result<PathBuf, ControlError> {
    let directories = directories();
    let entries = |directory: &Path| -> Vec<PathBuf> {
        let listed = std::fs::read_dir(directory).into_iter().flatten();
        listed.filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    // A service has a directory of its own: /run/fairlink-NAME.
    let of_service = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("fairlink-") && path.is_dir()
    };
    let mut places: Vec<PathBuf> = directories.iter().flat_map(|directory| entries(directory)).collect();
    let within: Vec<PathBuf> =
        places.iter().filter(|path| of_service(path)).flat_map(|directory| entries(directory)).collect();
    places.extend(within);
    let mut found: Vec<PathBuf> = places
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("fairlink-") && name.ends_with(".sock") && is_served(path)
        })
        .collect();
    found.sort();
    let text = |path: &PathBuf| path.display().to_string();
    match found.len() {
        0 => Err(ControlError::NoneFound { looked: directories.iter().map(text).collect() }),
        1 => Ok(found.remove(0)),
        _ => Err(ControlError::SeveralFound { paths: found.iter().map(text).collect() }),
    }
}

fn directories() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    own.into_iter().chain([PathBuf::from("/run")]).collect()
}

/// Returns true if a process listens at the socket. A socket that may not be opened counts as served, and so does one with a full queue of
/// connections.
fn is_served(path: &Path) -> bool {
    match connect(path) {
        Ok(_) => true,
        Err(error) => matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::WouldBlock),
    }
}

/// Connects without waiting: `WouldBlock` if the queue of connections is full.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
    let (address, length) = address(path).ok_or_else(|| io::Error::from_raw_os_error(libc::ENAMETOOLONG))?;
    // SAFETY: `address` is readable for `length` bytes during the call, and its path ends with a zero.
    sys::check(unsafe { libc::connect(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) })?;
    Ok(UnixStream::from(socket))
}

/// Returns the statistics of the only link of the gateway whose socket is at `path`, within 4 s.
///
/// # Errors
/// [`ControlError`]: no gateway, no permission, no answer in time, several links, or not a gateway.
pub fn stats(path: &Path) -> Result<GatewayStats, ControlError> {
    Watch::connect(path)?.stats(None, None)
}

/// Changes a link of the gateway whose socket is at `path`, the only one if none is named, within 30 s. A `dry_run` only reports the changes.
///
/// # Errors
/// [`ControlError`]: as [`stats`], and if the gateway refuses the change, which leaves everything unchanged.
pub fn change(path: &Path, link: Option<&str>, wanted: &Wanted, dry_run: bool) -> Result<Reloaded, ControlError> {
    match ask_for_change(path, &Request::for_change(link, wanted, dry_run))? {
        Reply { reloaded: Some(reloaded), .. } => Ok(reloaded),
        Reply { error, .. } => Err(ControlError::Refused { message: error.unwrap_or_default() }),
    }
}

/// Reloads a link of the gateway whose socket is at `path`, or all of them, within 30 s. A dry run only reports the changes.
///
/// # Errors
/// [`ControlError`], as [`change`].
pub fn reload(path: &Path, asked: &ReloadRequest) -> Result<ReloadedLinks, ControlError> {
    let ReloadRequest { link, text, moves, dry_run } = asked.clone();
    let (file, text) = text.unzip();
    let request = Request { cmd: "reload".to_owned(), link, file, text, moves, dry_run, ..Request::default() };
    match ask_for_change(path, &request)? {
        Reply { reloaded_links: Some(links), .. } => Ok(links),
        Reply { error, .. } => Err(ControlError::Refused { message: error.unwrap_or_default() }),
    }
}

fn ask_for_change(path: &Path, request: &Request) -> Result<Reply, ControlError> {
    let mut request = serde_json::to_vec(request).unwrap_or_default();
    request.push(b'\n');
    if request.len() > server::LONGEST_LINE {
        let message = format!(
            "a link file of {} B is too long to be sent; the limit is {} B",
            request.len(),
            server::LONGEST_LINE
        );
        return Err(ControlError::Refused { message });
    }
    let (line, _, _) = ask_for(path, &request, CHANGE)?;
    serde_json::from_slice(&line).map_err(|source| ControlError::NotAnAnswer { path: path.to_owned(), source })
}

/// Returns the line that answers `request`, the input behind it, and the connection. [`ControlError::NoAnswer`] after the time limit.
fn ask(path: &Path, request: &[u8]) -> Result<(Vec<u8>, Vec<u8>, UnixStream), ControlError> {
    ask_for(path, request, LONGEST_WAIT)
}

/// Same as [`ask`], within `waited`.
fn ask_for(path: &Path, request: &[u8], waited: Duration) -> Result<(Vec<u8>, Vec<u8>, UnixStream), ControlError> {
    let mut connection = Connection::open(path, waited)?;
    let line = connection.ask(request)?;
    Ok((line, connection.input, connection.stream))
}

/// The client's end of a connection.
#[derive(Debug)]
struct Connection {
    path: PathBuf,
    stream: UnixStream,
    /// Time limit of an answer.
    waited: Duration,
    /// Time limit of the first answer.
    first: Option<Instant>,
    /// Input behind the last answer.
    input: Vec<u8>,
}

impl Connection {
    /// Connects. Each answer may take `waited`; the time for connecting counts for the first.
    fn open(path: &Path, waited: Duration) -> Result<Self, ControlError> {
        let begun = Instant::now();
        let until = begun + waited;
        let opened = loop {
            let error = match connect(path) {
                Ok(stream) => break Ok(stream),
                Err(error) => error,
            };
            let now = Instant::now();
            let again = match error.kind() {
                io::ErrorKind::WouldBlock => now < until,
                io::ErrorKind::ConnectionRefused => now < begun + STARTING,
                _ => false,
            };
            if !again {
                break Err(error);
            }
            std::thread::sleep(NAP);
        };
        let stream = opened.and_then(|stream| stream.set_nonblocking(false).map(|()| stream));
        let stream = stream.map_err(|error| failed(path, error, waited))?;
        Ok(Self { path: path.to_owned(), stream, waited, first: Some(until), input: Vec::new() })
    }

    /// Returns the line that answers `request`.
    fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, ControlError> {
        let until = self.first.take().unwrap_or_else(|| Instant::now() + self.waited);
        self.ask_until(request, until).map_err(|error| failed(&self.path, error, self.waited))
    }

    /// Same as [`Connection::ask`], for a request that changes nothing and does not continue an earlier one: if this connection was replaced by
    /// another client's, the request is repeated on a new connection.
    fn ask_again(&mut self, request: &[u8]) -> Result<Vec<u8>, ControlError> {
        let until = *self.first.get_or_insert_with(|| Instant::now() + self.waited);
        loop {
            match self.ask(request) {
                Err(ControlError::Cut { .. }) if Instant::now() < until => {
                    std::thread::sleep(NAP);
                    let waited = self.waited;
                    *self = Self::open(&self.path, until.saturating_duration_since(Instant::now()))?;
                    (self.waited, self.first) = (waited, Some(until));
                }
                answer => return answer,
            }
        }
    }

    /// Sends `request` and returns the line that answers it. `WouldBlock` or `TimedOut` if there is none by `until`.
    fn ask_until(&mut self, request: &[u8], until: Instant) -> io::Result<Vec<u8>> {
        let left = || match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
            left => Ok(left),
        };
        self.stream.set_write_timeout(Some(left()?))?;
        self.stream.write_all(request)?;
        let (mut line, mut part) = (Vec::new(), [0; 16 * 1024]);
        loop {
            // Set for each part, so that a byte now and then does not hold it up.
            self.stream.set_read_timeout(Some(left()?))?;
            let length = self.stream.read(&mut part)?;
            let end = part[..length].iter().position(|&byte| byte == b'\n');
            line.extend(&part[..end.unwrap_or(length)]);
            if length == 0 && line.is_empty() {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the gateway has closed the connection"));
            }
            if end.is_some() || length == 0 || line.len() > LONGEST_ANSWER {
                let behind = end.map_or(length, |end| end + 1);
                self.input = part[behind..length].to_vec();
                return Ok(line);
            }
        }
    }
}

/// Converts an error of the socket.
fn failed(path: &Path, source: io::Error, waited: Duration) -> ControlError {
    match source.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::NoAnswer { path: path.to_owned(), waited },
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            ControlError::Cut { path: path.to_owned() }
        }
        _ => ControlError::System { path: path.to_owned(), source },
    }
}

/// A control socket that is served until this is dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    _thread: ControlThread,
}

impl Control {
    /// Makes a socket at `path` that only its owner may open, and serves it on a thread of its own with the statistics and changes of `links`.
    /// The socket of a gateway that has died is replaced.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn start(path: &Path, links: impl Into<Links>) -> Result<Self, ControlError> {
        Self::start_for(path, Access::default(), links)
    }

    /// Same as [`Control::start`], for those whom `access` admits.
    ///
    /// # Errors
    /// As [`Control::start`]; no permission to give the socket to its group (`EPERM`), which [`Access::join_group`] prevents.
    pub fn start_for(path: &Path, access: Access, links: impl Into<Links>) -> Result<Self, ControlError> {
        let links = links.into();
        let listener = match listen(path, access) {
            Err(ControlError::System { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(path)?;
                listen(path, access)?
            }
            listening => listening?,
        };
        let thread = ControlThread::start(listener, links)
            .map_err(|source| ControlError::System { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), _thread: thread })
    }

    /// Path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Removed before the thread ends, so that no client connects to a server that is ending.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn listen(path: &Path, access: Access) -> Result<UnixListener, ControlError> {
    let system = |source| ControlError::System { path: path.to_owned(), source };
    let socket = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0).map_err(system)?;
    let Some((address, length)) = address(path) else {
        return Err(ControlError::PathTooLong { path: path.to_owned(), limit: MAX_PATH });
    };
    access.bind(&socket, &address, length).map_err(system)?;
    // No client can connect before `listen`.
    let listening = access.give(path).and_then(|()| {
        // SAFETY: takes no pointers.
        sys::check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) }).map_err(system)
    });
    if let Err(error) = listening {
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true).map_err(system)?;
    Ok(listener)
}

/// Longest path of a socket in bytes.
const MAX_PATH: usize = 107;

/// Returns the address of the socket at `path`, and its length; `None` if the path is too long.
fn address(path: &Path) -> Option<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: a `sockaddr_un` is integers, for which all zeros is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > MAX_PATH {
        return None;
    }
    for (to, &from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    Some((address, size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

/// Removes the socket of a gateway that has died.
fn remove_stale(path: &Path) -> Result<(), ControlError> {
    let system = |source| ControlError::System { path: path.to_owned(), source };
    if !std::fs::symlink_metadata(path).map_err(system)?.file_type().is_socket() {
        return Err(ControlError::NotASocket { path: path.to_owned() });
    }
    if is_served(path) {
        return Err(ControlError::InUse { path: path.to_owned() });
    }
    std::fs::remove_file(path).map_err(system)
}

#[cfg(test)]
mod tests;
