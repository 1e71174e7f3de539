//! What passes a running gateway, on its way to whoever asked: `fairlink ctl trace`.
//!
//! ```text
//! data thread: TraceWriter -> Ring -> control thread: TraceReader -> control socket -> the asking process: a file
//! ```
//!
//! The data thread never waits and allocates nothing for it. A packet gets its number when it is fetched, and its record is written into
//! the ring when it is known what became of it. Room for a short record is kept free for every numbered packet that is under way. So
//! each number comes out: with the packet, or as missed where the ring had no room for it. The reader can put packets in the order of
//! their arrival, and knows what is missing. Where there is no room for even that, packets are not numbered and are counted.
//!
//! While nobody traces, this costs a branch for each packet and a load for each turn.
//!
//! Two times of a packet are the scheduler's and the interface's: it starts when the scheduler gives it to the link, and is done when
//! the interface has accepted it.

mod feed;
mod record;
mod ring;
mod tap;

pub(crate) use feed::TraceReader;
pub(crate) use record::{Fate, Item, Traced, decode};
pub(crate) use tap::{Gone, Passing, TraceWriter};

use std::sync::Arc;

use ring::Ring;

/// Words of 8 bytes for records that wait for the reader: 16 MiB.
const WAITING_WORDS: u64 = 1 << 21;

/// Both ends of a trace of a gateway whose pool has so many frames, and whose classes are those after so many changes. Of each packet,
/// `snap` bytes are kept at most.
pub(crate) fn begin(frames: usize, generation: u64, snap: u32) -> (TraceWriter, TraceReader) {
    let ring = Arc::new(Ring::new(WAITING_WORDS + record::SHORT_WORDS * frames as u64));
    (TraceWriter::new(Arc::clone(&ring), frames, generation, snap), TraceReader::new(ring))
}

#[cfg(test)]
mod tests;
