//! `--metrics ADDR`: counters and present state of the links, as OpenMetrics text over HTTP.
//!
//! One thread serves all clients without blocking on any. It requests snapshots from the data threads as the control
//! socket does ([`crate::gateway::account`]). These never wait, and copy a few classes between two turns, whatever the
//! number of clients.
//!
//! * A connection has [`PATIENCE`] to send a whole request of at most [`LONGEST_REQUEST`] bytes, and [`TAKING`] to read
//!   the whole answer.
//! * [`MAX_CLIENTS`] connections are served at once. A further one replaces the one with the earliest deadline.
//! * An answer is computed once and kept for [`FRESH`], so that simultaneous clients share it, and frequent requests
//!   cost no more.
//! * Only `GET` and `HEAD` of `/metrics` are answered with metrics, one request for each connection. `/healthz` and
//!   `/readyz` need no data thread.
//!
//! The few lines of HTTP are implemented here: a library would bring its own runtime and its own timeouts.
//!
//! **Rates and ideals** are those since the last but one answer that is at least [`SHORTEST`] old. So their interval
//! has at least that length, whatever the number of clients and requests.

mod filter;
mod http;
mod page;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::gateway::account::{Interval, LimitHistory, Observation};
use crate::gateway::links::Links;
use crate::gateway::remote::{Remote, Ticket};
use crate::gateway::serving::{Server, ServerThread};

use filter::Filter;
use http::{Client, Step};
use page::{LinkPage, Page};

/// Time for a connection to send a whole request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for a connection to read a whole answer.
const TAKING: Duration = Duration::from_secs(10);
/// Longest request in bytes, its head included.
const LONGEST_REQUEST: usize = 8 * 1024;
/// Most connections at once.
const MAX_CLIENTS: usize = 16;
/// Lifetime of an answer, during which further clients get it, too.
const FRESH: Duration = Duration::from_millis(200);
/// Minimum interval for rates.
const SHORTEST: Duration = Duration::from_secs(1);
/// Maximum number of filters whose texts are cached with an answer.
const MOST_FILTERS: usize = 8;
/// Time for the data threads to deliver snapshots.
const ANSWER: Duration = Duration::from_secs(2);
/// Longest poll in ms.
const POLL_MS: i32 = 50;
/// Poll interval while a data thread's answer is pending.
const WAITING_POLL_MS: i32 = 2;

/// Reason why there are no metrics.
#[derive(Debug, Error)]
pub enum MetricsError {
    /// The address cannot be listened at.
    #[error("metrics at {address}: {source}{}", match source.kind() {
        io::ErrorKind::AddrInUse => "; the port is in use, choose another",
        io::ErrorKind::AddrNotAvailable => "; use an address of this machine, or 0.0.0.0 or [::] for all of them",
        _ if source.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
            "; in a systemd unit, RestrictAddressFamilies= must include AF_INET and AF_INET6"
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE, choose a higher one",
        _ => "",
    })]
    Address {
        /// The address.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No thread could be started.
    #[error("metrics: cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A running metrics server, until this is dropped.
#[derive(Debug)]
pub struct Metrics {
    address: SocketAddr,
    _thread: ServerThread,
}

impl Metrics {
    /// Serves the metrics of `links` at `address`, from a new thread. With port 0 the kernel chooses one.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub fn start(address: SocketAddr, links: impl Into<Links>) -> Result<Self, MetricsError> {
        let links = links.into();
        let system = |source| MetricsError::Address { address, source };
        let listener = TcpListener::bind(address).map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        let thread = ServerThread::start(listener, MetricsServer::new(links)).map_err(MetricsError::Thread)?;
        Ok(Self { address, _thread: thread })
    }

    /// Address of the listener, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A pending request to all links.
struct Gathering {
    links: Vec<(String, Remote, Ticket)>,
    until: Instant,
}

/// Earlier observations of a link.
struct Before {
    /// Older and newer: the newer is at least [`SHORTEST`] younger.
    older: Option<Arc<Observation>>,
    newer: Arc<Observation>,
    /// Time of the newer one.
    at: Instant,
    /// The limits of classes in the intervals so far.
    limits: LimitHistory,
}

/// The metrics of one moment, and the texts for the filters in use.
struct Answer {
    page: Page,
    texts: Vec<(Filter, Arc<Vec<u8>>)>,
}

impl Answer {
    fn text(&mut self, filter: &Filter) -> Arc<Vec<u8>> {
        if let Some((_, text)) = self.texts.iter().find(|(known, _)| known == filter) {
            return Arc::clone(text);
        }
        let text = Arc::new(self.page.text(filter).into_bytes());
        if self.texts.len() < MOST_FILTERS {
            self.texts.push((filter.clone(), Arc::clone(&text)));
        }
        text
    }
}

struct MetricsServer {
    links: Links,
    gathering: Option<Gathering>,
    /// The last answer and when it was made.
    last: Option<(Instant, Answer)>,
    /// By name.
    before: BTreeMap<String, Before>,
}

impl Server for MetricsServer {
    type Listener = TcpListener;
    type Client = Client;
    type Order = Instant;

    const THREAD: &'static str = "fairlink-metrics";
    const SUBJECT: &'static str = "the address of metrics";
    const MAX_CLIENTS: usize = MAX_CLIENTS;

    fn links(&self) -> &Links {
        &self.links
    }

    fn connect(&self, stream: TcpStream) -> Client {
        Client::new(stream)
    }

    /// The connection with the earliest deadline.
    fn eviction_order(client: &Client) -> Instant {
        client.deadline()
    }

    fn poll_ms(&self, _clients: &[Client]) -> i32 {
        if self.gathering.is_some() { WAITING_POLL_MS } else { POLL_MS }
    }

    fn turn(&mut self, clients: &mut Vec<Client>) {
        self.gathered();
        let now = Instant::now();
        let Self { links, last, .. } = self;
        let mut fresh = last.as_mut().filter(|(at, _)| now.duration_since(*at) < FRESH).map(|(_, answer)| answer);
        let mut wanted = false;
        let mut page = |filter: &Filter| fresh.as_mut().map(|answer| answer.text(filter));
        // An error ends only its own connection.
        clients.retain_mut(|client| match client.poll(now, links, &mut page) {
            Ok(Step::Stays) => true,
            Ok(Step::Wants) => {
                wanted = true;
                true
            }
            Ok(Step::Over) | Err(_) => false,
        });
        if wanted && self.gathering.is_none() {
            self.gather();
        }
    }

    fn end(&mut self, clients: &mut Vec<Client>) -> Duration {
        clients.clear();
        Duration::ZERO
    }
}

impl MetricsServer {
    fn new(links: Links) -> Self {
        let mut server = Self { links, gathering: None, last: None, before: BTreeMap::new() };
        // The first answer then has an observation to compare with.
        server.gather();
        server
    }

    fn gather(&mut self) {
        let ask = |(name, remote): (String, Remote)| {
            let ticket = remote.ask();
            (name, remote, ticket)
        };
        let links = self.links.list().into_iter().map(ask).collect();
        self.gathering = Some(Gathering { links, until: Instant::now() + ANSWER });
    }

    /// Builds the answer, after all links have delivered or their time is over.
    fn gathered(&mut self) {
        let now = Instant::now();
        let Some(gathering) = &self.gathering else { return };
        let answers: Vec<_> = gathering.links.iter().map(|(_, remote, ticket)| remote.answer(*ticket)).collect();
        if answers.iter().any(Option::is_none) && now < gathering.until {
            return;
        }
        let Some(gathering) = self.gathering.take() else { return };
        let seen: Vec<Seen> = gathering
            .links
            .into_iter()
            .zip(answers)
            .map(|((name, ..), answer)| {
                let observation = answer.and_then(Result::ok).map(|snapshot| Arc::new(Observation::new(snapshot)));
                let earlier = observation.as_ref().and_then(|observation| self.since(&name, observation, now));
                Seen { name, observation, earlier }
            })
            .collect();
        self.before.retain(|name, _| seen.iter().any(|link| link.name == *name));
        let page = Page::new(self.pages(seen), self.links.reloads());
        // Its lifetime starts after it was built: that can take longer than the lifetime, and then the answer would
        // never be used.
        self.last = Some((Instant::now(), Answer { page, texts: Vec::new() }));
    }

    fn pages(&mut self, seen: Vec<Seen>) -> Vec<LinkPage> {
        let times: Vec<_> =
            seen.iter().map(|link| Some((link.earlier.as_deref()?, link.observation.as_deref()?))).collect();
        let intervals = Interval::of_links(&times);
        let page = |(Seen { name, observation, .. }, mut interval): (Seen, Option<Interval>)| {
            if let (Some(interval), Some(seen), Some(before)) =
                (&mut interval, &observation, self.before.get_mut(&name))
            {
                before.limits.extend(interval, seen.generation());
            }
            LinkPage { name, observation, interval }
        };
        seen.into_iter().zip(intervals).map(page).collect()
    }

    /// Returns the earlier observation of a link from which its interval starts.
    fn since(&mut self, name: &str, observation: &Arc<Observation>, now: Instant) -> Option<Arc<Observation>> {
        let Some(before) = self.before.get_mut(name) else {
            let first =
                Before { older: None, newer: Arc::clone(observation), at: now, limits: LimitHistory::default() };
            self.before.insert(name.to_owned(), first);
            return None;
        };
        if now.duration_since(before.at) < SHORTEST {
            return Some(Arc::clone(before.older.as_ref().unwrap_or(&before.newer)));
        }
        let earlier = std::mem::replace(&mut before.newer, Arc::clone(observation));
        before.older = Some(Arc::clone(&earlier));
        before.at = now;
        Some(earlier)
    }
}

/// Present and earlier observation of a link.
struct Seen {
    name: String,
    observation: Option<Arc<Observation>>,
    earlier: Option<Arc<Observation>>,
}

#[cfg(test)]
mod grammar;
#[cfg(test)]
mod tests;
