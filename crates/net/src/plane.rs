//! The data path of the gateway, one turn at a time: fetch, classify, enqueue, dequeue what is due, hand over; and the other
//! direction, unshaped. It runs over any [`Backend`] and any [`Clock`], so that tests run it without a network.
//!
//! Invariants, after every turn: each class's received = sent + dropped + queued; each frame in use is in a queue, waiting for
//! an interface, or held for reception. At most [`BATCH`] packets wait for each interface: while the output is busy nothing
//! more is dequeued, while the input is busy nothing more is fetched from the output, so that nothing is lost there.

use fairlink_core::{Amount, ClassId, Driver, DropReason, DropSink, Nanos, Overhead, Packet, Port, Scheduler, Wake};

use crate::active::{Labels, mark_congestion};
use crate::backend::{Arrival, BATCH, Backend, BackendError, Condition};
use crate::classify::Classifier;
use crate::pacing::Clock;
use crate::parse::{SHORTEST_FRAME, frame_key};
use crate::pool::Pool;
use crate::stats::{Counters, Loss, ReverseStats};

/// One working turn in so many is timed in detail. A prime, so that it does not run in step with the traffic.
pub(crate) const SAMPLE_EVERY: u64 = 61;
/// After this the output is tried again when it was busy.
pub(crate) const BUSY_RETRY: Nanos = Nanos::from_micros(50);

/// Frames that a gateway may hold beside its queues: those held for reception on both sides, those on their way through a
/// turn, and those waiting for each interface.
pub(crate) const RESERVE: u32 = 6 * BATCH as u32;

/// Time spent in turns that were timed in detail, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampled {
    pub(crate) turns: u64,
    pub(crate) total: u64,
    pub(crate) receive: u64,
    pub(crate) classify: u64,
    pub(crate) send: u64,
    pub(crate) reverse: u64,
}

/// Everything but the scheduler; see the module.
#[derive(Debug)]
pub(crate) struct Plane<B, C> {
    pub(crate) pool: Pool,
    pub(crate) input: B,
    pub(crate) output: B,
    pub(crate) clock: C,
    pub(crate) classifier: Classifier,
    pub(crate) labels: Labels,
    pub(crate) overhead: Overhead,
    pub(crate) counters: Counters,
    /// `None`: the other direction is not forwarded.
    pub(crate) reverse: Option<ReverseStats>,
    /// Whether frames are still fetched.
    pub(crate) receiving: bool,
    pub(crate) output_busy: u64,
    pub(crate) sampled: Sampled,
    arrivals: Vec<Arrival>,
    intake: Vec<Packet>,
    /// Given by the driver, to be handed over; `frames` are their frames.
    outgoing: Vec<Packet>,
    frames: Vec<u32>,
    /// Frames of the other direction, to be handed over.
    back: Vec<u32>,
    moved: bool,
    sampling: bool,
    working_turns: u64,
    error: Option<BackendError>,
}

impl<B: Backend, C: Clock> Plane<B, C> {
    #[expect(clippy::too_many_arguments, reason = "the parts of the path, each made elsewhere")]
    pub(crate) fn new(
        pool: Pool,
        input: B,
        output: B,
        clock: C,
        classifier: Classifier,
        labels: Labels,
        overhead: Overhead,
        counters: Counters,
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
            reverse: reverse.then(ReverseStats::default),
            receiving: true,
            output_busy: 0,
            sampled: Sampled::default(),
            arrivals: Vec::with_capacity(BATCH),
            intake: Vec::with_capacity(BATCH),
            outgoing: Vec::with_capacity(BATCH),
            frames: Vec::with_capacity(BATCH),
            back: Vec::with_capacity(BATCH),
            moved: false,
            sampling: false,
            working_turns: 0,
            error: None,
        }
    }

    /// One turn of both directions. Whether any frame moved, and when the next turn is due if nothing arrives before.
    pub(crate) fn turn<S: Scheduler>(
        &mut self,
        now: Nanos,
        driver: &mut Driver<S>,
    ) -> Result<(bool, Wake), BackendError> {
        self.moved = false;
        self.sampling = self.working_turns.is_multiple_of(SAMPLE_EVERY);
        let before = self.sampled;
        if !self.outgoing.is_empty() {
            self.flush(now);
        }
        let wake = if self.outgoing.is_empty() {
            driver.turn(now, self)
        } else {
            let mut batch = std::mem::take(&mut self.intake);
            self.receive(now, &mut batch);
            driver.scheduler_mut().enqueue_batch(now, &mut batch, self);
            self.intake = batch;
            Wake::At(now.saturating_add(BUSY_RETRY))
        };
        let started = self.lap();
        if self.reverse.is_some() {
            self.reverse_turn(now);
        }
        if self.sampling {
            let end = self.lap();
            self.sampled.reverse += end.saturating_sub(started).0;
            self.sampled.total += end.saturating_sub(now).0;
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

    /// The time, where this turn is timed in detail.
    #[inline]
    fn lap(&self) -> Nanos {
        if self.sampling { self.clock.now() } else { Nanos::ZERO }
    }

    /// Packets waiting for the output, by class.
    pub(crate) fn outgoing(&self, class: ClassId) -> Amount {
        let mut amount = Amount::default();
        for packet in self.outgoing.iter().filter(|packet| packet.class == class) {
            amount.count(packet.len);
        }
        amount
    }

    /// Whether nothing waits for the output.
    pub(crate) fn is_flushed(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Packets waiting for the output.
    pub(crate) fn outgoing_packets(&self) -> u64 {
        self.outgoing.len() as u64
    }

    /// Whether frames wait for the input.
    pub(crate) fn is_back_waiting(&self) -> bool {
        !self.back.is_empty()
    }

    /// The other direction's counters with what is waiting.
    pub(crate) fn reverse_stats(&self) -> Option<ReverseStats> {
        let mut stats = self.reverse?;
        for &frame in &self.back {
            stats.waiting.count(self.pool.info(frame).len);
        }
        Some(stats)
    }

    /// Whether each frame that is not free is where it should be, with `queued` packets in the scheduler.
    pub(crate) fn pool_agrees(&self, queued: u64) -> bool {
        let in_use = self.pool.frames() - self.pool.free();
        let known = self.input.held() + self.output.held() + self.outgoing.len() + self.back.len();
        in_use as u64 == known as u64 + queued
    }

    /// Whether more frames can be fetched from the output's side.
    pub(crate) fn takes_reverse(&self) -> bool {
        self.reverse.is_some() && self.receiving && self.back.is_empty()
    }

    fn lose(&mut self, class: ClassId, len: u32, loss: Loss, frame: u32) {
        self.counters.lost(class, len, loss);
        self.pool.give_back(frame);
    }

    /// Hands over what is outgoing, as much as the output takes.
    fn hand_over(&mut self) {
        self.frames.clear();
        self.frames.extend(self.outgoing.iter().map(|packet| packet.handle as u32));
        let mut done = 0;
        while done < self.frames.len() {
            let sent = match self.output.send(&mut self.pool, &self.frames[done..]) {
                Ok(sent) => sent,
                Err(error) => {
                    self.error.get_or_insert(error);
                    break;
                }
            };
            let now = self.clock.now();
            for index in done..done + sent.accepted {
                let Packet { class, len, .. } = self.outgoing[index];
                let frame = self.frames[index];
                let delay = now.saturating_sub(self.pool.info(frame).received);
                self.counters.sent(class, len, delay);
                self.pool.give_back(frame);
            }
            done += sent.accepted;
            let Some(reason) = sent.refused else {
                self.output_busy += u64::from(done < self.frames.len());
                break;
            };
            let Packet { class, len, .. } = self.outgoing[done];
            let too_long = reason.raw_os_error() == Some(libc::EMSGSIZE);
            let loss = if too_long { Loss::Scheduler(DropReason::TooLong) } else { Loss::Refused };
            self.lose(class, len, loss, self.frames[done]);
            done += 1;
        }
        self.moved |= done > 0;
        self.outgoing.drain(..done);
    }

    /// The other direction: fetch and hand over, first in, first out.
    fn reverse_turn(&mut self, now: Nanos) {
        let Some(mut stats) = self.reverse else { return };
        if self.takes_reverse() {
            let mut arrivals = std::mem::take(&mut self.arrivals);
            if let Err(error) = self.output.receive(&mut self.pool, now, BATCH, &mut arrivals) {
                self.error.get_or_insert(error);
            }
            for arrival in arrivals.drain(..) {
                self.moved = true;
                stats.received.count(arrival.len);
                if arrival.condition == Condition::Whole && arrival.len >= SHORTEST_FRAME {
                    self.back.push(arrival.frame);
                } else {
                    stats.dropped.count(arrival.len);
                    self.pool.give_back(arrival.frame);
                }
            }
            self.arrivals = arrivals;
        }
        let mut done = 0;
        while done < self.back.len() {
            let sent = match self.input.send(&mut self.pool, &self.back[done..]) {
                Ok(sent) => sent,
                Err(error) => {
                    self.error.get_or_insert(error);
                    break;
                }
            };
            for &frame in &self.back[done..done + sent.accepted] {
                stats.sent.count(self.pool.info(frame).len);
                self.pool.give_back(frame);
            }
            done += sent.accepted;
            if sent.refused.is_none() {
                break;
            }
            stats.dropped.count(self.pool.info(self.back[done]).len);
            self.pool.give_back(self.back[done]);
            done += 1;
        }
        self.moved |= done > 0;
        self.back.drain(..done);
        self.reverse = Some(stats);
    }
}

impl<B: Backend, C: Clock> DropSink for Plane<B, C> {
    fn dropped(&mut self, _now: Nanos, packet: Packet, reason: DropReason) {
        self.lose(packet.class, packet.len, Loss::Scheduler(reason), packet.handle as u32);
    }

    fn marked(&mut self, _now: Nanos, packet: &Packet) {
        mark_congestion(self.pool.packet_mut(packet.handle as u32));
        self.counters.marked(packet.class, packet.len);
    }
}

impl<B: Backend, C: Clock> Port for Plane<B, C> {
    fn receive(&mut self, now: Nanos, batch: &mut Vec<Packet>) {
        if !self.receiving {
            return;
        }
        let started = self.lap();
        let mut arrivals = std::mem::take(&mut self.arrivals);
        if let Err(error) = self.input.receive(&mut self.pool, now, BATCH, &mut arrivals) {
            self.error.get_or_insert(error);
        }
        let fetched = self.lap();
        self.moved |= !arrivals.is_empty();
        for Arrival { frame, len, condition } in arrivals.drain(..) {
            let bytes = self.pool.packet(frame);
            let key = frame_key(bytes);
            let class = self.classifier.classify(&key);
            let label = self.labels.of(class, &key, bytes);
            let loss = match condition {
                _ if len < SHORTEST_FRAME => Some(Loss::Runt),
                Condition::Whole => None,
                Condition::TooLong => Some(Loss::Scheduler(DropReason::TooLong)),
                Condition::Checksum => Some(Loss::Checksum),
            };
            let len = self.overhead.accounted(len);
            self.counters.received(class, len);
            match loss {
                None => batch.push(Packet { handle: u64::from(frame) | label, len, class }),
                Some(loss) => self.lose(class, len, loss, frame),
            }
        }
        self.arrivals = arrivals;
        if self.sampling {
            self.sampled.receive += fetched.saturating_sub(started).0;
            self.sampled.classify += self.clock.now().saturating_sub(fetched).0;
        }
    }

    fn transmit(&mut self, _now: Nanos, packet: Packet, _done: Nanos) {
        self.outgoing.push(packet);
    }

    fn flush(&mut self, _now: Nanos) {
        let started = self.lap();
        self.hand_over();
        if self.sampling {
            self.sampled.send += self.clock.now().saturating_sub(started).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameTemplate, Headers, Stamp};
    use crate::virtual_link::VirtualLink;
    use fairlink_config::matching::{Match, PortRange, UDP};
    use fairlink_core::{ClassConfig, Hierarchy, Leniency, LinkConfig, Pacer, QueueKind, QueueLimits, Rate, registry};
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[derive(Clone, Debug, Default)]
    struct Hands(Rc<Cell<u64>>);

    impl Clock for Hands {
        fn now(&self) -> Nanos {
            Nanos(self.0.get())
        }
    }

    struct Bench {
        plane: Plane<VirtualLink, Hands>,
        driver: Driver<Box<dyn Scheduler>>,
        tree: Hierarchy,
        hands: Hands,
    }

    const LIMIT: u32 = 20;

    fn bench(scheduler: &str, reverse: bool) -> Bench {
        bench_of(scheduler, reverse, ClassConfig::default())
    }

    /// Two classes by port 5001 and 5002, the second also the default, on 8 Mbit/s: 1000 B take 1 ms.
    fn bench_of(scheduler: &str, reverse: bool, config: ClassConfig) -> Bench {
        let link = LinkConfig::new(Rate::from_bps(8_000_000).unwrap());
        let mut tree = Hierarchy::builder(link);
        let limits = QueueLimits { packets: LIMIT, ..QueueLimits::default() };
        let class = |tree: &mut fairlink_core::HierarchyBuilder| {
            tree.add(ClassId::ROOT, ClassConfig { limits, ..config }).unwrap()
        };
        let (a, b) = (class(&mut tree), class(&mut tree));
        let tree = tree.build().unwrap();
        let port = |port| Match { proto: Some(UDP), dport: Some(PortRange { first: port, last: port }), ..Match::ANY };
        let scheduler = registry::build(registry::find(scheduler).unwrap(), &tree, Leniency::Refuse).unwrap();
        let hands = Hands::default();
        let plane = Plane::new(
            Pool::new(2 * LIMIT + RESERVE, 1600).unwrap(),
            VirtualLink::default(),
            VirtualLink::default(),
            hands.clone(),
            Classifier::new(&[(a, port(5001)), (b, port(5002))], b),
            Labels::new(&tree),
            Overhead::NONE,
            Counters::new(tree.len(), tree.leaves()),
            reverse,
        );
        Bench { plane, driver: Driver::new(scheduler, Pacer::new(link.rate, Nanos::ZERO)), tree, hands }
    }

    fn frame(port: u16, sequence: u32, len: usize) -> Vec<u8> {
        let mut frame = vec![0; len];
        let stamp = Stamp { run: 0, class: ClassId(u32::from(port)), sequence, monotonic_ns: 0, realtime_us: 0 };
        FrameTemplate::new(&Headers::udp(port)).write(&mut frame, &stamp);
        frame
    }

    impl Bench {
        fn turn(&mut self, now: u64) {
            let _ = self.wake(now);
        }

        fn wake(&mut self, now: u64) -> Wake {
            self.hands.0.set(now);
            self.plane.turn(Nanos(now), &mut self.driver).unwrap().1
        }

        /// Received, sent, dropped and queued packets of all classes; panics where a class or the pool does not balance.
        fn totals(&self) -> [u64; 4] {
            let queued = |class| {
                let queued: Amount = self.driver.scheduler().class_backlog(class);
                let waiting = self.plane.outgoing(class);
                queued + waiting
            };
            let classes = self.plane.counters.report(self.tree.leaves(), |class| class.0.to_string(), queued);
            let (totals, balanced) = crate::stats::GatewayStats::total(&classes);
            assert!(balanced, "{classes:?}");
            assert!(self.plane.pool_agrees(self.driver.scheduler().backlog().packets));
            totals.map(|amount| amount.packets)
        }

        fn sent(&self) -> Vec<Stamp> {
            self.plane.output.sent.iter().map(|frame| Stamp::read(frame).unwrap()).collect()
        }
    }

    #[test]
    fn frames_leave_unchanged_at_the_pace_of_the_link_and_in_order_within_a_class() {
        let mut bench = bench("hls", false);
        let frames: Vec<_> = (0..10).map(|n| frame(if n % 2 == 0 { 5001 } else { 5002 }, n, 1000)).collect();
        bench.plane.input.incoming.extend(frames.clone());
        for millis in 0..10 {
            let wake = bench.wake(millis * 1_000_000);
            assert_eq!(bench.plane.output.sent.len() as u64, millis + 1);
            assert_eq!(wake, Wake::At(Nanos((millis + 1) * 1_000_000)));
        }
        assert_eq!(bench.wake(10_000_000), Wake::OnArrival);
        assert_eq!(bench.totals(), [10, 10, 0, 0]);
        let mut sent = bench.plane.output.sent.clone();
        sent.sort();
        let mut sorted = frames;
        sorted.sort();
        assert_eq!(sent, sorted);
        for port in [5001, 5002] {
            let order: Vec<u32> =
                bench.sent().iter().filter(|stamp| stamp.class == ClassId(port)).map(|stamp| stamp.sequence).collect();
            assert!(order.is_sorted(), "{order:?}");
        }
        // The last frame has waited for the nine before it, to within a histogram's two digits.
        let delay = bench.plane.counters.delay().unwrap().max;
        assert!((0.009..0.0091).contains(&delay), "{delay}");
    }

    #[test]
    fn a_busy_output_holds_frames_back_and_loses_none() {
        let mut bench = bench("fifo", false);
        bench.plane.input.incoming.extend((0..12).map(|n| frame(5001, n, 100)));
        bench.plane.output.room = Some(3);
        let mut now = 0;
        for _ in 0..40 {
            bench.turn(now);
            now += 1_000_000;
            // What the link may not send yet stays in its queue, where the scheduler decides.
            assert!(bench.plane.outgoing_packets() <= 1);
        }
        assert_eq!(bench.totals(), [12, 3, 0, 9]);
        assert!(bench.plane.output_busy > 0 && !bench.plane.is_flushed());
        bench.plane.output.room = None;
        for _ in 0..20 {
            bench.turn(now);
            now += 1_000_000;
        }
        assert_eq!(bench.totals(), [12, 12, 0, 0]);
        assert!(bench.sent().iter().map(|stamp| stamp.sequence).eq(0..12));
    }

    #[test]
    fn what_the_output_never_takes_is_dropped_and_named() {
        let mut bench = bench("fifo", false);
        bench.plane.input.incoming.extend([frame(5001, 0, 100), frame(5001, 1, 900), frame(5001, 2, 100)]);
        bench.plane.output.longest = Some(500);
        for millis in 0..5 {
            bench.turn(millis * 1_000_000);
        }
        assert_eq!(bench.totals(), [3, 2, 1, 0]);
        let classes = bench.plane.counters.report(bench.tree.leaves(), |_| String::new(), |_| Amount::default());
        assert_eq!(classes[0].dropped_by_reason["too_long"], Amount { packets: 1, bytes: 900 });
    }

    #[test]
    fn too_long_and_cut_short_frames_are_counted_drops() {
        let mut bench = bench("hls", false);
        // Longer than the link's largest, than the pool's frames, shorter than a header, and not IP at all.
        bench.plane.input.incoming.extend([frame(5001, 0, 1501), vec![9; 5000], vec![1; 13], vec![], vec![7; 60]]);
        for millis in 0..3 {
            bench.turn(millis * 1_000_000);
        }
        assert_eq!(bench.totals(), [5, 1, 4, 0]);
        let classes = bench.plane.counters.report(bench.tree.leaves(), |_| String::new(), |_| Amount::default());
        assert_eq!(classes[0].dropped_by_reason["too_long"].packets, 1);
        assert_eq!(classes[1].dropped_by_reason["too_long"].packets, 1);
        assert_eq!(classes[1].dropped_by_reason["runt"].packets, 2);
        assert_eq!(classes[1].sent.packets, 1);
    }

    #[test]
    fn the_other_direction_passes_unshaped_and_waits_for_a_busy_input() {
        let mut bench = bench("hls", true);
        let frames: Vec<_> = (0..200).map(|n| frame(9, n, 1400)).collect();
        bench.plane.output.incoming.extend(frames.clone());
        bench.plane.input.room = Some(100);
        for _ in 0..10 {
            bench.turn(0);
        }
        let stats = bench.plane.reverse_stats().unwrap();
        assert_eq!((stats.sent.packets, stats.dropped.packets), (100, 0));
        assert_eq!(stats.received.packets, 100 + stats.waiting.packets);
        assert!(stats.waiting.packets <= BATCH as u64, "{stats:?}");
        assert_eq!(bench.plane.output.incoming.len() as u64, 100 - stats.waiting.packets);
        bench.plane.input.room = None;
        for _ in 0..10 {
            bench.turn(0);
        }
        assert_eq!(bench.plane.input.sent, frames);
        assert_eq!(bench.totals(), [0; 4]);
    }

    #[test]
    fn an_active_queue_marks_frames_that_allow_it_and_drops_the_others() {
        let config = ClassConfig { queue: QueueKind::CoDel, ecn: true, ..ClassConfig::default() };
        let mut bench = bench_of("hls", false, config);
        for millis in 0..900u32 {
            // A class whose frames say ECT, another whose frames do not; together a little more than the link carries.
            for port in [5001, 5002] {
                if millis % 9 < 5 {
                    let mut bytes = frame(port, millis, 1000);
                    if port == 5001 {
                        // Changes the header's checksum as it should: by two.
                        bytes[15] |= 2;
                        let sum = u16::from_be_bytes([bytes[24], bytes[25]]);
                        bytes[24..26].copy_from_slice(&(sum - 2).to_be_bytes());
                    }
                    bench.plane.input.incoming.push_back(bytes);
                }
            }
            bench.turn(u64::from(millis) * 1_000_000);
        }
        bench.totals();
        let classes = bench.plane.counters.report(bench.tree.leaves(), |_| String::new(), |_| Amount::default());
        let (capable, other) = (&classes[0], &classes[1]);
        assert!(capable.marked.packets > 0 && !capable.dropped_by_reason.contains_key("congestion"), "{capable:?}");
        assert!(other.marked.packets == 0 && other.dropped_by_reason["congestion"].packets > 0, "{other:?}");
        let header = |frame: &Vec<u8>| etherparse::Ipv4Header::from_slice(&frame[14..]).unwrap().0;
        let sent: Vec<_> = bench.plane.output.sent.iter().map(header).collect();
        assert!(sent.iter().all(|header| header.header_checksum == header.calc_header_checksum()));
        let marked = sent.iter().filter(|header| header.ecn.value() == 3).count() as u64;
        // The last one may still be the next to leave.
        assert!(marked == capable.marked.packets || marked + 1 == capable.marked.packets, "{marked}");
    }

    #[test]
    fn an_interface_that_goes_away_ends_the_turn_with_everything_accounted_for() {
        let mut bench = bench("hls", true);
        bench.plane.input.incoming.extend((0..8).map(|n| frame(5002, n, 1000)));
        bench.turn(0);
        bench.plane.output.gone = true;
        assert!(matches!(bench.plane.turn(Nanos(1_000_000), &mut bench.driver), Err(BackendError::Gone { .. })));
        assert_eq!(bench.totals(), [8, 1, 0, 7]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_packet_is_accounted_for_after_every_turn(
            scheduler in prop_oneof![Just("fifo"), Just("drr"), Just("hls")],
            steps in proptest::collection::vec(
                (0u64..3_000_000, 0usize..150, 5000u16..5004, 0usize..1700, proptest::option::of(0usize..30)), 1..60),
        ) {
            let mut bench = bench(scheduler, true);
            let memory = bench.plane.pool.memory_bytes();
            let (mut now, mut arrived) = (0, 0);
            for (pause, count, port, len, room) in steps {
                now += pause;
                for _ in 0..count {
                    let bytes = if len < 64 { vec![3; len] } else { frame(port, arrived as u32, len) };
                    bench.plane.output.incoming.push_back(bytes.clone());
                    bench.plane.input.incoming.push_back(bytes);
                    arrived += 1;
                }
                bench.plane.output.room = room;
                bench.plane.input.room = room;
                bench.turn(now);
                let [received, sent, _, queued] = bench.totals();
                prop_assert_eq!(received as usize, arrived - bench.plane.input.incoming.len());
                prop_assert_eq!(sent as usize, bench.plane.output.sent.len());
                prop_assert!(queued <= u64::from(2 * LIMIT) + 64);
            }
            prop_assert_eq!(bench.plane.pool.memory_bytes(), memory);
            let stats = bench.plane.reverse_stats().unwrap();
            prop_assert_eq!(
                stats.received.packets, stats.sent.packets + stats.dropped.packets + stats.waiting.packets);
        }
    }
}
