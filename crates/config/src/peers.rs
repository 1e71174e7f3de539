//! `[[peer]]` and `[[pool]]` of a scenario file: further links, and what links share.

use fairlink_core::{ClassId, Feature, Nanos, Pool, Rate, Share};
use fairlink_traffic::SourceSpec;

use crate::link::{LinkFile, ReadOptions};
use crate::names::refusal;
use crate::problem::{Log, Problem, ProblemKind};
use crate::reader::Table;

const PEER: &str = "[[peer]]";
const POOL: &str = "[[pool]]";

/// A further link of a scenario.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// The link. It runs under the scheduler of the scenario's first link, whatever its own file says.
    pub link: LinkFile,
    /// How long a bit travels along it, for packets that go on to another link.
    pub propagation: Nanos,
    /// Who sends over it, as [`Scenario::sources`](crate::Scenario::sources).
    pub sources: Vec<SourceSpec>,
}

/// A pool of bandwidth that classes of a scenario's links share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its name.
    pub name: String,
    /// What its members send together, at most.
    pub rate: Rate,
    /// Bytes that may be sent at once.
    pub burst: u64,
    /// Link (0 is the scenario's own, then its peers), class below that link's root, and its guarantee. At least one, together no more
    /// than `rate`.
    pub members: Vec<(usize, ClassId, Rate)>,
}

/// The links after the first, with nobody sending yet.
pub(crate) fn peers(document: &Table<'_, '_>, first: &LinkFile, options: &ReadOptions<'_>, log: &mut Log) -> Vec<Peer> {
    const EXPECTED: &str = "a table for each further link: [[peer]], in double brackets";
    let Some(value) = document.get("peer") else { return Vec::new() };
    let options = ReadOptions { leniency: options.leniency, scheduler: Some(&first.scheduler) };
    let mut peers: Vec<Peer> = Vec::new();
    for value in value.list(EXPECTED, log).unwrap_or_default() {
        let Some(table) = value.table(PEER, EXPECTED, log) else { continue };
        table.only(&["name", "link", "class", "propagation"], log);
        let propagation = table.get("propagation").and_then(|value| value.time(log)).unwrap_or(Nanos::ZERO);
        let name = named(
            &table,
            |name| {
                if name.contains(':') {
                    return Some("has a colon, which stands between the names of a link and of its class".to_owned());
                }
                if peers.iter().any(|peer| peer.name == name) {
                    return Some("is the name of another [[peer]]".to_owned());
                }
                let begins = |class: &&str| class.split_once(':').is_some_and(|(link, _)| link == name);
                first.names.iter().find(begins).map(|class| format!("is how the class \"{class}\" begins, too"))
            },
            log,
        );
        match LinkFile::inline_or_named(&table, &options, log) {
            Ok(Some(link)) => peers.extend(name.map(|name| Peer { name, link, propagation, sources: Vec::new() })),
            Ok(None) => {}
            Err(problems) => log.add_all(problems),
        }
    }
    peers
}

/// The pools, and in them the classes of all `links` that name them.
pub(crate) fn pools(document: &Table<'_, '_>, links: &[&LinkFile], log: &mut Log) -> Vec<PoolSpec> {
    const EXPECTED: &str = "a table for each pool: [[pool]], in double brackets";
    let tables = document.get("pool").and_then(|value| value.list(EXPECTED, log)).unwrap_or_default();
    let mut pools: Vec<PoolSpec> = Vec::new();
    let mut spans = Vec::new();
    let mut sound = true;
    for value in tables {
        let Some(table) = value.table(POOL, EXPECTED, log) else { continue };
        table.only(&["name", "rate", "burst"], log);
        let taken = |name: &str| {
            pools.iter().any(|pool| pool.name == name).then(|| "is the name of another [[pool]]".to_owned())
        };
        let name = named(&table, taken, log);
        let rate = table.need("rate", "rate = \"100mbit\"", log).and_then(|value| value.rate(None, log));
        let burst = table.need("burst", "burst = \"10kB\": what may be sent at once", log);
        let burst = burst.and_then(|value| value.some_size(u64::from(u32::MAX), log));
        match (name, rate, burst) {
            (Some(name), Some(rate), Some(burst)) => {
                pools.push(PoolSpec { name, rate, burst, members: Vec::new() });
                spans.push(table.span.clone());
            }
            _ => sound = false,
        }
    }
    for (number, link) in links.iter().enumerate() {
        for (class, pool) in &link.pools {
            let mut refuse = |why: String, help| {
                sound = false;
                let kind = ProblemKind::Misplaced { key: "pool", why, help };
                log.add(Problem::error(link.source(), link.feature_span(*class, Feature::Pool), kind));
            };
            match (pools.iter_mut().find(|known| known.name == *pool), link.tree.config(*class).share) {
                (Some(known), Some(Share::Guarantee(base))) => known.members.push((number, *class, base)),
                (Some(_), _) => refuse(
                    "needs a guarantee beside it, by which the pool is shared".to_owned(),
                    "give the class a guarantee",
                ),
                (None, _) => refuse(
                    format!("names \"{pool}\", and the scenario has no [[pool]] of that name"),
                    "add it: [[pool]] with name, rate and burst",
                ),
            }
        }
    }
    if sound {
        for (pool, span) in pools.iter().zip(spans) {
            let bases: Vec<Rate> = pool.members.iter().map(|&(.., base)| base).collect();
            if let Err(error) = Pool::share(pool.rate, pool.burst, &bases) {
                log.error(span, ProblemKind::Refused { message: format!("\"{}\": {error}", pool.name) });
            }
        }
    }
    pools
}

/// The name of a table, unless `refused` says why it cannot be.
fn named(table: &Table<'_, '_>, refused: impl FnOnce(&str) -> Option<String>, log: &mut Log) -> Option<String> {
    let value = table.need("name", "name = \"...\"", log)?;
    let name = value.string("a name in quotes", log)?;
    let why = refusal(name).map(|why| format!("cannot be {name:?}: {why}"));
    if let Some(why) = why.or_else(|| refused(name)) {
        log.error(value.span(), ProblemKind::Misplaced { key: "name", why, help: "choose another name" });
        return None;
    }
    Some(name.to_owned())
}
