//! Marks of the firewall: which frames get one, by the mangle table of iptables and ip6tables.
//!
//! A packet passes the chains in the order of [`HOOKS`], and each of them rule by rule. A rule that sets a mark lets it go on, so that a later
//! rule counts; `RETURN` and `ACCEPT` end a chain. In a link file the first match counts. So a list is made in which a rule stands before
//! those that it overrules. Sources: iptables(8), iptables-extensions(8), tc-fw(8).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use crate::classid::Classid;
use crate::matching::{Match, MatchErrorKind, reversed};
use crate::problem::{Log, Problem, Span};
use crate::services;
use crate::tc::filter::prefix;
use crate::tc::findings::{changed, left_out};
use crate::tc::options::count;
use crate::tc::setup::{Device, Filter, RootKind};
use crate::tc::words::Word;

/// The chains that what leaves an interface has passed, in order.
const HOOKS: [&str; 4] = ["PREROUTING", "FORWARD", "OUTPUT", "POSTROUTING"];
/// Deepest jump.
const MAX_JUMPS: usize = 16;
/// Most matches that all rules of a device may become.
const MAX_MATCHES: usize = 4096;

/// The mangle tables of both families.
#[derive(Debug, Default)]
pub(super) struct Firewall {
    /// By family (`ip`, `ip6`) and name.
    chains: BTreeMap<(&'static str, String), Vec<Rule>>,
}

#[derive(Debug)]
struct Rule {
    at: Span,
    /// The rule as written, without the command.
    text: String,
    /// Alternatives, or why the match language has nothing like it.
    matches: Result<Vec<Vec<String>>, String>,
    input: Option<String>,
    output: Option<String>,
    /// `Some(false)`: for frames without a mark. `Some(true)`: for those with one.
    marked: Option<bool>,
    action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Mark(u32),
    /// Of the connection.
    ConnectionMark(u32),
    Save,
    Restore,
    Class(Classid),
    /// Ends this chain.
    Return,
    /// Ends all chains of the hook.
    Accept,
    Jump(String),
    /// Does not change what a frame is marked with.
    Other,
    /// Sets a part of the mark.
    Part,
}

impl Firewall {
    /// Reads a command of `iptables` or `ip6tables`. Rules of other tables are passed over: they set no marks.
    pub(super) fn read(&mut self, words: &[Word], log: &Log, notes: &mut Vec<Problem>) {
        let at = words[0].at.start..words[words.len() - 1].at.end.max(words[0].at.end);
        let family = if words[0].text.contains("ip6tables") { "ip6" } else { "ip" };
        let words: Vec<&str> = words[1..].iter().map(|word| word.text.as_str()).collect();
        let table = words.windows(2).find(|pair| ["-t", "--table"].contains(&pair[0])).map_or("filter", |pair| pair[1]);
        if table != "mangle" {
            return;
        }
        let verb = words.iter().position(|word| {
            matches!(
                word.trim_start_matches('-'),
                "A" | "append" | "I" | "insert" | "D" | "delete" | "F" | "flush" | "X"
            ) && word.starts_with('-')
        });
        let Some(verb) = verb else { return };
        let name = words.get(verb + 1).copied();
        match (words[verb].trim_start_matches('-'), name) {
            ("F" | "flush" | "X", None) => self.chains.retain(|(of, _), _| *of != family),
            ("F" | "flush" | "X", Some(name)) => _ = self.chains.remove(&(family, name.to_owned())),
            ("A" | "append", Some(name)) => {
                let rule = rule(&words[verb + 2..], family, at);
                self.chains.entry((family, name.to_owned())).or_default().push(rule);
            }
            ("I" | "insert", Some(name)) => {
                let place = words.get(verb + 2).and_then(|word| word.parse::<usize>().ok());
                let rule = rule(&words[verb + 2 + usize::from(place.is_some())..], family, at);
                let chain = self.chains.entry((family, name.to_owned())).or_default();
                chain.insert((place.unwrap_or(1).max(1) - 1).min(chain.len()), rule);
            }
            ("D" | "delete", Some(name)) => {
                let rule = rule(&words[verb + 2..], family, at.clone());
                let chain = self.chains.entry((family, name.to_owned())).or_default();
                match chain.iter().position(|other| other.text == rule.text) {
                    Some(place) => _ = chain.remove(place),
                    None if chain.is_empty() => {}
                    None => left_out(&at, "a rule is deleted that was not added in these words".to_owned(), log, notes),
                }
            }
            _ => {}
        }
    }

    /// Makes filters with matches of a device's filters by mark and of rules with the target CLASSIFY.
    pub(super) fn resolve(&self, device: &mut Device, log: &Log, notes: &mut Vec<Problem>) {
        let by_mark = std::mem::take(&mut device.by_mark);
        let mut listed = Vec::new();
        for family in ["ip", "ip6"] {
            for classes in [true, false] {
                if classes || !by_mark.is_empty() {
                    let mut walk = self.walk(family, &device.name, classes, false);
                    if self.restores(family) {
                        let back = self.walk(family, &device.name, classes, true);
                        walk.entries.extend(back.entries);
                    }
                    listed.push((family, walk));
                }
            }
        }
        let first = by_mark.iter().map(|filter| filter.preference).min().unwrap_or(0);
        let mut used = vec![false; by_mark.len()];
        let default = default_class(device);
        let mut made = Vec::new();
        for (family, walk) in listed {
            for (at, why) in walk.untold {
                left_out(&at, why, log, notes);
            }
            for (at, why) in walk.assumed {
                changed(&at, why, log, notes);
            }
            for entry in walk.entries {
                let (class, preference) = match entry.value {
                    Some(Value::Class(class)) => (Some(class), 0),
                    Some(Value::Mark(mark)) => {
                        let found = by_mark.iter().position(|filter| {
                            filter.mark.is_some_and(|wanted| wanted & filter.mask == mark & filter.mask)
                        });
                        found.into_iter().for_each(|place| used[place] = true);
                        (found.map(|place| by_mark[place].class).or(default), first)
                    }
                    None => {
                        if !device.filters.is_empty() {
                            let why = "frames that this rule keeps from a mark go to the default class; other filters do not see them";
                            changed(&entry.at, why.to_owned(), log, notes);
                        }
                        (default, first)
                    }
                };
                let text = [family.to_owned()].into_iter().chain(entry.matches).collect::<Vec<_>>().join(" ");
                let Some(class) = class else {
                    let why = format!("\"{text}\" has a mark that no filter asks for, and there is no default class");
                    left_out(&entry.at, why, log, notes);
                    continue;
                };
                match Match::parse(&text) {
                    Ok(parsed) => made.push(Filter { at: entry.at, preference, class, made: parsed }),
                    // No frame passes both rules.
                    Err(error) if is_impossible(&error.kind) => {}
                    Err(error) => left_out(&entry.at, format!("\"{text}\" is left out: {error}"), log, notes),
                }
            }
        }
        if made.len() > MAX_MATCHES {
            let at = made[0].at.clone();
            left_out(&at, format!("the rules become {} matches, and {MAX_MATCHES} are taken", made.len()), log, notes);
            made.truncate(MAX_MATCHES);
        }
        for (filter, _) in by_mark.iter().zip(&used).filter(|(_, used)| !**used) {
            let mark = filter.mark.map_or_else(|| "no mark of its own".to_owned(), |mark| format!("mark {mark:#x}"));
            let why = match self.chains.is_empty() {
                true => "the match language has nothing like a mark of the firewall, which no frame carries".to_owned(),
                false => format!("no rule that can be read sets it ({mark})"),
            };
            left_out(&filter.at, format!("a filter to {} is left out: {why}", filter.class), log, notes);
        }
        let mut known = HashSet::new();
        made.retain(|filter| known.insert(filter.made));
        let last = by_mark.iter().map(|filter| filter.preference).max().unwrap_or(0);
        if device.filters.iter().any(|filter| filter.preference > first && filter.preference < last) {
            let why =
                "filters by mark are tried one after the other here, before others of a later preference".to_owned();
            changed(&by_mark[0].at, why, log, notes);
        }
        made.append(&mut device.filters);
        device.filters = made;
    }

    /// Returns true where packets get the marks of their connections.
    fn restores(&self, family: &str) -> bool {
        self.chains
            .iter()
            .any(|((of, _), rules)| *of == family && rules.iter().any(|rule| rule.action == Action::Restore))
    }

    fn walk(&self, family: &'static str, device: &str, classes: bool, back: bool) -> Walk<'_> {
        let mut walk = Walk {
            firewall: self,
            family,
            device: device.to_owned(),
            classes,
            back,
            restores: self.restores(family),
            entries: Vec::new(),
            locked: 0,
            ended: false,
            untold: Vec::new(),
            assumed: Vec::new(),
        };
        for hook in HOOKS {
            walk.locked = 0;
            walk.ended = false;
            walk.chain(hook, &[Vec::new()], 0);
        }
        // Frames that nothing behind them would take need no entry.
        let needed = walk.entries.iter().rposition(|entry| entry.value.is_some()).map_or(0, |last| last + 1);
        walk.entries.truncate(needed);
        walk
    }
}

/// Returns true where no frame meets the conditions of two rules.
fn is_impossible(kind: &MatchErrorKind) -> bool {
    match kind {
        MatchErrorKind::Contradiction { .. } => true,
        MatchErrorKind::Twice { what } => *what == "the protocol",
        _ => false,
    }
}

/// The leaf that gets what no filter takes.
fn default_class(device: &Device) -> Option<Classid> {
    let root = device.root.as_ref()?;
    let (RootKind::Htb { default, .. } | RootKind::Hfsc { default }) = root.kind else { return None };
    Classid::new(root.major, default?).filter(|&class| device.class(class).is_some() && device.is_leaf(class))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Mark(u32),
    Class(Classid),
}

/// Frames with one value, of which the first in a list counts.
#[derive(Debug)]
struct Entry {
    at: Span,
    matches: Vec<String>,
    /// `None`: no mark.
    value: Option<Value>,
}

/// The way of frames through the chains.
struct Walk<'f> {
    firewall: &'f Firewall,
    family: &'static str,
    device: String,
    /// Looks for classes instead of marks.
    classes: bool,
    /// Looks at replies, whose connection has the mark.
    back: bool,
    restores: bool,
    entries: Vec<Entry>,
    /// The number of entries at the front that no later rule of this hook overrules.
    locked: usize,
    ended: bool,
    untold: Vec<(Span, String)>,
    assumed: Vec<(Span, String)>,
}

impl Walk<'_> {
    /// Follows a chain for frames that one of `before` matches.
    fn chain(&mut self, name: &str, before: &[Vec<String>], jumps: usize) {
        let Some(rules) = self.firewall.chains.get(&(self.family, name.to_owned())) else { return };
        // The alternatives of the rule before, if it set something that a rule with the same alternatives can close.
        let mut set: Option<(Vec<Vec<String>>, usize)> = None;
        for rule in rules {
            if self.ended {
                return;
            }
            if rule.action == Action::Other || !self.is_on_the_way(rule) {
                continue;
            }
            let matches = match &rule.matches {
                Ok(matches) if before.len() * matches.len() <= MAX_MATCHES => product(before, matches, self.back),
                Ok(_) => {
                    self.untold.push((rule.at.clone(), format!("more than {MAX_MATCHES} combinations: {}", rule.text)));
                    continue;
                }
                Err(why) => {
                    set = None;
                    if !matches!(rule.action, Action::Save | Action::Restore) {
                        let why = format!("a rule is left out: the match language has nothing like {why}");
                        self.untold.push((rule.at.clone(), why));
                    }
                    continue;
                }
            };
            let value = match rule.action {
                Action::Mark(mark) if !self.classes => Some(Value::Mark(mark)),
                Action::ConnectionMark(mark) if !self.classes && self.restores => Some(Value::Mark(mark)),
                Action::Class(class) if self.classes => Some(Value::Class(class)),
                _ => None,
            };
            match &rule.action {
                _ if value.is_some() => {
                    let behind = rule.marked == Some(false);
                    let place = if behind { self.entries.len() } else { self.locked };
                    self.insert(place, rule, &matches, value);
                    set = (!behind).then_some((matches, place));
                }
                Action::Return | Action::Accept => {
                    let all = rule.matches.as_ref().is_ok_and(|matches| matches == &[Vec::<String>::new()]);
                    if rule.marked == Some(true) && all {
                        self.locked = self.entries.len();
                    } else if let Some((_, place)) = set.take().filter(|(earlier, _)| *earlier == matches) {
                        self.locked = place + matches.len();
                    } else if all && rule.marked.is_none() && rule.input.is_none() && rule.output.is_none() {
                        self.ended |= rule.action == Action::Accept;
                        return;
                    } else if self.entries.iter().all(|entry| entry.value.is_none()) && rule.marked.is_none() {
                        self.insert(self.locked, rule, &matches, None);
                        self.locked += matches.len();
                    } else {
                        let why = "a rule is left out: it ends the chain for frames that earlier rules may have marked";
                        self.untold.push((rule.at.clone(), why.to_owned()));
                    }
                }
                Action::Jump(to) if jumps < MAX_JUMPS => {
                    set = None;
                    let locked = self.locked;
                    self.chain(to, &matches, jumps + 1);
                    if !self.ended {
                        self.locked = locked;
                    }
                }
                Action::Part if !self.classes => {
                    let why = "a rule is left out: it sets a part of the mark".to_owned();
                    self.untold.push((rule.at.clone(), why));
                }
                _ => {}
            }
        }
    }

    fn insert(&mut self, place: usize, rule: &Rule, matches: &[Vec<String>], value: Option<Value>) {
        let new = matches.iter().map(|matches| Entry { at: rule.at.clone(), matches: matches.clone(), value });
        self.entries.splice(place..place, new);
    }

    /// Returns true where frames that leave the device can have passed the rule, as far as interfaces are concerned.
    fn is_on_the_way(&mut self, rule: &Rule) -> bool {
        let (input, output) = if self.back { (&rule.output, &rule.input) } else { (&rule.input, &rule.output) };
        let here = |name: &Option<String>| name.as_deref().map(|name| is_interface(name, &self.device));
        if here(output) == Some(false) || here(input) == Some(true) {
            return false;
        }
        if let (Some(input), false) = (input, self.back) {
            let why = format!("-i {input}: taken as true of all that leaves {}", self.device);
            self.assumed.push((rule.at.clone(), why));
        }
        true
    }
}

fn is_interface(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('+').map_or(pattern == name, |head| name.starts_with(head))
}

/// Alternatives that hold where one of each holds.
fn product(before: &[Vec<String>], matches: &[Vec<String>], back: bool) -> Vec<Vec<String>> {
    let turned = |condition: &String| if back { reversed(condition) } else { condition.clone() };
    let both = |head: &Vec<String>, tail: &Vec<String>| {
        let mut all = head.clone();
        for condition in tail.iter().map(turned) {
            if !all.contains(&condition) {
                all.push(condition);
            }
        }
        all
    };
    before.iter().flat_map(|head| matches.iter().map(move |tail| both(head, tail))).collect()
}

/// The conditions of a rule's options, one after the other.
#[derive(Default)]
struct Options {
    conditions: Vec<String>,
    /// Of each list one has to hold.
    lists: Vec<Vec<String>>,
    untold: Option<String>,
    input: Option<String>,
    output: Option<String>,
    marked: Option<bool>,
}

fn rule(words: &[&str], family: &'static str, at: Span) -> Rule {
    // `--dport=80` is `--dport 80`.
    let words: Vec<&str> = words
        .iter()
        .flat_map(|word| match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => vec![option, value],
            _ => vec![*word],
        })
        .collect();
    let mut options = Options::default();
    let mut action = Action::Other;
    let mut words_left = words.iter().copied().peekable();
    let mut negated = false;
    while let Some(word) = words_left.next() {
        if word == "!" {
            negated = true;
            continue;
        }
        if ["-j", "--jump", "-g", "--goto"].contains(&word) {
            action = target(&words_left.by_ref().collect::<Vec<_>>());
            break;
        }
        // Options of the match come before their values, and some have none.
        let mut value = words_left.next_if(|next| !next.starts_with('-') || *next == "-").unwrap_or_default();
        if value == "!" {
            negated = true;
            value = words_left.next().unwrap_or_default();
        }
        options.read(word, value, std::mem::take(&mut negated), family);
    }
    let text = words.join(" ");
    let Options { conditions, lists, untold, input, output, marked } = options;
    let combined = lists.iter().fold(vec![conditions], |all, list| {
        let one = |head: &Vec<String>, last: &String| [&head[..], std::slice::from_ref(last)].concat();
        all.iter().flat_map(|head| list.iter().map(move |last| one(head, last))).take(MAX_MATCHES + 1).collect()
    });
    let matches = untold.map_or(Ok(combined), Err);
    Rule { at, text, matches, input, output, marked, action }
}

impl Options {
    fn read(&mut self, option: &str, value: &str, negated: bool, family: &'static str) {
        match self.condition(option, value, negated, family) {
            Some(()) => {}
            None => {
                let not = if negated { "! " } else { "" };
                self.untold.get_or_insert(format!("\"{not}{option} {value}\"").replace(" \"", "\""));
            }
        }
    }

    /// `None` where the match language has nothing like it.
    fn condition(&mut self, option: &str, value: &str, negated: bool, family: &'static str) -> Option<()> {
        let is_mark = option == "--mark";
        if negated && !is_mark {
            return None;
        }
        let name = option.trim_start_matches('-');
        match name {
            // What follows says it.
            "m" | "match" | "comment" => {}
            "i" | "in-interface" => self.input = Some(value.to_owned()),
            "o" | "out-interface" => self.output = Some(value.to_owned()),
            "p" | "protocol" | "proto" => match value.to_ascii_lowercase().as_str() {
                "all" | "0" => {}
                known @ ("tcp" | "udp" | "icmp") => self.conditions.push(known.to_owned()),
                "icmpv6" | "ipv6-icmp" => self.conditions.push("icmp6".to_owned()),
                "gre" => self.conditions.push("proto 47".to_owned()),
                "esp" => self.conditions.push("proto 50".to_owned()),
                "ah" => self.conditions.push("proto 51".to_owned()),
                number => self.conditions.push(format!("proto {}", number.parse::<u8>().ok()?)),
            },
            "s" | "source" | "src" | "d" | "destination" | "dst" => {
                let side = if name.starts_with('s') { "src" } else { "dst" };
                let one = |address: &str| prefix(&with_length(address), family == "ip6").ok();
                let all: Option<Vec<String>> =
                    value.split(',').map(|address| one(address).map(|net| format!("{side} {net}"))).collect();
                self.lists.push(all?);
            }
            "sport" | "source-port" | "dport" | "destination-port" | "sports" | "source-ports" | "dports"
            | "destination-ports" | "ports" => {
                let sides: &[&str] = match name.as_bytes()[0] {
                    b's' => &["src"],
                    b'd' => &["dst"],
                    _ => &["src", "dst"],
                };
                let one = |range: &str| {
                    let (first, last) = range.split_once(':').unwrap_or((range, range));
                    let first: u16 = if first.is_empty() { 0 } else { service(first)? };
                    let last: u16 = if last.is_empty() { u16::MAX } else { service(last)? };
                    Some(if first == last { first.to_string() } else { format!("{first}-{last}") })
                };
                let ranges: Vec<String> = value.split(',').map(one).collect::<Option<_>>()?;
                let both =
                    |range: &String| sides.iter().map(move |side| format!("{side} port {range}")).collect::<Vec<_>>();
                self.lists.push(ranges.iter().flat_map(both).collect());
            }
            "dscp" => self.conditions.push(format!("dscp {}", count(value)?)),
            "dscp-class" => self.conditions.push(format!("dscp {}", value.to_ascii_lowercase())),
            "mark" => {
                let (mark, _) = value.split_once('/').unwrap_or((value, ""));
                (count(mark)? == 0).then_some(())?;
                self.marked = Some(negated);
            }
            _ => return None,
        }
        Some(())
    }
}

/// A port by its number or by its name.
fn service(name: &str) -> Option<u16> {
    name.parse().ok().or_else(|| services::port(name))
}

/// `10.0.0.0/255.0.0.0` as `10.0.0.0/8`; other texts as they are.
fn with_length(address: &str) -> String {
    let mask = address.split_once('/').and_then(|(net, mask)| Some((net, mask.parse::<std::net::Ipv4Addr>().ok()?)));
    match mask {
        Some((net, mask)) if u32::from(mask).leading_ones() == u32::from(mask).count_ones() => {
            format!("{net}/{}", u32::from(mask).leading_ones())
        }
        _ => address.to_owned(),
    }
}

/// Reads a target and its options.
fn target(words: &[&str]) -> Action {
    let Some((&name, options)) = words.split_first() else { return Action::Other };
    let value = |names: &[&str]| options.windows(2).find(|pair| names.contains(&pair[0])).map(|pair| pair[1]);
    let number = |text: &str| {
        let (mark, _) = text.split_once('/').unwrap_or((text, ""));
        count(mark).and_then(|mark| u32::try_from(mark).ok())
    };
    match name {
        "MARK" => match value(&["--set-mark", "--set-xmark"]).and_then(number) {
            Some(mark) => Action::Mark(mark),
            None => Action::Part,
        },
        "CONNMARK" if options.contains(&"--save-mark") => Action::Save,
        "CONNMARK" if options.contains(&"--restore-mark") => Action::Restore,
        "CONNMARK" => match value(&["--set-mark", "--set-xmark"]).and_then(number) {
            Some(mark) => Action::ConnectionMark(mark),
            None => Action::Part,
        },
        "CLASSIFY" => value(&["--set-class"]).and_then(Classid::parse).map_or(Action::Other, Action::Class),
        "RETURN" => Action::Return,
        "ACCEPT" => Action::Accept,
        other if other.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()) && is_extension(other) => {
            Action::Other
        }
        other => Action::Jump(other.to_owned()),
    }
}

/// Targets that leave marks as they are.
fn is_extension(name: &str) -> bool {
    const KNOWN: [&str; 17] = [
        "LOG", "TOS", "DSCP", "TTL", "HL", "TCPMSS", "IMQ", "DROP", "REJECT", "ECN", "NFLOG", "ULOG", "TPROXY", "CT",
        "CHECKSUM", "SET", "TEE",
    ];
    KNOWN.contains(&name)
}
