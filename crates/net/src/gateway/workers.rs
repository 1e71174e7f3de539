//! Workers of a gateway on several cores: threads that receive and send for the data thread, which has the scheduler.
//!
//! A worker has a socket of its own on each interface. The kernel gives it the frames of some flows. It hands them to the
//! data thread, in order. It sends the frames that the data thread selects for it by the hash of their flow. So the frames
//! of a flow stay in order on both ways, and after a change of the receive hash, too. See [`crate::io::hub`] for the
//! rings.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::thread::JoinHandle;

use fairlink_config::matching::frame_headers;
use fairlink_core::Nanos;

use crate::gateway::outlet::{Outcome, Outlet};
use crate::io::backend::{Arrival, BATCH, Backend, Condition, Settled};
use crate::io::clock::Clock;
use crate::io::frame_pool::FramePool;
use crate::io::hub::{self, Crew, HubPort, OF_WORKER, SENDING, Side, WorkerEnd};
use crate::io::pacing::{self, Pacing};
use crate::io::sys;

/// Interval at which a worker publishes its counters.
const COUNT: Nanos = Nanos::from_millis(5);
/// Pause of a worker whose arrivals the data thread does not take, and of one whose interface is busy at least.
const NAP: Nanos = Nanos::from_micros(50);
/// Longest sleep.
const LONGEST: Nanos = Nanos::from_millis(50);

/// One interface of a worker.
struct Served<B> {
    backend: B,
    outlet: Outlet,
    /// Frames to send, in order.
    waiting: Vec<u32>,
    /// False if nothing is received from it.
    receives: bool,
}

/// See the module.
pub(super) struct Worker<B, C> {
    view: FramePool,
    end: WorkerEnd,
    input: Served<B>,
    output: Served<B>,
    clock: C,
    /// Secret of the hashes of flows, the same for all workers.
    salt: RandomState,
    arrivals: Vec<Arrival>,
    next_count: Nanos,
}

/// What all workers of a link have in common.
#[derive(Clone, Debug)]
pub(super) struct Common<C> {
    pub(super) clock: C,
    pub(super) pacing: Pacing,
    /// True if frames of the output are forwarded, too.
    pub(super) reverse: bool,
}

/// Makes one worker for each pair of backends, the input's and the output's, and the data thread's ends of both
/// interfaces. The threads run on `processors`, one each if there are as many, from [`HubPort::start`] on.
///
/// # Errors
/// The kernel gives no descriptor for a wakeup.
pub(super) fn hire<B: Backend + Send + 'static, C: Clock + Clone + Send + 'static>(
    backends: Vec<[B; 2]>,
    pool: &FramePool,
    common: &Common<C>,
    processors: Vec<usize>,
) -> std::io::Result<[HubPort; 2]> {
    let crew = Crew::new(backends.len())?;
    let (ports, workers) = make(&crew, backends, pool, common);
    let pacing = common.pacing;
    crew.set_starter(Box::new(move || {
        let start = |(number, worker): (usize, Worker<B, C>)| {
            let processor = processors.get(number).copied();
            let name = format!("worker {}", number + 1);
            std::thread::Builder::new().name(name).spawn(move || worker.run(pacing, processor)).ok()
        };
        workers.into_iter().enumerate().filter_map(start).collect::<Vec<JoinHandle<()>>>()
    }));
    Ok(ports)
}

/// Makes the workers of `crew`, without threads.
pub(super) fn make<B: Backend, C: Clock + Clone>(
    crew: &Arc<Crew>,
    backends: Vec<[B; 2]>,
    pool: &FramePool,
    common: &Common<C>,
) -> ([HubPort; 2], Vec<Worker<B, C>>) {
    let (ports, ends) = hub::rings(crew);
    let salt = RandomState::new();
    let serve = |backend, receives| Served {
        backend,
        outlet: Outlet::default(),
        waiting: Vec::with_capacity(SENDING),
        receives,
    };
    let worker = |([input, output], end): ([B; 2], WorkerEnd)| Worker {
        view: pool.view(OF_WORKER as usize),
        end,
        input: serve(input, true),
        output: serve(output, common.reverse),
        clock: common.clock.clone(),
        salt: salt.clone(),
        arrivals: Vec::with_capacity(BATCH),
        next_count: Nanos::ZERO,
    };
    (ports, backends.into_iter().zip(ends).map(worker).collect())
}

impl<B: Backend, C: Clock> Worker<B, C> {
    /// Moves frames until the crew ends.
    fn run(mut self, pacing: Pacing, processor: Option<usize>) {
        if let Some(processor) = processor {
            // The processor was checked at the start. If it has gone since, the thread runs elsewhere.
            let _ = sys::pin_thread(processor);
        }
        pacing::wake_punctually();
        while !self.end.crew.is_stopping() {
            let now = self.clock.now();
            if self.turn(now) {
                continue;
            }
            if pacing == Pacing::Busy {
                std::hint::spin_loop();
            } else {
                self.sleep(now);
            }
        }
        self.leave();
    }

    /// Its interfaces.
    #[cfg(test)]
    pub(super) fn interfaces(&mut self) -> [&mut B; 2] {
        [&mut self.input.backend, &mut self.output.backend]
    }

    /// Moves frames both ways. Returns true if any moved.
    pub(super) fn turn(&mut self, now: Nanos) -> bool {
        while let Some(frame) = self.end.next_lent() {
            // SAFETY: the data thread has lent it before it put it into the ring.
            unsafe { self.view.adopt(frame, true) };
        }
        let mut moved = false;
        for side in [Side::Input, Side::Output] {
            moved |= self.receive(side, now);
            moved |= self.send(side, now);
        }
        self.input.backend.reclaim(&mut self.view);
        self.output.backend.reclaim(&mut self.view);
        while let Some(frame) = self.view.take_returned() {
            self.end.give_back(frame);
        }
        if now >= self.next_count {
            self.next_count = now.saturating_add(COUNT);
            self.count();
        }
        moved
    }

    /// Hands received frames to the data thread.
    fn receive(&mut self, side: Side, now: Nanos) -> bool {
        let epoch = self.end.crew.epoch();
        let Self { view, end, input, output, salt, arrivals, .. } = self;
        let Served { backend, receives, .. } = match side {
            Side::Input => input,
            Side::Output => output,
        };
        let WorkerEnd { lanes, state, crew, .. } = end;
        let lane = &mut lanes[side as usize];
        if !*receives || state.has_failed(side) {
            state.set_drained(side, epoch);
            return false;
        }
        let room = lane.room();
        if room > 0
            && let Err(error) = backend.receive(view, now, room, arrivals)
        {
            state.fail(side, error);
            crew.hub.notify();
        }
        let count = arrivals.len();
        for arrival in arrivals.drain(..) {
            let frame = arrival.frame;
            let key = frame_headers(view.packet(frame)).key;
            // Fragments have no ports.
            let flow = salt.hash_one((&key.src, &key.dst, key.proto, key.sport, key.dport)) as u32;
            view.set_flow(frame, flow);
            match arrival.condition {
                Condition::Super(number) => {
                    let mut buffer = lane.buffer();
                    let fetched = backend.fetch(view, frame, number, &mut buffer.bytes);
                    buffer.segments = Some(*backend.segments(number));
                    buffer.len = if matches!(fetched, Ok(true)) { arrival.len as usize } else { 0 };
                    if let Err(error) = fetched {
                        state.fail(side, error);
                    }
                    view.let_go(frame);
                    lane.arrived_joined(arrival, buffer);
                }
                _ => {
                    view.let_go(frame);
                    lane.arrived(arrival);
                }
            }
        }
        if count < room && !backend.has_more() && view.free() > 0 {
            state.set_drained(side, epoch);
        }
        state.set_flooded(side, count == room && backend.is_flooded());
        if count > 0 {
            crew.hub.notify();
        }
        count > 0
    }

    /// Sends frames that the data thread has selected.
    fn send(&mut self, side: Side, now: Nanos) -> bool {
        let Self { view, end, input, output, clock, .. } = self;
        let Served { backend, outlet, waiting, .. } = match side {
            Side::Input => input,
            Side::Output => output,
        };
        let WorkerEnd { lanes, state, crew, .. } = end;
        let lane = &mut lanes[side as usize];
        while waiting.len() < SENDING
            && let Some(frame) = lane.next_to_send()
        {
            // SAFETY: the data thread has lent it before it put it into the ring.
            unsafe { view.adopt(frame, false) };
            waiting.push(frame);
        }
        if waiting.is_empty() || now < outlet.retry_at() || state.has_failed(side) {
            return false;
        }
        let busy = outlet.busy;
        let (done, error) = outlet.offer(now, backend, view, waiting, |_, outcome| match outcome {
            Outcome::Accepted(range) => {
                let now = clock.now();
                range.for_each(|_| lane.settle(Settled::Accepted(now)));
            }
            Outcome::Refused(_, reason) => {
                lane.settle(Settled::Refused { too_long: reason.raw_os_error() == Some(libc::EMSGSIZE) });
            }
        });
        waiting.drain(..done);
        state.add_busy(outlet.busy - busy);
        state.set_without_carrier(side, outlet.waits_for_carrier());
        if let Some(error) = error {
            state.fail(side, error);
        }
        if done > 0 || state.has_failed(side) {
            crew.hub.notify();
        }
        done > 0
    }

    /// Sleeps until something comes.
    fn sleep(&self, now: Nanos) {
        let Self { end, input, output, .. } = self;
        let WorkerEnd { lanes, state, crew, .. } = end;
        state.signal.prepare();
        let asked = [Side::Input, Side::Output].into_iter().any(|side| state.is_asked(side, crew.epoch()));
        let waits = |served: &Served<B>| !served.waiting.is_empty();
        let more = lanes.iter().zip([input, output]).any(|(lane, served)| lane.has_to_send() && !waits(served));
        if more
            || asked
            || end.has_lent()
            || crew.is_stopping()
            || input.backend.has_more()
            || output.backend.has_more()
        {
            state.signal.awake();
            if asked {
                // Frames in the kernel wait for room.
                std::thread::yield_now();
            }
            return;
        }
        let mut until = now.saturating_add(LONGEST);
        for (lane, served) in lanes.iter().zip([input, output]) {
            if waits(served) {
                until = until.min(served.outlet.retry_at().max(now.saturating_add(NAP)));
            }
            if served.receives && lane.room() == 0 {
                until = until.min(now.saturating_add(NAP));
            }
        }
        let [from_input, from_output] = [(0, input), (1, output)].map(|(lane, served)| {
            let listens = served.receives && lanes[lane].room() > 0;
            listens.then(|| served.backend.readable()).flatten()
        });
        let fds = [from_input, from_output, state.signal.fd()];
        // A sleep that fails ends at once, and the loop goes on.
        let _ = pacing::sleep(until.saturating_sub(now), fds);
        state.signal.awake();
    }

    fn count(&mut self) {
        let Self { end: WorkerEnd { state, .. }, input, output, .. } = self;
        state.count(Side::Input, input.backend.counters());
        state.count(Side::Output, output.backend.counters());
        for note in [input.backend.take_note(), output.backend.take_note()].into_iter().flatten() {
            state.note(note);
        }
    }

    /// Ends: reports the frames that it cannot send any more, and closes its sockets.
    pub(super) fn leave(mut self) {
        for (served, lane) in [&mut self.input, &mut self.output].into_iter().zip(&mut self.end.lanes) {
            let left = served.waiting.len() + std::iter::from_fn(|| lane.next_to_send()).count();
            (0..left).for_each(|_| lane.settle(Settled::Refused { too_long: false }));
        }
        self.count();
        self.input.backend.release(&mut self.view);
        self.output.backend.release(&mut self.view);
    }
}
