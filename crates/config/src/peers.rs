//! `[[peer]]` of a scenario file: further links.

use fairlink_core::Nanos;
use fairlink_traffic::SourceSpec;

use crate::link::{LinkFile, ReadOptions};
use crate::names::named;
use crate::problem::{Log, ProblemKind};
use crate::reader::Table;

const PEER: &str = "[[peer]]";
pub(crate) const KEYS: [&str; 4] = ["name", "link", "class", "propagation"];

/// A further link of a scenario.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// The link. It runs the scheduler of the scenario's first link; the scheduler of its own file is ignored.
    pub link: LinkFile,
    /// Propagation delay of the link, for packets that continue to another link.
    pub propagation: Nanos,
    /// Sources that send over the link, as [`Scenario::sources`](crate::Scenario::sources).
    pub sources: Vec<SourceSpec>,
}

/// Reads the links after the first, without sources.
pub(crate) fn peers(document: &Table<'_, '_>, first: &LinkFile, options: &ReadOptions<'_>, log: &mut Log) -> Vec<Peer> {
    const EXPECTED: &str = "a table for each further link: [[peer]], in double brackets";
    let Some(value) = document.get("peer") else { return Vec::new() };
    let options = ReadOptions { leniency: options.leniency, scheduler: Some(&first.scheduler) };
    let mut peers: Vec<Peer> = Vec::new();
    let (mut classes, limit) = (first.tree.len() - 1, log.source().limits().classes);
    for value in value.list(EXPECTED, log).unwrap_or_default() {
        let Some(table) = value.table(PEER, EXPECTED, log) else { continue };
        table.only(&KEYS, log);
        let propagation = table.get("propagation").and_then(|value| value.time(log)).unwrap_or(Nanos::ZERO);
        let name = named(
            &table,
            |name| {
                if name.contains(':') {
                    return Some("has a colon, which separates the names of a link and its class".to_owned());
                }
                if peers.iter().any(|peer| peer.name == name) {
                    return Some("is already the name of a [[peer]]".to_owned());
                }
                let begins = |class: &&str| class.split_once(':').is_some_and(|(link, _)| link == name);
                first
                    .names
                    .iter()
                    .find(begins)
                    .map(|class| format!("is also the beginning of the class name \"{class}\""))
            },
            log,
        );
        match LinkFile::inline_or_named(&table, &options, log) {
            Ok(Some(link)) if classes + link.tree.len() - 1 > limit => {
                classes += link.tree.len() - 1;
                log.error(table.span.clone(), ProblemKind::TooManyHere { classes, limit });
                break;
            }
            Ok(Some(link)) => {
                classes += link.tree.len() - 1;
                peers.extend(name.map(|name| Peer { name, link, propagation, sources: Vec::new() }));
            }
            Ok(None) => {}
            Err(problems) => log.add_all(problems),
        }
    }
    peers
}
