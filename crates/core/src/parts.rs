//! Spare parts that schedulers are made of. They know of no scheduler, and but for curves of no hierarchy.

pub(crate) mod bitset;
pub(crate) mod bucket;
pub(crate) mod curve;
pub(crate) mod heap;
pub(crate) mod memory;
pub(crate) mod tags;
pub(crate) mod virtual_time;
