//! An inner class in shared memory: a record behind a sequence lock, and a class as a child of its parent.
//!
//! # Orderings
//! A writer makes the sequence odd by compare-and-exchange with `Acquire`: it sees all that the last writer wrote. The
//! `Release` fence behind it orders the odd number before each word that follows. The words are stored `Relaxed`; the
//! even number is stored with `Release`, after all words.
//!
//! A reader loads the number with `Acquire`, so that it sees the words of that writer or later ones. It loads the words
//! `Relaxed`. If one of them is of a later writer, the `Acquire` fence behind the words synchronizes with that writer's
//! `Release` fence, and the second load of the number sees the odd one or a later one: the reader tries again. All
//! words are atomics. So a torn record is possible before the check, a data race is not.
//!
//! Fields of [`Child`] that a lock guards are `Relaxed`: the lock of the parent orders them.
//!
//! No wait is unbounded: a worker gives up a lock that is held [`TRIES`] times in a row. A reader then uses an
//! older virtual time, which is lower, and a writer puts its change off to its next pass.

use super::atomics::{AtomicU64, Ordering, fence, spin_loop};
use super::record::{BITS, Record, units};

/// Attempts at a lock.
const TRIES: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 200 };

const WORDS: usize = 8;

/// An inner class. The number and the record are one cache line and a word.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Node {
    number: AtomicU64,
    words: [AtomicU64; WORDS],
    /// The node above; its own of the root.
    pub(super) parent: u32,
    pub(super) class: u32,
}

impl Node {
    pub(super) fn new(parent: u32, class: u32) -> Self {
        Self { number: AtomicU64::new(0), words: core::array::from_fn(|_| AtomicU64::new(0)), parent, class }
    }

    /// Takes the lock. Returns false if others hold it.
    pub(super) fn lock(&self) -> bool {
        for _ in 0..TRIES {
            let number = self.number.load(Ordering::Relaxed);
            if number & 1 == 0
                && self
                    .number
                    .compare_exchange(number, number.wrapping_add(1), Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                fence(Ordering::Release);
                return true;
            }
            spin_loop();
        }
        false
    }

    /// Releases the lock. The caller holds it.
    pub(super) fn unlock(&self) {
        let number = self.number.load(Ordering::Relaxed);
        self.number.store(number.wrapping_add(1), Ordering::Release);
    }

    /// Returns true if no child is on, or none was a moment ago.
    pub(super) fn is_off(&self) -> bool {
        self.words[6].load(Ordering::Relaxed) == 0
    }

    /// Returns the record to the holder of the lock, or a torn one.
    #[inline(always)]
    pub(super) fn load(&self) -> Record {
        let word = |at: usize| self.words[at].load(Ordering::Relaxed);
        let wide = |at: usize| u128::from(word(at)) | u128::from(word(at + 1)) << 64;
        Record { v: wide(0), parent: wide(2), pending: wide(4) as i128, weight: word(6), inverse: word(7) }
    }

    /// Writes the record. The caller holds the lock.
    pub(super) fn store(&self, record: &Record) {
        let wide = |at: usize, value: u128| {
            self.words[at].store(value as u64, Ordering::Relaxed);
            self.words[at + 1].store((value >> 64) as u64, Ordering::Relaxed);
        };
        wide(0, record.v);
        wide(2, record.parent);
        wide(4, record.pending as u128);
        self.words[6].store(record.weight, Ordering::Relaxed);
        self.words[7].store(record.inverse, Ordering::Relaxed);
    }

    /// Returns the record as one writer left it; `None` if writers keep it busy.
    #[inline(always)]
    pub(super) fn read(&self) -> Option<Record> {
        for _ in 0..TRIES {
            let number = self.number.load(Ordering::Acquire);
            if number & 1 == 0 {
                let record = self.load();
                fence(Ordering::Acquire);
                if self.number.load(Ordering::Relaxed) == number {
                    return Some(record);
                }
            }
            spin_loop();
        }
        None
    }
}

/// A class as a child of its parent. While the class is on and a leaf, `base` is the parent's virtual time when it went
/// on, and `sent` counts the bytes since then. While it is off, they are those of its last packet out of turn: it owes
/// until the parent has given it `sent` bytes since `base`.
///
/// The lock of the parent guards all but `sent` of a leaf that is on, which its holders count.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Child {
    base: [AtomicU64; 2],
    sent: AtomicU64,
    /// Workers that have the leaf on; of an inner class 1 while it is on. In the upper half the number of the worker
    /// that waits until the class may be on; 0 if none does.
    state: AtomicU64,
    /// w: 1 to 2^41; 0 of the root.
    pub(super) weight: u64,
    /// Virtual time of the parent that a byte takes, rounded up.
    pub(super) time_of_byte: u64,
    /// The node of the parent.
    pub(super) parent: u32,
}

impl Child {
    pub(super) fn new(weight: u64, parent: u32) -> Self {
        let zero = || AtomicU64::new(0);
        let time_of_byte = if weight == 0 { 0 } else { units(1).cast_unsigned().div_ceil(weight.into()) as u64 };
        Self { base: [zero(), zero()], sent: zero(), state: zero(), weight, time_of_byte, parent }
    }

    pub(super) fn base(&self) -> u128 {
        let word = |at: usize| u128::from(self.base[at].load(Ordering::Relaxed));
        word(0) | word(1) << 64
    }

    /// Sets what it has been given from and what it has sent since.
    pub(super) fn set(&self, base: u128, sent: u64) {
        self.base[0].store(base as u64, Ordering::Relaxed);
        self.base[1].store((base >> 64) as u64, Ordering::Relaxed);
        self.sent.store(sent, Ordering::Relaxed);
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Adds `bytes` to `sent` if no other worker has changed it.
    #[inline(always)]
    pub(super) fn count(&self, sent: u64, bytes: u64) -> bool {
        let (relaxed, next) = (Ordering::Relaxed, sent.wrapping_add(bytes));
        self.sent.compare_exchange(sent, next, relaxed, relaxed).is_ok()
    }

    pub(super) fn holders(&self) -> u64 {
        self.state.load(Ordering::Relaxed) & u64::from(u32::MAX)
    }

    /// Sets the holders, and clears the waiting worker.
    pub(super) fn hold(&self, holders: u64) {
        self.state.store(holders, Ordering::Relaxed);
    }

    /// Returns the worker that waits for a class that is off; 0 if none does.
    pub(super) fn wanted_by(&self) -> u32 {
        (self.state.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Lets `worker` wait, if no other does. The class is off.
    pub(super) fn want(&self, worker: u32) {
        if self.wanted_by() == 0 {
            self.state.store(u64::from(worker) << 32, Ordering::Relaxed);
        }
    }

    /// Counts `bytes` that left out of turn at the parent's virtual time `v`, while the class was off with `credit`
    /// units.
    pub(super) fn count_lone(&self, v: u128, credit: i128, bytes: u64) {
        if credit >= 0 {
            self.set(v, bytes);
        } else {
            self.sent.store(self.sent() + bytes, Ordering::Relaxed);
        }
        self.hold(0);
    }

    /// Returns the units that it has at the parent's virtual time `v` and has not used; negative while it owes. `base`
    /// is not later than `v`.
    #[inline(always)]
    pub(super) fn credit(&self, v: u128) -> i128 {
        let (rise, sent) = (v.wrapping_sub(self.base()), self.sent());
        if rise >> 80 == 0 {
            return (rise * u128::from(self.weight)) as i128 - units(sent);
        }
        // A class that was off for long owes nothing. The least weight has paid `sent` bytes then.
        if self.holders() == 0 { 0 } else { whole_credit(rise, self.weight, sent) }
    }
}

/// Returns the units of a leaf that has been on for long: from the lower bits of two numbers that differ by little.
#[cold]
fn whole_credit(rise: u128, weight: u64, sent: u64) -> i128 {
    let due = rise.wrapping_mul(u128::from(weight));
    let spent = u128::from(sent) << BITS;
    // Both are known modulo 2^120.
    let shift = 128 - 64 - BITS;
    (due.wrapping_sub(spent) << shift) as i128 >> shift
}

/// Returns whole bytes of credit that a leaf has at the parent's virtual time `v`: more than 0 if it may send.
#[inline(always)]
pub(super) const fn due(v: u128, base: u128, weight: u64) -> u64 {
    (v.wrapping_sub(base).wrapping_mul(weight as u128) >> BITS) as u64
}
