//! Ctrl-C: the first requests a clean end, the second ends the process at once. A closed terminal (SIGHUP) requests a
//! clean end, too, any number of times. On systems other than Linux a closed terminal has the system's default effect,
//! because only Linux shows whether SIGHUP is ignored, as by `nohup`. Windows has no such signal.

use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
#[cfg(target_os = "linux")]
use std::sync::atomic::Ordering;

#[cfg(target_os = "linux")]
use signal_hook::consts::SIGHUP;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::CliError;

/// A flag that SIGINT, SIGTERM and, on Linux, SIGHUP set. No thread is started: a private network namespace cannot be
/// entered from a process that has several.
pub fn stop_flag() -> Result<Arc<AtomicBool>, CliError> {
    let stop = stop_flag_without_hangup()?;
    // Shell and kernel may both send it when a terminal closes, so a second one ends nothing. Under `nohup` it stays
    // ignored.
    #[cfg(target_os = "linux")]
    if !is_ignored(SIGHUP) {
        flag::register(SIGHUP, Arc::clone(&stop)).map_err(CliError::failed)?;
    }
    Ok(stop)
}

/// Meaning of a SIGHUP to a long-running process.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Read the files again.
    Reload,
    /// The terminal that it was started from is there no more.
    TerminalClosed,
}

/// Distinguishes the two meanings of SIGHUP: a request to read files again, unless there was a terminal that has been
/// closed.
#[cfg(target_os = "linux")]
pub struct Hangup {
    came: Arc<AtomicBool>,
    had_terminal: bool,
}

/// Set by each SIGHUP that came since [`Hangup::hold`].
#[cfg(target_os = "linux")]
static HELD: OnceLock<Arc<AtomicBool>> = OnceLock::new();

#[cfg(target_os = "linux")]
impl Hangup {
    /// Keeps a SIGHUP from ending this process, and remembers it for [`Hangup::new`]. Called before the command line is
    /// parsed, because a service manager may request a reload of a service that has just been started. Under `nohup`
    /// the signal stays ignored.
    pub fn hold() -> Result<(), CliError> {
        let came = Arc::new(AtomicBool::new(false));
        if HELD.set(Arc::clone(&came)).is_ok() && !is_ignored(SIGHUP) {
            flag::register(SIGHUP, came).map_err(CliError::failed)?;
        }
        Ok(())
    }

    /// Observes the signal from now on, or from [`Hangup::hold`] on if that was called.
    pub fn new() -> Result<Self, CliError> {
        Self::hold()?;
        let came = HELD.get().map(Arc::clone).unwrap_or_default();
        Ok(Self { came, had_terminal: has_terminal() })
    }

    /// Returns the meaning of a signal received since the last call.
    pub fn take(&self) -> Option<Meaning> {
        let closed = || self.had_terminal && !has_terminal();
        self.came
            .swap(false, Ordering::Relaxed)
            .then(|| if closed() { Meaning::TerminalClosed } else { Meaning::Reload })
    }
}

/// Returns true if this process has a terminal that can still be opened.
#[cfg(target_os = "linux")]
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// As [`stop_flag`], for a process to which SIGHUP means something else.
pub fn stop_flag_without_hangup() -> Result<Arc<AtomicBool>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the one that ends the process sees the flag as it was before this signal.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop)).map_err(CliError::failed)?;
        flag::register(signal, Arc::clone(&stop)).map_err(CliError::failed)?;
    }
    Ok(stop)
}

/// Returns true if this process was started with `signal` ignored; false if the system does not report it.
#[cfg(target_os = "linux")]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 != 0
}
