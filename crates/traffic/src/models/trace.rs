//! Packets as they were recorded: their times and lengths, from a capture or a trace file.
//!
//! The first recorded packet comes when the source becomes active, and all others at their distances from it. In a part
//! of a recording, such as the packets of one class, the first keeps its distance from the start of the recording.

use std::sync::Arc;

use fairlink_core::{NANOS_PER_SEC, Nanos};

use super::{Arrival, Process};
use crate::error::SourceError;
use crate::random::Random;

/// Recorded packets. A clone shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// In the order of time, counted from the beginning of the recording.
    packets: Arc<[Arrival]>,
    shortest: u32,
    longest: u32,
    repeat: bool,
}

impl Trace {
    /// Makes a trace of the recorded `packets`. They are sorted by time, and the first is moved to time zero. With
    /// `repeat`, they start over forever: after the last packet by the mean distance of two.
    ///
    /// # Errors
    /// [`SourceError::EmptyTrace`]; a packet without bytes.
    pub fn new(packets: Vec<Arrival>, repeat: bool) -> Result<Self, SourceError> {
        let first = packets.iter().map(|packet| packet.at).min().unwrap_or_default();
        Self::since(first, packets, repeat)
    }

    /// Makes a part of a recording that began at `origin`. The origin moves to time zero instead of the first packet.
    ///
    /// # Errors
    /// As [`Trace::new`].
    pub(crate) fn since(origin: Nanos, mut packets: Vec<Arrival>, repeat: bool) -> Result<Self, SourceError> {
        if packets.is_empty() {
            return Err(SourceError::EmptyTrace);
        }
        packets.sort_by_key(|packet| packet.at);
        packets.iter_mut().for_each(|packet| packet.at = packet.at.saturating_sub(origin));
        let lengths = packets.iter().map(|packet| packet.len);
        let (shortest, longest) = (lengths.clone().min().unwrap_or(0), lengths.max().unwrap_or(0));
        if shortest == 0 {
            return Err(SourceError::EmptyPacket);
        }
        Ok(Self { packets: packets.into(), shortest, longest, repeat })
    }

    /// Returns the packets, with the beginning of the recording at time zero.
    #[must_use]
    pub fn packets(&self) -> &[Arrival] {
        &self.packets
    }

    /// Returns the shortest and longest packet, in bytes.
    #[must_use]
    pub fn range(&self) -> (u32, u32) {
        (self.shortest, self.longest)
    }

    /// Time from the beginning to the next repetition.
    #[must_use]
    pub fn period(&self) -> Nanos {
        let (last, count) = (self.packets.last().map_or(Nanos::ZERO, |last| last.at), self.packets.len() as u64);
        // A single packet comes again after a second, packets of one instant after a nanosecond.
        let mean = if count > 1 { last.0 / (count - 1) } else { NANOS_PER_SEC };
        last.saturating_add(Nanos(mean.max(1)))
    }

    /// Bytes per second that a link accounts for, over its [`Trace::period`].
    pub(crate) fn bytes_per_second(&self, accounted: impl Fn(u32) -> u32) -> f64 {
        let bytes: u64 = self.packets.iter().map(|packet| u64::from(accounted(packet.len))).sum();
        bytes as f64 / (self.period().0 as f64 / NANOS_PER_SEC as f64)
    }
}

/// A trace during playback.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    trace: Trace,
    period: Nanos,
    start: Nanos,
    next: usize,
}

impl Replay {
    pub(super) fn new(trace: &Trace) -> Self {
        Self { trace: trace.clone(), period: trace.period(), start: Nanos::ZERO, next: 0 }
    }
}

impl Process for Replay {
    fn start(&mut self, start: Nanos, _: &mut Random) {
        (self.start, self.next) = (start, 0);
    }

    fn next(&mut self, _: &mut Random) -> Option<Arrival> {
        if self.next == self.trace.packets.len() {
            if !self.trace.repeat {
                return None;
            }
            self.start = self.start.saturating_add(self.period);
            self.next = 0;
        }
        let Arrival { at, len } = self.trace.packets[self.next];
        self.next += 1;
        Some(Arrival { at: self.start.saturating_add(at), len })
    }
}
