//! `model = "script"`: a script of the HTB text's generator as the sources of a scenario.
//!
//! A flow becomes a source for each length and rate that it has. Its class is the one whose `classid` is its priority.
//! Its link is the `[[peer]]` with the name of its interface. The only interface that is not a peer is the scenario's
//! own link.

use std::sync::Arc;

use fairlink_core::{ClassId, Nanos};
use fairlink_traffic::script::Flow;
use fairlink_traffic::{Script, SourceSpec};

use super::model::SCRIPT_KEYS;
use crate::changes::Course;
use crate::classid::Classid;
use crate::link::LinkFile;
use crate::peers::Peer;
use crate::problem::{Log, Problem, ProblemKind, Problems, Source, SourceText, Span};
use crate::reader::Table;

/// A script of a scenario, for figures of its flows.
#[derive(Clone, Debug)]
pub struct ScriptRun {
    /// The script.
    pub script: Script,
    /// For each of its flows, in order: its number, the link (0 is the scenario's own, then its peers), and the class
    /// there.
    pub flows: Vec<(u32, usize, ClassId)>,
}

/// Reads a script.
///
/// # Errors
/// All errors of the script, with places.
pub fn read_script(source: &Source) -> Result<Script, Problems> {
    Script::parse(source.inner()).map_err(|errors| {
        let mut log = Log::new(source);
        for error in errors {
            log.error(error.at, ProblemKind::Script { error: error.kind });
        }
        log.into_errors()
    })
}

/// Returns true if a `[[source]]` is a script.
pub(super) fn is_script(table: &Table<'_, '_>) -> bool {
    table.get("model").is_some_and(|value| value.value.get_ref().as_str() == Some("script"))
}

/// Reads a script, from its file or from the scenario itself. `None` if it is invalid; the log has the errors.
pub(super) fn open(table: &Table<'_, '_>, log: &mut Log) -> Option<(Source, Script)> {
    if let Some(text) = table.get("script") {
        table.not_both("script", "file", log);
        let text = text.string("the lines of a script in triple quotes", log)?;
        let source = SourceText::new(format!("{}: script", log.source().name()), text.to_owned());
        return read_script(&source).map(|script| (source, script)).map_err(|problems| log.add_all(problems)).ok();
    }
    let file = table.need("file", "file = \"flows.script\"", log)?;
    let name = file.string("the name of a file in quotes", log)?;
    let by = Arc::clone(log.source());
    let read = by.open(&by.beside(name)).and_then(|source| match read_script(&source) {
        Ok(script) => Ok((source, script)),
        // Nothing is quoted of a file that another one names and that does not look like a script.
        Err(problems) if !Script::is_one(source.inner()) => {
            let line = problems.all().first().map_or(1, |problem| problem.location().line);
            let empty = SourceText::new(source.name(), String::new());
            let kind = ProblemKind::NotSuchAFile { by: by.name().to_owned(), what: "script of the generator", line };
            Err(Problems::one(Problem::error(&empty, None, kind)))
        }
        Err(problems) => Err(problems),
    });
    read.map_err(|problems| log.add_all(problems)).ok()
}

/// The sources of a script: those of a peer go there, the others come back.
pub(super) fn sources(
    table: &Table<'_, '_>,
    own: Course<'_>,
    peers: &mut [Peer],
    runs: &mut Vec<ScriptRun>,
    log: &mut Log,
) -> Vec<SourceSpec> {
    table.only(&SCRIPT_KEYS, log);
    let Some((source, script)) = open(table, log) else { return Vec::new() };
    let refuse = |at: &Span, message: String, log: &mut Log| {
        log.add(Problem::error(&source, Some(at.clone()), ProblemKind::Refused { message }));
    };
    let mut own_sources = Vec::new();
    let mut own_interface: Option<&str> = None;
    let mut flows = Vec::new();
    for flow in &script.flows {
        let interface = flow.interface.as_deref();
        let peer = interface.and_then(|name| peers.iter().position(|peer| peer.name == name));
        if let (None, Some(name)) = (peer, interface) {
            let first = *own_interface.get_or_insert(name);
            if first != name {
                let why = format!(
                    "flow {} leaves on {name}, and the scenario's own link is {first}; add a [[peer]] with name = \"{name}\"",
                    flow.number
                );
                refuse(&flow.at, why, log);
                continue;
            }
        }
        let course = match peer {
            Some(peer) => Course { first: &peers[peer].link, changes: &[], duration: own.duration },
            None => own,
        };
        let class = match class_of(flow, course.first) {
            Ok(class) => class,
            Err(why) => {
                refuse(&flow.at, why, log);
                continue;
            }
        };
        let made = flow.sources(class);
        let longest = flow.pieces.iter().map(|piece| piece.size).max().unwrap_or(0);
        if longest > course.mtu() {
            let kind = ProblemKind::AboveMtu { bytes: longest.into(), mtu: course.mtu() };
            log.add(Problem::error(&source, Some(flow.at.clone()), kind));
            continue;
        }
        for spec in &made {
            course.check_active(class, course.first.names.name(class), &spec.active, table.span.clone(), log);
        }
        flows.push((flow.number, peer.map_or(0, |peer| peer + 1), class));
        match peer {
            Some(peer) => peers[peer].sources.extend(made),
            None => own_sources.extend(made),
        }
    }
    runs.push(ScriptRun { script, flows });
    own_sources
}

/// The leaf that a flow's priority names.
fn class_of(flow: &Flow, link: &LinkFile) -> Result<ClassId, String> {
    let number = flow.number;
    let Some(priority) = flow.priority else {
        return Err(format!(
            "flow {number} has no class; write \"0 P {number} 0x10002\" for the class with classid 1:2"
        ));
    };
    let Some(classid) = flow.classid().and_then(|(major, minor)| Classid::new(major, minor)) else {
        return Err(format!(
            "the priority {priority:#x} of flow {number} names no class; 0x10002 names the classid 1:2"
        ));
    };
    match link.class_numbered(classid) {
        Some(class) if link.tree.is_leaf(class) => Ok(class),
        Some(class) => Err(format!(
            "flow {number} is for {classid}, and \"{}\" has classes below it; name one of them",
            link.names.name(class)
        )),
        None => Err(format!(
            "flow {number} is for {classid}, and no class of {} has that classid; write classid = \"{classid}\" into one",
            link.source().name()
        )),
    }
}

/// The latest end of the scripts of a scenario that has no duration of its own.
pub(super) fn latest_end(document: &Table<'_, '_>, log: &Log) -> Option<Nanos> {
    let mut aside = Log::new(log.source());
    let tables = document.get("source")?.list("", &mut aside)?;
    let tables = tables.into_iter().filter_map(|value| value.table(super::PLACE, "", &mut aside));
    let scripts: Vec<_> = tables.filter(is_script).collect();
    scripts.iter().filter_map(|table| Some(open(table, &mut aside)?.1.end)).max()
}

#[cfg(test)]
mod tests;
