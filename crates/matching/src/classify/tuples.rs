//! Matches on the same parts of a frame, in one hash table: one look-up of those parts finds the first match that the
//! frame meets.
//!
//! This is the tuple space search of Srinivasan, Suri and Varghese ("Packet Classification using Tuple Space Search",
//! 1999). A range of ports is several matches on ports that agree in their leading bits. A table holds numbers of rules
//! and not their values. A hit is compared with the rule itself, so a hash collision costs time and nothing else.

use std::collections::HashMap;

use crate::{FrameKey, Match, PortRange};
use fairlink_core::{ClassId, Work};

use super::{Counters, NONE, hash};

/// Rules that look at the same parts get a table from this number on. Fewer are tried one by one.
const TABLE_FROM: usize = 4;
/// Maximum number of values of a rule with ranges of ports. A rule with more is tried directly.
const MOST_VALUES: usize = 64;

/// The compared parts of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Mask {
    src_mac: bool,
    dst_mac: bool,
    vlan: bool,
    inner_vlan: bool,
    ethertype: bool,
    /// True if it carries IP; all below is of IP.
    ip: bool,
    version: bool,
    proto: bool,
    /// Compared leading bits of the address; 0 for none.
    src: u8,
    dst: u8,
    /// Leading bits of the port.
    sport: Option<u8>,
    dport: Option<u8>,
    dscp: bool,
}

impl Mask {
    /// Returns all parts that `rule` compares.
    pub(super) fn of(rule: &Match) -> Self {
        let mut mask = Self {
            src_mac: rule.src_mac.is_some(),
            dst_mac: rule.dst_mac.is_some(),
            vlan: rule.vlan.is_some(),
            inner_vlan: rule.inner_vlan.is_some(),
            ethertype: rule.ethertype.is_some(),
            ip: false,
            version: rule.version.is_some() || rule.src.is_some() || rule.dst.is_some(),
            proto: rule.proto.is_some(),
            src: rule.src.map_or(0, |prefix| prefix.mapped_len()),
            dst: rule.dst.map_or(0, |prefix| prefix.mapped_len()),
            sport: rule.sport.map(|_| 16),
            dport: rule.dport.map(|_| 16),
            dscp: rule.dscp.is_some(),
        };
        mask.ip = mask.version || mask.proto || mask.sport.is_some() || mask.dport.is_some() || mask.dscp;
        mask
    }

    /// Returns the parts of either.
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            src_mac: self.src_mac || other.src_mac,
            dst_mac: self.dst_mac || other.dst_mac,
            vlan: self.vlan || other.vlan,
            inner_vlan: self.inner_vlan || other.inner_vlan,
            ethertype: self.ethertype || other.ethertype,
            ip: self.ip || other.ip,
            version: self.version || other.version,
            proto: self.proto || other.proto,
            src: self.src.max(other.src),
            dst: self.dst.max(other.dst),
            sport: self.sport.max(other.sport),
            dport: self.dport.max(other.dport),
            dscp: self.dscp || other.dscp,
        }
    }

    /// The frame as far as it is looked at. Whether it carries IP is kept wherever that matters.
    #[inline]
    pub(super) fn apply(&self, key: &FrameKey) -> FrameKey {
        FrameKey {
            src_mac: key.src_mac.filter(|_| self.src_mac),
            dst_mac: key.dst_mac.filter(|_| self.dst_mac),
            vlan: key.vlan.filter(|_| self.vlan),
            inner_vlan: key.inner_vlan.filter(|_| self.inner_vlan),
            ethertype: key.ethertype.filter(|_| self.ethertype),
            version: key.version.filter(|_| self.ip),
            proto: if self.proto { key.proto } else { 0 },
            src: leading(key.src, self.src),
            dst: leading(key.dst, self.dst),
            sport: port(key.sport, self.sport),
            dport: port(key.dport, self.dport),
            dscp: if self.dscp { key.dscp } else { 0 },
        }
    }

    /// Returns the key of a frame in a table of these parts; both versions of IP are equal if no rule tests them.
    /// `None` if the frame cannot meet any rule of the table.
    fn value(&self, key: &FrameKey) -> Option<FrameKey> {
        let missing = (self.src_mac && key.src_mac.is_none())
            || (self.dst_mac && key.dst_mac.is_none())
            || (self.vlan && key.vlan.is_none())
            || (self.inner_vlan && key.inner_vlan.is_none())
            || (self.ethertype && key.ethertype.is_none())
            || (self.ip && key.version.is_none())
            || (self.sport.is_some() && key.sport.is_none())
            || (self.dport.is_some() && key.dport.is_none());
        if missing {
            return None;
        }
        let value = self.apply(key);
        Some(FrameKey { version: value.version.filter(|_| self.version), ..value })
    }
}

/// The first `bits` bits of an address.
fn leading(address: [u8; 16], bits: u8) -> [u8; 16] {
    match bits {
        0 => [0; 16],
        128.. => address,
        _ => (u128::from_be_bytes(address) & (u128::MAX << (128 - bits))).to_be_bytes(),
    }
}

/// The first `bits` bits of a port.
fn port(port: Option<u16>, bits: Option<u8>) -> Option<u16> {
    let (port, bits) = (port?, bits?);
    Some(if bits == 0 { 0 } else { port & (u16::MAX << (16 - bits.min(16))) })
}

/// The range as ports that agree in their leading bits: the first port and the number of bits of each.
fn blocks(range: PortRange) -> Vec<(u16, u8)> {
    let mut blocks = Vec::new();
    let (mut from, end) = (u32::from(range.first), u32::from(range.last) + 1);
    while from < end {
        // The largest block that begins here and ends in time.
        let aligned = if from == 0 { 16 } else { from.trailing_zeros() };
        let size = aligned.min((end - from).ilog2());
        blocks.push((from as u16, 16 - size as u8));
        from += 1 << size;
    }
    blocks
}

/// Returns the tables and values of a rule; `None` if they are too many. A rule that no frame meets has none.
fn values(rule: &Match) -> Option<Vec<(Mask, FrameKey)>> {
    let any = || vec![(0, 0)];
    let sports = rule.sport.map_or_else(any, blocks);
    let dports = rule.dport.map_or_else(any, blocks);
    if sports.len() * dports.len() > MOST_VALUES {
        return None;
    }
    let versions = [rule.version, rule.src.map(|prefix| prefix.version()), rule.dst.map(|prefix| prefix.version())];
    let version = versions.into_iter().flatten().next();
    if versions.into_iter().flatten().any(|other| Some(other) != version) {
        return Some(Vec::new());
    }
    let whole = Mask::of(rule);
    let mut values = Vec::with_capacity(sports.len() * dports.len());
    for &(sport, sport_bits) in &sports {
        for &(dport, dport_bits) in &dports {
            let mask = Mask { sport: rule.sport.map(|_| sport_bits), dport: rule.dport.map(|_| dport_bits), ..whole };
            let value = FrameKey {
                src_mac: rule.src_mac,
                dst_mac: rule.dst_mac,
                vlan: rule.vlan,
                inner_vlan: rule.inner_vlan,
                ethertype: rule.ethertype,
                version,
                proto: rule.proto.unwrap_or(0),
                src: rule.src.map_or([0; 16], |prefix| prefix.address()),
                dst: rule.dst.map_or([0; 16], |prefix| prefix.address()),
                sport: rule.sport.map(|_| sport),
                dport: rule.dport.map(|_| dport),
                dscp: rule.dscp.unwrap_or(0),
            };
            values.push((mask, value));
        }
    }
    Some(values)
}

/// A slot of a hash table: a part of the hash, and the rule; [`NONE`] if it is free.
#[derive(Clone, Copy, Debug)]
struct Place {
    tag: u32,
    rule: u32,
}

/// All rules on the same parts, by their values. Of rules with equal values, the first.
#[derive(Debug)]
struct Table {
    mask: Mask,
    /// The first of its rules.
    first: u32,
    /// At most half are taken, so that there is always a free one; a power of two.
    places: Vec<Place>,
}

impl Table {
    fn new(mask: Mask, values: &HashMap<FrameKey, u32>, seed: u64) -> Self {
        let mut places = vec![Place { tag: 0, rule: NONE }; (2 * values.len()).next_power_of_two()];
        for (value, &rule) in values {
            let hash = hash(value, seed);
            let mut at = hash as usize & (places.len() - 1);
            while places[at].rule != NONE {
                at = (at + 1) & (places.len() - 1);
            }
            places[at] = Place { tag: (hash >> 32) as u32, rule };
        }
        Self { mask, first: values.values().copied().min().unwrap_or(NONE), places }
    }

    /// The first rule that `key` meets, if it comes before `found`; else `found`.
    #[inline]
    fn first<W: Work>(
        &self,
        rules: &[(ClassId, Match)],
        key: &FrameKey,
        mut found: u32,
        seed: u64,
        work: &Counters<W>,
    ) -> u32 {
        let Some(value) = self.mask.value(key) else { return found };
        work.tables.add(1);
        let hash = hash(&value, seed);
        let mut at = hash as usize & (self.places.len() - 1);
        loop {
            let Place { tag, rule } = self.places[at];
            work.places.add(1);
            if rule == NONE {
                return found;
            }
            if tag == (hash >> 32) as u32 && rule < found {
                work.matches.add(1);
                if rules[rule as usize].1.matches(key) {
                    found = rule;
                }
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }
}

/// The tables, in the order of their first rules.
#[derive(Debug)]
pub(super) struct Tuples {
    tables: Vec<Table>,
    seed: u64,
}

impl Tuples {
    /// Makes tables for those of `rules` whose indices are in `of`, if they pay; returns the others in order.
    pub(super) fn new(rules: &[(ClassId, Match)], of: &[u32], seed: u64) -> (Self, Vec<u32>) {
        let mut by_mask: HashMap<Mask, Vec<(FrameKey, u32)>> = HashMap::new();
        let mut others = Vec::new();
        for &index in of {
            match values(&rules[index as usize].1) {
                Some(values) => {
                    for (mask, value) in values {
                        by_mask.entry(mask).or_default().push((value, index));
                    }
                }
                None => others.push(index),
            }
        }
        let mut tables = Vec::new();
        for (mask, values) in by_mask {
            // A rule with values in several tables may also be among the others. That does not change a result.
            if values.len() < TABLE_FROM {
                others.extend(values.iter().map(|&(_, rule)| rule));
                continue;
            }
            let mut first: HashMap<FrameKey, u32> = HashMap::with_capacity(values.len());
            for (value, rule) in values {
                let known = first.entry(value).or_insert(rule);
                *known = rule.min(*known);
            }
            tables.push(Table::new(mask, &first, seed));
        }
        // The order of a hash map is random, that of the tables is not.
        tables.sort_by_key(|table| (table.first, table.mask));
        others.sort_unstable();
        others.dedup();
        others.shrink_to_fit();
        (Self { tables, seed }, others)
    }

    /// Number of tables.
    pub(super) fn tables(&self) -> usize {
        self.tables.len()
    }

    /// The first rule of any table that `key` meets, if it comes before `found`; else `found`.
    #[inline]
    pub(super) fn first<W: Work>(
        &self,
        rules: &[(ClassId, Match)],
        key: &FrameKey,
        mut found: u32,
        work: &Counters<W>,
    ) -> u32 {
        for table in &self.tables {
            if table.first >= found {
                break;
            }
            found = table.first(rules, key, found, self.seed, work);
        }
        found
    }

    /// Memory of the tables in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let places: usize = self.tables.iter().map(|table| table.places.capacity()).sum();
        self.tables.capacity() * size_of::<Table>() + places * size_of::<Place>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpVersion;

    #[test]
    fn blocks_of_a_range_are_the_range_and_each_port_is_in_one() {
        for (first, last) in
            [(0, 0), (0, u16::MAX), (1, u16::MAX), (5001, 5010), (1024, 2047), (3, 3), (65_535, 65_535)]
        {
            let blocks = blocks(PortRange { first, last });
            let ports: Vec<u32> =
                blocks.iter().flat_map(|&(from, bits)| u32::from(from)..u32::from(from) + (1 << (16 - bits))).collect();
            assert_eq!(ports, (u32::from(first)..=u32::from(last)).collect::<Vec<_>>(), "{first}-{last}");
            for &(from, bits) in &blocks {
                assert_eq!(port(Some(from), Some(bits)), Some(from));
            }
        }
    }

    #[test]
    fn a_rule_with_too_many_values_and_one_of_two_versions_get_no_table() {
        let range = Some(PortRange { first: 1, last: u16::MAX - 1 });
        assert_eq!(values(&Match { sport: range, dport: range, ..Match::ANY }), None);
        assert_eq!(values(&Match { sport: range, ..Match::ANY }).map(|values| values.len()), Some(30));
    }

    #[test]
    fn a_value_with_the_hash_of_another_is_not_taken_for_it() {
        let sport = |port: u16| Match { sport: Some(PortRange { first: port, last: port }), ..Match::ANY };
        let rules: Vec<(ClassId, Match)> = (1..=8).map(|port| (ClassId(u32::from(port)), sport(port))).collect();
        let (mut tuples, others) = Tuples::new(&rules, &[0, 1, 2, 3, 4, 5, 6, 7], 7);
        assert!(others.is_empty() && tuples.tables() == 1);
        let frame =
            |port: u16| FrameKey { version: Some(IpVersion::V4), proto: 17, sport: Some(port), ..FrameKey::default() };
        let seed = tuples.seed;
        let table = &mut tuples.tables[0];
        // The first place that 99 is looked for at says that rule 0 has the same hash.
        let hash = hash(&table.mask.value(&frame(99)).unwrap(), seed);
        let at = hash as usize & (table.places.len() - 1);
        table.places[at] = Place { tag: (hash >> 32) as u32, rule: 0 };
        assert_eq!(tuples.first(&rules, &frame(99), NONE, &Counters::<()>::default()), NONE);
    }
}
