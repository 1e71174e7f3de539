//! Finds matches that can never be the first to match, because an earlier one covers them.

use std::collections::HashMap;

use super::{Mac, Match, PortRange};

/// Matches seen so far, in file order.
///
/// They are grouped by which conditions they set (with the lengths of prefixes). A new match is compared with one
/// candidate of each group and not with all matches: files have up to a million matches but few shapes.
#[derive(Debug, Default)]
pub struct Reach {
    groups: Vec<(Match, Group)>,
    seen: usize,
}

/// Matches of one shape with their positions, keyed by the match with ranges of ports replaced by all ports.
type Group = HashMap<Match, Vec<(usize, Match)>>;

/// Most earlier matches that a new one is compared with in one group; only ranges of ports make more than one. Beyond
/// this number a match that is covered may go unnoticed. None is ever reported wrongly.
const MAX_CANDIDATES: usize = 1_000;

impl Reach {
    /// Adds the next match of the file; returns the position (0 first) of an earlier match that covers it, if there is
    /// one.
    pub fn add(&mut self, new: &Match) -> Option<usize> {
        let covered_by = self
            .groups
            .iter()
            .filter_map(|(shape, group)| group.get(&project(new, shape)?))
            .flat_map(|candidates| candidates.iter().take(MAX_CANDIDATES))
            .filter(|(_, earlier)| earlier.covers(new))
            .map(|&(position, _)| position)
            .min();
        self.seen += 1;
        if covered_by.is_some() {
            // The covering match covers everything that it covers.
            return covered_by;
        }
        let shape = shape_of(new);
        let group = match self.groups.iter().position(|(known, _)| *known == shape) {
            Some(index) => &mut self.groups[index].1,
            None => {
                self.groups.push((shape, Group::new()));
                &mut self.groups.last_mut().expect("just pushed").1
            }
        };
        let key = project(new, &shape).expect("a match has its own shape");
        group.entry(key).or_default().push((self.seen - 1, *new));
        None
    }
}

const ALL_PORTS: PortRange = PortRange { first: 0, last: u16::MAX };

/// A match that sets the same conditions, with their values taken away; prefixes keep their lengths.
fn shape_of(of: &Match) -> Match {
    Match {
        src_mac: of.src_mac.map(|_| Mac::default()),
        dst_mac: of.dst_mac.map(|_| Mac::default()),
        vlan: of.vlan.map(|_| 0),
        inner_vlan: of.inner_vlan.map(|_| 0),
        ethertype: of.ethertype.map(|_| 0),
        version: of.version,
        proto: of.proto.map(|_| 0),
        src: of.src.map(|prefix| super::Prefix { version: prefix.version, bits: 0, len: prefix.len }),
        dst: of.dst.map(|prefix| super::Prefix { version: prefix.version, bits: 0, len: prefix.len }),
        sport: of.sport.map(|range| if range.is_single() { PortRange { first: 0, last: 0 } } else { ALL_PORTS }),
        dport: of.dport.map(|range| if range.is_single() { PortRange { first: 0, last: 0 } } else { ALL_PORTS }),
        dscp: of.dscp.map(|_| 0),
    }
}

/// Reduces `of` to the conditions of `shape`; `None` if it lacks one, and so cannot be covered by that shape.
fn project(of: &Match, shape: &Match) -> Option<Match> {
    fn keep<T, U>(value: Option<T>, wanted: Option<U>) -> Option<Option<T>> {
        match (value, wanted) {
            (_, None) => Some(None),
            (Some(value), Some(_)) => Some(Some(value)),
            (None, Some(_)) => None,
        }
    }
    let prefix = |value: Option<super::Prefix>, wanted: Option<super::Prefix>| match (value, wanted) {
        (_, None) => Some(None),
        (Some(value), Some(wanted)) if wanted.len <= value.len => Some(Some(value.shortened(wanted.len))),
        _ => None,
    };
    // A group of ranges keeps all of them under one key.
    let ports = |value: Option<PortRange>, wanted: Option<PortRange>| match (value, wanted) {
        (_, None) => Some(None),
        (Some(_), Some(ALL_PORTS)) => Some(Some(ALL_PORTS)),
        (Some(value), Some(_)) if value.is_single() => Some(Some(value)),
        _ => None,
    };
    Some(Match {
        src_mac: keep(of.src_mac, shape.src_mac)?,
        dst_mac: keep(of.dst_mac, shape.dst_mac)?,
        vlan: keep(of.vlan, shape.vlan)?,
        inner_vlan: keep(of.inner_vlan, shape.inner_vlan)?,
        ethertype: keep(of.ethertype, shape.ethertype)?,
        version: keep(of.version, shape.version)?,
        proto: keep(of.proto, shape.proto)?,
        src: prefix(of.src, shape.src)?,
        dst: prefix(of.dst, shape.dst)?,
        sport: ports(of.sport, shape.sport)?,
        dport: ports(of.dport, shape.dport)?,
        dscp: keep(of.dscp, shape.dscp)?,
    })
}
