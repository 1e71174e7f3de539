//! The data thread and its workers share, besides the rings, the classifier of each worker, the rates of the classes, and
//! the account of frames that workers forward by themselves.
//!
//! If the data thread makes no turn for a while ([`Desk::patience`]), the workers forward the frames that they receive.
//! Each leaf is paced at the rate that it had in the last whole window of 8 ms, at least at its guarantee. So together
//! they may send up to the rate of the link and that of all guarantees. Frames that are queued at the data thread stay
//! there, and leave when it goes on: packets of a flow may change their order then.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fairlink_config::matching::{Classifier, Match};
use fairlink_core::{Amount, ClassId, Hierarchy, Nanos, Overhead};

use crate::gateway::early::Relief;

/// Binary logarithm of a window's length in ns.
const WINDOW: u32 = 23;
/// Shortest time without a turn of the data thread after which workers forward by themselves.
pub(crate) const PATIENCE: Nanos = Nanos::from_millis(1);

/// Packets and bytes, counted by several threads.
#[derive(Debug, Default)]
struct Tally {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    fn count(&self, len: u32) {
        self.packets.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(u64::from(len), Ordering::Relaxed);
    }

    fn take(&self) -> Amount {
        Amount { packets: self.packets.swap(0, Ordering::Relaxed), bytes: self.bytes.swap(0, Ordering::Relaxed) }
    }
}

/// Rate and account of a class.
#[derive(Debug, Default)]
struct Pace {
    /// Bytes per second when all classes are busy.
    guarantee: u64,
    /// The last window in which the class sent, its bytes then, and those of the window before. The data thread writes.
    window: AtomicU64,
    bytes: AtomicU64,
    before: AtomicU64,
    /// Time in ns at which it has sent what workers have let through.
    free_at: AtomicU64,
    sent: Tally,
    dropped: Tally,
}

impl Pace {
    /// Bytes per second at `stopped`, the time of the data thread's last turn: those of the last whole window.
    fn rate(&self, stopped: Nanos) -> u64 {
        let now = stopped.0 >> WINDOW;
        let bytes = match now.saturating_sub(self.window.load(Ordering::Relaxed)) {
            // The present window is not over.
            0 => self.before.load(Ordering::Relaxed),
            1 => self.bytes.load(Ordering::Relaxed),
            _ => 0,
        };
        let last = (u128::from(bytes) * 1_000_000_000) >> WINDOW;
        self.guarantee.max(last as u64).max(1)
    }
}

/// Rates and accounts of all classes of a generation.
#[derive(Debug)]
pub(super) struct Paces {
    classes: Vec<Pace>,
    overhead: Overhead,
    longest: u32,
    /// True if anything was counted since it was collected.
    is_used: AtomicBool,
}

impl Paces {
    fn of(&self, class: ClassId) -> &Pace {
        &self.classes[class.index()]
    }

    /// Accounted bytes of a frame.
    pub(super) fn accounted(&self, len: u32) -> u32 {
        self.overhead.accounted(len)
    }

    /// Returns true if a packet of `len` accounted bytes of `class` may leave now. The data thread made its last turn at
    /// `stopped`. A class may send at once what it was allowed in the last `depth`.
    pub(super) fn admits(&self, (now, stopped): (Nanos, Nanos), depth: Nanos, class: ClassId, len: u32) -> bool {
        let pace = self.of(class);
        let takes = u128::from(len) * 1_000_000_000 / u128::from(pace.rate(stopped));
        let admit = |free_at: u64| {
            let free_at = free_at.max(now.saturating_sub(depth).0);
            (len <= self.longest && free_at <= now.0).then(|| free_at.saturating_add(takes as u64))
        };
        pace.free_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, admit).is_ok()
    }

    /// Counts a packet that a worker has sent, or dropped.
    pub(super) fn count(&self, class: ClassId, len: u32, sent: bool) {
        let Pace { sent: passed, dropped, .. } = self.of(class);
        if sent { passed } else { dropped }.count(len);
        self.is_used.store(true, Ordering::Release);
    }
}

/// The classes of a generation, as a worker uses them.
#[derive(Debug)]
pub(crate) struct Sorting {
    /// Number of the generation; frames are classified anew if the data thread has another one.
    pub(super) generation: u32,
    pub(super) classifier: Classifier,
    pub(super) paces: Arc<Paces>,
}

/// The classes of a generation, for each worker.
#[derive(Debug)]
pub(crate) struct Sortings {
    of_workers: Vec<Option<Box<Sorting>>>,
    paces: Arc<Paces>,
    generation: u32,
}

impl Sortings {
    /// Prepares the classes of `tree` for `workers` workers, with the number of their generation. Frames have at most
    /// `longest` accounted bytes.
    pub(crate) fn new(
        workers: usize,
        tree: &Hierarchy,
        (matches, default_class): (&[(ClassId, Match)], ClassId),
        (overhead, longest): (Overhead, u32),
        generation: u32,
    ) -> Self {
        let pace = |class| Pace { guarantee: tree.rate_all_busy(class) / 8, ..Pace::default() };
        let classes = (0..tree.len() as u32).map(ClassId).map(pace).collect();
        let paces = Arc::new(Paces { classes, overhead, longest, is_used: AtomicBool::new(false) });
        let sorting = |_| {
            let classifier = Classifier::new(matches, default_class);
            Some(Box::new(Sorting { generation, classifier, paces: Arc::clone(&paces) }))
        };
        Self { of_workers: (0..workers).map(sorting).collect(), generation, paces: Arc::clone(&paces) }
    }

    /// Bytes that they take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_each = |sorting: &Sorting| sorting.classifier.memory_bytes() + size_of::<Sorting>();
        let classifiers = self.of_workers.iter().flatten().map(Box::as_ref).map(of_each);
        classifiers.sum::<usize>() + self.paces.classes.len() * size_of::<Pace>()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Desk {
    /// By worker, until it takes it.
    posts: Vec<Mutex<Option<Box<Sorting>>>>,
    /// Number of the generation that was posted last.
    posted: AtomicU32,
    pub(super) patience: Nanos,
    /// Time for which an idle class may send at once: nothing is sent for [`Desk::patience`], and frames have waited for
    /// longer.
    pub(super) depth: Nanos,
    /// Frames of the other direction that workers have forwarded.
    back: Tally,
    back_dropped: Tally,
    /// The workers' end of the drops in the kernel, if there are any.
    relief: OnceLock<Relief>,
}

impl Desk {
    /// The desk of `workers` workers.
    pub(crate) fn new(workers: usize, patience: Nanos) -> Arc<Self> {
        let posts = (0..workers).map(|_| Mutex::new(None)).collect();
        let (posted, back, back_dropped) = (AtomicU32::new(0), Tally::default(), Tally::default());
        let (depth, relief) = (Nanos(2 * patience.0), OnceLock::new());
        Arc::new(Self { posts, posted, patience, depth, back, back_dropped, relief })
    }

    /// Gives the workers their end of the drops in the kernel, once.
    pub(crate) fn relieve_by(&self, relief: Relief) {
        // There is one program for as long as the gateway runs.
        let _ = self.relief.set(relief);
    }

    /// Notes that a worker has fetched `count` frames of the input to forward them by itself.
    pub(super) fn fetched_alone(&self, count: usize) {
        if let Some(relief) = self.relief.get() {
            relief.fetched(count);
        }
    }

    /// Returns the classes that `worker` has to use from now on, if they are of another generation than `present`.
    pub(super) fn take(&self, worker: usize, present: u32) -> Option<Box<Sorting>> {
        if self.posted.load(Ordering::Acquire) == present {
            return None;
        }
        self.posts[worker].lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Leaves the classes that `worker` has used to the next worker of its number, unless there is something newer.
    pub(super) fn leave(&self, worker: usize, sorting: Option<Box<Sorting>>) {
        let mut post = self.posts[worker].lock().unwrap_or_else(PoisonError::into_inner);
        if post.is_none() {
            *post = sorting;
        }
    }

    /// Counts a frame of the other direction that a worker has sent, or dropped.
    pub(super) fn passed_back(&self, len: u32, sent: bool) {
        if sent { &self.back } else { &self.back_dropped }.count(len);
    }
}

/// The data thread's end.
#[derive(Debug)]
pub(crate) struct DeskEnd {
    pub(crate) desk: Arc<Desk>,
    paces: Arc<Paces>,
    generation: u32,
}

/// Frames that workers forwarded and dropped by themselves since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alone {
    pub(crate) sent: Amount,
    pub(crate) dropped: Amount,
}

impl DeskEnd {
    /// The end of `desk` with the first generation.
    pub(crate) fn new(desk: Arc<Desk>, sortings: &mut Sortings) -> Self {
        let mut end = Self { desk, paces: Arc::clone(&sortings.paces), generation: 0 };
        end.post(sortings);
        end
    }

    /// Number of the present generation.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Gives the workers another generation. What is left in `sortings` is to be freed elsewhere.
    pub(crate) fn post(&mut self, sortings: &mut Sortings) {
        for (post, sorting) in self.desk.posts.iter().zip(&mut sortings.of_workers) {
            std::mem::swap(&mut *post.lock().unwrap_or_else(PoisonError::into_inner), sorting);
        }
        std::mem::swap(&mut self.paces, &mut sortings.paces);
        self.generation = sortings.generation;
        self.desk.posted.store(self.generation, Ordering::Release);
    }

    /// Notes that a packet of `class` leaves at `now`.
    #[inline]
    pub(crate) fn leaves(&self, now: Nanos, class: ClassId, len: u32) {
        let pace = self.paces.of(class);
        let (window, last) = (now.0 >> WINDOW, pace.window.load(Ordering::Relaxed));
        let bytes = pace.bytes.load(Ordering::Relaxed);
        if window == last {
            pace.bytes.store(bytes + u64::from(len), Ordering::Relaxed);
            return;
        }
        pace.before.store(if window == last + 1 { bytes } else { 0 }, Ordering::Relaxed);
        pace.bytes.store(u64::from(len), Ordering::Relaxed);
        pace.window.store(window, Ordering::Relaxed);
    }

    /// Gives `each` the frames that workers have forwarded and dropped of each class by themselves since the last call,
    /// and returns those of the other direction. It costs next to nothing if there are none.
    pub(crate) fn collect(&self, mut each: impl FnMut(ClassId, Alone)) -> Alone {
        if self.paces.is_used.load(Ordering::Relaxed) && self.paces.is_used.swap(false, Ordering::Acquire) {
            for (class, pace) in self.paces.classes.iter().enumerate() {
                let alone = Alone { sent: pace.sent.take(), dropped: pace.dropped.take() };
                if alone.sent.packets + alone.dropped.packets > 0 {
                    each(ClassId(class as u32), alone);
                }
            }
        }
        Alone { sent: self.desk.back.take(), dropped: self.desk.back_dropped.take() }
    }
}
