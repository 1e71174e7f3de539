//! The `[link]` table of a link file.

use std::sync::Arc;

use fairlink_core::{
    Cores, LinkConfig, MAX_CORES, MAX_PACKET, MAX_TRANSMIT_QUEUE, Overhead, Rate, RoundLength, SchedulerInfo, Split,
    TransmitQueue, WhenFull, registry,
};
use fairlink_schema::keys::{Kind, LINK, LinkKey, MAX_MEMORY, MAX_OVERHEAD, OVERHEADS};

use super::gso::gso;
use super::{DEFAULT_MEMORY, DEFAULT_MTU, DEFAULT_SCHEDULER, Gso, ReadOptions, no_scheduler};
use crate::class::Place;
use crate::names::refusal;
use crate::problem::{Log, Problem, ProblemKind, Span};
use crate::reader::{Table, Value, unknown_word};
use crate::units::{QueueLength, parse_queue, parse_size, show_size};

/// The `[link]` table.
pub(super) struct Head<'a> {
    pub(super) span: Span,
    pub(super) name: Option<String>,
    pub(super) input: Option<String>,
    pub(super) output: Option<String>,
    pub(super) egress: Option<String>,
    pub(super) rate: Option<Rate>,
    pub(super) rate_span: Span,
    pub(super) scheduler: Option<&'static SchedulerInfo>,
    pub(super) mtu: u32,
    pub(super) gso: Gso,
    pub(super) cores: Cores,
    pub(super) overhead: Overhead,
    pub(super) default: Option<(&'a str, Span)>,
    pub(super) max_queued: Option<u32>,
    pub(super) memory_limit: u64,
    pub(super) when_full: WhenFull,
    pub(super) rounds: RoundLength,
    pub(super) transmit_queue: Option<TransmitQueue>,
    pub(super) places: Vec<(&'static LinkKey, Place)>,
}

impl<'a> Head<'a> {
    /// Reads the head; `None` if the table itself is missing; all errors are in the log.
    pub(super) fn read(document: &Table<'a, '_>, options: &ReadOptions<'_>, log: &mut Log) -> Option<Self> {
        let link = document.need("link", "[link] and below it rate = \"100mbit\"", log)?;
        let table = link.table("[link]", "a table: [link]", log)?;
        Some(Self::of(table, &[], options, log))
    }

    /// Reads the head of one of several links, whose classes are in its own table.
    pub(super) fn of_several(table: Table<'a, '_>, options: &ReadOptions<'_>, log: &mut Log) -> Self {
        Self::of(table, &["class"], options, log)
    }

    fn of(table: Table<'a, '_>, also: &[&str], options: &ReadOptions<'_>, log: &mut Log) -> Self {
        let keys = table.present(&LINK, also, log);
        let name = table.get("name").and_then(|value| name(value, log));
        let [input, output] = ["in", "out"].map(|key| table.get(key).and_then(|value| interface(key, value, log)));
        if let (Some(from), Some(to)) = (&input, &output)
            && from == to
            && let Some(value) = table.get("out")
        {
            let why = format!("and in are both {to:?}; a link connects two interfaces");
            log.error(value.span(), ProblemKind::Misplaced { key: "out", why, help: "name two different interfaces" });
        }
        let egress = table.get("egress").and_then(|value| interface("egress", value, log));
        if let Some(value) = table.get("egress")
            && (table.get("in").is_some() || table.get("out").is_some())
        {
            let why = "is for traffic of the machine itself, and in and out are for forwarded traffic".to_owned();
            let help = "keep egress, or in and out";
            log.error(value.span(), ProblemKind::Misplaced { key: "egress", why, help });
        }
        let rate_value = table.need("rate", "rate = \"100mbit\"", log);
        let rate = rate_value.and_then(|value| value.rate(None, log));
        let scheduler = scheduler(&table, options, log);
        let overhead = table.get("overhead").and_then(|value| overhead(value, log)).unwrap_or(Overhead::NONE);
        let mtu = table.get("mtu").and_then(|value| mtu(value, overhead, log)).unwrap_or(DEFAULT_MTU);
        let gso = table.get("gso").and_then(|value| gso(value, log)).unwrap_or_default();
        let cores = cores(&table, log);
        let default = table
            .get("default")
            .and_then(|value| Some((value.string("the name of a class in quotes", log)?, value.span())));
        let max_queued = table.get("buffer").and_then(|value| max_queued(value, log));
        let memory_limit =
            table.get("memory").and_then(|value| value.some_size(MAX_MEMORY, log)).unwrap_or(DEFAULT_MEMORY);
        // The words of the link are set as they are declared.
        let mut words = LinkConfig::new(Rate::MAX);
        for (key, value) in keys.iter() {
            if let (Kind::Word { what, words: all }, Some(set)) = (key.kind, key.set)
                && let Some(word) = value.one_of(what, all, log)
            {
                set(&mut words, fairlink_schema::keys::Value::Word(word as u8));
            }
        }
        let LinkConfig { when_full, rounds, .. } = words;
        let transmit_queue = transmit_queue(&table, log);
        Self {
            span: table.span.clone(),
            name,
            input,
            output,
            egress,
            rate,
            rate_span: rate_value.map_or(table.span, Value::span),
            scheduler,
            mtu,
            gso,
            cores,
            overhead,
            default,
            max_queued,
            memory_limit,
            when_full,
            rounds,
            transmit_queue,
            places: keys.iter().map(|(key, value)| (key, value.span().into())).collect(),
        }
    }
}

/// Reads the cores that share the link.
fn cores(table: &Table<'_, '_>, log: &mut Log) -> Cores {
    let count = table.get("cores").and_then(|value| value.integer(1, MAX_CORES.into(), log));
    let split = table.get("split").and_then(|value| value.one_of("split", &Split::NAMES, log));
    let count = count.unwrap_or(1) as u16;
    let split = split.map_or(if count > 1 { Split::default() } else { Split::One }, |split| Split::ALL[split]);
    let hubs = table.get("hubs");
    let number = hubs.as_ref().and_then(|value| value.integer(1, MAX_CORES.into(), log)).unwrap_or(1) as u16;
    if number == 1 {
        return Cores::new(count, split);
    }
    let most = if split == Split::Hub { count.saturating_sub(1).max(1) } else { 1 };
    if let Some(value) = hubs.filter(|_| number > most) {
        let (name, s) = (split.name(), if count == 1 { "" } else { "s" });
        let why = format!("is {number}; with {count} core{s} and split = \"{name}\" it is at most {most}");
        let help = "several hubs need split = \"hub\" and another core that receives and sends: write cores = N with N above hubs";
        log.error(value.span(), ProblemKind::Misplaced { key: "hubs", why, help });
        return Cores::new(count, split);
    }
    Cores { count, split, hubs: number }
}

/// Reads the name of the link.
fn name(value: Value<'_, '_>, log: &mut Log) -> Option<String> {
    let name = value.string("a name in quotes", log)?;
    if let Some(why) = refusal(name) {
        let why = format!("cannot be {name:?}: {why}");
        log.error(value.span(), ProblemKind::Misplaced { key: "name", why, help: "choose another name" });
        return None;
    }
    Some(name.to_owned())
}

/// Returns the name of the interface that `key` gives.
fn interface(key: &'static str, value: Value<'_, '_>, log: &mut Log) -> Option<String> {
    let name = value.string("the name of an interface in quotes", log)?;
    let is_one =
        (1..=15).contains(&name.len()) && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/');
    if !is_one {
        let why = format!("is {name:?}; the name of an interface has 1 to 15 bytes, no white space and no /");
        log.error(value.span(), ProblemKind::Misplaced { key, why, help: "`ip link` lists interfaces" });
        return None;
    }
    Some(name.to_owned())
}

fn scheduler(table: &Table<'_, '_>, options: &ReadOptions<'_>, log: &mut Log) -> Option<&'static SchedulerInfo> {
    if let Some(name) = options.scheduler {
        let info = registry::find(name);
        if info.is_none() {
            log.add(Problem::error(&Arc::clone(log.source()), None, no_scheduler(name)));
        }
        return info;
    }
    let Some(value) = table.get("scheduler") else { return registry::find(DEFAULT_SCHEDULER) };
    let name = value.string("the name of a scheduler in quotes", log)?;
    let info = registry::find(name);
    if info.is_none() {
        log.error(value.span(), no_scheduler(name));
    }
    info
}

fn overhead(value: Value<'_, '_>, log: &mut Log) -> Option<Overhead> {
    let text = value.quantity("a size such as \"38B\", or ethernet, docsis, ptm, atm", log)?;
    if let Some(&(_, overhead)) = OVERHEADS.iter().find(|&&(word, _)| word == text) {
        return Some(overhead);
    }
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        log.error(value.span(), unknown_word("overhead", text, OVERHEADS.iter().map(|&(word, _)| word)));
        return None;
    }
    let bytes = value.unit(parse_size(text, MAX_OVERHEAD), log)?;
    Some(Overhead::fixed(bytes as u16))
}

fn mtu(value: Value<'_, '_>, overhead: Overhead, log: &mut Log) -> Option<u32> {
    let mtu = value.some_size(u64::from(MAX_PACKET), log)? as u32;
    let accounted = overhead.accounted(mtu);
    if accounted > MAX_PACKET {
        let text = format!("{} with its overhead", show_size(u64::from(accounted)));
        value.out_of_range(text, show_size(1), show_size(u64::from(MAX_PACKET)), log);
        return None;
    }
    Some(mtu)
}

/// The queue behind the scheduler.
fn transmit_queue(table: &Table<'_, '_>, log: &mut Log) -> Option<TransmitQueue> {
    let priority = table.get("transmit_priority");
    let has_priority = priority.and_then(|value| value.boolean(log)).unwrap_or(false);
    let Some(value) = table.get("transmit_queue") else {
        if let Some(value) = priority {
            let why = "needs a transmit queue, and there is none".to_owned();
            let help = "set transmit_queue, such as \"4p\", or remove this";
            log.error(value.span(), ProblemKind::Misplaced { key: "transmit_priority", why, help });
        }
        return None;
    };
    let text = value.quantity("a number of packets such as \"4p\"", log)?;
    match value.unit(parse_queue(text), log)? {
        QueueLength::Packets(packets) if packets <= MAX_TRANSMIT_QUEUE => {
            Some(TransmitQueue { packets, priority: has_priority })
        }
        QueueLength::Packets(packets) => {
            value.out_of_range(format!("{packets}p"), "1p".to_owned(), format!("{MAX_TRANSMIT_QUEUE}p"), log);
            None
        }
        QueueLength::Bytes(_) | QueueLength::Time(_) => {
            let why = "is the number of packets between the scheduler and the link".to_owned();
            let help = "write it with the unit p, such as \"4p\"";
            log.error(value.span(), ProblemKind::Misplaced { key: "transmit_queue", why, help });
            None
        }
    }
}

fn max_queued(value: Value<'_, '_>, log: &mut Log) -> Option<u32> {
    let text = value.quantity("a number of packets such as \"65536p\"", log)?;
    match value.unit(parse_queue(text), log)? {
        QueueLength::Packets(packets) => Some(packets),
        QueueLength::Bytes(_) | QueueLength::Time(_) => {
            let why = "of the link is the number of packets in all queues together".to_owned();
            let help = "write it with the unit p, such as \"65536p\"";
            log.error(value.span(), ProblemKind::Misplaced { key: "buffer", why, help });
            None
        }
    }
}
