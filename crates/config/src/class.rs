//! One `[[class]]` of a link file.

use fairlink_core::{
    ClassConfig, ClassId, Contract, Feature, Hosts, LeakyBucket, LeakyBuckets, LinkConfig, MAX_LEAKY_BUCKETS,
    MAX_WEIGHT, Nanos, QueueKind, QueueLimits, Rate, ServiceCurve, Share,
};

use crate::classid::Classid;
use crate::hosts::WORDS;
use crate::matching::Match;
use crate::names::{Names, refusal};
use crate::problem::{Log, ProblemKind, Span};
use crate::reader::{Table, Value};
use crate::units::{QueueLength, parse_queue, show_bps, show_rate, show_size};

pub(crate) const PLACE: &str = "[[class]]";
pub(crate) const KEYS: [&str; 26] = [
    "name",
    "parent",
    "guarantee",
    "weight",
    "ceiling",
    "burst",
    "ceiling_burst",
    "priority",
    "bounded",
    "isolated",
    "latency_critical",
    "quantum",
    "contract",
    "real_time",
    "link_share",
    "upper_limit",
    "max_delay",
    "leaky_bucket",
    "buffer",
    "queue",
    "ecn",
    "per",
    "hosts",
    "match",
    "pool",
    "classid",
];
/// Hosts that a class with `per` and without `hosts` keeps apart.
const DEFAULT_HOSTS: u16 = 256;
/// Keys of most classes of large files. A class that sets no other is read without looking for the others, of which there are many.
const USUAL: [&str; 5] = ["name", "parent", "guarantee", "weight", "ceiling"];
/// Keys that only leaves may set.
const LEAF_KEYS: [&str; 11] = [
    "latency_critical",
    "contract",
    "real_time",
    "max_delay",
    "leaky_bucket",
    "buffer",
    "queue",
    "ecn",
    "per",
    "hosts",
    "match",
];
/// Which key asks a scheduler for which feature.
const FEATURES: [(&str, Feature); 18] = [
    ("ceiling", Feature::Ceiling),
    ("burst", Feature::Burst),
    ("burst", Feature::LatencyBurst),
    ("ceiling_burst", Feature::CeilingBurst),
    ("priority", Feature::Priority),
    ("bounded", Feature::Borrowing),
    ("isolated", Feature::Borrowing),
    ("latency_critical", Feature::LatencyCritical),
    ("quantum", Feature::Quantum),
    ("contract", Feature::Contract),
    ("real_time", Feature::ServiceCurves),
    ("link_share", Feature::LinkCurves),
    ("upper_limit", Feature::LinkCurves),
    ("max_delay", Feature::MaxDelay),
    ("leaky_bucket", Feature::LeakyBucket),
    ("queue", Feature::ActiveQueue),
    ("per", Feature::ActiveQueue),
    ("pool", Feature::Pool),
];

/// A place in a file, in half the room of a [`Span`]: files are shorter than 2^32 bytes ([`crate::files::MAX_FILE`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    start: u32,
    end: u32,
}

impl From<Span> for Place {
    fn from(span: Span) -> Self {
        Self { start: span.start as u32, end: span.end as u32 }
    }
}

impl Place {
    pub(crate) fn span(self) -> Span {
        self.start as usize..self.end as usize
    }
}

/// A class as written, before it has a place in the tree. What few classes have stands in lists of [`RawClasses`].
#[derive(Debug)]
pub(crate) struct RawClass {
    pub(crate) config: ClassConfig,
    pub(crate) name_at: Place,
    /// The place of the guarantee or weight, or of the name where there is neither.
    pub(crate) share_at: Place,
    /// True where the file gives no `buffer`, so that [`default_limits`] are its limits.
    pub(crate) default_queue: bool,
    /// The name of its parent in `RawClasses::parents`, and where the file has it.
    parent: Option<(Place, Place)>,
}

/// All classes as written, in file order; positions count from 0.
#[derive(Debug)]
pub(crate) struct RawClasses {
    pub(crate) all: Vec<RawClass>,
    /// The class at position i has the id i + 1 here, the link has 0.
    pub(crate) names: Names,
    /// Classes whose name another has already, with the position of that.
    pub(crate) duplicates: Vec<(usize, usize)>,
    /// Names of parents; siblings in a row share one.
    parents: String,
    /// By position: the places of what a scheduler may not be able to honour; the first of each kind.
    pub(crate) features: Vec<(u32, Feature, Place)>,
    /// By position: the first setting that only a leaf may have.
    pub(crate) leaf_only: Vec<(u32, &'static str, Place)>,
    /// By position, in file order.
    pub(crate) matches: Vec<(u32, Match, Place)>,
    pub(crate) pools: Vec<(u32, String, Place)>,
    /// By position, in file order.
    pub(crate) classids: Vec<(u32, Classid, Place)>,
}

impl RawClasses {
    pub(crate) fn with_room(classes: usize) -> Self {
        Self {
            all: Vec::with_capacity(classes),
            names: Names::new(classes),
            duplicates: Vec::new(),
            parents: String::new(),
            features: Vec::new(),
            leaf_only: Vec::new(),
            matches: Vec::new(),
            pools: Vec::new(),
            classids: Vec::new(),
        }
    }

    pub(crate) fn name(&self, position: usize) -> &str {
        self.names.name(ClassId(position as u32 + 1))
    }

    /// The name of a class's parent as written, and its place.
    pub(crate) fn parent(&self, position: usize) -> Option<(&str, Span)> {
        let (name, place) = self.all[position].parent?;
        Some((&self.parents[name.span()], place.span()))
    }

    /// Keeps the name of a parent, which is often that of the class before.
    fn keep_parent(&mut self, name: &str) -> Place {
        let last = self.all.last().and_then(|class| class.parent).map(|(last, _)| last);
        match last {
            Some(last) if self.parents[last.span()] == *name => last,
            _ => {
                let start = self.parents.len();
                self.parents.push_str(name);
                (start..self.parents.len()).into()
            }
        }
    }
}

/// What a class needs to know of the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkFacts {
    pub(crate) rate: Option<Rate>,
}

/// Reads one class and adds it to `classes`. `None` where it has no usable name; everything that is wrong is in the log.
pub(crate) fn read(table: &Table<'_, '_>, link: LinkFacts, classes: &mut RawClasses, log: &mut Log) -> Option<()> {
    let usual = table.has_only(&USUAL);
    if !usual {
        table.only(&KEYS, log);
    }
    let mut config = config(table, link, usual, log);
    let position = classes.all.len() as u32;
    let matches = if usual { Vec::new() } else { matches(table, log) };
    let name = table.need("name", "name = \"...\"", log)?;
    let text = name.string("a name in quotes", log)?;
    if let Some(why) = refusal(text) {
        log.error(name.span(), ProblemKind::BadName { name: text.chars().take(60).collect(), why });
        return None;
    }
    let named = |key: &str, log: &mut Log| {
        let value = table.get(key)?;
        Some((value.string("a name in quotes", log)?, Place::from(value.span())))
    };
    let parent = named("parent", log);
    if !usual && let Some((pool, place)) = named("pool", log) {
        classes.pools.push((position, pool.to_owned(), place));
        // What it may borrow ends where its link does.
        config.ceiling = config.ceiling.or(link.rate);
    }
    if !usual && let Some(value) = table.get("classid") {
        let classid = classid(value, log)?;
        classes.classids.push((position, classid, value.span().into()));
    }
    let first = classes.features.len();
    for (key, feature) in FEATURES.into_iter().filter(|(key, _)| !usual || USUAL.contains(key)) {
        if let Some(value) = table.get(key)
            && !classes.features[first..].iter().any(|&(_, known, _)| known == feature)
        {
            classes.features.push((position, feature, value.span().into()));
        }
    }
    let share = table.get("guarantee").or_else(|| table.get("weight")).unwrap_or(name);
    let leaf_only =
        LEAF_KEYS.iter().filter(|_| !usual).find_map(|&key| Some((position, key, table.get(key)?.span().into())));
    classes.leaf_only.extend(leaf_only);
    classes.matches.extend(matches.into_iter().map(|(made, span)| (position, made, span.into())));
    let parent = parent.map(|(name, place)| (classes.keep_parent(name), place));
    if let Err(other) = classes.names.push(text) {
        // The link's own name is refused above.
        classes.duplicates.push((position as usize, other.index() - 1));
    }
    let default_queue = usual || table.get("buffer").is_none();
    let (name_at, share_at) = (name.span().into(), share.span().into());
    classes.all.push(RawClass { config, name_at, share_at, default_queue, parent });
    Some(())
}

fn classid(value: Value<'_, '_>, log: &mut Log) -> Option<Classid> {
    let text = value.string("a class number as in tc: classid = \"1:2\"", log)?;
    let classid = Classid::parse(text);
    if classid.is_none() {
        let why = format!("of {text:?} is no class number: MAJOR:MINOR, both hexadecimal from 1 to ffff");
        log.error(value.span(), ProblemKind::Misplaced { key: "classid", why, help: "write it as in tc: \"1:2\"" });
    }
    classid
}

/// What a class sets; `usual` is whether it has the keys of [`USUAL`] alone.
fn config(table: &Table<'_, '_>, link: LinkFacts, usual: bool, log: &mut Log) -> ClassConfig {
    table.not_both("guarantee", "weight", log);
    let rate = |key: &str, log: &mut Log| table.get(key)?.rate(link.rate, log);
    let guarantee = rate("guarantee", log);
    let weight = table.get("weight").and_then(|value| value.integer(1, MAX_WEIGHT, log));
    let ceiling = rate("ceiling", log);
    if let (Some(ceiling), Some(guarantee), Some(value)) = (ceiling, guarantee, table.get("ceiling"))
        && ceiling < guarantee
    {
        log.warn(value.span(), ProblemKind::CeilingBelowGuarantee { ceiling, guarantee });
    }
    let share = guarantee.map(Share::Guarantee).or(weight.map(Share::Weight));
    if usual {
        return ClassConfig { share, ceiling, ..ClassConfig::default() };
    }
    let size = |key: &str, log: &mut Log| table.get(key)?.some_size(u64::MAX, log);
    let curve = |key: &'static str, log: &mut Log| curve(table, key, link, log);
    let flag = |key: &str, log: &mut Log| table.get(key).and_then(|value| value.boolean(log)).unwrap_or(false);
    ClassConfig {
        share,
        ceiling,
        burst: size("burst", log),
        ceiling_burst: size("ceiling_burst", log),
        priority: table.get("priority").and_then(|value| value.integer(0, 255, log)).map(|value| value as u8),
        bounded: flag("bounded", log),
        isolated: flag("isolated", log),
        latency_critical: flag("latency_critical", log),
        quantum: table
            .get("quantum")
            .and_then(|value| value.some_size(u64::from(u32::MAX), log))
            .map(|value| value as u32),
        contract: contract(table, log),
        real_time: curve("real_time", log),
        link_share: curve("link_share", log),
        upper_limit: curve("upper_limit", log),
        max_delay: table.get("max_delay").and_then(|value| value.some_time(log)),
        leaky_buckets: leaky_buckets(table, link, log),
        limits: limits(table, guarantee, log),
        ecn: ecn(table, log),
        hosts: hosts(table, log),
        queue: table
            .get("queue")
            .and_then(|value| {
                let words = [("fifo", QueueKind::Fifo), ("codel", QueueKind::CoDel), ("fq_codel", QueueKind::FqCoDel)];
                value.word("queue discipline", &words, log)
            })
            .unwrap_or_default(),
    }
}

/// Whether packets may be marked; only a queue that chooses what to drop does that.
fn ecn(table: &Table<'_, '_>, log: &mut Log) -> bool {
    let Some(value) = table.get("ecn") else { return false };
    let fifo = table.get("queue").is_none_or(|queue| queue.value.get_ref().as_str() == Some("fifo"));
    if fifo {
        let why = "says nothing to a fifo, which drops only when it is full".to_owned();
        let help = "set queue = \"codel\" or \"fq_codel\", or leave it out";
        log.error(value.span(), ProblemKind::Misplaced { key: "ecn", why, help });
    }
    value.boolean(log).unwrap_or(false)
}

/// The hosts that share a leaf that has `per`.
fn hosts(table: &Table<'_, '_>, log: &mut Log) -> Option<Hosts> {
    let written = table.get("hosts").and_then(|value| {
        if table.get("per").is_none() {
            let why = "says how many hosts share a class, and the class does not say what tells them apart".to_owned();
            let help = "add per = \"src-ip\" or \"dst-ip\", or leave it out";
            log.error(value.span(), ProblemKind::Misplaced { key: "hosts", why, help });
        }
        value.integer(2, u64::from(u16::MAX), log)
    });
    let by = table.get("per")?.word("way to tell hosts apart", &WORDS, log)?;
    Hosts::new(written.map_or(DEFAULT_HOSTS, |hosts| hosts as u16), by)
}

fn contract(table: &Table<'_, '_>, log: &mut Log) -> Option<Contract> {
    let table = table.get("contract")?.table("a contract", "{ bytes = \"3kB\", every = \"1s\" }", log)?;
    table.only(&["bytes", "every"], log);
    let bytes = table.need("bytes", "bytes = \"3kB\"", log).and_then(|value| value.some_size(u64::MAX, log));
    let every = table.need("every", "every = \"1s\"", log).and_then(|value| value.some_time(log));
    Some(Contract { bytes: bytes?, every: every? })
}

/// A leaky bucket, or a list of them.
fn leaky_buckets(table: &Table<'_, '_>, link: LinkFacts, log: &mut Log) -> LeakyBuckets {
    let Some(value) = table.get("leaky_bucket") else { return LeakyBuckets::default() };
    let all =
        if value.is_list() { value.list("a list of leaky buckets", log).unwrap_or_default() } else { vec![value] };
    let mut misplaced = |why: String, help| {
        log.error(value.span(), ProblemKind::Misplaced { key: "leaky_bucket", why, help });
        LeakyBuckets::default()
    };
    if all.is_empty() {
        return misplaced("has no bucket".to_owned(), "leave it out, or write { burst, peak, rate }");
    }
    if all.len() > MAX_LEAKY_BUCKETS {
        let why = format!("has {} buckets, and a class takes {MAX_LEAKY_BUCKETS} at most", all.len());
        return misplaced(why, "leave out those that the others keep from ever being empty");
    }
    let buckets: Vec<LeakyBucket> = all.into_iter().filter_map(|value| leaky_bucket(value, link, log)).collect();
    LeakyBuckets::new(&buckets).unwrap_or_default()
}

fn leaky_bucket(value: Value<'_, '_>, link: LinkFacts, log: &mut Log) -> Option<LeakyBucket> {
    let expected = "{ burst = \"10kB\", peak = \"2mbit\", rate = \"1mbit\" }, or a list of such";
    let table = value.table("a leaky bucket", expected, log)?;
    table.only(&["burst", "peak", "rate"], log);
    let burst = table.need("burst", "burst = \"10kB\"", log).and_then(|value| value.some_size(u64::MAX, log));
    let peak = table.need("peak", "peak = \"2mbit\"", log);
    let peak_rate = peak.and_then(|value| value.rate(link.rate, log));
    let rate = table.need("rate", "rate = \"1mbit\"", log).and_then(|value| value.rate(link.rate, log));
    let bucket = LeakyBucket { burst: burst?, peak: peak_rate?, rate: rate? };
    if bucket.peak < bucket.rate {
        let (value, min, max) = (show_rate(bucket.peak), show_rate(bucket.rate), show_rate(Rate::MAX));
        peak?.out_of_range(value, min, max, log);
        return None;
    }
    Some(bucket)
}

/// A service curve in either of its two forms; a rate alone is a straight line.
fn curve(table: &Table<'_, '_>, key: &'static str, link: LinkFacts, log: &mut Log) -> Option<ServiceCurve> {
    let expected = "{ burst = \"160B\", delay = \"5ms\", rate = \"64kbit\" } or { m1 = \"6.6mbit\", d = \"10ms\", m2 = \"2mbit\" }";
    let table = table.get(key)?.table("a service curve", expected, log)?;
    table.only(&["burst", "delay", "rate", "m1", "d", "m2"], log);
    let pieces = ["m1", "d", "m2"].into_iter().find(|key| table.get(key).is_some());
    let burst = ["burst", "delay", "rate"].into_iter().find(|key| table.get(key).is_some());
    match (pieces, burst) {
        (Some(other), Some(one)) => {
            let kind = ProblemKind::Both { place: table.place, one, other };
            log.error_also(table.key_span(other), kind, table.key_span(one), "this");
            None
        }
        (Some(_), None) => two_pieces(&table, link, log),
        _ => from_burst(&table, link, log),
    }
}

fn two_pieces(table: &Table<'_, '_>, link: LinkFacts, log: &mut Log) -> Option<ServiceCurve> {
    // A slope of zero is fine in a curve, as long as the other is not zero too.
    let slope = |key: &str, log: &mut Log| -> Option<Option<Rate>> {
        let Some(value) = table.get(key) else { return Some(None) };
        if value.value.get_ref().as_str() == Some("0bit") {
            return Some(None);
        }
        value.rate(link.rate, log).map(Some)
    };
    let m1 = slope("m1", log);
    let m2 = slope("m2", log);
    let d = match table.get("d") {
        Some(value) => value.time(log),
        None if table.get("m1").is_some() => {
            let (place, example) = (table.place, "d = \"10ms\": how long the slope m1 lasts");
            log.error(table.span.clone(), ProblemKind::MissingKey { place, key: "d", example });
            None
        }
        None => Some(Nanos::ZERO),
    };
    let curve = ServiceCurve { m1: m1?, d: d?, m2: m2? };
    if curve.m2.is_none() && (curve.m1.is_none() || curve.d == Nanos::ZERO) {
        log.error(table.span.clone(), ProblemKind::Neither { place: table.place, one: "m1", other: "m2" });
        return None;
    }
    Some(curve)
}

/// From (u_max, d_max, r): a packet of u_max bytes within d_max, and the rate r in the long run.
///
/// \[hfsc\] Section 4, Figure 8: concave with m1 = u_max / d_max where that exceeds r, else convex with a flat first piece.
/// DIFFERENCE: slopes are whole bit/s and times whole nanoseconds here; both are rounded so that u_max is still served by
/// d_max.
fn from_burst(table: &Table<'_, '_>, link: LinkFacts, log: &mut Log) -> Option<ServiceCurve> {
    let rate = table.need("rate", "rate = \"64kbit\"", log).and_then(|value| value.rate(link.rate, log));
    let burst = table.get("burst");
    let delay = table.get("delay");
    let burst_bytes = burst.map(|value| value.some_size(u64::from(u32::MAX), log));
    let delay_time = delay.map(|value| value.some_time(log));
    if let (Some(present), None) | (None, Some(present)) = (burst, delay) {
        let (key, example) =
            if present.key == "burst" { ("delay", "delay = \"5ms\"") } else { ("burst", "burst = \"160B\"") };
        log.error(table.span.clone(), ProblemKind::MissingKey { place: table.place, key, example });
        return None;
    }
    let rate = rate?;
    let (Some(bytes), Some(time)) = (burst_bytes, delay_time) else {
        return Some(ServiceCurve { m1: None, d: Nanos::ZERO, m2: Some(rate) });
    };
    let (bytes, time) = (bytes?, time?);
    match map_burst(bytes, time, rate) {
        Ok(curve) => Some(curve),
        Err(bps) => {
            let bps = show_bps(u64::try_from(bps).unwrap_or(u64::MAX));
            let why = format!("takes {bps} for its burst, above the limit of {}", show_rate(Rate::MAX));
            let help = "lengthen the delay, or shorten the burst";
            log.error(delay?.span(), ProblemKind::Misplaced { key: "delay", why, help });
            None
        }
    }
}

/// The curve for (u_max, d_max, r), or the first slope in bit/s where it is above the limit.
///
/// # Errors
/// The slope that is needed.
pub(crate) fn map_burst(bytes: u64, time: Nanos, rate: Rate) -> Result<ServiceCurve, u128> {
    let within = rate.time_for_bytes(bytes);
    if within <= time {
        return Ok(ServiceCurve { m1: None, d: time.saturating_sub(within), m2: Some(rate) });
    }
    let bps = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(time.0));
    match u64::try_from(bps).ok().and_then(|bps| Rate::from_bps(bps).ok()) {
        Some(m1) => Ok(ServiceCurve { m1: Some(m1), d: time, m2: Some(rate) }),
        None => Err(bps),
    }
}

/// Time that a queue of the default length lasts at the most that its class can get.
pub(crate) const DEFAULT_QUEUE: Nanos = Nanos::from_millis(100);
/// Packets that the queue of a slow class holds at least, and that small packets may be in any queue.
const DEFAULT_PACKETS: [u32; 2] = [10, 1000];

/// The limits of a queue of which a file says nothing: what its class sends in [`DEFAULT_QUEUE`] at `most`, the most that it can get, but no less
/// than ten packets of the greatest length. In packets: as many of that length, or 1000, so that the queues of all `leaves` fit the link's buffer
/// wherever 1000 packets each do.
pub(crate) fn default_limits(most: Rate, link: &LinkConfig, leaves: usize) -> QueueLimits {
    let [least, small] = DEFAULT_PACKETS;
    let longest = u64::from(link.max_packet.max(1));
    let bytes = most.bytes_in(DEFAULT_QUEUE).max(u64::from(least) * longest).min(u64::from(u32::MAX) - 1);
    let room = u64::from(link.max_queued) / leaves.max(1) as u64;
    let packets = (bytes / longest).min(room).max(u64::from(small));
    QueueLimits { packets: packets as u32, bytes: bytes as u32 }
}

fn limits(table: &Table<'_, '_>, guarantee: Option<Rate>, log: &mut Log) -> QueueLimits {
    let default = QueueLimits::default();
    let Some(value) = table.get("buffer") else { return default };
    let Some(text) = value.quantity("a queue length such as \"100p\", \"150kB\" or \"50ms\"", log) else {
        return default;
    };
    match value.unit(parse_queue(text), log) {
        None => default,
        Some(QueueLength::Packets(packets)) => QueueLimits { packets, bytes: u32::MAX },
        Some(QueueLength::Bytes(bytes)) => QueueLimits { packets: u32::MAX, bytes },
        Some(QueueLength::Time(time)) => {
            let Some(rate) = guarantee else {
                let why = "is a time, which is as long as the guarantee makes it, and there is no guarantee".to_owned();
                let help = "give the class a guarantee, or its buffer in packets or bytes";
                log.error(value.span(), ProblemKind::Misplaced { key: "buffer", why, help });
                return default;
            };
            let bytes = rate.bytes_in(time);
            match u32::try_from(bytes) {
                Ok(bytes) if bytes > 0 => QueueLimits { packets: u32::MAX, bytes },
                _ => {
                    value.out_of_range(show_size(bytes), show_size(1), show_size(u64::from(u32::MAX)), log);
                    default
                }
            }
        }
    }
}

pub(crate) fn matches(table: &Table<'_, '_>, log: &mut Log) -> Vec<(Match, Span)> {
    let Some(value) = table.get("match") else { return Vec::new() };
    // One match need not be in a list.
    let all = match value.value.get_ref().as_str() {
        Some(_) => vec![value],
        None => value.list("a list of matches such as [\"udp dst port 5001\"]", log).unwrap_or_default(),
    };
    all.into_iter().flat_map(|value| one_text(value, log)).collect()
}

/// The matches that one text stands for, all of them at its place.
fn one_text(value: Value<'_, '_>, log: &mut Log) -> Vec<(Match, Span)> {
    let Some(text) = value.string("a match such as \"udp dst port 5001\"", log) else { return Vec::new() };
    match Match::parse_all(text) {
        Ok(all) => all.into_iter().map(|made| (made, value.span())).collect(),
        Err(error) => {
            let span = value.within(error.at.clone(), log.source().clone().inner());
            log.error(span, ProblemKind::Match { error });
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).unwrap()
    }

    /// Bytes that a curve promises within `time`, rounded down.
    fn served(curve: ServiceCurve, time: Nanos) -> u128 {
        let bits =
            |slope: Option<Rate>, span: Nanos| slope.map_or(0, |slope| u128::from(slope.bps()) * u128::from(span.0));
        let first = Nanos(time.0.min(curve.d.0));
        (bits(curve.m1, first) + bits(curve.m2, time.saturating_sub(first))) / 8_000_000_000
    }

    #[test]
    fn a_burst_faster_than_the_rate_gives_a_concave_curve_and_a_slower_one_a_convex_curve() {
        // 160 B in 5 ms are 256 kbit/s, more than 64 kbit/s.
        let concave = map_burst(160, Nanos::from_millis(5), rate(64_000)).unwrap();
        let expected = ServiceCurve { m1: Some(rate(256_000)), d: Nanos::from_millis(5), m2: Some(rate(64_000)) };
        assert_eq!(concave, expected);
        // 4 kB at 5 Mbit/s take 6.4 ms: nothing is due in the first 10 of 16.4 ms.
        let convex = map_burst(4_000, Nanos::from_micros(16_400), rate(5_000_000)).unwrap();
        assert_eq!(convex, ServiceCurve { m1: None, d: Nanos::from_millis(10), m2: Some(rate(5_000_000)) });
        let line = map_burst(4_000, Nanos::from_micros(6_400), rate(5_000_000)).unwrap();
        assert_eq!(line, ServiceCurve { m1: None, d: Nanos::ZERO, m2: Some(rate(5_000_000)) });
        assert_eq!(map_burst(u64::from(u32::MAX), Nanos(1), rate(1)), Err(34_359_738_360_000_000_000));
    }

    proptest! {
        #[test]
        fn a_burst_is_served_within_its_delay(bytes in 1u64..1_000_000, ns in 1u64..10_000_000_000, bps in 1u64..10_000_000_000) {
            if let Ok(curve) = map_burst(bytes, Nanos(ns), rate(bps)) {
                prop_assert!(served(curve, Nanos(ns)) >= u128::from(bytes), "{:?}", curve);
                // And no more than rounding asks for: one bit/s, or one nanosecond at the rate.
                let slack = 1 + u128::from(ns.max(bps)) / 8_000_000_000;
                prop_assert!(served(curve, Nanos(ns)) <= u128::from(bytes) + slack, "{:?}", curve);
            }
        }
    }
}
