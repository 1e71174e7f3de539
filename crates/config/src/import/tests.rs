//! Files of any bytes are read or refused.

use fairlink_core::Rate;
use proptest::prelude::*;

use super::*;
use crate::problem::Problems;

const DEVICES: &str = "Circuit ID,Circuit Name,Parent Node,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment,sqm\n\
    1,\"a, b\",AP,\"10.0.0.1, 10.0.0.2/31\",2001:db8::/56,1,1,5.5,2,,cake/\n2,c,AP,10.0.0.0/24,,1,1,5,2,x, y,none\n";
const NETWORK: &str = "{\"S\": {\"downloadBandwidthMbps\": 9, \"uploadBandwidthMbps\": 9, \"children\": {\"AP\": {\"virtual\": true, \"children\": {}}}}}";
const EXPORT: &str = "/ip firewall mangle\nadd action=mark-packet chain=forward new-packet-mark=m protocol=udp dst-port=5,7-9\n/queue tree\n\
    add name=a parent=wan max-limit=10M\nadd name=\"b c\" parent=a limit-at=1M max-li\\\n    mit=2M packet-mark=m priority=2\n/queue simple add name=s target=10.0.0.1/32 max-limit=1M/2M\n";
const SHOWN: &str = "qdisc htb 1: dev e root r2q 10 default 0x2\nclass htb 1:2 dev e root prio 1 rate 1Mbit ceil 2Mbit burst 15k\n\
    filter dev e parent 1: protocol ipv6 pref 1 u32 chain 0 flowid 1:2\n  match 20010db8/ffffffff at 24\n\
    [{\"kind\":\"pfifo\",\"handle\":\"2:\",\"parent\":\"1:2\",\"options\":{\"limit\":5}}]\n";
const PODS: &str = r#"{"kind": "List", "items": [{"metadata": {"name": "a", "annotations": {"kubernetes.io/ingress-bandwidth": "1M"}}, "status": {"podIP": "10.0.0.1"}}]}"#;
const YAML: &str = "kind: Pod\nmetadata:\n  name: &n a\n  annotations: {kubernetes.io/ingress-bandwidth: 1M}\n---\nkind: Deployment\nmetadata: {name: b}\nspec:\n  replicas: 2\n  \
    template:\n    metadata:\n      annotations: {kubernetes.io/egress-bandwidth: \"2M\"}\n";
const XML: &str = "<domain><name>a</name><devices><interface><mac address='52:54:0:0:0:1'/><ip address='10.0.0.1'/><bandwidth><inbound average='10' floor='5'/></bandwidth></interface></devices></domain>";

const PF: &str = "ports = \"{ 80, 8000:8010 }\"\naltq on em0 hfsc bandwidth 10Mb queue { a, b }\nqueue a bandwidth 20% hfsc(realtime (2Mb 10 1Mb)) { c }\nqueue c hfsc\nqueue b \\\n bandwidth 5Mb hfsc(default)\n\
    pass out quick on em0 inet proto { tcp, udp } from 10.0.0.0/8 to any port $ports flags S/SA keep state (tcp.established 5) queue (c, b)\n";

type Read = fn(&str) -> Result<Imported, Problems>;

/// Each reader with a text of its kind.
fn readers() -> Vec<(&'static str, Read)> {
    vec![
        (DEVICES, |text| libreqos::import(("a.csv", text), Some(("n.json", NETWORK)), &libreqos::Options::default())),
        (NETWORK, |text| libreqos::import(("a.csv", DEVICES), Some(("n.json", text)), &libreqos::Options::default())),
        (EXPORT, |text| {
            mikrotik::import(
                "a.rsc",
                text,
                &mikrotik::Options { queues: Some(mikrotik::Queues::Tree), ..Default::default() },
            )
        }),
        (EXPORT, |text| {
            mikrotik::import(
                "a.rsc",
                text,
                &mikrotik::Options { queues: Some(mikrotik::Queues::Simple), as_is: true, ..Default::default() },
            )
        }),
        (SHOWN, |text| tc::import("a.tc", text, &tc::Options::default())),
        (PODS, |text| {
            k8s::import("a.json", text, &k8s::Options { rate: Rate::MAX, node: None, directions: Vec::new() })
        }),
        (YAML, |text| {
            k8s::import("a.yaml", text, &k8s::Options { rate: Rate::MAX, node: None, directions: Vec::new() })
        }),
        (PF, |text| pf::import("pf.conf", text, &pf::Options::default())),
        (XML, |text| {
            libvirt::import(
                &[("a.xml", text)],
                &libvirt::Options { rate: Rate::from_bps(1_000_000).ok(), ..Default::default() },
            )
        }),
    ]
}

/// Checks that an import gives a link file, or an error with a message.
fn read_or_refused(read: Read, text: &str) {
    match read(text) {
        Ok(imported) => assert!(!imported.links.is_empty()),
        Err(errors) => assert!(errors.lines().contains("error: "), "{}", errors.lines()),
    }
}

#[test]
fn the_texts_that_are_damaged_below_are_sound() {
    for (text, read) in readers() {
        assert!(read(text).is_ok(), "{}", read(text).unwrap_err().lines());
    }
}

#[test]
fn names_of_files_are_in_no_other_directory_and_never_empty() {
    for (name, stem) in [("eth0.5", "eth0_5"), ("../a b", "___a_b"), ("wg-0@x_", "wg-0@x_"), ("", "link"), ("ü", "_")]
    {
        assert_eq!(file_stem(name), stem);
    }
    assert_eq!(file_stem(&"a".repeat(100)).len(), 60);
}

/// An imported link has a class for every frame.
#[test]
fn a_link_without_a_default_class_is_no_import() {
    let draft = |default: &str| Draft {
        name: "wan".to_owned(),
        text: format!("[link]\nrate = \"1mbit\"\n{default}[[class]]\nname = \"a\"\nmatch = [\"udp\"]\n"),
        tabled: None,
        before: None,
        idle: Vec::new(),
    };
    let refused = sound(vec![draft("")], Vec::new(), Vec::new()).expect_err("frames have no class").lines();
    assert!(refused.starts_with("wan as imported"), "{refused}");
    assert_eq!(sound(vec![draft("default = \"a\"\n")], Vec::new(), Vec::new()).unwrap().links.len(), 1);
}

proptest! {
    #[test]
    fn any_text_is_imported_or_refused(text in "(?s).{0,200}") {
        for (_, read) in readers() {
            read_or_refused(read, &text);
        }
    }

    #[test]
    fn a_damaged_text_is_imported_or_refused(
        reader in 0..9usize,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..6usize, "[ -~\\n\\\\\"{}\\[\\]/,=ü]{0,4}"), 1..4),
    ) {
        let (text, read) = readers().swap_remove(reader);
        let mut text: Vec<char> = text.chars().collect();
        for (at, removed, put_in) in cuts {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = (at + removed).min(text.len());
            text.splice(at..end, put_in.chars());
        }
        read_or_refused(read, &text.into_iter().collect::<String>());
    }
}
