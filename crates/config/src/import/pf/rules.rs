//! `pass` and `match` rules, which assign frames of an interface to queues.
//!
//! ALTQ queues traffic that an interface sends. A rule with state sets the queue of a connection, in both directions
//! and on every interface. So a rule for incoming packets applies to the replies that leave the interface.

use super::Reading;
use super::queues::Tree;
use super::words::{Cursor, Statement};
use crate::import::notes::wrong;
use crate::import::prefixes;
use crate::matching::{Match, Prefix};
use crate::problem::{Log, Span};
use crate::services;

/// Most matches of a rule, and of an interface.
const MAX_MATCHES: usize = 4096;
const MAX_ALL: usize = 20_000;

/// An address of a rule.
#[derive(Clone, Debug, PartialEq)]
enum Address {
    Any,
    Net(Prefix),
}

/// Ports from the first to the last.
type Ports = (u16, u16);

/// A rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) queue: Option<(String, Span)>,
    /// `match`: it says nothing of passing, and a later rule without a queue does not overrule it.
    is_match: bool,
    quick: bool,
    /// `in` or `out`; both when absent.
    incoming: Option<bool>,
    interfaces: Vec<String>,
    version: Option<&'static str>,
    protos: Vec<String>,
    from: Vec<Address>,
    to: Vec<Address>,
    sports: Vec<Ports>,
    dports: Vec<Ports>,
    at: Span,
}

/// A match of a leaf, or of the default queue.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Position of the class.
    pub(super) class: usize,
    pub(super) text: String,
    pub(super) is: Match,
    pub(super) at: Span,
}

/// Words with one argument that do not select frames.
const SKIPPED_WITH_ONE: [&str; 9] =
    ["flags", "label", "tag", "rtable", "route-to", "reply-to", "dup-to", "ridentifier", "divert-to"];
/// Words that select frames by what frames do not carry, or matches cannot express.
const NARROWING: [&str; 16] = [
    "user",
    "group",
    "tagged",
    "!tagged",
    "os",
    "tos",
    "icmp-type",
    "icmp6-type",
    "probability",
    "received-on",
    "fragment",
    "prio",
    "rdomain",
    "once",
    "max-pkt-rate",
    "!",
];

/// Reads a rule. `None` if it is invalid (see the log) or left out (see the notes).
pub(super) fn rule(statement: &Statement, reading: &mut Reading<'_>) -> Option<Rule> {
    let mut words = Cursor::new(statement);
    let mut rule = Rule {
        queue: None,
        is_match: statement.first() == "match",
        quick: false,
        incoming: None,
        interfaces: Vec::new(),
        version: None,
        protos: Vec::new(),
        from: vec![Address::Any],
        to: vec![Address::Any],
        sports: Vec::new(),
        dports: Vec::new(),
        at: statement.at.clone(),
    };
    let mut untold = None;
    while !words.is_done() {
        let at = words.span();
        let word = words.peek();
        match word {
            "in" | "out" => rule.incoming = Some(word == "in"),
            "quick" => rule.quick = true,
            "inet" => rule.version = Some("ip"),
            "inet6" => rule.version = Some("ip6"),
            "all" | "allow-opts" => {}
            "from" | "to" => {
                words.next();
                let (addresses, ports) = host(&mut words, &mut untold, &mut reading.log)?;
                if word == "from" {
                    (rule.from, rule.sports) = (addresses, ports);
                } else {
                    (rule.to, rule.dports) = (addresses, ports);
                }
                continue;
            }
            "on" => {
                words.next();
                if words.peek() == "!" {
                    untold.get_or_insert_with(|| "an interface that it is not".to_owned());
                    words.next();
                }
                rule.interfaces =
                    words.list(&mut reading.log, |words, log| Some(words.name("an interface", log)?.text.clone()))?;
                continue;
            }
            "proto" => {
                words.next();
                rule.protos =
                    words.list(&mut reading.log, |words, log| Some(words.name("a protocol", log)?.text.clone()))?;
                continue;
            }
            "port" => {
                // Without from or to: the port of the destination is not meant; pfctl refuses it.
                wrong(at, "\"port\" without from or to", "write: to any port 80", &mut reading.log);
                return None;
            }
            "queue" => {
                words.next();
                let several = words.take("(");
                let name = words.name("the name of a queue", &mut reading.log)?;
                rule.queue = Some((name.text.clone(), name.at.clone()));
                if several {
                    words.take(",");
                    if !words.take(")") {
                        words.name("the name of a queue", &mut reading.log)?;
                        reading.tallies.second_queue.add(&statement.at);
                        words.expect(")", &mut reading.log)?;
                    }
                }
                continue;
            }
            "log" => {
                words.next();
                if words.peek() == "(" {
                    words.skip();
                }
                continue;
            }
            "keep" | "modulate" | "synproxy" | "no" => {
                words.next();
                words.expect("state", &mut reading.log)?;
                if words.peek() == "(" {
                    words.skip();
                }
                continue;
            }
            _ if SKIPPED_WITH_ONE.contains(&word) => {
                words.next();
                words.skip();
                continue;
            }
            _ if NARROWING.contains(&word) => {
                untold.get_or_insert_with(|| format!("\"{word}\""));
                // The following words belong to it, up to the next known keyword.
                words.next();
                while !words.is_done()
                    && !["queue", "from", "to", "keep", "flags", "on", "proto"].contains(&words.peek())
                {
                    words.skip();
                }
                continue;
            }
            _ => {
                let help = "words of a rule are in, out, quick, on, inet, inet6, proto, from, to, port, flags, state, queue and others of pf.conf(5)";
                wrong(at, format!("\"{word}\" is not a word of a rule"), help, &mut reading.log);
                return None;
            }
        }
        words.next();
    }
    match untold {
        Some(why) if rule.queue.is_some() => {
            let what = format!("a rule that assigns a queue is not expressible as a match: {why}");
            reading.notes.left_out(reading.source, Some(rule.at), what);
            None
        }
        // Without a queue, its conditions are unknown, and the surrounding rules decide.
        Some(_) => None,
        None => Some(rule),
    }
}

/// Addresses and ports behind `from` or `to`.
fn host(words: &mut Cursor<'_>, untold: &mut Option<String>, log: &mut Log) -> Option<(Vec<Address>, Vec<Ports>)> {
    let mut addresses = vec![Address::Any];
    if words.peek() != "port" {
        addresses = words
            .list(log, |words, log| {
                let text = words.peek();
                match text {
                    "!" | "<" | "(" => {
                        untold.get_or_insert_with(|| match text {
                            "!" => "addresses that are not these".to_owned(),
                            "<" => "a table of addresses".to_owned(),
                            _ => "the address of an interface".to_owned(),
                        });
                        words.take("!");
                        if words.take("<") {
                            words.name("the name of a table", log)?;
                            words.expect(">", log)?;
                        } else {
                            words.skip();
                        }
                        Some(Address::Any)
                    }
                    "any" => words.next().map(|_| Address::Any),
                    _ => {
                        let word = words.name("an address", log)?;
                        match prefixes::parse(&word.text) {
                            Some((prefix, _)) if prefix.is_all() => Some(Address::Any),
                            Some((prefix, _)) => Some(Address::Net(prefix)),
                            None => {
                                untold.get_or_insert_with(|| {
                                    format!("\"{}\", a name whose addresses are not in this file", word.text)
                                });
                                Some(Address::Any)
                            }
                        }
                    }
                }
            })?
            .into_iter()
            .collect();
    }
    let mut all = Vec::new();
    if words.take("port") {
        for several in words.list(log, ports)? {
            all.extend(several);
        }
    }
    Some((addresses, all))
}

/// `80`, `http`, `6000:6010`, `>= 1024`, `!= 22`, `1024 >< 2048`.
fn ports(words: &mut Cursor<'_>, log: &mut Log) -> Option<Vec<Ports>> {
    let sign = ["=", "!=", "<", "<=", ">", ">="].into_iter().find(|&sign| words.take(sign));
    let at = words.span();
    let word = words.name("a port", log)?;
    let end = |text: &str| {
        let known = services::port(text);
        known.or_else(|| text.parse().ok())
    };
    let range = word.text.split_once(':').map(|(first, last)| {
        let of = |text: &str, open| if text.is_empty() { Some(open) } else { end(text) };
        of(first, 0).zip(of(last, u16::MAX))
    });
    let made = match (sign, range) {
        (None, Some(range)) => range.map(|range| vec![range]),
        (Some(_), Some(_)) => None,
        (sign, None) => end(&word.text).and_then(|port| {
            let below = |port: u16| port.checked_sub(1).map(|last| (0, last));
            let above = |port: u16| port.checked_add(1).map(|first| (first, u16::MAX));
            if let Some(between) = ["><", "<>"].into_iter().find(|&sign| words.take(sign)) {
                let last = end(&words.next()?.text)?;
                let (low, high) = (port.min(last), port.max(last));
                return Some(match between {
                    "><" => vec![(low.saturating_add(1), high.saturating_sub(1))],
                    _ => below(low).into_iter().chain(above(high)).collect(),
                });
            }
            Some(match sign {
                None | Some("=") => vec![(port, port)],
                Some("<") => below(port).into_iter().collect(),
                Some("<=") => vec![(0, port)],
                Some(">") => above(port).into_iter().collect(),
                Some(">=") => vec![(port, u16::MAX)],
                _ => below(port).into_iter().chain(above(port)).collect(),
            })
        }),
    };
    let made = made.filter(|ranges| !ranges.is_empty() && ranges.iter().all(|(first, last)| first <= last));
    if made.is_none() {
        let what = format!("\"{}\" is not a known port", word.text);
        wrong(at, what, "write a number, a common service name, or a range such as 6000:6010", log);
    }
    made
}

impl Rule {
    /// Returns true if the frames that `interface` sends are meant as they are written, and whether the other way
    /// round.
    fn ways(&self, interface: &str) -> [bool; 2] {
        let here = self.interfaces.is_empty() || self.interfaces.iter().any(|name| name == interface);
        let elsewhere = self.interfaces.is_empty() || self.interfaces.iter().any(|name| name != interface);
        let (incoming, outgoing) = (self.incoming != Some(false), self.incoming != Some(true));
        // Traffic received elsewhere leaves here unchanged; traffic received here leaves as replies.
        [here && outgoing || elsewhere && incoming, here && incoming || elsewhere && outgoing]
    }

    /// The texts of its matches, as they are written or the other way round.
    fn texts(&self, reversed: bool) -> Vec<String> {
        let (from, to, sports, dports) = if reversed {
            (&self.to, &self.from, &self.dports, &self.sports)
        } else {
            (&self.from, &self.to, &self.sports, &self.dports)
        };
        let net = |side: &str, address: &Address| match address {
            Address::Any => String::new(),
            Address::Net(prefix) => format!("{side} net {prefix}"),
        };
        let port =
            |side: &str, ports: &[Ports]| match ports {
                [] => vec![String::new()],
                ports => ports
                    .iter()
                    .map(|(first, last)| {
                        if first == last {
                            format!("{side} port {first}")
                        } else {
                            format!("{side} port {first}-{last}")
                        }
                    })
                    .collect(),
            };
        let protos = match &self.protos[..] {
            [] => vec![String::new()],
            protos => protos.iter().map(|proto| protocol(proto)).collect(),
        };
        let parts: [Vec<String>; 6] = [
            vec![self.version.unwrap_or("").to_owned()],
            protos,
            from.iter().map(|address| net("src", address)).collect(),
            port("src", sports),
            to.iter().map(|address| net("dst", address)).collect(),
            port("dst", dports),
        ];
        let mut texts = vec![String::new()];
        for part in parts {
            if texts.len() * part.len() > MAX_MATCHES {
                return Vec::new();
            }
            texts = texts
                .iter()
                .flat_map(|text| {
                    part.iter().map(move |more| {
                        if text.is_empty() || more.is_empty() {
                            format!("{text}{more}")
                        } else {
                            format!("{text} {more}")
                        }
                    })
                })
                .collect();
        }
        texts.into_iter().map(|text| if text.is_empty() { "any".to_owned() } else { text }).collect()
    }
}

/// A protocol as a link file has it.
fn protocol(name: &str) -> String {
    let number = match name {
        "tcp" | "udp" | "icmp" => return name.to_owned(),
        "icmp6" | "ipv6-icmp" => return "icmp6".to_owned(),
        "igmp" => 2,
        "gre" => 47,
        "esp" => 50,
        "ah" => 51,
        "ospf" => 89,
        "carp" | "vrrp" => 112,
        "pfsync" => 240,
        "sctp" => 132,
        other => return format!("proto {other}"),
    };
    format!("proto {number}")
}

/// The matches of an interface in the order in which they count: the first with `quick`, then the last without.
pub(super) fn matches(interface: &str, tree: &Tree, rules: &[Rule], reading: &mut Reading<'_>) -> Vec<Found> {
    let sticky = rules.iter().any(|rule| rule.is_match && rule.queue.is_some());
    let counts = |rule: &&Rule| match rule.queue {
        Some(_) => true,
        // Frames of such a rule use the default queue, unless a match rule has set one.
        None => !rule.is_match && !sticky,
    };
    let quick = rules.iter().filter(counts).filter(|rule| rule.quick && !rule.is_match);
    let others = rules.iter().rev().filter(counts).filter(|rule| !rule.quick || rule.is_match);
    let mut found = Vec::new();
    for rule in quick.chain(others) {
        let class = match &rule.queue {
            None => tree.default,
            Some((name, _)) => match tree.classes.iter().position(|class| class.name == *name) {
                Some(class) if !tree.classes[class].inner => class,
                Some(_) => {
                    let what = format!(
                        "a rule for the queue \"{name}\", which has queues below it: its frames use the default queue"
                    );
                    reading.notes.left_out(reading.source, Some(rule.at.clone()), what);
                    continue;
                }
                // A queue of another interface.
                None => continue,
            },
        };
        let [written, reversed] = rule.ways(interface);
        let mut texts = if written { rule.texts(false) } else { Vec::new() };
        if reversed {
            let more = rule.texts(true);
            texts.extend(more.into_iter().filter(|text| !texts.contains(text)).collect::<Vec<_>>());
        }
        if texts.is_empty() && (written || reversed) {
            let what = format!("this rule expands to more than {MAX_MATCHES} matches");
            wrong(rule.at.clone(), what, "write fewer addresses and ports in one rule", &mut reading.log);
        }
        if found.len() + texts.len() > MAX_ALL {
            let what = format!("the rules up to this one expand to more than {MAX_ALL} matches");
            wrong(rule.at.clone(), what, "write fewer addresses and ports", &mut reading.log);
            break;
        }
        for text in texts {
            match Match::parse(&text) {
                Ok(is) => found.push(Found { class, text, is, at: rule.at.clone() }),
                Err(error) => {
                    let what = format!("this rule becomes the invalid match \"{text}\": {error}");
                    wrong(rule.at.clone(), what, "write a rule that frame headers can decide", &mut reading.log);
                }
            }
        }
    }
    found
}
