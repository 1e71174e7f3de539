//! MikroTik RouterOS: `/queue tree` and `/queue simple` of an export, with the packet marks of `/ip firewall mangle`.
//!
//! Source: RouterOS' documentation (queues, hierarchical token bucket, burst, mangle) and exports that people have
//! published.
//!
//! | there | here |
//! | --- | --- |
//! | `limit-at`, the committed rate | guarantee; 0 is none |
//! | `max-limit` | ceiling; 0 is none |
//! | `priority` 1 to 8 | HTB's priority, if HTB is kept |
//! | `parent` other than a queue: an interface, `global` | a link |
//! | `target`, `dst`, packet marks | matches |
//!
//! A simple queue has a pair of each rate: for traffic that the target sends, and that it receives. The quanta of
//! RouterOS' HTB are not documented; one frame for every queue is assumed.

mod link;
mod mangle;
mod router;
mod takers;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};

use self::mangle::Place;
use self::router::Router;
use self::words::{Command, commands};
use super::info::{AS_IS, OptionKind, WEIGHTS};
use super::notes::{Notes, Tally, wrong, wrong_also};
use super::{Direction, FileInfo, ImportInfo, Imported, MEND, Number, OptionInfo, Options, file_stem, sound};
use crate::problem::{Log, Problems, Source, Span};
use crate::units::show_bps;

/// The two kinds of queues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queues {
    Tree,
    Simple,
}

const QUEUES: OptionInfo = OptionInfo {
    kind: OptionKind::Choice(&[("tree", "/queue tree"), ("simple", "/queue simple")]),
    ..OptionInfo::name("queues", "QUEUES", "Queues to import, if the file has both kinds")
};
const PARENT: OptionInfo = OptionInfo {
    default: Some("all; several interfaces need --out"),
    ..OptionInfo::name(
        "parent",
        "NAME",
        "Import the queues of the tree below this: an interface, `global`, or a queue, whose limit is then the link's rate",
    )
};

pub(super) const INFO: ImportInfo = ImportInfo {
    name: "mikrotik",
    tool: "RouterOS",
    help: "MikroTik RouterOS: an export with queue trees or simple queues",
    files: &[FileInfo {
        key: "file",
        placeholder: "FILE",
        help: "The output of `/export`",
        number: Number::One,
        name: "export.rsc",
        endings: &["rsc"],
    }],
    options: &[
        OptionInfo::rate("the sum of the topmost queues"),
        QUEUES,
        PARENT,
        OptionInfo::direction("Of simple queues: to the targets, from them, or a link for each; both need --out"),
        WEIGHTS,
        AS_IS,
    ],
    without: &[],
    has_plans: true,
    unmatched: MEND,
    sign: |text| {
        text.lines().any(|line| line.starts_with("/queue") && line.split_whitespace().next() == Some("/queue"))
    },
    reader: |sources, options| read(&sources[0], options),
};

/// A frame with its Ethernet header, in bytes.
const FRAME: u64 = 1514;
const HTB: &str = "RouterOS' HTB";
/// Parent of queues of all interfaces.
const GLOBAL: &str = "global";
/// The remark of the class for packets that no queue takes.
const OTHERS: &str = "traffic without a queue";

fn read(source: &Source, options: &Options) -> Result<Imported, Problems> {
    let mut log = Log::new(source);
    let commands = commands(source.inner(), &mut log);
    let mut reading = Reading {
        source,
        options,
        commands: &commands,
        router: Router::of(&commands),
        log,
        notes: Notes::default(),
        tallies: Tallies::default(),
        kinds: kinds(&commands),
        only_interface: only_interface(&commands),
    };
    let links = reading.links();
    if reading.log.has_errors() {
        return Err(reading.log.into_errors());
    }
    reading.tell();
    let queues: usize = links.iter().map(|link| link.text.matches("\n[[class]]").count()).sum::<usize>()
        - links.iter().filter(|link| link.text.contains(OTHERS)).count();
    let kept = vec![format!(
        "{queues} queues with their rates and parents, in {} link{}",
        links.len(),
        if links.len() == 1 { "" } else { "s" }
    )];
    sound(links, kept, reading.notes.all)
}

/// Returns the target interface of simple queues, if there is exactly one.
fn only_interface(commands: &[Command]) -> Option<&str> {
    let simple =
        |command: &&Command| command.section == "queue simple" && command.verb == "add" && !command.is_on("disabled");
    let targets = commands.iter().filter(simple).flat_map(|command| command.get("target").split(',')).map(str::trim);
    let mut interfaces = targets.filter(|target| !target.is_empty() && super::prefixes::parse(target).is_none());
    let first = interfaces.next()?;
    interfaces.all(|other| other == first).then_some(first)
}

/// Queue discipline of a queue type, and the addresses that share such a queue.
type Kind = (String, Option<&'static str>);

/// By name: the types of queues.
fn kinds(commands: &[Command]) -> HashMap<String, Kind> {
    let own = [
        ("wireless-default", "sfq", None),
        ("hotspot-default", "sfq", None),
        ("synchronous-default", "red", None),
        ("pcq-upload-default", "pcq", Some("src-ip")),
        ("pcq-download-default", "pcq", Some("dst-ip")),
    ];
    let own = own.into_iter().map(|(name, kind, per)| (name.to_owned(), (kind.to_owned(), per)));
    let made = commands.iter().filter(|command| command.section == "queue type" && command.verb == "add");
    // An export names the types that there are from the beginning by their numbers.
    let changed = commands
        .iter()
        .filter(|command| command.section == "queue type" && command.verb == "set" && command.find("kind").is_some());
    let changed: Vec<(String, &Command)> = changed
        .filter_map(|command| {
            let number: usize = command.words.first()?.parse().ok()?;
            Some(((*FIRST_TYPES.get(number)?).to_owned(), command))
        })
        .collect();
    let kind = |made: &Command| {
        // Ports among them part flows, as fq_codel does.
        let by = |what: &str| made.get("pcq-classifier").split(',').any(|word| word.trim() == what);
        let per = match (by("src-address"), by("dst-address")) {
            (true, false) => Some("src-ip"),
            (false, true) => Some("dst-ip"),
            _ => None,
        };
        (made.get("kind").to_owned(), per)
    };
    let made = made.map(|made| (made.get("name").to_owned(), kind(made)));
    // Those that are still as they were from the beginning count as none: see `Reading::kind`.
    let changed = changed.iter().filter(|(name, made)| match made.get("kind") {
        "none" | "mq-pfifo" => false,
        "pfifo" => !["default", "ethernet-default", "default-small"].contains(&name.as_str()),
        _ => true,
    });
    let changed: Vec<(String, Kind)> = changed.map(|(name, made)| (name.clone(), kind(made))).collect();
    own.chain(changed).chain(made).collect()
}

/// Types of queues that there are from the beginning, by their numbers in RouterOS 6 and 7.
const FIRST_TYPES: [&str; 10] = [
    "default",
    "ethernet-default",
    "wireless-default",
    "synchronous-default",
    "hotspot-default",
    "pcq-upload-default",
    "pcq-download-default",
    "only-hardware-queue",
    "multi-queue-ethernet-default",
    "default-small",
];

/// A queue that is not disabled.
struct Queue<'c> {
    command: &'c Command,
    name: &'c str,
    /// `none`, the name of another queue, or the root of a tree.
    parent: &'c str,
    limit_at: Option<u64>,
    max_limit: Option<u64>,
    /// 1 to 8.
    priority: u8,
    kind: Option<&'static str>,
    per: Option<&'static str>,
}

/// Counts of findings that many queues have in common.
#[derive(Debug, Default)]
struct Tallies {
    bursts: Tally,
    disabled: Tally,
    totals: Tally,
    times: Tally,
    pcq: Tally,
    red: Tally,
    sfq: Tally,
    cake: Tally,
    set: Tally,
    silent: Tally,
    priorities: Vec<u8>,
}

struct Reading<'a> {
    source: &'a Source,
    options: &'a Options,
    commands: &'a [Command],
    router: Router<'a>,
    log: Log,
    notes: Notes,
    tallies: Tallies,
    kinds: HashMap<String, Kind>,
    /// Target interface of simple queues, if there is exactly one.
    only_interface: Option<&'a str>,
}

impl<'a> Reading<'a> {
    fn wrong(&mut self, at: &Span, what: impl Into<String>, help: &str) {
        wrong(at.clone(), what, help, &mut self.log);
    }

    fn links(&mut self) -> Vec<super::Draft> {
        let there = |section: &str| {
            self.commands
                .iter()
                .any(|command| command.section == section && command.verb == "add" && !command.is_on("disabled"))
        };
        let queues = match (there("queue tree"), there("queue simple"), self.options.get(QUEUES.key)) {
            (_, _, Some("tree")) => Queues::Tree,
            (_, _, Some(_)) => Queues::Simple,
            (true, true, None) => {
                let help = "select one with --queues tree or --queues simple";
                self.wrong(&(0..0), "the file has queue trees and simple queues, and a packet passes both", help);
                return Vec::new();
            }
            (_, true, None) => Queues::Simple,
            (_, false, None) => Queues::Tree,
        };
        let directions = match queues {
            // A tree shapes traffic that leaves by an interface.
            Queues::Tree => &[Direction::Down],
            Queues::Simple => self.options.directions(),
        };
        let mut links = Vec::new();
        for &direction in directions {
            let section = if queues == Queues::Tree { "queue tree" } else { "queue simple" };
            let all = self.queues(section, direction);
            if all.is_empty() && !self.log.has_errors() {
                let what = format!("there is no queue in /{section}");
                self.wrong(&(0..0), what, "pass the output of /export, including the queues");
            }
            if self.log.has_errors() {
                return links;
            }
            match queues {
                Queues::Simple => {
                    let queues: Vec<&Queue<'_>> = all.iter().collect();
                    let target = self.only_interface;
                    let place = match direction {
                        Direction::Down => Place { out: target, into: None },
                        Direction::Up => Place { out: None, into: target },
                    };
                    let root =
                        Root { name: direction.as_str().to_owned(), whose: "the link".to_owned(), limit: None, place };
                    links.extend(self.link(&root, &queues, direction, true));
                }
                Queues::Tree => {
                    let mut bases = tops(&all, None);
                    let places = self.told_by_interface(&all, &mut bases);
                    let mut tops = tops(&all, self.options.get(PARENT.key));
                    for (top, base) in tops.iter_mut().zip(&bases).filter(|(top, _)| **top == GLOBAL) {
                        *top = base;
                    }
                    for root in self.roots(&tops) {
                        let below = all.iter().zip(&tops).filter(|(queue, top)| **top == root && queue.name != root);
                        let below: Vec<&Queue<'_>> = below.map(|(queue, _)| queue).collect();
                        let limit = all.iter().find(|queue| queue.name == root).and_then(|queue| queue.max_limit);
                        // The parent of a topmost queue.
                        let base = all.iter().position(|queue| queue.name == root).map_or(root, |at| bases[at]);
                        let own = if base == GLOBAL { Place::default() } else { Place { out: Some(base), into: None } };
                        let place = places.get(base).copied().unwrap_or(own);
                        let name = if place.into.is_some() { format!("from-{root}") } else { root.to_owned() };
                        let root = Root { name: file_stem(&name), whose: root.to_owned(), limit, place };
                        links.extend(self.link(&root, &below, direction, false));
                    }
                }
            }
        }
        links
    }

    /// Moves queues of `global` to an interface, if their marks are all of traffic that leaves by it or arrives at it
    /// and the file does not have the network there. Returns the place of the frames of such queues.
    fn told_by_interface(&mut self, all: &[Queue<'a>], tops: &mut [&'a str]) -> HashMap<&'a str, Place<'a>> {
        let mut places = HashMap::new();
        let taken: HashSet<&str> = tops.iter().copied().filter(|top| *top != GLOBAL).collect();
        let places_of: HashMap<&str, usize> = all.iter().enumerate().map(|(at, queue)| (queue.name, at)).collect();
        let above = |&at: &usize| places_of.get(all[at].parent).copied();
        let top_of = |at: usize| std::iter::successors(Some(at), above).take(MAX_LEVELS).last().unwrap_or(at);
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        (0..all.len()).for_each(|at| groups.entry(top_of(at)).or_default().push(at));
        let mut rules_of: HashMap<&str, Vec<&Command>> = HashMap::new();
        let marks_packets = |rule: &&Command| {
            rule.section == "ip firewall mangle" && rule.get("action") == "mark-packet" && !rule.is_on("disabled")
        };
        for rule in self.commands.iter().filter(marks_packets) {
            rules_of.entry(rule.get("new-packet-mark")).or_default().push(rule);
        }
        for (top, group) in groups.iter().filter(|(top, _)| all[**top].parent == GLOBAL) {
            let top = &all[*top];
            let marks = group.iter().flat_map(|&at| words::marks(all[at].command));
            let rules = marks.flat_map(|mark| rules_of.get(mark).into_iter().flatten());
            let interfaces: HashSet<(&str, &str)> =
                rules.map(|rule| (rule.get("out-interface"), rule.get("in-interface"))).collect();
            let place = match interfaces.iter().next() {
                Some(&(out, _)) if !out.is_empty() && interfaces.iter().all(|other| other.0 == out) => {
                    Place { out: Some(out), into: None }
                }
                Some(&("", into)) if !into.is_empty() && interfaces.len() == 1 => Place { out: None, into: Some(into) },
                _ => continue,
            };
            let Some(interface) = place.out.or(place.into) else { continue };
            let is_open = places.get(interface).is_none_or(|other: &Place<'_>| other.out == place.out);
            if interface.starts_with('!')
                || self.router.nets_at(&[interface]).is_some()
                || taken.contains(interface)
                || !is_open
            {
                continue;
            }
            places.insert(interface, place);
            for &at in group {
                if tops[at] == GLOBAL {
                    tops[at] = interface;
                }
            }
            let way = if place.out.is_some() { "leaves by" } else { "comes in by" };
            let what = format!(
                "\"{}\" of global: all its marks are of traffic that {way} {interface}, so it becomes its own link; run its gateway there",
                top.name
            );
            self.notes.changed(self.source, Some(top.command.at.clone()), what);
        }
        places
    }

    /// Returns the parents of the topmost queues, in the order of the file.
    fn roots(&mut self, tops: &[&'a str]) -> Vec<&'a str> {
        let mut seen = HashSet::new();
        let mut roots: Vec<&str> = tops.iter().copied().filter(|top| seen.insert(*top)).collect();
        match self.options.get(PARENT.key) {
            Some(asked) => {
                if !roots.contains(&asked) {
                    let what = format!("there is no queue below \"{asked}\"");
                    wrong(0..0, what, format!("there are queues below: {}", roots.join(", ")), &mut self.log);
                }
                roots.retain(|root| *root == asked);
                roots
            }
            None => roots,
        }
    }

    /// Reads the queues of a section, with valid parents.
    fn queues(&mut self, section: &str, direction: Direction) -> Vec<Queue<'a>> {
        let mut all: Vec<Queue<'a>> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut off: HashMap<&str, &Command> = HashMap::new();
        for command in self.commands.iter().filter(|command| command.section == section) {
            if command.verb != "add" {
                self.tallies.set.add(&command.at);
                continue;
            }
            let name = command.get("name");
            if name.is_empty() {
                self.wrong(&command.at, "this queue has no name", "write name=... as in an export");
                continue;
            }
            if command.is_on("disabled") {
                self.tallies.disabled.add(&command.at);
                off.insert(name, command);
                continue;
            }
            if let Some(&first) = places.get(name) {
                let what = format!("there are two queues named \"{name}\"");
                let first = all[first].command.at.clone();
                wrong_also(command.at.clone(), what, "rename one of them", first, "first here", &mut self.log);
                continue;
            }
            if let Some(queue) = self.queue(command, section == "queue simple", direction) {
                places.insert(name, all.len());
                all.push(queue);
            }
        }
        // Parents that are not there, and circles.
        for queue in &all {
            if section == "queue simple" && queue.parent != "none" && !places.contains_key(queue.parent) {
                let is_off = off.contains_key(queue.parent);
                let what = format!(
                    "the parent \"{}\" of \"{}\" {}",
                    queue.parent,
                    queue.name,
                    if is_off { "is disabled" } else { "is not a queue" }
                );
                let help = "name a queue of /queue simple, or none";
                wrong(queue.command.at.clone(), what, help, &mut self.log);
            }
            let path = std::iter::successors(Some(queue), |queue| places.get(queue.parent).map(|&at| &all[at]));
            if path.take(MAX_LEVELS + 1).count() > MAX_LEVELS {
                let what =
                    format!("\"{}\" has more than {MAX_LEVELS} queues above it, or is its own ancestor", queue.name);
                wrong(queue.command.at.clone(), what, "give it another parent", &mut self.log);
            }
        }
        all
    }

    fn queue(&mut self, command: &'a Command, simple: bool, direction: Direction) -> Option<Queue<'a>> {
        // The first of a pair is for traffic that the target sends.
        let side = |text: &'a str| match text.split_once('/') {
            Some((up, down)) if simple => {
                if direction == Direction::Up {
                    up
                } else {
                    down
                }
            }
            _ => text,
        };
        let known = [
            "name",
            "parent",
            "packet-mark",
            "packet-marks",
            "flow",
            "limit-at",
            "max-limit",
            "priority",
            "queue",
            "target",
            "target-address",
            "target-addresses",
            "dst",
            "dst-address",
            "burst-limit",
            "burst-threshold",
            "burst-time",
            "bucket-size",
            "comment",
            "disabled",
            "time",
            "total-queue",
            "interface",
            "direction",
        ];
        for property in &command.properties {
            let name = property.name.as_str();
            if name.starts_with("total-") {
                if !["", "0", "default", "default-small", "0s"].contains(&property.value.as_str()) {
                    self.tallies.totals.add(&property.at);
                }
            } else if !known.contains(&name) || ["interface", "direction"].contains(&name) {
                let what = format!("\"{name}\" of the queue \"{}\"", command.get("name"));
                self.notes.left_out(self.source, Some(property.at.clone()), what);
            }
        }
        let mut rates = [None; 2];
        for (name, found) in ["limit-at", "max-limit"].into_iter().zip(&mut rates) {
            let Some(property) = command.find(name) else { continue };
            // Also the half that is not used now.
            let sound = !simple || property.value.split('/').all(|half| rate(half).is_some());
            match rate(side(&property.value)).filter(|_| sound) {
                Some(bps) => *found = Some(bps).filter(|&bps| bps > 0),
                None => {
                    let help = if simple {
                        "write rates such as 2M/10M, 512k/0"
                    } else {
                        "write a rate such as 10M, 512k or 0"
                    };
                    let at = property.at.clone();
                    self.wrong(&at, format!("\"{name}\" is \"{}\"", property.value), help);
                    return None;
                }
            }
        }
        let [limit_at, max_limit] = rates;
        if let (Some(least), Some(most)) = (limit_at, max_limit)
            && least > most
        {
            let what = format!("limit-at of {} is above max-limit of {}", show_bps(least), show_bps(most));
            self.wrong(&command.at, what, "lower the one or raise the other");
            return None;
        }
        let priority = match side(command.get("priority")) {
            "" => 8,
            text => match text.parse().ok().filter(|priority| (1..=8u8).contains(priority)) {
                Some(priority) => priority,
                None => {
                    let what = format!("\"priority\" is \"{}\"", command.get("priority"));
                    self.wrong(&command.at, what, "write a number from 1 to 8");
                    return None;
                }
            },
        };
        if rate(side(command.get("burst-limit"))).is_some_and(|bps| bps > 0) {
            self.tallies.bursts.add(&command.at);
        }
        if !command.get("time").is_empty() {
            self.tallies.times.add(&command.at);
        }
        let (kind, per) = self.kind(side(command.get("queue")), &command.at);
        let parent = match command.get("parent") {
            "" => "none",
            parent => parent,
        };
        Some(Queue { command, name: command.get("name"), parent, limit_at, max_limit, priority, kind, per })
    }

    /// Returns `queue` and `per` of a link file for a queue type of RouterOS. No queue for the default types, `default`
    /// and `default-small`.
    fn kind(&mut self, name: &str, at: &Span) -> (Option<&'static str>, Option<&'static str>) {
        let tallies = &mut self.tallies;
        let (kind, per) = self.kinds.get(name).map_or(("", None), |(kind, per)| (kind.as_str(), *per));
        let (queue, changed) = match kind {
            "" => (None, None),
            "fq-codel" | "fq_codel" => (Some("fq_codel"), None),
            "codel" => (Some("codel"), None),
            "pcq" => (Some("fq_codel"), Some(&mut tallies.pcq)),
            "cake" => (Some("fq_codel"), Some(&mut tallies.cake)),
            "sfq" => (Some("fq_codel"), Some(&mut tallies.sfq)),
            "red" => (Some("fifo"), Some(&mut tallies.red)),
            _ => (Some("fifo"), None),
        };
        if let Some(tally) = changed {
            tally.add(at);
        }
        (queue, per.filter(|_| kind == "pcq"))
    }

    /// Adds a note for each finding of the tallies.
    fn tell(&mut self) {
        let Tallies { bursts, disabled, totals, times, pcq, red, sfq, cake, set, silent, mut priorities } =
            std::mem::take(&mut self.tallies);
        let mut say = |tally: &Tally, change: bool, what: &str| {
            if let Some(queues) = tally.some("queue", "queues") {
                let note = if change { Notes::changed } else { Notes::left_out };
                note(&mut self.notes, self.source, tally.first.clone(), format!("{queues} {what}"));
            }
        };
        say(
            &pcq,
            true,
            "of pcq: per = \"src-ip\" or \"dst-ip\" by its classifier, and fq_codel for each address; without a rate for each address (pcq-rate)",
        );
        say(&sfq, true, "of sfq: fq_codel instead");
        say(&cake, true, "of cake: fq_codel instead, without tins");
        say(&red, true, "of red: a fifo of 1000 packets instead");
        say(&times, true, "with a time: the class exists at all times");
        say(&bursts, false, "with a burst: a ceiling here is max-limit at all times");
        say(&totals, false, "with limits of both directions together");
        say(&disabled, false, "that are disabled");
        say(
            &silent,
            false,
            "with children that share their target: frames that no child takes belong to the default class",
        );
        if let Some(commands) = set.some("command", "commands") {
            self.notes.left_out(self.source, set.first.clone(), format!("{commands} other than add"));
        }
        priorities.sort_unstable();
        priorities.dedup();
        if !self.options.as_is() {
            if let [first, .., last] = priorities[..] {
                let what = format!(
                    "priorities {first} to {last}: hls has none; set latency_critical = true for delay-sensitive classes"
                );
                self.notes.left_out(self.source, None, what);
            }
            let what = "spare bandwidth: RouterOS gives it to the queues of the lowest priority value, round robin, up to max-limit; here siblings share it in proportion to their guarantees, max-min fair";
            self.notes.changed(self.source, None, what.to_owned());
        }
    }
}

/// Root of a link's queues.
struct Root<'a> {
    /// The stem of its files.
    name: String,
    /// Name in errors.
    whose: String,
    limit: Option<u64>,
    place: Place<'a>,
}

/// Deepest tree that is read.
const MAX_LEVELS: usize = 60;

/// Returns the name that the tree of each queue is below, no further up than `asked`.
fn tops<'c>(all: &[Queue<'c>], asked: Option<&str>) -> Vec<&'c str> {
    let parents: HashMap<&str, &'c str> = all.iter().map(|queue| (queue.name, queue.parent)).collect();
    let above = |&at: &&'c str| parents.get(at).copied().filter(|_| asked != Some(at));
    // Circles were refused.
    let top = |queue: &Queue<'c>| std::iter::successors(Some(queue.parent), above).take(MAX_LEVELS).last();
    all.iter().map(|queue| top(queue).unwrap_or(queue.parent)).collect()
}

/// A rate in bit/s: `10M`, `512k`, `1.5G`, `0`.
fn rate(text: &str) -> Option<u64> {
    let (number, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1e3),
        (at, 'M') => (&text[..at], 1e6),
        (at, 'G') => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let bps = number.parse::<f64>().ok()? * factor;
    (bps <= 1e12).then_some(bps.round() as u64)
}
