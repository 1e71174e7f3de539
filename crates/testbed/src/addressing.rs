//! Finds frames that the gateway classifies into a given class, from the matches of a link file.

use std::net::{Ipv4Addr, Ipv6Addr};

use fairlink_config::matching::ethernet::{IPV4, IPV6};
use fairlink_config::matching::{FrameKey, IpVersion, Mac, Match, Prefix, TCP, UDP, v4_mapped};
use fairlink_core::ClassId;

use fairlink_net::{Addresses, DEFAULT_DESTINATION, DEFAULT_SOURCE, Headers, Transport};

/// Destination port of the first class if a link file has no matches; the others follow in the order of their numbers.
pub(crate) const FIRST_PORT: u16 = 5001;

/// Reason why no frame can be sent to a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressingError {
    /// The class has no match.
    #[error("class {} has no match and is not the default class: no frame can reach it", class.0)]
    NoMatch {
        /// The class.
        class: ClassId,
    },
    /// No match of the class gives a frame. Either the generator does not support its protocol, or an earlier match
    /// covers all of its frames.
    #[error(
        "no frame found for class {}: it needs UDP or TCP that no earlier match covers (last one tried: {tried})",
        class.0
    )]
    NoFrame {
        /// The class.
        class: ClassId,
        /// The class's last match.
        tried: Box<Match>,
    },
    /// The class's matches, and those before them, leave too few free fields for this number of flows.
    #[error(
        "class {} has room for {found} flows, not {flows}: its matches fix ports and addresses, or earlier matches cover them", class.0
    )]
    TooFewFlows {
        /// The class.
        class: ClassId,
        /// Requested number of flows.
        flows: u32,
        /// Possible number of flows.
        found: usize,
    },
    /// Without matches, classes are distinguished by port, and there are not enough ports.
    #[error("class {} needs a match: without any, only the first {limit} classes have a port of their own", class.0)]
    TooManyClasses {
        /// The class.
        class: ClassId,
        /// Number of ports.
        limit: u32,
    },
}

/// Returns matches for a link file that has none: UDP to port 5001 and above, one port per class, in the order of
/// `leaves`.
///
/// # Errors
/// [`AddressingError::TooManyClasses`].
pub fn default_matches(leaves: &[ClassId]) -> Result<Vec<(ClassId, Match)>, AddressingError> {
    const LIMIT: u32 = (u16::MAX - FIRST_PORT) as u32 + 1;
    let ports = (FIRST_PORT..=u16::MAX).map(Some).chain(std::iter::repeat(None));
    leaves
        .iter()
        .zip(ports)
        .map(|(&class, port)| {
            let port = port.ok_or(AddressingError::TooManyClasses { class, limit: LIMIT })?;
            let dport = Some(fairlink_config::matching::PortRange { first: port, last: port });
            Ok((class, Match { proto: Some(UDP), dport, ..Match::ANY }))
        })
        .collect()
}

/// Requirements for frames beyond their class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameChoice {
    /// IP version if the matches leave it open; IPv4 when absent.
    pub version: Option<IpVersion>,
    /// DSCP if the class's match has none, 0 to 63; 0 when absent.
    pub dscp: Option<u8>,
}

/// Most flows of one class.
pub const MAX_FLOWS: u32 = 4096;

/// Returns headers of `flows` flows, 1 to [`MAX_FLOWS`], whose frames `matches` put into `class`. They differ in source
/// port; if that does not suffice, also in source address, destination port or destination address.
///
/// # Errors
/// [`AddressingError`].
pub fn flow_headers(
    class: ClassId,
    matches: &[(ClassId, Match)],
    default: Option<ClassId>,
    choice: FrameChoice,
    flows: u32,
) -> Result<Vec<Headers>, AddressingError> {
    let first = headers_with(class, matches, default, choice)?;
    let mut found = vec![first];
    let port = |port: u16, more: u16| Some(port.wrapping_add(more)).filter(|&port| port != 0);
    let change: [&dyn Fn(u16) -> Option<Headers>; 4] = [
        &|more| Some(Headers { ports: (port(first.ports.0, more)?, first.ports.1), ..first }),
        &|more| Some(Headers { addresses: beside(first.addresses, more, 0), ..first }),
        &|more| Some(Headers { ports: (first.ports.0, port(first.ports.1, more)?), ..first }),
        &|more| Some(Headers { addresses: beside(first.addresses, 0, more), ..first }),
    ];
    // A frame without IP has no fields that could vary.
    let changes = if first.bare.is_some() { &change[..0] } else { &change[..] };
    for headers in changes.iter().flat_map(|change| (1..=u16::MAX).filter_map(change)) {
        if found.len() >= flows as usize {
            break;
        }
        if class_of(&headers, matches, default) == Some(class) {
            found.push(headers);
        }
    }
    if found.len() < flows as usize {
        return Err(AddressingError::TooFewFlows { class, flows, found: found.len() });
    }
    Ok(found)
}

/// Returns these addresses advanced by the given steps, within their last 16 bits.
fn beside(addresses: Addresses, source: u16, destination: u16) -> Addresses {
    let v4 = |address: Ipv4Addr, more: u16| {
        let [a, b, c, d] = address.octets();
        let [c, d] = u16::from_be_bytes([c, d]).wrapping_add(more).to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    let v6 = |address: Ipv6Addr, more: u16| {
        let mut segments = address.segments();
        segments[7] = segments[7].wrapping_add(more);
        Ipv6Addr::from(segments)
    };
    match addresses {
        Addresses::V4(from, to) => Addresses::V4(v4(from, source), v4(to, destination)),
        Addresses::V6(from, to) => Addresses::V6(v6(from, source), v6(to, destination)),
    }
}

/// Returns headers of frames that `matches` put into `class`. The first match in file order counts; a frame without a
/// match belongs to `default`. If the matches leave a choice, it is UDP over IPv4 to port 5001 and above.
///
/// # Errors
/// [`AddressingError`].
pub fn headers_for(
    class: ClassId,
    matches: &[(ClassId, Match)],
    default: Option<ClassId>,
) -> Result<Headers, AddressingError> {
    headers_with(class, matches, default, FrameChoice::default())
}

fn headers_with(
    class: ClassId,
    matches: &[(ClassId, Match)],
    default: Option<ClassId>,
    choice: FrameChoice,
) -> Result<Headers, AddressingError> {
    let own = matches.iter().filter(|(owner, _)| *owner == class).map(|(_, found)| *found);
    let rest = (default == Some(class)).then_some(Match::ANY);
    let mut tried = None;
    for wanted in own.chain(rest) {
        tried = Some(wanted);
        if let Some(headers) =
            candidates(&wanted, class, choice).find(|headers| class_of(headers, matches, default) == Some(class))
        {
            return Ok(headers);
        }
    }
    Err(match tried {
        Some(tried) => AddressingError::NoFrame { class, tried: Box::new(tried) },
        None => AddressingError::NoMatch { class },
    })
}

/// The class that a frame with these headers belongs to.
fn class_of(headers: &Headers, matches: &[(ClassId, Match)], default: Option<ClassId>) -> Option<ClassId> {
    let key = key_of(headers);
    matches.iter().find(|(_, found)| found.matches(&key)).map(|&(class, _)| class).or(default)
}

/// The classifier's key of frames with these headers.
#[must_use]
pub(crate) fn key_of(headers: &Headers) -> FrameKey {
    let (vlan, inner_vlan) = (headers.vlan, headers.vlan.and(headers.inner_vlan));
    let (dst_mac, src_mac) = (Some(Mac(headers.mac.0)), Some(Mac(headers.mac.1)));
    if let Some(ethertype) = headers.bare {
        return FrameKey { src_mac, dst_mac, vlan, inner_vlan, ethertype: Some(ethertype), ..FrameKey::default() };
    }
    let (version, src, dst) = match headers.addresses {
        Addresses::V4(src, dst) => (IpVersion::V4, v4_mapped(src.octets()), v4_mapped(dst.octets())),
        Addresses::V6(src, dst) => (IpVersion::V6, src.octets(), dst.octets()),
    };
    FrameKey {
        src_mac,
        dst_mac,
        vlan,
        inner_vlan,
        ethertype: Some(if version == IpVersion::V4 { IPV4 } else { IPV6 }),
        version: Some(version),
        proto: if headers.transport == Transport::Tcp { TCP } else { UDP },
        src,
        dst,
        sport: Some(headers.ports.0),
        dport: Some(headers.ports.1),
        dscp: headers.dscp,
    }
}

/// Returns a few frames that match `wanted`, the simplest first.
fn candidates(wanted: &Match, class: ClassId, choice: FrameChoice) -> impl Iterator<Item = Headers> {
    let wanted = *wanted;
    let offset = (class.0 % 20_000) as u16;
    let transports: &[Transport] = match wanted.proto {
        None => &[Transport::Udp, Transport::Tcp],
        Some(UDP) => &[Transport::Udp],
        Some(TCP) => &[Transport::Tcp],
        Some(_) => &[],
    };
    let versions: &[IpVersion] = match wanted.version.or(choice.version) {
        _ if wanted.version.is_some() && choice.version.is_some() && wanted.version != choice.version => &[],
        None => &[IpVersion::V4, IpVersion::V6],
        Some(IpVersion::V4) => &[IpVersion::V4],
        Some(IpVersion::V6) => &[IpVersion::V6],
    };
    // A frame of another EtherType has no choices.
    let bare = wanted.ethertype.filter(|&ethertype| ethertype != IPV4 && ethertype != IPV6);
    let mac =
        (wanted.dst_mac.map_or(DEFAULT_DESTINATION, |mac| mac.0), wanted.src_mac.map_or(DEFAULT_SOURCE, |mac| mac.0));
    let bare = bare.map(|ethertype| Headers {
        mac,
        vlan: wanted.vlan.or(wanted.inner_vlan.map(|_| 1)),
        inner_vlan: wanted.inner_vlan,
        bare: Some(ethertype),
        ..Headers::udp(FIRST_PORT)
    });
    // An earlier match may cover one of these ports, but hardly all of them.
    let ports = move |range: Option<fairlink_config::matching::PortRange>, free: [u16; 3]| match range {
        None => free.to_vec(),
        Some(range) => vec![range.first, range.last, range.first + (range.last - range.first) / 2],
    };
    let sources = ports(wanted.sport, [5000, 45_000, 9]);
    let destinations = ports(wanted.dport, [FIRST_PORT + offset, 40_000 + offset, 9]);
    bare.into_iter().chain(transports.iter().flat_map(move |&transport| {
        let (sources, destinations) = (sources.clone(), destinations.clone());
        versions.iter().flat_map(move |&version| {
            let (sources, destinations) = (sources.clone(), destinations.clone());
            let plain = Headers {
                mac,
                vlan: wanted.vlan.or(wanted.inner_vlan.map(|_| 1)),
                inner_vlan: wanted.inner_vlan,
                addresses: addresses(version, wanted.src, wanted.dst),
                dscp: wanted.dscp.or(choice.dscp).unwrap_or(0),
                transport,
                ..Headers::udp(FIRST_PORT)
            };
            sources.into_iter().flat_map(move |source| {
                destinations.clone().into_iter().map(move |port| Headers { ports: (source, port), ..plain })
            })
        })
    }))
}

fn addresses(version: IpVersion, src: Option<Prefix>, dst: Option<Prefix>) -> Addresses {
    // The first host of a prefix, and not its network address if there is room.
    let host = |prefix: Option<Prefix>, free: [u8; 16]| {
        let Some(prefix) = prefix else { return free };
        let mut address = prefix.address();
        address[15] |= u8::from(prefix.mapped_len() < 128);
        address
    };
    match version {
        IpVersion::V4 => {
            let v4 = |address: [u8; 16]| Ipv4Addr::new(address[12], address[13], address[14], address[15]);
            Addresses::V4(v4(host(src, v4_mapped([198, 18, 0, 1]))), v4(host(dst, v4_mapped([198, 18, 0, 2]))))
        }
        IpVersion::V6 => {
            // The block reserved for benchmarks (RFC 5180).
            let free = |last| Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, last).octets();
            Addresses::V6(Ipv6Addr::from(host(src, free(1))), Ipv6Addr::from(host(dst, free(2))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_net::FrameTemplate;

    fn matches(texts: &[(u32, &str)]) -> Vec<(ClassId, Match)> {
        texts.iter().map(|&(class, text)| (ClassId(class), Match::parse(text).unwrap())).collect()
    }

    #[test]
    fn each_class_gets_a_frame_that_the_matches_put_into_it() {
        let all = matches(&[
            (1, "udp dst port 5001"),
            (2, "dscp ef"),
            (3, "src net 10.1.0.0/16"),
            (4, "ip6 tcp dst port 80"),
            (5, "vlan 7"),
            (6, "udp dst port 5000-6000"),
            (7, "dst net 2001:db8::/32"),
            (8, "inner vlan 9"),
            (9, "tcp"),
            (10, "ethertype 0x88b5"),
            (11, "ethertype 0x88b6 vlan 8"),
        ]);
        for class in 1..=12 {
            let class = ClassId(class);
            let headers = headers_for(class, &all, Some(ClassId(12))).unwrap();
            assert_eq!(class_of(&headers, &all, Some(ClassId(12))), Some(class), "{headers:?}");
            assert!(FrameTemplate::new(&headers).min_len() <= 106);
        }
        let plain = headers_for(ClassId(1), &all, None).unwrap();
        assert_eq!(plain, Headers::udp(5001));
    }

    #[test]
    fn a_class_that_nothing_leads_to_is_refused_by_name() {
        let all = matches(&[(1, "udp"), (2, "udp dst port 7"), (3, "icmp")]);
        let tried = |class: u32| headers_for(ClassId(class), &all, Some(ClassId(9)));
        assert_eq!(tried(2), Err(AddressingError::NoFrame { class: ClassId(2), tried: Box::new(all[1].1) }));
        assert_eq!(tried(3), Err(AddressingError::NoFrame { class: ClassId(3), tried: Box::new(all[2].1) }));
        assert_eq!(tried(4), Err(AddressingError::NoMatch { class: ClassId(4) }));
        assert_eq!(
            tried(2).unwrap_err().to_string(),
            "no frame found for class 2: it needs UDP or TCP that no earlier match covers (last one tried: udp dst port 7)"
        );
    }

    #[test]
    fn many_flows_of_a_class_differ_and_still_belong_to_it() {
        let all = matches(&[
            (1, "udp dst port 5001"),
            (2, "udp src port 7 dst port 8"),
            (3, "src net 10.1.0.0/16 dscp ef"),
            (4, "ip6"),
            (5, "udp src port 7 dst port 9 src net 10.2.0.1/32 dst net 10.2.0.2/32"),
            (6, "ethertype 0x88b5"),
        ]);
        let flows = |class: u32, choice, count| flow_headers(ClassId(class), &all, Some(ClassId(9)), choice, count);
        for class in [1, 2, 3, 4, 9] {
            let found = flows(class, FrameChoice::default(), MAX_FLOWS).unwrap();
            assert_eq!(found.len(), MAX_FLOWS as usize);
            assert!(found.iter().all(|one| class_of(one, &all, Some(ClassId(9))) == Some(ClassId(class))));
            let mut keys: Vec<String> =
                found.iter().map(|one| format!("{:?} {:?}", one.addresses, one.ports)).collect();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), MAX_FLOWS as usize, "class {class}");
        }
        for class in [5, 6] {
            let error = AddressingError::TooFewFlows { class: ClassId(class), flows: 2, found: 1 };
            assert_eq!(flows(class, FrameChoice::default(), 2), Err(error));
            assert!(flows(class, FrameChoice::default(), 1).is_ok());
        }
    }

    #[test]
    fn protocol_version_and_dscp_are_as_wanted_where_the_matches_leave_them_open() {
        let all = matches(&[(1, "udp dst port 5001"), (2, "dscp ef"), (3, "src net 10.1.0.0/16")]);
        let choice = FrameChoice { version: Some(IpVersion::V6), dscp: Some(10) };
        let of = |class: u32| flow_headers(ClassId(class), &all, Some(ClassId(9)), choice, 1);
        for (class, dscp) in [(1, 10), (2, 46), (9, 10)] {
            let headers = of(class).unwrap()[0];
            assert!(matches!(headers.addresses, Addresses::V6(..)), "{headers:?}");
            assert_eq!(headers.dscp, dscp);
        }
        assert!(matches!(of(3), Err(AddressingError::NoFrame { .. })));
    }

    #[test]
    fn a_class_of_a_mac_gets_frames_with_it() {
        let matches = matches(&[(1, "src mac 02:00:00:00:00:01"), (2, "dst mac 02:00:00:00:00:02 ethertype 0x88b5")]);
        for class in [1, 2] {
            let headers = headers_for(ClassId(class), &matches, None).unwrap();
            let mut frame = vec![0; 100];
            let stamp =
                fairlink_net::Stamp { run: 0, class: ClassId(class), sequence: 0, monotonic_ns: 0, realtime_us: 0 };
            FrameTemplate::new(&headers).write(&mut frame, &stamp);
            assert_eq!(fairlink_config::matching::frame_key(&frame), key_of(&headers));
            assert_eq!(class_of(&headers, &matches, None), Some(ClassId(class)));
        }
    }

    #[test]
    fn without_matches_classes_are_told_apart_by_port() {
        let leaves = [ClassId(3), ClassId(4), ClassId(6)];
        let all = default_matches(&leaves).unwrap();
        let ports: Vec<u16> = leaves.iter().map(|&leaf| headers_for(leaf, &all, None).unwrap().ports.1).collect();
        assert_eq!(ports, [5001, 5002, 5003]);
        let many: Vec<ClassId> = (1..=61_000).map(ClassId).collect();
        assert_eq!(
            default_matches(&many),
            Err(AddressingError::TooManyClasses { class: ClassId(60_536), limit: 60_535 })
        );
    }
}
