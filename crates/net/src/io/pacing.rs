//! Waiting of the data thread between turns. [`fairlink_core::Pacer`] keeps the pace itself, in integers. A mode only
//! determines how punctually the thread wakes up, and the cost.
//!
//! | mode | waiting | wakes late by | cost |
//! | --- | --- | --- | --- |
//! | `busy` | none | one turn | a whole processor |
//! | `precise` | sleeping until 60 us before, then spinning; an arrival ends the sleep | a few us | the spinning: up to a processor at high rates |
//! | `eco` | sleeping 50 us, then sending all that is due | 50 us and the kernel's latency | little |
//!
//! A thread wakes late because it slept or because something else had the processor. It may make up for at most
//! `catch_up` of the time missed, and only for time in which there was backlog. The link then sends a burst of up to
//! `rate * catch_up` at line speed. A longer catch-up keeps the rate on a crowded machine, a shorter one keeps bursts
//! small. The default is [`DEFAULT_CATCH_UP`] in all modes: a virtual machine takes the processor away from any of them
//! for some milliseconds.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use fairlink_core::Nanos;

use crate::io::clock::Clock;
use crate::io::sys;

/// Waiting mode of the data thread; see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// Never sleeps.
    Busy,
    /// Sleeps, then spins.
    #[default]
    Precise,
    /// Sleeps 50 us at a time.
    Eco,
}

impl Pacing {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Busy, Self::Precise, Self::Eco];

    /// Its name in commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Precise => "precise",
            Self::Eco => "eco",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// Default limit of lost time that is made up for. On a virtual machine with shared processors, 1 ms gave 3.6 to 9.2 of
/// 10 Mbit/s, and this gave 9.8 to 10.0.
pub(crate) const DEFAULT_CATCH_UP: Nanos = Nanos::from_millis(20);
/// Longest sleep, so that a stop or a request is noticed.
const LONGEST: Nanos = Nanos::from_millis(50);
/// Last part of a wait, which the thread spins: the kernel's worst wakeup latency on a machine that is not overloaded.
const SPIN: Nanos = Nanos::from_micros(60);
/// Sleep of the `eco` mode.
const NAP: Nanos = Nanos::from_micros(50);

/// Event that the thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// A time, or an arrival before.
    Time(Nanos),
    /// A time for a retry that need not be punctual, or an earlier arrival.
    Retry(Nanos),
    /// An arrival.
    Arrival,
}

/// Waits by `mode`, for at most 50 ms. It may return early; the caller then checks and waits again. Returns the time
/// that the thread slept. For the rest of the wait it was awake.
pub(crate) fn wait(
    mode: Pacing,
    clock: &impl Clock,
    until: Until,
    readable: [Option<BorrowedFd<'_>>; 2],
) -> io::Result<Nanos> {
    let now = clock.now();
    let mut slept = Nanos::ZERO;
    let mut sleep = |span, readable| -> io::Result<bool> {
        let before = clock.now();
        let ready = sleep(span, readable)?;
        slept = slept.saturating_add(clock.now().saturating_sub(before));
        Ok(ready)
    };
    match (mode, until) {
        (Pacing::Busy, _) => std::hint::spin_loop(),
        (_, Until::Arrival) => {
            sleep(LONGEST, readable)?;
        }
        (_, Until::Retry(at)) => {
            // While an interface is full, fetch frames of the other side several at a time.
            sleep(NAP, [None; 2])?;
            let left = at.saturating_sub(clock.now());
            if left > Nanos::ZERO {
                sleep(left.min(LONGEST), readable)?;
            }
        }
        (Pacing::Precise, Until::Time(at)) => {
            let left = at.saturating_sub(now);
            if left > SPIN && sleep(left.saturating_sub(SPIN).min(LONGEST), readable)? {
                return Ok(slept);
            }
            // Ends after SPIN at the latest, unless the sleep was the longest one and the caller waits again anyway.
            if at.saturating_sub(clock.now()) <= SPIN {
                while clock.now() < at {
                    std::hint::spin_loop();
                }
            }
        }
        (Pacing::Eco, Until::Time(at)) => {
            sleep(NAP, [None; 2])?;
            let left = at.saturating_sub(clock.now());
            if left > NAP {
                sleep(left.min(LONGEST), readable)?;
            }
        }
    }
    Ok(slept)
}

/// Sleeps for `span`, or until one of `readable` can be read. Returns true if one can.
pub(crate) fn sleep<const N: usize>(span: Nanos, readable: [Option<BorrowedFd<'_>>; N]) -> io::Result<bool> {
    // The kernel ignores negative descriptors.
    let mut fds =
        readable.map(|fd| libc::pollfd { fd: fd.map_or(-1, |fd| fd.as_raw_fd()), events: libc::POLLIN, revents: 0 });
    let timeout = libc::timespec {
        // Its type depends on the C library.
        tv_sec: (span.0 / 1_000_000_000) as _,
        tv_nsec: (span.0 % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `fds` holds `N` valid entries and `timeout` is a valid time, both alive for the whole call; no mask is
    // given.
    let result = unsafe { libc::ppoll(fds.as_mut_ptr(), N as libc::nfds_t, &timeout, std::ptr::null()) };
    match sys::check(result) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

/// Requests punctual wakeups for this thread. Otherwise sleeps end up to 50 us late.
pub fn wake_punctually() {
    // SAFETY: this option takes a number and no pointers. It cannot fail for a positive number; sleeps are coarser if
    // it did.
    unsafe {
        libc::prctl(
            libc::PR_SET_TIMERSLACK,
            1 as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::clock::MonotonicClock;

    #[test]
    fn no_mode_comes_back_before_the_time_unless_it_is_far_or_something_arrives() {
        for mode in [Pacing::Precise, Pacing::Eco] {
            for micros in [0, 10, 80, 400] {
                let clock = MonotonicClock::start();
                let at = Nanos::from_micros(micros);
                // A signal may end a sleep early; then the loop waits again, as here.
                for _ in 0..3 {
                    wait(mode, &clock, Until::Time(at), [None; 2]).unwrap();
                }
                assert!(clock.now() >= at, "{} came back after {} from waiting for {at}", mode.name(), clock.now());
            }
        }
    }

    #[test]
    fn a_wait_for_what_never_comes_ends_all_the_same() {
        let clock = MonotonicClock::start();
        for mode in Pacing::ALL {
            wait(mode, &clock, Until::Arrival, [None; 2]).unwrap();
            wait(mode, &clock, Until::Time(Nanos::MAX), [None; 2]).unwrap();
        }
    }

    #[test]
    fn a_wait_for_a_retry_is_spent_asleep_and_said_to_be() {
        let clock = MonotonicClock::start();
        for mode in [Pacing::Precise, Pacing::Eco] {
            let before = clock.now();
            let at = before.saturating_add(Nanos::from_millis(2));
            let slept = wait(mode, &clock, Until::Retry(at), [None; 2]).unwrap();
            let waited = clock.now().saturating_sub(before);
            assert!(slept >= Nanos::from_millis(1) && slept <= waited, "{}: {slept} of {waited}", mode.name());
        }
        assert_eq!(wait(Pacing::Busy, &clock, Until::Time(Nanos::MAX), [None; 2]).unwrap(), Nanos::ZERO);
    }

    #[test]
    fn modes_are_known_by_their_names() {
        for mode in Pacing::ALL {
            assert_eq!(Pacing::named(mode.name()), Some(mode));
        }
        assert_eq!(Pacing::named("Busy"), None);
    }
}
