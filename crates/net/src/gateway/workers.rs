//! Workers of a gateway on several cores: threads that receive and send for the data thread, which has the scheduler.
//!
//! A worker has a socket of its own on each interface. The kernel gives it the frames of some flows. It hands them to the
//! data thread, in order. It sends the frames that the data thread selects for it by the hash of their flow. So the frames
//! of a flow stay in order on both ways. The kernel chooses the socket by its hash of the flow and not by the queue of the
//! interface, so that other receive queues of a flow change nothing. See [`crate::io::hub`] for the rings.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::JoinHandle;

use fairlink_config::matching::frame_headers;
use fairlink_core::{ClassId, Nanos};

mod desk;

use crate::gateway::outlet::{Outcome, Outlet};
use crate::gateway::splitter::SuperFrame;
use crate::gateway::workers::desk::Sorting;
pub(crate) use crate::gateway::workers::desk::{Alone, Desk, DeskEnd, PATIENCE, Sortings};
use crate::io::backend::{Arrival, BATCH, Backend, BackendError, Condition, Settled, Sorted};
use crate::io::clock::Clock;
use crate::io::frame_pool::{FramePool, Use};
use crate::io::hub::{self, Crew, CrewPort, SENDING, Side, SuperBuffer, WorkerEnd, WorkerState};
use crate::io::pacing::{self, Pacing};
use crate::io::sys;
use crate::wire::fragments::Fragments;

/// Interval at which a worker publishes its counters.
const COUNT: Nanos = Nanos::from_millis(5);
/// Pause of a worker whose arrivals the data thread does not take, or that has to look whether the kernel's buffers are
/// empty, and of one whose interface is busy at least.
const NAP: Nanos = Nanos::from_micros(50);
/// Longest sleep.
const LONGEST: Nanos = Nanos::from_millis(50);
/// Time between two turns from which a worker has paused.
const PAUSE: Nanos = Nanos::from_millis(100);

/// One interface of a worker.
struct Served<B> {
    backend: B,
    outlet: Outlet,
    /// Frames to send, in order.
    waiting: Vec<u32>,
    /// Frames to send that this worker forwards by itself.
    own: Vec<Own>,
    /// False if nothing is received from it.
    receives: bool,
}

/// A frame that a worker forwards by itself.
#[derive(Clone, Copy, Debug)]
struct Own {
    frame: u32,
    /// `None` in the other direction.
    class: Option<ClassId>,
    /// On the wire.
    len: u32,
}

/// Counts a frame that a worker has forwarded, or dropped, by itself. A class is that of `sorting`.
fn count_own(sorting: Option<&Sorting>, desk: &Desk, Own { class, len, .. }: Own, sent: bool) {
    match (class, sorting) {
        (Some(class), Some(Sorting { paces, .. })) => paces.count(class, paces.accounted(len), sent),
        _ => desk.passed_back(len, sent),
    }
}

/// See the module.
pub(super) struct Worker<B, C> {
    view: FramePool,
    end: WorkerEnd,
    /// The input and the output.
    served: [Served<B>; 2],
    clock: C,
    /// Secret of the hashes of flows, the same for all workers.
    salt: RandomState,
    arrivals: Vec<Arrival>,
    number: usize,
    desk: Arc<Desk>,
    sorting: Option<Box<Sorting>>,
    fragments: Fragments,
    /// For super-frames that it forwards by itself.
    buffer: Box<SuperBuffer>,
    list: Vec<u32>,
    /// Time of its last turn, and the first after its last pause: the data thread may have paused with it.
    turned: Nanos,
    awake_since: Nanos,
    next_count: Nanos,
}

/// Parts of one worker: its view of the packet pool, and its ends of the input and the output.
pub(super) struct Staff<B> {
    pub(super) view: FramePool,
    pub(super) backends: [B; 2],
}

impl<B: Backend> Staff<B> {
    /// Frames for reception.
    fn frames(&self) -> usize {
        self.view.free() + self.backends.iter().map(Backend::held).sum::<usize>()
    }
}

/// Parts that all workers of a link have in common.
#[derive(Clone, Debug)]
pub(super) struct Common<C> {
    pub(super) clock: C,
    pub(super) pacing: Pacing,
    /// True if frames of the output are forwarded, too.
    pub(super) reverse: bool,
    pub(super) desk: Arc<Desk>,
}

/// Makes one worker for each of `staff`, and the data thread's ends of both interfaces. The threads run on `processors`, one each if there are as many, from [`Crew::start`] on. One that cannot be
/// started, or panics, has its interfaces fail, so that the gateway ends with the reason.
///
/// # Errors
/// The kernel gives no descriptor for a wakeup, or there is no memory for buffers.
pub(super) fn hire<B: Backend + Send + 'static, C: Clock + Clone + Send + 'static>(
    staff: Vec<Staff<B>>,
    common: &Common<C>,
    processors: Vec<usize>,
) -> io::Result<[CrewPort; 2]> {
    let crew = Crew::new(staff.len())?;
    let (ports, workers) = make(&crew, staff, common)?;
    let pacing = common.pacing;
    crew.set_starter(Box::new(move || {
        let start = |(number, worker): (usize, Worker<B, C>)| {
            let processor = processors.get(number).copied();
            let (name, state) = (format!("worker {}", number + 1), Arc::clone(&worker.end.state));
            let run = {
                let (name, crew, state) = (name.clone(), Arc::clone(&worker.end.crew), Arc::clone(&state));
                move || {
                    if std::panic::catch_unwind(AssertUnwindSafe(|| worker.run(pacing, processor))).is_err() {
                        fail(&state, &name, "the thread has panicked");
                        crew.hub.wake();
                    }
                }
            };
            let started = std::thread::Builder::new().name(name.clone()).spawn(run);
            started.inspect_err(|error| fail(&state, &name, &error.to_string())).ok()
        };
        workers.into_iter().enumerate().filter_map(start).collect::<Vec<JoinHandle<()>>>()
    }));
    Ok(ports)
}

/// Has both interfaces of a worker fail, because of `why`.
fn fail(state: &WorkerState, name: &str, why: &str) {
    for side in [Side::Input, Side::Output] {
        let (interface, source) = (format!("of {name}"), io::Error::other(why));
        state.fail(side, BackendError::System { interface, what: "running its thread", source });
    }
}

/// The data thread's ends of both interfaces, and workers.
type Staffed<B, C> = ([CrewPort; 2], Vec<Worker<B, C>>);

/// Makes the workers of `crew`, without threads.
///
/// # Errors
/// There is no memory for buffers.
pub(super) fn make<B: Backend, C: Clock + Clone>(
    crew: &Arc<Crew>,
    staff: Vec<Staff<B>>,
    common: &Common<C>,
) -> io::Result<Staffed<B, C>> {
    let (ports, ends) = hub::rings(crew, staff.iter().map(Staff::frames))?;
    let salt = RandomState::new();
    let serve = |backend, receives| Served {
        backend,
        outlet: Outlet::default(),
        waiting: Vec::with_capacity(SENDING),
        own: Vec::with_capacity(2 * BATCH),
        receives,
    };
    let worker = |(number, (Staff { view, backends: [input, output] }, end)): (usize, (Staff<B>, WorkerEnd))| {
        Ok(Worker {
            view,
            end,
            served: [serve(input, true), serve(output, common.reverse)],
            clock: common.clock.clone(),
            salt: salt.clone(),
            arrivals: Vec::with_capacity(BATCH),
            number,
            desk: Arc::clone(&common.desk),
            sorting: None,
            fragments: Fragments::new(),
            buffer: SuperBuffer::new()?,
            list: Vec::with_capacity(2 * BATCH),
            turned: Nanos::ZERO,
            awake_since: Nanos::ZERO,
            next_count: Nanos::ZERO,
        })
    };
    let workers = staff.into_iter().zip(ends).enumerate().map(worker).collect::<io::Result<_>>()?;
    Ok((ports, workers))
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
        self.served.each_mut().map(|served| &mut served.backend)
    }

    /// Moves frames both ways. Returns true if any moved.
    pub(super) fn turn(&mut self, now: Nanos) -> bool {
        while let Some(frame) = self.end.next_lent() {
            // SAFETY: the data thread has lent it before it put it into the ring.
            unsafe { self.view.adopt(frame, Use::Fill) };
        }
        if let Some(sorting) = self.desk.take(self.number, self.generation()) {
            self.sorting = Some(sorting);
        }
        if now.saturating_sub(self.turned) > PAUSE {
            self.awake_since = now;
        }
        self.turned = now;
        let mut moved = false;
        for side in [Side::Input, Side::Output] {
            moved |= self.receive(side, now);
        }
        for side in [Side::Input, Side::Output] {
            moved |= self.send(side, now);
        }
        self.served.iter_mut().for_each(|served| served.backend.reclaim(&mut self.view));
        while let Some(frame) = self.view.take_returned() {
            self.end.give_back(frame);
        }
        for side in [Side::Input, Side::Output] {
            moved |= self.send_own(side, now);
        }
        if now >= self.next_count {
            self.next_count = now.saturating_add(COUNT);
            self.count();
        }
        moved
    }

    /// Number of the generation whose classes it knows.
    fn generation(&self) -> u32 {
        self.sorting.as_ref().map_or(u32::MAX, |sorting| sorting.generation)
    }

    /// Hands received frames to the data thread; or to the other interface, if the data thread makes no turn.
    fn receive(&mut self, side: Side, now: Nanos) -> bool {
        let epoch = self.end.crew.epoch();
        let stopped = self.end.crew.stopped(now, self.awake_since, self.desk.patience);
        let Self { view, end: WorkerEnd { lanes, state, crew, .. }, served, arrivals, .. } = self;
        let at = side as usize;
        if !served[at].receives || state.has_failed(side) {
            state.set_drained(side, epoch);
            return false;
        }
        let room = match stopped {
            None => lanes[at].room(),
            Some(_) => BATCH - served[1 - at].own.len().min(BATCH),
        };
        if room > 0
            && let Err(error) = served[at].backend.receive(view, now, room, arrivals)
        {
            state.fail(side, error);
            crew.call(now);
        }
        let mut arrivals = std::mem::take(arrivals);
        let count = arrivals.len();
        for mut arrival in arrivals.drain(..) {
            let flow = self.sort(&mut arrival);
            self.view.set_flow(arrival.frame, flow);
            match stopped {
                None => self.hand_over(side, arrival),
                Some(stopped) => self.forward(side, arrival, now, stopped),
            }
        }
        self.arrivals = arrivals;
        let Self { view, end: WorkerEnd { state, crew, .. }, served, desk, .. } = self;
        let backend = &served[at].backend;
        state.set_flooded(side, count == room && backend.is_flooded());
        if count > 0 {
            match (stopped, side) {
                (None, _) => {
                    state.took(count);
                    crew.call(now);
                }
                (Some(_), Side::Input) => desk.fetched_alone(count),
                (Some(_), Side::Output) => {}
            }
        }
        let can_receive = view.free() > 0 || backend.held() > 0;
        if stopped.is_none() && count == 0 && room > 0 && !backend.has_more() && can_receive {
            state.set_drained(side, epoch);
        }
        count > 0
    }

    /// Finds the class of a frame. Returns the hash of its flow.
    fn sort(&mut self, arrival: &mut Arrival) -> u32 {
        let Self { view, sorting, fragments, salt, .. } = self;
        let mut headers = frame_headers(view.packet(arrival.frame));
        fragments.complete(&mut headers, salt);
        let key = &headers.key;
        if let Some(Sorting { generation, classifier, .. }) = sorting.as_deref_mut() {
            arrival.sorted = Some(Sorted { class: classifier.classify(key), generation: *generation as u16 });
        }
        salt.hash_one((&key.src, &key.dst, key.proto, key.sport, key.dport)) as u32
    }

    /// Gives a frame to the data thread.
    fn hand_over(&mut self, side: Side, arrival: Arrival) {
        let Self { view, end: WorkerEnd { lanes, state, .. }, served, .. } = self;
        let (lane, backend) = (&mut lanes[side as usize], &mut served[side as usize].backend);
        let Condition::Super(number) = arrival.condition else {
            view.let_go(arrival.frame);
            return lane.arrived(arrival);
        };
        let mut buffer = lane.buffer();
        let fetched = backend.fetch(view, arrival.frame, number, buffer.bytes());
        buffer.segments = Some(*backend.segments(number));
        buffer.len = if matches!(fetched, Ok(true)) { arrival.len as usize } else { 0 };
        if let Err(error) = fetched {
            state.fail(side, error);
        }
        view.let_go(arrival.frame);
        lane.arrived_joined(arrival, buffer);
    }

    /// Forwards a frame past the data thread, which made its last turn at `stopped`: at the rate of its class, or without
    /// a limit in the other direction.
    fn forward(&mut self, side: Side, arrival: Arrival, now: Nanos, stopped: Nanos) {
        let Self { view, served: [input, output], desk, sorting, buffer, end, .. } = self;
        let (from, to) = match side {
            Side::Input => (input, output),
            Side::Output => (output, input),
        };
        let Arrival { frame, len, condition, sorted, .. } = arrival;
        let class = match side {
            Side::Input => sorted.map(|sorted| sorted.class),
            Side::Output => None,
        };
        let mut own = Own { frame, class, len };
        let mut pass = |view: &mut FramePool, own: Own| {
            let admitted = match (own.class, sorting.as_deref()) {
                (Some(class), Some(Sorting { paces, .. })) => {
                    paces.admits((now, stopped), desk.depth, class, paces.accounted(own.len))
                }
                _ => side == Side::Output,
            };
            if admitted {
                to.own.push(own);
            } else {
                count_own(sorting.as_deref(), desk, own, false);
                view.give_back(own.frame);
            }
        };
        match condition {
            Condition::Whole => pass(view, own),
            Condition::Super(number) => {
                let segments = *from.backend.segments(number);
                let fetched = from.backend.fetch(view, frame, number, buffer.bytes());
                view.give_back(frame);
                let whole = SuperFrame::new(class.unwrap_or(ClassId::ROOT), 0, segments, len as usize, now);
                let mut whole = whole.of_flow(view.info(frame).flow);
                match fetched {
                    Ok(true) => {
                        // Packets that find no frame are lost like those that find no room in a queue.
                        while !whole.left().is_empty()
                            && let Some((packet, _)) = whole.write(view, buffer.bytes(), 1)
                        {
                            pass(view, Own { frame: packet.handle as u32, len: packet.len, class });
                        }
                        for index in whole.left() {
                            own.len = segments.len(index) as u32;
                            count_own(sorting.as_deref(), desk, own, false);
                        }
                    }
                    Ok(false) => {}
                    Err(error) => end.state.fail(side, error),
                }
            }
            Condition::TooLong | Condition::Joined | Condition::Checksum => {
                count_own(sorting.as_deref(), desk, own, false);
                view.give_back(frame);
            }
        }
    }

    /// Sends frames that this worker forwards by itself. They are free for reception then.
    fn send_own(&mut self, side: Side, now: Nanos) -> bool {
        let Self { view, end, served, desk, sorting, list, .. } = self;
        let Served { backend, outlet, waiting, own, .. } = &mut served[side as usize];
        // Those of the data thread are first.
        if own.is_empty() || !waiting.is_empty() || now < outlet.retry_at() || end.state.has_failed(side) {
            return false;
        }
        list.clear();
        list.extend(own.iter().map(|own| own.frame));
        let (done, error) = outlet.offer(now, backend, view, list, |_, outcome| {
            let (range, sent) = match outcome {
                Outcome::Accepted(range) => (range, true),
                Outcome::Refused(index, _) => (index..index + 1, false),
            };
            own[range].iter().for_each(|&own| count_own(sorting.as_deref(), desk, own, sent));
        });
        own.drain(..done);
        if let Some(error) = error {
            end.state.fail(side, error);
        }
        done > 0
    }

    /// Sends frames that the data thread has selected.
    fn send(&mut self, side: Side, now: Nanos) -> bool {
        let Self { view, end, served, clock, .. } = self;
        let Served { backend, outlet, waiting, .. } = &mut served[side as usize];
        let WorkerEnd { lanes, state, crew, .. } = end;
        let lane = &mut lanes[side as usize];
        while waiting.len() < SENDING
            && let Some(frame) = lane.next_to_send()
        {
            // SAFETY: the data thread has lent it before it put it into the ring.
            unsafe { view.adopt(frame, Use::Send) };
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
            Outcome::Refused(_, reason) => lane.settle(Settled::refused(&reason)),
        });
        waiting.drain(..done);
        state.add_busy(outlet.busy - busy);
        state.set_without_carrier(side, outlet.waits_for_carrier());
        if let Some(error) = error {
            state.fail(side, error);
        }
        if done > 0 || state.has_failed(side) {
            crew.call(now);
        }
        done > 0
    }

    /// Sleeps until something comes.
    fn sleep(&self, now: Nanos) {
        let Self { end, served, .. } = self;
        let WorkerEnd { lanes, state, crew, .. } = end;
        state.signal.prepare();
        let waits = |served: &Served<B>| !served.waiting.is_empty() || !served.own.is_empty();
        let more = lanes
            .iter()
            .zip(served)
            .any(|(lane, served)| lane.has_to_send() && !waits(served) || served.backend.has_more());
        if more || end.has_lent() || crew.is_stopping() {
            state.signal.awake();
            return;
        }
        let mut until = now.saturating_add(LONGEST);
        let asked = [Side::Input, Side::Output].into_iter().any(|side| state.is_asked(side, crew.epoch()));
        if asked && crew.stopped(now, self.awake_since, self.desk.patience).is_none() {
            until = now.saturating_add(NAP);
        }
        for (lane, served) in lanes.iter().zip(served) {
            if waits(served) {
                until = until.min(served.outlet.retry_at().max(now.saturating_add(NAP)));
            }
            if served.receives && lane.room() == 0 {
                until = until.min(now.saturating_add(NAP));
            }
        }
        let [from_input, from_output] = [Side::Input, Side::Output].map(|side| {
            let (lane, served) = (&lanes[side as usize], &served[side as usize]);
            let listens = served.receives && lane.room() > 0;
            listens.then(|| served.backend.readable()).flatten()
        });
        let fds = [from_input, from_output, state.signal.fd()];
        // A sleep that fails ends at once, and the loop goes on.
        let _ = pacing::sleep(until.saturating_sub(now), fds);
        state.signal.awake();
    }

    fn count(&mut self) {
        let Self { end: WorkerEnd { state, .. }, served, clock, .. } = self;
        state.set_worked(clock.worked());
        for (side, Served { backend, receives, .. }) in [Side::Input, Side::Output].into_iter().zip(served) {
            state.count(side, backend.counters());
            // Reception would show it.
            if !*receives && let Some(error) = backend.failure() {
                state.fail(side, error);
            }
            if let Some(note) = backend.take_note() {
                state.note(note);
            }
        }
    }

    /// Ends: reports the frames that it cannot send any more, and closes its sockets.
    pub(super) fn leave(mut self) {
        for (served, lane) in self.served.iter_mut().zip(&mut self.end.lanes) {
            let left = served.waiting.len() + std::iter::from_fn(|| lane.next_to_send()).count();
            (0..left).for_each(|_| lane.settle(Settled::Refused { too_long: false }));
            for own in served.own.drain(..) {
                count_own(self.sorting.as_deref(), &self.desk, own, false);
            }
        }
        self.count();
        self.desk.leave(self.number, self.sorting.take());
        self.served.iter_mut().for_each(|served| served.backend.release(&mut self.view));
    }
}
