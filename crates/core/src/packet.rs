//! What a scheduler sees of a packet: a handle, a length and a class.

/// The index of a class in its [`Hierarchy`](crate::hierarchy::Hierarchy): the root (the link) is 0, the others follow in
/// the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The link itself. It is never a leaf of a hierarchy that has classes, so no packet may name it.
    pub const ROOT: Self = Self(0);

    /// The id as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One packet, 16 bytes. Not `Clone`: who holds it has to send it, queue it, or report it dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet {
    /// The caller's name for the packet, such as an index into its frame pool. Never looked at by a scheduler.
    pub handle: u64,
    /// Length in bytes as accounted on the link (with the link layer's overhead where the caller adds one).
    pub len: u32,
    /// The leaf class that the packet belongs to.
    pub class: ClassId,
}

const _: () = assert!(size_of::<Packet>() == 16);
