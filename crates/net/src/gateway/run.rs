//! The main loop of a gateway: turns of the data path on one thread, waiting between turns, and the final account.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::{Amount, Driver, Nanos, Scheduler, Wake};
use thiserror::Error;

use crate::gateway::account::{COPIED, GatewayCounts, Observation, Snapshot, WorkerTimes};
use crate::gateway::choice::Choice;
use crate::gateway::config::GatewayConfig;
use crate::gateway::data_path::{AnyScheduler, DataPath, RealPath, Sampled};
use crate::gateway::early::Early;
use crate::gateway::fail_open::FailOpenStats;
use crate::gateway::fail_open::keep::Keeper;
use crate::gateway::liveness::{Liveness, Vitals};
use crate::gateway::log::LogEvent;
use crate::gateway::outlet::{BUSY_RETRY, Outlet};
use crate::gateway::ports::Held;
use crate::gateway::reload::PendingChange;
use crate::gateway::remote::{Publisher, Remote};
use crate::gateway::stats::{GatewayStats, InterfaceStats, MemoryBound, Profile, TimeShares};
use crate::io::backend::{Backend, BackendError};
use crate::io::clock::{self, Clock};
use crate::io::pacing::{self, Pacing, Until};
use crate::io::port::Footprint;
use crate::io::sys;

/// Failure that ended a gateway: an interface disappeared.
#[derive(Debug, Error)]
#[error("{source}")]
pub struct RunError {
    /// The failure.
    pub source: BackendError,
    /// The statistics up to the end. They are balanced, too.
    pub stats: Box<GatewayStats>,
}

/// Interval of the heartbeat while workers forward alone.
const ALONE: Duration = Duration::from_millis(10);
/// Number of times that an ending gateway reclaims frames owned by its interfaces: every [`BUSY_RETRY`], so for 10 ms.
const LEAVING_TRIES: u32 = 200;

/// A gateway ready to run.
pub struct Gateway {
    pub(super) config: GatewayConfig,
    pub(super) footprint: Footprint,
    pub(super) choice: Choice,
    pub(super) driver: Driver<AnyScheduler>,
    pub(super) data_path: RealPath,
    pub(super) held: Held,
    /// The program that drops by class, for interfaces that come back.
    pub(super) early: Option<Early>,
    /// Maintains the fail-open arrangement.
    pub(super) keeper: Keeper,
    pub(super) liveness: Liveness,
    /// True if another gateway takes the place of this one.
    pub(super) leaving: bool,
    pub(super) notes: Vec<String>,
    pub(super) processor: Option<usize>,
    pub(super) publisher: Publisher,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Notes for the user: changes that were made and possible problems, one sentence each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Upper bound of this gateway's memory.
    #[must_use]
    pub fn memory(&self) -> MemoryBound {
        self.publisher.generation().memory
    }

    /// Returns a handle for statistics and changes from other threads while it runs.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.publisher.remote()
    }

    /// Returns the state of this gateway that other threads can read without its data thread.
    #[must_use]
    pub fn vitals(&self) -> Vitals {
        self.liveness.vitals()
    }

    /// Returns the backends of the input and of the output.
    #[must_use]
    pub fn interfaces(&self) -> Vec<InterfaceStats> {
        let DataPath { input, output, .. } = &self.data_path;
        let movers = [(&self.config.input, input.mover()), (&self.config.output, output.mover())];
        movers.into_iter().map(|(name, mover)| InterfaceStats::new(name, mover)).collect()
    }

    /// Returns why the choice [`BackendChoice::Auto`](crate::BackendChoice::Auto) took this backend, or `None` if another one
    /// was made.
    #[must_use]
    pub fn backend_reason(&self) -> Option<&str> {
        self.choice.reason.as_deref()
    }

    /// Returns the fail-open state.
    #[must_use]
    pub fn fail_open(&self) -> &FailOpenStats {
        &self.held.fail_open
    }

    /// Discards a gateway that never ran, and removes the wires that it created.
    pub(super) fn abandon(mut self) {
        if let Some(hold) = self.held.hold.take() {
            hold.undo();
        }
    }

    /// Moves frames on this thread, on the configured processor. Ends when another gateway takes its place, when an
    /// interface disappears and is not to be waited for, or within 50 ms after `stop` is set. Before it returns, it
    /// restores the offloads that it had turned off.
    ///
    /// # Errors
    /// [`RunError`] if an interface went down or disappeared.
    pub fn run(mut self, stop: &AtomicBool) -> Result<GatewayStats, RunError> {
        if let Some(processor) = self.processor {
            // The processor was checked at the start. If it has gone since, the thread runs elsewhere.
            let _ = sys::pin_thread(processor);
        }
        pacing::wake_punctually();
        self.start_workers();
        let mut time = Time { start: self.data_path.clock.now(), slept: 0, spun: 0, processor: clock::thread_cpu_ns() };
        self.liveness.begin(time.start);
        self.begin_taking();
        let ended = self.forward_or_leave_alone(stop, &mut time);
        self.keeper.end();
        if let Some(hold) = &mut self.held.hold {
            hold.let_pass();
        }
        let last = Arc::new(self.close(&time));
        self.publisher.publish_last(Arc::clone(&last));
        let stats = Observation::new(last).stats(None);
        self.liveness.end();
        drop(self.held);
        match ended {
            Ok(()) => Ok(stats),
            Err(source) => Err(RunError { source, stats: Box::new(stats) }),
        }
    }

    /// Moves frames. If that panics and there are workers, they forward until `stop` is set; the panic goes on then.
    fn forward_or_leave_alone(&mut self, stop: &AtomicBool, time: &mut Time) -> Result<(), BackendError> {
        let Some(crew) = self.data_path.input.crew() else { return self.forward(stop, time) };
        let forward = AssertUnwindSafe(|| self.forward(stop, time));
        match std::panic::catch_unwind(forward) {
            Ok(ended) => ended,
            Err(panic) => {
                crew.leave_alone();
                let text = "the data thread has panicked: workers forward each class at its guarantee until the gateway is ended; start it anew";
                self.liveness.say(LogEvent::error(text));
                while !stop.load(Ordering::Relaxed) {
                    let now = self.data_path.clock.shared(self.data_path.clock.now());
                    self.held.hold.iter_mut().for_each(|hold| hold.beat(now));
                    std::thread::sleep(ALONE);
                }
                std::panic::resume_unwind(panic)
            }
        }
    }

    fn forward(&mut self, stop: &AtomicBool, time: &mut Time) -> Result<(), BackendError> {
        let mut now = time.start;
        let mut ending = None;
        loop {
            now = self.turns(now);
            if ending.is_none() && (stop.load(Ordering::Relaxed) || self.leaving) {
                ending = Some(self.begin_end(now));
            }
            if let Some(ending) = &mut ending
                && self.is_over(now, ending)
            {
                return Ok(());
            }
            self.answer(time);
            now = self.data_path.clock.now();
            if let Some(tap) = &mut self.data_path.tap
                && tap.is_over(now)
                && let Some(tap) = self.data_path.tap.take()
            {
                self.publisher.give_back(tap);
            }
            let (moved, wake) = match self.data_path.turn(now, &mut self.driver) {
                Err(gone @ BackendError::Gone { .. }) if self.config.wait_for_interfaces && ending.is_none() => {
                    now = self.wait_for_interfaces(&gone, stop, time);
                    continue;
                }
                turned => turned?,
            };
            let end = self.data_path.clock.now();
            if !moved {
                time.spun += end.saturating_sub(now).0;
            }
            if self.liveness.is_due(end) {
                self.look(end, wake);
            }
            if self.data_path.has_more() {
                now = end;
                continue;
            }
            let retry = self.data_path.retry_at(end);
            let until = match wake {
                _ if self.publisher.is_copying() => {
                    now = end;
                    continue;
                }
                Wake::At(at) if at <= end && self.data_path.is_flushed() => {
                    now = end;
                    continue;
                }
                _ if ending.is_some() => Until::Retry(end.saturating_add(BUSY_RETRY)),
                Wake::At(at) if self.data_path.is_flushed() && retry.is_none_or(|retry| at <= retry) => Until::Time(at),
                _ => retry.map_or(Until::Arrival, Until::Retry),
            };
            // A thread that does not sleep needs no descriptors, and workers need not wake it.
            let sleeps = self.config.pacing != Pacing::Busy;
            let input = (sleeps && self.data_path.receiving).then(|| self.data_path.input.readable()).flatten();
            let output = (sleeps && self.data_path.takes_reverse()).then(|| self.data_path.output.readable()).flatten();
            let slept = pacing::wait(self.config.pacing, &self.data_path.clock, until, [input, output])
                .map_err(|source| BackendError::System { interface: String::new(), what: "waiting", source })?;
            now = self.data_path.clock.now();
            time.slept += slept.0;
            time.spun += now.saturating_sub(end).saturating_sub(slept).0;
        }
    }

    /// Serves pending requests between turns.
    pub(super) fn answer(&mut self, time: &Time) {
        #[cfg(any(test, feature = "testing"))]
        self.publisher.be_disturbed();
        if self.publisher.is_asked() {
            self.copy_on(self.data_path.clock.now(), time);
        }
        if self.publisher.has_order()
            && let Some(mut order) = self.publisher.take_order()
        {
            self.commit(self.data_path.clock.now(), &mut order);
            self.publisher.order_done(order);
            self.liveness.begin_anew();
        }
        if self.publisher.has_tap() {
            self.begin_trace();
        }
    }

    /// Makes the change, between two turns.
    fn commit(&mut self, now: Nanos, order: &mut PendingChange) {
        if !order.keeps_numbers
            && let Some(tap) = self.data_path.tap.take()
        {
            self.publisher.give_back(tap);
        }
        order.commit(now, &mut self.driver, &mut self.data_path);
        std::mem::swap(&mut self.config, &mut order.config);
        order.generation = self.publisher.change(Arc::clone(&order.generation));
    }

    /// Starts a requested trace.
    fn begin_trace(&mut self) {
        if let Some(mut tap) = self.publisher.take_tap() {
            if tap.generation() != self.publisher.generation().number {
                // Its classes are those of before a change.
                self.publisher.give_back(tap);
                return;
            }
            tap.start(self.data_path.clock.zero_since_1970());
            self.data_path.tap = Some(tap);
        }
    }

    /// Builds the final statistics. Frames that the interfaces have accepted get a moment to leave. Packets left in the
    /// queues are counted, then taken out. The statistics are balanced if both numbers agree and the pool gets every
    /// frame back.
    fn close(&mut self, time: &Time) -> Snapshot {
        for _ in 0..LEAVING_TRIES {
            self.data_path.settle();
            self.data_path.reclaim();
            if !self.data_path.is_sending() {
                break;
            }
            std::thread::sleep(Duration::from_nanos(BUSY_RETRY.0));
        }
        self.data_path.end_workers();
        if let Some(early) = &mut self.data_path.early {
            early.count_all(&mut self.data_path.counters);
        }
        let mut last = Snapshot::new(Arc::clone(self.publisher.generation()));
        let now = self.data_path.clock.now();
        self.data_path.collect_alone();
        last.copy(0..last.classes.len(), now, &self.data_path, self.driver.scheduler());
        last.gateway = self.counts(time);
        let queued: Amount = last.classes.iter().map(|class| class.queued).sum();
        let Self { driver, data_path, .. } = self;
        let mut left = data_path.outgoing_packets();
        driver.scheduler_mut().purge(Nanos::MAX, &mut |_, packet: fairlink_core::Packet, _| {
            left += data_path.take_back(packet);
        });
        last.gateway.pool_agrees &= left == queued.packets && data_path.release();
        last
    }

    /// Continues a requested snapshot by a few classes.
    fn copy_on(&mut self, now: Nanos, time: &Time) {
        let Some(mut copying) = self.publisher.take_copying() else { return };
        if copying.is_new() {
            self.data_path.collect_alone();
            if let Some(early) = &mut self.data_path.early {
                early.count_all(&mut self.data_path.counters);
            }
        }
        if copying.go_on(COPIED, now, &self.data_path, self.driver.scheduler()) {
            copying.complete(self.counts(time));
            match self.publisher.publish(copying) {
                Ok(()) => return,
                Err(later) => copying = later,
            }
        }
        self.publisher.keep_copying(copying);
    }

    /// Returns the counters of the whole gateway.
    fn counts(&mut self, time: &Time) -> GatewayCounts {
        let Self { config, driver, data_path, held, keeper, liveness, .. } = self;
        let [input, output] = [data_path.input.counters(), data_path.output.counters()];
        let uptime = data_path.clock.now().saturating_sub(time.start);
        GatewayCounts {
            uptime,
            interfaces: input + output,
            splits: data_path.splits(),
            shed_unknown: data_path.early.as_ref().map_or(0, |early| early.unknown().packets),
            movers: [data_path.input.mover(), data_path.output.mover()],
            output_busy: data_path.onward.busy + data_path.output.busy(),
            waits_for_carrier: [&data_path.onward, &data_path.backward].map(Outlet::waits_for_carrier),
            forfeited: driver.pacer().forfeited(),
            fail_open: Some(Arc::clone(&held.fail_open)),
            upkeep: keeper.upkeep(),
            liveness: liveness.stats(),
            reverse: data_path.reverse_stats(),
            time: time.shares(uptime, data_path),
            workers: worker_times(data_path, uptime),
            profile: config.profile.then(|| Profile::from_samples(&data_path.sampled)),
            pool_most_used: data_path.pool.most_used() as u64,
            pool_agrees: data_path.pool_agrees(driver.scheduler().backlog().packets),
        }
    }
}

fn worker_times(data_path: &RealPath, uptime: Nanos) -> WorkerTimes {
    let mut times = WorkerTimes::default();
    for worker in data_path.input.crew().iter().flat_map(|crew| &crew.workers) {
        times.add(worker.worked().0 as f64 / uptime.0.max(1) as f64);
    }
    times
}

/// Start of the thread, and how many nanoseconds it slept, and was awake without work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    start: Nanos,
    slept: u64,
    spun: u64,
    /// Processor time of the thread at its start.
    processor: u64,
}

impl Profile {
    fn from_samples(sampled: &Sampled) -> Self {
        Self {
            turns: sampled.turns,
            received_packets: sampled.received,
            sent_packets: sampled.sent,
            receive_ns: sampled.receive,
            classify_ns: sampled.classify,
            enqueue_ns: sampled.enqueue,
            dequeue_ns: sampled.dequeue(),
            send_ns: sampled.send,
            reverse_ns: sampled.reverse,
        }
    }
}

impl Time {
    fn shares<I, O, C>(&self, uptime: Nanos, data_path: &DataPath<I, O, C>) -> TimeShares {
        if uptime == Nanos::ZERO {
            return TimeShares::default();
        }
        let idle = (self.slept as f64 / uptime.0 as f64).min(1.0);
        let spinning = (self.spun as f64 / uptime.0 as f64).min(1.0 - idle);
        let sampled = data_path.sampled;
        let scheduler = sampled.enqueue + sampled.dequeue();
        let parts = sampled.receive + sampled.classify + sampled.send + sampled.reverse;
        let all = (parts + scheduler).max(1) as f64;
        let share = |part: u64| (1.0 - idle - spinning) * part as f64 / all;
        TimeShares {
            idle,
            spinning,
            processor: clock::thread_cpu_ns().saturating_sub(self.processor) as f64 / uptime.0 as f64,
            receive: share(sampled.receive),
            classify: share(sampled.classify),
            scheduler: share(scheduler),
            send: share(sampled.send),
            reverse: share(sampled.reverse),
            sampled_turns: sampled.turns,
        }
    }
}
