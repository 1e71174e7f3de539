//! The atomics of this module: those of the language, or those of a model checker in its tests.

#[cfg(not(any(all(test, loom), all(test, shuttle))))]
pub(super) use core::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence},
};
#[cfg(all(test, loom))]
pub(super) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence},
};
#[cfg(all(test, shuttle, not(loom)))]
pub(super) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence},
};
