//! A ring of words between two threads: one writes, one reads, and neither ever waits for the other.
//!
//! Positions count words since the beginning and never wrap: at a word a nanosecond, 64 bits last for centuries. `head`
//! is published with release order behind the words before it, and so is `tail` behind the reads before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State shared by both threads.
#[derive(Debug)]
pub(crate) struct Ring {
    words: Box<[AtomicU64]>,
    /// Words written.
    head: AtomicU64,
    /// Words read.
    tail: AtomicU64,
    /// No more records follow.
    closed: AtomicBool,
    /// The reader wants no more.
    stop: AtomicBool,
    /// Published with `closed`: number of missing packets, and of packets without an end.
    missed: AtomicU64,
    unfinished: AtomicU64,
}

impl Ring {
    /// Creates an empty ring of at least `words` words, rounded up to a power of two.
    pub(crate) fn new(words: u64) -> Self {
        let words = words.next_power_of_two();
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            unfinished: AtomicU64::new(0),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.words.len() as u64
    }

    /// For the reader: requests the end of the trace.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// For the writer: returns true if the reader has requested the end.
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// For the reader: appends up to `most` words to `out`, as little-endian bytes. Returns their number.
    pub(crate) fn read(&self, out: &mut Vec<u8>, most: u64) -> u64 {
        let tail = self.tail.load(Ordering::Relaxed);
        let end = self.head.load(Ordering::Acquire).min(tail.saturating_add(most));
        for at in tail..end {
            out.extend_from_slice(&self.word(at).load(Ordering::Relaxed).to_le_bytes());
        }
        self.tail.store(end, Ordering::Release);
        end - tail
    }

    /// For the reader: numbers of missing and of unfinished packets, once the ring is closed. Written records may still
    /// have to be read.
    pub(crate) fn end(&self) -> Option<(u64, u64)> {
        let counts = || (self.missed.load(Ordering::Relaxed), self.unfinished.load(Ordering::Relaxed));
        self.closed.load(Ordering::Acquire).then(counts)
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[(at & (self.words.len() as u64 - 1)) as usize]
    }
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Writer {
    ring: Arc<Ring>,
    head: u64,
    /// Number of words read, at the last check.
    tail: u64,
}

impl Writer {
    pub(crate) fn new(ring: Arc<Ring>) -> Self {
        Self { ring, head: 0, tail: 0 }
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns true if `words` more fit.
    pub(crate) fn has_room(&mut self, words: u64) -> bool {
        let fits = |tail: u64| self.ring.capacity() - (self.head - tail) >= words;
        if fits(self.tail) {
            return true;
        }
        let tail = self.ring.tail.load(Ordering::Acquire);
        let fits = fits(tail);
        self.tail = tail;
        fits
    }

    /// Writes a word, for which there must be room. The reader sees it after [`publish`](Self::publish).
    pub(crate) fn put(&mut self, word: u64) {
        self.ring.word(self.head).store(word, Ordering::Relaxed);
        self.head += 1;
    }

    /// Publishes written records to the reader.
    pub(crate) fn publish(&self) {
        self.ring.head.store(self.head, Ordering::Release);
    }

    /// Closes the ring: no more records follow.
    pub(crate) fn close(&self, missed: u64, unfinished: u64) {
        self.ring.missed.store(missed, Ordering::Relaxed);
        self.ring.unfinished.store(unfinished, Ordering::Relaxed);
        self.ring.closed.store(true, Ordering::Release);
    }
}
