//! Lists of classes that are not held.

use serde::{Serialize, Serializer};

/// A JSON list whose items are made one by one as they are written, so that a million classes are never in memory.
pub struct Each<F> {
    /// Number of items.
    pub len: usize,
    /// Returns the item at a position.
    pub item: F,
}

impl<T: Serialize, F: Fn(usize) -> T> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..self.len).map(&self.item))
    }
}
