//! Filters at what comes in: a policer's rate becomes a class of a link of its own, whose name is that of the device and `-ingress`.

use super::{Place, device_named};
use crate::classid::Classid;
use crate::problem::{Log, Problem, Span};
use crate::tc::findings::{changed, left_out};
use crate::tc::kernel::R2Q;
use crate::tc::options::Words;
use crate::tc::setup::{Class, Device, Root, RootKind, Settings};
use crate::tc::words::Word;
use crate::tc::{filter, units};

/// The link that has the policers of a device.
const MAJOR: u16 = 1;

/// Reads a filter at what comes in.
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
    let all = words.rest();
    let after = |word: &str| all.windows(2).find(|pair| pair[0].text == word).map(|pair| pair[1].text.as_str());
    if let Some(to) = after("dev").filter(|_| all.iter().any(|word| word.text == "mirred")) {
        let why =
            format!("what comes in at {name} goes through {to}: a link of that name is imported where it has classes");
        changed(whole, why, log, notes);
        return None;
    }
    let police = all.iter().position(|word| word.text == "police");
    let rate = police.and_then(|_| after("rate")).and_then(units::rate).filter(|&rate| rate > 0);
    let (Some(police), Some(rate)) = (police, rate) else {
        left_out(
            whole,
            format!("a filter at what comes in at {name} is left out: it has no policer with a rate"),
            log,
            notes,
        );
        return None;
    };
    // What it asks stands before what it does.
    let end = all[..police].iter().position(|word| word.text == "action").unwrap_or(police);
    let device = device_named(&format!("{name}-ingress"), devices);
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
        let why = "a policer drops what is above its rate; here it waits in the queue of a class with this ceiling";
        changed(whole, why.to_owned(), log, notes);
    }
    let set = Settings { rate: Some(rate), ..Settings::default() };
    device.classes.push(Class { at: whole.clone(), id, parent: None, set, queue: None });
    device.filters.push(read);
    Some(())
}
