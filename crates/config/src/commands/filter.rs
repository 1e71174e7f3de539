//! Filters that are expressible as matches: `u32` on the named fields and on the words that the kernel prints for them,
//! `flower` and `matchall`. A filter with any other condition is left out as a whole, with a note: without that
//! condition, the match would take other frames.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::classid::Classid;
use crate::commands::findings::{changed, left_out, wrong};
use crate::commands::options::{Words, count};
use crate::commands::setup::Filter;
use crate::commands::words::Word;
use crate::matching::{MAX_DSCP, Mac, Match};
use crate::problem::{Log, Problem, Span};

/// Conditions of a match, or the part that is not expressible. A code point may have alternatives (`dscp 4,20`), each
/// of which becomes a match, and [`ECN`] is not a condition of matches.
type Conditions = Result<Vec<String>, String>;

/// The filter asks for frames without ECN.
const ECN: &str = "ecn";

/// Reads the words after the kind, of a filter with this protocol and preference: a match, or several alternatives.
/// `None` if it is left out or invalid; notes or the log have the reason.
pub(super) fn read(
    (protocol_word, preference): (Option<&Word>, Option<u64>),
    kind: &Word,
    words: &mut Words<'_>,
    whole: &Span,
    log: &mut Log,
    notes: &mut Vec<Problem>,
) -> Option<Vec<Filter>> {
    const KINDS: [&str; 10] = ["u32", "flower", "matchall", "fw", "basic", "route", "bpf", "cgroup", "flow", "tcindex"];
    if !KINDS.contains(&kind.text.as_str()) {
        let why = format!("there is no kind of filter \"{}\"; there are: {}", kind.text, KINDS.join(", "));
        wrong(&kind.at, why, None, log);
        return None;
    }
    let mut class = None;
    let mut conditions: Conditions = protocol(protocol_word.map(|word| word.text.as_str()));
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "flowid" | "classid" => {
                class = Some(words.read(word, Classid::parse, "write 1:2, hexadecimal", log)?);
            }
            "action" | "police" => {
                let rest = words.rest();
                // A policer is reported when all filters of its class are known.
                if word.text != "police" && !rest.iter().any(|word| word.text == "police") {
                    let why = format!("\"{}\" of this filter has no counterpart", word.text);
                    left_out(&word.at, why, log, notes);
                }
                let target = rest.windows(2).find(|pair| ["flowid", "classid"].contains(&pair[0].text.as_str()));
                class = class.or_else(|| Classid::parse(&target?[1].text));
            }
            option => {
                let more = match kind.text.as_str() {
                    "u32" => u32_option(option, words),
                    "flower" => flower_option(option, words),
                    "matchall" if ["skip_hw", "skip_sw"].contains(&option) => Ok(Vec::new()),
                    "matchall" => Err(format!("\"{option}\" of matchall")),
                    "fw" => Err("a firewall mark, which frames do not carry".to_owned()),
                    other => Err(format!("\"{other}\"")),
                };
                conditions = join(conditions, more);
            }
        }
    }
    if kind.text == "fw" && conditions.is_ok() {
        conditions = Err("a firewall mark, which frames do not carry".to_owned());
    }
    let Some(class) = class else {
        left_out(whole, "a filter that names no class is left out".to_owned(), log, notes);
        return None;
    };
    let mut conditions = match conditions {
        Err(what) => {
            let why = format!("a filter to {class} is left out: not expressible as a match: {what}");
            left_out(whole, why, log, notes);
            return None;
        }
        Ok(conditions) => conditions,
    };
    let asked = conditions.len();
    conditions.retain(|condition| condition != ECN);
    if conditions.len() < asked {
        changed(whole, "the two ECN bits are ignored: frames with them match, too".to_owned(), log, notes);
    }
    let mut made = Vec::new();
    for text in alternatives(&conditions) {
        match Match::parse(&text) {
            Ok(found) => {
                made.push(Filter { at: whole.clone(), preference: preference.unwrap_or(u64::MAX), class, made: found })
            }
            Err(error) => {
                let why = format!("a filter to {class} is left out: it becomes the invalid match \"{text}\": {error}");
                left_out(whole, why, log, notes);
                return None;
            }
        }
    }
    Some(made)
}

/// The matches of conditions: one for each code point.
fn alternatives(conditions: &[String]) -> Vec<String> {
    if conditions.is_empty() {
        return vec!["any".to_owned()];
    }
    let mut all = vec![String::new()];
    for condition in conditions {
        let points = condition.strip_prefix("dscp ").filter(|points| points.contains(','));
        let each: Vec<String> = match points {
            Some(points) => points.split(',').map(|point| format!("dscp {point}")).collect(),
            None => vec![condition.clone()],
        };
        all = all.iter().flat_map(|head| each.iter().map(move |one| format!("{head} {one}"))).collect();
    }
    all.into_iter().map(|text| text.trim_start().to_owned()).collect()
}

fn join(all: Conditions, more: Conditions) -> Conditions {
    let (mut all, more) = (all?, more?);
    for condition in more {
        if !all.contains(&condition) {
            all.push(condition);
        }
    }
    Ok(all)
}

fn protocol(name: Option<&str>) -> Conditions {
    let number = match name {
        None | Some("all") => return Ok(Vec::new()),
        Some("ip" | "ipv4") => return Ok(vec!["ip".to_owned()]),
        Some("ipv6" | "ip6") => return Ok(vec!["ip6".to_owned()]),
        Some("arp") => 0x0806,
        Some("ppp_ses") => 0x8864,
        Some("802.1q" | "802.1Q" | "802.1ad" | "802.1AD") => return Err("a VLAN tag of any number".to_owned()),
        Some(other) => match count(other) {
            Some(0x0800) => return Ok(vec!["ip".to_owned()]),
            Some(0x86dd) => return Ok(vec!["ip6".to_owned()]),
            Some(number) => number,
            None => return Err(format!("the protocol \"{other}\"")),
        },
    };
    Ok(vec![format!("ethertype {number:#06x}")])
}

/// Returns the next word, or the missing one.
fn word<'w>(words: &mut Words<'w>, what: &str) -> Result<&'w str, String> {
    words.next().map(|word| word.text.as_str()).ok_or_else(|| format!("{what} without a value"))
}

fn number(words: &mut Words<'_>, what: &str) -> Result<u32, String> {
    let text = word(words, what)?;
    let value = count(text).or_else(|| u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 8));
    value.and_then(|value| u32::try_from(value).ok()).ok_or_else(|| format!("{what} {text}"))
}

fn u32_option(option: &str, words: &mut Words<'_>) -> Conditions {
    if option != "match" {
        // Words that the kernel prints without a meaning for matching.
        if ["ht", "link", "hashkey", "divisor", "offset", "sample", "mark", "indev", "at", "key"].contains(&option) {
            words.next();
        }
        return Err(format!("\"{option}\" of u32"));
    }
    let space = word(words, "match")?;
    match space {
        "ip" | "ip6" => address_field(space, words),
        "ether" => {
            let field = word(words, space)?;
            let text = word(words, field)?;
            match field {
                "src" | "dst" if Mac::parse(text).is_some() => Ok(vec![format!("{field} mac {text}")]),
                other => Err(format!("\"{space} {other} {text}\" of u32")),
            }
        }
        "tcp" | "udp" => {
            let field = word(words, space)?;
            let side = match field {
                "src" | "dst" => field,
                other => return Err(format!("\"{space} {other}\" of u32")),
            };
            let (value, mask) = (number(words, field)?, number(words, field)?);
            ports(side, value, mask)
        }
        "u32" | "u16" | "u8" => {
            let (value, mask) = (number(words, space)?, number(words, space)?);
            let mut at = 0;
            let mut next_header = false;
            if words.peek() == Some("at") {
                words.next();
                let text = word(words, "at")?;
                let (base, offset) = match text.strip_prefix("nexthdr+") {
                    Some(offset) => (true, offset),
                    None => (false, text),
                };
                next_header = base;
                at = count(offset).and_then(|at| u32::try_from(at).ok()).ok_or_else(|| format!("\"at {text}\""))?;
            }
            let bits = match space {
                "u32" => 32,
                "u16" => 16,
                _ => 8,
            };
            if mask == 0 {
                return Ok(Vec::new());
            }
            let shift = 32u32.checked_sub(bits + at % 4 * 8).ok_or_else(|| format!("\"at {at}\" of {space}"))?;
            if bits < 32 && (value | mask) >> bits != 0 {
                return Err(format!("{space} {value:#x} {mask:#x}"));
            }
            // As a word of IPv4 without options.
            let word_at = at - at % 4 + if next_header { 20 } else { 0 };
            raw_word(value << shift, mask << shift, word_at)
        }
        other => Err(format!("\"match {other}\" of u32")),
    }
}

fn address_field(space: &str, words: &mut Words<'_>) -> Conditions {
    let field = word(words, space)?;
    let with_space = |condition: String| Ok(vec![space.to_owned(), condition]);
    match field {
        "src" | "dst" => {
            let text = word(words, field)?;
            with_space(format!("{field} {}", prefix(text, space == "ip6")?))
        }
        "protocol" => match (number(words, field)?, number(words, field)?) {
            (_, 0) => Ok(Vec::new()),
            (value, 0xff) if value < 256 => with_space(format!("proto {value}")),
            (value, mask) => Err(format!("protocol {value} under the mask {mask:#x}")),
        },
        "sport" | "dport" => {
            let (value, mask) = (number(words, field)?, number(words, field)?);
            let mut conditions = ports(if field == "sport" { "src" } else { "dst" }, value, mask)?;
            conditions.insert(0, space.to_owned());
            Ok(conditions)
        }
        "tos" | "dsfield" | "precedence" | "priority" => {
            let (value, mask) = (number(words, field)?, number(words, field)?);
            let mut conditions = code_point(value, mask)?;
            conditions.insert(0, space.to_owned());
            Ok(conditions)
        }
        other => Err(format!("\"{space} {other}\" of u32")),
    }
}

/// Converts a raw word to fields of IPv4.
fn raw_word(value: u32, mask: u32, at: u32) -> Conditions {
    let one = |condition: String| Ok(vec!["ip".to_owned(), condition]);
    let length = mask.leading_ones();
    let is_prefix = length == mask.count_ones();
    match (at, mask) {
        (12 | 16, _) if is_prefix => {
            let side = if at == 12 { "src" } else { "dst" };
            one(format!("{side} net {}/{length}", Ipv4Addr::from(value & mask)))
        }
        (8, 0x00ff_0000) => one(format!("proto {}", value >> 16 & 0xff)),
        (0, _) if mask & 0xff00_ffff == 0 => {
            let mut conditions = code_point(value >> 16, mask >> 16)?;
            conditions.insert(0, "ip".to_owned());
            Ok(conditions)
        }
        (20, _) if mask & 0xffff == 0 => ports("src", value >> 16, mask >> 16),
        (20, _) if mask >> 16 == 0 => ports("dst", value, mask),
        _ => Err(format!("the word {value:#010x} under the mask {mask:#010x} at byte {at}")),
    }
}

/// Host bits are cleared, as tc does.
pub(super) fn prefix(text: &str, v6: bool) -> Result<String, String> {
    let wrong = || format!("the address {text}");
    let (address, length) = text.split_once('/').unwrap_or((text, if v6 { "128" } else { "32" }));
    let length: u32 = length.parse().map_err(|_| wrong())?;
    if v6 {
        let address: Ipv6Addr = address.parse().map_err(|_| wrong())?;
        let mask = u128::MAX.checked_shl(128u32.checked_sub(length).ok_or_else(wrong)?).unwrap_or(0);
        Ok(format!("net {}/{length}", Ipv6Addr::from(u128::from(address) & mask)))
    } else {
        let address = short_address(address).ok_or_else(wrong)?;
        let mask = u32::MAX.checked_shl(32u32.checked_sub(length).ok_or_else(wrong)?).unwrap_or(0);
        Ok(format!("net {}/{length}", Ipv4Addr::from(u32::from(address) & mask)))
    }
}

/// An address of which the last numbers may be missing: they are zero, as tc takes them.
fn short_address(text: &str) -> Option<Ipv4Addr> {
    let mut bytes = [0; 4];
    let parts: Vec<&str> = text.split('.').collect();
    for (byte, part) in bytes.get_mut(..parts.len())?.iter_mut().zip(&parts) {
        *byte = part.parse().ok()?;
    }
    Some(bytes.into())
}

fn ports(side: &str, value: u32, mask: u32) -> Conditions {
    let free = !mask & 0xffff;
    if mask == 0 {
        return Ok(Vec::new());
    }
    // A mask that begins with ones is a range.
    if mask > 0xffff || value > 0xffff || (free + 1).count_ones() != 1 {
        return Err(format!("the port {value:#x} under the mask {mask:#x}"));
    }
    let first = value & mask;
    let last = first | free;
    Ok(vec![if first == last { format!("{side} port {first}") } else { format!("{side} port {first}-{last}") }])
}

fn code_point(value: u32, mask: u32) -> Conditions {
    /// The two bits behind the code point.
    const ECN_BITS: u32 = 3;
    if mask == 0 {
        return Ok(Vec::new());
    }
    let points = code_points(value, mask);
    if value > 0xff || mask > 0xff || value & mask & ECN_BITS != 0 || points.is_empty() {
        return Err(format!("the type of service {value:#x} under the mask {mask:#x}"));
    }
    let mut conditions = Vec::new();
    if mask >> 2 != 0 {
        conditions.push(format!("dscp {}", points.join(",")));
    }
    if mask & ECN_BITS != 0 {
        conditions.push(ECN.to_owned());
    }
    Ok(conditions)
}

/// Returns the code points of the types of service equal to `value` under a mask, with any ECN bits.
pub(super) fn code_points(value: u32, mask: u32) -> Vec<String> {
    let holds = |point: &u32| (point << 2 ^ value) & mask & 0xfc == 0;
    (0..=u32::from(MAX_DSCP)).filter(holds).map(|point| point.to_string()).collect()
}

fn flower_option(option: &str, words: &mut Words<'_>) -> Conditions {
    let one = |condition: String| Ok(vec![condition]);
    match option {
        "skip_hw" | "skip_sw" => Ok(Vec::new()),
        "ip_proto" => {
            let text = word(words, option)?;
            one(match text {
                "tcp" | "udp" | "icmp" => text.to_owned(),
                "icmpv6" => "icmp6".to_owned(),
                other => format!("proto {}", count(other).ok_or_else(|| format!("ip_proto {other}"))?),
            })
        }
        "src_ip" | "dst_ip" => {
            let text = word(words, option)?;
            one(format!("{} {}", &option[..3], prefix(text, text.contains(':'))?))
        }
        "src_mac" | "dst_mac" => {
            let text = word(words, option)?;
            match Mac::parse(text.strip_suffix("/ff:ff:ff:ff:ff:ff").unwrap_or(text)) {
                Some(mac) => one(format!("{} mac {mac}", &option[..3])),
                None => Err(format!("{option} {text}")),
            }
        }
        "src_port" | "dst_port" => {
            let text = word(words, option)?;
            one(format!("{} port {text}", &option[..3]))
        }
        "ip_tos" => {
            let text = word(words, option)?;
            let (value, mask) = text.split_once('/').unwrap_or((text, "0xff"));
            let hex = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
            match (hex(value), hex(mask)) {
                (Some(value), Some(mask)) => code_point(value, mask),
                _ => Err(format!("ip_tos {text}")),
            }
        }
        "vlan_id" => one(format!("vlan {}", word(words, option)?)),
        "cvlan_id" => one(format!("inner vlan {}", word(words, option)?)),
        "vlan_ethtype" | "cvlan_ethtype" => protocol(Some(word(words, option)?)),
        other => Err(format!("\"{other}\" of flower")),
    }
}
