//! The machine's clocks. The gateway, the generator and the receiver measure time by one monotonic clock. The wall
//! clock is read only for time stamps that another machine interprets.

use fairlink_core::Nanos;

/// A clock that never goes back.
pub trait Clock {
    /// The time since some fixed moment.
    fn now(&self) -> Nanos;

    /// Processor time of this thread since some fixed moment. Unlike [`Clock::now`] it does not advance while others
    /// have the processor. A clock of tests has only one time.
    fn worked(&self) -> Nanos {
        self.now()
    }
}

/// `CLOCK_MONOTONIC`, which all processes of a machine share.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    /// Time of the kernel's clock at this clock's zero, in ns.
    zero_ns: u64,
}

impl MonotonicClock {
    /// The kernel's own count, which is the same in every process. Frames are stamped with it.
    pub const SHARED: Self = Self { zero_ns: 0 };

    /// A clock that shows zero now.
    pub fn start() -> Self {
        Self { zero_ns: clock_ns(libc::CLOCK_MONOTONIC) }
    }

    /// Converts `now` of this clock to the kernel's own count.
    #[inline]
    pub fn shared(&self, now: Nanos) -> u64 {
        self.zero_ns.saturating_add(now.0)
    }

    /// Time of `CLOCK_REALTIME` at this clock's zero in ns, by their present difference.
    pub fn zero_since_1970(&self) -> u64 {
        realtime_offset_ns().saturating_add(self.zero_ns)
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Nanos {
        Nanos(clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(self.zero_ns))
    }

    #[inline]
    fn worked(&self) -> Nanos {
        Nanos(thread_cpu_ns())
    }
}

/// `CLOCK_REALTIME`, in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Offset of `CLOCK_REALTIME` from `CLOCK_MONOTONIC` in ns, to a fraction of a microsecond. One reading of each is not
/// enough: this thread may lose its processor for milliseconds in between.
pub fn realtime_offset_ns() -> u64 {
    let reading = || {
        let before = MonotonicClock::SHARED.now().0;
        let realtime = realtime_ns();
        let took = MonotonicClock::SHARED.now().0 - before;
        (took, realtime.saturating_sub(before + took / 2))
    };
    let mut best = reading();
    for _ in 0..16 {
        if best.0 < 500 {
            break;
        }
        best = best.min(reading());
    }
    best.1
}

/// Processor time of this thread, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to for the whole call. The clocks used exist on every Linux, so the
    // call cannot fail, and `time` keeps its zeros if it did.
    unsafe { libc::clock_gettime(clock, &mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_processor_is_no_work() {
        let clock = MonotonicClock::start();
        let before = (clock.now(), clock.worked());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let [passed, worked] = [clock.now().saturating_sub(before.0), clock.worked().saturating_sub(before.1)];
        assert!(passed.0 >= 50_000_000 && worked.0 < passed.0 / 2, "{worked} of {passed}");
    }

    #[test]
    fn a_started_clock_counts_from_its_start_and_the_shared_one_from_the_machines() {
        let shared = MonotonicClock::SHARED.now();
        let clock = MonotonicClock::start();
        let (started, later) = (clock.now(), MonotonicClock::SHARED.now());
        // Read between the two readings of the shared clock, so no further on than those are apart.
        assert!(started <= later.saturating_sub(shared), "{started}, {shared}, {later}");
        assert!(clock.now() >= started);
    }
}
