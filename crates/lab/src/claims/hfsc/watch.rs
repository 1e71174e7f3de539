//! Every packet of a simulated run, and the misses of deadlines of curves.

use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::{ClassId, Hierarchy, Nanos};
use fairlink_sim::{Fate, Observer, Options, PacketSeen};
use fairlink_theory::deadlines::DeadlineMeter;

use crate::claims::{ClaimError, Lab, Workload};

/// A packet that has left. Times are in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub class: ClassId,
    pub arrived: f64,
    /// Time at which its first bit left.
    pub start: f64,
    /// Time at which its last bit left.
    pub done: f64,
    /// In bytes.
    pub len: f64,
}

/// The record of a run.
#[derive(Debug, Default)]
pub(super) struct Record {
    names: Vec<String>,
    /// In the order in which they left.
    pub packets: Vec<Sent>,
    /// By class, the largest miss of a deadline in seconds.
    misses: Vec<Option<f64>>,
}

impl Record {
    /// Returns the packets of these classes.
    pub(super) fn of<'a>(&'a self, names: &'a [&'a str]) -> impl Iterator<Item = &'a Sent> {
        self.packets.iter().filter(|packet| names.contains(&self.names[packet.class.index()].as_str()))
    }

    /// Returns the delays of the packets of a class that came in [from, to), all in seconds: arrival, and time until
    /// the last bit left.
    pub(super) fn delays(&self, name: &str, from: f64, to: f64) -> Vec<(f64, f64)> {
        let within = |packet: &&Sent| packet.arrived >= from && packet.arrived < to;
        let names = [name];
        self.of(&names).filter(within).map(|packet| (packet.arrived, packet.done - packet.arrived)).collect()
    }

    /// Bytes of these classes whose last bit left in (from, to].
    pub(super) fn bytes(&self, names: &[&str], from: f64, to: f64) -> f64 {
        self.of(names).filter(|packet| packet.done > from && packet.done <= to).map(|packet| packet.len).sum()
    }

    /// Returns the longest time from one packet to the next of a class that always had packets, in (from, to].
    pub(super) fn longest_gap(&self, name: &str, from: f64, to: f64) -> f64 {
        let (mut last, mut gap) = (from, 0.0f64);
        for packet in self.of(&[name]).filter(|packet| packet.done > from && packet.done <= to) {
            gap = gap.max(packet.start - last);
            last = packet.done;
        }
        gap.max(to - last)
    }

    /// Returns the worst miss of a deadline of the class's curve, in seconds.
    ///
    /// # Errors
    /// It has no curve, or no packet was sent.
    pub(super) fn miss(&self, name: &str) -> Result<f64, ClaimError> {
        let index = self.names.iter().position(|known| known == name);
        let miss = index.and_then(|index| self.misses[index]);
        miss.ok_or_else(|| ClaimError::other(format!("{name} has no deadlines")))
    }

    /// Returns the largest miss of each leaf that sent, in seconds.
    pub(super) fn misses(&self) -> impl Iterator<Item = f64> {
        self.misses.iter().flatten().copied()
    }

    /// Returns the largest miss of any leaf, in seconds.
    pub(super) fn worst_miss(&self) -> f64 {
        self.misses().fold(0.0, f64::max)
    }

    /// Bytes of these classes against time since `from`, two points for each packet, until `to`.
    pub(super) fn course(&self, names: &[&str], from: f64, to: f64) -> Vec<(f64, f64)> {
        let mut sent = 0.0;
        let mut points = vec![(from, 0.0)];
        for packet in self.of(names).filter(|packet| packet.done > from && packet.start < to) {
            points.push((packet.start.max(from), sent));
            let part = (packet.done.min(to) - packet.start) / (packet.done - packet.start);
            sent += packet.len * part;
            points.push((packet.done.min(to), sent));
        }
        points.push((to, sent));
        points
    }

    /// Returns the mean rate of a class in windows of `every` seconds: the middle of each and bit/s.
    pub(super) fn rates(&self, name: &str, every: f64, to: f64) -> Vec<(f64, f64)> {
        let mut bytes = vec![0.0; (to / every) as usize];
        for packet in self.of(&[name]) {
            if let Some(window) = bytes.get_mut((packet.done / every) as usize) {
                *window += packet.len;
            }
        }
        let middle = |window: usize| (window as f64 + 0.5) * every;
        bytes.into_iter().enumerate().map(|(window, bytes)| (middle(window), 8.0 * bytes / every)).collect()
    }
}

/// Returns the mean of the second numbers.
pub(super) fn mean(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64
}

/// Returns the largest of the second numbers.
pub(super) fn largest(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|point| point.1).fold(0.0, f64::max)
}

struct Watch {
    meter: DeadlineMeter,
    leaves: Vec<ClassId>,
    record: Record,
    out: Arc<Mutex<Record>>,
}

pub(super) fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

impl Observer for Watch {
    fn arrived(&mut self, now: Nanos, class: ClassId, _: u32) {
        self.meter.arrived(now, class);
    }

    fn dropped(&mut self, _: Nanos, class: ClassId, _: u32, _: fairlink_core::DropReason) {
        self.meter.dropped(class);
    }

    fn sent(&mut self, _: Nanos, done: Nanos, class: ClassId, len: u32) {
        self.meter.sent(done, class, len);
    }

    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        if let Fate::Sent { start, done } = fate {
            let [arrived, start, done] = [packet.arrived, start, done].map(seconds);
            self.record.packets.push(Sent { class: packet.class, arrived, start, done, len: f64::from(packet.len) });
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for &leaf in &self.leaves {
            self.record.misses[leaf.index()] = self.meter.worst(leaf).map(seconds);
        }
        *self.out.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut self.record);
    }
}

/// Makes one run. Deadlines are those of `curves`, whose classes are the workload's.
pub(super) fn record(
    lab: &Lab<'_>,
    workload: &Workload,
    scheduler: &str,
    curves: &Workload,
) -> Result<Record, ClaimError> {
    let file = curves.read("hfsc")?;
    let tree: &Hierarchy = &file.link.tree;
    let out = Arc::new(Mutex::new(Record::default()));
    let make = || -> Box<dyn Observer> {
        let record = Record { names: file.names.clone(), packets: Vec::new(), misses: vec![None; tree.len()] };
        let meter = DeadlineMeter::new(tree, false);
        Box::new(Watch { meter, leaves: tree.leaves().to_vec(), record, out: Arc::clone(&out) })
    };
    lab.watched(workload, &[scheduler], 1, &Options::default(), Some(&make))?;
    Ok(std::mem::take(&mut *out.lock().unwrap_or_else(PoisonError::into_inner)))
}
