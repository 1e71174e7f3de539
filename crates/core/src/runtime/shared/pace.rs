//! R, the bytes that the link has given to its classes, and the bytes that it has been sent.
//!
//! # The rule
//! N is the queue of the network interface as computed: the bytes that were sent and that a link of the rate C cannot
//! have carried yet. X = R - sent - dropped is the credit of all classes together. A worker moves R before it reads
//! virtual times, at most once per tick, with dt the time since anyone did:
//!
//! ```text
//! grow := C dt
//! if N > mark: grow := grow - min(N - mark, grow / 8)     # what is too much in the interface is taken back
//! room := max(0, credit - X)
//! if N < mark, and this worker had packets without credit at the end of its last pass:
//!     if N < mark / 2: more := mark - N
//!     else:            more := min(2 C dt + spare, mark - N)
//!     grow := grow + more; room := max(room, mark - N)
//! R := R + min(grow, room)
//! spare := min(mark, what grow was more than room)       # kept for a worker that has nothing to send
//! ```
//!
//! So X is at most `credit`, but for what a worker that has nothing to send adds: then others hold credit that they do
//! not use, such as a core that has lost its processor, and the link would stand still. While the processors are the
//! bottleneck, X stays at `credit`, and R follows what is sent: shares hold then, too.

use alloc::boxed::Box;

use super::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::contract::{NANOS_PER_SEC, Nanos, OutOfMemory, Rate};
use crate::parts::memory::{bytes_of, slice};
use crate::runtime::split::MAX_CORES;

/// R moves once in the time in which the link carries this part of `mark` and of `credit`: a move takes a cache line
/// from each other core, and those of R. So the interface does not run dry between two moves.
const TICKS: u64 = 16;
/// Workers with a count of their own, as many as cores that share a link at most. More than these share counts.
const COUNTS: usize = MAX_CORES as usize;
/// While there is more than the mark in the interface, R grows by one part in so many less.
const SLOWS: u64 = 8;
/// Billionths of a bit in a byte.
const PER_BYTE: u128 = 8 * NANOS_PER_SEC as u128;

/// R alone: all read it, once per class and pass.
#[derive(Debug)]
#[repr(align(128))]
struct Given(AtomicU64);

/// The counts of one worker, which writes them once per call. Who moves R reads them.
#[derive(Debug)]
#[repr(align(128))]
struct Spent {
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// All that moves R; `busy` is the lock of the fields below it.
#[derive(Debug)]
#[repr(align(128))]
struct Clock {
    /// Time of the last move, in ns.
    last: AtomicU64,
    busy: AtomicBool,
    /// Billionths of a bit that R has still to get.
    fraction: AtomicU64,
    /// Bytes that the link has carried, of those that were sent.
    carried: AtomicU64,
    /// Bytes that R did not grow by for want of room, while no worker could use them.
    spare: AtomicU64,
}

/// The pace of the link.
#[derive(Debug)]
pub(super) struct Pace {
    given: Given,
    clock: Clock,
    spent: Box<[Spent]>,
    /// Workers made so far.
    workers: AtomicU64,
    rate: Rate,
    /// Least time between two moves of R, in ns.
    tick: u64,
    pub(super) mark: u64,
    credit: u64,
}

impl Pace {
    pub(super) fn new(rate: Rate, mark: u64, credit: u64) -> Result<Self, OutOfMemory> {
        let zero = || AtomicU64::new(0);
        Ok(Self {
            given: Given(zero()),
            clock: Clock {
                last: zero(),
                busy: AtomicBool::new(false),
                fraction: zero(),
                carried: zero(),
                spare: zero(),
            },
            spent: slice(COUNTS, |_| Spent { sent: zero(), dropped: zero() })?,
            workers: zero(),
            rate,
            tick: rate.time_for_bytes(mark.min(credit) / TICKS).0,
            mark,
            credit,
        })
    }

    /// Bytes that it takes besides itself.
    pub(super) fn memory() -> u64 {
        bytes_of::<Spent>(COUNTS)
    }

    /// Returns the number of a new worker, 1 or more.
    pub(super) fn join(&self) -> u32 {
        self.workers.fetch_add(1, Ordering::Relaxed) as u32 + 1
    }

    /// Starts all counts at `bytes`.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn start_at(&self, bytes: u64) {
        self.given.0.store(bytes, Ordering::Relaxed);
        self.spent[0].sent.store(bytes, Ordering::Relaxed);
        self.clock.carried.store(bytes, Ordering::Relaxed);
    }

    /// Returns R. A reader may use an older one, which is lower. `Acquire`: no record is read before it. With an older
    /// record the virtual time of a class would be ahead.
    #[inline(always)]
    pub(super) fn given(&self) -> u64 {
        self.given.0.load(Ordering::Acquire)
    }

    fn count_of(&self, worker: u32) -> &Spent {
        &self.spent[worker as usize % COUNTS]
    }

    /// Counts bytes that `worker` has sent.
    pub(super) fn sent(&self, worker: u32, bytes: u64) {
        self.count_of(worker).sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of credit that `worker` has dropped, or the link with the number 0.
    pub(super) fn drop_credit(&self, worker: u32, bytes: u64) {
        self.count_of(worker).dropped.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes sent and the bytes of credit dropped. Each count only grows, and who moves R next sees it as
    /// it is here or later. So the sum is at least what it was when the first was read, and does not fall.
    pub(super) fn totals(&self) -> (u64, u64) {
        let used = (self.workers.load(Ordering::Relaxed) as usize).saturating_add(1).min(COUNTS);
        self.spent[..used].iter().fold((0u64, 0u64), |(sent, dropped), count| {
            let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
            (sent.wrapping_add(of(&count.sent)), dropped.wrapping_add(of(&count.dropped)))
        })
    }

    /// Returns the least time between two moves of R in ns: less for a worker that starves, so that the link does not stand
    /// still while it waits.
    const fn tick(&self, starves: bool) -> u64 {
        if starves { self.tick / 8 } else { self.tick }
    }

    /// Returns the time when R will have grown by `bytes`, if nothing holds it back and a worker that `starves` or does not
    /// calls then; later than `now`.
    pub(super) fn time_of(&self, bytes: u64, now: Nanos, starves: bool) -> Nanos {
        let last = Nanos(self.clock.last.load(Ordering::Relaxed));
        let time = self.rate.time_for_bytes(bytes).max(Nanos(self.tick(starves)));
        last.saturating_add(time).max(now.saturating_add(Nanos(1)))
    }

    /// Returns N, the bytes in the network interface as computed at the last move of R.
    pub(super) fn unsent(&self) -> u64 {
        self.totals().0.wrapping_sub(self.clock.carried.load(Ordering::Relaxed))
    }

    /// Moves R to `now`, unless another worker does. `starves`: the worker had packets without credit at the end
    /// of its last pass.
    pub(super) fn advance(&self, now: Nanos, starves: bool) {
        let clock = &self.clock;
        let since = |last: &AtomicU64| now.0.saturating_sub(last.load(Ordering::Relaxed));
        let tick = self.tick(starves);
        if since(&clock.last) < tick || clock.busy.swap(true, Ordering::Acquire) {
            return;
        }
        // Another may have moved it just now.
        let elapsed = since(&clock.last);
        if elapsed >= tick {
            clock.last.fetch_max(now.0, Ordering::Relaxed);
            self.grow(elapsed, starves);
        }
        clock.busy.store(false, Ordering::Release);
    }

    /// Moves R by the yield of `elapsed` nanoseconds. The caller holds the lock.
    fn grow(&self, elapsed: u64, starves: bool) {
        let clock = &self.clock;
        let fine =
            u128::from(self.rate.bps()) * u128::from(elapsed) + u128::from(clock.fraction.load(Ordering::Relaxed));
        clock.fraction.store((fine % PER_BYTE) as u64, Ordering::Relaxed);
        let bytes = u64::try_from(fine / PER_BYTE).unwrap_or(u64::MAX);

        let (sent, dropped) = self.totals();
        let carried = clock.carried.load(Ordering::Relaxed);
        let unsent = sent.wrapping_sub(carried);
        let unsent = unsent - unsent.min(bytes);
        clock.carried.store(sent.wrapping_sub(unsent), Ordering::Relaxed);

        let given = self.given();
        // Small, of either sign, whatever has wrapped.
        let credit = given.wrapping_sub(sent).wrapping_sub(dropped) as i64;
        let mut room = i128::from(self.credit) - i128::from(credit);
        let mut growth = bytes - unsent.saturating_sub(self.mark).min(bytes / SLOWS);
        let mut spare = clock.spare.load(Ordering::Relaxed);
        if starves && unsent < self.mark {
            let free = self.mark - unsent;
            let more = if unsent < free { free } else { bytes.saturating_mul(2).saturating_add(spare).min(free) };
            spare = spare.saturating_sub(more);
            growth = growth.saturating_add(more);
            room = room.max(free.into());
        }
        let grown = i128::from(growth).min(room).max(0) as u64;
        clock.spare.store(spare.saturating_add(growth - grown).min(self.mark), Ordering::Relaxed);
        // Only the holder of the lock writes it.
        self.given.0.store(given.wrapping_add(grown), Ordering::Relaxed);
    }
}
