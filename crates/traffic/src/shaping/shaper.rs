//! A shaper: a queue that lets packets out as soon as they conform.

use std::collections::VecDeque;

use fairlink_core::{Amount, Nanos, QueueLimits};

use super::gate::Gate;
use crate::curve::{ArrivalCurve, CurveError};

/// The reason for which a shaper has lost a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its queue was full.
    NoRoom,
    /// The packet is longer than the curve ever passes.
    TooLong,
}

/// Delays packets until they conform to a curve. Packets leave in the order in which they came.
///
/// A departure depends only on earlier packets, so it is known on arrival.
#[derive(Clone, Debug)]
pub struct Shaper {
    gate: Gate,
    limits: Option<QueueLimits>,
    /// In a limited queue: the departure times of its packets, and their lengths.
    waiting: VecDeque<(Nanos, u32)>,
    waiting_bytes: u64,
    /// When the last packet came, and when it leaves.
    now: Nanos,
    free: Nanos,
    lost: Amount,
}

impl Shaper {
    /// Makes a shaper that holds its output to `curve`. Its queue has these limits or is never full.
    ///
    /// # Errors
    /// Fails if the curve passes nothing.
    pub fn new(curve: &ArrivalCurve, limits: Option<QueueLimits>) -> Result<Self, CurveError> {
        curve.check()?;
        Ok(Self {
            gate: Gate::new(curve),
            limits,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            now: Nanos::ZERO,
            free: Nanos::ZERO,
            lost: Amount::default(),
        })
    }

    /// Adds a packet of `len` bytes at `at`. Returns the time at which it leaves. Times that go back count as the last
    /// one.
    ///
    /// # Errors
    /// Why it is lost.
    pub fn arrive(&mut self, at: Nanos, len: u32) -> Result<Nanos, Lost> {
        self.now = self.now.max(at);
        let left =
            if self.has_room(len) { self.gate.pass(self.now, len).ok_or(Lost::TooLong) } else { Err(Lost::NoRoom) };
        match left {
            Ok(leaves) => {
                self.free = leaves;
                if self.limits.is_some() && leaves > self.now {
                    self.waiting.push_back((leaves, len));
                    self.waiting_bytes += u64::from(len);
                }
            }
            Err(_) => {
                self.lost.packets += 1;
                self.lost.bytes += u64::from(len);
            }
        }
        left
    }

    /// Packets and bytes that it has lost.
    #[must_use]
    pub fn lost(&self) -> Amount {
        self.lost
    }

    /// Departure time of the last packet so far.
    #[must_use]
    pub fn free_at(&self) -> Nanos {
        self.free
    }

    /// Instants that its windows remember, and packets that wait in a limited queue.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.gate.remembered() + self.waiting.len()
    }

    /// Returns true if the queue takes `len` more bytes now.
    fn has_room(&mut self, len: u32) -> bool {
        let Some(limits) = self.limits else { return true };
        while let Some(&(leaves, len)) = self.waiting.front()
            && leaves <= self.now
        {
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(len);
        }
        self.waiting.len() < limits.packets as usize && self.waiting_bytes + u64::from(len) <= u64::from(limits.bytes)
    }
}
