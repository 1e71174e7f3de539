//! Counters and records of the kernel, evaluated: names, rates, and the fluid ideal.
//!
//! The ideal is the hierarchical max-min fair allocation for the demand of the leaves, computed as for a gateway
//! (`gateway/account/interval.rs`). The demand is the backlog at the beginning plus the arrivals since, of packets that
//! the link can send at all. The kernel's own rates and demands are averages over intervals of one second each.

use std::collections::HashMap;
use std::time::Instant;

use fairlink_core::{Amount, ClassId, Hierarchy, registry};
use fairlink_report::{ClassReport, Content, Counts, LinkReport, Rates, Terms};
use fairlink_schema::qdisc::{Config, assemble};
use fairlink_theory::ideal::{Rule, Traffic};
use fairlink_theory::request::{Demand, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::messages::{Class, Discipline, Sampled};

/// State of a class in the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct QdiscClass {
    /// Its minor number.
    pub minor: u16,
    /// Number of the parent, 0 for the link.
    pub parent: u16,
    /// Name in the link file; empty if the kernel does not report it.
    pub name: String,
    /// True if it is a leaf.
    pub leaf: bool,
    /// Guarantee in bit/s: from the file, else its share while all classes are backlogged.
    pub guarantee_bps: u64,
    /// Packets and bytes, without causes of drops. An inner class has the sums of its leaves.
    pub counts: Counts,
    /// Bytes sent beyond the guarantee, summed over the kernel's intervals of about one second.
    pub borrowed_bytes: u64,
    /// Bytes borrowed from above (a leaf) or lent to those below, if the scheduler counts them.
    pub lent_bytes: Option<u64>,
    /// The kernel's averages, or those of an interval; none in the first second or two.
    pub rates: Option<Rates>,
    /// Bytes dropped because the packet was too long for the link.
    too_long_bytes: u64,
}

/// The report of a link that the kernel module shares.
pub type QdiscReport = LinkReport<Vec<ClassReport>, QdiscExtension>;

/// The additional key of such a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QdiscExtension {
    /// The queueing discipline as a whole.
    pub qdisc: QdiscTotals,
}

/// Counters of the whole queueing discipline, as `tc -s qdisc` shows them. They continue after a panic of the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QdiscTotals {
    /// Its handle, such as `1:`.
    pub handle: String,
    /// The reason why packets pass through a FIFO; `null` if the module works.
    pub broken: Option<String>,
    /// Interval of the rates in seconds. Absent if they are the kernel's averages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<f64>,
    /// Sent.
    pub sent: Amount,
    /// Dropped.
    pub dropped_packets: u64,
    /// Queued.
    pub queued: Amount,
    /// Super-frames longer than the link's longest packet, queued as their constituent packets.
    pub super_frames: u64,
}

/// The content of the document `qdisc`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QdiscContent {
    /// The links.
    pub links: Vec<QdiscReport>,
}

impl Content for QdiscContent {
    const KIND: &'static str = "qdisc";
}

/// State of a queueing discipline in the kernel.
#[derive(Clone, Debug)]
pub struct QdiscState {
    /// Its major number.
    pub major: u16,
    /// The scheduler; unknown after a panic.
    pub scheduler: Option<&'static str>,
    /// Panic message, if the scheduler failed and packets pass through a FIFO.
    pub broken: Option<String>,
    /// The link's rate in bit/s; unknown after a panic.
    pub rate_bps: Option<u64>,
    /// Packets and bytes sent.
    pub sent: Amount,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets and bytes queued.
    pub queued: Amount,
    /// Super-frames longer than the link's longest packet, queued as their constituent packets.
    pub super_frames: u64,
    /// All classes together.
    pub rates: Option<Rates>,
    /// The classes, parents before children.
    pub classes: Vec<QdiscClass>,
    /// The link's tree, with the same classes, if all was read from one configuration.
    tree: Option<Hierarchy>,
    at: Instant,
}

impl QdiscState {
    /// Evaluates answers of the kernel, read at `at`. Returns `None` if the classes changed between the reads.
    pub(crate) fn read(link: Discipline, mut classes: Vec<Class>, at: Instant) -> Option<Self> {
        classes.sort_by_key(|class| class.index);
        let one = classes.iter().all(|class| class.generation == link.generation);
        let dense = classes.iter().zip(1..).all(|(class, index)| class.index == index);
        if link.broken.is_none() && !(one && dense && !classes.is_empty()) {
            return None;
        }
        // Validate records from the kernel as any other configuration.
        let records = classes.iter().map(|class| class.record.as_slice());
        let config = assemble(&link.record, records).ok().and_then(|bytes| Config::read(&bytes).ok());
        let name = |index: usize| {
            let name = config.as_ref().map(|config| config.labels.name(ClassId(index as u32 + 1)));
            String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
        };
        let mut state = Self {
            major: link.major,
            scheduler: config.as_ref().map(|config| config.scheduler.name),
            rate_bps: config.as_ref().map(|config| config.tree.link().rate.bps()),
            broken: link.broken,
            sent: link.sent,
            dropped: link.dropped,
            queued: link.queued,
            super_frames: link.super_frames,
            rates: averages(&link.sampled),
            classes: classes
                .iter()
                .enumerate()
                .map(|(index, class)| QdiscClass::from_class(class, name(index)))
                .collect(),
            tree: config.map(|config| config.tree),
            at,
        };
        state.find_ideals();
        Some(state)
    }

    /// Replaces the kernel's averages by rates since `earlier`. Returns the interval in seconds. Classes that are new
    /// or were reset have no rates.
    pub fn measure_since(&mut self, earlier: &Self) -> f64 {
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        let before: HashMap<_, _> =
            earlier.classes.iter().map(|class| ((class.minor, class.name.as_str(), class.leaf), class)).collect();
        for class in &mut self.classes {
            let earlier = before.get(&(class.minor, class.name.as_str(), class.leaf));
            class.rates = earlier.and_then(|earlier| class.since(earlier, seconds));
        }
        // Removed classes count as well.
        let top = self.classes.iter().filter(|class| class.parent == 0);
        let demand_bps = top.filter_map(|class| class.rates?.demand_bps).sum();
        let sent = self.sent.bytes.checked_sub(earlier.sent.bytes).filter(|_| seconds > 0.0);
        self.rates = sent.map(|sent| rates(sent as f64 * 8.0 / seconds, demand_bps));
        self.find_ideals();
        seconds
    }

    /// Returns the report of the link at `interface`. `interval_s` is the time in seconds that
    /// [`QdiscState::measure_since`] returned; without it the rates are the kernel's averages.
    #[must_use]
    pub fn report(&self, interface: &str, interval_s: Option<f64>) -> QdiscReport {
        let number = |minor: u16| format!("{:x}:{minor:x}", self.major);
        let names: HashMap<u16, &str> = self.classes.iter().map(|class| (class.minor, class.name.as_str())).collect();
        let class = |(index, class): (usize, &QdiscClass)| {
            let counters = [("borrowed_bytes", Some(class.borrowed_bytes)), ("lent_bytes", class.lent_bytes)];
            ClassReport {
                name: class.name.clone(),
                parent: names.get(&class.parent).map(|&name| name.to_owned()),
                leaf: class.leaf,
                classid: Some(number(class.minor)),
                terms: self.tree.as_ref().map(|tree| Terms::new(tree, ClassId(index as u32 + 1))),
                counts: Some(class.counts),
                rates: class.rates.unwrap_or_default(),
                counters: counters.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
                ..ClassReport::default()
            }
        };
        let mut counts: Option<Counts> = None;
        for class in self.classes.iter().filter(|class| class.parent == 0) {
            match &mut counts {
                Some(sum) => *sum += &class.counts,
                none => *none = Some(class.counts),
            }
        }
        LinkReport {
            name: Some(interface.to_owned()),
            scheduler: self.scheduler.map(str::to_owned),
            capacity_bps: self.rate_bps,
            counts,
            rates: self.rates.unwrap_or_default(),
            classes: self.classes.iter().enumerate().map(class).collect(),
            extension: QdiscExtension {
                qdisc: QdiscTotals {
                    handle: format!("{:x}:", self.major),
                    broken: self.broken.clone(),
                    interval_s,
                    sent: self.sent,
                    dropped_packets: self.dropped,
                    queued: self.queued,
                    super_frames: self.super_frames,
                },
            },
            ..LinkReport::default()
        }
    }

    /// Computes the ideals for the demand of the leaves.
    fn find_ideals(&mut self) {
        let Some(tree) = &self.tree else { return };
        let asked = tree.leaves().iter().filter_map(|&leaf| {
            let rates = self.classes.get(leaf.index() - 1)?.rates?;
            Some((leaf, Request::Rate(rates.demand_bps? as u64)))
        });
        let Ok(demand) = Demand::new(tree, asked) else { return };
        let Some(info) = self.scheduler.and_then(registry::find) else { return };
        // The kernel counts bytes. Values that depend on packet lengths are not computed.
        let traffic = Traffic::new(Vec::new(), false);
        let Ok(ideals) = Rule::for_scheduler(info, tree, traffic).and_then(|rule| rule.rates(&demand)) else { return };
        let Some((&link, classes)) = ideals.split_first() else { return };
        for (class, &ideal) in self.classes.iter_mut().zip(classes) {
            if let Some(rates) = &mut class.rates {
                rates.ideal_bps = Some(ideal);
            }
        }
        if let Some(rates) = &mut self.rates {
            rates.ideal_bps = Some(link);
        }
    }
}

/// Rates without an ideal, in bit/s.
fn rates(rate_bps: f64, demand_bps: f64) -> Rates {
    Rates { rate_bps: Some(rate_bps), demand_bps: Some(demand_bps), ..Rates::default() }
}

/// The kernel's averages, from the second sample on.
fn averages(sampled: &Sampled) -> Option<Rates> {
    let bps = |bytes: u64| bytes as f64 * 8.0;
    (sampled.samples >= 2).then(|| rates(bps(sampled.bytes), bps(sampled.demand)))
}

impl QdiscClass {
    fn from_class(class: &Class, name: String) -> Self {
        Self {
            minor: class.minor,
            parent: class.parent,
            name,
            leaf: class.leaf,
            guarantee_bps: class.guarantee_bps,
            counts: Counts {
                received: class.received,
                sent: class.sent,
                dropped: class.dropped,
                marked: class.marked,
                queued: class.queued,
                ..Counts::default()
            },
            borrowed_bytes: class.sampled.borrowed,
            lent_bytes: class.lent_bytes,
            rates: averages(&class.sampled),
            too_long_bytes: class.too_long_bytes,
        }
    }

    fn since(&self, earlier: &Self, seconds: f64) -> Option<Rates> {
        let counts = self.counts.since(&earlier.counts)?;
        let unfit = self.too_long_bytes.checked_sub(earlier.too_long_bytes)?;
        let bps = |bytes: u64| bytes as f64 * 8.0 / seconds;
        let demand_bps = bps((earlier.counts.queued.bytes + counts.received.bytes).saturating_sub(unfit));
        (seconds > 0.0).then(|| rates(bps(counts.sent.bytes), demand_bps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::{FILE, file, raw_classes, raw_link};

    fn bytes(bytes: u64) -> Amount {
        Amount { packets: bytes / 1000, bytes }
    }

    fn ideals(state: &QdiscState) -> Vec<Option<f64>> {
        state.classes.iter().map(|class| class.rates.and_then(|rates| rates.ideal_bps)).collect()
    }

    #[test]
    fn ideals_are_those_of_the_demand_that_the_kernel_averages() {
        let link = file(FILE);
        let mut classes = raw_classes(&link);
        // In bytes/s: A1 demands more than the link, A2 10 Mbit/s, B 30 Mbit/s.
        for (class, demand) in classes.iter_mut().zip([30_000_000, 20_000_000, 1_250_000, 3_750_000]) {
            class.sampled = Sampled { samples: 2, bytes: 1000, demand, ..Sampled::default() };
        }
        let state = QdiscState::read(raw_link(&link), classes, Instant::now()).unwrap();
        assert_eq!(
            (state.scheduler, state.rate_bps, state.classes[2].name.as_str()),
            (Some("hls"), Some(100_000_000), "A2")
        );
        assert_eq!(ideals(&state), [70e6, 60e6, 10e6, 30e6].map(Some));
        assert_eq!(state.classes[1].rates.unwrap().rate_bps, Some(8000.0));
        let mut first = raw_classes(&link);
        first[1].sampled = Sampled { samples: 1, ..Sampled::default() };
        let state = QdiscState::read(raw_link(&link), first, Instant::now()).unwrap();
        assert!(
            state.rates.is_none() && state.classes.iter().all(|class| class.rates.is_none()),
            "known from the second on"
        );
    }

    #[test]
    fn an_interval_counts_what_waited_and_what_came() {
        let link = file(FILE);
        let start = Instant::now();
        let mut before = raw_classes(&link);
        before[1].queued = bytes(500_000);
        before[1].received = bytes(500_000);
        let mut after = raw_classes(&link);
        for (class, (received, sent)) in
            after.iter_mut().zip([(0, 0), (1_500_000, 750_000), (125_000, 125_000), (0, 0)])
        {
            (class.received, class.sent) = (bytes(received), bytes(sent));
        }
        // 125 kB of A2's were too long; they do not count as demand.
        after[2].received.bytes += 125_000;
        after[2].too_long_bytes = 125_000;
        let earlier = QdiscState::read(raw_link(&link), before, start).unwrap();
        let end = start + std::time::Duration::from_millis(100);
        let mut later = QdiscState::read(raw_link(&link), after, end).unwrap();
        assert_eq!(later.measure_since(&earlier), 0.1);
        let rates: Vec<_> = later.classes.iter().map(|class| class.rates.unwrap()).collect();
        // A1: 0.5 MB waited, 1 MB came, 0.75 MB were sent, in a tenth of a second.
        assert_eq!((rates[1].demand_bps, rates[1].rate_bps), (Some(120e6), Some(60e6)));
        assert_eq!((rates[2].demand_bps, rates[2].rate_bps), (Some(10e6), Some(10e6)));
        assert_eq!(ideals(&later), [100e6, 90e6, 10e6, 0.0].map(Some));
    }

    #[test]
    fn what_was_read_while_it_changed_is_not_taken_for_one_configuration() {
        let link = file(FILE);
        let read = |change: fn(&mut Vec<Class>)| {
            let mut classes = raw_classes(&link);
            change(&mut classes);
            QdiscState::read(raw_link(&link), classes, Instant::now())
        };
        assert!(read(|classes| classes.reverse()).is_some(), "their order is their numbers'");
        assert!(read(|classes| classes[2].generation = 1).is_none());
        assert!(read(|classes| drop(classes.remove(1))).is_none());
        assert!(read(Vec::clear).is_none());
        // An invalid record: no names and no ideals, but the counters.
        let damaged = read(|classes| classes[2].record.truncate(9)).unwrap();
        assert_eq!((damaged.scheduler, damaged.classes.len(), damaged.classes[1].name.as_str()), (None, 4, ""));
        assert_eq!(ideals(&damaged), [None; 4]);
        // After a panic the kernel reports no classes.
        let mut broken = raw_link(&link);
        (broken.broken, broken.record) = (Some("panicked".to_owned()), Vec::new());
        let mut classes = raw_classes(&link);
        classes.iter_mut().for_each(|class| class.record.clear());
        assert_eq!(QdiscState::read(broken, classes, Instant::now()).unwrap().broken.as_deref(), Some("panicked"));
    }
}
