//! Converts tc's output for a running system to the commands that set it up: the text of `tc qdisc|class|filter show`,
//! with `-d` and `-s` or without, and its JSON with `-j`, in any order and concatenated.
//!
//! Source: tc(8), and the output of iproute2 6.1. Which parts are JSON depends on the version: classes of HTB are text
//! also with `-j` there. Rates are in bit/s in the text and in bytes per second in JSON.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use crate::commands::findings::{left_out, wrong};
use crate::commands::words::{Command, Word};
use crate::json::Json;
use crate::problem::{Log, Problem, Span};

/// Returns true if a text is tc's output, not commands: by its first significant line.
pub(super) fn is_shown(text: &str) -> bool {
    let Some(line) = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')) else {
        return false;
    };
    let mut words = line.split_whitespace();
    let object = words.next().unwrap_or_default();
    let verbs = ["add", "replace", "change", "del", "delete", "show", "list", "ls", "link"];
    line.starts_with('[')
        || ["qdisc", "class", "filter"].contains(&object) && words.next().is_some_and(|word| !verbs.contains(&word))
}

/// One queueing discipline, class or filter, as words.
struct Shown {
    at: Span,
    words: Vec<String>,
    /// The conditions of a filter, a line each.
    conditions: Vec<Vec<String>>,
}

/// Returns the commands for all objects, parents first. `device` is the name for output without a device.
pub(super) fn commands(text: &str, device: &str, log: &mut Log, notes: &mut Vec<Problem>) -> Vec<Command> {
    let shown = read(text, log);
    let device = only_device(&shown).unwrap_or(device);
    let mut disciplines = Vec::new();
    let mut classes = Vec::new();
    let mut filters = Vec::new();
    for one in &shown {
        match one.words.first().map(String::as_str) {
            Some("qdisc") => disciplines.extend(discipline(one, device, log, notes)),
            Some("class") => classes.extend(class(one, device)),
            _ => filters.extend(filter(one, device)),
        }
    }
    // Those at the root first, then classes, parents before their children, and what hangs below them.
    let (mut all, below): (Vec<_>, Vec<_>) = disciplines.into_iter().partition(|(root, _)| *root);
    let mut commands: Vec<Command> = all.drain(..).map(|(_, command)| command).collect();
    commands.extend(parents_first(classes));
    commands.extend(below.into_iter().map(|(_, command)| command));
    commands.extend(filters);
    commands
}

/// Returns the only device with HTB or CBQ, if there is one: `tc class show dev eth0` does not name it.
fn only_device(shown: &[Shown]) -> Option<&str> {
    let shares =
        |one: &&Shown| one.words[0] == "qdisc" && matches!(one.words.get(1).map(String::as_str), Some("htb" | "cbq"));
    let mut named = shown.iter().filter(shares).filter_map(|one| parts(&one.words).device);
    let first = named.next()?;
    named.all(|other| other == first).then_some(first)
}

/// Lines of statistics and other lines without influence on rates.
const STATISTICS: [&str; 25] = [
    "Sent",
    "backlog",
    "rate",
    "lended:",
    "tokens:",
    "borrowed",
    "period",
    "level",
    "maxpacket",
    "new_flows_len",
    "drop_overlimit",
    "ecn_mark",
    "count",
    "lastcount",
    "ldelay",
    "deficit",
    "window",
    "avgidle",
    "(rule",
    "Sent",
    "new_flow_count",
    "memory",
    "flows",
    "maxburst",
    "overlimits",
];

fn read(text: &str, log: &mut Log) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
        let line = &text[at..end];
        let span = at..at + line.trim_end().len();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let indented = line.starts_with([' ', '\t']);
        match words.first().map(String::as_str) {
            None => {}
            Some(first) if first.starts_with('#') => {}
            Some(first) if first.starts_with('[') && !indented => {
                at = json(text, at, &mut all, log);
                continue;
            }
            Some("qdisc" | "class" | "filter") if !indented => {
                all.push(Shown { at: span, words, conditions: Vec::new() })
            }
            Some(_) if indented => match all.last_mut() {
                Some(last) if last.words[0] == "filter" => {
                    if !STATISTICS.contains(&words[0].as_str()) {
                        last.conditions.push(words);
                    }
                }
                Some(_) if STATISTICS.contains(&words[0].as_str()) => {}
                _ => {
                    let why = format!(
                        "\"{}\" is not part of the output of tc below a queueing discipline or a class",
                        words[0]
                    );
                    wrong(&span, why, Some("pass only the output of tc -d qdisc|class|filter show"), log);
                }
            },
            Some(first) => {
                let why = format!("this line begins with \"{first}\"; output of tc begins with qdisc, class or filter");
                wrong(&span, why, Some("pass only the output of tc -d qdisc|class|filter show"), log);
            }
        }
        at = end;
    }
    all
}

/// Reads the JSON that begins at `at`, and gives the place behind it.
fn json(text: &str, at: usize, all: &mut Vec<Shown>, log: &mut Log) -> usize {
    let mut documents = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Json>();
    let read = documents.next();
    let end = at + documents.byte_offset();
    let line_end = text[at..].find('\n').map_or(text.len(), |end| at + end);
    let span = at..line_end.min(at + 40);
    match read {
        Some(Ok(document)) => {
            for object in document.items() {
                match shown(object, &span) {
                    Some(shown) => all.push(shown),
                    None => wrong(
                        &span,
                        "this JSON is not output of tc for queueing disciplines, classes or filters".to_owned(),
                        Some("pass the output of tc -j qdisc|class|filter show"),
                        log,
                    ),
                }
            }
            end.max(at + 1)
        }
        Some(Err(error)) => {
            wrong(&span, format!("this is not JSON: {error}"), Some("pass the output of tc -j unchanged"), log);
            text.len()
        }
        None => text.len(),
    }
}

/// An object of JSON in the words of the text.
fn shown(object: &Json, at: &Span) -> Option<Shown> {
    let text = |key: &str| object.get(key).and_then(Json::text);
    let mut words = Vec::new();
    let mut conditions = Vec::new();
    let mut push = |all: &[&str]| words.extend(all.iter().map(|&word| word.to_owned()));
    if let Some(kind) = text("class") {
        push(&["class", kind, text("handle")?]);
    } else if object.get("protocol").is_some() {
        push(&["filter"]);
    } else {
        push(&["qdisc", text("kind")?, text("handle")?]);
    }
    if let Some(device) = text("dev") {
        push(&["dev", device]);
    }
    match text("parent") {
        Some(parent) => push(&["parent", parent]),
        None if object.get("root").is_some() => push(&["root"]),
        None => {}
    }
    let is_filter = words[0] == "filter";
    if is_filter {
        let preference = value(object.get("pref")?, "pref");
        words.extend(["protocol", text("protocol")?, "pref", &preference, text("kind")?].map(str::to_owned));
        let options = object.get("options").map(Json::entries).unwrap_or_default();
        let keys = options.iter().filter(|(key, _)| key == "keys").flat_map(|(_, keys)| keys.entries());
        for (key, found) in options.iter().filter(|(key, _)| key != "keys").chain(keys) {
            match key.as_str() {
                "match" => {
                    let part = |key: &str| found.get(key).and_then(Json::text).unwrap_or_default().to_owned();
                    let offset = found.get("off").map_or_else(String::new, |off| value(off, "off"));
                    // An unknown part makes its reader leave the whole filter out.
                    let offset = if part("offmask").is_empty() { offset } else { "nexthdr".to_owned() };
                    let pair = format!("{:0>8}/{:0>8}", part("value"), part("mask"));
                    conditions.push(vec!["match".to_owned(), pair, "at".to_owned(), offset]);
                }
                "flowid" | "classid" => words.extend([key.clone(), value(found, key)]),
                "fh" | "handle" | "order" | "key_ht" | "bkt" | "ht_divisor" | "not_in_hw" | "in_hw" | "skip_hw"
                | "skip_sw" => {}
                _ => conditions.push(vec![key.clone(), value(found, key)]),
            }
        }
    } else {
        let options = object.get("options").map_or(object.entries(), Json::entries);
        let known = ["class", "kind", "handle", "dev", "parent", "root", "leaf", "options", "stats", "refcnt"];
        for (key, found) in options.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            match found {
                Json::Object(_) | Json::List(_) | Json::Null | Json::Bool(false) => {}
                Json::Bool(true) => words.push(key.clone()),
                found => words.extend([key.clone(), value(found, key)]),
            }
        }
    }
    Some(Shown { at: at.clone(), words, conditions })
}

/// A value in the words of the text. Rates are in bytes per second.
fn value(found: &Json, key: &str) -> String {
    match found {
        Json::Number(number) if ["rate", "ceil"].contains(&key) => format!("{}bit", number * 8.0),
        Json::Number(number) if ["target", "interval"].contains(&key) => format!("{number}us"),
        Json::Number(number) => number.to_string(),
        Json::Text(text) => text.clone(),
        other => other.kind().to_owned(),
    }
}

/// Words at one place.
fn command(at: &Span, words: impl IntoIterator<Item = String>) -> Command {
    words.into_iter().map(|text| Word { text, at: at.clone() }).collect()
}

/// The common beginning of all lines: device, parent, and the rest.
struct Parts<'s> {
    device: Option<&'s str>,
    /// `None` for the root.
    parent: Option<&'s str>,
    rest: Vec<&'s str>,
}

fn parts(words: &[String]) -> Parts<'_> {
    let mut parts = Parts { device: None, parent: None, rest: Vec::new() };
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "dev" => parts.device = words.next(),
            "parent" => parts.parent = words.next(),
            "root" | "ingress" | "egress" => {}
            "refcnt" | "leaf" | "level" | "chain" => _ = words.next(),
            other => parts.rest.push(other),
        }
    }
    parts
}

/// Reads a queueing discipline; returns true if it is the root.
fn discipline(shown: &Shown, device: &str, log: &mut Log, notes: &mut Vec<Problem>) -> Option<(bool, Command)> {
    let [_, kind, handle, rest @ ..] = &shown.words[..] else {
        wrong(&shown.at, "this line ends too early".to_owned(), Some("pass the output of tc unchanged"), log);
        return None;
    };
    let parts = parts(rest);
    let device = parts.device.unwrap_or(device);
    let root = parts.parent.is_none();
    if ["ingress", "clsact"].contains(&kind.as_str()) || root && !["htb", "cbq"].contains(&kind.as_str()) {
        left_out(&shown.at, format!("{kind} at the root of {device} has no classes"), log, notes);
        return None;
    }
    let mut words: Vec<String> = ["qdisc", "add", "dev", device].map(str::to_owned).to_vec();
    match parts.parent {
        None => words.push("root".to_owned()),
        Some(parent) => words.extend(["parent".to_owned(), parent.to_owned()]),
    }
    words.extend(["handle".to_owned(), handle.clone(), kind.clone()]);
    let mut options = parts.rest.iter().copied();
    while let Some(option) = options.next() {
        match option {
            // Counters and constants of the kernel.
            "direct_packets_stat" | "ver" | "direct_qlen" | "drop_batch" | "offload" => _ = options.next(),
            "flows" | "quantum" | "memory_limit" => {
                let value = options.next().unwrap_or_default();
                if !["1024", "1514", "32Mb", "33554432"].contains(&value) {
                    words.extend([option.to_owned(), value.to_owned()]);
                }
            }
            "limit" => {
                let value = options.next().unwrap_or_default();
                words.extend([option.to_owned(), value.trim_end_matches('p').to_owned()]);
            }
            other => words.push(other.to_owned()),
        }
    }
    Some((root, command(&shown.at, words)))
}

/// A class with its number and its parent's.
type ClassLine = (String, Option<String>, Command);

fn class(shown: &Shown, device: &str) -> Option<ClassLine> {
    let [_, kind, id, rest @ ..] = &shown.words[..] else { return None };
    // Flows of fair queues are shown as classes.
    if !["htb", "cbq"].contains(&kind.as_str()) {
        return None;
    }
    let parts = parts(rest);
    let major = id.split(':').next().unwrap_or_default();
    let parent = parts.parent.map_or_else(|| format!("{major}:"), str::to_owned);
    let device = parts.device.unwrap_or(device);
    let mut words: Vec<String> =
        ["class", "add", "dev", device, "parent", &parent, "classid", id, kind].map(str::to_owned).to_vec();
    let mut options = parts.rest.iter().copied().peekable();
    while let Some(option) = options.next() {
        match option {
            "linklayer" if options.peek() == Some(&"ethernet") => _ = options.next(),
            "mpu" if matches!(options.peek(), Some(&("0b" | "0"))) => _ = options.next(),
            other => words.push(other.to_owned()),
        }
    }
    Some((id.clone(), parts.parent.map(str::to_owned), command(&shown.at, words)))
}

/// The kernel shows classes in any order. Level by level, each in the order in which it is shown.
fn parents_first(classes: Vec<ClassLine>) -> Vec<Command> {
    let ids: HashSet<&str> = classes.iter().map(|(id, ..)| id.as_str()).collect();
    let mut level = Vec::new();
    let mut below: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, (_, parent, _)) in classes.iter().enumerate() {
        match parent.as_deref().filter(|parent| ids.contains(parent)) {
            Some(parent) => below.entry(parent).or_default().push(at),
            None => level.push(at),
        }
    }
    let mut order = Vec::with_capacity(classes.len());
    while !level.is_empty() {
        let mut next: Vec<usize> =
            level.iter().flat_map(|&at| below.remove(classes[at].0.as_str())).flatten().collect();
        next.sort_unstable();
        order.append(&mut level);
        level = next;
    }
    // The rest form a cycle, which a later reader reports.
    let mut rest: Vec<usize> = below.into_values().flatten().collect();
    rest.sort_unstable();
    order.extend(rest);
    let mut commands: Vec<Option<Command>> = classes.into_iter().map(|(_, _, command)| Some(command)).collect();
    order.into_iter().filter_map(|at| commands[at].take()).collect()
}

/// A filter; `None` for the line that only announces those of its preference.
fn filter(shown: &Shown, device: &str) -> Option<Command> {
    let parts = parts(&shown.words[1..]);
    let mut words: Vec<String> = ["filter", "add", "dev", parts.device.unwrap_or(device)].map(str::to_owned).to_vec();
    if let Some(parent) = parts.parent {
        words.extend(["parent".to_owned(), parent.to_owned()]);
    }
    let mut target = None;
    let mut protocol = "all";
    let mut rest = parts.rest.iter().copied();
    while let Some(word) = rest.next() {
        match word {
            "pref" => words.extend(["prio".to_owned(), rest.next().unwrap_or_default().to_owned()]),
            "protocol" => {
                protocol = rest.next().unwrap_or_default();
                words.extend(["protocol".to_owned(), protocol.to_owned()]);
            }
            "fh" | "order" | "bkt" | "handle" => _ = rest.next(),
            "key" | "ht" => {
                // "key ht 800", "ht divisor 1"
                let next = rest.next();
                if ["ht", "divisor"].contains(&next.unwrap_or_default()) {
                    rest.next();
                }
            }
            "flowid" | "*flowid" | "classid" | "*classid" => target = rest.next(),
            "not_in_hw" | "in_hw" | "in_hw_count" | "skip_hw" | "skip_sw" => {}
            "(rule" => break,
            other => words.push(other.to_owned()),
        }
    }
    let target = target?;
    let mut addresses = Addresses::default();
    for line in &shown.conditions {
        condition(line, protocol, &mut addresses, &mut words);
    }
    words.extend(addresses.words());
    words.extend(["flowid".to_owned(), target.to_owned()]);
    Some(command(&shown.at, words))
}

/// Words of IPv6 addresses, by the side that they belong to: source and destination.
#[derive(Default)]
struct Addresses([[(u32, u32); 4]; 2]);

impl Addresses {
    /// Reads a word of an address. `false` if it is not one.
    fn take(&mut self, value: u32, mask: u32, at: u32) -> bool {
        let (side, word) = match at {
            8..24 if at.is_multiple_of(4) => (0, (at - 8) / 4),
            24..40 if at.is_multiple_of(4) => (1, (at - 24) / 4),
            _ => return false,
        };
        self.0[side][word as usize] = (value, mask);
        true
    }

    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (side, parts) in ["src", "dst"].into_iter().zip(self.0) {
            let join =
                |of: fn((u32, u32)) -> u32| parts.iter().fold(0u128, |all, &part| all << 32 | u128::from(of(part)));
            let (bits, mask) = (join(|part| part.0), join(|part| part.1));
            if mask == 0 {
                continue;
            }
            let len = mask.leading_ones();
            // A mask with holes is not a prefix: an unknown word makes the filter be left out.
            let prefix = match len == mask.count_ones() {
                true => format!("{}/{len}", std::net::Ipv6Addr::from(bits)),
                false => format!("under the mask {}", std::net::Ipv6Addr::from(mask)),
            };
            words.extend(["match", "ip6", side, &prefix].map(str::to_owned));
        }
        words
    }
}

/// A condition of a filter in the words of a command.
fn condition(line: &[String], protocol: &str, addresses: &mut Addresses, words: &mut Vec<String>) {
    let mut line = line.iter().map(String::as_str);
    match line.next().unwrap_or_default() {
        "match" => {
            let pair = line.next().unwrap_or_default();
            let at = line.by_ref().find(|&word| word != "at").unwrap_or_default();
            let (value, mask) = pair.split_once('/').unwrap_or((pair, ""));
            let hex = |text: &str| u32::from_str_radix(text, 16).ok();
            if ["ipv6", "ip6"].contains(&protocol)
                && let (Some(value), Some(mask), Ok(at)) = (hex(value), hex(mask), at.parse())
                && addresses.take(value, mask, at)
            {
                return;
            }
            words.extend(["match", "u32"].map(str::to_owned));
            words.extend([format!("0x{value}"), format!("0x{mask}"), "at".to_owned(), at.to_owned()]);
        }
        // Given by the protocol.
        "eth_type" | "not_in_hw" | "in_hw" | "in_hw_count" | "skip_hw" | "skip_sw" => {}
        first => {
            words.push(first.to_owned());
            words.extend(line.map(str::to_owned));
        }
    }
}
