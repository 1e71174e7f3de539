//! Packet marks of `/ip firewall mangle` as matches, as far as the match language reaches.
//!
//! A packet goes through the rules in order. One that marks it lets it go on, so that a later one may mark it again, unless it says
//! `passthrough=no`. In a link file the first match counts. So rules that let packets go on are put in reverse order, behind what follows them.

use super::super::prefixes;
use super::GLOBAL;
use super::words::Command;
use crate::matching::{Match, reversed};
use crate::problem::Span;

/// Packets that get a mark.
#[derive(Debug)]
pub(super) struct Marked {
    pub(super) mark: String,
    pub(super) matches: Vec<String>,
}

/// A rule that cannot be imported.
#[derive(Debug)]
pub(super) struct Untold {
    pub(super) at: Span,
    pub(super) mark: String,
    pub(super) why: String,
}

/// The order in which a packet passes the chains.
const CHAINS: [&str; 5] = ["prerouting", "input", "forward", "output", "postrouting"];

/// What marks packets, in the order in which the first one counts. `interface` is where the queues hang: what leaves by it is what they see.
pub(super) fn read(commands: &[Command], interface: &str) -> (Vec<Marked>, Vec<Untold>) {
    let (mut marked, mut untold) = (Vec::new(), Vec::new());
    let rules = |chain: &'static str| {
        commands.iter().filter(move |rule| {
            rule.section == "ip firewall mangle"
                && rule.verb == "add"
                && rule.get("action") == "mark-packet"
                && rule.get("chain") == chain
                && !rule.is_on("disabled")
        })
    };
    let connections = Connections::of(commands, interface);
    let mut by_connection: Vec<&Command> = Vec::new();
    // What a later chain marks counts.
    for chain in CHAINS.into_iter().rev() {
        let mut last = Vec::new();
        for rule in rules(chain) {
            if !rule.get("connection-mark").is_empty() && connections.asked_by(rule) {
                by_connection.push(rule);
                continue;
            }
            let mark = rule.get("new-packet-mark").to_owned();
            match matches(rule, interface) {
                Ok(matches) if rule.get("passthrough") == "no" => marked.push(Marked { mark, matches }),
                Ok(matches) => last.push(Marked { mark, matches }),
                Err(why) => untold.push(Untold { at: rule.at.clone(), mark, why }),
            }
        }
        marked.extend(last.into_iter().rev());
    }
    marked.extend(connections.marked(&by_connection, interface, &mut untold));
    (marked, untold)
}

/// Connections that get a mark, in the order in which the first one counts. Replies have the mark of their connection.
struct Connections {
    /// The mark and what its packets match.
    all: Vec<(String, Vec<String>)>,
    /// Rules that cannot be read: their mark, where they are, and why.
    failed: Vec<(String, Span, String)>,
}

impl Connections {
    fn of(commands: &[Command], interface: &str) -> Self {
        let (mut all, mut failed) = (Vec::new(), Vec::new());
        for chain in CHAINS.into_iter().rev() {
            // In the order in which the first counts: the mark, its matches, and whether a later rule may still change it.
            let mut here: Vec<(String, Vec<String>, bool)> = Vec::new();
            let mut unmarked = Vec::new();
            let rules: Vec<&Command> = commands
                .iter()
                .filter(|rule| {
                    rule.section == "ip firewall mangle"
                        && rule.verb == "add"
                        && rule.get("chain") == chain
                        && !rule.is_on("disabled")
                })
                .collect();
            for (at, &rule) in rules.iter().enumerate() {
                let ends = rule.get("passthrough") == "no";
                if rule.get("action") == "mark-packet" && ends && is_only_of_a_connection(rule) {
                    // Here packets of these connections leave the chain.
                    let closed = here.iter_mut().filter(|(mark, ..)| mark == rule.get("connection-mark"));
                    closed.for_each(|(.., is_open)| *is_open = false);
                }
                if rule.get("action") != "mark-connection" {
                    continue;
                }
                let mark = rule.get("new-connection-mark").to_owned();
                let asks =
                    |other: &&&Command| other.get("action") == "mark-packet" && other.get("connection-mark") == mark;
                if rules[..at].iter().any(|other| asks(&other)) && !rules[at..].iter().any(|other| asks(&other)) {
                    let why = "a mark of connections that is set behind the rule that asks for it".to_owned();
                    failed.push((mark, rule.at.clone(), why));
                    continue;
                }
                let place = here.iter().position(|(.., is_open)| *is_open).unwrap_or(here.len());
                let is_ordered = here[place..].iter().all(|(.., is_open)| *is_open);
                match both_ways(rule, interface) {
                    Ok(matches) if matches.is_empty() => {}
                    // Only connections without a mark: those before it keep theirs.
                    Ok(matches) if rule.get("connection-mark") == "no-mark" => unmarked.push((mark, matches)),
                    Ok(matches) if is_ordered => here.insert(place, (mark, matches, !ends)),
                    Ok(_) => {
                        // What it takes from those before it cannot be said by an order.
                        let why = "a rule behind those of which some are final and some are not";
                        let open = here[place..].iter().filter(|(.., is_open)| *is_open).map(|(mark, ..)| mark.clone());
                        failed.extend(open.chain([mark]).map(|mark| (mark, rule.at.clone(), why.to_owned())));
                    }
                    Err(why) => failed.push((mark, rule.at.clone(), why)),
                }
            }
            all.extend(here.into_iter().map(|(mark, matches, _)| (mark, matches)));
            all.extend(unmarked);
        }
        Self { all, failed }
    }

    fn asked_by(&self, rule: &Command) -> bool {
        self.all.iter().any(|(mark, _)| mark == rule.get("connection-mark"))
    }

    /// Returns the marks that packet rules set on packets of these connections.
    fn marked(&self, rules: &[&Command], interface: &str, untold: &mut Vec<Untold>) -> Vec<Marked> {
        let mut own: Vec<(&Command, Vec<String>)> = Vec::new();
        for rule in rules {
            for (_, at, why) in self.failed.iter().filter(|(mark, ..)| mark == rule.get("connection-mark")) {
                let mark = rule.get("new-packet-mark").to_owned();
                untold.push(Untold { at: at.clone(), mark, why: why.clone() });
            }
            match matches(&without(rule, &["connection-mark"]), interface) {
                Ok(matches) => own.push((rule, matches)),
                Err(why) => {
                    let mark = rule.get("new-packet-mark").to_owned();
                    untold.push(Untold { at: rule.at.clone(), mark, why });
                }
            }
        }
        let of = |(mark, connection): &(String, Vec<String>)| {
            let Some((rule, matches)) = own.iter().find(|(rule, _)| rule.get("connection-mark") == mark) else {
                // Its packets get no mark, also where a rule behind this one would give them one.
                return Some(Marked { mark: String::new(), matches: connection.clone() });
            };
            let both = |one: &String, other: &String| match (one.as_str(), other.as_str()) {
                ("any", other) | (other, "any") => other.to_owned(),
                (one, other) => format!("{one} {other}"),
            };
            let all = connection.iter().flat_map(|one| matches.iter().map(move |other| both(one, other)));
            // No packet meets both.
            let matches: Vec<String> = all.filter(|text| Match::parse(text).is_ok()).collect();
            Some(Marked { mark: rule.get("new-packet-mark").to_owned(), matches })
        };
        self.all.iter().filter_map(of).filter(|marked| !marked.matches.is_empty()).collect()
    }
}

/// Returns true for a rule that asks for nothing but the mark of a connection.
fn is_only_of_a_connection(rule: &Command) -> bool {
    const SAYS_NOTHING: [&str; 8] =
        ["action", "chain", "comment", "connection-mark", "new-packet-mark", "passthrough", "log", "log-prefix"];
    !rule.get("connection-mark").is_empty()
        && rule.properties.iter().all(|property| SAYS_NOTHING.contains(&property.name.as_str()))
}

/// A rule without some of its properties.
fn without(rule: &Command, names: &[&str]) -> Command {
    let mut rule = rule.clone();
    rule.properties.retain(|property| !names.contains(&property.name.as_str()));
    rule
}

/// The matches of packets that leave by `interface` and belong to connections that a rule marks: of first packets as written, of replies with
/// source and destination exchanged.
fn both_ways(rule: &Command, interface: &str) -> Result<Vec<String>, String> {
    if !["", "new"].contains(&rule.get("connection-state")) {
        return Err(format!("connection-state={}", rule.get("connection-state")));
    }
    if !["", "no-mark"].contains(&rule.get("connection-mark")) {
        return Err(format!("connection-mark={}", rule.get("connection-mark")));
    }
    let names = ["connection-state", "connection-mark", "new-connection-mark", "in-interface", "out-interface"];
    let (from, to) = (rule.get("in-interface"), rule.get("out-interface"));
    if interface == GLOBAL && !(from.is_empty() && to.is_empty()) {
        return Err(if from.is_empty() { format!("out-interface={to}") } else { format!("in-interface={from}") });
    }
    let there = matches(&without(rule, &names), interface)?;
    let mut all = Vec::new();
    if from != interface && (to.is_empty() || to == interface) {
        all.extend(there.iter().cloned());
    }
    if to != interface && (from.is_empty() || from == interface) {
        all.extend(
            there
                .iter()
                .map(|text| reversed(text))
                .filter(|text| !there.contains(text) || all.is_empty())
                .collect::<Vec<_>>(),
        );
    }
    Ok(all)
}

/// The matches of a rule, of which any may hold.
fn matches(rule: &Command, interface: &str) -> Result<Vec<String>, String> {
    let mut conditions: Vec<String> = Vec::new();
    // Of each list, one entry has to hold.
    let mut lists: Vec<Vec<String>> = Vec::new();
    let mut protocol = None;
    for property in &rule.properties {
        let value = property.value.as_str();
        let said = || format!("{}={value}", property.name);
        if value.starts_with('!') {
            return Err(said());
        }
        match property.name.as_str() {
            "action" | "chain" | "comment" | "disabled" | "new-packet-mark" | "passthrough" | "log" | "log-prefix" => {}
            "out-interface" if value == interface => {}
            "in-interface" if ![GLOBAL, interface].contains(&value) && interface != GLOBAL => {}
            "protocol" => {
                protocol = Some(value);
                conditions.push(match value {
                    "tcp" | "udp" | "icmp" => value.to_owned(),
                    "icmpv6" => "icmp6".to_owned(),
                    "gre" => "proto 47".to_owned(),
                    "ipsec-esp" => "proto 50".to_owned(),
                    "ipsec-ah" => "proto 51".to_owned(),
                    number if number.parse::<u8>().is_ok() => format!("proto {number}"),
                    _ => return Err(said()),
                });
            }
            "src-address" | "dst-address" => {
                let (prefix, _) = prefixes::parse(value).ok_or_else(said)?;
                conditions.push(format!("{} net {prefix}", &property.name[..3]));
            }
            "src-port" | "dst-port" => {
                lists.push(value.split(',').map(|port| format!("{} port {port}", &property.name[..3])).collect());
            }
            "port" => {
                let either = |port| ["src", "dst"].map(|side| format!("{side} port {port}"));
                lists.push(value.split(',').flat_map(either).collect());
            }
            "dscp" => conditions.push(format!("dscp {value}")),
            _ => return Err(said()),
        }
    }
    if !lists.is_empty() && !["tcp", "udp"].contains(&protocol.unwrap_or_default()) {
        return Err("ports without protocol=tcp or protocol=udp".to_owned());
    }
    let mut all = vec![conditions];
    for list in lists {
        if all.len() * list.len() > MAX_MATCHES {
            return Err(format!("more than {MAX_MATCHES} combinations of ports"));
        }
        all = all
            .iter()
            .flat_map(|head| list.iter().map(move |one| [&head[..], std::slice::from_ref(one)].concat()))
            .collect();
    }
    let texts: Vec<String> = all
        .into_iter()
        .map(|conditions| if conditions.is_empty() { "any".to_owned() } else { conditions.join(" ") })
        .collect();
    for text in &texts {
        Match::parse(text).map_err(|error| error.to_string())?;
    }
    Ok(texts)
}

/// Most matches of one rule.
const MAX_MATCHES: usize = 200;
