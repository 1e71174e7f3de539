//! Policers. For received traffic, the rate becomes a class of a separate link named after the device and `-ingress`;
//! for sent traffic before the root (clsact), one of `-egress`. At the root, it becomes the ceiling of the class that
//! the filter names, if the class has no other frames.

use super::{Parent, Place, device_named};
use crate::classid::Classid;
use crate::commands::findings::{changed, left_out};
use crate::commands::kernel::R2Q;
use crate::commands::options::Words;
use crate::commands::setup::{Class, Device, Policed, Root, RootKind, Settings};
use crate::commands::words::Word;
use crate::commands::{filter, units};
use crate::problem::{Log, Problem, Span};
use crate::units::show_bps;

/// The link that has the policers of a device.
const MAJOR: u16 = 1;
/// Suffix of a device's name for the link of policers of received traffic.
pub(super) const INCOMING: &str = "-ingress";
/// Like [`INCOMING`], for sent traffic.
pub(super) const OUTGOING: &str = "-egress";

/// Reads a filter on received traffic, or on sent traffic before the root.
pub(super) fn filter(
    place: &Place<'_>,
    kind: &Word,
    words: &mut Words<'_>,
    whole: &Span,
    devices: &mut Vec<Device>,
    log: &mut Log,
    notes: &mut Vec<Problem>,
) -> Option<()> {
    let name = &place.device?.text;
    let outgoing = place.parent == Some(Parent::Egress);
    let (comes, suffix) = if outgoing { ("goes out", OUTGOING) } else { ("comes in", INCOMING) };
    let all = words.rest();
    let after = |word: &str| all.windows(2).find(|pair| pair[0].text == word).map(|pair| pair[1].text.as_str());
    if let Some(to) = after("dev").filter(|_| all.iter().any(|word| word.text == "mirred")) {
        let why =
            format!("traffic that {comes} at {name} passes {to}: a link of that name is imported where it has classes");
        changed(whole, why, log, notes);
        if !outgoing {
            let marked = all.iter().any(|word| word.text == "connmark");
            device_named(to, devices).source = Some((name.clone(), marked));
        }
        return None;
    }
    let police = all.iter().position(|word| word.text == "police");
    let rate = police.and_then(|_| after("rate")).and_then(units::rate).filter(|&rate| rate > 0);
    let (Some(police), Some(rate)) = (police, rate) else {
        left_out(
            whole,
            format!("a filter on traffic that {comes} at {name} is left out: it has no policer with a rate"),
            log,
            notes,
        );
        return None;
    };
    // Its conditions come before its actions.
    let end = all[..police].iter().position(|word| word.text == "action").unwrap_or(police);
    let device = device_named(&format!("{name}{suffix}"), devices);
    let minor = u16::try_from(device.classes.len() + 1).ok()?;
    let id = Classid::new(MAJOR, minor)?;
    let target = format!("{MAJOR:x}:{minor:x}");
    let mut asked: Vec<Word> = all[..end].to_vec();
    asked.push(Word { text: "flowid".to_owned(), at: whole.clone() });
    asked.push(Word { text: target, at: whole.clone() });
    let read = filter::read((place.protocol, place.preference), kind, &mut Words::new(&asked), whole, log, notes)?;
    if device.root.is_none() {
        let kind = RootKind::Htb { default: None, r2q: R2Q, depth: None };
        device.root = Some(Root { at: whole.clone(), major: MAJOR, kind });
        let why = "a policer drops traffic above its rate; here it waits in the queue of a class with this ceiling";
        changed(whole, why.to_owned(), log, notes);
    }
    let set = Settings { rate: Some(rate), ..Settings::default() };
    device.classes.push(Class { at: whole.clone(), id, parent: None, set, queue: None });
    device.filters.extend(read);
    Some(())
}

/// The policer of a filter at the root, which is read from the whole command.
pub(super) fn of_class(command: &[Word], whole: &Span, class: Classid) -> Option<Policed> {
    let police = command.iter().position(|word| word.text == "police")?;
    let words: Vec<&str> = command[police..].iter().map(|word| word.text.as_str()).collect();
    let rate = words.windows(2).find(|pair| pair[0] == "rate").and_then(|pair| units::rate(pair[1]));
    let drops = words.iter().any(|word| *word == "drop" || word.starts_with("drop/"));
    Some(Policed { at: whole.clone(), class, rate: rate.filter(|&rate| rate > 0 && drops) })
}

/// Gives classes the ceilings of their policers.
pub(super) fn ceilings(device: &mut Device, log: &Log, notes: &mut Vec<Problem>) {
    for Policed { at, class, rate } in std::mem::take(&mut device.policed) {
        let default = device.root.as_ref().and_then(|root| match root.kind {
            RootKind::Htb { .. } => Classid::new(root.major, root.kind.default()?),
            _ => None,
        });
        let is_htb = matches!(device.root, Some(Root { kind: RootKind::Htb { .. }, .. }));
        let alone = device.filters.iter().filter(|filter| filter.class == class && filter.at != at).count() == 0
            && default != Some(class);
        let why = match (rate, alone) {
            (None, _) => "it does not drop traffic above a rate".to_owned(),
            (_, false) => format!("other frames go to {class}, too"),
            _ if !is_htb || !device.is_leaf(class) => format!("{class} is not a leaf of htb"),
            (Some(rate), true) => {
                let Some(class) = device.classes.get_mut(class) else { continue };
                let ceil = class.set.ceil.or(class.set.rate).unwrap_or(rate).min(rate);
                class.set.ceil = Some(ceil);
                class.set.rate = class.set.rate.map(|own| own.min(ceil));
                let why = format!(
                    "a policer drops traffic above its rate; here it waits in the queue of {}, whose ceiling is {}",
                    class.id,
                    show_bps(ceil)
                );
                changed(&at, why, log, notes);
                continue;
            }
        };
        left_out(&at, format!("WARNING: \"police\" of this filter has no counterpart: {why}"), log, notes);
    }
}
