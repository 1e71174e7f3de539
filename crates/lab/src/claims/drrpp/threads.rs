//! Section 4.1: two threads that share the flow list. One enqueues, the other dequeues, and each waits only while the other uses the list.
//!
//! The threads are real ([`shared`]); time is the link's, so that the results do not depend on the machine. They run in
//! two ways:
//! * By the clock of the link: the enqueuing thread passes a packet once the link's clock has reached its arrival, and
//!   the dequeuing thread asks for the next packet once all arrivals by then are there. The departures and their times
//!   are compared with the simulator, which has one thread.
//! * At full speed: no thread reads a clock, and the order of calls differs in each run. All calls are recorded in the
//!   order in which the list took them. One thread repeats them with another scheduler, and all answers are compared.

use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::registry::find;
use fairlink_core::{ClassId, Driver, DropReason, Hierarchy, Leniency, Nanos, Next, Pacer, Packet, Rate, Scheduler};
use fairlink_sim::{Fate, Observer, Options, PacketSeen};

use super::flows::SCHEDULERS;
use super::load::bare;
use crate::claims::{ClaimError, Finding, Lab, Row, Table, Unit};
use shared::{Pace, Played, play};

mod shared;

/// Packets per second of each best-effort flow: 98.4 % of the link, so that flows wait.
const LAMBDA: u32 = 20;

/// A packet as it comes. Its place among all is its number.
#[derive(Clone, Copy, Debug)]
struct Coming {
    at: Nanos,
    class: ClassId,
    len: u32,
}

impl Coming {
    fn packet(&self, number: usize) -> Packet {
        Packet { handle: number as u64, len: self.len, class: self.class }
    }
}

/// A packet that left: its number, and when its last bit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    number: u64,
    done: Nanos,
}

/// A call of the flow list, with the time that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// The packet with this number was queued.
    Enqueue { at: Nanos, number: usize },
    /// A call for the next packet.
    Dequeue { at: Nanos, left: Option<Left> },
}

/// The state that the two threads share: a scheduler with its flow list, and the link behind it.
struct FlowList {
    rate: Rate,
    driver: Driver<Box<dyn Scheduler>>,
    dropped: usize,
    /// All calls, in their order.
    calls: Vec<Call>,
}

impl FlowList {
    fn new(tree: &Hierarchy, scheduler: &str) -> Result<Self, ClaimError> {
        let info = find(scheduler).ok_or_else(|| ClaimError::other(format!("there is no scheduler {scheduler}")))?;
        let scheduler = info.build(tree, Leniency::Ignore, Vec::new()).map_err(ClaimError::other)?;
        // Of a nanosecond, as the simulator has it: fractions are carried over.
        let driver = Driver::new(scheduler, Pacer::new(tree.link().rate, Nanos(1))).map_err(ClaimError::other)?;
        Ok(Self { rate: tree.link().rate, driver, dropped: 0, calls: Vec::new() })
    }

    fn enqueue(&mut self, at: Nanos, number: usize, packet: Packet) {
        let mut drops = |_: Nanos, _: Packet, _: DropReason| self.dropped += 1;
        self.driver.enqueue(at, packet, &mut drops);
        self.calls.push(Call::Enqueue { at, number });
    }

    fn dequeue(&mut self, at: Nanos) -> Next {
        let mut drops = |_: Nanos, _: Packet, _: DropReason| self.dropped += 1;
        let next = self.driver.next(at, &mut drops);
        let left = match &next {
            Next::Packet { packet, done } => Some(Left { number: packet.handle, done: *done }),
            Next::Wait(_) => None,
        };
        self.calls.push(Call::Dequeue { at, left });
        next
    }

    /// Returns the packets that left, in their order.
    fn left(&self) -> impl Iterator<Item = Left> {
        self.calls.iter().filter_map(|call| match call {
            Call::Dequeue { left, .. } => *left,
            Call::Enqueue { .. } => None,
        })
    }
}

/// One run of the simulator: the arrivals, and the departure of the last bit of each packet; `None` for those that were
/// queued at the end.
#[derive(Default)]
struct OneThread {
    coming: Vec<Coming>,
    done: Vec<Option<Nanos>>,
    dropped: usize,
}

struct Recorder(Arc<Mutex<OneThread>>);

impl Observer for Recorder {
    fn came(&mut self, packet: &PacketSeen) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.coming.push(Coming { at: packet.arrived, class: packet.class, len: packet.len });
        seen.done.push(None);
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match fate {
            Fate::Sent { done, .. } => {
                if let Some(known) = seen.done.get_mut(packet.number as usize) {
                    *known = Some(done);
                }
            }
            Fate::Dropped { .. } => seen.dropped += 1,
        }
    }
}

/// Packets that did not leave once, and those that left before one of their flow that came earlier.
fn account(coming: &[Coming], left: impl Iterator<Item = Left>) -> (usize, usize) {
    let mut times = vec![0u32; coming.len()];
    let mut last = std::collections::BTreeMap::new();
    let (mut strange, mut overtaken) = (0, 0);
    for Left { number, .. } in left {
        let Some(packet) = coming.get(number as usize) else {
            strange += 1;
            continue;
        };
        times[number as usize] += 1;
        let before = last.insert(packet.class, number);
        overtaken += usize::from(before.is_some_and(|before| before >= number));
    }
    (strange + times.iter().filter(|&&times| times != 1).count(), overtaken)
}

/// Counts answers that differ from those of one thread that makes the same calls in the same order with its own
/// scheduler.
fn repeated(coming: &[Coming], calls: &[Call], mut alone: FlowList) -> usize {
    for call in calls {
        match *call {
            Call::Enqueue { at, number } => alone.enqueue(at, number, coming[number].packet(number)),
            Call::Dequeue { at, .. } => drop(alone.dequeue(at)),
        }
    }
    alone.calls.iter().zip(calls).filter(|(alone, shared)| alone != shared).count()
}

/// Counts packets that leave at another time than under one thread. The simulator has an end, but the threads continue
/// until all packets have left. Those that were queued at its end count if they leave before the last that it sent.
fn elsewhere(one: &OneThread, left: impl Iterator<Item = Left>) -> usize {
    let last = one.done.iter().flatten().max().copied().unwrap_or(Nanos::ZERO);
    let mut of_two = vec![None; one.done.len()];
    for Left { number, done } in left {
        if let Some(known) = of_two.get_mut(number as usize) {
            *known = Some(done);
        }
    }
    let differs = |(one, two): (&Option<Nanos>, &Option<Nanos>)| match (one, two) {
        (None, Some(two)) => *two <= last,
        (one, two) => one != two,
    };
    one.done.iter().zip(&of_two).filter(|&pair| differs(pair)).count()
}

/// Returns the mean delay in seconds, from the arrival to the last bit, of the packets of a class.
fn mean_delay(coming: &[Coming], class: ClassId, left: impl Iterator<Item = Left>) -> f64 {
    let of_class = left.filter_map(|left| {
        let packet = coming.get(left.number as usize).filter(|packet| packet.class == class)?;
        Some(left.done.saturating_sub(packet.at).0 as f64 / 1e9)
    });
    let (count, sum) = of_class.fold((0u32, 0.0), |(count, sum), delay| (count + 1, sum + delay));
    sum / f64::from(count)
}

/// Tests Section 4.1.
pub(super) fn threads(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let duration = format!("{}s", lab.by_effort(20, 100));
    let workload = bare(LAMBDA)?.with(&[("duration", &duration)])?;
    let (mut judged, mut shown) = (Vec::new(), Vec::new());
    let mut table = Table::new(
        "Calls, and how many of them found the list in use by the other thread: another number in each run",
        &["run", "packets", "enqueue calls", "list in use", "dequeue calls", "list in use"],
    );
    for scheduler in SCHEDULERS {
        let seen = Arc::new(Mutex::new(OneThread::default()));
        let observer = || -> Box<dyn Observer> { Box::new(Recorder(Arc::clone(&seen))) };
        lab.watched(&workload, &[scheduler], 1, &Options::default(), Some(&observer))?;
        let one = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
        if one.dropped > 0 {
            return Err(ClaimError::other("the simulator dropped a packet"));
        }
        let tree = workload.read(scheduler)?.link.tree;
        for (name, pace) in [("by the link's clock", Pace::Link), ("at full speed", Pace::None)] {
            let Played { list, waits } = play(lab, &one.coming, FlowList::new(&tree, scheduler)?, pace)?;
            let run = format!("{scheduler}, {name}");
            let (not_once, overtaken) = account(&one.coming, list.left());
            let never = |what: &str, count: usize| Row::never(format!("{run}: {what}"), count);
            judged.push(never("calls while the other thread used the list", waits.together));
            judged.push(never("waits for more than one call of the other thread", waits.long));
            judged.push(never("packets that did not leave once", not_once + list.dropped));
            judged.push(never("packets out of order within their flow", overtaken));
            let alone = FlowList::new(&tree, scheduler)?;
            judged
                .push(never("calls that one thread would answer otherwise", repeated(&one.coming, &list.calls, alone)));
            if pace == Pace::Link {
                judged.push(never(
                    "packets that leave at another time than under one thread",
                    elsewhere(&one, list.left()),
                ));
                let delay = mean_delay(&one.coming, tree.leaves()[0], list.left());
                shown.push(Row::shown(format!("{run}: mean delay of the latency-critical flow"), Unit::Seconds, delay));
            }
            let [enqueuing, dequeuing] = waits.calls;
            let [enqueue_waits, dequeue_waits] = waits.in_use;
            let cells = [one.coming.len() as u64, enqueuing, enqueue_waits, dequeuing, dequeue_waits];
            table.row(std::iter::once(run).chain(cells.map(|cell| cell.to_string())));
        }
    }
    judged.extend(shown);
    let note = format!(
        "Two threads of the operating system share one scheduler, as in Figure 4.1: one enqueues and one dequeues. The traffic is that of Figure 5.1 with {LAMBDA} packets/s of each best-effort flow, {duration}. \
         The text does not say how the list is kept; here each call stands in line for it, so that a thread waits for one call of the other at most. Time is the link's and not the machine's. \
         By the link's clock, the same packets leave at the same nanosecond as in the simulator, which has one thread, so that shares and delays are the same. At full speed the order of calls is another in each run; \
         one thread repeats it. The text's next sentence, that two threads need less overhead than two processes that share memory, is not judged. It is about memory management buffers that a switch between processes \
         flushes. A count of switches does not show them, a time would be that of the machine, and a scheduler cannot lie in memory that processes share without unsafe code, which this laboratory has none of. \
         Our gateway has one data thread for both, which never waits for a list."
    );
    Ok(Finding::new(note, judged).with_table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> (Vec<Coming>, Vec<Left>) {
        let coming = |at, class| Coming { at: Nanos(at), class: ClassId(class), len: 100 };
        let left = |number, done| Left { number, done: Nanos(done) };
        (vec![coming(0, 1), coming(1, 2), coming(2, 1)], vec![left(1, 10), left(0, 20), left(2, 30)])
    }

    #[test]
    fn lost_repeated_strange_and_overtaking_packets_are_counted() {
        let (coming, left) = one();
        let account = |left: &[Left]| account(&coming, left.iter().copied());
        assert_eq!(account(&left), (0, 0));
        assert_eq!(account(&left[..2]), (1, 0));
        assert_eq!(account(&[left[0], left[1], left[1], left[2]]), (1, 1));
        assert_eq!(account(&[left[0], left[2], left[1]]), (0, 1));
        let strange = Left { number: 7, done: Nanos(5) };
        assert_eq!(account(&[strange, left[0], left[1], left[2]]), (1, 0));
    }

    #[test]
    fn packets_that_leave_at_another_time_than_under_one_thread_are_counted() {
        let (coming, left) = one();
        let mut alone = OneThread { coming, done: vec![Some(Nanos(20)), Some(Nanos(10)), None], dropped: 0 };
        let elsewhere = |alone: &OneThread, left: &[Left]| elsewhere(alone, left.iter().copied());
        // The last one leaves after the simulator's end.
        assert_eq!(elsewhere(&alone, &left), 0);
        assert_eq!(elsewhere(&alone, &left[1..]), 1);
        alone.done = vec![Some(Nanos(30)), Some(Nanos(10)), Some(Nanos(20))];
        assert_eq!(elsewhere(&alone, &left), 2);
    }

    #[test]
    fn an_answer_that_one_thread_would_not_give_is_counted() {
        let tree = bare(LAMBDA).unwrap().read("drr++").unwrap().link.tree;
        let coming: Vec<Coming> =
            [1, 2, 1].iter().map(|&class| Coming { at: Nanos::ZERO, class: ClassId(class), len: 100 }).collect();
        let list = || FlowList::new(&tree, "drr++").unwrap();
        let mut calls = list();
        for (number, packet) in coming.iter().enumerate() {
            calls.enqueue(packet.at, number, packet.packet(number));
        }
        let mut now = Nanos::ZERO;
        while let Next::Packet { done, .. } = calls.dequeue(now) {
            now = done;
        }
        assert_eq!(account(&coming, calls.left()), (0, 0));
        assert_eq!(repeated(&coming, &calls.calls, list()), 0);
        // The dequeuing thread got another packet than the list has for it.
        if let Call::Dequeue { left: Some(left), .. } = &mut calls.calls[3] {
            left.number += 1;
        }
        assert_eq!(repeated(&coming, &calls.calls, list()), 1);
    }
}
