//! Packet marks of `/ip firewall mangle` as matches, as far as the match language reaches.
//!
//! A packet goes through the rules in order. One that marks it lets it go on, so that a later one may mark it again, unless it says
//! `passthrough=no`. In a link file the first match counts. So rules that let packets go on are put in reverse order, behind what follows them.

use super::super::prefixes;
use super::words::Command;
use crate::matching::Match;
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
    // What a later chain marks counts.
    for chain in CHAINS.into_iter().rev() {
        let mut last = Vec::new();
        for rule in rules(chain) {
            let mark = rule.get("new-packet-mark").to_owned();
            match matches(rule, interface) {
                Ok(matches) if rule.get("passthrough") == "no" => marked.push(Marked { mark, matches }),
                Ok(matches) => last.push(Marked { mark, matches }),
                Err(why) => untold.push(Untold { at: rule.at.clone(), mark, why }),
            }
        }
        marked.extend(last.into_iter().rev());
    }
    (marked, untold)
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
