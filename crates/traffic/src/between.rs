//! Delays of a device from two recordings, made before and after it by recorders whose clocks agree (the DRR++ thesis, Section 4.5, used two
//! synchronised network analysers).
//!
//! Each packet of the first recording is searched in the second by its content from the IP header on, without the
//! fields that routers change: DSCP and ECN, TTL or hop limit, IPv4's header checksum. Link headers (VLAN tags and
//! PPPoE among them) and padding do not count; packets other than IP are identified by their EtherType and payload.
//! Equal packets are paired in order.
//!
//! Both files are read once, in order of time. A packet waits for its other half as long as [`BetweenConfig::within`]; then it is lost, or only in
//! the second recording. Memory is under 700 MB: at most [`MAX_WAITING`] packets of each recording are within that time, and the first
//! [`MAX_SPREADS`] classes have percentiles, 0.5 MB each.

mod content;
mod pairing;
mod reader;
mod spread;

use std::io::{self, Read};

use fairlink_core::Nanos;

use self::content::Content;
use self::pairing::Pairing;
use self::reader::{Captured, Reader};

/// Most packets of each recording within [`BetweenConfig::within`].
pub const MAX_WAITING: usize = 1 << 21;
/// Maximum number of classes with percentiles of delays: the first ones by number that have packets.
pub const MAX_SPREADS: usize = 512;

/// Options of a comparison of two recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BetweenConfig {
    /// Lead of the second recorder's clock over the first's, in ns; subtracted from every delay.
    pub offset_ns: i64,
    /// Longest delay, and with a minus the shortest: a packet that is not found within it is lost.
    pub within: Nanos,
    /// Bytes of each packet that are compared, from the IP header on; all when absent. Recordings that kept only the start of packets need it.
    pub bytes: Option<u32>,
}

/// One of two recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one made before the device.
    Before,
    /// The one made after it.
    After,
}

/// The reason for which two recordings cannot be compared.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct BetweenError {
    /// The recording that is wrong.
    pub side: Side,
    /// The fault.
    pub why: Fault,
}

/// A fault of a recording.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is not a capture.
    #[error("not a capture; formats are pcap and pcapng")]
    Unknown,
    /// It does not follow its own format.
    #[error("packet {packet}: {what}")]
    Format {
        /// The packet, from 1.
        packet: u64,
        /// Description of the fault.
        what: String,
    },
    /// A packet that was recorded before the one in front of it.
    #[error("packet {packet} is {} ns older than the one before it; put the recording in the order of time first", .by.0)]
    Unsorted {
        /// The packet, from 1.
        packet: u64,
        /// Age difference.
        by: Nanos,
    },
    /// Fewer bytes of a packet were kept than are compared.
    #[error(
        "packet {packet}: {kept} of {len} B from the IP header on were kept; compare the start of packets with --bytes {kept}, or record whole packets"
    )]
    Cut {
        /// The packet, from 1.
        packet: u64,
        /// Bytes from the IP header on that were kept.
        kept: usize,
        /// Bytes from there on that are compared.
        len: usize,
    },
    /// An unsupported link type.
    #[error(
        "packet {packet}: of a link of type {link_type}, which is unknown; known types are Ethernet (1) and bare IP (101, 228, 229)"
    )]
    LinkType {
        /// The packet, from 1.
        packet: u64,
        /// The number of its type.
        link_type: u32,
    },
    /// More packets than [`MAX_WAITING`] within the longest delay.
    #[error("more than {MAX_WAITING} packets within {} s, up to packet {packet}; a shorter --within needs less memory", .within.0 as f64 / 1e9)]
    TooMany {
        /// The packet, from 1.
        packet: u64,
        /// The longest delay.
        within: Nanos,
    },
}

/// One-way delays in seconds. Percentiles are exact to 0.1 % or 1 ns, whichever is more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelaySpread {
    /// Shortest; below 0 if the clocks disagree.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median and 99th percentile; absent for classes beyond the first [`MAX_SPREADS`].
    pub p50_p99: Option<(f64, f64)>,
    /// Longest.
    pub max: f64,
    /// Mean of the changes, without their signs, from each packet to the next behind the device (RFC 3393); absent for a single packet.
    pub jitter: Option<f64>,
}

/// The counts and delays of the packets of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Passage {
    /// Packets before the device.
    pub packets: u64,
    /// Packets found behind the device.
    pub found: u64,
    /// Packets not found behind the device.
    pub lost: u64,
    /// Lost packets that arrived after the end of the second recording, which may be the reason.
    pub lost_after_the_end: u64,
    /// Copies behind the device of packets that had been found there.
    pub doubled: u64,
    /// Found packets that came out behind one of the same class that went in later.
    pub out_of_order: u64,
    /// Found packets that seem to have come out before they went in: the clocks disagree.
    pub negative: u64,
    /// Packets that repeat the content of an earlier one within the longest delay; only their order distinguishes them
    /// behind the device.
    pub equal: u64,
    /// Delays of those found.
    pub delay: Option<DelaySpread>,
}

/// The comparison of two recordings, which describes the device between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Between {
    /// By class, those that have packets in the first recording, in the order of their numbers.
    pub classes: Vec<(u32, Passage)>,
    /// All classes together.
    pub total: Passage,
    /// Packets of the second recording that are not in the first.
    pub only_after: u64,
    /// Packets among them from before the start of the first recording.
    pub only_after_from_before_the_start: u64,
    /// Packets of the second recording.
    pub after_packets: u64,
    /// True if a recording ends in the middle of a packet, which is left out.
    pub cut_off: [bool; 2],
}

/// A packet for classification.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its bytes as far as they were kept: an Ethernet frame, or an IP packet.
    pub bytes: &'a [u8],
    /// True if it is an IP packet without a link header.
    pub bare_ip: bool,
}

/// Compares two recordings. `class_of` gives the class of a packet of the first. `pair` gets the times of every packet that was found, in ns since 1970 as they
/// were recorded, in the order of the first recording; an error of it ends the work.
///
/// # Errors
/// [`BetweenError`], and the error that `pair` returns.
pub fn between<E: From<BetweenError>>(
    (before, after): (impl Read, impl Read),
    config: &BetweenConfig,
    mut class_of: impl FnMut(Seen<'_>) -> u32,
    pair: impl FnMut(u64, u64) -> Result<(), E>,
) -> Result<Between, E> {
    let wrong = |side| move |why| E::from(BetweenError { side, why });
    let mut before = Reader::new(before).map_err(wrong(Side::Before))?;
    let mut after = Reader::new(after).map_err(wrong(Side::After))?;
    let content = Content::new(config.bytes);
    let mut pairing = Pairing::new(*config, pair);
    // A time by the first clock, which may lie before 1970.
    let moved = |at: Nanos| i128::from(at.0) - i128::from(config.offset_ns);
    let mut next = before.next().map_err(wrong(Side::Before))?;
    let mut next_after = after.next().map_err(wrong(Side::After))?;
    loop {
        let side = match (&next, &next_after) {
            (None, None) => break,
            (Some(one), Some(other)) if i128::from(one.at.0) > moved(other.at) => Side::After,
            (Some(_), _) => Side::Before,
            (None, Some(_)) => Side::After,
        };
        let (number, packet) = match side {
            Side::Before => (before.packets, next.as_ref()),
            Side::After => (after.packets, next_after.as_ref()),
        };
        let Some(packet) = packet else { break };
        let known = content.of(packet, number).map_err(wrong(side))?;
        let room = match side {
            Side::Before => pairing.before(known, packet.at.0, class_of(packet.frame()))?,
            Side::After => pairing.after(known, (moved(packet.at), packet.at.0))?,
        };
        if !room {
            return Err(wrong(side)(Fault::TooMany { packet: number, within: config.within }));
        }
        match side {
            Side::Before => next = before.next().map_err(wrong(side))?,
            Side::After => next_after = after.next().map_err(wrong(side))?,
        }
        if next_after.is_none() {
            pairing.after_ended();
        }
    }
    let mut report = pairing.end()?;
    report.cut_off = [before.cut_off, after.cut_off];
    Ok(report)
}

impl Captured {
    fn frame(&self) -> Seen<'_> {
        Seen { bytes: &self.bytes, bare_ip: self.bare_ip }
    }
}

#[cfg(test)]
mod tests;
