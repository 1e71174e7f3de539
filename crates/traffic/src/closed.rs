//! Sources that react to the fate of their packets: a window source, such as TCP, and one of requests and responses.
//!
//! They are independent of links. The caller that carries their packets reports each delivery ([`Closed::arrived`]); a
//! packet without a report is lost. The return path has a delay and no queue.

mod request;
mod window;

use fairlink_core::Nanos;

pub use self::request::{RequestResponse, Transactions};
pub use self::window::{CongestionControl, Flow, Tcp};

use self::request::Requests;
use self::window::Window;
use crate::error::SourceError;
use crate::interval::Interval;
use crate::length::{Lengths, PacketSize};
use crate::random::Random;

/// A packet that a closed source sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) len: u32,
    /// Identifies the packet to its source.
    pub(crate) tag: u32,
}

/// The results of a closed source.
#[derive(Clone, Debug, PartialEq)]
pub enum ClosedReport {
    /// A window source.
    Tcp(Flow),
    /// Requests and responses.
    RequestResponse(Transactions),
}

/// A running closed source.
#[derive(Clone, Debug)]
pub(crate) struct Closed {
    kind: Kind,
    lengths: Lengths,
    random: Random,
    intervals: std::vec::IntoIter<Interval>,
    active: Option<Interval>,
    /// Time at which the mix of all sources polls it next.
    pub(crate) scheduled: Option<Nanos>,
}

#[derive(Clone, Debug)]
enum Kind {
    Window(Box<Window>),
    Requests(Box<Requests>),
}

impl Closed {
    /// Makes a window source.
    pub(crate) fn tcp(
        tcp: Tcp,
        packet: &PacketSize,
        active: Vec<Interval>,
        random: Random,
    ) -> Result<Self, SourceError> {
        Self::new(Kind::Window(Box::new(Window::new(tcp))), packet, active, random)
    }

    /// Makes a source of requests.
    pub(crate) fn requests(
        spec: RequestResponse,
        packet: &PacketSize,
        active: Vec<Interval>,
        random: Random,
    ) -> Result<Self, SourceError> {
        Self::new(Kind::Requests(Box::new(Requests::new(spec))), packet, active, random)
    }

    fn new(kind: Kind, packet: &PacketSize, active: Vec<Interval>, random: Random) -> Result<Self, SourceError> {
        let lengths = Lengths::new(packet)?;
        let mut intervals = active.into_iter();
        let active = intervals.next();
        Ok(Self { kind, lengths, random, intervals, active, scheduled: None })
    }

    /// Time of its next own action: it sends, is notified of a packet, or gives one up.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        let own = match &self.kind {
            Kind::Window(window) => window.next_time(),
            Kind::Requests(requests) => requests.next_time(),
        };
        // Outside its intervals it receives feedback, and does not send.
        let Some(interval) = self.active else { return own };
        let start = match &self.kind {
            Kind::Window(window) if window.may_send() => Some(interval.start),
            Kind::Requests(requests) => requests.wants_to_send().map(|at| at.max(interval.start)),
            Kind::Window(_) => None,
        };
        [own, start].into_iter().flatten().min()
    }

    /// Performs the actions due at `now`, with at most one packet. The caller repeats it as long as
    /// [`Closed::next_time`] is not later.
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<Sent> {
        match &mut self.kind {
            Kind::Window(window) => window.on_time(now),
            Kind::Requests(requests) => requests.on_time(now, &mut self.random),
        }
        while self.active.is_some_and(|interval| interval.end <= now) {
            self.active = self.intervals.next();
        }
        if self.active.is_none_or(|interval| now < interval.start) {
            return None;
        }
        match &mut self.kind {
            Kind::Window(window) if window.may_send() => {
                let len = self.lengths.draw(&mut self.random);
                Some(Sent { len, tag: window.send(now, len) })
            }
            Kind::Requests(requests) => requests.send(now, &self.lengths, &mut self.random),
            Kind::Window(_) => None,
        }
    }

    /// Reports that the packet `tag` reaches its receiver at `at`, which may be later than now; `marked` is true if it
    /// has met congestion.
    pub(crate) fn arrived(&mut self, at: Nanos, tag: u32, marked: bool) {
        match &mut self.kind {
            Kind::Window(window) => window.arrived(at, tag, marked),
            Kind::Requests(requests) => requests.arrived(at, tag),
        }
    }

    /// Returns the results so far.
    pub(crate) fn report(&self) -> ClosedReport {
        match &self.kind {
            Kind::Window(window) => ClosedReport::Tcp(window.flow()),
            Kind::Requests(requests) => ClosedReport::RequestResponse(requests.transactions()),
        }
    }
}

#[cfg(test)]
mod tests;
