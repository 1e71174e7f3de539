//! pf.conf with ALTQ, as FreeBSD has it and OpenBSD had it up to 5.4: `altq`, `queue`, and the `pass` and `match` rules
//! that name queues.
//!
//! Source: the grammar of pf.conf(5). \[hfsc\]'s scheduler became ALTQ's `hfsc`, whose curves have the same two pieces.
//!
//! | there | here |
//! | --- | --- |
//! | `altq on IF`, its `bandwidth` | a link, its rate |
//! | `hfsc`: `linkshare`, `realtime`, `upperlimit` | scheduler `hfsc`: `link_share`, `real_time`, `upper_limit`; without `linkshare` a line of the `bandwidth` |
//! | `cbq`: `bandwidth`, `borrow` | guarantee; an equal ceiling without `borrow`. CBQ itself if it is kept |
//! | `priq`: `priority` | scheduler `htb` with priorities and minimal guarantees |
//! | `qlimit` | `buffer`; 50 packets when absent |
//! | the last rule that matches, or the first with `quick` | the first match of the file |

mod order;
mod queues;
mod rules;
#[cfg(test)]
mod tests;
mod words;
mod write;

use fairlink_core::registry::find;
use fairlink_core::{Leniency, Members};

use self::queues::{Altq, Discipline, Queues};
use self::words::{Statement, statements};
use super::info::AS_IS;
use super::notes::{Notes, Tally, wrong};
use super::{Draft, FileInfo, ImportInfo, Imported, MEND, Number, OptionInfo, Options, sound};
use crate::problem::{Log, Problems, Source};

const INTERFACE: OptionInfo = OptionInfo {
    default: Some("all; several need --out"),
    ..OptionInfo::name("interface", "IF", "Import only the queues of this interface")
};

pub(super) const INFO: ImportInfo = ImportInfo {
    name: "pf",
    tool: "pf",
    help: "pf.conf with ALTQ: hfsc, cbq and priq of FreeBSD, and of OpenBSD up to 5.4",
    files: &[FileInfo {
        key: "file",
        placeholder: "FILE",
        help: "pf.conf, or its output of `pfctl -vnf pf.conf`",
        number: Number::One,
        name: "pf.conf",
        endings: &["conf"],
    }],
    options: &[OptionInfo::rate("the bandwidth of its altq"), INTERFACE, AS_IS],
    without: &[],
    has_plans: false,
    unmatched: MEND,
    sign: |text| {
        let is = |line: &str| {
            let mut words = line.split_whitespace();
            matches!(words.next(), Some("altq" | "queue")) && words.any(|word| word == "bandwidth" || word == "on")
        };
        text.lines().any(is)
    },
    reader: |sources, options| read(&sources[0], options),
};

/// Statements unrelated to queues.
const PASSED_OVER: [&str; 16] = [
    "set",
    "scrub",
    "nat",
    "rdr",
    "binat",
    "no",
    "table",
    "load",
    "antispoof",
    "nat-anchor",
    "rdr-anchor",
    "binat-anchor",
    "timeout",
    "limit",
    "ether",
    "pass-through",
];

/// Counts of findings that many statements have in common.
#[derive(Debug, Default)]
struct Tallies {
    passed_over: Tally,
    blocks: Tally,
    anchors: Tally,
    red: Tally,
    tbrsize: Tally,
    hfsc_priority: Tally,
    inner_curves: Tally,
    second_queue: Tally,
}

/// State of the reader.
struct Reading<'a> {
    source: &'a Source,
    options: &'a Options,
    log: Log,
    notes: Notes,
    tallies: Tallies,
}

fn read(source: &Source, options: &Options) -> Result<Imported, Problems> {
    let mut log = Log::new(source);
    let statements = statements(source.inner(), &mut log);
    let mut reading = Reading { source, options, log, notes: Notes::default(), tallies: Tallies::default() };
    let drafts = reading.links(&statements);
    if reading.log.has_errors() {
        return Err(reading.log.into_errors());
    }
    reading.tell();
    let Reading { mut log, notes, .. } = reading;
    let classes: usize = drafts.iter().map(|(draft, _)| draft.text.matches("\n[[class]]").count()).sum();
    let links = if drafts.len() == 1 { "1 link".to_owned() } else { format!("{} links", drafts.len()) };
    let kept = vec![format!("{classes} queues with their rates, curves and parents, in {links}")];
    let (drafts, places): (Vec<Draft>, Vec<_>) = drafts.into_iter().unzip();
    let imported = sound(drafts, kept, notes.all)?;
    // Curves that together ask for more than the link has are refused when a scheduler is built.
    for (link, at) in imported.links.iter().zip(places) {
        let built =
            find(&link.link.scheduler).map(|info| info.build(&link.link.tree, Leniency::Ignore, Members::new()));
        if let Some(Err(error)) = built {
            let help = "lower the curves in the file, or name a faster link with --rate";
            wrong(at, format!("the queues of \"{}\" do not fit: {error}", link.name), help, &mut log);
        }
    }
    if log.has_errors() { Err(log.into_errors()) } else { Ok(imported) }
}

impl Reading<'_> {
    /// The links, each with the place of its `altq`.
    fn links(&mut self, statements: &[Statement]) -> Vec<(Draft, crate::problem::Span)> {
        let mut queues = Queues::default();
        let mut filters = Vec::new();
        for statement in statements {
            match statement.first() {
                "altq" => queues.altq(statement, self),
                "queue" => queues.queue(statement, self),
                "pass" | "match" => filters.extend(rules::rule(statement, self)),
                "block" => self.tallies.blocks.add(&statement.at),
                "anchor" => self.tallies.anchors.add(&statement.at),
                "include" => {
                    let help = "pass a single file, such as the output of pfctl -vnf";
                    wrong(statement.at.clone(), "\"include\" refers to another file", help, &mut self.log);
                }
                word if PASSED_OVER.contains(&word) => self.tallies.passed_over.add(&statement.at),
                word => {
                    let help = "statements are macros, altq, queue, pass, match, block and others of pf.conf(5)";
                    wrong(
                        statement.at.clone(),
                        format!("\"{word}\" is not the beginning of a statement of pf.conf"),
                        help,
                        &mut self.log,
                    );
                }
            }
        }
        if self.log.has_errors() {
            return Vec::new();
        }
        let mut altqs: Vec<&Altq> = queues.altqs.iter().collect();
        let asked = self.options.get(INTERFACE.key);
        if let Some(asked) = asked {
            altqs.retain(|altq| altq.interface == asked);
        }
        if altqs.is_empty() {
            let names: Vec<&str> = queues.altqs.iter().map(|altq| altq.interface.as_str()).collect();
            let (what, help) = match asked {
                Some(asked) if !names.is_empty() => {
                    (format!("there is no altq on \"{asked}\""), format!("there are: {}", names.join(", ")))
                }
                _ => (
                    "there is no altq in this file".to_owned(),
                    "the queues of OpenBSD 5.5 and later are not ALTQ".to_owned(),
                ),
            };
            wrong(0..0, what, help, &mut self.log);
            return Vec::new();
        }
        queues.check_names(filters.iter().filter_map(|rule| rule.queue.as_ref()), self);
        let made = altqs.into_iter().filter_map(|altq| Some((self.link(altq, &queues, &filters)?, altq.at.clone())));
        made.collect()
    }

    fn link(&mut self, altq: &Altq, queues: &Queues, filters: &[rules::Rule]) -> Option<Draft> {
        let mut tree = queues.tree(altq, self)?;
        let found = rules::matches(&altq.interface, &tree, filters, self);
        order::into_file_order(&mut tree, found, self)?;
        if altq.discipline == Discipline::Cbq && !self.options.as_is() {
            let what = format!(
                "spare bandwidth on {}: CBQ gives it to borrowing queues by priority; here siblings share it in proportion to their guarantees, max-min fair",
                altq.interface
            );
            self.notes.changed(self.source, Some(altq.at.clone()), what);
            let what = format!(
                "priorities of CBQ on {}: hls has none; set latency_critical = true for delay-sensitive classes",
                altq.interface
            );
            self.notes.left_out(self.source, Some(altq.at.clone()), what);
        }
        if altq.discipline == Discipline::Priq {
            let what = format!(
                "priq on {}: htb with the same order of priorities and a minimal guarantee for each queue",
                altq.interface
            );
            self.notes.changed(self.source, Some(altq.at.clone()), what);
        }
        Some(write::link(&tree, self.source.name(), self.options.as_is()))
    }

    /// Adds a note for each finding of the tallies.
    fn tell(&mut self) {
        let Tallies { passed_over, blocks, anchors, red, tbrsize, hfsc_priority, inner_curves, second_queue } =
            std::mem::take(&mut self.tallies);
        let mut say = |tally: &Tally, change: bool, (one, many): (&str, &str), what: &str| {
            if let Some(some) = tally.some(one, many) {
                let note = if change { Notes::changed } else { Notes::left_out };
                note(&mut self.notes, self.source, tally.first.clone(), format!("{some} {what}"));
            }
        };
        let queues = ("queue", "queues");
        say(&red, true, queues, "with red or rio: a fifo of qlimit packets");
        say(
            &second_queue,
            true,
            ("rule", "rules"),
            "with a second queue for ACKs and low delay: all frames use the first",
        );
        say(&hfsc_priority, false, queues, "of hfsc with a priority, which its curves do not have");
        say(&inner_curves, false, queues, "with a realtime curve and queues below: only the curves of leaves apply");
        say(&tbrsize, false, ("tbrsize", "tbrsizes"), "of token bucket sizes, which a link file does not have");
        say(&blocks, false, ("block rule", "block rules"), "that drop frames: fairlink does not block frames");
        say(&anchors, false, ("anchor", "anchors"), "whose rules are not in this file");
        say(&passed_over, false, ("other statement", "other statements"), "unrelated to queues");
    }
}
