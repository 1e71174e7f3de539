//! Counts the steps of a data structure, so that its cost can be judged without a clock.
//!
//! A structure has a `W: Work`. With `()`, which is the default, counting is nothing and takes no memory.

use core::cell::Cell;

/// Counts steps.
pub trait Work: Default + core::fmt::Debug + Send + 'static {
    /// `steps` more steps.
    fn add(&self, steps: u64);

    /// The steps so far; 0 where none are counted.
    fn steps(&self) -> u64;
}

/// Counts nothing.
impl Work for () {
    #[inline(always)]
    fn add(&self, _: u64) {}

    #[inline(always)]
    fn steps(&self) -> u64 {
        0
    }
}

/// Counts every step, for experiments.
#[derive(Clone, Debug, Default)]
pub struct Counted(Cell<u64>);

impl Work for Counted {
    fn add(&self, steps: u64) {
        self.0.set(self.0.get().wrapping_add(steps));
    }

    fn steps(&self) -> u64 {
        self.0.get()
    }
}
