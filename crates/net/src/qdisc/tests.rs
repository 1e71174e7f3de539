//! Numbers of classes, and the layout of messages.

use fairlink_config::{LinkFile, ReadOptions};
use fairlink_core::{Amount, ClassId, Nanos};
use fairlink_qdisc::Config;

use crate::io::netlink::{NETLINK_HEADER, attribute_of, nested, push_attribute};
use crate::qdisc::{QdiscClass, QdiscState, messages, plan};

const FILE: &str = "
[link]
rate = \"100mbit\"
default = \"B\"

[[class]]
name = \"A\"
guarantee = \"60mbit\"

[[class]]
name = \"A1\"
parent = \"A\"

[[class]]
name = \"B\"
guarantee = \"40mbit\"
";

fn file(text: &str) -> LinkFile {
    LinkFile::parse("link.toml", text, &ReadOptions::default()).unwrap()
}

fn class(minor: u16, name: &str) -> QdiscClass {
    let none = Amount::ZERO;
    QdiscClass {
        minor,
        parent: 0,
        name: name.to_owned(),
        leaf: true,
        rate_bps: 0,
        received: none,
        sent: none,
        dropped: none,
        marked: none,
        queued: none,
        lent_bytes: None,
    }
}

fn state(classes: Vec<QdiscClass>) -> QdiscState {
    QdiscState {
        major: 7,
        scheduler: "hls".to_owned(),
        broken: None,
        rate_bps: 0,
        default: None,
        sent: Amount::ZERO,
        dropped: 0,
        queued: Amount::ZERO,
        super_frames: 0,
        classes,
    }
}

#[test]
fn a_class_keeps_its_number_and_others_get_the_first_free_one() {
    let fresh = plan(&file(FILE), None, Nanos(5), Nanos(6)).unwrap();
    assert_eq!((fresh.major, &fresh.minors[..]), (1, &[0, 1, 2, 3][..]));
    let running = state(vec![class(2, "A"), class(1, "gone"), class(9, "B")]);
    let changed = plan(&file(FILE), Some(&running), Nanos(5), Nanos(6)).unwrap();
    assert_eq!((changed.major, &changed.minors[..]), (7, &[0, 2, 1, 9][..]));
    // What the file says comes first.
    let said = FILE.replace("name = \"A1\"", "name = \"A1\"\nclassid = \"3:9\"");
    let changed = plan(&file(&said), Some(&running), Nanos(5), Nanos(6)).unwrap();
    assert_eq!(changed.minors, [0, 2, 9, 1]);
    assert_eq!(plan(&file(&said), None, Nanos(5), Nanos(6)).unwrap().major, 3);
}

#[test]
fn the_kernel_is_told_what_the_file_says() {
    let link = file(FILE);
    let config = Config::read(&plan(&link, None, Nanos(5), Nanos(6)).unwrap().bytes).unwrap();
    assert_eq!((config.scheduler.name, config.default), ("hls", Some(ClassId(3))));
    assert_eq!((config.catch_up, config.slack), (Nanos(5), Nanos(6)));
    assert_eq!(config.tree.link(), link.tree.link());
    for class in link.tree.classes() {
        assert_eq!(config.tree.config(class), link.tree.config(class));
        assert_eq!(config.labels.name(class), link.names.name(class).as_bytes());
    }
}

#[test]
fn a_request_has_the_layout_of_rtnetlink() {
    let message = messages::set(3, 1, Some(b"bytes"), libc::NLM_F_CREATE);
    assert_eq!(u32::from_ne_bytes(message[0..4].try_into().unwrap()) as usize, message.len());
    assert_eq!(u16::from_ne_bytes(message[4..6].try_into().unwrap()), libc::RTM_NEWQDISC);
    let body = &message[NETLINK_HEADER..];
    let numbers: Vec<u32> = body[..20].chunks(4).map(|four| u32::from_ne_bytes(four.try_into().unwrap())).collect();
    assert_eq!(numbers, [0, 3, 0x1_0000, u32::MAX, 0]);
    assert_eq!(attribute_of(&body[20..], 1).unwrap(), b"fairlink\0");
    assert_eq!(attribute_of(attribute_of(&body[20..], 2).unwrap(), 1).unwrap(), b"bytes");
}

#[test]
fn what_the_kernel_says_of_an_error_is_read() {
    let mut answer = vec![0; NETLINK_HEADER + 4 + NETLINK_HEADER];
    push_attribute(&mut answer, 1, b"fairlink: no\0");
    assert_eq!(messages::said(&answer).unwrap(), "fairlink: no");
    assert_eq!(messages::said(&answer[..20]), None);
}

#[test]
fn a_queueing_discipline_is_read_from_where_the_module_writes_it() {
    let body = |kind: &[u8], broken: u32| {
        let numbers = [0u32, 3, 0x1_0000, u32::MAX, 0];
        let mut body: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        push_attribute(&mut body, 1, kind);
        nested(&mut body, 7, |body| {
            let basic: Vec<u8> = [7000u64.to_ne_bytes(), 7u64.to_ne_bytes()].concat();
            push_attribute(body, 1, &basic);
            let queue: Vec<u8> = [2u32, 2000, 3, 0, 0].iter().flat_map(|number| number.to_ne_bytes()).collect();
            push_attribute(body, 3, &queue);
            let mut app: Vec<u8> = [1u32, broken].iter().flat_map(|number| number.to_ne_bytes()).collect();
            app.extend([100_000_000u64, 23].iter().flat_map(|number| number.to_ne_bytes()));
            app.extend([4u32, 3].iter().flat_map(|number| number.to_ne_bytes()));
            app.extend(b"hls");
            app.resize(64, 0);
            app.extend(b"panicked");
            app.resize(192, 0);
            app.extend(9u64.to_ne_bytes());
            push_attribute(body, 4, &app);
        });
        body
    };
    let expected = QdiscState {
        major: 1,
        scheduler: "hls".to_owned(),
        broken: None,
        rate_bps: 100_000_000,
        default: Some(3),
        sent: Amount { packets: 7, bytes: 7000 },
        dropped: 3,
        queued: Amount { packets: 2, bytes: 2000 },
        super_frames: 9,
        classes: Vec::new(),
    };
    assert_eq!(messages::discipline(&body(b"fairlink\0", 0), 3), Some(expected.clone()));
    let broken = QdiscState { broken: Some("panicked".to_owned()), ..expected };
    assert_eq!(messages::discipline(&body(b"fairlink-broken\0", 1), 3), Some(broken));
    assert_eq!(messages::discipline(&body(b"htb\0", 0), 3), None);
    assert_eq!(messages::discipline(&body(b"fairlink\0", 0), 4), None, "of another interface");
    assert_eq!(messages::discipline(&body(b"fairlink\0", 0)[..200], 3), None);
}

/// The body of a message about a class, as the module writes it.
fn class_body(kind: &[u8]) -> Vec<u8> {
    let mut body: Vec<u8> = [0u32, 3, 0x1_0005, 0x1_0002, 0].iter().flat_map(|number| number.to_ne_bytes()).collect();
    push_attribute(&mut body, 1, kind);
    nested(&mut body, 7, |body| {
        let mut app: Vec<u8> = [1u32, 1].iter().flat_map(|number| number.to_ne_bytes()).collect();
        app.extend((10..22u64).flat_map(u64::to_ne_bytes));
        app.extend([2u32, 2].iter().flat_map(|number| number.to_ne_bytes()));
        app.extend(b"A1");
        app.resize(112 + 256, 0);
        push_attribute(body, 4, &app);
    });
    body
}

#[test]
fn a_class_is_read_from_where_the_module_writes_it() {
    let pair = |packets| Amount { packets, bytes: packets + 1 };
    let expected = QdiscClass {
        minor: 5,
        parent: 2,
        name: "A1".to_owned(),
        leaf: true,
        rate_bps: 10,
        received: pair(11),
        sent: pair(13),
        dropped: pair(15),
        marked: pair(17),
        queued: pair(19),
        lent_bytes: Some(21),
    };
    let body = class_body(b"fairlink\0");
    assert_eq!(messages::class(&body, 3, 1), Some(expected));
    assert_eq!(messages::class(&body, 4, 1), None, "of another interface");
    assert_eq!(messages::class(&body, 3, 2), None, "of another queueing discipline");
    assert_eq!(messages::class(&class_body(b"htb\0"), 3, 1), None);
    for len in 0..body.len() - 260 {
        assert_eq!(messages::class(&body[..len], 3, 1), None, "cut to {len}");
    }
}
