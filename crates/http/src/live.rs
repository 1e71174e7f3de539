//! Live data of each link: its classes, a moment every second for its clients, and the history.
//! Moments are fewer where one a second would take more than one percent of a processor.
//!
//! Columns, and not objects: 10,000 classes are sent every second, and keys of objects would be most of the bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use fairlink_net::{ClassMoment, LinkMoment, Links, Moment, Observer};
use fairlink_report::{Content, Document, LimitCause};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::history::{History, HistoryContent};
use crate::moments;

/// Time between two moments while somebody looks, if that takes no more than [`PART`] of a processor.
const PERIOD: Duration = Duration::from_secs(1);
/// Longest time between two moments while somebody looks.
const LONGEST_PERIOD: Duration = Duration::from_secs(5);
/// The part of a processor that measuring may take: one in this many.
const PART: u32 = 100;

/// The content of the document `live-tree`: the classes of a link, in columns. It stays the same while `generation` does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TreeContent {
    /// Name of the link.
    pub link: String,
    /// Number of changes committed since the gateway started.
    pub generation: u64,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Rate of the link in bit/s.
    pub capacity_bps: u64,
    /// Names of the classes, the link's first, parents before their children.
    pub classes: Vec<String>,
    /// Position of the class above each; `null` for the link.
    pub parent: Vec<Option<usize>>,
    /// True for classes with packets of their own.
    pub leaf: Vec<bool>,
    /// Guarantees in bit/s.
    pub guarantee_bps: Vec<Option<u64>>,
    /// Ceilings in bit/s.
    pub ceiling_bps: Vec<Option<u64>>,
    /// Worst-case delays in seconds; `null` where the scheduler guarantees none.
    pub delay_bound_s: Vec<Option<f64>>,
}

impl Content for TreeContent {
    const KIND: &'static str = "live-tree";
}

/// The content of the document `live-moment`: the last second of a link, in the columns of its `live-tree`. A value is
/// `null` where it was not measured or computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MomentContent {
    /// Name of the link.
    pub link: String,
    /// False if the data thread did not answer. The columns are empty then.
    pub up: bool,
    /// The `generation` of the classes.
    pub generation: u64,
    /// Time in seconds since 1970.
    pub at_s: f64,
    /// Time since the data thread started, in seconds.
    pub uptime_s: f64,
    /// Length of the interval that rates, ideals, demands, delays and limits are of, in seconds; 0 if there is none.
    pub interval_s: f64,
    /// Rates in bit/s.
    pub rate_bps: Vec<Option<u64>>,
    /// Ideals in bit/s.
    pub ideal_bps: Vec<Option<u64>>,
    /// Demands in bit/s.
    pub demand_bps: Vec<Option<u64>>,
    /// Delays that half of the sent packets did not exceed, in seconds.
    pub delay_p50_s: Vec<Option<f32>>,
    /// Delays that 99 % of the sent packets did not exceed, in seconds.
    pub delay_p99_s: Vec<Option<f32>>,
    /// Packets that wait.
    pub queued_packets: Vec<u64>,
    /// Packets that were dropped since the start.
    pub dropped_packets: Vec<u64>,
    /// The reason why the class got no more: `demand`, `ceiling`, `parent`, `link`, `pool` or `processor`.
    pub limit: Vec<Option<LimitCause>>,
    /// Position of the class whose limit it is.
    pub limited_by: Vec<Option<usize>>,
    /// Remarks, such as why there are no ideals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Content for MomentContent {
    const KIND: &'static str = "live-moment";
}

impl TreeContent {
    pub(crate) fn new(link: LinkMoment<'_>) -> Self {
        fn column<T>(link: LinkMoment<'_>, value: impl Fn(ClassMoment<'_>) -> T) -> Vec<T> {
            link.classes().map(value).collect()
        }
        Self {
            link: link.name().to_owned(),
            generation: link.generation().unwrap_or_default(),
            scheduler: link.scheduler().unwrap_or_default().to_owned(),
            capacity_bps: link.capacity_bps().unwrap_or_default(),
            classes: column(link, |class| class.name().to_owned()),
            parent: column(link, |class| class.parent()),
            leaf: column(link, |class| class.is_leaf()),
            guarantee_bps: column(link, |class| class.terms().guarantee_bps),
            ceiling_bps: column(link, |class| class.terms().ceiling_bps),
            delay_bound_s: column(link, |class| class.delay_bound_s()),
        }
    }
}

impl MomentContent {
    pub(crate) fn new(link: LinkMoment<'_>, at_s: f64) -> Self {
        let whole = |bps: f64| bps.round() as u64;
        let mut content = Self {
            link: link.name().to_owned(),
            up: link.generation().is_some(),
            generation: link.generation().unwrap_or_default(),
            at_s,
            uptime_s: link.uptime_s().unwrap_or_default(),
            interval_s: link.interval_s().unwrap_or_default(),
            notes: link.ideal_note().into_iter().collect(),
            ..Self::default()
        };
        for class in link.classes() {
            let rates = class.rates().unwrap_or_default();
            content.rate_bps.push(rates.rate_bps.map(whole));
            content.ideal_bps.push(rates.ideal_bps.map(whole));
            content.demand_bps.push(rates.demand_bps.map(whole));
            let delay = class.delay().unwrap_or_default();
            content.delay_p50_s.push(delay.p50.map(|s| s as f32));
            content.delay_p99_s.push(delay.p99.map(|s| s as f32));
            content.queued_packets.push(class.queued_packets());
            content.dropped_packets.push(class.dropped_packets());
            let (limit, by) = class.limit().unzip();
            content.limit.push(limit);
            content.limited_by.push(by.flatten());
        }
        content
    }
}

/// The events of a link as text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    /// `generation` of the tree.
    pub(crate) generation: Option<u64>,
    /// The event `tree`.
    pub(crate) tree: Bytes,
    /// The event `moment`, with the classes of `tree`; empty if nobody has asked for it lately.
    pub(crate) moment: Bytes,
}

#[derive(Debug, Default)]
struct LiveLink {
    history: History,
    published: watch::Sender<Published>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Live {
    links: Mutex<BTreeMap<String, LiveLink>>,
    /// The last moment, and when it was made.
    last: Mutex<Option<(Instant, Moment)>>,
    /// Somebody has begun to look.
    looks: Notify,
}

impl Live {
    /// Measures `links` for ever.
    pub(crate) async fn run(&self, links: Links) {
        let mut observer = Observer::new(links);
        loop {
            let begun = Instant::now();
            let (moment, evaluated) = moments::next(&mut observer).await;
            let taking = Instant::now();
            let step = self.take(&moment);
            let period = period(evaluated + taking.elapsed());
            let rest = |period: Duration| period.saturating_sub(begun.elapsed());
            tokio::select! {
                () = tokio::time::sleep(rest(step.unwrap_or(period))) => {}
                // An interval has a second at least.
                () = self.looks.notified() => tokio::time::sleep(rest(period)).await,
            }
        }
    }

    /// Records a moment. Without clients, returns the time until the next point of a history is due.
    fn take(&self, moment: &Moment) -> Option<Duration> {
        let at_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), moment.clone()));
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|name, _| moment.link(name).is_some());
        let (mut seen, mut step) = (false, None);
        for link in moment.links() {
            let live = links.entry(link.name().to_owned()).or_default();
            if live.published.borrow().generation != link.generation() && link.generation().is_some() {
                live.history.set_classes(link.classes().map(|class| class.name()));
                let tree = event("tree", &Document::new(TreeContent::new(link)));
                live.published.send_modify(|published| {
                    (published.tree, published.generation) = (tree, link.generation());
                });
            }
            if let Some(seconds) = link.interval_s() {
                let values = link.classes().map(|class| {
                    let rates = class.rates().unwrap_or_default();
                    [rates.rate_bps, rates.ideal_bps]
                });
                live.history.add(at_s, seconds, values);
            }
            // A client that comes later gets no moment from long ago, nor one of other classes.
            let followed = live.published.receiver_count() > 0;
            let text = followed.then(|| event("moment", &Document::new(MomentContent::new(link, at_s))));
            live.published.send_modify(|published| published.moment = text.unwrap_or_default());
            seen |= followed;
            let of_link = Duration::from_secs_f64(live.history.step_s());
            step = Some(step.map_or(of_link, |step: Duration| step.min(of_link)));
        }
        step.filter(|_| !seen)
    }

    /// Returns what is published of the link called `name`, from now on.
    pub(crate) fn look(&self, name: &str) -> watch::Receiver<Published> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = links.entry(name.to_owned()).or_default().published.subscribe();
        self.looks.notify_one();
        receiver
    }

    /// Returns the last moment, if it is at most 2 s old: others are made for a client already.
    pub(crate) fn last(&self) -> Option<Moment> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(at, _)| at.elapsed() <= 2 * PERIOD).map(|(_, moment)| moment.clone())
    }

    /// Returns the history of the link called `name`, with the classes that `takes` selects.
    pub(crate) fn history(&self, name: &str, takes: impl Fn(&str) -> bool) -> Option<HistoryContent> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        Some(links.get(name)?.history.content(name, takes))
    }
}

/// Returns the time between two moments that take `busy` each.
fn period(busy: Duration) -> Duration {
    (busy * PART).clamp(PERIOD, LONGEST_PERIOD)
}

/// The text of an event.
fn event(name: &str, document: &impl Serialize) -> Bytes {
    // A document of strings and numbers can be written.
    let document = serde_json::to_string(document).unwrap_or_default();
    format!("event: {name}\ndata: {document}\n\n").into()
}

/// The texts that one client gets: the tree first and whenever it has changed, and each moment.
pub(crate) fn events(
    receiver: watch::Receiver<Published>,
) -> impl futures_util::Stream<Item = Result<Bytes, std::convert::Infallible>> {
    struct Client {
        receiver: watch::Receiver<Published>,
        told: Option<u64>,
        next: Option<Bytes>,
    }
    let mut client = Client { receiver, told: None, next: None };
    // What is there is told at once.
    client.receiver.mark_changed();
    futures_util::stream::unfold(client, |mut client| async move {
        loop {
            if let Some(moment) = client.next.take().filter(|moment| !moment.is_empty()) {
                return Some((Ok(moment), client));
            }
            // The link is gone when its sender is.
            client.receiver.changed().await.ok()?;
            let published = client.receiver.borrow_and_update().clone();
            if published.generation.is_none() && published.moment.is_empty() {
                continue;
            }
            client.next = Some(published.moment);
            if published.generation != client.told {
                client.told = published.generation;
                return Some((Ok(published.tree), client));
            }
        }
    })
}

/// Measures the links of a page from a task of the runtime.
pub(crate) fn start(links: Links) -> Arc<Live> {
    let live = Arc::new(Live::default());
    let task = Arc::clone(&live);
    tokio::spawn(async move { task.run(links).await });
    live
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_takes_at_most_one_percent_of_a_processor_and_is_never_silent_for_long() {
        let ms = Duration::from_millis;
        assert_eq!([1, 10, 26, 80].map(|busy| period(ms(busy))), [ms(1000), ms(1000), ms(2600), ms(5000)]);
    }
}
