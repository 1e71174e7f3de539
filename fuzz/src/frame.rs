//! Frames of any content: reading never panics, and the classifier answers as the matches do, with and without the flow
//! cache. Prefixes of the input are tried as well: frames cut short at every place in their headers. Frames are marked with CE, and
//! checksums that the input's first bytes say were left unfinished are completed: nothing else of the frame changes.

use std::sync::{LazyLock, Mutex};

use fairlink_config::matching::{Match, frame_key};
use fairlink_core::ClassId;
use fairlink_net::{Classifier, complete_checksum, is_ecn_capable, mark_congestion};

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

/// Matches, and what they were compiled into.
type Compiled = (Vec<(ClassId, Match)>, Classifier);

fn compiled(count: usize) -> Compiled {
    let rules: Vec<_> =
        RULES[..count].iter().zip(1..).map(|(text, id)| (ClassId(id), Match::parse(text).unwrap())).collect();
    let classifier = Classifier::new(&rules, ClassId(99));
    (rules, classifier)
}

static CLASSIFIERS: LazyLock<Mutex<[Compiled; 2]>> = LazyLock::new(|| Mutex::new([compiled(4), compiled(RULES.len())]));

/// The one's complement sum of `bytes` in pairs and `more`.
fn sum(bytes: &[u8], more: u64) -> u64 {
    let pair = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&byte| u64::from(byte));
    let mut sum = bytes.chunks(2).map(pair).sum::<u64>() + more;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// Places at which two frames of the same length differ.
fn differences(before: &[u8], after: &[u8]) -> Vec<usize> {
    assert_eq!(before.len(), after.len());
    (0..before.len()).filter(|&at| before[at] != after[at]).collect()
}

/// A mark sets CE where it may, and changes nothing else but IPv4's checksum, which stays right where it was.
fn mark(frame: &[u8]) {
    let may = is_ecn_capable(frame);
    let mut marked = frame.to_vec();
    assert_eq!(mark_congestion(&mut marked), may);
    let places = differences(frame, &marked);
    assert!(may || places.is_empty());
    if let Some(&first) = places.first() {
        // The type of service and ten bytes on the checksum, or the traffic class alone.
        assert!(places.iter().all(|&at| at == first || (first + 9..first + 11).contains(&at)), "{places:?}");
        if places.len() > 1 {
            let header = first - 1..first - 1 + 20;
            let (before, after) = (sum(&frame[header.clone()], 0), sum(&marked[header], 0));
            assert_eq!(before % 0xffff, after % 0xffff, "the sum of the header is another");
        }
    }
    assert_eq!((frame_key(&marked).src, frame_key(&marked).dport), (frame_key(frame).src, frame_key(frame).dport));
    let again = marked.clone();
    assert_eq!(mark_congestion(&mut marked), may);
    assert_eq!(marked, again, "a second mark changed something");
}

/// A completed checksum is right, and nothing else is changed.
fn complete(frame: &[u8], start: u16, offset: u16) {
    let mut done = frame.to_vec();
    let (from, place) = (usize::from(start), usize::from(start) + usize::from(offset));
    let length = if offset == 8 { 4 } else { 2 };
    if !complete_checksum(&mut done, start, offset) {
        assert!(done == frame && place + length > frame.len());
        return;
    }
    let places = differences(frame, &done);
    assert!(places.iter().all(|at| (place..place + length).contains(at)), "{places:?}");
    if offset == 8 {
        // SCTP's is over a field of zeros, so it comes out the same again.
        let again = done.clone();
        assert!(complete_checksum(&mut done, start, offset));
        assert_eq!(done, again);
    } else if offset.is_multiple_of(2) {
        // With what was in its place, the pseudo-header's sum, the receiver's sum is all ones.
        let left = u64::from(u16::from_be_bytes([frame[place], frame[place + 1]]));
        assert_eq!(sum(&done[from..], left), 0xffff);
    }
}

/// Tries one input.
pub(crate) fn run(data: &[u8]) {
    if let Some((&[a, b], frame)) = data.split_first_chunk::<2>() {
        mark(frame);
        mark(data);
        for offset in [2, 6, 8, 16, u16::from(b)] {
            complete(frame, u16::from(a), offset);
        }
        complete(frame, u16::from_be_bytes([a, b]), 6);
    }

    let mut classifiers = CLASSIFIERS.lock().unwrap();
    for end in (0..data.len().min(128)).chain([data.len()]) {
        let key = frame_key(&data[..end]);
        for (rules, classifier) in classifiers.iter_mut() {
            let expected = rules.iter().find(|(_, rule)| rule.matches(&key)).map_or(ClassId(99), |&(class, _)| class);
            assert_eq!(classifier.classify(&key), expected, "{key:?}");
        }
    }
}
