//! Reports connections that `accept` fails to return, such as for lack of file descriptors: the first failure at once,
//! later ones at most once in [`QUIET`], with their number.

use std::io;
use std::time::{Duration, Instant};

use crate::gateway::links::Links;
use crate::gateway::log::LogEvent;

/// Time between two messages.
const QUIET: Duration = Duration::from_secs(10);
/// Time before a server tries again: the connection stays in the backlog, and a poll would return at once.
const PAUSE: Duration = Duration::from_millis(20);

/// Failures of `accept` at one listener.
#[derive(Debug)]
pub struct AcceptFailures {
    /// Subject of the messages, such as "the control socket".
    what: &'static str,
    unreported: u64,
    reported: Option<Instant>,
}

impl AcceptFailures {
    /// Makes it for the server that `what` names, such as "the control socket".
    #[must_use]
    pub fn new(what: &'static str) -> Self {
        Self { what, unreported: 0, reported: None }
    }

    /// Reports a failure of `accept` in the log of `links`. Returns the time to wait before the next try; `None` if it
    /// is no failure: an empty backlog, or a client that has closed its connection.
    pub fn record(&mut self, error: &io::Error, links: &Links) -> Option<Duration> {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        if matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted) {
            return None;
        }
        if let Some(text) = self.message(error, Instant::now()) {
            links.say(LogEvent::warn(text));
        }
        Some(PAUSE)
    }

    fn message(&mut self, error: &io::Error, now: Instant) -> Option<String> {
        self.unreported += 1;
        if self.reported.is_some_and(|at| now.duration_since(at) < QUIET) {
            return None;
        }
        self.reported = Some(now);
        let times = match std::mem::take(&mut self.unreported) {
            1 => String::new(),
            times => format!(" ({times} times)"),
        };
        let remedy = match error.raw_os_error() {
            Some(libc::EMFILE) => {
                "; this process has reached its limit of open files: `ulimit -n`, or LimitNOFILE= in a unit"
            }
            Some(libc::ENFILE) => "; this machine has reached its limit of open files: `sysctl fs.file-max`",
            _ => "",
        };
        Some(format!("{} cannot accept a connection{times}: {error}{remedy}", self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_said_with_its_remedy_and_later_ones_together() {
        let mut failures = AcceptFailures::new("the control socket");
        let full = io::Error::from_raw_os_error(libc::EMFILE);
        let start = Instant::now();
        let first = failures.message(&full, start).expect("it is said");
        assert!(first.starts_with("the control socket cannot accept a connection: "), "{first}");
        assert!(first.contains("LimitNOFILE="), "{first}");
        assert!((1..100).all(|_| failures.message(&full, start + QUIET / 2).is_none()));
        let later = failures.message(&full, start + QUIET).expect("it is said again");
        assert!(later.contains("(100 times)"), "{later}");
    }

    #[test]
    fn an_empty_queue_is_no_failure() {
        let (mut failures, links) = (AcceptFailures::new("the control socket"), Links::default());
        assert_eq!(failures.record(&io::ErrorKind::WouldBlock.into(), &links), None);
        assert!(links.news().is_empty());
        assert_eq!(failures.record(&io::Error::from_raw_os_error(libc::ENFILE), &links), Some(PAUSE));
        assert!(links.news()[0].message.contains("fs.file-max"));
    }
}
