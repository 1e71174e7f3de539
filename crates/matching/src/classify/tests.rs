use super::*;
use crate::{IpVersion, PortRange, Prefix, v4_mapped};
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn reference(rules: &[(ClassId, Match)], default: ClassId, key: &FrameKey) -> ClassId {
    rules.iter().find(|(_, rule)| rule.matches(key)).map_or(default, |&(class, _)| class)
}

/// Addresses of Ethernet, of which there are three.
fn macs(probability: f64) -> impl Strategy<Value = (Option<Mac>, Option<Mac>)> {
    let mac = move || proptest::option::weighted(probability, (0u8..3).prop_map(|last| Mac([2, 0, 0, 0, 0, last])));
    (mac(), mac())
}

/// Few values of each field, so that rules and frames meet.
fn rule() -> impl Strategy<Value = Match> {
    use proptest::option::weighted as option;
    let port = || (0u16..12, 0u16..4).prop_map(|(first, more)| PortRange { first, last: first + more });
    let prefix = || (0u8..4, 22u8..33).prop_map(|(last, len)| Prefix::v4(Ipv4Addr::new(10, 0, last, last), len));
    let general = (
        (option(0.2, 0u16..3), macs(0.15)),
        (option(0.1, 0u16..3), option(0.1, 0x88b4u16..0x88b7)),
        option(0.6, prop_oneof![Just(UDP), Just(TCP), Just(1u8)]),
        option(0.2, prefix()),
        option(0.2, prefix()),
        option(0.2, port()),
        option(0.4, port()),
        option(0.2, 0u8..3),
    )
        .prop_map(|((vlan, (src_mac, dst_mac)), (inner_vlan, ethertype), proto, src, dst, sport, dport, dscp)| {
            let version = (src.is_some() || dst.is_some()).then_some(IpVersion::V4);
            Match { src_mac, dst_mac, vlan, inner_vlan, ethertype, version, proto, src, dst, sport, dport, dscp }
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
        (proptest::option::of(0u16..3), macs(0.9)),
        (proptest::option::of(0u16..3), proptest::option::of(0x88b4u16..0x88b7)),
        0u8..4,
        prop_oneof![Just(UDP), Just(TCP), Just(1u8)],
        (address(), address()),
        (proptest::option::weighted(0.9, 0u16..16), proptest::option::weighted(0.9, 0u16..16)),
        0u8..3,
    )
        .prop_map(
            |(
                (vlan, (src_mac, dst_mac)),
                (inner_vlan, ethertype),
                version,
                proto,
                (src, dst),
                (sport, dport),
                dscp,
            )| {
                let bare = FrameKey { src_mac, dst_mac, vlan, inner_vlan, ethertype, ..FrameKey::default() };
                let version = match version {
                    0 => return bare,
                    1 => Some(IpVersion::V6),
                    _ => Some(IpVersion::V4),
                };
                FrameKey { version, proto, src, dst, sport, dport, dscp, ..bare }
            },
        )
}

proptest! {
    #[test]
    fn table_and_cache_answer_as_the_matches_do(
        rules in proptest::collection::vec(rule(), 0..80), keys in proptest::collection::vec(key(), 1..80)
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

/// Rules on a source port, a codepoint, a VLAN, a protocol and a version, so that the cache pays.
fn mixed_rules() -> Vec<(ClassId, Match)> {
    let sport = |port: u16| Match { sport: Some(PortRange { first: port, last: port }), ..Match::ANY };
    let ports = (0..8u16).map(|port| (ClassId(u32::from(port) + 1), sport(port)));
    let vlans = (100..108u16).map(|vlan| (ClassId(20), Match { vlan: Some(vlan), ..Match::ANY }));
    let dscps = (1..9u8).map(|dscp| (ClassId(21), Match { dscp: Some(dscp), ..Match::ANY }));
    ports.chain(vlans).chain(dscps).collect()
}

fn flow(sport: u16, n: u32) -> FrameKey {
    let src = v4_mapped(n.to_be_bytes());
    let version = Some(IpVersion::V4);
    FrameKey { version, proto: UDP, src, sport: Some(sport), dport: Some(1), ..FrameKey::default() }
}

#[test]
fn flows_that_share_a_cache_entry_do_not_share_a_class() {
    let mut rules = mixed_rules();
    // A rule that distinguishes all flows and that no frame meets.
    rules.push((
        ClassId(30),
        Match { src: Some(Prefix::v4(Ipv4Addr::BROADCAST, 32)), version: Some(IpVersion::V4), ..Match::ANY },
    ));
    let mut classifier = Classifier::new(&rules, ClassId(99));
    assert_eq!(classifier.cache.len() * WAYS, CACHE_ENTRIES);
    // More flows than entries: each entry is shared by several.
    for n in 0..4 * CACHE_ENTRIES as u32 {
        let sport = (n % 8) as u16;
        assert_eq!(classifier.classify(&flow(sport, n)), ClassId(u32::from(sport) + 1));
    }
    assert!(classifier.cache.iter().flatten().flatten().count() > CACHE_ENTRIES / 2);
}

#[test]
fn flows_that_no_match_tells_apart_share_a_cache_entry() {
    let mut classifier = Classifier::new(&mixed_rules(), ClassId(99));
    // No rule compares addresses.
    for n in 0..1000 {
        assert_eq!(classifier.classify(&flow(3, n)), ClassId(4));
    }
    assert_eq!(classifier.cache.iter().flatten().flatten().count(), 1);
}

#[test]
fn nobody_can_tell_where_the_cache_has_a_flow() {
    let place = || {
        let classifier = Classifier::new(&mixed_rules(), ClassId(99));
        (0..64).map(|n| hash(&flow(3, n), classifier.seed) as usize % classifier.cache.len()).collect::<Vec<_>>()
    };
    assert_ne!(place(), place());
}

#[test]
fn a_list_of_prefixes_is_a_table_for_each_length_and_the_first_in_the_file_wins() {
    // Nested prefixes, in an order in which the longest comes neither first nor last.
    let mut rules = Vec::new();
    for n in 0..65_536u32 {
        let address = Ipv4Addr::from(0x0a00_0000 | n.wrapping_mul(0x9e37_79b9) >> 8);
        let prefix = Prefix::v4(address, 16 + (n.wrapping_mul(2_654_435_761) >> 28) as u8);
        rules.push((ClassId(n + 1), Match { src: Some(prefix), version: Some(IpVersion::V4), ..Match::ANY }));
    }
    let mut classifier = Classifier::new(&rules, ClassId(99_999));
    assert_eq!((classifier.tuples.tables(), classifier.others.len()), (16, 0));
    for n in 0..200u32 {
        let key = flow(1, 0x0a00_0000 | n.wrapping_mul(0x85eb_ca6b) >> 8);
        assert_eq!(classifier.classify(&key), reference(&rules, ClassId(99_999), &key), "{key:?}");
    }
    // Places of 8 B, at most four for each rule, beside the rules themselves and the cache.
    let beside = classifier.memory_bytes() - rules.len() * size_of::<(ClassId, Match)>();
    assert!(beside < rules.len() * 4 * 8 + CACHE_ENTRIES * size_of::<Entry>() + 65_536, "{beside}");
}

#[test]
fn many_rules_in_every_form_answer_as_a_list_does() {
    // As many rules as one of each form, so that all methods are used at once; many frames meet several rules.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut draw = |count: usize| {
        let tree = proptest::collection::vec(rule(), count).new_tree(&mut runner).unwrap();
        let keys = proptest::collection::vec(key(), 300).new_tree(&mut runner).unwrap();
        (proptest::strategy::ValueTree::current(&tree), proptest::strategy::ValueTree::current(&keys))
    };
    let mut tables = 0;
    for count in [50, 200, 1000, 3000] {
        let (rules, keys) = draw(count);
        // Without a rule for every frame, which would hide all behind it.
        let rules = rules.into_iter().filter(|rule| !rule.is_any());
        let rules: Vec<_> = rules.zip(1..).map(|(rule, class)| (ClassId(class), rule)).collect();
        let mut classifier = Classifier::new(&rules, ClassId(9999));
        tables += classifier.tuples.tables();
        for key in keys.iter().chain(&keys) {
            assert_eq!(classifier.classify(key), reference(&rules, ClassId(9999), key), "{key:?}");
        }
    }
    assert!(tables > 50, "{tables}");
}

#[test]
fn file_order_decides_between_a_port_and_another_match() {
    let port = Match { proto: Some(UDP), dport: Some(PortRange { first: 5001, last: 5001 }), ..Match::ANY };
    let dscp = Match { dscp: Some(46), ..Match::ANY };
    let key = FrameKey { version: Some(IpVersion::V4), proto: UDP, dport: Some(5001), dscp: 46, ..FrameKey::default() };
    let mut first = Classifier::new(&[(ClassId(1), port), (ClassId(2), dscp)], ClassId(3));
    let mut second = Classifier::new(&[(ClassId(2), dscp), (ClassId(1), port)], ClassId(3));
    assert_eq!((first.classify(&key), second.classify(&key)), (ClassId(1), ClassId(2)));
    assert_eq!(first.classify(&FrameKey { dscp: 0, dport: Some(5002), ..key }), ClassId(3));
}

#[test]
fn steps_of_an_answer_are_counted_and_a_flow_that_was_seen_before_takes_one_entry() {
    // Source ports 0 to 7 in one hash table, and 20 matches that no table takes and that are tried one by one, so that
    // the cache pays.
    let mut rules: Vec<_> = mixed_rules().into_iter().filter(|(_, rule)| rule.sport.is_some()).collect();
    let both = PortRange { first: 1, last: u16::MAX - 1 };
    rules.extend((0..20u8).map(|dscp| {
        let rule = Match { dscp: Some(dscp), sport: Some(both), dport: Some(both), ..Match::ANY };
        (ClassId(50 + u32::from(dscp)), rule)
    }));
    let mut counted = Classifier::<fairlink_core::Counted>::working(&rules, ClassId(99), 7);
    let mut plain = Classifier::new(&rules, ClassId(99));
    let mut steps = |key: &FrameKey| {
        let before = counted.steps();
        assert_eq!(counted.classify(key), plain.classify(key));
        assert_eq!(plain.steps(), ClassifierSteps::default());
        counted.steps().since(before)
    };
    // The hash table has source port 3, and it is the fourth rule: nothing behind it is tried.
    let found = steps(&flow(3, 1));
    assert_eq!((found.full, found.entries, found.tables, found.matches), (1, 0, 1, 1));
    assert!((2..=9).contains(&found.places), "{found:?}");
    assert_eq!(steps(&flow(3, 1)), ClassifierSteps { entries: 1, ..ClassifierSteps::default() });
    // No source port of the table: the table is asked in vain, and codepoints 0 to 4 are tried one by one.
    let found = steps(&FrameKey { dscp: 4, ..flow(60_000, 1) });
    assert_eq!((found.full, found.tables, found.matches), (1, 1, 5));
    // Without a port, the table is not asked, and no rule is met.
    let found = steps(&FrameKey { sport: None, ..flow(0, 1) });
    assert_eq!((found.full, found.tables, found.places, found.matches), (1, 0, 0, 20));
}
