//! Conservation of waiting: a scheduler that keeps the link busy only decides which packets wait.
//!
//! On the same arrivals the bytes in all queues are the same at any time under every work-conserving scheduler, except
//! for the packet on the link. So bytes times their wait add up to the same (Kleinrock's conservation law), and no flow
//! can wait longer under one scheduler than all flows together under another. That bounds the differences of delays,
//! from the runs of one scheduler alone.

use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::Nanos;
use fairlink_sim::{Fate, Observer, Options, PacketSeen};

use super::flows::{SCHEDULERS, runs};
use crate::claims::{ClaimError, Lab, Workload};

/// Bytes times the time that they waited, in byte seconds, of the latency-critical flow and of the others: all runs together.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits {
    /// Byte seconds of the first class: the latency-critical flow.
    pub(super) first: f64,
    /// Byte seconds of all others.
    pub(super) others: f64,
}

impl Waits {
    /// Returns the sum over all flows.
    pub(super) fn all(self) -> f64 {
        self.first + self.others
    }
}

/// Byte nanoseconds of the latency-critical flow and of the others. Packets in the queues at the end have waited until
/// then.
struct Watch {
    sums: [i128; 2],
    queued: [i128; 2],
    last: Nanos,
    total: Arc<Mutex<[i128; 2]>>,
}

impl Watch {
    fn flow(packet: &PacketSeen) -> usize {
        // The link has the number 0, and the latency-critical flow is the first class.
        usize::from(packet.class.0 != 1)
    }
}

impl Observer for Watch {
    fn came(&mut self, packet: &PacketSeen) {
        self.queued[Self::flow(packet)] += i128::from(packet.len);
        self.sums[Self::flow(packet)] -= i128::from(packet.len) * i128::from(packet.arrived.0);
        self.last = self.last.max(packet.arrived);
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        let at = match fate {
            Fate::Sent { start, .. } => start,
            Fate::Dropped { at, .. } => at,
        };
        self.queued[Self::flow(packet)] -= i128::from(packet.len);
        self.sums[Self::flow(packet)] += i128::from(packet.len) * i128::from(at.0);
        self.last = self.last.max(at);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        for flow in 0..2 {
            total[flow] += self.sums[flow] + self.queued[flow] * i128::from(self.last.0);
        }
    }
}

/// Measures bytes and their waits under a scheduler.
pub(super) fn waits(lab: &Lab<'_>, workload: &Workload, scheduler: usize) -> Result<Waits, ClaimError> {
    let total = Arc::new(Mutex::new([0i128; 2]));
    let observer = || -> Box<dyn Observer> {
        Box::new(Watch { sums: [0; 2], queued: [0; 2], last: Nanos::ZERO, total: Arc::clone(&total) })
    };
    lab.watched(workload, &SCHEDULERS[scheduler..][..1], runs(lab), &Options::default(), Some(&observer))?;
    let [first, others] = *total.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Waits { first: first as f64 / 1e9, others: others as f64 / 1e9 })
}
