//! Format of a trace's records in the ring and on the control socket: words of 8 bytes, little-endian.
//!
//! ```text
//! begin    time                              kind
//! packet   number                            kind, reason (8 bits each), class (upper 32 bits)
//!          bytes of the frame, accounted     bytes that follow
//!          arrival, start or drop, end       bytes of the frame, filled up to a whole word
//! missed   number                            kind
//! end      packets missed                    kind, packets unfinished (upper 56 bits)
//! ```
//!
//! Times are nanoseconds since 1970.

use fairlink_core::{ClassId, Nanos};
use fairlink_report::DropCause;

use crate::io::frame_pool::MAX_FRAME_BYTES;

/// Words of a record without a packet.
pub(crate) const SHORT_WORDS: u64 = 2;
/// Words of a packet's record in front of its bytes.
pub(crate) const HEAD_WORDS: u64 = 7;

pub(super) const BEGIN: u64 = 1;
pub(super) const SENT: u64 = 2;
pub(super) const DROPPED: u64 = 3;
pub(super) const QUEUED: u64 = 4;
pub(super) const MISSED: u64 = 5;
pub(super) const END: u64 = 6;

/// End of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Times when the scheduler gave it to the link, and when the interface had accepted it.
    Sent { start: Nanos, done: Nanos },
    /// Time and reason, by its name in the statistics.
    Dropped { at: Nanos, reason: &'static str },
    /// It was queued when the gateway ended.
    Queued,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Traced {
    pub(crate) number: u64,
    pub(crate) class: ClassId,
    pub(crate) arrived: Nanos,
    pub(crate) len: u32,
    pub(crate) accounted: u32,
    pub(crate) fate: Fate,
    pub(crate) bytes: Vec<u8>,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// Packets are recorded from now on.
    Begin,
    Packet(Traced),
    /// The packet of this number found no room.
    Missed {
        number: u64,
    },
    /// The last record.
    End {
        /// Packets that found no room, including those with a number.
        missed: u64,
        /// Packets with a number that were still in the gateway.
        unfinished: u64,
    },
}

/// Decodes the first record of `bytes` and its length in bytes. `None` while it is incomplete.
///
/// # Errors
/// The bytes are no record.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Item, usize)>, &'static str> {
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(8 * at..8 * at + 8)?.try_into().ok()?));
    let (Some(first), Some(second)) = (word(0), word(1)) else { return Ok(None) };
    let short = 8 * SHORT_WORDS as usize;
    let kind = second & 0xff;
    match kind {
        BEGIN => return Ok(Some((Item::Begin, short))),
        MISSED => return Ok(Some((Item::Missed { number: first }, short))),
        END => return Ok(Some((Item::End { missed: first, unfinished: second >> 8 }, short))),
        SENT | DROPPED | QUEUED => {}
        _ => return Err("a record of a kind that is not known"),
    }
    let head: Option<Vec<u64>> = (2..HEAD_WORDS as usize).map(word).collect();
    let Some(&[lengths, kept, arrived, start, done]) = head.as_deref() else { return Ok(None) };
    if kept > u64::from(MAX_FRAME_BYTES) {
        return Err("a packet that is longer than any");
    }
    let (begin, kept) = (8 * HEAD_WORDS as usize, kept as usize);
    let end = begin + kept.next_multiple_of(8);
    if bytes.len() < end {
        return Ok(None);
    }
    let fate = match kind {
        SENT => Fate::Sent { start: Nanos(start), done: Nanos(done) },
        DROPPED => Fate::Dropped {
            at: Nanos(start),
            reason: DropCause::from_code((second >> 8) as u8).map_or("unknown", DropCause::key),
        },
        _ => Fate::Queued,
    };
    let packet = Traced {
        number: first,
        class: ClassId((second >> 32) as u32),
        arrived: Nanos(arrived),
        len: lengths as u32,
        accounted: (lengths >> 32) as u32,
        fate,
        bytes: bytes[begin..begin + kept].to_vec(),
    };
    Ok(Some((Item::Packet(packet), end)))
}
