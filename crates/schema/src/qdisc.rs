//! A link and its classes as the bytes that the kernel module takes, written and read.
//!
//! # The bytes, version 1
//! All numbers are little-endian. The header of 16 bytes: `FLNK`, the version (2), zero (2), the number of classes without the link
//! (4), the length of everything (4). Then a record for the link and one for each class, parents before children. A record is its
//! length (2) and that many bytes. The optional fields of a class are those of [`CLASS`] that have a bit.
//!
//! | record of the link | bytes |
//! | --- | --- |
//! | name of the scheduler | 1 for its length, and that many |
//! | rate in bit/s | 8 |
//! | largest packet in accounted bytes, most packets queued | 4, 4 |
//! | what is dropped when full: 0 the arrival, 1 pushed out | 1 |
//! | rounds: 0 short, 1 long | 1 |
//! | packets of the transmit queue, 0 for none; its priority 0 or 1 | 4, 1 |
//! | overhead: bytes, least, framing (0 plain, 1 PTM, 2 ATM) | 2, 2, 1 |
//! | what the scheduler cannot honour: 0 refuse, 1 ignore | 1 |
//! | class of packets that none is found for, 0 for none | 4 |
//! | catch-up of the pacer, slack of its timer, in nanoseconds | 8, 8 |
//!
//! | record of a class | bytes |
//! | --- | --- |
//! | index of its parent, 0 for the link | 4 |
//! | minor number in tc | 2 |
//! | name | 1 for its length, and that many |
//! | which of the following are there, a bit each in this order | 4 |
//! | guarantee; weight; ceiling; burst; ceiling burst | 8 each |
//! | priority | 1 |
//! | bounded; isolated; latency-critical; marks (ECN) | none: the bit says it |
//! | quantum | 4 |
//! | contract: bytes, interval | 8, 8 |
//! | real-time, link-sharing, upper-limit curve: slope (0 for none), length, slope | 8, 8, 8 each |
//! | largest delay | 8 |
//! | leaky buckets: how many; burst, peak, rate of each | 1; 8, 8, 8 each |
//! | limits of the queue: packets, bytes | 4, 4 |
//! | queue: 0 FIFO, 1 CoDel, 2 FQ-CoDel | 1 |
//! | hosts that share it: how many at once; told apart by 0 source IP, 1 destination IP, 2 source MAC, 3 destination MAC | 2, 1 |

mod labels;
mod read;
#[cfg(test)]
mod tests;
mod write;

use fairlink_core::{ClassId, Hierarchy, Leniency, Nanos, Overhead, SchedulerInfo};

use crate::keys::{CLASS, Kind};

pub use labels::{LabelError, Labels, MAX_MINOR, MAX_NAME};
pub use read::ReadError;
pub use write::{WriteError, assemble};

/// The first bytes of a configuration.
pub const MAGIC: [u8; 4] = *b"FLNK";
/// The version that is written and read.
pub const VERSION: u16 = 1;
/// Most bytes of a configuration: 32 MiB, which is 512 for each class that tc has a number for.
pub const MAX_BYTES: usize = 32 << 20;
/// Maximum size of an attribute of a netlink message, whose length has 16 bits, with a margin for its surroundings.
/// Larger configurations are passed in a file in memory.
pub const MAX_ATTRIBUTE: usize = 65_000;
/// Most bytes of a record, without its length.
pub const MAX_RECORD: usize = 512;
/// Longest time that a link may make up for, and largest slack of its timer: one second.
pub const MAX_CATCH_UP: Nanos = Nanos(1_000_000_000);

/// Length of the header in bytes.
const HEADER: usize = 16;

/// The configuration of a queueing discipline.
#[derive(Clone, Debug)]
pub struct Config {
    /// The scheduler.
    pub scheduler: &'static SchedulerInfo,
    /// The link and its classes.
    pub tree: Hierarchy,
    /// Link-layer overhead of a packet.
    pub overhead: Overhead,
    /// Treatment of settings that the scheduler cannot honour.
    pub leniency: Leniency,
    /// The leaf of unclassified packets; without one they are dropped.
    pub default: Option<ClassId>,
    /// Lateness that the link makes up for, at most [`MAX_CATCH_UP`].
    pub catch_up: Nanos,
    /// Possible lateness of the timer, at most [`MAX_CATCH_UP`].
    pub slack: Nanos,
    /// Numbers and names of the classes.
    pub labels: Labels,
}

/// The bits of all fields of a class.
const ALL_FIELDS: u32 = {
    let (mut all, mut at) = (0, 0);
    while at < CLASS.len() {
        if let Some(bit) = CLASS[at].bit {
            all |= 1 << bit;
        }
        at += 1;
    }
    all
};
/// The bits of guarantee and weight, of which a class has at most one.
const SHARES: u32 = 0b11;
/// The host keys of [`HOST_KEYS`](crate::keys::HOST_KEYS) that the module has: all but flows.
const MODULE_HOST_KEYS: usize = 4;

/// Returns the number of bytes of a number: those that its limit needs.
const fn width(kind: Kind) -> usize {
    match kind {
        Kind::Size { max } | Kind::Number { max, .. } if max <= u8::MAX as u64 => 1,
        Kind::Size { max } | Kind::Number { max, .. } if max <= u32::MAX as u64 => 4,
        _ => 8,
    }
}
