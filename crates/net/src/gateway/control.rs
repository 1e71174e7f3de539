//! The control socket: how other programs talk to a running gateway.
//!
//! The socket is a Unix stream socket that only its owner may open. A request is one line of JSON, and so is its answer. A
//! connection carries any number of them:
//!
//! ```text
//! {"cmd": "stats"}
//! {"ok": true, "stats": {...}}            (the object of [`crate::gateway::stats::GatewayStats`])
//! {"ok": false, "error": "..."}           (anything not understood)
//! ```
//!
//! Unknown members of a request are ignored. One connection is served at a time; one that is silent for [`PATIENCE`] is
//! closed. A request has at most [`LONGEST_LINE`] bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::gateway::remote::Remote;
use crate::gateway::stats::GatewayStats;
use crate::io::sys;

/// How long a connection may be silent.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request in bytes.
pub const LONGEST_LINE: u64 = 64 * 1024;
/// How long the data thread has for an answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How often the server looks whether it is to end.
const NAP: Duration = Duration::from_millis(20);

/// Why there is no control socket, or no answer from it.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Another gateway serves this socket.
    #[error("another gateway is already running at {path}; give this one a path of its own (--control PATH)")]
    InUse {
        /// The socket.
        path: PathBuf,
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
        /// What it said.
        message: String,
    },
    /// What came back is no answer.
    #[error("{path} does not answer as a gateway does: {source}")]
    NotAnAnswer {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
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

#[derive(Deserialize)]
struct Request {
    cmd: String,
}

#[derive(Serialize, Deserialize)]
struct Reply {
    ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stats: Option<GatewayStats>,
}

impl Reply {
    fn refusal(error: impl Into<String>) -> Self {
        Self { ok: false, error: Some(error.into()), stats: None }
    }
}

/// The default place of the socket of a gateway into `output`: `fairlink-OUTPUT.sock` in `$XDG_RUNTIME_DIR`, or in `/run` where
/// that is not set.
#[must_use]
pub fn default_path(output: &str) -> PathBuf {
    directories().remove(0).join(format!("fairlink-{output}.sock"))
}

/// The socket of the one gateway that runs, by this user or by root.
///
/// # Errors
/// [`ControlError::NoneFound`], [`ControlError::SeveralFound`].
pub fn find() -> Result<PathBuf, ControlError> {
    let directories = directories();
    let mut found: Vec<PathBuf> = directories
        .iter()
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
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

/// Whether somebody listens there; a socket that may not be opened counts as served.
fn is_served(path: &Path) -> bool {
    match UnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// Statistics of the gateway whose socket is at `path`.
///
/// # Errors
/// [`ControlError`]: nobody there, no permission, or not a gateway.
pub fn stats(path: &Path) -> Result<GatewayStats, ControlError> {
    let system = |source| ControlError::System { path: path.to_owned(), source };
    let mut stream = UnixStream::connect(path).map_err(system)?;
    stream.set_read_timeout(Some(ANSWER + PATIENCE)).map_err(system)?;
    stream.write_all(b"{\"cmd\":\"stats\"}\n").map_err(system)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(system)?;
    let reply: Reply =
        serde_json::from_str(&line).map_err(|source| ControlError::NotAnAnswer { path: path.to_owned(), source })?;
    match reply {
        Reply { stats: Some(stats), .. } => Ok(stats),
        Reply { error, .. } => Err(ControlError::Refused { message: error.unwrap_or_default() }),
    }
}

/// A control socket that is being served, until this is dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Makes a socket at `path` that only its owner may open. A thread of its own answers there with what `remote` says. The
    /// socket of a gateway that has died is replaced.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn start(path: &Path, remote: Remote) -> Result<Self, ControlError> {
        let listener = match listen(path) {
            Err(ControlError::System { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(path)?;
                listen(path)?
            }
            listening => listening?,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new()
            .name("fairlink-control".to_owned())
            .spawn({
                let stop = Arc::clone(&stop);
                move || serve(&listener, &remote, &stop)
            })
            .map_err(|source| ControlError::System { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), stop, thread: Some(thread) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Removed first, so that nobody connects to a server that is ending.
        let _ = std::fs::remove_file(&self.path);
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported where it happened.
            let _ = thread.join();
        }
    }
}

fn listen(path: &Path) -> Result<UnixListener, ControlError> {
    let system = |source| ControlError::System { path: path.to_owned(), source };
    let socket = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0).map_err(system)?;
    // SAFETY: takes no pointers. The file that `bind` makes inherits the socket's mode, so that it is never open to others.
    sys::check(unsafe { libc::fchmod(socket.as_raw_fd(), 0o600) }).map_err(system)?;
    // SAFETY: a `sockaddr_un` is integers, for which all zeros is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    let limit = address.sun_path.len() - 1;
    if bytes.len() > limit {
        return Err(ControlError::PathTooLong { path: path.to_owned(), limit });
    }
    for (to, &from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: `address` is readable for `length` bytes during the call, and its path ends with a zero.
    sys::check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) })
        .map_err(system)?;
    // SAFETY: takes no pointers.
    sys::check(unsafe { libc::listen(socket.as_raw_fd(), 16) }).map_err(system)?;
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true).map_err(system)?;
    Ok(listener)
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

fn serve(listener: &UnixListener, remote: &Remote, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // Whatever goes wrong with one client ends that client's connection alone.
            Ok((stream, _)) => drop(talk(stream, remote, stop)),
            Err(_) => std::thread::sleep(NAP),
        }
    }
}

fn talk(stream: UnixStream, remote: &Remote, stop: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while !stop.load(Ordering::Relaxed) {
        let mut line = Vec::new();
        let length = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        let reply = if whole || length < LONGEST_LINE as usize {
            answer(&line, remote)
        } else {
            Reply::refusal(format!("a request is a line of at most {LONGEST_LINE} bytes"))
        };
        let mut text = serde_json::to_vec(&reply)?;
        text.push(b'\n');
        writer.write_all(&text)?;
        if !whole {
            return Ok(());
        }
    }
    Ok(())
}

fn answer(line: &[u8], remote: &Remote) -> Reply {
    let request: Request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => return Reply::refusal(format!("not a request such as {{\"cmd\": \"stats\"}}: {error}")),
    };
    match request.cmd.as_str() {
        "stats" => match remote.stats(ANSWER) {
            Ok(stats) => Reply { ok: true, error: None, stats: Some((*stats).clone()) },
            Err(error) => Reply::refusal(error.to_string()),
        },
        other => Reply::refusal(format!("unknown command {other:?}; there is: stats")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::remote::Publisher;
    use std::os::unix::fs::PermissionsExt;

    /// A directory of this test's own, removed at the end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fairlink-control-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn socket(&self) -> PathBuf {
            self.0.join("s")
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn ask(path: &Path, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn nonsense_gets_an_answer_that_says_what_a_request_is() {
        let directory = Directory::new("nonsense");
        let publisher = Publisher::default();
        let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
        for (request, part) in [
            (&b"hello\n"[..], "not a request"),
            (b"{}\n", "missing field"),
            (b"{\"cmd\":\"dance\"}\n", "there is: stats"),
            (b"\xff\xfe\n", "not a request"),
            (b"{\"cmd\":\"dance\"}", "there is: stats"),
        ] {
            let text = ask(control.path(), request);
            assert!(text.contains("\"ok\":false") && text.contains(part), "{text}");
        }
        let long = ask(control.path(), &vec![b' '; LONGEST_LINE as usize]);
        assert!(long.contains("65536 bytes"), "{long}");
    }

    #[test]
    fn a_gateway_that_ended_without_running_is_told_as_that() {
        let directory = Directory::new("ended");
        let publisher = Publisher::default();
        let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
        drop(publisher);
        let error = stats(control.path()).unwrap_err();
        assert_eq!(error.to_string(), "the gateway answers: the gateway never ran");
    }

    #[test]
    fn only_the_owner_may_open_the_socket_and_it_goes_with_the_server() {
        let directory = Directory::new("mode");
        let publisher = Publisher::default();
        let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
        let mode = std::fs::metadata(directory.socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(control);
        assert!(!directory.socket().exists());
        assert!(matches!(stats(&directory.socket()), Err(ControlError::System { .. })));
    }

    #[test]
    fn a_dead_gateways_socket_is_replaced_and_a_living_ones_is_not() {
        let directory = Directory::new("stale");
        drop(UnixListener::bind(directory.socket()).unwrap());
        let publisher = Publisher::default();
        let control = Control::start(&directory.socket(), publisher.remote()).unwrap();
        let second = Control::start(&directory.socket(), publisher.remote()).unwrap_err();
        assert!(matches!(second, ControlError::InUse { .. }), "{second}");
        drop(control);
        std::fs::write(directory.socket(), "a user's file").unwrap();
        let third = Control::start(&directory.socket(), publisher.remote()).unwrap_err();
        assert!(matches!(third, ControlError::NotASocket { .. }), "{third}");
        assert_eq!(std::fs::read(directory.socket()).unwrap(), b"a user's file");
        let long = directory.0.join("x".repeat(200));
        let fourth = Control::start(&long, publisher.remote()).unwrap_err();
        assert!(matches!(fourth, ControlError::PathTooLong { .. }), "{fourth}");
    }
}
