//! Ctrl-C: the first asks for a clean end, the second ends the process at once. A terminal that is closed (SIGHUP) asks for a clean
//! end too, as often as it likes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// A flag that SIGINT, SIGTERM and SIGHUP set. No thread is started: a private network namespace cannot be entered from a process
/// that has several.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the one that ends the process sees the flag as it was before this signal.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop)).map_err(Failure::failed)?;
        flag::register(signal, Arc::clone(&stop)).map_err(Failure::failed)?;
    }
    // Shell and kernel may both send it when a terminal closes, so a second one ends nothing. Under `nohup` it stays ignored.
    if !is_ignored(SIGHUP) {
        flag::register(SIGHUP, Arc::clone(&stop)).map_err(Failure::failed)?;
    }
    Ok(stop)
}

/// Whether this process was started with `signal` ignored. No, where the system does not say.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 != 0
}
