//! Identification of the hosts that share a leaf: the key `per` of a class.

use fairlink_core::HostKey;

use crate::matching::{FrameKey, IpVersion};

/// Returns the host of the Ethernet frame in `bytes`, which may have any content, with the key `key`. All frames
/// without the field (no IP packet, truncated header) count as one host.
#[must_use]
#[inline]
pub fn host_of(by: HostKey, key: &FrameKey, bytes: &[u8]) -> [u8; 16] {
    let mac = |from: usize| {
        let mut host = [0; 16];
        if let Some(address) = bytes.get(from..from + 6) {
            host[10..].copy_from_slice(address);
        }
        host
    };
    match by {
        // Without an IP packet, the key has zeros.
        HostKey::SourceIp => key.src,
        HostKey::DestinationIp => key.dst,
        HostKey::SourceMac => mac(6),
        HostKey::DestinationMac => mac(0),
        HostKey::Flow => flow(key),
    }
}

/// Returns a flow in 16 bytes: addresses, protocol and ports of IPv4 unchanged; for IPv6, whose addresses alone are
/// longer, a digest. Two flows with the same digest share a slot.
fn flow(key: &FrameKey) -> [u8; 16] {
    let (sport, dport) = (key.sport.unwrap_or(0), key.dport.unwrap_or(0));
    if key.version != Some(IpVersion::V6) {
        let mut host = [0; 16];
        host[..4].copy_from_slice(&key.src[12..]);
        host[4..8].copy_from_slice(&key.dst[12..]);
        host[8..10].copy_from_slice(&sport.to_be_bytes());
        host[10..12].copy_from_slice(&dport.to_be_bytes());
        host[12] = key.proto;
        return host;
    }
    // The prime of FNV-1a for 128 bits.
    const PRIME: u128 = (1 << 88) + 0x13b;
    let ports = u128::from(sport) << 32 | u128::from(dport) << 16 | u128::from(key.proto);
    [u128::from_be_bytes(key.src), u128::from_be_bytes(key.dst), ports]
        .into_iter()
        .fold(PRIME, |digest, part| (digest ^ part).wrapping_mul(PRIME).rotate_left(41))
        .to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_differ_by_each_part_of_them_and_by_nothing_else() {
        for version in [IpVersion::V4, IpVersion::V6] {
            let mut key = FrameKey {
                version: Some(version),
                proto: 17,
                sport: Some(5000),
                dport: Some(7000),
                ..FrameKey::default()
            };
            (key.src[15], key.dst[15]) = (1, 2);
            let others = [
                FrameKey { src: key.dst, ..key },
                FrameKey { dst: key.src, ..key },
                FrameKey { proto: 6, ..key },
                FrameKey { sport: Some(5001), ..key },
                FrameKey { dport: Some(5000), sport: Some(7000), ..key },
            ];
            let of = |key: &FrameKey| host_of(HostKey::Flow, key, &[]);
            assert!(others.iter().all(|other| of(other) != of(&key)), "{version:?}");
            assert_eq!(of(&FrameKey { dscp: 46, vlan: Some(7), ..key }), of(&key), "{version:?}");
        }
    }
}
