//! Filters as messages of rtnetlink(7): `struct tcmsg` with attributes of `linux/pkt_cls.h`.

use fairlink_config::matching::{IpVersion, Mac, Prefix, TCP};

use super::place::{FIRST, LAST, Present};
use super::{Fields, Filter, Port};
use crate::io::netlink::{address, attribute_of, nested, number32, push_attribute};
use crate::qdisc::messages::{NESTED, TC_HEADER, TCA_KIND, TCA_OPTIONS, header, text};

const TCA_MATCHALL_CLASSID: u16 = 1;

const TCA_FLOWER_CLASSID: u16 = 1;
/// Each followed by its mask.
const ETH_DST: u16 = 4;
const ETH_SRC: u16 = 6;
const ETH_TYPE: u16 = 8;
const IP_PROTO: u16 = 9;
/// Each followed by its mask.
const IPV4_SRC: u16 = 10;
const IPV4_DST: u16 = 12;
const IPV6_SRC: u16 = 14;
const IPV6_DST: u16 = 16;
/// For TCP: source and destination, and the masks of both; likewise for UDP.
const TCP_PORTS: [u16; 4] = [18, 19, 35, 36];
const UDP_PORTS: [u16; 4] = [20, 21, 37, 38];
const VLAN_ID: u16 = 23;
const VLAN_ETH_TYPE: u16 = 25;
const IP_TOS: u16 = 73;
const IP_TOS_MASK: u16 = 74;
const CVLAN_ID: u16 = 77;
const CVLAN_ETH_TYPE: u16 = 79;
/// Smallest source port, followed by the largest.
const PORT_SRC_MIN: u16 = 87;
/// Smallest destination port, followed by the largest.
const PORT_DST_MIN: u16 = 89;

/// All protocols, in network byte order: `ETH_P_ALL`.
const ALL_PROTOCOLS: u16 = 0x0003u16.to_be();

const KINDS: [&str; 2] = ["flower", "matchall"];

fn message(index: i32, major: u16, priority: u16) -> Vec<u8> {
    let info = u32::from(priority) << 16 | u32::from(ALL_PROTOCOLS);
    header(index, 0, u32::from(major) << 16, info)
}

/// Builds a request that adds a filter at the queueing discipline `major`.
pub(crate) fn add(index: i32, major: u16, priority: u16, filter: &Filter, minor: u16) -> Vec<u8> {
    let mut message = message(index, major, priority);
    let classid = (u32::from(major) << 16 | u32::from(minor)).to_ne_bytes();
    match filter {
        Filter::All => {
            push_attribute(&mut message, TCA_KIND, b"matchall\0");
            nested(&mut message, TCA_OPTIONS | NESTED, |options| {
                push_attribute(options, TCA_MATCHALL_CLASSID, &classid);
            });
        }
        Filter::Flower(fields) => {
            push_attribute(&mut message, TCA_KIND, b"flower\0");
            nested(&mut message, TCA_OPTIONS | NESTED, |options| {
                push_attribute(options, TCA_FLOWER_CLASSID, &classid);
                flower(options, fields);
            });
        }
    }
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    address(&mut message, libc::RTM_NEWTFILTER, flags);
    message
}

fn flower(options: &mut Vec<u8>, fields: &Fields) {
    let Fields { src_mac, dst_mac, outer, vlan, inner, inner_vlan, ethertype, proto, src, dst, sport, dport, dscp } =
        *fields;
    for (kind, mac) in [(ETH_DST, dst_mac), (ETH_SRC, src_mac)] {
        if let Some(Mac(bytes)) = mac {
            push_attribute(options, kind, &bytes);
            push_attribute(options, kind + 1, &[0xff; 6]);
        }
    }
    let mut number = |kind: u16, value: Option<u16>, big_endian: bool| {
        if let Some(value) = value {
            push_attribute(options, kind, &if big_endian { value.to_be_bytes() } else { value.to_ne_bytes() });
        }
    };
    // The type of each header is in the tag before it.
    let mut types = [outer, inner, ethertype].into_iter().flatten();
    for kind in [ETH_TYPE, VLAN_ETH_TYPE, CVLAN_ETH_TYPE] {
        number(kind, types.next(), true);
    }
    number(VLAN_ID, vlan, false);
    number(CVLAN_ID, inner_vlan, false);
    if let Some(proto) = proto {
        push_attribute(options, IP_PROTO, &[proto]);
    }
    prefix(options, src, IPV4_SRC, IPV6_SRC);
    prefix(options, dst, IPV4_DST, IPV6_DST);
    let kinds = if proto == Some(TCP) { TCP_PORTS } else { UDP_PORTS };
    for (end, at, range) in [(sport, 0, PORT_SRC_MIN), (dport, 1, PORT_DST_MIN)] {
        let pair = match end {
            Some(Port::Masked(value, mask)) => [(kinds[at], value), (kinds[at + 2], mask)],
            Some(Port::Range(first, last)) => [(range, first), (range + 1, last)],
            None => continue,
        };
        for (kind, value) in pair {
            push_attribute(options, kind, &value.to_be_bytes());
        }
    }
    if let Some(dscp) = dscp {
        push_attribute(options, IP_TOS, &[dscp << 2]);
        push_attribute(options, IP_TOS_MASK, &[0xfc]);
    }
}

fn prefix(options: &mut Vec<u8>, prefix: Option<Prefix>, v4: u16, v6: u16) {
    let Some(prefix) = prefix else { return };
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix.mapped_len())).unwrap_or(0).to_be_bytes();
    let (kind, from) = if prefix.version() == IpVersion::V4 { (v4, 12) } else { (v6, 0) };
    push_attribute(options, kind, &prefix.address()[from..]);
    push_attribute(options, kind + 1, &mask[from..]);
}

/// Builds a request that deletes all filters of a priority.
pub(crate) fn delete(index: i32, major: u16, present: &Present) -> Vec<u8> {
    let mut message = message(index, major, present.priority);
    push_attribute(&mut message, TCA_KIND, format!("{}\0", present.kind).as_bytes());
    address(&mut message, libc::RTM_DELTFILTER, libc::NLM_F_REQUEST | libc::NLM_F_ACK);
    message
}

/// Builds a request for all filters of a queueing discipline.
pub(crate) fn dump(index: i32, major: u16) -> Vec<u8> {
    let mut message = header(index, 0, u32::from(major) << 16, 0);
    address(&mut message, libc::RTM_GETTFILTER, libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    message
}

/// Reads the priority of a filter of ours from the body of a message.
pub(crate) fn present(body: &[u8], index: i32, major: u16) -> Option<Present> {
    let kind = text(attribute_of(body.get(TC_HEADER..)?, TCA_KIND)?);
    let here = number32(body, 4)? == index as u32 && number32(body, 12)? == u32::from(major) << 16;
    let info = number32(body, 16)?;
    let priority = (info >> 16) as u16;
    let ours = (FIRST..=LAST).contains(&priority) && info as u16 == ALL_PROTOCOLS;
    let kind = KINDS.into_iter().find(|known| *known == kind)?;
    (here && ours).then_some(Present { priority, kind })
}
