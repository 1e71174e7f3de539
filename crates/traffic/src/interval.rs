//! Spans of time.

use fairlink_core::Nanos;

/// A span of time in which a source is active: from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// First active instant.
    pub start: Nanos,
    /// First inactive instant; later than `start`.
    pub end: Nanos,
}
