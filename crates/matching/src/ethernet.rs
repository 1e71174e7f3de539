//! Numbers of Ethernet, and the walk over VLAN tags, that reading, marking and writing frames share.

/// Length of a header in bytes: two addresses and a type. An interface's mtu leaves it out.
pub const HEADER: usize = 14;
/// Length of a VLAN tag in bytes. An interface's mtu leaves it out too.
pub const VLAN_TAG: usize = 4;

// Types.
/// A tag of 802.1Q.
pub const VLAN: u16 = 0x8100;
/// A tag of 802.1ad.
pub const PROVIDER_VLAN: u16 = 0x88a8;
/// EtherType of outer tags before 802.1ad.
pub const OLD_PROVIDER_VLAN: u16 = 0x9100;
/// IPv4.
pub const IPV4: u16 = 0x0800;
/// IPv6.
pub const IPV6: u16 = 0x86dd;
/// A session of PPPoE.
pub const PPPOE_SESSION: u16 = 0x8864;

// Protocols of PPP.
/// IPv4 in a session of PPPoE.
pub const PPP_IPV4: u16 = 0x0021;
/// IPv6 in a session of PPPoE.
pub const PPP_IPV6: u16 = 0x0057;

/// Returns true if a frame of this type continues with a VLAN tag.
pub const fn is_vlan(kind: u16) -> bool {
    matches!(kind, VLAN | PROVIDER_VLAN | OLD_PROVIDER_VLAN)
}

/// Most VLAN tags walked over.
const MAX_TAGS: usize = 4;

/// Returns the type and the offset of a frame's payload, after at most four VLAN tags. `tag` is called with the VLAN id
/// of each tag. `None` if the frame ends before its payload, or has more tags.
#[inline]
pub fn payload(bytes: &[u8], mut tag: impl FnMut(u16)) -> Option<(u16, usize)> {
    let (mut kind, mut at) = (be16(bytes, 12)?, HEADER);
    for _ in 0..MAX_TAGS {
        if !is_vlan(kind) {
            return Some((kind, at));
        }
        let vlan = be16(bytes, at)?;
        kind = be16(bytes, at + 2)?;
        tag(vlan & 0xfff);
        at += VLAN_TAG;
    }
    (!is_vlan(kind)).then_some((kind, at))
}

/// The number in network byte order at byte `at`, if the frame is long enough.
#[inline]
pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
