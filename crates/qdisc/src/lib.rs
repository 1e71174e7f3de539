#![doc = include_str!("../README.md")]
//!
//! # The bytes, version 1
//! All numbers are little-endian. The header of 16 bytes: `FLNK`, the version (2), zero (2), the number of classes without the link
//! (4), the length of everything (4). Then a record for the link and one for each class, parents before children. A record is its
//! length (2) and that many bytes.
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
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod labels;
mod read;
#[cfg(test)]
mod tests;
mod write;

use fairlink_core::{ClassId, Hierarchy, Leniency, Nanos, Overhead, SchedulerInfo};

pub use labels::{LabelError, Labels, MAX_MINOR, MAX_NAME};
pub use read::ReadError;
pub use write::{WriteError, assemble};

/// What the bytes begin with.
pub const MAGIC: [u8; 4] = *b"FLNK";
/// The version that is written and read.
pub const VERSION: u16 = 1;
/// Most bytes of a configuration: 32 MiB, which is 512 for each class that tc has a number for.
pub const MAX_BYTES: usize = 32 << 20;
/// Most bytes that fit into one attribute of a netlink message, whose length has 16 bits, with a margin for what is around it. What is longer is
/// handed over in a file in memory.
pub const MAX_ATTRIBUTE: usize = 65_000;
/// Most bytes of a record, without its length.
pub const MAX_RECORD: usize = 512;
/// Longest time that a link may make up for, and largest slack of its timer: one second.
pub const MAX_CATCH_UP: Nanos = Nanos(1_000_000_000);

/// Length of the header in bytes.
const HEADER: usize = 16;

/// What a queueing discipline is told of a link.
#[derive(Clone, Debug)]
pub struct Config {
    /// The scheduler.
    pub scheduler: &'static SchedulerInfo,
    /// The link and its classes.
    pub tree: Hierarchy,
    /// What a packet costs beyond its length.
    pub overhead: Overhead,
    /// What to do with what the scheduler cannot honour.
    pub leniency: Leniency,
    /// The leaf of packets that none is found for; without one they are dropped.
    pub default: Option<ClassId>,
    /// Lateness that the link makes up for, at most [`MAX_CATCH_UP`].
    pub catch_up: Nanos,
    /// By how much the timer may be late, at most [`MAX_CATCH_UP`].
    pub slack: Nanos,
    /// Numbers and names of the classes.
    pub labels: Labels,
}

/// Which fields of a class are there.
mod bit {
    pub(crate) const GUARANTEE: u32 = 1;
    pub(crate) const WEIGHT: u32 = 1 << 1;
    pub(crate) const CEILING: u32 = 1 << 2;
    pub(crate) const BURST: u32 = 1 << 3;
    pub(crate) const CEILING_BURST: u32 = 1 << 4;
    pub(crate) const PRIORITY: u32 = 1 << 5;
    pub(crate) const BOUNDED: u32 = 1 << 6;
    pub(crate) const ISOLATED: u32 = 1 << 7;
    pub(crate) const LATENCY_CRITICAL: u32 = 1 << 8;
    pub(crate) const ECN: u32 = 1 << 9;
    pub(crate) const QUANTUM: u32 = 1 << 10;
    pub(crate) const CONTRACT: u32 = 1 << 11;
    pub(crate) const REAL_TIME: u32 = 1 << 12;
    pub(crate) const LINK_SHARE: u32 = 1 << 13;
    pub(crate) const UPPER_LIMIT: u32 = 1 << 14;
    pub(crate) const MAX_DELAY: u32 = 1 << 15;
    pub(crate) const LEAKY_BUCKETS: u32 = 1 << 16;
    pub(crate) const LIMITS: u32 = 1 << 17;
    pub(crate) const QUEUE: u32 = 1 << 18;
    pub(crate) const HOSTS: u32 = 1 << 19;
    pub(crate) const ALL: u32 = (1 << 20) - 1;
}
