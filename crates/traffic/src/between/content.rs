//! The identity of a packet on both sides of a device.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::Fault;
use super::reader::Captured;

/// EtherTypes.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const PPPOE_SESSION: u16 = 0x8864;
const VLANS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Most VLAN tags passed over.
const MAX_TAGS: usize = 8;

/// Maps packets to 128 bits that identify their contents: two hashes with random keys, so that no file can contain
/// deliberate collisions.
#[derive(Debug)]
pub(super) struct Content {
    keys: [RandomState; 2],
    bytes: Option<u32>,
}

impl Content {
    /// Compares `bytes` bytes of each packet; all if absent.
    pub(super) fn new(bytes: Option<u32>) -> Self {
        Self { keys: [RandomState::new(), RandomState::new()], bytes }
    }

    /// Returns the identity of packet `number` of a recording.
    pub(super) fn of(&self, packet: &Captured, number: u64) -> Result<u128, Fault> {
        let (kind, from) = if packet.bare_ip { (version(&packet.bytes), 0) } else { network(&packet.bytes) };
        let kept = packet.bytes.get(from..).unwrap_or_default();
        // Without padding, and without bytes that only a broken header claims.
        let carried = (packet.len as usize).max(packet.bytes.len()).saturating_sub(from);
        let whole = packet_length(kind, kept).unwrap_or(carried).min(carried);
        let len = self.bytes.map_or(whole, |bytes| whole.min(bytes as usize));
        let Some(compared) = kept.get(..len) else {
            return Err(Fault::Cut { packet: number, kept: kept.len(), len });
        };
        // A length on the wire beyond the compared bytes distinguishes packets with the same start.
        let [one, other] = self.keys.each_ref().map(|key| {
            let mut hasher = key.build_hasher();
            hasher.write_u16(kind);
            hasher.write_usize(whole);
            hash(&mut hasher, kind, compared);
            hasher.finish()
        });
        Ok(u128::from(one) << 64 | u128::from(other))
    }
}

/// Hashes all that routers leave alone.
fn hash(hasher: &mut impl Hasher, kind: u16, bytes: &[u8]) {
    let mut start = [0; 40];
    let head = match kind {
        IPV4 => bytes.len().min(20),
        IPV6 => bytes.len().min(40),
        _ => 0,
    };
    let (first, rest) = bytes.split_at(head);
    start[..head].copy_from_slice(first);
    match kind {
        // DSCP and ECN, TTL, checksum.
        IPV4 => [1, 8, 10, 11].into_iter().for_each(|at| start[at] = 0),
        // Traffic class, hop limit.
        IPV6 => {
            start[0] &= 0xf0;
            start[1] &= 0x0f;
            start[7] = 0;
        }
        _ => {}
    }
    hasher.write(&start[..head]);
    hasher.write(rest);
}

/// Length field of the IP packet that begins with these bytes; `None` if there is none.
fn packet_length(kind: u16, bytes: &[u8]) -> Option<usize> {
    let be16 = |at: usize| Some(usize::from(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?])));
    // Segments that hardware will cut have no length if it would not fit.
    match kind {
        IPV4 => be16(2).filter(|&length| length >= 20),
        IPV6 => be16(4).filter(|&length| length > 0).map(|length| length + 40),
        _ => None,
    }
}

/// Returns the EtherType of a bare IP packet.
fn version(bytes: &[u8]) -> u16 {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => IPV4,
        Some(6) => IPV6,
        _ => 0,
    }
}

/// Returns EtherType and offset of an Ethernet frame's payload, behind VLAN tags and a PPPoE session. For a frame that
/// is cut off before, returns the innermost known ones.
fn network(bytes: &[u8]) -> (u16, usize) {
    let be16 = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (mut kind, mut at) = (be16(12).unwrap_or(0), 14);
    for _ in 0..MAX_TAGS {
        let Some(next) = be16(at + 2).filter(|_| VLANS.contains(&kind)) else { break };
        (kind, at) = (next, at + 4);
    }
    match (kind, be16(at + 6)) {
        (PPPOE_SESSION, Some(0x0021)) => (IPV4, at + 8),
        (PPPOE_SESSION, Some(0x0057)) => (IPV6, at + 8),
        _ => (kind, at),
    }
}
