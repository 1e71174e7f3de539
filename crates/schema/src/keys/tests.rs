//! The tables agree with each other, with the core and with the bytes.

use std::vec::Vec;

use fairlink_core::{
    ClassConfig, ClassId, Contract, Feature, Hierarchy, HostKey, Hosts, LeakyBucket, LeakyBuckets, LinkConfig, Nanos,
    QueueKind, QueueLimits, Rate, ServiceCurve, Share,
};

use super::{CLASS, Key, Kind, LINK, Value, difference};

/// A value of each kind that is not the default.
fn example(kind: Kind) -> Value {
    let rate = Rate::from_bps(5).unwrap();
    let curve = ServiceCurve { m1: None, d: Nanos(0), m2: Some(rate) };
    match kind {
        Kind::Rate => Value::Rate(rate),
        Kind::Size { .. } => Value::Bytes(7),
        Kind::Number { .. } => Value::Number(9),
        Kind::Flag => Value::Flag(true),
        Kind::Time => Value::Time(Nanos(3)),
        Kind::Word { .. } => Value::Word(1),
        Kind::Contract => Value::Contract(Contract { bytes: 1, every: Nanos(2) }),
        Kind::Curve { .. } => Value::Curve(curve),
        Kind::Buckets => Value::Buckets(LeakyBuckets::new(&[LeakyBucket { burst: 1, peak: rate, rate }]).unwrap()),
        Kind::Buffer => Value::Limits(QueueLimits { packets: 4, bytes: u32::MAX }),
        Kind::Per => Value::Hosts(Hosts::new(4, HostKey::SourceIp).unwrap()),
        Kind::Packets { .. } => Value::Packets(6),
        Kind::Overhead | Kind::Gso | Kind::Matches | Kind::Scheduler | Kind::Text { .. } => {
            panic!("no field of a configuration")
        }
    }
}

fn each_key_is_set_and_read<C: Copy>(keys: &'static [Key<C>], default: C) {
    for key in keys.iter().filter(|key| key.set.is_some()) {
        let mut config = default;
        let value = example(key.kind);
        // The value of transmit_priority is part of the queue.
        let transmit_queue = keys.iter().find(|other| other.name == "transmit_queue");
        if let Some(set) = transmit_queue.filter(|_| key.name == "transmit_priority").and_then(|key| key.set) {
            set(&mut config, Value::Packets(1));
        }
        let before = config;
        key.set.unwrap()(&mut config, value);
        assert_eq!(key.value(&config), Some(value), "{}", key.name);
        let changed: Vec<&str> = difference(keys, &before, &config).map(|difference| difference.key.name).collect();
        assert_eq!(changed, [key.name], "it sets its own field alone");
        assert!(!key.show(value).is_empty());
    }
}

#[test]
fn each_key_sets_its_own_field_and_no_other() {
    each_key_is_set_and_read(&CLASS, ClassConfig::default());
    each_key_is_set_and_read(&LINK, LinkConfig::new(Rate::MAX));
}

#[test]
fn bits_are_given_once_and_bytes_stand_in_their_order() {
    let mut bits: Vec<u8> = CLASS.iter().filter_map(|key| key.bit).collect();
    let with_bytes = CLASS.iter().filter(|key| !matches!(key.kind, Kind::Flag)).filter_map(|key| key.bit);
    assert!(with_bytes.clone().zip(with_bytes.skip(1)).all(|(one, next)| one < next));
    bits.sort_unstable();
    assert_eq!(bits, (0..bits.len() as u8).collect::<Vec<u8>>());
    assert!(CLASS.iter().all(|key| key.bit.is_none() || key.set.is_some()), "what has bytes can be set");
}

#[test]
fn a_key_asks_for_the_features_that_the_core_sees_in_a_class_that_has_it() {
    for key in CLASS.iter() {
        let Some(set) = key.set else { continue };
        let mut seen: Vec<Feature> = Vec::new();
        for latency_critical in [false, true] {
            let mut class = ClassConfig { latency_critical, ..ClassConfig::default() };
            set(&mut class, example(key.kind));
            let mut tree = Hierarchy::builder(LinkConfig::new(Rate::MAX));
            tree.add(ClassId::ROOT, class).unwrap();
            let tree = tree.build().unwrap();
            let own = key.name != "latency_critical";
            seen.extend(tree.features(ClassId(1)).filter(|&feature| !own || feature != Feature::LatencyCritical));
        }
        seen.sort_unstable();
        seen.dedup();
        let mut declared = key.features.to_vec();
        declared.sort_unstable();
        assert_eq!(seen, declared, "{}", key.name);
    }
}

#[test]
fn two_classes_differ_in_the_keys_that_were_changed() {
    let one = ClassConfig { share: Some(Share::Weight(3)), priority: Some(0), ..ClassConfig::default() };
    let two = ClassConfig {
        share: Some(Share::Guarantee(Rate::from_bps(2_000_000).unwrap())),
        queue: QueueKind::FqCoDel,
        ..one
    };
    let shown: Vec<_> = difference(&CLASS, &one, &two)
        .map(|change| {
            let show = |value: Option<Value>| value.map(|value| change.key.show(value));
            (change.key.name, show(change.old), show(change.new))
        })
        .collect();
    let text = |text: &str| Some(std::string::String::from(text));
    let expected =
        [("guarantee", None, text("2 Mbit/s")), ("weight", text("3"), None), ("queue", None, text("fq_codel"))];
    assert_eq!(shown, expected);
}
