//! The loop that drives a scheduler at the pace of a link, the same in the simulator and in the gateway. It owns no
//! clock and does no I/O. A [`Port`] does both.

use alloc::vec::Vec;

use crate::contract::{BatchEnd, Dequeued, DropSink, NANOS_PER_SEC, Nanos, OutOfMemory, Packet, Rate, Scheduler};

/// Keeps a link from being sent to faster than its rate. It is exact: fractions of a nanosecond are carried over.
///
/// A driver that wakes late may catch up on at most `catch_up` of lost time, and only on time in which there was backlog.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    rate: Rate,
    catch_up: Nanos,
    free_at: Nanos,
    /// Remainder below `free_at`, in units of (1 / rate) ns; below `rate`.
    fraction: u64,
    forfeited: Nanos,
}

impl Pacer {
    /// Makes an idle link. With a `catch_up` of zero the pace is exact only if the driver wakes exactly on time, as a
    /// simulator does.
    #[must_use]
    pub const fn new(rate: Rate, catch_up: Nanos) -> Self {
        Self { rate, catch_up, free_at: Nanos::ZERO, fraction: 0, forfeited: Nanos::ZERO }
    }

    /// Time at which the link has sent its packets, rounded up.
    #[must_use]
    pub const fn free_at(&self) -> Nanos {
        if self.fraction > 0 { self.free_at.saturating_add(Nanos(1)) } else { self.free_at }
    }

    /// Bytes that may be started by `now`: 0 while the link is busy, at least 1 when it is free.
    #[must_use]
    pub fn due(&self, now: Nanos) -> u64 {
        let start = self.free_at();
        if start > now {
            return 0;
        }
        let late = now.saturating_sub(start);
        let late = if late > self.catch_up { self.catch_up } else { late };
        self.rate.bytes_in(late).saturating_add(1)
    }

    /// Charges a packet of `len` bytes that the link accepts at `now`. Returns the time at which its last bit has left.
    pub fn charge(&mut self, now: Nanos, len: u32) -> Nanos {
        let earliest = now.saturating_sub(self.catch_up);
        if self.free_at < earliest {
            self.forfeited = self.forfeited.saturating_add(earliest.saturating_sub(self.free_at));
            self.forgive(earliest);
        }
        let rate = self.rate.bps();
        let units = u128::from(len) * 8 * u128::from(NANOS_PER_SEC) + u128::from(self.fraction);
        let (ns, fraction) = match u64::try_from(units) {
            // Of any real packet: 128-bit division is a call of some hundred instructions.
            Ok(units) => (units / rate, units % rate),
            Err(_) => ((units / u128::from(rate)).min(u128::from(u64::MAX)) as u64, (units % u128::from(rate)) as u64),
        };
        self.free_at = self.free_at.saturating_add(Nanos(ns));
        self.fraction = fraction;
        self.free_at()
    }

    /// Changes the rate of the link. Packets that were given to it before leave at the old pace.
    pub fn set_rate(&mut self, rate: Rate) {
        // The fraction is in units of the rate before.
        self.free_at = self.free_at();
        self.fraction = 0;
        self.rate = rate;
    }

    /// Sets the limit on lost time that is made up for.
    pub const fn set_catch_up(&mut self, catch_up: Nanos) {
        self.catch_up = catch_up;
    }

    /// Time since construction in which there was backlog and the link was free, and that is not made up for: lateness
    /// beyond `catch_up`.
    #[must_use]
    pub const fn forfeited(&self) -> Nanos {
        self.forfeited
    }

    /// Records that there was nothing to send at `now`: time before it is not made up for.
    pub fn idle(&mut self, now: Nanos) {
        self.forgive(now);
    }

    fn forgive(&mut self, earliest: Nanos) {
        if self.free_at < earliest {
            self.free_at = earliest;
            self.fraction = 0;
        }
    }
}

/// A link end for the [`Driver`]: arrivals, departures and drops.
///
/// ```
/// use fairlink_core::{
///     ClassConfig, ClassId, Driver, DropReason, DropSink, Hierarchy, Leniency, LinkConfig, Members, Nanos, Pacer, Packet, Port, Rate,
///     Wake, registry,
/// };
///
/// /// Three packets that are there at the start, and the times at which their last bits leave.
/// #[derive(Default)]
/// struct Once {
///     arrived: bool,
///     left: Vec<Nanos>,
/// }
///
/// impl DropSink for Once {
///     fn dropped(&mut self, _: Nanos, packet: Packet, reason: DropReason) {
///         panic!("{packet:?}: {}", reason.as_str());
///     }
/// }
///
/// impl Port for Once {
///     fn receive(&mut self, _: Nanos, batch: &mut Vec<Packet>) {
///         if !std::mem::replace(&mut self.arrived, true) {
///             batch.extend((0..3).map(|handle| Packet { handle, len: 1000, class: ClassId(1) }));
///         }
///     }
///
///     fn transmit(&mut self, _: Nanos, _: Packet, done: Nanos) {
///         self.left.push(done);
///     }
///
///     fn flush(&mut self, _: Nanos) {}
/// }
///
/// // At 8 Mbit/s, a packet of 1000 B takes a millisecond.
/// let link = LinkConfig::new(Rate::from_bps(8_000_000)?);
/// let mut tree = Hierarchy::builder(link);
/// tree.add(ClassId::ROOT, ClassConfig::default())?;
/// let drr = registry::find("drr").expect("it is registered").build(&tree.build()?, Leniency::Refuse, Members::new())?;
/// let mut driver = Driver::new(drr, Pacer::new(link.rate, Nanos::ZERO))?;
/// let (mut port, mut now) = (Once::default(), Nanos::ZERO);
/// while let Wake::At(next) = driver.turn(now, &mut port) {
///     now = next;
/// }
/// assert_eq!(port.left, [1, 2, 3].map(Nanos::from_millis));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Port: DropSink {
    /// Appends the packets that have arrived by `now`, classified, oldest first. May leave the rest for the next turn.
    fn receive(&mut self, now: Nanos, batch: &mut Vec<Packet>);

    /// Notes the end of an enqueue: a hook for profiling.
    fn enqueued(&mut self) {}

    /// Sends `packet`; its last bit leaves the paced link at `done`.
    fn transmit(&mut self, now: Nanos, packet: Packet, done: Nanos);

    /// Ends a batch of [`Port::transmit`] calls.
    fn flush(&mut self, now: Nanos);
}

/// The time of the next [`Driver::turn`] if nothing arrives before.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Time at which the link becomes free, or the scheduler may send again.
    At(Nanos),
    /// Only an arrival makes a difference.
    OnArrival,
}

/// The result of [`Driver::next`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A packet that may leave now; the link is busy with it until `done`.
    Packet {
        /// The packet.
        packet: Packet,
        /// Time at which its last bit leaves.
        done: Nanos,
    },
    /// No packet now; the time to call again if nothing arrives before.
    Wait(Wake),
}

/// [`Driver::BATCH`], whatever the scheduler.
pub(crate) const BATCH: usize = 64;

/// A scheduler and the pacing of its link.
///
/// It has two interfaces. A caller that is asked for packets, as a kernel's queueing discipline is, calls
/// [`Driver::enqueue`] on each arrival and [`Driver::next`] when the link can take a packet. A caller that moves
/// packets itself has a [`Port`] and calls [`Driver::turn`]. A turn takes the same two steps for many packets at once.
#[derive(Debug)]
pub struct Driver<S> {
    scheduler: S,
    pacer: Pacer,
    now: Nanos,
    /// End of the last known idle time, which is not made up for.
    rested_until: Nanos,
    batch: Vec<Packet>,
}

impl<S: Scheduler> Driver<S> {
    /// Largest number of packets handed over in one batch.
    pub const BATCH: usize = BATCH;

    /// Drives `scheduler` at the pace of `pacer`.
    ///
    /// # Errors
    /// Fails if there is no memory for a batch of packets.
    pub fn new(scheduler: S, pacer: Pacer) -> Result<Self, OutOfMemory> {
        let mut batch = Vec::new();
        let bytes = (Self::BATCH * size_of::<Packet>()) as u64;
        batch.try_reserve_exact(Self::BATCH).map_err(|_| OutOfMemory { bytes })?;
        Ok(Self { scheduler, pacer, now: Nanos::ZERO, rested_until: Nanos::MAX, batch })
    }

    /// Handles a packet that arrives at `now`.
    pub fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let now = self.begin(now);
        self.scheduler.enqueue(now, packet, drops);
    }

    /// Returns a packet that may leave by `now`, or the time to call again.
    pub fn next(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Next {
        let now = self.begin(now);
        if self.pacer.free_at() > now {
            return Next::Wait(self.wake(now, None));
        }
        let end = match self.scheduler.dequeue(now, drops) {
            Dequeued::Packet(packet) => {
                let done = self.pacer.charge(now, packet.len);
                return Next::Packet { packet, done };
            }
            Dequeued::WaitUntil(t) => BatchEnd::WaitUntil(t),
            Dequeued::Idle => BatchEnd::Idle,
        };
        Next::Wait(self.wake(now, Some(end)))
    }

    /// Queues the arrivals of `port` and sends the packets that are due by `now`, at most [`Driver::BATCH`].
    pub fn turn(&mut self, now: Nanos, port: &mut impl Port) -> Wake {
        let now = self.begin(now);
        self.queue(now, port);
        let mut sent = 0;
        let wake = loop {
            let end = self.step(now, Self::BATCH - sent, port);
            sent += self.batch.len();
            for packet in self.batch.drain(..) {
                let done = self.pacer.charge(now, packet.len);
                port.transmit(now, packet, done);
            }
            if end != Some(BatchEnd::Full) || (sent >= Self::BATCH && self.pacer.due(now) > 0) {
                break self.wake(now, end);
            }
        };
        if sent > 0 {
            port.flush(now);
        }
        wake
    }

    /// Queues the arrivals of `port` and sends nothing, for a caller whose way out is full. The limits of the classes
    /// then decide what is dropped, not those of the way in.
    pub fn accept(&mut self, now: Nanos, port: &mut impl Port) {
        let now = self.begin(now);
        self.queue(now, port);
    }

    /// Moves the arrivals of `port` to the scheduler.
    fn queue(&mut self, now: Nanos, port: &mut impl Port) {
        port.receive(now, &mut self.batch);
        if !self.batch.is_empty() {
            self.scheduler.enqueue_batch(now, &mut self.batch, port);
            port.enqueued();
        }
    }

    /// Advances the time; returns the latest time seen.
    fn begin(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.pacer.idle(self.rested_until.min(self.now));
        self.rested_until = Nanos::ZERO;
        self.now
    }

    /// Fills the batch with packets that are due by `now`, at most `max`. The caller charges them to the link. `None`:
    /// the link is busy.
    fn step(&mut self, now: Nanos, max: usize, drops: &mut dyn DropSink) -> Option<BatchEnd> {
        match self.pacer.due(now) {
            0 => None,
            due => Some(self.scheduler.dequeue_batch(now, max, due, &mut self.batch, drops)),
        }
    }

    /// Returns the time of the next step, after a step with this end. Its packets are already charged.
    fn wake(&mut self, now: Nanos, end: Option<BatchEnd>) -> Wake {
        match end {
            None => Wake::At(self.pacer.free_at()),
            Some(BatchEnd::Full) => Wake::At(now),
            Some(BatchEnd::WaitUntil(t)) => {
                self.pacer.idle(now);
                self.rested_until = t;
                Wake::At(t.max(self.pacer.free_at()))
            }
            Some(BatchEnd::Idle) => {
                self.pacer.idle(now);
                self.rested_until = Nanos::MAX;
                Wake::OnArrival
            }
        }
    }

    /// Returns the scheduler.
    pub fn scheduler(&self) -> &S {
        &self.scheduler
    }

    /// Returns the scheduler, mutable, to purge or to replace it.
    pub fn scheduler_mut(&mut self) -> &mut S {
        &mut self.scheduler
    }

    /// Changes the rate of the link from now on; see [`Pacer::set_rate`].
    pub fn set_rate(&mut self, rate: Rate) {
        self.pacer.set_rate(rate);
    }

    /// Sets the limit on lateness that is made up for; see [`Pacer::set_catch_up`].
    pub fn set_catch_up(&mut self, catch_up: Nanos) {
        self.pacer.set_catch_up(catch_up);
    }

    /// Records that nothing was queued until `now`, for a caller that did not ask for a packet meanwhile: time until
    /// then is not made up for.
    pub fn rested(&mut self, now: Nanos) {
        self.rested_until = self.rested_until.max(now);
    }

    /// Returns the pacing.
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gbps(n: u64) -> Rate {
        Rate::from_bps(n * 1_000_000_000).unwrap()
    }

    #[test]
    fn fractions_of_a_nanosecond_are_not_lost() {
        let mut pacer = Pacer::new(gbps(100), Nanos::ZERO);
        let mut now = Nanos::ZERO;
        for _ in 0..1_000 {
            assert!(pacer.due(now) > 0);
            pacer.charge(now, 64);
            assert_eq!(pacer.due(now), 0);
            now = pacer.free_at();
        }
        // 64 B take 5.12 ns; waking only at whole nanoseconds without catching up costs less than one each.
        assert!(now >= Nanos(5_120) && now <= Nanos(6_120), "{now}");
        let mut pacer = Pacer::new(gbps(100), Nanos(1));
        let mut now = Nanos::ZERO;
        for _ in 0..1_000 {
            pacer.charge(now, 64);
            now = pacer.free_at();
        }
        assert_eq!(now, Nanos(5_120));
    }

    /// Packets of 1000 bytes that are there from the start or come at a time.
    struct Arrivals(Vec<(Nanos, u32)>, Vec<Nanos>);

    impl DropSink for Arrivals {
        fn dropped(&mut self, _: Nanos, packet: Packet, reason: crate::contract::DropReason) {
            panic!("{packet:?} dropped: {reason:?}");
        }
    }

    impl Port for Arrivals {
        fn receive(&mut self, now: Nanos, batch: &mut Vec<Packet>) {
            while let Some(&(_, len)) = self.0.first().filter(|(at, _)| *at <= now) {
                self.0.remove(0);
                batch.push(Packet { handle: 0, len, class: crate::contract::ClassId(1) });
            }
        }

        fn transmit(&mut self, _: Nanos, _: Packet, done: Nanos) {
            self.1.push(done);
        }

        fn flush(&mut self, _: Nanos) {}
    }

    #[test]
    fn time_without_backlog_is_not_made_up_for() {
        use crate::contract::{ClassConfig, Hierarchy, LinkConfig};
        let mut tree = Hierarchy::builder(LinkConfig::new(gbps(1)));
        tree.add(crate::contract::ClassId::ROOT, ClassConfig::default()).unwrap();
        let fifo = crate::schedulers::fifo::Fifo::new(&tree.build().unwrap()).unwrap();
        let mut driver = Driver::new(fifo, Pacer::new(gbps(1), Nanos(20_000))).unwrap();
        let arrivals = [(Nanos(0), 1000), (Nanos(100_000), 1000), (Nanos(100_000), 1000), (Nanos(100_000), 1000)];
        let mut port = Arrivals(arrivals.to_vec(), Vec::new());
        assert_eq!(driver.turn(Nanos(0), &mut port), Wake::At(Nanos(8_000)));
        assert_eq!(driver.turn(Nanos(8_000), &mut port), Wake::OnArrival);
        assert_eq!(driver.turn(Nanos(100_000), &mut port), Wake::At(Nanos(108_000)));
        // Late while there is backlog: both are due, as if the first had started in time.
        assert_eq!(driver.turn(Nanos(119_000), &mut port), Wake::At(Nanos(124_000)));
        assert_eq!(port.1, [Nanos(8_000), Nanos(108_000), Nanos(116_000), Nanos(124_000)]);
    }

    #[test]
    fn what_is_pulled_is_what_is_pushed_at_the_same_times() {
        use crate::contract::{ClassConfig, Hierarchy, LinkConfig};
        let arrivals: Vec<(Nanos, u32)> =
            (0..200u64).map(|n| (Nanos(n * n % 7 * 3_000 + n * 5_000), 64 + (n * 37 % 1400) as u32)).collect();
        let mut arrivals = arrivals;
        arrivals.sort_by_key(|&(at, _)| at);
        let mut tree = Hierarchy::builder(LinkConfig::new(gbps(1)));
        tree.add(crate::contract::ClassId::ROOT, ClassConfig::default()).unwrap();
        let tree = tree.build().unwrap();
        let driver = || {
            let fifo = crate::schedulers::fifo::Fifo::new(&tree).unwrap();
            Driver::new(fifo, Pacer::new(gbps(1), Nanos(10_000))).unwrap()
        };
        // Both are called at their announced times, and on arrivals.
        let (mut pushed, mut port) = (driver(), Arrivals(arrivals.clone(), Vec::new()));
        let mut now = Nanos::ZERO;
        while port.1.len() < arrivals.len() {
            let next = port.0.first().map_or(Nanos::MAX, |&(at, _)| at);
            now = match pushed.turn(now.max(Nanos::ZERO), &mut port) {
                Wake::At(at) => at.min(port.0.first().map_or(Nanos::MAX, |&(at, _)| at)).max(now),
                Wake::OnArrival => port.0.first().map_or(next, |&(at, _)| at),
            };
        }
        let (mut pulled, mut done, mut waiting) = (driver(), Vec::new(), arrivals.as_slice());
        let mut never = |_: Nanos, packet: Packet, _| panic!("{packet:?} dropped");
        let mut now = Nanos::ZERO;
        while done.len() < arrivals.len() {
            while let Some((&(at, len), rest)) = waiting.split_first()
                && at <= now
            {
                pulled.enqueue(now, Packet { handle: 0, len, class: crate::contract::ClassId(1) }, &mut never);
                waiting = rest;
            }
            let arrival = waiting.first().map_or(Nanos::MAX, |&(at, _)| at);
            match pulled.next(now, &mut never) {
                Next::Packet { done: at, .. } => done.push(at),
                Next::Wait(Wake::At(at)) => now = at.min(arrival).max(now),
                Next::Wait(Wake::OnArrival) => now = arrival,
            }
        }
        assert_eq!(done, port.1);
    }

    #[test]
    fn a_change_of_rate_counts_from_the_next_packet_on() {
        let mut pacer = Pacer::new(gbps(3), Nanos(1));
        // 2666.67 ns, rounded up when the rate changes.
        pacer.charge(Nanos(0), 1000);
        pacer.set_rate(gbps(1));
        assert_eq!(pacer.free_at(), Nanos(2_667));
        assert_eq!(pacer.charge(Nanos(2_667), 1000), Nanos(10_667));
    }

    #[test]
    fn another_catch_up_counts_from_the_next_packet_on() {
        let mut pacer = Pacer::new(gbps(1), Nanos(10_000));
        assert_eq!(pacer.charge(Nanos(100_000), 1000), Nanos(98_000));
        pacer.set_catch_up(Nanos::ZERO);
        assert_eq!(pacer.due(Nanos(200_000)), 1);
        assert_eq!(pacer.charge(Nanos(200_000), 1000), Nanos(208_000));
    }

    #[test]
    fn a_caller_that_knows_of_no_packets_need_not_ask() {
        use crate::contract::{ClassConfig, Hierarchy, LinkConfig};
        let mut tree = Hierarchy::builder(LinkConfig::new(gbps(1)));
        tree.add(crate::contract::ClassId::ROOT, ClassConfig::default()).unwrap();
        let fifo = crate::schedulers::fifo::Fifo::new(&tree.build().unwrap()).unwrap();
        let mut driver = Driver::new(fifo, Pacer::new(gbps(1), Nanos(20_000))).unwrap();
        let mut never = |_: Nanos, packet: Packet, _| panic!("{packet:?} dropped");
        let packet = || Packet { handle: 0, len: 1000, class: crate::contract::ClassId(1) };
        for (start, told) in [(Nanos(0), true), (Nanos(100_000), true), (Nanos(200_000), false)] {
            if told {
                driver.rested(start);
            }
            let mut done = Vec::new();
            for _ in 0..2 {
                driver.enqueue(start, packet(), &mut never);
            }
            while let Next::Packet { done: at, .. } = driver.next(start, &mut never) {
                done.push(at.saturating_sub(start));
            }
            // Without a word the time since 108 us is made up for.
            let expected = if told { &[Nanos(8_000)][..] } else { &[Nanos::ZERO; 2][..] };
            assert_eq!(done, expected, "{start}");
            // The second one, after the first took the link.
            while told && driver.scheduler().backlog().packets > 0 {
                let _ = driver.next(start.saturating_add(Nanos(8_000)), &mut never);
            }
        }
    }

    #[test]
    fn a_late_driver_catches_up_no_further_than_allowed() {
        let mut pacer = Pacer::new(gbps(1), Nanos(10_000));
        pacer.charge(Nanos(0), 1000);
        assert_eq!(pacer.due(Nanos(7_999)), 0);
        assert_eq!(pacer.due(Nanos(8_000)), 1);
        assert_eq!(pacer.due(Nanos(12_000)), 501);
        assert_eq!(pacer.due(Nanos(1_000_000)), 1251);
        assert_eq!(pacer.forfeited(), Nanos::ZERO);
        assert_eq!(pacer.charge(Nanos(1_000_000), 1000), Nanos(998_000));
        // From 8 us, when the link was free, to 990 us, from which on it is made up for.
        assert_eq!(pacer.forfeited(), Nanos(982_000));
        pacer.idle(Nanos(2_000_000));
        assert_eq!(pacer.due(Nanos(2_000_000)), 1);
        // Time without backlog is not lost.
        assert_eq!(pacer.forfeited(), Nanos(982_000));
    }
}
