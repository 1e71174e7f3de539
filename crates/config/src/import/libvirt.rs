//! libvirt: `<bandwidth>` of domains' interfaces, and of the network that they belong to.
//!
//! Source: libvirt's documentation of the domain and network formats. Averages, peaks and floors are in kilobytes (1000
//! B) per second, bursts in kibibytes. `inbound` is traffic that a machine, or all machines of the network, receive.
//!
//! | there | here |
//! | --- | --- |
//! | `average` of an interface | ceiling |
//! | `floor` of an interface | guarantee |
//! | `average` of a network | rate of the link |
//! | `<bandwidth>` of a port group | that of each of its interfaces without one |
//!
//! Frames are matched by addresses: those that the network assigns to their MAC (`<dhcp><host mac=... ip=.../>`), those
//! of `<ip address=...>` in the interface, and the parameters `IP` and `IPV6` of its `<filterref>`. An interface
//! without any, such as one at a bridge, is matched by its MAC, which works without a router in between.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use fairlink_core::Rate;
use roxmltree::{Document, Node};

use super::info::AS_IS;
use super::notes::{Notes, wrong};
use super::plan::{Before, Class, ClassNames, Plan};
use super::prefixes::{self, Conflict, minimal, order};
use super::{Direction, FileInfo, ImportInfo, Imported, MEND, Number, OptionInfo, Options, sound, write};
use crate::commands::kernel::{MIN_QUANTUM, R2Q, default_quantum};
use crate::matching::{Mac, Prefix};
use crate::problem::{Log, Problems, Source, Span};
use crate::units::show_bps;

pub(super) const INFO: ImportInfo = ImportInfo {
    name: "libvirt",
    tool: "libvirt",
    help: "libvirt: XML of domains, and of their network",
    files: &[FileInfo {
        key: "files",
        placeholder: "FILES",
        help: "XML of domains (virsh dumpxml) and of the network with their addresses (virsh net-dumpxml)",
        number: Number::Many,
        name: "domain.xml",
        endings: &["xml"],
    }],
    options: &[
        OptionInfo::rate("the average of the network's bandwidth"),
        OptionInfo::direction("To the machines (inbound), from them (outbound), or a link for each; both need --out"),
        AS_IS,
    ],
    without: &[],
    has_plans: false,
    unmatched: MEND,
    sign: |text| {
        let follows = |element: &str| {
            text.split(element)
                .skip(1)
                .any(|rest| rest.starts_with(|c: char| c == '>' || c == '/' || c.is_whitespace()))
        };
        ["<domain", "<network"].into_iter().any(follows)
    },
    reader: read,
};

/// `<inbound>` or `<outbound>`, in bit/s.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    average: Option<u64>,
    floor: Option<u64>,
    peak: Option<u64>,
}

/// An interface of a domain.
struct Interface {
    name: String,
    source: Source,
    at: Span,
    mac: Option<Mac>,
    prefixes: Vec<Prefix>,
    /// Inbound and outbound; `None` without a `<bandwidth>`.
    own: Option<[Limits; 2]>,
    /// Its network and port group, if they are named.
    network: Option<String>,
    group: Option<String>,
    /// Its own limits, else those of its port group.
    limits: [Limits; 2],
}

/// A port group of the network.
struct Group {
    name: String,
    is_default: bool,
    /// `None` without a `<bandwidth>`.
    limits: Option<[Limits; 2]>,
}

impl Interface {
    /// Its frames that go in `direction`.
    fn matches(&self, direction: Direction) -> Vec<String> {
        let end = match direction {
            Direction::Down => "dst",
            Direction::Up => "src",
        };
        match self.mac.filter(|_| self.prefixes.is_empty()) {
            Some(mac) => vec![format!("{end} mac {mac}")],
            None => self.prefixes.iter().map(|prefix| format!("{}{prefix}", direction.net())).collect(),
        }
    }
}

#[derive(Default)]
struct Found {
    interfaces: Vec<Interface>,
    addresses: HashMap<Mac, Vec<Prefix>>,
    /// Limits of the network, inbound and outbound, with their places.
    network: [Limits; 2],
    network_name: String,
    groups: Vec<Group>,
    networks: Vec<(Source, Span)>,
}

fn read(sources: &[Source], options: &Options) -> Result<Imported, Problems> {
    let mut notes = Notes::default();
    let mut found = Found::default();
    for source in sources {
        let mut log = Log::new(source);
        match Document::parse(source.inner()) {
            Ok(document) => file(&document, source, &mut found, &mut log),
            Err(error) => {
                let line = error.pos().row.saturating_sub(1) as usize;
                let start: usize = source.inner().split_inclusive('\n').take(line).map(str::len).sum();
                let start = start.min(source.inner().len());
                wrong(
                    start..start,
                    format!("this is not XML: {error}"),
                    "pass the output of virsh dumpxml or virsh net-dumpxml",
                    &mut log,
                );
            }
        }
        if log.has_errors() {
            return Err(log.into_errors());
        }
    }
    let source = &sources[0];
    let mut log = Log::new(source);
    if let [_, (second, at), ..] = &found.networks[..] {
        let mut log = Log::new(second);
        wrong(
            at.clone(),
            "this is a second network; a link has one",
            "import each network with its own domains",
            &mut log,
        );
        return Err(log.into_errors());
    }
    grouped(&mut found, &mut notes)?;
    let interfaces = told_apart(&mut found, &mut notes, &mut log);
    let mut links = Vec::new();
    for &direction in options.directions() {
        if log.has_errors() {
            break;
        }
        let network = found.network[direction as usize];
        match options.rate().map(Rate::bps).or(network.average) {
            None => {
                let what = format!("the rate of the link {} is unknown", direction.as_str());
                wrong(0..0, what, "pass --rate 1gbit, or the network with its <bandwidth>", &mut log);
            }
            Some(rate) => {
                let plan = plan(&interfaces, rate, options.rate().is_some(), direction);
                if options.as_is() && plan.lending.is_none() {
                    let what =
                        format!("no interface has a floor {}, so --as-is has no lending to keep", direction.as_str());
                    wrong(0..0, what, "remove --as-is", &mut log);
                    break;
                }
                let (link, fitted) = write::link(&plan, "libvirt", source.name(), options.as_is());
                for over in fitted.over {
                    let asked = show_bps(u64::try_from(over.asked).unwrap_or(u64::MAX));
                    let what = format!(
                        "the floors add up to {asked}, more than the link's {}: they are scaled down in proportion",
                        show_bps(over.has)
                    );
                    notes.changed(source, None, what);
                }
                links.push(link);
            }
        }
    }
    if log.has_errors() {
        return Err(log.into_errors());
    }
    let peaks = interfaces
        .iter()
        .flat_map(|interface| interface.limits)
        .chain(found.network)
        .filter(|limits| limits.peak.is_some());
    let peaks = peaks.count();
    if peaks > 0 {
        notes.left_out(source, None, format!("{peaks} peaks, with their bursts: a ceiling here is the average"));
    }
    let what = "floors: libvirt's HTB shares spare bandwidth by quanta; here it is shared in proportion to the guarantees, max-min fair";
    notes.changed(source, None, what.to_owned());
    let kept = vec![match interfaces.len() {
        1 => "1 interface with addresses or a MAC, average and floor".to_owned(),
        more => format!("{more} interfaces with addresses or MACs, averages and floors"),
    }];
    sound(links, kept, notes.all)
}

fn child<'a>(node: Node<'a, 'a>, name: &str) -> Option<Node<'a, 'a>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn file(document: &Document<'_>, source: &Source, found: &mut Found, log: &mut Log) {
    let root = document.root_element();
    match root.tag_name().name() {
        "domain" => {
            let name = child(root, "name").and_then(|name| name.text()).unwrap_or("domain").trim().to_owned();
            let interfaces = root.descendants().filter(|node| node.has_tag_name("interface"));
            for interface in interfaces {
                let mac = child(interface, "mac").and_then(|mac| self::mac(mac, "address", log));
                let from = child(interface, "source");
                let named = |key: &str| from.and_then(|from| from.attribute(key)).map(str::to_owned);
                found.interfaces.push(Interface {
                    name: name.clone(),
                    source: source.clone(),
                    at: interface.range(),
                    mac,
                    prefixes: own_prefixes(interface),
                    own: child(interface, "bandwidth").map(|_| bandwidth(interface, log)),
                    network: named("network"),
                    group: named("portgroup"),
                    limits: <[Limits; 2]>::default(),
                });
            }
        }
        "network" => {
            found.networks.push((source.clone(), root.range()));
            found.network = bandwidth(root, log);
            found.network_name = child(root, "name").and_then(|name| name.text()).unwrap_or_default().trim().to_owned();
            for group in root.children().filter(|node| node.has_tag_name("portgroup")) {
                found.groups.push(Group {
                    name: group.attribute("name").unwrap_or_default().to_owned(),
                    is_default: group.attribute("default") == Some("yes"),
                    limits: child(group, "bandwidth").map(|_| bandwidth(group, log)),
                });
            }
            for host in root.descendants().filter(|node| node.has_tag_name("host") && node.has_attribute("mac")) {
                let Some(ip) = host.attribute("ip") else { continue };
                match prefixes::parse(ip) {
                    Some((prefix, _)) => {
                        if let Some(mac) = mac(host, "mac", log) {
                            found.addresses.entry(mac).or_default().push(prefix);
                        }
                    }
                    None => wrong(host.range(), format!("\"{ip}\" is not an address"), "write ip='192.168.122.5'", log),
                }
            }
        }
        other => {
            let what = format!("this is a <{other}>, not a <domain> or <network>");
            wrong(
                root.range().start..root.range().start,
                what,
                "pass the output of virsh dumpxml or virsh net-dumpxml",
                log,
            );
        }
    }
}

/// The MAC in this attribute. Anything else there is an error.
fn mac(node: Node<'_, '_>, attribute: &str, log: &mut Log) -> Option<Mac> {
    let text = node.attribute(attribute)?;
    let mac = Mac::parse(text.trim());
    if mac.is_none() {
        wrong(node.range(), format!("\"{text}\" is not a MAC address"), "write 52:54:00:12:34:56", log);
    }
    mac
}

/// The addresses that an interface has in the file of its domain.
fn own_prefixes(interface: Node<'_, '_>) -> Vec<Prefix> {
    let ips = interface.children().filter(|child| child.has_tag_name("ip")).filter_map(|ip| ip.attribute("address"));
    let filters = interface.children().filter(|child| child.has_tag_name("filterref"));
    let parameters = filters.flat_map(|filter| filter.children().filter(|child| child.has_tag_name("parameter")));
    let of_filters = parameters
        .filter(|parameter| parameter.attribute("name").is_some_and(|name| ["IP", "IPV6"].contains(&name)))
        .filter_map(|parameter| parameter.attribute("value"));
    let mut all: Vec<Prefix> = ips.chain(of_filters).filter_map(|text| Some(prefixes::parse(text)?.0)).collect();
    let mut seen = HashSet::new();
    all.retain(|prefix| seen.insert(*prefix));
    all
}

/// Reads the limits of traffic that machines receive and send, of an interface or a network.
fn bandwidth(node: Node<'_, '_>, log: &mut Log) -> [Limits; 2] {
    let bandwidth = node.children().find(|child| child.has_tag_name("bandwidth"));
    ["inbound", "outbound"].map(|way| {
        let Some(limits) = bandwidth.and_then(|bandwidth| bandwidth.children().find(|child| child.has_tag_name(way)))
        else {
            return Limits::default();
        };
        let mut rate = |key: &str| {
            let text = limits.attribute(key)?;
            // Kilobytes per second.
            let bps = text.trim().parse::<u64>().ok().and_then(|kilobytes| kilobytes.checked_mul(8000));
            let bps = bps.filter(|bps| (1..=1_000_000_000_000).contains(bps));
            if bps.is_none() {
                let what = format!("\"{key}\" of <{way}> is \"{text}\"");
                wrong(limits.range(), what, "write a whole number of kilobytes per second, at most 125000000", log);
            }
            bps
        };
        Limits { average: rate("average"), floor: rate("floor"), peak: rate("peak") }
    })
}

/// Gives each interface its limits: its own, else those of its port group, as libvirt does. A group that the network
/// does not have is an error.
fn grouped(found: &mut Found, notes: &mut Notes) -> Result<(), Problems> {
    let Found { interfaces, network_name, groups, networks, .. } = found;
    for interface in interfaces {
        if let Some(own) = interface.own {
            interface.limits = own;
            continue;
        }
        let at = interface.at.start..interface.at.start;
        let is_there = !networks.is_empty() && interface.network.as_ref() == Some(network_name);
        let group = match &interface.group {
            Some(name) if is_there => {
                let group = groups.iter().find(|group| group.name == *name);
                if group.is_none() {
                    let mut log = Log::new(&interface.source);
                    let what = format!("the network \"{network_name}\" has no port group \"{name}\"");
                    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
                    let help = match &names[..] {
                        [] => "remove portgroup='...', or pass the network that has it".to_owned(),
                        names => format!("it has: {}", names.join(", ")),
                    };
                    wrong(at, what, help, &mut log);
                    return Err(log.into_errors());
                }
                group
            }
            Some(name) => {
                let network = interface.network.as_deref().unwrap_or_default();
                let what = format!(
                    "possible limits of the port group \"{name}\" of an interface of {}: pass the network \"{network}\", too (virsh net-dumpxml)",
                    interface.name
                );
                notes.left_out(&interface.source, Some(at), what);
                None
            }
            None if is_there => groups.iter().find(|group| group.is_default),
            None => None,
        };
        interface.limits = group.and_then(|group| group.limits).unwrap_or_default();
    }
    Ok(())
}

/// Interfaces with addresses, in the order in which matches count.
fn told_apart(found: &mut Found, notes: &mut Notes, log: &mut Log) -> Vec<Interface> {
    let mut all: Vec<Interface> = Vec::new();
    // Interfaces matched by MAC, by position.
    let mut by_mac: HashMap<Mac, usize> = HashMap::new();
    for mut interface in std::mem::take(&mut found.interfaces) {
        let given = interface.mac.and_then(|mac| found.addresses.get(&mac));
        interface.prefixes.extend(given.into_iter().flatten());
        match interface.mac {
            None if interface.prefixes.is_empty() => {
                let what = format!("an interface of {} has neither a MAC nor an IP address to match", interface.name);
                let at = interface.at.start;
                notes.left_out(&interface.source, Some(at..at), what);
                continue;
            }
            Some(mac) if interface.prefixes.is_empty() => {
                if let Some(other) = by_mac.insert(mac, all.len()) {
                    let what =
                        format!("interfaces of {} and {} both have the MAC {mac}", all[other].name, interface.name);
                    wrong(0..0, what, "give each its own MAC or IP address", log);
                    return Vec::new();
                }
            }
            _ => {}
        }
        all.push(interface);
    }
    let Some(first) = all.first() else {
        let what = "there is no interface with a MAC or an IP address to import";
        wrong(0..0, what, "pass domains with interfaces, as printed by virsh dumpxml", log);
        return all;
    };
    if !by_mac.is_empty() {
        let told = match by_mac.len() {
            1 => "1 interface is matched by its MAC".to_owned(),
            more => format!("{more} interfaces are matched by their MACs"),
        };
        let what = format!(
            "{told}, because no address is known: run the gateway with no router between it and the machines, such as at their bridge, or pass the network's file with <host mac='...' ip='...'/>"
        );
        notes.changed(&first.source, None, what);
    }
    match order(&all.iter().map(|interface| interface.prefixes.clone()).collect::<Vec<_>>()) {
        Ok(order) => {
            let mut taken: Vec<Option<Interface>> = all.into_iter().map(Some).collect();
            let mut all: Vec<Interface> = order.into_iter().filter_map(|at| taken[at].take()).collect();
            all.iter_mut().for_each(|interface| minimal(&mut interface.prefixes));
            all
        }
        Err(Conflict::Same { first, second, prefix } | Conflict::Crossed { first, second, prefix }) => {
            let what = format!("interfaces of {} and {} both have {prefix}", all[first].name, all[second].name);
            wrong(0..0, what, "give each its own address", log);
            Vec::new()
        }
    }
}

fn plan(interfaces: &[Interface], rate: u64, asked: bool, direction: Direction) -> Plan {
    let mut names = ClassNames::default();
    let mut classes: Vec<Class> = interfaces
        .iter()
        .map(|interface| {
            let limits = interface.limits[direction as usize];
            let ceiling = limits.average.map(|average| average.min(rate));
            let floor = limits.floor.map(|floor| floor.min(ceiling.unwrap_or(rate)));
            Class {
                name: names.make(&interface.name),
                remark: interface.mac.map_or_else(String::new, |mac| mac.to_string()),
                floor,
                ceiling,
                matches: interface.matches(direction),
                before: Before {
                    floor: Some(floor.unwrap_or(8000)),
                    ceiling: Some(ceiling.unwrap_or(rate)),
                    quantum: Some(default_quantum(floor.unwrap_or(8000), R2Q)),
                    ..Before::default()
                },
                ..Class::default()
            }
        })
        .collect();
    let floors = classes.iter().any(|class| class.floor.is_some());
    classes.push(Class {
        name: names.make("others"),
        remark: "traffic of no machine".to_owned(),
        before: Before { floor: Some(8000), quantum: Some(MIN_QUANTUM), ..Before::default() },
        ..Class::default()
    });
    Plan {
        name: direction.as_str().to_owned(),
        rate,
        rate_why: if asked { "as asked for" } else { "the network's average" }.to_owned(),
        mtu: 1514,
        default: classes.len() - 1,
        classes,
        lending: floors.then_some("HTB as libvirt sets it up for floors"),
    }
}
