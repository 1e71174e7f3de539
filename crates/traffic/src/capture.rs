//! Recorded packets, read from captures (pcap, pcapng) and from trace files of our own (CSV).
//!
//! Lengths are those on the wire, even if only a part of a packet was kept. Captures of bare IP packets count an
//! Ethernet header more.
//!
//! A faulty recording is refused, with the number of the packet or line: packets out of time order, an end in the
//! middle of a packet, packets of which only a part was kept, unsupported link types. [`Accept`] has the tolerated
//! faults.
//!
//! A trace file is CSV with a line of names. `arrival_s` and `bytes` are read: a time in seconds with up to nine
//! decimals, and a length. `class` is read if there is one. Other columns are ignored, so that the output of `sim
//! --trace` can be replayed.

use std::io::{self, BufRead, BufReader, Read};

use fairlink_core::{NANOS_PER_SEC, Nanos};
use pcap_file::DataLink;
use pcap_file::pcap::{PcapReadError, PcapReader};
use pcap_file::pcapng::{Block, PcapNgReadError, PcapNgReader};

use crate::error::SourceError;
use crate::models::{Arrival, Trace};

/// Most packets of a recording; 16 bytes each.
pub const MAX_TRACE_PACKETS: usize = 1 << 26;

/// Longest block of a capture that is read, in bytes.
pub(crate) const MAX_BLOCK: usize = 1 << 24;

/// Length of the header that an IP packet has on an Ethernet link, in bytes.
const ETHERNET_HEADER: u32 = 14;

/// Faults that are tolerated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accept {
    /// Packets out of time order: they are sorted.
    pub unsorted: bool,
    /// A recording that ends in the middle of a packet: the complete packets are used.
    pub truncated: bool,
    /// Packets of which only a part was kept: their lengths are used, and the captured bytes.
    pub cut: bool,
    /// Packets of an unknown link type: their lengths are used unchanged.
    pub link_type: bool,
}

/// A filter's view of a recorded packet.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// The known bytes of its Ethernet frame: all captured bytes, none for a line of a trace file. Bare IP packets have
    /// no frame; their bytes begin behind the header.
    pub bytes: &'a [u8],
    /// True if `bytes` are a bare IP packet.
    pub bare_ip: bool,
    /// The class of a line of a trace file.
    pub class: Option<&'a str>,
}

/// The reason for which a recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// Neither a capture nor a trace file.
    #[error(
        "neither a capture (pcap, pcapng) nor a trace file, which begins with a line of names, arrival_s and bytes among them"
    )]
    Unknown,
    /// It does not follow its own format.
    #[error("packet {packet}: {what}")]
    Format {
        /// The packet, from 1.
        packet: u64,
        /// Description of the fault.
        what: String,
    },
    /// A line that cannot be read.
    #[error("line {line}: {what}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// Description of the fault.
        what: &'static str,
    },
    /// It ends in the middle of a packet.
    #[error("it ends in the middle of packet {packet}; accept = [\"truncated\"] uses those before it")]
    Truncated {
        /// The packet, from 1.
        packet: u64,
    },
    /// A packet that was recorded before the one in front of it.
    #[error("packet {packet} is {} ns older than the one before it; accept = [\"unsorted\"] puts them in order", .by.0)]
    Unsorted {
        /// The packet, from 1.
        packet: u64,
        /// Age difference.
        by: Nanos,
    },
    /// A packet of which only a part was kept.
    #[error(
        "packet {packet}: {kept} of {len} B were kept; accept = [\"cut\"] uses its length, and its headers as far as they reach"
    )]
    Cut {
        /// The packet, from 1.
        packet: u64,
        /// Bytes that were kept.
        kept: usize,
        /// Its length.
        len: u32,
    },
    /// An unsupported link type.
    #[error(
        "packet {packet}: of a link of type {link_type}, which is unknown; known types are Ethernet (1) and bare IP (101, 228, 229). accept = [\"link_type\"] uses lengths as they stand"
    )]
    LinkType {
        /// The packet, from 1.
        packet: u64,
        /// The number of its type.
        link_type: u32,
    },
    /// More packets than [`MAX_TRACE_PACKETS`].
    #[error("more than {limit} packets; cut it into pieces")]
    TooLong {
        /// [`MAX_TRACE_PACKETS`].
        limit: usize,
    },
    /// No packet that the filter takes.
    #[error("none of {packets} packets is accepted")]
    NothingTaken {
        /// Number of packets.
        packets: u64,
    },
    /// It cannot be replayed.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// Reads the packets that `take` accepts from a recording of any of the formats, to be replayed once or forever.
///
/// # Errors
/// The first [`CaptureError`].
pub fn read_trace(
    reader: impl Read,
    accept: Accept,
    repeat: bool,
    mut take: impl FnMut(Recorded<'_>) -> bool,
) -> Result<Trace, CaptureError> {
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    let start: Vec<u8> = reader.fill_buf()?.iter().take(4).copied().collect();
    let mut packets =
        Packets { accept, take: &mut take, all: Vec::new(), seen: 0, first: Nanos(u64::MAX), last: Nanos::ZERO };
    // A line of names that is there is within the first bytes: other files may have no line at all.
    let is_csv = first_line_has(reader.buffer(), b"arrival_s");
    match (is_pcap(&start), is_pcapng(&start)) {
        (true, _) => pcap(reader, &mut packets)?,
        (_, true) => pcapng(reader, &mut packets)?,
        _ if is_csv => csv(reader, &mut packets)?,
        _ => return Err(CaptureError::Unknown),
    }
    let Packets { all, seen, first, .. } = packets;
    if all.is_empty() {
        return Err(CaptureError::NothingTaken { packets: seen });
    }
    Ok(Trace::since(first, all, repeat)?)
}

/// Returns true if a file that begins like this is a pcap: the magic numbers of microseconds and nanoseconds, in both orders of bytes.
pub(crate) fn is_pcap(start: &[u8]) -> bool {
    let magic =
        [[0xa1, 0xb2, 0xc3, 0xd4], [0xd4, 0xc3, 0xb2, 0xa1], [0xa1, 0xb2, 0x3c, 0x4d], [0x4d, 0x3c, 0xb2, 0xa1]];
    magic.iter().any(|magic| start.starts_with(magic))
}

/// Returns true if a file that begins like this is a pcapng.
pub(crate) fn is_pcapng(start: &[u8]) -> bool {
    start.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a])
}

/// The packets read so far.
struct Packets<'a> {
    accept: Accept,
    take: &'a mut dyn FnMut(Recorded<'_>) -> bool,
    all: Vec<Arrival>,
    /// Packets read, accepted or not.
    seen: u64,
    /// The time of the earliest packet, taken or not.
    first: Nanos,
    last: Nanos,
}

impl Packets<'_> {
    /// Returns the number of the current packet, from 1.
    fn number(&self) -> u64 {
        self.seen + 1
    }

    /// Handles a packet of `len` bytes on a link of this type, of which `bytes` were kept.
    fn captured(&mut self, at: Nanos, len: u32, link: DataLink, bytes: &[u8]) -> Result<(), CaptureError> {
        let packet = self.number();
        if bytes.len() < len as usize && !self.accept.cut {
            return Err(CaptureError::Cut { packet, kept: bytes.len(), len });
        }
        let bare_ip = matches!(link, DataLink::RAW | DataLink::IPV4 | DataLink::IPV6);
        let known = bare_ip || link == DataLink::ETHERNET;
        if !known && !self.accept.link_type {
            return Err(CaptureError::LinkType { packet, link_type: u32::from(link) });
        }
        let len = if bare_ip { len.saturating_add(ETHERNET_HEADER) } else { len };
        self.add(at, len, Recorded { bytes: if known { bytes } else { &[] }, bare_ip, class: None })
    }

    fn add(&mut self, at: Nanos, len: u32, recorded: Recorded<'_>) -> Result<(), CaptureError> {
        let packet = self.number();
        if at < self.last && !self.accept.unsorted {
            return Err(CaptureError::Unsorted { packet, by: self.last - at });
        }
        if len == 0 {
            return Err(CaptureError::Format { packet, what: "it has no bytes".to_owned() });
        }
        (self.first, self.last) = (self.first.min(at), at);
        self.seen += 1;
        if (self.take)(recorded) {
            if self.all.len() == MAX_TRACE_PACKETS {
                return Err(CaptureError::TooLong { limit: MAX_TRACE_PACKETS });
            }
            self.all.push(Arrival { at, len });
        }
        Ok(())
    }

    /// Handles data that ends in the middle of a packet. Fails unless truncated recordings are accepted.
    fn end(&self, error: Option<&io::Error>, what: impl FnOnce() -> String) -> Result<(), CaptureError> {
        let packet = self.number();
        match error {
            Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                if self.accept.truncated {
                    Ok(())
                } else {
                    Err(CaptureError::Truncated { packet })
                }
            }
            _ => Err(CaptureError::Format { packet, what: what() }),
        }
    }

    fn time(&self, since_epoch: std::time::Duration) -> Result<Nanos, CaptureError> {
        u64::try_from(since_epoch.as_nanos()).map(Nanos).map_err(|_| CaptureError::Format {
            packet: self.number(),
            what: "its time is after the year 2554".to_owned(),
        })
    }
}

fn pcap(reader: impl Read, packets: &mut Packets<'_>) -> Result<(), CaptureError> {
    let mut pcap = match PcapReader::with_capacity(reader, MAX_BLOCK) {
        Ok(pcap) => pcap,
        Err(PcapReadError::Io(error)) => return packets.end(Some(&error), || error.to_string()),
        Err(error) => return packets.end(None, || error.to_string()),
    };
    let link = pcap.header().datalink;
    while let Some(packet) = pcap.next_packet() {
        match packet {
            Ok(packet) => {
                let at = packets.time(packet.timestamp())?;
                packets.captured(at, packet.orig_len(), link, packet.data())?;
            }
            Err(PcapReadError::Io(error)) => return packets.end(Some(&error), || error.to_string()),
            Err(error) => return packets.end(None, || error.to_string()),
        }
    }
    Ok(())
}

fn pcapng(reader: impl Read, packets: &mut Packets<'_>) -> Result<(), CaptureError> {
    let mut pcapng = match PcapNgReader::with_capacity(reader, MAX_BLOCK) {
        Ok(pcapng) => pcapng,
        Err(PcapNgReadError::Io(error)) => return packets.end(Some(&error), || error.to_string()),
        Err(error) => return packets.end(None, || error.to_string()),
    };
    while let Some(block) = pcapng.next_block() {
        let (block, state) = match block {
            Ok(block) => block,
            Err(PcapNgReadError::Io(error)) => return packets.end(Some(&error), || error.to_string()),
            Err(error) => return packets.end(None, || error.to_string()),
        };
        let wrong = |what: &str| CaptureError::Format { packet: packets.number(), what: what.to_owned() };
        let (interface, time, len, data) = match &block {
            Block::EnhancedPacket(packet) => (packet.interface_id, packet.timestamp, packet.original_len, &packet.data),
            Block::Packet(packet) => (packet.interface_id.into(), packet.timestamp, packet.original_len, &packet.data),
            Block::SimplePacket(_) => return Err(wrong("it has no time (a simple packet block)")),
            _ => continue,
        };
        let Some(interface) = state.interfaces().get(interface as usize) else {
            return Err(wrong("its interface is not described"));
        };
        let at = packets.time(time)?;
        packets.captured(at, len, interface.linktype, data)?;
    }
    Ok(())
}

fn first_line_has(bytes: &[u8], word: &[u8]) -> bool {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.windows(word.len()).any(|part| part == word)
}

fn csv(mut reader: impl BufRead, packets: &mut Packets<'_>) -> Result<(), CaptureError> {
    let mut head = String::new();
    match reader.read_line(&mut head) {
        Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(error.into()),
        Err(_) | Ok(0) => return Err(CaptureError::Unknown),
        Ok(_) => {}
    }
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let column = |name| names.iter().position(|&column| column == name);
    let (Some(at), Some(bytes)) = (column("arrival_s"), column("bytes")) else { return Err(CaptureError::Unknown) };
    let class = column("class");
    let mut text = String::new();
    for line in 2.. {
        text.clear();
        if reader.read_line(&mut text)? == 0 {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        // Hand-written files may lack the last line's end. A truncated line lacks fields, too.
        let is_cut = !text.ends_with('\n') && text.split(',').count() < names.len();
        if is_cut && packets.accept.truncated {
            break;
        }
        if is_cut {
            return Err(CaptureError::Truncated { packet: packets.number() });
        }
        let wrong = |what| CaptureError::Line { line, what };
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() != names.len() {
            return Err(wrong("it has not as many fields as the line of names"));
        }
        let at =
            seconds(fields[at]).ok_or_else(|| wrong("arrival_s is not a time in seconds with up to nine decimals"))?;
        let len = fields[bytes].parse().ok().filter(|&len: &u32| len > 0);
        let len = len.ok_or_else(|| wrong("bytes is no length above 0"))?;
        packets.add(at, len, Recorded { bytes: &[], bare_ip: false, class: class.map(|class| fields[class]) })?;
    }
    Ok(())
}

/// Parses a time in seconds, exact to a nanosecond; `None` if it is not a time, or is finer or longer than 64 bits of
/// nanoseconds.
fn seconds(text: &str) -> Option<Nanos> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(decimals) || decimals.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let decimals: u64 = format!("{decimals:0<9}").parse().ok()?;
    Some(Nanos(whole.checked_mul(NANOS_PER_SEC)?.checked_add(decimals)?))
}

#[cfg(test)]
mod tests;
