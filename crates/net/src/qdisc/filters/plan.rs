//! Filters by priority.

use std::collections::{BTreeMap, HashMap, HashSet};

use fairlink_config::LinkFile;
use fairlink_config::matching::{Match, Prefix};
use fairlink_core::ClassId;

use super::{Filter, Port, Unspoken, of_match};
use crate::qdisc::QdiscPlan;

/// Maximum number of priorities for the matches of a file.
pub(crate) const MOST_PRIORITIES: usize = 8192;
/// Maximum number of kinds in a priority; the kernel looks them up one after the other.
const MOST_KINDS: usize = 64;
/// Maximum number of filters of another kind that a filter is compared with.
const MOST_COMPARED: usize = 64;

/// A match that is no filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its class.
    pub class: ClassId,
    /// The match.
    pub made: Match,
    /// The reason.
    pub why: Unspoken,
}

/// The matches of a link file, ready for the kernel.
#[derive(Clone, Debug, Default)]
pub struct QdiscFilters {
    /// Filters by priority, with the minor numbers of their classes, in the order of addition.
    pub(crate) priorities: Vec<Vec<(Filter, u16)>>,
    /// Matches without filters.
    pub left_out: Vec<LeftOut>,
}

impl QdiscFilters {
    /// Number of filters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.priorities.iter().map(Vec::len).sum()
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.priorities.is_empty()
    }
}

/// Returns the filters for the matches of `link`, whose classes have the numbers of `plan`.
#[must_use]
pub fn filters(link: &LinkFile, plan: &QdiscPlan) -> QdiscFilters {
    let mut matches = link.matches.as_slice();
    // Frames that match no filter belong to that class anyway.
    if let Some(((class, made), before)) = matches.split_last()
        && made.is_any()
        && Some(*class) == link.default_class
    {
        matches = before;
    }
    let minor = |class: ClassId| plan.minors.get(class.index()).copied().unwrap_or(0);
    of_matches(matches, minor)
}

/// As [`filters`], for any list of matches.
pub(crate) fn of_matches(matches: &[(ClassId, Match)], minor: impl Fn(ClassId) -> u16) -> QdiscFilters {
    let mut made = QdiscFilters::default();
    let mut priority = Priority::default();
    for &(class, ref one) in matches {
        let added = of_match(one).and_then(|filters| {
            for filter in filters {
                if !priority.takes(&filter, class) {
                    if made.priorities.len() + 2 > MOST_PRIORITIES {
                        return Err(Unspoken::Priorities);
                    }
                    made.priorities.push(std::mem::take(&mut priority).filters);
                }
                priority.add(filter, class, minor(class));
            }
            Ok(())
        });
        made.left_out.extend(added.err().map(|why| LeftOut { class, made: *one, why }));
    }
    made.priorities.push(priority.filters);
    made.priorities.retain(|filters| !filters.is_empty());
    made
}

/// The priority that is being filled.
#[derive(Default)]
struct Priority {
    filters: Vec<(Filter, u16)>,
    /// Kinds in the order of their first filter, which is the kernel's lookup order.
    kinds: Vec<Asked>,
    places: HashMap<Filter, usize>,
    /// Those that are there.
    known: HashSet<Filter>,
}

impl Priority {
    /// Returns true if a filter of `class` may be added. File order must then hold: no frame that it matches belongs to
    /// an earlier filter of another class that the kernel looks up later.
    fn takes(&self, filter: &Filter, class: ClassId) -> bool {
        // Filters of another classifier have their own priorities.
        if self.filters.first().is_some_and(|(first, _)| matches!(first, Filter::All) != matches!(filter, Filter::All))
        {
            return false;
        }
        match self.places.get(&filter.kind()) {
            Some(&place) => self.kinds.iter().skip(place + 1).all(|kind| !kind.would_be_overtaken(filter, class)),
            None => self.kinds.len() < MOST_KINDS,
        }
    }

    fn add(&mut self, filter: Filter, class: ClassId, minor: u16) {
        // Of two equal filters the first counts.
        if !self.known.insert(filter) {
            return;
        }
        let place = *self.places.entry(filter.kind()).or_insert(self.kinds.len());
        if place == self.kinds.len() {
            self.kinds.push(Asked::default());
        }
        self.kinds[place].add(filter, class);
        self.filters.push((filter, minor));
    }
}

/// The filters of a kind in a priority.
#[derive(Default)]
struct Asked {
    filters: Vec<(Filter, ClassId)>,
    /// Indices into `filters` by the first address of the prefix that [`key`] chooses.
    by_address: BTreeMap<u128, Vec<usize>>,
    /// True if all belong to the class of the first one.
    one_class: bool,
    /// True if all have the EtherType of the first one.
    one_ethertype: bool,
}

impl Asked {
    fn add(&mut self, filter: Filter, class: ClassId) {
        let first = self.filters.first().copied().unwrap_or((filter, class));
        let before = !self.filters.is_empty();
        self.one_class = (!before || self.one_class) && first.1 == class;
        self.one_ethertype = (!before || self.one_ethertype) && ethertype(&first.0) == ethertype(&filter);
        if let Some((_, prefix)) = key(&filter) {
            self.by_address.entry(bits(prefix)).or_default().push(self.filters.len());
        }
        self.filters.push((filter, class));
    }

    /// Returns true if a frame may match both `filter` of `class` and one of these of another class, or if that would
    /// take too long to find out.
    fn would_be_overtaken(&self, filter: &Filter, class: ClassId) -> bool {
        let Some(&(first, of)) = self.filters.first() else { return false };
        if self.one_class && of == class || self.one_ethertype && apart(ethertype(&first), ethertype(filter)) {
            return false;
        }
        let mut near = self.near(filter);
        let met = near.by_ref().take(MOST_COMPARED).any(|(other, of)| *of != class && !disjoint(other, filter));
        met || near.next().is_some()
    }

    /// Returns the filters that may match the same frames as `filter`, judged by one address.
    fn near(&self, filter: &Filter) -> Box<dyn Iterator<Item = &(Filter, ClassId)> + '_> {
        let keys = (self.filters.first().and_then(|(first, _)| key(first)), key(filter));
        let (Some((end, own)), Some((of, prefix))) = keys else { return Box::new(self.filters.iter()) };
        if end != of {
            return Box::new(self.filters.iter());
        }
        // All have prefixes of the length of `own`: the one that contains `prefix`, or those within it.
        let mask = |len: u8| u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        let from = bits(prefix) & mask(own.mapped_len());
        let to = from.max(bits(prefix) | !mask(prefix.mapped_len()));
        Box::new(self.by_address.range(from..=to).flat_map(|(_, places)| places).filter_map(|&at| self.filters.get(at)))
    }
}

/// The address that distinguishes filters of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Destination,
    Source,
}

/// The prefix by which filters of this kind are indexed.
fn key(filter: &Filter) -> Option<(End, Prefix)> {
    let Filter::Flower(fields) = filter else { return None };
    fields.dst.map(|dst| (End::Destination, dst)).or_else(|| fields.src.map(|src| (End::Source, src)))
}

fn bits(prefix: Prefix) -> u128 {
    u128::from_be_bytes(prefix.address())
}

fn ethertype(filter: &Filter) -> Option<u16> {
    match filter {
        Filter::All => None,
        Filter::Flower(fields) => fields.ethertype,
    }
}

/// Returns true for two values of one field that no frame can have both.
fn apart<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

/// Returns true if no frame can match both filters. False means unknown.
fn disjoint(one: &Filter, other: &Filter) -> bool {
    let (Filter::Flower(one), Filter::Flower(other)) = (one, other) else { return false };
    let nets = |one: Option<Prefix>, other: Option<Prefix>| {
        one.zip(other).is_some_and(|(one, other)| !one.covers(&other) && !other.covers(&one))
    };
    apart(one.src_mac, other.src_mac)
        || apart(one.dst_mac, other.dst_mac)
        || apart(one.outer, other.outer)
        || apart(one.vlan, other.vlan)
        || apart(one.inner, other.inner)
        || apart(one.inner_vlan, other.inner_vlan)
        || apart(one.ethertype, other.ethertype)
        || apart(one.proto, other.proto)
        || apart(one.dscp, other.dscp)
        || nets(one.src, other.src)
        || nets(one.dst, other.dst)
        || ports_apart(one.sport, other.sport)
        || ports_apart(one.dport, other.dport)
}

fn ports_apart(one: Option<Port>, other: Option<Port>) -> bool {
    match (one, other) {
        (Some(Port::Masked(one, mask)), Some(Port::Masked(other, and))) => (one ^ other) & mask & and != 0,
        (Some(Port::Range(first, last)), Some(Port::Range(from, to))) => last < from || to < first,
        _ => false,
    }
}
