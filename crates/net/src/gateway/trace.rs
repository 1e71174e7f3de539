//! Traces of the packets that pass a running gateway: `fairlink ctl trace`.
//!
//! ```text
//! data thread: TraceWriter -> Ring -> control thread: TraceReader -> control socket -> the asking process: a file
//! ```
//!
//! The data thread never waits and allocates nothing for it. A packet gets its number when it is fetched, and its
//! record is written into the ring when it is sent or dropped. Room for a short record is reserved for every numbered
//! packet in the gateway. So each number is output: with the packet, or as missed if the ring had no room for it. The
//! reader can restore the order of arrival, and knows which packets are missing. If there is no room even for the
//! reservation, packets are not numbered but counted.
//!
//! Without a trace, the cost is a branch for each packet and a load for each turn.
//!
//! A packet starts when the scheduler gives it to the link, and is done when the interface has accepted it.

mod feed;
mod record;
mod ring;
mod tap;

pub(crate) use feed::TraceReader;
pub(crate) use record::{Fate, Item, Traced, decode};
pub(crate) use tap::{Gone, Passing, TraceWriter};

use std::sync::Arc;

use ring::Ring;

/// Words of 8 bytes for unread records: 16 MiB.
const WAITING_WORDS: u64 = 1 << 21;

/// Creates both ends of a trace of a gateway whose pool has `frames` frames, for the classes of `generation`. At most
/// `snap` bytes of each packet are kept.
pub(crate) fn begin(frames: usize, generation: u64, snap: u32) -> (TraceWriter, TraceReader) {
    let ring = Arc::new(Ring::new(WAITING_WORDS + record::SHORT_WORDS * frames as u64));
    (TraceWriter::new(Arc::clone(&ring), frames, generation, snap), TraceReader::new(ring))
}

#[cfg(test)]
mod tests;
