//! Routes: the links that a source's packets cross after its own.

use fairlink_core::{ClassId, Nanos};
use fairlink_traffic::SourceSpec;

use crate::link::{LinkFile, leaf};
use crate::peers::Peer;
use crate::problem::{Log, ProblemKind, Span};
use crate::reader::{Table, Value};

/// Most links of a route after its first.
const MAX_HOPS: usize = 1000;

/// A source whose packets cross several links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// Name in reports: the classes of the route.
    pub name: String,
    /// Link of the source (0 is the scenario's own, then its peers), and the source's index among those of that link.
    pub source: (usize, usize),
    /// The links after that one, in order, with the leaf there. At least one.
    pub hops: Vec<(usize, ClassId)>,
    /// Maximum promised delay of each link but the last, if a delay-jitter regulator delays packets before the next.
    pub regulated: Option<Vec<Nanos>>,
}

/// The links of a scenario: its own and its peers.
pub(super) struct Network<'a> {
    pub(super) own: &'a LinkFile,
    pub(super) peers: &'a [Peer],
}

impl<'a> Network<'a> {
    fn link(&self, number: usize) -> &'a LinkFile {
        match number.checked_sub(1) {
            None => self.own,
            Some(peer) => &self.peers[peer].link,
        }
    }

    /// Name of a class in reports.
    fn name(&self, link: usize, class: ClassId) -> String {
        let name = self.link(link).names.name(class);
        match link.checked_sub(1) {
            None => name.to_owned(),
            Some(peer) => format!("{}:{name}", self.peers[peer].name),
        }
    }

    /// The leaf that `text` names: `CLASS` of the scenario's own link, `PEER:CLASS` of another.
    fn leaf(&self, text: &str, span: Span, log: &mut Log) -> Option<(usize, ClassId)> {
        let peer = text.split_once(':').and_then(|(peer, class)| {
            let place = self.peers.iter().position(|known| known.name == peer)?;
            Some((place + 1, class))
        });
        let (number, class) = peer.unwrap_or((0, text));
        let link = self.link(number);
        Some((number, leaf(&link.tree, &link.names, class, span, log)?))
    }
}

/// Reads the route in a `[[source]]`, which is number `source.1` of link `source.0`; `None` if there is none or it is
/// invalid.
pub(super) fn route(
    table: &Table<'_, '_>,
    network: &Network<'_>,
    (source, spec): ((usize, usize), &SourceSpec),
    before: &[RouteSpec],
    log: &mut Log,
) -> Option<RouteSpec> {
    const EXPECTED: &str = "the classes of the following links, in order: [\"core:voice\", \"exit:voice\"]";
    let Some(value) = table.get("route") else {
        if table.get("regulator").is_some() {
            let why = "delays packets between two links, and the source has no route".to_owned();
            let help = "add route = [\"PEER:CLASS\"], or remove it";
            log.error(table.key_span("regulator"), ProblemKind::Misplaced { key: "regulator", why, help });
        }
        return None;
    };
    let all = value.list(EXPECTED, log)?;
    if all.is_empty() || all.len() > MAX_HOPS {
        value.out_of_range(format!("a list of {}", all.len()), "1 class".to_owned(), MAX_HOPS.to_string(), log);
        return None;
    }
    let mut hops = Vec::with_capacity(all.len());
    for hop in &all {
        hops.push(network.leaf(hop.string("the name of a class in quotes", log)?, hop.span(), log)?);
    }
    let longest = spec.lengths().map_or(0, |(_, longest)| longest);
    for (hop, &(link, _)) in all.iter().zip(&hops) {
        let mtu = network.link(link).mtu;
        if longest > mtu {
            log.error(hop.span(), ProblemKind::AboveMtu { bytes: longest.into(), mtu });
            return None;
        }
    }
    let way: Vec<String> =
        std::iter::once((source.0, spec.class)).chain(hops.iter().copied()).map(|(l, c)| network.name(l, c)).collect();
    let route = RouteSpec { name: way.join(" > "), source, hops, regulated: regulator(table, all.len(), log)? };
    if let Some(back) = circle(before, &route) {
        let link = match back.checked_sub(1) {
            None => "the scenario's own link".to_owned(),
            Some(peer) => format!("the link \"{}\"", network.peers[peer].name),
        };
        let why = format!("forms a cycle through {link}, alone or with the routes above");
        let help = "make all routes visit the links in the same order";
        log.error(value.span(), ProblemKind::Misplaced { key: "route", why, help });
        return None;
    }
    Some(route)
}

/// Reads the delays of a delay-jitter regulator on a route of `count` links after the first; empty if there is none.
#[allow(clippy::option_option)]
fn regulator(table: &Table<'_, '_>, count: usize, log: &mut Log) -> Option<Option<Vec<Nanos>>> {
    const EXPECTED: &str = "{ delay_jitter = [\"12ms\"] }: the maximum delay promised by each link but the last";
    let Some(value) = table.get("regulator") else { return Some(None) };
    let table = value.table("regulator", EXPECTED, log)?;
    table.only(&["delay_jitter"], log);
    let value = table.need("delay_jitter", "delay_jitter = [\"12ms\"]", log)?;
    let delays = value.list("a delay for each link but the last", log)?;
    if delays.len() != count {
        let message = format!("{} delays for {count} links before the last; write one for each", delays.len());
        log.error(value.span(), ProblemKind::Refused { message });
        return None;
    }
    let delays: Option<Vec<Nanos>> = delays.into_iter().map(|value: Value<'_, '_>| value.some_time(log)).collect();
    Some(Some(delays?))
}

/// A link that `route` makes the beginning and the end of a way, together with the routes before it, which make none.
fn circle(before: &[RouteSpec], route: &RouteSpec) -> Option<usize> {
    let links = |route: &RouteSpec| -> Vec<usize> {
        std::iter::once(route.source.0).chain(route.hops.iter().map(|&(link, _)| link)).collect()
    };
    let edges: Vec<(usize, usize)> = before
        .iter()
        .chain([route])
        .flat_map(|route| links(route).windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>())
        .collect();
    links(route).into_iter().find(|&start| {
        let (mut reached, mut next) = (vec![start], 0);
        while let Some(&from) = reached.get(next) {
            next += 1;
            for &(_, to) in edges.iter().filter(|&&(edge, _)| edge == from) {
                if to == start {
                    return true;
                }
                if !reached.contains(&to) {
                    reached.push(to);
                }
            }
        }
        false
    })
}
