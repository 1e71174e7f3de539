//! Classification: the class of the first match in file order that a frame meets, else the default class.
//!
//! There are four methods, each equivalent to trying all matches in order:
//! * Matches on nothing but a TCP or UDP destination port, the usual kind, are a table by port.
//! * Matches on the same parts of a frame (the same fields, and prefixes of the same lengths) are one hash table, with
//!   one look-up for all of them ([`tuples`]). So a list of prefixes costs one look-up for each length in it, regardless
//!   of the number of prefixes.
//! * Other matches are tried in order, up to the position of the best match so far.
//! * If that is expensive, a flow cache is consulted first. Its key has all fields that any match compares, so an entry
//!   is either right or missing. It has no other field, so flows that no match distinguishes share an entry.
//!
//! The table takes 512 KiB if there are port matches. The cache has [`CACHE_ENTRIES`] entries. A flood of new flows
//! costs the other methods for each frame and evicts the entries of other flows, but no more. The places of flows
//! depend on a random seed, so that an attacker cannot choose flows that evict a certain one. A reload makes a new
//! classifier with an empty cache.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::{FrameKey, Mac, Match, TCP, UDP};
use fairlink_core::{ClassId, Work};

use tuples::{Mask, Tuples};

mod tuples;

/// Entries of the flow cache. Those that hash to the same set replace each other, the older first.
const CACHE_ENTRIES: usize = 8192;
/// Entries of a set.
const WAYS: usize = 2;
/// Minimum number of comparisons of a classification for using the cache.
const CACHE_FROM: usize = 5;
/// Comparisons that take as long as asking a hash table.
const TABLE_COSTS: usize = 2;
/// Most table cells that are written at construction. Ranges beyond are matched in other ways.
const TABLE_WORK: usize = 1 << 24;
const NONE: u32 = u32::MAX;

/// A cache entry: a flow and its class.
type Entry = Option<(FrameKey, ClassId)>;

/// A compiled list of matches. `W` counts the steps of its answers, for experiments:
/// [`Counted`](fairlink_core::Counted), or `()` for nothing.
#[derive(Debug)]
pub struct Classifier<W = ()> {
    rules: Vec<(ClassId, Match)>,
    default: ClassId,
    /// By port: index of the first rule for UDP, then for TCP. Empty if there is none.
    by_port: Vec<[u32; 2]>,
    /// The rules that share a hash table with others.
    tuples: Tuples,
    /// Indices of the remaining rules, in order.
    others: Vec<u32>,
    /// Fields that any rule compares.
    looked_at: Mask,
    /// Sets of entries. Empty if a cache does not pay.
    cache: Vec<[Entry; WAYS]>,
    /// Per-process hash seed, so that cache sets cannot be targeted.
    seed: u64,
    work: Counters<W>,
}

/// Counters of the steps of a classifier, one for each kind in [`ClassifierSteps`].
#[derive(Debug, Default)]
struct Counters<W> {
    full: W,
    entries: W,
    tables: W,
    places: W,
    matches: W,
}

/// The steps of a classifier since it was made: [`Classifier::steps`]. The same calls take the same steps on every
/// machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassifierSteps {
    /// Frames that were classified in full. The flow cache answered for all others.
    pub full: u64,
    /// Entries of the flow cache that were compared with a frame.
    pub entries: u64,
    /// Tables that were asked: by port, and of matches that look at the same parts of a frame.
    pub tables: u64,
    /// Places of hash tables that were looked at.
    pub places: u64,
    /// Matches that were compared with a frame.
    pub matches: u64,
}

impl ClassifierSteps {
    /// The steps since an earlier reading of the same classifier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            full: self.full - earlier.full,
            entries: self.entries - earlier.entries,
            tables: self.tables - earlier.tables,
            places: self.places - earlier.places,
            matches: self.matches - earlier.matches,
        }
    }

    /// Entries, tables, places and matches together.
    #[must_use]
    pub fn all(self) -> u64 {
        self.entries + self.tables + self.places + self.matches
    }
}

impl Classifier {
    /// Makes a classifier of `rules`, in which the first match wins; `default` is for frames without a match.
    #[must_use]
    pub fn new(rules: &[(ClassId, Match)], default: ClassId) -> Self {
        Self::working(rules, default, RandomState::new().build_hasher().finish())
    }
}

impl<W: Work> Classifier<W> {
    /// Like [`Classifier::new`], with steps counted by `W` and with this seed of all hashes, for experiments. The
    /// places of flows in the cache are then the same in every run, and someone who knows the seed can choose flows
    /// that evict another.
    #[must_use]
    pub fn working(rules: &[(ClassId, Match)], default: ClassId, seed: u64) -> Self {
        // Rules behind one that matches everything are never reached.
        let reached = rules.iter().position(|(_, rule)| rule.is_any()).map_or(rules.len(), |index| index + 1);
        let rules = rules[..reached].to_vec();
        let mut by_port = Vec::new();
        let mut rest = Vec::new();
        let mut work = 0;
        for (index, (_, rule)) in rules.iter().enumerate() {
            match port_rule(rule) {
                Some((ports, protocols)) if work + ports.clone().count() <= TABLE_WORK => {
                    work += ports.clone().count();
                    by_port.resize(1 << 16, [NONE; 2]);
                    for cell in &mut by_port[ports] {
                        for protocol in protocols.clone() {
                            cell[protocol] = cell[protocol].min(index as u32);
                        }
                    }
                }
                _ => rest.push(index as u32),
            }
        }
        let (tuples, others) = Tuples::new(&rules, &rest, seed);
        let looked_at = rules.iter().map(|(_, rule)| Mask::of(rule)).fold(Mask::default(), Mask::union);
        let comparisons = others.len() + TABLE_COSTS * tuples.tables();
        let sets = if comparisons >= CACHE_FROM { CACHE_ENTRIES / WAYS } else { 0 };
        Self {
            rules,
            default,
            by_port,
            tuples,
            others,
            looked_at,
            cache: vec![[None; WAYS]; sets],
            seed,
            work: Counters::default(),
        }
    }

    /// The class of a frame with this key.
    #[must_use]
    #[inline]
    pub fn classify(&mut self, key: &FrameKey) -> ClassId {
        if self.cache.is_empty() {
            return self.look_up(key);
        }
        let key = self.looked_at.apply(key);
        let set = hash(&key, self.seed) as usize % self.cache.len();
        for (cached, class) in self.cache[set].iter().flatten() {
            self.work.entries.add(1);
            if *cached == key {
                return *class;
            }
        }
        let class = self.look_up(&key);
        let set = &mut self.cache[set];
        set.rotate_right(1);
        set[0] = Some((key, class));
        class
    }

    /// The steps of all classifications so far; 0 if they are not counted.
    #[must_use]
    pub fn steps(&self) -> ClassifierSteps {
        let Counters { full, entries, tables, places, matches } = &self.work;
        ClassifierSteps {
            full: full.steps(),
            entries: entries.steps(),
            tables: tables.steps(),
            places: places.steps(),
            matches: matches.steps(),
        }
    }

    /// Memory of the tables in bytes; it never grows.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.rules.capacity() * size_of::<(ClassId, Match)>()
            + self.by_port.capacity() * size_of::<[u32; 2]>()
            + self.tuples.memory_bytes()
            + self.others.capacity() * size_of::<u32>()
            + self.cache.capacity() * size_of::<[Entry; WAYS]>()
    }

    fn look_up(&self, key: &FrameKey) -> ClassId {
        self.work.full.add(1);
        let mut found = NONE;
        if !self.by_port.is_empty()
            && let Some(port) = key.dport
            && key.version.is_some()
        {
            self.work.tables.add(1);
            found = match key.proto {
                UDP => self.by_port[usize::from(port)][0],
                TCP => self.by_port[usize::from(port)][1],
                _ => NONE,
            };
        }
        found = self.tuples.first(&self.rules, key, found, &self.work);
        for &index in &self.others {
            if index > found {
                break;
            }
            self.work.matches.add(1);
            if self.rules[index as usize].1.matches(key) {
                found = index;
                break;
            }
        }
        self.rules.get(found as usize).map_or(self.default, |&(class, _)| class)
    }
}

/// The ports and the columns of the table that a rule takes, if it is on nothing but TCP's or UDP's destination port.
fn port_rule(rule: &Match) -> Option<(std::ops::RangeInclusive<usize>, std::ops::Range<usize>)> {
    let ports = rule.dport?;
    let columns = match rule.proto? {
        UDP => 0..1,
        TCP => 1..2,
        _ => return None,
    };
    let rest = Match { proto: None, dport: None, ..*rule };
    rest.is_any().then_some((usize::from(ports.first)..=usize::from(ports.last), columns))
}

/// Mixes the whole key and `seed`; only speed depends on its quality.
#[inline]
fn hash(key: &FrameKey, seed: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let word = |bytes: &[u8; 16], at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let port = |port: Option<u16>| u64::from(port.unwrap_or(0));
    let small = port(key.sport)
        | port(key.dport) << 16
        | port(key.vlan) << 32
        | u64::from(key.proto) << 48
        | u64::from(key.dscp) << 56;
    let mut mixed = (small ^ seed).wrapping_mul(FACTOR);
    // A field that is there and zero differs from one that is not.
    let there = [key.vlan, key.inner_vlan, key.ethertype, key.sport, key.dport];
    let there = there.iter().fold(0, |bits, field| bits << 1 | u64::from(field.is_some()));
    let kind = port(key.inner_vlan)
        | port(key.ethertype) << 16
        | there << 32
        | key.version.map_or(0, |version| version as u64 + 1) << 40;
    for word in [word(&key.src, 0), word(&key.src, 8), word(&key.dst, 0), word(&key.dst, 8), kind] {
        mixed = (mixed.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }
    // Most lists of matches look at no address of Ethernet.
    for Mac([a, b, c, d, e, f]) in [key.src_mac, key.dst_mac].into_iter().flatten() {
        mixed = (mixed.rotate_left(23) ^ u64::from_le_bytes([a, b, c, d, e, f, 0, 1])).wrapping_mul(FACTOR);
    }
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests;
