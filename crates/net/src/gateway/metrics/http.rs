//! One connection of the metrics: the part of HTTP/1.1 that a scraper needs, without blocking.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::filter::Filter;
use super::{LONGEST_REQUEST, PATIENCE, TAKING};
use crate::gateway::links::Links;
use crate::gateway::serving::{Connection, would_block};

/// Time for the client to close a connection after its answer.
const CLOSING: Duration = Duration::from_secs(1);
/// Maximum number of pieces for one connection before the next has its turn.
const PIECES: u32 = 16;

/// Next step of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait until its socket is ready.
    Stays,
    /// The metrics.
    Wants,
    /// To be closed.
    Over,
}

/// State of a connection.
enum State {
    /// The request so far.
    Reading(Vec<u8>),
    /// Waits for the metrics; with or without the body.
    Waiting { body: bool, filter: Filter },
    /// The head, the body, and how much of both was written.
    Writing { head: Vec<u8>, body: Arc<Vec<u8>>, written: usize },
    /// All was written. Closing at once could discard an answer that the client has not read yet.
    Closing,
}

/// One connection.
pub(super) struct Client {
    stream: TcpStream,
    state: State,
    /// Time when it is closed, unless the client has finished its part.
    deadline: Instant,
}

impl Connection for Client {
    fn pollfd(&self) -> libc::pollfd {
        let events = match self.state {
            State::Reading(_) | State::Closing => libc::POLLIN,
            State::Waiting { .. } => 0,
            State::Writing { .. } => libc::POLLOUT,
        };
        let fd = if events == 0 { -1 } else { self.stream.as_raw_fd() };
        libc::pollfd { fd, events, revents: 0 }
    }
}

impl Client {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, state: State::Reading(Vec::new()), deadline: Instant::now() + PATIENCE }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Reads, answers and writes as far as possible without blocking. `page` returns the metrics, if they are fresh.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        links: &Links,
        mut page: impl FnMut(&Filter) -> Option<Arc<Vec<u8>>>,
    ) -> io::Result<Step> {
        if now >= self.deadline {
            return Ok(Step::Over);
        }
        for _ in 0..PIECES {
            match &mut self.state {
                State::Reading(input) => {
                    let mut part = [0; 2048];
                    let length = match self.stream.read(&mut part) {
                        Ok(length) => length,
                        Err(error) if would_block(&error) => return Ok(Step::Stays),
                        Err(error) => return Err(error),
                    };
                    input.extend(&part[..length]);
                    let whole = head_end(input);
                    if whole.is_none() && length == 0 {
                        return Ok(Step::Over);
                    }
                    if whole.is_some() || input.len() > LONGEST_REQUEST {
                        let target = whole.map_or(Target::TooLong, |end| read(&input[..end]));
                        self.answer(now, target, links);
                    }
                }
                State::Waiting { body, filter } => {
                    let Some(page) = page(filter) else { return Ok(Step::Wants) };
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
                         Content-Length: {}\r\nConnection: close\r\n\r\n",
                        page.len()
                    );
                    let body = if *body { page } else { Arc::default() };
                    self.state = State::Writing { head: head.into_bytes(), body, written: 0 };
                    self.deadline = now + TAKING;
                }
                State::Writing { head, body, written } => {
                    let rest = if *written < head.len() { &head[*written..] } else { &body[*written - head.len()..] };
                    if rest.is_empty() {
                        let _ = self.stream.shutdown(Shutdown::Write);
                        self.state = State::Closing;
                        self.deadline = now + CLOSING;
                        continue;
                    }
                    match self.stream.write(rest) {
                        Ok(length) => *written += length,
                        Err(error) if would_block(&error) => return Ok(Step::Stays),
                        Err(error) => return Err(error),
                    }
                }
                State::Closing => match self.stream.read(&mut [0; 2048]) {
                    Ok(0) => return Ok(Step::Over),
                    Ok(_) => {}
                    Err(error) if would_block(&error) => return Ok(Step::Stays),
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(Step::Stays)
    }

    fn answer(&mut self, now: Instant, target: Target, links: &Links) {
        let health = |why: Vec<String>| match why.is_empty() {
            true => ("200 OK", "ok\n".to_owned()),
            false => ("503 Service Unavailable", why.join("\n") + "\n"),
        };
        let allow = if target == Target::Otherwise { "Allow: GET, HEAD\r\n" } else { "" };
        let (body, (status, text)) = match target {
            Target::Metrics { body, filter } => {
                self.state = State::Waiting { body, filter };
                self.deadline = now + TAKING;
                return;
            }
            Target::Healthy { body } => (body, health(links.ailing())),
            Target::Ready { body } => (body, health(links.unready())),
            Target::Refused(why) => (true, ("400 Bad Request", why + "\n")),
            Target::Elsewhere => (
                true,
                (
                    "404 Not Found",
                    "The paths are /metrics, /metrics?class=GLOB&depth=N, /healthz and /readyz.\n".to_owned(),
                ),
            ),
            Target::Otherwise => (
                true,
                (
                    "405 Method Not Allowed",
                    "The methods are GET and HEAD, for /metrics, /healthz and /readyz.\n".to_owned(),
                ),
            ),
            Target::Nonsense => (true, ("400 Bad Request", "Not an HTTP request.\n".to_owned())),
            Target::TooLong => {
                (true, ("431 Request Header Fields Too Large", "The limit of a request is 8 KiB.\n".to_owned()))
            }
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n{allow}Content-Length: {}\r\nConnection: close\r\n\r\n",
            text.len()
        );
        let body = Arc::new(if body { text.into_bytes() } else { Vec::new() });
        self.state = State::Writing { head: head.into_bytes(), body, written: 0 };
        self.deadline = now + TAKING;
    }
}

/// Target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Metrics {
        body: bool,
        filter: Filter,
    },
    Healthy {
        body: bool,
    },
    Ready {
        body: bool,
    },
    /// It cannot be answered; the reason.
    Refused(String),
    Elsewhere,
    Otherwise,
    Nonsense,
    TooLong,
}

/// Returns the length of a request's head including its empty line, if that has arrived.
fn head_end(input: &[u8]) -> Option<usize> {
    let crlf = input.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
    let lf = input.windows(2).position(|two| two == b"\n\n").map(|at| at + 2);
    crlf.into_iter().chain(lf).min()
}

/// Reads the first line of a request; the rest is ignored.
fn read(head: &[u8]) -> Target {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Target::Nonsense };
    let words: Vec<&str> = line.trim_end_matches('\r').split(' ').collect();
    let &[method, target, version] = &words[..] else { return Target::Nonsense };
    if !version.starts_with("HTTP/1.") || method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Target::Nonsense;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let body = method == "GET";
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => match Filter::read(query) {
            Ok(filter) => Target::Metrics { body, filter },
            Err(why) => Target::Refused(why),
        },
        ("GET" | "HEAD", "/healthz") => Target::Healthy { body },
        ("GET" | "HEAD", "/readyz") => Target::Ready { body },
        ("GET" | "HEAD", _) => Target::Elsewhere,
        _ => Target::Otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_by_its_first_line() {
        let all = |body| Target::Metrics { body, filter: Filter::default() };
        for (line, asked) in [
            ("GET /metrics HTTP/1.1", all(true)),
            ("GET /metrics?depth=0 HTTP/1.0", Target::Refused(Filter::read("depth=0").unwrap_err())),
            ("GET /metrics? HTTP/1.0", all(true)),
            ("GET /healthz HTTP/1.1", Target::Healthy { body: true }),
            ("HEAD /readyz HTTP/1.1", Target::Ready { body: false }),
            ("HEAD /metrics HTTP/1.1", all(false)),
            ("GET / HTTP/1.1", Target::Elsewhere),
            ("GET /metricsx HTTP/1.1", Target::Elsewhere),
            ("POST /metrics HTTP/1.1", Target::Otherwise),
            ("GET /metrics", Target::Nonsense),
            ("GET  /metrics HTTP/1.1", Target::Nonsense),
            ("get /metrics HTTP/1.1", Target::Nonsense),
            ("GET /metrics HTTP/2", Target::Nonsense),
            ("", Target::Nonsense),
        ] {
            for end in ["\r\n\r\n", "\n\n", "\r\nHost: x\r\n\r\n"] {
                let text = format!("{line}{end}");
                assert_eq!(head_end(text.as_bytes()), Some(text.len()), "{text:?}");
                assert_eq!(read(text.as_bytes()), asked, "{text:?}");
            }
        }
        assert_eq!(read(b"\xff\xfe\r\n\r\n"), Target::Nonsense);
        assert_eq!(head_end(b"GET /metrics HTTP/1.1\r\n"), None);
    }
}
