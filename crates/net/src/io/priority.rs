//! Priority of a gateway's threads on a machine whose processors others use, too.
//!
//! A bridge of the kernel forwards in softirqs, which precede all threads. The data thread of a gateway competes with the
//! other threads of the machine. Each thread gets an equal part of a processor by default, however many frames wait. Nice
//! value -5 has about three times the weight of the default, 0 (`sched(7)`).

use std::io;

use crate::io::sys;

/// The nice value that [`raise_priority`] gives.
pub const RAISED_NICE: i32 = -5;

/// Returns the nice value of this thread.
///
/// # Errors
/// The kernel's answer.
pub fn nice() -> io::Result<i32> {
    // SAFETY: the call takes numbers only; 0 means the calling thread. Unlike the function of the C library, it returns 1
    // to 40, so that an error is distinct.
    let answer = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(20 - answer as i32) }
}

/// Gives this thread, and those that it starts from then on, this nice value, -20 to 19.
///
/// # Errors
/// The kernel's answer: a smaller value than now without CAP_SYS_NICE and beyond `RLIMIT_NICE` (`EACCES`).
pub fn set_nice(value: i32) -> io::Result<()> {
    if nice().is_ok_and(|now| now == value) {
        return Ok(());
    }
    // SAFETY: the call takes numbers only; 0 means the calling thread.
    sys::check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) })?;
    Ok(())
}

/// Gives this thread, and those that it starts from then on, [`RAISED_NICE`] if its nice value is the default, 0. Another
/// value was set on purpose, and stays.
///
/// # Errors
/// As [`set_nice`]; the value stays.
pub fn raise_priority() -> io::Result<()> {
    if nice()? == 0 { set_nice(RAISED_NICE) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own, so that others keep their value.
    fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    #[test]
    fn a_value_that_was_chosen_stays_and_later_threads_have_that_of_the_thread_that_starts_them() {
        let own = nice().unwrap();
        alone(|| {
            set_nice(7).unwrap();
            raise_priority().unwrap();
            assert_eq!((nice().unwrap(), alone(|| nice().unwrap())), (7, 7));
            set_nice(7).unwrap();
        });
        assert_eq!(nice().unwrap(), own, "other threads keep theirs");
    }

    #[test]
    fn the_default_is_raised_where_the_user_may_and_stays_elsewhere() {
        alone(|| {
            if set_nice(0).is_err() {
                return;
            }
            match raise_priority() {
                Ok(()) => assert_eq!(nice().unwrap(), RAISED_NICE),
                Err(error) => {
                    assert!(matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)), "{error}");
                    assert_eq!(nice().unwrap(), 0);
                }
            }
        });
    }
}
