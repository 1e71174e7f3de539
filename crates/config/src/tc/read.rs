//! From commands to what they set up.

use crate::classid::{Classid, hex};
use crate::problem::{Log, Problem, Span};
use crate::tc::findings::{left_out, wrong};
use crate::tc::options::{self, Words};
use crate::tc::setup::{Class, Classes, Device, LeafQueue, Root};
use crate::tc::words::{self, Word};
use crate::tc::{filter, show, words::Command};

/// All devices, in the order in which they are named; `unnamed` is that of what tc shows without one. What is wrong is in the log.
pub(super) fn setup(text: &str, unnamed: &str, log: &mut Log, notes: &mut Vec<Problem>) -> Vec<Device> {
    let mut devices = Vec::new();
    let commands =
        if show::is_shown(text) { show::commands(text, unnamed, log, notes) } else { words::commands(text, log) };
    for command in commands {
        read(&command, &mut devices, log, notes);
    }
    for device in &mut devices {
        // The kernel tries filters by preference; those of one preference in the order in which they came.
        device.filters.sort_by_key(|filter| filter.preference);
    }
    devices
}

/// Where something hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parent {
    /// Below the device.
    Device,
    /// Below the queueing discipline of this number.
    Discipline(u16),
    Class(Classid),
}

/// What stands between the verb and the kind.
#[derive(Default)]
struct Place<'w> {
    device: Option<&'w Word>,
    parent: Option<Parent>,
    handle: Option<&'w Word>,
    classid: Option<Classid>,
    protocol: Option<&'w Word>,
    preference: Option<u64>,
}

/// One command. `None` where it is wrong, which is then in the log, or sets nothing up.
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
        wrong(&whole, "this tc command is empty".to_owned(), Some("write qdisc, class or filter behind it"), log);
        return None;
    };
    if !["qdisc", "class", "filter"].contains(&object.text.as_str()) {
        let what = if is_tc { "tc has no object" } else { "this is no tc command:" };
        let why = format!("{what} \"{}\"", object.text);
        wrong(&object.at, why, Some("only qdisc, class and filter are read; take the others out"), log);
        return None;
    }
    let Some(verb) = words.next() else {
        wrong(&object.at, format!("\"{}\" has no verb", object.text), Some("write add behind it"), log);
        return None;
    };
    match verb.text.as_str() {
        "add" | "replace" | "change" => {}
        // They set nothing up.
        "show" | "list" | "ls" => return None,
        "del" | "delete" => return delete(object, verb, &mut words, devices, log),
        other => {
            let why = format!("there is no verb \"{other}\"; there are: add, replace, change, del, show");
            wrong(&verb.at, why, None, log);
            return None;
        }
    }
    let place = place(&mut words, object.text == "filter", log)?;
    let Some(kind) = words.next() else {
        wrong(&whole, "this command names no kind".to_owned(), Some("write htb, cbq, pfifo or u32 in it"), log);
        return None;
    };
    let device = device(&place, &whole, devices, log)?;
    match object.text.as_str() {
        "qdisc" => qdisc(&place, kind, &mut words, whole, device, log, notes),
        "class" => class(&place, verb, kind, &mut words, whole, device, log, notes),
        _ => {
            let major = device.root.as_ref()?.major;
            let at_root =
                matches!(place.parent, Some(Parent::Device) | None) || place.parent == Some(Parent::Discipline(major));
            if !at_root {
                words.rest();
                left_out(&whole, "a filter that is not at the root is left out".to_owned(), log, notes);
                return None;
            }
            let filter = filter::read((place.protocol, place.preference), kind, &mut words, &whole, log, notes)?;
            device.filters.push(filter);
            Some(())
        }
    }
}

fn place<'w>(words: &mut Words<'w>, is_filter: bool, log: &mut Log) -> Option<Place<'w>> {
    let mut place = Place::default();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "dev" => place.device = Some(words.value(word, log)?),
            "root" => place.parent = Some(Parent::Device),
            "parent" => place.parent = Some(words.read(word, parent, "write 1: or 1:2, hexadecimal", log)?),
            "handle" => place.handle = Some(words.value(word, log)?),
            "classid" => {
                place.classid = Some(words.read(word, Classid::parse, "write 1:2, hexadecimal", log)?);
            }
            "protocol" if is_filter => place.protocol = Some(words.value(word, log)?),
            "prio" | "pref" | "preference" | "priority" if is_filter => {
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
    match discipline(text) {
        Some(major) => Some(Parent::Discipline(major)),
        None => Classid::parse(text).map(Parent::Class),
    }
}

/// `1:` or `1:0`.
fn discipline(text: &str) -> Option<u16> {
    let (major, minor) = text.split_once(':')?;
    if minor.is_empty() || minor == "0" { hex(major) } else { None }
}

fn device<'d>(place: &Place<'_>, whole: &Span, devices: &'d mut Vec<Device>, log: &mut Log) -> Option<&'d mut Device> {
    let Some(name) = place.device else {
        wrong(whole, "this command names no device".to_owned(), Some("write dev eth0 into it"), log);
        return None;
    };
    let index = devices.iter().position(|device| device.name == name.text).unwrap_or_else(|| {
        let name = name.text.clone();
        devices.push(Device {
            name,
            root: None,
            classes: Classes::default(),
            filters: Vec::new(),
            needed: None,
            others: None,
        });
        devices.len() - 1
    });
    devices.get_mut(index)
}

/// A whole device may be cleared, as scripts do at their beginning.
fn delete(object: &Word, verb: &Word, words: &mut Words<'_>, devices: &mut Vec<Device>, log: &mut Log) -> Option<()> {
    let place = place(words, object.text == "filter", log)?;
    words.rest();
    let ingress = place.handle.is_some_and(|handle| handle.text == "ffff:");
    if object.text == "qdisc" && (place.parent == Some(Parent::Device) || ingress || place.parent.is_none()) {
        devices.retain(|device| place.device.is_none_or(|name| device.name != name.text));
        return Some(());
    }
    let why = format!("only a whole device is deleted: tc qdisc {} dev eth0 root", verb.text);
    wrong(&object.at, why, Some("take the command out, together with what it takes away"), log);
    None
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
    if ["ingress", "clsact"].contains(&kind.text.as_str()) {
        words.rest();
        left_out(
            &whole,
            format!("\"{}\" is about what comes in, and a link file about what goes out", kind.text),
            log,
            notes,
        );
        return None;
    }
    match place.parent {
        Some(Parent::Device) => {
            let kind = options::root(kind, words, log, notes)?;
            let major = match place.handle {
                None => 1,
                Some(handle) => match discipline(&handle.text) {
                    Some(major) => major,
                    None => {
                        let why = format!("the handle \"{}\" is no number with a colon", handle.text);
                        wrong(&handle.at, why, Some("write handle 1:, hexadecimal"), log);
                        return None;
                    }
                },
            };
            device.root = Some(Root { at: whole, major, kind });
            device.classes.clear();
            device.filters.clear();
        }
        Some(Parent::Class(parent)) => {
            let Some(class) = device.classes.get_mut(parent) else {
                let why = format!("there is no class {parent} on {} by now", device.name);
                wrong(&whole, why, Some("add the class above"), log);
                return None;
            };
            class.queue = None;
            let (queue, buffer, ecn) = options::queue(kind, words, log, notes)?;
            class.queue = Some(LeafQueue { at: whole, queue, buffer, ecn });
        }
        Some(Parent::Discipline(_)) | None => {
            let why = "a queueing discipline stands at the root or below a class".to_owned();
            wrong(&whole, why, Some("write root, or parent 1:2"), log);
            return None;
        }
    }
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
        let why = format!("there is neither htb nor cbq at the root of {} by now", device.name);
        wrong(&whole, why, Some("add it above: tc qdisc add dev eth0 root handle 1: htb"), log);
        return None;
    };
    if kind.text != root.kind.name() {
        let why = format!("a class of \"{}\" where the root has {}", kind.text, root.kind.name());
        wrong(&kind.at, why, Some("all classes are of the queueing discipline at the root"), log);
        return None;
    }
    let Some(id) = place.classid else {
        wrong(&whole, "this class has no number".to_owned(), Some("write classid 1:2 into it"), log);
        return None;
    };
    if id.major() != root.major {
        let why = format!("the class {id} is not of the queueing discipline {:x}: at the root", root.major);
        wrong(&whole, why, Some("give both the same number before the colon"), log);
        return None;
    }
    let parent = match place.parent {
        Some(Parent::Class(parent)) if device.class(parent).is_none() || parent == id => {
            let why = format!("there is no class {parent} on {} by now", device.name);
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
        wrong(&whole, format!("the class {id} has no \"rate\""), Some("write rate 1mbit into it"), log);
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
