//! A scheduler, the packets that it has, and those on their way back to it.

use std::hint::black_box;

use fairlink_core::{
    BatchEnd, ClassId, Dequeued, DropReason, DropSink, Hierarchy, Leniency, Members, Nanos, Packet, Scheduler,
};

use crate::error::WorkloadError;
use crate::random::Random;
use crate::rings::Rings;
use crate::shape::{BATCH, Calls, RATE, Shape};
use crate::subject::Subject;

/// A gateway's record of a packet: a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Record {
    arrived: Nanos,
    class: u32,
    times: u32,
}

/// The object that the workload drives.
enum Driven {
    Scheduler(Box<dyn Scheduler>),
    /// No scheduler: packets leave in a fixed random order of their handles, so that their records are as far apart as
    /// under a scheduler.
    Nothing {
        order: Vec<u32>,
        next: usize,
    },
}

/// A scheduler with packets, and those on their way back to it.
pub struct Workload {
    driven: Driven,
    name: &'static str,
    shape: Shape,
    leaves: Vec<ClassId>,
    random: Random,
    /// Classes of the packets on their way. A packet sent takes a random place here, and the one that was there arrives.
    away: Vec<u32>,
    records: Vec<Record>,
    batch: Vec<Packet>,
    now: Nanos,
    drops: Drops,
}

/// Counts drops; there should be none.
#[derive(Debug, Default)]
struct Drops(u64);

impl DropSink for Drops {
    fn dropped(&mut self, _now: Nanos, _packet: Packet, _reason: DropReason) {
        self.0 += 1;
    }
}

impl Workload {
    /// Makes `subject` on the tree of `shape`, with all packets that are not on their way.
    ///
    /// # Errors
    /// [`WorkloadError::Tree`], [`WorkloadError::Build`].
    pub fn new(subject: Subject, shape: Shape) -> Result<Self, WorkloadError> {
        Self::on(&shape.tree()?, subject, shape)
    }

    /// Makes `subject` on a tree of one's own, with the packets that `shape` would have on a tree of as many leaves.
    ///
    /// # Errors
    /// [`WorkloadError::Build`].
    pub fn on(tree: &Hierarchy, subject: Subject, mut shape: Shape) -> Result<Self, WorkloadError> {
        shape.leaves = tree.leaves().len();
        let mut random = Random::new();
        let mut senders = tree.leaves().to_vec();
        random.shuffle(&mut senders);
        senders.truncate(shape.pattern.senders(senders.len()));
        let each = shape.pattern.packets_each(shape.leaves);
        let mut classes: Vec<u32> = (0..each).flat_map(|_| senders.iter().map(|class| class.0)).collect();
        random.shuffle(&mut classes);
        let away = classes.split_off(classes.len() - (classes.len() / shape.pattern.away_one_in()).max(1));
        let mut handles: Vec<u32> = (0..classes.len() as u32).collect();
        random.shuffle(&mut handles);
        let records = vec![Record::default(); if shape.record { handles.len() } else { 0 }];
        let mut driven = match subject {
            Subject::Harness => Driven::Nothing { order: handles.clone(), next: 0 },
            Subject::Rings => Driven::Scheduler(Box::new(Rings::new(tree, each))),
            Subject::Scheduler(info) => match info.build(tree, Leniency::Ignore, Members::new()) {
                Ok(scheduler) => Driven::Scheduler(scheduler),
                Err(source) => return Err(WorkloadError::Build { scheduler: info.name, source }),
            },
        };
        let mut drops = Drops::default();
        if let Driven::Scheduler(scheduler) = &mut driven {
            for (class, handle) in classes.into_iter().zip(handles) {
                let packet = Packet { handle: u64::from(handle), len: shape.len, class: ClassId(class) };
                scheduler.enqueue(Nanos::ZERO, packet, &mut drops);
            }
        }
        Ok(Self {
            driven,
            name: subject.name(),
            shape,
            leaves: senders,
            random,
            away,
            records,
            batch: Vec::with_capacity(BATCH),
            now: Nanos::ZERO,
            drops,
        })
    }

    /// Sends and receives at least `packets` packets; returns the number.
    ///
    /// # Errors
    /// [`WorkloadError::Misbehaved`].
    pub fn run(&mut self, packets: u64) -> Result<u64, WorkloadError> {
        let mut done = 0;
        while done < packets {
            done += match self.shape.calls {
                Calls::Batches => self.batch()?,
                Calls::Single => self.singles()?,
            };
        }
        if self.drops.0 > 0 { Err(self.misbehaved("dropped packets that it had room for")) } else { Ok(done) }
    }

    /// Share of the sending leaves that have packets now, from 0 to 1; 1 without a scheduler.
    #[must_use]
    pub fn busy(&self) -> f64 {
        let Driven::Scheduler(scheduler) = &self.driven else { return 1.0 };
        let busy = self.leaves.iter().filter(|&&class| scheduler.class_backlog(class).packets > 0).count();
        busy as f64 / self.leaves.len() as f64
    }

    /// Takes a batch out and puts as many packets in.
    fn batch(&mut self) -> Result<u64, WorkloadError> {
        match &mut self.driven {
            Driven::Scheduler(scheduler) => loop {
                let end = scheduler.dequeue_batch(self.now, BATCH, u64::MAX, &mut self.batch, &mut self.drops);
                match end {
                    _ if !self.batch.is_empty() => break,
                    // One that holds packets back is waited for.
                    BatchEnd::WaitUntil(t) if t > self.now => self.now = t,
                    _ => return Err(self.misbehaved(SENT_NOTHING)),
                }
            },
            Driven::Nothing { order, next } => {
                let end = (*next + BATCH).min(order.len());
                let packet =
                    |&handle: &u32| Packet { handle: u64::from(handle), len: self.shape.len, class: ClassId(handle) };
                self.batch.extend(order[*next..end].iter().map(packet));
                *next = if end < order.len() { end } else { 0 };
            }
        }
        let sent = self.batch.len() as u64;
        // The link takes its time.
        self.now = self.now.saturating_add(RATE.time_for_bytes(sent * u64::from(self.shape.len)));
        if self.shape.record {
            for packet in &self.batch {
                touch(&mut self.records, packet, self.now);
            }
        }
        for packet in &mut self.batch {
            turn_around(&mut self.away, &mut self.random, packet);
        }
        match &mut self.driven {
            Driven::Scheduler(scheduler) => scheduler.enqueue_batch(self.now, &mut self.batch, &mut self.drops),
            Driven::Nothing { .. } => {
                black_box(&self.batch);
                self.batch.clear();
            }
        }
        Ok(sent)
    }

    /// Moves [`BATCH`] packets, one out and one in at a time.
    fn singles(&mut self) -> Result<u64, WorkloadError> {
        for _ in 0..BATCH {
            let mut packet = match &mut self.driven {
                Driven::Scheduler(scheduler) => loop {
                    match scheduler.dequeue(self.now, &mut self.drops) {
                        Dequeued::Packet(packet) => break packet,
                        Dequeued::WaitUntil(t) if t > self.now => self.now = t,
                        _ => return Err(self.misbehaved(SENT_NOTHING)),
                    }
                },
                Driven::Nothing { order, next } => {
                    let handle = order[*next];
                    *next = if *next + 1 < order.len() { *next + 1 } else { 0 };
                    Packet { handle: u64::from(handle), len: self.shape.len, class: ClassId(handle) }
                }
            };
            self.now = self.now.saturating_add(RATE.time_for(packet.len));
            if self.shape.record {
                touch(&mut self.records, &packet, self.now);
            }
            turn_around(&mut self.away, &mut self.random, &mut packet);
            match &mut self.driven {
                Driven::Scheduler(scheduler) => scheduler.enqueue(self.now, packet, &mut self.drops),
                Driven::Nothing { .. } => {
                    black_box(packet);
                }
            }
        }
        Ok(BATCH as u64)
    }

    fn misbehaved(&self, what: &'static str) -> WorkloadError {
        WorkloadError::Misbehaved { scheduler: self.name, leaves: self.shape.leaves, what }
    }
}

const SENT_NOTHING: &str = "sent nothing while packets were queued";

/// Puts the packet at a random place among those on their way. The packet there takes its place, with the same handle.
#[inline]
fn turn_around(away: &mut [u32], random: &mut Random, packet: &mut Packet) {
    let place = random.below(away.len());
    packet.class = ClassId(std::mem::replace(&mut away[place], packet.class.0));
}

/// Reads and writes the packet's record.
#[inline]
fn touch(records: &mut [Record], packet: &Packet, now: Nanos) {
    if let Some(record) = records.get_mut(packet.handle as usize) {
        record.times = record.times.wrapping_add(u32::from(record.arrived != now));
        record.arrived = now;
        record.class = packet.class.0;
    }
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
