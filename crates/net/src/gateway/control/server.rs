//! The serving side: one thread, many connections, none of which it ever waits for.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::{ANSWER, PATIENCE, Reply, Request, TRACE_PATIENCE, Traced};
use crate::gateway::account::{Interval, LimitHistory, Observation};
use crate::gateway::links::Links;
use crate::gateway::refused::Refused;
use crate::gateway::reload::ReloadRequest;
use crate::gateway::remote::{Remote, Ticket};
use crate::gateway::remote_error::RemoteError;
use crate::gateway::trace::Feed;
use crate::io::sys;

/// Longest request in bytes: a link file of some 100,000 classes.
pub(super) const LONGEST_LINE: usize = 16 << 20;
/// Bytes that are read at once.
const PART: usize = 64 * 1024;
/// Most connections at once.
const MAX_CLIENTS: usize = 32;
/// Longest wait, in ms, until the server looks whether it is to end.
const NAP_MS: i32 = 20;
/// The same while an answer of the data thread is due, or packets are traced.
const SHORT_NAP_MS: i32 = 1;
/// What can be asked for.
const COMMANDS: [&str; 6] = ["links", "stats", "trace", "reload", "rate", "scheduler"];
/// The longest time without a request that a client may ask for.
const LONGEST_SILENCE: Duration = Duration::from_secs(3600);
/// Links of which a client hears intervals at once.
const MOST_LINKS: usize = 64;
/// Steps that one connection may take before the next has its turn.
const STEPS: u32 = 8;

/// Most bytes of a trace that wait for a client beside the ring.
const TRACE_BYTES: usize = 256 * 1024;
/// How long the end of a trace has to be taken by its client when the server ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves until `stop` is set, and hands over what is left of a trace then.
pub(super) fn serve(listener: &UnixListener, links: &Links, stop: &AtomicBool) {
    let mut clients: Vec<Client> = Vec::with_capacity(MAX_CLIENTS);
    let (mut until, mut refused) = (None, Refused::new("the control socket"));
    loop {
        if until.is_none() && stop.load(Ordering::Relaxed) {
            clients.retain_mut(Client::ends_trace);
            until = Some(Instant::now() + LAST_WORDS);
        }
        if until.is_some_and(|until| clients.is_empty() || Instant::now() >= until) {
            return;
        }
        let mut polls: Vec<libc::pollfd> = clients.iter().map(Client::waits_for).collect();
        polls.push(libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        let asked = clients.iter().any(|client| client.is_waiting() || client.trace.is_some());
        // An error would be a signal; then it looks again.
        let _ = sys::poll(&mut polls, if asked { SHORT_NAP_MS } else { NAP_MS });
        for _ in 0..if until.is_none() { MAX_CLIENTS } else { 0 } {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    refused.failed(&error, links);
                    break;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if clients.len() == MAX_CLIENTS
                && let Some(first) = (0..clients.len()).min_by_key(|&at| clients[at].worth())
            {
                clients.swap_remove(first);
            }
            clients.push(Client::new(stream));
        }
        // Whatever goes wrong with one client ends that client's connection alone.
        clients.retain_mut(|client| client.go_on(links).unwrap_or(false));
    }
}

/// A question to a data thread.
struct Asked {
    link: String,
    remote: Remote,
    ticket: Ticket,
    /// The same question to links that share pools with it, by name: their demand is part of its ideal.
    partners: Vec<(String, Remote, Ticket)>,
    /// When there will be no answer any more.
    until: Instant,
    /// Whether what happened since the answer before is to be told.
    interval: bool,
}

/// What a client was told of a link.
struct Told {
    observation: Observation,
    /// What links that share pools with it were then, by name.
    partners: BTreeMap<String, Observation>,
}

/// One connection.
struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    /// Of the input, so many bytes have no end of a line.
    searched: usize,
    output: Vec<u8>,
    written: usize,
    /// A question to a data thread.
    asked: Option<Asked>,
    /// The answer of a thread that changes the gateway, once there is one.
    changing: Option<Receiver<Reply>>,
    /// How long it may be silent before its next request.
    between: Duration,
    /// By link, what was last told of it to a client that wants to hear of intervals.
    told: BTreeMap<String, Told>,
    /// By link, what limited its classes in those intervals.
    limits: BTreeMap<String, LimitHistory>,
    /// What passes the gateway, for a client that traces.
    trace: Option<Feed>,
    /// When the connection is closed, if the client has not done its part by then.
    deadline: Instant,
    /// Nothing more will be read.
    ending: bool,
}

impl Client {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            input: Vec::new(),
            searched: 0,
            output: Vec::new(),
            written: 0,
            asked: None,
            between: Duration::ZERO,
            told: BTreeMap::new(),
            limits: BTreeMap::new(),
            changing: None,
            trace: None,
            deadline: Instant::now() + PATIENCE,
            ending: false,
        }
    }

    /// What it waits for. A client that waits for the data thread waits for nothing of its own.
    fn waits_for(&self) -> libc::pollfd {
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

    /// Whether it waits for the gateway.
    fn is_waiting(&self) -> bool {
        self.asked.is_some() || self.changing.is_some()
    }

    /// Does what can be done without waiting. Returns whether the connection stays.
    fn go_on(&mut self, links: &Links) -> io::Result<bool> {
        let now = Instant::now();
        for _ in 0..STEPS {
            if let Some(asked) = &self.asked {
                let late = now >= asked.until;
                match asked.remote.answer(asked.ticket) {
                    // The ideal waits for nobody.
                    Some(Ok(_)) if !late && !asked.partners_have_answered() => return Ok(true),
                    Some(Ok(snapshot)) => self.tell(Observation::new(snapshot)),
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

    /// Passes on what there is of a trace. Returns whether the connection stays.
    fn trace_on(&mut self, now: Instant) -> io::Result<bool> {
        let Some(feed) = &mut self.trace else { return Ok(true) };
        if !self.ending {
            // Whatever comes asks for the end.
            match self.stream.read(&mut [0; 64]) {
                Ok(_) => {
                    self.ending = true;
                    feed.ask_to_stop();
                }
                Err(error) if is_nothing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // So much at a time that others have their turn.
        for _ in 0..STEPS {
            if self.output.is_empty() && !feed.read(&mut self.output, TRACE_BYTES) {
                self.deadline = now + TRACE_PATIENCE;
                break;
            }
            match self.stream.write(&self.output[self.written..]) {
                Ok(length) => self.written += length,
                Err(error) if is_nothing(&error) => return Ok(now < self.deadline),
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

    /// Asks for no more packets of a trace. Returns whether this client traces.
    fn ends_trace(&mut self) -> bool {
        self.trace.as_ref().map(Feed::ask_to_stop).is_some()
    }

    /// Reads on, and answers a request that is whole. Returns whether anything came.
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
            Err(error) if is_nothing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes on. Returns whether anything went.
    fn write(&mut self) -> io::Result<bool> {
        match self.stream.write(&self.output[self.written..]) {
            Ok(length) => self.written += length,
            Err(error) if is_nothing(&error) => return Ok(false),
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
        if request.cmd == "reload" && request.link.is_none() {
            let text = request.text.map(|text| (request.file.unwrap_or_else(|| "(control)".to_owned()), text));
            let asked = ReloadRequest { text, moves: request.moves, dry_run: request.dry_run };
            let links = links.clone();
            self.change(move || match links.reload(&asked) {
                Ok(reloaded) => Reply::of_links(reloaded),
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
                    let passage = remote.passage();
                    let trace = Some(Traced {
                        input: passage.input.clone(),
                        output: passage.output.clone(),
                        scheduler: passage.scheduler.name.to_owned(),
                        link_bps: passage.tree.link().rate.bps(),
                        classes: passage.names.clone(),
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
                self.asked = Some(Asked { link, remote, ticket, partners, until, interval: between.is_some() });
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

    /// Has a thread change the gateway: it reads files, and builds what may be large.
    fn change(&mut self, change: impl FnOnce() -> Reply + Send + 'static) {
        let (tell, told) = mpsc::channel();
        // Whoever asked may be gone.
        let change = move || drop(tell.send(change()));
        match std::thread::Builder::new().name("fairlink-reload".to_owned()).spawn(change) {
            Ok(_) => self.changing = Some(told),
            Err(error) => self.reply(&Reply::refusal(format!("no thread to change the gateway: {error}"))),
        }
    }

    /// Answers with statistics.
    fn tell(&mut self, observation: Observation) {
        let Some(asked) = self.asked.take() else { return };
        if !asked.interval {
            self.reply(&Reply { ok: true, stats: Some(observation.stats(None)), ..Reply::default() });
            return;
        }
        let partners = asked
            .partners
            .iter()
            .filter_map(|(name, remote, ticket)| Some((name.clone(), Observation::new(remote.answer(*ticket)?.ok()?))));
        let now = Told { observation, partners: partners.collect() };
        let mut interval = self.told.get(&asked.link).and_then(|before| now.since(before));
        if let Some(interval) = &mut interval {
            self.limits.entry(asked.link.clone()).or_default().extend(interval, now.observation.passage());
        }
        let stats = Some(now.observation.stats(interval.as_ref()));
        if self.told.len() >= MOST_LINKS && !self.told.contains_key(&asked.link) {
            self.told.clear();
            self.limits.clear();
        }
        self.told.insert(asked.link, now);
        self.reply(&Reply { ok: true, stats, ..Reply::default() });
    }

    /// Whoever has least of it makes room for another: first who is silent between two questions, last whose change is under way, who could not
    /// tell whether it was made.
    fn worth(&self) -> (bool, bool, Instant) {
        (self.changing.is_some(), self.is_busy(), self.deadline)
    }

    /// Whether it has asked or is being told something.
    fn is_busy(&self) -> bool {
        self.is_waiting() || self.trace.is_some() || !self.output.is_empty() || self.between.is_zero()
    }

    fn reply(&mut self, reply: &Reply) {
        (self.asked, self.changing) = (None, None);
        self.output = serde_json::to_vec(reply).unwrap_or_default();
        self.output.push(b'\n');
        self.written = 0;
        self.deadline = Instant::now() + PATIENCE;
    }
}

impl Asked {
    fn partners_have_answered(&self) -> bool {
        self.partners.iter().all(|(_, remote, ticket)| remote.answer(*ticket).is_some())
    }
}

impl Told {
    /// What has happened on the link since `before`.
    fn since(&self, before: &Self) -> Option<Interval> {
        let own = Some((&before.observation, &self.observation));
        let of_partners = self.partners.iter().map(|(name, partner)| Some((before.partners.get(name)?, partner)));
        let observed: Vec<_> = std::iter::once(own).chain(of_partners).collect();
        Interval::of_links(&observed).swap_remove(0)
    }
}

/// Asks the links that share pools with this one, or with one of those.
fn partners(remote: &Remote, links: &Links) -> Vec<(String, Remote, Ticket)> {
    let own = remote.passage();
    if own.pooled.is_empty() {
        return Vec::new();
    }
    let mut others: Vec<_> = links.list().into_iter().map(|(name, other)| (name, other.passage(), other)).collect();
    others.retain(|(_, passage, _)| !Arc::ptr_eq(passage, &own));
    let mut known = vec![own];
    let mut partners = Vec::new();
    let mut at = 0;
    while let Some(passage) = known.get(at).cloned() {
        at += 1;
        let (theirs, rest) = others.into_iter().partition(|(_, other, _)| passage.shares_with(other));
        others = rest;
        for (name, passage, remote) in theirs {
            known.push(passage);
            let ticket = remote.ask();
            partners.push((name, remote, ticket));
        }
    }
    partners
}

/// Whether there is only nothing to read, or no room to write.
fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
