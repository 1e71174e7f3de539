//! Rules of iptables and ip6tables.

use super::{Action, ChainName, Change, Conditions, Firewall, Interface, Rule, Test};
use crate::classid::Classid;
use crate::commands::filter::{code_points, prefix};
use crate::commands::options::count;
use crate::problem::Span;
use crate::services;

/// Returns the priority of a table within a hook; `None` for one whose rules see only the first packet of a connection.
pub(super) fn priority(table: &str) -> Option<i64> {
    match table {
        "raw" => Some(-300),
        "mangle" => Some(-150),
        "filter" => Some(0),
        _ => None,
    }
}

/// Reads a command, without the name of the program. Returns its error.
pub(super) fn command(firewall: &mut Firewall, words: &[&str], family: &'static str, at: &Span) -> Option<String> {
    let table = words.windows(2).find(|pair| ["-t", "--table"].contains(&pair[0])).map_or("filter", |pair| pair[1]);
    let verb = words.iter().position(|word| {
        let name = word.trim_start_matches('-');
        word.starts_with('-') && ["A", "append", "I", "insert", "D", "delete", "F", "flush", "X"].contains(&name)
    })?;
    let name = words.get(verb + 1).copied();
    let chain =
        |name: &str| ChainName { family: family.to_owned(), table: format!("-t {table}"), chain: name.to_owned() };
    match (words[verb].trim_start_matches('-'), name) {
        ("F" | "flush" | "X", None) => {
            let of = chain("");
            firewall.chains.retain(|name, _| name.family != of.family || name.table != of.table);
        }
        ("F" | "flush" | "X", Some(name)) => _ = firewall.chains.remove(&chain(name)),
        ("A" | "append", Some(name)) => {
            let rule = rule(&words[verb + 2..], family, at.clone());
            let found = unfollowed(&rule, table);
            firewall.chains.entry(chain(name)).or_default().push(rule);
            return found;
        }
        ("I" | "insert", Some(name)) => {
            let place = words.get(verb + 2).and_then(|word| word.parse::<usize>().ok());
            let rule = rule(&words[verb + 2 + usize::from(place.is_some())..], family, at.clone());
            let found = unfollowed(&rule, table);
            let chain = firewall.chains.entry(chain(name)).or_default();
            chain.insert((place.unwrap_or(1).max(1) - 1).min(chain.len()), rule);
            return found;
        }
        ("D" | "delete", Some(name)) => {
            let rule = rule(&words[verb + 2..], family, at.clone());
            let chain = firewall.chains.entry(chain(name)).or_default();
            match chain.iter().position(|other| other.text == rule.text) {
                Some(place) => _ = chain.remove(place),
                None if chain.is_empty() => {}
                None => return Some("a deleted rule does not exist in the same words".to_owned()),
            }
        }
        _ => {}
    }
    None
}

/// Reports a rule of an unsupported table that would set a mark.
fn unfollowed(rule: &Rule, table: &str) -> Option<String> {
    let why = || format!("WARNING: a rule of the table {table} that sets a mark is not followed");
    (rule.sets() && priority(table).is_none()).then(why)
}

/// The conditions of a rule's options, one after the other.
#[derive(Default)]
struct Options {
    conditions: Conditions,
    untold: Option<String>,
    input: Option<Interface>,
    output: Option<Interface>,
    tests: Vec<Test>,
    /// The last module that `-m` named.
    module: String,
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
    let mut actions = Vec::new();
    let mut words_left = words.iter().copied().peekable();
    let mut negated = false;
    while let Some(word) = words_left.next() {
        if word == "!" {
            negated = true;
            continue;
        }
        if ["-j", "--jump", "-g", "--goto"].contains(&word) {
            let goes = ["-g", "--goto"].contains(&word);
            match target(&words_left.by_ref().collect::<Vec<_>>()) {
                Ok(Some(Action::Jump(to))) if goes => actions.push(Action::Goto(to)),
                Ok(found) => actions.extend(found),
                Err(_) => actions.push(Action::Unknown),
            }
            break;
        }
        // They may stand behind the chain, too, and are no conditions.
        if ["-t", "--table", "-w", "--wait"].contains(&word) {
            words_left.next_if(|next| !next.starts_with('-'));
            continue;
        }
        // Options of the match come before their values, and some have none.
        let mut value = words_left.next_if(|next| !next.starts_with('-') || *next == "-").unwrap_or_default();
        if value == "!" {
            negated = true;
            value = words_left.next().unwrap_or_default();
        }
        // A second value: `--tcp-flags SYN,RST SYN`.
        let second = words_left.next_if(|next| word == "--tcp-flags" && !next.starts_with('-')).unwrap_or_default();
        let negated = std::mem::take(&mut negated);
        if options.condition(word, value, negated, family).is_none() {
            let not = if negated { "! " } else { "" };
            let text = format!("{not}{word} {value} {second}");
            options.untold.get_or_insert(format!("\"{}\"", text.trim()));
        }
    }
    let text = words.join(" ");
    let Options { conditions, untold, input, output, tests, .. } = options;
    Rule { at, text, conditions: untold.map_or(Ok(conditions), Err), input, output, tests, actions }
}

impl Options {
    /// Reads a condition; `None` if it is not expressible as a match.
    fn condition(&mut self, option: &str, value: &str, negated: bool, family: &'static str) -> Option<()> {
        let name = option.trim_start_matches('-');
        let mut holds = |list: Vec<String>| match negated {
            true => self.conditions.not.extend(list),
            false => self.conditions.lists.push(list),
        };
        match name {
            // The following words decide.
            "m" | "match" => value.clone_into(&mut self.module),
            "comment" => {}
            "i" | "in-interface" | "o" | "out-interface" => {
                let found = Some(Interface { names: vec![value.to_owned()], negated });
                *(if name.starts_with('i') { &mut self.input } else { &mut self.output }) = found;
            }
            "p" | "protocol" | "proto" => {
                let protocol = protocol(value)?;
                if protocol.is_empty() && negated {
                    return None;
                }
                if !protocol.is_empty() {
                    holds(vec![protocol]);
                }
            }
            "s" | "source" | "src" | "d" | "destination" | "dst" => {
                let side = if name.starts_with('s') { "src" } else { "dst" };
                let one = |address: &str| prefix(&with_length(address), family == "ip6").ok();
                let all: Option<Vec<String>> =
                    value.split(',').map(|address| one(address).map(|net| format!("{side} {net}"))).collect();
                holds(all?);
            }
            "sport" | "source-port" | "dport" | "destination-port" | "sports" | "source-ports" | "dports"
            | "destination-ports" | "ports" => {
                let sides: &[&str] = match name.as_bytes()[0] {
                    b's' => &["src"],
                    b'd' => &["dst"],
                    _ => &["src", "dst"],
                };
                let ranges: Vec<String> = value.split(',').map(|range| ports(range, ':')).collect::<Option<_>>()?;
                let both =
                    |range: &String| sides.iter().map(move |side| format!("{side} port {range}")).collect::<Vec<_>>();
                holds(ranges.iter().flat_map(both).collect());
            }
            "dscp" => holds(vec![format!("dscp {}", count(value)?)]),
            "dscp-class" => holds(vec![format!("dscp {}", value.to_ascii_lowercase())]),
            "tos" => {
                let (value, mask) = type_of_service(value)?;
                // Frames with bits of ECN are taken, too.
                let points = if value & mask & 3 == 0 { code_points(value, mask) } else { Vec::new() };
                if points.is_empty() {
                    return None;
                }
                holds(points.iter().map(|point| format!("dscp {point}")).collect());
            }
            "mark" if ["mark", "connmark", ""].contains(&self.module.as_str()) => {
                let (value, mask) = masked(value)?;
                self.tests.push(Test { of_connection: self.module == "connmark", value, mask, negated });
            }
            _ => return None,
        }
        Some(())
    }
}

/// A type of service and its mask (xt_tos); names stand for their bits under the mask 0x3f.
fn type_of_service(text: &str) -> Option<(u32, u32)> {
    let (value, mask) = text.split_once('/').map_or((text, None), |(value, mask)| (value, Some(mask)));
    let named = match value.to_ascii_lowercase().as_str() {
        "minimize-delay" => Some(0x10),
        "maximize-throughput" => Some(0x08),
        "maximize-reliability" => Some(0x04),
        "minimize-cost" => Some(0x02),
        "normal-service" => Some(0),
        _ => None,
    };
    match (named, mask) {
        (Some(value), None) => Some((value, 0x3f)),
        (None, None) => Some((number(value)?, 0xff)),
        (None, Some(mask)) => Some((number(value)?, number(mask)?)),
        (Some(_), Some(_)) => None,
    }
}

/// A protocol as a condition, which is empty for all of them.
pub(super) fn protocol(name: &str) -> Option<String> {
    Some(match name.to_ascii_lowercase().as_str() {
        "all" | "0" => String::new(),
        known @ ("tcp" | "udp" | "icmp") => known.to_owned(),
        "icmpv6" | "ipv6-icmp" => "icmp6".to_owned(),
        "gre" => "proto 47".to_owned(),
        "esp" => "proto 50".to_owned(),
        "ah" => "proto 51".to_owned(),
        number => format!("proto {}", number.parse::<u8>().ok()?),
    })
}

/// A port, or a range of ports with a sign between them, by number or name.
pub(super) fn ports(range: &str, between: char) -> Option<String> {
    let service = |name: &str| name.parse::<u16>().ok().or_else(|| services::port(name));
    let (first, last) = match service(range) {
        Some(port) => (port, port),
        None => {
            let (first, last) = range.split_once(between)?;
            let first = if first.is_empty() { 0 } else { service(first)? };
            (first, if last.is_empty() { u16::MAX } else { service(last)? })
        }
    };
    (first <= last).then(|| if first == last { first.to_string() } else { format!("{first}-{last}") })
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

/// `0x10` or `0x10/0xff`.
fn masked(text: &str) -> Option<(u32, u32)> {
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    Some((number(value)?, number(mask)?))
}

/// A number of 32 bits.
pub(super) fn number(text: &str) -> Option<u32> {
    count(&text.to_ascii_lowercase()).and_then(|number| u32::try_from(number).ok())
}

/// Reads a target and its options. `None` for one that does not change marks.
///
/// # Errors
/// The unsupported part of a target that sets a mark, in words.
fn target(words: &[&str]) -> Result<Option<Action>, String> {
    let Some((&name, options)) = words.split_first() else { return Ok(None) };
    let value = |wanted: &str| options.windows(2).find(|pair| pair[0] == wanted).map(|pair| pair[1]);
    let wrong = || format!("\"{}\"", words.join(" "));
    let change = || -> Result<Change, String> {
        let found = if let Some(text) = value("--set-xmark") {
            masked(text).map(|(value, mask)| Change { mask, value })
        } else if let Some(text) = value("--set-mark") {
            masked(text).map(|(value, mask)| Change { mask: mask | value, value })
        } else if let Some(text) = value("--and-mark") {
            number(text).map(|bits| Change::and_or(bits, 0))
        } else if let Some(text) = value("--or-mark") {
            number(text).map(|bits| Change::and_or(u32::MAX, bits))
        } else {
            value("--xor-mark").and_then(number).map(|bits| Change { mask: 0, value: bits })
        };
        found.ok_or_else(wrong)
    };
    let masks = || -> Result<(u32, u32), String> {
        let of = |name: &str| value(name).or_else(|| value("--mask")).map_or(Some(u32::MAX), number).ok_or_else(wrong);
        Ok((of("--nfmask")?, of("--ctmask")?))
    };
    Ok(Some(match name {
        "MARK" => Action::Mark(change()?),
        "CONNMARK" if options.contains(&"--save-mark") => {
            let (frame, connection) = masks()?;
            Action::Save { frame, connection }
        }
        "CONNMARK" if options.contains(&"--restore-mark") => {
            let (frame, connection) = masks()?;
            Action::Restore { frame, connection }
        }
        "CONNMARK" => Action::Connection(change()?),
        "CLASSIFY" => Action::Class(Some(value("--set-class").and_then(Classid::parse).ok_or_else(wrong)?)),
        "RETURN" => Action::Return,
        "ACCEPT" => Action::Accept,
        other if is_extension(other) => return Ok(None),
        other => Action::Jump(other.to_owned()),
    }))
}

/// Targets that leave marks as they are.
fn is_extension(name: &str) -> bool {
    const KNOWN: [&str; 24] = [
        "LOG",
        "TOS",
        "DSCP",
        "TTL",
        "HL",
        "TCPMSS",
        "IMQ",
        "DROP",
        "REJECT",
        "ECN",
        "NFLOG",
        "ULOG",
        "TPROXY",
        "CT",
        "CHECKSUM",
        "SET",
        "TEE",
        "NOTRACK",
        "TRACE",
        "QUEUE",
        "NFQUEUE",
        "MASQUERADE",
        "SNAT",
        "DNAT",
    ];
    KNOWN.contains(&name)
}
