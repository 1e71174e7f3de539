//! The text form of a match, its frames, its errors, and coverage of one match by another.

use super::ethernet::{IPV4, PPPOE_SESSION};
use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Match {
    Match::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn udp(dport: u16) -> FrameKey {
    FrameKey {
        version: Some(IpVersion::V4),
        proto: UDP,
        src: v4_mapped([10, 1, 2, 3]),
        dst: v4_mapped([10, 2, 0, 1]),
        sport: Some(4000),
        dport: Some(dport),
        dscp: 46,
        ..FrameKey::default()
    }
}

#[test]
fn every_condition_is_checked() {
    let frame = FrameKey { vlan: Some(5), inner_vlan: Some(7), ..udp(5001) };
    for (yes, no) in [
        ("any", "ip6"),
        ("ip", "tcp"),
        ("udp", "proto 6"),
        ("udp dst port 5001", "udp dst port 5002"),
        ("dst port 5000-5001", "dst port 5002-6000"),
        ("src port 4000", "src port 5001"),
        ("dscp ef", "dscp cs1"),
        ("dscp 46", "dscp 0x2f"),
        ("src net 10.1.0.0/16", "src net 10.2.0.0/16"),
        ("dst host 10.2.0.1", "dst host 10.2.0.2"),
        ("src net 0.0.0.0/0", "src net ::/0"),
        ("vlan 5", "vlan 7"),
        ("inner vlan 7", "inner vlan 5"),
        ("vlan 5 and inner vlan 7 and udp and dst port 5001 dscp ef", "vlan 5 and tcp"),
    ] {
        assert!(parse(yes).matches(&frame), "{yes}");
        assert!(!parse(no).matches(&frame), "{no}");
    }
}

#[test]
fn a_frame_without_ip_meets_only_vlan_conditions() {
    let arp = FrameKey { vlan: Some(5), ..FrameKey::default() };
    assert!(parse("any").matches(&arp) && parse("vlan 5").matches(&arp));
    for text in ["proto 0", "dscp 0", "src net 0.0.0.0/0", "dst port 0", "ip", "vlan 5 dscp df"] {
        assert!(!parse(text).matches(&arp), "{text}");
    }
}

#[test]
fn an_ethertype_is_that_behind_all_tags() {
    let frame = FrameKey { vlan: Some(5), ethertype: Some(0x88b5), ..FrameKey::default() };
    assert!(parse("ethertype 0x88b5").matches(&frame) && parse("vlan 5 and ethertype 0x88b5").matches(&frame));
    assert!(!parse("ethertype 0x88b6").matches(&frame) && !parse("vlan 6 ethertype 0x88b5").matches(&frame));
    assert!(!parse("ethertype 0x88b5").matches(&FrameKey::default()));
    let ip = FrameKey { ethertype: Some(IPV4), ..udp(5001) };
    assert!(parse("ethertype 0x0800 udp dst port 5001").matches(&ip));
    assert!(!parse("ethertype 0x8864 udp").matches(&ip));
}

#[test]
fn a_later_fragment_meets_no_port_condition() {
    let fragment = FrameKey { sport: None, dport: None, ..udp(0) };
    assert!(parse("udp").matches(&fragment));
    assert!(!parse("udp dst port 0-65535").matches(&fragment));
}

#[test]
fn an_ipv6_mapped_address_is_not_an_ipv4_address() {
    let frame = FrameKey { version: Some(IpVersion::V6), ..udp(1) };
    assert!(!parse("src net 10.0.0.0/8").matches(&frame));
    assert!(parse("src net ::ffff:10.0.0.0/104").matches(&frame));
    assert!(!Prefix::v4(Ipv4Addr::new(10, 0, 0, 0), 8).contains(IpVersion::V6, frame.src));
}

#[test]
fn errors_name_the_place_and_the_limit() {
    let table: String = [
        "",
        "  ",
        "udp dst port",
        "udp dst port 70000",
        "udp dst port -1",
        "udp dst port 2000-1000",
        "udp tcp",
        "port 53",
        "dst",
        "dst 53",
        "src net 10.1.2.3/16",
        "src net 10.1.0.0/33",
        "src net 10.1.0.0",
        "src host 10.1.0.0/16",
        "ip6 src net 10.0.0.0/8",
        "icmp dst port 5",
        "dst port 5 icmp",
        "dscp foo",
        "dscp 64",
        "vlan 4095",
        "inner 5",
        "ethertype 0x05ff",
        "ethertype arp",
        "ethertype 0x8100",
        "ethertype 0x88b5 udp",
        "ip ethertype 0x86dd",
        "ethertype 0x0800 dst net 2001:db8::/32",
        "any udp",
        "udp any",
        "and",
        "udp and",
        "sport 5",
        "proto 256",
        "dscp 0x",
    ]
    .iter()
    .map(|text| {
        let error = Match::parse(text).expect_err(text);
        assert!(text.get(error.at.clone()).is_some(), "{text}: {:?}", error.at);
        format!("{text:?} at {:?}: {error}\n", &text[error.at.clone()])
    })
    .collect();
    insta::assert_snapshot!(table);
}

#[test]
fn a_covered_match_is_found_with_the_first_that_covers_it() {
    let mut reach = Reach::default();
    for (text, covered_by) in [
        ("udp dst port 5001", None),
        ("tcp dst port 5001", None),
        ("udp dst port 5001 dscp ef", Some(0)),
        ("udp dst port 5001", Some(0)),
        ("dst port 1000-2000", None),
        ("udp dst port 1500-1600", Some(4)),
        ("udp dst port 1500-2600", None),
        ("tcp dst port 1200", Some(4)),
        ("src net 10.0.0.0/8", None),
        ("src net 10.1.0.0/16 udp", Some(8)),
        ("src net 11.0.0.0/8", None),
        ("vlan 5", None),
        ("vlan 5 udp", Some(11)),
        ("any", None),
        ("ip6", Some(13)),
        ("any", Some(13)),
    ] {
        assert_eq!(reach.add(&parse(text)), covered_by, "{text}");
    }
}

fn any_match() -> impl Strategy<Value = Match> {
    let port = prop::option::of((0u16..6, 0u16..3).prop_map(|(first, more)| PortRange { first, last: first + more }));
    let prefix = |version| {
        prop::option::of((any::<u128>(), 0u8..=32).prop_map(move |(bits, len)| match version {
            IpVersion::V4 => Prefix::v4(Ipv4Addr::from(bits as u32 & 0xc000_0001), len),
            IpVersion::V6 => Prefix::v6(Ipv6Addr::from(bits & (3 << 126)), len * 4),
        }))
    };
    let version = prop_oneof![Just(IpVersion::V4), Just(IpVersion::V6)];
    let addresses =
        version.prop_flat_map(move |version| (prop::option::of(Just(version)), prefix(version), prefix(version)));
    let vlan = || prop::option::weighted(0.3, 0u16..3);
    let proto = prop::option::of(prop_oneof![Just(TCP), Just(UDP)]);
    let dscp = prop::option::weighted(0.3, 0u8..64);
    // The one type that goes with all other conditions.
    let ethertype = prop::option::weighted(0.2, Just(PPPOE_SESSION));
    let mac = || prop::option::weighted(0.2, (0u8..2).prop_map(|last| Mac([0xfe, 0, 0, 0, 0, last])));
    (vlan(), (vlan(), ethertype), addresses, proto, port.clone(), port, (dscp, mac(), mac())).prop_map(
        |(vlan, (inner_vlan, ethertype), (version, src, dst), proto, sport, dport, (dscp, src_mac, dst_mac))| Match {
            src_mac,
            dst_mac,
            vlan,
            inner_vlan,
            ethertype,
            version: version.or(src.or(dst).map(|prefix| prefix.version())),
            proto,
            src,
            dst,
            sport,
            dport,
            dscp,
        },
    )
}

fn any_frame() -> impl Strategy<Value = FrameKey> {
    let vlan = || prop::option::of(0u16..3);
    let ports = prop::option::of((0u16..8, 0u16..8));
    let ethertype = prop::option::of(prop_oneof![Just(PPPOE_SESSION), Just(IPV4)]);
    (
        vlan(),
        (vlan(), ethertype),
        0u8..3,
        prop_oneof![Just(TCP), Just(UDP), Just(ICMP)],
        any::<[bool; 5]>(),
        ports,
        0u8..64,
    )
        .prop_map(|(vlan, (inner_vlan, ethertype), version, proto, bits, ports, dscp)| {
            let mac = |bit: bool| Some(Mac([0xfe, 0, 0, 0, 0, u8::from(bit)]));
            let address = |bit: bool| match version {
                1 => (u128::from(bit) << 127).to_be_bytes(),
                _ => v4_mapped([if bit { 128 } else { 0 }, 0, 0, u8::from(bits[2])]),
            };
            FrameKey {
                src_mac: mac(bits[3]),
                dst_mac: mac(bits[4]),
                vlan,
                inner_vlan,
                ethertype,
                version: [Some(IpVersion::V4), Some(IpVersion::V6), None][usize::from(version)],
                proto,
                src: address(bits[0]),
                dst: address(bits[1]),
                sport: ports.map(|(sport, _)| sport),
                dport: ports.map(|(_, dport)| dport),
                dscp,
            }
        })
}

proptest! {
    #[test]
    fn the_text_form_reads_back_as_the_same_match(made in any_match()) {
        prop_assert_eq!(Match::parse(&made.to_string()), Ok(made));
    }

    #[test]
    fn who_covers_matches_whatever_the_covered_matches(wide in any_match(), narrow in any_match(), frame in any_frame()) {
        if wide.covers(&narrow) && narrow.matches(&frame) {
            prop_assert!(wide.matches(&frame), "{} covers {}", wide, narrow);
        }
    }

    #[test]
    fn grouping_finds_what_comparing_with_all_finds(all in prop::collection::vec(any_match(), 1..40)) {
        let mut reach = Reach::default();
        for (index, new) in all.iter().enumerate() {
            let expected = all[..index].iter().position(|earlier| earlier.covers(new));
            prop_assert_eq!(reach.add(new), expected, "{}", new);
        }
    }

    #[test]
    fn no_text_panics(text in "[a-z0-9:./ -]{0,40}|(udp|src|dst|net|port|host|mac|ip6|and|vlan|inner|dscp|[0-9./:-]{1,6}| ){0,12}|\\PC{0,20}") {
        if let Err(error) = Match::parse(&text) {
            prop_assert!(text.get(error.at).is_some());
        }
    }
}

#[test]
fn what_is_left_of_a_match_and_what_two_have_in_common_take_the_frames_that_they_should() {
    let texts = [
        "ip tcp",
        "ip tcp dst port 80",
        "ip tcp dst port 0-79",
        "ip udp src port 5-65535",
        "ip src net 10.0.0.0/30",
        "ip dst net 10.0.0.2/32 tcp",
        "ip dst net 10.0.0.0/31 tcp src port 5",
        "ip",
        "ip6",
        "ip6 tcp dst port 80",
        "ip tcp src net 10.0.0.1/32 dst port 79-81",
    ];
    let mut keys = Vec::new();
    for (proto, sport) in [6, 17].into_iter().flat_map(|proto| [4, 5, 6].map(|sport| (proto, sport))) {
        for (host, dport) in (0..4).flat_map(|host| [78, 79, 80, 81].map(|dport| (host, dport))) {
            for (version, make) in [(IpVersion::V4, v4_mapped as fn([u8; 4]) -> [u8; 16]), (IpVersion::V6, |_| [1; 16])]
            {
                let (src, dst) = (make([10, 0, 0, host]), make([10, 0, 0, 3 - host]));
                let (sport, dport) = (Some(sport), Some(dport));
                keys.push(FrameKey { version: Some(version), proto, src, dst, sport, dport, ..FrameKey::default() });
            }
        }
    }
    let mut said = 0;
    for (one, other) in texts.iter().flat_map(|one| texts.map(|other| (*one, other))) {
        let (one, other) = (Match::parse(one).unwrap(), Match::parse(other).unwrap());
        for key in &keys {
            let common = one.both(&other).is_some_and(|both| both.matches(key));
            assert_eq!(common, one.matches(key) && other.matches(key), "{one} | {other} | {key:?}");
            let Some(left) = one.minus(&other) else { continue };
            let left = left.iter().filter(|left| left.matches(key)).count();
            assert_eq!(left, usize::from(one.matches(key) && !other.matches(key)), "{one} | {other} | {key:?}");
            said += 1;
        }
    }
    assert!(said > 8000, "{said}");
}
