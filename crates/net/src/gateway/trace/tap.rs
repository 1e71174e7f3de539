//! The data thread's end of a trace.

use std::sync::Arc;

use fairlink_core::{ClassId, Nanos};
use fairlink_report::DropCause;

use super::record::{BEGIN, DROPPED, HEAD_WORDS, MISSED, QUEUED, SENT, SHORT_WORDS};
use super::ring::{Ring, Writer};

/// Time for packets in the gateway to end after the trace was stopped.
const GRACE: Nanos = Nanos::from_secs(1);

/// The number of a frame that is not recorded.
const NONE: u64 = u64::MAX;

/// State of a frame's packet until its end.
#[derive(Clone, Copy, Debug)]
struct Mark {
    number: u64,
    /// Time when the scheduler gave it to the link.
    start: Nanos,
}

/// A packet at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing<'a> {
    pub(crate) class: ClassId,
    /// Length on the wire in bytes.
    pub(crate) len: u32,
    pub(crate) accounted: u32,
    pub(crate) received: Nanos,
    /// Its bytes, as far as kept.
    pub(crate) bytes: &'a [u8],
}

/// Its end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gone {
    /// The interface has accepted it.
    Sent(Nanos),
    Dropped(Nanos, DropCause),
    /// It is in a queue when the gateway ends.
    Queued,
}

/// See the module. Times in arguments are the data path's; those in records count from 1970.
#[derive(Debug)]
pub(crate) struct TraceWriter {
    writer: Writer,
    /// By frame of the pool.
    marks: Box<[Mark]>,
    /// Generation of the classes: number of earlier changes.
    generation: u64,
    /// Most bytes of a packet.
    snap: u32,
    /// Time since 1970 at the data path's zero, in ns.
    zero_ns: u64,
    next: u64,
    under_way: u64,
    missed: u64,
    /// Time until which packets in the gateway are waited for.
    ending: Option<Nanos>,
}

impl TraceWriter {
    pub(super) fn new(ring: Arc<Ring>, frames: usize, generation: u64, snap: u32) -> Self {
        Self {
            writer: Writer::new(ring),
            marks: vec![Mark { number: NONE, start: Nanos::ZERO }; frames].into(),
            generation,
            snap,
            zero_ns: 0,
            next: 0,
            under_way: 0,
            missed: 0,
            ending: None,
        }
    }

    /// Generation of the classes: number of earlier changes.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// From now on packets are recorded.
    pub(crate) fn start(&mut self, zero_ns: u64) {
        self.zero_ns = zero_ns;
        self.short(0, BEGIN);
    }

    /// Returns true if the trace is over at `now`: it was stopped, and packets in the gateway have ended or their time
    /// is over.
    pub(crate) fn is_over(&mut self, now: Nanos) -> bool {
        if self.ending.is_none() && self.writer.ring().is_asked_to_stop() {
            self.ending = Some(now.saturating_add(GRACE));
        }
        self.ending.is_some_and(|until| self.under_way == 0 || now >= until)
    }

    /// Reports the end to the reader.
    pub(crate) fn close(&self) {
        self.writer.close(self.missed, self.under_way);
    }

    /// The packet in `frame` was fetched.
    pub(crate) fn came(&mut self, frame: u32) {
        if self.ending.is_some() {
            return;
        }
        if !self.writer.has_room(SHORT_WORDS * (self.under_way + 1)) {
            self.missed += 1;
            return;
        }
        self.marks[frame as usize].number = self.next;
        self.next += 1;
        self.under_way += 1;
    }

    /// Records that the scheduler gave the packet in `frame` to the link.
    pub(crate) fn left(&mut self, frame: u32, now: Nanos) {
        self.marks[frame as usize].start = now;
    }

    /// Records the end of the packet in `frame`.
    pub(crate) fn gone(&mut self, frame: u32, packet: Passing<'_>, gone: Gone) {
        let mark = &mut self.marks[frame as usize];
        let Mark { number, start } = *mark;
        if number == NONE {
            return;
        }
        mark.number = NONE;
        self.under_way -= 1;
        let bytes = &packet.bytes[..packet.bytes.len().min(self.snap as usize)];
        let words = HEAD_WORDS + bytes.len().div_ceil(8) as u64;
        if !self.writer.has_room(words + SHORT_WORDS * self.under_way) {
            self.missed += 1;
            self.short(number, MISSED);
            return;
        }
        let (kind, reason, start, done) = match gone {
            Gone::Sent(done) => (SENT, 0, start, done),
            Gone::Dropped(at, cause) => (DROPPED, cause as u8, at, at),
            Gone::Queued => (QUEUED, 0, Nanos::ZERO, Nanos::ZERO),
        };
        let time = |time: Nanos| time.0.saturating_add(self.zero_ns);
        let times = [time(packet.received), time(start), time(done)];
        let writer = &mut self.writer;
        writer.put(number);
        writer.put(kind | u64::from(reason) << 8 | u64::from(packet.class.0) << 32);
        writer.put(u64::from(packet.len) | u64::from(packet.accounted) << 32);
        writer.put(bytes.len() as u64);
        times.into_iter().for_each(|time| writer.put(time));
        let (whole, rest) = bytes.as_chunks();
        whole.iter().for_each(|&word| writer.put(u64::from_le_bytes(word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            writer.put(u64::from_le_bytes(word));
        }
        writer.publish();
    }

    /// A record that always has room.
    fn short(&mut self, number: u64, kind: u64) {
        self.writer.put(number);
        self.writer.put(kind);
        self.writer.publish();
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        self.close();
    }
}
