//! tc: a script of commands, input of `tc -batch`, or tc's output for a running system.
//!
//! The reader is that of `commands`, documented in `docs/tc.md`. Here rates that do not fit in the hierarchy are
//! scaled down, and frames that tc sends past all classes get a class. `hls` replaces HTB or CBQ, unless those are
//! kept.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use super::info::AS_IS;
use super::{Draft, FileInfo, ImportInfo, Imported, MEND, Number, OptionInfo, Options, file_stem, sound};
use crate::commands::convert::{ImportOptions, Lending, read_as};
use crate::problem::{Log, Problem, Problems, Source};

const DEVICE: OptionInfo = OptionInfo {
    default: Some("all; several need --out"),
    ..OptionInfo::name("dev", "IF", "Import only this device; also the name for output without a device")
};

pub(super) const INFO: ImportInfo = ImportInfo {
    name: "tc",
    tool: "tc",
    help: "tc: a script of commands, or output of `tc -d qdisc|class|filter show` of a running system",
    files: &[FileInfo {
        key: "file",
        placeholder: "FILE",
        help: "The file: commands, or output of tc, as text or JSON",
        number: Number::One,
        name: "text.tc",
        endings: &[],
    }],
    options: &[OptionInfo::rate("cbq's bandwidth; of htb the sum of the root's classes"), DEVICE, AS_IS],
    without: &[],
    has_plans: false,
    unmatched: MEND,
    sign: |text| {
        let verbs = ["add", "replace", "change", "htb", "hfsc", "cbq"];
        let is = |pair: &[&str]| ["qdisc", "class"].contains(&pair[0]) && verbs.contains(&pair[1]);
        text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().windows(2).any(is))
    },
    reader: |sources, options| read(&sources[0], options),
};

fn read(source: &Source, options: &Options) -> Result<Imported, Problems> {
    let of = |device: Option<String>| ImportOptions { rate: options.rate(), device };
    let all = read_as(source, &of(options.get(DEVICE.key).map(str::to_owned)), Lending::Fitted)?;
    if all.pooled {
        let mut log = Log::new(source);
        let help = "import slots of HTB's first version with fairlink tc import: only a simulation can have several links that share a pool";
        super::notes::wrong(0..0, "classes of several devices share a slot", help, &mut log);
        return Err(log.into_errors());
    }
    let (mut links, mut kept, mut notes) = (Vec::new(), Vec::new(), Vec::<Problem>::new());
    let mut known = HashSet::new();
    for device in &all.devices {
        let before = read_as(source, &of(Some(device.clone())), Lending::Fitted)?;
        let lending = if options.as_is() { Lending::Fitted } else { Lending::Fair };
        let after = read_as(source, &of(Some(device.clone())), lending)?;
        // A note that applies to all devices is given once.
        notes.extend(after.notes.into_iter().filter(|note| known.insert((note.span(), note.to_string()))));
        let [classes, matches] = ["\n[[class]]", "\nmatch = ["].map(|what| after.text.matches(what).count());
        kept.push(format!(
            "{device}: {classes} classes with their rates and ceilings, the filters of {matches} of them"
        ));
        let idle = if after.text.contains("name = \"others\"") { vec!["others".to_owned()] } else { Vec::new() };
        // HFSC is unchanged, so there is nothing to compare.
        // Only queues may differ if the scheduler is unchanged.
        let scheduler = |text: &str| text.lines().find(|line| line.starts_with("scheduler = ")).map(str::to_owned);
        let is_other = options.as_is() || scheduler(&before.text) != scheduler(&after.text);
        let before = is_other.then_some(before.text);
        links.push(Draft { name: file_stem(device), text: after.text, tabled: None, before, idle });
    }
    sound(links, kept, notes)
}
