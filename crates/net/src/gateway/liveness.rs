//! Liveness of a gateway as seen from outside: time of the last turn, progress of each direction, presence of its
//! interfaces.
//!
//! A running thread is not enough. So the watchdog checks *progress*: a direction has stalled if it has sendable frames
//! and none has left for [`DEFAULT_STALL`]. Frames that wait for a rate, a ceiling or a carrier are not sendable, and
//! are no stall.
//!
//! The data thread records the time of each turn, and checks progress every [`LOOK`]. Other threads do the rest through
//! [`Vitals`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairlink_core::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::fail_open::STALE;
use crate::gateway::log::LogEvent;
use crate::io::clock::{Clock, MonotonicClock};

/// Default time without progress, though frames could be sent, until a direction counts as stalled.
pub(crate) const DEFAULT_STALL: Nanos = Nanos::from_millis(500);
/// Interval between progress checks of the data thread.
pub(crate) const LOOK: Nanos = Nanos::from_millis(10);
/// Maximum number of messages kept for the reader; later ones are lost.
const MESSAGES: usize = 64;

/// Times during which a gateway did not work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LivenessStats {
    /// Stalls of a direction: frames could be sent but none left (for 500 ms, or the configured time).
    pub stalls: u64,
    /// The longest stall in seconds; 0 if there was none.
    pub longest_stall_s: f64,
    /// Times that the data thread did not run for more than 300 ms, because it got no processor or was stopped. A
    /// gateway with fail-open let frames pass then.
    pub pauses: u64,
    /// The longest of these, in seconds.
    pub longest_pause_s: f64,
    /// Times that an interface went down or disappeared and came back.
    pub interface_losses: u64,
    /// Time without one of its interfaces, in seconds.
    pub without_interface_s: f64,
    /// Time for which frames waited for an interface without carrier, in seconds.
    #[serde(default)]
    pub without_carrier_s: f64,
}

#[derive(Debug, Default)]
struct Shared {
    /// Time of the data thread's last turn, in ns of the machine's monotonic clock; zero while it does not run.
    turned: AtomicU64,
    stalled: AtomicBool,
    without_interface: AtomicBool,
    said: AtomicBool,
    messages: Mutex<VecDeque<LogEvent>>,
}

/// State of a gateway that other threads can read without its data thread.
#[derive(Clone, Debug, Default)]
pub struct Vitals(Arc<Shared>);

impl Vitals {
    /// Time since the data thread's last turn; `None` before its start and after its end.
    #[must_use]
    pub fn since_turn(&self) -> Option<Duration> {
        match self.0.turned.load(Ordering::Acquire) {
            0 => None,
            turned => Some(Duration::from_nanos(MonotonicClock::SHARED.now().0.saturating_sub(turned))),
        }
    }

    /// Returns true if both are of the same gateway.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns true if the data thread runs and no direction has stalled. A gateway that has not begun, has ended, or
    /// waits for an interface is well.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.since_turn().is_none_or(|since| since.as_nanos() <= u128::from(STALE.0))
            && !self.0.stalled.load(Ordering::Acquire)
    }

    /// Returns true if the gateway waits for an interface that went down or disappeared.
    #[must_use]
    pub fn is_without_interface(&self) -> bool {
        self.0.without_interface.load(Ordering::Acquire)
    }

    /// Queues `event` for the reader.
    pub(super) fn say(&self, event: LogEvent) {
        say(self, event);
    }

    /// Returns the messages since the last call. They do not name the link.
    #[must_use]
    pub fn messages(&self) -> Vec<LogEvent> {
        if !self.0.said.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        self.0.messages.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}

/// Present state of a direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Motion {
    /// Frames that have left it, sent or dropped.
    pub(crate) moved: u64,
    /// Time from which waiting frames may be sent; `None` if none waits or none may.
    pub(crate) may_go: Option<Nanos>,
}

/// True if a direction moves.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    moved: u64,
    /// Since when something might have moved.
    due: Option<Nanos>,
    stalled: bool,
}

/// Change of a direction's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Stalled(Nanos),
    MovesAgain(Nanos),
}

impl Progress {
    fn look(&mut self, now: Nanos, seen: Motion, patience: Nanos) -> Option<Turn> {
        let since = |due: Option<Nanos>| due.map_or(Nanos::ZERO, |due| now.saturating_sub(due));
        let moved = seen.moved != self.moved;
        self.moved = seen.moved;
        let Some(may_go) = seen.may_go.filter(|_| !moved) else {
            let before = self.due;
            // Frames behind those that have moved get the same time.
            self.due = seen.may_go.map(|may_go| may_go.max(now));
            return std::mem::take(&mut self.stalled).then(|| Turn::MovesAgain(since(before)));
        };
        // The first time counts: it is not postponed by later ones.
        let due = *self.due.get_or_insert(may_go.max(now));
        if self.stalled || now.saturating_sub(due) < patience {
            return None;
        }
        self.stalled = true;
        Some(Turn::Stalled(since(self.due)))
    }
}

/// The data thread's end of [`Vitals`].
#[derive(Debug)]
pub(crate) struct Liveness {
    vitals: Vitals,
    patience: Nanos,
    turned: Nanos,
    look_at: Nanos,
    /// Last time when frames waited for a carrier, if they did.
    no_carrier: Option<Nanos>,
    directions: [Progress; 2],
    stats: LivenessStats,
}

impl Liveness {
    /// Creates the state of a gateway whose directions may make no progress for `patience`.
    pub(crate) fn new(patience: Nanos) -> Self {
        Self {
            vitals: Vitals::default(),
            patience,
            turned: Nanos::ZERO,
            look_at: Nanos::ZERO,
            no_carrier: None,
            directions: [Progress::default(); 2],
            stats: LivenessStats::default(),
        }
    }

    pub(crate) fn vitals(&self) -> Vitals {
        self.vitals.clone()
    }

    /// The data thread begins at `now`.
    pub(crate) fn begin(&mut self, now: Nanos) {
        self.turned = now;
    }

    /// Records a turn at `now`, which is `shared` on the machine's clock. Returns the length of the pause before it if
    /// the heartbeat was stale.
    #[inline]
    pub(crate) fn turn(&mut self, now: Nanos, shared: u64) -> Option<Nanos> {
        let since = now.saturating_sub(self.turned);
        self.turned = now;
        self.vitals.0.turned.store(shared, Ordering::Release);
        (since > STALE).then_some(since)
    }

    /// Returns true if a progress check is due.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now >= self.look_at
    }

    /// Checks both directions; `outputs` are the names of their sending interfaces.
    pub(crate) fn look(&mut self, now: Nanos, seen: [Motion; 2], outputs: [&str; 2]) {
        self.look_at = now.saturating_add(LOOK);
        for ((progress, seen), output) in self.directions.iter_mut().zip(seen).zip(outputs) {
            match progress.look(now, seen, self.patience) {
                Some(Turn::Stalled(since)) => {
                    self.stats.stalls += 1;
                    self.stats.longest_stall_s = self.stats.longest_stall_s.max(since.0 as f64 / 1e9);
                    say(
                        &self.vitals,
                        LogEvent::warn(format!(
                            "no frame has left by {output} for {}, although frames could be sent; check its driver",
                            time(since)
                        )),
                    );
                }
                Some(Turn::MovesAgain(since)) => {
                    self.stats.longest_stall_s = self.stats.longest_stall_s.max(since.0 as f64 / 1e9);
                    let text = format!("frames leave by {output} again after {}", time(since));
                    say(&self.vitals, LogEvent::info(text));
                }
                None => {}
            }
        }
        self.vitals.0.stalled.store(self.directions.iter().any(|progress| progress.stalled), Ordering::Release);
    }

    /// Records whether frames wait at `now` for an interface without carrier.
    pub(crate) fn waits_for_carrier(&mut self, now: Nanos, waits: bool) {
        if let Some(before) = self.no_carrier.filter(|_| waits) {
            self.stats.without_carrier_s += now.saturating_sub(before).0 as f64 / 1e9;
        }
        self.no_carrier = waits.then_some(now);
    }

    /// Resets the times, because the scheduler or its rates have changed.
    pub(crate) fn begin_anew(&mut self) {
        self.directions.iter_mut().for_each(|progress| progress.due = None);
    }

    /// Records a pause of the data thread and the consequence `what`.
    pub(crate) fn paused(&mut self, pause: Nanos, what: &str) {
        self.stats.pauses += 1;
        self.stats.longest_pause_s = self.stats.longest_pause_s.max(pause.0 as f64 / 1e9);
        self.begin_anew();
        say(&self.vitals, LogEvent::warn(format!("the data thread did not run for {}{what}", time(pause))));
    }

    /// An interface has gone.
    pub(crate) fn lost(&mut self, text: String) {
        self.stats.interface_losses += 1;
        self.vitals.0.without_interface.store(true, Ordering::Release);
        say(&self.vitals, LogEvent::warn(text));
    }

    /// It is back, after this time.
    pub(crate) fn found(&mut self, after: Nanos, text: String) {
        self.stats.without_interface_s += after.0 as f64 / 1e9;
        self.vitals.0.without_interface.store(false, Ordering::Release);
        self.begin_anew();
        say(&self.vitals, LogEvent::info(text));
    }

    /// Queues a message for the log.
    pub(crate) fn say(&self, event: LogEvent) {
        say(&self.vitals, event);
    }

    /// The data thread ends.
    pub(crate) fn end(&self) {
        self.vitals.0.turned.store(0, Ordering::Release);
        self.vitals.0.stalled.store(false, Ordering::Release);
    }

    pub(crate) fn stats(&self) -> LivenessStats {
        self.stats
    }
}

/// Formats a time for a message, in milliseconds or seconds.
pub(crate) fn time(nanos: Nanos) -> String {
    match nanos.0 {
        0..10_000_000_000 => format!("{} ms", nanos.0.div_ceil(1_000_000)),
        longer => format!("{:.1} s", longer as f64 / 1e9),
    }
}

fn say(vitals: &Vitals, event: LogEvent) {
    let mut messages = vitals.0.messages.lock().unwrap_or_else(PoisonError::into_inner);
    if messages.len() < MESSAGES {
        messages.push_back(event);
    }
    drop(messages);
    vitals.0.said.store(true, Ordering::Release);
}

#[cfg(test)]
mod tests;
