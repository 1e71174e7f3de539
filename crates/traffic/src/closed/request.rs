//! Requests and responses in turn, as a client has that waits for each answer.
//!
//! A request crosses the simulated links as packets. When all of them have arrived, the response returns over a
//! separate path: it takes the round-trip time, and the duration of its bytes at the rate of that path. Then the client
//! thinks, and sends the next request. A request that is not answered within a second after its last packet was sent is
//! repeated as a whole; the time doubles each time.

use std::collections::BTreeSet;

use fairlink_core::{NANOS_PER_SEC, Nanos, Rate};

use super::Sent;
use crate::error::SourceError;
use crate::length::Lengths;
use crate::random::Random;

/// Longest request or response, in bytes.
const MAX_BYTES: u64 = 1 << 32;
/// First and longest timeout of an answer.
const PATIENCE: Nanos = Nanos::from_secs(1);
const MOST_PATIENCE: Nanos = Nanos::from_secs(60);

/// Requests and responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestResponse {
    /// Bytes of a request, which cross the links.
    pub request: u64,
    /// Bytes of a response, which come back.
    pub response: u64,
    /// Mean of the exponentially distributed time between a response and the next request.
    pub think: Nanos,
    /// Round-trip time of a packet and its answer beside the simulated links.
    pub rtt: Nanos,
    /// Rate of responses; at once if absent.
    pub return_rate: Option<Rate>,
}

impl RequestResponse {
    pub(crate) fn check(&self) -> Result<(), SourceError> {
        for (what, bytes, least) in [("a request", self.request, 1), ("a response", self.response, 0)] {
            if bytes < least || bytes > MAX_BYTES {
                return Err(SourceError::Parameter { what, value: bytes as f64, must: "1 B to 4 GiB" });
            }
        }
        Ok(())
    }

    /// Returns the time from the arrival of a request's last packet to the arrival of the whole response.
    fn way_back(&self) -> Nanos {
        let bytes = self.return_rate.map_or(0, |rate| {
            let bits = u128::from(self.response) * 8 * u128::from(NANOS_PER_SEC);
            u64::try_from(bits.div_ceil(u128::from(rate.bps()))).unwrap_or(u64::MAX)
        });
        self.rtt.saturating_add(Nanos(bytes))
    }

    /// Bytes per second if links take no time.
    pub(crate) fn bytes_per_second(&self) -> Option<f64> {
        let time = self.way_back().saturating_add(self.think);
        (time > Nanos::ZERO).then(|| self.request as f64 / (time.0 as f64 / NANOS_PER_SEC as f64))
    }
}

/// The results of a source of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transactions {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were sent again.
    pub repeated: u64,
    /// Mean time from the first packet of a request to the end of its response, in seconds; 0 before the first.
    pub mean_s: f64,
    /// Longest such time.
    pub max_s: f64,
}

#[derive(Clone, Debug)]
enum State {
    /// Sends at this time.
    Thinks(Nanos),
    /// Has these bytes to send yet.
    Sends(u64),
    /// Everything is sent, and is given up at this time.
    Waits(Nanos),
    /// The response is there at this time.
    Answered(Nanos),
}

#[derive(Clone, Debug)]
pub(super) struct Requests {
    spec: RequestResponse,
    state: State,
    next: u32,
    /// Packets of this request that have not arrived.
    missing: BTreeSet<u32>,
    /// Arrival time of the last one of those that did.
    last_arrival: Nanos,
    began: Nanos,
    backoff: u32,
    transactions: Transactions,
    sum_s: f64,
}

impl Requests {
    pub(super) fn new(spec: RequestResponse) -> Self {
        Self {
            spec,
            state: State::Thinks(Nanos::ZERO),
            next: 0,
            missing: BTreeSet::new(),
            last_arrival: Nanos::ZERO,
            began: Nanos::ZERO,
            backoff: 0,
            transactions: Transactions::default(),
            sum_s: 0.0,
        }
    }

    pub(super) fn next_time(&self) -> Option<Nanos> {
        match self.state {
            State::Waits(until) => Some(until),
            State::Answered(at) => Some(at),
            State::Thinks(_) | State::Sends(_) => None,
        }
    }

    /// Time since when it has a packet to send.
    pub(super) fn wants_to_send(&self) -> Option<Nanos> {
        match self.state {
            State::Thinks(until) => Some(until),
            State::Sends(_) => Some(Nanos::ZERO),
            State::Waits(_) | State::Answered(_) => None,
        }
    }

    pub(super) fn on_time(&mut self, now: Nanos, random: &mut Random) {
        match self.state {
            State::Answered(at) if at <= now => {
                let time = (at - self.began).0 as f64 / NANOS_PER_SEC as f64;
                self.transactions.answered += 1;
                self.transactions.max_s = self.transactions.max_s.max(time);
                self.sum_s += time;
                self.backoff = 0;
                let think = self.spec.think.0 as f64 * random.exponential();
                self.state = State::Thinks(at.saturating_add(Nanos(think as u64)));
            }
            State::Waits(until) if until <= now => {
                self.transactions.repeated += 1;
                self.backoff += 1;
                self.missing.clear();
                self.state = State::Sends(self.spec.request);
            }
            _ => {}
        }
    }

    pub(super) fn send(&mut self, now: Nanos, lengths: &Lengths, random: &mut Random) -> Option<Sent> {
        let left = match self.state {
            State::Thinks(until) if until <= now => {
                self.began = now;
                self.last_arrival = Nanos::ZERO;
                self.spec.request
            }
            State::Sends(left) => left,
            _ => return None,
        };
        let len = u64::from(lengths.draw(random)).min(left);
        let tag = self.next;
        self.next = self.next.wrapping_add(1);
        self.missing.insert(tag);
        self.state = if len < left {
            State::Sends(left - len)
        } else {
            let patience = Nanos(PATIENCE.0.saturating_mul(1 << self.backoff.min(16))).min(MOST_PATIENCE);
            State::Waits(now.saturating_add(self.spec.way_back()).saturating_add(patience))
        };
        Some(Sent { len: len as u32, tag })
    }

    pub(super) fn arrived(&mut self, at: Nanos, tag: u32) {
        if !self.missing.remove(&tag) {
            return;
        }
        self.last_arrival = self.last_arrival.max(at);
        if self.missing.is_empty() && matches!(self.state, State::Waits(_)) {
            self.state = State::Answered(self.last_arrival.saturating_add(self.spec.way_back()));
        }
    }

    pub(super) fn transactions(&self) -> Transactions {
        let mean_s = self.sum_s / self.transactions.answered.max(1) as f64;
        Transactions { mean_s, ..self.transactions.clone() }
    }
}
