//! Converts commands to a configuration.

mod police;
mod prio;

use crate::classid::{Classid, hex};
use crate::commands::findings::{changed, left_out, wrong};
use crate::commands::kernel::R2Q;
use crate::commands::marks::Firewall;
use crate::commands::options::{self, Words};
use crate::commands::setup::{Class, Classes, Device, Filter, LeafQueue, MarkFilter, Root, RootKind, Settings};
use crate::commands::words::{self, Word};
use crate::commands::{filter, show, words::Command};
use crate::matching::Match;
use crate::problem::{Log, Problem, Span};

/// Reads all devices, in the order of their first use; `unnamed` is the device of output without one. Errors are in the
/// log.
pub(super) fn setup(text: &str, unnamed: &str, log: &mut Log, notes: &mut Vec<Problem>) -> Vec<Device> {
    let mut devices = Vec::new();
    let commands =
        if show::is_shown(text) { show::commands(text, unnamed, log, notes) } else { words::commands(text, log) };
    let mut firewall = Firewall::default();
    for command in commands {
        if is_firewall(&command) {
            firewall.read(&command, log, notes);
        } else {
            read(&command, &mut devices, log, notes);
        }
    }
    for device in &mut devices {
        firewall.resolve(device, log, notes);
        // The kernel tries filters by preference; those of one preference in the order in which they came.
        device.filters.sort_by_key(|filter| filter.preference);
        police::ceilings(device, log, notes);
        prio::by_type_of_service(device, log, notes);
        default_by_filter(device, log, notes);
    }
    devices
}

/// Makes the class of the last filter the default, if that filter takes all frames and its class has earlier filters
/// too: a link file has the matches of a class together, and they would precede those of others.
fn default_by_filter(device: &mut Device, log: &Log, notes: &mut Vec<Problem>) {
    let takes_all = |filter: &Filter| ["any", "ip", "ip6"].contains(&filter.made.to_string().as_str());
    let Some(last) = device.filters.last().filter(|filter| takes_all(filter)) else { return };
    let (class, at) = (last.class, last.at.clone());
    let rest = device.filters.iter().rposition(|filter| !(takes_all(filter) && filter.class == class));
    let Some(rest) = rest else { return };
    let filters = &device.filters[..=rest];
    let first = filters.iter().position(|filter| filter.class == class);
    let overtakes = first.is_some_and(|first| filters[first..].iter().any(|filter| filter.class != class));
    let leaf = device.class(class).is_some() && device.is_leaf(class);
    let Some(Root { kind: RootKind::Htb { default, .. } | RootKind::Hfsc { default }, .. }) = &mut device.root else {
        return;
    };
    if overtakes && leaf {
        if *default != Some(class.minor()) {
            let why = format!(
                "frames that no other filter matches get {class}: it is the default class here, also of frames without IP"
            );
            changed(&at, why, log, notes);
        }
        *default = Some(class.minor());
        device.filters.truncate(rest + 1);
    }
}

/// Returns true for a command of iptables, ip6tables or nft.
fn is_firewall(command: &Command) -> bool {
    let program = |word: &Word| word.text.rsplit('/').next().unwrap_or_default().to_owned();
    command.first().is_some_and(|first| ["iptables", "ip6tables", "nft"].contains(&program(first).as_str()))
}

/// Parent of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parent {
    /// Below the device.
    Device,
    /// Below the queueing discipline of this number.
    Discipline(u16),
    Class(Classid),
    /// At received traffic.
    Ingress,
    /// At sent traffic, before the queueing discipline at the root.
    Egress,
}

/// Handle of the queueing discipline for received traffic.
const INGRESS: u16 = 0xffff;
/// The two places of clsact (`TC_H_MIN_INGRESS`, `TC_H_MIN_EGRESS`).
const CLSACT_INGRESS: u16 = 0xfff2;
const CLSACT_EGRESS: u16 = 0xfff3;
/// The queueing disciplines for received traffic; the second also applies to sent traffic.
const INCOMING: [&str; 2] = ["ingress", "clsact"];

/// The words between the verb and the kind.
#[derive(Default)]
struct Place<'w> {
    device: Option<&'w Word>,
    parent: Option<Parent>,
    handle: Option<&'w Word>,
    classid: Option<&'w Word>,
    protocol: Option<&'w Word>,
    preference: Option<u64>,
}

/// Reads one command. `None` if it is invalid (see the log), or configures nothing.
fn read(command: &Command, devices: &mut Vec<Device>, log: &mut Log, notes: &mut Vec<Problem>) -> Option<()> {
    let mut words = Words::new(command);
    let whole = words.span();
    let mut first = words.next()?;
    if first.text == "sudo" {
        first = words.next()?;
    }
    let is_tc = first.text == "tc" || first.text.ends_with("/tc");
    let object = if is_tc { words.next() } else { Some(first) };
    let Some(object) = object else {
        wrong(&whole, "this tc command is empty".to_owned(), Some("continue with qdisc, class or filter"), log);
        return None;
    };
    if !["qdisc", "class", "filter"].contains(&object.text.as_str()) {
        let what = if is_tc { "tc has no object" } else { "this is not a tc command:" };
        let why = format!("{what} \"{}\"", object.text);
        wrong(&object.at, why, Some("only qdisc, class and filter are read; remove other commands"), log);
        return None;
    }
    let Some(verb) = words.next() else {
        wrong(&object.at, format!("\"{}\" has no verb", object.text), Some("continue with add"), log);
        return None;
    };
    match verb.text.as_str() {
        "add" | "replace" | "change" => {}
        // They set nothing up.
        "show" | "list" | "ls" => return None,
        "del" | "delete" => return delete(object, verb, &mut words, devices, log),
        other => {
            let why = format!("unknown verb \"{other}\"; there are: add, replace, change, del, show");
            wrong(&verb.at, why, None, log);
            return None;
        }
    }
    let place = place(&mut words, object.text == "filter", log)?;
    let Some(kind) = words.next() else {
        wrong(&whole, "this command names no kind".to_owned(), Some("add htb, cbq, pfifo or u32"), log);
        return None;
    };
    if object.text == "filter" && (place.parent == Some(Parent::Egress) || is_incoming(&place, devices)) {
        return police::filter(&place, kind, &mut words, &whole, devices, log, notes);
    }
    let device = device(&place, &whole, devices, log)?;
    match object.text.as_str() {
        "qdisc" => qdisc(&place, kind, &mut words, whole, device, log, notes),
        "class" => class(&place, verb, kind, &mut words, whole, device, log, notes),
        _ => {
            let Some(major) = device.root.as_ref().map(|root| root.major) else {
                words.rest();
                let why = format!("a filter is left out: {} has no classes at this point", device.name);
                left_out(&whole, why, log, notes);
                return None;
            };
            let at_root =
                matches!(place.parent, Some(Parent::Device) | None) || place.parent == Some(Parent::Discipline(major));
            if !at_root {
                words.rest();
                left_out(&whole, "a filter that is not at the root is left out".to_owned(), log, notes);
                return None;
            }
            if kind.text == "fw" {
                device.by_mark.push(by_mark(&place, &mut words, whole, log, notes)?);
                return Some(());
            }
            let made = filter::read((place.protocol, place.preference), kind, &mut words, &whole, log, notes)?;
            device.policed.extend(police::of_class(command, &whole, made.first()?.class));
            device.filters.extend(made);
            Some(())
        }
    }
}

/// A filter by mark: `handle 6 fw flowid 1:10`, or with a mask `handle 6/0xff`.
fn by_mark(
    place: &Place<'_>,
    words: &mut Words<'_>,
    at: Span,
    log: &mut Log,
    notes: &mut Vec<Problem>,
) -> Option<MarkFilter> {
    let number = |text: &str| options::count(text).and_then(|number| u32::try_from(number).ok());
    let (mark, mask) = match place.handle.map(|handle| handle.text.as_str()) {
        None => (None, u32::MAX),
        Some(text) => {
            let (mark, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
            let (Some(mark), Some(mask)) = (number(mark), number(mask)) else {
                let why = format!(
                    "WARNING: a filter by mark is left out: \"{text}\" is not a mark such as 0x10 or 0x10/0xff"
                );
                left_out(&at, why, log, notes);
                return None;
            };
            (Some(mark), mask)
        }
    };
    let mut class = None;
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "flowid" | "classid" => class = Some(words.read(word, Classid::parse, "write 1:2, hexadecimal", log)?),
            other => left_out(&word.at, format!("\"{other}\" of fw has no counterpart"), log, notes),
        }
    }
    let Some(class) = class else {
        left_out(&at, "a filter that names no class is left out".to_owned(), log, notes);
        return None;
    };
    let family = match place.protocol.map(|word| word.text.as_str()) {
        None | Some("all") => None,
        Some("ip" | "ipv4" | "0x0800") => Some("ip"),
        Some("ipv6" | "ip6" | "0x86dd") => Some("ip6"),
        Some(_) => Some("other"),
    };
    Some(MarkFilter { at, preference: place.preference.unwrap_or(u64::MAX), mark, mask, family, class })
}

/// Returns true for a filter at the queueing discipline of incoming traffic.
fn is_incoming(place: &Place<'_>, devices: &[Device]) -> bool {
    let ingress = devices
        .iter()
        .find(|device| place.device.is_some_and(|name| name.text == device.name))
        .and_then(|device| device.ingress);
    match place.parent {
        Some(Parent::Ingress) => true,
        Some(Parent::Discipline(major)) => major == INGRESS || ingress == Some(major),
        _ => false,
    }
}

fn place<'w>(words: &mut Words<'w>, is_filter: bool, log: &mut Log) -> Option<Place<'w>> {
    let mut place = Place::default();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "dev" => place.device = Some(words.value(word, log)?),
            "root" => place.parent = Some(Parent::Device),
            "ingress" if is_filter => place.parent = Some(Parent::Ingress),
            "egress" if is_filter => place.parent = Some(Parent::Egress),
            "parent" => place.parent = Some(words.read(word, parent, "write 1: or 1:2, hexadecimal", log)?),
            "handle" => place.handle = Some(words.value(word, log)?),
            "classid" => place.classid = Some(words.value(word, log)?),
            // tc takes words that are cut short.
            cut if is_filter && cut.len() > 2 && "protocol".starts_with(cut) => {
                place.protocol = Some(words.value(word, log)?);
            }
            cut if is_filter
                && cut.len() > 2
                && ["preference", "priority"].iter().any(|whole| whole.starts_with(cut)) =>
            {
                place.preference = Some(words.read(word, options::count, "write a whole number", log)?);
            }
            "estimator" | "est" => {
                words.value(word, log)?;
                words.value(word, log)?;
            }
            _ => {
                words.back();
                break;
            }
        }
    }
    Some(place)
}

fn parent(text: &str) -> Option<Parent> {
    if text == "root" {
        return Some(Parent::Device);
    }
    match (discipline(text), Classid::parse(text)) {
        (Some(major), _) => Some(Parent::Discipline(major)),
        (None, Some(class)) if class.major() == INGRESS && class.minor() == CLSACT_INGRESS => Some(Parent::Ingress),
        (None, Some(class)) if class.major() == INGRESS && class.minor() == CLSACT_EGRESS => Some(Parent::Egress),
        (None, class) => class.map(Parent::Class),
    }
}

/// `1:`, or `1` as the handle of a queueing discipline may be written.
fn qdisc_handle(text: &str) -> Option<u16> {
    discipline(text).or_else(|| hex(text))
}

/// `1:` or `1:0`.
fn discipline(text: &str) -> Option<u16> {
    let (major, minor) = text.split_once(':')?;
    if minor.is_empty() || minor == "0" { hex(major) } else { None }
}

fn device<'d>(place: &Place<'_>, whole: &Span, devices: &'d mut Vec<Device>, log: &mut Log) -> Option<&'d mut Device> {
    let Some(name) = place.device else {
        wrong(whole, "this command names no device".to_owned(), Some("add dev eth0"), log);
        return None;
    };
    Some(device_named(&name.text, devices))
}

/// Returns the device of this name, and adds it if it is missing.
fn device_named<'d>(name: &str, devices: &'d mut Vec<Device>) -> &'d mut Device {
    let index = devices.iter().position(|device| device.name == name).unwrap_or_else(|| {
        let name = name.to_owned();
        devices.push(Device {
            name,
            root: None,
            classes: Classes::default(),
            filters: Vec::new(),
            by_mark: Vec::new(),
            policed: Vec::new(),
            ingress: None,
            source: None,
            inner: Vec::new(),
            outer: None,
            no_link: None,
            needed: None,
            others: None,
        });
        devices.len() - 1
    });
    &mut devices[index]
}

/// Deletes a whole device, as scripts do at their beginning, or its ingress discipline, or a queue.
fn delete(object: &Word, verb: &Word, words: &mut Words<'_>, devices: &mut [Device], log: &mut Log) -> Option<()> {
    let place = place(words, object.text == "filter", log)?;
    let kind = words.rest().first().map(|word| word.text.as_str());
    let of = |device: &&mut Device| place.device.is_none_or(|name| device.name == name.text);
    if object.text == "qdisc" {
        let handle = place.handle.and_then(|handle| qdisc_handle(&handle.text));
        let incoming = kind.is_some_and(|kind| INCOMING.contains(&kind))
            || handle == Some(INGRESS)
            || matches!(place.parent, Some(Parent::Ingress | Parent::Egress));
        match place.parent {
            _ if incoming => {
                for suffix in [police::INCOMING, police::OUTGOING] {
                    let name = place.device.map(|name| format!("{}{suffix}", name.text));
                    devices.iter_mut().filter(|device| Some(&device.name) == name.as_ref()).for_each(Device::clear);
                }
                devices.iter_mut().filter(of).for_each(|device| device.ingress = None);
                for device in devices.iter_mut() {
                    let is_source = |name: &Word| device.source.as_ref().is_some_and(|(from, _)| *from == name.text);
                    if place.device.is_some_and(is_source) {
                        device.source = None;
                    }
                }
                return Some(());
            }
            Some(Parent::Device) | None => {
                devices.iter_mut().filter(of).for_each(Device::clear);
                return Some(());
            }
            Some(Parent::Class(class)) => {
                let found = devices.iter_mut().filter(of).find_map(|device| device.classes.get_mut(class));
                if let Some(class) = found {
                    class.queue = None;
                    return Some(());
                }
            }
            _ => {}
        }
    }
    let why = format!("only a whole device is deleted: tc qdisc {} dev eth0 root", verb.text);
    wrong(&object.at, why, Some("remove the command and the commands that it undoes"), log);
    None
}

/// Reads a kind that shapes a whole device, and has no classes.
fn whole_device(
    kind: &Word,
    words: &mut Words<'_>,
    place: &Place<'_>,
    whole: &Span,
    device: &mut Device,
    log: &mut Log,
    notes: &mut Vec<Problem>,
) -> Option<()> {
    let found = options::whole_device(kind, words, log, notes);
    device.clear();
    let Some((rate, queue, tins)) = found else {
        let why = format!("{} at the root of {} has no rate and no classes", kind.text, device.name);
        left_out(whole, why.clone(), log, notes);
        device.no_link = Some(why);
        // A discipline that shares the link may be below it.
        device.outer = place.handle.and_then(|handle| qdisc_handle(&handle.text));
        return None;
    };
    let major = place.handle.and_then(|handle| qdisc_handle(&handle.text)).unwrap_or(1);
    // The class of the whole device; below it, where there are tins, the first takes what no filter takes.
    let default = Some(if tins.is_empty() { 1 } else { 2 });
    device.root = Some(Root { at: whole.clone(), major, kind: RootKind::Htb { default, r2q: R2Q, depth: None } });
    let queue = || queue.clone().map(|(queue, buffer, ecn)| LeafQueue { at: whole.clone(), queue, buffer, ecn });
    let set = Settings { rate: Some(rate), ..Settings::default() };
    let id = Classid::new(major, 1)?;
    let whole_queue = if tins.is_empty() { queue() } else { None };
    device.classes.push(Class { at: whole.clone(), id, parent: None, set, queue: whole_queue });
    let quanta: u64 = tins.iter().map(|tin| tin.quantum).sum();
    for (minor, tin) in (2..).zip(tins) {
        let own = u128::from(rate) * u128::from(tin.quantum) / u128::from(quanta);
        let set = Settings { rate: Some((own as u64).max(1)), ceil: Some(rate), ..Settings::default() };
        let class = Classid::new(major, minor)?;
        device.classes.push(Class { at: whole.clone(), id: class, parent: Some(id), set, queue: queue() });
        let made = tin.points.iter().filter_map(|point| Match::parse(&format!("dscp {point}")).ok());
        let one = |made| Filter { at: whole.clone(), preference: u64::MAX, class, made };
        device.filters.extend(made.map(one));
    }
    Some(())
}

fn qdisc(
    place: &Place<'_>,
    kind: &Word,
    words: &mut Words<'_>,
    whole: Span,
    device: &mut Device,
    log: &mut Log,
    notes: &mut Vec<Problem>,
) -> Option<()> {
    if INCOMING.contains(&kind.text.as_str()) {
        let handle = words.rest().windows(2).find(|pair| pair[0].text == "handle").map(|pair| pair[1].text.as_str());
        let handle = handle.or(place.handle.map(|handle| handle.text.as_str()));
        device.ingress = handle.and_then(discipline).or(Some(INGRESS));
        left_out(
            &whole,
            format!("\"{}\" applies to received traffic, and a link file to sent traffic", kind.text),
            log,
            notes,
        );
        return None;
    }
    let handle = place.handle.and_then(|handle| qdisc_handle(&handle.text));
    match place.parent {
        Some(Parent::Device) if options::WHOLE_DEVICE.contains(&kind.text.as_str()) => {
            return whole_device(kind, words, place, &whole, device, log, notes);
        }
        Some(Parent::Device) => at_root(place, kind, words, whole, device, log, notes)?,
        Some(Parent::Discipline(major)) if device.outer == Some(major) => {
            if options::WHOLE_DEVICE.contains(&kind.text.as_str()) {
                return whole_device(kind, words, place, &whole, device, log, notes);
            }
            at_root(place, kind, words, whole, device, log, notes)?;
        }
        // A child of a whole device is the queue of its single class.
        Some(Parent::Discipline(major))
            if device.classes.len() == 1
                && device
                    .root
                    .as_ref()
                    .is_some_and(|root| root.major == major && device.classes.at(0).at == root.at) =>
        {
            queue(Classid::new(major, 1)?, handle, kind, words, whole, device, log, notes)?;
        }
        Some(Parent::Discipline(major)) if device.inner.iter().any(|(inner, _)| *inner == major) => {
            let class = device.inner.iter().find(|(inner, _)| *inner == major).map(|(_, class)| *class)?;
            queue(class, handle, kind, words, whole, device, log, notes)?;
        }
        // The one place below a queue that has no classes of its own.
        Some(Parent::Class(parent)) if device.inner.iter().any(|(inner, _)| *inner == parent.major()) => {
            let class = device.inner.iter().find(|(inner, _)| *inner == parent.major()).map(|(_, class)| *class)?;
            queue(class, handle, kind, words, whole, device, log, notes)?;
        }
        Some(Parent::Class(parent)) => {
            if device.class(parent).is_none() {
                let why = format!("there is no class {parent} on {} at this point", device.name);
                wrong(&whole, why, Some("add the class above"), log);
                return None;
            }
            queue(parent, handle, kind, words, whole, device, log, notes)?;
        }
        Some(Parent::Discipline(_) | Parent::Ingress | Parent::Egress) | None => {
            let why = "a queueing discipline belongs at the root or below a class".to_owned();
            wrong(&whole, why, Some("write root, or parent 1:2"), log);
            return None;
        }
    }
    Some(())
}

/// The queueing discipline that has classes.
fn at_root(
    place: &Place<'_>,
    kind: &Word,
    words: &mut Words<'_>,
    whole: Span,
    device: &mut Device,
    log: &mut Log,
    notes: &mut Vec<Problem>,
) -> Option<()> {
    let kind = options::root(kind, words, log, notes)?;
    let major = match place.handle {
        None => 1,
        Some(handle) => match qdisc_handle(&handle.text) {
            Some(major) => major,
            None => {
                let why = format!("the handle \"{}\" is not a number with a colon", handle.text);
                wrong(&handle.at, why, Some("write handle 1:, hexadecimal"), log);
                return None;
            }
        },
    };
    device.clear();
    if let RootKind::Prio { bands, .. } = kind {
        prio::bands(device, major, bands, &whole)?;
    }
    device.root = Some(Root { at: whole, major, kind });
    Some(())
}

/// Reads a queue below a class, or below another queue of that class, which it replaces.
#[allow(clippy::too_many_arguments)]
fn queue(
    of: Classid,
    handle: Option<u16>,
    kind: &Word,
    words: &mut Words<'_>,
    whole: Span,
    device: &mut Device,
    log: &mut Log,
    notes: &mut Vec<Problem>,
) -> Option<()> {
    device.inner.extend(handle.map(|handle| (handle, of)));
    let is_prio = matches!(device.root, Some(Root { kind: RootKind::Prio { .. }, .. }));
    let class = device.classes.get_mut(of)?;
    class.queue = None;
    if is_prio && kind.text == "tbf" {
        class.set.ceil = options::tbf_rate(kind, words, log, notes);
        return Some(());
    }
    let (queue, buffer, ecn) = options::queue(kind, words, log, notes)?;
    class.queue = Some(LeafQueue { at: whole, queue, buffer, ecn });
    Some(())
}

#[allow(clippy::too_many_arguments)]
fn class(
    place: &Place<'_>,
    verb: &Word,
    kind: &Word,
    words: &mut Words<'_>,
    whole: Span,
    device: &mut Device,
    log: &mut Log,
    notes: &mut Vec<Problem>,
) -> Option<()> {
    let Some(root) = &device.root else {
        let why = format!("there is no htb, hfsc or cbq at the root of {} at this point", device.name);
        wrong(&whole, why, Some("add it above: tc qdisc add dev eth0 root handle 1: htb"), log);
        return None;
    };
    if kind.text != root.kind.name() {
        let why = format!("a class of \"{}\" below a root of {}", kind.text, root.kind.name());
        wrong(&kind.at, why, Some("all classes are of the queueing discipline at the root"), log);
        return None;
    }
    let Some(number) = place.classid else {
        wrong(&whole, "this class has no number".to_owned(), Some("add classid 1:2"), log);
        return None;
    };
    // A number without a colon is one of the queueing discipline above it.
    let short = || Classid::new(root.major, hex(number.text.trim_start_matches(':'))?);
    let Some(id) = Classid::parse(&number.text).or_else(short) else {
        let why = format!("\"classid\" takes no \"{}\"", number.text);
        wrong(&number.at, why, Some("write 1:2, hexadecimal"), log);
        return None;
    };
    if id.major() != root.major {
        let why = format!("the class {id} is not of the queueing discipline {:x}: at the root", root.major);
        wrong(&whole, why, Some("give both the same number before the colon"), log);
        return None;
    }
    let parent = match place.parent {
        Some(Parent::Class(parent)) if device.class(parent).is_none() || parent == id => {
            let why = format!("there is no class {parent} on {} at this point", device.name);
            wrong(&whole, why, Some("add parents before their children"), log);
            return None;
        }
        Some(Parent::Class(parent)) => Some(parent),
        Some(Parent::Discipline(major)) if major != root.major => {
            let why = format!("there is no queueing discipline {major:x}: at the root of {}", device.name);
            wrong(&whole, why, Some("write its handle"), log);
            return None;
        }
        _ => None,
    };
    let set = options::class(root.kind, words, log, notes);
    if set.rate.is_none() && !log.has_errors() {
        wrong(
            &whole,
            format!("the class {id} has no {}", if kind.text == "hfsc" { "curve" } else { "\"rate\"" }),
            Some("add rate 1mbit"),
            log,
        );
    }
    match device.classes.get_mut(id) {
        Some(_) if verb.text == "add" => {
            let why = format!("there is a class {id} on {} already", device.name);
            wrong(&whole, why, Some("give it another number, or write change instead of add"), log);
            return None;
        }
        Some(class) => {
            class.set = set;
            class.at = whole;
        }
        None => device.classes.push(Class { at: whole, id, parent, set, queue: None }),
    }
    Some(())
}
