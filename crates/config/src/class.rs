//! One `[[class]]` of a link file.

use fairlink_core::{
    ClassConfig, ClassId, Contract, Feature, Hosts, LeakyBucket, LeakyBuckets, LinkConfig, MAX_LEAKY_BUCKETS, Nanos,
    QueueLimits, Rate, ServiceCurve, Share,
};
use fairlink_schema::keys::{self, CLASS, DEFAULT_HOSTS, HOST_KEYS, Kind};

use crate::classid::Classid;
use crate::matching::Match;
use crate::names::{Names, refusal};
use crate::problem::{Log, ProblemKind, Span};
use crate::reader::{Present, Table, Value};
use crate::units::{QueueLength, parse_queue, show_bps, show_rate, show_size};

pub(crate) const PLACE: &str = "[[class]]";
/// A place in a file, in half the room of a [`Span`]: files are shorter than 2^32 bytes ([`crate::reader::MAX_FILE`]).
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

/// A class as written, before it is in the tree. Rare settings are in lists of [`RawClasses`].
#[derive(Debug)]
pub(crate) struct RawClass {
    pub(crate) config: ClassConfig,
    pub(crate) name_at: Place,
    /// Place of the guarantee or weight, or of the name if there is neither.
    pub(crate) share_at: Place,
    /// True if the file gives no `buffer`, so that [`default_limits`] are its limits.
    pub(crate) default_queue: bool,
    /// Name of its parent in `RawClasses::parents`, and its place in the file.
    parent: Option<(Place, Place)>,
}

/// All classes as written, in file order; positions count from 0.
#[derive(Debug)]
pub(crate) struct RawClasses {
    pub(crate) all: Vec<RawClass>,
    /// The class at position i has the id i + 1 here, the link has 0.
    pub(crate) names: Names,
    /// Classes with a duplicate name, with the position of the first class of that name.
    pub(crate) duplicates: Vec<(usize, usize)>,
    /// Names of parents; siblings in a row share one.
    parents: String,
    /// By position: places of settings that a scheduler may not support; the first of each feature.
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

/// Properties of the link that classes depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkFacts {
    pub(crate) rate: Option<Rate>,
}

/// A class's table: the keys that it sets.
type Keys<'a, 's> = Present<'a, 's, ClassConfig>;

/// Reads one class and adds it to `classes`. `None` without a usable name; all errors are in the log.
pub(crate) fn read(table: &Table<'_, '_>, link: LinkFacts, classes: &mut RawClasses, log: &mut Log) -> Option<()> {
    let keys = table.present(&CLASS, &[], log);
    table.not_both("guarantee", "weight", log);
    let mut config = config(&keys, link, log);
    let position = classes.all.len() as u32;
    let matches = keys.get("match").map_or_else(Vec::new, |value| matches(value, log));
    let name = table.need("name", "name = \"...\"", log)?;
    let text = name.string("a name in quotes", log)?;
    if let Some(why) = refusal(text) {
        log.error(name.span(), ProblemKind::BadName { name: text.chars().take(60).collect(), why });
        return None;
    }
    let named = |key: &str, log: &mut Log| {
        let value = keys.get(key)?;
        Some((value.string("a name in quotes", log)?, Place::from(value.span())))
    };
    let parent = named("parent", log);
    if let Some((pool, place)) = named("pool", log) {
        classes.pools.push((position, pool.to_owned(), place));
        // Borrowing is limited by its link.
        config.ceiling = config.ceiling.or(link.rate);
    }
    if let Some(value) = keys.get("classid") {
        let classid = classid(value, log)?;
        classes.classids.push((position, classid, value.span().into()));
    }
    let first = classes.features.len();
    for (key, value) in keys.iter() {
        for &feature in key.features {
            if !classes.features[first..].iter().any(|&(_, known, _)| known == feature) {
                classes.features.push((position, feature, value.span().into()));
            }
        }
    }
    let share = keys.get("guarantee").or_else(|| keys.get("weight")).unwrap_or(name);
    let leaf_only = keys.iter().find(|(key, _)| key.place == keys::Place::Leaf);
    classes.leaf_only.extend(leaf_only.map(|(key, value)| (position, key.name, value.span().into())));
    classes.matches.extend(matches.into_iter().map(|(made, span)| (position, made, span.into())));
    let parent = parent.map(|(name, place)| (classes.keep_parent(name), place));
    if let Err(other) = classes.names.push(text) {
        // The link's own name is refused above.
        classes.duplicates.push((position as usize, other.index() - 1));
    }
    let default_queue = keys.get("buffer").is_none();
    let (name_at, share_at) = (name.span().into(), share.span().into());
    classes.all.push(RawClass { config, name_at, share_at, default_queue, parent });
    Some(())
}

fn classid(value: Value<'_, '_>, log: &mut Log) -> Option<Classid> {
    let text = value.string("a class number as in tc: classid = \"1:2\"", log)?;
    let classid = Classid::parse(text);
    if classid.is_none() {
        let why = format!("of {text:?} is not a class number: MAJOR:MINOR, both hexadecimal from 1 to ffff");
        log.error(value.span(), ProblemKind::Misplaced { key: "classid", why, help: "write it as in tc: \"1:2\"" });
    }
    classid
}

/// The configuration that the keys of a class set.
fn config(keys: &Keys<'_, '_>, link: LinkFacts, log: &mut Log) -> ClassConfig {
    check_ecn(keys, log);
    let mut config = ClassConfig::default();
    for (key, value) in keys.iter() {
        if let Some(set) = key.set
            && let Some(read) = field(key.kind, value, &config, link, log)
        {
            set(&mut config, read);
        }
    }
    if let (Some(ceiling), Some(Share::Guarantee(guarantee)), Some(value)) =
        (config.ceiling, config.share, keys.get("ceiling"))
        && ceiling < guarantee
    {
        log.warn(value.span(), ProblemKind::CeilingBelowGuarantee { ceiling, guarantee });
    }
    hosts(keys, &mut config, link, log);
    config
}

/// The value of a key that is a field of a class. `so_far` has the keys that are declared before it.
fn field(
    kind: Kind,
    value: Value<'_, '_>,
    so_far: &ClassConfig,
    link: LinkFacts,
    log: &mut Log,
) -> Option<keys::Value> {
    Some(match kind {
        Kind::Rate => keys::Value::Rate(value.rate(link.rate, log)?),
        Kind::Size { max } => keys::Value::Bytes(value.some_size(max, log)?),
        Kind::Number { min, max } => keys::Value::Number(value.integer(min, max, log)?),
        Kind::Flag => keys::Value::Flag(value.boolean(log)?),
        Kind::Time => keys::Value::Time(value.some_time(log)?),
        Kind::Word { what, words } => keys::Value::Word(value.one_of(what, words, log)? as u8),
        Kind::Contract => keys::Value::Contract(contract(value, log)?),
        Kind::Curve { .. } => keys::Value::Curve(curve(value, link, log)?),
        Kind::Buckets => keys::Value::Buckets(leaky_buckets(value, link, log)?),
        Kind::Buffer => keys::Value::Limits(limits(value, so_far.share, log)?),
        Kind::Per => {
            let by = value.word("way to tell hosts apart", &HOST_KEYS, log)?;
            keys::Value::Hosts(Hosts::new(DEFAULT_HOSTS, by)?)
        }
        Kind::Packets { .. } | Kind::Overhead | Kind::Gso | Kind::Matches | Kind::Scheduler | Kind::Text { .. } => {
            return None;
        }
    })
}

/// Only a queue that chooses its drops can mark packets instead.
fn check_ecn(keys: &Keys<'_, '_>, log: &mut Log) {
    let fifo = keys.get("queue").is_none_or(|queue| queue.value.get_ref().as_str() == Some("fifo"));
    if let Some(value) = keys.get("ecn").filter(|_| fifo) {
        let why = "has no effect on a fifo, which drops only when full".to_owned();
        let help = "set queue = \"codel\" or \"fq_codel\", or remove it";
        log.error(value.span(), ProblemKind::Misplaced { key: "ecn", why, help });
    }
}

/// The number of hosts that share a leaf that has `per`.
fn hosts(keys: &Keys<'_, '_>, config: &mut ClassConfig, link: LinkFacts, log: &mut Log) {
    let Some((key, value)) = keys.iter().find(|(key, _)| key.name == "hosts") else { return };
    if keys.get("per").is_none() {
        let why = "limits the hosts of a class, and the class has no \"per\" that identifies hosts".to_owned();
        let help = "add per = \"src-ip\" or \"dst-ip\", or remove it";
        log.error(value.span(), ProblemKind::Misplaced { key: "hosts", why, help });
    }
    if let Some(keys::Value::Number(most)) = field(key.kind, value, config, link, log) {
        config.hosts = config.hosts.and_then(|hosts| Hosts::new(most as u16, hosts.by));
    }
}

fn contract(value: Value<'_, '_>, log: &mut Log) -> Option<Contract> {
    let table = value.table("a contract", "{ bytes = \"3kB\", every = \"1s\" }", log)?;
    table.only(&["bytes", "every"], log);
    let bytes = table.need("bytes", "bytes = \"3kB\"", log).and_then(|value| value.some_size(u64::MAX, log));
    let every = table.need("every", "every = \"1s\"", log).and_then(|value| value.some_time(log));
    Some(Contract { bytes: bytes?, every: every? })
}

/// A leaky bucket, or a list of them.
fn leaky_buckets(value: Value<'_, '_>, link: LinkFacts, log: &mut Log) -> Option<LeakyBuckets> {
    let all =
        if value.is_list() { value.list("a list of leaky buckets", log).unwrap_or_default() } else { vec![value] };
    let mut misplaced = |why: String, help| {
        log.error(value.span(), ProblemKind::Misplaced { key: "leaky_bucket", why, help });
        None
    };
    if all.is_empty() {
        return misplaced("is empty".to_owned(), "remove it, or write { burst, peak, rate }");
    }
    if all.len() > MAX_LEAKY_BUCKETS {
        let why = format!("has {} buckets; the limit is {MAX_LEAKY_BUCKETS}", all.len());
        return misplaced(why, "remove buckets that the others imply");
    }
    let buckets: Vec<LeakyBucket> = all.into_iter().filter_map(|value| leaky_bucket(value, link, log)).collect();
    LeakyBuckets::new(&buckets)
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
fn curve(value: Value<'_, '_>, link: LinkFacts, log: &mut Log) -> Option<ServiceCurve> {
    let expected = "{ burst = \"160B\", delay = \"5ms\", rate = \"64kbit\" } or { m1 = \"6.6mbit\", d = \"10ms\", m2 = \"2mbit\" }";
    let table = value.table("a service curve", expected, log)?;
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
            let (place, example) = (table.place, "d = \"10ms\": duration of the slope m1");
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
/// \[hfsc\] Section 4, Figure 8: concave with m1 = u_max / d_max where that exceeds r, else convex with a flat first
/// piece. DIFFERENCE: slopes are whole bit/s and times whole nanoseconds here; both are rounded so that u_max is still
/// served by d_max.
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
            let why = format!("needs {bps} for its burst; the limit is {}", show_rate(Rate::MAX));
            let help = "lengthen the delay, or shorten the burst";
            log.error(delay?.span(), ProblemKind::Misplaced { key: "delay", why, help });
            None
        }
    }
}

/// Converts (u_max, d_max, r) to a curve; returns the first slope in bit/s if it exceeds the limit.
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

/// The limits of a queue of which a file says nothing: what its class sends in [`DEFAULT_QUEUE`] at `most`, the most
/// that it can get, but no less than ten packets of the greatest length. In packets: as many of that length, or 1000,
/// so that the queues of all `leaves` fit the link's buffer wherever 1000 packets each do.
pub(crate) fn default_limits(most: Rate, link: &LinkConfig, leaves: usize) -> QueueLimits {
    let [least, small] = DEFAULT_PACKETS;
    let longest = u64::from(link.max_packet.max(1));
    let bytes = most.bytes_in(DEFAULT_QUEUE).max(u64::from(least) * longest).min(u64::from(u32::MAX) - 1);
    let room = u64::from(link.max_queued) / leaves.max(1) as u64;
    let packets = (bytes / longest).min(room).max(u64::from(small));
    QueueLimits { packets: packets as u32, bytes: bytes as u32 }
}

fn limits(value: Value<'_, '_>, share: Option<Share>, log: &mut Log) -> Option<QueueLimits> {
    let text = value.quantity("a queue length such as \"100p\", \"150kB\" or \"50ms\"", log)?;
    match value.unit(parse_queue(text), log)? {
        QueueLength::Packets(packets) => Some(QueueLimits { packets, bytes: u32::MAX }),
        QueueLength::Bytes(bytes) => Some(QueueLimits { packets: u32::MAX, bytes }),
        QueueLength::Time(time) => {
            let Some(Share::Guarantee(rate)) = share else {
                let why = "is a time, which is converted by the guarantee, and the class has no guarantee".to_owned();
                let help = "set a guarantee, or give the buffer in packets or bytes";
                log.error(value.span(), ProblemKind::Misplaced { key: "buffer", why, help });
                return None;
            };
            let bytes = rate.bytes_in(time);
            match u32::try_from(bytes) {
                Ok(bytes) if bytes > 0 => Some(QueueLimits { packets: u32::MAX, bytes }),
                _ => {
                    value.out_of_range(show_size(bytes), show_size(1), show_size(u64::from(u32::MAX)), log);
                    None
                }
            }
        }
    }
}

pub(crate) fn matches(value: Value<'_, '_>, log: &mut Log) -> Vec<(Match, Span)> {
    // One match need not be in a list.
    let all = match value.value.get_ref().as_str() {
        Some(_) => vec![value],
        None => value.list("a list of matches such as [\"udp dst port 5001\"]", log).unwrap_or_default(),
    };
    all.into_iter().flat_map(|value| one_text(value, log)).collect()
}

/// The matches of one text, all with its place.
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
