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
//! A super-frame is classified once, by its headers. It is dropped as a whole, without being copied, if the queue of its
//! class is full, or long while load is shed. Else its packets go to the scheduler over the next turns ([`Splitter`]).
//! Where the link allows it ([`Lengths::piece`]), several go to it as one: a piece. A piece is one packet for the
//! scheduler alone. In all counters, in a trace and for the output it is the packets that it consists of.
//!
//! At most [`BATCH`] packets or pieces wait for each interface. While the output is busy, nothing is dequeued. While the
//! input is busy, nothing is fetched from the output. So no frame is lost to a busy interface.

use std::collections::VecDeque;

use fairlink_config::matching::{Classifier, ethernet};
use fairlink_core::{ClassId, Driver, DropReason, DropSink, Metered, Nanos, Overhead, Packet, Port, Scheduler, Wake};
use fairlink_report::DropCause;

use crate::gateway::early::{Counted, EarlyDrops};
use crate::gateway::outlet::{BUSY_RETRY, Outcome, Outlet};
use crate::gateway::queue_lengths::QueueLengths;
use crate::gateway::splitter::{FOLLOWERS, MOST_IN_PIECE, OF_TURN, Out, Splits, Splitter, SuperFrame};
use crate::gateway::stats::{EdgeCounters, ReverseStats};
use crate::gateway::trace::{Gone, Passing, TraceWriter};
use crate::gateway::workers::{Alone, DeskEnd, Sortings};
use crate::io::backend::{Arrival, BATCH, Backend, BackendError, Condition, Settled};
use crate::io::clock::{Clock, MonotonicClock};
use crate::io::frame_pool::{FramePool, Growth};
use crate::io::port::RealPort;
use crate::wire::labels::{Labels, mark_congestion};

/// Profiles one in `SAMPLE_EVERY` busy turns in detail. A prime, so that samples do not alias with the traffic.
pub(crate) const SAMPLE_EVERY: u64 = 61;

/// Maximum number of packets that wait for the output: a batch of pieces.
pub(crate) const MOST_OUTGOING: usize = BATCH * MOST_IN_PIECE;

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

/// Lengths on the link, in accounted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// Longest frame.
    pub(crate) frame: u32,
    /// Longest piece of a super-frame; 0 if its packets are scheduled one by one.
    pub(crate) piece: u32,
}

/// The class-dependent parts of a data path, and additional frames for its pool.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) classifier: Classifier,
    pub(crate) labels: Labels,
    pub(crate) overhead: Overhead,
    pub(crate) lengths: Lengths,
    pub(crate) counters: EdgeCounters,
    pub(crate) queues: QueueLengths,
    pub(crate) splitter: Splitter,
    pub(crate) growth: Option<Growth>,
    /// Room for the new classes.
    pub(crate) early: Counted,
    /// For workers, if there are any.
    pub(crate) sortings: Option<Sortings>,
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
    lengths: Lengths,
    pub(crate) counters: EdgeCounters,
    pub(crate) queues: QueueLengths,
    pub(crate) splitter: Splitter,
    /// Of the other direction, whose frames are all of one class.
    pub(crate) reverse_splitter: Option<Splitter>,
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
    /// Drops in the kernel, if it allows them.
    pub(crate) early: Option<EarlyDrops>,
    /// The rates and accounts that workers share with this thread, if there are any.
    pub(crate) desk: Option<DeskEnd>,
    /// Frames that workers forwarded and dropped by themselves, until they are told.
    pub(crate) alone: Alone,
    /// Writer of a trace, if one is recorded.
    pub(crate) tap: Option<Box<TraceWriter>>,
    arrivals: Vec<Arrival>,
    intake: Vec<Packet>,
    /// Packets from the scheduler that wait for the output, those of pieces one by one; `frames` is scratch space for
    /// their frames.
    outgoing: Vec<Packet>,
    frames: Vec<u32>,
    /// Frames of the other direction that wait for the input.
    back: Vec<u32>,
    /// Packets that an interface behind workers has accepted, and frames of the other direction with their lengths, until
    /// their outcome is known.
    under_way: VecDeque<Packet>,
    back_under_way: VecDeque<(u32, u32)>,
    settled: Vec<Settled>,
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
    /// turn, behind super-frames, waiting for an interface, or being sent by an interface.
    pub(crate) const RESERVE: u32 = (6 * BATCH + OF_TURN + 2 * FOLLOWERS) as u32 + I::MOST_OWNED + O::MOST_OWNED;

    #[expect(clippy::too_many_arguments, reason = "the parts of the path, each made elsewhere")]
    pub(crate) fn new(
        pool: FramePool,
        input: I,
        output: O,
        clock: C,
        classifier: Classifier,
        labels: Labels,
        overhead: Overhead,
        lengths: Lengths,
        counters: EdgeCounters,
        queues: QueueLengths,
        splitter: Splitter,
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
            lengths,
            counters,
            queues,
            splitter,
            reverse_splitter: reverse.then(|| Splitter::new(1)),
            reverse: reverse.then(ReverseStats::default),
            shedding: false,
            discarding: false,
            receiving: true,
            onward: Outlet::default(),
            backward: Outlet::default(),
            sampled: Sampled::default(),
            sample_every: SAMPLE_EVERY,
            early: None,
            desk: None,
            alone: Alone::default(),
            tap: None,
            arrivals: Vec::with_capacity(BATCH),
            intake: Vec::with_capacity(BATCH + OF_TURN),
            outgoing: Vec::with_capacity(MOST_OUTGOING),
            frames: Vec::with_capacity(MOST_OUTGOING),
            back: Vec::with_capacity(BATCH),
            under_way: VecDeque::new(),
            back_under_way: VecDeque::new(),
            settled: Vec::new(),
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
        self.settle();
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
        self.split_in(now, driver);
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
        self.collect_alone();
        if let (Some(desk), Some(sortings)) = (&mut self.desk, &mut parts.sortings) {
            desk.post(sortings);
        }
        let Parts { classifier, labels, overhead, lengths, counters, queues, splitter, growth, early: counted, .. } =
            parts;
        if let Some(early) = &mut self.early {
            early.count_all(&mut self.counters);
            early.exchange(class_map, overhead, counted);
        }
        counters.inherit(&self.counters, class_map);
        queues.inherit(&self.queues, class_map);
        labels.inherit(&mut self.labels, class_map);
        std::mem::swap(&mut self.classifier, classifier);
        std::mem::swap(&mut self.labels, labels);
        std::mem::swap(&mut self.overhead, overhead);
        std::mem::swap(&mut self.lengths, lengths);
        std::mem::swap(&mut self.counters, counters);
        std::mem::swap(&mut self.queues, queues);
        let Self { classifier, labels, pool, .. } = self;
        splitter.inherit(&mut self.splitter, pool, class_map, |heir, bytes| {
            let headers = labels.headers(bytes);
            let class = heir.unwrap_or_else(|| classifier.classify(&headers.key));
            (class, labels.label(class, &headers, bytes))
        });
        std::mem::swap(&mut self.splitter, splitter);
        for packet in self.outgoing.iter_mut().chain(&mut self.under_way) {
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

    /// Passes packets of super-frames to the scheduler, as many as a turn has room for.
    fn split_in<S: Scheduler>(&mut self, now: Nanos, driver: &mut Driver<S>) {
        if self.splitter.is_empty() {
            return;
        }
        let began = self.lap();
        let mut batch = std::mem::take(&mut self.intake);
        let Self { splitter, pool, queues, counters, overhead, lengths, tap, shedding, .. } = self;
        splitter.turn(
            pool,
            OF_TURN,
            &mut (queues, counters, tap, &mut batch),
            |(queues, ..), class| queues.refuses(class, *shedding),
            |(queues, ..), frame| {
                let each = overhead.accounted(frame.segments.len(frame.left().start) as u32);
                queues.room(frame.class, each, lengths.piece)
            },
            |(queues, counters, tap, batch), pool, out, bytes| match out {
                Out::Packet(mut packet, count) => {
                    let mut next = Some(packet.handle as u32);
                    packet.len = 0;
                    while let Some(frame) = next {
                        if let Some(tap) = tap {
                            pool.finish_checksum(frame);
                            tap.came(frame);
                        }
                        packet.len += overhead.accounted(pool.info(frame).len);
                        next = pool.next(frame);
                    }
                    queues.entered(packet.class, count);
                    if count > 1 {
                        counters.further(packet.class).received += u64::from(count) - 1;
                    }
                    batch.push(packet);
                }
                Out::Dropped(frame, cause) => drop_rest(&frame, bytes, (now, cause), pool, (overhead, counters, tap)),
            },
        );
        self.moved = true;
        if self.sampling {
            self.classified = self.lap();
            self.sampled.classify += self.classified.saturating_sub(began).0;
        }
        driver.scheduler_mut().enqueue_batch(now, &mut batch, self);
        self.enqueued();
        self.intake = batch;
    }

    /// Returns frames that have left to the pool.
    pub(crate) fn reclaim(&mut self) {
        self.input.reclaim(&mut self.pool);
        self.output.reclaim(&mut self.pool);
    }

    /// Returns the frames of a packet or a piece to the pool that was in the scheduler when the gateway ended. Returns
    /// their number.
    pub(crate) fn take_back(&mut self, packet: Packet) -> u64 {
        u64::from(self.take_apart(packet, |path, packet| path.discard_frame(&packet, Gone::Queued)))
    }

    /// Gives each packet of a piece to `each`, in order. Returns their number; 1 for a packet alone.
    #[inline]
    fn take_apart(&mut self, piece: Packet, mut each: impl FnMut(&mut Self, Packet)) -> u32 {
        let mut count = 0;
        let mut rest = Some(piece);
        while let Some(piece) = rest {
            let (packet, others) = apart(&mut self.pool, &self.overhead, piece);
            each(self, packet);
            (rest, count) = (others, count + 1);
        }
        count
    }

    /// Returns the frame of a packet to the pool.
    fn discard_frame(&mut self, packet: &Packet, gone: Gone) {
        if let Some(tap) = &mut self.tap {
            tap.gone(packet.handle as u32, passing(&self.pool, packet), gone);
        }
        self.pool.give_back(packet.handle as u32);
    }

    /// Returns all frames outside of the scheduler to the pool. Returns true if the pool is complete then, as it is if
    /// the scheduler has no packets.
    pub(crate) fn release(&mut self) -> bool {
        while let Some(packet) = self.outgoing.pop() {
            self.take_back(packet);
        }
        self.back.drain(..).for_each(|frame| self.pool.give_back(frame));
        self.forget_super_frames();
        self.input.release(&mut self.pool);
        self.output.release(&mut self.pool);
        self.settle();
        self.pool.free() == self.pool.frames()
    }

    /// Processor time of this thread if this turn is timed in detail; else zero, at no cost. Time while others have the
    /// processor counts for no stage.
    #[inline]
    fn lap(&self) -> Nanos {
        if self.sampling { self.clock.worked() } else { Nanos::ZERO }
    }

    /// Packets waiting for the output, at most [`MOST_OUTGOING`], and those whose outcome is not known yet.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Packet> {
        self.outgoing.iter().chain(&self.under_way)
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
        // Workers wake this thread when they know the outcome.
        let later = self.output.settles_later() || self.input.settles_later();
        let sending = (!later && self.is_sending()).then(|| now.saturating_add(BUSY_RETRY));
        [onward, backward, sending].into_iter().flatten().min()
    }

    /// Returns true if an interface owns accepted frames.
    pub(crate) fn is_sending(&self) -> bool {
        self.input.owned() + self.output.owned() > 0
    }

    /// Of both directions.
    pub(crate) fn splitters(&self) -> impl Iterator<Item = &Splitter> {
        [Some(&self.splitter), self.reverse_splitter.as_ref()].into_iter().flatten()
    }

    /// Super-frames of both directions that were split.
    pub(crate) fn splits(&self) -> Splits {
        let of = self.splitters().map(Splitter::splits);
        of.fold(Splits::default(), |Splits { frames, packets }, more| Splits {
            frames: frames + more.frames,
            packets: packets + more.packets,
        })
    }

    /// Drops the super-frames of both directions, and gives the frames behind them back. None of these was counted.
    fn forget_super_frames(&mut self) {
        let Self { splitter, reverse_splitter, pool, .. } = self;
        for splitter in [Some(splitter), reverse_splitter.as_mut()].into_iter().flatten() {
            splitter.clear(DropCause::Purged, |out, _| {
                if let Out::Packet(packet, _) = out {
                    pool.give_back(packet.handle as u32);
                }
            });
        }
    }

    /// Counters of the other direction, with its waiting frames.
    pub(crate) fn reverse_stats(&self) -> Option<ReverseStats> {
        let mut stats = self.reverse?;
        for &frame in &self.back {
            stats.waiting.count(self.pool.info(frame).len);
        }
        self.back_under_way.iter().for_each(|&(_, len)| stats.waiting.count(len));
        Some(stats)
    }

    /// Returns true if each used frame is in its place, with `queued` packets or pieces in the scheduler.
    pub(crate) fn pool_agrees(&self, queued: u64) -> bool {
        let in_use = self.pool.frames() - self.pool.free();
        let held = self.input.held() + self.output.held();
        let owned = self.input.owned() + self.output.owned();
        let behind = self.splitters().map(Splitter::frames).sum::<usize>();
        let known = held + owned + behind + self.outgoing.len() + self.back.len();
        in_use as u64 == known as u64 + queued + u64::from(self.queues.all_further())
    }

    /// Returns true if frames wait for the next turn alone: fetched ones, if the pool has room for them, or frames for an
    /// interface that is not busy.
    pub(crate) fn has_more(&self) -> bool {
        let back = self.reverse_splitter.as_ref().is_some_and(|splitter| !splitter.is_empty());
        let splits = !self.splitter.is_empty() || back && self.takes_reverse();
        let more = self.receiving && self.input.has_more() || self.takes_reverse() && self.output.has_more();
        let unsent = self.onward.has_more() && !self.outgoing.is_empty();
        let unsent_back = self.backward.has_more() && !self.back.is_empty();
        (splits || more) && self.pool.free() > 0 || unsent || unsent_back
    }

    /// Returns true if more frames can be fetched from the output's side.
    pub(crate) fn takes_reverse(&self) -> bool {
        self.reverse.is_some() && self.receiving && self.back.is_empty()
    }

    /// Hands outgoing frames to the output, as many as it accepts.
    fn hand_over(&mut self, now: Nanos) {
        let Self { pool, output, clock, counters, outgoing, under_way, frames, onward, desk, tap, .. } = self;
        let later = output.settles_later();
        frames.clear();
        frames.extend(outgoing.iter().map(|packet| packet.handle as u32));
        let (done, error) = onward.offer(now, output, pool, frames, |pool, outcome| match outcome {
            Outcome::Accepted(range) if later => {
                for &Packet { handle, len, class } in &outgoing[range] {
                    if let Some(desk) = desk {
                        desk.leaves(now, class, len);
                    }
                    under_way.push_back(Packet { handle, len, class });
                }
            }
            Outcome::Accepted(range) => {
                let accepted = Settled::Accepted(clock.now());
                for packet in &outgoing[range] {
                    count_outcome(packet, accepted, pool, (counters, tap), clock);
                }
            }
            Outcome::Refused(index, reason) => {
                count_outcome(&outgoing[index], Settled::refused(&reason), pool, (counters, tap), clock);
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
            for Arrival { frame, len, condition, .. } in arrivals.drain(..) {
                self.moved = true;
                let splitter = self.reverse_splitter.as_mut().expect("there is a reverse direction");
                let place = Packet { handle: u64::from(frame), len, class: ClassId::ROOT };
                match condition {
                    Condition::Super(number) => {
                        let segments = *self.output.segments(number);
                        if let Some(buffer) = splitter.buffer(ClassId::ROOT) {
                            let fetched = self.output.fetch(&self.pool, frame, number, buffer);
                            if matches!(fetched, Ok(true)) {
                                let flow = self.pool.info(frame).flow;
                                let frame = SuperFrame::new(ClassId::ROOT, 0, segments, len as usize, now);
                                splitter.push(frame.of_flow(flow));
                            }
                            self.note(fetched.err());
                        } else {
                            for index in 0..segments.count() {
                                stats.received.count(segments.len(index) as u32);
                                stats.dropped.count(segments.len(index) as u32);
                            }
                        }
                        self.pool.give_back(frame);
                    }
                    Condition::Whole if splitter.is_waiting(ClassId::ROOT) && splitter.follow(place) => {}
                    Condition::Whole if len >= ethernet::HEADER as u32 && !splitter.is_waiting(ClassId::ROOT) => {
                        stats.received.count(len);
                        self.back.push(frame);
                    }
                    _ => {
                        stats.received.count(len);
                        stats.dropped.count(len);
                        self.pool.give_back(frame);
                    }
                }
            }
            self.arrivals = arrivals;
            if let Some(splitter) = &mut self.reverse_splitter {
                let room = BATCH - self.back.len().min(BATCH);
                splitter.turn(
                    &mut self.pool,
                    room,
                    &mut (&mut stats, &mut self.back),
                    |_, _| None,
                    |_, _| 1,
                    |(stats, back), _, out, _| {
                        if let Out::Packet(packet, _) = out {
                            stats.received.count(packet.len);
                            back.push(packet.handle as u32);
                        }
                    },
                );
            }
        }
        let Self { pool, input, back, back_under_way, backward, .. } = self;
        if !back.is_empty() && now >= backward.retry_at() {
            let later = input.settles_later();
            let (done, error) = backward.offer(now, input, pool, back, |pool, outcome| match outcome {
                Outcome::Accepted(range) if later => {
                    back_under_way.extend(back[range].iter().map(|&frame| (frame, pool.info(frame).len)));
                }
                Outcome::Accepted(range) => {
                    let accepted = Settled::Accepted(now);
                    back[range].iter().for_each(|&frame| stats.settle(pool.info(frame).len, accepted));
                }
                Outcome::Refused(index, reason) => {
                    stats.settle(pool.info(back[index]).len, Settled::refused(&reason));
                }
            });
            self.back.drain(..done);
            self.moved |= done > 0;
            self.note(error);
        }
        self.reverse = Some(stats);
    }

    /// Fetches up to [`BATCH`] frames, classifies them, and appends those for the scheduler to `batch`. Returns the
    /// number of fetched frames, and how many of them are of flows that the kernel does not know.
    fn fetch(&mut self, now: Nanos, batch: &mut Vec<Packet>) -> (usize, usize) {
        let started = self.lap();
        let mut arrivals = std::mem::take(&mut self.arrivals);
        let received = self.input.receive(&mut self.pool, now, BATCH, &mut arrivals);
        self.note(received.err());
        let fetched = self.lap();
        let count = arrivals.len();
        let mut unknown = 0;
        self.moved |= count > 0;
        let generation = self.desk.as_ref().map(|desk| desk.generation() as u16);
        for Arrival { frame, len, condition, sorted } in arrivals.drain(..) {
            if let Condition::Super(number) = condition {
                unknown += usize::from(!self.take_super_frame(now, frame, len, number));
                continue;
            }
            if self.tap.is_some() {
                // The trace shall have the packet as it will be on the wire.
                self.pool.finish_checksum(frame);
            }
            let bytes = self.pool.packet(frame);
            let known = sorted.filter(|sorted| Some(sorted.generation) == generation).map(|sorted| sorted.class);
            let headers = match known {
                Some(class) if !self.labels.are_wanted(class) => None,
                _ => Some(self.labels.headers(bytes)),
            };
            let class = match (known, &headers) {
                (Some(class), _) => class,
                (None, Some(headers)) => self.classifier.classify(&headers.key),
                (None, None) => unreachable!("headers of an unknown class are read"),
            };
            if let Some(early) = &mut self.early {
                unknown += usize::from(!early.saw(now, bytes, class));
            }
            let (on_wire, len) = (len, self.overhead.accounted(len));
            let unfit = match condition {
                _ if on_wire < ethernet::HEADER as u32 => Some(DropCause::Runt),
                _ if self.discarding => Some(DropCause::Stale),
                Condition::Whole if self.shedding && self.queues.is_long(class) => Some(DropCause::Shed),
                // The scheduler has the longest piece as its limit.
                Condition::Whole if len > self.lengths.frame => Some(DropCause::TooLong),
                Condition::Whole => None,
                Condition::TooLong => Some(DropCause::TooLong),
                Condition::Joined => Some(DropCause::Joined),
                Condition::Checksum => Some(DropCause::Checksum),
                Condition::Super(_) => None,
            };
            if let Some(tap) = &mut self.tap
                && !(unfit.is_none() && self.splitter.is_waiting(class))
            {
                tap.came(frame);
            }
            match unfit {
                None if self.splitter.is_waiting(class) => {
                    let label = headers.map_or(0, |headers| self.labels.label(class, &headers, bytes));
                    let packet = Packet { handle: u64::from(frame) | label, len: on_wire, class };
                    if !self.splitter.follow(packet) {
                        if let Some(tap) = &mut self.tap {
                            tap.came(frame);
                        }
                        self.drop_fetched(now, frame, class, (len, on_wire), DropCause::Shed);
                    }
                }
                None => {
                    let label = headers.map_or(0, |headers| self.labels.label(class, &headers, bytes));
                    self.queues.entered(class, 1);
                    batch.push(Packet { handle: u64::from(frame) | label, len, class });
                }
                Some(cause) => {
                    if let (DropCause::Shed, Some(early)) = (cause, &mut self.early) {
                        early.drop_class(class);
                    }
                    self.drop_fetched(now, frame, class, (len, on_wire), cause);
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
        (count, unknown)
    }

    /// Drops the frame in `frame`, of `class`, with this accounted length and length on the wire.
    fn drop_fetched(&mut self, now: Nanos, frame: u32, class: ClassId, (len, on_wire): (u32, u32), cause: DropCause) {
        self.counters.dropped_before(class, len, cause);
        if let Some(tap) = &mut self.tap {
            let bytes = self.pool.packet(frame);
            let packet = Passing { class, len: on_wire, accounted: len, received: now, bytes };
            tap.gone(frame, packet, Gone::Dropped(now, cause));
        }
        self.pool.give_back(frame);
    }

    /// Classifies super-frame `number` of the input, of `len` bytes, whose first bytes are in `frame`, and copies it if it
    /// will be split. Returns true if the kernel knows its flow, or drops nothing by flow.
    fn take_super_frame(&mut self, now: Nanos, frame: u32, len: u32, number: u8) -> bool {
        let bytes = self.pool.packet(frame);
        let headers = self.labels.headers(bytes);
        let class = self.classifier.classify(&headers.key);
        let is_known = self.early.as_mut().is_none_or(|early| early.saw(now, bytes, class));
        let each = self.overhead.accounted(self.input.segments(number).len(0) as u32);
        let cause = match self.discarding {
            true => Some(DropCause::Stale),
            false if each > self.lengths.frame => Some(DropCause::TooLong),
            false => self.queues.refuses(class, self.shedding),
        };
        let label = if cause.is_none() { self.labels.label(class, &headers, bytes) } else { 0 };
        let super_frame = SuperFrame::new(class, label, *self.input.segments(number), len as usize, now)
            .of_flow(self.pool.info(frame).flow);
        let buffer = if cause.is_none() { self.splitter.buffer(class) } else { None };
        match buffer {
            Some(buffer) => {
                let fetched = self.input.fetch(&self.pool, frame, number, buffer);
                if matches!(fetched, Ok(true)) {
                    self.splitter.push(super_frame);
                }
                self.note(fetched.err());
            }
            None => {
                let Self { pool, overhead, counters, tap, .. } = self;
                let dropped = (now, cause.unwrap_or(DropCause::Shed));
                drop_packets(&super_frame, pool.packet(frame), frame, dropped, (overhead, counters, tap));
            }
        }
        self.pool.give_back(frame);
        is_known
    }

    /// Drops the super-frames of both directions and the frames behind them, which are stale.
    pub(super) fn discard_super_frames(&mut self, now: Nanos) -> u64 {
        let mut count = 0;
        let dropped = (now, DropCause::Stale);
        let Self { splitter, reverse_splitter, reverse, pool, overhead, counters, tap, .. } = self;
        splitter.clear(DropCause::Stale, |out, bytes| match out {
            Out::Dropped(frame, _) => {
                count += frame.left().len() as u64;
                drop_rest(&frame, bytes, dropped, pool, (overhead, counters, tap));
            }
            Out::Packet(packet, _) => {
                count += 1;
                counters.dropped_before(packet.class, overhead.accounted(packet.len), DropCause::Stale);
                pool.give_back(packet.handle as u32);
            }
        });
        if let (Some(splitter), Some(stats)) = (reverse_splitter, reverse) {
            splitter.clear(DropCause::Stale, |out, _| {
                let mut lost = |len| {
                    count += 1;
                    stats.received.count(len);
                    stats.dropped.count(len);
                };
                match out {
                    Out::Dropped(frame, _) => frame.left().for_each(|index| lost(frame.segments.len(index) as u32)),
                    Out::Packet(packet, _) => {
                        lost(packet.len);
                        pool.give_back(packet.handle as u32);
                    }
                }
            });
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
        let class = packet.class;
        let count =
            self.take_apart(packet, |path, packet| path.discard_frame(&packet, Gone::Dropped(now, reason.into())));
        // Packets of a removed class went with it: its number may now belong to another class.
        let is_removed = reason == DropReason::ClassRemoved;
        if !is_removed {
            self.queues.left(class, count);
        }
        if count > 1 {
            let counted = if is_removed { ClassId::ROOT } else { class };
            self.counters.further(counted).dropped[reason.index()] += u64::from(count) - 1;
        }
    }

    fn marked(&mut self, _now: Nanos, packet: &Packet) {
        let first = packet.handle as u32;
        mark_congestion(self.pool.packet_mut(first));
        let mut next = self.pool.next(first);
        if next.is_none() {
            // Its neighbors do not have the mark.
            self.pool.set_apart(first);
        }
        while let Some(frame) = next {
            mark_congestion(self.pool.packet_mut(frame));
            self.counters.further(packet.class).marked += 1;
            next = self.pool.next(frame);
        }
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
        let admitted = self.early.as_ref().map_or(0, EarlyDrops::admitted);
        // A batch that is not full has emptied the kernel's buffer.
        let (count, unknown) = self.fetch(now, batch);
        self.shedding = count == BATCH && self.input.is_flooded();
        let Some(early) = &mut self.early else { return };
        let drained = if count < BATCH { self.input.drained(admitted) } else { None };
        early.fetched(count, drained);
        if self.shedding && 2 * unknown > count {
            early.drop_unknown(now);
        }
        if count < BATCH && early.is_dropping() {
            early.relax(now, &self.queues);
        }
    }

    fn enqueued(&mut self) {
        if self.sampling {
            self.sampled.enqueue += self.lap().saturating_sub(self.classified).0;
        }
    }

    fn transmit(&mut self, now: Nanos, packet: Packet, _done: Nanos) {
        let class = packet.class;
        let count = self.take_apart(packet, |path, packet| {
            if let Some(tap) = &mut path.tap {
                tap.left(packet.handle as u32, now);
            }
            path.outgoing.push(packet);
        });
        self.queues.left(class, count);
    }

    fn flush(&mut self, now: Nanos) {
        let started = self.lap();
        self.hand_over(now);
        if self.sampling {
            self.sampled.send += self.lap().saturating_sub(started).0;
        }
    }
}

/// Takes the first packet out of a piece, and returns it and the rest. The last one has what is left of the accounted bytes:
/// a reload may have changed the overhead since.
#[inline]
fn apart(pool: &mut FramePool, overhead: &Overhead, packet: Packet) -> (Packet, Option<Packet>) {
    let Packet { handle, len, class } = packet;
    let Some(next) = pool.unchain(handle as u32) else { return (Packet { handle, len, class }, None) };
    let own = overhead.accounted(pool.info(handle as u32).len).min(len);
    let rest = Packet { handle: handle >> 32 << 32 | u64::from(next), len: len - own, class };
    (Packet { handle, len: own, class }, Some(rest))
}

/// Counters and trace of dropped packets, and the lengths that they count with.
type Account<'a> = (&'a Overhead, &'a mut EdgeCounters, &'a mut Option<Box<TraceWriter>>);

/// Counts the packets that are left of a super-frame, whose first bytes are `bytes`, as dropped before the scheduler.
/// A trace gets their headers; `place` is a frame of the pool that is not in a trace.
fn drop_packets(frame: &SuperFrame, bytes: &[u8], place: u32, dropped: (Nanos, DropCause), account: Account<'_>) {
    let (SuperFrame { class, segments, received, .. }, (now, cause)) = (*frame, dropped);
    let (overhead, counters, tap) = account;
    let left = frame.left();
    let accounted = |index| overhead.accounted(segments.len(index) as u32);
    if let Some(last) = left.clone().last() {
        // All but the last are of the same length.
        counters.dropped_before_each(class, left.len() as u64 - 1, accounted(left.start), cause);
        counters.dropped_before(class, accounted(last), cause);
    }
    let Some(tap) = tap else { return };
    let mut headers = [0; 512];
    for index in left {
        let known = match segments.payload(0).start <= headers.len() {
            true => segments.write_headers(bytes, index, &mut headers),
            false => 0,
        };
        let (len, bytes) = (segments.len(index) as u32, &headers[..known]);
        tap.came(place);
        tap.gone(
            place,
            Passing { class, len, accounted: accounted(index), received, bytes },
            Gone::Dropped(now, cause),
        );
    }
}

/// As [`drop_packets`], with a frame of the pool taken for the trace.
fn drop_rest(
    frame: &SuperFrame,
    bytes: &[u8],
    dropped: (Nanos, DropCause),
    pool: &mut FramePool,
    (overhead, counters, tap): Account<'_>,
) {
    let place = if tap.is_some() { pool.take() } else { None };
    // Without a free frame the trace does not have these packets.
    let tap = if place.is_some() { tap } else { &mut None };
    drop_packets(frame, bytes, place.unwrap_or(0), dropped, (overhead, counters, tap));
    if let Some(place) = place {
        pool.give_back(place);
    }
}

/// Counts the outcome of a packet that was offered to the output, and tells a trace.
#[inline]
fn count_outcome(
    packet: &Packet,
    outcome: Settled,
    pool: &FramePool,
    (counters, tap): (&mut EdgeCounters, &mut Option<Box<TraceWriter>>),
    clock: &impl Clock,
) {
    let Packet { handle, len, class } = *packet;
    let frame = handle as u32;
    let gone = match outcome {
        Settled::Accepted(at) => {
            counters.sent(class, len, at.saturating_sub(pool.info(frame).received));
            Gone::Sent(at)
        }
        Settled::Refused { too_long } => {
            let cause = if too_long { DropCause::TooLong } else { DropCause::RefusedByInterface };
            counters.dropped_behind(class, len, cause);
            Gone::Dropped(clock.now(), cause)
        }
    };
    if let Some(tap) = tap {
        tap.gone(frame, passing(pool, packet), gone);
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
mod workers;
