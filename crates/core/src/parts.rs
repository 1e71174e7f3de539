//! Building blocks of schedulers. They are independent of particular schedulers.

pub(crate) mod bitset;
pub(crate) mod bucket;
pub(crate) mod curve;
pub(crate) mod heap;
pub(crate) mod memory;
pub(crate) mod prefetch;
pub(crate) mod tags;
pub(crate) mod virtual_time;
pub(crate) mod work;
