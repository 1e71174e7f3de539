//! A link while it runs: its traffic and measurements on one side, its scheduler and pace on the other.

use fairlink_core::{Driver, Metered, Nanos, OutOfMemory, Pacer, Scheduler, Wake};

use crate::port::LinkPort;
use crate::report::Run;
use crate::scenario::{Options, SimError};
use crate::summary::summarise;

/// Calls of the driver at one instant without a packet moving, after which the scheduler counts as stalled.
const MAX_IDLE_TURNS: u32 = 1000;

/// A link that runs: its port, and the driver with its scheduler.
pub(crate) struct RunningLink<'a> {
    port: LinkPort<'a>,
    driver: Driver<Metered<Box<dyn Scheduler>>>,
    now: Nanos,
    wake: Wake,
    idle_turns: u32,
}

impl<'a> RunningLink<'a> {
    /// Ready to start, under `scheduler`.
    pub(crate) fn new(port: LinkPort<'a>, scheduler: Box<dyn Scheduler>) -> Result<Self, OutOfMemory> {
        // The driver wakes at whole nanoseconds. A catch-up of one keeps what they leave out, so that the rate is exact.
        let tree = &port.scenario().tree;
        let driver = Driver::new(Metered::new(scheduler, tree)?, Pacer::new(tree.link().rate, Nanos(1)))?;
        Ok(Self { port, driver, now: Nanos::ZERO, wake: Wake::OnArrival, idle_turns: 0 })
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let due = match self.wake {
            Wake::At(at) => Some(at),
            Wake::OnArrival => self.port.wants_to_refill().then_some(self.now),
        };
        [due, self.port.next_event()].into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// What happens at `at`.
    pub(crate) fn turn(&mut self, at: Nanos) -> Result<(), SimError> {
        let moved = self.port.moved();
        self.wake = self.driver.turn(at, &mut self.port);
        self.port.check()?;
        self.idle_turns = if at > self.now || self.port.moved() > moved { 0 } else { self.idle_turns + 1 };
        if self.idle_turns > MAX_IDLE_TURNS {
            return Err(SimError::Stalled { at });
        }
        self.now = at;
        Ok(())
    }

    /// Asks the observer whether to go on.
    pub(crate) fn progress(&mut self, now: Nanos) -> Result<(), SimError> {
        self.port.progress(now)
    }

    /// What it did.
    pub(crate) fn summary(&self, name: &str, options: &Options, ideals: &[Vec<f64>]) -> Result<Run, SimError> {
        let metered = self.driver.scheduler();
        metered.check_conservation().map_err(|what| SimError::NotConserved { what })?;
        Ok(summarise(&self.port, metered, name, options, ideals))
    }
}
