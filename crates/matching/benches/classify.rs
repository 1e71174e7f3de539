//! Nanoseconds of finding a frame's class, as a Markdown table: rules of several kinds and numbers, for frames of flows
//! that were seen before and for frames of flows that never were.
//!
//! ```text
//! cargo bench -p fairlink-matching --bench classify              # 8 to 65,536 rules
//! cargo bench -p fairlink-matching --bench classify -- 8 1024
//! ```
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use fairlink_core::ClassId;
use fairlink_matching::{Classifier, FrameKey, IpVersion, Match, PortRange, Prefix, TCP, UDP, v4_mapped};

/// Runs per figure; the figure is their median ...
const RUNS: usize = 7;
/// ... and frames per run.
const FRAMES: u32 = 20_000;
/// Flows that come again and again.
const FLOWS: u32 = 1000;

/// Makes the `n`th rule of a list.
type Rule = fn(u32) -> Match;

/// Numbers that look random, one for each `n`.
fn mixed(n: u32) -> u32 {
    let n = (n ^ n >> 16).wrapping_mul(0x7feb_352d);
    let n = (n ^ n >> 15).wrapping_mul(0x846c_a68b);
    n ^ n >> 16
}

/// The `n`th rule of a list of source prefixes of 16 to 31 bits, none of which is met by most frames.
fn prefix(n: u32) -> Match {
    let src = Prefix::v4(Ipv4Addr::from(0x0a00_0000 | mixed(n) >> 8), 16 + (mixed(!n) % 16) as u8);
    Match { version: Some(IpVersion::V4), src: Some(src), ..Match::ANY }
}

/// The `n`th of a list of rules on protocol, both addresses and a destination port.
fn flow_rule(n: u32) -> Match {
    let host = |n: u32| Some(Prefix::v4(Ipv4Addr::from(0x0a00_0000 | mixed(n) >> 8), 32));
    let port = (mixed(n) % 60_000) as u16;
    Match {
        version: Some(IpVersion::V4),
        proto: Some(if n.is_multiple_of(2) { TCP } else { UDP }),
        src: host(n),
        dst: host(!n),
        dport: Some(PortRange { first: port, last: port }),
        ..Match::ANY
    }
}

/// The `n`th destination port.
fn port(n: u32) -> Match {
    let port = n as u16;
    Match { proto: Some(UDP), dport: Some(PortRange { first: port, last: port }), ..Match::ANY }
}

/// A frame of the `n`th flow.
fn frame(n: u32) -> FrameKey {
    FrameKey {
        version: Some(IpVersion::V4),
        proto: UDP,
        src: v4_mapped((0x0a00_0000 | mixed(n) >> 8).to_be_bytes()),
        dst: v4_mapped((0x0a00_0000 | mixed(!n) >> 8).to_be_bytes()),
        sport: Some(mixed(n + 7) as u16),
        dport: Some(mixed(n + 9) as u16),
        ..FrameKey::default()
    }
}

/// Nanoseconds of a frame, the median; frames of flows that come again, or of new ones.
fn measure(classifier: &mut Classifier, again: bool) -> f64 {
    let mut next = FLOWS;
    let mut figures: Vec<f64> = (0..=RUNS)
        .map(|_| {
            let frames: Vec<FrameKey> = (0..FRAMES)
                .map(|n| {
                    next = next.wrapping_add(1);
                    frame(if again { mixed(n) % FLOWS } else { next })
                })
                .collect();
            let start = Instant::now();
            for key in &frames {
                black_box(classifier.classify(black_box(key)));
            }
            start.elapsed().as_nanos() as f64 / f64::from(FRAMES)
        })
        .collect();
    // The first run fills the cache.
    figures.remove(0);
    figures.sort_by(f64::total_cmp);
    figures[RUNS / 2]
}

fn main() {
    let asked: Vec<u32> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let counts = if asked.is_empty() { vec![8, 64, 1024, 8192, 65_536] } else { asked };
    println!("| rules | number | flows seen before | new flows |");
    println!("| --- | --- | --- | --- |");
    let kinds: [(&str, Rule); 3] =
        [("destination ports", port), ("source prefixes", prefix), ("addresses, protocol, port", flow_rule)];
    for (name, rule) in kinds {
        for &count in &counts {
            let rules: Vec<_> = (0..count).map(|n| (ClassId(n + 1), rule(n))).collect();
            let mut classifier = Classifier::new(&rules, ClassId(0));
            let (again, new) = (measure(&mut classifier, true), measure(&mut classifier, false));
            println!("| {name} | {count} | {again:.0} ns | {new:.0} ns |");
        }
    }
}
