//! Server of the control socket: requests, their answers, intervals of statistics, traces.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::{ANSWER, PATIENCE, Reply, Request, TRACE_PATIENCE, Traced};
use crate::gateway::account::{Interval, LimitHistory, Observation};
use crate::gateway::links::Links;
use crate::gateway::reload::ReloadRequest;
use crate::gateway::remote::{Remote, Ticket};
use crate::gateway::remote_error::RemoteError;
use crate::gateway::trace::TraceReader;

/// Longest request in bytes: a link file of some 100,000 classes.
pub(super) const LONGEST_LINE: usize = 16 << 20;
/// Bytes that are read at once.
const PART: usize = 64 * 1024;
/// Longest poll in ms.
const POLL_MS: i32 = 20;
/// The same while a data thread has to answer, or packets are traced.
const WAITING_POLL_MS: i32 = 1;
/// Names of the commands.
const COMMANDS: [&str; 6] = ["links", "stats", "trace", "reload", "rate", "scheduler"];
/// Longest time without a request that a client may ask for.
const LONGEST_SILENCE: Duration = Duration::from_secs(3600);
/// Links of which one client may receive intervals.
const MOST_LINKS: usize = 64;
/// Steps of one connection before the next has its turn.
const STEPS: u32 = 8;

/// Most bytes of a trace that wait for a client, beside the ring.
const TRACE_BYTES: usize = 256 * 1024;
/// Time that clients have to read the end of a trace when the server ends.
pub(super) const TRACE_END: Duration = Duration::from_secs(2);

/// Returns the longest poll in ms.
pub(super) fn poll_ms(clients: &[Client]) -> i32 {
    let waiting = clients.iter().any(|client| client.is_waiting() || client.trace.is_some());
    if waiting { WAITING_POLL_MS } else { POLL_MS }
}

/// A request for statistics that data threads have not answered yet.
struct PendingQuery {
    link: String,
    remote: Remote,
    ticket: Ticket,
    /// The same request to links that share pools with it, by name: their demand is part of its ideal.
    partners: Vec<(String, Remote, Ticket)>,
    /// Time of the timeout.
    until: Instant,
    /// The answer covers the interval since the answer before.
    interval: bool,
}

/// The last observation of a link that a client received.
struct Reported {
    observation: Observation,
    /// Observations of the links that share pools with it, by name.
    partners: BTreeMap<String, Observation>,
}

/// One connection.
pub(super) struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    /// Bytes at the start of the input that have no end of line.
    searched: usize,
    output: Vec<u8>,
    written: usize,
    /// A request for statistics without an answer yet.
    query: Option<PendingQuery>,
    /// Receives the answer of the thread that changes the gateway.
    changing: Option<Receiver<Reply>>,
    /// Time that the connection may be silent before its next request.
    between: Duration,
    /// By link, the last observation that was sent, for a client that asks for intervals.
    reported: BTreeMap<String, Reported>,
    /// By link, the limits of its classes in those intervals.
    limits: BTreeMap<String, LimitHistory>,
    /// Packets of the gateway, for a client that traces.
    trace: Option<TraceReader>,
    /// Time at which the connection is closed if the client has not done its part.
    deadline: Instant,
    /// True if no more is read.
    ending: bool,
}

impl Client {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            input: Vec::new(),
            searched: 0,
            output: Vec::new(),
            written: 0,
            query: None,
            between: Duration::ZERO,
            reported: BTreeMap::new(),
            limits: BTreeMap::new(),
            changing: None,
            trace: None,
            deadline: Instant::now() + PATIENCE,
            ending: false,
        }
    }

    /// The descriptor and the events that the connection waits for. One that waits for a data thread waits for no event
    /// of its own: its descriptor is -1.
    pub(super) fn pollfd(&self) -> libc::pollfd {
        let end = if self.ending { 0 } else { libc::POLLIN };
        let events = match (self.is_waiting(), self.output.is_empty()) {
            (true, _) => 0,
            (false, true) => end,
            (false, false) if self.trace.is_some() => libc::POLLOUT | end,
            (false, false) => libc::POLLOUT,
        };
        let fd = if events == 0 { -1 } else { self.stream.as_raw_fd() };
        libc::pollfd { fd, events, revents: 0 }
    }

    /// When all places are taken, the connection with the smallest key is closed: idle clients first; last those with a
    /// change in flight, whose outcome would be lost.
    pub(super) fn eviction_order(&self) -> (bool, bool, Instant) {
        (self.changing.is_some(), self.is_busy(), self.deadline)
    }

    /// Returns true while an answer of the gateway is due.
    fn is_waiting(&self) -> bool {
        self.query.is_some() || self.changing.is_some()
    }

    /// Reads, answers and writes as far as it can without blocking. Returns true if the connection stays open.
    pub(super) fn poll(&mut self, links: &Links) -> io::Result<bool> {
        let now = Instant::now();
        for _ in 0..STEPS {
            if let Some(query) = &self.query {
                let late = now >= query.until;
                match query.remote.answer(query.ticket) {
                    // The ideal needs the partners' answers; the client does not wait longer for them.
                    Some(Ok(_)) if !late && !query.partners_have_answered() => return Ok(true),
                    Some(Ok(snapshot)) => self.report(Observation::new(snapshot)),
                    Some(Err(error)) => self.reply(&Reply::refusal(error.to_string())),
                    None if late => self.reply(&Reply::refusal(RemoteError::Timeout { waited: ANSWER }.to_string())),
                    None => return Ok(true),
                }
            }
            if let Some(changing) = &self.changing {
                match changing.try_recv() {
                    Ok(reply) => self.reply(&reply),
                    Err(TryRecvError::Empty) => return Ok(true),
                    Err(TryRecvError::Disconnected) => {
                        self.reply(&Reply::refusal("the change has failed; nothing has changed"))
                    }
                }
            }
            if self.trace.is_some() {
                return self.trace_on(now);
            }
            let waits = if self.output.is_empty() { !self.read(links)? } else { !self.write()? };
            if self.ending && self.output.is_empty() && !self.is_waiting() {
                return Ok(false);
            }
            if waits {
                return Ok(now < self.deadline);
            }
        }
        Ok(true)
    }

    /// Passes on the available part of a trace. Returns true if the connection stays open.
    fn trace_on(&mut self, now: Instant) -> io::Result<bool> {
        let Some(feed) = &mut self.trace else { return Ok(true) };
        if !self.ending {
            // Any input ends the trace.
            match self.stream.read(&mut [0; 64]) {
                Ok(_) => {
                    self.ending = true;
                    feed.ask_to_stop();
                }
                Err(error) if would_block(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // A bounded amount at a time, so that other connections have their turn.
        for _ in 0..STEPS {
            if self.output.is_empty() && !feed.read(&mut self.output, TRACE_BYTES) {
                self.deadline = now + TRACE_PATIENCE;
                break;
            }
            match self.stream.write(&self.output[self.written..]) {
                Ok(length) => self.written += length,
                Err(error) if would_block(&error) => return Ok(now < self.deadline),
                Err(error) => return Err(error),
            }
            self.deadline = now + TRACE_PATIENCE;
            if self.written == self.output.len() {
                self.output.clear();
                self.written = 0;
            }
        }
        Ok(!(feed.is_over() && self.output.is_empty()))
    }

    /// Ends the trace of this client. Returns true if it had one.
    pub(super) fn ends_trace(&mut self) -> bool {
        self.trace.as_ref().map(TraceReader::ask_to_stop).is_some()
    }

    /// Continues reading, and answers a complete request. Returns true if there was input.
    fn read(&mut self, links: &Links) -> io::Result<bool> {
        if let Some(end) = self.input[self.searched..].iter().position(|&byte| byte == b'\n') {
            let rest = self.input.split_off(self.searched + end + 1);
            let line = std::mem::replace(&mut self.input, rest);
            self.searched = 0;
            self.request(&line, links);
            return Ok(true);
        }
        self.searched = self.input.len();
        if self.input.len() >= LONGEST_LINE {
            self.ending = true;
            self.reply(&Reply::refusal(format!("a request is a line of at most {LONGEST_LINE} bytes")));
            return Ok(true);
        }
        let mut part = [0; PART];
        let most = part.len().min(LONGEST_LINE - self.input.len());
        match self.stream.read(&mut part[..most]) {
            Ok(0) => {
                self.ending = true;
                let line = std::mem::take(&mut self.input);
                self.searched = 0;
                if !line.is_empty() {
                    self.request(&line, links);
                }
                Ok(true)
            }
            Ok(length) => {
                if self.input.try_reserve(length).is_err() {
                    self.ending = true;
                    (self.input, self.searched) = (Vec::new(), 0);
                    self.reply(&Reply::refusal("there is no memory for a request of this length"));
                    return Ok(true);
                }
                self.input.extend(&part[..length]);
                Ok(true)
            }
            Err(error) if would_block(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Continues writing. Returns true if anything was written.
    fn write(&mut self) -> io::Result<bool> {
        match self.stream.write(&self.output[self.written..]) {
            Ok(length) => self.written += length,
            Err(error) if would_block(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        if self.written == self.output.len() {
            (self.output, self.written) = (Vec::new(), 0);
            self.deadline = Instant::now() + PATIENCE + self.between;
        }
        Ok(true)
    }

    fn request(&mut self, line: &[u8], links: &Links) {
        let request: Request = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(error) => {
                self.reply(&Reply::refusal(format!("not a request such as {{\"cmd\": \"stats\"}}: {error}")));
                return;
            }
        };
        if !COMMANDS.contains(&request.cmd.as_str()) {
            let (cmd, commands) = (request.cmd, COMMANDS.join(", "));
            self.reply(&Reply::refusal(format!("unknown command {cmd:?}; there are: {commands}")));
            return;
        }
        if request.cmd == "links" {
            let names = links.list().into_iter().map(|(name, _)| name).collect();
            self.reply(&Reply { ok: true, links: Some(names), ..Reply::default() });
            return;
        }
        if request.cmd == "reload" {
            let text = request.text.map(|text| (request.file.unwrap_or_else(|| "(control)".to_owned()), text));
            let Request { link, moves, dry_run, .. } = request;
            let asked = ReloadRequest { link, text, moves, dry_run };
            let links = links.clone();
            self.change(move || match links.reload(&asked) {
                Ok(reloaded) => Reply { ok: true, reloaded_links: Some(reloaded), ..Reply::default() },
                Err(error) => Reply::refusal(error),
            });
            return;
        }
        let remote = match links.find(request.link.as_deref()) {
            Ok(remote) => remote,
            Err(why) => {
                self.reply(&Reply::refusal(why));
                return;
            }
        };
        match request.cmd.as_str() {
            "trace" => match remote.trace(request.snap_bytes.unwrap_or(u32::MAX)) {
                Ok(feed) => {
                    let generation = remote.generation();
                    let trace = Some(Traced {
                        input: generation.input.clone(),
                        output: generation.output.clone(),
                        scheduler: generation.scheduler.name.to_owned(),
                        link_bps: generation.tree.link().rate.bps(),
                        classes: generation.names.clone(),
                    });
                    self.reply(&Reply { ok: true, trace, ..Reply::default() });
                    self.trace = Some(feed);
                    self.deadline = Instant::now() + TRACE_PATIENCE;
                }
                Err(error) => self.reply(&Reply::refusal(error.to_string())),
            },
            "stats" => {
                let until = Instant::now() + ANSWER;
                let between = request.interval_ms.map(Duration::from_millis);
                self.between = between.unwrap_or_default().min(LONGEST_SILENCE);
                let link = request.link.unwrap_or_default();
                let partners = if between.is_some() { partners(&remote, links) } else { Vec::new() };
                let ticket = remote.ask();
                self.query = Some(PendingQuery { link, remote, ticket, partners, until, interval: between.is_some() });
                self.deadline = until + PATIENCE;
            }
            _ => match request.wanted() {
                Some(Ok(wanted)) => self.change(move || match remote.change(&wanted, request.dry_run) {
                    Ok(reloaded) => Reply { ok: true, reloaded: Some(reloaded), ..Reply::default() },
                    Err(error) => Reply::refusal(error.to_string()),
                }),
                Some(Err(why)) => self.reply(&Reply::refusal(why)),
                None => self.reply(&Reply::refusal(format!("unknown command; there are: {}", COMMANDS.join(", ")))),
            },
        }
    }

    /// Runs `change` in a thread of its own: it reads files and may build large trees.
    fn change(&mut self, change: impl FnOnce() -> Reply + Send + 'static) {
        let (sender, receiver) = mpsc::channel();
        // The client may be gone.
        let change = move || drop(sender.send(change()));
        match std::thread::Builder::new().name("fairlink-reload".to_owned()).spawn(change) {
            Ok(_) => self.changing = Some(receiver),
            Err(error) => self.reply(&Reply::refusal(format!("no thread to change the gateway: {error}"))),
        }
    }

    /// Answers with the statistics of `observation`.
    fn report(&mut self, observation: Observation) {
        let Some(query) = self.query.take() else { return };
        if !query.interval {
            self.reply(&Reply { ok: true, stats: Some(observation.stats(None)), ..Reply::default() });
            return;
        }
        let partners = query
            .partners
            .iter()
            .filter_map(|(name, remote, ticket)| Some((name.clone(), Observation::new(remote.answer(*ticket)?.ok()?))));
        let now = Reported { observation, partners: partners.collect() };
        let mut interval = self.reported.get(&query.link).and_then(|before| now.since(before));
        if let Some(interval) = &mut interval {
            self.limits.entry(query.link.clone()).or_default().extend(interval, now.observation.generation());
        }
        let stats = Some(now.observation.stats(interval.as_ref()));
        if self.reported.len() >= MOST_LINKS && !self.reported.contains_key(&query.link) {
            self.reported.clear();
            self.limits.clear();
        }
        self.reported.insert(query.link, now);
        self.reply(&Reply { ok: true, stats, ..Reply::default() });
    }

    /// Returns true while a request is being answered, and for a client that asks for no intervals.
    fn is_busy(&self) -> bool {
        self.is_waiting() || self.trace.is_some() || !self.output.is_empty() || self.between.is_zero()
    }

    fn reply(&mut self, reply: &Reply) {
        (self.query, self.changing) = (None, None);
        self.output = serde_json::to_vec(reply).unwrap_or_default();
        self.output.push(b'\n');
        self.written = 0;
        self.deadline = Instant::now() + PATIENCE;
    }
}

impl PendingQuery {
    fn partners_have_answered(&self) -> bool {
        self.partners.iter().all(|(_, remote, ticket)| remote.answer(*ticket).is_some())
    }
}

impl Reported {
    /// Returns the interval since `before`.
    fn since(&self, before: &Self) -> Option<Interval> {
        let own = Some((&before.observation, &self.observation));
        let of_partners = self.partners.iter().map(|(name, partner)| Some((before.partners.get(name)?, partner)));
        let observed: Vec<_> = std::iter::once(own).chain(of_partners).collect();
        Interval::of_links(&observed).swap_remove(0)
    }
}

/// Requests statistics from the links that share pools with this one, directly or through others.
fn partners(remote: &Remote, links: &Links) -> Vec<(String, Remote, Ticket)> {
    let own = remote.generation();
    if own.pooled.is_empty() {
        return Vec::new();
    }
    let mut others: Vec<_> = links.list().into_iter().map(|(name, other)| (name, other.generation(), other)).collect();
    others.retain(|(_, generation, _)| !Arc::ptr_eq(generation, &own));
    let mut known = vec![own];
    let mut partners = Vec::new();
    let mut at = 0;
    while let Some(generation) = known.get(at).cloned() {
        at += 1;
        let (theirs, rest) = others.into_iter().partition(|(_, other, _)| generation.shares_with(other));
        others = rest;
        for (name, generation, remote) in theirs {
            known.push(generation);
            let ticket = remote.ask();
            partners.push((name, remote, ticket));
        }
    }
    partners
}

/// Returns true if there is merely nothing to read, or no room to write.
fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
