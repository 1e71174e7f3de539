//! Work on the data path between turns: dropping frames that are too old, and replacing interfaces.

use std::time::Duration;

use fairlink_core::{Driver, Nanos, Packet, Scheduler};
use fairlink_report::DropCause;

use crate::gateway::data_path::{DataPath, passing};
use crate::gateway::liveness::Motion;
use crate::gateway::outlet::Outlet;
use crate::gateway::trace::Gone;
use crate::io::backend::{BATCH, Backend};
use crate::io::clock::Clock;

/// Maximum number of batches that are fetched to be dropped. No socket buffer holds as many frames.
const MOST: usize = 4096;
/// Pause while workers have not handed over all frames.
const NAP: Duration = Duration::from_micros(20);

impl<I: Backend, O: Backend, C: Clock> DataPath<I, O, C> {
    /// Drops all frames from before a pause of the data thread, during which the kernel forwarded frames. They are in
    /// the sockets, in the queues and waiting for the interfaces. All are counted. Nothing may be accepted meanwhile.
    /// Returns the number of frames.
    pub(crate) fn discard<S: Scheduler>(&mut self, now: Nanos, driver: &mut Driver<S>) -> u64 {
        let mut count = driver.scheduler().backlog().packets + u64::from(self.queues.all_further());
        count += self.outgoing.len() as u64 + self.back.len() as u64;
        count += self.discard_super_frames(now);
        self.discarding = true;
        self.input.begin_drain();
        for _ in 0..MOST {
            // Workers see that this thread makes turns.
            let now = self.clock.now();
            match self.fetch(now, &mut Vec::new()).0 {
                0 if !self.input.has_more() && self.input.is_drained() => break,
                0 => std::thread::sleep(NAP),
                fetched => count += fetched as u64,
            }
        }
        self.discarding = false;
        self.output.begin_drain();
        for _ in 0..if self.reverse.is_some() { MOST } else { 0 } {
            let Some(stats) = &mut self.reverse else { break };
            let received = self.output.receive(&mut self.pool, self.clock.now(), BATCH, &mut self.arrivals);
            let fetched = self.arrivals.len();
            for arrival in self.arrivals.drain(..) {
                stats.received.count(arrival.len);
                stats.dropped.count(arrival.len);
                self.pool.give_back(arrival.frame);
            }
            count += fetched as u64;
            self.note(received.err());
            if fetched == 0 {
                if !self.output.has_more() && self.output.is_drained() {
                    break;
                }
                std::thread::sleep(NAP);
            }
        }
        if let Some(stats) = &mut self.reverse {
            for frame in self.back.drain(..) {
                stats.dropped.count(self.pool.info(frame).len);
                self.pool.give_back(frame);
            }
        }
        for packet in self.outgoing.drain(..) {
            let Packet { handle, len, class } = packet;
            self.counters.dropped_behind(class, len, DropCause::Stale);
            if let Some(tap) = &mut self.tap {
                tap.gone(handle as u32, passing(&self.pool, &packet), Gone::Dropped(now, DropCause::Stale));
            }
            self.pool.give_back(handle as u32);
        }
        self.input.end_drain();
        driver.scheduler_mut().purge(now, self);
        count
    }

    /// Drops the frames in the sockets without counting them, because the kernel has already forwarded them.
    pub(crate) fn forget(&mut self) {
        self.input.begin_drain();
        self.output.begin_drain();
        for _ in 0..MOST {
            let before = self.arrivals.len();
            let input = self.input.receive(&mut self.pool, Nanos::ZERO, BATCH, &mut self.arrivals);
            let output = match self.reverse {
                Some(_) => self.output.receive(&mut self.pool, Nanos::ZERO, BATCH, &mut self.arrivals),
                None => Ok(()),
            };
            [input, output].into_iter().for_each(|received| self.note(received.err()));
            // A frame may be in front of others that are there already.
            let more = self.input.has_more() || self.reverse.is_some() && self.output.has_more();
            if self.arrivals.len() == before && !more {
                if self.input.is_drained() && (self.reverse.is_none() || self.output.is_drained()) {
                    break;
                }
                std::thread::sleep(NAP);
            }
            self.arrivals.drain(..).for_each(|arrival| self.pool.give_back(arrival.frame));
        }
        self.input.end_drain();
    }

    /// Returns the present state of both directions. `next` is when the scheduler may send, if it has packets.
    pub(crate) fn motion(&self, now: Nanos, next: Option<Nanos>) -> [Motion; 2] {
        let may_go = |outlet: &Outlet, waits: bool| (waits && !outlet.waits_for_carrier()).then_some(now);
        let onward = match self.outgoing.is_empty() {
            true => next,
            false => may_go(&self.onward, true),
        };
        [
            Motion { moved: self.onward.moved, may_go: onward },
            Motion { moved: self.backward.moved, may_go: may_go(&self.backward, !self.back.is_empty()) },
        ]
    }

    /// Returns true if frames of the other direction wait for the input.
    pub(crate) fn waits_backward(&self) -> bool {
        !self.back.is_empty()
    }

    /// Checks that the output exists, if nothing is received from it that would show this. The next turn reports a
    /// failure.
    pub(crate) fn look_at_output(&mut self) {
        let gone = self.output.failure();
        self.note(gone);
    }

    /// Closes both interfaces and clears the last error. Frames that wait for them stay.
    pub(crate) fn close_ports(&mut self) {
        self.input.release(&mut self.pool);
        self.output.release(&mut self.pool);
        self.settle();
        self.error = None;
    }

    /// Continues with these interfaces.
    pub(crate) fn open_ports(&mut self, input: I, output: O) {
        (self.input, self.output) = (input, output);
        self.onward.begin_anew();
        self.backward.begin_anew();
    }
}
