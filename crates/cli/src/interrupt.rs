//! Ctrl-C: the first asks for a clean end, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// A flag that SIGINT and SIGTERM set. No thread is started: a private network namespace cannot be entered from a process
/// that has several.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the one that ends the process sees the flag as it was before this signal.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop)).map_err(Failure::failed)?;
        flag::register(signal, Arc::clone(&stop)).map_err(Failure::failed)?;
    }
    Ok(stop)
}
