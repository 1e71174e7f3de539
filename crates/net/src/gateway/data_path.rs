//! The data path of the gateway, one turn at a time. A turn fetches frames from the input, classifies and enqueues
//! them, dequeues due packets, and hands them to the output. Then it forwards the other direction, unshaped. The data
//! path runs over any [`Backend`] and any [`Clock`], so that tests run it without a network.
//!
//! Two invariants hold after every turn:
//! * For each class, received = sent + dropped + queued.
//! * Each frame in use is in a queue, waits for an interface, or is owned by a backend. A backend owns the frames that
//!   it holds for reception and those accepted for sending.
//!
//! A frame counts as sent when the output accepts it. Its place in the pool is free when the output gives it back.
//!
//! A turn fetches a batch. If frames arrive faster than that, the kernel's buffer would overflow, and the kernel drops
//! frames of all classes alike. So while many frames wait there, a turn continues to fetch and sheds load. It drops a
//! frame of a class with a long queue right after classification, which costs little. A class that sends less than its
//! share has no long queue. It loses nothing as long as frames are fetched and classified as fast as they arrive.
//!
//! At most [`BATCH`] packets wait for each interface. While the output is busy, nothing is dequeued. While the input is
//! busy, nothing is fetched from the output. So no frame is lost to a busy interface.

use fairlink_config::matching::{Classifier, ethernet};
use fairlink_core::{ClassId, Driver, DropReason, DropSink, Metered, Nanos, Overhead, Packet, Port, Scheduler, Wake};
use fairlink_report::DropCause;

use crate::gateway::outlet::{BUSY_RETRY, Outcome, Outlet};
use crate::gateway::queue_lengths::QueueLengths;
use crate::gateway::stats::{EdgeCounters, ReverseStats};
use crate::gateway::trace::{Gone, Passing, TraceWriter};
use crate::io::backend::{Arrival, BATCH, Backend, BackendError, Condition};
use crate::io::clock::{Clock, MonotonicClock};
use crate::io::frame_pool::{FramePool, Growth};
use crate::io::port::RealPort;
use crate::wire::labels::{Labels, mark_congestion};

/// Profiles one in `SAMPLE_EVERY` busy turns in detail. A prime, so that samples do not alias with the traffic.
pub(crate) const SAMPLE_EVERY: u64 = 61;

/// Maximum number of additional batches in a turn while it sheds.
const SHED_BATCHES: usize = 16;

/// Processor time of the turns that were timed in detail, in ns, and the packets that passed in them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampled {
    pub(crate) turns: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) total: u64,
    pub(crate) receive: u64,
    pub(crate) classify: u64,
    pub(crate) enqueue: u64,
    pub(crate) send: u64,
    pub(crate) reverse: u64,
}

impl Sampled {
    /// Time of pacing, the driving loop and dequeueing: the rest of the turns.
    pub(crate) fn dequeue(&self) -> u64 {
        self.total.saturating_sub(self.receive + self.classify + self.enqueue + self.send + self.reverse)
    }
}

/// The class-dependent parts of a data path, and additional frames for its pool.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) classifier: Classifier,
    pub(crate) labels: Labels,
    pub(crate) overhead: Overhead,
    pub(crate) counters: EdgeCounters,
    pub(crate) queues: QueueLengths,
    pub(crate) growth: Option<Growth>,
}

/// All parts of the path except the scheduler; see the module.
#[derive(Debug)]
pub(crate) struct DataPath<I, O, C> {
    pub(crate) pool: FramePool,
    pub(crate) input: I,
    pub(crate) output: O,
    pub(crate) clock: C,
    pub(crate) classifier: Classifier,
    pub(crate) labels: Labels,
    pub(crate) overhead: Overhead,
    pub(crate) counters: EdgeCounters,
    pub(crate) queues: QueueLengths,
    /// `None` if the other direction is not forwarded.
    pub(crate) reverse: Option<ReverseStats>,
    /// True while the kernel's buffer is nearly full, so that frames of classes with long queues are dropped at once.
    shedding: bool,
    /// True while fetched frames are too old to be sent.
    discarding: bool,
    /// True if frames are still fetched.
    pub(crate) receiving: bool,
    /// Sending sides: the output, and the input for the other direction.
    pub(crate) onward: Outlet,
    pub(crate) backward: Outlet,
    pub(crate) sampled: Sampled,
    /// Times one in this number of busy turns in detail.
    pub(crate) sample_every: u64,
    /// Writer of a trace, if one is recorded.
    pub(crate) tap: Option<Box<TraceWriter>>,
    arrivals: Vec<Arrival>,
    intake: Vec<Packet>,
    /// Packets from the scheduler that wait for the output; `frames` is scratch space for their frames.
    outgoing: Vec<Packet>,
    frames: Vec<u32>,
    /// Frames of the other direction that wait for the input.
    back: Vec<u32>,
    moved: bool,
    sampling: bool,
    /// Time when the last frame of a batch was classified, in a turn that is timed in detail.
    classified: Nanos,
    working_turns: u64,
    error: Option<BackendError>,
}

/// The data path between two real interfaces.
pub(super) type RealPath = DataPath<RealPort, RealPort, MonotonicClock>;
/// The configured scheduler, with its traffic counted.
pub(super) type AnyScheduler = Metered<Box<dyn Scheduler>>;

impl<I: Backend, O: Backend, C: Clock> DataPath<I, O, C> {
    /// Frames that the pool needs besides those of the queues. They are held for reception on both sides, within a
    /// turn, waiting for an interface, or being sent by an interface.
    pub(crate) const RESERVE: u32 = 6 * BATCH as u32 + I::MOST_OWNED + O::MOST_OWNED;

    #[expect(clippy::too_many_arguments, reason = "the parts of the path, each made elsewhere")]
    pub(crate) fn new(
        pool: FramePool,
        input: I,
        output: O,
        clock: C,
        classifier: Classifier,
        labels: Labels,
        overhead: Overhead,
        counters: EdgeCounters,
        queues: QueueLengths,
        reverse: bool,
    ) -> Self {
        Self {
            pool,
            input,
            output,
            clock,
            classifier,
            labels,
            overhead,
            counters,
            queues,
            reverse: reverse.then(ReverseStats::default),
            shedding: false,
            discarding: false,
            receiving: true,
            onward: Outlet::default(),
            backward: Outlet::default(),
            sampled: Sampled::default(),
            sample_every: SAMPLE_EVERY,
            tap: None,
            arrivals: Vec::with_capacity(BATCH),
            intake: Vec::with_capacity(BATCH),
            outgoing: Vec::with_capacity(BATCH),
            frames: Vec::with_capacity(BATCH),
            back: Vec::with_capacity(BATCH),
            moved: false,
            sampling: false,
            classified: Nanos::ZERO,
            working_turns: 0,
            error: None,
        }
    }

    /// Runs one turn of both directions. Returns whether any frame moved, and when the next turn is due if nothing
    /// arrives before.
    pub(crate) fn turn<S: Scheduler>(
        &mut self,
        now: Nanos,
        driver: &mut Driver<S>,
    ) -> Result<(bool, Wake), BackendError> {
        self.moved = false;
        self.sampling = self.working_turns.is_multiple_of(self.sample_every);
        let (before, began) = (self.sampled, self.lap());
        self.reclaim();
        if !self.outgoing.is_empty() && now >= self.onward.retry_at() {
            self.flush(now);
        }
        // Fetch more than the batch that a turn sends, so that the queues of the heaviest senders grow.
        for _ in 0..SHED_BATCHES {
            if !self.shedding {
                break;
            }
            self.take_in(now, driver);
        }
        let wake = if self.outgoing.is_empty() {
            driver.turn(now, self)
        } else {
            self.take_in(now, driver);
            Wake::At(self.onward.retry_at())
        };
        let started = self.lap();
        if self.reverse.is_some() {
            self.reverse_turn(now);
        }
        if self.sampling {
            let end = self.lap();
            self.sampled.reverse += end.saturating_sub(started).0;
            self.sampled.total += end.saturating_sub(began).0;
            self.sampled.turns += 1;
            if !self.moved {
                self.sampled = before;
            }
        }
        if self.moved {
            self.working_turns += 1;
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok((self.moved, wake)),
        }
    }

    /// Switches to other classes. `class_map` maps each old class to its successor. The replaced parts are left in
    /// `parts`. Does not allocate.
    pub(crate) fn exchange(&mut self, parts: &mut Parts, class_map: &[Option<ClassId>]) {
        let Parts { classifier, labels, overhead, counters, queues, growth } = parts;
        counters.inherit(&self.counters, class_map);
        queues.inherit(&self.queues, class_map);
        labels.inherit(&mut self.labels, class_map);
        std::mem::swap(&mut self.classifier, classifier);
        std::mem::swap(&mut self.labels, labels);
        std::mem::swap(&mut self.overhead, overhead);
        std::mem::swap(&mut self.counters, counters);
        std::mem::swap(&mut self.queues, queues);
        for packet in &mut self.outgoing {
            packet.class = class_map.get(packet.class.index()).copied().flatten().unwrap_or(ClassId::ROOT);
        }
        if let Some(growth) = growth {
            self.pool.grow(growth);
        }
    }

    /// Passes a batch of arrivals to the scheduler.
    fn take_in<S: Scheduler>(&mut self, now: Nanos, driver: &mut Driver<S>) {
        let mut batch = std::mem::take(&mut self.intake);
        self.receive(now, &mut batch);
        driver.scheduler_mut().enqueue_batch(now, &mut batch, self);
        self.enqueued();
        self.intake = batch;
    }

    /// Returns frames that have left to the pool.
    pub(crate) fn reclaim(&mut self) {
        self.input.reclaim(&mut self.pool);
        self.output.reclaim(&mut self.pool);
    }

    /// Returns the frame of a packet to the pool that was in the scheduler when the gateway ended.
    pub(crate) fn take_back(&mut self, packet: &Packet) {
        if let Some(tap) = &mut self.tap {
            tap.gone(packet.handle as u32, passing(&self.pool, packet), Gone::Queued);
        }
        self.pool.give_back(packet.handle as u32);
    }

    /// Returns all frames outside of the scheduler to the pool. Returns true if the pool is complete then, as it is if
    /// the scheduler has no packets.
    pub(crate) fn release(&mut self) -> bool {
        while let Some(packet) = self.outgoing.pop() {
            self.take_back(&packet);
        }
        self.back.drain(..).for_each(|frame| self.pool.give_back(frame));
        self.input.release(&mut self.pool);
        self.output.release(&mut self.pool);
        self.pool.free() == self.pool.frames()
    }

    /// Processor time of this thread if this turn is timed in detail; else zero, at no cost. Time while others have the
    /// processor counts for no stage.
    #[inline]
    fn lap(&self) -> Nanos {
        if self.sampling { self.clock.worked() } else { Nanos::ZERO }
    }

    /// Packets waiting for the output: at most [`BATCH`].
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Packet> {
        self.outgoing.iter()
    }

    /// Returns true if no frame waits for the output.
    pub(crate) fn is_flushed(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Packets waiting for the output.
    pub(crate) fn outgoing_packets(&self) -> u64 {
        self.outgoing.len() as u64
    }

    /// Time of the next attempt at an interface, if frames wait for it or it owns frames at `now`.
    pub(crate) fn retry_at(&self, now: Nanos) -> Option<Nanos> {
        let onward = (!self.outgoing.is_empty()).then(|| self.onward.retry_at());
        let backward = (!self.back.is_empty()).then(|| self.backward.retry_at());
        let sending = self.is_sending().then(|| now.saturating_add(BUSY_RETRY));
        [onward, backward, sending].into_iter().flatten().min()
    }

    /// Returns true if an interface owns accepted frames.
    pub(crate) fn is_sending(&self) -> bool {
        self.input.owned() + self.output.owned() > 0
    }

    /// Counters of the other direction, with its waiting frames.
    pub(crate) fn reverse_stats(&self) -> Option<ReverseStats> {
        let mut stats = self.reverse?;
        for &frame in &self.back {
            stats.waiting.count(self.pool.info(frame).len);
        }
        Some(stats)
    }

    /// Returns true if each used frame is in its place, with `queued` packets in the scheduler.
    pub(crate) fn pool_agrees(&self, queued: u64) -> bool {
        let in_use = self.pool.frames() - self.pool.free();
        let held = self.input.held() + self.output.held();
        let owned = self.input.owned() + self.output.owned();
        let known = held + owned + self.outgoing.len() + self.back.len();
        in_use as u64 == known as u64 + queued
    }

    /// Returns true if fetched frames wait for the next turn, and the pool has room for them.
    pub(crate) fn has_more(&self) -> bool {
        let more = self.receiving && self.input.has_more() || self.takes_reverse() && self.output.has_more();
        more && self.pool.free() > 0
    }

    /// Returns true if more frames can be fetched from the output's side.
    pub(crate) fn takes_reverse(&self) -> bool {
        self.reverse.is_some() && self.receiving && self.back.is_empty()
    }

    /// Hands outgoing frames to the output, as many as it accepts.
    fn hand_over(&mut self, now: Nanos) {
        let Self { pool, output, clock, counters, outgoing, frames, onward, tap, .. } = self;
        frames.clear();
        frames.extend(outgoing.iter().map(|packet| packet.handle as u32));
        let (done, error) = onward.offer(now, output, pool, frames, |pool, outcome| match outcome {
            Outcome::Accepted(range) => {
                let now = clock.now();
                for (packet, &frame) in outgoing[range.clone()].iter().zip(&frames[range]) {
                    counters.sent(packet.class, packet.len, now.saturating_sub(pool.info(frame).received));
                    if let Some(tap) = tap {
                        tap.gone(frame, passing(pool, packet), Gone::Sent(now));
                    }
                }
            }
            Outcome::Refused(index, reason) => {
                let Packet { class, len, .. } = outgoing[index];
                let too_long = reason.raw_os_error() == Some(libc::EMSGSIZE);
                let cause = if too_long { DropCause::TooLong } else { DropCause::RefusedByInterface };
                counters.dropped_behind(class, len, cause);
                if let Some(tap) = tap {
                    let packet = passing(pool, &outgoing[index]);
                    tap.gone(frames[index], packet, Gone::Dropped(clock.now(), cause));
                }
            }
        });
        self.outgoing.drain(..done);
        self.moved |= done > 0;
        if self.sampling {
            self.sampled.sent += done as u64;
        }
        self.note(error);
    }

    /// Runs the other direction: fetches and hands over, first in, first out.
    fn reverse_turn(&mut self, now: Nanos) {
        let Some(mut stats) = self.reverse else { return };
        if self.takes_reverse() {
            let mut arrivals = std::mem::take(&mut self.arrivals);
            let received = self.output.receive(&mut self.pool, now, BATCH, &mut arrivals);
            self.note(received.err());
            for arrival in arrivals.drain(..) {
                self.moved = true;
                stats.received.count(arrival.len);
                if arrival.condition == Condition::Whole && arrival.len >= ethernet::HEADER as u32 {
                    self.back.push(arrival.frame);
                } else {
                    stats.dropped.count(arrival.len);
                    self.pool.give_back(arrival.frame);
                }
            }
            self.arrivals = arrivals;
        }
        let Self { pool, input, back, backward, .. } = self;
        if !back.is_empty() && now >= backward.retry_at() {
            let (done, error) = backward.offer(now, input, pool, back, |pool, outcome| match outcome {
                Outcome::Accepted(range) => {
                    back[range].iter().for_each(|&frame| stats.sent.count(pool.info(frame).len));
                }
                Outcome::Refused(index, _) => {
                    stats.dropped.count(pool.info(back[index]).len);
                    stats.refused.count(pool.info(back[index]).len);
                }
            });
            self.back.drain(..done);
            self.moved |= done > 0;
            self.note(error);
        }
        self.reverse = Some(stats);
    }

    /// Fetches up to [`BATCH`] frames, classifies them, and appends those for the scheduler to `batch`. Returns the
    /// number of fetched frames.
    fn fetch(&mut self, now: Nanos, batch: &mut Vec<Packet>) -> usize {
        let started = self.lap();
        let mut arrivals = std::mem::take(&mut self.arrivals);
        let received = self.input.receive(&mut self.pool, now, BATCH, &mut arrivals);
        self.note(received.err());
        let fetched = self.lap();
        let count = arrivals.len();
        self.moved |= count > 0;
        for Arrival { frame, len, condition } in arrivals.drain(..) {
            if self.tap.is_some() {
                // The trace shall have the packet as it will be on the wire.
                self.pool.finish_checksum(frame);
            }
            let bytes = self.pool.packet(frame);
            let headers = self.labels.headers(bytes);
            let class = self.classifier.classify(&headers.key);
            let unfit = match condition {
                _ if len < ethernet::HEADER as u32 => Some(DropCause::Runt),
                _ if self.discarding => Some(DropCause::Stale),
                Condition::Whole if self.shedding && self.queues.is_long(class) => Some(DropCause::Shed),
                Condition::Whole => None,
                Condition::TooLong => Some(DropCause::TooLong),
                Condition::Joined => Some(DropCause::Joined),
                Condition::Checksum => Some(DropCause::Checksum),
            };
            let (on_wire, len) = (len, self.overhead.accounted(len));
            if let Some(tap) = &mut self.tap {
                tap.came(frame);
            }
            match unfit {
                None => {
                    let label = self.labels.label(class, &headers, bytes);
                    self.queues.entered(class);
                    batch.push(Packet { handle: u64::from(frame) | label, len, class });
                }
                Some(cause) => {
                    self.counters.dropped_before(class, len, cause);
                    if let Some(tap) = &mut self.tap {
                        let packet = Passing { class, len: on_wire, accounted: len, received: now, bytes };
                        tap.gone(frame, packet, Gone::Dropped(now, cause));
                    }
                    self.pool.give_back(frame);
                }
            }
        }
        self.arrivals = arrivals;
        if self.sampling {
            self.sampled.receive += fetched.saturating_sub(started).0;
            self.classified = self.lap();
            self.sampled.classify += self.classified.saturating_sub(fetched).0;
            self.sampled.received += count as u64;
        }
        count
    }

    /// Keeps the first error of a turn, which ends it.
    fn note(&mut self, error: Option<BackendError>) {
        if let Some(error) = error {
            self.error.get_or_insert(error);
        }
    }
}

impl<I: Backend, O: Backend, C: Clock> DropSink for DataPath<I, O, C> {
    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason) {
        // Packets of a removed class went with it: its number may now belong to another class.
        if reason != DropReason::ClassRemoved {
            self.queues.left(packet.class);
        }
        if let Some(tap) = &mut self.tap {
            let gone = Gone::Dropped(now, reason.into());
            tap.gone(packet.handle as u32, passing(&self.pool, &packet), gone);
        }
        self.pool.give_back(packet.handle as u32);
    }

    fn marked(&mut self, _now: Nanos, packet: &Packet) {
        mark_congestion(self.pool.packet_mut(packet.handle as u32));
    }

    fn moved(&mut self, packet: &mut Packet) {
        // The new queue may need labels though the old one did not.
        let frame = packet.handle as u32;
        let bytes = self.pool.packet(frame);
        let headers = self.labels.headers(bytes);
        packet.handle = u64::from(frame) | self.labels.label(packet.class, &headers, bytes);
    }
}

impl<I: Backend, O: Backend, C: Clock> Port for DataPath<I, O, C> {
    fn receive(&mut self, now: Nanos, batch: &mut Vec<Packet>) {
        if !self.receiving {
            self.shedding = false;
            return;
        }
        // A batch that is not full has emptied the kernel's buffer.
        self.shedding = self.fetch(now, batch) == BATCH && self.input.is_flooded();
    }

    fn enqueued(&mut self) {
        if self.sampling {
            self.sampled.enqueue += self.lap().saturating_sub(self.classified).0;
        }
    }

    fn transmit(&mut self, now: Nanos, packet: Packet, _done: Nanos) {
        self.queues.left(packet.class);
        if let Some(tap) = &mut self.tap {
            tap.left(packet.handle as u32, now);
        }
        self.outgoing.push(packet);
    }

    fn flush(&mut self, now: Nanos) {
        let started = self.lap();
        self.hand_over(now);
        if self.sampling {
            self.sampled.send += self.lap().saturating_sub(started).0;
        }
    }
}

/// Describes a packet of the scheduler for a trace.
fn passing<'a>(pool: &'a FramePool, packet: &Packet) -> Passing<'a> {
    let frame = packet.handle as u32;
    let info = pool.info(frame);
    let Packet { class, len: accounted, .. } = *packet;
    Passing { class, len: info.len, accounted, received: info.received, bytes: pool.packet(frame) }
}

mod breaks;
#[cfg(test)]
mod tests;
