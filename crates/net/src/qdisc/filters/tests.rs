//! Filters agree with the matches, in file order, both in the gateway's own classifier and in a model of the kernel's.

use std::net::{Ipv4Addr, Ipv6Addr};

use fairlink_config::matching::ethernet::{IPV4, IPV6, PROVIDER_VLAN, VLAN};
use fairlink_config::matching::{Classifier, FrameKey, IpVersion, Mac, Match, Prefix, TCP, UDP, frame_key, v4_mapped};
use fairlink_config::{LinkFile, ReadOptions};
use fairlink_core::{ClassId, Nanos};
use proptest::prelude::*;

use super::plan::{MOST_PRIORITIES, of_matches};
use super::{FIRST, Fields, Filter, LAST, Port, Present, Unspoken, add, of_match, place};
use crate::io::netlink::{NETLINK_HEADER, attribute_of, push_attribute};
use crate::qdisc::filters::filters;
use crate::qdisc::messages::header;
use crate::qdisc::plan;

/// A frame as a dissector sees it: tags by type and id, and the key.
#[derive(Clone, Debug)]
struct Frame {
    tags: Vec<(u16, u16)>,
    key: FrameKey,
}

/// Returns true if a `flower` filter matches a frame, by the documentation of each field.
fn takes(filter: &Filter, frame: &Frame) -> bool {
    let Filter::Flower(fields) = filter else { return true };
    let Fields { src_mac, dst_mac, outer, vlan, inner, inner_vlan, ethertype, proto, src, dst, sport, dport, dscp } =
        *fields;
    let tag = |at: usize, kind: Option<u16>, id: Option<u16>| {
        kind.is_none_or(|kind| frame.tags.get(at).is_some_and(|tag| tag.0 == kind))
            && id.is_none_or(|id| frame.tags.get(at).is_some_and(|tag| tag.1 == id))
    };
    // The type behind a tag is that of the next header.
    let named = usize::from(outer.is_some()) + usize::from(inner.is_some());
    let distance = named == 0 || ethertype.is_none() || frame.tags.len() == named;
    let port = |wanted: Option<Port>, port: Option<u16>| match wanted {
        None => true,
        Some(Port::Masked(value, mask)) => port.is_some_and(|port| port & mask == value),
        Some(Port::Range(first, last)) => port.is_some_and(|port| (first..=last).contains(&port)),
    };
    let net = |prefix: Option<Prefix>, address| {
        prefix.is_none_or(|prefix| frame.key.version.is_some_and(|version| prefix.contains(version, address)))
    };
    src_mac.is_none_or(|mac| frame.key.src_mac == Some(mac))
        && dst_mac.is_none_or(|mac| frame.key.dst_mac == Some(mac))
        && tag(0, outer, vlan)
        && tag(1, inner, inner_vlan)
        && distance
        && ethertype.is_none_or(|kind| frame.key.ethertype == Some(kind))
        && proto.is_none_or(|proto| frame.key.version.is_some() && frame.key.proto == proto)
        && net(src, frame.key.src)
        && net(dst, frame.key.dst)
        && port(sport, frame.key.sport)
        && port(dport, frame.key.dport)
        && dscp.is_none_or(|dscp| frame.key.version.is_some() && frame.key.dscp == dscp)
}

/// Returns the class that the kernel finds: priorities in turn; in each, kinds in order of addition.
fn found(priorities: &[Vec<(Filter, u16)>], frame: &Frame) -> Option<u16> {
    priorities.iter().find_map(|filters| {
        let mut kinds: Vec<Filter> = Vec::new();
        for (filter, _) in filters {
            if !kinds.contains(&filter.kind()) {
                kinds.push(filter.kind());
            }
        }
        kinds.iter().find_map(|kind| {
            filters.iter().find(|(filter, _)| filter.kind() == *kind && takes(filter, frame)).map(|(_, minor)| *minor)
        })
    })
}

/// Conditions of which a match has up to four: few, so that matches are of the same kinds and overlap.
const CONDITIONS: [&str; 29] = [
    "src mac 2:0:0:0:0:1",
    "dst mac 02:00:00:00:00:01",
    "dst mac 02:00:00:00:00:02",
    "vlan 1",
    "vlan 2",
    "inner vlan 1",
    "ip",
    "ip6",
    "ethertype 0x0806",
    "ethertype 0x0800",
    "tcp",
    "udp",
    "icmp",
    "dscp ef",
    "src net 10.0.0.0/8",
    "src net 10.1.0.0/16",
    "src host 10.1.0.1",
    "src host 10.1.0.2",
    "dst host 10.1.0.1",
    "dst net 10.1.0.0/16",
    "dst net 2001:db8::/32",
    "dst net 0.0.0.0/0",
    "src port 5",
    "src port 6",
    "src port 4-6",
    "dst port 5",
    "dst port 6",
    "dst port 1-9",
    "dst port 0-65535",
];

fn matches() -> impl Strategy<Value = Match> {
    proptest::collection::vec(proptest::sample::select(CONDITIONS.to_vec()), 0..5).prop_filter_map(
        "no frame meets it",
        |conditions| {
            let text = conditions.join(" ");
            Match::parse(if text.is_empty() { "any" } else { &text }).ok()
        },
    )
}

fn frames() -> impl Strategy<Value = Frame> {
    let tag = (proptest::sample::select(vec![VLAN, PROVIDER_VLAN]), 1u16..4);
    let port = || proptest::sample::select(vec![0u16, 4, 5, 6, 9, 65_535]);
    let address = || proptest::sample::select(vec![0usize, 1, 2, 3]);
    let macs = (1u8..3, 1u8..4);
    (proptest::collection::vec(tag, 0..3), 0u8..4, address(), address(), port(), port(), 0u8..4, (any::<bool>(), macs))
        .prop_map(|(tags, kind, src, dst, sport, dport, proto, (ef, macs))| {
            let mut key = FrameKey {
                src_mac: Some(Mac([2, 0, 0, 0, 0, macs.0])),
                dst_mac: Some(Mac([2, 0, 0, 0, 0, macs.1])),
                vlan: tags.first().map(|tag| tag.1),
                inner_vlan: tags.get(1).map(|tag| tag.1),
                ethertype: Some([IPV4, IPV6, 0x0806, 0x88b5][usize::from(kind)]),
                ..FrameKey::default()
            };
            key.version = [Some(IpVersion::V4), Some(IpVersion::V6), None, None][usize::from(kind)];
            if let Some(version) = key.version {
                let v4 = [[10, 1, 0, 1], [10, 1, 0, 2], [10, 2, 0, 1], [11, 0, 0, 1]].map(v4_mapped);
                let v6: Vec<[u8; 16]> = ["2001:db8::1", "2001:db8::2", "2001:db9::1", "::1"]
                    .iter()
                    .map(|text| text.parse::<Ipv6Addr>().unwrap().octets())
                    .collect();
                let address = |at: usize| if version == IpVersion::V4 { v4[at] } else { v6[at] };
                (key.src, key.dst) = (address(src), address(dst));
                key.proto = [TCP, UDP, 1, 47][usize::from(proto)];
                key.dscp = if ef { 46 } else { 0 };
                if proto < 2 {
                    (key.sport, key.dport) = (Some(sport), Some(dport));
                }
            }
            Frame { tags, key }
        })
}

/// The reference: the first match in file order.
fn by_matches(rules: &[(ClassId, Match)], frame: &Frame) -> Option<u16> {
    let class = Classifier::new(rules, ClassId(0)).classify(&frame.key);
    (class != ClassId(0)).then_some(class.0 as u16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn filters_find_the_class_that_the_gateway_finds(
        rules in proptest::collection::vec((1u32..4, matches()), 1..12),
        frames in proptest::collection::vec(frames(), 1..20),
    ) {
        let rules: Vec<_> = rules.into_iter().map(|(class, made)| (ClassId(class), made)).collect();
        let made = of_matches(&rules, |class| class.0 as u16);
        prop_assert!(made.left_out.is_empty());
        for frame in &frames {
            prop_assert_eq!(found(&made.priorities, frame), by_matches(&rules, frame), "{:?} by {:?}", frame, made.priorities);
        }
        for filters in &made.priorities {
            let flowers = filters.iter().filter(|(filter, _)| *filter != Filter::All).count();
            prop_assert!(flowers == 0 || flowers == filters.len(), "a priority has one classifier");
            let known: std::collections::HashSet<_> = filters.iter().map(|(filter, _)| filter).collect();
            prop_assert_eq!(known.len(), filters.len(), "the kernel refuses a filter twice");
        }
    }

    #[test]
    fn a_match_and_its_filters_take_the_same_frames(made in matches(), frame in frames()) {
        let filters = of_match(&made).unwrap();
        let taken = filters.iter().any(|filter| takes(filter, &frame));
        prop_assert_eq!(taken, made.matches(&frame.key), "{} as {:?}", made, filters);
    }
}

fn parse(text: &str) -> Match {
    Match::parse(text).unwrap()
}

#[test]
fn what_the_kernel_looks_through_is_no_filter_and_is_named() {
    for ethertype in [0x8864, 0x4305, 0x88fb, 0x892f] {
        let made = parse(&format!("ethertype {ethertype:#06x}"));
        assert_eq!(of_match(&made), Err(Unspoken::SeenThrough(ethertype)));
    }
    let rules = [(ClassId(1), parse("udp")), (ClassId(2), parse("ethertype 0x8864")), (ClassId(3), parse("tcp"))];
    let made = of_matches(&rules, |class| class.0 as u16);
    assert_eq!((made.left_out.len(), made.left_out[0].class, made.left_out[0].made), (1, ClassId(2), rules[1].1));
    assert_eq!((made.len(), made.priorities.len()), (4, 1), "the others are there");
    assert!(made.left_out[0].why.to_string().contains("0x8864"));
}

#[test]
fn a_match_of_any_frame_is_a_filter_unless_it_is_of_the_default_class() {
    let made = |default: &str| {
        let text = format!(
            "[link]\nrate = \"1mbit\"\n{default}[[class]]\nname = \"A\"\nmatch = \"udp\"\n[[class]]\nname = \"B\"\n[[class]]\nname = \"C\"\nmatch = \"any\"\n"
        );
        let link = LinkFile::parse("link.toml", text, &ReadOptions::default()).unwrap();
        filters(&link, &plan(&link, None, Nanos(1), Nanos(1)).unwrap())
    };
    let priorities = made("default = \"B\"\n").priorities;
    assert_eq!((priorities.len(), &priorities[1]), (2, &vec![(Filter::All, 3)]));
    assert_eq!(made("default = \"C\"\n").priorities.len(), 1);
    assert_eq!(made("").priorities.len(), 1, "of a match any the default is made");
}

#[test]
fn a_range_beside_a_port_is_bits_under_masks_since_not_every_kernel_looks_at_both() {
    let ports = |text| -> Vec<_> {
        let fields = |filter| match filter {
            Filter::Flower(Fields { sport, dport, .. }) => (sport, dport),
            Filter::All => (None, None),
        };
        of_match(&parse(text)).unwrap().into_iter().map(fields).collect()
    };
    let exact = Some(Port::Masked(53, u16::MAX));
    let blocks = [(5, u16::MAX), (6, 0xfffe)].map(|(value, mask)| (Some(Port::Masked(value, mask)), exact));
    assert_eq!(ports("ip udp src port 5-7 dst port 53"), blocks);
    let ranges = [(Some(Port::Range(5, 7)), Some(Port::Range(8, 9)))];
    assert_eq!(ports("ip udp src port 5-7 dst port 8-9"), ranges);
}

#[test]
fn addresses_share_a_priority_and_what_could_overtake_gets_its_own() {
    let host = |number: u32| format!("host {}", Ipv4Addr::from(0x0a00_0000 + number));
    let list: Vec<_> = (0..1000).map(|number| (ClassId(number), parse(&format!("dst {}", host(number))))).collect();
    assert_eq!(of_matches(&list, |_| 1).priorities.len(), 1);
    // Source and destination in turn: a frame may match both, and the first in the file counts.
    let turn =
        |number: u32| (ClassId(number), parse(&format!("{} {}", ["src", "dst"][number as usize % 2], host(number))));
    let turns: Vec<_> = (0..1000).map(turn).collect();
    assert_eq!(of_matches(&turns, |_| 1).priorities.len(), 500);
    // Within one class the order does not matter.
    let same: Vec<_> = turns.iter().map(|(_, made)| (ClassId(1), *made)).collect();
    assert_eq!(of_matches(&same, |_| 1).priorities.len(), 1);
    // Nor behind a kind that one class ends and another began.
    let ports = [(1, "src port 5"), (2, "dst port 5"), (3, "dst port 6"), (3, "src port 6")];
    let ports = ports.map(|(class, text)| (ClassId(class), parse(text)));
    assert_eq!(of_matches(&ports, |_| 1).priorities.len(), 2);
    let many: Vec<_> = (0..2 * MOST_PRIORITIES as u32 + 10).map(turn).collect();
    let made = of_matches(&many, |_| 1);
    assert_eq!(made.priorities.len(), MOST_PRIORITIES);
    let (left, why) = (made.left_out.len(), made.left_out[0].why);
    // Of the last ten, those that the one before them could overtake.
    assert!(left == 5 && why == Unspoken::Priorities && why.to_string().contains("8192"), "{left}: {why}");
}

#[test]
fn new_filters_stand_behind_the_old_ones_or_before_them_and_never_among_them() {
    let at = |priorities: &[u16]| {
        priorities.iter().map(|&priority| Present { priority, kind: "flower" }).collect::<Vec<_>>()
    };
    assert_eq!(place(&[], 8192), Some(FIRST));
    assert_eq!(place(&at(&[FIRST, FIRST + 9]), 5), Some(FIRST + 10));
    assert_eq!(place(&at(&[LAST - 4]), 4), Some(LAST - 3));
    assert_eq!(place(&at(&[LAST - 4]), 5), Some(FIRST));
    assert_eq!(place(&at(&[FIRST + 4, LAST]), 4), Some(FIRST));
    assert_eq!(place(&at(&[FIRST + 4, LAST]), 5), None);
    // Room for any two files, wherever the first one is.
    for first in [FIRST, FIRST + 8192, LAST - 8191, FIRST + 5000, FIRST + 12_000] {
        assert!(place(&at(&[first, first + 8191]), MOST_PRIORITIES).is_some(), "{first}");
    }
}

/// Attributes of a filter's options.
fn options(filter: &Filter) -> Vec<u8> {
    let message = add(3, 1, FIRST, filter, 2);
    attribute_of(&message[NETLINK_HEADER + 20..], 2).unwrap().to_vec()
}

#[test]
fn a_filter_has_the_layout_of_pkt_cls() {
    let filter = of_match(&parse("vlan 5 inner vlan 7 udp src net 10.1.0.0/16 dst port 1000-2000 dscp ef")).unwrap()[1];
    let message = add(3, 1, 4096, &filter, 2);
    let numbers: Vec<u32> =
        message[NETLINK_HEADER..].chunks(4).take(5).map(|four| u32::from_ne_bytes(four.try_into().unwrap())).collect();
    assert_eq!(numbers, [0, 3, 0, 0x1_0000, 4096 << 16 | 0x0300]);
    assert_eq!(attribute_of(&message[NETLINK_HEADER + 20..], 1).unwrap(), b"flower\0");
    let options = options(&filter);
    let expected: [(u16, &[u8]); 14] = [
        (1, &0x1_0002u32.to_ne_bytes()),
        (8, &[0x81, 0]),
        (25, &[0x88, 0xa8]),
        (79, &[8, 0]),
        (23, &5u16.to_ne_bytes()),
        (77, &7u16.to_ne_bytes()),
        (9, &[17]),
        (10, &[10, 1, 0, 0]),
        (11, &[255, 255, 0, 0]),
        (89, &1000u16.to_be_bytes()),
        (90, &2000u16.to_be_bytes()),
        (73, &[46 << 2]),
        (74, &[0xfc]),
        (2, &[]),
    ];
    for (kind, value) in expected {
        let there = attribute_of(&options, kind);
        assert_eq!(there, (!value.is_empty()).then_some(value), "attribute {kind}");
    }
    let v6 = of_match(&parse("tcp dst net 2001:db8::/33 src port 80")).unwrap();
    let v6 = self::options(v6.last().unwrap());
    assert_eq!(attribute_of(&v6, 17).unwrap()[..6], [255, 255, 255, 255, 128, 0]);
    assert_eq!((attribute_of(&v6, 18), attribute_of(&v6, 35)), (Some(&[0, 80][..]), Some(&[255, 255][..])));
    let macs = self::options(&of_match(&parse("src mac 2:0:0:0:0:a dst mac 2:0:0:0:0:b")).unwrap()[0]);
    let whole = Some(&[255; 6][..]);
    assert_eq!([4, 5].map(|kind| attribute_of(&macs, kind)), [Some(&[2, 0, 0, 0, 0, 11][..]), whole]);
    assert_eq!([6, 7].map(|kind| attribute_of(&macs, kind)), [Some(&[2, 0, 0, 0, 0, 10][..]), whole]);
    let all = self::options(&Filter::All);
    assert_eq!(attribute_of(&all, 1), Some(&0x1_0002u32.to_ne_bytes()[..]));
}

#[test]
fn filters_are_known_by_their_place_and_their_classifier() {
    let body = |index: i32, parent: u32, priority: u32, protocol: u32, kind: &[u8]| {
        let mut body = header(index, 1, parent, priority << 16 | protocol)[NETLINK_HEADER..].to_vec();
        push_attribute(&mut body, 1, kind);
        body
    };
    let present = |body: &[u8]| super::present(body, 3, 1);
    let sound = body(3, 0x1_0000, 4096, 0x0300, b"flower\0");
    assert_eq!(present(&sound), Some(Present { priority: 4096, kind: "flower" }));
    for other in [
        body(4, 0x1_0000, 4096, 0x0300, b"flower\0"),
        body(3, 0x2_0000, 4096, 0x0300, b"flower\0"),
        body(3, 0x1_0000, 4095, 0x0300, b"flower\0"),
        body(3, 0x1_0000, u32::from(LAST) + 1, 0x0300, b"flower\0"),
        body(3, 0x1_0000, 4096, 0x0008, b"flower\0"),
        body(3, 0x1_0000, 4096, 0x0300, b"u32\0"),
    ] {
        assert_eq!(present(&other), None);
    }
    for len in 0..sound.len() - 1 {
        assert_eq!(present(&sound[..len]), None, "cut to {len}");
    }
}

#[test]
fn kinds_that_no_frame_meets_together_share_a_priority() {
    let priorities = |rules: &[(u32, String)]| {
        let rules: Vec<_> = rules.iter().map(|(class, text)| (ClassId(*class), parse(text))).collect();
        of_matches(&rules, |class| class.0 as u16).priorities.len()
    };
    // Subscribers with an IPv4 address and an IPv6 prefix each, in either direction.
    for end in ["src", "dst"] {
        let of = |number: u32| {
            let (v4, v6) = (Ipv4Addr::from(0x0a00_0000 + number), 0x100 * (number % 0x100));
            let v6 = format!("2001:db8:{:x}:{v6:x}::/56", number / 0x100);
            [(number, format!("{end} host {v4}")), (number, format!("{end} net {v6}"))]
        };
        let subscribers: Vec<_> = (1..=10_000).flat_map(of).collect();
        assert_eq!(priorities(&subscribers), 1, "{end}");
    }
    // Prefixes of several lengths, of which none lies in another.
    let nets =
        ["10.0.0.0/24", "10.0.1.0/25", "10.0.2.0/24", "10.0.1.128/25", "2001:db8::/48", "10.0.3.7/32", "10.0.4.0/24"];
    let nets: Vec<_> = (0..).zip(nets).map(|(class, net)| (class, format!("dst net {net}"))).collect();
    assert_eq!(priorities(&nets), 1);
    // A shorter prefix behind two kinds would overtake the longer one within it; a longer one behind would never match.
    for (last, count) in [("10.0.1.0/24", 2), ("10.0.5.0/24", 1)] {
        let mut nets = nets.clone();
        nets.push((99, format!("dst net {last}")));
        assert_eq!(priorities(&nets), count, "{last}");
    }
    let inside = ["10.0.1.0/24", "10.2.0.1/32", "10.0.1.5/32", "10.2.0.0/24"];
    let inside: Vec<_> = (0..).zip(inside).map(|(class, net)| (class, format!("dst net {net}"))).collect();
    assert_eq!(priorities(&inside), 2);
    // A prefix within one whose kind is looked up later, although its line is first.
    let inside = ["10.3.0.1/32", "10.0.1.0/24", "10.0.1.5/32"];
    let inside: Vec<_> = (0..).zip(inside).map(|(class, net)| (class, format!("dst net {net}"))).collect();
    assert_eq!(priorities(&inside), 2);
    // Behind more filters of its class than are compared there, one of another class may follow.
    let mut many = vec![(1, "dst host 10.0.0.1".to_owned())];
    many.extend((0..70).map(|number| (9, format!("src host 10.1.0.{number}"))));
    many.extend([(8, "src host 10.2.0.1".to_owned()), (9, "dst host 10.0.0.2".to_owned())]);
    assert_eq!(priorities(&many), 2);
    // Ports, protocols and tags distinguish frames as well.
    let others = ["tcp dst port 5", "udp src port 7", "tcp dst port 6", "vlan 3", "vlan 4 inner vlan 5", "vlan 6"];
    let others: Vec<_> = (0..).zip(others).map(|(class, text)| (class, text.to_owned())).collect();
    assert_eq!(priorities(&others), 1);
}

/// The frames of the laboratory (kernel/lab/filters): interface, class, and the bytes of the frame with all tags.
const FRAMES: &str = include_str!("../../../../../kernel/lab/filters/frames");
const LINK: &str = include_str!("../../../../../kernel/lab/filters/link.toml");

#[test]
fn the_frames_of_the_laboratory_are_of_the_classes_that_stand_there() {
    let link = LinkFile::parse("link.toml", LINK, &ReadOptions::default()).unwrap();
    let made = filters(&link, &plan(&link, None, Nanos(1), Nanos(1)).unwrap());
    assert!(made.left_out.is_empty(), "{:?}", made.left_out);
    let default = link.default_class.unwrap();
    let mut classifier = Classifier::new(&link.matches, default);
    let mut used = std::collections::HashSet::new();
    for line in FRAMES.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, class, hex] = words[..] else { panic!("{line}") };
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let key = frame_key(&bytes);
        let found = classifier.classify(&key);
        let number = link.classids.iter().find(|(_, of)| *of == found).map(|(number, _)| number.to_string());
        assert_eq!(number.as_deref(), Some(class), "{line}: {key:?}");
        used.insert(found);
    }
    assert_eq!(used.len(), link.tree.leaves().len(), "a frame for each class");
}
