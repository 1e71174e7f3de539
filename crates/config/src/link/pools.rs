//! `[[pool]]`: bandwidth that classes of several links share.

use fairlink_core::{ClassId, Feature, Pool, PoolRule, Rate, Share};

use super::LinkFile;
use crate::names::named;
use crate::problem::{Log, Problem, ProblemKind};
use crate::reader::Table;

const POOL: &str = "[[pool]]";

/// A pool of bandwidth that classes of several links share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its name.
    pub name: String,
    /// Rule of sharing.
    pub rule: PoolRule,
    /// Maximum total rate of its members.
    pub rate: Rate,
    /// Bytes that may be sent at once.
    pub burst: u64,
    /// Link (of a scenario, 0 is its own, then come its peers; else as in the file), class below that link's root, and
    /// its guarantee. At least one, together no more than `rate`.
    pub members: Vec<(usize, ClassId, Rate)>,
}

/// The pools, and in them the classes of all `links` that name them.
pub(crate) fn read(document: &Table<'_, '_>, links: &[&LinkFile], log: &mut Log) -> Vec<PoolSpec> {
    const EXPECTED: &str = "a table for each pool: [[pool]], in double brackets";
    let tables = document.get("pool").and_then(|value| value.list(EXPECTED, log)).unwrap_or_default();
    let mut pools: Vec<PoolSpec> = Vec::new();
    let mut spans = Vec::new();
    let mut sound = true;
    // Pools with an error, which is reported once.
    let mut unsound: Vec<String> = Vec::new();
    for value in tables {
        let Some(table) = value.table(POOL, EXPECTED, log) else { continue };
        table.only(&["name", "rule", "rate", "burst"], log);
        let taken = |name: &str| {
            pools.iter().any(|pool| pool.name == name).then(|| "is already the name of a [[pool]]".to_owned())
        };
        let name = named(&table, taken, log);
        let rate = table.need("rate", "rate = \"100mbit\"", log).and_then(|value| value.rate(None, log));
        let burst = table.need("burst", "burst = \"10kB\": the largest burst", log);
        let burst = burst.and_then(|value| value.some_size(u64::from(u32::MAX), log));
        let rule = table.get("rule").map_or(Some(PoolRule::default()), |value| {
            value.word("rule", &PoolRule::ALL.map(|rule| (rule.as_str(), rule)), log)
        });
        match (name, rule, rate, burst) {
            (Some(name), Some(rule), Some(rate), Some(burst)) => {
                pools.push(PoolSpec { name, rule, rate, burst, members: Vec::new() });
                spans.push(table.span.clone());
            }
            (name, ..) => {
                sound = false;
                unsound.extend(name);
            }
        }
    }
    for (number, link) in links.iter().enumerate() {
        for (class, pool) in link.pools.iter().filter(|(_, pool)| !unsound.contains(pool)) {
            let mut refuse = |why: String, help| {
                sound = false;
                let kind = ProblemKind::Misplaced { key: "pool", why, help };
                log.add(Problem::error(link.source(), link.feature_span(*class, Feature::Pool), kind));
            };
            match (pools.iter_mut().find(|known| known.name == *pool), link.tree.config(*class).share) {
                (Some(known), Some(Share::Guarantee(base))) => known.members.push((number, *class, base)),
                (Some(_), _) => {
                    refuse("needs a guarantee, by which the pool is shared".to_owned(), "set a guarantee for the class")
                }
                (None, _) => refuse(
                    format!("names \"{pool}\", and there is no [[pool]] of that name"),
                    "add it: [[pool]] with name, rate and burst",
                ),
            }
        }
    }
    if sound {
        for (pool, span) in pools.iter().zip(spans) {
            let bases: Vec<Rate> = pool.members.iter().map(|&(.., base)| base).collect();
            if let Err(error) = Pool::share(pool.rule, pool.rate, pool.burst, &bases) {
                log.error(span, ProblemKind::Refused { message: format!("\"{}\": {error}", pool.name) });
            }
        }
    }
    pools
}
