//! Defaults of tc and the kernel.

pub(crate) use fairlink_theory::kernel_htb::{MAX_QUANTUM, MIN_QUANTUM, R2Q, default_burst, default_quantum};

/// HTB and its filters count a frame with its Ethernet header, so that the usual mtu is this, in bytes.
pub(crate) const FRAME: u32 = 1514;
/// HTB has priorities 0 to 7.
pub(crate) const MAX_PRIORITY: u64 = 7;
