//! What tells hosts apart that share a leaf: the key `per` of a class.

use fairlink_core::HostKey;

use crate::matching::FrameKey;

/// As a link file writes them.
pub(crate) const WORDS: [(&str, HostKey); 4] = [
    ("src-ip", HostKey::SourceIp),
    ("dst-ip", HostKey::DestinationIp),
    ("src-mac", HostKey::SourceMac),
    ("dst-mac", HostKey::DestinationMac),
];

/// The host of the Ethernet frame in `bytes`, of any content, whose key is `key`. All frames that do not say (no IP packet, a header
/// cut short) are of one host.
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
    }
}
