//! The control thread's end of a trace.

use std::sync::Arc;

use super::record::END;
use super::ring::Ring;

/// Delivers records until the trace has ended. Dropping it ends the trace.
#[derive(Debug)]
pub(crate) struct TraceReader {
    ring: Arc<Ring>,
    over: bool,
}

impl TraceReader {
    pub(super) fn new(ring: Arc<Ring>) -> Self {
        Self { ring, over: false }
    }

    /// Ends the numbering of packets. Records of packets in the gateway, and the end, are still delivered.
    pub(crate) fn ask_to_stop(&self) {
        self.ring.ask_to_stop();
    }

    /// Returns true if all records were delivered.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Appends records to `out`, up to `most` bytes and the end. Returns true if there were any.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>, most: usize) -> bool {
        if self.over {
            return false;
        }
        // In this order: records written before the end are read after it was seen.
        let end = self.ring.end();
        if self.ring.read(out, most as u64 / 8) > 0 {
            return true;
        }
        let Some((missed, unfinished)) = end else { return false };
        out.extend_from_slice(&missed.to_le_bytes());
        out.extend_from_slice(&(END | unfinished << 8).to_le_bytes());
        self.over = true;
        true
    }
}

impl Drop for TraceReader {
    fn drop(&mut self) {
        self.ring.ask_to_stop();
    }
}
