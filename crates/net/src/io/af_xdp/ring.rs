//! A ring shared with the kernel: one side puts entries in, the other takes them out, and neither waits.
//!
//! Two counters, which only grow, hold the progress of each side. An entry's place is its number modulo the ring's
//! length, a power of two. Each side writes one counter and reads the other's. The other side's counter is not trusted:
//! a ring never appears to hold more than its length.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::io::sys::{Mapping, Plain};

/// Offsets of a ring's parts in its mapping, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) producer: u64,
    pub(super) consumer: u64,
    pub(super) flags: u64,
    pub(super) entries: u64,
}

/// This process's end of a ring of entries `T`. The kernel may write any bytes.
#[derive(Debug)]
pub(super) struct Ring<T: Plain> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    length: u32,
    /// Progress of this side, possibly not published yet.
    own: u32,
    #[expect(dead_code, reason = "held, not read")]
    mapping: Option<Mapping>,
}

// SAFETY: the counters are atomic. Entries are read and written as a whole through pointers that only this value has in
// this process. Nothing in it is bound to a thread.
unsafe impl<T: Plain + Send> Send for Ring<T> {}

impl<T: Plain> Ring<T> {
    /// Maps a ring of `length` entries, a power of two, of `socket` at this `offset`.
    ///
    /// # Errors
    /// The kernel's answer; `InvalidData` if its offsets are inconsistent.
    pub(super) fn map(socket: &OwnedFd, offset: u64, places: Places, length: u32) -> io::Result<Self> {
        let bytes = places.entries as usize + length as usize * size_of::<T>();
        let fits = |place: u64| place as usize + size_of::<u32>() <= bytes && place.is_multiple_of(4);
        let aligned = (places.entries as usize).is_multiple_of(align_of::<T>());
        if ![places.producer, places.consumer, places.flags].into_iter().all(fits) || !aligned {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a ring that is laid out as {places:?}")));
        }
        let mapping = Mapping::shared(socket, offset, bytes)?;
        let at = mapping.start();
        // SAFETY: each place was checked to lie within the mapping and to be aligned for what it holds.
        let place = |offset: u64| unsafe { at.add(offset as usize) };
        let mut ring = Self {
            producer: place(places.producer).cast(),
            consumer: place(places.consumer).cast(),
            flags: place(places.flags).cast(),
            entries: place(places.entries).cast(),
            length,
            own: 0,
            mapping: Some(mapping),
        };
        // A new ring begins at zero.
        ring.own = ring.load(ring.producer);
        Ok(ring)
    }

    fn load(&self, counter: NonNull<AtomicU32>) -> u32 {
        // SAFETY: the counter lies within memory that lives as long as this value, and is only used as an atomic.
        unsafe { counter.as_ref() }.load(Ordering::Acquire)
    }

    fn store(&self, counter: NonNull<AtomicU32>, value: u32) {
        // SAFETY: as above.
        unsafe { counter.as_ref() }.store(value, Ordering::Release);
    }

    fn entry(&self, number: u32) -> NonNull<T> {
        // SAFETY: the place is below the length, and the memory holds `length` entries.
        unsafe { self.entries.add((number & (self.length - 1)) as usize) }
    }

    fn write(&mut self, number: u32, value: T) {
        // SAFETY: the place lies within the ring's memory and is aligned; no reference to it exists.
        unsafe { self.entry(number).write_volatile(value) };
    }

    /// Returns true if the other side needs a wakeup.
    pub(super) fn wants_waking(&self) -> bool {
        self.load(self.flags) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Number of published entries that the other side has not taken yet.
    pub(super) fn pending(&self) -> u32 {
        self.load(self.producer).wrapping_sub(self.load(self.consumer)).min(self.length)
    }

    /// Number of entries that can be put in. Only for the producing side, as the next three.
    pub(super) fn room(&self) -> u32 {
        self.length.saturating_sub(self.own.wrapping_sub(self.load(self.consumer)))
    }

    /// Puts `value` in. There must be room. The other side sees it after [`Ring::publish`].
    pub(super) fn put(&mut self, value: T) {
        self.write(self.own, value);
        self.own = self.own.wrapping_add(1);
    }

    /// Publishes the new entries to the other side.
    pub(super) fn publish(&mut self) {
        self.store(self.producer, self.own);
    }

    /// Overwrites the last `count` entries with `value`. The other side must be idle: a concurrent reader may see
    /// either value.
    pub(super) fn overwrite(&mut self, count: u32, value: T) {
        for back in 1..=count.min(self.length) {
            self.write(self.own.wrapping_sub(back), value);
        }
    }

    /// Number of entries that can be taken out. Only for the consuming side, as [`Ring::take`] is.
    pub(super) fn waiting(&self) -> u32 {
        self.load(self.producer).wrapping_sub(self.own).min(self.length)
    }

    /// Takes up to `most` entries out, and passes each to `each`.
    pub(super) fn take(&mut self, most: u32, mut each: impl FnMut(T)) {
        let count = self.waiting().min(most);
        for number in 0..count {
            // SAFETY: the place lies within the ring's memory and is aligned. The other side has written the entry
            // before its counter, which was read by `waiting`; were it to write now, the bytes would still be a `T`, as
            // any bytes are (`Plain`).
            each(unsafe { self.entry(self.own.wrapping_add(number)).read_volatile() });
        }
        if count > 0 {
            self.own = self.own.wrapping_add(count);
            self.store(self.consumer, self.own);
        }
    }
}

#[cfg(test)]
impl<T: Plain> Ring<T> {
    /// Returns both ends of a ring of `length` entries in ordinary memory, which is never freed.
    pub(super) fn ends(length: u32, empty: T) -> (Self, Self) {
        let counters: &'static [AtomicU32; 3] = Box::leak(Box::default());
        let entries = NonNull::from(Box::leak(vec![empty; length as usize].into_boxed_slice())).cast();
        let [producer, consumer, flags] = counters.each_ref().map(NonNull::from);
        let end = || Self { producer, consumer, flags, entries, length, own: 0, mapping: None };
        (end(), end())
    }

    /// Sets both counters to any values, as a faulty other side may.
    pub(super) fn disturb(&mut self, producer: Option<u32>, consumer: Option<u32>) {
        if let Some(value) = producer {
            self.store(self.producer, value);
        }
        if let Some(value) = consumer {
            self.store(self.consumer, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_as_they_were_put_in_and_no_more_than_there_is_room_for() {
        let (mut ours, mut theirs) = Ring::ends(4, 0u64);
        let (mut next, mut expected) = (0, 0);
        for round in 0..1000u64 {
            while ours.room() > 0 && !(next + round).is_multiple_of(3) {
                ours.put(next);
                next += 1;
            }
            next += u64::from(ours.room() > 0);
            if ours.room() > 0 {
                ours.put(next - 1);
            }
            ours.publish();
            theirs.take(1 + (round % 5) as u32, |entry| {
                assert_eq!(entry, expected);
                expected += 1;
            });
        }
        assert!(expected > 500, "{expected}");
    }

    #[test]
    fn entries_that_were_not_published_are_not_seen() {
        let (mut ours, theirs) = Ring::ends(4, 0u64);
        ours.put(7);
        assert_eq!((theirs.waiting(), ours.pending()), (0, 0));
        ours.publish();
        assert_eq!((theirs.waiting(), ours.pending(), ours.room()), (1, 1, 3));
    }

    #[test]
    fn counters_that_make_no_sense_never_show_more_than_the_ring_has() {
        let (mut ours, mut theirs) = Ring::ends(8, 0u64);
        for value in [0, 1, 7, 8, 9, 1 << 31, u32::MAX] {
            theirs.disturb(None, Some(value));
            assert!(ours.room() <= 8 && ours.pending() <= 8, "{value}");
            ours.disturb(Some(value), None);
            let mut count = 0;
            theirs.take(u32::MAX, |_| count += 1);
            assert!(count <= 8, "{value}");
        }
    }
}
