//! The place of the IP header in a frame, behind VLAN tags and a PPPoE session.

use fairlink_config::matching::MAX_TAGS;
use fairlink_config::matching::ethernet::{self, IPV4, IPV6, PPP_IPV4, PPP_IPV6, PPPOE_SESSION, be16, is_vlan};

/// Where a frame's IP header begins, and its version.
pub(crate) fn ip_header(bytes: &[u8]) -> Option<(usize, u8)> {
    let (mut at, mut kind) = (ethernet::HEADER, be16(bytes, 12)?);
    for _ in 0..MAX_TAGS {
        if !is_vlan(kind) {
            break;
        }
        kind = be16(bytes, at + 2)?;
        at += 4;
    }
    if kind == PPPOE_SESSION {
        kind = match (be16(bytes, at)?, be16(bytes, at + 6)?) {
            (0x1100, PPP_IPV4) => IPV4,
            (0x1100, PPP_IPV6) => IPV6,
            _ => return None,
        };
        at += 8;
    }
    let version = match kind {
        IPV4 => 4,
        IPV6 => 6,
        _ => return None,
    };
    let header = bytes.get(at..)?;
    let whole = header.len() >= if version == 4 { 20 } else { 40 };
    (whole && header[0] >> 4 == version).then_some((at, version))
}
