//! What tells hosts apart that share a leaf: the key `per` of a class.

use crate::matching::FrameKey;

/// The part of a frame that says of which host it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKey {
    /// The source address of the IP packet.
    SourceIp,
    /// The destination address of the IP packet.
    DestinationIp,
    /// The source address of the Ethernet frame.
    SourceMac,
    /// The destination address of the Ethernet frame.
    DestinationMac,
}

impl HostKey {
    /// As a link file writes them.
    pub(crate) const WORDS: [(&str, Self); 4] = [
        ("src-ip", Self::SourceIp),
        ("dst-ip", Self::DestinationIp),
        ("src-mac", Self::SourceMac),
        ("dst-mac", Self::DestinationMac),
    ];

    /// The host of the Ethernet frame in `bytes`, of any content, whose key is `key`. All frames that do not say (no IP packet, a header
    /// cut short) are of one host.
    #[must_use]
    #[inline]
    pub fn of(self, key: &FrameKey, bytes: &[u8]) -> [u8; 16] {
        let mac = |from: usize| {
            let mut host = [0; 16];
            if let Some(address) = bytes.get(from..from + 6) {
                host[10..].copy_from_slice(address);
            }
            host
        };
        match self {
            // Without an IP packet, the key has zeros.
            Self::SourceIp => key.src,
            Self::DestinationIp => key.dst,
            Self::SourceMac => mac(6),
            Self::DestinationMac => mac(0),
        }
    }
}
