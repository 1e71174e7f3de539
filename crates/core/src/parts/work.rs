//! Counts the steps of a data structure, so that its cost can be judged without a clock.
//!
//! A structure has a `W: Work`. The default, `()`, counts nothing and uses no memory.

use core::cell::Cell;

/// Counts steps.
///
/// ```
/// use fairlink_core::{Counted, Work};
///
/// fn search<W: Work>(haystack: &[u32], needle: u32, work: &W) -> Option<usize> {
///     haystack.iter().position(|&found| {
///         work.add(1);
///         found == needle
///     })
/// }
///
/// let work = Counted::default();
/// assert_eq!(search(&[3, 1, 4], 4, &work), Some(2));
/// assert_eq!(work.steps(), 3);
/// // The unit type counts nothing and takes no memory.
/// assert_eq!(search(&[3, 1, 4], 4, &()), Some(2));
/// ```
pub trait Work: Default + core::fmt::Debug + Send + 'static {
    /// Adds `steps` steps.
    fn add(&self, steps: u64);

    /// Steps so far; 0 if none are counted.
    fn steps(&self) -> u64;
}

/// No-op counter.
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
