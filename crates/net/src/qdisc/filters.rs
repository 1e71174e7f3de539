//! Translates the `match` lines of a link file into tc filters, for the kernel's classifiers `flower` and `matchall`,
//! in file order.
//!
//! **Expressiveness.** `flower` compares fields of a frame exactly, under a mask, or (ports) with a range. It knows the
//! first two VLAN tags by their types, and the headers behind all tags. So a match becomes one filter or several: for
//! IPv4 and IPv6, for TCP and UDP, for both types of tags. A match that `flower` cannot express is an [`Unspoken`].
//!
//! **Order.** Within a priority, `flower` groups filters by the fields that they compare. It looks up each group in one
//! step, however many filters it has, in the order in which the first filter of each group was added. Consecutive
//! filters share a priority as long as the result is that of file order. So a list of a thousand addresses is one
//! priority. Priorities are tried one after the other.
//!
//! DIFFERENCE: the kernel parses frames with its own dissector. It shows no ports of a fragmented datagram, not even of
//! the first fragment. A match for a VLAN id and for headers behind the tags holds for frames of up to two tags, of the
//! types 0x8100 and 0x88a8. An IP packet behind PRP, HSR or batman-adv headers is matched as a plain IP packet.

mod messages;
mod place;
mod plan;
#[cfg(test)]
mod tests;

use std::fmt;

use fairlink_config::matching::ethernet::{IPV4, IPV6, PPPOE_SESSION, PROVIDER_VLAN, VLAN};
use fairlink_config::matching::{IpVersion, Mac, Match, PortRange, Prefix, TCP, UDP};

pub(crate) use messages::{add, delete, dump, present};
pub(crate) use place::{FIRST, LAST, Present, place};
pub use plan::{LeftOut, QdiscFilters, filters};

/// EtherTypes that the kernel's dissector skips, so that it sees the inner frame: batman-adv, PRP, HSR and PPPoE.
const SEEN_THROUGH: [u16; 4] = [0x4305, 0x88fb, 0x892f, PPPOE_SESSION];

/// Reason why a match has no filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unspoken {
    /// The dissector skips headers of this EtherType.
    SeenThrough(u16),
    /// All priorities are in use.
    Priorities,
}

impl fmt::Display for Unspoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SeenThrough(ethertype) => {
                write!(f, "the kernel's classifier skips headers of the EtherType {ethertype:#06x} and cannot match it")
            }
            Self::Priorities => write!(
                f,
                "the matches before it use all {} priorities; consecutive matches of one kind share one",
                plan::MOST_PRIORITIES
            ),
        }
    }
}

/// A port in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Port {
    /// These bits under this mask.
    Masked(u16, u16),
    /// Inclusive range; the last is larger than the first.
    Range(u16, u16),
}

/// Fields of a frame that `flower` compares; absent ones match anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Fields {
    pub(crate) src_mac: Option<Mac>,
    pub(crate) dst_mac: Option<Mac>,
    /// Type of the outer tag.
    pub(crate) outer: Option<u16>,
    pub(crate) vlan: Option<u16>,
    /// Type of the second tag.
    pub(crate) inner: Option<u16>,
    pub(crate) inner_vlan: Option<u16>,
    /// EtherType behind the tags that this filter compares, or behind all tags if it compares none.
    pub(crate) ethertype: Option<u16>,
    pub(crate) proto: Option<u8>,
    pub(crate) src: Option<Prefix>,
    pub(crate) dst: Option<Prefix>,
    pub(crate) sport: Option<Port>,
    pub(crate) dport: Option<Port>,
    pub(crate) dscp: Option<u8>,
}

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Filter {
    /// `matchall`.
    All,
    /// `flower`.
    Flower(Fields),
}

impl Filter {
    /// Name of the kernel's classifier.
    pub(crate) const fn classifier(&self) -> &'static str {
        match self {
            Self::All => "matchall",
            Self::Flower(_) => "flower",
        }
    }

    /// The fields and masks that it compares, without the values. The kernel looks up all filters of one kind in one
    /// step. No frame matches two filters of a kind, unless they have ranges.
    fn kind(&self) -> Self {
        let Self::Flower(fields) = self else { return *self };
        let prefix = |prefix: Option<Prefix>| prefix.map(|prefix| prefix.without_address());
        let port = |port: Option<Port>| {
            port.map(|port| match port {
                Port::Masked(_, mask) => Port::Masked(0, mask),
                Port::Range(..) => Port::Range(0, 1),
            })
        };
        Self::Flower(Fields {
            src_mac: fields.src_mac.map(|_| Mac::default()),
            dst_mac: fields.dst_mac.map(|_| Mac::default()),
            outer: fields.outer.map(|_| 0),
            vlan: fields.vlan.map(|_| 0),
            inner: fields.inner.map(|_| 0),
            inner_vlan: fields.inner_vlan.map(|_| 0),
            ethertype: fields.ethertype.map(|_| 0),
            proto: fields.proto.map(|_| 0),
            src: prefix(fields.src),
            dst: prefix(fields.dst),
            sport: port(fields.sport),
            dport: port(fields.dport),
            dscp: fields.dscp.map(|_| 0),
        })
    }
}

/// The filters of a match.
pub(crate) fn of_match(made: &Match) -> Result<Vec<Filter>, Unspoken> {
    if made.is_any() {
        return Ok(vec![Filter::All]);
    }
    if let Some(ethertype) = made.ethertype.filter(|ethertype| SEEN_THROUGH.contains(ethertype)) {
        return Err(Unspoken::SeenThrough(ethertype));
    }
    let mut filters = Vec::new();
    for behind in behind_tags(made) {
        filters.extend(tags(made, behind.ethertype.is_some()).into_iter().map(|tags| {
            let Fields { outer, vlan, inner, inner_vlan, .. } = tags;
            let (src_mac, dst_mac) = (made.src_mac, made.dst_mac);
            Filter::Flower(Fields { src_mac, dst_mac, outer, vlan, inner, inner_vlan, ..behind })
        }));
    }
    Ok(filters)
}

/// The conditions on VLAN tags, one per combination of tag types.
fn tags(made: &Match, and_behind: bool) -> Vec<Fields> {
    let types = [VLAN, PROVIDER_VLAN].map(Some);
    let mut all = Vec::new();
    if made.vlan.is_none() && made.inner_vlan.is_none() {
        return vec![Fields::default()];
    }
    for outer in types {
        if made.inner_vlan.is_none() {
            all.push(Fields { outer, vlan: made.vlan, ..Fields::default() });
        }
        // The kernel finds a header behind the tags by the number of tags.
        if made.inner_vlan.is_some() || and_behind {
            let two =
                |inner| Fields { outer, vlan: made.vlan, inner, inner_vlan: made.inner_vlan, ..Fields::default() };
            all.extend(types.map(two));
        }
    }
    all
}

/// The conditions on the headers behind the tags.
fn behind_tags(made: &Match) -> Vec<Fields> {
    let version = match (made.version, made.ethertype) {
        (None, Some(IPV4)) => Some(IpVersion::V4),
        (None, Some(IPV6)) => Some(IpVersion::V6),
        (version, _) => version,
    };
    let above = made.proto.is_some() || made.dscp.is_some() || made.sport.is_some() || made.dport.is_some();
    if version.is_none() && !above {
        return vec![Fields { ethertype: made.ethertype, ..Fields::default() }];
    }
    let versions = version.map_or(vec![IpVersion::V4, IpVersion::V6], |version| vec![version]);
    let has_ports = made.sport.is_some() || made.dport.is_some();
    let protocols = match made.proto {
        None if has_ports => vec![Some(TCP), Some(UDP)],
        proto => vec![proto],
    };
    // A kernel compares ports or ranges of ports; not all compare both at once.
    let ranged = |range: Option<PortRange>| range.is_some_and(|range| !range.is_single());
    let mixed = made.sport.is_some() && made.dport.is_some() && ranged(made.sport) != ranged(made.dport);
    let (sports, dports) = (ports(made.sport, mixed), ports(made.dport, mixed));
    let some = |prefix: Option<Prefix>| prefix.filter(|prefix| !prefix.is_all());
    let mut all = Vec::new();
    for version in versions {
        for &proto in &protocols {
            for &sport in &sports {
                for &dport in &dports {
                    all.push(Fields {
                        ethertype: Some(if version == IpVersion::V4 { IPV4 } else { IPV6 }),
                        proto,
                        src: some(made.src),
                        dst: some(made.dst),
                        sport,
                        dport,
                        dscp: made.dscp,
                        ..Fields::default()
                    });
                }
            }
        }
    }
    all
}

/// Conditions for a range of ports: at most thirty; one without `in_blocks`; one empty condition without a range.
fn ports(range: Option<PortRange>, in_blocks: bool) -> Vec<Option<Port>> {
    match range {
        None => vec![None],
        Some(range) if range.is_single() => vec![Some(Port::Masked(range.first, u16::MAX))],
        Some(range) if in_blocks => {
            range.blocks().into_iter().map(|(port, mask)| Some(Port::Masked(port, mask))).collect()
        }
        Some(range) => vec![Some(Port::Range(range.first, range.last))],
    }
}
