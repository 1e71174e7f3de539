//! Frames of any content: reading never panics, and the classifier answers as the matches do, with and without the flow
//! cache. Prefixes of the input are tried as well: frames cut short at every place in their headers.
#![no_main]

use std::sync::{LazyLock, Mutex};

use fairlink_config::matching::Match;
use fairlink_core::ClassId;
use fairlink_net::{Classifier, frame_key};
use libfuzzer_sys::fuzz_target;

const RULES: [&str; 12] = [
    "udp dst port 5001",
    "dscp ef",
    "tcp dst port 80-443",
    "vlan 5",
    "inner vlan 6",
    "ip6 src net 2001:db8::/32",
    "src net 10.1.0.0/16",
    "dst net 10.0.0.0/8 udp",
    "udp dst port 5000-6000",
    "tcp src port 1000-2000",
    "icmp",
    "ip6",
];

fn compiled(count: usize) -> (Vec<(ClassId, Match)>, Classifier) {
    let rules: Vec<_> =
        RULES[..count].iter().zip(1..).map(|(text, id)| (ClassId(id), Match::parse(text).unwrap())).collect();
    let classifier = Classifier::new(&rules, ClassId(99));
    (rules, classifier)
}

static CLASSIFIERS: LazyLock<Mutex<[(Vec<(ClassId, Match)>, Classifier); 2]>> =
    LazyLock::new(|| Mutex::new([compiled(4), compiled(RULES.len())]));

fuzz_target!(|data: &[u8]| {
    let mut classifiers = CLASSIFIERS.lock().unwrap();
    for end in (0..data.len().min(128)).chain([data.len()]) {
        let key = frame_key(&data[..end]);
        for (rules, classifier) in classifiers.iter_mut() {
            let expected = rules.iter().find(|(_, rule)| rule.matches(&key)).map_or(ClassId(99), |&(class, _)| class);
            assert_eq!(classifier.classify(&key), expected, "{key:?}");
        }
    }
});
