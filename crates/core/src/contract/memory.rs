//! The error of a construction that runs out of memory.

use core::fmt;

/// A refused allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Size of the allocation, in bytes.
    pub bytes: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no memory for {} bytes at once", self.bytes)
    }
}

impl core::error::Error for OutOfMemory {}
