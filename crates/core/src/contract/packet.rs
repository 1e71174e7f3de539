//! The scheduler's view of a packet: a handle, a length and a class.

/// The index of a class in its [`Hierarchy`](crate::contract::Hierarchy): the root (the link) is 0, the others follow in
/// the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The link itself. It is never a leaf of a hierarchy that has classes, so no packet may name it.
    pub const ROOT: Self = Self(0);

    /// Returns the id as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// In a handle: the sender of the packet understands ECN (ECT, RFC 3168), so that the packet may be marked instead of
/// dropped.
pub const ECN_CAPABLE: u64 = 1 << 63;

/// Handle bits for a packet's flow: 31 bits of `flow`. `flow` should be a hash that strangers cannot predict, or any
/// value that is evenly spread in its lowest bits. FQ-CoDel keeps most flows of different bits apart.
#[must_use]
pub const fn flow_bits(flow: u32) -> u64 {
    ((flow & 0x7fff_ffff) as u64) << 32
}

/// Adds a packet's host to a handle, for leaves whose hosts share ([`ClassConfig::hosts`]). Keeps 15 bits of the flow
/// in `handle`. A leaf with fewer hosts uses `host` modulo their number.
///
/// [`ClassConfig::hosts`]: crate::contract::ClassConfig::hosts
#[must_use]
pub const fn with_host(handle: u64, host: u16) -> u64 {
    let host_bits = flow_bits((u16::MAX as u32) << HOST_SHIFT);
    handle & !host_bits | flow_bits((host as u32) << HOST_SHIFT)
}

/// Bits of the flow behind those of the host.
const HOST_SHIFT: u32 = 15;

/// One packet, 16 bytes. Not `Clone`: its holder must send it, queue it, or report it as dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet {
    /// The caller's name for the packet, such as an index into its frame pool, in the lower 32 bits. No scheduler reads
    /// those. Only active leaf queues read the upper 32 bits: [`flow_bits`] and [`ECN_CAPABLE`]. They may be zero.
    pub handle: u64,
    /// Length in bytes as accounted on the link (with the link layer's overhead if the caller adds one).
    pub len: u32,
    /// The leaf class that the packet belongs to.
    pub class: ClassId,
}

const _: () = assert!(size_of::<Packet>() == 16);

impl Packet {
    /// Placeholder in a slot that a packet will be written to.
    pub(crate) const BLANK: Self = Self { handle: 0, len: 0, class: ClassId::ROOT };
}

impl Packet {
    /// Returns the flow of the packet: the bits of the handle from [`flow_bits`].
    #[must_use]
    pub const fn flow(&self) -> u32 {
        flow_of(self.handle)
    }

    /// Returns true if it may be marked instead of dropped.
    #[must_use]
    pub const fn is_ecn_capable(&self) -> bool {
        self.handle & ECN_CAPABLE != 0
    }
}

pub(crate) const fn flow_of(handle: u64) -> u32 {
    ((handle & !ECN_CAPABLE) >> 32) as u32
}

pub(crate) const fn host_of(handle: u64) -> u16 {
    (flow_of(handle) >> HOST_SHIFT) as u16
}
