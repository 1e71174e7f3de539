//! Defaults of tc and the kernel.

/// Default of HTB's `r2q`: a class's quantum is its rate in bytes per second divided by it.
pub(crate) const R2Q: u64 = 10;
/// Smallest quantum that the kernel chooses itself, in bytes.
pub(crate) const MIN_QUANTUM: u64 = 1_000;
/// Largest quantum that the kernel chooses itself, in bytes.
pub(crate) const MAX_QUANTUM: u64 = 200_000;
/// HTB and its filters count a frame with its Ethernet header, so that the usual mtu is this, in bytes.
pub(crate) const FRAME: u32 = 1514;
/// HTB has priorities 0 to 7.
pub(crate) const MAX_PRIORITY: u64 = 7;
