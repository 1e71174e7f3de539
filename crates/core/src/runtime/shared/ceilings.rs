//! Ceilings: token buckets that all workers fill and charge.
//!
//! A packet is sent only while no bucket at its leaf or above it is in debt, and is charged to all of them. Each worker
//! tests a bucket before it charges one packet, so that N workers overdraw it by N packets at most:
//!
//! > W(s, t] <= ceiling (t - s) + depth + N L for every interval.
//!
//! A leaf below a bucket in debt goes off, unless it owes to its siblings, and comes back when the bucket is out of
//! debt. So its share goes to others meanwhile, as in the fluid ideal, where a class requests no more than its ceiling.
//!
//! One worker at a time fills a bucket, up to its depth, and the others only take: so it never holds more. The level is
//! in bytes, what a byte lacks is kept. No order with other memory matters: all is `Relaxed`, but for the lock of those
//! that fill.

use alloc::boxed::Box;

use super::atomics::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use crate::contract::{ClassId, Hierarchy, NANOS_PER_SEC, Nanos, OutOfMemory, Rate};
use crate::parts::memory::{bytes_of, filled, slice};

/// No ceiling.
pub(super) const NIL: u32 = u32::MAX;
/// Billionths of a bit in a byte.
const PER_BYTE: u128 = 8 * NANOS_PER_SEC as u128;

/// A bucket.
#[derive(Debug)]
#[repr(align(128))]
struct Bucket {
    /// Bytes that may be sent; negative in debt.
    level: AtomicI64,
    /// Time of the last filling, in ns.
    last: AtomicU64,
    fraction: AtomicU64,
    busy: AtomicBool,
    rate: Rate,
    depth: i64,
    /// The next ceiling on the way to the root.
    above: u32,
}

impl Bucket {
    /// Fills it up to `now`, unless another worker does.
    fn fill(&self, now: Nanos) {
        if now.0 <= self.last.load(Ordering::Relaxed) || self.busy.swap(true, Ordering::Acquire) {
            return;
        }
        let elapsed = now.0.saturating_sub(self.last.load(Ordering::Relaxed));
        if elapsed > 0 {
            self.last.store(now.0, Ordering::Relaxed);
            let fraction = u128::from(self.fraction.load(Ordering::Relaxed));
            let fine = u128::from(self.rate.bps()) * u128::from(elapsed) + fraction;
            self.fraction.store((fine % PER_BYTE) as u64, Ordering::Relaxed);
            let room = self.depth.saturating_sub(self.level.load(Ordering::Relaxed));
            let bytes = i64::try_from(fine / PER_BYTE).unwrap_or(i64::MAX).min(room);
            self.level.fetch_add(bytes.max(0), Ordering::Relaxed);
        }
        self.busy.store(false, Ordering::Release);
    }

    /// Returns the time when it is out of debt, if nothing is taken before.
    fn ready_at(&self) -> Nanos {
        let debt = self.level.load(Ordering::Relaxed).min(0).unsigned_abs();
        Nanos(self.last.load(Ordering::Relaxed)).saturating_add(self.rate.time_for_bytes(debt))
    }
}

/// The ceilings of a tree.
#[derive(Debug)]
pub(super) struct Ceilings {
    buckets: Box<[Bucket]>,
    /// By class: the first ceiling from it up; empty without ceilings.
    first: Box<[u32]>,
}

impl Ceilings {
    pub(super) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let limited = || tree.classes().filter(|&class| tree.config(class).ceiling.is_some());
        let count = limited().count();
        let mut first = filled(if count > 0 { tree.len() } else { 0 }, NIL)?;
        let mut next = 0;
        for class in tree.classes().filter(|_| count > 0) {
            let above = tree.parent(class).map_or(NIL, |parent| first[parent.index()]);
            first[class.index()] = above;
            if tree.config(class).ceiling.is_some() {
                first[class.index()] = next;
                next += 1;
            }
        }
        let mut classes = limited();
        let buckets = slice(count, |_| {
            let class = classes.next().unwrap_or(ClassId::ROOT);
            let (rate, depth) = (tree.config(class).ceiling.unwrap_or(tree.link().rate), depth(tree, class));
            let above = tree.parent(class).map_or(NIL, |parent| first[parent.index()]);
            let zero = || AtomicU64::new(0);
            let level = AtomicI64::new(depth);
            Bucket { level, last: zero(), fraction: zero(), busy: AtomicBool::new(false), rate, depth, above }
        })?;
        Ok(Self { buckets, first })
    }

    /// Bytes that the ceilings of `tree` take.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        let count = tree.classes().filter(|&class| tree.config(class).ceiling.is_some()).count();
        bytes_of::<Bucket>(count) + bytes_of::<u32>(if count > 0 { tree.len() } else { 0 })
    }

    /// Returns the first ceiling at or above `leaf`; [`NIL`] without one.
    #[inline(always)]
    pub(super) fn first(&self, leaf: u32) -> u32 {
        self.first.get(leaf as usize).copied().unwrap_or(NIL)
    }

    /// Returns the buckets from `first` up.
    fn from(&self, first: u32) -> impl Iterator<Item = &Bucket> {
        let mut at = first;
        core::iter::from_fn(move || {
            let bucket = self.buckets.get(at as usize)?;
            at = bucket.above;
            Some(bucket)
        })
    }

    /// Returns true if no ceiling from `first` up is in debt.
    #[inline(always)]
    pub(super) fn are_ready(&self, first: u32) -> bool {
        self.from(first).all(|bucket| bucket.level.load(Ordering::Relaxed) >= 0)
    }

    /// Fills the ceilings from `first` up. Returns the time when none is in debt; `None` if none is.
    pub(super) fn wait(&self, first: u32, now: Nanos) -> Option<Nanos> {
        self.from(first).for_each(|bucket| bucket.fill(now));
        let owing = self.from(first).filter(|bucket| bucket.level.load(Ordering::Relaxed) < 0);
        owing.map(Bucket::ready_at).max()
    }

    /// Charges a packet to the ceilings from `first` up.
    #[inline(always)]
    pub(super) fn charge(&self, first: u32, len: u32) {
        self.from(first).for_each(|bucket| _ = bucket.level.fetch_sub(len.into(), Ordering::Relaxed));
    }
}

/// Returns the depth of the bucket of `class`, in bytes: as configured, or what the ceiling yields in 50 us, and 8
/// largest packets at least. A class that gets its service in passes of up to 50 us loses no token then.
fn depth(tree: &Hierarchy, class: ClassId) -> i64 {
    let config = tree.config(class);
    let least = 8 * u64::from(tree.link().max_packet);
    let derived = config.ceiling.map_or(0, |rate| rate.bytes_in(Nanos::from_micros(50))).max(least);
    config.ceiling_burst.unwrap_or(derived).min(1 << 60) as i64
}
