//! Recordings that a scenario file names.

use fairlink_traffic::Trace;
#[cfg(feature = "recordings")]
use fairlink_traffic::{Accept, Recorded, read_trace};

#[cfg(feature = "recordings")]
use crate::class;
#[cfg(feature = "recordings")]
use crate::matching::{Match, frame_key, packet_key};
use crate::problem::{Log, ProblemKind};
use crate::reader::Table;
#[cfg(feature = "recordings")]
use crate::reader::{Value, unknown_word};

/// Refuses a recording.
#[cfg(not(feature = "recordings"))]
pub(super) fn trace(table: &Table<'_, '_>, log: &mut Log) -> Option<Trace> {
    let file = table.need("file", "file = \"capture.pcapng\"", log)?;
    let name = file.string("the name of a file in quotes", log)?;
    let path = log.source().beside(name);
    let reason = log.source().files().open(&path).err();
    let reason = reason.unwrap_or_else(|| "this program was built without recordings".to_owned());
    log.error(file.span(), ProblemKind::Refused { message: format!("{}: {reason}", path.display()) });
    None
}

#[cfg(feature = "recordings")]
const ACCEPTED: [&str; 4] = ["unsorted", "truncated", "cut", "link_type"];

/// The recording in `file`, which is looked for beside the scenario.
#[cfg(feature = "recordings")]
pub(super) fn trace(table: &Table<'_, '_>, log: &mut Log) -> Option<Trace> {
    let accept = table.get("accept").map_or(Some(Accept::default()), |value| accept(value, log));
    let repeat = table.get("repeat").map_or(Some(false), |value| value.boolean(log));
    let of_class = match table.get("of_class") {
        None => None,
        Some(value) => Some(value.string("the name of a class in the trace file, in quotes", log)?),
    };
    let matches: Vec<Match> = table
        .get("match")
        .map_or_else(Vec::new, |value| class::matches(value, log))
        .into_iter()
        .map(|(made, _)| made)
        .collect();
    if table.get("match").is_some() && matches.is_empty() {
        return None;
    }
    let file = table.need("file", "file = \"capture.pcapng\"", log)?;
    let name = file.string("the name of a file in quotes", log)?;
    let path = log.source().beside(name);
    let (accept, repeat) = (accept?, repeat?);
    let take = |recorded: Recorded<'_>| {
        let key = || if recorded.bare_ip { packet_key(recorded.bytes) } else { frame_key(recorded.bytes) };
        let matched = || {
            let key = key();
            matches.iter().any(|made| made.matches(&key))
        };
        of_class.is_none_or(|name| recorded.class == Some(name)) && (matches.is_empty() || matched())
    };
    let opened = log.source().files().open(&path);
    let read = opened.and_then(|file| read_trace(file, accept, repeat, take).map_err(|error| error.to_string()));
    read.map_err(|reason| {
        log.error(file.span(), ProblemKind::Refused { message: format!("{}: {reason}", path.display()) });
    })
    .ok()
}

/// Reads a fault that is accepted.
#[cfg(feature = "recordings")]
fn accept(value: Value<'_, '_>, log: &mut Log) -> Option<Accept> {
    let mut accept = Accept::default();
    for value in value.list("a list such as [\"cut\"]", log)? {
        match value.string("a word in quotes", log)? {
            "unsorted" => accept.unsorted = true,
            "truncated" => accept.truncated = true,
            "cut" => accept.cut = true,
            "link_type" => accept.link_type = true,
            word => {
                log.error(value.span(), unknown_word("fault of a recording", word, ACCEPTED.into_iter()));
                return None;
            }
        }
    }
    Some(accept)
}
