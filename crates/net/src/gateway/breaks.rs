//! Work of a gateway besides moving frames: heartbeat, recovery after a pause, waiting for a lost interface, and an end
//! without loss of accepted frames.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_core::{Nanos, Scheduler, Wake};

use crate::gateway::claim::Claim;
use crate::gateway::fail_open::{Hold, STALE};
use crate::gateway::liveness;
use crate::gateway::log::LogEvent;
use crate::gateway::open_error::OpenError;
use crate::gateway::outlet::Outlet;
use crate::gateway::ports::{Looked, Ports, WhyNot};
use crate::gateway::run::{Gateway, Time};
use crate::io::af_xdp::Fit;
use crate::io::backend::{Backend, BackendError, BackendKind};
use crate::io::clock::Clock;
use crate::io::port::Footprint;

/// Time after the heartbeat became zero for which programs that have read the previous one may still run and accept
/// frames.
const LINGER: Nanos = Nanos::from_millis(5);
/// Maximum time for fetching accepted frames.
const LONGEST_LINGER: Nanos = Nanos::from_secs(1);
/// Default time for which a gateway that fails open sends queued packets after a stop.
const DRAIN: Nanos = Nanos::from_secs(2);
/// Interval between searches for a lost interface.
const NAP: Duration = Duration::from_millis(20);

/// A gateway that ends.
pub(super) struct Ending {
    /// True while accepted frames are still fetched.
    lingering: bool,
    began: Nanos,
    deadline: Nanos,
}

impl Gateway {
    /// Begins to accept frames. The kernel has already forwarded the frames that the sockets received before.
    pub(super) fn begin_taking(&mut self) {
        let now = self.data_path.clock.shared(self.data_path.clock.now());
        if let Some(hold) = &mut self.held.hold
            && hold.has_lapsed(now)
        {
            hold.beat(now);
            self.data_path.forget();
        }
    }

    /// Starts the workers, if there are any. Where the gateway fails open, the kernel forwards after a while.
    pub(super) fn start_workers(&self) {
        let margin = Nanos(STALE.0 / 6);
        let alone_for = if self.held.hold.is_some() { STALE.saturating_sub(margin) } else { Nanos::MAX };
        self.data_path.start(alone_for);
    }

    /// Begins a turn at `now` and sets the heartbeat. If the kernel forwarded frames during a pause, older frames are
    /// dropped while nothing more is accepted. Returns the time, which may be later.
    pub(super) fn turns(&mut self, mut now: Nanos) -> Nanos {
        let shared = self.data_path.clock.shared(now);
        let pause = self.liveness.turn(now, shared);
        let Some(hold) = &mut self.held.hold else {
            if let Some(pause) = pause {
                self.liveness.paused(pause, "");
            }
            return now;
        };
        let beats = self.data_path.receiving && !self.leaving;
        let lapsed = beats && hold.has_lapsed(shared);
        if lapsed {
            // Only then is it known which frames in the sockets are surplus.
            hold.beat(shared);
        }
        if !beats {
            // Packets that are queued when it ends are still to be sent.
            if let Some(pause) = pause {
                self.liveness.paused(pause, "");
            }
            return now;
        }
        if pause.is_some() || lapsed {
            let count = self.data_path.discard(now, &mut self.driver);
            let what =
                format!("; the kernel forwarded frames meanwhile, and {count} accepted before were dropped as too old");
            let before = now;
            now = self.data_path.clock.now();
            self.liveness.begin(now);
            self.liveness.paused(pause.unwrap_or(now.saturating_sub(before)), &what);
        }
        if let Some(hold) = &mut self.held.hold {
            hold.beat(self.data_path.clock.shared(now));
        }
        now
    }

    /// Checks progress, and whether another gateway requests the interfaces.
    pub(super) fn look(&mut self, now: Nanos, wake: Wake) {
        let queued = self.driver.scheduler().backlog().packets > 0;
        let next = match wake {
            Wake::At(at) if queued => Some(at),
            // The scheduler reports that only an arrival makes a difference although it has packets: it has lost them.
            Wake::OnArrival if queued => Some(now),
            _ => None,
        };
        if self.config.own_traffic {
            self.data_path.look_at_output();
        }
        for note in [self.data_path.input.take_note(), self.data_path.output.take_note()].into_iter().flatten() {
            self.liveness.say(LogEvent::warn(note));
        }
        if let Some(text) = self.data_path.told_alone() {
            self.liveness.say(LogEvent::warn(text));
        }
        let motion = self.data_path.motion(now, next);
        let waits = [&self.data_path.onward, &self.data_path.backward].into_iter().any(Outlet::waits_for_carrier);
        self.liveness.waits_for_carrier(now, waits);
        self.liveness.look(now, motion, [&self.config.output, &self.config.input]);
        if !self.leaving && self.held.claims.iter().any(Claim::is_asked_for) {
            self.leaving = true;
            self.held.give_way();
            self.liveness.say(LogEvent::info("another gateway takes the place of this one"));
        }
    }

    /// Begins the end at `now`. A gateway that fails open accepts nothing more, and fetches the frames already
    /// accepted.
    pub(super) fn begin_end(&mut self, now: Nanos) -> Ending {
        // A last check, because nothing repairs the arrangement from now on. A successor may remove it.
        self.keeper.look().into_iter().for_each(|event| self.liveness.say(event));
        self.keeper.end();
        let lingering = self.held.hold.as_mut().is_some_and(Hold::let_pass);
        // It must not beat again.
        self.leaving |= self.held.hold.is_some();
        self.data_path.receiving = lingering;
        let drain = self.config.drain.unwrap_or(if self.held.hold.is_some() { DRAIN } else { Nanos::ZERO });
        Ending { lingering, began: now, deadline: now.saturating_add(drain) }
    }

    /// Returns true if no work is left at `now`, or no time for it.
    pub(super) fn is_over(&mut self, now: Nanos, ending: &mut Ending) -> bool {
        if ending.lingering {
            let since = now.saturating_sub(ending.began);
            let empty = self.data_path.input.is_empty() && (!self.config.reverse || self.data_path.output.is_empty());
            if since < LINGER || (!empty && since < LONGEST_LINGER) {
                return false;
            }
            ending.lingering = false;
            self.data_path.receiving = false;
        }
        if self.leaving {
            // The successor need not wait until the queues are empty.
            self.held.claims.clear();
        }
        let waiting = !self.data_path.is_flushed() || (self.leaving && self.data_path.waits_backward());
        let queued = self.driver.scheduler().backlog().packets > 0 || waiting;
        (!queued && !self.data_path.is_sending()) || now >= ending.deadline
    }

    /// Waits until both interfaces exist again, or `stop` is set, and continues with them. Queued packets stay. Returns
    /// the time.
    pub(super) fn wait_for_interfaces(&mut self, gone: &BackendError, stop: &AtomicBool, time: &Time) -> Nanos {
        let since = self.data_path.clock.now();
        self.liveness.lost(format!("{gone}; waiting for it"));
        self.keeper.end();
        self.data_path.close_ports();
        // The claims and the hold are bound to interface indices that no longer exist.
        let fail_open = std::mem::take(&mut self.held).fail_open;
        self.held.fail_open = fail_open;
        let mut told = String::new();
        loop {
            let now = self.data_path.clock.now();
            self.liveness.turn(now, self.data_path.clock.shared(now));
            if stop.load(Ordering::Relaxed) {
                return now;
            }
            match self.open_ports() {
                Ok(()) => {
                    let now = self.data_path.clock.now();
                    let after = now.saturating_sub(since);
                    self.liveness.begin(now);
                    self.begin_taking();
                    let text = format!("all interfaces are back after {}", liveness::time(after));
                    self.liveness.found(after, text);
                    return now;
                }
                Err(OpenError::Interface(_) | OpenError::Backend(BackendError::Gone { .. })) => {}
                Err(error) => {
                    let text = error.to_string();
                    if text != told {
                        self.liveness.say(LogEvent::warn(format!("{text}; trying again")));
                        told = text;
                    }
                }
            }
            self.answer(time);
            while self.publisher.is_copying() {
                self.answer(time);
            }
            std::thread::sleep(NAP);
        }
    }

    /// Opens the ports with AF_XDP as before, or with packet sockets if the new interfaces cannot use it.
    fn open_xdp(&mut self, looked: Looked, notes: &mut Vec<String>) -> Result<Ports, OpenError> {
        let within = self.data_path.for_workers();
        let with = (&mut self.data_path.pool, &within);
        let interfaces = [&looked.input, &looked.output];
        let workers = self.config.workers();
        let fits = |fit: &Fit| {
            let footprint = Footprint::of_af_xdp(fit).with_workers(workers);
            footprint.frame_bytes <= self.footprint.frame_bytes && footprint.owned <= self.footprint.owned
        };
        let opened = match Fit::of(interfaces, self.config.reverse, workers) {
            Ok(fit) if fits(&fit) => {
                Ports::open_xdp(&self.config, interfaces, (fit, self.choice.modes), with, self.early.as_ref(), notes)
            }
            Ok(_) => Err(WhyNot::Unfit("an interface has longer frames or more receive queues than before".to_owned())),
            Err(why) => Err(why.into()),
        };
        match opened {
            Ok(ports) => Ok(ports),
            Err(WhyNot::Refused(error)) => Err(error),
            Err(WhyNot::Unfit(why)) => {
                notes.push(format!("falls back to AF_PACKET: {why}"));
                let with = (&self.data_path.pool, &within);
                Ports::open(&self.config, self.early.as_ref(), looked, with, notes)
            }
        }
    }

    fn open_ports(&mut self) -> Result<(), OpenError> {
        let mut notes = Vec::new();
        let looked = Looked::up(&self.config)?;
        looked.check(self.config.force, &mut notes)?;
        notes.clear();
        let Ports { mut input, mut output, held } = match self.footprint.backend {
            BackendKind::AfPacket => {
                let within = self.data_path.for_workers();
                let with = (&self.data_path.pool, &within);
                Ports::open(&self.config, self.early.as_ref(), looked, with, &mut notes)?
            }
            BackendKind::AfXdp => self.open_xdp(looked, &mut notes)?,
        };
        input.inherit(&mut self.data_path.input);
        output.inherit(&mut self.data_path.output);
        self.data_path.open_ports(input, output);
        self.held = held;
        self.start_workers();
        if let Some(hold) = &self.held.hold {
            hold.keep_by(&self.keeper);
        }
        notes.into_iter().for_each(|text| self.liveness.say(LogEvent::warn(text)));
        Ok(())
    }
}
