//! The flow list between an enqueuing and a dequeuing thread, and the two threads.
//!
//! A thread that wants the list takes a number and waits for its turn. So it waits only while the other thread uses the
//! list, and for at most one call of it: the other thread's next call is behind.
//!
//! By the link's clock, both threads do the same as one thread would. The dequeuing thread calls at time T only after
//! all packets that come by T are there. Packets of later times may come during the call, up to the duration of a
//! shortest packet on the link. With packets queued, the link is busy at least that long, and packets that come by then
//! are in line behind the awaited call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use fairlink_core::{NANOS_PER_SEC, Nanos, Next, Wake};

use super::{Coming, FlowList};
use crate::claims::{ClaimError, Lab};

/// The pace of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// The clock of the link.
    Link,
    /// No pace: each runs as fast as it can.
    None,
}

/// The most packets that are queued at full speed, fewer than a queue holds.
const ROOM: u64 = 64;
/// Number of calls between checks for the end.
const ASK_EVERY: u64 = 64;

/// The two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Enqueuing,
    Dequeuing,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Enqueuing => Self::Dequeuing,
            Self::Dequeuing => Self::Enqueuing,
        }
    }
}

/// Counts of the threads' encounters. Pairs are of the enqueuing and of the dequeuing thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// Calls.
    pub(super) calls: [u64; 2],
    /// Calls that found the list in use.
    pub(super) in_use: [u64; 2],
    /// Calls that waited for more than one call of the other thread.
    pub(super) long: usize,
    /// Calls that began while the other thread used the list.
    pub(super) together: usize,
}

/// The shared state of the threads.
#[derive(Debug, Default)]
struct Line {
    /// Numbers that were taken, and those whose turn is over.
    taken: u64,
    over: u64,
    /// Packets that were handed over, and those that left.
    handed: u64,
    left: u64,
    /// Up to when packets may be handed over.
    clock: Nanos,
    /// Time of the next packet that is not handed over; `None` after the last.
    coming: Option<Nanos>,
    /// A thread ended before its work was done.
    failed: bool,
    waits: Waits,
}

/// The list and the line for it.
struct Gate {
    line: Mutex<Line>,
    moved: Condvar,
    list: Mutex<FlowList>,
    together: AtomicUsize,
}

impl Gate {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready`, or until the other thread failed.
    fn until(&self, ready: impl Fn(&Line) -> bool) -> Result<MutexGuard<'_, Line>, ClaimError> {
        self.go_on(self.line(), ready)
    }

    fn go_on<'g>(
        &'g self,
        line: MutexGuard<'g, Line>,
        ready: impl Fn(&Line) -> bool,
    ) -> Result<MutexGuard<'g, Line>, ClaimError> {
        let waiting = |line: &mut Line| !line.failed && !ready(line);
        let line = self.moved.wait_while(line, waiting).unwrap_or_else(PoisonError::into_inner);
        if line.failed { Err(ClaimError::other("the other thread ended early")) } else { Ok(line) }
    }

    /// Makes one call of the list: `work`, on this thread's turn, and then `after`.
    fn call<T>(
        &self,
        side: Side,
        mut line: MutexGuard<'_, Line>,
        work: impl FnOnce(&mut FlowList) -> T,
        after: impl FnOnce(&mut Line, &T),
    ) -> Result<T, ClaimError> {
        let (own, other) = (side as usize, side.other() as usize);
        let number = line.taken;
        line.taken += 1;
        let before = line.waits.calls[other];
        line.waits.in_use[own] += u64::from(line.over != number);
        let mut line = self.go_on(line, |line| line.over == number)?;
        line.waits.long += usize::from(line.waits.calls[other] - before > 1);
        drop(line);
        let mut list = match self.list.try_lock() {
            Ok(list) => list,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.together.fetch_add(1, Ordering::Relaxed);
                self.list.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        let result = work(&mut list);
        drop(list);
        let mut line = self.line();
        line.over += 1;
        line.waits.calls[own] += 1;
        after(&mut line, &result);
        self.moved.notify_all();
        Ok(result)
    }
}

/// A guard that ends the other thread, whatever the reason of this one's end.
struct Ending<'g> {
    gate: &'g Gate,
    done: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.gate.line().failed = true;
            self.gate.moved.notify_all();
        }
    }
}

/// The two threads: their arrivals, and their pace.
struct Threads<'w, 'l> {
    lab: &'w Lab<'l>,
    gate: &'w Gate,
    coming: &'w [Coming],
    pace: Pace,
    /// Duration of a shortest packet on the link.
    shortest: Nanos,
}

impl Threads<'_, '_> {
    fn run(&self, thread: fn(&Self) -> Result<(), ClaimError>) -> Result<(), ClaimError> {
        let mut ending = Ending { gate: self.gate, done: false };
        let result = thread(self);
        ending.done = result.is_ok();
        result
    }

    /// Runs the enqueuing thread.
    fn enqueue(&self) -> Result<(), ClaimError> {
        for (number, packet) in self.coming.iter().enumerate() {
            if (number as u64).is_multiple_of(ASK_EVERY) {
                self.lab.go_on()?;
            }
            let line = self.gate.until(|line| match self.pace {
                Pace::Link => packet.at <= line.clock,
                Pace::None => line.handed - line.left < ROOM,
            })?;
            let next = self.coming.get(number + 1).map(|packet| packet.at);
            self.gate.call(
                Side::Enqueuing,
                line,
                |list| list.enqueue(packet.at, number, packet.packet(number)),
                |line, ()| {
                    line.handed += 1;
                    line.coming = next;
                },
            )?;
        }
        Ok(())
    }

    /// Runs the dequeuing thread.
    fn dequeue(&self) -> Result<(), ClaimError> {
        let mut now = Nanos::ZERO;
        // A packet takes one call, and one more if the link had nothing to send before it.
        for calls in 0..=2 * self.coming.len() as u64 {
            if calls.is_multiple_of(ASK_EVERY) {
                self.lab.go_on()?;
            }
            // All arrivals by now are there.
            let mut line = self.gate.until(|line| match self.pace {
                Pace::Link => line.coming.is_none_or(|coming| coming > now),
                Pace::None => line.handed > line.left || line.coming.is_none(),
            })?;
            let queued = line.handed > line.left;
            if !queued && line.coming.is_none() {
                return Ok(());
            }
            if queued {
                line.clock = line.clock.max(now.saturating_add(self.shortest));
                self.gate.moved.notify_all();
            }
            let next = self.gate.call(
                Side::Dequeuing,
                line,
                |list| list.dequeue(now),
                |line, next| match next {
                    Next::Packet { done, .. } => {
                        line.left += 1;
                        line.clock = line.clock.max(*done);
                    }
                    // No packet is queued: the next event is the next arrival.
                    Next::Wait(_) => line.clock = line.clock.max(line.coming.unwrap_or(line.clock)),
                },
            )?;
            now = match next {
                Next::Packet { done, .. } => done,
                Next::Wait(Wake::At(then)) => then,
                Next::Wait(Wake::OnArrival) => now.max(self.gate.line().clock),
            };
        }
        Err(ClaimError::other("the scheduler keeps packets back"))
    }
}

/// The results of two threads.
pub(super) struct Played {
    /// The list, with all calls.
    pub(super) list: FlowList,
    /// Counts of their encounters.
    pub(super) waits: Waits,
}

/// Runs the two threads until all of `coming`, which is in the order of time, has left.
///
/// # Errors
/// [`ClaimError::Stopped`]; a thread that could not be made or panicked.
pub(super) fn play(lab: &Lab<'_>, coming: &[Coming], list: FlowList, pace: Pace) -> Result<Played, ClaimError> {
    let shortest = coming.iter().map(|packet| u64::from(packet.len)).min().unwrap_or(0);
    let shortest = Nanos(shortest * 8 * NANOS_PER_SEC / list.rate.bps());
    let line = Line { coming: coming.first().map(|packet| packet.at), ..Line::default() };
    let gate =
        Gate { line: Mutex::new(line), moved: Condvar::new(), list: Mutex::new(list), together: AtomicUsize::new(0) };
    let threads = Threads { lab, gate: &gate, coming, pace, shortest };
    thread::scope(|scope| {
        let enqueuing = thread::Builder::new().spawn_scoped(scope, || threads.run(Threads::enqueue));
        // Without the first thread the second has nothing to wait for.
        let enqueuing = enqueuing.map_err(ClaimError::other)?;
        let dequeued = threads.run(Threads::dequeue);
        let enqueued = enqueuing.join().unwrap_or_else(|_| Err(ClaimError::other("the enqueuing thread panicked")));
        lab.go_on()?;
        dequeued.and(enqueued)
    })?;
    let together = gate.together.into_inner();
    let line = gate.line.into_inner().unwrap_or_else(PoisonError::into_inner);
    let list = gate.list.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Played { list, waits: Waits { together, ..line.waits } })
}

#[cfg(test)]
mod tests {
    use fairlink_core::ClassId;

    use super::super::{LAMBDA, bare};
    use super::*;
    use crate::claims::Effort;

    fn list() -> FlowList {
        FlowList::new(&bare(LAMBDA).unwrap().read("drr++").unwrap().link.tree, "drr++").unwrap()
    }

    fn coming(packets: u64) -> Vec<Coming> {
        (0..packets).map(|n| Coming { at: Nanos(n * 20_000_000), class: ClassId(1 + n as u32 % 4), len: 400 }).collect()
    }

    #[test]
    fn a_thread_that_ends_early_lets_the_other_end() {
        // Asked once when the threads begin, and then in the middle of their work.
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) > 2;
        let lab = Lab::new(Effort::Quick, 2, &stop);
        for pace in [Pace::Link, Pace::None] {
            asked.store(0, Ordering::Relaxed);
            assert!(matches!(play(&lab, &coming(1000), list(), pace), Err(ClaimError::Stopped)), "{pace:?}");
        }
    }

    #[test]
    fn calls_do_not_overlap_and_each_waits_for_one_of_the_other_at_most() {
        let never = || false;
        let lab = Lab::new(Effort::Quick, 2, &never);
        for pace in [Pace::Link, Pace::None] {
            let coming = coming(2000);
            let Played { list, waits } = play(&lab, &coming, list(), pace).unwrap();
            assert_eq!((waits.together, waits.long, waits.calls[0]), (0, 0, 2000), "{pace:?}");
            assert_eq!(list.left().count(), 2000);
        }
    }

    #[test]
    fn nothing_comes_and_nothing_leaves() {
        let never = || false;
        let lab = Lab::new(Effort::Quick, 2, &never);
        let Played { list, waits } = play(&lab, &[], list(), Pace::Link).unwrap();
        assert_eq!((list.calls.len(), waits.calls), (0, [0, 0]));
    }
}
