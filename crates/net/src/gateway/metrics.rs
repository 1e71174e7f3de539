//! Measurements of all links for servers: what the metrics and the live page show.
//!
//! An [`Observer`] requests snapshots from the data threads as the control socket does ([`crate::gateway::account`]).
//! These never wait, and copy a few classes between two turns, whatever the number of clients. The result is a
//! [`Moment`]: counters since the start, and rates and ideals of the interval since an earlier one.
//!
//! **Intervals** begin at the last but one moment that is at least [`SHORTEST`] old. So an interval has at least that
//! length, whatever the number of requests.

mod class_filter;
mod page;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlink_core::ClassId;
use fairlink_report::{Delay, LimitCause, Terms};

use crate::gateway::account::{DelayTally, Interval, LimitHistory, Observation};
use crate::gateway::links::Links;
use crate::gateway::remote::{Remote, Ticket};
use crate::gateway::stats::GatewayStats;

pub use class_filter::ClassFilter;
use page::{LinkPage, Page};

/// Minimum length of an interval.
const SHORTEST: Duration = Duration::from_secs(1);
/// Time for the data threads to deliver snapshots.
const ANSWER: Duration = Duration::from_secs(2);

/// A pending request to all links.
#[derive(Debug)]
struct Gathering {
    links: Vec<(String, Remote, Ticket)>,
    until: Instant,
}

/// Earlier observations of a link.
#[derive(Debug)]
struct Before {
    /// Older and newer: the newer is at least [`SHORTEST`] younger.
    older: Option<Arc<Observation>>,
    newer: Arc<Observation>,
    /// Time of the newer one.
    at: Instant,
    /// The limits of classes in the intervals so far.
    limits: LimitHistory,
}

/// Measures all links again and again. Each server has its own, because the intervals depend on its requests.
#[derive(Debug)]
pub struct Observer {
    links: Links,
    gathering: Option<Gathering>,
    /// By name.
    before: BTreeMap<String, Before>,
}

impl Observer {
    /// Makes an observer of `links`, and requests the first moment, which has no intervals.
    #[must_use]
    pub fn new(links: Links) -> Self {
        let mut observer = Self { links, gathering: None, before: BTreeMap::new() };
        observer.ask();
        observer
    }

    /// Requests a moment, unless one is requested.
    pub fn ask(&mut self) {
        let ask = |(name, remote): (String, Remote)| {
            let ticket = remote.ask();
            (name, remote, ticket)
        };
        if self.gathering.is_none() {
            let links = self.links.list().into_iter().map(ask).collect();
            self.gathering = Some(Gathering { links, until: Instant::now() + ANSWER });
        }
    }

    /// Returns true while a requested moment is not complete.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.gathering.is_some()
    }

    /// Returns the requested moment when all links have delivered, or 2 s are over. Does not wait.
    pub fn poll(&mut self) -> Option<Moment> {
        let now = Instant::now();
        let gathering = self.gathering.as_ref()?;
        let answers: Vec<_> = gathering.links.iter().map(|(_, remote, ticket)| remote.answer(*ticket)).collect();
        if answers.iter().any(Option::is_none) && now < gathering.until {
            return None;
        }
        let seen: Vec<Seen> = self
            .gathering
            .take()?
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
        Some(Moment(Page::new(self.pages(seen), self.links.reloads())))
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

/// All links at one time, and in the interval before it.
#[derive(Clone, Debug)]
pub struct Moment(Page);

impl Moment {
    /// Formats OpenMetrics text, with the classes that `filter` selects.
    #[must_use]
    pub fn open_metrics(&self, filter: &ClassFilter) -> String {
        self.0.text(filter)
    }

    /// Returns the links, in their order.
    pub fn links(&self) -> impl Iterator<Item = LinkMoment<'_>> {
        self.0.links().iter().map(LinkMoment)
    }

    /// Returns the link called `name`.
    #[must_use]
    pub fn link(&self, name: &str) -> Option<LinkMoment<'_>> {
        self.links().find(|link| link.name() == name)
    }
}

/// One link of a [`Moment`].
#[derive(Clone, Copy, Debug)]
pub struct LinkMoment<'a>(&'a LinkPage);

impl<'a> LinkMoment<'a> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.0.name
    }

    /// Its statistics, with the classes that `filter` selects; `None` if its data thread did not answer in time, or
    /// never ran.
    #[must_use]
    pub fn stats(&self, filter: &ClassFilter) -> Option<GatewayStats> {
        let observation = self.0.observation.as_deref()?;
        let generation = observation.generation();
        let takes = |class| filter.takes(&generation.tree, class, &generation.names[class.index()]);
        Some(observation.stats_of(self.0.interval.as_ref(), takes))
    }

    /// Number of changes committed since the gateway started. The classes are the same while it is. `None` as for
    /// [`LinkMoment::stats`].
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        Some(self.0.observation.as_deref()?.generation().number)
    }

    /// Name of the scheduler.
    #[must_use]
    pub fn scheduler(&self) -> Option<&'static str> {
        Some(self.0.observation.as_deref()?.generation().scheduler.name)
    }

    /// Rate of the link in bit/s.
    #[must_use]
    pub fn capacity_bps(&self) -> Option<u64> {
        Some(self.0.observation.as_deref()?.generation().tree.link().rate.bps())
    }

    /// Time since the data thread started, in seconds.
    #[must_use]
    pub fn uptime_s(&self) -> Option<f64> {
        Some(self.0.observation.as_deref()?.snapshot.gateway.uptime.0 as f64 / 1e9)
    }

    /// Length of the interval in seconds; `None` if there is none.
    #[must_use]
    pub fn interval_s(&self) -> Option<f64> {
        Some(self.0.interval.as_ref()?.seconds)
    }

    /// Reason why there are no ideals; `None` if there are, or no interval.
    #[must_use]
    pub fn ideal_note(&self) -> Option<String> {
        self.0.interval.as_ref()?.note()
    }

    /// The link itself, then its classes, parents before their children.
    pub fn classes(&self) -> impl Iterator<Item = ClassMoment<'a>> + use<'a> {
        let Self(link) = *self;
        let seen = link.observation.as_deref();
        seen.into_iter().flat_map(move |observation| {
            let count = observation.generation().tree.len() as u32;
            (0..count).map(move |class| ClassMoment { link, observation, class: ClassId(class) })
        })
    }
}

/// One class of a [`LinkMoment`], or the link itself.
#[derive(Clone, Copy, Debug)]
pub struct ClassMoment<'a> {
    link: &'a LinkPage,
    observation: &'a Observation,
    class: ClassId,
}

impl<'a> ClassMoment<'a> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.observation.generation().names[self.class.index()]
    }

    /// Position of the class above it among [`LinkMoment::classes`]; `None` for the link.
    #[must_use]
    pub fn parent(&self) -> Option<usize> {
        self.observation.generation().tree.parent(self.class).map(ClassId::index)
    }

    /// True for a class with packets of its own.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        self.observation.generation().tree.is_leaf(self.class)
    }

    /// Its configured terms; of the link, only those that a class can have.
    #[must_use]
    pub fn terms(&self) -> Terms {
        Terms::new(&self.observation.generation().tree, self.class)
    }

    /// Worst-case delay in seconds, if the scheduler guarantees one.
    #[must_use]
    pub fn delay_bound_s(&self) -> Option<f64> {
        self.observation.generation().delay_bound_s(self.class)
    }

    /// Packets that wait.
    #[must_use]
    pub fn queued_packets(&self) -> u64 {
        self.totals().counts.queued.packets
    }

    /// Packets that were dropped since the start, for any cause.
    #[must_use]
    pub fn dropped_packets(&self) -> u64 {
        self.totals().counts.dropped.packets
    }

    /// Rate, demand and ideal of the interval in bit/s; `None` without an interval, or without an ideal.
    #[must_use]
    pub fn rates(&self) -> Option<fairlink_report::Rates> {
        Some(self.interval()?.rates())
    }

    /// Delays of packets that were sent in the interval; `None` if they are not measured.
    #[must_use]
    pub fn delay(&self) -> Option<Delay> {
        self.interval()?.delays.as_ref().map(DelayTally::delay)
    }

    /// The reason why it got no more in the interval, and the position among [`LinkMoment::classes`] of the class whose
    /// limit that is.
    #[must_use]
    pub fn limit(&self) -> Option<(LimitCause, Option<usize>)> {
        let limited = self.interval()?.limited?;
        Some((limited.cause, limited.by.map(ClassId::index)))
    }

    fn totals(&self) -> &'a crate::gateway::account::Totals {
        &self.observation.totals[self.class.index()]
    }

    fn interval(&self) -> Option<&'a crate::gateway::account::ClassInterval> {
        self.link.interval.as_ref()?.class(self.class)
    }
}

#[cfg(test)]
mod grammar;
#[cfg(test)]
mod tests;
