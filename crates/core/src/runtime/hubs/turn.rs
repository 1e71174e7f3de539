//! A hub: its turns, and its part in moves.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use super::rings::{note, noted};
use super::{Held, Plan};
use crate::contract::{Amount, BatchEnd, ClassId, DropReason, DropSink, Nanos, OutOfMemory, Packet, Scheduler};
use crate::parts::memory::{room, slice};
use crate::runtime::driver::{BATCH, Port, Wake};
use crate::runtime::hub::{Consumer, HubPort, NOTE, Producer};
use crate::runtime::shared::Worker;

/// A class that leaves this hub.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    top: u32,
    to: u32,
    step: Step,
}

/// The next step of a hub that a class leaves.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The notes of this many receivers are missing.
    Notes(usize),
    /// Its leaves are to go off.
    Suspend,
    /// The packets that it has sent have to leave the transmit rings.
    Drain,
    /// Its packets are handed over, from the leaf with this place among its leaves on.
    Hand(usize),
}

/// A thread that schedules: one of several hubs.
#[derive(Debug)]
pub struct Hub<H, D> {
    plan: Arc<Plan>,
    index: usize,
    worker: Worker,
    port: HubPort<H, D>,
    to_others: Vec<Producer<Packet>>,
    from_others: Vec<Consumer<Packet>>,
    /// By number of a class directly below the link: true if it is here, with all its packets.
    owns: Box<[bool]>,
    /// Packets of a class that comes, behind those that its old hub hands over.
    held: Held,
    most_held: usize,
    leaving: Option<Leaving>,
    batch: Vec<Packet>,
}

impl<H: Fn(&Packet) -> u32, D: DropSink> Hub<H, D> {
    pub(super) fn new(
        plan: &Arc<Plan>,
        (index, worker): (usize, Worker),
        port: HubPort<H, D>,
        (to_others, from_others): (Vec<Producer<Packet>>, Vec<Consumer<Packet>>),
        (home, most_held): (&[u32], usize),
    ) -> Result<Self, OutOfMemory> {
        Ok(Self {
            plan: Arc::clone(plan),
            index,
            worker,
            port,
            to_others,
            from_others,
            owns: slice(home.len(), |top| home[top] as usize == index)?,
            held: Held::with_room(most_held)?,
            most_held,
            leaving: None,
            batch: room(BATCH)?,
        })
    }

    /// Queues arrivals, takes its part in moves, and sends what the classes that are here have got, at most
    /// [`Driver::BATCH`](crate::Driver::BATCH) packets. While packets wait for room in a transmit ring, it sends
    /// nothing else, and returns that it should be called again at once.
    pub fn turn(&mut self, now: Nanos) -> Wake {
        if self.port.waiting() > 0 {
            self.port.flush(now);
        }
        self.take_handed(now);
        self.take_received(now);
        self.leave();
        if self.port.waiting() > 0 {
            return Wake::At(now);
        }
        let end = self.worker.dequeue_batch(now, BATCH, u64::MAX, &mut self.batch, &mut self.port);
        let sent = self.batch.len();
        for packet in self.batch.drain(..) {
            self.port.transmit(now, packet, now);
        }
        if sent > 0 {
            self.port.flush(now);
        }
        match end {
            _ if self.port.waiting() > 0 || self.leaving.is_some() || !self.held.is_empty() => Wake::At(now),
            BatchEnd::Full => Wake::At(now),
            BatchEnd::WaitUntil(at) => Wake::At(at),
            BatchEnd::Idle => Wake::OnArrival,
        }
    }

    /// Returns the amount queued here, with the packets that wait for a class to come or for a transmit ring.
    #[must_use]
    pub fn backlog(&self) -> Amount {
        let held = self.held.iter().fold(Amount::ZERO, |mut all, packet| {
            all.count(packet.len);
            all
        });
        self.worker.backlog() + held
    }

    /// Returns the end of the shared tree that it has.
    #[must_use]
    pub const fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Returns the rings.
    #[must_use]
    pub const fn port(&self) -> &HubPort<H, D> {
        &self.port
    }

    /// Returns the rings, mutable, for their sink of dropped packets.
    pub const fn port_mut(&mut self) -> &mut HubPort<H, D> {
        &mut self.port
    }

    /// Queues the packets that other hubs hand over, as far as there is room. Behind the last one come those that were
    /// held.
    fn take_handed(&mut self, now: Nanos) {
        for from in 0..self.from_others.len() {
            while self.worker.room() > 0
                && let Ok(packet) = self.from_others[from].pop()
            {
                if packet.class != NOTE {
                    self.worker.enqueue(now, packet, &mut self.port);
                    continue;
                }
                let (top, _) = noted(&packet);
                self.owns[top as usize] = true;
                while let Some(packet) = self.held.pop() {
                    self.worker.enqueue(now, packet, &mut self.port);
                }
                // `Release`: who sees it may announce the next move.
                self.plan.moves.done.fetch_add(1, Ordering::Release);
            }
        }
    }

    fn take_received(&mut self, now: Nanos) {
        let mut batch = core::mem::take(&mut self.batch);
        self.port.receive(now, &mut batch);
        for packet in batch.drain(..) {
            if packet.class == NOTE {
                self.count_note(&packet);
                continue;
            }
            let top = self.plan.top(packet.class);
            if let Some(top) = top {
                let taken = &self.plan.taken[self.index][top as usize];
                // No other thread writes it.
                taken.store(taken.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            if top.is_none_or(|top| self.owns[top as usize]) {
                self.worker.enqueue(now, packet, &mut self.port);
            } else if self.held.len() < self.most_held {
                self.held.push(packet);
            } else {
                self.port.dropped(now, packet, DropReason::TotalPackets);
            }
        }
        self.batch = batch;
    }

    /// Counts the note of a receiver that pushes no more packets of a class here.
    fn count_note(&mut self, packet: &Packet) {
        let (top, to) = noted(packet);
        let first = Leaving { top, to, step: Step::Notes(self.plan.receivers) };
        let leaving = self.leaving.get_or_insert(first);
        if let Step::Notes(left) = &mut leaving.step {
            *left -= 1;
            if *left == 0 {
                leaving.step = Step::Suspend;
            }
        }
    }

    /// Makes the steps of a class that leaves, as far as they can be made.
    fn leave(&mut self) {
        while let Some(leaving) = self.leaving {
            let Some(step) = self.next_step(leaving) else { return };
            self.leaving = step.map(|step| Leaving { step, ..leaving });
        }
    }

    /// Makes a step of the class that leaves. Returns the next one: `Some(None)` if this was the last, `None` if it
    /// cannot be made yet.
    fn next_step(&mut self, Leaving { top, to, step }: Leaving) -> Option<Option<Step>> {
        let leaves = self.plan.leaves(top);
        match step {
            Step::Notes(_) => None,
            Step::Suspend => self.worker.suspend(leaves, &mut self.port).then(|| {
                self.port.mark();
                Some(Step::Drain)
            }),
            Step::Drain => self.port.has_passed_mark().then_some(Some(Step::Hand(0))),
            Step::Hand(at) => {
                let ring = &mut self.to_others[to as usize];
                if ring.is_full() {
                    return None;
                }
                let Some(&leaf) = leaves.get(at) else {
                    let _ = ring.push(note(top, to));
                    self.owns[top as usize] = false;
                    return Some(None);
                };
                let Some(packet) = self.worker.take_out(leaf, &mut self.port) else {
                    return Some(Some(Step::Hand(at + 1)));
                };
                let _ = ring.push(packet);
                Some(Some(step))
            }
        }
    }

    /// Returns true if the leaves of `class` are here.
    #[must_use]
    pub fn has(&self, class: ClassId) -> bool {
        self.plan.top(class).is_some_and(|top| self.owns[top as usize])
    }
}
