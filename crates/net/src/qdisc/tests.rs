//! Numbers of classes, and the layout of messages.

use std::time::Instant;

use fairlink_config::{LinkFile, ReadOptions};
use fairlink_core::{Amount, ClassId, HostKey, Hosts, Nanos};
use fairlink_schema::qdisc::{Config, MAX_RECORD};

use proptest::prelude::*;

use crate::io::netlink::{NETLINK_HEADER, attribute_of, nested, push_attribute};
use crate::qdisc::messages::{Class, Discipline, Handed, Sampled};
use crate::qdisc::{QdiscState, filters, messages, plan};

/// A with A1 and A2 of 60 of 100 Mbit/s, and B.
pub(crate) const FILE: &str = "
[link]
rate = \"100mbit\"
default = \"B\"
[[class]]
name = \"A\"
guarantee = \"60mbit\"
[[class]]
name = \"A1\"
parent = \"A\"
guarantee = \"20mbit\"
[[class]]
name = \"A2\"
parent = \"A\"
guarantee = \"40mbit\"
[[class]]
name = \"B\"
guarantee = \"40mbit\"
";

pub(crate) fn file(text: &str) -> LinkFile {
    LinkFile::parse("link.toml", text, &ReadOptions::default()).unwrap()
}

/// The kernel's report of a link that was installed.
pub(crate) fn raw_link(link: &LinkFile) -> Discipline {
    Discipline {
        major: 7,
        broken: None,
        generation: 0,
        super_frames: 0,
        sampled: Sampled::default(),
        sent: Amount::ZERO,
        dropped: 0,
        queued: Amount::ZERO,
        record: record(link, ClassId::ROOT),
    }
}

/// And of its classes.
pub(crate) fn raw_classes(link: &LinkFile) -> Vec<Class> {
    let plan = plan(link, None, Nanos(5), Nanos(6)).unwrap();
    let none = Amount::ZERO;
    let class = |class: ClassId| Class {
        minor: plan.minors[class.index()],
        parent: link.tree.parent(class).map_or(0, |parent| plan.minors[parent.index()]),
        index: class.0,
        leaf: link.tree.is_leaf(class),
        generation: 0,
        guarantee_bps: 0,
        received: none,
        sent: none,
        dropped: none,
        marked: none,
        queued: none,
        too_long_bytes: 0,
        lent_bytes: None,
        sampled: Sampled::default(),
        record: record(link, class),
    };
    link.tree.classes().map(class).collect()
}

fn record(link: &LinkFile, class: ClassId) -> Vec<u8> {
    let config = Config::read(&plan(link, None, Nanos(5), Nanos(6)).unwrap().bytes).unwrap();
    let mut place = [0; MAX_RECORD];
    let len = config.write_record(class, &mut place).unwrap();
    place[..len].to_vec()
}

/// A running link of which only names and numbers of classes matter.
fn running(numbers: &[(u16, &str)]) -> QdiscState {
    let mut text = "[link]\nrate = \"1mbit\"\n".to_owned();
    for (minor, name) in numbers {
        text += &format!("[[class]]\nname = \"{name}\"\nclassid = \"7:{minor:x}\"\n");
    }
    let link = file(&text);
    QdiscState::read(raw_link(&link), raw_classes(&link), Instant::now()).unwrap()
}

#[test]
fn a_class_keeps_its_number_and_others_get_the_first_free_one() {
    let fresh = plan(&file(FILE), None, Nanos(5), Nanos(6)).unwrap();
    assert_eq!((fresh.major, &fresh.minors[..]), (1, &[0, 1, 2, 3, 4][..]));
    let running = running(&[(2, "A"), (1, "gone"), (9, "B")]);
    let changed = plan(&file(FILE), Some(&running), Nanos(5), Nanos(6)).unwrap();
    assert_eq!((changed.major, &changed.minors[..]), (7, &[0, 2, 1, 3, 9][..]));
    // The `classid` of the file has priority.
    let said = FILE.replace("name = \"A1\"", "name = \"A1\"\nclassid = \"3:9\"");
    let changed = plan(&file(&said), Some(&running), Nanos(5), Nanos(6)).unwrap();
    assert_eq!((changed.major, &changed.minors[..]), (7, &[0, 2, 9, 1, 3][..]), "the number of what is there stays");
    assert_eq!(plan(&file(&said), None, Nanos(5), Nanos(6)).unwrap().major, 3);
}

#[test]
fn the_kernel_is_told_what_the_file_says() {
    let link = file(FILE);
    let config = Config::read(&plan(&link, None, Nanos(5), Nanos(6)).unwrap().bytes).unwrap();
    assert_eq!((config.scheduler.name, config.default), ("hls", Some(ClassId(4))));
    assert_eq!((config.catch_up, config.slack), (Nanos(5), Nanos(6)));
    assert_eq!(config.tree.link(), link.tree.link());
    for class in link.tree.classes() {
        assert_eq!(config.tree.config(class), link.tree.config(class));
        assert_eq!(config.labels.name(class), link.names.name(class).as_bytes());
    }
}

#[test]
fn a_request_has_the_layout_of_rtnetlink() {
    let message = messages::set(3, u32::MAX, 1, Handed::Bytes(b"bytes"), libc::NLM_F_CREATE);
    assert_eq!(u32::from_ne_bytes(message[0..4].try_into().unwrap()) as usize, message.len());
    assert_eq!(u16::from_ne_bytes(message[4..6].try_into().unwrap()), libc::RTM_NEWQDISC);
    let body = &message[NETLINK_HEADER..];
    let numbers: Vec<u32> = body[..20].chunks(4).map(|four| u32::from_ne_bytes(four.try_into().unwrap())).collect();
    assert_eq!(numbers, [0, 3, 0x1_0000, u32::MAX, 0]);
    assert_eq!(attribute_of(&body[20..], 1).unwrap(), b"fairlink\0");
    assert_eq!(attribute_of(attribute_of(&body[20..], 2).unwrap(), 1).unwrap(), b"bytes");
    let below = messages::set(3, 0x2_0001, 0x20, Handed::Bytes(b"bytes"), 0);
    assert_eq!(
        (&below[NETLINK_HEADER + 8..][..4], &below[NETLINK_HEADER + 12..][..4]),
        (&0x20_0000u32.to_ne_bytes()[..], &0x2_0001u32.to_ne_bytes()[..])
    );
    let message = messages::set(3, u32::MAX, 1, Handed::File(9), 0);
    let options = attribute_of(&message[NETLINK_HEADER + 20..], 2).unwrap();
    assert_eq!((attribute_of(options, 1), attribute_of(options, 2)), (None, Some(&9i32.to_ne_bytes()[..])));
}

#[test]
fn what_the_kernel_says_of_an_error_is_read() {
    let mut answer = vec![0; NETLINK_HEADER + 4 + NETLINK_HEADER];
    push_attribute(&mut answer, 1, b"fairlink: no\0");
    assert_eq!(messages::said(&answer).unwrap(), "fairlink: no");
    assert_eq!(messages::said(&answer[..20]), None);
}

fn numbers32(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

#[test]
fn a_queueing_discipline_is_read_from_where_the_module_writes_it() {
    let body = |kind: &[u8], broken: u32, record: &[u8]| {
        let mut body = numbers32(&[0, 3, 0x1_0000, u32::MAX, 0]);
        push_attribute(&mut body, 1, kind);
        nested(&mut body, 7, |body| {
            let basic: Vec<u8> = [7000u64.to_ne_bytes(), 7u64.to_ne_bytes()].concat();
            push_attribute(body, 1, &basic);
            push_attribute(body, 3, &numbers32(&[2, 2000, 3, 0, 0]));
            let mut app = numbers32(&[2, broken]);
            // Generation, pieces of memory, super-frames, samples.
            app.extend([4u64, 23, 9, 31, 32, 33, 34, 35].iter().flat_map(|number| number.to_ne_bytes()));
            // Classes, length of the record.
            app.extend(numbers32(&[4, 6]));
            app.extend(b"panicked");
            app.resize(208, 0);
            app.extend(record);
            push_attribute(body, 4, &app);
        });
        body
    };
    let sampled = Sampled { samples: 31, bytes: 32, packets: 33, demand: 34, borrowed: 35 };
    let expected = Discipline {
        major: 1,
        broken: None,
        generation: 4,
        super_frames: 9,
        sampled,
        sent: Amount { packets: 7, bytes: 7000 },
        dropped: 3,
        queued: Amount { packets: 2, bytes: 2000 },
        record: b"record".to_vec(),
    };
    let sound = body(b"fairlink\0", 0, b"record");
    assert_eq!(messages::discipline(&sound, 3, u32::MAX), Some(expected.clone()));
    let broken = Discipline { broken: Some("panicked".to_owned()), ..expected.clone() };
    assert_eq!(messages::discipline(&body(b"fairlink-broken\0", 1, b"record"), 3, u32::MAX), Some(broken));
    assert_eq!(messages::discipline(&body(b"htb\0", 0, b"record"), 3, u32::MAX), None);
    assert_eq!(messages::discipline(&sound, 4, u32::MAX), None, "of another interface");
    let mut below = sound.clone();
    below[12..16].copy_from_slice(&0x2_0001u32.to_ne_bytes());
    assert_eq!(messages::discipline(&below, 3, u32::MAX), None, "not the root");
    assert_eq!(messages::discipline(&below, 3, 0x2_0001), Some(expected.clone()), "below a class");
    assert_eq!(messages::discipline(&sound, 3, 0x2_0001), None, "not below a class");
    assert_eq!(messages::discipline(&body(b"fairlink\0", 0, b"recor"), 3, u32::MAX), None, "a record that is cut");
    for len in 0..sound.len() - 2 {
        assert_eq!(messages::discipline(&sound[..len], 3, u32::MAX), None, "cut to {len}");
    }
}

/// The body of a message about a class, as the module writes it.
fn class_body(kind: &[u8], version: u32) -> Vec<u8> {
    let mut body = numbers32(&[0, 3, 0x1_0005, 0x1_0002, 0]);
    push_attribute(&mut body, 1, kind);
    nested(&mut body, 7, |body| {
        let mut app = numbers32(&[version, 1]);
        app.extend((10..29u64).flat_map(u64::to_ne_bytes));
        // Its index, its parent, the length of its record.
        app.extend(numbers32(&[3, 2, 4, 0]));
        app.extend(b"here");
        push_attribute(body, 4, &app);
    });
    body
}

#[test]
fn a_class_is_read_from_where_the_module_writes_it() {
    let pair = |packets| Amount { packets, bytes: packets + 1 };
    let expected = Class {
        minor: 5,
        parent: 2,
        index: 3,
        leaf: true,
        generation: 10,
        guarantee_bps: 11,
        received: pair(12),
        sent: pair(14),
        dropped: pair(16),
        marked: pair(18),
        queued: pair(20),
        too_long_bytes: 22,
        lent_bytes: Some(23),
        sampled: Sampled { samples: 24, bytes: 25, packets: 26, demand: 27, borrowed: 28 },
        record: b"here".to_vec(),
    };
    let body = class_body(b"fairlink\0", 2);
    assert_eq!(messages::class(&body, 3, 1), Some(expected));
    let mut uncounted = body.clone();
    let lent = uncounted.windows(8).position(|eight| *eight == 23u64.to_ne_bytes()).unwrap();
    uncounted[lent..lent + 8].fill(255);
    assert_eq!(messages::class(&uncounted, 3, 1).unwrap().lent_bytes, None);
    assert_eq!(messages::class(&body, 4, 1), None, "of another interface");
    assert_eq!(messages::class(&body, 3, 2), None, "of another queueing discipline");
    assert_eq!(messages::class(&class_body(b"htb\0", 2), 3, 1), None);
    assert_eq!(messages::class(&class_body(b"fairlink\0", 1), 3, 1), None, "of another version");
    for len in 0..body.len() {
        assert_eq!(messages::class(&body[..len], 3, 1), None, "cut to {len}");
    }
}

#[test]
fn hosts_that_share_a_class_are_told_to_the_kernel() {
    let text = "link.rate = '1mbit'\n[[class]]\nname = 'guests'\nper = 'dst-ip'\nhosts = 77\n[[class]]\nname = 'rest'";
    let bytes = plan(&file(text), None, Nanos::ZERO, Nanos::ZERO).unwrap().bytes;
    let read = fairlink_schema::qdisc::Config::read(&bytes).unwrap();
    assert_eq!(read.tree.config(ClassId(1)).hosts, Hosts::new(77, HostKey::DestinationIp));
    assert_eq!(read.tree.config(ClassId(2)).hosts, None);
}

proptest! {
    #[test]
    fn whatever_the_kernel_says_is_read_or_left_out(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..8),
        records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 1..6),
        generations in proptest::collection::vec(0u64..2, 5),
    ) {
        let mut body = class_body(b"fairlink\0", 2);
        for (at, value) in changes {
            let at = at.index(body.len());
            body[at] = value;
        }
        let _ = messages::class(&body, 3, 1);
        let _ = messages::discipline(&body, 3, u32::MAX);
        let _ = filters::present(&body, 3, 1);
        let link = file(FILE);
        let mut classes = raw_classes(&link);
        for ((class, record), generation) in classes.iter_mut().zip(records).zip(generations) {
            (class.record, class.generation) = (record, generation);
        }
        if let Some(mut state) = QdiscState::read(raw_link(&link), classes, Instant::now()) {
            prop_assert_eq!(state.classes.len(), 4);
            let earlier = state.clone();
            prop_assert!(state.measure_since(&earlier) == 0.0);
            prop_assert!(state.classes.iter().all(|class| class.rates.is_none()), "no time has passed");
        }
    }
}
