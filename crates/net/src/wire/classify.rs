//! Which class a frame belongs to: that of the first match in file order that it meets, else the default class.
//!
//! There are three ways to that answer, each as if all matches were tried in order:
//! * Matches on nothing but a TCP or UDP destination port, the usual kind, are a table by port.
//! * The other matches are tried one by one, as far as they come before the one that the table names.
//! * If there are many of those, a flow cache is asked first. It holds whole keys, so that it is right or misses.
//!
//! The table takes 512 KiB where there are port matches. The cache has [`CACHE_ENTRIES`] entries. A flood of new flows costs a
//! walk over the matches per frame and evicts the entries of other flows, and no more.

use fairlink_config::matching::{FrameKey, Match, TCP, UDP};
use fairlink_core::ClassId;

/// Entries of the flow cache. Flows that hash to the same entry replace each other.
pub(crate) const CACHE_ENTRIES: usize = 8192;
/// The cache is used where at least this many matches are outside the table.
const CACHE_FROM: usize = 5;
/// Most table cells that are written at construction. Ranges beyond are matched one by one.
const TABLE_WORK: usize = 1 << 24;
const NONE: u32 = u32::MAX;

/// A compiled list of matches.
#[derive(Debug)]
pub struct Classifier {
    rules: Vec<(ClassId, Match)>,
    default: ClassId,
    /// By port: index of the first rule for UDP, then for TCP. Empty where there is none.
    by_port: Vec<[u32; 2]>,
    /// Indices of the rules outside the table, in order.
    others: Vec<u32>,
    /// Empty where it would not pay.
    cache: Vec<Option<(FrameKey, ClassId)>>,
}

impl Classifier {
    /// A classifier of `rules`, in which the first that matches wins; `default` where none does.
    #[must_use]
    pub fn new(rules: &[(ClassId, Match)], default: ClassId) -> Self {
        // Rules behind one that matches everything are never reached.
        let reached = rules.iter().position(|(_, rule)| rule.is_any()).map_or(rules.len(), |index| index + 1);
        let rules = rules[..reached].to_vec();
        let mut by_port = Vec::new();
        let mut others = Vec::new();
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
                _ => others.push(index as u32),
            }
        }
        let cache = if others.len() >= CACHE_FROM { vec![None; CACHE_ENTRIES] } else { Vec::new() };
        Self { rules, default, by_port, others, cache }
    }

    /// The class of a frame with this key.
    #[must_use]
    #[inline]
    pub fn classify(&mut self, key: &FrameKey) -> ClassId {
        if self.cache.is_empty() {
            return self.look_up(key);
        }
        let entry = hash(key) as usize % CACHE_ENTRIES;
        if let Some((cached, class)) = &self.cache[entry]
            && cached == key
        {
            return *class;
        }
        let class = self.look_up(key);
        self.cache[entry] = Some((*key, class));
        class
    }

    /// Memory of the tables in bytes; it never grows.
    #[must_use]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.rules.capacity() * size_of::<(ClassId, Match)>()
            + self.by_port.capacity() * size_of::<[u32; 2]>()
            + self.others.capacity() * size_of::<u32>()
            + self.cache.capacity() * size_of::<Option<(FrameKey, ClassId)>>()
    }

    fn look_up(&self, key: &FrameKey) -> ClassId {
        let mut found = NONE;
        if !self.by_port.is_empty()
            && let Some(port) = key.dport
            && key.version.is_some()
        {
            found = match key.proto {
                UDP => self.by_port[usize::from(port)][0],
                TCP => self.by_port[usize::from(port)][1],
                _ => NONE,
            };
        }
        for &index in &self.others {
            if index > found {
                break;
            }
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

/// Mixes the whole key; only speed depends on its quality.
#[inline]
fn hash(key: &FrameKey) -> u64 {
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
    let mut mixed = small;
    let kind = port(key.inner_vlan) | port(key.ethertype) << 16;
    for word in [word(&key.src, 0), word(&key.src, 8), word(&key.dst, 0), word(&key.dst, 8), kind] {
        mixed = (mixed.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_config::matching::{IpVersion, PortRange, Prefix, v4_mapped};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn reference(rules: &[(ClassId, Match)], default: ClassId, key: &FrameKey) -> ClassId {
        rules.iter().find(|(_, rule)| rule.matches(key)).map_or(default, |&(class, _)| class)
    }

    /// Few values of each field, so that rules and frames meet.
    fn rule() -> impl Strategy<Value = Match> {
        use proptest::option::weighted as option;
        let port = || (0u16..12, 0u16..4).prop_map(|(first, more)| PortRange { first, last: first + more });
        let prefix = || (0u8..4, 22u8..33).prop_map(|(last, len)| Prefix::v4(Ipv4Addr::new(10, 0, last, last), len));
        let general = (
            option(0.2, 0u16..3),
            (option(0.1, 0u16..3), option(0.1, 0x88b4u16..0x88b7)),
            option(0.6, prop_oneof![Just(UDP), Just(TCP), Just(1u8)]),
            option(0.2, prefix()),
            option(0.2, prefix()),
            option(0.2, port()),
            option(0.4, port()),
            option(0.2, 0u8..3),
        )
            .prop_map(|(vlan, (inner_vlan, ethertype), proto, src, dst, sport, dport, dscp)| {
                let version = (src.is_some() || dst.is_some()).then_some(IpVersion::V4);
                Match { vlan, inner_vlan, ethertype, version, proto, src, dst, sport, dport, dscp }
            });
        let by_port = (any::<bool>(), port()).prop_map(|(tcp, dport)| Match {
            proto: Some(if tcp { TCP } else { UDP }),
            dport: Some(dport),
            ..Match::ANY
        });
        prop_oneof![general, by_port]
    }

    fn key() -> impl Strategy<Value = FrameKey> {
        let address = || (0u8..4, 0u8..4).prop_map(|(c, d)| v4_mapped([10, 0, c, d]));
        (
            proptest::option::of(0u16..3),
            (proptest::option::of(0u16..3), proptest::option::of(0x88b4u16..0x88b7)),
            0u8..4,
            prop_oneof![Just(UDP), Just(TCP), Just(1u8)],
            (address(), address()),
            (proptest::option::weighted(0.9, 0u16..16), proptest::option::weighted(0.9, 0u16..16)),
            0u8..3,
        )
            .prop_map(|(vlan, (inner_vlan, ethertype), version, proto, (src, dst), (sport, dport), dscp)| {
                match version {
                    0 => FrameKey { vlan, inner_vlan, ethertype, ..FrameKey::default() },
                    1 => {
                        let version = Some(IpVersion::V6);
                        FrameKey { vlan, inner_vlan, ethertype, version, proto, src, dst, sport, dport, dscp }
                    }
                    _ => {
                        let version = Some(IpVersion::V4);
                        FrameKey { vlan, inner_vlan, ethertype, version, proto, src, dst, sport, dport, dscp }
                    }
                }
            })
    }

    proptest! {
        #[test]
        fn table_and_cache_answer_as_the_matches_do(
            rules in proptest::collection::vec(rule(), 0..20), keys in proptest::collection::vec(key(), 1..80)
        ) {
            let rules: Vec<_> = rules.into_iter().zip(1..).map(|(rule, class)| (ClassId(class), rule)).collect();
            let default = ClassId(99);
            let mut classifier = Classifier::new(&rules, default);
            // Twice, so that the second round is answered by the cache.
            for key in keys.iter().chain(&keys) {
                prop_assert_eq!(classifier.classify(key), reference(&rules, default, key), "{:?}", key);
            }
        }
    }

    #[test]
    fn flows_that_share_a_cache_entry_do_not_share_a_class() {
        let rules: Vec<_> = (0..8u16)
            .map(|port| {
                let sport = Some(PortRange { first: port, last: port });
                (ClassId(u32::from(port) + 1), Match { sport, ..Match::ANY })
            })
            .collect();
        let mut classifier = Classifier::new(&rules, ClassId(99));
        assert_eq!(classifier.cache.len(), CACHE_ENTRIES);
        let key = |sport: u16, n: u32| FrameKey {
            version: Some(IpVersion::V4),
            proto: UDP,
            src: v4_mapped(n.to_be_bytes()),
            sport: Some(sport),
            dport: Some(1),
            ..FrameKey::default()
        };
        // More flows than entries: each entry is shared by several.
        for n in 0..4 * CACHE_ENTRIES as u32 {
            let sport = (n % 8) as u16;
            assert_eq!(classifier.classify(&key(sport, n)), ClassId(u32::from(sport) + 1));
        }
    }

    #[test]
    fn file_order_decides_between_a_port_and_another_match() {
        let port = Match { proto: Some(UDP), dport: Some(PortRange { first: 5001, last: 5001 }), ..Match::ANY };
        let dscp = Match { dscp: Some(46), ..Match::ANY };
        let key =
            FrameKey { version: Some(IpVersion::V4), proto: UDP, dport: Some(5001), dscp: 46, ..FrameKey::default() };
        let mut first = Classifier::new(&[(ClassId(1), port), (ClassId(2), dscp)], ClassId(3));
        let mut second = Classifier::new(&[(ClassId(2), dscp), (ClassId(1), port)], ClassId(3));
        assert_eq!((first.classify(&key), second.classify(&key)), (ClassId(1), ClassId(2)));
        assert_eq!(first.classify(&FrameKey { dscp: 0, dport: Some(5002), ..key }), ClassId(3));
    }
}
