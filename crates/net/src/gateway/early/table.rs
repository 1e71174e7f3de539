//! The table of flows, shared with the kernel: sets of [`WAYS`] words. A word has the flow's tag, its class, the second
//! in which it was seen last, and whether it was seen twice.

use std::sync::atomic::Ordering::Relaxed;

use fairlink_config::matching::ethernet::{IPV4, IPV6, be16};
use fairlink_config::matching::{TCP, UDP};
use fairlink_core::{ClassId, NANOS_PER_SEC, Nanos};

use super::{CLASSES, KEPT, Secret};
use crate::io::bpf::SharedWords;

/// Sets of the table, a power of two, and flows in each.
pub(super) const SETS: usize = 1 << 14;
pub(super) const WAYS: usize = 4;
/// The first bit of a set's number in the hash.
pub(super) const SET: u32 = u64::BITS - SETS.ilog2();

/// Words of a flow's key: addresses and type of Ethernet, headers of IP up to the ports, VLAN tag.
pub(super) const KEY: usize = 8;
/// Places in it, in bytes.
pub(super) const IP: usize = 16;
pub(super) const VLAN: usize = 60;
/// Bytes that are read of the frame: its first ones, and of either IP.
pub(super) const ETHERNET: usize = 14;
pub(super) const V4_BYTES: usize = 24;
pub(super) const V6_BYTES: usize = 44;
/// The first words of IP, as far as they are the same in all packets of a flow: version, code point, protocol, source
/// address.
pub(super) const V4_MASKS: [[u8; 8]; 2] = [[0xff, 0xfc, 0, 0, 0, 0, 0, 0], [0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]];
pub(super) const V6_MASK: [u8; 8] = [0xff, 0xc0, 0, 0, 0, 0, 0xff, 0];
/// More fragments, or an offset.
pub(super) const FRAGMENT: [u8; 2] = [0x3f, 0xff];
/// The protocol ICMPv6, without ports.
pub(super) const ICMP6: u8 = 58;

// A word: the tag from bit 32 on, the number of its counters from bit 16 on, seconds from bit 1 on, and seen twice.
pub(super) const TAG: u32 = 32;
pub(super) const CLASS: u32 = 16;
const TWICE: u64 = 1;
const SECONDS: u64 = 0x7fff;

/// Returns the key of the flow of the frame in `bytes`; `None` if it has none.
pub(super) fn key(bytes: &[u8]) -> Option<[u64; KEY]> {
    let mut key = [0; KEY * 8];
    key[..12].copy_from_slice(bytes.get(..12)?);
    let mut at = 12;
    // The kernel takes the first tag out.
    if let 0x8100 | 0x88a8 = be16(bytes, at)? {
        let protocol = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let tag = u32::from(be16(bytes, at + 2)?) | u32::from(protocol) << 16;
        key[VLAN..VLAN + 4].copy_from_slice(&tag.to_ne_bytes());
        at += 4;
    }
    key[12..14].copy_from_slice(bytes.get(at..at + 2)?);
    let kind = be16(bytes, at)?;
    let ip = bytes.get(at + 2..)?;
    let mask = |key: &mut [u8], masks: &[[u8; 8]]| {
        key[IP..].iter_mut().zip(masks.as_flattened()).for_each(|(byte, mask)| *byte &= mask);
    };
    match kind {
        IPV4 => {
            let header = ip.get(..V4_BYTES)?;
            if header[0] != 0x45 || header[6] & FRAGMENT[0] != 0 || header[7] & FRAGMENT[1] != 0 {
                return None;
            }
            key[IP..IP + V4_BYTES].copy_from_slice(header);
            mask(&mut key, &V4_MASKS);
            if !matches!(header[9], TCP | UDP) {
                key[IP + 20..IP + 24].fill(0);
            }
        }
        IPV6 => {
            let header = ip.get(..V6_BYTES)?;
            key[IP..IP + V6_BYTES].copy_from_slice(header);
            mask(&mut key, &[V6_MASK]);
            match header[6] {
                TCP | UDP => {}
                ICMP6 => key[IP + 40..IP + 44].fill(0),
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(std::array::from_fn(|word| u64::from_ne_bytes(std::array::from_fn(|byte| key[8 * word + byte]))))
}

/// Returns the set and the tag of the flow with this key. The tag is odd, so that no word of a flow is zero.
///
/// The sum is NH, the hash function of UMAC (Black, Halevi, Krawczyk, Krovetz and Rogaway, 1999): whatever two keys are,
/// their sums are the same for one in 2^32 secrets. That holds because a product of two halves loses no bit.
pub(super) fn place(key: &[u64; KEY], secret: &Secret) -> (usize, u32) {
    let mut sum = 0u64;
    for (word, key) in key.iter().enumerate() {
        let [a, b, c, d, e, f, g, h] = key.to_ne_bytes();
        let [first, second] = [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes);
        let first = first.wrapping_add(secret.halves[2 * word]);
        let second = second.wrapping_add(secret.halves[2 * word + 1]);
        sum = sum.wrapping_add(u64::from(first) * u64::from(second));
    }
    // Upper bits depend on all bits of the sum, and other sums give other results.
    let mixed = (sum ^ sum >> 32).wrapping_mul(secret.factor);
    ((mixed >> SET) as usize, (mixed >> 16) as u32 | 1)
}

/// See the module.
#[derive(Debug)]
pub(super) struct FlowTable {
    words: SharedWords,
    secret: Secret,
}

impl FlowTable {
    pub(super) fn new(words: SharedWords, secret: Secret) -> Self {
        Self { words, secret }
    }

    /// Notes that the frame in `bytes` belongs to the class with these counters. Returns true if its flow was there, and seen
    /// twice with this frame.
    #[inline]
    pub(super) fn saw(&mut self, now: Nanos, bytes: &[u8], counters: u16) -> bool {
        let Some(key) = key(bytes) else { return false };
        let (set, tag) = place(&key, &self.secret);
        let words = &self.words.words()[set * WAYS..(set + 1) * WAYS];
        let second = (now.0 / NANOS_PER_SEC) & SECONDS;
        let word = u64::from(tag) << TAG | u64::from(counters) << CLASS | second << 1;
        // The place to take: one that is empty, else that of a flow seen once, else of one that is silent.
        let mut free = (3, None);
        for place in words {
            let known = place.load(Relaxed);
            if (known >> TAG) as u32 == tag {
                if known != word | TWICE {
                    place.store(word | TWICE, Relaxed);
                }
                return true;
            }
            let age = second.wrapping_sub(known >> 1 & SECONDS) & SECONDS;
            let rank = match known {
                0 => 0,
                _ if known & TWICE == 0 => 1,
                _ if age > u64::from(KEPT) => 2,
                _ => continue,
            };
            if rank < free.0 {
                free = (rank, Some(place));
            }
        }
        if let Some(place) = free.1 {
            place.store(word, Relaxed);
        }
        false
    }

    /// Gives flows to the successors of their classes, with the counters of the half `half`. Those of classes without one
    /// become unknown.
    pub(super) fn exchange(&mut self, class_map: &[Option<ClassId>], half: usize) {
        for place in self.words.words() {
            let word = place.load(Relaxed);
            if word == 0 {
                continue;
            }
            let heir = class_map.get((word >> CLASS) as usize % CLASSES).copied().flatten();
            let moved = heir
                .filter(|heir| heir.index() < CLASSES)
                .map_or(0, |heir| word & !(0xffff << CLASS) | ((half * CLASSES + heir.index()) as u64) << CLASS);
            place.store(moved, Relaxed);
        }
    }
}
