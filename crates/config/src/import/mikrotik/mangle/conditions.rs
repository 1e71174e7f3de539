//! Conditions of a rule as matches, as far as the match language reaches.

use super::Place;
use crate::import::mikrotik::router::{MAX_NETS, Router};
use crate::import::mikrotik::words::Command;
use crate::import::prefixes;
use crate::matching::Match;

/// A condition on frames.
#[derive(Debug, Default)]
pub(super) struct Condition {
    /// Alternatives; empty if no frame can meet it here.
    pub(super) matches: Vec<Match>,
    /// Description of what the matches leave out.
    pub(super) lacks: Option<String>,
    /// Conditions that were replaced by others, in words.
    pub(super) taken: Vec<String>,
    /// True if a condition that frames do not carry was assumed true.
    pub(super) assumes: bool,
}

/// Properties that say nothing of the frame, or that the walk looks at.
const OTHERS: [&str; 16] = [
    "action",
    "chain",
    "comment",
    "disabled",
    "new-packet-mark",
    "new-connection-mark",
    "connection-mark",
    "packet-mark",
    "connection-state",
    "passthrough",
    "jump-target",
    "log",
    "log-prefix",
    "address-list",
    "new-dscp",
    "address-list-timeout",
];

/// The frames that leave or come in at `place` and meet this rule.
///
/// # Errors
/// The condition that the match language has nothing like.
pub(super) fn of(rule: &Command, router: &Router<'_>, place: Place<'_>) -> Result<Condition, String> {
    conditions(rule, router, Some(place))
}

/// Returns the frames at `place` of connections whose first packet meets this rule: as written, and replies with source
/// and destination exchanged.
///
/// # Errors
/// As [`of`].
pub(super) fn both_ways(rule: &Command, router: &Router<'_>, place: Place<'_>) -> Result<Condition, String> {
    let (from, to) = (interfaces(rule, "in", router)?, interfaces(rule, "out", router)?);
    let at = |wanted: &Option<Vec<&str>>, there: Option<&str>| match (wanted, there) {
        (Some(wanted), Some(there)) => wanted.contains(&there),
        _ => true,
    };
    let differs = |wanted: &Option<Vec<&str>>, there: Option<&str>| match (wanted, there) {
        (Some(wanted), Some(there)) => wanted.iter().any(|wanted| *wanted != there),
        _ => true,
    };
    // Packets of a connection that came in by one interface leave by another, and replies the other way round.
    let there = at(&to, place.out) && differs(&from, place.out) && at(&from, place.into) && differs(&to, place.into);
    let back = at(&from, place.out) && differs(&to, place.out) && at(&to, place.into) && differs(&from, place.into);
    let no_place = place.out.is_none() && place.into.is_none();
    let mut made = conditions(rule, router, no_place.then_some(place))?;
    let turned: Vec<Match> = made.matches.iter().map(Match::turned).collect();
    if !there {
        made.matches.clear();
    }
    if back {
        let new = turned.into_iter().filter(|turned| !made.matches.contains(turned)).collect::<Vec<_>>();
        made.matches.extend(new);
    }
    Ok(made)
}

/// Returns the interfaces that a rule names for one side; `None` if it names none.
fn interfaces<'r>(rule: &'r Command, side: &str, router: &Router<'r>) -> Result<Option<Vec<&'r str>>, String> {
    let (one, list) = (rule.get(&format!("{side}-interface")), rule.get(&format!("{side}-interface-list")));
    let said = |what: &str, value: &str| format!("{side}-interface{what}={value}");
    match (one, list) {
        ("", "") => Ok(None),
        ("", list) => match router.members(list) {
            Some(members) => Ok(Some(members.to_vec())),
            None => Err(said("-list", list)),
        },
        (one, _) if one.starts_with('!') || one.starts_with("all-") => Err(said("", one)),
        (one, _) => Ok(Some(vec![one])),
    }
}

/// The matches of a rule. Without a place its interfaces are not looked at.
fn conditions(rule: &Command, router: &Router<'_>, place: Option<Place<'_>>) -> Result<Condition, String> {
    let mut made = Condition::default();
    let mut conditions: Vec<String> = Vec::new();
    // Of each list, one entry has to hold.
    let mut lists: Vec<Vec<String>> = Vec::new();
    let mut protocol = None;
    if let Some(place) = place {
        for (side, own, other) in [("out", place.out, place.into), ("in", place.into, place.out)] {
            let Some(named) = interfaces(rule, side, router)? else { continue };
            let shown = named.join(",");
            match own {
                Some(own) if named.contains(&own) => continue,
                Some(_) => return Ok(made),
                None => {}
            }
            // No packet leaves by the interface that it came in by.
            if other.is_some_and(|other| named.iter().all(|named| *named == other)) {
                return Ok(made);
            }
            let end = if side == "out" { "dst" } else { "src" };
            match router.nets_at(&named) {
                Some(nets) => {
                    made.taken.push(format!(
                        "{side}-interface={shown}: read as its network (/ip address), without networks routed behind it"
                    ));
                    lists.push(nets.iter().map(|net| format!("{end} net {net}")).collect());
                }
                None if other.is_some() => {
                    made.assumes = true;
                    let (other, verb) =
                        (other.unwrap_or_default(), if side == "in" { "leaves" } else { "comes in by" });
                    made.taken.push(format!(
                        "{side}-interface={shown}: assumed true for all traffic that {verb} {other}, because frames do not carry it; run the gateway between the two"
                    ));
                }
                None => {
                    return Err(format!("{side}-interface={shown}, whose network is not in this file (/ip address)"));
                }
            }
        }
    }
    for property in &rule.properties {
        let value = property.value.as_str();
        let said = || format!("{}={value}", property.name);
        match property.name.as_str() {
            name if OTHERS.contains(&name) => {}
            "in-interface" | "out-interface" | "in-interface-list" | "out-interface-list" => {}
            "src-address-list" | "dst-address-list" => {
                let nets = router.list(value)?;
                let end = &property.name[..3];
                lists.push(nets.nets.iter().map(|net| format!("{end} net {net}")).collect());
                made.lacks = made.lacks.or(nets.lacks);
            }
            _ if value.starts_with('!') => return Err(said()),
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
    let has_ports = rule.properties.iter().any(|property| property.name.ends_with("port"));
    if has_ports && !["tcp", "udp"].contains(&protocol.unwrap_or_default()) {
        return Err("ports without protocol=tcp or protocol=udp".to_owned());
    }
    let mut all = vec![conditions];
    for list in lists {
        if all.len() * list.len() > MAX_MATCHES {
            return Err(format!("more than {MAX_MATCHES} combinations of ports and addresses"));
        }
        all = all
            .iter()
            .flat_map(|head| list.iter().map(move |one| [&head[..], std::slice::from_ref(one)].concat()))
            .collect();
    }
    for conditions in all {
        // Parse every part separately first, to distinguish an invalid part from two that no frame meets together.
        let mut made_of = Match::ANY;
        let mut meets = true;
        for text in &conditions {
            let text =
                if text.contains(" port ") { format!("{} {text}", protocol.unwrap_or_default()) } else { text.clone() };
            let part = Match::parse(&text).map_err(|error| error.to_string())?;
            match made_of.both(&part) {
                Some(both) => made_of = both,
                None => meets = false,
            }
        }
        if meets {
            made.matches.push(made_of);
        }
    }
    Ok(made)
}

/// Most matches of one rule.
const MAX_MATCHES: usize = 2 * MAX_NETS;
