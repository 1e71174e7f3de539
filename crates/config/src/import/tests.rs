//! Files of any bytes are read or refused.

use proptest::prelude::*;

use super::*;
use crate::problem::{Problems, SourceText};

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

/// Imports texts, each with its name. Anything that is wrong must be in a text.
pub(super) fn import(info: &ImportInfo, texts: &[(&str, &str)], options: &Options) -> Result<Imported, Problems> {
    let sources: Vec<_> = texts.iter().map(|&(name, text)| SourceText::new(name, text)).collect();
    info.read(&sources, options).map_err(|error| match error {
        ImportError::Text(problems) => problems,
        other => panic!("{other}"),
    })
}

/// A sound configuration: the import, its texts, the position of the one to damage, and an option.
type Sample = (&'static str, &'static [&'static str], usize, Option<(&'static str, &'static str)>);

/// At least one of each import.
const SAMPLES: &[Sample] = &[
    ("libreqos", &[DEVICES, NETWORK], 0, None),
    ("libreqos", &[DEVICES, NETWORK], 1, None),
    ("mikrotik", &[EXPORT], 0, Some(("queues", "tree"))),
    ("mikrotik", &[EXPORT], 0, Some(("queues", "simple"))),
    ("tc", &[SHOWN], 0, None),
    ("k8s", &[PODS], 0, Some(("rate", "1gbit"))),
    ("k8s", &[YAML], 0, Some(("rate", "1gbit"))),
    ("pf", &[PF], 0, None),
    ("libvirt", &[XML], 0, Some(("rate", "1mbit"))),
];

/// Reads a sample with this text in place of its own.
fn read(&(name, texts, at, option): &Sample, text: &str) -> Result<Imported, Problems> {
    let mut texts: Vec<(&str, &str)> = texts.iter().map(|&text| ("a.txt", text)).collect();
    texts[at].1 = text;
    let options = option.map_or_else(Options::default, |(key, value)| Options::default().with(key, value));
    import(find(name).unwrap(), &texts, &options)
}

/// Checks that an import gives a link file, or an error with a message.
fn read_or_refused(sample: &Sample, text: &str) {
    match read(sample, text) {
        Ok(imported) => assert!(!imported.links.is_empty()),
        Err(errors) => assert!(errors.lines().contains("error: "), "{}", errors.lines()),
    }
}

#[test]
fn the_texts_that_are_damaged_below_are_sound() {
    for sample in SAMPLES {
        let made = read(sample, sample.1[sample.2]);
        assert!(made.is_ok(), "{}", made.unwrap_err().lines());
    }
    assert!(IMPORTS.iter().all(|info| SAMPLES.iter().any(|(name, ..)| *name == info.name)), "an import has no sample");
}

#[test]
fn names_keys_and_words_of_the_table_are_plain_and_occur_once() {
    let unique = |mut all: Vec<&str>| {
        let plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || b"-0123456789".contains(&byte));
        assert!(all.iter().all(plain), "{all:?}");
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{all:?}");
    };
    unique(IMPORTS.iter().map(|info| info.name).collect());
    for info in IMPORTS {
        // A file that may be absent is an option of the command.
        unique(info.options.iter().map(|option| option.key).chain(info.files.iter().map(|file| file.key)).collect());
        let (last, others) = info.files.split_last().expect("a file");
        assert_ne!(info.files[0].number, Number::Optional, "{}", info.name);
        assert!(others.iter().all(|file| file.number != Number::Many), "{}", info.name);
        assert!(
            last.number != Number::Optional || others.iter().all(|file| file.number == Number::One),
            "{}",
            info.name
        );
        for help in info.options.iter().map(|option| option.help).chain(info.files.iter().map(|file| file.help)) {
            assert!(!help.is_empty() && !help.ends_with('.'), "{}: {help}", info.name);
        }
        for option in info.options {
            let OptionKind::Choice(words) = option.kind else { continue };
            unique(words.iter().map(|(word, _)| *word).collect());
            assert!(option.default.is_none_or(|default| words.iter().any(|(word, _)| *word == default)));
        }
        assert!(info.without.iter().all(|(key, _)| info.option(key).is_none()), "{}", info.name);
    }
}

/// Each first file, and each file that ships, is recognised as what it is; link files and others as nothing.
#[test]
fn a_text_says_of_which_tool_it_is() {
    for &(name, texts, ..) in SAMPLES {
        assert_eq!(recognise(texts[0]).map(|info| info.name), Some(name), "{}", texts[0]);
    }
    let scenarios = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let text = |file: &str| std::fs::read_to_string(scenarios.join(file)).unwrap();
    for (file, name) in [
        ("import/ShapedDevices.csv", Some("libreqos")),
        ("import/network.json", None),
        ("import/eth0.show", Some("tc")),
        ("htb/htb.tc", Some("tc")),
        ("htb/cbq.tc", Some("tc")),
        ("import/export.rsc", Some("mikrotik")),
        ("import/pods.json", Some("k8s")),
        ("import/machine.xml", Some("libvirt")),
        ("import/network.xml", Some("libvirt")),
        ("import/pf.conf", Some("pf")),
        ("fig1.toml", None),
        ("provider.toml", None),
    ] {
        assert_eq!(recognise(&text(file)).map(|info| info.name), name, "{file}");
    }
}

#[test]
fn a_file_of_another_tool_is_refused_with_the_import_that_reads_it() {
    for info in IMPORTS {
        for other in SAMPLES.iter().filter(|(name, ..)| *name != info.name) {
            let options = match info.option("rate").is_some_and(|option| option.required) {
                true => Options::default().with("rate", "1gbit"),
                false => Options::default(),
            };
            let refused = import(info, &[("a.txt", other.1[0])], &options).expect_err("it is of another tool");
            let first = &refused.all()[0];
            assert!(first.to_string().starts_with("this looks like a file of "), "{}: {}", info.name, refused.lines());
            assert_eq!(first.kind().help(), Some(format!("import it as {}", other.0)));
        }
    }
}

/// Every option of every import is read, and refused by all others and with a value that it does not have.
#[test]
fn options_are_those_of_the_table_and_others_are_refused_with_what_there_is() {
    let refused = |info: &ImportInfo, options: &Options| match info.read(&[SourceText::new("a.txt", "")], options) {
        Err(ImportError::Argument { name, message }) => format!("{name}: {message}"),
        Err(ImportError::Text(problems)) => problems.lines(),
        Ok(_) => panic!("an empty text was imported"),
    };
    let rate = |info: &ImportInfo| match info.option("rate") {
        Some(option) if option.required => Options::default().with("rate", "1gbit"),
        _ => Options::default(),
    };
    for info in IMPORTS {
        for option in info.options {
            let (good, bad) = match option.kind {
                OptionKind::Rate => ("10mbit", Some("fast")),
                OptionKind::Name => ("eth0", None),
                OptionKind::Choice(words) => (words[words.len() - 1].0, Some("sideways")),
                OptionKind::Flag => ("true", Some("yes")),
            };
            let said = refused(info, &rate(info).with(option.key, good));
            assert!(said.starts_with("a.txt"), "{} {}: {said}", info.name, option.key);
            if let Some(bad) = bad {
                let said = refused(info, &rate(info).with(option.key, bad));
                let expected = format!("{}: ", option.key);
                assert!(said.starts_with(&expected) && said.contains(bad), "{} {}: {said}", info.name, option.key);
            }
            for other in IMPORTS.iter().filter(|other| other.option(option.key).is_none()) {
                let said = refused(other, &rate(other).with(option.key, good));
                let expected = format!("{}: {} has no such option", option.key, other.name);
                assert!(said.starts_with(&expected), "{said}");
            }
        }
    }
    let said = |name: &str, options: Options| refused(find(name).unwrap(), &options);
    assert_eq!(
        said("tc", Options::default().with("weights", "equal")),
        "weights: tc has no such option; it has rate, dev, as-is"
    );
    let why = "pods are limited one by one, and there is no lending to keep";
    assert_eq!(said("k8s", Options::default().with("as-is", true)), format!("as-is: k8s has no such option: {why}"));
    assert_eq!(said("k8s", Options::default()), "rate: k8s needs it: Rate of the node's link");
    assert_eq!(
        said("mikrotik", Options::default().with("queues", "all")),
        "queues: \"all\" is not one of tree, simple"
    );
    let known = find("cake").unwrap_err().to_string();
    assert!(known.starts_with("tool: \"cake\" is not one of libreqos, tc, mikrotik, k8s, libvirt, pf"), "{known}");
}

#[test]
fn an_import_takes_as_many_texts_as_it_has_files() {
    for (name, count, texts) in [
        ("tc", 0, "one text"),
        ("tc", 2, "one text"),
        ("libreqos", 0, "one or two texts"),
        ("libreqos", 3, "one or two texts"),
        ("libvirt", 0, "at least one text"),
    ] {
        let sources = vec![SourceText::new("a.txt", ""); count];
        let refused = find(name).unwrap().read(&sources, &Options::default()).expect_err("another number is needed");
        assert_eq!(refused.to_string(), format!("sources: {count} of them, and {name} takes {texts}"));
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
        for sample in SAMPLES {
            read_or_refused(sample, &text);
        }
    }

    #[test]
    fn a_damaged_text_is_imported_or_refused(
        sample in 0..SAMPLES.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..6usize, "[ -~\\n\\\\\"{}\\[\\]/,=ü]{0,4}"), 1..4),
    ) {
        let sample = &SAMPLES[sample];
        let mut text: Vec<char> = sample.1[sample.2].chars().collect();
        for (at, removed, put_in) in cuts {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = (at + removed).min(text.len());
            text.splice(at..end, put_in.chars());
        }
        read_or_refused(sample, &text.into_iter().collect::<String>());
    }
}
