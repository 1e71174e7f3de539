//! Connections that the kernel does not hand over, such as for want of descriptors: said once, then at most once in [`QUIET`] with their
//! number.

use std::io;
use std::time::{Duration, Instant};

use crate::gateway::links::Links;
use crate::gateway::log::LogEvent;

/// Time between two messages.
const QUIET: Duration = Duration::from_secs(10);
/// Time before a server tries again: the connection waits meanwhile, and a poll would come back at once.
const PAUSE: Duration = Duration::from_millis(20);

/// Failures of `accept` of one server.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The server's name, for messages.
    what: &'static str,
    unsaid: u64,
    said: Option<Instant>,
}

impl Refused {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, unsaid: 0, said: None }
    }

    /// `accept` has failed. A queue that is empty and a client that has gone are no failures.
    pub(crate) fn failed(&mut self, error: &io::Error, links: &Links) {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        if matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted) {
            return;
        }
        if let Some(text) = self.told(error, Instant::now()) {
            links.say(LogEvent::warn(text));
        }
        std::thread::sleep(PAUSE);
    }

    fn told(&mut self, error: &io::Error, now: Instant) -> Option<String> {
        self.unsaid += 1;
        if self.said.is_some_and(|said| now.duration_since(said) < QUIET) {
            return None;
        }
        self.said = Some(now);
        let times = match std::mem::take(&mut self.unsaid) {
            1 => String::new(),
            times => format!(" ({times} times)"),
        };
        let remedy = match error.raw_os_error() {
            Some(libc::EMFILE) => {
                "; this process has as many files open as it may: `ulimit -n`, or LimitNOFILE= in a unit"
            }
            Some(libc::ENFILE) => "; this machine has as many files open as it may: `sysctl fs.file-max`",
            _ => "",
        };
        Some(format!("{} cannot take a connection{times}: {error}{remedy}", self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_said_with_its_remedy_and_later_ones_together() {
        let mut refused = Refused::new("the control socket");
        let full = io::Error::from_raw_os_error(libc::EMFILE);
        let start = Instant::now();
        let first = refused.told(&full, start).expect("it is said");
        assert!(first.starts_with("the control socket cannot take a connection: "), "{first}");
        assert!(first.contains("LimitNOFILE="), "{first}");
        assert!((1..100).all(|_| refused.told(&full, start + QUIET / 2).is_none()));
        let later = refused.told(&full, start + QUIET).expect("it is said again");
        assert!(later.contains("(100 times)"), "{later}");
    }

    #[test]
    fn an_empty_queue_is_no_failure() {
        let (mut refused, links) = (Refused::new("the control socket"), Links::default());
        refused.failed(&io::ErrorKind::WouldBlock.into(), &links);
        assert!(links.news().is_empty());
        refused.failed(&io::Error::from_raw_os_error(libc::ENFILE), &links);
        assert!(links.news()[0].message.contains("fs.file-max"));
    }
}
