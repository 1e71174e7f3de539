//! The model beside the kernel's HTB on real packets.

use std::collections::BTreeMap;

use fairlink_core::{ClassConfig, Share};

use super::*;

/// Largest difference between a share of the model and of the kernel, as a part of the link: 0.015, but where ceilings
/// have buckets of a packet, with which the kernel's late timers cost turns.
const APART: f64 = 0.03;

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).unwrap()
}

/// Reads a row of `seen.txt` with all rates times `scale`: the tree, the length of packets, the busy leaves and their
/// shares.
fn read(row: &str, scale: u64) -> (Hierarchy, u32, Vec<ClassId>, Vec<f64>) {
    let (setup, shares) = row.split_once('=').unwrap();
    let mut words = setup.split_whitespace();
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (link, length) = (number() * scale, number() as u32);
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 1514, ..LinkConfig::new(rate(link)) });
    let (mut ids, mut busy) = (BTreeMap::from([(1, ClassId::ROOT)]), Vec::new());
    for class in words {
        let fields: Vec<u64> = class.split('/').map(|field| field.parse().unwrap()).collect();
        let [minor, parent, bps, ceil, quantum, burst, cburst, prio, sends] = fields[..] else { panic!("{class}") };
        let set = |value: u64| Some(value).filter(|&value| value > 0);
        let config = ClassConfig {
            share: Some(Share::Guarantee(rate(bps * scale))),
            ceiling: Some(rate(set(ceil).map_or(link, |ceil| ceil * scale))),
            quantum: set(quantum).map(|quantum| quantum as u32),
            burst: set(burst),
            ceiling_burst: set(cburst),
            priority: Some(prio as u8),
            ..ClassConfig::default()
        };
        let id = tree.add(ids[&parent], config).unwrap();
        ids.insert(minor, id);
        if sends == 1 {
            busy.push(id);
        }
    }
    let tree = tree.build().unwrap();
    busy.retain(|&class| tree.is_leaf(class));
    let shares = shares.split_whitespace().map_while(|share| share.parse().ok()).collect();
    (tree, length, busy, shares)
}

/// Shares of the busy leaves under the model.
fn shares(tree: &Hierarchy, length: u32, busy: &[ClassId]) -> Vec<f64> {
    let run = steady(tree, busy, length, [5_000, 200_000]).unwrap();
    let rates: Vec<f64> = busy.iter().map(|leaf| run.rates_bps[leaf.index()]).collect();
    let all: f64 = rates.iter().sum();
    rates.iter().map(|rate| rate / all).collect()
}

fn rows() -> impl Iterator<Item = &'static str> {
    include_str!("seen.txt").lines().filter(|row| !row.starts_with('#'))
}

/// The largest difference between two lists of shares.
fn apart(left: &[f64], right: &[f64]) -> f64 {
    assert_eq!(left.len(), right.len());
    left.iter().zip(right).map(|(left, right)| (left - right).abs()).fold(0.0, f64::max)
}

#[test]
fn shares_are_those_of_the_kernel_on_real_packets() {
    let mut largest = 0.0f64;
    for row in rows() {
        let (tree, length, busy, seen) = read(row, 1);
        let model = shares(&tree, length, &busy);
        let apart = apart(&model, &seen);
        assert!(apart <= APART, "{apart:.4}: {model:.4?}, {row}");
        largest = largest.max(apart);
    }
    println!("largest difference: {largest:.4}");
}

#[test]
fn from_8_kbit_to_10_gbit_per_second_shares_are_those_of_the_same_quanta() {
    // The real packets were of links of 0.2 to 300 Mbit/s. Small quanta and explicit buckets know no rates.
    let row = |quanta: [u32; 2]| {
        let leaf = |minor: u32, rate: u32, quantum: u32| format!("{minor}/1/{rate}/0/{quantum}/1600/1600/0/1");
        format!("160000 1514 {} {} = 0 0", leaf(2, 8_000, quanta[0]), leaf(3, 40_000, quanta[1]))
    };
    for quanta in [[200, 1000], [1000, 1514], [1000, 5000], [1514, 7570], [20_000, 100_000]] {
        let at = |scale: u64| {
            let (tree, length, busy, _) = read(&row(quanta), scale);
            shares(&tree, length, &busy)
        };
        let slow = at(1);
        for scale in [10, 1_000, 62_500] {
            let fast = at(scale);
            assert!(apart(&slow, &fast) < 0.002, "{quanta:?}: {slow:.4?}, {fast:.4?} at {scale} times the rate");
        }
        // A visit sends its quantum, and at least a packet.
        let visits = quanta.map(|quantum| f64::from(quantum.max(1514)));
        let lent = 0.7 * visits[0] / (visits[0] + visits[1]);
        assert!((slow[0] - 0.05 - lent).abs() < 0.01, "{quanta:?}: {slow:.4?}, {lent}");
    }
}
